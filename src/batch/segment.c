/* segment: the nests between two nodes of control as blocks.
 *
 * A segment has up to three parts: what control reads and the host computes, what results alone
 * depend on, and everything else. Each is a block, or several if nests depend on different sizes
 * (groups.c). A nest that only gives another shape to a row of an earlier segment is in no block: it
 * is that row. Shared values belong to no block: each block computes those that it reads.
 */
#include "batch/internal.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

static void
put_block(ControlCode *k, BlockParts *p, BlockKind kind, bool last)
{
    Batching *b = k->b;
    uint32_t *type = NEW_ARRAY(b->to, uint32_t, p->in.n + p->out.n + 1);
    const Node *made_last = p->node.n ? &p->g->node.at[p->node.at[p->node.n - 1]] : NULL;

    p->shared = b->shared + batch_run_of(b, p->g)->first;
    p->constant = b->constant + batch_run_of(b, p->g)->first;
    p->instances = b->made->instances;
    p->kind = kind;
    p->rows = b->made->rows;
    int32_t *in = NEW_ARRAY(b->a, int32_t, p->in.n + 1);
    bool *split = NULL;
    for (uint32_t i = 0; i < p->in.n; i++) {
        type[i] = batch_type_of(b, p->g, p->in.at[i]);
        in[i] = kind == BLOCK_HOST ? batch_slot_of(k, p->g, p->in.at[i])
                                   : batch_row_of(k, p->g, p->in.at[i]);
    }
    Graph *g = batch_block(b->to, p, arena_printf(b->a, "block_%u", b->made->block.n));
    if (!g) {
        k->ok = false;
        return;
    }
    batch_put(k, kind == BLOCK_HOST ? BATCH_HOST : BATCH_BLOCK);
    batch_put(k, b->made->block.n);
    for (uint32_t i = 0; i < p->in.n; i++)
        batch_put(k, in[i]);
    for (uint32_t i = 0; i < p->out.n; i++) {
        bool is_inline = kind == BLOCK_HOST && batch_is_small(b, p->g, p->out.at[i]);
        type[p->in.n + i] = batch_type_of(b, p->g, p->out.at[i]);
        if (b->split[batch_value(b, p->g, p->out.at[i])]) {
            split = split ? split : NEW_ARRAY(b->to, bool, p->out.n);
            split[i] = true;
        }
        batch_put(k, batch_fresh_slot(k, p->g, p->out.at[i], is_inline));
    }
    const char *name = made_last ? batch_called(b, made_last) : "constants";
    BatchBlock block = { name, p->in.n, p->out.n, p->node.n, type, kind, split, last };
    VEC_PUSH(b->to, &b->made->block, block);
    VEC_PUSH(b->to, &b->region, ((Region){ .graph = g }));
}

int32_t
batch_slot_of(ControlCode *k, const Graph *g, ValueId v)
{
    uint32_t x = batch_value(k->b, g, v);

    if (k->b->input[x])
        return BATCH_INPUT((int32_t)k->b->input[x] - 1);
    if (k->slot[x] == -1) {
        BlockParts p = { .g = g };
        VEC_PUSH(k->b->a, &p.out, v);
        put_block(k, &p, k->b->host[x] && k->b->needed[x] ? BLOCK_HOST : BLOCK_BATCHED, false);
    }
    return k->slot[x];
}

int32_t
batch_row_of(ControlCode *k, const Graph *g, ValueId v)
{
    uint32_t x = batch_value(k->b, g, v);
    int32_t slot = batch_slot_of(k, g, v);

    if (slot >= 0)
        return slot;
    if (k->row_made[x] != k->scope) {
        k->row[x] = batch_new_slot(k, false);
        k->row_made[x] = k->scope;
        batch_move(k, k->row[x], slot, g, v);
    }
    return k->row[x];
}

void
batch_write_routine(ControlCode *k, const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    const bool *shared = k->b->shared + batch_run_of(k->b, g)->first;
    BlockParts p = { .g = g };

    VEC_PUSH(k->b->a, &p.node, id);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        bool seen = !v || shared[v];
        for (uint32_t j = 0; j < p.in.n && !seen; j++)
            seen = p.in.at[j] == v;
        if (!seen)
            VEC_PUSH(k->b->a, &p.in, v);
    }
    for (uint32_t i = 0; i < n->out.count; i++)
        if (node_out(g, n, i))
            VEC_PUSH(k->b->a, &p.out, node_out(g, n, i));
    put_block(k, &p, BLOCK_SINGLE, false);
}

/* A block of these nests: its inputs are the values that others make, its outputs those that others
 * read. */
