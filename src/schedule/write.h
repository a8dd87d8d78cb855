/* write: candidate programs for kernels, by the properties of their nests. Each writer knows one
 * kind of work; it writes all programs that may be good, with their numbers, or none, and leaves the
 * choice to their price. All writers are asked. */
#ifndef TENON_WRITE_H
#define TENON_WRITE_H

#include "schedule/point.h"

typedef struct {
    Ctx *c;
    Arena *a;
    Points *p;            /* the kernel's initial points: for the names of loops */
    const bool *constant; /* [nin] of the kernel: known at compile time */
    bool far;             /* constants come from memory in every call */
    /* use this program's constant layouts; NULL: any */
    const char *like;
    VEC(const char *) program; /* found so far, as text */
    uint32_t priced;           /* the number of them that were carried out */
} Draft;

/* Names of axes begin with this while programs are written, so that write_program finds the loops
 * that a writer makes under such a name, and gives them another one. */
enum { AXIS_MARK = '\1' };
/* The kernel's initial points, with marked names. */
void draft_begin(Draft *w, Kernel *k, const Machine *m);
/* A part, for queries about its nest. */
Low *draft_low(const Draft *w, uint32_t part);
/* The parallel axes of a part that all parts share, and the others. */
AxisSet shared_axes(const Draft *w, uint32_t part);
AxisSet own_axes(const Draft *w, uint32_t part);
/* Are there two parts over shared axes, and is the first one's result read by the second alone? */
bool is_pair(const Draft *w);
/* The name of the loop over an axis of a part. */
const char *axis_name(const Draft *w, uint32_t part, uint32_t axis);
/* "a b c": names of axes, marked. */
const char *axis_names(const Draft *w, uint32_t part, const uint32_t *axis, uint32_t n);
const char *set_names(const Draft *w, uint32_t part, AxisSet axes);
/* The loop over an axis of a part's box. */
const char *box_name(const Draft *w, uint32_t part, uint32_t axis);
/* As programs name it. */
Sym axis_sym(const Draft *w, uint32_t part, uint32_t axis);
/* Adds steps as text_printf does; `@` is the name of a part: `run @.l vector`. */
void write_steps(Text *t, const char *part, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A layout: one dimension last, the others in order. */
void write_lay_last(Text *t, const char *name, uint32_t rank, uint32_t last);
/* Adds a program; loops that it makes get names that no axis has then. */
void write_program(Draft *w, const Text *t);
/* Rows of a register tile of this width: accumulators, a row of vectors and one broadcast fill the
 * registers. */
int64_t tile_height(const Machine *m, int64_t vectors);
/* The height of tiles, at most `most`, that are as few and as even as possible. */
int64_t even_height(int64_t rows, int64_t most);
/* Is a read contiguous along the axis, and inside of its tensor? */
bool is_unit(Low *l, const Scalar *s, uint32_t axis);
/* Its stride along the axis; unknown strides count as large. */
int64_t stride_along(Low *l, const Scalar *read, uint32_t axis);
bool in_list(const uint32_t *list, uint32_t n, uint32_t axis);
/* The vectors of sums that hide the latency of additions on all ports. */
int64_t vectors_in_flight(const Machine *m);
/* The working set of a task is tried from the most that fits down, a fourth each time; for
 * contractions with open rows a half, since their panels alone decide how often rows are read.
 * Bounds the lists, the price decides. */
enum { FEWER = 4, FEWER_OPEN = 2 };

/* Separate parts, each by the best of its own programs with the required constant layouts. */
void write_independent(Draft *w);
/* Two sums over short axes, one of the other's results: a Winograd transform. */
void write_two_sided(Draft *w);
/* Contractions among parts over shared rows; lanes along rows, or along columns
 * (write_group_columns.c). */
void write_group(Draft *w);
/* Sums over groups of a contraction's results, times scales. */
void write_scaled(Draft *w);
/* Contractions: matrix multiplications, their batches, convolutions, einsums. */
void write_contraction(Draft *w);
void write_gemv(Draft *w); /* skinny GEMM and GEMV */
void write_dots(Draft *w); /* GEMV whose sum is contiguous in its columns */
/* A window that slides over its outputs: depthwise convolution, pooling. */
void write_window(Draft *w);
/* Such windows with channels innermost; their results may also be summed over complete planes. */
void write_window_channels(Draft *w);
/* Movement whose inputs are contiguous along another axis than its outputs: transposes. */
void write_transpose(Draft *w);
/* Parts that share rows, reductions, elementwise work: anything. */
void write_rows(Draft *w);
/* Has some reduction a support that its rows determine? Narrower tiles of rows skip more. */
bool has_support(Draft *w);
/* Copies of all programs so far in which reductions skip points outside of their support. */
void write_skips(Draft *w);
/* Nested loops, nothing unrolled, no vectors: the reference of the others. */
void write_default(Draft *w);

#endif
