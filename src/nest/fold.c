/* fold: arithmetic on constants, exactly as a run computes it.
 *
 * Floats work at their own type: f32 in float, f64 in double; f16 and bf16 in float, rounded after
 * every operation. Integers wrap. Division by zero gives 0 for integers. Min and max give NaN if
 * either operand is NaN. The interpreter (ref) and the prelude have the same rules: change all
 * three together.
 */
#include "nest/internal.h"

#include <math.h>

static bool
is_unsigned(DType t)
{
    return dtype_info[t].kind == KIND_UINT;
}

static unsigned
width_of(DType t)
{
    return dtype_info[t].bytes * 8u;
}

/* Operations on floats, written once for float and once for double. */
#define FLOAT_OPS(NAME, T, F)                                                                      \
    static bool NAME(ScalarOp op, T x, T y, T *r)                                                  \
    {                                                                                              \
        switch (op) {                                                                              \
        case S_ADD: *r = x + y; return true;                                                       \
        case S_SUB: *r = x - y; return true;                                                       \
        case S_MUL: *r = x * y; return true;                                                       \
        case S_DIV: *r = x / y; return true;                                                       \
        case S_MOD:                                                                                \
            *r = F(fmod)(x, y);                                                                    \
            if (*r != 0 && (*r < 0) != (y < 0))                                                    \
                *r += y;                                                                           \
            return true;                                                                           \
        case S_REM: *r = F(fmod)(x, y); return true;                                               \
        case S_POW: *r = F(pow)(x, y); return true;                                                \
        case S_MIN: *r = isnan(x) ? x : isnan(y) ? y : x < y ? x : y; return true;                 \
        case S_MAX: *r = isnan(x) ? x : isnan(y) ? y : x > y ? x : y; return true;                 \
        case S_ATAN2: *r = F(atan2)(x, y); return true;                                            \
        case S_NEG: *r = -x; return true;                                                          \
        case S_ABS: *r = F(fabs)(x); return true;                                                  \
        case S_SIGN: *r = x > 0 ? 1 : x < 0 ? -1 : isnan(x) ? x : 0; return true;                  \
        case S_FLOOR: *r = F(floor)(x); return true;                                               \
        case S_CEIL: *r = F(ceil)(x); return true;                                                 \
        case S_ROUND: *r = F(nearbyint)(x); return true;                                           \
        case S_TRUNC: *r = F(trunc)(x); return true;                                               \
        case S_SQRT: *r = F(sqrt)(x); return true;                                                 \
        case S_EXP: *r = F(exp)(x); return true;                                                   \
        case S_LOG: *r = F(log)(x); return true;                                                   \
        case S_SIN: *r = F(sin)(x); return true;                                                   \
        case S_COS: *r = F(cos)(x); return true;                                                   \
        case S_TAN: *r = F(tan)(x); return true;                                                   \
        case S_ASIN: *r = F(asin)(x); return true;                                                 \
        case S_ACOS: *r = F(acos)(x); return true;                                                 \
        case S_ATAN: *r = F(atan)(x); return true;                                                 \
        case S_SINH: *r = F(sinh)(x); return true;                                                 \
        case S_COSH: *r = F(cosh)(x); return true;                                                 \
        case S_TANH: *r = F(tanh)(x); return true;                                                 \
        case S_ASINH: *r = F(asinh)(x); return true;                                               \
        case S_ACOSH: *r = F(acosh)(x); return true;                                               \
        case S_ATANH: *r = F(atanh)(x); return true;                                               \
        case S_ERF: *r = F(erf)(x); return true;                                                   \
        case S_SIGMOID: *r = 1 / (1 + F(exp)(-x)); return true;                                    \
        case S_SOFTPLUS: *r = (x < 0 ? 0 : x) + F(log1p)(F(exp)(-F(fabs)(x))); return true;        \
        default: return false;                                                                     \
        }                                                                                          \
    }
#define AS_FLOAT(name) name##f
#define AS_DOUBLE(name) name
FLOAT_OPS(float_op, float, AS_FLOAT)
FLOAT_OPS(double_op, double, AS_DOUBLE)

static bool
compare_op(ScalarOp op, bool less, bool equal, bool ordered, int64_t *r)
{
    switch (op) {
    case S_EQ: *r = equal; return true;
    case S_NE: *r = !equal; return true;
    case S_LT: *r = less; return true;
    case S_LE: *r = less || equal; return true;
    case S_GT: *r = ordered && !less && !equal; return true;
    case S_GE: *r = ordered && !less; return true;
    default: return false;
    }
}

