/* generate: tensors computed from shapes and numbers: shape, size, range, eye_like, fills. */
#include "op/build.h"

#include <string.h>

/* ---- shape, size ----------------------------------------------------------------------------- */

/* The range [first, end) of dimensions that a call of shape gives. */
static void
shape_range(const OpCall *call, int64_t *first, int64_t *end)
{
    int64_t rank = call->in[0]->rank;

    *first = op_int(call, "start");
    *end = attr_int(call->attrs, "end", rank);
    *first = *first < 0 ? *first + rank : *first;
    *end = *end < 0 ? *end + rank : *end;
    *end = *end > rank ? rank : *end;
    *first = *first < 0 ? 0 : *first;
    *end = *end < *first ? *first : *end;
}

bool
infer_shape(Ctx *c, const OpCall *call, const Type **out)
{
    int64_t first, end;

    shape_range(call, &first, &end);
    const Expr *n = expr_int(c, end - first);
    out[0] = type_new(c, DT_I64, 1, &n);
    return true;
}

bool
expand_shape(Build *b)
{
    Text t = { .arena = b->c->arena };
    int64_t first, end;

    shape_range(b->call, &first, &end);
    for (int64_t d = first; d < end; d++) {
        if (d + 1 < end)
            text_printf(&t, "i == %lld ? ", (long long)(d - first));
        text_printf(&t, d + 1 < end ? "index(%s) : " : "index(%s)",
                    build_index(b, b->call->in[0]->dim[d]));
    }
    return build_text(b, NULL, "-> o", NULL, "o = %s", first < end ? text_str(&t) : "0");
}

bool
expand_size(Build *b)
{
    return build_text(b, NULL, "-> o", NULL, "o = index(%s)",
                      build_index(b, type_count(b->c, b->call->in[0])));
}

/* ---- constant_of_shape ----------------------------------------------------------------------- */

bool
infer_constant_of_shape(Ctx *c, const OpCall *call, const Type **out)
{
    const Attr *value = attr_find(call->attrs, "value");
    Known shape;

    if (!op_param_shape(c, call, 0, &shape))
        return false;
    if (value && (value->kind != ATTR_TENSOR || !expr_is(type_count(c, value->type), 1)))
        return op_fail(c, call, DIAG_MODEL, "attribute \"value\" must be a tensor of one element");
    out[0] = type_new(c, value ? value->type->dtype : DT_F32, shape.n, shape.at);
    return true;
}

bool
expand_constant_of_shape(Build *b)
{
    const Attr *value = attr_find(b->call->attrs, "value");
    DType t = value ? value->type->dtype : DT_F32;
    Number v = value ? number_load(t, value->data, 0) : (Number){ .f = 0 };

    return build_text(b, NULL, "-> o", NULL, "o = %s",
                      constant_text(b->c->arena, dtype_is_float(t) ? scalar_float(b->c, t, v.f)
                                                                   : scalar_int(b->c, t, v.i)));
}

/* ---- range ----------------------------------------------------------------------------------- */

/* Integer ranges have symbolic ends; float ranges are constants. */
typedef struct {
    const Expr *first, *extent;
    int64_t step;
    double start, delta;
} RangeOf;

#define LONG_STEP (INT64_MAX >> 16) /* tiles multiply it without overflow */
#define FAR (INT64_MAX / 4)         /* expressions of larger numbers might overflow */

/* A float rounded to its type. */
static double
rounded(Ctx *c, DType t, double v)
{
    double r;

    memcpy(&r, &scalar_float(c, t, v)->u.bits, sizeof r);
    return r;
}

/* The number of integers from start to limit by step, which is not 0: the difference fits a u64. */
static uint64_t
count_between(int64_t start, int64_t limit, int64_t step)
{
    if (step > 0 ? start >= limit : start <= limit)
        return 0;
    uint64_t span =
        step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    return (span - 1) / (step > 0 ? (uint64_t)step : 0 - (uint64_t)step) + 1;
}

