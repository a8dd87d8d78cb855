/* step_online: a maximum, the values computed with it, and their sums share one loop over blocks.
 *
 *     b: t max= x         b: u += exp(x - t)
 *     b: { t max= x;  h = exp(t before - t);  u = u*h;  u += exp(x - t) }
 *
 * The sums need not wait until the maximum is known: f(x, m') = f(x, m) * exp(m - m'), so earlier
 * sums are scaled when the maximum grows, and no intermediate tensor has to be complete. Exact for
 * any m; the maximum keeps exp from overflowing. If only -inf was seen, m is the lowest number
 * instead: it gives 0 where -inf would give a NaN. A program that tests whether m is -inf, to give
 * 0 then, finds that it is not.
 *
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al.,
 * FlashAttention, 2022.
 */
#include "schedule/point.h"

#include <math.h>
#include <string.h>

/* ---- f(x, m') = f(x, m) * exp(m - m') -------------------------------------------------------- */

static bool
is_read_of(const Points *p, uint32_t part, const Scalar *s, uint32_t buffer)
{
    const Part *k = &p->k->part[part];
    return s->op == S_LOAD && s->u.load.slot < k->nest->nin &&
           k->buffer[s->u.load.slot] == buffer && !s->u.load.outside;
}

static bool
is_zero(const Scalar *s)
{
    return s->op == S_CONST && s->u.bits == 0;
}

/* Is s a product of one factor that `is`, and others that do not depend on the buffer? */
static bool
is_scaled(const Points *p, uint32_t part, const Scalar *s, uint32_t buffer,
          bool (*is)(const Points *p, uint32_t part, const Scalar *s, uint32_t buffer))
{
    for (;;) {
        if (is(p, part, s, buffer))
            return true;
        uint32_t with = NEST_MAX_AXES, n = 0;
        for (uint32_t i = 0; i < s->narg; i++)
            if (value_reads(p, part, s->arg[i], buffer))
                with = i, n++;
        bool select = s->op == S_SELECT && n == 1 && with > 0 && is_zero(s->arg[3 - with]);
        if (n != 1 || !(s->op == S_MUL || (s->op == S_DIV && with == 0) || select))
            return false;
        s = s->arg[with];
    }
}

static bool
is_minus_infinity(const Scalar *s)
{
    double v;

    memcpy(&v, &s->u.bits, sizeof v);
    return s->op == S_CONST && dtype_is_float(s->dtype) && isinf(v) && v < 0;
}

/* The maximum in an exponential: exp(x - m), or exp(x - (m == -inf ? 0 : m)). */
static const Scalar *
maximum_of(const Scalar *exp)
{
    const Scalar *m = exp->arg[0]->arg[1];
    bool asks = m->op == S_SELECT && m->arg[0]->op == S_EQ && m->arg[0]->arg[0] == m->arg[2] &&
                is_minus_infinity(m->arg[0]->arg[1]);

    return asks ? m->arg[2] : m;
}

static bool
is_exponential(const Points *p, uint32_t part, const Scalar *s, uint32_t buffer)
{
    return s->op == S_EXP && s->arg[0]->op == S_SUB && is_read_of(p, part, maximum_of(s), buffer) &&
           !value_reads(p, part, s->arg[0]->arg[0], buffer);
}

/* The exponential in what is_scaled by it. */
static const Scalar *
exponential(const Points *p, uint32_t part, const Scalar *s, uint32_t buffer)
{
    while (!is_exponential(p, part, s, buffer))
        for (uint32_t i = 0; i < s->narg; i++)
            if (value_reads(p, part, s->arg[i], buffer)) {
                s = s->arg[i];
                break;
            }
    return s;
}

/* ---- who takes part -------------------------------------------------------------------------- */

static uint32_t
local_of(const Points *p, uint32_t part)
{
    const Part *k = &p->k->part[part];
    return k->nest->nout == 1 && p->k->buffer.at[k->buffer[k->nest->nin]].space == SPACE_LOCAL
               ? k->buffer[k->nest->nin]
               : NO_SLOT;
}

/* The only part that reads a local; NO_SLOT, refused. */
static uint32_t
only_reader(Points *p, uint32_t local)
{
    uint32_t found = NO_SLOT;

    for (uint32_t i = 0; i < p->k->npart; i++) {
        const Nest *n = p->k->part[i].nest;
        bool any = false;
        for (uint32_t w = 0; w < n->nwrite; w++)
            any = any || value_reads(p, i, n->write[w].value, local);
        if (any && found != NO_SLOT)
            return points_refuse(p, "%s is read by %s and by %s", p->k->buffer.at[local].name,
                                 part_name(p, found), part_name(p, i)),
                   NO_SLOT;
        found = any ? i : found;
    }
    return found;
}

