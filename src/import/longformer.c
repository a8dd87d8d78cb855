/* longformer: LongformerAttention of ONNX Runtime, in which few tokens see everything.
 *
 *     local     token i sees tokens i - window to i + window, and those that are global
 *     global    a token with a flag sees all tokens, by projections of its own
 *
 * The first is an attention of all tokens under a mask of places. The second is one of few rows:
 * those of all sequences are behind each other and see their own sequence, as in packed.c, and what
 * it gives replaces rows of the first. The mask is added to the scores of each key, and rows where
 * it is below 0, padding, are 0.
 *
 * Source: ONNX Runtime's ContribOperators.md; for shapes contrib_ops/cpu/bert/longformer_attention_
 * base.cc; for projections and masks contrib_ops/cuda/bert/longformer_attention_softmax.cu. Its
 * kernels want lengths that are multiples of 2 * window, and global tokens at the front.
 */
#include "import/little.h"

#include <inttypes.h>

enum { X, WEIGHT, BIAS, MASK, GLOBAL_WEIGHT, GLOBAL_BIAS, GLOBAL };

/* Projections: of local rows; of global queries, and of what these see. */
typedef enum { LOCAL_Q, LOCAL_K, LOCAL_V, GLOBAL_Q, GLOBAL_K, GLOBAL_V } Projection;

typedef struct {
    Call *k;
    int64_t heads, wide;          /* columns of all heads */
    bool apart;                   /* weights [3, wide, wide], not side by side */
    ValueId shape, batch, tokens; /* of x; i64[1] */
    ValueId rows;                 /* x as [b * s, wide] */
    ValueId padding;              /* mask as [b * s] */
} Longformer;

/* rows by one of the projections. Weights that are apart have the biases of global keys and values
 * behind those of local rows. */
static ValueId
projected(const Longformer *l, ValueId rows, Projection p)
{
    Call *k = l->k;
    const bool global = p >= GLOBAL_Q;
    const int64_t i = p % 3, n = l->wide;
    const bool behind = l->apart && p > GLOBAL_Q;
    ValueId weight = call_in(k, global ? GLOBAL_WEIGHT : WEIGHT);
    ValueId bias = call_in(k, global && !behind ? GLOBAL_BIAS : BIAS);
    const int64_t at = (behind ? p - 1 : i) * n;
    const ValueId pick[] = { weight, little_number(k, i) };

    weight = l->apart ? little_axis(k, OP_gather, 0, 2, pick)
                      : call_columns(k, weight, i * n, (i + 1) * n);
    bias = call_columns(k, bias, at, at + n);
    ValueId y = rows && weight ? call_two(k, OP_matmul, rows, weight) : 0;
    return y && bias ? call_two(k, OP_add, y, bias) : 0;
}

/* Attention of rows [b, s, wide] whose scores get the mask's numbers where they are seen. */
static ValueId
attended(const Longformer *l, const ValueId row[3], ValueId seen, ValueId mask)
{
    Call *k = l->k;
    Ctx *c = k->m->c;
    const Attr attr[] = { { .name = sym(c, "q_num_heads"), .kind = ATTR_INT, .i = l->heads },
                          { .name = sym(c, "kv_num_heads"), .kind = ATTR_INT, .i = l->heads } };
    ValueId never = mask ? scalar_const(k, "never", mask, -__builtin_inf()) : 0;
    const ValueId in[] = { row[0], row[1], row[2],
                           seen && mask ? little_3(k, OP_where, seen, mask, never) : 0 };

    return in[0] && in[1] && in[2] && in[3] ? call_some(k, OP_attention, 2, attr, 4, in) : 0;
}

/* [b, s, wide]: all tokens as local ones. */
static ValueId
local(const Longformer *l, ValueId flags)
{
    Call *k = l->k;
    const int64_t middle[] = { 1, 2 };
    ValueId axes = little_list(k, 2, middle), window = little_number(k, get_int(k, "window", 0));
    ValueId j = little_count(k, l->tokens), i = little_unsqueeze(k, j, 1), row[3];
    ValueId first = j ? little_2(k, OP_less_or_equal, i, little_2(k, OP_add, j, window)) : 0;
    ValueId last = first ? little_2(k, OP_less_or_equal, j, little_2(k, OP_add, i, window)) : 0;
    ValueId near = last ? little_2(k, OP_and, first, last) : 0;
    ValueId seen = near ? little_2(k, OP_or, near, little_2(k, OP_unsqueeze, flags, axes)) : 0;

    for (uint32_t p = 0; p < 3; p++)
        row[p] = projected(l, call_in(k, X), LOCAL_Q + p);
    return attended(l, row, seen, little_2(k, OP_unsqueeze, call_in(k, MASK), axes));
}

