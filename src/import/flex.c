/* flex: attention whose scores or probabilities the model changes by graphs of its own: they are
 * read in place. Without such graphs it is the operator attention.
 */
#include "import/control.h"
#include "import/little.h"

#include <math.h>
#include <string.h>

static bool
is_modified(const Onnx__NodeProto *n)
{
    const Onnx__AttributeProto *scores = inside_attribute(n, "score_mod"),
                               *probs = inside_attribute(n, "prob_mod");
    return (scores && scores->g) || (probs && probs->g);
}

static ValueId
modified(Call *k, const char *name, ValueId x)
{
    const Onnx__AttributeProto *a = inside_attribute(k->proto, name);
    return a && a->g && x ? inside_apply(k, a->g, x) : x;
}

static ValueId
turned(Call *k, ValueId x)
{
    static const int64_t perm[] = { 0, 1, 3, 2 };
    Attr a = { .name = sym(k->m->c, "perm"), .kind = ATTR_INTS, .n = 4, .ints = perm };
    return x ? call_op(k, OP_transpose, 1, &a, 1, &x, "turned") : 0;
}

/* Each head `group` times in a row: [b, h, n, d] to [b, h * group, n, d]. */
static ValueId
repeated(Call *k, ValueId x, int64_t heads, int64_t group)
{
    ValueId shape = x ? little_shape(k, x) : 0, b = shape ? little_element(k, shape, 0) : 0;

    if (group == 1 || !b)
        return x;
    ValueId n = little_element(k, shape, 2), d = little_element(k, shape, 3),
            one = little_list(k, 1, (int64_t[]){ 2 });
    ValueId wide = little_2(k, OP_unsqueeze, x, one), h = little_list(k, 1, &heads),
            g = little_list(k, 1, &group), all = little_list(k, 1, (int64_t[]){ heads * group });
    ValueId five = little_axis(k, OP_concat, 0, 5, (ValueId[]){ b, h, g, n, d }),
            four = little_axis(k, OP_concat, 0, 4, (ValueId[]){ b, all, n, d });
    wide = wide && five ? little_2(k, OP_expand, wide, five) : 0;
    return wide && four ? little_2(k, OP_reshape, wide, four) : 0;
}

static bool
read_flex(Call *k)
{
    Ctx *c = k->m->c;
    const Onnx__AttributeProto *given = inside_attribute(k->proto, "scale");
    int64_t heads, shared, size;

    for (uint32_t i = 0; i < 3; i++)
        if (!need_input(k, i))
            return false;
    const Type *q = input_type(k, 0), *kt = input_type(k, 1), *v = input_type(k, 2);
    if (q->rank != 4 || kt->rank != 4 || v->rank != 4 || !dtype_is_float(q->dtype))
        return diag_error(&c->diags, DIAG_MODEL, k->loc,
                          "FlexAttention of %s, %s and %s; floats of rank 4 are needed",
                          type_str(c, q), type_str(c, kt), type_str(c, v));
    if (!expr_const(q->dim[1], &heads) || !expr_const(kt->dim[1], &shared) || shared < 1 ||
        heads % shared || !expr_const(q->dim[3], &size) || size < 1)
        return call_refuse(
            k, "FlexAttention of %s and %s; numbers of heads and their size must be known",
            type_str(c, q), type_str(c, kt));
    DType real = q->dtype == DT_F64 ? DT_F64 : DT_F32;
    ValueId x = little_cast(k, k->in.at[0], real),
            y = repeated(k, little_cast(k, k->in.at[1], real), shared, heads / shared);
    ValueId scores = y ? little_2(k, OP_matmul, x, turned(k, y)) : 0;
    scores = scores ? little_2(k, OP_mul, scores,
                               scalar_const(k, "scale", scores,
                                            given ? (double)given->f : 1 / sqrt((double)size)))
                    : 0;
    scores = modified(k, "score_mod", scores);
    ValueId probs = modified(k, "prob_mod", scores ? little_1(k, OP_softmax, scores) : 0);
    ValueId values = repeated(k, little_cast(k, k->in.at[2], real), shared, heads / shared);
    ValueId out =
        probs && values ? little_cast(k, little_2(k, OP_matmul, probs, values), q->dtype) : 0;
    call_bind(k, 0, out ? call_op(k, OP_identity, 0, NULL, 1, &out, output_name(k)) : 0);
    return out != 0;
}

Control *
flex_named(const Onnx__NodeProto *n, const char *full)
{
    return !strcmp(full, "ai.onnx.preview.FlexAttention") && is_modified(n) ? read_flex : NULL;
}