static int64_t
int_pow(DType t, int64_t base, int64_t power)
{
    if (power < 0 && !is_unsigned(t))
        return base == 1 ? 1 : base == -1 ? (power & 1 ? -1 : 1) : 0;
    uint64_t r = 1, b = (uint64_t)base;
    for (uint64_t p = (uint64_t)power; p; p >>= 1, b *= b)
        if (p & 1)
            r *= b;
    return (int64_t)r;
}

/* Signed and unsigned division apart; y is not 0, and INT64_MIN / -1 wraps. */
static int64_t
int_divide(DType t, int64_t x, int64_t y, bool remainder)
{
    if (is_unsigned(t)) {
        uint64_t a = (uint64_t)x, b = (uint64_t)y;
        return (int64_t)(remainder ? a % b : a / b);
    }
    if (y == -1)
        return remainder ? 0 : (int64_t)(0 - (uint64_t)x);
    return remainder ? x % y : x / y;
}

static int64_t
int_shift(DType t, bool left, int64_t x, int64_t y)
{
    unsigned width = width_of(t);
    if (y < 0 || y >= (int64_t)width)
        return 0;
    if (left)
        return (int64_t)((uint64_t)x << y);
    return is_unsigned(t) ? (int64_t)((uint64_t)x >> y) : x >> y;
}

static bool
int_op(ScalarOp op, DType t, int64_t x, int64_t y, int64_t *r)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    bool less = is_unsigned(t) ? a < b : x < y;
    if (compare_op(op, less, x == y, true, r))
        return true;
    switch (op) {
    case S_ADD: *r = (int64_t)(a + b); break;
    case S_SUB: *r = (int64_t)(a - b); break;
    case S_MUL: *r = (int64_t)(a * b); break;
    case S_DIV: *r = y == 0 ? 0 : int_divide(t, x, y, false); break;
    case S_REM: *r = y == 0 ? 0 : int_divide(t, x, y, true); break;
    case S_MOD:
        *r = y == 0 ? 0 : int_divide(t, x, y, true);
        if (*r != 0 && !is_unsigned(t) && (*r < 0) != (y < 0))
            *r += y;
        break;
    case S_POW: *r = int_pow(t, x, y); break;
    case S_MIN: *r = less ? x : y; break;
    case S_MAX: *r = less ? y : x; break;
    case S_AND: *r = x & y; break;
    case S_OR: *r = x | y; break;
    case S_XOR: *r = x ^ y; break;
    case S_SHL: *r = int_shift(t, true, x, y); break;
    case S_SHR: *r = int_shift(t, false, x, y); break;
    case S_DOT2:
        *r = (int64_t)(int16_t)x * (int16_t)y + (int64_t)(int16_t)(x >> 16) * (int16_t)(y >> 16);
        break;
    case S_DOT4:
        for (int i = 0; i < 32; i += 8)
            *r += (int64_t)(uint8_t)(x >> i) * (int8_t)(y >> i);
        break;
    case S_NEG: *r = (int64_t)(0 - a); break;
    case S_ABS: *r = x < 0 && !is_unsigned(t) ? (int64_t)(0 - a) : x; break;
    case S_NOT: *r = t == DT_BOOL ? !x : ~x; break;
    case S_SIGN: *r = x == 0 ? 0 : x < 0 && !is_unsigned(t) ? -1 : 1; break;
    case S_FLOOR:
    case S_CEIL:
    case S_ROUND:
    case S_TRUNC: *r = x; break;
    case S_ISNAN:
    case S_ISINF: *r = 0; return true;
    default: return false;
    }
    *r = wrap_to_dtype(t, *r);
    return true;
}

bool
number_op(ScalarOp op, DType t, const Number *x, Number *result)
{
    bool binary = scalar_op_info[op].arity == 2;
    if (op == S_PAIR) {
        *result = number_pair(x[0], x[1]);
        return true;
    }
    /* both products are floats, so their sum is rounded once */
    if (op == S_DOT2F) {
        result->f = (float)number_half(x[0], 0) * (float)number_half(x[1], 0) +
                    (float)number_half(x[0], 1) * (float)number_half(x[1], 1);
        return true;
    }
    if (!dtype_is_float(t))
        return int_op(op, t, x[0].i, binary ? x[1].i : 0, &result->i);

    double a = x[0].f, b = binary ? x[1].f : 0;
    if (compare_op(op, a < b, a == b, !isnan(a) && !isnan(b), &result->i))
        return true;
    if (op == S_ISNAN || op == S_ISINF) {
        result->i = op == S_ISNAN ? isnan(a) != 0 : isinf(a) != 0;
        return true;
    }
    if (t == DT_F64)
        return double_op(op, a, b, &result->f);
    float r;
    if (!float_op(op, (float)a, (float)b, &r))
        return false;
    result->f = round_to_dtype(t, r);
    return true;
}
