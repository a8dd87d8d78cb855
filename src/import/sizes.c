/* sizes: shapes, axes and bounds that the model computes from data.
 *
 * Operators of Tenon take their parameters as known contents. Where these come from data, what they
 * decide is computed by operators on small integer tensors, the sizes that follow become symbols
 * (graph_match), and the node becomes operators over those: a reshape to sizes that are symbols, a
 * gather by computed indices. What a model may write in its parameters (-1, 0, negative axes) is
 * settled there, so that a symbol is a size.
 */
#include "import/little.h"

#include <inttypes.h>
#include <string.h>

/* How many elements a list has; -1, reported, if that is not fixed. */
static int64_t
length(Call *k, ValueId v, const char *what)
{
    const Type *t = little_type(k, v);
    int64_t n = list_length(k, v);

    if (t->rank <= 1 && n >= 0 && n <= 2 * TN_MAX_RANK)
        return n;
    list_refuse(k, v, what);
    return -1;
}

static bool
length_is_open(const Call *k, ValueId v)
{
    return v && little_type(k, v)->rank == 1 && list_length(k, v) < 0;
}

/* 0, 1, … as many as list v has elements. */
static ValueId
places_of(Call *k, ValueId v)
{
    return little_3(k, OP_range, little_number(k, 0), little_1(k, OP_squeeze, little_shape(k, v)),
                    little_number(k, 1));
}

/* Lists of open lengths have as many elements, or one as many as `times` the other. */
static bool
as_long_as(Call *k, ValueId v, ValueId other, int64_t times, const char *what)
{
    Ctx *c = k->m->c;
    const Expr *n = little_type(k, v)->dim[0],
               *wanted = expr_scale(c, little_type(k, other)->dim[0], times);

    return model_require(k->m, n, wanted,
                         arena_printf(c->arena, "%s: the lengths of %s", k->origin, what)) ||
           diag_error(&c->diags, DIAG_MODEL, k->loc,
                      "the lengths of %s do not fit together: %s and %s", what, expr_str(c, n),
                      expr_str(c, wanted));
}

/* How many of a tensor's axes are named; -1, reported: more than it has, or a number that is not
 * fixed. */
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
    const int64_t last = 1, first = 0;
    ValueId column = little_2(k, OP_unsqueeze, little_wrap(k, axes, r), little_list(k, 1, &last));
    ValueId same = little_cast(k, little_2(k, OP_equal, column, little_iota(k, r)), DT_I64);
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 };
    return call_op(k, OP_reduce_max, 1, &keep, 2, (ValueId[]){ same, little_list(k, 1, &first) },
                   "mask");
}

static ValueId
is_set(Call *k, ValueId mask)
{
    return little_cast(k, mask, DT_BOOL);
}

/* Elements of v[r] where mask is 0, which are n. The j-th is behind as many as have a running count
 * of at most j. */
static ValueId
compact(Call *k, ValueId v, ValueId mask, uint32_t n)
{
    const int64_t first = 0, last = 1;
    ValueId left = little_2(k, OP_sub, little_number(k, 1), mask);
    ValueId count = little_2(k, OP_cum_sum, left, little_number(k, 0));
    ValueId row = little_2(k, OP_unsqueeze, count, little_list(k, 1, &first)),
            column = little_2(k, OP_unsqueeze, little_iota(k, n), little_list(k, 1, &last));
    ValueId before = little_cast(k, little_2(k, OP_less_or_equal, row, column), DT_I64);
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 };
    ValueId at = call_op(k, OP_reduce_sum, 1, &keep, 2,
                         (ValueId[]){ before, little_list(k, 1, &last) }, "at");
    return little_2(k, OP_gather, v, at);
}

static bool
give(Call *k, ValueId v)
{
    call_bind(k, 0, v);
    k->done = true;
    return v != 0;
}

static const Expr *
largest_dim(Call *k, const Type *t)
{
    const Expr *most = expr_int(k->m->c, 1);
    for (uint32_t d = 0; d < t->rank; d++)
        most = expr_max(k->m->c, most, t->dim[d]);
    return most;
}

/* The output's name on what is there already. */
static ValueId
named(Call *k, OpKind op, uint32_t n, const ValueId *in)
{
    return call_op(k, op, 0, NULL, n, in, k->proto->n_output ? k->proto->output[0] : NULL);
}

bool
call_is_open(const Call *k, uint32_t i)
{
    ValueId v = i < k->in.n ? k->in.at[i] : 0;
    const Value *value = &k->m->g->value.at[v];
    return v && !value->known.at && !value->data && !expr_is(type_count(k->m->c, value->type), 0);
}

/* ---- another shape --------------------------------------------------------------------------- */

