/* contraction: matrix products, batched products and convolutions are one template.
 *
 * The axes fall into batch (outer loops), rows (left operand only), columns (right operand only) and
 * sums. Rows and columns that continue each other in memory become one index each, so that
 *
 *     out[batch, i, j] = epilogue(sum k: A[batch, i, k] * B[batch, k, j])
 *
 * A task is a block of column panels times a chunk of rows. The panels of B are laid out
 * [panel, k, 0..width) - from the start where B is a constant, otherwise copied by the task, which is
 * where padding, strides and producers fused into B disappear. For each panel of rows the register
 * tile runs over k with named accumulators and leaves its sums in a small tile in memory; the
 * epilogue runs over that tile with ordinary vector loops, so it is compact whatever it computes.
 * Deep sums are cut into blocks that keep the panels of B in the second-level cache; then the tile
 * of sums holds the whole chunk and is added to block by block.
 *
 * Where B slides a window over an image (a convolution), it is staged instead (stage.h): every window
 * point of a panel is then a shift of the same staged rows, and no panel is made at all. Columns then
 * count staged positions; those at the end of a row that are no output are left out by the epilogue.
 *
 * Source: Goto and van de Geijn, ACM TOMS 34(3), 2008; the order of loops differs: the sums of one
 * task stay in its own scratch, so the output is written once and may share memory with an operand
 * of the epilogue.
 */
#include "schedule/contract.h"
#include "schedule/stage.h"

#include <assert.h>

