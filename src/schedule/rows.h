/* rows: the parts of a kernel as rows, for those who write their programs: which axes are a part's
 * own, which of them are one index in memory, and whether vectors run along outputs or along a sum.
 */
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
    /* the first so many of them are outputs that trips write apart, as long as they are
     * everywhere */
    uint32_t free;
    uint32_t run; /* the last so many of them are one index in memory */
    bool along;   /* vectors run along the run */
    bool placed;  /* though some of what is summed lies where data say */
    uint32_t sum[NEST_MAX_AXES], nsum;
    /* likewise of the sums, where vectors run along them; 0: they do not */
    uint32_t sum_run;
    int64_t lanes;
    int64_t operations; /* of one point, once they were asked for; 0: not yet */
} Row;

Row row_of(Draft *w, uint32_t part, uint32_t shared);
/* of axes that are one index */
const Expr *row_extent(Row *r, const uint32_t *axis, uint32_t n);
/* Of a part that reads where data say: an axis that all reads that vary with it go along, of lanes
 * of a vector or more; NO_SLOT: there is none. Its neighbours lie together wherever data point to:
 * channels, behind the places of an image. */
uint32_t row_axis_beside_places(Row *r);
/* Lanes of a vector, fewer where there are fewer points. */
int64_t row_lanes(const Row *r, const Expr *extent);
/* Is a vector of the last index, at a multiple of its lanes, whole lines of what is written? */
bool row_is_lines(const Row *r, int64_t bytes);
/* Columns of a task, whole cache lines of elements of so many bytes: a task for each core, and no
 * more columns than `most`. */
int64_t row_block(const Draft *w, const Expr *columns, int64_t bytes, int64_t most);
/* The index over a run of axes: its one axis, or the fused ones under the part's name with a
 * suffix. */
const char *row_index(Draft *w, const Row *r, Text *t, const uint32_t *axis, uint32_t n,
                      const char *suffix);

/* A part that stands alone and scans, or adds to what is there (scatters). False: it is none, or
 * not of a kind that has vectors. */
bool write_scan(Draft *w, Row *r);
bool write_scatter(Draft *w, Row *r);
/* Sums of columns: row after row is added to a block of sums as long as lies in a near cache, a few
 * rows at once. False: the part is none, or has so few rows that the sums of narrow strips stay in
 * registers. */
bool write_columns(Draft *w, Row *r, Text *t, const char *outside, int64_t block);

#endif
