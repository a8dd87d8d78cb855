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
write_scan(Draft *w, Row *r)
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
        text_printf(&t, "hold %s at all -> %s.last reg\n", a, a);
    } else if (scan + 1 == r->nown) {
        const Expr *rows = row_extent(r, r->own, scan);
        int64_t task = rows_of_task(w, rows);
        text_printf(&t,
                    "fuse %s -> %s.rows\nsplit %s.rows by %lld -> %s.c %s.i guard\nsplit %s.i by "
                    "%d -> %s.b %s.u peel 1\n",
                    outer, a, a, (long long)(task ? task : ROWS), a, a, a, ROWS, a, a);
        text_printf(&t,
                    "order %s.c %s.b %s %s.u\nfuse %s.c -> task\nhold %s at %s.b -> %s.last "
                    "reg\nrun %s.u unroll\nrun task parallel\n",
                    a, a, axis_name(w, r->part, r->own[scan]), a, a, a, a, a, a);
    } else {
        if (!r->along)
            return false;
        const Expr *extent = row_extent(r, r->own + r->nown - r->run, r->run);
        int64_t lanes = row_lanes(r, extent), bytes = w->p->m->vector_bytes / r->lanes,
                block = row_block(w, extent, bytes, machine_block_bytes(w->p->m, LEVEL_L1) / bytes);
        const char *x = row_index(w, r, &t, r->own + r->nown - r->run, r->run, "x"),
                   *between = axis_names(w, r->part, r->own + scan, r->nown - r->run - scan);
        if (lanes == 1)
            return false;
        text_printf(&t, "split %s by %lld -> %s.c %s.i guard\nsplit %s.i by %lld -> %s.b %s.l\n", x,
                    (long long)block, a, a, a, (long long)lanes, a, a);
        text_printf(&t,
                    "order %s %s.c %s %s.b %s.l\nfuse %s %s.c -> task\nhold %s at task -> %s.last "
                    "scratch\n",
                    outer, a, between, a, a, outer, a, a, a);
        text_printf(&t, "run %s.l %s.last.init.%s.l vector\nrun task parallel\n", a, a, a);
    }
    write_program(w, &t);
    return true;
}
