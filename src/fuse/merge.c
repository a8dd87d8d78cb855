/* merge: a partition where the exact search met a limit: neighbours become one group as long as
 * that costs no more.
 *
 * At first each node is a group. Where a group may run along an edge between two groups, no way
 * leads round through a third, and both as one cost no more than apart, they become one; again from
 * the start until nothing changes. Prices are asked of one set for an edge and a change of its
 * ends, so they are few, whatever the number of groups that could be.
 */
#include "fuse/piece.h"

typedef struct {
    Piece *k;
    const Word *all;
    uint32_t *group;      /* [n]: the lowest node of its group */
    uint32_t *set;        /* [n]: of a group's lowest node: the group as a set */
    uint32_t *met, round; /* [n]: groups met by the walk that is under way */
} Merge;

static const uint32_t *
members(const Merge *m, uint32_t group, uint32_t *n)
{
    const Set *s = &m->k->set.at[m->set[group]];

    *n = s->n;
    return m->k->member.at + s->first;
}

/* Does a way lead from one group to another through a third? */
static bool
leads_round(Merge *m, uint32_t from, uint32_t to)
{
    Piece *k = m->k;
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

/* Both as a set, or NONE if there is no such group. */
static uint32_t
joint(Merge *m, uint32_t a, uint32_t b)
{
    Piece *k = m->k;
    uint32_t na, nb, n = 0;
    const uint32_t *x = members(m, a, &na), *y = members(m, b, &nb);

    if (na + nb > k->p->most)
        return NONE;
    for (uint32_t i = 0, j = 0; i < na || j < nb;)
        k->list[n++] = j == nb || (i < na && x[i] < y[j]) ? x[i++] : y[j++];
    uint32_t set = piece_set(k, k->list, n);
    return k->set.at[set].may ? set : NONE;
}

static bool
try_edge(Merge *m, uint32_t from, uint32_t to)
{
    Piece *k = m->k;
    uint32_t a = m->group[from], b = m->group[to], set = a == b ? NONE : joint(m, a, b), n;

    if (set == NONE || leads_round(m, a, b))
        return false;
    int64_t price = piece_price(k, set);
    if (price == NEVER || price > price_sum(piece_price(k, m->set[a]), piece_price(k, m->set[b])))
        return false;
    uint32_t low = a < b ? a : b;
    m->set[low] = set;
    const uint32_t *node = members(m, low, &n);
    for (uint32_t i = 0; i < n; i++)
        m->group[node[i]] = low;
    return true;
}

int64_t
piece_merge(Piece *k, const Word *all, uint32_t *group, uint32_t *ngroup)
{
    Merge m = { k,
                all,
                NEW_ARRAY(k->arena, uint32_t, k->n),
                NEW_ARRAY(k->arena, uint32_t, k->n),
                NEW_ARRAY(k->arena, uint32_t, k->n),
                0 };
    int64_t price = 0;

    for
        EACH_BIT(i, all, k->words)
        {
            m.group[i] = i;
            m.set[i] = piece_set(k, &i, 1);
        }
    for (bool again = true; again;) {
        again = false;
        for
            EACH_BIT(i, all, k->words)
        for (uint32_t e = k->first[i]; e < k->first[i + 1]; e++)
            if (k->runs[e] && bit_is(all, k->succ[e]))
                again |= try_edge(&m, i, k->succ[e]);
        arena_poll(k->arena);
    }
    for
        EACH_BIT(i, all, k->words)
    if (m.group[i] == i) {
        price = price_sum(price, piece_price(k, m.set[i]));
        piece_take(k, m.set[i], group, ++*ngroup);
    }
    return price;
}
