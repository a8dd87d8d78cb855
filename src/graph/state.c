/* state: values that a model keeps between runs, and the join that lets them grow in place. */
#include "graph/internal.h"

ValueId
graph_join(Graph *g, const char *name, Loc loc, Sym origin, uint32_t nin, const ValueId *in)
{
    const Type *t = g->value.at[in[0]].type;
    const Expr *dim[TN_MAX_RANK], *rows = expr_int(g->ctx, 0);

    for (uint32_t i = 0; i < nin; i++)
        rows = expr_add(g->ctx, rows, g->value.at[in[i]].type->dim[0]);
    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = d ? t->dim[d] : expr_simplify(g->ctx, NULL, rows);
    ValueId out = graph_value(g, name, type_new(g->ctx, t->dtype, t->rank, dim));
    graph_add_node(g, (Node){ .callee = CALL_JOIN, .loc = loc, .origin = origin }, nin, in, 1,
                   &out);
    return out;
}

bool
graph_is_kept(const Graph *g, ValueId v)
{
    NodeId def = g->value.at[v].def;
    bool kept = g->value.at[v].kept ||
                (def && g->node.at[def].callee == CALL_JOIN && !g->node.at[def].along);

    for (uint32_t i = 0; i < g->state.n && !kept; i++)
        kept = g->input.at[g->state.at[i].input] == v;
    return kept;
}

bool
graph_state_grows(const Graph *g, const State *s, uint32_t *dim)
{
    const Type *a = g->value.at[g->input.at[s->input]].type,
               *b = g->value.at[g->output.at[s->output]].type;
    uint32_t different = 0;

    *dim = a->rank;
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (expr_eq(g->ctx, NULL, a->dim[d], b->dim[d]) != YES) {
            *dim = d;
            different++;
        }
    return different <= 1;
}

/* Is value `out` a join of `in` and something after it? */
static bool
is_joined(const Graph *g, ValueId out, ValueId in)
{
    NodeId id = g->value.at[out].def;

    return id && g->node.at[id].callee == CALL_JOIN && node_in(g, &g->node.at[id], 0) == in;
}

/* Is it the result of an `if` whose branches all join to it? */
static bool
is_joined_inside(const Graph *g, const Node *n, ValueId out, ValueId in)
{
    bool joined = n->callee == CALL_IF;

    for (uint32_t r = 0; r < n->nregion && joined; r++) {
        const Graph *inner = n->region[r].graph;
        bool found = false;
        for (uint32_t o = 0; o < n->out.count; o++)
            for (uint32_t i = 1; i < n->in.count && node_out(g, n, o) == out; i++)
                found |= node_in(g, n, i) == in &&
                         is_joined(inner, inner->output.at[o], inner->input.at[i - 1]);
        joined = found;
    }
    return joined;
}

bool
graph_state_in_place(const Graph *g, const State *s)
{
    ValueId in = g->input.at[s->input], out = g->output.at[s->output];
    NodeId id = g->value.at[out].def;

    return is_joined(g, out, in) || (id && is_joined_inside(g, &g->node.at[id], out, in));
}
