/* What printing and parsing of graphs share. */
#ifndef TENON_GRAPH_INTERNAL_H
#define TENON_GRAPH_INTERNAL_H

#include "graph/graph.h"

enum { MAX_INLINE = 64 }; /* elements of a constant that stands in the text */

/* One element as a number that parses back to the same bits, and back. */
void element_print(Text *t, DType type, const void *at);
bool element_parse(Parse *p, DType type, void *at);

/* graph_verify of what somebody else made: MODEL for a graph that a user wrote. */
bool graph_verify_as(const Graph *g, DiagClass class);

/* Add a node whose callee is filled in; its values come from in and out. */
NodeId graph_add_node(Graph *g, Node n, uint32_t nin, const ValueId *in, uint32_t nout,
                      const ValueId *out);

/* Contents of output 0 of an operator's node, as the shape rules see them. */
Known known_of_op(const Graph *g, NodeId n);

#endif
