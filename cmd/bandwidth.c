/* bandwidth: the memory bandwidth of this machine now, on n threads. Other programs may slow it
 * down for minutes, so it is measured next to the runs that are compared with it.
 */
#include "cmd.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RUNS = 4, MOST_THREADS = 256, HUGE_PAGE = 2 << 20 };
/* more than caches hold; each thread reads its part */
#define BYTES ((size_t)256 << 20)

/* every target has vectors of 16 bytes */
typedef float Vec __attribute__((vector_size(16)));
typedef struct {
    const Vec *from;
    size_t n;
    double kept; /* a result, so that the reads are not optimised away */
} ReadPart;

static void *
read_part(void *what)
{
    ReadPart *p = what;
    const Vec *from = p->from;
    Vec a = { 0 }, b = a, c = a, d = a, e = a, f = a, g = a, h = a;

    for (size_t i = 0; i + 8 <= p->n; i += 8) {
        a += from[i], b += from[i + 1], c += from[i + 2], d += from[i + 3];
        e += from[i + 4], f += from[i + 5], g += from[i + 6], h += from[i + 7];
    }
    p->kept = (double)(a + b + c + d + e + f + g + h)[0];
    return NULL;
}

double
read_bandwidth(int threads)
{
    static Vec *memory;
    pthread_t id[MOST_THREADS];
    ReadPart part[MOST_THREADS];
    double best = 0;

    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    if (!memory) {
        memory = need(aligned_alloc(HUGE_PAGE, BYTES));
        madvise(memory, BYTES, MADV_HUGEPAGE);
        memset(memory, 0, BYTES);
    }
    for (int r = 0; r < RUNS; r++) {
        size_t n = BYTES / sizeof(Vec) / (size_t)threads;
        int begun = 0;
        double start = seconds();
        for (int t = 0; t < threads; t++)
            part[t] = (ReadPart){ memory + (size_t)t * n, n, 0 };
        for (int t = 1; t < threads; t++, begun++)
            if (pthread_create(&id[t], NULL, read_part, &part[t]))
                break;
        for (int t = begun + 1; t < threads; t++)
            read_part(&part[t]);
        read_part(&part[0]);
        for (int t = 1; t <= begun; t++)
            pthread_join(id[t], NULL);
        double rate = (double)(n * sizeof(Vec) * (size_t)threads) / (seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}
