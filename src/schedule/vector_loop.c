/* vector_loop: loops and named values with a nest's axes bound by hand, and a loop of complete
 * vectors: for the copies of padded input tiles. */
#include "schedule/internal.h"

const Expr *
low_extent(Low *l, uint32_t axis)
{
    return low_expr(l, l->n->axis[axis].extent);
}

const Expr *
axes_product(Low *l, const uint32_t *axis, uint32_t n)
{
    const Expr *p = expr_int(l->c, 1);
    for (uint32_t i = 0; i < n; i++)
        p = expr_mul(l->c, p, low_extent(l, axis[i]));
    return p;
}

const Expr *
low_loop(Low *l, Block **b, LoopKind kind, const char *name, const Expr *begin, const Expr *end,
         int64_t step)
{
    uint32_t var;

    *b = tree_loop(l->k, *b, kind, sym(l->c, name), begin, end, step, &var);
    VEC_PUSH(l->a, &l->range, ((Range){ { VAR_LOOP, var }, begin, expr_sub(l->c, end, begin) }));
    return expr_loop(l->c, var);
}

const Expr *
low_let(Low *l, Block *b, const char *name, const Expr *value, const Expr *extent)
{
    const Expr *v = tree_let(l->c, l->k, b, name, value);
    Var var;

    if (v != value && expr_is_var(v, &var) && extent)
        VEC_PUSH(l->a, &l->range, ((Range){ var, expr_int(l->c, 0), extent }));
    return v;
}

/* One vector from `base` on, of which `valid` lanes exist (NULL: all). */
static void
vector_step(Low *l, Block *b, uint32_t axis, const Expr *base, uint32_t lanes, const Expr *valid,
            EmitFn *emit, void *user)
{
    uint32_t lanes_before = l->lanes;

    l->lanes = lanes;
    l->valid = valid;
    l->bind[axis] = expr_add(l->c, base, expr_var(l->c, LANE));
    emit(l, b, user);
    l->valid = NULL;
    l->lanes = lanes_before;
}

/* The remainder after complete vectors: masked if every read can be, otherwise one element at a
 * time. */
static void
vector_rest(Low *l, Block *b, uint32_t axis, const char *name, const Expr *from, const Expr *end,
            uint32_t lanes, EmitFn *emit, void *user)
{
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;
    const Expr *rest = expr_sub(c, end, from);

    if (lanes > 1) {
        Block trial = { .arena = b->arena };
        Tree *test = expr_const(rest, NULL)
                         ? NULL
                         : tree_if(&trial, scalar_2(c, S_GT, scalar_index(c, rest),
                                                    scalar_int(c, DT_I64, 0)));
        Block *in = test ? &test->body : &trial;
        l->by_lane = false;
        const Expr *base = low_let(l, in, name, from, NULL);
        vector_step(l, in, axis, base, lanes, low_let(l, in, "rest", rest, NULL), emit, user);
        l->range.n = ranges;
        if (!l->by_lane) {
            for (uint32_t i = 0; i < trial.list.n; i++)
                VEC_PUSH(b->arena, &b->list, trial.list.at[i]);
            return;
        }
    }
    l->bind[axis] = low_loop(l, &b, LOOP_SERIAL, name, from, end, 1);
    emit(l, b, user);
    l->range.n = ranges;
}

void
low_vector_loop(Low *l, Block *b, uint32_t axis, const char *name, const Expr *begin,
                const Expr *end, uint32_t lanes, EmitFn *emit, void *user)
{
    Ctx *c = l->c;
    const Expr *count = expr_sub(c, end, begin), *full = expr_int(c, 0);
    uint32_t ranges = l->range.n;

    if (lanes > 1 && !expr_is(begin, 0))
        count = low_let(l, b, "count", count, NULL);
    if (lanes > 1)
        full = expr_scale(c, expr_div(c, count, expr_int(c, lanes)), lanes);
    if (!expr_is(full, 0)) {
        Block *in = b;
        const Expr *v = low_loop(l, &in, LOOP_SERIAL, name, begin, expr_add(c, begin, full), lanes);
        vector_step(l, in, axis, v, lanes, NULL, emit, user);
        l->range.n = ranges;
    }
    if (full != count)
        vector_rest(l, b, axis, name, expr_add(c, begin, full), expr_add(c, begin, count), lanes,
                    emit, user);
    l->bind[axis] = NULL;
    l->range.n = ranges;
}
