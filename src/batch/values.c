/* values: classifies values, by data-flow analysis over all graphs that the model runs.
 *
 * Facts propagate along two kinds of edges: a flow, where one value is another (an argument and an
 * input, a result and an output, one iteration of a loop and the next), and a nest, whose outputs
 * are computed from its inputs. Each fact is a fixed point over these edges.
 */
#include "batch/internal.h"

enum {
    MOST_HOST_ELEMENTS = 64, /* of a host value: each request computes its own */
    /* of one that is only copied: a copy in L1 costs less than a batch; longer ones are read in
     * place */
    MOST_MOVED_ELEMENTS = 4096,
};

uint32_t
batch_control_inputs(const Node *n)
{
    return n->callee == CALL_IF || n->callee == CALL_MATCH ? 1 : n->callee == CALL_LOOP ? 2 : 0;
}

bool
batch_is_small(const Batching *b, const Graph *g, ValueId v)
{
    int64_t bytes;

    return expr_const(type_bytes(b->c, g->value.at[v].type), &bytes) && bytes <= 8;
}

bool
batch_is_inline(const Batching *b, const Graph *g, ValueId v)
{
    uint32_t x = batch_value(b, g, v);

    return b->host[x] && b->needed[x] && batch_is_small(b, g, v);
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* Value `to` is, or is computed from, value `from`. */
typedef void EdgeFn(Batching *b, uint32_t to, uint32_t from);

static void
flow_of_region(Batching *b, const Graph *g, const Node *n, const Graph *in, EdgeFn *visit)
{
    const bool loop = n->callee == CALL_LOOP;
    uint32_t from = batch_control_inputs(n), first = loop ? 2 : 0, given = loop;

    for (uint32_t k = from; k < n->in.count; k++)
        visit(b, batch_value(b, in, in->input.at[first + k - from]),
              batch_value(b, g, node_in(g, n, k)));
    for (uint32_t k = 0; k < (loop ? n->ncarried : n->out.count); k++)
        if (node_out(g, n, k))
            visit(b, batch_value(b, g, node_out(g, n, k)),
                  batch_value(b, in, in->output.at[given + k]));
    if (!loop)
        return;
    /* an iteration's outputs are the next one's inputs */
    for (uint32_t k = 0; k < 1 + n->ncarried; k++)
        visit(b, batch_value(b, in, in->input.at[1 + k]), batch_value(b, in, in->output.at[k]));
    if (node_in(g, n, 1))
        visit(b, batch_value(b, in, in->input.at[1]), batch_value(b, g, node_in(g, n, 1)));
}

static void
for_each_flow(Batching *b, EdgeFn *visit)
{
    for (uint32_t i = b->all.n; i-- > 0;) {
        const Graph *g = b->all.at[i];
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            for (uint32_t r = 0; r < n->nregion; r++)
                flow_of_region(b, g, n, n->region[r].graph, visit);
            if (n->callee == CALL_MATCH && node_out(g, n, 0))
                visit(b, b->run[i].first + node_out(g, n, 0), b->run[i].first + node_in(g, n, 0));
        }
    }
}

static void
for_each_nest(Batching *b, EdgeFn *visit)
{
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        uint32_t first = b->run[i].first;
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            for (uint32_t o = 0; n->callee == CALL_NEST && o < n->out.count; o++)
                for (uint32_t k = 0; k < n->in.count; k++)
                    visit(b, first + node_out(g, n, o), first + node_in(g, n, k));
        }
    }
}

/* ---- constants and inputs -------------------------------------------------------------------- */

static void
meet_constant(Batching *b, uint32_t to, uint32_t from)
{
    BatchConstant *x = &b->constant[to];
    const BatchConstant *y = &b->constant[from];
    bool differ = b->several[from];

    if (!differ && x->g && y->g && (x->g != y->g || x->value != y->value)) {
        const void *data = x->g->value.at[x->value].data;
        differ = !data || data != y->g->value.at[y->value].data;
    }
    if (b->several[to] || (!differ && (x->g || !y->g)))
        return;
    b->changed = true;
    b->several[to] = differ;
    *x = differ ? (BatchConstant){ 0 } : *y;
}

/* Outputs of nests are not constants. Inputs of the model are constant for one request. */
static void
begin_constants(Batching *b, uint32_t i)
{
    const Graph *g = b->all.at[i];

    for (ValueId v = 1; v < g->value.n; v++) {
        const Value *value = &g->value.at[v];
        uint32_t x = b->run[i].first + v;
        CalleeKind by = value->def ? g->node.at[value->def].callee : CALL_OP;
        if (value->data || (!value->def && i + 1 == b->all.n))
            b->constant[x] = (BatchConstant){ g, v };
        else if (value->def)
            b->several[x] = by <= CALL_KERNEL || by == CALL_MATCH;
    }
}