/* 0 copies a dimension, -1 is what is left over. */
static bool
size_reshape(Call *k)
{
    ValueId x = k->in.at[0], s = little_ints(k, k->in.at[1]);
    uint32_t rank = little_type(k, x)->rank;
    int64_t n = s ? length(k, s, "shape is") : -1, copied[2 * TN_MAX_RANK];
    bool zeros = attr_int((Attrs){ k->attr.at, k->attr.n }, "allowzero", 0) != 0;
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 },
         exact = { .name = sym(k->m->c, "allowzero"), .kind = ATTR_INT, .i = 1 };

    if (n < 0)
        return false;
    if (!zeros && rank) {
        for (uint32_t i = 0; i < n; i++)
            copied[i] = i < rank ? i : rank - 1;
        ValueId old =
            little_2(k, OP_gather, little_shape(k, x), little_list(k, (uint32_t)n, copied));
        s = little_3(k, OP_where, little_2(k, OP_equal, s, little_number(k, 0)), old, s);
    }
    ValueId left = little_2(k, OP_equal, s, little_number(k, -1));
    ValueId unknown = call_op(k, OP_reduce_sum, 1, &keep, 1,
                              (ValueId[]){ little_cast(k, left, DT_I64) }, "unknown");
    if (!little_demand(k, little_2(k, OP_less, unknown, little_number(k, 2)),
                       "more than one entry of the new shape is -1"))
        return false;
    ValueId rest =
        call_op(k, OP_reduce_prod, 1, &keep, 1,
                (ValueId[]){ little_3(k, OP_where, left, little_number(k, 1), s) }, "rest");
    ValueId inferred = little_2(k, OP_div, little_1(k, OP_size, x),
                                little_2(k, OP_max, rest, little_number(k, 1)));
    s = little_match(k, little_3(k, OP_where, left, inferred, s), NULL);
    return give(
        k, s ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ x, s }, k->proto->output[0]) : 0);
}

static ValueId
reshaped_to(Call *k, ValueId x, ValueId sizes, const Expr *most)
{
    const Expr *all[2 * TN_MAX_RANK];
    Attr exact = { .name = sym(k->m->c, "allowzero"), .kind = ATTR_INT, .i = 1 };

    for (uint32_t i = 0; i < 2 * TN_MAX_RANK; i++)
        all[i] = most;
    sizes = little_match(k, sizes, all);
    return sizes
               ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ x, sizes }, k->proto->output[0])
               : 0;
}

static bool
reshape_to(Call *k, ValueId x, ValueId sizes, const Expr *most)
{
    return give(k, reshaped_to(k, x, sizes, most));
}

static bool
size_squeeze(Call *k)
{
    ValueId x = k->in.at[0], axes = little_ints(k, k->in.at[1]);
    const Type *t = little_type(k, x);
    int64_t n = axes_length(k, axes, t);

    if (n < 0)
        return false;
    return reshape_to(
        k, x, compact(k, little_shape(k, x), mask_of(k, axes, t->rank), t->rank - (uint32_t)n),
        largest_dim(k, t));
}

/* New axes have one element; the others come in order. */
static bool
size_unsqueeze(Call *k)
{
    ValueId x = k->in.at[0], axes = little_ints(k, k->in.at[1]);
    const Type *t = little_type(k, x);
    int64_t n = axes ? length(k, axes, "axes are") : -1;
    uint32_t rank = t->rank + (uint32_t)(n > 0 ? n : 0);

    if (n < 0 || rank > TN_MAX_RANK)
        return n > 0 ? call_refuse(k, "%lld new axes for %s", (long long)n, type_str(k->m->c, t))
                     : false;
    ValueId mask = mask_of(k, axes, rank), sizes = little_2(k, OP_reshape, little_number(k, 1),
                                                            little_list(k, 1, (int64_t[]){ 1 }));
    if (t->rank) {
        ValueId count = little_2(k, OP_cum_sum, little_2(k, OP_sub, little_number(k, 1), mask),
                                 little_number(k, 0));
        ValueId at = little_2(k, OP_max, little_2(k, OP_sub, count, little_number(k, 1)),
                              little_number(k, 0));
        sizes = little_2(k, OP_gather, little_shape(k, x), at);
    }
    return reshape_to(k, x, little_3(k, OP_where, is_set(k, mask), little_number(k, 1), sizes),
                      largest_dim(k, t));
}

/* Broadcast to a shape, both ways. */
static bool
size_expand(Call *k)
{
    ValueId x = k->in.at[0], s = little_ints(k, k->in.at[1]);
    uint32_t r = little_type(k, x)->rank;
    int64_t ones[2 * TN_MAX_RANK];

    for (uint32_t i = 0; i < 2 * TN_MAX_RANK; i++)
        ones[i] = 1;
    /* its last r elements, where as many ones stand in front: it has no more */
    if (length_is_open(k, s) && result_rank(k) == r) {
        const Expr *most = expr_min(k->m->c, little_type(k, s)->dim[0], expr_int(k->m->c, r));
        const Constraint needed = { most, little_type(k, s)->dim[0],
                                    arena_printf(k->m->c->arena, "%s: the length of the shape",
                                                 k->origin),
                                    arena_printf(k->m->c->arena, "%s has to be at most %u",
                                                 expr_str(k->m->c, little_type(k, s)->dim[0]), r) };
        if (!model_require_said(k->m, needed))
            return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                              "shape is of type %s, the result has rank %u",
                              type_str(k->m->c, little_type(k, s)), r);
        s = little_2(k, OP_gather,
                     little_axis(k, OP_concat, 0, 2, (ValueId[]){ little_list(k, r, ones), s }),
                     little_2(k, OP_add, little_shape(k, s), little_iota(k, r)));
    }
    int64_t n = s ? length(k, s, "shape is") : -1;
    if (n < 0)
        return false;
    ValueId old = little_shape(k, x);
    if ((uint32_t)n < r)
        s = little_axis(k, OP_concat, 0, 2,
                        (ValueId[]){ little_list(k, r - (uint32_t)n, ones), s });
    else if (r < (uint32_t)n)
        old = little_axis(k, OP_concat, 0, 2,
                          (ValueId[]){ little_list(k, (uint32_t)n - r, ones), old });
    s = little_match(
        k, little_3(k, OP_where, little_2(k, OP_equal, s, little_number(k, 1)), old, s), NULL);
    return give(k, s ? named(k, OP_expand, 2, (ValueId[]){ x, s }) : 0);
}

