/* search: the whole, piece by piece.
 *
 * Graphs of many thousands of nodes are first cut at what no group runs along, which needs no bits;
 * what is still larger than LARGEST is cut into blocks along the order, and then the answer is not
 * called exact.
 */
#include "fuse/piece.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST 4096 /* nodes of a piece: for each there is a set of those before it */

/* Of the pieces so far. */
typedef struct {
    SearchResult result;
    int64_t price, bound;
} Answer;

typedef struct {
    uint32_t low, n;
} Part; /* its lowest node, and how many it has */

static int
by_size(const void *x, const void *y)
{
    const Part *a = x, *b = y;

    return a->n != b->n ? (a->n < b->n ? -1 : 1) : (a->low > b->low) - (a->low < b->low);
}

static void
solve_part(Piece *k, const Word *part, Answer *r)
{
    int64_t price, bound;

    if (piece_exact(k, part, r->result.group, &r->result.ngroup, &price)) {
        bound = price;
    } else {
        r->result.exact = false;
        bound = piece_bound(k, piece_rest(k, part));
        price = piece_merge(k, part, r->result.group, &r->result.ngroup);
    }
    r->price = price_sum(r->price, price);
    r->bound = price_sum(r->bound, bound);
}

static void
solve_piece(const SearchProblem *p, Arena *parent, const uint32_t *global, uint32_t n,
            const SearchEdge *edge, uint32_t nedge, Answer *r)
{
    Arena *a = arena_child(parent);
    Piece k = piece_begin(p, a, global, n, edge, nedge);
    Word *all = NEW_ARRAY(a, Word, k.words), *bits = NEW_ARRAY(a, Word, k.words);
    Part *part = NEW_ARRAY(a, Part, n);
    uint32_t *root = NEW_ARRAY(a, uint32_t, n), npart = 0;

    k.states = &r->result.states;
    k.steps = &r->result.steps;
    k.priced = &r->result.priced;
    for (uint32_t i = 0; i < n; i++)
        bit_put(all, i);
    if (!p->whole)
        piece_split(&k, all);
    for (uint32_t i = 0; i < n; i++) {
        root[i] = p->whole ? 0 : sets_root(k.root, i);
        part[root[i]].low = root[i];
        part[root[i]].n++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (part[i].n)
            part[npart++] = part[i];
    qsort(part, npart, sizeof *part, by_size);
    for (uint32_t i = 0; i < npart; i++) {
        memset(bits, 0, k.words * sizeof *bits);
        for (uint32_t j = 0; j < n; j++)
            if (root[j] == part[i].low)
                bit_put(bits, j);
        solve_part(&k, bits, r);
    }
    arena_free(a);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Groups numbered in an order in which they can run: of those that are ready, the one that was
 * first. */
static void
order_groups(const SearchProblem *p, Arena *a, SearchResult *r)
{
    uint32_t *first = NEW_ARRAY(a, uint32_t, r->ngroup + 3),
             *to = NEW_ARRAY(a, uint32_t, p->nedge + 1),
             *waits = NEW_ARRAY(a, uint32_t, r->ngroup + 1);
    uint32_t *queue = NEW_ARRAY(a, uint32_t, r->ngroup + 1),
             *number = NEW_ARRAY(a, uint32_t, r->ngroup + 1), n = 0, met = 0;

    for (uint32_t e = 0; e < p->nedge; e++)
        first[r->group[p->edge[e].from] + 2] +=
            r->group[p->edge[e].from] != r->group[p->edge[e].to];
    for (uint32_t i = 2; i < r->ngroup + 3; i++)
        first[i] += first[i - 1];
    for (uint32_t e = 0; e < p->nedge; e++) {
        uint32_t x = r->group[p->edge[e].from], y = r->group[p->edge[e].to];
        if (x != y) {
            to[first[x + 1]++] = y;
            waits[y]++;
        }
    }
    for (uint32_t i = 0; i < p->n; i++) /* in the order of their first nodes */
        if (!waits[r->group[i]] && !number[r->group[i]]) {
            number[r->group[i]] = 1;
            queue[n++] = r->group[i];
        }
    for (; met < n; met++) {
        number[queue[met]] = met + 1;
        for (uint32_t i = first[queue[met]]; i < first[queue[met] + 1]; i++)
            if (--waits[to[i]] == 0)
                queue[n++] = to[i];
    }
    for (uint32_t i = 0; i < p->n; i++)
        r->group[i] = number[r->group[i]];
}

/* [n]: the last node that is connected with a node by edges along which two nodes may be a
 * group. */
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
    /* a run of nodes that none behind it is connected with, or a block of it */
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
        solve_piece(p, scratch, inside, n, edge.at, edge.n, &all);
    }
    order_groups(p, scratch, r);
    r->seconds = (double)all.price * 1e-12;
    r->bound = (double)all.bound * 1e-12;
    arena_free(scratch);
    return *r;
}
