/* subgraph: a part of the search's problem that is solved by itself, and the queries that both ways
 * of solving it make.
 *
 * Nodes are numbered from 0. The uncovered nodes are a bit set. Every set of nodes is stored once,
 * with the cached answers whether it may be a group, is connected, and what it costs. Prices are
 * picoseconds.
 */
#ifndef TENON_FUSE_SUBGRAPH_H
#define TENON_FUSE_SUBGRAPH_H

#include "fuse/search.h"
#include "fuse/sets.h"

#define NONE UINT32_MAX
#define NEVER INT64_MAX /* price of a set that is no group */

typedef uint64_t SetWord;

/* A set of nodes. */
typedef struct {
    uint32_t first, n; /* its nodes, ascending: in `member` */
    uint32_t stamp;    /* the last enumeration that listed it */
    bool may, connected, asked;
    int64_t price; /* once asked */
} Set;

/* A set of uncovered nodes: solved as a sum of components, or by a group and the rest. */
typedef struct {
    int64_t price;
    uint32_t ngroup;
    uint32_t group, rest;           /* the set taken; the state it leaves, or NONE */
    uint32_t component, ncomponent; /* in Subgraph.component, if it has several */
    bool solved, single;            /* single: known to be one component */
} SearchState;

typedef struct {
    uint32_t set, bound_groups;
    int64_t least;
} SearchChoice;
typedef struct {
    uint32_t state, first, n, next;
    bool open;
} SearchFrame;

typedef struct {
    const SearchProblem *p;
    Arena *arena;
    uint32_t n, words;
    const uint32_t *global; /* [n]: its number in the problem */
    uint32_t *first, *succ; /* successors of l: succ[first[l] .. first[l + 1]); … */
    bool *runs;             /* … may a group contain the edge? */
    SetWord *before;        /* [n][words]: predecessors, transitively */
    int64_t *least;         /* [n] */
    int64_t start;

    VEC(Set) set;
    VEC(uint32_t) member;
    Map set_at; /* by hash: the number of a set */
    uint32_t stamp;
    VEC(SearchState) state;
    SetWord *key; /* [state][words] */
    uint32_t key_room;
    Map state_at;            /* by hash: the number of a state */
    VEC(uint32_t) component; /* states of components, one run for each state that has some */
    VEC(SearchChoice) choice;
    VEC(SearchFrame) frame;

    uint32_t *number, *stack, *low, *mark; /* [n]: scratch of splitting */
    uint32_t *list, *root;                 /* [n] */
    SetWord *bits, *grown;                 /* [words] */
    VEC(uint32_t) work;                    /* sets to grow from */
    uint64_t *states, *steps, *priced;     /* of the whole search */
    bool over;                             /* a limit was met */
} Subgraph;

/* ---- bits ------------------------------------------------------------------------------------ */

static inline bool
bit_is(const SetWord *b, uint32_t i)
{
    return b[i / 64] >> i % 64 & 1;
}

static inline void
bit_put(SetWord *b, uint32_t i)
{
    b[i / 64] |= (SetWord)1 << i % 64;
}

static inline uint32_t
bit_count(const SetWord *b, uint32_t words)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < words; w++)
        n += (uint32_t)__builtin_popcountll(b[w]);
    return n;
}

/* The first bit from `i` on; NONE: there is no more. */
static inline uint32_t
bit_next(const SetWord *b, uint32_t words, uint32_t i)
{
    for (uint32_t w = i / 64; w < words; w++) {
        SetWord left = w == i / 64 ? b[w] & ~(SetWord)0 << i % 64 : b[w];
        if (left)
            return 64 * w + (uint32_t)__builtin_ctzll(left);
    }
    return NONE;
}

#define FOR_EACH_BIT(i, b, words)                                                                  \
    for (uint32_t i = bit_next((b), (words), 0); i != NONE; i = bit_next((b), (words), i + 1))

/* ---- prices ---------------------------------------------------------------------------------- */

static inline int64_t
price_sum(int64_t a, int64_t b)
{
    int64_t s;

    return __builtin_add_overflow(a, b, &s) ? NEVER : s;
}

/* ---- sets and bounds (subgraph.c) ------------------------------------------------------------ */

/* edge: the problem's edges between its nodes, numbered within the subgraph. */
Subgraph subgraph_begin(const SearchProblem *p, Arena *a, const uint32_t *global, uint32_t n,
                        const SearchEdge *edge, uint32_t nedge);
/* the number of a set; nodes ascend */
uint32_t subgraph_set(Subgraph *k, const uint32_t *node, uint32_t n);
int64_t subgraph_price(Subgraph *k, uint32_t set);
void subgraph_bits(const Subgraph *k, uint32_t set, SetWord *b);
/* puts the nodes of a set into a group of the problem */
void subgraph_take(const Subgraph *k, uint32_t set, uint32_t *group, uint32_t number);

/* The number of some nodes, and the part of their price that no grouping removes. */
typedef struct {
    int64_t least;
    uint32_t n;
} Rest;
Rest subgraph_rest(const Subgraph *k, const SetWord *left);
Rest subgraph_without(const Subgraph *k, Rest r, uint32_t set);
uint32_t subgraph_least_groups(const Subgraph *k, uint32_t n);
/* a lower bound for all partitions of these nodes */
int64_t subgraph_bound(const Subgraph *k, Rest r);

/* ---- next groups, and components ------------------------------------------------------------- */

/* Lists each connected ideal of `left` once in k->work; enumerates at most `limit` sets.
 * (ideals.c) */
void subgraph_ideals(Subgraph *k, const SetWord *left, uint64_t limit);
/* The components of `left` into k->root, each named by its lowest node; their number. (split.c) */
uint32_t subgraph_split(Subgraph *k, const SetWord *left);

/* ---- two ways of solving it ------------------------------------------------------------------ */

/* The groups of the best partition of `all` into group[n], numbered on from *ngroup, and its price;
 * false: a limit was met. (exact.c) */
bool subgraph_exact(Subgraph *k, const SetWord *all, uint32_t *group, uint32_t *ngroup,
                    int64_t *price);
/* The same by merging neighbours: few prices, not always the best. Returns the price. (greedy.c) */
int64_t subgraph_greedy(Subgraph *k, const SetWord *all, uint32_t *group, uint32_t *ngroup);

#endif
