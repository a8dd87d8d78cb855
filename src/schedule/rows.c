/* rows: see rows.h. */
#include "schedule/rows.h"

/* lanes that are worth a vector: half of the smallest one */
enum { FEWEST_LANES = 2 };

/* ---- queries --------------------------------------------------------------------------------- */

/* Does every read that varies with the axis have a constant stride along it of 0 or 1 (at least one
 * of them 1, on request), without a guard? */
static bool
reads_run_along(RowPart *r, uint32_t axis, bool one)
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
        if (!stride || load->u.load.outside ||
            (!expr_is(stride, 0) && !expr_is(stride, 1) && !one) || !expr_const(stride, NULL))
            return false;
        unit |= expr_is(stride, 1);
    }
    return unit || !one;
}

static bool
writes_along(RowPart *r, uint32_t axis)
{
    const Nest *n = r->low.n;

    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        const Type *t = n->param[w->out].type;
        const Expr *stride =
            t->rank
                ? low_stride(&r->low, scalar_load(r->low.c, t->dtype, w->out, t->rank, w->at, NULL),
                             axis)
                : NULL;
        if (!stride || !expr_is(stride, 1))
            return false;
    }
    return true;
}

/* Is every access without a fixed stride along the axis indexed by data, with a test of its own? */
static bool
reads_are_placed(RowPart *r, uint32_t axis)
{
    Accesses all = nest_accesses(r->low.c, r->low.a, r->low.n);
    bool placed = false;

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load;
        bool uses = false, computed = false;
        for (uint32_t d = 0; d < load->u.load.rank; d++) {
            uses |= expr_axes(load->u.load.at[d]) >> axis & 1;
            computed |= expr_uses_kind(load->u.load.at[d], VAR_COMPUTED);
        }
        const Expr *stride = uses && !computed ? low_stride(&r->low, load, axis) : NULL;
        if (uses && !computed &&
            (load->u.load.outside || !stride || (!expr_is(stride, 0) && !expr_is(stride, 1))))
            return false;
        placed |= uses && computed;
    }
    return placed;
}

/* Does the extent of another axis depend on this one? Then its points cannot be lanes of one
 * vector. */
static bool
extents_depend_on(const Nest *n, uint32_t axis)
{
    for (uint32_t x = 0; x < n->naxis; x++)
        if (expr_axes(n->axis[x].extent) >> axis & 1)
            return true;
    return false;
}

/* Does the border of a select by position fall within a vector, which then reads both sides lane by
 * lane? */
static bool
is_torn(const Scalar *test, int64_t lanes)
{
    const Scalar *at = test->arg[0], *border = test->arg[1];
    Var v;

    return at->op != S_INDEX || !expr_is_var(at->u.index, &v) || border->op != S_CONST ||
           test->op <= S_NE || (border->u.bits + (test->op == S_LE || test->op == S_GT)) % lanes;
}

/* Is the value concatenated along the axis, of more pieces with borders within vectors than vectors
 * should test? A single element branches to the piece that it needs. On a Cascade Lake core vectors
 * take, relative to elements, 0.4 to 0.9 of the time with two pieces, 0.7 to 1.3 with four (of 1,
 * 2, 20 and 65 elements; 2.1 of 3, 5 and 6), 1.6 to 2.4 with eight, 4 with sixteen; without borders
 * within vectors a fortieth (sixteen pieces of 64). */
static bool
is_patchwork(RowPart *r, uint32_t axis)
{
    enum { MOST_ASKED = 4 };
    Accesses all = nest_accesses(r->low.c, r->low.a, r->low.n);
    int64_t pieces = 1; /* the first one follows the axis */
    int64_t torn = 0, whole = 0;
    Var v;

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load;
        bool moved = false;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            moved |=
                (expr_axes(load->u.load.at[d]) >> axis & 1) && !expr_is_var(load->u.load.at[d], &v);
        pieces += all.at[i].conditional && moved;
    }
    for (uint32_t i = 0; i < r->low.n->nwrite && pieces > MOST_ASKED; i++)
        FOR_EACH_SCALAR (s, scalar_nodes(r->low.c, r->low.n->write[i].value))
            if (s->op >= S_EQ && s->op <= S_GE && (s->arg[0]->axes | s->arg[1]->axes) >> axis & 1)
                (*(is_torn(s, r->lanes) ? &torn : &whole))++;
    return 1 + (torn + whole) / (whole + 1) > MOST_ASKED;
}

