/* sizes: relations between dimensions that a call requires, and broadcasting.
 *
 * A relation that can be neither proved nor disproved becomes a constraint, which the artefact
 * checks at entry. An equality is assumed from then on, so later proofs use it.
 */
#include "op/call.h"

/* ---- constraints ------------------------------------------------------------ */

const char *
constraint_text(Ctx *c, const Constraint *k)
{
    static const char *const or_one[] = { "", ", or one of them is 1" };

    if (k->said)
        return k->said;
    if (k->rule == SIZES_INTO)
        return arena_printf(c->arena, "%s == %s, or %s == 1", expr_str(c, k->a), expr_str(c, k->b),
                            expr_str(c, k->a));
    return arena_printf(c->arena, "%s == %s%s", expr_str(c, k->a), expr_str(c, k->b),
                        or_one[k->rule == SIZES_BROADCAST]);
}

static bool
is_same_rule(const Constraint *a, const Constraint *b)
{
    return a->rule == b->rule && ((a->a == b->a && a->b == b->b) ||
                                  (a->rule == SIZES_BROADCAST && a->a == b->b && a->b == b->a));
}

bool
constraint_add(Arena *a, Constraints *list, Constraint k)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (is_same_rule(&list->at[i], &k))
            return false;
    VEC_PUSH(a, list, k);
    return true;
}

/* Adds a constraint. False: it exists already. */
static bool
add_constraint(Ctx *c, const OpCall *call, Constraint needed, const char *what)
{
    needed.why =
        !call->op || !call->loc.node
            ? arena_printf(c->arena, "%s: %s", call->op ? op_name(call) : call->loc.node, what)
            : arena_printf(c->arena, "%s, %s: %s", op_name(call), call->loc.node, what);
    return !call->constraints || constraint_add(c->arena, call->constraints, needed);
}

/* How messages name the sizes; formatted only where it is read. */
typedef struct {
    const char *format;
    va_list args;
} What;

static const char *
said(Ctx *c, What *w)
{
    va_list again;

    va_copy(again, w->args);
    const char *text = arena_vprintf(c->arena, w->format, again);
    va_end(again);
    return text;
}

/* a == b, or with `most` a <= b, which as a constraint is min(a, b) == a */
static bool
require_order(Ctx *c, const OpCall *call, bool most, const Expr *a, const Expr *b, What *w)
{
    a = expr_simplify(c, NULL, a);
    b = expr_simplify(c, NULL, b);
    Tri holds = most ? expr_le(c, NULL, a, b) : expr_eq(c, NULL, a, b);
    if (holds != UNKNOWN)
        return holds == YES || op_fail(c, call, DIAG_MODEL,
                                       most ? "%s: %s is more than %s" : "%s differ: %s and %s",
                                       said(c, w), expr_str(c, a), expr_str(c, b));
    Constraint needed = { .a = a, .b = b };
    if (most)
        needed = (Constraint){ .a = expr_min(c, a, b),
                               .b = a,
                               .said = arena_printf(c->arena, "%s <= %s", expr_str(c, a),
                                                    expr_str(c, b)) };
    if (add_constraint(c, call, needed, said(c, w)))
        expr_assume_eq(c, needed.a, needed.b);
    return true;
}

/* ---- broadcasting ---------------------------------------------------------------------------- */

static bool
may_be_one(Ctx *c, const Expr *n)
{
    Interval i = expr_bounds(c, NULL, n);
    return i.lo <= 1 && i.hi >= 1;
}

/* Are symbol v and e 1 for the same values of v, which is never negative? min(v, 512) is such an
 * e. */
static bool
is_one_with(Ctx *c, const Expr *e, Var v)
{
    const Expr *one = expr_int(c, 1);
    Binding none = { v, expr_int(c, 0) }, single = { v, one },
            more = { v, expr_offset(c, expr_var(c, v), 2) };

    return v.kind == VAR_SYMBOL && expr_uses(e, v) &&
           expr_eq(c, NULL, expr_subst(c, e, &none, 1), one) == NO &&
           expr_eq(c, NULL, expr_subst(c, e, &single, 1), one) == YES &&
           expr_bounds(c, NULL, expr_subst(c, e, &more, 1)).lo >= 2;
}

/* Are two sizes equal wherever one of them is 1? */
static bool
are_one_together(Ctx *c, const Expr *a, const Expr *b)
{
    Var v;

    return (!may_be_one(c, a) && !may_be_one(c, b)) ||
           (expr_is_var(a, &v) && is_one_with(c, b, v)) ||
           (expr_is_var(b, &v) && is_one_with(c, a, v));
}

/* Equal, or one of them is 1. */
static bool
require_broadcast(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, What *w)
{
    if (expr_is(a, 1) || expr_is(b, 1) || expr_eq(c, NULL, a, b) == YES)
        return true;
    if (are_one_together(c, a, b))
        return require_order(c, call, false, a, b, w);
    bool swap = !may_be_one(c, a), one_way = swap || !may_be_one(c, b);
    add_constraint(c, call,
                   (Constraint){ .a = swap ? b : a,
                                 .b = swap ? a : b,
                                 .rule = one_way ? SIZES_INTO : SIZES_BROADCAST },
                   said(c, w));
    return true;
}

