/* set_packing: dynamic programming over the groups that later items use.
 *
 * Items that share groups, directly or through others, form a cluster; its items are sorted by
 * their lowest groups and processed once. A state is the usage of each group that a later item uses
 * too; of equal states the best is kept. So a chain of any length has few states, and n groups have
 * at most 2^n. A cycle acts as one more group that all of its items but one may use. A bound
 * prunes states that cannot reach the greedy solution.
 */
#include "fuse/set_packing.h"
#include "fuse/sets.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct {
    uint32_t first, n;
} CycleSet; /* its items in PackingSearch.member */

/* A group while its cluster is solved: its slot in states, the last item that uses it, the best
 * share of an item's gain, and whether the greedy solution uses it. */
typedef struct {
    uint32_t slot, last;
    int64_t share;
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
} PackingSearch;

/* ---- items that are solved together ---------------------------------------------------------- */

/* One use of a resource by an item: a group (room 1) or a cycle (room: its items less one). slot:
 * where states count it; last: no later item uses it. */
typedef struct {
    uint32_t slot, room;
    bool last;
} GroupUse;

typedef struct {
    PackingSearch *k;
    Arena *arena;
    const uint32_t *item; /* [n], sorted by their lowest groups */
    uint32_t n, nslot;
    /* [n + 1]: item i uses take[first[i] .. first[i + 1]) */
    uint32_t *first;
    VEC(GroupUse) take;
    int64_t *rest; /* [n + 1]: upper bound of the gain of items from i on */
} Cluster;

static uint32_t
lowest(const PackingProblem *p, uint32_t item)
{
    uint32_t low = NONE;

    for (uint32_t i = p->first[item]; i < p->first[item + 1]; i++)
        low = p->group[i] < low ? p->group[i] : low;
    return low;
}

/* Items of a cluster by its root, then by their lowest groups, then by number. */
static int
compare_items(const void *x, const void *y, void *user)
{
    PackingSearch *k = user;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t key[][2] = { { sets_root(k->root, a), sets_root(k->root, b) },
                          { lowest(k->p, a), lowest(k->p, b) },
                          { a, b } };

    for (uint32_t i = 0; i < sizeof key / sizeof *key; i++)
        if (key[i][0] != key[i][1])
            return key[i][0] < key[i][1] ? -1 : 1;
    return 0;
}

static bool
is_in(const PackingSearch *k, const CycleSet *c, uint32_t item)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (k->member.at[c->first + i] == item)
            return true;
    return false;
}

/* A free slot, or a new one. */
static uint32_t
slot_take(Cluster *cluster, const uint32_t *left, uint32_t *nleft)
{
    return *nleft ? left[--*nleft] : cluster->nslot++;
}

/* The cycles of this cluster, with their first and last items. */
typedef struct {
    uint32_t cycle, first, last, slot;
} CyclePlace;
typedef VEC(CyclePlace) Places;

static Places
places_of(const Cluster *cluster)
{
    const PackingSearch *k = cluster->k;
    Places out = { 0 };

    for (uint32_t c = 0; c < k->cycle.n; c++) {
        CyclePlace at = { c, NONE, 0, 0 };
        for (uint32_t i = 0; i < cluster->n; i++)
            if (is_in(k, &k->cycle.at[c], cluster->item[i])) {
                at.first = at.first == NONE ? i : at.first;
                at.last = i;
            }
        if (at.first != NONE)
            VEC_PUSH(cluster->arena, &out, at);
    }
    return out;
}

/* Assigns slots to groups for the range from their first to their last item, like registers. */
static void
find_takes(Cluster *cluster)
{
    PackingSearch *k = cluster->k;
    const PackingProblem *p = k->p;
    Places place = places_of(cluster);
    uint32_t nleft = 0, ntake = place.n;

    for (uint32_t i = 0; i < cluster->n; i++)
        for (uint32_t g = p->first[cluster->item[i]]; g < p->first[cluster->item[i] + 1]; g++) {
            k->group[p->group[g]] = (PackingGroup){ .slot = NONE, .last = i };
            ntake++;
        }
    uint32_t *left = NEW_ARRAY(cluster->arena, uint32_t, ntake);
    for (uint32_t i = 0; i < cluster->n; i++) {
        cluster->first[i] = cluster->take.n;
        for (uint32_t g = p->first[cluster->item[i]]; g < p->first[cluster->item[i] + 1]; g++) {
            PackingGroup *group = &k->group[p->group[g]];
            group->slot = group->slot == NONE ? slot_take(cluster, left, &nleft) : group->slot;
            VEC_PUSH(cluster->arena, &cluster->take,
                     ((GroupUse){ group->slot, 1, group->last == i }));
        }
        for (uint32_t c = 0; c < place.n; c++) {
            const CycleSet *cycle = &k->cycle.at[place.at[c].cycle];
            if (!is_in(k, cycle, cluster->item[i]))
                continue;
            if (place.at[c].first == i)
                place.at[c].slot = slot_take(cluster, left, &nleft);
            VEC_PUSH(cluster->arena, &cluster->take,
                     ((GroupUse){ place.at[c].slot, cycle->n - 1, place.at[c].last == i }));
        }
        for (uint32_t t = cluster->first[i]; t < cluster->take.n; t++)
            if (cluster->take.at[t].last)
                left[nleft++] = cluster->take.at[t].slot;
    }
    cluster->first[cluster->n] = cluster->take.n;
}

