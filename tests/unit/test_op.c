/* op: the shape rule, the symbolic contents and the expansion of every operator, from a table.
 *
 * A row gives input types, with contents where a rule reads them, attributes, and what must come
 * out: types, then contents of output 0 and recorded constraints where there are any; or part of
 * the error. Every row that infers must also expand into nests that verify, and every operator of
 * ops.def must have a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "op/kinds.h"
#include "text/text.h"

typedef struct {
    const char *op, *in, *attrs;
    uint32_t nout;
    /* types; `= [contents]`; `where a == b`; or `error: part of it` */
    const char *expected;
} Row;

static const Row row[] = {
    /* elementwise: broadcasting */
    { "relu", "f32[batch, 3]", "", 1, "f32[batch, 3]" },
    { "relu", "bool[3]", "", 1, "error: must be numbers" },
    { "exp", "i32[3]", "", 1, "error: must be floats" },
    { "add", "f32[batch, 3]; f32[3]", "", 1, "f32[batch, 3]" },
    { "add", "f32[batch, 1, 3]; f32[seq, 1]", "", 1, "f32[batch, seq, 3]" },
    { "add", "f32[4, 3]; f32[5, 3]", "", 1,
      "error: axis 0 of the broadcast shape and axis 0 of input 1 differ: 4 and 5" },
    { "add", "f32[n]; f32[m]", "", 1, "f32[broadcast(m, n)] where n == m, or one of them is 1" },
    { "add", "f32[n]; f32[n + m]", "", 1,
      "f32[broadcast(m + n, n)] where n == m + n, or one of them is 1" },
    { "add", "f32[3]; f32[n]", "", 1, "f32[3] where n == 3, or n == 1" },
    { "add", "f32[n]; f32[0]", "", 1, "f32[0] where n == 0, or n == 1" },
    { "add", "f32[n + 2]; f32[m]", "", 1, "f32[n + 2] where m == n + 2, or m == 1" },
    { "add", "f32[min(n, 1)]; f32[m]", "", 1,
      "f32[m*min(n, 1)] where min(n, 1) == m, or one of them is 1" },
    { "where", "bool[n]; f32[m]; f32[n]", "", 1,
      "f32[broadcast(m, n)] where n == m, or one of them is 1" },
    { "max", "f32[n]; f32[m]; f32[k]", "", 1,
      "f32[broadcast(k, m, n)] where n == m, or one of them is 1 where n == k, or one of them is 1 "
      "where m == k, or one of them is 1" },
    { "expand", "f32[n]; i64[1] = [6]", "", 1, "f32[6] where n == 6, or n == 1" },
    { "expand", "f32[m]; i64[1] = [min(n, 1)]", "", 1,
      "f32[m*min(n, 1)] where m == min(n, 1), or one of them is 1" },
    { "gemm", "f32[n, 3]; f32[3, 4]; f32[m, 4]", "", 1, "f32[n, 4] where m == n, or m == 1" },
    { "add", "f32[n]; i64[n]", "", 1, "error: one element type" },
    { "add", "f32[1, min(seq, 512), 768]; f32[batch, seq, 768]", "", 1,
      "f32[batch, seq, 768] where min(seq, 512) == seq" },
    { "add", "i64[2] = [n, 3]; i64[2] = [1, m]", "", 1, "i64[2] = [n + 1, m + 3]" },
    { "add", "f32[2]; f32[2]; f32[2]", "", 1, "error: has 3 inputs, 2 are needed" },
    { "add", "f32[2]; f32[2]", "alpha = 1", 1, "error: attribute \"alpha\" is unknown" },
    { "mul", "i64[1] = [n]; i64[1] = [4]", "", 1, "i64[1] = [4*n]" },
    { "div", "i64[1] = [n]; i64[1] = [2]", "", 1, "i64[1] = [n // 2]" },
    { "div", "i64[1] = [n - 5]; i64[1] = [2]", "", 1, "i64[1]" },
    { "sub", "i64[] = [n]; i64[] = [1]", "", 1, "i64[] = [n - 1]" },
    { "mod", "i64[1] = [n]; i64[1] = [8]", "", 1, "i64[1] = [n % 8]" },
    { "fmod", "f32[2]; f32[2]", "", 1, "f32[2]" },
    { "pow", "f16[n]; i32[]", "", 1, "f16[n]" },
    { "atan2", "f32[n]; f32[n]", "", 1, "f32[n]" },
    { "min", "i64[1] = [n]; i64[1] = [512]; i64[1] = [600]", "", 1, "i64[1] = [min(n, 512)]" },
    { "max", "f16[n, 1]; f16[m]", "", 1, "f16[n, m]" },
    { "sum", "f32[n]; f32[1]; f32[]", "", 1, "f32[n]" },
    { "mean", "f32[n]; f32[n]", "", 1, "f32[n]" },
    { "prelu", "f32[n, c, h]; f32[c, 1]", "", 1, "f32[n, c, h]" },
    { "clip", "f32[n]; f32[]; f32[]", "", 1, "f32[n]" },
    { "clip", "f32[n]; _; f32[]", "", 1, "f32[n]" },
    { "clip", "f32[n]; f32[2]", "", 1, "error: one element" },
    { "equal", "i64[2] = [batch, 3]; i64[2] = [-1, 3]", "", 1, "bool[2] = [0, 1]" },
    { "equal", "i64[1] = [batch]; i64[1] = [7]", "", 1, "bool[1]" },
    { "less", "f32[n]; f32[]", "", 1, "bool[n]" },
    { "less_or_equal", "i64[1] = [n]; i64[1] = [n]", "", 1, "bool[1] = [1]" },
    { "greater", "i64[1] = [n]; i64[1] = [-1]", "", 1, "bool[1] = [1]" },
    { "greater_or_equal", "f32[n]; f32[n]", "", 1, "bool[n]" },
    { "and", "bool[n]; bool[1]", "", 1, "bool[n]" },
    { "or", "bool[n]; bool[n]", "", 1, "bool[n]" },
    { "xor", "bool[n]; f32[n]", "", 1, "error: must be bool" },
    { "xor", "bool[1] = [1]; bool[1] = [1]", "", 1, "bool[1] = [0]" },
    { "not", "bool[1] = [1]", "", 1, "bool[1] = [0]" },
    { "bitwise_and", "u8[n]; u8[n]", "", 1, "u8[n]" },
    { "bitwise_or", "i32[n]; i32[n]", "", 1, "i32[n]" },
    { "bitwise_xor", "i32[n]; i32[n]", "", 1, "i32[n]" },
    { "bitwise_not", "i32[n]", "", 1, "i32[n]" },
    { "shift_left", "u32[n]; u32[]", "", 1, "u32[n]" },
    { "shift_right", "u32[n]; u32[]", "", 1, "u32[n]" },
    { "shift_right", "i32[n]; i32[]", "", 1, "i32[n]" },
    { "shift_left", "f32[n]; f32[]", "", 1, "error: must be integers" },
    { "is_nan", "f16[n]", "", 1, "bool[n]" },
    { "is_inf", "f32[n]", "detect_negative = 0", 1, "bool[n]" },
    { "where", "bool[n, 1]; f32[]; f32[m]", "", 1, "f32[n, m]" },
    { "where", "bool[2] = [1, 0]; i64[2] = [1, 1]; i64[2] = [batch, seq]", "", 1,
      "i64[2] = [1, seq]" },
    { "identity", "bool[n]", "", 1, "bool[n]" },
    { "cast", "f32[n]", "to = \"i64\"", 1, "i64[n]" },
    { "cast", "f32[n]", "to = \"f8\"", 1, "error: \"f8\"" },
    { "cast", "i64[1] = [n]", "to = \"i32\"", 1, "i32[1] = [n]" },
    { "cast", "i64[1] = [n]", "to = \"u8\"", 1, "u8[1]" },
    { "dropout", "f32[n]", "", 2, "f32[n]; bool[n]" },
    { "dropout", "f32[n]; f32[]; bool[] = [1]", "", 1, "error: only inference" },
    { "abs", "i32[n]", "", 1, "i32[n]" },
    { "neg", "i64[1] = [n]", "", 1, "i64[1] = [-n]" },
    { "sign", "f32[n]", "", 1, "f32[n]" },
    { "ceil", "f32[n]", "", 1, "f32[n]" },
    { "floor", "f32[n]", "", 1, "f32[n]" },
    { "round", "f32[n]", "", 1, "f32[n]" },
    { "reciprocal", "f16[n]", "", 1, "f16[n]" },
    { "sqrt", "f32[n]", "", 1, "f32[n]" },
    { "exp", "bf16[n]", "", 1, "bf16[n]" },
    { "log", "f32[n]", "", 1, "f32[n]" },
    { "erf", "f32[n]", "", 1, "f32[n]" },
    { "sin", "f32[n]", "", 1, "f32[n]" },
    { "cos", "f32[n]", "", 1, "f32[n]" },
    { "tan", "f32[n]", "", 1, "f32[n]" },
    { "asin", "f32[n]", "", 1, "f32[n]" },
    { "acos", "f32[n]", "", 1, "f32[n]" },
    { "atan", "f32[n]", "", 1, "f32[n]" },
    { "sinh", "f32[n]", "", 1, "f32[n]" },
    { "cosh", "f32[n]", "", 1, "f32[n]" },
    { "tanh", "f64[n]", "", 1, "f64[n]" },
    { "asinh", "f32[n]", "", 1, "f32[n]" },
    { "acosh", "f32[n]", "", 1, "f32[n]" },
    { "atanh", "f32[n]", "", 1, "f32[n]" },
    { "leaky_relu", "f32[n]", "alpha = 0.1", 1, "f32[n]" },
    { "thresholded_relu", "f32[n]", "", 1, "f32[n]" },
    { "elu", "f32[n]", "", 1, "f32[n]" },
    { "celu", "f32[n]", "", 1, "f32[n]" },
    { "selu", "f16[n]", "", 1, "f16[n]" },
    { "gelu", "f32[n]", "", 1, "f32[n]" },
    { "gelu_tanh", "f32[n]", "", 1, "f32[n]" },
    { "sigmoid", "f32[n]", "", 1, "f32[n]" },
    { "swish", "f32[n]", "", 1, "f32[n]" },
    { "mish", "f32[n]", "", 1, "f32[n]" },
    { "hard_sigmoid", "f32[n]", "", 1, "f32[n]" },
    { "hard_swish", "f32[n]", "", 1, "f32[n]" },
    { "softplus", "f32[n]", "", 1, "f32[n]" },
    { "softsign", "f32[n]", "", 1, "f32[n]" },
    { "shrink", "f32[n]", "lambd = 1.5", 1, "f32[n]" },

    /* reductions */
    { "reduce_sum", "f32[n, 4, m]; i64[1] = [-1]", "keepdims = 0", 1, "f32[n, 4]" },
    { "reduce_sum", "f32[n, 4]", "", 1, "f32[1, 1]" },
    { "reduce_sum", "f32[n, 4]", "noop_with_empty_axes = 1", 1, "f32[n, 4]" },
    { "reduce_sum", "f32[n, 4]; i64[1] = [2]", "", 1,
      "error: an entry of axes is 2, outside [-2, 2)" },
    { "reduce_sum", "f32[n, 4]; i64[1]", "", 1,
      "error: input 1 (axes), i64[1], must be computable" },
    { "reduce_prod", "i64[2] = [batch, 3]", "keepdims = 0", 1, "i64[] = [3*batch]" },
    { "reduce_max", "i64[2] = [n, 3]", "", 1, "i64[1] = [max(n, 3)]" },
    { "reduce_min", "f16[n, 4]; i64[1] = [0]", "", 1, "f16[1, 4]" },
    { "reduce_mean", "f32[n, 197, 768]; i64[1] = [1]", "keepdims = 0", 1, "f32[n, 768]" },
    { "reduce_l1", "f32[n]", "", 1, "f32[1]" },
    { "reduce_l2", "f32[n]", "", 1, "f32[1]" },
    { "reduce_sum_square", "f32[n]", "", 1, "f32[1]" },
    { "reduce_log_sum", "f32[n]", "", 1, "f32[1]" },
    { "reduce_log_sum_exp", "f32[n, m]; i64[1] = [1]", "", 1, "f32[n, 1]" },
    { "arg_max", "f32[n, m]", "axis = 1, keepdims = 0", 1, "i64[n] where min(n, 1) <= m" },
    { "arg_min", "f32[n, m]", "select_last_index = 1", 1, "i64[1, m] where min(m, 1) <= n" },
    { "cum_sum", "f32[n, m]; i64[] = [1]", "reverse = 1, exclusive = 1", 1, "f32[n, m]" },
    { "cum_sum", "f16[n, m]; i64[] = [0]", "", 1, "f16[n, m]" },
    { "cum_sum", "i64[n]; i64[] = [0]", "exclusive = 1", 1, "i64[n]" },

    /* contractions */
    { "matmul", "f32[batch, 4]; f32[4, 2]", "", 1, "f32[batch, 2]" },
    { "matmul", "f32[b, 12, s, 64]; f32[b, 12, 64, s]", "", 1, "f32[b, 12, s, s]" },
    { "matmul", "f32[b, s, 64]; f32[64, 8]", "", 1, "f32[b, s, 8]" },
    { "matmul", "f32[4]; f32[4]", "", 1, "f32[]" },
    { "matmul", "f32[4]; f32[b, 4, 2]", "", 1, "f32[b, 2]" },
    { "matmul", "f16[b, 3, 4]; f16[4]", "", 1, "f16[b, 3]" },
    { "matmul", "f32[3, 32]; f32[64, 5]", "", 1,
      "error: inner extents of f32[3, 32] and f32[64, 5] differ: 32 and 64" },
    { "matmul", "f32[3, n]; f32[64, 5]", "", 1, "f32[3, 5] where n == 64" },
    { "matmul_integer", "u8[n, 4]; i8[4, 3]; u8[]; i8[3]", "", 1, "i32[n, 3]" },
    { "gemm", "f32[n, 4]; f32[8, 4]; f32[8]", "transB = 1", 1, "f32[n, 8]" },
    { "gemm", "f32[4, n]; f32[4, 8]; f32[n, 1]", "transA = 1, alpha = 0.5, beta = 2.0", 1,
      "f32[n, 8]" },
    { "gemm", "f32[n, 4]; f32[8, 4]", "", 1, "error: inner extents" },
    { "gemm", "f32[n, 4]; f32[4, 8]; f32[7]", "", 1,
      "error: axis 0 of input 2 and axis 1 of the product differ: 7 and 8" },
    { "einsum", "f32[b, i, j]; f32[b, j, k]", "equation = \"bij,bjk->bik\"", 1, "f32[b, i, k]" },
    { "einsum", "f32[b, h, 4, 5]; f32[b, h, 5, 6]", "equation = \"...ij,...jk->...ik\"", 1,
      "f32[b, h, 4, 6]" },
    { "einsum", "f32[n, m]", "equation = \"ij->ji\"", 1, "f32[m, n]" },
    { "einsum", "f32[n, n]", "equation = \"ii\"", 1, "f32[]" },
    { "einsum", "f32[n, m]; f32[m]", "equation = \"ij,j,k->i\"", 1, "error: more terms" },

    /* windows */
    { "conv", "f32[n, 3, 224, 224]; f32[64, 3, 7, 7]; f32[64]",
      "strides = [2, 2], pads = [3, 3, 3, 3]", 1, "f32[n, 64, 112, 112]" },
    { "conv", "f32[n, 3, h, w]; f32[64, 3, 3, 3]", "pads = [1, 1, 1, 1], strides = [2, 2]", 1,
      "f32[n, 64, (h + 1) // 2, (w + 1) // 2]" },
    { "conv", "f32[n, 32, h, h]; f32[32, 1, 3, 3]", "group = 32, pads = [1, 1, 1, 1]", 1,
      "f32[n, 32, h, h]" },
    { "conv", "f32[n, 32, 9, 9]; f32[64, 8, 3, 3]", "group = 4", 1, "f32[n, 64, 7, 7]" },
    { "conv", "f32[n, 3, h, w]; f32[8, 3, 3, 3]", "auto_pad = \"SAME_UPPER\", strides = [2, 2]", 1,
      "f32[n, 8, (h + 1) // 2, (w + 1) // 2]" },
    { "conv", "f32[n, 3, 9]; f32[8, 3, 3]", "dilations = [2]", 1, "f32[n, 8, 5]" },
    { "conv", "f32[n, 3, 9, 9]; f32[8, 4, 3, 3]", "", 1, "error: channels of the input" },
    { "conv", "f32[n, 3, 9, 9]; f32[8, 3, 3, 3]", "dilations = [1, 1, 1]", 1,
      "error: \"dilations\" has 3 entries, 2 are needed" },
    { "conv", "f32[n, 3, 2, 2]; f32[8, 3, 3, 3]", "", 1,
      "error: reaches over 3 elements of axis 2, which has 2" },
    { "conv_integer", "u8[n, 3, 9, 9]; i8[8, 3, 3, 3]; u8[] = [128]; i8[8]", "pads = [1, 1, 1, 1]",
      1, "i32[n, 8, 9, 9]" },
    { "conv_transpose", "f32[n, 8, h, w]; f32[8, 4, 2, 2]", "strides = [2, 2]", 1,
      "f32[n, 4, 2*h, 2*w]" },
    { "conv_transpose", "f32[n, 8, 5, 5]; f32[8, 2, 3, 3]; f32[4]",
      "strides = [2, 2], group = 2, pads = [1, 1, 1, 1], output_padding = [1, 1]", 1,
      "f32[n, 4, 10, 10]" },
    { "conv_transpose", "f32[n, 8, 5]; f32[8, 2, 3]", "dilations = [2], strides = [2]", 1,
      "f32[n, 2, 13]" },
    { "max_pool", "f32[n, 64, 112, 112]",
      "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", 1, "f32[n, 64, 56, 56]" },
    { "max_pool", "f32[n, 64, 111, 111]", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1",
      1, "f32[n, 64, 55, 55]" },
    { "max_pool", "f32[n, 64, 4]", "kernel_shape = [1], strides = [2], ceil_mode = 1", 1,
      "f32[n, 64, 2]" },
    { "max_pool", "f32[n, 64, 2]", "kernel_shape = [3], strides = [3], ceil_mode = 1", 1,
      "f32[n, 64, 1]" },
    { "average_pool", "f32[n, c, 8, 8]",
      "kernel_shape = [2, 2], pads = [1, 1, 1, 1], strides = [2, 2], ceil_mode = 1", 1,
      "f32[n, c, 5, 5]" },
    { "average_pool", "f32[n, c, 8]", "kernel_shape = [3], pads = [1, 1], count_include_pad = 1", 1,
      "f32[n, c, 8]" },
    { "average_pool", "f32[n, c, 8]", "", 1, "error: \"kernel_shape\" is missing" },
    { "lp_pool", "f32[n, c, 8]", "kernel_shape = [2], p = 3", 1, "f32[n, c, 7]" },
    { "global_average_pool", "f32[n, c, h, w]", "", 1, "f32[n, c, 1, 1]" },
    { "global_max_pool", "f16[n, c, h]", "", 1, "f16[n, c, 1]" },

    /* normalisation */
    { "softmax", "f32[b, 12, s, s]", "", 1, "f32[b, 12, s, s]" },
    { "log_softmax", "f16[n, 10]", "axis = 0", 1, "f16[n, 10]" },
    { "hardmax", "f32[n, 10]", "", 1, "f32[n, 10]" },
    { "softmax", "i32[n]", "", 1, "error: must be floats" },
    { "batch_norm", "f32[n, 8, h, w]; f32[8]; f32[8]; f32[8]; f32[8]", "", 1, "f32[n, 8, h, w]" },
    { "batch_norm", "f32[n, 8, h]; f32[8]; f32[9]; f32[8]; f32[8]", "", 1,
      "error: differ: 9 and 8" },
    { "instance_norm", "f32[n, 8, h, w]; f32[8]; f32[8]", "", 1, "f32[n, 8, h, w]" },
    { "group_norm", "f16[n, 8, h, w]; f16[8]; f16[8]", "num_groups = 4", 1, "f16[n, 8, h, w]" },
    { "group_norm", "f32[n, 8, h, w]; f32[8]; f32[8]", "num_groups = 3", 1,
      "error: cannot be split into 3 groups" },
    { "layer_norm", "f32[b, s, 768]; f32[768]; f32[768]", "epsilon = 0.001", 1, "f32[b, s, 768]" },
    { "layer_norm", "f16[b, s, 768]; f16[768]", "axis = 1", 3,
      "f16[b, s, 768]; f32[b, 1, 1]; f32[b, 1, 1]" },
    { "rms_norm", "f32[b, s, 64]; f32[64]", "", 1, "f32[b, s, 64]" },
    { "lp_norm", "f32[b, s]", "p = 1", 1, "f32[b, s]" },
    { "lrn", "f32[n, 8, h, w]", "size = 5", 1, "f32[n, 8, h, w]" },

    /* products of quantised numbers */
    { "requantize_linear", "i32[n, 8, h]; f32[]; f32[8]; f32[]; u8[]", "axis = 1", 1,
      "u8[n, 8, h]" },
    { "requantize_linear", "i32[n, 8]; f32[]; f32[7]; f32[]", "", 1,
      "error: the extent of input 2 and of its axis differ: 7 and 8" },
    { "matmul_nbits", "f32[b, s, 64]; u8[10, 2, 16]; f32[20]; u8[10]", "K = 64, N = 10", 1,
      "f32[b, s, 10]" },
    { "matmul_nbits", "f32[b, 48]; u8[10, 3, 16]; f32[10, 3]; _; _; f32[10]",
      "K = 48, N = 10, bits = 8, block_size = 16", 1, "f32[b, 10]" },
    { "matmul_nbits", "f32[b, 64]; u8[10, 2, 16]; f32[10]", "K = 64, N = 10", 1,
      "error: the number of scales and of blocks differ: 10 and 20" },

    /* attention and its relatives */
    { "attention", "f32[b, 8, s, 64]; f32[b, 2, t, 64]; f32[b, 2, t, 32]", "", 1,
      "f32[b, 8, s, 32]" },
    { "attention",
      "f16[b, s, 512]; f16[b, t, 128]; f16[b, t, 128]; bool[s, t + p]; f16[b, 2, p, 64]; f16[b, 2, "
      "p, 64]",
      "q_num_heads = 8, kv_num_heads = 2, is_causal = 1", 4,
      "f16[b, s, 512]; f16[b, 2, p + t, 64]; f16[b, 2, p + t, 64]; f16[b, 8, s, p + t]" },
    { "attention", "f32[b, 8, s, 64]; f32[b, 3, s, 64]; f32[b, 3, s, 64]", "", 1,
      "error: 8 heads of q cannot share 3 heads of k" },
    { "attention", "f32[b, s, 64]; f32[b, s, 64]; f32[b, s, 64]", "", 1,
      "error: need the number of heads" },
    { "rotary_embedding", "f32[b, h, s, 64]; f32[512, 32]; f32[512, 32]; i64[b, s]", "", 1,
      "f32[b, h, s, 64]" },
    { "rotary_embedding", "f32[b, h, s, 64]; f32[512, 32]; f32[512, 32]; i64[1, s]", "", 1,
      "f32[b, h, s, 64]" },
    { "rotary_embedding", "f32[4, h, s, 64]; f32[512, 32]; f32[512, 32]; i64[3, s]", "", 1,
      "error: axis 0 of input 3 and the batch of what is turned differ: 3 and 4" },
    { "rotary_embedding", "f32[4, h, 7, 64]; f32[4, 6, 32]; f32[4, 6, 32]", "", 1,
      "error: axis 1 of input 1 and tokens of what is turned differ: 6 and 7" },
    { "rotary_embedding", "f32[b, s, 128]; f32[b, s, 8]; f32[b, s, 8]",
      "num_heads = 4, rotary_embedding_dim = 16, interleaved = 1", 1, "f32[b, s, 128]" },
    { "rotary_embedding", "f32[b, h, s, 64]; f32[b, s, 16]; f32[b, s, 16]", "", 1,
      "error: half the rotated size differ: 16 and 32" },
    { "linear_attention",
      "f32[b, t, 16]; f32[b, t, 8]; f32[b, t, 12]; _; f32[b, t, 2]; f32[b, t, 2]",
      "q_num_heads = 4, kv_num_heads = 2", 2, "f32[b, t, 24]; f32[b, 2, 4, 6]" },
    { "linear_attention", "f32[b, t, 16]; f32[b, t, 8]; f32[b, t, 12]",
      "q_num_heads = 4, kv_num_heads = 2", 1, "error: needs a decay and needs a beta" },
    { "causal_conv", "f32[b, c, l]; f32[c, 1, 4]; f32[c]", "activation = \"silu\"", 2,
      "f32[b, c, l]; f32[b, c, 3]" },
    { "tensor_scatter", "f32[b, h, m, d]; f32[b, h, 4, d]; i64[b]", "mode = \"circular\"", 1,
      "f32[b, h, m, d]" },
    { "tensor_scatter", "f32[b, 4, d]; f32[b, 5, d]", "", 1,
      "error: an update of 5 rows does not fit a cache of 4" },
    { "swiglu", "f32[n, d]; f32[n, d]", "", 1, "f32[n, d]" },

    /* images and signals */
    { "grid_sample", "f32[n, c, h, w]; f32[n, p, q, 2]", "padding_mode = \"reflection\"", 1,
      "f32[n, c, p, q]" },
    { "grid_sample", "f32[n, c, d, h, w]; f32[n, e, p, q, 3]",
      "mode = \"cubic\", align_corners = 1", 1, "f32[n, c, e, p, q]" },
    { "grid_sample", "f32[n, c, h, w]; f32[n, p, q, 3]", "", 1,
      "error: the number of spatial axes differ: 3 and 2" },
    { "affine_grid", "f32[n, 2, 3]; i64[4] = [n, 3, h, w]", "", 1, "f32[n, h, w, 2]" },
    { "roi_align", "f32[n, c, h, w]; f32[r, 4]; i64[r]",
      "output_height = 7, output_width = 5, spatial_scale = 0.25", 1, "f32[r, c, 7, 5]" },
    { "roi_align", "f32[n, c, h, w]; f32[r, 5]; i64[r]", "", 1,
      "error: axis 1 of input 1 (regions) and 4 differ: 5 and 4" },
    { "max_roi_pool", "f32[n, c, h, w]; f32[r, 5]", "pooled_shape = [7, 5], spatial_scale = 0.25",
      1, "f32[r, c, 7, 5]" },
    { "max_roi_pool", "f32[n, c, h, w]; f32[r, 4]", "pooled_shape = [7, 5]", 1,
      "error: axis 1 of input 1 (regions) and 5 differ: 4 and 5" },
    { "max_roi_pool", "f32[n, c, h, w]; f32[r, 5]", "pooled_shape = [7]", 1,
      "error: two numbers above 0" },
    { "deform_conv", "f32[n, 4, h, w]; f32[6, 2, 3, 3]; f32[n, 18, h, w]; f32[6]",
      "group = 2, pads = [1, 1, 1, 1]", 1, "f32[n, 6, h, w]" },
    { "col2im", "f32[n, 18, 12]; i64[2] = [5, 6]; i64[2] = [2, 3]", "", 1,
      "error: axis 2 of input 0 and the number of blocks differ: 12 and 16" },
    { "col2im", "f32[n, 18, 16]; i64[2] = [5, 6]; i64[2] = [2, 3]", "", 1, "f32[n, 3, 5, 6]" },
    { "center_crop_pad", "f32[n, h, w]; i64[2] = [m, 8]", "axes = [1, 2]", 1, "f32[n, m, 8]" },
    { "max_unpool", "f32[n, c, h, w]; i64[n, c, h, w]", "kernel_shape = [2, 2], strides = [2, 2]",
      1, "f32[n, c, 2*h, 2*w]" },
    { "dft", "f32[b, n, 1]", "onesided = 1", 1, "f32[b, n // 2 + 1, 2]" },
    { "dft", "f32[b, n, 2]; i64[] = [16]; i64[] = [1]", "inverse = 1", 1, "f32[b, 16, 2]" },
    { "dft", "f32[b, n, 2]", "onesided = 1", 1, "error: onesided is for real input" },
    { "stft", "f32[b, n, 1]; i64[] = [160]; f32[400]", "", 1,
      "f32[b, (n + 80) // 160 - 2, 201, 2] where (n + 80) // 160 - 2 == max((n + 80) // 160, 2) - "
      "2" },
    { "hann_window", "i64[] = [n]", "", 1, "f32[n]" },
    { "hamming_window", "i64[] = [n]", "output_datatype = \"f64\", periodic = 0", 1, "f64[n]" },
    { "blackman_window", "i32[] = [16]", "", 1, "f32[16]" },
    { "mel_weight_matrix", "i64[] = [80]; i64[] = [400]; i64[]; f32[]; f32[]", "", 1,
      "f32[201, 80]" },
    { "cum_prod", "f32[n, m]; i64[]", "", 1, "f32[n, m]" },
    { "cum_prod", "f32[n, m]; i64[] = [1]", "reverse = 1, exclusive = 1", 1, "f32[n, m]" },

    /* losses */
    { "nll_loss", "f32[n, c, d]; i64[n, d]; f32[c]", "ignore_index = -1", 1, "f32[]" },
    { "nll_loss", "f32[n, c]; i32[n]", "reduction = \"none\"", 1, "f32[n]" },
    { "nll_loss", "f32[n, c]; i32[n]", "reduction = \"all\"", 1,
      "error: mean, none and sum exist" },
    { "cross_entropy", "f32[n, c, h, w]; i64[n, h, w]", "reduction = \"sum\"", 2,
      "f32[]; f32[n, c, h, w]" },

    /* the same elements, cut anew */
    { "reshape", "f32[b, s, 768]; i64[4] = [0, 0, 12, 64]", "", 1, "f32[b, s, 12, 64]" },
    { "reshape", "f32[b, s, 768]; i64[4] = [b, -1, 12, 64]", "", 1, "f32[b, s, 12, 64]" },
    { "reshape", "f32[b, 12, s, 64]; i64[2] = [-1, 64]", "", 1, "f32[12*b*s, 64]" },
    { "reshape", "f32[b, 49]; i64[3] = [-1, 7, 7]", "", 1, "f32[b, 7, 7]" },
    { "reshape", "f32[6, 4]; i64[2] = [4, 6]", "", 1, "f32[4, 6]" },
    { "reshape", "f32[6, 4]; i64[2] = [5, 5]", "", 1, "error: differ: 24 and 25" },
    { "reshape", "f32[6, 4]; i64[2] = [-1, -1]", "", 1, "error: -1 at 0 and at 1" },
    { "reshape", "f32[6, 4]; i64[3] = [6, 4, 0]", "", 1, "error: copies axis 2" },
    { "reshape", "f32[0, 4]; i64[2] = [0, 7]", "allowzero = 1", 1, "f32[0, 7]" },
    { "reshape", "f32[n]; i64[2] = [-1, 4]", "", 1, "f32[n // 4, 4] where n == 4*(n // 4)" },
    { "reshape", "f32[n]; i64[1]", "", 1,
      "error: input 1 (shape), i64[1], must be computable from constants and the shapes" },
    { "reshape", "i64[2] = [n, 3]; i64[2] = [2, 1]", "", 1, "i64[2, 1] = [n, 3]" },
    { "flatten", "f32[n, 512, 7, 7]", "", 1, "f32[n, 25088]" },
    { "flatten", "f32[n, 512, 7, 7]", "axis = 0", 1, "f32[1, 25088*n]" },
    { "squeeze", "f32[1, n, 1]", "", 1, "f32[n]" },
    { "squeeze", "f32[1, n, 1]; i64[1] = [-1]", "", 1, "f32[1, n]" },
    { "squeeze", "f32[1, 3]; i64[1] = [1]", "", 1,
      "error: which is squeezed, and 1 differ: 3 and 1" },
    { "unsqueeze", "i64[] = [n]; i64[1] = [0]", "", 1, "i64[1] = [n]" },
    { "unsqueeze", "f32[n, m]; i64[2] = [0, -1]", "", 1, "f32[1, n, m, 1]" },
    { "unsqueeze", "f32[n, m]; i64[2] = [0, 0]", "", 1, "error: twice" },

    /* movement */
    { "transpose", "f32[b, s, 12, 64]", "perm = [0, 2, 1, 3]", 1, "f32[b, 12, s, 64]" },
    { "transpose", "f32[n, m]", "", 1, "f32[m, n]" },
    { "transpose", "f32[n, m]", "perm = [0, 0]", 1, "error: names axis 0 twice" },
    { "transpose", "f32[n, m]", "perm = [0]", 1, "error: \"perm\" has 1 entries" },
    { "expand", "f32[3, 1]; i64[3] = [b, 1, s]", "", 1, "f32[b, 3, s]" },
    { "expand", "f32[3]; i64[1] = [4]", "", 1, "error: differ: 3 and 4" },
    { "tile", "f32[n, 3]; i64[2] = [2, 1]", "", 1, "f32[2*n, 3]" },
    { "concat", "f32[n, 3]; f32[n, m]", "axis = 1", 1, "f32[n, m + 3]" },
    { "concat", "f32[n, 3]; f32[m, 3]", "axis = -1", 1, "f32[n, 6] where n == m" },
    { "concat", "f32[2, 3]; f32[3, 3]", "axis = 1", 1,
      "error: axis 0 of inputs 0 and 1 differ: 2 and 3" },
    { "concat", "i64[1] = [b]; i64[1] = [-1]; i64[2] = [12, 64]", "axis = 0", 1,
      "i64[4] = [b, -1, 12, 64]" },
    { "split", "f32[n, 2304]", "axis = -1", 3, "f32[n, 768]; f32[n, 768]; f32[n, 768]" },
    { "split", "f32[7]", "", 3, "f32[3]; f32[3]; f32[1]" },
    { "split", "f32[7]; i64[2] = [3, 5]", "", 2,
      "error: the sum of the parts and the axis that is split differ: 8 and 7" },
    { "split", "f32[2*n]; i64[2] = [n, n]", "", 2, "f32[n]; f32[n]" },
    { "slice", "f32[512, 64]; i64[1] = [0]; i64[1] = [seq]; i64[1] = [0]", "", 1,
      "f32[min(seq, 512), 64]" },
    { "slice", "f32[n]; i64[1] = [0]; i64[1] = [9223372036854775807]", "", 1, "f32[n]" },
    { "slice", "f32[10]; i64[1] = [-3]; i64[1] = [2147483647]; _; i64[1] = [2]", "", 1, "f32[2]" },
    { "slice",
      "f32[10]; i64[1] = [-1]; i64[1] = [-9223372036854775807]; i64[1] = [0]; i64[1] = [-3]", "", 1,
      "f32[4]" },
    { "slice",
      "f32[n]; i64[1] = [-1]; i64[1] = [-9223372036854775807]; i64[1] = [0]; i64[1] = [-1]", "", 1,
      "f32[n]" },
    { "slice", "i64[4] = [b, 3, h, w]; i64[1] = [2]; i64[1] = [4]", "", 1, "i64[2] = [h, w]" },
    { "slice", "f32[10]; i64[1] = [0]; i64[1] = [5]; i64[1] = [0]; i64[1] = [0]", "", 1,
      "error: step along axis 0 is 0" },
    { "pad", "f32[n, 3]; i64[4] = [0, 1, 0, 2]; f32[] = [1.5]", "", 1, "f32[n, 6]" },
    { "pad", "f32[n, 3]; i64[4] = [0, 1, 0, 2]; f32[]", "", 1, "f32[n, 6]" },
    { "pad", "f32[n, 3]; i64[2] = [1, 1]; _; i64[1] = [1]", "mode = \"reflect\"", 1, "f32[n, 5]" },
    { "pad", "f32[n, 3]; i64[4] = [0, -1, 0, 0]", "mode = \"edge\"", 1, "f32[n, 2]" },
    { "pad", "f32[3]; i64[2] = [-2, -2]", "", 1, "error: would have -1 elements" },
    { "depth_to_space", "f32[n, 8, h, w]", "blocksize = 2, mode = \"CRD\"", 1,
      "f32[n, 2, 2*h, 2*w]" },
    { "space_to_depth", "f32[n, 2, 2*h, 6]", "blocksize = 2", 1, "f32[n, 8, h, 3]" },
    { "trilu", "f32[n, m]; i64[]", "upper = 0", 1, "f32[n, m]" },
    { "reverse_sequence", "f32[t, b, 4]; i64[b]", "", 1, "f32[t, b, 4]" },

    /* computed indices */
    { "gather", "f32[30522, 768]; i64[b, s]", "", 1, "f32[b, s, 768]" },
    { "gather", "i64[3] = [b, s, 768]; i64[] = [-2]", "", 1, "i64[] = [s]" },
    { "gather", "i64[3] = [b, s, 768]; i64[2] = [0, 2]", "", 1, "i64[2] = [b, 768]" },
    { "gather", "f32[n, 3]; f32[2]", "", 1, "error: i32 or i64" },
    { "gather_elements", "f32[n, 3]; i64[m, 2]", "axis = 1", 1, "f32[m, 2] where m <= n" },
    { "gather_nd", "f32[n, m, 4]; i64[k, 2]", "", 1, "f32[k, 4]" },
    { "gather_nd", "f32[b, m, 4]; i64[b, 1]", "batch_dims = 1", 1, "f32[b, 4]" },
    { "scatter_elements", "f32[n, 3]; i64[m, 3]; f32[m, 3]", "reduction = \"add\"", 1,
      "f32[n, 3]" },
    { "scatter_nd", "f32[n, 3]; i64[m, 1]; f32[m, 3]", "", 1, "f32[n, 3]" },
    { "scatter_nd", "f32[n, 3]; i64[m, 1]; f32[m, 4]", "", 1, "error: differ: 4 and 3" },
    { "one_hot", "i64[n]; i64[] = [10]; f32[2]", "", 1, "f32[n, 10]" },
    { "one_hot", "i64[n]; f32[] = [4.0]; i32[2]", "axis = 0", 1, "i32[4, n]" },
    { "resize", "f32[n, c, 13, 13]; _; f32[4] = [1.0, 1.0, 2.0, 2.0]",
      "coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"", 1,
      "f32[n, c, 26, 26]" },
    { "resize", "f32[n, c, h, w]; _; _; i64[4] = [n, c, 2*h, 7]", "mode = \"linear\"", 1,
      "f32[n, c, 2*h, 7] where 1 <= w" },
    { "resize", "f32[n, c, 8]; _; _; i64[1] = [3]",
      "mode = \"linear\", axes = [2], coordinate_transformation_mode = \"align_corners\"", 1,
      "f32[n, c, 3]" },
    { "resize", "f32[3]; _; f32[1] = [0.6]", "", 1, "f32[1]" },
    { "resize", "f32[4]; _; f32[1] = [0.6]",
      "mode = \"linear\", coordinate_transformation_mode = \"half_pixel_symmetric\"", 1, "f32[2]" },
    { "resize", "f32[4]; _; f32[1] = [2.0]", "mode = \"cubic\"", 1, "f32[8]" },
    { "resize", "i32[4]; _; f32[1] = [2.0]", "mode = \"cubic\"", 1,
      "i32[8] but expands with: resize: mode is cubic and input 0 is i32[4]; what weighs several "
      "points weighs floats" },

    /* from shapes and numbers */
    { "shape", "f32[b, s, 768]", "", 1, "i64[3] = [b, s, 768]" },
    { "shape", "f32[b, s, 768]", "start = -2, end = 2", 1, "i64[1] = [s]" },
    { "size", "f32[b, s, 4]", "", 1, "i64[] = [4*b*s]" },
    { "constant_of_shape", "i64[2] = [b, 3]", "", 1, "f32[b, 3]" },
    { "range", "i64[] = [0]; i64[] = [seq]; i64[] = [1]", "", 1, "i64[seq]" },
    { "range", "i64[] = [0]; i64[] = [7]; i64[] = [3]", "", 1, "i64[3] = [0, 3, 6]" },
    { "range", "i64[] = [3]; i64[] = [0]; i64[] = [-1]", "", 1, "i64[3] = [3, 2, 1]" },
    { "range", "f32[] = [0.0]; f32[] = [1.0]; f32[] = [0.3]", "", 1, "f32[4]" },
    { "range", "i64[]; i64[]; i64[]", "", 1, "error: input 0 (start), i64[], must be computable" },
    { "eye_like", "f32[n, m]", "dtype = \"i32\", k = 1", 1, "i32[n, m]" },

    /* quantisation */
    { "quantize_linear", "f32[n, 3]; f32[]; i8[]", "", 1, "i8[n, 3]" },
    { "quantize_linear", "f32[n, 3]; f32[3]", "axis = 1", 1, "u8[n, 3]" },
    { "quantize_linear", "f32[n, 3]; f32[4]", "axis = 1", 1, "error: differ: 4 and 3" },
    { "dequantize_linear", "u8[n, 3]; f32[3]; u8[3]", "axis = 1", 1, "f32[n, 3]" },
    { "dynamic_quantize_linear", "f32[n, 3]", "", 3, "u8[n, 3]; f32[]; u8[]" },

    /* routines */
    { "top_k", "f32[n, 9]; i64[1] = [k]", "", 2, "f32[n, k]; i64[n, k]" },
    { "top_k", "f32[n, 9]; i64[1] = [3]", "axis = 0", 2, "f32[3, 9]; i64[3, 9]" },
    { "top_k", "f32[9]; i64[1] = [10]", "", 2,
      "error: k is 10, and axis 0 of input 0 has 9 elements" },
    { "non_max_suppression", "f32[b, n, 4]; f32[b, c, n]; i64[1]; f32[1]; f32[1]", "", 2,
      "i64[b*c*n, 3]; i64[1]" },
    { "non_max_suppression", "f32[1, n, 4]; f32[1, c, n]; i64[]", "most = 3", 2,
      "i64[c*min(n, 3), 3]; i64[1]" },
    { "non_max_suppression", "f32[1, n, 5]; f32[1, c, n]", "", 2,
      "error: axis 2 of input 0 (boxes) and 4 differ: 5 and 4" },
    { "unique", "f32[n, m]", "sorted = 0", 4, "i64[n]; i64[n]; i64[n]; i64[1]" },
    { "lookup", "i64[n, 2]; i64[3]", "", 1, "i64[n, 2]" },
    { "lookup", "str[n]; i64[3]", "", 1, "error: one element type" },
    { "string_equal", "str[n, 1]; str[m]", "", 1, "bool[n, m]" },
    { "string_concat", "str[n]; str[]", "", 1, "str[n]" },
    { "string_number", "str[n, 3]", "to = \"i64\"", 1, "i64[n, 3]" },
    { "string_number", "str[n]", "to = \"i8\"", 1, "error: f64, i64 and u64 are possible" },
    { "number_string", "f32[n]", "", 1, "str[n]" },
    { "number_string", "i8[n]", "", 1, "error: must be f32, f64, i64 or u64" },
    { "string_concat", "str[n]; i64[n]", "", 1, "error: must be strings" },
    { "string_pieces", "str[n]; str[]", "", 1, "i64[n]" },
    { "library", "f32[k]", "function = \"f\", signature = \"(x: f32[n]) -> (o: f32[2*n])\"", 1,
      "f32[2*k]" },
    { "library", "i32[k]", "function = \"f\", signature = \"(x: f32[n]) -> (o: f32[2*n])\"", 1,
      "error: input 0 is i32[k]; f32[n] is declared" },
    { "library", "f32[n]", "function = \"f\"", 1, "error: is declared by no library" },
    { "image_size", "u8[n]", "", 1, "i64[2]" },
    { "image_points", "u8[n]; i64[2] = [h, w]", "form = 2", 1, "u8[h, w, 1]" },
    { "string_split", "str[n]; str[]; i64[1] = [k]", "", 1, "str[n, k]" },
    { "string_normalize", "str[n]; str[2]", "case = 1", 2, "str[max(n, 1)]; i64[1]" },
    { "regex_match", "str[n]; i64[6] = [1, 0, 0, 0, 0, 0]", "", 1, "bool[n]" },
    { "regex_match", "str[n]; i64[6] = [1, 1, 0, 7, 0, 0]", "", 1,
      "error: the program of an expression" },
    { "tokens", "str[n, 2]; i64[6] = [1, 0, 0, 0, 0, 0]", "least = 2", 1, "i64[n, 2]" },
    { "tokens", "str[n]; i64[6] = [1, 9, 0, 0, 0, 0]", "", 1,
      "error: the program of an expression" },
    { "tokenize", "str[n]; i64[6] = [1, 0, 0, 0, 0, 0]; str[]; i64[1] = [k]", "", 1, "str[n, k]" },
    { "tokenize", "str[n]; i64[6] = [1, 0, 0, 0, 0, 0]; str[2]; i64[1] = [k]", "", 1,
      "error: it is one string" },
    { "tf_idf", "i64[b, n]; i64[2] = [5, 6]; i64[1, 4] = [2, 0, 3, 1]", "columns = 4", 1,
      "f32[b, 4]" },
    { "tf_idf", "i64[b, n]; i64[2] = [5, 6]; i64[1, 4] = [2, 1, 3, 1]", "columns = 4", 1,
      "error: row 0 of the grams" },
    { "tf_idf", "i64[b, n]; i64[2] = [5, 6]; i64[2, 4] = [1, 0, 0, 2, 2, 0, 1, 1]", "columns = 4",
      1, "error: row 0 of the grams begins 2 of length 1; the next begins 1 of length 2" },
    { "tf_idf", "i64[b, n]; i64[2] = [5, 6]; i64[2, 4] = [1, 0, 0, 2, 1, 1, 1, 1]", "columns = 4",
      1, "f32[b, 4]" },
    { "tree_ensemble",
      "f32[n, 3]; i32[1, 4] = [0, 0, 0, 0]; f32[1] = [0.0]; i32[1, 2] = [0, 0]; i32[2] = [0, 1]; "
      "i32[1] = [0]; f32[1] = [1.0]",
      "targets = 1, features = 0", 1, "f32[n, 1]" },
    { "tree_ensemble",
      "f32[n, 3]; i32[1, 4] = [0, 1, 0, 0]; f32[1] = [0.0]; i32[1, 2] = [0, 0]; i32[2] = [0, 1]; "
      "i32[1] = [0]; f32[1] = [1.0]",
      "targets = 1, features = 0", 1, "error: contradict each other" },
    { "pairwise", "f32[n, 3]", "classes = 3", 1, "f32[n, 3]" },
    { "random", "f16[n, 2]", "normal = 1, seed = 7", 1, "f32[n, 2]" },
    { "random", "f16[n, 2]", "seed = -7", 1, "error: from 0 to below" },
    { "bit_cast", "f32[n]", "to = \"i32\", bytes = 4", 1, "i32[n]" },
    { "bit_cast", "f32[n]", "to = \"i64\", bytes = 8", 1, "error: of one size" },
    { "determinant", "f32[b, 3, 3]", "", 1, "f32[b]" },
    { "determinant", "f32[b, 3, 4]", "", 1,
      "error: axis 2 of input 0 (x) and axis 1 of x differ: 4 and 3" },
    { "library_product", "f32[b, n, 4]; f32[4, 5, m]", "", 1, "f32[b, n, 5, m]" },
    { "library_product", "f64[b, 4, n]; f64[b, m, 4]",
      "batch = 1, transposed_a = 1, transposed_b = 1, parts = 2, worth = 100", 1, "f64[b, n, m]" },
    { "library_product", "f32[4]; f32[4]", "", 1, "f32[]" },
    { "library_product", "f32[n, 4]; f32[5, m]", "", 1,
      "error: summed dimensions of both inputs differ: 4 and 5" },
    { "library_product", "f32[2, n, 4]; f32[3, 4, m]", "batch = 1", 1,
      "error: axis 0 of both inputs differ: 2 and 3" },
    { "library_product", "f32[n, 4]; f32[4]", "batch = 1", 1,
      "error: have no 1 dimensions in front of a summed one" },
    { "library_product", "f32[n, 4]; f32[4, m]", "parts = 5000", 1,
      "error: parts = 5000, worth = 1; 1 to 4096 parts are possible" },
    { "library_product", "i32[n, 4]; i32[4, m]", "", 1, "error: must be f32 or f64" },
    { "max_pool_place", "f32[n, c, 5]; f32[n, c, 3]; i64[1, 4] = [3, 1, 1, 0]", "", 1,
      "i64[n, c, 3]" },
    { "relu", "str[n]", "", 1, "error: it does not take strings" },
    { "gather", "str[n]; i64[m]", "", 1, "str[m]" },
    { "unique", "f8e5m2[n, m]", "", 4, "error: floats of 16 bits or more" },
};

