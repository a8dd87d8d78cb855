/* What the files of expr share: the context's table, and the state of one proof. */
#ifndef TENON_EXPR_INTERNAL_H
#define TENON_EXPR_INTERNAL_H

#include "expr/expr.h"

#define EXPR_MAX_TERMS 512  /* named limit: longer polynomials become expr_bad */
#define EXPR_MAX_ARGS 16    /* arguments of one min or max */
#define EXPR_MAX_SIZE 16384 /* atoms of an expression written out; one with more becomes expr_bad */

/* symbol -> its value in symbols that are defined no later; or a min, a max, a broadcast -> what it
 * is */
typedef struct {
    const Atom *atom;
    const Expr *to;
} Fact;

struct ExprTable {
    Map exprs, atoms; /* by hash, to chains */
    Map range;        /* symbol id to its Interval, if it was ever narrowed */
    Map usual;        /* symbol id to its Usual, where users said one */
    Map count;        /* symbol id to what it counts as, where something says it */
    Map alike;        /* ids of symbols by which programs may not differ */
    /* id of a symbol that a node defines to its place among those */
    Map late;
    /* by hash of expression and ranges, to chains of what was simplified */
    Map simple;
    /* expression of symbols to nlearnt plus 1 when no proof was found that it is at least 0 */
    Map unproved;
    uint32_t natom, nfixed, nlate; /* nfixed: symbols whose range is one number */
    uint32_t nsaid;                /* facts about symbols */
    /* how often a range was narrowed or a fact found: what was simplified before may be simpler
     * now */
    uint32_t nlearnt;
    const Expr *bad;
    VEC(Fact) fact;          /* no `to` mentions a symbol that has a fact */
    struct ExprWatch *watch; /* open.c; NULL: nobody does */
};

struct ExprTable *expr_table(Ctx *c);

/* What was asked, and answered so, for who watches: a <= b, a == b, a a multiple of b. Returns the
 * answer. */
typedef enum { ASKED_LE, ASKED_EQ, ASKED_MULTIPLE } Question;
Tri expr_answered(Ctx *c, const Ranges *r, Question kind, const Expr *a, const Expr *b, Tri answer);

/* Most questions whether a variable is in an expression are answered no by a word: a bit for each
 * kind, and one that variables share by their ids. */
static inline uint64_t
kind_bit(VarKind kind)
{
    return (uint64_t)1 << kind;
}
static inline uint64_t
var_bit(Var v)
{
    return (uint64_t)1 << (8 + (v.id * 0x9e3779b97f4a7c15u >> 32) % 56);
}

/* A hash of what was mixed so far and of one word more. */
static inline uint64_t
mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static inline uint64_t
mix_range(uint64_t h, const Range *r)
{
    return mix(mix(mix(h, r->var.id), MAP_PTR(r->begin)), MAP_PTR(r->extent));
}

/* The expression of one atom; var for ATOM_VAR, arguments else. Nothing is normalised. */
const Expr *expr_atom(Ctx *c, AtomKind kind, Var var, uint32_t narg, const Expr *const *arg);
const Expr *expr_of_atom(Ctx *c, const Atom *atom);
const Expr *expr_term(Ctx *c, Term t);
/* Some of the terms of an expression, in its order. */
const Expr *expr_of_terms(Ctx *c, uint32_t n, const Term *term);
const Expr *expr_pow(Ctx *c, const Expr *e, uint32_t power);
int64_t expr_constant_part(const Expr *e);
int expr_compare(const Expr *a, const Expr *b); /* canonical total order */
/* The one atom that e is, with coefficient 1 and plus an optional constant; NULL if it is not. */
const Atom *expr_single(const Expr *e, AtomKind kind, int64_t *plus);
/* Split off the terms of e with `atom` as a plain factor: e = coef * atom + rest. False if it
 * stands squared. */
bool expr_split_atom(Ctx *c, const Expr *e, const Atom *atom, const Expr **coef, const Expr **rest);

uint32_t term_degree(const Term *t);              /* the sum of its powers */
bool term_divides(const Term *by, const Term *t); /* with an integer coefficient */
const Expr *term_quotient(Ctx *c, const Term *t, const Term *by);
/* Long division by the leading term of b: a = q * b + r, for b != 0. */
void expr_divmod(Ctx *c, const Expr *a, const Expr *b, const Expr **q, const Expr **r);
/* The greatest monomial that divides all terms of both; 1 if there is none. */
const Expr *expr_common_factor(Ctx *c, const Expr *a, const Expr *b);
/* of MIN, MAX and BROADCAST */
const Expr *expr_min_max(Ctx *c, AtomKind kind, uint32_t n, const Expr *const *arg);

/* One question being answered. `low` are lower bounds of symbols that follow from the extents of
 * the axes the question is about: an axis of extent s has a point only where s >= 1. */
typedef struct {
    Ctx *c;
    const Ranges *r;
    int budget;     /* steps left; at zero the answer is UNKNOWN */
    bool intrinsic; /* only what never changes: symbols >= 0 */
    uint32_t nlow;
    struct {
        uint64_t id;
        int64_t lo;
    } low[16];
} Proof;

Proof proof_begin(Ctx *c, const Ranges *r, const Expr *about);
Interval proof_bounds(Proof *p, const Expr *e);
bool proof_nonneg(Proof *p, const Expr *e, int depth); /* e >= 0 everywhere? */
/* each stands once, and alone: bounds are what e reaches, and no more can be said by symbols */
bool is_sum_of_variables(const Expr *e);
/* divisor >= 1 wherever it is used? */
bool proof_positive(Proof *p, const Expr *divisor);

#endif
