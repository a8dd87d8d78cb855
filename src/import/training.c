/* training: operators that training leaves in models: optimisers, normalisation with batch
 * statistics. */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>
#include <string.h>

/* ---- optimisers ------------------------------------------------------------------------------ */

/* Rate, step number, then n tensors each: values, gradients, and `states` kinds of state. */
static bool
tensors_of(Call *k, uint32_t states, uint32_t *n)
{
    uint32_t each = 2 + states;

    if (k->in.n < 2 + each || (k->in.n - 2) % each)
        return call_wrong(k, "%s with %u inputs; 2, and %u for each tensor, are needed",
                          k->proto->op_type, k->in.n, each);
    *n = (k->in.n - 2) / each;
    return need_inputs(k, k->in.n);
}

/* A step of an optimiser, for each tensor: `text` reads the rate, step number t, tensor x, its
 * gradient g and the states named by `names`, "v h", and assigns the next x and states. */
static bool
update(Call *k, const char *names, const char *text)
{
    const uint32_t states = (uint32_t)(strlen(names) + 1) / 2;
    uint32_t n = 0;

    if (!tensors_of(k, states, &n) || !call_names(k, "first_rate turn"))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        call_name(k, "x", k->in.at[2 + i]);
        call_name(k, "g", k->in.at[2 + n + i]);
        for (uint32_t s = 0; s < states; s++)
            call_name(k, (char[]){ names[2 * s], 0 }, k->in.at[2 + (2 + s) * n + i]);
        if (!call_text(k,
                       "rate = like(first_rate, x)\n"
                       "t = like(turn, x)\n"
                       "g = %a * x + g\n"
                       "%s",
                       get_float(k, "norm_coefficient", 0), text))
            return false;
        for (uint32_t s = 0; s <= states; s++)
            call_bind(k, s * n + i, call_value(k, s ? (char[]){ names[2 * s - 2], 0 } : "x"));
    }
    return k->done = true;
}

static bool
convert_adagrad(Call *k)
{
    return update(k, "h",
                  arena_printf(k->m->arena,
                               "rate = rate / (1 + t * %a)\n"
                               "h = h + g * g\n"
                               "x = x - rate * g / (sqrt(h) + %a)",
                               get_float(k, "decay_factor", 0), get_float(k, "epsilon", 0)));
}

static bool
convert_adam(Call *k)
{
    double alpha = get_float(k, "alpha", 0.9), beta = get_float(k, "beta", 0.999);

    return update(k, "v h",
                  arena_printf(k->m->arena,
                               "v = %a * v + %a * g\n"
                               "h = %a * h + %a * (g * g)\n"
                               "size = sqrt(h) + %a\n"
                               "up = sqrt(1 - pow(%a, t))\n"
                               "down = where(t > 0, 1 - pow(%a, t), 1)\n"
                               "rate = where(t > 0, rate * up / down, rate)\n"
                               "x = %a * (x - rate * (v / size))",
                               alpha, 1 - alpha, beta, 1 - beta, get_float(k, "epsilon", 0), beta,
                               alpha, 1 - get_float(k, "norm_coefficient_post", 0)));
}

static bool
convert_momentum(Call *k)
{
    const char *mode = get_string(k, "mode", "standard");
    double alpha = get_float(k, "alpha", 0);

    return update(k, "v",
                  arena_printf(k->m->arena,
                               "v = %a * v + where(t > 0, like(%a, x), 1) * g\n"
                               "x = x - rate * %s",
                               alpha, get_float(k, "beta", 0),
                               strcmp(mode, "nesterov")
                                   ? "v"
                                   : arena_printf(k->m->arena, "(g + %a * v)", alpha)));
}

/* ---- normalisation --------------------------------------------------------------------------- */

bool
convert_batch_norm_training(Call *k)
{
    int64_t axes[TN_MAX_RANK], wide[TN_MAX_RANK];
    double momentum = get_float(k, "momentum", 0.9);
    uint32_t n = 0;

    if (!call_names(k, "x scale bias old_mean old_variance -> y mean variance"))
        return false;
    const Type *t = input_type(k, 0);
    const char *real = t->dtype == DT_F64 ? "f64" : "f32";
    if (t->rank < 2)
        return call_wrong(k, "BatchNormalization of %s", type_str(k->m->c, t));
    for (uint32_t d = 0; d < t->rank; d++) {
        wide[d] = d == 1 ? -1 : 1;
        if (d != 1)
            axes[n++] = d;
    }
    return call_text(k,
                     "axes = %s\n"
                     "wide = %s\n"
                     "real = %s(x)\n"
                     "mean = reduce_mean(real, axes)\n"
                     "away = real - mean\n"
                     "variance = reduce_mean(away * away, axes)\n"
                     "y = away / sqrt(variance + %a)\n"
                     "y = like(y * %s(reshape(scale, wide)) + %s(reshape(bias, wide)), x)\n"
                     "mean = old_mean * %a + like(reshape(mean, [-1]), old_mean) * %a\n"
                     "new = like(reshape(variance, [-1]), old_variance)\n"
                     "variance = old_variance * %a + new * %a",
                     ints_text(k, n, axes), ints_text(k, t->rank, wide), real,
                     get_float(k, "epsilon", 1e-5), real, real, momentum, 1 - momentum, momentum,
                     1 - momentum);
}