/* A loop's iteration number, condition and carried values change; stacked values are computed. */
static void
begin_loop_constants(Batching *b, const Graph *g, const Node *n)
{
    const Graph *body = n->region[0].graph;

    for (uint32_t k = 0; k < 2 + n->ncarried; k++)
        b->several[batch_value(b, body, body->input.at[k])] = true;
    for (uint32_t k = n->ncarried; k < n->out.count; k++)
        if (node_out(g, n, k))
            b->several[batch_value(b, g, node_out(g, n, k))] = true;
}

/* Values that are always the same input of the model: lists of a tree, which recursive functions
 * pass on. */
static void
find_inputs(Batching *b)
{
    const Graph *model = b->all.at[b->all.n - 1];

    for (uint32_t x = 0; x < b->nvalue; x++) {
        BatchConstant *k = &b->constant[x];
        if (!k->g || k->g->value.at[k->value].data)
            continue;
        for (uint32_t i = 0; i < model->input.n; i++)
            if (model->input.at[i] == k->value)
                b->input[x] = i + 1;
        *k = (BatchConstant){ 0 };
    }
}

/* A value is a constant if all flows into it have that constant; this covers an argument that a
 * recursive function passes on. */
static void
find_constants(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++)
        begin_constants(b, i);
    for (uint32_t i = 0; i < b->all.n; i++)
        for (NodeId id = 1; id < b->all.at[i]->node.n; id++)
            if (b->all.at[i]->node.at[id].callee == CALL_LOOP)
                begin_loop_constants(b, b->all.at[i], &b->all.at[i]->node.at[id]);
    do {
        b->changed = false;
        for_each_flow(b, meet_constant);
    } while (b->changed);
    find_inputs(b);
}

static void
find_shared(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        bool *shared = b->shared + b->run[i].first;
        for (ValueId v = 1; v < g->value.n; v++)
            shared[v] = b->constant[b->run[i].first + v].g != NULL;
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            bool all = n->callee == CALL_NEST;
            for (uint32_t k = 0; k < n->in.count && all; k++)
                all = shared[node_in(g, n, k)];
            for (uint32_t k = 0; k < n->out.count && n->callee == CALL_NEST; k++)
                shared[node_out(g, n, k)] = all;
        }
    }
}

/* ---- what the host computes ------------------------------------------------------------------ */

/* Does a nest only copy elements of an input of the model whose size differs between requests, at
 * integer indices? Casts are those of short floats, which are read as f32 and written back
 * unchanged. */
static bool
only_moves(const Batching *b, uint32_t first, const Graph *g, const Node *n)
{
    uint32_t from = NO_SLOT;

    if (n->callee != CALL_NEST)
        return false;
    for (uint32_t w = 0; w < n->nest->nwrite; w++) {
        const Write *x = &n->nest->write[w];
        const Scalar *s = x->value;
        while (s->op == S_CAST)
            s = s->arg[0];
        if (x->combiner != COMB_NONE || s->op != S_LOAD || s->u.load.outside ||
            (w && s->u.load.slot != from) ||
            n->nest->param[s->u.load.slot].type->dtype != n->nest->param[x->out].type->dtype)
            return false;
        from = s->u.load.slot;
    }
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        const Type *t = g->value.at[v].type;
        if (i == from ? !b->input[first + v] || type_is_static(t) : dtype_is_float(t->dtype))
            return false;
    }
    return true;
}

/* Is the value computed from floats? Such decisions are computed in blocks, for all requests. */
static bool
reads_floats(const Graph *g, const Node *n)
{
    bool some = false;

    for (uint32_t i = 0; n->callee == CALL_NEST && i < n->in.count; i++)
        some |= dtype_is_float(g->value.at[node_in(g, n, i)].type->dtype);
    return some;
}

/* A necessary condition, by the value alone. Inputs may be long: lists that nodes of a tree index.
 * Floats are only copied, by a nest or control; what a loop stacks is made of rows. */
static bool
may_be_host(const Batching *b, uint32_t first, const Graph *g, const Value *x)
{
    const Node *by = &g->node.at[x->def];
    int64_t n;

    if (x->type->dtype == DT_STR)
        return false;
    if (!x->def)
        return true;
    if (by->callee == CALL_OP || !expr_const(type_count(b->c, x->type), &n))
        return false;
    if (only_moves(b, first, g, by))
        return n <= MOST_MOVED_ELEMENTS;
    if (dtype_is_float(x->type->dtype) && (by->callee == CALL_NEST || by->callee == CALL_LOOP))
        return false;
    return n <= MOST_HOST_ELEMENTS && !reads_floats(g, by);
}

static void
lose_host(Batching *b, uint32_t to, uint32_t from)
{
    if (b->host[to] && !b->host[from] && !b->shared[from]) {
        b->host[to] = false;
        b->changed = true;
    }
}

