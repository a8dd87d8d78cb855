/* control_flow: fuse the nests of a graph that also branches, loops, or defines sizes at run time.
 *
 * Fusion works on graphs of nests alone. This file orders the nodes into runs of nests, each as
 * long as possible, with the other nodes between them as late as possible, and fuses each run as a
 * graph of its own. An elementwise nest that only later runs read moves into the first of those: so
 * a mask that every layer of a decoder computes from the same booleans is computed where a layer
 * reads it, instead of being kept for all of them.
 *
 * Sizes that follow from inputs in a few small steps (a count, a check of offsets) are defined
 * first: defined later they would cut runs apart.
 */
#include "fuse/internal.h"

typedef struct {
    const Graph *from;
    Graph *to;
    Arena *scratch;
    ValueId *map;      /* [from->value.n]: the value in `to` */
    bool *done;        /* [from->node.n]: placed */
    bool *early;       /* [from->node.n]: needed for a size that is defined first */
    Map definer;       /* of symbols */
    Map constant;      /* name to value of `from` */
    bool ready;        /* result of the current query */
    VEC(NodeId) run;   /* the current run of nests */
    uint32_t *readers; /* [from->value.n]: uses that are not in the run */
    Users users;
    bool *output; /* [from->value.n] */
} Between;

/* ---- order ----------------------------------------------------------------------------------- */

static void
need_symbol(void *user, Sym symbol)
{
    Between *b = user;
    uint64_t id;

    if (map_get(&b->definer, MAP_PTR(symbol), &id))
        b->ready &= b->done[id];
}

static bool
is_ready(Between *b, NodeId id)
{
    const Graph *g = b->from;
    const Node *n = &g->node.at[id];

    b->ready = !b->done[id];
    for (uint32_t i = 0; i < n->in.count && b->ready; i++) {
        NodeId def = g->value.at[node_in(g, n, i)].def;
        b->ready = !def || b->done[def];
    }
    if (b->ready && b->definer.n)
        graph_symbols(g, id, need_symbol, b);
    return b->ready;
}

/* Should a nest move to a later run? Not reductions and contractions: their inputs would live
 * longer and are larger than their results. */
static bool
waits(const Between *b, NodeId id)
{
    const Graph *g = b->from;
    const Node *n = &g->node.at[id];
    bool read = false;

    if (nest_axes_of_kind(n->nest, AXIS_REDUCE) | nest_axes_of_kind(n->nest, AXIS_SCAN))
        return false;
    for (uint32_t o = 0; o < n->out.count; o++) {
        ValueId v = node_out(g, n, o);
        if (b->output[v])
            return false;
        for (uint32_t i = b->users.first[v]; i < b->users.first[v + 1]; i++) {
            NodeId user = b->users.node[i];
            if (g->node.at[user].callee != CALL_NEST || b->done[user])
                return false;
            read = true;
        }
    }
    return read;
}

typedef struct {
    const Between *b;
    bool *needed;
} Needed;

static void
mark_definer(void *user, Sym symbol)
{
    const Needed *k = user;
    uint64_t id;

    if (map_get(&k->b->definer, MAP_PTR(symbol), &id))
        k->needed[id] = true;
}

/* Does the node make only a few numbers? */
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

/* Marks each match whose sizes follow in small steps, and what it needs. */
static void
find_early(Between *b)
{
    const Graph *g = b->from;

    b->early = NEW_ARRAY(b->scratch, bool, g->node.n);
    for (NodeId match = 1; match < g->node.n; match++) {
        Needed k = { b, NEW_ARRAY(b->scratch, bool, g->node.n) };
        bool small = g->node.at[match].callee == CALL_MATCH;
        k.needed[match] = true;
        for (NodeId id = match; id > 0 && small; id--) {
            const Node *n = &g->node.at[id];
            small = !k.needed[id] || is_small(g, n);
            for (uint32_t i = 0; i < n->in.count && k.needed[id]; i++)
                k.needed[g->value.at[node_in(g, n, i)].def] = true;
            if (k.needed[id])
                graph_symbols(g, id, mark_definer, &k);
        }
        for (NodeId id = 1; id <= match && small; id++)
            b->early[id] |= k.needed[id];
    }
}

/* Collects all nests that can run now, except those that should move to a later run; their number.
 * While an early size is undefined, only nests that it needs. */
static uint32_t
begin_run(Between *b)
{
    const Graph *g = b->from;
    uint32_t stay = 0;
    bool early = false;

    for (NodeId id = 1; id < g->node.n && !early; id++)
        early = b->early[id] && !b->done[id];
    for (bool found = true; found;) {
        found = false;
        for (NodeId id = 1; id < g->node.n; id++)
            if (g->node.at[id].callee == CALL_NEST && (!early || b->early[id]) && is_ready(b, id)) {
                b->done[id] = found = true;
                VEC_PUSH(b->scratch, &b->run, id);
            }
    }
    for (uint32_t k = b->run.n; k-- > 0;) /* readers come behind their operands */
        if (waits(b, b->run.at[k]))
            b->done[b->run.at[k]] = false;
    for (uint32_t k = 0; k < b->run.n; k++)
        if (b->done[b->run.at[k]])
            b->run.at[stay++] = b->run.at[k];
    return b->run.n = stay;
}

