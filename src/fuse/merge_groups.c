/* merge_groups: merge groups of a plan where the best schedule of the joint kernel is faster.
 *
 * For each candidate (candidates.c) the joint kernel and the kernels of its groups are made, and
 * the caller prices their schedules. Candidates that pay may share groups, or form cycles together:
 * an exact choice (set_packing.h) takes the legal set of largest total gain. Until then the plan
 * does not change, so no candidate's price depends on another candidate.
 */
#include "fuse/merge_groups.h"
#include "fuse/set_packing.h"

#include <math.h>
#include <string.h>

/* Limit of the choice among candidates: a cluster that meets it is solved greedily, and the
 * certificate says so. */
#define MOST_STEPS 1000000        /* candidates looked at among those that share groups: 20 ms */
#define WISHED ((int64_t)1 << 51) /* exceeds all other gains [picoseconds]: twice MOST_SECONDS */
/* bounds sums of picoseconds: longer times count as this */
#define MOST_SECONDS 1000.0

MergeCounts
merge_nodes(GroupMerge *j, const Fusion *composed, const NodeId *group, uint32_t n)
{
    uint32_t nodes = order_nodes(&j->order, group, n, j->node);

    return (MergeCounts){ nodes, fuse_stages(composed, j->node, nodes, j->stage) };
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The plan with each candidate's `last` inlined into its second contraction. There its work is
 * repeated for each tile of columns, one element at a time; as a stage of its own it is done once,
 * in vectors. */
static const Fusion *
compose_within(GroupMerge *j, Arena *a)
{
    FusePlan *inlined = NEW(a, FusePlan);
    Fusion *within = NEW(a, Fusion);
    bool any = false;

    *inlined = fuse_copy(j->g, a, j->plan);
    for (uint32_t i = 0; i < j->found.n; i++) {
        const MergeCandidate *t = &j->found.at[i];
        if (!t->last)
            continue;
        inlined->group[t->last] = j->plan->group[t->member[t->n - 1]];
        fuse_set(j->g, inlined, t->last, 0, (FuseEdge){ EDGE_INLINE, 0 });
        any = true;
    }
    *within = any ? fuse_compose(j->g, a, inlined, NULL, NULL) : *j->f;
    return within;
}

/* Sets the depth of all edges of a value. */
static void
set_depth(const Fusion *f, ValueId v, uint32_t depth)
{
    for (uint32_t r = 0; r < f->edges[v].n; r++)
        f->edges[v].at[r].depth = depth;
}

/* The joint kernel of a candidate. */
static KernelQuery
joint(GroupMerge *j, const MergeCandidate *t, const Fusion *composed)
{
    MergeCounts n = merge_nodes(j, composed, t->group, t->n);
    KernelQuery a = { 0 };

    if (n.stages > FUSE_MAX_PARTS)
        return a;
    uint32_t shared = fuse_shared(composed, j->stage, n.stages);
    if (shared < t->depth || (!shared && !fuse_are_independent(composed, j->stage, n.stages)))
        return a; /* for example a window over many channels that reads a contraction of one */
    set_depth(composed, t->between, t->depth);
    a.kernel = fuse_kernel(composed, j->node, n.nodes, &a.data);
    set_depth(composed, t->between, 0);
    return a;
}

static void
make(GroupMerge *j, MergeCandidate *t)
{
    t->made = true;
    t->whole = joint(j, t, j->f);
    if (t->last && j->within->stage[t->last] != t->last) /* inlining it was possible */
        t->within = joint(j, t, j->within);
    for (uint32_t i = 0; i < t->n; i++) {
        KernelQuery *own = &j->own[t->group[i]];
        if (!own->kernel)
            own->kernel =
                fuse_kernel(j->f, j->node, merge_nodes(j, j->f, &t->group[i], 1).nodes, &own->data);
    }
}

/* ---- prices ---------------------------------------------------------------------------------- */

static double
price_of(const GroupMerge *j, KernelQuery a)
{
    return a.kernel ? j->price->of(j->price->user, &a.kernel, &a.data, 1) : -1;
}

static void
price_candidate(GroupMerge *j, MergeCandidate *t)
{
    const Kernel *own[ORDER_MOST_MERGED];
    const void *const *data[ORDER_MOST_MERGED];

    t->asked = true;
    if (!t->made)
        make(j, t);
    for (uint32_t i = 0; i < t->n; i++) {
        own[i] = j->own[t->group[i]].kernel;
        data[i] = j->own[t->group[i]].data;
    }
    t->merged = -1;
    t->separate =
        t->whole.kernel || t->within.kernel ? j->price->of(j->price->user, own, data, t->n) : -1;
    if (t->separate < 0)
        return;
    double whole = price_of(j, t->whole), within = price_of(j, t->within);
    t->inner = within >= 0 && (whole < 0 || within <= whole);
    t->merged = t->inner ? within : whole;
}

static int64_t
picoseconds(double seconds)
{
    return llround(fmin(seconds, MOST_SECONDS) * 1e12);
}

static bool
has(const MergeCandidate *t, NodeId group)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->group[i] == group)
            return true;
    return false;
}

