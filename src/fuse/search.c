/* search: dynamic programming over what is left.
 *
 * f(R) = min over groups G of price(G) + f(R \ G), where G is a connected ideal of R: everything that comes before one of its
 * nodes and is left is in it. R is a piece of the whole, a set of bits. Where R falls apart, f is the sum over its pieces:
 * connected by edges that a group may run along, and joined again where they would wait for each other.
 *
 * An ideal grows from one node that nothing left comes before, by a successor and all that must come with it. Sets of nodes
 * are kept once: whether they may be, are connected, and what they cost, is found out at the first meeting.
 *
 * Graphs of many thousands of nodes are first cut at what no group runs along, which needs no bits; what is still larger than
 * LARGEST is cut into blocks along the order, and then the answer is not called exact.
 */
#include "fuse/search.h"
#include "fuse/sets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define NEVER INT64_MAX              /* picoseconds of what is no group */
#define LARGEST 4096                 /* nodes of a piece: for each there is a set of those before it */
#define MOST 1000.0                   /* seconds: what takes longer counts as much */
#define BEAM_SETS 512                /* groups that the beam tries from one state */

typedef uint64_t Word;

/* A set of nodes that was met. */
typedef struct {
    uint32_t first, n;               /* its nodes, ascending: in `member` */
    uint32_t stamp;                  /* the last enumeration that met it */
    bool may, connected, asked;
    int64_t price;                   /* once asked */
} Set;

/* What is left at some time: solved as a sum of pieces, or by a group and what it leaves. */
typedef struct {
    int64_t price;
    uint32_t ngroup;
    uint32_t group, rest;            /* the set taken; the state it leaves, or NONE */
    uint32_t piece, npiece;          /* in `piece`, if it fell apart */
    bool solved, single;             /* single: known not to fall apart */
} State;

typedef struct { uint32_t set, bound_groups; int64_t least; } Choice;
typedef struct { uint32_t state, first, n, next; bool open; } Frame;

/* One piece of the problem, its nodes numbered from 0. */
typedef struct {
    const SearchProblem *p;
    Arena *arena;
    uint32_t n, words;
    const uint32_t *global;          /* [n]: its number in the problem */
    uint32_t *first, *succ;          /* successors of l: succ[first[l] .. first[l + 1]) … */
    bool *runs;                      /* … and whether a group may run along */
    Word *before;                    /* [n][words] */
    int64_t *least;                  /* [n] */
    int64_t start;

    VEC(Set) set;
    VEC(uint32_t) member;
    uint32_t *set_at, set_room, stamp;       /* open addressing: number plus 1 */
    VEC(State) state;
    Word *key;                       /* [state][words] */
    uint32_t key_room;
    uint32_t *state_at, state_room;
    VEC(uint32_t) piece;
    VEC(Choice) choice;
    VEC(Frame) frame;

    uint32_t *number, *stack, *low, *mark;   /* [n]: scratch of splitting */
    uint32_t *list, *root;           /* [n] */
    Word *bits, *grown;              /* [words] */
    VEC(uint32_t) work;              /* sets to grow from */
    uint64_t *states, *steps, *priced;       /* of the whole search */
    bool over;                       /* a limit was met */
} Piece;

/* ---- bits ------------------------------------------------------------------------------------------------ */

static bool
has(const Word *b, uint32_t i)
{
    return b[i / 64] >> i % 64 & 1;
}

static void
put(Word *b, uint32_t i)
{
    b[i / 64] |= (Word)1 << i % 64;
}

static uint32_t
count(const Word *b, uint32_t words)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < words; w++)
        n += (uint32_t)__builtin_popcountll(b[w]);
    return n;
}

/* The first bit from `i` on; NONE: there is no more. */
static uint32_t
next_bit(const Word *b, uint32_t words, uint32_t i)
{
    for (uint32_t w = i / 64; w < words; w++) {
        Word left = w == i / 64 ? b[w] & ~(Word)0 << i % 64 : b[w];
        if (left)
            return 64 * w + (uint32_t)__builtin_ctzll(left);
    }
    return NONE;
}

