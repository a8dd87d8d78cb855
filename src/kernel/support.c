/* support: comparisons outside of which a summand is the identity (support.h).
 *
 * The summand is evaluated with one comparison assumed false, over a small domain: exactly 0,
 * exactly -inf, hidden (so low that its exponential beside a score is 0), true, false, a positive
 * number, anything else. Comparisons are affine: E >= 0 is known to be false if E is the assumed
 * one or is below it.
 *
 * Exporters hide scores with the lowest number of a type rather than with -inf. What is hidden so
 * is skipped only if each row has a point whose score is computed and cannot be hidden otherwise: a
 * row with all points hidden has their mean.
 */
#include "kernel/support.h"
#include "nest/walk.h"

#include <math.h>
#include <string.h>

/* What is known of a value. Unsure values may be -inf, by a select; all others are assumed to be
 * finite. */
typedef enum {
    IS_ANY,
    IS_UNSURE,
    IS_ZERO,
    IS_MINUS_INF,
    IS_HIDDEN,
    IS_POSITIVE,
    IS_FALSE,
    IS_TRUE
} ValueFact;

/* Numbers of at most this hide the score that they are added to. Scores are assumed to be far above
 * it. */
#define HIDES -1e30

enum {
    MOST_ATOMS = 32, /* comparisons tried of one summand; bounds work */
    MOST_LEVELS = 32
}; /* parts that read each other; bounds recursion */

/* A part whose axes are substituted by expressions over the axes of the queried part. */
typedef struct {
    uint32_t part, n;
    Binding bind[NEST_MAX_AXES];
} PartFrame;

typedef struct {
    Ctx *c;
    Arena *a;
    const Kernel *k;
    uint32_t part, axis;  /* the query */
    Ranges ranges;        /* of that part */
    const Expr *no;       /* is assumed not to be >= 0; NULL: nothing */
    const Scalar *unseen; /* the value that is assumed to be unseen */
    /* assume that each point of the row violates some bound, as reductions along the axis see it */
    bool empty;
    bool all;   /* assume that every bound holds instead */
    bool hides; /* some value was found to be hidden */
    uint32_t natom, nbound;
    const Expr *atom[MOST_ATOMS];          /* E >= 0 */
    const Expr *bound[SUPPORT_MAX_BOUNDS]; /* those of them that are bounds */
    uint32_t level;
} SupportQuery;

static ValueFact known(SupportQuery *q, const PartFrame *f, const Scalar *s);

/* ---- comparisons ----------------------------------------------------------------------------- */

/* A whole number from an argument, a length; slots of loads are buffers of the kernel. NULL:
 * another expression. */
static const Expr *
given_number(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    const Part *part = &q->k->part[f->part];
    const Expr *at[TN_MAX_RANK];

    if (!dtype_is_int(s->dtype) || s->dtype == DT_U64 || s->u.load.outside ||
        s->u.load.slot >= part->nest->nin)
        return NULL;
    uint32_t buffer = part->buffer[s->u.load.slot];
    if (buffer >= q->k->nin || q->k->buffer.at[buffer].format)
        return NULL;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        if (expr_uses_kind(s->u.load.at[d], VAR_COMPUTED))
            return NULL;
        at[d] = expr_subst(q->c, s->u.load.at[d], f->bind, f->n);
        if (expr_axes(at[d]) >> q->axis & 1)
            return NULL;
    }
    return expr_computed(
        q->c,
        scalar_cast(q->c, DT_I64, scalar_load(q->c, s->dtype, buffer, s->u.load.rank, at, NULL)));
}

/* Is it the same number in this type? 32-bit counts are assumed not to wrap. */
static bool
holds(SupportQuery *q, DType t, const Expr *e)
{
    Interval v = expr_bounds(q->c, &q->ranges, e);

    if (t == DT_I64 || t == DT_I32)
        return true;
    return wrap_to_dtype(t, v.lo) == v.lo && wrap_to_dtype(t, v.hi) == v.hi &&
           (t != DT_U64 || v.lo >= 0);
}

