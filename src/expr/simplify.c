/* simplify: normal forms under ranges of axes, ranges of symbols and learnt equalities.
 *
 * One round rebuilds the expression from its leaves; quotients and remainders are reduced where the
 * argument is proved to stay inside one period of the divisor, min and max lose dominated
 * arguments, and a broadcast of dimensions that are not 0 becomes a max. Then c*(p // c) + p % c is
 * merged again. Rounds repeat until nothing changes.
 *
 * Bounds and facts are the only input, so a result is right at every point of the ranges; outside
 * of them it may have another value.
 */
#include "expr/internal.h"

#define MAX_ROUNDS 8

/* ---- quotients ------------------------------------------------------------------------------- */

/* Is r in [0, q) everywhere? */
static bool
inside(Proof *p, const Expr *r, const Expr *q)
{
    return proof_nonneg(p, r, 6) && proof_nonneg(p, expr_offset(p->c, expr_sub(p->c, q, r), -1), 6);
}

/* a with each coefficient reduced to (-k/2, k/2]: a = k*x + near. (15 - i) // 16 has the normal
 * form (15*i + 15) // 16 - i; only the balanced form shows that it is 0 for i < 16. */
static const Expr *
balance(Ctx *c, const Expr *a, int64_t k, const Expr **x)
{
    const Expr *near = expr_int(c, 0);

    *x = expr_int(c, 0);
    for (uint32_t i = 0; i < a->nterm; i++) {
        Term t = a->term[i];
        int64_t coef = t.coef, left = floor_mod(coef, k);
        if (t.nfactor && left > k / 2)
            left -= k;
        t.coef = left;
        near = expr_add(c, near, expr_term(c, t));
        t.coef = (coef - left) / k;
        *x = expr_add(c, *x, expr_term(c, t));
    }
    return near;
}

/* a = q*x + r with r in [0, q)? Then a // q = x and a % q = r. Numbers: by bounds alone. */
static bool
one_period_const(Proof *p, const Expr *a, int64_t k, const Expr **x, const Expr **r)
{
    for (int balanced = 0; balanced < 2; balanced++) {
        const Expr *near = a;
        *x = expr_int(p->c, 0);
        if (balanced)
            near = balance(p->c, a, k, x);
        Interval b = proof_bounds(p, near);
        if (b.lo == INT64_MIN || b.hi == INT64_MAX || floor_div(b.lo, k) != floor_div(b.hi, k))
            continue;
        int64_t period = floor_div(b.lo, k);
        *x = expr_offset(p->c, *x, period);
        *r = expr_offset(p->c, near, -period * k);
        return true;
    }
    return false;
}

static bool
one_period(Proof *p, const Expr *a, const Expr *q, const Expr **x, const Expr **r)
{
    static const int64_t off[3] = { 0, -1, 1 };
    const Expr *quotient, *left;
    int64_t k;

    if (expr_const(q, &k))
        return (k > 0 && one_period_const(p, a, k, x, r)) ||
               (*x = expr_int(p->c, 0), *r = a, k > 0 && inside(p, a, q));
    if (!proof_positive(p, q))
        return false;
    expr_divmod(p->c, a, q, &quotient, &left);
    for (int i = 0; i < 3; i++) {
        *x = expr_offset(p->c, quotient, off[i]);
        *r = expr_sub(p->c, left, expr_scale(p->c, q, off[i]));
        if (inside(p, *r, q))
            return true;
    }
    return false;
}

/* For a divisor g*q of one term: a = g*high + low with low in [0, g)? Then a // (g*q) = high // q
 * and a % (g*q) = g*(high % q) + low. Each common factor of the divisor and a term is tried as
 * g. */
