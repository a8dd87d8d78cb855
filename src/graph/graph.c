/* graph: building and rebuilding graphs.
 *
 * Nodes are only appended, and read values that exist, so they are in topological order. Passes do
 * not edit a graph; they rebuild it into a new one and drop what nothing reads. Names of values are
 * unique; a second %x becomes %x_1.
 */
#include "graph/internal.h"

#include <string.h>

Graph *
graph_new(Ctx *c, Arena *arena, const char *name)
{
    Graph *g = NEW(arena, Graph);

    g->ctx = c;
    g->arena = arena;
    g->name = sym(c, name);
    g->taken.arena = arena;
    VEC_PUSH(arena, &g->value, (Value){ 0 });
    VEC_PUSH(arena, &g->node, (Node){ 0 });
    return g;
}

/* An empty graph of the same name and constraints, for a pass to fill. */
static Graph *
graph_like(const Graph *g)
{
    Graph *fresh = graph_new(g->ctx, g->arena, g->name);

    VEC_RESERVE(fresh->arena, &fresh->node, g->node.n + g->node.n / 8);
    VEC_RESERVE(fresh->arena, &fresh->value, g->value.n + g->value.n / 8);
    VEC_RESERVE(fresh->arena, &fresh->ref, g->ref.n + g->ref.n / 8);
    map_reserve(&fresh->taken, g->value.n);
    for (uint32_t i = 0; i < g->constraints.n; i++)
        VEC_PUSH(fresh->arena, &fresh->constraints, g->constraints.at[i]);
    for (uint32_t i = 0; i < g->state.n; i++)
        VEC_PUSH(fresh->arena, &fresh->state, g->state.at[i]);
    return fresh;
}

/* ---- values ---------------------------------------------------------------------------------- */

static Sym
unique_name(Graph *g, const char *wanted)
{
    Sym base = sym(g->ctx, wanted), name = base;
    uint64_t suffix = 0;

    if (!map_get(&g->taken, MAP_PTR(base), &suffix)) {
        map_put(&g->taken, MAP_PTR(base), 1);
        return base;
    }
    do
        name = sym_printf(g->ctx, "%s_%u", base, (unsigned)suffix++);
    while (map_get(&g->taken, MAP_PTR(name), NULL));
    map_put(&g->taken, MAP_PTR(base), suffix);
    map_put(&g->taken, MAP_PTR(name), 1);
    return name;
}

ValueId
graph_value(Graph *g, const char *name, const Type *t)
{
    Value v = { .name = unique_name(g, name), .type = t };
    VEC_PUSH(g->arena, &g->value, v);
    return g->value.n - 1;
}

void
graph_name(Graph *g, ValueId v, const char *name)
{
    if (g->value.at[v].name != sym(g->ctx, name))
        g->value.at[v].name = unique_name(g, name);
}

void
graph_rename(Graph *g, ValueId v, const char *name)
{
    Sym wanted = sym(g->ctx, name);
    bool taken = map_get(&g->taken, MAP_PTR(wanted), NULL);

    if (g->value.at[v].name == wanted)
        return;
    for (ValueId other = 1; taken && other < g->value.n; other++)
        if (g->value.at[other].name == wanted)
            g->value.at[other].name = unique_name(g, name);
    unique_name(g, name); /* reserve it */
    g->value.at[v].name = wanted;
}

ValueId
graph_input(Graph *g, const char *name, const Type *t)
{
    ValueId v = graph_value(g, name, t);
    VEC_PUSH(g->arena, &g->input, v);
    return v;
}

/* A u64 above INT64_MAX is no Expr; such contents stay unknown. */
static Known
known_of_data(Graph *g, const Type *t, const void *data)
{
    int64_t n;

    if (dtype_is_float(t->dtype) || !expr_const(type_count(g->ctx, t), &n) || n > OP_KNOWN_MAX)
        return (Known){ 0 };
    const Expr **at = NEW_ARRAY(g->arena, const Expr *, n ? n : 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = number_load(t->dtype, data, i).i;
        if (t->dtype == DT_U64 && v < 0)
            return (Known){ 0 };
        at[i] = expr_int(g->ctx, v);
    }
    return (Known){ (uint32_t)n, at };
}

ValueId
graph_const(Graph *g, const char *name, const Type *t, const void *data)
{
    ValueId v = graph_value(g, name, t);
    g->value.at[v].data = data;
    g->value.at[v].known = known_of_data(g, t, data);
    return v;
}

