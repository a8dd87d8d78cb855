/* sizes: shapes, axes and bounds that the model computes from data.
 *
 * Operators of Tenon take their parameters as known contents. Where these come from data, what they decide
 * is computed by operators on small integer tensors, the sizes that follow become symbols (graph_match), and
 * the node becomes operators over those: a reshape to sizes that are symbols, a gather by computed indices.
 * What a model may write in its parameters (-1, 0, negative axes) is settled there, so that a symbol is a size.
 */
#include "import/internal.h"

/* ---- little tensors -------------------------------------------------------------------------------- */

static const Type *
type_of(const Call *k, ValueId v)
{
    return k->m->g->value.at[v].type;
}

static ValueId
op1(Call *k, OpKind op, ValueId a)
{
    return call_op(k, op, 0, NULL, 1, &a, op_info[op].name);
}

static ValueId
op2(Call *k, OpKind op, ValueId a, ValueId b)
{
    return call_op(k, op, 0, NULL, 2, (ValueId[]){a, b}, op_info[op].name);
}

static ValueId
op3(Call *k, OpKind op, ValueId a, ValueId b, ValueId c)
{
    return call_op(k, op, 0, NULL, 3, (ValueId[]){a, b, c}, op_info[op].name);
}

static ValueId
op_axis(Call *k, OpKind op, int64_t axis, uint32_t n, const ValueId *in)
{
    Attr a = {.name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = axis};
    return call_op(k, op, 1, &a, n, in, op_info[op].name);
}

/* An i64[n] constant. */
static ValueId
list(Call *k, uint32_t n, const int64_t *v)
{
    const Expr *dim = expr_int(k->m->c, n);
    int64_t *copy = NEW_ARRAY(k->m->arena, int64_t, n + 1);

    for (uint32_t i = 0; i < n; i++)
        copy[i] = v[i];
    return graph_const(k->m->g, "list", type_new(k->m->c, DT_I64, 1, &dim), copy);
}

static ValueId
number(Call *k, int64_t v)
{
    return graph_const(k->m->g, "number", type_new(k->m->c, DT_I64, 0, NULL), arena_copy(k->m->arena, &v, sizeof v));
}

/* 0, 1, …, n - 1. */
static ValueId
iota(Call *k, uint32_t n)
{
    int64_t v[TN_MAX_RANK * 2] = {0};
    for (uint32_t i = 0; i < n; i++)
        v[i] = i;
    return list(k, n, v);
}

static ValueId
cast_to(Call *k, ValueId v, DType t)
{
    Attr to = {.name = sym(k->m->c, "to"), .kind = ATTR_STRING, .s = sym(k->m->c, dtype_info[t].name)};
    if (!v || type_of(k, v)->dtype == t)
        return v;
    return call_op(k, OP_cast, 1, &to, 1, &v, "cast");
}

/* Integers of rank 0 or 1 as i64[n]. */
static ValueId
as_list(Call *k, ValueId v)
{
    const int64_t one = -1;
    if (v && type_of(k, v)->rank == 0)
        v = op2(k, OP_reshape, v, list(k, 1, &one));
    return cast_to(k, v, DT_I64);
}

/* How many elements a list has; -1, reported, if that is not fixed. */
static int64_t
length(Call *k, ValueId v, const char *what)
{
    const Type *t = type_of(k, v);
    int64_t n;

    if (t->rank <= 1 && expr_const(type_count(k->m->c, t), &n) && n <= 2 * TN_MAX_RANK)
        return n;
    call_refuse(k, "%s of type %s; their number must be fixed, at most %d", what, type_str(k->m->c, t), 2 * TN_MAX_RANK);
    return -1;
}

static ValueId
sizes_of(Call *k, ValueId v)
{
    return op1(k, OP_shape, v);
}

/* axes[n] of a tensor of rank r, negative ones counted from the back; others stop the run. */
static ValueId
wrap_axes(Call *k, ValueId axes, uint32_t r)
{
    return op2(k, OP_gather, iota(k, r), axes);
}

