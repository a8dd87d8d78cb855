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

#include <inttypes.h>
#include <string.h>

/* The number of elements of a list; -1, reported, if that is not fixed. */
static int64_t
length(Call *k, ValueId v, const char *what)
{
    const Type *t = value_type(k, v);
    int64_t n = list_length(k, v);

    if (t->rank <= 1 && n >= 0 && n <= 2 * TN_MAX_RANK)
        return n;
    list_refuse(k, v, what);
    return -1;
}

static bool
length_is_open(const Call *k, ValueId v)
{
    return v && value_type(k, v)->rank == 1 && list_length(k, v) < 0;
}

/* Lists of symbolic lengths have equal lengths, or one is `times` the other. */
static bool
as_long_as(Call *k, ValueId v, ValueId other, int64_t times, const char *what)
{
    Ctx *c = k->m->c;
    const Expr *n = value_type(k, v)->dim[0],
               *wanted = expr_scale(c, value_type(k, other)->dim[0], times);

    return model_require(k->m, n, wanted,
                         arena_printf(c->arena, "%s: the lengths of %s", k->origin, what)) ||
           call_wrong(k, "the lengths of %s do not fit together: %s and %s", what, expr_str(c, n),
                      expr_str(c, wanted));
}

/* The number of axes of a tensor in a list; -1, reported: more than its rank, or not fixed. */
static int64_t
axes_length(Call *k, ValueId axes, const Type *t)
{
    int64_t n = axes ? length(k, axes, "axes are") : -1;

    if (n <= t->rank)
        return n;
    call_refuse(k, "%lld axes of %s", (long long)n, type_str(k->m->c, t));
    return -1;
}

/* i64[r]: 1 where an axis is among axes[n]. */
static ValueId
mask_of(Call *k, ValueId axes, uint32_t r)
{
    return value_of_text(k, "axes", &axes,
                         "all = %s\n"
                         "same = unsqueeze(gather(all, axes), [1]) == all\n"
                         "reduce_max(i64(same), [0]) {keepdims = 0}",
                         below_text(k, r));
}

/* Elements of v[r] where mask is 0, which are n. The index of the j-th is the number of positions
 * with a running count of at most j. */
static ValueId
compact(Call *k, ValueId v, ValueId mask, uint32_t n)
{
    return value_of_text(k, "v mask", VALUES(v, mask),
                         "count = unsqueeze(cum_sum(1 - mask, 0), [0])\n"
                         "before = i64(count <= unsqueeze(%s, [1]))\n"
                         "gather(v, reduce_sum(before, [1]) {keepdims = 0})",
                         below_text(k, n));
}

static const Expr *
largest_dim(Call *k, const Type *t)
{
    const Expr *most = expr_int(k->m->c, 1);
    for (uint32_t d = 0; d < t->rank; d++)
        most = expr_max(k->m->c, most, t->dim[d]);
    return most;
}

/* "1, 1, ": n ones before the list's elements. */
static const char *
ones_text(Call *k, uint32_t n)
{
    Text t = { .arena = k->m->arena };

    for (uint32_t i = 0; i < n; i++)
        text_add(&t, "1, ");
    return text_str(&t);
}

/* v's contents as symbols, each at most `most`. */
static ValueId
match_to(Call *k, ValueId v, const Expr *most)
{
    const Expr *all[2 * TN_MAX_RANK];

    for (uint32_t i = 0; i < 2 * TN_MAX_RANK; i++)
        all[i] = most;
    return call_match(k, v, most ? all : NULL);
}

bool
call_is_open(const Call *k, uint32_t i)
{
    ValueId v = i < k->in.n ? k->in.at[i] : 0;
    const Value *value = &k->m->g->value.at[v];
    return v && !value->known.at && !value->data && !expr_is(type_count(k->m->c, value->type), 0);
}

/* ---- another shape --------------------------------------------------------------------------- */

