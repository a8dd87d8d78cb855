/* lower: every call of an operator becomes calls of the nests that are its meaning.
 *
 * Nodes are expanded from last to first, and only where something reads what they make. A nest
 * reads less than its operator does: the shape that a reshape is given has done its work in the
 * types. So what computed such shapes is no longer read, and need not have a meaning as nests.
 * Then the nests are laid out in order; intermediates are named after the result and the nest.
 *
 * A node that defines a symbol is needed where something is sized or indexed by it, read or not.
 * The copy that a match makes has the same contents as what it was made of, which stands in for it.
 *
 * Needs   types of all values.
 * Keeps   names and types of the values that stay.
 */
#include "lower/lower.h"

typedef struct {
    Expansion meaning;
    bool live;
} Lowered;
/* by a routine, whose sizes may be what is known of the value */
enum { READ = 1, ASKED = 2 };

typedef struct {
    const Graph *from;
    Graph *to;
    Arena *scratch;
    ValueId *map;
    Lowered *node; /* [from->node.n] */
    Map definer;   /* of symbols */
    /* those that live nodes and results use; the nodes that define the first nneeded are live */
    SymbolSet symbol;
    uint32_t nneeded;
    uint8_t *read; /* [from->value.n] */
} Lower;

/* ---- which nodes, as which nests ------------------------------------------------------------- */

static bool
is_read(const Lower *l, const Node *n)
{
    for (uint32_t i = 0; i < n->out.count; i++)
        if (l->read[node_out(l->from, n, i)])
            return true;
    return false;
}

static void
mark_read(Lower *l, const Node *n, const Expansion *e)
{
    for (uint32_t k = 0; k < e->call.n; k++) {
        const NestCall *call = &e->call.at[k];
        for (uint32_t i = 0; i < call->nest->nin; i++)
            if (call->value[i] < n->in.count)
                l->read[node_in(l->from, n, call->value[i])] |= READ;
    }
}

static bool
expand_node(Lower *l, NodeId id)
{
    const Graph *g = l->from;
    const Node *n = &g->node.at[id];
    OpCall call = graph_op_call(g, l->scratch, id);
    const Type **out = NEW_ARRAY(l->scratch, const Type *, n->out.count);
    for (uint32_t i = 0; i < n->out.count; i++)
        out[i] = node_out(g, n, i) ? g->value.at[node_out(g, n, i)].type : NULL;
    if (!op_expand(g->ctx, &call, out, &l->node[id].meaning))
        return false;
    mark_read(l, n, &l->node[id].meaning);
    return true;
}

/* Makes the nodes live that define used symbols. */
static void
need_symbols(Lower *l)
{
    uint64_t id;

    for (; l->nneeded < l->symbol.n; l->nneeded++)
        if (map_get(&l->definer, MAP_PTR(l->symbol.at[l->nneeded]), &id))
            l->node[id].live = true;
}

/* All nodes are tried, so that one run reports every operator without a meaning. */
static bool
expand_live(Lower *l)
{
    const Graph *g = l->from;
    bool ok = true;
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        expr_symbols(&l->symbol, g->constraints.at[i].a);
        expr_symbols(&l->symbol, g->constraints.at[i].b);
    }
    for (uint32_t i = 0; i < g->output.n; i++) {
        l->read[g->output.at[i]] |= READ;
        type_symbols(&l->symbol, g->value.at[g->output.at[i]].type);
    }
    need_symbols(l);
    for (NodeId id = g->node.n; --id > 0;) {
        const Node *n = &g->node.at[id];
        l->read[0] = 0;
        if (!is_read(l, n) && !l->node[id].live)
            continue;
        l->node[id].live = true;
        if (n->callee == CALL_OP && !op_is_routine(n->op))
            ok &= expand_node(l, id);
        else
            for (uint32_t i = 0; i < n->in.count; i++)
                l->read[node_in(g, n, i)] |= n->callee == CALL_OP ? ASKED : READ;
        if (!l->definer.n)
            continue;
        graph_symbols(&l->symbol, g, id);
        for (uint32_t k = 0; k < l->node[id].meaning.call.n; k++)
            nest_symbols(&l->symbol, l->node[id].meaning.call.at[k].nest);
        need_symbols(l);
    }
    return ok;
}

