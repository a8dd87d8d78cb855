/* rare_operators: operators that few models have, as texts of others: ONNX Runtime's copies of
 * ONNX's, those of converters of classical models and of newer language models, and experimental
 * ones of old ONNX, which ONNX Runtime still reads in its own domain. */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>
#include <string.h>

/* ---- experimental operators of ONNX ---------------------------------------------------------- */

static bool
convert_affine(Call *k)
{
    return call_says(k, "x -> y", "y = identity(x%s%s)",
                     times_text(k, get_float(k, "alpha", get_float(k, "scale", 1))),
                     plus_text(k, get_float(k, "beta", 0)));
}

/* alpha * f(beta * x) */
static bool
convert_scaled(Call *k)
{
    return call_says(k, "x -> y", "y = identity(self(x%s)%s)",
                     times_text(k, get_float(k, "beta", 1)),
                     times_text(k, get_float(k, "alpha", 1)));
}

/* x[n, c, h, w] * scale + bias[c] */
static bool
convert_image_scaler(Call *k)
{
    const Attr *bias = call_attr(k, "bias");
    const char *more = "";

    if (!call_names(k, "x -> y"))
        return false;
    if (bias && bias->kind == ATTR_FLOATS && bias->n) {
        const Type *t = input_type(k, 0);
        int64_t column[TN_MAX_RANK] = { -1, 1, 1, 1, 1, 1, 1, 1 };
        if (bias->n > 64 || t->rank < 2)
            return call_refuse(k, "ImageScaler of %s with %u numbers", type_str(k->m->c, t),
                               bias->n);
        more =
            arena_printf(k->m->arena, " + reshape(like(%s, x), %s)",
                         floats_text(k, bias->n, bias->floats), ints_text(k, t->rank - 1u, column));
    }
    return call_text(k, "y = identity(x%s%s)", times_text(k, get_float(k, "scale", 1)), more);
}

/* border: left, top, right, bottom; scale: height and width from the left and top on; the rest is
 * ignored. */
static bool
convert_crop(Call *k)
{
    const Attr *border = call_attr(k, "border"), *size = call_attr(k, "scale");

    if (!call_names(k, "x -> y"))
        return false;
    if (!border || border->kind != ATTR_INTS || border->n != 4 || input_type(k, 0)->rank != 4 ||
        (size && (size->kind != ATTR_INTS || size->n != 2)))
        return call_refuse(
            k, "Crop of %s: an image [n, c, h, w], four borders, and two sizes or none are needed",
            type_str(k->m->c, input_type(k, 0)));
    const int64_t *b = border->ints, from[] = { b[1], b[0] },
                  to[] = { size ? b[1] + size->ints[0] : -b[3],
                           size ? b[0] + size->ints[1] : -b[2] };
    return call_text(k,
                     "ends = %s%s\n"
                     "y = identity(slice(x, %s, ends, [2, 3]))",
                     size ? "" : "gather(shape(x), [2, 3]) + ", ints_text(k, 2, to),
                     ints_text(k, 2, from));
}

/* ---- ONNX Runtime's -------------------------------------------------------------------------- */

/* One number, of rank 0 or 1, as rank 0. */
static ValueId
one_number(Call *k, ValueId v)
{
    return v && value_type(k, v)->rank ? value_of_text(k, "v", &v, "reshape(v, [])") : v;
}

static bool
convert_range(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    set_input(k, 2, call_in(k, 2) ? call_in(k, 2) : scalar_const(k, "one", call_in(k, 0), 1));
    for (uint32_t i = 0; i < 3; i++)
        if (!(k->in.at[i] = one_number(k, call_in(k, i))))
            return false;
    return true;
}

static bool
convert_expand_dims(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    k->in.at[1] = call_int_list(k, call_in(k, 1));
    return k->in.at[1] != 0;
}

/* pads may be a row [1, 2*rank]. */
static bool
convert_pad_row(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    if (input_type(k, 1)->rank == 2)
        k->in.at[1] = value_of_text(k, "pads", &k->in.at[1], "reshape(pads, [-1])");
    if (call_in(k, 2))
        k->in.at[2] = one_number(k, call_in(k, 2));
    return k->in.at[1] != 0;
}

