/* factor: moves what a sum does not vary with out of it: a divisor of its summand, and a select
 * between the summand and 0.
 *
 *     sum j: (e[i, j] / u[i]) * v[j, d]          becomes   (sum j: e[i, j] * v[j, d]) / u[i]
 *     sum j: (u[i] > 0 ? e[i, j] : 0) * v[j, d]  becomes   u[i] > 0 ? (sum j: e[i, j] * v[j, d]) : 0
 *
 * One division for each sum instead of one for each summand; floats are rounded in another order.
 * The factors of a 0 are assumed to be finite, unless the context is exact.
 */
#include "algebra/internal.h"

/* of one sum; others stay. A softmax that may be empty has two */
enum { MOST_FACTORS = 4 };

/* What was moved out, outermost first: divisions by what[i], or selects by it. */
typedef struct {
    uint32_t n;
    const Scalar *what[MOST_FACTORS];
} MovedFactors;

static bool
is_zero(const Scalar *s)
{
    return s->op == S_CONST && s->u.bits == 0;
}

/* s without what can be moved out, which is free of the axes; s itself if there is nothing. */
static const Scalar *
take_factors(Ctx *c, const Scalar *s, AxisSet axes, MovedFactors *f)
{
    bool divides = s->op == S_DIV && s->arg[1]->op != S_CONST && !(s->arg[1]->axes & axes);
    bool chooses =
        s->op == S_SELECT && !c->exact && is_zero(s->arg[2]) && !(s->arg[0]->axes & axes);

    if (dtype_is_float(s->dtype) && (divides || chooses) && f->n < MOST_FACTORS) {
        f->what[f->n++] = s->arg[divides ? 1 : 0];
        return take_factors(c, s->arg[divides ? 0 : 1], axes, f);
    }
    for (uint32_t i = 0; s->op == S_MUL && i < 2; i++) {
        const Scalar *rest = take_factors(c, s->arg[i], axes, f);
        if (rest != s->arg[i])
            return scalar_2(c, S_MUL, i ? s->arg[0] : rest, i ? rest : s->arg[1]);
    }
    return s;
}

static const Scalar *
factor_sum(ScalarMap *m, const Scalar *s)
{
    MovedFactors f = { 0 };

    if (s->op != S_REDUCE || s->narg != 1 || s->u.reduce.combiner != COMB_SUM)
        return s;
    const Scalar *body = take_factors(m->ctx, s->arg[0], s->u.reduce.axes, &f);
    if (f.n)
        s = scalar_reduce(m->ctx, COMB_SUM, s->u.reduce.axes, &body, 1);
    while (f.n--)
        s = f.what[f.n]->dtype == DT_BOOL
                ? scalar_select(m->ctx, f.what[f.n], s, scalar_float(m->ctx, s->dtype, 0))
                : scalar_2(m->ctx, S_DIV, s, f.what[f.n]);
    return s;
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
