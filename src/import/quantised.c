/* quantised: ONNX's and ONNX Runtime's operators on quantised numbers, as integer contractions that
 * are rescaled. */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- operators ------------------------------------------------------------------------------- */

/* Integer contractions; bias: integers on the scale of the sums, or 0. */
/* The sums of a convolution with these attributes, with a bias on their scale if there is one. */
static ValueId
conv_sums(Call *k, Attrs attrs, ValueId x, ValueId w, ValueId x_zero, ValueId w_zero, ValueId bias)
{
    static const int64_t behind[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    const uint32_t rank = x ? value_type(k, x)->rank : 2;
    Call with = *k;

    with.attr.at = (Attr *)attrs.at;
    with.attr.n = attrs.n;
    return value_of_text(&with, "x w x_zero w_zero bias", VALUES(x, w, x_zero, w_zero, bias),
                         "sums = conv_integer(x, w, x_zero, w_zero) {*}\n"
                         "bias? sums = sums + unsqueeze(bias, %s)",
                         ints_text(k, rank < 2 ? 0 : rank - 2, behind));
}

static ValueId
requantized(Call *k, ValueId sums, ValueId a, ValueId b, ValueId y, ValueId zero, int axis)
{
    return value_of_text(k, "sums a b y zero", VALUES(sums, a, b, y, zero),
                         "requantize_linear(sums, a, b, y, zero) {axis = %d}", axis);
}

/* Floats of 8 bits are dequantised, multiplied, and quantised again. */
static bool
convert_qlinear_matmul(Call *k)
{
    if (!call_names(k, "a a_scale a_zero b b_scale b_zero y_scale ? y_zero -> y"))
        return false;
    bool real = dtype_is_float(input_type(k, 0)->dtype) ||
                dtype_is_float(input_type(k, 3)->dtype) ||
                (input_type(k, 7) && dtype_is_float(input_type(k, 7)->dtype));
    return call_text(
        k, real ? "a = dequantize_linear(a, a_scale, a_zero) {axis = -2}\n"
                  "b = dequantize_linear(b, b_scale, b_zero) {axis = -1}\n"
                  "y = quantize_linear(matmul(a, b), y_scale, y_zero) {axis = -1}"
                : "y = matmul_integer(a, b, a_zero, b_zero)\n"
                  "y = requantize_linear(y, a_scale, b_scale, y_scale, y_zero) {axis = -1}");
}

static bool
convert_qlinear_conv(Call *k)
{
    const bool last = get_int(k, "channels_last", 0) != 0;

    if (!need_inputs(k, 7))
        return false;
    ValueId x = last ? call_moved(k, call_in(k, 0), -1, 1) : call_in(k, 0);
    ValueId sums = conv_sums(k, (Attrs){ k->attr.at, k->attr.n }, x, call_in(k, 3), call_in(k, 2),
                             call_in(k, 5), call_in(k, 8));
    ValueId y = requantized(k, sums, call_in(k, 1), call_in(k, 4), call_in(k, 6), call_in(k, 7), 1);
    return finish(k, last ? call_moved(k, y, 1, -1) : y);
}

/* Without a scale of its own the result is float. alpha scales the bias too. */
static bool
convert_qgemm(Call *k)
{
    if (!call_names(k, "a a_scale a_zero b b_scale ? b_zero c y_scale y_zero -> y"))
        return false;
    if (get_int(k, "transA", 0))
        call_name(k, "a", call_moved(k, call_in(k, 0), -1, -2));
    if (get_int(k, "transB", 0))
        call_name(k, "b", call_moved(k, call_in(k, 3), -1, -2));
    return call_text(k,
                     "a_scale = a_scale%s\n"
                     "sums = matmul_integer(a, b, a_zero, b_zero)\n"
                     "c? sums = sums + c\n"
                     "y_scale? y = requantize_linear(sums, a_scale, b_scale, y_scale, y_zero) "
                     "{axis = -1}\n"
                     "!y_scale? y = f32(sums) * (a_scale * b_scale)",
                     times_text(k, get_float(k, "alpha", 1)));
}

/* An operator of one input; its attributes are the node's. */
static const char qlinear_one[] = "x = dequantize_linear(x, x_scale, x_zero)\n"
                                  "$channels_last? $second? x = transpose(x) {perm = $second}\n"
                                  "y = quantize_linear(self(x) {*}, y_scale, y_zero)\n"
                                  "$channels_last? $last? y = transpose(y) {perm = $last}";

/* Its `opset` selects the Softmax: before 13 over all axes from `axis` on, 1 by default. */
static bool
convert_qlinear_softmax(Call *k)
{
    if (!call_names(k, "x x_scale x_zero y_scale ? y_zero -> y") ||
        !call_text(k, "x = dequantize_linear(x, x_scale, x_zero)"))
        return false;
    call_name(k, "y", call_softmax(k, call_value(k, "x"), get_int(k, "opset", 13)));
    return call_text(k, "y = quantize_linear(y, y_scale, y_zero)");
}

/* y_scale y_zero, then x scale zero for each part. */
static bool
convert_qlinear_concat(Call *k)
{
    uint32_t n = k->in.n >= 2 ? (k->in.n - 2) / 3 : 0;
    Text parts = { .arena = k->arena };

    if (n < 1 || n > 64 || k->in.n != 2 + 3 * n)
        return call_refuse(k, "QLinearConcat of %u inputs", k->in.n);
    if (!call_names(k, "y_scale y_zero -> y"))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        call_name(k, "x", call_in(k, 2 + 3 * i));
        call_name(k, "scale", call_in(k, 3 + 3 * i));
        call_name(k, "zero", call_in(k, 4 + 3 * i));
        if (!call_text(k, "part_%u = dequantize_linear(x, scale, zero)", i))
            return false;
        text_printf(&parts, i ? ", part_%u" : "part_%u", i);
    }
    return call_text(k, "y = quantize_linear(self(%s) {*}, y_scale, y_zero)", text_str(&parts));
}

