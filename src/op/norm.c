/* norm: softmax and normalisations: a few small reductions, then one elementwise nest.
 *
 * Statistics are intermediates in the compute type (f32 for short floats), without the axes they
 * were taken over. Variance is taken in two passes: the one-pass formula loses everything when the
 * mean is large beside the deviation.
 */
#include "op/internal.h"

#include <string.h>

/* Statistics of x over a set of axes: a value whose dimensions are the other axes of x, in
 * order. */
typedef struct {
    const Type *x;
    uint64_t set;
} Over;

static uint32_t
statistic(Build *b, Over v)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank = 0;

    for (uint32_t d = 0; d < v.x->rank; d++)
        if (!(v.set >> d & 1))
            dim[rank++] = v.x->dim[d];
    return build_value(b, compute_type(v.x->dtype), rank, dim);
}

/* The index of a statistic at a point of x: `keep` has the axes of x, or extents of 1 stay in
 * it. */
static void
statistic_index(Ctx *c, Over v, const Type *s, const Expr *const *axis, const Expr **at)
{
    for (uint32_t d = 0, o = 0; d < v.x->rank; d++)
        if (!(v.set >> d & 1))
            at[o++] = axis[d];
        else if (s->rank == v.x->rank)
            at[o++] = expr_int(c, 0);
}

static const Scalar *
load_statistic(Making *m, Over v, uint32_t slot, const Expr *const *axis)
{
    const Expr *at[TN_MAX_RANK];
    statistic_index(m->b->c, v, m->nb.in.at[slot].type, axis, at);
    return make_load(m, slot, at);
}

/* Axes of x for a nest that writes statistic `out`: its own where kept, reductions elsewhere. */
static AxisSet
reduce_axes(Making *m, Over v, const Expr *const *own, bool kept, const Expr **at)
{
    AxisSet bound = 0;
    for (uint32_t d = 0, o = 0; d < v.x->rank; d++) {
        bool reduced = v.set >> d & 1;
        at[d] =
            reduced ? make_reduce(m, arena_printf(m->b->c->arena, "r%u", d), v.x->dim[d]) : own[o];
        bound |= reduced ? axis_bit(at[d]) : 0;
        o += !reduced || kept;
    }
    return bound;
}

static const Expr *
count_over(Ctx *c, Over v)
{
    const Expr *n = expr_int(c, 1);
    for (uint32_t d = 0; d < v.x->rank; d++)
        if (v.set >> d & 1)
            n = expr_mul(c, n, v.x->dim[d]);
    return n;
}

/* to = finish(combine over the set of body(x, minus)), where minus is a statistic or none
 * (NO_SLOT). body and finish are scalar texts over x, m and over y, n, e (epsilon). */
typedef struct {
    const char *name;
    Combiner combiner;
    const char *body, *finish;
    double epsilon;
} Step;

static bool
reduce_step(Build *b, Over v, Step s, uint32_t minus, uint32_t to)
{
    static const char *const body_name[] = { "x", "m" }, *const finish_name[] = { "y", "n", "e" };
    Ctx *c = b->c;
    const Expr *own[TN_MAX_RANK], *at[TN_MAX_RANK];
    Making m = make_begin(b, s.name);
    const Scalar *operand[3];

    make_in(&m, "x", 0);
    if (minus != NO_SLOT)
        make_in(&m, "m", minus);
    make_out_over(&m, "o", to, own);
    AxisSet bound = reduce_axes(&m, v, own, build_type(b, to)->rank == v.x->rank, at);
    operand[0] = make_load(&m, 0, at);
    operand[1] = minus != NO_SLOT ? load_statistic(&m, v, 1, at) : NULL;
    const Scalar *y = scalar_parse(c, s.body, minus != NO_SLOT ? 2 : 1, body_name, operand);
    if (!y)
        return false;
    DType t = (DType)y->dtype;
    y = bound ? scalar_reduce(c, s.combiner, bound, &y, 1) : y;
    operand[0] = y;
    operand[1] = number_of(c, t, count_over(c, v));
    operand[2] = scalar_number(c, t, s.epsilon);
    y = scalar_parse(c, s.finish, 3, finish_name, operand);
    if (!y)
        return false;
    return make_finish(&m, own, y);
}

/* ---- along one axis: softmax, log_softmax, hardmax, lp_norm ---------------------------------- */

