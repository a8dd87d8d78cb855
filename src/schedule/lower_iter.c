/* lower_iter: the values of iterators as loops are entered, and their numbers of iterations. */
#include "schedule/lower.h"

/* ---- scopes ---------------------------------------------------------------------------------- */

EnvScope
env_enter(const Env *e)
{
    return (EnvScope){ e->undo.n, e->range.n };
}

void
env_leave(Env *e, EnvScope s)
{
    while (e->undo.n > s.undo) {
        Undo u = e->undo.at[--e->undo.n];
        e->at[u.x] = u.was;
    }
    e->range.n = s.range;
}

IterState *
env_change(Env *e, IterId x)
{
    VEC_PUSH(e->a, &e->undo, ((Undo){ x, e->at[x] }));
    return &e->at[x];
}

const Expr *
env_simplify(const Env *e, const Expr *x)
{
    Ranges r = { e->range.at, e->range.n };
    return expr_simplify(e->c, &r, x);
}

const Expr *
env_let(Env *e, Block *b, const char *name, const Expr *value, const Expr *extent)
{
    const Expr *v = tree_let(e->c, e->k, b, name, value);
    Var var;

    if (v != value && expr_is_var(v, &var) && extent)
        VEC_PUSH(e->a, &e->range, ((Range){ var, expr_int(e->c, 0), extent }));
    return v;
}

const Expr *
env_loop(Env *e, Block **b, LoopKind kind, Sym name, const Expr *begin, const Expr *end,
         int64_t step)
{
    uint32_t var;

    *b = tree_loop(e->k, *b, kind, name, begin, end, step, &var);
    VEC_PUSH(e->a, &e->range, ((Range){ { VAR_LOOP, var }, begin, expr_sub(e->c, end, begin) }));
    return expr_loop(e->c, var);
}

const Iter *
env_iter(const Env *e, IterId x)
{
    return &e->p->iter.at[x];
}

/* Are sums being made, so that padded loops run over their padding? */
static bool
env_sums(const Env *e)
{
    return e->phase == PHASE_INIT || e->phase == PHASE_UPDATE || e->phase == PHASE_FLUSH;
}

/* ---- extents --------------------------------------------------------------------------------- */

static const InputTile *
image_along(const Env *e, IterId x)
{
    for (uint32_t i = 1; i < e->p->copy.n; i++)
        if (e->p->copy.at[i].image && e->p->copy.at[i].ndim && e->p->copy.at[i].dim[0] == x)
            return e->p->copy.at[i].image;
    points_refuse(e->p, "%s runs along an image that is not made", env_iter(e, x)->name);
    return NULL;
}

const Expr *
env_digit_step(Env *e, IterId x, uint32_t i)
{
    const Iter *it = env_iter(e, x);
    const Expr *step = expr_int(e->c, 1);

    if (it->pitched) {
        const InputTile *s = image_along(e, x);
        return s && i < s->nslide ? s->slide[i].pitch : step;
    }
    while (++i < it->nfrom)
        step = expr_mul(e->c, step, env_extent(e, it->from[i]));
    return step;
}

static const Expr *
fused_extent(Env *e, IterId x)
{
    const Iter *it = env_iter(e, x);
    const Expr *all = expr_int(e->c, 1);

    for (uint32_t i = 0; i < it->nfrom; i++) {
        const Expr *extent = env_extent(e, it->from[i]);
        all = it->pitched
                  ? expr_add(e->c, all,
                             expr_mul(e->c, expr_offset(e->c, extent, -1), env_digit_step(e, x, i)))
                  : expr_mul(e->c, all, extent);
    }
    return all;
}

const Expr *
env_start(Env *e, IterId outer)
{
    const IterState *s = &e->at[outer];

    return s->start   ? s->start
           : s->value ? expr_scale(e->c, s->value, env_iter(e, outer)->factor)
                      : NULL;
}

