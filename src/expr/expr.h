/* expr: symbolic integers, the language of dimensions, loop bounds and indices.
 *
 * An Expr is an interned polynomial with 64-bit coefficients over atoms: variables and the opaque
 * terms floordiv, mod, min, max and broadcast, whose own children are canonical. Equal normal forms
 * are the same pointer, so `==` decides polynomial equality. Division rounds down everywhere.
 *
 * Coefficients that would overflow make the result expr_bad(c), which spreads and is refused
 * by whoever asks for its value; nothing ever wraps. So does what would be too long to walk.
 *
 * Three-valued answers: UNKNOWN is an answer, never an assumption.
 */
#ifndef TENON_EXPR_H
#define TENON_EXPR_H

#include "base/base.h"

typedef enum {
    VAR_SYMBOL,   /* a dimension of the model: id is its Sym. Never negative. */
    VAR_AXIS,     /* axis number id of the nest the expression stands in */
    VAR_LOOP,     /* a loop of a loop tree: id counts in its kernel */
    VAR_COMPUTED, /* a value computed from data: id is the Scalar's address */
} VarKind;

typedef struct {
    VarKind kind;
    uint64_t id;
} Var;

typedef enum { ATOM_VAR, ATOM_DIV, ATOM_MOD, ATOM_MIN, ATOM_MAX, ATOM_BROADCAST } AtomKind;

typedef struct Expr Expr;

typedef struct Atom { /* interned */
    AtomKind kind;
    uint32_t order; /* creation order: the canonical sort key */
    Var var;        /* ATOM_VAR */
    /* DIV, MOD: 2 (argument, divisor); MIN, MAX, BROADCAST: >= 2 */
    uint32_t narg;
    /* atoms on the longest way down, and all of them, however often they stand there */
    uint16_t depth, size;
    uint64_t vars; /* bits of the variables in it (expr/internal.h) */
    const Expr *const *arg;
} Atom;

typedef struct {
    const Atom *atom;
    uint32_t power;
} Factor; /* power >= 1 */
typedef struct {
    int64_t coef;
    uint32_t nfactor;
    const Factor *factor;
} Term; /* coef != 0 */

struct Expr { /* interned; sum of terms, canonical order, constant last */
    uint64_t hash;
    uint64_t vars;  /* bits of the variables in it */
    uint32_t nterm; /* 0 terms is the number 0 */
    bool bad;       /* overflowed */
    const Term *term;
};

/* ---- making ------------------------------------------------------------------------------- */

const Expr *expr_int(Ctx *c, int64_t v);
const Expr *expr_bad(Ctx *c);
const Expr *expr_var(Ctx *c, Var v);
const Expr *expr_symbol(Ctx *c, const char *name);
/* one that no expression has yet: like, like_1, …; late */
const Expr *expr_fresh_symbol(Ctx *c, const char *like);
/* Late: a node defines it, after those that were late before. What is learnt never says another
 * symbol by one that is later. */
