/* write_rows: schedules of anything: elementwise work, movement, reductions, and groups of them
 * over shared rows.
 *
 * One parallel loop over what all parts share, or over the outer axes of a single part; then each
 * part over its own axes. Vectors run along the output if its elements and its operands are
 * contiguous; or along a sum whose operands are, with several accumulators that are combined in the
 * end. Axes that are contiguous for every access become one.
 */
#include "cost/cost.h"
#include "schedule/rows.h"

#include <math.h>

enum {
    /* unrolled gathers; bounds code, each is dozens of instructions: more are a loop */
    FEW_PLACES = 8,
    /* operations of concurrent vectors: a processor has twice as many instructions in flight
     * (WINDOW, cost.c), of this iteration and the next, so more are only code (a C compiler took
     * 1.5 s for twelve vectors of 60) */
    WRITTEN_OUT = 128,
};

/* ---- programs -------------------------------------------------------------------------------- */

static const char *
names(Draft *w, const RowPart *r, const uint32_t *axis, uint32_t n)
{
    return axis_names(w, r->part, axis, n);
}

/* Operations of one point of a part. */
static int64_t
operations(const Draft *w, RowPart *r)
{
    for (uint32_t i = 0, n = r->operations ? 0 : r->low.n->nwrite; i < n; i++)
        r->operations += scalar_size(w->c, r->low.n->write[i].value);
    return r->operations;
}

/* Prefetches short rows that come from memory some rows ahead. When several parts process a row,
 * the next one is outside of the reorder buffer, and hardware may not prefetch it: softmax of rows
 * of 128 takes 6.6 ms on a Zen 5 core if rows begin at multiples of 256 bytes, 3.4 at other lines,
 * and 3.4 in both cases with a distance of 2, 4, 8 or 16 rows. Longer rows, and those of one part,
 * gain nothing. */
static void
ask_ahead(Draft *w, RowPart *r, Text *t, const char *around)
{
    const Kernel *k = w->p->k;
    const MemoryLevel *memory = &w->p->m->level[LEVEL_MEMORY];
    const Scalar *const *read = scalar_loads(w->c, r->reduce->arg[0]);
    bool bare = read[0] && !read[1] && !read[0]->u.load.outside;
    uint32_t slot = bare ? read[0]->u.load.slot : r->low.n->nin;
    uint32_t buffer = slot < r->low.n->nin ? k->part[r->part].buffer[slot] : k->nin;
    if (buffer >= k->nin || cost_argument_level(w->c, k, w->p->m, buffer) != LEVEL_MEMORY)
        return;
    double row =
        (double)(expr_or(row_extent(r, r->sum + r->nsum - r->nsum_fused, r->nsum_fused), 1) *
                 dtype_info[read[0]->dtype].bytes);
    text_printf(t, "stage %s.%s at %s -> %s.near reg of %s.b %s.u ahead %lld\n", r->name,
                r->low.n->param[slot].name, around, r->name, r->name, r->name,
                /* as much as is in flight at once (Little's law) */
                (long long)ceil(memory->latency_seconds * memory->one.read / row));
}

/* Vectors along x, `unroll` at once; the loop over those, and a space, "" if there is one. */
static const char *
split_vectors(Draft *w, const RowPart *r, Text *t, const char *x, int64_t unroll, int64_t lanes)
{
    if (unroll > 1)
        write_steps(t, r->name, "split %s by %lld -> @.b @.v\nsplit @.v by %lld -> @.u @.l\n", x,
                    (long long)(unroll * lanes), (long long)lanes);
    else
        write_steps(t, r->name, "split %s by %lld -> @.b @.l\n", x, (long long)lanes);
    return unroll > 1 ? arena_printf(w->a, "%s.u ", r->name) : "";
}

/* The same along the last sum, which is not the innermost loop, and is moved there. Vectors at once
 * are of several points of the sum before it. */
