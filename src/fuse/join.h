/* join: groups of a plan that may become one kernel (candidates.c), and those that do (join.c). */
#ifndef TENON_FUSE_JOIN_H
#define TENON_FUSE_JOIN_H

#include "fuse/order.h"

/* What a schedule is asked of: a kernel, and what of its inputs is known. NULL: there is none. */
typedef struct {
    const Kernel *kernel;
    const void *const *data;
} Asked;

/* Groups that may be one. */
typedef struct {
    uint32_t n;
    /* a node of each, in the order in which they feed each other */
    NodeId member[ORDER_MOST_JOINED];
    NodeId group[ORDER_MOST_JOINED];
    /* of product, rows, product the last of the rows, where it is elementwise work that the second
     * product alone reads and may do itself; 0: none is */
    NodeId last;
    ValueId between; /* what lies between may share `depth` axes, … */
    uint32_t depth;  /* … and no more; 0: as many as it can */
    bool side_by_side;
    uint32_t next; /* the one before with the same last group, plus 1; 0: none */
    /* the one that tells whether this one's price is needed, plus 1: the same groups in another
     * way, or more products side by side; 0: it is */
    uint32_t instead;

    /* are there kernels of it; has its price been asked; is it known? */
    bool made, asked, known;
    Asked whole, within;    /* as one kernel; and so with `last` in the second product */
    double together, apart; /* [seconds], negative: there is none */
    bool inner;             /* `within` takes less */
    /* [picoseconds]: by price, and for each kernel less (FusePrice.kernel); not above 0: it does
     * not pay */
    int64_t gain;
    bool taken;
} JoinCandidate;

typedef struct {
    const Graph *g;
    FusePlan *plan;
    Fusion *f;
    Order order;         /* the plan's groups */
    NodeId *node, *host; /* [node.n + 1]: scratch: those of a group, and its hosts */
    VEC(JoinCandidate) found;
    /* [node.n]: by group: the last candidate found that ends in it, plus 1 */
    uint32_t *newest;
    /* the plan composed with each candidate's `last` in its product */
    const Fusion *within;
    /* [node.n]: by group: its kernel as it is, once it is made, … */
    Asked *own;
    /* [node.n]: … and the candidates that want it and are known to pay */
    VEC(uint32_t) * paying;
    const FusePrice *price;
    NodeId wish[2]; /* groups that are to be one, whatever it takes; 0: none are */
    bool all;       /* the price of every candidate is needed */
    /* values of which more products read than all sets are listed of */
    uint32_t unlisted;
} Join;

/* The nodes of these groups in j->node, those that stay if they are composed so in j->host; how
 * many of either. */
typedef struct {
    uint32_t nodes, hosts;
} JoinCounts;
JoinCounts join_nodes(Join *j, const Fusion *composed, const NodeId *group, uint32_t n);
/* All candidates into j->found. */
void join_candidates(Join *j);

#endif
