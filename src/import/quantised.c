/* quantised: ONNX's operators on quantised numbers, and ONNX Runtime's, said by sums of integers
 * that are scaled again.
 */
#include "import/little.h"

#include <math.h>
#include <string.h>

static ValueId
dequantized(Call *k, ValueId x, ValueId scale, ValueId zero)
{
    const ValueId v[] = { x, scale, zero };
    return call_some(k, OP_dequantize_linear, 0, NULL, 3, v);
}

static ValueId
quantized(Call *k, ValueId x, ValueId scale, ValueId zero)
{
    const ValueId v[] = { x, scale, zero };
    return x ? call_some(k, OP_quantize_linear, 0, NULL, 3, v) : 0;
}

static ValueId
requantized(Call *k, ValueId sums, ValueId a, ValueId b, ValueId y, ValueId zero, int64_t axis)
{
    const ValueId v[] = { sums, a, b, y, zero };
    Attr at = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = axis };
    return sums ? call_some(k, OP_requantize_linear, 1, &at, 5, v) : 0;
}

/* Sums of products of whole numbers; bias, whole numbers on the scale of the sums, or 0. */
static ValueId
matmul_sums(Call *k, ValueId a, ValueId b, ValueId a_zero, ValueId b_zero, ValueId bias)
{
    const ValueId v[] = { a, b, a_zero, b_zero };
    ValueId sums = a && b ? call_some(k, OP_matmul_integer, 0, NULL, 4, v) : 0;
    return sums && bias ? call_two(k, OP_add, sums, bias) : sums;
}

static ValueId
conv_sums(Call *k, Attrs attrs, ValueId x, ValueId w, ValueId x_zero, ValueId w_zero, ValueId bias)
{
    const ValueId v[] = { x, w, x_zero, w_zero };
    ValueId sums = call_some(k, OP_conv_integer, attrs.n, attrs.at, 4, v);
    int64_t axes[TN_MAX_RANK];

    if (!sums || !bias)
        return sums;
    uint32_t n = value_type(k, sums)->rank - 2;
    for (uint32_t d = 0; d < n; d++)
        axes[d] = d + 1;
    bias = call_two(k, OP_unsqueeze, bias, call_ints(k, "axes", n, axes));
    return bias ? call_two(k, OP_add, sums, bias) : 0;
}

/* Floats of 8 bits: what they stand for, multiplied, and quantised again. */
static bool
small_floats_matmul(Call *k)
{
    const ValueId a[] = { call_in(k, 0), call_in(k, 1), call_in(k, 2) },
                  b[] = { call_in(k, 3), call_in(k, 4), call_in(k, 5) };
    const Attr at_a = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = -2 },
               at_b = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = -1 };
    ValueId x = call_some(k, OP_dequantize_linear, 1, &at_a, 3, a),
            w = x ? call_some(k, OP_dequantize_linear, 1, &at_b, 3, b) : 0;
    const ValueId y[] = { w ? call_two(k, OP_matmul, x, w) : 0, call_in(k, 6), call_in(k, 7) };

    return finish(k, y[0] ? call_some(k, OP_quantize_linear, 1, &at_b, 3, y) : 0);
}

static bool
convert_qlinear_matmul(Call *k)
{
    if (!need_inputs(k, 7))
        return false;
    bool real = call_in(k, 7) && dtype_is_float(value_type(k, call_in(k, 7))->dtype);
    if (real || dtype_is_float(value_type(k, call_in(k, 0))->dtype) ||
        dtype_is_float(value_type(k, call_in(k, 3))->dtype))
        return small_floats_matmul(k);
    ValueId sums = matmul_sums(k, call_in(k, 0), call_in(k, 3), call_in(k, 2), call_in(k, 5), 0);
    return finish(
        k, requantized(k, sums, call_in(k, 1), call_in(k, 4), call_in(k, 6), call_in(k, 7), -1));
}

/* Do the node's channels lie last? Its attribute is taken away: other operators do not know it. */
static bool
channels_last(Call *k)
{
    bool last = get_int(k, "channels_last", 0) != 0;

    call_drop(k, "channels_last");
    return last;
}

static bool
convert_qlinear_conv(Call *k)
{
    bool last = channels_last(k);

    if (!need_inputs(k, 7))
        return false;
    ValueId x = last ? call_channels(k, call_in(k, 0), 1) : call_in(k, 0);
    ValueId sums = x ? conv_sums(k, (Attrs){ k->attr.at, k->attr.n }, x, call_in(k, 3),
                                 call_in(k, 2), call_in(k, 5), call_in(k, 8))
                     : 0;
    ValueId y = requantized(k, sums, call_in(k, 1), call_in(k, 4), call_in(k, 6), call_in(k, 7), 1);
    return finish(k, last ? call_channels(k, y, -1) : y);
}

