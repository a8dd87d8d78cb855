/* memory: sum the bytes of intermediate tensors that are alive at once.
 *
 * A value is alive from the node that makes it to the last that reads it. The sum is not exactly
 * the plan's arena: an output may reuse an input's memory, and packing may leave gaps.
 */
#include "format/internal.h"

enum { ALIGN = 64 }; /* bytes: alignment of a value in the arena */

static int64_t
bytes_of(Ctx *c, const Type *t)
{
    int64_t bytes = expr_bounds(c, NULL, type_bytes(c, t)).hi;
    return bytes > INT64_MAX - ALIGN ? INT64_MAX : (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t
sum(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Outputs of the graph are not counted: the caller has memory for them. */
int64_t *
format_alive(const Graph *g, Arena *a)
{
    int64_t *bytes = NEW_ARRAY(a, int64_t, g->node.n);
    const bool *output = graph_outputs(g, a);
    NodeId *last = NEW_ARRAY(a, NodeId, g->value.n);

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            last[node_in(g, &g->node.at[n], i)] = n;
    for (ValueId v = 1; v < g->value.n; v++) {
        NodeId def = output[v] ? 0 : g->value.at[v].def;
        int64_t own = def ? bytes_of(g->ctx, g->value.at[v].type) : 0;
        for (NodeId n = def; n && (n == def || n <= last[v]); n++)
            bytes[n] = sum(bytes[n], own);
    }
    return bytes;
}
