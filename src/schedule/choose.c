/* choose: what a contraction's operands need, and how much of it one task does.
 *
 * Constants lie packed already; rows can often be read where they are; an image under a window is staged.
 * A task gets as many column panels as fit the second-level cache beside the rows, and all rows unless
 * the cores would starve.
 */
#include "schedule/contract.h"

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

enum { DEPTH_BLOCK = 768 };      /* sum points that a register tile runs over before B's panel is replaced */

void
choose_blocks(Gemm *g)
{
    Low *l = g->l;
    Ctx *c = l->c;
    const Cut *cut = &g->cut;
    int64_t depth = expr_or(cut->depth, -1), rows = expr_or(cut->rows, -1), cols = expr_or(g->cut.columns, -1), outer, inner;
    int64_t per_block = depth;
    uint32_t bytes = dtype_info[cut->k.reduce->dtype].bytes;

    g->inner_depth = expr_int(c, 1);
    g->block = cut->nsum ? low_extent(l, cut->sum[0]) : expr_int(c, 1);
    if (cut->nsum)
        g->inner_depth = axes_product(l, cut->sum + 1, cut->nsum - 1);
    bool few_rows = rows >= 0 && rows <= (int64_t)cut->tile.rows;
    if (depth > DEPTH_BLOCK + DEPTH_BLOCK / 2 && !few_rows && !g->cut.staged && expr_const(g->block, &outer) && expr_const(g->inner_depth, &inner)) {
        int64_t blocks = (depth + DEPTH_BLOCK - 1) / DEPTH_BLOCK;
        int64_t trips = (outer + blocks - 1) / blocks;
        if (trips >= 1 && trips < outer) {
            g->block = expr_int(c, trips);
            g->blocked = true;
            per_block = trips * inner;
        }
    }
    int64_t panel_bytes = (per_block > 0 ? per_block : DEPTH_BLOCK) * g->width * bytes;
    int64_t panels = g->cut.staged ? 8 : l->m->level[LEVEL_L2].bytes * 2 / 5 / panel_bytes;
    int64_t most = cols > 0 ? (cols + g->width - 1) / g->width : 8;
    panels = panels > 8 ? 8 : panels;
    panels = panels > most ? most : panels;
    g->panels = panels < 1 ? 1 : (uint32_t)panels;
    /* Rows: all of them in one task, unless the sums of a blocked task would leave the cache or the
     * columns and batches alone do not give every core two tasks. */
    int64_t tile_rows = cut->tile.rows, chunk = rows;
    if (g->blocked && (rows < 0 || rows * g->panels * g->width * bytes > l->m->level[LEVEL_L2].bytes / 4))
        chunk = tile_rows * 8;
    const Expr *others = expr_mul(c, axes_product(l, cut->batch, cut->nbatch), expr_int(c, cols > 0 ? (most + g->panels - 1) / g->panels : 1));
    int64_t tasks = cols > 0 ? expr_or(others, INT64_MAX / 4096) : INT64_MAX / 4096, enough = 2 * (int64_t)l->m->cores;
    if (rows > 0) {
        chunk = chunk < 0 ? rows : chunk;
        while (tasks * ((rows + chunk - 1) / chunk) < enough && chunk > 4 * tile_rows)
            chunk = ((chunk / 2 + tile_rows - 1) / tile_rows) * tile_rows;
    } else if (tasks < enough) {
        chunk = tile_rows * 8;
    }
    g->chunk = chunk > 0 ? expr_int(c, chunk) : cut->rows;
}

void
choose_operands(Gemm *g)
{
    const Cut *cut = &g->cut;

    g->a_ready = lies_packed(g->l, cut->k.a, cut->a_packed);
    g->b_ready = lies_packed(g->l, cut->k.b, cut->b_packed);
    g->width = cut->tile.vectors * cut->lanes;
    g->a_direct = !g->a_ready && !cut->staged && reads_in_place(g);
}