#define EACH_BIT(i, b, words) (uint32_t i = next_bit((b), (words), 0); i != NONE; i = next_bit((b), (words), i + 1))

static int64_t
picoseconds(double s)
{
    return isinf(s) ? NEVER : llround((s < MOST ? s : MOST) * 1e12);
}

static int64_t
sum(int64_t a, int64_t b)
{
    int64_t s;

    return __builtin_add_overflow(a, b, &s) ? NEVER : s;
}

/* ---- sets of nodes ------------------------------------------------------------------------------------------ */

/* Connected by edges that a group may run along? */
static bool
is_connected(Piece *k, const uint32_t *node, uint32_t n)
{
    uint32_t ncomponent = n;
    uint32_t parent[n];

    for (uint32_t i = 0; i < n; i++)
        parent[i] = i;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = k->first[node[i]]; e < k->first[node[i] + 1]; e++) {
            uint32_t x = i, y = i + 1;
            while (y < n && node[y] < k->succ[e])
                y++;
            if (!k->runs[e] || y == n || node[y] != k->succ[e])
                continue;
            ncomponent -= sets_unite(parent, x, y);
        }
    return ncomponent == 1;
}

static void
grow_sets(Piece *k)
{
    uint32_t room = k->set_room ? 2 * k->set_room : 1024;

    k->set_at = NEW_ARRAY(k->arena, uint32_t, room);
    k->set_room = room;
    for (uint32_t i = 0; i < k->set.n; i++) {
        const Set *s = &k->set.at[i];
        uint32_t at = (uint32_t)hash_bytes(k->member.at + s->first, s->n * sizeof(uint32_t), 0) & (room - 1);
        while (k->set_at[at])
            at = (at + 1) & (room - 1);
        k->set_at[at] = i + 1;
    }
}

static const uint32_t *
globals(const Piece *k, const uint32_t *node, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = k->global[node[i]];
    return out;
}

static uint32_t
set_of(Piece *k, const uint32_t *node, uint32_t n)
{
    uint32_t numbers[n];

    if (2 * k->set.n >= k->set_room)
        grow_sets(k);
    uint32_t at = (uint32_t)hash_bytes(node, n * sizeof *node, 0) & (k->set_room - 1);
    for (; k->set_at[at]; at = (at + 1) & (k->set_room - 1)) {
        const Set *s = &k->set.at[k->set_at[at] - 1];
        if (s->n == n && !memcmp(k->member.at + s->first, node, n * sizeof *node))
            return k->set_at[at] - 1;
    }
    Set s = { .first = k->member.n, .n = n, .may = n == 1 || k->p->may(k->p->user, globals(k, node, n, numbers), n) };
    s.connected = s.may && is_connected(k, node, n);
    for (uint32_t i = 0; i < n; i++)
        VEC_PUSH(k->arena, &k->member, node[i]);
    k->set_at[at] = k->set.n + 1;
    VEC_PUSH(k->arena, &k->set, s);
    return k->set.n - 1;
}

static int64_t
price_of(Piece *k, uint32_t which)
{
    Set *s = &k->set.at[which];
    uint32_t numbers[s->n];

    if (!s->asked) {
        s->asked = true;
        s->price = picoseconds(k->p->price(k->p->user, globals(k, k->member.at + s->first, s->n, numbers), s->n));
        ++*k->priced;
    }
    return s->price;
}

static void
bits_of(const Piece *k, uint32_t which, Word *b)
{
    const Set *s = &k->set.at[which];

    memset(b, 0, k->words * sizeof *b);
    for (uint32_t i = 0; i < s->n; i++)
        put(b, k->member.at[s->first + i]);
}

/* ---- bounds -------------------------------------------------------------------------------------------------- */

static uint32_t
least_groups(const Piece *k, uint32_t n)
{
    return (n + k->p->most - 1) / k->p->most;
}

/* What no group takes away from these nodes, and how many they are. */
typedef struct { int64_t least; uint32_t n; } Rest;

static Rest
rest_of(const Piece *k, const Word *left)
{
    Rest r = { 0 };

    for EACH_BIT(i, left, k->words)
        r.least += k->least[i], r.n++;
    return r;
}