bool
infer_norm(Ctx *c, const OpCall *call, const Type **out)
{
    uint32_t axis;

    if (!dtype_is_float(call->in[0]->dtype))
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s; its elements must be floats",
                       type_str(c, call->in[0]));
    out[0] = call->in[0];
    return op_axis_attr(c, call, call->in[0]->rank, &axis);
}

/* One nest over all points: output from x and statistics, as a scalar text over x, m, s. */
static bool
final_step(Build *b, Over v, uint32_t nin, const uint32_t *in, uint32_t to, const char *name,
           const char *text)
{
    static const char *const operand_name[] = { "x", "m", "s" };
    const Expr *axis[TN_MAX_RANK];
    const Scalar *operand[3];
    Making m = make_begin(b, name);

    for (uint32_t i = 0; i < nin; i++)
        make_in(&m, operand_name[i], in[i]);
    make_out_over(&m, "o", to, axis);
    for (uint32_t i = 0; i < nin; i++)
        operand[i] = build_type(b, in[i])->rank == v.x->rank ? make_load(&m, i, axis)
                                                             : load_statistic(&m, v, i, axis);
    return make_finish(&m, axis, scalar_parse(b->c, text, nin, operand_name, operand));
}

typedef struct {
    const char *name, *shifted, *result;
} Exponential;

static const Exponential plain = { "exp", "exp(x - m)", "x / m" },
                         log_of = { "shift", "x - m", "x - log(m)" };
/* Exponentials of nothing but -inf are 0 here, as behind any mask; what is not a number has a sum
 * that is none. */
static const Exponential zero_nan = { "exp", "exp(x - (m == -inf ? 0 : m))", "m > 0 ? x / m : 0" };

/* Exponentials and their sum have the element type, as they do where the specification writes
 * softmax out: that of f16 is rounded after every step. */
static bool
build_softmax(Build *b, uint32_t d, const Exponential *how, uint32_t to)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    Over v = { x, UINT64_C(1) << d };
    bool log = how == &log_of;
    DType t = log ? compute_type(x->dtype) : x->dtype;
    uint32_t top = statistic(b, v), e = build_value(b, t, x->rank, x->dim);
    uint32_t sum = build_value(b, t, build_type(b, top)->rank, build_type(b, top)->dim);
    Step max = { "max", COMB_MAX, "x", "y", 0 };
    if (!reduce_step(b, v, max, NO_SLOT, top))
        return false;
    uint32_t shifted[] = { 0, top };
    if (!final_step(b, v, 2, shifted, e, how->name, how->shifted))
        return false;
    Making m = make_begin(b, "sum");
    const Expr *own[TN_MAX_RANK], *at[TN_MAX_RANK];
    make_in(&m, "e", e);
    make_out_over(&m, "o", sum, own);
    AxisSet bound = reduce_axes(&m, v, own, false, at);
    const Scalar *y = make_load(&m, 0, at);
    y = log ? scalar_1(c, S_EXP, y) : y;
    make_write(&m, 0, own, scalar_reduce(c, COMB_SUM, bound, &y, 1));
    if (!make_end(&m))
        return false;
    uint32_t parts[] = { e, sum };
    return final_step(b, v, 2, parts, to, NULL, how->result);
}

bool
build_log_softmax(Build *b, uint32_t d, uint32_t to)
{
    return build_softmax(b, d, &log_of, to);
}

bool
expand_softmax(Build *b)
{
    const Exponential *how = b->call->op == OP_log_softmax ? &log_of
                             : op_int(b->call, "zero_nan") ? &zero_nan
                                                           : &plain;
    uint32_t d;

    return op_axis_attr(b->c, b->call, b->call->in[0]->rank, &d) &&
           build_softmax(b, d, how, build_out(b, 0));
}

bool
expand_hardmax(Build *b)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *own[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t d;

    if (!op_axis_attr(c, b->call, x->rank, &d))
        return false;
    Over v = { x, UINT64_C(1) << d };
    uint32_t first = statistic(b, v);
    b->e->type.at[first] = type_with_dtype(c, b->e->type.at[first], DT_I64);
    Making m = make_begin(b, "first");
    make_in(&m, "x", 0);
    make_out_over(&m, "o", first, own);
    AxisSet bound = reduce_axes(&m, v, own, false, at);
    const Scalar *pair[] = { make_load(&m, 0, at), scalar_index(c, at[d]) };
    make_write(&m, 0, own, scalar_item(c, scalar_reduce(c, COMB_ARGMAX, bound, pair, 2), 1));
    if (!make_end(&m))
        return false;
    m = make_begin(b, NULL);
    make_in(&m, "f", first);
    make_out_over(&m, "o", build_out(b, 0), at);
    const Scalar *hit = scalar_2(c, S_EQ, load_statistic(&m, v, 0, at), scalar_index(c, at[d]));
    return make_finish(&m, at, scalar_cast(c, x->dtype, hit));
}

