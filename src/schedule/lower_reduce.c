/* lower_reduce: reductions that no step holds, computed where they are read: loops around
 * registers. So are several of one part, those of a scan, and nested ones. If a reduction varies
 * from lane to lane, each lane has its own. */
#include "schedule/internal.h"

const Scalar *
low_combine(Ctx *c, Combiner k, const Scalar *acc, const Scalar *v)
{
    return combiner_op[k] ? scalar_2(c, combiner_op[k], acc, v) : v;
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
        out->at[out->n++] = (Access){ .load = s };
        return;
    }
    for (uint32_t i = 0; i < s->narg; i++)
        outermost_reductions(l, s->arg[i], seen, out, cap);
}

static Map
known_now(const Low *l)
{
    Map copy = { .arena = l->a };
    for (uint32_t i = 0; i < l->value.cap; i++)
        if (l->value.at[i].used)
            map_put(&copy, l->value.at[i].key, l->value.at[i].value);
    return copy;
}

static bool
varies(const Low *l, const Scalar *r)
{
    AxisSet axes = l->lanes > 1 ? r->axes : 0;
    bool any = false;

    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        any |= axes >> x & 1 && l->bind[x] && low_uses_lane(l->bind[x]);
    return any;
}

static uint32_t
new_register(Low *l, Block *b, DType t, const Scalar *begin)
{
    uint32_t r = kernel_buffer(l->c, l->a, l->k, "acc", type_new(l->c, t, 0, NULL), SPACE_REGISTER,
                               l->lanes);

    tree_buffer(b, r);
    if (l->lanes > 1)
        tree_store_lanes(b, r, 0, NULL, begin, expr_int(l->c, 1), NULL);
    else
        tree_store(b, r, 0, NULL, begin);
    return r;
}

static const Scalar *
in_lanes(Low *l, const Scalar *s)
{
    return s->lanes == 1 ? scalar_splat(l->c, s, l->lanes) : s;
}

static const Scalar *
register_value(Low *l, uint32_t r)
{
    DType t = l->k->buffer.at[r].type->dtype;

    return l->lanes == 1
               ? scalar_load(l->c, t, r, 0, NULL, NULL)
               : scalar_load_lanes(l->c, t, r, 0, NULL, l->lanes, expr_int(l->c, 1), NULL);
}

static void
set_register(Low *l, Block *b, uint32_t r, const Scalar *value)
{
    if (l->lanes == 1)
        tree_store(b, r, 0, NULL, value);
    else
        tree_store_lanes(b, r, 0, NULL, value, expr_int(l->c, 1), NULL);
}

/* Maps a value of the nest to a register: vectors broadcast it where needed. */
static void
stands_for(Low *l, const Scalar *s, uint32_t r)
{
    map_put(&l->value, MAP_PTR(s),
            MAP_PTR(scalar_load(l->c, l->k->buffer.at[r].type->dtype, r, 0, NULL, NULL)));
}

/* A loop over an axis of the reduction: binds it. */
static void
axis_loop(Low *l, Block **b, uint32_t x)
{
    const Expr *zero = expr_int(l->c, 0), *extent = low_extent(l, x);
    uint32_t var;

    *b = tree_loop(l->k, *b, LOOP_SERIAL, l->n->axis[x].name, zero, extent, 1, &var);
    VEC_PUSH(l->a, &l->range, ((Range){ { VAR_LOOP, var }, zero, extent }));
    l->bind[x] = expr_loop(l->c, var);
}

static void
reduce_one(Low *l, Block *b, const Scalar *r)
{
    uint32_t axis[NEST_MAX_AXES], n = axis_list(r->u.reduce.axes, axis), acc[2], lanes = l->lanes,
                                  ranges = l->range.n;
    Combiner k = r->u.reduce.combiner;
    Map outside = known_now(l);
    Block *in = b;

    l->lanes = varies(l, r) ? lanes : 1;
    for (uint32_t i = 0; i < r->narg; i++) {
        const Scalar *begin = nest_reduction_begin(l->c, l->n, r, i);
        low_reductions(l, b, &begin, 1);
        acc[i] = new_register(l, b, r->arg[i]->dtype, in_lanes(l, low_value(l, begin)));
    }
    for (uint32_t i = 0; i < n; i++)
        axis_loop(l, &in, axis[i]);
    low_reductions(l, in, r->arg, r->narg);
    const Scalar *v = in_lanes(l, low_value(l, r->arg[0])), *old = register_value(l, acc[0]);
    if (r->narg == 2) { /* the first of equal elements */
        const Scalar *better = combiner_better(l->c, k, v, old);
        set_register(l, in, acc[1],
                     scalar_select(l->c, better, in_lanes(l, low_value(l, r->arg[1])),
                                   register_value(l, acc[1])));
        set_register(l, in, acc[0], scalar_select(l->c, better, v, old));
    } else {
        set_register(l, in, acc[0], low_combine(l->c, k, old, v));
    }
    l->lanes = lanes;
    l->range.n = ranges;
    l->value = outside;
    for (uint32_t i = 0; i < r->narg; i++)
        stands_for(l, r->narg == 2 ? scalar_item(l->c, r, i) : r, acc[i]);
    for (uint32_t i = 0; i < n; i++)
        l->bind[axis[i]] = NULL;
}

void
low_reductions(Low *l, Block *b, const Scalar *const *s, uint32_t n)
{
    Map seen = { .arena = l->a };
    Accesses list = { 0 };
    uint32_t cap = 0;

    for (uint32_t i = 0; i < n; i++)
        outermost_reductions(l, s[i], &seen, &list, &cap);
    for (uint32_t i = 0; i < list.n; i++)
        reduce_one(l, b, list.at[i].load);
}
