/* pair: products of integers, two summands at a time.
 *
 * Processors multiply pairs of 16-bit numbers and sum each pair in one step. A sum of products of numbers that
 * fit in 16 bits, over an even count, is rewritten for it:
 *
 *     sum k < 2*n: a[i, k] * b[k, j]     becomes     sum k < n: dot2(pair(a[i, 2*k], a[i, 2*k + 1]), pair(b[2*k, j], b[2*k + 1, j]))
 *
 * where pair(x, y) is x in the low half of 32 bits and y in the high one. It is a product of two factors like any other,
 * so tiles, panels and copies are made of pairs. Sums of integers wrap, so regrouping them changes no bit.
 */
#include "nest/walk.h"

bool
scalar_int_range(const Scalar *s, int64_t *least, int64_t *most)
{
    int64_t a, b, c, d;

    if (dtype_is_float(s->dtype) || dtype_info[s->dtype].bytes > 4)
        return false;
    switch ((ScalarOp)s->op) {
    case S_CONST:
        *least = *most = s->u.bits;
        return true;
    case S_CAST:
        if (!dtype_is_float(s->arg[0]->dtype) && scalar_int_range(s->arg[0], least, most))
            return true;                             /* and if the type is narrower: below */
        break;
    case S_ADD: case S_SUB:
        if (!scalar_int_range(s->arg[0], &a, &b) || !scalar_int_range(s->arg[1], &c, &d))
            return false;
        *least = s->op == S_ADD ? a + c : a - d;
        *most = s->op == S_ADD ? b + d : b - c;
        return *least >= INT32_MIN && *most <= INT32_MAX;
    default:
        break;
    }
    int bits = dtype_info[s->dtype].bits;
    bool sign = dtype_info[s->dtype].kind == KIND_INT;
    *least = sign ? -(INT64_C(1) << (bits - 1)) : 0;
    *most = (INT64_C(1) << (sign ? bits - 1 : bits)) - 1;
    return bits < 32;
}

static bool
fits(const Scalar *s)
{
    int64_t least, most;

    return scalar_int_range(s, &least, &most) && least >= INT16_MIN && most <= INT16_MAX;
}

const Scalar *
scalar_pack(Ctx *c, const Scalar *factor, uint32_t axis, int count)
{
    const Expr *first = expr_scale(c, expr_axis(c, axis), count);
    const Scalar *packed = NULL;

    for (int i = 0; i < count; i++) {
        Binding summand = { { VAR_AXIS, axis }, expr_offset(c, first, i) };
        const Scalar *x = scalar_subst(c, factor, &summand, 1);
        if (i < count - 1)
            x = scalar_2(c, S_AND, x, scalar_int(c, DT_I32, (INT64_C(1) << 32 / count) - 1));
        if (i)
            x = scalar_2(c, S_SHL, x, scalar_int(c, DT_I32, 32 / count * i));
        packed = packed ? scalar_2(c, S_OR, packed, x) : x;
    }
    return packed;
}

uint32_t
nest_axis_in(const Nest *n, AxisSet sum, int64_t count)
{
    uint32_t found = NO_SLOT;

    for (uint32_t k = 0; k < n->naxis; k++)
        if (sum >> k & 1 && expr_is(n->axis[k].begin, 0) && expr_or(n->axis[k].extent, 1) % count == 0)
            found = k;
    return found;
}

const Nest *
nest_pair_products(Ctx *c, const Nest *n)
{
    Contraction view;

    if (n->nwrite != 1 || !nest_contraction(c, n, &view) || !view.row || !view.col || view.reduce->dtype != DT_I32 ||
        view.reduce->arg[0]->op != S_MUL)
        return n;
    uint32_t axis = nest_axis_in(n, view.sum, 2);
    if (axis == NO_SLOT || !fits(view.a) || !fits(view.b))
        return n;
    NestEdit e = nest_edit(c, n, 0, 0);
    const Scalar *body = scalar_2(c, S_DOT2, scalar_pack(c, view.a, axis, 2), scalar_pack(c, view.b, axis, 2));
    ScalarMap m = { .ctx = c, .done = { .arena = e.scratch } };
    map_put(&m.done, MAP_PTR(view.reduce), MAP_PTR(scalar_reduce(c, COMB_SUM, view.reduce->u.reduce.axes, &body, 1)));
    e.axis[axis].extent = expr_int(c, expr_or(n->axis[axis].extent, 0) / 2);
    e.write[0].value = scalar_map(&m, n->write[0].value);
    return nest_edit_done(c, &e);
}
