/* inline: substitutes a producer's value for the reads of its result.
 *
 *     t[i, j] = exp(x[i, j])                          o[k] = sum q: t[k, q] * w[q]
 *     becomes                                         o[k] = sum q: exp(x[k, q]) * w[q]
 *
 * First the producer's value is renumbered: its inputs follow the consumer's, its reduction axes
 * become new axes, and its parallel axes get numbers that no nest uses. Then, at each read, those
 * numbers are replaced by the read's indices. Doing it in two steps keeps the two numberings apart,
 * whatever the indices contain.
 *
 * A read with an outside value becomes inside ? value : outside. Both arms of a select may be
 * evaluated, so where `inside` is not proved the producer's own reads get an outside value too. If
 * the value is a read with the same bounds, that alone is enough. An index checked at run time
 * (S_AT) cannot be evaluated outside: then there is no inlining.
 */
#include <string.h>

#include "algebra/algebra.h"
#include "nest/walk.h"

#define FREE_AXIS NEST_MAX_AXES /* producer's parallel axis k is FREE_AXIS + k between the steps */

typedef struct {
    Ctx *ctx;
    const Nest *consumer, *producer;
    uint32_t slot;       /* of the consumer: the input that goes */
    const Write *write;  /* of the producer */
    const Scalar *value; /* renumbered */
    /* of the producer's inputs: the consumer's input that it equals, or NO_SLOT; NULL: none does */
    const uint32_t *same;
    uint32_t *to;                /* of the producer's inputs: slots in the result */
    uint32_t nadded;             /* those that are not the consumer's */
    Binding axis[NEST_MAX_AXES]; /* renumbering of the producer's axes */
    uint32_t new_axis[NEST_MAX_AXES];
    NestEdit edit;
    Ranges ranges; /* of the result */
    bool failed;
} Inline;

/* ---- may it be done? ------------------------------------------------------------------------- */

static bool
expr_reads(Ctx *c, const Expr *e, uint32_t slot)
{
    FOR_EACH_SCALAR (s, expr_nodes(c, e))
        if (s->op == S_LOAD && s->u.load.slot == slot)
            return true;
    return false;
}

/* Axis p of the producer is set by the write's dimension d; false if one is set by none. */
static bool
write_sets_all_axes(const Nest *p, const Write *w)
{
    AxisSet set = 0;

    for (uint32_t d = 0; d < p->param[w->out].type->rank; d++)
        set |= expr_axes(w->at[d]);
    for (uint32_t k = 0; k < p->naxis; k++)
        if (p->axis[k].kind == AXIS_PARALLEL && !(set & axis_one(k)))
            return false;
    return true;
}

/* Reductions of the producer get one set of new axes, which all reads share. That needs extents
 * that are the same at every read, and no read of the producer inside an index of another. */
static bool
reductions_can_move(Inline *in, Arena *scratch)
{
    Ctx *c = in->ctx;
    const Scalar *first = NULL;
    bool depends = false, several = false;

    for (uint32_t k = 0; k < in->producer->naxis; k++)
        if (in->producer->axis[k].kind == AXIS_REDUCE)
            depends = depends || expr_axes(in->producer->axis[k].extent);
    Accesses reads = nest_accesses(c, scratch, in->consumer);
    for (uint32_t i = 0; i < reads.n; i++) {
        const Scalar *load = reads.at[i].load;
        if (load->u.load.slot != in->slot)
            continue;
        for (uint32_t d = 0; d < load->u.load.rank; d++) {
            if (expr_reads(c, load->u.load.at[d], in->slot))
                return false;
            several = several || (first && first->u.load.at[d] != load->u.load.at[d]);
        }
        first = first ? first : load;
    }
    return !depends || !several;
}

static bool
may_inline(Inline *in, Arena *scratch)
{
    const Nest *c = in->consumer, *p = in->producer;
    AxisSet reduce = nest_axes_of_kind(p, AXIS_REDUCE);

    if (!in->write || !write_is_plain(in->ctx, p, in->write) || !write_sets_all_axes(p, in->write))
        return false;
    if (nest_axes_of_kind(p, AXIS_SCAN) ||
        c->naxis + (uint32_t)__builtin_popcountll(reduce) > NEST_MAX_AXES)
        return false;
    for (uint32_t i = 0; i < c->nwrite; i++)
        if (c->write[i].combiner != COMB_NONE && c->write[i].init == in->slot)
            return false;
    for (uint32_t k = 0; reduce && k < c->naxis; k++)
        if (expr_reads(in->ctx, c->axis[k].extent, in->slot))
            return false;
    return !reduce || reductions_can_move(in, scratch);
}

/* ---- the first step: renumber the producer --------------------------------------------------- */