/* i64[r]: 1 where an axis is among axes[n]. */
static ValueId
mask_of(Call *k, ValueId axes, uint32_t r)
{
    const int64_t last = 1, first = 0;
    ValueId column = op2(k, OP_unsqueeze, wrap_axes(k, axes, r), list(k, 1, &last));
    ValueId same = cast_to(k, op2(k, OP_equal, column, iota(k, r)), DT_I64);
    Attr keep = {.name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0};
    return call_op(k, OP_reduce_max, 1, &keep, 2, (ValueId[]){same, list(k, 1, &first)}, "mask");
}

static ValueId
is_set(Call *k, ValueId mask)
{
    return cast_to(k, mask, DT_BOOL);
}

/* Elements of v[r] where mask is 0, which are n. The j-th is behind as many as have a running count of at most j. */
static ValueId
compact(Call *k, ValueId v, ValueId mask, uint32_t n)
{
    const int64_t first = 0, last = 1;
    ValueId left = op2(k, OP_sub, number(k, 1), mask);
    ValueId count = op2(k, OP_cum_sum, left, number(k, 0));
    ValueId row = op2(k, OP_unsqueeze, count, list(k, 1, &first)), column = op2(k, OP_unsqueeze, iota(k, n), list(k, 1, &last));
    ValueId before = cast_to(k, op2(k, OP_less_or_equal, row, column), DT_I64);
    Attr keep = {.name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0};
    ValueId at = call_op(k, OP_reduce_sum, 1, &keep, 2, (ValueId[]){before, list(k, 1, &last)}, "at");
    return op2(k, OP_gather, v, at);
}

/* v's contents as symbols, named after the node's result; most: of each, or NULL. */
static ValueId
match(Call *k, ValueId v, const Expr *const *most)
{
    const char *name = k->proto->n_output && *text_of(k->proto->output[0]) ? k->proto->output[0] : "size";
    return v ? graph_match(k->m->g, v, name, most, k->loc, k->origin) : 0;
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

/* ---- another shape --------------------------------------------------------------------------------------- */

/* 0 copies a dimension, -1 is what is left over. */
static bool
size_reshape(Call *k)
{
    ValueId x = k->in.at[0], s = as_list(k, k->in.at[1]);
    uint32_t rank = type_of(k, x)->rank;
    int64_t n = s ? length(k, s, "shape is") : -1, copied[2 * TN_MAX_RANK];
    bool zeros = attr_int((Attrs){k->attr.at, k->attr.n}, "allowzero", 0) != 0;
    Attr keep = {.name = sym(k->m->c, "keepdims"), .kind = ATTR_INT, .i = 0}, exact = {.name = sym(k->m->c, "allowzero"), .kind = ATTR_INT, .i = 1};

    if (n < 0)
        return false;
    if (!zeros && rank) {
        for (uint32_t i = 0; i < n; i++)
            copied[i] = i < rank ? i : rank - 1;
        ValueId old = op2(k, OP_gather, sizes_of(k, x), list(k, (uint32_t)n, copied));
        s = op3(k, OP_where, op2(k, OP_equal, s, number(k, 0)), old, s);
    }
    ValueId left = op2(k, OP_equal, s, number(k, -1));
    ValueId rest = call_op(k, OP_reduce_prod, 1, &keep, 1, (ValueId[]){op3(k, OP_where, left, number(k, 1), s)}, "rest");
    ValueId inferred = op2(k, OP_div, op1(k, OP_size, x), op2(k, OP_max, rest, number(k, 1)));
    s = match(k, op3(k, OP_where, left, inferred, s), NULL);
    return give(k, s ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){x, s}, k->proto->output[0]) : 0);
}

