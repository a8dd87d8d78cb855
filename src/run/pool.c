/* pool: threads that run the ranges of parallel loops.
 *
 * A model is many short parallel loops one after the other, so handing out work must cost less than
 * the loops. Each worker has a cache line of its own with the range it is to do and a counter `go`;
 * the caller writes the range and bumps the counter, does the first range itself and waits until
 * `pending` is zero. No lock, no queue, no allocation: ranges are contiguous and fixed by arithmetic,
 * so that the same worker meets the same part of a tensor in the next loop, in its own cache.
 *
 * A worker without work spins for SPIN seconds, since the next loop is usually microseconds away, then
 * parks on its counter (a futex). The caller knows from `parked` whom it must wake. Both sides first
 * write, then read the other's word, sequentially consistent: either the caller sees the worker parked
 * or the kernel sees that the counter has moved and does not put the worker to sleep. The wait for
 * `pending` works the same way with the roles exchanged; the caller parks too, so that on a machine
 * with fewer processors than threads it does not take time from those who work.
 *
 * A forked child has no workers: sessions are made after the fork.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run/run.h"

enum { MAX_THREADS = 4096 };
static const double SPIN = 50e-6;    /* [seconds] */

typedef struct Worker {
    _Alignas(64) atomic_uint go;     /* bumped when there is a range to do, and to end */
    atomic_uint parked;
    int64_t begin, end;
    void *scratch;
    struct Pool *pool;
    pthread_t thread;
} Worker;

struct Pool {
    _Alignas(64) atomic_uint pending;    /* workers that have not finished */
    atomic_uint caller_parked;
    _Alignas(64) TnKernelFn *fn;         /* the running loop; written before any `go` */
    const TnArgs *args;
    Worker *worker;                      /* [threads]; number 0 is the caller */
    int threads, started;
    int64_t scratch_bytes;
    atomic_bool ending;
};

/* ---- waiting ---------------------------------------------------------------------------- */

static void
futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void
futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until *word is no longer `old`, spinning first; *parked tells the other side when we sleep. */
static unsigned
await_change(atomic_uint *word, unsigned old, atomic_uint *parked)
{
    unsigned now;
    double until = 0;
    for (int i = 1; (now = atomic_load_explicit(word, memory_order_acquire)) == old; i++) {
        relax();
        if (i % 32)
            continue;
        double t = time_seconds();
        if (until == 0)
            until = t + SPIN;
        if (t < until)
            continue;
        atomic_store(parked, 1);
        while ((now = atomic_load(word)) == old)
            futex_wait(word, old);
        atomic_store(parked, 0);
        break;
    }
    return now;
}

/* ---- workers ---------------------------------------------------------------------------- */

static void *
work(void *arg)
{
    Worker *w = arg;
    Pool *p = w->pool;
    for (unsigned seen = 0;;) {
        seen = await_change(&w->go, seen, &w->parked);
        if (atomic_load_explicit(&p->ending, memory_order_acquire))
            return NULL;
        p->fn(p->args, w->begin, w->end, w->scratch);
        if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->caller_parked))
            futex_wake(&p->pending);
    }
}

static void
send(Worker *w)
{
    atomic_fetch_add(&w->go, 1);
    if (atomic_load(&w->parked))
        futex_wake(&w->go);
}

void
pool_run(Pool *p, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    if (trips <= 0)
        return;
    int64_t parts = grain > 1 ? trips / grain : trips;
    if (parts > p->threads)
        parts = p->threads;
    if (parts <= 1) {
        fn(args, 0, trips, p->worker[0].scratch);
        return;
    }

    /* The first `longer` ranges have one trip more. */
    int64_t each = trips / parts, longer = trips % parts, begin = each + (longer > 0);
    p->fn = fn;
    p->args = args;
    atomic_store_explicit(&p->pending, (unsigned)parts - 1, memory_order_relaxed);
    for (int64_t i = 1; i < parts; i++) {
        Worker *w = &p->worker[i];
        w->begin = begin;
        begin = w->end = begin + each + (i < longer);
        send(w);
    }
    fn(args, 0, each + (longer > 0), p->worker[0].scratch);
    for (unsigned left; (left = atomic_load_explicit(&p->pending, memory_order_acquire)) != 0; )
        await_change(&p->pending, left, &p->caller_parked);
}

/* ---- life ------------------------------------------------------------------------------- */

static void
pool_end(void *what)
{
    Pool *p = what;
    atomic_store_explicit(&p->ending, true, memory_order_release);
    for (int i = 1; i <= p->started; i++)
        send(&p->worker[i]);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->worker[i].thread, NULL);
    for (int i = 0; i < p->threads; i++)
        free(p->worker[i].scratch);
}

static bool
start_workers(Pool *p, Diags *d)
{
    /* Signals are for the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = 0;
    for (int i = 1; i < p->threads && !err; i++) {
        err = pthread_create(&p->worker[i].thread, NULL, work, &p->worker[i]);
        p->started += !err;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !err || diag_error(d, DIAG_LIMIT, (Loc){0}, "cannot start thread %d of %d: %s; ask for fewer threads",
                              p->started + 2, p->threads, strerror(err));
}

static void *
on_cache_line(Arena *a, size_t bytes)
{
    return (void *)(((uintptr_t)arena_alloc(a, bytes + 64) + 63) & ~(uintptr_t)63);
}

Pool *
pool_new(Arena *a, Diags *d, int threads)
{
    if (threads < 0 || threads > MAX_THREADS) {
        diag_error(d, DIAG_USAGE, (Loc){0}, "%d threads asked for; give 1 to %d, or 0 for as many as there are processors", threads, MAX_THREADS);
        return NULL;
    }
    if (threads == 0)
        threads = cpu_count();
    Pool *p = on_cache_line(a, sizeof *p);
    p->worker = on_cache_line(a, sizeof *p->worker * (size_t)threads);
    p->threads = threads;
    for (int i = 0; i < threads; i++)
        p->worker[i].pool = p;
    arena_closer(a, pool_end, p);
    return start_workers(p, d) ? p : NULL;
}

int
pool_threads(const Pool *p)
{
    return p->threads;
}

bool
pool_scratch(Pool *p, int64_t bytes)
{
    if (bytes <= p->scratch_bytes)
        return true;
    if (bytes > INT64_MAX - 64)
        return false;
    size_t size = ((size_t)bytes + 63) & ~(size_t)63;
    for (int i = 0; i < p->threads; i++) {
        void *scratch = aligned_alloc(64, size);
        if (!scratch)
            return false;            /* those already larger stay so; scratch_bytes is what all have */
        free(p->worker[i].scratch);
        p->worker[i].scratch = scratch;
    }
    p->scratch_bytes = (int64_t)size;
    return true;
}
