/* search: the choice of least cost, exactly.
 *
 * Costs are tables over a few variables each. A variable is eliminated by adding the tables that name it and keeping, for
 * every choice of the others in them, its best value: one new table. When none is left the total is known, and going
 * back through what was kept gives the choice. The order, fewest entries first, decides only how large tables become.
 *
 * Source: Dechter, Artificial Intelligence 113, 1999 (bucket elimination).
 */
#include "format/format.h"

#include <string.h>

typedef struct {
    uint32_t n;
    const uint32_t *var;
    const double *cost;
    bool gone;
} Table;

typedef struct { uint32_t n, *var; } Scope;          /* ascending */
typedef struct { uint32_t var; Scope scope; uint32_t *best; } Eliminated;

typedef struct {
    Arena *arena;
    const FormatProblem *p;
    VEC(Table) table;
    bool *done;                          /* [nvar] */
    uint32_t *choice;                    /* [nvar]: what a table is read at */
} Search;

static bool
names(const Table *t, uint32_t var)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->var[i] == var)
            return true;
    return false;
}

/* The entry of a table at the current choice; its variables may stand in any order. */
static double
entry(const Search *s, uint32_t n, const uint32_t *var, const double *cost)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < n; i++)
        at = at * s->p->size[var[i]] + s->choice[var[i]];
    return cost[at];
}

/* The other variables of the tables that name `var`, ascending; the entries of a table over them, or more than the limit. */
static uint64_t
neighbours(Search *s, uint32_t var, Scope *scope)
{
    bool *in = NEW_ARRAY(s->arena, bool, s->p->nvar);
    uint64_t entries = 1;

    for (uint32_t t = 0; t < s->table.n; t++)
        for (uint32_t i = 0; !s->table.at[t].gone && names(&s->table.at[t], var) && i < s->table.at[t].n; i++)
            in[s->table.at[t].var[i]] = true;
    scope->n = 0;
    for (uint32_t v = 0; v < s->p->nvar; v++)
        if (in[v] && v != var) {
            scope->var[scope->n++] = v;
            entries = entries > FORMAT_MAX_TABLE ? entries : entries * s->p->size[v];
        }
    return entries;
}

/* The next choice of the variables, the last one fastest; false after the last. */
static bool
advance(Search *s, const Scope *scope)
{
    for (uint32_t i = scope->n; i-- > 0; ) {
        if (++s->choice[scope->var[i]] < s->p->size[scope->var[i]])
            return true;
        s->choice[scope->var[i]] = 0;
    }
    return false;
}

static Eliminated
eliminate(Search *s, uint32_t var, const Scope *scope, uint64_t entries)
{
    Eliminated e = { var, *scope, NEW_ARRAY(s->arena, uint32_t, entries) };
    double *cost = NEW_ARRAY(s->arena, double, entries);
    uint64_t at = 0;

    for (uint32_t i = 0; i < scope->n; i++)
        s->choice[scope->var[i]] = 0;
    do {
        for (uint32_t v = 0; v < s->p->size[var]; v++) {
            double sum = 0;
            s->choice[var] = v;
            for (uint32_t t = 0; t < s->table.n; t++)
                if (!s->table.at[t].gone && names(&s->table.at[t], var))
                    sum += entry(s, s->table.at[t].n, s->table.at[t].var, s->table.at[t].cost);
            if (v == 0 || sum < cost[at]) {
                cost[at] = sum;
                e.best[at] = v;
            }
        }
        at++;
    } while (advance(s, scope));
    for (uint32_t t = 0; t < s->table.n; t++)
        s->table.at[t].gone |= names(&s->table.at[t], var);
    VEC_PUSH(s->arena, &s->table, ((Table){ scope->n, scope->var, cost, false }));
    return e;
}

/* The variable whose elimination makes the smallest table. */
static uint64_t
smallest(Search *s, uint32_t *var, Scope *scope)
{
    Scope trial = { .var = NEW_ARRAY(s->arena, uint32_t, s->p->nvar) };
    uint64_t best = UINT64_MAX;

    for (uint32_t v = 0; v < s->p->nvar; v++) {
        uint64_t entries = s->done[v] ? UINT64_MAX : neighbours(s, v, &trial);
        if (entries < best) {
            best = entries;
            *var = v;
            scope->n = trial.n;
            memcpy(scope->var, trial.var, trial.n * sizeof *trial.var);
        }
    }
    return best;
}

bool
format_search(Arena *a, const FormatProblem *p, uint32_t *choice, double *cost)
{
    Arena *scratch = arena_child(a);
    Search s = { .arena = scratch, .p = p, .done = NEW_ARRAY(scratch, bool, p->nvar + 1), .choice = choice };
    Eliminated *order = NEW_ARRAY(scratch, Eliminated, p->nvar + 1);
    bool ok = true;

    for (uint32_t f = 0; f < p->nfactor; f++)
        VEC_PUSH(scratch, &s.table, ((Table){ p->factor[f].n, p->factor[f].var, p->factor[f].cost, false }));
    uint32_t n = 0;
    for (; n < p->nvar && ok; n++) {
        Scope scope = { .var = NEW_ARRAY(scratch, uint32_t, p->nvar) };
        uint32_t var = 0;
        uint64_t entries = smallest(&s, &var, &scope);
        ok = entries <= FORMAT_MAX_TABLE;
        if (!ok)
            break;
        order[n] = eliminate(&s, var, &scope, entries);
        s.done[var] = true;
    }
    *cost = 0;
    for (uint32_t t = 0; t < s.table.n && ok; t++)
        *cost += s.table.at[t].gone ? 0 : *s.table.at[t].cost;
    while (ok && n-- > 0) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < order[n].scope.n; i++)
            at = at * p->size[order[n].scope.var[i]] + choice[order[n].scope.var[i]];
        choice[order[n].var] = order[n].best[at];
    }
    arena_free(scratch);
    return ok;
}
