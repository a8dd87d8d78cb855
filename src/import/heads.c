/* heads: Attention and MultiHeadAttention of ONNX Runtime, as its optimiser makes them of encoders and decoders.
 *
 * Both become ONNX's attention over rows [b, s, heads * size], or over heads where keys come so. To the scores of what may
 * not be seen a large negative number is added, not -inf: queries that see nothing then see all alike, as there.
 */
#include "import/little.h"

typedef struct {
    ValueId q, k, v;                 /* rows, or heads [b, n, t, size] */
    ValueId past_key, past_value;    /* 0: none */
    ValueId mask, bias;              /* 0: none */
    int64_t heads;
} Heads;

ValueId
call_columns(Call *k, ValueId x, int64_t from, int64_t to)
{
    const int64_t last = -1;
    const ValueId v[] = {x, call_ints(k, "from", 1, &from), call_ints(k, "to", 1, &to), call_ints(k, "last", 1, &last)};

    return x ? call_some(k, OP_slice, 0, NULL, 4, v) : 0;
}

static ValueId
with_axes(Call *k, ValueId x, uint32_t n, const int64_t *axes)
{
    return x ? little_2(k, OP_unsqueeze, x, little_list(k, n, axes)) : 0;
}

/* How many keys there are, i64[]. */
static ValueId
total_of(Call *k, const Heads *h)
{
    ValueId n = little_element(k, little_shape(k, h->k), value_type(k, h->k)->rank == 4 ? 2 : 1);

    if (n && h->past_key)
        n = little_2(k, OP_add, n, little_element(k, little_shape(k, h->past_key), 2));
    return n ? little_1(k, OP_squeeze, n) : 0;
}

/* Lengths [b], or what may be seen, [b, t] or [b, s, t]: as bool of rank 4. */
static ValueId
mask_of(Call *k, const Heads *h, ValueId mask)
{
    const int64_t last = 1, middle[] = {1, 2}, head = 1;
    const Type *t = value_type(k, mask), *q = value_type(k, h->q);

    switch (t->rank) {
    case 1:
        if (expr_eq(k->m->c, NULL, t->dim[0], q->dim[0]) == NO)
            return (ValueId)call_refuse(k, "%s with a mask of type %s; lengths of %s sequences are known", k->proto->op_type, type_str(k->m->c, t),
                                        expr_str(k->m->c, q->dim[0]));
        mask = little_2(k, OP_less, little_3(k, OP_range, little_number(k, 0), total_of(k, h), little_number(k, 1)),
                        with_axes(k, little_cast(k, mask, DT_I64), 1, &last));
        return with_axes(k, mask, 2, middle);
    case 2: return with_axes(k, little_cast(k, mask, DT_BOOL), 2, middle);
    case 3: return with_axes(k, little_cast(k, mask, DT_BOOL), 1, &head);
    default: return (ValueId)call_refuse(k, "%s with a mask of type %s", k->proto->op_type, type_str(k->m->c, t));
    }
}

/* x[b, s, n*size] as heads */
static ValueId
as_heads(Call *k, ValueId x, int64_t heads)
{
    const int64_t shape[] = {0, 0, heads, -1};
    Attr perm = {.name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = 4, .ints = arena_copy(k->m->arena, (int64_t[]){0, 2, 1, 3}, 4 * sizeof(int64_t))};
    ValueId rows = little_2(k, OP_reshape, x, little_list(k, 4, shape));

    return rows ? call_op(k, OP_transpose, 1, &perm, 1, &rows, "heads") : 0;
}

/* heads [b, n, s, size] as rows */
static ValueId
as_rows(Call *k, ValueId x)
{
    const int64_t shape[] = {0, 0, -1};
    Attr perm = {.name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = 4, .ints = arena_copy(k->m->arena, (int64_t[]){0, 2, 1, 3}, 4 * sizeof(int64_t))};
    ValueId turned = call_op(k, OP_transpose, 1, &perm, 1, &x, "rows");

    return turned ? little_2(k, OP_reshape, turned, little_list(k, 3, shape)) : 0;
}

static bool
attend(Call *k, Heads *h, ValueId out[3])
{
    Ctx *c = k->m->c;
    bool apart = value_type(k, h->k)->rank == 4;
    Attr attr[4] = {{.name = sym(c, "is_causal"), .kind = ATTR_INT, .i = get_int(k, "unidirectional", 0)}};
    uint32_t nattr = 1;
    double scale = attr_float((Attrs){k->attr.at, k->attr.n}, "scale", 0);
    ValueId mask = h->mask ? mask_of(k, h, h->mask) : 0;
    const char *names[] = {apart ? "attended" : output_name(k), "present_key", "present_value"};

    if (scale != 0)
        attr[nattr++] = (Attr){.name = sym(c, "scale"), .kind = ATTR_FLOAT, .f = scale};
    if (!apart) {
        attr[nattr++] = (Attr){.name = sym(c, "q_num_heads"), .kind = ATTR_INT, .i = h->heads};
        attr[nattr++] = (Attr){.name = sym(c, "kv_num_heads"), .kind = ATTR_INT, .i = h->heads};
    }
    if (h->mask && !mask)
        return false;
    if (mask) {
        double filter = attr_float((Attrs){k->attr.at, k->attr.n}, "mask_filter_value", -10000);
        mask = little_3(k, OP_where, mask, scalar_const(k, "seen", h->q, 0), scalar_const(k, "unseen", h->q, filter));
    }
    if (mask && h->bias)
        mask = little_2(k, OP_add, mask, h->bias);
    else if (h->bias)
        mask = h->bias;
    ValueId in[] = {apart ? as_heads(k, h->q, h->heads) : h->q, h->k, h->v, mask, h->past_key, h->past_value};
    uint32_t n = h->past_key ? 6 : mask ? 4 : 3;
    if (!in[0])
        return false;
    Attr *attrs = arena_copy(k->m->arena, attr, sizeof attr);
    if (!graph_infer_op(k->m->g, OP_attention, (Attrs){attrs, nattr}, k->loc, k->origin, n, in, 3, names, out))
        return false;
    out[0] = apart ? as_rows(k, out[0]) : out[0];
    return out[0] != 0;
}

