/* walk: visits atoms, and rebuilds an expression from its leaves. */
#include "expr/internal.h"

#include <string.h>

static bool
same_var(Var a, Var b)
{
    return a.kind == b.kind && a.id == b.id;
}

/* Does any variable in it satisfy the test? */
static bool
any_var(const Expr *e, bool (*test)(void *user, const Atom *a), void *user)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t k = 0; k < e->term[i].nfactor; k++) {
            const Atom *a = e->term[i].factor[k].atom;
            if (a->kind == ATOM_VAR && test(user, a))
                return true;
            for (uint32_t j = 0; j < a->narg; j++)
                if (any_var(a->arg[j], test, user))
                    return true;
        }
    return false;
}

static bool
is_this(void *user, const Atom *a)
{
    return same_var(a->var, *(Var *)user);
}

bool
expr_uses(const Expr *e, Var v)
{
    return (e->vars & var_bit(v)) && any_var(e, is_this, &v);
}

bool
expr_uses_kind(const Expr *e, VarKind k)
{
    return e->vars & kind_bit(k);
}

typedef struct {
    const Atom **at;
    uint32_t n;
} AtomList;

static bool
count_one(void *user, const Atom *a)
{
    (void)a;
    ++*(uint32_t *)user;
    return false;
}

static bool
collect(void *user, const Atom *a)
{
    AtomList *list = user;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] == a)
            return false;
    list->at[list->n++] = a;
    return false;
}

void
expr_vars(const Expr *e, void (*visit)(void *user, Var v), void *user)
{
    uint32_t n = 1;

    any_var(e, count_one, &n);
    const Atom *found[n];
    AtomList list = { found, 0 };
    any_var(e, collect, &list);
    for (uint32_t i = 0; i < list.n; i++)
        visit(user, list.at[i]->var);
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
} BindingArray;

static bool
is_bound(void *user, const Atom *a)
{
    const BindingArray *b = user;

    for (uint32_t i = 0; i < b->n; i++)
        if (same_var(b->at[i].var, a->var))
            return true;
    return false;
}

static bool
term_is_bound(const Term *t, BindingArray *b)
{
    return any_var(&(Expr){ .nterm = 1, .term = t }, is_bound, b);
}

static const Expr *subst(Ctx *c, const Expr *e, BindingArray b);

static const Expr *
subst_atom(Ctx *c, const Atom *a, BindingArray b)
{
    if (a->kind == ATOM_VAR) {
        for (uint32_t i = 0; i < b.n; i++)
            if (same_var(b.at[i].var, a->var))
                return b.at[i].to;
        return expr_of_atom(c, a);
    }
    const Expr *arg[a->narg + 1];
    bool changed = false;
    for (uint32_t i = 0; i < a->narg; i++) {
        arg[i] = subst(c, a->arg[i], b);
        changed |= arg[i] != a->arg[i];
    }
    if (!changed)
        return expr_of_atom(c, a);
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
    if (e->bad || !any_var(e, is_bound, &b))
        return e;
    /* unchanged terms are kept as one: adding them one by one is quadratic */
    Term same[e->nterm];
    uint32_t nsame = 0;
    for (uint32_t i = 0; i < e->nterm; i++)
        if (!term_is_bound(&e->term[i], &b))
            same[nsame++] = e->term[i];
    const Expr *sum = expr_of_terms(c, nsame, same);
    for (uint32_t i = 0; i < e->nterm; i++) {
        if (!term_is_bound(&e->term[i], &b))
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
    return subst(c, e, (BindingArray){ b, n });
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
