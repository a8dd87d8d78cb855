/* pool: the ranges of parallel loops on Workers that share a module's memory.
 *
 * A loop is cut into chunks. One word holds the loop's number and how many chunks are left; who
 * lowers that count has taken a chunk, and reads the loop's arguments only then: until the chunk is
 * done there is no next loop. A Worker without a chunk looks at the word for a while, then sleeps on
 * the loop's number. A module without shared memory has no Workers: its caller runs all.
 */
enum { CHUNKS = 4 /* for each thread, so that a slow one delays few */, LOOKS = 20000 };

struct Pool {
    int threads;
    void **scratch; /* [threads] */
    int64_t scratch_bytes;
    TnKernelFn *fn;
    const TnArgs *args;
    int64_t trips, chunk;    /* iterations; of a chunk */
    _Atomic uint64_t left;   /* number of the loop, then chunks that nobody took */
    _Atomic int32_t loop;    /* its number: Workers sleep on it */
    _Atomic int32_t pending; /* chunks that are not done */
    _Atomic int32_t sleepers;
};

static Pool pool;

/* Thread i takes a chunk and does it; false: none is left. */
static bool
do_chunk(int i)
{
    uint64_t left = atomic_load(&pool.left);

    do
        if (!(uint32_t)left)
            return false;
    while (!atomic_compare_exchange_weak(&pool.left, &left, left - 1));
    int64_t begin = (int64_t)((uint32_t)left - 1) * pool.chunk, end = begin + pool.chunk;
    pool.fn(pool.args, begin, end < pool.trips ? end : pool.trips, pool.scratch[i]);
    atomic_fetch_sub(&pool.pending, 1);
    return true;
}

#ifdef __wasm_atomics__
/* A Worker's life: thread `i` of the pool, from 1 on. */
void __attribute__((export_name("tn_work")))
tn_work(int i)
{
    for (;;) {
        int32_t loop = atomic_load(&pool.loop);
        int looks = 0;

        while (do_chunk(i))
            ;
        while (atomic_load_explicit(&pool.loop, memory_order_relaxed) == loop && ++looks < LOOKS)
            ;
        if (looks < LOOKS)
            continue;
        atomic_fetch_add(&pool.sleepers, 1);
        __builtin_wasm_memory_atomic_wait32((int *)&pool.loop, loop, -1);
        atomic_fetch_sub(&pool.sleepers, 1);
    }
}
#endif

static void
wake(void)
{
#ifdef __wasm_atomics__
    if (atomic_load(&pool.sleepers))
        __builtin_wasm_memory_atomic_notify((int *)&pool.loop, (unsigned)pool.threads);
#endif
}

void
pool_run(Pool *p, TnKernelFn *fn, const TnArgs *args, int64_t trips, int64_t grain)
{
    int64_t most = (int64_t)p->threads * CHUNKS, chunk = (trips + most - 1) / most;

    chunk = chunk < grain ? grain : chunk;
    if (chunk >= trips) {
        fn(args, 0, trips, p->scratch[0]);
        return;
    }
    int64_t chunks = (trips + chunk - 1) / chunk;
    p->fn = fn;
    p->args = args;
    p->trips = trips;
    p->chunk = chunk;
    atomic_store(&p->pending, (int32_t)chunks);
    atomic_store(&p->left, (uint64_t)(uint32_t)(p->loop + 1) << 32 | (uint32_t)chunks);
    atomic_fetch_add(&p->loop, 1);
    wake();
    while (do_chunk(0))
        ;
    while (atomic_load(&p->pending))
        ;
}

void
pool_busy(Pool *p, bool running)
{
    (void)p, (void)running;
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
    if (bytes >= (int64_t)1 << 31)
        return false;
    for (int i = 0; i < p->threads; i++) {
        free(p->scratch[i]);
        if (!(p->scratch[i] = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64))) {
            p->scratch_bytes = 0;
            return false;
        }
    }
    p->scratch_bytes = bytes;
    return true;
}

Pool *
pool_of_workers(Arena *a, int threads)
{
    pool.threads = threads;
    pool.scratch = NEW_ARRAY(a, void *, threads);
    return &pool;
}
