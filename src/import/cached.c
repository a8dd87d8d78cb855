/* cached: GroupQueryAttention of ONNX Runtime, as decoders of language models are written, and what
 * operators like it share (cached.h): heads of keys in groups, a cache that may be longer than what
 * it holds, and for each sequence of the batch how much that is.
 *
 *     total        how long the longest sequence is with the new tokens; the first run, without a
 *     past, has nothing else begin[b]     where the new tokens of sequence b stand: behind its
 *     past, at 0 in the first run
 *
 * The new keys are written into the cache there (tensor_scatter), tokens are turned by their places
 * (rotary_embedding), and token i sees places up to begin[b] + i.
 *
 * A cache that a session keeps (--state) has as many rows as there were tokens: the new ones come
 * behind them, for all sequences of the batch, and it grows in place as a Concat's does. That the
 * lengths say the same is checked as it runs.
 */
#include "import/cached.h"
#include "import/little.h"

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COSINE, SINE, PLACES, BIAS, SINK };

/* [b, s, n, size] as [b, n, s, size], and back. */
static const int64_t heads_and_rows[] = { 0, 2, 1, 3 };

static ValueId
reshaped(Call *k, ValueId x, uint32_t n, const ValueId *sizes)
{
    return little_2(k, OP_reshape, x, little_axis(k, OP_concat, 0, n, sizes));
}

/* x[b, s, n*size] turned by the places of its tokens. */
static ValueId
turn(Cached *a, ValueId x, int64_t heads, ValueId places)
{
    Call *k = a->k;
    int64_t half;
    Attr attr[3] = { { .name = sym(k->m->c, "num_heads"), .kind = ATTR_INT, .i = heads },
                     { .name = sym(k->m->c, "interleaved"),
                       .kind = ATTR_INT,
                       .i = get_int(k, "rotary_interleaved", 0) },
                     { .name = sym(k->m->c, "rotary_embedding_dim"), .kind = ATTR_INT } };
    const ValueId v[] = { x, a->cosine, a->sine, places };

    if (!get_int(k, "do_rotary", 0) || !x || !places)
        return x;
    if (!v[1] || !v[2] || value_type(k, v[1])->rank != 2 ||
        !expr_const(value_type(k, v[1])->dim[1], &half))
        return (ValueId)call_refuse(k, "%s that turns by tables whose width is not known",
                                    k->proto->op_type);
    attr[2].i = 2 * half == a->size ? 0 : 2 * half;
    return call_some(k, OP_rotary_embedding, 3, attr, 4, v);
}

/* x[b, s, n*size] as [b, n, s, size] */
static ValueId
by_heads(Cached *a, ValueId x, int64_t heads)
{
    Call *k = a->k;
    const ValueId sizes[] = { a->batch, a->tokens, little_single(k, heads),
                              little_single(k, a->size) };
    ValueId rows = x ? reshaped(k, x, 4, sizes) : 0;

    return little_transpose(k, rows, 4, heads_and_rows);
}

/* What is there after this run: what the past holds, as long as it has to be, with the new rows in
 * place and nothing behind. */
static ValueId
present(Cached *a, ValueId past, ValueId fresh, uint32_t output)
{
    Call *k = a->k;
    Attr axis = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = 2 };
    ValueId room = past;

    if (!fresh)
        return 0;
    if (a->kept) {
        ValueId rows = little_axis(k, OP_concat, 2, 2, (ValueId[]){ past, fresh });
        call_bind(k, output, rows);
        return rows;
    }
    if (!past) {
        Attr zero = { .name = sym(k->m->c, "to"),
                      .kind = ATTR_STRING,
                      .s = sym(k->m->c, dtype_info[value_type(k, fresh)->dtype].name) };
        ValueId number = little_number(k, 0),
                none = call_op(k, OP_cast, 1, &zero, 1, &number, "none");
        const ValueId sizes[] = { a->batch, little_single(k, a->shared), a->length,
                                  little_single(k, a->size) };
        room = little_2(k, OP_expand, none, little_axis(k, OP_concat, 0, 4, sizes));
    } else {
        const int64_t none[] = { 0, 0, 0, 0, 0, 0 };
        ValueId more = little_2(k, OP_sub, a->length, little_element(k, little_shape(k, past), 2));
        const ValueId pad[] = { little_list(k, 6, none), more, little_single(k, 0) };
        ValueId pads = little_axis(k, OP_concat, 0, 3, pad);
        room = pads ? little_2(k, OP_pad, past, pads) : 0;
        room = room ? little_3(k, OP_where, a->held, room, scalar_const(k, "nothing", room, 0)) : 0;
    }
    const ValueId v[] = { room, fresh, a->begin };
    ValueId all = room ? call_some(k, OP_tensor_scatter, 1, &axis, 3, v) : 0;
    call_bind(k, output, all);
    return all;
}

