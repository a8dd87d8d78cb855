/* search: find the cheapest partition of a graph into groups, exactly.
 *
 * The problem has nodes in topological order, edges, some of which a group may contain (fusable),
 * and a price for each group. A state is the set of uncovered nodes; a step takes a group that has
 * no uncovered predecessor. So every prefix is closed under predecessors, groups never form a
 * cycle, and every acyclic partition into connected groups is reached. Two exact decompositions
 * keep states few: edges that no group can contain connect nothing, and components are solved by
 * themselves. Bounds prune; equal states are solved once. Where a limit is met, neighbours are
 * merged pair by pair instead, and the result says that it is not exact; components are solved from
 * the smallest on, so one that meets the limit does not affect the others.
 *
 * Prices are whole picoseconds, so sums are exact in any order. The result does not depend on node
 * numbers beyond ties, which go to fewer groups, then to the lowest numbers. doc/fusion.md has the
 * proof.
 */
#ifndef TENON_FUSE_SEARCH_H
#define TENON_FUSE_SEARCH_H

#include "base/base.h"

typedef struct {
    uint32_t from, to;
    bool fusable;
} SearchEdge; /* from < to */

typedef struct {
    uint32_t n; /* nodes in topological order */
    const SearchEdge *edge;
    uint32_t nedge;
    uint32_t most; /* nodes of a group, at most; >= 1 */
    /* May these nodes [nnode, ascending] be in one group? If not, no superset may. */
    bool (*may)(void *user, const uint32_t *node, uint32_t nnode);
    /* Price of a group [seconds, above 1,000 counts as 1,000]; INFINITY: it is no group, which one
     * node never is. Depends on the nodes alone; called once for a set. */
    double (*price)(void *user, const uint32_t *node, uint32_t nnode);
    /* [n]: what a node adds to the price of any group at least (its arithmetic). NULL: 0 */
    const double *least;
    double start; /* what every group costs beside that */
    void *user;
    uint64_t most_states; /* limits of the exact search: states, */
    uint64_t most_steps;  /* sets considered, */
    /* and the caller's own count of effort; NULL: not limited */
    const uint64_t *spent;
    uint64_t most_spent;
} SearchProblem;

typedef struct {
    uint32_t *group; /* [n]: from 1 to ngroup, in any order */
    uint32_t ngroup;
    /* of the partition, and a lower bound for all. Equal: exact */
    double seconds, bound;
    /* false: a limit was met, and some component has a merged partition */
    bool exact;
    uint64_t states, steps, priced; /* states solved, sets considered, groups priced */
} SearchResult;

/* Arena  of the result; scratch is freed. Cost  milliseconds up to the limit of states. */
SearchResult search_partition(const SearchProblem *p, Arena *a);

#endif