/* The greatest fixed point: removes values that depend on others than these until none is left. */
static void
find_host(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        for (ValueId v = 1; v < g->value.n; v++)
            b->host[b->run[i].first + v] = may_be_host(b, b->run[i].first, g, &g->value.at[v]);
    }
    do {
        b->changed = false;
        for_each_nest(b, lose_host);
        for_each_flow(b, lose_host);
    } while (b->changed);
}

/* ---- what control reads ---------------------------------------------------------------------- */

static void
need(Batching *b, uint32_t v)
{
    b->changed |= !b->needed[v];
    b->needed[v] = true;
}

static void
need_source(Batching *b, uint32_t to, uint32_t from)
{
    if (b->needed[to])
        need(b, from);
}

/* Does a nest look up a number in a list whose length differs between requests, or copy elements of
 * one? Then the host does it, so that blocks for all requests need not depend on that length. */
static bool
looks_up(const Batching *b, uint32_t first, const Graph *g, const Node *n)
{
    bool open = false;

    for (uint32_t i = 0; i < n->in.count; i++)
        open |= !type_is_static(g->value.at[node_in(g, n, i)].type);
    for (uint32_t i = 0; i < n->out.count; i++)
        open = open && b->host[first + node_out(g, n, i)] &&
               type_is_static(g->value.at[node_out(g, n, i)].type);
    return open;
}

static void
find_needed(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        uint32_t first = b->run[i].first;
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            for (uint32_t k = 0; k < n->in.count && k < batch_control_inputs(n); k++)
                if (node_in(g, n, k))
                    need(b, first + node_in(g, n, k));
            if (n->callee == CALL_LOOP) /* its condition */
                need(b, batch_value(b, n->region[0].graph, n->region[0].graph->output.at[0]));
            if (n->callee == CALL_NEST && looks_up(b, first, g, n))
                need(b, first + node_out(g, n, 0));
            if (n->callee == CALL_NEST && b->element[first + node_out(g, n, 0)])
                need(b, first + node_in(g, n, BATCH_ELEMENT_INDEX));
        }
    }
    do {
        b->changed = false;
        for_each_nest(b, need_source);
        for_each_flow(b, need_source);
    } while (b->changed);
}

/* ---- values that only results depend on ------------------------------------------------------ */

static void
is_read(Batching *b, uint32_t v)
{
    b->changed |= b->last[v];
    b->last[v] = false;
}

static void
read_source(Batching *b, uint32_t to, uint32_t from)
{
    if (!b->last[to])
        is_read(b, from);
}

/* Values that nests of other segments read. */
static void
read_other_segments(Batching *b, const Graph *g, uint32_t first)
{
    uint32_t *segment = NEW_ARRAY(b->a, uint32_t, g->node.n), now = 0;

    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        now += n->callee != CALL_NEST;
        segment[id] = now;
        for (uint32_t k = 0; n->callee == CALL_NEST && k < n->in.count; k++) {
            NodeId def = g->value.at[node_in(g, n, k)].def;
            if (!def || g->node.at[def].callee != CALL_NEST || segment[def] != now)
                is_read(b, first + node_in(g, n, k));
        }
    }
}

/* Values that control, library routines and the next iteration read; a stacked value is read if its
 * stack is. */
static void
read_by_control(Batching *b, const Graph *g, uint32_t first, const Node *n)
{
    const Graph *body = n->callee == CALL_LOOP ? n->region[0].graph : NULL;
    uint32_t read = n->callee == CALL_OP ? n->in.count : batch_control_inputs(n);

    for (uint32_t k = 0; k < n->in.count && k < read; k++)
        if (node_in(g, n, k))
            is_read(b, first + node_in(g, n, k));
    for (uint32_t k = 0; body && k < 1 + n->ncarried; k++)
        is_read(b, batch_value(b, body, body->output.at[k]));
    for (uint32_t k = n->ncarried; body && k < n->out.count; k++)
        if (node_out(g, n, k))
            read_source(b, first + node_out(g, n, k), batch_value(b, body, body->output.at[1 + k]));
}

/* Values are last unless control or another segment depends on them. */
static void
find_last(Batching *b)
{
    for (uint32_t v = 0; v < b->nvalue; v++)
        b->last[v] = !b->host[v];
    for (uint32_t i = 0; i < b->all.n; i++)
        read_other_segments(b, b->all.at[i], b->run[i].first);
    do {
        b->changed = false;
        for (uint32_t i = 0; i < b->all.n; i++)
            for (NodeId id = 1; id < b->all.at[i]->node.n; id++)
                read_by_control(b, b->all.at[i], b->run[i].first, &b->all.at[i]->node.at[id]);
        for_each_nest(b, read_source);
        for_each_flow(b, read_source);
    } while (b->changed);
}

void
batch_find_values(Batching *b)
{
    find_constants(b);
    find_shared(b);
    find_host(b);
    batch_find_split(b);
    find_needed(b);
    find_last(b);
}
