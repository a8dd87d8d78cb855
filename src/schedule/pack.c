/* pack: copying the operands of a contraction into panels.
 *
 * Columns of a panel are a run of the one column index. Where the operand's offset is linear in that
 * index, a panel row is a vector copy; where it is contiguous along the sum instead, vectors of sum
 * points are spread over the panel. Otherwise (a window over a computed operand) the run is cut where
 * the inner column axis starts again. Plain images under a window are not packed but staged (stage.c).
 */
#include "schedule/contract.h"

typedef struct { const ColumnPack *p; const Expr *flat, *base; } Copy;

/* Loops over the first `upto` sum axes (the outermost from first, count long), all bound; *flat is the
 * index among count * inner extents. Returns the innermost block. */
static Block *
sum_loops(Low *l, Block *b, const Cut *cut, const Expr *first, const Expr *count, uint32_t upto, const Expr **flat)
{
    *flat = expr_int(l->c, 0);
    for (uint32_t i = 0; i < upto; i++) {
        const Expr *extent = i == 0 ? count : low_extent(l, cut->sum[i]);
        const Expr *v = low_loop(l, &b, LOOP_SERIAL, l->n->axis[cut->sum[i]].name, expr_int(l->c, 0), extent, 1);
        l->bind[cut->sum[i]] = i == 0 ? expr_add(l->c, first, v) : v;
        *flat = expr_add(l->c, expr_mul(l->c, *flat, extent), v);
    }
    return b;
}

static void
store_packed(Low *l, Block *b, const ColumnPack *p, const Expr *flat, const Expr *lane, const Scalar *value)
{
    const Expr *at[3] = {p->panel, flat, lane};
    low_store(l, b, p->buffer, at, 3, value);
}

static const Scalar *
factor_value(Low *l, Block *b, const Scalar *s)
{
    Map outside = low_known(l);
    low_reductions(l, b, &s, 1);
    const Scalar *v = low_value(l, s);
    l->value = outside;
    return v;
}

/* Zero the columns that a last, partial panel does not have. */
static void
pad_panel(Low *l, Block *b, const ColumnPack *p, const Expr *flat)
{
    uint32_t ranges = l->range.n;
    if (expr_is(p->ncols, p->width))
        return;
    const Expr *j = low_loop(l, &b, LOOP_SERIAL, "j", p->ncols, expr_int(l->c, p->width), 1);
    store_packed(l, b, p, flat, j, scalar_number(l->c, p->cut->k.reduce->dtype, 0));
    l->range.n = ranges;
}

static void
bind_columns(Low *l, const Cut *cut, const Expr *index)
{
    for (uint32_t i = cut->ncol - cut->col_run; i < cut->ncol; i++)
        l->bind[cut->col[i]] = i + 1 == cut->ncol ? index : expr_int(l->c, 0);
}

/* ---- offsets linear in the column index ------------------------------------------------------------ */

static bool
columns_are_linear(Low *l, const Cut *cut)
{
    for (uint32_t i = cut->ncol - cut->col_run; i + 1 < cut->ncol; i++)
        if (!low_collapses(l, cut->col[i], cut->col[i + 1], &cut->k.b, 1, NULL))
            return false;
    return true;
}

static void
copy_linear_step(Low *l, Block *b, void *user)
{
    Copy *k = user;
    const Cut *cut = k->p->cut;
    uint32_t inner = cut->col[cut->ncol - 1];
    const Expr *jj = l->bind[inner];

    bind_columns(l, cut, expr_add(l->c, k->p->j0, jj));
    store_packed(l, b, k->p, k->flat, jj, factor_value(l, b, cut->k.b));
    l->bind[inner] = jj;
}

static void
copy_linear(Low *l, Block *b, const ColumnPack *p)
{
    uint32_t ranges = l->range.n;
    const Cut *cut = p->cut;
    Copy k = {.p = p};

    b = sum_loops(l, b, cut, p->first, p->count, cut->nsum, &k.flat);
    low_vector_loop(l, b, cut->col[cut->ncol - 1], "j", expr_int(l->c, 0), p->ncols, cut->lanes, copy_linear_step, &k);
    pad_panel(l, b, p, k.flat);
    l->range.n = ranges;
}

/* ---- contiguous along the sum: read vectors of k, scatter them over the panel ------------------------- */

static bool
contiguous_along(Low *l, const Scalar *s, uint32_t axis)
{
    return s->op == S_LOAD && !s->u.load.outside && low_stride(l, s, axis) && expr_is(low_stride(l, s, axis), 1);
}

static void
copy_transposed_step(Low *l, Block *b, void *user)
{
    Copy *k = user;
    const Cut *cut = k->p->cut;
    uint32_t inner = cut->sum[cut->nsum - 1];
    const Expr *flat = expr_add(l->c, k->flat, l->bind[inner]), *here = l->bind[inner];

    if (cut->nsum == 1)
        l->bind[inner] = expr_add(l->c, k->p->first, here);
    store_packed(l, b, k->p, flat, k->base, factor_value(l, b, cut->k.b));
    l->bind[inner] = here;
}

