/* parse_scalar: scalar expressions from text, with the names of a scope.
 *
 * Recursive descent over the grammar of doc/nest.md: reads, reductions with the axes they bind,
 * calls, operators by precedence, lets. parse_operand.c handles operands and their types.
 */
#include "text/parser.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool ternary(Scope *s, Operand *v);

/* ---- reads ----------------------------------------------------------------------------------- */

/* lanes 0: those of the tensor's elements. */
static bool
load(Scope *s, uint32_t lanes, Operand *v)
{
    ParsedAccess at;
    Ctx *c = s->p->ctx;
    const Scalar *outside = NULL;
    const Expr *stride = NULL, *valid = NULL;
    if (!parse_access(s, &at))
        return false;
    if (parse_accept(s->p, "|")) {
        Operand o;
        if (!parse_body(s, &o) || !(outside = operand_settle(s, &o, at.type->dtype)))
            return false;
        if (outside->dtype != at.type->dtype)
            return parse_error(s->p, "the outside value is %s, the tensor is %s",
                               dtype_info[outside->dtype].name, dtype_info[at.type->dtype].name);
    }
    if (lanes == 0)
        lanes = at.lanes;
    if (!parse_access_end(s, &stride, &valid))
        return false;
    if (lanes == 1) {
        const Scalar *read = scalar_load(c, at.type->dtype, at.slot, at.rank, at.at, outside);
        return operand_set(
            v, s->widen && dtype_is_short(at.type->dtype) ? scalar_cast(c, DT_F32, read) : read);
    }
    return operand_set(
        v, scalar_load_lanes(c, at.type->dtype, at.slot, at.rank, at.at, lanes, stride, valid));
}