static bool
reshape_to(Call *k, ValueId x, ValueId sizes, const Expr *most)
{
    const Expr *all[2 * TN_MAX_RANK];
    Attr exact = {.name = sym(k->m->c, "allowzero"), .kind = ATTR_INT, .i = 1};

    for (uint32_t i = 0; i < 2 * TN_MAX_RANK; i++)
        all[i] = most;
    sizes = match(k, sizes, all);
    return give(k, sizes ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){x, sizes}, k->proto->output[0]) : 0);
}

static bool
size_squeeze(Call *k)
{
    ValueId x = k->in.at[0], axes = as_list(k, k->in.at[1]);
    const Type *t = type_of(k, x);
    int64_t n = axes ? length(k, axes, "axes are") : -1;

    if (n < 0 || n > t->rank)
        return n > 0 ? call_refuse(k, "%lld axes of %s", (long long)n, type_str(k->m->c, t)) : false;
    return reshape_to(k, x, compact(k, sizes_of(k, x), mask_of(k, axes, t->rank), t->rank - (uint32_t)n), largest_dim(k, t));
}

/* New axes have one element; the others come in order. */
static bool
size_unsqueeze(Call *k)
{
    ValueId x = k->in.at[0], axes = as_list(k, k->in.at[1]);
    const Type *t = type_of(k, x);
    int64_t n = axes ? length(k, axes, "axes are") : -1;
    uint32_t rank = t->rank + (uint32_t)(n > 0 ? n : 0);

    if (n < 0 || rank > TN_MAX_RANK)
        return n > 0 ? call_refuse(k, "%lld new axes for %s", (long long)n, type_str(k->m->c, t)) : false;
    ValueId mask = mask_of(k, axes, rank), sizes = op2(k, OP_reshape, number(k, 1), list(k, 1, (int64_t[]){1}));
    if (t->rank) {
        ValueId count = op2(k, OP_cum_sum, op2(k, OP_sub, number(k, 1), mask), number(k, 0));
        ValueId at = op2(k, OP_max, op2(k, OP_sub, count, number(k, 1)), number(k, 0));
        sizes = op2(k, OP_gather, sizes_of(k, x), at);
    }
    return reshape_to(k, x, op3(k, OP_where, is_set(k, mask), number(k, 1), sizes), largest_dim(k, t));
}

/* Broadcast to a shape, both ways. */
static bool
size_expand(Call *k)
{
    ValueId x = k->in.at[0], s = as_list(k, k->in.at[1]);
    uint32_t r = type_of(k, x)->rank;
    int64_t n = s ? length(k, s, "shape is") : -1, ones[2 * TN_MAX_RANK];

    if (n < 0)
        return false;
    for (uint32_t i = 0; i < 2 * TN_MAX_RANK; i++)
        ones[i] = 1;
    ValueId old = sizes_of(k, x);
    if ((uint32_t)n < r)
        s = op_axis(k, OP_concat, 0, 2, (ValueId[]){list(k, r - (uint32_t)n, ones), s});
    else if (r < (uint32_t)n)
        old = op_axis(k, OP_concat, 0, 2, (ValueId[]){list(k, (uint32_t)n - r, ones), old});
    s = match(k, op3(k, OP_where, op2(k, OP_equal, s, number(k, 1)), old, s), NULL);
    return give(k, s ? named(k, OP_expand, 2, (ValueId[]){x, s}) : 0);
}

/* ---- reductions over axes from data ------------------------------------------------------------------------ */

