/* machine: what a target offers: vectors, registers, caches and cores, and how fast each of them
 * is. Schedules and prices ask here instead of naming processors.
 *
 * The facts of a machine come from a row of the table, or from a file that `tenon machine` measured
 * and wrote: nothing is asked of the processor that compiles, so that the same input, options and
 * machine give the same code anywhere. (The one exception is the name "native", which stands for a
 * row.)
 */
#ifndef TENON_MACHINE_H
#define TENON_MACHINE_H

#include "base/base.h"
#include "type/dtype.h"

#include <math.h>

typedef enum { LEVEL_L1, LEVEL_L2, LEVEL_L3, LEVEL_MEMORY, LEVEL_COUNT } Level;

/* Vector loads and stores over contiguous memory [bytes/s]. copy counts what is read and what is
 * written. */
/* of the probes of lines that are written apart */
enum { MACHINE_APART_ROWS = 256, MACHINE_BESIDE_ROWS = 32 };

typedef struct {
    double read, write, copy;
} Bandwidth;

typedef struct {
    /* L1, L2: of one core; L3: shared by all cores; memory: INT64_MAX */
    int64_t bytes;
    double latency_seconds; /* of a load whose address the load before it gave */
    Bandwidth one, all;     /* of one thread; of all `cores` together */
} MemoryLevel;

/* A machine without a level has it with the facts of the next lower one and 0 bytes. Of what is
 * measured,
 * 0 stands for "the machine has no such step". */
typedef struct {
    const char *name; /* a row of the table: "x86-64-v4", … */
    /* for the C compiler: "-march=x86-64-v4 -mprefer-vector-width=512" */
    const char *flags;
    const char *cpu_check; /* C expression, 1 if the running processor will do */
    const char *processor; /* whose facts these are, for people */

    uint32_t vector_bytes;     /* 64, 32, 16 */
    uint32_t vector_registers; /* 32, 16 */
    uint32_t line_bytes;       /* of a cache line */
    uint32_t cores;            /* that a kernel is to be shared out among */

    /* One core. A cycle is what a chain of dependent integer additions needs for one of them. */
    double cycle_seconds;
    double issue_per_cycle; /* instructions started */
    /* instructions on vectors that one which waits lets pass: so far the processor looks ahead */
    double window;
    double fma_per_cycle; /* vectors of f32 multiply-adds started: the number of ports */
    double fma_cycles;    /* from operand to result */
    double add_per_cycle; /* vectors of f32 additions started */
    /* multiply-adds and simple operations in turn: no unit does both */
    double mixed_per_cycle;
    double load_per_cycle, store_per_cycle; /* vectors, from and to the first level */
    /* from the start of one vector of f32 to the next */
    double divide_cycles, sqrt_cycles, gather_cycles;
    /* the same where only the first lanes are loaded or stored */
    double part_load_cycles, part_store_cycles;
    double branch_cycles; /* lost to a branch that was not foreseen */

    /* One core, by type; a multiply-add counts as two. */
    double f32_per_second, f64_per_second; /* [FLOP/s] multiply-adds of vectors */
    double bf16_dot_per_second;            /* [FLOP/s] the machine's step of bf16 pairs into f32 */
    /* [OP/s] the machine's step of int16 pairs into i32, and its addition */
    double i16_dot_per_second;
    double i8_dot_per_second; /* [OP/s] the machine's step of int8 quads into i32 */
    /* [elements/s] loaded from L1 and widened to f32 */
    double f16_load_per_second, bf16_load_per_second;
    /* [elements/s] rounded from f32 and stored to L1 */
    double f16_store_per_second, bf16_store_per_second;

    /* The products of a library (CBLAS), one core; 0: not measured. It lays its operands out anew
     * in every call. */
    double blas_f32_per_second;    /* [FLOP/s] of f32, beside that */
    double blas_layout_per_second; /* [bytes/s] */
    double blas_call_seconds;      /* of a product of two numbers */

    MemoryLevel level[LEVEL_COUNT];
    /* p: arithmetic that takes x alone, and lines of the second level that take y, take (x^p +
     * y^p)^(1/p) together */
    double overlap;
    /* [bytes/s] lines of the second level that lie apart, read by one thread; 0: not measured */
    double near_step_per_second;
    /* [bytes/s] memory in small pages, as files have them, read by one thread: in one stretch; in
     * four side by side; in lines that lie apart, and in pieces of four lines that do (0: not
     * measured). */
    double stretch_per_second, side_per_second, step_per_second, piece_per_second;
    /* [bytes/s] whole lines written to memory that lie apart, so that nothing fetches them ahead;
     * past the caches, where they are not read first (MACHINE_APART_ROWS side by side, a page
     * apart). Of one thread; of all `cores` together. */
    double apart_per_second, stream_per_second, apart_all_per_second, stream_all_per_second;
    /* [bytes/s] past the caches of MACHINE_BESIDE_ROWS side by side, by one thread; 0: not
     * measured */
    double beside_per_second;

    /* The runtime. */
    double call_seconds; /* of a kernel with nothing to do, on the calling thread */
    /* added by sharing a kernel with workers that spin: from the call to the end */
    double wake_seconds;
    double unpark_seconds; /* the same where the workers sleep */
} Machine;