/* A product of integers in floats. */
#define SCALED_PRODUCT                                                                             \
    "y = like(matmul_integer(a, b, a_zero, b_zero), a_scale)\n"                                    \
    "y = y * (a_scale * b_scale)\n"                                                                \
    "bias? y = y + bias"

/* ---- Quantize(product(Dequantize(x), Dequantize(w))): the product in integers ----------------
 *
 * Exporters write integer computations as floats between DequantizeLinear and QuantizeLinear. Sums
 * of integers are exact, so the result equals that of the floats except for their rounding; weights
 * keep their narrow type. A relu or clip in between is applied to the result, since quantising is
 * monotonic. The float nodes stay, unread unless something else uses them.
 */

/* of products of two differences of 8-bit numbers, in a sum of 32 bits */
enum { MOST_TERMS = 32768 };

typedef struct {
    ValueId x, scale, zero;
    int64_t axis;
} Dequantized;
typedef struct {
    const Node *node;
    Dequantized x, w;
    ValueId bias;
} Product;

static const Node *
producer(Call *k, ValueId v, OpKind op)
{
    const Graph *g = k->m->g;
    const Node *n = v ? &g->node.at[g->value.at[v].def] : NULL;
    return n && g->value.at[v].def && n->callee == CALL_OP && n->op == op ? n : NULL;
}

static ValueId
input_of(Call *k, const Node *n, uint32_t i)
{
    return i < n->in.count ? node_in(k->m->g, n, i) : 0;
}

static bool
is_one_number(Call *k, ValueId v)
{
    const Type *t = value_type(k, v);
    return t->rank == 0 || (t->rank == 1 && expr_is(t->dim[0], 1));
}

/* Integers with one f32 scale, or one for each index of an axis. */
static bool
is_dequantized(Call *k, ValueId v, Dequantized *d)
{
    const Node *n = producer(k, v, OP_dequantize_linear);

    if (!n || attr_int(n->attrs, "block_size", 0))
        return false;
    *d = (Dequantized){ input_of(k, n, 0), input_of(k, n, 1), input_of(k, n, 2),
                        attr_int(n->attrs, "axis", 1) };
    d->axis += d->axis < 0 ? value_type(k, d->x)->rank : 0;
    return value_type(k, d->scale)->dtype == DT_F32;
}

static bool
is_byte(Call *k, const Dequantized *d)
{
    DType t = value_type(k, d->x)->dtype;
    return t == DT_I8 || t == DT_U8;
}

/* Contents of a constant of 4-byte elements, which may be unaligned, and their number; a single
 * element stands for all. */