/* Every axis of n elements becomes two: as many as stay, then as many as are reduced, one of them 1. */
static bool
size_reduce(Call *k)
{
    Ctx *c = k->m->c;
    ValueId x = k->in.at[0], axes = as_list(k, k->in.at[1]);
    const Type *t = type_of(k, x);
    Attrs attrs = {k->attr.at, k->attr.n};
    int64_t n = axes ? length(k, axes, "axes are") : -1, order[2 * TN_MAX_RANK], odd[TN_MAX_RANK];
    const Expr *most[2 * TN_MAX_RANK];
    Attr drop = {.name = sym(c, "keepdims"), .kind = ATTR_INT, .i = 0}, exact = {.name = sym(c, "allowzero"), .kind = ATTR_INT, .i = 1};

    if (n < 0)
        return false;
    if (2 * t->rank > TN_MAX_RANK)
        return call_refuse(k, "a reduction of %s over axes from data; the rank can be at most %d", type_str(c, t), TN_MAX_RANK / 2);
    for (uint32_t d = 0; d < t->rank; d++) {
        order[2 * d] = d;
        order[2 * d + 1] = t->rank + d;
        odd[d] = 2 * d + 1;
        most[2 * d] = most[2 * d + 1] = expr_max(c, t->dim[d], expr_int(c, 1));
    }
    ValueId mask = mask_of(k, axes, t->rank), sizes = sizes_of(k, x), set = is_set(k, mask);
    ValueId kept = op3(k, OP_where, set, number(k, 1), sizes), gone = op3(k, OP_where, set, sizes, number(k, 1));
    ValueId both = op_axis(k, OP_concat, 0, 2, (ValueId[]){kept, gone});
    ValueId pairs = match(k, both ? op2(k, OP_gather, both, list(k, 2 * t->rank, order)) : 0, most);
    ValueId wide = pairs ? call_op(k, OP_reshape, 1, &exact, 2, (ValueId[]){x, pairs}, "pairs") : 0;
    bool keep = attr_int(attrs, "keepdims", 1) != 0;
    ValueId y = wide ? call_op(k, k->op, 1, &drop, 2, (ValueId[]){wide, list(k, t->rank, odd)}, keep ? k->proto->output[0] : "reduced") : 0;
    if (!y || keep)
        return give(k, y);
    return reshape_to(k, y, compact(k, sizes, mask, t->rank - (uint32_t)n), largest_dim(k, t));
}

/* ---- parts of a tensor --------------------------------------------------------------------------------------- */

/* x with axis d read at start + step * i, i below the size that `count`, i64[1], becomes. */
static ValueId
take(Call *k, ValueId x, uint32_t d, ValueId start, ValueId step, ValueId count, const Expr *most)
{
    count = match(k, count, most ? &most : NULL);
    if (!count)
        return 0;
    ValueId end = op1(k, OP_squeeze, count);
    ValueId i = op3(k, OP_range, number(k, 0), end, number(k, 1));
    ValueId at = i ? op2(k, OP_add, start, op2(k, OP_mul, step, i)) : 0;
    return at ? op_axis(k, OP_gather, d, 2, (ValueId[]){x, at}) : 0;
}

/* Element d of a list, as i64[1]. */
static ValueId
element(Call *k, ValueId v, uint32_t d)
{
    const int64_t at = d;
    return op2(k, OP_gather, v, list(k, 1, &at));
}

static bool
known_list(Call *k, ValueId v)
{
    return !v || k->m->g->value.at[v].known.at;
}

/* Axis d from start to end by step, each i64[1]. As ONNX clamps: what lies outside is moved to the border. */
static ValueId
slice_axis(Call *k, ValueId x, uint32_t d, ValueId start, ValueId end, ValueId step)
{
    const Expr *dim = type_of(k, x)->dim[d];
    ValueId n = element(k, sizes_of(k, x), d), zero = number(k, 0), one = number(k, 1);
    ValueId back = op2(k, OP_less, step, zero);
    ValueId last = op2(k, OP_sub, n, one);
    start = op3(k, OP_where, op2(k, OP_less, start, zero), op2(k, OP_add, start, n), start);
    end = op3(k, OP_where, op2(k, OP_less, end, zero), op2(k, OP_add, op2(k, OP_max, end, number(k, INT64_MIN / 4)), n), end);
    start = op2(k, OP_max, start, zero);
    start = op3(k, OP_where, back, op2(k, OP_min, start, last), op2(k, OP_min, start, n));
    end = op3(k, OP_where, back, op2(k, OP_max, end, number(k, -1)), op2(k, OP_max, end, zero));
    end = op3(k, OP_where, back, op2(k, OP_min, end, last), op2(k, OP_min, end, n));
    /* (end - start + step -+ 1) / step, at least 0 */
    ValueId span = op2(k, OP_sub, end, start), width = op1(k, OP_abs, step);
    span = op2(k, OP_max, op3(k, OP_where, back, op1(k, OP_neg, span), span), zero);
    ValueId count = op2(k, OP_div, op2(k, OP_add, span, op2(k, OP_sub, width, one)), op2(k, OP_max, width, one));
    return take(k, x, d, start, step, count, dim);
}