/* `own` is `dim`, or 1. */
static bool
require_into(Ctx *c, const OpCall *call, const Expr *own, const Expr *dim, What *w)
{
    own = expr_simplify(c, NULL, own);
    dim = expr_simplify(c, NULL, dim);
    if (expr_is(own, 1) || expr_eq(c, NULL, own, dim) == YES)
        return true;
    if (!may_be_one(c, own) || expr_is(dim, 1) || are_one_together(c, own, dim))
        return require_order(c, call, false, own, dim, w);
    add_constraint(c, call, (Constraint){ .a = own, .b = dim, .rule = SIZES_INTO }, said(c, w));
    return true;
}

bool
op_require(Ctx *c, const OpCall *call, SizeNeed need, const Expr *a, const Expr *b,
           const char *what, ...)
{
    What w = { .format = what };

    if (need == NEED_MULTIPLE) {
        if (a == b)
            return true;
        b = expr_mul(c, b, expr_div(c, a, b));
    }
    va_start(w.args, what);
    bool ok = need == NEED_INTO ? require_into(c, call, a, b, &w)
                                : require_order(c, call, need == NEED_LE, a, b, &w);
    va_end(w.args);
    return ok;
}

bool
op_require_dims(Ctx *c, const OpCall *call, uint32_t n, const Expr *const *a, const Expr *const *b,
                const char *what)
{
    for (uint32_t d = 0; d < n; d++)
        if (!op_require_eq(c, call, a[d], b[d], "axis %u of %s", d, what))
            return false;
    return true;
}

const Expr *
op_window_reach(Ctx *c, const Expr *kernel, int64_t dilation)
{
    return expr_offset(c, expr_scale(c, expr_offset(c, kernel, -1), dilation), 1);
}

const Expr *
op_window_count(Ctx *c, const Expr *n, const Expr *kernel, int64_t dilation, int64_t stride)
{
    const Expr *room = expr_sub(c, n, op_window_reach(c, kernel, dilation));

    return expr_offset(c, expr_div(c, room, expr_int(c, stride)), 1);
}

const Expr *
op_broadcast_at(Ctx *c, const Expr *own, const Expr *dim, const Expr *axis)
{
    own = expr_simplify(c, NULL, own);
    if (expr_bounds(c, NULL, own).hi <= 1)
        return expr_int(c, 0);
    if (!may_be_one(c, own) || expr_eq(c, NULL, own, dim) == YES)
        return axis;
    /* the step min(own / 2, 1) is 0 if `own` is 1, otherwise 1 */
    return expr_mul(
        c, axis,
        expr_simplify(c, NULL, expr_min(c, expr_div(c, own, expr_int(c, 2)), expr_int(c, 1))));
}

/* The sizes of a broadcast, or the only size. */
static uint32_t
sizes_in(const Expr *const *e, uint32_t most, const Expr **part, const Expr *const **at)
{
    uint32_t n = expr_broadcast_parts(*e, most, part);

    *at = n ? part : e;
    return n ? n : 1;
}

static const Expr *
broadcast_dim(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, What *w)
{
    /* a broadcast of more is treated as one size: less can be proved of it */
    enum { MOST = 16 };
    const Expr *part[2][MOST], *const *x, *const *y;

    a = expr_simplify(c, NULL, a);
    b = expr_simplify(c, NULL, b);
    if (a == b || expr_is(b, 1))
        return a;
    if (expr_is(a, 1))
        return b;
    uint32_t nx = sizes_in(&a, MOST, part[0], &x), ny = sizes_in(&b, MOST, part[1], &y);
    for (uint32_t i = 0; i < nx; i++)
        for (uint32_t k = 0; k < ny; k++)
            if (!require_broadcast(c, call, x[i], y[k], w))
                return NULL;
    a = expr_simplify(c, NULL, a); /* more may be known by now */
    b = expr_simplify(c, NULL, b);
    if (expr_eq(c, NULL, a, b) == YES) /* a number is preferred, then a symbol */
        return expr_const(b, NULL) || (!expr_const(a, NULL) && expr_is_var(b, NULL)) ? b : a;
    return !may_be_one(c, b)   ? b
           : !may_be_one(c, a) ? a
                               : expr_simplify(c, NULL, expr_broadcast(c, a, b));
}

const Expr *
op_broadcast_dim(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, const char *what, ...)
{
    What w = { .format = what };

    va_start(w.args, what);
    const Expr *dim = broadcast_dim(c, call, a, b, &w);
    va_end(w.args);
    return dim;
}

bool
op_broadcast(Ctx *c, const OpCall *call, uint32_t first, uint32_t n, uint32_t *rank,
             const Expr **dim)
{
    *rank = 0;
    for (uint32_t i = first; i < first + n; i++)
        if (has_in(call, i) && call->in[i]->rank > *rank)
            *rank = call->in[i]->rank;
    for (uint32_t d = 0; d < *rank; d++)
        dim[d] = expr_int(c, 1);
    for (uint32_t i = first; i < first + n; i++) {
        if (!has_in(call, i))
            continue;
        uint32_t skip = *rank - call->in[i]->rank;
        for (uint32_t d = 0; d < call->in[i]->rank; d++) {
            dim[skip + d] = op_broadcast_dim(
                c, call, dim[skip + d], call->in[i]->dim[d],
                "axis %u of the broadcast shape and axis %u of input %u", skip + d, d, i);
            if (!dim[skip + d])
                return false;
        }
    }
    return true;
}
