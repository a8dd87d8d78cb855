/* quantize: operators between floats and low-precision numbers: q = round(x / scale) + zero for
 * integers, x / scale rounded for short floats. */
#include "op/build.h"

#include <string.h>

/* Is a scale or zero point one number for all of x? */
static bool
is_one_number(const OpCall *call, const Type *s)
{
    return s->rank == 0 || (s->rank == 1 && !op_int(call, "block_size") && expr_is(s->dim[0], 1));
}

/* Scale and zero point: one number, a vector along `axis`, or one for each block of indices along
 * it. */
static bool
check_scale(Ctx *c, const OpCall *call)
{
    const Type *x = call->in[0], *s = call->in[1];
    int64_t block = op_int(call, "block_size");
    uint32_t axis;

    if (!op_need_floats(c, call, 1))
        return false;
    bool one = s->rank <= 1 && expr_is(type_count(c, s), 1);
    if (has_in(call, 2) &&
        !(one && call->in[2]->rank <= 1 && expr_is(type_count(c, call->in[2]), 1)) &&
        !op_rank_is(c, call, 2, s->rank))
        return false;
    if (has_in(call, 2) && !one &&
        !op_require_dims(c, call, s->rank, call->in[2]->dim, s->dim,
                         "the zero point and of the scale"))
        return false;
    if (is_one_number(call, s))
        return true;
    if (!op_axis_attr(c, call, x->rank, &axis))
        return false;
    if (!block)
        return op_rank_is(c, call, 1, 1) &&
               op_require_eq(c, call, s->dim[0], x->dim[axis],
                             "the extent of the scale and of the axis it belongs to");
    if (block < 1 || !op_rank_is(c, call, 1, x->rank))
        return block >= 1 ? false
                          : op_fail(c, call, DIAG_MODEL,
                                    "attribute \"block_size\" is %lld; 1 or more is needed",
                                    (long long)block);
    for (uint32_t d = 0; d < x->rank; d++) {
        const Expr *blocks =
            d == axis ? expr_ceil_div(c, x->dim[d], expr_int(c, block)) : x->dim[d];
        if (!op_require_eq(c, call, s->dim[d], blocks,
                           "axis %u of the scale and the blocks of input 0", d))
            return false;
    }
    return true;
}

/* The scale or zero point at a point of x, as a text. */
static const char *
scale_at(Build *b, const char *name)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    const Type *s = call->in[1]; /* a zero point has the shape of the scale */
    int64_t block = op_int(call, "block_size");
    const char *at[TN_MAX_RANK];
    uint32_t d = build_along_axis(b, call->in[0]->rank);

    if (is_one_number(call, s))
        return arena_printf(a, "%s[]", name);
    if (!block)
        return arena_printf(a, "%s[%s]", name, build_axis_name(d));
    for (uint32_t k = 0; k < s->rank; k++)
        at[k] = build_axis_name(k);
    at[d] = arena_printf(a, "%s // %lld", at[d], (long long)block);
    return arena_printf(a, "%s[%s]", name, list_text(a, s->rank, at));
}

/* Of integers of up to 16 bits. */
static bool
integer_bounds(DType t, double *lo, double *hi)
{
    const int bits = dtype_info[t].bits;

    if (!dtype_is_int(t) || bits > 16)
        return false;
    *lo = dtype_info[t].kind == KIND_INT ? -(1 << (bits - 1)) : 0;
    *hi = *lo + (1 << bits) - 1;
    return true;
}

static bool
is_small_float(DType t)
{
    return dtype_is_short(t) && dtype_info[t].bits <= 8 && t != DT_F8E8M0;
}

/* The nearest number of type t, or the end of its range: v rounded unless t is a float, plus `zero`
 * (NULL: none). */
static const char *
round_into(Arena *a, DType t, const char *v, const char *zero)
{
    double lo = 0, hi = 0;

    if (is_small_float(t)) {
        hi = dtype_layout(t).largest;
        lo = -hi;
    } else {
        integer_bounds(t, &lo, &hi);
        v = arena_printf(a, "round(%s)", v);
    }
    if (zero)
        v = arena_printf(a, "%s + $T(%s)", v, zero);
    return arena_printf(a, "min(max(%s, %.17g), %.17g)", v, lo, hi);
}

bool
infer_quantize_linear(Ctx *c, const OpCall *call, const Type **out)
{
    DType t;
    double lo, hi;

    if (!op_named_type(c, call, "output_dtype", DT_U8, &t))
        return false;
    t = has_in(call, 2) ? call->in[2]->dtype : t;
    if (!integer_bounds(t, &lo, &hi) && !is_small_float(t))
        return op_fail(
            c, call, DIAG_MODEL,
            "quantizes to %s; integers of up to 16 bits and floats of up to 8 are possible",
            dtype_info[t].name);
    out[0] = type_with_dtype(c, call->in[0], t);
    return check_scale(c, call);
}