/* The hold that begins at the loop; 0, refused. */
static uint32_t
hold_around(Points *p, uint32_t part, const LoopNode *loop)
{
    for (uint32_t i = 1; i < p->hold.n; i++)
        if (p->hold.at[i].part == part && p->hold.at[i].at == loop->up && !p->hold.at[i].outer &&
            p->hold.at[i].space == WORD_scratch && !p->hold.at[i].nover)
            return i;
    return points_refuse(p, "%s is not held in scratch around %s", part_name(p, part),
                         p->iter.at[loop->iter].name),
           0;
}

/* Does a sum begin inside the loop once for each of its elements, from an enclosing hold? */
static bool
begins_inside(Points *p, uint32_t part, uint32_t outer, const LoopNode *loop)
{
    const LoopNode *leaf = part_leaf(p, part);
    const Hold *in = &p->hold.at[leaf->hold];

    if (leaf->hold == outer || in->outer != outer || in->fresh || in->at == loop->up)
        return points_refuse(p, "%s is not held inside %s as well, where it could be scaled",
                             part_name(p, part), p->iter.at[loop->iter].name);
    for (const LoopNode *n = in->at; n != loop; n = n->up)
        if (p->iter.at[n->iter].kind != AXIS_PARALLEL && p->iter.at[n->iter].part == part)
            return points_refuse(p, "%s begins in each trip of %s", p->hold.at[leaf->hold].name,
                                 p->iter.at[n->iter].name);
    return true;
}

static bool
is_block(Points *p, const Step *s, uint32_t i, LoopNode *first, LoopNode **loop)
{
    LoopNode *n = *loop = points_loop(p, s->loop[i]);

    if (!n)
        return false;
    const Iter *it = &p->iter.at[n->iter], *like = &p->iter.at[first ? first->iter : n->iter];
    if (n->kind != NODE_LOOP || n->run != WORD_serial || n->phase != PHASE_UPDATE || n->copies.n ||
        n->puts.n)
        return points_refuse(p, "%s is no plain serial loop of a sum that is held outside of it",
                             s->loop[i]);
    if (!it->parent || it->inner || (it->tail != WORD_guard && it->tail != WORD_exact) ||
        p->iter.at[it->parent].axis == NEST_MAX_AXES || p->iter.at[it->parent].kind != AXIS_REDUCE)
        return points_refuse(
            p, "%s is not the outer loop of a summed axis that was split with guard", s->loop[i]);
    const Expr *mine = p->k->part[it->part].nest->axis[p->iter.at[it->parent].axis].extent;
    const Expr *other = p->k->part[like->part].nest->axis[p->iter.at[like->parent].axis].extent;
    if (first &&
        (n->up != first->up || it->factor != like->factor || it->tail != like->tail ||
         !points_same_skip(p, it->parent, like->parent) || expr_eq(p->c, NULL, mine, other) != YES))
        return points_refuse(p, "%s and %s are not the same blocks at one place", s->loop[i],
                             s->loop[0]);
    return true;
}

/* The index at which the sum's part reads the values computed with the maximum: the dimensions it
 * sums over, and the read. */
static const Scalar *
summed_read(Points *p, uint32_t part, uint32_t local, uint32_t axis, uint32_t *dim)
{
    Accesses all = nest_accesses(p->c, p->a, p->k->part[part].nest);
    const Scalar *found = NULL;
    Var v;

    for (uint32_t i = 0; i < all.n; i++)
        if (is_read_of(p, part, all.at[i].load, local)) {
            if (found && found != all.at[i].load)
                return NULL;
            found = all.at[i].load;
        }
    for (uint32_t d = 0, n = 0; found && d < found->u.load.rank; d++) {
        if (!(expr_axes(found->u.load.at[d]) >> axis & 1))
            continue;
        if (n++ || !expr_is_var(found->u.load.at[d], &v) || v.id != axis)
            return NULL;
        *dim = d;
    }
    return found;
}

/* Is the maximum over the same values that it is subtracted from: x[j], with e = exp(x[l] - m),
 * where the sums run over l? */
