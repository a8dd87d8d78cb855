/* resize: nearest and linear in exact rational arithmetic; cubic and antialiased axis by axis.
 *
 * Along an axis of n elements resized to m, output point i reads coordinate num / den of the input,
 * both integer expressions: asymmetric gives i*q / p for the scale p/q, half_pixel ((2i+1)*q - p) /
 * 2p. Nearest then is one floor division, which is i // s for the usual scales, and linear takes
 * the remainder as its weight; coordinates are not rounded.
 */
#include "op/build.h"

#include <math.h>
#include <string.h>

/* One axis: p/q is the scale; p is NULL where the axis keeps its size. */
typedef struct {
    const Expr *p, *q, *extent;
} Scale;

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

/* The axes of x that the scales or sizes are for, in their order. */
static bool
resized_axes(Ctx *c, const OpCall *call, uint32_t *axis, uint32_t *n)
{
    const Attr *axes = attr_find(call->attrs, "axes");
    uint32_t rank = call->in[0]->rank;

    *n = axes ? axes->n : rank;
    if (*n > rank)
        return op_fail(c, call, DIAG_MODEL, "attribute \"axes\" has %u entries, input 0 is %s", *n,
                       type_str(c, call->in[0]));
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
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "the scale of axis %u is %g, which is no simple fraction", d, v);
    *s = (Scale){ expr_int(c, p), expr_int(c, q),
                  expr_div(c, expr_scale(c, dim, p), expr_int(c, q)) };
    /* as the standard computes it, in f32: 10 * 0.7 is 7 */
    if (expr_const(dim, &n) && (double)n * v < 0x1p62)
        s->extent = expr_int(c, (int64_t)floorf((float)n * (float)v));
    return true;
}

/* Scales from data: for each axis a numerator over RESIZE_RATIO, then for each the extent. */
static bool
read_ratios(Ctx *c, const OpCall *call, uint32_t naxis, const uint32_t *axis, Scale *s)
{
    Known given;

    if (!op_param_list(c, call, 2, "scales as ratios", 2 * naxis, &given))
        return false;
    for (uint32_t i = 0; i < naxis; i++)
        s[axis[i]] = (Scale){ given.at[i], expr_int(c, RESIZE_RATIO), given.at[naxis + i] };
    return true;
}

/* One scale for all axes, the smallest or the largest of those that the sizes give; extents are
 * rounded. */
