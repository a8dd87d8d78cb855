/* training: operators that training leaves in models: optimisers, normalisation by the batch
 * itself. */
#include "import/little.h"

#include <string.h>

static ValueId
number(Call *k, ValueId like, double v)
{
    return scalar_const(k, "number", like, v);
}

static double
real_attr(Call *k, const char *name, double otherwise)
{
    return attr_float((Attrs){ k->attr.at, k->attr.n }, name, otherwise);
}

static void
bind(Call *k, uint32_t i, ValueId v)
{
    const char *name =
        i < k->proto->n_output && *text_of(k->proto->output[i]) ? k->proto->output[i] : "unused";
    call_bind(k, i, v ? call_op(k, OP_identity, 0, NULL, 1, &v, name) : 0);
}

/* Rate, turn, then n tensors each: values, gradients, and `states` kinds of state. */
static bool
tensors_of(Call *k, uint32_t states, uint32_t *n)
{
    uint32_t each = 2 + states;

    if (k->in.n < 2 + each || (k->in.n - 2) % each)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "%s with %u inputs; 2, and %u for each tensor, are needed",
                          k->proto->op_type, k->in.n, each);
    for (uint32_t i = 0; i < k->in.n; i++)
        if (!need_input(k, i))
            return false;
    *n = (k->in.n - 2) / each;
    return true;
}

/* g + norm * x */
static ValueId
regular(Call *k, ValueId x, ValueId g)
{
    return little_2(k, OP_add,
                    little_2(k, OP_mul, number(k, x, real_attr(k, "norm_coefficient", 0)), x), g);
}