enum { NROWS = sizeof row / sizeof *row, MAX_IN = 8, MAX_OUT = 4 };

typedef struct {
    const Type *type[MAX_IN];
    Known known[MAX_IN];
    const void *data[MAX_IN];
    uint32_t n;
    Attr attr[8];
    uint32_t nattr;
} Input;

static Parse
text_of(Ctx *c, const char *s)
{
    return parse_begin(c, "row", (Bytes){ (const uint8_t *)s, strlen(s) });
}

/* Contents after `=`: Exprs, or floats as f32 data. */
static void
read_contents(Parse *p, Input *in, uint32_t i)
{
    Ctx *c = p->ctx;
    VEC(const Expr *) e = { 0 };
    VEC(float) f = { 0 };
    double v;

    assert_true(parse_expect(p, "["));
    while (!parse_accept(p, "]")) {
        if (e.n + f.n)
            assert_true(parse_expect(p, ","));
        if (dtype_is_float(in->type[i]->dtype)) {
            assert_true(parse_number(p, &v));
            VEC_PUSH(c->arena, &f, (float)v);
        } else {
            const Expr *x = parse_expr(p);
            assert_non_null(x);
            VEC_PUSH(c->arena, &e, x);
        }
    }
    in->data[i] = f.at;
    in->known[i] = (Known){ e.n, e.at };
    int64_t number;
    char *all = NEW_ARRAY(c->arena, char, 8 * (size_t)e.n + 8);
    for (uint32_t k = 0; k < e.n && expr_const(e.at[k], &number); k++) {
        number_store(in->type[i]->dtype, all, k, (Number){ .i = number });
        in->data[i] = k + 1 == e.n ? all : NULL;
    }
}

