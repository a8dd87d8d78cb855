/* image: col2im, center_crop_pad, max_unpool. */
#include "op/build.h"

#include <string.h>

/* ---- col2im: x[n, c*points, blocks] summed into images --------------------------------------- */

typedef struct {
    uint32_t n;
    Known image, block;
    int64_t stride[TN_MAX_RANK], dilation[TN_MAX_RANK], pad[2 * TN_MAX_RANK];
    const Expr *points, *count[TN_MAX_RANK];
} Blocks;

static bool
read_blocks(Ctx *c, const OpCall *call, Blocks *k)
{
    if (!op_rank_is(c, call, 0, 3) || !op_param(c, call, 1, "image_shape", &k->image) ||
        !op_param(c, call, 2, "block_shape", &k->block))
        return false;
    k->n = k->block.n;
    if (k->n != k->image.n || k->n == 0 || k->n > TN_MAX_RANK - 2)
        return op_fail(c, call, DIAG_MODEL, "image_shape has %u elements and block_shape %u",
                       k->image.n, k->n);
    if (!op_ints(c, call, "strides", k->n, 1, 1, k->stride) ||
        !op_ints(c, call, "dilations", k->n, 1, 1, k->dilation) ||
        !op_ints(c, call, "pads", 2 * k->n, 0, 0, k->pad))
        return false;
    k->points = expr_int(c, 1);
    for (uint32_t d = 0; d < k->n; d++) {
        if (expr_le(c, NULL, k->block.at[d], expr_int(c, 0)) == YES)
            return op_fail(c, call, DIAG_MODEL, "block_shape is %s at %u; 1 or more is needed",
                           expr_str(c, k->block.at[d]), d);
        k->points = expr_mul(c, k->points, k->block.at[d]);
        k->count[d] =
            op_window_count(c, expr_offset(c, k->image.at[d], k->pad[d] + k->pad[k->n + d]),
                            k->block.at[d], k->dilation[d], k->stride[d]);
    }
    return true;
}

bool
infer_col2im(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK], *blocks = expr_int(c, 1);
    Blocks k;

    if (!read_blocks(c, call, &k))
        return false;
    int64_t points;
    if (expr_const(k.points, &points) && expr_divisible(c, NULL, x->dim[1], points) == NO)
        return op_fail(c, call, DIAG_MODEL,
                       "axis 1 of input 0, %s, is no multiple of the %lld points of a block",
                       expr_str(c, x->dim[1]), (long long)points);
    for (uint32_t d = 0; d < k.n; d++) {
        blocks = expr_mul(c, blocks, k.count[d]);
        dim[2 + d] = k.image.at[d];
    }
    if (!op_require_eq(c, call, x->dim[2], blocks, "axis 2 of input 0 and the number of blocks"))
        return false;
    dim[0] = x->dim[0];
    dim[1] = expr_div(c, x->dim[1], k.points);
    out[0] = type_new(c, x->dtype, k.n + 2, dim);
    return true;
}

bool
expand_col2im(Build *b)
{
    Arena *a = b->c->arena;
    Text bound = { .arena = a }, lets = { .arena = a }, hit = { .arena = a };
    bool truth = b->call->in[0]->dtype == DT_BOOL; /* blocks are combined by or */
    Blocks k;

    if (!read_blocks(b->c, b->call, &k))
        return false;
    for (uint32_t d = 0; d < k.n; d++) {
        long long stride = k.stride[d];
        build_name(b, arena_printf(a, "count%u", d), k.count[d]);
        build_name(b, arena_printf(a, "block%u", d), k.block.at[d]);
        text_printf(&bound, "%sk%u<block%u>", d ? ", " : "", d, d);
        text_printf(&lets, "let p%u = i%u + %lld - %lld*k%u in let q%u = p%u // %lld in ", d, d + 2,
                    (long long)k.pad[d], (long long)k.dilation[d], d, d, d, stride);
        text_printf(&hit, "%s%sand(and(p%u %% %lld == 0, 0 <= q%u), q%u < count%u)", d ? ", " : "",
                    d + 1 < k.n ? "and(" : "", d, stride, d, d, d);
    }
    for (uint32_t d = 1; d < k.n; d++)
        text_add(&hit, ")");
    const char *point = "k0", *block = "q0";
    for (uint32_t d = 1; d < k.n; d++) {
        point = arena_printf(a, "(%s) * block%u + k%u", point, d, d);
        block = arena_printf(a, "(%s) * count%u + q%u", block, d, d);
    }
    build_name(b, "points", k.points);
    return build_text(b, NULL, "x -> o", NULL,
                      "o[%s] = %s %s: %s%s ? x[i0, i1 * points + %s, %s] : %s",
                      axes_text(a, 0, k.n + 2), truth ? "any" : "sum", text_str(&bound),
                      text_str(&lets), text_str(&hit), point, block, truth ? "false" : "0");
}

/* ---- center_crop_pad: the middle of x, or x in the middle of zeros, axis by axis ------------- */

