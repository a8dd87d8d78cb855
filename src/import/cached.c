/* cached: GroupQueryAttention of ONNX Runtime, as decoders of language models are written: heads of keys in groups, a cache that
 * may be longer than what it holds, and for each sequence of the batch how much that is.
 *
 *     total        how long the longest sequence is with the new tokens; the first run, without a past, has nothing else
 *     begin[b]     where the new tokens of sequence b stand: behind its past, at 0 in the first run
 *
 * The new keys are written into the cache there (tensor_scatter), tokens are turned by their places (rotary_embedding), and token
 * i sees places up to begin[b] + i.
 *
 * A cache that a session keeps (--state) has as many rows as there were tokens: the new ones come behind them, for all sequences of the
 * batch, and it grows in place as a Concat's does. That the lengths say the same is checked as it runs.
 */
#include "import/little.h"

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COSINE, SINE, PLACES, BIAS, SINK };

typedef struct {
    Call *k;
    int64_t heads, shared, size;
    bool turned;
    ValueId batch, tokens, total, length;        /* i64[1]: sizes; how long the cache is afterwards */
    ValueId begin;                               /* i64[b], or i64[1] for all of them */
    bool kept;                                   /* the past is a state of the session */
    ValueId held;                                /* bool[b, 1, length, 1]: places before it */
} Cached;

/* [b, s, n, size] as [b, n, s, size], and back. */
static const int64_t heads_and_rows[] = {0, 2, 1, 3};

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
    Attr attr[3] = {{.name = sym(k->m->c, "num_heads"), .kind = ATTR_INT, .i = heads},
                    {.name = sym(k->m->c, "interleaved"), .kind = ATTR_INT, .i = get_int(k, "rotary_interleaved", 0)},
                    {.name = sym(k->m->c, "rotary_embedding_dim"), .kind = ATTR_INT}};
    const ValueId v[] = {x, call_in(k, COSINE), call_in(k, SINE), places};

    if (!a->turned || !x || !places)
        return x;
    if (!v[1] || !v[2] || value_type(k, v[1])->rank != 2 || !expr_const(value_type(k, v[1])->dim[1], &half))
        return (ValueId)call_refuse(k, "GroupQueryAttention that turns by tables whose width is not known");
    attr[2].i = 2 * half == a->size ? 0 : 2 * half;
    return call_some(k, OP_rotary_embedding, 3, attr, 4, v);
}

/* x[b, s, n*size] as [b, n, s, size] */
static ValueId
by_heads(Cached *a, ValueId x, int64_t heads)
{
    Call *k = a->k;
    const ValueId sizes[] = {a->batch, a->tokens, little_single(k, heads),
                             little_single(k, a->size)};
    ValueId rows = x ? reshaped(k, x, 4, sizes) : 0;

    return little_transpose(k, rows, 4, heads_and_rows);
}

/* What is there after this run: what the past holds, as long as it has to be, with the new rows in place and nothing behind. */
static ValueId
present(Cached *a, ValueId past, ValueId fresh, uint32_t output)
{
    Call *k = a->k;
    Attr axis = {.name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = 2};
    ValueId room = past;

    if (!fresh)
        return 0;
    if (a->kept) {
        ValueId rows = little_axis(k, OP_concat, 2, 2, (ValueId[]){past, fresh});
        call_bind(k, output, rows);
        return rows;
    }
    if (!past) {
        Attr zero = {.name = sym(k->m->c, "to"), .kind = ATTR_STRING, .s = sym(k->m->c, dtype_info[value_type(k, fresh)->dtype].name)};
        ValueId number = little_number(k, 0), none = call_op(k, OP_cast, 1, &zero, 1, &number, "none");
        const ValueId sizes[] = {a->batch, little_single(k, a->shared), a->length,
                                 little_single(k, a->size)};
        room = little_2(k, OP_expand, none, little_axis(k, OP_concat, 0, 4, sizes));
    } else {
        const int64_t none[] = {0, 0, 0, 0, 0, 0};
        ValueId more = little_2(k, OP_sub, a->length, little_element(k, little_shape(k, past), 2));
        const ValueId pad[] = {little_list(k, 6, none), more, little_single(k, 0)};
        ValueId pads = little_axis(k, OP_concat, 0, 3, pad);
        room = pads ? little_2(k, OP_pad, past, pads) : 0;
        room = room ? little_3(k, OP_where, a->held, room, scalar_const(k, "nothing", room, 0)) : 0;
    }
    const ValueId v[] = {room, fresh, a->begin};
    ValueId all = room ? call_some(k, OP_tensor_scatter, 1, &axis, 3, v) : 0;
    call_bind(k, output, all);
    return all;
}

