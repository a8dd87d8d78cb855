/* prelude_sizes: the integers of emitted C: sizes and indices. What kernels and the host program
 * share. */
#ifndef TN_PRELUDE_SIZES_H
#define TN_PRELUDE_SIZES_H
#include <stdint.h>
#include <string.h>

#define TN_INLINE static inline __attribute__((always_inline, unused))
#define TN_COLD static __attribute__((noinline, cold, unused))
#if defined __GNUC__ && !defined TN_PLAIN_C
#define TN_HIDE(p) __asm__("" : "+r"(p))
#else
#define TN_HIDE(p) (void)(p)
#endif

#ifndef TN_INDEX                 /* a microcontroller has 32 bits */
#define TN_INDEX int64_t
#define TN_UINDEX uint64_t
#endif
TN_INLINE TN_INDEX tn_div(TN_INDEX a, TN_INDEX b)    /* floor(a / b); 0 when b is 0 */
{
    if (__builtin_constant_p(b) && b > 0 && (b & (b - 1)) == 0)
        return a >> __builtin_ctzll((unsigned long long)b);
    if (b == 0)
        return 0;
    TN_INDEX q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
TN_INLINE TN_INDEX tn_mod(TN_INDEX a, TN_INDEX b)    /* a - b * floor(a / b) */
{
    if (__builtin_constant_p(b) && b > 0 && (b & (b - 1)) == 0)
        return a & (b - 1);
    if (b == 0)
        return 0;
    TN_INDEX r = a % b;
    return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0);
}
/* Both of an a that is not negative, and a b above 0: half as many instructions. */
TN_INLINE TN_INDEX tn_quo(TN_INDEX a, TN_INDEX b) { return (TN_INDEX)((TN_UINDEX)a / (TN_UINDEX)b); }
TN_INLINE TN_INDEX tn_rem(TN_INDEX a, TN_INDEX b) { return (TN_INDEX)((TN_UINDEX)a % (TN_UINDEX)b); }
TN_INLINE TN_INDEX tn_min(TN_INDEX a, TN_INDEX b) { return a < b ? a : b; }
TN_INLINE TN_INDEX tn_max(TN_INDEX a, TN_INDEX b) { return a > b ? a : b; }
TN_INLINE TN_INDEX tn_broadcast(TN_INDEX a, TN_INDEX b) { return a == 0 || b == 0 ? 0 : tn_max(a, b); }
TN_INLINE int tn_inside(TN_INDEX i, TN_INDEX n) { return (TN_UINDEX)i < (TN_UINDEX)n; }
/* The place if it is inside of a tensor, else that of a zero of any type. The address is hidden
 * from the compiler, which would branch instead, and no predictor foresees which way. */
TN_INLINE const void *tn_or_zero(int inside, const void *at)
{
    static const uint64_t nothing = 0;
    TN_HIDE(at);
    at = inside ? at : &nothing;
    TN_HIDE(at);
    return at;
}

/* Remember the first index out of range; the host stops after the kernel. */
TN_COLD void tn_fault_index(const TnArgs *a, int64_t got, int64_t want, int32_t wraps)
{
#ifdef TN_MCU                    /* one thread, and maybe no atomic instruction */
    if (a->fault->code)
        return;
    a->fault->code = TN_FAULT_INDEX;
#else
    int32_t none = TN_FAULT_NONE;
    if (!__atomic_compare_exchange_n(&a->fault->code, &none, TN_FAULT_INDEX, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
#endif
    a->fault->where = a->kernel;
    a->fault->dim = !wraps;
    a->fault->got = got;
    a->fault->want = want;
}
/* An index as the user wrote it into 0..n-1: negative ones count from the end. */
TN_INLINE int64_t tn_at(const TnArgs *a, int64_t i, int64_t n)
{
    int64_t at = i < 0 ? i + n : i;
    if (__builtin_expect((uint64_t)at >= (uint64_t)n, 0)) {
        tn_fault_index(a, i, n, 1);
        return 0;
    }
    return at;
}
/* An unsigned index does not wrap. */
TN_INLINE int64_t tn_at_u64(const TnArgs *a, uint64_t i, int64_t n)
{
    if (__builtin_expect(i >= (uint64_t)n, 0)) {
        tn_fault_index(a, (int64_t)i, n, 0);
        return 0;
    }
    return (int64_t)i;
}

#endif