/* Can vectors run along the sum over this axis? */
static bool
sums_run(RowPart *r, uint32_t axis)
{
    return r->reduce->u.reduce.combiner <= COMB_MIN && !axis_varies(&r->low.n->axis[axis]) &&
           reads_run_along(r, axis, true);
}

/* Makes another axis the last of the sums, if vectors can run along it: the channels of a group in
 * an image that has channels innermost. */
static bool
move_a_sum(RowPart *r)
{
    const Nest *n = r->low.n;

    for (uint32_t i = 0; i < r->nsum; i++)
        if (axis_varies(&n->axis[r->sum[i]]))
            return false;
    for (uint32_t i = r->nsum - 1; i-- > 0;) {
        uint32_t axis = r->sum[i];
        if (expr_or(n->axis[axis].extent, 0) < FEWEST_LANES || !sums_run(r, axis))
            continue;
        for (; i + 1 < r->nsum; i++)
            r->sum[i] = r->sum[i + 1];
        r->sum[i] = axis;
        return true;
    }
    return false;
}

RowPart
row_of(Draft *w, uint32_t part, uint32_t shared)
{
    const Points *p = w->p;
    const Part *k = &p->k->part[part];
    const Nest *n = k->nest;
    RowPart r = { .part = part, .low = *draft_low(w, part), .reduce = part_reduction(p, part) };
    const Scalar *value[NEST_MAX_AXES];
    uint32_t seen = 0;

    r.name = p->k->buffer.at[k->buffer[n->write[0].out]].name;
    r.lanes = machine_lanes(p->m, DT_F32);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        int64_t here = low_lanes(&r.low, n->param[n->write[i].out].type->dtype);
        r.lanes = here < r.lanes ? here : r.lanes;
        value[i] = n->write[i].value;
    }
    bool filled = part_is_filled(p, part), inner_sums = false;
    /* loops around the initialisation of an output come first */
    for (int behind = 0; behind < 2; behind++, seen = 0)
        for (uint32_t x = 0; x < n->naxis; x++)
            if (n->axis[x].kind != AXIS_REDUCE && seen++ >= shared &&
                (filled && !axis_separates_writes(w->c, n, x)) == behind)
                r.own[r.nown++] = x;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_REDUCE) {
            r.sum[r.nsum++] = x;
            inner_sums |= !r.reduce;
        }
    while (r.reduce && r.nown && expr_is(n->axis[r.own[r.nown - 1]].extent, 1) &&
           !extents_depend_on(n, r.own[r.nown - 1]))
        r.nown--; /* a loop of one point is useless */
    while (r.free < r.nown && p->iter.at[p->axis[part][r.own[r.free]]].kind == AXIS_PARALLEL &&
           (!filled || axis_separates_writes(w->c, n, r.own[r.free])))
        r.free++;
    r.nfused = r.nown > 0;
    uint32_t last_own = r.nown ? r.own[r.nown - 1] : 0;
    if (r.nown && p->iter.at[p->axis[part][last_own]].kind == AXIS_PARALLEL &&
        !(filled && axis_separates_writes(w->c, n, last_own)) && writes_along(&r, last_own) &&
        !extents_depend_on(n, last_own)) {
        r.along = (!(r.reduce || inner_sums) || reads_run_along(&r, last_own, false)) &&
                  !is_patchwork(&r, last_own);
        r.placed = !r.along && r.nsum && r.reduce && !sums_run(&r, r.sum[r.nsum - 1]) &&
                   reads_are_placed(&r, last_own);
        r.along |= r.placed;
    }
    while (r.along && r.nfused < r.nown) {
        bool all = !extents_depend_on(n, r.own[r.nown - r.nfused - 1]);
        for (uint32_t i = 0; all && i < n->nwrite; i++)
            all = low_collapses(&r.low, r.own[r.nown - r.nfused - 1], r.own[r.nown - r.nfused],
                                value, n->nwrite, &n->write[i]);
        if (!all)
            break;
        r.nfused++;
    }
    if (!r.reduce || r.along || !r.nsum)
        return r;
    r.lanes = low_lanes(&r.low, r.reduce->dtype);
    if (!sums_run(&r, r.sum[r.nsum - 1])) {
        r.moved = move_a_sum(&r);
        r.nsum_fused = r.moved;
        return r;
    }
    for (r.nsum_fused = 1; r.nsum_fused < r.nsum; r.nsum_fused++)
        if (!low_collapses(&r.low, r.sum[r.nsum - r.nsum_fused - 1], r.sum[r.nsum - r.nsum_fused],
                           r.reduce->arg, 1, NULL))
            break;
    return r;
}

