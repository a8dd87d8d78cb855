/* minor: operators that few models have, said by others: ONNX Runtime's copies of ONNX's, what
 * converters of classical models and newer language models write, and those that ONNX once tried,
 * which ONNX Runtime still reads in its own domain.
 */
#include "import/little.h"

#include <string.h>

static double
real(Call *k, const char *name, double otherwise)
{
    return attr_float((Attrs){ k->attr.at, k->attr.n }, name, otherwise);
}

static ValueId
times(Call *k, ValueId x, double by)
{
    return x && by != 1 ? little_2(k, OP_mul, x, scalar_const(k, "factor", x, by)) : x;
}

static ValueId
plus(Call *k, ValueId x, double more)
{
    return x && more != 0 ? little_2(k, OP_add, x, scalar_const(k, "term", x, more)) : x;
}

/* v as the node's output, under its name. */
static bool
give(Call *k, ValueId v)
{
    return finish(k, v ? call_one(k, OP_identity, v) : 0);
}

/* ---- that ONNX once had ---------------------------------------------------------------------- */

static bool
convert_affine(Call *k)
{
    return need_inputs(k, 1) &&
           give(k, plus(k, times(k, call_in(k, 0), real(k, "alpha", real(k, "scale", 1))),
                        real(k, "beta", 0)));
}

static bool
convert_scaled_tanh(Call *k)
{
    return need_inputs(k, 1) &&
           give(k, times(k, little_1(k, OP_tanh, times(k, call_in(k, 0), real(k, "beta", 1))),
                         real(k, "alpha", 1)));
}

static bool
convert_parametric_softplus(Call *k)
{
    return need_inputs(k, 1) &&
           give(k, times(k, little_1(k, OP_softplus, times(k, call_in(k, 0), real(k, "beta", 1))),
                         real(k, "alpha", 1)));
}

/* x[n, c, h, w] * scale + bias[c] */
static bool
convert_image_scaler(Call *k)
{
    const Attr *bias = call_attr(k, "bias");

    if (!need_inputs(k, 1))
        return false;
    ValueId y = times(k, call_in(k, 0), real(k, "scale", 1));
    if (bias && bias->kind == ATTR_FLOATS && bias->n) {
        ValueId each[64];
        if (bias->n > 64 || value_type(k, call_in(k, 0))->rank < 2)
            return call_refuse(k, "ImageScaler of %s with %u numbers",
                               type_str(k->m->c, value_type(k, call_in(k, 0))), bias->n);
        const int64_t one = 1, rows[] = { -1, 1, 1 };
        for (uint32_t i = 0; i < bias->n; i++)
            each[i] =
                little_2(k, OP_reshape, scalar_const(k, "bias", call_in(k, 0), bias->floats[i]),
                         little_list(k, 1, &one));
        y = little_2(k, OP_add, y,
                     little_2(k, OP_reshape, little_axis(k, OP_concat, 0, bias->n, each),
                              little_list(k, value_type(k, call_in(k, 0))->rank - 1, rows)));
    }
    return give(k, y);
}

/* border: left, top, right, bottom; scale: height and width from the left and top on, and then the
 * rest is no matter. */
static bool
convert_crop(Call *k)
{
    const Attr *border = call_attr(k, "border"), *size = call_attr(k, "scale");
    const int64_t axes[] = { 2, 3 };

    if (!need_inputs(k, 1))
        return false;
    if (!border || border->kind != ATTR_INTS || border->n != 4 ||
        value_type(k, call_in(k, 0))->rank != 4 ||
        (size && (size->kind != ATTR_INTS || size->n != 2)))
        return call_refuse(
            k, "Crop of %s: an image [n, c, h, w], four borders, and two sizes or none are needed",
            type_str(k->m->c, value_type(k, call_in(k, 0))));
    const int64_t *b = border->ints, from[] = { b[1], b[0] },
                  to[] = { size ? b[1] + size->ints[0] : -b[3],
                           size ? b[0] + size->ints[1] : -b[2] };
    ValueId ends[2];
    for (uint32_t d = 0; d < 2; d++) {
        ValueId extent = little_element(k, little_shape(k, call_in(k, 0)), d + 2);
        ends[d] = size ? little_list(k, 1, &to[d])
                       : little_2(k, OP_add, extent, little_list(k, 1, &to[d]));
    }
    return give(k, call_some(k, OP_slice, 0, NULL, 4,
                             (ValueId[]){ call_in(k, 0), little_list(k, 2, from),
                                          little_axis(k, OP_concat, 0, 2, ends),
                                          little_list(k, 2, axes) }));
}

/* ---- ONNX Runtime's -------------------------------------------------------------------------- */

/* One number, of rank 0 or 1, as rank 0. */
static ValueId
one_number(Call *k, ValueId v)
{
    return v && value_type(k, v)->rank ? little_2(k, OP_reshape, v, little_list(k, 0, NULL)) : v;
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
    k->in.at[1] = little_ints(k, call_in(k, 1));
    return k->in.at[1] != 0;
}