/* With axes from data too, each axis of x gets what its entry says, or all of it. */
static bool
size_slice(Call *k)
{
    ValueId x = k->in.at[0], part[4] = {0};
    uint32_t rank = type_of(k, x)->rank;
    int64_t axis[2 * TN_MAX_RANK];

    for (uint32_t i = 0; i < 4; i++)
        part[i] = i + 1 < k->in.n && k->in.at[i + 1] ? as_list(k, k->in.at[i + 1]) : 0;
    int64_t n = part[0] && part[1] ? length(k, part[0], "starts are") : -1;
    if (n < 0)
        return false;
    if (!part[3]) {
        const int64_t one = 1;
        part[3] = op2(k, OP_expand, number(k, 1), list(k, 1, &n));
        (void)one;
    }
    bool fixed = known_list(k, part[2]);
    for (uint32_t i = 0; fixed && i < n; i++) {
        axis[i] = i;
        if (part[2] && !expr_const(k->m->g->value.at[part[2]].known.at[i], &axis[i]))
            return call_refuse(k, "axes of Slice that depend on the inputs' sizes");
        axis[i] += axis[i] < 0 ? rank : 0;
        if (axis[i] < 0 || axis[i] >= rank)
            return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "axis %lld of %s", (long long)axis[i], type_str(k->m->c, type_of(k, x)));
        x = slice_axis(k, x, (uint32_t)axis[i], element(k, part[0], i), element(k, part[1], i), element(k, part[3], i));
        if (!x)
            return false;
    }
    if (fixed)
        return give(k, named(k, OP_identity, 1, &x));
    ValueId wrapped = wrap_axes(k, part[2], rank), full[3];
    const ValueId all[3] = {list(k, rank, (int64_t[TN_MAX_RANK]){0}), sizes_of(k, x), op2(k, OP_expand, number(k, 1), list(k, 1, (int64_t[]){rank}))};
    const ValueId given[3] = {part[0], part[1], part[3]};
    for (uint32_t i = 0; i < 3; i++)
        full[i] = op3(k, OP_scatter_elements, all[i], wrapped, given[i]);
    for (uint32_t d = 0; x && d < rank; d++)
        x = slice_axis(k, x, d, element(k, full[0], d), element(k, full[1], d), element(k, full[2], d));
    return x && give(k, named(k, OP_identity, 1, &x));
}