/* inside(x[…]): compares every index with both bounds of its dimension. */
static bool
inside(Scope *s, Operand *v)
{
    ParsedAccess at;
    Ctx *c = s->p->ctx;
    const Scalar *all = scalar_int(c, DT_BOOL, 1);
    if (!parse_expect(s->p, "(") || !parse_access(s, &at) || !parse_expect(s->p, "]") ||
        !parse_expect(s->p, ")"))
        return false;
    for (uint32_t d = 0; d < at.rank; d++) {
        Var axis;
        const Expr *e = at.at[d], *dim = at.type->dim[d];
        if (s->axes && expr_is_var(e, &axis) && axis.kind == VAR_AXIS &&
            s->axes->list.at[axis.id].extent == dim)
            continue; /* an axis of exactly that extent */
        const Scalar *i = scalar_index(c, e);
        all = scalar_2(c, S_AND, all, scalar_2(c, S_LE, scalar_int(c, DT_I64, 0), i));
        all = scalar_2(c, S_AND, all, scalar_2(c, S_LT, i, scalar_index(c, dim)));
    }
    return operand_set(v, all);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* One name after the combiner: a new reduction axis, or one that an earlier reduction has bound. */
static bool
binder_axis(Scope *s, AxisSet *axes)
{
    AxisTable *table = s->axes;
    Parse *p = s->p;
    Sym name = parse_name(p);
    const NameEntry *e = name ? scope_find(s, name) : NULL;
    if (!name)
        return false;
    if (e && (e->kind != NAME_AXIS || table->list.at[e->id].kind != AXIS_REDUCE))
        return parse_error(p, "%s has another meaning here: give the reduction axis a new name",
                           name);
    uint32_t id = e ? e->id : table->list.n;
    if (e && ((table->bound | *axes) >> id & 1))
        return parse_error(p, "axis %s is already bound", name);
    Axis axis = { name, AXIS_REDUCE, NULL };
    const Expr *limit;
    if (!parse_axis_extent(s, &axis, &limit))
        return false;
    if (e) {
        const Axis *old = &table->list.at[id];
        if (axis.extent && axis.extent != old->extent)
            return parse_error(p, "axis %s has extent %s already: give this one a new name", name,
                               expr_str(p->ctx, old->extent));
        if (!axis.extent)
            table->again |= (AxisSet)1 << id;
    } else {
        if (id == NEST_MAX_AXES)
            return parse_error(p, "more than %d axes (NEST_MAX_AXES)", NEST_MAX_AXES);
        if (!scope_declare(s, (NameEntry){ .name = name, .kind = NAME_AXIS, .id = id }))
            return false;
        VEC_PUSH(p->ctx->arena, &table->list, axis);
    }
    table->limit[id] = limit; /* of this reduction only */
    *axes |= (AxisSet)1 << id;
    return true;
}

static bool
check_depth(Scope *s, const Scalar *value)
{
    uint32_t most = depth_operations(s->p->ctx);
    return value->depth <= most || parse_too_deep(s->p, "a value's operations are", most);
}

/* let t = value in, any number of them. Iterative, so a long chain of lets is not a deep
 * nesting. */
static bool
lets(Scope *s)
{
    while (parse_accept(s->p, "let")) {
        Sym name = parse_name(s->p);
        Operand v;
        uint32_t mark = s->entry.n;
        if (!name || !parse_expect(s->p, "=") || !scope_enter(s) || !parse_body(s, &v) ||
            !parse_expect(s->p, "in"))
            return false;
        s->depth--;
        scope_leave(s, mark, true);
        const Scalar *value = operand_settle(s, &v, DT_NONE);
        if (!value || !check_depth(s, value) ||
            !scope_declare(s, (NameEntry){ .name = name, .kind = NAME_VALUE, .value = value }))
            return false;
    }
    return true;
}

/* (x, y) after argmax, or any other body. */
static bool
reduce_body(Scope *s, bool tuple, Operand *item, uint32_t *n)
{
    *n = 1;
    if (!tuple)
        return parse_body(s, item);
    uint32_t mark = s->entry.n;
    *n = 2;
    bool ok = lets(s) && parse_expect(s->p, "(") && parse_body(s, &item[0]) &&
              parse_expect(s->p, ",") && parse_body(s, &item[1]) && parse_expect(s->p, ")");
    scope_leave(s, mark, false);
    return ok;
}

static bool
reduction(Scope *s, Combiner k, Operand *v)
{
    AxisSet axes = 0, around = s->axes->bound;
    bool tuple = k == COMB_ARGMAX || k == COMB_ARGMIN;
    Operand item[2] = { 0 };
    const Scalar *body[2];
    uint32_t n;
    Parse before = *s->p;
    do {
        if (!binder_axis(s, &axes))
            return false;
    } while (parse_accept(s->p, ","));
    if (!parse_expect(s->p, ":"))
        return false;
    s->axes->bound |= axes;
    bool ok = reduce_body(s, tuple, item, &n);
    s->axes->bound = around;
    s->mark = before;
    if (!ok)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!(body[i] = operand_settle(s, &item[i], s->hint)))
            return false;
        if (item[i].tuple)
            return parse_error(&s->mark, "a tuple cannot be combined: take an item with .0 or .1");
    }
    if ((k == COMB_ANY || k == COMB_ALL) && body[0]->dtype != DT_BOOL)
        return parse_error(&s->mark, "`%s` combines bool, not %s", combiner_name[k],
                           dtype_info[body[0]->dtype].name);
    for (uint32_t i = 0; i < s->axes->list.n; i++) {
        Axis *a = &s->axes->list.at[i];
        if (!(axes >> i & 1) || a->extent)
            continue;
        if (!s->axes->limit[i])
            return parse_error(
                &s->mark, "the extent of axis %s does not follow from the reads: write %s<extent>",
                a->name, a->name);
        /* no read runs along it: the window's size depends on data */
        a->extent = s->axes->limit[i];
        s->axes->limit[i] = NULL;
    }
    const Scalar *within = axes_within(s->p->ctx, s->axes, axes);
    if (within && tuple)
        return parse_error(&s->mark, "the points of %s are all of an axis", combiner_name[k]);
    if (within)
        body[0] = scalar_select(s->p->ctx, within, body[0],
                                combiner_identity(s->p->ctx, k, body[0]->dtype));
    operand_set(v, scalar_reduce(s->p->ctx, k, axes, body, n));
    v->tuple = tuple;
    return v->s != NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool
