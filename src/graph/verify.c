/* verify: what every graph keeps.
 *
 *   1  value 0 and node 0 are none; every reference names a value that exists
 *   2  every value has a type and a name of its own
 *   3  a value with data or without a defining node is a constant or an input, not both; constants
 *      have static types
 *   4  every other value is an output of exactly the node it names as its definition
 *   5  nodes are in topological order: inputs are defined before they are read
 *   6  an operator has as many inputs and outputs as its row allows, and outputs of the types that
 *      its shape rule gives
 *   7  a nest's and a kernel's parameters have the types of the values they are given, none absent
 *   8  every output of the graph is a value
 */
#include "graph/internal.h"

#include <stdio.h>

typedef struct { const Graph *g; DiagClass class; } Verify;

#define REQUIRE(by, loc, rule, condition, ...)                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return broken((by), (loc), (rule), __VA_ARGS__);                                       \
    } while (0)

static bool broken(const Verify *by, Loc loc, int rule, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The number of the rule is for those who look for a fault of Tenon's. */
static bool
broken(const Verify *by, Loc loc, int rule, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (by->class == DIAG_INTERNAL)
        return diag_error(&by->g->ctx->diags, by->class, loc, "graph %s: %s (rule %d)", by->g->name, text, rule);
    return diag_error(&by->g->ctx->diags, by->class, loc, "%s", text);
}

enum { UNDEFINED, GIVEN, MADE };     /* what is known of a value while walking */

static bool
check_values(const Verify *by, uint8_t *state)
{
    const Graph *g = by->g;
    Loc nowhere = { 0 };
    Map names = { .arena = g->ctx->arena };

    REQUIRE(by, nowhere, 1, g->value.n > 0 && g->node.n > 0, "value 0 or node 0 is missing");
    for (uint32_t i = 0; i < g->input.n; i++) {
        ValueId v = g->input.at[i];
        REQUIRE(by, nowhere, 1, v > 0 && v < g->value.n, "input %u is value %u of %u", i, v, g->value.n);
        REQUIRE(by, nowhere, 3, !g->value.at[v].data && !g->value.at[v].def && state[v] == UNDEFINED,
                "input %u is a constant, a result, or an input twice", i);
        state[v] = GIVEN;
    }
    for (ValueId v = 1; v < g->value.n; v++) {
        const Value *val = &g->value.at[v];
        REQUIRE(by, nowhere, 2, val->type && val->name, "value %u has no type or no name", v);
        REQUIRE(by, nowhere, 2, !map_get(&names, MAP_PTR(val->name), NULL), "two values are named %%%s", val->name);
        map_put(&names, MAP_PTR(val->name), v);
        if (val->data) {
            REQUIRE(by, nowhere, 3, !val->def, "constant %%%s is the result of a node", val->name);
            REQUIRE(by, nowhere, 3, type_is_static(val->type), "constant %%%s is %s, its shape is not constant", val->name,
                    type_str(g->ctx, val->type));
            state[v] = GIVEN;
        }
        REQUIRE(by, nowhere, 3, val->def || state[v] == GIVEN, "%%%s is no input, no constant and no result", val->name);
        REQUIRE(by, nowhere, 4, val->def < g->node.n, "%%%s is a result of node %u of %u", val->name, val->def, g->node.n);
    }
    return true;
}

static bool
check_same_type(const Verify *by, const Node *n, ValueId v, const char *param, const Type *t)
{
    const Graph *g = by->g;
    REQUIRE(by, n->loc, 7, v, "parameter %s is absent", param);
    REQUIRE(by, n->loc, 7, type_eq(g->ctx, g->value.at[v].type, t) != NO, "%%%s is %s, parameter %s is %s",
            g->value.at[v].name, type_str(g->ctx, g->value.at[v].type), param, type_str(g->ctx, t));
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
        return by->class == DIAG_INTERNAL && broken(by, n->loc, 6, "%s breaks its shape rule", op_info[n->op].name);
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        REQUIRE(by, n->loc, 6, !v || type_eq(g->ctx, t[i], g->value.at[v].type) != NO, "%%%s is %s, its operator %s gives %s",
                g->value.at[v].name, type_str(g->ctx, g->value.at[v].type), op_info[n->op].name, type_str(g->ctx, t[i]));
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

    if (have && have->dtype == t->dtype && expr_eq(c, NULL, type_count(c, have), type_count(c, t)) == YES)
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
        if (!(i < k->nin ? check_same_type : check_result)(by, n, v, k->buffer.at[i].name, k->buffer.at[i].type))
            return false;
    }
    return true;
}

static bool
check_node(const Verify *by, NodeId id, uint8_t *state)
{
    const Graph *g = by->g;
    const Node *n = &g->node.at[id];

    REQUIRE(by, n->loc, 1, n->in.first + n->in.count <= g->ref.n && n->out.first + n->out.count <= g->ref.n,
            "node %u refers behind the list of references", id);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        REQUIRE(by, n->loc, 1, v < g->value.n, "node %u reads value %u of %u", id, v, g->value.n);
        REQUIRE(by, n->loc, 5, !v || state[v] != UNDEFINED, "%%%s is read before it is defined", g->value.at[v].name);
    }
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        REQUIRE(by, n->loc, 1, v < g->value.n, "node %u makes value %u of %u", id, v, g->value.n);
        REQUIRE(by, n->loc, 4, !v || (state[v] == UNDEFINED && g->value.at[v].def == id), "%%%s is defined twice, or elsewhere",
                g->value.at[v].name);
        state[v] = v ? MADE : UNDEFINED;
    }
    switch (n->callee) {
    case CALL_OP:     return check_op(by, id);
    case CALL_NEST:   return check_nest(by, n);
    case CALL_KERNEL: return check_kernel(by, n);
    }
    return broken(by, n->loc, 6, "node %u calls nothing", id);
}

bool
graph_verify_as(const Graph *g, DiagClass class)
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
        REQUIRE(by, nowhere, 4, state[v] != UNDEFINED, "%%%s is made by no node", g->value.at[v].name);
    for (uint32_t i = 0; i < g->output.n; i++) {
        ValueId v = g->output.at[i];
        REQUIRE(by, nowhere, 8, v > 0 && v < g->value.n, "output %u is value %u of %u", i, v, g->value.n);
    }
    return true;
}

bool
graph_verify(const Graph *g)
{
    return graph_verify_as(g, DIAG_INTERNAL);
}
