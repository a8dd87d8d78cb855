/* composed: operators that Tenon says by several of its own: ONNX's quantised ones, and those of ONNX Runtime
 * (com.microsoft) that exporters write. Fusion makes one kernel of what belongs together.
 */
#include "import/internal.h"

#include <string.h>

/* ---- making ------------------------------------------------------------------------------------------- */

static Attr
int_attr(Call *k, const char *name, int64_t v)
{
    return (Attr){.name = sym(k->m->c, name), .kind = ATTR_INT, .i = v};
}

static ValueId
one(Call *k, OpKind op, ValueId x)
{
    return call_op(k, op, 0, NULL, 1, &x, output_name(k));
}

static ValueId
two(Call *k, OpKind op, ValueId x, ValueId y)
{
    const ValueId in[] = {x, y};
    return call_op(k, op, 0, NULL, 2, in, output_name(k));
}

static ValueId
in(Call *k, uint32_t i)
{
    return i < k->in.n ? k->in.at[i] : 0;
}

static const Type *
type_of(Call *k, ValueId v)
{
    return v ? k->m->g->value.at[v].type : NULL;
}

/* An operator with inputs that may be absent (0); trailing ones are left off. */
static ValueId
some(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t n, const ValueId *x)
{
    const char *name = output_name(k);
    Attr *attrs = nattr ? arena_copy(k->m->arena, attr, nattr * sizeof *attrs) : NULL;
    ValueId out;

    while (n && !x[n - 1])
        n--;
    return graph_infer_op(k->m->g, op, (Attrs){attrs, nattr}, k->loc, k->origin, n, x, 1, &name, &out) ? out : 0;
}

static bool
need_inputs(Call *k, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!need_input(k, i))
            return false;
    return true;
}

/* The last two axes exchanged. */
static ValueId
turned(Call *k, ValueId x)
{
    const Type *t = type_of(k, x);
    int64_t perm[TN_MAX_RANK];

    if (!t || t->rank < 2)
        return x;
    for (uint32_t d = 0; d < t->rank; d++)
        perm[d] = d + 2 < t->rank ? d : 2 * (int64_t)t->rank - 3 - d;
    Attr a = {.name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = t->rank, .ints = arena_copy(k->m->arena, perm, sizeof perm)};
    return call_op(k, OP_transpose, 1, &a, 1, &x, "turned");
}

/* ---- quantised ------------------------------------------------------------------------------------------- */

static ValueId
dequantized(Call *k, ValueId x, ValueId scale, ValueId zero)
{
    const ValueId v[] = {x, scale, zero};
    return some(k, OP_dequantize_linear, 0, NULL, 3, v);
}

static ValueId
quantized(Call *k, ValueId x, ValueId scale, ValueId zero)
{
    const ValueId v[] = {x, scale, zero};
    return x ? some(k, OP_quantize_linear, 0, NULL, 3, v) : 0;
}

static ValueId
requantized(Call *k, ValueId sums, ValueId a, ValueId b, ValueId y, ValueId zero, int64_t axis)
{
    const ValueId v[] = {sums, a, b, y, zero};
    Attr at = int_attr(k, "axis", axis);
    return sums ? some(k, OP_requantize_linear, 1, &at, 5, v) : 0;
}

static bool
convert_qlinear_matmul(Call *k)
{
    if (!need_inputs(k, 7))
        return false;
    const ValueId v[] = {in(k, 0), in(k, 3), in(k, 2), in(k, 5)};
    return finish(k, requantized(k, some(k, OP_matmul_integer, 0, NULL, 4, v), in(k, 1), in(k, 4), in(k, 6), in(k, 7), -1));
}

