/* step_together: fuses a loop of a part with one of a part that reads its result; each iteration
 * then writes and reads.
 *
 *     y: x: d is made;  t begins;  y: x: t += d[y, x];  t ends
 *     t begins;  y: { x: d is made;  x: t += d[y, x] };  t ends
 *
 * So the result is read while it is in a near cache: a whole plane need not stay there until it is
 * summed. Legal if an iteration reads only what the same iteration made: both loops run over the
 * same points of axes that index the writes and the reads alike. It is the inverse of `apart`. The
 * fused bodies are adjacent, so loops inside them may be fused next.
 */
#include "schedule/point.h"

/* ---- which axes are where the loops are ------------------------------------------------------ */

/* axes of two parts, in pairs */
typedef struct {
    uint32_t n, from[NEST_MAX_AXES], to[NEST_MAX_AXES];
} AxisPairs;

static uint32_t
axis_of_part(const Points *p, uint32_t part, IterId x)
{
    uint32_t axis = 0;

    while (axis < p->k->part[part].nest->naxis && p->axis[part][axis] != x)
        axis++;
    return axis;
}

/* The first axis that an iterator runs over parts of. */
static IterId
first_axis(const Points *p, IterId x)
{
    while (p->iter.at[x].parent || p->iter.at[x].nfrom)
        x = p->iter.at[x].parent ? p->iter.at[x].parent : p->iter.at[x].from[0];
    return x;
}

/* A loop's iterator in this part: the loop may be a fusion of several already. 0: it runs over
 * nothing of the part. */
static IterId
iter_of_part(const Points *p, uint32_t part, IterId x)
{
    for (IterId y = 1; y < p->iter.n; y++)
        if ((y == x || p->iter.at[y].with == x) &&
            axis_of_part(p, part, first_axis(p, y)) < p->k->part[part].nest->naxis)
            return y;
    return 0;
}

/* Have two iterators the same iterations over the same points? Then their axes, in pairs. */
static bool
same_points(const Points *p, uint32_t from, IterId a, uint32_t to, IterId b, AxisPairs *out)
{
    const Iter *x = &p->iter.at[a], *y = &p->iter.at[b];

    if (x->put || y->put || x->size || y->size || x->skip || y->skip || x->nfrom != y->nfrom ||
        x->pitched || y->pitched)
        return false;
    if (x->parent || y->parent)
        return x->parent && y->parent && x->inner == y->inner && x->factor == y->factor &&
               x->tail == y->tail && x->rest == y->rest &&
               same_points(p, from, x->parent, to, y->parent, out);
    for (uint32_t i = 0; i < x->nfrom; i++)
        if (!same_points(p, from, x->from[i], to, y->from[i], out))
            return false;
    if (x->nfrom)
        return true;
    const Nest *m = p->k->part[from].nest, *n = p->k->part[to].nest;
    uint32_t i = axis_of_part(p, from, a), j = axis_of_part(p, to, b);
    if (i == m->naxis || j == n->naxis || expr_axes(m->axis[i].extent) ||
        expr_eq(p->c, NULL, m->axis[i].extent, n->axis[j].extent) != YES)
        return false;
    out->from[out->n] = i;
    out->to[out->n++] = j;
    return true;
}

/* ---- what passes between them ---------------------------------------------------------------- */

/* Is an element read at the points where it was written, along all these axes? */
static bool
reads_where_written(Ctx *c, const Write *w, const Scalar *load, const AxisPairs *axes)
{
    for (uint32_t i = 0; i < axes->n; i++) {
        bool found = false;
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            found |= w->at[d] == expr_axis(c, axes->from[i]) &&
                     load->u.load.at[d] == expr_axis(c, axes->to[i]);
        if (!found)
            return false;
    }
    return true;
}

/* The tensor between two parts: its name, NULL if there is none; and is all of it read at the
 * points where it was written? */
