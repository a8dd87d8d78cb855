/* loops: the template for elementwise work, reductions and groups of them over shared rows.
 *
 * One parallel loop over the shared outer axes (their digits are taken from one index), then each
 * part in turn: its remaining axes as loops, the innermost one over vectors. Axes that continue each
 * other in memory for every access become one. A nest that reduces along contiguous memory runs the
 * reduction over lanes instead.
 *
 * Without `vectors` the same walk makes plain loops, the reference of the other templates.
 */
#include "schedule/internal.h"

#include <string.h>

/* ---- helpers of all templates ------------------------------------------------------------------- */

const Expr *
low_extent(Low *l, uint32_t axis)
{
    return low_expr(l, l->n->axis[axis].extent);
}

const Expr *
axes_product(Low *l, const uint32_t *axis, uint32_t n)
{
    const Expr *p = expr_int(l->c, 1);
    for (uint32_t i = 0; i < n; i++)
        p = expr_mul(l->c, p, low_extent(l, axis[i]));
    return p;
}

const Expr *
low_loop(Low *l, Block **b, LoopKind kind, const char *name, const Expr *begin, const Expr *end, int64_t step)
{
    uint32_t var;

    *b = tree_loop(l->k, *b, kind, sym(l->c, name), begin, end, step, &var);
    VEC_PUSH(l->a, &l->range, ((Range){{VAR_LOOP, var}, begin, expr_sub(l->c, end, begin)}));
    return expr_loop(l->c, var);
}

const Expr *
low_let(Low *l, Block *b, const char *name, const Expr *value, const Expr *extent)
{
    const Expr *v = tree_let(l->c, l->k, b, name, value);
    Var var;

    if (v != value && expr_is_var(v, &var) && extent)
        VEC_PUSH(l->a, &l->range, ((Range){var, expr_int(l->c, 0), extent}));
    return v;
}

void
low_bind_digits(Low *l, Block *b, const uint32_t *axis, uint32_t n, const Expr *index)
{
    Ranges ranges;

    for (uint32_t i = n; i-- > 0;) {
        const Axis *axis_i = &l->n->axis[axis[i]];
        const Expr *extent = low_extent(l, axis[i]);
        ranges = low_ranges(l);
        const Expr *digit = i == 0 ? index : expr_simplify(l->c, &ranges, expr_mod(l->c, index, extent));
        l->bind[axis[i]] = low_let(l, b, axis_i->name, digit, extent);
        if (i > 0)
            index = expr_simplify(l->c, &ranges, expr_div(l->c, index, extent));
    }
}

/* Lanes of one vector from `base` on, of which `valid` exist (NULL: all). */
static void
vector_step(Low *l, Block *b, uint32_t axis, const Expr *base, uint32_t lanes, const Expr *valid, EmitFn *emit, void *user)
{
    uint32_t lanes_before = l->lanes;
    int axis_before = l->vector_axis;

    l->lanes = lanes;
    l->vector_axis = (int)axis;
    l->valid = valid;
    l->bind[axis] = expr_add(l->c, base, expr_var(l->c, LANE));
    emit(l, b, user);
    l->valid = NULL;
    l->lanes = lanes_before;
    l->vector_axis = axis_before;
}

/* The rest after whole vectors: masked if every read can be, else one element at a time. */
static void
vector_rest(Low *l, Block *b, uint32_t axis, const char *name, const Expr *from, const Expr *end, uint32_t lanes, EmitFn *emit, void *user)
{
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;
    const Expr *rest = expr_sub(c, end, from);

    if (lanes > 1) {
        Block trial = {.arena = b->arena};
        Tree *test = expr_const(rest, NULL) ? NULL : tree_if(&trial, scalar_2(c, S_GT, scalar_index(c, rest), scalar_int(c, DT_I64, 0)));
        Block *in = test ? &test->body : &trial;
        l->by_lane = false;
        const Expr *base = low_let(l, in, name, from, NULL);
        vector_step(l, in, axis, base, lanes, low_let(l, in, "rest", rest, NULL), emit, user);
        l->range.n = ranges;
        if (!l->by_lane) {
            for (uint32_t i = 0; i < trial.list.n; i++)
                VEC_PUSH(b->arena, &b->list, trial.list.at[i]);
            return;
        }
    }
    l->bind[axis] = low_loop(l, &b, LOOP_SERIAL, name, from, end, 1);
    emit(l, b, user);
    l->range.n = ranges;
}

