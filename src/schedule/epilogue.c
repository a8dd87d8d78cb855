/* epilogue: from the sums of a register tile to outputs.
 *
 * Whatever stands around the sum in the nest's value (bias, activation, residual) is computed by ordinary
 * vector loops over the small tile in memory. Over a staged image the columns are positions, and the
 * outputs among them are picked row by row.
 */
#include "schedule/contract.h"

typedef struct { Gemm *g; const Expr *i0, *i, *panel, *j0, *row; } Epilogue;

static void
epilogue_step(Low *l, Block *b, void *user)
{
    Epilogue *e = user;
    Gemm *g = e->g;
    const Cut *cut = &g->cut;
    const Write *w = &l->n->write[0];
    uint32_t inner = cut->col[cut->ncol - 1];
    const Expr *jj = l->bind[inner], *at[3];

    sums_index(g, e->i0, e->i, e->panel, jj, at);
    bind_run(l, cut->col, cut->ncol, cut->col_run, expr_add(l->c, e->j0, jj));
    Map outside = l->value;
    l->value = (Map){.arena = l->a};
    map_put(&l->value, MAP_PTR(cut->k.reduce), MAP_PTR(scalar_load(l->c, cut->k.reduce->dtype, g->sums, 3, at, NULL)));
    low_write(l, b, w, low_value(l, w->value));
    l->value = outside;
    l->bind[inner] = jj;
}

/* One output of a row of the staged image: the innermost axis is bound to itself. */
static void
staged_step(Low *l, Block *b, void *user)
{
    Epilogue *e = user;
    Gemm *g = e->g;
    const Write *w = &l->n->write[0];
    const Expr *x = l->bind[g->cut.col[g->cut.ncol - 1]], *at[3];

    sums_index(g, e->i0, e->i, e->panel, expr_add(l->c, expr_sub(l->c, e->row, e->j0), x), at);
    Map outside = l->value;
    l->value = (Map){.arena = l->a};
    map_put(&l->value, MAP_PTR(g->cut.k.reduce), MAP_PTR(scalar_load(l->c, g->cut.k.reduce->dtype, g->sums, 3, at, NULL)));
    low_write(l, b, w, low_value(l, w->value));
    l->value = outside;
}

/* The outputs among positions [j0, j0 + ncols): for each row of the image that they touch, the part
 * that lies within the output. */
static void
staged_columns(Gemm *g, Block *b, Epilogue *e, const Expr *ncols)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    const Stage *s = &g->cut.stage;
    uint32_t inner = cut->col[cut->ncol - 1], ranges = l->range.n;
    const Expr *end = expr_add(c, e->j0, ncols), *extent = low_extent(l, inner);

    e->row = expr_int(c, 0);
    if (s->nslide > 1) {
        const Expr *pitch = s->slide[s->nslide - 2].pitch;
        const Expr *y = low_loop(l, &b, LOOP_SERIAL, "y", expr_div(c, e->j0, pitch), expr_ceil_div(c, end, pitch), 1);
        e->row = expr_mul(c, y, pitch);
        /* Rows of inner slides that are no output are skipped as well. */
        const Scalar *test = NULL;
        for (uint32_t i = s->nslide - 1; i-- > 0;) {
            const Expr *digit = i == 0 ? y : expr_mod(c, y, s->slide[i].positions);
            l->bind[s->slide[i].axis] = low_let(l, b, l->n->axis[s->slide[i].axis].name, digit, s->slide[i].positions);
            if (i == 0)
                break;
            y = expr_div(c, y, s->slide[i].positions);
            const Scalar *within = scalar_2(c, S_LT, scalar_index(c, l->bind[s->slide[i].axis]), scalar_index(c, low_extent(l, s->slide[i].axis)));
            test = test ? scalar_2(c, S_AND, test, within) : within;
        }
        if (test)
            b = &tree_if(b, test)->body;
    }
    const Expr *left = low_let(l, b, "left", expr_max(c, expr_int(c, 0), expr_sub(c, e->j0, e->row)), NULL);
    const Expr *right = low_let(l, b, "right", expr_max(c, left, expr_min(c, extent, expr_sub(c, end, e->row))), NULL);
    low_vector_loop(l, b, inner, "x", left, right, cut->lanes, staged_step, e);
    l->range.n = ranges;
}

void
epilogue(Gemm *g, Block *b, uint32_t rows, const Expr *i0, const Expr *nrows, const Expr *panel, const Expr *j0, const Expr *ncols)
{
    Low *l = g->l;
    const Cut *cut = &g->cut;
    uint32_t ranges = l->range.n;
    Epilogue e = {.g = g, .i0 = i0, .panel = panel, .j0 = j0};
    const Expr *limit = expr_is(nrows, rows) ? nrows : expr_min(l->c, expr_int(l->c, rows), nrows);

    e.i = low_loop(l, &b, LOOP_SERIAL, "i", expr_int(l->c, 0), limit, 1);
    if (cut->nrow)
        bind_run(l, cut->row, cut->nrow, cut->row_run, expr_add(l->c, i0, e.i));
    if (g->cut.staged)
        staged_columns(g, b, &e, ncols);
    else
        low_vector_loop(l, b, cut->col[cut->ncol - 1], "j", expr_int(l->c, 0), ncols, cut->lanes, epilogue_step, &e);
    l->range.n = ranges;
}