/* ---- one run of nests ------------------------------------------------------------------------ */

static ValueId
value_inside(Between *b, Graph *sub, ValueId *inside, ValueId v)
{
    const Value *value = &b->from->value.at[v];

    if (!v || inside[v])
        return inside[v];
    inside[v] = graph_copy_value(sub, b->from, v);
    if (!value->data)
        VEC_PUSH(sub->arena, &sub->input, inside[v]);
    return inside[v];
}

/* The run as a graph; *input, *output: the outer values behind its inputs and outputs. */
static Graph *
graph_of_run(Between *b, ValueId **input, ValueId **output)
{
    const Graph *g = b->from;
    Graph *sub = graph_new(g->ctx, g->arena, g->name);
    ValueId *inside = NEW_ARRAY(b->scratch, ValueId, g->value.n);
    uint32_t nin = 0, nout = 0;

    for (uint32_t k = 0; k < b->run.n; k++) {
        const Node *n = &g->node.at[b->run.at[k]];
        for (uint32_t i = 0; i < n->in.count; i++) {
            ValueId v = node_in(g, n, i);
            value_inside(b, sub, inside, v);
            b->readers[v]--;
        }
        graph_copy_node(sub, g, b->run.at[k], inside);
    }
    *input = NEW_ARRAY(b->scratch, ValueId, sub->input.n + 1);
    *output = NEW_ARRAY(b->scratch, ValueId, g->value.n);
    for (ValueId v = 1; v < g->value.n; v++) {
        NodeId def = g->value.at[v].def;
        bool made = inside[v] && sub->value.at[inside[v]].def;
        if (made && (b->readers[v] || !def)) {
            VEC_PUSH(sub->arena, &sub->output, inside[v]);
            (*output)[nout++] = v;
        }
    }
    for (uint32_t i = 0; i < sub->input.n; i++)
        for (ValueId v = 1; v < g->value.n; v++)
            if (inside[v] == sub->input.at[i])
                (*input)[nin++] = v;
    return sub;
}

/* Copies the kernels of the fused run into the new graph. */
static void
lay_back(Between *b, const Graph *fused, const ValueId *input, const ValueId *output)
{
    ValueId *map = NEW_ARRAY(b->scratch, ValueId, fused->value.n);
    uint64_t v;

    for (uint32_t i = 0; i < fused->input.n; i++)
        map[fused->input.at[i]] = b->map[input[i]];
    for (ValueId c = 1; c < fused->value.n; c++)
        if (fused->value.at[c].data && map_get(&b->constant, MAP_PTR(fused->value.at[c].name), &v))
            map[c] = b->map[v];
    for (NodeId n = 1; n < fused->node.n; n++)
        graph_copy_node(b->to, fused, n, map);
    for (uint32_t i = 0; i < fused->output.n; i++)
        b->map[output[i]] = map[fused->output.at[i]];
}

static bool
fuse_run(Between *b, Graph *(*fuse)(void *user, const Graph *nests), void *user)
{
    ValueId *input, *output;

    if (!b->run.n)
        return true;
    Graph *sub = graph_of_run(b, &input, &output);
    Graph *fused = fuse(user, sub);
    if (!fused)
        return false;
    lay_back(b, fused, input, output);
    b->run.n = 0;
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

    Between b = { .from = g, .scratch = arena_child(g->ctx->arena) };
    b.to = graph_rebuild(g, &b.map);
    b.done = NEW_ARRAY(b.scratch, bool, g->node.n);
    b.definer = graph_definers(g, b.scratch);
    b.readers = graph_uses(g, b.scratch);
    b.users = graph_users(g, b.scratch);
    b.output = graph_outputs(g, b.scratch);
    b.constant.arena = b.scratch;
    find_early(&b);
    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data)
            map_put(&b.constant, MAP_PTR(g->value.at[v].name), v);
    uint32_t left = g->node.n - 1;
    bool ok = true;
    while (left && ok) {
        NodeId other = 0;
        uint32_t ran = begin_run(&b);
        left -= ran;
        ok = fuse_run(&b, fuse, user);
        bool joined = false;
        /* all ready joins at once: each cut between runs limits fusion */
        for (NodeId id = 1; id < g->node.n && ok; id++)
            if (g->node.at[id].callee == CALL_JOIN && is_ready(&b, id)) {
                graph_copy_node(b.to, g, id, b.map);
                b.done[id] = joined = true;
                left--;
            }
        if (joined)
            continue;
        for (NodeId id = 1; id < g->node.n && !other; id++)
            if (g->node.at[id].callee != CALL_NEST && is_ready(&b, id))
                other = id;
        if (other && ok) {
            graph_copy_node(b.to, g, other, b.map);
            b.done[other] = true;
            left--;
        } else if (ok && left && !ran) {
            ok = diag_error(&g->ctx->diags, DIAG_INTERNAL, (Loc){ 0 },
                            "fuse: %u nodes of graph %s wait for each other", left, g->name);
        }
    }
    if (ok)
        graph_finish(b.to, g, b.map);
    arena_free(b.scratch);
    return ok ? b.to : NULL;
}
