/* composed: operators of ONNX Runtime (com.microsoft) that exporters write, said by several of
 * Tenon's. Fusion makes one kernel of what belongs together. What says itself in integers is in
 * quantised.c.
 */
#include "import/little.h"

#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

ValueId
call_one(Call *k, OpKind op, ValueId x)
{
    return call_op(k, op, 0, NULL, 1, &x, output_name(k));
}

ValueId
call_two(Call *k, OpKind op, ValueId x, ValueId y)
{
    const ValueId in[] = { x, y };
    return call_op(k, op, 0, NULL, 2, in, output_name(k));
}

ValueId
call_in(Call *k, uint32_t i)
{
    return i < k->in.n ? k->in.at[i] : 0;
}

const Type *
value_type(Call *k, ValueId v)
{
    return v ? k->m->g->value.at[v].type : NULL;
}

/* An operator with inputs that may be absent (0); trailing ones are left off. */
ValueId
call_some(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t n, const ValueId *x)
{
    const char *name = output_name(k);
    Attr *attrs = nattr ? arena_copy(k->m->arena, attr, nattr * sizeof *attrs) : NULL;
    ValueId out;

    while (n && !x[n - 1])
        n--;
    return graph_infer_op(k->m->g, op, (Attrs){ attrs, nattr }, k->loc, k->origin, n, x, 1, &name,
                          &out)
               ? out
               : 0;
}

bool
need_inputs(Call *k, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!need_input(k, i))
            return false;
    return true;
}

/* Input i has a dimension of each size; NULL: of any. */
bool
need_shape(Call *k, uint32_t i, const char *name, uint32_t rank, const Expr *const *size)
{
    Ctx *c = k->m->c;
    const Type *t = input_type(k, i);
    const char *op = k->proto->op_type;

    if (!t || t->rank != rank)
        return diag_error(&c->diags, DIAG_MODEL, k->loc, "%s: %s is %s; it needs %u dimensions", op,
                          name, t ? type_str(c, t) : "left out", rank);
    for (uint32_t d = 0; d < rank; d++) {
        const char *why = arena_printf(c->arena, "%s: dimension %u of %s", k->origin, d, name);
        if (size[d] && !model_require(k->m, t->dim[d], size[d], why))
            return diag_error(&c->diags, DIAG_MODEL, k->loc, "%s: dimension %u of %s is %s, not %s",
                              op, d, name, expr_str(c, t->dim[d]), expr_str(c, size[d]));
    }
    return true;
}

/* The last two axes exchanged. */
ValueId
call_turned(Call *k, ValueId x)
{
    const Type *t = value_type(k, x);
    int64_t perm[TN_MAX_RANK];

    if (!t || t->rank < 2)
        return x;
    for (uint32_t d = 0; d < t->rank; d++)
        perm[d] = d + 2 < t->rank ? d : 2 * (int64_t)t->rank - 3 - d;
    Attr a = { .name = sym(k->m->c, "perm"),
               .kind = ATTR_INTS,
               .n = t->rank,
               .ints = arena_copy(k->m->arena, perm, sizeof perm) };
    return call_op(k, OP_transpose, 1, &a, 1, &x, "turned");
}

/* x[n, …, c] as [n, c, …] where `to` is 1, and back where it is -1. */
ValueId
call_channels(Call *k, ValueId x, int to)
{
    const Type *t = value_type(k, x);
    int64_t perm[TN_MAX_RANK];

    if (!t || t->rank < 3)
        return x;
    for (uint32_t d = 0; d < t->rank; d++)
        perm[d] = d == 0 ? 0 : to > 0 ? (d == 1 ? t->rank : d) - 1 : d + 1 == t->rank ? 1 : d + 1;
    Attr a = { .name = sym(k->m->c, "perm"),
               .kind = ATTR_INTS,
               .n = t->rank,
               .ints = arena_copy(k->m->arena, perm, sizeof perm) };
    return call_op(k, OP_transpose, 1, &a, 1, &x, "turned");
}

/* ---- floats ---------------------------------------------------------------------------------- */

