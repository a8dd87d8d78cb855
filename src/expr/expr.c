/* expr: interned polynomials and their arithmetic.
 *
 * Terms are sorted by a graded lexicographic monomial order: total degree first, then the powers of
 * the oldest atoms. The order is compatible with multiplication, so multiplying by one term keeps a
 * list sorted and long division can work on leading terms; the constant, of degree 0, comes last.
 *
 * Every Expr and Atom is found by hash in the context's table before it is made, so equal normal
 * forms are one pointer. Hashes use creation order, never addresses: runs are reproducible.
 */
#include "expr/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct ExprNode {
    Expr e;
    struct ExprNode *next;
} ExprNode;
typedef struct AtomNode {
    Atom a;
    const Expr *expr;
    struct AtomNode *next;
} AtomNode;

struct ExprTable *
expr_table(Ctx *c)
{
    struct ExprTable *t = c->exprs;

    if (t)
        return t;
    t = c->exprs = NEW(c->arena, struct ExprTable);
    t->exprs.arena = t->atoms.arena = t->symbol.arena = t->simple.arena = t->unproved.arena =
        c->arena;
    Expr *bad = NEW(c->arena, Expr);
    *bad = (Expr){ .hash = 0xbad, .bad = true };
    t->bad = bad;
    return t;
}

const Expr *
expr_bad(Ctx *c)
{
    return expr_table(c)->bad;
}

/* ---- order and interning --------------------------------------------------------------------- */

uint32_t
term_degree(const Term *t)
{
    uint32_t d = 0;

    for (uint32_t i = 0; i < t->nfactor; i++)
        d += t->factor[i].power;
    return d;
}

int
term_compare(const Term *a, const Term *b)
{
    uint32_t da = term_degree(a), db = term_degree(b);

    if (da != db)
        return da > db ? -1 : 1;
    for (uint32_t i = 0; i < a->nfactor && i < b->nfactor; i++) {
        const Factor *f = &a->factor[i], *g = &b->factor[i];
        if (f->atom != g->atom)
            return f->atom->order < g->atom->order ? -1 : 1;
        if (f->power != g->power)
            return f->power > g->power ? -1 : 1;
    }
    return 0;
}

int
expr_compare(const Expr *a, const Expr *b)
{
    if (a == b)
        return 0;
    for (uint32_t i = 0; i < a->nterm && i < b->nterm; i++) {
        int order = term_compare(&a->term[i], &b->term[i]);
        if (order)
            return order;
        if (a->term[i].coef != b->term[i].coef)
            return a->term[i].coef > b->term[i].coef ? -1 : 1;
    }
    if (a->nterm != b->nterm)
        return a->nterm > b->nterm ? -1 : 1;
    return (int)a->bad - (int)b->bad;
}

static bool
same_terms(const Expr *e, const Term *term, uint32_t n)
{
    if (e->nterm != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (e->term[i].coef != term[i].coef || term_compare(&e->term[i], &term[i]) != 0)
            return false;
    return true;
}

/* terms: sorted, combined, without zeros. They are copied. Too many terms or atoms: bad. */
static const Expr *
intern(Ctx *c, const Term *term, uint32_t n)
{
    struct ExprTable *t = expr_table(c);
    uint64_t h = n, found = 0;
    uint32_t size = 0; /* no term has more factors than its degree, so it does not overflow */

    if (n > EXPR_MAX_TERMS)
        return t->bad;
    arena_poll(c->arena); /* an expression that exists takes no memory, and the walk may be long */
    for (uint32_t i = 0; i < n; i++) {
        h = mix(h, (uint64_t)term[i].coef);
        for (uint32_t k = 0; k < term[i].nfactor; k++) {
            h = mix(h, (uint64_t)term[i].factor[k].atom->order << 32 | term[i].factor[k].power);
            size += term[i].factor[k].atom->size;
        }
    }
    if (size > EXPR_MAX_SIZE)
        return t->bad;
    map_get(&t->exprs, h, &found);
    for (ExprNode *node = (ExprNode *)(uintptr_t)found; node; node = node->next)
        if (same_terms(&node->e, term, n))
            return &node->e;

    Term *copy = n ? NEW_ARRAY(c->arena, Term, n) : NULL;
    uint64_t vars = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < term[i].nfactor; k++)
            vars |= term[i].factor[k].atom->vars;
        copy[i] = term[i];
        if (term[i].nfactor)
            copy[i].factor = arena_copy(c->arena, term[i].factor, term[i].nfactor * sizeof(Factor));
    }
    ExprNode *node = NEW(c->arena, ExprNode);
    node->e = (Expr){ .hash = h, .vars = vars, .nterm = n, .term = copy };
    node->next = (ExprNode *)(uintptr_t)found;
    map_put(&t->exprs, h, MAP_PTR(node));
    return &node->e;
}

