/* plan: where every value lives and in which order kernels run.
 *
 * Values between kernels share one arena. Live ranges decide who may share; offsets and sizes are
 * Exprs, so a model with symbolic dimensions is planned once. An output takes over the memory of an
 * input that dies there when every access map allows (in place).
 */
#ifndef TENON_PLAN_H
#define TENON_PLAN_H

#include "graph/graph.h"

typedef enum { PLACE_INPUT, PLACE_OUTPUT, PLACE_WEIGHT, PLACE_ARENA } Place;
typedef struct {
    Place place;
    uint32_t index;              /* INPUT, OUTPUT: which */
    const Expr *offset;          /* WEIGHT, ARENA: bytes, multiple of 64 */
    const Expr *bytes;
    bool in_place;
} Placement;

typedef struct {
    Placement *value;            /* [g->value.n] */
    const Expr *arena_bytes;
    int64_t weights_bytes;
    VEC(ValueId) weight;         /* constants that some kernel reads, in the order of their offsets */
    /* Outputs that are an input or a constant itself, or another output: copied at the end. */
    VEC(struct { ValueId from; uint32_t output; }) copy;
} Plan;

Plan *plan_memory(const Graph *g);       /* a graph of scheduled kernels */
void plan_print(Text *t, const Graph *g, const Plan *p);

#endif
