/* measure: measures the running processor, by probes that are compiled like kernels.
 *
 * The probes (emit/probe.h) are built for the target and run on the thread pool that models run on.
 * A probe is repeated for at least LEAST seconds, a few times, and all probes are repeated in
 * rounds until LONG seconds are over. The fastest time counts: a disturbance makes a processor
 * slower, never faster, and a neighbour that disturbs one round may leave the next alone.
 *
 * Memory levels are read, written and copied by vectors over a buffer that fills half of the level.
 * The cores share L3: each thread takes its share, and at most eight times its L2. The buffers are
 * mapped once, as large as memory needs, in huge pages if there are some, as a session's arena is;
 * one more is in small pages, as constants of a mapped file may be.
 */
#include "driver/internal.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/run.h"

#define LEAST 2e-3 /* [s] */
#define LONG 8.0   /* [s]; no round begins later */
enum {
    LEAST_ROUNDS = 2,
    RUNS = 4, /* runs of a round */
    CALLS = 2000,
    BATCHES = 8,     /* empty calls, to measure the cost of a call */
    MOST_TIMES = 80, /* probes of one round */
    /* the most of L3 that is measured [in sizes of L2]: neighbours on the processor take some of
     * the rest */
    FAR_OF_L2 = 8,
    BEHIND = 768, /* multiply-adds after the roots (tn_probe_behind) */
    /* bytes that the probe of steps covers before it moves on (tn_probe_step) */
    STEP_BLOCK = 512 * 9 * 64,
    OVERLAP_STEPS = 70, /* exponents tried, from 1 on */
    /* buffers are a multiple of this, and so of a probe's work between branches [bytes] */
    ROUND = 4096,
};
#define OVERLAP_STEP 0.1
/* buffers in memory are 4 times L3, within these bounds [bytes] */
#define SMALL_MEMORY ((int64_t)128 << 20)
#define LARGE_MEMORY ((int64_t)1 << 30)

typedef struct {
    Ctx *c;
    Arena *a;
    const Settings *set;
    Machine *m;
    const Probe *probe;
    Pool *pool;
    void **buf; /* [bufs], one for each core, and one in small pages */
    /* kept here: the buffers are unmapped when the caller's machine may be gone */
    uint32_t bufs;
    int64_t buf_bytes; /* of each */
    /* [s] of each measurement, in the order of a round; 0: not yet */
    double best[MOST_TIMES];
    uint32_t at; /* index into it, in this round */
} Measure;

/* ---- timing ---------------------------------------------------------------------------------- */

static const Probe *
probe_named(const Measure *p, const char *name)
{
    const Probe *probe = p->probe;

    while (probe->name && strcmp(probe->name, name))
        probe++;
    return probe;
}

static double
run_once(const Measure *p, TnKernelFn *fn, int64_t times, int64_t bytes, int threads)
{
    TnFault fault = { 0 };
    const int64_t sym[] = { times, bytes };
    const TnArgs args = { sizeof args, p->buf, sym, &fault };
    double start = time_seconds();

    pool_run(p->pool, fn, &args, threads, 1);
    return time_seconds() - start;
}

/* The best of all rounds so far. */
static double
keep_best(Measure *p, double t)
{
    double *best = &p->best[p->at++];

    assert(p->at <= MOST_TIMES);
    return *best = *best > 0 && *best < t ? *best : t;
}

/* Seconds of one unit of a probe's work; 0 if the target has no such instruction. */
static double
seconds_of(Measure *p, const char *name, int64_t bytes, int threads)
{
    const Probe *probe = probe_named(p, name);
    int64_t times = 1;
    double best;

    if (!probe->fn)
        return 0;
    while ((best = run_once(p, probe->fn, times, bytes, threads)) < LEAST && times < (int64_t)1
                                                                                         << 40)
        times *= best < LEAST / 16 ? 8 : 2;
    for (int i = 1; i < RUNS; i++) {
        double t = run_once(p, probe->fn, times, bytes, threads);
        best = t < best ? t : best;
    }
    return keep_best(p, best / (double)times / (probe->work > 0 ? probe->work : (double)bytes));
}

static double
rate_of(Measure *p, const char *name, int64_t bytes, int threads)
{
    double t = seconds_of(p, name, bytes, threads);

    return t > 0 ? 1 / t : 0;
}

/* ---- one core -------------------------------------------------------------------------------- */

