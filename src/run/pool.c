/* pool: threads that run the ranges of parallel loops.
 *
 * A model is many short parallel loops one after the other, so handing out work must cost less than
 * the loops. Each worker has a cache line of its own with the range it is to do and a word that says
 * whether there is one; the caller writes the range and then the word, does the first range itself and
 * waits until `pending` is zero. No lock, no queue, no allocation: ranges are contiguous and fixed by
 * arithmetic, so that the same worker meets the same part of a tensor in the next loop, in its own
 * cache, and results do not depend on who is fast.
 *
 * A range is taken by whoever is first to change its word from READY: when the caller is done with
 * its own and a worker has not begun (it sleeps, or the system has given its processor to somebody
 * else), the caller does that range too. So a loop is never later than one thread would be, but for
 * the cost of waking.
 *
 * Who waits spins for SPIN seconds, then parks on the word (a futex). While a model runs, the next loop
 * is near even when a serial one comes first, so a worker spins for RUN_SPIN then. Waiting must not take
 * time from those who work: a spinner that finds time missing between two looks at the clock shares its
 * processor, and for CROWDED_SECONDS keeps to SPIN.
 *
 * The caller knows from `parked` whom it must wake. Both sides first write, then read the other's word,
 * sequentially consistent: either the caller sees the worker parked or the kernel sees that the word
 * has changed and does not put the worker to sleep. The wait for `pending` works the same way with the
 * roles exchanged.
 *
 * A forked child has no workers: there the caller does every range, and the end of the pool waits for nobody.
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
static const double SPIN = 50e-6;             /* [seconds] about what it costs to wake who sleeps: at worst twice the best */
static const double RUN_SPIN = 1e-3;          /* while a model runs */
static const double LOST = 100e-6;            /* two looks at the clock are a microsecond apart, unless somebody else ran */
static const double CROWDED_SECONDS = 0.1;

enum { IDLE, READY, TAKEN, END };             /* Worker.range: none; to be done; being done; none will come */

typedef struct {
    atomic_uint parked;
    double crowded_until;                     /* written and read by the waiting thread alone */
} Waiter;

typedef struct Worker {
    _Alignas(64) atomic_uint range;
    Waiter waiter;
    int64_t begin, end;
    void *scratch;
    struct Pool *pool;
    pthread_t thread;
} Worker;

struct Pool {
    _Alignas(64) atomic_uint pending;    /* ranges that have not been finished, but for the caller's first */
    Waiter caller;
    _Alignas(64) TnKernelFn *fn;         /* the running loop; written before any READY */
    const TnArgs *args;
    Worker *worker;                      /* [threads]; number 0 is the caller */
    int threads, started;
    pid_t owner;                         /* the process that has the workers */
    int64_t scratch_bytes;
    bool spare;                          /* there is a processor for each thread */
    atomic_bool running;
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

/* Wait until *word is no longer `old`, and give what it is then; w->parked tells the other side when we sleep. */
static unsigned
await_change(Pool *p, Waiter *w, atomic_uint *word, unsigned old)
{
    unsigned now;
    double begin = 0, last = 0;
    for (int i = 1; (now = atomic_load_explicit(word, memory_order_acquire)) == old; i++) {
        relax();
        if (i % 32)
            continue;
        double t = time_seconds();
        if (last != 0 && t - last > LOST)
            w->crowded_until = t + CROWDED_SECONDS;
        begin = begin == 0 ? t : begin;
        last = t;
        bool long_spin = p->spare && w != &p->caller && t >= w->crowded_until && atomic_load_explicit(&p->running, memory_order_relaxed);
        if (t - begin < (long_spin ? RUN_SPIN : SPIN))
            continue;
        atomic_store(&w->parked, 1);
        if (atomic_load(word) == old)
            futex_wait(word, old);
        atomic_store(&w->parked, 0);
        begin = last = 0;                     /* whoever was woken spins again, even if the range is gone: the next is near */
    }
    return now;
}

/* ---- workers ---------------------------------------------------------------------------- */

/* Do the range if nobody else has begun it. Scratch memory is looked up once the range is taken: until then the caller
 * may replace it. */
static bool
take(Pool *p, Worker *w, void *const *scratch)
{
    unsigned ready = READY;
    if (!atomic_compare_exchange_strong_explicit(&w->range, &ready, TAKEN, memory_order_acquire, memory_order_relaxed))
        return false;
    p->fn(p->args, w->begin, w->end, *scratch);
    atomic_store_explicit(&w->range, IDLE, memory_order_relaxed);
    return true;
}

static void *
work(void *arg)
{
    Worker *w = arg;
    Pool *p = w->pool;
    unsigned seen = IDLE;
    while ((seen = await_change(p, &w->waiter, &w->range, seen)) != END) {
        if (seen != READY)
            continue;
        bool mine = take(p, w, &w->scratch);
        seen = mine ? IDLE : TAKEN;           /* the caller has begun it: that it ends is worth no spinning */
        if (mine && atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->caller.parked))
            futex_wake(&p->pending);
    }
    return NULL;
}

static void
send(Worker *w, unsigned range)
{
    atomic_store(&w->range, range);
    if (atomic_load(&w->waiter.parked))
        futex_wake(&w->range);
}

void
pool_busy(Pool *p, bool running)
{
    atomic_store_explicit(&p->running, running, memory_order_relaxed);
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
        send(w, READY);
    }
    fn(args, 0, each + (longer > 0), p->worker[0].scratch);
    for (int64_t i = parts; --i > 0; )       /* the last to be woken first */
        if (take(p, &p->worker[i], &p->worker[0].scratch))
            atomic_fetch_sub_explicit(&p->pending, 1, memory_order_acq_rel);
    for (unsigned left; (left = atomic_load_explicit(&p->pending, memory_order_acquire)) != 0; )
        await_change(p, &p->caller, &p->pending, left);
}

/* ---- life ------------------------------------------------------------------------------- */

static void
pool_end(void *what)
{
    Pool *p = what;
    int started = p->owner == getpid() ? p->started : 0;
    for (int i = 1; i <= started; i++)
        send(&p->worker[i], END);
    for (int i = 1; i <= started; i++)
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
    p->owner = getpid();
    p->spare = threads <= cpu_count();
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
