/* prelude_mcu: what kernels need beyond C99 on a microcontroller, in place of tenon_abi.h: their
 * arguments, and functions of f32 that are calls of a C library where the processor has no
 * instruction for them. Indices have 32 bits. */
#include <stdint.h>
#include <string.h>

#define TN_MCU 1
#define TN_INDEX int32_t
#define TN_UINDEX uint32_t

typedef struct TnFault {
    int32_t code, where, dim;
    int64_t got, want;
} TnFault;
typedef struct TnArgs {
    void *const *buf;
    TnFault *fault;
    int32_t kernel;
} TnArgs;
enum { TN_FAULT_NONE, TN_FAULT_INDEX = 3 };

#if !defined __GNUC__ || defined TN_PLAIN_C      /* what the code asks of GCC and Clang, in C99 */
#include <math.h>
#define __attribute__(list)
#define __builtin_expect(x, likely) (x)
#define __builtin_constant_p(x) 0
#define __builtin_ctzll(x) 0
#define __builtin_prefetch(...) (void)0
#define __builtin_unreachable() (void)0
#define __builtin_inff() ((float)HUGE_VAL)
#define __builtin_inf() HUGE_VAL
#define __builtin_nanf(text) (HUGE_VALF - HUGE_VALF)
#define __builtin_nan(text) (HUGE_VAL - HUGE_VAL)
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_sqrt sqrt
#define __builtin_floor floor
#define __builtin_ceil ceil
#define __builtin_trunc trunc
#define __builtin_rint rint
#endif

/* From 2^23 on all floats are whole. Below, adding 2^23 rounds to nearest, and a conversion
 * truncates. */
static inline float tn_with_sign(float x, float sign)
{
    uint32_t a, b;
    memcpy(&a, &x, 4);
    memcpy(&b, &sign, 4);
    a = (a & 0x7fffffffu) | (b & 0x80000000u);
    memcpy(&x, &a, 4);
    return x;
}
static inline int tn_has_fraction(float x) { return x > -8388608.0f && x < 8388608.0f; }
static inline float tn_mcu_rintf(float x)
{
    volatile float sum;
    if (!tn_has_fraction(x))
        return x;
    sum = tn_with_sign(x, 1.0f) + 8388608.0f;
    return tn_with_sign(sum - 8388608.0f, x);
}
static inline float tn_mcu_truncf(float x) { return tn_has_fraction(x) ? tn_with_sign((float)(int32_t)x, x) : x; }
static inline float tn_mcu_floorf(float x)
{
    float t = tn_mcu_truncf(x);
    return t > x ? t - 1.0f : t;
}
static inline float tn_mcu_ceilf(float x)
{
    float t = tn_mcu_truncf(x);
    return t < x ? tn_with_sign(t + 1.0f, x) : t;
}
/* Bit by bit: x = m * 4^e with m of 49 or 50 bits, whose root has one bit more than a float; it and
 * whether a rest is left round to nearest even. */
static inline float tn_mcu_sqrtf(float x)
{
    uint32_t bits, q;
    uint64_t m, root = 0, bit = (uint64_t)1 << 50;
    int32_t e;
    memcpy(&bits, &x, 4);
    if (bits << 1 == 0 || bits << 1 > 0xff000000u || bits == 0x7f800000u)
        return x;                /* zeros, NaN, infinity */
    if (bits >> 31)
        return (x - x) / (x - x);
    e = (int32_t)(bits >> 23) - 150;
    m = bits & 0x7fffff;
    if (bits >> 23)
        m |= 0x800000;
    else
        for (e = -149; m < 0x800000; m <<= 1)
            e--;
    if (e % 2 == 0) {
        m <<= 1;
        e--;
    }
    for (m <<= 25; bit; bit >>= 2) {
        if (m >= root + bit) {
            m -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    q = (uint32_t)(root >> 1);
    q += (root & 1) && (m || (q & 1));
    bits = ((uint32_t)((e - 25) / 2 + 151) << 23) + (q - 0x800000);
    memcpy(&x, &bits, 4);
    return x;
}
#if defined __ARM_FP && (__ARM_FP & 4) && defined __GNUC__ && !defined TN_PLAIN_C
static inline float tn_vsqrtf(float x)
{
    __asm__("vsqrt.f32 %0, %1" : "=t"(x) : "t"(x));
    return x;
}
#define __builtin_sqrtf tn_vsqrtf
#else
#define __builtin_sqrtf tn_mcu_sqrtf
#endif
#ifndef __ARM_FEATURE_DIRECTED_ROUNDING
#define __builtin_rintf tn_mcu_rintf
#define __builtin_truncf tn_mcu_truncf
#define __builtin_floorf tn_mcu_floorf
#define __builtin_ceilf tn_mcu_ceilf
#endif

