/* synthetic: ONNX nodes and graphs that are built while a model is read; see synthetic.c. Their
 * memory is the arena's. */
#ifndef TENON_SYNTHETIC_H
#define TENON_SYNTHETIC_H

#include "import/call.h"

enum { MADE_ATTRIBUTES = 4 }; /* of a node, at most */

/* A node whose names are set later; attributes of it. */
OnnxNode *made_node(Arena *a, const char *op, size_t nin, size_t nout);
void made_int(Arena *a, OnnxNode *n, const char *name, int64_t v);
void made_graph(Arena *a, OnnxNode *n, const char *name, OnnxGraph *g);
/* An input or output of a graph: only a name, or also the number of an ONNX type. */
OnnxValueInfo *made_info(Arena *a, const char *name);
OnnxValueInfo *made_scalar(Arena *a, const char *name, int type);

#endif
