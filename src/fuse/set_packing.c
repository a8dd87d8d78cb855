/* set_packing: branch and bound over the items that share groups.
 *
 * Items that share groups, directly or through others, form a cluster, which is solved by itself.
 * Its items are tried by falling gain, each taken if its groups are free, or left out, so the first
 * choice found is the greedy one. A branch ends where its gain, and the best share of an item in
 * each group that is still free, cannot beat the best choice so far. Of a choice that closes cycles
 * the items are taken again by falling gain, without those that close one.
 */
#include "fuse/set_packing.h"
#include "fuse/sets.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* last: the last item met that uses it; share: the best share of an item's gain, in the bound
 * `stamp`; taken: some chosen item uses it. */
typedef struct {
    uint32_t last;
    int64_t share;
    uint64_t stamp;
    bool taken;
} PackingGroup;

typedef struct {
    const PackingProblem *p;
    Arena *arena;
    PackingResult result;
    uint32_t *root;      /* [n]: union-find: clusters of items */
    PackingGroup *group; /* [ngroup] */
    uint64_t stamp;      /* bounds computed so far */
} PackingSearch;

/* ---- one cluster ----------------------------------------------------------------------------- */

/* Items by falling gain, then by their first groups, then by number. */
static int
compare_gains(const void *x, const void *y, void *user)
{
    const PackingProblem *p = user;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t first[] = { p->group[p->first[a]], p->group[p->first[b]] };

    if (p->gain[a] != p->gain[b])
        return p->gain[a] > p->gain[b] ? -1 : 1;
    return first[0] != first[1] ? (first[0] < first[1] ? -1 : 1) : (a > b) - (a < b);
}

/* Are the item's groups unused? */
static bool
is_open(const PackingSearch *k, uint32_t item)
{
    const PackingProblem *p = k->p;

    for (uint32_t g = p->first[item]; g < p->first[item + 1]; g++)
        if (k->group[p->group[g]].taken)
            return false;
    return true;
}

static void
choose(PackingSearch *k, uint32_t item, bool taken)
{
    k->result.chosen[item] = taken;
    for (uint32_t g = k->p->first[item]; g < k->p->first[item + 1]; g++)
        k->group[k->p->group[g]].taken = taken;
}

/* An upper bound of what items [n] add to the chosen: a group contributes at most the best share of
 * an item that uses it. */
static int64_t
bound_of(PackingSearch *k, const uint32_t *item, uint32_t n)
{
    const PackingProblem *p = k->p;
    int64_t sum = 0;

    k->stamp++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = p->first[item[i]], end = p->first[item[i] + 1];
        int64_t own = (p->gain[item[i]] + end - first - 1) / (end - first);
        for (uint32_t g = first; g < end && is_open(k, item[i]); g++) {
            PackingGroup *group = &k->group[p->group[g]];
            group->share = group->stamp == k->stamp ? group->share : 0;
            group->stamp = k->stamp;
            sum += own > group->share ? own - group->share : 0;
            group->share = own > group->share ? own : group->share;
        }
    }
    return sum;
}

/* Chooses among the items [n] of a cluster, by falling gain. Returns an upper bound: the gain of
 * the choice, unless the limit was met. */
static int64_t
solve_cluster(PackingSearch *k, const uint32_t *item, uint32_t n)
{
    PackingResult *r = &k->result;
    Arena *a = arena_child(k->arena);
    uint32_t *taken = NEW_ARRAY(a, uint32_t, n), *best = NEW_ARRAY(a, uint32_t, n);
    uint32_t ntaken = 0, nbest = NONE, at = 0;
    uint64_t limit = r->steps + k->p->most_steps;
    int64_t gain = 0, least = -1, bound;

    for (uint32_t i = 0; i < n; i++)
        choose(k, item[i], false);
    bound = bound_of(k, item, n);
    for (bool more = true; more;) {
        for (; at < n; at++) {
            if (least >= 0) { /* is there a better choice? of equal ones that of fewer items */
                int64_t most = gain + bound_of(k, item + at, n - at);
                r->steps += n - at;
                if (most < least || (most == least && ntaken + (gain < least) >= nbest))
                    break;
            }
            if (!is_open(k, item[at]))
                continue;
            choose(k, item[at], true);
            gain += k->p->gain[item[at]];
            taken[ntaken++] = at;
        }
        if (gain > least || (gain == least && ntaken < nbest)) {
            least = gain;
            nbest = ntaken;
            memcpy(best, taken, ntaken * sizeof *best);
        }
        more = ntaken > 0 && r->steps <= limit;
        if (more) {
            at = taken[--ntaken];
            choose(k, item[at], false);
            gain -= k->p->gain[item[at++]];
        }
        arena_poll(a);
    }
    bound = ntaken ? bound : least;
    while (ntaken > 0)
        choose(k, item[taken[--ntaken]], false);
    for (uint32_t i = 0; i < nbest; i++)
        choose(k, item[best[i]], true);
    arena_free(a);
    return bound;
}

