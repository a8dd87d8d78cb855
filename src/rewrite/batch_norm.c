/* batch_norm: a normalisation by constants is a scale and a shift per channel,
 *
 *   batch_norm(x) = x * s + t    s = scale / sqrt(variance + epsilon)    t = bias - mean * s
 *
 * and the scale and shift of a product's columns are those of its weights and bias. The constants
 * are computed by the operators' own meanings, at the element type of the model.
 */
#include "rewrite/rules.h"
#include "op/kinds.h"

typedef struct {
    ValueId scale, shift;
    const Expr *channels;
} NormAffine;

static bool
norm_constants(RuleCall *k, NormAffine *f)
{
    ValueId in[5];
    for (uint32_t i = 1; i < 5; i++) {
        in[i] = rule_input(k, k->n, i);
        if (!rule_is_constant(k, in[i]) ||
            rule_value(k, in[i])->type->dtype != rule_value(k, in[1])->type->dtype)
            return false;
    }
    if (rule_value(k, in[1])->type->dtype != k->r->from->value.at[k->out0].type->dtype)
        return false;
    ValueId eps = rule_number(k, "epsilon", rule_value(k, in[1])->type->dtype,
                              attr_float(k->n->attrs, "epsilon", 1e-5));
    ValueId v = eps ? rule_compute(k, OP_add, "variance", in[4], eps) : 0;
    v = v ? rule_compute(k, OP_sqrt, "deviation", v, 0) : 0;
    f->scale = v ? rule_compute(k, OP_div, "scale", in[1], v) : 0;
    v = f->scale ? rule_compute(k, OP_mul, "shift", in[3], f->scale) : 0;
    f->shift = v ? rule_compute(k, OP_sub, "shift", in[2], v) : 0;
    f->channels = rule_value(k, in[1])->type->dim[0];
    return f->shift != 0;
}

/* The constant [c] as [1, …, c, …, 1], c on the given axis of `rank`. */
static ValueId
along(RuleCall *k, ValueId v, const Expr *channels, uint32_t axis, uint32_t rank)
{
    const Expr *dim[TN_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        dim[d] = d == axis ? channels : expr_int(k->r->to->ctx, 1);
    return rule_reshaped(k, v, rank, dim);
}

/* b * s + t, or t where there is no b. */
static ValueId
scaled_bias(RuleCall *k, ValueId b, const NormAffine *f)
{
    ValueId v = b ? rule_compute(k, OP_mul, "bias", b, f->scale) : 0;
    return !b ? f->shift : v ? rule_compute(k, OP_add, "bias", v, f->shift) : 0;
}

/* The product that makes the normalised value, when nothing else reads it and its weights and bias
 * are constants. */
static const Node *
product(const RuleCall *k, OpKind op)
{
    const Node *p = rule_producer(k, k->in0, op);
    ValueId b = p ? rule_input(k, p, 2) : 0;
    if (!p || k->uses[k->in0] != 1 || !rule_is_constant(k, rule_input(k, p, 1)) ||
        (b && !rule_is_constant(k, b)))
        return NULL;
    return p;
}

bool
rule_norm_into_conv(RuleCall *k)
{
    const Node *conv = product(k, OP_conv);
    NormAffine f;
    if (!conv || !norm_constants(k, &f))
        return false;
    ValueId w = rule_input(k, conv, 1);
    w = rule_compute(k, OP_mul, rule_value(k, w)->name, w,
                     along(k, f.scale, f.channels, 0, rule_value(k, w)->type->rank));
    ValueId in[] = { rule_input(k, conv, 0), w, scaled_bias(k, rule_input(k, conv, 2), &f) };
    rule_join_origin(k, conv);
    return w && in[2] && rule_call(k, OP_conv, conv->attrs, 3, in);
}

bool
rule_norm_into_gemm(RuleCall *k)
{
    const Node *gemm = product(k, OP_gemm);
    NormAffine f;
    if (!gemm || attr_float(gemm->attrs, "beta", 1) != 1 || !norm_constants(k, &f))
        return false;
    ValueId w = rule_input(k, gemm, 1);
    uint32_t column = attr_int(gemm->attrs, "transB", 0) ? 0 : 1;
    w = rule_compute(k, OP_mul, rule_value(k, w)->name, w,
                     along(k, f.scale, f.channels, column, 2));
    ValueId in[] = { rule_input(k, gemm, 0), w, scaled_bias(k, rule_input(k, gemm, 2), &f) };
    rule_join_origin(k, gemm);
    return w && in[2] && rule_call(k, OP_gemm, gemm->attrs, 3, in);
}

bool
rule_norm_into_matmul(RuleCall *k)
{
    const Node *p = product(k, OP_matmul);
    NormAffine f;
    if (!p || k->r->from->value.at[k->out0].type->rank != 2 ||
        rule_value(k, rule_input(k, p, 1))->type->rank != 2)
        return false;
    if (!norm_constants(k, &f))
        return false;
    ValueId w = rule_input(k, p, 1);
    w = rule_compute(k, OP_mul, rule_value(k, w)->name, w, along(k, f.scale, f.channels, 1, 2));
    if (!w)
        return false;
    rule_join_origin(k, p);
    const Type *t = k->r->from->value.at[k->out0].type;
    ValueId in[] = { rule_call_before(k, OP_matmul, t, rule_input(k, p, 0), w), f.shift };
    return rule_call(k, OP_add, (Attrs){ 0 }, 2, in);
}

bool
rule_norm_to_scale(RuleCall *k)
{
    const Type *t = k->r->from->value.at[k->out0].type;
    uint32_t rank = t->rank;
    NormAffine f;
    if (rank < 2 || !norm_constants(k, &f))
        return false;
    ValueId scaled = rule_call_before(k, OP_mul, t, rule_input(k, k->n, 0),
                                      along(k, f.scale, f.channels, 1, rank));
    ValueId in[] = { scaled, along(k, f.shift, f.channels, 1, rank) };
    return rule_call(k, OP_add, (Attrs){ 0 }, 2, in);
}