static bool
keep_aspect(Ctx *c, const OpCall *call, uint32_t naxis, const uint32_t *axis, Known sizes, Scale *s)
{
    const Type *x = call->in[0];
    const Expr *q = expr_int(c, 1), *p = NULL;
    bool larger = op_string_is(call, "keep_aspect_ratio_policy", "not_smaller");

    for (uint32_t i = 0; i < naxis; i++)
        q = expr_mul(c, q, x->dim[axis[i]]);
    for (uint32_t i = 0; i < naxis; i++) {
        const Expr *one = sizes.at[i];
        for (uint32_t k = 0; k < naxis; k++)
            one = k == i ? one : expr_mul(c, one, x->dim[axis[k]]);
        p = !p ? one : larger ? expr_max(c, p, one) : expr_min(c, p, one);
    }
    for (uint32_t i = 0; i < naxis; i++) {
        const Expr *twice = expr_add(c, expr_scale(c, expr_mul(c, p, x->dim[axis[i]]), 2), q);
        s[axis[i]] =
            (Scale){ p, q, expr_simplify(c, NULL, expr_div(c, twice, expr_scale(c, q, 2))) };
    }
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
    if (!resized_axes(c, call, axis, &naxis))
        return false;
    if (has_in(call, 3)) {
        if (!op_param_list(c, call, 3, "sizes", naxis, &sizes))
            return false;
        if (!op_string_is(call, "keep_aspect_ratio_policy", "stretch"))
            return keep_aspect(c, call, naxis, axis, sizes, s);
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
        return op_fail(c, call, DIAG_MODEL, "input 2 (scales) has %u elements for %u axes", n,
                       naxis);
    for (uint32_t i = 0; i < naxis; i++)
        if (!scale_axis(c, call, axis[i], v[i], &s[axis[i]]))
            return false;
    return true;
}

/* Is a size 0 because the input has 0 elements, as with a scale? */
static bool
nothing_stays(Ctx *c, const Expr *size, const Expr *from)
{
    Var v;
    return expr_is_var(from, &v) &&
           expr_is(expr_subst(c, size, &(Binding){ v, expr_int(c, 0) }, 1), 0);
}

bool
infer_resize(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Scale s[TN_MAX_RANK];

    if (!read_scales(c, call, s))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        dim[d] = s[d].p ? s[d].extent : x->dim[d];
        if (s[d].p && has_in(call, 3) && !nothing_stays(c, dim[d], x->dim[d]) &&
            !op_require_le(c, call, expr_min(c, expr_int(c, 1), dim[d]), x->dim[d],
                           "an element to make axis %u of", d))
            return false;
    }
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

/* ---- expansion ------------------------------------------------------------------------------- */

typedef struct {
    const Expr *num, *den;
} Coordinate;

static Coordinate
coordinate(Ctx *c, const OpCall *call, const Scale *s, const Expr *in, const Expr *i)
{
    const char *mode = op_string(c, call, "coordinate_transformation_mode");
    const Expr *one = expr_int(c, 1), *p = s->p, *q = s->q, *twice = expr_scale(c, p, 2);
    const Expr *centre = expr_mul(c, expr_offset(c, expr_scale(c, i, 2), 1), q);

    if (strcmp(mode, "asymmetric") == 0)
        return (Coordinate){ expr_mul(c, i, q), p };
    if (strcmp(mode, "align_corners") == 0) {
        /* the resized length is in * p/q, which may be no integer; if sizes are given, q is `in` */
        bool whole = expr_eq(c, NULL, q, in) == YES;
        const Expr *num = expr_mul(c, i, expr_offset(c, in, -1));
        const Expr *den = whole ? expr_offset(c, p, -1) : expr_sub(c, expr_mul(c, in, p), q);
        return (Coordinate){ whole ? num : expr_mul(c, num, q), expr_max(c, one, den) };
    }
    if (strcmp(mode, "tf_half_pixel_for_nn") == 0)
        return (Coordinate){ centre, twice };
    centre = expr_sub(c, centre, p);
    if (strcmp(mode, "pytorch_half_pixel") == 0) /* 0 if there is only one point */
        centre = expr_mul(c, centre, expr_min(c, expr_offset(c, s->extent, -1), one));
    if (strcmp(mode, "half_pixel_symmetric") == 0)
        centre = expr_add(c, centre, expr_sub(c, expr_mul(c, in, p), expr_mul(c, s->extent, q)));
    return (Coordinate){ centre, twice };
}

static const Expr *
clamp(Ctx *c, const Ranges *r, const Expr *e, const Expr *n)
{
    e = expr_max(c, expr_int(c, 0), expr_min(c, e, expr_offset(c, n, -1)));
    return expr_simplify(c, r, e);
}

/* num / den to the nearest integer; the mode rounds halves. Before opset 11 there are no modes: an
 * axis that shrinks rounds up, one that grows down. */
static void
nearest(Ctx *c, const OpCall *call, const Scale *s, Coordinate x, const Expr **out)
{
    const char *mode = op_string(c, call, "nearest_mode");
    const Expr *twice = expr_scale(c, x.num, 2), *den2 = expr_scale(c, x.den, 2);

    if (strcmp(mode, "floor") == 0)
        *out = expr_div(c, x.num, x.den);
    else if (strcmp(mode, "ceil") == 0)
        *out = expr_ceil_div(c, x.num, x.den);
    else if (strcmp(mode, "before_11") == 0) {
        const Expr *shrinks =
            expr_min(c, expr_int(c, 1), expr_max(c, expr_int(c, 0), expr_sub(c, s->q, s->p)));
        *out =
            expr_div(c, expr_add(c, x.num, expr_mul(c, shrinks, expr_offset(c, x.den, -1))), x.den);
    } else if (strcmp(mode, "round_prefer_floor") == 0)
        *out = expr_div(c, expr_offset(c, expr_add(c, twice, x.den), -1), den2);
    else /* round_prefer_ceil */
        *out = expr_div(c, expr_add(c, twice, x.den), den2);
}

/* Linear interpolation along axes d.. of x at `at`, whose earlier entries are fixed. */
typedef struct {
    Build *b;
    const Scale *s;
    const Coordinate *coord;
    Ranges ranges;
} Linear;

static const char *
interpolate(const Linear *l, uint32_t d, const Expr **at)
{
    Ctx *c = l->b->c;
    const Type *t = l->b->call->in[0];

    for (; d < t->rank && !l->s[d].p; d++)
        at[d] = build_axis(l->b, d);
    if (d == t->rank)
        return arena_printf(c->arena, "x[%s]", build_indices(l->b, t->rank, at));
    const Coordinate *x = &l->coord[d];
    const Expr *low = expr_div(c, x->num, x->den);
    at[d] = clamp(c, &l->ranges, low, t->dim[d]);
    const char *a = interpolate(l, d + 1, at);
    at[d] = clamp(c, &l->ranges, expr_offset(c, low, 1), t->dim[d]);
    const char *b = interpolate(l, d + 1, at);
    const Expr *rest = expr_simplify(c, &l->ranges, expr_mod(c, x->num, x->den));
    const char *w = arena_printf(c->arena, "$T(%s) / $T(%s)", build_index(l->b, rest),
                                 build_index(l->b, x->den));
    return arena_printf(c->arena, "(%s * (1 - %s) + %s * (%s))", a, w, b, w);
}

/* ---- by weights, axis by axis ---------------------------------------------------------------- */

/* The coordinate that a point of axis d reads, in f64, as a text over the names of name_axis;
 * `place` is that of the axis in the roi, which has beginnings, then ends. */
static const char *
coordinate_text(Build *b, uint32_t d, uint32_t place, bool crop)
{
    uint32_t end = place + (crop ? (uint32_t)expr_or(b->call->in[1]->dim[0], 0) / 2 : 0);

    return crop ? arena_printf(b->c->arena,
                               "(m > 1 ? f64(roi[%u]) * f64(n - 1) + f64(i%u) * (f64(roi[%u]) - "
                               "f64(roi[%u])) * f64(n - 1) / f64(max(m - 1, 1)) "
                               ": 0.5 * (f64(roi[%u]) + f64(roi[%u])) * f64(n - 1))",
                               place, d, end, place, place, end)
                : "f64(num) / f64(den)";
}

/* n to m elements at p/q along axis d; taps on both sides of a coordinate. */
static void
name_axis(Build *b, const Scale *s, uint32_t d, const Expr *n, const Expr *taps)
{
    Coordinate at = coordinate(b->c, b->call, s, n, build_axis(b, d));

    build_name(b, "n", n);
    build_name(b, "m", s->extent);
    build_name(b, "p", s->p);
    build_name(b, "q", s->q);
    build_name(b, "num", at.num);
    build_name(b, "den", at.den);
    build_name(b, "taps", taps);
    build_name(b, "all", expr_scale(b->c, taps, 2));
}

/* The weight of a point at distance `a`. */
static const char *
weight_text(Build *b)
{
    Arena *a = b->c->arena;
    double k = op_float(b->call, "cubic_coeff_a");
    const char *w = op_string_is(b->call, "mode", "linear")
                        ? "max(1 - a, 0)"
                        : arena_printf(a,
                                       "(a <= 1 ? ((%.9g) * a - (%.9g)) * a * a + 1 : a < 2 ? "
                                       "(%.9g) * (((a - 5) * a + 8) * a - 4) : 0)",
                                       k + 2, k + 3, k);
    return op_int(b->call, "exclude_outside") ? arena_printf(a, "(and(j >= 0, j < n) ? %s : 0)", w)
                                              : w;
}

/* Coordinate x to the nearest integer, in f64. */
static const char *
nearest_text(Build *b)
{
    static const char *const row[][2] = {
        { "floor", "floor(x)" },
        { "ceil", "ceil(x)" },
        { "round_prefer_floor", "ceil(x - 0.5)" },
        { "round_prefer_ceil", "floor(x + 0.5)" },
    };
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++)
        if (op_string_is(b->call, "nearest_mode", row[i][0]))
            return row[i][1];
    op_fail(b->c, b->call, DIAG_MODEL,
            "nearest_mode before_11 does not go with coordinate_transformation_mode "
            "tf_crop_and_resize or with antialias");
    return NULL;
}

