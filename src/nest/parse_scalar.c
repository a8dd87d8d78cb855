/* parse_scalar: scalar expressions and indices from text, over the names of a scope.
 *
 * A number has no type until something next to it has: it stays a plain double or integer through
 * arithmetic with other numbers and becomes a constant when it meets a typed value (settle).
 *
 * Indices are a language of their own, of Exprs: x[2*y + r - 1, idx[i]]. A read, an `at` or a cast in
 * an index is the computed variable of its value; value(…) makes one of any scalar, and index(…) in
 * a scalar is the way back.
 *
 * Every nesting passes through scope_enter, so hostile text meets PARSE_MAX_DEPTH, not the stack's end.
 */
#include "nest/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Scalar *s;                 /* typed; NULL for a plain number */
    bool integer;                    /* a number that is exactly i */
    double f;
    int64_t i;
    uint32_t lanes;                  /* of a number */
    bool tuple;
} Value;

static bool scalar_body(Scope *s, Value *v);
static bool ternary(Scope *s, Value *v);
static bool unary(Scope *s, Value *v);

/* ---- scope ----------------------------------------------------------------------------------------- */

bool
scope_enter(Scope *s)
{
    if (++s->depth <= PARSE_MAX_DEPTH)
        return true;
    return parse_error(s->p, "nested more than %d deep (PARSE_MAX_DEPTH): use lets", PARSE_MAX_DEPTH);
}

const NameEntry *
scope_find(const Scope *s, Sym name)
{
    uint64_t at;
    return map_get(&s->find, MAP_PTR(name), &at) && at ? &s->entry.at[at] : NULL;
}

bool
scope_declare(Scope *s, NameEntry e)
{
    static const char *const what[] = { "a symbol", "an axis", "a loop", "a tensor", "a value" };
    const NameEntry *old = scope_find(s, e.name);
    if (old)
        return parse_error(s->p, "%s is already the name of %s", e.name, what[old->kind]);
    if (s->entry.n == 0)
        VEC_PUSH(s->scratch, &s->entry, (NameEntry){ 0 });
    map_put(&s->find, MAP_PTR(e.name), s->entry.n);
    VEC_PUSH(s->scratch, &s->entry, e);
    return true;
}

void
scope_leave(Scope *s, uint32_t mark, bool axes_too)
{
    uint32_t n = mark ? mark : 1;
    for (uint32_t i = n; i < s->entry.n; i++) {
        NameEntry e = s->entry.at[i];
        bool keep = e.kind == NAME_AXIS && !axes_too;
        map_put(&s->find, MAP_PTR(e.name), keep ? n : 0);
        if (keep)
            s->entry.at[n++] = e;
    }
    if (s->entry.n > n)
        s->entry.n = n;
}

/* The word at the cursor without moving it; its length is 0 if there is none. */
static size_t
word_at(Parse *p)
{
    size_t n = 0;
    parse_skip(p);
    while (p->s + n < p->end && (isalnum((unsigned char)p->s[n]) || p->s[n] == '_'))
        n++;
    return n && !isdigit((unsigned char)*p->s) ? n : 0;
}

static bool
followed_by(Parse *p, size_t n, char ch)
{
    const char *s = p->s + n;
    while (s < p->end && isspace((unsigned char)*s))
        s++;
    return s < p->end && *s == ch;
}

/* ---- numbers ------------------------------------------------------------------------------------- */

static const Scalar *
settle(Scope *s, const Value *v, DType t)
{
    if (v->s)
        return v->s;
    const Scalar *k = NULL;
    if (t == DT_NONE) {
        parse_error(s->p, "nothing tells the type of the number %g: write it as f32(%g)", v->f, v->f);
    } else if (dtype_is_float(t)) {
        k = scalar_float(s->p->ctx, t, v->f);
    } else if (v->integer && v->i == wrap_to_dtype(t, v->i)) {
        k = scalar_int(s->p->ctx, t, v->i);
    } else if (!v->integer && v->f == floor(v->f) && fabs(v->f) < 0x1p53) {
        k = scalar_int(s->p->ctx, t, (int64_t)v->f);
    } else {
        parse_error(s->p, "%.17g is not a value of type %s", v->f, dtype_info[t].name);
    }
    return k ? scalar_splat(s->p->ctx, k, v->lanes) : NULL;
}

static Value
plain_number(double f)
{
    return (Value){ .f = f, .lanes = 1 };
}

static Value
plain_integer(int64_t i)
{
    return (Value){ .f = (double)i, .i = i, .integer = true, .lanes = 1 };
}

static bool
typed(Value *v, const Scalar *s)
{
    *v = (Value){ .s = s };
    return s != NULL;
}

static bool
number(Scope *s, Value *v)
{
    Parse *p = s->p;
    size_t n = 0;
    while (p->s + n < p->end && isdigit((unsigned char)p->s[n]))
        n++;
    char next = p->s + n < p->end ? p->s[n] : 0;
    bool integer = n > 0 && n < 20 && next != '.' && next != 'e' && next != 'E' && next != 'x' && next != 'X' && next != 'p';
    if (!integer) {
        *v = plain_number(0);
        return parse_number(p, &v->f);
    }
    char text[24];
    memcpy(text, p->s, n);
    text[n] = 0;
    p->s += n;
    uint64_t u = strtoull(text, NULL, 10);
    *v = plain_integer((int64_t)u);
    v->f = (double)u;
    return true;
}