/* 0 copies a dimension, -1 is the remainder. */
static bool
size_reshape(Call *k)
{
    ValueId shape = call_int_list(k, k->in.at[1]);
    uint32_t rank = input_type(k, 0)->rank;
    int64_t n = shape ? length(k, shape, "shape is") : -1, copied[2 * TN_MAX_RANK];

    if (n < 0 || !call_names(k, "x shape -> y"))
        return false;
    for (uint32_t i = 0; i < n; i++)
        copied[i] = i < rank ? i : rank - 1;
    call_name(k, "shape", shape);
    if (!get_int(k, "allowzero", 0) && rank &&
        !call_text(k, "shape = where(shape == 0, gather(shape(x), %s), shape)",
                   ints_text(k, (uint32_t)n, copied)))
        return false;
    return call_text(k, "left = shape == -1\n"
                        "unknown = reduce_sum(i64(left)) {keepdims = 0}\n"
                        "demand unknown < 2 \"more than one entry of the new shape is -1\"\n"
                        "rest = reduce_prod(where(left, 1, shape)) {keepdims = 0}\n"
                        "shape = match(where(left, size(x) / max(rest, 1), shape))\n"
                        "y = reshape(x, shape) {allowzero = 1}");
}

static ValueId
reshaped_to(Call *k, ValueId x, ValueId sizes, const Expr *most)
{
    sizes = match_to(k, sizes, most);
    return sizes
               ? value_of_text(k, "x sizes", VALUES(x, sizes), "reshape(x, sizes) {allowzero = 1}")
               : 0;
}

static bool
size_squeeze(Call *k)
{
    ValueId x = k->in.at[0], axes = call_int_list(k, k->in.at[1]);
    const Type *t = value_type(k, x);
    int64_t n = axes_length(k, axes, t);

    if (n < 0)
        return false;
    return finish(k, reshaped_to(k, x,
                                 compact(k, value_of_text(k, "x", &x, "shape(x)"),
                                         mask_of(k, axes, t->rank), t->rank - (uint32_t)n),
                                 largest_dim(k, t)));
}

/* New axes have one element; the others come in order. */
static bool
size_unsqueeze(Call *k)
{
    ValueId x = k->in.at[0], axes = call_int_list(k, k->in.at[1]);
    const Type *t = value_type(k, x);
    int64_t n = axes ? length(k, axes, "axes are") : -1;
    uint32_t rank = t->rank + (uint32_t)(n > 0 ? n : 0);

    if (n < 0 || rank > TN_MAX_RANK)
        return n > 0 ? call_refuse(k, "%lld new axes for %s", (long long)n, type_str(k->m->c, t))
                     : false;
    ValueId sizes =
        value_of_text(k, "x mask", VALUES(x, mask_of(k, axes, rank)),
                      "sizes = %s\n"
                      "where(bool(mask), 1, sizes)",
                      t->rank ? "gather(shape(x), max(cum_sum(1 - mask, 0) - 1, 0))" : "[1]");
    return finish(k, reshaped_to(k, x, sizes, largest_dim(k, t)));
}

/* Broadcast to a shape, both ways. */
static bool
size_expand(Call *k)
{
    Ctx *c = k->m->c;
    ValueId s = call_int_list(k, k->in.at[1]);
    uint32_t r = input_type(k, 0)->rank;

    /* its last r elements, after ones: the result has no larger rank */
    if (length_is_open(k, s) && result_rank(k) == r) {
        const Expr *is = value_type(k, s)->dim[0];
        const Constraint needed = {
            expr_min(c, is, expr_int(c, r)), is,
            arena_printf(c->arena, "%s: the length of the shape", k->origin),
            arena_printf(c->arena, "%s has to be at most %u", expr_str(c, is), r)
        };
        if (!model_require_said(k->m, needed))
            return call_wrong(k, "shape is of type %s, the result has rank %u",
                              type_str(c, value_type(k, s)), r);
        s = value_of_text(k, "s", &s, "gather([%ss], shape(s) + %s)", ones_text(k, r),
                          below_text(k, r));
    }
    int64_t n = s ? length(k, s, "shape is") : -1;
    if (n < 0 || !call_names(k, "x shape -> y"))
        return false;
    call_name(k, "shape", s);
    return call_text(k,
                     "old = [%sshape(x)]\n"
                     "new = [%sshape]\n"
                     "y = expand(x, match(where(new == 1, old, new)))",
                     ones_text(k, n > r ? (uint32_t)n - r : 0),
                     ones_text(k, n < r ? r - (uint32_t)n : 0));
}

/* ---- reductions over axes from data ---------------------------------------------------------- */

/* Every axis of n elements becomes two: those that stay, then those that are reduced; one of them
 * is 1. Roots and logarithms of sums of integers are computed in f64. */
