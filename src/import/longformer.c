/* longformer: LongformerAttention of ONNX Runtime, in which few tokens attend to everything.
 *
 *     local     token i attends to tokens i - window to i + window, and to global ones
 *     global    a token with a flag attends to all tokens, with projections of its own
 *
 * The first is an attention of all tokens with a mask of positions. The second has few rows: the
 * global tokens of all sequences are concatenated and attend to their own sequence, as in
 * packed_sequences.c, and its results replace rows of the first. The mask is added to the scores of
 * each key; rows where it is below 0 are padding, and 0.
 *
 * Source: ONNX Runtime's ContribOperators.md; for shapes
 * contrib_ops/cpu/bert/longformer_attention_base.cc; for projections and masks
 * contrib_ops/cuda/bert/longformer_attention_softmax.cu. Its kernels require lengths that are
 * multiples of 2 * window, and global tokens at the front.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>

enum { X, WEIGHT, BIAS, MASK, GLOBAL_WEIGHT, GLOBAL_BIAS, GLOBAL };

/* Projections: of local rows; of global queries, and of their keys and values. */
typedef enum { LOCAL_Q, LOCAL_K, LOCAL_V, GLOBAL_Q, GLOBAL_K, GLOBAL_V } Projection;

/* to: projects rows. In separate weights, [3, wide, wide], the biases of global keys and values
 * come after those of local rows. */
static bool
project(Call *k, const char *to, const char *rows, Projection p)
{
    const bool global = p >= GLOBAL_Q, apart = input_type(k, WEIGHT)->rank == 3;
    const bool behind = apart && p > GLOBAL_Q;
    const int64_t i = p % 3, n = call_known(k, "n"), at = (behind ? p - 1 : i) * n;

    call_fact(k, "weight", global ? "global_weight" : "weight");
    return (apart ? call_text(k, "by = gather($weight, %" PRId64 ") {axis = 0}", i)
                  : call_text(k, "by = slice($weight, [%" PRId64 "], [%" PRId64 "], [-1])", i * n,
                              (i + 1) * n)) &&
           call_text(k, "%s = matmul(%s, by) + slice(%s, [%" PRId64 "], [%" PRId64 "], [-1])", to,
                     rows, global && !behind ? "global_bias" : "bias", at, at + n);
}

/* All tokens as local ones, then those of all sequences at indices `at` as global ones, whose rows
 * replace those of the first. */
static bool
attend(Call *k)
{
    project(k, "q", "gather(rows, at)", GLOBAL_Q);
    project(k, "k", "rows", GLOBAL_K);
    project(k, "v", "rows", GLOBAL_V);
    call_text(k, "own = i32(at / tokens)\n"
                 "of = i32(iota(batch * tokens) / tokens)\n"
                 "seen = unsqueeze(own, [1]) == of\n"
                 "seen = where(seen, padding, like(-inf, padding))\n"
                 "few = attention(unsqueeze(q, [0]), unsqueeze(k, [0]), unsqueeze(v, [0]), seen)"
                 " {q_num_heads = $num_heads, kv_num_heads = $num_heads}\n"
                 "few = squeeze(few, [0])");
    project(k, "q", "x", LOCAL_Q);
    project(k, "k", "x", LOCAL_K);
    project(k, "v", "x", LOCAL_V);
    return call_text(k, "j = iota(tokens)\n"
                        "i = unsqueeze(j, [1])\n"
                        "near = i <= j + $window && j <= i + $window\n"
                        "seen = near || unsqueeze(flags, [1, 2])\n"
                        "scores = unsqueeze(mask, [1, 2])\n"
                        "scores = where(seen, scores, like(-inf, scores))\n"
                        "all = attention(q, k, v, scores)"
                        " {q_num_heads = $num_heads, kv_num_heads = $num_heads}\n"
                        "all = reshape(all, [-1, $n])\n"
                        "all = reshape(scatter_nd(all, unsqueeze(at, [1]), few), shape(x))\n"
                        "hidden = unsqueeze(mask < like(0, x), [2])\n"
                        "y = where(hidden, like(0, x), all)");
}

bool
convert_longformer(Call *k)
{
    const int64_t heads = get_int(k, "num_heads", 0);
    const Type *w = input_type(k, WEIGHT);

    if (!call_names(k, w && w->rank == 3
                           ? "x[b, s, #n] weight[3, n, n] bias[5*n] mask[b, s] "
                             "global_weight[3, n, n] global_bias[n] global[b, s] -> y"
                           : "x[b, s, #n] weight[n, 3*n] bias[3*n] mask[b, s] "
                             "global_weight[n, 3*n] global_bias[3*n] global[b, s] -> y"))
        return false;
    if (call_known(k, "n") % heads)
        return call_wrong(k, "LongformerAttention has %" PRId64 " heads for %" PRId64 " columns",
                          heads, call_known(k, "n"));
    call_text(k, "batch = shape(x)[0]\n"
                 "tokens = shape(x)[1]\n"
                 "rows = reshape(x, [-1, $n])\n"
                 "padding = reshape(mask, [-1])\n"
                 "flags = bool(global)\n"
                 "marked = reshape(flags, [-1])");
    call_name(k, "at", call_positions(k, call_value(k, "marked")));
    return call_value(k, "at") && attend(k);
}