/* a a_scale a_zero b b_scale b_zero c? y_scale? y_zero?: without a scale of its own the result is
 * float. */
static bool
convert_qgemm(Call *k)
{
    if (!need_inputs(k, 5))
        return false;
    double alpha = attr_float((Attrs){ k->attr.at, k->attr.n }, "alpha", 1);
    /* of the bias as well */
    if (alpha != 1 && !(k->in.at[1] = call_two(k, OP_mul, call_in(k, 1),
                                               scalar_const(k, "alpha", call_in(k, 1), alpha))))
        return false;
    ValueId a = get_int(k, "transA", 0) ? call_turned(k, call_in(k, 0)) : call_in(k, 0),
            b = get_int(k, "transB", 0) ? call_turned(k, call_in(k, 3)) : call_in(k, 3);
    ValueId sums = matmul_sums(k, a, b, call_in(k, 2), call_in(k, 5), call_in(k, 6));
    if (call_in(k, 7))
        return finish(k, requantized(k, sums, call_in(k, 1), call_in(k, 4), call_in(k, 7),
                                     call_in(k, 8), -1));
    Attr to = { .name = sym(k->m->c, "to"), .kind = ATTR_STRING, .s = "f32" };
    ValueId real = sums ? call_op(k, OP_cast, 1, &to, 1, &sums, output_name(k)) : 0;
    return finish(
        k, real ? call_two(k, OP_mul, real, call_two(k, OP_mul, call_in(k, 1), call_in(k, 4))) : 0);
}

/* a a_scale a_zero b b_scale b_zero y_scale y_zero */
static bool
convert_qlinear_pair(Call *k)
{
    if (!need_inputs(k, 7))
        return false;
    /* Both on the result's scale, as ONNX Runtime has it: then a sum that is exact there rounds
     * alike. */
    ValueId ratio = call_two(k, OP_div, call_in(k, 1), call_in(k, 6)),
            other =
                k->op == OP_add ? call_two(k, OP_div, call_in(k, 4), call_in(k, 6)) : call_in(k, 4);
    ValueId a = ratio ? dequantized(k, call_in(k, 0), ratio, call_in(k, 2)) : 0,
            b = other ? dequantized(k, call_in(k, 3), other, call_in(k, 5)) : 0;
    return finish(k, a && b ? quantized(k, call_two(k, k->op, a, b),
                                        scalar_const(k, "one", ratio, 1), call_in(k, 7))
                            : 0);
}

/* x x_scale x_zero y_scale y_zero, with the attributes of the operator between. */
static bool
convert_qlinear_one(Call *k)
{
    bool last = channels_last(k);

    if (!need_inputs(k, 4))
        return false;
    ValueId x = dequantized(k, call_in(k, 0), call_in(k, 1), call_in(k, 2));
    x = last ? call_channels(k, x, 1) : x;
    ValueId y = x ? quantized(k, call_some(k, k->op, k->attr.n, k->attr.at, 1, &x), call_in(k, 3),
                              call_in(k, 4))
                  : 0;
    return finish(k, last ? call_channels(k, y, -1) : y);
}

/* condition x x_scale x_zero y y_scale y_zero z_scale z_zero */
static bool
convert_qlinear_where(Call *k)
{
    if (!need_inputs(k, 8))
        return false;
    ValueId x = dequantized(k, call_in(k, 1), call_in(k, 2), call_in(k, 3)),
            y = dequantized(k, call_in(k, 4), call_in(k, 5), call_in(k, 6));
    return finish(k, x && y ? quantized(k, little_3(k, OP_where, call_in(k, 0), x, y),
                                        call_in(k, 7), call_in(k, 8))
                            : 0);
}

/* Its `opset` says which Softmax it is: before 13 over all axes from `axis` on, 1 by default. */
static bool
convert_qlinear_softmax(Call *k)
{
    if (!need_inputs(k, 4))
        return false;
    const ValueId x = dequantized(k, call_in(k, 0), call_in(k, 1), call_in(k, 2)),
                  y = x ? call_softmax(k, x, get_int(k, "opset", 13)) : 0;
    return finish(k, y ? quantized(k, y, call_in(k, 3), call_in(k, 4)) : 0);
}

/* y_scale y_zero, then x scale zero for each part. */
static bool
convert_qlinear_concat(Call *k)
{
    ValueId part[64];
    uint32_t n = k->in.n >= 2 ? (k->in.n - 2) / 3 : 0;

    if (n < 1 || n > 64 || k->in.n != 2 + 3 * n)
        return call_refuse(k, "QLinearConcat of %u inputs", k->in.n);
    for (uint32_t i = 0; i < n; i++)
        if (!(part[i] = dequantized(k, call_in(k, 2 + 3 * i), call_in(k, 3 + 3 * i),
                                    call_in(k, 4 + 3 * i))))
            return false;
    return finish(k, quantized(k, call_some(k, OP_concat, k->attr.n, k->attr.at, n, part),
                               call_in(k, 0), call_in(k, 1)));
}

