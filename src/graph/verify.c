/* verify: invariants of every graph.
 *
 *   1  value 0 and node 0 are none; every reference names a value that exists
 *   2  every value has a type and a unique name
 *   3  a value with data or without a defining node is a constant or an input, not both;
 *      constants have static types
 *   4  every other value is an output of exactly the node it names as its definition
 *   5  nodes are in topological order: inputs are defined before they are read
 *   6  an operator has as many inputs and outputs as its row allows, and its outputs have the types
 *      that its shape rule gives
 *   7  a nest's and a kernel's parameters have the types of its arguments, none absent
 *   8  every output of the graph is a value
 *   9  a match copies one integer tensor of rank 0 or 1 and defines a symbol for each of its
 *      elements
 *  10  a graph that a node runs has as many inputs as arguments and as many outputs as results, and
 *      their types agree once its symbols are bound; all symbols of its inputs are bound
 *  11  a condition is one bool, a number of iterations is one i64
 *  12  a symbol is defined once, by the inputs or by one node, and no earlier node is sized by it
 *  13  the inputs of a join have one type except for the dimension along which they are joined,
 *      where their sizes provably add up to the result's: no run checks it
 *  14  a state is an input and an output of its own, whose types differ in one dimension at most
 *  15  a value within another one is made by a kernel or a join, and read by kernels and joins
 *      within the same value; its size is known when the graph begins, and the buffers of kernels
 *      have the right `within`
 *  16  a program for many requests keeps the invariants of verify_batch.c
 */
#include "graph/batch.h"
#include "graph/internal.h"

typedef struct {
    const Graph *g;
    DiagClass class;
} Verify;

#define REQUIRE(by, loc, rule, condition, ...)                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return broken((by), (loc), (rule), __VA_ARGS__);                                       \
    } while (0)

static bool broken(const Verify *by, Loc loc, int rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The message has the number of the rule, for developers. */
static bool
broken(const Verify *by, Loc loc, int rule, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *text = arena_vprintf(by->g->ctx->arena, format, args);
    va_end(args);
    if (by->class == DIAG_INTERNAL)
        return diag_error(&by->g->ctx->diags, by->class, loc, "graph %s: %s (rule %d)", by->g->name,
                          text, rule);
    return diag_error(&by->g->ctx->diags, by->class, loc, "%s", text);
}

enum { UNDEFINED, GIVEN, MADE }; /* what is known of a value so far */

static bool
check_values(const Verify *by, uint8_t *state)
{
    const Graph *g = by->g;
    Loc nowhere = { 0 };
    Map names = { .arena = g->ctx->arena };

    REQUIRE(by, nowhere, 1, g->value.n > 0 && g->node.n > 0, "value 0 or node 0 is missing");
    for (uint32_t i = 0; i < g->input.n; i++) {
        ValueId v = g->input.at[i];
        REQUIRE(by, nowhere, 1, v > 0 && v < g->value.n, "input %u is value %u of %u", i, v,
                g->value.n);
        REQUIRE(by, nowhere, 3,
                !g->value.at[v].data && !g->value.at[v].def && state[v] == UNDEFINED,
                "input %u is a constant, a result, or an input twice", i);
        state[v] = GIVEN;
    }
    for (ValueId v = 1; v < g->value.n; v++) {
        const Value *val = &g->value.at[v];
        REQUIRE(by, nowhere, 2, val->type && val->name, "value %u has no type or no name", v);
        REQUIRE(by, nowhere, 2, !map_get(&names, MAP_PTR(val->name), NULL),
                "two values are named %%%s", val->name);
        map_put(&names, MAP_PTR(val->name), v);
        if (val->data) {
            REQUIRE(by, nowhere, 3, !val->def, "constant %%%s is the result of a node", val->name);
            REQUIRE(by, nowhere, 3, type_is_static(val->type),
                    "constant %%%s is %s, its shape is not constant", val->name,
                    type_str(g->ctx, val->type));
            state[v] = GIVEN;
        }
        REQUIRE(by, nowhere, 3, val->def || state[v] == GIVEN,
                "%%%s is no input, no constant and no result", val->name);
        REQUIRE(by, nowhere, 4, val->def < g->node.n, "%%%s is a result of node %u of %u",
                val->name, val->def, g->node.n);
    }
    return true;
}

static bool
check_same_type(const Verify *by, const Node *n, ValueId v, const char *param, const Type *t)
{
    const Graph *g = by->g;
    REQUIRE(by, n->loc, 7, v, "parameter %s is absent", param);
    REQUIRE(by, n->loc, 7, type_eq(g->ctx, g->value.at[v].type, t) != NO,
            "%%%s is %s, parameter %s is %s", g->value.at[v].name,
            type_str(g->ctx, g->value.at[v].type), param, type_str(g->ctx, t));
    return true;
}

static bool
check_op(const Verify *by, NodeId id)
{
    const Graph *g = by->g;
    const Node *n = &g->node.at[id];
    Arena *scratch = g->ctx->arena;
    OpCall call = graph_op_call(g, scratch, id);
    const Type **t = NEW_ARRAY(scratch, const Type *, n->out.count + 1);

    if (!op_infer(g->ctx, &call, t))
        return by->class == DIAG_INTERNAL &&
               broken(by, n->loc, 6, "%s breaks its shape rule", op_info[n->op].name);
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        REQUIRE(by, n->loc, 6, !v || type_eq(g->ctx, t[i], g->value.at[v].type) != NO,
                "%%%s is %s, its operator %s gives %s", g->value.at[v].name,
                type_str(g->ctx, g->value.at[v].type), op_info[n->op].name, type_str(g->ctx, t[i]));
    }
    return true;
}

