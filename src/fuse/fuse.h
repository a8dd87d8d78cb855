/* fuse: which nests become one kernel.
 *
 * A FusePlan says it, whoever made it, read by read; doc/fusion.md has the rules of the greedy one. fuse_apply
 * carries out what the plan says, or says which read cannot be so, and why: what is inlined or recomputed is put into its
 * readers' accesses (nest_inline), the rest become parts of one kernel that share outer axes. Graphs of nests in, graphs
 * of kernels out: every node is in exactly one group, or recomputed by all who read it.
 */
#ifndef TENON_FUSE_H
#define TENON_FUSE_H

#include "graph/graph.h"
#include "machine/machine.h"

/* How a value comes to one of its readers. */
typedef enum {
    EDGE_STORE,              /* through memory: the reader is in another group */
    EDGE_SCRATCH,            /* both are parts of one kernel, which keeps it for a trip of the axes that they share */
    EDGE_INLINE,             /* it is computed where it is read, by this reader alone: its node is no part of a kernel */
    EDGE_RECOMPUTE,          /* it is computed where it is read, whoever else reads it and however that gets it */
} EdgeKind;
typedef struct {
    EdgeKind kind;
    uint32_t depth;          /* of EDGE_SCRATCH: so many outer axes are shared, at least; the kernel shares no more than the
                              * least of its edges say. 0: as many as can be */
} FuseEdge;

typedef struct {
    uint32_t *group;         /* [g->node.n]: group of each node; groups are numbered from 1 in topological order. 0: all who
                              * read it recompute it */
    uint32_t ngroup;
    FuseEdge *edge;          /* [g->ref.n]: of each read, node->in.first + i */
    const char **why;        /* [g->node.n]: one line on the decision, for the dump */
} FusePlan;

FusePlan fuse_none(const Graph *g, Arena *a);        /* every node alone: the baseline */
/* What `reader` (0: everyone) reads of `maker` comes to it so. */
void fuse_set(const Graph *g, FusePlan *p, NodeId maker, NodeId reader, FuseEdge edge);
FusePlan fuse_greedy(const Graph *g, Arena *a, const Machine *m);
/* Seconds; negative: none are known. constant [nin] of a kernel: which inputs are known now. */
typedef struct {
    double (*joint)(void *user, const Kernel *k, const bool *constant);      /* of a kernel whose arguments lie as they are */
    /* Of kernels one after the other, whose arguments lie as suits them together. */
    double (*apart)(void *user, const Kernel *const *k, const bool *const *constant, uint32_t n);
    void *user;
} FusePrice;
/* Groups of a plan joined where the joint kernel takes less time than its pieces: products with the rows between them, a
 * window with the product that reads it. */
void fuse_join(const Graph *g, FusePlan *p, const FusePrice *price);
/* All of these nodes one group, wise or not: how tests reach every way of sharing a kernel. */
FusePlan fuse_together(const Graph *g, Arena *a, const NodeId *node, uint32_t n);
/* Acyclic quotient, every edge as it is said, shared axes found. NULL text if legal, else why not, by the nodes' names. */
const char *fuse_illegal(const Graph *g, const FusePlan *p);
/* The plan carried out; NULL, reported as internal, if it is not legal. */
Graph *fuse_apply(const Graph *g, const FusePlan *p);
/* g with its nests fused by `fuse`, which gets graphs of nests alone: the nests between two nodes that are
 * none, where as many as can stand together do. What is in the regions of nodes is left as it is. */
Graph *fuse_between(const Graph *g, Graph *(*fuse)(void *user, const Graph *nests), void *user);

#endif
