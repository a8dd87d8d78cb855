/* parse_value: values as expressions: nested operators, numbers, lists.
 *
 *     %y = relu(%x * 2 + %bias)
 *     %z = reshape(%y, [shape(%x)[0], -1])
 *
 * Each operator in an expression becomes a node, whose type its shape rule gives. A number has the
 * element type of the other operands, or is i64 or f32 by itself. A list of numbers is a constant;
 * a list with values among them is their concatenation.
 */
#include "graph/statement.h"
#include "graph/text.h"

#include <ctype.h>
#include <string.h>

/* A value, or a number that is no constant yet, since its type depends on the other operands. */
typedef struct {
    ValueId v; /* 0: absent, or a number */
    bool number, real;
    int64_t i;
    double f;
} ValueOperand;

static bool read_operand(GraphParser *r, ValueOperand *o);

/* ---- numbers --------------------------------------------------------------------------------- */

static ValueId
number_const(GraphParser *r, const ValueOperand *o, DType t)
{
    void *at = arena_alloc(r->g->arena, 16);

    number_store(t, at, 0,
                 !o->real      ? number_cast(t, DT_I64, (Number){ .i = o->i })
                 : t == DT_F64 ? (Number){ .f = o->f }
                               : number_cast(t, DT_F32, (Number){ .f = (float)o->f }));
    return graph_const(r->g, "number", type_new(r->g->ctx, t, 0, NULL), at);
}

/* The operand as a value; a number gets type t, or DT_NONE: its own. */
static ValueId
value_of(GraphParser *r, const ValueOperand *o, DType t)
{
    if (!o->number)
        return o->v;
    return number_const(r, o, t != DT_NONE ? t : o->real ? DT_F32 : DT_I64);
}

static DType
dtype_of(const GraphParser *r, ValueId v)
{
    return r->g->value.at[v].type->dtype;
}