/* [g, wide]: the tokens at places i64[g] of all rows, as global ones. */
static ValueId
global(const Longformer *l, ValueId at)
{
    Call *k = l->k;
    ValueId all = little_count(k, little_2(k, OP_mul, l->batch, l->tokens)), row[3];
    ValueId own = little_cast(k, little_2(k, OP_div, at, l->tokens), DT_I32);
    ValueId of = all ? little_cast(k, little_2(k, OP_div, all, l->tokens), DT_I32) : 0;
    ValueId seen = own && of ? little_2(k, OP_equal, little_unsqueeze(k, own, 1), of) : 0;

    for (uint32_t p = 0; p < 3; p++) {
        ValueId from = p == 0 ? little_2(k, OP_gather, l->rows, at) : l->rows;
        row[p] = little_unsqueeze(k, from ? projected(l, from, GLOBAL_Q + p) : 0, 0);
    }
    ValueId y = attended(l, row, seen, l->padding);
    return y ? little_2(k, OP_squeeze, y, little_single(k, 0)) : 0;
}

static bool
sizes_fit(Longformer *l)
{
    Call *k = l->k;
    Ctx *c = k->m->c;
    const Type *t = input_type(k, X), *w = input_type(k, WEIGHT);

    if (t->rank != 3 || !expr_const(t->dim[2], &l->wide))
        return call_refuse(k,
                           "LongformerAttention of %s; rows [b, s, heads * size] of known width "
                           "are needed",
                           type_str(c, t));
    if (l->heads < 1 || l->wide % l->heads)
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "LongformerAttention has %" PRId64 " heads for %" PRId64 " columns",
                          l->heads, l->wide);
    if (get_int(k, "window", 0) < 1)
        return call_refuse(k, "LongformerAttention with a window of %" PRId64 " tokens",
                           get_int(k, "window", 0));
    l->apart = w->rank == 3;
    const Expr *n = t->dim[2], *three = expr_int(c, 3), *sides[] = { three, n, n };
    const Expr *joined[] = { n, expr_scale(c, n, 3) };
    const Expr *const *weight = l->apart ? sides : joined;
    const uint32_t rank = l->apart ? 3 : 2;
    const Expr *bias = expr_scale(c, n, l->apart ? 5 : 3), *global = l->apart ? n : bias;
    return need_shape(k, WEIGHT, "weight", rank, weight) && need_shape(k, BIAS, "bias", 1, &bias) &&
           need_shape(k, GLOBAL_WEIGHT, "global_weight", rank, weight) &&
           need_shape(k, GLOBAL_BIAS, "global_bias", 1, &global) &&
           need_shape(k, MASK, "mask", 2, t->dim) && need_shape(k, GLOBAL, "global", 2, t->dim);
}

bool
convert_longformer(Call *k)
{
    Longformer l = { .k = k, .heads = get_int(k, "num_heads", 0) };

    if (!need_inputs(k, 7) || !sizes_fit(&l))
        return false;
    ValueId flat = little_single(k, -1), x = call_in(k, X);
    const int64_t as_rows[] = { -1, l.wide };
    l.shape = little_shape(k, x);
    l.batch = little_element(k, l.shape, 0);
    l.tokens = little_element(k, l.shape, 1);
    l.rows = little_2(k, OP_reshape, x, little_list(k, 2, as_rows));
    l.padding = little_2(k, OP_reshape, call_in(k, MASK), flat);
    ValueId flags = little_cast(k, call_in(k, GLOBAL), DT_BOOL);
    ValueId at = flags ? call_positions(k, little_2(k, OP_reshape, flags, flat)) : 0;
    ValueId few = at && l.rows && l.padding ? global(&l, at) : 0, all = few ? local(&l, flags) : 0;
    ValueId rows = all ? little_2(k, OP_reshape, all, little_list(k, 2, as_rows)) : 0;
    ValueId y = rows ? little_3(k, OP_scatter_nd, rows, little_unsqueeze(k, at, 1), few) : 0;
    if (!y)
        return false;
    ValueId zero = scalar_const(k, "padding", x, 0);
    ValueId hidden = little_unsqueeze(k, little_2(k, OP_less, call_in(k, MASK), zero), 2);
    y = little_2(k, OP_reshape, y, l.shape);
    return finish(k, y && hidden ? little_3(k, OP_where, hidden, zero, y) : 0);
}
