/* scalar: the interned DAG of scalar expressions and its makers.
 *
 * A node is looked up by its contents before it is made, so equal expressions are one pointer.
 * Makers fold constants (fold.c) and apply the identities that hold for every value of the type:
 * x*1 and x - 0 always, x + 0 for integers only (-0.0 + 0 is 0.0), x*0 for integers only (NaN).
 * Arithmetic of index values is arithmetic of Exprs: that is where symbolic bounds are decided.
 */
#include "nest/internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct ScalarTable {
    Scalar **slot;                   /* open addressing; cap is a power of two */
    uint64_t *hash;
    uint32_t n, cap;
    Map computed;                    /* Scalar to the Expr that stands for it */
};

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
    [COMB_NONE] = "", [COMB_SUM] = "sum", [COMB_PROD] = "prod", [COMB_MAX] = "max", [COMB_MIN] = "min",
    [COMB_ANY] = "any", [COMB_ALL] = "all", [COMB_ARGMAX] = "argmax", [COMB_ARGMIN] = "argmin", [COMB_LAST] = "last",
};

ScalarOp
scalar_op_named(const char *name, size_t n)
{
    for (ScalarOp op = S_ADD; op < S_OP_COUNT; op++)
        if (strlen(scalar_op_info[op].text) == n && memcmp(scalar_op_info[op].text, name, n) == 0)
            return op;
    return S_NONE;
}

/* ---- the table ------------------------------------------------------------------------------ */

static struct ScalarTable *
table_of(Ctx *c)
{
    if (!c->scalars) {
        c->scalars = NEW(c->arena, struct ScalarTable);
        c->scalars->computed.arena = c->arena;
        c->scalars->cap = 1024;
        c->scalars->slot = NEW_ARRAY(c->arena, Scalar *, c->scalars->cap);
        c->scalars->hash = NEW_ARRAY(c->arena, uint64_t, c->scalars->cap);
    }
    return c->scalars;
}

static void
table_grow(Ctx *c, struct ScalarTable *t)
{
    uint32_t cap = t->cap * 2;
    Scalar **slot = NEW_ARRAY(c->arena, Scalar *, cap);
    uint64_t *hash = NEW_ARRAY(c->arena, uint64_t, cap);
    for (uint32_t i = 0; i < t->cap; i++) {
        if (!t->slot[i])
            continue;
        uint32_t k = (uint32_t)t->hash[i] & (cap - 1);
        while (slot[k])
            k = (k + 1) & (cap - 1);
        slot[k] = t->slot[i];
        hash[k] = t->hash[i];
    }
    t->slot = slot;
    t->hash = hash;
    t->cap = cap;
}

/* What makes two nodes equal, as words: header, the arm of the union in use, operands. */
static uint64_t
node_hash(const Scalar *s, const Scalar *const *arg)
{
    uint64_t h = (uint64_t)s->op | (uint64_t)s->dtype << 8 | (uint64_t)s->lanes << 16 | (uint64_t)s->narg << 24;
    h = hash_bytes(arg, s->narg * sizeof *arg, h);
    switch (s->op) {
    case S_CONST: return hash_bytes(&s->u.bits, sizeof s->u.bits, h);
    case S_INDEX:
    case S_AT:    return hash_bytes(&s->u.index, sizeof s->u.index, h);
    case S_ITEM:  return hash_bytes(&s->u.item, sizeof s->u.item, h);
    case S_REDUCE:
        h = hash_bytes(&s->u.reduce.axes, sizeof s->u.reduce.axes, h);
        return h + (uint64_t)s->u.reduce.combiner * 0x9e3779b97f4a7c15u;
    case S_LOAD: {
        const void *more[3] = { s->u.load.outside, s->u.load.lane_stride, s->u.load.valid };
        h = hash_bytes(s->u.load.at, s->u.load.rank * sizeof *s->u.load.at, h + s->u.load.slot);
        return hash_bytes(more, sizeof more, h);
    }
    default:      return h;
    }
}

static bool
node_equal(const Scalar *a, const Scalar *b, const Scalar *const *arg)
{
    if (a->op != b->op || a->dtype != b->dtype || a->lanes != b->lanes || a->narg != b->narg)
        return false;
    for (uint32_t i = 0; i < a->narg; i++)
        if (a->arg[i] != arg[i])
            return false;
    switch (a->op) {
    case S_CONST:  return a->u.bits == b->u.bits;
    case S_INDEX:
    case S_AT:     return a->u.index == b->u.index;
    case S_ITEM:   return a->u.item == b->u.item;
    case S_REDUCE: return a->u.reduce.combiner == b->u.reduce.combiner && a->u.reduce.axes == b->u.reduce.axes;
    case S_LOAD:
        if (a->u.load.slot != b->u.load.slot || a->u.load.rank != b->u.load.rank ||
            a->u.load.outside != b->u.load.outside || a->u.load.lane_stride != b->u.load.lane_stride ||
            a->u.load.valid != b->u.load.valid)
            return false;
        for (uint32_t d = 0; d < a->u.load.rank; d++)
            if (a->u.load.at[d] != b->u.load.at[d])
                return false;
        return true;
    default:       return true;
    }
}