void
graph_input_is(Graph *g, uint32_t i, const void *data)
{
    Value *v = &g->value.at[g->input.at[i]];

    v->data = data;
    v->known = known_of_data(g, v->type, data);
    for (uint32_t k = i; k + 1 < g->input.n; k++)
        g->input.at[k] = g->input.at[k + 1];
    g->input.n--;
}

const char graph_absent[] = "_";

/* ---- nodes ----------------------------------------------------------------------------------- */

static Span
add_refs(Graph *g, uint32_t n, const ValueId *v)
{
    Span s = { g->ref.n, n };
    for (uint32_t i = 0; i < n; i++)
        VEC_PUSH(g->arena, &g->ref, v[i]);
    return s;
}

NodeId
graph_add_node(Graph *g, Node n, uint32_t nin, const ValueId *in, uint32_t nout, const ValueId *out)
{
    NodeId id = g->node.n;

    n.in = add_refs(g, nin, in);
    n.out = add_refs(g, nout, out);
    VEC_PUSH(g->arena, &g->node, n);
    for (uint32_t i = 0; i < nout; i++)
        if (out[i])
            g->value.at[out[i]].def = id;
    return id;
}

static Attrs
copy_attrs(Graph *g, Attrs from)
{
    if (from.n == 0)
        return (Attrs){ 0 };
    Attr *at = arena_copy(g->arena, from.at, from.n * sizeof *at);
    for (uint32_t i = 0; i < from.n; i++) {
        if (at[i].kind == ATTR_STRING)
            at[i].s = arena_str(g->arena, at[i].s);
        if (at[i].kind == ATTR_INTS && at[i].n)
            at[i].ints = arena_copy(g->arena, at[i].ints, at[i].n * sizeof *at[i].ints);
        if (at[i].kind == ATTR_FLOATS && at[i].n)
            at[i].floats = arena_copy(g->arena, at[i].floats, at[i].n * sizeof *at[i].floats);
    }
    return (Attrs){ at, from.n };
}

NodeId
graph_call_op(Graph *g, const OpNode *call, uint32_t nout, const ValueId *out)
{
    Node n = { .callee = CALL_OP,
               .op = call->op,
               .attrs = copy_attrs(g, call->attrs),
               .loc = call->loc,
               .origin = call->origin };
    return graph_add_node(g, n, call->nin, call->in, nout, out);
}

NodeId
graph_call_nest(Graph *g, const Nest *nest, Loc loc, Sym origin, const ValueId *in,
                const ValueId *out)
{
    Node n = { .callee = CALL_NEST, .nest = nest, .loc = loc, .origin = origin };
    return graph_add_node(g, n, nest->nin, in, nest->nout, out);
}

ValueId
graph_nest_value(Graph *g, const Nest *n, const char *name, Loc loc, Sym origin, const ValueId *in)
{
    ValueId out = n ? graph_value(g, name, n->param[n->nin].type) : 0;

    if (out)
        graph_call_nest(g, n, loc, origin, in, &out);
    return out;
}

bool
graph_call_used(Graph *g, const Nest *nest, Loc loc, Sym origin, const ValueId *in, ValueId out)
{
    ValueId *value = NEW_ARRAY(g->arena, ValueId, nest->nin + 1);

    for (uint32_t i = 0; i < nest->nin; i++)
        value[i] = in[i];
    value[nest->nin] = out;
    nest = nest_drop_unused(g->ctx, nest, value);
    return nest && graph_call_nest(g, nest, loc, origin, value, &out) != 0;
}

void
graph_declare(Graph *g, const char *what, const char *name, const Type *is, const Type *said)
{
    Ctx *c = g->ctx;

    for (uint32_t d = 0; is && is->rank == said->rank && d < is->rank; d++) {
        if (expr_eq(c, NULL, is->dim[d], said->dim[d]) != UNKNOWN)
            continue;
        const char *why =
            arena_printf(c->arena, "%s: dimension %u of %s is {got} (%s), declared {want} (%s)",
                         what, d, name, expr_str(c, is->dim[d]), expr_str(c, said->dim[d]));
        constraint_add(g->arena, &g->constraints,
                       (Constraint){ .a = is->dim[d], .b = said->dim[d], .why = why, .said = "" });
    }
}

/* The same of a nest's or kernel's parameter, whose argument is v. */
static void
declare_argument(Graph *g, const char *kind, const char *callee, const char *name, ValueId v,
                 const Type *said)
{
    graph_declare(g, arena_printf(g->arena, "%s %s", kind, callee), name,
                  v ? g->value.at[v].type : NULL, said);
}