static const char *
split_moved_sum(Draft *w, const RowPart *r, Text *t, const char *x, int64_t unroll, int64_t lanes)
{
    uint32_t last = r->nsum - 1;
    const char *before = names(w, r, r->sum, last), *several = "";

    split_vectors(w, r, t, x, 1, lanes);
    if (unroll > 1) {
        write_steps(t, r->name, "split %s by %lld -> @.c @.u\n",
                    axis_name(w, r->part, r->sum[last - 1]), (long long)unroll);
        before = arena_printf(w->a, "%s %s.c", names(w, r, r->sum, last - 1), r->name);
        several = arena_printf(w->a, "%s.u ", r->name);
    }
    write_steps(t, r->name, "order %s @.b %s@.l\n", before, several);
    return several;
}

/* Distributes the loops of a part that is in no other loop. */
static bool
distribute(Text *t, const char *outside, const char *loops)
{
    if (!outside && *loops)
        text_printf(t, "fuse %s -> task\nrun task parallel\n", loops);
    return true;
}

/* A part inside of loop `outside` (NULL: by itself). `unroll` vectors are in flight. False: not
 * possible. */
static bool
write_part(Draft *w, RowPart *r, Text *t, const char *outside, int64_t unroll, int64_t chunk)
{
    const char *a = r->name, *x = NULL, *around = outside, *sums;
    const uint32_t *run = r->own + r->nown - r->nfused;

    if (write_column_sums(w, r, t, outside, unroll * chunk / vectors_in_flight(w->p->m)))
        return true;
    const char *outer = names(w, r, r->own, r->nown - r->nfused);
    const char *free =
        names(w, r, r->own, r->free < r->nown - r->nfused ? r->free : r->nown - r->nfused);

    if (r->along || (!r->reduce && r->nown)) {
        const Expr *extent = row_extent(r, run, r->nfused);
        int64_t lanes = r->along ? row_lanes(r, extent) : 1;
        bool fixed = expr_const(extent, NULL);
        x = row_index(w, r, t, run, r->nfused, "x");
        if (!outside && r->nfused == r->nown && r->free == r->nown &&
            (!fixed || expr_or(extent, 0) > chunk) && (!r->reduce || fixed)) {
            write_steps(t, a, "split %s by %lld -> @.c @.i guard\n", x, (long long)chunk);
            x = arena_printf(w->a, "%s.i", a);
            outer = free = arena_printf(w->a, "%s.c", a);
        }
        if (lanes == 1) {
            if (r->reduce)
                return false;
            return distribute(t, outside, free);
        }
        if (unroll > 1 && (r->reduce ? !fixed || expr_or(extent, 0) < unroll * lanes
                                     : unroll * operations(w, r) > WRITTEN_OUT))
            return false;
        const char *several = split_vectors(w, r, t, x, unroll, lanes);
        if (r->reduce) {
            write_steps(t, a, "order %s @.b %s %s@.l\nhold @ at @.b -> @.acc reg\n", outer,
                        names(w, r, r->sum, r->nsum), several);
        }
        if (*several)
            text_printf(t, "run %sunroll\n", several);
        if (r->placed && expr_or(row_extent(r, r->sum, r->nsum), INT64_MAX) <= FEW_PLACES)
            text_printf(t, "run %s unroll\n", names(w, r, r->sum, r->nsum));
        text_printf(t, "run %s.l vector\n", a);
        if (!outside && !*free && r->reduce)
            text_printf(t, "run %s.b serial\n", a);
        return distribute(t, outside, free);
    }
    outer = names(w, r, r->own, r->nown);
    if (r->free < r->nown)
        return !*outer || (!r->reduce && distribute(t, outside, free));
    if (!r->reduce)
        return true; /* one point */
    if (!outside && *outer) {
        text_printf(t, "fuse %s -> task\n", outer);
        around = "task";
    } else if (*outer) {
        around = axis_name(w, r->part, r->own[r->nown - 1]);
    }
    if (!around)
        around = "all";
    if (r->nsum_fused && machine_lanes(w->p->m, DT_F32) > 1) {
        const Expr *extent = row_extent(r, r->sum + r->nsum - r->nsum_fused, r->nsum_fused);
        int64_t lanes = row_lanes(r, extent);
        if (lanes == 1)
            lanes = 2;
        if (!r->moved && unroll > 1 && expr_or(extent, INT64_MAX) < unroll * lanes)
            return false;
        sums = row_index(w, r, t, r->sum + r->nsum - r->nsum_fused, r->nsum_fused, "r");
        const char *several = r->moved ? split_moved_sum(w, r, t, sums, unroll, lanes)
                                       : split_vectors(w, r, t, sums, unroll, lanes);
        write_steps(t, a, "hold @ at %s -> @.acc reg over %s@.l\n", around, several);
        if (*several)
            text_printf(t, "run %sunroll\n", several);
        text_printf(t, "run %s.l vector\n", a);
        if (!r->moved && w->p->k->npart > 1 && unroll > 1 &&
            expr_or(extent, INT64_MAX) <= unroll * lanes)
            ask_ahead(w, r, t, around);
    } else {
        write_steps(t, a, "hold @ at %s -> @.acc reg\n", around);
    }
    if (!outside && *outer)
        text_add(t, "run task parallel\n");
    return true;
}

