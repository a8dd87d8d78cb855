/* query: which axes an expression uses, and the enclosing reductions and guards of each read.
 *
 * Scalars are DAGs whose operands are always made before their users, so creation order is a
 * topological order: walking nodes by falling id sees every user of a node before the node.
 */
#include <stdlib.h>

#include "nest/walk.h"

/* ---- children ------------------------------------------------------------------------------ */

typedef struct {
    ScalarChild *visit;
    void *user;
} ComputedVisit;

static void
visit_computed(void *user, Var v)
{
    ComputedVisit *cv = user;

    if (v.kind == VAR_COMPUTED)
        cv->visit(cv->user, computed_scalar(v), false);
}

void
expr_children(const Expr *e, ScalarChild *visit, void *user)
{
    ComputedVisit cv = { visit, user };

    if (expr_uses_kind(e, VAR_COMPUTED))
        expr_vars(e, visit_computed, &cv);
}

void
scalar_children(const Scalar *s, ScalarChild *visit, void *user)
{
    for (uint32_t i = 0; i < s->narg; i++)
        visit(user, s->arg[i], s->op == S_SELECT && i > 0);
    if (s->op == S_INDEX || s->op == S_AT)
        expr_children(s->u.index, visit, user);
    if (s->op == S_LOAD) {
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            expr_children(s->u.load.at[d], visit, user);
        if (s->u.load.outside)
            visit(user, s->u.load.outside, true);
    }
}

/* ---- free axes ------------------------------------------------------------------------------- */

static void
add_axis(void *user, Var v)
{
    if (v.kind == VAR_AXIS && v.id < NEST_MAX_AXES)
        *(AxisSet *)user |= axis_one((uint32_t)v.id);
    if (v.kind == VAR_COMPUTED)
        *(AxisSet *)user |= computed_scalar(v)->axes;
}

AxisSet
expr_axes(const Expr *e)
{
    AxisSet set = 0;

    expr_vars(e, add_axis, &set);
    return set;
}

const Expr *
scalar_as_expr(Ctx *c, const Scalar *s, const Scalar **choice)
{
    if (s->op == S_INDEX)
        return s->u.index;
    if (!dtype_is_int(s->dtype))
        return NULL;
    if (s->op == S_CONST)
        return expr_int(c, s->u.bits);
    if (s->op == S_SELECT) {
        *choice = s;
        return NULL;
    }
    if (s->dtype != DT_I64 || (s->op != S_ADD && s->op != S_SUB))
        return NULL;
    const Expr *x = scalar_as_expr(c, s->arg[0], choice),
               *y = x || *choice ? scalar_as_expr(c, s->arg[1], choice) : NULL;
    return !x || !y ? NULL : s->op == S_ADD ? expr_add(c, x, y) : expr_sub(c, x, y);
}

/* ---- the axes of a nest ---------------------------------------------------------------------- */

Ranges
nest_ranges(Ctx *c, Arena *a, const Nest *n)
{
    Range *at = NEW_ARRAY(a, Range, n->naxis);

    for (uint32_t k = 0; k < n->naxis; k++)
        at[k] = (Range){ { VAR_AXIS, k }, expr_int(c, 0), n->axis[k].extent };
    return (Ranges){ at, n->naxis };
}

AxisSet
nest_axes_of_kind(const Nest *n, AxisKind k)
{
    AxisSet set = 0;

    for (uint32_t i = 0; i < n->naxis; i++)
        if (n->axis[i].kind == k)
            set |= axis_one(i);
    return set;
}

bool
axis_varies(const Axis *a)
{
    return expr_uses_kind(a->extent, VAR_COMPUTED) || expr_axes(a->extent);
}

const Write *
nest_write_of(const Nest *n, uint32_t out)
{
    const Write *found = NULL;

    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].out == out) {
            if (found)
                return NULL;
            found = &n->write[i];
        }
    return found;
}