static void
add_demands(Graph *g, const Demands *demands)
{
    for (uint32_t i = 0; i < demands->n; i++) {
        const Demand *d = &demands->at[i];
        constraint_add(g->arena, &g->constraints,
                       (Constraint){ .a = d->got, .b = d->want, .why = d->why, .said = "" });
    }
}

/* What runs check anyway. */
static KnownSizes
known_sizes(const Graph *g, Arena *a)
{
    KnownSizes list = { 0 };

    for (uint32_t i = 0; i < g->constraints.n; i++) {
        const Constraint *k = &g->constraints.at[i];
        bool both = k->rule == SIZES_BROADCAST, or_one = k->rule != SIZES_EQUAL;
        const Expr *all = both ? expr_broadcast(g->ctx, k->a, k->b) : k->b;
        VEC_PUSH(a, &list, ((KnownSize){ k->a, all, or_one }));
        if (k->rule != SIZES_INTO)
            VEC_PUSH(a, &list, ((KnownSize){ k->b, both ? all : k->a, or_one }));
    }
    return list;
}

NodeId
graph_call_written_nest(Graph *g, const Nest *written, Loc loc, Sym origin, const ValueId *in,
                        const ValueId *out)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Demands demands = { 0 };
    KnownSizes known = known_sizes(g, scratch);
    const Nest *n = nest_in_bounds(g->ctx, scratch, written, &known, &demands);
    NodeId id = n ? graph_call_nest(g, n, loc, origin, in, out) : 0;

    add_demands(g, &demands);
    for (uint32_t i = 0; id && i < n->nin + n->nout; i++)
        declare_argument(g, "nest", n->name, n->param[i].name, i < n->nin ? in[i] : out[i - n->nin],
                         n->param[i].type);
    arena_free(scratch);
    return id;
}

NodeId
graph_call_written_kernel(Graph *g, Kernel *k, Loc loc, Sym origin, const ValueId *in,
                          const ValueId *out)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Part *part = arena_copy(g->arena, k->part, k->npart * sizeof *part);
    KnownSizes known = known_sizes(g, scratch);
    Demands demands = { 0 };
    bool inside = true;

    for (uint32_t i = 0; inside && i < k->npart; i++) {
        part[i].nest = nest_in_bounds(g->ctx, scratch, part[i].nest, &known, &demands);
        inside = part[i].nest != NULL;
    }
    k->part = part;
    NodeId id = inside ? graph_call_kernel(g, k, loc, origin, in, out) : 0;
    add_demands(g, &demands);
    for (uint32_t i = 0; id && i < k->nin + k->nout; i++)
        declare_argument(g, "kernel", k->name, k->buffer.at[i].name,
                         i < k->nin ? in[i] : out[i - k->nin], k->buffer.at[i].type);
    arena_free(scratch);
    return id;
}

NodeId
graph_call_kernel(Graph *g, Kernel *k, Loc loc, Sym origin, const ValueId *in, const ValueId *out)
{
    Node n = { .callee = CALL_KERNEL, .kernel = k, .loc = loc, .origin = origin };
    return graph_add_node(g, n, k->nin, in, k->nout, out);
}

/* The call of an operator on values of g, without outputs yet. */
static OpCall
call_of(const Graph *g, Arena *a, const OpNode *call, uint32_t nout)
{
    const Type **type = NEW_ARRAY(a, const Type *, call->nin + 1);
    Known *known = NEW_ARRAY(a, Known, call->nin + 1);
    const void **data = NEW_ARRAY(a, const void *, call->nin + 1);

    for (uint32_t i = 0; i < call->nin; i++)
        if (call->in[i]) {
            const Value *v = &g->value.at[call->in[i]];
            type[i] = v->type;
            known[i] = v->known;
            data[i] = v->data;
        }
    return (OpCall){ .op = call->op,
                     .loc = call->loc,
                     .attrs = call->attrs,
                     .nin = call->nin,
                     .nout = nout,
                     .in = type,
                     .known = known,
                     .data = data };
}

OpCall
graph_op_call(const Graph *g, Arena *scratch, NodeId id)
{
    const Node *n = &g->node.at[id];
    return call_of(g, scratch,
                   &(OpNode){ .op = n->op,
                              .attrs = n->attrs,
                              .loc = n->loc,
                              .nin = n->in.count,
                              .in = g->ref.at + n->in.first },
                   n->out.count);
}

Known
known_of_op(const Graph *g, NodeId id)
{
    OpCall call = graph_op_call(g, g->arena, id);
    const Type **out = NEW_ARRAY(g->arena, const Type *, call.nout + 1);

    for (uint32_t i = 0; i < call.nout; i++)
        if (node_out(g, &g->node.at[id], i))
            out[i] = g->value.at[node_out(g, &g->node.at[id], i)].type;
    return op_known(g->ctx, &call, out);
}

