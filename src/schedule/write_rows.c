/* write_rows: schedules of anything: elementwise work, movement, reductions, and groups of them over shared rows.
 *
 * One parallel loop over what all parts share, or over the outer axes of a part alone; then each part over its own
 * axes. Vectors run along the output where its elements are neighbours in memory, and what is read lies well; or along
 * a sum whose operands do, with several accumulators that are combined in the end. Axes that continue each other in
 * memory for every access become one.
 */
#include "schedule/write.h"

#include <string.h>

/* One part, as its program needs it. */
typedef struct {
    uint32_t part;
    Low low;
    const char *name;                /* what it makes */
    const Scalar *reduce;            /* or NULL */
    uint32_t own[NEST_MAX_AXES], nown;       /* parallel axes that are not shared, outermost first */
    uint32_t run;                    /* the last so many of them are one index in memory */
    bool along;                      /* vectors run along the run */
    uint32_t sum[NEST_MAX_AXES], nsum;
    uint32_t sum_run;                /* likewise of the sums, where vectors run along them; 0: they do not */
    int64_t lanes;
} Row;

/* ---- queries --------------------------------------------------------------------------------------------- */

/* Does every read that varies with the axis have a constant stride along it that is 0 or 1 (one of them 1, if
 * asked), without a guard? */
static bool
reads_run_along(Row *r, uint32_t axis, bool one)
{
    Low *l = &r->low;
    Accesses all = nest_accesses(l->c, l->a, l->n);
    bool unit = false;

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load;
        bool uses = false;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            uses |= expr_axes(load->u.load.at[d]) >> axis & 1;
        if (!uses)
            continue;
        const Expr *stride = low_stride(l, load, axis);
        if (!stride || load->u.load.outside || (!expr_is(stride, 0) && !expr_is(stride, 1) && !one) || !expr_const(stride, NULL))
            return false;
        unit |= expr_is(stride, 1);
    }
    return unit || !one;
}

static bool
writes_along(Row *r, uint32_t axis)
{
    const Nest *n = r->low.n;

    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        const Type *t = n->param[w->out].type;
        const Expr *stride = t->rank ? low_stride(&r->low, scalar_load(r->low.c, t->dtype, w->out, t->rank, w->at, NULL), axis) : NULL;
        if (!stride || !expr_is(stride, 1))
            return false;
    }
    return true;
}

static bool
is_rectangular(const Nest *n, uint32_t axis)
{
    return !expr_axes(n->axis[axis].extent) && !expr_uses_kind(n->axis[axis].extent, VAR_COMPUTED);
}

static Row
row_of(Draft *w, uint32_t part, uint32_t shared)
{
    const Points *p = w->p;
    const Part *k = &p->k->part[part];
    const Nest *n = k->nest;
    Row r = { .part = part, .low = low_part(w->c, w->a, p->k, p->m, k), .reduce = part_reduction(p, part) };
    const Scalar *value[NEST_MAX_AXES];
    uint32_t seen = 0;

    r.name = p->k->buffer.at[k->buffer[n->write[0].out]].name;
    r.lanes = p->m->vector_bytes / 4;
    for (uint32_t i = 0; i < n->nwrite; i++) {
        int64_t here = low_lanes(&r.low, n->param[n->write[i].out].type->dtype);
        r.lanes = here < r.lanes ? here : r.lanes;
        value[i] = n->write[i].value;
    }
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_REDUCE)
            r.sum[r.nsum++] = x;
        else if (seen++ >= shared)
            r.own[r.nown++] = x;
    r.run = r.nown > 0;
    if (r.nown && writes_along(&r, r.own[r.nown - 1]) && is_rectangular(n, r.own[r.nown - 1]))
        r.along = !r.reduce || reads_run_along(&r, r.own[r.nown - 1], false);
    while (r.along && r.run < r.nown) {
        bool all = true;
        for (uint32_t i = 0; all && i < n->nwrite; i++)
            all = low_collapses(&r.low, r.own[r.nown - r.run - 1], r.own[r.nown - r.run], value, n->nwrite, &n->write[i]);
        if (!all)
            break;
        r.run++;
    }
    if (!r.reduce || r.along || !r.nsum)
        return r;
    r.lanes = low_lanes(&r.low, r.reduce->dtype);
    uint32_t last = r.sum[r.nsum - 1];
    if (r.reduce->u.reduce.combiner > COMB_MIN || !is_rectangular(n, last) || !reads_run_along(&r, last, true))
        return r;
    for (r.sum_run = 1; r.sum_run < r.nsum; r.sum_run++)
        if (!low_collapses(&r.low, r.sum[r.nsum - r.sum_run - 1], r.sum[r.nsum - r.sum_run], r.reduce->arg, 1, NULL))
            break;
    return r;
}

