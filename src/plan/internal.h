/* What the files of plan share: blocks of memory with live ranges. */
#ifndef TENON_PLAN_INTERNAL_H
#define TENON_PLAN_INTERNAL_H

#include "plan/plan.h"

#define PLAN_ALIGN 64

/* one range of arena memory; values that replace each other share it */
typedef struct {
    const Expr *bytes;
    NodeId first, last; /* alive from the start of `first` to the end of `last` */
    const Expr *offset; /* filled by plan_place */
} PlanBlock;

typedef struct {
    int64_t size;
    NodeId first, last;
    int64_t offset;
} PackItem;

/* Give each item an offset such that no two items that are live at once overlap; returns the total.
 * Sizes are multiples of PLAN_ALIGN, so offsets are too. */
int64_t plan_pack(Arena *scratch, PackItem *item, uint32_t n);

/* Offsets of all blocks; returns the arena's size. */
const Expr *plan_place(Ctx *c, Arena *scratch, PlanBlock *block, uint32_t n);

/* May output `out` of node n be written over the memory of its input `in`, which dies there? */
bool plan_in_place(const Graph *g, Arena *scratch, const Node *n, uint32_t out, ValueId in);

#endif
