/* write: candidate programs for kernels, by the properties of their nests. Each writer knows one
 * kind of work; it writes all programs that may be good, with their numbers, and leaves the choice
 * to their price. */
#ifndef TENON_WRITE_H
#define TENON_WRITE_H

#include "schedule/point.h"

typedef struct {
    Ctx *c;
    Arena *a;
    Points *p;            /* the kernel's initial points: for the names of loops */
    const bool *constant; /* [nin] of the kernel: known at compile time */
    /* use this program's constant layouts; NULL: any */
    const char *like;
    VEC(const char *) program; /* found so far, as text */
    uint32_t priced;           /* the number of them that were carried out */
} Draft;

/* The name of the loop over an axis of a part. */
const char *axis_name(const Draft *w, uint32_t part, uint32_t axis);
/* "a b c": names of axes. */
const char *axis_names(const Draft *w, uint32_t part, const uint32_t *axis, uint32_t n);
/* Packs a buffer with one dimension innermost. */
void lay_last(Text *t, const char *buffer, uint32_t rank, uint32_t last);
/* A name for a loop over the lanes of a vector that no axis's loop has, apart from those that the
 * program fuses or splits before. */
const char *lane_name(const Draft *w, const uint32_t *gone, uint32_t n);
void write_program(Draft *w, const Text *t);
/* The vectors of sums that hide the latency of additions on all ports. */
int64_t vectors_in_flight(const Machine *m);
/* The working set of a task is tried from the most that fits down, a fourth each time; for
 * contractions with open rows a half, since their panels alone decide how often rows are read.
 * Bounds the lists, the price decides. */
enum { FEWER = 4, FEWER_OPEN = 2 };

/* Contractions: matrix multiplications, their batches, convolutions, einsums. False: none. */
bool write_contraction(Draft *w);
/* Contractions of one row under a window, whose columns are pixels: a convolution to one channel, a
 * window of many points. */
bool write_alone(Draft *w);
void write_thin(Draft *w); /* skinny GEMM and GEMV */
void write_dots(Draft *w); /* GEMV whose sum is contiguous in its columns */
/* A window that slides over its outputs: depthwise convolution, pooling. */
bool write_window(Draft *w);
/* Such windows with channels innermost; their results may also be summed over complete planes. */
bool write_channels(Draft *w);
/* Movement whose inputs are contiguous along another axis than its outputs: transposes. */
bool write_turn(Draft *w);
/* Contractions among parts over shared rows; lanes along rows, or along columns (write_lines.c). */
bool write_group(Draft *w);
/* A contraction whose columns come from a window: depthwise and pointwise convolution. */
bool write_separable(Draft *w);
/* A window over the result of a contraction: pooling after a convolution. */
bool write_pooled(Draft *w);
/* Sums over all points of a contraction's result. */
bool write_summed(Draft *w);
/* Sums over groups of a contraction's results, times scales. */
bool write_scaled(Draft *w);
/* Two sums over short axes, one of the other's results: a Winograd transform. */
bool write_square(Draft *w);
/* Separate parts, each by the best of its own programs with the required constant layouts. */
bool write_each(Draft *w, bool far);
/* Parts that share rows, reductions, elementwise work: anything. */
void write_rows(Draft *w);
/* Does the only part sum gathered elements, with contiguous outputs? As a contraction it would have
 * no shared rows. */
bool row_is_gathered(Draft *w);
/* Has some reduction a support that its rows determine? Narrower tiles of rows skip more. */
bool has_support(Draft *w);
/* Copies of all programs so far in which reductions skip points outside of their support. */
void write_skips(Draft *w);
/* Nested loops, nothing unrolled, no vectors: the reference of the others. */
void write_plain(Draft *w);

#endif
