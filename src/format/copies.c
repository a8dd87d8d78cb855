/* copies: a value that several kernels read may lie in memory twice, in two layouts.
 *
 * One who reads it has a choice of his own then: the layout in which it was made, or that of the
 * copy, if there is one. In the search that is a variable for the copy (none, or a layout) and one
 * for each reader; a table of each reader says that it reads what there is, a table of the value
 * what the copy takes: a kernel of its own, priced as every kernel is, once, however many read what
 * it makes. Kernels' tables stay as they are, over what they read instead of what was made.
 *
 * A copy is priced when somebody wants it. Until then it costs nothing, so what is found then is a
 * lower bound, and where that is no better than what is found without copies, or has none that is
 * not priced, the search is over: few models ask for any.
 */
#include "format/internal.h"

#include <math.h>
#include <string.h>

static uint32_t
new_variable(Formats *f, uint32_t owner, uint32_t size)
{
    VEC_PUSH(f->arena, &f->owner, owner);
    VEC_PUSH(f->arena, &f->choices, size);
    return f->owner.n - 1;
}

/* The nodes that read a value, each once. */
static uint32_t
readers_of(const Formats *f, ValueId v, NodeId *reader)
{
    uint32_t n = 0;

    for (uint32_t i = f->users.first[v]; i < f->users.first[v + 1]; i++)
        if (!n || reader[n - 1] != f->users.node[i])
            reader[n++] = f->users.node[i];
    return n;
}

static void
read_by_itself(Formats *f, NodeId n, ValueId v, uint32_t var)
{
    const Node *node = &f->g->node.at[n];

    for (uint32_t i = 0; i < node->in.count; i++)
        if (node_in(f->g, node, i) == v)
            f->at[node->in.first + i] = var + 1;
}

void
format_copies(Formats *f)
{
    f->at = NEW_ARRAY(f->arena, uint32_t, f->g->ref.n + 1);
    for (uint32_t i = 0; i < f->g->ref.n; i++)
        f->at[i] = f->var[f->g->ref.at[i]];
    for (uint32_t x = 0; x < f->variable.n; x++)
        new_variable(f, x, f->variable.at[x].n);
    for (uint32_t x = 0; x < f->variable.n && f->wish->how == FORMAT_LAYOUTS; x++) {
        ValueId v = f->variable.at[x].value;
        Copy c = { .x = x,
                   .reader =
                       NEW_ARRAY(f->arena, NodeId, f->users.first[v + 1] - f->users.first[v] + 1) };
        c.nreader = readers_of(f, v, c.reader);
        if (c.nreader < 2 || !format_has_choice(f, v))
            continue;
        c.var = new_variable(f, x, f->variable.at[x].n + 1);
        for (uint32_t i = 0; i < c.nreader; i++)
            read_by_itself(f, c.reader[i], v, new_variable(f, x, f->variable.at[x].n));
        f->variable.at[x].copy = c.var + 1;
        VEC_PUSH(f->arena, &f->copy, c);
    }
    f->size = f->choices.at;
    f->nvar = f->choices.n;
}

/* ---- what a copy is -------------------------------------------------------------------------- */

const char *
format_origin_of_copy(const Formats *f, const Copy *c)
{
    return sym_printf(f->ctx, "Copy \"%s\"", f->variable.at[c->x].name);
}

static Kernel *
copy_kernel(const Formats *f, Arena *a, const Copy *c, uint32_t from, uint32_t to)
{
    const Variable *x = &f->variable.at[c->x];
    const Type *type = f->g->value.at[x->value].type;
    const NestParam param[] = { { sym(f->ctx, "x"), type }, { sym(f->ctx, "o"), type } };
    const Layout *const layout[] = { x->layout[from], x->layout[to] };
    Text index = { .arena = a };

    for (uint32_t d = 0; d < type->rank; d++)
        text_printf(&index, "%si%u", d ? ", " : "", d);
    const Nest *n =
        nest_of_text(f->ctx, "copy", 1, 1, param, 0, NULL,
                     arena_printf(a, "o[%s] = x[%s]", text_str(&index), text_str(&index)));
    if (!n)
        return NULL;
    Kernel *k = kernel_of_nest(f->ctx, a, nest_named(f->ctx, n));
    k->origin = format_origin_of_copy(f, c);
    k->shared = type->rank;
    return kernel_lay(f->ctx, a, k, layout);
}