/* The target extents of all axes. */
static bool
wanted_extents(Ctx *c, const OpCall *call, const Expr **dim)
{
    const Type *x = call->in[0];
    const Attr *axes = attr_find(call->attrs, "axes");
    Known shape;

    uint32_t n = axes ? axes->n : x->rank;
    if (!op_param_list(c, call, 1, "shape", n, &shape))
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = x->dim[d];
    for (uint32_t i = 0, d = 0; i < n; i++) {
        if (axes && !op_axis(c, call, "an entry of axes", axes->ints[i], x->rank, &d))
            return false;
        dim[axes ? d : i] = shape.at[i];
    }
    return true;
}

bool
infer_center_crop_pad(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];

    if (!wanted_extents(c, call, dim))
        return false;
    out[0] = type_new(c, call->in[0]->dtype, call->in[0]->rank, dim);
    return true;
}

bool
expand_center_crop_pad(Build *b)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *at[TN_MAX_RANK], *zero = expr_int(c, 0), *two = expr_int(c, 2);
    bool pads = false;

    for (uint32_t d = 0; d < x->rank; d++) {
        const Expr *less = expr_sub(c, x->dim[d], b->out[0]->dim[d]),
                   *more = expr_sub(c, b->out[0]->dim[d], x->dim[d]);
        const Expr *cut = expr_div(c, expr_max(c, less, zero), two),
                   *before = expr_div(c, expr_max(c, more, zero), two);
        at[d] = expr_simplify(c, NULL, expr_sub(c, expr_add(c, build_axis(b, d), cut), before));
        pads |= expr_le(c, NULL, more, zero) != YES;
    }
    return build_text(b, NULL, "x -> o", NULL, pads ? "o = x[%s | 0]" : "o = x[%s]",
                      build_indices(b, x->rank, at));
}

/* ---- max_unpool: values at flat places of an image of the inferred shape --------------------- */

static bool
unpooled(Ctx *c, const OpCall *call, const Expr **dim)
{
    const Type *x = call->in[0];
    int64_t kernel[TN_MAX_RANK], stride[TN_MAX_RANK], pad[2 * TN_MAX_RANK];
    uint32_t n = x->rank - 2u;

    if (!op_rank_at_least(c, call, 0, 3) || !op_rank_is(c, call, 1, x->rank))
        return false;
    if (!attr_find(call->attrs, "kernel_shape"))
        return op_fail(c, call, DIAG_MODEL, "attribute \"kernel_shape\" is missing");
    if (!op_ints(c, call, "kernel_shape", n, 1, 1, kernel) ||
        !op_ints(c, call, "strides", n, 1, 1, stride) ||
        !op_ints(c, call, "pads", 2 * n, 0, 0, pad))
        return false;
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    for (uint32_t d = 0; d < n; d++)
        dim[2 + d] = expr_offset(c, expr_scale(c, expr_offset(c, x->dim[2 + d], -1), stride[d]),
                                 kernel[d] - pad[d] - pad[n + d]);
    return true;
}

bool
infer_max_unpool(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Known shape;

    if (!unpooled(c, call, dim) ||
        !op_require_dims(c, call, x->rank, call->in[1]->dim, x->dim, "the indices and of input 0"))
        return false;
    if (has_in(call, 2)) {
        if (!op_param_list(c, call, 2, "output_shape", x->rank, &shape))
            return false;
        memcpy(dim, shape.at, x->rank * sizeof *dim);
    }
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

bool
expand_max_unpool(Build *b)
{
    Arena *a = b->c->arena;
    const Type *x = b->call->in[0];
    const Expr *dim[TN_MAX_RANK], *count;
    Text all = { .arena = a };

    if (!unpooled(b->c, b->call, dim))
        return false;
    const Type *image = type_new(b->c, x->dtype, x->rank, dim);
    count = type_count(b->c, image);
    uint32_t flat = build_value(b, x->dtype, 1, &count), scatter[] = { 0, 1, flat },
             shape[] = { flat, build_out(b, 0) };
    build_name(b, "count", count);
    const char *inside = "true", *row = "i0", *i = axes_text(a, 0, x->rank);
    for (uint32_t d = 0; d < x->rank; d++) {
        build_name(b, arena_printf(a, "n%u", d), dim[d]);
        build_name(b, arena_printf(a, "x%u", d), x->dim[d]);
        text_printf(&all, "%si%u<x%u>", d ? ", " : "", d, d);
        /* positions of an output larger than inferred stay 0 */
        inside = arena_printf(a, "and(%s, i%u < n%u)", inside, d, d);
        row = d ? arena_printf(a, "(%s) * n%u + i%u", row, d, d) : row;
    }
    return build_text(b, "scatter", "x p -> o", scatter, "for %s: o[at(p[%s], count)] last= x[%s]",
                      text_str(&all), i, i) &&
           build_text(b, NULL, "x -> o", shape, "o[%s] = %s ? x[%s] : 0", i, inside, row);
}