/* Programs whose parts are in loops over the first `shared` axes. */
static void
write_parts(Draft *w, RowPart *row, uint32_t shared, const char *before)
{
    const Points *p = w->p;
    uint32_t n = p->k->npart;
    int64_t most = vectors_in_flight(p->m);
    bool sums = false;

    for (uint32_t i = 0; i < n; i++)
        sums |= row[i].nsum_fused > 0;
    /* Of equal prices the first is taken: the shortest code; for sums along vectors, the one with
     * the most accumulators. */
    for (int64_t step = 1; step <= most; step *= 2) {
        int64_t unroll = sums ? most / step : step;
        Text t = { .arena = w->a };
        text_add(&t, before);
        bool fits = true, any = false;
        const char *outside = NULL;
        int64_t bytes = w->p->m->vector_bytes / (row[0].lanes ? row[0].lanes : 1),
                chunk = machine_block_bytes(p->m, LEVEL_L1) / bytes;
        if (shared) {
            uint32_t axis[NEST_MAX_AXES];
            axis_list(shared_axes(w, 0), axis);
            text_printf(&t, "fuse %s -> row\n", axis_names(w, 0, axis, shared));
            outside = "row";
        }
        for (uint32_t i = 0; fits && i < n; i++) {
            /* A part too short for that many vectors has fewer. */
            size_t start = t.n;
            int64_t u = unroll;
            while (!write_part(w, &row[i], &t, outside, u, chunk) && fits) {
                if (t.s)
                    t.s[t.n = start] = 0;
                fits = u > 1;
                u /= 2;
            }
            any |= u == unroll;
        }
        if (shared)
            text_add(&t, "run row parallel\n");
        if (fits && any)
            write_program(w, &t);
    }
}

static RowPart *
rows_of(Draft *w, uint32_t shared)
{
    RowPart *row = NEW_ARRAY(w->a, RowPart, w->p->k->npart);

    for (uint32_t i = 0; i < w->p->k->npart; i++)
        row[i] = row_of(w, i, shared);
    return row;
}

/* Parts that all run along the last shared axis, and have no axes of their own (sums over adjacent
 * channels): each vectorises it separately. */
static void
write_along_shared(Draft *w, uint32_t shared)
{
    RowPart *row = rows_of(w, shared - 1);
    const char *name = row[0].nown ? axis_name(w, 0, row[0].own[0]) : "";
    Step apart = { .verb = VERB_apart, .subject = sym(w->c, name) };

    for (uint32_t i = 0; i < w->p->k->npart; i++)
        if (row[i].nown != 1 || !row[i].along ||
            row_lanes(&row[i], row_extent(&row[i], row[i].own, 1)) == 1)
            return;
    if (points_step(w->p, &apart))
        write_parts(w, row, shared - 1, arena_printf(w->a, "apart %s\n", name));
}