static bool
weigh_axis(Build *b, uint32_t from, uint32_t to, uint32_t d, uint32_t place, const Scale *s)
{
    Ctx *c = b->c;
    Arena *a = c->arena;
    uint32_t rank = b->call->in[0]->rank;
    bool linear = op_string_is(b->call, "mode", "linear"),
         crop = op_string_is(b->call, "coordinate_transformation_mode", "tf_crop_and_resize");
    int64_t reach = linear ? 1 : 2;
    const Expr *taps = expr_int(c, reach);

    if (op_int(b->call, "antialias"))
        taps = expr_max(c, taps, expr_ceil_div(c, expr_scale(c, s->q, reach), s->p));
    name_axis(b, s, d, build_type(b, from)->dim[d], taps);
    const char *x = coordinate_text(b, d, place, crop);
    const char *before = d ? arena_printf(a, "%s, ", axes_text(a, 0, d)) : "";
    const char *after = d + 1 < rank ? arena_printf(a, ", %s", axes_text(a, d + 1, rank)) : "";
    const char *outside = crop ? arena_printf(a, "or(x < 0, x > f64(n - 1)) ? $T(%.9g) : ",
                                              op_float(b->call, "extrapolation_value"))
                               : "";
    uint32_t value[] = { from, crop ? 1 : NO_SLOT, to };
    if (op_string_is(b->call, "mode", "nearest")) {
        const char *rounded = nearest_text(b);
        return rounded && build_text(b, arena_printf(a, "%u", d), "v roi? -> o", value,
                                     "o[%s] = let x = %s in %sv[%smin(max(i64(%s), 0), n - 1)%s]",
                                     axes_text(a, 0, rank), x, outside, before, rounded, after);
    }
    const char *squeeze = op_int(b->call, "antialias") ? "min(1, f64(p) / f64(q))" : "1";
    const char *tap = arena_printf(
        a, "let j = i64(floor(x)) + index(k) - taps + 1 in let a = $T(abs(f64(j) - x) * s) in %s",
        weight_text(b));
    const char *sum = arena_printf(a,
                                   "(sum k<all>: (%s) * v[%smin(max(i64(floor(x)) + index(k) - "
                                   "taps + 1, 0), n - 1)%s]) / (sum k<all>: %s)",
                                   tap, before, after, tap);
    return build_text(b, arena_printf(a, "%u", d), "v roi? -> o", value,
                      "o[%s] = let x = %s in let s = f64(%s) in %s%s", axes_text(a, 0, rank), x,
                      squeeze, outside, sum);
}