static bool
check_nest(const Verify *by, const Node *n)
{
    const Graph *g = by->g;
    const Nest *nest = n->nest;

    REQUIRE(by, n->loc, 7, nest && n->in.count == nest->nin && n->out.count == nest->nout,
            "a nest is called with %u inputs and %u outputs", n->in.count, n->out.count);
    for (uint32_t i = 0; i < nest->nin + nest->nout; i++) {
        ValueId v = i < nest->nin ? node_in(g, n, i) : node_out(g, n, i - nest->nin);
        if (!check_same_type(by, n, v, nest->param[i].name, nest->param[i].type))
            return false;
    }
    return true;
}

/* A kernel may see an output with other dimensions, over the same elements in the same order. */
static bool
check_result(const Verify *by, const Node *n, ValueId v, const char *param, const Type *t)
{
    Ctx *c = by->g->ctx;
    const Type *have = v ? by->g->value.at[v].type : NULL;

    if (have && have->dtype == t->dtype &&
        expr_eq(c, NULL, type_count(c, have), type_count(c, t)) == YES)
        return true;
    return check_same_type(by, n, v, param, t);
}

static bool
check_kernel(const Verify *by, const Node *n)
{
    const Graph *g = by->g;
    const Kernel *k = n->kernel;

    REQUIRE(by, n->loc, 7, k && n->in.count == k->nin && n->out.count == k->nout,
            "a kernel is called with %u inputs and %u outputs", n->in.count, n->out.count);
    for (uint32_t i = 0; i < k->nin + k->nout; i++) {
        ValueId v = i < k->nin ? node_in(g, n, i) : node_out(g, n, i - k->nin);
        if (!(i < k->nin ? check_same_type : check_result)(by, n, v, k->buffer.at[i].name,
                                                           k->buffer.at[i].type))
            return false;
    }
    return true;
}

static bool
is_one(const Graph *g, ValueId v, DType t)
{
    return v && g->value.at[v].type->dtype == t &&
           expr_is(type_count(g->ctx, g->value.at[v].type), 1);
}

