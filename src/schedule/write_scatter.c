/* write_scatter: rows added at computed indices, over a copy of the initial contents.
 *
 * The position within a row is not computed from data: columns are independent, so blocks of them
 * are distributed over threads, and vectors run along them. Rows are processed in order, whatever
 * their indices.
 */
#include "schedule/rows.h"

/* Rows come in no order, and hardware prefetches anew in each: for rows of 1,024 bytes in pieces of
 * 2, 4, 8 and 16 lines, 40,000 rows take 33, 40, 31 and 20 ms on a core of a Zen 3, on two cores
 * 23, 23, 17 and 20. */
enum { LEAST_LINES = 16 };

/* The loops of the initialisation before the last dimension: "fill.d0 fill.d1". */
static const char *
fill_names(const Draft *w, uint32_t part)
{
    Text t = { .arena = w->a };

    for (IterId x = 1; x < w->p->iter.n; x++)
        if (w->p->iter.at[x].size && w->p->iter.at[x].part == part)
            text_printf(&t, "%sfill.%s", t.n ? " " : "", w->p->iter.at[x].name);
    return text_str(&t);
}

/* The number of innermost axes that write separate elements and are contiguous in what is written
 * and in what is read, and that do not affect a row's index. 0: the last one does, or is no
 * column. */
static uint32_t
columns_run(RowPart *r)
{
    const Nest *n = r->low.n;
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank, run = 0;
    const Scalar *value = out->value;

    for (; run < r->free && run < rank; run++) {
        uint32_t x = r->own[r->free - 1 - run], d = rank - 1 - run;
        bool apart = axis_of(out->at[d]) != x;
        /* each column has a row of its own: no vector of them is contiguous */
        for (uint32_t k = 0; k < d; k++)
            apart |= expr_axes(out->at[k]) >> x & 1;
        if (apart || (run && !low_collapses(&r->low, x, r->own[r->free - run], &value, 1, out)))
            break;
    }
    return run;
}

bool
write_scatter(Draft *w, RowPart *r)
{
    const char *a = r->name;
    const Nest *n = r->low.n;
    Text t = { .arena = w->a };

    if (n->nwrite != 1 || n->write[0].combiner == COMB_NONE || !r->free ||
        nest_axes_of_kind(n, AXIS_REDUCE))
        return false;
    uint32_t run = columns_run(r);
    if (!run)
        return false;
    const uint32_t *columns_of = r->own + r->free - run;
    const Type *type = n->param[n->write[0].out].type;
    const Expr *extent = row_extent(r, columns_of, run);
    int64_t bytes = dtype_info[type->dtype].bytes, lanes = row_lanes(r, extent),
            block = row_block(w, extent, bytes, machine_block_bytes(w->p->m, LEVEL_L1) / bytes);
    int64_t least = LEAST_LINES * w->p->m->line_bytes / bytes, columns = expr_or(extent, INT64_MAX);
    block = block > least ? block : least < columns ? least : columns;
    const char *outer = axis_names(w, r->part, r->own, r->free - run),
               *rest = axis_names(w, r->part, r->own + r->free, r->nown - r->free);
    const char *fill = fill_names(w, r->part);
    if (lanes == 1 || block < lanes)
        return false;
    const char *name = row_index(w, r, &t, columns_of, run, "x");
    write_steps(&t, a, "split %s by %lld -> @.c @.i guard\nfuse %s @.c -> task\napart @.i\n", name,
                (long long)block, outer);
    if (*fill)
        text_printf(&t, "order %s fill.%s.i\n", fill, a);
    if (*rest)
        text_printf(&t, "order %s %s.i\n", rest, a);
    write_steps(&t, a, "split fill.@.i by %lld -> @.fb @.fl\nsplit @.i by %lld -> @.b @.l\n",
                (long long)lanes, (long long)lanes);
    write_steps(&t, a, "run fill.@.fl @.l vector\nrun task parallel\n");
    write_program(w, &t);
    return true;
}
