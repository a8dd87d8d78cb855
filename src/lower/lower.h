/* lower: operators to nests. Afterwards no node calls an operator. */
#ifndef TENON_LOWER_H
#define TENON_LOWER_H
#include "graph/graph.h"
/* NULL with diagnostics, one per operator without a meaning */
Graph *lower_nests(const Graph *g);
#endif
