/* sizes: shapes, axes and bounds that the model computes from data.
 *
 * Operators of Tenon take their parameters as known contents. If they come from data, operators on
 * small integer tensors compute the resulting sizes, these become symbols (graph_match), and the
 * node becomes operators over those: a reshape to symbolic sizes, a gather by computed indices.
 * Special values of parameters (-1, 0, negative axes) are resolved first, so that a symbol is a
 * size.
 */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <string.h>

/* The number of elements of a list; -1, reported, if that is not fixed. */
static int64_t
length(Call *k, const char *name)
{
    const ValueId v = call_value(k, name);
    int64_t n = list_length(k, v);

    if (!v || (call_type(k, name)->rank <= 1 && n >= 0 && n <= 2 * TN_MAX_RANK))
        return n;
    list_refuse(k, v, name);
    return -1;
}

static bool
length_is_open(const Call *k, const char *name)
{
    const ValueId v = call_value(k, name);

    return v && value_type(k, v)->rank == 1 && list_length(k, v) < 0;
}

/* Lists of symbolic lengths: is one `times` as long as the other? Runs check it. */
static bool
as_long_as(Call *k, const char *name, const char *other, int64_t times)
{
    const Expr *n = call_type(k, name)->dim[0],
               *wanted = expr_scale(k->c, call_type(k, other)->dim[0], times);

    return model_require(
               k->m, n, wanted,
               arena_printf(k->c->arena, "%s: the lengths of %s and %s", k->origin, other, name)) ||
           call_wrong(k, "the lengths of %s and %s do not fit together: %s and %s", name, other,
                      expr_str(k->c, n), expr_str(k->c, wanted));
}

/* The number of axes of x in a list; -1, reported: more than its rank, or not fixed. */
static int64_t
axes_length(Call *k)
{
    const Type *t = call_type(k, "x");
    int64_t n = length(k, "axes");

    if (n <= t->rank)
        return n;
    call_refuse(k, "%lld axes of %s", (long long)n, type_str(k->c, t));
    return -1;
}

/* mask: i64[r], 1 where an axis of $every is among axes[n]. */
#define MASK                                                                                       \
    "all = $every\n"                                                                               \
    "same = unsqueeze(gather(all, axes), [1]) == all\n"                                            \
    "mask = reduce_max(i64(same), [0]) {keepdims = 0}\n"

/* sizes: those of x where mask is 0. The index of the j-th of $kept is the number of positions with
 * a running count of at most j. */
#define KEPT(when)                                                                                 \
    when "sizes = shape(x)\n" when "count = unsqueeze(cum_sum(1 - mask, 0), [0])\n" when           \
         "before = i64(count <= unsqueeze($kept, [1]))\n" when                                     \
         "sizes = gather(sizes, reduce_sum(before, [1]) {keepdims = 0})\n"

/* "1, 1, ": n ones before the list's elements. */
static const char *
ones_text(Call *k, int64_t n)
{
    Text t = { .arena = k->arena };

    for (int64_t i = 0; i < n; i++)
        text_add(&t, "1, ");
    return text_str(&t);
}

bool
call_is_open(const Call *k, uint32_t i)
{
    ValueId v = i < k->in.n ? k->in.at[i] : 0;
    const Value *value = &k->m->g->value.at[v];
    return v && !value->known.at && !value->data && !expr_is(type_count(k->c, value->type), 0);
}

/* ---- another shape --------------------------------------------------------------------------- */

/* 0 copies a dimension, -1 is the remainder. */
static bool
size_reshape(Call *k)
{
    int64_t n, copied[2 * TN_MAX_RANK];

    if (!call_names(k, "x *shape -> y") || (n = length(k, "shape")) < 0)
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    for (uint32_t i = 0; i < n; i++)
        copied[i] = i < rank ? i : rank - 1;
    call_fact(k, "copied",
              rank && !get_int(k, "allowzero", 0) ? ints_text(k, (uint32_t)n, copied) : "");
    return call_text(k, "$copied? shape = where(shape == 0, gather(shape(x), $copied), shape)\n"
                        "left = shape == -1\n"
                        "unknown = reduce_sum(i64(left)) {keepdims = 0}\n"
                        "demand unknown < 2 \"more than one entry of the new shape is -1\"\n"
                        "rest = reduce_prod(where(left, 1, shape)) {keepdims = 0}\n"
                        "shape = match(where(left, size(x) / max(rest, 1), shape))\n"
                        "y = reshape(x, shape) {allowzero = 1}");
}