bool
expand_lp_norm(Build *b)
{
    const Type *x = b->call->in[0];
    int64_t p = op_int(b->call, "p");
    uint32_t d;

    if (p != 1 && p != 2)
        return op_fail(b->c, b->call, DIAG_UNSUPPORTED, "attribute \"p\" is %lld; 1 and 2 exist",
                       (long long)p);
    if (!op_axis_attr(b->c, b->call, x->rank, &d))
        return false;
    Over v = { x, UINT64_C(1) << d };
    uint32_t in[] = { 0, statistic(b, v) };
    Step norm = { "norm", COMB_SUM, p == 1 ? "abs(x)" : "x * x", p == 1 ? "y" : "sqrt(y)", 0 };
    return reduce_step(b, v, norm, NO_SLOT, in[1]) &&
           final_step(b, v, 2, in, build_out(b, 0), NULL, "m == 0 ? 0 * x : x / m");
}

/* ---- layer_norm, rms_norm -------------------------------------------------------------------- */

bool
infer_layer_norm(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    uint32_t axis;

    if (!dtype_is_float(x->dtype))
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s; its elements must be floats",
                       type_str(c, x));
    if (!op_axis_attr(c, call, x->rank, &axis))
        return false;
    for (uint32_t i = 1; i < call->nin; i++) {
        if (!has_in(call, i))
            continue;
        const Type *s = call->in[i];
        if (!dtype_is_float(s->dtype) || compute_type(s->dtype) != compute_type(x->dtype))
            return op_fail(c, call, DIAG_MODEL,
                           "input %u is %s and input 0 is %s; their elements must be floats that "
                           "are computed in one type",
                           i, type_str(c, s), type_str(c, x));
        if (s->rank > x->rank)
            return op_fail(c, call, DIAG_MODEL, "input %u is %s, of higher rank than %s", i,
                           type_str(c, s), type_str(c, x));
        for (uint32_t d = 0; d < s->rank; d++)
            if (!op_broadcast_into(c, call, s->dim[d], x->dim[x->rank - s->rank + d],
                                   arena_printf(c->arena,
                                                "axis %u of input %u and axis %u of input 0", d, i,
                                                x->rank - s->rank + d)))
                return false;
    }
    out[0] = x;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = d < axis ? x->dim[d] : expr_int(c, 1);
    for (uint32_t i = 1; i < call->nout; i++)
        out[i] = type_new(c, compute_type(x->dtype), x->rank, dim);
    return true;
}

/* The statistic that output i of the call asks for, or an intermediate. */
static uint32_t
output_or_statistic(Build *b, uint32_t i, Over v)
{
    return i < b->call->nout && b->out[i] ? build_out(b, i) : statistic(b, v);
}

/* o = (x - mean) * inv * scale + bias; scale and bias broadcast from the right. */
static bool
scale_step(Build *b, Over v, uint32_t mean, uint32_t inv, uint32_t bias_input)
{
    Ctx *c = b->c;
    const Expr *axis[TN_MAX_RANK];
    uint32_t rank = v.x->rank, next = 0;
    Making m = make_begin(b, NULL);

    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    const Scalar *y = make_load(&m, next++, axis);
    if (mean != NO_SLOT) {
        make_in(&m, "mean", mean);
        y = scalar_2(c, S_SUB, y, load_statistic(&m, v, next++, axis));
    }
    make_in(&m, "inv", inv);
    y = scalar_2(c, S_MUL, y, load_statistic(&m, v, next++, axis));
    for (uint32_t input = 1; input <= bias_input; input++) {
        if (!has_in(b->call, input))
            continue;
        make_in(&m, input == 1 ? "scale" : "bias", input);
        const Scalar *s = make_load_broadcast(&m, next++, rank, axis);
        y = scalar_2(c, input == 1 ? S_MUL : S_ADD, y, s);
    }
    return make_finish(&m, axis, y);
}