cast(Scope *s, DType t, Operand *v)
{
    Operand a;
    if (!parse_expect(s->p, "(") || !parse_body(s, &a) || !parse_expect(s->p, ")"))
        return false;
    if (a.tuple)
        return parse_error(s->p, "a tuple cannot be converted: take an item with .0 or .1");
    const Scalar *value = operand_settle(s, &a, t);
    return value && operand_set(v, scalar_cast(s->p->ctx, t, value));
}

static bool
call_at(Scope *s, Operand *v)
{
    Operand a;
    const Expr *n;
    if (!parse_expect(s->p, "(") || !parse_body(s, &a) || !parse_expect(s->p, ",") ||
        !(n = parse_index(s)) || !parse_expect(s->p, ")"))
        return false;
    const Scalar *index = operand_settle(s, &a, DT_I64);
    if (index && !dtype_is_int(index->dtype))
        return parse_error(s->p, "`at` takes an integer, this is %s",
                           dtype_info[index->dtype].name);
    return index && operand_set(v, scalar_at(s->p->ctx, index, n));
}

bool
parse_call(Scope *s, ScalarOp op, Operand *v)
{
    Operand a[3];
    uint32_t n = scalar_op_info[op].arity;
    Parse before = *s->p;
    if (!parse_expect(s->p, "("))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if ((i && !parse_expect(s->p, ",")) || !parse_body(s, &a[i]))
            return false;
    while ((op == S_MIN || op == S_MAX) && parse_accept(s->p, ",")) {
        if (!operand_apply(s, op, a, n, v) || !parse_body(s, &a[1]))
            return false;
        a[0] = *v;
    }
    if (!parse_expect(s->p, ")"))
        return false;
    s->mark = before;
    return op == S_SELECT ? operand_select(s, a, v)
           : op == S_SEEN ? operand_seen(s, a, v)
                          : operand_apply(s, op, a, n, v);
}

/* index(e), or broadcast(e, e, …) */
static bool
call_index(Scope *s, bool broadcast, Operand *v)
{
    const Expr *e, *next;
    if (!parse_expect(s->p, "(") || !(e = parse_index(s)))
        return false;
    while (broadcast && parse_accept(s->p, ",")) {
        if (!(next = parse_index(s)))
            return false;
        e = expr_broadcast(s->p->ctx, e, next);
    }
    return parse_expect(s->p, ")") && operand_set(v, scalar_index(s->p->ctx, e));
}

static bool
call_horizontal(Scope *s, Combiner k, Operand *v)
{
    Operand a;
    if (!parse_expect(s->p, "(") || !parse_body(s, &a) || !parse_expect(s->p, ")"))
        return false;
    const Scalar *x = operand_settle(s, &a, DT_NONE);
    return x && operand_set(v, scalar_hreduce(s->p->ctx, k, x));
}

/* evens(x, y, 2), odds(x, y, 2) */
static bool
call_blocks(Scope *s, bool odd, Operand *v)
{
    Operand a[2];
    const Scalar *x[2];
    int64_t block;

    for (int i = 0; i < 2; i++)
        if (!parse_expect(s->p, i ? "," : "(") || !parse_body(s, &a[i]) ||
            !(x[i] = operand_settle(s, &a[i], DT_NONE)))
            return false;
    if (!parse_expect(s->p, ",") || !parse_int(s->p, &block) || !parse_expect(s->p, ")"))
        return false;
    if (x[0]->lanes != x[1]->lanes || x[0]->dtype != x[1]->dtype || block < 1 ||
        block > UINT8_MAX || x[0]->lanes % (2 * block) != 0)
        return parse_error(
            s->p, "blocks of %lld lanes are taken from %u lanes of one vector and %u of another",
            (long long)block, x[0]->lanes, x[1]->lanes);
    return operand_set(v, scalar_blocks(s->p->ctx, odd, x[0], x[1], (uint32_t)block));
}