/* At a digit, `inf` or `nan`. Integers have no point and no exponent. */
static bool
read_number(GraphParser *r, ValueOperand *o)
{
    const char *s = r->p.s;

    *o = (ValueOperand){ .number = true, .real = true };
    while (s < r->p.end && isdigit((unsigned char)*s))
        s++;
    if (s > r->p.s && (s == r->p.end || !strchr(".eExX", *s))) {
        o->real = false;
        return parse_int(&r->p, &o->i);
    }
    return parse_number(&r->p, &o->f);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static ValueId
add_one(GraphParser *r, OpKind op, uint32_t n, const ValueId *in, Attrs attrs)
{
    ValueId out;

    for (uint32_t i = 0; i < op_info[op].min_in && i < n; i++)
        if (!in[i])
            return 0;
    OpNode *call = NEW(r->g->arena, OpNode); /* values nest deeply: frames are small */
    *call = (OpNode){ op, attrs, r->loc, r->origin, n, in };
    return graph_infer_op(r->g, call, 1, NULL, &out) ? out : 0;
}

static ValueId
add_pair(GraphParser *r, OpKind op, ValueId a, ValueId b)
{
    const ValueId in[] = { a, b };
    return add_one(r, op, b ? 2 : 1, in, (Attrs){ 0 });
}

static ValueId
add_concat(GraphParser *r, uint32_t n, const ValueId *part)
{
    Attr axis = { .name = sym(r->g->ctx, "axis"), .kind = ATTR_INT };

    return add_one(r, op_form.list, n, part,
                   (Attrs){ arena_copy(r->g->arena, &axis, sizeof axis), 1 });
}

static ValueId
add_cast(GraphParser *r, const ValueOperand *o, DType t)
{
    Attr to = { .name = sym(r->g->ctx, "to"),
                .kind = ATTR_STRING,
                .s = sym(r->g->ctx, dtype_info[t].name) };

    if (o->number || !o->v || dtype_of(r, o->v) == t)
        return value_of(r, o, t);
    return add_one(r, op_form.type, 1, &o->v,
                   (Attrs){ arena_copy(r->g->arena, &to, sizeof to), 1 });
}

/* Numbers among the operands of an operator get the element type of its last value; a condition
 * (bool) counts only if there is no other value. */
static DType
type_of_others(const GraphParser *r, uint32_t n, const ValueOperand *o)
{
    DType t = DT_NONE;

    for (uint32_t i = 0; i < n; i++)
        if (o[i].v && (t == DT_NONE || dtype_of(r, o[i].v) != DT_BOOL))
            t = dtype_of(r, o[i].v);
    return t;
}

bool
read_operator(GraphParser *r, Sym name, uint32_t nout, const char *const *names, ValueId *out)
{
    const Statements *by = r->by;
    OpKind op = by && !strcmp(name, "self") ? by->self : op_named(name, strlen(name));
    VEC(ValueOperand) in = { 0 };
    ValueOperand one;
    OpNode *call = NEW(r->g->arena, OpNode);

    if (op == OP_NONE)
        return parse_error(&r->p, "there is no operator \"%s\"", name);
    if (!parse_expect(&r->p, "("))
        return false;
    while (!parse_peek(&r->p, ")")) {
        one = (ValueOperand){ 0 };
        if ((in.n && !parse_expect(&r->p, ",")) ||
            (!parse_accept(&r->p, "_") && !read_operand(r, &one)))
            return false;
        VEC_PUSH(r->g->arena, &in, one);
    }
    if (!parse_expect(&r->p, ")") || !read_attrs(r, &call->attrs) || !read_origin(r, &call->origin))
        return false;
    while (by && in.n && !in.at[in.n - 1].v && !in.at[in.n - 1].number)
        in.n--;
    DType t = op_has_one_dtype(op) ? type_of_others(r, in.n, in.at) : DT_NONE;
    ValueId *v = NEW_ARRAY(r->g->arena, ValueId, in.n + 1);
    for (uint32_t i = 0; i < in.n; i++) {
        v[i] = value_of(r, &in.at[i], t);
        if (by && !v[i] && i < op_info[op].min_in)
            return false;
    }
    call->op = op;
    call->loc = r->loc;
    if (!call->origin)
        call->origin = r->origin;
    call->nin = in.n;
    call->in = v;
    return graph_infer_op(r->g, call, nout, names, out);
}

/* match(sizes), match(sizes, x.0), match(sizes, x): contents as symbols, each at most dimension 0
 * of x, or the largest one. */
static bool
read_match(GraphParser *r, ValueOperand *o)
{
    const Expr *most[2 * TN_MAX_RANK];
    ValueId x = 0;
    int64_t d = 0;
    bool one = false;
    Sym name;

    if (!parse_expect(&r->p, "(") || !read_operand(r, o) ||
        (parse_accept(&r->p, ",") &&
         (!(name = parse_name(&r->p)) || !read_named(r, name, &x) ||
          ((one = parse_accept(&r->p, ".")) && !parse_int(&r->p, &d)))) ||
        !parse_expect(&r->p, ")"))
        return false;
    const Type *t = x ? r->g->value.at[x].type : NULL;
    if (one && t && (d < 0 || d >= t->rank))
        return parse_error(&r->p, "%s has no dimension %lld", type_str(r->g->ctx, t), (long long)d);
    const Expr *largest = one && t ? t->dim[d] : expr_int(r->g->ctx, 1);
    for (uint32_t i = 0; t && !one && i < t->rank; i++)
        largest = expr_max(r->g->ctx, largest, t->dim[i]);
    for (uint32_t i = 0; t && i < 2 * TN_MAX_RANK; i++)
        most[i] = largest;
    o->v = o->v ? graph_match(r->g, o->v, r->by->like, t ? most : NULL, r->loc, r->origin) : 0;
    return o->v != 0;
}

/* like(x, y): x in the element type of y. f32(x): in this one. iota(n): 0, 1, … below n, which is a
 * number or a list of one. Others are operators. */
static bool
read_call(GraphParser *r, Sym name, ValueOperand *o)
{
    DType t = dtype_from_name(name, strlen(name));
    bool like = !strcmp(name, "like"), iota = !strcmp(name, "iota");
    ValueOperand y = { 0 };

    if (r->by && !strcmp(name, "match"))
        return read_match(r, o);
    *o = (ValueOperand){ 0 };
    if (t == DT_NONE && !like && !iota)
        return read_operator(r, name, 1, NULL, &o->v);
    if (!parse_expect(&r->p, "(") || !read_operand(r, o) ||
        (like && (!parse_expect(&r->p, ",") || !read_operand(r, &y))) || !parse_expect(&r->p, ")"))
        return false;
    if (like && !y.v)
        return false;
    if (iota) {
        const ValueId in[] = { number_const(r, &(ValueOperand){ .number = true }, DT_I64),
                               add_pair(r, op_form.number, value_of(r, o, DT_NONE), 0),
                               number_const(r, &(ValueOperand){ .number = true, .i = 1 }, DT_I64) };
        *o = (ValueOperand){ .v = add_one(r, op_form.range, 3, in, (Attrs){ 0 }) };
    } else {
        *o = (ValueOperand){ .v = add_cast(r, o, like ? dtype_of(r, y.v) : t) };
    }
    return o->v != 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct {
    VEC(ValueOperand) run; /* consecutive numbers */
    VEC(ValueId) part;     /* lists of i64 */
} ListText;

static void
end_run(GraphParser *r, ListText *l)
{
    const Expr *n = expr_int(r->g->ctx, l->run.n);
    bool real = false;

    for (uint32_t i = 0; i < l->run.n; i++)
        real |= l->run.at[i].real;
    DType t = real ? DT_F32 : DT_I64;
    void *at = arena_alloc(r->g->arena, (size_t)(l->run.n + 1) * dtype_info[t].bytes);
    for (uint32_t i = 0; i < l->run.n; i++)
        number_store(t, at, i,
                     l->run.at[i].real ? (Number){ .f = (float)l->run.at[i].f }
                                       : number_cast(t, DT_I64, (Number){ .i = l->run.at[i].i }));
    VEC_PUSH(r->g->arena, &l->part, graph_const(r->g, "list", type_new(r->g->ctx, t, 1, &n), at));
    l->run.n = 0;
}

static bool
read_list(GraphParser *r, ValueOperand *o)
{
    ListText l = { 0 };

    for (bool first = true; !parse_peek(&r->p, "]"); first = false) {
        if ((!first && !parse_expect(&r->p, ",")) || !read_operand(r, o))
            return false;
        if (o->number) {
            VEC_PUSH(r->g->arena, &l.run, *o);
            continue;
        }
        if (!o->v)
            return false;
        if (l.run.n)
            end_run(r, &l);
        VEC_PUSH(r->g->arena, &l.part, o->v);
    }
    if (l.run.n || !l.part.n)
        end_run(r, &l);
    *o = (ValueOperand){ .v = l.part.n == 1 ? l.part.at[0] : add_concat(r, l.part.n, l.part.at) };
    return o->v && parse_expect(&r->p, "]");
}

/* ---- expressions ----------------------------------------------------------------------------- */

static bool
read_text(GraphParser *r, ValueOperand *o)
{
    const char *s;

    if (!parse_string(&r->p, &s))
        return false;
    Sym word = sym(r->g->ctx, s);
    *o = (ValueOperand){ .v = graph_const(r->g, "text", type_new(r->g->ctx, DT_STR, 0, NULL),
                                          arena_copy(r->g->arena, &word, sizeof word)) };
    return true;
}

static bool
read_inner(GraphParser *r, ValueOperand *o)
{
    if (parse_accept(&r->p, "["))
        return read_list(r, o);
    if (parse_accept(&r->p, "("))
        return read_operand(r, o) && parse_expect(&r->p, ")");
    if (parse_peek(&r->p, "\""))
        return read_text(r, o);
    if (parse_peek(&r->p, "inf") || parse_peek(&r->p, "nan") ||
        (r->p.s < r->p.end && isdigit((unsigned char)*r->p.s)))
        return read_number(r, o);
    *o = (ValueOperand){ 0 };
    if (!r->by && parse_peek(&r->p, "%"))
        return read_use(r, &o->v);
    Sym name = parse_name(&r->p);
    if (!name)
        return false;
    if (!r->by || parse_peek(&r->p, "("))
        return read_call(r, name, o);
    return read_named(r, name, &o->v);
}

/* An operand with its signs and subscripts: -x, !x, x[1], which is a list of one element. A list
 * after white space is not a subscript. */
static bool
read_signed(GraphParser *r, ValueOperand *o)
{
    bool minus = parse_accept(&r->p, "-"), negated = !minus && parse_accept(&r->p, "!");
    int64_t at;

    if (++r->deep > depth_levels(r->p.ctx))
        return parse_too_deep(&r->p, "a value is", depth_levels(r->p.ctx));
    if (minus || negated ? !read_signed(r, o) : !read_inner(r, o))
        return false;
    r->deep--;
    if (minus && o->number) {
        o->i = (int64_t)(0 - (uint64_t)o->i);
        o->f = -o->f;
        return true;
    }
    if (minus || negated) {
        *o = (ValueOperand){ .v = add_pair(r, minus ? op_form.minus : op_form.negation,
                                           value_of(r, o, DT_NONE), 0) };
        return o->v != 0;
    }
    while (!o->number && parse_peek(&r->p, "[") && !isspace((unsigned char)r->p.s[-1])) {
        r->p.s++;
        if (!parse_int(&r->p, &at) || !parse_expect(&r->p, "]"))
            return false;
        ListText l = { 0 };
        VEC_PUSH(r->g->arena, &l.run, ((ValueOperand){ .number = true, .i = at }));
        end_run(r, &l);
        *o = (ValueOperand){ .v = add_pair(r, op_form.element, o->v, l.part.at[0]) };
        if (!o->v)
            return false;
    }
    return true;
}

/* The sign of a binary operator at the cursor; NULL: none. */
static const OpSign *
sign_ahead(GraphParser *r)
{
    if (!parse_end(&r->p))
        for (int i = 0; i < OP_SIGNS; i++)
            if (*r->p.s == *op_sign[i].sign && parse_peek(&r->p, op_sign[i].sign))
                return &op_sign[i];
    return NULL;
}

/* Operands joined by operators of this precedence or tighter, left-associative. */
static bool
read_level(GraphParser *r, ValueOperand *o, int level)
{
    const OpSign *sign;

    if (!read_signed(r, o))
        return false;
    while ((sign = sign_ahead(r)) && sign->level >= level) {
        ValueOperand both[2] = { *o, { 0 } };
        parse_accept(&r->p, sign->sign);
        if (!read_level(r, &both[1], sign->level + 1))
            return false;
        DType t = type_of_others(r, 2, both);
        ValueId a = value_of(r, &both[0], t), b = value_of(r, &both[1], t);
        *o = (ValueOperand){ .v = a && b ? add_pair(r, sign->op, a, b) : 0 };
        if (!o->v)
            return false;
    }
    return true;
}

static bool
read_operand(GraphParser *r, ValueOperand *o)
{
    return read_level(r, o, 0);
}

bool
read_value(GraphParser *r, ValueId *v)
{
    ValueOperand o;

    if (!read_operand(r, &o))
        return false;
    *v = value_of(r, &o, DT_NONE);
    return true;
}

/* ---- demands --------------------------------------------------------------------------------- */

bool
graph_demand(Graph *g, ValueId ok, const char *like, const char *why, Loc loc, Sym origin)
{
    Ctx *c = g->ctx;
    const Expr *yes = expr_int(c, 1), *known;
    GraphParser r = { .g = g, .loc = loc, .origin = origin };
    ListText shape = { 0 };

    VEC_PUSH(g->arena, &shape.run, ((ValueOperand){ .number = true, .i = -1 }));
    end_run(&r, &shape);
    ok = ok ? add_pair(&r, op_form.as_shape, ok, shape.part.at[0]) : 0;
    ok = ok ? add_cast(&r, &(ValueOperand){ .v = ok }, DT_I64) : 0;
    if (ok && !g->value.at[ok].known.at)
        ok = graph_match(g, ok, like, &yes, loc, origin);
    if (!ok)
        return false;
    known = g->value.at[ok].known.at[0];
    if (expr_eq(c, NULL, known, yes) == NO)
        return diag_error(&c->diags, DIAG_MODEL, loc, "%s", why);
    if (expr_eq(c, NULL, known, yes) == YES)
        return true;
    const Constraint needed = { known, yes, arena_printf(c->arena, "%s: %s", origin, why), "" };
    /* not assumed to hold: otherwise the symbol's own range would fail first */
    VEC_PUSH(c->arena, &g->constraints, needed);
    return true;
}