/* ---- programs -------------------------------------------------------------------------------------------- */

static const char *
names(Draft *w, const Row *r, const uint32_t *axis, uint32_t n)
{
    return axis_names(w, r->part, axis, n);
}

static const Expr *
extent_of_run(Row *r, const uint32_t *axis, uint32_t n)
{
    const Expr *all = expr_int(r->low.c, 1);
    for (uint32_t i = 0; i < n; i++)
        all = expr_mul(r->low.c, all, r->low.n->axis[axis[i]].extent);
    return all;
}

/* Lanes, fewer where there are fewer points. */
static int64_t
lanes_for(const Row *r, const Expr *extent)
{
    int64_t lanes = r->lanes, points = expr_or(extent, INT64_MAX);

    while (lanes > 1 && lanes / 2 >= points)
        lanes /= 2;
    return lanes;
}

/* The index over the run: its one axis, or the fused ones under a name of their own. */
static const char *
write_run(Draft *w, const Row *r, Text *t, const uint32_t *axis, uint32_t n, const char *suffix)
{
    if (n == 1)
        return axis_name(w, r->part, axis[0]);
    const char *name = arena_printf(w->a, "%s.%s", r->name, suffix);
    text_printf(t, "fuse %s -> %s\n", names(w, r, axis, n), name);
    return name;
}

/* A part inside loop `outside` (NULL: it stands alone). `unroll` vectors are in flight; *task: the loop that can be
 * shared out if it stands alone. False: nothing of this kind fits. */
