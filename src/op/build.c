/* build: nests of an expansion, made one after the other.
 *
 * Values are numbered: the call's inputs, its outputs, then intermediates in the order they are
 * made. A Making pairs a nest builder with the value behind each parameter.
 */
#include "op/internal.h"

uint32_t
build_value(Build *b, DType t, uint32_t rank, const Expr *const *dim)
{
    VEC_PUSH(b->c->arena, &b->e->type, type_new(b->c, t, rank, dim));
    return b->e->type.n - 1;
}

Making
make_begin(Build *b, const char *suffix)
{
    const char *name = op_name(b->call);
    if (suffix)
        name = arena_printf(b->c->arena, "%s_%s", name, suffix);
    return (Making){ .b = b, .nb = nest_begin(b->c, name) };
}

uint32_t
make_in(Making *m, const char *name, uint32_t value)
{
    VEC_PUSH(m->b->c->arena, &m->in, value);
    return nest_in(&m->nb, name, build_type(m->b, value));
}

uint32_t
make_out(Making *m, const char *name, uint32_t value)
{
    VEC_PUSH(m->b->c->arena, &m->out, value);
    return nest_out(&m->nb, name, build_type(m->b, value));
}

bool
make_end(Making *m)
{
    Ctx *c = m->b->c;
    NestCall made = { .nest = nest_finish(&m->nb) };

    if (!made.nest)
        return false;
    uint32_t *value = NEW_ARRAY(c->arena, uint32_t, m->in.n + m->out.n);
    for (uint32_t i = 0; i < m->in.n; i++)
        value[i] = m->in.at[i];
    for (uint32_t i = 0; i < m->out.n; i++)
        value[m->in.n + i] = m->out.at[i];
    made.value = value;
    VEC_PUSH(c->arena, &m->b->e->call, made);
    return true;
}

void
make_axes(Making *m, uint32_t value, const Expr **axis)
{
    nest_axes_of(&m->nb, build_type(m->b, value), axis);
}

void
make_out_over(Making *m, const char *name, uint32_t value, const Expr **axis)
{
    make_out(m, name, value);
    make_axes(m, value, axis);
}

/* Axis names stay distinct: k becomes k1 beside the third axis of an output. */
const Expr *
make_reduce(Making *m, const char *name, const Expr *extent)
{
    Ctx *c = m->b->c;
    Sym wanted = sym(c, name);

    for (uint32_t i = 0, suffix = 0; i < m->nb.axis.n; i++)
        if (m->nb.axis.at[i].name == wanted) {
            wanted = sym_printf(c, "%s%u", name, ++suffix);
            i = UINT32_MAX;
        }
    return nest_axis(&m->nb, wanted, AXIS_REDUCE, extent);
}

const Scalar *
make_load_or(Making *m, uint32_t slot, const Expr *const *at, const Scalar *outside)
{
    DType t = m->nb.in.at[slot].type->dtype;
    if (outside)
        outside = scalar_cast(m->b->c, t, outside);
    const Scalar *v = outside ? nest_load_or(&m->nb, slot, at, outside) : nest_load(&m->nb, slot, at);
    return scalar_cast(m->b->c, compute_type(t), v);
}

const Scalar *
make_load(Making *m, uint32_t slot, const Expr *const *at)
{
    return make_load_or(m, slot, at, NULL);
}

const Scalar *
make_load_broadcast(Making *m, uint32_t slot, uint32_t rank, const Expr *const *axis)
{
    const Type *t = m->nb.in.at[slot].type;
    const Expr *at[TN_MAX_RANK];

    for (uint32_t d = 0; d < t->rank; d++)
        at[d] = expr_is(t->dim[d], 1) ? expr_int(m->b->c, 0) : axis[rank - t->rank + d];
    return make_load(m, slot, at);
}

void
make_write(Making *m, uint32_t out, const Expr *const *axis, const Scalar *value)
{
    nest_write(&m->nb, out, axis, scalar_cast(m->b->c, m->nb.out.at[out].type->dtype, value));
}

bool
make_finish(Making *m, const Expr *const *axis, const Scalar *value)
{
    if (!value)
        return false;
    make_write(m, 0, axis, value);
    return make_end(m);
}

const Scalar *
number_of(Ctx *c, DType t, const Expr *e)
{
    int64_t v;
    if (expr_const(e, &v))
        return dtype_is_float(t) ? scalar_float(c, t, (double)v) : scalar_int(c, t, v);
    return scalar_cast(c, t, scalar_index(c, e));
}

const Scalar *
build_constant(const Build *b, uint32_t i)
{
    const OpCall *call = b->call;
    double v;
    uint32_t n;

    if (!has_in(call, i) || !expr_is(type_count(b->c, call->in[i]), 1))
        return NULL;
    if (call->known[i].at && expr_const(call->known[i].at[0], NULL))
        return scalar_int(b->c, call->in[i]->dtype, expr_or(call->known[i].at[0], 0));
    if (!call->data[i] || !dtype_is_float(call->in[i]->dtype) || call->in[i]->dtype == DT_BF16)
        return NULL;
    return op_param_floats(b->c, call, i, "value", 1, &v, &n) ? scalar_float(b->c, call->in[i]->dtype, v) : NULL;
}
