/* slice: splits tensors along axes and joins them: slice, split, concat, pad. */
#include "op/build.h"

#include <string.h>

/* ---- slice ----------------------------------------------------------------------------------- */

#define MAX_STEP ((int64_t)1 << 47) /* elements; processors address 2^47 bytes */

typedef struct {
    const Expr *start, *extent;
    int64_t step;
} SliceRange;

/* 1 where e >= 0, else 0, as arithmetic. */
static const Expr *
not_negative(Ctx *c, const Expr *e)
{
    return expr_min(c, expr_int(c, 1), expr_max(c, expr_int(c, 0), expr_offset(c, e, 1)));
}

/* A bound as in numpy: negative counts from the end, then clamped to [lo, hi]. */
static const Expr *
clamp_bound(Ctx *c, const Expr *e, const Expr *dim, const Expr *lo, const Expr *hi)
{
    /* exporters write "to the end" as one of several huge numbers */
    const int64_t far = INT32_MAX;
    int64_t v;

    if (expr_const(e, &v) && v >= far)
        return hi;
    if (expr_const(e, &v) && v <= -far)
        return lo;
    if (expr_le(c, NULL, expr_int(c, 0), e) != YES) {
        const Expr *behind =
            expr_le(c, NULL, e, expr_int(c, -1)) == YES
                ? dim
                : expr_mul(c, dim, expr_sub(c, expr_int(c, 1), not_negative(c, e)));
        e = expr_add(c, e, behind);
    }
    return expr_simplify(c, NULL, expr_max(c, lo, expr_min(c, e, hi)));
}

static SliceRange
cut_dim(Ctx *c, const Expr *dim, const Expr *start, const Expr *end, int64_t step)
{
    const Expr *zero = expr_int(c, 0), *last = expr_offset(c, dim, -1);
    SliceRange cut = { .step = step };

    if (step > 0) {
        cut.start = clamp_bound(c, start, dim, zero, dim);
        end = clamp_bound(c, end, dim, zero, dim);
        cut.extent = expr_ceil_div(c, expr_sub(c, end, cut.start), expr_int(c, step));
    } else {
        /* -1 if there are no elements */
        cut.start =
            expr_simplify(c, NULL, expr_min(c, last, clamp_bound(c, start, dim, zero, last)));
        end = clamp_bound(c, end, dim, expr_int(c, -1), last);
        cut.extent = expr_ceil_div(c, expr_sub(c, cut.start, end), expr_int(c, -step));
    }
    cut.extent = expr_simplify(c, NULL, expr_max(c, zero, expr_simplify(c, NULL, cut.extent)));
    if (expr_le(c, NULL, cut.extent, expr_int(c, 1)) == YES)
        /* never used: steps of slices of slices would overflow 64 bits */
        cut.step = 1;
    return cut;
}

static bool
slice_cuts(Ctx *c, const OpCall *call, SliceRange *cut)
{
    const Type *x = call->in[0];
    Known start, end;
    int64_t axis[TN_MAX_RANK], step[TN_MAX_RANK];
    uint32_t naxis, nstep;

    for (uint32_t d = 0; d < x->rank; d++)
        cut[d] = (SliceRange){ expr_int(c, 0), x->dim[d], 1 };
    if (!op_param(c, call, 1, "starts", &start) || !op_param(c, call, 2, "ends", &end))
        return false;
    naxis = nstep = start.n;
    if (start.n > x->rank || end.n != start.n)
        return op_fail(c, call, DIAG_MODEL, "%u starts and %u ends for input 0, %s", start.n, end.n,
                       type_str(c, x));
    for (uint32_t i = 0; i < start.n; i++)
        axis[i] = i, step[i] = 1;
    if (has_in(call, 3) && !op_param_ints(c, call, 3, "axes", TN_MAX_RANK, axis, &naxis))
        return false;
    if (has_in(call, 4) && !op_param_ints(c, call, 4, "steps", TN_MAX_RANK, step, &nstep))
        return false;
    if (naxis != start.n || nstep != start.n)
        return op_fail(c, call, DIAG_MODEL, "%u starts, %u axes and %u steps", start.n, naxis,
                       nstep);
    for (uint32_t i = 0; i < start.n; i++) {
        uint32_t d;
        if (!op_axis(c, call, "an entry of axes", axis[i], x->rank, &d))
            return false;
        if (step[i] == 0)
            return op_fail(c, call, DIAG_MODEL, "the step along axis %u is 0", d);
        /* also beyond the end */
        step[i] = step[i] > MAX_STEP ? MAX_STEP : step[i] < -MAX_STEP ? -MAX_STEP : step[i];
        cut[d] = cut_dim(c, x->dim[d], start.at[i], end.at[i], step[i]);
    }
    return true;
}

