/* dot2: products of 16-bit numbers, two summands at a time.
 *
 * Processors have dot-product instructions over pairs of 16-bit integers, or of bf16. A sum of
 * products of integers that fit in 16 bits is rewritten for them:
 *
 *     sum k < 2*n: a[i, k] * b[k, j]
 *
 * becomes
 *
 *     sum k < n: dot2(pair(a[i, 2*k], a[i, 2*k + 1]), pair(b[2*k, j], b[2*k + 1, j]))
 *
 * where pair(x, y) has x in the low half of 32 bits and y in the high one. It is a product of two
 * factors like any other, so tiles, panels and copies work on pairs. After an odd count one factor
 * is 0. Sums of integers wrap, so regrouping them changes no bit. For bf16, whose sum is f32,
 * pair(x, y) and dot2f are operations of their own; each product is exact.
 */
#include "algebra/internal.h"

bool
scalar_int_range(const Scalar *s, int64_t *least, int64_t *most)
{
    int64_t a, b, c, d;

    if (dtype_is_float(s->dtype) || dtype_info[s->dtype].bytes > 4)
        return false;
    switch ((ScalarOp)s->op) {
    case S_CONST: *least = *most = s->u.bits; return true;
    case S_CAST:
        if (!dtype_is_float(s->arg[0]->dtype) && scalar_int_range(s->arg[0], least, most))
            return true; /* and if the type is narrower: below */
        break;
    case S_AND:
        *least = 0;
        *most = s->arg[1]->op == S_CONST ? s->arg[1]->u.bits : -1;
        if (*most >= 0)
            return true;
        break;
    case S_ADD:
    case S_SUB:
        if (!scalar_int_range(s->arg[0], &a, &b) || !scalar_int_range(s->arg[1], &c, &d))
            return false;
        *least = s->op == S_ADD ? a + c : a - d;
        *most = s->op == S_ADD ? b + d : b - c;
        return *least >= INT32_MIN && *most <= INT32_MAX;
    default: break;
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

/* The shift in and(shr(word, shift), bits); NULL: another expression. */
static const Expr *
place_in_word(const Scalar *x)
{
    const Scalar *shift = x->op == S_AND && x->arg[0]->op == S_SHR && x->arg[1]->op == S_CONST
                              ? x->arg[0]->arg[1]
                              : NULL;

    if (shift && shift->op == S_CAST)
        shift = shift->arg[0];
    return shift && shift->op == S_INDEX ? shift->u.index : NULL;
}

/* Numbers at the same distance within one word as in the packed one, as and(shr(word, shift),
 * 0x0f0f0f0f); NULL: they are not. */
static const Scalar *
packed_already(Ctx *c, const Scalar *const *x, int count)
{
    const Expr *first = place_in_word(x[0]);
    int64_t bits = first ? x[0]->arg[1]->u.bits : 0, all = 0;

    if (!first || bits >> 32 / count)
        return NULL;
    for (int i = 0; i < count; i++) {
        const Expr *place = place_in_word(x[i]);
        if (!place || x[i]->arg[0]->arg[0] != x[0]->arg[0]->arg[0] ||
            x[i]->arg[1] != x[0]->arg[1] || place != expr_offset(c, first, 32 / count * i))
            return NULL;
        all |= bits << 32 / count * i;
    }
    return scalar_2(c, S_AND, x[0]->arg[0], scalar_int(c, DT_I32, all));
}

/* The factor at `count` summands in turn, along an axis of `extent`. After the last it is 0, or,
 * with `beyond`, anything. */
static void
summands(Ctx *c, const Scalar *factor, uint32_t axis, int64_t extent, int count, bool beyond,
         const Scalar **point)
{
    const Expr *first = expr_scale(c, expr_axis(c, axis), count), *last = expr_int(c, extent - 1);

    for (int i = 0; i < count; i++) {
        bool inside = i < extent % count || extent % count == 0;
        const Expr *at = expr_offset(c, first, i);
        Binding summand = { { VAR_AXIS, axis }, inside ? at : expr_min(c, at, last) };
        point[i] = scalar_subst(c, factor, &summand, 1);
        if (!inside && !beyond)
            point[i] =
                scalar_select(c, scalar_2(c, S_LE, scalar_index(c, at), scalar_index(c, last)),
                              point[i], scalar_number(c, factor->dtype, 0));
    }
}

const Scalar *
scalar_pack(Ctx *c, const Scalar *factor, uint32_t axis, int64_t extent, int count, bool beyond)
{
    const Scalar *point[4], *packed;

    summands(c, factor, axis, extent, count, beyond, point);
    packed = packed_already(c, point, count);
    if (packed)
        return packed;
    for (int i = 0; i < count; i++) {
        const Scalar *x = point[i];
        if (i < count - 1)
            x = scalar_2(c, S_AND, x, scalar_int(c, DT_I32, (INT64_C(1) << 32 / count) - 1));
        if (i)
            x = scalar_2(c, S_SHL, x, scalar_int(c, DT_I32, 32 / count * i));
        packed = packed ? scalar_2(c, S_OR, packed, x) : x;
    }
    return packed;
}

/* The axes that share an index of some read with others, as windows do. */
static AxisSet
mixed_axes(Ctx *c, const Scalar *factor)
{
    AxisSet mixed = 0;

    FOR_EACH_SCALAR (load, scalar_loads(c, factor))
        for (uint32_t d = 0; d < load->u.load.rank; d++)
            if (!expr_is_var(load->u.load.at[d], NULL))
                mixed |= expr_axes(load->u.load.at[d]);
    return mixed;
}

uint32_t
nest_packed_axis(Ctx *c, const Nest *n, const Contraction *view, int64_t count, int64_t *extent)
{
    uint32_t found = NO_SLOT;
    AxisSet mixed = mixed_axes(c, view->a) | mixed_axes(c, view->b);
    double least = 1;

    for (uint32_t k = 0; k < n->naxis; k++) {
        int64_t e = view->sum & ~mixed & axis_one(k) ? expr_or(n->axis[k].extent, 0) : 0;
        double steps = e > 1 ? (double)((e + count - 1) / count) / (double)e : 1;
        if (steps >= 1 || steps > least)
            continue;
        least = steps;
        *extent = e;
        found = k;
    }
    return found;
}

/* The pairs of a factor of a sum of f32: one of bf16, widened. Both factors are 0 after the last:
 * an infinity times 0 is a NaN. */
static const Scalar *
pairs_of_floats(Ctx *c, const Scalar *factor, uint32_t axis, int64_t extent)
{
    const Scalar *point[2];

    if (factor->op != S_CAST || factor->arg[0]->dtype != DT_BF16)
        return NULL;
    summands(c, factor->arg[0], axis, extent, 2, false, point);
    return scalar_2(c, S_PAIR, point[0], point[1]);
}

static const Scalar *
pairs_of_integers(Ctx *c, const Scalar *factor, uint32_t axis, int64_t extent, bool beyond)
{
    return fits(factor) ? scalar_pack(c, factor, axis, extent, 2, beyond) : NULL;
}

const Nest *
nest_dot2_products(Ctx *c, const Nest *n, bool integers, bool floats)
{
    Contraction view;

    if (n->nwrite != 1 || !nest_contraction(c, n, &view) || !(view.row | view.col) ||
        view.reduce->arg[0]->op != S_MUL)
        return n;
    integers = integers && view.reduce->dtype == DT_I32;
    floats = floats && view.reduce->dtype == DT_F32;
    if (!integers && !floats)
        return n;
    int64_t extent;
    uint32_t axis = nest_packed_axis(c, n, &view, 2, &extent);
    if (axis == NO_SLOT)
        return n;
    const Scalar *a = floats ? pairs_of_floats(c, view.a, axis, extent)
                             : pairs_of_integers(c, view.a, axis, extent, true);
    const Scalar *b = floats ? pairs_of_floats(c, view.b, axis, extent)
                             : pairs_of_integers(c, view.b, axis, extent, false);
    if (!a || !b)
        return n;
    NestEdit e = nest_edit(c, n, 0, 0);
    const Scalar *body = scalar_2(c, floats ? S_DOT2F : S_DOT2, a, b);
    const Scalar *sum = scalar_reduce(c, COMB_SUM, view.reduce->u.reduce.axes, &body, 1);
    e.axis[axis].extent = expr_int(c, (extent + 1) / 2);
    e.write[0].value = scalar_replace(c, n->write[0].value, view.reduce, sum);
    return nest_edit_done(c, &e);
}