typedef struct {
    Low *l;
    Cut cut;
    uint32_t width;                      /* columns of a panel: vectors * lanes */
    bool a_ready, b_ready;               /* operand lies packed already */
    bool staged;                         /* columns are positions of a staged image: B is not copied into panels */
    Stage stage;
    const Expr *cols;                    /* column index: as the cut has it, or the staged positions */
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

Block *
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

/* Bind the collapsed run of a list: inner axis to the index, the others of the run to 0. */
static void
bind_run(Low *l, const uint32_t *axis, uint32_t n, uint32_t run, const Expr *index)
{
    for (uint32_t i = n - run; i < n; i++)
        l->bind[axis[i]] = i + 1 == n ? index : expr_int(l->c, 0);
}

/* ---- choices ---------------------------------------------------------------------------------------- */

static bool
lies_packed(const Low *l, const Scalar *operand, const Format *want)
{
    if (!want || operand->op != S_LOAD)
        return false;
    const Format *have = l->k->buffer.at[l->part->buffer[operand->u.load.slot]].format;
    if (!have || have->npart != want->npart)
        return false;
    for (uint32_t i = 0; i < have->npart; i++)
        if (have->part[i].dim != want->part[i].dim || have->part[i].div != want->part[i].div || have->part[i].mod != want->part[i].mod)
            return false;
    return true;
}

/* Rows whose distance is a large power of two fall into the same few sets of the first-level cache and
 * drive each other out: 64 sets of 64-byte lines, 8 ways. */
static bool
rows_conflict(Gemm *g, const Scalar *a)
{
    Low *l = g->l;
    const Cut *cut = &g->cut;
    int64_t stride, lines;

    if (cut->nrow == 0 || !expr_const(low_stride(l, a, cut->row[cut->nrow - 1]), &stride))
        return false;
    stride *= dtype_info[a->dtype].bytes;
    lines = stride / 64;
    if (stride % 64 || lines == 0)
        return false;
    int64_t sets = 64 / (lines & -lines);
    return (sets < 1 ? 1 : sets) * 8 < 2 * (int64_t)cut->tile.rows;
}

/* A row operand can be read in place when its offset is linear in the one sum index. */
static bool
reads_in_place(Gemm *g)
{
    Low *l = g->l;
    const Cut *cut = &g->cut;
    const Scalar *a = bare_load(cut->k.a);

    if (!a || a->u.load.outside || a->dtype != cut->k.reduce->dtype || l->k->buffer.at[l->part->buffer[a->u.load.slot]].format)
        return false;
    for (uint32_t i = 0; i + 1 < cut->nsum; i++)
        if (!low_collapses(l, cut->sum[i], cut->sum[i + 1], &cut->k.a, 1, NULL))
            return false;
    if (cut->nsum && !low_stride(l, a, cut->sum[cut->nsum - 1]))
        return false;
    return cut->nrow == 0 || (low_stride(l, a, cut->row[cut->nrow - 1]) && !rows_conflict(g, a));
}

enum { MAX_UNROLL = 7 };         /* window points along one axis that are unrolled around a register tile */
enum { DEPTH_BLOCK = 768 };      /* sum points that a register tile runs over before B's panel is replaced */

static void
choose_blocks(Gemm *g)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    int64_t depth = expr_or(cut->depth, -1), rows = expr_or(cut->rows, -1), cols = expr_or(g->cols, -1), outer, inner;
    int64_t per_block = depth;
    uint32_t bytes = dtype_info[cut->k.reduce->dtype].bytes;

    g->inner_depth = expr_int(c, 1);
    g->block = cut->nsum ? low_extent(l, cut->sum[0]) : expr_int(c, 1);
    if (cut->nsum)
        g->inner_depth = axes_product(l, cut->sum + 1, cut->nsum - 1);
    bool few_rows = rows >= 0 && rows <= (int64_t)cut->tile.rows;
    if (depth > DEPTH_BLOCK + DEPTH_BLOCK / 2 && !few_rows && !g->staged && expr_const(g->block, &outer) && expr_const(g->inner_depth, &inner)) {
        int64_t blocks = (depth + DEPTH_BLOCK - 1) / DEPTH_BLOCK;
        int64_t trips = (outer + blocks - 1) / blocks;
        if (trips >= 1 && trips < outer) {
            g->block = expr_int(c, trips);
            g->blocked = true;
            per_block = trips * inner;
        }
    }
    int64_t panel_bytes = (per_block > 0 ? per_block : DEPTH_BLOCK) * g->width * bytes;
    int64_t panels = g->staged ? 8 : l->m->l2_bytes * 2 / 5 / panel_bytes;
    int64_t most = cols > 0 ? (cols + g->width - 1) / g->width : 8;
    panels = panels > 8 ? 8 : panels;
    panels = panels > most ? most : panels;
    g->panels = panels < 1 ? 1 : (uint32_t)panels;
    /* Rows: all of them in one task, unless the sums of a blocked task would leave the cache or the
     * columns and batches alone do not give every core two tasks. */
    int64_t tile_rows = cut->tile.rows, chunk = rows;
    if (g->blocked && (rows < 0 || rows * g->panels * g->width * bytes > l->m->l2_bytes / 4))
        chunk = tile_rows * 8;
    if (rows > 0) {
        const Expr *others = expr_mul(c, axes_product(l, cut->batch, cut->nbatch), expr_int(c, cols > 0 ? (most + g->panels - 1) / g->panels : 1));
        int64_t tasks = expr_or(others, INT64_MAX / 4096);
        chunk = chunk < 0 ? rows : chunk;
        while (tasks * ((rows + chunk - 1) / chunk) < 2 * (int64_t)l->m->cores && chunk > 4 * tile_rows)
            chunk = ((chunk / 2 + tile_rows - 1) / tile_rows) * tile_rows;
    }
    g->chunk = chunk > 0 ? expr_int(c, chunk) : cut->rows;
}

/* ---- the register tile --------------------------------------------------------------------------------- */

static const Scalar *
vector_register(Gemm *g, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    Ctx *c = g->l->c;
    return scalar_load_lanes(c, g->cut.k.reduce->dtype, buffer, rank, at, g->cut.lanes, expr_int(c, 1), NULL);
}