static const Scalar *
shift_slot(ScalarMap *m, const Scalar *load)
{
    const Inline *in = m->user;

    return load_with(m->ctx, load, in->to[load->u.load.slot], load->u.load.outside);
}

static const Expr *
renumber(ScalarMap *m, const Expr *e)
{
    const Inline *in = m->user;

    return expr_subst(m->ctx, e, in->axis, in->producer->naxis);
}

static AxisSet
renumber_set(ScalarMap *m, AxisSet set)
{
    const Inline *in = m->user;
    AxisSet to = 0;

    for (uint32_t k = 0; k < in->producer->naxis; k++)
        if (set & axis_one(k))
            to |= axis_one(in->new_axis[k]);
    return to;
}

static void
renumber_producer(Inline *in, Arena *scratch)
{
    Ctx *c = in->ctx;
    const Nest *p = in->producer;
    NestEdit *e = &in->edit;
    uint32_t first_new = e->nest.naxis;

    for (uint32_t k = 0; k < p->naxis; k++) {
        uint32_t to = FREE_AXIS + k;
        if (p->axis[k].kind == AXIS_REDUCE) {
            to = e->nest.naxis;
            e->axis[to] = p->axis[k];
            e->axis[to].name = nest_fresh_axis(c, e, p->axis[k].name);
            e->nest.naxis++;
        }
        in->new_axis[k] = to;
        in->axis[k] = (Binding){ { VAR_AXIS, k }, expr_axis(c, to) };
    }
    ScalarMap m = { .load = shift_slot,
                    .expr = renumber,
                    .axes = renumber_set,
                    .user = in,
                    .ctx = c,
                    .done = { .arena = scratch } };
    in->value = scalar_map(&m, in->write->value);
    for (uint32_t k = first_new; k < e->nest.naxis; k++) {
        e->axis[k].extent = scalar_map_expr(&m, e->axis[k].extent);
    }
}

/* ---- the second step: the reads -------------------------------------------------------------- */

static const Scalar *
guard_load(ScalarMap *m, const Scalar *load)
{
    Inline *in = m->user;

    if (load->u.load.outside ||
        load_is_inside(m->ctx, &in->ranges, load, in->edit.param[load->u.load.slot].type))
        return load;
    return load_with(m->ctx, load, load->u.load.slot, scalar_number(m->ctx, load->dtype, 0));
}

/* For example a transpose: the value is a read whose own bounds are those of the index. It is
 * outside exactly where the read of the result would be. */
static bool
has_its_bounds(Inline *in, const Scalar *value, const Expr *at, const Expr *extent)
{
    if (value->op != S_LOAD || value->u.load.outside)
        return false;
    const Type *t = in->edit.param[value->u.load.slot].type;
    for (uint32_t d = 0; d < value->u.load.rank; d++)
        if (value->u.load.at[d] == at && expr_eq(in->ctx, NULL, t->dim[d], extent) == YES)
            return true;
    return false;
}

/* inside ? value : outside, for a read that may be beyond the producer's result. The producer's
 * checks must not run where it is not computed; those of the read's own index run anyway. */
static const Scalar *
guarded(Inline *in, const Scalar *load, const Scalar *value, const Type *t)
{
    Ctx *c = in->ctx;
    const Scalar *inside = NULL;
    bool checks = false, itself = true;

    FOR_EACH_SCALAR (s, scalar_nodes(c, in->value))
        checks |= s->op == S_AT;
    for (uint32_t k = in->consumer->naxis; k < in->edit.nest.naxis; k++)
        checks = checks || expr_uses_kind(in->edit.axis[k].extent, VAR_COMPUTED);
    if (checks) {
        in->failed = true;
        return load;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        const Expr *at = load->u.load.at[d];
        const Scalar *i = scalar_index(c, at);
        const Scalar *test[2] = { NULL, NULL };
        if (expr_le(c, &in->ranges, expr_int(c, 0), at) != YES)
            test[0] = scalar_2(c, S_GE, i, scalar_int(c, DT_I64, 0));
        if (expr_le(c, &in->ranges, at, expr_offset(c, t->dim[d], -1)) != YES)
            test[1] = scalar_2(c, S_LT, i, scalar_index(c, t->dim[d]));
        itself = itself && ((!test[0] && !test[1]) || has_its_bounds(in, value, at, t->dim[d]));
        for (uint32_t k = 0; k < 2; k++)
            if (test[k])
                inside = inside ? scalar_2(c, S_AND, inside, test[k]) : test[k];
    }
    if (inside && itself)
        return load_with(c, value, value->u.load.slot, load->u.load.outside);
    ScalarMap m = { .load = guard_load, .user = in, .ctx = c, .done = { .arena = c->arena } };
    return scalar_select(c, inside, scalar_map(&m, value), load->u.load.outside);
}

