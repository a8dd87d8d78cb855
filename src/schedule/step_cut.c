/* step_cut: iterations near the borders of an iterator become separate loops.
 *
 * The same values are computed in the same order, but between the borders a read under a window is
 * known to be inside of its tensor and needs no guard (lower.c).
 */
#include "schedule/point.h"

bool
step_cut(Points *p, const Step *s)
{
    LoopNode *n = points_loop(p, s->subject);

    if (!n)
        return false;
    if (n->kind != NODE_LOOP || !n->iter || n->run != WORD_serial)
        return points_refuse(p, "%s is not a serial loop any more", s->subject);
    n->first = s->number;
    n->last = s->rest;
    return true;
}

bool
step_case(Points *p, const Step *s)
{
    LoopNode *at = points_loop(p, s->at);
    IterId x = at ? points_iter(p, s->subject) : 0;

    if (!x)
        return false;
    if (at->kind != NODE_LOOP || (at->run != WORD_serial && at->run != WORD_parallel))
        return points_refuse(p, "%s is neither a serial loop nor the parallel one", s->at);
    if (!iter_is_known(p, at, x, NULL, 0))
        return points_refuse(p, "%s does not fix where %s is", s->at, s->subject);
    VEC_PUSH(p->a, &at->border, ((Border){ x, s->number, s->rest }));
    return true;
}
