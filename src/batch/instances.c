/* instances: nests with an axis of instances. */
#include "batch/batch.h"

#include "nest/walk.h"

const Type *
batch_type(Ctx *c, const Type *t, const Expr *dim)
{
    const Expr *dims[TN_MAX_RANK] = { dim };

    for (uint32_t d = 0; d < t->rank; d++)
        dims[1 + d] = t->dim[d];
    return type_new(c, t->dtype, t->rank + 1, dims);
}

/* starts with the fields that bindings_apply expects */
typedef struct {
    Bindings bind;
    const bool *shared;
    uint32_t nin;
} Instances;

static const Scalar *
read_instance(ScalarMap *m, const Scalar *load)
{
    const Instances *k = m->user;
    const Expr *at[TN_MAX_RANK] = { expr_axis(m->ctx, 0) };

    if (load->u.load.slot < k->nin && k->shared[load->u.load.slot])
        return load;
    for (uint32_t d = 0; d < load->u.load.rank; d++)
        at[1 + d] = load->u.load.at[d];
    return scalar_load(m->ctx, load->dtype, load->u.load.slot, load->u.load.rank + 1, at,
                       load->u.load.outside);
}

static bool
has_room(const Nest *n)
{
    bool room = n->naxis < NEST_MAX_AXES;

    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        room = room && n->param[i].type->rank < TN_MAX_RANK;
    return room;
}

const Nest *
batch_nest(Ctx *c, const Nest *n, const Expr *instances, const bool *shared)
{
    Binding bind[NEST_MAX_AXES];

    if (!has_room(n))
        return NULL;
    NestEdit e = nest_edit(c, n, 1, 0);
    for (uint32_t x = 0; x < n->naxis; x++)
        bind[x] = (Binding){ { VAR_AXIS, x }, expr_axis(c, x + 1) };
    Instances k = { { bind, n->naxis }, shared, n->nin };
    ScalarMap m = { .load = read_instance,
                    .expr = bindings_apply,
                    .axes = bindings_axes,
                    .user = &k,
                    .ctx = c,
                    .done = { .arena = e.scratch } };
    nest_edit_map(&e, &m);
    for (uint32_t x = n->naxis; x-- > 0;)
        e.axis[x + 1] = e.axis[x];
    e.nest.naxis++;
    e.axis[0] = (Axis){ nest_fresh_axis(c, &e, sym(c, "instance")), AXIS_PARALLEL, instances };
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        if (i >= n->nin || !shared[i])
            e.param[i].type = batch_type(c, n->param[i].type, instances);
    for (uint32_t w = 0; w < n->nwrite; w++) {
        uint32_t rank = n->param[n->write[w].out].type->rank;
        const Expr **at = NEW_ARRAY(e.scratch, const Expr *, rank + 1);
        at[0] = expr_axis(c, 0);
        for (uint32_t d = 0; d < rank; d++)
            at[1 + d] = e.write[w].at[d];
        e.write[w].at = at;
    }
    return nest_edit_done(c, &e);
}

const Nest *
batch_read(Ctx *c, const Type *t, const Expr *instances, const Expr *rows)
{
    NestBuilder b = nest_begin(c, "instance");
    const Expr *at[TN_MAX_RANK], *from[TN_MAX_RANK];
    const Type *made = batch_type(c, t, instances);
    uint32_t pool = nest_in(&b, "pool", batch_type(c, t, rows)),
             row = nest_in(&b, "row", type_new(c, DT_I32, 1, &instances));

    nest_axes_of(&b, made, at);
    from[0] = expr_computed(c, scalar_at(c, nest_load(&b, row, at), rows));
    for (uint32_t d = 0; d < t->rank; d++)
        from[1 + d] = at[1 + d];
    nest_write(&b, nest_out(&b, "o", made), at, nest_load(&b, pool, from));
    return nest_finish(&b);
}

const Nest *
batch_spread(Ctx *c, const Type *t, const Expr *instances)
{
    NestBuilder b = nest_begin(c, "shared");
    const Expr *at[TN_MAX_RANK];
    const Type *made = batch_type(c, t, instances);
    uint32_t from = nest_in(&b, "x", t);

    nest_axes_of(&b, made, at);
    nest_write(&b, nest_out(&b, "o", made), at, nest_load(&b, from, at + 1));
    return nest_finish(&b);
}
