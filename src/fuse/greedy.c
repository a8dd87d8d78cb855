/* greedy: partition a component greedily where the exact search met a limit.
 *
 * Each node starts as a group. Where two neighbouring groups may be one, no path between them
 * passes a third group, and the merged group costs no more than both, they are merged; repeated
 * until nothing changes. A set is priced once for an edge and for each change of its ends, so few
 * prices are needed.
 */
#include "fuse/subgraph.h"

typedef struct {
    Subgraph *k;
    const SetWord *all;
    uint32_t *group;      /* [n]: the lowest node of its group */
    uint32_t *set;        /* [n]: at a group's lowest node: the group's set */
    uint32_t *met, round; /* met [n]: groups visited in the current round */
} Greedy;

static const uint32_t *
members(const Greedy *m, uint32_t group, uint32_t *n)
{
    const Set *s = &m->k->set.at[m->set[group]];

    *n = s->n;
    return m->k->member.at + s->first;
}

/* Does a path lead from one group to another through a third? */
static bool
leads_round(Greedy *m, uint32_t from, uint32_t to)
{
    Subgraph *k = m->k;
    uint32_t nstack = 0;

    m->met[from] = ++m->round;
    k->stack[nstack++] = from;
    while (nstack) {
        uint32_t g = k->stack[--nstack], n;
        const uint32_t *node = members(m, g, &n);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t e = k->first[node[i]]; e < k->first[node[i] + 1]; e++) {
                uint32_t next = k->succ[e];
                if (!bit_is(m->all, next) || m->met[next = m->group[next]] == m->round)
                    continue;
                if (next == to && g != from)
                    return true;
                if (next == to)
                    continue;
                m->met[next] = m->round;
                k->stack[nstack++] = next;
            }
    }
    return false;
}

/* The merged set; NONE: it cannot be a group. */
static uint32_t
joint(Greedy *m, uint32_t a, uint32_t b)
{
    Subgraph *k = m->k;
    uint32_t na, nb, n = 0;
    const uint32_t *x = members(m, a, &na), *y = members(m, b, &nb);

    if (na + nb > k->p->most)
        return NONE;
    for (uint32_t i = 0, j = 0; i < na || j < nb;)
        k->list[n++] = j == nb || (i < na && x[i] < y[j]) ? x[i++] : y[j++];
    uint32_t set = subgraph_set(k, k->list, n);
    return k->set.at[set].may ? set : NONE;
}

static bool
try_edge(Greedy *m, uint32_t from, uint32_t to)
{
    Subgraph *k = m->k;
    uint32_t a = m->group[from], b = m->group[to], set = a == b ? NONE : joint(m, a, b), n;

    if (set == NONE || leads_round(m, a, b))
        return false;
    int64_t price = subgraph_price(k, set);
    if (price == NEVER ||
        price > price_sum(subgraph_price(k, m->set[a]), subgraph_price(k, m->set[b])))
        return false;
    uint32_t low = a < b ? a : b;
    m->set[low] = set;
    const uint32_t *node = members(m, low, &n);
    for (uint32_t i = 0; i < n; i++)
        m->group[node[i]] = low;
    return true;
}

int64_t
subgraph_greedy(Subgraph *k, const SetWord *all, uint32_t *group, uint32_t *ngroup)
{
    Greedy m = { k,
                 all,
                 NEW_ARRAY(k->arena, uint32_t, k->n),
                 NEW_ARRAY(k->arena, uint32_t, k->n),
                 NEW_ARRAY(k->arena, uint32_t, k->n),
                 0 };
    int64_t price = 0;

    FOR_EACH_BIT (i, all, k->words) {
        m.group[i] = i;
        m.set[i] = subgraph_set(k, &i, 1);
    }
    for (bool again = true; again;) {
        again = false;
        FOR_EACH_BIT (i, all, k->words)
            for (uint32_t e = k->first[i]; e < k->first[i + 1]; e++)
                if (k->runs[e] && bit_is(all, k->succ[e]))
                    again |= try_edge(&m, i, k->succ[e]);
        arena_poll(k->arena);
    }
    FOR_EACH_BIT (i, all, k->words)
        if (m.group[i] == i) {
            price = price_sum(price, subgraph_price(k, m.set[i]));
            subgraph_take(k, m.set[i], group, ++*ngroup);
        }
    return price;
}