static bool
check_match(const Verify *by, const Node *n)
{
    const Graph *g = by->g;
    REQUIRE(by, n->loc, 9, n->in.count == 1 && n->out.count == 1 && node_in(g, n, 0),
            "a match has one input and one result");
    const Type *in = g->value.at[node_in(g, n, 0)].type,
               *out = node_out(g, n, 0) ? g->value.at[node_out(g, n, 0)].type : in;
    REQUIRE(by, n->loc, 9, in == out && dtype_is_int(in->dtype) && in->rank <= 1,
            "a match of %s to %s; it takes integers of rank 0 or 1", type_str(g->ctx, in),
            type_str(g->ctx, out));
    REQUIRE(by, n->loc, 9, expr_is(type_count(g->ctx, in), n->nfresh),
            "a match of %s defines %u symbols", type_str(g->ctx, in), n->nfresh);
    return true;
}

/* Arguments for a region's inputs `first`, first + 1, … */
static bool
check_arguments(const Verify *by, const Node *n, const Region *r, uint32_t first, uint32_t from)
{
    const Graph *g = by->g;
    const BoundSizes bound = { r->bind, r->nbind };
    REQUIRE(by, n->loc, 10, n->in.count >= from && n->in.count - from == r->graph->input.n - first,
            "graph %s takes %u values, %u are given", r->graph->name, r->graph->input.n - first,
            n->in.count - from);
    for (uint32_t i = 0; first + i < r->graph->input.n; i++) {
        const Value *param = &r->graph->value.at[r->graph->input.at[first + i]];
        ValueId v = node_in(g, n, from + i);
        Sym stray = NULL;
        REQUIRE(by, n->loc, 10, v, "input %%%s of graph %s is absent", param->name, r->graph->name);
        for (uint32_t d = 0; d < param->type->rank && !stray; d++)
            stray = unbound_symbol(&bound, param->type->dim[d]);
        REQUIRE(by, n->loc, 10, !stray, "symbol %s of graph %s is bound to nothing", stray,
                r->graph->name);
        const Type *t = type_subst(g->ctx, param->type, r->bind, r->nbind);
        REQUIRE(by, n->loc, 10, type_eq(g->ctx, t, g->value.at[v].type) != NO,
                "%%%s is %s, input %%%s of graph %s takes %s", g->value.at[v].name,
                type_str(g->ctx, g->value.at[v].type), param->name, r->graph->name,
                type_str(g->ctx, t));
    }
    return true;
}

/* Result `out` of the node is output `from` of the region; stacked: with an outermost dimension
 * added. */
static bool
check_given(const Verify *by, const Node *n, const Region *r, uint32_t out, uint32_t from,
            bool stacked)
{
    const Graph *g = by->g;
    ValueId v = node_out(g, n, out);
    if (!v)
        return true;
    const Type *t = g->value.at[v].type;
    const Type *inner =
        type_subst(g->ctx, r->graph->value.at[r->graph->output.at[from]].type, r->bind, r->nbind);
    bool same = t->dtype == inner->dtype && t->rank == inner->rank + stacked;
    for (uint32_t d = stacked; same && d < t->rank; d++)
        same = node_fresh(n, t->dim[d]) != UINT32_MAX ||
               expr_eq(g->ctx, NULL, t->dim[d], inner->dim[d - stacked]) != NO;
    REQUIRE(by, n->loc, 10, same, "%%%s is %s, graph %s gives %s", g->value.at[v].name,
            type_str(g->ctx, t), r->graph->name, type_str(g->ctx, inner));
    return true;
}

/* A region whose inputs are the node's from number `from` on, and whose outputs are its results. */
static bool
check_region(const Verify *by, const Node *n, const Region *r, uint32_t from)
{
    REQUIRE(by, n->loc, 10, r->graph->output.n == n->out.count,
            "graph %s has %u results, the node that runs it has %u", r->graph->name,
            r->graph->output.n, n->out.count);
    if (!check_arguments(by, n, r, 0, from))
        return false;
    for (uint32_t i = 0; i < n->out.count; i++)
        if (!check_given(by, n, r, i, i, false))
            return false;
    return true;
}

static bool
check_if(const Verify *by, const Node *n)
{
    REQUIRE(by, n->loc, 11, n->in.count && is_one(by->g, node_in(by->g, n, 0), DT_BOOL),
            "the condition of an if is one bool");
    REQUIRE(by, n->loc, 10, n->nregion == 2, "an if has two branches, here are %u", n->nregion);
    return check_region(by, n, &n->region[0], 1) && check_region(by, n, &n->region[1], 1);
}

