/* control_flow: fuse the nests of a graph that also branches, loops, or defines sizes at run time.
 *
 * Fusion works on graphs of nests alone. This file orders the nodes into runs of nests, each as
 * long as possible, and fuses each run as a graph of its own. A run takes all nests that are ready;
 * behind it come all joins that are ready, or if there is none, one other node, and then the next
 * run. An elementwise nest that only later runs read moves into the first of those: so a mask that
 * every layer of a decoder computes from the same booleans is computed where a layer reads it,
 * instead of being kept for all of them.
 *
 * A size that only small nests and matches compute (a count, a check of offsets) is defined first:
 * defined later it would cut runs apart.
 */
#include "fuse/internal.h"

typedef struct {
    const Graph *from;
    Graph *to;
    Arena *scratch;
    ValueId *map;      /* [from->value.n]: the value in `to` */
    ValueId *inside;   /* [from->value.n]: the value in the graph of the current run; 0: none */
    bool *done;        /* [from->node.n]: placed, or in the current run */
    bool *early;       /* [from->node.n]: needed for a size that is defined first */
    Map definer;       /* of symbols */
    Map constant;      /* name to value of `from` */
    VEC(NodeId) run;   /* the current run of nests */
    uint32_t *readers; /* [from->value.n]: uses outside of the runs so far; an output is one */
    Users users;
    bool *output; /* [from->value.n] */
} Runs;

/* ---- order ----------------------------------------------------------------------------------- */

/* Are all nodes in the set that compute the node's inputs and define its sizes? */
static bool
operands_in(Runs *r, NodeId id, const bool *set)
{
    const Graph *g = r->from;
    const Node *n = &g->node.at[id];
    SymbolSet used = { .seen.arena = r->scratch };
    bool all = true;
    uint64_t def;

    for (uint32_t i = 0; i < n->in.count && all; i++) {
        def = g->value.at[node_in(g, n, i)].def;
        all = !def || set[def];
    }
    if (all && r->definer.n)
        graph_symbols(&used, g, id);
    for (uint32_t i = 0; i < used.n && all; i++)
        all = !map_get(&r->definer, MAP_PTR(used.at[i]), &def) || set[def];
    return all;
}

static bool
is_ready(Runs *r, NodeId id)
{
    return !r->done[id] && operands_in(r, id, r->done);
}

/* Should the nest move to a later run: only nests read it, none of them in this run, and it neither
 * reduces nor scans? The inputs of a reduction are larger than its results, and would live
 * longer. */
static bool
waits(const Runs *r, NodeId id)
{
    const Graph *g = r->from;
    const Node *n = &g->node.at[id];
    bool read = false;

    if (nest_axes_of_kind(n->nest, AXIS_REDUCE) | nest_axes_of_kind(n->nest, AXIS_SCAN))
        return false;
    for (uint32_t o = 0; o < n->out.count; o++) {
        ValueId v = node_out(g, n, o);
        if (r->output[v])
            return false;
        for (uint32_t i = r->users.first[v]; i < r->users.first[v + 1]; i++) {
            NodeId user = r->users.node[i];
            if (g->node.at[user].callee != CALL_NEST || r->done[user])
                return false;
            read = true;
        }
    }
    return read;
}

/* Is it a nest or match with at most OP_KNOWN_MAX elements in each result? */
static bool
is_small(const Graph *g, const Node *n)
{
    bool small = n->callee == CALL_NEST || n->callee == CALL_MATCH;

    for (uint32_t i = 0; i < n->out.count && small; i++) {
        ValueId v = node_out(g, n, i);
        small = !v || expr_or(type_count(g->ctx, g->value.at[v].type), INT64_MAX) <= OP_KNOWN_MAX;
    }
    return small;
}

/* Marks each match that needs small nodes alone, and these. In topological order forwards, a node's
 * operands are known; backwards, its readers are. */