bool
expand_layer_norm(Build *b)
{
    const Type *x = b->call->in[0];
    bool centred = b->call->op == OP_layer_norm;
    double epsilon = op_float(b->call, "epsilon");
    uint32_t axis, mean = NO_SLOT;

    if (!op_axis_attr(b->c, b->call, x->rank, &axis))
        return false;
    Over v = { x, (UINT64_C(1) << x->rank) - (UINT64_C(1) << axis) };
    if (centred) {
        mean = output_or_statistic(b, 1, v);
        if (!reduce_step(b, v, (Step){ "mean", COMB_SUM, "x", "y / n", 0 }, NO_SLOT, mean))
            return false;
    }
    uint32_t inv = output_or_statistic(b, centred ? 2 : 1, v);
    Step deviation = { "inv", COMB_SUM, centred ? "(x - m) * (x - m)" : "x * x",
                       "1 / sqrt(y / n + e)", epsilon };
    return reduce_step(b, v, deviation, mean, inv) && scale_step(b, v, mean, inv, centred ? 2 : 1);
}

/* ---- per channel: batch_norm, instance_norm, group_norm, lrn --------------------------------- */

/* Inputs 1 .. nin are vectors of x's channels. */
static bool
channel_vectors(Ctx *c, const OpCall *call)
{
    const Type *x = call->in[0];

    if (!dtype_is_float(x->dtype))
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s; its elements must be floats",
                       type_str(c, x));
    if (!op_rank_at_least(c, call, 0, 2))
        return false;
    for (uint32_t i = 1; i < call->nin; i++)
        if (!op_rank_is(c, call, i, 1) ||
            !op_require_eq(c, call, call->in[i]->dim[0], x->dim[1],
                           arena_printf(c->arena,
                                        "the extent of input %u and the channels of input 0, %s,",
                                        i, type_str(c, x))))
            return false;
    return true;
}

bool
infer_batch_norm(Ctx *c, const OpCall *call, const Type **out)
{
    out[0] = call->in[0];
    return channel_vectors(c, call);
}

/* (x - mean) * (scale / sqrt(var + e)) + bias */
bool
expand_batch_norm(Build *b)
{
    static const char *const name[] = { "x", "scale", "bias", "mean", "var", "e" };
    const Expr *axis[TN_MAX_RANK];
    const Scalar *operand[6];
    Making m = make_begin(b, NULL);

    for (uint32_t i = 0; i < 5; i++)
        make_in(&m, name[i], i);
    make_out_over(&m, "o", build_out(b, 0), axis);
    DType wide = DT_F32; /* what is computed in, where types differ */
    for (uint32_t i = 0; i < 5; i++)
        wide = compute_type(b->call->in[i]->dtype) == DT_F64 ? DT_F64 : wide;
    for (uint32_t i = 0; i < 5; i++)
        operand[i] = scalar_cast(b->c, wide, make_load(&m, i, i ? &axis[1] : axis));
    operand[5] = scalar_number(b->c, wide, op_float(b->call, "epsilon"));
    return make_finish(
        &m, axis,
        scalar_parse(b->c, "(x - mean) * (scale / sqrt(var + e)) + bias", 6, name, operand));
}

bool
infer_channel_norm(Ctx *c, const OpCall *call, const Type **out)
{
    int64_t groups = op_int(call, "num_groups");

    if (!channel_vectors(c, call))
        return false;
    if (call->op == OP_group_norm &&
        (groups < 1 || expr_divisible(c, NULL, call->in[0]->dim[1], groups) == NO))
        return op_fail(c, call, DIAG_MODEL, "%s channels cannot be split into %lld groups",
                       expr_str(c, call->in[0]->dim[1]), (long long)groups);
    out[0] = call->in[0];
    return true;
}

/* One statistic per [n, group]: x is read through channel = group * size + q. An instance norm has
 * a group for each channel. */
typedef struct {
    const Type *x;
    const Expr *groups, *size;
} Groups;

