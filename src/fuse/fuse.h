/* fuse: which nests become one kernel.
 *
 * A FusePlan says it, whoever made it; doc/fusion.md has the rules of the greedy one. fuse_apply
 * carries any legal plan out: views and elementwise producers are put into their consumers' accesses
 * (nest_inline), the rest become parts of one kernel that share outer axes. Graphs of nests in, graphs
 * of kernels out: every node is in exactly one group.
 */
#ifndef TENON_FUSE_H
#define TENON_FUSE_H

#include "graph/graph.h"
#include "machine/machine.h"

typedef struct {
    uint32_t *group;         /* [g->node.n]: group of each node; groups are numbered from 1 in topological order */
    uint32_t ngroup;
    bool *copied;            /* [g->node.n]: computed inside each consumer instead (views, cheap producers) */
    bool *inlined;           /* [g->node.n]: of what is in a group: computed where it is read, so it is no part of the
                              * kernel; others are parts, whatever that costs. NULL: the rules of the greedy plan say
                              * which, group by group */
    const char **why;        /* [g->node.n]: one line on the decision, for the dump */
} FusePlan;

FusePlan fuse_none(const Graph *g, Arena *a);        /* every node alone: the baseline */
FusePlan fuse_greedy(const Graph *g, Arena *a, const Machine *m);
/* The seconds that a kernel's best schedule takes; negative: none is known. constant [k->nin]: which inputs are known now. */
typedef struct { double (*seconds)(void *user, const Kernel *k, const bool *constant); void *user; } FusePrice;
/* Groups of a plan joined where the joint kernel takes less time than its pieces: products with the rows between them, a
 * window with the product that reads it. */
void fuse_join(const Graph *g, FusePlan *p, const FusePrice *price);
/* All of these nodes one group, wise or not: how tests reach every way of sharing a kernel. */
FusePlan fuse_together(const Graph *g, Arena *a, const NodeId *node, uint32_t n);
/* Acyclic quotient, inlinable copies, shared axes found. NULL text if legal, else why not. */
const char *fuse_illegal(const Graph *g, const FusePlan *p);
/* The plan carried out; NULL, reported as internal, if it is not legal. */
Graph *fuse_apply(const Graph *g, const FusePlan *p);
/* g with its nests fused by `fuse`, which gets graphs of nests alone: the nests between two nodes that are
 * none, where as many as can stand together do. What is in the regions of nodes is left as it is. */
Graph *fuse_between(const Graph *g, Graph *(*fuse)(void *user, const Graph *nests), void *user);

#endif
