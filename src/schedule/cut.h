/* cut: the axes of a contraction, as what writes its schedules needs them. */
#ifndef TENON_CUT_H
#define TENON_CUT_H

#include "schedule/write.h"

typedef struct {
    Contraction k;
    /* Axes in the order of the output's dimensions. The last `run` of a list are one index: they
     * continue each other in memory for all that the outputs read and write. */
    uint32_t row[NEST_MAX_AXES], nrow, row_run;
    uint32_t col[NEST_MAX_AXES], ncol, col_run;
    uint32_t batch[NEST_MAX_AXES], nbatch;
    /* as the operand that slides lies in memory; in the nest's order where none does */
    uint32_t sum[NEST_MAX_AXES], nsum;
    /* extents of the one row index, column index, of all sums */
    const Expr *rows, *cols, *depth;
    /* the columns are the points of an image under a window that overlaps the next one */
    bool windowed;
    /* they are windows beside each other, or every second or third point, and may be copied as an
     * image */
    bool strided;
    Stage window;
    /* the rows are the points of an image under a window, or its channels' neighbours */
    bool rows_windowed;
    Stage row_window;
} Cut;

/* Vectors side by side in a panel of columns at most: tiles of many rows make panels so wide, and
 * products of one row read what lies so. A tile of rows x vectors loads 1/rows + 1/vectors for each
 * multiply-add, and fills the registers with rows * vectors, so it loads least where both are their
 * root: 5.7 of 32, 4 of 16. Wider tiles load more than those, and are lower. */
enum { WIDEST_PANEL = 6 };

bool cut_contraction(Low *l, Cut *out);
/* Is the rows' factor one read, inside of what is there, whose place is linear in every sum? */
bool cut_rows_linear(Low *l, const Cut *cut);

/* The one read of a factor that is nothing else, or that times a number; NULL: it is something
 * else. */
const Scalar *cut_only_read(const Scalar *factor);
/* Are the points of such a factor along this axis neighbours in memory? */
bool cut_lies_along(Low *l, const Scalar *factor, uint32_t axis);

/* vectors of a sum that are written out; bounds code: a longer sum is a loop */
enum { CUT_MOST_UNROLLED = 16 };

/* register tiles that get programs; bounds the list: those of more cycles are left out */
enum { TILE_SHAPES = 3 };
typedef struct {
    int64_t rows, vectors;
    double cycles;
} TileShape;
/* The register tiles [TILE_SHAPES] with the least cycles for so many rows and columns, -1: not
 * known: accumulators, one row of columns and one broadcast fill the registers at most. Where rows
 * do not divide evenly, tiles of even height are as many and shorter. column_loads: what a vector
 * of columns takes of the first cache, in loads. */
void cut_shapes(const Machine *m, int64_t nrows, int64_t ncols, int64_t lanes, double column_loads,
                TileShape *best);
/* The loads that a vector takes which begins at any element: one, and another where it lies in two
 * lines. */
double cut_loads_anywhere(const Machine *m, DType t);
/* How many trips of the innermost sum before it is read a row of a panel is asked for that is
 * deeper than the first cache holds: what the processor has in sight asks by itself, and the second
 * level answers some trips later. Further ahead, rows drive each other out of the first cache: a
 * product of 256 cubed takes 0.29 ms with 4 or 8 trips on a Cascade Lake core, 0.33 without, 0.37
 * with 18. `depth` of all sums, `inner` trips of the innermost; -1: not known. 0: no row is: the
 * panel stays, or its loop ends before. */
int64_t cut_ahead(const Machine *m, DType t, TileShape s, int64_t depth, int64_t inner);
/* How many trips, of so many bytes each, before it is read what memory has is asked for: twice what
 * is on its way at once (by Little's law, bandwidth times latency), as memory answers in no
 * order. */
int64_t cut_far(const Machine *m, int64_t trip_bytes);
/* The sums that no read of the columns' factor varies with: they count elements that share what is
 * read. They are the last. */
AxisSet cut_unread(Ctx *c, const Contraction *k);

/* How the constants lie that a factor of a part is made of, as tiles of `width` points of the last
 * `run` axes of the list are read: [outer…, tile // width, sums…, tile % width]. Lines `lay …`;
 * NULL: it is made of something else, or its dimensions are not such axes, each once. */
const char *cut_lay(const Draft *w, uint32_t part, const Scalar *factor, const uint32_t *list,
                    uint32_t nlist, uint32_t run, const uint32_t *sum, uint32_t nsum,
                    int64_t width);

#endif
