/* value: the expressions of a nest as expressions of a loop tree.
 *
 * Two steps. low_map replaces axes by what they are bound to and parameters by buffers; the lane of
 * the vector axis stays in it as the variable LANE. vectorize then turns what depends on LANE into
 * vectors: a read whose offset is linear in LANE is one vector load, whatever the stride; a read that
 * is not (computed from data, or under a guard that differs between lanes) is made lane by lane.
 *
 * Reductions become registers: low_reductions emits the loops and remembers which register stands
 * for which reduction.
 */
#include "schedule/internal.h"

#include <assert.h>

Low
low_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Part *part)
{
    Low l = {.c = c, .a = a, .k = k, .m = m, .part = part, .n = part->nest, .lanes = 1, .vector_axis = -1};
    l.value.arena = a;
    return l;
}

Ranges
low_ranges(const Low *l)
{
    return (Ranges){l->range.at, l->range.n};
}

uint32_t
low_lanes(const Low *l, DType t)
{
    uint32_t bytes = dtype_info[t].bytes < 4 ? 4 : dtype_info[t].bytes;
    return l->m->vector_bytes / bytes;
}

/* ---- indices ---------------------------------------------------------------------------------- */

static const Scalar *low_map(Low *l, const Scalar *s);

typedef struct { Low *l; VEC(Binding) list; } Bindings;

static void
bind_var(void *user, Var v)
{
    Bindings *b = user;
    Low *l = b->l;
    const Expr *to = NULL;

    if (v.kind == VAR_AXIS)
        to = l->bind[v.id];
    else if (v.kind == VAR_COMPUTED)
        to = expr_computed(l->c, low_map(l, computed_scalar(v)));
    if (to)
        VEC_PUSH(l->a, &b->list, ((Binding){v, to}));
}

const Expr *
low_expr(Low *l, const Expr *e)
{
    Bindings b = {.l = l};
    Ranges ranges = low_ranges(l);

    expr_vars(e, bind_var, &b);
    if (b.list.n == 0)
        return e;
    return expr_simplify(l->c, &ranges, expr_subst(l->c, e, b.list.at, b.list.n));
}

/* The physical index of a nest's access in the kernel's buffer: locals lose the shared axes they
 * are private to, packed tensors are indexed by the parts of their format. */
static uint32_t
physical_index(Low *l, uint32_t buffer, uint32_t rank, const Expr *const *at, const Expr **out)
{
    const Buffer *b = &l->k->buffer.at[buffer];

    if (b->space == SPACE_LOCAL && l->home && l->home[buffer] != buffer) {
        uint32_t drop = rank - l->k->buffer.at[l->home[buffer]].type->rank;
        for (uint32_t d = drop; d < rank; d++)
            out[d - drop] = at[d];
        return rank - drop;
    }
    if (!b->format) {
        for (uint32_t d = 0; d < rank; d++)
            out[d] = at[d];
        return rank;
    }
    for (uint32_t p = 0; p < b->format->npart; p++) {
        FormatPart part = b->format->part[p];
        const Expr *e = expr_div(l->c, at[part.dim], expr_int(l->c, part.div));
        out[p] = part.mod ? expr_mod(l->c, e, expr_int(l->c, part.mod)) : e;
    }
    return b->format->npart;
}

static uint32_t
tree_buffer_of(const Low *l, uint32_t slot)
{
    uint32_t buffer = l->part->buffer[slot];
    return l->home ? l->home[buffer] : buffer;
}

/* Linear offset of a physical index [elements]. */
static const Expr *
offset_of(Low *l, uint32_t buffer, const Expr *const *at)
{
    return buffer_offset(l->c, &l->k->buffer.at[buffer], at);
}

const Expr *
low_stride(Low *l, const Scalar *load, uint32_t axis)
{
    const Expr *at[TN_MAX_RANK * 2], *coef, *rest;
    uint32_t slot = load->u.load.slot;

    physical_index(l, l->part->buffer[slot], load->u.load.rank, load->u.load.at, at);
    const Expr *offset = offset_of(l, tree_buffer_of(l, slot), at);
    if (!expr_linear(l->c, offset, (Var){VAR_AXIS, axis}, &coef, &rest))
        return NULL;
    if (expr_axes(rest) >> axis & 1)
        return NULL;
    return coef;
}

/* ---- step one: nest to tree, lane kept as a variable ---------------------------------------------- */

static const Scalar *
map_load(Low *l, const Scalar *s)
{
    const Expr *logical[TN_MAX_RANK], *at[TN_MAX_RANK * 2];
    uint32_t slot = s->u.load.slot, buffer = tree_buffer_of(l, slot);
    const Scalar *outside = s->u.load.outside ? low_map(l, s->u.load.outside) : NULL;

    for (uint32_t d = 0; d < s->u.load.rank; d++)
        logical[d] = low_expr(l, s->u.load.at[d]);
    uint32_t rank = physical_index(l, l->part->buffer[slot], s->u.load.rank, logical, at);
    return scalar_load(l->c, s->dtype, buffer, rank, at, outside);
}

