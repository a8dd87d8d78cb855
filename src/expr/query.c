/* query: is one expression at most another, equal to it, a multiple of a number?
 *
 * The prover (range.c) tries the query, then its negation. A query about symbols alone that stays
 * open is tried again in terms of what each atom exceeds its lower bound by, and by cases of each
 * symbol: 0, or one more than another symbol. The watch (unproved.c) is told of each query.
 */
#include "expr/internal.h"

#define PROOF_DEPTH 12

Interval
expr_bounds(Ctx *c, const Ranges *r, const Expr *e)
{
    const Expr *simple = expr_simplify(c, r, e);
    Proof p = proof_begin(c, r, simple);

    return proof_bounds(&p, simple);
}

static bool
nonneg_as_it_stands(Ctx *c, const Ranges *r, const Expr *e)
{
    Proof p = proof_begin(c, r, e);
    return proof_nonneg(&p, e, PROOF_DEPTH);
}

/* A loop whose extent is a symbol would need that symbol's substitute as its extent, so only
 * queries without loops are tried again. */
static bool
is_of_symbols(const Expr *e)
{
    return !expr_uses_kind(e, VAR_AXIS) && !expr_uses_kind(e, VAR_LOOP) &&
           !expr_uses_kind(e, VAR_COMPUTED);
}

static const Expr *
above_least(void *user, const Atom *a)
{
    Proof *p = user;
    const Expr *atom = expr_of_atom(a);
    int64_t least = proof_bounds(p, atom).lo;

    return least == INT64_MIN ? expr_bad(p->c) : expr_offset(p->c, atom, least);
}

/* Written in what each atom exceeds its lower bound by, has e no negative term? 4*m*n - 16*m - 16*n
 * + 64 = 4*(m - 4)*(n - 4) for m, n >= 4. */
static bool
nonneg_above_least(Ctx *c, const Expr *e)
{
    Proof p = proof_begin(c, NULL, e);
    const Expr *sum = expr_map_atoms(c, e, above_least, &p);
    bool negative = sum->bad;
    for (uint32_t i = 0; i < sum->nterm; i++)
        negative |= sum->term[i].coef < 0;
    return !negative;
}

/* By cases, a size is 0 or one more than another: b*d <= b*d*d, min(n + min(n, 1), 1) == min(n, 1),
 * b*(x // b) <= x. */
static bool
nonneg_from_zero(Ctx *c, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e) {
        if (expr_symbol_get(c, v).lo != 0)
            continue;
        const Expr *more = expr_offset(c, expr_var(c, v), 1),
                   *none = expr_subst(c, e, &(Binding){ v, expr_int(c, 0) }, 1),
                   *some = expr_subst(c, e, &(Binding){ v, more }, 1);
        if (nonneg_as_it_stands(c, NULL, none) && nonneg_as_it_stands(c, NULL, some))
            return true;
    }
    return false;
}

static bool
nonneg(Ctx *c, const Ranges *r, const Expr *e)
{
    struct ExprTable *t = expr_table(c);
    uint64_t then;

    if (nonneg_as_it_stands(c, r, e))
        return true;
    if (!is_of_symbols(e) || is_sum_of_variables(e) ||
        (map_get(&t->unproved, MAP_PTR(e), &then) && then == t->nlearnt + 1))
        return false;
    if (nonneg_above_least(c, e) || nonneg_from_zero(c, e))
        return true;
    map_put(&t->unproved, MAP_PTR(e), t->nlearnt + 1);
    return false;
}

static Tri
is_le(Ctx *c, const Ranges *r, const Expr *a, const Expr *b)
{
    const Expr *slack = expr_simplify(c, r, expr_sub(c, b, a));

    if (slack->bad)
        return UNKNOWN;
    if (nonneg(c, r, slack))
        return YES;
    return nonneg_as_it_stands(c, r, expr_offset(c, expr_scale(c, slack, -1), -1)) ? NO : UNKNOWN;
}

/* Does the constant differ from every multiple of the terms' common divisor? */
static bool
excluded_by_residue(const Expr *e)
{
    int64_t g = 0, k = expr_constant_part(e);

    for (uint32_t i = 0; i < e->nterm; i++)
        if (e->term[i].nfactor)
            g = gcd64(g, e->term[i].coef);
    return g != 0 ? k % g != 0 : k != 0;
}

static Tri
is_eq(Ctx *c, const Ranges *r, const Expr *a, const Expr *b)
{
    if (a == b)
        return a->bad ? UNKNOWN : YES;
    const Expr *d = expr_simplify(c, r, expr_sub(c, a, b));
    if (d->bad)
        return UNKNOWN;
    if (d->nterm == 0)
        return YES;
    if (expr_const(d, NULL) || excluded_by_residue(d))
        return NO;
    Interval bounds = expr_bounds(c, r, d);
    if (bounds.lo == 0 && bounds.hi == 0)
        return YES;
    if (bounds.lo > 0 || bounds.hi < 0)
        return NO;
    if (nonneg_as_it_stands(c, r, expr_offset(c, d, -1)) ||
        nonneg_as_it_stands(c, r, expr_offset(c, expr_scale(c, d, -1), -1)))
        return NO;
    return nonneg(c, r, d) && nonneg(c, r, expr_scale(c, d, -1)) ? YES : UNKNOWN;
}

static Tri
is_multiple(Ctx *c, const Ranges *r, const Expr *e, int64_t k)
{
    if (k <= 0 || e->bad)
        return UNKNOWN;
    const Expr *left = expr_simplify(c, r, expr_mod(c, e, expr_int(c, k)));
    if (expr_is(left, 0))
        return YES;
    return expr_bounds(c, r, left).lo > 0 ? NO : UNKNOWN;
}

Tri
expr_le(Ctx *c, const Ranges *r, const Expr *a, const Expr *b)
{
    return expr_answered(c, r, ASKED_LE, a, b, is_le(c, r, a, b));
}

Tri
expr_eq(Ctx *c, const Ranges *r, const Expr *a, const Expr *b)
{
    return expr_answered(c, r, ASKED_EQ, a, b, is_eq(c, r, a, b));
}

Tri
expr_divisible(Ctx *c, const Ranges *r, const Expr *e, int64_t k)
{
    return expr_answered(c, r, ASKED_MULTIPLE, e, expr_int(c, k), is_multiple(c, r, e, k));
}
