/* simplify: a nest with fewer and plainer axes, indices and guards.
 *
 * Substituting one nest into another leaves traces: reduction axes read as k // 64 and k % 64,
 * guards that the axes' ranges prove, axes of extent 1. Three steps, repeated while they change
 * something (each removes divisions, axes or guards, so they terminate):
 *
 *   drop      reduction axes of extent 1
 *   split     a reduction axis that is divided by d, where d divides its extent, into two:
 *             sum k<512>: x[k // 64, i, k % 64]  is  sum k<8>, k_2<64>: x[k, i, k_2]
 *   tidy      every Expr simplified with the ranges of the axes, proved guards and comparisons
 *             decided, identities of scalar expressions applied (identities.def)
 *
 * Parallel axes are split only if that reveals a contraction, since the outputs are then written at
 * digits: a grouped convolution reads x at q + 4*(j // 4); with j = 4*g + f it reads q + 4*g, and f
 * is w's alone. A phase is a digit too: (k + 1) // 2 with k = 2*y + p is y + p, since an expression
 * over an axis of two points is linear in it.
 */
#include <math.h>

#include "algebra/internal.h"
#include "nest/walk.h"

#define MAX_ROUNDS 8 /* bounds work: a round does what the one before made possible */
/* trips of an axis whose extent is a symbol, when choosing: more than a window or a group has */
#define MANY 1024

typedef struct {
    Ctx *ctx;
    NestEdit *edit;
    Ranges ranges;
    bool any; /* has anything changed? */
} Simplify;

/* ---- drop ------------------------------------------------------------------------------------ */

static bool
drop_unit_axes(Simplify *s)
{
    NestEdit *e = s->edit;
    Binding bind[NEST_MAX_AXES];
    uint32_t kept = 0, naxis = e->nest.naxis;

    for (uint32_t k = 0; k < naxis; k++) {
        Axis axis = e->axis[k];
        bool drop = axis.kind == AXIS_REDUCE && expr_is(axis.extent, 1);
        bind[k] =
            (Binding){ { VAR_AXIS, k }, drop ? expr_int(s->ctx, 0) : expr_axis(s->ctx, kept) };
        if (!drop)
            e->axis[kept++] = axis;
    }
    if (kept == naxis)
        return false;
    e->nest.naxis = kept;
    nest_edit_bind(s->ctx, e, bind, naxis);
    return true;
}

/* ---- split ----------------------------------------------------------------------------------- */

typedef struct {
    Ctx *ctx;
    const NestEdit *edit;
    AxisKind kind;
    uint32_t axis;
    const Expr *divisor;
} SplitSearch;

static void search_expr(SplitSearch *s, const Expr *e);

/* An axis, or an axis and a number. */
static bool
is_shifted_axis(Ctx *c, const Expr *e, Var *v)
{
    int64_t shift = 0;

    if (e->nterm == 2 && !e->term[1].nfactor)
        shift = e->term[1].coef;
    return expr_is_var(shift ? expr_offset(c, e, -shift) : e, v) && v->kind == VAR_AXIS;
}

static void
search_atom(SplitSearch *s, const Atom *m)
{
    Var v;

    if (m->kind == ATOM_VAR || s->divisor)
        return;
    if ((m->kind == ATOM_DIV || m->kind == ATOM_MOD) && is_shifted_axis(s->ctx, m->arg[0], &v)) {
        const Axis *a = &s->edit->axis[v.id];
        const Expr *d = m->arg[1];
        bool proper =
            !expr_is(d, 1) && d != a->extent && !expr_axes(d) && !expr_uses_kind(d, VAR_COMPUTED);
        if (a->kind == s->kind && proper && expr_exact_div(s->ctx, a->extent, d)) {
            s->axis = (uint32_t)v.id;
            s->divisor = d;
            return;
        }
    }
    for (uint32_t i = 0; i < m->narg; i++)
        search_expr(s, m->arg[i]);
}

static void
search_expr(SplitSearch *s, const Expr *e)
{
    for (uint32_t i = 0; i < e->nterm; i++)
        for (uint32_t f = 0; f < e->term[i].nfactor; f++)
            search_atom(s, e->term[i].factor[f].atom);
}

