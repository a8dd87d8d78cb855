/* expr: normal forms, proofs and refusals, and every rule against plain arithmetic. */
#include "expr/expr.h"

#include "world.h"

#define S(name) expr_symbol(c, name)
#define N(v) expr_int(c, v)
#define ADD(a, b) expr_add(c, a, b)
#define SUB(a, b) expr_sub(c, a, b)
#define MUL(a, b) expr_mul(c, a, b)
#define DIV(a, b) expr_div(c, a, b)
#define MOD(a, b) expr_mod(c, a, b)
#define MIN(a, b) expr_min(c, a, b)
#define MAX(a, b) expr_max(c, a, b)
#define CTX Ctx *c = &((World *)*state)->ctx

static void
at_least_one(Ctx *c, const Expr *symbol)
{
    Var v;

    assert_true(expr_is_var(symbol, &v));
    assert_true(expr_symbol_range(c, v, (Interval){ 1, INT64_MAX }));
}

static void
polynomials(void **state)
{
    CTX;
    const Expr *n = S("n"), *h = S("h"), *a = S("a"), *b = S("b");

    assert_ptr_equal(MUL(MUL(n, N(4)), h), MUL(MUL(h, n), N(4)));
    assert_ptr_equal(MUL(MUL(a, b), n), MUL(MUL(n, a), b));
    assert_ptr_equal(MUL(ADD(a, b), SUB(a, b)), SUB(MUL(a, a), MUL(b, b)));
    assert_ptr_equal(SUB(n, n), N(0));
    assert_ptr_equal(DIV(MUL(n, N(12 * 64)), N(12 * 64)), n);
    assert_ptr_equal(DIV(ADD(MUL(N(16), n), N(15)), N(16)), n);
    assert_ptr_equal(ADD(DIV(ADD(h, N(2 - 3)), N(2)), N(1)), DIV(ADD(h, N(1)), N(2)));
    assert_ptr_equal(DIV(DIV(n, N(4)), N(8)), DIV(n, N(32)));
    assert_ptr_equal(MOD(MOD(n, N(32)), N(8)), MOD(n, N(8)));
    assert_ptr_equal(MIN(ADD(n, N(1)), ADD(h, N(3))), ADD(MIN(n, ADD(h, N(2))), N(1)));
    assert_ptr_equal(MIN(n, ADD(n, N(1))), n);
    assert_ptr_equal(MAX(n, N(-2)), n);
}

static void
proofs(void **state)
{
    CTX;
    const Expr *n = S("n"), *b = S("b"), *s = S("s"), *h = S("h"), *x = S("x");

    assert_int_equal(expr_eq(c, NULL, ADD(MUL(DIV(n, N(8)), N(8)), MOD(n, N(8))), n), YES);
    assert_int_equal(expr_le(c, NULL, MUL(DIV(ADD(n, N(15)), N(16)), N(16)), ADD(n, N(15))), YES);
    assert_int_equal(expr_le(c, NULL, MUL(n, N(128)), MUL(n, N(256))), YES);
    assert_int_equal(expr_le(c, NULL, MIN(s, N(1024)), N(1024)), YES);
    assert_int_equal(expr_eq(c, NULL, ADD(n, N(1)), n), NO);
    assert_int_equal(expr_eq(c, NULL, MUL(n, N(2)), ADD(MUL(h, N(4)), N(1))), NO);
    assert_int_equal(expr_le(c, NULL, ADD(n, N(1)), n), NO);
    assert_int_equal(expr_le(c, NULL, DIV(n, N(2)), n), YES);
    assert_int_equal(expr_divisible(c, NULL, ADD(MUL(n, N(12)), N(8)), 4), YES);
    assert_int_equal(expr_divisible(c, NULL, ADD(MUL(n, N(12)), N(6)), 4), NO);
    assert_int_equal(expr_divisible(c, NULL, n, 4), UNKNOWN);
    assert_int_equal(expr_eq(c, NULL, MAX(x, N(1)), x), UNKNOWN);
    at_least_one(c, x);
    assert_int_equal(expr_eq(c, NULL, MAX(x, N(1)), x), YES);

    const Expr *quotient = DIV(MUL(MUL(b, s), N(4096)), MUL(s, N(4096)));
    assert_int_equal(expr_eq(c, NULL, quotient, b), UNKNOWN);
    at_least_one(c, s);
    assert_int_equal(expr_eq(c, NULL, quotient, b), YES);
    assert_ptr_equal(DIV(MUL(MUL(b, s), N(4096)), MUL(s, N(4096))), b);

    /* refusals */
    assert_int_equal(expr_eq(c, NULL, MUL(n, N(2)), ADD(n, N(2))), UNKNOWN);
    assert_int_equal(expr_eq(c, NULL, MUL(DIV(n, N(2)), N(2)), n), UNKNOWN);
    assert_int_equal(expr_le(c, NULL, MUL(n, h), n), UNKNOWN);
}

