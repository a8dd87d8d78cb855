/* search: divide the problem into subgraphs and components, and solve each.
 *
 * A large graph is first cut at edges that no group can contain, which needs no bit sets. A
 * subgraph of more than LARGEST nodes is cut into blocks along the order; the result is then not
 * called exact.
 */
#include "fuse/subgraph.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST 4096 /* nodes of a subgraph: each has a set of its predecessors */

/* The result so far. */
typedef struct {
    SearchResult result;
    int64_t price, bound;
} Answer;

typedef struct {
    uint32_t low, n;
} Component; /* its lowest node, and its number of nodes */

static int
by_size(const void *x, const void *y)
{
    const Component *a = x, *b = y;

    return a->n != b->n ? (a->n < b->n ? -1 : 1) : (a->low > b->low) - (a->low < b->low);
}

static void
solve_component(Subgraph *k, const SetWord *component, Answer *r)
{
    int64_t price, bound;

    if (subgraph_exact(k, component, r->result.group, &r->result.ngroup, &price)) {
        bound = price;
    } else {
        r->result.exact = false;
        bound = subgraph_bound(k, subgraph_rest(k, component));
        price = subgraph_greedy(k, component, r->result.group, &r->result.ngroup);
    }
    r->price = price_sum(r->price, price);
    r->bound = price_sum(r->bound, bound);
}

static void
solve_subgraph(const SearchProblem *p, Arena *parent, const uint32_t *global, uint32_t n,
               const SearchEdge *edge, uint32_t nedge, Answer *r)
{
    Arena *a = arena_child(parent);
    Subgraph k = subgraph_begin(p, a, global, n, edge, nedge);
    SetWord *all = NEW_ARRAY(a, SetWord, k.words), *bits = NEW_ARRAY(a, SetWord, k.words);
    Component *component = NEW_ARRAY(a, Component, n);
    uint32_t *root = NEW_ARRAY(a, uint32_t, n), ncomponent = 0;

    k.states = &r->result.states;
    k.steps = &r->result.steps;
    k.priced = &r->result.priced;
    for (uint32_t i = 0; i < n; i++)
        bit_put(all, i);
    subgraph_split(&k, all);
    for (uint32_t i = 0; i < n; i++) {
        root[i] = sets_root(k.root, i);
        component[root[i]].low = root[i];
        component[root[i]].n++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (component[i].n)
            component[ncomponent++] = component[i];
    qsort(component, ncomponent, sizeof *component, by_size);
    for (uint32_t i = 0; i < ncomponent; i++) {
        memset(bits, 0, k.words * sizeof *bits);
        for (uint32_t j = 0; j < n; j++)
            if (root[j] == component[i].low)
                bit_put(bits, j);
        solve_component(&k, bits, r);
    }
    arena_free(a);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* [n]: the last node connected to each node by edges that a group may contain. */
static uint32_t *
reach(const SearchProblem *p, Arena *a)
{
    uint32_t *root = NEW_ARRAY(a, uint32_t, p->n + 1), *last = NEW_ARRAY(a, uint32_t, p->n + 1);

    for (uint32_t i = 0; i < p->n; i++)
        root[i] = i;
    for (uint32_t e = 0; e < p->nedge; e++)
        if (p->edge[e].fusable && p->most > 1 &&
            p->may(p->user, (uint32_t[]){ p->edge[e].from, p->edge[e].to }, 2))
            sets_unite(root, p->edge[e].from, p->edge[e].to);
    for (uint32_t i = p->n; i-- > 0;)
        if (!last[sets_root(root, i)])
            last[sets_root(root, i)] = i;
    for (uint32_t i = 0; i < p->n; i++)
        last[i] = last[sets_root(root, i)];
    return last;
}

SearchResult
search_partition(const SearchProblem *p, Arena *a)
{
    Arena *scratch = arena_child(a);
    Answer all = { .result = { .group = NEW_ARRAY(a, uint32_t, p->n + 1), .exact = true } };
    SearchResult *r = &all.result;
    uint32_t *last = reach(p, scratch), *inside = NEW_ARRAY(scratch, uint32_t, p->n + 1), next = 0;
    uint32_t *by_to = NEW_ARRAY(scratch, uint32_t, p->n + 2),
             *incoming = NEW_ARRAY(scratch, uint32_t, p->nedge + 1);

    for (uint32_t e = 0; e < p->nedge; e++)
        by_to[p->edge[e].to + 2]++;
    for (uint32_t i = 2; i < p->n + 2; i++)
        by_to[i] += by_to[i - 1];
    for (uint32_t e = 0; e < p->nedge; e++)
        incoming[by_to[p->edge[e].to + 1]++] = e;
    /* a range of nodes with no edge to later ones, or a block of it */
    while (next < p->n) {
        uint32_t from = next, n = 0, end = from;
        VEC(SearchEdge) edge = { 0 };
        for (; next <= end && next < p->n && n < LARGEST; inside[n++] = next++)
            end = last[next] > end ? last[next] : end;
        r->exact = r->exact && next > end;
        for (uint32_t i = from; i < next; i++)
            for (uint32_t e = by_to[i]; e < by_to[i + 1]; e++)
                if (p->edge[incoming[e]].from >= from)
                    VEC_PUSH(scratch, &edge,
                             ((SearchEdge){ p->edge[incoming[e]].from - from, i - from,
                                            p->edge[incoming[e]].fusable }));
        solve_subgraph(p, scratch, inside, n, edge.at, edge.n, &all);
    }
    r->seconds = (double)all.price * 1e-12;
    r->bound = (double)all.bound * 1e-12;
    arena_free(scratch);
    return *r;
}
