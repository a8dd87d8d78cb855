/* cost: the predicted seconds of one call of a scheduled kernel on a machine.
 *
 * The price is computed from the final loop tree alone: it knows no template and no operator, so
 * any two trees of one kernel can be compared. It is made of
 *
 *   work      straight code by the units that it keeps busy: multiply-adds, other arithmetic, loads,
 *             stores, instructions issued; and by the dependence chain from one iteration of a loop to
 *             the next (too few accumulators);
 *   traffic   for each cache the lines that an iteration of each loop touches. The footprint of a
 *             loop's body stays in the smallest cache that holds it; everything else is read again;
 *   start-up  of the call and of the threads it is distributed over, and the excess of their longest
 *             share over the mean.
 *
 * A phase, the straight code of one loop's body, takes its work and its traffic, which overlap in
 * part. Phases follow one another. Iteration counts, tests and strides are numbers at the given
 * sizes: loops whose iterations differ are visited at their first, last and some middle iterations.
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
    /* [nsize]; a missing symbol has its largest size hint, or the middle of its assumed range */
    const Size *size;
    uint32_t nsize;
    uint32_t threads; /* that the call is distributed over; >= 1 */
    /* [nin]: in memory when the call begins, whatever its size, as is what is kept; all others are
     * in the smallest cache that they half fill at most. NULL: none */
    const bool *far;
} CostQuery;

typedef struct {
    double seconds; /* of the call, until its last thread is done */
    /* Its components [seconds], each as if alone, on the thread with most work: */
    double flops;          /* arithmetic at the rate of its units */
    double chain;          /* the dependence chain between iterations */
    double l1;             /* loads and stores */
    double issue;          /* issuing instructions, those of loops included */
    double l2, l3, memory; /* lines transferred from and to each level */
    double startup;        /* the call */
    double parallel;       /* waking workers, and the longest share's excess over the mean */
    /* Counts, over all threads: */
    double work;               /* arithmetic operations; a multiply-add is two */
    double bytes[LEVEL_COUNT]; /* from and to each level; [LEVEL_L1] by loads and stores */
} Cost;

/* the smallest cache that these bytes half fill at most */
Level cost_level(const Machine *m, double bytes);
/* The smallest cache that argument i half fills at most, at its expected size. */
Level cost_argument_level(Ctx *c, const Kernel *k, const Machine *m, uint32_t i);
/* Cost: some microseconds for a loop nest; about 100 for a GEMM with its packing. */
Cost cost_kernel(Ctx *c, const Kernel *k, const Machine *m, const CostQuery *query);
/* The same, and a line for each phase that takes time: its loops, its iterations, what one is made
 * of. */
Cost cost_explain(Ctx *c, Text *why, const Kernel *k, const Machine *m, const CostQuery *query);
/* A size by the ranges and hints of its symbols, as with an empty CostQuery. */
double cost_expected_size(Ctx *c, const Expr *e);
/* The price of a nest by its access maps alone, before it has loops: an estimate, for comparing
 * many of them. */
typedef struct {
    /* [seconds] arithmetic, and strided loads of lanes, on one core */
    double work;
    /* [seconds] of a contraction, besides that: its multiply-adds, and the preparation of its
     * factors */
    double inner;
    /* [seconds] of it the multiply-adds alone, which are needed anywhere */
    double least;
    double trips;  /* points of its parallel axes */
    double *bytes; /* [nin + nout] bytes of each parameter that are touched */
    /* [nin + nout] read by a factor of the contraction: counts with `inner`, all else with `work` */
    bool *factor;
} CostFormula;
/* Cost: some microseconds. Arena a: for the result and scratch. */
CostFormula cost_formula(Ctx *c, Arena *a, const Nest *n, const Machine *m);
/* The share of the points of a nest's sum along these axes that its support leaves; 1: nearly all
 * (density.c). */
double cost_density(Ctx *c, Arena *a, const Nest *n, AxisSet sum);
/* `batch` GEMMs of [rows, sum] and [sum, columns] by the measured library; far: an operand comes
 * from memory. The mean over one core and over all cores, like a schedule's price. */
typedef struct {
    DType dtype;
    double batch, rows, columns, sum;
    bool far_a, far_b;
} LibraryProduct;
double cost_library(const LibraryProduct *p, const Machine *m);

#endif