bool
infer_slice(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    SliceRange cut[TN_MAX_RANK];

    if (!slice_cuts(c, call, cut))
        return false;
    for (uint32_t d = 0; d < call->in[0]->rank; d++)
        dim[d] = cut[d].extent;
    out[0] = type_new(c, call->in[0]->dtype, call->in[0]->rank, dim);
    return true;
}

bool
expand_slice(Build *b)
{
    const Expr *at[TN_MAX_RANK];
    SliceRange cut[TN_MAX_RANK];

    if (!slice_cuts(b->c, b->call, cut))
        return false;
    for (uint32_t d = 0; d < b->out[0]->rank; d++)
        at[d] = expr_add(b->c, cut[d].start, expr_scale(b->c, build_axis(b, d), cut[d].step));
    return build_move(b, 0, build_out(b, 0), at);
}

/* ---- split ----------------------------------------------------------------------------------- */

static bool
split_sizes(Ctx *c, const OpCall *call, uint32_t axis, const Expr **size)
{
    const Expr *dim = call->in[0]->dim[axis], *total = expr_int(c, 0);
    int64_t n = call->nout, whole;
    Known given;

    if (has_in(call, 1)) {
        if (!op_param_list(c, call, 1, "split", call->nout, &given))
            return false;
        for (uint32_t i = 0; i < n; i++)
            total = expr_add(c, total, size[i] = given.at[i]);
        return op_require_eq(c, call, total, dim,
                             "the sum of the parts and the axis that is split");
    }
    if (expr_const(dim, &whole)) {
        int64_t part = (whole + n - 1) / n;
        for (int64_t i = 0; i < n; i++) {
            int64_t left = whole - i * part;
            size[i] = expr_int(c, left < 0 ? 0 : left < part ? left : part);
        }
        return true;
    }
    const Expr *part = expr_exact_div(c, dim, expr_int(c, n));
    if (!part)
        part = expr_div(c, dim, expr_int(c, n));
    for (int64_t i = 0; i < n; i++)
        size[i] = part;
    return op_require_eq(c, call, dim, expr_scale(c, part, n),
                         "the axis that is split and a multiple of its equal parts");
}

bool
infer_split(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr **size = NEW_ARRAY(c->arena, const Expr *, call->nout), *dim[TN_MAX_RANK];
    uint32_t axis;

    if (!op_axis_attr(c, call, x->rank, &axis) || !split_sizes(c, call, axis, size))
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = x->dim[d];
    for (uint32_t i = 0; i < call->nout; i++) {
        dim[axis] = size[i];
        out[i] = type_new(c, x->dtype, x->rank, dim);
    }
    return true;
}

bool
expand_split(Build *b)
{
    const Expr *begin = expr_int(b->c, 0), *at[TN_MAX_RANK];
    const Expr **size = NEW_ARRAY(b->c->arena, const Expr *, b->call->nout);
    uint32_t rank = b->call->in[0]->rank, d = build_along_axis(b, rank);

    if (!split_sizes(b->c, b->call, d, size))
        return false;
    for (uint32_t k = 0; k < rank; k++)
        at[k] = build_axis(b, k);
    for (uint32_t i = 0; i < b->call->nout; begin = expr_add(b->c, begin, size[i++])) {
        at[d] = expr_add(b->c, build_axis(b, d), begin);
        if (b->out[i] && !build_move(b, 0, build_out(b, i), at))
            return false;
    }
    return true;
}

/* ---- concat ---------------------------------------------------------------------------------- */

bool
infer_concat(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t axis, rank = call->in[0]->rank;

    if (!attr_find(call->attrs, "axis"))
        return op_fail(c, call, DIAG_MODEL, "attribute \"axis\" is missing");
    if (!op_axis_attr(c, call, rank, &axis))
        return false;
    memcpy(dim, call->in[0]->dim, rank * sizeof *dim);
    for (uint32_t i = 1; i < call->nin; i++) {
        const Type *x = call->in[i];
        if (!x)
            return op_fail(c, call, DIAG_MODEL, "input %u is absent, but it is not optional", i);
        if (!op_same_dtype(c, call, 0, i) || !op_rank_is(c, call, i, rank))
            return false;
        for (uint32_t d = 0; d < rank; d++)
            if (d == axis)
                dim[d] = expr_add(c, dim[d], x->dim[d]);
            else if (!op_require_eq(c, call, dim[d], x->dim[d], "axis %u of inputs 0 and %u", d, i))
                return false;
            else if (expr_const(x->dim[d], NULL))
                dim[d] = x->dim[d];
    }
    out[0] = type_new(c, call->in[0]->dtype, rank, dim);
    return true;
}

