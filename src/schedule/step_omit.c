/* step_omit: skips blocks of keys that no row of a task sees, if only data know which those are.
 *
 *     kb: { t max= s;  u = u*h;  u += exp(s - t) }
 *     kb: if (used[rows of the task, keys of kb]) { … }
 *
 * A table says of each block whether some row sees a key of it (normalise/block_mask.c). Where it
 * is 0 the score is hidden, so the maximum stays, and the sums get 0 and are scaled by 1: the
 * maximum of an `online` loop is finite from its beginning on. Parts computed at the loop, the
 * scores, are skipped too.
 */
#include "schedule/point.h"

/* The one axis of a part's reduction; false: there are several. */
static bool
reduced_axis(const Points *p, uint32_t part, uint32_t *axis)
{
    AxisSet axes = part_reduction(p, part)->u.reduce.axes;

    *axis = (uint32_t)__builtin_ctzll(axes);
    return !(axes & (axes - 1));
}

bool
step_omit(Points *p, const Step *s)
{
    LoopNode *n = points_loop(p, s->subject);
    Online *o = NULL;
    uint32_t axis;

    if (!n)
        return false;
    for (uint32_t i = 1; i < p->online.n; i++)
        if (p->online.at[i].at_loop == n)
            o = &p->online.at[i];
    if (!o)
        return points_refuse(p, "%s is no loop that `online` made", s->subject);
    for (uint32_t i = 0; i <= o->nsum; i++) {
        uint32_t part = i < o->nsum ? o->sum[i] : o->max;
        const Scalar *table = reduced_axis(p, part, &axis)
                                  ? kernel_support_table(p->c, p->a, p->k, part, axis)
                                  : NULL;
        if (!table || (o->table && o->table->u.load.slot != table->u.load.slot))
            return points_refuse(p, "no table is known where %s adds nothing%s", part_name(p, part),
                                 p->c->exact ? ": with --exact nothing is left out" : "");
        o->table = table;
    }
    return true;
}
