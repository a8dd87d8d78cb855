/* search: the cheapest partition of a graph into groups, exactly.
 *
 * The problem is bare: nodes in topological order, edges that order them, some of which a group may
 * run along, and the price of a group. A state is what is not yet covered; a step takes a group
 * that nothing left comes before. So every prefix is closed under predecessors, no cycle of groups
 * can arise, and each acyclic partition into connected groups is found. Two exact decompositions
 * keep states few: edges that no group can run along connect nothing, and what is not connected is
 * solved by itself. Bounds prune, equal states are solved once. Where a limit is met, groups are
 * merged pair by pair, and the answer says that it is not exact; pieces are solved from the
 * smallest on, so that one which does not end spoils no other.
 *
 * Prices are kept in whole picoseconds, so sums are exact and no order of adding matters. The
 * result does not depend on how nodes are numbered beyond ties, which fall to fewer groups, then to
 * the lowest numbers. doc/fusion.md has the proof.
 */
#ifndef TENON_FUSE_SEARCH_H
#define TENON_FUSE_SEARCH_H

#include "base/base.h"

typedef struct {
    uint32_t from, to;
    bool fusable;
} SearchEdge; /* from < to */

typedef struct {
    uint32_t n; /* nodes, numbered so that edges go upwards */
    const SearchEdge *edge;
    uint32_t nedge;
    uint32_t most; /* nodes of a group, at most; >= 1 */
    /* Can a group that holds these nodes [nnode, ascending] exist? Once no, no for all that hold
     * more. */
    bool (*may)(void *user, const uint32_t *node, uint32_t nnode);
    /* Seconds of the group (above 1,000: 1,000); INFINITY: it is none, which one node is never.
     * Depends on the nodes alone. Asked once for a set. */
    double (*price)(void *user, const uint32_t *node, uint32_t nnode);
    /* [n]: a part of the price of whatever group a node is in, which no group takes away (its
     * arithmetic); they add up. NULL: 0 */
    const double *least;
    double start; /* that every group costs beside its nodes' least */
    void *user;
    uint64_t most_states; /* limits of the exact search: states, … */
    uint64_t most_steps;  /* … sets that are taken into account, … */
    /* … and what `price` says that it has spent, in units of the caller's; NULL: nothing */
    const uint64_t *spent;
    uint64_t most_spent;
    /* without the second decomposition; without bounds: the same answer, later */
    bool whole, blind;
} SearchProblem;

typedef struct {
    uint32_t *group; /* [n]: from 1, in an order in which groups can run */
    uint32_t ngroup;
    /* of the partition; no partition takes less than bound. Equal: exact */
    double seconds, bound;
    /* false: a limit was met, and somewhere a merged partition stands here */
    bool exact;
    uint64_t states, steps, priced; /* solved, taken into account, groups whose price was asked */
} SearchResult;

/* Arena  of the result; what the search needs is freed. Cost  from milliseconds to the limit of
 * states. */
SearchResult search_partition(const SearchProblem *p, Arena *a);

#endif
