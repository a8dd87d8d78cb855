/* ops: ONNX's operators as Tenon's.
 *
 * One row per operator. A row without a converter has the same inputs and attributes in every
 * opset. opsets.c has converters; those of operators that Tenon does not have are in files by
 * topic.
 */
#include "import/converters.h"

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
    { "Gelu", OP_gelu, convert_gelu },
    { "Sigmoid", OP_sigmoid, 0 },
    { "Swish", OP_swish, 0 },
    { "Mish", OP_mish, 0 },
    { "HardSigmoid", OP_hard_sigmoid, 0 },
    { "HardSwish", OP_hard_swish, 0 },
    { "Softplus", OP_softplus, 0 },
    { "Softsign", OP_softsign, 0 },
    { "Shrink", OP_shrink, convert_shrink },
    { "PRelu", OP_prelu, convert_prelu },
    { "Clip", OP_clip, convert_clip },
    { "Add", OP_add, convert_pair },
    { "Sub", OP_sub, convert_pair },
    { "Mul", OP_mul, convert_pair },
    { "Div", OP_div, convert_pair },
    { "Mod", OP_mod, convert_mod },
    { "Pow", OP_pow, convert_pair },
    { "Min", OP_min, 0 },
    { "Max", OP_max, 0 },
    { "Sum", OP_sum, 0 },
    { "Mean", OP_mean, 0 },
    { "Equal", OP_equal, convert_compare },
    { "Less", OP_less, convert_pair },
    { "LessOrEqual", OP_less_or_equal, 0 },
    { "Greater", OP_greater, convert_pair },
    { "GreaterOrEqual", OP_greater_or_equal, 0 },
    { "IsNaN", OP_is_nan, 0 },
    { "IsInf", OP_is_inf, 0 },
    { "And", OP_and, convert_pair },
    { "Or", OP_or, convert_pair },
    { "Xor", OP_xor, convert_pair },
    { "Not", OP_not, 0 },
    { "BitwiseAnd", OP_bitwise_and, 0 },
    { "BitwiseOr", OP_bitwise_or, 0 },
    { "BitwiseXor", OP_bitwise_xor, 0 },
    { "BitwiseNot", OP_bitwise_not, 0 },
    { "BitShift", OP_shift_left, convert_shift },
    { "Where", OP_where, 0 },
    { "Identity", OP_identity, 0 },
    { "Cast", OP_cast, convert_cast },
    { "CastLike", OP_cast, convert_cast_like },
    { "Dropout", OP_dropout, convert_dropout },
    { "ReduceSum", OP_reduce_sum, convert_axes },
    { "ReduceMean", OP_reduce_mean, convert_axes },
    { "ReduceProd", OP_reduce_prod, convert_axes },
    { "ReduceMax", OP_reduce_max, convert_axes },
    { "ReduceMin", OP_reduce_min, convert_axes },
    { "ReduceL1", OP_reduce_l1, convert_axes },
    { "ReduceL2", OP_reduce_l2, convert_axes_real },
    { "ReduceSumSquare", OP_reduce_sum_square, convert_axes },
    { "ReduceLogSum", OP_reduce_log_sum, convert_axes_real },
    { "ReduceLogSumExp", OP_reduce_log_sum_exp, convert_axes_real },
    { "ArgMax", OP_arg_max, 0 },
    { "ArgMin", OP_arg_min, 0 },
    { "CumSum", OP_cum_sum, 0 },
    { "MatMul", OP_matmul, 0 },
    { "MatMulInteger", OP_matmul_integer, 0 },
    { "Gemm", OP_gemm, convert_gemm },
    { "Einsum", OP_einsum, 0 },
    { "Conv", OP_conv, 0 },
    { "ConvInteger", OP_conv_integer, 0 },
    { "ConvTranspose", OP_conv_transpose, 0 },
    { "MaxPool", OP_max_pool, convert_max_pool },
    { "AveragePool", OP_average_pool, 0 },
    { "LpPool", OP_lp_pool, 0 },
    { "GlobalAveragePool", OP_global_average_pool, 0 },
    { "GlobalMaxPool", OP_global_max_pool, 0 },
    { "Softmax", OP_softmax, convert_softmax },
    { "LogSoftmax", OP_log_softmax, convert_softmax },
    { "Hardmax", OP_hardmax, convert_softmax },
    { "BatchNormalization", OP_batch_norm, convert_batch_norm },
    { "InstanceNormalization", OP_instance_norm, 0 },
    { "GroupNormalization", OP_group_norm, convert_group_norm },
    { "LayerNormalization", OP_layer_norm, convert_norm },
    { "RMSNormalization", OP_rms_norm, convert_rms_norm },
    { "Det", OP_determinant, convert_det },
    { "LpNormalization", OP_lp_norm, 0 },
    { "LRN", OP_lrn, 0 },
    { "Attention", OP_attention, convert_attention },
    { "RotaryEmbedding", OP_rotary_embedding, 0 },
    { "LinearAttention", OP_linear_attention, 0 },
    { "CausalConvWithState", OP_causal_conv, 0 },
    { "TensorScatter", OP_tensor_scatter, 0 },
    { "SwiGLU", OP_swiglu, 0 },
    { "ai.onnx.preview.FlexAttention", OP_attention, convert_attention },
    { "RNN", OP_NONE, convert_recurrent },
    { "GRU", OP_NONE, convert_recurrent },
    { "LSTM", OP_NONE, convert_recurrent },
    { "GridSample", OP_grid_sample, convert_bilinear },
    { "AffineGrid", OP_affine_grid, 0 },
    { "RoiAlign", OP_roi_align, convert_roi_align },
    { "MaxRoiPool", OP_max_roi_pool, 0 },
    { "DeformConv", OP_deform_conv, 0 },
    { "Col2Im", OP_col2im, 0 },
    { "CenterCropPad", OP_center_crop_pad, 0 },
    { "MaxUnpool", OP_max_unpool, 0 },
    { "CumProd", OP_cum_prod, 0 },
    { "DFT", OP_dft, convert_dft },
    { "STFT", OP_stft, 0 },
    { "HannWindow", OP_hann_window, convert_window },
    { "HammingWindow", OP_hamming_window, convert_window },
    { "BlackmanWindow", OP_blackman_window, convert_window },
    { "MelWeightMatrix", OP_mel_weight_matrix, convert_window },
    { "NegativeLogLikelihoodLoss", OP_nll_loss, 0 },
    { "SoftmaxCrossEntropyLoss", OP_cross_entropy, 0 },
    { "Reshape", OP_reshape, convert_reshape },
    { "Flatten", OP_flatten, 0 },
    { "Squeeze", OP_squeeze, convert_axes },
    { "Unsqueeze", OP_unsqueeze, convert_axes },
    { "Transpose", OP_transpose, 0 },
    { "Expand", OP_expand, 0 },
    { "Tile", OP_tile, convert_tile },
    { "Concat", OP_concat, 0 },
    { "Split", OP_split, convert_split },
    { "Slice", OP_slice, convert_slice },
    { "Pad", OP_pad, convert_pad },
    { "DepthToSpace", OP_depth_to_space, 0 },
    { "SpaceToDepth", OP_space_to_depth, 0 },
    { "Trilu", OP_trilu, 0 },
    { "ReverseSequence", OP_reverse_sequence, 0 },
    { "Gather", OP_gather, 0 },
    { "GatherElements", OP_gather_elements, 0 },
    { "GatherND", OP_gather_nd, 0 },
    { "Scatter", OP_scatter_elements, 0 },
    { "ScatterElements", OP_scatter_elements, 0 },
    { "ScatterND", OP_scatter_nd, 0 },
    { "OneHot", OP_one_hot, 0 },
    { "Resize", OP_resize, convert_resize },
    { "Upsample", OP_resize, convert_resize },
    { "Shape", OP_shape, 0 },
    { "Size", OP_size, 0 },
    { "Constant", OP_NONE, convert_constant },
    { "ConstantOfShape", OP_constant_of_shape, 0 },
    { "Range", OP_range, 0 },
    { "EyeLike", OP_eye_like, convert_eye_like },
    { "QuantizeLinear", OP_quantize_linear, convert_quantize },
    { "DequantizeLinear", OP_dequantize_linear, convert_quantize },
    { "DynamicQuantizeLinear", OP_dynamic_quantize_linear, 0 },
    { "NonZero", OP_NONE, convert_nonzero },
    { "Compress", OP_NONE, convert_compress },
    { "ImageDecoder", OP_image_points, convert_image_decoder },
    { "StringConcat", OP_string_concat, 0 },
    { "StringSplit", OP_string_split, convert_string_split },
    { "StringNormalizer", OP_string_normalize, convert_string_normalizer },
    { "RegexFullMatch", OP_regex_match, convert_regex_full_match },
    { "com.microsoft.Tokenizer", OP_tokenize, convert_tokenizer },
    { "TopK", OP_top_k, convert_top_k },
    { "NonMaxSuppression", OP_non_max_suppression, convert_non_max_suppression },
    { "Unique", OP_unique, convert_unique },
    { 0 },
};

static const OpRow *const tables[] = {
    rows,       composed_rows, packed_rows, sparse_rows,   quantised_rows,
    minor_rows, ml_rows_table, map_rows,    training_rows, random_rows,
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
call_convert(Call *k, const OpRow *row)
{
    if (!read_attributes(k))
        return false;
    call_drop(k, "consumed_inputs");
    if (row->convert && !row->convert(k))
        return false;
    return k->done || attributes_are_known(k, row);
}