static void
copy_transposed(Low *l, Block *b, const ColumnPack *p)
{
    uint32_t ranges = l->range.n;
    const Cut *cut = p->cut;
    uint32_t inner = cut->sum[cut->nsum - 1];
    const Expr *extent = cut->nsum == 1 ? p->count : low_extent(l, inner);
    Copy k = {.p = p};
    Block *in = b;

    k.base = low_loop(l, &in, LOOP_SERIAL, "j", expr_int(l->c, 0), p->ncols, 1);
    bind_columns(l, cut, expr_add(l->c, p->j0, k.base));
    in = sum_loops(l, in, cut, p->first, p->count, cut->nsum - 1, &k.flat);
    k.flat = expr_mul(l->c, k.flat, extent);
    low_vector_loop(l, in, inner, "k", expr_int(l->c, 0), extent, cut->lanes, copy_transposed_step, &k);
    l->range.n = ranges;
    if (!expr_is(p->ncols, p->width)) {
        in = b;
        const Expr *flat = low_loop(l, &in, LOOP_SERIAL, "k", expr_int(l->c, 0), expr_mul(l->c, p->count, axes_product(l, cut->sum + 1, cut->nsum - 1)), 1);
        pad_panel(l, in, p, flat);
    }
    l->range.n = ranges;
}

/* ---- runs of the inner column axis ---------------------------------------------------------------------- */

static void
copy_run_step(Low *l, Block *b, void *user)
{
    Copy *k = user;
    const Cut *cut = k->p->cut;
    const Expr *x = l->bind[cut->col[cut->ncol - 1]];

    store_packed(l, b, k->p, k->flat, expr_add(l->c, k->base, x), factor_value(l, b, cut->k.b));
}

static void
copy_runs(Low *l, Block *b, const ColumnPack *p)
{
    Ctx *c = l->c;
    const Cut *cut = p->cut;
    uint32_t ranges = l->range.n, start = cut->ncol - cut->col_run;
    uint32_t inner = cut->col[cut->ncol - 1];
    const Expr *extent = low_extent(l, inner), *end = expr_add(c, p->j0, p->ncols);
    Copy k = {.p = p};

    b = sum_loops(l, b, cut, p->first, p->count, cut->nsum, &k.flat);
    pad_panel(l, b, p, k.flat);
    if (cut->col_run == 1) {
        k.base = expr_sub(c, expr_int(c, 0), p->j0);
        low_vector_loop(l, b, inner, "x", p->j0, end, cut->lanes, copy_run_step, &k);
    } else {
        const Expr *outer = low_loop(l, &b, LOOP_SERIAL, "y", expr_div(c, p->j0, extent), expr_ceil_div(c, end, extent), 1);
        low_bind_digits(l, b, cut->col + start, cut->col_run - 1, outer);
        const Expr *row = expr_mul(c, outer, extent);
        const Expr *left = low_let(l, b, "left", expr_max(c, expr_int(c, 0), expr_sub(c, p->j0, row)), NULL);
        const Expr *right = low_let(l, b, "right", expr_min(c, extent, expr_sub(c, end, row)), NULL);
        k.base = expr_sub(c, row, p->j0);
        low_vector_loop(l, b, inner, "x", left, right, cut->lanes, copy_run_step, &k);
    }
    l->range.n = ranges;
}

void
pack_columns(Low *l, Block *b, const ColumnPack *p)
{
    const Cut *cut = p->cut;

    if (cut->nsum && contiguous_along(l, cut->k.b, cut->sum[cut->nsum - 1]) && columns_are_linear(l, cut))
        copy_transposed(l, b, p);
    else if (columns_are_linear(l, cut))
        copy_linear(l, b, p);
    else
        copy_runs(l, b, p);
    for (uint32_t i = 0; i < cut->nsum; i++)
        l->bind[cut->sum[i]] = NULL;
    for (uint32_t i = cut->ncol - cut->col_run; i < cut->ncol; i++)
        l->bind[cut->col[i]] = NULL;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

typedef struct { const RowPack *p; const Expr *row, *flat; } RowCopy;

static void
copy_row_step(Low *l, Block *b, void *user)
{
    RowCopy *k = user;
    const Cut *cut = k->p->cut;
    uint32_t inner = cut->sum[cut->nsum - 1];
    const Expr *here = l->bind[inner], *at[2] = {k->row, expr_add(l->c, k->flat, here)};

    if (cut->nsum == 1)
        l->bind[inner] = expr_add(l->c, k->p->first, here);
    low_store(l, b, k->p->buffer, at, 2, factor_value(l, b, cut->k.a));
    l->bind[inner] = here;
}

void
pack_rows(Low *l, Block *b, const RowPack *p)
{
    Ctx *c = l->c;
    const Cut *cut = p->cut;
    uint32_t ranges = l->range.n, start = cut->nrow - cut->row_run;
    RowCopy k = {.p = p};

    k.row = low_loop(l, &b, LOOP_SERIAL, "i", expr_int(c, 0), p->nrows, 1);
    if (cut->row_run)
        low_bind_digits(l, b, cut->row + start, cut->row_run, expr_add(c, p->i0, k.row));
    if (cut->nsum == 0) {
        const Expr *at[2] = {k.row, expr_int(c, 0)};
        low_store(l, b, p->buffer, at, 2, factor_value(l, b, cut->k.a));
    } else {
        uint32_t inner = cut->sum[cut->nsum - 1];
        const Expr *extent = cut->nsum == 1 ? p->count : low_extent(l, inner);
        b = sum_loops(l, b, cut, p->first, p->count, cut->nsum - 1, &k.flat);
        k.flat = expr_mul(c, k.flat, extent);
        low_vector_loop(l, b, inner, "k", expr_int(c, 0), extent, cut->lanes, copy_row_step, &k);
    }
    for (uint32_t i = 0; i < cut->nsum; i++)
        l->bind[cut->sum[i]] = NULL;
    l->range.n = ranges;
}
