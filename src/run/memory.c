/* memory: blocks that a run allocates for tensors whose size only data decide.
 *
 * A freed block is kept for reuse: sizes are rounded up to four classes for each doubling, so that
 * a growing tensor finds blocks that fit, and a model that runs for days asks the system a few
 * times. A block of up to four times the size fits, too: the arenas of batches of all sizes would
 * otherwise keep one block for each class. Everything is returned to the system when the session
 * ends. A run that stops in the middle leaves its blocks in use; heap_take_back frees them all.
 */
#include "run/internal.h"

#include <stdlib.h>

enum { CLASSES = 4 * 48, LOOSE = 4 * 2 /* classes above that fit */ };

typedef struct HeapBlock {
    /* in the list of blocks in use, or (next only) of the free ones of its class */
    struct HeapBlock *next, *before;
    int64_t bytes;
    uint32_t class;
} HeapBlock;
enum { HEAD = 64 }; /* before a block, which keeps it aligned */

struct Heap {
    HeapBlock out; /* head of the list of blocks in use */
    HeapBlock *free[CLASSES];
    int64_t bytes; /* taken from the system */
    /* the machine's memory: a size from data never requests more */
    int64_t most;
};

/* 64, 80, 96, 112, 128, 160, …: the class that holds `bytes`, and its size. */
static uint32_t
class_of(int64_t bytes, int64_t *size)
{
    uint32_t class = 0;

    for (*size = 64; *size < bytes && class + 1 < CLASSES; class ++)
        *size = (int64_t)(64 + 16 * ((class + 1) % 4)) << ((class + 1) / 4);
    return class;
}

static void
heap_end(void *what)
{
    Heap *h = what;

    heap_take_back(h, NULL);
    for (uint32_t i = 0; i < CLASSES; i++)
        for (HeapBlock *b = h->free[i], *next; b; b = next) {
            next = b->next;
            free(b);
        }
}

Heap *
heap_new(Arena *a)
{
    Heap *h = NEW(a, Heap);

    h->out.next = h->out.before = &h->out;
    h->most = memory_size();
    arena_closer(a, heap_end, h);
    return h;
}

void *
heap_get(Heap *h, int64_t *bytes)
{
    int64_t size;
    uint32_t class = class_of(*bytes, &size);
    HeapBlock *b = NULL;

    if (size < *bytes || size > INT64_MAX / 4)
        return NULL;
    for (uint32_t c = class; !b && c < CLASSES && c <= class + LOOSE; c++)
        b = h->free[c];
    if (b) {
        h->free[b->class] = b->next;
        size = b->bytes;
    } else if (size > h->most - h->bytes) {
        return NULL;
    } else {
        b = aligned_alloc(HEAD, HEAD + (((size_t)size + 63) & ~(size_t)63));
        if (!b)
            return NULL;
        h->bytes += size;
        b->class = class;
        b->bytes = size;
    }
    b->before = &h->out;
    b->next = h->out.next;
    b->next->before = h->out.next = b;
    *bytes = size;
    return (char *)b + HEAD;
}

void
heap_put(Heap *h, void *at, int64_t bytes)
{
    HeapBlock *b = (HeapBlock *)(void *)((char *)at - HEAD);

    (void)bytes;
    b->next->before = b->before;
    b->before->next = b->next;
    b->next = h->free[b->class];
    h->free[b->class] = b;
}

const void *
heap_newest(const Heap *h)
{
    return h->out.next;
}

void
heap_take_back(Heap *h, const void *newest)
{
    while (h->out.next != (newest ? newest : &h->out))
        heap_put(h, (char *)h->out.next + HEAD, 0);
}

int64_t
heap_bytes(const Heap *h)
{
    return h->bytes;
}
