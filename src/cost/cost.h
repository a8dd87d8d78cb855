/* cost: what one call of a scheduled kernel takes on a machine, in seconds.
 *
 * The price is computed from the final loop tree alone: it knows no template and no operator, so it
 * prices whatever a schedule can build, and two trees of one kernel can be compared. It is made of
 *
 *   work      every stretch of straight code by the units it keeps busy: multiply-adds, other
 *             arithmetic, loads, stores, instructions started; and by the chain of values that one
 *             trip of a loop hands to the next (too few accumulators);
 *   traffic   for each cache the lines that a trip of each loop touches. What the body of a loop
 *             touches stays in the smallest cache that holds it; everything else is read again;
 *   start-up  of the call and of the threads it is shared out among, and what the longest of their
 *             shares has more than the mean.
 *
 * A phase, the straight code of one loop's body, takes its work and its traffic, which overlap in
 * part. Phases follow one another. Trip counts, tests and strides are numbers at the given sizes:
 * loops whose trips differ are visited at their first, last and some middle trips.
 *
 * Sources: doc/cost.md.
 */
#ifndef TENON_COST_H
#define TENON_COST_H

#include "machine/machine.h"
#include "kernel/kernel.h"

/* One symbol's value. */
typedef struct {
    Sym symbol;
    int64_t value;
} Size;

typedef struct {
    /* [nsize]; a symbol that is not there has the largest size that users expect, or the middle of
     * a usual range */
    const Size *size;
    uint32_t nsize;
    uint32_t threads; /* that the call is shared out among; >= 1 */
    /* [nin + nout]: where each argument lies when the call begins; NULL: an argument that half
     * fills a cache is in the next larger one */
    const Level *home;
    /* [nin]: lies in memory, whatever its size, and so does what is kept; NULL: nothing does. Not
     * with home */
    const bool *far;
} CostAsk;

typedef struct {
    double seconds; /* of the call, until its last thread is done */
    /* What it is made of [seconds], each as if it were alone, on the thread that has most to do: */
    double flops;          /* arithmetic at the rate of its units */
    double chain;          /* waiting for a value of the trip before */
    double l1;             /* loads and stores */
    double issue;          /* starting instructions, loops among them */
    double l2, l3, memory; /* lines that come from, or go to, each level */
    double startup;        /* the call */
    double parallel;       /* waking workers, and the longest share's excess over the mean */
    /* Counts, over all threads: */
    double work;               /* arithmetic operations; a multiply-add is two */
    double bytes[LEVEL_COUNT]; /* from and to each level; [LEVEL_L1] by loads and stores */
} Cost;

/* the smallest cache that so much half fills at most */
Level cost_level(const Machine *m, double bytes);
/* Where argument i lies if nobody says: in the smallest cache that it half fills at most. */
Level cost_home(Ctx *c, const Kernel *k, const Machine *m, const CostAsk *ask, uint32_t i);
/* Cost  some microseconds for a loop nest; about 100 for a product of two matrices with its
 * packing. */
Cost cost_kernel(Ctx *c, const Kernel *k, const Machine *m, const CostAsk *ask);
/* The same, and a line for each phase that takes time: its loops, its trips, what a trip is made
 * of. */
Cost cost_explain(Ctx *c, Text *why, const Kernel *k, const Machine *m, const CostAsk *ask);
/* A size where nothing is known of its symbols but their ranges: as if nobody said any in a
 * CostAsk. */
double cost_usual(Ctx *c, const Expr *e);
/* What a nest takes by its access maps alone, before it has loops: a guess, for those who compare
 * many of them. */
typedef struct {
    /* [seconds] arithmetic, and loads of lanes that lie apart, of one core */
    double work;
    /* [seconds] of a product, in front of that: its multiply-adds, and what makes its factors
     * ready */
    double inner;
    /* [seconds] of it the multiply-adds alone, which are done wherever it is put */
    double least;
    double trips;  /* points of its parallel axes */
    double *bytes; /* [nin + nout] what of each parameter is touched */
    /* [nin + nout] read by a factor of the product: comes with `inner`, all else with `work` */
    bool *factor;
} CostFormula;
/* Cost  some microseconds. Arena  a: of the result and of scratch. */
CostFormula cost_formula(Ctx *c, Arena *a, const Nest *n, const Machine *m);
/* Of the points of a nest's sum along these axes, the share that its support leaves; 1: nearly all
 * (share.c). */
double cost_share(Ctx *c, Arena *a, const Nest *n, AxisSet sum);
/* `batch` products of [rows, sum] and [sum, columns] by the library that a machine was measured
 * with; far: an operand comes from memory. The mean of one core alone and of all cores at it, as of
 * a schedule's price. */
typedef struct {
    DType dtype;
    double batch, rows, columns, sum;
    bool far_a, far_b;
} LibraryProduct;
double cost_library(const LibraryProduct *p, const Machine *m);
/* "12.3 us: flops 10.1, chain 0.2, …": one line, without a newline. */
void cost_print(Text *t, const Cost *cost);

#endif