static bool
is_maximum_of(Points *p, uint32_t max, uint32_t weight, const Scalar *exp, uint32_t along)
{
    const Part *from = &p->k->part[max], *to = &p->k->part[weight];
    const Scalar *reduce = part_reduction(p, max), *read = maximum_of(exp);
    ScalarMap m = { .ctx = p->c, .done = { .arena = p->a } };
    Accesses all = nest_accesses(p->c, p->a, from->nest);
    Binding bind[NEST_MAX_AXES];
    uint32_t n = 0;
    Var v;

    for (uint32_t d = 0; d < read->u.load.rank; d++) {
        if (!expr_is_var(from->nest->write[0].at[d], &v) || v.kind != VAR_AXIS)
            continue;
        bind[n++] = (Binding){ v, read->u.load.at[d] };
    }
    FOR_EACH_AXIS (x, reduce->u.reduce.axes)
        bind[n++] = (Binding){ { VAR_AXIS, x }, expr_axis(p->c, along) };
    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load;
        const Expr *at[TN_MAX_RANK];
        uint32_t slot = 0;
        while (slot < to->nest->nin && to->buffer[slot] != from->buffer[load->u.load.slot])
            slot++;
        if (slot == to->nest->nin || load->u.load.outside)
            return false;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            at[d] = expr_subst(p->c, load->u.load.at[d], bind, n);
        map_put(&m.done, MAP_PTR(load),
                MAP_PTR(scalar_load(p->c, load->dtype, slot, load->u.load.rank, at, NULL)));
    }
    return scalar_map(&m, reduce->arg[0]) == exp->arg[0]->arg[0];
}

/* The index of a sum element's maximum, by the sum's axes. */
static bool
place_of_maximum(Points *p, Online *o, uint32_t i, const Scalar *sum_read, const Scalar *max_read)
{
    const Nest *weight = p->k->part[o->weight].nest;
    AxisSet summed = part_reduction(p, o->sum[i])->u.reduce.axes;
    Binding bind[NEST_MAX_AXES];
    uint32_t n = 0;
    Var v;

    for (uint32_t d = 0; d < sum_read->u.load.rank; d++)
        if (expr_is_var(weight->write[0].at[d], &v) && v.kind == VAR_AXIS)
            bind[n++] = (Binding){ v, sum_read->u.load.at[d] };
    o->at[i] = (const Expr **)NEW_ARRAY(p->a, const Expr *, TN_MAX_RANK);
    for (uint32_t d = 0; d < max_read->u.load.rank; d++) {
        o->at[i][d] = expr_subst(p->c, max_read->u.load.at[d], bind, n);
        if (expr_axes(o->at[i][d]) & summed)
            return points_refuse(p, "%s has not one maximum for all that it sums",
                                 part_name(p, o->sum[i]));
    }
    return true;
}

/* ---- the loops ------------------------------------------------------------------------------- */

/* Where the hold ends, in a body. */
static LoopNode *
fin_of(LoopNode *at, uint32_t hold)
{
    for (uint32_t i = 0; i < at->body.n; i++) {
        const LoopNode *leaf = node_only_leaf(at->body.at[i]);
        if (leaf && leaf->phase == PHASE_FINISH && leaf->hold == hold)
            return at->body.at[i];
    }
    return NULL;
}

static void
give_child(Points *p, LoopNode *up, LoopNode *child)
{
    VEC_PUSH(p->a, &up->body, child);
    child->up = up;
}

/* Moves the bodies of all into the first loop, and the ends of the sums after it. The end of the
 * maximum becomes its store, block by block. */
static void
join_loops(Points *p, LoopNode *const *loop, uint32_t n, const uint32_t *hold)
{
    LoopNode *all = loop[0], *at = all->up, *fin[STEP_MAX_LOOPS];

    for (uint32_t i = 0; i < n; i++) {
        fin[i] = fin_of(at, hold[i]);
        node_detach(at, loop[i]);
        node_detach(at, fin[i]);
    }
    give_child(p, at, all);
    give_child(p, all, fin[0]);
    node_only_leaf(fin[0])->phase = PHASE_RESCALE;
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t k = 0; k < loop[i]->body.n; k++)
            give_child(p, all, loop[i]->body.at[k]);
        for (uint32_t k = 0; k < loop[i]->holds.n; k++) {
            VEC_PUSH(p->a, &all->holds, loop[i]->holds.at[k]);
            p->hold.at[loop[i]->holds.at[k]].at = all;
        }
        p->iter.at[loop[i]->iter].with = all->iter;
        give_child(p, at, fin[i]);
    }
}

