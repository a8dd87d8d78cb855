/* known: contents of small integer tensors as symbolic expressions.
 *
 * It evaluates an operator's expansion on Exprs instead of numbers: the nests that later become
 * code define what Shape, Gather, Concat, Where and the others do to dimensions, so this file knows
 * no operator. If Exprs lack an operation, or a comparison is undecided, the complete result is
 * unknown.
 */
#include "nest/walk.h"
#include "op/call.h"

#include <string.h>

typedef struct {
    Ctx *c;
    const Nest *nest;
    const uint32_t *value; /* of the nest's parameters */
    Known *known;          /* by value number of the expansion */
    Binding axis[NEST_MAX_AXES];
    uint32_t naxis;
    uint32_t steps; /* the remaining budget; evaluation gives up at 0 */
} Eval;

enum { MAX_STEPS = 200000 };

static const Expr *eval(Eval *e, const Scalar *s);

/* ---- indices: axes become numbers, computed variables become their values -------------------- */

static const Expr *
eval_expr(Eval *e, const Expr *x)
{
    VEC(Binding) bind = { 0 };

    if (expr_const(x, NULL))
        return x;
    FOR_EACH_VARIABLE (v, x) {
        Binding b = { v, v.kind == VAR_COMPUTED ? eval(e, computed_scalar(v)) : NULL };
        for (uint32_t i = 0; i < e->naxis && v.kind == VAR_AXIS; i++)
            if (e->axis[i].var.id == v.id)
                b.to = e->axis[i].to;
        if (v.kind == VAR_SYMBOL)
            continue;
        if (!b.to)
            return NULL;
        VEC_PUSH(e->c->arena, &bind, b);
    }
    return bind.n ? expr_subst(e->c, x, bind.at, bind.n) : x;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const Expr *
eval_load(Eval *e, const Scalar *s)
{
    const Type *t = e->nest->param[s->u.load.slot].type;
    const Known *k = &e->known[e->value[s->u.load.slot]];
    int64_t linear = 0;

    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        const Expr *at = eval_expr(e, s->u.load.at[d]);
        int64_t i, n;
        if (!at || !expr_const(at, &i) || !expr_const(t->dim[d], &n))
            return NULL;
        if (i < 0 || i >= n)
            return s->u.load.outside ? eval(e, s->u.load.outside) : NULL;
        linear = linear * n + i;
    }
    return k->at && linear < k->n ? k->at[linear] : NULL;
}

static bool
is_integer(DType t)
{
    return dtype_is_int(t) || t == DT_BOOL;
}

/* Is x at least n? */
static bool
at_least(Ctx *c, const Expr *x, int64_t n)
{
    return expr_le(c, NULL, expr_int(c, n), x) == YES;
}

static const Expr *
truth(Ctx *c, Tri t)
{
    return t == UNKNOWN ? NULL : expr_int(c, t == YES);
}

/* An operation on one integer or two; NULL if Exprs lack it. */
static const Expr *
apply(Ctx *c, ScalarOp op, DType t, const Expr *x, const Expr *y)
{
    const Expr *zero = expr_int(c, 0), *one = expr_int(c, 1);

    if (t == DT_BOOL && (op == S_AND || op == S_OR))
        return op == S_AND ? expr_min(c, x, y) : expr_max(c, x, y);
    switch (op) {
    case S_NEG: return expr_sub(c, zero, x);
    case S_ABS: return expr_max(c, x, expr_sub(c, zero, x));
    case S_NOT: return t == DT_BOOL ? expr_sub(c, one, x) : NULL;
    case S_SIGN:
        return at_least(c, x, 1)                             ? one
               : expr_le(c, NULL, x, expr_int(c, -1)) == YES ? expr_int(c, -1)
               : expr_is(x, 0)                               ? zero
                                                             : NULL;
    case S_ADD: return expr_add(c, x, y);
    case S_SUB: return expr_sub(c, x, y);
    case S_MUL: return expr_mul(c, x, y);
    /* truncates: the same as floor if nothing is negative */
    case S_DIV: return at_least(c, x, 0) && at_least(c, y, 1) ? expr_div(c, x, y) : NULL;
    case S_REM: return at_least(c, x, 0) && at_least(c, y, 1) ? expr_mod(c, x, y) : NULL;
    case S_MOD: return at_least(c, y, 1) ? expr_mod(c, x, y) : NULL;
    case S_MIN: return expr_min(c, x, y);
    case S_MAX: return expr_max(c, x, y);
    case S_XOR: return t == DT_BOOL ? truth(c, expr_holds(c, NULL, S_NE, x, y)) : NULL;
    default: return truth(c, expr_holds(c, NULL, op, x, y));
    }
}