typedef struct {
    Build *b;
    uint32_t d, rank;
    const Expr **first; /* the begin of each part */
} ConcatBuild;

/* Element $i of inputs [from, to) of the concatenation: i < first[mid] ? of the left half : of the
 * right half. A chain would be as deep as the number of inputs, and models have hundreds. Two and
 * three inputs are the chain. */
static const char *
concat_text(const ConcatBuild *v, uint32_t from, uint32_t to)
{
    Build *b = v->b;
    const Expr *at[TN_MAX_RANK];
    uint32_t mid = from + (to - from) / 2;

    if (to - from > 1)
        return arena_printf(b->c->arena, "%s < %s ? %s : (%s)", build_axis_name(v->d),
                            build_index(b, v->first[mid]), concat_text(v, from, mid),
                            concat_text(v, mid, to));
    for (uint32_t d = 0; d < v->rank; d++)
        at[d] = build_axis(b, d);
    at[v->d] = expr_sub(b->c, at[v->d], v->first[from]);
    return arena_printf(b->c->arena, "x%u[%s]", from, build_indices(b, v->rank, at));
}

/* One of several values along dimension d. */
static bool
concat_nest(Build *b, uint32_t d, const char *suffix, const uint32_t *part, uint32_t n, uint32_t to)
{
    Ctx *c = b->c;
    Text params = { .arena = c->arena };
    const Expr *begin = expr_int(c, 0), **first = NEW_ARRAY(c->arena, const Expr *, n);
    uint32_t value[MOST_OPERANDS + 1];

    for (uint32_t i = 0; i < n; i++) {
        text_printf(&params, "x%u ", i);
        value[i] = part[i];
        first[i] = begin;
        begin = expr_add(c, begin, build_type(b, part[i])->dim[d]);
    }
    text_add(&params, "-> o");
    value[n] = to;
    ConcatBuild whole = { b, d, build_type(b, to)->rank, first };
    return build_text(b, suffix, text_str(&params), value, "o = %s", concat_text(&whole, 0, n));
}

/* Empty inputs are dropped. Many inputs are joined in several nests. */
bool
expand_concat(Build *b)
{
    Ctx *c = b->c;
    const OpCall *call = b->call;
    uint32_t *part = NEW_ARRAY(c->arena, uint32_t, call->nin), n = 0,
             d = build_along_axis(b, call->in[0]->rank);

    b->moves = true;
    for (uint32_t i = 0; i < call->nin; i++)
        if (!expr_is(call->in[i]->dim[d], 0) || (!n && i + 1 == call->nin))
            part[n++] = i;
    for (uint32_t left; n > MOST_OPERANDS; n = left) {
        left = 0;
        for (uint32_t i = 0; i < n; i += MOST_OPERANDS) {
            uint32_t some = n - i < MOST_OPERANDS ? n - i : MOST_OPERANDS;
            const Expr *dim[TN_MAX_RANK], *all = expr_int(c, 0);
            for (uint32_t k = 0; k < some; k++)
                all = expr_add(c, all, build_type(b, part[i + k])->dim[d]);
            memcpy(dim, b->out[0]->dim, sizeof dim);
            dim[d] = all;
            uint32_t to =
                some == 1 ? part[i] : build_value(b, b->out[0]->dtype, b->out[0]->rank, dim);
            if (some > 1 && !concat_nest(b, d, "some", part + i, some, to))
                return false;
            part[left++] = to;
        }
    }
    return concat_nest(b, d, NULL, part, n, build_out(b, 0));
}

/* ---- pad ------------------------------------------------------------------------------------- */

/* Elements added before and after each axis; negative ones crop. */
static bool
pad_widths(Ctx *c, const OpCall *call, const Expr **before, const Expr **after)
{
    uint32_t rank = call->in[0]->rank, n = 0;
    int64_t axis[TN_MAX_RANK];
    Known pads;

    if (!op_param(c, call, 1, "pads", &pads))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        before[d] = after[d] = expr_int(c, 0);
        axis[n++] = d;
    }
    if (has_in(call, 3) && !op_param_ints(c, call, 3, "axes", TN_MAX_RANK, axis, &n))
        return false;
    if (pads.n != 2 * n)
        return op_fail(c, call, DIAG_MODEL,
                       "input 1 (pads) has %u entries for %u axes; two for each are needed", pads.n,
                       n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d;
        if (!op_axis(c, call, "an entry of axes", axis[i], rank, &d))
            return false;
        before[d] = pads.at[i];
        after[d] = pads.at[n + i];
    }
    return true;
}