static void
find_early(Runs *r)
{
    const Graph *g = r->from;
    bool *small = NEW_ARRAY(r->scratch, bool, g->node.n); /* it, and all that it needs */

    r->early = NEW_ARRAY(r->scratch, bool, g->node.n);
    for (NodeId id = 1; id < g->node.n; id++)
        small[id] = is_small(g, &g->node.at[id]) && operands_in(r, id, small);
    for (NodeId id = g->node.n; id-- > 1;) {
        const Node *n = &g->node.at[id];
        r->early[id] |= n->callee == CALL_MATCH && small[id];
        if (!r->early[id])
            continue;
        for (uint32_t i = 0; i < n->in.count; i++)
            r->early[g->value.at[node_in(g, n, i)].def] = true;
        SymbolSet used = { .seen.arena = r->scratch };
        uint64_t def;
        graph_symbols(&used, g, id);
        for (uint32_t i = 0; i < used.n; i++)
            if (map_get(&r->definer, MAP_PTR(used.at[i]), &def))
                r->early[def] = true;
    }
}

/* Collects all nests that can run now, except those that should move to a later run; their number.
 * While an early size is undefined, only nests that it needs. */
static uint32_t
begin_run(Runs *r)
{
    const Graph *g = r->from;
    uint32_t stay = 0;
    bool early = false;

    for (NodeId id = 1; id < g->node.n && !early; id++)
        early = r->early[id] && !r->done[id];
    for (NodeId id = 1; id < g->node.n; id++)
        if (g->node.at[id].callee == CALL_NEST && (!early || r->early[id]) && is_ready(r, id)) {
            r->done[id] = true;
            VEC_PUSH(r->scratch, &r->run, id);
        }
    /* Backwards: a nest that moves is not done, so the nests that it reads may move with it. */
    for (uint32_t k = r->run.n; k-- > 0;)
        if (waits(r, r->run.at[k]))
            r->done[r->run.at[k]] = false;
    for (uint32_t k = 0; k < r->run.n; k++)
        if (r->done[r->run.at[k]])
            r->run.at[stay++] = r->run.at[k];
    return r->run.n = stay;
}

/* ---- one run of nests ------------------------------------------------------------------------ */

typedef VEC(ValueId) Values;

/* The run as a graph; *input, *output: the outer values of its inputs and outputs. */
static Graph *
graph_of_run(Runs *r, Values *input, Values *output)
{
    const Graph *g = r->from;
    Graph *sub = graph_new(g->ctx, g->arena, g->name);

    for (uint32_t k = 0; k < r->run.n; k++) {
        const Node *n = &g->node.at[r->run.at[k]];
        for (uint32_t i = 0; i < n->in.count; i++) {
            ValueId v = node_in(g, n, i);
            if (!v)
                continue;
            r->readers[v]--;
            if (r->inside[v])
                continue;
            r->inside[v] = graph_copy_value(sub, g, v);
            if (g->value.at[v].data)
                continue;
            VEC_PUSH(sub->arena, &sub->input, r->inside[v]);
            VEC_PUSH(r->scratch, input, v);
        }
        graph_copy_node(sub, g, r->run.at[k], r->inside);
    }
    for (uint32_t k = 0; k < r->run.n; k++) {
        const Node *n = &g->node.at[r->run.at[k]];
        for (uint32_t i = 0; i < n->out.count; i++) {
            ValueId v = node_out(g, n, i);
            if (!v || !r->readers[v])
                continue;
            VEC_PUSH(sub->arena, &sub->output, r->inside[v]);
            VEC_PUSH(r->scratch, output, v);
        }
    }
    for (uint32_t k = 0; k < r->run.n; k++) { /* empty again, for the next run */
        const Node *n = &g->node.at[r->run.at[k]];
        for (uint32_t i = 0; i < n->in.count; i++)
            r->inside[node_in(g, n, i)] = 0;
        for (uint32_t i = 0; i < n->out.count; i++)
            r->inside[node_out(g, n, i)] = 0;
    }
    return sub;
}

