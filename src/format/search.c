/* search: find the choice of least total cost, exactly (bucket elimination).
 *
 * Costs are tables over a few variables each. A variable is eliminated by adding the tables that
 * name it and keeping, for every choice of the other variables, its best value: one new table. When
 * none is left, the total is known, and walking back gives the choice. The elimination order,
 * fewest entries first, affects only the size of tables.
 *
 * Equal tables are shared, and eliminating a variable from equal tables that are related in the
 * same way is done once: of 42 equal layers one is solved, the others are looked up.
 *
 * Source: Dechter, Artificial Intelligence 113, 1999 (bucket elimination).
 */
#include "base/heap.h"
#include "format/format.h"

#include <math.h>
#include <string.h>

typedef struct {
    uint64_t entries;
    const double *cost;
    uint32_t id;
} Contents; /* interned */
typedef struct {
    uint32_t n;
    const uint32_t *var;
    const Contents *of;
    bool gone;
} PriceTable;
typedef struct {
    const Contents *left;
    const uint32_t *best;
    size_t bytes;
    const void *key;
} Solved;
typedef struct {
    uint32_t var, nscope;
    const uint32_t *scope;
    const uint32_t *best;
} Eliminated;
typedef struct {
    Arena *arena;
    const FormatProblem *p;
    VEC(PriceTable) table;
    VEC(uint32_t) * of;   /* [nvar]: the tables that name it, some eliminated */
    Map contents, solved; /* by hash: Contents, Solved */
    uint32_t ncontents, nsolved;
    uint64_t *entries;     /* [nvar]: entries of the table that its elimination makes */
    Heap waiting;          /* variables, the one with fewest entries first (wait_of) */
    bool *done;            /* [nvar] */
    uint32_t *seen, stamp; /* [nvar]: scratch: the variable that visited it last */
} Elimination;

/* ---- tables ---------------------------------------------------------------------------------- */

static const Contents *
interned(Elimination *s, uint64_t entries, const double *cost)
{
    uint64_t hash = hash_bytes(cost, entries * sizeof *cost, entries), at;

    for (; map_get(&s->contents, hash, &at); hash++) {
        const Contents *c = (const Contents *)(uintptr_t)at;
        if (c->entries == entries && !memcmp(c->cost, cost, entries * sizeof *cost))
            return c;
    }
    Contents *c = NEW(s->arena, Contents);
    *c = (Contents){ entries, cost, s->ncontents++ };
    map_put(&s->contents, hash, MAP_PTR(c));
    return c;
}

static void
add_table(Elimination *s, uint32_t n, const uint32_t *var, const Contents *of)
{
    VEC_PUSH(s->arena, &s->table, ((PriceTable){ n, var, of, false }));
    for (uint32_t i = 0; i < n; i++)
        VEC_PUSH(s->arena, &s->of[var[i]], s->table.n - 1);
}

static uint64_t
entries_of(const Elimination *s, uint32_t n, const uint32_t *var)
{
    uint64_t entries = 1;

    for (uint32_t i = 0; i < n; i++)
        entries *= s->p->size[var[i]];
    return entries;
}

/* ---- which is next --------------------------------------------------------------------------- */

/* Fewest entries first, then the first variable. */
static uint64_t
wait_of(const Elimination *s, uint32_t var)
{
    return (s->entries[var] < UINT32_MAX ? s->entries[var] : UINT32_MAX) << 32 | var;
}

/* The tables that name `var` and are not eliminated. */
static void
drop_gone(Elimination *s, uint32_t var)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->of[var].n; i++)
        if (!s->table.at[s->of[var].at[i]].gone)
            s->of[var].at[n++] = s->of[var].at[i];
    s->of[var].n = n;
}

/* Recomputes the size of the table that eliminating a variable would make. */
static void
count(Elimination *s, uint32_t var)
{
    uint64_t entries = 1;

    drop_gone(s, var);
    s->seen[var] = ++s->stamp;
    for (uint32_t t = 0; t < s->of[var].n; t++) {
        const PriceTable *table = &s->table.at[s->of[var].at[t]];
        for (uint32_t i = 0; i < table->n; i++) {
            uint32_t v = table->var[i];
            if (s->seen[v] == s->stamp)
                continue;
            s->seen[v] = s->stamp;
            entries = entries > UINT64_MAX / s->p->size[v] ? UINT64_MAX : entries * s->p->size[v];
        }
    }
    s->entries[var] = entries;
    heap_push(&s->waiting, wait_of(s, var));
}

/* The variable whose elimination makes the smallest table. */
static uint32_t
smallest(Elimination *s)
{
    uint64_t w;

    do
        w = heap_pop(&s->waiting);
    while (s->done[(uint32_t)w] || w != wait_of(s, (uint32_t)w));
    return (uint32_t)w;
}

/* ---- eliminating ----------------------------------------------------------------------------- */

typedef struct {
    uint32_t nscope, *scope;
    uint32_t ntable;
    const PriceTable **table;
    uint32_t **place;
} Bucket;

