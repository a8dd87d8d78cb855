/* io_layout: give inputs and outputs of the model other layouts (orders of dimensions).
 *
 * An input gets the requested order, and the model reads its transpose; an output is transposed
 * where it is computed. These are ordinary operators: rules combine them with transpositions of the
 * model's own, and fusion puts them into the kernels at the model's edge.
 */
#include "rewrite/rewrite.h"
#include "op/kinds.h"

#include <string.h>

static ValueId
transposed(Graph *g, ValueId v, const int64_t *perm, uint32_t rank)
{
    Attr attr = { .name = sym(g->ctx, "perm"),
                  .kind = ATTR_INTS,
                  .n = rank,
                  .ints = arena_copy(g->arena, perm, rank * sizeof *perm) };
    OpNode call = { .op = OP_transpose,
                    .attrs = { arena_copy(g->arena, &attr, sizeof attr), 1 },
                    .origin = sym_printf(g->ctx, "order of \"%s\"", g->value.at[v].name),
                    .nin = 1,
                    .in = &v };
    ValueId out;

    return graph_infer_op(g, &call, 1, &g->value.at[v].name, &out) ? out : 0;
}

static const uint8_t *
order_of(const PortOrder *port, uint32_t n, Sym name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(port[i].name, name))
            return port[i].order;
    return NULL;
}

Graph *
rewrite_io_layout(const Graph *from, uint32_t n, const PortOrder *port)
{
    int64_t perm[TN_MAX_RANK];
    /* of an input: as it is given */
    ValueId *map, *outer = NEW_ARRAY(from->arena, ValueId, from->value.n);
    Graph *g = graph_rebuild(from, &map);

    for (uint32_t i = 0; i < from->input.n; i++) {
        ValueId v = map[from->input.at[i]];
        const Type *type = g->value.at[v].type;
        const uint8_t *order = order_of(port, n, g->value.at[v].name);
        for (uint32_t d = 0; order && d < type->rank; d++)
            perm[order[d]] = d;
        if (!order)
            continue;
        g->value.at[v].type = type_permuted(g->ctx, type, order);
        outer[from->input.at[i]] = v;
        if (!(map[from->input.at[i]] = transposed(g, v, perm, type->rank)))
            return NULL;
    }
    for (NodeId node = 1; node < from->node.n; node++)
        graph_copy_node(g, from, node, map);
    for (uint32_t i = 0; i < from->output.n; i++) {
        ValueId v = from->output.at[i];
        Sym name = from->value.at[v].name;
        const uint8_t *order = order_of(port, n, name);
        for (uint32_t d = 0; order && d < from->value.at[v].type->rank; d++)
            perm[d] = order[d];
        /* handed through: it lies as the input does */
        if (outer[v])
            map[v] = outer[v];
        if (outer[v] || !order)
            continue;
        if (!(map[v] = transposed(g, map[v], perm, from->value.at[v].type->rank)))
            return NULL;
        graph_rename(g, map[v], name);
    }
    graph_finish(g, from, map);
    return g;
}
