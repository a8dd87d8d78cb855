/* memory: what values take that are alive at once, held under a bound.
 *
 * Nodes run in their order; a value between kernels, and its copy in another layout, is alive from
 * the node that makes it to the last that reads it. What lies in
 * room, or in blocks that go on behind the end, is larger, so the sum depends on the choice. For
 * each node whose sum may be over the bound there is one more table: 0 where it is not, infinity
 * where it is, over those values that have more than one size. The exact search then finds the
 * least time within the bound by itself.
 *
 * The sum is not what the plan takes to the byte: it leaves out that an output may take over an
 * input's memory, and that packing may leave gaps. So a bound that no choice keeps is not refused
 * here; the least that is alive is chosen then, and the plan has the last word.
 */
#include "format/internal.h"

#include <math.h>

enum { ALIGN = 64 }; /* of a value in the arena */

static int64_t
bytes_of(Ctx *c, const Type *t)
{
    int64_t bytes = expr_bounds(c, NULL, type_bytes(c, t)).hi;
    return bytes > INT64_MAX - ALIGN ? INT64_MAX : (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t
sum(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Values that are alive, one node after the other. */
typedef struct {
    const Graph *g;
    NodeId *last;
    ValueId *at;
    uint32_t n;
} Alive;

/* What the caller has a place for is not counted. */
static Alive
alive_before(const Graph *g, Arena *a)
{
    Alive l = { g, NEW_ARRAY(a, NodeId, g->value.n), NEW_ARRAY(a, ValueId, g->value.n), 0 };

    for (NodeId n = 1; n < g->node.n; n++) {
        for (uint32_t i = 0; i < g->node.at[n].out.count; i++)
            l.last[node_out(g, &g->node.at[n], i)] = n;
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            l.last[node_in(g, &g->node.at[n], i)] = n;
    }
    for (uint32_t i = 0; i < g->output.n; i++)
        l.last[g->output.at[i]] = 0;
    return l;
}

static void
alive_at(Alive *l, NodeId n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < l->n; i++)
        if (l->last[l->at[i]] >= n)
            l->at[kept++] = l->at[i];
    l->n = kept;
    for (uint32_t i = 0; i < l->g->node.at[n].out.count; i++) {
        ValueId v = node_out(l->g, &l->g->node.at[n], i);
        if (v && l->last[v])
            l->at[l->n++] = v;
    }
}

int64_t *
format_alive(const Graph *g, Arena *a)
{
    int64_t *bytes = NEW_ARRAY(a, int64_t, g->node.n);
    Alive l = alive_before(g, a);

    for (NodeId n = 1; n < g->node.n; n++) {
        alive_at(&l, n);
        for (uint32_t i = 0; i < l.n; i++)
            bytes[n] = sum(bytes[n], bytes_of(g->ctx, g->value.at[l.at[i]].type));
    }
    return bytes;
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct {
    Formats *f;
    /* [nvar][size]; of each choice: of a value as it is made, and of its copy */
    int64_t **bytes;
    int64_t *least, *most; /* [nvar] */
} Memory;

static int64_t
bytes_of_choice(const Formats *f, uint32_t var, uint32_t choice)
{
    const Variable *x = &f->variable.at[f->owner.at[var]];
    const Type *type = f->g->value.at[x->value].type;
    bool copy = x->copy == var + 1;

    if (var >= f->variable.n && (!copy || !choice))
        /* who reads takes nothing; there is no copy */
        return 0;
    const Layout *l = x->layout[choice - copy];
    return bytes_of(f->ctx, l ? layout_type(f->ctx, l, type) : type);
}

static Memory
memory_of(Formats *f)
{
    Memory m = { f, NEW_ARRAY(f->arena, int64_t *, f->nvar), NEW_ARRAY(f->arena, int64_t, f->nvar),
                 NEW_ARRAY(f->arena, int64_t, f->nvar) };

    for (uint32_t x = 0; x < f->nvar; x++) {
        m.bytes[x] = NEW_ARRAY(f->arena, int64_t, f->size[x]);
        m.least[x] = INT64_MAX;
        for (uint32_t c = 0; c < f->size[x]; c++) {
            m.bytes[x][c] = bytes_of_choice(f, x, c);
            m.least[x] = m.bytes[x][c] < m.least[x] ? m.bytes[x][c] : m.least[x];
            m.most[x] = m.bytes[x][c] > m.most[x] ? m.bytes[x][c] : m.most[x];
        }
    }
    return m;
}

/* Only what takes least, of a variable. */
static void
add_least(Memory *m, uint32_t x)
{
    Formats *f = m->f;
    double *cost = NEW_ARRAY(f->arena, double, f->size[x]);
    uint32_t *var = NEW(f->arena, uint32_t);

    *var = x;
    for (uint32_t c = 0; c < f->size[x]; c++)
        cost[c] = m->bytes[x][c] > m->least[x] ? INFINITY : 0;
    VEC_PUSH(f->arena, &f->bound, ((FormatFactor){ 1, var, cost }));
}

static void
add_table(Memory *m, uint32_t nvar, const uint32_t *var, int64_t rest)
{
    Formats *f = m->f;
    uint64_t entries = 1;

    for (uint32_t i = 0; i < nvar; i++)
        entries *= f->size[var[i]];
    double *cost = NEW_ARRAY(f->arena, double, entries);
    for (uint64_t at = 0; at < entries; at++) {
        uint64_t left = at;
        int64_t bytes = rest;
        for (uint32_t i = nvar; i-- > 0; left /= f->size[var[i]])
            bytes = sum(bytes, m->bytes[var[i]][left % f->size[var[i]]]);
        cost[at] = bytes > f->wish->max_alive ? INFINITY : 0;
    }
    VEC_PUSH(f->arena, &f->bound, ((FormatFactor){ nvar, var, cost }));
}

/* What is alive at a node: values of one size as a sum, the others as a table. Of more than one
 * table can hold some lie as they take least. */
static void
bound_node(Memory *m, const Alive *alive)
{
    Formats *f = m->f;
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, f->nvar), nvar = 0;
    int64_t rest = 0, most;
    uint64_t entries = 1;

    for (uint32_t i = 0; i < alive->n; i++) {
        uint32_t x = f->var[alive->at[i]] - 1;
        if (!f->var[alive->at[i]])
            rest = sum(rest, bytes_of(f->ctx, f->g->value.at[alive->at[i]].type));
        else if (m->least[x] == m->most[x])
            rest = sum(rest, m->least[x]);
        else
            var[nvar++] = x;
        if (f->var[alive->at[i]] && f->variable.at[x].copy)
            var[nvar++] = f->variable.at[x].copy - 1;
    }
    most = rest;
    for (uint32_t i = 0; i < nvar; i++)
        most = sum(most, m->most[var[i]]);
    if (most <= f->wish->max_alive || !nvar)
        return;
    for (uint32_t i = 0; i < nvar; i++) {
        if ((entries *= f->size[var[i]]) <= FORMAT_MAX_TABLE)
            continue;
        entries /= f->size[var[i]];
        add_least(m, var[i]);
        rest = sum(rest, m->least[var[i]]);
        var[i--] = var[--nvar];
        f->narrowed = true;
    }
    add_table(m, nvar, var, rest);
}

void
format_bound(Formats *f)
{
    if (!f->wish->max_alive)
        return;
    Memory m = memory_of(f);
    Alive alive = alive_before(f->g, f->arena);
    for (NodeId n = 1; n < f->g->node.n; n++) {
        alive_at(&alive, n);
        bound_node(&m, &alive);
    }
}

void
format_bound_least(Formats *f)
{
    Memory m = memory_of(f);

    f->bound.n = 0;
    for (uint32_t x = 0; x < f->nvar; x++)
        if (m.least[x] < m.most[x])
            add_least(&m, x);
}

int64_t
format_alive_most(Formats *f, const uint32_t *choice, NodeId *where)
{
    Memory m = memory_of(f);
    Alive alive = alive_before(f->g, f->arena);
    int64_t most = 0;

    for (NodeId n = 1; n < f->g->node.n; n++) {
        int64_t bytes = 0;
        alive_at(&alive, n);
        for (uint32_t i = 0; i < alive.n; i++) {
            uint32_t x = f->var[alive.at[i]];
            bytes = sum(bytes, x ? m.bytes[x - 1][choice[x - 1]]
                                 : bytes_of(f->ctx, f->g->value.at[alive.at[i]].type));
            if (x && f->variable.at[x - 1].copy)
                bytes = sum(bytes, m.bytes[f->variable.at[x - 1].copy - 1]
                                          [choice[f->variable.at[x - 1].copy - 1]]);
        }
        if (bytes > most) {
            most = bytes;
            *where = n;
        }
    }
    return most;
}
