/* prelude: what emitted kernels need beyond C: checked sizes, arithmetic that never traps, and math.
 * Vectors are in prelude_lanes.h, which follows it in every source.
 *
 * Mathematical functions are written once, over a "shape": f32 (one lane) or f32xN. A scalar tail
 * so computes what the vector body does. Masks are integer vectors, all ones where true, or an
 * int for one lane. f16 and bf16 exist in memory alone: in registers they are floats, rounded.
 */
#ifndef TN_PRELUDE_H
#define TN_PRELUDE_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wtype-limits"    /* one macro serves signed and unsigned */
#pragma GCC diagnostic ignored "-Wpsabi"          /* vectors are passed between inlined functions alone */

#define TN_INLINE static inline __attribute__((always_inline, unused))
#define TN_COLD static __attribute__((noinline, cold, unused))

#ifndef TN_KERNEL
#define TN_KERNEL void           /* `static void` in a single file */
#endif

typedef uint16_t tn_f16;         /* the bits */
typedef uint16_t tn_bf16;

/* ---- integers: sizes and indices ------------------------------------------------------------- */

TN_INLINE int64_t tn_div(int64_t a, int64_t b)    /* floor(a / b); 0 when b is 0 */
{
    if (__builtin_constant_p(b) && b > 0 && (b & (b - 1)) == 0)
        return a >> __builtin_ctzll((unsigned long long)b);
    if (b == 0)
        return 0;
    int64_t q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
TN_INLINE int64_t tn_mod(int64_t a, int64_t b)    /* a - b * floor(a / b) */
{
    if (__builtin_constant_p(b) && b > 0 && (b & (b - 1)) == 0)
        return a & (b - 1);
    if (b == 0)
        return 0;
    int64_t r = a % b;
    return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0);
}
TN_INLINE int64_t tn_min(int64_t a, int64_t b) { return a < b ? a : b; }
TN_INLINE int64_t tn_max(int64_t a, int64_t b) { return a > b ? a : b; }
TN_INLINE int tn_inside(int64_t i, int64_t n) { return (uint64_t)i < (uint64_t)n; }