static bool
peel_low(Proof *p, const Expr *a, const Expr *q, const Expr **g, const Expr **high,
         const Expr **low)
{
    if (q->nterm != 1 || a->nterm < 2)
        return false;
    for (uint32_t i = 0; i < a->nterm; i++) {
        if (!a->term[i].nfactor)
            continue;
        *g = expr_common_factor(p->c, expr_term(p->c, a->term[i]), q);
        if (expr_is(*g, 1) || *g == q)
            continue;
        *high = *low = expr_int(p->c, 0);
        for (uint32_t k = 0; k < a->nterm; k++) {
            Term t = a->term[k];
            const Term *by = &(*g)->term[0];
            if (!t.nfactor && !by->nfactor) { /* a number divides both */
                *high = expr_offset(p->c, *high, floor_div(t.coef, by->coef));
                *low = expr_offset(p->c, *low, floor_mod(t.coef, by->coef));
            } else if (term_divides(by, &t)) {
                *high = expr_add(p->c, *high, term_quotient(p->c, &t, by));
            } else {
                *low = expr_add(p->c, *low, expr_term(p->c, t));
            }
        }
        if (proof_positive(p, *g) && inside(p, *low, *g))
            return true;
    }
    return false;
}

static const Expr *
reduce(Proof *p, AtomKind kind, const Expr *a, const Expr *q)
{
    Ctx *c = p->c;
    const Expr *x, *r, *g, *high, *low;

    if (one_period(p, a, q, &x, &r))
        return kind == ATOM_DIV ? x : r;
    if (peel_low(p, a, q, &g, &high, &low)) {
        const Expr *outer = expr_exact_div(c, q, g);
        return kind == ATOM_DIV ? expr_div(c, high, outer)
                                : expr_add(c, expr_mul(c, g, expr_mod(c, high, outer)), low);
    }
    g = expr_common_factor(c, a, q);
    if (!expr_const(q, NULL) && proof_positive(p, q)) {
        if (!expr_is(g, 1)) { /* q >= 1, so its factors are not 0 */
            const Expr *small = expr_exact_div(c, a, g), *by = expr_exact_div(c, q, g);
            return kind == ATOM_DIV ? expr_div(c, small, by)
                                    : expr_mul(c, g, expr_mod(c, small, by));
        }
        expr_divmod(c, a, q, &x, &r);
        if (x->nterm && !r->bad)
            return kind == ATOM_DIV ? expr_add(c, x, expr_div(c, r, q)) : expr_mod(c, r, q);
    }
    return kind == ATOM_DIV ? expr_div(c, a, q) : expr_mod(c, a, q);
}

/* ---- min and max ----------------------------------------------------------------------------- */

static const Expr *
reduce_min_max(Proof *p, AtomKind kind, uint32_t n, const Expr **arg)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n && n > 1; k++) {
            if (k == i)
                continue;
            const Expr *slack =
                kind == ATOM_MIN ? expr_sub(p->c, arg[k], arg[i]) : expr_sub(p->c, arg[i], arg[k]);
            if (!proof_nonneg(p, slack, 4))
                continue;
            arg[k] = arg[--n];
            i = -1u;
            break;
        }
    return n == 1 ? arg[0] : expr_min_max(p->c, kind, n, arg);
}

/* A dimension that is 0 or 1 is a factor of the others' broadcast; one between 1 and another is
 * dropped. */
static const Expr *
reduce_broadcast(Proof *p, uint32_t n, const Expr **arg)
{
    const Expr *factor = expr_int(p->c, 1);
    bool some = true; /* is none 0? */

    for (uint32_t i = 0; i < n; i++) {
        Interval b = proof_bounds(p, arg[i]);
        if (b.lo >= 0 && b.hi <= 1) {
            factor = expr_mul(p->c, factor, arg[i]);
            arg[i--] = arg[--n];
            continue;
        }
        some &= b.lo >= 1;
        for (uint32_t k = 0; b.lo >= 1 && k < n; k++)
            if (k != i && proof_nonneg(p, expr_sub(p->c, arg[k], arg[i]), 4)) {
                arg[i--] = arg[--n];
                break;
            }
    }
    if (n == 0)
        return factor;
    return expr_mul(p->c, factor,
                    n == 1 ? arg[0]
                    : some ? reduce_min_max(p, ATOM_MAX, n, arg)
                           : expr_min_max(p->c, ATOM_BROADCAST, n, arg));
}

