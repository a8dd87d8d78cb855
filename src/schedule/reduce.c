/* reduce: reductions as loops around registers.
 *
 * low_reductions emits the loops of every reduction below a value and remembers which register stands
 * for it. Where the vector axis is a parallel one, each lane has its own accumulator; where it may be
 * (vector_reduce), a reduction along contiguous memory runs over lanes itself and combines them at the
 * end in a fixed tree.
 */
#include "schedule/internal.h"

#include <assert.h>

const Scalar *
low_combine(Ctx *c, Combiner k, const Scalar *acc, const Scalar *v)
{
    switch (k) {
    case COMB_SUM:  return scalar_2(c, S_ADD, acc, v);
    case COMB_PROD: return scalar_2(c, S_MUL, acc, v);
    case COMB_MAX:  return scalar_2(c, S_MAX, acc, v);
    case COMB_MIN:  return scalar_2(c, S_MIN, acc, v);
    case COMB_ANY:  return scalar_2(c, S_OR, acc, v);
    case COMB_ALL:  return scalar_2(c, S_AND, acc, v);
    case COMB_ARGMAX: case COMB_ARGMIN: case COMB_LAST: case COMB_NONE: case COMB_COUNT:
        break;
    }
    return v;
}

/* Reductions directly below s, not those inside another reduction's body. */
static void
outermost_reductions(Low *l, const Scalar *s, Map *seen, Accesses *out, uint32_t *cap)
{
    if (map_get(seen, MAP_PTR(s), NULL) || map_get(&l->value, MAP_PTR(s), NULL))
        return;
    map_put(seen, MAP_PTR(s), 1);
    if (s->op == S_REDUCE) {
        if (out->n == *cap)
            out->at = vec_grow(l->a, out->at, cap, sizeof *out->at);
        out->at[out->n++] = (Access){.load = s};
        return;
    }
    for (uint32_t i = 0; i < s->narg; i++)
        outermost_reductions(l, s->arg[i], seen, out, cap);
}

/* The reduction axis to run over lanes: every read below has stride 0 or 1 along it, one has 1, and
 * none is guarded by it. -1 if there is none. */
static int
reduction_lane_axis(Low *l, AxisSet axes)
{
    Accesses all = nest_accesses(l->c, l->a, l->n);
    int best = -1;

    for (uint32_t k = 0; k < NEST_MAX_AXES; k++) {
        bool good = axes >> k & 1, unit = false;
        for (uint32_t i = 0; good && i < all.n; i++) {
            const Scalar *load = all.at[i].load;
            bool uses = false;
            for (uint32_t d = 0; d < load->u.load.rank; d++)
                uses |= expr_axes(load->u.load.at[d]) >> k & 1;
            if (!uses)
                continue;
            const Expr *stride = low_stride(l, load, k);
            good = stride && expr_const(stride, NULL) && !load->u.load.outside;
            unit |= stride && expr_is(stride, 1);
        }
        if (good && unit)
            best = (int)k;
    }
    return best;
}

Map
low_known(const Low *l)
{
    Map copy = {.arena = l->a};
    for (uint32_t i = 0; i < l->value.cap; i++)
        if (l->value.used[i])
            map_put(&copy, l->value.key[i], l->value.value[i]);
    return copy;
}

typedef struct { const Scalar *r; uint32_t acc; } ReduceStep;

static const Scalar *
register_value(Low *l, uint32_t buffer)
{
    return scalar_load(l->c, l->k->buffer.at[buffer].type->dtype, buffer, 0, NULL, NULL);
}

static uint32_t
new_register(Low *l, Block *b, DType t, uint32_t lanes)
{
    uint32_t r = kernel_buffer(l->c, l->a, l->k, "acc", type_new(l->c, t, 0, NULL), SPACE_REGISTER, lanes);
    tree_buffer(b, r);
    return r;
}

