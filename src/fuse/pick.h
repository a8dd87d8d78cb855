/* pick: of items that each take some groups, those that gain most together, exactly.
 *
 * The problem is bare: what an item gains, which groups it takes, and whether items may be taken
 * together. No group is taken twice (weighted set packing); and items of which each may be alone,
 * and which share no group, may still not be together: they close a circle. Items that share groups
 * are solved together, all others by themselves. Circles are told by the caller, who is asked of
 * what was chosen as a whole: where that may not be, the fewest of its items that may not are
 * looked for, and from then on one of them is left out.
 *
 * Gains are whole picoseconds, so sums are exact and no order of adding matters. The result does
 * not depend on how items and groups are numbered beyond ties, which fall to fewer items, then to
 * the first. doc/fusion.md, Joining.
 */
#ifndef TENON_FUSE_PICK_H
#define TENON_FUSE_PICK_H

#include "base/base.h"

typedef struct {
    uint32_t n, ngroup;
    const int64_t *gain; /* [n]: picoseconds, above 0; a sum of all is an int64_t */
    /* item i takes group[first[i] .. first[i + 1]), each once. The nearer the numbers of groups
     * that items take, the fewer states */
    const uint32_t *first, *group;
    /* May these items [nitem, ascending, no group twice] be taken together? One may; once no, no
     * for all that hold more. */
    bool (*may)(void *user, const uint32_t *item, uint32_t nitem);
    void *user;
    /* limits: of items that are solved together: states that are met, … */
    uint64_t most_steps;
    /* … and circles; behind it the item of a circle that gains least is left out for good */
    uint32_t most_circles;
} PickProblem;

typedef struct {
    bool *chosen;        /* [n] */
    int64_t gain, bound; /* of the chosen; none gain more than bound. Equal: exact */
    /* false: a limit was met, and somewhere stands what is found greedily, the greatest gain
     * first */
    bool exact;
    /* items that take a group that another wants; circles that choices closed */
    uint32_t rivals, circles;
    uint64_t steps;
} PickResult;

/* Arena  of the result; what the search needs is freed. */
PickResult pick_best(const PickProblem *p, Arena *a);

#endif
