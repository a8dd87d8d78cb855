/* number: single values of any element type: rounding, conversion, loading and storing.
 *
 * Short floats are handled as integers and doubles, since not every compiler has the types. Each is
 * a sign, an exponent and a fraction; a row of dtype_layout gives the numbers of bits and the
 * patterns that represent no number.
 */
#include "type/dtype.h"

#include <math.h>
#include <string.h>

/* ---- short floats ---------------------------------------------------------------------------- */

FloatLayout
dtype_layout(DType t)
{
    switch (t) {
    case DT_F16: return (FloatLayout){ 5, 10, 15, FLOAT_IEEE, 65504 };
    case DT_BF16: return (FloatLayout){ 8, 7, 127, FLOAT_IEEE, 0x1.fep127 };
    case DT_F8E4M3: return (FloatLayout){ 4, 3, 7, FLOAT_NAN, 448 };
    case DT_F8E4M3Z: return (FloatLayout){ 4, 3, 8, FLOAT_NO_MINUS_ZERO, 240 };
    case DT_F8E5M2: return (FloatLayout){ 5, 2, 15, FLOAT_IEEE, 57344 };
    case DT_F8E5M2Z: return (FloatLayout){ 5, 2, 16, FLOAT_NO_MINUS_ZERO, 57344 };
    case DT_F8E8M0: return (FloatLayout){ 8, 0, 127, FLOAT_EXPONENT, 0x1p127 };
    case DT_F6E2M3: return (FloatLayout){ 2, 3, 1, FLOAT_FINITE, 7.5 };
    case DT_F6E3M2: return (FloatLayout){ 3, 2, 3, FLOAT_FINITE, 28 };
    case DT_F4E2M1: return (FloatLayout){ 2, 1, 1, FLOAT_FINITE, 6 };
    default: return (FloatLayout){ 8, 23, 127, FLOAT_IEEE, 0x1.fffffep127 };
    }
}

static double
short_to_double(DType t, uint16_t h)
{
    FloatLayout l = dtype_layout(t);
    unsigned sign_bit = 1u << (l.exponent + l.fraction), size = h & (sign_bit - 1);
    int top = (1 << l.exponent) - 1, exponent = (int)(size >> l.fraction),
        fraction = (int)(size & ((1u << l.fraction) - 1));

    if (l.kind == FLOAT_EXPONENT)
        return h == 255 ? NAN : ldexp(1, h - l.bias);
    if ((l.kind == FLOAT_NAN && size == sign_bit - 1) ||
        (l.kind == FLOAT_NO_MINUS_ZERO && h == sign_bit))
        return NAN;
    double v = l.kind == FLOAT_IEEE && exponent == top ? (fraction ? NAN : INFINITY)
               : exponent ? ldexp((1 << l.fraction) + fraction, exponent - l.bias - l.fraction)
                          : ldexp(fraction, 1 - l.bias - l.fraction);
    return h & sign_bit ? -v : v;
}

/* The power of two at or above a size, as its exponent with the bias. */
static uint16_t
power_above(double v)
{
    int exponent;

    if (isnan(v) || v < 0)
        return 255;
    /* v = fraction * 2^exponent, 1/2 <= fraction < 1 */
    double fraction = frexp(v, &exponent);
    int power = v == 0 ? -127 : fraction == 0.5 ? exponent - 1 : exponent;
    return (uint16_t)(power < -127 ? 0 : power > 127 || isinf(v) ? 254 : power + 127);
}

/* Nearest, ties to even: scaling by a power of two is exact, so nearbyint does the only rounding,
 * and a carry out of the fraction is the next exponent, at the top infinity. */
static uint16_t
short_from_double(DType t, double v)
{
    FloatLayout l = dtype_layout(t);
    int exponent;
    unsigned sign_bit = 1u << (l.exponent + l.fraction), sign = signbit(v) ? sign_bit : 0;
    unsigned infinity = ((1u << l.exponent) - 1) << l.fraction;
    double size = fabs(v);

    if (l.kind == FLOAT_EXPONENT)
        return power_above(v);
    if (isnan(v))
        return (uint16_t)(l.kind == FLOAT_IEEE            ? sign | infinity | 1u << (l.fraction - 1)
                          : l.kind == FLOAT_NAN           ? sign | (sign_bit - 1)
                          : l.kind == FLOAT_NO_MINUS_ZERO ? sign_bit
                                                          : 0);
    if (dtype_info[t].bits < 16 && size > l.largest && !(isinf(size) && l.kind == FLOAT_IEEE))
        size = l.largest;
    if (l.kind == FLOAT_IEEE && size >= ldexp(1, l.bias + 1))
        return (uint16_t)(sign | infinity);
    frexp(size, &exponent); /* 2^(exponent - 1) <= size < 2^exponent */
    if (size == 0 || exponent < 2 - l.bias)
        /* subnormal: the step stays that of the least normal */
        exponent = 2 - l.bias;
    unsigned steps = (unsigned)nearbyint(ldexp(size, l.fraction + 1 - exponent));
    unsigned bits = steps + ((unsigned)(exponent + l.bias - 2) << l.fraction);
    return (uint16_t)(l.kind == FLOAT_NO_MINUS_ZERO && bits == 0 ? 0 : sign | bits);
}

/* ---- rounding and conversion ----------------------------------------------------------------- */

double
round_to_dtype(DType t, double v)
{
    if (isnan(v) && (!dtype_is_short(t) || dtype_layout(t).kind != FLOAT_FINITE))
        return v;
    if (dtype_is_short(t))
        return short_to_double(t, short_from_double(t, v));
    return t == DT_F32 ? (float)v : v;
}