/* x[b, heads, blocks, s]: each block as the tokens in it, and then as many of them as the cache has
 * rows; what is behind the layout is hidden. A block's index is a quotient, no place from data. */
static ValueId
tokens_of_blocks(Cached *a, ValueId x)
{
    Call *k = a->k;
    const int64_t inside = 3, each[] = { 1, 1, 1, a->block, 1 };
    const int64_t as_before[] = { 0, 0 }, before[] = { 0, 0, 0, 0, 0, 0 };
    ValueId blocks = little_element(k, little_shape(k, x), 2);
    ValueId all = blocks ? little_2(k, OP_mul, blocks, little_single(k, a->block)) : 0;
    ValueId more = all ? little_2(k, OP_sub, a->length, all) : 0;
    ValueId one = little_unsqueeze(k, x, inside);
    ValueId many = one && more ? little_2(k, OP_expand, one, little_list(k, 5, each)) : 0;
    const ValueId size[] = { little_list(k, 2, as_before), all, a->tokens };
    const ValueId pad[] = { little_list(k, 6, before), more, little_single(k, 0) };
    ValueId row = many ? reshaped(k, many, 3, size) : 0;

    return row ? little_2(k, OP_pad, row, little_axis(k, OP_concat, 0, 3, pad)) : 0;
}

/* bool[b, 1 or heads, s, length]: is a key in a block that its row's block sees? Rows are next to
 * each other in memory: tables of the mask (normalise/mask.c) are made in vectors of them. A row
 * behind the layout counts as in its last block; who has such rows is told that they do not fit. */
static ValueId
in_layout(Cached *a, ValueId places)
{
    Call *k = a->k;
    const int64_t by_columns[] = { 0, 2, 1 }, by_batch[] = { 2, 0, 1, 3 },
                  by_rows[] = { 0, 1, 3, 2 };
    ValueId blocks = little_element(k, little_shape(k, a->layout), 1);
    ValueId last = blocks ? little_2(k, OP_sub, blocks, little_number(k, 1)) : 0;
    ValueId row = little_2(k, OP_div, places, little_number(k, a->block));
    const ValueId in[] = { little_transpose(k, a->layout, 3, by_columns),
                           row && last ? little_2(k, OP_min, row, last) : 0 };
    ValueId seen = in[0] && in[1] ? little_axis(k, OP_gather, 2, 2, in) : 0;

    seen = little_transpose(k, seen, 4, by_batch); /* of [heads, blocks, b, s] */
    return seen ? little_transpose(k, tokens_of_blocks(a, seen), 4, by_rows) : 0;
}

/* f32 or as the scores are: 0 where token i of sequence b sees place j, -inf elsewhere; with what
 * is added to the scores. */