/* v if it is a number of type t, which would wrap another; dimensions are numbers of any type of 32
 * bits or more. */
static const Expr *
fitted(Ctx *c, DType t, const Expr *v)
{
    int bits = dtype_info[t].bits;
    int64_t n;

    if (!v || t == DT_BOOL)
        return v;
    if (!expr_const(v, &n))
        return bits >= 32 && (dtype_info[t].kind != KIND_UINT || at_least(c, v, 0)) ? v : NULL;
    bool fits = dtype_info[t].kind == KIND_UINT
                    ? n >= 0 && (bits == 64 || n >> bits == 0)
                    : bits == 64 || n >> (bits - 1) == 0 || n >> (bits - 1) == -1;
    return fits ? v : NULL;
}

static const Expr *
eval_cast(Eval *e, const Scalar *s)
{
    DType to = (DType)s->dtype, from = (DType)s->arg[0]->dtype;
    const Expr *v = is_integer(to) && is_integer(from) ? eval(e, s->arg[0]) : NULL;

    if (!v || to == from || from == DT_BOOL)
        return v;
    return to == DT_BOOL ? apply(e->c, S_NE, from, v, expr_int(e->c, 0)) : fitted(e->c, to, v);
}

/* A scan of one axis: combines `item` over its points. */
static const Expr *
eval_reduce(Eval *e, const Scalar *s)
{
    Combiner k = s->u.reduce.combiner;
    int64_t extent[NEST_MAX_AXES], total = 1;
    uint32_t axis[NEST_MAX_AXES], n = 0, base = e->naxis;
    const Expr *sofar = NULL;

    if (s->narg != 1 || !is_integer((DType)s->dtype) || !combiner_op[k])
        return NULL;
    FOR_EACH_AXIS (i, s->u.reduce.axes) {
        if (!expr_const(e->nest->axis[i].extent, &extent[n]) || extent[n] > OP_KNOWN_MAX ||
            (total *= extent[n]) > OP_KNOWN_MAX)
            return NULL;
        axis[n++] = i;
    }
    if (base + n > NEST_MAX_AXES)
        return NULL;
    const Scalar *identity = combiner_identity(e->c, k, (DType)s->dtype);
    if (total == 0)
        return identity && identity->op == S_CONST ? expr_int(e->c, identity->u.bits) : NULL;
    for (int64_t point = 0; point < total; point++) {
        int64_t rest = point;
        for (uint32_t i = n; i-- > 0; rest /= extent[i])
            e->axis[base + i] =
                (Binding){ { VAR_AXIS, axis[i] }, expr_int(e->c, rest % extent[i]) };
        e->naxis = base + n;
        const Expr *v = eval(e, s->arg[0]);
        e->naxis = base;
        if (!v)
            return NULL;
        sofar = sofar ? fitted(e->c, (DType)s->dtype,
                               apply(e->c, combiner_op[k], (DType)s->dtype, sofar, v))
                      : v;
        if (!sofar)
            return NULL;
    }
    return sofar;
}

static const Expr *
eval_op(Eval *e, const Scalar *s)
{
    DType t = (DType)s->arg[0]->dtype;
    const Expr *x = is_integer((DType)s->dtype) && is_integer(t) ? eval(e, s->arg[0]) : NULL,
               *y = x && s->narg == 2 ? eval(e, s->arg[1]) : NULL;

    return x && (y || s->narg == 1)
               ? fitted(e->c, (DType)s->dtype, apply(e->c, (ScalarOp)s->op, t, x, y))
               : NULL;
}