static void
axes(void **state)
{
    CTX;
    const Expr *i = expr_axis(c, 0), *j = expr_axis(c, 1), *k = expr_axis(c, 2), *zero = N(0);
    const Expr *b = S("b"), *s = S("s"), *h = S("h");
    Range fixed[] = { { { VAR_AXIS, 0 }, zero, N(12) }, { { VAR_AXIS, 1 }, zero, N(64) } };
    Ranges r = { fixed, 2 };
    const Expr *flat = ADD(MUL(i, N(64)), j);

    assert_ptr_equal(expr_simplify(c, &r, DIV(flat, N(64))), i);
    assert_ptr_equal(expr_simplify(c, &r, MOD(flat, N(64))), j);
    assert_ptr_equal(expr_simplify(c, &r, DIV(flat, N(128))), DIV(i, N(2)));
    assert_ptr_equal(expr_simplify(c, &r, DIV(SUB(N(15), i), N(16))), zero);
    assert_ptr_equal(expr_simplify(c, &r, MOD(flat, N(128))), ADD(MUL(N(64), MOD(i, N(2))), j));

    Range open[] = { { { VAR_AXIS, 0 }, zero, b },
                     { { VAR_AXIS, 1 }, zero, s },
                     { { VAR_AXIS, 2 }, zero, N(768) } };
    r = (Ranges){ open, 3 };
    flat = ADD(MUL(s, i), j);
    assert_ptr_equal(expr_simplify(c, &r, DIV(flat, s)), i);
    assert_ptr_equal(expr_simplify(c, &r, MOD(flat, s)), j);
    assert_int_equal(expr_le(c, &r, j, expr_offset(c, s, -1)), YES);
    assert_int_equal(expr_le(c, &r, s, j), NO);
    assert_int_equal(expr_le(c, &r, ADD(flat, N(1)), MUL(s, b)), YES);
    flat = ADD(ADD(MUL(MUL(i, s), N(768)), MUL(j, N(768))), k);
    assert_ptr_equal(expr_simplify(c, &r, DIV(flat, MUL(s, N(768)))), i);
    assert_ptr_equal(expr_simplify(c, &r, MOD(flat, N(768))), k);
    assert_ptr_equal(expr_simplify(c, &r, MOD(DIV(flat, N(768)), s)), j);

    open[2].extent = h;
    flat = ADD(ADD(MUL(MUL(s, h), i), MUL(h, j)), k);
    assert_ptr_equal(expr_simplify(c, &r, DIV(flat, MUL(s, h))), i);
    assert_ptr_equal(expr_simplify(c, &r, DIV(flat, h)), ADD(MUL(s, i), j));
    assert_ptr_equal(expr_simplify(c, &r, MOD(DIV(flat, h), s)), j);
    assert_ptr_equal(expr_simplify(c, &r, MOD(flat, MUL(s, h))), ADD(MUL(h, j), k));
    /* an axis the question does not use may be empty: it says nothing of s */
    assert_ptr_equal(expr_simplify(c, &r, MAX(s, N(1))), MAX(s, N(1)));

    /* an image of whole tiles, flat, within some channels of it */
    const Expr *high = expr_ceil_div(c, S("height"), N(4)),
               *wide = expr_ceil_div(c, S("width"), N(4)), *group = MUL(N(192), MUL(high, wide));
    Range image[] = { { { VAR_AXIS, 0 }, zero, N(12) },
                      { { VAR_AXIS, 1 }, zero, MUL(N(4), high) },
                      { { VAR_AXIS, 2 }, zero, MUL(N(4), wide) } };
    Ranges tiles = { image, 3 };
    flat = ADD(ADD(MUL(N(16), MUL(i, MUL(high, wide))), MUL(N(4), MUL(j, wide))), k);
    assert_ptr_equal(expr_simplify(c, &tiles, DIV(ADD(MUL(N(4), MUL(j, wide)), k), group)), zero);
    assert_ptr_equal(expr_simplify(c, &tiles, DIV(flat, group)), zero);
    assert_ptr_equal(expr_simplify(c, &tiles, DIV(flat, MUL(N(16), MUL(high, wide)))), i);
    assert_ptr_equal(expr_simplify(c, &tiles, MOD(flat, group)), flat);
    /* the same of many channels, eight in a group: a number of the group, and read back a channel,
     * a row and a column */
    const Expr *plane = MUL(N(16), MUL(high, wide)), *eight = MUL(N(8), plane);
    image[0].extent = N(128);
    const Expr *there = ADD(MUL(eight, DIV(flat, eight)), MOD(flat, eight));
    assert_ptr_equal(expr_simplify(c, &tiles, DIV(flat, eight)), DIV(i, N(8)));
    assert_ptr_equal(expr_simplify(c, &tiles, DIV(there, plane)), i);
    assert_ptr_equal(expr_simplify(c, &tiles, MOD(DIV(there, MUL(N(4), wide)), MUL(N(4), high))),
                     j);
    assert_ptr_equal(expr_simplify(c, &tiles, MOD(MOD(flat, eight), MUL(N(4), wide))), k);

    /* a tile: j runs over min(14, s - 14*i) */
    open[0].extent = expr_ceil_div(c, s, N(14));
    open[1].extent = MIN(N(14), SUB(s, MUL(N(14), i)));
    assert_int_equal(expr_le(c, &r, ADD(ADD(MUL(N(14), i), j), N(1)), s), YES);
}