uint32_t
expr_depth(const Expr *e)
{
    uint32_t depth = 0;

    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t f = 0; f < e->term[i].nfactor; f++)
            if (e->term[i].factor[f].atom->depth > depth)
                depth = e->term[i].factor[f].atom->depth;
    return depth;
}

static uint32_t
expr_size(const Expr *e)
{
    uint32_t size = 0;

    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t f = 0; f < e->term[i].nfactor; f++)
            size += e->term[i].factor[f].atom->size;
    return size;
}

/* Sets depth, size and variables. False: too many atoms. */
static bool
measure(Ctx *c, Atom *a)
{
    uint32_t depth = 0, size = 1;

    a->vars = a->kind == ATOM_VAR ? kind_bit(a->var.kind) | var_bit(a->var) : 0;
    for (uint32_t i = 0; i < a->narg; i++) {
        a->vars |= a->arg[i]->vars;
        uint32_t below = expr_depth(a->arg[i]);
        depth = below > depth ? below : depth;
        size += expr_size(a->arg[i]);
        if (size > EXPR_MAX_SIZE)
            return false;
    }
    depth_check(c, "a size or an index", depth + 1);
    a->depth = (uint16_t)(depth + 1);
    a->size = (uint16_t)size;
    return true;
}

/* The atom, if there is one; *hash, and the first atom of that hash, for one to be made. */
static AtomNode *
find_atom(Ctx *c, AtomKind kind, Var var, uint32_t narg, const Expr *const *arg, uint64_t *hash,
          uint64_t *first)
{
    uint64_t h = mix(kind, narg);

    if (kind == ATOM_VAR)
        h = mix(mix(h, var.kind), var.id);
    for (uint32_t i = 0; i < narg; i++)
        h = mix(h, arg[i]->hash);
    *hash = h;
    *first = 0;
    map_get(&expr_table(c)->atoms, h, first);
    for (AtomNode *node = (AtomNode *)(uintptr_t)*first; node; node = node->next)
        if (node->a.kind == kind && node->a.narg == narg && node->a.var.kind == var.kind &&
            node->a.var.id == var.id &&
            (!narg || memcmp(node->a.arg, arg, narg * sizeof *arg) == 0))
            return node;
    return NULL;
}

static AtomNode *
intern_atom(Ctx *c, AtomKind kind, Var var, uint32_t narg, const Expr *const *arg)
{
    struct ExprTable *t = expr_table(c);
    uint64_t h, found;
    AtomNode *known = find_atom(c, kind, var, narg, arg, &h, &found);

    if (known)
        return known;
    Atom a = { .kind = kind, .order = t->natom, .var = var, .narg = narg, .arg = arg };
    if (!measure(c, &a))
        return NULL;
    t->natom++;
    AtomNode *node = NEW(c->arena, AtomNode);
    node->a = a;
    if (narg)
        node->a.arg = arena_copy(c->arena, arg, narg * sizeof *arg);
    node->next = (AtomNode *)(uintptr_t)found;
    map_put(&t->atoms, h, MAP_PTR(node));
    Factor factor = { &node->a, 1 };
    node->expr = intern(c, &(Term){ 1, 1, &factor }, 1);
    return node;
}

