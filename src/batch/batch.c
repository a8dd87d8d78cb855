/* batch: whether requests can run together, and the graph that runs them. */
#include "batch/internal.h"

RunGraph *
batch_run_of(const Batching *b, const Graph *g)
{
    uint64_t at = 0;

    map_get(&b->at, MAP_PTR(g), &at);
    return &b->run[at];
}

uint32_t
batch_value(const Batching *b, const Graph *g, ValueId v)
{
    return batch_run_of(b, g)->first + v;
}

uint32_t
batch_type_of(Batching *b, const Graph *g, ValueId v)
{
    const Type *t = g->value.at[v].type;
    uint64_t at;

    if (map_get(&b->type_at, MAP_PTR(t), &at))
        return (uint32_t)at;
    map_put(&b->type_at, MAP_PTR(t), b->made->type.n);
    VEC_PUSH(b->to, &b->made->type, t);
    return b->made->type.n - 1;
}

const char *
batch_called(const Batching *b, const Node *n)
{
    if (n->origin)
        return n->origin;
    if (n->callee == CALL_OP)
        return op_info[n->op].name;
    if (n->nest)
        return n->nest->name;
    return arena_printf(b->a, "a node of graph %s", n->nregion ? n->region[0].graph->name : "");
}

/* ---- what can be batched --------------------------------------------------------------------- */

bool
batch_refuse(Batching *b, const Node *n, const char *why)
{
    if (!b->why)
        b->why = n ? arena_printf(b->c->arena, "%s %s", batch_called(b, n), why) : why;
    return false;
}

static bool
may_node(Batching *b, const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->out.count; i++) {
        const Type *t = node_out(g, n, i) ? g->value.at[node_out(g, n, i)].type : NULL;
        if (t && t->dtype == DT_STR)
            return batch_refuse(b, n, "makes strings");
        if (t && t->rank >= TN_MAX_RANK)
            return batch_refuse(b, n, "has no dimension left for requests");
    }
    for (uint32_t i = 0; n->callee == CALL_OP && i < n->in.count; i++) {
        const Value *x = &g->value.at[node_in(g, n, i)];
        if (node_in(g, n, i) && x->known.at && !x->data)
            return batch_refuse(b, n, "has a parameter that is a size");
    }
    if (n->callee == CALL_JOIN || n->callee == CALL_KERNEL || n->callee == CALL_BLOCKS)
        return batch_refuse(b, n, "is run for one request at a time");
    if (n->callee == CALL_NEST && n->nest->naxis >= NEST_MAX_AXES)
        return batch_refuse(b, n, "has no axis left for requests");
    return true;
}

static bool
may_input(Batching *b, const Value *x)
{
    if (x->type->dtype != DT_STR && x->type->rank < TN_MAX_RANK)
        return true;
    return batch_refuse(
        b, NULL, arena_printf(b->c->arena, "input %s is %s", x->name, type_str(b->c, x->type)));
}