uint32_t
write_digits(Ctx *c, const Nest *n, const Write *w, uint32_t d, uint32_t *axis)
{
    const Expr *rest = w->at[d], *dim = n->param[w->out].type->dim[d], *step = expr_int(c, 1),
               *coef, *next;
    AxisSet left = expr_axes(rest);
    uint32_t count = 0;
    Var v;

    if (expr_is_var(rest, &v) && v.kind == VAR_AXIS) {
        axis[0] = (uint32_t)v.id;
        return 1;
    }
    /* the stride of the next digit is the extent of those below */
    while (left) {
        uint32_t k = 0;
        while (k < n->naxis &&
               !((left & axis_one(k)) && expr_linear(c, rest, (Var){ VAR_AXIS, k }, &coef, &next) &&
                 coef == step))
            k++;
        if (k == n->naxis)
            return 0;
        axis[count++] = k;
        left &= ~axis_one(k);
        step = expr_mul(c, step, n->axis[k].extent);
        rest = next;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t k = axis[i];
        axis[i] = axis[count - 1 - i];
        axis[count - 1 - i] = k;
    }
    return expr_is(rest, 0) && expr_eq(c, NULL, step, dim) == YES ? count : 0;
}

bool
write_is_plain(Ctx *c, const Nest *n, const Write *w)
{
    const Type *t = n->param[w->out].type;
    AxisSet seen = 0;

    if (w->combiner != COMB_NONE)
        return false;
    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t axis[NEST_MAX_AXES], count;
        if (expr_is(w->at[d], 0) && expr_is(t->dim[d], 1))
            continue;
        if (!(count = write_digits(c, n, w, d, axis)))
            return false;
        for (uint32_t i = 0; i < count; i++) {
            if (seen & axis_one(axis[i]))
                return false;
            seen |= axis_one(axis[i]);
        }
    }
    return true;
}

/* Has write w a dimension of several digits, and room for a dimension for each? */
static bool
write_splits(Ctx *c, const Nest *n, const Write *w)
{
    uint32_t axis[NEST_MAX_AXES], rank = 0;
    bool several = false;

    if (w->combiner != COMB_NONE)
        return false;
    for (uint32_t d = 0; d < n->param[w->out].type->rank; d++) {
        uint32_t count = write_digits(c, n, w, d, axis);
        several = several || count > 1;
        rank += count > 1 ? count : 1;
    }
    return several && rank <= TN_MAX_RANK;
}

const Nest *
nest_dim_per_axis(Ctx *c, const Nest *n)
{
    bool any = false;

    for (uint32_t i = 0; i < n->nwrite; i++)
        any = any || write_splits(c, n, &n->write[i]);
    if (!any)
        return n;
    NestEdit e = nest_edit(c, n, 0, 0);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        const Type *t = n->param[w->out].type;
        const Expr *at[TN_MAX_RANK], *dim[TN_MAX_RANK];
        uint32_t axis[NEST_MAX_AXES], rank = 0;
        if (!write_splits(c, n, w))
            continue;
        for (uint32_t d = 0; d < t->rank; d++) {
            uint32_t count = write_digits(c, n, w, d, axis);
            for (uint32_t k = 0; k < count && count > 1; k++) {
                at[rank] = expr_axis(c, axis[k]);
                dim[rank++] = n->axis[axis[k]].extent;
            }
            if (count <= 1) {
                at[rank] = w->at[d];
                dim[rank++] = t->dim[d];
            }
        }
        e.write[i].at = arena_copy(c->arena, at, rank * sizeof *at);
        e.param[w->out].type = type_new(c, t->dtype, rank, dim);
    }
    return nest_edit_done(c, &e);
}

/* ---- the walk -------------------------------------------------------------------------------- */

typedef struct {
    Arena *arena;
    Walk *walk;
    Map index;
    const WalkNode *from;
} Walker;

static void
collect(void *user, const Scalar *s, bool guarded)
{
    Walker *w = user;

    (void)guarded;
    if (map_get(&w->index, MAP_PTR(s), NULL))
        return;
    map_put(&w->index, MAP_PTR(s), 0);
    scalar_children(s, collect, w);
    VEC_PUSH(w->arena, w->walk, ((WalkNode){ s, 0, false }));
}

static void
pass_down(void *user, const Scalar *child, bool guarded)
{
    Walker *w = user;
    uint64_t i = 0;

    map_get(&w->index, MAP_PTR(child), &i);
    WalkNode *to = &w->walk->at[i];
    if (w->from->node) {
        to->reduce |= w->from->reduce;
        if (w->from->node->op == S_REDUCE)
            to->reduce |= w->from->node->u.reduce.axes;
    }
    to->always |= w->from->always && !guarded;
}