static void
broadcasts(void **state)
{
    CTX;
    const Expr *n = S("n"), *m = S("m"), *p = S("p"), *q = S("q"), *r = S("r"), *part[3];
    const Expr *both = expr_broadcast(c, n, m), *three = expr_broadcast(c, p, both);

    assert_ptr_equal(both, expr_broadcast(c, m, n));
    assert_ptr_equal(expr_broadcast(c, both, n), both);
    assert_ptr_equal(three, expr_broadcast(c, expr_broadcast(c, n, p), m));
    assert_ptr_equal(expr_broadcast(c, n, N(1)), n);
    assert_ptr_equal(expr_broadcast(c, both, N(0)), N(0));
    assert_ptr_equal(expr_broadcast(c, N(3), N(7)), N(7));
    assert_int_equal(expr_broadcast_parts(three, 3, part), 3);
    assert_int_equal(expr_broadcast_parts(three, 2, part), 0);
    assert_int_equal(expr_broadcast_parts(n, 3, part), 0);
    assert_string_equal(expr_str(c, ADD(MUL(N(4), three), N(1))), "4*broadcast(m, n, p) + 1");
    assert_ptr_equal(
        expr_subst(c, three, &(Binding){ { VAR_SYMBOL, MAP_PTR(sym(c, "p")) }, N(1) }, 1), both);

    /* 0 beside 1 is 0, so it is no max; a size that is 0 or 1 is a factor */
    assert_int_equal(expr_le(c, NULL, n, both), UNKNOWN);
    assert_int_equal(expr_le(c, NULL, both, MAX(n, m)), YES);
    assert_int_equal(expr_le(c, NULL, MIN(n, m), both), YES);
    assert_ptr_equal(expr_simplify(c, NULL, expr_broadcast(c, n, MIN(m, N(1)))),
                     MUL(n, MIN(m, N(1))));
    at_least_one(c, n);
    at_least_one(c, m);
    assert_ptr_equal(expr_simplify(c, NULL, both), MAX(n, m));

    /* what one is learnt to be, and what that says of its parts */
    const Expr *wide = expr_broadcast(c, ADD(p, q), r);
    expr_assume_eq(c, wide, ADD(p, q));
    assert_ptr_equal(expr_simplify(c, NULL, MUL(N(8), wide)), MUL(N(8), ADD(p, q)));
    assert_ptr_equal(expr_simplify(c, NULL, r), r);
    expr_assume_eq(c, q, MUL(N(2), p));
    assert_ptr_equal(expr_simplify(c, NULL, expr_broadcast(c, MUL(N(3), p), r)), MUL(N(3), p));
    expr_assume_eq(c, expr_broadcast(c, S("u"), S("v")), N(5));
    assert_int_equal(expr_symbol_get(c, (Var){ VAR_SYMBOL, MAP_PTR(sym(c, "u")) }).lo, 1);
    assert_int_equal(expr_symbol_get(c, (Var){ VAR_SYMBOL, MAP_PTR(sym(c, "u")) }).hi, 5);
    const Expr *least = MIN(S("w"), DIV(S("h"), N(2)));
    expr_assume_eq(c, least, S("w"));
    assert_ptr_equal(expr_simplify(c, NULL, ADD(least, N(1))), ADD(S("w"), N(1)));
}