/* ---- summaries: the depth and the variables of a node follow from what is below it ------------ */

typedef struct { Ctx *ctx; VarSet set; uint32_t cap; bool owned; uint32_t depth; } Summary;

static bool
var_same(Var a, Var b)
{
    return a.kind == b.kind && a.id == b.id;
}

static bool
set_has(const VarSet *set, Var v)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (var_same(set->at[i], v))
            return true;
    return false;
}

static void
summary_var(Summary *m, Var v)
{
    if (set_has(&m->set, v))
        return;
    if (!m->owned || m->set.n == m->cap) {           /* until here the set was shared with an operand */
        m->cap = m->set.n * 2 + 4;
        Var *at = NEW_ARRAY(m->ctx->arena, Var, m->cap);
        if (m->set.n)
            memcpy(at, m->set.at, m->set.n * sizeof *at);
        m->set.at = at;
        m->owned = true;
    }
    ((Var *)m->set.at)[m->set.n++] = v;
}

static void
summary_scalar(Summary *m, const Scalar *s)
{
    if (!s)
        return;
    if (s->depth > m->depth)
        m->depth = s->depth;
    if (m->set.n == 0) {
        m->set = *s->vars;
        m->owned = false;
        return;
    }
    if (m->set.at == s->vars->at)
        return;
    for (uint32_t i = 0; i < s->vars->n; i++)
        summary_var(m, s->vars->at[i]);
}

static void
summary_visit(void *user, Var v)
{
    summary_var(user, v);
    if (v.kind == VAR_COMPUTED)
        summary_scalar(user, computed_scalar(v));
}

static void
summary_expr(Summary *m, const Expr *e)
{
    if (e)
        expr_vars(e, summary_visit, m);
}

static void
summarise(Ctx *c, Scalar *s)
{
    Summary m = { .ctx = c };
    for (uint32_t i = 0; i < s->narg; i++)
        summary_scalar(&m, s->arg[i]);
    if (s->op == S_INDEX || s->op == S_AT)
        summary_expr(&m, s->u.index);
    if (s->op == S_LOAD) {
        summary_scalar(&m, s->u.load.outside);
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            summary_expr(&m, s->u.load.at[d]);
        summary_expr(&m, s->u.load.lane_stride);
        summary_expr(&m, s->u.load.valid);
    }
    s->depth = m.depth + 1;
    for (uint32_t i = 0; i < s->narg && !m.owned; i++)
        if (s->arg[i]->vars->n == m.set.n && s->arg[i]->vars->at == m.set.at)
            s->vars = s->arg[i]->vars;
    if (!s->vars)
        s->vars = arena_copy(c->arena, &m.set, sizeof m.set);
}

/* The node like `proto` with these operands: the one there is, or a new one. */
static const Scalar *
intern(Ctx *c, const Scalar *proto, const Scalar *const *arg)
{
    struct ScalarTable *t = table_of(c);
    uint64_t h = node_hash(proto, arg);
    uint32_t k = (uint32_t)h & (t->cap - 1);
    for (; t->slot[k]; k = (k + 1) & (t->cap - 1))
        if (t->hash[k] == h && node_equal(t->slot[k], proto, arg))
            return t->slot[k];

    Scalar *s = arena_alloc(c->arena, sizeof *s + proto->narg * sizeof *arg);
    memcpy(s, proto, sizeof *s);
    for (uint32_t i = 0; i < proto->narg; i++)
        s->arg[i] = arg[i];
    if (s->op == S_LOAD && s->u.load.rank)
        s->u.load.at = arena_copy(c->arena, proto->u.load.at, s->u.load.rank * sizeof *s->u.load.at);
    s->id = ++t->n;
    summarise(c, s);
    t->slot[k] = s;
    t->hash[k] = h;
    if (t->n * 2 > t->cap)
        table_grow(c, t);
    return s;
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

/* ---- leaves ----------------------------------------------------------------------------------- */

static const Scalar *
constant(Ctx *c, DType t, Number v)
{
    Scalar s = node(S_CONST, t, 1, 0);
    if (dtype_is_float(t) && isnan(v.f))
        v.f = NAN;                                   /* one NaN: payloads are not part of the meaning */
    s.u.bits = v.i;
    return intern(c, &s, NULL);
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
    return intern(c, &s, NULL);
}

const Scalar *
scalar_load(Ctx *c, DType t, uint32_t slot, uint32_t rank, const Expr *const *at, const Scalar *outside)
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
    return intern(c, &s, NULL);
}

