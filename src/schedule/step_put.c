/* step_put: computes a part inside a loop of its readers (Halide's compute_at), outside of the
 * loops that all parts share.
 *
 *     i: { j: e;  k: o }        by   split i by 4 -> ib ir,  put e at ib   becomes
 *     ib: { e.i: e.j: e;  ir: k: o }
 *
 * At the beginning of loop L's body its new loops run over its readers' required region
 * (lower_box.c); overlaps between regions are recomputed. Its value is in memory of the region's
 * size. Its loops are called part.axis.
 */
#include "schedule/point.h"

#include <string.h>

/* ---- who reads it ---------------------------------------------------------------------------- */

const Scalar *
value_reads(const Points *p, uint32_t part, const Scalar *value, uint32_t buffer)
{
    const Part *k = &p->k->part[part];
    const Scalar *found = NULL;

    FOR_EACH_SCALAR (load, scalar_loads(p->c, value))
        if (load->u.load.slot < k->nest->nin && k->buffer[load->u.load.slot] == buffer)
            found = load;
    return found;
}

bool
leaf_reads(const Points *p, const LoopNode *leaf, uint32_t buffer)
{
    const Part *part = &p->k->part[leaf->part];
    const Scalar *reduce = part_reduction(p, leaf->part);
    ScalarMap without = { .ctx = p->c, .done = { .arena = p->a } };

    switch (leaf->phase) {
    case PHASE_INIT:
    case PHASE_FLUSH:
    case PHASE_TRANSPOSE:
    case PHASE_RESCALE: return false;
    case PHASE_FILL:
        return part->nest->write[leaf->write].init != NO_SLOT &&
               part->buffer[part->nest->write[leaf->write].init] == buffer;
    case PHASE_UPDATE: return value_reads(p, leaf->part, reduce->arg[0], buffer);
    case PHASE_COPY: return value_reads(p, leaf->part, p->copy.at[leaf->copy].operand, buffer);
    case PHASE_FINISH: reduction_left_out(p->c, &without.done, reduce); break;
    case PHASE_COMPLETE: break;
    }
    for (uint32_t i = 0; i < part->nest->nwrite; i++)
        if (value_reads(p, leaf->part, scalar_map(&without, part->nest->write[i].value), buffer))
            return true;
    return false;
}

PartReads
points_reads(const Points *p, uint32_t buffer)
{
    PartReads out = { 0 };

    for (uint32_t i = 0; i < p->k->npart; i++) {
        const Part *k = &p->k->part[i];
        Accesses all = nest_accesses(p->c, p->a, k->nest);
        for (uint32_t r = 0; r < all.n; r++)
            if (all.at[r].load->u.load.slot < k->nest->nin &&
                k->buffer[all.at[r].load->u.load.slot] == buffer)
                VEC_PUSH(p->a, &out, ((PartRead){ i, all.at[r] }));
    }
    return out;
}

/* The innermost loop around all leaves below n that read the buffer; NULL: none does. */
static LoopNode *
around_readers(const Points *p, LoopNode *n, uint32_t buffer)
{
    LoopNode *found = NULL;

    if (n->kind == NODE_LEAF)
        return leaf_reads(p, n, buffer) ? n : NULL;
    for (uint32_t i = 0; i < n->body.n; i++) {
        LoopNode *here = around_readers(p, n->body.at[i], buffer);
        if (found && here)
            return n;
        found = here ? here : found;
    }
    return found;
}

/* ---- where its boxes are --------------------------------------------------------------------- */

/* Is x, or a part of it, known where a part is computed, but not yet at `at`? */
static bool
moves_between(const Points *p, IterId x, const LoopNode *put, const LoopNode *at)
{
    if (iter_is_known(p, put, x, NULL, 0))
        return !iter_is_known(p, at, x, NULL, 0);
    for (IterId y = 1; y < p->iter.n; y++)
        if (p->iter.at[y].parent == x && moves_between(p, y, put, at))
            return true;
    return false;
}

bool
box_is_steady(const Points *p, const Put *put, uint32_t dim, const LoopNode *at)
{
    if (node_inside(at, put->at))
        return true;
    PartReads reads = points_reads(p, put->local);
    for (uint32_t i = 0; i < reads.n; i++)
        for (uint32_t x = 0; x < NEST_MAX_AXES; x++) {
            if (!(expr_axes(reads.at[i].access.load->u.load.at[dim]) >> x & 1))
                continue;
            IterId axis = p->axis[reads.at[i].part][x];
            const Iter *box = &p->iter.at[p->iter.at[axis].box];
            if (p->iter.at[axis].box ? !box_is_steady(p, &p->put.at[box->put], box->dim, at)
                                     : moves_between(p, axis, put->at, at))
                return false;
        }
    return true;
}