/* Upper bounds: a group contributes at most the best share of an item that uses it. */
static void
find_bounds(Cluster *cluster)
{
    PackingSearch *k = cluster->k;
    const PackingProblem *p = k->p;

    for (uint32_t i = cluster->n; i-- > 0;) {
        uint32_t item = cluster->item[i], n = p->first[item + 1] - p->first[item];
        int64_t own = (p->gain[item] + n - 1) / n;
        cluster->rest[i] = cluster->rest[i + 1];
        for (uint32_t g = p->first[item]; g < p->first[item + 1]; g++) {
            int64_t *share = &k->group[p->group[g]].share;
            cluster->rest[i] += own > *share ? own - *share : 0;
            *share = own > *share ? own : *share;
        }
    }
}

static bool
fits(const Cluster *cluster, uint32_t i, const uint32_t *used)
{
    for (uint32_t t = cluster->first[i]; t < cluster->first[i + 1]; t++)
        if (used[cluster->take.at[t].slot] >= cluster->take.at[t].room)
            return false;
    return !cluster->k->banned[cluster->item[i]];
}

/* ---- the greatest gain first ----------------------------------------------------------------- */

static int
compare_gains(const void *x, const void *y, void *user)
{
    const PackingProblem *p = user;
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return p->gain[a] != p->gain[b] ? (p->gain[a] > p->gain[b] ? -1 : 1) : (a > b) - (a < b);
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

static int64_t
take_greedily(Cluster *cluster)
{
    PackingSearch *k = cluster->k;
    const PackingProblem *p = k->p;
    uint32_t *item = arena_copy(cluster->arena, cluster->item, cluster->n * sizeof *item);
    int64_t sum = 0;

    qsort_r(item, cluster->n, sizeof *item, compare_gains, (void *)p);
    for (uint32_t i = 0; i < cluster->n; i++)
        k->result.chosen[item[i]] = false;
    for (uint32_t i = 0; i < cluster->n; i++)
        if (is_open(k, item[i])) {
            k->result.chosen[item[i]] = true;
            sum += p->gain[item[i]];
            for (uint32_t g = p->first[item[i]]; g < p->first[item[i] + 1]; g++)
                k->group[p->group[g]].taken = true;
        }
    return sum;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The best choice that leads to a usage: its predecessor, and whether it has the last item. */
typedef struct {
    int64_t gain;
    uint32_t n, before;
    bool with;
} PackingState;

typedef struct {
    Cluster *cluster;
    /* states of all items so far, item by item */
    VEC(PackingState) state;
    /* usage before and after the item: [state][nslot] */
    uint32_t *used[2];
    uint32_t room[2];
    uint32_t *at, nat; /* hash table of states after the item: index plus 1 */
    uint32_t begin;    /* the first state after the item */
} Sweep;

static const uint32_t *
used_of(const Sweep *s, int side, uint32_t number)
{
    return s->used[side] + (size_t)number * s->cluster->nslot;
}

static uint32_t *
place_of(const Sweep *s, const uint32_t *used)
{
    uint32_t n = s->cluster->nslot,
             at = (uint32_t)hash_bytes(used, n * sizeof *used, 0) & (s->nat - 1);

    while (s->at[at] && memcmp(used_of(s, 1, s->at[at] - 1), used, n * sizeof *used))
        at = (at + 1) & (s->nat - 1);
    return &s->at[at];
}

/* Makes room for one more state. */
static void
make_room(Sweep *s)
{
    uint32_t n = s->state.n - s->begin;

    if (n == s->room[1]) {
        s->room[1] = n ? 2 * n : 4;
        uint32_t *grown = arena_alloc_array(
            s->cluster->arena, (size_t)s->room[1] * (s->cluster->nslot + 1), sizeof *grown);
        if (n)
            memcpy(grown, s->used[1], (size_t)n * s->cluster->nslot * sizeof *grown);
        s->used[1] = grown;
    }
    if (2 * n >= s->nat) {
        s->nat = s->nat ? 2 * s->nat : 16;
        s->at = NEW_ARRAY(s->cluster->arena, uint32_t, s->nat);
        for (uint32_t i = 0; i < n; i++)
            *place_of(s, used_of(s, 1, i)) = i + 1;
    }
}

/* Is the gain larger, or equal with fewer items? */
static bool
is_better(const PackingState *a, const PackingState *b)
{
    return a->gain != b->gain ? a->gain > b->gain : a->n < b->n;
}

static void
add_state(Sweep *s, PackingState state, const uint32_t *used)
{
    make_room(s);
    uint32_t *at = place_of(s, used), n = s->state.n - s->begin;
    if (*at) {
        PackingState *known = &s->state.at[s->begin + *at - 1];
        if (is_better(&state, known))
            *known = state;
        return;
    }
    memcpy(s->used[1] + (size_t)n * s->cluster->nslot, used, s->cluster->nslot * sizeof *used);
    *at = n + 1;
    VEC_PUSH(s->cluster->arena, &s->state, state);
}

/* Extends all states by item i, without it and with it. */
static void
step(Sweep *s, uint32_t i, int64_t least, uint32_t *used)
{
    const Cluster *cluster = s->cluster;
    const PackingProblem *p = cluster->k->p;
    uint32_t from = s->begin, n = s->state.n - from;
    uint32_t *old = s->used[0], room = s->room[0];

    s->used[0] = s->used[1], s->room[0] = s->room[1];
    s->used[1] = old, s->room[1] = room;
    s->begin = s->state.n;
    memset(s->at, 0, s->nat * sizeof *s->at);
    for (uint32_t k = 0; k < n; k++)
        for (int with = 1; with >= 0; with--) {
            PackingState next = s->state.at[from + k];
            next = (PackingState){ next.gain + (with ? p->gain[cluster->item[i]] : 0),
                                   next.n + (uint32_t)with, from + k, with };
            if ((with && !fits(cluster, i, used_of(s, 0, k))) ||
                next.gain + cluster->rest[i + 1] < least)
                continue;
            memcpy(used, used_of(s, 0, k), cluster->nslot * sizeof *used);
            for (uint32_t t = cluster->first[i]; t < cluster->first[i + 1]; t++) {
                GroupUse take = cluster->take.at[t];
                used[take.slot] = take.last ? 0 : used[take.slot] + (uint32_t)with;
            }
            add_state(s, next, used);
        }
}

/* The best choice of a cluster; false: the limit was met. least: the gain of some choice. */
static bool
sweep(Cluster *cluster, int64_t least, int64_t *best)
{
    PackingResult *r = &cluster->k->result;
    Sweep s = { .cluster = cluster };
    uint32_t *used = NEW_ARRAY(cluster->arena, uint32_t, cluster->nslot + 1);
    uint64_t limit = r->steps + cluster->k->p->most_steps;

    add_state(&s, (PackingState){ .before = NONE }, used);
    for (uint32_t i = 0; i < cluster->n; i++) {
        step(&s, i, least, used);
        r->steps += s.state.n - s.begin;
        if (r->steps > limit)
            return false;
        arena_poll(cluster->arena);
    }
    /* no group is used by a later item, so one state is left */
    uint32_t at = s.begin;
    *best = s.state.at[at].gain;
    for (uint32_t i = cluster->n; i-- > 0; at = s.state.at[at].before)
        r->chosen[cluster->item[i]] = s.state.at[at].with;
    return true;
}

static void
solve(PackingSearch *k, const uint32_t *item, uint32_t n)
{
    Cluster cluster = { .k = k, .arena = arena_child(k->arena), .item = item, .n = n };
    int64_t *bound = &k->bound[sets_root(k->root, item[0])], best;

    cluster.first = NEW_ARRAY(cluster.arena, uint32_t, n + 1);
    cluster.rest = NEW_ARRAY(cluster.arena, int64_t, n + 1);
    find_takes(&cluster);
    find_bounds(&cluster);
    int64_t greedy = take_greedily(&cluster), most = cluster.rest[0];
    if (sweep(&cluster, greedy, &best))
        most = best;
    bool whole = true; /* with an item dropped for good it is no bound */
    for (uint32_t i = 0; i < n; i++)
        whole &= !k->banned[item[i]];
    *bound = whole && most < *bound ? most : *bound;
    arena_free(cluster.arena);
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
            least = compare_gains(&cycle[i], &least, (void *)p) > 0 ? cycle[i] : least;
        k->banned[least] = true;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (sets_root(k->root, i) == sets_root(k->root, least))
            VEC_PUSH(k->arena, &item, i);
    qsort_r(item.at, item.n, sizeof *item.at, compare_items, k);
    solve(k, item.at, item.n);
}

/* ---- the whole ------------------------------------------------------------------------------- */

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
    qsort_r(item, p->n, sizeof *item, compare_items, k);
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
