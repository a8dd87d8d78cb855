/* winograd: selects the convolutions that use the Winograd domain, by predicted time.
 *
 * The decision for a convolution is repeated whenever the layouts of its operands change: a
 * kernel's price is that of the cheapest way to compute it.
 */
#include "driver/internal.h"

#include <math.h>

void
domains_begin(Prices *p)
{
    Map known = p->j->domains.known; /* filters do not depend on the query */

    known.arena = p->j->arena;
    p->j->domains = (FormatDomains){ choose_price, p,
                                     FOLD_BYTES,   p->j->o->weights_growth,
                                     known,        p->j->o->max_arena_bytes };
}

double
domains_seconds(Prices *p, const Kernel *k, const void *const *data)
{
    Job *j = p->j;
    Arena *scratch = arena_child(j->arena);
    uint32_t tile = 0;

    double direct = choose_price(p, k, data_is_known(scratch, data, k->nin));
    double domain = j->o->exact ? direct
                                : format_domain(j->ctx, k, data, &j->domains,
                                                direct < 0 ? INFINITY : direct, &tile);
    arena_free(scratch);
    return tile ? domain : direct;
}

typedef struct {
    Job *j;
    Text *remarks;
} Choose;

static Graph *
choose(void *user, const Graph *g)
{
    const Choose *x = user;
    return format_domains(g, &x->j->domains, x->remarks);
}

bool
domains_choose(Job *j, Text *remarks)
{
    if (j->o->plain_schedule || j->o->exact)
        return true;
    Graph *g = graph_map(j->graph, choose, &(Choose){ j, remarks });
    if (g)
        j->graph = g;
    return g != NULL;
}
