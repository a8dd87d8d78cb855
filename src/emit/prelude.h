/* prelude: what emitted kernels need beyond C: vectors, vector math, checked sizes.
 *
 * A vector type is tn_<element>x<lanes>, of GCC's and Clang's vector extensions; the same text
 * serves AVX2, AVX-512, NEON and WebAssembly. The types and functions of one lane count appear
 * with TN_VECTORS(lanes), which a kernel asks for; those of one lane are always there.
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
    a->fault->where = -1;
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
TN_COLD int tn_stop(TnFault *f, int32_t kernel)      /* a kernel recorded a fault */
{
    if (f->where < 0)
        f->where = kernel;
    return f->code;
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

/* ---- N lanes -------------------------------------------------------------------------------------- */

/* Lists of N items: TN_EACH4(X, a) is X(0, a), X(1, a), X(2, a), X(3, a). */
#define TN_EACH2(X, a) X(0, a), X(1, a)
#define TN_EACH4(X, a) TN_EACH2(X, a), X(2, a), X(3, a)
#define TN_EACH8(X, a) TN_EACH4(X, a), X(4, a), X(5, a), X(6, a), X(7, a)
#define TN_EACH16(X, a) TN_EACH8(X, a), X(8, a), X(9, a), X(10, a), X(11, a), X(12, a), X(13, a), X(14, a), X(15, a)
#define TN_EACH32(X, a) TN_EACH16(X, a), X(16, a), X(17, a), X(18, a), X(19, a), X(20, a), X(21, a), X(22, a), X(23, a), \
    X(24, a), X(25, a), X(26, a), X(27, a), X(28, a), X(29, a), X(30, a), X(31, a)
#define TN_EACH64(X, a) TN_EACH32(X, a), X(32, a), X(33, a), X(34, a), X(35, a), X(36, a), X(37, a), X(38, a), X(39, a), \
    X(40, a), X(41, a), X(42, a), X(43, a), X(44, a), X(45, a), X(46, a), X(47, a), X(48, a), X(49, a), X(50, a),       \
    X(51, a), X(52, a), X(53, a), X(54, a), X(55, a), X(56, a), X(57, a), X(58, a), X(59, a), X(60, a), X(61, a),       \
    X(62, a), X(63, a)
#define TN_SAME(l, x) x
#define TN_LANE(l, x) l
#define TN_APART(l, stride) p[(l) * stride]
#define TN_PUT_APART(l, stride) p[(l) * stride] = v[l]
#define TN_SECOND(l, N) ((l) < (N) / 2 ? 2 * (l) : 2 * (l) + 1)
#define TN_SQRT_LANE(l, x) __builtin_sqrtf(x[l])
#define TN_SQRT_LANE_F64(l, x) __builtin_sqrt(x[l])
#define TN_TURN_2(l, h) (((l) + (h)) & 1)
#define TN_TURN_4(l, h) (((l) + (h)) & 3)
#define TN_TURN_8(l, h) (((l) + (h)) & 7)
#define TN_TURN_16(l, h) (((l) + (h)) & 15)
#define TN_TURN_32(l, h) (((l) + (h)) & 31)
#define TN_TURN_64(l, h) (((l) + (h)) & 63)

/* All lanes combined in a fixed tree: halves first, so lane l meets lane l + N/2. */
#define TN_FOLD(N, v, OP)                                                                              \
    do {                                                                                               \
        if (N > 32) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_TURN_##N, 32)));             \
        if (N > 16) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_TURN_##N, 16)));             \
        if (N > 8) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_TURN_##N, 8)));               \
        if (N > 4) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_TURN_##N, 4)));               \
        if (N > 2) v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_TURN_##N, 2)));               \
        v = OP(v, __builtin_shufflevector(v, v, TN_EACH##N(TN_TURN_##N, 1)));                          \
    } while (0)
#define TN_ADD(x, y) ((x) + (y))
#define TN_MUL(x, y) ((x) * (y))

/* Part of a vector through the processor's masks: what lies beyond the first n elements of `size`
 * bytes is neither read nor written. TN_MASKS tells which vectors have it. The builtins are called
 * by name since the compilers' headers of intrinsics cost more time than most kernels. */
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_loaddqusi512_mask) && __has_builtin(__builtin_ia32_storedqusi512_mask)
#define TN_MASKS(size, bytes) ((bytes) <= 64)
#define TN_PART(name, T, size, width)                                                                  \
    typedef T tn_part_##name##width __attribute__((vector_size(width / 8)));                           \
    TN_INLINE void tn_part_load_##name##width(void *v, const void *p, uint64_t mask)                   \
    {                                                                                                  \
        tn_part_##name##width x = {0};                                                                 \
        x = __builtin_ia32_loaddqu##name##width##_mask(p, x, mask);                                    \
        memcpy(v, &x, sizeof x);                                                                       \
    }                                                                                                  \
    TN_INLINE void tn_part_store_##name##width(void *p, const void *v, uint64_t mask)                  \
    {                                                                                                  \
        tn_part_##name##width x;                                                                       \
        memcpy(&x, v, sizeof x);                                                                       \
        __builtin_ia32_storedqu##name##width##_mask(p, x, mask);                                       \
    }
#define TN_PARTS(width) TN_PART(qi, char, 1, width) TN_PART(hi, short, 2, width) TN_PART(si, int, 4, width) \
    TN_PART(di, long long, 8, width)
TN_PARTS(128) TN_PARTS(256) TN_PARTS(512)
#define TN_PART_CASE(what, name, to, from, mask)                                                       \
    (bytes <= 16 ? tn_part_##what##_##name##128(to, from, mask) :                                      \
     bytes <= 32 ? tn_part_##what##_##name##256(to, from, mask) : tn_part_##what##_##name##512(to, from, mask))
#define TN_PART_MOVE(what, to, from)                                                                   \
    const int64_t m = n < 0 ? 0 : n, lanes = (int64_t)(bytes / size);                                  \
    const uint64_t mask = m >= lanes ? UINT64_MAX >> (64 - lanes) : (UINT64_C(1) << m) - 1;            \
    size == 1 ? TN_PART_CASE(what, qi, to, from, mask) : size == 2 ? TN_PART_CASE(what, hi, to, from, mask) : \
    size == 4 ? TN_PART_CASE(what, si, to, from, mask) : TN_PART_CASE(what, di, to, from, mask)
#endif
#elif defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_maskloadd256) && __has_builtin(__builtin_ia32_maskstored256)
#define TN_MASKS(size, bytes) ((size) >= 4 && (bytes) <= 32)
#define TN_PART(name, suffix, T, lanes)                                                                \
    typedef T tn_part_##name __attribute__((vector_size(lanes * sizeof(T))));                          \
    TN_INLINE void tn_part_load_##name(void *v, const void *p, tn_part_##name mask)                    \
    {                                                                                                  \
        tn_part_##name x = __builtin_ia32_maskload##suffix(p, mask);                                   \
        memcpy(v, &x, sizeof x);                                                                       \
    }                                                                                                  \
    TN_INLINE void tn_part_store_##name(void *p, const void *v, tn_part_##name mask)                   \
    {                                                                                                  \
        tn_part_##name x;                                                                              \
        memcpy(&x, v, sizeof x);                                                                       \
        __builtin_ia32_maskstore##suffix(p, mask, x);                                                  \
    }
TN_PART(d, d, int, 4) TN_PART(d256, d256, int, 8) TN_PART(q, q, long long, 2) TN_PART(q256, q256, long long, 4)
#define TN_PART_MOVE(what, to, from)                                                                   \
    const int64_t lanes = (int64_t)(bytes / size), m = n < 0 ? 0 : n > lanes ? lanes : n;              \
    const int k = (int)m;                                                                              \
    size == 4 ? bytes <= 16 ? tn_part_##what##_d(to, from, (tn_part_d){0, 1, 2, 3} < k) :              \
                tn_part_##what##_d256(to, from, (tn_part_d256){0, 1, 2, 3, 4, 5, 6, 7} < k) :          \
    bytes <= 16 ? tn_part_##what##_q(to, from, (tn_part_q){0, 1} < m) :                                \
                tn_part_##what##_q256(to, from, (tn_part_q256){0, 1, 2, 3} < m)
#endif
#endif
#ifdef TN_MASKS
/* v has room for 16 bytes at least */
TN_INLINE void tn_part_load(void *v, const void *p, int64_t n, size_t size, size_t bytes) { TN_PART_MOVE(load, v, p); }
TN_INLINE void tn_part_store(void *p, const void *v, int64_t n, size_t size, size_t bytes) { TN_PART_MOVE(store, p, v); }
#else
#define TN_MASKS(size, bytes) 0
TN_INLINE void tn_part_load(void *v, const void *p, int64_t n, size_t size, size_t bytes) { (void)v, (void)p, (void)n, (void)size, (void)bytes; }
TN_INLINE void tn_part_store(void *p, const void *v, int64_t n, size_t size, size_t bytes) { (void)v, (void)p, (void)n, (void)size, (void)bytes; }
#endif

/* What every element type has: e names it, T is the C type, M the mask's element, W the work
 * type of wrapping arithmetic. The first n lanes: others are not touched, and read as zero. */
#define TN_VECTOR(N, e, T, M)                                                                          \
    TN_INLINE tn_##e##x##N tn_load_##e##x##N(const T *p)                                               \
    {                                                                                                  \
        tn_##e##x##N v;                                                                                \
        memcpy(&v, p, sizeof v);                                                                       \
        return v;                                                                                      \
    }                                                                                                  \
    TN_INLINE void tn_store_##e##x##N(T *p, tn_##e##x##N v) { memcpy(p, &v, sizeof v); }               \
    TN_INLINE tn_##e##x##N tn_load_first_##e##x##N(const T *p, int64_t n)                              \
    {                                                                                                  \
        if (TN_MASKS(sizeof(T), sizeof(tn_##e##x##N)) && !(__builtin_constant_p(n) && n >= N)) {       \
            struct { tn_##e##x##N v; char room[sizeof(T) * N < 16 ? 16 : 1]; } u;                      \
            tn_part_load(&u, p, n, sizeof(T), sizeof u.v);                                             \
            return u.v;                                                                                \
        }                                                                                              \
        if (n >= N)                                                                                    \
            return tn_load_##e##x##N(p);                                                               \
        T part[N] = {0};                                                                               \
        for (int l = 0; l < n; l++)                                                                    \
            part[l] = p[l];                                                                            \
        return tn_load_##e##x##N(part);                                                                \
    }                                                                                                  \
    TN_INLINE void tn_store_first_##e##x##N(T *p, tn_##e##x##N v, int64_t n)                           \
    {                                                                                                  \
        if (TN_MASKS(sizeof(T), sizeof v) && !(__builtin_constant_p(n) && n >= N)) {                   \
            struct { tn_##e##x##N v; char room[sizeof(T) * N < 16 ? 16 : 1]; } u;                      \
            u.v = v;                                                                                   \
            tn_part_store(p, &u, n, sizeof(T), sizeof u.v);                                            \
            return;                                                                                    \
        }                                                                                              \
        if (n >= N) {                                                                                  \
            tn_store_##e##x##N(p, v);                                                                  \
            return;                                                                                    \
        }                                                                                              \
        T part[N];                                                                                     \
        tn_store_##e##x##N(part, v);                                                                   \
        for (int l = 0; l < n; l++)                                                                    \
            p[l] = part[l];                                                                            \
    }                                                                                                  \
    /* Every second element: two vectors that overlap in one element hold the 2n - 1 from first to last. */ \
    TN_INLINE tn_##e##x##N tn_load_second_##e##x##N(const T *p, int64_t n)                             \
    {                                                                                                  \
        tn_##e##x##N x = tn_load_first_##e##x##N(p, 2 * n - 1), y = tn_load_first_##e##x##N(p + (N - 1), 2 * n - N); \
        return __builtin_shufflevector(x, y, TN_EACH##N(TN_SECOND, N));                                \
    }                                                                                                  \
    /* Single loads and stores beat the processors' gathers and scatters. */                           \
    TN_INLINE tn_##e##x##N tn_load_apart_##e##x##N(const T *p, int64_t stride, int64_t n)              \
    {                                                                                                  \
        if (__builtin_constant_p(stride) && stride == 2 && (TN_MASKS(sizeof(T), sizeof(T) * N) ||      \
                                                            (__builtin_constant_p(n) && n >= N)))      \
            return tn_load_second_##e##x##N(p, n < N ? n : N);                                         \
        if (n >= N)                                                                                    \
            return (tn_##e##x##N){TN_EACH##N(TN_APART, stride)};                                       \
        T part[N] = {0};                                                                               \
        for (int l = 0; l < n && l < N; l++)                                                           \
            part[l] = p[l * stride];                                                                   \
        return tn_load_##e##x##N(part);                                                                \
    }                                                                                                  \
    TN_INLINE void tn_store_apart_##e##x##N(T *p, tn_##e##x##N v, int64_t stride, int64_t n)           \
    {                                                                                                  \
        if (n >= N) {                                                                                  \
            (void)(TN_EACH##N(TN_PUT_APART, stride));                                                  \
            return;                                                                                    \
        }                                                                                              \
        T part[N];                                                                                     \
        tn_store_##e##x##N(part, v);                                                                   \
        for (int l = 0; l < n && l < N; l++)                                                           \
            p[l * stride] = part[l];                                                                   \
    }                                                                                                  \
    TN_INLINE tn_##e##x##N tn_load_if_##e##x##N(const T *p, int64_t stride, int64_t n, tn_##M##x##N mask) \
    {                                                                                                  \
        T part[N] = {0};                                                                               \
        for (int l = 0; l < N; l++)                                                                    \
            if (l < n && mask[l])                                                                      \
                part[l] = p[l * stride];                                                               \
        return tn_load_##e##x##N(part);                                                                \
    }                                                                                                  \
    TN_INLINE tn_##e##x##N tn_splat_##e##x##N(T x) { return (tn_##e##x##N){TN_EACH##N(TN_SAME, x)}; }  \
    TN_INLINE tn_##e##x##N tn_iota_##e##x##N(void) { return (tn_##e##x##N){TN_EACH##N(TN_LANE, 0)}; }  \
    TN_INLINE tn_##e##x##N tn_sel_##e##x##N(tn_##M##x##N c, tn_##e##x##N x, tn_##e##x##N y)            \
    {                                                                                                  \
        return (tn_##e##x##N)(((tn_##M##x##N)x & c) | ((tn_##M##x##N)y & ~c));                         \
    }

/* The fixed-tree reductions; need min and max. */
#define TN_FOLDS(N, e, T)                                                                              \
    TN_INLINE T tn_hsum_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, TN_ADD); return v[0]; }              \
    TN_INLINE T tn_hprod_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, TN_MUL); return v[0]; }             \
    TN_INLINE T tn_hmax_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, tn_max_##e##x##N); return v[0]; }    \
    TN_INLINE T tn_hmin_##e##x##N(tn_##e##x##N v) { TN_FOLD(N, v, tn_min_##e##x##N); return v[0]; }

/* A function of one or two vectors, lane by lane. */
#define TN_LANES_1(N, f, e)                                                                            \
    TN_INLINE tn_##e##x##N tn_##f##_##e##x##N(tn_##e##x##N x)                                          \
    {                                                                                                  \
        tn_##e##x##N r = x;                                                                            \
        for (int l = 0; l < N; l++)                                                                    \
            r[l] = tn_##f##_##e(x[l]);                                                                 \
        return r;                                                                                      \
    }
#define TN_LANES_2(N, f, e)                                                                            \
    TN_INLINE tn_##e##x##N tn_##f##_##e##x##N(tn_##e##x##N x, tn_##e##x##N y)                          \
    {                                                                                                  \
        tn_##e##x##N r = x;                                                                            \
        for (int l = 0; l < N; l++)                                                                    \
            r[l] = tn_##f##_##e(x[l], y[l]);                                                           \
        return r;                                                                                      \
    }
#define TN_VECTOR_INT(N, e, T, M)                                                                      \
    TN_VECTOR(N, e, T, M)                                                                              \
    TN_INLINE tn_##e##x##N tn_max_##e##x##N(tn_##e##x##N x, tn_##e##x##N y) { return tn_sel_##e##x##N(x > y, x, y); } \
    TN_INLINE tn_##e##x##N tn_min_##e##x##N(tn_##e##x##N x, tn_##e##x##N y) { return tn_sel_##e##x##N(x < y, x, y); } \
    TN_LANES_1(N, abs, e) TN_LANES_1(N, sign, e) TN_LANES_2(N, pow, e)                                 \
    TN_LANES_2(N, quot, e) TN_LANES_2(N, rem, e) TN_LANES_2(N, mod, e) TN_LANES_2(N, shl, e) TN_LANES_2(N, shr, e) \
    TN_FOLDS(N, e, T)
/* Masks: is any lane set; the first n lanes. */
#define TN_MASK(N, e, T)                                                                               \
    TN_INLINE int tn_any_##e##x##N(tn_##e##x##N m) { return tn_hmin_##e##x##N(m) != 0; }               \
    TN_INLINE tn_##e##x##N tn_first_##e##x##N(int64_t n)                                               \
    {                                                                                                  \
        return tn_iota_##e##x##N() < tn_splat_##e##x##N((T)tn_max(tn_min(n, N), 0));                   \
    }
#define TN_VECTOR_LIBM(N, e)                                                                           \
    TN_LANES_1(N, sin, e) TN_LANES_1(N, cos, e) TN_LANES_1(N, tan, e) TN_LANES_1(N, asin, e)           \
    TN_LANES_1(N, acos, e) TN_LANES_1(N, atan, e) TN_LANES_1(N, sinh, e) TN_LANES_1(N, cosh, e)        \
    TN_LANES_1(N, asinh, e) TN_LANES_1(N, acosh, e) TN_LANES_1(N, atanh, e)                            \
    TN_LANES_2(N, pow, e) TN_LANES_2(N, atan2, e) TN_LANES_2(N, rem, e) TN_LANES_2(N, mod, e)

/* Square roots, roundings, minima: one instruction each, but the two compilers find it differently. */
#ifdef __clang__
#define TN_VECTOR_ROUND(N, e, T, SQRT)                                                                 \
    TN_INLINE tn_##e##x##N tn_sqrt_##e##x##N(tn_##e##x##N x) { return (tn_##e##x##N){TN_EACH##N(SQRT, x)}; } \
    TN_INLINE tn_##e##x##N tn_floor_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_floor(x); } \
    TN_INLINE tn_##e##x##N tn_ceil_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_ceil(x); } \
    TN_INLINE tn_##e##x##N tn_trunc_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_trunc(x); } \
    TN_INLINE tn_##e##x##N tn_round_##e##x##N(tn_##e##x##N x) { return __builtin_elementwise_roundeven(x); } \
    TN_MINMAX_C(e##x##N, tn_##e##x##N)
#else
/* GCC turns `0 > x ? 0 : x` into a comparison and a blend; the processor's maximum is just that. */
#if defined(__AVX512F__) && __has_builtin(__builtin_ia32_maxps512_mask)
#define TN_HAS_MINMAX(bytes) ((bytes) == 64 || (bytes) == 32 || (bytes) == 16)
#define TN_MINMAX_64(name, a, b) __builtin_ia32_##name##ps512_mask(a, b, a, -1, 4)
#elif defined(__AVX__) && __has_builtin(__builtin_ia32_maxps256)
#define TN_HAS_MINMAX(bytes) ((bytes) == 32 || (bytes) == 16)
#define TN_MINMAX_64(name, a, b) a
#endif
#ifdef TN_HAS_MINMAX
typedef float tn_minmax_16 __attribute__((vector_size(16)));
typedef float tn_minmax_32 __attribute__((vector_size(32)));
typedef float tn_minmax_64 __attribute__((vector_size(64)));
#define TN_NATIVE_MINMAX(name)                                                                         \
    TN_INLINE void tn_native_##name(void *r, const void *a, const void *b, size_t bytes)               \
    {                                                                                                  \
        tn_minmax_64 x64 = {0}, y64 = {0};                                                             \
        tn_minmax_32 x32 = {0}, y32 = {0};                                                             \
        tn_minmax_16 x16 = {0}, y16 = {0};                                                             \
        if (bytes == 64) {                                                                             \
            memcpy(&x64, a, 64), memcpy(&y64, b, 64);                                                  \
            x64 = TN_MINMAX_64(name, x64, y64);                                                        \
            memcpy(r, &x64, 64);                                                                       \
        } else if (bytes == 32) {                                                                      \
            memcpy(&x32, a, 32), memcpy(&y32, b, 32);                                                  \
            x32 = __builtin_ia32_##name##ps256(x32, y32);                                              \
            memcpy(r, &x32, 32);                                                                       \
        } else {                                                                                       \
            memcpy(&x16, a, 16), memcpy(&y16, b, 16);                                                  \
            x16 = __builtin_ia32_##name##ps(x16, y16);                                                 \
            memcpy(r, &x16, 16);                                                                       \
        }                                                                                              \
    }
TN_NATIVE_MINMAX(max) TN_NATIVE_MINMAX(min)
#else
#define TN_HAS_MINMAX(bytes) 0
TN_INLINE void tn_native_max(void *r, const void *a, const void *b, size_t bytes) { (void)r, (void)a, (void)b, (void)bytes; }
TN_INLINE void tn_native_min(void *r, const void *a, const void *b, size_t bytes) { (void)r, (void)a, (void)b, (void)bytes; }
#endif
#define TN_LANES_MINMAX(N, name, e, T)                                                                 \
    TN_INLINE tn_##e##x##N tn_##name##_c_##e##x##N(tn_##e##x##N x, tn_##e##x##N y)                     \
    {                                                                                                  \
        tn_##e##x##N r = x;                                                                            \
        if (sizeof(T) == 4 && TN_HAS_MINMAX(sizeof x)) {                                               \
            tn_native_##name(&r, &x, &y, sizeof x);                                                    \
            return r;                                                                                  \
        }                                                                                              \
        for (int l = 0; l < N; l++)                                                                    \
            r[l] = tn_##name##_c_##e(x[l], y[l]);                                                      \
        return r;                                                                                      \
    }
#define TN_VECTOR_ROUND(N, e, T, SQRT)                                                                 \
    TN_LANES_1(N, sqrt, e) TN_LANES_1(N, floor, e) TN_LANES_1(N, ceil, e) TN_LANES_1(N, trunc, e) TN_LANES_1(N, round, e) \
    TN_LANES_MINMAX(N, max, e, T) TN_LANES_MINMAX(N, min, e, T)
#endif

/* Float to integer over N lanes, as TN_TRUNCATE: cut to the range first, then convert. */
#define TN_TRUNCATE_LANES(T, name, FN, from, LO, END, MAX) TN_TRUNCATE_N(T, name, FN, from, LO, END, MAX)
#define TN_TRUNCATE_N(T, name, N, from, LO, END, MAX)                                                  \
    TN_INLINE tn_##name##x##N tn_##name##x##N##_from_##from##x##N(tn_##from##x##N x)                   \
    {                                                                                                  \
        const tn_##from##x##N zero = {0};                                                              \
        tn_##from##x##N c = tn_sel_##from##x##N(x >= END, zero, tn_sel_##from##x##N(x < LO, zero + LO, x)); \
        c = tn_sel_##from##x##N(x != x, zero, c);                                                      \
        tn_##name##x##N over = __builtin_convertvector(x >= END, tn_##name##x##N);                     \
        return (__builtin_convertvector(c, tn_##name##x##N) & ~over) | ((T)MAX & over);                \
    }

#define TN_VECTORS(N)                                                                                  \
    typedef float tn_f32x##N __attribute__((vector_size(4 * N)));                                      \
    typedef double tn_f64x##N __attribute__((vector_size(8 * N)));                                     \
    typedef int8_t tn_i8x##N __attribute__((vector_size(N)));                                          \
    typedef int16_t tn_i16x##N __attribute__((vector_size(2 * N)));                                    \
    typedef int32_t tn_i32x##N __attribute__((vector_size(4 * N)));                                    \
    typedef int64_t tn_i64x##N __attribute__((vector_size(8 * N)));                                    \
    typedef uint8_t tn_u8x##N __attribute__((vector_size(N)));                                         \
    typedef uint16_t tn_u16x##N __attribute__((vector_size(2 * N)));                                   \
    typedef uint32_t tn_u32x##N __attribute__((vector_size(4 * N)));                                   \
    typedef uint64_t tn_u64x##N __attribute__((vector_size(8 * N)));                                   \
    TN_VECTOR(N, f32, float, i32)                                                                      \
    TN_VECTOR(N, f64, double, i64)                                                                     \
    TN_VECTOR_INT(N, i8, int8_t, i8)                                                                   \
    TN_VECTOR_INT(N, i16, int16_t, i16)                                                                \
    TN_VECTOR_INT(N, i32, int32_t, i32)                                                                \
    TN_VECTOR_INT(N, i64, int64_t, i64)                                                                \
    TN_VECTOR_INT(N, u8, uint8_t, i8)                                                                  \
    TN_VECTOR_INT(N, u16, uint16_t, i16)                                                               \
    TN_VECTOR_INT(N, u32, uint32_t, i32)                                                               \
    TN_VECTOR_INT(N, u64, uint64_t, i64)                                                               \
    TN_MASK(N, i8, int8_t) TN_MASK(N, i16, int16_t) TN_MASK(N, i32, int32_t) TN_MASK(N, i64, int64_t)  \
    TN_INLINE tn_i32x##N tn_bits_f32x##N(tn_f32x##N x) { return (tn_i32x##N)x; }                       \
    TN_INLINE tn_f32x##N tn_from_bits_f32x##N(tn_i32x##N x) { return (tn_f32x##N)x; }                  \
    TN_INLINE tn_i32x##N tn_isel_f32x##N(tn_i32x##N c, tn_i32x##N x, tn_i32x##N y) { return (x & c) | (y & ~c); } \
    TN_INLINE tn_f32x##N tn_abs_f32x##N(tn_f32x##N x) { return (tn_f32x##N)((tn_i32x##N)x & INT32_MAX); } \
    TN_INLINE tn_f64x##N tn_abs_f64x##N(tn_f64x##N x) { return (tn_f64x##N)((tn_i64x##N)x & INT64_MAX); } \
    TN_VECTOR_ROUND(N, f32, float, TN_SQRT_LANE)                                                       \
    TN_VECTOR_ROUND(N, f64, double, TN_SQRT_LANE_F64)                                                  \
    TN_MINMAX(f32x##N, tn_f32x##N)                                                                   \
    TN_MINMAX(f64x##N, tn_f64x##N)                                                                   \
    TN_FOLDS(N, f32, float)                                                                            \
    TN_FOLDS(N, f64, double)                                                                           \
    TN_MATH_F32(f32x##N, tn_f32x##N, tn_i32x##N)                                                       \
    TN_VECTOR_LIBM(N, f32)                                                                             \
    TN_VECTOR_LIBM(N, f64)                                                                             \
    TN_LANES_1(N, exp, f64) TN_LANES_1(N, log, f64) TN_LANES_1(N, tanh, f64) TN_LANES_1(N, erf, f64)   \
    TN_LANES_1(N, sigmoid, f64)                                                                        \
    TN_TRUNCATIONS(TN_TRUNCATE_LANES, N, f32)                                                          \
    TN_TRUNCATIONS(TN_TRUNCATE_LANES, N, f64)

#endif
