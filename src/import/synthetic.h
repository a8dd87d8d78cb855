/* synthetic: ONNX nodes and graphs that are built while a model is read; see synthetic.c. Their
 * memory is the arena's. */
#ifndef TENON_SYNTHETIC_H
#define TENON_SYNTHETIC_H

#include "import/call.h"

/* A copy of a graph, with room for other nodes, inputs and outputs, and none yet. */
OnnxGraph *made_room(Arena *a, const OnnxGraph *like, size_t node, size_t input, size_t output);
void made_input(OnnxGraph *g, OnnxValueInfo *v);
void made_output(OnnxGraph *g, OnnxValueInfo *v);
/* A node with names of inputs and of a result, or none; in g, or NULL. Attributes of it: four at
 * most. */
OnnxNode *made_node(Arena *a, OnnxGraph *g, const char *op, size_t nin, const char *const *in,
                    const char *out);
#define MADE(...) ((const char *const[]){ __VA_ARGS__ })
void made_int(Arena *a, OnnxNode *n, const char *name, int64_t v);
void made_graph(Arena *a, OnnxNode *n, const char *name, OnnxGraph *g);
/* An input or output of a graph: only a name, or also the number of an ONNX type. */
OnnxValueInfo *made_info(Arena *a, const char *name);
OnnxValueInfo *made_scalar(Arena *a, const char *name, int type);

#endif