/* The tables of a variable in ascending order; the scope: the other variables that they name, in
 * order of appearance; and for each table the positions of its variables in the scope, or the
 * scope's length for the variable itself. */
static Bucket
bucket_of(Elimination *s, uint32_t var)
{
    uint32_t n = s->of[var].n;
    Bucket b = { .table = NEW_ARRAY(s->arena, const PriceTable *, n + 1),
                 .place = NEW_ARRAY(s->arena, uint32_t *, n + 1) };
    VEC(uint32_t) scope = { 0 };

    for (uint32_t t = 0; t < n; t++) {
        const PriceTable *table = &s->table.at[s->of[var].at[t]];
        uint32_t at = b.ntable++;
        for (; at > 0 && b.table[at - 1]->of->id > table->of->id; at--)
            b.table[at] = b.table[at - 1];
        b.table[at] = table;
    }
    for (uint32_t t = 0; t < b.ntable; t++) {
        b.place[t] = NEW_ARRAY(s->arena, uint32_t, b.table[t]->n + 1);
        for (uint32_t i = 0; i < b.table[t]->n; i++) {
            uint32_t v = b.table[t]->var[i], k = 0;
            while (v != var && k < scope.n && scope.at[k] != v)
                k++;
            if (v != var && k == scope.n)
                VEC_PUSH(s->arena, &scope, v);
            b.place[t][i] = v == var ? UINT32_MAX : k;
        }
    }
    b.nscope = scope.n;
    b.scope = scope.at;
    return b;
}

/* The key of an elimination: all that its result depends on. */
static const uint32_t *
key_of(Elimination *s, uint32_t var, const Bucket *b, size_t *bytes)
{
    VEC(uint32_t) key = { 0 };

    VEC_PUSH(s->arena, &key, s->p->size[var]);
    VEC_PUSH(s->arena, &key, b->nscope);
    for (uint32_t i = 0; i < b->nscope; i++)
        VEC_PUSH(s->arena, &key, s->p->size[b->scope[i]]);
    for (uint32_t t = 0; t < b->ntable; t++) {
        VEC_PUSH(s->arena, &key, b->table[t]->of->id);
        for (uint32_t i = 0; i < b->table[t]->n; i++)
            VEC_PUSH(s->arena, &key, b->place[t][i]);
    }
    *bytes = key.n * sizeof *key.at;
    return key.at;
}

/* The entry of table t for a choice of the scope, the variable being v. */
static double
entry(const Elimination *s, const Bucket *b, uint32_t t, const uint32_t *choice, uint32_t v)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < b->table[t]->n; i++)
        at = at * s->p->size[b->table[t]->var[i]] +
             (b->place[t][i] == UINT32_MAX ? v : choice[b->place[t][i]]);
    return b->table[t]->of->cost[at];
}

/* Subtracts the minimum from all entries: it decides nothing, and without it a long chain of equal
 * layers soon gives equal tables. */
static void
take_least(uint64_t entries, double *cost)
{
    double least = INFINITY;

    for (uint64_t i = 0; i < entries; i++)
        least = cost[i] < least ? cost[i] : least;
    for (uint64_t i = 0; i < entries && isfinite(least); i++)
        cost[i] -= least;
}

static Solved
solve(Elimination *s, uint32_t var, const Bucket *b)
{
    uint64_t entries = entries_of(s, b->nscope, b->scope);
    uint32_t *choice = NEW_ARRAY(s->arena, uint32_t, b->nscope + 1),
             *best = NEW_ARRAY(s->arena, uint32_t, entries);
    double *cost = NEW_ARRAY(s->arena, double, entries);

    for (uint64_t at = 0; at < entries; at++) {
        for (uint32_t v = 0; v < s->p->size[var]; v++) {
            double sum = 0;
            for (uint32_t t = 0; t < b->ntable; t++)
                sum += entry(s, b, t, choice, v);
            if (v == 0 || sum < cost[at]) {
                cost[at] = sum;
                best[at] = v;
            }
        }
        for (uint32_t i = b->nscope; i-- > 0 && ++choice[i] == s->p->size[b->scope[i]];)
            choice[i] = 0;
    }
    take_least(entries, cost);
    return (Solved){ interned(s, entries, cost), best, 0, NULL };
}

static const Solved *
solved(Elimination *s, uint32_t var, const Bucket *b)
{
    size_t bytes;
    const uint32_t *key = key_of(s, var, b, &bytes);
    uint64_t hash = hash_bytes(key, bytes, 1), at;

    for (; map_get(&s->solved, hash, &at); hash++) {
        const Solved *known = (const Solved *)(uintptr_t)at;
        if (known->bytes == bytes && !memcmp(known->key, key, bytes))
            return known;
    }
    Solved *fresh = NEW(s->arena, Solved);
    *fresh = solve(s, var, b);
    fresh->bytes = bytes;
    fresh->key = key;
    map_put(&s->solved, hash, MAP_PTR(fresh));
    s->nsolved++;
    return fresh;
}

