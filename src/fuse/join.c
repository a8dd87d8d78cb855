/* join: groups that are less work as one kernel, by the price of their best schedules.
 *
 * Whether a candidate (candidates.c) pays, nobody here knows: the joint kernels and their pieces
 * are made, and their schedules priced by whoever asked. Of those that pay some want the same
 * group, and some would wait for each other: which are taken is an exact choice (pick.h). The plan
 * stays as it is until then, so that no candidate's price depends on another.
 */
#include "fuse/join.h"
#include "fuse/pick.h"

#include <math.h>
#include <string.h>

/* They bound the choice among candidates: a part of them that meets one takes the greatest gains
 * first, and the certificate says so. */
#define MOST_STEPS 200000         /* states of candidates that want the same groups: 20 ms */
#define MOST_CIRCLES 256          /* each asks for the order of all groups some ten times */
#define WISHED ((int64_t)1 << 51) /* more than all else gains [picoseconds]: two of MOST_SECONDS */
/* bounds what is added up in picoseconds: what takes longer counts as much */
#define MOST_SECONDS 1000.0

JoinCounts
join_nodes(Join *j, const Fusion *composed, const NodeId *group, uint32_t n)
{
    uint32_t nodes = order_nodes(&j->order, group, n, j->node);

    return (JoinCounts){ nodes, fuse_hosts(composed, j->node, nodes, j->host) };
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The plan with what ends the rows of a candidate in its second product. What it does is done there
 * for each tile of columns, on one element at a time; as a part of its own, once, in vectors. */
static const Fusion *
compose_within(Join *j, Arena *a)
{
    FusePlan *inlined = NEW(a, FusePlan);
    Fusion *within = NEW(a, Fusion);
    bool any = false;

    *inlined = fuse_copy(j->g, a, j->plan);
    for (uint32_t i = 0; i < j->found.n; i++) {
        const JoinCandidate *t = &j->found.at[i];
        if (!t->last)
            continue;
        inlined->group[t->last] = j->plan->group[t->member[t->n - 1]];
        fuse_set(j->g, inlined, t->last, 0, (FuseEdge){ EDGE_INLINE, 0 });
        any = true;
    }
    *within = any ? fuse_compose(j->g, a, inlined, NULL) : *j->f;
    return within;
}

/* How deep all readers of a value share its axes. */
static void
set_depth(const Fusion *f, ValueId v, uint32_t depth)
{
    for (uint32_t r = 0; r < f->edges[v].n; r++)
        f->edges[v].at[r].depth = depth;
}

/* A candidate as one kernel, composed so. */
static Asked
joint(Join *j, const JoinCandidate *t, const Fusion *composed)
{
    JoinCounts n = join_nodes(j, composed, t->group, t->n);
    Asked a = { 0 };

    if (n.hosts > FUSE_MAX_PARTS)
        return a;
    uint32_t shared = fuse_shared(composed, j->host, n.hosts);
    if (shared < t->depth || (!shared && !fuse_beside(composed, j->host, n.hosts)))
        return a; /* as where a window of many channels reads a product of one */
    set_depth(composed, t->between, t->depth);
    a.kernel = fuse_kernel(composed, j->node, n.nodes, &a.data);
    set_depth(composed, t->between, 0);
    return a;
}

static void
make(Join *j, JoinCandidate *t)
{
    t->made = true;
    t->whole = joint(j, t, j->f);
    if (t->last && j->within->host[t->last] != t->last) /* it could be done there */
        t->within = joint(j, t, j->within);
    for (uint32_t i = 0; i < t->n; i++) {
        Asked *own = &j->own[t->group[i]];
        if (!own->kernel)
            own->kernel =
                fuse_kernel(j->f, j->node, join_nodes(j, j->f, &t->group[i], 1).nodes, &own->data);
    }
}

/* ---- prices ---------------------------------------------------------------------------------- */

static double
price_of(const Join *j, Asked a)
{
    return a.kernel ? j->price->of(j->price->user, &a.kernel, &a.data, 1) : -1;
}

static void
price_candidate(Join *j, JoinCandidate *t)
{
    const Kernel *piece[ORDER_MOST_JOINED];
    const void *const *data[ORDER_MOST_JOINED];

    t->asked = true;
    if (!t->made)
        make(j, t);
    for (uint32_t i = 0; i < t->n; i++) {
        piece[i] = j->own[t->group[i]].kernel;
        data[i] = j->own[t->group[i]].data;
    }
    t->together = -1;
    t->apart =
        t->whole.kernel || t->within.kernel ? j->price->of(j->price->user, piece, data, t->n) : -1;
    if (t->apart < 0)
        return;
    double whole = price_of(j, t->whole), within = price_of(j, t->within);
    t->inner = within >= 0 && (whole < 0 || within <= whole);
    t->together = t->inner ? within : whole;
}

static int64_t
picoseconds(double seconds)
{
    return llround(fmin(seconds, MOST_SECONDS) * 1e12);
}

static bool
has(const JoinCandidate *t, NodeId group)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->group[i] == group)
            return true;
    return false;
}