void
low_vector_loop(Low *l, Block *b, uint32_t axis, const char *name, const Expr *begin, const Expr *end, uint32_t lanes,
                EmitFn *emit, void *user)
{
    Ctx *c = l->c;
    const Expr *count = expr_sub(c, end, begin), *full = expr_int(c, 0);
    uint32_t ranges = l->range.n;

    if (lanes > 1 && !expr_is(begin, 0))
        count = low_let(l, b, "count", count, NULL);
    if (lanes > 1)
        full = expr_scale(c, expr_div(c, count, expr_int(c, lanes)), lanes);
    if (!expr_is(full, 0)) {
        Block *in = b;
        const Expr *v = low_loop(l, &in, LOOP_SERIAL, name, begin, expr_add(c, begin, full), lanes);
        vector_step(l, in, axis, v, lanes, NULL, emit, user);
        l->range.n = ranges;
    }
    if (full != count)
        vector_rest(l, b, axis, name, expr_add(c, begin, full), expr_add(c, begin, count), lanes, emit, user);
    l->bind[axis] = NULL;
    l->range.n = ranges;
}

/* ---- collapsing ------------------------------------------------------------------------------------- */

typedef struct { Low *l; uint32_t outer, inner; bool ok; } Collapse;

static bool
uses_axis(const Expr *e, uint32_t axis)
{
    return expr_axes(e) >> axis & 1;
}

/* Offsets may use both axes only as coef * (extent(inner) * outer + inner). */
static void
check_offset(Collapse *k, const Expr *outer_stride, const Expr *inner_stride)
{
    Low *l = k->l;
    if (!outer_stride || !inner_stride ||
        expr_eq(l->c, NULL, outer_stride, expr_mul(l->c, inner_stride, low_extent(l, k->inner))) != YES)
        k->ok = false;
}

static void
check_collapse(void *user, const Scalar *s)
{
    Collapse *k = user;

    if (!k->ok)
        return;
    if (s->op == S_INDEX || s->op == S_AT)
        k->ok = !uses_axis(s->u.index, k->outer) && !uses_axis(s->u.index, k->inner);
    if (s->op != S_LOAD)
        return;
    bool uses = false;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        bool here = uses_axis(s->u.load.at[d], k->outer) || uses_axis(s->u.load.at[d], k->inner);
        uses |= here;
        if (here && (s->u.load.outside || expr_uses_kind(s->u.load.at[d], VAR_COMPUTED)))
            k->ok = false;
    }
    if (uses && k->ok)
        check_offset(k, low_stride(k->l, s, k->outer), low_stride(k->l, s, k->inner));
}

bool
low_collapses(Low *l, uint32_t outer, uint32_t inner, const Scalar *const *value, uint32_t nvalue, const Write *w)
{
    Collapse k = {l, outer, inner, true};
    const Axis *o = &l->n->axis[outer], *i = &l->n->axis[inner];

    if (o->kind != i->kind || o->kind == AXIS_SCAN || !expr_is(o->begin, 0) || !expr_is(i->begin, 0) ||
        expr_axes(i->extent) || expr_axes(o->extent))
        return false;
    for (uint32_t v = 0; v < nvalue; v++)
        scalar_visit(l->c, value[v], check_collapse, &k);
    if (w && k.ok) {
        /* The write as if it were a read of the output: same offsets. */
        const NestParam *p = &l->n->param[w->out];
        const Scalar *as_load = scalar_load(l->c, p->type->dtype, w->out, p->type->rank, w->at, NULL);
        check_collapse(&k, as_load);
    }
    return k.ok;
}