/* Operations of plain numbers: in double, except that whole numbers stay exact under + - *. */
static bool
number_operation(Scope *s, ScalarOp op, const Value *a, uint32_t n, Value *v)
{
    Number x[2] = { { .f = a[0].f }, { .f = n > 1 ? a[1].f : 0 } }, r;
    bool whole = a[0].integer && (n < 2 || a[1].integer);
    int64_t i;
    uint32_t lanes = a[0].lanes;
    if (whole && ((op == S_ADD && !add_overflows(a[0].i, a[1].i, &i)) || (op == S_MUL && !mul_overflows(a[0].i, a[1].i, &i)) ||
                  (op == S_SUB && !__builtin_sub_overflow(a[0].i, a[1].i, &i)))) {
        *v = plain_integer(i);
    } else if (op == S_NEG && whole) {
        *v = plain_integer((int64_t)(0 - (uint64_t)a[0].i));
        v->f = -a[0].f;
    } else if (op >= S_EQ && op <= S_GE) {
        return typed(v, number_op(op, DT_F64, x, &r) ? scalar_int(s->p->ctx, DT_BOOL, r.i) : NULL);
    } else if (number_op(op, DT_F64, x, &r) && op != S_ISNAN && op != S_ISINF) {
        *v = plain_number(r.f);
    } else {
        return parse_error(&s->mark, "`%s` needs a value with a type: write f32(…) around a number", scalar_op_info[op].text);
    }
    v->lanes = lanes;
    return true;
}

/* Give every operand the one type there is. */
static bool
agree(Scope *s, const char *what, Value *a, uint32_t n, const Scalar **out)
{
    DType t = DT_NONE;
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!a[i].s)
            continue;
        if (a[i].tuple)
            return parse_error(&s->mark, "`%s` of a tuple: take an item with .0 or .1", what);
        if (t != DT_NONE && t != (DType)a[i].s->dtype)
            return parse_error(&s->mark, "`%s` of %s and %s: convert one, %s(…)", what, dtype_info[t].name,
                               dtype_info[a[i].s->dtype].name, dtype_info[t].name);
        t = a[i].s->dtype;
        lanes = a[i].s->lanes;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = settle(s, &a[i], t != DT_NONE ? t : s->hint);
        if (!out[i])
            return false;
        if (lanes && out[i]->lanes != lanes)
            return parse_error(&s->mark, "`%s` of %u lanes and %u lanes: splat one", what, lanes, out[i]->lanes);
    }
    return true;
}

/* ---- operations ---------------------------------------------------------------------------------- */

static bool
operation(Scope *s, ScalarOp op, Value *a, uint32_t n, Value *v)
{
    const Scalar *arg[2];
    bool numbers = !a[0].s && (n < 2 || !a[1].s);
    if (numbers)
        return number_operation(s, op, a, n, v);
    if (!agree(s, scalar_op_info[op].text, a, n, arg))
        return false;
    bool arithmetic = (op >= S_ADD && op <= S_ATAN2) || op == S_NEG || op == S_ABS || op == S_SIGN || (op >= S_FLOOR && op <= S_ISINF);
    bool bits = op >= S_AND && op <= S_SHR && op != S_EQ;
    DType t = arg[0]->dtype;
    bool real = op == S_ATAN2 || (op >= S_SQRT && op <= S_SIGMOID);
    if ((arithmetic && t == DT_BOOL && op != S_MIN && op != S_MAX) ||
        ((bits || op == S_NOT) && dtype_is_float(t)) || (real && !dtype_is_float(t)))
        return parse_error(&s->mark, "`%s` has no meaning for %s", scalar_op_info[op].text, dtype_info[t].name);
    return typed(v, scalar_op(s->p->ctx, op, arg));
}

/* a // b and a % b of indices. */
static bool
index_operation(Scope *s, bool remainder, Value *a, Value *v)
{
    const Scalar *arg[2];
    Ctx *c = s->p->ctx;
    if (!agree(s, remainder ? "%" : "//", a, 2, arg))
        return false;
    if (arg[0]->dtype != DT_I64 || arg[0]->lanes != 1)
        return parse_error(&s->mark, "`//` and `%%` are for indices (i64); use / and mod for %s", dtype_info[arg[0]->dtype].name);
    const Expr *x = expr_computed(c, arg[0]), *y = expr_computed(c, arg[1]);
    return typed(v, scalar_index(c, remainder ? expr_mod(c, x, y) : expr_div(c, x, y)));
}

static bool
select_operation(Scope *s, Value *a, Value *v)
{
    const Scalar *arg[3];
    if (!a[0].s || a[0].s->dtype != DT_BOOL)
        return parse_error(&s->mark, "the condition of `?` is %s, it must be bool",
                           a[0].s ? dtype_info[a[0].s->dtype].name : "a number");
    arg[0] = a[0].s;
    if (!agree(s, "?:", a + 1, 2, arg + 1))
        return false;
    if (arg[0]->lanes != arg[1]->lanes)
        return parse_error(&s->mark, "`?` has %u lanes, its values have %u", arg[0]->lanes, arg[1]->lanes);
    return typed(v, scalar_op(s->p->ctx, S_SELECT, arg));
}