static void
learning(void **state)
{
    CTX;
    const Expr *n = S("n"), *m = S("m"), *p = S("p"), *q = S("q");
    Var v;

    /* what was simplified before something was learnt, and is simplified again after each */
    assert_ptr_equal(expr_simplify(c, NULL, MIN(n, N(600))), MIN(n, N(600)));
    expr_assume_eq(c, MIN(n, N(512)), n);
    assert_true(expr_is_var(n, &v));
    assert_int_equal(expr_symbol_get(c, v).hi, 512);
    assert_ptr_equal(expr_simplify(c, NULL, MIN(n, N(600))), n);
    const Expr *less = MIN(m, ADD(n, N(1)));
    assert_ptr_equal(expr_simplify(c, NULL, less), less);
    expr_assume_eq(c, m, n);
    assert_ptr_equal(expr_simplify(c, NULL, m), n);
    assert_ptr_equal(expr_simplify(c, NULL, less), n);
    assert_int_equal(expr_eq(c, NULL, MUL(m, N(3)), ADD(MUL(N(2), n), n)), YES);
    expr_assume_eq(c, p, MUL(N(4), q));
    assert_int_equal(expr_divisible(c, NULL, p, 4), YES);
    /* what a node defines says nothing of what is read before */
    const Expr *late = expr_fresh_symbol(c, "late"), *early = S("early");
    expr_assume_eq(c, early, MUL(N(4), late));
    assert_ptr_equal(expr_simplify(c, NULL, early), early);
    expr_assume_eq(c, late, ADD(early, N(1)));
    assert_ptr_equal(expr_simplify(c, NULL, late), ADD(early, N(1)));
    expr_assume_eq(c, MUL(N(2), S("t")), N(6));
    assert_ptr_equal(expr_simplify(c, NULL, S("t")), N(3));
    expr_assume_eq(c, S("old"), N(7));
    assert_int_equal(expr_eq(c, NULL, S("old"), N(7)), YES);
    assert_false(
        expr_symbol_range(c, (Var){ VAR_SYMBOL, MAP_PTR(sym(c, "old")) }, (Interval){ 8, 9 }));
}

static void
overflow(void **state)
{
    CTX;
    const Expr *n = S("n"), *big = MUL(n, N(INT64_MAX)), *bad = MUL(big, N(2));

    assert_true(bad->bad);
    assert_ptr_equal(bad, expr_bad(c));
    assert_ptr_equal(ADD(bad, n), bad);
    assert_ptr_equal(SUB(n, bad), bad);
    assert_ptr_equal(MUL(bad, N(0)), bad);
    assert_ptr_equal(DIV(bad, N(2)), bad);
    assert_ptr_equal(MIN(bad, n), bad);
    assert_true(ADD(N(INT64_MAX), N(1))->bad);
    assert_int_equal(expr_eq(c, NULL, bad, bad), UNKNOWN);
    assert_int_equal(expr_le(c, NULL, bad, n), UNKNOWN);
    assert_false(expr_const(bad, NULL));
    assert_string_equal(expr_str(c, bad), "overflow");
    assert_true(DIV(n, N(INT64_MIN))->bad);
}

/* Without limits, powers wrap, and walks take as long and as much stack as a model wants. */
static void
too_large(void **state)
{
    CTX;
    const Expr *n = S("n"), *m = S("m"), *power = n, *sum = N(0), *mixed = N(1);

    for (uint32_t i = 1; i < EXPR_MAX_DEGREE; i++)
        power = MUL(power, n);
    assert_false(power->bad);
    assert_true(MUL(power, n)->bad);
    assert_true(MUL(m, power)->bad);
    assert_true(MUL(ADD(n, m), ADD(power, N(1)))->bad);
    assert_ptr_equal(MUL(power, N(0)), N(0));
    for (int i = 0; i < 40; i++) {
        n = MUL(n, n);
        assert_true(n->bad || n->term->factor->power == UINT32_C(2) << i);
    }
    assert_true(n->bad);
    for (int i = 0; i < 8; i++) /* some hundred atoms in the end */
        mixed = DIV(ADD(mixed, m), ADD(ADD(MUL(mixed, mixed), m), N(i + 2)));
    assert_false(mixed->bad);
    for (int i = 0; i < EXPR_MAX_TERMS && !sum->bad; i++)
        sum = ADD(sum, DIV(mixed, N(1000003 + i)));
    assert_true(sum->bad);
}

