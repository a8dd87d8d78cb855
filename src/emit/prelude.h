/* prelude: the arithmetic of emitted kernels, of one lane, that never traps. prelude_sizes.h comes
 * before it in every source; prelude_math.h, the functions of f32, and prelude_lanes.h, the
 * vectors, follow.
 *
 * Masks are integer vectors, all ones where true, or an int for one lane. f16 and bf16 exist in
 * memory alone: in registers they are floats, rounded.
 */
#ifndef TN_PRELUDE_H
#define TN_PRELUDE_H

#pragma GCC diagnostic ignored "-Wtype-limits"    /* one macro serves signed and unsigned */
#pragma GCC diagnostic ignored "-Wpsabi"          /* vectors are passed between inlined functions alone */

/* GCC joins accumulators of unrolled loops into one variable before it gives them registers, and
 * then keeps some of twelve in memory while registers are free. What neighbouring points of a
 * window read in common it carries from trip to trip, in memory as well (predictive commoning): a
 * convolution of three channels takes twice the time. Sums of integers, which are free to be
 * regrouped, it regroups across unrolled trips, and puts off additions until their operands are in
 * memory as well: kernels of such sums are between TN_SUMS and TN_SUMS_END. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-tree-coalesce-vars", "no-predictive-commoning")
#define TN_SUMS _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-tree-reassoc\", \"no-tree-ter\")")
#define TN_SUMS_END _Pragma("GCC pop_options")
#else
#define TN_SUMS
#define TN_SUMS_END
#endif

/* In a kernel, floats below the smallest normal one are 0, read or made, and its caller's mode
 * comes back as it ends. */
#if defined __SSE2__
TN_INLINE unsigned tn_flush_denormals(void)
{
    unsigned was = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(was | 1u << 15 | 1u << 6);      /* FTZ and DAZ of MXCSR */
    return was;
}
TN_INLINE void tn_keep_denormals(const unsigned *was) { __builtin_ia32_ldmxcsr(*was); }
#define TN_FLUSH_DENORMALS const unsigned mode __attribute__((unused, cleanup(tn_keep_denormals))) = tn_flush_denormals();
#elif defined __aarch64__
TN_INLINE uint64_t tn_flush_denormals(void)
{
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    __asm__ volatile("msr fpcr, %0" : : "r"(was | 1u << 24));      /* FZ */
    return was;
}
TN_INLINE void tn_keep_denormals(const uint64_t *was) { __asm__ volatile("msr fpcr, %0" : : "r"(*was)); }
#define TN_FLUSH_DENORMALS const uint64_t mode __attribute__((unused, cleanup(tn_keep_denormals))) = tn_flush_denormals();
#else
#define TN_FLUSH_DENORMALS
#endif

#ifndef TN_KERNEL
#define TN_KERNEL void           /* `static void` in a single file */
#endif

/* A function of vectors that kernels call, since it is long. */
#define TN_CALL_OF(f, S)                                                                           \
    static __attribute__((noinline)) tn_##S tn_call_##f##_##S(tn_##S x) { return tn_##f##_##S(x); }

/* The line at p is soon read by this core. */
#define TN_AHEAD(p) __builtin_prefetch(p, 0, 3)
#define TN_FAR(p) __builtin_prefetch(p, 0, 2)    /* not so soon: the second cache gets it */

typedef uint16_t tn_f16;         /* the bits */
typedef uint16_t tn_bf16;
typedef uint8_t tn_f8;           /* and of floats of 8 bits and fewer */

/* ---- arithmetic of integers: wraps, never traps ---------------------------------------------- */

/* Integer division truncates; by zero it gives 0, and -1 divides without a trap. Unsigned:
 * plain. */
#define TN_INT_DIVISION(T, U, name)                                                                \
    TN_INLINE T tn_quot_##name(T x, T y) { return y == 0 ? 0 : y == (T)-1 && (T)-1 < 0 ? (T)(0 - (U)x) : (T)(x / y); } \
    TN_INLINE T tn_rem_##name(T x, T y) { return y == 0 || (y == (T)-1 && (T)-1 < 0) ? 0 : (T)(x % y); } \
    TN_INLINE T tn_mod_##name(T x, T y)                                                            \
    {                                                                                              \
        T r = tn_rem_##name(x, y);                                                                 \
        return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;                                      \
    }                                                                                              \
    TN_INLINE T tn_pow_##name(T x, T y)       /* wraps; a negative power gives what truncating would */ \
    {                                                                                              \
        if (y < 0)                                                                                 \
            return x == 1 ? 1 : x == (T)-1 ? (y & 1 ? x : 1) : 0;                                  \
        U r = 1, b = (U)x;                                                                         \
        for (U p = (U)y; p; p >>= 1, b *= b)                                                       \
            if (p & 1)                                                                             \
                r *= b;                                                                            \
        return (T)r;                                                                               \
    }
#define TN_INTS(X)                                                                                 \
    X(int8_t, uint32_t, i8) X(int16_t, uint32_t, i16) X(int32_t, uint32_t, i32) X(int64_t, uint64_t, i64) \
    X(uint8_t, uint32_t, u8) X(uint16_t, uint32_t, u16) X(uint32_t, uint32_t, u32) X(uint64_t, uint64_t, u64)
TN_INTS(TN_INT_DIVISION)

/* ---- one lane -------------------------------------------------------------------------------- */

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
#define TN_ONE_LANE_LIBM(name)                                                                     \
    TN_INLINE float tn_##name##_f32(float x) { return __builtin_##name##f(x); }                    \
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
TN_INLINE double tn_softplus_f64(double x) { return (x < 0 ? 0.0 : x) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x))); }
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