static void
search_scalar(SplitSearch *s, const Scalar *value)
{
    FOR_EACH_SCALAR (node, scalar_nodes(s->ctx, value)) {
        if (node->op == S_INDEX || node->op == S_AT)
            search_expr(s, node->u.index);
        if (node->op == S_LOAD)
            for (uint32_t d = 0; d < node->u.load.rank; d++)
                search_expr(s, node->u.load.at[d]);
    }
}

/* The promise of a score is not computed: the indices of a block table are no digits of its
 * axes. */
static const Scalar *
without_promise(ScalarMap *m, const Scalar *node)
{
    (void)m;
    return node->op == S_SEEN ? node->arg[1] : node;
}

/* Only the summand decides whether it is a contraction, whatever selects or scales sums at other
 * digits. */
static void
search_summands(SplitSearch *s, const Scalar *value)
{
    FOR_EACH_SCALAR (node, scalar_nodes(s->ctx, value))
        for (uint32_t i = 0; node->op == S_REDUCE && i < node->narg; i++)
            search_scalar(s, node->arg[i]);
}

static bool
split_an_axis(Simplify *s, AxisKind kind, Arena *scratch)
{
    Ctx *c = s->ctx;
    NestEdit *e = s->edit;
    SplitSearch search = { .ctx = c, .edit = e, .kind = kind };

    if (e->nest.naxis == NEST_MAX_AXES)
        return false;
    for (uint32_t i = 0; i < e->nest.nwrite; i++) {
        ScalarMap m = { .node = without_promise, .ctx = c, .done = { .arena = scratch } };
        const Scalar *value = scalar_map(&m, e->write[i].value);
        (kind == AXIS_PARALLEL ? search_summands : search_scalar)(&search, value);
    }
    if (!search.divisor)
        return false;
    nest_edit_split(c, e, search.axis, search.divisor);
    return true;
}

/* ---- tidy ------------------------------------------------------------------------------------ */

/* e as a + b*x for an axis x of two points, where b is a number and e is not of that form yet. */
static const Expr *
over_two_points(const Simplify *s, const Expr *e)
{
    Ctx *c = s->ctx;

    for (uint32_t k = 0; k < s->ranges.n; k++) {
        const Expr *coef, *rest;
        Var x = { VAR_AXIS, k };
        if (!expr_is(s->ranges.at[k].extent, 2) || !expr_uses(e, x) ||
            expr_linear(c, e, x, &coef, &rest))
            continue;
        const Expr *first =
            expr_simplify(c, &s->ranges, expr_subst(c, e, &(Binding){ x, expr_int(c, 0) }, 1));
        const Expr *second =
            expr_simplify(c, &s->ranges, expr_subst(c, e, &(Binding){ x, expr_int(c, 1) }, 1));
        const Expr *step = expr_sub(c, second, first);
        if (expr_const(step, NULL))
            e = expr_add(c, first, expr_mul(c, step, expr_axis(c, k)));
    }
    return e;
}

static const Expr *
tidy_expr(ScalarMap *m, const Expr *e)
{
    const Simplify *s = m->user;

    return over_two_points(s, expr_simplify(m->ctx, &s->ranges, e));
}

static const Scalar *
tidy_load(ScalarMap *m, const Scalar *load)
{
    const Simplify *s = m->user;
    uint32_t slot = load->u.load.slot;

    if (!load->u.load.outside ||
        !load_is_inside(m->ctx, &s->ranges, load, s->edit->param[slot].type))
        return load;
    return load_with(m->ctx, load, slot, NULL);
}

/* The Expr of an index or an integer; NULL for other scalars. */
static const Expr *
as_expr(Ctx *c, const Scalar *s)
{
    if (s->op == S_INDEX)
        return s->u.index;
    return s->op == S_CONST && dtype_is_int(s->dtype) ? expr_int(c, s->u.bits) : NULL;
}

/* Comparisons of indices, and checks of them, that the ranges decide; identities of computed
 * values. */
