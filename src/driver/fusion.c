/* fusion: plan which nests become one kernel, from options and prices, and report it in dumps. */
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

bool
fusion_known(Job *j)
{
    FuseMode mode;

    return fusion_mode(j->o->fuse, &mode) ||
           diag_usage(&j->ctx->diags,
                      "--fuse: \"%s\" is not known. Give dp (the cheapest partition) or none",
                      j->o->fuse);
}

/* Adds the reason for each node's place to the dump of the fused graph. */
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

/* g with the value of --keep as one more output. */
static Graph
with_kept(Job *j, const Graph *g)
{
    Graph kept = *g;

    if (!j->o->keep)
        return kept;
    kept.output.at = arena_copy(j->arena, g->output.at, g->output.n * sizeof *g->output.at);
    kept.output.cap = kept.output.n;
    for (ValueId v = 1; v < g->value.n; v++)
        if (!strcmp(g->value.at[v].name, j->o->keep) && g->value.at[v].def) {
            VEC_PUSH(j->arena, &kept.output, v);
            j->keeping = true;
        }
    return kept;
}

FuseRequest
fusion_pair(Job *j, const Graph *g, const FusePlan *p, const char *text)
{
    for (const char *comma = text ? strchr(text, ',') : NULL; comma;
         comma = strchr(comma + 1, ',')) {
        FuseRequest w = { arena_printf(j->arena, "%.*s", (int)(comma - text), text), comma + 1 };
        if (fuse_granted(g, p, &w) != UNKNOWN)
            return w;
    }
    return (FuseRequest){ 0 };
}

static bool
is_granted(Job *j, const Graph *g, const FusePlan *p, const FuseRequest *w)
{
    if (!w->first)
        return true;
    j->paired = true;
    return fuse_granted(g, p, w) == YES ||
           model_error(j, DIAG_USAGE, "--must-fuse %s: %s%s", j->o->must_fuse,
                       fuse_why(g, j->arena, &j->machine, p, w->first, w->second),
                       strcmp(j->o->fuse, "dp")
                           ? "; --fuse dp looks for a plan that has them together"
                           : "");
}

/* The text of --fuse-plan, parsed up to the graph that is planned next; NULL: reported. */
static Parse *
plan_text(Job *j)
{
    Bytes file;

    if (!j->fuse_plan) {
        if (!file_map(j->arena, &j->ctx->diags, j->o->fuse_plan, &file))
            return NULL;
        j->fuse_plan = NEW(j->arena, Parse);
        *j->fuse_plan = parse_begin(j->ctx, j->o->fuse_plan, file);
    }
    return j->fuse_plan;
}

/* Reads the plan of --fuse-plan. */
static bool
read_plan(Job *j, const Graph *g, FusePlan *p, FuseCertificate *known)
{
    Parse *text = plan_text(j);

    *known = (FuseCertificate){ .mode = FUSE_GIVEN, .seconds = -1, .bound = -1, .second_best = -1 };
    return text && fuse_parse_plan(g, j->arena, text, p);
}

/* Seconds that one kernel fewer saves beside its price: in each run a kernel's code, branches and
 * first cache lines are cold. Kernels of 0.06 to 0.5 us take 0.2 to 0.4 us more than their price in
 * EfficientNet-B0 on a Zen 5 core. */
#define KERNEL_SECONDS 0.3e-6

/* Answers the recorded queries; if there were none, starts to record again. */
static bool
ask_again(void *prices)
{
    bool again = choose_noted(prices);

    if (!again)
        choose_note(prices);
    return again;
}

/* The plan that --fuse makes. */
static FusePlan
make_plan(Job *j, const Graph *g, const FuseRequest *request, FuseCertificate *known)
{
    FuseMode mode = FUSE_DP;

    fusion_mode(j->o->fuse, &mode);
    FusePlan p = fuse_plan(g, j->arena, &j->machine, mode, request, known);
    if (mode == FUSE_DP && !j->o->plain_schedule) {
        Prices prices = choose_prices(j);
        domains_begin(&prices);
        choose_note(&prices);
        p = fuse_merge(g, j->arena, &p, request,
                       &(FusePrice){ choose_price_in_turn, ask_again, &prices, KERNEL_SECONDS },
                       &known->merging);
    }
    return p;
}

/* Is there a printer, and is its output for people rather than JSON? */
static bool
is_told(const Job *j)
{
    return j->o->print && j->o->explain < 2;
}

/* Reduces plans to the first joins over all graphs (--fuse-bisect), and reports the last of
 * them. */
static void
take_merges(Job *j, const Graph *g, FusePlan *p, FuseCertificate *known)
{
    uint32_t all = fuse_merges(g, p),
             most = j->o->fuse_bisect > 0 ? (uint32_t)j->o->fuse_bisect : 0,
             left = most > j->merges ? most - j->merges : 0;
    NodeId last;

    j->merges += all;
    if (!most || left > all)
        return;
    *known =
        (FuseCertificate){ .mode = known->mode, .seconds = -1, .bound = -1, .second_best = -1 };
    *p = fuse_first_merges(g, j->arena, p, left, &last);
    if (last && is_told(j)) {
        Text t = { .arena = j->arena };
        text_printf(&t, "join %u: %%", most);
        text_name(&t, g->value.at[node_out(g, &g->node.at[last], 0)].name);
        text_printf(&t, " of %s\n", fuse_label(g, last));
        j->o->print(j->o->user, text_str(&t));
    }
}

static Graph *
fuse_nests(void *user, const Graph *nests)
{
    Job *j = user;
    FuseCertificate known = { 0 };
    Graph kept = with_kept(j, nests), *g = &kept;
    FusePlan none = fuse_none(g, j->arena), p;
    FuseRequest request = fusion_pair(j, g, &none, j->o->must_fuse);

    if (!j->o->fuse_plan)
        p = make_plan(j, g, &request, &known);
    else if (!read_plan(j, g, &p, &known))
        return NULL;
    take_merges(j, g, &p, &known);
    explain_fusion(j, g, &p, &known);
    add_remarks(j, g, &p, known.bound >= 0 ? &known : NULL);
    Graph *to = is_granted(j, g, &p, &request) ? fuse_apply(g, &p) : NULL;
    if (to)
        to->output.n = nests->output.n;
    return to;
}

/* Reports names in options that no graph has. */
bool
fusion_named(Job *j)
{
    if (j->o->keep && !j->keeping)
        return model_error(
            j, DIAG_USAGE,
            "--keep %s: no node makes a value of that name; --dump=normalise shows their names",
            j->o->keep);
    if (j->o->must_fuse && !j->paired)
        return model_error(j, DIAG_USAGE,
                           "--must-fuse %s: give two nodes of one graph, A,B, by the names of "
                           "operators or of their values",
                           j->o->must_fuse);
    if (j->fuse_plan && !parse_end(j->fuse_plan))
        return parse_error(j->fuse_plan,
                           "the model has no more graphs with nests, and the plan goes on");
    if (j->o->fuse_bisect > 0 && (uint32_t)j->o->fuse_bisect > j->merges && is_told(j))
        j->o->print(j->o->user,
                    arena_printf(j->arena, j->merges == 1 ? "the only join\n" : "all %u joins\n",
                                 j->merges));
    return explain_answered(j);
}

/* A text may enter at any level; its kernels are fused already. */
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
    return has_nests(g) ? fuse_control_flow(g, fuse_nests, job) : (Graph *)g;
}
