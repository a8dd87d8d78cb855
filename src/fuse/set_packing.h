/* set_packing: choose the items of largest total gain, where each item uses some groups, exactly.
 *
 * No group may be used twice (weighted set packing), and some sets of items are forbidden although
 * each item alone is allowed: together they close a cycle. Items that share groups are solved
 * together, others by themselves. Cycles are rare: the caller is asked whether the whole choice is
 * allowed; if not, items that close a cycle with those of more gain are left out, and the result
 * says by how much at most it may be beaten.
 *
 * Gains are whole picoseconds, so sums are exact in any order. The result does not depend on the
 * numbers of items and groups beyond ties, which go to fewer items, then to the first.
 * doc/fusion.md, Joining.
 */
#ifndef TENON_FUSE_SET_PACKING_H
#define TENON_FUSE_SET_PACKING_H

#include "base/base.h"

typedef struct {
    uint32_t n, ngroup;
    const int64_t *gain; /* [n]: picoseconds, above 0; their sum fits an int64_t */
    /* item i uses group[first[i] .. first[i + 1]), each once */
    const uint32_t *first, *group;
    /* Are these items [nitem, ascending, no group twice] allowed together? Singletons are; every
     * superset of a forbidden set is forbidden. */
    bool (*may)(void *user, const uint32_t *item, uint32_t nitem);
    void *user;
    uint64_t most_steps; /* limit: items looked at, for those that are solved together */
} PackingProblem;

typedef struct {
    bool *chosen;        /* [n] */
    int64_t gain, bound; /* of the chosen, and an upper bound for all. Equal: exact */
    /* false: the limit was met or there were cycles, and some items were chosen greedily, the
     * largest gain first */
    bool exact;
    /* items that share a group with another; items that would close a cycle */
    uint32_t rivals, cycles;
    uint64_t steps;
} PackingResult;

/* Arena  of the result; scratch is freed. */
PackingResult packing_best(const PackingProblem *p, Arena *a);

#endif
