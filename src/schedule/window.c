/* window: reductions over a small window that slides over the output: depthwise convolution, pooling.
 *
 * Each plane (one value of the axes that do not slide) is staged with its padding and stride phases in
 * place (stage.h), which turns every point of the window into a plain vector read for a run of outputs.
 * The window is unrolled around a vector accumulator; the last vector of a row reads beyond it, inside
 * the scratch, and stores only what exists. What is the same for the whole plane (a filter) is read
 * once, into registers.
 */
#include "schedule/stage.h"

enum { MAX_WINDOW = 128 };                   /* points of a window that is unrolled */

typedef struct {
    Low *l;
    const Scalar *reduce;
    Stage stage;
    uint32_t outer[NEST_MAX_AXES], nouter;   /* parallel axes that do not slide */
    uint32_t axis[NEST_MAX_AXES], naxis;     /* window axes */
    uint32_t lanes;
    const Scalar *filter[MAX_WINDOW];        /* reads kept in registers, and which */
    uint32_t kept[MAX_WINDOW], nfilter;
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
    AxisSet parallel = nest_axes_of_kind(f->l->n, AXIS_PARALLEL), reduced = nest_axes_of_kind(f->l->n, AXIS_REDUCE);

    for (uint32_t d = 0; s->op == S_LOAD && d < s->u.load.rank; d++) {
        AxisSet here = expr_axes(s->u.load.at[d]);
        if ((here & parallel) && (here & reduced)) {
            f->found = s;
            f->count++;
            return;
        }
    }
}

static bool
recognise(Window *w)
{
    Low *l = w->l;
    const Nest *n = l->n;
    Finder f = {.l = l};
    int64_t points = 1, extent;
    Var v;

    if (n->nwrite != 1 || n->write[0].combiner != COMB_NONE)
        return false;
    scalar_visit(l->c, n->write[0].value, find_reduce, &f);
    if (f.count != 1 || f.found->op != S_REDUCE || f.found->narg != 1)
        return false;
    w->reduce = f.found;
    if (w->reduce->u.reduce.combiner > COMB_MIN)
        return false;
    w->naxis = axis_list(w->reduce->u.reduce.axes, w->axis);
    for (uint32_t x = 0; x < n->naxis; x++) {
        if (n->axis[x].kind == AXIS_SCAN || !expr_is(n->axis[x].begin, 0) || expr_axes(n->axis[x].extent) ||
            expr_uses_kind(n->axis[x].extent, VAR_COMPUTED))
            return false;
        if (w->reduce->u.reduce.axes >> x & 1 && (!expr_const(n->axis[x].extent, &extent) || (points *= extent) > MAX_WINDOW))
            return false;
    }
    const Write *out = &n->write[0];
    uint32_t rank = n->param[out->out].type->rank;
    if (rank == 0 || !expr_is_var(out->at[rank - 1], &v) || v.kind != VAR_AXIS)
        return false;
    f = (Finder){.l = l};
    scalar_visit(l->c, w->reduce->arg[0], find_window_load, &f);
    if (f.count != 1 || !stage_recognise(l, f.found, w->reduce->u.reduce.axes, (AxisSet)1 << v.id, &w->stage))
        return false;
    if (w->stage.nouter || w->stage.slide[w->stage.nslide - 1].axis != v.id)
        return false;
    AxisSet sliding = 0;
    for (uint32_t i = 0; i < w->stage.nslide; i++)
        sliding |= (AxisSet)1 << w->stage.slide[i].axis;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL && !(sliding >> x & 1))
            w->outer[w->nouter++] = x;
    return true;
}

/* ---- what the plane shares ------------------------------------------------------------------------------ */

typedef struct { Window *w; const Scalar *load[MAX_WINDOW]; uint32_t n; } Filters;

/* Reads in the body that vary over the window but not over the outputs of a plane. */
static void
find_filter(void *user, const Scalar *s)
{
    Filters *f = user;
    AxisSet sliding = 0, axes = 0;

    if (s->op != S_LOAD || s == f->w->stage.load || s->u.load.outside || f->n == MAX_WINDOW)
        return;
    for (uint32_t i = 0; i < f->w->stage.nslide; i++)
        sliding |= (AxisSet)1 << f->w->stage.slide[i].axis;
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        axes |= expr_axes(s->u.load.at[d]);
    if ((axes & f->w->reduce->u.reduce.axes) && !(axes & sliding))
        f->load[f->n++] = s;
}