/* Distances of the rows of a[m, n] from those of b[k, n]. */
static bool
convert_distances(Call *k)
{
    const char *metric = get_string(k, "metric", "sqeuclidean");
    bool root = !strcmp(metric, "euclidean");

    if (!root && strcmp(metric, "sqeuclidean"))
        return call_refuse(k, "CDist with metric \"%s\"; euclidean and sqeuclidean are known",
                           metric);
    return call_says(k, "a b -> y",
                     "d = unsqueeze(a, [1]) - unsqueeze(b, [0])\n"
                     "y = %s(reduce_sum(d * d, [2]) {keepdims = 0})",
                     root ? "sqrt" : "identity");
}

static bool
convert_matmul_integer_16(Call *k)
{
    if (!call_names(k, "a b -> y"))
        return false;
    bool both = input_type(k, 0)->dtype == DT_U16 && input_type(k, 1)->dtype == DT_U16;
    return call_text(k, both ? "y = matmul(u32(a), u32(b))" : "y = matmul(i32(a), i32(b))");
}

/* Attributes that Tenon's operator does not have: they may have their default values. */
static bool
only_defaults(Call *k, uint32_t n, const char *const *name, const int64_t *value)
{
    for (uint32_t i = 0; i < n; i++) {
        if (get_int(k, name[i], value[i]) != value[i])
            return call_refuse(k, "%s with %s = %lld; only %lld is known", k->proto->op_type,
                               name[i], (long long)get_int(k, name[i], value[i]),
                               (long long)value[i]);
    }
    return true;
}

static bool
convert_causal_conv(Call *k)
{
    return only_defaults(
        k, 4, (const char *const[]){ "ndim", "dilation", "channels_last", "state_window" },
        (const int64_t[]){ 1, 1, 0, 0 });
}

static bool
convert_linear_attention(Call *k)
{
    return only_defaults(k, 1, (const char *const[]){ "state_window" }, (const int64_t[]){ 0 });
}

static bool
convert_gated_add(Call *k)
{
    return call_says(k, "x more gate -> y", "y = x + gate * more");
}

/* x scale[c] gate: x[…, h*c] divided by the root mean square of each c numbers, times an activation
 * of the gate */
static bool
convert_gated_norm(Call *k)
{
    const char *name = get_string(k, "activation", "silu");
    int64_t size;

    if (!call_names(k, "x scale gate -> y"))
        return false;
    if (input_type(k, 1)->rank != 1 || !expr_const(input_type(k, 1)->dim[0], &size) ||
        (strcmp(name, "silu") && strcmp(name, "swish") && strcmp(name, "sigmoid")))
        return call_refuse(k, "GatedRMSNorm with scales %s and activation \"%s\"",
                           type_str(k->m->c, input_type(k, 1)), name);
    const char *wide = input_type(k, 0)->dtype == DT_F64 ? "f64" : "f32";
    return call_text(k,
                     "rows = reshape(%s(x), [-1, %" PRId64 "])\n"
                     "rows = rms_norm(rows, %s(scale)) {epsilon = %a}\n"
                     "y = identity(like(reshape(rows, shape(x)) * %s(%s(gate)), x))",
                     wide, size, wide, get_float(k, "epsilon", 1e-5),
                     strcmp(name, "sigmoid") ? "swish" : "sigmoid", wide);
}

/* ids segments? words places segments' rows? scale bias mask? then a scale of each table, scale and
 * bias, and a zero point of each: EmbedLayerNormalization of tables of 8 bits. */
static bool
convert_quantised_embed_norm(Call *k)
{
    enum { IDS, SEGMENTS, WORDS, PLACES, KINDS, GAMMA, BETA, MASK, SCALES, ZEROS = SCALES + 5 };
    static const uint32_t table[] = { WORDS, PLACES, KINDS, GAMMA, BETA };

    if (!need_input(k, IDS) || !need_input(k, WORDS) || !need_input(k, PLACES) ||
        !need_input(k, GAMMA) || !need_input(k, BETA))
        return false;
    for (uint32_t i = 0; i < 5; i++) {
        const ValueId v[] = { call_in(k, table[i]), call_in(k, SCALES + i), call_in(k, ZEROS + i) };
        if (v[0] && (!v[1] || !(k->in.at[table[i]] = value_of_text(
                                    k, "x scale zero", v, "dequantize_linear(x, scale, zero)"))))
            return v[1] ? false
                        : call_refuse(k, "QEmbedLayerNormalization without the scale of input %u",
                                      table[i]);
    }
    for (uint32_t i = SCALES; i < k->in.n; i++)
        k->in.at[i] = 0;
    return convert_embed_norm(k);
}

