/* contrib: operators of ONNX Runtime (com.microsoft) that exporters write, as texts of Tenon's.
 * Fusion makes one kernel of each. quantised.c has those that compute in integers. */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <string.h>

/* ---- floats ---------------------------------------------------------------------------------- */

/* Operand i of a matmul: moves its first axis after the other batch axes, then transposes the last
 * two. */
static ValueId
fused_operand(Call *k, uint32_t i, const char *batch, const char *turn)
{
    ValueId x = call_in(k, i);
    int64_t rank = value_type(k, x)->rank;

    x = get_int(k, batch, 0) && rank > 2 ? call_moved(k, x, 0, -2) : x;
    return get_int(k, turn, 0) ? call_moved(k, x, -1, -2) : x;
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

/* Without a mean (rms_norm) there is no bias, and the mean output is 0; the deviation output is its
 * reciprocal. */
static bool
convert_skip_norm(Call *k)
{
    const bool rms = k->op == OP_rms_norm;

    call_number(k, "rms", rms);
    call_number(k, "zeros", rms && k->nout > 1);
    call_fact(k, "results",
              k->nout < 2   ? "y"
              : rms         ? "y, deviation"
              : k->nout < 3 ? "y, mean"
                            : "y, mean, deviation");
    return call_says(k,
                     rms ? "x skip scale ? extra -> y mean deviation sum"
                         : "x skip scale ? bias extra -> y mean deviation sum",
                     "$rms? bias = absent\n"
                     "sum = x + skip\n"
                     "extra? sum = sum + extra\n"
                     "$results = self(sum, scale, bias) {*}\n"
                     "$zeros? mean = expand(like(0, deviation), shape(deviation))");
}

/* Adds a row each of two or three tables and normalises; the number of tokens of each sequence by
 * the mask; and the sum. */
bool
convert_embed_norm(Call *k)
{
    enum { IDS, SEGMENTS, WORDS, PLACES, KINDS, SCALE };

    if (!call_in(k, IDS) || !call_in(k, WORDS) || !call_in(k, PLACES) || !call_in(k, SCALE))
        return call_refuse(k, "EmbedLayerNormalization without ids, words, places or scale");
    call_number(k, "counts", k->nout > 1 && *k->proto->output[1]);
    return call_says(k,
                     "ids ? segments words places kinds scale offset mask positions -> y count sum",
                     "positions? place = gather(places, positions)\n"
                     "!positions? place = slice(places, [0], gather(shape(ids), [1]))\n"
                     "sum = gather(words, ids) + place\n"
                     "segments? kinds? sum = sum + gather(kinds, segments)\n"
                     "y = layer_norm(sum, scale, offset) {epsilon = $epsilon:1e-12}\n"
                     "$counts? !mask? mask = ids * 0\n"
                     "$counts? count = reduce_sum(mask, [1]) {keepdims = 0}");
}

static bool
convert_rotary(Call *k)
{
    int64_t heads = get_int(k, "num_heads", 0), hidden, half;

    if (!call_names(k, "x[_, _, _, ...] positions cos[_, _] sin -> y"))
        return false;
    const Type *x = input_type(k, 0), *at = input_type(k, 1), *cache = input_type(k, 2);
    if (at->rank < 1 || at->rank > 2)
        return call_wrong(k, "RotaryEmbedding of %s at positions %s; one or two axes are needed",
                          type_str(k->c, x), type_str(k->c, at));
    if (x->rank == 3 && !heads && expr_const(x->dim[2], &hidden) &&
        expr_const(cache->dim[1], &half) && half > 0)
        set_int(k, "num_heads", hidden / (2 * half));
    /* x is [batch, heads, sequence, size] or [batch, sequence, wide] */
    call_number(k, "tokens", x->rank - 2);
    call_number(k, "offset", at->rank == 1);
    return call_text(k, "$offset? sizes = gather(shape(x), [0, $tokens])\n"
                        "$offset? positions = range(0, gather(sizes, 1), 1) + positions\n"
                        "$offset? positions = expand(positions, sizes)\n"
                        "y = rotary_embedding(x, cos, sin, positions) {*}");
}

/* ---- an operator and its activation ---------------------------------------------------------- */

/* Number `nth` of the activation, its attribute `name`: by position in activation_params, or by
 * name. */
static bool
activation_number(Call *k, const char *name, uint32_t nth, double *v)
{
    const Attr *list = call_attr(k, "activation_params"),
               *one = call_attr(k, arena_printf(k->arena, "activation_%s", name));

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
            bound[i] = arena_printf(k->arena, "%a", v);
    return arena_printf(k->arena, "clip(y, %s, %s)", bound[0], bound[1]);
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
    Text text = { .arena = k->arena };
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

/* Its text reads the function of y as `$function`. */
static bool
convert_fused(Call *k)
{
    const char *activation = activation_text(k);

    if (activation)
        call_fact(k, "function", activation);
    return activation;
}

/* The same for an image with channels last; z has the result's layout. */
static const char conv_last[] = "$second? x = transpose(x) {perm = $second}\n"
                                "y = conv(x, w, bias) {*}\n"
                                "$last? y = transpose(y) {perm = $last}\n"
                                "z? y = y + z\n"
                                "y = $function";
static const char bias_gelu[] = "bias? x = x + bias\n"
                                "y = self(x)";

const OpRow composed_rows[] = {
    { "com.microsoft.Gelu", OP_gelu, .names = "x ? bias -> y", .text = bias_gelu },
    { "com.microsoft.BiasGelu", OP_gelu, .names = "x ? bias -> y", .text = bias_gelu },
    { "com.microsoft.FastGelu", OP_gelu_tanh, .names = "x ? bias -> y", .text = bias_gelu },
    { "com.microsoft.QuickGelu", OP_swish, .names = "x -> y",
      .text = "y = self(x) {alpha = $alpha:1.702}" },
    { "com.microsoft.FusedMatMul", OP_NONE, convert_fused_matmul },
    { "com.microsoft.TransposeMatMul", OP_NONE, convert_fused_matmul },
    { "com.microsoft.SkipLayerNormalization", OP_layer_norm, convert_skip_norm },
    { "com.microsoft.SkipSimplifiedLayerNormalization", OP_rms_norm, convert_skip_norm },
    { "SimplifiedLayerNormalization", OP_rms_norm, 0, 0, "-stash_type" },
    { "com.microsoft.RotaryEmbedding", OP_NONE, convert_rotary, "i1",
      "-is_packed_batching=0 -scale=1" },
    { "com.microsoft.Attention", OP_attention, convert_packed_attention, "i36",
      "-do_rotary=0 -past_present_share_buffer=0 +num_heads" },
    { "com.microsoft.QAttention", OP_attention, convert_quantised_attention, "i5",
      "-do_rotary=0 -past_present_share_buffer=0 +num_heads" },
    { "com.microsoft.MultiHeadAttention", OP_attention, convert_multi_head, "i489" },
    { "com.microsoft.FusedConv", OP_NONE, convert_fused, .names = "x w ? bias z -> y",
      .text = "y = conv(x, w, bias) {*}\n"
              "z? y = y + z\n"
              "y = $function" },
    { "com.microsoft.FusedGemm", OP_NONE, convert_fused, .names = "a b ? c -> y",
      .text = "y = gemm(a, b, c) {*}\n"
              "y = $function" },
    { "com.microsoft.NhwcConv", OP_NONE, convert_fused, .names = "x w ? bias z -> y",
      .text = conv_last },
    { "com.microsoft.NhwcFusedConv", OP_NONE, convert_fused, .names = "x w ? bias z -> y",
      .text = conv_last },
    { "com.microsoft.NhwcMaxPool", OP_max_pool, .names = "x -> y",
      .text = "$second? x = transpose(x) {perm = $second}\n"
              "y = self(x) {*}\n"
              "$last? y = transpose(y) {perm = $last}" },
    { "com.microsoft.EmbedLayerNormalization", OP_layer_norm, convert_embed_norm, "i0178" },
    { "com.microsoft.GroupQueryAttention", OP_attention, convert_group_query, "i569",
      "+num_heads +kv_num_heads -kv_cache_bit_width=0 -qk_output=0" },
    { "com.microsoft.MatMulNBits", OP_matmul_nbits, 0, "i4", "-accuracy_level",
      "x w scales ? zeros !g_idx bias", "" },
    { 0 },
};