/* ---- one round ------------------------------------------------------------------------------- */

static const Expr *round_of(Proof *p, const Expr *e);

/* What a equals by a learnt fact; NULL: none. */
static const Expr *
fact_of(const struct ExprTable *t, const Atom *a)
{
    for (uint32_t i = 0; i < t->fact.n; i++)
        if (t->fact.at[i].atom == a)
            return t->fact.at[i].to;
    return NULL;
}

/* The same for one min, max or broadcast plus a number; itself if there is no fact. */
static const Expr *
what_is_known(Proof *p, const Expr *e)
{
    const struct ExprTable *t = expr_table(p->c);
    int64_t plus = 0;

    if (t->fact.n == t->nsaid)
        return e;
    const Atom *a = expr_single(e, ATOM_MIN, &plus);
    if (!a)
        a = expr_single(e, ATOM_MAX, &plus);
    if (!a)
        a = expr_single(e, ATOM_BROADCAST, &plus);
    const Expr *to = a ? fact_of(t, a) : NULL;
    return to ? expr_offset(p->c, to, plus) : e;
}

static const Expr *
simplify_var(Proof *p, const Atom *a)
{
    const struct ExprTable *t = expr_table(p->c);
    const Expr *to = fact_of(t, a);

    if (to)
        return to;
    if (t->nfixed && a->var.kind == VAR_SYMBOL) {
        Interval b = expr_symbol_get(p->c, a->var);
        if (b.lo == b.hi)
            return expr_int(p->c, b.lo);
    }
    return expr_of_atom(a);
}

static const Expr *
simplify_atom(void *user, const Atom *a)
{
    Proof *p = user;
    const Expr *arg[a->narg + 1];

    if (a->kind == ATOM_VAR)
        return simplify_var(p, a);
    if (p->budget-- <= 0)
        return expr_of_atom(a);
    for (uint32_t i = 0; i < a->narg; i++) {
        arg[i] = round_of(p, a->arg[i]);
        if (arg[i]->bad)
            return arg[i];
    }
    if (a->kind == ATOM_DIV || a->kind == ATOM_MOD)
        return reduce(p, a->kind, arg[0], arg[1]);
    const Expr *to = fact_of(expr_table(p->c), a);
    if (to)
        return to;
    return what_is_known(p, a->kind == ATOM_BROADCAST ? reduce_broadcast(p, a->narg, arg)
                                                      : reduce_min_max(p, a->kind, a->narg, arg));
}

/* Variables alone, none of which has a fact. */
static bool
is_settled(const struct ExprTable *t, const Expr *e)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++)
            if (e->term[i].factor[k].atom->kind != ATOM_VAR)
                return false;
    return t->nsaid == 0 && t->nfixed == 0;
}

static const Expr *
round_of(Proof *p, const Expr *e)
{
    return is_settled(expr_table(p->c), e) ? e : expr_map_atoms(p->c, e, simplify_atom, p);
}

/* ---- c*(p // c) + p % c -> p ----------------------------------------------------------------- */

/* Has e all terms of part, with coefficients of at least their magnitude and the same sign? */
static bool
contains(const Expr *e, const Expr *part)
{
    uint32_t i = 0;

    for (uint32_t k = 0; k < part->nterm; k++, i++) {
        while (i < e->nterm && term_compare(&e->term[i], &part->term[k]))
            i++;
        if (i == e->nterm || (e->term[i].coef < 0) != (part->term[k].coef < 0) ||
            (e->term[i].coef < 0 ? e->term[i].coef > part->term[k].coef
                                 : e->term[i].coef < part->term[k].coef))
            return false;
    }
    return part->nterm > 0;
}

