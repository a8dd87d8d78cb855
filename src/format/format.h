/* format: how constants lie in memory. A schedule reads a constant in the order that suits it; here the constants of
 * the graph get those formats. */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H
#include "graph/graph.h"
/* The formats that kernel node n wants its inputs in, [nin]; NULL where plain, or where it is no constant. */
typedef const Format *const *FormatsWanted(void *user, NodeId n);
/* Sets Value.format of g's constants. A constant that two kernels want in different formats is doubled as a value; its
 * contents are not. */
void format_constants(Graph *g, FormatsWanted *wanted, void *user);
#endif
