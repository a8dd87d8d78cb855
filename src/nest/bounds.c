/* bounds: does a nest stay within its tensors at all sizes?
 *
 *     o[i] = sum k<200: x[i + k]                x: f32[n], o: f32[m]
 *
 * A proof settles most accesses: by the ranges of axes, and in the arm of a select by its
 * condition. If sizes decide, as above, the region of the access gives a demand, here m + 199 <= n,
 * which is checked once when the program begins. If the region is larger than what is accessed, or
 * under a condition that proves nothing, or the index is computed from data, the access itself is
 * checked, like an index `at`; one that is computed of `at`s may be proved.
 */
#include "nest/internal.h"
#include "nest/walk.h"

/* Nodes visited, each once for each set of facts; bounds work: nodes beyond it are checked at run
 * time. */
enum { MOST_VISITS = 1 << 14 };

/* Expressions that are >= 0 in the arm of a select, beside those of enclosing arms. */
typedef struct ArmFacts {
    const struct ArmFacts *around;
    const Expr *e[2];
} ArmFacts;

typedef struct {
    Ctx *c;
    Arena *a;
    const Nest *n;
    const KnownSizes *known;
    Demands *demands;
    Ranges ranges;
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES];
    bool box; /* no axis varies: lo and width say all */
    bool bad; /* an access is outside at all sizes: reported */
    uint32_t visits;
    Map seen;  /* node, facts and axes, hashed */
    Map arms;  /* condition, whether it holds, and facts, hashed -> Facts */
    Map loose; /* load -> set of dimensions that are checked where they are read */
} BoundsQuery;

/* An index of dimension d of a parameter; both simplified. */
typedef struct {
    const NestParam *param;
    const Expr *index, *dim;
    uint32_t d;
    const char *verb;
} Spot;

static Spot
spot_of(Ctx *c, const NestParam *param, const Expr *index, uint32_t d, const char *verb)
{
    return (Spot){ param, expr_simplify(c, NULL, index),
                   expr_simplify(c, NULL, param->type->dim[d]), d, verb };
}

/* ---- what a box says ------------------------------------------------------------------------- */

static bool exact(Ctx *c, const Expr *e, AxisSet *seen);

static bool
exact_atom(Ctx *c, const Atom *m, AxisSet *seen)
{
    uint32_t varying = 0;

    switch (m->kind) {
    case ATOM_VAR: {
        AxisSet one = m->var.kind == VAR_AXIS ? axis_one((uint32_t)m->var.id) : 0;
        bool again = *seen & one;
        *seen |= one;
        return !again;
    }
    case ATOM_DIV: return !expr_axes(m->arg[1]) && exact(c, m->arg[0], seen);
    case ATOM_MIN:
    case ATOM_MAX:
        for (uint32_t i = 0; i < m->narg; i++) {
            varying += expr_axes(m->arg[i]) != 0;
            if (varying > 1 || !exact(c, m->arg[i], seen))
                return false;
        }
        return true;
    case ATOM_MOD:
    case ATOM_BROADCAST: break;
    }
    for (uint32_t i = 0; i < m->narg; i++)
        if (expr_axes(m->arg[i]))
            return false;
    return true;
}

/* Of an atom without axes. */
static bool
natural_atom(Ctx *c, const Atom *m)
{
    bool natural = true;

    for (uint32_t i = 0; i < m->narg; i++)
        natural &= expr_bounds(c, NULL, m->arg[i]).lo >= 0;
    return natural; /* symbols are */
}

/* Does e reach the least and the greatest value of interval arithmetic? Each axis occurs once,
 * within operations that keep its order. */
static bool
exact(Ctx *c, const Expr *e, AxisSet *seen)
{
    for (uint32_t i = 0; i < e->nterm; i++) {
        uint32_t varying = 0;
        bool natural = true;
        for (uint32_t f = 0; f < e->term[i].nfactor; f++) {
            const Factor *factor = &e->term[i].factor[f];
            AxisSet before = *seen;
            if (!exact_atom(c, factor->atom, seen))
                return false;
            if (*seen != before)
                varying += factor->power;
            else
                natural &= natural_atom(c, factor->atom);
        }
        if (varying > 1 || (varying && !natural))
            return false;
    }
    return true;
}