static bool
group_step(Build *b, Groups g, Step s, uint32_t minus, uint32_t to)
{
    static const char *const body_name[] = { "x", "m" }, *const finish_name[] = { "y", "n", "e" };
    Ctx *c = b->c;
    const Expr *own[TN_MAX_RANK], *at[TN_MAX_RANK], *n = g.size;
    AxisSet bound = 0;
    Making m = make_begin(b, s.name);
    const Scalar *operand[3];

    make_in(&m, "x", 0);
    if (minus != NO_SLOT)
        make_in(&m, "m", minus);
    make_out_over(&m, "o", to, own);
    at[0] = own[0];
    at[1] = own[1];
    if (!expr_is(g.size, 1)) {
        const Expr *q = make_reduce(&m, "q", g.size);
        at[1] = expr_add(c, expr_mul(c, own[1], g.size), q);
        bound = axis_bit(q);
    }
    for (uint32_t d = 2; d < g.x->rank; d++) {
        at[d] = make_reduce(&m, arena_printf(c->arena, "r%u", d), g.x->dim[d]);
        bound |= axis_bit(at[d]);
        n = expr_mul(c, n, g.x->dim[d]);
    }
    operand[0] = make_load(&m, 0, at);
    operand[1] = minus != NO_SLOT ? make_load(&m, 1, own) : NULL;
    const Scalar *y = scalar_parse(c, s.body, minus != NO_SLOT ? 2 : 1, body_name, operand);
    if (!y)
        return false;
    y = bound ? scalar_reduce(c, s.combiner, bound, &y, 1) : y;
    operand[0] = y;
    operand[1] = number_of(c, (DType)y->dtype, n);
    operand[2] = scalar_number(c, (DType)y->dtype, s.epsilon);
    y = scalar_parse(c, s.finish, 3, finish_name, operand);
    if (!y)
        return false;
    return make_finish(&m, own, y);
}

bool
expand_group_norm(Build *b)
{
    static const char *const name[] = { "x", "mean", "inv", "scale", "bias" };
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    bool instance = b->call->op == OP_instance_norm;
    const Expr *groups = instance ? x->dim[1] : expr_int(c, op_int(b->call, "num_groups"));
    Groups g = { x, groups, instance ? expr_int(c, 1) : expr_div(c, x->dim[1], groups) };
    const Expr *dim[] = { x->dim[0], groups }, *axis[TN_MAX_RANK];
    DType t = compute_type(x->dtype);
    uint32_t mean = build_value(b, t, 2, dim), inv = build_value(b, t, 2, dim);
    Step average = { "mean", COMB_SUM, "x", "y / n", 0 };
    Step deviation = { "inv", COMB_SUM, "(x - m) * (x - m)", "1 / sqrt(y / n + e)",
                       op_float(b->call, "epsilon") };

    if (!group_step(b, g, average, NO_SLOT, mean) || !group_step(b, g, deviation, mean, inv))
        return false;
    uint32_t in[] = { 0, mean, inv, 1, 2 };
    const Scalar *operand[5];
    Making m = make_begin(b, NULL);
    for (uint32_t i = 0; i < 5; i++)
        make_in(&m, name[i], in[i]);
    make_out_over(&m, "o", build_out(b, 0), axis);
    const Expr *at[] = { axis[0], instance ? axis[1] : expr_div(c, axis[1], g.size) };
    for (uint32_t i = 0; i < 5; i++)
        operand[i] = make_load(&m, i, i == 0 ? axis : i < 3 ? at : &axis[1]);
    return make_finish(&m, axis,
                       scalar_parse(c, "(x - mean) * inv * scale + bias", 5, name, operand));
}

/* x / (bias + alpha / size * sum of x*x over `size` neighbouring channels) ^ beta */
bool
expand_lrn(Build *b)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    int64_t size = op_int(b->call, "size");

    if (size < 1 || !op_rank_at_least(c, b->call, 0, 3))
        return size >= 1
                   ? false
                   : op_fail(c, b->call, DIAG_MODEL,
                             "attribute \"size\" is %lld; at least 1 is needed", (long long)size);
    Making m = make_begin(b, NULL);
    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    const Expr *q = make_reduce(&m, "q", expr_int(c, size));
    memcpy(at, axis, sizeof at);
    at[1] = expr_offset(c, expr_add(c, axis[1], q), -((size - 1) / 2));
    const Scalar *v = make_load_or(&m, 0, at, scalar_number(c, x->dtype, 0));
    DType t = (DType)v->dtype;
    v = scalar_2(c, S_MUL, v, v);
    v = scalar_reduce(c, COMB_SUM, axis_bit(q), &v, 1);
    v = scalar_2(c, S_MUL, v, scalar_number(c, t, op_float(b->call, "alpha") / (double)size));
    v = scalar_2(c, S_ADD, v, scalar_number(c, t, op_float(b->call, "bias")));
    v = scalar_2(c, S_POW, v, scalar_number(c, t, op_float(b->call, "beta")));
    return make_finish(&m, axis, scalar_2(c, S_DIV, make_load(&m, 0, axis), v));
}