static bool
is_part(const JoinCandidate *t, const JoinCandidate *of)
{
    for (uint32_t k = 0; k < t->n; k++)
        if (!has(of, t->group[k]))
            return false;
    return true;
}

/* Does a candidate that pays, and is no part of this one, want one of its groups? */
static bool
is_wanted(const Join *j, const JoinCandidate *of, NodeId group)
{
    for (uint32_t i = 0; i < j->paying[group].n; i++)
        if (!is_part(&j->found.at[j->paying[group].at[i]], of))
            return true;
    return false;
}

/* Is it what must be, whatever it takes? */
static bool
is_wished(const Join *j, const JoinCandidate *t)
{
    return t->known && t->together >= 0 && j->wish[0] != j->wish[1] && has(t, j->wish[0]) &&
           has(t, j->wish[1]);
}

/* Do products side by side save all that can be saved, as prices are rounded? */
static bool
saves_all(const Join *j, const JoinCandidate *t)
{
    return j->price->beside > 0 &&
           t->gain >= (t->n - 1) * picoseconds(j->price->beside + j->price->kernel) - t->n;
}

/* Of products side by side no choice of smaller sets saves more than one that saves all: such a set
 * is needed only where all that are missing in it are wanted otherwise, or where one between both
 * does not save all. */
static bool
is_needed(const Join *j, const JoinCandidate *t)
{
    const JoinCandidate *u = t->instead ? &j->found.at[t->instead - 1] : NULL;

    if (!u || j->all)
        return true;
    if (!u->known || !t->side_by_side)
        return u->known && u->gain <= 0;
    for (const JoinCandidate *between = u; between < t; between++)
        if (between->known && is_part(t, between) && !saves_all(j, between))
            return true;
    for (uint32_t i = 0; i < u->n; i++)
        if (!has(t, u->group[i]) && !is_wanted(j, u, u->group[i]))
            return false;
    return true;
}

/* All prices that are needed; what is known tells of more. */
static void
price_all(Join *j)
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
            JoinCandidate *t = &j->found.at[i];
            if (!t->asked || t->known)
                continue;
            t->gain = t->together < 0
                          ? 0
                          : picoseconds(t->apart) + (t->n - 1) * picoseconds(j->price->kernel) -
                                picoseconds(t->together);
            more = t->known = true;
            for (uint32_t k = 0; k < t->n && (t->gain > 0 || is_wished(j, t)); k++)
                VEC_PUSH(j->f->arena, &j->paying[t->group[k]], i);
        }
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct {
    Join *j;
    Arena *arena;
    const uint32_t *candidate;
} Items;

static bool
may(void *user, const uint32_t *item, uint32_t n)
{
    const Items *s = user;
    Arena *a = arena_child(s->arena);
    Order o = order_begin(s->j->f, a, s->j->plan->group);
    bool ok = true;

    for (uint32_t i = 0; i < n && ok; i++) {
        const JoinCandidate *t = &s->j->found.at[s->candidate[item[i]]];
        ok = order_join(&o, t->group, t->n);
    }
    arena_free(a);
    return ok;
}

