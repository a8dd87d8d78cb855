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
made_ints(Arena *a, Onnx__NodeProto *n, const char *name, size_t count, const int64_t *v)
{
    Onnx__AttributeProto *p = made_attribute(a, n, name);

    p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    p->ints = arena_copy(a, v, count * sizeof *v);
    p->n_ints = count;
}

void
made_float(Arena *a, Onnx__NodeProto *n, const char *name, double v)
{
    Onnx__AttributeProto *p = made_attribute(a, n, name);

    p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    p->f = (float)v;
    p->has_f = 1;
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

/* The words of a blank-separated text; at most `most`. */
static size_t
words(Arena *a, const char *text, char **to, size_t most)
{
    size_t n = 0;

    for (const char *s = text + strspn(text, " "); *s && n < most; s += strspn(s, " ")) {
        size_t length = strcspn(s, " ");
        to[n++] = arena_printf(a, "%.*s", (int)length, s);
        s += length;
    }
    return n;
}

Onnx__GraphProto *
made_body(Arena *a, const char *inputs, const char *outputs, size_t most)
{
    Onnx__GraphProto *g = NEW(a, Onnx__GraphProto);
    char *name[MADE_NAMES];

    g->name = arena_str(a, "made");
    g->node = NEW_ARRAY(a, Onnx__NodeProto *, most);
    g->n_input = words(a, inputs, name, MADE_NAMES);
    g->input = NEW_ARRAY(a, Onnx__ValueInfoProto *, MADE_NAMES);
    for (size_t i = 0; i < g->n_input; i++)
        g->input[i] = made_info(a, name[i]);
    g->n_output = words(a, outputs, name, MADE_NAMES);
    g->output = NEW_ARRAY(a, Onnx__ValueInfoProto *, MADE_NAMES);
    for (size_t i = 0; i < g->n_output; i++)
        g->output[i] = made_info(a, name[i]);
    return g;
}

Onnx__NodeProto *
made_step(Arena *a, Onnx__GraphProto *g, const char *outputs, const char *op, const char *inputs)
{
    Onnx__NodeProto *n = made_node(a, op, MADE_NAMES, MADE_NAMES);

    n->n_input = words(a, inputs, n->input, MADE_NAMES);
    n->n_output = words(a, outputs, n->output, MADE_NAMES);
    if (g)
        g->node[g->n_node++] = n;
    return n;
}
