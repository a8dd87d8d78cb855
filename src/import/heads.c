/* heads: Attention and MultiHeadAttention of ONNX Runtime, as its optimiser makes them of encoders
 * and decoders.
 *
 * Both become ONNX's attention over rows [b, s, heads * size], or over heads where keys come so. To
 * the scores of what may not be seen a large negative number is added, not -inf: queries that see
 * nothing then see all alike, as there.
 */
#include "import/little.h"

typedef struct {
    ValueId q, k, v;              /* rows, or heads [b, n, t, size] */
    ValueId past_key, past_value; /* 0: none */
    ValueId mask, bias;           /* 0: none */
    int64_t heads;
} Heads;

ValueId
call_columns(Call *k, ValueId x, int64_t from, int64_t to)
{
    const int64_t last = -1;
    const ValueId v[] = { x, call_ints(k, "from", 1, &from), call_ints(k, "to", 1, &to),
                          call_ints(k, "last", 1, &last) };

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

/* Elements from `from` to `to` of axis d; both i64[1]. */
static ValueId
between(Call *k, ValueId x, int64_t d, ValueId from, ValueId to)
{
    return x && from && to ? call_some(k, OP_slice, 0, NULL, 4,
                                       (ValueId[]){ x, from, to, little_list(k, 1, &d) })
                           : 0;
}

/* What a mask of rank 1 holds, by how long it is beside the batch b. */
typedef enum {
    LENGTHS, /* b: key j of a sequence is seen below its length */
    BOUNDS,  /* 2 * b: lengths, then where each sequence begins */
    SUMS,    /* 3 * b + 2: lengths, then sums of them */
    EITHER   /* lengths or bounds: known as it runs */
} Listed;

static Listed
listed(Ctx *c, const Expr *n, const Expr *batch)
{
    if (expr_eq(c, NULL, n, batch) == YES)
        return LENGTHS;
    if (expr_eq(c, NULL, n, expr_scale(c, batch, 2)) == YES)
        return BOUNDS;
    return expr_eq(c, NULL, n, expr_offset(c, expr_scale(c, batch, 3), 2)) == YES ? SUMS : EITHER;
}

/* bool[b, t] of a mask of rank 1. */
static ValueId
mask_of_list(Call *k, const Heads *h, ValueId mask)
{
    const Listed form = listed(k->m->c, value_type(k, mask)->dim[0], value_type(k, h->q)->dim[0]);
    const int64_t last = 1, none = 0, two = 2;
    ValueId all = little_cast(k, mask, DT_I64), b = little_element(k, little_shape(k, h->q), 0),
            twice = b ? little_2(k, OP_mul, b, little_list(k, 1, &two)) : 0;
    ValueId j = little_3(k, OP_range, little_number(k, 0), total_of(k, h), little_number(k, 1)),
            begin = 0;

    if (!all || !twice || !j)
        return 0;
    if (form == BOUNDS)
        begin = between(k, all, 0, b, twice);
    if (form == EITHER) {
        ValueId bounds = little_2(k, OP_equal, little_shape(k, mask), twice),
                zero = little_list(k, 1, &none);
        ValueId i = little_3(k, OP_range, little_number(k, 0), little_1(k, OP_squeeze, b),
                             little_number(k, 1));
        ValueId at =
            i && bounds ? little_2(k, OP_add, i, little_3(k, OP_where, bounds, b, zero)) : 0;
        begin = at ? little_3(k, OP_where, bounds, little_2(k, OP_gather, all, at), zero) : 0;
        all = i ? little_2(k, OP_gather, all, i) : 0;
    } else if (form != LENGTHS) {
        all = between(k, all, 0, little_list(k, 1, &none), b);
    }
    if (!all || (!begin && (form == BOUNDS || form == EITHER)))
        return 0;
    ValueId seen = little_2(k, OP_less, j, with_axes(k, all, 1, &last));
    return seen && begin
               ? little_2(k, OP_and, seen,
                          little_2(k, OP_greater_or_equal, j, with_axes(k, begin, 1, &last)))
               : seen;
}

/* What may be seen, as bool of rank 4. The mask has lengths, or numbers that are above 0 for what
 * is seen: of keys [b, t], of queries and keys [b, s, t], or of a longest sequence [b, 1, m, m], of
 * which the queries are the last rows of the first t. */
static ValueId
mask_of(Call *k, const Heads *h, ValueId mask)
{
    const int64_t middle[] = { 1, 2 }, head = 1, none = 0;
    const Type *t = value_type(k, mask);

    if (t->rank == 1)
        return with_axes(k, mask_of_list(k, h, mask), 2, middle);
    if (t->rank < 1 || t->rank > 4)
        return (ValueId)call_refuse(k, "%s with a mask of type %s", k->proto->op_type,
                                    type_str(k->m->c, t));
    if (t->dtype != DT_BOOL)
        mask = little_2(k, OP_greater, mask, scalar_const(k, "none", mask, 0));
    if (t->rank == 2)
        return with_axes(k, mask, 2, middle);
    if (t->rank == 3)
        return with_axes(k, mask, 1, &head);
    const ValueId all = total_of(k, h), keys = all ? with_axes(k, all, 1, &none) : 0,
                  queries = little_element(k, little_shape(k, h->q), 1);
    mask = keys && queries ? between(k, mask, 2, little_2(k, OP_sub, keys, queries), keys) : 0;
    return between(k, mask, 3, little_list(k, 1, &none), keys);
}

/* A mask of one number for all keys of a sequence adds the same to all scores, which changes
 * nothing. */
static bool
hides_nothing(Call *k, const Heads *h)
{
    const Type *t = value_type(k, h->mask);
    const Type *keys = value_type(k, h->k);

    return t->rank == 2 && expr_is(t->dim[1], 1) &&
           (h->past_key || !expr_is(keys->dim[keys->rank == 4 ? 2 : 1], 1));
}

/* x[b, s, n*size] as heads */
static ValueId
as_heads(Call *k, ValueId x, int64_t heads)
{
    const int64_t shape[] = { 0, 0, heads, -1 };
    Attr perm = { .name = sym(k->m->c, "perm"),
                  .kind = ATTR_INTS,
                  .n = 4,
                  .ints = arena_copy(k->m->arena, (int64_t[]){ 0, 2, 1, 3 }, 4 * sizeof(int64_t)) };
    ValueId rows = little_2(k, OP_reshape, x, little_list(k, 4, shape));

    return rows ? call_op(k, OP_transpose, 1, &perm, 1, &rows, "heads") : 0;
}

/* heads [b, n, s, size] as rows */
static ValueId
as_rows(Call *k, ValueId x)
{
    const int64_t shape[] = { 0, 0, -1 };
    Attr perm = { .name = sym(k->m->c, "perm"),
                  .kind = ATTR_INTS,
                  .n = 4,
                  .ints = arena_copy(k->m->arena, (int64_t[]){ 0, 2, 1, 3 }, 4 * sizeof(int64_t)) };
    ValueId turned = call_op(k, OP_transpose, 1, &perm, 1, &x, "rows");

    return turned ? little_2(k, OP_reshape, turned, little_list(k, 3, shape)) : 0;
}

/* bool[s, t]: what query i sees where each sees those before it: keys up to i of the new ones, and
 * all of the past. The last one sees all there are, as in ONNX Runtime, however many more keys than
 * queries. */
static ValueId
seen_before(Call *k, const Heads *h)
{
    const int64_t last = 1, first = 0;
    ValueId all = total_of(k, h),
            fresh =
                little_element(k, little_shape(k, h->k), value_type(k, h->k)->rank == 4 ? 2 : 1),
            queries = little_element(k, little_shape(k, h->q), 1);
    ValueId past = all && fresh ? little_2(k, OP_sub, with_axes(k, all, 1, &first), fresh) : 0,
            end = queries ? little_2(k, OP_sub, queries, little_number(k, 1)) : 0;
    ValueId j = past ? little_3(k, OP_range, little_number(k, 0), all, little_number(k, 1)) : 0;
    ValueId i = end ? with_axes(k,
                                little_3(k, OP_range, little_number(k, 0),
                                         little_1(k, OP_squeeze, queries), little_number(k, 1)),
                                1, &last)
                    : 0;

    return i && j
               ? little_2(k, OP_or, little_2(k, OP_less_or_equal, j, little_2(k, OP_add, i, past)),
                          little_2(k, OP_equal, i, end))
               : 0;
}

/* out: rows, present keys, present values; and the scores with what is added to them, where the
 * node has output 3. */
static bool
attend(Call *k, Heads *h, ValueId out[4])
{
    Ctx *c = k->m->c;
    const Type *keys = value_type(k, h->k);
    bool apart = keys->rank == 4, causal = get_int(k, "unidirectional", 0) != 0;
    bool square = expr_eq(c, NULL, value_type(k, h->q)->dim[1], keys->dim[apart ? 2 : 1]) == YES;
    Attr attr[5] = { { .name = sym(c, "is_causal"), .kind = ATTR_INT, .i = causal && square } };
    uint32_t nattr = 1, nout = k->nout > 3 ? 4 : 3;
    double scale = attr_float((Attrs){ k->attr.at, k->attr.n }, "scale", 0);
    bool masked = h->mask && !hides_nothing(k, h);
    ValueId mask = masked ? mask_of(k, h, h->mask) : 0;
    const char *names[] = { apart ? "attended" : output_name(k), "present_key", "present_value",
                            "scores" };

    if (scale != 0)
        attr[nattr++] = (Attr){ .name = sym(c, "scale"), .kind = ATTR_FLOAT, .f = scale };
    if (!apart) {
        attr[nattr++] = (Attr){ .name = sym(c, "q_num_heads"), .kind = ATTR_INT, .i = h->heads };
        attr[nattr++] = (Attr){ .name = sym(c, "kv_num_heads"), .kind = ATTR_INT, .i = h->heads };
    }
    if (nout > 3)
        attr[nattr++] = (Attr){ .name = sym(c, "qk_matmul_output_mode"), .kind = ATTR_INT, .i = 2 };
    if (masked && !mask)
        return false;
    if (mask) {
        double filter = attr_float((Attrs){ k->attr.at, k->attr.n }, "mask_filter_value", -10000);
        mask = little_3(k, OP_where, mask, scalar_const(k, "seen", h->q, 0),
                        scalar_const(k, "unseen", h->q, filter));
    }
    if (causal && !square) {
        ValueId before = seen_before(k, h);
        mask = before
                   ? little_3(k, OP_where, before, mask ? mask : scalar_const(k, "seen", h->q, 0),
                              scalar_const(k, "never", h->q, -__builtin_inf()))
                   : 0;
        if (!mask)
            return false;
    }
    if (mask && h->bias)
        mask = little_2(k, OP_add, mask, h->bias);
    else if (h->bias)
        mask = h->bias;
    ValueId in[] = {
        apart ? as_heads(k, h->q, h->heads) : h->q, h->k, h->v, mask, h->past_key, h->past_value
    };
    uint32_t n = h->past_key ? 6 : mask ? 4 : 3;
    if (!in[0])
        return false;
    Attr *attrs = arena_copy(k->m->arena, attr, sizeof attr);
    if (!graph_infer_op(k->m->g, OP_attention, (Attrs){ attrs, nattr }, k->loc, k->origin, n, in,
                        nout, names, out))
        return false;
    out[0] = apart ? as_rows(k, out[0]) : out[0];
    return out[0] != 0;
}

/* Part i of x[b, s, n, parts, size], as rows [b, s, n*size]. */
static ValueId
packed_part(Call *k, ValueId x, int64_t i)
{
    const int64_t rows[] = { 0, 0, -1 };
    const ValueId part = little_axis(k, OP_gather, 3, 2, (ValueId[]){ x, little_number(k, i) });

    return part ? little_2(k, OP_reshape, part, little_list(k, 3, rows)) : 0;
}

/* q k v bias? padding? bias of scores? past key? past value?: q may have k and v in it, or k have
 * v. */
bool
convert_multi_head(Call *k)
{
    enum { LENGTH = 8, BEAMS };
    Heads h = { call_in(k, 0), call_in(k, 1), call_in(k, 2), call_in(k, 6),
                call_in(k, 7), call_in(k, 4), call_in(k, 5), get_int(k, "num_heads", 0) };
    ValueId bias = call_in(k, 3), out[4], *row[3] = { &h.q, &h.k, &h.v };
    int64_t at = 0, size;

    if (call_in(k, LENGTH) || call_in(k, BEAMS))
        return call_refuse(k, "MultiHeadAttention whose past and present share memory; export it "
                              "with a past that grows");
    if (h.q && !h.k && !h.v && value_type(k, h.q)->rank == 5) {
        h.k = packed_part(k, h.q, 1);
        h.v = packed_part(k, h.q, 2);
        h.q = packed_part(k, h.q, 0);
    } else if (h.k && !h.v && value_type(k, h.k)->rank == 5) {
        h.v = packed_part(k, h.k, 1);
        h.k = packed_part(k, h.k, 0);
    }
    if (!h.q || !h.k || !h.v || value_type(k, h.q)->rank != 3 ||
        value_type(k, h.k)->rank != value_type(k, h.v)->rank ||
        (value_type(k, h.k)->rank != 3 && value_type(k, h.k)->rank != 4) ||
        !h.past_key != !h.past_value)
        return call_refuse(k, "MultiHeadAttention of queries, keys and values of other ranks than "
                              "3, 4 or 5, or of half a past");
    for (uint32_t i = 0; bias && i < (value_type(k, h.k)->rank == 4 ? 1 : 3); i++) {
        if (!expr_const(value_type(k, *row[i])->dim[2], &size))
            return call_refuse(k, "MultiHeadAttention with a bias for sizes that are not known");
        ValueId part = call_columns(k, bias, at, at + size);
        if (!part || !(*row[i] = call_two(k, OP_add, *row[i], part)))
            return false;
        at += size;
    }
    if (!attend(k, &h, out))
        return false;
    call_bind(k, 1, out[1]);
    call_bind(k, 2, out[2]);
    if (k->nout > 3)
        call_bind(k, 3, out[3]);
    return finish(k, out[0]);
}

/* rows[b, s, all]: queries, keys and values side by side; past and present hold keys and values,
 * [2, b, n, p, size]. */
static bool
attend_packed(Call *k, ValueId rows, ValueId mask, ValueId past, ValueId bias)
{
    Heads h = { .heads = get_int(k, "num_heads", 0), .mask = mask, .bias = bias };
    const Attr *sizes = call_attr(k, "qkv_hidden_sizes");
    int64_t wide[3], all;
    ValueId out[4];

    if (!rows)
        return false;
    if (get_int(k, "do_rotary", 0) || get_int(k, "past_present_share_buffer", 0))
        return call_refuse(k, "%s of ONNX Runtime that turns its rows, or whose cache is shared",
                           k->proto->op_type);
    if (value_type(k, rows)->rank != 3 || !expr_const(value_type(k, rows)->dim[2], &all) ||
        h.heads < 1)
        return call_refuse(
            k,
            "%s of %s with %lld heads, where rows of known width and a number of heads are needed",
            k->proto->op_type, type_str(k->m->c, value_type(k, rows)), (long long)h.heads);
    for (uint32_t i = 0; i < 3; i++)
        wide[i] = sizes && sizes->kind == ATTR_INTS && sizes->n == 3 ? sizes->ints[i] : all / 3;
    if (wide[0] < 1 || wide[2] < 1 || wide[0] != wide[1] || wide[0] > all || wide[2] > all ||
        2 * wide[0] + wide[2] != all)
        return diag_error(
            &k->m->c->diags, DIAG_MODEL, k->loc,
            "weights of %lld columns do not hold queries, keys and values of %lld, %lld and %lld",
            (long long)all, (long long)wide[0], (long long)wide[1], (long long)wide[2]);
    h.q = call_columns(k, rows, 0, wide[0]);
    h.k = call_columns(k, rows, wide[0], 2 * wide[0]);
    h.v = call_columns(k, rows, 2 * wide[0], all);
    if (!h.q || !h.k || !h.v)
        return false;
    if (past) {
        h.past_key = little_2(k, OP_gather, past, little_number(k, 0));
        h.past_value = little_2(k, OP_gather, past, little_number(k, 1));
    }
    if (!attend(k, &h, out))
        return false;
    if (k->nout < 2)
        return finish(k, out[0]);
    if (wide[0] != wide[2])
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "%s cannot give keys of %lld numbers and values of %lld as one output "
                          "(\"%s\"); leave that output out",
                          k->proto->op_type, (long long)wide[0], (long long)wide[2],
                          k->proto->output[1]);
    const int64_t first = 0;
    ValueId present = little_axis(
        k, OP_concat, 0, 2,
        (ValueId[]){ with_axes(k, out[1], 1, &first), with_axes(k, out[2], 1, &first) });
    call_bind(k, 1, present);
    return present && finish(k, out[0]);
}

