/* machine: what a target offers (vectors, registers, caches, cores) and how fast each of them is.
 * Schedules and prices ask here instead of naming processors.
 *
 * The facts of a machine come from a row of the table, or from a file that `tenon machine` measured
 * and wrote. Nothing is asked of the processor that compiles, so the same input, options and
 * machine give the same code anywhere. (The one exception is the name "native", which selects a
 * row.)
 */
#ifndef TENON_MACHINE_H
#define TENON_MACHINE_H

#include "machine/platform.h"
#include "type/dtype.h"

#include <math.h>

typedef enum { LEVEL_L1, LEVEL_L2, LEVEL_L3, LEVEL_MEMORY, LEVEL_COUNT } Level;

/* of the probes of strided stores */
enum { MACHINE_APART_ROWS = 256, MACHINE_BESIDE_ROWS = 32 };

/* Vector loads and stores over contiguous memory [bytes/s]. copy counts bytes read and bytes
 * written. */
typedef struct {
    double read, write, copy;
} Bandwidth;

typedef struct {
    /* L1, L2: of one core; L3: shared by all cores; memory: INT64_MAX */
    int64_t bytes;
    double latency_seconds; /* of a load whose address the previous load returned */
    Bandwidth one, all;     /* of one thread; of all `cores` together */
} MemoryLevel;

/* A machine without a cache level has the facts of the next lower one there, and 0 bytes. A
 * measured fact of 0 means that the machine has no such instruction. */
typedef struct {
    const char *name; /* a row of the table: "x86-64-v4", … */
    /* for the C compiler: "-march=x86-64-v4 -mprefer-vector-width=512" */
    const char *flags;
    const Platform *platform; /* NULL: of the processor that compiles */
    const char *emulate;      /* words for the platform's emulator: which processor; NULL: none */
    const char *emulate_link; /* for the linker of what it runs: where memory is; NULL: none */
    uint32_t cpu_level;       /* that code for it needs, of x86-64 (cpu_level.h); 0: none */
    uint64_t cpu_bits[2];     /* that it needs of AT_HWCAP, AT_HWCAP2 (cpu_level.h) elsewhere */
    const char *processor;    /* the processor measured, for people */

    uint32_t vector_bytes;     /* 64, 32, 16; 4: registers hold one number */
    uint32_t vector_registers; /* 32, 16 */
    uint32_t line_bytes;       /* of a cache line */
    uint32_t cores;            /* to distribute a kernel over */

    /* One core. A cycle is the latency of an integer addition. */
    double cycle_seconds;
    double issue_per_cycle; /* instructions issued */
    /* size of the reorder buffer in vector instructions */
    double window;
    double fma_per_cycle; /* vectors of f32 multiply-adds issued: the number of ports */
    double fma_cycles;    /* from operand to result */
    double add_per_cycle; /* vectors of f32 additions issued */
    /* multiply-adds and simple operations alternately: no unit does both */
    double mixed_per_cycle;
    double load_per_cycle, store_per_cycle; /* vectors, from and to L1 */
    double splat_per_cycle;                 /* numbers, from L1 to all lanes of a vector */
    /* from the start of one vector of f32 to the next */
    double divide_cycles, sqrt_cycles, gather_cycles;
    /* the same for loads and stores of the first lanes only */
    double part_load_cycles, part_store_cycles;
    double branch_cycles; /* of a mispredicted branch */

    /* One core, by type; a multiply-add counts as two. */
    double f32_per_second, f64_per_second; /* [FLOP/s] multiply-adds of vectors */
    /* [FLOP/s] the dot-product instruction over bf16 pairs into f32 */
    double bf16_dot_per_second;
    /* [OP/s] the dot-product instruction over int16 pairs into i32, and its addition */
    double i16_dot_per_second;
    double i8_dot_per_second; /* [OP/s] the dot-product instruction over int8 quads into i32 */
    bool dot4_signed;         /* both sides of that instruction are signed; else one is unsigned */
    /* [elements/s] loaded from L1 and widened to f32 */
    double f16_load_per_second, bf16_load_per_second;
    /* [elements/s] rounded from f32 and stored to L1 */
    double f16_store_per_second, bf16_store_per_second;

    /* GEMM of a library (CBLAS), one core; 0: not measured. It packs its operands in every call. */
    double blas_f32_per_second;    /* [FLOP/s] of f32, without packing */
    double blas_layout_per_second; /* [bytes/s] */
    double blas_call_seconds;      /* of a GEMM of one number */

    MemoryLevel level[LEVEL_COUNT];
    /* p: arithmetic that takes x alone and L2 traffic that takes y take (x^p + y^p)^(1/p) together */
    double overlap;
    /* [bytes/s] strided lines of L2, read by one thread; 0: not measured */
    double near_step_per_second;
    /* [bytes/s] memory in small pages, as files have them, read by one thread: as one stream; as
     * four concurrent streams; as strided lines; as strided bursts of four lines (0: not
     * measured). */
    double stretch_per_second, side_per_second, step_per_second, piece_per_second;
    /* [bytes/s] strided whole lines written to memory, which hardware does not prefetch; the same
     * with non-temporal stores, which do not read the line first (MACHINE_APART_ROWS streams, a
     * page apart). Of one thread; of all `cores` together. */
    double apart_per_second, stream_per_second, apart_all_per_second, stream_all_per_second;
    /* [bytes/s] non-temporal stores to MACHINE_BESIDE_ROWS concurrent streams, by one thread; 0:
     * not measured */
    double beside_per_second;

    /* The runtime. */
    double call_seconds; /* of an empty kernel, on the calling thread */
    /* added by distributing a kernel over workers that spin: from the call to the end */
    double wake_seconds;
} Machine;

