/* cse: compute once what is computed twice.
 *
 * Nodes are visited in topological order with their inputs already mapped, so two nodes compute the
 * same exactly when callee, attributes, mapped inputs and result types are the same; x + y and y +
 * x are. Small constants with the same type and contents count as one; large ones are compared by
 * address.
 *
 * Keeps   names of the first of equal nodes; names of outputs.
 * Cost    O(nodes), one hash per node.
 */
#include "rewrite/internal.h"
#include "op/kinds.h"

#include <string.h>

#define SMALL_BYTES 4096

/* ---- constants ------------------------------------------------------------------------------- */

static bool
same_constant(const Value *a, const Value *b, int64_t bytes)
{
    return a->type == b->type &&
           (a->data == b->data || memcmp(a->data, b->data, (size_t)bytes) == 0);
}

static void
merge_constants(Rebuild *r)
{
    const Graph *g = r->from;
    Map first = { .arena = r->scratch };
    for (ValueId v = 1; v < g->value.n; v++) {
        const Value *value = &g->value.at[v];
        int64_t bytes;
        uint64_t other, key;
        if (!value->data || !type_static_bytes(value->type, &bytes) || bytes > SMALL_BYTES)
            continue;
        key = hash_bytes(value->data, (size_t)bytes, MAP_PTR(value->type));
        if (!map_get(&first, key, &other))
            map_put(&first, key, v);
        else if (!r->is_output[v] && same_constant(value, &g->value.at[other], bytes))
            r->map[v] = r->map[other];
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool
same_attr(const Attr *a, const Attr *b)
{
    int64_t bytes;
    if (a->name != b->name || a->kind != b->kind || a->n != b->n)
        return false;
    switch (a->kind) {
    case ATTR_INT: return a->i == b->i;
    case ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case ATTR_STRING: return strcmp(a->s, b->s) == 0;
    case ATTR_INTS: return a->n == 0 || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case ATTR_FLOATS:
        return a->n == 0 || memcmp(a->floats, b->floats, a->n * sizeof *a->floats) == 0;
    case ATTR_TENSOR:
        return a->type == b->type && type_static_bytes(a->type, &bytes) &&
               memcmp(a->data, b->data, (size_t)bytes) == 0;
    }
    return false;
}

/* Does the operator give the same bits with its two inputs exchanged? max and min do not, of zeros
 * of either sign. */
static bool
commutes(const Node *n)
{
    static const OpKind op[] = { OP_add, OP_mul,         OP_equal,      OP_and,        OP_or,
                                 OP_xor, OP_bitwise_and, OP_bitwise_or, OP_bitwise_xor };
    for (size_t i = 0; i < sizeof op / sizeof *op; i++)
        if (n->callee == CALL_OP && n->op == op[i])
            return true;
    return false;
}

/* Input i as it is compared: of exchangeable ones the older value first. */
static ValueId
input(const Rebuild *r, const Node *n, uint32_t i)
{
    ValueId v = r->map[node_in(r->from, n, i)];
    if (!commutes(n))
        return v;
    ValueId other = r->map[node_in(r->from, n, 1 - i)];
    return (v < other) == (i == 0) ? v : other;
}

static bool
same_node(const Rebuild *r, const Node *a, const Node *b)
{
    const Graph *g = r->from;
    if (a->callee != b->callee || a->in.count != b->in.count || a->out.count != b->out.count)
        return false;
    if (a->callee >= CALL_KERNEL || a->op != b->op || a->nest != b->nest ||
        a->attrs.n != b->attrs.n)
        return false;
    for (uint32_t i = 0; i < a->attrs.n; i++)
        if (!same_attr(&a->attrs.at[i], &b->attrs.at[i]))
            return false;
    for (uint32_t i = 0; i < a->in.count; i++)
        if (input(r, a, i) != input(r, b, i))
            return false;
    for (uint32_t i = 0; i < a->out.count; i++)
        if (g->value.at[node_out(g, a, i)].type != g->value.at[node_out(g, b, i)].type)
            return false;
    return true;
}

static uint64_t
hash_node(const Rebuild *r, const Node *n)
{
    uint64_t h = hash_bytes(&n->op, sizeof n->op, n->callee);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = input(r, n, i);
        h = hash_bytes(&v, sizeof v, h);
    }
    for (uint32_t i = 0; i < n->attrs.n; i++)
        h = hash_bytes(&n->attrs.at[i].name, sizeof n->attrs.at[i].name, h);
    return h;
}

/* The results of `first` stand for those of n; false if an output would be lost. */
static bool
merge(Rebuild *r, const Node *n, const Node *first)
{
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId old = node_out(r->from, n, i), same = node_out(r->from, first, i);
        if (old && !same)
            return false;
        if (old && r->is_output[old])
            return n->out.count == 1 && rebuild_replace(r, old, r->map[same]);
    }
    for (uint32_t i = 0; i < n->out.count; i++)
        if (node_out(r->from, n, i))
            rebuild_replace(r, node_out(r->from, n, i), r->map[node_out(r->from, first, i)]);
    return true;
}

Graph *
rewrite_cse(const Graph *g)
{
    Rebuild r;
    rebuild_begin(&r, g);
    Map first = { .arena = r.scratch }; /* hash to the latest node with it … */
    /* … and from it to the ones before */
    NodeId *previous = NEW_ARRAY(r.scratch, NodeId, g->node.n);
    merge_constants(&r);
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        uint64_t h = hash_node(&r, n), at = 0;
        map_get(&first, h, &at);
        NodeId same = (NodeId)at;
        while (same && !same_node(&r, n, &g->node.at[same]))
            same = previous[same];
        if (same && merge(&r, n, &g->node.at[same]))
            continue;
        graph_copy_node(r.to, g, id, r.map);
        previous[id] = (NodeId)at;
        map_put(&first, h, id);
    }
    return rebuild_end(&r);
}