/* f32 or as the scores are: 0 where token i of sequence b sees place j, -inf elsewhere; with what is added to the scores. */
static ValueId
seen(Cached *a, ValueId places, DType t)
{
    Call *k = a->k;
    const int64_t head = 1, last = -1;
    int64_t window = get_int(k, "local_window_size", -1);
    ValueId zero = little_number(k, 0), one = little_number(k, 1);
    ValueId j = little_3(k, OP_range, zero, little_1(k, OP_squeeze, a->length), one);
    ValueId i = places ? little_2(k, OP_unsqueeze, little_2(k, OP_unsqueeze, places, little_list(k, 1, &head)), little_list(k, 1, &last)) : 0;
    ValueId mask = i && j ? little_2(k, OP_less_or_equal, j, i) : 0;         /* [b, 1, s, length] */
    if (mask && window > 0)
        mask = little_2(k, OP_and, mask, little_2(k, OP_less, i, little_2(k, OP_add, j, little_number(k, window))));
    if (!mask || !call_in(k, BIAS))
        return mask;
    ValueId bias = call_in(k, BIAS), never = scalar_const(k, "never", bias, -__builtin_inf());
    return value_type(k, bias)->dtype != t ? (ValueId)call_refuse(k, "a bias of scores of another type than the query")
         : little_3(k, OP_where, mask, bias, never);
}

/* ---- a cache that is a state ------------------------------------------------------------------------------- */

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
    return model_require(k->m, is, said, arena_printf(c->arena, "GroupQueryAttention: %s, and rows of a cache that is a state", what))
        || diag_error(&c->diags, DIAG_MODEL, k->loc, "%s %s, and the cache, which is a state, has %s rows with the new ones", what, expr_str(c, is), expr_str(c, said));
}

/* The new rows come behind those of the past: all sequences have as many, and the lengths have to say so. */
static bool
come_behind(Cached *a, ValueId lengths)
{
    Call *k = a->k;
    const Type *past = value_type(k, call_in(k, PAST_KEY));
    const Expr *all = expr_add(k->m->c, past->dim[2], input_type(k, QUERY)->dim[1]);
    const int64_t first = 0;
    ValueId axis = little_list(k, 1, &first), one = little_number(k, 1);

    a->begin = little_element(k, little_shape(k, call_in(k, PAST_KEY)), 2);
    a->length = a->begin ? little_2(k, OP_add, a->begin, a->tokens) : 0;
    return a->length && require(k, a->total, all, "the total length")
        && require(k, little_2(k, OP_add, little_2(k, OP_reduce_min, lengths, axis), one), all, "the shortest sequence")
        && require(k, little_2(k, OP_add, little_2(k, OP_reduce_max, lengths, axis), one), all, "the longest sequence");
}

static bool
refuse_what_is_not_there(Call *k)
{
    if (call_in(k, SINK) || get_int(k, "smooth_softmax", 0) == 1)
        return !call_refuse(k, "GroupQueryAttention with a sink of attention");
    if (get_int(k, "kv_cache_bit_width", 0) || get_int(k, "qk_output", 0))
        return !call_refuse(k, "GroupQueryAttention with a quantised cache or its scores as output");
    if (!call_in(k, QUERY) || !call_in(k, LENGTHS) || !call_in(k, TOTAL) || !call_in(k, KEY) != !call_in(k, VALUE) || !call_in(k, PAST_KEY) != !call_in(k, PAST_VALUE))
        return !call_refuse(k, "GroupQueryAttention needs a query, lengths and their total; keys and values, and those of the past, come together");
    return false;
}

/* The three of them, by packed columns or apart. */
static bool
split(Cached *a, ValueId v[3])
{
    Call *k = a->k;
    const Type *q = input_type(k, QUERY);
    int64_t wide, per = a->heads;

    if (q->rank != 3 || !expr_const(q->dim[2], &wide) || a->heads < 1 || a->shared < 1)
        return call_refuse(k, "GroupQueryAttention of %s; rows [b, s, heads * size] of known width are needed", type_str(k->m->c, q));
    for (int i = 0; i < 3; i++)
        v[i] = call_in(k, QUERY + (uint32_t)i);
    per = v[1] ? a->heads : a->heads + 2 * a->shared;
    a->size = wide / per;
    if (wide % per)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "the query has %lld columns for %lld heads", (long long)wide, (long long)per);
    if (!v[1]) {
        int64_t keys = a->heads * a->size, values = keys + a->shared * a->size;
        v[1] = call_columns(k, v[0], keys, values);
        v[2] = call_columns(k, v[0], values, wide);
        v[0] = call_columns(k, v[0], 0, keys);
    }
    return v[0] && v[1] && v[2];
}

