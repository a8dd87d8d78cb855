/* resize: nearest and linear, in exact rational arithmetic.
 *
 * Along an axis of n elements resized to m, output point i reads coordinate num / den of the input,
 * both integer expressions: asymmetric gives i*q / p for the scale p/q, half_pixel ((2i+1)*q - p) / 2p.
 * Nearest then is one floor division, which is i // s for the usual scales, and linear takes the
 * remainder as its weight; nothing depends on rounding of coordinates.
 */
#include "op/internal.h"

#include <math.h>
#include <string.h>

/* One axis: p/q is the scale; p is NULL where the axis keeps its size. */
typedef struct { const Expr *p, *q, *extent; } Scale;

enum { MAX_DENOMINATOR = 4096 };

/* The simplest fraction within 1e-6 of v, by continued fractions. */
static bool
fraction(double v, int64_t *p, int64_t *q)
{
    int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
    double rest = v;

    for (int step = 0; step < 32; step++) {
        double whole = floor(rest);
        if (!(whole < 1e9))
            return false;
        int64_t p2 = (int64_t)whole * p1 + p0, q2 = (int64_t)whole * q1 + q0;
        if (q2 > MAX_DENOMINATOR)
            return false;
        p0 = p1, q0 = q1, p1 = p2, q1 = q2;
        if (fabs((double)p1 / (double)q1 - v) <= 1e-6 * v)
            break;
        rest = 1 / (rest - whole);
    }
    *p = p1;
    *q = q1;
    return p1 > 0;
}

/* Which axes of x the scales or sizes speak of, in their order. */
static bool
resized_axes(Ctx *c, const OpCall *call, uint32_t *axis, uint32_t *n)
{
    const Attr *axes = attr_find(call->attrs, "axes");
    uint32_t rank = call->in[0]->rank;

    *n = axes ? axes->n : rank;
    if (*n > rank)
        return op_fail(c, call, DIAG_MODEL, "attribute \"axes\" has %u entries, input 0 is %s", *n, type_str(c, call->in[0]));
    for (uint32_t i = 0; i < *n; i++) {
        axis[i] = i;
        if (axes && !op_axis(c, call, "an entry of axes", axes->ints[i], rank, &axis[i]))
            return false;
    }
    return true;
}

static bool
scale_axis(Ctx *c, const OpCall *call, uint32_t d, double v, Scale *s)
{
    const Expr *dim = call->in[0]->dim[d];
    int64_t p, q, n;

    if (v == 1)
        return true;
    if (!(v > 0) || !fraction(v, &p, &q))
        return op_fail(c, call, DIAG_UNSUPPORTED, "the scale of axis %u is %g, which is no simple fraction", d, v);
    *s = (Scale){ expr_int(c, p), expr_int(c, q), expr_div(c, expr_scale(c, dim, p), expr_int(c, q)) };
    if (expr_const(dim, &n))         /* as the standard computes it, rounding of the float and all */
        s->extent = expr_int(c, (int64_t)floor((double)n * v));
    return true;
}

/* Scales from data: for each axis a numerator over RESIZE_RATIO, then for each the extent. */
static bool
read_ratios(Ctx *c, const OpCall *call, uint32_t naxis, const uint32_t *axis, Scale *s)
{
    Known given;

    if (!op_param(c, call, 2, "scales", &given))
        return false;
    if (given.n != 2 * naxis)
        return op_fail(c, call, DIAG_MODEL, "input 2 (scales as ratios) has %u elements for %u axes", given.n, naxis);
    for (uint32_t i = 0; i < naxis; i++)
        s[axis[i]] = (Scale){ given.at[i], expr_int(c, RESIZE_RATIO), given.at[naxis + i] };
    return true;
}

