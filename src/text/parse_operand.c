/* parse_operand: the operands of a scalar's text, and operations on them.
 *
 * A number gets its type from its neighbour: it stays an untyped double or integer through
 * arithmetic with other numbers, and becomes a constant when it meets a typed value
 * (operand_settle).
 */
#include "text/parser.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

const Scalar *
operand_settle(Scope *s, const Operand *v, DType t)
{
    if (v->s)
        return v->s;
    const Scalar *k = NULL;
    if (t == DT_NONE) {
        parse_error(s->p, "nothing tells the type of the number %g: write it as f32(%g)", v->f,
                    v->f);
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

Operand
operand_plain(double f)
{
    return (Operand){ .f = f, .lanes = 1 };
}

static Operand
plain_integer(int64_t i)
{
    return (Operand){ .f = (double)i, .i = i, .integer = true, .lanes = 1 };
}

bool
operand_set(Operand *v, const Scalar *s)
{
    *v = (Operand){ .s = s };
    return s != NULL;
}

bool
operand_number(Scope *s, Operand *v)
{
    Parse *p = s->p;
    size_t n = 0;
    while (p->s + n < p->end && isdigit((unsigned char)p->s[n]))
        n++;
    char next = p->s + n < p->end ? p->s[n] : 0;
    bool integer = n > 0 && n < 20 && next != '.' && next != 'e' && next != 'E' && next != 'x' &&
                   next != 'X' && next != 'p';
    if (!integer) {
        *v = operand_plain(0);
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

/* Operations on untyped numbers: in double, except that integers stay exact under + - *. */
static bool
number_operation(Scope *s, ScalarOp op, const Operand *a, uint32_t n, Operand *v)
{
    Number x = { .f = a[0].f }, y = { .f = n > 1 ? a[1].f : 0 }, r;
    bool whole = a[0].integer && (n < 2 || a[1].integer),
         of_bits = op == S_NOT || (op >= S_AND && op <= S_PAIR);
    int64_t i;
    uint32_t lanes = a[0].lanes;
    if (whole && ((op == S_ADD && !add_overflows(a[0].i, a[1].i, &i)) ||
                  (op == S_MUL && !mul_overflows(a[0].i, a[1].i, &i)) ||
                  (op == S_SUB && !__builtin_sub_overflow(a[0].i, a[1].i, &i)))) {
        *v = plain_integer(i);
    } else if (op == S_NEG && whole) {
        *v = plain_integer((int64_t)(0 - (uint64_t)a[0].i));
        v->f = -a[0].f;
    } else if (op >= S_EQ && op <= S_GE) {
        return operand_set(
            v, number_op(op, DT_F64, x, y, y, &r) ? scalar_int(s->p->ctx, DT_BOOL, r.i) : NULL);
    } else if (!of_bits && number_op(op, DT_F64, x, y, y, &r) && op != S_ISNAN && op != S_ISINF) {
        *v = operand_plain(r.f);
    } else {
        return parse_error(&s->mark, "`%s` needs a value with a type: write %s(…) around a number",
                           scalar_op_info[op].text,
                           op == S_PAIR ? "bf16"
                           : of_bits    ? "i32"
                                        : "f32");
    }
    v->lanes = lanes;
    return true;
}

/* Gives every operand the common type. */
bool
operands_agree(Scope *s, const char *what, Operand *a, uint32_t n, const Scalar **out)
{
    DType t = DT_NONE;
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!a[i].s)
            continue;
        if (a[i].tuple)
            return parse_error(&s->mark, "`%s` of a tuple: take an item with .0 or .1", what);
        if (t != DT_NONE && t != (DType)a[i].s->dtype)
            return parse_error(&s->mark, "`%s` of %s and %s: convert one, %s(…)", what,
                               dtype_info[t].name, dtype_info[a[i].s->dtype].name,
                               dtype_info[t].name);
        t = a[i].s->dtype;
        lanes = a[i].s->lanes;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = operand_settle(s, &a[i], t != DT_NONE ? t : s->hint);
        if (!out[i])
            return false;
        if (lanes && out[i]->lanes != lanes)
            return parse_error(&s->mark, "`%s` of %u lanes and %u lanes: splat one", what, lanes,
                               out[i]->lanes);
    }
    return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

bool
operand_apply(Scope *s, ScalarOp op, Operand *a, uint32_t n, Operand *v)
{
    const Scalar *arg[2];
    bool numbers = !a[0].s && (n < 2 || !a[1].s);
    if (s->index)
        return index_apply(s, op, a, v);
    if (numbers)
        return number_operation(s, op, a, n, v);
    if (!operands_agree(s, scalar_op_info[op].text, a, n, arg))
        return false;
    bool arithmetic = (op >= S_ADD && op <= S_ATAN2) || op == S_NEG || op == S_ABS ||
                      op == S_SIGN || (op >= S_FLOOR && op <= S_ISINF);
    bool bits = op >= S_AND && op <= S_SHR && op != S_EQ;
    DType t = arg[0]->dtype;
    bool real = op == S_ATAN2 || (op >= S_SQRT && op <= S_SOFTPLUS);
    if ((scalar_is_dot(op) && t != DT_I32) || (op == S_PAIR && t != DT_BF16) ||
        (arithmetic && t == DT_BOOL && op != S_MIN && op != S_MAX) ||
        ((bits || op == S_NOT) && dtype_is_float(t)) || (real && !dtype_is_float(t)))
        return parse_error(&s->mark, "`%s` has no meaning for %s", scalar_op_info[op].text,
                           dtype_info[t].name);
    return operand_set(v, scalar_op(s->p->ctx, op, arg));
}

/* a // b and a % b of indices. */
bool
operand_divide(Scope *s, bool remainder, Operand *a, Operand *v)
{
    const Scalar *arg[2];
    const Expr *x = a[0].e, *y = a[1].e;
    Ctx *c = s->p->ctx;
    if (!s->index) {
        if (!operands_agree(s, remainder ? "%" : "//", a, 2, arg))
            return false;
        if (arg[0]->dtype != DT_I64 || arg[0]->lanes != 1)
            return parse_error(&s->mark,
                               "`//` and `%%` are for indices (i64); use / and mod for %s",
                               dtype_info[arg[0]->dtype].name);
        x = expr_computed(c, arg[0]);
        y = expr_computed(c, arg[1]);
    }
    if (expr_depth(x) >= depth_operations(c))
        return parse_too_deep(s->p, "the operations of a size or an index are",
                              depth_operations(c));
    const Expr *e = remainder ? expr_mod(c, x, y) : expr_div(c, x, y);
    if (!s->index)
        return operand_set(v, scalar_index(c, e));
    *v = (Operand){ .e = e };
    return true;
}

static bool
is_condition(Scope *s, const char *what, const Operand *a)
{
    return (a->s && a->s->dtype == DT_BOOL) ||
           parse_error(&s->mark, "the condition of `%s` is %s, it must be bool", what,
                       a->s ? dtype_info[a->s->dtype].name : "a number");
}

bool
operand_select(Scope *s, Operand *a, Operand *v)
{
    const Scalar *arg[3];
    if (!is_condition(s, "?", &a[0]))
        return false;
    arg[0] = a[0].s;
    if (!operands_agree(s, "?:", a + 1, 2, arg + 1))
        return false;
    if (arg[0]->lanes != arg[1]->lanes)
        return parse_error(&s->mark, "`?` has %u lanes, its values have %u", arg[0]->lanes,
                           arg[1]->lanes);
    return operand_set(v, scalar_op(s->p->ctx, S_SELECT, arg));
}

bool
operand_seen(Scope *s, Operand *a, Operand *v)
{
    const Scalar *value;

    if (!is_condition(s, "seen", &a[0]) || !operands_agree(s, "seen", a + 1, 1, &value))
        return false;
    if (!dtype_is_float(value->dtype))
        return parse_error(&s->mark, "`seen` has no meaning for %s", dtype_info[value->dtype].name);
    return operand_set(v, scalar_2(s->p->ctx, S_SEEN, a[0].s, value));
}
