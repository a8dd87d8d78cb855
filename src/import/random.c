/* random: operators with random results. All runs of a model give the same ones: they follow from
 * the node's seed or, without one, from its name and --seed (doc/operators.md). */
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>
#include <string.h>

/* In texts: f32 numbers in the shape of `like`. */
static const char *
random_text(Call *k, const char *like, bool normal)
{
    const char *name = k->proto->n_output ? text_of(k->proto->output[0]) : "";
    const Attr *seed = call_attr(k, "seed");
    float given = seed ? (float)(seed->kind == ATTR_FLOAT ? seed->f : (double)seed->i) : 0;
    uint32_t bits;

    memcpy(&bits, &given, sizeof bits);
    return arena_printf(k->m->arena,
                        "random(%s) {normal = %d, seed = %" PRId64 ", stream = %" PRId64 "}", like,
                        normal, seed ? bits : k->m->seed,
                        seed ? 0 : (int64_t)(hash_bytes(name, strlen(name), 0) >> 16));
}

static bool
type_of_result(Call *k, DType like, DType *t)
{
    const Attr *a = call_attr(k, "dtype");

    *t = !a ? like : a->i == (int)a->i ? dtype_from_onnx((int)a->i) : DT_NONE;
    return *t != DT_NONE || call_refuse(k, "%s with elements of ONNX type %s", k->proto->op_type,
                                        onnx_type_name(k->m->arena, a ? (int)a->i : 0));
}

static bool
convert_random(Call *k)
{
    bool normal = strstr(k->proto->op_type, "Normal") != NULL,
         like = strstr(k->proto->op_type, "Like") != NULL;
    const Attr *shape = call_attr(k, "shape");
    double first = get_float(k, normal ? "mean" : "low", 0),
           second = get_float(k, normal ? "scale" : "high", 1);
    DType t;

    if (!like && !shape)
        return call_wrong(k, "%s needs a shape", k->proto->op_type);
    if (!call_names(k, like ? "x -> y" : "-> y") ||
        !type_of_result(k, like ? input_type(k, 0)->dtype : DT_F32, &t))
        return false;
    return (like ||
            call_text(k, "x = constant_of_shape(%s)", ints_text(k, shape->n, shape->ints))) &&
           call_text(k, "y = identity(%s(%s * %a + %a))", dtype_info[t].name,
                     random_text(k, "x", normal), normal ? second : second - first, first);
}

static bool
convert_bernoulli(Call *k)
{
    DType t;

    return call_names(k, "x -> y") && type_of_result(k, input_type(k, 0)->dtype, &t) &&
           call_text(k, "y = identity(%s(%s < f32(x)))", dtype_info[t].name,
                     random_text(k, "x", false));
}

/* Samples that many classes from each row of log-probabilities [b, c]: the number of running sums
 * below a random number. */
static bool
convert_multinomial(Call *k)
{
    const int64_t samples = get_int(k, "sample_size", 1);
    DType t = DT_I32;

    if (!call_names(k, "x -> y") || !type_of_result(k, DT_I32, &t))
        return false;
    if (input_type(k, 0)->rank != 2 || samples < 1)
        return call_wrong(k, "Multinomial of %s, %lld samples", type_str(k->m->c, input_type(k, 0)),
                          (long long)samples);
    return call_text(k,
                     "p = softmax(f32(x))\n"
                     "like = constant_of_shape([shape(p)[0], %" PRId64 "])\n"
                     "u = %s\n"
                     "above = unsqueeze(u, [2]) >= unsqueeze(cum_sum(p, 1), [1])\n"
                     "count = reduce_sum(i64(above), [2]) {keepdims = 0}\n"
                     "y = identity(%s(min(count, squeeze(shape(p)[1]) - 1)))",
                     samples, random_text(k, "like", false), dtype_info[t].name);
}

/* In training, kept elements are scaled up. */
bool
convert_dropout_training(Call *k)
{
    return call_says(k, "x ? ratio train -> y mask",
                     "real = %s(x)\n"
                     "!ratio? ratio = like(0.5, real)\n"
                     "ratio = like(ratio, real)\n"
                     "mask = !train || like(%s, real) >= ratio\n"
                     "by = where(train, 1 / (1 - ratio), 1)\n"
                     "y = identity(like(where(mask, real * by, 0), x))",
                     input_type(k, 0)->dtype == DT_F64 ? "f64" : "f32", random_text(k, "x", false));
}

const OpRow random_rows[] = {
    { "RandomUniform", OP_random, convert_random },
    { "RandomNormal", OP_random, convert_random },
    { "RandomUniformLike", OP_random, convert_random },
    { "RandomNormalLike", OP_random, convert_random },
    { "Bernoulli", OP_random, convert_bernoulli },
    { "Multinomial", OP_random, convert_multinomial },
    { 0 },
};
