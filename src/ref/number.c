/* number: the arithmetic of one value, exactly as scalar.def defines it.
 *
 * Floats are computed in double and rounded once to their type. For + - * / and sqrt this equals
 * computing in the type itself, since double has more than twice the digits of f32, plus two; for
 * the transcendental functions it is nearly always the correctly rounded value. Integers wrap: they
 * are computed in 64 bits unsigned and truncated to their width.
 */
#include "ref/internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

Number
num_const(const Scalar *s)
{
    Number v = { .i = s->u.bits }; /* floats are stored as doubles: the same eight bytes */
    return v;
}

/* ---- operations ------------------------------------------------------------------------------ */

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

static Number
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
    case S_AND: return (Number){ .f = x != 0 && y != 0 };
    case S_OR: return (Number){ .f = x != 0 || y != 0 };
    case S_XOR: return (Number){ .f = (x != 0) != (y != 0) };
    case S_EQ: return (Number){ .i = x == y };
    case S_NE: return (Number){ .i = x != y };
    case S_LT: return (Number){ .i = x < y };
    case S_LE: return (Number){ .i = x <= y };
    case S_GT: return (Number){ .i = x > y };
    case S_GE: return (Number){ .i = x >= y };
    case S_ISNAN: return (Number){ .i = isnan(x) != 0 };
    case S_ISINF: return (Number){ .i = isinf(x) != 0 };
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
    case S_SOFTPLUS: v = (x < 0 ? 0 : x) + log1p(exp(-fabs(x))); break;
    default:
        assert(!"no operation of floats");
        v = NAN;
        break;
    }
    return number_float(t, v);
}

/* x / y, signed, truncated; the only quotient that overflows wraps. */
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

/* A negative exponent gives the truncated real power. */
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
    return t == DT_U64 ? ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y)
                       : (x > y) - (x < y);
}

static Number
int_op(ScalarOp op, DType t, int64_t x, int64_t y)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    switch (op) {
    case S_ADD: return number_int(t, (int64_t)(a + b));
    case S_SUB: return number_int(t, (int64_t)(a - b));
    case S_MUL: return number_int(t, (int64_t)(a * b));
    case S_DIV: return number_int(t, int_div(t, x, y));
    case S_MOD: return number_int(t, int_mod(t, x, y));
    case S_REM: return number_int(t, int_rem(t, x, y));
    case S_POW: return number_int(t, int_pow(t, x, y));
    case S_MIN: return (Number){ .i = int_compare(t, x, y) <= 0 ? x : y };
    case S_MAX: return (Number){ .i = int_compare(t, x, y) >= 0 ? x : y };
    case S_AND: return (Number){ .i = x & y };
    case S_OR: return (Number){ .i = x | y };
    case S_XOR: return (Number){ .i = x ^ y };
    case S_DOT2:
        return number_int(t, (int64_t)(int16_t)x * (int16_t)y +
                                 (int64_t)(int16_t)(x >> 16) * (int16_t)(y >> 16));
    case S_DOT4: {
        int64_t sum = 0;
        for (int i = 0; i < 32; i += 8)
            sum += (int64_t)(uint8_t)(x >> i) * (int8_t)(y >> i);
        return number_int(t, sum);
    }
    case S_SHL:
    case S_SHR: return number_int(t, int_shift(op, t, x, y));
    case S_EQ: return (Number){ .i = x == y };
    case S_NE: return (Number){ .i = x != y };
    case S_LT: return (Number){ .i = int_compare(t, x, y) < 0 };
    case S_LE: return (Number){ .i = int_compare(t, x, y) <= 0 };
    case S_GT: return (Number){ .i = int_compare(t, x, y) > 0 };
    case S_GE: return (Number){ .i = int_compare(t, x, y) >= 0 };
    case S_NEG: return number_int(t, (int64_t)(0 - a));
    case S_ABS: return number_int(t, t != DT_U64 && x < 0 ? (int64_t)(0 - a) : x);
    case S_NOT: return t == DT_BOOL ? (Number){ .i = !x } : number_int(t, ~x);
    case S_SIGN: return number_int(t, int_compare(t, x, 0));
    case S_FLOOR:
    case S_CEIL:
    case S_ROUND:
    case S_TRUNC: return (Number){ .i = x };
    case S_ISNAN:
    case S_ISINF: return (Number){ .i = 0 };
    default:
        return number_cast(t, DT_F64,
                           float_op(op, DT_F64, number_cast(DT_F64, t, (Number){ .i = x }).f,
                                    number_cast(DT_F64, t, (Number){ .i = y }).f));
    }
}

Number
num_op(ScalarOp op, DType t, Number x, Number y, Number z)
{
    if (op == S_SELECT)
        return x.i ? y : z;
    if (op == S_PAIR)
        return number_pair(x, y);
    if (op == S_DOT2F)
        return number_float(DT_F32, number_half(x, 0) * number_half(y, 0) +
                                        number_half(x, 1) * number_half(y, 1));
    return dtype_is_float(t) ? float_op(op, t, x.f, y.f) : int_op(op, t, x.i, y.i);
}

/* ---- combiners ------------------------------------------------------------------------------- */

/* Does max or min select x over y: the first of equal ones, and a NaN over any number? */
static bool
num_better(Combiner k, DType t, Number v, Number best)
{
    if (dtype_is_float(t) && (isnan(v.f) || isnan(best.f)))
        return !isnan(best.f);
    return num_op(k == COMB_ARGMAX ? S_GT : S_LT, t, v, best, v).i != 0;
}

void
num_combine(Combiner k, DType t, uint32_t n, Number *acc, const Number *v)
{
    switch (k) {
    case COMB_SUM: *acc = num_op(S_ADD, t, *acc, *v, *v); break;
    case COMB_PROD: *acc = num_op(S_MUL, t, *acc, *v, *v); break;
    case COMB_MAX: *acc = num_op(S_MAX, t, *acc, *v, *v); break;
    case COMB_MIN: *acc = num_op(S_MIN, t, *acc, *v, *v); break;
    case COMB_ANY: *acc = num_op(S_OR, t, *acc, *v, *v); break;
    case COMB_ALL: *acc = num_op(S_AND, t, *acc, *v, *v); break;
    case COMB_ARGMAX:
    case COMB_ARGMIN:
        if (num_better(k, t, *v, *acc))
            memcpy(acc, v, n * sizeof *acc);
        break;
    case COMB_LAST:
    case COMB_NONE:
    case COMB_COUNT: *acc = *v; break;
    }
}