int64_t
wrap_to_dtype(DType t, int64_t v)
{
    switch (t) {
    case DT_I8: return (int8_t)v;
    case DT_I16: return (int16_t)v;
    case DT_I32: return (int32_t)v;
    case DT_U8: return (uint8_t)v;
    case DT_U16: return (uint16_t)v;
    case DT_U32: return (uint32_t)v;
    case DT_I4: return (int8_t)((uint8_t)v << 4) >> 4;
    case DT_I2: return (int8_t)((uint8_t)v << 6) >> 6;
    case DT_U4: return v & 15;
    case DT_U2: return v & 3;
    case DT_BOOL: return v != 0;
    default: return v;
    }
}

/* Truncates towards zero; values out of range become the nearest end of the range, NaN becomes
 * 0. */
static int64_t
saturate(DType t, double v)
{
    if (isnan(v))
        return 0;
    int width = dtype_info[t].bits;
    v = trunc(v);
    if (dtype_info[t].kind == KIND_UINT) {
        if (v <= 0)
            return 0;
        if (v >= ldexp(1, width))
            return width == 64 ? -1 : (int64_t)((1ull << width) - 1);
        return (int64_t)(uint64_t)v;
    }
    double top = ldexp(1, width - 1);
    if (v >= top)
        return (int64_t)((1ull << (width - 1)) - 1);
    if (v <= -top)
        return -(int64_t)((1ull << (width - 1)) - 1) - 1;
    return (int64_t)v;
}

Number
number_cast(DType to, DType from, Number v)
{
    Number r;
    bool from_float = dtype_is_float(from);
    if (dtype_is_float(to)) {
        if (from_float)
            r.f = round_to_dtype(to, v.f);
        else if (to == DT_F64)
            r.f = from == DT_U64 ? (double)(uint64_t)v.i : (double)v.i;
        else
            r.f = round_to_dtype(to, from == DT_U64 ? (float)(uint64_t)v.i : (float)v.i);
    } else if (to == DT_BOOL) {
        r.i = from_float ? v.f != 0 : v.i != 0;
    } else {
        r.i = from_float ? saturate(to, v.f) : wrap_to_dtype(to, v.i);
    }
    return r;
}

/* ---- elements of arrays ---------------------------------------------------------------------- */

Number
number_load(DType t, const void *data, int64_t at)
{
    const char *from = (const char *)data + at * (int64_t)dtype_info[t].bytes;
    uint64_t bits = 0; /* little endian: the low bytes come first */
    Number n;
    float f32;

    if (t == DT_F32) {
        memcpy(&f32, from, sizeof f32);
        n.f = f32;
        return n;
    }
    switch (dtype_info[t].bytes) {
    case 1: memcpy(&bits, from, 1); break;
    case 2: memcpy(&bits, from, 2); break;
    case 4: memcpy(&bits, from, 4); break;
    case 8: memcpy(&bits, from, 8); break;
    }
    if (dtype_is_short(t))
        n.f = short_to_double(t, (uint16_t)bits);
    else
        n.i = wrap_to_dtype(t, (int64_t)bits); /* of f64, the same bits */
    return n;
}

void
number_store(DType t, void *data, int64_t at, Number v)
{
    size_t bytes = dtype_info[t].bytes;
    char *to = (char *)data + at * (int64_t)bytes;
    float f32;
    uint16_t h;
    if (t == DT_F32) {
        f32 = (float)v.f;
        memcpy(to, &f32, sizeof f32);
    } else if (dtype_is_short(t)) {
        h = short_from_double(t, v.f);
        memcpy(to, &h, bytes);
    } else {
        memcpy(to, &v, bytes); /* little endian: the low bytes come first */
    }
}

void
number_put_bits(DType word, void *data, int64_t at, uint32_t bits)
{
    if (word == DT_I32)
        ((uint32_t *)data)[at] |= bits;
    else
        ((uint8_t *)data)[at] |= (uint8_t)bits;
}

double
number_get(DType t, const void *data, int64_t at)
{
    if (t == DT_STR)
        return NAN;
    return number_cast(DT_F64, t, number_load(t, data, at)).f;
}

Number
number_pair(Number low, Number high)
{
    uint16_t bits[2];

    number_store(DT_BF16, bits, 0, low);
    number_store(DT_BF16, bits, 1, high);
    return number_int(DT_I32, (int64_t)bits[1] << 16 | bits[0]);
}

double
number_half(Number pair, int half)
{
    const uint16_t bits = (uint16_t)((uint64_t)pair.i >> 16 * half);

    return number_load(DT_BF16, &bits, 0).f;
}

double
number_distance(DType t, const void *x, const void *y, int64_t i)
{
    if (t == DT_STR) {
        const char *a = ((const char *const *)x)[i], *b = ((const char *const *)y)[i];
        return strcmp(a ? a : "", b ? b : "") ? INFINITY : 0;
    }
    if (t == DT_I64) {
        __int128 d = (__int128)((const int64_t *)x)[i] - ((const int64_t *)y)[i];
        return (double)(d < 0 ? -d : d);
    }
    if (t == DT_U64) {
        uint64_t a = ((const uint64_t *)x)[i], b = ((const uint64_t *)y)[i];
        return (double)(a > b ? a - b : b - a);
    }
    double a = number_get(t, x, i), b = number_get(t, y, i);
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    double d = fabs(a - b);
    return isnan(d) ? INFINITY : d;
}