static void
structure(void **state)
{
    CTX;
    const Expr *n = S("n"), *m = S("m"), *i = expr_axis(c, 0), *coef, *rest;
    const Expr *e = ADD(MUL(ADD(n, N(2)), i), DIV(m, N(3)));
    Var v = { VAR_AXIS, 0 };

    assert_true(expr_linear(c, e, v, &coef, &rest));
    assert_ptr_equal(coef, ADD(n, N(2)));
    assert_ptr_equal(rest, DIV(m, N(3)));
    assert_false(expr_linear(c, DIV(i, N(2)), v, &coef, &rest));
    assert_false(expr_linear(c, MUL(i, i), v, &coef, &rest));
    assert_true(expr_linear(c, n, v, &coef, &rest));
    assert_ptr_equal(coef, N(0));
    assert_ptr_equal(expr_exact_div(c, SUB(MUL(n, n), MUL(m, m)), ADD(n, m)), SUB(n, m));
    assert_null(expr_exact_div(c, ADD(n, N(1)), N(2)));
    assert_null(expr_exact_div(c, n, N(0)));
    assert_true(expr_uses(DIV(n, ADD(m, N(1))), (Var){ VAR_SYMBOL, MAP_PTR(sym(c, "m")) }));
    assert_false(expr_uses_kind(n, VAR_AXIS));

    /* all at once: a swap does not chase itself */
    Binding swap[] = { { { VAR_SYMBOL, MAP_PTR(sym(c, "n")) }, m },
                       { { VAR_SYMBOL, MAP_PTR(sym(c, "m")) }, n } };
    assert_ptr_equal(expr_subst(c, SUB(n, DIV(m, N(3))), swap, 2), SUB(m, DIV(n, N(3))));
    swap[0].to = N(30);
    assert_ptr_equal(expr_subst(c, ADD(MOD(n, N(7)), i), swap, 1), ADD(i, N(2)));
}

static bool
is_size(void *user, const Expr *e)
{
    (void)user;
    return expr_is_var(e, NULL);
}

static void
text(void **state)
{
    CTX;
    const Expr *r = S("r"), *y = expr_axis(c, 0), *i = expr_axis(c, 1), *n = S("n"), *h = S("h");
    Text t = { .arena = c->arena };

    assert_string_equal(expr_str(c, ADD(ADD(MUL(N(2), n), r), N(-1))), "2*n + r - 1");
    assert_string_equal(expr_str(c, DIV(ADD(n, N(15)), N(16))), "(n + 15) // 16");
    assert_string_equal(expr_str(c, MOD(n, N(16))), "n % 16");
    assert_string_equal(expr_str(c, SUB(N(15), n)), "15 - n");
    assert_string_equal(expr_str(c, SUB(SUB(n, i), N(1))), "n - $1 - 1");
    assert_string_equal(expr_str(c, MUL(N(-1), n)), "-n");
    assert_string_equal(expr_str(c, N(-3)), "-3");
    assert_string_equal(expr_str(c, MUL(MUL(n, n), h)), "h*n*n");
    assert_string_equal(expr_str(c, MUL(N(16), DIV(n, N(16)))), "16*(n // 16)");
    assert_string_equal(expr_str(c, MUL(N(-1), DIV(n, N(16)))), "-(n // 16)");
    assert_string_equal(expr_str(c, ADD(DIV(h, N(2)), N(1))), "h // 2 + 1");
    assert_string_equal(expr_str(c, MIN(n, MIN(y, h))), "min(h, n, $0)");
    expr_print(&t, ADD(MIN(n, MIN(r, h)), MUL(N(2), DIV(ADD(n, N(15)), N(512)))),
               &(ExprStyle){ .c_syntax = true });
    assert_string_equal(text_str(&t), "2*tn_div(n + 15, 512) + tn_min(h, tn_min(n, r))");
    t.n = 0;
    expr_print(&t, ADD(ADD(DIV(n, N(3)), MOD(SUB(n, h), N(3))), DIV(n, h)),
               &(ExprStyle){ .c_syntax = true, .natural = is_size });
    assert_string_equal(text_str(&t), "tn_div(n, h) + tn_quo(n, 3) + tn_mod(2*h + n, 3)");
}