static const uint8_t *
words_of(Call *k, ValueId v, DType t, int64_t *n)
{
    const Value *value = &k->m->g->value.at[v];
    return value->data && value->type->dtype == t && expr_const(type_count(k->c, value->type), n)
               ? value->data
               : NULL;
}

static float
float_at(const uint8_t *words, int64_t n, int64_t i)
{
    float f;
    memcpy(&f, words + (n > 1 ? i : 0) * 4, sizeof f);
    return f;
}

/* The bias on the scale of the sums, which is the product of both scales. */
static bool
bias_fits(Call *k, const Dequantized *b, const Dequantized *x, const Dequantized *w)
{
    int64_t nb, nx, nw, nz = 0;
    const uint8_t *sb = words_of(k, b->scale, DT_F32, &nb),
                  *sx = words_of(k, x->scale, DT_F32, &nx),
                  *sw = words_of(k, w->scale, DT_F32, &nw);
    const uint8_t *zero = b->zero ? words_of(k, b->zero, DT_I32, &nz) : NULL;
    const Type *t = value_type(k, b->x);

    if (!sb || !sx || !sw || !nb || !nx || !nw || t->dtype != DT_I32 || t->rank != 1 ||
        (nb != 1 && nw != 1 && nb != nw))
        return false;
    if (b->zero && !zero)
        return false;
    for (int64_t i = 0; i < 4 * nz; i++)
        if (zero[i])
            return false;
    for (int64_t i = 0; i < nb || i < nw; i++) {
        float product = float_at(sx, nx, 0) * float_at(sw, nw, i), scale = float_at(sb, nb, i);
        if (!(fabsf(scale - product) <= 1e-5f * product))
            return false;
    }
    return true;
}

/* Are there few enough products for a 32-bit sum: dimensions of t from `from` on, except for
 * one? */
static bool
sums_fit(const Type *t, uint32_t from, uint32_t but)
{
    int64_t terms = 1, extent;

    for (uint32_t d = from; d < t->rank; d++)
        if (d != but && (!expr_const(t->dim[d], &extent) || mul_overflows(terms, extent, &terms) ||
                         terms > MOST_TERMS))
            return false;
    return true;
}

/* v as a product of bytes. `along`: the axis of w that becomes the result's; only w may have a
 * scale for each of its indices. */
static bool
is_product(Call *k, ValueId v, Product *p)
{
    Dequantized bias;
    const Node *sum = producer(k, v, OP_add), *n;
    ValueId added = 0;

    for (uint32_t i = 0; sum && i < 2 && !added; i++)
        if (producer(k, input_of(k, sum, i), OP_matmul) &&
            is_dequantized(k, input_of(k, sum, 1 - i), &bias)) {
            v = input_of(k, sum, i);
            added = input_of(k, sum, 1 - i);
        }
    if (!(n = producer(k, v, OP_conv)) && !(n = producer(k, v, OP_matmul)) &&
        !(n = producer(k, v, OP_gemm)))
        return false;
    if (!is_dequantized(k, input_of(k, n, 0), &p->x) ||
        !is_dequantized(k, input_of(k, n, 1), &p->w) || !is_byte(k, &p->x) || !is_byte(k, &p->w))
        return false;
    const Type *w = value_type(k, p->w.x);
    uint32_t along = n->op == OP_conv || attr_int(n->attrs, "transB", 0) ? 0 : w->rank - 1;
    if (n->op != OP_conv && w->rank != 2)
        return false;
    if (n->op == OP_gemm &&
        (attr_float(n->attrs, "alpha", 1) != 1 || attr_float(n->attrs, "beta", 1) != 1 ||
         attr_int(n->attrs, "transA", 0)))
        return false;
    if (!is_one_number(k, p->x.scale) || (!is_one_number(k, p->w.scale) && p->w.axis != along) ||
        !sums_fit(w, 0, along))
        return false;
    added = added ? added : input_of(k, n, 2);
    if (added && (!is_dequantized(k, added, &bias) || !bias_fits(k, &bias, &p->x, &p->w)))
        return false;
    p->node = n;
    p->bias = added ? bias.x : 0;
    return true;
}

static ValueId
product_sums(Call *k, const Product *p)
{
    const Node *n = p->node;

    if (n->op == OP_conv)
        return conv_sums(k, n->attrs, p->x.x, p->w.x, p->x.zero, p->w.zero, p->bias);
    ValueId w = attr_int(n->attrs, "transB", 0) ? call_moved(k, p->w.x, -1, -2) : p->w.x;
    return value_of_text(k, "a b a_zero b_zero bias",
                         VALUES(p->x.x, w, p->x.zero, p->w.zero, p->bias),
                         "sums = matmul_integer(a, b, a_zero, b_zero)\n"
                         "bias? sums = sums + bias");
}

