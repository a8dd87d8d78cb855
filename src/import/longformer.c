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
project(Call *k, const char *to, const char *rows, Projection p, int64_t n)
{
    const bool global = p >= GLOBAL_Q, apart = input_type(k, WEIGHT)->rank == 3;
    const int64_t i = p % 3;
    const bool behind = apart && p > GLOBAL_Q;
    const char *weight = global ? "global_weight" : "weight";
    const int64_t at = (behind ? p - 1 : i) * n;

    return (apart ? call_text(k, "by = gather(%s, %" PRId64 ") {axis = 0}", weight, i)
                  : call_text(k, "by = slice(%s, [%" PRId64 "], [%" PRId64 "], [-1])", weight,
                              i * n, (i + 1) * n)) &&
           call_text(k, "%s = matmul(%s, by) + slice(%s, [%" PRId64 "], [%" PRId64 "], [-1])", to,
                     rows, global && !behind ? "global_bias" : "bias", at, at + n);
}

/* All tokens as local ones, then those of all sequences at indices `at` as global ones, whose rows
 * replace those of the first. */
static bool
attend(Call *k, int64_t heads, int64_t n)
{
    const char *attrs = arena_printf(
        k->m->arena, "{q_num_heads = %" PRId64 ", kv_num_heads = %" PRId64 "}", heads, heads);

    return project(k, "q", "gather(rows, at)", GLOBAL_Q, n) &&
           project(k, "k", "rows", GLOBAL_K, n) && project(k, "v", "rows", GLOBAL_V, n) &&
           call_text(
               k,
               "own = i32(at / tokens)\n"
               "of = i32(iota(batch * tokens) / tokens)\n"
               "seen = unsqueeze(own, [1]) == of\n"
               "seen = where(seen, padding, like(-inf, padding))\n"
               "few = attention(unsqueeze(q, [0]), unsqueeze(k, [0]), unsqueeze(v, [0]), seen)"
               " %s\n"
               "few = squeeze(few, [0])",
               attrs) &&
           project(k, "q", "x", LOCAL_Q, n) && project(k, "k", "x", LOCAL_K, n) &&
           project(k, "v", "x", LOCAL_V, n) &&
           call_text(k,
                     "j = iota(tokens)\n"
                     "i = unsqueeze(j, [1])\n"
                     "near = i <= j + %" PRId64 " && j <= i + %" PRId64 "\n"
                     "seen = near || unsqueeze(flags, [1, 2])\n"
                     "scores = unsqueeze(mask, [1, 2])\n"
                     "all = attention(q, k, v, where(seen, scores, like(-inf, scores))) %s\n"
                     "all = reshape(all, [-1, %" PRId64 "])\n"
                     "all = reshape(scatter_nd(all, unsqueeze(at, [1]), few), shape(x))\n"
                     "hidden = unsqueeze(mask < like(0, x), [2])\n"
                     "y = where(hidden, like(0, x), all)",
                     get_int(k, "window", 0), get_int(k, "window", 0), attrs, n);
}

static bool
sizes_fit(Call *k, int64_t heads, int64_t *wide)
{
    Ctx *c = k->m->c;
    const Type *t = input_type(k, X), *w = input_type(k, WEIGHT);

    if (t->rank != 3 || !expr_const(t->dim[2], wide))
        return call_refuse(k,
                           "LongformerAttention of %s; rows [b, s, heads * size] of known width "
                           "are needed",
                           type_str(c, t));
    if (heads < 1 || *wide % heads)
        return call_wrong(k, "LongformerAttention has %" PRId64 " heads for %" PRId64 " columns",
                          heads, *wide);
    if (get_int(k, "window", 0) < 1)
        return call_refuse(k, "LongformerAttention with a window of %" PRId64 " tokens",
                           get_int(k, "window", 0));
    const bool apart = w->rank == 3;
    const Expr *n = t->dim[2], *three = expr_int(c, 3), *sides[] = { three, n, n };
    const Expr *joined[] = { n, expr_scale(c, n, 3) };
    const Expr *const *weight = apart ? sides : joined;
    const uint32_t rank = apart ? 3 : 2;
    const Expr *bias = expr_scale(c, n, apart ? 5 : 3), *global = apart ? n : bias;
    return need_shape(k, WEIGHT, "weight", rank, weight) && need_shape(k, BIAS, "bias", 1, &bias) &&
           need_shape(k, GLOBAL_WEIGHT, "global_weight", rank, weight) &&
           need_shape(k, GLOBAL_BIAS, "global_bias", 1, &global) &&
           need_shape(k, MASK, "mask", 2, t->dim) && need_shape(k, GLOBAL, "global", 2, t->dim);
}

bool
convert_longformer(Call *k)
{
    const int64_t heads = get_int(k, "num_heads", 0);
    int64_t wide;

    if (!call_names(k, "x weight bias mask global_weight global_bias global -> y") ||
        !sizes_fit(k, heads, &wide) ||
        !call_text(k,
                   "batch = shape(x)[0]\n"
                   "tokens = shape(x)[1]\n"
                   "rows = reshape(x, [-1, %" PRId64 "])\n"
                   "padding = reshape(mask, [-1])\n"
                   "flags = bool(global)\n"
                   "marked = reshape(flags, [-1])",
                   wide))
        return false;
    call_name(k, "at", call_positions(k, call_value(k, "marked")));
    return call_value(k, "at") && attend(k, heads, wide);
}
