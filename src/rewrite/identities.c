/* identities: rules that replace a node by one of its inputs, or two moves of data by one.
 */
#include "rewrite/rules.h"
#include "op/kinds.h"

/* ---- a node that is one of its inputs -------------------------------------------------------- */

/* Is every dimension a number where it is one in t? Operators ask for numbers, of a list's length
 * for one, and a number that is only known to be equal to the dimension is none. */
static bool
says_as_much(const Type *u, const Type *t)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (expr_const(t->dim[d], NULL) && !expr_const(u->dim[d], NULL))
            return false;
    return true;
}

/* The node's only read result is `value` of the new graph, which has the same type. */
static bool
give_way(RuleCall *k, ValueId value)
{
    const Type *t = k->r->from->value.at[k->out0].type;
    if (!value || type_eq(k->r->from->ctx, t, rule_value(k, value)->type) != YES ||
        !says_as_much(rule_value(k, value)->type, t))
        return false;
    return rebuild_replace(k->r, k->out0, value);
}

bool
rule_drop_same_type(RuleCall *k)
{
    return give_way(k, rule_input(k, k->n, 0));
}

/* Can type u represent every number of type t, of the same kind? */
static bool
holds_all(DType u, DType t)
{
    bool floats = dtype_is_float(u) && dtype_is_float(t) && dtype_info[t].bytes > 1;
    bool ints = dtype_is_int(u) && dtype_is_int(t) &&
                (dtype_info[u].kind == dtype_info[t].kind || dtype_info[t].kind == KIND_UINT);
    return (floats || ints) && dtype_info[u].bytes > dtype_info[t].bytes;
}

bool
rule_join_casts(RuleCall *k)
{
    const Node *inner = rule_producer(k, k->in0, OP_cast);
    ValueId x = inner ? rule_input(k, inner, 0) : 0;
    if (!x || !holds_all(k->r->from->value.at[k->in0].type->dtype, rule_value(k, x)->type->dtype))
        return false;
    return rule_call(k, OP_cast, k->n->attrs, 1, &x);
}

bool
rule_drop_dropout(RuleCall *k)
{
    if (k->n->out.count > 1 && k->uses[node_out(k->r->from, k->n, 1)])
        return false;
    return give_way(k, rule_input(k, k->n, 0));
}

bool
rule_drop_single(RuleCall *k)
{
    return k->n->in.count == 1 && give_way(k, rule_input(k, k->n, 0));
}

bool
rule_drop_idempotent(RuleCall *k)
{
    return rule_producer(k, k->in0, k->n->op) && give_way(k, rule_input(k, k->n, 0));
}

bool
rule_drop_involution(RuleCall *k)
{
    const Node *inner = rule_producer(k, k->in0, k->n->op);
    return inner && give_way(k, rule_input(k, inner, 0));
}

bool
rule_where_same(RuleCall *k)
{
    ValueId x = rule_input(k, k->n, 1);
    return x == rule_input(k, k->n, 2) && give_way(k, x);
}

/* ---- constants of one number ----------------------------------------------------------------- */

/* Is every element of the constant this number? Zeros are told apart by sign. */
static bool
constant_is(const Value *v, double number)
{
    DType t = v->type->dtype;
    int64_t bytes;

    if (!v->data || !(dtype_is_float(t) || dtype_is_int(t)) ||
        !type_static_bytes(v->type, &bytes) || bytes == 0)
        return false;
    for (int64_t i = 0; i < bytes / dtype_info[t].bytes; i++) {
        double x = number_get(t, v->data, i);
        if (x != number || __builtin_signbit(x) != __builtin_signbit(number))
            return false;
    }
    return true;
}

/* ---- a softmax that hides what is not a number ----------------------------------------------- */

/* PyTorch writes one around the scores that a mask of bools hides. */
bool
rule_where_nan_softmax(RuleCall *k)
{
    const Graph *from = k->r->from;
    const Node *asks = rule_producer(k, k->in0, OP_is_nan);
    ValueId weights = k->n->in.count == 3 ? node_in(from, k->n, 2) : 0;
    const Node *softmax = rule_producer(k, weights, OP_softmax);
    ValueId zero = rule_input(k, k->n, 1);

    if (!asks || !softmax || node_in(from, asks, 0) != weights ||
        !constant_is(rule_value(k, zero), 0.0) ||
        type_eq(from->ctx, from->value.at[weights].type, from->value.at[k->out0].type) != YES)
        return false;
    const Attr *axis = attr_find(softmax->attrs, "axis");
    Attr attr[] = { { .name = sym(k->r->to->ctx, "zero_nan"), .kind = ATTR_INT, .i = 1 },
                    axis ? *axis : (Attr){ 0 } };
    ValueId x = rule_input(k, softmax, 0);
    rule_join_origin(k, softmax);
    return rule_call(k, OP_softmax, (Attrs){ attr, axis ? 2 : 1 }, 1, &x);
}