/* ---- where it may stand ---------------------------------------------------------------------- */

static void
list_around(const Points *p, const LoopNode *n, Text *t)
{
    for (; n; n = n->up)
        if (n->kind == NODE_LOOP && n->run != WORD_vector)
            text_printf(t, "%s%s%s%s", t->n ? ", " : "", n->prefix ? n->prefix : "",
                        n->prefix ? "." : "", n->iter ? p->iter.at[n->iter].name : "all");
}

static bool
may_stand(Points *p, const Step *s, uint32_t local, const LoopNode *at)
{
    Text places = { .arena = p->a };
    LoopNode *readers = around_readers(p, p->root, local);

    if (!readers)
        return points_refuse(p, "nothing reads %s", s->subject);
    list_around(p, readers, &places);
    if (!node_inside(readers, at))
        return points_refuse(p, "%s is read outside %s; it can stand at %s", s->subject, s->at,
                             text_str(&places));
    if (at->kind != NODE_LOOP || at->run == WORD_vector)
        return points_refuse(p, "%s is no loop that has room for others; it can stand at %s", s->at,
                             text_str(&places));
    if (at == p->root && p->root->body.at[0]->run == WORD_parallel)
        return points_refuse(p,
                             "%s would be computed before what is shared out; it can stand at %s",
                             s->subject, text_str(&places));
    return true;
}

/* The one local that a part makes; NO_SLOT, refused: it makes something else. */
static uint32_t
local_of(Points *p, const Step *s, uint32_t part)
{
    const Part *k = &p->k->part[part];
    const Nest *n = k->nest;
    uint32_t local = k->buffer[n->nin];
    AxisSet seen = 0;

    if (n->nwrite != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        nest_axes_of_kind(n, AXIS_SCAN) || p->k->buffer.at[local].space != SPACE_LOCAL) {
        points_refuse(
            p,
            "%s is not the only value of its part, or is needed outside of the kernel as a whole",
            s->subject);
        return NO_SLOT;
    }
    for (uint32_t d = 0; d < n->param[n->nin].type->rank; d++) {
        if (expr_const(n->write[0].at[d], NULL))
            continue;
        AxisSet here = axis_bit(n->write[0].at[d]);
        if (!here || seen & here) {
            points_refuse(p, "%s is not written at its axes, each once", s->subject);
            return NO_SLOT;
        }
        seen |= here;
    }
    for (uint32_t x = 0; x < n->naxis; x++)
        if (axis_varies(&n->axis[x])) {
            points_refuse(
                p, "how long %s is depends on other axes or on data: no box holds what is needed",
                n->axis[x].name);
            return NO_SLOT;
        }
    return local;
}

/* ---- its loops ------------------------------------------------------------------------------- */

/* The first child of `at` that reads it. */
static uint32_t
first_reader(const Points *p, const LoopNode *at, uint32_t local)
{
    for (uint32_t i = 0; i < at->body.n; i++)
        if (around_readers(p, at->body.at[i], local))
            return i;
    return at->body.n;
}

/* Its initial loops: no step changed them, so that new ones can replace them. */
static LoopNode *
untouched(Points *p, const Step *s, LoopNode *leaf)
{
    LoopNode *n = leaf;

    while (n->up->body.n == 1 && n->up != p->root)
        n = n->up;
    if (leaf->phase != PHASE_COMPLETE)
        return points_refuse(p, "%s is held already: put it first", s->subject), NULL;
    for (const LoopNode *x = leaf->up; x != n->up; x = x->up)
        if (x->kind != NODE_LOOP || x->run != WORD_serial ||
            (p->iter.at[x->iter].axis == NEST_MAX_AXES && !p->iter.at[x->iter].put))
            return points_refuse(p, "the loops of %s were changed already: put it first",
                                 s->subject),
                   NULL;
    return n;
}

/* The iterator whose value is all that readers need along a dimension, known inside `at`; 0: they
 * need more. */
static IterId
one_point(Points *p, uint32_t local, uint32_t d, const LoopNode *at)
{
    IterId only = 0;
    PartReads reads = points_reads(p, local);
    for (uint32_t i = 0; i < reads.n; i++) {
        const IterId *axis = p->axis[reads.at[i].part];
        const Expr *index = reads.at[i].access.load->u.load.at[d];
        if (expr_is(index, 0) && expr_is(p->k->buffer.at[local].type->dim[d], 1))
            continue; /* there is no other point */
        uint32_t x = axis_of(index);
        if (x == NO_SLOT || (only && axis[x] != only))
            return 0;
        only = axis[x];
    }
    return only && iter_is_known(p, at, only, NULL, 0) ? only : 0;
}