static bool
expand_weighed(Build *b, const Scale *s)
{
    const Type *x = b->call->in[0];
    const Expr *dim[TN_MAX_RANK];
    uint32_t axis[TN_MAX_RANK], naxis, from = 0, last = 0, left = 0;
    bool crop = op_string_is(b->call, "coordinate_transformation_mode", "tf_crop_and_resize");

    bool nearest = op_string_is(b->call, "mode", "nearest");
    if (!dtype_is_float(x->dtype) && !nearest)
        return op_fail(b->c, b->call, DIAG_UNSUPPORTED,
                       "mode is %s and input 0 is %s; what weighs several points weighs floats",
                       op_string(b->c, b->call, "mode"), type_str(b->c, x));
    if (nearest && op_int(b->call, "antialias"))
        return op_fail(b->c, b->call, DIAG_MODEL, "mode is nearest, which antialias is not for");
    if (!resized_axes(b->c, b->call, axis, &naxis))
        return false;
    if (crop && (!has_in(b->call, 1) || b->call->in[1]->rank != 1 ||
                 expr_eq(b->c, NULL, b->call->in[1]->dim[0], expr_int(b->c, 2 * naxis)) != YES))
        return op_fail(b->c, b->call, DIAG_MODEL, "tf_crop_and_resize needs a roi of %u numbers",
                       2 * naxis);
    for (uint32_t i = 0; i < naxis; i++)
        left += s[axis[i]].p != NULL || crop;
    memcpy(dim, x->dim, x->rank * sizeof *dim);
    b->real = nearest ? x->dtype : compute_type(x->dtype);
    if (!left) {
        uint32_t value[] = { 0, build_out(b, 0) };
        return build_text(b, NULL, "x -> o", value, "o = x[$i]");
    }
    for (uint32_t i = 0; i < naxis; i++) {
        Scale one = { expr_int(b->c, 1), expr_int(b->c, 1), x->dim[axis[i]] };
        if (s[axis[i]].p)
            one = s[axis[i]];
        else if (!crop)
            continue;
        dim[axis[i]] = one.extent;
        last = --left ? build_value(b, b->real, x->rank, dim) : build_out(b, 0);
        if (!weigh_axis(b, from, last, axis[i], i, &one))
            return false;
        from = last;
    }
    return true;
}

bool
expand_resize(Build *b)
{
    Ctx *c = b->c;
    const OpCall *call = b->call;
    const Type *x = call->in[0];
    const Expr *at[TN_MAX_RANK];
    Range range[TN_MAX_RANK];
    Coordinate coord[TN_MAX_RANK];
    Scale s[TN_MAX_RANK];
    bool linear = op_string_is(call, "mode", "linear");
    bool cubic = op_string_is(call, "mode", "cubic");

    if (cubic || op_int(call, "antialias") ||
        op_string_is(call, "coordinate_transformation_mode", "tf_crop_and_resize"))
        return read_scales(c, call, s) && expand_weighed(b, s);
    if (linear && !dtype_is_float(x->dtype))
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "mode is linear and input 0 is %s; floats are supported", type_str(c, x));
    if (!read_scales(c, call, s))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        Var v = { 0 };
        at[d] = build_axis(b, d);
        expr_is_var(at[d], &v);
        range[d] = (Range){ v, expr_int(c, 0), b->out[0]->dim[d] };
        if (!s[d].p)
            continue;
        coord[d] = coordinate(c, call, &s[d], x->dim[d], at[d]);
        if (!linear)
            nearest(c, call, &s[d], coord[d], &at[d]);
    }
    Linear l = { b, s, coord, { range, x->rank } };
    if (linear)
        return build_text(b, NULL, "x -> o", NULL, "o = %s", interpolate(&l, 0, at));
    for (uint32_t d = 0; d < x->rank; d++)
        if (s[d].p)
            at[d] = clamp(c, &l.ranges, expr_simplify(c, &l.ranges, at[d]), x->dim[d]);
    b->moves = true;
    return build_move(b, 0, build_out(b, 0), at);
}