static const Expr *
recombine(Proof *p, const Expr *e)
{
    Ctx *c = p->c;

    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Factor *f = &e->term[i].factor[k];
            const Expr *coef, *rest;
            if (f->atom->kind != ATOM_MOD || f->power != 1)
                continue;
            const Expr *mod = expr_term(c, e->term[i]);
            if (!expr_split_atom(c, mod, f->atom, &coef, &rest))
                continue;
            const Expr *top = f->atom->arg[0], *by = f->atom->arg[1];
            const Expr *div = expr_mul(c, expr_mul(c, coef, by), expr_div(c, top, by));
            if (!contains(e, div))
                continue;
            e = expr_add(c, expr_sub(c, expr_sub(c, e, mod), div), expr_mul(c, coef, top));
            i = -1u; /* a new expression: start again; each time one mod is removed */
            break;
        }
    return e;
}

static const Expr *
proof_simplify(Proof *p, const Expr *e)
{
    for (int i = 0; i < MAX_ROUNDS && !e->bad; i++) {
        const Expr *next = recombine(p, round_of(p, e));
        if (next == e || next->bad)
            return next;
        e = next;
    }
    return e;
}

/* A cached result under some ranges: a search over nests asks for the same parts many times. */
typedef struct Simplified {
    struct Simplified *next;
    const Expr *e, *to;
    uint32_t learnt, n; /* facts at the time; ranges' number */
    Range range[];
} Simplified;

static uint64_t
hash_query(const Ranges *r, const Expr *e)
{
    uint64_t h = MAP_PTR(e);

    for (uint32_t i = 0; i < r->n; i++)
        h = mix_range(h, &r->at[i]);
    return h;
}

static bool
is_same_range(const Range *a, const Range *b)
{
    return a->var.kind == b->var.kind && a->var.id == b->var.id && a->begin == b->begin &&
           a->extent == b->extent;
}

static Simplified *
find_simplified(Simplified *first, const Ranges *r, const Expr *e)
{
    for (Simplified *s = first; s; s = s->next) {
        bool same = s->e == e && s->n == r->n;
        for (uint32_t i = 0; same && i < r->n; i++)
            same = is_same_range(&s->range[i], &r->at[i]);
        if (same)
            return s;
    }
    return NULL;
}

const Expr *
expr_simplify(Ctx *c, const Ranges *r, const Expr *e)
{
    struct ExprTable *t = expr_table(c);
    uint64_t at = 0;

    if (e->bad || is_settled(t, e))
        return e;
    const Ranges none = { 0 }, *ranges = r ? r : &none;
    uint64_t key = hash_query(ranges, e);
    Simplified *first = map_get(&t->simple, key, &at) ? (void *)(uintptr_t)at : NULL,
               *s = find_simplified(first, ranges, e);
    if (s && s->learnt == t->nlearnt)
        return s->to;
    Proof p = proof_begin(c, r, e);
    const int budget = p.budget;
    const Expr *to = proof_simplify(&p, e);
    to = to->bad ? e : to; /* the coefficients do not fit this form */
    if (p.budget == budget)
        return to; /* no proof was needed */
    if (!s) {
        s = arena_alloc(c->arena, sizeof *s + ranges->n * sizeof *s->range);
        s->next = first;
        s->e = e;
        s->n = ranges->n;
        for (uint32_t i = 0; i < ranges->n; i++)
            s->range[i] = ranges->at[i];
        map_put(&t->simple, key, MAP_PTR(s));
    }
    s->to = to;
    s->learnt = t->nlearnt;
    return to;
}

/* ---- learning -------------------------------------------------------------------------------- */