static bool
read_scales(Ctx *c, const OpCall *call, Scale *s)
{
    const Type *x = call->in[0];
    uint32_t axis[TN_MAX_RANK], naxis, n;
    double v[TN_MAX_RANK];
    Known sizes;

    memset(s, 0, x->rank * sizeof *s);
    if (!op_string_is(call, "keep_aspect_ratio_policy", "stretch") || op_int(call, "antialias"))
        return op_fail(c, call, DIAG_UNSUPPORTED, "keep_aspect_ratio_policy other than stretch, and antialias, are not supported");
    if (!resized_axes(c, call, axis, &naxis))
        return false;
    if (has_in(call, 3)) {
        if (!op_param(c, call, 3, "sizes", &sizes))
            return false;
        if (sizes.n != naxis)
            return op_fail(c, call, DIAG_MODEL, "input 3 (sizes) has %u elements for %u axes", sizes.n, naxis);
        for (uint32_t i = 0; i < naxis; i++)
            if (expr_eq(c, NULL, sizes.at[i], x->dim[axis[i]]) != YES)
                s[axis[i]] = (Scale){ sizes.at[i], x->dim[axis[i]], sizes.at[i] };
        return true;
    }
    if (!has_in(call, 2))
        return op_fail(c, call, DIAG_MODEL, "neither scales nor sizes are given");
    if (dtype_is_int(call->in[2]->dtype))
        return read_ratios(c, call, naxis, axis, s);
    if (!op_param_floats(c, call, 2, "scales", TN_MAX_RANK, v, &n))
        return false;
    if (n != naxis)
        return op_fail(c, call, DIAG_MODEL, "input 2 (scales) has %u elements for %u axes", n, naxis);
    for (uint32_t i = 0; i < naxis; i++)
        if (!scale_axis(c, call, axis[i], v[i], &s[axis[i]]))
            return false;
    return true;
}

