/* placement: where every value of a graph of kernels lives. What plan decides and emit prints.
 *
 * Each graph has a plan of its own, over the symbols that are known when it begins. What it gives
 * is written where the caller says, where the size follows from these symbols; else it is made in a
 * block that the caller takes over. The memory of a graph that a node runs is part of the caller's
 * wherever its size is known when the caller begins; else it is a block as well.
 */
#ifndef TENON_PLACEMENT_H
#define TENON_PLACEMENT_H

#include "graph/graph.h"

typedef enum {
    PLACE_INPUT,
    PLACE_OUTPUT,
    PLACE_WEIGHT,
    PLACE_ARENA,
    /* memory taken as the graph runs; what lives at other times may share it */
    PLACE_BLOCK,
    PLACE_TABLE, /* a constant that holds addresses: data of the host program */
} Place;
typedef struct {
    Place place;
    /* INPUT, OUTPUT: which; BLOCK: its number in the graph; TABLE: in the model */
    uint32_t index;
    /* WEIGHT, ARENA: bytes, multiple of 64 but for what lies within another value; OUTPUT: bytes
     * into it, NULL: it is the output */
    const Expr *offset;
    const Expr *bytes; /* ARENA: at most, over symbols known at the beginning */
    bool in_place;
} Placement;

/* What a node that runs graphs needs beside its values. */
typedef struct {
    /* offset of the memory of what it runs; NULL: a block of its own */
    const Expr *arena;
    /* LOOP: [ncarried] offset of a second buffer of a carried value; NULL: blocks */
    const Expr **other;
} NodeMemory;

typedef struct Plan {
    const Graph *graph;
    Placement *value; /* [graph->value.n] */
    NodeMemory *node; /* [graph->node.n] */
    /* [graph->output.n]: its size is known only afterwards: a block for the caller */
    bool *made;
    const Expr *arena_bytes;
    uint32_t nblock;
    /* Outputs that are an input or a constant itself, or another output: copied at the end. */
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

/* All graphs of a model; the first is the model's own. */
typedef struct {
    VEC(Plan *) plan;
    Map by_graph; /* Graph to Plan */
    int64_t weights_bytes;
    /* constants that some kernel reads, in the order of their offsets */
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