static const Scalar *
replace_load(ScalarMap *m, const Scalar *load)
{
    Inline *in = m->user;
    Ctx *c = in->ctx;
    uint32_t slot = load->u.load.slot;
    Binding bind[NEST_MAX_AXES];
    uint32_t nb = 0;

    if (slot != in->slot) {
        uint32_t to = slot < in->slot            ? slot
                      : slot < in->consumer->nin ? slot - 1
                                                 : slot - 1 + in->nadded;
        return load_with(c, load, to, load->u.load.outside);
    }
    const Type *t = in->producer->param[in->write->out].type;
    for (uint32_t d = 0; d < t->rank; d++) { /* each axis is its digit of the index */
        const Expr *above = load->u.load.at[d];
        uint32_t axis[NEST_MAX_AXES];
        for (uint32_t i = write_digits(c, in->producer, in->write, d, axis); i-- > 0;) {
            const Expr *extent = in->producer->axis[axis[i]].extent;
            bind[nb++] = (Binding){ { VAR_AXIS, FREE_AXIS + axis[i] },
                                    i ? expr_mod(c, above, extent) : above };
            above = expr_div(c, above, extent);
        }
    }
    const Scalar *value = scalar_subst(c, in->value, bind, nb);
    for (uint32_t k = in->consumer->naxis; k < in->edit.nest.naxis; k++) {
        in->edit.axis[k].extent = expr_subst(c, in->edit.axis[k].extent, bind, nb);
    }
    if (load->u.load.outside && !load_is_inside(c, &in->ranges, load, t))
        value = guarded(in, load, value, t);
    return value;
}

static void
join_params(Inline *in)
{
    Ctx *c = in->ctx;
    const Nest *n = in->consumer, *p = in->producer;
    NestEdit *e = &in->edit;
    uint32_t at = 0;

    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        if (i == n->nin)
            at += in->nadded;
        if (i != in->slot)
            e->param[at++] = n->param[i];
    }
    e->nest.nin = n->nin - 1 + in->nadded;
    for (uint32_t i = 0; i < p->nin; i++) {
        if (in->to[i] < n->nin - 1)
            continue;
        NestParam *to = &e->param[in->to[i]];
        *to = (NestParam){ NULL, p->param[i].type };
        to->name = nest_fresh_param(c, e, p->param[i].name);
    }
    for (uint32_t i = 0; i < n->nwrite; i++) {
        Write *w = &e->write[i];
        w->out = w->out - 1 + in->nadded;
        if (w->init != NO_SLOT && w->init > in->slot)
            w->init--;
    }
}

static void
place_inputs(Inline *in, Arena *scratch)
{
    uint32_t others = in->consumer->nin - 1;

    in->to = NEW_ARRAY(scratch, uint32_t, in->producer->nin + 1);
    for (uint32_t i = 0; i < in->producer->nin; i++) {
        uint32_t same = in->same ? in->same[i] : NO_SLOT;
        in->to[i] = same == NO_SLOT ? others + in->nadded++ : same - (same > in->slot);
    }
}

const Nest *
nest_inline(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer)
{
    return nest_inline_same(c, consumer, slot, producer, 0, NULL);
}

const Nest *
nest_inline_same(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer, uint32_t out,
                 const uint32_t *same)
{
    Inline in = { .ctx = c,
                  .consumer = consumer,
                  .producer = producer,
                  .slot = slot,
                  .same = same,
                  .write = nest_write_of(producer, producer->nin + out) };
    Arena *scratch = arena_child(c->arena);

    if (!may_inline(&in, scratch)) {
        arena_free(scratch);
        return NULL;
    }
    place_inputs(&in, scratch);
    in.edit = nest_edit(c, consumer, producer->naxis, producer->nin);
    renumber_producer(&in, scratch);
    join_params(&in);
    in.ranges = (Ranges){ NEW_ARRAY(scratch, Range, in.edit.nest.naxis), in.edit.nest.naxis };
    for (uint32_t k = 0; k < in.ranges.n; k++)
        ((Range *)in.ranges.at)[k] =
            (Range){ { VAR_AXIS, k }, expr_int(c, 0), in.edit.axis[k].extent };

    ScalarMap m = { .load = replace_load, .user = &in, .ctx = c, .done = { .arena = scratch } };
    uint32_t all_axes = in.edit.nest.naxis;
    /* the new axes are already in the result's numbering */
    in.edit.nest.naxis = consumer->naxis;
    nest_edit_map(&in.edit, &m);
    in.edit.nest.naxis = all_axes;
    arena_free(scratch);
    if (in.failed)
        nest_edit_drop(&in.edit);
    return in.failed ? NULL : nest_edit_done(c, &in.edit);
}