/* x w bias? mask? past? bias of scores?: q, k and v are x w + bias. */
bool
convert_packed_attention(Call *k)
{
    enum { X, W, BIAS, MASK, PAST, SCORES, LENGTH };

    if (!need_inputs(k, 2))
        return false;
    if (call_in(k, LENGTH))
        return call_refuse(k, "Attention of ONNX Runtime whose past and present share memory; "
                              "export it with a past that grows");
    ValueId rows = call_two(k, OP_matmul, call_in(k, X), call_in(k, W));
    rows = rows && call_in(k, BIAS) ? call_two(k, OP_add, rows, call_in(k, BIAS)) : rows;
    return attend_packed(k, rows, call_in(k, MASK), call_in(k, PAST), call_in(k, SCORES));
}

/* x w bias x_scale w_scale mask? x_zero? w_zero? past? */
bool
convert_quantised_attention(Call *k)
{
    enum { X, W, BIAS, X_SCALE, W_SCALE, MASK, X_ZERO, W_ZERO, PAST };

    if (!need_inputs(k, 5))
        return false;
    const Scaled x = { call_in(k, X), call_in(k, X_SCALE), call_in(k, X_ZERO) },
                 w = { call_in(k, W), call_in(k, W_SCALE), call_in(k, W_ZERO) };
    return attend_packed(k, scaled_product(k, x, w, call_in(k, BIAS)), call_in(k, MASK),
                         call_in(k, PAST), 0);
}
