/* chain: the choice of who sees a graph as chains, which others are compared with (--formats
 * chain).
 *
 * Of what each kernel reads, the first value that has a choice is the chain that it continues; what
 * else it reads lies as the model says, as far as this kernel's price goes. So every table is over
 * what a kernel writes and one thing that it reads, and dynamic programming along the chains
 * (Viterbi's) is exact; where chains meet, what that costs is not seen.
 */
#include "format/internal.h"

#include <string.h>

static bool
is_among(uint32_t x, const uint32_t *var, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (var[i] == x)
            return true;
    return false;
}

/* The variables of a factor that its chain has, into var; how many. */
static uint32_t
chain_of(const Formats *f, uint32_t factor, uint32_t *var)
{
    const FormatFactor *p = &f->factor.at[factor];
    const Node *node = &f->g->node.at[f->kernel[factor]];
    uint32_t n = 0;

    for (uint32_t i = 0; i < node->in.count && !n; i++) {
        uint32_t x = f->var[node_in(f->g, node, i)];
        if (x && is_among(x - 1, p->var, p->n))
            var[n++] = x - 1;
    }
    for (uint32_t i = 0; i < node->out.count; i++) {
        uint32_t x = f->var[node_out(f->g, node, i)];
        if (x && is_among(x - 1, p->var, p->n) && !is_among(x - 1, var, n))
            var[n++] = x - 1;
    }
    return n;
}

/* Its table over them, all others lying as the model says. choice [nvar]: scratch. */
static FormatFactor
table_of(const Formats *f, uint32_t factor, uint32_t *choice)
{
    uint32_t *var = NEW_ARRAY(f->arena, uint32_t, MAX_SCOPE), n = chain_of(f, factor, var);
    uint64_t entries = 1;

    memset(choice, 0, f->nvar * sizeof *choice);
    for (uint32_t i = 0; i < n; i++)
        entries *= f->size[var[i]];
    double *cost = NEW_ARRAY(f->arena, double, entries);
    for (uint64_t at = 0; at < entries; at++) {
        uint64_t rest = at;
        for (uint32_t i = n; i-- > 0; rest /= f->size[var[i]])
            choice[var[i]] = (uint32_t)(rest % f->size[var[i]]);
        cost[at] = format_entry(f, factor, choice);
    }
    return (FormatFactor){ n, var, cost };
}

void
format_chain(Formats *f, uint32_t *choice)
{
    FormatFactor *table = NEW_ARRAY(f->arena, FormatFactor, f->factor.n + f->kept.n + 1);
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->factor.n; i++)
        if (f->factor.at[i].n)
            table[n++] = table_of(f, i, choice);
    for (uint32_t i = 0; i < f->kept.n; i++)
        table[n++] = f->kept.at[i];
    format_search(f->arena, &(FormatProblem){ f->nvar, f->size, n, table, 0 }, choice);
    format_follow(f, choice);
}