/* ---- indices ------------------------------------------------------------------------------------- */

static bool
integer_value(Scope *s, const Scalar *value, const Expr **e)
{
    if (value->lanes != 1)
        return parse_error(s->p, "an index is one integer, this has %u lanes", value->lanes);
    if (dtype_is_float(value->dtype))
        return parse_error(s->p, "an index is an integer, this is %s", dtype_info[value->dtype].name);
    *e = expr_computed(s->p->ctx, value);
    return true;
}

static bool
computed_index(Scope *s, const Expr **e)
{
    Value v;
    if (!unary(s, &v))
        return false;
    if (v.tuple)
        return parse_error(s->p, "a tuple stands where an index is needed: take an item with .0 or .1");
    const Scalar *value = settle(s, &v, DT_I64);
    return value && integer_value(s, value, e);
}

static bool
index_name(Scope *s, const Expr **e)
{
    Ctx *c = s->p->ctx;
    Parse before = *s->p;
    Sym name = parse_name(s->p);
    if (!name)
        return false;
    const NameEntry *entry = scope_find(s, name);
    if (!entry && !s->open) {
        *s->p = before;
        return parse_error(s->p, "unknown name %s: not an axis, a value, or a symbol of the parameters' types", name);
    }
    if (!entry) {
        *e = expr_symbol(c, name);
        return true;
    }
    switch (entry->kind) {
    case NAME_SYMBOL: *e = expr_symbol(c, name); return true;
    case NAME_AXIS:   *e = expr_axis(c, entry->id); return true;
    case NAME_LOOP:   *e = expr_loop(c, entry->id); return true;
    case NAME_VALUE:  return integer_value(s, entry->value, e);
    case NAME_SLOT:   break;
    }
    *s->p = before;
    return computed_index(s, e);
}

static bool index_sum(Scope *s, const Expr **e);

static bool
index_call(Scope *s, bool minimum, const Expr **e)
{
    Ctx *c = s->p->ctx;
    if (!index_sum(s, e))
        return false;
    while (parse_accept(s->p, ",")) {
        const Expr *next;
        if (!index_sum(s, &next))
            return false;
        *e = minimum ? expr_min(c, *e, next) : expr_max(c, *e, next);
    }
    return parse_expect(s->p, ")");
}

static bool
index_atom(Scope *s, const Expr **e)
{
    Parse *p = s->p;
    size_t n = word_at(p);
    Value v;
    if (n == 0 && p->s < p->end && isdigit((unsigned char)*p->s)) {
        int64_t k;
        if (!parse_int(p, &k))
            return false;
        *e = expr_int(p->ctx, k);
        return true;
    }
    if (parse_accept(p, "("))
        return index_sum(s, e) && parse_expect(p, ")");
    if (n && followed_by(p, n, '(')) {
        if (parse_accept(p, "min"))
            return parse_expect(p, "(") && index_call(s, true, e);
        if (parse_accept(p, "max"))
            return parse_expect(p, "(") && index_call(s, false, e);
        if (parse_accept(p, "value")) {
            if (!parse_expect(p, "(") || !scalar_body(s, &v) || !parse_expect(p, ")"))
                return false;
            if (v.tuple)
                return parse_error(p, "a tuple stands where an index is needed: take an item with .0 or .1");
            const Scalar *value = settle(s, &v, DT_I64);
            return value && integer_value(s, value, e);
        }
        return computed_index(s, e);
    }
    return index_name(s, e);
}

static bool
index_unary(Scope *s, const Expr **e)
{
    bool negative = false;
    while (parse_accept(s->p, "-"))
        negative = !negative;
    if (!scope_enter(s) || !index_atom(s, e))
        return false;
    s->depth--;
    if (negative)
        *e = expr_scale(s->p->ctx, *e, -1);
    return true;
}

static bool
index_product(Scope *s, const Expr **e)
{
    Ctx *c = s->p->ctx;
    if (!index_unary(s, e))
        return false;
    for (;;) {
        const Expr *next;
        bool times = parse_accept(s->p, "*"), over = !times && parse_accept(s->p, "//");
        if (!times && !over && !parse_accept(s->p, "%"))
            return true;
        if (!index_unary(s, &next))
            return false;
        *e = times ? expr_mul(c, *e, next) : over ? expr_div(c, *e, next) : expr_mod(c, *e, next);
    }
}

static bool
index_sum(Scope *s, const Expr **e)
{
    Ctx *c = s->p->ctx;
    if (!index_product(s, e))
        return false;
    for (;;) {
        const Expr *next;
        bool plus = parse_accept(s->p, "+");
        if (!plus && !parse_accept(s->p, "-"))
            return true;
        if (!index_product(s, &next))
            return false;
        *e = plus ? expr_add(c, *e, next) : expr_sub(c, *e, next);
    }
}

const Expr *
parse_index(Scope *s)
{
    const Expr *e;
    uint32_t depth = s->depth;
    bool ok = index_sum(s, &e);
    s->depth = depth;
    if (ok && e->bad)
        ok = parse_error(s->p, "an index overflows 64 bits");
    return ok ? e : NULL;
}