/* ---- every rule against arithmetic ----------------------------------------------------------- */

enum { NVAR = 4 };
static const int64_t extent_of[NVAR] = { 3, 4, 6, 5 };
typedef struct {
    Ctx *c;
    uint64_t seed;
    const Expr *var[NVAR];
} Gen;
typedef struct {
    int64_t value[NVAR];
    const Expr *const *var;
} Point;

static uint32_t
dice(Gen *g, uint32_t n)
{
    g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->seed >> 33) % n;
}

/* A tree that remembers how it was made: its value never goes through the code under test. */
typedef struct Node {
    char op;
    int64_t k;
    struct Node *a, *b;
} Node;

static Node *
grow(Gen *g, int depth)
{
    static const int64_t divisor[] = { 1, 2, 3, 4, 6, 8, 12, -2, -3 };
    Node *n = NEW(g->c->arena, Node);
    uint32_t kind = depth == 0 ? dice(g, 2) : dice(g, 11);

    if (kind < 2)
        *n = kind ? (Node){ 'v', dice(g, NVAR), NULL, NULL }
                  : (Node){ 'k', (int64_t)dice(g, 12) - 4, NULL, NULL };
    else if (kind < 5)
        *n = (Node){ kind == 4 ? '-' : '+', 0, grow(g, depth - 1), grow(g, depth - 1) };
    else if (kind == 5)
        *n = (Node){ '*', (int64_t)dice(g, 10) - 3, grow(g, depth - 1), NULL };
    else if (kind < 8)
        *n = (Node){ kind == 6 ? '/' : '%', divisor[dice(g, 9)], grow(g, depth - 1), NULL };
    else
        *n = (Node){ kind == 8   ? 'm'
                     : kind == 9 ? 'M'
                                 : 'B',
                     0, grow(g, depth - 1), grow(g, depth - 1) };
    return n;
}

static int64_t
node_value(const Node *n, const int64_t *value)
{
    int64_t a = n->a ? node_value(n->a, value) : 0, b = n->b ? node_value(n->b, value) : 0;

    switch (n->op) {
    case 'v': return value[n->k];
    case 'k': return n->k;
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * n->k;
    case '/': return floor_div(a, n->k);
    case '%': return floor_mod(a, n->k);
    case 'm': return a < b ? a : b;
    case 'B': return a <= 0 || b <= 0 ? 0 : a > b ? a : b; /* of what is no size, 0 */
    default: return a > b ? a : b;
    }
}

static const Expr *
node_expr(const Gen *g, const Node *n)
{
    Ctx *c = g->c;
    const Expr *a = n->a ? node_expr(g, n->a) : NULL, *b = n->b ? node_expr(g, n->b) : NULL;

    switch (n->op) {
    case 'v': return g->var[n->k];
    case 'k': return N(n->k);
    case '+': return ADD(a, b);
    case '-': return SUB(a, b);
    case '*': return MUL(a, N(n->k));
    case '/': return DIV(a, N(n->k));
    case '%': return MOD(a, N(n->k));
    case 'm': return MIN(a, b);
    case 'B': return expr_broadcast(c, MAX(a, N(0)), MAX(b, N(0)));
    default: return MAX(a, b);
    }
}

static bool
value_at(void *user, Var v, int64_t *out)
{
    Point *p = user;

    for (int i = 0; i < NVAR; i++) {
        Var is;
        expr_is_var(p->var[i], &is);
        if (is.kind == v.kind && is.id == v.id) {
            *out = p->value[i];
            return true;
        }
    }
    return false;
}

static bool
next_point(int64_t *value)
{
    for (int i = 0; i < NVAR; i++) {
        if (++value[i] < extent_of[i])
            return true;
        value[i] = 0;
    }
    return false;
}