static bool
convert_mean_variance(Call *k)
{
    const Attr *axes = call_attr(k, "axes");

    return call_says(k, "x -> y",
                     "axes = %s\n"
                     "d = x - reduce_mean(x, axes)\n"
                     "y = d / (sqrt(reduce_mean(d * d, axes)) + 1e-9)",
                     axes ? ints_text(k, axes->n, axes->ints) : "[0, 2, 3]");
}

static bool
convert_bit_cast(Call *k)
{
    const Attr *to = call_attr(k, "to");
    DType t = to && to->i == (int)to->i ? dtype_from_onnx((int)to->i) : DT_NONE;

    if (!need_input(k, 0) || t == DT_NONE)
        return call_wrong(k, "BitCast needs an input and an element type that Tenon has");
    set_string(k, "to", dtype_info[t].name);
    set_int(k, "bytes", dtype_info[t].bytes);
    set_int(k, "truth", t == DT_BOOL);
    return true;
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* The padding of SAME_UPPER and SAME_LOWER before axis d of the image x for a window of `size`
 * points, i64[1]. */
static ValueId
same_padding(Call *k, ValueId x, uint32_t d, const int64_t *window, bool upper)
{
    const int64_t size = window[0], stride = window[1], reach = (size - 1) * window[2] + 1;
    ValueId before = value_of_text(k, "x", &x,
                                   "size = shape(x)[%u]\n"
                                   "end = (size - 1) / %" PRId64 " * %" PRId64 " + %" PRId64 "\n"
                                   "(max(0, end - size)%s) / 2",
                                   2 + d, stride, stride, reach, upper ? "" : " + 1");

    return before && !k->m->g->value.at[before].known.at ? call_match(k, before, NULL) : before;
}

/* Maxima, and their indices. */
bool
convert_max_pool_places(Call *k)
{
    const char *const names[4] = { "kernel_shape", "strides", "dilations", "pads" };
    const char *pad = get_string(k, "auto_pad", "NOTSET");
    int64_t columns = get_int(k, "storage_order", 0), w[4];
    bool same = !strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER");
    Text windows = { .arena = k->m->arena };

    if (!call_names(k, "x -> y places"))
        return false;
    ValueId x = call_in(k, 0);
    uint32_t n = value_type(k, x)->rank - 2u;
    if (n > TN_MAX_RANK - 2)
        return call_wrong(k, "MaxPool of %s", type_str(k->m->c, value_type(k, x)));
    for (uint32_t d = 0; d < n; d++) {
        for (int i = 0; i < 4; i++) {
            const Attr *a = i < 3 || !strcmp(pad, "NOTSET") ? call_attr(k, names[i]) : NULL;
            w[i] = a && d < a->n ? a->ints[d] : i < 3;
        }
        text_printf(&windows, "%s%" PRId64 ", %" PRId64 ", %" PRId64 ", ", d ? ", " : "", w[0],
                    w[1], w[2]);
        if (!same) {
            text_printf(&windows, "%" PRId64, w[3]);
            continue;
        }
        const char *before = arena_printf(k->m->arena, "before_%u", d);
        call_name(k, before, same_padding(k, x, d, w, !strcmp(pad, "SAME_UPPER")));
        text_add(&windows, before);
    }
    return call_text(k,
                     "y = self(x) {*}\n"
                     "windows = reshape([%s], [%u, 4])\n"
                     "places = max_pool_place(x, y, windows) {by_columns = %" PRId64 "}",
                     text_str(&windows), n, columns);
}

/* The p-norm of each channel. */
static bool
convert_global_lp_pool(Call *k)
{
    int64_t p = get_int(k, "p", 2), axis[TN_MAX_RANK];

    if (!call_names(k, "x -> y"))
        return false;
    const Type *t = input_type(k, 0);
    if (t->rank < 3 || p < 1)
        return call_wrong(k,
                          "GlobalLpPool of %s with p %lld; axes behind the channels and a p of 1 "
                          "or more are needed",
                          type_str(k->m->c, t), (long long)p);
    for (uint32_t d = 2; d < t->rank; d++)
        axis[d - 2] = d;
    const char *axes = ints_text(k, t->rank - 2u, axis);
    return (p <= 2 ? call_text(k, "y = reduce_l%d(x, %s)", (int)p, axes)
                   : call_text(k, "y = pow(reduce_sum(pow(abs(x), %a), %s), %a)", (double)p, axes,
                               1 / (double)p));
}

const OpRow training_rows[] = {
    { "GlobalLpPool", OP_NONE, convert_global_lp_pool },
    { "ai.onnx.preview.training.Adagrad", OP_NONE, convert_adagrad, "i1" },
    { "ai.onnx.preview.training.Adam", OP_NONE, convert_adam, "i1" },
    { "ai.onnx.preview.training.Gradient", OP_NONE, convert_gradient },
    { "ai.onnx.preview.training.Momentum", OP_NONE, convert_momentum, "i1" },
    { "MeanVarianceNormalization", OP_NONE, convert_mean_variance },
    { "BitCast", OP_bit_cast, convert_bit_cast },
    { 0 },
};
