/* Shared by the files that print, parse and verify graphs. */
#ifndef TENON_GRAPH_INTERNAL_H
#define TENON_GRAPH_INTERNAL_H

#include "graph/graph.h"

enum { MAX_INLINE = 64 }; /* elements of a constant that is printed inline */

/* One element as a number that parses back to the same bits, and back. */
void element_print(Text *t, DType type, const void *at);
bool element_parse(Parse *p, DType type, void *at);

/* graph_verify with another class of diagnostics: MODEL for a graph that a user wrote. */
bool graph_verify_as(const Graph *g, DiagClass class);

/* Adds a node whose callee is filled in; its values are in[] and out[]. */
NodeId graph_add_node(Graph *g, Node n, uint32_t nin, const ValueId *in, uint32_t nout,
                      const ValueId *out);

/* Runs check the sizes that `said` declares for `name` of `what` and that are not proved. */
void graph_declare(Graph *g, const char *what, const char *name, const Type *is, const Type *said);

/* Parts of the text: `a = e, b = f` after `before`, which ends with a bracket; a == b "why". */
void print_bindings(Ctx *c, Text *t, const char *before, const Binding *bind, uint32_t n);
void print_dims(Text *t, const Type *type);
void print_constraint(Text *t, const Constraint *k);

struct Batch;
/* The walks of a program for many requests (batch.c). */
void batch_print(Ctx *c, Text *t, const struct Batch *b, int indent);
/* How each BatchOp is written: its name, then words and letters of operands; whether a letter, up
 * to `end`, is followed by a mark. */
extern const char *const batch_form[];
bool batch_token_has(const char *token, const char *end, char mark);
const char *batch_next_token(const char *s);
#define EACH_TOKEN(s, end, op)                                                                     \
    for (const char *s = batch_form[op], *end;                                                     \
         s = batch_next_token(s), end = s + strcspn(s, " "), *s;)

/* Contents of output 0 of an operator's node, as shape rules see them. */
Known known_of_op(const Graph *g, NodeId n);

#endif
