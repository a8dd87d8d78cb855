/* range: the values an expression can take, and proofs that one is never below another.
 *
 * Bounds are saturating interval arithmetic over atoms. A proof of e >= 0 tries bounds first, then
 * weakens e step by step, each step valid at every point of the ranges:
 *   - e is monotone in a loop variable or a symbol: substitute the end of its range, which may be
 *     symbolic (j <= s - 1). This loses nothing;
 *   - a min or max splits into its arguments: all must hold, or one must, by its sign; a broadcast
 *     equals one of its arguments, so all must;
 *   - p % q is within [0, q - 1];
 *   - p // q with coefficient x: q*e has x*(p - p % q) there, and the sign of q*e is that of e.
 * Every step costs budget; an exhausted budget proves nothing.
 */
#include "expr/internal.h"

#define LO INT64_MIN
#define HI INT64_MAX
/* steps of one query: an index into a convolution's input in whole tiles, in groups of channels,
 * takes several hundred */
#define PROOF_BUDGET 3000

/* ---- intervals; LO and HI are infinite ------------------------------------------------------- */

static const Interval everything = { LO, HI };

static int64_t
sat_add(int64_t a, int64_t b, int64_t infinite)
{
    int64_t r;

    if (a == infinite || b == infinite)
        return infinite;
    if (!add_overflows(a, b, &r))
        return r;
    return a > 0 ? HI : LO;
}

static int64_t
sat_mul(int64_t a, int64_t b)
{
    int64_t r;

    if (a == 0 || b == 0)
        return 0;
    bool infinite = a == LO || a == HI || b == LO || b == HI;
    if (!infinite && !mul_overflows(a, b, &r))
        return r;
    return (a < 0) == (b < 0) ? HI : LO;
}

static int64_t
sat_div(int64_t a, int64_t b) /* b >= 1 */
{
    if (a == LO || a == HI)
        return a;
    if (b == HI)
        return a < 0 ? -1 : 0;
    return floor_div(a, b);
}

static Interval
interval_add(Interval a, Interval b)
{
    Interval r = { sat_add(a.lo, b.lo, LO), sat_add(a.hi, b.hi, HI) };

    /* a finite sum that overflowed is not a bound */
    if (r.lo == HI)
        r.lo = HI - 1;
    if (r.hi == LO)
        r.hi = LO + 1;
    return r;
}

static Interval
interval_of4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    Interval r = { a, a };
    int64_t v[3] = { b, c, d };

    for (int i = 0; i < 3; i++) {
        r.lo = v[i] < r.lo ? v[i] : r.lo;
        r.hi = v[i] > r.hi ? v[i] : r.hi;
    }
    return r;
}

static Interval
interval_mul(Interval a, Interval b)
{
    return interval_of4(sat_mul(a.lo, b.lo), sat_mul(a.lo, b.hi), sat_mul(a.hi, b.lo),
                        sat_mul(a.hi, b.hi));
}

static Interval
interval_pow(Interval a, uint32_t power)
{
    Interval r = a;

    for (uint32_t i = 1; i < power; i++)
        r = interval_mul(r, a);
    if (power % 2 == 0 && r.lo < 0)
        r.lo = 0;
    return r;
}

static Interval
interval_meet(Interval a, Interval b)
{
    return (Interval){ a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi };
}

/* ---- bounds ---------------------------------------------------------------------------------- */

SymbolInfo *
expr_symbol_info(Ctx *c, Var symbol)
{
    struct ExprTable *t = expr_table(c);
    uint64_t found;

    if (map_get(&t->symbol, symbol.id, &found))
        return (SymbolInfo *)(uintptr_t)found;
    SymbolInfo *s = NEW(c->arena, SymbolInfo);
    *s = (SymbolInfo){ .range = { 0, HI }, .size = -1, .fixed = -1 };
    map_put(&t->symbol, symbol.id, MAP_PTR(s));
    return s;
}

Interval
expr_symbol_get(Ctx *c, Var symbol)
{
    return expr_symbol_info(c, symbol)->range;
}