/* The outer axes of a part that only moves elements, by decreasing stride of its reads. False: they
 * are in that order already, or some stride is unknown. */
static bool
axes_as_read(RowPart *r, const Scalar *load)
{
    uint32_t outer = r->nown - r->nfused;
    int64_t stride[NEST_MAX_AXES];
    bool moved = false;

    for (uint32_t i = 0; i < outer; i++) {
        const Expr *e = low_stride(&r->low, load, r->own[i]);
        if (!e || !expr_const(e, &stride[i]) || stride[i] < 1)
            return false;
        for (uint32_t at = i; at > 0 && stride[at] > stride[at - 1]; at--) {
            int64_t s = stride[at];
            uint32_t own = r->own[at];
            stride[at] = stride[at - 1], r->own[at] = r->own[at - 1];
            stride[at - 1] = s, r->own[at - 1] = own;
            moved = true;
        }
    }
    return moved;
}

/* Movement of bursts that are complete vectors, in the order of the reads: hardware does not
 * prefetch large strides for reads, but stores do not wait. */
static void
write_as_read(Draft *w, RowPart row)
{
    Accesses all = nest_accesses(w->c, w->a, row.low.n);

    if (row.along && !row.reduce && !row.nsum && row.free == row.nown && row.nfused < row.nown &&
        all.n == 1 && axes_as_read(&row, all.at[0].load))
        write_parts(w, &row, 0,
                    arena_printf(w->a, "order %s\n", names(w, &row, row.own, row.nown)));
}

/* Gathers with contiguous lanes: an index is looked up once for all of them; stores are strided. */
static void
write_gather(Draft *w, RowPart *row)
{
    uint32_t axis = row_gather_axis(row), rest[NEST_MAX_AXES], n = 0;
    const char *a = row->name, *x = axis != NO_SLOT ? axis_name(w, row->part, axis) : NULL;
    int64_t extent = x ? expr_or(row->low.n->axis[axis].extent, 0) : 0;

    for (uint32_t i = 0; i < row->nown; i++)
        if (row->own[i] != axis)
            rest[n++] = row->own[i];
    for (int64_t vectors = 1; x && row->reduce && n && vectors * row->lanes <= extent &&
                              vectors <= vectors_in_flight(w->p->m);
         vectors *= 2) {
        Text t = { .arena = w->a };
        write_steps(&t, a, "split %s by %lld -> @.b @.v\nsplit @.v by %lld -> @.u @.l\n", x,
                    (long long)(vectors * row->lanes), (long long)row->lanes);
        write_steps(&t, a, "order %s @.b %s @.u @.l\nhold @ at @.b -> @.acc reg\n",
                    names(w, row, rest, n), names(w, row, row->sum, row->nsum));
        write_steps(&t, a, "run @.u unroll\nrun @.l vector\nfuse %s -> task\nrun task parallel\n",
                    names(w, row, rest, 1));
        write_program(w, &t);
    }
}

/* Is it a product that a row at a time would compute by reading an operand anew for each row? Where
 * both are short, prices do not tell that from a tile. Rows that each sum few points are no product
 * in this sense. */
static bool
reuses_nothing(Draft *w, const RowPart *row)
{
    Contraction view;

    return w->p->k->npart == 1 && !row->placed && !has_support(w) &&
           nest_contraction(w->c, row->low.n, &view) && view.row && view.col;
}

void
write_rows(Draft *w)
{
    uint32_t n = w->p->k->npart, shared = n > 1 ? w->p->k->shared : 0;
    RowPart *row = rows_of(w, shared);

    /* tasks of one part cannot wait for those of another */
    for (uint32_t i = 0; i < n && n > 1 && !shared; i++)
        if (row[i].nown)
            return;
    if (reuses_nothing(w, row))
        return;
    if (n == 1 && (write_scan(w, &row[0]) || write_scatter(w, &row[0])))
        return;
    write_parts(w, row, shared, "");
    if (n == 1) {
        write_as_read(w, row[0]);
        write_gather(w, &row[0]);
    }
    if (shared > 1)
        write_along_shared(w, shared);
}
