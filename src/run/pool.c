/* pool: threads that run the ranges of parallel loops.
 *
 * A model is many short parallel loops in sequence, so distributing work must cost less than the
 * loops. A loop is split into a contiguous part for each thread, fixed by arithmetic, so that the
 * same thread meets the same part of a tensor in the next loop, in its own cache; and each part
 * into chunks, which its thread takes from the front. A thread that has none left takes chunks from
 * the end of the others' parts. So threads finish together although iterations differ in length,
 * the system preempts a processor, or a worker sleeps; and a loop is never slower than on one
 * thread, but for the cost of waking. Results do not depend on who computes an iteration.
 *
 * A part is its first iteration, and one word with the range of chunks that are left; a chunk is
 * taken by changing the word. No lock, no queue, no allocation. The caller writes the parts,
 * signals the workers, works like the others, and waits until `pending`, the number of unfinished
 * chunks, is zero. The loop's arguments are read only after taking a chunk: until that chunk is
 * done there is no next loop.
 *
 * A waiting thread spins for SPIN seconds, then parks on the word (a futex). While a model runs,
 * the next loop is near even if a serial one comes first, so a worker spins for RUN_SPIN then.
 * Waiting must not take time from the workers: a spinner that misses time between two reads of the
 * clock shares its processor, and for CROWDED_SECONDS keeps to SPIN.
 *
 * The caller learns from `parked` whom to wake. Both sides first write, then read the other's word,
 * sequentially consistent: either the caller sees the worker parked or the kernel sees that the
 * word has changed and does not put the worker to sleep. The wait for `pending` works the same way
 * with the roles exchanged.
 *
 * A forked child has no workers: there the caller runs every chunk, and the end of the pool waits
 * for nobody.
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
/* [seconds] about the cost of waking a sleeper: at worst twice the optimum */
static const double SPIN = 50e-6;
static const double RUN_SPIN = 1e-3; /* while a model runs */
/* two reads of the clock are a microsecond apart, unless another process ran */
static const double LOST = 100e-6;
static const double CROWDED_SECONDS = 0.1;

/* of a part at most: a preempted thread delays an eighth of it */
enum { PIECES = 8 };
/* workers that a worker takes chunks from: each look costs a cache miss */
enum { NEAR = 8 };
enum { IDLE, CALLED, END }; /* Worker.word */

typedef struct {
    atomic_uint parked;
    double crowded_until; /* written and read by the waiting thread alone */
} Waiter;

typedef struct Worker {
    _Alignas(64) atomic_uint word; /* the word that it waits for */
    Waiter waiter;
    void *scratch;
    struct Pool *pool;
    pthread_t thread;
    /* chunks of its part that are left: the first, and the end << 16 */
    _Alignas(64) atomic_uint left;
    /* its first iteration; iterations of a chunk; the first `longer` chunks have one more */
    int64_t begin, each, longer;
} Worker;

struct Pool {
    _Alignas(64) atomic_uint pending; /* chunks that are not done */
    Waiter caller;
    _Alignas(64) TnKernelFn *fn; /* the running loop; written before any chunk */
    const TnArgs *args;
    Worker *worker; /* [threads]; number 0 is the caller */
    int threads, started;
    pid_t owner; /* the process that owns the workers */
    int64_t scratch_bytes;
    bool spare; /* there is a processor for each thread */
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

/* Wait until *word differs from `old`, and return it; w->parked tells the other side that this
 * thread sleeps. */
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
        bool long_spin = p->spare && w != &p->caller && t >= w->crowded_until &&
                         atomic_load_explicit(&p->running, memory_order_relaxed);
        if (t - begin < (long_spin ? RUN_SPIN : SPIN))
            continue;
        atomic_store(&w->parked, 1);
        if (atomic_load(word) == old)
            futex_wait(word, old);
        atomic_store(&w->parked, 0);
        /* a woken thread spins again, even if the loop is over: the next is near */
        begin = last = 0;
    }
    return now;
}

/* ---- pieces ----------------------------------------------------------------------------- */

