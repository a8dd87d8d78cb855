/* window: reductions over a small window that slides over the output: depthwise convolution, pooling.
 *
 * Neighbouring outputs read overlapping inputs, at a stride and with padding. Each plane (one value
 * of the axes that do not slide) is first copied to scratch with its padding in place and with the
 * columns of each stride phase together, so that
 *
 *     x[.., s*y + r - p, s*z + t - p | outside]   becomes   plane[s*y + r, t % s, z + t // s]
 *
 * which is a plain vector read for a run of z. The window is unrolled around vector accumulators; the
 * last vector of a row reads beyond it, inside the scratch, and stores only what exists.
 */
#include "schedule/internal.h"

enum { MAX_WINDOW = 128, MAX_SLIDE = 4 };    /* points of a window that is unrolled; sliding dimensions */

typedef struct {
    uint32_t dim;                            /* of the read */
    uint32_t axis;                           /* the parallel axis that slides */
    const Expr *rest;                        /* index - stride * axis, at window point 0: -padding */
    int64_t stride, span;                    /* span: window points reach 0 .. span - 1 beyond */
    const Expr *extent;                      /* of the staged dimension: stride * (outputs - 1) + span */
} Slide;

typedef struct {
    Low *l;
    const Scalar *reduce, *load;
    Slide slide[MAX_SLIDE];                  /* the last one is the innermost output axis */
    uint32_t nslide;
    uint32_t outer[NEST_MAX_AXES], nouter;
    uint32_t plane, lanes;
} Window;

/* ---- recognising ---------------------------------------------------------------------------------- */

typedef struct { Low *l; const Scalar *found; uint32_t count; } Finder;

static void
find_reduce(void *user, const Scalar *s)
{
    Finder *f = user;
    if (s->op == S_REDUCE || s->op == S_ITEM) {
        f->found = s;
        f->count++;
    }
}

static void
find_window_load(void *user, const Scalar *s)
{
    Finder *f = user;
    AxisSet used = 0;

    if (s->op != S_LOAD)
        return;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        AxisSet here = expr_axes(s->u.load.at[d]);
        if ((here & nest_axes_of_kind(f->l->n, AXIS_PARALLEL)) && (here & nest_axes_of_kind(f->l->n, AXIS_REDUCE)))
            used |= here;
    }
    if (used) {
        f->found = s;
        f->count++;
    }
}

/* One dimension of the read as stride * parallel + sum(step * window axis) + rest. */
static bool
slide_of(Window *w, uint32_t d, Slide *out)
{
    Low *l = w->l;
    Ctx *c = l->c;
    const Expr *e = w->load->u.load.at[d], *coef, *rest;
    AxisSet axes = expr_axes(e);
    bool found = false;
    int64_t k;

    *out = (Slide){.dim = d, .span = 1};
    for (uint32_t x = 0; x < l->n->naxis; x++) {
        if (!(axes >> x & 1))
            continue;
        if (!expr_linear(c, e, (Var){VAR_AXIS, x}, &coef, &rest) || !expr_const(coef, &k) || k < 1)
            return false;
        e = rest;
        if (l->n->axis[x].kind == AXIS_REDUCE) {
            int64_t extent;
            if (!expr_const(l->n->axis[x].extent, &extent) || extent < 1)
                return false;
            out->span += k * (extent - 1);
        } else if (found) {
            return false;
        } else {
            found = true;
            out->axis = x;
            out->stride = k;
        }
    }
    out->rest = e;
    if (!found || expr_axes(e) || expr_uses_kind(e, VAR_COMPUTED))
        return false;
    out->extent = expr_offset(c, expr_scale(c, expr_offset(c, l->n->axis[out->axis].extent, -1), out->stride), out->span);
    return true;
}