/* A negative index counts from the end; an index of unknown sign stays unknown. */
static const Expr *
eval_at(Eval *e, const Scalar *s)
{
    const Expr *i = eval(e, s->arg[0]), *n = eval_expr(e, s->u.index);

    if (!i || !n)
        return NULL;
    if (at_least(e->c, i, 0))
        return i;
    return expr_le(e->c, NULL, i, expr_int(e->c, -1)) == YES ? expr_add(e->c, i, n) : NULL;
}

static const Expr *
eval(Eval *e, const Scalar *s)
{
    const Expr *v;

    if (e->steps == 0)
        return NULL;
    e->steps--;
    switch ((ScalarOp)s->op) {
    case S_CONST:
        v = is_integer((DType)s->dtype) && (s->dtype != DT_U64 || s->u.bits >= 0)
                ? expr_int(e->c, s->u.bits)
                : NULL;
        break;
    case S_INDEX: v = eval_expr(e, s->u.index); break;
    case S_LOAD: v = eval_load(e, s); break;
    case S_CAST: v = eval_cast(e, s); break;
    case S_AT: v = eval_at(e, s); break;
    case S_REDUCE: v = eval_reduce(e, s); break;
    case S_SELECT:
        v = eval(e, s->arg[0]);
        v = v && expr_is(v, 1)   ? eval(e, s->arg[1])
            : v && expr_is(v, 0) ? eval(e, s->arg[2])
                                 : NULL;
        break;
    default: v = s->narg == 1 || s->narg == 2 ? eval_op(e, s) : NULL; break;
    }
    return v && !v->bad ? v : NULL;
}

/* ---- nests and calls ------------------------------------------------------------------------- */

static bool
small(const Type *t, Ctx *c, int64_t *n)
{
    return is_integer(t->dtype) && expr_const(type_count(c, t), n) && *n <= OP_KNOWN_MAX;
}

/* One plain write, point by point in row-major order. */
static Known
eval_nest(Eval *e, const Write *w, const Type *t)
{
    Ctx *c = e->c;
    int64_t n, dim;
    Known unknown = { 0 };

    if (!small(t, c, &n) || w->combiner != COMB_NONE)
        return unknown;
    for (uint32_t i = 0; i < e->nest->naxis; i++)
        if (e->nest->axis[i].kind == AXIS_SCAN)
            return unknown;
    const Expr **at = NEW_ARRAY(c->arena, const Expr *, n ? n : 1);
    for (int64_t point = 0; point < n; point++) {
        int64_t rest = point;
        e->naxis = t->rank;
        for (uint32_t d = t->rank; d-- > 0; rest /= dim) {
            Var v;
            if (!expr_is_var(w->at[d], &v) || !expr_const(t->dim[d], &dim))
                return unknown;
            e->axis[d] = (Binding){ v, expr_int(c, rest % dim) };
        }
        at[point] = eval(e, w->value);
        if (!at[point])
            return unknown;
        at[point] = expr_simplify(c, NULL, at[point]);
    }
    return (Known){ (uint32_t)n, at };
}

Known
op_known(Ctx *c, const OpCall *call, const Type *const *out)
{
    Expansion x;
    Known unknown = { 0 };
    int64_t n;

    /* Errors of a call are reported when it is lowered, not here. */
    uint32_t reported = c->diags.list.n;
    DiagClass worst = c->diags.worst;
    if (!out[0] || !small(out[0], c, &n))
        return unknown;
    if (!op_expand(c, call, out, &x)) {
        c->diags.list.n = reported;
        c->diags.worst = worst;
        return unknown;
    }
    Known *known = NEW_ARRAY(c->arena, Known, x.type.n);
    for (uint32_t i = 0; i < call->nin; i++)
        known[i] = call->known[i];
    for (uint32_t k = 0; k < x.call.n; k++) {
        const NestCall *nc = &x.call.at[k];
        Eval e = {
            .c = c, .nest = nc->nest, .value = nc->value, .known = known, .steps = MAX_STEPS
        };
        for (uint32_t i = 0; i < nc->nest->nwrite; i++) {
            uint32_t to = nc->value[nc->nest->write[i].out];
            known[to] = eval_nest(&e, &nc->nest->write[i], x.type.at[to]);
        }
    }
    return known[call->nin];
}
