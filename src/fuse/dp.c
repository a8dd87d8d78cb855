/* dp: find the cheapest partition of the nests into groups.
 *
 * Views are inlined everywhere first (legal.c). The nodes that are left go to the exact search
 * (search.h), which asks whether nodes may be a group (legal.c) and what a group costs (price.c).
 * The chosen groups are composed once more, so that the plan has an edge kind for each read.
 *
 * The search is exact for partitions into connected groups. It does not consider values that
 * several groups compute (except views), what one kernel leaves in a cache for the next, and
 * memory.
 */
#include "fuse/internal.h"
#include "fuse/search.h"
#include "fuse/sets.h"

#include <math.h>

/* Limits of the exact search of a component; where one is met, merging makes its partition
 * (greedy.c). */
#define MOST_STATES 300000 /* some hundred megabytes, some seconds */
#define MOST_STEPS 4000000
/* groups of nests with few operands: one takes from a tenth of a millisecond to eight */
#define MOST_COMPOSED 2500

typedef struct {
    FuseNodes s;
    Pricing *pricing;
    Member *member;      /* [s.n] */
    uint32_t request[2]; /* nodes that the user wants together; NO_SLOT: none */
} Dp;

static bool
may(void *user, const uint32_t *node, uint32_t n)
{
    Dp *d = user;
    Member member[FUSE_MOST_MEMBERS];

    for (uint32_t i = 0; i < n; i++)
        member[i] = d->member[node[i]];
    return !fuse_no_group(d->s.f.ctx, member, n);
}

/* A group without rows has one stage, so only one of its values can be read outside: this is known
 * without composing it. */
static bool
is_hopeless(const Dp *d, const uint32_t *node, const NodeId *id, uint32_t n)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < n; i++) {
        const FusedCall *p = &d->s.f.call[id[i]];
        bool escapes = false;
        if (d->member[node[i]].kind == MEMBER_ROW)
            return false;
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            escapes |= fuse_escapes(&d->s.f, p->value[o], id, n);
        seen += escapes;
    }
    return seen > 1;
}

/* The penalty of a wished node without its partner [seconds]: more than any plan that grants the
 * wish. Prices above 1,000 s count as 1,000 s (subgraph.c). */
#define UNWISHED 500.0

static double
price(void *user, const uint32_t *node, uint32_t n)
{
    Dp *d = user;
    NodeId id[FUSE_MOST_MEMBERS] = { 0 };
    uint32_t requested = 0;

    for (uint32_t i = 0; i < n; i++) {
        id[i] = d->s.node[node[i]];
        requested += node[i] == d->request[0] || node[i] == d->request[1];
    }
    if (is_hopeless(d, node, id, n))
        return INFINITY;
    GroupPrice p = fuse_group_price(d->pricing, id, n);
    return p.no && n > 1 ? INFINITY : p.seconds + (requested == 1 ? UNWISHED : 0);
}

static void
begin(Dp *d, const Graph *g, Arena *scratch, const Machine *m)
{
    d->s = fuse_nodes(g, scratch, &fuse_rules_views);
    d->member = NEW_ARRAY(scratch, Member, d->s.n + 1);
    d->request[0] = d->request[1] = NO_SLOT;
    d->pricing = fuse_pricing(&d->s.f, scratch, m);
    for (uint32_t i = 0; i < d->s.n; i++)
        d->member[i] = fuse_member(&d->s.f, d->s.node[i]);
}

typedef VEC(SearchEdge) SearchEdges;

/* Adds the edges into node n. Reads that simplifying has dropped still order nodes, but no group
 * contains them. */
static void
add_edges(Dp *d, SearchEdges *edges, NodeId n)
{
    const FusedCall *p = &d->s.f.call[n];

    for (uint32_t r = 0; r < d->s.f.reads[n].n; r++) {
        ValueId v = d->s.f.reads[n].at[r];
        NodeId def = d->s.g->value.at[v].def;
        bool read = false;
        if (!def || d->s.f.stage[def] != def)
            continue;
        for (uint32_t i = 0; i < p->nest->nin; i++)
            read |= p->value[i] == v;
        VEC_PUSH(d->s.scratch, edges, ((SearchEdge){ d->s.at[def], d->s.at[n], read }));
    }
}

FusePlan
fuse_dp(const Graph *g, Arena *a, const Machine *m, const FuseRequest *request,
        FuseCertificate *certificate)
{
    Arena *scratch = arena_child(g->ctx->arena);
    SearchEdges edges = { 0 };
    double start = time_seconds();
    Dp d;

    begin(&d, g, scratch, m);
    if (request && request->first) {
        d.request[0] = fuse_find(&d.s, request->first);
        d.request[1] = fuse_find(&d.s, request->second);
        if (d.request[0] == NO_SLOT || d.request[1] == NO_SLOT || d.request[0] == d.request[1])
            d.request[0] = d.request[1] = NO_SLOT;
    }
    double *least = NEW_ARRAY(scratch, double, d.s.n + 1);
    for (uint32_t i = 0; i < d.s.n; i++) {
        least[i] = fuse_least_seconds(d.pricing, d.s.node[i]);
        add_edges(&d, &edges, d.s.node[i]);
    }
    SearchProblem problem = { .n = d.s.n,
                              .edge = edges.at,
                              .nedge = edges.n,
                              .most = FUSE_MOST_MEMBERS,
                              .may = may,
                              .price = price,
                              .least = least,
                              .start = m->call_seconds,
                              .user = &d,
                              .most_states = MOST_STATES,
                              .most_steps = MOST_STEPS,
                              .spent = fuse_spent(d.pricing),
                              .most_spent = MOST_COMPOSED };
    SearchResult r = search_partition(&problem, scratch);
    FusePlan p = fuse_assemble(&d.s, a, r.group, r.ngroup);
    bool separate = d.request[0] != NO_SLOT && r.group[d.request[0]] != r.group[d.request[1]];
    double unwished = separate ? 2 * UNWISHED : 0;
    if (certificate)
        *certificate = (FuseCertificate){ FUSE_DP,
                                          r.seconds - unwished,
                                          r.bound - unwished,
                                          -1,
                                          r.exact,
                                          r.states,
                                          r.steps,
                                          r.priced,
                                          *fuse_composed(d.pricing),
                                          time_seconds() - start };
    arena_free(scratch);
    return p;
}
