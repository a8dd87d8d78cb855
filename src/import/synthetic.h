/* synthetic: ONNX nodes and graphs that are built while a model is read; see synthetic.c. Their
 * memory is the arena's. */
#ifndef TENON_SYNTHETIC_H
#define TENON_SYNTHETIC_H

#include "import/call.h"

/* limits of a node, and of a graph's inputs and outputs */
enum { MADE_ATTRIBUTES = 4, MADE_NAMES = 8 };

/* A node whose names are set later; attributes of it. */
Onnx__NodeProto *made_node(Arena *a, const char *op, size_t nin, size_t nout);
void made_int(Arena *a, Onnx__NodeProto *n, const char *name, int64_t v);
void made_ints(Arena *a, Onnx__NodeProto *n, const char *name, size_t count, const int64_t *v);
void made_float(Arena *a, Onnx__NodeProto *n, const char *name, double v);
void made_graph(Arena *a, Onnx__NodeProto *n, const char *name, Onnx__GraphProto *g);
/* An input or output of a graph: only a name, or also the number of an ONNX type. */
Onnx__ValueInfoProto *made_info(Arena *a, const char *name);
Onnx__ValueInfoProto *made_scalar(Arena *a, const char *name, int type);

/* A graph of up to `most` nodes, with blank-separated names of inputs and outputs; and its next
 * node (of no graph if g is NULL). */
Onnx__GraphProto *made_body(Arena *a, const char *inputs, const char *outputs, size_t most);
Onnx__NodeProto *made_step(Arena *a, Onnx__GraphProto *g, const char *outputs, const char *op,
                           const char *inputs);

#endif