static bool
check_loop(const Verify *by, const Node *n)
{
    const Graph *g = by->g;
    REQUIRE(by, n->loc, 10, n->nregion == 1 && n->in.count >= 2 + n->ncarried,
            "a loop has one body, and all of its carried values");
    REQUIRE(by, n->loc, 11, !node_in(g, n, 0) || is_one(g, node_in(g, n, 0), DT_I64),
            "the number of iterations of a loop is one i64");
    REQUIRE(by, n->loc, 11, !node_in(g, n, 1) || is_one(g, node_in(g, n, 1), DT_BOOL),
            "the condition of a loop is one bool");
    const Region *r = &n->region[0];
    const Graph *body = r->graph;
    REQUIRE(by, n->loc, 10, body->input.n >= 2 + n->ncarried && body->output.n == 1 + n->out.count,
            "a loop of %u results runs graph %s, which gives %u", n->out.count, body->name,
            body->output.n);
    REQUIRE(by, n->loc, 11,
            is_one(body, body->input.at[0], DT_I64) && is_one(body, body->input.at[1], DT_BOOL) &&
                is_one(body, body->output.at[0], DT_BOOL),
            "the body of a loop begins with the iteration, an i64, and the condition, a bool");
    if (!check_arguments(by, n, r, 2, 2))
        return false;
    for (uint32_t i = 0; i < n->out.count; i++)
        if (!check_given(by, n, r, i, 1 + i, i >= n->ncarried))
            return false;
    return true;
}

static bool
check_join(const Verify *by, const Node *n)
{
    const Graph *g = by->g;
    ValueId v = n->out.count == 1 ? node_out(g, n, 0) : 0;
    REQUIRE(by, n->loc, 13, v && n->in.count, "a join has one result, of one input or more");
    const Type *t = g->value.at[v].type;
    const Expr *rows = expr_int(g->ctx, 0);
    REQUIRE(by, n->loc, 13, t->rank > n->along,
            "%%%s is a join of rank %u; joined is along dimension %u", g->value.at[v].name, t->rank,
            n->along);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId x = node_in(g, n, i);
        const Type *in = x ? g->value.at[x].type : NULL;
        bool same = in && in->dtype == t->dtype && in->rank == t->rank;
        for (uint32_t d = 0; same && d < t->rank; d++)
            same = d == n->along || expr_eq(g->ctx, NULL, in->dim[d], t->dim[d]) == YES;
        REQUIRE(by, n->loc, 13, same, "input %u of a join is %s, its result is %s", i,
                in ? type_str(g->ctx, in) : "absent", type_str(g->ctx, t));
        rows = expr_add(g->ctx, rows, in->dim[n->along]);
    }
    REQUIRE(by, n->loc, 13, expr_eq(g->ctx, NULL, rows, t->dim[n->along]) == YES,
            "%%%s is %s, but its inputs have %s rows together", g->value.at[v].name,
            type_str(g->ctx, t), expr_str(g->ctx, rows));
    return true;
}

/* ---- values within others -------------------------------------------------------------------- */

/* [value.n] */
typedef struct {
    const Verify *by;
    const ValueId *whole;
    Map definer;
    bool *output, *part;
} Wholes;

static bool
check_part(Wholes *w, const Node *join, ValueId v)
{
    const Verify *by = w->by;
    const Graph *g = by->g;
    const Value *part = &g->value.at[v];
    NodeId def = part->def;
    bool made = def && (g->node.at[def].callee == CALL_KERNEL || g->node.at[def].along);

    REQUIRE(by, join->loc, 15, made, "%%%s cannot lie within %%%s: no kernel makes it", part->name,
            g->value.at[node_out(g, join, 0)].name);
    REQUIRE(by, join->loc, 15, !w->part[v],
            "%%%s cannot lie within %%%s: it does within another value, or at another place",
            part->name, g->value.at[node_out(g, join, 0)].name);
    REQUIRE(by, join->loc, 15, !w->output[v], "%%%s is an output, and lies within another value",
            part->name);
    for (uint32_t d = 0; d < part->type->rank; d++)
        REQUIRE(by, join->loc, 15,
                graph_bound(g, &w->definer, part->type->dim[d]) == part->type->dim[d],
                "%%%s lies within another value, and its size is not known when the graph begins",
                part->name);
    return w->part[v] = true;
}

