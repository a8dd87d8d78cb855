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

void
bind_run(Low *l, const uint32_t *axis, uint32_t n, uint32_t run, const Expr *index)
{
    for (uint32_t i = n - run; i < n; i++)
        l->bind[axis[i]] = i + 1 == n ? index : expr_int(l->c, 0);
}

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
        const Expr *ncols = expr_min(c, expr_int(c, g->width), expr_sub(c, g->cut.columns, j0));
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

    if (g->b_ready || g->cut.staged)
        return;
    const Expr *panel = low_loop(l, &b, LOOP_SERIAL, "panel", expr_int(c, 0), npanels, 1);
    const Expr *j0 = low_let(l, b, "j0", expr_scale(c, expr_add(c, g->panel0, panel), g->width), NULL);
    const Expr *ncols = low_let(l, b, "ncols", expr_min(c, expr_int(c, g->width), expr_sub(c, g->cut.columns, j0)), NULL);
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
    const Expr *ncols = low_let(l, b, "ncols", expr_min(c, expr_int(c, g->width), expr_sub(c, g->cut.columns, j0)), NULL);
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

    if (!g->b_ready && !g->cut.staged) {
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
    const Expr *dims[3] = {g->blocked ? expr_add(c, g->chunk, rows) : expr_offset(c, rows, g->cut.staged), g->blocked ? panels : expr_int(c, 1), width};
    g->sums = kernel_buffer(c, l->a, l->k, "sums", type_new(c, t, 3, dims), SPACE_SCRATCH, 1);
    tree_buffer(b, g->sums);
}

/* Stage the rows of the image that this task's panels touch. */
static void
stage_columns(Gemm *g, Block *b)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Slide *outer = &g->cut.stage.slide[0];
    int64_t task = (int64_t)g->panels * g->width;
    const Expr *first = low_let(l, b, "first", expr_div(c, expr_scale(c, g->panel0, g->width), outer->pitch), NULL);
    const Expr *touched = expr_offset(c, expr_ceil_div(c, expr_int(c, task), outer->pitch), 1 + (outer->span - 1) / outer->stride);

    stage_declare(l, b, &g->cut.stage, first, expr_min(c, touched, outer->positions), g->width + g->cut.lanes);
    stage_fill(l, b, &g->cut.stage, g->cut.lanes);
    for (uint32_t i = 0; i < g->cut.nsum; i++)
        l->bind[g->cut.sum[i]] = NULL;
}

/* Is the staged image larger than what the second-level cache can keep beside the rows? */
static bool
stage_overflows(Gemm *g)
{
    int64_t bytes;
    return type_static_bytes(g->l->k->buffer.at[g->cut.stage.buffer].type, &bytes) && bytes > g->l->m->level[LEVEL_L2].bytes * 3 / 5;
}

/* Then each panel's part of it is kept instead, and the rows stream past. */
static void
panels_outside(Gemm *g, Block *b, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;
    const Expr *first = g->panel0;

    g->panel0 = expr_add(c, first, low_loop(l, &b, LOOP_SERIAL, "panel", expr_int(c, 0), npanels, 1));
    row_panels(g, b, expr_int(c, 0), g->cut.depth, expr_int(c, 1));
    g->panel0 = first;
    l->range.n = ranges;
}

static void
task_body(Gemm *g, Block *b, const Expr *npanels)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Expr *zero = expr_int(c, 0);

    declare_scratch(g, b);
    if (g->cut.staged)
        stage_columns(g, b);
    if (g->cut.staged && g->a_ready && stage_overflows(g)) {
        panels_outside(g, b, npanels);
        return;
    }
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
    choose_operands(&g);
    /* With one row nothing is gained by copying the columns. */
    if (expr_is(cut->rows, 1) && !g.b_ready)
        return false;
    choose_blocks(&g);

    uint32_t outer[NEST_MAX_AXES], nouter = 0;
    for (uint32_t i = 0; i < cut->nbatch; i++)
        outer[nouter++] = cut->batch[i];
    for (uint32_t i = 0; i < cut->nrow - cut->row_run; i++)
        outer[nouter++] = cut->row[i];
    for (uint32_t i = 0; i < cut->ncol - cut->col_run; i++)
        outer[nouter++] = cut->col[i];
    const Expr *all_panels = expr_ceil_div(c, g.cut.columns, expr_int(c, g.width));
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
                               g.b_ready ? ", columns packed" : g.cut.staged ? ", columns staged" : ", pack columns", g.blocked ? ", sums blocked" : "", g.panels);
    return true;
}