/* Index of a packed constant: its outer parts at the bound axes, then tile, flat sum index, element of the tile. */
static uint32_t
packed_index(Gemm *g, const Scalar *operand, const uint32_t *list, uint32_t n, uint32_t run, const Expr *tile, const Expr *flat,
             const Expr *element, const Expr **at)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Format *f = l->k->buffer.at[l->part->buffer[operand->u.load.slot]].format;
    uint32_t outer = f->npart - g->cut.nsum - 2;

    bind_run(l, list, n, run, expr_int(c, 0));
    for (uint32_t p = 0; p < outer; p++) {
        const Expr *e = expr_div(c, low_expr(l, operand->u.load.at[f->part[p].dim]), expr_int(c, f->part[p].div));
        at[p] = f->part[p].mod ? expr_mod(c, e, expr_int(c, f->part[p].mod)) : e;
    }
    at[outer] = tile;
    for (uint32_t s = 0; s < g->cut.nsum; s++)
        at[outer + 1 + s] = s + 1 == g->cut.nsum ? flat : expr_int(c, 0);
    at[f->npart - 1] = element;
    return f->npart;
}

/* Element k of row i of the panel that starts at row i0 (i may be a loop variable). `last` clamps rows
 * beyond the end to the last one, whose products are then dropped. */
static const Scalar *
row_element(Gemm *g, const Expr *i0, const Expr *i, const Expr *k, const Expr *k0, const Expr *last)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    DType t = cut->k.reduce->dtype;

    if (g->a_ready) {
        const Expr *at[TN_MAX_RANK * 2];
        uint32_t rank = packed_index(g, cut->k.a, cut->row, cut->nrow, cut->row_run, expr_div(c, i0, expr_int(c, cut->tile.rows)),
                                     expr_add(c, k0, k), i, at);
        return scalar_load(c, t, l->part->buffer[cut->k.a->u.load.slot], rank, at, NULL);
    }
    if (!g->a_direct) {
        const Expr *at[2] = {i, k};
        return scalar_load(c, t, g->a_pack, 2, at, NULL);
    }
    const Expr *row = expr_add(c, i0, i);
    if (cut->nrow)
        bind_run(l, cut->row, cut->nrow, cut->row_run, last ? expr_min(c, row, last) : row);
    if (cut->nsum)
        bind_run(l, cut->sum, cut->nsum, cut->nsum, expr_add(c, k0, k));
    return low_value(l, cut->k.a);
}

/* Columns j of a panel at the window point that is bound. */
static const Scalar *
staged_vector(Gemm *g, const Expr *panel, const Expr *j)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Expr *at[TN_MAX_RANK * 2];
    const Expr *column = expr_scale(c, expr_add(c, g->panel0, panel), g->width);
    const Expr *start = expr_mul(c, g->stage.first, g->stage.slide[0].pitch);
    const Expr *position = expr_add(c, expr_sub(c, column, start), expr_scale(c, j, g->cut.lanes));
    uint32_t rank = stage_index(l, &g->stage, position, at);

    return scalar_load_lanes(c, g->cut.k.reduce->dtype, g->stage.buffer, rank, at, g->cut.lanes, expr_int(c, 1), NULL);
}

static const Scalar *
column_vector(Gemm *g, const Expr *panel, const Expr *k, const Expr *k0, const Expr *j)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    const Expr *lane = expr_scale(c, j, cut->lanes);

    if (g->staged)
        return staged_vector(g, panel, j);
    if (!g->b_ready) {
        const Expr *at[3] = {panel, k, lane};
        return scalar_load_lanes(c, cut->k.reduce->dtype, g->b_pack, 3, at, cut->lanes, expr_int(c, 1), NULL);
    }
    const Expr *at[TN_MAX_RANK * 2];
    uint32_t rank = packed_index(g, cut->k.b, cut->col, cut->ncol, cut->col_run, expr_add(c, g->panel0, panel), expr_add(c, k0, k), lane, at);
    return scalar_load_lanes(c, cut->k.reduce->dtype, l->part->buffer[cut->k.b->u.load.slot], rank, at, cut->lanes, expr_int(c, 1), NULL);
}