static bool
call_lanes(Scope *s, Operand *v)
{
    /* on the heap, since lanes may be nested */
    Operand *a = NEW_ARRAY(s->scratch, Operand, UINT8_MAX);
    const Scalar **lane = NEW_ARRAY(s->scratch, const Scalar *, UINT8_MAX);
    uint32_t n = 0;
    if (!parse_expect(s->p, "("))
        return false;
    do {
        if (n == UINT8_MAX)
            return parse_error(s->p, "more than %d lanes", UINT8_MAX);
        if (!parse_body(s, &a[n++]))
            return false;
    } while (parse_accept(s->p, ","));
    s->mark = *s->p;
    if (!parse_expect(s->p, ")") || !operands_agree(s, "lanes", a, n, lane))
        return false;
    if (lane[0]->lanes != 1)
        return parse_error(s->p, "a lane has %u lanes of its own", lane[0]->lanes);
    return operand_set(v, scalar_lanes(s->p->ctx, lane, n));
}

/* load16 x[…], splat16(x), iota16(i64): the number of lanes is in the word. */
static bool
lanes_word(Scope *s, size_t n, bool *is_one, Operand *v)
{
    static const char *const word[] = { "load", "splat", "iota" };
    Parse *p = s->p;
    *is_one = false;
    for (int k = 0; k < 3; k++) {
        size_t len = strlen(word[k]);
        if (n <= len || n > len + 3 || memcmp(p->s, word[k], len) != 0)
            continue;
        uint32_t lanes = 0;
        size_t i = len;
        for (; i < n && isdigit((unsigned char)p->s[i]); i++)
            lanes = lanes * 10 + (uint32_t)(p->s[i] - '0');
        if (i < n || lanes < 1 || lanes > UINT8_MAX)
            continue;
        *is_one = true;
        p->s += n;
        if (k == 0)
            return load(s, lanes, v);
        if (!parse_expect(p, "("))
            return false;
        if (k == 2) {
            DType t = parse_dtype(p);
            return t != DT_NONE && parse_expect(p, ")") &&
                   operand_set(v, scalar_iota(p->ctx, t, lanes));
        }
        if (!parse_body(s, v) || !parse_expect(p, ")"))
            return false;
        if (!v->s) {
            v->lanes = lanes;
            return true;
        }
        if (v->s->lanes != 1)
            return parse_error(p, "splat of %u lanes", v->s->lanes);
        return operand_set(v, scalar_splat(p->ctx, v->s, lanes));
    }
    return false;
}

/* A call of the word of n characters at the cursor. */
static bool
call(Scope *s, size_t n, bool *is_one, Operand *v)
{
    static const char *const fold[] = {
        [COMB_SUM] = "hsum", [COMB_PROD] = "hprod", [COMB_MAX] = "hmax", [COMB_MIN] = "hmin"
    };
    Parse *p = s->p;
    DType t = dtype_from_name(p->s, n);
    ScalarOp op = scalar_op_named(p->s, n);
    *is_one = true;
    if (t != DT_NONE || op != S_NONE) {
        p->s += n;
        return t != DT_NONE ? cast(s, t, v) : parse_call(s, op, v);
    }
    if (parse_accept(p, "at"))
        return call_at(s, v);
    if (parse_accept(p, "inside"))
        return inside(s, v);
    if (parse_accept(p, "index"))
        return call_index(s, false, v);
    if (parse_accept(p, "broadcast"))
        return call_index(s, true, v);
    if (parse_accept(p, "lanes"))
        return call_lanes(s, v);
    if (parse_accept(p, "evens"))
        return call_blocks(s, false, v);
    if (parse_accept(p, "odds"))
        return call_blocks(s, true, v);
    for (Combiner k = COMB_SUM; k <= COMB_MIN; k++)
        if (parse_accept(p, fold[k]))
            return call_horizontal(s, k, v);
    *is_one = false;
    return false;
}