static Eliminated
eliminate(Elimination *s, uint32_t var)
{
    Bucket b = bucket_of(s, var);
    const Solved *r = solved(s, var, &b);

    s->done[var] = true;
    for (uint32_t i = 0; i < s->of[var].n; i++)
        s->table.at[s->of[var].at[i]].gone = true;
    add_table(s, b.nscope, b.scope, r->left);
    for (uint32_t i = 0; i < b.nscope; i++)
        count(s, b.scope[i]);
    return (Eliminated){ var, b.nscope, b.scope, r->best };
}

/* ---- one variable at a time, for what is too wide -------------------------------------------- */

static double
entry_at(const Elimination *s, const PriceTable *t, const uint32_t *choice)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < t->n; i++)
        at = at * s->p->size[t->var[i]] + choice[t->var[i]];
    return t->of->cost[at];
}

/* The tables of `var` whose variables are all decided. */
static double
complete_tables(const Elimination *s, uint32_t var, const bool *decided, const uint32_t *choice)
{
    double sum = 0;

    for (uint32_t k = 0; k < s->of[var].n; k++) {
        const PriceTable *t = &s->table.at[s->of[var].at[k]];
        bool all = !t->gone;
        for (uint32_t i = 0; i < t->n && all; i++)
            all = decided[t->var[i]];
        sum += all ? entry_at(s, t, choice) : 0;
    }
    return sum;
}

/* The value of `var` that costs least beside the others; true: it is another one, and better. */
static bool
improve(const Elimination *s, uint32_t var, const bool *decided, uint32_t *choice)
{
    uint32_t was = choice[var], best = was;
    double least = complete_tables(s, var, decided, choice);

    for (uint32_t c = 0; c < s->p->size[var]; c++) {
        choice[var] = c;
        double sum = complete_tables(s, var, decided, choice);
        best = sum < least ? c : best;
        least = sum < least ? sum : least;
    }
    choice[var] = best;
    return best != was;
}

/* Decides one variable after the other, then changes one at a time until no change helps. */
static void
climb(Elimination *s, uint32_t *choice)
{
    bool *decided = NEW_ARRAY(s->arena, bool, s->p->nvar), better = true;

    for (uint32_t v = 0; v < s->p->nvar; v++)
        if (!s->done[v]) {
            choice[v] = 0;
            decided[v] = true;
            improve(s, v, decided, choice);
        }
    while (better) {
        better = false;
        for (uint32_t v = 0; v < s->p->nvar; v++)
            better |= decided[v] && improve(s, v, decided, choice);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static double
total(const FormatProblem *p, const uint32_t *choice)
{
    double sum = 0;

    for (uint32_t f = 0; f < p->nfactor; f++) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < p->factor[f].n; i++)
            at = at * p->size[p->factor[f].var[i]] + choice[p->factor[f].var[i]];
        sum += p->factor[f].cost[at];
    }
    return sum;
}

FormatResult
format_search(Arena *a, const FormatProblem *p, uint32_t *choice)
{
    Arena *scratch = arena_child(a);
    Elimination s = { .arena = scratch,
                      .p = p,
                      .contents.arena = scratch,
                      .solved.arena = scratch,
                      .waiting.arena = scratch,
                      .done = NEW_ARRAY(scratch, bool, p->nvar + 1),
                      .entries = NEW_ARRAY(scratch, uint64_t, p->nvar + 1),
                      .seen = NEW_ARRAY(scratch, uint32_t, p->nvar + 1) };
    Eliminated *order = NEW_ARRAY(scratch, Eliminated, p->nvar + 1);
    FormatResult r = { .exact = true };
    uint64_t most = p->max_table ? p->max_table : FORMAT_MAX_TABLE;
    uint32_t n = 0;

    s.of = arena_alloc_array(scratch, p->nvar + 1, sizeof *s.of);
    for (uint32_t f = 0; f < p->nfactor; f++)
        add_table(
            &s, p->factor[f].n, p->factor[f].var,
            interned(&s, entries_of(&s, p->factor[f].n, p->factor[f].var), p->factor[f].cost));
    for (uint32_t v = 0; v < p->nvar; v++)
        count(&s, v);
    for (; n < p->nvar && r.exact; n++) {
        uint32_t var = smallest(&s);
        r.widest = s.entries[var] > r.widest ? s.entries[var] : r.widest;
        r.exact = s.entries[var] <= most;
        if (!r.exact)
            break;
        order[n] = eliminate(&s, var);
    }
    if (!r.exact)
        climb(&s, choice);
    while (n-- > 0) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < order[n].nscope; i++)
            at = at * p->size[order[n].scope[i]] + choice[order[n].scope[i]];
        choice[order[n].var] = order[n].best[at];
    }
    r.cost = total(p, choice);
    r.solved = s.nsolved;
    arena_free(scratch);
    return r;
}
