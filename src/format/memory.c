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

/* The values alive while a node runs. */
typedef struct {
    const Graph *g;
    NodeId *last;
    ValueId *at;
    uint32_t n;
} Alive;

/* Outputs of the graph are not counted: the caller has memory for them. */
static Alive
alive_before(const Graph *g, Arena *a)
{
    Alive l = { g, NEW_ARRAY(a, NodeId, g->value.n), NEW_ARRAY(a, ValueId, g->value.n), 0 };

    for (NodeId n = 1; n < g->node.n; n++) {
        for (uint32_t i = 0; i < g->node.at[n].out.count; i++)
            l.last[node_out(g, &g->node.at[n], i)] = n;
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            l.last[node_in(g, &g->node.at[n], i)] = n;
    }
    for (uint32_t i = 0; i < g->output.n; i++)
        l.last[g->output.at[i]] = 0;
    return l;
}

static void
alive_at(Alive *l, NodeId n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < l->n; i++)
        if (l->last[l->at[i]] >= n)
            l->at[kept++] = l->at[i];
    l->n = kept;
    for (uint32_t i = 0; i < l->g->node.at[n].out.count; i++) {
        ValueId v = node_out(l->g, &l->g->node.at[n], i);
        if (v && l->last[v])
            l->at[l->n++] = v;
    }
}

int64_t *
format_alive(const Graph *g, Arena *a)
{
    int64_t *bytes = NEW_ARRAY(a, int64_t, g->node.n);
    Alive l = alive_before(g, a);

    for (NodeId n = 1; n < g->node.n; n++) {
        alive_at(&l, n);
        for (uint32_t i = 0; i < l.n; i++)
            bytes[n] = sum(bytes[n], bytes_of(g->ctx, g->value.at[l.at[i]].type));
    }
    return bytes;
}
