/* cpu_level: the level of x86-64 (1 to 4) that this processor and its system have. Levels above
 * that have more instructions: 5 dot products of integers (VNNI), 6 of bf16 too, 7 VNNI in the
 * encoding of AVX too, which Zen 5 and Sapphire Rapids have but not Zen 4. Of other processors, the
 * features that Linux tells. The prelude of emitted C
 * contains it too, so an artefact asks what the compiler asked.
 *
 * It uses cpuid and not __builtin_cpu_supports, which needs a library of the C compiler's that not
 * all of them have (Zig's answers no to everything).
 */
#ifndef TENON_CPU_LEVEL_H
#define TENON_CPU_LEVEL_H
#if defined(__x86_64__)

typedef struct {
    uint32_t a, b, c, d;
} TnCpuid;

static inline TnCpuid
tn_cpuid(uint32_t leaf, uint32_t part)
{
    TnCpuid r;

    __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(part));
    return r;
}

/* The registers that the system saves at a task switch: bits 1 and 2 are those of AVX, 5 to 7 of
 * AVX-512. */
static inline uint32_t
tn_saved_registers(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static inline int
tn_cpu_level(void)
{
    /* sse3 ssse3 cx16 sse4.1 sse4.2 popcnt */
    const uint32_t v2 = 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23;
    /* fma movbe osxsave avx f16c */
    const uint32_t v3 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    /* bmi1 avx2 bmi2 */
    const uint32_t v3_more = 1u << 3 | 1u << 5 | 1u << 8;
    /* avx512 f dq cd bw vl */
    const uint32_t v4_more = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    const uint32_t lzcnt = 1u << 5, avx = 0x06, avx512 = 0xe6;
    const uint32_t vnni = 1u << 11, bf16 = 1u << 5, avx_vnni = 1u << 4;
    uint32_t last = tn_cpuid(0, 0).a, more = tn_cpuid(0x80000000u, 0).a;
    uint32_t features = tn_cpuid(1, 0).c;

    if ((features & v2) != v2)
        return 1;
    if ((features & v3) != v3 || last < 7 || more < 0x80000001u ||
        !(tn_cpuid(0x80000001u, 0).c & lzcnt))
        return 2;
    uint32_t extended = tn_cpuid(7, 0).b, saved = tn_saved_registers();
    if ((extended & v3_more) != v3_more || (saved & avx) != avx)
        return 2;
    if ((extended & v4_more) != v4_more || (saved & avx512) != avx512)
        return 3;
    uint32_t dots = tn_cpuid(7, 0).a >= 1 ? tn_cpuid(7, 1).a : 0;
    if (!(tn_cpuid(7, 0).c & vnni))
        return 4;
    return !(dots & bf16) ? 5 : !(dots & avx_vnni) ? 6 : 7;
}

#else
#if defined(__linux__)
#include <sys/auxv.h>
#endif

/* Does Linux say all these bits of AT_HWCAP and AT_HWCAP2, and has a vector register that many
 * bytes? Other systems are taken at the word of the one who compiled for the target. */
static inline int
tn_cpu_has(uint64_t first, uint64_t second, int vector_bytes)
{
    uint64_t bytes = 16; /* of Arm's */

#if defined(__linux__)
    if ((getauxval(AT_HWCAP) & first) != first || (getauxval(AT_HWCAP2) & second) != second)
        return 0;
#if defined(__riscv)
    if (first)
        __asm__ volatile("csrr %0, 0xc22" : "=r"(bytes)); /* vlenb */
#endif
#endif
    (void)first, (void)second;
    return bytes >= (uint64_t)vector_bytes;
}

#endif
#endif
