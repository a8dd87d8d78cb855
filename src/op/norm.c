/* norm: softmax and normalisations: a few small reductions, then one elementwise nest.
 *
 * Statistics are intermediates in the compute type (f32 for short floats), without the reduced
 * axes. Variance takes two passes: the one-pass formula cancels if the mean is large compared to
 * the deviation.
 */
#include "op/build.h"
#include "op/kinds.h"

static uint32_t
build_statistic(Build *b, const NormGroups *g, DType t)
{
    return build_value(b, t, g->statistic->rank, g->statistic->dim);
}

NormGroups
build_groups(Build *b, uint64_t set, bool kept, bool ones)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *dim[TN_MAX_RANK], *count = expr_int(c, 1);
    const char *at[TN_MAX_RANK], *over[TN_MAX_RANK], *of[TN_MAX_RANK];
    uint32_t rank = 0, nover = 0;

    for (uint32_t d = 0; d < x->rank; d++) {
        bool reduced = set >> d & 1;
        at[d] = reduced ? "0" : build_axis_name(rank);
        if (reduced && (ones || !expr_is(x->dim[d], 1)))
            over[nover++] = at[d] = arena_printf(c->arena, "r%u", d);
        count = reduced ? expr_mul(c, count, x->dim[d]) : count;
        if (!reduced || kept) {
            of[rank] = reduced ? "0" : build_axis_name(d);
            dim[rank++] = reduced ? expr_int(c, 1) : x->dim[d];
        }
    }
    return (NormGroups){ type_new(c, compute_type(x->dtype), rank, dim),
                         list_text(c->arena, x->rank, at), list_text(c->arena, nover, over),
                         list_text(c->arena, rank, of), count };
}

static void
use_groups(Build *b, const NormGroups *g)
{
    build_word(b, "at", g->at);
    build_word(b, "over", g->over);
    build_word(b, "of", g->of);
    build_name(b, "n", g->count);
}

/* ---- along one axis: softmax, log_softmax, hardmax, lp_norm ---------------------------------- */

bool
infer_norm(Ctx *c, const OpCall *call, const Type **out)
{
    uint32_t axis;

    out[0] = call->in[0];
    return op_need_floats(c, call, 0) && op_axis_attr(c, call, call->in[0]->rank, &axis);
}

typedef struct {
    const char *name, *shifted, *sum, *result;
} Exponential;

static const Exponential plain = { "exp", "exp(x[$i] - m[$of])", "e[$at]", "x[$i] / m[$of]" },
                         log_of = { "shift", "x[$i] - m[$of]", "exp(e[$at])",
                                    "x[$i] - log(m[$of])" };
/* As for any mask, the exponentials of a row of -inf are 0. The sum of a row with a NaN is NaN. */
static const Exponential zero_nan = { "exp", "exp(x[$i] - (m[$of] == -inf ? 0 : m[$of]))", "e[$at]",
                                      "m[$of] > 0 ? x[$i] / m[$of] : 0" };

/* Exponentials and their sum have the element type, as where the specification expands softmax: f16
 * is rounded after every step. */
static bool
build_softmax(Build *b, uint32_t d, const Exponential *how, uint32_t to)
{
    DType real = compute_type(b->call->in[0]->dtype),
          t = how == &log_of ? real : b->call->in[0]->dtype;
    NormGroups g = build_groups(b, UINT64_C(1) << d, false, true);
    uint32_t top = build_statistic(b, &g, real), e = build_value_like(b, t, 0),
             sum = build_statistic(b, &g, t);

    use_groups(b, &g);
    return build_text(b, "max", "x -> o", (uint32_t[]){ 0, top }, "o = max $over: x[$at]") &&
           build_text(b, how->name, "x m -> o", (uint32_t[]){ 0, top, e }, "o = %s",
                      how->shifted) &&
           build_text(b, "sum", "e -> o", (uint32_t[]){ e, sum }, "o = sum $over: %s", how->sum) &&
           build_text(b, NULL, "x m -> o", (uint32_t[]){ e, sum, to }, "o = %s", how->result);
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

    return build_softmax(b, build_along_axis(b, b->call->in[0]->rank), how, build_out(b, 0));
}

