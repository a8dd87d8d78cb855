/* gemm_axes: the axes of a contraction, sorted for the writers of its schedules. */
#ifndef TENON_GEMM_AXES_H
#define TENON_GEMM_AXES_H

#include "schedule/write.h"

typedef struct {
    Contraction k;
    /* Axes in the order of the output's dimensions. The last `run` of a list are contiguous in
     * everything that the outputs read and write, and become one index. */
    uint32_t row[NEST_MAX_AXES], nrow, row_run;
    uint32_t col[NEST_MAX_AXES], ncol, col_run;
    uint32_t batch[NEST_MAX_AXES], nbatch;
    /* in the memory order of the operand that slides; otherwise in the nest's order */
    uint32_t sum[NEST_MAX_AXES], nsum;
    /* extents of the row index, of the column index, of all sums */
    const Expr *rows, *cols, *depth;
    /* the columns are the points of an image under overlapping windows */
    bool windowed;
    /* they are windows that do not overlap, or every second or third point, and may be copied as a
     * padded input tile */
    bool strided;
    InputTile window;
    /* the rows are the points of an image under a window, or neighbours of its channels */
    bool rows_windowed;
    InputTile row_window;
} GemmAxes;

/* The most vectors in a panel of columns. Tiles of many rows make panels of this width, and GEMV
 * reads them. A tile of rows x vectors loads 1/rows + 1/vectors for each multiply-add, and fills
 * the registers with rows * vectors, so it loads least if both are the square root: 5.7 of 32, 4 of
 * 16. Wider tiles load more, and are lower. */
enum { WIDEST_PANEL = 6 };

bool gemm_axes_of(Low *l, GemmAxes *out);
/* Is the rows' factor one read, inside of its tensor, whose address is linear in every sum? */
bool gemm_rows_linear(Low *l, const GemmAxes *gemm);

/* The only read of a factor that is a read, or a read times a number; NULL: another factor. */
const Scalar *gemm_only_read(const Scalar *factor);
/* Are the points of such a factor contiguous along this axis? */
bool gemm_is_contiguous(Low *l, const Scalar *factor, uint32_t axis);

/* vectors of a sum that are unrolled; bounds code: a longer sum is a loop */
enum { GEMM_MOST_UNROLLED = 16 };

/* register tiles that get programs; bounds the list: slower ones are left out */
enum { TILE_SHAPES = 3 };
typedef struct {
    int64_t rows, vectors;
    double cycles;
} TileShape;
/* The register tiles [TILE_SHAPES] with the fewest cycles for these rows and columns, -1: unknown:
 * accumulators, one row of columns and one broadcast at most fill the registers. If rows do not
 * divide evenly, tiles of even height are as many and lower. column_loads: the cost of a vector of
 * columns from L1, in loads. */
void gemm_tile_shapes(const Machine *m, int64_t nrows, int64_t ncols, int64_t lanes,
                      double column_loads, TileShape *best);
/* The loads of a vector at any element: one, and another if it crosses a line. */
double gemm_unaligned_loads(const Machine *m, DType t);
/* The prefetch distance, in iterations of the innermost sum, for rows of a panel that exceeds L1:
 * the reorder buffer covers the first iterations, and L2 answers some iterations later. At larger
 * distances, rows evict each other from L1: a GEMM of 256 cubed takes 0.29 ms with 4 or 8 on a
 * Cascade Lake core, 0.33 without, 0.37 with 18. `depth` of all sums, `inner` iterations of the
 * innermost; -1: unknown. 0: no prefetch: the panel stays in L1, or its loop ends before. */
int64_t gemm_prefetch_distance(const Machine *m, DType t, TileShape s, int64_t depth,
                               int64_t inner);
/* The prefetch distance from memory, in iterations of `trip_bytes`: twice the bytes in flight (by
 * Little's law, bandwidth times latency), as memory answers in any order. */
int64_t gemm_memory_prefetch_distance(const Machine *m, int64_t trip_bytes);
/* The sums that no read of the columns' factor varies with: they count elements that share a read.
 * They are last. */
AxisSet gemm_unread_sums(Low *l, const Contraction *k);

/* Panels of a factor: `width` points of the index that the last `run` axes form, for all sums. */
typedef struct {
    const uint32_t *axis, *sum;
    uint32_t naxis, run, nsum;
    int64_t width;
} Panels;
Panels gemm_panels(const GemmAxes *gemm, bool rows, int64_t width);
/* The layouts of the constants of a part's factor: [outer…, index // width, sums…, index % width].
 * Lines `lay …`; NULL: not made of constants, or its dimensions are not such axes, each once. */
const char *gemm_layouts(const Draft *w, uint32_t part, const Scalar *factor, Panels panels);

#endif