/* ---- the template -------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t axis[NEST_MAX_AXES], n;     /* parallel axes of a part that are not shared, outermost first */
    uint32_t group;                      /* of these, how many innermost ones are one axis in memory */
    bool lanes_inside;                   /* the innermost one runs over lanes */
} Inner;

static void
emit_writes(Low *l, Block *b, void *user)
{
    const Nest *n = l->n;
    const Scalar *value[NEST_MAX_AXES], *root[NEST_MAX_AXES];
    Map outside = low_known(l);
    (void)user;

    for (uint32_t i = 0; i < n->nwrite; i++)
        root[i] = n->write[i].value;
    low_reductions(l, b, root, n->nwrite);
    for (uint32_t i = 0; i < n->nwrite; i++)
        value[i] = low_value(l, root[i]);
    for (uint32_t i = 0; i < n->nwrite; i++)
        low_write(l, b, &n->write[i], value[i]);
    l->value = outside;
}

typedef struct { bool any, picks; } Reductions;

static void
note_reduction(void *user, const Scalar *s)
{
    Reductions *r = user;
    if (s->op == S_REDUCE) {
        r->any = true;
        r->picks |= s->u.reduce.combiner == COMB_ARGMAX || s->u.reduce.combiner == COMB_ARGMIN;
    }
}

/* Is there a reduction below, and does one pick (argmax, argmin)? */
static Reductions
reductions_in(Low *l, const Scalar *s)
{
    Reductions r = {0};
    scalar_visit(l->c, s, note_reduction, &r);
    return r;
}

/* Do all reads run along `axis` with stride 0 or 1, unguarded? Then lanes along it are plain vectors. */
static bool
reads_are_vectors(Low *l, uint32_t axis)
{
    Accesses all = nest_accesses(l->c, l->a, l->n);

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load;
        bool uses = false;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            uses |= uses_axis(load->u.load.at[d], axis);
        if (!uses)
            continue;
        const Expr *stride = low_stride(l, load, axis);
        if (!stride || !(expr_is(stride, 1) || expr_is(stride, 0)) || load->u.load.outside)
            return false;
    }
    return true;
}

static Inner
inner_axes(Low *l, uint32_t shared, bool vectors)
{
    const Nest *n = l->n;
    Inner in = {0};
    const Scalar *value[NEST_MAX_AXES];
    bool reduces = false, picks = false, scans = false;
    uint32_t seen = 0;

    for (uint32_t k = 0; k < n->naxis; k++) {
        if (n->axis[k].kind == AXIS_REDUCE)
            continue;
        scans = n->axis[k].kind == AXIS_SCAN;            /* the innermost: what lies inside a scan's step is independent */
        if (seen++ >= shared)
            in.axis[in.n++] = k;
    }
    for (uint32_t i = 0; i < n->nwrite; i++) {
        value[i] = n->write[i].value;
        Reductions r = reductions_in(l, value[i]);
        reduces |= r.any;
        picks |= r.picks;
    }
    in.group = in.n > 0;
    if (!vectors || scans || picks || in.n == 0)
        return in;
    uint32_t last = in.axis[in.n - 1];
    const Write *w = &n->write[0];
    uint32_t rank = n->param[w->out].type->rank;
    const Expr *write_stride = rank ? low_stride(l, scalar_load(l->c, n->param[w->out].type->dtype, w->out, rank, w->at, NULL), last) : NULL;
    if (!write_stride || !expr_is(write_stride, 1) || !expr_is(n->axis[last].begin, 0) || (reduces && !reads_are_vectors(l, last)))
        return in;
    in.lanes_inside = true;
    while (in.group < in.n) {
        bool all = true;
        for (uint32_t i = 0; all && i < n->nwrite; i++)
            all = low_collapses(l, in.axis[in.n - in.group - 1], in.axis[in.n - in.group], value, n->nwrite, &n->write[i]);
        if (!all)
            break;
        in.group++;
    }
    return in;
}

