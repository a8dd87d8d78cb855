/* synthetic: ONNX nodes and graphs that the file does not have: operators that are expanded in ONNX
 * because they need an inner graph. */
#include "import/synthetic.h"

#include <string.h>

enum { ATTRIBUTES = 4 }; /* of a node, at most */

OnnxGraph *
made_room(Arena *a, const OnnxGraph *like, size_t node, size_t input, size_t output)
{
    OnnxGraph *g = arena_copy(a, like, sizeof *g);

    g->node = NEW_ARRAY(a, OnnxNode *, node + 1);
    g->input = NEW_ARRAY(a, OnnxValueInfo *, input + 1);
    g->output = NEW_ARRAY(a, OnnxValueInfo *, output + 1);
    g->n_node = g->n_input = g->n_output = 0;
    return g;
}

void
made_input(OnnxGraph *g, OnnxValueInfo *v)
{
    g->input[g->n_input++] = v;
}

void
made_output(OnnxGraph *g, OnnxValueInfo *v)
{
    g->output[g->n_output++] = v;
}

OnnxNode *
made_node(Arena *a, OnnxGraph *g, const char *op, size_t nin, const char *const *in,
          const char *out)
{
    OnnxNode *n = ONNX_NEW(a, Node);

    n->op_type = n->name = arena_str(a, op);
    n->n_input = nin;
    n->input = NEW_ARRAY(a, char *, nin + 1);
    for (size_t i = 0; i < nin; i++)
        n->input[i] = arena_str(a, in[i]);
    n->n_output = out != NULL;
    n->output = NEW_ARRAY(a, char *, 1);
    n->output[0] = out ? arena_str(a, out) : NULL;
    n->attribute = NEW_ARRAY(a, OnnxAttribute *, ATTRIBUTES);
    if (g)
        g->node[g->n_node++] = n;
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
