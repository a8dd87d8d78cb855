/* synthetic: ONNX nodes and graphs that are made while a model is read; see synthetic.c. Their memory is the
 * arena's. */
#ifndef TENON_SYNTHETIC_H
#define TENON_SYNTHETIC_H

#include "import/call.h"

enum { MADE_ATTRIBUTES = 4, MADE_NAMES = 8 }; /* a node has at most; so do a graph's ends */

/* A node whose names are still to be given; attributes of it. */
Onnx__NodeProto *made_node(Arena *a, const char *op, size_t nin, size_t nout);
void made_int(Arena *a, Onnx__NodeProto *n, const char *name, int64_t v);
void made_ints(Arena *a, Onnx__NodeProto *n, const char *name, size_t count, const int64_t *v);
void made_float(Arena *a, Onnx__NodeProto *n, const char *name, double v);
void made_graph(Arena *a, Onnx__NodeProto *n, const char *name, Onnx__GraphProto *g);
/* An input or output of a graph: a name alone, or a number of ONNX's type. */
Onnx__ValueInfoProto *made_info(Arena *a, const char *name);
Onnx__ValueInfoProto *made_scalar(Arena *a, const char *name, int type);

/* A graph of up to `most` nodes, its inputs and outputs named between blanks; and the next node of
 * it (of none, where g is NULL). */
Onnx__GraphProto *made_body(Arena *a, const char *inputs, const char *outputs, size_t most);
Onnx__NodeProto *made_step(Arena *a, Onnx__GraphProto *g, const char *outputs, const char *op,
                           const char *inputs);

#endif