static bool
size_reduce(Call *k)
{
    Ctx *c = k->m->c;
    DType of = value_type(k, k->in.at[0])->dtype;
    bool real =
        k->op == OP_reduce_l2 || k->op == OP_reduce_log_sum || k->op == OP_reduce_log_sum_exp;
    ValueId x = real && dtype_is_int(of) ? call_cast(k, k->in.at[0], DT_F64) : k->in.at[0],
            axes = call_int_list(k, k->in.at[1]);
    const Type *t = value_type(k, x);
    const bool keep = get_int(k, "keepdims", 1) != 0, open = keep && length_is_open(k, axes);
    int64_t n = open ? 0 : axes_length(k, axes, t), order[2 * TN_MAX_RANK], odd[TN_MAX_RANK];
    const Expr *most[2 * TN_MAX_RANK];

    if (n < 0)
        return false;
    if (2 * t->rank > TN_MAX_RANK)
        return call_refuse(k, "a reduction of %s over axes from data; the rank can be at most %d",
                           type_str(c, t), TN_MAX_RANK / 2);
    for (uint32_t d = 0; d < t->rank; d++) {
        order[2 * d] = d;
        order[2 * d + 1] = t->rank + d;
        odd[d] = 2 * d + 1;
        most[2 * d] = most[2 * d + 1] = expr_max(c, t->dim[d], expr_int(c, 1));
    }
    ValueId mask = mask_of(k, axes, t->rank);
    if (open) /* without axes the mask has no effect: all of them, or none */
        mask =
            value_of_text(k, "axes mask", VALUES(axes, mask), "where(shape(axes) == 0, %d, mask)",
                          !get_int(k, "noop_with_empty_axes", 0));
    ValueId pairs = value_of_text(k, "x mask", VALUES(x, mask),
                                  "sizes = shape(x)\n"
                                  "set = bool(mask)\n"
                                  "gather([where(set, 1, sizes), where(set, sizes, 1)], %s)",
                                  ints_text(k, 2 * t->rank, order));
    pairs = call_match(k, pairs, most);
    ValueId y = pairs ? value_of_text(k, "x pairs", VALUES(x, pairs),
                                      "self(reshape(x, pairs) {allowzero = 1}, %s) {keepdims = 0}",
                                      ints_text(k, t->rank, odd))
                      : 0;
    if (y && !keep)
        y = reshaped_to(
            k, y, compact(k, value_of_text(k, "x", &x, "shape(x)"), mask, t->rank - (uint32_t)n),
            largest_dim(k, t));
    return finish(k, call_cast(k, y, of));
}

/* The products of a list's sizes before entry `axis`, that entry, and those after it: i64[3]. */
static ValueId
sizes_around(Call *k, ValueId sizes, ValueId axis, uint32_t rank, uint32_t n)
{
    return value_of_text(k, "sizes axis", VALUES(sizes, axis),
                         "at = gather(%s, axis)\n"
                         "all = %s\n"
                         "before = reduce_prod(where(all < at, sizes, 1), [0]) {keepdims = 0}\n"
                         "here = reduce_prod(where(all == at, sizes, 1), [0]) {keepdims = 0}\n"
                         "behind = reduce_prod(where(all > at, sizes, 1), [0]) {keepdims = 0}\n"
                         "match([reshape(before, [-1]), reshape(here, [-1]), "
                         "reshape(behind, [-1])])",
                         below_text(k, rank), below_text(k, n));
}

/* A running sum along an axis from data: x reshaped to outer dimensions, the axis, and inner
 * dimensions. */
static bool
size_cum_sum(Call *k)
{
    ValueId axis = call_int_list(k, k->in.at[1]);
    uint32_t rank = input_type(k, 0)->rank;

    if (!rank || !axis || length(k, axis, "axes are") != 1)
        return call_refuse(k, "a running sum of %s", type_str(k->m->c, input_type(k, 0)));
    if (!call_names(k, "x axis -> y") || !call_text(k, "sizes = shape(x)"))
        return false;
    call_name(k, "parts", sizes_around(k, call_value(k, "sizes"), axis, rank, rank));
    return call_text(k, "parts = reshape(x, parts) {allowzero = 1}\n"
                        "y = reshape(self(parts, 1) {*}, sizes) {allowzero = 1}");
}

/* ---- slices and padding ---------------------------------------------------------------------- */