static const Expr *
index_of(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    if (s->op == S_LOAD)
        return given_number(q, f, s);
    if (s->op == S_CAST && dtype_is_int(s->dtype) && dtype_is_int(s->arg[0]->dtype)) {
        const Expr *e = index_of(q, f, s->arg[0]);
        return e && holds(q, s->dtype, e) ? e : NULL;
    }
    if (s->op == S_CONST && dtype_is_int(s->dtype))
        return holds(q, s->dtype, expr_int(q->c, s->u.bits)) ? expr_int(q->c, s->u.bits) : NULL;
    return s->op == S_INDEX && !expr_uses_kind(s->u.index, VAR_COMPUTED)
               ? expr_subst(q->c, s->u.index, f->bind, f->n)
               : NULL;
}

/* Expressions that are all >= 0 where the comparison is true; 0: no comparison of indices. */
static uint32_t
comparison(SupportQuery *q, const PartFrame *f, const Scalar *s, const Expr *e[2])
{
    if (s->op < S_EQ || s->op > S_GE || s->op == S_NE)
        return 0;
    const Expr *x = index_of(q, f, s->arg[0]), *y = index_of(q, f, s->arg[1]);
    if (!x || !y)
        return 0;
    const Expr *up = expr_sub(q->c, y, x), *down = expr_sub(q->c, x, y);
    switch ((ScalarOp)s->op) {
    case S_LE: e[0] = up; return 1;
    case S_LT: e[0] = expr_offset(q->c, up, -1); return 1;
    case S_GE: e[0] = down; return 1;
    case S_GT: e[0] = expr_offset(q->c, down, -1); return 1;
    default: e[0] = up, e[1] = down; return 2;
    }
}

/* Is E >= 0 false, or true, where `no` <= -1? */
static ValueFact
follows(SupportQuery *q, const Expr *e, const Expr *no)
{
    int64_t d;

    if (expr_const(expr_sub(q->c, e, no), &d))
        return d <= 0 ? IS_FALSE : IS_ANY;
    if (expr_const(expr_add(q->c, e, no), &d))
        return d >= -1 ? IS_TRUE : IS_ANY;
    return IS_ANY;
}

/* Does one of the bounds make E >= 0? */
static bool
bound_makes(SupportQuery *q, const Expr *e)
{
    int64_t d;

    for (uint32_t i = 0; i < q->nbound; i++)
        if (expr_const(expr_sub(q->c, e, q->bound[i]), &d) && d >= 0)
            return true;
    return false;
}

/* E >= 0 is false there. */
static const Expr *
opposite(SupportQuery *q, const Expr *e)
{
    return expr_offset(q->c, expr_scale(q->c, e, -1), -1);
}

/* Are all of E >= 0 true where the bounds hold, or is one false? */
static ValueFact
known_where_all(SupportQuery *q, const Expr *const *e, uint32_t n)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (bound_makes(q, opposite(q, e[i])))
            return IS_FALSE;
        found += bound_makes(q, e[i]);
    }
    return n && found == n ? IS_TRUE : IS_ANY;
}

static ValueFact
known_comparison(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    const Expr *e[2];
    uint32_t n = q->no || q->all ? comparison(q, f, s, e) : 0;

    if (q->all)
        return known_where_all(q, e, n);
    /* one assumption makes no two inequalities true */
    ValueFact all = n == 1 ? IS_TRUE : IS_ANY;

    for (uint32_t i = 0; i < n; i++) {
        ValueFact one = follows(q, e[i], q->no);
        all = one == IS_FALSE ? IS_FALSE : one == IS_ANY && all == IS_TRUE ? IS_ANY : all;
    }
    return n ? all : IS_ANY;
}

/* ---- operations ------------------------------------------------------------------------------ */

static ValueFact not(ValueFact x)
{
    return x == IS_TRUE ? IS_FALSE : x == IS_FALSE ? IS_TRUE : IS_ANY;
}