/* low <= high was checked: for one symbol that is a bound. */
static void
learn_le(Ctx *c, const Expr *low, const Expr *high)
{
    const Expr *d = expr_sub(c, high, low); /* d >= 0 */
    int64_t k = expr_constant_part(d);

    if (d->bad || d->nterm != 1 + (k != 0) || d->term->nfactor != 1 ||
        d->term->factor->power != 1 || d->term->factor->atom->kind != ATOM_VAR ||
        d->term->factor->atom->var.kind != VAR_SYMBOL || k == INT64_MIN)
        return;
    Var v = d->term->factor->atom->var;
    int64_t coef = d->term->coef;
    if (coef > 0)
        expr_symbol_range(c, v, (Interval){ -floor_div(k, coef), INT64_MAX });
    else if (coef != INT64_MIN)
        expr_symbol_range(c, v, (Interval){ INT64_MIN, floor_div(k, -coef) });
}

/* x == min(…) + plus implies x <= every argument + plus; max the other way. */
static bool
learn_min_max(Ctx *c, const Expr *x, const Expr *y)
{
    int64_t plus;
    const Atom *a = expr_single(y, ATOM_MIN, &plus);

    if (!a)
        a = expr_single(y, ATOM_MAX, &plus);
    for (uint32_t i = 0; a && i < a->narg; i++) {
        const Expr *arg = expr_offset(c, a->arg[i], plus);
        if (a->kind == ATOM_MIN)
            learn_le(c, x, arg);
        else
            learn_le(c, arg, x);
    }
    return a != NULL;
}

/* The position of the last late symbol in it; 0: none. */
static uint32_t
latest_in(Ctx *c, const Expr *e)
{
    uint32_t last = 0;

    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_SYMBOL && expr_symbol_info(c, v)->late > last)
            last = expr_symbol_info(c, v)->late;
    return last;
}

/* Is one of its symbols defined after v? v may be used before that. */
static bool
has_later(Ctx *c, const Expr *e, Var v)
{
    return latest_in(c, e) > latest_in(c, expr_var(c, v));
}

/* The newest symbol that d == 0 gives in terms of others, none of them defined after it: v = to. */
static const Atom *
orient(Ctx *c, const Expr *d, const Expr **to)
{
    const Atom *newest = NULL;

    for (uint32_t i = 0; i < d->nterm; i++) {
        const Term *t = &d->term[i];
        const Expr *coef, *rest;
        if (t->nfactor != 1 || t->factor->power != 1 || t->factor->atom->kind != ATOM_VAR ||
            t->factor->atom->var.kind != VAR_SYMBOL || (t->coef != 1 && t->coef != -1) ||
            (newest && t->factor->atom->order < newest->order) ||
            !expr_linear(c, d, t->factor->atom->var, &coef, &rest) || !expr_const(coef, NULL) ||
            has_later(c, rest, t->factor->atom->var))
            continue;
        newest = t->factor->atom;
        *to = expr_scale(c, rest, -t->coef);
    }
    return newest;
}

/* Does the atom occur anywhere in e? */
static bool
has_atom(const Expr *e, const Atom *a)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Atom *b = e->term[i].factor[k].atom;
            if (a == b)
                return true;
            for (uint32_t j = 0; j < b->narg; j++)
                if (has_atom(b->arg[j], a))
                    return true;
        }
    return false;
}

/* The atom of a kind that d == 0 gives in terms of others, none of them defined after it:
 * broadcast(n, m) = p. */
static const Atom *
orient_atom(Ctx *c, AtomKind kind, const Expr *d, const Expr **to)
{
    const Expr *coef, *rest;

    for (uint32_t i = 0; i < d->nterm; i++) {
        const Term *t = &d->term[i];
        const Atom *a = t->nfactor == 1 && t->factor->power == 1 ? t->factor->atom : NULL;
        if (!a || a->kind != kind || (t->coef != 1 && t->coef != -1) ||
            !expr_split_atom(c, d, a, &coef, &rest) || !expr_const(coef, NULL))
            continue;
        if (has_atom(rest, a) || latest_in(c, rest) > latest_in(c, expr_of_atom(a)))
            continue;
        *to = expr_scale(c, rest, -t->coef);
        return a;
    }
    return NULL;
}