const Expr *
parse_expr(Parse *p)
{
    Arena *scratch = arena_child(p->ctx->arena);
    Scope s = { .p = p, .scratch = scratch, .find = { .arena = scratch }, .open = true };
    const Expr *e = parse_index(&s);
    arena_free(scratch);
    return e;
}

/* ---- types --------------------------------------------------------------------------------------- */

static DType
parse_dtype(Parse *p)
{
    size_t n = word_at(p);
    DType t = n ? dtype_from_name(p->s, n) : DT_NONE;
    if (t == DT_NONE)
        parse_error(p, "expected an element type (f32, i64, bool, …), found `%.*s`", (int)n, p->s);
    else
        p->s += n;
    return t;
}

static const Type *
parse_dims(Scope *s, DType t)
{
    const Expr *dim[PARSE_MAX_RANK];
    uint32_t rank = 0;
    Parse *p = s->p;
    if (t == DT_NONE || !parse_expect(p, "["))
        return NULL;
    while (!parse_peek(p, "]")) {
        if (rank == PARSE_MAX_RANK) {
            parse_error(p, "a type of more than %d dimensions", PARSE_MAX_RANK);
            return NULL;
        }
        dim[rank] = parse_index(s);
        if (!dim[rank++])
            return NULL;
        if (!parse_accept(p, ","))
            break;
    }
    return parse_expect(p, "]") ? type_new(p->ctx, t, rank, dim) : NULL;
}

const Type *
parse_type(Parse *p)
{
    Arena *scratch = arena_child(p->ctx->arena);
    Scope s = { .p = p, .scratch = scratch, .find = { .arena = scratch }, .open = true };
    const Type *t = parse_dims(&s, parse_dtype(p));
    arena_free(scratch);
    return t;
}

static void
declare_symbol(void *user, Var v)
{
    Scope *s = user;
    Sym name = (Sym)(uintptr_t)v.id;
    const NameEntry *old = v.kind == VAR_SYMBOL ? scope_find(s, name) : NULL;
    if (v.kind == VAR_SYMBOL && !(old && old->kind == NAME_SYMBOL))
        scope_declare(s, (NameEntry){ .name = name, .kind = NAME_SYMBOL });
}

/* f32x16: the element type, and the lanes of a register's element. */
static DType
parse_lanes_dtype(Parse *p, uint32_t *lanes)
{
    size_t n = word_at(p), end = n;
    while (end > 0 && isdigit((unsigned char)p->s[end - 1]))
        end--;
    *lanes = 1;
    if (end == n || end < 2 || n - end > 3 || p->s[end - 1] != 'x' || dtype_from_name(p->s, end - 1) == DT_NONE)
        return parse_dtype(p);
    DType t = dtype_from_name(p->s, end - 1);
    *lanes = 0;
    for (size_t i = end; i < n; i++)
        *lanes = *lanes * 10 + (uint32_t)(p->s[i] - '0');
    if (*lanes < 1 || *lanes > UINT8_MAX) {
        parse_error(p, "%u lanes: at most %d", *lanes, UINT8_MAX);
        return DT_NONE;
    }
    p->s += n;
    return t;
}

const Type *
parse_type_in(Scope *s, uint32_t *lanes)
{
    uint32_t errors = s->p->ctx->diags.list.n;
    bool open = s->open;
    s->open = true;
    const Type *t = parse_dims(s, lanes ? parse_lanes_dtype(s->p, lanes) : parse_dtype(s->p));
    s->open = open;
    if (!t)
        return NULL;
    for (uint32_t d = 0; d < t->rank; d++)
        expr_vars(t->dim[d], declare_symbol, s);
    return s->p->ctx->diags.list.n == errors ? t : NULL;
}

/* ---- reads --------------------------------------------------------------------------------------- */

/* The first bare read tells the extent of an axis; that of a later reduction over the same axis must
 * not tell another. */
static bool
infer_extent(Scope *s, const Expr *at, const Expr *dim)
{
    Var v;
    if (!s->axes || s->axes->quiet || !expr_is_var(at, &v) || v.kind != VAR_AXIS)
        return true;
    Axis *a = &s->axes->list.at[v.id];
    AxisSet bit = (AxisSet)1 << v.id;
    if (!a->extent)
        a->extent = dim;
    else if ((s->axes->again & bit) && expr_eq(s->p->ctx, NULL, a->extent, dim) == NO)
        return parse_error(s->p, "axis %s has extent %s from an earlier reduction, this dimension is %s: give it a new name",
                           a->name, expr_str(s->p->ctx, a->extent), expr_str(s->p->ctx, dim));
    s->axes->again &= ~bit;
    return true;
}

