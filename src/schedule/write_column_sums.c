/* write_column_sums: sums over rows, one sum for each column.
 *
 * A strip of columns with its sums in registers would read a line or two of each row and then go to
 * the next row: another page every time, which no prefetcher follows. So rows are read from end to
 * end, or in bursts of many lines, and added to sums in the nearest cache. A few rows are added at
 * once, in registers, so that the sums are loaded and stored once for all of them.
 */
#include "schedule/rows.h"

/* Rows are added four at a time: a load and a store of the column's sum beside four loads, as many
 * cycles as the loads alone take at two per cycle. More rows are more concurrent pages. */
enum { ROWS_AT_ONCE = 4 };

/* Does a strip have more lines, one a row, than L1? */
static bool
is_deep(const Draft *w, RowPart *r)
{
    return expr_or(row_extent(r, r->sum, r->nsum), INT64_MAX) >
           w->p->m->level[LEVEL_L1].bytes / w->p->m->line_bytes;
}

bool
write_column_sums(Draft *w, RowPart *r, Text *t, const char *outside, int64_t block)
{
    const char *a = r->name;
    const Expr *extent = row_extent(r, r->own + r->nown - r->nfused, r->nfused);

    if (!r->reduce || r->reduce->narg > 1 || !r->along || r->free < r->nown || !is_deep(w, r) ||
        row_lanes(r, extent) == 1 || expr_or(extent, INT64_MAX) <= block / 2)
        return false;
    const char *x = row_index(w, r, t, r->own + r->nown - r->nfused, r->nfused, "x");
    const char *outer = axis_names(w, r->part, r->own, r->nown - r->nfused);
    write_steps(t, a, "split %s by %lld -> @.c @.i guard\nsplit @.i by %lld -> @.b @.l\n", x,
                (long long)block, (long long)row_lanes(r, extent));
    write_steps(t, a, "split %s by %d -> @.r @.s\n", axis_name(w, r->part, r->sum[r->nsum - 1]),
                ROWS_AT_ONCE);
    write_steps(t, a, "order %s @.c %s @.r @.b @.s @.l\n", outer,
                axis_names(w, r->part, r->sum, r->nsum - 1));
    if (!outside)
        text_printf(t, "fuse %s %s.c -> task\n", outer, a);
    const char *at = outside ? arena_printf(w->a, "%s.c", a) : "task";
    write_steps(t, a, "hold @ at %s -> @.sums scratch\nhold @ at @.b -> @.acc reg\n", at);
    write_steps(t, a, "run @.s unroll\nrun @.l @.sums.init.@.l @.sums.fin.@.l vector\n");
    if (!outside)
        text_add(t, "run task parallel\n");
    return true;
}
