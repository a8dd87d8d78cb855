/* order: groups of nodes in an order in which none reads a later one, kept while groups become
 * one. */
#ifndef TENON_FUSE_ORDER_H
#define TENON_FUSE_ORDER_H

#include "fuse/internal.h"

enum { ORDER_MOST_JOINED = 8 }; /* groups that become one at a time */

/* A group is named by its first node. */
typedef struct {
    const Fusion *f;
    NodeId *group; /* [node.n]: of each node; 0: it is in none */
    /* [node.n]: the next node of its group, in the graph's order; 0: the last */
    NodeId *next;
    NodeId *order; /* groups so that none reads a later one, 0 where one was … */
    uint32_t *at;  /* [node.n]: … and where each stands there */
    /* [node.n]: scratch: groups that a search has seen, and has yet to follow */
    NodeId *reached, *stack;
    bool *seen; /* [node.n]: by group: is it among them? */
} Order;

/* number [node.n]: groups from 1 in topological order, 0 for nodes that are in none. */
Order order_begin(const Fusion *f, Arena *a, const uint32_t *number);
/* The nodes of these groups together, in the graph's order, and a 0 behind them; how many. */
uint32_t order_nodes(const Order *o, const NodeId *group, uint32_t n, NodeId *node);
/* May they be one, or would they wait for what waits for them? */
bool order_allows(Order *o, const NodeId *group, uint32_t n);
/* If so, they are one. */
bool order_join(Order *o, const NodeId *group, uint32_t n);

#endif