static bool
recognise(Window *w)
{
    Low *l = w->l;
    const Nest *n = l->n;
    Finder f = {.l = l};
    int64_t points = 1, extent;

    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE)
        return false;
    scalar_visit(l->c, n->write[0].value, find_reduce, &f);
    if (f.count != 1 || f.found->op != S_REDUCE || f.found->narg != 1)
        return false;
    w->reduce = f.found;
    if (w->reduce->u.reduce.combiner > COMB_MIN)
        return false;
    for (uint32_t x = 0; x < n->naxis; x++) {
        if (n->axis[x].kind == AXIS_SCAN || !expr_is(n->axis[x].begin, 0) || expr_axes(n->axis[x].extent) ||
            expr_uses_kind(n->axis[x].extent, VAR_COMPUTED))
            return false;
        if (w->reduce->u.reduce.axes >> x & 1) {
            if (!expr_const(n->axis[x].extent, &extent) || (points *= extent) > MAX_WINDOW)
                return false;
        }
    }
    f = (Finder){.l = l};
    scalar_visit(l->c, w->reduce->arg[0], find_window_load, &f);
    if (f.count != 1)
        return false;
    w->load = f.found;
    const Buffer *from = &l->k->buffer.at[l->part->buffer[w->load->u.load.slot]];
    if (from->format || (w->load->u.load.outside && w->load->u.load.outside->op != S_CONST))
        return false;
    AxisSet sliding = 0;
    for (uint32_t d = 0; d < w->load->u.load.rank; d++) {
        AxisSet here = expr_axes(w->load->u.load.at[d]);
        if (!(here & nest_axes_of_kind(n, AXIS_REDUCE)))
            continue;
        if (w->nslide == MAX_SLIDE || !slide_of(w, d, &w->slide[w->nslide]) || sliding >> w->slide[w->nslide].axis & 1)
            return false;
        sliding |= (AxisSet)1 << w->slide[w->nslide++].axis;
    }
    /* Axes that slide must not also index the other dimensions of the read. */
    for (uint32_t d = 0; d < w->load->u.load.rank; d++) {
        AxisSet here = expr_axes(w->load->u.load.at[d]);
        if (!(here & nest_axes_of_kind(n, AXIS_REDUCE)) && (here & sliding))
            return false;
    }
    const Slide *last = &w->slide[w->nslide - 1];
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank;
    Var v;
    if (last->dim != w->load->u.load.rank - 1 || rank == 0 || !expr_is_var(out->at[rank - 1], &v) || v.kind != VAR_AXIS || v.id != last->axis)
        return false;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && !(sliding >> x & 1))
            w->outer[w->nouter++] = x;
    return true;
}

/* ---- staging a plane ---------------------------------------------------------------------------------- */

typedef struct { Window *w; const Expr *at[MAX_SLIDE + 1]; const Expr *source[TN_MAX_RANK]; const Expr *phase; } Stage;

/* Copy element q of a phase: the innermost index is bound through the sliding axis itself. */
static void
stage_step(Low *l, Block *b, void *user)
{
    Stage *s = user;
    Window *w = s->w;
    const Slide *last = &w->slide[w->nslide - 1];
    const Expr *q = l->bind[last->axis], *at[MAX_SLIDE + 1];

    for (uint32_t i = 0; i < w->nslide; i++)
        at[i] = s->at[i];
    at[w->nslide] = q;
    s->source[last->dim] = expr_add(l->c, expr_add(l->c, expr_scale(l->c, q, last->stride), s->phase), last->rest);
    const Scalar *load = scalar_load(l->c, w->load->dtype, w->load->u.load.slot, w->load->u.load.rank, s->source, NULL);
    low_store(l, b, w->plane, at, w->nslide + 1, low_value(l, load));
}

static void
stage_fill(Low *l, Block *b, Stage *s, const Expr *from, const Expr *to, const Scalar *value)
{
    uint32_t ranges = l->range.n;
    const Expr *at[MAX_SLIDE + 1];

    for (uint32_t i = 0; i < s->w->nslide; i++)
        at[i] = s->at[i];
    at[s->w->nslide] = low_loop(l, &b, LOOP_SERIAL, "q", from, to, 1);
    low_store(l, b, s->w->plane, at, s->w->nslide + 1, value);
    l->range.n = ranges;
}

