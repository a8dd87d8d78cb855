/* mutate_onnx: models that stay models: libFuzzer's mutator for ONNX files.
 *
 * A file that can be read has one to four things changed: an operator's name, what a node reads, an
 * attribute, a size, a node more or less, the numbers of a constant; in the graph, in one inside
 * it, or in a function. One time in eight, and where the file cannot be read, bytes are changed as
 * libFuzzer does. Crossing two models puts nodes and constants of one into the other, or a graph of
 * one in the place of another's.
 *
 * Everything read is in one arena, which is freed at the end, so that pointers may be moved about.
 */
#ifndef TENON_MUTATE_ONNX_H
#define TENON_MUTATE_ONNX_H

#include "pack_onnx.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);

typedef struct {
    Arena *arena; /* of all that is read */
    uint64_t random;
} Room;

static void *
room_alloc(Room *r, size_t n)
{
    return arena_alloc(r->arena, n);
}

static uint32_t
pick(Room *r, size_t n)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((r->random >> 33) % n) : 0;
}

static int64_t
some_number(Room *r)
{
    static const int64_t of_interest[] = { 0,     1,         -1,        2,         3,  4,   5,
                                           7,     8,         13,        16,        64, 255, 1024,
                                           65536, INT32_MAX, INT64_MAX, INT64_MIN, -2, -9 };

    return of_interest[pick(r, sizeof of_interest / sizeof *of_interest)];
}

static char *
some_operator(Room *r)
{
    static char *const names[] = {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "Sqrt",
        "Clip",
        "Cast",
        "Where",
        "Equal",
        "Less",
        "Not",
        "MatMul",
        "Gemm",
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "BatchNormalization",
        "LayerNormalization",
        "Softmax",
        "LogSoftmax",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ArgMax",
        "TopK",
        "CumSum",
        "Concat",
        "Split",
        "Slice",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Expand",
        "Tile",
        "Pad",
        "Gather",
        "GatherND",
        "GatherElements",
        "ScatterND",
        "ScatterElements",
        "Shape",
        "Size",
        "Range",
        "ConstantOfShape",
        "Resize",
        "DepthToSpace",
        "SpaceToDepth",
        "OneHot",
        "Trilu",
        "Einsum",
        "QuantizeLinear",
        "DequantizeLinear",
        "Identity",
        "Dropout",
        "Pow",
        "Mod",
        "NonZero",
        "If",
        "Loop",
        "Scan",
        "Attention",
        "LSTM",
        "GRU",
    };

    return names[pick(r, sizeof names / sizeof *names)];
}

/* The list with room for one more; its length is the caller's to count. */
static void *
longer(Room *r, void *list, size_t n)
{
    void **to = room_alloc(r, (n + 1) * sizeof *to);

    if (to && n)
        memcpy(to, list, n * sizeof *to);
    return to;
}

/* A name that stands somewhere in the graph; "" where it is absent. */
static char *
some_value(Room *r, Onnx__GraphProto *g)
{
    uint32_t kind = pick(r, 4);
    char *name = NULL;

    if (kind == 0 && g->n_initializer) {
        name = g->initializer[pick(r, g->n_initializer)]->name;
    } else if (kind == 1 && g->n_input) {
        name = g->input[pick(r, g->n_input)]->name;
    } else if (g->n_node) {
        Onnx__NodeProto *n = g->node[pick(r, g->n_node)];
        if (kind == 2 && n->n_input)
            name = n->input[pick(r, n->n_input)];
        else if (n->n_output)
            name = n->output[pick(r, n->n_output)];
    }
    return name ? name : "";
}

static char *
some_word(Room *r)
{
    static char *const words[] = {
        "linear",
        "nearest",
        "cubic",
        "SAME_UPPER",
        "SAME_LOWER",
        "VALID",
        "NOTSET",
        "add",
        "mul",
        "max",
        "min",
        "none",
        "constant",
        "reflect",
        "edge",
        "wrap",
        "pytorch_half_pixel",
        "half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
        "floor",
        "ceil",
        "round_prefer_ceil",
        "bidirectional",
        "reverse",
        "forward",
        "DCR",
        "CRD",
        "tanh",
        "Sigmoid",
        "Relu",
        "LEFT",
        "RIGHT",
        "bij,bjk->bik",
        "ij->ji",
        "...i->...",
    };

    return words[pick(r, sizeof words / sizeof *words)];
}