bool
quantised_product(Call *k)
{
    ValueId x = call_in(k, 0), scale = call_in(k, 1), zero = call_in(k, 2), y;
    const Node *relu, *clip = NULL;
    Product p;

    if (!x || !scale || !is_one_number(k, scale) || value_type(k, scale)->dtype != DT_F32 ||
        (!zero && call_attr(k, "output_dtype")) ||
        (zero && (!is_one_number(k, zero) || dtype_info[value_type(k, zero)->dtype].bits != 8 ||
                  !dtype_is_int(value_type(k, zero)->dtype))))
        return true;
    if ((relu = producer(k, x, OP_relu)))
        x = input_of(k, relu, 0);
    else if ((clip = producer(k, x, OP_clip)))
        x = input_of(k, clip, 0);
    if (!is_product(k, x, &p))
        return true;
    y = requantized(k, product_sums(k, &p), p.x.scale, p.w.scale, scale, zero,
                    p.node->op == OP_conv ? 1 : -1);
    if (y && relu && zero)
        y = value_of_text(k, "y zero", VALUES(y, zero), "max(y, zero)");
    if (y && clip)
        y = value_of_text(k, "y low high scale zero",
                          VALUES(y, input_of(k, clip, 1), input_of(k, clip, 2), scale, zero),
                          "low? low = quantize_linear(low, scale, zero)\n"
                          "high? high = quantize_linear(high, scale, zero)\n"
                          "clip(y, low, high)");
    return finish(k, y);
}

/* ---- rows of a quantised table --------------------------------------------------------------- */

/* Unpacks two numbers of four bits in each byte of `name`, the lower first, along the last axis,
 * which has `n` numbers. */
static bool
unpack(Call *k, const char *name, int64_t n)
{
    const Type *t = call_type(k, name);
    int64_t to[TN_MAX_RANK] = { 0 }, bytes;

    if (!t->rank || t->rank >= TN_MAX_RANK || !expr_const(t->dim[t->rank - 1], &bytes) ||
        n > 2 * bytes)
        return call_refuse(k, "%s of %s", k->proto->op_type, type_str(k->c, t));
    to[t->rank - 1] = 2 * bytes;
    call_fact(k, "name", name);
    call_fact(k, "to", ints_text(k, t->rank, to));
    call_number(k, "last", t->rank - 1);
    call_number(k, "rank", t->rank);
    call_number(k, "n", n);
    call_number(k, "cut", n < 2 * bytes);
    return call_text(k, "low = unsqueeze(bitwise_and($name, 15), [$rank])\n"
                        "high = unsqueeze(shift_right($name, 4), [$rank])\n"
                        "$name = reshape(concat(low, high) {axis = $rank}, $to)\n"
                        "$cut? $name = slice($name, [0], [$n], [$last])");
}

/* Rows of a table quantised in blocks. It dequantises the gathered rows, not the table. u8 without
 * zero points has half its range as zero point. */
static bool
convert_gather_quantised(Call *k)
{
    int64_t along = get_int(k, "gather_axis", 0), axis = get_int(k, "quantize_axis", 1),
            bits = get_int(k, "bits", 4), block = get_int(k, "block_size", 128), n, blocks;

    if (!call_names(k, "x at scale ? zero -> y"))
        return false;
    const Type *x = input_type(k, 0), *scale = input_type(k, 2);
    along += along < 0 ? x->rank : 0;
    axis += axis < 0 ? x->rank : 0;
    bool bytes = x->dtype == DT_U8, packed = bytes && bits == 4;
    bool fits = along >= 0 && along < x->rank && axis >= 0 && axis < x->rank && along != axis &&
                scale->rank == x->rank && block > 0 && (bits == 4 || bits == 8) &&
                (!bytes || axis == (int64_t)x->rank - 1);
    if (!fits || !expr_const(x->dim[axis], &n) || !expr_const(scale->dim[axis], &blocks) ||
        n > INT64_MAX / 2)
        return call_refuse(k, "GatherBlockQuantized of %s in blocks of %lld with scales %s",
                           type_str(k->c, x), (long long)block, type_str(k->c, scale));
    call_number(k, "along", along);
    call_number(k, "block", block);
    call_number(k, "axis", axis + (along < axis ? (int64_t)input_type(k, 1)->rank - 1 : 0));
    call_number(k, "half", bytes ? 1 << (bits - 1) : 0);
    return call_text(k, "x = gather(x, at) {axis = $along}\n"
                        "scale = gather(scale, at) {axis = $along}\n"
                        "zero? zero = gather(zero, at) {axis = $along}") &&
           (!packed ||
            (unpack(k, "x", 2 * n) && (!call_value(k, "zero") || unpack(k, "zero", blocks)))) &&
           call_text(k,
                     "$half? !zero? x = i8(i16(x) - $half)\n"
                     "y = dequantize_linear(x, scale, zero) {axis = $axis, block_size = $block}");
}