/* gelu(x + bias?) and its approximations */
static bool
convert_bias_gelu(Call *k)
{
    if (!need_input(k, 0))
        return false;
    return finish(k, call_one(k, k->op,
                              call_in(k, 1) ? call_two(k, OP_add, call_in(k, 0), call_in(k, 1))
                                            : call_in(k, 0)));
}

/* Operand i of a product: first its first axis goes behind the others of the batch, then the last
 * two are exchanged. */
static ValueId
fused_operand(Call *k, uint32_t i, const char *batch, const char *turn)
{
    ValueId x = call_in(k, i);
    uint32_t rank = value_type(k, x)->rank;
    int64_t *perm = NEW_ARRAY(k->m->arena, int64_t, rank + 1);

    if (get_int(k, batch, 0) && rank > 2) {
        for (uint32_t d = 0; d < rank; d++)
            perm[d] = d + 2 < rank ? d + 1 : d + 2 == rank ? 0 : d;
        Attr a = { .name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = rank, .ints = perm };
        x = call_op(k, OP_transpose, 1, &a, 1, &x, "turned");
    }
    return x && get_int(k, turn, 0) ? call_turned(k, x) : x;
}

static bool
convert_fused_matmul(Call *k)
{
    double alpha = attr_float((Attrs){ k->attr.at, k->attr.n }, "alpha", 1);

    if (!need_inputs(k, 2))
        return false;
    ValueId a = fused_operand(k, 0, "transBatchA", "transA"),
            b = fused_operand(k, 1, "transBatchB", "transB");
    ValueId y = a && b ? call_two(k, OP_matmul, a, b) : 0;
    return finish(k,
                  y && alpha != 1 ? call_two(k, OP_mul, y, scalar_const(k, "alpha", y, alpha)) : y);
}

static bool
convert_quick_gelu(Call *k)
{
    if (!call_attr(k, "alpha"))
        VEC_PUSH(k->m->arena, &k->attr,
                 ((Attr){ .name = sym(k->m->c, "alpha"), .kind = ATTR_FLOAT, .f = 1.702 }));
    return true;
}

static bool
convert_simplified_norm(Call *k)
{
    call_drop(k, "stash_type"); /* sums are at least as wide as it says */
    return true;
}

/* x skip scale bias? extra?, or without the mean x skip scale extra?; outputs: the mean,
 * 1/deviation, and the sum. */
static bool
convert_skip_norm(Call *k)
{
    enum { Y, MEAN, DEVIATION, SUM };
    bool rms = k->op == OP_rms_norm;
    ValueId extra = call_in(k, rms ? 3 : 4), out[3] = { 0 }, mean = 0;
    const char *names[] = { output_name(k), rms ? "deviation" : "mean", "deviation" };

    if (!need_inputs(k, 3))
        return false;
    ValueId sum = call_two(k, OP_add, call_in(k, 0), call_in(k, 1));
    sum = sum && extra ? call_two(k, OP_add, sum, extra) : sum;
    if (!sum)
        return false;
    const ValueId v[] = { sum, call_in(k, 2), rms ? 0 : call_in(k, 3) };
    uint32_t statistics = k->nout > DEVIATION ? 2
                          : k->nout > MEAN    ? 1
                                              : 0,
             nout = 1 + (rms && statistics ? 1 : statistics);
    Attr *attrs = arena_copy(k->m->arena, k->attr.at, k->attr.n * sizeof *attrs);
    if (!graph_infer_op(k->m->g, k->op, (Attrs){ attrs, k->attr.n }, k->loc, k->origin,
                        v[2] ? 3 : 2, v, nout, names, out))
        return false;
    if (rms && statistics) { /* nothing is taken away: a mean of 0 */
        mean = little_2(k, OP_expand, scalar_const(k, "mean", out[1], 0), little_shape(k, out[1]));
        if (!mean)
            return false;
    }
    call_bind(k, MEAN, rms ? mean : out[1]);
    call_bind(k, DEVIATION, rms ? out[1] : out[2]);
    call_bind(k, SUM, sum);
    return finish(k, out[Y]);
}

