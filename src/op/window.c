/* window: operators that read a window around each output point: convolutions and pools.
 *
 * Along each spatial axis, output point o and window point r read the input at o * stride + r *
 * dilation - before; a read outside of the input gives the operator's outside value.
 */
#include "op/build.h"
#include "op/kinds.h"

#include <string.h>

typedef struct {
    /* spatial axes: 2 .. n + 1 of the tensors */
    uint32_t n;
    const Expr *in[TN_MAX_RANK], *kernel[TN_MAX_RANK], *out[TN_MAX_RANK];
    const Expr *before[TN_MAX_RANK], *after[TN_MAX_RANK];
    int64_t stride[TN_MAX_RANK], dilation[TN_MAX_RANK];
    bool ceil, may_be_empty; /* may_be_empty: see shrink */
} ConvWindow;

/* ---- attributes ------------------------------------------------------------------------------ */

/* The two sides of a total padding: SAME_UPPER puts the odd element at the end, SAME_LOWER at the
 * begin. */
static void
share_padding(Ctx *c, ConvWindow *w, uint32_t i, const Expr *total, bool upper)
{
    const Expr *half = expr_div(c, total, expr_int(c, 2)), *rest = expr_sub(c, total, half);
    w->before[i] = expr_simplify(c, NULL, upper ? half : rest);
    w->after[i] = expr_simplify(c, NULL, upper ? rest : half);
}

static bool
is_same(const OpCall *call)
{
    return op_string_is(call, "auto_pad", "SAME_UPPER") ||
           op_string_is(call, "auto_pad", "SAME_LOWER");
}

/* Everything except the output extents. Needs w->kernel. */
static bool
read_frame(Ctx *c, const OpCall *call, ConvWindow *w)
{
    const Type *x = call->in[0];
    int64_t pads[2 * TN_MAX_RANK];

    w->n = x->rank - 2;
    if (!op_ints(c, call, "strides", w->n, 1, 1, w->stride) ||
        !op_ints(c, call, "dilations", w->n, 1, 1, w->dilation) ||
        !op_ints(c, call, "pads", 2 * w->n, 0, 0, pads))
        return false;
    bool none = op_string_is(call, "auto_pad", "NOTSET");
    for (uint32_t i = 0; i < w->n; i++) {
        w->in[i] = x->dim[2 + i];
        w->before[i] = expr_int(c, none ? pads[i] : 0);
        w->after[i] = expr_int(c, none ? pads[w->n + i] : 0);
    }
    return true;
}

/* Output extents of a convolution or a pool, and the padding of SAME_*. */
static bool
shrink(Ctx *c, const OpCall *call, ConvWindow *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const Expr *stride = expr_int(c, w->stride[i]);
        if (is_same(call)) {
            const Expr *o = expr_ceil_div(c, w->in[i], stride);
            const Expr *total = expr_sub(c,
                                         expr_add(c, expr_mul(c, expr_offset(c, o, -1), stride),
                                                  op_window_reach(c, w->kernel[i], w->dilation[i])),
                                         w->in[i]);
            share_padding(c, w, i, expr_simplify(c, NULL, expr_max(c, expr_int(c, 0), total)),
                          op_string_is(call, "auto_pad", "SAME_UPPER"));
            w->out[i] = expr_simplify(c, NULL, o);
            continue;
        }
        const Expr *padded = expr_add(c, w->in[i], expr_add(c, w->before[i], w->after[i]));
        const Expr *room = expr_sub(c, padded, op_window_reach(c, w->kernel[i], w->dilation[i]));
        /* By the specification's formula, a window that exceeds its padded input by at most a
         * stride gives no elements, and only a larger one is an error. Pools follow it; for a
         * convolution it is an error. */
        int64_t step = w->stride[i] < INT64_MAX / 4 ? w->stride[i] : INT64_MAX / 4;
        int64_t least = (w->ceil ? 1 - step : 0) - (w->may_be_empty ? step : 0);
        if (expr_le(c, NULL, expr_int(c, least), room) == NO)
            return op_fail(
                c, call, DIAG_MODEL,
                "the window reaches over %s elements of axis %u, which has %s with padding",
                expr_str(c, op_window_reach(c, w->kernel[i], w->dilation[i])), 2 + i,
                expr_str(c, padded));
        const Expr *o =
            expr_offset(c, w->ceil ? expr_ceil_div(c, room, stride) : expr_div(c, room, stride), 1);
        /* no window may begin beyond the input and its leading padding */
        if (w->ceil)
            o = expr_min(
                c, o,
                expr_offset(
                    c, expr_div(c, expr_offset(c, expr_add(c, w->in[i], w->before[i]), -1), stride),
                    1));
        w->out[i] = expr_simplify(c, NULL, o);
    }
    return true;
}

