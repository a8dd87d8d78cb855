/* whole: values that lie within others.
 *
 *   %y: f32[1, 56, 56, 96] = join(%a, %b) along 3
 *
 * Joined along another dimension than the first, tensors are no longer blocks of memory one behind the other, but columns side by side:
 * each row of the whole has a row of every part. So whoever makes or reads a part has to know where it lies, which its buffer says
 * (Buffer.within), and there is nothing left to be done when the join is reached. A whole may be a part of another one.
 */
#include "graph/graph.h"

ValueId *
graph_wholes(const Graph *g, Arena *a)
{
    ValueId *whole = NEW_ARRAY(a, ValueId, g->value.n);

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; g->node.at[n].along && i < g->node.at[n].in.count; i++)
            whole[node_in(g, &g->node.at[n], i)] = node_out(g, &g->node.at[n], 0);
    whole[0] = 0;
    return whole;
}

ValueId
graph_outermost(const ValueId *whole, ValueId v)
{
    while (whole[v])
        v = whole[v];
    return v;
}

const Type *
graph_within(const Graph *g, const ValueId *whole, ValueId v)
{
    const Type *own = g->value.at[v].type, *all = g->value.at[graph_outermost(whole, v)].type;
    uint32_t d = 0;

    while (d < own->rank && expr_is(own->dim[d], 1))
        d++;
    for (d++; d < own->rank; d++)
        if (expr_eq(g->ctx, NULL, own->dim[d], all->dim[d]) != YES)
            return all;
    return NULL;
}

const Expr *
graph_offset(const Graph *g, const Node *join, uint32_t part)
{
    const Type *all = g->value.at[node_out(g, join, 0)].type;
    const Expr *offset = expr_int(g->ctx, 0);

    for (uint32_t i = 0; i < part; i++)
        offset = expr_add(g->ctx, offset, g->value.at[node_in(g, join, i)].type->dim[join->along]);
    return expr_mul(g->ctx, offset, type_stride(g->ctx, all, join->along));
}
