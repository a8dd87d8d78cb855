/* fold_comparisons: comparisons of whole numbers that have one answer at all points of a nest.
 *
 * Numbers are indices, constants, sums of them, and selects: j - (j < 1 ? -1 : j - 1) == 1 is true
 * for each j >= 0. Each arm of a select is examined under the condition's bounds of its axis.
 */
#include "algebra/internal.h"

/* selects examined in turn; bounds work: 2 to that many cases */
enum { MOST_CHOICES = 4 };

/* Ranges in which the comparison holds, or does not: an axis by itself on its left is held to the
 * points where it does. */
static Ranges
held(Ctx *c, Arena *a, const Ranges *r, const Scalar *cond, bool holds)
{
    const Scalar *choice = NULL;
    Range *range = NEW_ARRAY(a, Range, r->n + 1);
    Ranges out = { range, r->n };
    Var v;

    for (uint32_t i = 0; i < r->n; i++)
        range[i] = r->at[i];
    if (cond->op < S_LT || cond->op > S_GE)
        return out;
    const Expr *x = scalar_as_expr(c, cond->arg[0], &choice),
               *y = x ? scalar_as_expr(c, cond->arg[1], &choice) : NULL;
    if (!x || !y || !expr_is_var(x, &v) || expr_uses(y, v))
        return out;
    /* x < limit, or x >= limit */
    bool below = (cond->op == S_LT || cond->op == S_LE) == holds;
    const Expr *limit = cond->op == S_LE || cond->op == S_GT ? expr_offset(c, y, 1) : y;
    for (uint32_t i = 0; i < r->n; i++) {
        if (range[i].var.kind != v.kind || range[i].var.id != v.id || !expr_is(range[i].begin, 0))
            continue;
        if (below)
            range[i].extent = expr_min(c, range[i].extent, limit);
        else if (expr_bounds(c, r, limit).lo >= 0)
            range[i] = (Range){ v, limit, expr_sub(c, range[i].extent, limit) };
    }
    return out;
}

static Tri
decide(Ctx *c, Arena *a, const Ranges *r, const Scalar *cond, uint32_t choices)
{
    const Scalar *choice = NULL;

    if (cond->op < S_EQ || cond->op > S_GE)
        return UNKNOWN;
    const Expr *x = scalar_as_expr(c, cond->arg[0], &choice),
               *y = x || choice ? scalar_as_expr(c, cond->arg[1], &choice) : NULL;
    if (!choice)
        return x && y ? expr_holds(c, r, (ScalarOp)cond->op, x, y) : UNKNOWN;
    Tri answer[2] = { UNKNOWN, UNKNOWN };
    for (uint32_t arm = 0; arm < 2 && choices; arm++) {
        Ranges here = held(c, a, r, choice->arg[0], arm == 0);
        const Scalar *chosen = scalar_replace(c, cond, choice, choice->arg[1 + arm]);
        answer[arm] = chosen->op == S_CONST ? (chosen->u.bits ? YES : NO)
                                            : decide(c, a, &here, chosen, choices - 1);
    }
    return answer[0] == answer[1] ? answer[0] : UNKNOWN;
}

Tri
scalar_fold_comparisons(Ctx *c, const Ranges *r, const Scalar *cond)
{
    Arena *scratch = arena_child(c->arena);
    Tri t = decide(c, scratch, r, cond, MOST_CHOICES);

    arena_free(scratch);
    return t;
}