const Scalar *
scalar_load_lanes(Ctx *c, DType t, uint32_t slot, uint32_t rank, const Expr *const *at, uint32_t lanes,
                  const Expr *lane_stride, const Expr *valid)
{
    if (lanes == 1)
        return scalar_load(c, t, slot, rank, at, NULL);
    Scalar s = node(S_LOAD, t, lanes, 0);
    s.u.load.slot = slot;
    s.u.load.rank = rank;
    s.u.load.at = at;
    s.u.load.lane_stride = lane_stride ? lane_stride : expr_int(c, 1);
    s.u.load.valid = valid;
    return intern(c, &s, NULL);
}

const Scalar *
scalar_at(Ctx *c, const Scalar *index, const Expr *n)
{
    int64_t size;
    if (!index || !n)
        return NULL;
    assert(dtype_is_int(index->dtype));
    if (scalar_is_const(index) && expr_const(n, &size)) {
        int64_t v = index->u.bits < 0 ? index->u.bits + size : index->u.bits;
        if (0 <= v && v < size)
            return scalar_int(c, DT_I64, v);
    }
    Scalar s = node(S_AT, DT_I64, index->lanes, 1);
    s.u.index = n;
    return intern(c, &s, &index);
}

/* ---- operations --------------------------------------------------------------------------------- */

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
    return intern(c, &s, &a);
}

static DType
result_type(ScalarOp op, const Scalar *const *arg)
{
    switch (op) {
    case S_EQ: case S_NE: case S_LT: case S_LE: case S_GT: case S_GE: case S_ISNAN: case S_ISINF:
        return DT_BOOL;
    case S_SELECT:
        return arg[1]->dtype;
    default:
        return arg[0]->dtype;
    }
}

static const Scalar *
fold_constants(Ctx *c, ScalarOp op, const Scalar *const *arg, uint32_t narg)
{
    Number x[3], r = { .i = 0 };
    for (uint32_t i = 0; i < narg; i++) {
        const Scalar *k = uniform_const(arg[i]);
        if (!k)
            return NULL;
        x[i] = scalar_value(k);
    }
    if (op == S_SELECT || !number_op(op, arg[0]->dtype, x, &r))
        return NULL;
    return scalar_splat(c, constant(c, result_type(op, arg), r), arg[0]->lanes);
}

/* The Expr of an index value or an i64 number; NULL for what is computed from data. */
static const Expr *
index_of(Ctx *c, const Scalar *s)
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
    default:    return NULL;
    }
    return e->bad ? NULL : e;
}

static const Scalar *
fold_index(Ctx *c, ScalarOp op, const Scalar *x, const Scalar *y)
{
    const Expr *a = index_of(c, x), *b = y ? index_of(c, y) : NULL, *e = NULL;
    if (!a || (y && !b))
        return NULL;
    if (y)
        e = expr_op(c, op, a, b);
    else if (op == S_NEG)
        e = expr_scale(c, a, -1);
    return e && !e->bad ? scalar_index(c, e) : NULL;
}