bool
infer_resize(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Scale s[TN_MAX_RANK];

    if (!read_scales(c, call, s))
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = s[d].p ? s[d].extent : x->dim[d];
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

/* ---- meaning ------------------------------------------------------------------------------------------------ */

typedef struct { const Expr *num, *den; } Coordinate;

static bool
coordinate(Ctx *c, const OpCall *call, const Scale *s, const Expr *in, const Expr *i, Coordinate *out)
{
    const char *mode = op_string(c, call, "coordinate_transformation_mode");
    const Expr *one = expr_int(c, 1);

    if (strcmp(mode, "asymmetric") == 0) {
        *out = (Coordinate){ expr_mul(c, i, s->q), s->p };
    } else if (strcmp(mode, "align_corners") == 0) {
        /* the resized length is in * p/q, which need not be whole; with sizes given q is in */
        bool whole = expr_eq(c, NULL, s->q, in) == YES;
        const Expr *num = expr_mul(c, i, expr_offset(c, in, -1));
        const Expr *den = whole ? expr_offset(c, s->p, -1) : expr_sub(c, expr_mul(c, in, s->p), s->q);
        *out = (Coordinate){ whole ? num : expr_mul(c, num, s->q), expr_max(c, one, den) };
    } else if (strcmp(mode, "half_pixel") == 0 || strcmp(mode, "pytorch_half_pixel") == 0) {
        const Expr *centre = expr_mul(c, expr_offset(c, expr_scale(c, i, 2), 1), s->q);
        *out = (Coordinate){ expr_sub(c, centre, s->p), expr_scale(c, s->p, 2) };
        if (mode[0] == 'p')              /* 0 where there is but one point */
            out->num = expr_mul(c, out->num, expr_min(c, expr_offset(c, s->extent, -1), one));
    } else if (strcmp(mode, "half_pixel_symmetric") == 0) {
        const Expr *centre = expr_mul(c, expr_offset(c, expr_scale(c, i, 2), 1), s->q);
        const Expr *shift = expr_sub(c, expr_mul(c, in, s->p), expr_mul(c, s->extent, s->q));
        *out = (Coordinate){ expr_sub(c, expr_add(c, centre, shift), s->p), expr_scale(c, s->p, 2) };
    } else {
        return op_fail(c, call, DIAG_UNSUPPORTED, "coordinate_transformation_mode is \"%s\"; half_pixel, "
                       "half_pixel_symmetric, pytorch_half_pixel, asymmetric and align_corners are supported", mode);
    }
    return true;
}

static const Expr *
clamp(Ctx *c, const Ranges *r, const Expr *e, const Expr *n)
{
    e = expr_max(c, expr_int(c, 0), expr_min(c, e, expr_offset(c, n, -1)));
    return expr_simplify(c, r, e);
}

/* num / den to the nearest integer; halves as the mode says. */
static bool
nearest(Ctx *c, const OpCall *call, Coordinate x, const Expr **out)
{
    const char *mode = op_string(c, call, "nearest_mode");
    const Expr *twice = expr_scale(c, x.num, 2), *den2 = expr_scale(c, x.den, 2);

    if (strcmp(mode, "floor") == 0)
        *out = expr_div(c, x.num, x.den);
    else if (strcmp(mode, "ceil") == 0)
        *out = expr_ceil_div(c, x.num, x.den);
    else if (strcmp(mode, "round_prefer_floor") == 0)
        *out = expr_div(c, expr_offset(c, expr_add(c, twice, x.den), -1), den2);
    else if (strcmp(mode, "round_prefer_ceil") == 0)
        *out = expr_div(c, expr_add(c, twice, x.den), den2);
    else
        return op_fail(c, call, DIAG_MODEL, "nearest_mode is \"%s\"; round_prefer_floor, round_prefer_ceil, floor and ceil exist", mode);
    return true;
}

/* Linear interpolation along axes d.. of x at `at`, whose earlier entries are chosen. */
typedef struct { Making *m; const Type *x; const Scale *s; const Coordinate *coord; const Expr *const *axis; Ranges ranges; } Linear;

static const Scalar *
interpolate(const Linear *l, uint32_t d, const Expr **at)
{
    Ctx *c = l->m->b->c;

    if (d == l->x->rank)
        return make_load(l->m, 0, at);
    if (!l->s[d].p) {
        at[d] = l->axis[d];
        return interpolate(l, d + 1, at);
    }
    const Coordinate *x = &l->coord[d];
    const Expr *low = expr_div(c, x->num, x->den);
    at[d] = clamp(c, &l->ranges, low, l->x->dim[d]);
    const Scalar *a = interpolate(l, d + 1, at);
    at[d] = clamp(c, &l->ranges, expr_offset(c, low, 1), l->x->dim[d]);
    const Scalar *b = interpolate(l, d + 1, at);
    DType t = (DType)a->dtype;
    const Expr *rest = expr_simplify(c, &l->ranges, expr_mod(c, x->num, x->den));
    const Scalar *w = scalar_2(c, S_DIV, number_of(c, t, rest), number_of(c, t, x->den));
    const Scalar *kept = scalar_2(c, S_SUB, scalar_number(c, t, 1), w);
    return scalar_2(c, S_ADD, scalar_2(c, S_MUL, a, kept), scalar_2(c, S_MUL, b, w));
}

bool
expand_resize(Build *b)
{
    Ctx *c = b->c;
    const OpCall *call = b->call;
    const Type *x = call->in[0];
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    Range range[TN_MAX_RANK];
    Coordinate coord[TN_MAX_RANK];
    Scale s[TN_MAX_RANK];
    bool linear = op_string_is(call, "mode", "linear");
    Making m = make_begin(b, NULL);

    if (!linear && !op_string_is(call, "mode", "nearest"))
        return op_fail(c, call, DIAG_UNSUPPORTED, "mode is \"%s\"; nearest and linear are supported", op_string(c, call, "mode"));
    if (linear && !dtype_is_float(x->dtype))
        return op_fail(c, call, DIAG_UNSUPPORTED, "mode is linear and input 0 is %s; floats are supported", type_str(c, x));
    if (!read_scales(c, call, s))
        return false;
    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    for (uint32_t d = 0; d < x->rank; d++) {
        Var v = { 0 };
        expr_is_var(axis[d], &v);
        range[d] = (Range){ v, expr_int(c, 0), b->out[0]->dim[d] };
        at[d] = axis[d];
        if (s[d].p && !coordinate(c, call, &s[d], x->dim[d], axis[d], &coord[d]))
            return false;
        if (s[d].p && !linear && !nearest(c, call, coord[d], &at[d]))
            return false;
    }
    Linear l = { &m, x, s, coord, axis, { range, x->rank } };
    for (uint32_t d = 0; !linear && d < x->rank; d++)
        if (s[d].p)
            at[d] = clamp(c, &l.ranges, expr_simplify(c, &l.ranges, at[d]), x->dim[d]);
    return make_finish(&m, axis, linear ? interpolate(&l, 0, at) : nest_load(&m.nb, 0, at));
}