void expr_symbol_late(Ctx *c, Var symbol);
const Expr *expr_axis(Ctx *c, uint32_t axis);
const Expr *expr_loop(Ctx *c, uint32_t id);
const Expr *expr_add(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_sub(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_mul(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_scale(Ctx *c, const Expr *a, int64_t k);
const Expr *expr_offset(Ctx *c, const Expr *a, int64_t k); /* a + k */
/* Division by a divisor that may be zero is kept as an opaque atom (and is 0 when evaluated so). */
const Expr *expr_div(Ctx *c, const Expr *a, const Expr *b);      /* floor(a / b) */
const Expr *expr_mod(Ctx *c, const Expr *a, const Expr *b);      /* a - b * floor(a / b) */
const Expr *expr_ceil_div(Ctx *c, const Expr *a, const Expr *b); /* (a + b - 1) / b */
const Expr *expr_min(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_max(Ctx *c, const Expr *a, const Expr *b);
/* The size of what tensors of sizes a and b are broadcast to, where these are equal or one of them
 * is 1: 0 if one is 0, else the larger. */
const Expr *expr_broadcast(Ctx *c, const Expr *a, const Expr *b);
static inline int64_t
broadcast64(int64_t a, int64_t b)
{
    return a == 0 || b == 0 ? 0 : a > b ? a : b;
}

/* ---- asking --------------------------------------------------------------------------------- */

bool expr_const(const Expr *e, int64_t *v);        /* a plain number? v may be NULL */
bool expr_is(const Expr *e, int64_t v);            /* exactly this number? */
int64_t expr_or(const Expr *e, int64_t otherwise); /* its number, or otherwise */
bool expr_is_var(const Expr *e, Var *v);           /* exactly one variable? v may be NULL */
/* atoms on the longest way down; limited: depth_check */
uint32_t expr_depth(const Expr *e);
bool expr_uses(const Expr *e, Var v); /* anywhere, inside atoms too */
bool expr_uses_kind(const Expr *e, VarKind k);
/* Visit each distinct variable once, in a deterministic order. */
void expr_vars(const Expr *e, void (*visit)(void *user, Var v), void *user);
/* The number whose digits are high = floor(number / base) and low = number mod base; NULL: they are
 * none. */
const Expr *expr_of_digits(const Expr *high, const Expr *low, const Expr *base);
/* e = coef * v + rest with neither using v? (coef 0 when v is absent) */
bool expr_linear(Ctx *c, const Expr *e, Var v, const Expr **coef, const Expr **rest);
/* The sizes that e is a broadcast of, at most `most` into part; 0: it is none, or one of more. */
uint32_t expr_broadcast_parts(const Expr *e, uint32_t most, const Expr **part);
/* Exact quotient, when the division leaves no remainder as polynomials; NULL otherwise. */
const Expr *expr_exact_div(Ctx *c, const Expr *a, const Expr *b);

typedef struct {
    Var var;
    const Expr *to;
} Binding;
const Expr *expr_subst(Ctx *c, const Expr *e, const Binding *b, uint32_t n); /* all at once */

/* ---- ranges and proofs ----------------------------------------------------------------------- */

typedef struct {
    int64_t lo, hi;
} Interval; /* INT64_MIN / INT64_MAX: unbounded */

/* What is known of axis and loop variables: var in [0, extent) + begin. Symbols carry their own
 * range, kept by the context. A zeroed Ranges knows nothing beyond the symbols. */
typedef struct {
    Var var;
    const Expr *begin, *extent;
} Range;
typedef struct {
    const Range *at;
    uint32_t n;
} Ranges;

typedef enum { NO = -1, UNKNOWN = 0, YES = 1 } Tri;

/* of their absolute values; 1 where that is no int64_t */
int64_t gcd64(int64_t a, int64_t b);

/* A symbol is in [0, INT64_MAX] until narrowed. False if the ranges do not meet. */
bool expr_symbol_range(Ctx *c, Var symbol, Interval range);
Interval expr_symbol_get(Ctx *c, Var symbol);
/* What users expect a symbol to be, of what is possible: choices go by it, proofs do not. In rising
 * order, each once; n 0: nothing was said. */
typedef struct {
    uint32_t n;
    const int64_t *at;
} Usual;
void expr_symbol_expect(Ctx *c, Var symbol, Usual sizes); /* copies them */
Usual expr_symbol_usual(Ctx *c, Var symbol);
/* What it counts as where nobody says what is usual; negative: nothing is known either. */
void expr_symbol_count(Ctx *c, Var symbol, int64_t size);
int64_t expr_symbol_counts(Ctx *c, Var symbol);
/* One program runs at all sizes that it has: results are the same bits whatever it is. */
void expr_symbol_alike(Ctx *c, Var symbol);
bool expr_symbol_is_alike(Ctx *c, Var symbol);
/* A size for who has to suppose one: the largest that users expect, which takes most of the time;
 * else what it counts as; else the middle of what it may be, or EXPR_SUPPOSED if it may be
 * anything. Of sizes from 1 to 16,384, beyond which few batches and lengths go, that is the middle
 * by ratio: what is supposed is as many times too large as too small. */
enum { EXPR_SUPPOSED = 128 };
int64_t expr_symbol_supposed(Ctx *c, Var symbol);
/* Learn a == b, which a check at run time guarantees: narrows symbols (min(n,512) == n makes
 * n <= 512), or orients the equality and substitutes it in every later expr_simplify. */
void expr_assume_eq(Ctx *c, const Expr *a, const Expr *b);
/* How much was learnt so far: the same number, nothing since. */
uint32_t expr_learnt(Ctx *c);

Interval expr_bounds(Ctx *c, const Ranges *r, const Expr *e); /* r may be NULL */
/* with ranges and what was learnt */
const Expr *expr_simplify(Ctx *c, const Ranges *r, const Expr *e);
Tri expr_eq(Ctx *c, const Ranges *r, const Expr *a, const Expr *b);
Tri expr_le(Ctx *c, const Ranges *r, const Expr *a, const Expr *b);
Tri expr_divisible(Ctx *c, const Ranges *r, const Expr *e, int64_t k);

/* From now on what is asked is counted, and what stays UNKNOWN is tried at sizes. */
void expr_watch(Ctx *c);
typedef struct {
    const char *text;
    uint64_t times;
} OpenQuestion;
/* at [n]: those that held at all sizes tried, in the order in which they were first asked. Context
 * lifetime. */
typedef struct {
    uint64_t asked, unknown;
    uint32_t n;
    const OpenQuestion *at;
} Watched;
Watched expr_watched(Ctx *c);

/* ---- values and text ------------------------------------------------------------------------- */

/* The value under an assignment; false on overflow, division by zero, or a variable that `value`
 * refuses. */
bool expr_eval(const Expr *e, bool (*value)(void *user, Var v, int64_t *out), void *user,
               int64_t *out);

/* Text. `name` gives variables their spelling (NULL: symbols by name, axes $k, loops @k).
 * Printed as  2*y + r - 1 ,  (n + 15) // 16 ,  n % 16 ,  min(a, b) ; parses back to the same
 * pointer. */
typedef struct {
    void (*name)(void *user, Text *t, Var v);
    void *user;
    bool c_syntax;
    bool (*natural)(void *user, const Expr *e);
    /* prints a quotient, remainder, minimum or maximum by a name; false: it has none. NULL: none
     * has */
    bool (*named)(void *user, Text *t, const Atom *a);
} ExprStyle;
/* c_syntax prints C over int64_t: tn_div(a, b), tn_mod(a, b), tn_min(a, b), tn_max(a, b),
 * tn_broadcast(a, b); and tn_quo(a, b), tn_rem(a, b) where b is a number above 0 and `natural` says
 * that a is never negative (NULL: nobody knows): processors divide such numbers in fewer steps. */
void expr_print(Text *t, const Expr *e, const ExprStyle *style);
/* for messages; context lifetime */
const char *expr_str(Ctx *c, const Expr *e);

#endif