static const Type *
window_type(Ctx *c, const OpCall *call, DType t, const Expr *channels, const ConvWindow *w)
{
    const Expr *dim[TN_MAX_RANK + 2] = { call->in[0]->dim[0], channels };

    memcpy(dim + 2, w->out, w->n * sizeof *dim);
    return type_new(c, t, w->n + 2, dim);
}

/* A list being built: axes of a reduction, or indices. */
typedef struct {
    const char *at[TN_MAX_RANK + 1];
    uint32_t n;
} TextList;

static void
push(TextList *l, const char *item)
{
    l->at[l->n++] = item;
}

/* Axis `name` of a reduction, or "0" for one point. */
static const char *
over_axis(Build *b, TextList *over, const char *name, const Expr *extent)
{
    if (expr_is(extent, 1))
        return "0";
    push(over, arena_printf(b->c->arena, "%s<%s>", name, build_index(b, extent)));
    return name;
}

/* "sum q<64>, r0<3>: ", or nothing. */
static const char *
over_text(Build *b, const char *combiner, const TextList *over)
{
    Arena *a = b->c->arena;
    return over->n ? arena_printf(a, "%s %s: ", combiner, list_text(a, over->n, over->at)) : "";
}

/* The axes of the window, which are reduced, and the input's spatial indices. False if some may be
 * outside. */
static bool
window_texts(Build *b, const ConvWindow *w, TextList *over, const char **r, TextList *at)
{
    Arena *a = b->c->arena;
    bool inside = !w->ceil;

    for (uint32_t i = 0; i < w->n; i++) {
        r[i] = over_axis(b, over, arena_printf(a, "r%u", i), w->kernel[i]);
        push(at, arena_printf(a, "%s*%lld + %s*%lld - %s", build_axis_name(2 + i),
                              (long long)w->stride[i], r[i], (long long)w->dilation[i],
                              build_index(b, w->before[i])));
        inside = inside && expr_is(w->before[i], 0) && expr_is(w->after[i], 0);
    }
    return inside;
}

/* ---- convolution ----------------------------------------------------------------------------- */

static bool
conv_window(Ctx *c, const OpCall *call, ConvWindow *w)
{
    const Type *x = call->in[0], *f = call->in[1];
    int64_t kernel[TN_MAX_RANK];

    *w = (ConvWindow){ 0 };
    if (!op_rank_at_least(c, call, 0, 2) || !op_rank_is(c, call, 1, x->rank) ||
        !op_ints(c, call, "kernel_shape", x->rank - 2, 1, 0, kernel))
        return false;
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        w->kernel[i] = f->dim[2 + i];
        if (kernel[i] && !op_require_eq(c, call, f->dim[2 + i], expr_int(c, kernel[i]),
                                        "axis %u of the weights and kernel_shape", 2 + i))
            return false;
    }
    return read_frame(c, call, w);
}

static bool
conv_groups(Ctx *c, const OpCall *call, const Expr *split, const char *what, int64_t *group)
{
    *group = op_int(call, "group");
    if (*group < 1)
        return op_fail(c, call, DIAG_MODEL, "attribute \"group\" is %lld; at least 1 is needed",
                       (long long)*group);
    if (expr_divisible(c, NULL, split, *group) == NO)
        return op_fail(c, call, DIAG_MODEL, "%s, %s, cannot be split into %lld groups", what,
                       expr_str(c, split), (long long)*group);
    return op_require_multiple(c, call, split, expr_int(c, *group),
                               "%s and groups times their size", what);
}

static bool
infer_convolution(Ctx *c, const OpCall *call, DType t, const Type **out)
{
    const Type *x = call->in[0], *f = call->in[1];
    int64_t group;
    ConvWindow w;

    if (!conv_window(c, call, &w) || !shrink(c, call, &w) ||
        !conv_groups(c, call, f->dim[0], "axis 0 of the weights", &group) ||
        !op_require_eq(c, call, x->dim[1], expr_scale(c, f->dim[1], group),
                       "channels of the input %s and of the weights %s in %lld groups",
                       type_str(c, x), type_str(c, f), (long long)group))
        return false;
    out[0] = window_type(c, call, t, f->dim[0], &w);
    return true;
}