static void
mutate_attribute(Room *r, Onnx__NodeProto *n)
{
    if (!n->n_attribute)
        return;
    Onnx__AttributeProto *a = n->attribute[pick(r, n->n_attribute)];
    switch (pick(r, 6)) {
    case 0: a->i = some_number(r); break;
    case 5:
        a->s.data = (uint8_t *)some_word(r);
        a->s.len = strlen((char *)a->s.data);
        break;
    case 1: a->f = (float)some_number(r) / 4; break;
    case 2:
        if (a->n_ints)
            a->ints[pick(r, a->n_ints)] = some_number(r);
        break;
    case 3:
        if (a->n_ints)
            a->n_ints--;
        break;
    default: n->attribute[pick(r, n->n_attribute)] = n->attribute[--n->n_attribute];
    }
}

static void
mutate_node(Room *r, Onnx__GraphProto *g)
{
    Onnx__NodeProto *n = g->node[pick(r, g->n_node)];

    switch (pick(r, 6)) {
    case 0: n->op_type = some_operator(r); break;
    case 1:
        if (n->n_input)
            n->input[pick(r, n->n_input)] = some_value(r, g);
        break;
    case 2: {
        char **input = longer(r, n->input, n->n_input);
        if (input) {
            input[n->n_input++] = pick(r, 4) ? some_value(r, g) : "";
            n->input = input;
        }
        break;
    }
    case 3:
        if (n->n_input)
            n->n_input--;
        break;
    default: mutate_attribute(r, n);
    }
}

/* A node, or one less: a copy that reads the original's result; the last output follows. */
static void
mutate_nodes(Room *r, Onnx__GraphProto *g)
{
    uint32_t at = pick(r, g->n_node);
    Onnx__NodeProto **node = longer(r, g->node, g->n_node), *copy = room_alloc(r, sizeof *copy);

    if (pick(r, 3) == 0) {
        memmove(g->node + at, g->node + at + 1, (--g->n_node - at) * sizeof *g->node);
        return;
    }
    char **names = room_alloc(r, 2 * sizeof *names), *name = room_alloc(r, 16);
    if (!node || !copy || !names || !name || !g->node[at]->n_output || !g->node[at]->n_input)
        return;
    *copy = *g->node[at];
    for (size_t i = 0; i < 8; i++)
        name[i] = (char)('a' + pick(r, 26));
    names[0] = g->node[at]->output[0];
    names[1] = name;
    copy->input = longer(r, copy->input, copy->n_input);
    if (!copy->input)
        return;
    copy->input[0] = names[0];
    copy->output = names + 1;
    copy->n_output = 1;
    memmove(node + at + 2, node + at + 1, (g->n_node - at - 1) * sizeof *node);
    node[at + 1] = copy;
    g->node = node;
    g->n_node++;
    if (g->n_output && pick(r, 2))
        g->output[0]->name = name;
}

static void
mutate_sizes(Room *r, Onnx__GraphProto *g)
{
    Onnx__ValueInfoProto *v = g->n_input ? g->input[pick(r, g->n_input)] : NULL;
    Onnx__TypeProto__Tensor *t =
        v && v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? v->type->tensor_type
            : NULL;

    if (!t || !t->shape || !t->shape->n_dim)
        return;
    Onnx__TensorShapeProto__Dimension *d = t->shape->dim[pick(r, t->shape->n_dim)];
    switch (pick(r, 4)) {
    case 0: t->elem_type = (int32_t)(1 + pick(r, 16)); break;
    case 1: t->shape->n_dim--; break;
    case 2:
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        d->dim_param = pick(r, 2) ? "n" : "m";
        break;
    default:
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = some_number(r);
    }
}

static void
mutate_constant(Room *r, Onnx__GraphProto *g)
{
    if (!g->n_initializer)
        return;
    Onnx__TensorProto *t = g->initializer[pick(r, g->n_initializer)];
    int64_t number = some_number(r);
    if (t->raw_data.len >= 8 && pick(r, 4))
        memcpy(t->raw_data.data + 8 * pick(r, t->raw_data.len / 8), &number, 8);
    else if (t->n_int64_data)
        t->int64_data[pick(r, t->n_int64_data)] = number;
    else if (t->n_dims)
        t->dims[pick(r, t->n_dims)] = number;
    else
        t->data_type = (int32_t)(1 + pick(r, 16));
}