/* Pads may crop. Positions outside of x read another element of it, or, by the mask, the value. */
static bool
size_pad(Call *k)
{
    ValueId x = k->in.at[0], pads = as_list(k, k->in.at[1]), axes = k->in.n > 3 ? as_list(k, k->in.at[3]) : 0, outside = 0;
    const Type *t = type_of(k, x);
    const char *mode = attr_string((Attrs){k->attr.at, k->attr.n}, "mode", "constant");
    bool constant = mode[0] == 'c', edge = mode[0] == 'e', reflect = mode[0] == 'r';
    int64_t n = pads ? length(k, pads, "pads are") : -1;

    if (n < 0)
        return false;
    if (n % 2 || (!axes && n != 2 * t->rank))
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "%lld pads for %s", (long long)n, type_str(k->m->c, t));
    int64_t half[2 * TN_MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        half[i] = i;
    ValueId before = op2(k, OP_gather, pads, list(k, (uint32_t)n / 2, half)), after = op2(k, OP_gather, pads, list(k, (uint32_t)n / 2, half + n / 2));
    if (axes) {
        ValueId wrapped = wrap_axes(k, axes, t->rank), none = list(k, t->rank, (int64_t[TN_MAX_RANK]){0});
        before = op3(k, OP_scatter_elements, none, wrapped, before);
        after = op3(k, OP_scatter_elements, none, wrapped, after);
    }
    ValueId zero = number(k, 0), one = number(k, 1);
    for (uint32_t d = 0; x && d < t->rank; d++) {
        ValueId size = element(k, sizes_of(k, x), d), b = element(k, before, d), last = op2(k, OP_sub, size, one), mask;
        ValueId count = match(k, op2(k, OP_add, size, op2(k, OP_add, b, element(k, after, d))), NULL);
        if (!count)
            return false;
        ValueId at = op2(k, OP_sub, op3(k, OP_range, zero, op1(k, OP_squeeze, count), one), b);
        if (!at)
            return false;
        mask = op2(k, OP_or, op2(k, OP_less, at, zero), op2(k, OP_greater, at, last));
        if (edge || constant) {
            at = op2(k, OP_max, op2(k, OP_min, at, last), zero);
        } else if (reflect) {                        /* a saw of period 2 * (size - 1) */
            ValueId period = op2(k, OP_max, op2(k, OP_mul, last, number(k, 2)), one);
            ValueId phase = op2(k, OP_mod, at, period);
            at = op2(k, OP_min, phase, op2(k, OP_sub, period, phase));
        } else {
            at = op2(k, OP_mod, at, op2(k, OP_max, size, one));
        }
        x = at ? op_axis(k, OP_gather, d, 2, (ValueId[]){x, at}) : 0;
        if (constant && x) {
            int64_t shape[TN_MAX_RANK];
            for (uint32_t i = 0; i < t->rank; i++)
                shape[i] = i == d ? -1 : 1;
            ValueId along = op2(k, OP_reshape, mask, list(k, t->rank, shape));
            outside = outside ? op2(k, OP_or, outside, along) : along;
        }
    }
    if (!x || !constant)
        return x && give(k, named(k, OP_identity, 1, &x));
    ValueId value = k->in.n > 2 && k->in.at[2] ? cast_to(k, k->in.at[2], t->dtype) : cast_to(k, zero, t->dtype);
    return give(k, value ? named(k, OP_where, 3, (ValueId[]){outside, value, x}) : 0);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* start + delta * i for as many i as lie before limit. */
static bool
size_range(Call *k)
{
    ValueId start = k->in.at[0], limit = k->in.at[1], delta = k->in.at[2];
    DType t = type_of(k, start)->dtype;
    ValueId span = op2(k, OP_sub, limit, start), count;

    if (!span)
        return false;
    if (dtype_is_float(t)) {
        DType wide = t == DT_F64 ? DT_F64 : DT_F32;
        count = op1(k, OP_ceil, op2(k, OP_div, cast_to(k, span, wide), cast_to(k, delta, wide)));
        count = cast_to(k, count, DT_I64);
    } else {                                         /* rounded up, whichever way it goes */
        ValueId s = cast_to(k, span, DT_I64), d = cast_to(k, delta, DT_I64), zero = number(k, 0);
        ValueId back = op2(k, OP_less, d, zero), width = op2(k, OP_max, op1(k, OP_abs, d), number(k, 1));
        s = op3(k, OP_where, back, op1(k, OP_neg, s), s);
        count = op2(k, OP_div, op2(k, OP_add, op2(k, OP_max, s, zero), op2(k, OP_sub, width, number(k, 1))), width);
    }
    count = count ? match(k, op2(k, OP_max, count, number(k, 0)), NULL) : 0;
    ValueId i = count ? op3(k, OP_range, number(k, 0), op1(k, OP_squeeze, count), number(k, 1)) : 0;
    return give(k, i ? named(k, OP_add, 2, (ValueId[]){op2(k, OP_mul, cast_to(k, i, t), delta), start}) : 0);
}

/* Scales: as ratios, and the extents that they give. A ratio is at least one part. */
static bool
size_resize(Call *k)
{
    Ctx *c = k->m->c;
    ValueId x = k->in.at[0], scales = k->in.at[2];
    const Attr *axes = attr_find((Attrs){k->attr.at, k->attr.n}, "axes");
    int64_t n = length(k, scales, "scales are"), order[2 * TN_MAX_RANK];
    float ratio = RESIZE_RATIO;
    Var v;

    if (n < 0 || n != (axes ? (int64_t)axes->n : (int64_t)type_of(k, x)->rank))
        return n < 0 ? false : diag_error(&c->diags, DIAG_MODEL, k->loc, "%lld scales for %s", (long long)n, type_str(c, type_of(k, x)));
    for (uint32_t i = 0; i < n; i++)
        order[i] = axes ? axes->ints[i] : (int64_t)i;
    ValueId one = graph_const(k->m->g, "ratio", type_new(c, DT_F32, 0, NULL), arena_copy(k->m->arena, &ratio, sizeof ratio));
    ValueId parts = cast_to(k, op1(k, OP_round, op2(k, OP_mul, scales, one)), DT_I64);
    ValueId sizes = op2(k, OP_gather, sizes_of(k, x), list(k, (uint32_t)n, order));
    ValueId extents = cast_to(k, op1(k, OP_floor, op2(k, OP_mul, cast_to(k, sizes, DT_F32), scales)), DT_I64);
    ValueId both = op_axis(k, OP_concat, 0, 2, (ValueId[]){parts, extents});
    k->in.at[2] = match(k, both, NULL);
    for (uint32_t i = 0; k->in.at[2] && i < n; i++)
        if (expr_is_var(k->m->g->value.at[k->in.at[2]].known.at[i], &v))
            expr_symbol_range(c, v, (Interval){1, INT64_MAX});
    return k->in.at[2] != 0;
}

/* ---- as many as there are ------------------------------------------------------------------------------------ */

/* Where mask, bool[n], is set: i64[hits], in order. Each position goes to the slot that the count of those before
 * names; what is not set goes to one slot more, which is cut off. */
static ValueId
positions(Call *k, ValueId mask)
{
    const Type *t = type_of(k, mask);
    ValueId one = number(k, 1), zero = number(k, 0), set = cast_to(k, mask, DT_I64);
    ValueId count = op2(k, OP_cum_sum, set, zero);
    ValueId total = op2(k, OP_reduce_sum, set, list(k, 1, (int64_t[]){0}));
    ValueId hits = match(k, total, &t->dim[0]);
    if (!hits)
        return 0;
    ValueId slot = op3(k, OP_where, mask, op2(k, OP_sub, count, one), total);
    ValueId all = op3(k, OP_range, zero, op1(k, OP_size, mask), one);
    Attr blank = {.name = sym(k->m->c, "value"), .kind = ATTR_TENSOR, .type = type_of(k, zero), .data = k->m->g->value.at[zero].data};
    ValueId room = op2(k, OP_add, hits, one);
    ValueId empty = room ? call_op(k, OP_constant_of_shape, 1, &blank, 1, &room, "room") : 0;
    ValueId filled = op3(k, OP_scatter_elements, empty, slot, all);
    return op3(k, OP_slice, filled, list(k, 1, (int64_t[]){0}), hits);
}

bool
convert_nonzero(Call *k)
{
    const int64_t flat = -1;
    if (!k->in.n || !k->in.at[0])
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "NonZero has no input");
    ValueId x = k->in.at[0], row[TN_MAX_RANK];
    uint32_t rank = type_of(k, x)->rank;
    ValueId at = positions(k, cast_to(k, op2(k, OP_reshape, x, list(k, 1, &flat)), DT_BOOL));

    if (!at)
        return false;
    if (!rank)                       /* as numpy has it: no rows */
        return call_refuse(k, "NonZero of a scalar");
    for (uint32_t d = rank; d-- > 0; ) {
        ValueId n = element(k, sizes_of(k, x), d);
        row[d] = op2(k, OP_unsqueeze, op2(k, OP_mod, at, n), list(k, 1, (int64_t[]){0}));
        at = op2(k, OP_div, at, n);
    }
    Attr axis = {.name = sym(k->m->c, "axis"), .kind = ATTR_INT};
    return give(k, call_op(k, OP_concat, 1, &axis, rank, row, k->proto->output[0]));
}

