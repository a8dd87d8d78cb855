/* What the files of expr share: the context's tables, and the state of one proof. */
#ifndef TENON_EXPR_INTERNAL_H
#define TENON_EXPR_INTERNAL_H

#include "expr/expr.h"

#define EXPR_MAX_ARGS 16 /* arguments of one min or max */

/* a symbol's value in symbols defined no later; or what a min, max or broadcast equals */
typedef struct {
    const Atom *atom;
    const Expr *to;
} LearntFact;

struct ExprTable {
    Map exprs, atoms; /* by hash, to chains */
    Map symbol;       /* by id, to its SymbolInfo */
    /* by hash of expression and ranges, to chains of what was simplified */
    Map simple;
    /* expression of symbols to nlearnt + 1 at which no proof was found that it is at least 0 */
    Map unproved;
    uint32_t natom, nfixed, nlate; /* nfixed: symbols whose range is one number */
    uint32_t nsaid;                /* facts about symbols */
    /* number of facts and narrowings: results simplified at an earlier count may be out of date */
    uint32_t nlearnt;
    const Expr *bad;
    VEC(LearntFact) fact;    /* no `to` mentions a symbol that has a fact */
    struct ExprWatch *watch; /* unproved.c; NULL: nobody watches */
};

struct ExprTable *expr_table(Ctx *c);

/* Reports a query and its answer to the watch: a <= b, a == b, a a multiple of b. Returns the
 * answer. */
typedef enum { ASKED_LE, ASKED_EQ, ASKED_MULTIPLE } QueryKind;
Tri expr_answered(Ctx *c, const Ranges *r, QueryKind kind, const Expr *a, const Expr *b,
                  Tri answer);

/* A filter for "is this variable in that expression?": one bit for each kind, and one that
 * variables share by their ids. */
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

/* A hash of what was mixed so far and one more word. */
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
const Expr *expr_term(Ctx *c, Term t);
/* Some of the terms of an expression, in its order. */
const Expr *expr_of_terms(Ctx *c, uint32_t n, const Term *term);
const Expr *expr_pow(Ctx *c, const Expr *e, uint32_t power);
int64_t expr_constant_part(const Expr *e);
uint32_t expr_count_factors(const Expr *e);     /* of all its terms */
int expr_compare(const Expr *a, const Expr *b); /* canonical total order */
/* The one atom that e is, with coefficient 1 and plus an optional constant; NULL if it is not. */
const Atom *expr_single(const Expr *e, AtomKind kind, int64_t *plus);
/* Split e = coef * atom + rest, with `atom` as a plain factor. False if a power of it occurs. */
bool expr_split_atom(Ctx *c, const Expr *e, const Atom *atom, const Expr **coef, const Expr **rest);

uint32_t term_degree(const Term *t); /* the sum of its powers */
/* negative if a's monomial precedes b's, 0 if they are one */
int term_compare(const Term *a, const Term *b);
bool term_divides(const Term *by, const Term *t); /* with an integer coefficient */
const Expr *term_quotient(Ctx *c, const Term *t, const Term *by);
/* Long division by the leading term of b: a = q * b + r, for b != 0. */
void expr_divmod(Ctx *c, const Expr *a, const Expr *b, const Expr **q, const Expr **r);
/* The greatest monomial that divides all terms of both; 1 if there is none. */
const Expr *expr_common_factor(Ctx *c, const Expr *a, const Expr *b);
/* of MIN, MAX and BROADCAST */
const Expr *expr_min_max(Ctx *c, AtomKind kind, uint32_t n, const Expr *const *arg);

/* One query in progress. `low` are lower bounds of symbols that follow from the extents of the
 * query's axes: an axis of extent s has a point only where s >= 1. */
typedef struct {
    Ctx *c;
    const Ranges *r;
    int budget;     /* steps left; at zero the answer is UNKNOWN */
    bool intrinsic; /* use only what never changes: symbols >= 0 */
    uint32_t nlow;
    struct {
        uint64_t id;
        int64_t lo;
    } low[16];
} Proof;

Proof proof_begin(Ctx *c, const Ranges *r, const Expr *about);
Interval proof_bounds(Proof *p, const Expr *e);
bool proof_nonneg(Proof *p, const Expr *e, int depth); /* e >= 0 everywhere? */
/* each variable occurs once, alone: its bounds are exact, and symbols can prove no more */
bool is_sum_of_variables(const Expr *e);
/* divisor >= 1 wherever it is used? */
bool proof_positive(Proof *p, const Expr *divisor);

#endif
