/* synthetic: ONNX nodes and graphs that the file does not have: operators that are expanded in ONNX
 * because they need an inner graph. */
#include "import/synthetic.h"

#include <string.h>

OnnxNode *
made_node(Arena *a, const char *op, size_t nin, size_t nout)
{
    OnnxNode *n = ONNX_NEW(a, Node);

    n->op_type = arena_str(a, op);
    n->name = n->op_type;
    n->input = NEW_ARRAY(a, char *, nin + 1);
    n->output = NEW_ARRAY(a, char *, nout + 1);
    n->n_input = nin;
    n->n_output = nout;
    n->attribute = NEW_ARRAY(a, OnnxAttribute *, MADE_ATTRIBUTES);
    return n;
}

static OnnxAttribute *
made_attribute(Arena *a, OnnxNode *n, const char *name)
{
    OnnxAttribute *p = ONNX_NEW(a, Attribute);

    p->name = arena_str(a, name);
    p->has_type = 1;
    n->attribute[n->n_attribute++] = p;
    return p;
}

void
made_int(Arena *a, OnnxNode *n, const char *name, int64_t v)
{
    OnnxAttribute *p = made_attribute(a, n, name);

    p->type = ONNX_INT;
    p->i = v;
    p->has_i = 1;
}

void
made_graph(Arena *a, OnnxNode *n, const char *name, OnnxGraph *g)
{
    OnnxAttribute *p = made_attribute(a, n, name);

    p->type = ONNX_GRAPH;
    p->g = g;
}

OnnxValueInfo *
made_info(Arena *a, const char *name)
{
    OnnxValueInfo *v = ONNX_NEW(a, ValueInfo);

    v->name = arena_str(a, name);
    return v;
}

OnnxValueInfo *
made_scalar(Arena *a, const char *name, int type)
{
    OnnxValueInfo *v = made_info(a, name);

    v->type = ONNX_NEW(a, Type);
    v->type->value_case = ONNX_TENSOR_TYPE;
    v->type->tensor_type = ONNX_NEW(a, TensorType);
    v->type->tensor_type->has_elem_type = 1;
    v->type->tensor_type->elem_type = type;
    v->type->tensor_type->shape = ONNX_NEW(a, Shape);
    return v;
}