/* ids segments? words places segment rows? scale bias mask? positions?: a row each of two or three
 * tables, added and normalised; how many tokens of each sequence the mask has, and the sum. */
bool
convert_embed_norm(Call *k)
{
    enum { IDS, SEGMENTS, WORDS, PLACES, KINDS, SCALE, OFFSET, MASK, POSITIONS };
    const int64_t zero = 0, one = 1;
    ValueId sum, place = call_in(k, PLACES);

    if (!call_in(k, IDS) || !call_in(k, WORDS) || !place || !call_in(k, SCALE))
        return call_refuse(k, "EmbedLayerNormalization without ids, words, places or scale");
    if (call_in(k, POSITIONS)) {
        place = call_two(k, OP_gather, place, call_in(k, POSITIONS));
    } else {
        const ValueId length = call_two(k, OP_gather, call_one(k, OP_shape, call_in(k, IDS)),
                                        call_ints(k, "axis", 1, &one));
        const ValueId v[] = { place, call_ints(k, "from", 1, &zero), length };
        place = length ? call_some(k, OP_slice, 0, NULL, 3, v) : 0;
    }
    sum = call_two(k, OP_gather, call_in(k, WORDS), call_in(k, IDS));
    sum = sum && place ? call_two(k, OP_add, sum, place) : 0;
    if (sum && call_in(k, SEGMENTS) && call_in(k, KINDS)) {
        ValueId kind = call_two(k, OP_gather, call_in(k, KINDS), call_in(k, SEGMENTS));
        sum = kind ? call_two(k, OP_add, sum, kind) : 0;
    }
    if (!sum)
        return false;
    if (k->nout > 1 && *text_of(k->proto->output[1])) {
        Attr drop = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 };
        ValueId mask = call_in(k, MASK) ? call_in(k, MASK)
                                        : call_two(k, OP_mul, call_in(k, IDS),
                                                   scalar_const(k, "none", call_in(k, IDS), 0));
        call_bind(k, 1,
                  mask ? call_some(k, OP_reduce_sum, 1, &drop, 2,
                                   (ValueId[]){ mask, call_ints(k, "axis", 1, &one) })
                       : 0);
    }
    call_bind(k, 2, sum);
    Attr epsilon = { .name = sym(k->m->c, "epsilon"),
                     .kind = ATTR_FLOAT,
                     .f = attr_float((Attrs){ k->attr.at, k->attr.n }, "epsilon", 1e-12) };
    return finish(k, call_some(k, OP_layer_norm, 1, &epsilon, 3,
                               (ValueId[]){ sum, call_in(k, SCALE), call_in(k, OFFSET) }));
}

/* i64[batch, sequence]: offset, offset + 1, … for each sequence of x, [batch, heads, sequence,
 * size] or [batch, sequence, wide]. */
static ValueId
positions_from(Call *k, ValueId x, ValueId offset)
{
    const int64_t place[] = { 0, value_type(k, x)->rank - 2 };
    const ValueId shape = little_shape(k, x),
                  sizes = shape ? little_2(k, OP_gather, shape, little_list(k, 2, place)) : 0;
    const ValueId n = sizes ? little_2(k, OP_gather, sizes, little_number(k, 1)) : 0;
    const ValueId count =
        n ? little_3(k, OP_range, little_number(k, 0), n, little_number(k, 1)) : 0;
    const ValueId row = count ? little_2(k, OP_add, count, offset) : 0;

    return row ? little_2(k, OP_expand, row, sizes) : 0;
}