/* Where the sums of row i, vector j of a tile lie. */
static void
sums_index(Gemm *g, const Expr *i0, const Expr *i, const Expr *panel, const Expr *j, const Expr **at)
{
    Ctx *c = g->l->c;
    at[0] = g->blocked ? expr_add(c, expr_sub(c, i0, g->i_chunk), i) : i;
    at[1] = g->blocked ? panel : expr_int(c, 0);
    at[2] = j;
}

/* The loop over the sum: one index; over a staged image each sum axis is a loop of its own, the
 * innermost window axis unrolled, so that shifts and phases are constants. */
static const Expr *
sum_loop(Gemm *g, Block **b, const Expr *depth)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    const Expr *k = expr_int(c, 0);

    if (!g->staged)
        return low_loop(l, b, LOOP_SERIAL, "k", expr_int(c, 0), depth, 1);
    for (uint32_t i = 0; i < cut->nsum; i++) {
        uint32_t axis = cut->sum[i];
        const Expr *extent = low_extent(l, axis);
        bool unroll = i + 1 == cut->nsum && g->stage.window >> axis & 1 && expr_or(extent, 100) <= MAX_UNROLL;
        l->bind[axis] = low_loop(l, b, unroll ? LOOP_UNROLLED : LOOP_SERIAL, l->n->axis[axis].name, expr_int(c, 0), extent, 1);
        k = expr_add(c, expr_mul(c, k, extent), l->bind[axis]);
    }
    return k;
}

/* rows x vectors sums over k in [0, depth): registers from the tile (when blocked) or zero, the
 * products, and back to the tile. */
static void
register_tile(Gemm *g, Block *b, uint32_t rows, const Expr *i0, const Expr *panel, const Expr *k0, const Expr *depth, const Expr *last)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    DType t = cut->k.reduce->dtype;
    const Expr *dims[2] = {expr_int(c, rows), expr_int(c, cut->tile.vectors)}, *at[3], *reg[2];
    uint32_t acc = kernel_buffer(c, l->a, l->k, "acc", type_new(c, t, 2, dims), SPACE_REGISTER, cut->lanes);
    uint32_t col = kernel_buffer(c, l->a, l->k, "col", type_new(c, t, 1, dims + 1), SPACE_REGISTER, cut->lanes);
    const Expr *zero = expr_int(c, 0), *one = expr_int(c, 1);
    uint32_t ranges = l->range.n;
    Block *in;

    tree_buffer(b, acc);
    tree_buffer(b, col);
    in = b;
    reg[0] = low_loop(l, &in, LOOP_UNROLLED, "i", zero, dims[0], 1);
    reg[1] = low_loop(l, &in, LOOP_UNROLLED, "j", zero, dims[1], 1);
    sums_index(g, i0, reg[0], panel, expr_scale(c, reg[1], cut->lanes), at);
    tree_store_lanes(in, acc, 2, reg, g->blocked ? scalar_load_lanes(c, t, g->sums, 3, at, cut->lanes, one, NULL)
                                                 : scalar_splat(c, scalar_number(c, t, 0), cut->lanes), one, NULL);
    Block *body = b;
    const Expr *k = sum_loop(g, &body, depth);
    in = body;
    const Expr *j = low_loop(l, &in, LOOP_UNROLLED, "j", zero, dims[1], 1);
    tree_store_lanes(in, col, 1, &j, column_vector(g, panel, k, k0, j), one, NULL);
    in = body;
    reg[0] = low_loop(l, &in, LOOP_UNROLLED, "i", zero, dims[0], 1);
    const Scalar *a = scalar_splat(c, row_element(g, i0, reg[0], k, k0, last), cut->lanes);
    reg[1] = low_loop(l, &in, LOOP_UNROLLED, "j", zero, dims[1], 1);
    const Scalar *product = scalar_2(c, S_MUL, a, vector_register(g, col, 1, reg + 1));
    tree_store_lanes(in, acc, 2, reg, scalar_2(c, S_ADD, vector_register(g, acc, 2, reg), product), one, NULL);
    for (uint32_t x = 0; x < cut->nsum; x++)
        l->bind[cut->sum[x]] = NULL;
    in = b;
    reg[0] = low_loop(l, &in, LOOP_UNROLLED, "i", zero, dims[0], 1);
    reg[1] = low_loop(l, &in, LOOP_UNROLLED, "j", zero, dims[1], 1);
    sums_index(g, i0, reg[0], panel, expr_scale(c, reg[1], cut->lanes), at);
    tree_store_lanes(in, g->sums, 3, at, vector_register(g, acc, 2, reg), one, NULL);
    l->range.n = ranges;
}