bool
parse_place(Scope *s, Place *to)
{
    Parse before = *s->p;
    Sym name = parse_name(s->p);
    const NameEntry *e = name ? scope_find(s, name) : NULL;
    if (!name)
        return false;
    if (!e || e->kind != NAME_SLOT) {
        *s->p = before;
        return parse_error(s->p, e ? "%s is not a tensor" : "unknown name %s", name);
    }
    if (e->id >= s->slot_type.n) {
        *s->p = before;
        return parse_error(s->p, "%s stands in its own type", name);
    }
    to->slot = e->id;
    to->type = s->slot_type.at[e->id];
    to->lanes = s->slot_lanes.n ? s->slot_lanes.at[e->id] : 1;
    to->rank = 0;
    if (!parse_expect(s->p, "["))
        return false;
    while (!parse_peek(s->p, "]") && !parse_peek(s->p, "|") && !parse_peek(s->p, "by") && !parse_peek(s->p, "if")) {
        if (to->rank == to->type->rank)
            return parse_error(s->p, "%s has rank %u, here is another index", name, to->type->rank);
        const Expr *at = parse_index(s);
        if (!at)
            return false;
        if (!infer_extent(s, at, to->type->dim[to->rank]))
            return false;
        to->at[to->rank++] = at;
        if (!parse_accept(s->p, ","))
            break;
    }
    if (to->rank < to->type->rank)
        return parse_error(s->p, "%s has rank %u, here are %u indices", name, to->type->rank, to->rank);
    return true;
}

bool
parse_place_end(Scope *s, const Expr **stride, const Expr **valid)
{
    if (parse_accept(s->p, "by") && !(*stride = parse_index(s)))
        return false;
    if (parse_accept(s->p, "if") && (!parse_expect(s->p, "<") || !(*valid = parse_index(s))))
        return false;
    return parse_expect(s->p, "]");
}

/* lanes 0: what an element of the tensor has. */
static bool
load(Scope *s, uint32_t lanes, Value *v)
{
    Place at;
    Ctx *c = s->p->ctx;
    const Scalar *outside = NULL;
    const Expr *stride = NULL, *valid = NULL;
    if (!parse_place(s, &at))
        return false;
    if (parse_accept(s->p, "|")) {
        Value o;
        if (!scalar_body(s, &o) || !(outside = settle(s, &o, at.type->dtype)))
            return false;
        if (outside->dtype != at.type->dtype)
            return parse_error(s->p, "the outside value is %s, the tensor is %s", dtype_info[outside->dtype].name,
                               dtype_info[at.type->dtype].name);
    }
    if (lanes == 0)
        lanes = at.lanes;
    if (!parse_place_end(s, &stride, &valid))
        return false;
    if (lanes == 1)
        return typed(v, scalar_load(c, at.type->dtype, at.slot, at.rank, at.at, outside));
    return typed(v, scalar_load_lanes(c, at.type->dtype, at.slot, at.rank, at.at, lanes, stride, valid));
}

/* inside(x[…]): comparisons of every index with both ends of its dimension. */
static bool
inside(Scope *s, Value *v)
{
    Place at;
    Ctx *c = s->p->ctx;
    const Scalar *all = scalar_int(c, DT_BOOL, 1);
    if (!parse_expect(s->p, "(") || !parse_place(s, &at) || !parse_expect(s->p, "]") || !parse_expect(s->p, ")"))
        return false;
    for (uint32_t d = 0; d < at.rank; d++) {
        Var axis;
        const Expr *e = at.at[d], *dim = at.type->dim[d];
        if (s->axes && expr_is_var(e, &axis) && axis.kind == VAR_AXIS && s->axes->list.at[axis.id].extent == dim)
            continue;                                /* an axis of just that extent */
        const Scalar *i = scalar_index(c, e);
        all = scalar_2(c, S_AND, all, scalar_2(c, S_LE, scalar_int(c, DT_I64, 0), i));
        all = scalar_2(c, S_AND, all, scalar_2(c, S_LT, i, scalar_index(c, dim)));
    }
    return typed(v, all);
}

/* ---- reductions ---------------------------------------------------------------------------------- */

bool
parse_axis_extent(Scope *s, Axis *axis)
{
    Parse *p = s->p;
    Ctx *c = p->ctx;
    bool was = s->axes->quiet;
    s->axes->quiet = true;
    bool ok = true;
    if (parse_accept(p, "<")) {
        ok = (axis->extent = parse_index(s)) && (!parse_accept(p, "from") || (axis->begin = parse_index(s))) &&
             parse_expect(p, ">");
    } else if (parse_accept(p, "in")) {
        ok = parse_expect(p, "list") && parse_expect(p, "(");
        Sym name = ok ? parse_name(p) : NULL;
        const NameEntry *e = name ? scope_find(s, name) : NULL;
        const Type *t = e && e->kind == NAME_SLOT && e->id < s->slot_type.n ? s->slot_type.at[e->id] : NULL;
        if (name && (!t || t->rank != 1 || !dtype_is_int(t->dtype)))
            ok = parse_error(p, "%s is not a tensor of integers of rank 1", name);
        const Expr *at = NULL;
        ok = ok && name && parse_expect(p, ",") && (at = parse_index(s)) && parse_expect(p, ")");
        if (ok) {
            const Expr *next = expr_offset(c, at, 1);
            axis->begin = expr_computed(c, scalar_load(c, t->dtype, e->id, 1, &at, NULL));
            const Expr *end = expr_computed(c, scalar_load(c, t->dtype, e->id, 1, &next, NULL));
            axis->extent = expr_sub(c, end, axis->begin);
        }
    }
    s->axes->quiet = was;
    return ok;
}

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
        return parse_error(p, "%s has another meaning here: give the reduction axis a new name", name);
    uint32_t id = e ? e->id : table->list.n;
    if (e && ((table->bound | *axes) >> id & 1))
        return parse_error(p, "axis %s is already bound", name);
    Axis axis = { name, AXIS_REDUCE, expr_int(p->ctx, 0), NULL };
    if (!parse_axis_extent(s, &axis))
        return false;
    if (e) {
        const Axis *old = &table->list.at[id];
        if (axis.extent && (axis.extent != old->extent || axis.begin != old->begin))
            return parse_error(p, "axis %s has extent %s already: give this one a new name", name, expr_str(p->ctx, old->extent));
        if (!axis.extent)
            table->again |= (AxisSet)1 << id;
    } else {
        if (id == NEST_MAX_AXES)
            return parse_error(p, "more than %d axes (NEST_MAX_AXES)", NEST_MAX_AXES);
        if (!scope_declare(s, (NameEntry){ .name = name, .kind = NAME_AXIS, .id = id }))
            return false;
        VEC_PUSH(p->ctx->arena, &table->list, axis);
    }
    *axes |= (AxisSet)1 << id;
    return true;
}

