/* arrange: one block of memory with its sequences and rows in another order.
 *
 *     to[…, b, …, r, …] = from[…, of[b], …, rows[b, r], …]        of and rows of -1 are zeros
 *
 * The dimensions after the later of the two move together as one chunk. Chunks are written front to
 * end; if each moves towards the front or stays, none is overwritten before it is read, and the
 * block can be rearranged in place.
 */
#include <string.h>

#include "run/internal.h"

typedef struct {
    const Arranged *x;
    const Arrangement *a;
    int64_t to[TN_MAX_RANK]; /* dims afterwards */
    uint32_t outer;          /* dimensions of the grid of chunks */
    int64_t piece;           /* bytes of a chunk */
    int64_t pieces;
} ChunkWalk;

static ChunkWalk
walk_of(const Arranged *x, const Arrangement *a)
{
    ChunkWalk w = { .x = x, .a = a, .piece = x->element, .pieces = 1 };

    w.outer = (uint32_t)(x->sequence > x->row ? x->sequence : x->row) + 1;
    for (uint32_t e = 0; e < x->rank; e++) {
        w.to[e] = (int32_t)e == x->sequence ? a->sequences
                  : (int32_t)e == x->row    ? a->length
                                            : x->dims[e];
        w.pieces *= e < w.outer ? w.to[e] : 1;
        w.piece *= e < w.outer ? 1 : x->dims[e];
    }
    return w;
}

/* The old chunk that becomes chunk i; -1: none. */
static int64_t
source_of(const ChunkWalk *w, int64_t i)
{
    int64_t at[TN_MAX_RANK] = { 0 }, b, from = 0;

    for (uint32_t e = w->outer; e-- > 0; i /= w->to[e])
        at[e] = i % w->to[e];
    b = at[w->x->sequence];
    at[w->x->sequence] = w->a->of[b];
    if (w->x->row >= 0 && w->a->from)
        at[w->x->row] = w->a->from[b * w->a->length + at[w->x->row]];
    for (uint32_t e = 0; e < w->outer; e++) {
        if (at[e] < 0)
            return -1;
        from = from * w->x->dims[e] + at[e];
    }
    return from;
}

bool
arrange_in_place(const Arranged *x, const Arrangement *a)
{
    ChunkWalk w = walk_of(x, a);

    for (int64_t i = 0; i < w.pieces; i++) {
        int64_t from = source_of(&w, i);
        if (from >= 0 && from < i)
            return false;
    }
    return true;
}

void
arrange(const Arranged *x, const Arrangement *a, const char *from, char *to)
{
    ChunkWalk w = walk_of(x, a);

    for (int64_t i = 0; w.piece && i < w.pieces; i++) {
        int64_t k = source_of(&w, i);
        if (k < 0)
            memset(to + i * w.piece, 0, (size_t)w.piece);
        else if (from + k * w.piece != to + i * w.piece)
            memmove(to + i * w.piece, from + k * w.piece, (size_t)w.piece);
    }
}
