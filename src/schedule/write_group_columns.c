/* write_group_columns: programs for groups over shared rows with row-major intermediate matrices:
 * lanes run along columns.
 *
 * As in write_group.c a task is a tile of rows, and all parts but the last are computed at it. Here
 * a contraction makes a complete line of columns for each row, from panels of its other operand
 * that all rows of the tile use in turn; reductions run along the lines, and combine lanes once a
 * line. Operands beside a contraction's columns (a mask, a bias) are read in place, and a few rows,
 * or a number of them that no vector divides, waste nothing. Compared with lanes that are rows, the
 * columns have to be contiguous, or are copied; and a short line spends a large share on reductions
 * across lanes.
 *
 * For a few rows (a token's) transposing the columns is more work than the contraction: if they are
 * contiguous along the sum, the lanes of the contraction are summands, as in write_dots.c. Heads
 * that share columns (group.h) make one tile of them.
 */
#include "cost/cost.h"
#include "schedule/gemm_axes.h"
#include "schedule/group.h"

/* ---- operands -------------------------------------------------------------------------------- */

/* The panels of a contraction's other operand: constants are packed so, contiguous columns are read
 * in place, all else is copied by the task. pads: the last panel is padded. False: none is
 * possible. */
static void
write_panels(const Group *g, const GroupMember *m, Text *t, bool laid, bool pads)
{
    Draft *w = g->w;
    const char *a = m->name, *sums = axis_names(w, m->part, m->sum, m->nsum),
               *last = axis_name(w, m->part, m->sum[m->nsum - 1]);

    if (!laid && (pads || !is_unit(m->l, m->view.b, m->own[0]))) {
        write_steps(t, a, "stage @.rhs at task -> @.pack scratch of @.b_ %s @.v_\n", sums);
        if (gemm_is_contiguous(m->l, m->view.b, m->sum[m->nsum - 1]))
            group_write_transposed(g, m, t, "rhs", "pack", arena_printf(w->a, "%s.v_", a));
        else
            write_steps(t, a, "split @.pack.@.v_ by %lld -> @.pv_ @.pl_\nrun @.pack.@.pl_ vector\n",
                        (long long)g->lanes);
    }
    int64_t depth = expr_or(axes_product(m->l, m->sum, m->nsum), -1),
            inner = expr_or(low_extent(m->l, m->sum[m->nsum - 1]), -1);
    int64_t ahead = gemm_prefetch_distance(w->p->m, m->reduce->dtype,
                                           (TileShape){ .rows = g->height, .vectors = g->vectors },
                                           depth, inner);
    write_steps(t, a, "stage @.rhs at %s -> @.col reg of @.r_", last);
    if (ahead)
        text_printf(t, " ahead %lld", (long long)ahead);
    text_add(t, "\n");
}

/* Rows that are more than a read (scaled, widened) are computed once for the task: otherwise every
 * panel would compute them again, and on x86 a broadcast from a register takes a port of the
 * multiply-adds. */
