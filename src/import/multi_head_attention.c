/* multi_head_attention: Attention and MultiHeadAttention of ONNX Runtime, which its optimiser makes
 * of encoders and decoders.
 *
 * Both become ONNX's attention over rows [b, s, heads * size], or over heads if keys have that
 * form. Masked scores get a large negative number added, not -inf: queries whose keys are all
 * masked then attend to all equally, as in ONNX Runtime.
 *
 * Texts here read q, k, v: rows, or heads [b, n, t, size]; past_key and past_value; mask; bias,
 * which is added to the scores. All but the first three may be absent.
 */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>

/* The dimension of the keys' sequence. */
static uint32_t
key_axis(Call *k)
{
    return call_type(k, "k")->rank == 4 ? 2 : 1;
}

/* The meaning of a mask of rank 1, by its length compared to the batch b; begin: where each
 * sequence begins. */
static const char *
list_text(Call *k)
{
    Ctx *c = k->c;
    const Expr *n = call_type(k, "mask")->dim[0], *batch = call_type(k, "q")->dim[0];

    if (expr_eq(c, NULL, n, batch) == YES) /* key j of a sequence is visible below its length */
        return "begin = absent";
    if (expr_eq(c, NULL, n, expr_scale(c, batch, 2)) == YES) /* lengths, then begins */
        return "begin = slice(length, b, b * 2, [0])\n"
               "length = slice(length, [0], b, [0])";
    if (expr_eq(c, NULL, n, expr_offset(c, expr_scale(c, batch, 3), 2)) == YES)
        return "begin = absent\n" /* lengths, then their running sums */
               "length = slice(length, [0], b, [0])";
    return "bounds = shape(mask) == b * 2\n" /* one of the first two, which the run finds out */
           "i = iota(b)\n"
           "at = i + where(bounds, b, [0])\n"
           "begin = where(bounds, gather(length, at), [0])\n"
           "length = gather(length, i)";
}

/* seen: bool of rank 4. The mask has lengths, or numbers that are positive for what is visible: for
 * keys [b, t], for queries and keys [b, s, t], or for a longest sequence [b, 1, m, m], whose first
 * t rows end with those of the queries. */
static bool
read_mask(Call *k)
{
    const Type *t = call_type(k, "mask");

    if (t->rank < 1 || t->rank > 4)
        return call_refuse(k, "%s with a mask of type %s", k->proto->op_type, type_str(k->c, t));
    if (t->rank == 1)
        return call_text(k,
                         "b = shape(q)[0]\n"
                         "length = i64(mask)\n"
                         "%s\n"
                         "j = range(0, total, 1)\n"
                         "seen = j < unsqueeze(length, [1])\n"
                         "begin? seen = seen && j >= unsqueeze(begin, [1])\n"
                         "seen = unsqueeze(seen, [1, 2])",
                         list_text(k));
    return call_text(k, "seen = %s\n%s", t->dtype == DT_BOOL ? "mask" : "mask > 0",
                     t->rank == 2   ? "seen = unsqueeze(seen, [1, 2])"
                     : t->rank == 3 ? "seen = unsqueeze(seen, [1])"
                                    : "keys = unsqueeze(total, [0])\n"
                                      "seen = slice(seen, keys - shape(q)[1], keys, [2])\n"
                                      "seen = slice(seen, [0], keys, [3])");
}

/* A mask of one number for all keys of a sequence adds the same to all scores, which has no
 * effect. */
static bool
hides_nothing(Call *k)
{
    const Type *t = call_type(k, "mask");

    return t->rank == 2 && expr_is(t->dim[1], 1) &&
           (call_value(k, "past_key") || !expr_is(call_type(k, "k")->dim[key_axis(k)], 1));
}

/* added: what is added to the scores. Query i attends to the new keys up to i and to the complete
 * past, each row of which attends to those before it; the last one attends to all, as in ONNX
 * Runtime, even if there are more keys than queries. */