/* ---- cycles ---------------------------------------------------------------------------------- */

static int
compare_numbers(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return (a > b) - (a < b);
}

static bool
may(PackingSearch *k, const uint32_t *item, uint32_t n)
{
    uint32_t *all = arena_copy(k->arena, item, n * sizeof *all);

    if (n)
        qsort(all, n, sizeof *all, compare_numbers);
    return k->p->may(k->p->user, all, n);
}

/* Leaves out items [n] that close a cycle with those of more gain. Bisection finds the next one. */
static void
leave_out(PackingSearch *k, uint32_t *item, uint32_t n)
{
    uint32_t kept = 0;

    qsort_r(item, n, sizeof *item, compare_gains, (void *)(uintptr_t)k->p);
    while (!may(k, item, n)) {
        uint32_t no = n;
        while (no - kept > 1) {
            uint32_t half = kept + (no - kept) / 2;
            if (may(k, item, half))
                kept = half;
            else
                no = half;
        }
        choose(k, item[kept], false);
        memmove(item + kept, item + no, (n - no) * sizeof *item);
        n--;
        k->result.cycles++;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int
compare_clusters(const void *x, const void *y, void *user)
{
    PackingSearch *k = user;
    uint32_t a = sets_root(k->root, *(const uint32_t *)x),
             b = sets_root(k->root, *(const uint32_t *)y);

    return (a > b) - (a < b);
}

/* Items that use one group are in one cluster. */
static void
find_clusters(PackingSearch *k)
{
    const PackingProblem *p = k->p;

    for (uint32_t g = 0; g < p->ngroup; g++)
        k->group[g].last = NONE;
    for (uint32_t i = 0; i < p->n; i++)
        k->root[i] = i;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t g = p->first[i]; g < p->first[i + 1]; g++) {
            uint32_t *other = &k->group[p->group[g]].last;
            if (*other != NONE)
                sets_unite(k->root, *other, i);
            *other = i;
        }
}

static void
solve_clusters(PackingSearch *k, uint32_t *item)
{
    const PackingProblem *p = k->p;

    for (uint32_t i = 0; i < p->n; i++)
        item[i] = i;
    qsort_r(item, p->n, sizeof *item, compare_clusters, k);
    for (uint32_t i = 0, n; i < p->n; i += n) {
        for (n = 1; i + n < p->n && sets_root(k->root, item[i + n]) == sets_root(k->root, item[i]);)
            n++;
        qsort_r(item + i, n, sizeof *item, compare_gains, (void *)(uintptr_t)p);
        k->result.bound += solve_cluster(k, item + i, n);
        k->result.rivals += n > 1 ? n : 0;
    }
}

PackingResult
packing_best(const PackingProblem *p, Arena *a)
{
    Arena *scratch = arena_child(a);
    PackingSearch k = { .p = p,
                        .arena = scratch,
                        .result.chosen = NEW_ARRAY(a, bool, p->n + 1),
                        .root = NEW_ARRAY(scratch, uint32_t, p->n + 1),
                        .group = NEW_ARRAY(scratch, PackingGroup, p->ngroup + 1) };
    uint32_t *item = NEW_ARRAY(scratch, uint32_t, p->n + 1), n = 0;
    PackingResult *r = &k.result;

    find_clusters(&k);
    solve_clusters(&k, item);
    for (uint32_t i = 0; i < p->n; i++)
        if (r->chosen[i])
            item[n++] = i;
    leave_out(&k, item, n);
    for (uint32_t i = 0; i < p->n; i++)
        r->gain += r->chosen[i] ? p->gain[i] : 0;
    r->exact = r->gain == r->bound;
    arena_free(scratch);
    return *r;
}
