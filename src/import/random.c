/* random: operators with random results. All runs of a model give the same ones: they follow from
 * the node's seed or, without one, from its name and --seed (doc/operators.md). */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <inttypes.h>
#include <string.h>

/* In texts: f32 numbers in the shape of `like`. */
static const char *
random_text(Call *k, const char *like, bool normal)
{
    const char *name = output_name(k, "");
    const Attr *seed = call_attr(k, "seed");
    float given = seed ? (float)(seed->kind == ATTR_FLOAT ? seed->f : (double)seed->i) : 0;
    uint32_t bits;

    memcpy(&bits, &given, sizeof bits);
    return arena_printf(k->arena,
                        "random(%s) {normal = %d, seed = %" PRId64 ", stream = %" PRId64 "}", like,
                        normal, seed ? bits : k->m->seed,
                        seed ? 0 : (int64_t)(hash_bytes(name, strlen(name), 0) >> 16));
}

/* Texts with the type of the result. */
static bool
type_of_result(Call *k, DType like)
{
    DType t;

    if (!get_dtype(k, "dtype", like, &t))
        return false;
    call_fact(k, "type", dtype_info[t].name);
    return true;
}

static bool
convert_random(Call *k)
{
    bool normal = strstr(k->proto->op_type, "Normal") != NULL,
         like = strstr(k->proto->op_type, "Like") != NULL;
    double first = get_float(k, normal ? "mean" : "low", 0),
           second = get_float(k, normal ? "scale" : "high", 1);

    if (!call_names(k, like ? "x -> y" : "-> y") ||
        !type_of_result(k, like ? input_type(k, 0)->dtype : DT_F32))
        return false;
    call_real(k, "first", first);
    call_real(k, "span", normal ? second : second - first);
    return (like || call_text(k, "x = constant_of_shape($shape)")) &&
           call_text(k, "y = identity($type(%s * $span + $first))", random_text(k, "x", normal));
}

static bool
convert_bernoulli(Call *k)
{
    return call_names(k, "x -> y") && type_of_result(k, input_type(k, 0)->dtype) &&
           call_text(k, "y = identity($type(%s < f32(x)))", random_text(k, "x", false));
}

/* Samples that many classes from each row of log-probabilities [b, c]: the number of running sums
 * below a random number. */
static bool
convert_multinomial(Call *k)
{
    return call_names(k, "x[b, c] -> y") && type_of_result(k, DT_I32) &&
           call_text(k,
                     "p = softmax(f32(x))\n"
                     "like = constant_of_shape([shape(p)[0], $sample_size:1])\n"
                     "u = %s\n"
                     "above = unsqueeze(u, [2]) >= unsqueeze(cum_sum(p, 1), [1])\n"
                     "count = reduce_sum(i64(above), [2]) {keepdims = 0}\n"
                     "y = identity($type(min(count, squeeze(shape(p)[1]) - 1)))",
                     random_text(k, "like", false));
}

/* In training, kept elements are scaled up. */
bool
convert_dropout_training(Call *k)
{
    return call_says(k, "x ? ratio train -> y mask",
                     "real = $real(x)\n"
                     "!ratio? ratio = like(0.5, real)\n"
                     "ratio = like(ratio, real)\n"
                     "mask = !train || like(%s, real) >= ratio\n"
                     "by = where(train, 1 / (1 - ratio), 1)\n"
                     "y = identity(like(where(mask, real * by, 0), x))",
                     random_text(k, "x", false));
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