static const Scalar *
tidy_node(ScalarMap *m, const Scalar *node)
{
    const Simplify *s = m->user;
    Ctx *c = m->ctx;

    if (node->op == S_AT) {
        const Expr *at = as_expr(c, node->arg[0]);
        bool inside = at && expr_le(c, &s->ranges, expr_int(c, 0), at) == YES &&
                      expr_le(c, &s->ranges, expr_offset(c, at, 1), node->u.index) == YES;
        return inside ? scalar_index(c, at) : node;
    }
    if (node->op < S_EQ || node->op > S_GE || node->arg[0]->dtype != DT_I64)
        return scalar_identity(c, node);
    Tri t = scalar_fold_comparisons(c, &s->ranges, node);
    return t == UNKNOWN ? node : scalar_int(c, DT_BOOL, t == YES);
}

static void
tidy(Simplify *s, Arena *scratch)
{
    NestEdit *e = s->edit;
    ScalarMap m = { .expr = tidy_expr,
                    .load = tidy_load,
                    .node = tidy_node,
                    .user = s,
                    .ctx = s->ctx,
                    .done = { .arena = scratch } };

    Range *range = NEW_ARRAY(scratch, Range, e->nest.naxis);
    for (uint32_t k = 0; k < e->nest.naxis; k++)
        range[k] = (Range){ { VAR_AXIS, k }, expr_int(s->ctx, 0), e->axis[k].extent };
    s->ranges = (Ranges){ range, e->nest.naxis };
    for (uint32_t i = 0; i < e->nest.nwrite; i++)
        e->write[i].value = scalar_map(&m, e->write[i].value);
    for (uint32_t k = 0; k < e->nest.naxis; k++)
        e->axis[k].extent = expr_simplify(s->ctx, NULL, e->axis[k].extent);
}

static bool
tidy_changes(Simplify *s, Arena *scratch)
{
    const Nest *n = &s->edit->nest;
    const Scalar **before = NEW_ARRAY(scratch, const Scalar *, n->nwrite);
    const Expr **extent = NEW_ARRAY(scratch, const Expr *, n->naxis);
    bool changed = false;

    for (uint32_t k = 0; k < n->naxis; k++)
        extent[k] = s->edit->axis[k].extent;
    for (uint32_t i = 0; i < n->nwrite; i++)
        before[i] = s->edit->write[i].value;
    tidy(s, scratch);
    for (uint32_t i = 0; i < n->nwrite; i++)
        changed = changed || before[i] != s->edit->write[i].value;
    for (uint32_t k = 0; k < n->naxis; k++)
        s->any = s->any || extent[k] != s->edit->axis[k].extent;
    return changed;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const Nest *
simplify(Ctx *c, const Nest *n, bool parallel)
{
    NestEdit edit = nest_edit(c, n, NEST_MAX_AXES, 0);
    Simplify s = { .ctx = c, .edit = &edit };
    bool split = false;

    for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
        Arena *scratch = arena_child(c->arena);
        bool changed = drop_unit_axes(&s);
        changed = split_an_axis(&s, AXIS_REDUCE, scratch) || changed;
        if (parallel && split_an_axis(&s, AXIS_PARALLEL, scratch))
            split = changed = true;
        changed = tidy_changes(&s, scratch) || changed;
        arena_free(scratch);
        if (!changed)
            break;
        s.any = true;
    }
    if (parallel ? split : s.any)
        return nest_edit_done(c, &edit);
    nest_edit_drop(&edit);
    return parallel ? NULL : n;
}

/* The number of small contractions, each with axes of its own on either side, that a nest is;
 * infinite if it is none. A symbol counts as many. */
static double
products(Ctx *c, const Nest *n)
{
    Contraction view;
    double count = 1;

    if (!nest_contraction(c, n, &view) || !view.row || !view.col)
        return INFINITY;
    for (uint32_t k = 0; k < n->naxis; k++)
        if (view.batch & axis_one(k))
            count *= (double)expr_or(n->axis[k].extent, MANY);
    return count;
}

const Nest *
nest_simplify(Ctx *c, const Nest *n)
{
    n = simplify(c, n, false);
    if (!n || !nest_axes_of_kind(n, AXIS_REDUCE))
        return n;
    const Nest *split = simplify(c, n, true);
    return split && products(c, split) < products(c, n) ? split : n;
}
