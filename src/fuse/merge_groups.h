/* merge_groups: candidates for merging groups of a plan (candidates.c), and the choice among them
 * (merge_groups.c). */
#ifndef TENON_FUSE_MERGE_GROUPS_H
#define TENON_FUSE_MERGE_GROUPS_H

#include "fuse/order.h"

/* A kernel to be priced, and the contents of its inputs where known. kernel NULL: there is none. */
typedef struct {
    const Kernel *kernel;
    const void *const *data;
} KernelQuery;

/* Groups that may be merged. */
typedef struct {
    uint32_t n;
    /* a node of each, in dataflow order */
    NodeId member[ORDER_MOST_MERGED];
    NodeId group[ORDER_MOST_MERGED];
    /* contraction, rows, contraction: the last of the rows, if it is elementwise and only the
     * second contraction reads it, which could then inline it; else 0 */
    NodeId last;
    ValueId between; /* for this value the stages share `depth` axes */
    uint32_t depth;  /* 0: as many as they can */
    bool side_by_side;
    uint32_t next; /* the previous candidate with the same last group, plus 1; 0: none */
    /* the candidate of the same groups in another way, plus 1: this one is priced if that does not
     * pay; 0: none */
    uint32_t instead;

    /* its kernels are made; its price is queried; its price is known */
    bool made, asked, known;
    KernelQuery whole, within; /* as one kernel; and that with `last` inlined */
    double merged, separate;   /* [seconds], negative: not known */
    bool inner;                /* `within` is faster */
    /* [picoseconds], with FusePrice.kernel for each kernel less; 0 or less: it does not pay */
    int64_t gain;
    bool taken;
} MergeCandidate;

typedef struct {
    const Graph *g;
    FusePlan *plan;
    Fusion *f;
    GroupOrder order;     /* the plan's groups */
    NodeId *node, *stage; /* [node.n + 1]: scratch: nodes of a group, and its stages */
    VEC(MergeCandidate) found;
    /* [node.n]: by group: the newest candidate that ends in it, plus 1 */
    uint32_t *newest;
    /* the plan composed with each candidate's `last` inlined */
    const Fusion *within;
    /* [node.n]: by group: its own kernel, once made */
    KernelQuery *own;
    /* [node.n]: by group: the candidates that contain it and pay */
    VEC(uint32_t) * paying;
    const FusePrice *price;
    NodeId request[2]; /* groups that the user wants merged; 0: none */
} GroupMerge;

/* The nodes of these groups into j->node, and those that `composed` does not inline into j->host;
 * the number of each. */
typedef struct {
    uint32_t nodes, stages;
} MergeCounts;
MergeCounts merge_nodes(GroupMerge *j, const Fusion *composed, const NodeId *group, uint32_t n);
/* All candidates into j->found. */
void merge_candidates(GroupMerge *j);

#endif
