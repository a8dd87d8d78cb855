/* edit: a nest copied, changed and verified again; what the rewritings of a nest share. */
#include <string.h>

#include "nest/walk.h"

NestEdit
nest_edit(Ctx *c, const Nest *n, uint32_t more_axes, uint32_t more_params)
{
    Arena *a = arena_child(c->arena);
    uint32_t nparam = n->nin + n->nout;
    NestEdit e = { *n, NEW_ARRAY(a, Axis, n->naxis + more_axes),
                   NEW_ARRAY(a, NestParam, nparam + more_params), NEW_ARRAY(a, Write, n->nwrite),
                   a };

    if (n->naxis) /* a scalar's nest has no list */
        memcpy(e.axis, n->axis, n->naxis * sizeof *e.axis);
    memcpy(e.param, n->param, nparam * sizeof *e.param);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        uint32_t rank = n->param[n->write[i].out].type->rank;
        e.write[i] = n->write[i];
        e.write[i].at = arena_copy(a, n->write[i].at, rank * sizeof *n->write[i].at);
    }
    return e;
}

void
nest_edit_map(NestEdit *e, ScalarMap *m)
{
    for (uint32_t k = 0; k < e->nest.naxis; k++)
        e->axis[k].extent = scalar_map_expr(m, e->axis[k].extent);
    for (uint32_t i = 0; i < e->nest.nwrite; i++) {
        Write *w = &e->write[i];
        uint32_t rank = e->param[w->out].type->rank;
        const Expr **at = NEW_ARRAY(e->scratch, const Expr *, rank);
        for (uint32_t d = 0; d < rank; d++)
            at[d] = scalar_map_expr(m, w->at[d]);
        w->at = at;
        w->value = scalar_map(m, w->value);
    }
}

void
nest_edit_bind(Ctx *c, NestEdit *e, const Binding *b, uint32_t n)
{
    Bindings all = { b, n };
    ScalarMap m = { .expr = bindings_apply,
                    .axes = bindings_axes,
                    .user = &all,
                    .ctx = c,
                    .done = { .arena = e->scratch } };

    nest_edit_map(e, &m);
}

void
nest_edit_split(Ctx *c, NestEdit *e, uint32_t axis, const Expr *step)
{
    uint32_t inner = e->nest.naxis;
    const Expr *both = expr_add(c, expr_mul(c, step, expr_axis(c, axis)), expr_axis(c, inner));
    Axis within = { nest_fresh_axis(c, e, e->axis[axis].name), e->axis[axis].kind, step };

    e->axis[axis].extent = expr_exact_div(c, e->axis[axis].extent, step);
    nest_edit_bind(c, e, &(Binding){ { VAR_AXIS, axis }, both }, 1);
    e->axis[e->nest.naxis++] = within;
}

uint32_t
nest_edit_input(Ctx *c, NestEdit *e, const char *name, const Type *t)
{
    Sym fresh = nest_fresh_param(c, e, sym(c, name));
    uint32_t slot = e->nest.nin++;

    e->param[slot + 1] = e->param[slot];
    e->param[slot] = (NestParam){ fresh, t };
    e->write[0].out++;
    return slot;
}

void
nest_edit_drop(NestEdit *e)
{
    arena_free(e->scratch);
}

const Nest *
nest_edit_done(Ctx *c, NestEdit *e)
{
    Nest *n = NEW(c->arena, Nest);
    Write *write = arena_copy(c->arena, e->write, e->nest.nwrite * sizeof *write);

    for (uint32_t i = 0; i < e->nest.nwrite; i++)
        write[i].at = arena_copy(c->arena, write[i].at,
                                 e->param[write[i].out].type->rank * sizeof *write[i].at);
    *n = e->nest;
    n->axis = arena_copy(c->arena, e->axis, n->naxis * sizeof *n->axis);
    n->param = arena_copy(c->arena, e->param, (n->nin + n->nout) * sizeof *n->param);
    n->write = write;
    nest_edit_drop(e);
    return nest_verify(c, n, DIAG_INTERNAL) ? n : NULL;
}

Sym
nest_fresh_axis(Ctx *c, const NestEdit *e, Sym wanted)
{
    Sym name = wanted;

    for (uint32_t i = 0, suffix = 1; i < e->nest.naxis; i++)
        if (e->axis[i].name == name) {
            name = sym_printf(c, "%s_%u", wanted, (unsigned)++suffix);
            i = UINT32_MAX; /* start over with the new name */
        }
    return name;
}

Sym
nest_fresh_param(Ctx *c, const NestEdit *e, Sym wanted)
{
    Sym name = wanted;

    for (uint32_t i = 0, suffix = 1; i < e->nest.nin + e->nest.nout; i++)
        if (e->param[i].name == name) {
            name = sym_printf(c, "%s_%u", wanted, (unsigned)++suffix);
            i = UINT32_MAX;
        }
    return name;
}

bool
load_is_inside(Ctx *c, const Ranges *r, const Scalar *load, const Type *t)
{
    const Expr *zero = expr_int(c, 0);

    for (uint32_t d = 0; d < t->rank; d++)
        if (expr_le(c, r, zero, load->u.load.at[d]) != YES ||
            expr_le(c, r, load->u.load.at[d], expr_offset(c, t->dim[d], -1)) != YES)
            return false;
    return true;
}

const Scalar *
load_with(Ctx *c, const Scalar *load, uint32_t slot, const Scalar *outside)
{
    return scalar_load(c, load->dtype, slot, load->u.load.rank, load->u.load.at, outside);
}