/* x positions cos sin */
static bool
convert_rotary(Call *k)
{
    int64_t heads = get_int(k, "num_heads", 0), hidden, half;

    if (!need_inputs(k, 4))
        return false;
    const Type *x = input_type(k, 0), *cache = input_type(k, 2);
    if (get_int(k, "is_packed_batching", 0) ||
        attr_float((Attrs){ k->attr.at, k->attr.n }, "scale", 1) != 1)
        return call_refuse(k, "RotaryEmbedding packed or scaled");
    if (x->rank < 3 || cache->rank != 2 || input_type(k, 1)->rank < 1 || input_type(k, 1)->rank > 2)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "RotaryEmbedding of %s at positions %s with cosines %s",
                          type_str(k->m->c, x), type_str(k->m->c, input_type(k, 1)),
                          type_str(k->m->c, cache));
    ValueId at = input_type(k, 1)->rank == 2 ? call_in(k, 1)
                                             : positions_from(k, call_in(k, 0), call_in(k, 1));
    if (!at)
        return false;
    if (x->rank == 3 && !heads && expr_const(x->dim[2], &hidden) &&
        expr_const(cache->dim[1], &half) && half > 0)
        set_int(k, "num_heads", hidden / (2 * half));
    call_drop(k, "is_packed_batching");
    call_drop(k, "scale");
    const ValueId v[] = { call_in(k, 0), call_in(k, 2), call_in(k, 3), at };
    return finish(k, call_some(k, OP_rotary_embedding, k->attr.n, k->attr.at, 4, v));
}

static bool
convert_matmul_nbits(Call *k)
{
    if (call_in(k, 4))
        return call_refuse(k, "MatMulNBits with an order of groups (g_idx)");
    call_drop(k, "accuracy_level");
    return true;
}

/* Number `nth` of the activation, its attribute `name`: by place in activation_params, or by
 * name. */
static bool
activation_number(Call *k, const char *name, uint32_t nth, double *v)
{
    const Attr *list = call_attr(k, "activation_params"),
               *one = call_attr(k, arena_printf(k->m->arena, "activation_%s", name));

    if (list && list->kind == ATTR_FLOATS && nth < list->n) {
        *v = list->floats[nth];
        return true;
    }
    *v = one && one->kind == ATTR_FLOAT ? one->f : 0;
    return one && one->kind == ATTR_FLOAT;
}

static ValueId
clipped(Call *k, ValueId y)
{
    double low, high;
    bool below = activation_number(k, "alpha", 0, &low),
         above = activation_number(k, "beta", 1, &high);

    return call_some(k, OP_clip, 0, NULL, 3,
                     (ValueId[]){ y, below ? scalar_const(k, "min", y, low) : 0,
                                  above ? scalar_const(k, "max", y, high) : 0 });
}

/* The function that attribute "activation" names, of y: one of ONNX's. None is named: y itself. 0,
 * reported. */
static ValueId
activated(Call *k, ValueId y)
{
    static const char *const known[] = { "Relu",        "Tanh",      "Sigmoid",        "LeakyRelu",
                                         "HardSigmoid", "HardSwish", "Swish",          "Elu",
                                         "Selu",        "Celu",      "Gelu",           "Mish",
                                         "Softplus",    "Softsign",  "ThresholdedRelu" };
    static const char *const names[] = { "alpha", "beta", "gamma" };
    const char *name = attr_string((Attrs){ k->attr.at, k->attr.n }, "activation", "");
    uint32_t r = 0, n = 0;
    Attr attr[3];

    if (!y || !*name)
        return y;
    if (!strcmp(name, "Clip"))
        return clipped(k, y);
    name = strcmp(name, "Silu") ? name : "Swish";
    while (r < sizeof known / sizeof *known && strcmp(known[r], name))
        r++;
    if (r == sizeof known / sizeof *known) {
        call_refuse(k, "%s with activation \"%s\"", k->proto->op_type, name);
        return 0;
    }
    OpKind op = op_row(name)->op;
    for (uint32_t i = 0, nth = 0; i < sizeof names / sizeof *names; i++) {
        double v;
        if (strstr(op_info[op].attrs, names[i]) && activation_number(k, names[i], nth++, &v))
            attr[n++] = (Attr){ .name = sym(k->m->c, names[i]), .kind = ATTR_FLOAT, .f = v };
    }
    return call_some(k, op, n, attr, 1, &y);
}