static ValueId
seen(Cached *a, ValueId places, DType t)
{
    Call *k = a->k;
    const int64_t head = 1, last = -1;
    int64_t window = get_int(k, "local_window_size", -1);
    ValueId zero = little_number(k, 0), one = little_number(k, 1);
    ValueId j = little_3(k, OP_range, zero, little_1(k, OP_squeeze, a->length), one);
    ValueId i = places ? little_2(k, OP_unsqueeze,
                                  little_2(k, OP_unsqueeze, places, little_list(k, 1, &head)),
                                  little_list(k, 1, &last))
                       : 0;
    ValueId mask = i && j ? little_2(k, OP_less_or_equal, j, i) : 0; /* [b, 1, s, length] */
    if (mask && window > 0)
        mask = little_2(k, OP_and, mask,
                        little_2(k, OP_less, i, little_2(k, OP_add, j, little_number(k, window))));
    if (mask && a->layout)
        mask = little_2(k, OP_and, mask, in_layout(a, places));
    if (!mask || !a->bias)
        return mask;
    if (value_type(k, a->bias)->dtype != t)
        return (ValueId)call_refuse(k, "a bias of scores of another type than the query");
    ValueId never = scalar_const(k, "never", a->bias, -__builtin_inf());
    return little_3(k, OP_where, mask, a->bias, never);
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

/* v[1] has to be what `said` is: proved, or checked as it runs. */
static bool
require(Call *k, ValueId v, const Expr *said, const char *what)
{
    Ctx *c = k->m->c;
    ValueId known = v && !k->m->g->value.at[v].known.at ? little_match(k, v, NULL) : v;

    if (!known)
        return false;
    const Expr *is = k->m->g->value.at[known].known.at[0];
    const char *why = arena_printf(c->arena, "%s: %s, and rows of a cache that is a state",
                                   k->proto->op_type, what);
    return model_require(k->m, is, said, why) ||
           diag_error(&c->diags, DIAG_MODEL, k->loc,
                      "%s %s, and the cache, which is a state, has %s rows with the new ones", what,
                      expr_str(c, is), expr_str(c, said));
}

/* The new rows come behind those of the past: all sequences have as many, and the lengths have to
 * say so. */
static bool
come_behind(Cached *a)
{
    Call *k = a->k;
    const Type *past = value_type(k, a->past[0]);
    const Expr *all = expr_add(k->m->c, past->dim[2], value_type(k, a->row[0])->dim[1]);
    ValueId axis = little_single(k, 0);

    a->begin = little_element(k, little_shape(k, a->past[0]), 2);
    a->length = a->begin ? little_2(k, OP_add, a->begin, a->tokens) : 0;
    return a->length && require(k, a->total, all, "the total length") &&
           require(k, little_2(k, OP_reduce_min, a->lengths, axis), all, "the shortest sequence") &&
           require(k, little_2(k, OP_reduce_max, a->lengths, axis), all, "the longest sequence");
}

/* The new rows are where the lengths say, in a cache as long as the longest sequence or, where that
 * is more, as the past. */
static bool
come_at_lengths(Cached *a)
{
    Call *k = a->k;
    ValueId room = a->past[0] ? little_element(k, little_shape(k, a->past[0]), 2) : 0;
    ValueId first = little_2(k, OP_equal, a->total, a->tokens);
    ValueId behind = little_2(k, OP_sub, a->lengths, a->tokens);

    if (a->fixed && !little_demand(k, little_2(k, OP_less_or_equal, a->total, room),
                                   "the total length is larger than the cache"))
        return false;
    a->length = a->fixed
                    ? room
                    : little_match(k, room ? little_2(k, OP_max, a->total, room) : a->total, NULL);
    a->begin = first && behind ? little_3(k, OP_where, first, little_number(k, 0), behind) : 0;
    return a->length && a->begin;
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
    for (uint32_t i = 0; i < 3; i++)
        a->row[i] = call_in(k, QUERY + i);
    per = a->row[1] ? a->heads : a->heads + 2 * a->shared;
    a->size = wide / per;
    if (wide % per)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "the query has %lld columns for %lld heads", (long long)wide,
                          (long long)per);
    if (!a->row[1]) {
        int64_t keys = a->heads * a->size, values = keys + a->shared * a->size;
        a->row[1] = call_columns(k, a->row[0], keys, values);
        a->row[2] = call_columns(k, a->row[0], values, wide);
        a->row[0] = call_columns(k, a->row[0], 0, keys);
    }
    return a->row[0] && a->row[1] && a->row[2];
}

