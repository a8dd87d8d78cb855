/* order: a topological order of groups, maintained while groups are merged. */
#ifndef TENON_FUSE_ORDER_H
#define TENON_FUSE_ORDER_H

#include "fuse/internal.h"

enum { ORDER_MOST_MERGED = 8 }; /* groups merged at a time, at most */

/* A group is named by its first node. */
typedef struct {
    const Fusion *f;
    NodeId *group; /* [node.n]: of each node; 0: none */
    /* [node.n]: the next node of its group, in the graph's order; 0: the last */
    NodeId *next;
    NodeId *order; /* groups in topological order, 0 for merged ones */
    uint32_t *at;  /* [node.n]: the index of each group in `order` */
    /* [node.n]: scratch: groups that a path search has reached, and has yet to expand */
    NodeId *reached, *stack;
    bool *seen; /* [node.n]: by group: is it reached? */
} GroupOrder;

/* number [node.n]: groups from 1 in topological order, 0 for nodes in none. */
GroupOrder order_begin(const Fusion *f, Arena *a, const uint32_t *number);
/* The nodes of these groups in the graph's order, and a 0 behind them; their number. */
uint32_t order_nodes(const GroupOrder *o, const NodeId *group, uint32_t n, NodeId *node);
/* Can they be merged without forming a cycle? */
bool order_allows(GroupOrder *o, const NodeId *group, uint32_t n);
/* Merges them if they can be. */
bool order_merge(GroupOrder *o, const NodeId *group, uint32_t n);

#endif