static Rest
rest_without(const Piece *k, Rest r, uint32_t set)
{
    const Set *s = &k->set.at[set];

    for (uint32_t i = 0; i < s->n; i++)
        r.least -= k->least[k->member.at[s->first + i]];
    r.n -= s->n;
    return r;
}

/* No partition of these nodes takes less. */
static int64_t
bound_of(const Piece *k, Rest r)
{
    return r.least + k->start * least_groups(k, r.n);
}

/* ---- the groups that can be next -------------------------------------------------------------------------------- */

/* Each connected ideal of `left` into k->work, once; at most `limit` sets are looked at. */
static void
find_ideals(Piece *k, const Word *left, uint64_t limit)
{
    uint32_t low = next_bit(left, k->words, 0) / 64;
    uint64_t looked = 0;

    k->stamp++;
    k->work.n = 0;
    for EACH_BIT(i, left, k->words) {
        const Word *before = k->before + (size_t)i * k->words;
        bool free = true;
        for (uint32_t w = low; w <= i / 64 && free; w++)
            free = !(before[w] & left[w]);
        if (!free)
            continue;
        uint32_t one = set_of(k, &i, 1);
        k->set.at[one].stamp = k->stamp;
        VEC_PUSH(k->arena, &k->work, one);
    }
    for (uint32_t at = 0; at < k->work.n; at++) {
        uint32_t from = k->work.at[at], size = k->set.at[from].n;
        bits_of(k, from, k->bits);
        for (uint32_t i = 0; i < size; i++) {
            uint32_t node = k->member.at[k->set.at[from].first + i];
            for (uint32_t e = k->first[node]; e < k->first[node + 1]; e++) {
                uint32_t to = k->succ[e], n = 0;
                if (!k->runs[e] || !has(left, to) || has(k->bits, to))
                    continue;
                const Word *before = k->before + (size_t)to * k->words;
                for (uint32_t w = 0; w < k->words; w++)
                    k->grown[w] = k->bits[w] | (before[w] & left[w]);
                put(k->grown, to);
                if (count(k->grown, k->words) > k->p->most)
                    continue;
                for EACH_BIT(b, k->grown, k->words)
                    k->list[n++] = b;
                uint32_t set = set_of(k, k->list, n);
                ++*k->steps;
                looked++;
                if (!k->set.at[set].may || k->set.at[set].stamp == k->stamp)
                    continue;
                k->set.at[set].stamp = k->stamp;
                VEC_PUSH(k->arena, &k->work, set);
                if (looked >= limit) {
                    k->over = true;
                    return;
                }
            }
        }
    }
}

/* ---- falling apart ------------------------------------------------------------------------------------------------ */

/* Components that wait for each other become one: strongly connected components of their graph, by Tarjan's walk with a stack
 * of its own. number: 0 not met; nodes of a component are linked through `next`. */
typedef struct { uint32_t component, node, edge; } Walk;