/* Take the first or the last chunk of w's part, and run it with `scratch`, which is read only then,
 * since the caller may replace it until then. False: none is left. */
static bool
do_piece(Pool *p, Worker *w, bool last, void *const *scratch)
{
    unsigned left = atomic_load_explicit(&w->left, memory_order_relaxed), first, end;

    do {
        first = left & 0xffff;
        end = left >> 16;
        if (first == end)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &w->left, &left, last ? first | (end - 1) << 16 : (first + 1) | end << 16,
        memory_order_acquire, memory_order_relaxed));
    int64_t k = last ? end - 1 : first,
            begin = w->begin + k * w->each + (k < w->longer ? k : w->longer);
    p->fn(p->args, begin, begin + w->each + (k < w->longer), *scratch);
    return true;
}

/* Thread i runs its part, then what is left of the others'. Returns the number of chunks. */
static unsigned
do_pieces(Pool *p, int i)
{
    void *const *scratch = &p->worker[i].scratch;
    unsigned done = 0;

    while (do_piece(p, &p->worker[i], false, scratch))
        done++;
    int others = i && p->threads > NEAR ? NEAR : p->threads - 1;
    for (int k = 1; k <= others; k++)
        while (do_piece(p, &p->worker[(i + k) % p->threads], true, scratch))
            done++;
    return done;
}

/* ---- workers ---------------------------------------------------------------------------- */

static void *
work(void *arg)
{
    Worker *w = arg;
    Pool *p = w->pool;
    for (;;) {
        await_change(p, &w->waiter, &w->word, IDLE);
        if (atomic_exchange(&w->word, IDLE) == END)
            return NULL;
        unsigned done = do_pieces(p, (int)(w - p->worker));
        if (done && atomic_fetch_sub(&p->pending, done) == done && atomic_load(&p->caller.parked))
            futex_wake(&p->pending);
    }
}

static void
call(Worker *w, unsigned word)
{
    atomic_store(&w->word, word);
    if (atomic_load(&w->waiter.parked))
        futex_wake(&w->word);
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

    /* The first `longer` parts have one iteration more. A chunk is worth half of a thread's
     * wake-up. */
    int64_t each = trips / parts, longer = trips % parts, begin = 0,
            least = grain > 1 ? (grain + 1) / 2 : 1;
    int64_t pieces = each / least < PIECES ? each / least : PIECES;
    p->fn = fn;
    p->args = args;
    atomic_store_explicit(&p->pending, (unsigned)(parts * pieces), memory_order_relaxed);
    for (int64_t i = 0; i < parts; i++) {
        Worker *w = &p->worker[i];
        int64_t mine = each + (i < longer);
        w->begin = begin;
        w->each = mine / pieces;
        w->longer = mine % pieces;
        begin += mine;
        atomic_store_explicit(&w->left, (unsigned)pieces << 16, memory_order_release);
    }
    for (int64_t i = 1; i < parts; i++)
        call(&p->worker[i], CALLED);
    unsigned done = do_pieces(p, 0), left = atomic_fetch_sub(&p->pending, done) - done;
    for (; left; left = atomic_load_explicit(&p->pending, memory_order_acquire))
        await_change(p, &p->caller, &p->pending, left);
}

/* ---- life ------------------------------------------------------------------------------- */

static void
pool_end(void *what)
{
    Pool *p = what;
    int started = p->owner == getpid() ? p->started : 0;
    for (int i = 1; i <= started; i++)
        call(&p->worker[i], END);
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
    return !err || diag_error(d, DIAG_LIMIT, (Loc){ 0 },
                              "cannot start thread %d of %d: %s; ask for fewer threads",
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
        diag_usage(d,
                   "%d threads asked for; give 1 to %d, or 0 for as many as there are processors",
                   threads, MAX_THREADS);
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
            /* larger ones are kept; scratch_bytes is what all have */
            return false;
        free(p->worker[i].scratch);
        p->worker[i].scratch = scratch;
    }
    p->scratch_bytes = (int64_t)size;
    return true;
}