/* Lanes of a part: from the widest element it writes, shrunk to a short constant extent. */
static uint32_t
part_lanes(Low *l, const Expr *extent)
{
    uint32_t lanes = l->m->vector_bytes / 4;
    int64_t trip = expr_or(extent, INT64_MAX);

    for (uint32_t i = 0; i < l->n->nwrite; i++) {
        uint32_t here = low_lanes(l, l->n->param[l->n->write[i].out].type->dtype);
        lanes = here < lanes ? here : lanes;
    }
    while (lanes > 1 && lanes / 2 >= trip)
        lanes /= 2;
    return lanes;
}

/* Points that ragged axes leave out are 0: all points are, before those that are not left out. */
static void
fill_gaps(Low *l, Block *b)
{
    Ctx *c = l->c;
    const Expr *bound[NEST_MAX_AXES];
    uint32_t ranges = l->range.n;

    memcpy(bound, l->bind, sizeof bound);
    for (uint32_t i = 0; i < l->n->nwrite; i++) {
        const Write *w = &l->n->write[i];
        const Type *t = l->n->param[w->out].type;
        Block *in = b;
        for (uint32_t d = 0; d < t->rank; d++) {
            Var axis;
            if (expr_is_var(w->at[d], &axis) && !l->bind[axis.id])
                l->bind[axis.id] = low_loop(l, &in, LOOP_SERIAL, l->n->axis[axis.id].name, expr_int(c, 0), t->dim[d], 1);
        }
        low_write(l, in, w, scalar_number(c, t->dtype, 0));
        memcpy(l->bind, bound, sizeof bound);
        l->range.n = ranges;
    }
}

static const Nest *
with_value(Low *l, const Scalar *value)
{
    Nest *n = arena_copy(l->a, l->n, sizeof *n);
    Write *w = arena_copy(l->a, n->write, sizeof *w);

    w->value = value;
    n->write = w;
    return n;
}

/* The loop over the innermost group. A choice that is the same for the whole loop (which input of a
 * concatenation this row comes from) is made once before it. */
static void
inner_loop(Low *l, Block *b, const Inner *in, const Expr *first, const Expr *stop)
{
    const Nest *n = l->n;
    const Scalar *v = n->write[0].value;
    uint32_t last = in->axis[in->n - 1];
    AxisSet group = 0;

    for (uint32_t i = in->n - in->group; i < in->n; i++)
        group |= (AxisSet)1 << in->axis[i];
    if (in->lanes_inside && n->nwrite == 1 && v->op == S_SELECT && !(scalar_axes(l->c, v->arg[0]) & group) &&
        !reductions_in(l, v->arg[0]).any) {
        Tree *test = tree_if(b, low_value(l, v->arg[0]));
        l->n = with_value(l, v->arg[1]);
        inner_loop(l, &test->body, in, first, stop);
        l->n = with_value(l, v->arg[2]);
        inner_loop(l, &test->other, in, first, stop);
        l->n = n;
        return;
    }
    uint32_t lanes = in->lanes_inside ? part_lanes(l, expr_sub(l->c, stop, first)) : 1;
    low_vector_loop(l, b, last, n->axis[last].name, first, stop, lanes, emit_writes, NULL);
}

/* The remaining axes of a part, from begin to end of the innermost group (NULL: all of it). */
static void
emit_inner(Low *l, Block *b, const Inner *in, const Expr *begin, const Expr *end)
{
    uint32_t ranges = l->range.n, outer = in->n - in->group;

    if (nest_leaves_gaps(l->n))
        fill_gaps(l, b);
    for (uint32_t i = 0; i < outer; i++) {
        const Axis *axis = &l->n->axis[in->axis[i]];
        const Expr *first = low_expr(l, axis->begin);
        l->bind[in->axis[i]] = low_loop(l, &b, LOOP_SERIAL, axis->name, first, expr_add(l->c, first, low_extent(l, in->axis[i])), 1);
    }
    if (in->n == 0) {
        emit_writes(l, b, NULL);
    } else {
        uint32_t last = in->axis[in->n - 1];
        const Axis *axis = &l->n->axis[last];
        const Expr *first = begin ? begin : low_expr(l, axis->begin);
        const Expr *stop = end ? end : expr_add(l->c, first, axes_product(l, in->axis + outer, in->group));
        for (uint32_t i = outer; i + 1 < in->n; i++)
            l->bind[in->axis[i]] = expr_int(l->c, 0);
        inner_loop(l, b, in, first, stop);
    }
    l->range.n = ranges;
}

