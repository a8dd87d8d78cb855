/* flex_attention: attention whose scores or probabilities graphs of the model modify: these are
 * read in place. Without such graphs it is the operator attention. */
#include "import/control.h"
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <math.h>
#include <string.h>

static bool
is_modified(const OnnxNode *n)
{
    const OnnxAttribute *scores = node_attribute(n, "score_mod"),
                        *probs = node_attribute(n, "prob_mod");
    return (scores && scores->g) || (probs && probs->g);
}

static ValueId
modified(Call *k, const char *name, ValueId x)
{
    const OnnxAttribute *a = node_attribute(k->proto, name);
    return a && a->g && x ? inside_apply(k, a->g, x) : x;
}

/* `name`, keys or values [b, shared, n, d], in the type to compute with, once for each head. */
static bool
repeat(Call *k, const char *name)
{
    call_fact(k, "name", name);
    return call_text(k, "$name = $real($name)\n"
                        "$repeated? b = shape($name)[0]\n"
                        "$repeated? n = shape($name)[2]\n"
                        "$repeated? d = shape($name)[3]\n"
                        "$repeated? each = expand(unsqueeze($name, [2]),"
                        " [b, $shared, $group, n, d])\n"
                        "$repeated? $name = reshape(each, [b, $heads, n, d])");
}

static bool
read_flex(Call *k)
{
    const OnnxAttribute *given = node_attribute(k->proto, "scale");

    if (!call_names(k, "x[b, #heads, _, #size] k[b, #shared, _, _] v[b, shared, _, _] -> y"))
        return false;
    const int64_t heads = call_known(k, "heads"), shared = call_known(k, "shared"),
                  size = call_known(k, "size");
    if (!dtype_is_float(input_type(k, 0)->dtype) || shared < 1 || heads % shared || size < 1)
        return call_wrong(k,
                          "FlexAttention of %s and %s; floats are needed, and a multiple of the "
                          "heads of keys",
                          type_str(k->c, input_type(k, 0)), type_str(k->c, input_type(k, 1)));
    call_number(k, "group", heads / shared);
    call_number(k, "repeated", heads > shared);
    call_real(k, "by", given ? (double)given->f : 1 / sqrt((double)size));
    repeat(k, "k");
    call_name(k, "k", call_moved(k, call_value(k, "k"), -1, -2));
    call_text(k, "scores = matmul($real(x), k) * $by");
    call_name(k, "scores", modified(k, "score_mod", call_value(k, "scores")));
    call_text(k, "probs = softmax(scores)");
    repeat(k, "v");
    call_name(k, "probs", modified(k, "prob_mod", call_value(k, "probs")));
    return call_text(k, "y = identity(like(matmul(probs, v), x))");
}

const OpRow *
flex_row(const Call *k, const OpRow *row)
{
    static const OpRow flex = { "ai.onnx.preview.FlexAttention", OP_attention, read_flex,
                                .control = true };

    return row && !strcmp(row->onnx, flex.onnx) && is_modified(k->proto) ? &flex : row;
}