/* 1, or 0 if one of the axes has no points. */
static const Expr *
any_points(BoundsQuery *q, AxisSet axes)
{
    Ctx *c = q->c;
    const Expr *any = expr_int(c, 1), *one = any, *zero = expr_int(c, 0);

    for (uint32_t x = 0; x < q->n->naxis; x++)
        if (axes >> x & 1 && expr_bounds(c, NULL, q->width[x]).lo < 1)
            any = expr_mul(c, any, expr_min(c, one, expr_max(c, zero, q->width[x])));
    return any;
}

static void
demand(BoundsQuery *q, const Expr *least, const Expr *got, const char *why)
{
    if (expr_le(q->c, NULL, least, got) != YES)
        VEC_PUSH(q->a, q->demands, ((Demand){ expr_min(q->c, got, least), least, why }));
}

static void
never(BoundsQuery *q, const Spot *p, const char *how, const Expr *index)
{
    if (!q->bad)
        diag_error(&q->c->diags, DIAG_MODEL, q->n->loc,
                   "nest %s: %s is %s %s index %s of dimension %u, which has %s%s", q->n->name,
                   p->param->name, p->verb, how, expr_str(q->c, index), p->d,
                   expr_str(q->c, p->param->type->dim[p->d]),
                   *p->verb == 'r' ? ": say what is outside, x[… | 0]" : "");
    q->bad = true;
}

/* Demands that the index is inside at all points of the axes. False: its region does not tell. */
static bool
demand_inside(BoundsQuery *q, const Spot *p, AxisSet axes)
{
    Ctx *c = q->c;
    const Expr *dim = p->dim, *zero = expr_int(c, 0), *least, *most;
    const char *of = arena_printf(q->a, "nest %s: %s is %s", q->n->name, p->param->name, p->verb);
    AxisSet seen = 0;

    if (!q->box || !expr_region(c, p->index, q->n->naxis, q->lo, q->width, &least, &most))
        return false;
    const Expr *end = expr_offset(c, most, 1), *any = any_points(q, axes);
    if (expr_is(dim, 0) || expr_is(any, 0)) /* of nothing no index is right */
        return true;
    if (!exact(c, p->index, &seen)) { /* a remainder is below its divisor, unless that is 0 */
        bool inside = expr_le(c, NULL, end, dim) == YES && expr_le(c, NULL, zero, least) == YES;
        most = expr_int(c, 0), end = expr_int(c, 1);
        if (!inside)
            return false;
    }
    if (expr_le(c, NULL, end, dim) == NO)
        never(q, p, "up to", most);
    if (expr_le(c, NULL, zero, least) == NO)
        never(q, p, "from", least);
    for (uint32_t x = 0; x < q->n->naxis; x++)
        if (end == q->width[x]) /* an axis by itself: without points it ends at 0 */
            any = expr_int(c, 1);
    demand(q, expr_mul(c, end, any), p->param->type->dim[p->d],
           arena_printf(c->arena,
                        "%s up to index %s of dimension %u, which has {got} elements "
                        "(%s) and needs {want}",
                        of, expr_str(c, most), p->d, expr_str(c, p->param->type->dim[p->d])));
    demand(q, zero, expr_mul(c, least, any),
           arena_printf(c->arena,
                        "%s from index {got} (%s) of dimension %u on; the first is {want}", of,
                        expr_str(c, least), p->d));
    return true;
}

/* ---- what conditions say --------------------------------------------------------------------- */

/* An integer of a comparison: an index, or computed from data; NULL: neither. */
static const Expr *
compared(Ctx *c, const Scalar *s)
{
    const Scalar *choice = NULL;
    const Expr *e = scalar_as_expr(c, s, &choice);

    return e || s->dtype != DT_I64 || s->lanes != 1 ? e : expr_computed(c, s);
}