uint32_t
row_gather_axis(RowPart *r)
{
    Accesses all = nest_accesses(r->low.c, r->low.a, r->low.n);

    for (uint32_t k = r->placed ? 0 : r->nown; k < r->nown - r->nfused; k++) {
        uint32_t axis = r->own[k];
        bool unit = false, other = expr_or(r->low.n->axis[axis].extent, 0) < r->lanes;
        for (uint32_t i = 0; i < all.n && !other; i++) {
            const Scalar *load = all.at[i].load;
            AxisSet axes = 0;
            for (uint32_t d = 0; d < load->u.load.rank; d++)
                axes |= expr_axes(load->u.load.at[d]);
            const Expr *stride = axes >> axis & 1 ? low_stride(&r->low, load, axis) : NULL;
            unit |= stride && expr_is(stride, 1);
            other |= axes >> axis & 1 && (!stride || !expr_is(stride, 1));
        }
        if (unit && !other)
            return axis;
    }
    return NO_SLOT;
}

/* ---- pieces of programs ---------------------------------------------------------------------- */

const Expr *
row_extent(RowPart *r, const uint32_t *axis, uint32_t n)
{
    const Expr *all = expr_int(r->low.c, 1);
    for (uint32_t i = 0; i < n; i++)
        all = expr_mul(r->low.c, all, r->low.n->axis[axis[i]].extent);
    return all;
}

int64_t
row_lanes(const RowPart *r, const Expr *extent)
{
    int64_t lanes = r->lanes, points = expr_or(extent, INT64_MAX);

    while (lanes > 1 && lanes / 2 >= points)
        lanes /= 2;
    return lanes;
}

/* Elements of a cache line; 1 if it holds none. */
static int64_t
line_elements(const Machine *m, int64_t bytes)
{
    return m->line_bytes > bytes ? m->line_bytes / bytes : 1;
}

bool
row_is_lines(const RowPart *r, int64_t bytes)
{
    Low l = r->low;
    const Write *w = &l.n->write[0];
    const Type *t = l.n->param[w->out].type;
    int64_t line = line_elements(l.m, bytes);

    if (l.m->vector_bytes % l.m->line_bytes)
        return false;
    for (uint32_t i = 0; i + r->nfused < r->nown; i++) {
        const Expr *stride =
            low_stride(&l, scalar_load(l.c, t->dtype, w->out, t->rank, w->at, NULL), r->own[i]);
        if (!stride || expr_divisible(l.c, NULL, stride, line) != YES)
            return false;
    }
    return true;
}

int64_t
row_block(const Draft *w, const Expr *columns, int64_t bytes, int64_t most)
{
    int64_t line = line_elements(w->p->m, bytes), cores = w->p->m->cores, n;

    if (!expr_const(columns, &n))
        return most;
    int64_t each = (n + cores * line - 1) / (cores * line) * line;
    return each < most ? (each > 0 ? each : line) : most;
}

const char *
row_index(Draft *w, const RowPart *r, Text *t, const uint32_t *axis, uint32_t n, const char *suffix)
{
    if (n == 1)
        return axis_name(w, r->part, axis[0]);
    const char *name = arena_printf(w->a, "%s.%s", r->name, suffix);
    text_printf(t, "fuse %s -> %s\n", axis_names(w, r->part, axis, n), name);
    return name;
}