static bool
size_squeeze(Call *k)
{
    int64_t n;

    if (!call_names(k, "x *axes -> y") || (n = axes_length(k)) < 0)
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    call_fact(k, "kept", below_text(k, rank - (uint32_t)n));
    return call_text(k, MASK KEPT("") "y = reshape(x, match(sizes, x)) {allowzero = 1}");
}

/* New axes have one element; the others come in order. */
static bool
size_unsqueeze(Call *k)
{
    int64_t n;

    if (!call_names(k, "x *axes -> y") || (n = length(k, "axes")) < 0)
        return false;
    const uint32_t old = input_type(k, 0)->rank, rank = old + (uint32_t)n;
    if (rank > TN_MAX_RANK)
        return call_refuse(k, "%lld new axes for %s", (long long)n,
                           type_str(k->c, input_type(k, 0)));
    call_fact(k, "every", below_text(k, rank));
    call_number(k, "old", old);
    return call_text(k,
                     MASK "$old? sizes = gather(shape(x), max(cum_sum(1 - mask, 0) - 1, 0))\n"
                          "!$old? sizes = [1]\n"
                          "y = reshape(x, match(where(bool(mask), 1, sizes), x)) {allowzero = 1}");
}

/* Broadcast to a shape, both ways. */
static bool
size_expand(Call *k)
{
    Ctx *c = k->c;
    int64_t n;

    if (!call_names(k, "x *shape -> y"))
        return false;
    const uint32_t r = input_type(k, 0)->rank;
    /* its last r elements, after ones: the result has no larger rank */
    if (length_is_open(k, "shape") && result_rank(k) == r) {
        const Expr *is = call_type(k, "shape")->dim[0];
        const Constraint needed = {
            expr_min(c, is, expr_int(c, r)), is,
            arena_printf(c->arena, "%s: the length of the shape", k->origin),
            arena_printf(c->arena, "%s has to be at most %u", expr_str(c, is), r)
        };
        if (!model_require_said(k->m, needed))
            return call_wrong(k, "shape is of type %s, the result has rank %u",
                              type_str(c, call_type(k, "shape")), r);
        if (!call_text(k, "shape = gather([%sshape], shape(shape) + %s)", ones_text(k, r),
                       below_text(k, r)))
            return false;
    }
    if ((n = length(k, "shape")) < 0)
        return false;
    return call_text(k,
                     "old = [%sshape(x)]\n"
                     "new = [%sshape]\n"
                     "y = expand(x, match(where(new == 1, old, new)))",
                     ones_text(k, n - r), ones_text(k, r - n));
}

/* ---- along axes from data -------------------------------------------------------------------- */

/* Every axis of n elements becomes two: those that stay, then those that are reduced; one of them
 * is 1. Roots and logarithms of sums of integers are computed in f64. */
static bool
size_reduce(Call *k)
{
    int64_t order[2 * TN_MAX_RANK], odd[TN_MAX_RANK];
    const Expr *most[2 * TN_MAX_RANK];

    if (!call_names(k, "x *axes -> y"))
        return false;
    const Type *t = input_type(k, 0);
    const bool keep = get_int(k, "keepdims", 1) != 0, open = keep && length_is_open(k, "axes");
    const int64_t n = open ? 0 : axes_length(k);
    if (n < 0)
        return false;
    if (2 * t->rank > TN_MAX_RANK)
        return call_refuse(k, "a reduction of %s over axes from data; the rank can be at most %d",
                           type_str(k->c, t), TN_MAX_RANK / 2);
    for (uint32_t d = 0; d < t->rank; d++) {
        order[2 * d] = d;
        order[2 * d + 1] = t->rank + d;
        odd[d] = 2 * d + 1;
        most[2 * d] = most[2 * d + 1] = expr_max(k->c, t->dim[d], expr_int(k->c, 1));
    }
    call_number(k, "as_f64",
                dtype_is_int(t->dtype) && (k->op == OP_reduce_l2 || k->op == OP_reduce_log_sum ||
                                           k->op == OP_reduce_log_sum_exp));
    call_number(k, "open", open);
    call_number(k, "keep", keep);
    call_number(k, "of_none", !get_int(k, "noop_with_empty_axes", 0));
    call_fact(k, "kept", below_text(k, t->rank - (uint32_t)n));
    call_fact(k, "order", ints_text(k, 2 * t->rank, order));
    call_fact(k, "odd", ints_text(k, t->rank, odd));
    call_fact(k, "type", dtype_info[t->dtype].name);
    call_text(k, "$as_f64? x = f64(x)\n" MASK
                 /* without axes the mask has no effect: all of them, or none */
                 "$open? mask = where(shape(axes) == 0, $of_none, mask)\n"
                 "sizes = shape(x)\n"
                 "set = bool(mask)\n"
                 "pairs = gather([where(set, 1, sizes), where(set, sizes, 1)], $order)");
    call_name(k, "pairs", call_match(k, call_value(k, "pairs"), most));
    return call_text(k, "pairs = reshape(x, pairs) {allowzero = 1}\n"
                        "y = self(pairs, $odd) {keepdims = 0}\n" KEPT(
                            "!$keep? ") "!$keep? y = reshape(y, match(sizes, x)) {allowzero = 1}\n"
                                        "y = $type(y)");
}