static void
put_nests(ControlCode *k, const Segment *s, const NodeId *node, uint32_t n, BlockKind kind,
          bool last)
{
    Arena *a = k->b->a;
    const Graph *g = s->g;
    BlockParts p = { .g = g };
    bool *inside = NEW_ARRAY(a, bool, g->node.n), *seen = NEW_ARRAY(a, bool, g->value.n);
    const bool *shared = k->b->shared + batch_run_of(k->b, g)->first;

    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++) {
        inside[node[i]] = true;
        VEC_PUSH(a, &p.node, node[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const Node *x = &g->node.at[node[i]];
        for (uint32_t j = 0; j < x->in.count; j++) {
            ValueId v = node_in(g, x, j);
            if (!shared[v] && !inside[g->value.at[v].def] && !seen[v])
                VEC_PUSH(a, &p.in, v);
            seen[v] = true;
        }
        for (uint32_t j = 0; j < x->out.count; j++) {
            ValueId v = node_out(g, x, j);
            bool outside = s->output[v];
            for (uint32_t u = s->users.first[v]; u < s->users.first[v + 1]; u++)
                outside |= !inside[s->users.node[u]];
            if (outside)
                VEC_PUSH(a, &p.out, v);
        }
    }
    put_block(k, &p, kind, last);
}

/* ---- segments -------------------------------------------------------------------------------- */

static bool
is_last(const Batching *b, const Graph *g, const Node *n)
{
    bool last = true;

    for (uint32_t i = 0; i < n->out.count; i++)
        last = last && b->last[batch_value(b, g, node_out(g, n, i))];
    return last;
}

/* The position of an access in its tensor, in row-major order. */
static const Expr *
position(Ctx *c, const Type *t, const Expr *const *at)
{
    const Expr *sum = expr_int(c, 0);

    for (uint32_t d = 0; d < t->rank; d++)
        sum = expr_add(c, expr_mul(c, sum, t->dim[d]), at[d]);
    return sum;
}

/* Does a nest give all elements of its input, in their order? */
static bool
is_view(Ctx *c, Arena *a, const Nest *n)
{
    const Write *w = n->write;
    const Scalar *s = w->value;

    if (n->nin != 1 || n->nwrite != 1 || n->nout != 1 || w->combiner != COMB_NONE ||
        s->op != S_LOAD || s->u.load.outside)
        return false;
    const Type *from = n->param[0].type, *to = n->param[1].type;
    Ranges r = nest_ranges(c, a, n);
    return from->dtype == to->dtype &&
           expr_eq(c, NULL, type_count(c, from), type_count(c, to)) == YES &&
           expr_eq(c, &r, position(c, from, s->u.load.at), position(c, to, w->at)) == YES;
}

/* The same row, if an earlier segment made it. */
static bool
put_view(ControlCode *k, const Graph *g, const Node *n)
{
    ValueId in = n->in.count ? node_in(g, n, 0) : 0, out = node_out(g, n, 0);

    if (!in || k->b->split[batch_value(k->b, g, out)] ||
        (k->slot[batch_value(k->b, g, in)] < 0 && !k->b->input[batch_value(k->b, g, in)]) ||
        !is_view(k->b->c, k->b->a, n->nest))
        return false;
    int32_t from = batch_row_of(k, g, in);
    batch_put(k, BATCH_VIEW);
    batch_put(k, batch_fresh_slot(k, g, out, false));
    batch_put(k, batch_type_of(k->b, g, out));
    batch_put(k, from);
    return true;
}

void
batch_add_nest(ControlCode *k, Segment *s, NodeId id)
{
    const Node *n = &s->g->node.at[id];
    uint32_t made = batch_value(k->b, s->g, node_out(s->g, n, 0));

    if (k->b->shared[made])
        return; /* computed by its readers */
    if (k->b->element[made])
        VEC_PUSH(k->b->a, &s->element, id);
    else if (k->b->host[made] && k->b->needed[made])
        VEC_PUSH(k->b->a, &s->host, id);
    else if (put_view(k, s->g, n))
        return;
    else if (is_last(k->b, s->g, n))
        VEC_PUSH(k->b->a, &s->last, id);
    else
        VEC_PUSH(k->b->a, &s->later, id);
}

/* Elements of split values, whose indices the host has computed. */
static void
put_element(ControlCode *k, const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    ValueId in[] = { node_in(g, n, BATCH_ELEMENT_OF), node_in(g, n, BATCH_ELEMENT_INDEX) };
    int32_t operand[] = { batch_slot_of(k, g, in[0]), batch_slot_of(k, g, in[1]) };

    batch_put(k, BATCH_ELEMENT);
    batch_put(k, batch_fresh_slot(k, g, node_out(g, n, 0), false));
    for (uint32_t i = 0; i < 2; i++) {
        batch_put(k, operand[i]);
        batch_put(k, batch_type_of(k->b, g, in[i]));
    }
}

static void
put_groups(ControlCode *k, const Segment *s, const NodeId *node, uint32_t n, bool last)
{
    uint32_t *group = NEW_ARRAY(k->b->a, uint32_t, n + 1);
    NodeId *inside = NEW_ARRAY(k->b->a, NodeId, n + 1);
    uint32_t ngroup = batch_group(k->b, s->keys, &s->users, node, n, group);

    for (uint32_t j = 1; j <= ngroup; j++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++)
            if (group[i] == j)
                inside[count++] = node[i];
        put_nests(k, s, inside, count, BLOCK_BATCHED, last);
    }
}

void
batch_end_segment(ControlCode *k, Segment *s)
{
    put_nests(k, s, s->host.at, s->host.n, BLOCK_HOST, false);
    for (uint32_t i = 0; i < s->element.n && k->ok; i++)
        put_element(k, s->g, s->element.at[i]);
    put_groups(k, s, s->later.at, s->later.n, false);
    put_groups(k, s, s->last.at, s->last.n, true);
    s->host.n = s->element.n = s->later.n = s->last.n = 0;
}
