/* contrib: operators of ONNX Runtime (com.microsoft) that exporters write, as texts of Tenon's.
 * Fusion makes one kernel of each. quantised.c has those that compute in integers. */
#include "import/compose.h"
#include "import/converters.h"

#include <string.h>

/* ---- floats ---------------------------------------------------------------------------------- */

/* gelu(x + bias?) and its approximations */
static bool
convert_bias_gelu(Call *k)
{
    return call_says(k, "x ? bias -> y",
                     "bias? x = x + bias\n"
                     "y = self(x)");
}

/* Operand i of a matmul: moves its first axis after the other batch axes, then transposes the last
 * two. */
static ValueId
fused_operand(Call *k, uint32_t i, const char *batch, const char *turn)
{
    ValueId x = call_in(k, i);
    int64_t perm[TN_MAX_RANK], rank = value_type(k, x)->rank;

    for (int64_t d = 0; d < rank; d++)
        perm[d] = d + 2 < rank ? d + 1 : d + 2 == rank ? 0 : d;
    x = get_int(k, batch, 0) && rank > 2 ? call_transposed(k, x, perm) : x;
    return get_int(k, turn, 0) ? call_matrix_transposed(k, x) : x;
}

static bool
convert_fused_matmul(Call *k)
{
    if (!call_names(k, "a b -> y"))
        return false;
    call_name(k, "a", fused_operand(k, 0, "transBatchA", "transA"));
    call_name(k, "b", fused_operand(k, 1, "transBatchB", "transB"));
    return call_text(k, "y = matmul(a, b)%s", times_text(k, get_float(k, "alpha", 1)));
}

static bool
convert_quick_gelu(Call *k)
{
    return call_says(k, "x -> y", "y = self(x) {alpha = %a}", get_float(k, "alpha", 1.702));
}

/* Without a mean (rms_norm) there is no bias, and the mean output is 0; the deviation output is its
 * reciprocal. */
static bool
convert_skip_norm(Call *k)
{
    bool rms = k->op == OP_rms_norm;
    const char *names = rms ? "x skip scale ? extra -> y mean deviation sum"
                            : "x skip scale ? bias extra -> y mean deviation sum";
    const char *results = k->nout < 2   ? "y"
                          : rms         ? "y, deviation"
                          : k->nout < 3 ? "y, mean"
                                        : "y, mean, deviation";

    return call_names(k, names) &&
           call_text(k,
                     "sum = x + skip\n"
                     "extra? sum = sum + extra\n"
                     "%s = self(sum, scale%s) {*}",
                     results, rms ? "" : ", bias") &&
           (!rms || k->nout < 2 ||
            call_text(k, "mean = expand(like(0, deviation), shape(deviation))"));
}

/* Adds a row each of two or three tables and normalises; the number of tokens of each sequence by
 * the mask; and the sum. */
bool
convert_embed_norm(Call *k)
{
    enum { IDS, SEGMENTS, WORDS, PLACES, KINDS, SCALE };
    bool counts = k->nout > 1 && *text_of(k->proto->output[1]);

    if (!call_in(k, IDS) || !call_in(k, WORDS) || !call_in(k, PLACES) || !call_in(k, SCALE))
        return call_refuse(k, "EmbedLayerNormalization without ids, words, places or scale");
    return call_says(k,
                     "ids ? segments words places kinds scale offset mask positions -> y count sum",
                     "positions? place = gather(places, positions)\n"
                     "!positions? place = slice(places, [0], gather(shape(ids), [1]))\n"
                     "sum = gather(words, ids) + place\n"
                     "segments? kinds? sum = sum + gather(kinds, segments)\n"
                     "y = layer_norm(sum, scale, offset) {epsilon = %a}\n"
                     "%s",
                     get_float(k, "epsilon", 1e-12),
                     counts ? "!mask? mask = ids * 0\n"
                              "count = reduce_sum(mask, [1]) {keepdims = 0}"
                            : "");
}

/* i64[batch, sequence]: offset, offset + 1, … for each sequence of x, [batch, heads, sequence,
 * size] or [batch, sequence, wide]. */
static ValueId
positions_from(Call *k, ValueId x, ValueId offset)
{
    return value_of_text(k, "x offset", VALUES(x, offset),
                         "sizes = gather(shape(x), [0, %u])\n"
                         "expand(range(0, gather(sizes, 1), 1) + offset, sizes)",
                         value_type(k, x)->rank - 2u);
}

static bool
convert_rotary(Call *k)
{
    int64_t heads = get_int(k, "num_heads", 0), hidden, half;

    if (!call_names(k, "x positions cos sin -> y"))
        return false;
    const Type *x = input_type(k, 0), *at = input_type(k, 1), *cache = input_type(k, 2);
    if (get_int(k, "is_packed_batching", 0) || get_float(k, "scale", 1) != 1)
        return call_refuse(k, "RotaryEmbedding packed or scaled");
    if (x->rank < 3 || cache->rank != 2 || at->rank < 1 || at->rank > 2)
        return call_wrong(k, "RotaryEmbedding of %s at positions %s with cosines %s",
                          type_str(k->m->c, x), type_str(k->m->c, at), type_str(k->m->c, cache));
    if (at->rank == 1)
        call_name(k, "positions", positions_from(k, call_in(k, 0), call_in(k, 1)));
    if (x->rank == 3 && !heads && expr_const(x->dim[2], &hidden) &&
        expr_const(cache->dim[1], &half) && half > 0)
        set_int(k, "num_heads", hidden / (2 * half));
    return call_value(k, "positions") &&
           call_text(k, "y = rotary_embedding(x, cos, sin, positions) {*}");
}