/* ---- the epilogue ----------------------------------------------------------------------------------------- */

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
    const Stage *s = &g->stage;
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

static void
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
    if (g->staged)
        staged_columns(g, b, &e, ncols);
    else
        low_vector_loop(l, b, cut->col[cut->ncol - 1], "j", expr_int(l->c, 0), ncols, cut->lanes, epilogue_step, &e);
    l->range.n = ranges;
}

/* ---- loops around ------------------------------------------------------------------------------------------- */

/* All column panels of the task for the row panel at i0. */
static void
row_panel(Gemm *g, Block *b, uint32_t rows, const Expr *i0, const Expr *nrows, const Expr *k0, const Expr *depth, bool clamp, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    uint32_t ranges = l->range.n;
    const Expr *last = clamp ? expr_offset(c, cut->rows, -1) : NULL;

    if (!g->a_ready && !g->a_direct) {
        RowPack p = {cut, g->a_pack, i0, nrows, cut->nsum ? expr_int(c, 0) : NULL, g->block};
        p.first = cut->nsum ? expr_exact_div(c, k0, g->inner_depth) : NULL;
        p.count = cut->nsum ? expr_exact_div(c, depth, g->inner_depth) : NULL;
        pack_rows(l, b, &p);
    }
    const Expr *panel = low_loop(l, &b, LOOP_SERIAL, "panel", expr_int(c, 0), npanels, 1);
    register_tile(g, b, rows, i0, panel, k0, depth, last);
    if (!g->blocked) {
        const Expr *j0 = low_let(l, b, "j0", expr_scale(c, expr_add(c, g->panel0, panel), g->width), NULL);
        const Expr *ncols = expr_min(c, expr_int(c, g->width), expr_sub(c, g->cols, j0));
        epilogue(g, b, rows, i0, nrows, panel, j0, low_let(l, b, "ncols", ncols, NULL));
    }
    l->range.n = ranges;
}

enum { FEW_ROWS = 4 };           /* rows at a time after the whole tiles, where their number is not known */

/* All row panels of the task: whole ones, then the rest. */
static void
row_panels(Gemm *g, Block *b, const Expr *k0, const Expr *depth, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    uint32_t rows = g->cut.tile.rows, ranges = l->range.n;
    int64_t all;
    bool fixed = expr_const(g->cut.rows, &all);
    const Expr *whole = expr_scale(c, expr_div(c, g->chunk_rows, expr_int(c, rows)), rows);

    if (!fixed || all >= rows) {
        Block *in = b;
        const Expr *i = low_loop(l, &in, LOOP_SERIAL, "i0", g->i_chunk, expr_add(c, g->i_chunk, whole), rows);
        row_panel(g, in, rows, i, expr_int(c, rows), k0, depth, false, npanels);
        l->range.n = ranges;
    }
    const Expr *start = expr_add(c, g->i_chunk, whole), *end = expr_add(c, g->i_chunk, g->chunk_rows);
    if (fixed && all % rows) {
        Tree *test = tree_if(b, scalar_2(c, S_LT, scalar_index(c, start), scalar_index(c, end)));
        const Expr *i0 = low_let(l, &test->body, "i0", start, NULL);
        row_panel(g, &test->body, (uint32_t)(all % rows), i0, expr_sub(c, end, i0), k0, depth, false, npanels);
    } else if (!fixed) {
        uint32_t step = rows < FEW_ROWS ? rows : FEW_ROWS;
        Block *in = b;
        const Expr *i0 = low_loop(l, &in, LOOP_SERIAL, "i0", start, end, step);
        row_panel(g, in, step, i0, expr_min(c, expr_int(c, step), expr_sub(c, end, i0)), k0, depth, true, npanels);
    }
    l->range.n = ranges;
}