static bool
check_depth(Scope *s, const Scalar *value)
{
    if (value->depth <= SCALAR_MAX_DEPTH)
        return true;
    return parse_error(s->p, "a value is more than %d operations deep (SCALAR_MAX_DEPTH)", SCALAR_MAX_DEPTH);
}

/* let t = value in, any number of them. A loop, so a long chain of lets is not a deep nesting. */
static bool
lets(Scope *s)
{
    while (parse_accept(s->p, "let")) {
        Sym name = parse_name(s->p);
        Value v;
        uint32_t mark = s->entry.n;
        if (!name || !parse_expect(s->p, "=") || !scope_enter(s) || !scalar_body(s, &v) || !parse_expect(s->p, "in"))
            return false;
        s->depth--;
        scope_leave(s, mark, true);
        const Scalar *value = settle(s, &v, DT_NONE);
        if (!value || !check_depth(s, value) ||
            !scope_declare(s, (NameEntry){ .name = name, .kind = NAME_VALUE, .value = value }))
            return false;
    }
    return true;
}

/* (x, y) after argmax, or any other body. */
static bool
reduce_body(Scope *s, bool tuple, Value *item, uint32_t *n)
{
    *n = 1;
    if (!tuple)
        return scalar_body(s, item);
    uint32_t mark = s->entry.n;
    *n = 2;
    bool ok = lets(s) && parse_expect(s->p, "(") && scalar_body(s, &item[0]) && parse_expect(s->p, ",") &&
              scalar_body(s, &item[1]) && parse_expect(s->p, ")");
    scope_leave(s, mark, false);
    return ok;
}

static bool
reduction(Scope *s, Combiner k, Value *v)
{
    AxisSet axes = 0, around = s->axes->bound;
    bool tuple = k == COMB_ARGMAX || k == COMB_ARGMIN;
    Value item[2] = { 0 };
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
        if (!(body[i] = settle(s, &item[i], s->hint)))
            return false;
        if (item[i].tuple)
            return parse_error(&s->mark, "a tuple cannot be combined: take an item with .0 or .1");
    }
    if ((k == COMB_ANY || k == COMB_ALL) && body[0]->dtype != DT_BOOL)
        return parse_error(&s->mark, "`%s` combines bool, not %s", combiner_name[k], dtype_info[body[0]->dtype].name);
    for (uint32_t i = 0; i < s->axes->list.n; i++)
        if ((axes >> i & 1) && !s->axes->list.at[i].extent)
            return parse_error(&s->mark, "the extent of axis %s does not follow from the reads: write %s<extent>",
                               s->axes->list.at[i].name, s->axes->list.at[i].name);
    typed(v, scalar_reduce(s->p->ctx, k, axes, body, n));
    v->tuple = tuple;
    return v->s != NULL;
}

/* ---- calls --------------------------------------------------------------------------------------- */

static bool
cast(Scope *s, DType t, Value *v)
{
    Value a;
    if (!parse_expect(s->p, "(") || !scalar_body(s, &a) || !parse_expect(s->p, ")"))
        return false;
    if (a.tuple)
        return parse_error(s->p, "a tuple cannot be converted: take an item with .0 or .1");
    const Scalar *value = settle(s, &a, t);
    return value && typed(v, scalar_cast(s->p->ctx, t, value));
}

static bool
call_at(Scope *s, Value *v)
{
    Value a;
    const Expr *n;
    if (!parse_expect(s->p, "(") || !scalar_body(s, &a) || !parse_expect(s->p, ",") || !(n = parse_index(s)) ||
        !parse_expect(s->p, ")"))
        return false;
    const Scalar *index = settle(s, &a, DT_I64);
    if (index && !dtype_is_int(index->dtype))
        return parse_error(s->p, "`at` takes an integer, this is %s", dtype_info[index->dtype].name);
    return index && typed(v, scalar_at(s->p->ctx, index, n));
}