/* One register of equal lanes per window point, for as many reads as there are registers to spare. */
static void
keep_filters(Window *w, Block *b)
{
    Low *l = w->l;
    Ctx *c = l->c;
    Filters f = {.w = w};
    const Expr *dim[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t rank = w->naxis, spare = l->m->vector_registers - 6;
    int64_t points = 1;

    if (rank > TN_MAX_RANK)
        return;
    for (uint32_t k = 0; k < rank; k++) {
        dim[k] = l->n->axis[w->axis[k]].extent;
        points *= expr_or(dim[k], 1);
    }
    scalar_visit(c, w->reduce->arg[0], find_filter, &f);
    for (uint32_t i = 0; i < f.n && points <= spare; i++, spare -= (uint32_t)points) {
        uint32_t ranges = l->range.n;
        uint32_t kept = kernel_buffer(c, l->a, l->k, "filter", type_new(c, f.load[i]->dtype, rank, dim), SPACE_REGISTER, w->lanes);
        Block *in = b;
        tree_buffer(b, kept);
        for (uint32_t k = 0; k < rank; k++)
            l->bind[w->axis[k]] = at[k] = low_loop(l, &in, LOOP_UNROLLED, l->n->axis[w->axis[k]].name, expr_int(c, 0), dim[k], 1);
        tree_store_lanes(in, kept, rank, at, scalar_splat(c, low_value(l, f.load[i]), w->lanes), expr_int(c, 1), NULL);
        for (uint32_t k = 0; k < rank; k++)
            l->bind[w->axis[k]] = NULL;
        l->range.n = ranges;
        w->filter[w->nfilter] = f.load[i];
        w->kept[w->nfilter++] = kept;
    }
}

/* The filters at the window point that is bound. */
static void
use_filters(Window *w)
{
    Low *l = w->l;

    for (uint32_t i = 0; i < w->nfilter; i++) {
        const Expr *at[TN_MAX_RANK];
        for (uint32_t k = 0; k < w->naxis; k++)
            at[k] = l->bind[w->axis[k]];
        map_put(&l->value, MAP_PTR(w->filter[i]), MAP_PTR(scalar_load(l->c, w->filter[i]->dtype, w->kept[i], w->naxis, at, NULL)));
    }
}

/* ---- the window ------------------------------------------------------------------------------------------ */

static void
window_step(Low *l, Block *b, void *user)
{
    Window *w = user;
    Ctx *c = l->c;
    const Nest *n = l->n;
    DType t = w->reduce->dtype;
    Combiner combiner = w->reduce->u.reduce.combiner;
    Map outside = low_known(l);
    uint32_t ranges = l->range.n;
    const Expr *at[TN_MAX_RANK * 2], *position = expr_int(c, 0);
    uint32_t acc = kernel_buffer(c, l->a, l->k, "acc", type_new(c, t, 0, NULL), SPACE_REGISTER, l->lanes);
    const Scalar *identity = scalar_splat(c, combiner_identity(c, combiner, t), l->lanes);
    Block *in = b;

    tree_buffer(b, acc);
    tree_store_lanes(b, acc, 0, NULL, identity, expr_int(c, 1), NULL);
    for (uint32_t k = 0; k < w->naxis; k++)
        l->bind[w->axis[k]] = low_loop(l, &in, LOOP_UNROLLED, n->axis[w->axis[k]].name, expr_int(c, 0), n->axis[w->axis[k]].extent, 1);
    for (uint32_t i = 0; i < w->stage.nslide; i++)
        position = expr_add(c, position, expr_mul(c, l->bind[w->stage.slide[i].axis], w->stage.slide[i].pitch));
    uint32_t rank = stage_index(l, &w->stage, position, at);
    map_put(&l->value, MAP_PTR(w->stage.load), MAP_PTR(scalar_load(c, w->stage.load->dtype, w->stage.buffer, rank, at, NULL)));
    use_filters(w);
    const Scalar *v = low_value(l, w->reduce->arg[0]);
    const Scalar *have = scalar_load_lanes(c, t, acc, 0, NULL, l->lanes, expr_int(c, 1), NULL);
    tree_store_lanes(in, acc, 0, NULL, low_combine(c, combiner, have, v->lanes == 1 ? scalar_splat(c, v, l->lanes) : v), expr_int(c, 1), NULL);
    for (uint32_t k = 0; k < w->naxis; k++)
        l->bind[w->axis[k]] = NULL;
    l->range.n = ranges;
    l->value = low_known(l);
    map_put(&l->value, MAP_PTR(w->reduce), MAP_PTR(scalar_load(c, t, acc, 0, NULL, NULL)));
    low_write(l, b, &n->write[0], low_value(l, n->write[0].value));
    l->value = outside;
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
    const Slide *last = &w.stage.slide[w.stage.nslide - 1];
    const Expr *across = low_extent(l, last->axis);
    w.lanes = low_lanes(l, w.reduce->dtype);
    while (w.lanes > 2 && w.lanes / 2 >= expr_or(across, INT64_MAX))
        w.lanes /= 2;

    Block *b = &k->tree;
    k->trips = axes_product(l, w.outer, w.nouter);
    const Expr *t = low_loop(l, &b, LOOP_PARALLEL, "plane", expr_int(c, 0), k->trips, 1);
    low_bind_digits(l, b, w.outer, w.nouter, t);
    stage_declare(l, b, &w.stage, expr_int(c, 0), w.stage.slide[0].positions, w.lanes);
    stage_fill(l, b, &w.stage, w.lanes);
    keep_filters(&w, b);
    const Expr *points = across;
    for (uint32_t i = 0; i + 1 < w.stage.nslide; i++) {
        uint32_t axis = w.stage.slide[i].axis;
        points = expr_mul(c, points, low_extent(l, axis));
        l->bind[axis] = low_loop(l, &b, LOOP_SERIAL, l->n->axis[axis].name, expr_int(c, 0), low_extent(l, axis), 1);
    }
    low_vector_loop(l, b, last->axis, l->n->axis[last->axis].name, expr_int(c, 0), across, w.lanes, window_step, &w);
    k->grain = low_grain(c, expr_scale(c, points, 4));
    k->schedule = arena_printf(a, "window, plane staged, %u lanes", w.lanes);
    return true;
}
