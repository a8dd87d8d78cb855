/* yardstick: what this machine gives right now, to hold what runs beside it to.
 *
 *   bench_yardstick peak|read|copy THREADS SECONDS     prints the best rate [GFLOP/s, GB/s] of
 *   short runs
 *
 * Memory that others use too is slower for minutes, so it is measured in turn with what is held to
 * it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined __AVX512F__
typedef float Vec __attribute__((vector_size(64)));
#elif defined __AVX__
typedef float Vec __attribute__((vector_size(32)));
#else
typedef float Vec __attribute__((vector_size(16)));
#endif

enum {
    /* chains in flight: more than a multiply-add's cycles times those started in one */
    SUMS = 12,
    STEPS = 100000,
    LEAST_RUNS = 3,
    MOST_THREADS = 64,
    LANES = sizeof(Vec) / sizeof(float),
};
#define BYTES ((size_t)256 << 20) /* beyond every cache; each thread takes its part */

typedef struct {
    Vec *from, *to;
    size_t n;
    float kept;
} Work;

static double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *
peak(void *what)
{
    Work *w = what;
    Vec factor = (Vec){ 0 } + 0.999f, term = (Vec){ 0 } + 0.001f;
    Vec a = term, b = a + a, c = b + a, d = c + a, e = d + a, f = e + a, g = f + a, h = g + a,
        i = h + a, j = i + a, k = j + a, l = k + a;

    for (int s = 0; s < STEPS; s++) {
        a = a * factor + term, b = b * factor + term, c = c * factor + term, d = d * factor + term;
        e = e * factor + term, f = f * factor + term, g = g * factor + term, h = h * factor + term;
        i = i * factor + term, j = j * factor + term, k = k * factor + term, l = l * factor + term;
    }
    w->kept = (a + b + c + d + e + f + g + h + i + j + k + l)[0];
    return NULL;
}

static void *
read_all(void *what)
{
    Work *w = what;
    Vec a = { 0 }, b = a, c = a, d = a;

    for (size_t i = 0; i + 4 <= w->n; i += 4)
        a += w->from[i], b += w->from[i + 1], c += w->from[i + 2], d += w->from[i + 3];
    w->kept = (a + b + c + d)[0];
    return NULL;
}

static void *
copy_all(void *what)
{
    Work *w = what;

    for (size_t i = 0; i < w->n; i++) {
        w->to[i] = w->from[i];
        __asm__ volatile("" : : "r"(w->to) : "memory"); /* not a call of memcpy */
    }
    w->kept = w->to[w->n / 2][0];
    return NULL;
}

static const struct {
    const char *name;
    void *(*run)(void *);
    int passes; /* over memory; 0: arithmetic */
} yards[] = { { "peak", peak, 0 }, { "read", read_all, 1 }, { "copy", copy_all, 2 } };

static void *
memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void
run(void *(*work)(void *), Work *w, int threads)
{
    pthread_t thread[MOST_THREADS];
    int started = 1;

    while (started < threads && !pthread_create(&thread[started], NULL, work, &w[started]))
        started++;
    work(&w[0]);
    for (int i = started; i < threads; i++)
        work(&w[i]);
    for (int i = 1; i < started; i++)
        pthread_join(thread[i], NULL);
}

int
main(int argc, char **argv)
{
    static Work w[MOST_THREADS];
    int yard = 0, threads = argc == 4 ? atoi(argv[2]) : 0;
    double best = 0;

    while (yard < 3 && argc == 4 && strcmp(argv[1], yards[yard].name))
        yard++;
    if (yard == 3 || threads < 1 || threads > MOST_THREADS) {
        fputs("usage: bench_yardstick peak|read|copy THREADS SECONDS\n", stderr);
        return 2;
    }
    size_t bytes = yards[yard].passes ? BYTES : 0, part = bytes / (size_t)threads / 4096 * 4096;
    char *from = yards[yard].passes ? memory(bytes) : NULL,
         *to = yards[yard].passes == 2 ? memory(bytes) : from;
    if (bytes && (!from || !to)) {
        fputs("bench_yardstick: no memory\n", stderr);
        return 1;
    }
    for (int i = 0; i < threads && bytes; i++)
        w[i] = (Work){ (Vec *)(from + i * part), (Vec *)(to + i * part), part / sizeof(Vec), 0 };
    double work =
               threads * (bytes ? (double)part * yards[yard].passes : 2.0 * SUMS * STEPS * LANES),
           end = seconds() + atof(argv[3]);
    for (int n = 0; n < LEAST_RUNS || seconds() < end; n++) {
        double start = seconds();
        run(yards[yard].run, w, threads);
        double rate = work / (seconds() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    printf("%g\n", best);
    return 0;
}