/* Remember the first index out of range; the host stops after the kernel. */
TN_COLD void tn_fault_index(const TnArgs *a, int64_t got, int64_t want)
{
    int32_t none = TN_FAULT_NONE;
    if (!__atomic_compare_exchange_n(&a->fault->code, &none, TN_FAULT_INDEX, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    a->fault->where = a->kernel;
    a->fault->dim = 0;
    a->fault->got = got;
    a->fault->want = want;
}
/* An index as the user wrote it into 0..n-1: negative ones count from the end. */
TN_INLINE int64_t tn_at(const TnArgs *a, int64_t i, int64_t n)
{
    int64_t at = i < 0 ? i + n : i;
    if (__builtin_expect(!tn_inside(at, n), 0)) {
        tn_fault_index(a, i, n);
        return 0;
    }
    return at;
}

/* Sizes that overflow become TN_BAD_SIZE, which spreads. */
#define TN_BAD_SIZE INT64_MIN
TN_INLINE int64_t tn_size_add(int64_t a, int64_t b)
{
    int64_t r;
    return a == TN_BAD_SIZE || b == TN_BAD_SIZE || __builtin_add_overflow(a, b, &r) ? TN_BAD_SIZE : r;
}
TN_INLINE int64_t tn_size_mul(int64_t a, int64_t b)
{
    int64_t r;
    return a == TN_BAD_SIZE || b == TN_BAD_SIZE || __builtin_mul_overflow(a, b, &r) ? TN_BAD_SIZE : r;
}
TN_INLINE int64_t tn_size_div(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_div(a, b); }
TN_INLINE int64_t tn_size_mod(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_mod(a, b); }
TN_INLINE int64_t tn_size_min(int64_t a, int64_t b) { return tn_min(a, b); }
TN_INLINE int64_t tn_size_max(int64_t a, int64_t b) { return a == TN_BAD_SIZE || b == TN_BAD_SIZE ? TN_BAD_SIZE : tn_max(a, b); }

/* ---- the host program --------------------------------------------------------------------------- */

TN_COLD int tn_refuse(TnFault *f, int32_t code, int32_t where, int32_t dim, int64_t got, int64_t want)
{
    *f = (TnFault){code, where, dim, 0, got, want};
    return code;
}
/* The x >= 0 with by * x + rest == size, if there is one. */
TN_INLINE int tn_solve(int64_t size, int64_t by, int64_t rest, int64_t *x)
{
    int64_t left;
    if (by == TN_BAD_SIZE || rest == TN_BAD_SIZE || by == 0 || __builtin_sub_overflow(size, rest, &left) || left % by != 0)
        return 0;
    *x = left / by;
    return *x >= 0;
}
TN_INLINE void tn_call(const TnHost *h, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    if (trips <= 0)
        return;
    if (h->parallel)
        h->parallel(h->user, fn, args, trips, grain);
    else
        fn(args, 0, trips, h->scratch);
}

/* ---- arithmetic of integers: wraps, never traps ---------------------------------------------------- */

/* Integer division truncates; by zero it gives 0, and -1 divides without a trap. Unsigned: plain. */
#define TN_INT_DIVISION(T, U, name)                                                                    \
    TN_INLINE T tn_quot_##name(T x, T y) { return y == 0 ? 0 : y == (T)-1 && (T)-1 < 0 ? (T)(0 - (U)x) : (T)(x / y); } \
    TN_INLINE T tn_rem_##name(T x, T y) { return y == 0 || (y == (T)-1 && (T)-1 < 0) ? 0 : (T)(x % y); } \
    TN_INLINE T tn_mod_##name(T x, T y)                                                                \
    {                                                                                                  \
        T r = tn_rem_##name(x, y);                                                                     \
        return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;                                          \
    }                                                                                                  \
    TN_INLINE T tn_pow_##name(T x, T y)       /* wraps; a negative power gives what truncating would */ \
    {                                                                                                  \
        if (y < 0)                                                                                     \
            return x == 1 ? 1 : x == (T)-1 ? (y & 1 ? x : 1) : 0;                                      \
        U r = 1, b = (U)x;                                                                             \
        for (U p = (U)y; p; p >>= 1, b *= b)                                                           \
            if (p & 1)                                                                                 \
                r *= b;                                                                                \
        return (T)r;                                                                                   \
    }
#define TN_INTS(X)                                                                                     \
    X(int8_t, uint32_t, i8) X(int16_t, uint32_t, i16) X(int32_t, uint32_t, i32) X(int64_t, uint64_t, i64) \
    X(uint8_t, uint32_t, u8) X(uint16_t, uint32_t, u16) X(uint32_t, uint32_t, u32) X(uint64_t, uint64_t, u64)
TN_INTS(TN_INT_DIVISION)

/* ---- one lane ---------------------------------------------------------------------------------- */

TN_INLINE int32_t tn_bits_f32(float x) { int32_t i; memcpy(&i, &x, 4); return i; }
TN_INLINE float tn_from_bits_f32(int32_t i) { float x; memcpy(&x, &i, 4); return x; }
TN_INLINE float tn_splat_f32(float x) { return x; }
TN_INLINE float tn_sel_f32(int c, float x, float y) { return c ? x : y; }
TN_INLINE float tn_abs_f32(float x) { return __builtin_fabsf(x); }
TN_INLINE float tn_sqrt_f32(float x) { return __builtin_sqrtf(x); }
TN_INLINE float tn_floor_f32(float x) { return __builtin_floorf(x); }
TN_INLINE float tn_ceil_f32(float x) { return __builtin_ceilf(x); }
TN_INLINE float tn_trunc_f32(float x) { return __builtin_truncf(x); }
TN_INLINE float tn_round_f32(float x) { return __builtin_rintf(x); }      /* ties to even */
TN_INLINE double tn_sel_f64(int c, double x, double y) { return c ? x : y; }
TN_INLINE double tn_abs_f64(double x) { return __builtin_fabs(x); }
TN_INLINE double tn_sqrt_f64(double x) { return __builtin_sqrt(x); }
TN_INLINE double tn_floor_f64(double x) { return __builtin_floor(x); }
TN_INLINE double tn_ceil_f64(double x) { return __builtin_ceil(x); }
TN_INLINE double tn_trunc_f64(double x) { return __builtin_trunc(x); }
TN_INLINE double tn_round_f64(double x) { return __builtin_rint(x); }

/* What has no vector form: the C library's. */
#define TN_LIBM_1(X) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh)
#define TN_ONE_LANE_LIBM(name)                                                                         \
    TN_INLINE float tn_##name##_f32(float x) { return __builtin_##name##f(x); }                        \
    TN_INLINE double tn_##name##_f64(double x) { return __builtin_##name(x); }
TN_LIBM_1(TN_ONE_LANE_LIBM)
TN_INLINE double tn_exp_f64(double x) { return __builtin_exp(x); }
TN_INLINE double tn_log_f64(double x) { return __builtin_log(x); }
TN_INLINE double tn_tanh_f64(double x) { return __builtin_tanh(x); }
TN_INLINE double tn_erf_f64(double x) { return __builtin_erf(x); }
TN_INLINE double tn_sigmoid_f64(double x)
{
    double e = __builtin_exp(-__builtin_fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}
TN_INLINE float tn_pow_f32(float x, float y) { return __builtin_powf(x, y); }
TN_INLINE double tn_pow_f64(double x, double y) { return __builtin_pow(x, y); }
TN_INLINE float tn_atan2_f32(float y, float x) { return __builtin_atan2f(y, x); }
TN_INLINE double tn_atan2_f64(double y, double x) { return __builtin_atan2(y, x); }
TN_INLINE float tn_rem_f32(float x, float y) { return __builtin_fmodf(x, y); }
TN_INLINE double tn_rem_f64(double x, double y) { return __builtin_fmod(x, y); }
TN_INLINE float tn_mod_f32(float x, float y)
{
    float r = __builtin_fmodf(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
TN_INLINE double tn_mod_f64(double x, double y)
{
    double r = __builtin_fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* Minimum and maximum. Floats give NaN when either side is one: `a > b ? a : b` gives b when b
 * is, the second choice sees to a. The _c form is for a that is known to be a number. */
#define TN_MINMAX_C(S, F)                                                                              \
    TN_INLINE F tn_max_c_##S(F a, F b) { return tn_sel_##S(a > b, a, b); }                             \
    TN_INLINE F tn_min_c_##S(F a, F b) { return tn_sel_##S(a < b, a, b); }
#define TN_MINMAX(S, F)                                                                                \
    TN_INLINE F tn_max_##S(F a, F b) { return tn_sel_##S(a != a, a, tn_max_c_##S(a, b)); }             \
    TN_INLINE F tn_min_##S(F a, F b) { return tn_sel_##S(a != a, a, tn_min_c_##S(a, b)); }             \
    TN_INLINE F tn_sign_##S(F a)                                                                       \
    {                                                                                                  \
        const F zero = {0};                                                                            \
        return tn_sel_##S(a > 0, zero + 1, tn_sel_##S(a < 0, zero - 1, a));                            \
    }
TN_MINMAX_C(f32, float)
TN_MINMAX_C(f64, double)
TN_MINMAX(f32, float)
TN_MINMAX(f64, double)
#define TN_MINMAX_I(T, U, name)                                                                        \
    TN_INLINE T tn_max_##name(T a, T b) { return a > b ? a : b; }                                      \
    TN_INLINE T tn_min_##name(T a, T b) { return a < b ? a : b; }                                      \
    TN_INLINE T tn_sel_##name(int c, T a, T b) { return c ? a : b; }                                   \
    TN_INLINE T tn_abs_##name(T a) { return a < 0 ? (T)(0 - (U)a) : a; }                               \
    TN_INLINE T tn_sign_##name(T a) { return (T)((a > 0) - (a < 0)); }                                 \
    TN_INLINE T tn_shl_##name(T a, T b) { return (uint64_t)b >= 8 * sizeof(T) ? 0 : (T)((U)a << b); }  \
    TN_INLINE T tn_shr_##name(T a, T b) { return (uint64_t)b >= 8 * sizeof(T) ? 0 : (T)(a >> b); }
TN_INTS(TN_MINMAX_I)

/* Float to integer truncates and saturates; NaN gives 0. LO and END are exact as floats: the
 * smallest value, and one beyond the largest. */
#define TN_TRUNCATE(T, name, F, from, LO, END, MAX)                                                    \
    TN_INLINE T tn_##name##_from_##from(F x) { return x >= END ? (T)MAX : x >= LO ? (T)x : x != x ? 0 : (T)(LO); }
#define TN_TRUNCATIONS(X, F, from)                                                                     \
    X(int8_t, i8, F, from, -128.0f, 128.0f, INT8_MAX)                                                  \
    X(int16_t, i16, F, from, -32768.0f, 32768.0f, INT16_MAX)                                           \
    X(int32_t, i32, F, from, -2147483648.0f, 2147483648.0f, INT32_MAX)                                 \
    X(int64_t, i64, F, from, -9223372036854775808.0f, 9223372036854775808.0f, INT64_MAX)               \
    X(uint8_t, u8, F, from, 0.0f, 256.0f, UINT8_MAX)                                                   \
    X(uint16_t, u16, F, from, 0.0f, 65536.0f, UINT16_MAX)                                              \
    X(uint32_t, u32, F, from, 0.0f, 4294967296.0f, UINT32_MAX)                                         \
    X(uint64_t, u64, F, from, 0.0f, 18446744073709551616.0f, UINT64_MAX)
TN_TRUNCATIONS(TN_TRUNCATE, float, f32)
TN_TRUNCATIONS(TN_TRUNCATE, double, f64)

/* ---- f32 functions over a shape ------------------------------------------------------------------ */

/* S names the shape, F is its floats, I the integers of the same width.
 *
 * exp: x = n ln 2 + r, a polynomial for e^r (Cephes expf), 2^n in two steps so that results
 *     below the smallest normal number come out rounded, above the largest as infinity.
 * log: x = m 2^e with m in [sqrt 1/2, sqrt 2) (Cephes logf).
 * tanh: a polynomial near 0 (Cephes tanhf), else 1 - 2 / (e^2x + 1).
 * erf: a polynomial near 0, else 1 - e^p(x) (N. Juffa's erff).
 * sigmoid: e^-|x| never overflows, and keeps the relative accuracy of small results.
 *
 * Where the compiler may fuse a product and a sum, only one product stands beside the sum: so it
 * has no choice which to fuse, and one lane gives the bits that many lanes give. */
#define TN_MATH_F32(S, F, I)                                                                           \
    TN_INLINE F tn_sign_of_##S(F x, F sign)                                                            \
    {                                                                                                  \
        return tn_from_bits_##S(tn_bits_##S(x) | (tn_bits_##S(sign) & INT32_MIN));                     \
    }                                                                                                  \
    TN_INLINE F tn_exp_##S(F x)                                                                        \
    {                                                                                                  \
        const F zero = {0};                                                                            \
        F c = tn_min_c_##S(zero + 89.0f, tn_max_c_##S(zero - 104.0f, x));                              \
        F shifted = c * 1.44269504088896341f + 12582912.0f;                                            \
        I n = tn_bits_##S(shifted) - 0x4b400000;                                                       \
        F k = shifted - 12582912.0f;                                                                   \
        F r = c - k * 0.693359375f + k * 2.12194440e-4f;                                               \
        F p = r * 1.9875691500e-4f + 1.3981999507e-3f;                                                 \
        p = p * r + 8.3334519073e-3f;                                                                  \
        p = p * r + 4.1665795894e-2f;                                                                  \
        p = p * r + 1.6666665459e-1f;                                                                  \
        p = p * r + 5.0000001201e-1f;                                                                  \
        p = p * (r * r) + r + 1.0f;                                                                    \
        I half = n >> 1, rest = n - half;                                                              \
        return p * tn_from_bits_##S((half + 127) << 23) * tn_from_bits_##S((rest + 127) << 23);        \
    }                                                                                                  \
    TN_INLINE F tn_log_##S(F x)                                                                        \
    {                                                                                                  \
        const F zero = {0};                                                                            \
        F tiny = tn_sel_##S(x < 1.17549435e-38f, zero + 23.0f, zero);                                  \
        I bits = tn_bits_##S(tn_abs_##S(tn_sel_##S(x < 1.17549435e-38f, x * 8388608.0f, x))) - 0x3f3504f3; \
        F e = tn_from_bits_##S((bits >> 23) + 0x4b400000) - 12582912.0f - tiny;                        \
        F m = tn_from_bits_##S((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;                                 \
        F z = m * m;                                                                                   \
        F p = m * 7.0376836292e-2f - 1.1514610310e-1f;                                                 \
        p = p * m + 1.1676998740e-1f;                                                                  \
        p = p * m - 1.2420140846e-1f;                                                                  \
        p = p * m + 1.4249322787e-1f;                                                                  \
        p = p * m - 1.6668057665e-1f;                                                                  \
        p = p * m + 2.0000714765e-1f;                                                                  \
        p = p * m - 2.4999993993e-1f;                                                                  \
        p = p * m + 3.3333331174e-1f;                                                                  \
        p = p * m - 0.5f;                                                                              \
        F y = e * -2.12194440e-4f + m;                                                                 \
        y = p * z + y;                                                                                 \
        y = e * 0.693359375f + y;                                                                      \
        y = tn_sel_##S(x == 0.0f, zero - __builtin_inff(), y);                                         \
        y = tn_sel_##S(x < 0.0f, zero + __builtin_nanf(""), y);                                        \
        y = tn_sel_##S(x == __builtin_inff(), x, y);                                                   \
        return tn_sel_##S(x != x, x, y);                                                               \
    }                                                                                                  \
    TN_INLINE F tn_tanh_##S(F x)                                                                       \
    {                                                                                                  \
        F a = tn_abs_##S(x), z = a * a;                                                                \
        F p = z * -5.70498872745e-3f + 2.06390887954e-2f;                                              \
        p = p * z - 5.37397155531e-2f;                                                                 \
        p = p * z + 1.33314422036e-1f;                                                                 \
        p = p * z - 3.33332819422e-1f;                                                                 \
        p = p * z * a + a;                                                                             \
        F big = 1.0f - 2.0f / (tn_exp_##S(a + a) + 1.0f);                                              \
        return tn_sign_of_##S(tn_sel_##S(a < 0.625f, p, big), x);                                      \
    }                                                                                                  \
    TN_INLINE F tn_erf_##S(F x)                                                                        \
    {                                                                                                  \
        const F zero = {0};                                                                            \
        F a = tn_abs_##S(x);                                                                           \
        F t = tn_min_c_##S(zero + 4.0f, a), s = t * t;                                                 \
        F q = t * -1.72853470e-5f + 3.83197126e-4f;                                                    \
        F u = t * -3.88396438e-3f + 2.42546219e-2f;                                                    \
        q = q * s + u;                                                                                 \
        q = q * t - 1.06777877e-1f;                                                                    \
        q = q * t - 6.34846687e-1f;                                                                    \
        q = q * t - 1.28717512e-1f;                                                                    \
        q = q * t - t;                                                                                 \
        F big = 1.0f - tn_exp_##S(q);                                                                  \
        F p = s * -5.96761703e-4f + 4.99119423e-3f;                                                    \
        p = p * s - 2.67681349e-2f;                                                                    \
        p = p * s + 1.12819925e-1f;                                                                    \
        p = p * s - 3.76125336e-1f;                                                                    \
        p = p * s + 1.28379166e-1f;                                                                    \
        p = p * a + a;                                                                                 \
        return tn_sign_of_##S(tn_sel_##S(a < 0.927734375f, p, big), x);                                \
    }                                                                                                  \
    TN_INLINE F tn_sigmoid_##S(F x)                                                                    \
    {                                                                                                  \
        const F zero = {0};                                                                            \
        F e = tn_exp_##S(-tn_abs_##S(x));                                                              \
        return tn_sel_##S(x < 0.0f, e, zero + 1.0f) / (1.0f + e);                                      \
    }                                                                                                  \
    /* f16 and bf16 bits, in the low half of each integer, to floats and back (nearest, ties to even) */ \
    TN_INLINE F tn_widen_f16_##S(I h)                                                                  \
    {                                                                                                  \
        I magnitude = (h & 0x7fff) << 13;                                                              \
        F y = tn_from_bits_##S(magnitude) * 0x1p112f;                                                  \
        y = tn_sel_##S(magnitude >= 0x0f800000, tn_from_bits_##S(magnitude | 0x7f800000), y);          \
        return tn_from_bits_##S(tn_bits_##S(y) | (h & 0x8000) << 16);                                  \
    }                                                                                                  \
    TN_INLINE I tn_narrow_f16_##S(F x)                                                                 \
    {                                                                                                  \
        F a = tn_abs_##S(x);                                                                           \
        I bits = tn_bits_##S(a);                                                                       \
        I normal = (bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13;                             \
        I small = tn_bits_##S(a + 0.5f) - 0x3f000000;                                                  \
        I h = tn_isel_##S(a < 0x1p-14f, small, normal);                                                \
        h = tn_isel_##S(a >= 65520.0f, (bits & 0) + 0x7c00, h);                                        \
        h = tn_isel_##S(a != a, (bits & 0) + 0x7e00, h);                                               \
        return h | ((tn_bits_##S(x) >> 16) & 0x8000);                                                  \
    }                                                                                                  \
    TN_INLINE F tn_widen_bf16_##S(I h) { return tn_from_bits_##S(h << 16); }                           \
    TN_INLINE I tn_narrow_bf16_##S(F x)                                                                \
    {                                                                                                  \
        const F zero = {0};                                                                            \
        I bits = tn_bits_##S(tn_sel_##S(x != x, zero, x));                                             \
        I h = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;                                              \
        return tn_isel_##S(x != x, tn_bits_##S(x) >> 16 | 0x40, h) & 0xffff;                           \
    }                                                                                                  \
    TN_INLINE F tn_to_f16_##S(F x) { return tn_widen_f16_##S(tn_narrow_f16_##S(x)); }                  \
    TN_INLINE F tn_to_bf16_##S(F x) { return tn_widen_bf16_##S(tn_narrow_bf16_##S(x)); }

TN_INLINE int32_t tn_isel_f32(int c, int32_t x, int32_t y) { return c ? x : y; }
TN_MATH_F32(f32, float, int32_t)

#endif