/* Sums of a partial iteration run over its full length and repeat the last point; copies that they
 * read are clamped in the same way. */
static bool
is_clamped(const Env *e, Trip trip)
{
    return trip == TRIP_TILES && (env_sums(e) || e->phase == PHASE_COPY);
}

static const Expr *
inner_extent(Env *e, IterId x)
{
    const Iter *it = env_iter(e, x);
    Ctx *c = e->c;
    Trip trip = e->at[it->sibling].trip;
    int64_t most = trip == TRIP_TILES ? it->rest : it->factor;
    const Expr *full = expr_int(c, most), *start = env_start(e, it->sibling);

    if (trip == TRIP_COMPLETE || it->tail == WORD_exact || !start || most == 1)
        return full;
    if ((it->tail == WORD_pad && env_sums(e)) || is_clamped(e, trip))
        return full;
    return env_simplify(e, expr_min(c, full, expr_sub(c, env_extent(e, it->parent), start)));
}

/* An extent may depend on outer axes: their current values are substituted. */
static const Expr *
axis_extent(Env *e, const Iter *it)
{
    const Axis *axis = &e->low[it->part].n->axis[it->axis];

    if (!axis_varies(axis))
        return axis->extent;
    return low_extent(env_axes(e, it->part), it->axis);
}

const Expr *
env_extent(Env *e, IterId x)
{
    const Iter *it = env_iter(e, x);

    if (e->at[x].extent)
        return e->at[x].extent;
    if (it->put && e->phase == PHASE_COPY && !e->at[x].lo) {
        const Expr *lo, *width;
        box_range(e, x, &lo, &width);
        return width;
    }
    if (it->put || it->size || it->skip)
        return env_most(e, x);
    if (it->axis < NEST_MAX_AXES) /* a variant's guard may bound it */
        return e->k->guard.n ? env_simplify(e, axis_extent(e, it)) : axis_extent(e, it);
    if (it->nfrom)
        return fused_extent(e, x);
    return it->inner ? inner_extent(e, x)
                     : env_simplify(e, expr_ceil_div(e->c, env_extent(e, it->parent),
                                                     expr_int(e->c, it->factor)));
}

/* Sums over padding need memory for it. */
static const Expr *
with_padding(const Env *e, IterId x, const Expr *most)
{
    const Expr *all = most;

    for (IterId y = 1; y < e->p->iter.n; y++) {
        const Iter *it = env_iter(e, y);
        if (it->parent == x && !it->inner && it->tail == WORD_pad)
            all = expr_max(e->c, all,
                           expr_scale(e->c, expr_ceil_div(e->c, most, expr_int(e->c, it->factor)),
                                      it->factor));
    }
    return all;
}

const Expr *
env_most(Env *e, IterId x)
{
    const Iter *it = env_iter(e, x);
    int64_t all;

    if (it->put)
        return with_padding(e, x, e->p->put.at[it->put].most[it->dim]);
    if (it->size)
        return it->size;
    if (it->axis < NEST_MAX_AXES)
        return e->low[it->part].n->axis[it->axis].extent;
    if (it->nfrom)
        return fused_extent(e, x);
    const Expr *parent = env_most(e, it->parent);
    if (!it->inner)
        return expr_ceil_div(e->c, parent, expr_int(e->c, it->factor));
    return with_padding(e, x,
                        expr_const(parent, &all) && all < it->factor && it->tail != WORD_pad
                            ? parent
                            : expr_int(e->c, it->factor));
}

/* ---- values ---------------------------------------------------------------------------------- */

/* x from its pieces, one of which may be a digit of a fused loop; NULL: unknown. */
static const Expr *
value_of_pieces(Env *e, IterId x)
{
    for (IterId y = 1; y < e->p->iter.n; y++) {
        const Iter *it = env_iter(e, y);
        if (it->parent != x || it->inner)
            continue;
        const Expr *start = env_start(e, y), *trip = start ? NULL : env_value(e, y),
                   *rest = env_value(e, it->sibling);
        start = trip ? expr_scale(e->c, trip, it->factor) : start;
        return start && rest ? expr_add(e->c, start, rest) : NULL;
    }
    return NULL;
}