static void
stage_plane(Window *w, Block *b)
{
    Low *l = w->l;
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;
    const Slide *last = &w->slide[w->nslide - 1];
    const Type *t = l->n->param[w->load->u.load.slot].type;
    const Scalar *outside = w->load->u.load.outside, *test = NULL;
    Stage s = {.w = w};

    for (uint32_t d = 0; d < w->load->u.load.rank; d++)
        s.source[d] = w->load->u.load.at[d];
    for (uint32_t i = 0; i + 1 < w->nslide; i++) {
        const Slide *y = &w->slide[i];
        s.at[i] = low_loop(l, &b, LOOP_SERIAL, l->n->axis[y->axis].name, expr_int(c, 0), y->extent, 1);
        const Expr *at = expr_add(c, s.at[i], y->rest);
        s.source[y->dim] = at;
        if (!outside)
            continue;
        const Scalar *low = scalar_2(c, S_GE, scalar_index(c, at), scalar_int(c, DT_I64, 0));
        const Scalar *both = scalar_2(c, S_AND, low, scalar_2(c, S_LT, scalar_index(c, at), scalar_index(c, t->dim[y->dim])));
        test = test ? scalar_2(c, S_AND, test, both) : both;
    }
    s.phase = low_loop(l, &b, LOOP_SERIAL, "phase", expr_int(c, 0), expr_int(c, last->stride), 1);
    s.at[w->nslide - 1] = s.phase;
    const Expr *count = expr_ceil_div(c, last->extent, expr_int(c, last->stride)), *zero = expr_int(c, 0);
    const Expr *first = expr_add(c, s.phase, last->rest), *lo = zero, *hi = count;
    /* Inside: 0 <= stride*q + first < extent of the input. Without a guard the last phase may still reach beyond. */
    lo = expr_min(c, count, expr_max(c, zero, expr_ceil_div(c, expr_scale(c, first, -1), expr_int(c, last->stride))));
    hi = expr_max(c, lo, expr_min(c, count, expr_ceil_div(c, expr_sub(c, t->dim[last->dim], first), expr_int(c, last->stride))));
    const Scalar *fill = outside ? outside : scalar_number(c, w->load->dtype, 0);
    Block *in = b;
    if (test) {
        Tree *branch = tree_if(b, test);
        stage_fill(l, &branch->other, &s, zero, count, fill);
        in = &branch->body;
    }
    lo = low_let(l, in, "lo", lo, NULL);
    hi = low_let(l, in, "hi", hi, NULL);
    stage_fill(l, in, &s, zero, lo, fill);
    low_vector_loop(l, in, last->axis, "q", lo, hi, w->lanes, stage_step, &s);
    stage_fill(l, in, &s, hi, count, fill);
    l->range.n = ranges;
}

/* ---- the window ------------------------------------------------------------------------------------------ */

/* Index of the staged read at the bound axes; window axes may be loop variables. */
static void
staged_index(Window *w, const Expr **at)
{
    Low *l = w->l;
    Ctx *c = l->c;

    for (uint32_t i = 0; i < w->nslide; i++) {
        const Slide *s = &w->slide[i];
        const Expr *reach = expr_sub(c, expr_sub(c, w->load->u.load.at[s->dim], s->rest), expr_scale(c, expr_axis(c, s->axis), s->stride));
        reach = low_expr(l, reach);
        if (i + 1 < w->nslide) {
            at[i] = expr_add(c, expr_scale(c, l->bind[s->axis], s->stride), reach);
        } else {
            at[i] = expr_mod(c, reach, expr_int(c, s->stride));
            at[i + 1] = expr_add(c, l->bind[s->axis], expr_div(c, reach, expr_int(c, s->stride)));
        }
    }
}

static void
window_step(Low *l, Block *b, void *user)
{
    Window *w = user;
    Ctx *c = l->c;
    const Nest *n = l->n;
    DType t = w->reduce->dtype;
    Combiner k = w->reduce->u.reduce.combiner;
    Map outside = low_known(l);
    uint32_t ranges = l->range.n;
    const Expr *at[MAX_SLIDE + 1];
    uint32_t acc = kernel_buffer(c, l->a, l->k, "acc", type_new(c, t, 0, NULL), SPACE_REGISTER, l->lanes);
    const Scalar *identity = scalar_splat(c, combiner_identity(c, k, t), l->lanes);
    Block *in = b;

    tree_buffer(b, acc);
    tree_store_lanes(b, acc, 0, NULL, identity, expr_int(c, 1), NULL);
    for (uint32_t x = 0; x < n->naxis; x++)
        if (w->reduce->u.reduce.axes >> x & 1)
            l->bind[x] = low_loop(l, &in, LOOP_UNROLLED, n->axis[x].name, expr_int(c, 0), n->axis[x].extent, 1);
    staged_index(w, at);
    map_put(&l->value, MAP_PTR(w->load), MAP_PTR(scalar_load(c, w->load->dtype, w->plane, w->nslide + 1, at, NULL)));
    const Scalar *v = low_value(l, w->reduce->arg[0]);
    const Scalar *have = scalar_load_lanes(c, t, acc, 0, NULL, l->lanes, expr_int(c, 1), NULL);
    tree_store_lanes(in, acc, 0, NULL, low_combine(c, k, have, v->lanes == 1 ? scalar_splat(c, v, l->lanes) : v), expr_int(c, 1), NULL);
    for (uint32_t x = 0; x < n->naxis; x++)
        if (w->reduce->u.reduce.axes >> x & 1)
            l->bind[x] = NULL;
    l->range.n = ranges;
    l->value = outside;
    Map before = low_known(l);
    map_put(&l->value, MAP_PTR(w->reduce), MAP_PTR(scalar_load(c, t, acc, 0, NULL, NULL)));
    low_write(l, b, &n->write[0], low_value(l, n->write[0].value));
    l->value = before;
}

