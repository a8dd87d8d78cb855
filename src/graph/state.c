/* state: what a model keeps between runs, and the join that lets it grow in place.
 */
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
    graph_add_node(g, (Node){ .callee = CALL_JOIN, .loc = loc, .origin = origin }, nin, in, 1, &out);
    return out;
}

bool
graph_state_grows(const Graph *g, const State *s, uint32_t *dim)
{
    const Type *a = g->value.at[g->input.at[s->input]].type, *b = g->value.at[g->output.at[s->output]].type;
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

bool
graph_state_in_place(const Graph *g, const State *s)
{
    const Value *out = &g->value.at[g->output.at[s->output]];
    const Node *n = &g->node.at[out->def];

    return out->def && n->callee == CALL_JOIN && node_in(g, n, 0) == g->input.at[s->input];
}
