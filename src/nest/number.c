/* number: the arithmetic of values, exactly as scalar.def defines it: of constants, which makers of
 * scalars fold, and of the interpreter.
 *
 * Floats are computed in double and rounded once to their type. For + - * / and sqrt this equals
 * computing in the type itself, since double has more than twice the digits of f32, plus two; for
 * the transcendental functions it is nearly always the correctly rounded value. Integers wrap: they
 * are computed in 64 bits unsigned and truncated to their width. The prelude has the same rules.
 */
#include "nest/number.h"

#include <math.h>
#include <string.h>

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

/* r of type t; a comparison's is bool. */
static bool
float_op(ScalarOp op, DType t, double x, double y, Number *r)
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
    case S_EQ: r->i = x == y; return true;
    case S_NE: r->i = x != y; return true;
    case S_LT: r->i = x < y; return true;
    case S_LE: r->i = x <= y; return true;
    case S_GT: r->i = x > y; return true;
    case S_GE: r->i = x >= y; return true;
    case S_ISNAN: r->i = isnan(x) != 0; return true;
    case S_ISINF: r->i = isinf(x) != 0; return true;
    case S_NEG: v = -x; break;
    case S_ABS: v = fabs(x); break;
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
    default: return false;
    }
    *r = number_float(t, v);
    return true;
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

static bool
int_op(ScalarOp op, DType t, int64_t x, int64_t y, Number *r)
{
    int64_t v = 0;
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    switch (op) {
    case S_ADD: v = (int64_t)(a + b); break;
    case S_SUB: v = (int64_t)(a - b); break;
    case S_MUL: v = (int64_t)(a * b); break;
    case S_DIV: v = int_div(t, x, y); break;
    case S_MOD: v = int_mod(t, x, y); break;
    case S_REM: v = int_rem(t, x, y); break;
    case S_POW: v = int_pow(t, x, y); break;
    case S_MIN: v = int_compare(t, x, y) <= 0 ? x : y; break;
    case S_MAX: v = int_compare(t, x, y) >= 0 ? x : y; break;
    case S_AND: v = x & y; break;
    case S_OR: v = x | y; break;
    case S_XOR: v = x ^ y; break;
    case S_DOT2:
        v = (int64_t)(int16_t)x * (int16_t)y + (int64_t)(int16_t)(x >> 16) * (int16_t)(y >> 16);
        break;
    case S_DOT4:
        for (int i = 0; i < 32; i += 8)
            v += (int64_t)(uint8_t)(x >> i) * (int8_t)(y >> i);
        break;
    case S_DOT4S:
        for (int i = 0; i < 32; i += 8)
            v += (int64_t)(int8_t)(x >> i) * (int8_t)(y >> i);
        break;
    case S_SHL:
    case S_SHR: v = int_shift(op, t, x, y); break;
    case S_EQ: v = x == y; break;
    case S_NE: v = x != y; break;
    case S_LT: v = int_compare(t, x, y) < 0; break;
    case S_LE: v = int_compare(t, x, y) <= 0; break;
    case S_GT: v = int_compare(t, x, y) > 0; break;
    case S_GE: v = int_compare(t, x, y) >= 0; break;
    case S_NEG: v = (int64_t)(0 - a); break;
    case S_ABS: v = t != DT_U64 && x < 0 ? (int64_t)(0 - a) : x; break;
    case S_NOT: v = t == DT_BOOL ? !x : ~x; break;
    case S_SIGN: v = int_compare(t, x, 0); break;
    case S_FLOOR:
    case S_CEIL:
    case S_ROUND:
    case S_TRUNC: v = x; break;
    case S_ISNAN:
    case S_ISINF: v = 0; break;
    default: /* a real function */
        if (!float_op(op, DT_F64, number_cast(DT_F64, t, (Number){ .i = x }).f,
                      number_cast(DT_F64, t, (Number){ .i = y }).f, r))
            return false;
        *r = number_cast(t, DT_F64, *r);
        return true;
    }
    *r = number_int(t, v);
    return true;
}

bool
number_op(ScalarOp op, DType t, Number x, Number y, Number z, Number *r)
{
    if (op == S_SELECT)
        *r = x.i ? y : z;
    else if (op == S_PAIR)
        *r = number_pair(x, y);
    else if (op == S_DOT2F)
        *r = number_float(DT_F32, number_half(x, 0) * number_half(y, 0) +
                                      number_half(x, 1) * number_half(y, 1));
    else
        return dtype_is_float(t) ? float_op(op, t, x.f, y.f, r) : int_op(op, t, x.i, y.i, r);
    return true;
}

/* ---- combiners ------------------------------------------------------------------------------- */

/* Does max or min select x over y: the first of equal ones, and a NaN over any number? */
static bool
is_better(Combiner k, DType t, Number v, Number best)
{
    Number better = { 0 };

    if (dtype_is_float(t) && (isnan(v.f) || isnan(best.f)))
        return !isnan(best.f);
    number_op(k == COMB_ARGMAX ? S_GT : S_LT, t, v, best, v, &better);
    return better.i != 0;
}

void
number_combine(Combiner k, DType t, uint32_t n, Number *acc, const Number *v)
{
    if (combiner_op[k])
        number_op(combiner_op[k], t, *acc, *v, *v, acc);
    else if ((k != COMB_ARGMAX && k != COMB_ARGMIN) || is_better(k, t, *v, *acc))
        memcpy(acc, v, n * sizeof *acc);
}
