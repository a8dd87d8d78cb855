/* within: values that are stored within others.
 *
 *   %y: f32[1, 56, 56, 96] = join(%a, %b) along 3
 *
 * Tensors that are joined along another dimension than the first are not consecutive blocks of
 * memory but adjacent columns: each row of the result has a row of every part. So kernels that
 * write or read a part need its offset and strides, which its buffer has (Buffer.within), and the
 * join itself does nothing. A result may be a part of another one.
 */
#include "graph/graph.h"

ValueId *
graph_wholes(const Graph *g, Arena *a)
{
    ValueId *whole = NEW_ARRAY(a, ValueId, g->value.n);

    for (NodeId n = g->node.n; n-- > 1;) {
        const Node *join = &g->node.at[n];
        ValueId out = join->along ? node_out(g, join, 0) : 0;
        for (uint32_t i = 0; out && i < join->in.count; i++)
            whole[node_in(g, join, i)] = whole[out] ? whole[out] : out;
    }
    return whole;
}

/* Rows are contiguous in both, so the dimensions before them may be regrouped: [1, 28, 28, 32] in
 * [1, 28, 28, 480] is [1, 7, 4, 7, 4, 32] in [1, 7, 4, 7, 4, 480]. */
bool
graph_within(const Graph *g, ValueId v, ValueId whole, const Type *seen, const Type **within)
{
    Ctx *c = g->ctx;
    const Type *own = g->value.at[v].type, *all = g->value.at[whole].type;
    const Expr *dim[TN_MAX_RANK];
    uint32_t d = 0, first = 0;

    *within = NULL;
    while (d < own->rank && expr_eq(c, NULL, own->dim[d], all->dim[d]) == YES)
        d++;
    while (first < d && expr_is(own->dim[first], 1))
        first++;
    if (first == d) /* one contiguous block, or all of it */
        return true;
    uint32_t behind = own->rank - d, front = seen->rank - behind;
    if (seen->rank < behind || seen->rank > TN_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < seen->rank; i++) {
        if (i >= front && expr_eq(c, NULL, seen->dim[i], own->dim[i - front + d]) != YES)
            return false;
        dim[i] = i < front ? seen->dim[i] : all->dim[i - front + d];
    }
    *within = type_new(c, own->dtype, seen->rank, dim);
    return true;
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
