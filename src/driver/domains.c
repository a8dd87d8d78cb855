/* domains: convolutions in a transform domain, by their price. What is decided of each is decided again wherever its operands may
 * lie otherwise: the price of a kernel is that of the cheapest way to do its work.
 */
#include "driver/internal.h"

#include <math.h>

typedef struct { Job *j; bool far; } Steps;

static double
step_seconds(void *user, const Kernel *k, const bool *constant)
{
    const Steps *s = user;
    return choose_step_seconds(s->j, k, constant, s->far);
}

void
domains_begin(Job *j, bool far)
{
    Steps *s = NEW(j->arena, Steps);

    *s = (Steps){ j, far };
    j->domains = (FormatDomains){ step_seconds, s, FOLD_BYTES, { .arena = j->arena } };
}

double
domains_seconds(Job *j, const Graph *g, NodeId n, const Kernel *k, bool far)
{
    double direct = choose_seconds(j, g, n, k, far);
    Arena *scratch = arena_child(j->arena);
    const void **data = NEW_ARRAY(scratch, const void *, k->nin + 1);
    uint32_t tile = 0;

    for (uint32_t i = 0; i < k->nin; i++)
        data[i] = g->value.at[node_in(g, &g->node.at[n], i)].data;
    double domain = j->o->exact ? direct : format_domain(j->ctx, scratch, k, data, &j->domains, direct < 0 ? INFINITY : direct, &tile);
    arena_free(scratch);
    return tile ? domain : direct;
}

typedef struct { Job *j; Text *remarks; } Choose;

static Graph *
choose(void *user, const Graph *g)
{
    const Choose *x = user;
    return format_domains(g, &x->j->domains, x->remarks);
}

bool
domains_choose(Job *j, Text *remarks)
{
    if (j->o->schedule == SCHEDULE_PLAIN || j->o->exact)
        return true;
    Graph *g = graph_map(j->graph, choose, &(Choose){ j, remarks });
    if (g)
        j->graph = g;
    return g != NULL;
}