static void
unite_waiting(Piece *k, const Word *left)
{
    Arena *scratch = arena_child(k->arena);
    uint32_t *next = NEW_ARRAY(scratch, uint32_t, k->n), *head = NEW_ARRAY(scratch, uint32_t, k->n), met = 0, nstack = 0;
    VEC(Walk) walk = { 0 };

    memset(k->number, 0, k->n * sizeof *k->number);
    memset(k->mark, 0, k->n * sizeof *k->mark);
    for (uint32_t i = 0; i < k->n; i++)
        head[i] = NONE;
    for (uint32_t i = k->n; i-- > 0; )
        if (has(left, i)) {
            uint32_t r = sets_root(k->root, i);
            next[i] = head[r];
            head[r] = i;
        }
    for EACH_BIT(begin, left, k->words) {
        if (head[begin] == NONE || k->number[begin])
            continue;
        VEC_PUSH(scratch, &walk, ((Walk){ begin, head[begin], k->first[head[begin]] }));
        k->number[begin] = k->low[begin] = ++met;
        k->stack[nstack++] = begin;
        k->mark[begin] = 1;
        while (walk.n) {
            Walk *w = &walk.at[walk.n - 1];
            uint32_t c = w->component;
            if (w->node != NONE && w->edge == k->first[w->node + 1]) {
                w->node = next[w->node];
                w->edge = w->node != NONE ? k->first[w->node] : 0;
                continue;
            }
            if (w->node != NONE) {
                uint32_t to = k->succ[w->edge++];
                uint32_t r = has(left, to) ? sets_root(k->root, to) : c;
                if (r != c && !k->number[r]) {
                    k->number[r] = k->low[r] = ++met;
                    k->stack[nstack++] = r;
                    k->mark[r] = 1;
                    VEC_PUSH(scratch, &walk, ((Walk){ r, head[r], k->first[head[r]] }));
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
            do {                                 /* roots change only among components that are done */
                popped = k->stack[--nstack];
                k->mark[popped] = 0;
                k->list[popped] = c;
            } while (popped != c);
        }
    }
    for EACH_BIT(i, left, k->words)
        if (head[i] != NONE)                     /* i is the root of a component */
            next[i] = k->list[i];
    for EACH_BIT(i, left, k->words)
        if (head[i] != NONE)
            sets_unite(k->root, i, next[i]);
    arena_free(scratch);
}

/* Into k->root: the pieces of `left`, each named by its lowest node; how many there are. */
static uint32_t
split(Piece *k, const Word *left)
{
    uint32_t nroot = 0;

    for EACH_BIT(i, left, k->words)
        k->root[i] = i;
    for EACH_BIT(i, left, k->words)
        for (uint32_t e = k->first[i]; e < k->first[i + 1]; e++)
            if (k->runs[e] && has(left, k->succ[e]))
                sets_unite(k->root, i, k->succ[e]);
    for EACH_BIT(i, left, k->words)
        nroot += sets_root(k->root, i) == i;
    if (nroot == 1)
        return 1;
    unite_waiting(k, left);
    nroot = 0;
    for EACH_BIT(i, left, k->words)
        nroot += sets_root(k->root, i) == i;
    return nroot;
}

/* ---- states ------------------------------------------------------------------------------------------------------- */

static const Word *
left_of(const Piece *k, uint32_t state)
{
    return k->key + (size_t)state * k->words;
}

static void
grow_states(Piece *k)
{
    uint32_t room = k->state_room ? 2 * k->state_room : 1024;

    k->state_at = NEW_ARRAY(k->arena, uint32_t, room);
    k->state_room = room;
    for (uint32_t i = 0; i < k->state.n; i++) {
        uint32_t at = (uint32_t)hash_bytes(left_of(k, i), k->words * sizeof(Word), 0) & (room - 1);
        while (k->state_at[at])
            at = (at + 1) & (room - 1);
        k->state_at[at] = i + 1;
    }
}

static uint32_t
state_of(Piece *k, const Word *left)
{
    if (2 * k->state.n >= k->state_room)
        grow_states(k);
    uint32_t at = (uint32_t)hash_bytes(left, k->words * sizeof *left, 0) & (k->state_room - 1);
    for (; k->state_at[at]; at = (at + 1) & (k->state_room - 1))
        if (!memcmp(left_of(k, k->state_at[at] - 1), left, k->words * sizeof *left))
            return k->state_at[at] - 1;
    if (k->state.n == k->key_room) {
        Word *old = k->key;
        k->key_room = k->key_room ? 2 * k->key_room : 256;
        k->key = arena_alloc_array(k->arena, (size_t)k->key_room * k->words, sizeof *k->key);
        if (old)
            memcpy(k->key, old, (size_t)k->state.n * k->words * sizeof *old);
    }
    memcpy(k->key + (size_t)k->state.n * k->words, left, k->words * sizeof *left);
    k->state_at[at] = k->state.n + 1;
    VEC_PUSH(k->arena, &k->state, ((State){ .price = NEVER, .group = NONE, .rest = NONE }));
    ++*k->states;
    return k->state.n - 1;
}

/* ---- the exact search ------------------------------------------------------------------------------------------------ */

static void
open_pieces(Piece *k, uint32_t state, uint32_t npiece)
{
    uint32_t first = k->piece.n;

    for EACH_BIT(r, left_of(k, state), k->words) {
        if (sets_root(k->root, r) != r)
            continue;
        memset(k->bits, 0, k->words * sizeof *k->bits);
        for EACH_BIT(i, left_of(k, state), k->words)
            if (sets_root(k->root, i) == r)
                put(k->bits, i);
        uint32_t part = state_of(k, k->bits);
        k->state.at[part].single = true;
        VEC_PUSH(k->arena, &k->piece, part);
    }
    k->state.at[state].piece = first;
    k->state.at[state].npiece = npiece;
}

/* What is less: the bound first, then fewer groups, then the lowest numbers. */
static int
compare_sets(const Piece *k, uint32_t a, uint32_t b)
{
    const Set *x = &k->set.at[a], *y = &k->set.at[b];

    for (uint32_t i = 0; i < x->n && i < y->n; i++)
        if (k->member.at[x->first + i] != k->member.at[y->first + i])
            return k->member.at[x->first + i] < k->member.at[y->first + i] ? -1 : 1;
    return x->n > y->n ? -1 : x->n < y->n;
}

static int
compare_choices(const void *a, const void *b, void *piece)
{
    const Choice *x = a, *y = b;

    if (x->least != y->least)
        return x->least < y->least ? -1 : 1;
    if (x->bound_groups != y->bound_groups)
        return x->bound_groups < y->bound_groups ? -1 : 1;
    return compare_sets(piece, x->set, y->set);
}

/* The choices of a state that does not fall apart, the most promising first. */
static void
open_choices(Piece *k, Frame *f)
{
    uint64_t limit = k->p->most_steps > *k->steps ? k->p->most_steps - *k->steps : 0;
    Rest all = rest_of(k, left_of(k, f->state));

    find_ideals(k, left_of(k, f->state), limit);
    f->first = k->choice.n;
    for (uint32_t i = 0; i < k->work.n; i++) {
        uint32_t set = k->work.at[i];
        int64_t price = k->set.at[set].connected ? price_of(k, set) : NEVER;
        if (price == NEVER)
            continue;
        Rest rest = rest_without(k, all, set);
        Choice c = { set, 0, 0 };
        if (!k->p->blind) {
            c.least = price + bound_of(k, rest);
            c.bound_groups = 1 + least_groups(k, rest.n);
        }
        VEC_PUSH(k->arena, &k->choice, c);
    }
    f->n = k->choice.n - f->first;
    qsort_r(k->choice.at + f->first, f->n, sizeof *k->choice.at, compare_choices, k);
}

static void
open_state(Piece *k, Frame *f)
{
    uint32_t npiece = k->p->whole || k->state.at[f->state].single ? 1 : split(k, left_of(k, f->state));

    f->open = true;
    f->first = k->choice.n;
    if (npiece > 1)
        open_pieces(k, f->state, npiece);
    else
        open_choices(k, f);
}

/* The next piece that is not solved, or NONE: then the state is. */
static uint32_t
step_pieces(Piece *k, uint32_t state)
{
    State *s = &k->state.at[state];
    int64_t price = 0;
    uint32_t ngroup = 0;

    for (uint32_t i = 0; i < s->npiece; i++) {
        const State *part = &k->state.at[k->piece.at[s->piece + i]];
        if (!part->solved)
            return k->piece.at[s->piece + i];
        price = sum(price, part->price);
        ngroup += part->ngroup;
    }
    s->price = price;
    s->ngroup = ngroup;
    s->solved = true;
    return NONE;
}

/* The next state whose price a choice needs, or NONE: then the state is solved. */
static uint32_t
step_choices(Piece *k, Frame *f)
{
    for (; f->next < f->n; f->next++) {
        Choice c = k->choice.at[f->first + f->next];
        const State *best = &k->state.at[f->state];
        uint32_t rest = NONE;
        if (!k->p->blind && best->group != NONE &&
            (c.least > best->price || (c.least == best->price && c.bound_groups >= best->ngroup)))
            break;                               /* and so for all behind it */
        bits_of(k, c.set, k->bits);
        bool any = false;
        for (uint32_t w = 0; w < k->words; w++) {
            k->bits[w] = left_of(k, f->state)[w] & ~k->bits[w];
            any |= k->bits[w] != 0;
        }
        if (any) {
            rest = state_of(k, k->bits);
            if (!k->state.at[rest].solved)
                return rest;
        }
        State *s = &k->state.at[f->state];
        int64_t price = sum(k->set.at[c.set].price, rest == NONE ? 0 : k->state.at[rest].price);
        uint32_t ngroup = 1 + (rest == NONE ? 0 : k->state.at[rest].ngroup);
        if (price < s->price || (price == s->price && ngroup < s->ngroup)) {
            s->price = price;
            s->ngroup = ngroup;
            s->group = c.set;
            s->rest = rest;
        }
    }
    k->state.at[f->state].solved = true;
    return NONE;
}

/* False: a limit was met. */
static bool
solve(Piece *k, uint32_t root)
{
    VEC_PUSH(k->arena, &k->frame, ((Frame){ .state = root }));
    while (k->frame.n) {
        Frame *f = &k->frame.at[k->frame.n - 1];
        if (!f->open)
            open_state(k, f);
        if (k->over || *k->states > k->p->most_states)
            return false;
        uint32_t wants = k->state.at[f->state].npiece ? step_pieces(k, f->state) : step_choices(k, f);
        if (wants != NONE) {
            VEC_PUSH(k->arena, &k->frame, ((Frame){ .state = wants }));
            continue;
        }
        k->choice.n = f->first;
        k->frame.n--;
        arena_poll(k->arena);
    }
    return true;
}

/* ---- the beam ----------------------------------------------------------------------------------------------------- */

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
    uint32_t low = next_bit(left, k->words, 0);
    Rest all = rest_of(k, left);

    split(k, left);
    for EACH_BIT(i, left, k->words)
        if (sets_root(k->root, i) == sets_root(k->root, low))
            put(part, i);
    find_ideals(k, part, BEAM_SETS);
    uint32_t n = k->work.n, *work = arena_copy(k->arena, k->work.at, n * sizeof *work);
    for (uint32_t i = 0; i < n; i++) {
        int64_t price = k->set.at[work[i]].connected ? price_of(k, work[i]) : NEVER;
        if (price == NEVER)
            continue;
        bits_of(k, work[i], rest);
        for (uint32_t w = 0; w < k->words; w++)
            rest[w] = left[w] & ~rest[w];
        Covered c = { from.price + price, from.price + price + bound_of(k, rest_without(k, all, work[i])), from.ngroup + 1, from.trace };
        beam_add(b, (done + k->set.at[work[i]].n) % (k->p->most + 1), c, work[i], rest);
    }
}

/* The groups of the beam's answer into group[n], numbered from 1; its price. */
static int64_t
beam_search(Piece *k, const Word *all, uint32_t *group, uint32_t *ngroup)
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
    for (uint32_t t = last.trace; b.trace.at[t].group != NONE; t = b.trace.at[t].from) {
        const Set *s = &k->set.at[b.trace.at[t].group];
        ++*ngroup;
        for (uint32_t i = 0; i < s->n; i++)
            group[k->global[k->member.at[s->first + i]]] = *ngroup;
    }
    return last.price;
}

