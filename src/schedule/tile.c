/* tile: the register tile of a contraction, where its time goes.
 *
 * rows x vectors accumulators live in registers over the whole sum. Each step loads a row of column
 * vectors, broadcasts one element per row and multiplies; both operands come from wherever
 * choose_operands found them best.
 */
#include "schedule/contract.h"

enum { MAX_UNROLL = 7 };         /* window points along one axis that are unrolled around a register tile */

static const Scalar *
vector_register(Gemm *g, uint32_t buffer, uint32_t rank, const Expr *const *at)
{
    Ctx *c = g->l->c;
    return scalar_load_lanes(c, g->cut.k.reduce->dtype, buffer, rank, at, g->cut.lanes, expr_int(c, 1), NULL);
}

/* Index of a packed constant: its outer parts at the bound axes, then tile, flat sum index, element of the tile.
 * An outer part may be a higher digit of an index that sum axes share: they are 0 while it is computed. */
static uint32_t
packed_index(Gemm *g, const Scalar *operand, const uint32_t *list, uint32_t n, uint32_t run, const Expr *tile, const Expr *flat,
             const Expr *element, const Expr **at)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Format *f = l->k->buffer.at[l->part->buffer[operand->u.load.slot]].format;
    uint32_t outer = f->npart - g->cut.nsum - 2;
    const Expr *sum[NEST_MAX_AXES];

    bind_run(l, list, n, run, expr_int(c, 0));
    for (uint32_t s = 0; s < g->cut.nsum; s++) {
        sum[s] = l->bind[g->cut.sum[s]];
        l->bind[g->cut.sum[s]] = expr_int(c, 0);
    }
    for (uint32_t p = 0; p < outer; p++) {
        const Expr *e = expr_div(c, low_expr(l, operand->u.load.at[f->part[p].dim]), expr_int(c, f->part[p].div));
        at[p] = f->part[p].mod ? expr_mod(c, e, expr_int(c, f->part[p].mod)) : e;
    }
    for (uint32_t s = 0; s < g->cut.nsum; s++)
        l->bind[g->cut.sum[s]] = sum[s];
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
    const Expr *start = expr_mul(c, g->cut.stage.first, g->cut.stage.slide[0].pitch);
    const Expr *position = expr_add(c, expr_sub(c, column, start), expr_scale(c, j, g->cut.lanes));
    uint32_t rank = stage_index(l, &g->cut.stage, position, at);

    return scalar_load_lanes(c, g->cut.k.reduce->dtype, g->cut.stage.buffer, rank, at, g->cut.lanes, expr_int(c, 1), NULL);
}

static const Scalar *
column_vector(Gemm *g, const Expr *panel, const Expr *k, const Expr *k0, const Expr *j)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    const Expr *lane = expr_scale(c, j, cut->lanes);

    if (g->cut.staged)
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
void
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

    if (!g->cut.staged)
        return low_loop(l, b, LOOP_SERIAL, "k", expr_int(c, 0), depth, 1);
    for (uint32_t i = 0; i < cut->nsum; i++) {
        uint32_t axis = cut->sum[i];
        const Expr *extent = low_extent(l, axis);
        bool unroll = i + 1 == cut->nsum && g->cut.stage.window >> axis & 1 && expr_or(extent, 100) <= MAX_UNROLL;
        l->bind[axis] = low_loop(l, b, unroll ? LOOP_UNROLLED : LOOP_SERIAL, l->n->axis[axis].name, expr_int(c, 0), extent, 1);
        k = expr_add(c, expr_mul(c, k, extent), l->bind[axis]);
    }
    return k;
}

/* rows x vectors sums over k in [0, depth): registers from the tile (when blocked) or zero, the
 * products, and back to the tile. */
void
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
