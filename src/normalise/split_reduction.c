/* split_reduction: a reduction to a scalar is split into chunks, so that threads can share it.
 *
 *     o[] = f(sum i, j: v(i, j))      becomes      p[i] = sum j: v(i, j)      o[] = f(sum i: p[i])
 *
 * The outermost axis is kept, or its slow digit if one iteration is not worth a thread: i =
 * length*i1 + i2. Chunks depend on the sizes alone and are combined in order, so the result is the
 * same for any number of threads.
 */
#include "normalise/normalise.h"

/* The nest's one reduction, of one item and over loops of known length, if nothing else takes
 * time. */
static const Scalar *
only_reduction(Ctx *c, const Nest *n, int64_t *points)
{
    const Scalar *found = NULL;
    int64_t extent;

    *points = 1;
    if (n->nwrite != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE)
        return NULL;
    FOR_EACH_SCALAR (s, scalar_nodes(c, n->write[0].value)) {
        if (s->op == S_REDUCE && found)
            return NULL;
        found = s->op == S_REDUCE ? s : found;
    }
    if (!found || found->narg != 1 || found->u.reduce.combiner > COMB_MIN)
        return NULL;
    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind == AXIS_SCAN || !expr_const(n->axis[k].extent, &extent) ||
            (n->axis[k].kind == AXIS_PARALLEL && extent != 1) ||
            mul_overflows(*points, extent, points))
            return NULL;
    return found;
}

/* how much longer than necessary a chunk may be, if that divides the extent; bounds the search,
 * otherwise it stays whole */
enum { LONGER = 16 };

/* The first divisor of n that is at least `least`; 0: none is near. */
static int64_t
divisor(int64_t n, int64_t least)
{
    for (int64_t d = least; d <= n / 2 && d / LONGER < least; d++)
        if (n % d == 0)
            return d;
    return 0;
}

typedef struct {
    Binding bind[NEST_MAX_AXES];
    AxisSet axes;
} ChunkAxes;

static const Expr *
inner_expr(ScalarMap *m, const Expr *e)
{
    const ChunkAxes *i = m->user;
    return expr_subst(m->ctx, e, i->bind, NEST_MAX_AXES);
}

static AxisSet
inner_axes(ScalarMap *m, AxisSet axes)
{
    (void)axes;
    return ((const ChunkAxes *)m->user)->axes;
}

bool
normalise_split_reduction(Ctx *c, const Nest *n, int64_t worth, const Nest **made,
                          const Nest **rest)
{
    int64_t points, extent, length = 1;
    const Scalar *reduce = only_reduction(c, n, &points);
    Arena *scratch = arena_child(c->arena);
    ChunkAxes in = { .axes = 0 };
    uint32_t outer = 0;

    if (!reduce || worth < 1 || points / 2 < worth)
        return arena_free(scratch), false;
    while (!(reduce->u.reduce.axes >> outer & 1))
        outer++;
    expr_const(n->axis[outer].extent, &extent);
    int64_t trip = points / extent;
    if (trip < worth && !(length = divisor(extent, (worth + trip - 1) / trip)))
        return arena_free(scratch), false;
    int64_t count = extent / length;
    if (count < 2)
        return arena_free(scratch), false;

    /* The chunks. */
    const Expr *dim = expr_int(c, count), *at[TN_MAX_RANK];
    const Type *t = type_new(c, reduce->dtype, 1, &dim);
    NestBuilder b = nest_begin(c, arena_printf(c->arena, "%s_pieces", n->name));
    nest_ins(&b, n);
    uint32_t out = nest_out(&b, "p", t);
    const Expr *piece = nest_axis(&b, "piece", AXIS_PARALLEL, dim);
    for (uint32_t k = 0; k < NEST_MAX_AXES; k++) {
        const Expr *to = expr_int(c, 0);
        bool sum = k < n->naxis && reduce->u.reduce.axes >> k & 1;
        if (sum && (k != outer || length > 1)) {
            to = nest_axis(&b, n->axis[k].name, AXIS_REDUCE,
                           k == outer ? expr_int(c, length) : n->axis[k].extent);
            in.axes |= axis_bit(to);
        }
        if (k == outer)
            to = length > 1 ? expr_add(c, expr_scale(c, piece, length), to) : piece;
        in.bind[k] = (Binding){ { VAR_AXIS, k }, to };
    }
    ScalarMap m = {
        .expr = inner_expr, .axes = inner_axes, .user = &in, .ctx = c, .done = { .arena = scratch }
    };
    nest_write(&b, out, &piece, scalar_map(&m, reduce));
    *made = nest_finish(&b);

    /* Their combination: the same inputs, then the chunks. */
    NestBuilder r = nest_begin(c, n->name);
    nest_ins(&r, n);
    uint32_t pieces = nest_in(&r, "p", t),
             all = nest_out(&r, n->param[n->nin].name, n->param[n->nin].type);
    nest_axes_of(&r, n->param[n->nin].type, at);
    const Expr *each = nest_axis(&r, "piece", AXIS_REDUCE, dim);
    const Scalar *load = nest_load(&r, pieces, &each),
                 *sum = scalar_reduce(c, reduce->u.reduce.combiner, axis_bit(each), &load, 1);
    ChunkAxes none = { .axes = 0 };
    for (uint32_t k = 0; k < NEST_MAX_AXES; k++) /* the outputs' axes have one point */
        none.bind[k] = (Binding){ { VAR_AXIS, k }, expr_int(c, 0) };
    ScalarMap put = { .expr = inner_expr, .user = &none, .ctx = c, .done = { .arena = scratch } };
    map_put(&put.done, MAP_PTR(reduce), MAP_PTR(sum));
    const Scalar *value = scalar_map(&put, n->write[0].value);
    nest_write(&r, all, at, value);
    *rest = nest_finish(&r);
    arena_free(scratch);
    return *made && *rest;
}