/* pads may be a row [1, 2*rank]. */
static bool
convert_pad_row(Call *k)
{
    const int64_t flat = -1;

    if (!need_inputs(k, 2))
        return false;
    if (value_type(k, call_in(k, 1))->rank == 2)
        k->in.at[1] = little_2(k, OP_reshape, call_in(k, 1), little_list(k, 1, &flat));
    if (call_in(k, 2))
        k->in.at[2] = one_number(k, call_in(k, 2));
    return k->in.at[1] != 0;
}

/* Distances of the rows of a[m, n] from those of b[k, n]. */
static bool
convert_distances(Call *k)
{
    const char *metric = attr_string((Attrs){ k->attr.at, k->attr.n }, "metric", "sqeuclidean");
    const int64_t first = 0, second = 1, last = 2;
    bool root = !strcmp(metric, "euclidean");
    Attr drop = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 };

    if (!need_inputs(k, 2))
        return false;
    if (!root && strcmp(metric, "sqeuclidean"))
        return call_refuse(k, "CDist with metric \"%s\"; euclidean and sqeuclidean are known",
                           metric);
    ValueId away =
        little_2(k, OP_sub, little_2(k, OP_unsqueeze, call_in(k, 0), little_list(k, 1, &second)),
                 little_2(k, OP_unsqueeze, call_in(k, 1), little_list(k, 1, &first)));
    ValueId sum =
        away ? call_some(k, OP_reduce_sum, 1, &drop, 2,
                         (ValueId[]){ little_2(k, OP_mul, away, away), little_list(k, 1, &last) })
             : 0;
    return give(k, sum && root ? little_1(k, OP_sqrt, sum) : sum);
}

static bool
convert_matmul_integer_16(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    DType t =
        input_type(k, 0)->dtype == DT_U16 && input_type(k, 1)->dtype == DT_U16 ? DT_U32 : DT_I32;
    return finish(k, call_two(k, OP_matmul, little_cast(k, call_in(k, 0), t),
                              little_cast(k, call_in(k, 1), t)));
}

/* Attributes that Tenon's operator has not: they may have the values that they have where they are
 * left out. */
static bool
only_defaults(Call *k, uint32_t n, const char *const *name, const int64_t *value)
{
    for (uint32_t i = 0; i < n; i++) {
        if (get_int(k, name[i], value[i]) != value[i])
            return call_refuse(k, "%s with %s = %lld; only %lld is known", k->proto->op_type,
                               name[i], (long long)get_int(k, name[i], value[i]),
                               (long long)value[i]);
        call_drop(k, name[i]);
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

/* x y gate: x + gate * y */
static bool
convert_gated_add(Call *k)
{
    return need_inputs(k, 3) &&
           finish(k, call_two(k, OP_add, call_in(k, 0),
                              little_2(k, OP_mul, call_in(k, 2), call_in(k, 1))));
}

/* x scale[c] gate: x[…, h*c] normalised by the root of the mean square of each c numbers, times an
 * activation of the gate */
static bool
convert_gated_norm(Call *k)
{
    const char *name = attr_string((Attrs){ k->attr.at, k->attr.n }, "activation", "silu");
    const Attr epsilon = { .name = sym(k->m->c, "epsilon"),
                           .kind = ATTR_FLOAT,
                           .f = real(k, "epsilon", 1e-5) };
    int64_t size;

    if (!need_inputs(k, 3))
        return false;
    if (input_type(k, 1)->rank != 1 || !expr_const(input_type(k, 1)->dim[0], &size) ||
        (strcmp(name, "silu") && strcmp(name, "swish") && strcmp(name, "sigmoid")))
        return call_refuse(k, "GatedRMSNorm with scales %s and activation \"%s\"",
                           type_str(k->m->c, input_type(k, 1)), name);
    DType t = input_type(k, 0)->dtype, wide = t == DT_F64 ? t : DT_F32;
    const int64_t groups[] = { -1, size };
    ValueId x = little_cast(k, call_in(k, 0), wide), gate = little_cast(k, call_in(k, 2), wide),
            shape = little_shape(k, call_in(k, 0));
    ValueId rows = x && shape ? little_2(k, OP_reshape, x, little_list(k, 2, groups)) : 0;
    ValueId y = rows ? call_some(k, OP_rms_norm, 1, &epsilon, 2,
                                 (ValueId[]){ rows, little_cast(k, call_in(k, 1), wide) })
                     : 0;
    y = y && gate ? little_2(k, OP_mul, little_2(k, OP_reshape, y, shape),
                             little_1(k, strcmp(name, "sigmoid") ? OP_swish : OP_sigmoid, gate))
                  : 0;
    return give(k, y ? little_cast(k, y, t) : 0);
}

/* ids segments? words places segments' rows? scale bias mask? then a scale of each table, scale and
 * bias, and a zero of each: EmbedLayerNormalization of tables of 8 bits. */
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
        if (v[0] &&
            (!v[1] || !(k->in.at[table[i]] = call_some(k, OP_dequantize_linear, 0, NULL, 3, v))))
            return v[1] ? false
                        : call_refuse(k, "QEmbedLayerNormalization without the scale of input %u",
                                      table[i]);
    }
    for (uint32_t i = SCALES; i < k->in.n; i++)
        k->in.at[i] = 0;
    return convert_embed_norm(k);
}