/* ---- one piece ---------------------------------------------------------------------------------------------------- */

/* The groups along the best choices into group[n], counted on from *ngroup. */
static void
collect(Piece *k, uint32_t root, uint32_t *group, uint32_t *ngroup)
{
    VEC(uint32_t) todo = { 0 };

    VEC_PUSH(k->arena, &todo, root);
    while (todo.n) {
        const State *s = &k->state.at[todo.at[--todo.n]];
        for (uint32_t i = 0; i < s->npiece; i++)
            VEC_PUSH(k->arena, &todo, k->piece.at[s->piece + i]);
        if (s->group == NONE)
            continue;
        const Set *set = &k->set.at[s->group];
        ++*ngroup;
        for (uint32_t i = 0; i < set->n; i++)
            group[k->global[k->member.at[set->first + i]]] = *ngroup;
        if (s->rest != NONE)
            VEC_PUSH(k->arena, &todo, s->rest);
    }
}

/* What a group would have to hold so as to run along an edge: everything between. Is that no group? */
static bool
is_cut(Piece *k, uint32_t from, uint32_t to)
{
    const Word *before = k->before + (size_t)to * k->words;
    uint32_t n = 0, numbers[k->p->most];

    for (uint32_t i = from; i <= to; i++) {
        bool between = i == from || i == to || (has(before, i) && has(k->before + (size_t)i * k->words, from));
        if (between && n == k->p->most)
            return true;
        if (between)
            numbers[n++] = k->global[i];
    }
    return !k->p->may(k->p->user, numbers, n);
}