ValueId
scaled_product(Call *k, Scaled a, Scaled b, ValueId bias)
{
    ValueId sums = matmul_sums(k, a.x, b.x, a.zero, b.zero, 0);
    Attr to = { .name = sym(k->m->c, "to"),
                .kind = ATTR_STRING,
                .s = dtype_info[value_type(k, a.scale)->dtype].name };
    ValueId real = sums ? call_op(k, OP_cast, 1, &to, 1, &sums, output_name(k)) : 0;
    real = real ? call_two(k, OP_mul, real, call_two(k, OP_mul, a.scale, b.scale)) : 0;
    return real && bias ? call_two(k, OP_add, real, bias) : real;
}

/* a b a_scale b_scale a_zero? b_zero? bias? */
static bool
convert_matmul_integer_to_float(Call *k)
{
    if (!need_inputs(k, 4))
        return false;
    const Scaled a = { call_in(k, 0), call_in(k, 2), call_in(k, 4) },
                 b = { call_in(k, 1), call_in(k, 3), call_in(k, 5) };
    return finish(k, scaled_product(k, a, b, call_in(k, 6)));
}

bool
call_dynamically(Call *k, ValueId x, Scaled *out)
{
    const char *names[] = { "quantised", "scale", "zero" };
    ValueId q[3];

    if (!graph_infer_op(k->m->g, OP_dynamic_quantize_linear, (Attrs){ NULL, 0 }, k->loc, k->origin,
                        1, &x, 3, names, q))
        return false;
    *out = (Scaled){ q[0], q[1], q[2] };
    return true;
}

/* a b b_scale b_zero? bias?: a is quantised as it runs. */
static bool
convert_dynamic_quantize_matmul(Call *k)
{
    const Scaled b = { call_in(k, 1), call_in(k, 2), call_in(k, 3) };
    Scaled a;

    return need_inputs(k, 3) && call_dynamically(k, call_in(k, 0), &a) &&
           finish(k, scaled_product(k, a, b, call_in(k, 4)));
}

/* ---- Quantize(product(Dequantize(x), Dequantize(w))): the product in integers
 * -------------------------------
 *
 * Exporters write what is to run in integers as floats between DequantizeLinear and QuantizeLinear.
 * Sums of whole numbers are exact, so the result is that of the floats, but for the rounding of
 * those; weights stay as narrow as they are. A relu or clip between is one of the results, since
 * quantising keeps the order of numbers. What the floats said before is left behind, unread unless
 * something else needs it.
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

/* Of whole numbers, scaled by one f32 or by one for each index of an axis. */
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

/* Contents of a constant of 4-byte elements, which may lie anywhere in a file, and how many; one
 * stands for all. */
static const uint8_t *
words_of(Call *k, ValueId v, DType t, int64_t *n)
{
    const Value *value = &k->m->g->value.at[v];
    return value->data && value->type->dtype == t && expr_const(type_count(k->m->c, value->type), n)
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

/* The bias on the scale of the sums, which is that of both factors. */
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

/* Few enough products for a sum of 32 bits: dims `from` and on of t, but for one. */
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

/* v as a product of bytes. `along`: the axis of w that gives the result's, which alone may have
 * scales of its own. */
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
    ValueId w = attr_int(n->attrs, "transB", 0) ? call_turned(k, p->w.x) : p->w.x;
    return matmul_sums(k, p->x.x, w, p->x.zero, p->w.zero, p->bias);
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
        y = call_two(k, OP_max, y, zero);
    if (y && clip) {
        const ValueId v[] = { y, quantized(k, input_of(k, clip, 1), scale, zero),
                              quantized(k, input_of(k, clip, 2), scale, zero) };
        y = call_some(k, OP_clip, 0, NULL, 3, v);
    }
    return finish(k, y);
}

/* Two numbers of four bits in each byte of x, the lower first, one after the other along the last
 * axis, of which `n` are. */
