/* rows: a part of a kernel seen as rows: for each point of the axes that all parts share, the
 * part's own axes; which of them are contiguous, and whether vectors go along outputs or along a
 * sum. For the schedule writers (write_*.c). */
#ifndef TENON_ROWS_H
#define TENON_ROWS_H

#include "schedule/write.h"

typedef struct {
    uint32_t part;
    Low low;
    const char *name;     /* of its output */
    const Scalar *reduce; /* or NULL */
    /* axes of the part alone, other than reductions (a scan's axis too), in the order of their
     * loops: if the part accumulates into its output, first those that write separate elements */
    uint32_t own[NEST_MAX_AXES], nown;
    /* the first `free` of them are parallel, and their iterations write separate elements */
    uint32_t free;
    /* the last `nfused` of them form one index; more than 1 only if they are contiguous for all
     * accesses */
    uint32_t nfused;
    bool along;  /* vectors go along that index */
    bool placed; /* `along`, and some reads along it have data-dependent indices (gathers) */
    uint32_t sum[NEST_MAX_AXES], nsum; /* the reduction axes */
    /* if vectors go along a sum, the last `nsum_fused` of these form one index; 0: they do not */
    uint32_t nsum_fused;
    bool
        moved; /* the last of `sum` is not the last in the nest: its loops have to be moved inwards */
    /* of a vector: of the widest output type, or of the sum's type if !along */
    int64_t lanes;
    int64_t operations; /* of one point, once computed; 0: not yet */
} RowPart;

/* The part, of which the first `shared` axes other than reductions are shared. */
RowPart row_of(Draft *w, uint32_t part, uint32_t shared);
/* The product of the axes' extents. */
const Expr *row_extent(RowPart *r, const uint32_t *axis, uint32_t n);
/* Of a part that is `placed`: an axis outside of its index, of at least a vector's lanes, along
 * which all reads that vary with it are contiguous; NO_SLOT: none. Channels of an image sampled at
 * computed positions, for example. */
uint32_t row_gather_axis(RowPart *r);
/* The part's lanes, halved while half of them cover the extent: a vector is not mostly empty. */
int64_t row_lanes(const RowPart *r, const Expr *extent);
/* Is each vector of the part's index, at a multiple of its lanes, made of complete cache lines of
 * the first output? `bytes`: of its element. */
bool row_is_lines(const RowPart *r, int64_t bytes);
/* Columns of a task: an even share of the columns for each core, rounded up to complete cache
 * lines, but at most `most`; `most` if their number is symbolic. `bytes`: of an element. */
int64_t row_block(const Draft *w, const Expr *columns, int64_t bytes, int64_t most);
/* The name of the index over adjacent axes: of the one axis, or, after a printed step that fuses
 * them, of the part with a suffix. */
const char *row_index(Draft *w, const RowPart *r, Text *t, const uint32_t *axis, uint32_t n,
                      const char *suffix);

/* A single part that scans, or accumulates into its output (scatters). False: the part is no such
 * thing, or no vector fits where one is needed; nothing is written. */
bool write_scan(Draft *w, RowPart *r);
bool write_scatter(Draft *w, RowPart *r);
/* Sums of columns: row after row is added to a block of sums that fits a near cache, a few rows at
 * once. False: no such part, or with so few rows that narrow strips accumulate in registers. */
bool write_column_sums(Draft *w, RowPart *r, Text *t, const char *outside, int64_t block);

#endif
