/* placement: where every value of a graph of kernels lives. What plan decides and emit prints. */
#ifndef TENON_PLACEMENT_H
#define TENON_PLACEMENT_H

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

#endif