/* A broadcast is at least each of its arguments, and is not 0 only if none of them is. */
static void
learn_parts(Ctx *c, const Atom *a, const Expr *to)
{
    for (uint32_t i = 0; i < a->narg; i++) {
        if (expr_bounds(c, NULL, to).lo < 1)
            continue;
        learn_le(c, expr_int(c, 1), a->arg[i]);
        learn_le(c, a->arg[i], to);
    }
}

static void
add_fact(Ctx *c, const Atom *a, const Expr *to)
{
    struct ExprTable *t = expr_table(c);

    VEC_PUSH(c->arena, &t->fact, ((LearntFact){ a, to }));
    t->nsaid += a->kind == ATOM_VAR;
    t->nlearnt++;
}

/* Facts about minima, maxima and broadcasts, rewritten by the newest facts: one whose left side
 * changes is learnt anew. */
static void
renew_facts(Ctx *c)
{
    struct ExprTable *t = expr_table(c);

    for (uint32_t i = 0, left = t->fact.n; left && i < t->fact.n; i++) {
        LearntFact f = t->fact.at[i];
        if (f.atom->kind == ATOM_VAR)
            continue;
        const Expr *arg[f.atom->narg], *e;
        bool same = true;
        for (uint32_t k = 0; k < f.atom->narg; k++) {
            arg[k] = expr_simplify(c, NULL, f.atom->arg[k]);
            same &= arg[k] == f.atom->arg[k];
        }
        if (same || (e = expr_min_max(c, f.atom->kind, f.atom->narg, arg)) == expr_of_atom(f.atom))
            continue;
        t->fact.at[i] = t->fact.at[--t->fact.n];
        t->nlearnt++;
        expr_assume_eq(c, e, f.to);
        i = -1u; /* the list of facts changed */
        left--;
    }
}

void
expr_assume_eq(Ctx *c, const Expr *a, const Expr *b)
{
    struct ExprTable *t = expr_table(c);
    const Expr *to, *d;

    if (a->bad || b->bad)
        return;
    a = expr_simplify(c, NULL, a);
    b = expr_simplify(c, NULL, b);
    d = expr_sub(c, a, b);
    if (d->bad || expr_const(d, NULL))
        return;
    bool known = learn_min_max(c, a, b);
    known |= learn_min_max(c, b, a);
    learn_le(c, a, b);
    learn_le(c, b, a);
    const Atom *v = orient_atom(c, ATOM_BROADCAST, d, &to);
    if (v && !to->bad) {
        add_fact(c, v, to);
        learn_parts(c, v, to);
        return;
    }
    if (expr_simplify(c, NULL, a) == expr_simplify(c, NULL, b))
        return; /* the ranges express it fully */
    v = known ? NULL : orient(c, d, &to);
    if (!v && ((v = orient_atom(c, ATOM_MAX, d, &to)) || (v = orient_atom(c, ATOM_MIN, d, &to))) &&
        !to->bad) {
        add_fact(c, v, to);
        return;
    }
    if (!v || to->bad)
        return;
    Interval range = expr_symbol_get(c, v->var);
    learn_le(c, expr_int(c, range.lo), to);
    if (range.hi != INT64_MAX)
        learn_le(c, to, expr_int(c, range.hi));
    expr_symbol_range(c, v->var, expr_bounds(c, NULL, to));
    for (uint32_t i = 0; i < t->fact.n; i++)
        t->fact.at[i].to = expr_subst(c, t->fact.at[i].to, &(Binding){ v->var, to }, 1);
    add_fact(c, v, to);
    renew_facts(c);
}

uint32_t
expr_learnt(Ctx *c)
{
    return expr_table(c)->nlearnt;
}