static bool
known_list(Call *k, ValueId v)
{
    return !v || k->m->g->value.at[v].known.at;
}

/* Axis d by an entry of starts, ends and steps. As in ONNX, bounds outside are clamped; a step
 * beyond any size is clamped to one just beyond. */
static ValueId
slice_axis(Call *k, ValueId x, uint32_t d, const ValueId bound[3], uint32_t at)
{
    if (!call_names(k, ""))
        return 0;
    call_name(k, "x", x);
    call_name(k, "starts", bound[0]);
    call_name(k, "ends", bound[1]);
    call_name(k, "steps", bound[2]);
    return call_text(k,
                     "start = starts[%u]\n"
                     "end = ends[%u]\n"
                     "step = steps[%u]\n"
                     "n = shape(x)[%u]\n"
                     "demand !(step == 0) \"the step along axis %u is 0\"\n"
                     "step = max(min(step, %" PRId64 "), %" PRId64 ")\n"
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
                     "count = match((span + (width - 1)) / max(width, 1), x.%u)\n"
                     "x = gather(x, start + step * iota(count)) {axis = %u}",
                     at, at, at, d, d, INT64_MAX / 2, -INT64_MAX / 2, d, d)
               ? call_value(k, "x")
               : 0;
}

/* If axes come from data too, each axis of x gets its entry, or is complete. */
static bool
size_slice(Call *k)
{
    ValueId x = k->in.at[0], part[4] = { 0 };
    uint32_t rank = value_type(k, x)->rank;
    int64_t axis[2 * TN_MAX_RANK];

    for (uint32_t i = 0; i < 4; i++)
        part[i] = i + 1 < k->in.n && k->in.at[i + 1] ? call_int_list(k, k->in.at[i + 1]) : 0;
    if (k->in.n < 3 || !k->in.at[1] || !k->in.at[2])
        return call_wrong(k, "Slice takes starts and ends, the node has %u inputs", k->in.n);
    const bool open = length_is_open(k, part[0]);
    int64_t n = open ? 0 : part[0] && part[1] ? length(k, part[0], "starts are") : -1;
    if (n < 0)
        return false;
    for (uint32_t i = 1; i < 4; i++)
        if (open && part[i] && !as_long_as(k, part[i], part[0], 1, "starts, ends, axes and steps"))
            return false;
    for (uint32_t i = 1; i < 4; i++)
        if (!open && part[i] && length(k, part[i], "ends, axes and steps are") != n)
            return call_wrong(k, "Slice has %lld starts, and another number of ends, axes or steps",
                              (long long)n);
    if (!part[3])
        part[3] = value_of_text(k, "starts", part,
                                open ? "expand(1, shape(starts))" : "expand(1, [%" PRId64 "])", n);
    if (open && !part[2])
        part[2] = value_of_text(k, "starts", part, "iota(shape(starts))");
    bool fixed = !open && known_list(k, part[2]);
    for (uint32_t i = 0; fixed && i < n; i++) {
        axis[i] = i;
        if (part[2] && !expr_const(k->m->g->value.at[part[2]].known.at[i], &axis[i]))
            return call_refuse(k, "axes of Slice that depend on the inputs' sizes");
        axis[i] += axis[i] < 0 ? rank : 0;
        if (axis[i] < 0 || axis[i] >= rank)
            return call_wrong(k, "axis %lld of %s", (long long)axis[i],
                              type_str(k->m->c, value_type(k, x)));
        x = slice_axis(k, x, (uint32_t)axis[i], VALUES(part[0], part[1], part[3]), i);
        if (!x)
            return false;
    }
    if (fixed)
        return finish(k, value_of_text(k, "x", &x, "identity(x)"));
    const char *none = ints_text(k, rank, (int64_t[TN_MAX_RANK]){ 0 });
    ValueId at = value_of_text(k, "axes", &part[2], "gather(%s, axes)", below_text(k, rank));
    const ValueId all[3] = { value_of_text(k, "", NULL, "%s", none),
                             value_of_text(k, "x", &x, "shape(x)"),
                             value_of_text(k, "", NULL, "expand(1, [%u])", rank) };
    ValueId full[3];
    for (uint32_t i = 0; i < 3; i++)
        full[i] = value_of_text(k, "all at given", VALUES(all[i], at, part[i == 2 ? 3 : i]),
                                "scatter_elements(all, at, given)");
    for (uint32_t d = 0; x && d < rank; d++)
        x = slice_axis(k, x, d, full, d);
    return x && finish(k, value_of_text(k, "x", &x, "identity(x)"));
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
    ValueId pads = call_int_list(k, k->in.at[1]),
            axes = k->in.n > 3 ? call_int_list(k, k->in.at[3]) : 0;
    const char *mode = get_string(k, "mode", "constant");
    const bool constant = mode[0] == 'c', open = length_is_open(k, axes);
    int64_t n = open ? 0 : pads ? length(k, pads, "pads are") : -1;

    if (n < 0 || (open && !as_long_as(k, pads, axes, 2, "pads and axes")))
        return false;
    if (!call_names(k, "x pads ? value axes -> y"))
        return false;
    const Type *t = input_type(k, 0);
    if (axes && !open && axes_length(k, axes, t) < 0)
        return false;
    if (!open && n != 2 * (axes ? length(k, axes, "axes are") : t->rank))
        return call_wrong(k, "%lld pads for %s", (long long)n, type_str(k->m->c, t));
    int64_t half[2 * TN_MAX_RANK], none[TN_MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        half[i] = i;
    call_name(k, "axes", axes);
    call_name(k, "pads", pads);
    if (!(open ? call_text(k, "first = iota(shape(axes))\n"
                              "second = first + shape(axes)")
               : call_text(k, "first = %s\nsecond = %s", ints_text(k, (uint32_t)n / 2, half),
                           ints_text(k, (uint32_t)n / 2, half + n / 2))) ||
        !call_text(k,
                   "before = gather(pads, first)\n"
                   "after = gather(pads, second)\n"
                   "axes? none = %s\n"
                   "axes? at = gather(%s, axes)\n"
                   "axes? before = scatter_elements(none, at, before)\n"
                   "axes? after = scatter_elements(none, at, after)",
                   ints_text(k, t->rank, none), below_text(k, t->rank)))
        return false;
    call_name(k, "outside", 0);
    for (uint32_t d = 0; d < t->rank; d++)
        if (!call_text(k,
                       "size = shape(x)[%u]\n"
                       "b = before[%u]\n"
                       "a = after[%u]\n"
                       "last = size - 1\n"
                       "cut = max(0, -b)\n"
                       "left = size - cut - max(0, -a)\n",
                       d, d, d) ||
            (!constant && !call_text(k,
                                     "demand left > 0 || !(max(a, b) > 0) "
                                     "\"nothing is left to fill axis %u with\"",
                                     d)) ||
            !call_text(k,
                       "at = iota(match(size + (b + a))) - b\n"
                       "mask = at < 0 || at > last\n"
                       "%s\n"
                       "x = gather(x, at) {axis = %u}",
                       pad_text(mode), d) ||
            (constant && !call_text(k,
                                    "along = reshape(mask, %s)\n"
                                    "outside? along = outside || along\n"
                                    "outside = along",
                                    along_text(k, d, t->rank))))
            return false;
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
    if (!call_text(k, "demand !(delta == 0) \"the step (delta) is 0\""))
        return false;
    return (dtype_is_float(t)
                ? call_text(k, "count = ceil(f64(limit - start) / f64(delta))\n"
                               "demand !(is_nan(count) || is_inf(count)) "
                               "\"from start to limit by this step is no number of elements\"\n"
                               "count = i64(count)")
                : call_text(k,
                            "from = i64(start)\n"
                            "to = i64(limit)\n"
                            "step = i64(delta)\n"
                            "back = step < 0\n"
                            "first = where(back, to, from)\n"
                            "end = where(back, from, to)\n"
                            "span = u64(end - first)\n"
                            "width = u64(where(back, -step, step))\n"
                            "more = (span - 1) / max(width, 1)\n" /* after the first */
                            "count = i64(min(more, %" PRId64 ")) + 1\n"
                            "count = where(first < end, count, 0)",
                            INT64_MAX - 1)) &&
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
            expr_symbol_range(k->m->c, symbol, (Interval){ 1, INT64_MAX });
    return v;
}

/* Scales: as ratios, and the extents that they give. A ratio is at least one part. */
static bool
size_resize(Call *k)
{
    ValueId x = k->in.at[0], scales = k->in.at[2];
    const Attr *axes = call_attr(k, "axes");
    const Type *t = input_type(k, 0);
    int64_t n = length(k, scales, "scales are");

    if (n < 0 || n != (axes ? (int64_t)axes->n : (int64_t)t->rank))
        return n < 0 ? false
                     : call_wrong(k, "%lld scales for %s", (long long)n, type_str(k->m->c, t));
    k->in.at[2] = match_positive_list(
        k,
        value_of_text(k, "x scales", VALUES(x, scales),
                      "sizes = gather(shape(x), %s)\n"
                      "[i64(round(scales * %a)), i64(floor(f32(sizes) * scales))]",
                      axes ? ints_text(k, axes->n, axes->ints) : below_text(k, (uint32_t)n),
                      (double)RESIZE_RATIO),
        (uint32_t)n);
    return k->in.at[2] != 0;
}

/* ---- results of data-dependent length -------------------------------------------------------- */

/* The indices at which mask, bool[n], is set: i64[hits], in order. Each is written to the slot that
 * the count of those before gives; positions that are not set go to an extra slot, which is cut
 * off. */
ValueId
call_positions(Call *k, ValueId mask)
{
    return mask ? value_of_text(k, "mask", &mask,
                                "total = reduce_sum(i64(mask), [0])\n"
                                "hits = match(total, mask.0)\n"
                                "count = cum_sum(i64(mask), 0)\n"
                                "slot = where(mask, count - 1, total)\n"
                                "empty = constant_of_shape(hits + 1) {value = const i64[] [0]}\n"
                                "all = scatter_elements(empty, slot, range(0, size(mask), 1))\n"
                                "slice(all, [0], hits)")
                : 0;
}

bool
convert_nonzero(Call *k)
{
    Text rows = { .arena = k->m->arena };

    if (!k->in.n || !k->in.at[0])
        return call_wrong(k, "NonZero has no input");
    if (!call_names(k, "x -> y"))
        return false;
    uint32_t rank = input_type(k, 0)->rank;
    if (!call_text(k, "set = %s",
                   input_type(k, 0)->dtype == DT_STR ? "!string_equal(x, \"\")" : "x") ||
        !call_text(k, "set = bool(reshape(set, [-1]))"))
        return false;
    call_name(k, "at", call_positions(k, call_value(k, "set")));
    if (!call_value(k, "at"))
        return false;
    if (!rank) /* no rows; as many columns as set elements */
        return call_text(k, "y = slice(unsqueeze(at, [0]), [0], [0])");
    for (uint32_t d = rank; d-- > 0;)
        if (!call_text(k,
                       "n = shape(x)[%u]\n"
                       "row_%u = unsqueeze(mod(at, n), [0])\n"
                       "at = at / n",
                       d, d))
            return false;
    for (uint32_t d = 0; d < rank; d++)
        text_printf(&rows, d ? ", row_%u" : "row_%u", d);
    return call_text(k, "y = concat(%s) {axis = 0}", text_str(&rows));
}

/* Slices of x along an axis, or elements of flat x, where the condition is set; the condition may
 * be shorter. */
bool
convert_compress(Call *k)
{
    const Attr *axis = call_attr(k, "axis");

    if (k->in.n < 2 || !k->in.at[0] || !k->in.at[1])
        return call_wrong(k, "Compress takes two inputs");
    if (!call_names(k, "x condition -> y"))
        return false;
    call_name(k, "at", call_positions(k, k->in.at[1]));
    return call_value(k, "at") && call_text(k, "y = gather(%s, at) {axis = %" PRId64 "}",
                                            axis ? "x" : "reshape(x, [-1])", axis ? axis->i : 0);
}

/* ---- transforms along an axis from data ------------------------------------------------------ */

/* x reshaped to outer dimensions, the axis, and inner dimensions; the last axis, of components,
 * stays. */
static bool
size_dft(Call *k)
{
    ValueId axis = call_int_list(k, k->in.at[2]);
    uint32_t all = input_type(k, 0)->rank, rank = all - 1;

    if (all < 2 || all > TN_MAX_RANK || !axis || length(k, axis, "axes are") != 1)
        return call_refuse(k, "DFT of %s along an axis from data",
                           type_str(k->m->c, input_type(k, 0)));
    if (!call_names(k, "x ? length axis -> y") ||
        !call_text(k, "sizes = gather(shape(x), %s)", below_text(k, rank)))
        return false;
    call_name(k, "axis", axis);
    call_name(k, "three", sizes_around(k, call_value(k, "sizes"), axis, all, rank));
    return call_text(k,
                     "parts = reshape(x, [three, shape(x)[%u]]) {allowzero = 1}\n"
                     "parts = self(parts, length, [1]) {*}\n"
                     "is = %s == gather(%s, axis)\n"
                     "to = match(where(is, shape(parts)[1], sizes))\n"
                     "y = reshape(parts, [to, shape(parts)[3]]) {allowzero = 1}",
                     rank, below_text(k, rank), below_text(k, all));
}

/* The number of indexed axes is the size of the indices' last axis; if that is symbolic, it follows
 * from the rank of the result. */
static bool
size_gather_nd(Call *k)
{
    Ctx *c = k->m->c;
    const Type *x = value_type(k, k->in.at[0]), *index = value_type(k, k->in.at[1]);
    int64_t rank = result_rank(k), left = (int64_t)x->rank - get_int(k, "batch_dims", 0),
            width = index->rank - 1 + left - rank;

    if (!index->rank || expr_const(index->dim[index->rank - 1], NULL) || rank < 0 || width < 1 ||
        width > left)
        return true; /* the operator's own rule reports the error */
    if (model_require(k->m, index->dim[index->rank - 1], expr_int(c, width),
                      arena_printf(k->m->arena,
                                   "%s: the last axis of the indices and the axes that the "
                                   "declared rank of the result says are indexed",
                                   k->origin)))
        return true;
    return call_wrong(k,
                      "the result is declared of rank %" PRId64 ", so that indices of %" PRId64
                      " axes are wanted; input 1 is %s",
                      rank, width, type_str(c, index));
}

/* ---- table of operators ---------------------------------------------------------------------- */

/* Sizes used directly: input i is matched, and the node continues with the symbols. */
static bool
match_input(Call *k, uint32_t i, const Expr *most)
{
    if (length(k, k->in.at[i], "sizes are") < 0)
        return false;
    k->in.at[i] = match_to(k, k->in.at[i], most);
    return k->in.at[i] != 0;
}

/* Sizes that a row describes (converters.h). */
static bool
size_input(Call *k, const OpRow *row, char what, uint32_t i)
{
    (void)row;
    if ((what != 's' && what != 'p') || !call_is_open(k, i))
        return true;
    if (what == 's')
        return match_input(k, i, NULL);
    if (length(k, k->in.at[i], "sizes are") < 0)
        return false;
    k->in.at[i] = match_positive_list(k, k->in.at[i], UINT32_MAX);
    return k->in.at[i] != 0;
}

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
    switch (k->op) {
    case OP_reshape: return !call_is_open(k, 1) || size_reshape(k);
    case OP_expand: return !call_is_open(k, 1) || size_expand(k);
    case OP_squeeze: return !call_is_open(k, 1) || size_squeeze(k);
    case OP_unsqueeze: return !call_is_open(k, 1) || size_unsqueeze(k);
    case OP_slice:
        return !(call_is_open(k, 1) || call_is_open(k, 2) || call_is_open(k, 3) ||
                 call_is_open(k, 4)) ||
               size_slice(k);
    case OP_pad: return !(call_is_open(k, 1) || call_is_open(k, 3)) || size_pad(k);
    case OP_dft: return !call_is_open(k, 2) || size_dft(k);
    case OP_cum_sum:
    case OP_cum_prod: return !call_is_open(k, 1) || size_cum_sum(k);
    case OP_gather_nd: return size_gather_nd(k);
    case OP_split:
        return !call_is_open(k, 1) || match_input(k, 1, largest_dim(k, value_type(k, k->in.at[0])));
    case OP_resize:
        return (!call_is_open(k, 2) || size_resize(k)) &&
               (!call_is_open(k, 3) || match_input(k, 3, NULL));
    case OP_one_hot:
        if (!call_is_open(k, 1))
            return true;
        k->in.at[1] = call_cast(k, k->in.at[1], DT_I64);
        return k->in.at[1] && match_input(k, 1, NULL);
    case OP_range:
        return !(call_is_open(k, 0) || call_is_open(k, 1) || call_is_open(k, 2)) || k->in.n < 3 ||
               size_range(k);
    case OP_reduce_sum ... OP_reduce_log_sum_exp: return !call_is_open(k, 1) || size_reduce(k);
    default: return true;
    }
}