static bool
scores_of_mask(Call *k, bool masked, bool causal)
{
    call_number(k, "masked", masked);
    call_number(k, "causal", causal);
    call_number(k, "either", masked || causal);
    call_number(k, "key_axis", key_axis(k));
    return call_text(k, "$either? fresh = shape(k)[$key_axis]\n"
                        "$either? all = fresh\n"
                        "$either? past_key? all = all + shape(past_key)[2]\n"
                        "$either? total = squeeze(all)\n"
                        "added = absent") &&
           (!masked || read_mask(k)) &&
           call_text(k, "$masked? added = where(seen, like(0, q), "
                        "like($mask_filter_value:-10000.0, q))\n"
                        "$causal? !added? added = like(0, q)\n"
                        "$causal? queries = shape(q)[1]\n"
                        "$causal? i = unsqueeze(iota(queries), [1])\n"
                        "$causal? j = range(0, total, 1)\n"
                        "$causal? seen = j <= i + (unsqueeze(total, [0]) - fresh)\n"
                        "$causal? seen = seen || i == queries - 1\n"
                        "$causal? added = where(seen, added, like(-inf, q))\n"
                        "bias? added? added = added + bias\n"
                        "!added? added = bias");
}

/* y: rows, present_key, present_value; and scores, with the added terms, if the node has output
 * 3. */
static bool
attend(Call *k)
{
    bool apart = key_axis(k) == 2, causal = get_int(k, "unidirectional", 0) != 0;
    bool square =
        expr_eq(k->c, NULL, call_type(k, "q")->dim[1], call_type(k, "k")->dim[key_axis(k)]) == YES;
    const char *parts[] = { causal && square ? "is_causal = 1" : "is_causal = 0",
                            get_float(k, "scale", 0) != 0 ? ", scale = $scale" : "",
                            apart ? "" : ", q_num_heads = $num_heads, kv_num_heads = $num_heads",
                            k->nout > 3 ? ", qk_matmul_output_mode = 2" : "" };

    call_number(k, "apart", apart);
    return scores_of_mask(k, call_value(k, "mask") && !hides_nothing(k), causal && !square) &&
           call_text(k,
                     "$apart? q = reshape(q, [0, 0, $num_heads, -1])\n"
                     "$apart? q = transpose(q) {perm = [0, 2, 1, 3]}\n"
                     "y, present_key, present_value%s = "
                     "attention(q, k, v, added, past_key, past_value) {%s%s%s%s}\n"
                     "$apart? y = transpose(y) {perm = [0, 2, 1, 3]}\n"
                     "$apart? y = reshape(y, [0, 0, -1])",
                     k->nout > 3 ? ", scores" : "", parts[0], parts[1], parts[2], parts[3]);
}

/* q may contain k and v, or k may contain v: [b, s, n, parts, size]. */
static bool
part_rows(Call *k)
{
    bool of_query = !call_value(k, "k") && !call_value(k, "v"),
         of_key = call_value(k, "k") && !call_value(k, "v");

    if (of_query && call_type(k, "q")->rank == 5)
        return call_text(k, "k = reshape(gather(q, 1) {axis = 3}, [0, 0, -1])\n"
                            "v = reshape(gather(q, 2) {axis = 3}, [0, 0, -1])\n"
                            "q = reshape(gather(q, 0) {axis = 3}, [0, 0, -1])");
    return !of_key || call_type(k, "k")->rank != 5 ||
           call_text(k, "v = reshape(gather(k, 1) {axis = 3}, [0, 0, -1])\n"
                        "k = reshape(gather(k, 0) {axis = 3}, [0, 0, -1])");
}

bool
add_row_bias(Call *k, uint32_t n)
{
    static const char *const rows[] = { "q", "k", "v" };
    int64_t at = 0, size;

    for (uint32_t i = 0; call_value(k, "row_bias") && i < n; i++, at += size) {
        const Type *t = call_type(k, rows[i]);
        if (!expr_const(t->dim[t->rank - 1], &size))
            return call_refuse(k, "%s with a bias for sizes that are not known", k->proto->op_type);
        call_text(k, "%s = %s + slice(row_bias, [%" PRId64 "], [%" PRId64 "], [-1])", rows[i],
                  rows[i], at, at + size);
    }
    return !k->failed;
}

