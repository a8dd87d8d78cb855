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

/* Pieces of the text: `a = e, b = f` behind `before`, which ends with a bracket; a == b "why". */
void print_bindings(Ctx *c, Text *t, const char *before, const Binding *bind, uint32_t n);
void print_dims(Text *t, const Type *type);
void print_constraint(Text *t, const Constraint *k);

struct Batch;
/* The walks of a program for many requests (batch.c). */
void batch_print(Ctx *c, Text *t, const struct Batch *b, int indent);
/* How each BatchOp is written: its name, then words and letters of operands; and whether a letter,
 * up to `end`, has a mark behind it. */
extern const char *const batch_form[];
bool batch_token_has(const char *token, const char *end, char mark);
const char *batch_next_token(const char *s);
#define EACH_TOKEN(s, end, op)                                                                     \
    for (const char *s = batch_form[op], *end;                                                     \
         s = batch_next_token(s), end = s + strcspn(s, " "), *s;)

/* Contents of output 0 of an operator's node, as the shape rules see them. */
Known known_of_op(const Graph *g, NodeId n);

#endif
