/* step_skip: a reduction runs over the points that its rows need, and over no others.
 *
 *     ib: j: s += p[i, j] * v[j]        becomes, by   skip j at ib by 16     ib: { from, points
 *     follow from ib's rows;  j < points: s += … }
 *
 * Which points those are is the support (kernel/support.h): outside of it the summand is the
 * identity, by proof. The hull of what all rows of a trip need is one interval. Parts that are put
 * inside the loop compute what their readers read there, so they are shortened as well.
 */
#include "schedule/point.h"

/* The loop over a whole reduced axis that no step has changed; NULL, refused. */
static LoopNode *
whole_reduction(Points *p, const Step *s)
{
    LoopNode *n = points_loop(p, s->subject);

    if (!n)
        return NULL;
    const Iter *it = &p->iter.at[n->iter];
    if (n->kind != NODE_LOOP || n->run != WORD_serial || n->phase != PHASE_COMPLETE ||
        it->axis == NEST_MAX_AXES || it->kind != AXIS_REDUCE || it->skip || it->nfrom || it->parent)
        return points_refuse(p,
                             "%s is no loop over a whole reduced axis: skip it before it is split",
                             s->subject),
               NULL;
    return n;
}

/* Is it one bound, of parts whose axes are numbered alike? */
static bool
same_bound(const Points *p, const Skip *x, const Skip *y, uint32_t i)
{
    const SupportBound *a = &x->support.bound[i], *b = &y->support.bound[i];
    const Nest *m = p->k->part[x->part].nest, *n = p->k->part[y->part].nest;
    bool same = a->kind == b->kind && a->at == b->at;

    for (uint32_t k = 0; k < m->naxis && same; k++)
        if (expr_axes(a->at) >> k & 1)
            same = k < n->naxis && expr_eq(p->c, NULL, m->axis[k].extent, n->axis[k].extent) == YES;
    return same;
}

bool
points_same_skip(const Points *p, IterId a, IterId b)
{
    uint32_t i = p->iter.at[a].skip, j = p->iter.at[b].skip;
    const Skip *x = &p->skip.at[i], *y = &p->skip.at[j];

    if (!i || !j)
        return i == j;
    bool same = x->at == y->at && x->by == y->by && x->support.n == y->support.n;
    for (uint32_t k = 0; k < x->support.n && same; k++)
        same = same_bound(p, x, y, k);
    return same;
}

bool
step_skip(Points *p, const Step *s)
{
    LoopNode *n = whole_reduction(p, s), *at = n ? points_loop(p, s->at) : NULL;
    Skip k = { .at = at, .by = s->number };

    if (!at)
        return false;
    if (at == n || !node_inside(n, at))
        return points_refuse(p, "%s does not stand inside %s", s->subject, s->at);
    k.part = p->iter.at[n->iter].part;
    k.axis = p->iter.at[n->iter].axis;
    if (!kernel_support(p->c, p->a, p->k, k.part, k.axis, &k.support))
        return points_refuse(
            p, "no comparison of indices is known outside of which %s adds nothing along %s%s",
            part_name(p, k.part), s->subject,
            p->c->exact ? ": with --exact nothing is left out" : "");
    IterId axis = n->iter;
    k.box = iter_new(p, p->iter.at[axis].name, AXIS_REDUCE);
    Iter *box = &p->iter.at[k.box];
    box->part = k.part;
    box->axis = k.axis;
    box->skip = p->skip.n;
    p->iter.at[axis].box = k.box;
    n->iter = k.box;
    VEC_PUSH(p->a, &p->skip, k);
    return true;
}