/* Picoseconds of a copy, INFINITY where there is none to be made. */
static double
copy_cost(const Formats *f, const Copy *c, uint32_t from, uint32_t to)
{
    Arena *scratch = arena_child(f->arena);
    double cost = format_price(f, 0, copy_kernel(f, scratch, c, from, to));

    arena_free(scratch);
    return cost;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void
add(Formats *f, uint32_t n, const uint32_t *var, const double *cost)
{
    VEC_PUSH(f->arena, &f->link,
             ((FormatFactor){ n, arena_copy(f->arena, var, n * sizeof *var), cost }));
}

void
format_link_copies(Formats *f)
{
    for (uint32_t i = 0; i < f->copy.n; i++) {
        Copy *c = &f->copy.at[i];
        uint32_t n = f->variable.at[c->x].n;
        double *reads = NEW_ARRAY(f->arena, double, n *(n + 1) * n);
        c->cost = NEW_ARRAY(f->arena, double, n *(n + 1));
        c->known = NEW_ARRAY(f->arena, bool, n *(n + 1));
        for (uint32_t from = 0; from < n; from++)
            for (uint32_t to = 0; to <= n; to++) {
                bool same =
                    to && format_same_memory(f->g->value.at[f->variable.at[c->x].value].type,
                                             f->variable.at[c->x].layout[from],
                                             f->variable.at[c->x].layout[to - 1]);
                c->cost[from * (n + 1) + to] = same ? INFINITY : 0;
                c->known[from * (n + 1) + to] = same || !to;
                for (uint32_t r = 0; r < n; r++)
                    reads[(from * (n + 1) + to) * n + r] = r == from || r + 1 == to ? 0 : INFINITY;
            }
        add(f, 2, (const uint32_t[]){ c->x, c->var }, c->cost);
        for (uint32_t r = 0; r < c->nreader; r++)
            add(f, 3, (const uint32_t[]){ c->x, c->var, c->var + 1 + r }, reads);
    }
}

bool
format_price_copies(Formats *f, const uint32_t *choice)
{
    bool any = false;

    for (uint32_t i = 0; i < f->copy.n; i++) {
        Copy *c = &f->copy.at[i];
        uint32_t at = choice[c->x] * (f->variable.at[c->x].n + 1) + choice[c->var];
        if (c->known[at])
            continue;
        c->cost[at] = copy_cost(f, c, choice[c->x], choice[c->var] - 1);
        c->known[at] = any = true;
    }
    return any;
}

double
format_cost_of_copy(const Formats *f, const Copy *c, const uint32_t *choice)
{
    return c->cost[choice[c->x] * (f->variable.at[c->x].n + 1) + choice[c->var]];
}

/* No copies: all read what was made. */
void
format_follow(const Formats *f, uint32_t *choice)
{
    for (uint32_t i = 0; i < f->copy.n; i++) {
        const Copy *c = &f->copy.at[i];
        choice[c->var] = 0;
        for (uint32_t r = 0; r < c->nreader; r++)
            choice[c->var + 1 + r] = choice[c->x];
    }
}

/* ---- carrying it out ------------------------------------------------------------------------- */

/* The last node of the graph becomes the one behind `n`. */
static void
move_behind(Graph *g, NodeId n)
{
    Node last = g->node.at[g->node.n - 1];

    for (NodeId i = g->node.n - 1; i > n + 1; i--)
        g->node.at[i] = g->node.at[i - 1];
    g->node.at[n + 1] = last;
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].def > n)
            g->value.at[v].def++;
    for (uint32_t i = 0; i < last.out.count; i++)
        g->value.at[g->ref.at[last.out.first + i]].def = n + 1;
}

static bool
make_copy(Formats *f, const Copy *c, const uint32_t *choice)
{
    Graph *g = f->g;
    const Variable *x = &f->variable.at[c->x];
    ValueId in = x->value;
    uint32_t to = choice[c->var] - 1;
    Kernel *k = copy_kernel(f, g->arena, c, choice[c->x], to);
    Text name = { .arena = f->arena };

    if (!k)
        return false;
    text_printf(&name, "%s_", x->name);
    layout_print(&name, k->part->nest->param[0].type->rank, x->layout[to]);
    ValueId out = graph_value(g, text_str(&name), k->buffer.at[1].type);
    graph_call_kernel(g, k, g->node.at[g->value.at[in].def].loc, sym(f->ctx, k->origin), &in, &out);
    for (uint32_t r = 0; r < c->nreader; r++) {
        const Node *reader = &g->node.at[c->reader[r]];
        for (uint32_t i = 0; choice[c->var + 1 + r] != choice[c->x] && i < reader->in.count; i++)
            if (node_in(g, reader, i) == in)
                g->ref.at[reader->in.first + i] = out;
    }
    return true;
}

/* Readers are named by number: all copies are made before any is moved to its place, those behind
 * later nodes first. */
bool
format_make_copies(Formats *f, const uint32_t *choice)
{
    NodeId first = f->g->node.n;

    for (uint32_t i = 0; i < f->copy.n; i++)
        if (choice[f->copy.at[i].var] && !make_copy(f, &f->copy.at[i], choice))
            return false;
    for (NodeId n = first; n < f->g->node.n; n++)
        move_behind(f->g, f->g->value.at[node_in(f->g, &f->g->node.at[f->g->node.n - 1], 0)].def);
    return true;
}
