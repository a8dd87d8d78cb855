/* sample: pixels at coordinates computed from data: grids, regions, deformed windows.
 *
 * A coordinate is clamped near the image before it becomes an index, so that no float, however
 * large, overflows an integer: a pixel that far outside is 0 (zeros), or was moved inside before
 * (border, reflection).
 */
#include "op/build.h"

#include <string.h>

/* ---- grid_sample: x[n,c,…] at grid[n,…,d], whose last axis has coordinates in [-1, 1], innermost
 * first */

bool
infer_grid_sample(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *g = call->in[1];
    const Expr *dim[TN_MAX_RANK];

    if (!op_rank_at_least(c, call, 0, 3) || !op_rank_is(c, call, 1, x->rank) ||
        !op_need_floats(c, call, 1) ||
        !op_require_eq(c, call, g->dim[0], x->dim[0], "the batches of the grid and of input 0") ||
        !op_require_eq(c, call, g->dim[x->rank - 1], expr_int(c, x->rank - 2),
                       "the last axis of the grid and the number of spatial axes"))
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = d < 2 ? x->dim[d] : g->dim[d - 1];
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

/* A coordinate reflected into low .. low + range. Where all of a single element is its corner, any
 * coordinate does. */
static const char *
reflected(Arena *a, const char *x, bool corners, uint32_t d)
{
    const char *low = corners ? "0" : "-0.5",
               *range = arena_printf(a, corners ? "max(n%u - 1, 1)" : "n%u", d);
    return arena_printf(
        a, "(let t = rem(abs(%s - (%s)), 2*$T(%s)) in (t > $T(%s) ? 2*$T(%s) - t : t) + (%s))", x,
        low, range, range, range, low);
}

bool
expand_grid_sample(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    const Type *x = call->in[0];
    uint32_t spatial = x->rank - 2;
    bool corners = op_int(call, "align_corners") != 0,
         nearest = op_string_is(call, "mode", "nearest"),
         cubic = op_string_is(call, "mode", "cubic");
    bool zeros = op_string_is(call, "padding_mode", "zeros"),
         border = op_string_is(call, "padding_mode", "border");
    Text lets = { .arena = a }, index = { .arena = a }, weight = { .arena = a },
         taps = { .arena = a };
    const char *out = axes_text(a, 2, x->rank);

    b->real = compute_type(call->in[1]->dtype);
    for (uint32_t d = 0; d < spatial; d++) {
        build_name(b, arena_printf(a, "n%u", d), x->dim[d + 2]);
        text_printf(&lets, "let g%u = grid[i0, %s, %u] in ", d, out, spatial - 1 - d);
        text_printf(&lets,
                    corners ? "let y%u = (g%u + 1) / 2 * $T(n%u - 1) in "
                            : "let y%u = ((g%u + 1) * $T(n%u) - 1) / 2 in ",
                    d, d, d);
        const char *at = nearest ? arena_printf(a, "round(y%u)", d) : arena_printf(a, "y%u", d);
        const char *clamped = arena_printf(a, "min(max(%s, 0), $T(n%u - 1))", at, d);
        /* the image extends half a pixel beyond its first and last one, and is curved there */
        if (cubic && !corners)
            clamped = arena_printf(a, "(%s < -0.5 ? 0 : %s > $T(n%u) - 0.5 ? $T(n%u - 1) : %s)", at,
                                   at, d, d, at);
        text_printf(&lets, "let x%u = %s in ", d,
                    zeros    ? arena_printf(a, "min(max(%s, -4), $T(n%u + 4))", at, d)
                    : border ? clamped
                             : reflected(a, at, corners, d));
        const char *tap =
            nearest ? arena_printf(a, "i64(x%u)", d)
                    : arena_printf(a, cubic ? "i64(floor(x%u)) + t%u - 1" : "i64(floor(x%u)) + t%u",
                                   d, d);
        const char *inside =
            zeros ? tap
            : border || nearest
                ? arena_printf(a, "min(max(%s, 0), n%u - 1)", tap, d)
                : arena_printf(a, "min(max(i64(%s), 0), n%u - 1)",
                               reflected(a, arena_printf(a, "$T(%s)", tap), corners, d), d);
        text_printf(&index, "let p%u = %s in ", d, inside);
        text_printf(&taps, "%st%u<%d>", d ? ", " : "", d, cubic ? 4 : 2);
        if (cubic)
            text_printf(&weight,
                        " * (let s = abs(x%u - floor(x%u) - $T(t%u - 1)) in s <= 1 ? (1.25*s - "
                        "2.25)*s*s + 1 : ((-0.75*s + 3.75)*s - 6)*s + 3)",
                        d, d, d);
        else
            text_printf(&weight, " * (t%u == 0 ? 1 - (x%u - floor(x%u)) : x%u - floor(x%u))", d, d,
                        d, d, d);
    }
    Text pixel = { .arena = a };
    text_add(&pixel, "x[i0, i1");
    for (uint32_t d = 0; d < spatial; d++)
        text_printf(&pixel, ", p%u", d);
    text_add(&pixel, zeros ? " | 0]" : "]");
    if (nearest)
        return build_text(b, NULL, "x grid -> o", NULL, "o[i0, i1, %s] = %s%s%s", out,
                          text_str(&lets), text_str(&index), text_str(&pixel));
    return build_text(b, NULL, "x grid -> o", NULL, "o[i0, i1, %s] = %ssum %s: %s$T(%s)%s", out,
                      text_str(&lets), text_str(&taps), text_str(&index), text_str(&pixel),
                      text_str(&weight));
}

/* ---- affine_grid: theta[n,2,3] or [n,3,4] applied to the regular grid of `size` -------------- */

bool
infer_affine_grid(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *theta = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Known size;

    if (!op_need_floats(c, call, 0) || !op_rank_is(c, call, 0, 3) ||
        !op_param(c, call, 1, "size", &size))
        return false;
    if (size.n != 4 && size.n != 5)
        return op_fail(c, call, DIAG_MODEL, "input 1 (size) has %u elements; 4 or 5 are needed",
                       size.n);
    uint32_t spatial = size.n - 2;
    if (!op_require_eq(c, call, theta->dim[1], expr_int(c, spatial),
                       "axis 1 of theta and the spatial axes") ||
        !op_require_eq(c, call, theta->dim[2], expr_int(c, spatial + 1),
                       "axis 2 of theta and the spatial axes and 1") ||
        !op_require_eq(c, call, theta->dim[0], size.at[0], "the batch of theta and of the size"))
        return false;
    dim[0] = theta->dim[0];
    for (uint32_t d = 0; d < spatial; d++)
        dim[1 + d] = size.at[2 + d];
    dim[spatial + 1] = expr_int(c, spatial);
    out[0] = type_new(c, theta->dtype, spatial + 2, dim);
    return true;
}

bool
expand_affine_grid(Build *b)
{
    Arena *a = b->c->arena;
    uint32_t spatial = b->out[0]->rank - 2;
    bool corners = op_int(b->call, "align_corners") != 0;
    Text t = { .arena = a };

    /* coordinate k is the k-th axis from the innermost; the only point of an axis is a corner */
    for (uint32_t k = 0; k < spatial; k++) {
        uint32_t d = spatial - k;
        build_name(b, arena_printf(a, "n%u", d), b->out[0]->dim[d]);
        text_printf(&t,
                    corners ? "theta[i0, k, %u] * (2*$T(i%u) / $T(max(n%u - 1, 1)) - 1) + "
                            : "theta[i0, k, %u] * ((2*$T(i%u) + 1) / $T(n%u) - 1) + ",
                    k, d, d);
    }
    return build_text(b, NULL, "theta -> o", NULL, "o[%s, k] = %stheta[i0, k, %u]",
                      axes_text(a, 0, spatial + 1), text_str(&t), spatial);
}

/* ---- roi_align: regions of x[n,c,h,w] on a grid of output_height by output_width ------------- */

/* The weights and values of the four pixels around (y, x), as lets. */
static const char around[] =
    "let yy = max(y, 0) in let xx = max(x, 0) in "
    "let y0 = min(i64(yy), h - 1) in let x0 = min(i64(xx), w - 1) in let y1 = min(y0 + 1, h - 1) "
    "in let x1 = min(x0 + 1, w - 1) in "
    "let ly = i64(yy) >= h - 1 ? $T(0) : yy - $T(y0) in let lx = i64(xx) >= w - 1 ? $T(0) : xx - "
    "$T(x0) in "
    "let inside = and(and(y >= -1, y <= $T(h)), and(x >= -1, x <= $T(w))) in ";

bool
infer_roi_align(Ctx *c, const OpCall *call, const Type **out)
{
    static const char *const sides[] = { "output_height", "output_width" };
    OpSizes size = { 0 };

    for (int i = 0; i < 2; i++) {
        if (op_int(call, sides[i]) < 1)
            return op_fail(c, call, DIAG_MODEL, "attribute \"%s\" is %lld; 1 or more is needed",
                           sides[i], (long long)op_int(call, sides[i]));
        op_size(c, &size, sides[i], expr_int(c, op_int(call, sides[i])));
    }
    return op_signature(c, call, op_info[call->op].meaning, &size, out);
}

bool
expand_roi_align(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    bool half = op_string_is(call, "coordinate_transformation_mode", "half_pixel"),
         average = op_string_is(call, "mode", "avg");
    double scale = op_float(call, "spatial_scale");
    int64_t ratio = op_int(call, "sampling_ratio"), height = op_int(call, "output_height"),
            width = op_int(call, "output_width");
    const Type *x = call->in[0];
    Text lets = { .arena = a };

    build_name(b, "h", x->dim[2]);
    build_name(b, "w", x->dim[3]);
    build_name(b, "images", x->dim[0]);
    for (uint32_t k = 0; k < 4; k++)
        text_printf(&lets, "let c%u = rois[r, %u] * %.17g - %s in ", k, k, scale,
                    half ? "0.5" : "0");
    text_printf(
        &lets,
        half ? "let size_y = (c3 - c1) / %lld in let size_x = (c2 - c0) / %lld in "
             : "let size_y = max(c3 - c1, 1) / %lld in let size_x = max(c2 - c0, 1) / %lld in ",
        (long long)height, (long long)width);
    if (ratio > 0)
        text_printf(&lets, "let ny = index(%lld) in let nx = index(%lld) in ", (long long)ratio,
                    (long long)ratio);
    else
        text_add(&lets,
                 "let ny = max(i64(ceil(size_y)), 0) in let nx = max(i64(ceil(size_x)), 0) in ");
    const char *point =
        arena_printf(a,
                     "let y = c1 + $T(p) * size_y + ($T(u) + 0.5) * size_y / $T(ny) in let x = c0 "
                     "+ $T(q) * size_x + ($T(v) + 0.5) * size_x / $T(nx) in %s",
                     around);
    const char *pixel[] = { "m[n, c, y0, x0]", "m[n, c, y0, x1]", "m[n, c, y1, x0]",
                            "m[n, c, y1, x1]" };
    const char *weight[] = { "(1 - ly) * (1 - lx)", "(1 - ly) * lx", "ly * (1 - lx)", "ly * lx" };
    const char *term[4];
    for (uint32_t k = 0; k < 4; k++)
        term[k] = arena_printf(a, "%s * %s", weight[k], pixel[k]);
    if (average)
        return build_text(b, NULL, "m rois batch -> o", NULL,
                          "o[r, c, p, q] = let n = at(i64(batch[r]), images) in %s(sum u<ny>, "
                          "v<nx>: %sinside ? %s + %s + %s + %s : 0) / $T(max(ny * nx, 1))",
                          text_str(&lets), point, term[0], term[1], term[2], term[3]);
    return build_text(b, NULL, "m rois batch -> o", NULL,
                      "o[r, c, p, q] = let n = at(i64(batch[r]), images) in %sny * nx == 0 ? 0 : "
                      "max u<ny>, v<nx>: %sinside ? max(max(%s, %s), max(%s, %s)) : 0",
                      text_str(&lets), point, term[0], term[1], term[2], term[3]);
}

/* ---- max_roi_pool: regions of x[n,c,h,w] split into cells of whole pixels, which may overlap
 * --- */

bool
infer_max_roi_pool(Ctx *c, const OpCall *call, const Type **out)
{
    const Attr *shape = attr_find(call->attrs, "pooled_shape");
    OpSizes size = { 0 };

    if (!shape || shape->kind != ATTR_INTS || shape->n != 2 || shape->ints[0] < 1 ||
        shape->ints[1] < 1)
        return op_fail(c, call, DIAG_MODEL, "pooled_shape is to be two numbers above 0");
    op_size(c, &size, "rows", expr_int(c, shape->ints[0]));
    op_size(c, &size, "columns", expr_int(c, shape->ints[1]));
    return op_signature(c, call, op_info[call->op].meaning, &size, out);
}

/* Corners are rounded, halves away from zero, and belong to the region, which has at least one
 * pixel. */
bool
expand_max_roi_pool(Build *b)
{
    const OpCall *call = b->call;
    const Attr *shape = attr_find(call->attrs, "pooled_shape");
    double scale = op_float(call, "spatial_scale");
    Text lets = { .arena = b->c->arena };

    build_name(b, "h", call->in[0]->dim[2]);
    build_name(b, "w", call->in[0]->dim[3]);
    build_name(b, "images", call->in[0]->dim[0]);
    for (uint32_t k = 1; k < 5; k++)
        text_printf(&lets,
                    "let s%u = rois[r, %u] * %.17g in let d%u = trunc(s%u) in let c%u = "
                    "i64(abs(s%u - d%u) >= 0.5 ? d%u + sign(s%u) : d%u) in ",
                    k, k, scale, k, k, k, k, k, k, k, k);
    for (uint32_t d = 0; d < 2; d++) { /* rows, then columns */
        uint32_t low = 2 - d, high = 4 - d;
        char cell = d ? 'q' : 'p', extent = d ? 'w' : 'h';
        text_printf(&lets, "let b%u = $T(max(c%u - c%u + 1, 1)) / %lld in ", d, high, low,
                    (long long)shape->ints[d]);
        text_printf(&lets, "let from%u = min(max(i64(floor($T(%c) * b%u)) + c%u, 0), %c) in ", d,
                    cell, d, low, extent);
        text_printf(
            &lets,
            "let n%u = max(min(max(i64(ceil(($T(%c) + 1) * b%u)) + c%u, 0), %c) - from%u, 0) in ",
            d, cell, d, low, extent, d);
    }
    return build_text(b, NULL, "m rois -> o", NULL,
                      "o[r, c, p, q] = let n = at(i64(rois[r, 0]), images) in %sn0 * n1 == 0 ? 0 : "
                      "max u<n0>, v<n1>: m[n, c, from0 + u, from1 + v]",
                      text_str(&lets));
}

/* ---- deform_conv: a convolution whose window points are moved by offsets, and weighted by a mask
 *  */

typedef struct {
    int64_t stride[2], dilation[2], pad[4], group, offset_group;
} Deform;

static bool
read_deform(Ctx *c, const OpCall *call, Deform *d)
{
    d->group = op_int(call, "group");
    d->offset_group = op_int(call, "offset_group");
    if (d->group < 1 || d->offset_group < 1)
        return op_fail(c, call, DIAG_MODEL, "%lld groups and %lld of offsets; 1 or more are needed",
                       (long long)d->group, (long long)d->offset_group);
    return op_ints(c, call, "strides", 2, 1, 1, d->stride) &&
           op_ints(c, call, "dilations", 2, 1, 1, d->dilation) &&
           op_ints(c, call, "pads", 4, 0, 0, d->pad);
}

bool
infer_deform_conv(Ctx *c, const OpCall *call, const Type **out)
{
    static const char *const sides[] = { "rows", "columns" };
    const Type *x = call->in[0], *w = call->in[1];
    OpSizes size = { 0 };
    Deform d;

    if (!read_deform(c, call, &d) || !op_rank_is(c, call, 0, 4) || !op_rank_is(c, call, 1, 4))
        return false;
    op_size(c, &size, "group", expr_int(c, d.group));
    op_size(c, &size, "offset_group", expr_int(c, d.offset_group));
    for (uint32_t s = 0; s < 2; s++)
        op_size(c, &size, sides[s],
                op_window_count(c, expr_offset(c, x->dim[2 + s], d.pad[s] + d.pad[2 + s]),
                                w->dim[2 + s], d.dilation[s], d.stride[s]));
    return op_signature(c, call, op_info[call->op].meaning, &size, out);
}

bool
expand_deform_conv(Build *b)
{
    Ctx *c = b->c;
    const OpCall *call = b->call;
    const Type *x = call->in[0], *w = call->in[1];
    bool bias = has_in(call, 3), mask = has_in(call, 4);
    Deform d;

    if (!read_deform(c, call, &d))
        return false;
    build_name(b, "h", x->dim[2]);
    build_name(b, "w", x->dim[3]);
    build_name(b, "kh", w->dim[2]);
    build_name(b, "kw", w->dim[3]);
    build_name(b, "each", w->dim[1]);
    build_name(b, "made", expr_simplify(c, NULL, expr_div(c, w->dim[0], expr_int(c, d.group))));
    build_name(b, "shared",
               expr_simplify(c, NULL, expr_div(c, x->dim[1], expr_int(c, d.offset_group))));
    return build_text(
        b, NULL, "x f off bias? mask? -> o", NULL,
        "o[n, m, y, z] = (sum q<each>, r<kh>, s<kw>: let ch = m // made*each + q in let point = "
        "(ch // shared*kh + r)*kw + s in "
        "let v = min(max($T(y*%lld + r*%lld - %lld) + off[n, 2*point, y, z], -4), $T(h + 4)) in "
        "let u = min(max($T(z*%lld + s*%lld - %lld) + off[n, 2*point + 1, y, z], -4), $T(w + 4)) "
        "in "
        "let a = i64(floor(v)) in let b = i64(floor(u)) in let lv = v - floor(v) in let lu = u - "
        "floor(u) in "
        "((1 - lv) * (1 - lu) * x[n, ch, a, b | 0] + (1 - lv) * lu * x[n, ch, a, b + 1 | 0] + lv * "
        "(1 - lu) * x[n, ch, a + 1, b | 0] + "
        "lv * lu * x[n, ch, a + 1, b + 1 | 0]) * f[m, q, r, s]%s)%s",
        (long long)d.stride[0], (long long)d.dilation[0], (long long)d.pad[0],
        (long long)d.stride[1], (long long)d.dilation[1], (long long)d.pad[1],
        mask ? " * mask[n, point, y, z]" : "", bias ? " + bias[m]" : "");
}