static Sym
passed_on(const Points *p, uint32_t from, uint32_t to, const AxisPairs *axes, bool *there)
{
    const Part *maker = &p->k->part[from], *reader = &p->k->part[to];
    Accesses all = nest_accesses(p->c, p->a, reader->nest);
    Sym name = NULL;

    *there = true;
    for (uint32_t i = 0; i < all.n; i++)
        for (uint32_t k = 0; k < maker->nest->nwrite; k++) {
            const Scalar *load = all.at[i].load;
            const Write *w = &maker->nest->write[k];
            if (reader->buffer[load->u.load.slot] != maker->buffer[w->out])
                continue;
            name = p->k->buffer.at[maker->buffer[w->out]].name;
            *there &= reads_where_written(p->c, w, load, axes);
        }
    return name;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static bool
has_part(const LoopNode *n, uint32_t part)
{
    bool any = n->kind == NODE_LEAF && n->part == part;

    for (uint32_t i = 0; i < n->body.n; i++)
        any |= has_part(n->body.at[i], part);
    return any;
}

/* Does a part compute anything outside of a loop? Copies of its operands may be made there. */
static bool
computes_outside(const LoopNode *n, uint32_t part, const LoopNode *loop)
{
    bool any = n->kind == NODE_LEAF && n->part == part && n->phase != PHASE_COPY &&
               n->phase != PHASE_TRANSPOSE;

    for (uint32_t i = 0; i < n->body.n; i++)
        any |= n->body.at[i] != loop && computes_outside(n->body.at[i], part, loop);
    return any;
}

/* Does only a sum begin here? Then it may begin earlier. */
static bool
only_begins(const Points *p, const LoopNode *n)
{
    const LoopNode *leaf = node_only_leaf(n);

    return leaf && leaf->phase == PHASE_INIT && part_reduction(p, leaf->part) &&
           !p->hold.at[leaf->hold].outer && !p->hold.at[leaf->hold].online;
}

/* ---- the step -------------------------------------------------------------------------------- */

static LoopNode *
plain_loop(Points *p, Sym name)
{
    LoopNode *n = points_loop(p, name);

    for (uint32_t i = 1; n && i < p->online.n; i++)
        if (p->online.at[i].at_loop == n)
            return points_refuse(p, "%s goes over blocks of a maximum", name), NULL;
    if (n && (n->kind != NODE_LOOP || !n->iter || n->run != WORD_serial || n->first || n->last ||
              n->border.n))
        return points_refuse(p, "%s is no plain serial loop", name), NULL;
    return n;
}

static bool
not_alike(Points *p, const Step *s)
{
    return points_refuse(p,
                         "%s and %s are not proved to go over the same points: axes of one extent, "
                         "or those split alike",
                         s->loop[0], s->loop[1]);
}

/* May part `to` read in `second` what part `from` makes in loop `first`? *alike: the loops are
 * proved to have the same iterations. */
static bool
may_meet(Points *p, const Step *s, const LoopNode *first, uint32_t from, const LoopNode *second,
         uint32_t to, bool *alike)
{
    IterId a = iter_of_part(p, from, first->iter), b = iter_of_part(p, to, second->iter);
    AxisPairs axes = { 0 };
    bool same = a && b && same_points(p, from, a, to, b, &axes), there;
    Sym passed = passed_on(p, from, to, &axes, &there);

    *alike |= same;
    if (from == to)
        return points_refuse(p, "%s is computed in %s and in %s", part_name(p, from), s->loop[0],
                             s->loop[1]);
    if (!passed)
        return true;
    if (!same)
        return not_alike(p, s);
    if (computes_outside(p->root, from, first))
        return points_refuse(p, "%s is computed outside of %s as well", passed, s->loop[0]);
    if (p->iter.at[a].kind != AXIS_PARALLEL)
        return points_refuse(
            p, "%s is not whole after a trip of %s, which is summed over or walked in order",
            passed, s->loop[0]);
    return there || points_refuse(p,
                                  "a trip of %s reads %s where other trips of %s make it; it has "
                                  "to be read at the very points that a trip makes",
                                  s->loop[1], passed, s->loop[0]);
}

static bool
may_join(Points *p, const Step *s, const LoopNode *first, const LoopNode *second)
{
    bool alike = false;

    for (uint32_t from = 0; from < p->k->npart; from++)
        for (uint32_t to = 0; has_part(first, from) && to < p->k->npart; to++)
            if (has_part(second, to) && !may_meet(p, s, first, from, second, to, &alike))
                return false;
    return alike || not_alike(p, s);
}

/* Appends the body of the second loop to the first one's, and its beginning to where that one
 * begins. */
static void
join_bodies(Points *p, LoopNode *first, LoopNode *second)
{
    for (uint32_t i = 0; i < second->body.n; i++) {
        VEC_PUSH(p->a, &first->body, second->body.at[i]);
        second->body.at[i]->up = first;
    }
    for (uint32_t i = 0; i < second->holds.n; i++)
        VEC_PUSH(p->a, &first->holds, second->holds.at[i]);
    for (uint32_t i = 0; i < second->copies.n; i++)
        VEC_PUSH(p->a, &first->copies, second->copies.at[i]);
    for (uint32_t i = 0; i < second->puts.n; i++)
        VEC_PUSH(p->a, &first->puts, second->puts.at[i]);
    points_live_at(p, second, first);
}

/* Are only beginnings of sums between two loops of one body? Then moves the first directly before
 * the second. */
static bool
bring_near(Points *p, const Step *s, LoopNode *first, LoopNode *second)
{
    LoopNode *up = first->up;
    uint32_t i = 0;

    while (up && i < up->body.n && up->body.at[i] != first)
        i++;
    if (!up || second->up != up)
        return points_refuse(p, "%s and %s do not stand beside each other in one loop", s->loop[0],
                             s->loop[1]);
    for (; i + 1 < up->body.n && up->body.at[i + 1] != second; i++) {
        if (!only_begins(p, up->body.at[i + 1]))
            break;
        up->body.at[i] = up->body.at[i + 1];
        up->body.at[i + 1] = first;
    }
    return (i + 1 < up->body.n && up->body.at[i + 1] == second) ||
           points_refuse(
               p, "%s has to stand behind %s, with nothing between them but where sums begin",
               s->loop[1], s->loop[0]);
}

bool
step_together(Points *p, const Step *s)
{
    if (s->nloop != 2)
        return points_refuse(p, "two loops are named: of what is made, and of what reads it");
    LoopNode *first = plain_loop(p, s->loop[0]), *second = first ? plain_loop(p, s->loop[1]) : NULL;
    if (!second || first == second)
        return second && points_refuse(p, "%s is named twice", s->loop[0]);
    if (!may_join(p, s, first, second))
        return false;
    if (s->made[0] != s->loop[0] && s->made[0] != s->loop[1] && !name_is_free(p, s->made[0], NULL))
        return false;
    if (!bring_near(p, s, first, second))
        return false;
    node_detach(first->up, second);
    join_bodies(p, first, second);
    IterId a = first->iter, b = second->iter;
    for (IterId x = 1; x < p->iter.n && a != b; x++) /* summed over if one of them is */
        if (x == a || p->iter.at[x].with == a)
            p->iter.at[x].with = b;
    first->iter = b;
    first->prefix = NULL;
    p->iter.at[b].name = s->made[0];
    return true;
}
