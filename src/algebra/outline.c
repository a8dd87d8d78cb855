/* outline: a part of a nest's value as a tensor of its own.
 *
 *     o[i, j] = (sum k: a[i, k] * b[k, j]) + (sum k: c[i, k] * d[k, j])
 *
 * becomes p[i, j] = sum k: a[i, k] * b[k, j] and o[i, j] = p[i, j] + (sum k: c[i, k] * d[k, j]): a
 * dimension for each axis that the part varies with. A factor of a product of pairs,
 *
 *     o[i, j] = sum k: dot2(pair(x[i, 2*k], x[i, 2*k + 1]), …)
 *
 * becomes p[i, k] = pair(x[i, 2*k], x[i, 2*k + 1]) and o[i, j] = sum k: dot2(p[i, k], …). Each
 * element of the factor is computed once, not once for each read, and at compile time if it is
 * constant; and the product reads a bare tensor, through windows and their padding too, which every
 * later query can analyse. Its tensor has the dimensions of the factor's largest operand,
 * except that a dimension along which the factor reads several elements is as long as the axis
 * there.
 */
#include "algebra/internal.h"

const Type *
type_along(Ctx *c, const Nest *n, DType t, const uint32_t *axis, uint32_t rank)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++)
        dim[d] = n->axis[axis[d]].extent;
    return type_new(c, t, rank, dim);
}

/* The axes that nodes of a list sum over. */
static AxisSet
summed_axes(const Scalar *const *list)
{
    AxisSet axes = 0;

    FOR_EACH_SCALAR (s, list)
        axes |= s->op == S_REDUCE ? s->u.reduce.axes : 0;
    return axes;
}

/* The axes that an index or an extent varies with or sums over. */
static AxisSet
axes_in(Ctx *c, const Expr *e)
{
    return expr_axes(e) | summed_axes(expr_nodes(c, e));
}

const Nest *
nest_along(Ctx *c, const Nest *n, const Scalar *s, const uint32_t *axis, uint32_t rank,
           const char *name)
{
    NestBuilder b = nest_begin(c, name);
    AxisSet summed = summed_axes(scalar_nodes(c, s));
    const Expr *at[TN_MAX_RANK];
    Binding bind[NEST_MAX_AXES];
    Bindings all = { bind, 0 };

    nest_ins(&b, n);
    uint32_t out = nest_out(&b, "p", type_along(c, n, s->dtype, axis, rank));
    for (uint32_t d = 0; d < rank; d++) {
        at[d] = nest_axis(&b, n->axis[axis[d]].name, AXIS_PARALLEL, n->axis[axis[d]].extent);
        bind[all.n++] = (Binding){ { VAR_AXIS, axis[d] }, at[d] };
    }
    FOR_EACH_AXIS (k, summed)
        bind[all.n++] = (Binding){ { VAR_AXIS, k },
                                   nest_axis(&b, n->axis[k].name, AXIS_REDUCE, n->axis[k].extent) };
    ScalarMap m = { .expr = bindings_apply,
                    .axes = bindings_axes,
                    .user = &all,
                    .ctx = c,
                    .done = { .arena = arena_child(c->arena) } };
    nest_write(&b, out, at, scalar_map(&m, s));
    arena_free(m.done.arena);
    return nest_finish(&b);
}

/* The other axes go; nothing uses them. */
static void
keep_axes(Ctx *c, NestEdit *e, AxisSet axes)
{
    Binding bind[NEST_MAX_AXES];
    uint32_t kept = 0;

    for (uint32_t k = 0; k < e->nest.naxis; k++)
        if (axes >> k & 1) {
            bind[kept] = (Binding){ { VAR_AXIS, k }, expr_axis(c, kept) };
            e->axis[kept++] = e->axis[k];
        }
    e->nest.naxis = kept;
    nest_edit_bind(c, e, bind, kept);
}

/* Does anything but s read the input? */
static bool
has_other_reads(Ctx *c, const Nest *n, const Scalar *s, uint32_t slot)
{
    Arena *scratch = arena_child(c->arena);
    Accesses all = nest_accesses(c, scratch, n);
    bool any = n->write[0].init == slot;

    for (uint32_t i = 0; i < all.n; i++)
        any |= all.at[i].load->u.load.slot == slot && !scalar_holds(c, s, all.at[i].load);
    arena_free(scratch);
    return any;
}