bool
infer_conv(Ctx *c, const OpCall *call, const Type **out)
{
    if (!op_same_dtype(c, call, 0, 1) || !op_same_dtype(c, call, 0, 2) ||
        !infer_convolution(c, call, call->in[0]->dtype, out))
        return false;
    return op_vector(c, call, 2, out[0]->dim[1], "the bias's extent and the output's channels");
}

bool
infer_conv_integer(Ctx *c, const OpCall *call, const Type **out)
{
    if (!op_elements(c, call, 0, "i8 or u8") || !op_elements(c, call, 1, "i8 or u8"))
        return false;
    for (uint32_t i = 2; i < 4; i++)
        for (uint32_t d = 0; has_in(call, i) && d < call->in[i]->rank; d++)
            if (!expr_is(call->in[i]->dim[d], 1) &&
                !op_require_eq(c, call, call->in[i]->dim[d],
                               i == 2 ? expr_int(c, 1) : call->in[1]->dim[0], "%s",
                               i == 2 ? "the zero point of input 0 and one number"
                                      : "the zero points of input 1 and its filters"))
                return false;
    return op_same_dtype(c, call, 0, 2) && op_same_dtype(c, call, 1, 3) &&
           infer_convolution(c, call, DT_I32, out);
}

/* The input's channel for output channel j and channel q of its group: q itself without groups, j
 * itself if each channel is a group. */
static const char *
group_channel(Build *b, const Expr *filters, const Expr *per_group, int64_t group, const char *q)
{
    Ctx *c = b->c;

    if (group == 1)
        return q;
    if (expr_is(filters, group) && expr_is(per_group, 1))
        return "j";
    return arena_printf(c->arena, "j // %s * %s + %s",
                        build_index(b, expr_div(c, filters, expr_int(c, group))),
                        build_index(b, per_group), q);
}

/* A zero point, one number or one per filter, as a text: a number if it is known; otherwise a read
 * of the tensor `name`, whose input is *value. */
static const char *
zero_point(Build *b, uint32_t input, const char *name, uint32_t *value)
{
    const char *known = build_constant(b, input), *at[TN_MAX_RANK];
    const Type *z = has_in(b->call, input) ? b->call->in[input] : NULL;

    *value = NO_SLOT;
    if (!z || known)
        return known;
    for (uint32_t d = 0; d < z->rank; d++)
        at[d] = expr_is(z->dim[d], 1) ? "0" : "j";
    *value = input;
    return arena_printf(b->c->arena, "%s[%s]", name, list_text(b->c->arena, z->rank, at));
}

/* i32(v) - i32(zero) */
static const char *
minus_zero(Arena *a, const char *v, const char *zero)
{
    return zero ? arena_printf(a, "(i32(%s) - i32(%s))", v, zero) : arena_printf(a, "i32(%s)", v);
}

bool
expand_conv(Build *b)
{
    Arena *a = b->c->arena;
    const OpCall *call = b->call;
    bool integer = call->op == OP_conv_integer;
    const Type *f = call->in[1];
    const char *r[TN_MAX_RANK], *zx = NULL, *zw = NULL;
    uint32_t value[] = { 0, 1, NO_SLOT, NO_SLOT, NO_SLOT, build_out(b, 0) };
    TextList over = { .n = 0 }, at = { { "i", NULL }, 2 };
    ConvWindow w;

    if (!conv_window(b->c, call, &w) || !shrink(b->c, call, &w))
        return false;
    if (integer) {
        zx = zero_point(b, 2, "xz", &value[2]);
        zw = zero_point(b, 3, "wz", &value[3]);
    } else if (has_in(call, 2)) {
        value[4] = 2;
    }
    const char *q = over_axis(b, &over, "q", f->dim[1]);
    at.at[1] = group_channel(b, f->dim[0], f->dim[1], op_int(call, "group"), q);
    bool inside = window_texts(b, &w, &over, r, &at);
    const char *x = arena_printf(a, "x[%s%s%s]", list_text(a, at.n, at.at), inside ? "" : " | ",
                                 inside ? ""
                                 : zx   ? zx
                                        : "0");
    const char *k = arena_printf(a, "w[j, %s%s%s]", q, w.n ? ", " : "", list_text(a, w.n, r));
    return build_text(b, NULL, "x w xz? wz? b? -> o", value, "o = (%s%s * %s)%s",
                      over_text(b, "sum", &over), integer ? minus_zero(a, x, zx) : x,
                      integer ? minus_zero(a, k, zw) : k, value[4] == NO_SLOT ? "" : " + b[j]");
}