/* around: the products of `sizes` before the axis of $every, its size, and those after it, of
 * $sized. */
#define AROUND                                                                                     \
    "at = gather($every, axis)\n"                                                                  \
    "all = $sized\n"                                                                               \
    "before = reduce_prod(where(all < at, sizes, 1), [0]) {keepdims = 0}\n"                        \
    "here = reduce_prod(where(all == at, sizes, 1), [0]) {keepdims = 0}\n"                         \
    "behind = reduce_prod(where(all > at, sizes, 1), [0]) {keepdims = 0}\n"                        \
    "around = match([reshape(before, [-1]), reshape(here, [-1]), reshape(behind, [-1])])\n"

/* A running sum along an axis from data: x reshaped to outer dimensions, the axis, and inner
 * dimensions. */
static bool
size_cum_sum(Call *k)
{
    if (!call_names(k, "x *axis -> y"))
        return false;
    if (!input_type(k, 0)->rank || length(k, "axis") != 1)
        return call_refuse(k, "a running sum of %s", type_str(k->c, input_type(k, 0)));
    call_fact(k, "sized", "$every");
    return call_text(k, "sizes = shape(x)\n" AROUND "parts = reshape(x, around) {allowzero = 1}\n"
                        "y = reshape(self(parts, 1) {*}, sizes) {allowzero = 1}");
}

/* The same for a transform; the last axis, of components, stays. */
static bool
size_dft(Call *k)
{
    if (!call_names(k, "x ? length *axis -> y"))
        return false;
    const uint32_t all = input_type(k, 0)->rank;
    if (all < 2 || length(k, "axis") != 1)
        return call_refuse(k, "DFT of %s along an axis from data",
                           type_str(k->c, input_type(k, 0)));
    call_fact(k, "sized", below_text(k, all - 1));
    call_number(k, "last", all - 1);
    return call_text(k, "sizes = gather(shape(x), $sized)\n" AROUND
                        "parts = reshape(x, [around, shape(x)[$last]]) {allowzero = 1}\n"
                        "parts = self(parts, length, [1]) {*}\n"
                        "is = $sized == gather($every, axis)\n"
                        "to = match(where(is, shape(parts)[1], sizes))\n"
                        "y = reshape(parts, [to, shape(parts)[3]]) {allowzero = 1}");
}

/* ---- slices and padding ---------------------------------------------------------------------- */

/* Slices axis d of x by entry `at` of starts, ends and steps. As in ONNX, bounds outside are
 * clamped; a step beyond any size is clamped to one just beyond. */
static bool
slice_axis(Call *k, int64_t d, uint32_t at)
{
    call_number(k, "d", d);
    call_number(k, "at", at);
    call_number(k, "most", INT64_MAX / 2);
    return call_text(k, "start = starts[$at]\n"
                        "end = ends[$at]\n"
                        "step = steps[$at]\n"
                        "n = shape(x)[$d]\n"
                        "demand !(step == 0) \"the step along axis $d is 0\"\n"
                        "step = max(min(step, $most), -$most)\n"
                        "back = step < 0\n"
                        "last = n - 1\n"
                        "start = where(start < 0, start + n, start)\n"
                        "end = where(end < 0, end + n, end)\n"
                        "start = max(start, 0)\n"
                        "start = where(back, min(start, last), min(start, n))\n"
                        "end = where(back, max(end, -1), max(end, 0))\n"
                        "end = where(back, min(end, last), min(end, n))\n"
                        "span = end - start\n"
                        "span = max(where(back, -span, span), 0)\n"
                        "width = abs(step)\n"
                        "count = match((span + (width - 1)) / max(width, 1), x.$d)\n"
                        "x = gather(x, start + step * iota(count)) {axis = $d}");
}

