/* query: which axes an expression uses, and the enclosing reductions and guards of each read.
 *
 * Scalars are DAGs whose operands are always made before their users, so creation order is a
 * topological order: walking nodes by falling id sees every user of a node before the node.
 */
#include <stdlib.h>

#include "nest/walk.h"

/* ---- free axes ------------------------------------------------------------------------------- */

uint32_t
axis_of(const Expr *e)
{
    Var v;

    return expr_is_var(e, &v) && v.kind == VAR_AXIS ? (uint32_t)v.id : NO_SLOT;
}

AxisSet
axis_bit(const Expr *e)
{
    return axis_of(e) < NEST_MAX_AXES ? axis_one(axis_of(e)) : 0;
}

AxisSet
expr_axes(const Expr *e)
{
    AxisSet set = 0;

    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_COMPUTED)
            set |= computed_scalar(v)->axes;
        else if (v.kind == VAR_AXIS && v.id < NEST_MAX_AXES)
            set |= axis_one((uint32_t)v.id);
    return set;
}

Tri
expr_holds(Ctx *c, const Ranges *r, ScalarOp op, const Expr *x, const Expr *y)
{
    switch (op) {
    case S_EQ: return expr_eq(c, r, x, y);
    case S_NE: return (Tri)-expr_eq(c, r, x, y);
    case S_LE: return expr_le(c, r, x, y);
    case S_GE: return expr_le(c, r, y, x);
    case S_LT: return (Tri)-expr_le(c, r, y, x);
    case S_GT: return (Tri)-expr_le(c, r, x, y);
    default: return UNKNOWN;
    }
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

    axis[0] = axis_of(rest);
    if (axis[0] != NO_SLOT)
        return 1;
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
    Ctx *ctx;
    Arena *arena;
    Walk walk;
    Map index;
} Walker;

static void
collect_value(Walker *w, const Scalar *root)
{
    uint64_t i;

    FOR_EACH_SCALAR (s, scalar_nodes(w->ctx, root))
        if (!map_get(&w->index, MAP_PTR(s), NULL)) {
            map_put(&w->index, MAP_PTR(s), w->walk.n);
            VEC_PUSH(w->arena, &w->walk, ((WalkNode){ s, 0, false }));
        }
    map_get(&w->index, MAP_PTR(root), &i);
    w->walk.at[i].always = true;
}

static void
collect_expr(Walker *w, const Expr *e)
{
    if (!expr_uses_kind(e, VAR_COMPUTED))
        return;
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_COMPUTED)
            collect_value(w, computed_scalar(v));
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
    Walker w = { .ctx = c, .arena = a, .index.arena = a };
    uint64_t at;

    for (uint32_t k = 0; k < n->naxis; k++)
        collect_expr(&w, n->axis[k].extent);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        for (uint32_t d = 0; d < n->param[n->write[i].out].type->rank; d++)
            collect_expr(&w, n->write[i].at[d]);
        collect_value(&w, n->write[i].value);
    }
    if (w.walk.n)
        qsort(w.walk.at, w.walk.n, sizeof *w.walk.at, by_falling_id);
    for (uint32_t i = 0; i < w.walk.n; i++)
        map_put(&w.index, MAP_PTR(w.walk.at[i].node), i);
    for (uint32_t i = 0; i < w.walk.n; i++) {
        const WalkNode *from = &w.walk.at[i];
        AxisSet reduce =
            from->reduce | (from->node->op == S_REDUCE ? from->node->u.reduce.axes : 0);
        uint32_t k = 0;
        FOR_EACH_OPERAND (x, from->node) {
            map_get(&w.index, MAP_PTR(x), &at);
            w.walk.at[at].reduce |= reduce;
            w.walk.at[at].always |= from->always && !scalar_guards(from->node, k++);
        }
    }
    return w.walk;
}

const Scalar *
nest_reduction_begin(Ctx *c, const Nest *n, const Scalar *reduce, uint32_t i)
{
    if (i == 0)
        return combiner_identity(c, reduce->u.reduce.combiner, reduce->arg[0]->dtype);
    const Scalar *none = scalar_number(c, reduce->arg[i]->dtype, 0), *first = reduce->arg[i];
    FOR_EACH_AXIS (k, reduce->u.reduce.axes) {
        const Scalar *any =
            scalar_2(c, S_LT, scalar_index(c, expr_int(c, 0)), scalar_index(c, n->axis[k].extent));
        first = scalar_select(
            c, any, scalar_subst(c, first, &(Binding){ { VAR_AXIS, k }, expr_int(c, 0) }, 1), none);
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

void
scalar_symbols(SymbolSet *s, const Scalar *value)
{
    for (uint32_t i = 0; i < value->vars->n; i++)
        if (value->vars->at[i].kind == VAR_SYMBOL)
            symbols_add(s, var_symbol(value->vars->at[i]));
}

/* Those of a computed variable's value too. */
static void
add_symbols(SymbolSet *s, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_COMPUTED)
            scalar_symbols(s, computed_scalar(v));
        else if (v.kind == VAR_SYMBOL)
            symbols_add(s, var_symbol(v));
}

void
nest_symbols(SymbolSet *s, const Nest *n)
{
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        type_symbols(s, n->param[i].type);
    for (uint32_t k = 0; k < n->naxis; k++)
        add_symbols(s, n->axis[k].extent);
    for (uint32_t i = 0; i < n->nwrite; i++) {
        for (uint32_t d = 0; d < n->param[n->write[i].out].type->rank; d++)
            add_symbols(s, n->write[i].at[d]);
        scalar_symbols(s, n->write[i].value);
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
