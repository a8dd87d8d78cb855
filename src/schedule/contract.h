/* The contraction template's own: how it cuts a nest. */
#ifndef TENON_SCHEDULE_CONTRACT_H
#define TENON_SCHEDULE_CONTRACT_H

#include "schedule/stage.h"

typedef struct {
    Contraction k;
    uint32_t row[NEST_MAX_AXES], nrow, row_run;      /* in output order; the last row_run are one index, the others outer loops */
    uint32_t col[NEST_MAX_AXES], ncol, col_run;
    uint32_t batch[NEST_MAX_AXES], nbatch;
    uint32_t sum[NEST_MAX_AXES], nsum;               /* in the nest's order */
    const Expr *rows, *cols, *depth;                 /* extents of the one row index, column index, sum index */
    bool staged;                                     /* B slides a window over an image: it is staged, not made into panels */
    Stage stage;
    const Expr *columns;                             /* what panels divide: cols, or the staged positions */
    RegisterTile tile;
    uint32_t lanes;
    const Format *a_packed, *b_packed;               /* NULL: cannot lie packed as a constant */
} Cut;

bool contract_cut(Low *l, Cut *out);
const Scalar *bare_load(const Scalar *s);

/* Copy the column operand of panel columns [j0, j0 + ncols) and sum points [k0, k0 + depth) into
 * pack[panel, k, 0..width): `ncols` <= width; the rest of a panel is zero. (pack.c) */
typedef struct {
    const Cut *cut;
    uint32_t buffer;                     /* scratch [panels, depth, width] */
    const Expr *panel;                   /* which */
    const Expr *j0, *ncols;
    const Expr *first, *count;           /* of the outermost sum axis: the block being packed */
    uint32_t width;
} ColumnPack;
void pack_columns(Low *l, Block *b, const ColumnPack *p);

/* The row operand of rows [i0, i0 + nrows) into pack[i, k]; the other rows keep what they have. */
typedef struct {
    const Cut *cut;
    uint32_t buffer;                     /* scratch [rows, depth] */
    const Expr *i0, *nrows;
    const Expr *first, *count;
} RowPack;
void pack_rows(Low *l, Block *b, const RowPack *p);

/* ---- one kernel being made -------------------------------------------------------------------- */

typedef struct {
    Low *l;
    Cut cut;
    uint32_t width;                      /* columns of a panel: vectors * lanes */
    bool a_ready, b_ready;               /* operand lies packed already */
    bool a_direct;                       /* rows of A are read where they are */
    uint32_t panels;                     /* column panels per task */
    const Expr *chunk;                   /* rows per task */
    const Expr *block;                   /* trips of the outermost sum axis per block */
    bool blocked;                        /* more than one block */
    const Expr *inner_depth;             /* sum points per trip of the outermost sum axis */
    uint32_t a_pack, b_pack, sums;       /* scratch */
    const Expr *i_chunk, *chunk_rows;    /* this task's rows */
    const Expr *panel0;                  /* this task's first column panel */
} Gemm;

/* Which operands lie ready, which are copied, how much a task does. (choose.c) */
void choose_operands(Gemm *g);
void choose_blocks(Gemm *g);
/* Bind the collapsed run of a list: the inner axis to the index, the others of the run to 0. */
void bind_run(Low *l, const uint32_t *axis, uint32_t n, uint32_t run, const Expr *index);
/* rows x vectors sums over k in [0, depth) of the tile at row i0, column panel `panel`. `last` clamps rows
 * beyond the end to the last one, whose products are then dropped; NULL where there are none. (tile.c) */
void register_tile(Gemm *g, Block *b, uint32_t rows, const Expr *i0, const Expr *panel, const Expr *k0, const Expr *depth, const Expr *last);
/* Where the sums of row i, column j of a tile lie. */
void sums_index(Gemm *g, const Expr *i0, const Expr *i, const Expr *panel, const Expr *j, const Expr **at);
/* The outputs of a tile's rows and columns [j0, j0 + ncols), from its sums. (epilogue.c) */
void epilogue(Gemm *g, Block *b, uint32_t rows, const Expr *i0, const Expr *nrows, const Expr *panel, const Expr *j0, const Expr *ncols);

#endif
