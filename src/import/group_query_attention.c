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

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COSINE, SINE };

/* `name`, rows [b, s, n*size], rotated by the positions of its tokens, as [b, n, s, size]. */
static bool
by_heads(Cached *a, const char *name, int64_t heads)
{
    call_fact(a->k, "name", name);
    call_number(a->k, "n", heads);
    return (*name == 'v' ||
            call_text(a->k, "$do_rotary? $name = rotary_embedding($name, cosine, sine, turned_by) "
                            "{num_heads = $n, interleaved = $rotary_interleaved:0, "
                            "rotary_embedding_dim = $turned}")) &&
           call_text(a->k, "$name = reshape($name, [batch, tokens, $n, $size])\n"
                           "$name = transpose($name) {perm = [0, 2, 1, 3]}");
}

/* The cache after this run: the past, extended to its new length, with the new rows `name` written
 * and zeros after them. */
static bool
present(Cached *a, const char *name)
{
    call_fact(a->k, "name", name);
    call_fact(a->k, "past",
              !call_value(a->k, "past_key") ? ""
              : *name == 'k'                ? "past_key"
                                            : "past_value");
    if (a->kept)
        return call_text(a->k, "present_$name = concat($past, $name) {axis = 2}");
    return call_text(a->k,
                     "$past? more = length - shape($past)[2]\n"
                     "$past? room = pad($past, [0, 0, 0, 0, 0, 0, more, 0])\n"
                     "$past? room = where(held, room, like(0, room))\n"
                     "!$past? room = expand(like(0, $name), [batch, $shared, length, $size])\n"
                     "present_$name = tensor_scatter(room, $name, begin) {axis = 2}");
}

/* seen: is a key in a block that its row's block attends to? bool[b, 1 or heads, s, length]: rows
 * of the layout's blocks become rows of tokens, padded to the cache's length; keys beyond the
 * layout are masked. A block's index is a quotient, no computed index. Rows are contiguous, so that
 * tables of the mask (normalise/block_mask.c) are computed in vectors of them. A row beyond the
 * layout counts as in its last block; runs report such rows as an error. */
static bool
see_by_layout(Call *k)
{
    return call_text(k, "last = shape(layout)[1] - 1\n"
                        "row = min(places / $sparse_block_size, last)\n"
                        "by_row = gather(transpose(layout) {perm = [0, 2, 1]}, row) {axis = 2}\n"
                        "by_row = transpose(by_row) {perm = [2, 0, 1, 3]}\n"
                        "all = shape(by_row)[2] * $sparse_block_size\n"
                        "each = expand(unsqueeze(by_row, [3]), [1, 1, 1, $sparse_block_size, 1])\n"
                        "each = reshape(each, [0, 0, all, tokens])\n"
                        "each = pad(each, [0, 0, 0, 0, 0, 0, length - all, 0])\n"
                        "seen = seen && transpose(each) {perm = [0, 1, 3, 2]}");
}

/* seen: bool, or numbers to be added to the scores: does token i of sequence b attend to position
 * j; -inf elsewhere. */
static bool
see(Call *k)
{
    const Type *bias = call_type(k, "bias");

    call_number(k, "windowed", get_int(k, "local_window_size", -1) > 0);
    if (bias && bias->dtype != call_type(k, "q")->dtype)
        return call_refuse(k, "a bias of scores of another type than the query");
    return call_text(k, "j = iota(length)\n"
                        "i = unsqueeze(unsqueeze(places, [1]), [-1])\n"
                        "seen = j <= i\n"
                        "$windowed? seen = seen && i < j + $local_window_size") &&
           (!call_value(k, "layout") || see_by_layout(k)) &&
           call_text(k, "bias? seen = where(seen, bias, like(-inf, bias))");
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
    ValueId known = v && !k->m->g->value.at[v].known.at ? call_match(k, v, NULL) : v;

    if (!known)
        return false;
    const Expr *is = k->m->g->value.at[known].known.at[0];
    const char *why = arena_printf(k->c->arena, "%s: %s, and rows of a cache that is a state",
                                   k->proto->op_type, what);
    return model_require(k->m, is, said, why) ||
           call_wrong(k, "%s %s, and the cache, which is a state, has %s rows with the new ones",
                      what, expr_str(k->c, is), expr_str(k->c, said));
}

/* The new rows are appended to the past: all sequences have the same length, and the lengths must
 * agree. */
static bool
come_behind(Cached *a)
{
    Call *k = a->k;
    const Expr *all = expr_add(k->c, call_type(k, "past_key")->dim[2], call_type(k, "k")->dim[1]);

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
    call_number(a->k, "fixed", a->fixed);
    return call_text(a->k,
                     "room = absent\n"
                     "past_key? room = shape(past_key)[2]\n"
                     "begin = where(total == tokens, 0, lengths - tokens)\n"
                     "$fixed? demand total <= room \"the total length is larger than the cache\"\n"
                     "$fixed? length = room\n"
                     "!$fixed? room? total = max(total, room)\n"
                     "!$fixed? length = match(total)");
}

