/* rare_operators: operators that few models have, as texts of others: ONNX Runtime's copies of
 * ONNX's, those of converters of classical models and of newer language models, and experimental
 * ones of old ONNX, which ONNX Runtime still reads in its own domain. */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <string.h>

/* ---- experimental operators of ONNX ---------------------------------------------------------- */

static bool
convert_affine(Call *k)
{
    const double beta = get_float(k, "beta", 0);

    return call_says(k, "x -> y", "y = identity(x%s%s)",
                     times_text(k, get_float(k, "alpha", get_float(k, "scale", 1))),
                     beta == 0 ? "" : " + $beta");
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
    if (!call_names(k, "x[n, c, ...] -> y"))
        return false;
    call_fact(k, "column", along_text(k, 0, input_type(k, 0)->rank - 1u));
    return call_text(k, "y = identity(x%s%s)", times_text(k, get_float(k, "scale", 1)),
                     call_attr(k, "bias") ? " + reshape(like($bias, x), $column)" : "");
}

/* border: left, top, right, bottom; scale: height and width from the left and top on; the rest is
 * ignored. */
static bool
convert_crop(Call *k)
{
    const Attr *border = call_attr(k, "border"), *size = call_attr(k, "scale");

    if (!call_names(k, "x[n, c, h, w] -> y"))
        return false;
    if (!border || border->n != 4 || (size && size->n != 2))
        return call_refuse(k, "Crop needs four borders, and two sizes or none");
    const int64_t *b = border->ints, from[] = { b[1], b[0] },
                  to[] = { size ? b[1] + size->ints[0] : -b[3],
                           size ? b[0] + size->ints[1] : -b[2] };
    call_fact(k, "from", ints_text(k, 2, from));
    call_fact(k, "to", ints_text(k, 2, to));
    return call_text(k,
                     "ends = %s$to\n"
                     "y = identity(slice(x, $from, ends, [2, 3]))",
                     size ? "" : "gather(shape(x), [2, 3]) + ");
}

/* ---- ONNX Runtime's -------------------------------------------------------------------------- */

/* One number, of rank 0 or 1, as rank 0. */
static void
one_number(Call *k, const char *name)
{
    const Type *t = call_type(k, name);

    if (t && t->rank)
        call_text(k, "%s = reshape(%s, [])", name, name);
}

static bool
convert_range(Call *k)
{
    if (!call_names(k, "start limit ? delta") || !call_text(k, "!delta? delta = like(1, start)"))
        return false;
    one_number(k, "start");
    one_number(k, "limit");
    one_number(k, "delta");
    return !k->failed;
}

/* pads may be a row [1, 2*rank]. */
static bool
convert_pad_row(Call *k)
{
    if (!call_names(k, "x pads ? value"))
        return false;
    call_number(k, "row", input_type(k, 1)->rank == 2);
    call_text(k, "$row? pads = reshape(pads, [-1])");
    one_number(k, "value");
    return !k->failed;
}

static bool
convert_distances(Call *k)
{
    uint32_t which;

    call_fact(k, "of",
              get_choice(k, "metric", "sqeuclidean euclidean", &which) && which ? "sqrt"
                                                                                : "identity");
    return which < 2;
}

static bool
convert_matmul_integer_16(Call *k)
{
    if (!call_names(k, "a b -> y"))
        return false;
    bool both = input_type(k, 0)->dtype == DT_U16 && input_type(k, 1)->dtype == DT_U16;
    return call_text(k, both ? "y = matmul(u32(a), u32(b))" : "y = matmul(i32(a), i32(b))");
}

/* x scale[c] gate: x[…, h*c] divided by the root mean square of each c numbers, times an activation
 * of the gate */
static bool
convert_gated_norm(Call *k)
{
    uint32_t which;

    if (!call_names(k, "x scale[#size] gate -> y") ||
        !get_choice(k, "activation", "silu swish sigmoid", &which))
        return false;
    call_fact(k, "real", input_type(k, 0)->dtype == DT_F64 ? "f64" : "f32");
    call_fact(k, "activate", which < 2 ? "swish" : "sigmoid");
    return call_text(k, "rows = reshape($real(x), [-1, $size])\n"
                        "rows = rms_norm(rows, $real(scale)) {epsilon = $epsilon:1e-5}\n"
                        "rows = reshape(rows, shape(x))\n"
                        "y = identity(like(rows * $activate($real(gate)), x))");
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
    if (kind < 0 || kind > 1 || mul_overflows(rows, columns, &count) || count % block || count % 2)
        return call_refuse(k, "MatMulBnb4 of %lld by %lld numbers in blocks of %lld, kind %lld",
                           (long long)rows, (long long)columns, (long long)block, (long long)kind);
    call_name(k, "table", call_list(k, "four_bits", DT_F32, 16, four_bits[kind]));
    return call_text(k, "bytes = reshape(b, [-1, 1])\n"
                        "high = bytes / 16\n"
                        "places = concat(high, bytes - high * 16) {axis = 1}\n"
                        "w = gather(table, i32(reshape(places, [-1])))\n"
                        "scale = unsqueeze(f32(reshape(absmax, [-1])), [-1])\n"
                        "w = reshape(w, [-1, $block_size]) * scale\n"
                        "w = transpose(reshape(w, [$N, $K])) {perm = [1, 0]}\n"
                        "y = matmul(x, like(w, x))");
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
    { "com.microsoft.ExpandDims", OP_unsqueeze, 0, "i1", .names = "x *axes", .text = "" },
    { "com.microsoft.Trilu", OP_trilu, 0, "i1" },
    { "com.microsoft.GatherND", OP_gather_nd, 0, "i1" },
    { "com.microsoft.Pad", OP_pad, convert_pad_row, "i1" },
    { "com.microsoft.GridSample", OP_grid_sample, convert_bilinear },
    /* of the rows of a[m, n] from those of b[k, n] */
    { "com.microsoft.CDist", OP_NONE, convert_distances, .names = "a b -> y",
      .text = "d = unsqueeze(a, [1]) - unsqueeze(b, [0])\n"
              "y = $of(reduce_sum(d * d, [2]) {keepdims = 0})" },
    { "com.microsoft.MatMulInteger16", OP_NONE, convert_matmul_integer_16 },
    { "com.microsoft.MatMulBnb4", OP_NONE, convert_matmul_bnb4, 0, "+N +K +block_size -transB=1" },
    { "com.microsoft.CausalConvWithState", OP_causal_conv, 0, 0,
      "-ndim=1 -dilation=1 -channels_last=0 -state_window=0" },
    { "com.microsoft.LinearAttention", OP_linear_attention, 0, 0, "-state_window=0" },
    { "com.microsoft.GatedAdd", OP_NONE, .names = "x more gate -> y",
      .text = "y = x + gate * more" },
    { "com.microsoft.GatedRMSNorm", OP_NONE, convert_gated_norm },
    { "com.microsoft.QEmbedLayerNormalization", OP_layer_norm, convert_quantised_embed_norm,
      "i017" },
    { 0 },
};
