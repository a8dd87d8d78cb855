/* scale: move constant factors and summands to where they cost nothing.
 *
 * The rules are exact for real numbers and round otherwise for floats, so they run with --fast-math
 * alone. The scale of a matmul's input becomes one of its other operand: one constant replaces two,
 * or weights are scaled while compiling. An attention that scales both queries and keys by the root
 * of the scores' scale then reads its keys unscaled.
 */
#include "rewrite/rules.h"
#include "op/kinds.h"

#include <math.h>

/* scales of 2^-32 to 2^32 move: with two of them, numbers and weights above 2^-62 stay normal ones
 * */
#define SCALE_POWERS 32

static bool
is_plain_float(DType t)
{
    return t == DT_F32 || t == DT_F64;
}

static bool
is_normal(DType t, double x)
{
    return t == DT_F32 ? isnormal((float)x) : isnormal(x);
}

/* ---- divisions ------------------------------------------------------------------------------- */

bool
rule_divisor_to_factor(RuleCall *k)
{
    ValueId c = rule_input(k, k->n, 1);
    const Value *v = rule_value(k, c);
    int64_t bytes;
    if (!rule_is_constant(k, c) || !is_plain_float(v->type->dtype) ||
        !type_static_bytes(v->type, &bytes))
        return false;
    for (int64_t i = 0; i < bytes / dtype_info[v->type->dtype].bytes; i++)
        if (!is_normal(v->type->dtype, 1 / number_get(v->type->dtype, v->data, i)))
            return false;
    ValueId in[] = { rule_input(k, k->n, 0), rule_compute(k, OP_reciprocal, v->name, c, 0) };
    return in[1] && rule_call(k, OP_mul, (Attrs){ 0 }, 2, in);
}

/* ---- scales of what a product reads ---------------------------------------------------------- */

typedef struct {
    const Node *n;
    ValueId x, c;
} ScaledInput;

static bool
is_moderate(double c)
{
    return fabs(c) >= ldexp(1, -SCALE_POWERS) && fabs(c) <= ldexp(1, SCALE_POWERS);
}

/* Input i of the node as x * c, c one number of no dimensions, if nothing else reads that. */
static ScaledInput
scaled_input(RuleCall *k, uint32_t i)
{
    ValueId v = node_in(k->r->from, k->n, i);
    const Type *t = k->r->from->value.at[v].type;
    const Node *mul = k->uses[v] == 1 ? rule_producer(k, v, OP_mul) : NULL;
    for (uint32_t side = 0; mul && side < 2 && is_plain_float(t->dtype); side++) {
        ValueId x = rule_input(k, mul, 1 - side), c = rule_input(k, mul, side);
        int64_t bytes;
        if (rule_is_constant(k, c) && type_static_bytes(rule_value(k, c)->type, &bytes) &&
            bytes == dtype_info[t->dtype].bytes &&
            is_moderate(number_get(t->dtype, rule_value(k, c)->data, 0)) &&
            type_eq(k->r->from->ctx, t, rule_value(k, x)->type) == YES)
            return (ScaledInput){ mul, x, rule_reshaped(k, c, 0, NULL) };
    }
    return (ScaledInput){ 0 };
}

bool
rule_scales_into_one(RuleCall *k)
{
    ScaledInput x = scaled_input(k, 0), y = scaled_input(k, 1);
    ValueId c = x.n && y.n ? rule_compute(k, OP_mul, "scale", x.c, y.c) : 0;
    if (!c)
        return false;
    ValueId in[] = { rule_call_before(k, OP_mul, rule_value(k, x.x)->type, x.x, c), y.x };
    return rule_call(k, OP_matmul, k->n->attrs, 2, in);
}

bool
rule_scale_into_weights(RuleCall *k)
{
    ScaledInput x = scaled_input(k, 0);
    ValueId w = rule_input(k, k->n, 1);
    if (!x.n || !rule_is_constant(k, w) || k->uses[node_in(k->r->from, k->n, 1)] != 1)
        return false;
    ValueId in[] = { x.x, rule_compute(k, OP_mul, rule_value(k, w)->name, w, x.c) };
    return in[1] && rule_call(k, OP_matmul, k->n->attrs, 2, in);
}

/* ---- scales and shifts of what a convolution makes ------------------------------------------- */

typedef struct {
    const Node *conv;
    ValueId w, b, c;
} Convolved;

/* The node as conv(x, w, b) and a constant for each channel, [channels], that nothing else
 * reads. */
static bool
convolved(RuleCall *k, Convolved *f)
{
    for (uint32_t side = 0; side < 2; side++) {
        ValueId v = node_in(k->r->from, k->n, side), c = rule_input(k, k->n, 1 - side);
        const Node *conv = k->uses[v] == 1 ? rule_producer(k, v, OP_conv) : NULL;
        const Type *t = k->r->from->value.at[v].type, *shape = rule_value(k, c)->type;
        if (!conv || !is_plain_float(t->dtype) || !rule_is_constant(k, c) ||
            shape->rank > t->rank || shape->rank + 1 < t->rank)
            continue;
        *f = (Convolved){ conv, rule_input(k, conv, 1), rule_input(k, conv, 2), 0 };
        bool fits = rule_is_constant(k, f->w) && (!f->b || rule_is_constant(k, f->b));
        for (uint32_t d = 0; d < shape->rank && fits; d++) {
            bool channel = d + t->rank - shape->rank == 1;
            fits = channel ? shape->dim[d] == rule_value(k, f->w)->type->dim[0]
                           : expr_is(shape->dim[d], 1);
        }
        f->c = fits ? rule_reshaped(k, c, 1, &rule_value(k, f->w)->type->dim[0]) : 0;
        if (fits)
            return true;
    }
    return false;
}

static bool
convolve(RuleCall *k, const Convolved *f, ValueId w, ValueId b)
{
    ValueId in[] = { rule_input(k, f->conv, 0), w, b };
    rule_join_origin(k, f->conv);
    return rule_call(k, OP_conv, f->conv->attrs, b ? 3 : 2, in);
}

bool
rule_scale_into_conv(RuleCall *k)
{
    Convolved f;
    const Expr *dim[TN_MAX_RANK];
    if (!convolved(k, &f))
        return false;
    const Type *t = rule_value(k, f.w)->type;
    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = d ? expr_int(k->r->to->ctx, 1) : t->dim[0];
    ValueId w =
        rule_compute(k, OP_mul, rule_value(k, f.w)->name, f.w, rule_reshaped(k, f.c, t->rank, dim));
    ValueId b = f.b ? rule_compute(k, OP_mul, "bias", f.b, f.c) : 0;
    return w && (b || !f.b) && convolve(k, &f, w, b);
}

bool
rule_shift_into_conv(RuleCall *k)
{
    Convolved f;
    if (!convolved(k, &f))
        return false;
    ValueId b = f.b ? rule_compute(k, OP_add, "bias", f.b, f.c) : f.c;
    return b && convolve(k, &f, f.w, b);
}