bool
graph_infer_op(Graph *g, const OpNode *call, uint32_t nout, const char *const *out_name,
               ValueId *out)
{
    OpCall typed = call_of(g, g->arena, call, nout);
    const Type **type = NEW_ARRAY(g->arena, const Type *, nout + 1);

    typed.constraints = &g->constraints;
    if (!op_infer(g->ctx, &typed, type))
        return false;
    Known known = op_known(g->ctx, &typed, type);
    for (uint32_t i = 0; i < nout; i++) {
        const char *name = out_name && out_name[i] ? out_name[i] : op_info[call->op].name;
        out[i] = name == graph_absent ? 0 : graph_value(g, name, type[i]);
    }
    if (nout && out[0])
        g->value.at[out[0]].known = known;
    graph_call_op(g, call, nout, out);
    return true;
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

ValueId
graph_copy_value(Graph *g, const Graph *from, ValueId v)
{
    const Value *old = &from->value.at[v];
    ValueId id = graph_value(g, old->name, old->type);
    Value *fresh = &g->value.at[id];

    fresh->data = old->data;
    fresh->known = old->known;
    fresh->format = old->format;
    fresh->kept = graph_is_kept(from, v);
    return id;
}

NodeId
graph_copy_node(Graph *g, const Graph *from, NodeId id, ValueId *map)
{
    Node n = from->node.at[id];
    if (n.nregion) /* the copy's own, so that passes may replace the graphs */
        n.region = arena_copy(g->arena, n.region, n.nregion * sizeof *n.region);
    ValueId *in = NEW_ARRAY(g->arena, ValueId, n.in.count + 1),
            *out = NEW_ARRAY(g->arena, ValueId, n.out.count + 1);

    for (uint32_t i = 0; i < n.in.count; i++)
        in[i] = map[node_in(from, &n, i)];
    for (uint32_t i = 0; i < n.out.count; i++) {
        ValueId v = node_out(from, &n, i);
        out[i] = v ? (map[v] = graph_copy_value(g, from, v)) : 0;
    }
    return graph_add_node(g, n, n.in.count, in, n.out.count, out);
}

Graph *
graph_rebuild(const Graph *from, ValueId **map)
{
    Graph *g = graph_like(from);

    *map = NEW_ARRAY(g->arena, ValueId, from->value.n);
    for (uint32_t i = 0; i < from->input.n; i++) {
        ValueId v = from->input.at[i];
        (*map)[v] = graph_copy_value(g, from, v);
        VEC_PUSH(g->arena, &g->input, (*map)[v]);
    }
    for (ValueId v = 1; v < from->value.n; v++)
        if (from->value.at[v].data && !(*map)[v])
            (*map)[v] = graph_copy_value(g, from, v);
    return g;
}

typedef struct {
    const Graph *g;
    uint8_t *value, *node;
    Map definer;
    SymbolSet symbol;
    uint32_t nmarked;
} Live;

/* The nodes that define these symbols are needed even if nothing reads their results. */
static void
mark_symbols(Live *l)
{
    uint64_t id;

    for (; l->nmarked < l->symbol.n; l->nmarked++)
        if (map_get(&l->definer, MAP_PTR(l->symbol.at[l->nmarked]), &id))
            l->node[id] = 1;
}

static void
mark_node(Live *l, NodeId id)
{
    const Node *n = &l->g->node.at[id];

    l->node[id] = 1;
    for (uint32_t i = 0; i < n->in.count; i++)
        l->value[node_in(l->g, n, i)] = 1;
    if (l->definer.n)
        graph_symbols(&l->symbol, l->g, id);
    mark_symbols(l);
}

/* Which values and nodes the outputs depend on: one walk backwards over the nodes. */
static void
mark_live(const Graph *g, uint8_t *value, uint8_t *node)
{
    Live l = { g, value, node, graph_definers(g, g->arena), { .seen.arena = g->arena }, 0 };

    for (uint32_t i = 0; i < g->constraints.n; i++) {
        expr_symbols(&l.symbol, g->constraints.at[i].a);
        expr_symbols(&l.symbol, g->constraints.at[i].b);
    }
    for (uint32_t i = 0; i < g->output.n; i++) {
        value[g->output.at[i]] = 1;
        type_symbols(&l.symbol, g->value.at[g->output.at[i]].type);
    }
    mark_symbols(&l);
    for (uint32_t i = 0; i < g->input.n; i++)
        value[g->input.at[i]] = 1;
    for (NodeId id = g->node.n; --id > 0;) {
        const Node *n = &g->node.at[id];
        bool live = node[id];
        for (uint32_t i = 0; i < n->out.count && !live; i++)
            live = node_out(g, n, i) && value[node_out(g, n, i)];
        if (live)
            mark_node(&l, id);
    }
    /* A node that stays keeps all of its outputs. */
    for (NodeId id = 1; id < g->node.n; id++)
        for (uint32_t i = 0; node[id] && i < g->node.at[id].out.count; i++)
            value[node_out(g, &g->node.at[id], i)] = 1;
    value[0] = 1;
}

uint32_t
graph_finish(Graph *g, const Graph *from, const ValueId *map)
{
    for (uint32_t i = 0; i < from->output.n; i++)
        VEC_PUSH(g->arena, &g->output, map[from->output.at[i]]);

    uint8_t *value = NEW_ARRAY(g->arena, uint8_t, g->value.n),
            *node = NEW_ARRAY(g->arena, uint8_t, g->node.n);
    ValueId *new_value = NEW_ARRAY(g->arena, ValueId, g->value.n);
    NodeId *new_node = NEW_ARRAY(g->arena, NodeId, g->node.n);
    uint32_t nvalue = 1, nnode = 1, before = g->node.n;

    mark_live(g, value, node);
    for (NodeId id = 1; id < g->node.n; id++)
        if (node[id]) {
            new_node[id] = nnode;
            g->node.at[nnode++] = g->node.at[id];
        }
    for (ValueId v = 1; v < g->value.n; v++)
        if (value[v]) {
            new_value[v] = nvalue;
            g->value.at[nvalue] = g->value.at[v];
            g->value.at[nvalue].def = new_node[g->value.at[nvalue].def];
            nvalue++;
        }
    g->node.n = nnode;
    g->value.n = nvalue;
    for (uint32_t i = 0; i < g->ref.n; i++)
        g->ref.at[i] = new_value[g->ref.at[i]];
    for (uint32_t i = 0; i < g->input.n; i++)
        g->input.at[i] = new_value[g->input.at[i]];
    for (uint32_t i = 0; i < g->output.n; i++)
        g->output.at[i] = new_value[g->output.at[i]];
    return before - nnode;
}

/* ---- questions ------------------------------------------------------------------------------- */

uint32_t *
graph_uses(const Graph *g, Arena *scratch)
{
    uint32_t *uses = NEW_ARRAY(scratch, uint32_t, g->value.n);

    for (NodeId id = 1; id < g->node.n; id++)
        for (uint32_t i = 0; i < g->node.at[id].in.count; i++)
            uses[node_in(g, &g->node.at[id], i)]++;
    for (uint32_t i = 0; i < g->output.n; i++)
        uses[g->output.at[i]]++;
    uses[0] = 0;
    return uses;
}

const void **
graph_inputs_data(const Graph *g, Arena *a, const Node *n)
{
    const void **data = NEW_ARRAY(a, const void *, n->in.count + 1);

    for (uint32_t i = 0; i < n->in.count; i++)
        data[i] = g->value.at[node_in(g, n, i)].data;
    return data;
}

bool *
data_is_known(Arena *a, const void *const *data, uint32_t n)
{
    bool *known = NEW_ARRAY(a, bool, n + 1);

    for (uint32_t i = 0; i < n; i++)
        known[i] = data[i] != NULL;
    return known;
}

bool *
graph_outputs(const Graph *g, Arena *a)
{
    bool *is_output = NEW_ARRAY(a, bool, g->value.n);

    for (uint32_t i = 0; i < g->output.n; i++)
        is_output[g->output.at[i]] = true;
    return is_output;
}

Users
graph_users(const Graph *g, Arena *scratch)
{
    Users u = { .first = NEW_ARRAY(scratch, uint32_t, g->value.n + 2) };
    uint32_t total = 0;

    /* Counts, then running sums shifted by one; filling advances them to the begins. */
    for (NodeId id = 1; id < g->node.n; id++)
        for (uint32_t i = 0; i < g->node.at[id].in.count; i++, total++)
            u.first[node_in(g, &g->node.at[id], i) + 2]++;
    for (ValueId v = 2; v < g->value.n + 2; v++)
        u.first[v] += u.first[v - 1];
    u.node = NEW_ARRAY(scratch, NodeId, total + 1);
    for (NodeId id = 1; id < g->node.n; id++)
        for (uint32_t i = 0; i < g->node.at[id].in.count; i++)
            u.node[u.first[node_in(g, &g->node.at[id], i) + 1]++] = id;
    return u;
}