/* ---- reductions over axes from data ---------------------------------------------------------- */

/* Every axis of n elements becomes two: as many as stay, then as many as are reduced, one of them
 * 1. Roots and logarithms of sums of integers are computed in f64. */
static bool
size_reduce(Call *k)
{
    Ctx *c = k->m->c;
    DType of = little_type(k, k->in.at[0])->dtype;
    bool real =
        k->op == OP_reduce_l2 || k->op == OP_reduce_log_sum || k->op == OP_reduce_log_sum_exp;
    ValueId x = real && dtype_is_int(of) ? little_cast(k, k->in.at[0], DT_F64) : k->in.at[0],
            axes = little_ints(k, k->in.at[1]);
    const Type *t = little_type(k, x);
    Attrs attrs = { k->attr.at, k->attr.n };
    const bool keep = attr_int(attrs, "keepdims", 1) != 0, open = keep && length_is_open(k, axes);
    int64_t n = open ? 0 : axes_length(k, axes, t), order[2 * TN_MAX_RANK], odd[TN_MAX_RANK];
    const Expr *most[2 * TN_MAX_RANK];
    Attr drop = { .name = sym(c, "keepdims"), .kind = ATTR_INT, .i = 0 },
         exact = { .name = sym(c, "allowzero"), .kind = ATTR_INT, .i = 1 };

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
    ValueId mask = mask_of(k, axes, t->rank), sizes = little_shape(k, x);
    if (open) { /* without axes the mask says nothing: all of them, or none */
        ValueId none = little_2(k, OP_equal, little_shape(k, axes), little_number(k, 0));
        mask = little_3(k, OP_where, none,
                        little_number(k, attr_int(attrs, "noop_with_empty_axes", 0) ? 0 : 1), mask);
    }
    ValueId set = is_set(k, mask);
    ValueId kept = little_3(k, OP_where, set, little_number(k, 1), sizes),
            gone = little_3(k, OP_where, set, sizes, little_number(k, 1));
    ValueId both = little_axis(k, OP_concat, 0, 2, (ValueId[]){ kept, gone });
    ValueId pairs = little_match(
        k, both ? little_2(k, OP_gather, both, little_list(k, 2 * t->rank, order)) : 0, most);
    ValueId wide =
        pairs ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ x, pairs }, "pairs") : 0;
    ValueId y =
        wide ? call_op(k, k->op, 1, &drop, 2, (ValueId[]){ wide, little_list(k, t->rank, odd) },
                       keep ? k->proto->output[0] : "reduced")
             : 0;
    if (y && !keep)
        y = reshaped_to(k, y, compact(k, sizes, mask, t->rank - (uint32_t)n), largest_dim(k, t));
    return give(k, little_cast(k, y, of));
}

/* A running sum along an axis from data: x as what lies outside of it, itself, and what lies
 * inside. */
static bool
size_cum_sum(Call *k)
{
    ValueId x = k->in.at[0], axis = little_ints(k, k->in.at[1]), one = little_number(k, 1);
    uint32_t rank = little_type(k, x)->rank;
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 },
         exact = { .name = sym(k->m->c, "allowzero"), .kind = ATTR_INT, .i = 1 };
    const int64_t first = 0;

    if (!rank || !axis || length(k, axis, "axes are") != 1)
        return call_refuse(k, "a running sum of %s", type_str(k->m->c, little_type(k, x)));
    ValueId at = little_wrap(k, axis, rank), every = little_iota(k, rank),
            sizes = little_shape(k, x), part[3];
    for (int i = 0; i < 3; i++) {
        ValueId here = little_2(k, i == 0 ? OP_less : i == 1 ? OP_equal : OP_greater, every, at);
        ValueId there = little_3(k, OP_where, here, sizes, one);
        part[i] = little_ints(k, call_op(k, OP_reduce_prod, 1, &keep, 2,
                                         (ValueId[]){ there, little_list(k, 1, &first) }, "part"));
    }
    ValueId shape = little_match(k, little_axis(k, OP_concat, 0, 3, part), NULL);
    ValueId parts =
        shape ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ x, shape }, "parts") : 0;
    ValueId sum =
        parts ? call_op(k, k->op, k->attr.n, k->attr.at, 2, (ValueId[]){ parts, one }, "sum") : 0;
    return give(k, sum ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ sum, sizes },
                                 k->proto->output[0])
                       : 0);
}

/* ---- parts of a tensor ----------------------------------------------------------------------- */

/* x with axis d read at start + step * i, i below the size that `count`, i64[1], becomes. */
static ValueId
take(Call *k, ValueId x, uint32_t d, ValueId start, ValueId step, ValueId count, const Expr *most)
{
    count = little_match(k, count, most ? &most : NULL);
    if (!count)
        return 0;
    ValueId end = little_1(k, OP_squeeze, count);
    ValueId i = little_3(k, OP_range, little_number(k, 0), end, little_number(k, 1));
    ValueId at = i ? little_2(k, OP_add, start, little_2(k, OP_mul, step, i)) : 0;
    return at ? little_axis(k, OP_gather, d, 2, (ValueId[]){ x, at }) : 0;
}

static bool
known_list(Call *k, ValueId v)
{
    return !v || k->m->g->value.at[v].known.at;
}

