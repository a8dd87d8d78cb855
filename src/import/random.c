/* random: operators with random results. Every run of a model gives the same ones: they follow from
 * the node's seed, or from its name and --seed where it has none (doc/operators.md).
 */
#include "import/little.h"

#include <string.h>

static double
real_attr(Call *k, const char *name, double otherwise)
{
    return attr_float((Attrs){ k->attr.at, k->attr.n }, name, otherwise);
}

/* f32 like `like`. */
static ValueId
random_like(Call *k, ValueId like, bool normal)
{
    Attr *attr = NEW_ARRAY(k->m->arena, Attr, 3);
    const char *name = k->proto->n_output ? text_of(k->proto->output[0]) : "";
    const Attr *seed = call_attr(k, "seed");
    float given = seed ? (float)(seed->kind == ATTR_FLOAT ? seed->f : (double)seed->i) : 0;
    uint32_t bits;

    memcpy(&bits, &given, sizeof bits);
    attr[0] = (Attr){ .name = sym(k->m->c, "normal"), .kind = ATTR_INT, .i = normal };
    attr[1] =
        (Attr){ .name = sym(k->m->c, "seed"), .kind = ATTR_INT, .i = seed ? bits : k->m->seed };
    attr[2] = (Attr){ .name = sym(k->m->c, "stream"),
                      .kind = ATTR_INT,
                      .i = seed ? 0 : (int64_t)(hash_bytes(name, strlen(name), 0) >> 16) };
    return like ? call_op(k, OP_random, 3, attr, 1, &like, "random") : 0;
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
give(Call *k, ValueId v, DType t)
{
    v = v ? little_cast(k, v, t) : 0;
    return finish(k, v ? call_op(k, OP_identity, 0, NULL, 1, &v, output_name(k)) : 0);
}

static bool
convert_random(Call *k)
{
    bool normal = strstr(k->proto->op_type, "Normal") != NULL,
         like = strstr(k->proto->op_type, "Like") != NULL;
    const Attr *shape = call_attr(k, "shape");
    ValueId of = 0;
    DType t;

    if (like && !need_input(k, 0))
        return false;
    if (!like && !shape)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "%s needs a shape",
                          k->proto->op_type);
    of = like ? k->in.at[0]
              : little_1(k, OP_constant_of_shape, little_list(k, shape->n, shape->ints));
    if (!type_of_result(k, like ? input_type(k, 0)->dtype : DT_F32, &t))
        return false;
    double first = real_attr(k, normal ? "mean" : "low", 0),
           second = real_attr(k, normal ? "scale" : "high", 1);
    ValueId v = random_like(k, of, normal);
    v = v ? little_2(k, OP_mul, v, scalar_const(k, "by", v, normal ? second : second - first)) : 0;
    return give(k, v ? little_2(k, OP_add, v, scalar_const(k, "from", v, first)) : 0, t);
}

static bool
convert_bernoulli(Call *k)
{
    DType t;

    if (!need_input(k, 0) || !type_of_result(k, input_type(k, 0)->dtype, &t))
        return false;
    ValueId u = random_like(k, k->in.at[0], false), p = little_cast(k, k->in.at[0], DT_F32);
    return give(k, u && p ? little_2(k, OP_less, u, p) : 0, t);
}

/* Of each row of log-probabilities [b, c], so many classes: how many running sums a number lies
 * above. */
static bool
convert_multinomial(Call *k)
{
    const int64_t one = 1, two = 2, samples = get_int(k, "sample_size", 1);
    Attr keep = { .name = sym(k->m->c, "keepdims"), .kind = ATTR_INT };
    DType t = DT_I32;

    if (!need_input(k, 0) || !type_of_result(k, DT_I32, &t))
        return false;
    if (input_type(k, 0)->rank != 2 || samples < 1)
        return diag_error(&k->m->c->diags, DIAG_MODEL, k->loc, "Multinomial of %s, %lld samples",
                          type_str(k->m->c, input_type(k, 0)), (long long)samples);
    ValueId p = little_1(k, OP_softmax, little_cast(k, k->in.at[0], DT_F32)),
            sum = p ? little_2(k, OP_cum_sum, p, little_number(k, 1)) : 0;
    ValueId rows = sum ? little_element(k, little_shape(k, p), 0) : 0;
    ValueId like = rows ? little_1(k, OP_constant_of_shape,
                                   little_axis(k, OP_concat, 0, 2,
                                               (ValueId[]){ rows, little_list(k, 1, &samples) }))
                        : 0;
    ValueId u = random_like(k, like, false);
    if (!u)
        return false;
    ValueId above =
        little_2(k, OP_greater_or_equal, little_2(k, OP_unsqueeze, u, little_list(k, 1, &two)),
                 little_2(k, OP_unsqueeze, sum, little_list(k, 1, &one)));
    ValueId count =
        above ? call_op(k, OP_reduce_sum, 1, &keep, 2,
                        (ValueId[]){ little_cast(k, above, DT_I64), little_list(k, 1, &two) },
                        "above")
              : 0;
    ValueId last =
        little_2(k, OP_sub, little_1(k, OP_squeeze, little_element(k, little_shape(k, p), 1)),
                 little_number(k, 1));
    return give(k, count ? little_2(k, OP_min, count, last) : 0, t);
}

/* x ratio? training?: what is kept is scaled up, where it trains. */
bool
convert_dropout_training(Call *k)
{
    ValueId x = k->in.at[0], train = k->in.at[2],
            real = little_cast(k, x, little_type(k, x)->dtype == DT_F64 ? DT_F64 : DT_F32);
    ValueId ratio = k->in.at[1] ? little_cast(k, k->in.at[1], little_type(k, real)->dtype)
                                : scalar_const(k, "ratio", real, 0.5);
    ValueId u = random_like(k, x, false), one = scalar_const(k, "one", real, 1),
            all = little_1(k, OP_not, train);
    ValueId kept = u && all
                       ? little_2(k, OP_or, all,
                                  little_2(k, OP_greater_or_equal,
                                           little_cast(k, u, little_type(k, real)->dtype), ratio))
                       : 0;
    ValueId by = little_3(k, OP_where, train,
                          little_2(k, OP_div, one, little_2(k, OP_sub, one, ratio)), one);
    ValueId y = kept && by ? little_3(k, OP_where, kept, little_2(k, OP_mul, real, by),
                                      scalar_const(k, "zero", real, 0))
                           : 0;

    if (k->nout > 1)
        call_bind(k, 1, kept ? call_op(k, OP_identity, 0, NULL, 1, &kept, k->proto->output[1]) : 0);
    return give(k, y, little_type(k, x)->dtype);
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