bool
expr_symbol_range(Ctx *c, Var symbol, Interval range)
{
    struct ExprTable *t = expr_table(c);
    Interval *now = &expr_symbol_info(c, symbol)->range, met = interval_meet(*now, range);

    if (met.lo > met.hi)
        return false;
    if (met.lo == now->lo && met.hi == now->hi)
        return true;
    t->nfixed += met.lo == met.hi;
    t->nlearnt++;
    *now = met;
    return true;
}

void
expr_symbol_expect(Ctx *c, Var symbol, SizeHints sizes)
{
    sizes.at = arena_copy(c->arena, sizes.at, sizes.n * sizeof *sizes.at);
    expr_symbol_info(c, symbol)->hints = sizes;
}

SizeHints
expr_symbol_hints(Ctx *c, Var symbol)
{
    const SymbolInfo *s = expr_symbol_info(c, symbol);
    SizeHints u = s->hints;

    for (; u.n && u.at[0] < s->range.lo; u.n--)
        u.at++;
    while (u.n && u.at[u.n - 1] > s->range.hi)
        u.n--;
    return u;
}

int64_t
expr_symbol_supposed(Ctx *c, Var symbol)
{
    SizeHints said = expr_symbol_hints(c, symbol);
    Interval r = expr_symbol_get(c, symbol);
    int64_t count = expr_symbol_info(c, symbol)->size;

    if (said.n)
        return said.at[said.n - 1];
    if (count >= 0)
        return count < r.lo ? r.lo : count > r.hi ? r.hi : count;
    return r.hi <= 2 * EXPR_SUPPOSED ? r.lo + (r.hi - r.lo + 1) / 2
           : r.lo > EXPR_SUPPOSED    ? r.lo
                                     : EXPR_SUPPOSED;
}

static const Range *
range_of(const Proof *p, Var v)
{
    for (uint32_t i = p->r ? p->r->n : 0; i-- > 0;)
        if (p->r->at[i].var.kind == v.kind && p->r->at[i].var.id == v.id)
            return &p->r->at[i];
    return NULL;
}

static Interval
var_bounds(Proof *p, Var v)
{
    const Range *range = range_of(p, v);

    if (range && p->budget-- > 0) {
        Interval begin = proof_bounds(p, range->begin), extent = proof_bounds(p, range->extent);
        Interval r = { begin.lo, sat_add(begin.hi, sat_add(extent.hi, -1, HI), HI) };
        return r.hi < r.lo ? everything : r; /* an empty range: no query is ever about it */
    }
    if (v.kind != VAR_SYMBOL)
        return everything;
    if (p->intrinsic)
        return (Interval){ 0, HI };
    Interval r = expr_symbol_get(p->c, v);
    for (uint32_t i = 0; i < p->nlow; i++)
        if (p->low[i].id == v.id && p->low[i].lo > r.lo && p->low[i].lo <= r.hi)
            r.lo = p->low[i].lo;
    return r;
}

static Interval
div_bounds(Interval a, Interval b)
{
    if (b.lo < 0)
        return everything;
    if (b.lo == 0) /* a divisor is not 0 */
        b.lo = 1;
    if (b.hi < b.lo)
        b.hi = b.lo;
    return interval_of4(sat_div(a.lo, b.lo), sat_div(a.lo, b.hi), sat_div(a.hi, b.lo),
                        sat_div(a.hi, b.hi));
}

static Interval
mod_bounds(Interval a, Interval b)
{
    if (b.lo < 0)
        return everything;
    Interval r = { 0, b.hi == HI ? HI : b.hi > 0 ? b.hi - 1 : 0 };
    if (a.lo >= 0 && a.hi < r.hi)
        r.hi = a.hi;
    if (a.lo >= 0 && b.lo > a.hi)
        r.lo = a.lo;
    return r;
}