static FuseJoining
choose(Join *j, Arena *a)
{
    uint32_t *candidate = NEW_ARRAY(a, uint32_t, j->found.n + 1),
             *first = NEW_ARRAY(a, uint32_t, j->found.n + 1), n = 0, ngroup = 0;
    uint32_t *group = NEW_ARRAY(a, uint32_t, j->found.n *ORDER_MOST_JOINED + 1);
    int64_t *gain = NEW_ARRAY(a, int64_t, j->found.n + 1);
    FuseJoining told = { .unlisted = j->unlisted };

    for (uint32_t i = 0; i < j->found.n; i++) {
        const JoinCandidate *t = &j->found.at[i];
        bool wished = is_wished(j, t);
        told.candidates += t->known && t->together >= 0;
        told.pay += t->gain > 0;
        if (t->gain <= 0 && !wished)
            continue;
        candidate[n] = i;
        gain[n] = t->gain + (wished ? WISHED : 0);
        for (uint32_t k = 0; k < t->n; k++)
            group[ngroup++] = j->order.at[t->group[k]];
        first[++n] = ngroup;
    }
    PickProblem problem = { .n = n,
                            .ngroup = j->plan->ngroup + 1,
                            .gain = gain,
                            .first = first,
                            .group = group,
                            .may = may,
                            .user = &(Items){ j, a, candidate },
                            .most_steps = MOST_STEPS,
                            .most_circles = MOST_CIRCLES };
    PickResult r = pick_best(&problem, a);
    int64_t taken = 0;
    for (uint32_t i = 0; i < n; i++) {
        j->found.at[candidate[i]].taken = r.chosen[i];
        told.taken += r.chosen[i];
        taken += r.chosen[i] ? j->found.at[candidate[i]].gain : 0;
    }
    told.rivals = r.rivals;
    told.circles = r.circles;
    told.exact = r.exact;
    told.seconds = (double)taken / 1e12;
    told.bound = (double)(taken + r.bound - r.gain) / 1e12;
    return told;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* The reads of a group's nodes [n], in which `last`, if it is some node, is computed where it is
 * read. */
static void
settle(Join *j, const JoinCandidate *t, NodeId last, uint32_t n)
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
take(Join *j, const JoinCandidate *t)
{
    Text why = { .arena = j->g->ctx->arena };
    NodeId last = t->inner ? t->last : 0;

    text_add(&why, t->side_by_side ? "one kernel with products of the same: "
                                   : "one kernel with what feeds it: ");
    text_seconds(&why, t->together);
    text_add(&why, ", apart ");
    text_seconds(&why, t->apart);
    JoinCounts n = join_nodes(j, j->f, t->group, t->n);
    for (uint32_t i = 0; i < n.hosts; i++)
        if (j->host[i] != last)
            j->plan->why[j->host[i]] = text_str(&why);
    settle(j, t, last, n.nodes);
    order_join(&j->order, t->group, t->n);
}

/* What those gain that were taken and want a group of this one. */
static void
find_rivals(const Join *j, const JoinCandidate *t, FuseTried *tried)
{
    for (uint32_t k = 0; k < t->n; k++)
        for (uint32_t i = 0; i < j->paying[t->group[k]].n; i++) {
            const JoinCandidate *other = &j->found.at[j->paying[t->group[k]].at[i]];
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

/* Candidates that were not taken are kept, to be told. */
static void
keep_tried(Join *j, Arena *to)
{
    for (uint32_t i = 0; i < j->found.n; i++) {
        const JoinCandidate *t = &j->found.at[i];
        FuseTried tried = { .together = t->together, .apart = t->apart, .given_up = t->gain > 0 };
        if (t->taken || !t->known || t->together < 0)
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
fuse_join(const Graph *g, Arena *to, const FusePlan *before, const FuseWish *wish,
          const FusePrice *price, FuseJoining *told)
{
    Arena *a = arena_child(g->ctx->arena);
    FusePlan plan = fuse_copy(g, to, before), *p = &plan;
    Fusion f = fuse_compose(g, a, p, NULL);
    uint32_t nn = g->node.n;
    Join j = { .g = g,
               .plan = p,
               .f = &f,
               .order = order_begin(&f, a, p->group),
               .node = NEW_ARRAY(a, NodeId, nn + 1),
               .host = NEW_ARRAY(a, NodeId, nn + 1),
               .newest = NEW_ARRAY(a, uint32_t, nn + 1),
               .own = NEW_ARRAY(a, Asked, nn + 1),
               .price = price };

    NodeId wished[2];
    if (wish && wish->first && fuse_wished(g, wish, wished)) {
        j.wish[0] = j.order.group[wished[0]];
        j.wish[1] = j.order.group[wished[1]];
    }
    j.paying = arena_alloc_array(a, nn + 1, sizeof *j.paying);
    join_candidates(&j);
    j.within = compose_within(&j, a);
    price_all(&j);
    *told = choose(&j, a);
    /* a part of what stands side by side may close none */
    if (told->circles) {
        j.all = true;
        price_all(&j);
        *told = choose(&j, a);
    }
    keep_tried(&j, to);
    for (uint32_t i = 0; i < j.found.n; i++)
        if (j.found.at[i].taken)
            take(&j, &j.found.at[i]);
    memcpy(p->group, j.order.group, nn * sizeof *p->group);
    fuse_number(g, to, p);
    arena_free(a);
    return plan;
}