/* ---- neutral elements ------------------------------------------------------------------------ */

/* 0 for add and sub, 1 for the rest. Adding to a float is neutral for -0.0 only: -0.0 + 0.0 is
 *   0.0. */
static double
neutral(OpKind op, DType t)
{
    return op == OP_add ? (dtype_is_float(t) ? -0.0 : 0.0) : op == OP_sub ? 0.0 : 1.0;
}

bool
rule_drop_neutral(RuleCall *k)
{
    ValueId x = rule_input(k, k->n, 0), y = rule_input(k, k->n, 1);
    bool commutes = k->n->op == OP_add || k->n->op == OP_mul;
    if (constant_is(rule_value(k, y), neutral(k->n->op, rule_value(k, y)->type->dtype)))
        return give_way(k, x);
    return commutes &&
           constant_is(rule_value(k, x), neutral(k->n->op, rule_value(k, x)->type->dtype)) &&
           give_way(k, y);
}

/* ---- movements ------------------------------------------------------------------------------- */

static const Node *
relayout_producer(const RuleCall *k, ValueId v)
{
    static const OpKind relayout[] = { OP_reshape, OP_flatten, OP_squeeze, OP_unsqueeze };
    for (size_t i = 0; i < sizeof relayout / sizeof *relayout; i++) {
        const Node *n = rule_producer(k, v, relayout[i]);
        if (n)
            return n;
    }
    return NULL;
}

/* The shape input that makes a reshape give this type: one dimension may be -1, none may be 0,
 * which means "copied". NULL if there is none. */
static int64_t *
reshape_sizes(RuleCall *k, const Type *t)
{
    int64_t *size = NEW_ARRAY(k->r->to->arena, int64_t, t->rank);
    uint32_t unknown = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!expr_const(t->dim[d], &size[d])) {
            size[d] = -1;
            unknown++;
        }
        if (size[d] == 0)
            return NULL;
    }
    return unknown <= 1 ? size : NULL;
}

bool
rule_join_relayouts(RuleCall *k)
{
    Graph *g = k->r->to;
    const Node *inner = relayout_producer(k, k->in0);
    const Type *t = k->r->from->value.at[k->out0].type;
    int64_t *size = inner ? reshape_sizes(k, t) : NULL;
    if (!size)
        return false;
    const Expr *rank = expr_int(g->ctx, t->rank);
    ValueId shape = graph_const(g, "shape", type_new(g->ctx, DT_I64, 1, &rank), size);
    ValueId in[] = { rule_input(k, inner, 0), shape };
    return rule_call(k, OP_reshape, (Attrs){ 0 }, 2, in);
}

bool
rule_drop_transpose(RuleCall *k)
{
    uint32_t rank = k->r->from->value.at[k->out0].type->rank;
    uint32_t perm[TN_MAX_RANK];
    op_permutation(k->n->attrs, rank, perm);
    for (uint32_t d = 0; d < rank; d++)
        if (perm[d] != d)
            return false;
    return give_way(k, rule_input(k, k->n, 0));
}

bool
rule_join_transposes(RuleCall *k)
{
    const Node *inner = rule_producer(k, k->in0, OP_transpose);
    uint32_t rank = k->r->from->value.at[k->out0].type->rank;
    uint32_t outer_perm[TN_MAX_RANK], inner_perm[TN_MAX_RANK];
    int64_t perm[TN_MAX_RANK];
    if (!inner)
        return false;
    op_permutation(k->n->attrs, rank, outer_perm);
    op_permutation(inner->attrs, rank, inner_perm);
    for (uint32_t d = 0; d < rank; d++)
        perm[d] = inner_perm[outer_perm[d]];
    Attr attr = { .name = sym(k->r->to->ctx, "perm"), .kind = ATTR_INTS, .n = rank, .ints = perm };
    ValueId x = rule_input(k, inner, 0);
    return rule_call(k, OP_transpose, (Attrs){ &attr, 1 }, 1, &x);
}