/* Axis d from start to end by step, each i64[1]. As ONNX clamps: what lies outside is moved to the
 * border; a step beyond any size is as good as one just beyond. */
static ValueId
slice_axis(Call *k, ValueId x, uint32_t d, ValueId start, ValueId end, ValueId step)
{
    const Expr *dim = little_type(k, x)->dim[d];
    ValueId n = little_element(k, little_shape(k, x), d), zero = little_number(k, 0),
            one = little_number(k, 1);

    if (!little_demand(k, little_1(k, OP_not, little_2(k, OP_equal, step, zero)),
                       arena_printf(k->m->arena, "the step along axis %u is 0", d)))
        return 0;
    step = little_2(k, OP_max, little_2(k, OP_min, step, little_number(k, INT64_MAX / 2)),
                    little_number(k, -INT64_MAX / 2));
    ValueId back = little_2(k, OP_less, step, zero);
    ValueId last = little_2(k, OP_sub, n, one);
    start = little_3(k, OP_where, little_2(k, OP_less, start, zero), little_2(k, OP_add, start, n),
                     start);
    end = little_3(k, OP_where, little_2(k, OP_less, end, zero), little_2(k, OP_add, end, n), end);
    start = little_2(k, OP_max, start, zero);
    start = little_3(k, OP_where, back, little_2(k, OP_min, start, last),
                     little_2(k, OP_min, start, n));
    end = little_3(k, OP_where, back, little_2(k, OP_max, end, little_number(k, -1)),
                   little_2(k, OP_max, end, zero));
    end = little_3(k, OP_where, back, little_2(k, OP_min, end, last), little_2(k, OP_min, end, n));
    /* (end - start + step -+ 1) / step, at least 0 */
    ValueId span = little_2(k, OP_sub, end, start), width = little_1(k, OP_abs, step);
    span = little_2(k, OP_max, little_3(k, OP_where, back, little_1(k, OP_neg, span), span), zero);
    ValueId count = little_2(k, OP_div, little_2(k, OP_add, span, little_2(k, OP_sub, width, one)),
                             little_2(k, OP_max, width, one));
    return take(k, x, d, start, step, count, dim);
}

/* With axes from data too, each axis of x gets what its entry says, or all of it. */
static bool
size_slice(Call *k)
{
    ValueId x = k->in.at[0], part[4] = { 0 };
    uint32_t rank = little_type(k, x)->rank;
    int64_t axis[2 * TN_MAX_RANK];

    for (uint32_t i = 0; i < 4; i++)
        part[i] = i + 1 < k->in.n && k->in.at[i + 1] ? little_ints(k, k->in.at[i + 1]) : 0;
    if (k->in.n < 3 || !k->in.at[1] || !k->in.at[2])
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "Slice takes starts and ends, the node has %u inputs", k->in.n);
    const bool open = length_is_open(k, part[0]);
    int64_t n = open ? 0 : part[0] && part[1] ? length(k, part[0], "starts are") : -1;
    if (n < 0)
        return false;
    for (uint32_t i = 1; i < 4; i++)
        if (open && part[i] && !as_long_as(k, part[i], part[0], 1, "starts, ends, axes and steps"))
            return false;
    for (uint32_t i = 1; i < 4; i++)
        if (!open && part[i] && length(k, part[i], "ends, axes and steps are") != n)
            return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                              "Slice has %lld starts, and another number of ends, axes or steps",
                              (long long)n);
    if (!part[3])
        part[3] = little_2(k, OP_expand, little_number(k, 1),
                           open ? little_shape(k, part[0]) : little_list(k, 1, &n));
    if (open && !part[2])
        part[2] = places_of(k, part[0]);
    bool fixed = !open && known_list(k, part[2]);
    for (uint32_t i = 0; fixed && i < n; i++) {
        axis[i] = i;
        if (part[2] && !expr_const(k->m->g->value.at[part[2]].known.at[i], &axis[i]))
            return call_refuse(k, "axes of Slice that depend on the inputs' sizes");
        axis[i] += axis[i] < 0 ? rank : 0;
        if (axis[i] < 0 || axis[i] >= rank)
            return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "axis %lld of %s",
                              (long long)axis[i], type_str(k->m->c, little_type(k, x)));
        x = slice_axis(k, x, (uint32_t)axis[i], little_element(k, part[0], i),
                       little_element(k, part[1], i), little_element(k, part[3], i));
        if (!x)
            return false;
    }
    if (fixed)
        return give(k, named(k, OP_identity, 1, &x));
    ValueId wrapped = little_wrap(k, part[2], rank), full[3];
    const ValueId all[3] = { little_list(k, rank, (int64_t[TN_MAX_RANK]){ 0 }), little_shape(k, x),
                             little_2(k, OP_expand, little_number(k, 1),
                                      little_list(k, 1, (int64_t[]){ rank })) };
    const ValueId given[3] = { part[0], part[1], part[3] };
    for (uint32_t i = 0; i < 3; i++)
        full[i] = little_3(k, OP_scatter_elements, all[i], wrapped, given[i]);
    for (uint32_t d = 0; x && d < rank; d++)
        x = slice_axis(k, x, d, little_element(k, full[0], d), little_element(k, full[1], d),
                       little_element(k, full[2], d));
    return x && give(k, named(k, OP_identity, 1, &x));
}