bool
expand_quantize_linear(Build *b)
{
    Arena *a = b->c->arena;

    b->real = compute_type(b->call->in[1]->dtype);
    return build_text(b, NULL, "x scale zero? -> o", NULL, "o = %s",
                      round_into(a, b->out[0]->dtype,
                                 arena_printf(a, "$T(x[$i]) / %s", scale_at(b, "scale")),
                                 has_in(b->call, 2) ? scale_at(b, "zero") : NULL));
}

bool
infer_dequantize_linear(Ctx *c, const OpCall *call, const Type **out)
{
    DType t = call->in[0]->dtype, to;

    if (!op_named_type(c, call, "output_dtype", call->in[1]->dtype, &to))
        return false;
    if ((!dtype_is_int(t) && !is_small_float(t)) || !op_same_dtype(c, call, 0, 2))
        return op_fail(c, call, DIAG_MODEL,
                       "input 0 is %s; integers, or floats of up to 8 bits, of the zero point's "
                       "type are needed",
                       type_str(c, call->in[0]));
    if (!dtype_is_float(to))
        return op_fail(c, call, DIAG_MODEL, "dequantizes to %s; a float type is needed",
                       dtype_info[to].name);
    out[0] = type_with_dtype(c, call->in[0], to);
    return check_scale(c, call);
}

bool
expand_dequantize_linear(Build *b)
{
    const char *t = is_small_float(b->call->in[0]->dtype) ? "f32" : "i32", *zero = "";

    b->real = compute_type(b->call->in[1]->dtype);
    if (has_in(b->call, 2))
        zero = arena_printf(b->c->arena, " - %s(%s)", t, scale_at(b, "zero"));
    return build_text(b, NULL, "x scale zero? -> o", NULL, "o = $T(%s(x[$i])%s) * %s", t, zero,
                      scale_at(b, "scale"));
}

/* ---- requantize_linear: integer contractions times both scales over the result's ------------- */

enum { SUMS, SCALE_A, SCALE_B, SCALE_Y, ZERO_Y };

bool
infer_requantize(Ctx *c, const OpCall *call, const Type **out)
{
    DType t = has_in(call, ZERO_Y) ? call->in[ZERO_Y]->dtype : DT_U8;
    const Type *x = call->in[SUMS];
    double lo, hi;
    uint32_t axis;

    if (x->dtype != DT_I32 || !integer_bounds(t, &lo, &hi))
        return op_fail(c, call, DIAG_MODEL,
                       "from %s to %s; i32 sums become integers of up to 16 bits", type_str(c, x),
                       dtype_info[t].name);
    for (uint32_t i = SCALE_A; i < call->nin; i++) {
        const Type *s = call->in[i];
        if (!s || (s->rank <= 1 && expr_is(type_count(c, s), 1)))
            continue;
        if (i == SCALE_Y || i == ZERO_Y || s->rank != 1)
            return op_fail(c, call, DIAG_UNSUPPORTED,
                           "input %u is %s; one number is supported here, or for the factors one "
                           "along an axis",
                           i, type_str(c, s));
        if (!op_axis(c, call, "axis", op_int(call, i == SCALE_A ? "axis_a" : "axis"), x->rank,
                     &axis) ||
            !op_require_eq(c, call, s->dim[0], x->dim[axis],
                           "the extent of input %u and of its axis", i))
            return false;
    }
    out[0] = type_with_dtype(c, x, t);
    return true;
}

/* Scale i at a point, as a text. */
static const char *
scale_text(Build *b, uint32_t i, const char *name, const char *attr)
{
    const Type *s = b->call->in[i];
    uint32_t axis = 0;

    if (s->rank == 0 || expr_is(s->dim[0], 1) ||
        !op_axis(b->c, b->call, "axis", op_int(b->call, attr), b->call->in[SUMS]->rank, &axis))
        return arena_printf(b->c->arena, "$T(%s[])", name);
    return arena_printf(b->c->arena, "$T(%s[%s])", name, build_axis_name(axis));
}

bool
expand_requantize(Build *b)
{
    Arena *a = b->c->arena;

    b->real = DT_F32;
    const char *v =
        arena_printf(a, "$T(x[$i]) * (%s * %s / %s)", scale_text(b, SCALE_A, "a", "axis_a"),
                     scale_text(b, SCALE_B, "w", "axis"), scale_text(b, SCALE_Y, "y", "axis"));
    return build_text(b, NULL, "x a w y z? -> o", NULL, "o = %s",
                      round_into(a, b->out[0]->dtype, v, has_in(b->call, ZERO_Y) ? "z[]" : NULL));
}