/* The size of an axis after negative widths crop it. */
static const Expr *
pad_left(Ctx *c, const Expr *n, const Expr *before, const Expr *after)
{
    const Expr *zero = expr_int(c, 0);
    return expr_sub(c, expr_sub(c, n, expr_max(c, zero, expr_sub(c, zero, before))),
                    expr_max(c, zero, expr_sub(c, zero, after)));
}

/* Are there elements to fill axis d with? An axis of symbolic size is reflected at most once, since
 * several reflections need a division for each element. */
static bool
pad_has_source(Ctx *c, const OpCall *call, char mode, uint32_t d, const Expr *before,
               const Expr *after)
{
    const Expr *n = call->in[0]->dim[d], *zero = expr_int(c, 0), *one = expr_int(c, 1),
               *left = pad_left(c, n, before, after);

    if (expr_le(c, NULL, before, zero) == YES && expr_le(c, NULL, after, zero) == YES)
        return true;
    if (!op_require_le(c, call, one, left, "an element to fill axis %u with", d))
        return false;
    if (mode != 'r' || expr_const(n, NULL))
        return true;
    return op_require_le(c, call, expr_offset(c, before, 1), n,
                         "what is reflected before axis %u, with its edge, and the axis", d) &&
           op_require_le(c, call, expr_offset(c, after, 1), n,
                         "what is reflected behind axis %u, with its edge, and the axis", d);
}

bool
infer_pad(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *before[TN_MAX_RANK], *after[TN_MAX_RANK], *dim[TN_MAX_RANK];
    const char *mode = op_string(c, call, "mode");

    if (!op_same_dtype(c, call, 0, 2) || !pad_widths(c, call, before, after))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        dim[d] = expr_add(c, x->dim[d], expr_add(c, before[d], after[d]));
        if (*mode != 'c' && !pad_has_source(c, call, *mode, d, before[d], after[d]))
            return false;
    }
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

/* The index to read instead of one outside of [0, n). Wrapping uses the elements that negative
 * widths leave. */
static const Expr *
fold_index(Ctx *c, char mode, const Expr *i, const Expr *n, const Expr *before, const Expr *after)
{
    const Expr *zero = expr_int(c, 0), *last = expr_offset(c, n, -1);

    if (mode == 'e')
        return expr_max(c, zero, expr_min(c, i, last));
    if (mode == 'w') {
        const Expr *cut = expr_max(c, zero, expr_sub(c, zero, before));
        return expr_add(c,
                        expr_mod(c, expr_sub(c, i, cut),
                                 expr_max(c, expr_int(c, 1), pad_left(c, n, before, after))),
                        cut);
    }
    /* several reflections */
    if (expr_const(n, NULL) &&
        (expr_le(c, NULL, before, last) != YES || expr_le(c, NULL, after, last) != YES)) {
        const Expr *period = expr_max(c, expr_int(c, 1), expr_scale(c, last, 2)),
                   *at = expr_mod(c, i, period);
        return expr_min(c, at, expr_sub(c, period, at));
    }
    const Expr *up = expr_max(c, i, expr_sub(c, zero, i)), *over = expr_sub(c, last, up);
    return expr_sub(c, last, expr_max(c, over, expr_sub(c, zero, over)));
}

bool
expand_pad(Build *b)
{
    Ctx *c = b->c;
    Arena *a = c->arena;
    const Type *x = b->call->in[0];
    const Expr *before[TN_MAX_RANK], *after[TN_MAX_RANK], *at[TN_MAX_RANK];
    char mode = op_string(c, b->call, "mode")[0];
    bool given = mode == 'c' && has_in(b->call, 2);
    const char *value = given ? build_constant(b, 2) : "0", *inside = NULL;
    uint32_t params[] = { 0, given && !value ? 2 : NO_SLOT, build_out(b, 0) };

    b->moves = true;
    if (!pad_widths(c, b->call, before, after))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        at[d] = expr_sub(c, build_axis(b, d), before[d]);
        if (expr_is(before[d], 0) && expr_is(after[d], 0))
            continue;
        if (mode != 'c')
            at[d] = fold_index(c, mode, at[d], x->dim[d], before[d], after[d]);
        const char *i = build_index(b, at[d]);
        i = arena_printf(a, "and(%s >= 0, %s < %s)", i, i, build_index(b, x->dim[d]));
        inside = inside ? arena_printf(a, "and(%s, %s)", inside, i) : i;
    }
    const char *index = build_indices(b, x->rank, at);
    if (mode != 'c' || !inside)
        return build_text(b, NULL, "x value? -> o", params, "o = x[%s]", index);
    return value ? build_text(b, NULL, "x value? -> o", params, "o = x[%s | %s]", index, value)
                 : build_text(b, NULL, "x value? -> o", params, "o = %s ? x[%s] : value[]", inside,
                              index);
}
