/* piece: one piece of the search's problem, and what both ways of solving it ask of it.
 *
 * Its nodes are numbered from 0. What is left of it is a set of bits; sets of nodes that were met
 * are kept once: whether they may be, are connected, and what they cost, is found out at the first
 * meeting. Prices are picoseconds.
 */
#ifndef TENON_FUSE_PIECE_H
#define TENON_FUSE_PIECE_H

#include "fuse/search.h"
#include "fuse/sets.h"

#define NONE UINT32_MAX
#define NEVER INT64_MAX /* picoseconds of what is no group */

typedef uint64_t Word;

/* A set of nodes that was met. */
typedef struct {
    uint32_t first, n; /* its nodes, ascending: in `member` */
    uint32_t stamp;    /* the last enumeration that met it */
    bool may, connected, asked;
    int64_t price; /* once asked */
} Set;

/* What is left at some time: solved as a sum of pieces, or by a group and what it leaves. */
typedef struct {
    int64_t price;
    uint32_t ngroup;
    uint32_t group, rest;   /* the set taken; the state it leaves, or NONE */
    uint32_t piece, npiece; /* in `piece`, if it fell apart */
    bool solved, single;    /* single: known not to fall apart */
} State;

typedef struct {
    uint32_t set, bound_groups;
    int64_t least;
} Choice;
typedef struct {
    uint32_t state, first, n, next;
    bool open;
} Frame;

/* One piece of the problem, its nodes numbered from 0. */
typedef struct {
    const SearchProblem *p;
    Arena *arena;
    uint32_t n, words;
    const uint32_t *global; /* [n]: its number in the problem */
    uint32_t *first, *succ; /* successors of l: succ[first[l] .. first[l + 1]) … */
    bool *runs;             /* … and whether a group may run along */
    Word *before;           /* [n][words] */
    int64_t *least;         /* [n] */
    int64_t start;

    VEC(Set) set;
    VEC(uint32_t) member;
    uint32_t *set_at, set_room, stamp; /* open addressing: number plus 1 */
    VEC(State) state;
    Word *key; /* [state][words] */
    uint32_t key_room;
    uint32_t *state_at, state_room;
    VEC(uint32_t) piece;
    VEC(Choice) choice;
    VEC(Frame) frame;

    uint32_t *number, *stack, *low, *mark; /* [n]: scratch of splitting */
    uint32_t *list, *root;                 /* [n] */
    Word *bits, *grown;                    /* [words] */
    VEC(uint32_t) work;                    /* sets to grow from */
    uint64_t *states, *steps, *priced;     /* of the whole search */
    bool over;                             /* a limit was met */
} Piece;

/* ---- bits ------------------------------------------------------------------------------------ */

static inline bool
bit_is(const Word *b, uint32_t i)
{
    return b[i / 64] >> i % 64 & 1;
}

static inline void
bit_put(Word *b, uint32_t i)
{
    b[i / 64] |= (Word)1 << i % 64;
}

static inline uint32_t
bit_count(const Word *b, uint32_t words)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < words; w++)
        n += (uint32_t)__builtin_popcountll(b[w]);
    return n;
}

/* The first bit from `i` on; NONE: there is no more. */
static inline uint32_t
bit_next(const Word *b, uint32_t words, uint32_t i)
{
    for (uint32_t w = i / 64; w < words; w++) {
        Word left = w == i / 64 ? b[w] & ~(Word)0 << i % 64 : b[w];
        if (left)
            return 64 * w + (uint32_t)__builtin_ctzll(left);
    }
    return NONE;
}

#define EACH_BIT(i, b, words)                                                                      \
    (uint32_t i = bit_next((b), (words), 0); i != NONE; i = bit_next((b), (words), i + 1))

/* ---- prices ---------------------------------------------------------------------------------- */

static inline int64_t
price_sum(int64_t a, int64_t b)
{
    int64_t s;

    return __builtin_add_overflow(a, b, &s) ? NEVER : s;
}

/* ---- a piece (piece.c) ----------------------------------------------------------------------- */

/* edge: those of the problem between its nodes, numbered within. */
Piece piece_begin(const SearchProblem *p, Arena *a, const uint32_t *global, uint32_t n,
                  const SearchEdge *edge, uint32_t nedge);
/* the number of a set; nodes ascend */
uint32_t piece_set(Piece *k, const uint32_t *node, uint32_t n);
int64_t piece_price(Piece *k, uint32_t set);
void piece_bits(const Piece *k, uint32_t set, Word *b);
/* its nodes are in this group of the problem */
void piece_take(const Piece *k, uint32_t set, uint32_t *group, uint32_t number);

/* What no group takes away from these nodes, and how many they are. */
typedef struct {
    int64_t least;
    uint32_t n;
} Rest;
Rest piece_rest(const Piece *k, const Word *left);
Rest piece_without(const Piece *k, Rest r, uint32_t set);
uint32_t piece_least_groups(const Piece *k, uint32_t n);
/* no partition of these nodes takes less */
int64_t piece_bound(const Piece *k, Rest r);

/* ---- what can be next, and what falls apart -------------------------------------------------- */

/* Each connected ideal of `left` into k->work, once; at most `limit` sets are looked at.
 * (ideals.c) */
void piece_ideals(Piece *k, const Word *left, uint64_t limit);
/* Into k->root: the pieces of `left`, each named by its lowest node; how many there are.
 * (split.c) */
uint32_t piece_split(Piece *k, const Word *left);

/* ---- two ways of solving it ------------------------------------------------------------------ */

/* The groups of the best partition of `all` into group[n], counted on from *ngroup, and its price;
 * false: a limit was met, and nothing is said. (exact.c) */
bool piece_exact(Piece *k, const Word *all, uint32_t *group, uint32_t *ngroup, int64_t *price);
/* The same of a partition that is not the best but found with few prices; its price. (merge.c) */
int64_t piece_merge(Piece *k, const Word *all, uint32_t *group, uint32_t *ngroup);

#endif
