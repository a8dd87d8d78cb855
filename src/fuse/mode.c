/* mode: a plan by the way of making it, and what is known of it as text. */
#include "fuse/internal.h"

const char *const fuse_mode_name[FUSE_MODE_COUNT + 1] = { "none",   "tvm", "dnnf",
                                                          "greedy", "dp",  "given" };
const char *const apart_name[APART_COUNT] = { "together", "visible",  "order", "pair", "capacity",
                                              "cost",     "unproven", "rival", "user" };

FusePlan
fuse_plan(const Graph *g, Arena *a, const Machine *m, FuseMode mode, const FuseWish *wish,
          FuseCertificate *known)
{
    *known = (FuseCertificate){ .mode = mode, .seconds = -1, .bound = -1, .second_best = -1 };
    switch (mode) {
    case FUSE_NONE:
    case FUSE_GIVEN: break;
    case FUSE_TVM: return fuse_tvm(g, a);
    case FUSE_DNNF: return fuse_dnnf(g, a);
    case FUSE_GREEDY: return fuse_greedy(g, a, m);
    case FUSE_DP: return fuse_dp(g, a, m, wish, known);
    }
    return fuse_none(g, a);
}

/* What joining knows of its choice, if it had one. */
static void
print_joining(Text *t, const FuseJoining *k)
{
    if (!k->candidates)
        return;
    text_printf(t, "; joining: %u of %u candidates pay", k->pay, k->candidates);
    if (k->pay) {
        text_printf(t, ", %u want what others want; %u taken, gaining ", k->rivals, k->taken);
        text_seconds(t, k->seconds);
        text_add(t, ", no choice gains more");
    }
    if (!k->exact) {
        text_add(t, " than ");
        text_seconds(t, k->bound);
    }
    if (k->unlisted)
        text_printf(t, "; not all sets of products side by side are candidates, of %u value%s",
                    k->unlisted, k->unlisted == 1 ? "" : "s");
}

static void
print_search(Text *t, const FuseCertificate *k)
{
    text_seconds(t, k->seconds);
    text_add(t, " predicted");
    if (k->second_best >= 0) {
        text_add(t, ", the next best ");
        text_seconds(t, k->second_best);
    }
    if (k->bound < 0)
        return;
    text_add(t, ", no partition takes less");
    if (!k->exact) {
        text_add(t, " than ");
        text_seconds(t, k->bound);
    }
    text_printf(t, "; %llu states, %llu sets, %llu prices of which %llu new",
                (unsigned long long)k->states, (unsigned long long)k->steps,
                (unsigned long long)k->priced, (unsigned long long)k->composed);
}

void
fuse_print_certificate(Text *t, const FuseCertificate *k)
{
    text_printf(t, "%s: ", fuse_mode_name[k->mode]);
    print_search(t, k);
    print_joining(t, &k->joining);
}