/* Operator `op` of the inputs with the node's attributes but those of its activation. */
static ValueId
unactivated(Call *k, OpKind op, uint32_t n, const ValueId *in)
{
    Attr *kept = NEW_ARRAY(k->m->arena, Attr, k->attr.n + 1);
    uint32_t nattr = 0;

    for (uint32_t i = 0; i < k->attr.n; i++)
        if (strncmp(k->attr.at[i].name, "activation", strlen("activation")))
            kept[nattr++] = k->attr.at[i];
    return call_some(k, op, nattr, kept, n, in);
}

/* x w bias? z?: activation(conv(x, w, bias) + z) */
static bool
convert_fused_conv(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    ValueId y =
        unactivated(k, OP_conv, 3, (ValueId[]){ call_in(k, 0), call_in(k, 1), call_in(k, 2) });
    if (y && call_in(k, 3))
        y = call_two(k, OP_add, y, call_in(k, 3));
    return finish(k, activated(k, y));
}

/* The same of an image whose channels lie last; z has the result's order. */
static bool
convert_fused_conv_last(Call *k)
{
    if (!need_inputs(k, 2))
        return false;
    ValueId y = unactivated(
        k, OP_conv, 3,
        (ValueId[]){ call_channels(k, call_in(k, 0), 1), call_in(k, 1), call_in(k, 2) });
    y = call_channels(k, y, -1);
    if (y && call_in(k, 3))
        y = call_two(k, OP_add, y, call_in(k, 3));
    return finish(k, activated(k, y));
}

static bool
convert_fused_gemm(Call *k)
{
    return need_inputs(k, 2) &&
           finish(k, activated(k, unactivated(
                                      k, OP_gemm, 3,
                                      (ValueId[]){ call_in(k, 0), call_in(k, 1), call_in(k, 2) })));
}

/* An operator of one image whose channels lie last. */
static bool
convert_channels_last(Call *k)
{
    if (!need_inputs(k, 1))
        return false;
    ValueId x = call_channels(k, call_in(k, 0), 1);
    return finish(k,
                  x ? call_channels(k, call_some(k, k->op, k->attr.n, k->attr.at, 1, &x), -1) : 0);
}

const OpRow composed_rows[] = {
    { "com.microsoft.Gelu", OP_gelu, convert_bias_gelu },
    { "com.microsoft.BiasGelu", OP_gelu, convert_bias_gelu },
    { "com.microsoft.FastGelu", OP_gelu_tanh, convert_bias_gelu },
    { "com.microsoft.QuickGelu", OP_swish, convert_quick_gelu },
    { "com.microsoft.FusedMatMul", OP_NONE, convert_fused_matmul },
    { "com.microsoft.TransposeMatMul", OP_NONE, convert_fused_matmul },
    { "com.microsoft.SkipLayerNormalization", OP_layer_norm, convert_skip_norm },
    { "com.microsoft.SkipSimplifiedLayerNormalization", OP_rms_norm, convert_skip_norm },
    { "SimplifiedLayerNormalization", OP_rms_norm, convert_simplified_norm },
    { "com.microsoft.RotaryEmbedding", OP_NONE, convert_rotary },
    { "com.microsoft.Attention", OP_attention, convert_packed_attention },
    { "com.microsoft.QAttention", OP_attention, convert_quantised_attention },
    { "com.microsoft.MultiHeadAttention", OP_attention, convert_multi_head },
    { "com.microsoft.FusedConv", OP_NONE, convert_fused_conv },
    { "com.microsoft.FusedGemm", OP_NONE, convert_fused_gemm },
    { "com.microsoft.NhwcConv", OP_NONE, convert_fused_conv_last },
    { "com.microsoft.NhwcFusedConv", OP_NONE, convert_fused_conv_last },
    { "com.microsoft.NhwcMaxPool", OP_max_pool, convert_channels_last },
    { "com.microsoft.EmbedLayerNormalization", OP_layer_norm, convert_embed_norm },
    { "com.microsoft.GroupQueryAttention", OP_attention, convert_group_query },
    { "com.microsoft.MatMulNBits", OP_matmul_nbits, convert_matmul_nbits },
    { 0 },
};
