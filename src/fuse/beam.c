/* beam: a partition where the exact search met a limit: the best few of the partial partitions that cover as many nodes. */
#include "fuse/piece.h"

#include <string.h>

#define BEAM_SETS 512                /* groups that it tries from one state */

/* A partial partition: the last group, and the one before it. */
typedef struct { uint32_t group, from; } Trace;
typedef struct { int64_t price, rank; uint32_t ngroup, trace; } Covered;

typedef struct {
    Piece *k;
    VEC(Trace) trace;
    Covered *covered;                /* [most + 1][beam]: by how many nodes are covered */
    Word *left;                      /* [most + 1][beam][words] */
    uint32_t *n;                     /* [most + 1] */
} Beam;

static Word *
beam_left(Beam *b, uint32_t slot, uint32_t i)
{
    return b->left + ((size_t)slot * b->k->p->beam + i) * b->k->words;
}

/* One more partial partition, if it is among the best of those that cover as much. */
static void
beam_add(Beam *b, uint32_t slot, Covered c, uint32_t group, const Word *left)
{
    Piece *k = b->k;
    Covered *row = b->covered + (size_t)slot * k->p->beam;
    uint32_t n = b->n[slot], at = 0;

    for (uint32_t i = 0; i < n; i++)
        if (!memcmp(beam_left(b, slot, i), left, k->words * sizeof *left)) {
            if (row[i].price < c.price || (row[i].price == c.price && row[i].ngroup <= c.ngroup))
                return;
            memmove(row + i, row + i + 1, (n - i - 1) * sizeof *row);
            memmove(beam_left(b, slot, i), beam_left(b, slot, i + 1), (size_t)(n - i - 1) * k->words * sizeof(Word));
            n--;
            break;
        }
    while (at < n && (row[at].rank < c.rank || (row[at].rank == c.rank && row[at].ngroup <= c.ngroup)))
        at++;
    b->n[slot] = n;
    if (at == k->p->beam)
        return;
    if (n == k->p->beam)
        n--;
    memmove(row + at + 1, row + at, (n - at) * sizeof *row);
    memmove(beam_left(b, slot, at + 1), beam_left(b, slot, at), (size_t)(n - at) * k->words * sizeof(Word));
    VEC_PUSH(k->arena, &b->trace, ((Trace){ group, c.trace }));
    c.trace = b->trace.n - 1;
    row[at] = c;
    memcpy(beam_left(b, slot, at), left, k->words * sizeof *left);
    b->n[slot] = n + 1;
}

/* Only the piece with the lowest node is taken from: pieces do not concern each other. */
static void
beam_expand(Beam *b, Covered from, const Word *left, uint32_t done)
{
    Piece *k = b->k;
    Word *part = NEW_ARRAY(k->arena, Word, k->words), *rest = NEW_ARRAY(k->arena, Word, k->words);
    uint32_t low = bit_next(left, k->words, 0);
    Rest all = piece_rest(k, left);

    piece_split(k, left);
    for EACH_BIT(i, left, k->words)
        if (sets_root(k->root, i) == sets_root(k->root, low))
            bit_put(part, i);
    piece_ideals(k, part, BEAM_SETS);
    uint32_t n = k->work.n, *work = arena_copy(k->arena, k->work.at, n * sizeof *work);
    for (uint32_t i = 0; i < n; i++) {
        int64_t price = k->set.at[work[i]].connected ? piece_price(k, work[i]) : NEVER;
        if (price == NEVER)
            continue;
        piece_bits(k, work[i], rest);
        for (uint32_t w = 0; w < k->words; w++)
            rest[w] = left[w] & ~rest[w];
        Covered c = { from.price + price, from.price + price + piece_bound(k, piece_without(k, all, work[i])), from.ngroup + 1, from.trace };
        beam_add(b, (done + k->set.at[work[i]].n) % (k->p->most + 1), c, work[i], rest);
    }
}

int64_t
piece_beam(Piece *k, const Word *all, uint32_t *group, uint32_t *ngroup)
{
    uint32_t slots = k->p->most + 1;
    Beam b = { .k = k, .covered = arena_alloc_array(k->arena, (size_t)slots * k->p->beam, sizeof *b.covered),
               .left = arena_alloc_array(k->arena, (size_t)slots * k->p->beam * k->words, sizeof *b.left), .n = NEW_ARRAY(k->arena, uint32_t, slots) };
    Covered last = { 0 };

    VEC_PUSH(k->arena, &b.trace, ((Trace){ NONE, NONE }));
    b.n[0] = 1;
    memcpy(b.left, all, k->words * sizeof *all);
    for (uint32_t done = 0; done < k->n; done++) {
        uint32_t slot = done % slots, n = b.n[slot];
        for (uint32_t i = 0; i < n; i++)
            beam_expand(&b, b.covered[(size_t)slot * k->p->beam + i], beam_left(&b, slot, i), done);
        b.n[slot] = 0;
        arena_poll(k->arena);
    }
    last = b.covered[(size_t)(k->n % slots) * k->p->beam];
    for (uint32_t t = last.trace; b.trace.at[t].group != NONE; t = b.trace.at[t].from)
        piece_take(k, b.trace.at[t].group, group, ++*ngroup);
    return last.price;
}