static bool
write_part(Draft *w, Row *r, Text *t, const char *outside, int64_t unroll, int64_t chunk)
{
    const char *a = r->name, *x = NULL, *around = outside, *sums;
    const uint32_t *run = r->own + r->nown - r->run;
    const char *outer = names(w, r, r->own, r->nown - r->run);

    if (r->along || (!r->reduce && r->nown)) {
        const Expr *extent = extent_of_run(r, run, r->run);
        int64_t lanes = r->along ? lanes_for(r, extent) : 1;
        bool fixed = expr_const(extent, NULL);
        x = write_run(w, r, t, run, r->run, "x");
        if (!outside && r->run == r->nown && (!fixed || expr_or(extent, 0) > chunk) && (!r->reduce || fixed)) {
            text_printf(t, "split %s by %lld -> %s.c %s.i guard\n", x, (long long)chunk, a, a);
            x = arena_printf(w->a, "%s.i", a);
            outer = arena_printf(w->a, "%s.c", a);
        }
        if (lanes == 1) {
            if (r->reduce)
                return false;
            return outside || !*outer || (text_printf(t, "fuse %s -> task\nrun task parallel\n", outer), true);
        }
        if (unroll > 1 && r->reduce && (!fixed || expr_or(extent, 0) < unroll * lanes))
            return false;
        if (unroll > 1)
            text_printf(t, "split %s by %lld -> %s.b %s.v\nsplit %s.v by %lld -> %s.u %s.l\n", x, (long long)(unroll * lanes), a, a, a, (long long)lanes, a, a);
        else
            text_printf(t, "split %s by %lld -> %s.b %s.l\n", x, (long long)lanes, a, a);
        if (r->reduce) {
            text_printf(t, "order %s %s.b %s %s%s%s.l\n", outer, a, names(w, r, r->sum, r->nsum), unroll > 1 ? a : "", unroll > 1 ? ".u " : "", a);
            text_printf(t, "hold %s at %s.b -> %s.acc reg\n", a, a, a);
        }
        if (unroll > 1)
            text_printf(t, "run %s.u unroll\n", a);
        text_printf(t, "run %s.l vector\n", a);
        if (!outside && *outer)
            text_printf(t, "fuse %s -> task\nrun task parallel\n", outer);
        else if (!outside && r->reduce)
            text_printf(t, "run %s.b serial\n", a);
        return true;
    }
    outer = names(w, r, r->own, r->nown);
    if (!r->reduce)
        return true;                         /* one point */
    if (!outside && *outer) {
        text_printf(t, "fuse %s -> task\n", outer);
        around = "task";
    } else if (*outer) {
        around = axis_name(w, r->part, r->own[r->nown - 1]);
    }
    if (!around)
        return false;                        /* one sum of everything: held at no loop */
    if (r->sum_run) {
        const Expr *extent = extent_of_run(r, r->sum + r->nsum - r->sum_run, r->sum_run);
        int64_t lanes = lanes_for(r, extent);
        if (lanes == 1)
            lanes = 2;
        if (unroll > 1 && expr_or(extent, INT64_MAX) < unroll * lanes)
            return false;
        sums = write_run(w, r, t, r->sum + r->nsum - r->sum_run, r->sum_run, "r");
        if (unroll > 1)
            text_printf(t, "split %s by %lld -> %s.b %s.v\nsplit %s.v by %lld -> %s.u %s.l\n", sums, (long long)(unroll * lanes), a, a, a, (long long)lanes, a, a);
        else
            text_printf(t, "split %s by %lld -> %s.b %s.l\n", sums, (long long)lanes, a, a);
        text_printf(t, "hold %s at %s -> %s.acc reg over %s%s%s.l\n", a, around, a, unroll > 1 ? a : "", unroll > 1 ? ".u " : "", a);
        if (unroll > 1)
            text_printf(t, "run %s.u unroll\n", a);
        text_printf(t, "run %s.l vector\n", a);
    } else {
        text_printf(t, "hold %s at %s -> %s.acc reg\n", a, around, a);
    }
    if (!outside)
        text_add(t, "run task parallel\n");
    return true;
}

void
write_rows(Draft *w)
{
    const Points *p = w->p;
    uint32_t n = p->k->npart, shared = n > 1 ? p->k->shared : 0;
    Row *row = NEW_ARRAY(w->a, Row, n);

    for (uint32_t i = 0; i < n; i++)
        row[i] = row_of(w, i, shared);
    for (int64_t unroll = 1; unroll <= 8; unroll *= 2) {
        Text t = { .arena = w->a };
        bool fits = true, any = false;
        const char *outside = NULL;
        int64_t bytes = w->p->m->vector_bytes / (row[0].lanes ? row[0].lanes : 1), chunk = p->m->level[LEVEL_L1].bytes / 2 / bytes;
        if (shared) {
            uint32_t axis[NEST_MAX_AXES], count = 0;
            for (uint32_t x = 0; count < shared; x++)
                if (p->k->part[0].nest->axis[x].kind == AXIS_PARALLEL)
                    axis[count++] = x;
            text_printf(&t, "fuse %s -> row\n", axis_names(w, 0, axis, shared));
            outside = "row";
        }
        for (uint32_t i = 0; fits && i < n; i++) {
            /* A part too short for so many vectors has fewer. */
            size_t before = t.n;
            int64_t u = unroll;
            while (!write_part(w, &row[i], &t, outside, u, chunk) && fits) {
                if (t.s)
                    t.s[t.n = before] = 0;
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
