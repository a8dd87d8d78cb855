/* subgraph: its edges, the table of its node sets, and lower bounds. */
#include "fuse/subgraph.h"

#include <math.h>
#include <string.h>

/* seconds; bounds sums of picoseconds: longer times count as this */
#define MOST 1000.0

/* ---- sets of nodes --------------------------------------------------------------------------- */

/* Is the set connected by edges that a group may contain? */
static bool
is_connected(Subgraph *k, const uint32_t *node, uint32_t n)
{
    uint32_t ncomponent = n;
    uint32_t parent[n];

    for (uint32_t i = 0; i < n; i++)
        parent[i] = i;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = k->first[node[i]]; e < k->first[node[i] + 1]; e++) {
            uint32_t x = i, y = i + 1;
            while (y < n && node[y] < k->succ[e])
                y++;
            if (!k->runs[e] || y == n || node[y] != k->succ[e])
                continue;
            ncomponent -= sets_unite(parent, x, y);
        }
    return ncomponent == 1;
}

static const uint32_t *
globals(const Subgraph *k, const uint32_t *node, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = k->global[node[i]];
    return out;
}

uint32_t
subgraph_set(Subgraph *k, const uint32_t *node, uint32_t n)
{
    uint32_t numbers[n];

    uint64_t hash = hash_bytes(node, n * sizeof *node, 0), at;
    for (; map_get(&k->set_at, hash, &at); hash++) {
        const Set *s = &k->set.at[at];
        if (s->n == n && !memcmp(k->member.at + s->first, node, n * sizeof *node))
            return (uint32_t)at;
    }
    Set s = { .first = k->member.n,
              .n = n,
              .may = n == 1 || k->p->may(k->p->user, globals(k, node, n, numbers), n) };
    s.connected = s.may && is_connected(k, node, n);
    for (uint32_t i = 0; i < n; i++)
        VEC_PUSH(k->arena, &k->member, node[i]);
    map_put(&k->set_at, hash, k->set.n);
    VEC_PUSH(k->arena, &k->set, s);
    return k->set.n - 1;
}

static int64_t
picoseconds(double s)
{
    return isinf(s) ? NEVER : llround((s < MOST ? s : MOST) * 1e12);
}

int64_t
subgraph_price(Subgraph *k, uint32_t which)
{
    Set *s = &k->set.at[which];
    uint32_t numbers[s->n];

    if (!s->asked) {
        s->asked = true;
        s->price = picoseconds(
            k->p->price(k->p->user, globals(k, k->member.at + s->first, s->n, numbers), s->n));
        ++*k->priced;
    }
    return s->price;
}

void
subgraph_bits(const Subgraph *k, uint32_t which, SetWord *b)
{
    const Set *s = &k->set.at[which];

    memset(b, 0, k->words * sizeof *b);
    for (uint32_t i = 0; i < s->n; i++)
        bit_put(b, k->member.at[s->first + i]);
}

void
subgraph_take(const Subgraph *k, uint32_t set, uint32_t *group, uint32_t number)
{
    const Set *s = &k->set.at[set];

    for (uint32_t i = 0; i < s->n; i++)
        group[k->global[k->member.at[s->first + i]]] = number;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

uint32_t
subgraph_least_groups(const Subgraph *k, uint32_t n)
{
    return (n + k->p->most - 1) / k->p->most;
}

Rest
subgraph_rest(const Subgraph *k, const SetWord *left)
{
    Rest r = { 0 };

    FOR_EACH_BIT (i, left, k->words)
        r.least += k->least[i], r.n++;
    return r;
}

Rest
subgraph_without(const Subgraph *k, Rest r, uint32_t set)
{
    const Set *s = &k->set.at[set];

    for (uint32_t i = 0; i < s->n; i++)
        r.least -= k->least[k->member.at[s->first + i]];
    r.n -= s->n;
    return r;
}

int64_t
subgraph_bound(const Subgraph *k, Rest r)
{
    return r.least + k->start * subgraph_least_groups(k, r.n);
}

/* ---- the piece ------------------------------------------------------------------------------- */

/* Can no group contain the edge, since the nodes between its ends, which it must contain, cannot be
 * one? */
static bool
is_cut(Subgraph *k, uint32_t from, uint32_t to)
{
    const SetWord *before = k->before + (size_t)to * k->words;
    uint32_t n = 0, numbers[k->p->most];

    for (uint32_t i = from; i <= to; i++) {
        bool between = i == from || i == to ||
                       (bit_is(before, i) && bit_is(k->before + (size_t)i * k->words, from));
        if (between && n == k->p->most)
            return true;
        if (between)
            numbers[n++] = k->global[i];
    }
    return !k->p->may(k->p->user, numbers, n);
}

Subgraph
subgraph_begin(const SearchProblem *p, Arena *a, const uint32_t *global, uint32_t n,
               const SearchEdge *edge, uint32_t nedge)
{
    Subgraph k = { .p = p,
                   .arena = a,
                   .n = n,
                   .words = (n + 63) / 64,
                   .global = global,
                   .set_at.arena = a,
                   .state_at.arena = a };
    uint32_t *fill;

    k.first = NEW_ARRAY(a, uint32_t, n + 2);
    k.succ = NEW_ARRAY(a, uint32_t, nedge + 1);
    k.runs = NEW_ARRAY(a, bool, nedge + 1);
    k.before = arena_alloc_array(a, (size_t)n * k.words, sizeof *k.before);
    k.least = NEW_ARRAY(a, int64_t, n);
    k.start = (int64_t)(p->start * 1e12); /* rounded down: a bound */
    k.number = NEW_ARRAY(a, uint32_t, n);
    k.stack = NEW_ARRAY(a, uint32_t, n);
    k.low = NEW_ARRAY(a, uint32_t, n);
    k.mark = NEW_ARRAY(a, uint32_t, n);
    k.list = NEW_ARRAY(a, uint32_t, n);
    k.root = NEW_ARRAY(a, uint32_t, n);
    k.bits = NEW_ARRAY(a, SetWord, k.words);
    k.grown = NEW_ARRAY(a, SetWord, k.words);
    fill = NEW_ARRAY(a, uint32_t, n + 1);
    for (uint32_t e = 0; e < nedge; e++)
        k.first[edge[e].from + 1]++;
    for (uint32_t i = 0; i < n; i++) {
        k.first[i + 1] += k.first[i];
        fill[i] = k.first[i];
        k.least[i] = p->least ? (int64_t)(fmin(p->least[global[i]], MOST) * 1e12) : 0;
    }
    for (uint32_t e = 0; e < nedge; e++) {
        uint32_t at = fill[edge[e].from]++;
        k.succ[at] = edge[e].to;
        k.runs[at] = edge[e].fusable;
    }
    /* in topological order: predecessors of i are complete */
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = k.first[i]; e < k.first[i + 1]; e++) {
            SetWord *to = k.before + (size_t)k.succ[e] * k.words;
            for (uint32_t w = 0; w < k.words; w++)
                to[w] |= k.before[(size_t)i * k.words + w];
            bit_put(to, i);
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = k.first[i]; e < k.first[i + 1]; e++)
            k.runs[e] = k.runs[e] && !is_cut(&k, i, k.succ[e]);
    return k;
}