/* Slices of x along an axis, or elements of it flat, where the condition is set; it may be shorter. */
bool
convert_compress(Call *k)
{
    const Attr *axis = attr_find((Attrs){k->attr.at, k->attr.n}, "axis");
    const int64_t flat = -1;
    if (k->in.n < 2 || !k->in.at[0] || !k->in.at[1])
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "Compress takes two inputs");
    ValueId x = axis ? k->in.at[0] : op2(k, OP_reshape, k->in.at[0], list(k, 1, &flat)), at = positions(k, k->in.at[1]);
    Attr along = {.name = sym(k->m->c, "axis"), .kind = ATTR_INT, .i = axis ? axis->i : 0};

    return give(k, at && x ? call_op(k, OP_gather, 1, &along, 2, (ValueId[]){x, at}, k->proto->output[0]) : 0);
}

/* ---- which node needs what --------------------------------------------------------------------------------------- */

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
    k->in.at[i] = match(k, v, most ? all : NULL);
    return k->in.at[i] != 0;
}

static bool
is_open(Call *k, uint32_t i)
{
    ValueId v = i < k->in.n ? k->in.at[i] : 0;
    const Value *value = &k->m->g->value.at[v];
    return v && !value->known.at && !value->data && !expr_is(type_count(k->m->c, value->type), 0);
}