bool
cached_rows(Cached *a, const char *names)
{
    Call *k = a->k;

    if (!call_names(k, "q[_, _, #wide]"))
        return false;
    if (!call_in(k, KEY) != !call_in(k, VALUE) || !call_in(k, PAST_KEY) != !call_in(k, PAST_VALUE))
        return call_refuse(k, "keys and values, and those of the past, come together");
    a->heads = get_int(k, "num_heads", 0);
    a->shared = get_int(k, "kv_num_heads", 0);
    const int64_t wide = call_known(k, "wide");
    if (a->heads > wide || a->shared > wide)
        return call_wrong(k,
                          "the query has %" PRId64 " columns for %" PRId64
                          " heads of queries and %" PRId64 " of keys; each has one at least",
                          wide, a->heads, a->shared);
    const int64_t per = call_in(k, KEY) ? a->heads : a->heads + 2 * a->shared;
    a->size = wide / per;
    if (a->heads % a->shared)
        return call_wrong(
            k, "%" PRId64 " heads of queries are no multiple of the %" PRId64 " heads of keys",
            a->heads, a->shared);
    if (wide % per)
        return call_wrong(k, "the query has %" PRId64 " columns for %" PRId64 " heads", wide, per);
    call_size(k, "shared", expr_int(k->c, a->shared));
    call_size(k, "size", expr_int(k->c, a->size));
    call_number(k, "keys", a->heads * a->size);
    call_number(k, "values", (a->heads + a->shared) * a->size);
    return call_names(k, names) && call_text(k, "all = q\n"
                                                "!k? q = slice(all, [0], [$keys], [-1])\n"
                                                "!k? v = slice(all, [$values], [$wide], [-1])\n"
                                                "!k? k = slice(all, [$keys], [$values], [-1])");
}

/* Texts with the number of columns that the tables of rotations turn. */
static bool
read_rotary(Cached *a)
{
    Call *k = a->k;
    const Type *cosine = call_type(k, "cosine");
    int64_t half = 0;

    if (get_int(k, "do_rotary", 0) && (!cosine || !call_value(k, "sine") || cosine->rank != 2 ||
                                       !expr_const(cosine->dim[1], &half)))
        return call_refuse(k, "%s that turns by tables whose width is not known",
                           k->proto->op_type);
    call_number(k, "turned", 2 * half == a->size ? 0 : 2 * half);
    return true;
}

bool
cached_attend(Cached *a)
{
    Call *k = a->k;
    const double scale = get_float(k, "scale", 0), cap = get_float(k, "softcap", 0);
    const ValueId past_key = call_value(k, "past_key"), past_value = call_value(k, "past_value");

    a->kept = past_key && is_state(k, past_key) && is_state(k, past_value);
    call_number(k, "listed", call_type(k, "lengths")->rank == 1);
    call_number(k, "kept", a->kept);
    call_fact(k, "attrs",
              scale != 0 && cap != 0 ? "scale = $scale, softcap = $softcap"
              : scale != 0           ? "scale = $scale"
              : cap != 0             ? "softcap = $softcap"
                                     : "");
    return read_rotary(a) &&
           call_text(k, "batch = shape(q)[0]\n"
                        "tokens = shape(q)[1]\n"
                        "total = reshape(total, [1])\n"
                        "!$listed? lengths = reshape(lengths, [-1])") &&
           (a->kept ? come_behind(a) : come_at_lengths(a)) &&
           call_text(
               k, "places = unsqueeze(begin, [1]) + iota(tokens)\n" /* [b, s] */
                  "!turned_by? turned_by = places\n"
                  "!$kept? held = unsqueeze(iota(length), [-1]) < unsqueeze(begin, [1, 2, 3])") &&
           by_heads(a, "k", a->shared) && present(a, "k") && by_heads(a, "v", a->shared) &&
           present(a, "v") && by_heads(a, "q", a->heads) && see(k) &&
           call_text(k, "y = attention(q, present_k, present_v, seen) {$attrs}\n"
                        "y = transpose(y) {perm = [0, 2, 1, 3]}\n"
                        "y = reshape(y, [batch, tokens, $keys])");
}

/* Lengths exclude each sequence's last token. */
bool
convert_group_query(Call *k)
{
    Cached a = { .k = k };

    if (get_int(k, "smooth_softmax", 0) == 1)
        return call_refuse(k, "GroupQueryAttention with a sink of attention");
    if (!call_in(k, LENGTHS) || !call_in(k, TOTAL))
        return call_wrong(k, "GroupQueryAttention needs lengths and their total");
    if (!cached_rows(&a, "q[b, s, _] ? k v past_key past_value lengths total cosine sine turned_by "
                         "bias !sink -> y present_k present_v") ||
        !call_text(k, "layout = absent\nlengths = i64(lengths) + 1"))
        return false;
    call_name(k, "total", call_int_list(k, call_in(k, TOTAL)));
    return cached_attend(&a);
}