static Interval
atom_bounds(Proof *p, const Atom *a)
{
    if (a->kind == ATOM_VAR)
        return var_bounds(p, a->var);
    Interval r = proof_bounds(p, a->arg[0]);
    for (uint32_t i = 1; i < a->narg; i++) {
        Interval b = proof_bounds(p, a->arg[i]);
        switch (a->kind) {
        case ATOM_DIV: return div_bounds(r, b);
        case ATOM_MOD: return mod_bounds(r, b);
        case ATOM_MIN:
            r = (Interval){ b.lo < r.lo ? b.lo : r.lo, b.hi < r.hi ? b.hi : r.hi };
            break;
        case ATOM_MAX:
            r = (Interval){ b.lo > r.lo ? b.lo : r.lo, b.hi > r.hi ? b.hi : r.hi };
            break;
        case ATOM_BROADCAST:
            r = (Interval){ r.lo < 1 || b.lo < 1 ? 0
                            : b.lo > r.lo        ? b.lo
                                                 : r.lo,
                            b.hi > r.hi ? b.hi : r.hi };
            break;
        case ATOM_VAR: break;
        }
    }
    return r;
}

Interval
proof_bounds(Proof *p, const Expr *e)
{
    Interval sum = { 0, 0 };

    if (e->bad || p->budget-- <= 0)
        return everything;
    for (uint32_t i = 0; i < e->nterm; i++) {
        Interval term = { e->term[i].coef, e->term[i].coef };
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            Factor f = e->term[i].factor[k];
            term = interval_mul(term, interval_pow(atom_bounds(p, f.atom), f.power));
        }
        sum = interval_add(sum, term);
    }
    return sum;
}

/* ---- what ranges imply for symbols ----------------------------------------------------------- */

static void
learn_low(Proof *p, Var v, int64_t lo)
{
    if (v.kind == VAR_SYMBOL && lo > 0 && p->nlow < sizeof p->low / sizeof *p->low) {
        p->low[p->nlow].id = v.id;
        p->low[p->nlow++].lo = lo;
    }
}

/* A quotient like (s + 3) // 4 that is never negative is >= 1: derives a bound of s. */
static void
learn_quotient(Proof *p, const Atom *a)
{
    const Expr *by = a->arg[1], *of = a->arg[0];
    int64_t d, o = expr_constant_part(of);

    if (!expr_const(by, &d) || d < 1 || o < 0 || of->nterm != 1 + (o != 0) || of->term->coef < 1 ||
        of->term->nfactor != 1 || of->term->factor->power != 1 ||
        of->term->factor->atom->kind != ATOM_VAR)
        return;
    learn_low(p, of->term->factor->atom->var, -floor_div(o - d, of->term->coef));
}

/* An axis has a point only if its extent is >= 1: then no factor of s*h is 0, and n - 2 gives n >=
 * 3. */
static void
learn_extent(Proof *p, const Expr *extent)
{
    int64_t k = expr_constant_part(extent);

    if (extent->bad || extent->nterm != 1 + (k != 0) || extent->term->coef <= 0)
        return;
    const Term *t = extent->term;
    for (uint32_t i = 0; i < t->nfactor; i++) {
        const Atom *a = t->factor[i].atom;
        if (a->kind == ATOM_DIV && k == 0)
            learn_quotient(p, a);
        for (uint32_t j = 0; a->kind == ATOM_BROADCAST && k == 0 && j < a->narg; j++)
            learn_extent(p, a->arg[j]);
        if (a->kind != ATOM_VAR)
            continue;
        if (k == 0)
            learn_low(p, a->var, 1);
        else if (t->nfactor == 1 && t->factor->power == 1)
            learn_low(p, a->var, -floor_div(k - 1, t->coef));
    }
}

/* A range implies something only for a query about its variable: elsewhere it may be empty. */
Proof
proof_begin(Ctx *c, const Ranges *r, const Expr *about)
{
    Proof p = { .c = c, .r = r, .budget = PROOF_BUDGET };

    for (uint32_t i = 0; r && i < r->n; i++)
        if (!expr_const(r->at[i].extent, NULL) && expr_uses(about, r->at[i].var))
            learn_extent(&p, r->at[i].extent);
    return p;
}

