/* write_scan: running sums and similar scans: each element from the previous one.
 *
 * The previous element is held. If the scan runs along memory, a few rows are scanned concurrently,
 * so that a row need not wait for its own last addition; if it runs across rows, a row of elements
 * is held and vectors run along it.
 */
#include "schedule/rows.h"

/* rows scanned concurrently: enough to hide the latency of an addition of four cycles, and their
 * lines, read and written, fit one set of an eight-way cache */
enum { ROWS = 4 };

/* Rows of a task, in groups that are scanned concurrently; one such group if their number is
 * symbolic. */
static int64_t
rows_of_task(const Draft *w, const Expr *rows)
{
    int64_t n = expr_or(rows, 1), tasks = machine_tasks(w->p->m);
    return (n + tasks * ROWS - 1) / (tasks * ROWS) * ROWS;
}

bool
write_scan(Draft *w, RowPart *r)
{
    const char *a = r->name;
    Text t = { .arena = w->a };
    uint32_t scan = 0;

    if (!part_previous(w->p, r->part))
        return false;
    while (r->low.n->axis[r->own[scan]].kind != AXIS_SCAN)
        scan++;
    if (r->free < scan)
        return false;
    const char *outer = axis_names(w, r->part, r->own, scan);
    if (scan + 1 == r->nown && !scan) {
        write_steps(&t, a, "hold @ at all -> @.last reg\n");
    } else if (scan + 1 == r->nown) {
        const Expr *rows = row_extent(r, r->own, scan);
        int64_t task = rows_of_task(w, rows);
        write_steps(&t, a,
                    "fuse %s -> @.rows\nsplit @.rows by %lld -> @.c @.i guard\nsplit @.i by %d -> "
                    "@.b @.u peel 1\n",
                    outer, (long long)(task ? task : ROWS), ROWS);
        write_steps(&t, a,
                    "order @.c @.b %s @.u\nfuse @.c -> task\nhold @ at @.b -> @.last reg\nrun @.u "
                    "unroll\nrun task parallel\n",
                    axis_name(w, r->part, r->own[scan]));
    } else {
        if (!r->along)
            return false;
        const Expr *extent = row_extent(r, r->own + r->nown - r->nfused, r->nfused);
        int64_t lanes = row_lanes(r, extent), bytes = w->p->m->vector_bytes / r->lanes,
                block = row_block(w, extent, bytes, machine_block_bytes(w->p->m, LEVEL_L1) / bytes);
        const char *x = row_index(w, r, &t, r->own + r->nown - r->nfused, r->nfused, "x"),
                   *between = axis_names(w, r->part, r->own + scan, r->nown - r->nfused - scan);
        if (lanes == 1)
            return false;
        write_steps(&t, a, "split %s by %lld -> @.c @.i guard\nsplit @.i by %lld -> @.b @.l\n", x,
                    (long long)block, (long long)lanes);
        write_steps(
            &t, a,
            "order %s @.c %s @.b @.l\nfuse %s @.c -> task\nhold @ at task -> @.last scratch\n",
            outer, between, outer);
        write_steps(&t, a, "run @.l @.last.init.@.l vector\nrun task parallel\n");
    }
    write_program(w, &t);
    return true;
}