/* Whole vectors of outputs, then one with the lanes that are left. */
static void
window_row(Window *w, Block *b)
{
    Low *l = w->l;
    Ctx *c = l->c;
    uint32_t axis = w->slide[w->nslide - 1].axis, ranges = l->range.n;
    const Expr *extent = low_extent(l, axis), *lanes = expr_int(c, w->lanes);
    const Expr *whole = expr_mul(c, expr_div(c, extent, lanes), lanes), *rest = expr_sub(c, extent, whole);

    l->lanes = w->lanes;
    l->vector_axis = (int)axis;
    if (!expr_is(whole, 0)) {
        Block *in = b;
        const Expr *x = low_loop(l, &in, LOOP_SERIAL, l->n->axis[axis].name, expr_int(c, 0), whole, w->lanes);
        l->bind[axis] = expr_add(c, x, expr_var(c, LANE));
        window_step(l, in, w);
        l->range.n = ranges;
    }
    if (!expr_is(rest, 0)) {
        Tree *test = tree_if(b, scalar_2(c, S_GT, scalar_index(c, rest), scalar_int(c, DT_I64, 0)));
        const Expr *x = low_let(l, &test->body, "tail", whole, NULL);
        l->bind[axis] = expr_add(c, x, expr_var(c, LANE));
        l->valid = low_let(l, &test->body, "valid", rest, NULL);
        window_step(l, &test->body, w);
        l->valid = NULL;
    }
    l->lanes = 1;
    l->vector_axis = -1;
    l->bind[axis] = NULL;
    l->range.n = ranges;
}

bool
schedule_window(Ctx *c, Arena *a, Kernel *k, const Machine *m)
{
    if (k->npart != 1)
        return false;
    Low low = low_part(c, a, k, m, &k->part[0]), *l = &low;
    Window w = {.l = l};

    if (!recognise(&w))
        return false;
    const Slide *last = &w.slide[w.nslide - 1];
    int64_t across = expr_or(low_extent(l, last->axis), INT64_MAX);
    w.lanes = low_lanes(l, w.reduce->dtype);
    while (w.lanes > 2 && w.lanes / 2 >= across)
        w.lanes /= 2;

    Block *b = &k->tree;
    k->trips = axes_product(l, w.outer, w.nouter);
    k->grain = expr_int(c, 1);
    const Expr *t = low_loop(l, &b, LOOP_PARALLEL, "plane", expr_int(c, 0), k->trips, 1);
    low_bind_digits(l, b, w.outer, w.nouter, t);
    const Expr *dims[MAX_SLIDE + 1];
    for (uint32_t i = 0; i + 1 < w.nslide; i++)
        dims[i] = w.slide[i].extent;
    dims[w.nslide - 1] = expr_int(c, last->stride);
    /* Room for a vector that starts at the last output of a row. */
    dims[w.nslide] = expr_offset(c, expr_ceil_div(c, last->extent, expr_int(c, last->stride)), w.lanes);
    w.plane = kernel_buffer(c, a, k, "plane", type_new(c, w.load->dtype, w.nslide + 1, dims), SPACE_SCRATCH, 1);
    tree_buffer(b, w.plane);
    stage_plane(&w, b);
    for (uint32_t i = 0; i + 1 < w.nslide; i++) {
        const Axis *axis = &l->n->axis[w.slide[i].axis];
        l->bind[w.slide[i].axis] = low_loop(l, &b, LOOP_SERIAL, axis->name, expr_int(c, 0), low_extent(l, w.slide[i].axis), 1);
    }
    window_row(&w, b);
    int64_t points = expr_or(axes_product(l, &last->axis, 1), 64) * 64;
    k->grain = expr_int(c, points >= 32768 ? 1 : 1 + 32768 / (points + 1) / 8);
    k->schedule = arena_printf(a, "window, plane staged, %u lanes", w.lanes);
    return true;
}