static bool
check_reader(const Wholes *w, const Node *n)
{
    const Verify *by = w->by;
    const Graph *g = by->g;

    for (uint32_t i = 0; i < n->in.count + n->out.count; i++) {
        ValueId v = i < n->in.count ? node_in(g, n, i) : node_out(g, n, i - n->in.count),
                whole = v ? w->whole[v] : 0;
        const Type *within = NULL;
        REQUIRE(by, n->loc, 15, !whole || n->callee == CALL_KERNEL || n->along,
                "%%%s lies within another value, and is made or read by no kernel",
                g->value.at[v].name);
        if (n->callee != CALL_KERNEL)
            continue;
        const Buffer *b = &n->kernel->buffer.at[i];
        REQUIRE(by, n->loc, 15, !whole || graph_within(g, v, whole, b->type, &within),
                "%%%s lies within another value, whose rows buffer %s of kernel %s cannot see",
                g->value.at[v].name, b->name, n->kernel->name);
        REQUIRE(by, n->loc, 15,
                within ? b->within && type_eq(g->ctx, b->within, within) == YES : !b->within,
                "%%%s lies in %s, buffer %s of kernel %s in %s", v ? g->value.at[v].name : "",
                within ? type_str(g->ctx, within) : "nothing", b->name, n->kernel->name,
                b->within ? type_str(g->ctx, b->within) : "nothing");
    }
    return true;
}

static bool
check_wholes(const Verify *by)
{
    const Graph *g = by->g;
    Arena *a = g->ctx->arena;
    Wholes w = { by, graph_wholes(g, a), graph_definers(g, a), graph_outputs(g, a),
                 NEW_ARRAY(a, bool, g->value.n) };

    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        for (uint32_t i = 0; n->along && i < n->in.count; i++)
            if (!check_part(&w, n, node_in(g, n, i)))
                return false;
        if (!check_reader(&w, n))
            return false;
    }
    return true;
}

static bool
check_states(const Verify *by)
{
    const Graph *g = by->g;
    Loc nowhere = { 0 };
    uint32_t dim;

    for (uint32_t i = 0; i < g->state.n; i++) {
        const State *s = &g->state.at[i];
        REQUIRE(by, nowhere, 14, s->input < g->input.n && s->output < g->output.n,
                "state %u is input %u of %u and output %u of %u", i, s->input, g->input.n,
                s->output, g->output.n);
        const Value *in = &g->value.at[g->input.at[s->input]],
                    *out = &g->value.at[g->output.at[s->output]];
        REQUIRE(by, nowhere, 14, graph_state_grows(g, s, &dim),
                "state %s is %s and %s is %s: they may differ in one dimension alone, along which "
                "it grows",
                in->name, type_str(g->ctx, in->type), out->name, type_str(g->ctx, out->type));
        REQUIRE(by, nowhere, 14, in->type->dtype != DT_STR,
                "state %s is %s: strings cannot be kept between runs", in->name,
                type_str(g->ctx, in->type));
        for (uint32_t k = 0; k < i; k++)
            REQUIRE(by, nowhere, 14,
                    g->state.at[k].input != s->input && g->state.at[k].output != s->output,
                    "states %u and %u are of one input or one output, %s and %s", k, i, in->name,
                    out->name);
    }
    return true;
}

