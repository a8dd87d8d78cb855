/* plan: where every value lives and in which order kernels run.
 *
 * Values between kernels share one arena. Live ranges decide who may share; offsets and sizes are
 * Exprs, so a model with symbolic dimensions is planned once. An output takes over the memory of an
 * input that dies there when every access map allows (in place).
 */
#ifndef TENON_PLAN_H
#define TENON_PLAN_H

#include "graph/placement.h"

Plan *plan_memory(const Graph *g);       /* a graph of scheduled kernels */
void plan_print(Text *t, const Graph *g, const Plan *p);

#endif