/* q k v bias? padding? bias of scores? past key? past value? */
bool
convert_multi_head(Call *k)
{
    Heads h = {call_in(k, 0), call_in(k, 1), call_in(k, 2), call_in(k, 6), call_in(k, 7), call_in(k, 4), call_in(k, 5), get_int(k, "num_heads", 0)};
    ValueId bias = call_in(k, 3), out[3], *row[3] = {&h.q, &h.k, &h.v};
    int64_t at = 0, size;

    if (!h.q || !h.k || !h.v || value_type(k, h.q)->rank != 3 || value_type(k, h.k)->rank != value_type(k, h.v)->rank
        || (value_type(k, h.k)->rank != 3 && value_type(k, h.k)->rank != 4) || !h.past_key != !h.past_value)
        return call_refuse(k, "MultiHeadAttention with keys and values packed, or a cache that is shared");
    for (uint32_t i = 0; bias && i < (value_type(k, h.k)->rank == 4 ? 1 : 3); i++) {
        if (!expr_const(value_type(k, *row[i])->dim[2], &size))
            return call_refuse(k, "MultiHeadAttention with a bias for sizes that are not known");
        ValueId part = call_columns(k, bias, at, at + size);
        if (!part || !(*row[i] = call_two(k, OP_add, *row[i], part)))
            return false;
        at += size;
    }
    if (k->nout > 3)
        return call_refuse(k, "MultiHeadAttention with its scores as an output");
    if (!attend(k, &h, out))
        return false;
    call_bind(k, 1, out[1]);
    call_bind(k, 2, out[2]);
    return finish(k, out[0]);
}

/* x w bias? mask? past? bias of scores?: q, k and v are x w + bias; past and present hold keys and values, [2, b, n, p, size] */
bool
convert_packed_attention(Call *k)
{
    enum { X, W, BIAS, MASK, PAST, SCORES, LENGTH };
    Heads h = {.heads = get_int(k, "num_heads", 0), .mask = call_in(k, MASK), .bias = call_in(k, SCORES)};
    const Attr *sizes = call_attr(k, "qkv_hidden_sizes");
    int64_t wide[3], all;
    ValueId out[3];

    if (!need_inputs(k, 2))
        return false;
    if (call_in(k, LENGTH) || get_int(k, "do_rotary", 0) || get_int(k, "past_present_share_buffer", 0))
        return call_refuse(k, "Attention of ONNX Runtime that turns its rows, or whose cache is shared");
    if (value_type(k, call_in(k, X))->rank != 3 || value_type(k, call_in(k, W))->rank != 2 || !expr_const(value_type(k, call_in(k, W))->dim[1], &all) || h.heads < 1)
        return call_refuse(k, "Attention of %s with weights %s", type_str(k->m->c, value_type(k, call_in(k, X))), type_str(k->m->c, value_type(k, call_in(k, W))));
    for (uint32_t i = 0; i < 3; i++)
        wide[i] = sizes && sizes->kind == ATTR_INTS && sizes->n == 3 ? sizes->ints[i] : all / 3;
    if (wide[0] < 1 || wide[2] < 1 || wide[0] != wide[1] || wide[0] > all || wide[2] > all || 2 * wide[0] + wide[2] != all)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "weights of %lld columns do not hold queries, keys and values of %lld, %lld and %lld", (long long)all,
                          (long long)wide[0], (long long)wide[1], (long long)wide[2]);
    ValueId rows = call_two(k, OP_matmul, call_in(k, X), call_in(k, W));
    rows = rows && call_in(k, BIAS) ? call_two(k, OP_add, rows, call_in(k, BIAS)) : rows;
    h.q = call_columns(k, rows, 0, wide[0]);
    h.k = call_columns(k, rows, wide[0], 2 * wide[0]);
    h.v = call_columns(k, rows, 2 * wide[0], all);
    if (!h.q || !h.k || !h.v)
        return false;
    if (call_in(k, PAST)) {
        h.past_key = little_2(k, OP_gather, call_in(k, PAST), little_number(k, 0));
        h.past_value = little_2(k, OP_gather, call_in(k, PAST), little_number(k, 1));
    }
    if (!attend(k, &h, out))
        return false;
    if (k->nout > 1) {
        const int64_t first = 0;
        call_bind(k, 1, little_axis(k, OP_concat, 0, 2, (ValueId[]){with_axes(k, out[1], 1, &first), with_axes(k, out[2], 1, &first)}));
    }
    return finish(k, out[0]);
}
