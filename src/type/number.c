/* number: single values of any element type: rounding, conversion, loading and storing.
 *
 * f16 and bf16 are handled as integers and doubles, since not every compiler has the types. Both are
 * a sign, an exponent and a fraction of `bits` bits in 16; the exponent takes what the other two leave.
 */
#include "type/dtype.h"

#include <math.h>
#include <string.h>

enum { F16_BITS = 10, BF16_BITS = 7 };

/* ---- short floats ------------------------------------------------------------------------------ */

static double
short_to_double(uint16_t h, int bits)
{
    int largest = (1 << (15 - bits)) - 1, bias = largest / 2;
    int exponent = h >> bits & largest, fraction = h & ((1 << bits) - 1);
    double v = exponent == largest ? (fraction ? NAN : INFINITY)
             : exponent ? ldexp((1 << bits) + fraction, exponent - bias - bits) : ldexp(fraction, 1 - bias - bits);
    return h >> 15 ? -v : v;
}

/* Nearest, ties to even: scaling by a power of two is exact, so nearbyint does the only rounding, and
 * a carry out of the fraction is the next exponent, at the top infinity. */
static uint16_t
short_from_double(double v, int bits)
{
    int largest = (1 << (15 - bits)) - 1, bias = largest / 2, exponent;
    unsigned sign = signbit(v) ? 0x8000 : 0, infinity = (unsigned)largest << bits;
    double size = fabs(v);
    if (isnan(v))
        return (uint16_t)(sign | infinity | 1u << (bits - 1));
    if (size >= ldexp(1, bias + 1))
        return (uint16_t)(sign | infinity);
    frexp(size, &exponent);                          /* 2^(exponent - 1) <= size < 2^exponent */
    if (size == 0 || exponent < 2 - bias)
        exponent = 2 - bias;                         /* subnormal: the step stays that of the least normal */
    unsigned steps = (unsigned)nearbyint(ldexp(size, bits + 1 - exponent));
    return (uint16_t)(sign | (steps + ((unsigned)(exponent + bias - 2) << bits)));
}

/* ---- rounding and conversion -------------------------------------------------------------------- */

double
round_to_dtype(DType t, double v)
{
    if (isnan(v))
        return v;
    switch (t) {
    case DT_F32:  return (float)v;
    case DT_F16:  return short_to_double(short_from_double(v, F16_BITS), F16_BITS);
    case DT_BF16: return short_to_double(short_from_double(v, BF16_BITS), BF16_BITS);
    default:      return v;
    }
}

int64_t
wrap_to_dtype(DType t, int64_t v)
{
    switch (t) {
    case DT_I8:   return (int8_t)v;
    case DT_I16:  return (int16_t)v;
    case DT_I32:  return (int32_t)v;
    case DT_U8:   return (uint8_t)v;
    case DT_U16:  return (uint16_t)v;
    case DT_U32:  return (uint32_t)v;
    case DT_BOOL: return v != 0;
    default:      return v;
    }
}

/* Truncate towards zero; what does not fit becomes the nearest end of the range, NaN becomes 0. */
static int64_t
saturate(DType t, double v)
{
    if (isnan(v))
        return 0;
    int width = dtype_info[t].bytes * 8;
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

/* ---- elements of arrays ------------------------------------------------------------------------- */

Number
number_load(DType t, const void *data, int64_t at)
{
    union { float f32; double f64; int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint16_t u16; uint32_t u32; } v;
    Number n = { .i = 0 };
#define LOAD(arm) memcpy(&v.arm, (const char *)data + at * (int64_t)sizeof v.arm, sizeof v.arm)
    switch (t) {
    case DT_F32:  LOAD(f32); n.f = v.f32; break;
    case DT_F64:  LOAD(f64); n.f = v.f64; break;
    case DT_F16:  LOAD(u16); n.f = short_to_double(v.u16, F16_BITS); break;
    case DT_BF16: LOAD(u16); n.f = short_to_double(v.u16, BF16_BITS); break;
    case DT_I8:   LOAD(i8);  n.i = v.i8; break;
    case DT_I16:  LOAD(i16); n.i = v.i16; break;
    case DT_I32:  LOAD(i32); n.i = v.i32; break;
    case DT_I64:
    case DT_U64:  LOAD(i64); n.i = v.i64; break;
    case DT_U8:   LOAD(u8);  n.i = v.u8; break;
    case DT_U16:  LOAD(u16); n.i = v.u16; break;
    case DT_U32:  LOAD(u32); n.i = v.u32; break;
    case DT_BOOL: LOAD(u8);  n.i = v.u8 != 0; break;
    case DT_NONE: case DT_COUNT: break;
    }
#undef LOAD
    return n;
}

void
number_store(DType t, void *data, int64_t at, Number v)
{
    size_t bytes = dtype_info[t].bytes;
    char *to = (char *)data + at * (int64_t)bytes;
    float f32;
    uint16_t h;
    switch (t) {
    case DT_F32:
        f32 = (float)v.f;
        memcpy(to, &f32, sizeof f32);
        return;
    case DT_F16: case DT_BF16:
        h = short_from_double(v.f, t == DT_F16 ? F16_BITS : BF16_BITS);
        memcpy(to, &h, sizeof h);
        return;
    default:
        memcpy(to, &v, bytes);                       /* little endian: the low bytes come first */
    }
}

double
number_get(DType t, const void *data, int64_t at)
{
    return number_cast(DT_F64, t, number_load(t, data, at)).f;
}

double
number_distance(DType t, const void *x, const void *y, int64_t i)
{
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
