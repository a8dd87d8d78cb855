/* step_omit: omits blocks of keys that no row of a task sees, if only data know which those are.
 *
 *     kb: { t max= s;  u = u*h;  u += exp(s - t) }
 *     kb: if (used[rows of the task, keys of kb]) { … }
 *
 * A table says of each block whether some row sees a key of it (normalise/block_mask.c). Where it
 * is 0 the score is hidden, so a maximum stays, and sums get 0: the maximum is finite, since a row
 * that sees nothing counts as seeing everything. In a loop that `online` made, sums are scaled by 1,
 * and parts computed at the loop, the scores, are omitted too.
 *
 * Whole sums of a row are other loops over the same blocks, each under the same test. A part whose
 * value only they read, the scores or their exp, needs no values in these blocks either:
 *
 *     s.kb: if (used[…]) s = …        max.kb: if (used[…]) t max= s        e.kb, sum.kb: …
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

static bool
no_table(Points *p, uint32_t part)
{
    return points_refuse(p, "no table is known where %s adds nothing%s", part_name(p, part),
                         p->c->exact ? ": with --exact nothing is left out" : "");
}

/* A loop that `online` made: all of its sums have one table. */
static bool
omit_online(Points *p, const Online *online, Omit *o)
{
    o->part = online->max;
    o->rows = o->at_loop;
    for (uint32_t i = 0; i <= online->nsum; i++) {
        uint32_t part = i < online->nsum ? online->sum[i] : online->max;
        const Scalar *table = reduced_axis(p, part, &o->axis)
                                  ? kernel_support_table(p->c, p->a, p->k, part, o->axis)
                                  : NULL;
        if (!table || (o->table && o->table->u.load.slot != table->u.load.slot))
            return no_table(p, part);
        o->table = table;
    }
    return true;
}

/* The axis of `part` whose blocks the loop over x runs over; NO_SLOT: none. */
static uint32_t
axis_of_blocks(const Points *p, uint32_t part, IterId x)
{
    const Iter *it = &p->iter.at[x];

    for (uint32_t k = 0; it->parent && !it->inner && k < p->k->part[part].nest->naxis; k++)
        if (p->axis[part][k] == it->parent || p->iter.at[p->axis[part][k]].box == it->parent)
            return k;
    return NO_SLOT;
}

/* The loop of a part over blocks of an axis, of as many points and with the rows of one iteration
 * of the same loop; NULL: none. */
static const Omit *
omit_along(const Points *p, uint32_t part, uint32_t axis, const Omit *like)
{
    for (uint32_t i = 0; i < p->omit.n; i++) {
        const Omit *o = &p->omit.at[i];
        if (o->part == part && o->axis == axis && o->rows == like->rows &&
            p->iter.at[o->at_loop->iter].factor == p->iter.at[like->at_loop->iter].factor)
            return o;
    }
    return NULL;
}

/* The leaves below n that read a buffer stand inside `around`. */
static bool
reads_inside(const Points *p, const LoopNode *n, uint32_t part, uint32_t buffer,
             const LoopNode *around)
{
    if (n->kind == NODE_LEAF)
        return n->part != part || !leaf_reads(p, n, buffer) || node_inside(n, around);
    for (uint32_t i = 0; i < n->body.n; i++)
        if (!reads_inside(p, n->body.at[i], part, buffer, around))
            return false;
    return true;
}

/* The table of what a reader omits, by the axes of the part that makes the value; NULL, refused:
 * it omits nothing, or other blocks. */
static const Scalar *
table_of_reader(Points *p, const PartRead *read, uint32_t buffer, const Omit *o)
{
    const Write *w = &p->k->part[o->part].nest->write[0];
    const Scalar *load = read->access.load;
    Binding bind[TN_MAX_RANK];
    uint32_t n = 0, dim = NO_SLOT;
    AxisSet bound = 0;

    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        uint32_t axis = axis_of(load->u.load.at[d]);
        dim = axis_of(w->at[d]) == o->axis ? d : dim;
        if (axis != NO_SLOT)
            bind[n++] = (Binding){ { VAR_AXIS, axis }, w->at[d] };
        bound |= axis_bit(load->u.load.at[d]);
    }
    const Omit *mine =
        dim != NO_SLOT ? omit_along(p, read->part, axis_of(load->u.load.at[dim]), o) : NULL;
    if (!mine || mine->table->axes & ~bound ||
        !reads_inside(p, p->root, read->part, buffer, mine->at_loop)) {
        points_refuse(p, "%s reads what %s makes, and omits other blocks of it, or none",
                      part_name(p, read->part), part_name(p, o->part));
        return NULL;
    }
    return scalar_subst(p->c, mine->table, bind, n);
}

/* A part computed at a loop: all that read it omit the same blocks. */
static bool
omit_made(Points *p, Omit *o)
{
    uint32_t buffer = NO_SLOT;

    for (uint32_t i = 1; i < p->put.n; i++)
        if (p->put.at[i].part == o->part)
            buffer = p->put.at[i].local;
    if (buffer == NO_SLOT)
        return points_refuse(p, "%s is neither a sum nor computed at a loop",
                             part_name(p, o->part));
    PartReads reads = points_reads(p, buffer);
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *table = table_of_reader(p, &reads.at[i], buffer, o);
        if (!table)
            return false;
        if (o->table && o->table != table)
            return no_table(p, o->part);
        o->table = table;
    }
    return o->table || no_table(p, o->part);
}

/* The loop that `online` made; NULL: another one made it. */
static const Online *
online_of(const Points *p, const LoopNode *n)
{
    for (uint32_t i = 1; i < p->online.n; i++)
        if (p->online.at[i].at_loop == n)
            return &p->online.at[i];
    return NULL;
}

/* Finds the part, the axis and the table. */
static bool
find_omit(Points *p, Omit *o)
{
    const LoopNode *n = o->at_loop;
    Sym name = n->iter ? p->iter.at[n->iter].name : "all";
    const Online *online = online_of(p, n);

    o->table = NULL;
    if (online)
        return omit_online(p, online, o);
    o->part = p->iter.at[n->iter].part;
    o->axis = n->kind == NODE_LOOP ? axis_of_blocks(p, o->part, n->iter) : NO_SLOT;
    if (o->axis == NO_SLOT || o->rows == n || !node_inside(n, o->rows))
        return points_refuse(p,
                             "%s is no loop over blocks of an axis inside a loop whose rows count: "
                             "split the axis, and say omit %s at L",
                             name, name);
    const Scalar *reduce = part_reduction(p, o->part);
    if (!reduce || !(reduce->u.reduce.axes >> o->axis & 1))
        return omit_made(p, o);
    o->table = kernel_support_table(p->c, p->a, p->k, o->part, o->axis);
    return o->table || no_table(p, o->part);
}

bool
step_omit(Points *p, const Step *s)
{
    LoopNode *n = points_loop(p, s->subject), *rows = n && s->at ? points_loop(p, s->at) : n;
    Omit o = { .at_loop = n, .rows = rows };

    if (!rows || !find_omit(p, &o))
        return false;
    VEC_PUSH(p->a, &p->omit, o);
    return true;
}

bool
omits_hold(Points *p)
{
    for (uint32_t i = 0; i < p->omit.n; i++) {
        Omit now = p->omit.at[i];
        if (!find_omit(p, &now))
            return false;
        if (!node_inside(now.at_loop, p->root) || now.table != p->omit.at[i].table)
            return points_refuse(p, "a later step changed a loop that `omit` names: omit last");
    }
    return true;
}