/* ---- transposed convolution ------------------------------------------------------------------ */

static bool
grow(Ctx *c, const OpCall *call, ConvWindow *w)
{
    int64_t extra[TN_MAX_RANK], shape[TN_MAX_RANK];
    bool upper = op_string_is(call, "auto_pad", "SAME_UPPER");

    if (!op_ints(c, call, "output_padding", w->n, 0, 0, extra) ||
        !op_ints(c, call, "output_shape", w->n, 0, -1, shape))
        return false;
    for (uint32_t i = 0; i < w->n; i++) {
        const Expr *full =
            expr_add(c, expr_scale(c, expr_offset(c, w->in[i], -1), w->stride[i]),
                     expr_offset(c, op_window_reach(c, w->kernel[i], w->dilation[i]), extra[i]));
        if (shape[i] >= 0 || is_same(call)) {
            w->out[i] =
                shape[i] >= 0 ? expr_int(c, shape[i]) : expr_scale(c, w->in[i], w->stride[i]);
            share_padding(c, w, i, expr_sub(c, full, w->out[i]), upper);
        } else {
            w->out[i] = expr_sub(c, full, expr_add(c, w->before[i], w->after[i]));
        }
        w->out[i] = expr_simplify(c, NULL, w->out[i]);
    }
    return true;
}

bool
infer_conv_transpose(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *f = call->in[1];
    int64_t group;
    ConvWindow w;

    if (!op_same_dtype(c, call, 0, 1) || !op_same_dtype(c, call, 0, 2) ||
        !conv_window(c, call, &w) || !grow(c, call, &w) ||
        !conv_groups(c, call, f->dim[0], "axis 0 of the weights", &group) ||
        !op_require_eq(c, call, x->dim[1], f->dim[0],
                       "channels of the input and axis 0 of the weights"))
        return false;
    const Expr *channels = expr_scale(c, f->dim[1], group);
    out[0] = window_type(c, call, x->dtype, channels, &w);
    return op_vector(c, call, 2, channels, "the bias's extent and the output's channels");
}

/* Output point y gets input point p through window point r if y + before = p * stride + r *
 * dilation. Without dilation, the matching r are (y + before) % stride + stride * j, one j per
 * step, so nothing is multiplied by zero; with dilation, all r are tested. */
bool
expand_conv_transpose(Build *b)
{
    Ctx *c = b->c;
    Arena *a = c->arena;
    const OpCall *call = b->call;
    const Type *f = call->in[1];
    int64_t group = op_int(call, "group");
    const char *fits = NULL;
    bool whole = true;
    ConvWindow w;

    if (!conv_window(c, call, &w) || !grow(c, call, &w))
        return false;
    build_name(b, "each", expr_div(c, f->dim[0], expr_int(c, group)));
    build_name(b, "made", f->dim[1]);
    const char *channel = group == 1 ? "q" : "j // made * each + q";
    TextList over = { { "q<each>" }, 1 }, at_x = { { "i", channel }, 2 },
             at_w = { { channel, group == 1 ? "j" : "j % made" }, 2 };
    for (uint32_t i = 0; i < w.n; i++) {
        const Expr *stride = expr_int(c, w.stride[i]);
        long long step = w.stride[i];
        bool stepped = w.dilation[i] == 1;
        const char *r = over_axis(b, &over, arena_printf(a, "r%u", i),
                                  stepped ? expr_ceil_div(c, w.kernel[i], stride) : w.kernel[i]);
        const char *y =
            arena_printf(a, "(%s + %s)", build_axis_name(2 + i), build_index(b, w.before[i]));
        if (stepped) {
            push(&at_x, arena_printf(a, "%s // %lld - %s", y, step, r));
            push(&at_w, arena_printf(a, "%s %% %lld + %s*%lld", y, step, r, step));
            whole = whole && expr_divisible(c, NULL, w.kernel[i], w.stride[i]) == YES;
            continue;
        }
        const char *from = arena_printf(a, "(%s - %s*%lld)", y, r, (long long)w.dilation[i]);
        push(&at_x, arena_printf(a, "%s // %lld", from, step));
        push(&at_w, r);
        if (step > 1) {
            const char *fit = arena_printf(a, "index(%s %% %lld) == 0", from, step);
            fits = fits ? arena_printf(a, "and(%s, %s)", fits, fit) : fit;
        }
    }
    const char *product = arena_printf(a, "x[%s | 0] * w[%s%s]", list_text(a, at_x.n, at_x.at),
                                       list_text(a, at_w.n, at_w.at), whole ? "" : " | 0");
    if (fits)
        product = arena_printf(a, "%s ? %s : 0", fits, product);
    return build_text(b, NULL, "x w b? -> o", NULL, "o = (%s%s)%s", over_text(b, "sum", &over),
                      product, has_in(call, 2) ? " + b[j]" : "");
}