static bool
call_op(Scope *s, ScalarOp op, Value *v)
{
    Value a[3];
    uint32_t n = scalar_op_info[op].arity;
    Parse before = *s->p;
    if (!parse_expect(s->p, "("))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if ((i && !parse_expect(s->p, ",")) || !scalar_body(s, &a[i]))
            return false;
    if (!parse_expect(s->p, ")"))
        return false;
    s->mark = before;
    return op == S_SELECT ? select_operation(s, a, v) : operation(s, op, a, n, v);
}

static bool
call_index(Scope *s, Value *v)
{
    const Expr *e;
    return parse_expect(s->p, "(") && (e = parse_index(s)) && parse_expect(s->p, ")") &&
           typed(v, scalar_index(s->p->ctx, e));
}

static bool
call_horizontal(Scope *s, Combiner k, Value *v)
{
    Value a;
    if (!parse_expect(s->p, "(") || !scalar_body(s, &a) || !parse_expect(s->p, ")"))
        return false;
    const Scalar *x = settle(s, &a, DT_NONE);
    return x && typed(v, scalar_hreduce(s->p->ctx, k, x));
}

static bool
call_lanes(Scope *s, Value *v)
{
    Value a[UINT8_MAX];
    const Scalar *lane[UINT8_MAX];
    uint32_t n = 0;
    if (!parse_expect(s->p, "("))
        return false;
    do {
        if (n == UINT8_MAX)
            return parse_error(s->p, "more than %d lanes", UINT8_MAX);
        if (!scalar_body(s, &a[n++]))
            return false;
    } while (parse_accept(s->p, ","));
    s->mark = *s->p;
    if (!parse_expect(s->p, ")") || !agree(s, "lanes", a, n, lane))
        return false;
    if (lane[0]->lanes != 1)
        return parse_error(s->p, "a lane has %u lanes of its own", lane[0]->lanes);
    return typed(v, scalar_lanes(s->p->ctx, lane, n));
}

/* load16 x[…], splat16(x), iota16(i64): the number of lanes is in the word. */
static bool
lanes_word(Scope *s, size_t n, bool *is_one, Value *v)
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
            return t != DT_NONE && parse_expect(p, ")") && typed(v, scalar_iota(p->ctx, t, lanes));
        }
        if (!scalar_body(s, v) || !parse_expect(p, ")"))
            return false;
        if (!v->s) {
            v->lanes = lanes;
            return true;
        }
        if (v->s->lanes != 1)
            return parse_error(p, "splat of %u lanes", v->s->lanes);
        return typed(v, scalar_splat(p->ctx, v->s, lanes));
    }
    return false;
}

static bool
call(Scope *s, size_t n, bool *is_one, Value *v)
{
    Parse *p = s->p;
    DType t = dtype_from_name(p->s, n);
    ScalarOp op = scalar_op_named(p->s, n);
    *is_one = true;
    if (t != DT_NONE) {
        p->s += n;
        return cast(s, t, v);
    }
    if (op != S_NONE) {
        p->s += n;
        return call_op(s, op, v);
    }
    if (parse_accept(p, "at"))
        return call_at(s, v);
    if (parse_accept(p, "inside"))
        return inside(s, v);
    if (parse_accept(p, "index"))
        return call_index(s, v);
    if (parse_accept(p, "lanes"))
        return call_lanes(s, v);
    if (parse_accept(p, "hsum"))
        return call_horizontal(s, COMB_SUM, v);
    if (parse_accept(p, "hmax"))
        return call_horizontal(s, COMB_MAX, v);
    if (parse_accept(p, "hmin"))
        return call_horizontal(s, COMB_MIN, v);
    if (parse_accept(p, "hprod"))
        return call_horizontal(s, COMB_PROD, v);
    *is_one = false;
    return false;
}

/* ---- the grammar, loosest last --------------------------------------------------------------------- */

static bool
named(Scope *s, Value *v)
{
    Ctx *c = s->p->ctx;
    Parse before = *s->p;
    Sym name = parse_name(s->p);
    const NameEntry *e = name ? scope_find(s, name) : NULL;
    if (!name)
        return false;
    if (!e && s->open)
        return typed(v, scalar_index(c, expr_symbol(c, name)));
    if (!e) {
        *s->p = before;
        return parse_error(s->p, "unknown name %s: not an axis, a value, a tensor, or a symbol of the parameters' types", name);
    }
    switch (e->kind) {
    case NAME_SYMBOL: return typed(v, scalar_index(c, expr_symbol(c, name)));
    case NAME_AXIS:   return typed(v, scalar_index(c, expr_axis(c, e->id)));
    case NAME_LOOP:   return typed(v, scalar_index(c, expr_loop(c, e->id)));
    case NAME_VALUE:
        typed(v, e->value);
        v->tuple = e->value->op == S_REDUCE && e->value->narg > 1;
        return true;
    case NAME_SLOT:
        break;
    }
    *s->p = before;
    return load(s, 0, v);
}

