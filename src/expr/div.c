/* div: division, and the rules that keep floordiv and mod canonical.
 *
 * Division rounds down. By a constant c > 0:
 *   split     (c*q + r) // c = q + r // c ,  (c*q + r) % c = r % c     0 <= coefficients of r < c
 *   gcd       (g*r + k) // (g*c) = (r + k // g) // c                   0 <= k % g < g adds nothing
 *   nest      (p // a + k) // b = (p + a*k) // (a*b) ,  (p % (a*m)) // a = (p // a) % m
 *             (x + k*(p % m)) % c = (x + k*p) % c                      where c divides k*m
 *   bounds    r // c and r % c are plain where r stays inside one period
 *
 * By a symbolic divisor that is known to be at least 1, a common monomial cancels and an exact
 * quotient is taken; otherwise the quotient stays an atom. Each rule shrinks the argument, the
 * divisor or the nesting, so they terminate. They use only facts that never change (symbols are >=
 * 0) and, for divisors, the ranges of symbols; the ranges of axes enter with expr_simplify.
 */
#include "expr/internal.h"

#include <stdlib.h>

int64_t
gcd64(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;

    while (y) {
        uint64_t t = x % y;
        x = y, y = t;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

/* ---- polynomials ----------------------------------------------------------------------------- */

bool
term_divides(const Term *by, const Term *t)
{
    uint32_t k = 0;

    if (by->coef == -1 && t->coef == INT64_MIN)
        return false;
    if (t->coef % by->coef != 0)
        return false;
    for (uint32_t i = 0; i < by->nfactor; i++) {
        while (k < t->nfactor && t->factor[k].atom != by->factor[i].atom)
            k++;
        if (k == t->nfactor || t->factor[k].power < by->factor[i].power)
            return false;
    }
    return true;
}

const Expr *
term_quotient(Ctx *c, const Term *t, const Term *by)
{
    Factor factor[t->nfactor + 1];
    uint32_t n = 0, i = 0;

    for (uint32_t k = 0; k < t->nfactor; k++) {
        Factor f = t->factor[k];
        if (i < by->nfactor && by->factor[i].atom == f.atom)
            f.power -= by->factor[i++].power;
        if (f.power)
            factor[n++] = f;
    }
    return expr_term(c, (Term){ t->coef / by->coef, n, factor });
}

void
expr_divmod(Ctx *c, const Expr *a, const Expr *b, const Expr **q, const Expr **r)
{
    const Term *lead = &b->term[0];

    *q = expr_int(c, 0), *r = a;
    for (uint32_t i = 0, steps = 0; i < (*r)->nterm && steps < EXPR_MAX_TERMS;) {
        if (!term_divides(lead, &(*r)->term[i])) {
            i++;
            continue;
        }
        /* Subtracting changes this term and later ones only, so i stays. */
        const Expr *part = term_quotient(c, &(*r)->term[i], lead);
        *q = expr_add(c, *q, part);
        *r = expr_sub(c, *r, expr_mul(c, part, b));
        steps++;
    }
}

const Expr *
expr_exact_div(Ctx *c, const Expr *a, const Expr *b)
{
    const Expr *q, *r;

    if (a->bad || b->bad || b->nterm == 0)
        return NULL;
    expr_divmod(c, a, b, &q, &r);
    return r->nterm || r->bad || q->bad ? NULL : q;
}

/* g becomes the greatest common monomial of g and t. */
static void
common_with(Term *g, Factor *factor, const Term *t)
{
    uint32_t n = 0, k = 0;

    g->coef = gcd64(g->coef, t->coef);
    for (uint32_t i = 0; i < g->nfactor; i++) {
        while (k < t->nfactor && t->factor[k].atom->order < g->factor[i].atom->order)
            k++;
        if (k == t->nfactor || t->factor[k].atom != g->factor[i].atom)
            continue;
        factor[n] = g->factor[i];
        if (t->factor[k].power < factor[n].power)
            factor[n].power = t->factor[k].power;
        n++;
    }
    g->nfactor = n;
    g->factor = factor;
}

const Expr *
expr_common_factor(Ctx *c, const Expr *a, const Expr *b)
{
    const Expr *both[2] = { a, b };

    if (!b->nterm || a->bad || b->bad)
        return expr_int(c, 1);
    Term g = b->term[0];
    Factor factor[g.nfactor + 1];
    for (int e = 0; e < 2; e++)
        for (uint32_t i = 0; i < both[e]->nterm; i++)
            common_with(&g, factor, &both[e]->term[i]);
    if (g.coef < 0)
        g.coef = g.coef == INT64_MIN ? 1 : -g.coef;
    return expr_term(c, g);
}

/* ---- by a constant --------------------------------------------------------------------------- */

/* a = k*q + r with every coefficient of r in [0, k). */
static void
split(Ctx *c, const Expr *a, int64_t k, const Expr **q, const Expr **r)
{
    *q = *r = expr_int(c, 0);
    for (uint32_t i = 0; i < a->nterm; i++) {
        Term t = a->term[i];
        int64_t coef = t.coef;
        t.coef = floor_div(coef, k);
        *q = expr_add(c, *q, expr_term(c, t));
        t.coef = coef - t.coef * k;
        *r = expr_add(c, *r, expr_term(c, t));
    }
}

/* gcd of k and the coefficients of r, but not of its constant. */
static int64_t
content(const Expr *r, int64_t k)
{
    for (uint32_t i = 0; i < r->nterm; i++)
        if (r->term[i].nfactor)
            k = gcd64(k, r->term[i].coef);
    return k;
}

/* r / g for r whose coefficients are multiples of g, and its constant rounded down. */
static const Expr *
shrink(Ctx *c, const Expr *r, int64_t g)
{
    int64_t k = expr_constant_part(r);
    const Expr *q = expr_exact_div(c, expr_offset(c, r, -k), expr_int(c, g));

    return expr_offset(c, q, floor_div(k, g));
}

/* Is r inside one period of k, and in which? */
static bool
one_period(Ctx *c, const Expr *r, int64_t k, int64_t *period)
{
    Proof p = { .c = c, .budget = 64, .intrinsic = true };
    Interval b = proof_bounds(&p, r);

    if (b.lo == INT64_MIN || b.hi == INT64_MAX)
        return false;
    *period = floor_div(b.lo, k);
    return *period == floor_div(b.hi, k);
}

static const Expr *
atom2(Ctx *c, AtomKind kind, const Expr *a, const Expr *b)
{
    return expr_atom(c, kind, (Var){ 0 }, 2, (const Expr *[]){ a, b });
}

static const Expr *
div_const(Ctx *c, const Expr *a, int64_t k)
{
    const Expr *q, *r;
    const Atom *inner;
    int64_t g, m, km, scaled, period, plus;

    split(c, a, k, &q, &r);
    if (q->bad || r->bad)
        return expr_bad(c);
    if (expr_const(r, NULL))
        return q;
    if ((g = content(r, k)) > 1)
        return expr_add(c, q, div_const(c, shrink(c, r, g), k / g));

    inner = expr_single(r, ATOM_DIV, &plus);
    if (inner && expr_const(inner->arg[1], &m) && m > 0 && !mul_overflows(k, m, &km) &&
        !mul_overflows(plus, m, &scaled))
        return expr_add(c, q, div_const(c, expr_offset(c, inner->arg[0], scaled), km));
    inner = expr_single(r, ATOM_MOD, NULL);
    if (inner && expr_const(inner->arg[1], &m) && m > 0 && m % k == 0)
        return expr_add(c, q, expr_mod(c, div_const(c, inner->arg[0], k), expr_int(c, m / k)));

    if (one_period(c, r, k, &period))
        return expr_offset(c, q, period);
    return expr_add(c, q, atom2(c, ATOM_DIV, r, expr_int(c, k)));
}

/* Replace x*(p % m) by x*p for the first term of r where k divides x*m; NULL if there is none. */
static const Expr *
unwrap_mod(Ctx *c, const Expr *r, int64_t k)
{
    for (uint32_t i = 0; i < r->nterm; i++)
        for (uint32_t f = 0; f < r->term[i].nfactor; f++) {
            const Factor *mod = &r->term[i].factor[f];
            const Expr *coef, *rest;
            int64_t m, step;
            if (mod->atom->kind != ATOM_MOD || mod->power != 1 ||
                !expr_const(mod->atom->arg[1], &m) || mul_overflows(m, r->term[i].coef, &step) ||
                step % k != 0)
                continue;
            const Expr *one = expr_term(c, r->term[i]);
            if (!expr_split_atom(c, one, mod->atom, &coef, &rest))
                continue;
            return expr_add(c, expr_sub(c, r, one), expr_mul(c, coef, mod->atom->arg[0]));
        }
    return NULL;
}

static const Expr *
mod_const(Ctx *c, const Expr *a, int64_t k)
{
    const Expr *q, *r, *wider;
    int64_t g, period;

    split(c, a, k, &q, &r);
    if (r->bad || expr_const(r, NULL))
        return r;
    if ((wider = unwrap_mod(c, r, k)))
        return mod_const(c, wider, k);
    if ((g = content(r, k)) > 1)
        return expr_offset(c, expr_scale(c, mod_const(c, shrink(c, r, g), k / g), g),
                           floor_mod(expr_constant_part(r), g));
    if (one_period(c, r, k, &period))
        return expr_offset(c, r, -period * k);
    return atom2(c, ATOM_MOD, r, expr_int(c, k));
}

/* ---- by anything ----------------------------------------------------------------------------- */

static bool
positive(Ctx *c, const Expr *e)
{
    Proof p = { .c = c, .budget = 64 };
    return proof_bounds(&p, e).lo >= 1;
}

/* a // b, or a % b. */
static const Expr *
divide(Ctx *c, AtomKind kind, const Expr *a, const Expr *b)
{
    bool quotient = kind == ATOM_DIV;
    const Expr *g, *q, *r;
    int64_t k;

    if (a->bad || b->bad || (expr_const(b, &k) && k == INT64_MIN))
        return expr_bad(c);
    if (expr_const(b, &k) && k > 0)
        return quotient ? div_const(c, a, k) : mod_const(c, a, k);
    if (expr_const(b, &k) && k < 0) /* a // -k = -a // k, a % -k = -(-a % k) */
        return quotient ? div_const(c, expr_scale(c, a, -1), -k)
                        : expr_scale(c, mod_const(c, expr_scale(c, a, -1), -k), -1);
    if (a->nterm == 0)
        return a;
    if (b->nterm == 0)
        return atom2(c, kind, a, b);

    g = expr_common_factor(c, a, b);
    if (!expr_is(g, 1) && positive(c, g)) {
        r = divide(c, kind, expr_exact_div(c, a, g), expr_exact_div(c, b, g));
        return quotient ? r : expr_mul(c, g, r);
    }
    if (!positive(c, b))
        return atom2(c, kind, a, b);
    expr_divmod(c, a, b, &q, &r);
    if (r->nterm || r->bad)
        return quotient ? expr_add(c, q, atom2(c, kind, r, b)) : atom2(c, kind, r, b);
    return quotient ? q : r;
}

const Expr *
expr_div(Ctx *c, const Expr *a, const Expr *b)
{
    return divide(c, ATOM_DIV, a, b);
}

const Expr *
expr_mod(Ctx *c, const Expr *a, const Expr *b)
{
    return divide(c, ATOM_MOD, a, b);
}

const Expr *
expr_ceil_div(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_div(c, expr_offset(c, expr_add(c, a, b), -1), b);
}