static ValueFact
known_const(const Scalar *s)
{
    double v;

    if (s->dtype == DT_BOOL)
        return s->u.bits ? IS_TRUE : IS_FALSE;
    if (!dtype_is_float(s->dtype))
        return s->u.bits == 0 ? IS_ZERO : s->u.bits > 0 ? IS_POSITIVE : IS_ANY;
    memcpy(&v, &s->u.bits, sizeof v);
    return v == 0               ? IS_ZERO
           : isinf(v) && v < 0  ? IS_MINUS_INF
           : v <= HIDES         ? IS_HIDDEN
           : v > 0 && !isinf(v) ? IS_POSITIVE
                                : IS_ANY;
}

/* Two known values are equal only if both are known to be the same number. */
static ValueFact
known_equal(ValueFact x, ValueFact y)
{
    if (x <= IS_UNSURE || y <= IS_UNSURE)
        return IS_ANY;
    return x != y ? IS_FALSE : x == IS_POSITIVE || x == IS_HIDDEN ? IS_ANY : IS_TRUE;
}

static ValueFact
known_sum(ValueFact x, ValueFact y)
{
    if (x == IS_MINUS_INF || y == IS_MINUS_INF)
        return IS_MINUS_INF;
    if (x == IS_HIDDEN || y == IS_HIDDEN)
        return IS_HIDDEN;
    return x == IS_ZERO || y == IS_UNSURE   ? y
           : y == IS_ZERO || x == IS_UNSURE ? x
           : x == y && x == IS_POSITIVE     ? IS_POSITIVE
                                            : IS_ANY;
}

static bool
may_hide(ValueFact x)
{
    return x == IS_UNSURE || x == IS_MINUS_INF || x == IS_HIDDEN;
}

static ValueFact
known_product(ValueFact x, ValueFact y)
{
    if (x == IS_ZERO || y == IS_ZERO)
        return x == IS_MINUS_INF || y == IS_MINUS_INF || x == IS_UNSURE || y == IS_UNSURE ? IS_ANY
                                                                                          : IS_ZERO;
    if (x == IS_MINUS_INF || y == IS_MINUS_INF)
        return x == IS_POSITIVE || y == IS_POSITIVE ? IS_MINUS_INF : IS_ANY;
    return x == y && x == IS_POSITIVE ? IS_POSITIVE : IS_ANY;
}

static ValueFact
known_select(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    ValueFact cond = known(q, f, s->arg[0]);

    if (cond == IS_TRUE || cond == IS_FALSE)
        return known(q, f, s->arg[cond == IS_TRUE ? 1 : 2]);
    ValueFact x = known(q, f, s->arg[1]), y = known(q, f, s->arg[2]);
    return x == y ? x : may_hide(x) || may_hide(y) ? IS_UNSURE : IS_ANY;
}

static ValueFact
known_cast(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    ValueFact x = known(q, f, s->arg[0]);

    if (s->dtype == DT_BOOL)
        return x == IS_ZERO ? IS_FALSE : x == IS_POSITIVE ? IS_TRUE : x;
    if (s->arg[0]->dtype == DT_BOOL)
        return x == IS_TRUE ? IS_POSITIVE : x == IS_FALSE ? IS_ZERO : x;
    return x == IS_ZERO || (may_hide(x) && dtype_is_float(s->dtype)) ? x : IS_ANY;
}