bool
expand_hardmax(Build *b)
{
    uint32_t d = build_along_axis(b, b->call->in[0]->rank);
    NormGroups g = build_groups(b, UINT64_C(1) << d, false, true);
    uint32_t first = build_statistic(b, &g, DT_I64);
    use_groups(b, &g);
    return build_text(b, "first", "x -> o", (uint32_t[]){ 0, first },
                      "o = (argmax $over: (x[$at], $over)).1") &&
           build_text(b, NULL, "f -> o", (uint32_t[]){ first, build_out(b, 0) }, "o = f[$of] == %s",
                      build_axis_name(d));
}

bool
expand_lp_norm(Build *b)
{
    int64_t p = op_int(b->call, "p");
    uint32_t d = build_along_axis(b, b->call->in[0]->rank);
    NormGroups g = build_groups(b, UINT64_C(1) << d, false, true);
    uint32_t norm = build_statistic(b, &g, g.statistic->dtype);
    use_groups(b, &g);
    return build_text(b, "norm", "x -> o", (uint32_t[]){ 0, norm },
                      p == 1 ? "o = sum $over: abs(x[$at])"
                             : "o = sqrt(sum $over: x[$at] * x[$at])") &&
           build_text(b, NULL, "x m -> o", (uint32_t[]){ 0, norm, build_out(b, 0) },
                      "o = m[$of] == 0 ? 0 * x[$i] : x[$i] / m[$of]");
}

/* ---- layer_norm, rms_norm -------------------------------------------------------------------- */

bool
infer_layer_norm(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    uint32_t axis;

    if (!op_need_floats(c, call, 0) || !op_axis_attr(c, call, x->rank, &axis))
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
                                   "axis %u of input %u and axis %u of input 0", d, i,
                                   x->rank - s->rank + d))
                return false;
    }
    out[0] = x;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = d < axis ? x->dim[d] : expr_int(c, 1);
    for (uint32_t i = 1; i < call->nout; i++)
        out[i] = type_new(c, compute_type(x->dtype), x->rank, dim);
    return true;
}

/* Mean, unless it is NO_SLOT, and inverse deviation of each group. */
static bool
build_moments(Build *b, const NormGroups *g, uint32_t mean, uint32_t inv, const char *minus_mean)
{
    bool centred = mean != NO_SLOT;

    use_groups(b, g);
    return (!centred || build_text(b, "mean", "x -> o", (uint32_t[]){ 0, mean },
                                   "o = (sum $over: x[$at]) / $T(n)")) &&
           build_text(b, "inv", "x m? -> o", (uint32_t[]){ 0, mean, inv },
                      "o = 1 / sqrt((sum $over: let d = x[$at]%s in d * d) / $T(n) + %.17g)",
                      centred ? minus_mean : "", op_float(b->call, "epsilon"));
}

/* (x - mean) * inv * scale + bias; scale and bias broadcast from the right. A statistic that is an
 * output keeps the reduced axes, with size 1. */
bool
expand_layer_norm(Build *b)
{
    const OpCall *call = b->call;
    uint32_t rank = call->in[0]->rank, centred = call->op == OP_layer_norm;
    uint64_t set = (UINT64_C(1) << rank) - (UINT64_C(1) << build_along_axis(b, rank));
    NormGroups g[2]; /* of the mean, and of the inverse deviation */
    uint32_t value[2] = { NO_SLOT };
    for (uint32_t i = !centred; i < 2; i++) {
        uint32_t output = centred + i;
        bool wanted = output < call->nout && b->out[output];
        g[i] = build_groups(b, set, wanted, true);
        value[i] = wanted ? build_out(b, output) : build_statistic(b, &g[i], g[i].statistic->dtype);
    }
    /* the remaining axes are the first ones, so all nests read both at the same index */
    const char *minus = centred ? arena_printf(b->c->arena, " - m[%s]", g[0].of) : "";
    if (!build_moments(b, &g[1], value[0], value[1], minus))
        return false;
    bool scale = has_in(call, 1), bias = centred && has_in(call, 2);
    uint32_t params[] = {
        0, value[0], value[1], build_in(b, 1), bias ? 2 : NO_SLOT, build_out(b, 0)
    };
    return build_text(b, NULL, "x mean? inv scale? bias? -> o", params, "o = %s * inv[$of]%s%s",
                      centred ? arena_printf(b->c->arena, "(x[$i] - mean[%s])", g[0].of) : "x[$i]",
                      scale ? " * scale" : "", bias ? " + bias" : "");
}

