/* plan: where every value lives and in which order kernels run.
 *
 * Values between kernels share one arena. Live ranges decide who may share; offsets and sizes are
 * Exprs, so a model with symbolic dimensions is planned once. An output takes over the memory of an
 * input that dies there when every access map allows (in place).
 *
 * What is joined to be an output is made in its place there, and what is there already is not
 * copied. Values that lie within others share one block with them, and are not written over.
 *
 * A size that data define as the graph runs is planned at its upper bound, where that follows from
 * what is known at the beginning and is not far off: a bound of one dimension is, a product of
 * bounds is not, nor is a large number that stands for itself.
 * Else the value gets a block when it is made.
 */
#ifndef TENON_PLAN_H
#define TENON_PLAN_H

#include "graph/placement.h"

/* a graph of scheduled kernels, and all that it runs */
ModelPlan *plan_memory(const Graph *g);
void plan_print(Text *t, const ModelPlan *p);

#endif