static void
pack_block(Gemm *g, Block *b, const Expr *first, const Expr *count, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;

    if (g->b_ready || g->staged)
        return;
    const Expr *panel = low_loop(l, &b, LOOP_SERIAL, "panel", expr_int(c, 0), npanels, 1);
    const Expr *j0 = low_let(l, b, "j0", expr_scale(c, expr_add(c, g->panel0, panel), g->width), NULL);
    const Expr *ncols = low_let(l, b, "ncols", expr_min(c, expr_int(c, g->width), expr_sub(c, g->cols, j0)), NULL);
    ColumnPack p = {&g->cut, g->b_pack, panel, j0, ncols, first, count, g->width};
    pack_columns(l, b, &p);
    l->range.n = ranges;
}

static void
clear_sums(Gemm *g, Block *b, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;
    const Expr *at[3];

    at[0] = low_loop(l, &b, LOOP_SERIAL, "i", expr_int(c, 0), g->chunk_rows, 1);
    at[1] = low_loop(l, &b, LOOP_SERIAL, "panel", expr_int(c, 0), npanels, 1);
    at[2] = low_loop(l, &b, LOOP_SERIAL, "j", expr_int(c, 0), expr_int(c, g->width), g->cut.lanes);
    tree_store_lanes(b, g->sums, 3, at, scalar_splat(c, scalar_number(c, g->cut.k.reduce->dtype, 0), g->cut.lanes), expr_int(c, 1), NULL);
    l->range.n = ranges;
}

static void
blocked_epilogue(Gemm *g, Block *b, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;

    const Expr *panel = low_loop(l, &b, LOOP_SERIAL, "panel", expr_int(c, 0), npanels, 1);
    const Expr *j0 = low_let(l, b, "j0", expr_scale(c, expr_add(c, g->panel0, panel), g->width), NULL);
    const Expr *ncols = low_let(l, b, "ncols", expr_min(c, expr_int(c, g->width), expr_sub(c, g->cols, j0)), NULL);
    const Expr *i = low_loop(l, &b, LOOP_SERIAL, "i", expr_int(c, 0), g->chunk_rows, 1);
    epilogue(g, b, 1, expr_add(c, g->i_chunk, i), expr_int(c, 1), panel, j0, ncols);
    l->range.n = ranges;
}

/* Elements of a row of `depth`, padded so that rows are an odd number of cache lines apart. */
static const Expr *
odd_lines(Ctx *c, const Expr *depth, uint32_t bytes)
{
    int64_t line = 64 / bytes, d;

    if (!expr_const(depth, &d))
        return expr_offset(c, depth, line);
    return expr_int(c, ((d + line - 1) / line | 1) * line);
}

static void
declare_scratch(Gemm *g, Block *b)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    DType t = cut->k.reduce->dtype;
    const Expr *depth = cut->nsum ? expr_mul(c, g->block, g->inner_depth) : expr_int(c, 1);
    const Expr *panels = expr_int(c, g->panels), *width = expr_int(c, g->width), *rows = expr_int(c, cut->tile.rows);

    if (!g->b_ready && !g->staged) {
        const Expr *dims[3] = {panels, depth, width};
        g->b_pack = kernel_buffer(c, l->a, l->k, "pack", type_new(c, t, 3, dims), SPACE_SCRATCH, 1);
        tree_buffer(b, g->b_pack);
    }
    if (!g->a_ready && !g->a_direct) {
        const Expr *dims[2] = {rows, odd_lines(c, depth, dtype_info[t].bytes)};
        g->a_pack = kernel_buffer(c, l->a, l->k, "rows", type_new(c, t, 2, dims), SPACE_SCRATCH, 1);
        tree_buffer(b, g->a_pack);
    }
    /* The last row panel of a chunk may reach beyond it; the last vector of a row of outputs too. */
    const Expr *dims[3] = {g->blocked ? expr_add(c, g->chunk, rows) : expr_offset(c, rows, g->staged), g->blocked ? panels : expr_int(c, 1), width};
    g->sums = kernel_buffer(c, l->a, l->k, "sums", type_new(c, t, 3, dims), SPACE_SCRATCH, 1);
    tree_buffer(b, g->sums);
}