bool
step_online(Points *p, const Step *s)
{
    Online o = { .nsum = s->nloop - 1 };
    LoopNode *loop[STEP_MAX_LOOPS];
    uint32_t hold[STEP_MAX_LOOPS], along = NEST_MAX_AXES;

    if (s->nloop < 2)
        return points_refuse(p, "a maximum and at least one sum are named");
    for (uint32_t i = 0; i < s->nloop; i++) {
        if (!is_block(p, s, i, i ? loop[0] : NULL, &loop[i]))
            return false;
        uint32_t part = p->iter.at[loop[i]->iter].part;
        if (!(hold[i] = hold_around(p, part, loop[i])) ||
            (i && !begins_inside(p, part, hold[i], loop[i])))
            return false;
        *(i ? &o.sum[i - 1] : &o.max) = part;
    }
    const Nest *max = p->k->part[o.max].nest;
    const Scalar *reduce = part_reduction(p, o.max);
    uint32_t local = local_of(p, o.max);
    if (reduce->u.reduce.combiner != COMB_MAX || !dtype_is_float(reduce->dtype) ||
        local == NO_SLOT || max->write[0].value != reduce ||
        __builtin_popcountll(reduce->u.reduce.axes) != 1)
        return points_refuse(p, "%s is no maximum along one axis, of floats, kept between parts",
                             part_name(p, o.max));
    if ((o.weight = only_reader(p, local)) == NO_SLOT)
        return false;
    const Nest *weight = p->k->part[o.weight].nest;
    uint32_t made = local_of(p, o.weight);
    if (made == NO_SLOT || weight->nwrite != 1 || nest_axes_of_kind(weight, AXIS_REDUCE) ||
        !is_scaled(p, o.weight, weight->write[0].value, local, is_exponential))
        return points_refuse(p, "%s is not exp(x - %s) times what is free of it",
                             part_name(p, o.weight), part_name(p, o.max));
    const Scalar *exp = exponential(p, o.weight, weight->write[0].value, local);
    for (uint32_t i = 0; i < p->k->npart; i++) {
        bool named = false, reader = false;
        for (uint32_t k = 0; k < o.nsum; k++)
            named |= o.sum[k] == i;
        for (uint32_t slot = 0; slot < p->k->part[i].nest->nin; slot++)
            reader |= p->k->part[i].buffer[slot] == made;
        if (reader && !named)
            return points_refuse(p, "%s reads %s as well", part_name(p, i), part_name(p, o.weight));
    }
    for (uint32_t i = 0; i < o.nsum; i++) {
        const Scalar *sum = part_reduction(p, o.sum[i]);
        uint32_t dim = 0;
        const Scalar *read = summed_read(
            p, o.sum[i], made, p->iter.at[p->iter.at[loop[i + 1]->iter].parent].axis, &dim);
        if (!read || sum->u.reduce.combiner != COMB_SUM ||
            !is_scaled(p, o.sum[i], sum->arg[0], made, is_read_of) ||
            value_reads(p, o.sum[i], p->k->part[o.sum[i]].nest->write[0].value, local))
            return points_refuse(p, "%s is no sum of %s times what is free of it",
                                 part_name(p, o.sum[i]), part_name(p, o.weight));
        for (uint32_t k = 0; k < o.nsum; k++)
            if (local_of(p, o.sum[k]) != NO_SLOT &&
                value_reads(p, o.sum[i], sum->arg[0], local_of(p, o.sum[k])))
                return points_refuse(p, "%s sums what is made with %s, which still grows there",
                                     part_name(p, o.sum[i]), part_name(p, o.sum[k]));
        uint32_t axis = axis_of(weight->write[0].at[dim]);
        if (axis == NO_SLOT || (along != NEST_MAX_AXES && axis != along))
            return points_refuse(p, "%s does not go along %s as the others do",
                                 part_name(p, o.sum[i]), part_name(p, o.weight));
        along = axis;
        if (!place_of_maximum(p, &o, i, read, maximum_of(exp)))
            return false;
    }
    if (!is_maximum_of(p, o.max, o.weight, exp, along))
        return points_refuse(p, "%s is not the maximum of what %s takes it from, along the sums",
                             part_name(p, o.max), part_name(p, o.weight));
    o.local = local;
    o.at_loop = loop[0];
    join_loops(p, loop, s->nloop, hold);
    p->iter.at[loop[0]->iter].name = s->made[0];
    VEC_PUSH(p->a, &p->online, o);
    for (uint32_t i = 0; i < s->nloop; i++)
        p->hold.at[hold[i]].online = p->online.n - 1;
    return true;
}