/* Pads may crop. Positions outside of x read another element of it, or, by the mask, the value. */
static bool
size_pad(Call *k)
{
    ValueId x = k->in.at[0], pads = little_ints(k, k->in.at[1]),
            axes = k->in.n > 3 ? little_ints(k, k->in.at[3]) : 0, outside = 0;
    const Type *t = little_type(k, x);
    const char *mode = attr_string((Attrs){ k->attr.at, k->attr.n }, "mode", "constant");
    bool constant = mode[0] == 'c', edge = mode[0] == 'e', reflect = mode[0] == 'r';
    const bool open = length_is_open(k, axes);
    int64_t n = open ? 0 : pads ? length(k, pads, "pads are") : -1;

    if (n < 0 || (open && !as_long_as(k, pads, axes, 2, "pads and axes")))
        return false;
    if (axes && !open && axes_length(k, axes, t) < 0)
        return false;
    if (!open && n != 2 * (axes ? length(k, axes, "axes are") : t->rank))
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "%lld pads for %s", (long long)n,
                          type_str(k->m->c, t));
    int64_t half[2 * TN_MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        half[i] = i;
    ValueId first = open ? places_of(k, axes) : little_list(k, (uint32_t)n / 2, half);
    ValueId second = open ? little_2(k, OP_add, first, little_shape(k, axes))
                          : little_list(k, (uint32_t)n / 2, half + n / 2);
    ValueId before = little_2(k, OP_gather, pads, first),
            after = little_2(k, OP_gather, pads, second);
    if (axes) {
        ValueId wrapped = little_wrap(k, axes, t->rank),
                none = little_list(k, t->rank, (int64_t[TN_MAX_RANK]){ 0 });
        before = little_3(k, OP_scatter_elements, none, wrapped, before);
        after = little_3(k, OP_scatter_elements, none, wrapped, after);
    }
    ValueId zero = little_number(k, 0), one = little_number(k, 1);
    for (uint32_t d = 0; x && d < t->rank; d++) {
        ValueId size = little_element(k, little_shape(k, x), d), b = little_element(k, before, d),
                last = little_2(k, OP_sub, size, one), mask;
        ValueId a = little_element(k, after, d),
                cut = little_2(k, OP_max, zero, little_1(k, OP_neg, b));
        ValueId left = little_2(k, OP_sub, little_2(k, OP_sub, size, cut),
                                little_2(k, OP_max, zero, little_1(k, OP_neg, a)));
        ValueId grows = little_2(k, OP_greater, little_2(k, OP_max, a, b), zero),
                some = little_2(k, OP_greater, left, zero);
        if (!constant &&
            !little_demand(k, little_2(k, OP_or, some, little_1(k, OP_not, grows)),
                           arena_printf(k->m->arena, "nothing is left to fill axis %u with", d)))
            return false;
        ValueId count = little_match(k, little_2(k, OP_add, size, little_2(k, OP_add, b, a)), NULL);
        if (!count)
            return false;
        ValueId at = little_2(k, OP_sub,
                              little_3(k, OP_range, zero, little_1(k, OP_squeeze, count), one), b);
        if (!at)
            return false;
        mask =
            little_2(k, OP_or, little_2(k, OP_less, at, zero), little_2(k, OP_greater, at, last));
        if (edge || constant) {
            at = little_2(k, OP_max, little_2(k, OP_min, at, last), zero);
        } else if (reflect) { /* a saw of period 2 * (size - 1) */
            ValueId period =
                little_2(k, OP_max, little_2(k, OP_mul, last, little_number(k, 2)), one);
            ValueId phase = little_2(k, OP_mod, at, period);
            at = little_2(k, OP_min, phase, little_2(k, OP_sub, period, phase));
        } else { /* around what is left */
            at = little_2(
                k, OP_add,
                little_2(k, OP_mod, little_2(k, OP_sub, at, cut), little_2(k, OP_max, left, one)),
                cut);
        }
        x = at ? little_axis(k, OP_gather, d, 2, (ValueId[]){ x, at }) : 0;
        if (constant && x) {
            int64_t shape[TN_MAX_RANK];
            for (uint32_t i = 0; i < t->rank; i++)
                shape[i] = i == d ? -1 : 1;
            ValueId along = little_2(k, OP_reshape, mask, little_list(k, t->rank, shape));
            outside = outside ? little_2(k, OP_or, outside, along) : along;
        }
    }
    if (!x || !outside)
        return x && give(k, named(k, OP_identity, 1, &x));
    ValueId value = k->in.n > 2 && k->in.at[2] ? little_cast(k, k->in.at[2], t->dtype)
                                               : little_cast(k, zero, t->dtype);
    return give(k, value ? named(k, OP_where, 3, (ValueId[]){ outside, value, x }) : 0);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* How many numbers there are from start to limit by delta, as doubles divide: i64[]. */
static ValueId
count_floats(Call *k, ValueId start, ValueId limit, ValueId delta)
{
    ValueId count =
        little_1(k, OP_ceil,
                 little_2(k, OP_div, little_cast(k, little_2(k, OP_sub, limit, start), DT_F64),
                          little_cast(k, delta, DT_F64)));
    ValueId odd = little_2(k, OP_or, little_1(k, OP_is_nan, count), little_1(k, OP_is_inf, count));

    return little_demand(k, little_1(k, OP_not, odd),
                         "from start to limit by this step is no number of elements")
               ? little_cast(k, count, DT_I64)
               : 0;
}

/* The same of integers, each an i64: rounded up, whichever way it goes. How far apart two of them
 * are is a u64, and so is how far the least is from 0. */
static ValueId
count_integers(Call *k, ValueId start, ValueId limit, ValueId delta)
{
    ValueId zero = little_number(k, 0), back = little_2(k, OP_less, delta, zero),
            one = little_cast(k, little_number(k, 1), DT_U64);
    ValueId first = little_3(k, OP_where, back, limit, start),
            end = little_3(k, OP_where, back, start, limit),
            ahead = little_2(k, OP_less, first, end);
    ValueId span = little_cast(k, little_2(k, OP_sub, end, first), DT_U64);
    ValueId width =
        little_cast(k, little_3(k, OP_where, back, little_1(k, OP_neg, delta), delta), DT_U64);
    /* behind the first */
    ValueId more =
        little_2(k, OP_div, little_2(k, OP_sub, span, one), little_2(k, OP_max, width, one));
    ValueId most = little_cast(k, little_number(k, INT64_MAX - 1), DT_U64);
    ValueId count = little_2(k, OP_add, little_cast(k, little_2(k, OP_min, more, most), DT_I64),
                             little_number(k, 1));

    return little_3(k, OP_where, ahead, count, zero);
}

/* start + delta * i for as many i as lie before limit. */
static bool
size_range(Call *k)
{
    ValueId start = k->in.at[0], limit = k->in.at[1], delta = k->in.at[2], count;
    DType t = little_type(k, start)->dtype;

    if (little_type(k, limit)->dtype != t || little_type(k, delta)->dtype != t)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "start, limit and delta are %s, %s and %s; one type is needed",
                          dtype_info[t].name, dtype_info[little_type(k, limit)->dtype].name,
                          dtype_info[little_type(k, delta)->dtype].name);
    if (!little_demand(
            k,
            little_1(k, OP_not,
                     little_2(k, OP_equal, delta, little_cast(k, little_number(k, 0), t))),
            "the step (delta) is 0"))
        return false;
    if (dtype_is_float(t))
        count = count_floats(k, start, limit, delta);
    else
        count = count_integers(k, little_cast(k, start, DT_I64), little_cast(k, limit, DT_I64),
                               little_cast(k, delta, DT_I64));
    count = count ? little_match(k, little_2(k, OP_max, count, little_number(k, 0)), NULL) : 0;
    ValueId i = count ? little_3(k, OP_range, little_number(k, 0), little_1(k, OP_squeeze, count),
                                 little_number(k, 1))
                      : 0;
    return give(k, i ? named(k, OP_add, 2,
                             (ValueId[]){ little_2(k, OP_mul, little_cast(k, i, t), delta), start })
                     : 0);
}