/* ---- laying out ------------------------------------------------------------------------------ */

/* The parameter's name in the nest that makes value v: how an intermediate is called. */
static Sym
name_of(const Lower *l, const Node *n, const Expansion *e, uint32_t v)
{
    const char *result = "value";
    for (uint32_t i = n->out.count; i-- > 0;)
        if (node_out(l->from, n, i))
            result = l->from->value.at[node_out(l->from, n, i)].name;
    for (uint32_t k = 0; k < e->call.n; k++) {
        const Nest *nest = e->call.at[k].nest;
        for (uint32_t i = nest->nin; i < nest->nin + nest->nout; i++)
            if (e->call.at[k].value[i] == v)
                return sym_printf(l->from->ctx, "%s_%s", result, nest->param[i].name);
    }
    return sym_printf(l->from->ctx, "%s_unused", result);
}

static void
place_nests(Lower *l, NodeId id)
{
    const Graph *g = l->from;
    const Node *n = &g->node.at[id];
    const Expansion *e = &l->node[id].meaning;
    ValueId *value = NEW_ARRAY(l->scratch, ValueId, e->type.n);
    for (uint32_t v = 0; v < e->type.n; v++) {
        bool in = v < n->in.count, out = !in && v < n->in.count + n->out.count;
        ValueId old = in ? node_in(g, n, v) : out ? node_out(g, n, v - n->in.count) : 0;
        if (in)
            value[v] = l->map[old];
        else if (old)
            value[v] = l->map[old] = graph_copy_value(l->to, g, old);
        else if (e->type.at[v])
            value[v] = graph_value(l->to, name_of(l, n, e, v), e->type.at[v]);
    }
    for (uint32_t k = 0; k < e->call.n; k++) {
        const NestCall *call = &e->call.at[k];
        const Nest *nest = call->nest;
        uint32_t nparam = nest->nin + nest->nout;
        ValueId *param = NEW_ARRAY(l->scratch, ValueId, nparam);
        for (uint32_t i = 0; i < nparam; i++)
            param[i] = value[call->value[i]];
        graph_call_nest(l->to, nest, n->loc, n->origin, param, param + nest->nin);
    }
}

/* Its symbols alone are left of a match, unless a routine asks for the copy, which is known by
 * them. */
static void
place_match(Lower *l, NodeId id)
{
    const Node *n = &l->from->node.at[id];
    ValueId in = l->map[node_in(l->from, n, 0)], old = node_out(l->from, n, 0), out = 0;

    if (old && l->read[old] & ASKED)
        l->map[old] = out = graph_copy_value(l->to, l->from, old);
    else if (old)
        l->map[old] = in;
    graph_call_region(l->to, n, 1, &in, 1, &out);
}

Graph *
lower_nests(const Graph *g)
{
    Lower l = { .from = g, .scratch = arena_child(g->ctx->arena) };
    l.definer = graph_definers(g, l.scratch);
    l.symbol.seen.arena = l.scratch;
    l.node = NEW_ARRAY(l.scratch, Lowered, g->node.n);
    l.read = NEW_ARRAY(l.scratch, uint8_t, g->value.n);
    bool ok = expand_live(&l);
    if (ok) {
        l.to = graph_rebuild(g, &l.map);
        for (NodeId id = 1; id < g->node.n; id++) {
            if (!l.node[id].live)
                continue;
            if (g->node.at[id].callee == CALL_OP && !op_is_routine(g->node.at[id].op))
                place_nests(&l, id);
            else if (g->node.at[id].callee == CALL_MATCH)
                place_match(&l, id);
            else
                graph_copy_node(l.to, g, id, l.map);
        }
        graph_finish(l.to, g, l.map);
    }
    arena_free(l.scratch);
    return ok ? l.to : NULL;
}