/* Where a graph stands that a node of g runs, at any depth; NULL: picked none. */
static Onnx__GraphProto **
some_place(Room *r, Onnx__GraphProto *g)
{
    Onnx__GraphProto **place = NULL;

    for (uint32_t tries = 0; tries < 8 && g->n_node; tries++) {
        Onnx__NodeProto *n = g->node[pick(r, g->n_node)];
        Onnx__AttributeProto *a = n->n_attribute ? n->attribute[pick(r, n->n_attribute)] : NULL;
        if (a && a->g) {
            place = &a->g;
            g = a->g;
        }
    }
    return place;
}

/* The model's graph, one inside it, or the nodes of a function: `of` then tells where they came
 * from. */
static Onnx__GraphProto *
some_graph(Room *r, Onnx__ModelProto *m, Onnx__GraphProto *body, Onnx__FunctionProto **of)
{
    *of = NULL;
    if (m->n_functions && pick(r, 3) == 0) {
        *of = m->functions[pick(r, m->n_functions)];
        *body = (Onnx__GraphProto){ .n_node = (*of)->n_node };
        body->node = (*of)->node;
        return body;
    }
    Onnx__GraphProto **inside = pick(r, 2) ? some_place(r, m->graph) : NULL;
    return inside ? *inside : m->graph;
}

static void
mutate_model(Room *r, Onnx__ModelProto *m)
{
    Onnx__GraphProto body;
    Onnx__FunctionProto *function;

    for (uint32_t i = 0; i <= pick(r, 3); i++) {
        Onnx__GraphProto *g = some_graph(r, m, &body, &function);
        switch (pick(r, 10)) {
        case 0: mutate_sizes(r, g); break;
        case 1:
        case 2: mutate_constant(r, g); break;
        case 3:
        case 4:
            if (g->n_node)
                mutate_nodes(r, g);
            break;
        case 5:
            if (m->n_opset_import)
                m->opset_import[0]->version = 7 + pick(r, 18);
            break;
        default:
            if (g->n_node)
                mutate_node(r, g);
        }
        if (function) {
            function->n_node = body.n_node;
            function->node = body.node;
        }
    }
}

/* Nodes and constants of `from` into `to`; what the last of them makes is an output too. */
static void
join(Room *r, Onnx__GraphProto *to, Onnx__GraphProto *from)
{
    Onnx__GraphProto **place = some_place(r, to), **other = some_place(r, from);

    if (place && pick(r, 2)) {
        *place = other ? *other : from;
        return;
    }
    for (uint32_t i = 0; i < from->n_initializer && i < 8; i++) {
        Onnx__TensorProto **list = longer(r, to->initializer, to->n_initializer);
        if (!list)
            return;
        list[to->n_initializer++] = from->initializer[i];
        to->initializer = list;
    }
    for (uint32_t i = 0, n = 1 + pick(r, 6); i < from->n_node && i < n; i++) {
        Onnx__NodeProto **list = longer(r, to->node, to->n_node);
        if (!list)
            return;
        list[to->n_node++] = from->node[i];
        to->node = list;
        if (i == 0 && from->node[0]->n_input)
            from->node[0]->input[0] = some_value(r, to);
        if (from->node[i]->n_output && to->n_output)
            to->output[0]->name = from->node[i]->output[0];
    }
}

/* NULL: it cannot be read, or has no graph. */
static Onnx__ModelProto *
parsed(Room *r, const uint8_t *data, size_t n)
{
    Ctx c;
    Onnx__ModelProto *m = NEW(r->arena, Onnx__ModelProto);

    ctx_init(&c, r->arena);
    ProtoSource from = { .what = "model", .bytes = { data, n } };
    return proto_read(&c, r->arena, &from, &proto_ModelProto, m) && m->graph ? m : NULL;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                 uint8_t *out, size_t most, unsigned seed);

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    Room r = { .arena = arena_new(NULL, NULL), .random = seed };
    Onnx__ModelProto *m = pick(&r, 8) ? parsed(&r, data, n) : NULL;
    size_t made = 0;

    if (m) {
        mutate_model(&r, m);
        made = pack_onnx(m, data, most);
    }
    arena_free(r.arena);
    return made ? made : LLVMFuzzerMutate(data, n, most);
}

size_t
LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out,
                          size_t most, unsigned seed)
{
    Room r = { .arena = arena_new(NULL, NULL), .random = seed };
    Onnx__ModelProto *x = parsed(&r, a, na), *y = x ? parsed(&r, b, nb) : NULL;
    size_t made = 0;

    if (y) {
        join(&r, x->graph, y->graph);
        made = pack_onnx(x, out, most);
    }
    arena_free(r.arena);
    return made;
}

#endif