static void
write_made_rows(const Group *g, const GroupMember *m, Text *t)
{
    const char *a = m->name, *last = axis_name(g->w, m->part, m->sum[m->nsum - 1]);

    if (m->view.a->op == S_LOAD)
        return;
    write_steps(t, a, "stage @.lhs at task -> @.rows scratch of %s%s%s %s\n",
                group_heads(g, m, false), group_heads(g, m, true), group_row(g, m),
                axis_names(g->w, m->part, m->sum, m->nsum));
    if (gemm_is_contiguous(m->l, m->view.a, m->sum[m->nsum - 1]))
        write_steps(t, a, "split @.rows.%s by %lld -> @.av_ @.al_\nrun @.rows.@.al_ vector\n", last,
                    (long long)g->lanes);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Does the task have few rows, and columns that are contiguous along the sum? */
static bool
sums_in_lanes(const Group *g, const GroupMember *m, int64_t rows)
{
    int64_t length = m->nsum == 1 ? expr_or(m->n->axis[m->sum[0]].extent, 0) : 0;

    return length >= g->lanes && length % g->lanes == 0 && g->nrows >= 1 && g->nrows % rows == 0 &&
           2 * rows * group_in_tile(g) <= (int64_t)g->w->p->m->vector_registers &&
           gemm_is_contiguous(m->l, m->view.a, m->sum[0]) &&
           gemm_is_contiguous(m->l, m->view.b, m->sum[0]);
}

/* Each column is read once, in place, for all rows. */
static void
write_dots_of(const Group *g, const GroupMember *m, Text *t)
{
    const char *a = m->name, *column = axis_name(g->w, m->part, m->own[0]),
               *row = arena_printf(g->w->a, "%s%s", group_heads(g, m, true), group_row(g, m));

    write_steps(t, a, "split %s by %lld -> @.kv_ @.l_ exact\n", axis_name(g->w, m->part, m->sum[0]),
                (long long)g->lanes);
    write_steps(t, a, "order %s%s %s @.kv_ @.l_\nhold @ at %s -> @.acc reg over @.l_\n",
                group_heads(g, m, false), column, row, column);
    if (expr_or(m->n->axis[m->sum[0]].extent, INT64_MAX) <= GEMM_MOST_UNROLLED * g->lanes)
        text_printf(t, "run %s.kv_ unroll\n", a);
    text_printf(t, "run %s unroll\nrun %s.l_ vector\n", row, a);
}

/* A contraction, for all rows of the task. head: lines to be written before all others. */
static void
write_product(const Group *g, const GroupMember *m, Text *head, Text *t, bool whole)
{
    Draft *w = g->w;
    const char *a = m->name, *sums = axis_names(w, m->part, m->sum, m->nsum);
    int64_t width = g->vectors * g->lanes, columns = expr_or(m->n->axis[m->own[0]].extent, -1);
    const char *lay = gemm_layouts(
        w, m->part, m->view.b,
        (Panels){
            .axis = m->own, .naxis = 1, .run = 1, .sum = m->sum, .nsum = m->nsum, .width = width });
    const char *heads = group_heads(g, m, true);
    bool pads = lay ? columns < 0 || columns % width : columns < 0;

    text_add(head, lay ? lay : "");
    write_steps(t, a, "split %s by %lld -> @.rb_ @.rr_%s\n", group_row(g, m),
                (long long)(g->height / group_in_tile(g)), whole ? "" : " peel 1");
    write_steps(t, a, "split %s by %lld -> @.b_ @.v_%s\n", axis_name(w, m->part, m->own[0]),
                (long long)width, pads ? " pad" : "");
    write_steps(t, a, "split @.v_ by %lld -> @.r_ @.l_\norder @.b_ %s@.rb_ %s %s@.rr_ @.r_ @.l_\n",
                (long long)g->lanes, group_heads(g, m, false), sums, heads);
    if (pads)
        write_steps(t, a, "hold @ at @.rb_ -> @.sums scratch\n");
    write_steps(t, a, "hold @ at @.rb_ -> @.acc reg\nrun %s@.rr_ @.r_ unroll\nrun @.l_ vector\n",
                heads);
    if (pads)
        write_steps(t, a, "run @.sums.fin.@.l_ vector\n");
    write_panels(g, m, t, lay != NULL, pads);
    write_made_rows(g, m, t);
}

/* Several vectors along the loop x, if its length allows. */
static const char *
write_vectors(const Group *g, const GroupMember *m, Text *t, const char *x, const Expr *extent)
{
    const char *a = m->name;
    int64_t vectors = g->vectors;

    while (vectors > 1 && expr_or(extent, INT64_MAX) < vectors * g->lanes)
        vectors /= 2;
    write_steps(t, a, "split %s by %lld -> @.b_ @.v_\nsplit @.v_ by %lld -> @.r_ @.l_\n", x,
                (long long)(vectors * g->lanes), (long long)g->lanes);
    return arena_printf(g->w->a, "run %s.r_ unroll\nrun %s.l_ vector\n", a, a);
}

bool
group_write_line(const Group *g, const GroupMember *m, Text *t, const char *row)
{
    const char *a = m->name;

    if (m->nown > 1 || (m->reduce && (m->nown || !m->nsum)))
        return false;
    if (!m->reduce && !m->nown)
        return true;
    uint32_t axis = m->reduce ? m->sum[m->nsum - 1] : m->own[0];
    const char *run =
        write_vectors(g, m, t, axis_name(g->w, m->part, axis), m->n->axis[axis].extent);
    if (m->reduce)
        write_steps(t, a, "hold @ at %s -> @.acc reg over @.r_ @.l_\n", row);
    text_add(t, run);
    return true;
}

/* A tile of that many rows. in_lanes: contractions whose sums can be lanes have them so; there is
 * no program without one. */
static void
write_tile(const Group *g, int64_t rows, bool in_lanes)
{
    Arena *a = g->w->a;
    const GroupMember *last = &g->member[g->n - 1];
    Text head = { .arena = a }, t = { .arena = a };
    bool whole = g->nrows >= 0 && g->nrows % rows == 0, ok = true, any = !in_lanes;

    for (const GroupMember *m = g->member; m < last && !any; m++)
        any = m->product && sums_in_lanes(g, m, rows);
    if (!any)
        return;

    group_write_task(g, &t, rows);
    for (const GroupMember *m = g->member; m < last; m++)
        text_printf(&t, "put %s at task scratch of %s%s%s %s\n", m->name, group_heads(g, m, false),
                    group_heads(g, m, true), group_row(g, m), group_own(g, m));
    for (const GroupMember *m = g->member; m < last; m++)
        if (m->product && in_lanes && sums_in_lanes(g, m, rows))
            write_dots_of(g, m, &t);
        else if (m->product)
            write_product(g, m, &head, &t, whole);
        else
            ok &= group_write_line(g, m, &t, group_row(g, m));
    if (last->product)
        group_write_last(g, &t);
    else
        ok &= group_write_line(g, last, &t, "ir");
    text_add(&t, "run task parallel\n");
    text_add(&head, text_str(&t));
    if (ok)
        write_program(g->w, &head);
}

/* Bytes of intermediate tensors per row. */
static double
line_bytes(const Group *g)
{
    double sum = 0;

    for (const GroupMember *m = g->member; m + 1 < g->member + g->n; m++) {
        double bytes = sizeof(float);
        for (uint32_t i = 0; i < m->nown; i++)
            bytes *= cost_expected_size(g->w->c, m->n->axis[m->own[i]].extent);
        sum += bytes;
    }
    return sum;
}

/* times the tile's height; bounds the list: with more rows, reading a panel is less than a
 * thirtieth of its sums */
enum { MOST_TILES = 32 };

static void
write_tiles(const Group *g, double bytes)
{
    int64_t before = 0;

    for (int64_t tiles = MOST_TILES; tiles >= 1; tiles /= 2) {
        int64_t rows = tiles * (g->height / group_in_tile(g)),
                tasks = g->nrows <= 0 ? 0 : (g->nrows + rows - 1) / rows;
        /* as even as possible, or in complete register tiles */
        if (tasks && g->nrows % tasks == 0)
            rows = g->nrows / tasks;
        if (rows == before || (tiles > 1 && (double)(rows * group_in_task(g)) * bytes >
                                                (double)g->w->p->m->level[LEVEL_L2].bytes))
            continue;
        before = rows;
        write_tile(g, rows, false);
        write_tile(g, rows, true);
    }
}

/* Register tiles of two forms: wide ones divide most numbers of columns, narrower ones read less
 * for each multiply-add. */
void
write_group_columns(const Group *group)
{
    Group g = *group;
    double bytes = line_bytes(&g);

    for (g.vectors = group->vectors > 2 ? group->vectors - 1 : group->vectors;
         g.vectors <= group->vectors; g.vectors++) {
        g.height = tile_height(g.w->p->m, g.vectors);
        for (g.how = HEADS_SEPARATE; g.how <= HEADS_FUSED; g.how++)
            if (group_may(&g))
                write_tiles(&g, bytes);
    }
}
