/* write: programs for kernels, by what their nests are. Each writer knows one shape of work; it
 * writes programs with its numbers filled in, all that may be good, and leaves the choice to their
 * price.
 */
#ifndef TENON_WRITE_H
#define TENON_WRITE_H

#include "schedule/point.h"

typedef struct {
    Ctx *c;
    Arena *a;
    Points *p;            /* as the kernel begins: for the names of loops */
    const bool *constant; /* [nin] of the kernel: known when it is compiled */
    /* they have to lie as this program lays them; NULL: as is best */
    const char *like;
    VEC(const char *) program; /* found so far, as text */
    uint32_t priced;           /* so many of them were carried out */
} Draft;

/* The name of the loop over an axis of a part. */
const char *axis_name(const Draft *w, uint32_t part, uint32_t axis);
/* "a b c": names of axes. */
const char *axis_names(const Draft *w, uint32_t part, const uint32_t *axis, uint32_t n);
/* A name for a loop over the lanes of a vector that no axis's loop has, but for those that the
 * program fuses or splits before. */
const char *lane_name(const Draft *w, const uint32_t *gone, uint32_t n);
void write_program(Draft *w, const Text *t);
/* So many vectors of sums as hide the latency of additions on all ports. */
int64_t vectors_in_flight(const Machine *m);
/* How much a task keeps is tried from the most that fits down, a fourth each time; of products with
 * open rows a half, since their panels alone say how often rows are read. Bounds the lists, the
 * price decides. */
enum { FEWER = 4, FEWER_OPEN = 2 };

/* Products of two factors, summed: matrix products, their batches, convolutions, einsums. False: it
 * is none. */
bool write_contraction(Draft *w);
/* Such products of one row under a window, whose columns are pixels: a convolution to one channel,
 * a window of many points. */
bool write_alone(Draft *w);
void write_thin(Draft *w); /* more of them, for few rows */
void write_dots(Draft *w); /* … whose columns lie along the sum */
/* A window that slides over its outputs: depthwise convolution, pooling. */
bool write_window(Draft *w);
/* Such windows where channels are neighbours; what they make may be summed over whole planes as
 * well. */
bool write_channels(Draft *w);
/* Movement whose inputs are neighbours along another axis than its outputs: transpositions. */
bool write_turn(Draft *w);
/* Products among parts over shared rows; lanes along rows, or along columns (write_lines.c). */
bool write_group(Draft *w);
/* A product whose columns a window makes: depthwise and pointwise convolution. */
bool write_separable(Draft *w);
/* A window over what a product makes: pooling behind a convolution. */
bool write_pooled(Draft *w);
/* Sums over all points of what a product makes at each. */
bool write_summed(Draft *w);
/* Sums over groups of what a product makes of each, times scales. */
bool write_scaled(Draft *w);
/* Two sums over short axes, one of what the other makes: a transform of squares. */
bool write_square(Draft *w);
/* Parts that stand beside each other, each by the best of its own programs that lay constants as
 * they have to lie. */
bool write_each(Draft *w, bool far);
/* Work on rows that the parts share, reductions, elementwise work: anything. */
void write_rows(Draft *w);
/* Does the only part sum up what lies where data say, along its outputs? As a product it would have
 * no rows to share it. */
bool row_is_gathered(Draft *w);
/* Does some reduction add nothing outside of points that its rows tell? Narrower tiles of rows
 * leave out more. */
bool has_support(Draft *w);
/* Copies of all programs found so far in which reductions leave out what adds nothing. */
void write_skips(Draft *w);
/* One loop inside the other, nothing unrolled, no vectors: the reference of the others. */
void write_plain(Draft *w);

#endif