/* ---- the grammar, loosest precedence last ---------------------------------------------------- */

/* What --dim fixes is a number, which no type has as a symbol any more. */
static int64_t
fixed_symbol(Ctx *c, Sym name)
{
    return expr_symbol_info(c, (Var){ VAR_SYMBOL, MAP_PTR(name) })->fixed;
}

static bool
operand_symbol(Ctx *c, Operand *v, Sym name)
{
    int64_t fixed = fixed_symbol(c, name);

    return operand_set(v, scalar_index(c, fixed >= 0 ? expr_int(c, fixed) : expr_symbol(c, name)));
}

bool
parse_named(Scope *s, Operand *v)
{
    Ctx *c = s->p->ctx;
    Parse before = *s->p;
    Sym name = parse_name(s->p);
    const NameEntry *e = name ? scope_find(s, name) : NULL;
    if (!name)
        return false;
    if (!e && (s->open || fixed_symbol(c, name) >= 0))
        return operand_symbol(c, v, name);
    if (!e) {
        *s->p = before;
        return parse_error(
            s->p,
            "unknown name %s: not an axis, a value, a tensor, or a symbol of the parameters' types",
            name);
    }
    switch (e->kind) {
    case NAME_SYMBOL: return operand_symbol(c, v, name);
    case NAME_AXIS: return operand_set(v, scalar_index(c, expr_axis(c, e->id)));
    case NAME_LOOP: return operand_set(v, scalar_index(c, expr_loop(c, e->id)));
    case NAME_VALUE:
        operand_set(v, e->value);
        v->tuple = e->value->op == S_REDUCE && e->value->narg > 1;
        return true;
    case NAME_SLOT: break;
    }
    *s->p = before;
    return load(s, 0, v);
}

static bool
atom(Scope *s, Operand *v)
{
    Parse *p = s->p;
    size_t n = parse_word(p);
    bool is_one;
    if (n == 0) {
        if (parse_accept(p, "("))
            return parse_body(s, v) && parse_expect(p, ")");
        if (p->s < p->end && (isdigit((unsigned char)*p->s) || *p->s == '.'))
            return operand_number(s, v);
        return parse_named(s, v); /* a quoted name, or an error */
    }
    if (parse_followed_by(p, n, '(')) {
        bool ok = call(s, n, &is_one, v);
        if (is_one)
            return ok;
    }
    bool ok = lanes_word(s, n, &is_one, v);
    if (is_one)
        return ok;
    for (Combiner k = COMB_SUM; s->axes && k < COMB_LAST; k++)
        if (!parse_followed_by(p, n, '[') && parse_accept(p, combiner_name[k]))
            return reduction(s, k, v);
    if (parse_accept(p, "true"))
        return operand_set(v, scalar_int(p->ctx, DT_BOOL, 1));
    if (parse_accept(p, "false"))
        return operand_set(v, scalar_int(p->ctx, DT_BOOL, 0));
    if (parse_accept(p, "inf") || parse_accept(p, "nan")) {
        *v = operand_plain(p->s[-1] == 'f' ? INFINITY : NAN);
        return true;
    }
    return parse_named(s, v);
}

bool
parse_postfix(Scope *s, Operand *v)
{
    if (!atom(s, v))
        return false;
    while (v->tuple && parse_accept(s->p, ".")) {
        int64_t item;
        if (!parse_int(s->p, &item))
            return false;
        if (item < 0 || item >= v->s->narg)
            return parse_error(s->p, "a tuple of %u values has no item %" PRId64, v->s->narg, item);
        operand_set(v, scalar_item(s->p->ctx, v->s, (uint32_t)item));
    }
    return true;
}