static void
reduce_step(Low *l, Block *b, void *user)
{
    ReduceStep *step = user;
    const Scalar *body = step->r->arg[0];
    Map outside = low_known(l);

    low_reductions(l, b, &body, 1);
    const Scalar *v = low_value(l, body), *acc = register_value(l, step->acc);
    uint32_t lanes = l->k->buffer.at[step->acc].lanes;
    if (lanes > 1)
        acc = scalar_load_lanes(l->c, acc->dtype, step->acc, 0, NULL, lanes, expr_int(l->c, 1), NULL);
    if (lanes > 1 && v->lanes == 1)
        v = scalar_splat(l->c, v, lanes);
    low_store(l, b, step->acc, NULL, 0, low_combine(l->c, step->r->u.reduce.combiner, acc, v));
    l->value = outside;
}

/* One value, one lane or the lanes of the parallel vector axis. */
static void
reduce_plain(Low *l, Block *b, const Scalar *r, const uint32_t *axis, uint32_t n)
{
    bool varies = l->lanes > 1 && scalar_axes(l->c, r) >> l->vector_axis & 1;
    ReduceStep step = {r, new_register(l, b, r->dtype, varies ? l->lanes : 1)};
    uint32_t lanes = l->lanes, ranges = l->range.n;
    Block *in = b;

    const Scalar *identity = combiner_identity(l->c, r->u.reduce.combiner, r->dtype);
    low_store(l, b, step.acc, NULL, 0, varies ? scalar_splat(l->c, identity, l->lanes) : identity);
    for (uint32_t i = 0; i < n; i++)
        if (!l->bind[axis[i]])
            l->bind[axis[i]] = low_loop(l, &in, LOOP_SERIAL, l->n->axis[axis[i]].name, low_expr(l, l->n->axis[axis[i]].begin),
                                        expr_add(l->c, low_expr(l, l->n->axis[axis[i]].begin), low_extent(l, axis[i])), 1);
    if (!varies)
        l->lanes = 1;
    reduce_step(l, in, &step);
    l->lanes = lanes;
    l->range.n = ranges;
    map_put(&l->value, MAP_PTR(r), MAP_PTR(register_value(l, step.acc)));
}

typedef struct { ReduceStep vector, scalar; } LaneSteps;

static void
lane_step(Low *l, Block *b, void *user)
{
    LaneSteps *s = user;
    reduce_step(l, b, l->lanes > 1 ? &s->vector : &s->scalar);
}

/* A reduction whose inner axis runs over lanes: a vector accumulator, a scalar one for the tail,
 * combined at the end in a fixed tree. */
static void
reduce_lanes(Low *l, Block *b, const Scalar *r, const uint32_t *axis, uint32_t n, uint32_t lane_axis, const Expr *extent)
{
    uint32_t lanes = low_lanes(l, r->dtype), ranges = l->range.n;
    Combiner k = r->u.reduce.combiner;
    int64_t trip = expr_or(extent, INT64_MAX);
    const Scalar *identity = combiner_identity(l->c, k, r->dtype);
    Block *in = b;

    while (lanes > 2 && lanes / 2 >= trip)
        lanes /= 2;
    LaneSteps s = {{r, new_register(l, b, r->dtype, lanes)}, {r, new_register(l, b, r->dtype, 1)}};
    tree_store_lanes(b, s.vector.acc, 0, NULL, scalar_splat(l->c, identity, lanes), expr_int(l->c, 1), NULL);
    low_store(l, b, s.scalar.acc, NULL, 0, identity);
    for (uint32_t i = 0; i < n; i++)
        if (axis[i] != lane_axis && !l->bind[axis[i]])
            l->bind[axis[i]] = low_loop(l, &in, LOOP_SERIAL, l->n->axis[axis[i]].name, expr_int(l->c, 0), low_extent(l, axis[i]), 1);
    low_vector_loop(l, in, lane_axis, l->n->axis[lane_axis].name, expr_int(l->c, 0), extent, lanes, lane_step, &s);
    l->range.n = ranges;
    const Scalar *all = scalar_hreduce(l->c, k, scalar_load_lanes(l->c, r->dtype, s.vector.acc, 0, NULL, lanes, expr_int(l->c, 1), NULL));
    low_store(l, b, s.scalar.acc, NULL, 0, low_combine(l->c, k, register_value(l, s.scalar.acc), all));
    map_put(&l->value, MAP_PTR(r), MAP_PTR(register_value(l, s.scalar.acc)));
}