/* Locals live in this worker's scratch, without the shared axes. */
static const uint32_t *
place_locals(Ctx *c, Arena *a, Kernel *k, Block *b)
{
    uint32_t n = k->buffer.n, *home = NEW_ARRAY(a, uint32_t, n + 1);

    for (uint32_t i = 0; i < n; i++) {
        Buffer local = k->buffer.at[i];
        home[i] = i;
        if (local.space != SPACE_LOCAL)
            continue;
        uint32_t drop = k->shared < local.type->rank ? k->shared : local.type->rank;
        const Type *t = type_new(c, local.type->dtype, local.type->rank - drop, local.type->dim + drop);
        home[i] = kernel_buffer(c, a, k, local.name, t, SPACE_SCRATCH, 1);
        tree_buffer(b, home[i]);
    }
    return home;
}

/* Writes that combine: the old contents (or the identity), then every point in order. */
static void
emit_combining(Low *l, Block *b)
{
    const Nest *n = l->n;
    Ctx *c = l->c;

    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        const Type *t = n->param[w->out].type;
        const Expr *at[TN_MAX_RANK];
        uint32_t ranges = l->range.n;
        Block *in = b;
        for (uint32_t d = 0; d < t->rank; d++)
            at[d] = low_loop(l, &in, LOOP_SERIAL, "d", expr_int(c, 0), t->dim[d], 1);
        const Scalar *first = w->init != NO_SLOT ? scalar_load(c, t->dtype, l->part->buffer[w->init], t->rank, at, NULL)
                              : w->combiner == COMB_LAST || w->combiner == COMB_NONE ? scalar_number(c, t->dtype, 0)
                                                         : combiner_identity(c, w->combiner, t->dtype);
        low_store(l, in, l->part->buffer[w->out], at, t->rank, first);
        l->range.n = ranges;
    }
    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind != AXIS_REDUCE)
            l->bind[k] = low_loop(l, &b, LOOP_SERIAL, n->axis[k].name, low_expr(l, n->axis[k].begin),
                                  expr_add(c, low_expr(l, n->axis[k].begin), low_extent(l, k)), 1);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        const Type *t = n->param[w->out].type;
        const Expr *at[TN_MAX_RANK];
        low_reductions(l, b, &w->value, 1);
        for (uint32_t d = 0; d < t->rank; d++)
            at[d] = low_expr(l, w->at[d]);
        const Scalar *old = scalar_load(c, t->dtype, l->part->buffer[w->out], t->rank, at, NULL);
        low_store(l, b, l->part->buffer[w->out], at, t->rank, low_combine(c, w->combiner, old, low_value(l, w->value)));
    }
}

static bool
combines(const Nest *n)
{
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].combiner != COMB_NONE)
            return true;
    return false;
}

/* How many trips make up about 32 K scalar operations: below that a thread costs more than it saves. */
const Expr *
low_grain(Ctx *c, const Expr *work_per_trip)
{
    int64_t w;
    if (expr_const(work_per_trip, &w))
        return expr_int(c, w >= 32768 ? 1 : 32768 / (w > 0 ? w : 1));
    return expr_max(c, expr_int(c, 1), expr_div(c, expr_int(c, 32768), expr_max(c, expr_int(c, 1), work_per_trip)));
}

enum { CHUNK = 4096 };       /* elements of a flat elementwise kernel per trip: 16 KiB of f32, well inside L1 */