static bool
convert_matmul_nbits(Call *k)
{
    if (call_in(k, 4))
        return call_refuse(k, "MatMulNBits with an order of groups (g_idx)");
    return true;
}

/* ---- an operator and its activation ---------------------------------------------------------- */

/* Number `nth` of the activation, its attribute `name`: by position in activation_params, or by
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

static const char *
clip_text(Call *k)
{
    static const char *const names[] = { "alpha", "beta" };
    const char *bound[2] = { "_", "_" };
    double v;

    for (uint32_t i = 0; i < 2; i++)
        if (activation_number(k, names[i], i, &v))
            bound[i] = arena_printf(k->m->arena, "%a", v);
    return arena_printf(k->m->arena, "clip(y, %s, %s)", bound[0], bound[1]);
}

/* The function of y that attribute "activation" names, one of ONNX's; y itself if there is none.
 * NULL, reported. Its attributes are dropped, since other operators do not know them. */
static const char *
activation_text(Call *k)
{
    static const char *const known[] = { "Relu",        "Tanh",      "Sigmoid",        "LeakyRelu",
                                         "HardSigmoid", "HardSwish", "Swish",          "Elu",
                                         "Selu",        "Celu",      "Gelu",           "Mish",
                                         "Softplus",    "Softsign",  "ThresholdedRelu" };
    static const char *const names[] = { "alpha", "beta", "gamma" };
    const char *name = get_string(k, "activation", ""), *clip = clip_text(k);
    Text text = { .arena = k->m->arena };
    uint32_t r = 0, nth = 0, n = 0, kept = 0;
    double v;

    name = strcmp(name, "Silu") ? name : "Swish";
    while (r < sizeof known / sizeof *known && strcmp(known[r], name))
        r++;
    if (r < sizeof known / sizeof *known) {
        OpKind op = op_row(k->m, name)->op;
        text_printf(&text, "%s(y) {", op_info[op].name);
        for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strstr(op_info[op].attrs, names[i]) && activation_number(k, names[i], nth++, &v))
                text_printf(&text, n++ ? ", %s = %a" : "%s = %a", names[i], v);
        text_add(&text, "}");
    } else if (*name && strcmp(name, "Clip")) {
        call_refuse(k, "%s with activation \"%s\"", k->proto->op_type, name);
        return NULL;
    }
    for (uint32_t i = 0; i < k->attr.n; i++)
        if (strncmp(k->attr.at[i].name, "activation", strlen("activation")))
            k->attr.at[kept++] = k->attr.at[i];
    k->attr.n = kept;
    return text.n ? text_str(&text) : *name ? clip : "y";
}

static bool
convert_fused_conv(Call *k)
{
    const char *activation = activation_text(k);

    return activation && call_says(k, "x w ? bias z -> y",
                                   "y = conv(x, w, bias) {*}\n"
                                   "z? y = y + z\n"
                                   "y = %s",
                                   activation);
}

/* The same for an image with channels last; z has the result's layout. */
static bool
convert_fused_conv_last(Call *k)
{
    const char *activation = activation_text(k);

    if (!activation || !call_names(k, "x w ? bias z -> y"))
        return false;
    call_name(k, "x", call_channels(k, call_in(k, 0), 1));
    if (!call_text(k, "y = conv(x, w, bias) {*}"))
        return false;
    call_name(k, "y", call_channels(k, call_value(k, "y"), -1));
    return call_text(k,
                     "z? y = y + z\n"
                     "y = %s",
                     activation);
}

static bool
convert_fused_gemm(Call *k)
{
    const char *activation = activation_text(k);

    return activation && call_says(k, "a b ? c -> y",
                                   "y = gemm(a, b, c) {*}\n"
                                   "y = %s",
                                   activation);
}

/* An operator of one image with channels last. */
static bool
convert_channels_last(Call *k)
{
    if (!call_names(k, "x -> y"))
        return false;
    call_name(k, "x", call_channels(k, call_in(k, 0), 1));
    return call_text(k, "y = self(x) {*}") && finish(k, call_channels(k, call_value(k, "y"), -1));
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
    { "SimplifiedLayerNormalization", OP_rms_norm, 0, 0, "-stash_type" },
    { "com.microsoft.RotaryEmbedding", OP_NONE, convert_rotary, "i1",
      "-is_packed_batching -scale" },
    { "com.microsoft.Attention", OP_attention, convert_packed_attention, "i36" },
    { "com.microsoft.QAttention", OP_attention, convert_quantised_attention, "i5" },
    { "com.microsoft.MultiHeadAttention", OP_attention, convert_multi_head, "i489" },
    { "com.microsoft.FusedConv", OP_NONE, convert_fused_conv },
    { "com.microsoft.FusedGemm", OP_NONE, convert_fused_gemm },
    { "com.microsoft.NhwcConv", OP_NONE, convert_fused_conv_last },
    { "com.microsoft.NhwcFusedConv", OP_NONE, convert_fused_conv_last },
    { "com.microsoft.NhwcMaxPool", OP_max_pool, convert_channels_last },
    { "com.microsoft.EmbedLayerNormalization", OP_layer_norm, convert_embed_norm, "i0178" },
    { "com.microsoft.GroupQueryAttention", OP_attention, convert_group_query, "i569" },
    { "com.microsoft.MatMulNBits", OP_matmul_nbits, convert_matmul_nbits, "i4", "-accuracy_level" },
    { 0 },
};