/* ---- pools ----------------------------------------------------------------------------------- */

static bool
pool_window(Ctx *c, const OpCall *call, ConvWindow *w)
{
    const Type *x = call->in[0];
    int64_t kernel[TN_MAX_RANK];

    *w = (ConvWindow){ .ceil = op_int(call, "ceil_mode") != 0, .may_be_empty = true };
    if (!op_rank_at_least(c, call, 0, 3))
        return false;
    if (!attr_find(call->attrs, "kernel_shape"))
        return op_fail(c, call, DIAG_MODEL, "attribute \"kernel_shape\" is missing");
    if (!op_ints(c, call, "kernel_shape", x->rank - 2, 1, 1, kernel))
        return false;
    for (uint32_t i = 0; i + 2 < x->rank; i++)
        w->kernel[i] = expr_int(c, kernel[i]);
    return read_frame(c, call, w) && shrink(c, call, w);
}

bool
infer_pool(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    ConvWindow w;

    if (!pool_window(c, call, &w))
        return false;
    out[0] = window_type(c, call, x->dtype, x->dim[1], &w);
    return true;
}

/* The number of window points at an output point that count, along one axis: those r with lo <= o *
 * stride + r * dilation - before < hi. */
static const Expr *
points_inside(Ctx *c, const ConvWindow *w, uint32_t i, const Expr *o, bool padding_counts)
{
    const Expr *zero = expr_int(c, 0), *step = expr_int(c, w->dilation[i]);
    const Expr *lo = padding_counts ? expr_sub(c, zero, w->before[i]) : zero;
    const Expr *hi = padding_counts ? expr_add(c, w->in[i], w->after[i]) : w->in[i];
    bool padded = !expr_is(w->before[i], 0) || !expr_is(w->after[i], 0);

    if (!w->ceil && (padding_counts || !padded))
        return w->kernel[i];
    const Expr *start = expr_sub(c, expr_scale(c, o, w->stride[i]), w->before[i]);
    const Expr *first = expr_max(c, zero, expr_ceil_div(c, expr_sub(c, lo, start), step));
    const Expr *end = expr_min(c, w->kernel[i], expr_ceil_div(c, expr_sub(c, hi, start), step));
    return expr_sub(c, end, first);
}

bool
expand_pool(Build *b)
{
    Combiner k = b->call->op == OP_max_pool ? COMB_MAX : COMB_SUM;
    Ctx *c = b->c;
    Arena *a = c->arena;
    const char *r[TN_MAX_RANK], *root = "", *divisor = "";
    TextList over = { .n = 0 }, at = { { "i", "j" }, 2 };
    ConvWindow w;

    if (!pool_window(c, b->call, &w))
        return false;
    bool inside = window_texts(b, &w, &over, r, &at);
    const char *v = arena_printf(
        a, "x[%s%s%s]", list_text(a, at.n, at.at), inside ? "" : " | ",
        inside ? "" : constant_text(a, combiner_identity(c, k, b->call->in[0]->dtype)));
    if (b->call->op == OP_lp_pool) {
        double p = (double)op_int(b->call, "p");
        v = arena_printf(a, "pow(abs(%s), %.17g)", v, p);
        root = arena_printf(a, ", %.17g)", 1 / p);
    }
    if (b->call->op == OP_average_pool) {
        const Expr *count = expr_int(c, 1);
        for (uint32_t i = 0; i < w.n; i++)
            count = expr_mul(c, count,
                             points_inside(c, &w, i, build_axis(b, 2 + i),
                                           op_int(b->call, "count_include_pad") != 0));
        divisor = arena_printf(a, " / $T(%s)", build_index(b, count));
    }
    return build_text(b, NULL, "x -> o", NULL, "o = %s(%s%s)%s%s", *root ? "pow(" : "",
                      over_text(b, combiner_name[k], &over), v, root, divisor);
}
