/* training: operators that training leaves in models: optimisers, normalisation with batch
 * statistics. */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

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
                       "g = $norm_coefficient:0.0 * x + g\n"
                       "%s",
                       text))
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
                  "rate = rate / (1 + t * $decay_factor:0.0)\n"
                  "h = h + g * g\n"
                  "x = x - rate * g / (sqrt(h) + $epsilon:0.0)");
}

static bool
convert_adam(Call *k)
{
    call_real(k, "fresh", 1 - get_float(k, "alpha", 0.9));
    call_real(k, "large", 1 - get_float(k, "beta", 0.999));
    call_real(k, "post", 1 - get_float(k, "norm_coefficient_post", 0));
    return update(k, "v h",
                  "v = $alpha:0.9 * v + $fresh * g\n"
                  "h = $beta:0.999 * h + $large * (g * g)\n"
                  "size = sqrt(h) + $epsilon:0.0\n"
                  "up = sqrt(1 - pow($beta:0.999, t))\n"
                  "down = where(t > 0, 1 - pow($alpha:0.9, t), 1)\n"
                  "rate = where(t > 0, rate * up / down, rate)\n"
                  "x = $post * (x - rate * (v / size))");
}

static bool
convert_momentum(Call *k)
{
    call_number(k, "nesterov", !strcmp(get_string(k, "mode", ""), "nesterov"));
    return update(k, "v",
                  "v = $alpha:0.0 * v + where(t > 0, like($beta:0.0, x), 1) * g\n"
                  "$nesterov? by = g + $alpha:0.0 * v\n"
                  "!$nesterov? by = v\n"
                  "x = x - rate * by");
}

/* ---- normalisation --------------------------------------------------------------------------- */

bool
convert_batch_norm_training(Call *k)
{
    int64_t axes[TN_MAX_RANK];
    uint32_t n = 0;

    if (!call_names(k, "x[_, _, ...] scale bias old_mean old_variance -> y mean variance"))
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    for (uint32_t d = 0; d < rank; d++)
        if (d != 1)
            axes[n++] = d;
    call_fact(k, "axes", ints_text(k, n, axes));
    call_fact(k, "wide", along_text(k, 1, rank));
    call_real(k, "fresh", 1 - get_float(k, "momentum", 0.9));
    return call_text(k, "axes = $axes\n"
                        "wide = $wide\n"
                        "real = $real(x)\n"
                        "mean = reduce_mean(real, axes)\n"
                        "away = real - mean\n"
                        "variance = reduce_mean(away * away, axes)\n"
                        "y = away / sqrt(variance + $epsilon:1e-5)\n"
                        "y = y * $real(reshape(scale, wide)) + $real(reshape(bias, wide))\n"
                        "y = like(y, x)\n"
                        "mean = old_mean * $momentum:0.9"
                        " + like(reshape(mean, [-1]), old_mean) * $fresh\n"
                        "new = like(reshape(variance, [-1]), old_variance)\n"
                        "variance = old_variance * $momentum:0.9 + new * $fresh");
}

static bool
convert_bit_cast(Call *k)
{
    DType t;

    if (!need_input(k, 0) || !get_dtype(k, "to", DT_NONE, &t))
        return false;
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
    static const char *const names[4] = { "kernel_shape", "strides", "dilations", "pads" };
    const char *pad = get_string(k, "auto_pad", "NOTSET");
    int64_t w[4];
    bool same = !strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER");
    Text windows = { .arena = k->arena };

    if (k->nout < 2)
        return true;
    if (!call_names(k, "x -> y places"))
        return false;
    ValueId x = call_in(k, 0);
    uint32_t n = value_type(k, x)->rank - 2u;
    if (n > TN_MAX_RANK - 2)
        return call_wrong(k, "MaxPool of %s", type_str(k->c, value_type(k, x)));
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
        const char *before = arena_printf(k->arena, "before_%u", d);
        call_name(k, before, same_padding(k, x, d, w, !strcmp(pad, "SAME_UPPER")));
        text_add(&windows, before);
    }
    call_fact(k, "windows", text_str(&windows));
    call_number(k, "n", n);
    return call_text(k, "y = self(x) {*}\n"
                        "windows = reshape([$windows], [$n, 4])\n"
                        "places = max_pool_place(x, y, windows) {by_columns = $storage_order:0}");
}

/* The p-norm of each channel. */
static bool
convert_global_lp_pool(Call *k)
{
    int64_t p = get_int(k, "p", 2), axis[TN_MAX_RANK];

    if (!call_names(k, "x[_, _, _, ...] -> y"))
        return false;
    const uint32_t rank = input_type(k, 0)->rank;
    for (uint32_t d = 2; d < rank; d++)
        axis[d - 2] = d;
    if (p < 1)
        return call_wrong(k, "attribute \"p\" is %" PRId64 "; 1 or more is needed", p);
    call_fact(k, "axes", ints_text(k, rank - 2, axis));
    call_number(k, "p", p);
    call_real(k, "power", (double)p);
    call_real(k, "root", 1 / (double)p);
    return call_text(k, p <= 2 ? "y = reduce_l$p(x, $axes)"
                               : "y = pow(reduce_sum(pow(abs(x), $power), $axes), $root)");
}

const OpRow training_rows[] = {
    { "GlobalLpPool", OP_NONE, convert_global_lp_pool },
    { "ai.onnx.preview.training.Adagrad", OP_NONE, convert_adagrad, "i1" },
    { "ai.onnx.preview.training.Adam", OP_NONE, convert_adam, "i1" },
    { "ai.onnx.preview.training.Gradient", OP_NONE, convert_gradient },
    { "ai.onnx.preview.training.Momentum", OP_NONE, convert_momentum, "i1" },
    { "MeanVarianceNormalization", OP_NONE, .names = "x -> y",
      .text = "axes = $axes:[0, 2, 3]\n"
              "d = x - reduce_mean(x, axes)\n"
              "y = d / (sqrt(reduce_mean(d * d, axes)) + 1e-9)" },
    { "BitCast", OP_bit_cast, convert_bit_cast },
    { 0 },
};