static const Scalar *
low_map(Low *l, const Scalar *s)
{
    const Scalar *arg[3];
    uint64_t known;

    if (map_get(&l->value, MAP_PTR(s), &known))
        return (const Scalar *)(uintptr_t)known;
    switch (s->op) {
    case S_CONST:
        return s;
    case S_INDEX:
        return scalar_index(l->c, low_expr(l, s->u.index));
    case S_LOAD:
        return map_load(l, s);
    case S_CAST:
        return scalar_cast(l->c, s->dtype, low_map(l, s->arg[0]));
    case S_AT:
        return scalar_at(l->c, low_map(l, s->arg[0]), low_expr(l, s->u.index));
    default:
        assert(s->op > S_HPROD && s->narg <= 3);
        for (uint32_t i = 0; i < s->narg; i++)
            arg[i] = low_map(l, s->arg[i]);
        return scalar_op(l->c, s->op, arg);
    }
}

/* ---- step two: lanes --------------------------------------------------------------------------------- */

typedef struct { Low *l; uint32_t lanes; Map done; } Vectorizer;

static void
find_lane(void *user, Var v)
{
    bool *found = user;
    if (v.kind == VAR_COMPUTED)
        *found |= scalar_uses(computed_scalar(v), LANE);
    else
        *found |= v.kind == LANE.kind && v.id == LANE.id;
}

static bool
uses_lane(const Expr *e)
{
    bool found = false;
    expr_vars(e, find_lane, &found);
    return found;
}

static const Scalar *
lane_by_lane(Vectorizer *v, const Scalar *s)
{
    const Scalar *lane[256];

    v->l->by_lane = true;
    for (uint32_t i = 0; i < v->lanes; i++)
        lane[i] = scalar_subst(v->l->c, s, &(Binding){LANE, expr_int(v->l->c, i)}, 1);
    return scalar_lanes(v->l->c, lane, v->lanes);
}

static const Expr *
at_lane_zero(Ctx *c, const Expr *e)
{
    return expr_subst(c, e, &(Binding){LANE, expr_int(c, 0)}, 1);
}

/* Scratch of the templates is as wide as their vectors; a value between parts ends where it ends. */
static bool
is_local(const Low *l, uint32_t scratch)
{
    for (uint32_t slot = 0; l->home && slot < l->n->nin + l->n->nout; slot++)
        if (tree_buffer_of(l, slot) == scratch)
            return true;
    return false;
}

static const Scalar *
vectorize_load(Vectorizer *v, const Scalar *s)
{
    Low *l = v->l;
    const Buffer *b = &l->k->buffer.at[s->u.load.slot];
    const Expr *at[TN_MAX_RANK * 2], *stride, *rest;
    bool varies = false;

    if (b->lanes > 1)
        return scalar_load_lanes(l->c, s->dtype, s->u.load.slot, s->u.load.rank, s->u.load.at, b->lanes,
                                 expr_int(l->c, 1), NULL);
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        varies |= uses_lane(s->u.load.at[d]);
    if (!varies)
        return s;
    const Expr *offset = offset_of(l, s->u.load.slot, s->u.load.at);
    if (s->u.load.outside || !expr_linear(l->c, offset, LANE, &stride, &rest) || uses_lane(rest) || uses_lane(stride))
        return lane_by_lane(v, s);
    for (uint32_t d = 0; d < s->u.load.rank; d++)
        at[d] = at_lane_zero(l->c, s->u.load.at[d]);
    if (expr_is(stride, 0))
        return scalar_load(l->c, s->dtype, s->u.load.slot, s->u.load.rank, at, NULL);
    return scalar_load_lanes(l->c, s->dtype, s->u.load.slot, s->u.load.rank, at, v->lanes, stride,
                             b->space == SPACE_SCRATCH && !is_local(l, s->u.load.slot) ? NULL : l->valid);
}

static const Scalar *
vectorize_index(Vectorizer *v, const Scalar *s)
{
    Ctx *c = v->l->c;
    const Expr *coef, *rest;

    if (!uses_lane(s->u.index))
        return s;
    if (!expr_linear(c, s->u.index, LANE, &coef, &rest) || uses_lane(rest) || !expr_const(coef, NULL))
        return lane_by_lane(v, s);
    const Scalar *iota = scalar_2(c, S_MUL, scalar_iota(c, DT_I64, v->lanes),
                                  scalar_splat(c, scalar_int(c, DT_I64, expr_or(coef, 0)), v->lanes));
    return scalar_2(c, S_ADD, scalar_splat(c, scalar_index(c, rest), v->lanes), iota);
}