/* If axes come from data too, each axis of x gets its entry, or is complete. */
static bool
size_slice(Call *k)
{
    static const char *const others[] = { "ends", "axes", "steps" };

    if (!call_names(k, "x *starts *ends ? *axes *steps -> y"))
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    const bool open = length_is_open(k, "starts");
    const int64_t n = open ? 0 : length(k, "starts");
    if (n < 0)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        if (!call_value(k, others[i]))
            continue;
        if (open && !as_long_as(k, others[i], "starts", 1))
            return false;
        if (!open && length(k, others[i]) != n)
            return call_wrong(k, "Slice has %lld starts, and another number of %s", (long long)n,
                              others[i]);
    }
    const ValueId axes = call_value(k, "axes");
    const Expr *const *known = axes ? k->m->g->value.at[axes].known.at : NULL;
    const bool fixed = !open && (!axes || known);
    call_number(k, "open", open);
    call_number(k, "n", n);
    call_number(k, "rank", rank);
    call_fact(k, "none", ints_text(k, rank, (int64_t[TN_MAX_RANK]){ 0 }));
    call_text(k, "$open? !steps? steps = expand(1, shape(starts))\n"
                 "!steps? steps = expand(1, [$n])\n"
                 "$open? !axes? axes = iota(shape(starts))");
    for (uint32_t i = 0; fixed && i < n; i++) {
        int64_t axis = i;
        if (known && !expr_const(known[i], &axis))
            return call_refuse(k, "axes of Slice that depend on the inputs' sizes");
        axis += axis < 0 ? rank : 0;
        if (axis < 0 || axis >= rank)
            return call_wrong(k, "axis %lld of %s", (long long)axis,
                              type_str(k->c, input_type(k, 0)));
        slice_axis(k, axis, i);
    }
    if (!fixed) {
        call_text(k, "at = gather($every, axes)\n"
                     "zeros = $none\n"
                     "sizes = shape(x)\n"
                     "ones = expand(1, [$rank])\n"
                     "starts = scatter_elements(zeros, at, starts)\n"
                     "ends = scatter_elements(sizes, at, ends)\n"
                     "steps = scatter_elements(ones, at, steps)");
        for (uint32_t d = 0; d < rank; d++)
            slice_axis(k, d, d);
    }
    return call_text(k, "y = identity(x)");
}

/* The index at which a pad of axis d reads x, by its mode. Pads may crop: `left` is the remaining
 * size of x. */
static const char *
pad_text(const char *mode)
{
    return mode[0] == 'c' || mode[0] == 'e' ? "at = max(min(at, last), 0)"
           : mode[0] == 'r' /* a triangle wave of period 2 * (size - 1) */
               ? "period = max(last * 2, 1)\n"
                 "phase = mod(at, period)\n"
                 "at = min(phase, period - phase)"
               /* modulo the remaining size */
               : "at = mod(at - cut, max(left, 1)) + cut";
}