const Nest *
nest_outline(Ctx *c, const Nest *n, const Scalar *s, uint32_t slot, const uint32_t *axis,
             uint32_t rank, const char *name, const Nest **made)
{
    const Expr *at[TN_MAX_RANK];
    AxisSet summed = summed_axes(scalar_nodes(c, s)), taken = summed;

    if (n->nwrite != 1 || n->nout != 1 || rank > TN_MAX_RANK ||
        (slot == NO_SLOT ? nest_axes_of_kind(n, AXIS_SCAN) : has_other_reads(c, n, s, slot)))
        return NULL;
    for (uint32_t d = 0; d < rank; d++)
        taken |= axis_one(axis[d]);
    for (uint32_t k = 0; k < n->naxis; k++)
        if (axes_in(c, n->axis[k].extent) & summed || (taken >> k & 1 && axis_varies(&n->axis[k])))
            return NULL;
    for (uint32_t d = 0; d < n->param[n->write[0].out].type->rank; d++)
        if (axes_in(c, n->write[0].at[d]) & summed)
            return NULL;
    if (made && !(*made = nest_along(c, n, s, axis, rank, name)))
        return NULL;
    NestEdit e = nest_edit(c, n, 0, 1);
    const Type *t = type_along(c, n, s->dtype, axis, rank);
    if (slot == NO_SLOT)
        slot = nest_edit_input(c, &e, "product", t);
    e.param[slot].type = t;
    for (uint32_t d = 0; d < rank; d++)
        at[d] = expr_axis(c, axis[d]);
    e.write[0].value =
        scalar_replace(c, n->write[0].value, s, scalar_load(c, s->dtype, slot, rank, at, NULL));
    keep_axes(c, &e, ~summed | summed_axes(scalar_nodes(c, e.write[0].value)));
    return nest_edit_done(c, &e);
}

/* ---- a factor -------------------------------------------------------------------------------- */

typedef struct {
    Ctx *c;
    const Nest *n;
    uint32_t slot;                /* of the factor's largest operand */
    const Scalar *first;          /* a read of it */
    bool several[TN_MAX_RANK];    /* its reads differ in this dimension */
    const Expr *at[TN_MAX_RANK];  /* the index of the new tensor's read */
    const Expr *own[TN_MAX_RANK]; /* the axes of its dimensions in the nest that makes it */
    Binding bind[TN_MAX_RANK];
    uint32_t nbind;
    AxisSet bound;
    bool ok;
} Outline;

static void
compare_read(Outline *o, const Scalar *s)
{
    if (s->u.load.slot != o->slot)
        return;
    o->ok = o->ok && s->u.load.outside == o->first->u.load.outside;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        o->ok = o->ok && !expr_uses_kind(s->u.load.at[d], VAR_COMPUTED);
        o->several[d] = o->several[d] || s->u.load.at[d] != o->first->u.load.at[d];
    }
}

static void
check_other(Outline *o, const Scalar *s)
{
    if ((s->op == S_LOAD && s->u.load.slot != o->slot) || s->op == S_INDEX || s->op == S_AT)
        o->ok = o->ok && !(s->axes & ~o->bound);
    o->ok = o->ok && s->op != S_REDUCE;
}

/* The dimensions of the new tensor, and the axis of n that each replaces. */
static bool
find_dims(Outline *o, DType dtype, const Type **type)
{
    const Type *t = o->n->param[o->slot].type;
    const Expr *dim[TN_MAX_RANK];
    AxisSet seen = 0;
    Var v;

    for (uint32_t d = 0; d < t->rank; d++) {
        const Expr *e = o->first->u.load.at[d];
        AxisSet here = expr_axes(e);
        bool bare = expr_is_var(e, &v) && v.kind == VAR_AXIS;
        if (here & seen || (!here && !expr_is(t->dim[d], 1)))
            return false;
        seen |= here;
        o->at[d] = e;
        o->own[d] = expr_axis(o->c, d);
        dim[d] = t->dim[d];
        if (o->several[d]) {
            if (!here || here & (here - 1))
                return false;
            v = (Var){ VAR_AXIS, (uintptr_t)__builtin_ctzll(here) };
            o->at[d] = expr_var(o->c, v);
            dim[d] = o->n->axis[v.id].extent;
        }
        if (o->several[d] || bare) {
            o->bind[o->nbind++] = (Binding){ v, o->own[d] };
            o->bound |= here;
        }
    }
    *type = type_new(o->c, dtype, t->rank, dim);
    return true;
}