static const Scalar *
vectorize(Vectorizer *v, const Scalar *s)
{
    const Scalar *arg[3], *r = s;
    uint64_t known;
    uint32_t lanes = 1;

    if (map_get(&v->done, MAP_PTR(s), &known))
        return (const Scalar *)(uintptr_t)known;
    switch (s->op) {
    case S_CONST:
        break;
    case S_INDEX:
        r = vectorize_index(v, s);
        break;
    case S_LOAD:
        r = vectorize_load(v, s);
        break;
    case S_AT:
        r = scalar_uses(s, LANE) ? lane_by_lane(v, s) : s;
        break;
    default:
        for (uint32_t i = 0; i < s->narg; i++) {
            arg[i] = vectorize(v, s->arg[i]);
            if (arg[i]->lanes > 1)
                lanes = arg[i]->lanes;
        }
        if (lanes == 1)
            break;
        for (uint32_t i = 0; i < s->narg; i++)
            if (arg[i]->lanes == 1)
                arg[i] = scalar_splat(v->l->c, arg[i], lanes);
        r = s->op == S_CAST ? scalar_cast(v->l->c, s->dtype, arg[0]) : scalar_op(v->l->c, s->op, arg);
    }
    map_put(&v->done, MAP_PTR(s), MAP_PTR(r));
    return r;
}

const Scalar *
low_value(Low *l, const Scalar *s)
{
    const Scalar *mapped = low_map(l, s);

    if (l->lanes == 1)
        return mapped;
    Vectorizer v = {.l = l, .lanes = l->lanes, .done = {.arena = l->a}};
    return vectorize(&v, mapped);
}

/* ---- stores --------------------------------------------------------------------------------------------- */

void
low_store(Low *l, Block *b, uint32_t buffer, const Expr *const *at, uint32_t rank, const Scalar *value)
{
    const Expr *base[TN_MAX_RANK * 2], *stride = expr_int(l->c, 0), *rest;
    bool varies = false;

    for (uint32_t d = 0; d < rank; d++)
        varies |= uses_lane(at[d]);
    if (!varies && l->k->buffer.at[buffer].lanes == 1) {
        assert(value->lanes == 1);
        tree_store(b, buffer, rank, at, value);
        return;
    }
    if (value->lanes == 1)
        value = scalar_splat(l->c, value, l->lanes);
    if (l->k->buffer.at[buffer].lanes > 1) {
        tree_store_lanes(b, buffer, rank, at, value, expr_int(l->c, 1), l->valid);
        return;
    }
    bool linear = expr_linear(l->c, offset_of(l, buffer, at), LANE, &stride, &rest) && !uses_lane(rest);
    assert(linear);
    (void)linear;
    for (uint32_t d = 0; d < rank; d++)
        base[d] = at_lane_zero(l->c, at[d]);
    tree_store_lanes(b, buffer, rank, base, value, stride, l->valid);
}

void
low_write(Low *l, Block *b, const Write *w, const Scalar *value)
{
    const Expr *logical[TN_MAX_RANK], *at[TN_MAX_RANK * 2];
    const Type *t = l->n->param[w->out].type;

    for (uint32_t d = 0; d < t->rank; d++)
        logical[d] = low_expr(l, w->at[d]);
    uint32_t rank = physical_index(l, l->part->buffer[w->out], t->rank, logical, at);
    low_store(l, b, tree_buffer_of(l, w->out), at, rank, value);
}

/* ---- reductions -------------------------------------------------------------------------------------------- */

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

static uint32_t
list_axes(AxisSet set, uint32_t *axis)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < NEST_MAX_AXES; k++)
        if (set >> k & 1)
            axis[n++] = k;
    return n;
}

/* The reduction axis to run over lanes: every read below has stride 0 or 1 along it, one has 1, and
 * none is guarded by it. -1 if there is none. */
static int
reduction_lane_axis(Low *l, const Scalar *r, AxisSet axes)
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
    (void)r;
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
    uint32_t axis[NEST_MAX_AXES], n = list_axes(r->u.reduce.axes, axis);
    Combiner k = r->u.reduce.combiner;

    if (k == COMB_ARGMAX || k == COMB_ARGMIN) {
        uint32_t lanes = l->lanes;
        assert(lanes == 1);
        reduce_arg(l, b, r, axis, n);
        l->lanes = lanes;
    } else {
        bool sums = k == COMB_SUM || k == COMB_PROD || k == COMB_MAX || k == COMB_MIN;
        int lane = l->vector_reduce && l->lanes == 1 && sums ? reduction_lane_axis(l, r, r->u.reduce.axes) : -1;
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