/* Does it grant the user's wish? */
static bool
is_wished(const GroupMerge *j, const MergeCandidate *t)
{
    return t->known && t->merged >= 0 && j->request[0] != j->request[1] && has(t, j->request[0]) &&
           has(t, j->request[1]);
}

/* A second way to merge the same groups needs a price if the first does not pay. */
static bool
is_needed(const GroupMerge *j, const MergeCandidate *t)
{
    const MergeCandidate *u = t->instead ? &j->found.at[t->instead - 1] : NULL;

    return !u || (u->known && u->gain <= 0);
}

/* Queries all prices that are needed; known prices may make more needed. */
static void
price_all(GroupMerge *j)
{
    bool more = true;

    while (more) {
        more = false;
        do
            for (uint32_t i = 0; i < j->found.n; i++)
                if (!j->found.at[i].known && is_needed(j, &j->found.at[i]))
                    price_candidate(j, &j->found.at[i]);
        while (j->price->again && j->price->again(j->price->user));
        for (uint32_t i = 0; i < j->found.n; i++) {
            MergeCandidate *t = &j->found.at[i];
            if (!t->asked || t->known)
                continue;
            t->gain = t->merged < 0
                          ? 0
                          : picoseconds(t->separate) + (t->n - 1) * picoseconds(j->price->kernel) -
                                picoseconds(t->merged);
            more = t->known = true;
            for (uint32_t k = 0; k < t->n && (t->gain > 0 || is_wished(j, t)); k++)
                VEC_PUSH(j->f->arena, &j->paying[t->group[k]], i);
        }
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct {
    GroupMerge *j;
    Arena *arena;
    const uint32_t *candidate;
} MergeItems;

static bool
may(void *user, const uint32_t *item, uint32_t n)
{
    const MergeItems *s = user;
    Arena *a = arena_child(s->arena);
    GroupOrder o = order_begin(s->j->f, a, s->j->plan->group);
    bool ok = true;

    for (uint32_t i = 0; i < n && ok; i++) {
        const MergeCandidate *t = &s->j->found.at[s->candidate[item[i]]];
        ok = order_merge(&o, t->group, t->n);
    }
    arena_free(a);
    return ok;
}

static FuseMerging
choose(GroupMerge *j, Arena *a)
{
    uint32_t *candidate = NEW_ARRAY(a, uint32_t, j->found.n + 1),
             *first = NEW_ARRAY(a, uint32_t, j->found.n + 1), n = 0, ngroup = 0;
    uint32_t *group = NEW_ARRAY(a, uint32_t, j->found.n *ORDER_MOST_MERGED + 1);
    int64_t *gain = NEW_ARRAY(a, int64_t, j->found.n + 1);
    FuseMerging told = { 0 };

    for (uint32_t i = 0; i < j->found.n; i++) {
        const MergeCandidate *t = &j->found.at[i];
        bool requested = is_wished(j, t);
        told.candidates += t->known && t->merged >= 0;
        told.pay += t->gain > 0;
        if (t->gain <= 0 && !requested)
            continue;
        candidate[n] = i;
        gain[n] = t->gain + (requested ? WISHED : 0);
        for (uint32_t k = 0; k < t->n; k++)
            group[ngroup++] = j->order.at[t->group[k]];
        first[++n] = ngroup;
    }
    PackingProblem problem = { .n = n,
                               .ngroup = j->plan->ngroup + 1,
                               .gain = gain,
                               .first = first,
                               .group = group,
                               .may = may,
                               .user = &(MergeItems){ j, a, candidate },
                               .most_steps = MOST_STEPS };
    PackingResult r = packing_best(&problem, a);
    int64_t taken = 0;
    for (uint32_t i = 0; i < n; i++) {
        j->found.at[candidate[i]].taken = r.chosen[i];
        told.taken += r.chosen[i];
        taken += r.chosen[i] ? j->found.at[candidate[i]].gain : 0;
    }
    told.rivals = r.rivals;
    told.cycles = r.cycles;
    told.exact = r.exact;
    told.seconds = (double)taken / 1e12;
    told.bound = (double)(taken + r.bound - r.gain) / 1e12;
    return told;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Sets the edges inside the merged group j->node [n]; last: the node that is inlined, or 0. */
static void
settle(GroupMerge *j, const MergeCandidate *t, NodeId last, uint32_t n)
{
    const Graph *g = j->g;

    for (uint32_t k = 0; k < n; k++) {
        const Node *node = &g->node.at[j->node[k]];
        for (uint32_t i = 0; i < node->in.count; i++) {
            FuseEdge *e = &j->plan->edge[node->in.first + i];
            NodeId def = g->value.at[node_in(g, node, i)].def;
            if (!fuse_is_among(j->node, n, def) || e->kind == EDGE_INLINE ||
                e->kind == EDGE_RECOMPUTE)
                continue;
            *e = (FuseEdge){ def == last ? EDGE_INLINE : EDGE_SCRATCH,
                             def == t->member[0] && t->depth ? t->depth : e->depth };
        }
    }
}

static void
take(GroupMerge *j, const MergeCandidate *t)
{
    Text why = { .arena = j->g->ctx->arena };
    NodeId last = t->inner ? t->last : 0;

    text_add(&why, t->side_by_side ? "one kernel with contractions of the same value: "
                                   : "one kernel with what feeds it: ");
    text_seconds(&why, t->merged);
    text_add(&why, ", apart ");
    text_seconds(&why, t->separate);
    MergeCounts n = merge_nodes(j, j->f, t->group, t->n);
    for (uint32_t i = 0; i < n.stages; i++)
        if (j->stage[i] != last)
            j->plan->why[j->stage[i]] = text_str(&why);
    settle(j, t, last, n.nodes);
    order_merge(&j->order, t->group, t->n);
}

/* Collects the accepted candidates that share a group with this one. */
static void
find_rivals(const GroupMerge *j, const MergeCandidate *t, FuseTried *tried)
{
    for (uint32_t k = 0; k < t->n; k++)
        for (uint32_t i = 0; i < j->paying[t->group[k]].n; i++) {
            const MergeCandidate *other = &j->found.at[j->paying[t->group[k]].at[i]];
            bool met = !other->taken;
            for (uint32_t before = 0; before < k; before++)
                met |= has(other, t->group[before]);
            if (met)
                continue;
            tried->rival = other->member[other->group[0] == t->group[k] ? other->n - 1 : 0];
            tried->rivals += (double)other->gain / 1e12;
            tried->nrival++;
        }
}

/* Keeps rejected candidates for explanations. */
static void
keep_tried(GroupMerge *j, Arena *to)
{
    for (uint32_t i = 0; i < j->found.n; i++) {
        const MergeCandidate *t = &j->found.at[i];
        FuseTried tried = { .merged = t->merged, .separate = t->separate, .given_up = t->gain > 0 };
        if (t->taken || !t->known || t->merged < 0)
            continue;
        if (tried.given_up)
            find_rivals(j, t, &tried);
        for (uint32_t k = 0; k + 1 < t->n; k++) {
            tried.from = t->member[k];
            tried.to = t->member[k + 1];
            VEC_PUSH(to, &j->plan->tried, tried);
        }
    }
}

FusePlan
fuse_merge(const Graph *g, Arena *to, const FusePlan *before, const FuseRequest *request,
           const FusePrice *price, FuseMerging *told)
{
    Arena *a = arena_child(g->ctx->arena);
    FusePlan plan = fuse_copy(g, to, before), *p = &plan;
    Fusion f = fuse_compose(g, a, p, NULL, NULL);
    uint32_t nn = g->node.n;
    GroupMerge j = { .g = g,
                     .plan = p,
                     .f = &f,
                     .order = order_begin(&f, a, p->group),
                     .node = NEW_ARRAY(a, NodeId, nn + 1),
                     .stage = NEW_ARRAY(a, NodeId, nn + 1),
                     .newest = NEW_ARRAY(a, uint32_t, nn + 1),
                     .own = NEW_ARRAY(a, KernelQuery, nn + 1),
                     .price = price };

    NodeId requested[2];
    if (request && request->first && fuse_requested(g, request, requested)) {
        j.request[0] = j.order.group[requested[0]];
        j.request[1] = j.order.group[requested[1]];
    }
    j.paying = arena_alloc_array(a, nn + 1, sizeof *j.paying);
    merge_candidates(&j);
    j.within = compose_within(&j, a);
    price_all(&j);
    *told = choose(&j, a);
    keep_tried(&j, to);
    for (uint32_t i = 0; i < j.found.n; i++)
        if (j.found.at[i].taken)
            take(&j, &j.found.at[i]);
    memcpy(p->group, j.order.group, nn * sizeof *p->group);
    fuse_number(g, to, p);
    arena_free(a);
    return plan;
}