/* edge: those of the problem between its nodes, numbered within. */
static Piece
begin_piece(const SearchProblem *p, Arena *a, const uint32_t *global, uint32_t n, const SearchEdge *edge, uint32_t nedge)
{
    Piece k = { .p = p, .arena = a, .n = n, .words = (n + 63) / 64, .global = global };
    uint32_t *fill;

    k.first = NEW_ARRAY(a, uint32_t, n + 2);
    k.succ = NEW_ARRAY(a, uint32_t, nedge + 1);
    k.runs = NEW_ARRAY(a, bool, nedge + 1);
    k.before = arena_alloc_array(a, (size_t)n * k.words, sizeof *k.before);
    k.least = NEW_ARRAY(a, int64_t, n);
    k.start = (int64_t)(p->start * 1e12);        /* downwards: a bound */
    k.number = NEW_ARRAY(a, uint32_t, n);
    k.stack = NEW_ARRAY(a, uint32_t, n);
    k.low = NEW_ARRAY(a, uint32_t, n);
    k.mark = NEW_ARRAY(a, uint32_t, n);
    k.list = NEW_ARRAY(a, uint32_t, n);
    k.root = NEW_ARRAY(a, uint32_t, n);
    k.bits = NEW_ARRAY(a, Word, k.words);
    k.grown = NEW_ARRAY(a, Word, k.words);
    fill = NEW_ARRAY(a, uint32_t, n + 1);
    for (uint32_t e = 0; e < nedge; e++)
        k.first[edge[e].from + 1]++;
    for (uint32_t i = 0; i < n; i++) {
        k.first[i + 1] += k.first[i];
        fill[i] = k.first[i];
        k.least[i] = p->least ? (int64_t)(fmin(p->least[global[i]], MOST) * 1e12) : 0;
    }
    for (uint32_t e = 0; e < nedge; e++) {
        uint32_t at = fill[edge[e].from]++;
        k.succ[at] = edge[e].to;
        k.runs[at] = edge[e].fusable;
    }
    for (uint32_t i = 0; i < n; i++)             /* in order: what is before i is known when i is met */
        for (uint32_t e = k.first[i]; e < k.first[i + 1]; e++) {
            Word *to = k.before + (size_t)k.succ[e] * k.words;
            for (uint32_t w = 0; w < k.words; w++)
                to[w] |= k.before[(size_t)i * k.words + w];
            put(to, i);
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = k.first[i]; e < k.first[i + 1]; e++)
            k.runs[e] = k.runs[e] && !is_cut(&k, i, k.succ[e]);
    return k;
}

