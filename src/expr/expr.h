/* expr: symbolic integers, the language of dimensions, loop bounds and indices.
 *
 * An Expr is an interned polynomial with 64-bit coefficients over atoms: variables and the opaque
 * terms floordiv, mod, min, max and broadcast, whose own children are canonical. Equal normal forms
 * are the same pointer, so `==` decides polynomial equality. Division rounds down everywhere.
 *
 * An overflowing coefficient, a degree above EXPR_MAX_DEGREE, more than EXPR_MAX_TERMS terms or more
 * than EXPR_MAX_SIZE atoms make the result expr_bad(c). Everything computed from expr_bad(c) is bad
 * too, and a query for its value is refused; nothing ever wraps.
 *
 * Answers have three values. YES: at every point of the ranges; NO: at none; UNKNOWN: neither was
 * proved. Ranges are assumed to have points.
 */
#ifndef TENON_EXPR_H
#define TENON_EXPR_H

#include "base/base.h"

/* Named limits: an expression beyond one is expr_bad. */
#define EXPR_MAX_TERMS 512
/* of a term, the sum of its powers: far above that of any size that fits 64 bits, since 2^63 does
 * not */
#define EXPR_MAX_DEGREE 128
#define EXPR_MAX_SIZE 16384 /* atoms at all depths, counted with repetition */

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
    /* length of the longest path of nested atoms; number of atoms, counted with repetition */
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
    bool bad;       /* overflowed, or too large */
    const Term *term;
};

/* ---- making ------------------------------------------------------------------------------- */

const Expr *expr_int(Ctx *c, int64_t v);
const Expr *expr_bad(Ctx *c);
const Expr *expr_var(Ctx *c, Var v);
const Expr *expr_symbol(Ctx *c, const char *name);
/* A symbol that no expression uses yet: like, like_1, …; marked by expr_symbol_late. */
const Expr *expr_fresh_symbol(Ctx *c, const char *like);
/* Marks a symbol as defined during the run by a node (the others are known at the start). Calls are
 * in the order of definition. Equalities never rewrite a symbol in terms of a later one. */