/* Expressions that are >= 0 where the comparison holds, or where it does not. */
static void
facts_of(BoundsQuery *q, const Scalar *cond, bool holds, ArmFacts *f)
{
    Ctx *c = q->c;

    if (cond->op < S_EQ || cond->op > S_GE)
        return;
    const Expr *x = compared(c, cond->arg[0]), *y = x ? compared(c, cond->arg[1]) : NULL;
    if (!x || !y)
        return;
    const Expr *up = expr_sub(c, y, x), *down = expr_sub(c, x, y);
    if (cond->op == S_EQ || cond->op == S_NE) {
        if ((cond->op == S_EQ) == holds)
            f->e[0] = up, f->e[1] = down;
        else if (expr_le(c, &q->ranges, x, y) == YES || expr_le(c, &q->ranges, y, x) == YES)
            f->e[0] = expr_offset(c, expr_le(c, &q->ranges, x, y) == YES ? up : down, -1);
        return;
    }
    bool below = cond->op == S_LT || cond->op == S_LE,
         strict = cond->op == S_LT || cond->op == S_GT;
    if (holds)
        f->e[0] = expr_offset(c, below ? up : down, -strict);
    else
        f->e[0] = expr_offset(c, below ? down : up, strict - 1);
}

/* The facts in an arm of a select, or in a conjunction. */
static const ArmFacts *
learn(BoundsQuery *q, const ArmFacts *around, const Scalar *cond, bool holds)
{
    uint64_t key = (MAP_PTR(cond) ^ holds) * 0x9e3779b97f4a7c15u ^ MAP_PTR(around), known;

    if (cond->op == S_NOT)
        return learn(q, around, cond->arg[0], !holds);
    if ((cond->op == S_AND && holds) || (cond->op == S_OR && !holds))
        return learn(q, learn(q, around, cond->arg[0], holds), cond->arg[1], holds);
    if (map_get(&q->arms, key, &known))
        return (const ArmFacts *)(uintptr_t)known;
    ArmFacts *f = NEW(q->a, ArmFacts);
    f->around = around;
    facts_of(q, cond, holds, f);
    map_put(&q->arms, key, MAP_PTR(f));
    return f;
}

/* e >= 0, by the ranges alone or by one or two of the facts. */
static bool
is_natural(BoundsQuery *q, const ArmFacts *f, const Expr *e, int most)
{
    if (expr_le(q->c, &q->ranges, expr_int(q->c, 0), e) == YES)
        return true;
    for (; f && most; f = f->around)
        for (int i = 0; i < 2; i++)
            if (f->e[i] && is_natural(q, f->around, expr_sub(q->c, e, f->e[i]), most - 1))
                return true;
    return false;
}

static bool
is_inside(BoundsQuery *q, const ArmFacts *f, const Spot *p)
{
    const Expr *behind = expr_sub(q->c, p->dim, p->index);
    const Ranges axes = q->ranges;
    VEC(Range) known = { 0 };

    if (expr_uses_kind(p->index, VAR_COMPUTED)) {
        for (uint32_t i = 0; i < axes.n; i++)
            VEC_PUSH(q->a, &known, axes.at[i]);
        FOR_EACH_VARIABLE (v, p->index) { /* at(v, n) is from 0 to n - 1 */
            const Scalar *s = v.kind == VAR_COMPUTED ? computed_scalar(v) : NULL;
            if (s && s->op == S_AT)
                VEC_PUSH(q->a, &known, ((Range){ v, expr_int(q->c, 0), s->u.index }));
        }
        q->ranges = (Ranges){ known.at, known.n };
    }
    bool inside =
        is_natural(q, f, p->index, 2) && is_natural(q, f, expr_offset(q->c, behind, -1), 2);
    q->ranges = axes;
    return inside;
}

enum { MOST_KNOWN = 4 }; /* sizes in a row that an index is followed through; bounds work */

/* Is i below the size, or below what the size is known to be; or i*min(size // 2, 1) where the size
 * broadcasts to one that i is below? */
static bool
is_below(BoundsQuery *q, const Expr *i, const Expr *size, uint32_t most_steps)
{
    Ctx *c = q->c;
    const Expr *one = expr_int(c, 1), *least, *most;

    if (!i)
        return false;
    if (expr_region(c, i, q->n->naxis, q->lo, q->width, &least, &most) &&
        expr_le(c, NULL, expr_int(c, 0), least) == YES &&
        expr_le(c, NULL, expr_add(c, most, one), size) == YES)
        return true;
    const Expr *factor = expr_min(c, expr_div(c, size, expr_int(c, 2)), one),
               *without = expr_exact_div(c, i, expr_simplify(c, NULL, factor));
    for (uint32_t k = 0; most_steps && k < q->known->n; k++) {
        const KnownSize *s = &q->known->at[k];
        if (expr_eq(c, NULL, s->own, size) == YES &&
            is_below(q, s->or_one ? without : i, s->all, most_steps - 1))
            return true;
    }
    return false;
}