/* name: a row of the table, or "native": the best row that the running processor satisfies. Errors:
 * unknown name, listing all. */
bool machine_find(Ctx *c, const char *name, Machine *out);
bool machine_lookup(const char *name, Machine *out); /* the same without a message */
const char *machine_names(Ctx *c); /* "native, x86-64-v4, …" for messages and help */
/* has the running processor all that code for this target uses? */
bool machine_runs_here(const Machine *m);
/* The file form: a target, then facts, each on a line (see text.c). A missing fact is the target's
 * row's. Errors name the line. */
void machine_print(Text *t, const Machine *m);
bool machine_parse(Ctx *c, const char *file, const char *text, size_t n, Machine *out);
void machine_describe(Text *t, const Machine *m); /* for people */
/* Replaces name, cores and caches by what the system says of the running processor. */
void machine_detect(Arena *a, Machine *m);
/* Numbers of a type in a vector; 1 where registers hold one number, whatever its size. */
static inline uint32_t
machine_lanes(const Machine *m, DType t)
{
    uint32_t n = m->vector_bytes / dtype_info[t].bytes;

    return m->vector_bytes < 2 * sizeof(float) || !n ? 1 : n;
}

/* Bytes of a cache for data that is to stay while other data stream through: half of it. Source:
 * Goto and van de Geijn, ACM TOMS 34(3), 2008, section 6, for blocks in L1 and in L2. */
static inline int64_t
machine_block_bytes(const Machine *m, Level l)
{
    return m->level[l].bytes / 2;
}
/* Bytes that all of a kernel's data may have to stay in a cache: the rest is for the stack, for
 * prefetched lines, and for sets that more lines map to than they have ways. Of a Cascade Lake's
 * L2, 1/2, 3/4, 7/8 and all of it, read repeatedly, come at 121, 102, 74 and 57 GB/s. */
static inline int64_t
machine_usable_bytes(const Machine *m, Level l)
{
    return m->level[l].bytes / 4 * 3;
}
/* The least number of parallel tasks of a loop, if its writer can choose: two for each core. Greedy
 * assignment ends all cores within one task of each other (Graham, SIAM J. Appl. Math. 17(2),
 * 1969), so none waits longer than half of its own share. */
static inline int64_t
machine_tasks(const Machine *m)
{
    return 2 * (int64_t)m->cores;
}

/* Operations on f32 vectors that one core does while another wakes up: less work is not worth
 * distributing. */
static inline int64_t
machine_waking_operations(const Machine *m)
{
    return (int64_t)(m->wake_seconds / m->cycle_seconds * m->add_per_cycle *
                     machine_lanes(m, DT_F32));
}

/* (x^p + y^p)^(1/p): seconds of two concurrent activities, which delay each other the more the more
 * alike they are. */
static inline double
machine_together(double x, double y, double p)
{
    double longer = x > y ? x : y, shorter = x > y ? y : x;

    return shorter > 0 ? longer * pow(1 + pow(shorter / longer, p), 1 / p) : longer;
}

/* The least time in which `threads` cores can do these operations of a type and move these
 * bytes. */
double machine_roof_seconds(const Machine *m, DType t, uint32_t threads, double operations,
                            double bytes);

#endif
