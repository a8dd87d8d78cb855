/* number: the arithmetic of one value, exactly as nest/scalar.def says.
 *
 * Floats are computed in double and rounded once to their type. For + - * / and sqrt that equals
 * computing at the type itself, since double has more than twice the digits of f32, plus two; for
 * the transcendental functions it is nearly always the correctly rounded value.
 * Integers wrap: they are computed in 64 unsigned bits and cut to their width.
 */
#include "ref/internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- rounding --------------------------------------------------------------------------------------- */

/* Nearest number with `digits` binary digits, ties to even; steps below 2^lowest do not exist, and
 * from 2^highest on it is infinite. */
static double
round_binary(double v, int digits, int lowest, int highest)
{
    if (v == 0 || isnan(v) || isinf(v))
        return v;
    int e;
    frexp(v, &e);
    int step = e - digits < lowest ? lowest : e - digits;
    double r = ldexp(nearbyint(ldexp(v, -step)), step);
    return fabs(r) >= ldexp(1, highest) ? copysign(INFINITY, v) : r;
}

static double
round_float(DType t, double v)
{
    switch (t) {
    case DT_F32: return (float)v;
    case DT_F16: return round_binary(v, 11, -24, 16);
    case DT_BF16: return round_binary(v, 8, -133, 128);
    default: return v;
    }
}

static int64_t
wrap(DType t, int64_t v)
{
    switch (t) {
    case DT_I8: return (int8_t)v;
    case DT_I16: return (int16_t)v;
    case DT_I32: return (int32_t)v;
    case DT_U8: return (uint8_t)v;
    case DT_U16: return (uint16_t)v;
    case DT_U32: return (uint32_t)v;
    case DT_BOOL: return v != 0;
    default: return v;
    }
}

Num
num_float(DType t, double v)
{
    return (Num){.f = round_float(t, v)};
}

Num
num_int(DType t, int64_t v)
{
    return (Num){.i = wrap(t, v)};
}

Num
num_const(const Scalar *s)
{
    Num v = {.i = s->u.bits};        /* double bits for floats: the same eight bytes */
    return v;
}

/* ---- memory --------------------------------------------------------------------------------------------- */

static double
f16_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

/* v is an f16 already: only its bits are to be found. */
static uint16_t
f16_bits(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    v = fabs(v);
    if (isnan(v))
        return sign | 0x7e00;
    if (isinf(v))
        return sign | 0x7c00;
    if (v < ldexp(1, -14))
        return sign | (uint16_t)ldexp(v, 24);
    int e;
    double m = frexp(v, &e);         /* v = m * 2^e, 0.5 <= m < 1 */
    return sign | (uint16_t)((e + 14) << 10) | ((uint16_t)ldexp(m, 11) & 1023);
}

static double
bf16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t
bf16_bits(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(isnan(v) ? (bits >> 16 | 0x40) : bits >> 16);
}

Num
num_load(DType t, const void *data, int64_t at)
{
    switch (t) {
    case DT_F32: return (Num){.f = ((const float *)data)[at]};
    case DT_F64: return (Num){.f = ((const double *)data)[at]};
    case DT_F16: return (Num){.f = f16_value(((const uint16_t *)data)[at])};
    case DT_BF16: return (Num){.f = bf16_value(((const uint16_t *)data)[at])};
    case DT_I8: return (Num){.i = ((const int8_t *)data)[at]};
    case DT_I16: return (Num){.i = ((const int16_t *)data)[at]};
    case DT_I32: return (Num){.i = ((const int32_t *)data)[at]};
    case DT_I64: return (Num){.i = ((const int64_t *)data)[at]};
    case DT_U8: return (Num){.i = ((const uint8_t *)data)[at]};
    case DT_U16: return (Num){.i = ((const uint16_t *)data)[at]};
    case DT_U32: return (Num){.i = ((const uint32_t *)data)[at]};
    case DT_U64: return (Num){.i = (int64_t)((const uint64_t *)data)[at]};
    case DT_BOOL: return (Num){.i = ((const uint8_t *)data)[at] != 0};
    case DT_NONE: case DT_COUNT: break;
    }
    return (Num){0};
}

void
num_store(DType t, void *data, int64_t at, Num v)
{
    switch (t) {
    case DT_F32: ((float *)data)[at] = (float)v.f; break;
    case DT_F64: ((double *)data)[at] = v.f; break;
    case DT_F16: ((uint16_t *)data)[at] = f16_bits(v.f); break;
    case DT_BF16: ((uint16_t *)data)[at] = bf16_bits(v.f); break;
    case DT_I8: case DT_U8: case DT_BOOL: ((uint8_t *)data)[at] = (uint8_t)v.i; break;
    case DT_I16: case DT_U16: ((uint16_t *)data)[at] = (uint16_t)v.i; break;
    case DT_I32: case DT_U32: ((uint32_t *)data)[at] = (uint32_t)v.i; break;
    case DT_I64: case DT_U64: ((int64_t *)data)[at] = v.i; break;
    case DT_NONE: case DT_COUNT: break;
    }
}