/* Is the index inside, by proof or by a demand? */
static bool
is_settled(BoundsQuery *q, const ArmFacts *f, const Spot *p, AxisSet axes)
{
    return is_inside(q, f, p) ||
           (!expr_uses_kind(p->index, VAR_COMPUTED) &&
            ((q->box && q->known->n && is_below(q, p->index, p->dim, MOST_KNOWN)) ||
             (!f && demand_inside(q, p, axes))));
}

/* ---- the accesses ---------------------------------------------------------------------------- */

typedef struct {
    BoundsQuery *q;
    const ArmFacts *facts;
    AxisSet axes; /* those that are not reduced, and those of enclosing reductions */
} AccessVisit;

static void
visit_load(const AccessVisit *v, const Scalar *s)
{
    const NestParam *param = &v->q->n->param[s->u.load.slot];
    uint64_t loose = 0;

    map_get(&v->q->loose, MAP_PTR(s), &loose);
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        Spot p = spot_of(v->q->c, param, s->u.load.at[d], d, "read");
        if (v->q->visits > MOST_VISITS || !is_settled(v->q, v->facts, &p, v->axes))
            loose |= (uint64_t)1 << d;
    }
    if (loose)
        map_put(&v->q->loose, MAP_PTR(s), loose);
}

/* guarded: the read has an outside value. */
static void
visit(const AccessVisit *v, const Scalar *s, bool guarded)
{
    static const ArmFacts nothing = { 0 };
    BoundsQuery *q = v->q;
    AccessVisit below = { q, guarded && !v->facts ? &nothing : v->facts, v->axes };
    uint64_t key = (MAP_PTR(s) * 31 + MAP_PTR(below.facts)) * 31 + v->axes;

    if (q->visits > MOST_VISITS)
        key = MAP_PTR(s);
    if (map_get(&q->seen, key, NULL))
        return;
    map_put(&q->seen, key, 1);
    q->visits++;
    if (s->op == S_LOAD && !s->u.load.outside)
        visit_load(&below, s);
    if (s->op == S_REDUCE)
        below.axes |= s->u.reduce.axes;
    uint32_t i = 0;
    FOR_EACH_OPERAND (x, s) {
        AccessVisit known = below;
        if (s->op == S_SELECT && i > 0)
            known.facts = learn(q, below.facts, s->arg[0], i == 1);
        visit(&known, x, s->op != S_SELECT && scalar_guards(s, i));
        i++;
    }
}

static void
visit_computed(const AccessVisit *v, const Expr *e)
{
    FOR_EACH_VARIABLE (x, e)
        if (x.kind == VAR_COMPUTED)
            visit(v, computed_scalar(x), false);
}

static void
visit_axes(BoundsQuery *q)
{
    const Nest *n = q->n;
    Range *range = NEW_ARRAY(q->a, Range, n->naxis);

    q->ranges = (Ranges){ range, n->naxis };
    q->box = true;
    for (uint32_t x = 0; x < n->naxis; x++) {
        q->lo[x] = expr_int(q->c, 0);
        q->width[x] = expr_simplify(q->c, NULL, n->axis[x].extent);
        range[x] = (Range){ { VAR_AXIS, x }, q->lo[x], q->width[x] };
        q->box &= !axis_varies(&n->axis[x]);
        visit_computed(&(AccessVisit){ .q = q }, n->axis[x].extent);
    }
}

/* got and want are one size. */
static void
demand_same(BoundsQuery *q, const Expr *got, const Expr *want, const char *why)
{
    if (expr_eq(q->c, NULL, got, want) != YES)
        VEC_PUSH(q->a, q->demands, ((Demand){ got, want, why }));
}

/* A plain write visits each element once; others write at computed indices. The dimensions that are
 * checked where they are written. */