const Expr *
expr_atom(Ctx *c, AtomKind kind, Var var, uint32_t narg, const Expr *const *arg)
{
    for (uint32_t i = 0; i < narg; i++)
        if (arg[i]->bad)
            return expr_bad(c);
    const AtomNode *node = intern_atom(c, kind, var, narg, arg);
    return node ? node->expr : expr_bad(c);
}

const Expr *
expr_of_atom(const Atom *atom)
{
    return ((const AtomNode *)(const void *)atom)->expr;
}

/* ---- making ---------------------------------------------------------------------------------- */

const Expr *
expr_int(Ctx *c, int64_t v)
{
    return intern(c, &(Term){ v, 0, NULL }, v != 0);
}

const Expr *
expr_var(Ctx *c, Var v)
{
    return expr_atom(c, ATOM_VAR, v, 0, NULL);
}

const Expr *
expr_symbol(Ctx *c, const char *name)
{
    return expr_var(c, (Var){ VAR_SYMBOL, MAP_PTR(sym(c, name)) });
}

const Expr *
expr_fresh_symbol(Ctx *c, const char *like)
{
    Sym name = sym(c, like);
    uint64_t hash, first;

    for (unsigned i = 1; find_atom(c, ATOM_VAR, symbol_var(name), 0, NULL, &hash, &first); i++)
        name = sym_printf(c, "%s_%u", like, i);
    const Expr *e = expr_symbol(c, name);
    expr_symbol_late(c, (Var){ VAR_SYMBOL, MAP_PTR(name) });
    return e;
}

void
expr_symbol_late(Ctx *c, Var symbol)
{
    SymbolInfo *s = expr_symbol_info(c, symbol);

    if (!s->late)
        s->late = ++expr_table(c)->nlate;
}

const Expr *
expr_axis(Ctx *c, uint32_t axis)
{
    return expr_var(c, (Var){ VAR_AXIS, axis });
}

const Expr *
expr_loop(Ctx *c, uint32_t id)
{
    return expr_var(c, (Var){ VAR_LOOP, id });
}

const Expr *
expr_of_terms(Ctx *c, uint32_t n, const Term *term)
{
    return intern(c, term, n);
}

const Expr *
expr_term(Ctx *c, Term t)
{
    return intern(c, &t, t.coef != 0);
}

/* a + k*b: one merge of two sorted lists. */
static const Expr *
expr_add_scaled(Ctx *c, const Expr *a, const Expr *b, int64_t k)
{
    if (a->bad || b->bad)
        return expr_bad(c);
    if (k == 0 || b->nterm == 0)
        return a;

    Term sum[a->nterm + b->nterm];
    uint32_t n = 0, i = 0, j = 0;
    while (i < a->nterm || j < b->nterm) {
        int order = i == a->nterm ? 1 : j == b->nterm ? -1 : term_compare(&a->term[i], &b->term[j]);
        if (order < 0) {
            sum[n++] = a->term[i++];
            continue;
        }
        Term t = b->term[j++];
        if (mul_overflows(t.coef, k, &t.coef) ||
            (order == 0 && add_overflows(t.coef, a->term[i++].coef, &t.coef)))
            return expr_bad(c);
        if (t.coef)
            sum[n++] = t;
    }
    return intern(c, sum, n);
}

const Expr *
expr_add(Ctx *c, const Expr *a, const Expr *b)
{
    return a->nterm == 0 && !a->bad ? b : expr_add_scaled(c, a, b, 1);
}

const Expr *
expr_sub(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_add_scaled(c, a, b, -1);
}

const Expr *
expr_scale(Ctx *c, const Expr *a, int64_t k)
{
    return k == 1 ? a : expr_add_scaled(c, expr_int(c, 0), a, k);
}

const Expr *
expr_offset(Ctx *c, const Expr *a, int64_t k)
{
    return k == 0 ? a : expr_add_scaled(c, a, expr_int(c, k), 1);
}