/* One flat axis: cut in chunks so that threads have something to share. */
static void
schedule_flat(Low *l, Kernel *k, const Inner *in)
{
    Ctx *c = l->c;
    Block *b = &k->tree;
    const Expr *all = axes_product(l, in->axis, in->n);

    k->trips = expr_ceil_div(c, all, expr_int(c, CHUNK));
    k->grain = expr_int(c, 8);
    const Expr *t = low_loop(l, &b, LOOP_PARALLEL, "chunk", expr_int(c, 0), k->trips, 1);
    const Expr *begin = expr_scale(c, t, CHUNK);
    const Expr *end = expr_min(c, expr_offset(c, begin, CHUNK), all);
    emit_inner(l, b, in, begin, expr_const(all, NULL) && expr_or(all, 0) <= CHUNK ? all : low_let(l, b, "end", end, NULL));
}

static uint32_t
parallel_axes(const Nest *n, uint32_t *axis)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind != AXIS_REDUCE)
            axis[count++] = k;
    return count;
}

/* A part alone may share out every axis that the vector loop does not need; ragged and scanned axes,
 * and those inside them, stay serial. */
static uint32_t
shared_alone(Low *l, bool vectors)
{
    uint32_t axis[NEST_MAX_AXES], n = parallel_axes(l->n, axis), shared = 0;
    Inner in = inner_axes(l, 0, vectors);

    while (shared < n && l->n->axis[axis[shared]].kind == AXIS_PARALLEL && expr_is(l->n->axis[axis[shared]].begin, 0) &&
           !expr_axes(l->n->axis[axis[shared]].extent) && !expr_uses_kind(l->n->axis[axis[shared]].extent, VAR_COMPUTED))
        shared++;
    uint32_t keep = in.lanes_inside ? in.group : 0;
    return shared > n - keep ? n - keep : shared;
}

bool
schedule_loops(Ctx *c, Arena *a, Kernel *k, const Machine *m, bool vectors)
{
    Block *b = &k->tree;
    Low first = low_part(c, a, k, m, &k->part[0]);
    uint32_t axis[NEST_MAX_AXES], shared = k->shared;

    k->trips = k->grain = expr_int(c, 1);
    if (k->npart == 1 && combines(first.n)) {
        emit_combining(&first, b);
        return true;
    }
    if (k->npart == 1)
        shared = shared_alone(&first, vectors);
    if (k->npart == 1 && shared == 0 && !nest_leaves_gaps(first.n)) {
        Inner in = inner_axes(&first, 0, vectors);
        if (in.lanes_inside && in.group == in.n) {
            schedule_flat(&first, k, &in);
            return true;
        }
    }
    parallel_axes(first.n, axis);
    const Expr *t = NULL;
    if (shared > 0) {
        k->trips = axes_product(&first, axis, shared);
        t = low_loop(&first, &b, LOOP_PARALLEL, shared == 1 ? first.n->axis[axis[0]].name : "row", expr_int(c, 0), k->trips, 1);
        low_bind_digits(&first, b, axis, shared, t);
    }
    const uint32_t *home = place_locals(c, a, k, b);
    const Expr *work = expr_int(c, 0);
    for (uint32_t i = 0; i < k->npart; i++) {
        Low l = low_part(c, a, k, m, &k->part[i]);
        uint32_t here[NEST_MAX_AXES];
        l.home = home;
        l.vector_reduce = vectors;
        for (uint32_t r = 0; r < first.range.n; r++)
            VEC_PUSH(a, &l.range, first.range.at[r]);
        parallel_axes(l.n, here);
        for (uint32_t s = 0; s < shared; s++)
            l.bind[here[s]] = first.bind[axis[s]];
        Inner in = inner_axes(&l, shared, vectors);
        const Expr *points = axes_product(&l, in.axis, in.n);
        for (uint32_t x = 0; x < l.n->naxis; x++)
            if (l.n->axis[x].kind == AXIS_REDUCE && !expr_axes(l.n->axis[x].extent))
                points = expr_mul(c, points, l.n->axis[x].extent);
        if (!expr_uses_kind(points, VAR_COMPUTED) && !expr_uses_kind(points, VAR_LOOP))
            work = expr_add(c, work, expr_scale(c, points, 4));
        emit_inner(&l, b, &in, NULL, NULL);
    }
    if (shared > 0)
        k->grain = low_grain(c, work);
    return true;
}
