/* minmax: canonical min, max and broadcast.
 *
 * Arguments are flattened, a common summand is factored out (min(x + a, x + b) = x + min(a, b)),
 * the rest is sorted and deduplicated, and an argument that another one dominates by unchanging
 * bounds is dropped. The smallest constant is factored out too, so min(n + 1, m + 3) and min(n, m +
 * 2) + 1 are one expression.
 *
 * broadcast(a, b, …) is 0 if one of its arguments is 0, otherwise the largest. Its arguments are
 * dimensions, never negative. They are flattened, sorted and deduplicated; numbers are merged, and
 * a 1 is dropped. expr_simplify makes it a max where no argument can be 0.
 */
#include "expr/internal.h"

typedef struct {
    const Expr *at[EXPR_MAX_ARGS];
    uint32_t n;
} Args;

static bool
flatten(Ctx *c, AtomKind kind, const Expr *e, Args *args)
{
    int64_t plus;
    const Atom *same = expr_single(e, kind, kind == ATOM_BROADCAST ? NULL : &plus);

    if (kind == ATOM_BROADCAST)
        /* a summand of a broadcast is no summand of its arguments */
        plus = 0;
    for (uint32_t i = 0; same && i < same->narg; i++)
        if (!flatten(c, kind, expr_offset(c, same->arg[i], plus), args))
            return false;
    if (same)
        return true;
    if (args->n == EXPR_MAX_ARGS)
        return false;
    args->at[args->n++] = e;
    return true;
}

/* Is b redundant beside a? For min: a <= b always. */
static bool
dominates(Ctx *c, AtomKind kind, const Expr *a, const Expr *b)
{
    Proof p = { .c = c, .budget = 64, .intrinsic = true };
    const Expr *slack = kind == ATOM_MIN ? expr_sub(c, b, a) : expr_sub(c, a, b);

    return proof_bounds(&p, slack).lo >= 0;
}

static void
drop_dominated(Ctx *c, AtomKind kind, Args *args)
{
    for (uint32_t i = 0; i < args->n; i++)
        for (uint32_t k = 0; k < args->n; k++)
            if (k != i && dominates(c, kind, args->at[i], args->at[k])) {
                args->at[k] = args->at[--args->n];
                i = -1u; /* positions moved: look again from the start */
                break;
            }
}

static bool
has_term(const Expr *e, const Term *t)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        if (e->term[i].coef == t->coef && !term_compare(&e->term[i], t))
            return true;
    return false;
}

static const Expr *
common_part(Ctx *c, const Args *args)
{
    const Expr *first = args->at[0], *common;
    int64_t least = expr_constant_part(first);

    for (uint32_t i = 1; i < args->n; i++)
        if (expr_constant_part(args->at[i]) < least)
            least = expr_constant_part(args->at[i]);
    common = expr_int(c, least);
    for (uint32_t k = 0; k < first->nterm; k++) {
        bool everywhere = first->term[k].nfactor > 0;
        for (uint32_t i = 1; everywhere && i < args->n; i++)
            everywhere = has_term(args->at[i], &first->term[k]);
        if (everywhere)
            common = expr_add(c, common, expr_term(c, first->term[k]));
    }
    return common;
}

static void
sort(Args *args)
{
    for (uint32_t i = 1; i < args->n; i++)
        for (uint32_t k = i; k > 0 && expr_compare(args->at[k], args->at[k - 1]) < 0; k--) {
            const Expr *t = args->at[k];
            args->at[k] = args->at[k - 1];
            args->at[k - 1] = t;
        }
}

/* Merges all numbers into one in front, dropped if it is 1; keeps each other argument once. */
static void
merge_sizes(Ctx *c, Args *args)
{
    int64_t number = 1, k;
    uint32_t n = 1;

    sort(args);
    Args rest = { .n = 1 };
    for (uint32_t i = 0; i < args->n; i++)
        if (expr_const(args->at[i], &k))
            number = broadcast64(number, k);
        else if (n == 1 || rest.at[n - 1] != args->at[i])
            rest.at[n++] = args->at[i];
    rest.at[0] = expr_int(c, number);
    bool whole = number == 0; /* a zero decides alone */
    args->n = 0;
    for (uint32_t i = number == 1 && n > 1; i < (whole ? 1 : n); i++)
        args->at[args->n++] = rest.at[i];
}

static const Expr *
broadcast_of(Ctx *c, Args *args)
{
    merge_sizes(c, args);
    if (args->n == 1)
        return args->at[0];
    sort(args);
    return expr_atom(c, ATOM_BROADCAST, (Var){ 0 }, args->n, args->at);
}

const Expr *
expr_min_max(Ctx *c, AtomKind kind, uint32_t n, const Expr *const *arg)
{
    Args args = { .n = 0 };
    bool fits = true;

    for (uint32_t i = 0; i < n; i++)
        if (arg[i]->bad)
            return expr_bad(c);
    for (uint32_t i = 0; i < n && fits; i++)
        fits = flatten(c, kind, arg[i], &args);
    if (!fits) /* too many to flatten: stay nested */
        return expr_atom(c, kind, (Var){ 0 }, n, arg);
    if (kind == ATOM_BROADCAST)
        return broadcast_of(c, &args);
    drop_dominated(c, kind, &args);
    if (args.n == 1)
        return args.at[0];

    const Expr *common = common_part(c, &args);
    if (common->nterm) {
        for (uint32_t i = 0; i < args.n; i++)
            args.at[i] = expr_sub(c, args.at[i], common);
        return expr_add(c, common, expr_min_max(c, kind, args.n, args.at));
    }
    sort(&args);
    return expr_atom(c, kind, (Var){ 0 }, args.n, args.at);
}

const Expr *
expr_min(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_min_max(c, ATOM_MIN, 2, (const Expr *[]){ a, b });
}

const Expr *
expr_max(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_min_max(c, ATOM_MAX, 2, (const Expr *[]){ a, b });
}

const Expr *
expr_broadcast(Ctx *c, const Expr *a, const Expr *b)
{
    return expr_min_max(c, ATOM_BROADCAST, 2, (const Expr *[]){ a, b });
}

uint32_t
expr_broadcast_parts(const Expr *e, uint32_t most, const Expr **part)
{
    const Atom *a = expr_single(e, ATOM_BROADCAST, NULL);

    if (!a || a->narg > most)
        return 0;
    for (uint32_t i = 0; i < a->narg; i++)
        part[i] = a->arg[i];
    return a->narg;
}
