/* outline: a factor of a product, or its sum, as a tensor of its own.
 *
 *     o[i, j] = sum k: dot2(pair(x[i, 2*k], x[i, 2*k + 1]), …)
 *
 * becomes p[i, k] = pair(x[i, 2*k], x[i, 2*k + 1]) and o[i, j] = sum k: dot2(p[i, k], …). Each
 * element of the factor is computed once, not once for each read, and at compile time if it is
 * constant; and the product reads a bare tensor, through windows and their padding too, which every
 * later query can analyse. The new tensor has the dimensions of the factor's largest operand,
 * except that a dimension along which the factor reads several elements is as long as the axis
 * there.
 */
#include "algebra/internal.h"
#include "nest/walk.h"

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
    uint32_t nread; /* the number of its reads */
    bool ok;
} Outline;

static void
compare_read(Outline *o, const Scalar *s)
{
    if (s->u.load.slot != o->slot)
        return;
    o->nread++;
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

typedef struct {
    const Scalar *factor, *instead;
} Instead;

static const Scalar *
put_instead(ScalarMap *m, const Scalar *s)
{
    const Instead *i = m->user;
    return s == i->factor ? i->instead : s;
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

static uint32_t
count_reads(Ctx *c, Arena *scratch, const Nest *n, uint32_t slot)
{
    Accesses all = nest_accesses(c, scratch, n);
    uint32_t count = 0;

    for (uint32_t i = 0; i < all.n; i++)
        count += all.at[i].load->u.load.slot == slot;
    return count;
}

const Nest *
nest_outline_factor(Ctx *c, const Nest *n, const Scalar *factor, uint32_t *slot, const Nest **made,
                    bool *keep)
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
    if (o.first && o.slot < n->nin && n->nwrite == 1 && n->write[0].init != o.slot) {
        FOR_EACH_SCALAR (load, scalar_loads(c, factor))
            compare_read(&o, load);
        o.ok = o.ok && o.nread == count_reads(c, scratch, n, o.slot) &&
               find_dims(&o, factor->dtype, &type);
        FOR_EACH_SCALAR (s, scalar_nodes(c, factor))
            check_other(&o, s);
        if (o.ok && o.first->u.load.outside)
            outside = map_factor(&o, scratch, factor, read_outside, NULL);
        o.ok = o.ok && (!outside || outside->op == S_CONST);
    }
    if (o.first && type && o.ok) {
        NestBuilder b = nest_begin(c, arena_printf(c->arena, "%s_made", n->param[o.slot].name));
        const Expr *axis[TN_MAX_RANK];
        for (uint32_t i = 0; i < n->nin; i++)
            nest_in(&b, n->param[i].name, n->param[i].type);
        uint32_t to = nest_out(&b, "o", type);
        nest_axes_of(&b, type, axis);
        nest_write(&b, to, axis, map_factor(&o, scratch, factor, read_own, to_own));
        *made = nest_finish(&b);
        *made = *made ? nest_drop_unused(c, *made, keep) : NULL;
        NestEdit e = nest_edit(c, n, 0, 0);
        Instead i = { factor, scalar_load(c, factor->dtype, o.slot, type->rank, o.at, outside) };
        ScalarMap m = { .node = put_instead, .user = &i, .ctx = c, .done = { .arena = scratch } };
        e.write[0].value = scalar_map(&m, n->write[0].value);
        e.param[o.slot].type = type;
        *slot = o.slot;
        out = *made ? nest_edit_done(c, &e) : NULL;
    }
    arena_free(scratch);
    return out;
}

/* ---- the sum --------------------------------------------------------------------------------- */

const Nest *
nest_outline_sum(Ctx *c, const Nest *n, const Scalar *sum, bool *keep)
{
    Arena *scratch = arena_child(c->arena);
    const Type *t = n->param[n->write[0].out].type;
    const Expr *axis[TN_MAX_RANK];
    Binding bind[TN_MAX_RANK];
    NestBuilder b = nest_begin(c, n->name);
    NestEdit names = nest_edit(c, n, 0, 0);

    for (uint32_t i = 0; i < n->nin; i++)
        nest_in(&b, n->param[i].name, n->param[i].type);
    uint32_t slot = nest_in(&b, nest_fresh_param(c, &names, sym(c, "product")), t),
             to = nest_out(&b, n->param[n->write[0].out].name, t);
    nest_edit_drop(&names);
    nest_axes_of(&b, t, axis);
    for (uint32_t d = 0; d < t->rank; d++) {
        bind[d].to = axis[d];
        expr_is_var(n->write[0].at[d], &bind[d].var);
    }
    Bindings all = { bind, t->rank };
    ScalarMap m = { .expr = bindings_apply, .user = &all, .ctx = c, .done = { .arena = scratch } };
    map_put(&m.done, MAP_PTR(sum), MAP_PTR(nest_load(&b, slot, axis)));
    nest_write(&b, to, axis, scalar_map(&m, n->write[0].value));
    arena_free(scratch);
    const Nest *made = nest_finish(&b);
    return made ? nest_drop_unused(c, made, keep) : NULL;
}