static bool
may_all(Batching *b)
{
    const Graph *g = b->all.at[b->all.n - 1];

    if (g->state.n)
        return batch_refuse(b, NULL, "the model keeps states from run to run");
    for (uint32_t i = 0; i < g->input.n; i++)
        if (!may_input(b, &g->value.at[g->input.at[i]]))
            return false;
    for (uint32_t i = b->all.n; i-- > 0;) { /* callers first */
        const Graph *of = b->all.at[i];
        for (NodeId id = 1; id < of->node.n; id++)
            if (!may_node(b, of, &of->node.at[id]))
                return false;
    }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void
begin(Batching *b, const Graph *g)
{
    static const int64_t usual[] = { 1, 8, 64 };
    Ctx *c = g->ctx;

    b->all = graph_all(g, b->a);
    b->run = NEW_ARRAY(b->a, RunGraph, b->all.n);
    for (uint32_t i = 0; i < b->all.n; i++) {
        b->run[i] = (RunGraph){ .g = b->all.at[i], .first = b->nvalue };
        map_put(&b->at, MAP_PTR(b->all.at[i]), i);
        b->nvalue += b->all.at[i]->value.n;
    }
    b->shared = NEW_ARRAY(b->a, bool, b->nvalue);
    b->host = NEW_ARRAY(b->a, bool, b->nvalue);
    b->constant = NEW_ARRAY(b->a, BatchConstant, b->nvalue);
    b->input = NEW_ARRAY(b->a, uint32_t, b->nvalue);
    b->several = NEW_ARRAY(b->a, bool, b->nvalue);
    b->last = NEW_ARRAY(b->a, bool, b->nvalue);
    b->split = NEW_ARRAY(b->a, bool, b->nvalue);
    b->element = NEW_ARRAY(b->a, bool, b->nvalue);
    b->needed = NEW_ARRAY(b->a, bool, b->nvalue);
    b->made = NEW(b->to, Batch);
    Var *instances = &b->made->instances, *rows = &b->made->rows;
    expr_is_var(expr_fresh_symbol(c, "instances"), instances);
    expr_is_var(expr_fresh_symbol(c, "rows"), rows);
    expr_symbol_range(c, *instances, (Interval){ 1, INT32_MAX });
    expr_symbol_range(c, *rows, (Interval){ 1, INT32_MAX });
    expr_symbol_alike(c, *instances);
    expr_symbol_trust(c, *rows);
    expr_symbol_expect(c, *instances, (SizeHints){ 3, usual });
}

/* Nothing is known of late sizes before the run. */
static void
new_symbols(Batching *b, Node *n)
{
    n->nfresh = BATCH_FIRST_LATE + b->made->late.n;
    n->fresh = NEW_ARRAY(b->to, NewSymbol, n->nfresh);
    n->fresh[0].name = (Sym)(uintptr_t)b->made->instances.id;
    n->fresh[1].name = (Sym)(uintptr_t)b->made->rows.id;
    for (uint32_t i = 0; i < b->made->late.n; i++)
        n->fresh[BATCH_FIRST_LATE + i].name = (Sym)(uintptr_t)b->made->late.at[i].id;
}

static Graph *
with_blocks(Batching *b, const Graph *g)
{
    ValueId *map;
    Graph *to = graph_rebuild(g, &map);

    ValueId *in = NEW_ARRAY(to->arena, ValueId, g->input.n + 1);
    ValueId *out = NEW_ARRAY(to->arena, ValueId, g->output.n + 1);
    for (uint32_t i = 0; i < g->input.n; i++)
        in[i] = map[g->input.at[i]];
    for (uint32_t i = 0; i < g->output.n; i++) {
        ValueId v = g->output.at[i];
        out[i] = graph_value(to, g->value.at[v].name, g->value.at[v].type);
        /* it may be an input, or the same as an earlier output */
        map[v] = map[v] ? map[v] : out[i];
    }
    batch_finish(b->to, b->made);
    Node blocks = {
        .callee = CALL_BLOCKS, .nregion = b->region.n, .region = b->region.at, .batch = b->made
    };
    new_symbols(b, &blocks);
    graph_call_region(to, &blocks, g->input.n, in, g->output.n, out);
    graph_finish(to, g, map);
    return to;
}

Graph *
batch_graph(const Graph *g, const char **why)
{
    Arena *scratch = arena_child(g->arena);
    Batching b = { .c = g->ctx,
                   .a = scratch,
                   .to = g->arena,
                   .at.arena = scratch,
                   .type_at.arena = scratch,
                   .late_at.arena = scratch };

    *why = NULL;
    begin(&b, g);
    Graph *to = (Graph *)g;
    if (may_all(&b)) {
        batch_find_sizes(&b);
        batch_find_values(&b);
        to = batch_write_functions(&b, g) ? with_blocks(&b, g) : b.why ? (Graph *)g : NULL;
    }
    *why = b.why;
    arena_free(scratch);
    return to;
}