/* x op y where one side is a number that decides the result, for every value of the other. */
static const Scalar *
fold_identity(Ctx *c, ScalarOp op, const Scalar *x, const Scalar *y)
{
    bool integer = !dtype_is_float(x->dtype);
    switch (op) {
    case S_ADD:
        if (is_number(y, integer ? 0.0 : -0.0))
            return x;
        return is_number(x, integer ? 0.0 : -0.0) ? y : NULL;
    case S_SUB:
        return is_number(y, 0.0) ? x : NULL;
    case S_MUL:
        if (is_number(y, 1) || (integer && is_number(x, 0)))
            return x;
        return is_number(x, 1) || (integer && is_number(y, 0)) ? y : NULL;
    case S_DIV:
        return is_number(y, 1) ? x : NULL;
    case S_MIN: case S_MAX:
        return x == y ? x : NULL;
    case S_AND:
        if (x == y || is_number(y, x->dtype == DT_BOOL ? 1 : -1) || (integer && is_number(x, 0)))
            return x;
        return is_number(x, x->dtype == DT_BOOL ? 1 : -1) || is_number(y, 0) ? y : NULL;
    case S_OR:
        if (x == y || is_number(y, 0) || (x->dtype == DT_BOOL && is_number(x, 1)))
            return x;
        return is_number(x, 0) || (x->dtype == DT_BOOL && is_number(y, 1)) ? y : NULL;
    case S_EQ: case S_LE: case S_GE:
        return integer && x == y ? scalar_splat(c, scalar_int(c, DT_BOOL, 1), x->lanes) : NULL;
    case S_NE: case S_LT: case S_GT:
        return integer && x == y ? scalar_splat(c, scalar_int(c, DT_BOOL, 0), x->lanes) : NULL;
    default:
        return NULL;
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
        assert(arg[i]->dtype == arg[narg == 3 ? 1 : 0]->dtype);
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
    if (op == S_SELECT) {
        assert(arg[0]->dtype == DT_BOOL);
        const Scalar *k = uniform_const(arg[0]);
        if (k)
            return k->u.bits ? arg[1] : arg[2];
        if (arg[1] == arg[2])
            return arg[1];
    }
    Scalar s = node(op, result_type(op, arg), arg[0]->lanes, narg);
    return intern(c, &s, arg);
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

/* ---- reductions ------------------------------------------------------------------------------- */

const Scalar *
scalar_reduce(Ctx *c, Combiner k, AxisSet axes, const Scalar *const *body, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!body[i])
            return NULL;
    if (axes == 0 && n == 1)
        return body[0];                              /* combined with nothing */
    Scalar s = node(S_REDUCE, body[0]->dtype, 1, n);
    s.u.reduce.combiner = k;
    s.u.reduce.axes = axes;
    return intern(c, &s, body);
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
    return intern(c, &s, &tuple);
}

static int64_t
least(DType t)
{
    return dtype_info[t].kind != KIND_INT ? 0 : (int64_t)(UINT64_MAX << (dtype_info[t].bytes * 8 - 1));
}

static int64_t
greatest(DType t)
{
    return dtype_info[t].kind == KIND_INT ? ~least(t) : -1;      /* all bits: wrapped to the type */
}

const Scalar *
combiner_identity(Ctx *c, Combiner k, DType t)
{
    bool real = dtype_is_float(t);
    switch (k) {
    case COMB_PROD: case COMB_ALL:
        return scalar_number(c, t, 1);
    case COMB_MAX: case COMB_ARGMAX:
        return real ? scalar_float(c, t, -INFINITY) : scalar_int(c, t, least(t));
    case COMB_MIN: case COMB_ARGMIN:
        return real ? scalar_float(c, t, INFINITY) : scalar_int(c, t, greatest(t));
    case COMB_NONE: case COMB_SUM: case COMB_ANY: case COMB_LAST: case COMB_COUNT:
        break;
    }
    return scalar_number(c, t, 0);
}

/* ---- lanes -------------------------------------------------------------------------------------- */

const Scalar *
scalar_splat(Ctx *c, const Scalar *a, uint32_t lanes)
{
    if (!a || lanes == 1)
        return a;
    assert(a->lanes == 1);
    Scalar s = node(S_SPLAT, a->dtype, lanes, 1);
    return intern(c, &s, &a);
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
    return intern(c, &s, lane);
}

const Scalar *
scalar_iota(Ctx *c, DType t, uint32_t lanes)
{
    if (lanes == 1)
        return scalar_number(c, t, 0);
    Scalar s = node(S_IOTA, t, lanes, 0);
    return intern(c, &s, NULL);
}

const Scalar *
scalar_hreduce(Ctx *c, Combiner k, const Scalar *a)
{
    static const ScalarOp op[COMB_COUNT] = {
        [COMB_SUM] = S_HSUM, [COMB_PROD] = S_HPROD, [COMB_MAX] = S_HMAX, [COMB_MIN] = S_HMIN,
        [COMB_ANY] = S_HMAX, [COMB_ALL] = S_HMIN,
    };
    if (!a || a->lanes == 1)
        return a;
    assert(op[k] != S_NONE);
    Scalar s = node(op[k], a->dtype, 1, 1);
    return intern(c, &s, &a);
}

/* ---- computed variables ------------------------------------------------------------------------- */

/* Sums and products of i64 values go over to Exprs as far down as they reach, so that an index like
 * 16*col[t] + r is seen as affine in r. The memo keeps shared operands from being walked twice. */
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
    if (s->op == S_CAST && s->dtype == DT_I64 && dtype_is_int(s->arg[0]->dtype) && s->arg[0]->dtype != DT_U64)
        e = computed_of(c, memo, s->arg[0]);         /* widening keeps the value */
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
    return computed_of(c, &table_of(c)->computed, s);
}