static void
random_rules(void **state)
{
    CTX;
    Gen g = { c, 42, { expr_axis(c, 0), S("n"), expr_axis(c, 1), expr_loop(c, 0) } };
    Range range[NVAR];

    for (int i = 0; i < NVAR; i++) {
        range[i] = (Range){ .begin = N(0), .extent = N(extent_of[i]) };
        expr_is_var(g.var[i], &range[i].var);
    }
    expr_symbol_range(c, range[1].var, (Interval){ 0, extent_of[1] - 1 });
    Ranges r = { range, NVAR };

    for (int trial = 0; trial < 1500; trial++) {
        Node *a = grow(&g, 4), *b = grow(&g, 2);
        const Expr *e = node_expr(&g, a), *f = node_expr(&g, b);
        const Expr *simple = expr_simplify(c, &r, e);
        Interval bounds = expr_bounds(c, &r, e);
        Tri le = expr_le(c, &r, e, f), eq = expr_eq(c, &r, e, f),
            even = expr_divisible(c, &r, e, 2);
        Point p = { .var = g.var };
        do {
            int64_t want = node_value(a, p.value), other = node_value(b, p.value), got = 0;
            assert_true(expr_eval(e, value_at, &p, &got));
            assert_int_equal(got, want);
            assert_true(expr_eval(simple, value_at, &p, &got));
            assert_int_equal(got, want);
            assert_true(bounds.lo <= want && want <= bounds.hi);
            assert_true(le == UNKNOWN || (le == YES) == (want <= other));
            assert_true(eq == UNKNOWN || (eq == YES) == (want == other));
            assert_true(even == UNKNOWN || (even == YES) == (want % 2 == 0));
        } while (next_point(p.value));
    }
}

/* Divisors, extents and coefficients that are symbols: checked for all small values of them. */
static void
random_symbolic(void **state)
{
    CTX;
    const Expr *i = expr_axis(c, 0), *j = expr_axis(c, 1), *s = S("s"), *h = S("h");
    const Expr *var[NVAR] = { i, j, s, h };
    Range range[] = { { { VAR_AXIS, 0 }, N(0), s }, { { VAR_AXIS, 1 }, N(0), h } };
    Ranges r = { range, 2 };
    Gen g = { c, 7, { i, j, s, h } };
    uint32_t shorter = 0;

    for (int trial = 0; trial < 1500; trial++) {
        const Expr *part[] = { MUL(s, i), MUL(h, j), MUL(h, i),         MUL(s, j), i,
                               j,         MUL(s, h), MUL(MUL(h, h), i), s };
        const Expr *by[] = { s, h, MUL(s, h), MUL(N(2), h), ADD(s, h), MUL(N(4), MUL(s, h)) };
        const Expr *e = N((int64_t)dice(&g, 5) - 2), *q = by[dice(&g, 6)];
        for (int k = 0; k < 3; k++)
            e = ADD(e, expr_scale(c, part[dice(&g, 9)], (int64_t)dice(&g, 5) - 1));
        const Expr *div = expr_simplify(c, &r, DIV(e, q)), *mod = expr_simplify(c, &r, MOD(e, q));
        Tri small = expr_le(c, &r, e, q);
        shorter += !expr_eq(c, NULL, div, DIV(e, q));
        for (int64_t sv = 1; sv < 4; sv++)
            for (int64_t hv = 1; hv < 4; hv++)
                for (int64_t point = 0; point < sv * hv; point++) {
                    Point p = { { point / hv, point % hv, sv, hv }, var };
                    int64_t a, b, got;
                    assert_true(expr_eval(e, value_at, &p, &a) && expr_eval(q, value_at, &p, &b));
                    assert_true(expr_eval(div, value_at, &p, &got));
                    assert_int_equal(got, floor_div(a, b));
                    assert_true(expr_eval(mod, value_at, &p, &got));
                    assert_int_equal(got, floor_mod(a, b));
                    assert_true(small == UNKNOWN || (small == YES) == (a <= b));
                }
    }
    assert_true(shorter > 100); /* the rules do fire */
}

/* Expressions that are there already take no memory, and the clock is looked at all the same. */
static void
what_is_found_again_is_watched(void **state)
{
    (void)state;
    Oom oom;
    Watch w = { 0 };
    Arena *a = arena_new(NULL, &oom);
    static Ctx ctx;
    Ctx *c = &ctx;
    ctx_init(c, a);
    const Expr *n = S("n"), *volatile two = MUL(n, N(2));
    volatile size_t taken = arena_bytes(a);
    arena_watch(a, &w);
    w.until = time_seconds() + 0.01;
    if (!setjmp(oom.jump))
        for (;;)
            assert_ptr_equal(ADD(n, n), two);
    assert_int_equal(w.over, WATCH_TIME);
    assert_int_equal(arena_bytes(a), taken);
    arena_free(a);
}