static ValueId
unpacked(Call *k, ValueId x, int64_t n)
{
    const uint32_t rank = value_type(k, x)->rank;
    const int64_t behind = rank, from = 0, last = (int64_t)rank - 1;
    int64_t to[TN_MAX_RANK], bytes;
    ValueId half[2];

    if (!rank || rank >= TN_MAX_RANK || !expr_const(value_type(k, x)->dim[rank - 1], &bytes) ||
        n > 2 * bytes)
        return (ValueId)call_refuse(k, "%s of %s", k->proto->op_type,
                                    type_str(k->m->c, value_type(k, x)));
    for (int i = 0; i < 2; i++) {
        ValueId v = call_two(k, i ? OP_shift_right : OP_bitwise_and, x,
                             scalar_const(k, "four bits", x, i ? 4 : 15));
        if (!(half[i] = v ? little_2(k, OP_unsqueeze, v, little_list(k, 1, &behind)) : 0))
            return 0;
    }
    for (uint32_t d = 0; d < rank; d++)
        to[d] = d + 1 < rank ? 0 : 2 * bytes;
    ValueId pairs = little_axis(k, OP_concat, (int64_t)rank, 2, half),
            all = pairs ? little_2(k, OP_reshape, pairs, little_list(k, rank, to)) : 0;
    const ValueId v[] = { all, little_list(k, 1, &from), little_list(k, 1, &n),
                          little_list(k, 1, &last) };
    return all && n < 2 * bytes ? call_some(k, OP_slice, 0, NULL, 4, v) : all;
}

/* x[bytes hold one number of `bits`, or two] of u8 without zero points has half its range as
 * zero. */
static ValueId
centred(Call *k, ValueId x, int64_t bits)
{
    const ValueId wide = little_cast(k, x, DT_I16);
    return wide ? little_cast(k,
                              call_two(k, OP_sub, wide,
                                       scalar_const(k, "zero", wide, (double)(1 << (bits - 1)))),
                              DT_I8)
                : 0;
}

/* x indices scale zero?: rows of a table quantised in blocks. What is gathered is dequantised, not
 * the table. */
static bool
convert_gather_quantised(Call *k)
{
    int64_t along = get_int(k, "gather_axis", 0), axis = get_int(k, "quantize_axis", 1),
            bits = get_int(k, "bits", 4), block = get_int(k, "block_size", 128), n, blocks;

    if (!need_inputs(k, 3))
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
                           type_str(k->m->c, x), (long long)block, type_str(k->m->c, scale));
    ValueId row[3] = { call_in(k, 0), call_in(k, 2), call_in(k, 3) };
    for (int i = 0; i < 3; i++)
        if (row[i] &&
            !(row[i] = little_axis(k, OP_gather, along, 2, (ValueId[]){ row[i], call_in(k, 1) })))
            return false;
    if (packed && !(row[0] = unpacked(k, row[0], 2 * n)))
        return false;
    if (packed && row[2] && !(row[2] = unpacked(k, row[2], blocks)))
        return false;
    if (bytes && !row[2] && !(row[0] = centred(k, row[0], bits)))
        return false;
    if (along < axis)
        axis += (int64_t)input_type(k, 1)->rank - 1;
    const Attr attr[] = { { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = axis },
                          { .name = sym(k->m->c, "block_size"), .kind = ATTR_INT, .i = block } };
    return finish(k, call_some(k, OP_dequantize_linear, 2, attr, 3, row));
}

const OpRow quantised_rows[] = {
    { "QLinearMatMul", OP_NONE, convert_qlinear_matmul },
    { "QLinearConv", OP_NONE, convert_qlinear_conv },
    { "com.microsoft.QGemm", OP_NONE, convert_qgemm },
    { "com.microsoft.QLinearAdd", OP_add, convert_qlinear_pair },
    { "com.microsoft.QLinearMul", OP_mul, convert_qlinear_pair },
    { "com.microsoft.QLinearConv", OP_NONE, convert_qlinear_conv },
    { "com.microsoft.QLinearWhere", OP_where, convert_qlinear_where },
    { "com.microsoft.QLinearConcat", OP_concat, convert_qlinear_concat },
    { "com.microsoft.QLinearSigmoid", OP_sigmoid, convert_qlinear_one },
    { "com.microsoft.QLinearLeakyRelu", OP_leaky_relu, convert_qlinear_one },
    { "com.microsoft.QLinearSoftmax", OP_softmax, convert_qlinear_softmax },
    { "com.microsoft.QLinearGlobalAveragePool", OP_global_average_pool, convert_qlinear_one },
    { "com.microsoft.QLinearAveragePool", OP_average_pool, convert_qlinear_one },
    { "com.microsoft.MatMulIntegerToFloat", OP_NONE, convert_matmul_integer_to_float },
    { "com.microsoft.DynamicQuantizeMatMul", OP_NONE, convert_dynamic_quantize_matmul },
    { "com.microsoft.DynamicQuantizeLSTM", OP_NONE, convert_quantised_lstm },
    { "com.microsoft.GatherBlockQuantized", OP_NONE, convert_gather_quantised },
    { "com.microsoft.QuantizeLinear", OP_quantize_linear, 0 },
    { "com.microsoft.DequantizeLinear", OP_dequantize_linear, 0 },
    { 0 },
};