/* The values of 4-bit codes, as in bitsandbytes: FP4 and NF4 (QLoRA, appendix E). */
static const float four_bits[2][16] = {
    { 0, 5.208333333e-03f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f, 0,
      -5.208333333e-03f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f },
    { -1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
      -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
      0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
      0.7229568362236023f, 1 },
};

/* x b absmax: b[N, K] in 4 bits each, the first of two in the high ones, in blocks with one maximum
 * each */
static bool
convert_matmul_bnb4(Call *k)
{
    int64_t rows = get_int(k, "N", 0), columns = get_int(k, "K", 0),
            block = get_int(k, "block_size", 0), kind = get_int(k, "quant_type", -1), count;

    if (!call_names(k, "x b absmax -> y"))
        return false;
    if (rows < 1 || columns < 1 || block < 1 || kind < 0 || kind > 1 || !get_int(k, "transB", 1) ||
        mul_overflows(rows, columns, &count) || count % block || count % 2)
        return call_refuse(
            k, "MatMulBnb4 of %lld by %lld numbers in blocks of %lld, kind %lld, transB %lld",
            (long long)rows, (long long)columns, (long long)block, (long long)kind,
            (long long)get_int(k, "transB", 1));
    const Expr *sixteen = expr_int(k->m->c, 16);
    call_name(
        k, "table",
        graph_const(k->m->g, "four_bits", type_new(k->m->c, DT_F32, 1, &sixteen), four_bits[kind]));
    return call_text(k,
                     "bytes = reshape(b, [-1, 1])\n"
                     "high = bytes / 16\n"
                     "places = concat(high, bytes - high * 16) {axis = 1}\n"
                     "w = gather(table, i32(reshape(places, [-1])))\n"
                     "scale = unsqueeze(f32(reshape(absmax, [-1])), [-1])\n"
                     "w = reshape(w, [-1, %" PRId64 "]) * scale\n"
                     "w = transpose(reshape(w, [%" PRId64 ", %" PRId64 "])) {perm = [1, 0]}\n"
                     "y = matmul(x, like(w, x))",
                     block, rows, columns);
}

const OpRow minor_rows[] = {
    { "Affine", OP_NONE, convert_affine },
    { "Scale", OP_NONE, convert_affine },
    { "ScaledTanh", OP_tanh, convert_scaled },
    { "ParametricSoftplus", OP_softplus, convert_scaled },
    { "ImageScaler", OP_NONE, convert_image_scaler },
    { "Crop", OP_NONE, convert_crop },
    { "DynamicSlice", OP_slice, 0 },
    { "com.microsoft.Range", OP_range, convert_range },
    { "com.microsoft.ExpandDims", OP_unsqueeze, convert_expand_dims, "i1" },
    { "com.microsoft.Trilu", OP_trilu, 0, "i1" },
    { "com.microsoft.GatherND", OP_gather_nd, 0, "i1" },
    { "com.microsoft.Pad", OP_pad, convert_pad_row, "i1" },
    { "com.microsoft.GridSample", OP_grid_sample, convert_bilinear },
    { "com.microsoft.CDist", OP_NONE, convert_distances },
    { "com.microsoft.MatMulInteger16", OP_NONE, convert_matmul_integer_16 },
    { "com.microsoft.MatMulBnb4", OP_NONE, convert_matmul_bnb4 },
    { "com.microsoft.CausalConvWithState", OP_causal_conv, convert_causal_conv, 0,
      "-ndim -dilation -channels_last -state_window" },
    { "com.microsoft.LinearAttention", OP_linear_attention, convert_linear_attention, 0,
      "-state_window" },
    { "com.microsoft.GatedAdd", OP_NONE, convert_gated_add },
    { "com.microsoft.GatedRMSNorm", OP_NONE, convert_gated_norm },
    { "com.microsoft.QEmbedLayerNormalization", OP_layer_norm, convert_quantised_embed_norm,
      "i017" },
    { 0 },
};