static bool
convert_adagrad(Call *k)
{
    uint32_t n;

    if (!tensors_of(k, 1, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        ValueId x = k->in.at[2 + i], g = regular(k, x, k->in.at[2 + n + i]),
                h = k->in.at[2 + 2 * n + i],
                t = little_cast(k, k->in.at[1], little_type(k, x)->dtype);
        ValueId slow =
            little_2(k, OP_add, number(k, x, 1),
                     little_2(k, OP_mul, t, number(k, x, real_attr(k, "decay_factor", 0))));
        ValueId rate =
            little_2(k, OP_div, little_cast(k, k->in.at[0], little_type(k, x)->dtype), slow);
        h = little_2(k, OP_add, h, little_2(k, OP_mul, g, g));
        ValueId size =
            little_2(k, OP_add, little_1(k, OP_sqrt, h), number(k, x, real_attr(k, "epsilon", 0)));
        bind(k, i, little_2(k, OP_sub, x, little_2(k, OP_div, little_2(k, OP_mul, rate, g), size)));
        bind(k, n + i, h);
    }
    k->done = true;
    return true;
}

static bool
convert_adam(Call *k)
{
    double alpha = real_attr(k, "alpha", 0.9), beta = real_attr(k, "beta", 0.999),
           after = real_attr(k, "norm_coefficient_post", 0);
    uint32_t n;

    if (!tensors_of(k, 2, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        ValueId x = k->in.at[2 + i], g = regular(k, x, k->in.at[2 + n + i]),
                v = k->in.at[2 + 2 * n + i], h = k->in.at[2 + 3 * n + i];
        DType type = little_type(k, x)->dtype;
        ValueId t = little_cast(k, k->in.at[1], type), rate = little_cast(k, k->in.at[0], type),
                one = number(k, x, 1), zero = number(k, x, 0);
        v = little_2(k, OP_add, little_2(k, OP_mul, number(k, x, alpha), v),
                     little_2(k, OP_mul, number(k, x, 1 - alpha), g));
        h = little_2(k, OP_add, little_2(k, OP_mul, number(k, x, beta), h),
                     little_2(k, OP_mul, number(k, x, 1 - beta), little_2(k, OP_mul, g, g)));
        ValueId size =
            little_2(k, OP_add, little_1(k, OP_sqrt, h), number(k, x, real_attr(k, "epsilon", 0)));
        ValueId up = little_1(k, OP_sqrt,
                              little_2(k, OP_sub, one, little_2(k, OP_pow, number(k, x, beta), t)));
        ValueId down = little_2(k, OP_sub, one, little_2(k, OP_pow, number(k, x, alpha), t)),
                begun = little_2(k, OP_greater, t, zero);
        down = little_3(k, OP_where, begun, down, one);
        rate = little_3(k, OP_where, begun,
                        little_2(k, OP_div, little_2(k, OP_mul, rate, up), down), rate);
        x = little_2(k, OP_sub, x, little_2(k, OP_mul, rate, little_2(k, OP_div, v, size)));
        bind(k, i, x ? little_2(k, OP_mul, number(k, x, 1 - after), x) : 0);
        bind(k, n + i, v);
        bind(k, 2 * n + i, h);
    }
    k->done = true;
    return true;
}

static bool
convert_momentum(Call *k)
{
    bool nesterov =
        !strcmp(attr_string((Attrs){ k->attr.at, k->attr.n }, "mode", "standard"), "nesterov");
    uint32_t n;

    if (!tensors_of(k, 1, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        ValueId x = k->in.at[2 + i], g = regular(k, x, k->in.at[2 + n + i]),
                v = k->in.at[2 + 2 * n + i];
        DType type = little_type(k, x)->dtype;
        ValueId t = little_cast(k, k->in.at[1], type), rate = little_cast(k, k->in.at[0], type),
                alpha = number(k, x, real_attr(k, "alpha", 0));
        ValueId beta = little_3(k, OP_where, little_2(k, OP_greater, t, number(k, x, 0)),
                                number(k, x, real_attr(k, "beta", 0)), number(k, x, 1));
        v = little_2(k, OP_add, little_2(k, OP_mul, alpha, v), little_2(k, OP_mul, beta, g));
        ValueId step = nesterov ? little_2(k, OP_add, g, little_2(k, OP_mul, alpha, v)) : v;
        bind(k, i, little_2(k, OP_sub, x, little_2(k, OP_mul, rate, step)));
        bind(k, n + i, v);
    }
    k->done = true;
    return true;
}

/* The mean, and the mean square of what is away from it, over the axes; x - mean as well. */
static void
moments(Call *k, ValueId x, ValueId axes, ValueId *mean, ValueId *away, ValueId *variance)
{
    *mean = little_2(k, OP_reduce_mean, x, axes);
    *away = little_2(k, OP_sub, x, *mean);
    *variance = little_2(k, OP_reduce_mean, little_2(k, OP_mul, *away, *away), axes);
}

bool
convert_batch_norm_training(Call *k)
{
    for (uint32_t i = 0; i < 5; i++)
        if (!need_input(k, i))
            return false;
    double momentum = real_attr(k, "momentum", 0.9);
    const Type *t = input_type(k, 0);
    int64_t axes[TN_MAX_RANK], flat[TN_MAX_RANK], keep = -1;
    uint32_t n = 0;

    if (t->rank < 2)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "BatchNormalization of %s",
                          type_str(k->m->c, t));
    for (uint32_t d = 0; d < t->rank; d++) {
        if (d != 1)
            axes[n++] = d;
        flat[d] = d == 1 ? -1 : 1;
    }
    ValueId x = k->in.at[0], wide = little_list(k, t->rank, flat), mean, away, variance,
            list = little_list(k, n, axes);
    DType real = t->dtype == DT_F64 ? DT_F64 : DT_F32;
    moments(k, little_cast(k, x, real), list, &mean, &away, &variance);
    ValueId scale = little_cast(k, little_2(k, OP_reshape, k->in.at[1], wide), real),
            bias = little_cast(k, little_2(k, OP_reshape, k->in.at[2], wide), real);
    if (!variance || !scale || !bias)
        return false;
    ValueId y = little_2(k, OP_div, away,
                         little_1(k, OP_sqrt,
                                  little_2(k, OP_add, variance,
                                           number(k, variance, real_attr(k, "epsilon", 1e-5)))));
    bind(k, 0, little_cast(k, little_2(k, OP_add, little_2(k, OP_mul, y, scale), bias), t->dtype));
    for (uint32_t i = 0; i < 2; i++) {
        ValueId old = k->in.at[3 + i],
                now = little_2(k, OP_reshape, i ? variance : mean, little_list(k, 1, &keep));
        now = little_cast(k, now, little_type(k, old)->dtype);
        bind(k, 1 + i,
             little_2(k, OP_add, little_2(k, OP_mul, old, number(k, old, momentum)),
                      little_2(k, OP_mul, now, number(k, old, 1 - momentum))));
    }
    k->done = true;
    return true;
}

static bool
convert_mean_variance(Call *k)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const Attr *axes = call_attr(k, "axes");
    ValueId mean, away, variance;

    if (!need_input(k, 0))
        return false;
    moments(k, k->in.at[0], axes ? little_list(k, axes->n, axes->ints) : little_list(k, 3, usual),
            &mean, &away, &variance);
    if (!variance)
        return false;
    ValueId size = little_2(k, OP_add, little_1(k, OP_sqrt, variance), number(k, variance, 1e-9));
    return finish(k, call_op(k, OP_div, 0, NULL, 2, (ValueId[]){ away, size }, output_name(k)));
}

static bool
convert_bit_cast(Call *k)
{
    const Attr *to = call_attr(k, "to");
    DType t = to && to->i == (int)to->i ? dtype_from_onnx((int)to->i) : DT_NONE;

    if (!need_input(k, 0) || t == DT_NONE)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "BitCast needs an input and an element type that Tenon has");
    set_string(k, "to", dtype_info[t].name);
    set_int(k, "bytes", dtype_info[t].bytes);
    set_int(k, "truth", t == DT_BOOL);
    return true;
}

/* What SAME_UPPER and SAME_LOWER pad before axis d of the image x with a window of `size` points,
 * i64[1]. */