/* ---- per channel: batch_norm, instance_norm, group_norm, lrn --------------------------------- */

bool
expand_batch_norm(Build *b)
{
    b->real = DT_F32; /* the widest type if they differ */
    for (uint32_t i = 0; i < 5; i++)
        b->real = b->call->in[i]->dtype == DT_F64 ? DT_F64 : b->real;
    return build_text(b, NULL, "x scale bias mean var -> o", NULL,
                      "o = ($T(x[$i]) - $T(mean[j])) * "
                      "($T(scale[j]) / sqrt($T(var[j]) + %.17g)) + $T(bias[j])",
                      op_float(b->call, "epsilon"));
}

bool
infer_group_norm(Ctx *c, const OpCall *call, const Type **out)
{
    int64_t groups = op_int(call, "num_groups");

    if (!infer_signature(c, call, out))
        return false;
    return (groups >= 1 && expr_divisible(c, NULL, call->in[0]->dim[1], groups) != NO) ||
           op_fail(c, call, DIAG_MODEL, "%s channels cannot be split into %lld groups",
                   expr_str(c, call->in[0]->dim[1]), (long long)groups);
}

/* One statistic per [n, group]: x is read at channel = group * size + q. An instance norm has one
 * group per channel. */
bool
expand_group_norm(Build *b)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    bool instance = b->call->op == OP_instance_norm;
    const Expr *groups = instance ? x->dim[1] : expr_int(c, op_int(b->call, "num_groups")),
               *size = instance ? expr_int(c, 1) : expr_div(c, x->dim[1], groups), *count = size,
               *dim[] = { x->dim[0], groups };
    bool single = expr_is(size, 1);
    Text at = { .arena = c->arena }, over = { .arena = c->arena };
    DType t = compute_type(x->dtype);

    build_name(b, "size", size);
    text_add(&at, single ? "i, j" : "i, j * size + q");
    text_add(&over, single ? "" : "q<size>");
    for (uint32_t d = 2; d < x->rank; d++) {
        text_printf(&at, ", r%u", d);
        text_printf(&over, d > 2 || !single ? ", r%u" : "r%u", d);
        count = expr_mul(c, count, x->dim[d]);
    }
    if (single && x->rank == 2) /* each element is a group */
        text_add(&over, "q<1>");
    NormGroups g = { type_new(c, t, 2, dim), text_str(&at), text_str(&over),
                     instance ? "i, j" : "i, j // size", count };
    uint32_t mean = build_statistic(b, &g, t), inv = build_statistic(b, &g, t);
    return build_moments(b, &g, mean, inv, " - m[$i]") &&
           build_text(b, NULL, "x mean inv scale bias -> o",
                      (uint32_t[]){ 0, mean, inv, 1, 2, build_out(b, 0) },
                      "o = (x[$i] - mean[$of]) * inv[$of] * scale[j] + bias[j]");
}

/* x / (bias + alpha / size * sum of x*x over `size` adjacent channels) ^ beta */
bool
expand_lrn(Build *b)
{
    int64_t size = op_int(b->call, "size");
    uint32_t rank = b->call->in[0]->rank;

    if (size < 1)
        return op_fail(b->c, b->call, DIAG_MODEL,
                       "attribute \"size\" is %lld; at least 1 is needed", (long long)size);
    if (!op_rank_at_least(b->c, b->call, 0, 3))
        return false;
    const char *at[TN_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        at[d] = build_axis_name(d);
    at[1] = arena_printf(b->c->arena, "j + q - %lld", (long long)(size - 1) / 2);
    build_word(b, "at", list_text(b->c->arena, rank, at));
    return build_text(b, NULL, "x -> o", NULL,
                      "o = x[$i] / pow((sum q<%lld>: let v = x[$at | 0] in v * v) * %.17g + %.17g, "
                      "%.17g)",
                      (long long)size, op_float(b->call, "alpha") / (double)size,
                      op_float(b->call, "bias"), op_float(b->call, "beta"));
}