bool
convert_multi_head(Call *k)
{
    if (!call_names(k, "q ? k v row_bias mask bias past_key past_value !length !beams "
                       "-> y present_key present_value scores") ||
        !part_rows(k))
        return false;
    const Type *q = call_type(k, "q"), *keys = call_type(k, "k"), *v = call_type(k, "v");
    if (!keys || !v || q->rank != 3 || keys->rank != v->rank ||
        (keys->rank != 3 && keys->rank != 4) ||
        !call_value(k, "past_key") != !call_value(k, "past_value"))
        return call_refuse(k, "MultiHeadAttention of queries, keys and values of other ranks than "
                              "3, 4 or 5, or of half a past");
    return add_row_bias(k, keys->rank == 4 ? 1 : 3) && attend(k);
}

bool
call_three_parts(Call *k, const Type *rows, const char *what, int64_t wide[3])
{
    const Attr *sizes = call_attr(k, "qkv_hidden_sizes");
    const int64_t all = expr_or(rows->dim[rows->rank - 1], 0);

    for (uint32_t i = 0; i < 3; i++)
        wide[i] = sizes && sizes->kind == ATTR_INTS && sizes->n == 3 ? sizes->ints[i] : all / 3;
    if (wide[0] < 1 || wide[2] < 1 || wide[0] != wide[1] || wide[0] > all || wide[2] > all ||
        2 * wide[0] + wide[2] != all)
        return call_wrong(
            k, "%s of %lld columns do not hold queries, keys and values of %lld, %lld and %lld",
            what, (long long)all, (long long)wide[0], (long long)wide[1], (long long)wide[2]);
    call_number(k, "queries", wide[0]);
    call_number(k, "keys", 2 * wide[0]);
    call_number(k, "columns", all);
    return call_text(k, "q = slice(rows, [0], [$queries], [-1])\n"
                        "k = slice(rows, [$queries], [$keys], [-1])\n"
                        "v = slice(rows, [$keys], [$columns], [-1])");
}

/* rows[b, s, all]: adjacent queries, keys and values; past and present hold keys and values, [2, b,
 * n, p, size]. */
static bool
attend_packed(Call *k)
{
    const Type *rows = call_type(k, "rows");
    int64_t wide[3];

    if (rows->rank != 3 || !expr_const(rows->dim[2], NULL))
        return call_refuse(k, "%s of %s; rows [b, s, n] of known width are needed",
                           k->proto->op_type, type_str(k->c, rows));
    if (!call_three_parts(k, rows, "weights", wide) ||
        !call_text(k, "past_key = absent\n"
                      "past_value = absent\n"
                      "past? past_key = gather(past, 0)\n"
                      "past? past_value = gather(past, 1)") ||
        !attend(k))
        return false;
    if (k->nout < 2)
        return true;
    if (wide[0] != wide[2])
        return call_wrong(k,
                          "%s cannot give keys of %lld numbers and values of %lld as one output "
                          "(\"%s\"); leave that output out",
                          k->proto->op_type, (long long)wide[0], (long long)wide[2],
                          k->proto->output[1]);
    return call_text(k, "present = [unsqueeze(present_key, [0]), unsqueeze(present_value, [0])]");
}

/* q, k and v are x w + row_bias. */
bool
convert_packed_attention(Call *k)
{
    return call_names(k, "x w ? row_bias mask past bias !length -> y present") &&
           call_text(k, "rows = matmul(x, w)\n"
                        "row_bias? rows = rows + row_bias") &&
           attend_packed(k);
}

bool
convert_quantised_attention(Call *k)
{
    return call_names(k, "x w row_bias x_scale w_scale ? mask x_zero w_zero past -> y present") &&
           call_text(k, "rows = like(matmul_integer(x, w, x_zero, w_zero), x_scale)\n"
                        "rows = rows * (x_scale * w_scale)\n"
                        "rows = rows + row_bias\n"
                        "bias = absent") &&
           attend_packed(k);
}