static void
measure_core(Measure *p)
{
    Machine *m = p->m;
    double lanes = m->vector_bytes / 4.0, cycle = seconds_of(p, "cycle", 0, 1);
    int64_t half = m->level[LEVEL_L1].bytes / 2 / ROUND * ROUND;

    m->cycle_seconds = cycle;
    m->issue_per_cycle = cycle * rate_of(p, "issue", 0, 1);
    double fma = rate_of(p, "fma", 0, 1);
    m->fma_per_cycle = cycle * fma;
    m->fma_cycles = seconds_of(p, "fma_chain", 0, 1) / cycle;
    double beside = seconds_of(p, "roots", 0, 1) - seconds_of(p, "behind", 0, 1) + BEHIND / fma;
    m->window = beside * fma > 1 ? beside * fma : 1;
    m->add_per_cycle = cycle * rate_of(p, "plus", 0, 1);
    m->divide_cycles = seconds_of(p, "divide", 0, 1) / cycle;
    m->sqrt_cycles = seconds_of(p, "sqrt", 0, 1) / cycle;
    m->gather_cycles = seconds_of(p, "gather", 0, 1) / cycle;
    m->mixed_per_cycle = cycle * rate_of(p, "mixed", 0, 1);
    m->part_load_cycles = seconds_of(p, "part_load", 0, 1) / cycle;
    m->splat_per_cycle = cycle * rate_of(p, "splat", 0, 1);
    m->part_store_cycles = seconds_of(p, "part_store", 0, 1) / cycle;
    /* half of them mispredicted */
    double lost = 2 * (seconds_of(p, "branch", 1, 1) - seconds_of(p, "branch", 0, 1));
    m->branch_cycles = lost > cycle ? lost / cycle : 1;
    m->f32_per_second = 2 * lanes * fma;
    m->f64_per_second = lanes * rate_of(p, "fma_f64", 0, 1);
    m->bf16_dot_per_second = 4 * lanes * rate_of(p, "bf16_dot", 0, 1);
    m->i16_dot_per_second = 4 * lanes * rate_of(p, "i16_dot", 0, 1);
    m->i8_dot_per_second = 8 * lanes * rate_of(p, "i8_dot", 0, 1);
    m->f16_load_per_second = rate_of(p, "load_f16", half, 1) / 2;
    m->bf16_load_per_second = rate_of(p, "load_bf16", half, 1) / 2;
    m->f16_store_per_second = rate_of(p, "store_f16", half, 1) / 2;
    m->bf16_store_per_second = rate_of(p, "store_bf16", half, 1) / 2;
}

/* A library packs its operands and multiplies: with many rows both count, with few rows the packing
 * of the other operand. */