static uint64_t
visit_write(AccessVisit *v, const Write *w)
{
    BoundsQuery *q = v->q;
    Ctx *c = q->c;
    const NestParam *out = &q->n->param[w->out];
    uint32_t axis[NEST_MAX_AXES];
    uint64_t loose = 0;

    for (uint32_t d = 0; d < out->type->rank; d++) {
        Spot p = spot_of(c, out, w->at[d], d, "written");
        const Expr *dim = out->type->dim[d];
        const char *of =
            arena_printf(c->arena, "dimension %u of %s (%s)", d, out->name, expr_str(c, dim));
        visit_computed(v, w->at[d]);
        if (w->init != NO_SLOT)
            demand_same(q, q->n->param[w->init].type->dim[d], dim,
                        arena_printf(c->arena, "nest %s: %s has {want}, that of %s has {got}",
                                     q->n->name, of, q->n->param[w->init].name));
        if (w->combiner != COMB_NONE)
            loose |= (uint64_t)!is_settled(q, NULL, &p, v->axes) << d;
        else if (write_digits(c, q->n, w, d, axis) == 1)
            demand_same(q, q->n->axis[axis[0]].extent, dim,
                        arena_printf(c->arena,
                                     "nest %s: %s has {want} elements, axis %s goes over {got}",
                                     q->n->name, of, q->n->axis[axis[0]].name));
    }
    visit(v, w->value, false);
    return loose;
}

/* ---- checks of single accesses --------------------------------------------------------------- */

/* Indices of a tensor of type t, with those of a set of dimensions checked; none counts from the
 * end. */
static const Expr *const *
with_checks_at(BoundsQuery *q, const Expr *const *index, const Type *t, uint64_t set)
{
    const Expr **at = NEW_ARRAY(q->a, const Expr *, t->rank + 1);
    Ctx *c = q->c;

    for (uint32_t d = 0; d < t->rank; d++) {
        at[d] = index[d];
        if (set >> d & 1) {
            const Scalar *number = scalar_cast(c, DT_U64, scalar_index(c, index[d]));
            at[d] = expr_computed(c, scalar_at(c, number, t->dim[d]));
        }
    }
    return at;
}

/* The nest with checks at its loose accesses; loose: by write, the dimensions of its index. */
static const Nest *
with_checks(BoundsQuery *q, const uint64_t *loose)
{
    ScalarMap m = { .ctx = q->c, .done = { .arena = q->a } };
    NestEdit e = nest_edit(q->c, q->n, 0, 0);
    const Expr *const *at;
    Walk walk = nest_walk(q->c, q->a, q->n);
    uint64_t which;

    for (uint32_t i = walk.n; i-- > 0;) {
        const Scalar *s = walk.at[i].node, *to;
        if (!map_get(&q->loose, MAP_PTR(s), &which))
            continue;
        to = scalar_map(&m, s);
        at = with_checks_at(q, to->u.load.at, q->n->param[s->u.load.slot].type, which);
        map_put(&m.done, MAP_PTR(s),
                MAP_PTR(scalar_load(q->c, s->dtype, s->u.load.slot, s->u.load.rank, at, NULL)));
    }
    nest_edit_map(&e, &m);
    for (uint32_t i = 0; i < q->n->nwrite; i++)
        e.write[i].at =
            with_checks_at(q, e.write[i].at, q->n->param[e.write[i].out].type, loose[i]);
    return nest_edit_done(q->c, &e);
}

const Nest *
nest_in_bounds(Ctx *c, Arena *a, const Nest *n, const KnownSizes *known, Demands *demands)
{
    BoundsQuery q = { .c = c, .a = a, .n = n, .known = known, .demands = demands };
    AccessVisit v = { &q, NULL, ~nest_axes_of_kind(n, AXIS_REDUCE) };
    uint64_t *loose = NEW_ARRAY(a, uint64_t, n->nwrite), any = 0;

    q.seen.arena = q.arms.arena = q.loose.arena = a;
    visit_axes(&q);
    for (uint32_t i = 0; i < n->nwrite; i++)
        any |= loose[i] = visit_write(&v, &n->write[i]);
    return q.bad ? NULL : any || q.loose.n ? with_checks(&q, loose) : n;
}