/* name: a row of the table, or "native": the best row that the running processor satisfies.
 * Errors: unknown name, listing all. */
bool machine_find(Ctx *c, const char *name, Machine *out);
const char *machine_names(Ctx *c); /* "native, x86-64-v4, …" for messages and help */
/* has the running processor what code for this target uses? */
bool machine_runs_here(const Machine *m);
/* The file form: a target, then facts, each on a line (see text.c). What is not said is as the
 * target's row has it. Errors name the line. */
void machine_print(Text *t, const Machine *m);
bool machine_parse(Ctx *c, const char *file, const char *text, size_t n, Machine *out);
void machine_table(Text *t, const Machine *m); /* for people */
/* What the system says of the running processor: its name, cores and caches, in place of the
 * row's. */
void machine_ask(Arena *a, Machine *m);
static inline uint32_t
machine_lanes(const Machine *m, DType t)
{
    return m->vector_bytes / dtype_info[t].bytes;
}

/* Bytes of a cache for what is to stay there while other data pass: half, or these drive it out.
 * Source: Goto and van de Geijn, ACM TOMS 34(3), 2008, section 6, for blocks in the first and in
 * the second level. */
static inline int64_t
machine_block_bytes(const Machine *m, Level l)
{
    return m->level[l].bytes / 2;
}
/* Bytes that all of a kernel's data may have so that they stay: the rest of a cache is the stack's,
 * what is fetched ahead, and sets that more lines fall into than it has. Of a Cascade Lake's second
 * level 1/2, 3/4, 7/8 and all of it, read over and over, come at 121, 102, 74 and 57 GB/s. */
static inline int64_t
machine_usable_bytes(const Machine *m, Level l)
{
    return m->level[l].bytes / 4 * 3;
}
/* Tasks that a parallel loop has at least, where its writer can say: two for each core. Taken as
 * they come, all cores end within one task of each other (Graham, SIAM J. Appl. Math. 17(2), 1969),
 * so none waits longer than half of its own part takes. */
static inline int64_t
machine_tasks(const Machine *m)
{
    return 2 * (int64_t)m->cores;
}

/* Operations on f32 vectors that one core does while another is woken: less is not worth
 * sharing. */
static inline int64_t
machine_waking_operations(const Machine *m)
{
    return (int64_t)(m->wake_seconds / m->cycle_seconds * m->add_per_cycle *
                     machine_lanes(m, DT_F32));
}

/* (x^p + y^p)^(1/p): seconds of two things that go on side by side and wait for each other the more
 * the nearer they are. */
static inline double
machine_together(double x, double y, double p)
{
    double longer = x > y ? x : y, shorter = x > y ? y : x;

    return shorter > 0 ? longer * pow(1 + pow(shorter / longer, p), 1 / p) : longer;
}

/* The least time in which `threads` of the cores could do so many operations of a type and move so
 * many bytes. */
double machine_roof_seconds(const Machine *m, DType t, uint32_t threads, double operations,
                            double bytes);

#endif