static ValueId
same_padding(Call *k, ValueId x, uint32_t d, const int64_t *window, bool upper)
{
    const int64_t size = window[0], stride = window[1], reach = (size - 1) * window[2] + 1;
    const ValueId in = little_element(k, little_shape(k, x), 2 + d),
                  step = little_list(k, 1, &stride), none = little_list(k, 1, (int64_t[]){ 0 });
    const ValueId last =
        in ? little_2(k, OP_div, little_2(k, OP_sub, in, little_list(k, 1, (int64_t[]){ 1 })), step)
           : 0;
    const ValueId end =
        last ? little_2(k, OP_add, little_2(k, OP_mul, last, step), little_list(k, 1, &reach)) : 0;
    const ValueId all = end ? little_2(k, OP_max, none, little_2(k, OP_sub, end, in)) : 0;
    const ValueId more =
        all && !upper ? little_2(k, OP_add, all, little_list(k, 1, (int64_t[]){ 1 })) : all;

    ValueId before = more ? little_2(k, OP_div, more, little_list(k, 1, (int64_t[]){ 2 })) : 0;
    return before && !k->m->g->value.at[before].known.at ? little_match(k, before, NULL) : before;
}

/* Maxima, and where they lie. */
bool
convert_max_pool_places(Call *k)
{
    const char *const names[4] = { "kernel_shape", "strides", "dilations", "pads" };
    const char *pad = attr_string((Attrs){ k->attr.at, k->attr.n }, "auto_pad", "NOTSET");
    int64_t columns = get_int(k, "storage_order", 0), w[4 * TN_MAX_RANK];
    ValueId part[2 * TN_MAX_RANK];
    ValueId x = need_input(k, 0) ? k->in.at[0] : 0;
    uint32_t n = x ? little_type(k, x)->rank - 2u : 0;

    if (!x || n > TN_MAX_RANK - 2)
        return x && diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "MaxPool of %s",
                               type_str(k->m->c, little_type(k, x)));
    bool same = !strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER");
    for (uint32_t d = 0; d < n; d++)
        for (int i = 0; i < 4; i++) {
            const Attr *a = i < 3 || !strcmp(pad, "NOTSET") ? call_attr(k, names[i]) : NULL;
            w[4 * d + i] = a && d < a->n ? a->ints[d] : i < 3;
        }
    call_drop(k, "storage_order");
    ValueId y = call_op(k, OP_max_pool, k->attr.n, k->attr.at, 1, &x, output_name(k));
    Attr order = { .name = sym(k->m->c, "by_columns"), .kind = ATTR_INT, .i = columns };
    for (uint32_t d = 0; d < n && y; d++) {
        part[2 * d] = little_list(k, same ? 3 : 4, w + 4 * d);
        part[2 * d + 1] = same ? same_padding(k, x, d, w + 4 * d, !strcmp(pad, "SAME_UPPER"))
                               : little_list(k, 0, NULL);
        y = part[2 * d + 1] ? y : 0;
    }
    ValueId numbers = y && n ? little_axis(k, OP_concat, 0, 2 * n, part)
                      : y    ? little_list(k, 0, NULL)
                             : 0;
    ValueId window =
        numbers ? little_2(k, OP_reshape, numbers, little_list(k, 2, (int64_t[]){ n, 4 })) : 0;
    ValueId places = window ? call_op(k, OP_max_pool_place, 1, &order, 3,
                                      (ValueId[]){ x, y, window }, k->proto->output[1])
                            : 0;
    call_bind(k, 1, places);
    return finish(k, y) && places;
}

/* The p-norm of each channel. */
static bool
convert_global_lp_pool(Call *k)
{
    int64_t p = get_int(k, "p", 2), axis[TN_MAX_RANK];
    const Type *t = input_type(k, 0);

    if (!need_input(k, 0))
        return false;
    if (t->rank < 3 || p < 1)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc,
                          "GlobalLpPool of %s with p %lld; axes behind the channels and a p of 1 "
                          "or more are needed",
                          type_str(k->m->c, t), (long long)p);
    for (uint32_t d = 2; d < t->rank; d++)
        axis[d - 2] = d;
    ValueId x = k->in.at[0], axes = call_ints(k, "axes", t->rank - 2, axis);
    if (p <= 2)
        return finish(k, call_two(k, p == 1 ? OP_reduce_l1 : OP_reduce_l2, x, axes));
    ValueId power = call_two(k, OP_pow, call_one(k, OP_abs, x), scalar_const(k, "p", x, (double)p));
    ValueId sum = power ? call_two(k, OP_reduce_sum, power, axes) : 0;
    return finish(k, sum ? call_two(k, OP_pow, sum, scalar_const(k, "root", x, 1 / (double)p)) : 0);
}

const OpRow training_rows[] = {
    { "GlobalLpPool", OP_NONE, convert_global_lp_pool },
    { "ai.onnx.preview.training.Adagrad", OP_NONE, convert_adagrad },
    { "ai.onnx.preview.training.Adam", OP_NONE, convert_adam },
    { "ai.onnx.preview.training.Gradient", OP_NONE, convert_gradient },
    { "ai.onnx.preview.training.Momentum", OP_NONE, convert_momentum },
    { "MeanVarianceNormalization", OP_NONE, convert_mean_variance },
    { "BitCast", OP_bit_cast, convert_bit_cast },
    { 0 },
};