/* ---- casts ------------------------------------------------------------------------------------------------ */

/* Truncated, saturating; NaN gives 0. */
static int64_t
float_to_int(DType t, double v)
{
    int bits = dtype_info[t].bytes * 8;
    bool is_signed = dtype_info[t].kind == KIND_INT;
    if (isnan(v))
        return 0;
    v = trunc(v);
    double limit = ldexp(1, is_signed ? bits - 1 : bits);        /* first number too large */
    if (v >= limit)
        return is_signed ? INT64_MAX >> (64 - bits) : (int64_t)(UINT64_MAX >> (64 - bits));
    if (v < (is_signed ? -limit : 0))
        return is_signed ? INT64_MIN >> (64 - bits) : 0;
    return t == DT_U64 ? (int64_t)(uint64_t)v : (int64_t)v;
}

/* To f32 directly, since a detour over double would round twice; to f16 and bf16 from there. */
static double
int_to_float(DType from, DType to, int64_t v)
{
    if (to == DT_F64)
        return from == DT_U64 ? (double)(uint64_t)v : (double)v;
    return round_float(to, from == DT_U64 ? (float)(uint64_t)v : (float)v);
}

Num
num_cast(DType from, DType to, Num x)
{
    if (dtype_is_float(from)) {
        if (dtype_is_float(to))
            return num_float(to, x.f);
        if (to == DT_BOOL)
            return (Num){.i = x.f != 0};
        return (Num){.i = float_to_int(to, x.f)};
    }
    if (dtype_is_float(to))
        return (Num){.f = int_to_float(from, to, x.i)};
    return num_int(to, x.i);
}

/* ---- operations --------------------------------------------------------------------------------------------- */