static bool
convert_qlinear_conv(Call *k)
{
    if (!need_inputs(k, 7))
        return false;
    const ValueId v[] = {in(k, 0), in(k, 3), in(k, 2), in(k, 5)};
    ValueId sums = some(k, OP_conv_integer, k->attr.n, k->attr.at, 4, v), bias = in(k, 8);
    if (sums && bias) {
        int64_t axes[TN_MAX_RANK];
        uint32_t n = type_of(k, sums)->rank - 2;
        for (uint32_t d = 0; d < n; d++)
            axes[d] = d + 1;
        bias = two(k, OP_unsqueeze, bias, call_ints(k, "axes", n, axes));
        sums = bias ? two(k, OP_add, sums, bias) : 0;
    }
    return finish(k, requantized(k, sums, in(k, 1), in(k, 4), in(k, 6), in(k, 7), 1));
}

/* a a_scale a_zero b b_scale b_zero c? y_scale? y_zero?: without a scale of its own the result is float. */
static bool
convert_qgemm(Call *k)
{
    if (!need_inputs(k, 5))
        return false;
    if (attr_float((Attrs){k->attr.at, k->attr.n}, "alpha", 1) != 1)
        return call_refuse(k, "QGemm with alpha other than 1");
    ValueId a = get_int(k, "transA", 0) ? turned(k, in(k, 0)) : in(k, 0), b = get_int(k, "transB", 0) ? turned(k, in(k, 3)) : in(k, 3);
    const ValueId v[] = {a, b, in(k, 2), in(k, 5)};
    ValueId sums = some(k, OP_matmul_integer, 0, NULL, 4, v);
    if (sums && in(k, 6))
        sums = two(k, OP_add, sums, in(k, 6));
    if (in(k, 7))
        return finish(k, requantized(k, sums, in(k, 1), in(k, 4), in(k, 7), in(k, 8), -1));
    Attr to = {.name = sym(k->m->c, "to"), .kind = ATTR_STRING, .s = "f32"};
    ValueId real = sums ? call_op(k, OP_cast, 1, &to, 1, &sums, output_name(k)) : 0;
    return finish(k, real ? two(k, OP_mul, real, two(k, OP_mul, in(k, 1), in(k, 4))) : 0);
}

/* a a_scale a_zero b b_scale b_zero y_scale y_zero */
static bool
convert_qlinear_pair(Call *k)
{
    if (!need_inputs(k, 7))
        return false;
    /* Both on the result's scale, as ONNX Runtime has it: then a sum that is exact there rounds alike. */
    ValueId ratio = two(k, OP_div, in(k, 1), in(k, 6)), other = k->op == OP_add ? two(k, OP_div, in(k, 4), in(k, 6)) : in(k, 4);
    ValueId a = ratio ? dequantized(k, in(k, 0), ratio, in(k, 2)) : 0, b = other ? dequantized(k, in(k, 3), other, in(k, 5)) : 0;
    return finish(k, a && b ? quantized(k, two(k, k->op, a, b), scalar_const(k, "one", ratio, 1), in(k, 7)) : 0);
}

/* x x_scale x_zero y_scale y_zero, with the attributes of the operator between. */
static bool
convert_qlinear_one(Call *k)
{
    if (!need_inputs(k, 4))
        return false;
    if (get_int(k, "channels_last", 0))
        return call_refuse(k, "%s with channels last", k->proto->op_type);
    call_drop(k, "channels_last");
    const ValueId x = dequantized(k, in(k, 0), in(k, 1), in(k, 2));
    return finish(k, x ? quantized(k, some(k, k->op, k->attr.n, k->attr.at, 1, &x), in(k, 3), in(k, 4)) : 0);
}

/* y_scale y_zero, then x scale zero for each part. */
static bool
convert_qlinear_concat(Call *k)
{
    ValueId part[64];
    uint32_t n = k->in.n >= 2 ? (k->in.n - 2) / 3 : 0;

    if (n < 1 || n > 64 || k->in.n != 2 + 3 * n)
        return call_refuse(k, "QLinearConcat of %u inputs", k->in.n);
    for (uint32_t i = 0; i < n; i++)
        if (!(part[i] = dequantized(k, in(k, 2 + 3 * i), in(k, 3 + 3 * i), in(k, 4 + 3 * i))))
            return false;
    return finish(k, quantized(k, some(k, OP_concat, k->attr.n, k->attr.at, n, part), in(k, 0), in(k, 1)));
}

