/* peak: what one core can do at most, in f32 GFLOP/s.
 *
 * Independent chains of fused multiply-adds over the widest vectors this compiler was told of
 * (-march=native), all in registers: enough chains to cover the latency on every port. The best of
 * several short runs, since a core that is disturbed is slower and never faster.
 */
#include <stdio.h>
#include <time.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
enum { LANES = VECTOR_BYTES / 4, CHAINS = 12, STEPS = 4000000, RUNS = 9 };

typedef float V __attribute__((vector_size(VECTOR_BYTES)));

#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define DECLARE(i) V a##i = x + (float)i;
#define STEP(i) a##i = a##i * x + y; __asm__ volatile("" : PIN(a##i));
#define ADD(i) + a##i
#if defined(__x86_64__)
#define PIN(v) "+v"(v)
#elif defined(__aarch64__)
#define PIN(v) "+w"(v)
#else
#define PIN(v) "+m"(v)
#endif

static double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int
main(int argc, char **argv)
{
    V x = { 0 }, y = { 0 };
    double best = 0;
    volatile float sink;
    (void)argv;

    x += (float)argc * 0.5f;             /* not a constant: nothing is folded */
    y += (float)argc;
    for (int run = 0; run < RUNS; run++) {
        EACH(DECLARE)
        double start = seconds();
        for (long i = 0; i < STEPS; i++) {
            EACH(STEP)
        }
        double rate = 2.0 * LANES * CHAINS * STEPS / (seconds() - start) * 1e-9;
        V sum = x EACH(ADD);
        sink = sum[0];
        best = rate > best ? rate : best;
    }
    (void)sink;
    printf("%.2f\n", best);
    return 0;
}