/* Stage the rows of the image that this task's panels touch. */
static void
stage_columns(Gemm *g, Block *b)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Slide *outer = &g->stage.slide[0];
    int64_t task = (int64_t)g->panels * g->width;
    const Expr *first = low_let(l, b, "first", expr_div(c, expr_scale(c, g->panel0, g->width), outer->pitch), NULL);
    const Expr *touched = expr_offset(c, expr_ceil_div(c, expr_int(c, task), outer->pitch), 1 + (outer->span - 1) / outer->stride);

    stage_declare(l, b, &g->stage, first, expr_min(c, touched, outer->positions), (uint32_t)task + g->cut.lanes);
    stage_fill(l, b, &g->stage, g->cut.lanes);
    for (uint32_t i = 0; i < g->cut.nsum; i++)
        l->bind[g->cut.sum[i]] = NULL;
}

/* A convolution's columns can be staged when the axes that slide are exactly the one column index. */
static bool
columns_stage(Gemm *g)
{
    Low *l = g->l;
    Ctx *c = l->c;
    Cut *cut = &g->cut;
    const Scalar *b = bare_load(cut->k.b);
    AxisSet wanted = 0;
    uint32_t start = cut->ncol - cut->col_run;

    for (uint32_t i = start; i < cut->ncol; i++)
        wanted |= (AxisSet)1 << cut->col[i];
    if (!b || g->b_ready || b->dtype != cut->k.reduce->dtype || !stage_recognise(l, b, cut->k.sum, wanted, &g->stage))
        return false;
    const Stage *s = &g->stage;
    bool shifts = false;
    if (s->nslide != cut->col_run)
        return false;
    for (uint32_t i = 0; i < s->nslide; i++) {
        if (s->slide[i].axis != cut->col[start + i])
            return false;
        shifts |= s->slide[i].span > 1 || s->slide[i].stride > 1;
    }
    if (!shifts)
        return false;
    const Expr *last = expr_int(c, 1);
    for (uint32_t i = 0; i < s->nslide; i++)
        last = expr_add(c, last, expr_mul(c, expr_offset(c, low_extent(l, s->slide[i].axis), -1), s->slide[i].pitch));
    g->cols = last;
    return true;
}

static void
task_body(Gemm *g, Block *b, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Expr *zero = expr_int(c, 0);

    declare_scratch(g, b);
    if (g->staged)
        stage_columns(g, b);
    if (!g->blocked) {
        pack_block(g, b, zero, g->block, npanels);
        row_panels(g, b, zero, g->cut.depth, npanels);
        return;
    }
    clear_sums(g, b, npanels);
    uint32_t ranges = l->range.n;
    Block *in = b;
    const Expr *extent = low_extent(l, g->cut.sum[0]);
    const Expr *first = low_loop(l, &in, LOOP_SERIAL, "block", zero, extent, expr_or(g->block, 1));
    const Expr *count = low_let(l, in, "count", expr_min(c, g->block, expr_sub(c, extent, first)), NULL);
    pack_block(g, in, first, count, npanels);
    row_panels(g, in, expr_mul(c, first, g->inner_depth), expr_mul(c, count, g->inner_depth), npanels);
    l->range.n = ranges;
    blocked_epilogue(g, b, npanels);
}