/* Two products of 16 bits, summed. */
TN_INLINE int32_t tn_dot2_i32(int32_t x, int32_t y)
{
    return (int32_t)((uint32_t)((int16_t)x * (int16_t)y) + (uint32_t)((int16_t)(x >> 16) * (int16_t)(y >> 16)));
}
/* Four products of 8 bits, of x unsigned, summed. */
TN_INLINE int32_t tn_dot4_i32(int32_t x, int32_t y)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (uint8_t)(x >> i) * (int8_t)(y >> i);
    return sum;
}
/* The same of two signed sides. */
TN_INLINE int32_t tn_dot4s_i32(int32_t x, int32_t y)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (int8_t)(x >> i) * (int8_t)(y >> i);
    return sum;
}

/* Two products of bf16, each of them a float; and a pair of such numbers. */
TN_INLINE float tn_upper_f32(int32_t x)
{
    float f;
    x &= (int32_t)0xffff0000;
    memcpy(&f, &x, sizeof f);
    return f;
}
TN_INLINE float tn_dot2f_f32(int32_t x, int32_t y)
{
    return tn_upper_f32((int32_t)((uint32_t)x << 16)) * tn_upper_f32((int32_t)((uint32_t)y << 16)) + tn_upper_f32(x) * tn_upper_f32(y);
}
TN_INLINE int32_t tn_pair_f32(float x, float y)
{
    uint32_t low, high;
    memcpy(&low, &x, sizeof low);
    memcpy(&high, &y, sizeof high);
    return (int32_t)(low >> 16 | (high & 0xffff0000u));
}

/* Minimum and maximum. Floats give NaN when either side is one: `a > b ? a : b` gives b when b
 * is, the second choice sees to a. The _c form is for a that is known to be a number. */
#define TN_MINMAX_C(S, F)                                                                          \
    TN_INLINE F tn_max_c_##S(F a, F b) { return tn_sel_##S(a > b, a, b); }                         \
    TN_INLINE F tn_min_c_##S(F a, F b) { return tn_sel_##S(a < b, a, b); }
#define TN_MINMAX_NAN(S, F)                                                                        \
    TN_INLINE F tn_max_##S(F a, F b) { return tn_sel_##S(a != a, a, tn_max_c_##S(a, b)); }         \
    TN_INLINE F tn_min_##S(F a, F b) { return tn_sel_##S(a != a, a, tn_min_c_##S(a, b)); }
#define TN_SIGN(S, F)                                                                              \
    TN_INLINE F tn_sign_##S(F a)                                                                   \
    {                                                                                              \
        const F zero = {0};                                                                        \
        return tn_sel_##S(a > 0, zero + 1, tn_sel_##S(a < 0, zero - 1, a + zero));      /* of -0.0 it is 0.0 */ \
    }
TN_MINMAX_C(f32, float)
TN_MINMAX_C(f64, double)
TN_MINMAX_NAN(f32, float)
TN_MINMAX_NAN(f64, double)
TN_SIGN(f32, float)
TN_SIGN(f64, double)
#define TN_MINMAX_I(T, U, name)                                                                    \
    TN_INLINE T tn_max_##name(T a, T b) { return a > b ? a : b; }                                  \
    TN_INLINE T tn_min_##name(T a, T b) { return a < b ? a : b; }                                  \
    TN_INLINE T tn_sel_##name(int c, T a, T b) { return c ? a : b; }                               \
    TN_INLINE T tn_abs_##name(T a) { return a < 0 ? (T)(0 - (U)a) : a; }                           \
    TN_INLINE T tn_sign_##name(T a) { return (T)((a > 0) - (a < 0)); }                             \
    TN_INLINE T tn_shl_##name(T a, T b) { return (uint64_t)b >= 8 * sizeof(T) ? 0 : (T)((U)a << b); } \
    TN_INLINE T tn_shr_##name(T a, T b) { return (uint64_t)b >= 8 * sizeof(T) ? 0 : (T)(a >> b); }
TN_INTS(TN_MINMAX_I)

/* Float to integer truncates and saturates; NaN gives 0. LO and END are exact as floats: the
 * smallest value, and one beyond the largest. */
#define TN_TRUNCATE(T, name, F, from, LO, END, MAX)                                                \
    TN_INLINE T tn_##name##_from_##from(F x) { return x >= (F)(END) ? (T)MAX : x >= (F)(LO) ? (T)x : x != x ? 0 : (T)(LO); }
#define TN_TRUNCATIONS(X, F, from)                                                                 \
    X(int8_t, i8, F, from, -128.0f, 128.0f, INT8_MAX)                                              \
    X(int16_t, i16, F, from, -32768.0f, 32768.0f, INT16_MAX)                                       \
    X(uint8_t, u8, F, from, 0.0f, 256.0f, UINT8_MAX)                                               \
    X(uint16_t, u16, F, from, 0.0f, 65536.0f, UINT16_MAX)                                          \
    TN_TRUNCATIONS_LONG(X, F, from)
#define TN_TRUNCATIONS_LONG(X, F, from)                                                            \
    X(int32_t, i32, F, from, -2147483648.0f, 2147483648.0f, INT32_MAX)                             \
    X(int64_t, i64, F, from, -9223372036854775808.0f, 9223372036854775808.0f, INT64_MAX)           \
    X(uint32_t, u32, F, from, 0.0f, 4294967296.0f, UINT32_MAX)                                     \
    X(uint64_t, u64, F, from, 0.0f, 18446744073709551616.0f, UINT64_MAX)
TN_TRUNCATIONS(TN_TRUNCATE, float, f32)
TN_TRUNCATIONS(TN_TRUNCATE, double, f64)

#endif