static bool
range_of(Ctx *c, const OpCall *call, RangeOf *r)
{
    static const char *const what[] = { "start", "limit", "delta" };
    const Expr *zero = expr_int(c, 0);
    const Expr *k[3];
    double v[3];
    uint32_t n;

    *r = (RangeOf){ 0 };
    if (dtype_is_float(call->in[0]->dtype)) {
        for (uint32_t i = 0; i < 3; i++)
            if (!op_param_floats(c, call, i, what[i], 1, &v[i], &n))
                return false;
        if (v[2] == 0)
            return op_fail(c, call, DIAG_MODEL, "the step (delta) is 0");
        double count = __builtin_ceil(rounded(c, call->in[0]->dtype, v[1] - v[0]) / v[2]);
        if (__builtin_isnan(count) || __builtin_isinf(count))
            return op_fail(c, call, DIAG_MODEL, "from %g to %g by %g is no number of elements",
                           v[0], v[1], v[2]);
        if (count > (double)INT32_MAX)
            return op_fail(c, call, DIAG_LIMIT,
                           "from %g to %g by %g has more than 2147483647 elements", v[0], v[1],
                           v[2]);
        r->start = v[0];
        r->delta = v[2];
        r->extent = expr_int(c, count > 0 ? (int64_t)count : 0);
        return true;
    }
    for (uint32_t i = 0; i < 3; i++)
        if (!op_param_one(c, call, i, what[i], &k[i]))
            return false;
    if (!expr_const(k[2], &r->step))
        return op_fail(c, call, DIAG_UNSUPPORTED, "input 2 (delta) is %s; a constant is needed",
                       expr_str(c, k[2]));
    if (r->step == 0)
        return op_fail(c, call, DIAG_MODEL, "the step (delta) is 0");
    r->first = k[0];
    int64_t first, limit;
    if (expr_const(r->first, &first) && expr_const(k[1], &limit)) {
        uint64_t all = count_between(first, limit, r->step);
        if (all > INT64_MAX)
            return op_fail(c, call, DIAG_LIMIT,
                           "from %lld to %lld by %lld are more elements than any memory holds",
                           (long long)first, (long long)limit, (long long)r->step);
        r->extent = expr_int(c, (int64_t)all);
        return true;
    }
    /* beyond the first element either way */
    r->step = r->step > FAR ? FAR : r->step < -FAR ? -FAR : r->step;
    const Expr *length = r->step > 0 ? expr_sub(c, k[1], r->first) : expr_sub(c, r->first, k[1]);
    length = expr_ceil_div(c, length, expr_int(c, r->step > 0 ? r->step : -r->step));
    r->extent = expr_simplify(c, NULL, expr_max(c, zero, length));
    return true;
}

bool
infer_range(Ctx *c, const OpCall *call, const Type **out)
{
    RangeOf r;

    if (!op_same_dtype(c, call, 0, 1) || !op_same_dtype(c, call, 0, 2) || !range_of(c, call, &r))
        return false;
    out[0] = type_new(c, call->in[0]->dtype, 1, &r.extent);
    return true;
}

bool
expand_range(Build *b)
{
    Ctx *c = b->c;
    int64_t first;
    RangeOf r;

    if (!range_of(c, b->call, &r))
        return false;
    b->real = compute_type(b->out[0]->dtype);
    if (!r.first)
        return build_text(b, NULL, "-> o", NULL, "o = %.17g + $T(i) * %.17g", r.start, r.delta);
    if (expr_const(r.first, &first) &&
        (first > FAR || first < -FAR || r.step > LONG_STEP || r.step < -LONG_STEP))
        return build_text(b, NULL, "-> o", NULL, "o = i * %lld + %lld", (long long)r.step,
                          (long long)first);
    return build_text(
        b, NULL, "-> o", NULL, "o = index(%s)",
        build_index(b, expr_add(c, r.first, expr_scale(c, build_axis(b, 0), r.step))));
}

/* ---- eye_like -------------------------------------------------------------------------------- */

bool
infer_eye_like(Ctx *c, const OpCall *call, const Type **out)
{
    DType t;

    if (!op_named_type(c, call, "dtype", call->in[0]->dtype, &t))
        return false;
    out[0] = type_with_dtype(c, call->in[0], t);
    return op_rank_is(c, call, 0, 2);
}

bool
expand_eye_like(Build *b)
{
    /* a diagonal far outside */
    int64_t k = op_int(b->call, "k");
    k = k > FAR ? FAR : k < -FAR ? -FAR : k;
    return build_text(b, NULL, "-> o", NULL, "o = index(i + %lld) == j", (long long)k);
}
