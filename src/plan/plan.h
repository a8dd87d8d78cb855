/* plan: the place of every value in memory, and the order of calls.
 *
 * Intermediate tensors share one arena. Live ranges decide which may share; offsets and sizes are
 * Exprs, so a model with symbolic dimensions is planned once. An output takes the memory of an
 * input that dies there if every access map allows it (in place).
 *
 * A part of a join that is an output is made in its place in that output, and a part that is there
 * already is not copied. Values within others share one block with them, and are not written over.
 *
 * A size that data decide at run time is planned at its upper bound, if the bound is known at the
 * beginning and close: the bound of one dimension is, a product of bounds is not, nor is a large
 * constant. Otherwise the value gets a block when it is made.
 */
#ifndef TENON_PLAN_H
#define TENON_PLAN_H

#include "graph/placement.h"

/* a graph of scheduled kernels, and all graphs that it runs */
ModelPlan *plan_memory(const Graph *g);
void plan_print(Text *t, const ModelPlan *p);

#endif