/* A new loop for each axis with more than one point, sums innermost. */
static LoopNode *
new_loops(Points *p, Put *put, uint32_t number, LoopNode *at)
{
    const Part *k = &p->k->part[put->part];
    const Nest *n = k->nest;
    LoopNode *in = at;
    Var v;

    for (int reduce = 0; reduce < 2; reduce++)
        for (uint32_t x = 0; x < n->naxis; x++) {
            if ((n->axis[x].kind == AXIS_REDUCE) != reduce)
                continue;
            IterId point = 0;
            for (uint32_t d = 0; !reduce && d < n->param[n->nin].type->rank; d++)
                if (expr_is_var(n->write[0].at[d], &v) && v.id == x)
                    point = one_point(p, put->local, d, at);
            if (!reduce && !point && expr_is(n->axis[x].extent, 1) &&
                iter_is_known(p, at, p->axis[put->part][x], NULL, 0))
                point = p->axis[put->part][x]; /* there is no other point */
            if (point) {
                p->axis[put->part][x] = point;
                continue;
            }
            Sym name = sym_printf(p->c, "%s.%s", part_name(p, put->part), n->axis[x].name);
            IterId axis = iter_new(p, name, n->axis[x].kind), loop = axis;
            p->axis[put->part][x] = axis;
            p->iter.at[axis].part = put->part;
            p->iter.at[axis].axis = x;
            for (uint32_t d = 0; !reduce && d < n->param[n->nin].type->rank; d++)
                if (expr_is_var(n->write[0].at[d], &v) && v.id == x) {
                    loop = put->box[d] = iter_new(p, name, AXIS_PARALLEL);
                    p->iter.at[axis].box = loop;
                    p->iter.at[loop].part = put->part;
                    p->iter.at[loop].put = number;
                    p->iter.at[loop].dim = d;
                }
            in = node_loop(p, in, loop, PHASE_COMPLETE, NULL);
        }
    return in;
}

/* The memory order of its dimensions: those of the named loops last, in their order. */
static bool
lay_out(Points *p, const Step *s, Put *put, uint32_t number, uint32_t rank)
{
    uint32_t n = 0;
    bool named[TN_MAX_RANK] = { false };

    for (uint32_t i = 0; i < s->nloop; i++) {
        IterId x = points_iter(p, s->loop[i]);
        if (!x)
            return false;
        if (p->iter.at[x].put != number || named[p->iter.at[x].dim])
            return points_refuse(p, "%s is no loop over what %s makes, or is named twice",
                                 s->loop[i], s->subject);
        named[p->iter.at[x].dim] = true;
    }
    for (uint32_t d = 0; d < rank; d++)
        if (!named[d])
            put->dim[n++] = d;
    for (uint32_t i = 0; i < s->nloop; i++)
        put->dim[n++] = p->iter.at[points_iter(p, s->loop[i])].dim;
    return true;
}

/* The number of a part's put: its earlier one, which is moved, or a new one. */
static uint32_t
forget_put(Points *p, uint32_t part)
{
    for (uint32_t i = 1; i < p->put.n; i++) {
        if (p->put.at[i].part != part)
            continue;
        LoopNode *at = p->put.at[i].at;
        for (uint32_t k = 0; k < at->puts.n; k++)
            if (at->puts.at[k] == i)
                at->puts.at[k--] = at->puts.at[--at->puts.n];
        return i;
    }
    VEC_PUSH(p->a, &p->put, (Put){ 0 });
    return p->put.n - 1;
}

bool
step_put(Points *p, const Step *s)
{
    uint32_t part = points_part(p, s->subject),
             local = part == NO_SLOT ? NO_SLOT : local_of(p, s, part);
    LoopNode *at = local == NO_SLOT ? NULL : points_loop(p, s->at), *leaf, *top;
    Put put = { .part = part, .local = local, .at = at };

    if (!at || !may_stand(p, s, local, at))
        return false;
    if (s->word && s->word != WORD_scratch)
        return points_refuse(p, "what is put is in scratch, not in %s", word_name[s->word]);
    leaf = part_leaf(p, part);
    if (!(top = untouched(p, s, leaf)))
        return false;
    uint32_t number = forget_put(p, part), i, rank = p->k->buffer.at[local].type->rank;
    node_detach(top->up, top);
    i = first_reader(p, at, local);
    leaf->up = new_loops(p, &put, number, at);
    VEC_PUSH(p->a, &leaf->up->body, leaf);
    node_move_last(at, i);
    VEC_PUSH(p->a, &at->puts, number);
    bool ok = lay_out(p, s, &put, number, rank);
    p->put.at[number] = put;
    return ok;
}
