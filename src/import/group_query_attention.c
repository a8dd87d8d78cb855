/* group_query_attention: GroupQueryAttention of ONNX Runtime, in decoders of language models, and
 * what similar operators share (cached_attention.h): heads of keys in groups, a cache that may be
 * longer than its contents, and the number of valid rows of each sequence of the batch.
 *
 *     total        length of the longest sequence with the new tokens; in the first run, without a
 *                  past, only new tokens
 *     begin[b]     position of sequence b's first new token: after its past, 0 in the first run
 *
 * The new keys are written into the cache there (tensor_scatter), tokens are rotated by their
 * positions (rotary_embedding), and token i attends to positions up to begin[b] + i.
 *
 * A cache that is a state (--state) has as many rows as there were tokens: the new ones are
 * appended, for all sequences of the batch, and it grows in place like a Concat. Runs check that
 * the lengths agree.
 */
#include "import/cached_attention.h"
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COSINE, SINE, PLACES, BIAS, SINK };

/* `name`, rows [b, s, n*size], rotated by the positions of its tokens, as [b, n, s, size]. */
static bool
by_heads(Cached *a, const char *name, int64_t heads, bool turns)
{
    Call *k = a->k;
    const Type *cosine = value_type(k, call_value(k, "cosine"));
    int64_t half;

    if (turns && get_int(k, "do_rotary", 0)) {
        if (!cosine || !call_value(k, "sine") || cosine->rank != 2 ||
            !expr_const(cosine->dim[1], &half))
            return call_refuse(k, "%s that turns by tables whose width is not known",
                               k->proto->op_type);
        if (!call_text(k,
                       "%s = rotary_embedding(%s, cosine, sine, turned_by) {num_heads = %" PRId64
                       ", interleaved = %" PRId64 ", rotary_embedding_dim = %" PRId64 "}",
                       name, name, heads, get_int(k, "rotary_interleaved", 0),
                       2 * half == a->size ? 0 : 2 * half))
            return false;
    }
    return call_text(k,
                     "%s = reshape(%s, [batch, tokens, %" PRId64 ", %" PRId64 "])\n"
                     "%s = transpose(%s) {perm = [0, 2, 1, 3]}",
                     name, name, heads, a->size, name, name);
}

/* The cache after this run: the past, extended to its new length, with the new rows `name` written
 * and zeros after them. */
static bool
present(Cached *a, const char *name, const char *past)
{
    Call *k = a->k;

    if (a->kept)
        return call_text(k, "present_%s = concat(%s, %s) {axis = 2}", name, past, name);
    return (call_value(k, past)
                ? call_text(k,
                            "more = length - shape(%s)[2]\n"
                            "room = pad(%s, [0, 0, 0, 0, 0, 0, more, 0])\n"
                            "room = where(held, room, like(0, room))",
                            past, past)
                : call_text(k,
                            "room = expand(like(0, %s), [batch, %" PRId64 ", length, %" PRId64 "])",
                            name, a->shared, a->size)) &&
           call_text(k, "present_%s = tensor_scatter(room, %s, begin) {axis = 2}", name, name);
}

/* seen: is a key in a block that its row's block attends to? bool[b, 1 or heads, s, length]: rows
 * of the layout's blocks become rows of tokens, padded to the cache's length; keys beyond the
 * layout are masked. A block's index is a quotient, no computed index. Rows are contiguous, so that
 * tables of the mask (normalise/block_mask.c) are computed in vectors of them. A row beyond the
 * layout counts as in its last block; runs report such rows as an error. */
static bool
see_by_layout(Cached *a)
{
    return call_text(a->k,
                     "last = shape(layout)[1] - 1\n"
                     "row = min(places / %" PRId64 ", last)\n"
                     "by_row = gather(transpose(layout) {perm = [0, 2, 1]}, row) {axis = 2}\n"
                     "by_row = transpose(by_row) {perm = [2, 0, 1, 3]}\n"
                     "all = shape(by_row)[2] * %" PRId64 "\n"
                     "each = expand(unsqueeze(by_row, [3]), [1, 1, 1, %" PRId64 ", 1])\n"
                     "each = reshape(each, [0, 0, all, tokens])\n"
                     "each = pad(each, [0, 0, 0, 0, 0, 0, length - all, 0])\n"
                     "seen = seen && transpose(each) {perm = [0, 1, 3, 2]}",
                     a->block, a->block, a->block);
}