/* ---- matmul_nbits: x times the transpose of weights of 2, 4 or 8 bits in blocks -------------- */

bool
infer_matmul_nbits(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *w = call->in[1];
    int64_t bits = op_int(call, "bits"), block = op_int(call, "block_size"), k = op_int(call, "K"),
            n = op_int(call, "N");
    const Expr *dim[TN_MAX_RANK];

    if (!dtype_is_float(x->dtype) || w->dtype != DT_U8 || !op_rank_at_least(c, call, 0, 1))
        return op_fail(
            c, call, DIAG_MODEL,
            "inputs 0 and 1 are %s and %s; floats, and u8 that hold the weights, are needed",
            type_str(c, x), type_str(c, w));
    if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || (block & (block - 1)) || k < 1 ||
        n < 1)
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "%lld bits in blocks of %lld; 2, 4 and 8 bits in blocks of a power of two "
                       "from 16 on are supported",
                       (long long)bits, (long long)block);
    int64_t blocks = (k + block - 1) / block;
    if (!op_require_eq(c, call, x->dim[x->rank - 1], expr_int(c, k),
                       "the last axis of input 0 and K") ||
        !op_require_eq(c, call, type_count(c, w), expr_int(c, n * blocks * (block * bits / 8)),
                       "the bytes of the weights and N, K and the blocks") ||
        !op_require_eq(c, call, type_count(c, call->in[2]), expr_int(c, n * blocks),
                       "the number of scales and of blocks"))
        return false;
    if (has_in(call, 3) && call->in[3]->dtype == DT_U8 &&
        !op_require_eq(c, call, type_count(c, call->in[3]),
                       expr_int(c, n * ((blocks * bits + 7) / 8)),
                       "the bytes of the zero points and the blocks"))
        return false;
    memcpy(dim, x->dim, x->rank * sizeof *dim);
    dim[x->rank - 1] = expr_int(c, n);
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

/* An input read by its flat index, whatever its rank. */
static const char *
flat_text(Build *b, uint32_t input, const char *name, const char *index)
{
    Arena *a = b->c->arena;
    const Type *t = b->call->in[input];
    Text at = { .arena = a };
    int64_t inner = 1, size[TN_MAX_RANK];

    for (uint32_t d = t->rank; d-- > 0; inner *= expr_or(t->dim[d], 1))
        size[d] = inner;
    text_printf(&at, "%s[", name);
    for (uint32_t d = 0; d < t->rank; d++)
        text_printf(&at, d ? ", (%s) // %lld %% %lld" : "(%s) // %lld", index, (long long)size[d],
                    (long long)expr_or(t->dim[d], 1));
    text_add(&at, "]");
    return text_str(&at);
}

/* Number `index` in words of that many bits packed in the text `word`, the lowest first, like
 * scalar_in_word. */
static const char *
few_bits_text(Arena *a, const char *word, int64_t word_bits, const char *index, int64_t bits)
{
    if (bits == 8)
        return word;
    return arena_printf(a, "and(shr(i32(%s), i32(%lld * (%s %% %lld))), %lld)", word,
                        (long long)bits, index, (long long)(word_bits / bits), (1LL << bits) - 1);
}

/* Packs bytes into words of four, the lowest first: rows [n, bytes / 4] of input `from`. */
static bool
words_of_bytes(Build *b, uint32_t from, int64_t bytes, uint32_t to)
{
    Text t = { .arena = b->c->arena };

    for (int64_t i = 0; i < 4; i++) {
        const char *byte = flat_text(
            b, from, "w",
            arena_printf(t.arena, "n * %lld + 4 * k + %lld", (long long)bytes, (long long)i));
        text_printf(&t, i ? " + shl(i32(%s), %lld)" : "i32(%s)", byte, (long long)(8 * i));
    }
    return build_text(b, "words", "w -> o", (uint32_t[]){ from, to }, "o[n, k] = %s", text_str(&t));
}