static bool
check_symbols(const Verify *by)
{
    const Graph *g = by->g;
    Arena *a = g->ctx->arena;
    Map seen = { .arena = a }, definer = graph_definers(g, a);

    for (NodeId id = 1; id < g->node.n && definer.n; id++) {
        const Node *n = &g->node.at[id];
        SymbolSet used = { .seen.arena = a };
        uint64_t by_node;
        for (uint32_t i = 0; i < n->nfresh; i++) {
            REQUIRE(by, n->loc, 12, !map_get(&seen, MAP_PTR(n->fresh[i].name), NULL),
                    "symbol %s is defined twice", n->fresh[i].name);
            map_put(&seen, MAP_PTR(n->fresh[i].name), 1);
        }
        graph_symbols(&used, g, id);
        for (uint32_t i = 0; i < used.n; i++)
            REQUIRE(by, n->loc, 12,
                    !map_get(&definer, MAP_PTR(used.at[i]), &by_node) || by_node < id,
                    "symbol %s is used before the node that defines it", used.at[i]);
    }
    return true;
}

static bool
check_node(const Verify *by, NodeId id, uint8_t *state)
{
    const Graph *g = by->g;
    const Node *n = &g->node.at[id];

    REQUIRE(by, n->loc, 1,
            n->in.first + n->in.count <= g->ref.n && n->out.first + n->out.count <= g->ref.n,
            "node %u refers behind the list of references", id);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        REQUIRE(by, n->loc, 1, v < g->value.n, "node %u reads value %u of %u", id, v, g->value.n);
        REQUIRE(by, n->loc, 5, !v || state[v] != UNDEFINED, "%%%s is read before it is defined",
                g->value.at[v].name);
    }
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        REQUIRE(by, n->loc, 1, v < g->value.n, "node %u makes value %u of %u", id, v, g->value.n);
        REQUIRE(by, n->loc, 4, !v || (state[v] == UNDEFINED && g->value.at[v].def == id),
                "%%%s is defined twice, or elsewhere", g->value.at[v].name);
        state[v] = v ? MADE : UNDEFINED;
    }
    switch (n->callee) {
    case CALL_OP: return check_op(by, id);
    case CALL_NEST: return check_nest(by, n);
    case CALL_KERNEL: return check_kernel(by, n);
    case CALL_MATCH: return check_match(by, n);
    case CALL_IF: return check_if(by, n);
    case CALL_LOOP: return check_loop(by, n);
    case CALL_GRAPH:
        REQUIRE(by, n->loc, 10, n->nregion == 1, "a call runs %u graphs", n->nregion);
        return check_region(by, n, &n->region[0], 0);
    case CALL_JOIN: return check_join(by, n);
    case CALL_BLOCKS: {
        const char *wrong = batch_wrong(g, n);
        REQUIRE(by, n->loc, 16, !wrong, "%s", wrong);
        return true;
    }
    }
    return broken(by, n->loc, 6, "node %u calls nothing", id);
}

static bool
verify_one(const Graph *g, DiagClass class)
{
    const Verify *by = &(Verify){ g, class };
    uint8_t *state = NEW_ARRAY(g->ctx->arena, uint8_t, g->value.n + 1);
    Loc nowhere = { 0 };

    if (!check_values(by, state))
        return false;
    for (NodeId id = 1; id < g->node.n; id++)
        if (!check_node(by, id, state))
            return false;
    for (ValueId v = 1; v < g->value.n; v++)
        REQUIRE(by, nowhere, 4, state[v] != UNDEFINED, "%%%s is made by no node",
                g->value.at[v].name);
    for (uint32_t i = 0; i < g->output.n; i++) {
        ValueId v = g->output.at[i];
        REQUIRE(by, nowhere, 8, v > 0 && v < g->value.n, "output %u is value %u of %u", i, v,
                g->value.n);
    }
    return check_states(by) && check_symbols(by) && check_wholes(by);
}

bool
graph_verify_as(const Graph *g, DiagClass class)
{
    GraphList all = graph_all(g, g->ctx->arena);

    for (uint32_t i = 0; i < all.n; i++)
        if (!verify_one(all.at[i], class))
            return false;
    return true;
}

bool
graph_verify(const Graph *g)
{
    return graph_verify_as(g, DIAG_INTERNAL);
}