static bool
atom(Scope *s, Value *v)
{
    Parse *p = s->p;
    size_t n = word_at(p);
    bool is_one;
    if (n == 0) {
        if (parse_accept(p, "("))
            return scalar_body(s, v) && parse_expect(p, ")");
        if (p->s < p->end && (isdigit((unsigned char)*p->s) || *p->s == '.'))
            return number(s, v);
        return named(s, v);                          /* quoted, or an error */
    }
    if (followed_by(p, n, '(')) {
        bool ok = call(s, n, &is_one, v);
        if (is_one)
            return ok;
    }
    bool ok = lanes_word(s, n, &is_one, v);
    if (is_one)
        return ok;
    for (Combiner k = COMB_SUM; s->axes && k < COMB_LAST; k++)
        if (!followed_by(p, n, '[') && parse_accept(p, combiner_name[k]))
            return reduction(s, k, v);
    if (parse_accept(p, "true"))
        return typed(v, scalar_int(p->ctx, DT_BOOL, 1));
    if (parse_accept(p, "false"))
        return typed(v, scalar_int(p->ctx, DT_BOOL, 0));
    if (parse_accept(p, "inf") || parse_accept(p, "nan")) {
        *v = plain_number(p->s[-1] == 'f' ? INFINITY : NAN);
        return true;
    }
    return named(s, v);
}

static bool
postfix(Scope *s, Value *v)
{
    if (!atom(s, v))
        return false;
    while (v->tuple && parse_accept(s->p, ".")) {
        int64_t item;
        if (!parse_int(s->p, &item))
            return false;
        if (item < 0 || item >= v->s->narg)
            return parse_error(s->p, "a tuple of %u values has no item %" PRId64, v->s->narg, item);
        typed(v, scalar_item(s->p->ctx, v->s, (uint32_t)item));
    }
    return true;
}

static bool
unary(Scope *s, Value *v)
{
    uint32_t minus = 0;
    if (!scope_enter(s))
        return false;
    Parse before = *s->p;
    while (parse_accept(s->p, "-"))
        if (++minus > PARSE_MAX_DEPTH)
            return parse_error(s->p, "more than %d signs", PARSE_MAX_DEPTH);
    if (!postfix(s, v))
        return false;
    if (minus)
        s->mark = before;
    for (; minus > 0; minus--) {
        Value a = *v;
        if (!operation(s, S_NEG, &a, 1, v))
            return false;
    }
    s->depth--;
    return true;
}

typedef struct { const char *token; ScalarOp op; } Infix;
#define INFIX_LEVELS 4
static const Infix infix[INFIX_LEVELS][6] = {
    { { "==", S_EQ }, { "!=", S_NE } },
    { { "<=", S_LE }, { "<", S_LT }, { ">=", S_GE }, { ">", S_GT } },
    { { "+", S_ADD }, { "-", S_SUB } },
    { { "*", S_MUL }, { "//", S_NONE }, { "/", S_DIV }, { "%", S_NONE } },
};

static bool
binary(Scope *s, int level, Value *v)
{
    if (level == INFIX_LEVELS)
        return unary(s, v);
    if (!binary(s, level + 1, v))
        return false;
    for (const Infix *i = infix[level]; i->token; ) {
        Parse before = *s->p;
        if (!parse_accept(s->p, i->token)) {
            i++;
            continue;
        }
        Value a[2] = { *v };
        if (!binary(s, level + 1, &a[1]))
            return false;
        s->mark = before;
        if (i->op == S_NONE ? !index_operation(s, i->token[0] == '%', a, v) : !operation(s, i->op, a, 2, v))
            return false;
        i = infix[level];                            /* another of the same level may follow */
    }
    return true;
}

static bool
ternary(Scope *s, Value *v)
{
    Value a[3];
    if (!scope_enter(s) || !binary(s, 0, &a[0]))
        return false;
    Parse before = *s->p;
    if (parse_accept(s->p, "?")) {
        if (!ternary(s, &a[1]) || !parse_expect(s->p, ":") || !ternary(s, &a[2]))
            return false;
        s->mark = before;
        if (!select_operation(s, a, v))
            return false;
    } else {
        *v = a[0];
    }
    s->depth--;
    return true;
}

static bool
scalar_body(Scope *s, Value *v)
{
    uint32_t mark = s->entry.n;
    if (!lets(s) || !ternary(s, v))
        return false;
    scope_leave(s, mark, false);
    return true;
}

const Scalar *
parse_value(Scope *s, DType t, bool tuple)
{
    Value v;
    s->hint = t;
    uint32_t depth = s->depth;
    bool ok = scalar_body(s, &v);
    s->depth = depth;
    if (ok && v.tuple && !tuple)
        ok = parse_error(s->p, "a tuple stands where one value is needed: take an item with .0 or .1");
    const Scalar *value = ok ? settle(s, &v, t) : NULL;
    return value && check_depth(s, value) ? value : NULL;
}

const Scalar *
scalar_parse(Ctx *c, const char *text, uint32_t n, const char *const *name, const Scalar *const *operand)
{
    Arena *scratch = arena_child(c->arena);
    Parse p = parse_begin(c, "expression", (Bytes){ (const uint8_t *)text, strlen(text) });
    Scope s = { .p = &p, .scratch = scratch, .find = { .arena = scratch } };
    bool ok = true;
    DType t = DT_NONE;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = operand[i] && scope_declare(&s, (NameEntry){ .name = sym(c, name[i]), .kind = NAME_VALUE, .value = operand[i] });
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
