/* rows: the parts of a kernel as rows, for the writers of their programs: a part's own axes, which
 * of them are contiguous, and whether vectors run along outputs or along a sum. */
#ifndef TENON_ROWS_H
#define TENON_ROWS_H

#include "schedule/write.h"

typedef struct {
    uint32_t part;
    Low low;
    const char *name;     /* what it makes */
    const Scalar *reduce; /* or NULL */
    /* parallel axes that are not shared, outermost first */
    uint32_t own[NEST_MAX_AXES], nown;
    /* the first `free` of them are outputs whose iterations write separate elements */
    uint32_t free;
    uint32_t run; /* the last `run` of them are contiguous: one index */
    bool along;   /* vectors run along the run */
    bool placed;  /* although some summands are gathered */
    uint32_t sum[NEST_MAX_AXES], nsum;
    /* the same for the sums, if vectors run along them; 0: they do not */
    uint32_t sum_run;
    int64_t lanes;
    int64_t operations; /* of one point, once computed; 0: not yet */
} RowPart;

RowPart row_of(Draft *w, uint32_t part, uint32_t shared);
/* of contiguous axes */
const Expr *row_extent(RowPart *r, const uint32_t *axis, uint32_t n);
/* Of a part that gathers: an axis of at least a vector's lanes that is contiguous in all reads that
 * vary with it; NO_SLOT: none. Channels of an image sampled at computed positions, for example. */
uint32_t row_gather_axis(RowPart *r);
/* Lanes of a vector, fewer if there are fewer points. */
int64_t row_lanes(const RowPart *r, const Expr *extent);
/* Is a vector of the last index, at a multiple of its lanes, made of complete cache lines of the
 * output? */
bool row_is_lines(const RowPart *r, int64_t bytes);
/* Columns of a task, in complete cache lines: at least a task for each core, and at most `most`
 * columns. */
int64_t row_block(const Draft *w, const Expr *columns, int64_t bytes, int64_t most);
/* The index over a run of axes: its one axis, or the fused ones, named after the part with a
 * suffix. */
const char *row_index(Draft *w, const RowPart *r, Text *t, const uint32_t *axis, uint32_t n,
                      const char *suffix);

/* A single part that scans, or accumulates into its output (scatters). False: none, or without
 * vectors. */
bool write_scan(Draft *w, RowPart *r);
bool write_scatter(Draft *w, RowPart *r);
/* Sums of columns: row after row is added to a block of sums that fits a near cache, a few rows at
 * once. False: no such part, or with so few rows that narrow strips accumulate in registers. */
bool write_column_sums(Draft *w, RowPart *r, Text *t, const char *outside, int64_t block);

#endif
