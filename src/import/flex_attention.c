/* flex_attention: attention whose scores or probabilities graphs of the model modify: these are
 * read in place. Without such graphs it is the operator attention. */
#include "import/control.h"
#include "import/compose.h"
#include "import/converters.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool
is_modified(const Onnx__NodeProto *n)
{
    const Onnx__AttributeProto *scores = node_attribute(n, "score_mod"),
                               *probs = node_attribute(n, "prob_mod");
    return (scores && scores->g) || (probs && probs->g);
}

static ValueId
modified(Call *k, const char *name, ValueId x)
{
    const Onnx__AttributeProto *a = node_attribute(k->proto, name);
    return a && a->g && x ? inside_apply(k, a->g, x) : x;
}

/* Repeats each head `group` times: [b, h, n, d] to [b, h * group, n, d]. */
static ValueId
repeated(Call *k, ValueId x, int64_t heads, int64_t group)
{
    return group == 1 || !x ? x
                            : value_of_text(k, "x", &x,
                                            "b = shape(x)[0]\n"
                                            "n = shape(x)[2]\n"
                                            "d = shape(x)[3]\n"
                                            "each = expand(unsqueeze(x, [2]), "
                                            "[b, %" PRId64 ", %" PRId64 ", n, d])\n"
                                            "reshape(each, [b, %" PRId64 ", n, d])",
                                            heads, group, heads * group);
}

static bool
read_flex(Call *k)
{
    Ctx *c = k->m->c;
    const Onnx__AttributeProto *given = node_attribute(k->proto, "scale");
    int64_t heads, shared, size;

    for (uint32_t i = 0; i < 3; i++)
        if (!need_input(k, i))
            return false;
    const Type *q = input_type(k, 0), *kt = input_type(k, 1), *v = input_type(k, 2);
    if (q->rank != 4 || kt->rank != 4 || v->rank != 4 || !dtype_is_float(q->dtype))
        return call_wrong(k, "FlexAttention of %s, %s and %s; floats of rank 4 are needed",
                          type_str(c, q), type_str(c, kt), type_str(c, v));
    if (!expr_const(q->dim[1], &heads) || !expr_const(kt->dim[1], &shared) || shared < 1 ||
        heads % shared || !expr_const(q->dim[3], &size) || size < 1)
        return call_refuse(
            k, "FlexAttention of %s and %s; numbers of heads and their size must be known",
            type_str(c, q), type_str(c, kt));
    DType real = q->dtype == DT_F64 ? DT_F64 : DT_F32;
    ValueId y = repeated(k, call_cast(k, k->in.at[1], real), shared, heads / shared);
    ValueId scores = value_of_text(k, "x y", VALUES(k->in.at[0], call_matrix_transposed(k, y)),
                                   "matmul(%s(x), y) * %a", dtype_info[real].name,
                                   given ? (double)given->f : 1 / sqrt((double)size));
    scores = modified(k, "score_mod", scores);
    ValueId probs = scores ? value_of_text(k, "scores", &scores, "softmax(scores)") : 0;
    ValueId values = repeated(k, call_cast(k, k->in.at[2], real), shared, heads / shared);
    if (!call_names(k, "x -> y"))
        return false;
    call_name(k, "probs", modified(k, "prob_mod", probs));
    call_name(k, "values", values);
    return call_text(k, "y = identity(like(matmul(probs, values), x))");
}

const OpRow *
flex_row(const Call *k, const OpRow *row)
{
    static const OpRow flex = { "ai.onnx.preview.FlexAttention", OP_attention, read_flex,
                                .control = true };

    return row && !strcmp(row->onnx, flex.onnx) && is_modified(k->proto) ? &flex : row;
}