static void
measure_library(Measure *p)
{
    enum { SIZE = 512, FEW = 8 };
    const double extent = SIZE, bytes = extent * extent * sizeof(float);
    Machine *m = p->m;

    m->blas_call_seconds = seconds_of(p, "product", 1, 1);
    double few = seconds_of(p, "product", FEW, 1), many = seconds_of(p, "product", SIZE, 1);
    double operations = 2 * extent * extent * (SIZE - 2 * FEW),
           rate = many > 2 * few ? operations / (many - 2 * few) : 0;
    double packing = rate > 0 ? few - 2 * extent * extent * FEW / rate : 0;
    m->blas_f32_per_second = packing > 0 ? rate : 0;
    m->blas_layout_per_second = packing > 0 ? bytes / packing : 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A cycle through the lines of the buffer in an order that no prefetcher predicts (Sattolo's
 * shuffle; the generator is Knuth's MMIX). */
static void
make_chain(Measure *p, int64_t bytes)
{
    uint64_t x = 1;
    char *at = p->buf[0];
    int64_t line = p->m->line_bytes, n = bytes / line;

    ((int64_t *)p->buf[0])[1] = 0;
    for (int64_t i = 0; i < n; i++)
        *(int64_t *)(at + i * line) = i * line;
    for (int64_t i = n - 1; i > 0; i--) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        int64_t k = (int64_t)((x >> 33) % (uint64_t)i);
        int64_t *a = (int64_t *)(at + i * line), *b = (int64_t *)(at + k * line), t = *a;
        *a = *b;
        *b = t;
    }
}

/* The size of one thread's buffer so that it stays in the level while others use theirs. */
static int64_t
level_bytes(const Machine *m, int l, int threads)
{
    int64_t bytes = m->level[l].bytes;

    if (l == LEVEL_MEMORY) {
        int64_t below =
            m->level[LEVEL_L3].bytes ? m->level[LEVEL_L3].bytes : m->level[LEVEL_L2].bytes;
        bytes = below > LARGE_MEMORY / 4   ? LARGE_MEMORY
                : below < SMALL_MEMORY / 4 ? SMALL_MEMORY
                                           : 4 * below;
        bytes /= threads;
    } else if (l == LEVEL_L3) {
        int64_t near = m->level[LEVEL_L2].bytes;
        bytes /= 2 * threads;
        bytes = bytes < 2 * near ? 2 * near : bytes > FAR_OF_L2 * near ? FAR_OF_L2 * near : bytes;
    } else {
        bytes /= 2;
    }
    return bytes < ROUND ? ROUND : bytes / ROUND * ROUND;
}

static Bandwidth
bandwidth(Measure *p, int l, int threads)
{
    int64_t bytes = level_bytes(p->m, l, threads);

    return (Bandwidth){ threads * rate_of(p, "read", bytes, threads),
                        threads * rate_of(p, "write", bytes, threads),
                        threads * rate_of(p, "copy", bytes, threads) };
}

/* The exponent of overlap that fits best for reads from L2, which other cores do not disturb, with
 * arithmetic that takes about as long, and twice as long. */
static double
overlap(Measure *p)
{
    static const char *const probe[] = { "read_2", "read_4" };
    const Machine *m = p->m;
    double alone[2], both[2], lines = 1 / m->level[LEVEL_L2].one.read, best = 1, least = INFINITY;

    for (int i = 0; i < 2; i++) {
        alone[i] = seconds_of(p, probe[i], level_bytes(m, LEVEL_L1, 1), 1);
        both[i] = seconds_of(p, probe[i], level_bytes(m, LEVEL_L2, 1), 1);
    }
    for (int step = 0; step <= OVERLAP_STEPS; step++) {
        double wrong = 0, exponent = 1 + step * OVERLAP_STEP;
        for (int i = 0; i < 2; i++)
            wrong += pow(log(machine_together(alone[i], lines, exponent) / both[i]), 2);
        if (wrong < least) {
            least = wrong;
            best = exponent;
        }
    }
    return best;
}

/* Of one thread, in small pages. */
static double
rate_small(Measure *p, const char *name, int64_t bytes)
{
    void *huge = p->buf[0];

    p->buf[0] = p->buf[p->bufs - 1];
    double rate = rate_of(p, name, bytes, 1);
    p->buf[0] = huge;
    return rate;
}

static void
measure_memory(Measure *p)
{
    Machine *m = p->m;

    for (int l = LEVEL_MEMORY; l >= LEVEL_L1; l--) {
        MemoryLevel *level = &m->level[l];
        if (!level->bytes) {
            int64_t none = 0;
            *level = m->level[l + 1];
            level->bytes = none;
            continue;
        }
        level->one = bandwidth(p, l, 1);
        level->all = m->cores > 1 ? bandwidth(p, l, (int)m->cores) : level->one;
        make_chain(p, level_bytes(m, l, 1));
        level->latency_seconds = seconds_of(p, "chase", 0, 1);
    }
    int64_t alone = level_bytes(m, LEVEL_MEMORY, 1),
            shared = level_bytes(m, LEVEL_MEMORY, (int)m->cores);
    m->stretch_per_second = rate_small(p, "read", alone);
    m->side_per_second = rate_small(p, "side", alone);
    m->step_per_second = rate_small(p, "step", alone);
    m->piece_per_second = rate_small(p, "piece", alone);
    m->apart_per_second = rate_of(p, "apart", alone, 1);
    m->stream_per_second = rate_of(p, "stream", alone, 1);
    m->beside_per_second = rate_of(p, "beside", alone, 1);
    m->apart_all_per_second =
        m->cores > 1 ? m->cores * rate_of(p, "apart", shared, (int)m->cores) : m->apart_per_second;
    m->stream_all_per_second = m->cores > 1 ? m->cores * rate_of(p, "stream", shared, (int)m->cores)
                                            : m->stream_per_second;
    m->overlap = overlap(p);
    int64_t near = level_bytes(m, LEVEL_L2, 1);
    m->near_step_per_second = rate_of(p, "step", near < STEP_BLOCK ? near : STEP_BLOCK, 1);
    m->load_per_cycle = m->level[LEVEL_L1].one.read * m->cycle_seconds / m->vector_bytes;
    m->store_per_cycle = m->level[LEVEL_L1].one.write * m->cycle_seconds / m->vector_bytes;
}

static void
unmap(void *what)
{
    Measure *p = what;

    for (uint32_t i = 0; i < p->bufs; i++)
        if (p->buf[i] && p->buf[i] != MAP_FAILED)
            munmap(p->buf[i], (size_t)p->buf_bytes);
}

static bool
map_buffers(Measure *p)
{
    p->bufs = p->m->cores + 1;
    p->buf = NEW_ARRAY(p->a, void *, p->bufs);
    p->buf_bytes = level_bytes(p->m, LEVEL_MEMORY, 1);
    arena_closer(p->a, unmap, p);
    for (uint32_t i = 0; i < p->bufs; i++) {
        bool small = i == p->m->cores;
        int64_t used =
            i && !small ? level_bytes(p->m, LEVEL_MEMORY, (int)p->m->cores) : p->buf_bytes;
        int64_t shared = level_bytes(p->m, LEVEL_L3, (int)p->m->cores);
        p->buf[i] = mmap(NULL, (size_t)p->buf_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p->buf[i] == MAP_FAILED)
            return diag_error(&p->c->diags, DIAG_LIMIT, (Loc){ 0 },
                              "%lld MB of memory are needed to measure with, and are not to be had",
                              (long long)((p->buf_bytes * p->bufs) >> 20));
        madvise(p->buf[i], (size_t)p->buf_bytes, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
        memset(p->buf[i], 0, (size_t)(used > shared ? used : shared));
    }
    return true;
}

/* ---- the runtime ----------------------------------------------------------------------------- */

static double
call_seconds(Measure *p, int threads)
{
    TnKernelFn *nothing = probe_named(p, "nothing")->fn;
    double best = 0;

    for (int b = 0; b < BATCHES; b++) {
        double start = time_seconds();
        for (int i = 0; i < CALLS; i++) {
            const TnArgs args = { sizeof args, p->buf, NULL, NULL };
            pool_run(p->pool, nothing, &args, threads, 1);
        }
        double t = (time_seconds() - start) / CALLS;
        best = b == 0 || t < best ? t : best;
    }
    return keep_best(p, best);
}

static void
measure_runtime(Measure *p)
{
    Machine *m = p->m;

    m->call_seconds = call_seconds(p, 1);
    if (m->cores == 1)
        return; /* no thread to wake: the value of the table stays */
    m->wake_seconds = call_seconds(p, (int)m->cores) - m->call_seconds;
}

/* ---- building the probes --------------------------------------------------------------------- */

static void
close_library(void *what)
{
    dlclose(what);
}

static bool
load_probes(Measure *p)
{
    const char *flags = arena_printf(p->a, "%s -fvisibility=hidden -w", emit_c_flags());
    BuildOptions how = p->set->build;
    how.as_said = true;
    if (!build_blas(p->a, &p->c->diags, &how, &how.link))
        return false;
    const char *source = arena_printf(p->a, "%s%s", emit_c_prelude(),
                                      emit_c_probe(p->a, p->m->vector_bytes, how.link != NULL));
    BuildUnit unit = { "the probes of a machine", source, flags, p->m->flags };
    char *path =
        arena_printf(p->a, "%s/tenon-probes-XXXXXX", how.temporary ? how.temporary : "/tmp");
    uint32_t compiled, cached;

    int fd = mkstemp(path);
    if (fd < 0)
        return diag_error(&p->c->diags, DIAG_LIMIT, (Loc){ .file = path },
                          "cannot make a temporary file: %s. Set TMPDIR to a folder "
                          "that can be written",
                          strerror(errno));
    close(fd);
    bool built = build_shared(p->a, &p->c->diags, &how, &unit, 1, path, &compiled, &cached);
    void *library = built ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    if (built && !library)
        return diag_error(&p->c->diags, DIAG_TOOLCHAIN, (Loc){ .file = path },
                          "cannot be loaded: %s", dlerror());
    if (!built)
        return false;
    arena_closer(p->a, close_library, library);
    const Probe *(*probes)(void);
    *(void **)&probes = dlsym(library, "tenon_probes");
    p->probe = probes ? probes() : NULL;
    return p->probe || diag_error(&p->c->diags, DIAG_INTERNAL, (Loc){ .file = path },
                                  "the probes lack their table");
}

bool
driver_measure(Ctx *c, Arena *arena, const TnCompileOptions *given, Machine *out)
{
    const TnCompileOptions *o;
    Settings set;
    Measure *p = NEW(arena, Measure);

    if (!options_resolve(c, arena, given, &set))
        return false;
    o = &set.o;
    *p = (Measure){ .c = c, .a = arena, .set = &set, .m = out };
    if (!options_target(c, arena, &set, out))
        return false;
    if (!machine_runs_here(out))
        return diag_usage(&c->diags,
                          "this processor cannot run code for %s; measure it where it runs",
                          out->name);
    machine_detect(arena, out);
    p->pool = pool_new(arena, &c->diags, (int)out->cores);
    if (!p->pool || !load_probes(p) || !map_buffers(p))
        return false;
    double start = time_seconds();
    for (int round = 0; round < LEAST_ROUNDS || time_seconds() - start < LONG; round++) {
        p->at = 0;
        measure_core(p);
        measure_library(p);
        measure_memory(p);
        measure_runtime(p);
        if (o->progress)
            o->progress(o->user, "seconds of measuring", (int64_t)(time_seconds() - start),
                        (int64_t)LONG);
    }
    return true;
}