static const Expr *
to_own(ScalarMap *m, const Expr *e)
{
    const Outline *o = m->user;
    return expr_subst(m->ctx, e, o->bind, o->nbind);
}

/* The read in the nest that makes the tensor: along its own axes, inside. */
static const Scalar *
read_own(ScalarMap *m, const Scalar *load)
{
    const Outline *o = m->user;
    const Expr *at[TN_MAX_RANK];

    if (load->u.load.slot != o->slot)
        return load;
    for (uint32_t d = 0; d < load->u.load.rank; d++)
        at[d] = o->several[d] ? load->u.load.at[d] : o->own[d];
    return scalar_load(m->ctx, load->dtype, load->u.load.slot, load->u.load.rank, at, NULL);
}

static const Scalar *
read_outside(ScalarMap *m, const Scalar *load)
{
    const Outline *o = m->user;
    return load->u.load.slot == o->slot ? o->first->u.load.outside : load;
}

static const Scalar *
map_factor(Outline *o, Arena *scratch, const Scalar *factor,
           const Scalar *(*load)(ScalarMap *, const Scalar *),
           const Expr *(*expr)(ScalarMap *, const Expr *))
{
    ScalarMap m = {
        .load = load, .expr = expr, .user = o, .ctx = o->c, .done = { .arena = scratch }
    };
    return scalar_map(&m, factor);
}

const Nest *
nest_outline_factor(Ctx *c, const Nest *n, const Scalar *factor, uint32_t *slot, const Nest **made)
{
    Outline o = { .c = c, .n = n, .ok = true };
    Arena *scratch = arena_child(c->arena);
    const Nest *out = NULL;
    const Scalar *outside = NULL;
    const Type *type = NULL;

    FOR_EACH_SCALAR (load, scalar_loads(c, factor))
        if (load->axes && (!o.first || load->u.load.rank > o.first->u.load.rank)) {
            o.first = load;
            o.slot = load->u.load.slot;
        }
    if (o.first && o.slot < n->nin && n->nwrite == 1) {
        FOR_EACH_SCALAR (load, scalar_loads(c, factor))
            compare_read(&o, load);
        o.ok =
            o.ok && !has_other_reads(c, n, factor, o.slot) && find_dims(&o, factor->dtype, &type);
        FOR_EACH_SCALAR (s, scalar_nodes(c, factor))
            check_other(&o, s);
        if (o.ok && o.first->u.load.outside)
            outside = map_factor(&o, scratch, factor, read_outside, NULL);
        o.ok = o.ok && (!outside || outside->op == S_CONST);
    }
    if (o.first && type && o.ok) {
        NestBuilder b = nest_begin(c, arena_printf(c->arena, "%s_made", n->param[o.slot].name));
        const Expr *axis[TN_MAX_RANK];
        nest_ins(&b, n);
        uint32_t to = nest_out(&b, "o", type);
        nest_axes_of(&b, type, axis);
        nest_write(&b, to, axis, map_factor(&o, scratch, factor, read_own, to_own));
        *made = nest_finish(&b);
        NestEdit e = nest_edit(c, n, 0, 0);
        e.write[0].value =
            scalar_replace(c, n->write[0].value, factor,
                           scalar_load(c, factor->dtype, o.slot, type->rank, o.at, outside));
        e.param[o.slot].type = type;
        *slot = o.slot;
        out = *made ? nest_edit_done(c, &e) : NULL;
    }
    arena_free(scratch);
    return out;
}
