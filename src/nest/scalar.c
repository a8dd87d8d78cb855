/* scalar: the makers of the DAG of scalar expressions.
 *
 * Every node goes through scalar_intern (scalar_table.c), so equal expressions are one pointer.
 * Makers fold constants (number.c) and apply the identities that hold for every value of the type:
 * x*1 and x - 0 always, x + 0 for integers only (-0.0 + 0 is 0.0), x*0 for integers only (NaN).
 * Arithmetic of index values is arithmetic of Exprs: that is where symbolic bounds are decided.
 */
#include "nest/internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const ScalarOpInfo scalar_op_info[S_OP_COUNT] = {
#define FN false
#define INFIX true
#define SCALAR(id, text, arity, form, meaning) [S_##id] = { text, arity, form },
#include "nest/scalar.def"
#undef SCALAR
#undef FN
#undef INFIX
};

const char *const combiner_name[COMB_COUNT] = {
    [COMB_NONE] = "",         [COMB_SUM] = "sum",   [COMB_PROD] = "prod", [COMB_MAX] = "max",
    [COMB_MIN] = "min",       [COMB_ANY] = "any",   [COMB_ALL] = "all",   [COMB_ARGMAX] = "argmax",
    [COMB_ARGMIN] = "argmin", [COMB_LAST] = "last",
};

const ScalarOp combiner_op[COMB_COUNT] = {
    [COMB_SUM] = S_ADD, [COMB_PROD] = S_MUL, [COMB_MAX] = S_MAX,
    [COMB_MIN] = S_MIN, [COMB_ANY] = S_OR,   [COMB_ALL] = S_AND,
};

ScalarOp
scalar_op_named(const char *name, size_t n)
{
    for (ScalarOp op = S_ADD; op < S_OP_COUNT; op++)
        if (strlen(scalar_op_info[op].text) == n && memcmp(scalar_op_info[op].text, name, n) == 0)
            return op;
    return S_NONE;
}

