/* explain: print what fusion decided, as text and as JSON. */
#include "driver/internal.h"

static void
value_as_json(Text *t, const Graph *g, ValueId v)
{
    text_member(t, "{", "value", g->value.at[v].name);
    text_member(t, ", ", "type", type_str(g->ctx, g->value.at[v].type));
}

/* Prints each nest before fusion, for fusion rules that are scripts. */
static void
nests_as_json(Text *t, const Graph *g, const FuseNotes *n)
{
    text_add(t, ",\n \"nests_before\": [");
    for (uint32_t i = 0; i < n->nest.n; i++) {
        const FuseNestNote *e = &n->nest.at[i];
        const Node *node = &g->node.at[e->node];
        text_member(t, i ? ",\n  {" : "\n  {", "operator", node->origin ? node->origin : "");
        text_printf(t,
                    ", \"elementwise\": %s, \"reduces\": %s, \"contraction\": %s, \"mixed\": "
                    "%s, \"visible\": %s, \"bytes\": %.0f, \"makes\": [",
                    e->elementwise ? "true" : "false", e->reduces ? "true" : "false",
                    e->contraction ? "true" : "false", e->mixed ? "true" : "false",
                    e->visible ? "true" : "false", e->bytes);
        for (uint32_t o = 0; o < node->out.count; o++) {
            text_add(t, o ? ", " : "");
            value_as_json(t, g, node_out(g, node, o));
            text_add(t, "}");
        }
        text_add(t, "], \"inputs\": [");
        for (uint32_t k = 0, any = 0; k < node->in.count; k++)
            if (node_in(g, node, k)) {
                text_add(t, any++ ? ", " : "");
                text_json(t, g->value.at[node_in(g, node, k)].name);
            }
        text_add(t, "], \"reads\": [");
        for (uint32_t r = 0; r < e->read.n; r++) {
            text_add(t, r ? ", " : "");
            value_as_json(t, g, e->read.at[r].value);
            text_printf(t, ", \"mapping\": \"%s\", \"constant\": %s}",
                        mapping_name[e->read.at[r].mapping],
                        g->value.at[e->read.at[r].value].data ? "true" : "false");
        }
        text_add(t, "]}");
    }
    text_add(t, "]");
}

/* One object for each graph with nests. nests: list the nests before fusion too. */
static void
as_json(Text *t, const Graph *g, const FuseNotes *n, bool nests)
{
    const FuseCertificate *k = &n->known;

    text_member(t, "{", "graph", g->name);
    text_printf(t,
                ", \"mode\": \"%s\", \"nests\": %u, \"kernels\": %u, \"joins\": %u, \"seconds\": "
                "%.9g, \"bound\": %.9g, \"second_best\": %.9g, \"exact\": %s, "
                "\"states\": %llu, \"sets\": %llu, \"priced\": %llu, \"composed\": %llu, "
                "\"search_seconds\": %.6f,\n \"groups\": [",
                fuse_mode_name[k->mode], n->nests, n->kernels, n->merges, k->seconds, k->bound,
                k->second_best, k->exact ? "true" : "false", (unsigned long long)k->states,
                (unsigned long long)k->steps, (unsigned long long)k->priced,
                (unsigned long long)k->composed, k->search_seconds);
    for (uint32_t i = 0; i < n->group.n; i++) {
        const FuseGroupNote *e = &n->group.at[i];
        text_printf(
            t, "%s\n  {\"kernel\": %u, \"nests\": %u, \"seconds\": %.9g, \"saved_bytes\": %.0f",
            i ? "," : "", e->kernel, e->nests, e->seconds, e->saved);
        text_member(t, ", ", "name", e->name);
        text_add(t, ", \"operators\": [");
        for (uint32_t at = 0; at < e->operators.n; at++) {
            text_add(t, at ? ", " : "");
            text_json(t, e->operators.at[at]);
        }
        text_add(t, "]}");
    }
    const FuseMerging *merging = &k->merging;
    text_printf(
        t,
        "],\n \"joining\": {\"candidates\": %u, \"pay\": %u, \"rivals\": %u, \"circles\": %u, "
        "\"taken\": %u, \"gain\": %.9g, \"bound\": %.9g, \"exact\": %s}",
        merging->candidates, merging->pay, merging->rivals, merging->cycles, merging->taken,
        merging->seconds, merging->bound, merging->exact ? "true" : "false");
    text_add(t, ",\n \"ports\": [");
    for (uint32_t i = 0; i < n->port.n; i++) {
        const FusePortNote *e = &n->port.at[i];
        text_printf(t, "%s\n  {\"kernel\": %u, \"way\": \"%s\", \"bytes\": %.0f", i ? "," : "",
                    e->kernel, e->in ? "in" : "out", e->bytes);
        text_member(t, ", ", "value", g->value.at[e->value].name);
        text_add(t, "}");
    }
    text_add(t, "],\n \"apart\": [");
    for (uint32_t i = 0; i < n->pair.n; i++) {
        const FusePairNote *e = &n->pair.at[i];
        text_printf(t,
                    "%s\n  {\"from\": %u, \"to\": %u, \"bytes\": %.0f, \"reason\": \"%s\", "
                    "\"together\": %.9g, \"separate\": %.9g",
                    i ? "," : "", e->from, e->to, e->bytes, separate_name[e->reason], e->merged,
                    e->separate);
        text_member(t, ", ", "value", e->name);
        text_member(t, ", ", "text", e->text);
        text_add(t, "}");
    }
    text_add(t, "]");
    if (nests)
        nests_as_json(t, g, n);
    text_add(t, "}\n");
}

