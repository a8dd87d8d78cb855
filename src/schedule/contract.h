/* The contraction template's own: how it cuts a nest. */
#ifndef TENON_SCHEDULE_CONTRACT_H
#define TENON_SCHEDULE_CONTRACT_H

#include "schedule/internal.h"

typedef struct {
    Contraction k;
    uint32_t row[NEST_MAX_AXES], nrow, row_run;      /* in output order; the last row_run are one index, the others outer loops */
    uint32_t col[NEST_MAX_AXES], ncol, col_run;
    uint32_t batch[NEST_MAX_AXES], nbatch;
    uint32_t sum[NEST_MAX_AXES], nsum;               /* in the nest's order */
    const Expr *rows, *cols, *depth;                 /* extents of the one row index, column index, sum index */
    RegisterTile tile;
    uint32_t lanes;
    const Format *a_packed, *b_packed;               /* NULL: cannot lie packed as a constant */
} Cut;

bool contract_cut(Low *l, Cut *out);
const Scalar *bare_load(const Scalar *s);
const Scalar *epilogue_only(Low *l, const Scalar *reduce);
const Scalar *replace_scalar(Ctx *c, Arena *a, const Scalar *s, const Scalar *what, const Scalar *with);

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

/* Loops over the sum axes (the outermost from first, count long), all bound; *flat is the index among
 * count * inner extents. Returns the innermost block. */
Block *sum_loops(Low *l, Block *b, const Cut *cut, const Expr *first, const Expr *count, uint32_t upto, const Expr **flat);

#endif