/* Positions outside of x read another element of it or, by the mask, the value. */
static bool
size_pad(Call *k)
{
    const char *mode = get_string(k, "mode", "constant");
    int64_t half[2 * TN_MAX_RANK];

    if (!call_names(k, "x *pads ? value *axes -> y"))
        return false;
    const Type *t = input_type(k, 0);
    const bool open = length_is_open(k, "axes"), axes = call_value(k, "axes");
    const int64_t n = open ? 0 : length(k, "pads"),
                  sides = axes && !open ? axes_length(k) : t->rank;
    if (n < 0 || sides < 0 || (open && !as_long_as(k, "pads", "axes", 2)))
        return false;
    if (!open && n != 2 * sides)
        return call_wrong(k, "%lld pads for %s", (long long)n, type_str(k->c, t));
    for (uint32_t i = 0; i < n; i++)
        half[i] = i;
    call_number(k, "open", open);
    call_number(k, "constant", mode[0] == 'c');
    call_fact(k, "first", ints_text(k, (uint32_t)n / 2, half));
    call_fact(k, "second", ints_text(k, (uint32_t)n / 2, half + n / 2));
    call_fact(k, "none", ints_text(k, t->rank, (int64_t[TN_MAX_RANK]){ 0 }));
    call_fact(k, "index", pad_text(mode));
    call_text(k, "$open? first = iota(shape(axes))\n"
                 "$open? second = first + shape(axes)\n"
                 "!$open? first = $first\n"
                 "!$open? second = $second\n"
                 "before = gather(pads, first)\n"
                 "after = gather(pads, second)\n"
                 "axes? none = $none\n"
                 "axes? at = gather($every, axes)\n"
                 "axes? before = scatter_elements(none, at, before)\n"
                 "axes? after = scatter_elements(none, at, after)\n"
                 "outside = absent");
    for (uint32_t d = 0; d < t->rank; d++) {
        call_number(k, "d", d);
        call_fact(k, "along", along_text(k, d, t->rank));
        call_text(k, "size = shape(x)[$d]\n"
                     "b = before[$d]\n"
                     "a = after[$d]\n"
                     "last = size - 1\n"
                     "cut = max(0, -b)\n"
                     "left = size - cut - max(0, -a)\n"
                     "!$constant? demand left > 0 || !(max(a, b) > 0) "
                     "\"nothing is left to fill axis $d with\"\n"
                     "at = iota(match(size + (b + a))) - b\n"
                     "mask = at < 0 || at > last\n"
                     "$index\n"
                     "x = gather(x, at) {axis = $d}\n"
                     "$constant? along = reshape(mask, $along)\n"
                     "$constant? outside? along = outside || along\n"
                     "$constant? outside = along");
    }
    return call_text(k, "!outside? y = identity(x)\n"
                        "outside? value? value = like(value, x)\n"
                        "outside? !value? value = like(0, x)\n"
                        "outside? y = where(outside, value, x)");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* start + delta * i for all i before limit. Floats are divided as doubles. Integers are rounded up
 * in either direction: differences, also to 0, are u64. */
static bool
size_range(Call *k)
{
    if (!call_names(k, "start limit delta -> y"))
        return false;
    DType t = input_type(k, 0)->dtype, limit = input_type(k, 1)->dtype,
          delta = input_type(k, 2)->dtype;
    if (limit != t || delta != t)
        return call_wrong(k, "start, limit and delta are %s, %s and %s; one type is needed",
                          dtype_info[t].name, dtype_info[limit].name, dtype_info[delta].name);
    call_number(k, "most", INT64_MAX - 1);
    return call_text(k, "demand !(delta == 0) \"the step (delta) is 0\"") &&
           call_run(k, dtype_is_float(t)
                           ? "count = ceil(f64(limit - start) / f64(delta))\n"
                             "demand !(is_nan(count) || is_inf(count)) "
                             "\"from start to limit by this step is no number of elements\"\n"
                             "count = i64(count)"
                           : "from = i64(start)\n"
                             "to = i64(limit)\n"
                             "step = i64(delta)\n"
                             "back = step < 0\n"
                             "first = where(back, to, from)\n"
                             "end = where(back, from, to)\n"
                             "span = u64(end - first)\n"
                             "width = u64(where(back, -step, step))\n"
                             "more = (span - 1) / max(width, 1)\n" /* after the first */
                             "count = i64(min(more, $most)) + 1\n"
                             "count = where(first < end, count, 0)") &&
           call_text(k, "i = iota(match(max(count, 0)))\n"
                        "y = like(i, start) * delta + start");
}

/* v's contents as symbols, the first n of them at least 1. */
static ValueId
match_positive_list(Call *k, ValueId v, uint32_t n)
{
    Var symbol;

    v = call_match(k, v, NULL);
    const Known known = v ? k->m->g->value.at[v].known : (Known){ 0 };
    for (uint32_t i = 0; i < known.n && i < n; i++)
        if (expr_is_var(known.at[i], &symbol))
            expr_symbol_range(k->c, symbol, (Interval){ 1, INT64_MAX });
    return v;
}

/* ---- sizes used directly --------------------------------------------------------------------- */

/* Input i is matched, its entries are at most the largest dimension of `bound`, and the node
 * continues with the symbols. */
static bool
match_input(Call *k, uint32_t i, const char *bound)
{
    call_name(k, "sizes",
              dtype_is_int(input_type(k, i)->dtype) ? k->in.at[i]
                                                    : call_cast(k, k->in.at[i], DT_I64));
    call_name(k, "x", k->in.at[0]);
    if (length(k, "sizes") < 0 || !call_text(k, "sizes = match(sizes%s)", bound))
        return false;
    k->in.at[i] = call_value(k, "sizes");
    return k->in.at[i] != 0;
}

/* Scales: as ratios, and the extents that they give. A ratio is at least one part. */
static bool
size_resize(Call *k)
{
    const Attr *axes = call_attr(k, "axes");
    const Type *t = input_type(k, 0);

    if (call_is_open(k, 3))
        return match_input(k, 3, "");
    call_name(k, "x", k->in.at[0]);
    call_name(k, "scales", k->in.at[2]);
    const int64_t n = length(k, "scales");
    if (n >= 0 && n != (axes ? (int64_t)axes->n : (int64_t)t->rank))
        return call_wrong(k, "%lld scales for %s", (long long)n, type_str(k->c, t));
    call_real(k, "ratio", (double)RESIZE_RATIO);
    if (n < 0 || !call_text(k,
                            "sizes = gather(shape(x), %s)\n"
                            "sizes = [i64(round(scales * $ratio)), "
                            "i64(floor(f32(sizes) * scales))]",
                            axes ? "$axes" : "$every"))
        return false;
    k->in.at[2] = match_positive_list(k, call_value(k, "sizes"), (uint32_t)n);
    return k->in.at[2] != 0;
}

/* The number of indexed axes is the size of the indices' last axis; if that is symbolic, it follows
 * from the rank of the result. */
static bool
size_gather_nd(Call *k)
{
    const Type *x = value_type(k, k->in.at[0]), *index = value_type(k, k->in.at[1]);
    int64_t rank = result_rank(k), left = (int64_t)x->rank - get_int(k, "batch_dims", 0),
            width = index->rank - 1 + left - rank;

    if (!index->rank || expr_const(index->dim[index->rank - 1], NULL) || rank < 0 || width < 1 ||
        width > left)
        return true; /* the operator's own rule reports the error */
    if (model_require(k->m, index->dim[index->rank - 1], expr_int(k->c, width),
                      arena_printf(k->arena,
                                   "%s: the last axis of the indices and the axes that the "
                                   "declared rank of the result says are indexed",
                                   k->origin)))
        return true;
    return call_wrong(k,
                      "the result is declared of rank %" PRId64 ", so that indices of %" PRId64
                      " axes are wanted; input 1 is %s",
                      rank, width, type_str(k->c, index));
}

/* Sizes that a row describes (converters.h). */
static bool
size_input(Call *k, const OpRow *row, char what, uint32_t i)
{
    (void)row;
    if (!strchr("spm", what) || !call_is_open(k, i))
        return true;
    if (what != 'p')
        return match_input(k, i, what == 'm' ? ", x" : "");
    call_name(k, "sizes", k->in.at[i]);
    if (length(k, "sizes") < 0)
        return false;
    k->in.at[i] = match_positive_list(k, k->in.at[i], UINT32_MAX);
    return k->in.at[i] != 0;
}

/* ---- table of operators ---------------------------------------------------------------------- */

/* What becomes of operators if one of these inputs comes from data. */
static const struct {
    OpKind first, last;
    const char *inputs;
    Convert *size;
} sized[] = {
    { OP_reshape, OP_reshape, "1", size_reshape },
    { OP_expand, OP_expand, "1", size_expand },
    { OP_squeeze, OP_squeeze, "1", size_squeeze },
    { OP_unsqueeze, OP_unsqueeze, "1", size_unsqueeze },
    { OP_slice, OP_slice, "1234", size_slice },
    { OP_pad, OP_pad, "13", size_pad },
    { OP_dft, OP_dft, "2", size_dft },
    { OP_cum_sum, OP_cum_prod, "1", size_cum_sum },
    { OP_gather_nd, OP_gather_nd, "01", size_gather_nd },
    { OP_resize, OP_resize, "23", size_resize },
    { OP_range, OP_range, "012", size_range },
    { OP_reduce_sum, OP_reduce_log_sum_exp, "1", size_reduce },
};

bool
call_sizes(Call *k, const OpRow *row)
{
    if (!k->in.n || !k->in.at[0] || !k->proto->n_output)
        return true;
    for (uint32_t i = 0; i < op_info[k->op].min_in; i++)
        if (i >= k->in.n || !k->in.at[i])
            return true; /* the operator's own rule reports what is missing */
    if (!row_inputs(k, row, size_input))
        return false;
    for (size_t r = 0; r < sizeof sized / sizeof *sized; r++)
        if (k->op >= sized[r].first && k->op <= sized[r].last)
            for (const char *s = sized[r].inputs; *s; s++)
                if (call_is_open(k, (uint32_t)(*s - '0')))
                    return sized[r].size(k);
    return true;
}