static bool
unary(Scope *s, Operand *v)
{
    uint32_t minus = 0;
    if (!scope_enter(s))
        return false;
    Parse before = *s->p;
    while (parse_accept(s->p, "-"))
        if (++minus > depth_levels(s->p->ctx))
            return parse_too_deep(s->p, "signs are", depth_levels(s->p->ctx));
    if (!(s->index ? parse_index_operand(s, v) : parse_postfix(s, v)))
        return false;
    if (minus)
        s->mark = before;
    for (; minus > 0; minus--) {
        Operand a = *v;
        if (!operand_apply(s, S_NEG, &a, 1, v))
            return false;
    }
    s->depth--;
    return true;
}

typedef struct {
    const char *token;
    ScalarOp op;
} Infix;
#define INFIX_LEVELS 4
#define INFIX_SUM 2 /* the loosest in an index */
static const Infix infix[INFIX_LEVELS][6] = {
    { { "==", S_EQ }, { "!=", S_NE } },
    { { "<=", S_LE }, { "<", S_LT }, { ">=", S_GE }, { ">", S_GT } },
    { { "+", S_ADD }, { "-", S_SUB } },
    { { "*", S_MUL }, { "//", S_NONE }, { "/", S_DIV }, { "%", S_NONE } },
};

static bool
binary(Scope *s, int level, Operand *v)
{
    if (level == INFIX_LEVELS)
        return unary(s, v);
    if (!binary(s, level + 1, v))
        return false;
    for (const Infix *i = infix[level]; i->token;) {
        Parse before = *s->p;
        if (!parse_accept(s->p, i->token)) {
            i++;
            continue;
        }
        Operand a[2] = { *v };
        if (!binary(s, level + 1, &a[1]))
            return false;
        s->mark = before;
        if (i->op == S_NONE ? !operand_divide(s, i->token[0] == '%', a, v)
                            : !operand_apply(s, i->op, a, 2, v))
            return false;
        i = infix[level]; /* another one of this precedence may follow */
    }
    return true;
}

static bool
ternary(Scope *s, Operand *v)
{
    Operand a[3];
    if (!scope_enter(s) || !binary(s, 0, &a[0]))
        return false;
    Parse before = *s->p;
    if (parse_accept(s->p, "?")) {
        if (!ternary(s, &a[1]) || !parse_expect(s->p, ":") || !ternary(s, &a[2]))
            return false;
        s->mark = before;
        if (!operand_select(s, a, v))
            return false;
    } else {
        *v = a[0];
    }
    s->depth--;
    return true;
}

bool
parse_body(Scope *s, Operand *v)
{
    uint32_t mark = s->entry.n;
    if (s->index)
        return binary(s, INFIX_SUM, v);
    if (!lets(s) || !ternary(s, v))
        return false;
    scope_leave(s, mark, false);
    return true;
}

const Scalar *
parse_value(Scope *s, DType t, bool tuple)
{
    Operand v;
    s->hint = t;
    uint32_t depth = s->depth;
    bool ok = parse_body(s, &v);
    s->depth = depth;
    if (ok && v.tuple && !tuple)
        ok = parse_error(s->p,
                         "a tuple stands where one value is needed: take an item with .0 or .1");
    const Scalar *value = ok ? operand_settle(s, &v, t) : NULL;
    return value && check_depth(s, value) ? value : NULL;
}

const Scalar *
scalar_parse(Ctx *c, const char *text, uint32_t n, const char *const *name,
             const Scalar *const *operand)
{
    Arena *scratch = arena_child(c->arena);
    Parse p = parse_begin(c, "expression", (Bytes){ (const uint8_t *)text, strlen(text) });
    Scope s = { .p = &p, .scratch = scratch, .find = { .arena = scratch } };
    bool ok = true;
    DType t = DT_NONE;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = operand[i] && scope_declare(&s, (NameEntry){ .name = sym(c, name[i]),
                                                          .kind = NAME_VALUE,
                                                          .value = operand[i] });
        t = t == DT_NONE && operand[i] ? (DType)operand[i]->dtype : t;
    }
    const Scalar *value = ok ? parse_value(&s, t, false) : NULL;
    if (value && !parse_end(&p)) {
        parse_error(&p, "expected the end of the expression");
        value = NULL;
    }
    arena_free(scratch);
    return value;
}
