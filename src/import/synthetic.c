/* synthetic: ONNX nodes and graphs that the file does not have: operators that are expanded in ONNX
 * because they need an inner graph. */
#include "import/synthetic.h"

#include <string.h>

Onnx__NodeProto *
made_node(Arena *a, const char *op, size_t nin, size_t nout)
{
    Onnx__NodeProto *n = NEW(a, Onnx__NodeProto);

    n->op_type = arena_str(a, op);
    n->name = n->op_type;
    n->input = NEW_ARRAY(a, char *, nin + 1);
    n->output = NEW_ARRAY(a, char *, nout + 1);
    n->n_input = nin;
    n->n_output = nout;
    n->attribute = NEW_ARRAY(a, Onnx__AttributeProto *, MADE_ATTRIBUTES);
    return n;
}

static Onnx__AttributeProto *
made_attribute(Arena *a, Onnx__NodeProto *n, const char *name)
{
    Onnx__AttributeProto *p = NEW(a, Onnx__AttributeProto);

    p->name = arena_str(a, name);
    p->has_type = 1;
    n->attribute[n->n_attribute++] = p;
    return p;
}

void
made_int(Arena *a, Onnx__NodeProto *n, const char *name, int64_t v)
{
    Onnx__AttributeProto *p = made_attribute(a, n, name);

    p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    p->i = v;
    p->has_i = 1;
}

void
made_graph(Arena *a, Onnx__NodeProto *n, const char *name, Onnx__GraphProto *g)
{
    Onnx__AttributeProto *p = made_attribute(a, n, name);

    p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    p->g = g;
}

Onnx__ValueInfoProto *
made_info(Arena *a, const char *name)
{
    Onnx__ValueInfoProto *v = NEW(a, Onnx__ValueInfoProto);

    v->name = arena_str(a, name);
    return v;
}

Onnx__ValueInfoProto *
made_scalar(Arena *a, const char *name, int type)
{
    Onnx__ValueInfoProto *v = made_info(a, name);

    v->type = NEW(a, Onnx__TypeProto);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type->tensor_type = NEW(a, Onnx__TypeProto__Tensor);
    v->type->tensor_type->has_elem_type = 1;
    v->type->tensor_type->elem_type = type;
    v->type->tensor_type->shape = NEW(a, Onnx__TensorShapeProto);
    return v;
}