/* Queries attend to the cache under the mask; scale and cap are the node's. */
static bool
attend(Cached *a, ValueId q, ValueId keys, ValueId values, ValueId mask)
{
    Call *k = a->k;
    const Attrs own = { k->attr.at, k->attr.n };
    double scale = attr_float(own, "scale", 0), cap = attr_float(own, "softcap", 0);
    Attr attr[2];
    uint32_t nattr = 0;

    if (scale != 0)
        attr[nattr++] = (Attr){ .name = sym(k->m->c, "scale"), .kind = ATTR_FLOAT, .f = scale };
    if (cap != 0)
        attr[nattr++] = (Attr){ .name = sym(k->m->c, "softcap"), .kind = ATTR_FLOAT, .f = cap };
    ValueId y = call_some(k, OP_attention, nattr, attr, 4, (ValueId[]){ q, keys, values, mask });
    ValueId rows = little_transpose(k, y, 4, heads_and_rows);
    const ValueId sizes[] = { a->batch, a->tokens, little_single(k, a->heads * a->size) };
    return finish(k, rows ? reshaped(k, rows, 3, sizes) : 0);
}

bool
cached_attend(Cached *a)
{
    Call *k = a->k;
    const int64_t flat = -1, three[] = { 1, 2, 3 };
    ValueId shape = little_shape(k, a->row[0]);

    a->batch = little_element(k, shape, 0);
    a->tokens = little_element(k, shape, 1);
    a->total = a->total ? little_2(k, OP_reshape, a->total, little_single(k, 1)) : 0;
    if (a->lengths && value_type(k, a->lengths)->rank != 1)
        a->lengths = little_2(k, OP_reshape, a->lengths, little_single(k, flat));
    a->kept = a->past[0] && is_state(k, a->past[0]) && is_state(k, a->past[1]);
    if (!a->total || !a->lengths || !(a->kept ? come_behind(a) : come_at_lengths(a)))
        return false;
    ValueId i = little_count(k, a->tokens), begin = little_unsqueeze(k, a->begin, 1);
    ValueId places = i && begin ? little_2(k, OP_add, begin, i) : 0; /* [b, s] */
    ValueId turned_by = a->turned_by ? a->turned_by : places;
    if (!places)
        return false;
    if (!a->kept) {
        ValueId j = little_unsqueeze(k, little_count(k, a->length), -1);
        ValueId end = little_2(k, OP_unsqueeze, a->begin, little_list(k, 3, three));
        a->held = j && end ? little_2(k, OP_less, j, end) : 0;
    }
    ValueId fresh = by_heads(a, turn(a, a->row[1], a->shared, turned_by), a->shared);
    ValueId keys = present(a, a->past[0], fresh, 1);
    ValueId values = present(a, a->past[1], by_heads(a, a->row[2], a->shared), 2);
    ValueId q = by_heads(a, turn(a, a->row[0], a->heads, turned_by), a->heads);
    ValueId mask = q ? seen(a, places, value_type(k, q)->dtype) : 0;
    return keys && values && mask && attend(a, q, keys, values, mask);
}

/* Lengths leave out each sequence's last token. */
bool
convert_group_query(Call *k)
{
    Cached a = { .k = k,
                 .past = { call_in(k, PAST_KEY), call_in(k, PAST_VALUE) },
                 .cosine = call_in(k, COSINE),
                 .sine = call_in(k, SINE),
                 .turned_by = call_in(k, PLACES),
                 .bias = call_in(k, BIAS) };

    if (refuse_what_is_not_there(k) || !cached_rows(&a))
        return false;
    ValueId lengths = little_cast(k, call_in(k, LENGTHS), DT_I64);
    a.lengths = lengths ? little_2(k, OP_add, lengths, little_number(k, 1)) : 0;
    a.total = little_ints(k, call_in(k, TOTAL));
    return cached_attend(&a);
}
