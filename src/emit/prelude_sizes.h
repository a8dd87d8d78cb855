/* prelude_sizes: the integers of emitted C: sizes and indices. What kernels and the host program
 * share. */
#ifndef TN_PRELUDE_SIZES_H
#define TN_PRELUDE_SIZES_H
#include <stdint.h>
#include <string.h>

#define TN_INLINE static inline __attribute__((always_inline, unused))
#define TN_COLD static __attribute__((noinline, cold, unused))

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
/* Both of an a that is not negative, and a b above 0: half as many instructions. */
TN_INLINE int64_t tn_quo(int64_t a, int64_t b) { return (int64_t)((uint64_t)a / (uint64_t)b); }
TN_INLINE int64_t tn_rem(int64_t a, int64_t b) { return (int64_t)((uint64_t)a % (uint64_t)b); }
TN_INLINE int64_t tn_min(int64_t a, int64_t b) { return a < b ? a : b; }
TN_INLINE int64_t tn_max(int64_t a, int64_t b) { return a > b ? a : b; }
TN_INLINE int64_t tn_broadcast(int64_t a, int64_t b) { return a == 0 || b == 0 ? 0 : tn_max(a, b); }
TN_INLINE int tn_inside(int64_t i, int64_t n) { return (uint64_t)i < (uint64_t)n; }
/* The place if it is inside of a tensor, else that of a zero of any type. The address is hidden
 * from the compiler, which would branch instead, and no predictor foresees which way. */
TN_INLINE const void *tn_or_zero(int inside, const void *at)
{
    static const uint64_t nothing = 0;
    __asm__("" : "+r"(at));
    at = inside ? at : &nothing;
    __asm__("" : "+r"(at));
    return at;
}

/* Remember the first index out of range; the host stops after the kernel. */
TN_COLD void tn_fault_index(const TnArgs *a, int64_t got, int64_t want, int32_t wraps)
{
    int32_t none = TN_FAULT_NONE;
    if (!__atomic_compare_exchange_n(&a->fault->code, &none, TN_FAULT_INDEX, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    a->fault->where = a->kernel;
    a->fault->dim = !wraps;
    a->fault->got = got;
    a->fault->want = want;
}
/* An index as the user wrote it into 0..n-1: negative ones count from the end. */
TN_INLINE int64_t tn_at(const TnArgs *a, int64_t i, int64_t n)
{
    int64_t at = i < 0 ? i + n : i;
    if (__builtin_expect(!tn_inside(at, n), 0)) {
        tn_fault_index(a, i, n, 1);
        return 0;
    }
    return at;
}
/* An unsigned index does not wrap. */
TN_INLINE int64_t tn_at_u64(const TnArgs *a, uint64_t i, int64_t n)
{
    if (__builtin_expect(!tn_inside((int64_t)i, n), 0)) {
        tn_fault_index(a, (int64_t)i, n, 0);
        return 0;
    }
    return (int64_t)i;
}

#endif