/* Copies the kernels of the fused run into the new graph. Constants are found by name: names are
 * unique in a graph, and a copy of a value or a graph keeps them. */
static bool
lay_back(Runs *r, const Graph *fused, const Values *input, const Values *output)
{
    ValueId *map = NEW_ARRAY(r->scratch, ValueId, fused->value.n);
    uint64_t v;

    for (uint32_t i = 0; i < fused->input.n; i++)
        map[fused->input.at[i]] = r->map[input->at[i]];
    for (ValueId c = 1; c < fused->value.n; c++) {
        const Value *value = &fused->value.at[c];
        if (!value->data)
            continue;
        if (!map_get(&r->constant, MAP_PTR(value->name), &v))
            return diag_error(&fused->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                              "fuse: a run of graph %s has a constant \"%s\" that the graph lacks",
                              fused->name, value->name);
        map[c] = r->map[v];
    }
    for (NodeId n = 1; n < fused->node.n; n++)
        graph_copy_node(r->to, fused, n, map);
    for (uint32_t i = 0; i < fused->output.n; i++)
        r->map[output->at[i]] = map[fused->output.at[i]];
    return true;
}

static bool
fuse_run(Runs *r, Graph *(*fuse)(void *user, const Graph *nests), void *user)
{
    Values input = { 0 }, output = { 0 };

    if (!r->run.n)
        return true;
    Graph *sub = graph_of_run(r, &input, &output);
    Graph *fused = fuse(user, sub);
    if (!fused || !lay_back(r, fused, &input, &output))
        return false;
    r->run.n = 0;
    return true;
}

Graph *
fuse_control_flow(const Graph *g, Graph *(*fuse)(void *user, const Graph *nests), void *user)
{
    bool mixed = false;

    for (NodeId id = 1; id < g->node.n; id++)
        mixed |= g->node.at[id].callee != CALL_NEST;
    if (!mixed)
        return fuse(user, g);

    Runs r = { .from = g, .scratch = arena_child(g->ctx->arena) };
    r.to = graph_rebuild(g, &r.map);
    r.inside = NEW_ARRAY(r.scratch, ValueId, g->value.n);
    r.done = NEW_ARRAY(r.scratch, bool, g->node.n);
    r.definer = graph_definers(g, r.scratch);
    r.readers = graph_uses(g, r.scratch);
    r.users = graph_users(g, r.scratch);
    r.output = graph_outputs(g, r.scratch);
    r.constant.arena = r.scratch;
    find_early(&r);
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data)
            map_put(&r.constant, MAP_PTR(g->value.at[v].name), v);
    uint32_t left = g->node.n - 1;
    bool ok = true;
    while (left && ok) {
        NodeId other = 0;
        uint32_t ran = begin_run(&r);
        left -= ran;
        ok = fuse_run(&r, fuse, user);
        bool joined = false;
        /* all ready joins at once: each cut between runs limits fusion */
        for (NodeId id = 1; id < g->node.n && ok; id++)
            if (g->node.at[id].callee == CALL_JOIN && is_ready(&r, id)) {
                graph_copy_node(r.to, g, id, r.map);
                r.done[id] = joined = true;
                left--;
            }
        if (joined)
            continue;
        for (NodeId id = 1; id < g->node.n && !other; id++)
            if (g->node.at[id].callee != CALL_NEST && is_ready(&r, id))
                other = id;
        if (other && ok) {
            graph_copy_node(r.to, g, other, r.map);
            r.done[other] = true;
            left--;
        } else if (ok && left && !ran) {
            ok = diag_error(&g->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                            "fuse: %u nodes of graph %s wait for each other", left, g->name);
        }
    }
    if (ok)
        graph_finish(r.to, g, r.map);
    arena_free(r.scratch);
    return ok ? r.to : NULL;
}