static void
visit_roots(const Nest *n, ScalarChild *visit, void *user)
{
    for (uint32_t k = 0; k < n->naxis; k++) {
        expr_children(n->axis[k].extent, visit, user);
    }
    for (uint32_t i = 0; i < n->nwrite; i++) {
        const Write *w = &n->write[i];
        for (uint32_t d = 0; d < n->param[w->out].type->rank; d++)
            expr_children(w->at[d], visit, user);
        visit(user, w->value, false);
    }
}

static int
by_falling_id(const void *x, const void *y)
{
    uint32_t a = ((const WalkNode *)x)->node->id, b = ((const WalkNode *)y)->node->id;

    return a < b ? 1 : a > b ? -1 : 0;
}

Walk
nest_walk(Ctx *c, Arena *a, const Nest *n)
{
    Walk walk = { 0 };
    Walker w = { a, &walk, { .arena = a }, NULL };
    WalkNode root = { NULL, 0, true };

    (void)c;
    visit_roots(n, collect, &w);
    if (walk.n)
        qsort(walk.at, walk.n, sizeof *walk.at, by_falling_id);
    for (uint32_t i = 0; i < walk.n; i++)
        map_put(&w.index, MAP_PTR(walk.at[i].node), i);
    w.from = &root;
    visit_roots(n, pass_down, &w);
    for (uint32_t i = 0; i < walk.n; i++) {
        w.from = &walk.at[i];
        scalar_children(walk.at[i].node, pass_down, &w);
    }
    return walk;
}

const Scalar *
nest_reduction_begin(Ctx *c, const Nest *n, const Scalar *reduce, uint32_t i)
{
    if (i == 0)
        return combiner_identity(c, reduce->u.reduce.combiner, reduce->arg[0]->dtype);
    const Scalar *none = scalar_number(c, reduce->arg[i]->dtype, 0), *first = reduce->arg[i];
    for (uint32_t k = 0; k < n->naxis; k++)
        if (reduce->u.reduce.axes >> k & 1) {
            const Scalar *any = scalar_2(c, S_LT, scalar_index(c, expr_int(c, 0)),
                                         scalar_index(c, n->axis[k].extent));
            first = scalar_select(
                c, any, scalar_subst(c, first, &(Binding){ { VAR_AXIS, k }, expr_int(c, 0) }, 1),
                none);
        }
    return first;
}

Accesses
nest_accesses(Ctx *c, Arena *a, const Nest *n)
{
    Walk walk = nest_walk(c, a, n);
    Accesses list = { NEW_ARRAY(a, Access, walk.n), 0 };

    for (uint32_t i = walk.n; i-- > 0;) {
        const WalkNode *w = &walk.at[i];
        if (w->node->op == S_LOAD)
            list.at[list.n++] = (Access){ w->node, w->reduce, !w->always };
    }
    return list;
}

static void
visit_set(const VarSet *set, void (*visit)(void *user, Var v), void *user)
{
    for (uint32_t i = 0; i < set->n; i++)
        visit(user, set->at[i]);
}

typedef struct {
    void (*visit)(void *user, Var v);
    void *user;
} VarVisit;

/* The variables of a computed variable's value are listed beside it. */
static void
visit_var(void *user, Var v)
{
    const VarVisit *vv = user;

    vv->visit(vv->user, v);
    if (v.kind == VAR_COMPUTED)
        visit_set(computed_scalar(v)->vars, vv->visit, vv->user);
}

void
nest_vars(const Nest *n, void (*visit)(void *user, Var v), void *user)
{
    VarVisit vv = { visit, user };

    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        for (uint32_t d = 0; d < n->param[i].type->rank; d++)
            expr_vars(n->param[i].type->dim[d], visit, user);
    for (uint32_t k = 0; k < n->naxis; k++) {
        expr_vars(n->axis[k].extent, visit_var, &vv);
    }
    for (uint32_t i = 0; i < n->nwrite; i++) {
        for (uint32_t d = 0; d < n->param[n->write[i].out].type->rank; d++)
            expr_vars(n->write[i].at[d], visit_var, &vv);
        visit_set(n->write[i].value->vars, visit, user);
    }
}

uint32_t
nest_written_dim(const Nest *n, uint32_t axis)
{
    const Write *w = &n->write[0];
    uint32_t rank = n->param[w->out].type->rank, d = 0;

    while (d < rank && !(expr_axes(w->at[d]) >> axis & 1))
        d++;
    return d;
}