#define QLINEAR_ONE "x x_scale x_zero y_scale ? y_zero -> y"
#define QLINEAR_PAIR "a a_scale a_zero b b_scale b_zero y_scale ? y_zero -> y"

const OpRow quantised_rows[] = {
    { "QLinearMatMul", OP_NONE, convert_qlinear_matmul },
    { "QLinearConv", OP_NONE, convert_qlinear_conv, "i8" },
    { "com.microsoft.QGemm", OP_NONE, convert_qgemm, "i6" },
    /* on the result's scale, as in ONNX Runtime: a sum that is exact there is rounded equally */
    { "com.microsoft.QLinearAdd", OP_add, .names = QLINEAR_PAIR,
      .text = "ratio = a_scale / y_scale\n"
              "a = dequantize_linear(a, ratio, a_zero)\n"
              "b = dequantize_linear(b, b_scale / y_scale, b_zero)\n"
              "y = quantize_linear(a + b, like(1, ratio), y_zero)" },
    { "com.microsoft.QLinearMul", OP_mul, .names = QLINEAR_PAIR,
      .text = "ratio = a_scale / y_scale\n"
              "a = dequantize_linear(a, ratio, a_zero)\n"
              "b = dequantize_linear(b, b_scale, b_zero)\n"
              "y = quantize_linear(a * b, like(1, ratio), y_zero)" },
    { "com.microsoft.QLinearConv", OP_NONE, convert_qlinear_conv, "i8", "-channels_last" },
    { "com.microsoft.QLinearWhere", OP_where, .names = "condition " QLINEAR_PAIR,
      .text = "a = dequantize_linear(a, a_scale, a_zero)\n"
              "b = dequantize_linear(b, b_scale, b_zero)\n"
              "y = quantize_linear(where(condition, a, b), y_scale, y_zero)" },
    { "com.microsoft.QLinearConcat", OP_concat, convert_qlinear_concat },
    { "com.microsoft.QLinearSigmoid", OP_sigmoid, 0, 0, 0, QLINEAR_ONE, qlinear_one },
    { "com.microsoft.QLinearLeakyRelu", OP_leaky_relu, 0, 0, 0, QLINEAR_ONE, qlinear_one },
    { "com.microsoft.QLinearSoftmax", OP_softmax, convert_qlinear_softmax },
    { "com.microsoft.QLinearGlobalAveragePool", OP_global_average_pool, 0, 0, "-channels_last",
      QLINEAR_ONE, qlinear_one },
    { "com.microsoft.QLinearAveragePool", OP_average_pool, 0, 0, "-channels_last", QLINEAR_ONE,
      qlinear_one },
    { "com.microsoft.MatMulIntegerToFloat", OP_NONE,
      .names = "a b a_scale b_scale ? a_zero b_zero bias -> y", .text = SCALED_PRODUCT },
    { "com.microsoft.DynamicQuantizeMatMul", OP_NONE, .names = "x b b_scale ? b_zero bias -> y",
      .text = "a, a_scale, a_zero = dynamic_quantize_linear(x)\n" SCALED_PRODUCT },
    { "com.microsoft.DynamicQuantizeLSTM", OP_NONE, convert_quantised_lstm, "i4" },
    { "com.microsoft.GatherBlockQuantized", OP_NONE, convert_gather_quantised, "i1" },
    { "com.microsoft.QuantizeLinear", OP_quantize_linear, 0 },
    { "com.microsoft.DequantizeLinear", OP_dequantize_linear, 0 },
    { 0 },
};