bool
convert_group_query(Call *k)
{
    Ctx *c = k->m->c;
    Cached a = {.k = k, .heads = get_int(k, "num_heads", 0), .shared = get_int(k, "kv_num_heads", 0), .turned = get_int(k, "do_rotary", 0) != 0};
    const int64_t last = 1, flat = -1;
    ValueId v[3];

    if (refuse_what_is_not_there(k) || !split(&a, v))
        return false;
    ValueId shape = little_shape(k, call_in(k, QUERY)), one = little_number(k, 1);
    a.batch = little_element(k, shape, 0);
    a.tokens = little_element(k, shape, 1);
    ValueId total = little_ints(k, call_in(k, TOTAL)), lengths = little_cast(k, call_in(k, LENGTHS), DT_I64);
    lengths = lengths && value_type(k, lengths)->rank != 1 ? little_2(k, OP_reshape, lengths, little_list(k, 1, &flat)) : lengths;
    a.total = total ? little_2(k, OP_reshape, total, little_list(k, 1, &last)) : 0;
    a.length = a.total;
    a.kept = call_in(k, PAST_KEY) && is_state(k, call_in(k, PAST_KEY)) && is_state(k, call_in(k, PAST_VALUE));
    if (a.kept && !(a.total && lengths && come_behind(&a, lengths)))
        return false;
    if (!a.kept && a.total && call_in(k, PAST_KEY))
        a.length = little_2(k, OP_max, a.total, little_element(k, little_shape(k, call_in(k, PAST_KEY)), 2));
    if (!a.kept)
        a.length = a.length ? little_match(k, a.length, NULL) : 0;
    ValueId first = a.total ? little_2(k, OP_equal, a.total, a.tokens) : 0;
    ValueId behind = lengths ? little_2(k, OP_sub, little_2(k, OP_add, lengths, one), a.tokens) : 0;
    if (!a.kept)
        a.begin = first && behind ? little_3(k, OP_where, first, little_number(k, 0), behind) : 0;
    ValueId i = little_3(k, OP_range, little_number(k, 0), little_1(k, OP_squeeze, a.tokens), one);
    ValueId places = a.begin && i ? little_2(k, OP_add, little_2(k, OP_unsqueeze, a.begin, little_list(k, 1, &last)), i) : 0;     /* [b, s] */
    ValueId turned_by = call_in(k, PLACES) ? call_in(k, PLACES) : places;
    if (!a.length || !places)
        return false;
    const int64_t three[] = {1, 2, 3};
    ValueId j = little_3(k, OP_range, little_number(k, 0), little_1(k, OP_squeeze, a.length), one);
    a.held = a.kept ? 0 : little_2(k, OP_less, little_2(k, OP_unsqueeze, j, little_list(k, 1, &flat)), little_2(k, OP_unsqueeze, a.begin, little_list(k, 3, three)));
    ValueId q = by_heads(&a, turn(&a, v[0], a.heads, turned_by), a.heads);
    ValueId keys = present(&a, call_in(k, PAST_KEY), by_heads(&a, turn(&a, v[1], a.shared, turned_by), a.shared), 1);
    ValueId values = present(&a, call_in(k, PAST_VALUE), by_heads(&a, v[2], a.shared), 2);
    ValueId mask = q ? seen(&a, places, value_type(k, q)->dtype) : 0;
    if (!keys || !values || !mask)
        return false;
    Attr attr[2];
    uint32_t nattr = 0;
    double scale = attr_float((Attrs){k->attr.at, k->attr.n}, "scale", 0), cap = attr_float((Attrs){k->attr.at, k->attr.n}, "softcap", 0);
    if (scale != 0)
        attr[nattr++] = (Attr){.name = sym(c, "scale"), .kind = ATTR_FLOAT, .f = scale};
    if (cap != 0)
        attr[nattr++] = (Attr){.name = sym(c, "softcap"), .kind = ATTR_FLOAT, .f = cap};
    ValueId y = call_some(k, OP_attention, nattr, attr, 4, (ValueId[]){q, keys, values, mask});
    ValueId rows = little_transpose(k, y, 4, heads_and_rows);
    const ValueId sizes[] = {a.batch, a.tokens, little_single(k, a.heads * a.size)};
    return finish(k, rows ? reshaped(k, rows, 3, sizes) : 0);
}
