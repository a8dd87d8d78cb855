/* ops: ONNX's operators as Tenon's.
 *
 * One row per operator. A row without a converter has the same inputs and attributes in every
 * opset. opsets.c has converters; those of operators that Tenon does not have are in files by
 * topic.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <ctype.h>
#include <string.h>

static const OpRow rows[] = {
    { "Abs", OP_abs, 0 },
    { "Neg", OP_neg, 0 },
    { "Sign", OP_sign, 0 },
    { "Ceil", OP_ceil, 0 },
    { "Floor", OP_floor, 0 },
    { "Round", OP_round, 0 },
    { "Reciprocal", OP_reciprocal, 0 },
    { "Sqrt", OP_sqrt, 0 },
    { "Exp", OP_exp, 0 },
    { "Log", OP_log, 0 },
    { "Erf", OP_erf, 0 },
    { "Sin", OP_sin, 0 },
    { "Cos", OP_cos, 0 },
    { "Tan", OP_tan, 0 },
    { "Asin", OP_asin, 0 },
    { "Acos", OP_acos, 0 },
    { "Atan", OP_atan, 0 },
    { "Sinh", OP_sinh, 0 },
    { "Cosh", OP_cosh, 0 },
    { "Tanh", OP_tanh, 0 },
    { "Asinh", OP_asinh, 0 },
    { "Acosh", OP_acosh, 0 },
    { "Atanh", OP_atanh, 0 },
    { "Relu", OP_relu, 0 },
    { "LeakyRelu", OP_leaky_relu, 0 },
    { "ThresholdedRelu", OP_thresholded_relu, 0 },
    { "Elu", OP_elu, 0 },
    { "Celu", OP_celu, 0 },
    { "Selu", OP_selu, 0 },
    { "Gelu", OP_gelu, convert_gelu, 0, "-approximate" },
    { "Sigmoid", OP_sigmoid, 0 },
    { "Swish", OP_swish, 0 },
    { "Mish", OP_mish, 0 },
    { "HardSigmoid", OP_hard_sigmoid, 0 },
    { "HardSwish", OP_hard_swish, 0 },
    { "Softplus", OP_softplus, 0 },
    { "Softsign", OP_softsign, 0 },
    { "Shrink", OP_shrink, convert_shrink },
    { "PRelu", OP_prelu, convert_prelu },
    { "Clip", OP_clip, convert_clip, "n12", "-min -max", "x ? low high",
      "$bounded? low = like($min:-0x1.fffffep127, x)\n"
      "$bounded? high = like($max:0x1.fffffep127, x)" },
    { "Add", OP_add, convert_pair, 0, "-axis -broadcast" },
    { "Sub", OP_sub, convert_pair, 0, "-axis -broadcast" },
    { "Mul", OP_mul, convert_pair, 0, "-axis -broadcast" },
    { "Div", OP_div, convert_pair, 0, "-axis -broadcast" },
    { "Mod", OP_mod, convert_mod, 0, "-fmod" },
    { "Pow", OP_pow, convert_pair, 0, "-axis -broadcast" },
    { "Min", OP_min, 0 },
    { "Max", OP_max, 0 },
    { "Sum", OP_sum, 0 },
    { "Mean", OP_mean, 0 },
    { "Equal", OP_equal, convert_compare, 0, "-axis -broadcast" },
    { "Less", OP_less, convert_pair, 0, "-axis -broadcast" },
    { "LessOrEqual", OP_less_or_equal, 0 },
    { "Greater", OP_greater, convert_pair, 0, "-axis -broadcast" },
    { "GreaterOrEqual", OP_greater_or_equal, 0 },
    { "IsNaN", OP_is_nan, 0 },
    { "IsInf", OP_is_inf, 0 },
    { "And", OP_and, convert_pair, 0, "-axis -broadcast" },
    { "Or", OP_or, convert_pair, 0, "-axis -broadcast" },
    { "Xor", OP_xor, convert_pair, 0, "-axis -broadcast" },
    { "Not", OP_not, 0 },
    { "BitwiseAnd", OP_bitwise_and, 0 },
    { "BitwiseOr", OP_bitwise_or, 0 },
    { "BitwiseXor", OP_bitwise_xor, 0 },
    { "BitwiseNot", OP_bitwise_not, 0 },
    { "BitShift", OP_shift_left, convert_shift, 0, "-direction" },
    { "Where", OP_where, 0 },
    { "Identity", OP_identity, 0 },
    { "Cast", OP_cast, convert_cast },
    { "CastLike", OP_cast, convert_cast_like },
    { "Dropout", OP_dropout, convert_dropout, "n12", "-ratio -seed -is_test" },
    { "ReduceSum", OP_reduce_sum, 0, "i1", "axes>1" },
    { "ReduceMean", OP_reduce_mean, 0, "i1", "axes>1" },
    { "ReduceProd", OP_reduce_prod, 0, "i1", "axes>1" },
    { "ReduceMax", OP_reduce_max, 0, "i1", "axes>1" },
    { "ReduceMin", OP_reduce_min, 0, "i1", "axes>1" },
    { "ReduceL1", OP_reduce_l1, 0, "i1", "axes>1" },
    { "ReduceL2", OP_reduce_l2, convert_axes_real, "i1", "axes>1" },
    { "ReduceSumSquare", OP_reduce_sum_square, 0, "i1", "axes>1" },
    { "ReduceLogSum", OP_reduce_log_sum, convert_axes_real, "i1", "axes>1" },
    { "ReduceLogSumExp", OP_reduce_log_sum_exp, convert_axes_real, "i1", "axes>1" },
    { "ArgMax", OP_arg_max, 0 },
    { "ArgMin", OP_arg_min, 0 },
    { "CumSum", OP_cum_sum, 0, "i1 n1" },
    { "MatMul", OP_matmul, 0 },
    { "MatMulInteger", OP_matmul_integer, 0 },
    { "Gemm", OP_gemm, 0, 0, "-broadcast" },
    { "Einsum", OP_einsum, 0 },
    { "Conv", OP_conv, 0 },
    { "ConvInteger", OP_conv_integer, 0 },
    { "ConvTranspose", OP_conv_transpose, 0 },
    { "MaxPool", OP_max_pool, convert_max_pool_places, 0, "-storage_order" },
    { "AveragePool", OP_average_pool, 0 },
    { "LpPool", OP_lp_pool, 0 },
    { "GlobalAveragePool", OP_global_average_pool, 0 },
    { "GlobalMaxPool", OP_global_max_pool, 0 },
    { "Softmax", OP_softmax, convert_softmax },
    { "LogSoftmax", OP_log_softmax, convert_softmax },
    { "Hardmax", OP_hardmax, convert_softmax },
    { "BatchNormalization", OP_batch_norm, convert_batch_norm, 0,
      "-training_mode -spatial -momentum -is_test" },
    { "InstanceNormalization", OP_instance_norm, 0 },
    { "GroupNormalization", OP_group_norm, convert_group_norm, 0, "-stash_type=1" },
    { "LayerNormalization", OP_layer_norm, 0, 0, "-stash_type=1" },
    { "RMSNormalization", OP_rms_norm, convert_rms_norm, 0, "-stash_type=1" },
    { "Det", OP_determinant, convert_det },
    { "LpNormalization", OP_lp_norm, 0 },
    { "LRN", OP_lrn, 0 },
    { "Attention", OP_attention, convert_attention, "i6", "-softmax_precision" },
    { "RotaryEmbedding", OP_rotary_embedding, 0, "i3" },
    { "LinearAttention", OP_linear_attention, 0 },
    { "CausalConvWithState", OP_causal_conv, 0 },
    { "TensorScatter", OP_tensor_scatter, 0, "i2" },
    { "SwiGLU", OP_swiglu, 0 },
    { "ai.onnx.preview.FlexAttention", OP_attention, convert_attention, 0, "-softmax_precision" },
    { "RNN", OP_NONE, convert_recurrent, "i4" },
    { "GRU", OP_NONE, convert_recurrent, "i4" },
    { "LSTM", OP_NONE, convert_recurrent, "i4" },
    { "GridSample", OP_grid_sample, convert_bilinear },
    { "AffineGrid", OP_affine_grid, 0, "i1 s1" },
    { "RoiAlign", OP_roi_align, convert_roi_align, "i2" },
    { "MaxRoiPool", OP_max_roi_pool, 0 },
    { "DeformConv", OP_deform_conv, 0 },
    { "Col2Im", OP_col2im, 0, "i12 s1 p2" },
    { "CenterCropPad", OP_center_crop_pad, 0, "i1 s1" },
    { "MaxUnpool", OP_max_unpool, 0, "i12 s2" },
    { "CumProd", OP_cum_prod, 0, "i1 n1" },
    { "DFT", OP_dft, convert_dft, "i12 n12 s1", "-axis" },
    { "STFT", OP_stft, 0, "i13 n13 p13" },
    { "HannWindow", OP_hann_window, 0, "i0 n0 s0", "=output_datatype" },
    { "HammingWindow", OP_hamming_window, 0, "i0 n0 s0", "=output_datatype" },
    { "BlackmanWindow", OP_blackman_window, 0, "i0 n0 s0", "=output_datatype" },
    { "MelWeightMatrix", OP_mel_weight_matrix, 0, "i012 n01234 s01", "=output_datatype" },
    { "NegativeLogLikelihoodLoss", OP_nll_loss, 0, "i1" },
    { "SoftmaxCrossEntropyLoss", OP_cross_entropy, 0, "i1" },
    { "Reshape", OP_reshape, 0, "i1", "shape>1" },
    { "Flatten", OP_flatten, 0 },
    { "Squeeze", OP_squeeze, 0, "i1", "axes>1" },
    { "Unsqueeze", OP_unsqueeze, 0, "i1", "axes>1" },
    { "Transpose", OP_transpose, 0 },
    { "Expand", OP_expand, 0, "i1" },
    { "Tile", OP_tile, 0, "i1 s1", "repeats>1" },
    { "Concat", OP_concat, 0 },
    { "Split", OP_split, convert_split, "i1 m1", "split>1 -num_outputs" },
    { "Slice", OP_slice, 0, "i1234", "starts>1 ends>2 axes>3" },
    { "Pad", OP_pad, convert_pad, "i13", "pads>1 -value" },
    { "DepthToSpace", OP_depth_to_space, 0 },
    { "SpaceToDepth", OP_space_to_depth, 0 },
    { "Trilu", OP_trilu, 0, "i1 n1" },
    { "ReverseSequence", OP_reverse_sequence, 0, "i1" },
    { "Gather", OP_gather, 0, "i1" },
    { "GatherElements", OP_gather_elements, 0, "i1" },
    { "GatherND", OP_gather_nd, 0, "i1" },
    { "Scatter", OP_scatter_elements, 0, "i1" },
    { "ScatterElements", OP_scatter_elements, 0, "i1" },
    { "ScatterND", OP_scatter_nd, 0, "i1" },
    { "OneHot", OP_one_hot, 0, "n1 s1" },
    { "Resize", OP_resize, convert_resize, "i3" },
    { "Upsample", OP_resize, convert_resize },
    { "Shape", OP_shape, 0 },
    { "Size", OP_size, 0 },
    { "Constant", OP_NONE, convert_constant },
    { "ConstantOfShape", OP_constant_of_shape, 0, "i0 s0" },
    { "Range", OP_range, 0, "n012" },
    { "EyeLike", OP_eye_like, 0, 0, "=dtype" },
    { "QuantizeLinear", OP_quantize_linear, convert_quantize, 0, "-saturate -precision" },
    { "DequantizeLinear", OP_dequantize_linear, convert_quantize, 0, "-saturate -precision" },
    { "DynamicQuantizeLinear", OP_dynamic_quantize_linear, 0 },
    { "NonZero", OP_NONE, convert_nonzero },
    { "Compress", OP_NONE, convert_compress },
    { "ImageDecoder", OP_image_points, convert_image_decoder },
    { "StringConcat", OP_string_concat, 0 },
    { "StringSplit", OP_string_split, convert_string_split },
    { "StringNormalizer", OP_string_normalize, convert_string_normalizer },
    { "RegexFullMatch", OP_regex_match, convert_regex_full_match },
    { "com.microsoft.Tokenizer", OP_tokenize, convert_tokenizer },
    { "TopK", OP_top_k, convert_top_k, "i1 n1" },
    { "NonMaxSuppression", OP_non_max_suppression, convert_non_max_suppression, "i2 n234" },
    { "Unique", OP_unique, convert_unique },
    { 0 },
};

static const OpRow *const tables[] = {
    rows,          composed_rows, packed_rows,   sparse_rows, quantised_rows, minor_rows,
    ml_rows_table, map_rows,      training_rows, random_rows, control_rows,   sequence_rows,
};

const OpRow *
op_row_at(uint32_t i)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const OpRow *row = tables[t]; row->onnx; row++)
            if (i-- == 0)
                return row;
    return NULL;
}

const OpRow *
op_row(Model *m, const char *onnx)
{
    uint64_t found = 0;

    if (!m->row.arena) {
        m->row.arena = m->arena;
        for (size_t t = sizeof tables / sizeof *tables; t-- > 0;)
            for (const OpRow *row = tables[t]; row->onnx; row++)
                map_put(&m->row, MAP_PTR(sym(m->c, row->onnx)), MAP_PTR(row));
    }
    map_get(&m->row, MAP_PTR(sym(m->c, onnx)), &found);
    return (const OpRow *)(uintptr_t)found;
}

bool
row_inputs(Call *k, const OpRow *row, InputFn *each)
{
    char what = 0;

    for (const char *s = row->inputs ? row->inputs : ""; *s; s++)
        if (!isdigit((unsigned char)*s))
            what = *s == ' ' ? what : *s;
        else if (!each(k, row, what, (uint32_t)(*s - '0')))
            return false;
    return true;
}

/* Converters cast integers, or read their contents as sizes, which would silently truncate
 * floats. */
static bool
is_as_described(Call *k, const OpRow *row, char what, uint32_t i)
{
    const Type *t = input_type(k, i);

    if (t && what == 'i' && !dtype_is_int(t->dtype))
        return call_wrong(k, "input %u of %s is %s, and has to be of integers; cast it to int64", i,
                          row->onnx, type_str(k->c, t));
    if (t && what == 'n')
        k->in.at[i] = list_of(k, k->in.at[i], 1, arena_printf(k->arena, "input %u, one number", i));
    return !t || k->in.at[i];
}

bool
inputs_checked(Call *k, const OpRow *row)
{
    return row_inputs(k, row, is_as_described);
}

bool
call_convert(Call *k, const OpRow *row)
{
    if (!read_attributes(k) || !attributes_changed(k, row))
        return false;
    if ((row->convert && !row->convert(k)) ||
        (row->text && !(call_names(k, row->names) && call_run(k, row->text))))
        return false;
    call_finish(k);
    return k->done || attributes_are_known(k, row);
}
