/* number: single elements of any type, for filling and comparing tensors. f16 and bf16 are converted
 * by integer arithmetic, since not every compiler has the types.
 */
#include <math.h>
#include <string.h>

#include "run/run.h"

static double
from_half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY)
        : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h >> 15 ? -x : x;
}

/* Nearest, ties to even. */
static uint16_t
to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x);
    if (isnan(x))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    int exponent;
    frexp(size, &exponent);
    if (size == 0 || exponent < -13)
        exponent = -13;                              /* below 2^-14 the step stays 2^-24 */
    unsigned steps = (unsigned)nearbyint(ldexp(size, 11 - exponent));
    return (uint16_t)(sign | (steps + ((unsigned)(exponent + 13) << 10)));
}

static double
from_bfloat(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t
to_bfloat(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double
number_get(DType t, const void *at, int64_t i)
{
    switch (t) {
    case DT_F32: return ((const float *)at)[i];
    case DT_F64: return ((const double *)at)[i];
    case DT_F16: return from_half(((const uint16_t *)at)[i]);
    case DT_BF16: return from_bfloat(((const uint16_t *)at)[i]);
    case DT_I8: return ((const int8_t *)at)[i];
    case DT_I16: return ((const int16_t *)at)[i];
    case DT_I32: return ((const int32_t *)at)[i];
    case DT_I64: return (double)((const int64_t *)at)[i];
    case DT_U8: return ((const uint8_t *)at)[i];
    case DT_U16: return ((const uint16_t *)at)[i];
    case DT_U32: return ((const uint32_t *)at)[i];
    case DT_U64: return (double)((const uint64_t *)at)[i];
    case DT_BOOL: return ((const uint8_t *)at)[i] != 0;
    case DT_NONE: case DT_COUNT: break;
    }
    return 0;
}

void
number_set_float(DType t, void *at, int64_t i, double x)
{
    switch (t) {
    case DT_F32: ((float *)at)[i] = (float)x; break;
    case DT_F64: ((double *)at)[i] = x; break;
    case DT_F16: ((uint16_t *)at)[i] = to_half(x); break;
    case DT_BF16: ((uint16_t *)at)[i] = to_bfloat(x); break;
    default: break;
    }
}

void
number_set_int(DType t, void *at, int64_t i, uint64_t x)
{
    switch (dtype_info[t].bytes) {
    case 1: ((uint8_t *)at)[i] = (uint8_t)x; break;
    case 2: ((uint16_t *)at)[i] = (uint16_t)x; break;
    case 4: ((uint32_t *)at)[i] = (uint32_t)x; break;
    case 8: ((uint64_t *)at)[i] = x; break;
    }
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