bool
expand_matmul_nbits(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    int64_t bits = op_int(call, "bits"), block = op_int(call, "block_size"), k = op_int(call, "K"),
            n = op_int(call, "N"), blocks = (k + block - 1) / block;
    bool zeros = has_in(call, 3), bias = has_in(call, 5);
    const Expr *dim[] = { expr_int(b->c, n), expr_int(b->c, k) };
    uint32_t weights = build_value(b, b->real = compute_type(call->in[0]->dtype), 2, dim);
    const char *q = flat_text(b, 1, "w",
                              arena_printf(a, "n * %lld + k", (long long)(blocks * block))),
               *zero = arena_printf(a, "%lld", 1LL << (bits - 1));
    uint32_t points = 3, stored = 1;
    /* a block has at least sixteen elements, so words of four bytes are complete */
    if (bits < 8) {
        int64_t bytes = blocks * block * bits / 8;
        const Expr *of[] = { expr_int(b->c, n), expr_int(b->c, bytes / 4) };
        stored = build_value(b, DT_I32, 2, of);
        if (!words_of_bytes(b, 1, bytes, stored))
            return false;
        q = few_bits_text(a, arena_printf(a, "w[n, k // %lld]", (long long)(32 / bits)), 32, "k",
                          bits);
    }
    if (zeros && call->in[3]->dtype == DT_U8 && bits < 8) {
        const Expr *of[] = { expr_int(b->c, n), expr_int(b->c, blocks) };
        const char *byte =
            flat_text(b, 3, "z",
                      arena_printf(a, "n * %lld + k // %lld", (long long)((blocks * bits + 7) / 8),
                                   (long long)(8 / bits)));
        points = build_value(b, DT_U8, 2, of);
        if (!build_text(b, "zero_points", "z -> o", (uint32_t[]){ 3, points }, "o[n, k] = u8(%s)",
                        few_bits_text(a, byte, 8, "k", bits)))
            return false;
        zero = arena_printf(a, "z[n, k // %lld]", (long long)block);
    } else if (zeros) {
        zero =
            flat_text(b, 3, "z",
                      arena_printf(a, "n * %lld + k // %lld", (long long)blocks, (long long)block));
    }
    const char *scale = flat_text(
        b, 2, "s", arena_printf(a, "n * %lld + k // %lld", (long long)blocks, (long long)block));
    if (!build_text(b, "weights", "w s z? -> o",
                    (uint32_t[]){ stored, 2, zeros ? points : NO_SLOT, weights },
                    "o[n, k] = ($T(%s) - $T(%s)) * $T(%s)", q, zero, scale))
        return false;
    uint32_t rank = call->in[0]->rank;
    const char *row = rank > 1 ? arena_printf(a, "%s, ", axes_text(a, 0, rank - 1)) : "";
    return build_text(b, NULL, "x w bias? -> o",
                      (uint32_t[]){ 0, weights, bias ? 5 : NO_SLOT, build_out(b, 0) },
                      "o[%sn] = (sum k: x[%sk] * w[n, k])%s", row, row, bias ? " + bias[n]" : "");
}

/* ---- dynamic_quantize_linear: scale and zero from the range of x, which includes 0 ----------- */

bool
infer_dynamic_quantize_linear(Ctx *c, const OpCall *call, const Type **out)
{
    if (call->nout != 3)
        return op_fail(c, call, DIAG_MODEL, "there are %u outputs; 3 are needed", call->nout);
    return infer_signature(c, call, out);
}

/* The smallest ("min") or largest ("max") of all elements and 0. */
static uint32_t
range_end(Build *b, const char *which)
{
    Arena *a = b->c->arena;
    uint32_t value = build_value(b, DT_F32, 0, NULL), rank = b->call->in[0]->rank;
    const char *r[TN_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++)
        r[d] = arena_printf(a, "r%u", d);
    const char *all = list_text(a, rank, r),
               *over = rank ? arena_printf(a, "%s %s: ", which, all) : "";
    return build_text(b, which, "x -> o", (uint32_t[]){ 0, value }, "o = %s(%sx[%s], 0)", which,
                      over, all)
               ? value
               : NO_SLOT;
}

/* A scale is never 0, since elements are divided by it: if all elements are 0, it is that of the
 * range from 0 to 1. */
bool
expand_dynamic_quantize_linear(Build *b)
{
    Arena *a = b->c->arena;
    uint32_t low = range_end(b, "min"), high = range_end(b, "max");
    uint32_t scale = b->out[1] ? build_out(b, 1) : build_value(b, DT_F32, 0, NULL);
    uint32_t zero = b->out[2] ? build_out(b, 2) : build_value(b, DT_U8, 0, NULL);

    return low != NO_SLOT && high != NO_SLOT &&
           build_text(b, "scale", "low high -> o", (uint32_t[]){ low, high, scale },
                      "o = let step = (high - low) / 255 in step == 0 ? %.17g : step", 1.0 / 255) &&
           build_text(b, "zero", "low scale -> o", (uint32_t[]){ low, scale, zero }, "o = %s",
                      round_into(a, DT_U8, "-low / scale", NULL)) &&
           build_text(b, NULL, "x scale zero -> o", (uint32_t[]){ 0, scale, zero, build_out(b, 0) },
                      "o = %s", round_into(a, DT_U8, "x[$i] / scale[]", "zero[]"));
}
