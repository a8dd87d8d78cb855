/* factor: a divisor that a sum does not vary with leaves it.
 *
 *     sum j: (e[i, j] / u[i]) * v[j, d]     becomes     (sum j: e[i, j] * v[j, d]) / u[i]
 *
 * One division for each sum instead of one for each summand; floats are rounded in another order. */
#include "nest/internal.h"

/* A factor of s without its divisor, which is free of the axes; s itself where there is none. */
static const Scalar *
take_divisor(Ctx *c, const Scalar *s, AxisSet axes, const Scalar **divisor)
{
    if (s->op == S_DIV && dtype_is_float(s->dtype) && s->arg[1]->op != S_CONST && !(scalar_axes(c, s->arg[1]) & axes)) {
        *divisor = s->arg[1];
        return s->arg[0];
    }
    for (uint32_t i = 0; s->op == S_MUL && i < 2; i++) {
        const Scalar *rest = take_divisor(c, s->arg[i], axes, divisor);
        if (rest != s->arg[i])
            return scalar_2(c, S_MUL, i ? s->arg[0] : rest, i ? rest : s->arg[1]);
    }
    return s;
}

static const Scalar *
factor_sum(ScalarMap *m, const Scalar *s)
{
    const Scalar *divisor = NULL;

    if (s->op != S_REDUCE || s->narg != 1 || s->u.reduce.combiner != COMB_SUM)
        return s;
    const Scalar *body = take_divisor(m->ctx, s->arg[0], s->u.reduce.axes, &divisor);
    return divisor ? scalar_2(m->ctx, S_DIV, scalar_reduce(m->ctx, COMB_SUM, s->u.reduce.axes, &body, 1), divisor) : s;
}

const Nest *
nest_factor(Ctx *c, const Nest *n)
{
    Arena *scratch = arena_child(c->arena);
    ScalarMap m = { .node = factor_sum, .ctx = c, .done = { .arena = scratch } };
    Write *write = arena_copy(c->arena, n->write, n->nwrite * sizeof *write);
    Nest *to = NEW(c->arena, Nest);
    bool any = false;

    *to = *n;
    to->write = write;
    for (uint32_t i = 0; i < n->nwrite; i++) {
        write[i].value = scalar_map(&m, n->write[i].value);
        any |= write[i].value != n->write[i].value;
    }
    arena_free(scratch);
    return any ? to : n;
}