/* argmax and argmin: (value, index) pairs, first on ties. */
static void
reduce_arg(Low *l, Block *b, const Scalar *r, const uint32_t *axis, uint32_t n)
{
    Combiner k = r->u.reduce.combiner;
    const Scalar *const *body = r->arg;
    uint32_t acc[2] = {new_register(l, b, body[0]->dtype, 1), new_register(l, b, body[1]->dtype, 1)};
    uint32_t ranges = l->range.n;
    Map outside = low_known(l);
    Block *in = b;

    low_store(l, b, acc[0], NULL, 0, combiner_identity(l->c, k, body[0]->dtype));
    low_store(l, b, acc[1], NULL, 0, scalar_int(l->c, body[1]->dtype, 0));
    for (uint32_t i = 0; i < n; i++)
        l->bind[axis[i]] = low_loop(l, &in, LOOP_SERIAL, l->n->axis[axis[i]].name, expr_int(l->c, 0), low_extent(l, axis[i]), 1);
    low_reductions(l, in, body, 2);
    const Scalar *v = low_value(l, body[0]);
    const Scalar *better = scalar_2(l->c, k == COMB_ARGMAX ? S_GT : S_LT, v, register_value(l, acc[0]));
    low_store(l, in, acc[1], NULL, 0, scalar_select(l->c, better, low_value(l, body[1]), register_value(l, acc[1])));
    low_store(l, in, acc[0], NULL, 0, scalar_select(l->c, better, v, register_value(l, acc[0])));
    l->range.n = ranges;
    l->value = outside;
    map_put(&l->value, MAP_PTR(scalar_item(l->c, r, 0)), MAP_PTR(register_value(l, acc[0])));
    map_put(&l->value, MAP_PTR(scalar_item(l->c, r, 1)), MAP_PTR(register_value(l, acc[1])));
    map_put(&l->value, MAP_PTR(r), MAP_PTR(register_value(l, acc[0])));
}

static void
reduce_one(Low *l, Block *b, const Scalar *r)
{
    uint32_t axis[NEST_MAX_AXES], n = axis_list(r->u.reduce.axes, axis);
    Combiner k = r->u.reduce.combiner;

    if (k == COMB_ARGMAX || k == COMB_ARGMIN) {
        assert(l->lanes == 1);       /* parts that pick run one element at a time (inner_axes) */
        reduce_arg(l, b, r, axis, n);
    } else {
        bool sums = k == COMB_SUM || k == COMB_PROD || k == COMB_MAX || k == COMB_MIN;
        int lane = l->vector_reduce && l->lanes == 1 && sums ? reduction_lane_axis(l, r->u.reduce.axes) : -1;
        if (lane < 0) {
            reduce_plain(l, b, r, axis, n);
        } else {
            const Expr *extent = low_extent(l, (uint32_t)lane);
            /* Outer reduction axes that continue the lane axis in memory join it. */
            for (int o = lane - 1, i = lane; o >= 0 && r->u.reduce.axes >> o & 1; i = o--) {
                if (!low_collapses(l, (uint32_t)o, (uint32_t)i, r->arg, 1, NULL))
                    break;
                extent = expr_mul(l->c, extent, low_extent(l, (uint32_t)o));
                l->bind[o] = expr_int(l->c, 0);
            }
            reduce_lanes(l, b, r, axis, n, (uint32_t)lane, extent);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        l->bind[axis[i]] = NULL;
}

void
low_reductions(Low *l, Block *b, const Scalar *const *s, uint32_t n)
{
    Map seen = {.arena = l->a};
    Accesses list = {0};
    uint32_t cap = 0;

    for (uint32_t i = 0; i < n; i++)
        outermost_reductions(l, s[i], &seen, &list, &cap);
    for (uint32_t i = 0; i < list.n; i++)
        reduce_one(l, b, list.at[i].load);
}