static void
as_text(Text *t, const Graph *g, const FuseNotes *n)
{
    uint32_t count[SEPARATE_COUNT] = { 0 };
    double saved = 0;

    for (uint32_t i = 0; i < n->pair.n; i++)
        count[n->pair.at[i].reason]++;
    for (uint32_t i = 0; i < n->group.n; i++)
        saved += n->group.at[i].saved;
    text_printf(t, "%s: ", g->name);
    text_count(t, n->nests, "nest");
    text_add(t, " in ");
    text_count(t, n->kernels, "kernel");
    text_add(t, " by ");
    text_count(t, n->merges, "join");
    text_add(t, ", ");
    text_size(t, (int64_t)saved);
    text_add(t, " that never go to memory\n");
    fuse_print_certificate(t, &n->known);
    text_printf(t, "\nneighbours apart: %u", n->pair.n);
    for (uint32_t r = 0; r < SEPARATE_COUNT; r++)
        if (count[r])
            text_printf(t, ", %u %s", count[r], separate_name[r]);
    text_add(t, "\n");
    for (uint32_t i = 0, at = 0; i < n->group.n; i++) {
        const FuseGroupNote *e = &n->group.at[i];
        text_printf(t, "\nkernel %u: %s\n  ", e->kernel, e->name);
        text_count(t, e->nests, "nest");
        text_add(t, ", ");
        text_seconds(t, e->seconds);
        if (e->saved > 0) {
            text_add(t, ", keeps ");
            text_size(t, (int64_t)e->saved);
        }
        text_add(t, "\n");
        for (; at < n->pair.n && n->pair.at[at].from == e->kernel; at++) {
            const FusePairNote *p = &n->pair.at[at];
            text_printf(t, "  apart from kernel %u, which reads %%%s (", p->to, p->name);
            text_size(t, (int64_t)p->bytes);
            text_printf(t, "): %s: %s\n", separate_name[p->reason], p->text);
        }
    }
}

/* Winograd domains are chosen with the layouts, and so is which values are stored within others. */
void
explain_kernels(Job *j, uint32_t fused, uint32_t with_domains, uint32_t end)
{
    Text t = { .arena = j->arena };

    if (j->o->explain != 1 || j->o->why || !j->o->print || fused == end)
        return;
    text_add(&t, "\ncompiled, these are ");
    text_count(&t, end, "kernel");
    if (with_domains != fused)
        text_printf(&t, "; the domains of Winograd convolutions add %u", with_domains - fused);
    if (end != with_domains)
        text_printf(&t, "; %u only copied to what is stored in place now", with_domains - end);
    text_add(&t, "\n");
    j->o->print(j->o->user, text_str(&t));
}

bool
explain_answered(Job *j)
{
    return !j->o->why || j->answered ||
           model_error(
               j, DIAG_USAGE,
               "--why %s: give two nodes, A,B, by the names of operators or of their values; "
               "none here are called so (or they are of different graphs)",
               j->o->why);
}

void
explain_fusion(Job *j, const Graph *g, const FusePlan *p, const FuseCertificate *known)
{
    Text t = { .arena = j->arena };

    if (!j->o->explain || j->o->explain == 4 || !(j->o->print || j->o->page))
        return;
    if (j->o->page) {
        text_add(&j->explained, j->explained.n ? "," : "");
        FuseNotes all = fuse_explain(g, j->arena, &j->machine, p, known);
        as_json(&j->explained, g, &all, false);
        return;
    }
    if (j->o->why) {
        FuseRequest pair = fusion_pair(j, g, p, j->o->why);
        j->answered |= pair.first != NULL;
        if (pair.first)
            text_printf(&t, "%s\n", fuse_why(g, j->arena, &j->machine, p, pair.first, pair.second));
    } else if (j->o->explain == 3) {
        fuse_print_plan(g, &t, p);
    } else {
        FuseNotes n = fuse_explain(g, j->arena, &j->machine, p, known);
        if (j->o->explain == 2)
            as_json(&t, g, &n, true);
        else
            as_text(&t, g, &n);
    }
    if (t.n)
        j->o->print(j->o->user, text_str(&t));
}