static bool
convert_quick_gelu(Call *k)
{
    if (!call_attr(k, "alpha"))
        VEC_PUSH(k->m->arena, &k->attr, ((Attr){.name = sym(k->m->c, "alpha"), .kind = ATTR_FLOAT, .f = 1.702}));
    return true;
}

/* a b a_scale b_scale a_zero? b_zero? bias? */
static bool
convert_matmul_integer_to_float(Call *k)
{
    if (!need_inputs(k, 4))
        return false;
    const ValueId v[] = {in(k, 0), in(k, 1), in(k, 4), in(k, 5)};
    ValueId sums = some(k, OP_matmul_integer, 0, NULL, 4, v);
    Attr to = {.name = sym(k->m->c, "to"), .kind = ATTR_STRING, .s = dtype_info[input_type(k, 2)->dtype].name};
    ValueId real = sums ? call_op(k, OP_cast, 1, &to, 1, &sums, output_name(k)) : 0;
    real = real ? two(k, OP_mul, real, two(k, OP_mul, in(k, 2), in(k, 3))) : 0;
    return finish(k, real && in(k, 6) ? two(k, OP_add, real, in(k, 6)) : real);
}

/* a b b_scale b_zero? bias?: a is quantised as it runs. */
static bool
convert_dynamic_quantize_matmul(Call *k)
{
    const char *names[] = {"quantised", "scale", "zero"};
    ValueId q[3];

    if (!need_inputs(k, 3))
        return false;
    if (!graph_infer_op(k->m->g, OP_dynamic_quantize_linear, (Attrs){NULL, 0}, k->loc, k->origin, 1, k->in.at, 3, names, q))
        return false;
    ValueId b = in(k, 1), b_scale = in(k, 2), b_zero = in(k, 3), bias = in(k, 4);
    for (uint32_t i = 0; i < 7; i++)
        set_input(k, i, 0);
    const ValueId v[] = {q[0], b, q[1], b_scale, q[2], b_zero, bias};
    memcpy(k->in.at, v, sizeof v);
    return convert_matmul_integer_to_float(k);
}

/* ---- floats ------------------------------------------------------------------------------------------------- */

/* gelu(x + bias?) and its approximations */
static bool
convert_bias_gelu(Call *k)
{
    if (!need_input(k, 0))
        return false;
    return finish(k, one(k, k->op, in(k, 1) ? two(k, OP_add, in(k, 0), in(k, 1)) : in(k, 0)));
}

static bool
convert_fused_matmul(Call *k)
{
    double alpha = attr_float((Attrs){k->attr.at, k->attr.n}, "alpha", 1);

    if (!need_inputs(k, 2))
        return false;
    if (get_int(k, "transBatchA", 0) || get_int(k, "transBatchB", 0))
        return call_refuse(k, "FusedMatMul with transposed batches");
    ValueId a = get_int(k, "transA", 0) ? turned(k, in(k, 0)) : in(k, 0), b = get_int(k, "transB", 0) ? turned(k, in(k, 1)) : in(k, 1);
    ValueId y = a && b ? two(k, OP_matmul, a, b) : 0;
    return finish(k, y && alpha != 1 ? two(k, OP_mul, y, scalar_const(k, "alpha", y, alpha)) : y);
}

/* x skip scale bias? extra?, or without the mean x skip scale extra?; output 3 is the sum. */
static bool
convert_skip_norm(Call *k)
{
    bool rms = k->op == OP_rms_norm;
    ValueId extra = in(k, rms ? 3 : 4);

    if (!need_inputs(k, 3))
        return false;
    if (k->nout > 1 && k->nout < 4)
        return call_refuse(k, "%s with its mean and deviation as outputs", k->proto->op_type);
    ValueId sum = two(k, OP_add, in(k, 0), in(k, 1));
    sum = sum && extra ? two(k, OP_add, sum, extra) : sum;
    if (!sum)
        return false;
    const ValueId v[] = {sum, in(k, 2), rms ? 0 : in(k, 3)};
    call_bind(k, 3, sum);
    return finish(k, some(k, k->op, k->attr.n, k->attr.at, 3, v));
}