static ValueFact
known_operation(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    ValueFact x = known(q, f, s->arg[0]), y = s->narg > 1 ? known(q, f, s->arg[1]) : IS_ANY;

    switch ((ScalarOp)s->op) {
    case S_ADD: return known_sum(x, y);
    case S_SUB:
        return y == IS_ZERO                                            ? x
               : (x == IS_MINUS_INF || x == IS_HIDDEN) && !may_hide(y) ? x
                                                                       : IS_ANY;
    case S_MUL: return known_product(x, y);
    case S_DIV:
        return x == IS_ZERO                           ? (y == IS_ZERO ? IS_ANY : x)
               : y == IS_POSITIVE && x != IS_POSITIVE ? x
                                                      : IS_ANY;
    case S_EXP:
        return x == IS_MINUS_INF || x == IS_HIDDEN ? IS_ZERO : x == IS_ZERO ? IS_POSITIVE : IS_ANY;
    case S_MIN:
        return x == IS_MINUS_INF || y == IS_MINUS_INF ? IS_MINUS_INF
               : x == y                               ? x
               : may_hide(x) || may_hide(y)           ? IS_UNSURE
                                                      : IS_ANY;
    case S_MAX:
        return x == y                              ? x
               : x == IS_MINUS_INF && y == IS_ZERO ? y
               : y == IS_MINUS_INF && x == IS_ZERO ? x
                                                   : IS_ANY;
    case S_NOT: return not(x);
    case S_AND: return x == IS_FALSE || y == IS_FALSE ? IS_FALSE : x == y ? x : IS_ANY;
    case S_OR: return x == IS_TRUE || y == IS_TRUE ? IS_TRUE : x == y ? x : IS_ANY;
    case S_EQ: return known_equal(x, y);
    case S_NE: return not(known_equal(x, y));
    case S_ISNAN: return x <= IS_UNSURE ? IS_ANY : IS_FALSE;
    default: return IS_ANY;
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The part that makes a local, whose dimensions are its axes, each once; NO_SLOT: none. */
static uint32_t
maker_of(const SupportQuery *q, uint32_t reader, uint32_t buffer)
{
    for (uint32_t i = 0; i < reader; i++) {
        const Nest *n = q->k->part[i].nest;
        if (q->k->part[i].buffer[n->nin] == buffer)
            return n->nout == 1 && n->nwrite == 1 && n->write[0].combiner == COMB_NONE &&
                           !nest_axes_of_kind(n, AXIS_SCAN)
                       ? i
                       : NO_SLOT;
    }
    return NO_SLOT;
}

/* The producer's axes in terms of the load's index. */
static bool
enter(SupportQuery *q, const PartFrame *f, const Scalar *load, PartFrame *in)
{
    uint32_t maker = load->u.load.slot < q->k->part[f->part].nest->nin && !load->u.load.outside
                         ? maker_of(q, f->part, q->k->part[f->part].buffer[load->u.load.slot])
                         : NO_SLOT;
    Var v;

    if (maker == NO_SLOT || q->level == MOST_LEVELS)
        return false;
    *in = (PartFrame){ .part = maker };
    const Write *w = &q->k->part[maker].nest->write[0];
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        if (expr_uses_kind(load->u.load.at[d], VAR_COMPUTED))
            return false;
        if (expr_const(w->at[d], NULL))
            continue;
        if (!expr_is_var(w->at[d], &v) || v.kind != VAR_AXIS)
            return false;
        in->bind[in->n++] = (Binding){ v, expr_subst(q->c, load->u.load.at[d], f->bind, f->n) };
    }
    return true;
}

static ValueFact
known_load(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    PartFrame in;

    if (!enter(q, f, s, &in))
        return IS_ANY;
    q->level++;
    ValueFact x = known(q, &in, q->k->part[in.part].nest->write[0].value);
    q->level--;
    return x;
}

/* Does a reduction run along one axis over as many points as the queried one? */
static bool
runs_alike(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    if (s->narg != 1 || !dtype_is_float(s->dtype) || __builtin_popcountll(s->u.reduce.axes) != 1 ||
        f->n == NEST_MAX_AXES)
        return false;
    const Expr *extent = q->k->part[f->part].nest->axis[__builtin_ctzll(s->u.reduce.axes)].extent,
               *asked = q->k->part[q->part].nest->axis[q->axis].extent;
    return expr_eq(q->c, &q->ranges, expr_subst(q->c, extent, f->bind, f->n), asked) == YES;
}

/* The frame in which the reduction's own axis is the queried one. False: its operand varies with
 * that one too. */
static bool
along_axis(SupportQuery *q, const PartFrame *f, const Scalar *s, PartFrame *in)
{
    Var own = { VAR_AXIS, (uint64_t)__builtin_ctzll(s->u.reduce.axes) },
        asked = { VAR_AXIS, q->axis };

    if (!runs_alike(q, f, s) || (f->part == q->part && scalar_uses(s, asked)))
        return false;
    for (uint32_t i = 0; i < f->n; i++)
        if (expr_uses(f->bind[i].to, asked) && scalar_uses(s, f->bind[i].var))
            return false;
    *in = *f;
    in->bind[in->n++] = (Binding){ own, expr_axis(q->c, q->axis) };
    return true;
}

/* A reduction over other points is unknown, unless it sees no other: then it combines identities,
 * whichever bound each point violates. */
static ValueFact
known_reduction(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    ValueFact identity = s->u.reduce.combiner == COMB_MAX   ? IS_MINUS_INF
                         : s->u.reduce.combiner == COMB_SUM ? IS_ZERO
                                                            : IS_ANY;
    const Expr *no = q->no;
    PartFrame in;

    if (!q->empty || identity == IS_ANY || !along_axis(q, f, s, &in))
        return IS_ANY;
    for (uint32_t i = 0; i < q->nbound && identity != IS_ANY; i++) {
        q->no = q->bound[i];
        identity = known(q, &in, s->arg[0]) == identity ? identity : IS_ANY;
    }
    q->no = no;
    return identity;
}

static ValueFact
known(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    switch ((ScalarOp)s->op) {
    case S_CONST: {
        ValueFact x = known_const(s);
        q->hides |= x == IS_HIDDEN;
        return x;
    }
    case S_LOAD: return known_load(q, f, s);
    case S_REDUCE: return known_reduction(q, f, s);
    case S_CAST: return known_cast(q, f, s);
    case S_SELECT: return known_select(q, f, s);
    case S_SEEN: return s == q->unseen ? IS_MINUS_INF : known(q, f, s->arg[1]);
    case S_EQ:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE: {
        ValueFact x = known_comparison(q, f, s);
        return x == IS_ANY && s->op == S_EQ ? known_operation(q, f, s) : x;
    }
    case S_INDEX:
    case S_AT:
    case S_ITEM: return IS_ANY;
    default: return s->narg == 1 || s->narg == 2 ? known_operation(q, f, s) : IS_ANY;
    }
}

/* ---- the comparisons there are --------------------------------------------------------------- */

static void
note(SupportQuery *q, const Expr *e)
{
    bool known_already = !(expr_axes(e) >> q->axis & 1) || q->natom == MOST_ATOMS;

    for (uint32_t j = 0; j < q->natom; j++)
        known_already |= q->atom[j] == e;
    if (!known_already)
        q->atom[q->natom++] = e;
}

/* A comparison may hide where it is false, or where it is true. */
static void
note_comparisons(SupportQuery *q, const PartFrame *f, const Scalar *value)
{
    FOR_EACH_SCALAR (s, scalar_nodes(q->c, value)) {
        const Expr *e[2];
        uint32_t n = comparison(q, f, s, e);
        PartFrame in;
        for (uint32_t i = 0; i < n; i++)
            note(q, e[i]);
        if (n == 1)
            note(q, opposite(q, e[0]));
        if (s->op == S_LOAD && enter(q, f, s, &in)) {
            q->level++;
            note_comparisons(q, &in, q->k->part[in.part].nest->write[0].value);
            q->level--;
        }
    }
}

/* E >= 0 as a bound of the axis. False: E is not affine in it. */
static bool
bound_of(SupportQuery *q, const Expr *e, SupportBound *out)
{
    const Expr *coef, *rest;
    int64_t k;

    if (!expr_linear(q->c, e, (Var){ VAR_AXIS, q->axis }, &coef, &rest) || !expr_const(coef, &k) ||
        k == 0)
        return false;
    if (k > 0) /* k*j + rest >= 0: j >= ceil(-rest / k) */
        *out = (SupportBound){ SUPPORT_FROM,
                               expr_ceil_div(q->c, expr_scale(q->c, rest, -1), expr_int(q->c, k)) };
    else /* j <= floor(rest / -k) */
        *out = (SupportBound){ SUPPORT_BELOW,
                               expr_offset(q->c, expr_div(q->c, rest, expr_int(q->c, -k)), 1) };
    return true;
}

/* Has every row a point in it? */
static bool
sees_something(Ctx *c, Arena *a, const Nest *n, uint32_t axis, const Support *s)
{
    Ranges r = nest_ranges(c, a, n);

    for (uint32_t i = 0; i <= s->n; i++)
        for (uint32_t j = 0; j <= s->n; j++) {
            if ((i < s->n && s->bound[i].kind == SUPPORT_BELOW) ||
                (j < s->n && s->bound[j].kind == SUPPORT_FROM))
                continue;
            const Expr *lo = i < s->n ? s->bound[i].at : expr_int(c, 0),
                       *hi = j < s->n ? s->bound[j].at : n->axis[axis].extent;
            if ((i < s->n || j < s->n) && expr_le(c, &r, expr_offset(c, lo, 1), hi) != YES)
                return false;
        }
    return true;
}

/* Is a score computed and not hidden where all bounds hold? Sums of products are, and maxima along
 * the row with such a point; an argument that is added may be a mask. */
static bool
is_score(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    PartFrame in;

    switch ((ScalarOp)s->op) {
    case S_REDUCE:
        return s->u.reduce.combiner == COMB_SUM ||
               (s->u.reduce.combiner == COMB_MAX && along_axis(q, f, s, &in) &&
                is_score(q, &in, s->arg[0]));
    case S_INDEX: return true;
    case S_CONST: {
        ValueFact x = known_const(s);
        return x != IS_HIDDEN && x != IS_MINUS_INF;
    }
    case S_LOAD:
        if (!enter(q, f, s, &in))
            return false;
        q->level++;
        bool score = is_score(q, &in, q->k->part[in.part].nest->write[0].value);
        q->level--;
        return score;
    case S_SEEN: return is_score(q, f, s->arg[1]);
    case S_SELECT: {
        ValueFact cond = known(q, f, s->arg[0]);
        return (cond == IS_FALSE || is_score(q, f, s->arg[1])) &&
               (cond == IS_TRUE || is_score(q, f, s->arg[2]));
    }
    default:
        for (uint32_t i = 0; i < s->narg; i++)
            if (!(s->op == S_MUL && s->arg[i]->op == S_LOAD && !enter(q, f, s->arg[i], &in)) &&
                !is_score(q, f, s->arg[i]))
                /* a bare factor scales the other factor */
                return false;
        return true;
    }
}

/* Is the summand the identity in rows without a point within all bounds? */
static bool
is_identity_in_empty_rows(SupportQuery *q, const PartFrame *f, const Scalar *s, ValueFact identity)
{
    bool is = true;

    q->empty = true;
    for (uint32_t i = 0; i < q->nbound && is; i++) {
        q->no = q->bound[i];
        is = known(q, f, s) == identity;
    }
    return is && !q->hides;
}

static bool
nothing_else_hides(SupportQuery *q, const PartFrame *f, const Scalar *s)
{
    q->all = true;
    bool score = is_score(q, f, s);
    q->all = false;
    return score;
}

static const Scalar *
only_reduction(const Nest *n, Ctx *c, Arena *a, uint32_t axis)
{
    Walk walk = nest_walk(c, a, n);
    const Scalar *found = NULL;

    for (uint32_t i = 0; i < walk.n; i++)
        if (walk.at[i].node->op == S_REDUCE && walk.at[i].node->u.reduce.axes >> axis & 1) {
            if (found)
                return NULL;
            found = walk.at[i].node;
        }
    return found;
}

/* The one reduction of a part along an axis, a maximum or a sum of floats, that may skip points.
 * NULL: none, or of another kind. */
static const Scalar *
shortened_reduction(const Nest *n, Ctx *c, Arena *a, uint32_t axis)
{
    const Scalar *reduce = only_reduction(n, c, a, axis);
    bool may = !c->exact && reduce && reduce->narg == 1 && dtype_is_float(reduce->dtype);

    return may && (reduce->u.reduce.combiner == COMB_MAX || reduce->u.reduce.combiner == COMB_SUM)
               ? reduce
               : NULL;
}

/* Bounds outside of which the summand is the identity. False: there are none that may be used. */
static bool
find_bounds(SupportQuery *q, const PartFrame *own, const Scalar *reduce, Support *out)
{
    ValueFact identity = reduce->u.reduce.combiner == COMB_MAX ? IS_MINUS_INF : IS_ZERO;

    note_comparisons(q, own, reduce->arg[0]);
    for (uint32_t i = 0; i < q->natom; i++) {
        q->no = q->atom[i];
        ValueFact x = known(q, own, reduce->arg[0]);
        if ((x == identity || (x == IS_HIDDEN && identity == IS_MINUS_INF)) &&
            out->n < SUPPORT_MAX_BOUNDS && bound_of(q, q->no, &out->bound[out->n]))
            q->bound[q->nbound++] = q->no, out->n++;
    }
    if (!out->n)
        return false;
    if (sees_something(q->c, q->a, q->k->part[q->part].nest, q->axis, out))
        return !q->hides || nothing_else_hides(q, own, reduce->arg[0]);
    return is_identity_in_empty_rows(q, own, reduce->arg[0], identity);
}

/* ---- choices around a reduction -------------------------------------------------------------- */

/* What has to be >= 0, so that the condition holds, or does not; what always is says nothing. */
static void
add_condition(SupportQuery *q, const PartFrame *f, const Scalar *cond, bool holds, Support *out)
{
    const Expr *e[2];

    if (cond->op == S_NOT)
        add_condition(q, f, cond->arg[0], !holds, out);
    if ((cond->op == S_AND && holds) || (cond->op == S_OR && !holds))
        for (uint32_t i = 0; i < 2; i++)
            add_condition(q, f, cond->arg[i], holds, out);
    uint32_t n = comparison(q, f, cond, e);
    for (uint32_t i = 0; i < n && (holds || n == 1); i++) {
        const Expr *at = holds ? e[i] : opposite(q, e[i]);
        if (out->n < SUPPORT_MAX_BOUNDS && expr_bounds(q->c, &q->ranges, at).lo < 0)
            out->bound[out->n++] = (SupportBound){ SUPPORT_IF, at };
    }
}

/* The conditions of all choices that the value of a write takes the reduction by. */
static void
find_conditions(SupportQuery *q, const PartFrame *f, const Scalar *reduce, Support *out)
{
    const Nest *n = q->k->part[q->part].nest;
    const Scalar *s = n->nwrite == 1 ? n->write[0].value : reduce;

    while (s != reduce) {
        uint32_t at = s->narg, users = 0;
        for (uint32_t i = 0; i < s->narg; i++)
            if (scalar_holds(q->c, s->arg[i], reduce))
                at = i, users++;
        if (users != 1)
            return;
        if (s->op == S_SELECT && at > 0)
            add_condition(q, f, s->arg[0], at == 1, out);
        s = s->arg[at];
    }
}

bool
kernel_support(Ctx *c, Arena *a, const Kernel *k, uint32_t part, uint32_t axis, Support *out)
{
    const Nest *n = k->part[part].nest;
    const Scalar *reduce = shortened_reduction(n, c, a, axis);
    SupportQuery q = {
        .c = c, .a = a, .k = k, .part = part, .axis = axis, .ranges = nest_ranges(c, a, n)
    };
    PartFrame f = { .part = part };

    *out = (Support){ 0 };
    if (!reduce)
        return false;
    if (!find_bounds(&q, &f, reduce, out))
        out->n = 0;
    find_conditions(&q, &f, reduce, out);
    return out->n > 0;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The element of a table argument, by the axes of the queried part. NULL: another expression. */
static const Scalar *
table_element(SupportQuery *q, const PartFrame *f, const Scalar *cond)
{
    const Part *part = &q->k->part[f->part];
    const Expr *at[TN_MAX_RANK];

    if (cond->op != S_NE || cond->arg[1]->op != S_CONST || cond->arg[1]->u.bits)
        return NULL;
    const Scalar *load = cond->arg[0];
    if (load->op != S_LOAD || !dtype_is_int(load->dtype) || load->u.load.outside ||
        load->u.load.slot >= part->nest->nin)
        return NULL;
    uint32_t buffer = part->buffer[load->u.load.slot];
    if (buffer >= q->k->nin || q->k->buffer.at[buffer].format)
        return NULL;
    for (uint32_t d = 0; d < load->u.load.rank; d++)
        at[d] = expr_subst(q->c, load->u.load.at[d], f->bind, f->n);
    return scalar_load(q->c, load->dtype, buffer, load->u.load.rank, at, NULL);
}

/* The first element in a value that makes the summand the identity where it is 0; NULL: none. */
static const Scalar *
find_table(SupportQuery *q, const PartFrame *f, const Scalar *value, const Scalar *summand,
           ValueFact identity)
{
    PartFrame own = { .part = q->part }, in;
    const Scalar *found = NULL;

    FOR_EACH_SCALAR (s, scalar_nodes(q->c, value)) {
        if (s->op == S_SEEN) {
            const Scalar *element = table_element(q, f, s->arg[0]);
            q->unseen = s;
            ValueFact x = element ? known(q, &own, summand) : IS_ANY;
            found = x == identity || (x == IS_HIDDEN && identity == IS_MINUS_INF) ? element : NULL;
        }
        if (s->op == S_LOAD && enter(q, f, s, &in)) {
            q->level++;
            found = find_table(q, &in, q->k->part[in.part].nest->write[0].value, summand, identity);
            q->level--;
        }
        if (found)
            break;
    }
    return found;
}

const Scalar *
kernel_support_table(Ctx *c, Arena *a, const Kernel *k, uint32_t part, uint32_t axis)
{
    const Nest *n = k->part[part].nest;
    const Scalar *reduce = shortened_reduction(n, c, a, axis);
    SupportQuery q = {
        .c = c, .a = a, .k = k, .part = part, .axis = axis, .ranges = nest_ranges(c, a, n)
    };
    PartFrame f = { .part = part };

    if (!reduce)
        return NULL;
    return find_table(&q, &f, reduce->arg[0], reduce->arg[0],
                      reduce->u.reduce.combiner == COMB_MAX ? IS_MINUS_INF : IS_ZERO);
}

void
support_hull(Ctx *c, const Support *s, const Expr *extent, uint32_t naxis,
             const Expr *const *row_lo, const Expr *const *row_width, const Expr **lo,
             const Expr **hi)
{
    const Expr *zero = expr_int(c, 0), *one = expr_int(c, 1), *any = one;

    *lo = zero;
    *hi = extent;
    for (uint32_t i = 0; i < s->n; i++) {
        const Expr *least, *most;
        if (!expr_region(c, s->bound[i].at, naxis, row_lo, row_width, &least, &most))
            continue;
        switch (s->bound[i].kind) {
        case SUPPORT_FROM: *lo = expr_max(c, *lo, least); break;
        case SUPPORT_BELOW: *hi = expr_min(c, *hi, most); break;
        case SUPPORT_IF: /* 1 where some row of the box takes the sum, else 0 */
            any = expr_min(c, any, expr_max(c, zero, expr_offset(c, most, 1)));
            break;
        }
    }
    if (any != one)
        *hi = expr_min(c, *hi, expr_mul(c, extent, any));
}
