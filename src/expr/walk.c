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

bool
expr_uses(const Expr *e, Var v)
{
    for (uint32_t i = 0; i < e->nterm && (e->vars & var_bit(v)); i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Atom *a = e->term[i].factor[k].atom;
            if (a->kind == ATOM_VAR && same_var(a->var, v))
                return true;
            for (uint32_t j = 0; j < a->narg; j++)
                if (expr_uses(a->arg[j], v))
                    return true;
        }
    return false;
}

bool
expr_uses_kind(const Expr *e, VarKind k)
{
    return e->vars & kind_bit(k);
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

const Expr *
expr_apply(Ctx *c, AtomKind kind, uint32_t n, const Expr *const *arg)
{
    return kind == ATOM_DIV   ? expr_div(c, arg[0], arg[1])
           : kind == ATOM_MOD ? expr_mod(c, arg[0], arg[1])
                              : expr_min_max(c, kind, n, arg);
}

const Expr *
expr_map_atoms(Ctx *c, const Expr *e, const Expr *(*to)(void *user, const Atom *a), void *user)
{
    const Expr *atom[expr_count_factors(e) + 1], **at = atom;
    Term same[e->nterm + 1], moved[e->nterm + 1];
    uint32_t nsame = 0, nmoved = 0;

    for (uint32_t i = 0; i < e->nterm; i++) {
        const Expr **first = at;
        bool all = true;
        for (uint32_t k = 0; k < e->term[i].nfactor; k++, at++) {
            *at = to(user, e->term[i].factor[k].atom);
            all &= *at == expr_of_atom(e->term[i].factor[k].atom);
        }
        if (all)
            same[nsame++] = e->term[i], at = first;
        else
            moved[nmoved++] = e->term[i];
    }
    if (!nmoved)
        return e;
    /* unchanged terms are kept as one: adding them one by one is quadratic */
    const Expr *sum = expr_of_terms(c, nsame, same);
    at = atom;
    for (uint32_t i = 0; i < nmoved; i++) {
        const Expr *product = expr_int(c, moved[i].coef);
        for (uint32_t k = 0; k < moved[i].nfactor; k++)
            product = expr_mul(c, product, expr_pow(c, *at++, moved[i].factor[k].power));
        sum = expr_add(c, sum, product);
    }
    return sum;
}

/* ---- substitution ---------------------------------------------------------------------------- */

typedef struct {
    Ctx *c;
    const Binding *at;
    uint32_t n;
    uint64_t bits; /* of its variables */
} BindingArray;

static const Expr *
subst_atom(void *user, const Atom *a)
{
    const BindingArray *b = user;
    const Expr *arg[a->narg + 1];
    bool changed = false;

    if (!(a->vars & b->bits))
        return expr_of_atom(a);
    for (uint32_t i = 0; i < b->n && a->kind == ATOM_VAR; i++)
        if (same_var(b->at[i].var, a->var))
            return b->at[i].to;
    for (uint32_t i = 0; i < a->narg; i++) {
        arg[i] = expr_map_atoms(b->c, a->arg[i], subst_atom, user);
        changed |= arg[i] != a->arg[i];
    }
    return changed ? expr_apply(b->c, a->kind, a->narg, arg) : expr_of_atom(a);
}

const Expr *
expr_subst(Ctx *c, const Expr *e, const Binding *b, uint32_t n)
{
    BindingArray bound = { c, b, n, 0 };

    for (uint32_t i = 0; i < n; i++)
        bound.bits |= var_bit(b[i].var);
    return e->vars & bound.bits ? expr_map_atoms(c, e, subst_atom, &bound) : e;
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
