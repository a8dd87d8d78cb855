/* set_packing: branch and bound over the items that share groups.
 *
 * Items that share groups, directly or through others, form a cluster, which is solved by itself.
 * Its items are tried by falling gain, each taken if its groups are free, or left out, so the first
 * choice found is the greedy one. A branch ends where its gain, and the best share of an item in
 * each group that is still free, cannot beat the best choice so far. All items of a cycle but one
 * may be taken.
 */
#include "fuse/set_packing.h"
#include "fuse/sets.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct {
    uint32_t first, n;
} CycleSet; /* its items in PackingSearch.member */

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
    uint32_t *root; /* [n]: union-find: clusters of items */
    int64_t *bound; /* [n]: by root: upper bound of the cluster's gain */
    bool *banned;   /* [n]: dropped for good */
    VEC(CycleSet) cycle;
    VEC(uint32_t) member;
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

static bool
is_in(const PackingSearch *k, const CycleSet *c, uint32_t item)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (k->member.at[c->first + i] == item)
            return true;
    return false;
}

/* Can an item be added to the chosen: its groups unused, and no cycle closed? */
static bool
is_open(const PackingSearch *k, uint32_t item)
{
    const PackingProblem *p = k->p;

    for (uint32_t g = p->first[item]; g < p->first[item + 1]; g++)
        if (k->group[p->group[g]].taken)
            return false;
    for (uint32_t c = 0; c < k->cycle.n; c++) {
        uint32_t left = k->cycle.at[c].n;
        for (uint32_t i = 0; i < k->cycle.at[c].n; i++)
            left -= k->result.chosen[k->member.at[k->cycle.at[c].first + i]];
        if (left == 1 && is_in(k, &k->cycle.at[c], item))
            return false;
    }
    return !k->banned[item];
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

static void
solve(PackingSearch *k, uint32_t *item, uint32_t n)
{
    int64_t *bound = &k->bound[sets_root(k->root, item[0])];
    bool whole = true; /* with an item dropped for good it is no bound */

    qsort_r(item, n, sizeof *item, compare_gains, (void *)(uintptr_t)k->p);
    int64_t most = solve_cluster(k, item, n);
    for (uint32_t i = 0; i < n; i++)
        whole &= !k->banned[item[i]];
    *bound = whole && most < *bound ? most : *bound;
}

/* ---- cycles ---------------------------------------------------------------------------------- */

static int
compare_numbers(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return (a > b) - (a < b);
}

/* Are the first n items allowed together with the cycle so far? */
static bool
may(PackingSearch *k, const uint32_t *item, uint32_t n, const uint32_t *cycle, uint32_t ncycle)
{
    uint32_t *all = NEW_ARRAY(k->arena, uint32_t, n + ncycle + 1);

    memcpy(all, item, n * sizeof *all);
    memcpy(all + n, cycle, ncycle * sizeof *all);
    qsort(all, n + ncycle, sizeof *all, compare_numbers);
    return k->p->may(k->p->user, all, n + ncycle);
}

/* A smallest forbidden subset of items [n], into cycle. Bisection finds the shortest forbidden
 * prefix; its last item belongs to the cycle, and the search goes on before it. */
static uint32_t
find_cycle(PackingSearch *k, const uint32_t *item, uint32_t n, uint32_t *cycle)
{
    uint32_t ncycle = 0;

    while (may(k, item, 0, cycle, ncycle)) {
        uint32_t yes = 0, no = n;
        while (no - yes > 1) {
            uint32_t half = yes + (no - yes) / 2;
            if (may(k, item, half, cycle, ncycle))
                yes = half;
            else
                no = half;
        }
        cycle[ncycle++] = item[n = no - 1];
    }
    return ncycle;
}

/* Merges two clusters; the bound is the sum of theirs. */
static void
unite(PackingSearch *k, uint32_t x, uint32_t y)
{
    int64_t sum = k->bound[sets_root(k->root, x)] + k->bound[sets_root(k->root, y)];

    if (sets_unite(k->root, x, y))
        k->bound[sets_root(k->root, x)] = sum;
}

/* Adds a cycle and solves its cluster again; beyond the limit of cycles, drops its item of least
 * gain. */
static void
avoid(PackingSearch *k, const uint32_t *cycle, uint32_t n)
{
    const PackingProblem *p = k->p;
    VEC(uint32_t) item = { 0 };
    uint32_t least = cycle[0];

    if (k->cycle.n < p->most_cycles) {
        VEC_PUSH(k->arena, &k->cycle, ((CycleSet){ k->member.n, n }));
        for (uint32_t i = 0; i < n; i++) {
            VEC_PUSH(k->arena, &k->member, cycle[i]);
            unite(k, cycle[0], cycle[i]);
        }
    } else {
        for (uint32_t i = 1; i < n; i++)
            least = compare_gains(&cycle[i], &least, (void *)(uintptr_t)p) > 0 ? cycle[i] : least;
        k->banned[least] = true;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (sets_root(k->root, i) == sets_root(k->root, least))
            VEC_PUSH(k->arena, &item, i);
    solve(k, item.at, item.n);
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

    for (uint32_t i = 0; i < p->n; i++) {
        item[i] = i;
        k->bound[i] = INT64_MAX;
    }
    qsort_r(item, p->n, sizeof *item, compare_clusters, k);
    for (uint32_t i = 0, n; i < p->n; i += n) {
        for (n = 1; i + n < p->n && sets_root(k->root, item[i + n]) == sets_root(k->root, item[i]);)
            n++;
        solve(k, item + i, n);
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
                        .bound = NEW_ARRAY(scratch, int64_t, p->n + 1),
                        .banned = NEW_ARRAY(scratch, bool, p->n + 1),
                        .group = NEW_ARRAY(scratch, PackingGroup, p->ngroup + 1) };
    uint32_t *item = NEW_ARRAY(scratch, uint32_t, p->n + 1),
             *cycle = NEW_ARRAY(scratch, uint32_t, p->n + 1), n;
    PackingResult *r = &k.result;

    find_clusters(&k);
    solve_clusters(&k, item);
    for (;;) {
        n = 0;
        for (uint32_t i = 0; i < p->n; i++)
            if (r->chosen[i])
                item[n++] = i;
        if (p->may(p->user, item, n))
            break;
        avoid(&k, cycle, find_cycle(&k, item, n, cycle));
        r->cycles++;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        r->gain += r->chosen[i] ? p->gain[i] : 0;
        r->bound += sets_root(k.root, i) == i ? k.bound[i] : 0;
    }
    r->exact = r->gain == r->bound;
    arena_free(scratch);
    return *r;
}