/* The product's monomial into f [a->nfactor + b->nfactor]; both are sorted by atom order. */
static uint32_t
merge_factors(Factor *f, const Term *a, const Term *b)
{
    uint32_t n = 0, i = 0, j = 0;

    while (i < a->nfactor || j < b->nfactor) {
        if (j == b->nfactor ||
            (i < a->nfactor && a->factor[i].atom->order < b->factor[j].atom->order))
            f[n++] = a->factor[i++];
        else if (i == a->nfactor || b->factor[j].atom->order < a->factor[i].atom->order)
            f[n++] = b->factor[j++];
        else {
            f[n] = a->factor[i++];
            f[n++].power += b->factor[j++].power;
        }
    }
    return n;
}

/* a * t: the monomial order is kept by multiplication, so the result is sorted as it comes. */
static const Expr *
mul_term(Ctx *c, const Expr *a, const Term *t)
{
    uint32_t nfactor = 1;

    /* the first term has the highest degree */
    if (a->nterm && term_degree(&a->term[0]) + term_degree(t) > EXPR_MAX_DEGREE)
        return expr_bad(c);
    for (uint32_t i = 0; i < a->nterm; i++)
        nfactor += a->term[i].nfactor + t->nfactor;

    Term product[a->nterm + 1];
    Factor factor[nfactor], *f = factor;
    for (uint32_t i = 0; i < a->nterm; i++) {
        if (mul_overflows(a->term[i].coef, t->coef, &product[i].coef))
            return expr_bad(c);
        product[i].factor = f;
        product[i].nfactor = merge_factors(f, &a->term[i], t);
        f += product[i].nfactor;
    }
    return intern(c, product, a->nterm);
}

const Expr *
expr_mul(Ctx *c, const Expr *a, const Expr *b)
{
    const Expr *sum = expr_int(c, 0);

    if (a->bad || b->bad)
        return expr_bad(c);
    if (a->nterm < b->nterm) {
        const Expr *t = a;
        a = b, b = t;
    }
    if (b->nterm == 1)
        return mul_term(c, a, &b->term[0]);
    for (uint32_t i = 0; i < b->nterm && !sum->bad; i++)
        sum = expr_add(c, sum, mul_term(c, a, &b->term[i]));
    return sum;
}

const Expr *
expr_pow(Ctx *c, const Expr *e, uint32_t power)
{
    const Expr *r = e;

    for (uint32_t i = 1; i < power; i++)
        r = expr_mul(c, r, e);
    return power ? r : expr_int(c, 1);
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool
expr_const(const Expr *e, int64_t *v)
{
    if (e->bad || e->nterm > 1 || (e->nterm == 1 && e->term[0].nfactor))
        return false;
    if (v)
        *v = e->nterm ? e->term[0].coef : 0;
    return true;
}

bool
expr_is(const Expr *e, int64_t v)
{
    int64_t is;
    return expr_const(e, &is) && is == v;
}

int64_t
expr_or(const Expr *e, int64_t otherwise)
{
    int64_t v;
    return expr_const(e, &v) ? v : otherwise;
}

int64_t
expr_constant_part(const Expr *e)
{
    return e->nterm && e->term[e->nterm - 1].nfactor == 0 ? e->term[e->nterm - 1].coef : 0;
}

uint32_t
expr_count_factors(const Expr *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->nterm; i++)
        n += e->term[i].nfactor;
    return n;
}

const Atom *
expr_single(const Expr *e, AtomKind kind, int64_t *plus)
{
    int64_t k = expr_constant_part(e);
    const Term *t = e->term;

    if (e->bad || e->nterm != 1 + (k != 0) || t->coef != 1 || t->nfactor != 1 ||
        t->factor->power != 1 || t->factor->atom->kind != kind || (!plus && k))
        return NULL;
    if (plus)
        *plus = k;
    return t->factor->atom;
}

const Expr *
expr_of_digits(const Expr *high, const Expr *low, const Expr *base)
{
    const Atom *q = expr_single(high, ATOM_DIV, NULL), *r = expr_single(low, ATOM_MOD, NULL);

    return q && r && q->arg[0] == r->arg[0] && q->arg[1] == r->arg[1] && q->arg[1] == base
               ? q->arg[0]
               : NULL;
}

bool
expr_is_var(const Expr *e, Var *v)
{
    const Atom *a = expr_single(e, ATOM_VAR, NULL);

    if (a && v)
        *v = a->var;
    return a != NULL;
}