/* Numbers that 4 bits stand for, as bitsandbytes has them: FP4 and NF4 (QLoRA, appendix E). */
static const float four_bits[2][16] = {
    { 0, 5.208333333e-03f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f, 0,
      -5.208333333e-03f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f },
    { -1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
      -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
      0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
      0.7229568362236023f, 1 },
};

/* x b absmax: b[N, K] in 4 bits each, the first of two in the high ones, in blocks with a largest
 * number each */
static bool
convert_matmul_bnb4(Call *k)
{
    int64_t rows = get_int(k, "N", 0), columns = get_int(k, "K", 0),
            block = get_int(k, "block_size", 0), kind = get_int(k, "quant_type", -1), count;
    const int64_t pair[] = { -1, 1 }, flat = -1, last = -1;
    uint8_t number = 16;

    if (!need_inputs(k, 3))
        return false;
    if (rows < 1 || columns < 1 || block < 1 || kind < 0 || kind > 1 || !get_int(k, "transB", 1) ||
        mul_overflows(rows, columns, &count) || count % block || count % 2)
        return call_refuse(
            k, "MatMulBnb4 of %lld by %lld numbers in blocks of %lld, kind %lld, transB %lld",
            (long long)rows, (long long)columns, (long long)block, (long long)kind,
            (long long)get_int(k, "transB", 1));
    const Expr *sixteen = expr_int(k->m->c, 16);
    const ValueId table =
        graph_const(k->m->g, "four_bits", type_new(k->m->c, DT_F32, 1, &sixteen), four_bits[kind]);
    const ValueId by = graph_const(k->m->g, "sixteen", type_new(k->m->c, DT_U8, 0, NULL),
                                   arena_copy(k->m->arena, &number, sizeof number));
    ValueId bytes = little_2(k, OP_reshape, call_in(k, 1), little_list(k, 2, pair));
    ValueId high = little_2(k, OP_div, bytes, by),
            low = high ? little_2(k, OP_sub, bytes, little_2(k, OP_mul, high, by)) : 0;
    ValueId places = low ? little_axis(k, OP_concat, 1, 2, (ValueId[]){ high, low }) : 0;
    const int64_t blocks[] = { -1, block }, whole[] = { rows, columns };
    ValueId w =
        places ? little_2(k, OP_gather, table,
                          little_cast(k, little_2(k, OP_reshape, places, little_list(k, 1, &flat)),
                                      DT_I32))
               : 0;
    ValueId scale = little_2(
        k, OP_unsqueeze,
        little_cast(k, little_2(k, OP_reshape, call_in(k, 2), little_list(k, 1, &flat)), DT_F32),
        little_list(k, 1, &last));
    w = w && scale
            ? little_2(k, OP_mul, little_2(k, OP_reshape, w, little_list(k, 2, blocks)), scale)
            : 0;
    w = w ? call_turned(k, little_2(k, OP_reshape, w, little_list(k, 2, whole))) : 0;
    return finish(
        k,
        w ? call_two(k, OP_matmul, call_in(k, 0), little_cast(k, w, input_type(k, 0)->dtype)) : 0);
}

const OpRow minor_rows[] = {
    { "Affine", OP_NONE, convert_affine },
    { "Scale", OP_NONE, convert_affine },
    { "ScaledTanh", OP_NONE, convert_scaled_tanh },
    { "ParametricSoftplus", OP_NONE, convert_parametric_softplus },
    { "ImageScaler", OP_NONE, convert_image_scaler },
    { "Crop", OP_NONE, convert_crop },
    { "DynamicSlice", OP_slice, 0 },
    { "com.microsoft.Range", OP_range, convert_range },
    { "com.microsoft.ExpandDims", OP_unsqueeze, convert_expand_dims },
    { "com.microsoft.Trilu", OP_trilu, 0 },
    { "com.microsoft.GatherND", OP_gather_nd, 0 },
    { "com.microsoft.Pad", OP_pad, convert_pad_row },
    { "com.microsoft.GridSample", OP_grid_sample, convert_bilinear },
    { "com.microsoft.CDist", OP_NONE, convert_distances },
    { "com.microsoft.MatMulInteger16", OP_NONE, convert_matmul_integer_16 },
    { "com.microsoft.MatMulBnb4", OP_NONE, convert_matmul_bnb4 },
    { "com.microsoft.CausalConvWithState", OP_causal_conv, convert_causal_conv },
    { "com.microsoft.LinearAttention", OP_linear_attention, convert_linear_attention },
    { "com.microsoft.GatedAdd", OP_NONE, convert_gated_add },
    { "com.microsoft.GatedRMSNorm", OP_NONE, convert_gated_norm },
    { "com.microsoft.QEmbedLayerNormalization", OP_layer_norm, convert_quantised_embed_norm },
    { 0 },
};
