/* packed_sequences: ONNX Runtime's operators on batches without padding: the rows of all sequences
 * concatenated, and the running sums of their lengths.
 *
 *     rows[t, …]      sums = [0, n0, n0 + n1, …, t]
 *
 * Attention over such rows is one attention over all of them with a mask: rows attend to rows of
 * their own sequence. Blocks of rows and keys without a common sequence are skipped as for any mask
 * (normalise/block_mask.c). Source: ONNX Runtime's ContribOperators.md; its kernels run only on
 * GPUs.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>

/* Rows q, k [t, n*size] and v [t, n*other] attend to the rows of their own sequence. A row's
 * sequence is the number of ends up to it. A bias[1 or b, 1 or heads, s, s] of padded sequences is
 * added to the scores; the index of a key of another sequence may exceed this row's sequence, so
 * sizes must hold for all. */
static bool
attend_rows(Call *k)
{
    const Type *bias = call_type(k, "bias");

    if (bias && bias->rank != 4)
        return call_refuse(k, "%s with a bias of type %s for its scores", k->proto->op_type,
                           type_str(k->c, bias));
    call_fact(k, "batch", bias && expr_is(bias->dim[0], 1) ? "none" : "sequence");
    return call_text(k,
                     "sums = i64(sums)\n"
                     "t = iota(shape(q)[0])\n"
                     "ends = slice(sums, [1], [%" PRId64 "])\n"
                     "passed = unsqueeze(t, [1]) >= unsqueeze(ends, [0])\n"
                     "sequence = reduce_sum(i64(passed), [1]) {keepdims = 0}\n"
                     "position = t - gather(sums, sequence)\n"
                     "narrow = i32(sequence)\n"
                     "mask = unsqueeze(narrow, [1]) == unsqueeze(narrow, [0])\n"
                     "bias? none = position * 0\n"
                     "bias? zero = unsqueeze(none, [0])\n"
                     "bias? batch = unsqueeze(unsqueeze($batch, [1]) + zero, [2])\n"
                     "bias? query = unsqueeze(unsqueeze(position, [1]) + zero, [2])\n"
                     "bias? key = unsqueeze(none, [1]) + unsqueeze(position, [0])\n"
                     "bias? at = concat(batch, query, unsqueeze(key, [2])) {axis = 2}\n"
                     "bias? bias = gather_nd(transpose(bias) {perm = [0, 2, 3, 1]}, at)\n"
                     "bias? bias = transpose(bias) {perm = [2, 0, 1]}\n"
                     "bias? mask = unsqueeze(where(mask, bias, like(-inf, bias)), [0])\n"
                     "y = attention(unsqueeze(q, [0]), unsqueeze(k, [0]), unsqueeze(v, [0]), mask) "
                     "{q_num_heads = $num_heads, kv_num_heads = $num_heads%s}\n"
                     "y = squeeze(y, [0])",
                     INT64_MAX, get_float(k, "scale", 0) != 0 ? ", scale = $scale" : "");
}

static bool
convert_packed_rows(Call *k)
{
    int64_t wide[3];

    if (!call_names(k, "x w[_, #columns] row_bias offsets sums ? bias -> y") ||
        !call_text(k, "rows = matmul(x, w) + row_bias"))
        return false;
    const Type *rows = call_type(k, "rows");
    if (rows->rank != 2)
        return call_refuse(k, "%s of %s, where rows of known width are needed", k->proto->op_type,
                           type_str(k->c, rows));
    return call_three_parts(k, rows, "rows", wide) && attend_rows(k);
}

/* q[t, n*size] k v, or q[t, n, 3, size] alone. */
static bool
convert_packed_heads(Call *k)
{
    static const char *const names[] = { "q", "k", "v" };

    if (!call_in(k, 0) || !call_in(k, 5))
        return call_refuse(k, "%s without queries or sums of lengths", k->proto->op_type);
    if (!call_names(k, "q ? k v row_bias offsets sums bias -> y") ||
        (input_type(k, 0)->rank == 4 &&
         !call_text(k, "n = shape(q)[0]\n"
                       "k = reshape(gather(q, 1) {axis = 2}, [n, -1])\n"
                       "v = reshape(gather(q, 2) {axis = 2}, [n, -1])\n"
                       "q = reshape(gather(q, 0) {axis = 2}, [n, -1])")))
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        const Type *t = call_type(k, names[i]);
        if (!t || t->rank != 2)
            return call_refuse(
                k, "%s of queries, keys and values that are not three of rank 2, or one of rank 4",
                k->proto->op_type);
    }
    return add_row_bias(k, 3) && attend_rows(k);
}

/* x[b, s, n]: the rows below each length; their original indices followed by those of padding,
 * i32[b, s]; running sums of lengths; the longest. */
static bool
convert_remove_padding(Call *k)
{
    if (!call_names(k, "x[b, s, n] lengths -> rows offsets sums longest"))
        return false;
    call_text(k, "lengths = i64(lengths)\n"
                 "b = shape(x)[0]\n"
                 "s = shape(x)[1]\n"
                 "there = unsqueeze(iota(s), [0]) < unsqueeze(lengths, [1])\n"
                 "there = reshape(there, [-1])");
    call_name(k, "kept", call_positions(k, call_value(k, "there")));
    call_text(k, "padding = !there");
    call_name(k, "gone", call_positions(k, call_value(k, "padding")));
    return call_text(k, "rows = gather(reshape(x, [b * s, -1]), kept)\n"
                        "offsets = i32(reshape([kept, gone], [b, s]))\n"
                        "sums = i32([0, cum_sum(lengths, 0)])\n"
                        "longest = i32(reduce_max(lengths, [0]) {keepdims = 1})");
}

const OpRow packed_rows[] = {
    { "com.microsoft.PackedAttention", OP_NONE, convert_packed_rows, "i34", "+num_heads" },
    { "com.microsoft.PackedMultiHeadAttention", OP_NONE, convert_packed_heads, "i45",
      "+num_heads" },
    { "com.microsoft.RemovePadding", OP_NONE, convert_remove_padding, "i1" },
    /* row i goes to the index that offset i gives, padding is 0 */
    { "com.microsoft.RestorePadding", OP_NONE, 0, "i1", .names = "rows[t, n] offsets[b, s] -> y",
      .text = "offsets = i64(offsets)\n"
              "list = reshape(offsets, [-1])\n"
              "n = shape(rows)[0]\n"
              "width = shape(rows)[1]\n"
              "at = slice(list, [0], n)\n"
              "room = expand(like(0, rows), [shape(list), width])\n"
              "y = scatter_nd(room, unsqueeze(at, [1]), rows)\n"
              "y = reshape(y, [shape(offsets), width])" },
    { 0 },
};