/* seen: bool, or numbers to be added to the scores: does token i of sequence b attend to position
 * j; -inf elsewhere. */
static bool
see(Cached *a)
{
    Call *k = a->k;
    const Type *bias = value_type(k, call_value(k, "bias")), *q = value_type(k, call_value(k, "q"));
    int64_t window = get_int(k, "local_window_size", -1);

    if (!call_text(k, "j = iota(length)\n"
                      "i = unsqueeze(unsqueeze(places, [1]), [-1])\n"
                      "seen = j <= i") ||
        (window > 0 && !call_text(k, "seen = seen && i < j + %" PRId64, window)) ||
        (call_value(k, "layout") && !see_by_layout(a)))
        return false;
    if (bias && bias->dtype != q->dtype)
        return call_refuse(k, "a bias of scores of another type than the query");
    return call_text(k, "bias? seen = where(seen, bias, like(-inf, bias))");
}

/* ---- a cache that is a state ----------------------------------------------------------------- */

static bool
is_state(const Call *k, ValueId v)
{
    const Model *m = k->m;

    for (uint32_t i = 0; m->is_state && m->from == m->proto->graph && i < m->g->input.n; i++)
        if (m->g->input.at[i] == v)
            return m->is_state(m->user, m->g->value.at[v].name);
    return false;
}

/* Requires v[1] to be `said`: proved, or checked in runs. */
static bool
require(Call *k, ValueId v, const Expr *said, const char *what)
{
    Ctx *c = k->m->c;
    ValueId known = v && !k->m->g->value.at[v].known.at ? call_match(k, v, NULL) : v;

    if (!known)
        return false;
    const Expr *is = k->m->g->value.at[known].known.at[0];
    const char *why = arena_printf(c->arena, "%s: %s, and rows of a cache that is a state",
                                   k->proto->op_type, what);
    return model_require(k->m, is, said, why) ||
           call_wrong(k, "%s %s, and the cache, which is a state, has %s rows with the new ones",
                      what, expr_str(c, is), expr_str(c, said));
}

/* The new rows are appended to the past: all sequences have the same length, and the lengths must
 * agree. */
static bool
come_behind(Cached *a)
{
    Call *k = a->k;
    const Expr *all = expr_add(k->m->c, value_type(k, call_value(k, "past_key"))->dim[2],
                               value_type(k, call_value(k, "k"))->dim[1]);

    return call_text(k, "begin = shape(past_key)[2]\n"
                        "length = begin + tokens\n"
                        "least = reduce_min(lengths, [0])\n"
                        "most = reduce_max(lengths, [0])") &&
           require(k, call_value(k, "total"), all, "the total length") &&
           require(k, call_value(k, "least"), all, "the shortest sequence") &&
           require(k, call_value(k, "most"), all, "the longest sequence");
}

/* The new rows are at the positions that the lengths give, in a cache as long as the longest
 * sequence or the past, whichever is longer. */
static bool
come_at_lengths(Cached *a)
{
    return call_text(a->k,
                     "room = absent\n"
                     "past_key? room = shape(past_key)[2]\n"
                     "begin = where(total == tokens, 0, lengths - tokens)\n"
                     "%s",
                     a->fixed
                         ? "demand total <= room \"the total length is larger than the cache\"\n"
                           "length = room"
                         : "room? total = max(total, room)\n"
                           "length = match(total)");
}

static bool
refuse_what_is_not_there(Call *k)
{
    if (call_in(k, SINK) || get_int(k, "smooth_softmax", 0) == 1)
        return !call_refuse(k, "GroupQueryAttention with a sink of attention");
    if (get_int(k, "kv_cache_bit_width", 0) || get_int(k, "qk_output", 0))
        return !call_refuse(k,
                            "GroupQueryAttention with a quantised cache or its scores as output");
    if (!call_in(k, QUERY) || !call_in(k, LENGTHS) || !call_in(k, TOTAL) ||
        !call_in(k, KEY) != !call_in(k, VALUE) || !call_in(k, PAST_KEY) != !call_in(k, PAST_VALUE))
        return !call_refuse(k, "GroupQueryAttention needs a query, lengths and their total; keys "
                               "and values, and those of the past, come together");
    return false;
}