/* x positions cos sin */
static bool
convert_rotary(Call *k)
{
    int64_t heads = get_int(k, "num_heads", 0), hidden, half;

    if (!need_inputs(k, 4))
        return false;
    const Type *x = input_type(k, 0), *cache = input_type(k, 2);
    if (input_type(k, 1)->rank != 2 || get_int(k, "is_packed_batching", 0) || attr_float((Attrs){k->attr.at, k->attr.n}, "scale", 1) != 1)
        return call_refuse(k, "RotaryEmbedding with an offset for positions, packed or scaled");
    if (x->rank == 3 && !heads && expr_const(x->dim[2], &hidden) && expr_const(cache->dim[1], &half) && half > 0)
        set_int(k, "num_heads", hidden / (2 * half));
    call_drop(k, "is_packed_batching");
    call_drop(k, "scale");
    const ValueId v[] = {in(k, 0), in(k, 2), in(k, 3), in(k, 1)};
    return finish(k, some(k, OP_rotary_embedding, k->attr.n, k->attr.at, 4, v));
}

static bool
convert_matmul_nbits(Call *k)
{
    if (in(k, 4))
        return call_refuse(k, "MatMulNBits with an order of groups (g_idx)");
    call_drop(k, "accuracy_level");
    return true;
}

const OpRow composed_rows[] = {
    {"QLinearMatMul", OP_NONE, convert_qlinear_matmul}, {"QLinearConv", OP_NONE, convert_qlinear_conv},
    {"com.microsoft.QGemm", OP_NONE, convert_qgemm}, {"com.microsoft.QLinearAdd", OP_add, convert_qlinear_pair},
    {"com.microsoft.QLinearMul", OP_mul, convert_qlinear_pair}, {"com.microsoft.QLinearConcat", OP_concat, convert_qlinear_concat},
    {"com.microsoft.QLinearSigmoid", OP_sigmoid, convert_qlinear_one}, {"com.microsoft.QLinearLeakyRelu", OP_leaky_relu, convert_qlinear_one},
    {"com.microsoft.QLinearSoftmax", OP_softmax, convert_qlinear_one},
    {"com.microsoft.QLinearGlobalAveragePool", OP_global_average_pool, convert_qlinear_one},
    {"com.microsoft.QLinearAveragePool", OP_average_pool, convert_qlinear_one},
    {"com.microsoft.MatMulIntegerToFloat", OP_NONE, convert_matmul_integer_to_float},
    {"com.microsoft.DynamicQuantizeMatMul", OP_NONE, convert_dynamic_quantize_matmul},
    {"com.microsoft.QuantizeLinear", OP_quantize_linear, 0}, {"com.microsoft.DequantizeLinear", OP_dequantize_linear, 0},
    {"com.microsoft.Gelu", OP_gelu, convert_bias_gelu}, {"com.microsoft.BiasGelu", OP_gelu, convert_bias_gelu},
    {"com.microsoft.FastGelu", OP_gelu_tanh, convert_bias_gelu}, {"com.microsoft.QuickGelu", OP_swish, convert_quick_gelu},
    {"com.microsoft.FusedMatMul", OP_NONE, convert_fused_matmul}, {"com.microsoft.TransposeMatMul", OP_NONE, convert_fused_matmul},
    {"com.microsoft.SkipLayerNormalization", OP_layer_norm, convert_skip_norm},
    {"com.microsoft.SkipSimplifiedLayerNormalization", OP_rms_norm, convert_skip_norm},
    {"SimplifiedLayerNormalization", OP_rms_norm, 0}, {"com.microsoft.RotaryEmbedding", OP_NONE, convert_rotary},
    {"com.microsoft.MatMulNBits", OP_matmul_nbits, convert_matmul_nbits},
    {0},
};
