/* fusion: who decides which nests become one kernel, and what a dump says of it. */
#include "driver/internal.h"

#include <string.h>

bool
fusion_mode(const char *text, FuseMode *mode)
{
    for (uint32_t i = 0; i < FUSE_MODE_COUNT; i++)
        if (!strcmp(text, fuse_mode_name[i])) {
            *mode = (FuseMode)i;
            return true;
        }
    return false;
}

/* Why each node is where it is, in lines of the fused graph's dump. */
static void
add_remarks(Job *j, const Graph *g, const FusePlan *p, const FuseCertificate *known)
{
    Text t = { .arena = j->arena };

    text_add(&t, j->remarks ? j->remarks : "");
    if (known) {
        text_add(&t, "; ");
        fuse_print_certificate(&t, known);
        text_add(&t, "\n");
    }
    for (NodeId n = 1; n < g->node.n; n++)
        if (p->why[n]) {
            text_add(&t, "; %");
            text_name(&t, g->value.at[node_out(g, &g->node.at[n], 0)].name);
            text_printf(&t, ": %s\n", p->why[n]);
        }
    j->remarks = t.n ? text_str(&t) : NULL;
}

static Graph *
fuse_nests(void *user, const Graph *g)
{
    Job *j = user;
    FuseCertificate known = { 0 };
    FuseMode mode = FUSE_GREEDY;

    fusion_mode(j->o->fuse, &mode);
    FusePlan p = fuse_plan(g, j->arena, &j->machine, mode, &known);
    if ((mode == FUSE_GREEDY || mode == FUSE_DP) && j->o->schedule != SCHEDULE_PLAIN) {
        Prices prices = choose_prices(j);
        fuse_join(g, &p, &(FusePrice){ choose_price, choose_price_apart, &prices });
    }
    explain_fusion(j, g, &p, &known);
    add_remarks(j, g, &p, mode == FUSE_DP ? &known : NULL);
    return fuse_apply(g, &p);
}

/* Text may enter at any level: what is a kernel already was grouped by whoever wrote it. */
bool
has_nests(const Graph *g)
{
    for (NodeId n = 1; n < g->node.n; n++)
        if (g->node.at[n].callee == CALL_NEST)
            return true;
    return false;
}

Graph *
fusion_of(void *job, const Graph *g)
{
    return has_nests(g) ? fuse_between(g, fuse_nests, job) : (Graph *)g;
}