/* A divisor inside loops divides only where all of them have points; where it is 0 the quotient is
 * never used, so any answer is right. */
bool
proof_positive(Proof *p, const Expr *divisor)
{
    if (proof_bounds(p, divisor).lo >= 1)
        return true;
    if (!p->r || p->intrinsic)
        return false;
    Proof all = *p;
    for (uint32_t i = 0; i < p->r->n; i++)
        learn_extent(&all, p->r->at[i].extent);
    bool yes = proof_nonneg(&all, expr_offset(p->c, divisor, -1), 3);
    p->budget = all.budget;
    return yes;
}

/* ---- proofs ---------------------------------------------------------------------------------- */

typedef enum { FLAT, RISING, FALLING, UNCLEAR } Slope;

static Slope
slope_add(Slope a, Slope b)
{
    return a == FLAT ? b : b == FLAT || a == b ? a : UNCLEAR;
}

static Slope
sign_of(Proof *p, const Expr *e)
{
    Interval b = proof_bounds(p, e);
    return b.lo >= 0 ? RISING : b.hi <= 0 ? FALLING : UNCLEAR;
}

static Slope slope_in(Proof *p, const Expr *e, Var v);

static Slope
atom_slope(Proof *p, const Atom *a, Var v)
{
    Slope s = FLAT;

    switch (a->kind) {
    case ATOM_VAR: return a->var.kind == v.kind && a->var.id == v.id ? RISING : FLAT;
    case ATOM_DIV:
        s = slope_in(p, a->arg[0], v);
        if (expr_uses(a->arg[1], v))
            return UNCLEAR;
        return s == FLAT || proof_bounds(p, a->arg[1]).lo >= 1 ? s : UNCLEAR;
    case ATOM_MOD: return expr_uses(a->arg[0], v) || expr_uses(a->arg[1], v) ? UNCLEAR : FLAT;
    case ATOM_MIN:
    case ATOM_MAX:
    case ATOM_BROADCAST:
        for (uint32_t i = 0; i < a->narg; i++)
            s = slope_add(s, slope_in(p, a->arg[i], v));
        return s;
    }
    return UNCLEAR;
}

/* How e changes with v, the others fixed. */
static Slope
slope_in(Proof *p, const Expr *e, Var v)
{
    const Expr *coef, *rest;
    Slope sum = FLAT;

    if (!expr_uses(e, v))
        return FLAT;
    if (expr_linear(p->c, e, v, &coef, &rest))
        return sign_of(p, coef);
    for (uint32_t i = 0; i < e->nterm && sum != UNCLEAR; i++) {
        const Term *t = &e->term[i];
        Slope moving = FLAT, sign = t->coef > 0 ? RISING : FALLING;
        uint32_t nmoving = 0;
        for (uint32_t k = 0; k < t->nfactor; k++) {
            Slope s = atom_slope(p, t->factor[k].atom, v);
            if (s != FLAT) {
                moving = t->factor[k].power == 1 ? s : UNCLEAR;
                nmoving++;
                continue;
            }
            Interval b = interval_pow(atom_bounds(p, t->factor[k].atom), t->factor[k].power);
            if (b.lo < 0 && b.hi > 0)
                sign = UNCLEAR;
            else if (b.lo < 0 && sign != UNCLEAR)
                sign = sign == RISING ? FALLING : RISING;
        }
        if (nmoving == 0)
            continue;
        if (nmoving > 1 || moving == UNCLEAR || sign == UNCLEAR)
            return UNCLEAR;
        sum = slope_add(sum, sign == RISING ? moving : moving == RISING ? FALLING : RISING);
    }
    return sum;
}

static const Expr *
put(Proof *p, const Expr *e, Var v, const Expr *to)
{
    return expr_subst(p->c, e, &(Binding){ v, to }, 1);
}