static double
float_mod(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double
float_sign(double x)
{
    return isnan(x) ? x : (x > 0) - (x < 0);
}

static Num
float_op(ScalarOp op, DType t, double x, double y)
{
    double v;
    switch (op) {
    case S_ADD: v = x + y; break;
    case S_SUB: v = x - y; break;
    case S_MUL: v = x * y; break;
    case S_DIV: v = x / y; break;
    case S_MOD: v = float_mod(x, y); break;
    case S_REM: v = fmod(x, y); break;
    case S_POW: v = pow(x, y); break;
    case S_MIN: v = isnan(x) || isnan(y) ? NAN : x < y ? x : y; break;
    case S_MAX: v = isnan(x) || isnan(y) ? NAN : x > y ? x : y; break;
    case S_ATAN2: v = atan2(x, y); break;
    case S_AND: return (Num){.f = x != 0 && y != 0};
    case S_OR: return (Num){.f = x != 0 || y != 0};
    case S_XOR: return (Num){.f = (x != 0) != (y != 0)};
    case S_EQ: return (Num){.i = x == y};
    case S_NE: return (Num){.i = x != y};
    case S_LT: return (Num){.i = x < y};
    case S_LE: return (Num){.i = x <= y};
    case S_GT: return (Num){.i = x > y};
    case S_GE: return (Num){.i = x >= y};
    case S_ISNAN: return (Num){.i = isnan(x) != 0};
    case S_ISINF: return (Num){.i = isinf(x) != 0};
    case S_NEG: v = -x; break;
    case S_ABS: v = fabs(x); break;
    case S_NOT: v = x == 0; break;
    case S_SIGN: v = float_sign(x); break;
    case S_FLOOR: v = floor(x); break;
    case S_CEIL: v = ceil(x); break;
    case S_ROUND: v = nearbyint(x); break;
    case S_TRUNC: v = trunc(x); break;
    case S_SQRT: v = sqrt(x); break;
    case S_EXP: v = exp(x); break;
    case S_LOG: v = log(x); break;
    case S_SIN: v = sin(x); break;
    case S_COS: v = cos(x); break;
    case S_TAN: v = tan(x); break;
    case S_ASIN: v = asin(x); break;
    case S_ACOS: v = acos(x); break;
    case S_ATAN: v = atan(x); break;
    case S_SINH: v = sinh(x); break;
    case S_COSH: v = cosh(x); break;
    case S_TANH: v = tanh(x); break;
    case S_ASINH: v = asinh(x); break;
    case S_ACOSH: v = acosh(x); break;
    case S_ATANH: v = atanh(x); break;
    case S_ERF: v = erf(x); break;
    case S_SIGMOID: v = 1 / (1 + exp(-x)); break;
    default: assert(!"no operation of floats"); v = NAN; break;
    }
    return num_float(t, v);
}

/* x / y with sign, truncated; the one quotient that does not fit wraps. */
static int64_t
int_div(DType t, int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (t == DT_U64)
        return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t
int_rem(DType t, int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (t == DT_U64)
        return (int64_t)((uint64_t)x % (uint64_t)y);
    return y == -1 ? 0 : x % y;
}

static int64_t
int_mod(DType t, int64_t x, int64_t y)
{
    int64_t r = int_rem(t, x, y);
    return t != DT_U64 && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* A negative exponent gives what truncating the real power would. */
static int64_t
int_pow(DType t, int64_t x, int64_t y)
{
    if (t != DT_U64 && y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    uint64_t r = 1, b = (uint64_t)x;
    for (uint64_t e = (uint64_t)y; e; e >>= 1, b *= b)
        if (e & 1)
            r *= b;
    return (int64_t)r;
}

static int64_t
int_shift(ScalarOp op, DType t, int64_t x, int64_t y)
{
    if ((uint64_t)y >= dtype_info[t].bytes * 8u)
        return 0;
    if (op == S_SHL)
        return (int64_t)((uint64_t)x << y);
    return t == DT_U64 ? (int64_t)((uint64_t)x >> y) : x >> y;
}

static int
int_compare(DType t, int64_t x, int64_t y)
{
    return t == DT_U64 ? ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y) : (x > y) - (x < y);
}

static Num
int_op(ScalarOp op, DType t, int64_t x, int64_t y)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    switch (op) {
    case S_ADD: return num_int(t, (int64_t)(a + b));
    case S_SUB: return num_int(t, (int64_t)(a - b));
    case S_MUL: return num_int(t, (int64_t)(a * b));
    case S_DIV: return num_int(t, int_div(t, x, y));
    case S_MOD: return num_int(t, int_mod(t, x, y));
    case S_REM: return num_int(t, int_rem(t, x, y));
    case S_POW: return num_int(t, int_pow(t, x, y));
    case S_MIN: return (Num){.i = int_compare(t, x, y) <= 0 ? x : y};
    case S_MAX: return (Num){.i = int_compare(t, x, y) >= 0 ? x : y};
    case S_AND: return (Num){.i = x & y};
    case S_OR: return (Num){.i = x | y};
    case S_XOR: return (Num){.i = x ^ y};
    case S_SHL: case S_SHR: return num_int(t, int_shift(op, t, x, y));
    case S_EQ: return (Num){.i = x == y};
    case S_NE: return (Num){.i = x != y};
    case S_LT: return (Num){.i = int_compare(t, x, y) < 0};
    case S_LE: return (Num){.i = int_compare(t, x, y) <= 0};
    case S_GT: return (Num){.i = int_compare(t, x, y) > 0};
    case S_GE: return (Num){.i = int_compare(t, x, y) >= 0};
    case S_NEG: return num_int(t, (int64_t)(0 - a));
    case S_ABS: return num_int(t, t != DT_U64 && x < 0 ? (int64_t)(0 - a) : x);
    case S_NOT: return t == DT_BOOL ? (Num){.i = !x} : num_int(t, ~x);
    case S_SIGN: return num_int(t, int_compare(t, x, 0));
    case S_FLOOR: case S_CEIL: case S_ROUND: case S_TRUNC: return (Num){.i = x};
    case S_ISNAN: case S_ISINF: return (Num){.i = 0};
    default: return num_cast(DT_F64, t, float_op(op, DT_F64, int_to_float(t, DT_F64, x), int_to_float(t, DT_F64, y)));
    }
}

Num
num_op(ScalarOp op, DType t, Num x, Num y, Num z)
{
    if (op == S_SELECT)
        return x.i ? y : z;
    return dtype_is_float(t) ? float_op(op, t, x.f, y.f) : int_op(op, t, x.i, y.i);
}

/* ---- combiners --------------------------------------------------------------------------------------------------- */

void
num_combine(Combiner k, DType t, uint32_t n, Num *acc, const Num *v)
{
    switch (k) {
    case COMB_SUM: *acc = num_op(S_ADD, t, *acc, *v, *v); break;
    case COMB_PROD: *acc = num_op(S_MUL, t, *acc, *v, *v); break;
    case COMB_MAX: *acc = num_op(S_MAX, t, *acc, *v, *v); break;
    case COMB_MIN: *acc = num_op(S_MIN, t, *acc, *v, *v); break;
    case COMB_ANY: *acc = num_op(S_OR, t, *acc, *v, *v); break;
    case COMB_ALL: *acc = num_op(S_AND, t, *acc, *v, *v); break;
    case COMB_ARGMAX: case COMB_ARGMIN:
        if (num_op(k == COMB_ARGMAX ? S_GT : S_LT, t, *v, *acc, *v).i)
            memcpy(acc, v, n * sizeof *acc);
        break;
    case COMB_LAST: case COMB_NONE: case COMB_COUNT: *acc = *v; break;
    }
}