bool
cached_rows(Cached *a)
{
    Call *k = a->k;
    Ctx *c = k->m->c;
    const Type *q = input_type(k, QUERY);
    int64_t wide, per;

    a->heads = get_int(k, "num_heads", 0);
    a->shared = get_int(k, "kv_num_heads", 0);
    if (q->rank != 3 || !expr_const(q->dim[2], &wide) || a->heads < 1 || a->shared < 1)
        return call_refuse(k, "%s of %s; rows [b, s, heads * size] of known width are needed",
                           k->proto->op_type, type_str(c, q));
    per = call_in(k, KEY) ? a->heads : a->heads + 2 * a->shared;
    a->size = wide / per;
    if (wide % per)
        return call_wrong(k, "the query has %lld columns for %lld heads", (long long)wide,
                          (long long)per);
    int64_t keys = a->heads * a->size, values = keys + a->shared * a->size;
    return call_text(k,
                     "all = q\n"
                     "!k? q = slice(all, [0], [%" PRId64 "], [-1])\n"
                     "!k? v = slice(all, [%" PRId64 "], [%" PRId64 "], [-1])\n"
                     "!k? k = slice(all, [%" PRId64 "], [%" PRId64 "], [-1])",
                     keys, values, wide, keys, values);
}

bool
cached_attend(Cached *a)
{
    Call *k = a->k;
    const double scale = get_float(k, "scale", 0), cap = get_float(k, "softcap", 0);
    const ValueId past_key = call_value(k, "past_key"), past_value = call_value(k, "past_value");

    a->kept = past_key && is_state(k, past_key) && is_state(k, past_value);
    if (!call_text(k,
                   "batch = shape(q)[0]\n"
                   "tokens = shape(q)[1]\n"
                   "total = reshape(total, [1])\n"
                   "%s",
                   value_type(k, call_value(k, "lengths"))->rank == 1
                       ? ""
                       : "lengths = reshape(lengths, [-1])") ||
        !(a->kept ? come_behind(a) : come_at_lengths(a)) ||
        !call_text(k, "places = unsqueeze(begin, [1]) + iota(tokens)\n" /* [b, s] */
                      "!turned_by? turned_by = places") ||
        (!a->kept &&
         !call_text(k, "held = unsqueeze(iota(length), [-1]) < unsqueeze(begin, [1, 2, 3])")) ||
        !by_heads(a, "k", a->shared, true) || !present(a, "k", "past_key") ||
        !by_heads(a, "v", a->shared, false) || !present(a, "v", "past_value") ||
        !by_heads(a, "q", a->heads, true) || !see(a))
        return false;
    return call_text(k,
                     "y = attention(q, present_k, present_v, seen) {%s%s%s}\n"
                     "y = transpose(y) {perm = [0, 2, 1, 3]}\n"
                     "y = reshape(y, [batch, tokens, %" PRId64 "])",
                     scale != 0 ? arena_printf(k->m->arena, "scale = %a", scale) : "",
                     scale != 0 && cap != 0 ? ", " : "",
                     cap != 0 ? arena_printf(k->m->arena, "softcap = %a", cap) : "",
                     a->heads * a->size);
}

/* Lengths exclude each sequence's last token. */
bool
convert_group_query(Call *k)
{
    Cached a = { .k = k };

    if (refuse_what_is_not_there(k) ||
        !call_names(k, "q ? k v past_key past_value lengths total cosine sine turned_by bias "
                       "-> y present_k present_v") ||
        !cached_rows(&a) || !call_text(k, "layout = absent\nlengths = i64(lengths) + 1"))
        return false;
    call_name(k, "total", call_int_list(k, call_in(k, TOTAL)));
    return cached_attend(&a);
}