/* e at the end of some variable's range where e is least; NULL: monotone in none. */
static const Expr *
at_range_end(Proof *p, const Expr *e)
{
    for (uint32_t i = p->r ? p->r->n : 0; i-- > 0;) {
        const Range *range = &p->r->at[i];
        Slope s = slope_in(p, e, range->var);
        if (s == RISING)
            return put(p, e, range->var, range->begin);
        if (s == FALLING)
            return put(p, e, range->var,
                       expr_offset(p->c, expr_add(p->c, range->begin, range->extent), -1));
    }
    return NULL;
}

static const Expr *
at_symbol_end(Proof *p, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e) {
        if (v.kind != VAR_SYMBOL)
            continue;
        Interval b = var_bounds(p, v);
        Slope slope = slope_in(p, e, v);
        if (slope == RISING && b.lo != LO)
            return put(p, e, v, expr_int(p->c, b.lo));
        if (slope == FALLING && b.hi != HI)
            return put(p, e, v, expr_int(p->c, b.hi));
    }
    return NULL;
}

/* The first atom of this kind that e is linear in. */
static const Atom *
linear_atom(Proof *p, const Expr *e, AtomKind kind, const Expr **coef, const Expr **rest)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Atom *a = e->term[i].factor[k].atom;
            if (a->kind == kind && expr_split_atom(p->c, e, a, coef, rest))
                return a;
        }
    return NULL;
}

/* A min or max is one of its arguments where a's sign is known; a broadcast always is. */
static bool
split_min_max(Proof *p, const Atom *a, const Expr *coef, const Expr *rest, int depth)
{
    Slope sign = sign_of(p, coef);

    if (sign == UNCLEAR && a->kind != ATOM_BROADCAST)
        return false;
    bool all = a->kind == ATOM_BROADCAST || (sign == RISING) == (a->kind == ATOM_MIN);
    for (uint32_t i = 0; i < a->narg; i++) {
        const Expr *e = expr_add(p->c, rest, expr_mul(p->c, coef, a->arg[i]));
        if (proof_nonneg(p, e, depth - 1) != all)
            return !all;
    }
    return all;
}

bool
is_sum_of_variables(const Expr *e)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        if (e->term[i].nfactor > 1 ||
            (e->term[i].nfactor &&
             (e->term[i].factor->power != 1 || e->term[i].factor->atom->kind != ATOM_VAR)))
            return false;
    return true;
}

bool
proof_nonneg(Proof *p, const Expr *e, int depth)
{
    const Expr *coef, *rest, *least;
    const Atom *a;

    if (e->bad || p->budget-- <= 0)
        return false;
    if (proof_bounds(p, e).lo >= 0)
        return true;
    if (depth == 0 || expr_const(e, NULL))
        return false;
    if ((least = at_range_end(p, e)))
        return proof_nonneg(p, least, depth - 1);
    if (is_sum_of_variables(e))
        return false;
    if ((least = at_symbol_end(p, e)))
        return proof_nonneg(p, least, depth - 1);
    if ((a = linear_atom(p, e, ATOM_BROADCAST, &coef, &rest)) ||
        (a = linear_atom(p, e, ATOM_MIN, &coef, &rest)) ||
        (a = linear_atom(p, e, ATOM_MAX, &coef, &rest)))
        return split_min_max(p, a, coef, rest, depth);
    if ((a = linear_atom(p, e, ATOM_DIV, &coef, &rest)) && proof_positive(p, a->arg[1])) {
        const Expr *whole = expr_sub(p->c, a->arg[0], expr_mod(p->c, a->arg[0], a->arg[1]));
        least = expr_add(p->c, expr_mul(p->c, rest, a->arg[1]), expr_mul(p->c, coef, whole));
        return proof_nonneg(p, least, depth - 1);
    }
    if ((a = linear_atom(p, e, ATOM_MOD, &coef, &rest)) && proof_positive(p, a->arg[1])) {
        Slope sign = sign_of(p, coef);
        if (sign == UNCLEAR)
            return false;
        least = sign == RISING
                    ? rest
                    : expr_add(p->c, rest, expr_mul(p->c, coef, expr_offset(p->c, a->arg[1], -1)));
        return proof_nonneg(p, least, depth - 1);
    }
    return false;
}
