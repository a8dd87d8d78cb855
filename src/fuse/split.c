/* split: divide the uncovered nodes into components that are solved by themselves.
 *
 * A component is connected by edges that a group may contain. Components that depend on each other
 * in a cycle are united again.
 */
#include "fuse/subgraph.h"

#include <string.h>

/* Unites components that depend on each other: strongly connected components of their graph, by
 * Tarjan's algorithm with an explicit stack. k->number: 0 not visited; nodes of a component are
 * linked by `next`. */
typedef struct {
    uint32_t component, node, edge;
} TarjanFrame;

static void
unite_waiting(Subgraph *k, const SetWord *left)
{
    Arena *scratch = arena_child(k->arena);
    uint32_t *next = NEW_ARRAY(scratch, uint32_t, k->n), *head = NEW_ARRAY(scratch, uint32_t, k->n),
             met = 0, nstack = 0;
    VEC(TarjanFrame) walk = { 0 };

    memset(k->number, 0, k->n * sizeof *k->number);
    memset(k->mark, 0, k->n * sizeof *k->mark);
    for (uint32_t i = 0; i < k->n; i++)
        head[i] = NONE;
    for (uint32_t i = k->n; i-- > 0;)
        if (bit_is(left, i)) {
            uint32_t r = sets_root(k->root, i);
            next[i] = head[r];
            head[r] = i;
        }
    FOR_EACH_BIT (begin, left, k->words) {
        if (head[begin] == NONE || k->number[begin])
            continue;
        VEC_PUSH(scratch, &walk, ((TarjanFrame){ begin, head[begin], k->first[head[begin]] }));
        k->number[begin] = k->low[begin] = ++met;
        k->stack[nstack++] = begin;
        k->mark[begin] = 1;
        while (walk.n) {
            TarjanFrame *w = &walk.at[walk.n - 1];
            uint32_t c = w->component;
            if (w->node != NONE && w->edge == k->first[w->node + 1]) {
                w->node = next[w->node];
                w->edge = w->node != NONE ? k->first[w->node] : 0;
                continue;
            }
            if (w->node != NONE) {
                uint32_t to = k->succ[w->edge++];
                uint32_t r = bit_is(left, to) ? sets_root(k->root, to) : c;
                if (r != c && !k->number[r]) {
                    k->number[r] = k->low[r] = ++met;
                    k->stack[nstack++] = r;
                    k->mark[r] = 1;
                    VEC_PUSH(scratch, &walk, ((TarjanFrame){ r, head[r], k->first[head[r]] }));
                } else if (r != c && k->mark[r] && k->number[r] < k->low[c]) {
                    k->low[c] = k->number[r];
                }
                continue;
            }
            walk.n--;
            if (walk.n && k->low[c] < k->low[walk.at[walk.n - 1].component])
                k->low[walk.at[walk.n - 1].component] = k->low[c];
            if (k->low[c] != k->number[c])
                continue;
            uint32_t popped;
            /* roots change only in finished components */
            do {
                popped = k->stack[--nstack];
                k->mark[popped] = 0;
                k->list[popped] = c;
            } while (popped != c);
        }
    }
    FOR_EACH_BIT (i, left, k->words)
        if (head[i] != NONE) /* i is the root of a component */
            next[i] = k->list[i];
    FOR_EACH_BIT (i, left, k->words)
        if (head[i] != NONE)
            sets_unite(k->root, i, next[i]);
    arena_free(scratch);
}

uint32_t
subgraph_split(Subgraph *k, const SetWord *left)
{
    uint32_t nroot = 0;

    FOR_EACH_BIT (i, left, k->words)
        k->root[i] = i;
    FOR_EACH_BIT (i, left, k->words)
        for (uint32_t e = k->first[i]; e < k->first[i + 1]; e++)
            if (k->runs[e] && bit_is(left, k->succ[e]))
                sets_unite(k->root, i, k->succ[e]);
    FOR_EACH_BIT (i, left, k->words)
        nroot += sets_root(k->root, i) == i;
    if (nroot == 1)
        return 1;
    unite_waiting(k, left);
    nroot = 0;
    FOR_EACH_BIT (i, left, k->words)
        nroot += sets_root(k->root, i) == i;
    return nroot;
}