const Expr *
env_value(Env *e, IterId x)
{
    const Iter *it = env_iter(e, x);

    if (!e->at[x].value && it->box) {
        const Expr *in_box = env_value(e, it->box), *lo = e->at[it->box].lo, *width;
        if (in_box && !lo) /* a copy made outside of the boxes */
            box_range(e, it->box, &lo, &width);
        return in_box ? expr_add(e->c, lo, in_box) : NULL;
    }
    if (e->at[x].value)
        return e->at[x].value;
    if (!it->whole)
        return value_of_pieces(e, x);
    const Expr *whole = env_value(e, it->whole);
    const Iter *w = env_iter(e, it->whole);
    for (uint32_t i = 0; whole && i < w->nfrom; i++)
        if (w->from[i] == x) {
            const Expr *high = expr_div(e->c, whole, env_digit_step(e, it->whole, i));
            return env_simplify(
                e, i == 0 ? high
                          : expr_mod(e->c, high,
                                     expr_div(e->c, env_digit_step(e, it->whole, i - 1),
                                              env_digit_step(e, it->whole, i))));
        }
    return NULL;
}

/* Is x the points of a padded iteration, or a piece of them? */
static bool
is_padded(const Env *e, IterId x)
{
    while (x && !(env_iter(e, x)->inner && env_iter(e, x)->tail == WORD_pad))
        x = env_iter(e, x)->parent;
    return x != 0;
}

void
env_bind(Env *e, IterId x, const Expr *value)
{
    const Iter *it = env_iter(e, x);

    env_change(e, x)->value = value;
    if (env_sums(e) && is_padded(e, x))
        FOR_EACH_VARIABLE (v, value)
            VEC_PUSH(e->a, &e->padding, v);
    if (!it->parent)
        return;
    IterId outer = it->inner ? it->sibling : x, inner = it->inner ? x : it->sibling;
    const Expr *start = env_start(e, outer), *rest = e->at[inner].value;
    if (!start || !rest)
        return;
    const Expr *whole = expr_add(e->c, start, rest);
    if (is_clamped(e, e->at[outer].trip))
        whole = env_simplify(
            e, expr_min(e->c, whole, expr_offset(e->c, env_extent(e, it->parent), -1)));
    env_bind(e, it->parent, whole);
}

IterId
env_next_with(const Env *e, IterId x, IterId y)
{
    for (y = y == x ? 1 : y + 1; y < e->p->iter.n; y++)
        if (env_iter(e, y)->with == x)
            return y;
    return 0;
}

void
env_bind_trip(Env *e, IterId x, const Expr *trip)
{
    for (IterId y = x; y; y = env_next_with(e, x, y))
        env_bind(e, y, trip);
}

bool
env_box(Env *e, IterId x, const Expr **lo, const Expr **width)
{
    *lo = env_value(e, x);
    *width = expr_int(e->c, 1);
    if (*lo)
        return true;
    for (IterId y = 1; y < e->p->iter.n; y++) {
        const Iter *it = env_iter(e, y);
        const Expr *inner, *trips = expr_int(e->c, 1);
        if (it->parent != x || it->inner)
            continue;
        const Expr *start = env_start(e, y);
        if (!start && !env_box(e, y, &start, &trips))
            continue;
        if (!env_start(e, y))
            start = expr_scale(e->c, start, it->factor);
        env_box(e, it->sibling, &inner, width);
        *lo = expr_add(e->c, start, inner);
        *width = expr_add(e->c, expr_scale(e->c, expr_offset(e->c, trips, -1), it->factor), *width);
        return true;
    }
    *lo = expr_int(e->c, 0);
    *width = env_most(e, x);
    return false;
}