void expr_symbol_late(Ctx *c, Var symbol);
const Expr *expr_axis(Ctx *c, uint32_t axis);
const Expr *expr_loop(Ctx *c, uint32_t id);
const Expr *expr_add(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_sub(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_mul(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_scale(Ctx *c, const Expr *a, int64_t k);
const Expr *expr_offset(Ctx *c, const Expr *a, int64_t k); /* a + k */
/* Division by a divisor not known to be at least 1 (or a nonzero number) stays an opaque atom; where
 * the divisor is 0, C gives 0 and expr_eval fails. */
const Expr *expr_div(Ctx *c, const Expr *a, const Expr *b);      /* floor(a / b) */
const Expr *expr_mod(Ctx *c, const Expr *a, const Expr *b);      /* a - b * floor(a / b) */
const Expr *expr_ceil_div(Ctx *c, const Expr *a, const Expr *b); /* (a + b - 1) / b */
const Expr *expr_min(Ctx *c, const Expr *a, const Expr *b);
const Expr *expr_max(Ctx *c, const Expr *a, const Expr *b);
/* The dimension that broadcasting gives for dimensions a and b, which are equal or one of which is
 * 1: 0 if one is 0, otherwise the larger. */
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
/* length of the longest path of nested atoms, which depth_check limits */
uint32_t expr_depth(const Expr *e);
bool expr_uses(const Expr *e, Var v); /* at any depth */
bool expr_uses_kind(const Expr *e, VarKind k);
/* FOR_EACH_VARIABLE(v, e) {…} declares Var v: each distinct variable of e once, in a deterministic
 * order; none if e is NULL. It may be left at any point. */
#define FOR_EACH_VARIABLE(v, e)                                                                    \
    for (Var v##_list[expr_count_vars(e) + 1], *v##_at = v##_list,                                 \
                                               *v##_end = expr_list_vars((e), v##_list), v;        \
         v##_at < v##_end && (v = *v##_at, true); v##_at++)
uint32_t expr_count_vars(const Expr *e);           /* at all depths, with repetition */
Var *expr_list_vars(const Expr *e, Var *distinct); /* the end of the list */

/* Distinct symbols in the order in which they were added; { .seen.arena = a } is empty. */
typedef struct {
    Map seen;
    uint32_t n, cap;
    Sym *at;
} SymbolSet;
bool symbols_add(SymbolSet *s, Sym symbol); /* false: it is in the set */
void expr_symbols(SymbolSet *s, const Expr *e);
/* By name, from the one at `first` on: the order of variables in an expression depends on the order
 * in which they were named. */
void symbols_sort(SymbolSet *s, uint32_t first);
static inline Var
symbol_var(Sym s)
{
    return (Var){ VAR_SYMBOL, MAP_PTR(s) };
}
static inline Sym
var_symbol(Var v)
{
    return (Sym)(uintptr_t)v.id;
}

/* The number with high = floor(number / base) and low = number mod base; NULL: not of this form. */
const Expr *expr_of_digits(const Expr *high, const Expr *low, const Expr *base);
/* e = coef * v + rest with neither using v? (coef 0 when v is absent) */
bool expr_linear(Ctx *c, const Expr *e, Var v, const Expr **coef, const Expr **rest);
/* The operands of a broadcast, at most `most`, into part; 0: no broadcast, or it has more. */
uint32_t expr_broadcast_parts(const Expr *e, uint32_t most, const Expr **part);
/* Exact quotient, when the division leaves no remainder as polynomials; NULL otherwise. */
const Expr *expr_exact_div(Ctx *c, const Expr *a, const Expr *b);

/* What an atom of this kind, which is no variable, makes of the arguments: expr_div, … */
const Expr *expr_apply(Ctx *c, AtomKind kind, uint32_t n, const Expr *const *arg);
/* e with another Expr for each of its own atoms; expr_of_atom leaves one as it is. */
const Expr *expr_map_atoms(Ctx *c, const Expr *e, const Expr *(*to)(void *user, const Atom *a),
                           void *user);
const Expr *expr_of_atom(const Atom *atom);

typedef struct {
    Var var;
    const Expr *to;
} Binding;
const Expr *expr_subst(Ctx *c, const Expr *e, const Binding *b, uint32_t n); /* all at once */

/* ---- ranges and proofs ----------------------------------------------------------------------- */

typedef struct {
    int64_t lo, hi;
} Interval; /* INT64_MIN / INT64_MAX: unbounded */

/* What is known of axis and loop variables: begin <= var < begin + extent. Symbols have their own
 * ranges, kept by the context. A zeroed Ranges knows nothing but those. */
typedef struct {
    Var var;
    const Expr *begin, *extent;
} Range;
typedef struct {
    const Range *at;
    uint32_t n;
} Ranges;

typedef enum { NO = -1, UNKNOWN = 0, YES = 1 } Tri;

/* The greatest common divisor of the absolute values, 0 of two zeros; 1 if it does not fit an
 * int64_t. */
int64_t gcd64(int64_t a, int64_t b);

/* Size hints of a symbol: choices use them, proofs do not. Rising, each once; n 0: no hints. */
typedef struct {
    uint32_t n;
    const int64_t *at;
} SizeHints;
/* What is known of a symbol. range and late are read alone: see expr_symbol_range and _late. */
typedef struct {
    Interval range; /* [0, INT64_MAX] until narrowed */
    SizeHints hints;
    int64_t size;  /* to assume if there are no hints; negative: none is given */
    uint32_t late; /* its position among late symbols; 0: known at the start */
    int64_t fixed; /* a text that names it means this number; negative: it means the symbol */
    /* Kernels may not choose their order of sums by it, so results have the same bits at all its
     * sizes. */
    bool alike;
    /* Indices bounded by it come from the runtime and are in bounds: they need no check. */
    bool trusted;
} SymbolInfo;
SymbolInfo *expr_symbol_info(Ctx *c, Var symbol);
/* Narrows it. False if the ranges do not meet. */
bool expr_symbol_range(Ctx *c, Var symbol, Interval range);
Interval expr_symbol_get(Ctx *c, Var symbol);
void expr_symbol_expect(Ctx *c, Var symbol, SizeHints sizes); /* copies them */
SizeHints expr_symbol_hints(Ctx *c, Var symbol);              /* those in its range */
/* The size to assume for a symbol: the largest hint, which takes most of the time; otherwise its
 * default, moved into its range; otherwise the middle of its range if that ends by 2 *
 * EXPR_SUPPOSED; otherwise EXPR_SUPPOSED, or the range's beginning if that is larger. Most batches
 * and lengths are within 1 and 16,384, and 128 is the geometric mean of those. */
enum { EXPR_SUPPOSED = 128 };
int64_t expr_symbol_supposed(Ctx *c, Var symbol);
/* Learn a == b, which a check at run time guarantees. Narrows symbols (min(n, 512) == n gives n <=
 * 512), or orients the equality for substitution in every later expr_simplify. */
void expr_assume_eq(Ctx *c, const Expr *a, const Expr *b);
/* A counter of facts: the same number means that nothing was learnt since. */
uint32_t expr_learnt(Ctx *c);

Interval expr_bounds(Ctx *c, const Ranges *r, const Expr *e); /* r may be NULL */
/* under ranges and learnt equalities */
const Expr *expr_simplify(Ctx *c, const Ranges *r, const Expr *e);
Tri expr_eq(Ctx *c, const Ranges *r, const Expr *a, const Expr *b);
Tri expr_le(Ctx *c, const Ranges *r, const Expr *a, const Expr *b);
Tri expr_divisible(Ctx *c, const Ranges *r, const Expr *e, int64_t k);

/* From now on count queries, and evaluate those that stay UNKNOWN at sample sizes. */
void expr_watch(Ctx *c);
typedef struct {
    const char *text;
    uint64_t times;
} OpenQuery;
/* at [n]: the queries that held at all sample sizes, in the order of the first time. Context
 * lifetime. */
typedef struct {
    uint64_t asked, unknown;
    uint32_t n;
    const OpenQuery *at;
} Watched;
Watched expr_watched(Ctx *c);

/* ---- values and text ------------------------------------------------------------------------- */

/* The value under an assignment; false on overflow, on division by zero, or if `value` returns
 * false. */
bool expr_eval(const Expr *e, bool (*value)(void *user, Var v, int64_t *out), void *user,
               int64_t *out);

/* How to print; zeroed: for people. */
typedef struct {
    /* prints a variable; NULL: symbols by name, axes as $k, loops as @k */
    void (*name)(void *user, Text *t, Var v);
    void *user; /* of the three functions */
    /* C over int64_t: tn_div(a, b), tn_mod(a, b), tn_min(a, b), tn_max(a, b), tn_broadcast(a, b) */
    bool c_syntax;
    /* Is the value never negative? In C, its quotient and remainder by a positive number are then
     * tn_quo(a, b) and tn_rem(a, b), which take fewer instructions. NULL: unknown */
    bool (*natural)(void *user, const Expr *e);
    /* prints a quotient, remainder, minimum or maximum as a name; false: it has none. NULL: no
     * names */
    bool (*named)(void *user, Text *t, const Atom *a);
} ExprStyle;
/* Printed as  2*y + r - 1 ,  (n + 15) // 16 ,  n % 16 ,  min(a, b) . With names that the text's
 * parser knows, and without c_syntax, the text parses back to the same pointer. */
void expr_print(Text *t, const Expr *e, const ExprStyle *style);
/* for messages; context lifetime */
const char *expr_str(Ctx *c, const Expr *e);

#endif