/* Scales: as ratios, and the extents that they give. A ratio is at least one part. */
static bool
size_resize(Call *k)
{
    Ctx *c = k->m->c;
    ValueId x = k->in.at[0], scales = k->in.at[2];
    const Attr *axes = attr_find((Attrs){ k->attr.at, k->attr.n }, "axes");
    int64_t n = length(k, scales, "scales are"), order[2 * TN_MAX_RANK];
    float ratio = RESIZE_RATIO;
    Var v;

    if (n < 0 || n != (axes ? (int64_t)axes->n : (int64_t)little_type(k, x)->rank))
        return n < 0 ? false
                     : diag_error(&c->diags, DIAG_MODEL, k->loc, "%lld scales for %s", (long long)n,
                                  type_str(c, little_type(k, x)));
    for (uint32_t i = 0; i < n; i++)
        order[i] = axes ? axes->ints[i] : (int64_t)i;
    ValueId one = graph_const(k->m->g, "ratio", type_new(c, DT_F32, 0, NULL),
                              arena_copy(k->m->arena, &ratio, sizeof ratio));
    ValueId parts = little_cast(k, little_1(k, OP_round, little_2(k, OP_mul, scales, one)), DT_I64);
    ValueId sizes = little_2(k, OP_gather, little_shape(k, x), little_list(k, (uint32_t)n, order));
    ValueId extents = little_cast(
        k, little_1(k, OP_floor, little_2(k, OP_mul, little_cast(k, sizes, DT_F32), scales)),
        DT_I64);
    ValueId both = little_axis(k, OP_concat, 0, 2, (ValueId[]){ parts, extents });
    k->in.at[2] = little_match(k, both, NULL);
    for (uint32_t i = 0; k->in.at[2] && i < n; i++)
        if (expr_is_var(k->m->g->value.at[k->in.at[2]].known.at[i], &v))
            expr_symbol_range(c, v, (Interval){ 1, INT64_MAX });
    return k->in.at[2] != 0;
}

/* ---- as many as there are -------------------------------------------------------------------- */

/* Where mask, bool[n], is set: i64[hits], in order. Each position goes to the slot that the count
 * of those before names; what is not set goes to one slot more, which is cut off. */
ValueId
call_positions(Call *k, ValueId mask)
{
    if (!mask)
        return 0;
    const Type *t = little_type(k, mask);
    ValueId one = little_number(k, 1), zero = little_number(k, 0),
            set = little_cast(k, mask, DT_I64);
    ValueId count = little_2(k, OP_cum_sum, set, zero);
    ValueId total = little_2(k, OP_reduce_sum, set, little_list(k, 1, (int64_t[]){ 0 }));
    ValueId hits = little_match(k, total, &t->dim[0]);
    if (!hits)
        return 0;
    ValueId slot = little_3(k, OP_where, mask, little_2(k, OP_sub, count, one), total);
    ValueId all = little_3(k, OP_range, zero, little_1(k, OP_size, mask), one);
    Attr blank = { .name = sym(k->m->c, "value"),
                   .kind = ATTR_TENSOR,
                   .type = little_type(k, zero),
                   .data = k->m->g->value.at[zero].data };
    ValueId room = little_2(k, OP_add, hits, one);
    ValueId empty = room ? call_op(k, OP_constant_of_shape, 1, &blank, 1, &room, "room") : 0;
    ValueId filled = little_3(k, OP_scatter_elements, empty, slot, all);
    return little_3(k, OP_slice, filled, little_list(k, 1, (int64_t[]){ 0 }), hits);
}