bool
call_sizes(Call *k)
{
    if (!k->in.n || !k->in.at[0] || !k->proto->n_output)
        return true;
    switch (k->op) {
    case OP_reshape: return !is_open(k, 1) || size_reshape(k);
    case OP_expand: return !is_open(k, 1) || size_expand(k);
    case OP_squeeze: return !is_open(k, 1) || size_squeeze(k);
    case OP_unsqueeze: return !is_open(k, 1) || size_unsqueeze(k);
    case OP_slice: return !(is_open(k, 1) || is_open(k, 2) || is_open(k, 3) || is_open(k, 4)) || size_slice(k);
    case OP_pad: return !(is_open(k, 1) || is_open(k, 3)) || size_pad(k);
    case OP_tile: return !is_open(k, 1) || match_input(k, 1, NULL);
    case OP_constant_of_shape: return !is_open(k, 0) || match_input(k, 0, NULL);
    case OP_split: return !is_open(k, 1) || match_input(k, 1, largest_dim(k, type_of(k, k->in.at[0])));
    case OP_resize: return (!is_open(k, 2) || size_resize(k)) && (!is_open(k, 3) || match_input(k, 3, NULL));
    case OP_one_hot: return !is_open(k, 1) || (type_of(k, k->in.at[1])->dtype == DT_I64 && match_input(k, 1, NULL));
    case OP_range: return !(is_open(k, 0) || is_open(k, 1) || is_open(k, 2)) || k->in.n < 3 || size_range(k);
    case OP_reduce_sum: case OP_reduce_mean: case OP_reduce_prod: case OP_reduce_max: case OP_reduce_min: case OP_reduce_l1:
    case OP_reduce_l2: case OP_reduce_sum_square: case OP_reduce_log_sum: case OP_reduce_log_sum_exp:
        return !is_open(k, 1) || size_reduce(k);
    default: return true;
    }
}