/* A size is 0, or one more than another; not where a loop runs to it. */
static void
sizes_that_may_be_nothing(void **state)
{
    CTX;
    const Expr *n = S("n"), *b = S("b"), *x = S("x"), *i = expr_loop(c, 1);
    Ranges r = { &(Range){ (Var){ VAR_LOOP, 1 }, N(0), n }, 1 };

    assert_int_equal(expr_le(c, NULL, MUL(b, n), MUL(MUL(b, n), n)), YES);
    assert_int_equal(expr_le(c, NULL, MUL(b, DIV(x, b)), x), YES);
    assert_int_equal(expr_eq(c, NULL, MIN(ADD(n, MIN(n, N(1))), N(1)), MIN(n, N(1))), YES);
    assert_int_equal(expr_le(c, NULL, MUL(b, n), MUL(n, n)), UNKNOWN);
    assert_int_equal(expr_le(c, NULL, ADD(MUL(b, n), N(1)), MUL(MUL(b, n), n)), UNKNOWN);
    assert_int_equal(expr_le(c, &r, MUL(ADD(i, N(1)), n), MUL(n, n)), YES);
    assert_int_equal(expr_le(c, &r, MUL(ADD(i, N(2)), n), MUL(n, n)), UNKNOWN);
}

static void
products_above_what_is_least(void **state)
{
    CTX;
    const Expr *m = MAX(S("m"), N(4)), *n = MAX(S("n"), N(4)),
               *product = MUL(SUB(m, N(4)), SUB(n, N(4)));

    assert_int_equal(expr_le(c, NULL, N(0), product), YES);
    assert_ptr_equal(expr_simplify(c, NULL, MAX(N(0), product)), product);
    assert_int_equal(expr_le(c, NULL, N(0), MUL(SUB(m, N(5)), SUB(n, N(4)))), UNKNOWN);
}

/* What no proof answers is listed if it held wherever it was tried; what sizes decide is not. */
static void
watched(void **state)
{
    CTX;
    const Expr *n = S("n"), *i = expr_loop(c, 1), *cubes = SUB(MUL(MUL(n, n), n), n);
    Ranges r = { &(Range){ (Var){ VAR_LOOP, 1 }, N(0), n }, 1 };

    assert_int_equal(expr_watched(c).asked, 0);
    expr_watch(c);
    assert_int_equal(expr_le(c, NULL, n, N(8)), UNKNOWN);
    assert_int_equal(expr_le(c, &r, i, N(7)), UNKNOWN);
    assert_int_equal(expr_le(c, &r, i, n), YES);
    for (int k = 0; k < 2; k++)
        assert_int_equal(expr_divisible(c, NULL, cubes, 6), UNKNOWN);
    Watched w = expr_watched(c);
    assert_int_equal(w.asked, 5);
    assert_int_equal(w.unknown, 4);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.at[0].times, 2);
    assert_non_null(strstr(w.at[0].text, "a multiple of 6"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(polynomials, world_begin, world_end),
        cmocka_unit_test_setup_teardown(proofs, world_begin, world_end),
        cmocka_unit_test_setup_teardown(axes, world_begin, world_end),
        cmocka_unit_test_setup_teardown(broadcasts, world_begin, world_end),
        cmocka_unit_test_setup_teardown(learning, world_begin, world_end),
        cmocka_unit_test_setup_teardown(overflow, world_begin, world_end),
        cmocka_unit_test_setup_teardown(too_large, world_begin, world_end),
        cmocka_unit_test_setup_teardown(structure, world_begin, world_end),
        cmocka_unit_test_setup_teardown(text, world_begin, world_end),
        cmocka_unit_test_setup_teardown(random_rules, world_begin, world_end),
        cmocka_unit_test(what_is_found_again_is_watched),
        cmocka_unit_test_setup_teardown(random_symbolic, world_begin, world_end),
        cmocka_unit_test_setup_teardown(sizes_that_may_be_nothing, world_begin, world_end),
        cmocka_unit_test_setup_teardown(products_above_what_is_least, world_begin, world_end),
        cmocka_unit_test_setup_teardown(watched, world_begin, world_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