bool
convert_nonzero(Call *k)
{
    const int64_t flat = -1;
    if (!k->in.n || !k->in.at[0])
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "NonZero has no input");
    ValueId x = k->in.at[0], row[TN_MAX_RANK];
    uint32_t rank = little_type(k, x)->rank;
    if (little_type(k, x)->dtype == DT_STR &&
        !(x = little_1(k, OP_not, little_2(k, OP_string_equal, x, call_string(k, "empty", "")))))
        return false;
    ValueId at = call_positions(
        k, little_cast(k, little_2(k, OP_reshape, x, little_list(k, 1, &flat)), DT_BOOL));

    if (!at)
        return false;
    if (!rank) { /* no rows, of as many columns as it has elements that count */
        const ValueId none = little_list(k, 1, (int64_t[]){ 0 }),
                      all = little_2(k, OP_unsqueeze, at, none);
        return give(k, all ? call_op(k, OP_slice, 0, NULL, 3, (ValueId[]){ all, none, none },
                                     k->proto->output[0])
                           : 0);
    }
    for (uint32_t d = rank; d-- > 0;) {
        ValueId n = little_element(k, little_shape(k, x), d);
        row[d] = little_2(k, OP_unsqueeze, little_2(k, OP_mod, at, n),
                          little_list(k, 1, (int64_t[]){ 0 }));
        at = little_2(k, OP_div, at, n);
    }
    Attr axis = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT };
    return give(k, call_op(k, OP_concat, 1, &axis, rank, row, k->proto->output[0]));
}

/* Slices of x along an axis, or elements of it flat, where the condition is set; it may be
 * shorter. */
bool
convert_compress(Call *k)
{
    const Attr *axis = attr_find((Attrs){ k->attr.at, k->attr.n }, "axis");
    const int64_t flat = -1;
    if (k->in.n < 2 || !k->in.at[0] || !k->in.at[1])
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "Compress takes two inputs");
    ValueId x = axis ? k->in.at[0] : little_2(k, OP_reshape, k->in.at[0], little_list(k, 1, &flat)),
            at = call_positions(k, k->in.at[1]);
    Attr along = { .name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = axis ? axis->i : 0 };

    return give(
        k, at && x ? call_op(k, OP_gather, 1, &along, 2, (ValueId[]){ x, at }, k->proto->output[0])
                   : 0);
}

/* ---- transforms along an axis from data ------------------------------------------------------ */

/* x as what lies outside of the axis, itself, and what lies inside; the last axis, of parts,
 * stays. */
static bool
size_dft(Call *k)
{
    ValueId x = k->in.at[0], axis = little_ints(k, k->in.at[2]), one = little_number(k, 1);
    uint32_t all_axes = little_type(k, x)->rank, rank = all_axes - 1;
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0 },
         exact = { .name = sym(k->m->c, "allowzero"), .kind = ATTR_INT, .i = 1 };
    const int64_t first = 0;
    int64_t every_axis[TN_MAX_RANK];

    if (all_axes < 2 || all_axes > TN_MAX_RANK || !axis || length(k, axis, "axes are") != 1)
        return call_refuse(k, "DFT of %s along an axis from data",
                           type_str(k->m->c, little_type(k, x)));
    for (uint32_t d = 0; d <= rank; d++)
        every_axis[d] = d;
    ValueId at = little_wrap(k, axis, all_axes), every = little_iota(k, rank),
            all = little_shape(k, x), part[4];
    ValueId sizes = little_2(k, OP_gather, all, little_list(k, rank, every_axis));
    for (int i = 0; i < 3; i++) {
        ValueId here = little_2(k, i == 0 ? OP_less : i == 1 ? OP_equal : OP_greater, every, at);
        ValueId there = little_3(k, OP_where, here, sizes, one);
        part[i] = little_ints(k, call_op(k, OP_reduce_prod, 1, &keep, 2,
                                         (ValueId[]){ there, little_list(k, 1, &first) }, "part"));
    }
    part[3] = little_element(k, all, rank);
    ValueId three = little_match(k, little_axis(k, OP_concat, 0, 3, part), NULL);
    ValueId shape = three ? little_axis(k, OP_concat, 0, 2, (ValueId[]){ three, part[3] }) : 0;
    ValueId parts =
        shape ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ x, shape }, "parts") : 0;
    ValueId in[3] = { parts, k->in.at[1], little_list(k, 1, (int64_t[]){ 1 }) }, y;
    if (!parts ||
        !graph_infer_op(
            k->m->g, k->op,
            (Attrs){ arena_copy(k->m->arena, k->attr.at, k->attr.n * sizeof(Attr)), k->attr.n },
            k->loc, k->origin, 3, in, 1, (const char *const[]){ "transformed" }, &y))
        return false;
    ValueId bins = little_element(k, little_shape(k, y), 1),
            to = little_3(k, OP_where, little_2(k, OP_equal, every, at), bins, sizes);
    to = little_match(k, to, NULL);
    ValueId full = to ? little_axis(k, OP_concat, 0, 2,
                                    (ValueId[]){ to, little_element(k, little_shape(k, y), 3) })
                      : 0;
    return give(
        k, full ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){ y, full }, k->proto->output[0])
                : 0);
}

