/* heap: the least of many numbers, in a binary heap over an arena; {0} plus arena is empty. */
#ifndef TENON_HEAP_H
#define TENON_HEAP_H

#include "base/base.h"

typedef struct {
    Arena *arena;
    VEC(uint64_t) least; /* of the numbers below it: at[i] of at[2 * i + 1] and at[2 * i + 2] */
} Heap;

static inline void
heap_push(Heap *h, uint64_t v)
{
    VEC_PUSH(h->arena, &h->least, v);
    uint64_t *at = h->least.at;
    uint32_t i = h->least.n - 1;
    for (; i > 0 && at[(i - 1) / 2] > v; i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = v;
}

/* Of a heap that is not empty. */
static inline uint64_t
heap_pop(Heap *h)
{
    uint64_t *at = h->least.at, top = at[0], v = at[--h->least.n];
    uint32_t i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;
        child += child + 1 < h->least.n && at[child + 1] < at[child];
        if (child >= h->least.n || at[child] >= v)
            break;
        at[i] = at[child];
        i = child;
    }
    at[i] = v;
    return top;
}

#endif
