/* placement: where every value of a graph of kernels is stored. The pass `plan` decides it and
 * `emit` prints it.
 *
 * Each graph has its own plan, over the symbols that are known when it begins. If the size of an
 * output follows from these symbols, it is written where the caller says; otherwise it is a block
 * that the caller takes over. The memory of a graph that a node runs is part of the caller's if its
 * size is known when the caller begins; otherwise it is a block too.
 */
#ifndef TENON_PLACEMENT_H
#define TENON_PLACEMENT_H

#include "graph/graph.h"

typedef enum {
    PLACE_INPUT,
    PLACE_OUTPUT,
    PLACE_WEIGHT,
    PLACE_ARENA,
    /* allocated during the run; shared by values whose live ranges do not overlap */
    PLACE_BLOCK,
    PLACE_TABLE, /* a constant that holds addresses: in the data of the host program */
} Place;
typedef struct {
    Place place;
    /* INPUT, OUTPUT: its number; BLOCK: its number in the graph; TABLE: its number in the model */
    uint32_t index;
    /* WEIGHT, ARENA: in bytes, a multiple of 64 unless it is within another value; OUTPUT: in bytes
     * from its begin, NULL: it is the output */
    const Expr *offset;
    const Expr *bytes; /* ARENA: upper bound, over symbols known at the beginning */
    bool in_place;
} Placement;

/* Memory of a node that runs graphs, apart from its values. */
typedef struct {
    /* offset of the memory of its graphs; NULL: a block of its own */
    const Expr *arena;
    /* LOOP: [ncarried] offset of a carried value's second buffer; NULL: blocks */
    const Expr **other;
} NodeMemory;

typedef struct Plan {
    const Graph *graph;
    Placement *value; /* [graph->value.n] */
    NodeMemory *node; /* [graph->node.n] */
    /* [graph->output.n]: its size is known only afterwards: a block that the caller takes over */
    bool *made;
    const Expr *arena_bytes;
    uint32_t nblock;
    /* Outputs that are an input, a constant or another output: copied at the end. */
    VEC(struct {
        ValueId from;
        uint32_t output;
    })
    copy;
} Plan;

typedef struct {
    const Value *value;
    int64_t offset;
} PlacedWeight;

/* All graphs of a model; the first is the model. */
typedef struct {
    VEC(Plan *) plan;
    Map by_graph; /* Graph to Plan */
    int64_t weights_bytes;
    /* constants that kernels read, by increasing offset */
    VEC(PlacedWeight) weight;
    VEC(const Value *) table; /* constants of strings */
} ModelPlan;

static inline Plan *
plan_of(const ModelPlan *m, const Graph *g)
{
    uint64_t found = 0;
    map_get(&m->by_graph, MAP_PTR(g), &found);
    return (Plan *)(uintptr_t)found;
}

#endif