bool
schedule_contraction(Ctx *c, Arena *a, Kernel *k, const Machine *m)
{
    if (k->npart != 1)
        return false;
    Low low = low_part(c, a, k, m, &k->part[0]), *l = &low;
    Gemm g = {.l = l};
    const Cut *cut = &g.cut;

    if (!contract_cut(l, &g.cut))
        return false;
    g.a_ready = lies_packed(l, cut->k.a, cut->a_packed);
    g.b_ready = lies_packed(l, cut->k.b, cut->b_packed);
    /* With one row nothing is gained by copying the columns. */
    if (expr_is(cut->rows, 1) && !g.b_ready)
        return false;
    g.width = cut->tile.vectors * cut->lanes;
    g.cols = cut->cols;
    g.staged = columns_stage(&g);
    g.a_direct = !g.a_ready && !g.staged && reads_in_place(&g);
    choose_blocks(&g);

    uint32_t outer[NEST_MAX_AXES], nouter = 0;
    for (uint32_t i = 0; i < cut->nbatch; i++)
        outer[nouter++] = cut->batch[i];
    for (uint32_t i = 0; i < cut->nrow - cut->row_run; i++)
        outer[nouter++] = cut->row[i];
    for (uint32_t i = 0; i < cut->ncol - cut->col_run; i++)
        outer[nouter++] = cut->col[i];
    const Expr *all_panels = expr_ceil_div(c, g.cols, expr_int(c, g.width));
    const Expr *column_blocks = expr_ceil_div(c, all_panels, expr_int(c, g.panels));
    const Expr *chunks = expr_eq(c, NULL, g.chunk, cut->rows) == YES ? expr_int(c, 1) : expr_ceil_div(c, cut->rows, g.chunk);

    Block *b = &k->tree;
    k->trips = expr_mul(c, axes_product(l, outer, nouter), expr_mul(c, column_blocks, chunks));
    const Expr *task = low_loop(l, &b, LOOP_PARALLEL, "task", expr_int(c, 0), k->trips, 1);
    Ranges ranges = low_ranges(l);
    const Expr *chunk = low_let(l, b, "chunk", expr_simplify(c, &ranges, expr_mod(c, task, chunks)), chunks);
    const Expr *rest = expr_simplify(c, &ranges, expr_div(c, task, chunks));
    const Expr *block = low_let(l, b, "block", expr_simplify(c, &ranges, expr_mod(c, rest, column_blocks)), column_blocks);
    ranges = low_ranges(l);
    low_bind_digits(l, b, outer, nouter, expr_simplify(c, &ranges, expr_div(c, rest, column_blocks)));
    g.i_chunk = low_let(l, b, "i_chunk", expr_mul(c, chunk, g.chunk), NULL);
    g.chunk_rows = expr_is(chunks, 1) ? cut->rows : low_let(l, b, "rows", expr_min(c, g.chunk, expr_sub(c, cut->rows, g.i_chunk)), NULL);
    g.panel0 = low_let(l, b, "panel0", expr_scale(c, block, g.panels), NULL);
    const Expr *npanels = expr_is(column_blocks, 1) ? all_panels
                                                    : low_let(l, b, "npanels", expr_min(c, expr_int(c, g.panels), expr_sub(c, all_panels, g.panel0)), NULL);
    task_body(&g, b, npanels);

    int64_t work = expr_or(expr_mul(c, expr_mul(c, g.chunk, cut->depth), expr_int(c, (int64_t)g.panels * g.width)), 1 << 20);
    k->grain = expr_int(c, work >= 1 << 18 ? 1 : (1 << 18) / (work > 0 ? work : 1));
    k->schedule = arena_printf(a, "contraction, tile %ux%u%s%s%s, %u panels", cut->tile.rows, g.width, g.a_ready ? ", rows packed" : g.a_direct ? "" : ", pack rows",
                               g.b_ready ? ", columns packed" : g.staged ? ", columns staged" : ", pack columns", g.blocked ? ", sums blocked" : "", g.panels);
    return true;
}