static Scalar
node(ScalarOp op, DType t, uint32_t lanes, uint32_t narg)
{
    Scalar s;
    memset(&s, 0, sizeof s);
    s.op = (uint8_t)op;
    s.dtype = (uint8_t)t;
    s.lanes = (uint8_t)lanes;
    s.narg = (uint8_t)narg;
    return s;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static const Scalar *
constant(Ctx *c, DType t, Number v)
{
    Scalar s = node(S_CONST, t, 1, 0);
    if (dtype_is_float(t) && isnan(v.f))
        /* one NaN: payloads are not part of the meaning */
        v.f = NAN;
    s.u.bits = v.i;
    return scalar_intern(c, &s, NULL);
}

const Scalar *
scalar_float(Ctx *c, DType t, double v)
{
    assert(dtype_is_float(t));
    return constant(c, t, (Number){ .f = round_to_dtype(t, v) });
}

const Scalar *
scalar_int(Ctx *c, DType t, int64_t v)
{
    assert(!dtype_is_float(t));
    return constant(c, t, (Number){ .i = wrap_to_dtype(t, v) });
}

const Scalar *
scalar_number(Ctx *c, DType t, double v)
{
    if (dtype_is_float(t))
        return scalar_float(c, t, v);
    return constant(c, t, number_cast(t, DT_F64, (Number){ .f = v }));
}

const Scalar *
scalar_index(Ctx *c, const Expr *e)
{
    int64_t v;
    Var var;
    if (!e)
        return NULL;
    if (expr_const(e, &v))
        return scalar_int(c, DT_I64, v);
    if (expr_is_var(e, &var) && var.kind == VAR_COMPUTED)
        return scalar_cast(c, DT_I64, computed_scalar(var));
    Scalar s = node(S_INDEX, DT_I64, 1, 0);
    s.u.index = e;
    return scalar_intern(c, &s, NULL);
}

const Scalar *
scalar_load(Ctx *c, DType t, uint32_t slot, uint32_t rank, const Expr *const *at,
            const Scalar *outside)
{
    Scalar s = node(S_LOAD, t, 1, 0);
    for (uint32_t d = 0; d < rank; d++)
        if (!at[d])
            return NULL;
    assert(!outside || outside->dtype == t);
    s.u.load.slot = slot;
    s.u.load.rank = rank;
    s.u.load.at = at;
    s.u.load.outside = outside;
    return scalar_intern(c, &s, NULL);
}

const Scalar *
scalar_load_lanes(Ctx *c, DType t, uint32_t slot, uint32_t rank, const Expr *const *at,
                  uint32_t lanes, const Expr *lane_stride, const Expr *valid)
{
    if (lanes == 1)
        return scalar_load(c, t, slot, rank, at, NULL);
    Scalar s = node(S_LOAD, t, lanes, 0);
    s.u.load.slot = slot;
    s.u.load.rank = rank;
    s.u.load.at = at;
    s.u.load.lane_stride = lane_stride ? lane_stride : expr_int(c, 1);
    s.u.load.valid = valid;
    return scalar_intern(c, &s, NULL);
}

const Scalar *
scalar_at(Ctx *c, const Scalar *index, const Expr *n)
{
    int64_t size;
    if (!index || !n)
        return NULL;
    assert(dtype_is_int(index->dtype));
    if (scalar_is_const(index) && expr_const(n, &size)) {
        int64_t v =
            index->u.bits < 0 && index->dtype != DT_U64 ? index->u.bits + size : index->u.bits;
        if (0 <= v && v < size)
            return scalar_int(c, DT_I64, v);
    }
    Scalar s = node(S_AT, DT_I64, index->lanes, 1);
    s.u.index = n;
    return scalar_intern(c, &s, &index);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* A constant, or a constant in every lane. */
static const Scalar *
uniform_const(const Scalar *s)
{
    if (s->op == S_SPLAT)
        s = s->arg[0];
    return scalar_is_const(s) ? s : NULL;
}

static bool
is_number(const Scalar *s, double v)
{
    const Scalar *k = uniform_const(s);
    if (!k)
        return false;
    Number x = scalar_value(k);
    return dtype_is_float(k->dtype) ? x.f == v && signbit(x.f) == signbit(v) : (double)x.i == v;
}

const Scalar *
scalar_cast(Ctx *c, DType t, const Scalar *a)
{
    if (!a || a->dtype == t)
        return a;
    const Scalar *k = uniform_const(a);
    if (k)
        return scalar_splat(c, constant(c, t, number_cast(t, k->dtype, scalar_value(k))), a->lanes);
    Scalar s = node(S_CAST, t, a->lanes, 1);
    return scalar_intern(c, &s, &a);
}

static DType
result_type(ScalarOp op, const Scalar *const *arg)
{
    switch (op) {
    case S_EQ:
    case S_NE:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE:
    case S_ISNAN:
    case S_ISINF: return DT_BOOL;
    case S_SELECT:
    case S_SEEN: return arg[1]->dtype;
    case S_DOT2F: return DT_F32;
    case S_PAIR: return DT_I32;
    default: return arg[0]->dtype;
    }
}

static const Scalar *
fold_constants(Ctx *c, ScalarOp op, const Scalar *const *arg, uint32_t narg)
{
    Number x[3] = { 0 }, r = { 0 };
    for (uint32_t i = 0; i < narg; i++) {
        const Scalar *k = uniform_const(arg[i]);
        if (!k)
            return NULL;
        x[i] = scalar_value(k);
    }
    if (!number_op(op, arg[0]->dtype, x[0], x[1], x[2], &r))
        return NULL;
    return scalar_splat(c, constant(c, result_type(op, arg), r), arg[0]->lanes);
}

const Expr *
scalar_as_index(Ctx *c, const Scalar *s)
{
    if (s->op == S_INDEX)
        return s->u.index;
    return s->op == S_CONST && s->dtype == DT_I64 ? expr_int(c, s->u.bits) : NULL;
}

/* The operations that i64 values and Exprs agree on; MOD of both is the floor's. */
static const Expr *
expr_op(Ctx *c, ScalarOp op, const Expr *a, const Expr *b)
{
    const Expr *e;
    switch (op) {
    case S_ADD: e = expr_add(c, a, b); break;
    case S_SUB: e = expr_sub(c, a, b); break;
    case S_MUL: e = expr_mul(c, a, b); break;
    case S_MIN: e = expr_min(c, a, b); break;
    case S_MAX: e = expr_max(c, a, b); break;
    case S_MOD: e = expr_mod(c, a, b); break;
    default: return NULL;
    }
    return e->bad ? NULL : e;
}

/* Does an index take strides so long that a multiple, as loops form it, might not fit into 64 bits?
 * A number may: it wraps. */
static bool
is_far(const Expr *e)
{
    const int64_t most = INT64_MAX >> 16;

    for (uint32_t i = 0; i < e->nterm; i++)
        if (e->term[i].nfactor && (e->term[i].coef > most || e->term[i].coef < -most))
            return true;
    return false;
}

static const Scalar *
fold_index(Ctx *c, ScalarOp op, const Scalar *x, const Scalar *y)
{
    const Expr *a = scalar_as_index(c, x), *b = y ? scalar_as_index(c, y) : NULL, *e = NULL;
    if (!a || (y && !b))
        return NULL;
    if (y)
        e = expr_op(c, op, a, b);
    else if (op == S_NEG)
        e = expr_scale(c, a, -1);
    return e && !e->bad && !is_far(e) ? scalar_index(c, e) : NULL;
}

/* x op y where one side is a number that decides the result, whatever the other is. */
static const Scalar *
fold_identity(Ctx *c, ScalarOp op, const Scalar *x, const Scalar *y)
{
    bool integer = !dtype_is_float(x->dtype);
    switch (op) {
    case S_ADD:
        if (is_number(y, integer ? 0.0 : -0.0))
            return x;
        return is_number(x, integer ? 0.0 : -0.0) ? y : NULL;
    case S_SUB: return is_number(y, 0.0) ? x : NULL;
    case S_MUL:
        if (is_number(y, 1) || (integer && is_number(x, 0)))
            return x;
        return is_number(x, 1) || (integer && is_number(y, 0)) ? y : NULL;
    case S_DIV: return is_number(y, 1) ? x : NULL;
    case S_MIN:
    case S_MAX: return x == y ? x : NULL;
    case S_AND:
        if (x == y || is_number(y, x->dtype == DT_BOOL ? 1 : -1) || (integer && is_number(x, 0)))
            return x;
        return is_number(x, x->dtype == DT_BOOL ? 1 : -1) || is_number(y, 0) ? y : NULL;
    case S_OR:
        if (x == y || is_number(y, 0) || (x->dtype == DT_BOOL && is_number(x, 1)))
            return x;
        return is_number(x, 0) || (x->dtype == DT_BOOL && is_number(y, 1)) ? y : NULL;
    case S_EQ:
    case S_LE:
    case S_GE:
        return integer && x == y ? scalar_splat(c, scalar_int(c, DT_BOOL, 1), x->lanes) : NULL;
    case S_NE:
    case S_LT:
    case S_GT:
        return integer && x == y ? scalar_splat(c, scalar_int(c, DT_BOOL, 0), x->lanes) : NULL;
    default: return NULL;
    }
}

const Scalar *
scalar_op(Ctx *c, ScalarOp op, const Scalar *const *arg)
{
    uint32_t narg = scalar_op_info[op].arity;
    assert(narg > 0);
    for (uint32_t i = 0; i < narg; i++)
        if (!arg[i])
            return NULL;
    for (uint32_t i = 1; i < narg; i++) {
        assert(arg[i]->lanes == arg[0]->lanes);
        assert(arg[i]->dtype == arg[narg == 3 ? 1 : 0]->dtype || op == S_SEEN);
    }
    const Scalar *r = fold_constants(c, op, arg, narg);
    if (!r && narg <= 2)
        r = fold_index(c, op, arg[0], narg == 2 ? arg[1] : NULL);
    if (!r && narg == 2)
        r = fold_identity(c, op, arg[0], arg[1]);
    if (!r && (op == S_NEG || op == S_NOT) && arg[0]->op == op)
        r = arg[0]->arg[0];
    if (r)
        return r;
    if (op == S_SEEN && (uniform_const(arg[0]) || uniform_const(arg[1])))
        return arg[1];
    if (op == S_SELECT) {
        assert(arg[0]->dtype == DT_BOOL);
        const Scalar *k = uniform_const(arg[0]);
        if (k)
            return k->u.bits ? arg[1] : arg[2];
        if (arg[1] == arg[2])
            return arg[1];
    }
    Scalar s = node(op, result_type(op, arg), arg[0]->lanes, narg);
    return scalar_intern(c, &s, arg);
}

const Scalar *
scalar_1(Ctx *c, ScalarOp op, const Scalar *x)
{
    assert(scalar_op_info[op].arity == 1);
    return scalar_op(c, op, &x);
}

const Scalar *
scalar_2(Ctx *c, ScalarOp op, const Scalar *x, const Scalar *y)
{
    const Scalar *arg[2] = { x, y };
    assert(scalar_op_info[op].arity == 2);
    return scalar_op(c, op, arg);
}

const Scalar *
scalar_select(Ctx *c, const Scalar *cond, const Scalar *x, const Scalar *y)
{
    const Scalar *arg[3] = { cond, x, y };
    return scalar_op(c, S_SELECT, arg);
}

/* ---- reductions ------------------------------------------------------------------------------ */

const Scalar *
scalar_reduce(Ctx *c, Combiner k, AxisSet axes, const Scalar *const *body, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!body[i])
            return NULL;
    if (axes == 0 && n == 1)
        return body[0]; /* combined with nothing */
    Scalar s = node(S_REDUCE, body[0]->dtype, 1, n);
    s.u.reduce.combiner = k;
    s.u.reduce.axes = axes;
    return scalar_intern(c, &s, body);
}

const Scalar *
scalar_item(Ctx *c, const Scalar *tuple, uint32_t item)
{
    if (!tuple)
        return NULL;
    assert(tuple->op == S_REDUCE && item < tuple->narg);
    if (tuple->u.reduce.axes == 0)
        return tuple->arg[item];
    Scalar s = node(S_ITEM, tuple->arg[item]->dtype, 1, 1);
    s.u.item = item;
    return scalar_intern(c, &s, &tuple);
}

static int64_t
least(DType t)
{
    return dtype_info[t].kind != KIND_INT ? 0
                                          : (int64_t)(UINT64_MAX << (dtype_info[t].bytes * 8 - 1));
}

static int64_t
greatest(DType t)
{
    return dtype_info[t].kind == KIND_INT ? ~least(t) : -1; /* all bits: wrapped to the type */
}

const Scalar *
combiner_identity(Ctx *c, Combiner k, DType t)
{
    bool real = dtype_is_float(t);
    switch (k) {
    case COMB_PROD:
    case COMB_ALL: return scalar_number(c, t, 1);
    case COMB_MAX:
    case COMB_ARGMAX: return real ? scalar_float(c, t, -INFINITY) : scalar_int(c, t, least(t));
    case COMB_MIN:
    case COMB_ARGMIN: return real ? scalar_float(c, t, INFINITY) : scalar_int(c, t, greatest(t));
    case COMB_NONE:
    case COMB_SUM:
    case COMB_ANY:
    case COMB_LAST:
    case COMB_COUNT: break;
    }
    return scalar_number(c, t, 0);
}

const Scalar *
combiner_better(Ctx *c, Combiner k, const Scalar *v, const Scalar *best)
{
    bool most = k == COMB_ARGMAX;

    if (!dtype_is_float(v->dtype))
        return scalar_2(c, most ? S_GT : S_LT, v, best);
    return scalar_2(c, S_AND, scalar_1(c, S_NOT, scalar_2(c, most ? S_LE : S_GE, v, best)),
                    scalar_2(c, S_EQ, best, best));
}

/* ---- lanes ----------------------------------------------------------------------------------- */

const Scalar *
scalar_in_word(Ctx *c, const Scalar *word, const Expr *index, int bits)
{
    const Expr *shift =
        expr_scale(c, expr_mod(c, index, expr_int(c, dtype_info[word->dtype].bits / bits)), bits);
    const Scalar *lowest = scalar_2(c, S_SHR, scalar_cast(c, DT_I32, word),
                                    scalar_cast(c, DT_I32, scalar_index(c, shift)));

    return scalar_2(c, S_AND, lowest, scalar_int(c, DT_I32, (1 << bits) - 1));
}

/* The value of all lanes. */
static const Scalar *
in_all_lanes(const Scalar *s)
{
    return s->op == S_SPLAT ? s->arg[0] : s;
}

const Scalar *
scalar_four_bits(const Scalar *s)
{
    if (s->op != S_SUB || s->dtype != DT_F32 || s->lanes == 1 || s->arg[0]->op != S_CAST ||
        in_all_lanes(s->arg[1])->op != S_CONST)
        return NULL;
    const Scalar *and = s->arg[0]->arg[0];
    if (and->op != S_AND || and->dtype != DT_I32)
        return NULL;
    const Scalar *mask = in_all_lanes(and->arg[1]);
    return mask->op == S_CONST && mask->u.bits == 15 ? and->arg[0] : NULL;
}

const Scalar *
scalar_splat(Ctx *c, const Scalar *a, uint32_t lanes)
{
    if (!a || lanes == 1)
        return a;
    assert(a->lanes == 1);
    Scalar s = node(S_SPLAT, a->dtype, lanes, 1);
    return scalar_intern(c, &s, &a);
}

const Scalar *
scalar_lanes(Ctx *c, const Scalar *const *lane, uint32_t lanes)
{
    bool same = true;
    for (uint32_t l = 0; l < lanes; l++) {
        if (!lane[l])
            return NULL;
        assert(lane[l]->lanes == 1 && lane[l]->dtype == lane[0]->dtype);
        same = same && lane[l] == lane[0];
    }
    if (same)
        return scalar_splat(c, lane[0], lanes);
    Scalar s = node(S_LANES, lane[0]->dtype, lanes, lanes);
    return scalar_intern(c, &s, lane);
}

const Scalar *
scalar_iota(Ctx *c, DType t, uint32_t lanes)
{
    if (lanes == 1)
        return scalar_number(c, t, 0);
    Scalar s = node(S_IOTA, t, lanes, 0);
    return scalar_intern(c, &s, NULL);
}

const Scalar *
scalar_blocks(Ctx *c, bool odd, const Scalar *a, const Scalar *b, uint32_t block)
{
    const Scalar *arg[2] = { a, b };

    if (!a || !b)
        return NULL;
    assert(a->lanes == b->lanes && a->dtype == b->dtype && block > 0 &&
           a->lanes % (2 * block) == 0);
    Scalar s = node(odd ? S_ODDS : S_EVENS, a->dtype, a->lanes, 2);
    s.u.block = block;
    return scalar_intern(c, &s, arg);
}

const Scalar *
scalar_hreduce(Ctx *c, Combiner k, const Scalar *a)
{
    static const ScalarOp op[COMB_COUNT] = {
        [COMB_SUM] = S_HSUM, [COMB_PROD] = S_HPROD, [COMB_MAX] = S_HMAX,
        [COMB_MIN] = S_HMIN, [COMB_ANY] = S_HMAX,   [COMB_ALL] = S_HMIN,
    };
    if (!a || a->lanes == 1)
        return a;
    assert(op[k] != S_NONE);
    Scalar s = node(op[k], a->dtype, 1, 1);
    return scalar_intern(c, &s, &a);
}

/* ---- computed variables ---------------------------------------------------------------------- */

/* Sums and products of i64 values become Exprs as far down as possible, so that an index like
 * 16*col[t] + r is affine in r. The memo keeps shared operands from being walked twice. */
static const Expr *
computed_of(Ctx *c, Map *memo, const Scalar *s)
{
    const Expr *e = NULL;
    uint64_t known;
    if (s->op == S_INDEX)
        return s->u.index;
    if (s->op == S_CONST && !(s->dtype == DT_U64 && s->u.bits < 0))
        return expr_int(c, s->u.bits);
    if (map_get(memo, MAP_PTR(s), &known))
        return (const Expr *)(uintptr_t)known;
    if (s->dtype == DT_I64 && (s->op == S_ADD || s->op == S_SUB || s->op == S_MUL))
        e = expr_op(c, s->op, computed_of(c, memo, s->arg[0]), computed_of(c, memo, s->arg[1]));
    if (s->op == S_CAST && s->dtype == DT_I64 && dtype_is_int(s->arg[0]->dtype) &&
        s->arg[0]->dtype != DT_U64)
        e = computed_of(c, memo, s->arg[0]); /* widening keeps the value */
    if (!e)
        e = expr_var(c, (Var){ VAR_COMPUTED, MAP_PTR(s) });
    map_put(memo, MAP_PTR(s), MAP_PTR(e));
    return e;
}

const Expr *
expr_computed(Ctx *c, const Scalar *s)
{
    if (!s)
        return NULL;
    assert(!dtype_is_float(s->dtype) && s->lanes == 1);
    return computed_of(c, &scalar_notes(c)->computed, s);
}