static void
read_inputs(Ctx *c, const char *s, Input *in)
{
    char *rows = arena_str(c->arena, s);
    for (char *at = rows; (at = strchr(at, ';'));)
        *at = '|'; /* a semicolon begins a comment in Tenon's texts */
    Parse p = text_of(c, rows);

    for (in->n = 0; !parse_end(&p); in->n++) {
        if (in->n)
            assert_true(parse_expect(&p, "|"));
        if (parse_accept(&p, "_"))
            continue;
        in->type[in->n] = parse_type(&p);
        assert_non_null(in->type[in->n]);
        if (parse_accept(&p, "="))
            read_contents(&p, in, in->n);
    }
}

static void
read_attrs(Ctx *c, const char *s, Input *in)
{
    Parse p = text_of(c, s);
    double f;

    for (in->nattr = 0; !parse_end(&p); in->nattr++) {
        Attr *a = &in->attr[in->nattr];
        VEC(int64_t) list = { 0 };
        int64_t i;
        if (in->nattr)
            assert_true(parse_expect(&p, ","));
        a->name = parse_name(&p);
        assert_true(parse_expect(&p, "="));
        if (parse_peek(&p, "\"")) {
            a->kind = ATTR_STRING;
            assert_true(parse_string(&p, &a->s));
        } else if (parse_accept(&p, "[")) {
            while (!parse_accept(&p, "]")) {
                assert_true((!list.n || parse_expect(&p, ",")) && parse_int(&p, &i));
                VEC_PUSH(c->arena, &list, i);
            }
            a->kind = ATTR_INTS;
            a->n = list.n;
            a->ints = list.at;
        } else {
            assert_true(parse_number(&p, &f));
            a->kind = f == (double)(int64_t)f ? ATTR_INT : ATTR_FLOAT;
            a->i = (int64_t)f;
            a->f = f;
        }
    }
}