/* How many axes are indexed is the size of the indices' last axis; where that is open, the rank of
 * the result says it. */
static bool
size_gather_nd(Call *k)
{
    Ctx *c = k->m->c;
    const Type *x = little_type(k, k->in.at[0]), *index = little_type(k, k->in.at[1]);
    int64_t rank = result_rank(k), left = (int64_t)x->rank - get_int(k, "batch_dims", 0),
            width = index->rank - 1 + left - rank;

    if (!index->rank || expr_const(index->dim[index->rank - 1], NULL) || rank < 0 || width < 1 ||
        width > left)
        return true; /* the operator's own rule says what is wrong */
    if (model_require(k->m, index->dim[index->rank - 1], expr_int(c, width),
                      arena_printf(k->m->arena,
                                   "%s: the last axis of the indices and the axes that the "
                                   "declared rank of the result says are indexed",
                                   k->origin)))
        return true;
    return diag_error(&c->diags, DIAG_MODEL, k->loc,
                      "the result is declared of rank %" PRId64 ", so that indices of %" PRId64
                      " axes are wanted; input 1 is %s",
                      rank, width, type_str(c, index));
}

/* ---- which node needs what ------------------------------------------------------------------- */

/* Sizes as they stand: input i matched, the node goes on with them. */
static bool
match_input(Call *k, uint32_t i, const Expr *most)
{
    ValueId v = k->in.at[i];
    const Expr *all[2 * TN_MAX_RANK];
    int64_t n = length(k, v, "sizes are");

    for (uint32_t j = 0; j < 2 * TN_MAX_RANK; j++)
        all[j] = most;
    if (n < 0)
        return false;
    k->in.at[i] = little_match(k, v, most ? all : NULL);
    return k->in.at[i] != 0;
}

/* Sizes that are 1 or more. */
static bool
match_positive(Call *k, uint32_t i)
{
    Var v;

    if (!match_input(k, i, NULL))
        return false;
    const Known *known = &k->m->g->value.at[k->in.at[i]].known;
    for (uint32_t j = 0; j < known->n; j++)
        if (expr_is_var(known->at[j], &v))
            expr_symbol_range(k->m->c, v, (Interval){ 1, INT64_MAX });
    return true;
}

bool
call_sizes(Call *k)
{
    if (!k->in.n || !k->in.at[0] || !k->proto->n_output)
        return true;
    for (uint32_t i = 0; i < op_info[k->op].min_in; i++)
        if (i >= k->in.n || !k->in.at[i])
            return true; /* the operator's own rule says what is missing */
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
    case OP_affine_grid:
    case OP_center_crop_pad: return !call_is_open(k, 1) || match_input(k, 1, NULL);
    case OP_col2im:
        return (!call_is_open(k, 1) || match_input(k, 1, NULL)) &&
               (!call_is_open(k, 2) || match_positive(k, 2));
    case OP_max_unpool: return !call_is_open(k, 2) || match_input(k, 2, NULL);
    case OP_hann_window:
    case OP_hamming_window:
    case OP_blackman_window: return !call_is_open(k, 0) || match_input(k, 0, NULL);
    case OP_mel_weight_matrix:
        return (!call_is_open(k, 0) || match_input(k, 0, NULL)) &&
               (!call_is_open(k, 1) || match_input(k, 1, NULL));
    case OP_stft:
        return (!call_is_open(k, 1) || match_positive(k, 1)) &&
               (!call_is_open(k, 3) || match_positive(k, 3));
    case OP_dft:
        return (!call_is_open(k, 1) || match_input(k, 1, NULL)) &&
               (!call_is_open(k, 2) || size_dft(k));
    case OP_cum_sum:
    case OP_cum_prod: return !call_is_open(k, 1) || size_cum_sum(k);
    case OP_tile: return !call_is_open(k, 1) || match_input(k, 1, NULL);
    case OP_gather_nd: return size_gather_nd(k);
    case OP_constant_of_shape: return !call_is_open(k, 0) || match_input(k, 0, NULL);
    case OP_split:
        return !call_is_open(k, 1) ||
               match_input(k, 1, largest_dim(k, little_type(k, k->in.at[0])));
    case OP_resize:
        return (!call_is_open(k, 2) || size_resize(k)) &&
               (!call_is_open(k, 3) || match_input(k, 3, NULL));
    case OP_one_hot:
        if (!call_is_open(k, 1))
            return true;
        k->in.at[1] = little_cast(k, k->in.at[1], DT_I64);
        return k->in.at[1] && match_input(k, 1, NULL);
    case OP_range:
        return !(call_is_open(k, 0) || call_is_open(k, 1) || call_is_open(k, 2)) || k->in.n < 3 ||
               size_range(k);
    case OP_reduce_sum:
    case OP_reduce_mean:
    case OP_reduce_prod:
    case OP_reduce_max:
    case OP_reduce_min:
    case OP_reduce_l1:
    case OP_reduce_l2:
    case OP_reduce_sum_square:
    case OP_reduce_log_sum:
    case OP_reduce_log_sum_exp: return !call_is_open(k, 1) || size_reduce(k);
    default: return true;
    }
}
