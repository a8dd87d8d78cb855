/* exact: dynamic programming over the uncovered nodes of a subgraph.
 *
 * f(R) = min over groups G of price(G) + f(R \ G), where G is a connected ideal of R: it contains
 * every uncovered predecessor of its nodes. If R has several components, f is their sum. Bounds end
 * a state's list early; equal states are solved once.
 */
#include "fuse/subgraph.h"

#include <stdlib.h>
#include <string.h>

/* ---- states ---------------------------------------------------------------------------------- */

static const SetWord *
left_of(const Subgraph *k, uint32_t state)
{
    return k->key + (size_t)state * k->words;
}

static uint32_t
state_of(Subgraph *k, const SetWord *left)
{
    uint64_t hash = hash_bytes(left, k->words * sizeof *left, 0), at;

    for (; map_get(&k->state_at, hash, &at); hash++)
        if (!memcmp(left_of(k, (uint32_t)at), left, k->words * sizeof *left))
            return (uint32_t)at;
    if (k->state.n == k->key_room) {
        SetWord *old = k->key;
        k->key_room = k->key_room ? 2 * k->key_room : 256;
        k->key = arena_alloc_array(k->arena, (size_t)k->key_room * k->words, sizeof *k->key);
        if (old)
            memcpy(k->key, old, (size_t)k->state.n * k->words * sizeof *old);
    }
    memcpy(k->key + (size_t)k->state.n * k->words, left, k->words * sizeof *left);
    map_put(&k->state_at, hash, k->state.n);
    VEC_PUSH(k->arena, &k->state, ((SearchState){ .price = NEVER, .group = NONE, .rest = NONE }));
    ++*k->states;
    return k->state.n - 1;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void
open_components(Subgraph *k, uint32_t state, uint32_t ncomponent)
{
    uint32_t first = k->component.n;

    FOR_EACH_BIT (r, left_of(k, state), k->words) {
        if (sets_root(k->root, r) != r)
            continue;
        memset(k->bits, 0, k->words * sizeof *k->bits);
        FOR_EACH_BIT (i, left_of(k, state), k->words)
            if (sets_root(k->root, i) == r)
                bit_put(k->bits, i);
        uint32_t component = state_of(k, k->bits);
        k->state.at[component].single = true;
        VEC_PUSH(k->arena, &k->component, component);
    }
    k->state.at[state].component = first;
    k->state.at[state].ncomponent = ncomponent;
}

/* Orders choices by bound, then by fewer groups, then by the lowest numbers. */
static int
compare_sets(const Subgraph *k, uint32_t a, uint32_t b)
{
    const Set *x = &k->set.at[a], *y = &k->set.at[b];

    for (uint32_t i = 0; i < x->n && i < y->n; i++)
        if (k->member.at[x->first + i] != k->member.at[y->first + i])
            return k->member.at[x->first + i] < k->member.at[y->first + i] ? -1 : 1;
    return x->n > y->n ? -1 : x->n < y->n;
}

static int
compare_choices(const void *a, const void *b, void *subgraph)
{
    const SearchChoice *x = a, *y = b;

    if (x->least != y->least)
        return x->least < y->least ? -1 : 1;
    if (x->bound_groups != y->bound_groups)
        return x->bound_groups < y->bound_groups ? -1 : 1;
    return compare_sets(subgraph, x->set, y->set);
}

/* The choices of a state with one component, the most promising first. */
static void
open_choices(Subgraph *k, SearchFrame *f)
{
    uint64_t limit = k->p->most_steps > *k->steps ? k->p->most_steps - *k->steps : 0;
    Rest all = subgraph_rest(k, left_of(k, f->state));

    subgraph_ideals(k, left_of(k, f->state), limit);
    f->first = k->choice.n;
    for (uint32_t i = 0; i < k->work.n; i++) {
        uint32_t set = k->work.at[i];
        int64_t price = k->set.at[set].connected ? subgraph_price(k, set) : NEVER;
        k->over |= k->p->spent && *k->p->spent > k->p->most_spent;
        if (k->over)
            return;
        if (price == NEVER)
            continue;
        Rest rest = subgraph_without(k, all, set);
        SearchChoice c = { set, 1 + subgraph_least_groups(k, rest.n),
                           price + subgraph_bound(k, rest) };
        VEC_PUSH(k->arena, &k->choice, c);
    }
    f->n = k->choice.n - f->first;
    qsort_r(k->choice.at + f->first, f->n, sizeof *k->choice.at, compare_choices, k);
}

static void
open_state(Subgraph *k, SearchFrame *f)
{
    uint32_t ncomponent =
        k->state.at[f->state].single ? 1 : subgraph_split(k, left_of(k, f->state));

    f->open = true;
    f->first = k->choice.n;
    if (ncomponent > 1)
        open_components(k, f->state, ncomponent);
    else
        open_choices(k, f);
}

/* The next unsolved component; NONE: the state is solved. */
static uint32_t
step_components(Subgraph *k, uint32_t state)
{
    SearchState *s = &k->state.at[state];
    int64_t price = 0;
    uint32_t ngroup = 0;

    for (uint32_t i = 0; i < s->ncomponent; i++) {
        const SearchState *component = &k->state.at[k->component.at[s->component + i]];
        if (!component->solved)
            return k->component.at[s->component + i];
        price = price_sum(price, component->price);
        ngroup += component->ngroup;
    }
    s->price = price;
    s->ngroup = ngroup;
    s->solved = true;
    return NONE;
}

/* The next unsolved state that a choice leads to; NONE: the state is solved. */
static uint32_t
step_choices(Subgraph *k, SearchFrame *f)
{
    for (; f->next < f->n; f->next++) {
        SearchChoice c = k->choice.at[f->first + f->next];
        const SearchState *best = &k->state.at[f->state];
        uint32_t rest = NONE;
        if (best->group != NONE &&
            (c.least > best->price || (c.least == best->price && c.bound_groups >= best->ngroup)))
            break; /* the bound holds for all later choices */
        subgraph_bits(k, c.set, k->bits);
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
        SearchState *s = &k->state.at[f->state];
        int64_t price =
            price_sum(k->set.at[c.set].price, rest == NONE ? 0 : k->state.at[rest].price);
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
solve(Subgraph *k, uint32_t root)
{
    VEC_PUSH(k->arena, &k->frame, ((SearchFrame){ .state = root }));
    while (k->frame.n) {
        SearchFrame *f = &k->frame.at[k->frame.n - 1];
        if (!f->open)
            open_state(k, f);
        if (k->over || *k->states > k->p->most_states)
            return false;
        uint32_t wants =
            k->state.at[f->state].ncomponent ? step_components(k, f->state) : step_choices(k, f);
        if (wants != NONE) {
            VEC_PUSH(k->arena, &k->frame, ((SearchFrame){ .state = wants }));
            continue;
        }
        k->choice.n = f->first;
        k->frame.n--;
        arena_poll(k->arena);
    }
    return true;
}

/* The groups along the best choices into group[n], counted on from *ngroup. */
static void
collect(Subgraph *k, uint32_t root, uint32_t *group, uint32_t *ngroup)
{
    VEC(uint32_t) todo = { 0 };

    VEC_PUSH(k->arena, &todo, root);
    while (todo.n) {
        const SearchState *s = &k->state.at[todo.at[--todo.n]];
        for (uint32_t i = 0; i < s->ncomponent; i++)
            VEC_PUSH(k->arena, &todo, k->component.at[s->component + i]);
        if (s->group == NONE)
            continue;
        subgraph_take(k, s->group, group, ++*ngroup);
        if (s->rest != NONE)
            VEC_PUSH(k->arena, &todo, s->rest);
    }
}

bool
subgraph_exact(Subgraph *k, const SetWord *all, uint32_t *group, uint32_t *ngroup, int64_t *price)
{
    uint32_t root = state_of(k, all);

    k->frame.n = k->choice.n = 0; /* of a search that met a limit */
    k->over = false;
    if (!solve(k, root))
        return false;
    *price = k->state.at[root].price;
    collect(k, root, group, ngroup);
    return true;
}