/* What came out, as the table writes it. */
static void
describe(Ctx *c, Text *t, const OpCall *call, const Type *const *out, Known known,
         const Constraints *k)
{
    for (uint32_t i = 0; i < call->nout; i++)
        text_printf(t, "%s%s", i ? "; " : "", type_str(c, out[i]));
    if (known.at) {
        text_add(t, " = [");
        for (uint32_t i = 0; i < known.n; i++)
            text_printf(t, "%s%s", i ? ", " : "", expr_str(c, known.at[i]));
        text_add(t, "]");
    }
    for (uint32_t i = 0; i < k->n; i++)
        text_printf(t, " where %s", constraint_text(c, &k->at[i]));
}

static bool
run_row(const Row *r, Text *got)
{
    Arena *arena = arena_new(NULL, NULL);
    Ctx world, *c = &world;
    Input in = { 0 };
    Constraints constraints = { 0 };
    const Type *out[MAX_OUT];
    Expansion e;

    Foreign foreign = { "f", "f", "(x: f32[n]) -> (o: f32[2*n])", NULL };
    Library library = { "test", { &foreign, 1, 1 } };

    ctx_init(c, arena);
    c->library = &library;
    read_inputs(c, r->in, &in);
    read_attrs(c, r->attrs, &in);
    OpCall call = {
        .op = op_named(r->op, strlen(r->op)),
        .attrs = { in.attr, in.nattr },
        .nin = in.n,
        .nout = r->nout,
        .in = in.type,
        .known = in.known,
        .data = in.data,
        .constraints = &constraints,
    };
    if (call.op == OP_NONE) {
        text_printf(got, "no operator %s", r->op);
    } else if (!op_infer(c, &call, out)) {
        text_printf(got, "error: %s", c->diags.list.n ? c->diags.list.at[0].text : "unreported");
    } else {
        describe(c, got, &call, out, op_known(c, &call, out), &constraints);
        if ((!op_is_routine(call.op) && !op_expand(c, &call, out, &e)) || c->diags.list.n)
            text_printf(got, " but expands with: %s",
                        c->diags.list.n ? c->diags.list.at[0].text : "unreported");
    }
    arena_free(arena);
    bool error = strncmp(r->expected, "error: ", 7) == 0;
    const char *s = text_str(got);
    return error ? strncmp(s, "error: ", 7) == 0 && strstr(s, r->expected + 7)
                 : strcmp(s, r->expected) == 0;
}

static void
test_rows(void **state)
{
    Arena *arena = arena_new(NULL, NULL);
    uint32_t failed = 0;
    (void)state;

    for (uint32_t i = 0; i < NROWS; i++) {
        Text got = { .arena = arena };
        if (run_row(&row[i], &got))
            continue;
        print_error("%s(%s) {%s}\n  gives    %s\n  expected %s\n", row[i].op, row[i].in,
                    row[i].attrs, text_str(&got), row[i].expected);
        failed++;
    }
    arena_free(arena);
    assert_int_equal(failed, 0);
}

static void
test_every_operator_has_a_row(void **state)
{
    uint32_t missing = 0;
    (void)state;

    for (uint32_t k = OP_NONE + 1; k < OP_COUNT; k++) {
        bool found = false;
        for (uint32_t i = 0; i < NROWS; i++)
            found = found || (strcmp(row[i].op, op_info[k].name) == 0 &&
                              strncmp(row[i].expected, "error", 5) != 0);
        if (!found)
            print_error("no row for %s\n", op_info[k].name);
        missing += !found;
    }
    assert_int_equal(missing, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_every_operator_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
