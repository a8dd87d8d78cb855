/* walk: visits atoms, and rebuilds an expression from its leaves. */
#include "expr/internal.h"

#include <stdlib.h>
#include <string.h>

static bool
same_var(Var a, Var b)
{
    return a.kind == b.kind && a.id == b.id;
}

uint32_t
expr_count_vars(const Expr *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; e && e->vars && i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Atom *a = e->term[i].factor[k].atom;
            n += a->kind == ATOM_VAR;
            for (uint32_t j = 0; j < a->narg; j++)
                n += expr_count_vars(a->arg[j]);
        }
    return n;
}

static Var *
list_vars(const Expr *e, Var *list, Var *end)
{
    for (uint32_t i = 0; e && e->vars && i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Atom *a = e->term[i].factor[k].atom;
            const Var *at = list;
            for (uint32_t j = 0; j < a->narg; j++)
                end = list_vars(a->arg[j], list, end);
            while (at < end && !same_var(*at, a->var))
                at++;
            if (a->kind == ATOM_VAR && at == end)
                *end++ = a->var;
        }
    return end;
}

Var *
expr_list_vars(const Expr *e, Var *distinct)
{
    return list_vars(e, distinct, distinct);
}

bool
symbols_add(SymbolSet *s, Sym symbol)
{
    if (map_get(&s->seen, MAP_PTR(symbol), NULL))
        return false;
    map_put(&s->seen, MAP_PTR(symbol), 1);
    VEC_PUSH(s->seen.arena, s, symbol);
    return true;
}

void
expr_symbols(SymbolSet *s, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_SYMBOL)
            symbols_add(s, var_symbol(v));
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(const Sym *)a, *(const Sym *)b);
}

void
symbols_sort(SymbolSet *s, uint32_t first)
{
    if (s->n > first)
        qsort(s->at + first, s->n - first, sizeof *s->at, by_name);
}

bool
expr_split_atom(Ctx *c, const Expr *e, const Atom *atom, const Expr **coef, const Expr **rest)
{
    Term other[e->nterm + 1];
    uint32_t nother = 0;

    *coef = *rest = expr_int(c, 0);
    for (uint32_t i = 0; i < e->nterm; i++) {
        Term t = e->term[i];
        Factor without[t.nfactor + 1];
        uint32_t n = 0;
        for (uint32_t k = 0; k < t.nfactor; k++)
            if (t.factor[k].atom != atom)
                without[n++] = t.factor[k];
            else if (t.factor[k].power > 1)
                return false;
        if (n == t.nfactor)
            other[nother++] = t;
        else
            *coef = expr_add(c, *coef, expr_term(c, (Term){ t.coef, n, without }));
    }
    *rest = expr_of_terms(c, nother, other);
    return true;
}

bool
expr_linear(Ctx *c, const Expr *e, Var v, const Expr **coef, const Expr **rest)
{
    const Atom *atom = expr_single(expr_var(c, v), ATOM_VAR, NULL);

    return !e->bad && expr_split_atom(c, e, atom, coef, rest) && !expr_uses(*coef, v) &&
           !expr_uses(*rest, v);
}

/* ---- substitution ---------------------------------------------------------------------------- */

typedef struct {
    const Binding *at;
    uint32_t n;
    uint64_t bits; /* of its variables */
} BindingArray;

static bool is_bound(const Expr *e, BindingArray b);

static bool
term_is_bound(const Term *t, BindingArray b)
{
    for (uint32_t k = 0; k < t->nfactor; k++) {
        const Atom *a = t->factor[k].atom;
        for (uint32_t i = 0; i < b.n && a->kind == ATOM_VAR; i++)
            if (same_var(b.at[i].var, a->var))
                return true;
        for (uint32_t j = 0; j < a->narg; j++)
            if (is_bound(a->arg[j], b))
                return true;
    }
    return false;
}

/* Does it use a bound variable? */
static bool
is_bound(const Expr *e, BindingArray b)
{
    for (uint32_t i = 0; i < e->nterm && (e->vars & b.bits); i++)
        if (term_is_bound(&e->term[i], b))
            return true;
    return false;
}