/* Of the pieces so far. */
typedef struct { SearchResult result; int64_t price, bound; } Answer;

static void
solve_piece(const SearchProblem *p, Arena *parent, const uint32_t *global, uint32_t n, const SearchEdge *edge, uint32_t nedge, Answer *r)
{
    Arena *a = arena_child(parent);
    Piece k = begin_piece(p, a, global, n, edge, nedge);
    Word *all = NEW_ARRAY(a, Word, k.words);
    int64_t price, bound;

    k.states = &r->result.states;
    k.steps = &r->result.steps;
    k.priced = &r->result.priced;
    for (uint32_t i = 0; i < n; i++)
        put(all, i);
    uint32_t root = state_of(&k, all);
    if (solve(&k, root)) {
        bound = price = k.state.at[root].price;
        collect(&k, root, r->result.group, &r->result.ngroup);
    } else {
        r->result.exact = false;
        bound = bound_of(&k, rest_of(&k, all));
        price = beam_search(&k, all, r->result.group, &r->result.ngroup);
    }
    r->price = sum(r->price, price);
    r->bound = sum(r->bound, bound);
    arena_free(a);
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

/* Groups numbered in an order in which they can run: of those that are ready, the one that was first. */
static void
order_groups(const SearchProblem *p, Arena *a, SearchResult *r)
{
    uint32_t *first = NEW_ARRAY(a, uint32_t, r->ngroup + 3), *to = NEW_ARRAY(a, uint32_t, p->nedge + 1), *waits = NEW_ARRAY(a, uint32_t, r->ngroup + 1);
    uint32_t *queue = NEW_ARRAY(a, uint32_t, r->ngroup + 1), *number = NEW_ARRAY(a, uint32_t, r->ngroup + 1), n = 0, met = 0;

    for (uint32_t e = 0; e < p->nedge; e++)
        first[r->group[p->edge[e].from] + 2] += r->group[p->edge[e].from] != r->group[p->edge[e].to];
    for (uint32_t i = 2; i < r->ngroup + 3; i++)
        first[i] += first[i - 1];
    for (uint32_t e = 0; e < p->nedge; e++) {
        uint32_t x = r->group[p->edge[e].from], y = r->group[p->edge[e].to];
        if (x != y) {
            to[first[x + 1]++] = y;
            waits[y]++;
        }
    }
    for (uint32_t i = 0; i < p->n; i++)          /* in the order of their first nodes */
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

/* [n]: the last node that is connected with a node by edges along which two nodes may be a group. */
static uint32_t *
reach(const SearchProblem *p, Arena *a)
{
    uint32_t *root = NEW_ARRAY(a, uint32_t, p->n + 1), *last = NEW_ARRAY(a, uint32_t, p->n + 1);

    for (uint32_t i = 0; i < p->n; i++)
        root[i] = i;
    for (uint32_t e = 0; e < p->nedge; e++)
        if (p->edge[e].fusable && p->most > 1 && p->may(p->user, (uint32_t[]){ p->edge[e].from, p->edge[e].to }, 2))
            sets_unite(root, p->edge[e].from, p->edge[e].to);
    for (uint32_t i = p->n; i-- > 0; )
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
    uint32_t *by_to = NEW_ARRAY(scratch, uint32_t, p->n + 2), *incoming = NEW_ARRAY(scratch, uint32_t, p->nedge + 1);

    for (uint32_t e = 0; e < p->nedge; e++)
        by_to[p->edge[e].to + 2]++;
    for (uint32_t i = 2; i < p->n + 2; i++)
        by_to[i] += by_to[i - 1];
    for (uint32_t e = 0; e < p->nedge; e++)
        incoming[by_to[p->edge[e].to + 1]++] = e;
    while (next < p->n) {                        /* a run of nodes that none behind it is connected with, or a block of it */
        uint32_t from = next, n = 0, end = from;
        VEC(SearchEdge) edge = { 0 };
        for (; next <= end && next < p->n && n < LARGEST; inside[n++] = next++)
            end = last[next] > end ? last[next] : end;
        r->exact = r->exact && next > end;
        for (uint32_t i = from; i < next; i++)
            for (uint32_t e = by_to[i]; e < by_to[i + 1]; e++)
                if (p->edge[incoming[e]].from >= from)
                    VEC_PUSH(scratch, &edge, ((SearchEdge){ p->edge[incoming[e]].from - from, i - from, p->edge[incoming[e]].fusable }));
        solve_piece(p, scratch, inside, n, edge.at, edge.n, &all);
    }
    order_groups(p, scratch, r);
    r->seconds = (double)all.price * 1e-12;
    r->bound = (double)all.bound * 1e-12;
    arena_free(scratch);
    return *r;
}