bool
expr_uses(const Expr *e, Var v)
{
    return is_bound(e, (BindingArray){ &(Binding){ .var = v }, 1, var_bit(v) });
}

bool
expr_uses_kind(const Expr *e, VarKind k)
{
    return e->vars & kind_bit(k);
}

static const Expr *subst(Ctx *c, const Expr *e, BindingArray b);

static const Expr *
subst_atom(Ctx *c, const Atom *a, BindingArray b)
{
    if (a->kind == ATOM_VAR) {
        for (uint32_t i = 0; i < b.n; i++)
            if (same_var(b.at[i].var, a->var))
                return b.at[i].to;
        return expr_of_atom(a);
    }
    const Expr *arg[a->narg + 1];
    bool changed = false;
    for (uint32_t i = 0; i < a->narg; i++) {
        arg[i] = subst(c, a->arg[i], b);
        changed |= arg[i] != a->arg[i];
    }
    if (!changed)
        return expr_of_atom(a);
    switch (a->kind) {
    case ATOM_DIV: return expr_div(c, arg[0], arg[1]);
    case ATOM_MOD: return expr_mod(c, arg[0], arg[1]);
    case ATOM_MIN:
    case ATOM_MAX:
    case ATOM_BROADCAST: return expr_min_max(c, a->kind, a->narg, arg);
    case ATOM_VAR: break;
    }
    return expr_bad(c);
}

static const Expr *
subst(Ctx *c, const Expr *e, BindingArray b)
{
    if (e->bad || !is_bound(e, b))
        return e;
    /* unchanged terms are kept as one: adding them one by one is quadratic */
    Term same[e->nterm];
    uint32_t nsame = 0;
    for (uint32_t i = 0; i < e->nterm; i++)
        if (!term_is_bound(&e->term[i], b))
            same[nsame++] = e->term[i];
    const Expr *sum = expr_of_terms(c, nsame, same);
    for (uint32_t i = 0; i < e->nterm; i++) {
        if (!term_is_bound(&e->term[i], b))
            continue;
        const Expr *product = expr_int(c, e->term[i].coef);
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            Factor f = e->term[i].factor[k];
            product = expr_mul(c, product, expr_pow(c, subst_atom(c, f.atom, b), f.power));
        }
        sum = expr_add(c, sum, product);
    }
    return sum;
}

const Expr *
expr_subst(Ctx *c, const Expr *e, const Binding *b, uint32_t n)
{
    BindingArray bound = { b, n, 0 };

    for (uint32_t i = 0; i < n; i++)
        bound.bits |= var_bit(b[i].var);
    return subst(c, e, bound);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef bool ValueFn(void *user, Var v, int64_t *out);

static bool
eval_atom(const Atom *a, ValueFn *value, void *user, int64_t *out)
{
    int64_t x, y;

    if (a->kind == ATOM_VAR)
        return value(user, a->var, out);
    if (!expr_eval(a->arg[0], value, user, &x))
        return false;
    for (uint32_t i = 1; i < a->narg; i++) {
        if (!expr_eval(a->arg[i], value, user, &y))
            return false;
        switch (a->kind) {
        case ATOM_DIV:
        case ATOM_MOD:
            if (y == 0 || (x == INT64_MIN && y == -1))
                return false;
            x = a->kind == ATOM_DIV ? floor_div(x, y) : floor_mod(x, y);
            break;
        case ATOM_MIN: x = y < x ? y : x; break;
        case ATOM_MAX: x = y > x ? y : x; break;
        case ATOM_BROADCAST: x = broadcast64(x, y); break;
        case ATOM_VAR: break;
        }
    }
    *out = x;
    return true;
}

bool
expr_eval(const Expr *e, ValueFn *value, void *user, int64_t *out)
{
    int64_t sum = 0;

    if (e->bad)
        return false;
    for (uint32_t i = 0; i < e->nterm; i++) {
        int64_t product = e->term[i].coef, v;
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            if (!eval_atom(e->term[i].factor[k].atom, value, user, &v))
                return false;
            for (uint32_t p = 0; p < e->term[i].factor[k].power; p++)
                if (mul_overflows(product, v, &product))
                    return false;
        }
        if (add_overflows(sum, product, &sum))
            return false;
    }
    *out = sum;
    return true;
}
