/* dp: the cheapest partition.
 *
 * Views vanish first, wherever they are read (legal.c): what is left are the nodes of a search
 * (search.h), which asks whether nodes may be a group (legal.c) and what it takes (price.c). The
 * groups that it gives are composed once more, so that the plan says of each read how its value
 * comes there, as every plan does.
 *
 * What is outside of the search, and so of the word exact: values computed in several groups (but
 * views), groups whose nodes are not connected, what stays in a cache from one kernel to the next,
 * and memory.
 */
#include "fuse/internal.h"
#include "fuse/search.h"
#include "fuse/sets.h"

#include <math.h>

/* They bound the exact search of a piece of the graph; where one is met a merged partition stands
 * there (merge.c). */
#define MOST_STATES 300000 /* some hundred megabytes, some seconds */
#define MOST_STEPS 4000000
/* groups of nests with few operands: one takes from a tenth of a millisecond to eight */
#define MOST_COMPOSED 2500

typedef struct {
    FuseNodes s;
    Pricing *pricing;
    Member *member;   /* [s.n] */
    uint32_t wish[2]; /* nodes that are to be together; NO_SLOT: none */
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

/* Without rows a group is one part, so one node of it is read outside, if any: told without
 * composing it. */
static bool
is_hopeless(const Dp *d, const uint32_t *node, const NodeId *id, uint32_t n)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < n; i++) {
        const Piece *p = &d->s.f.piece[id[i]];
        bool escapes = false;
        if (d->member[node[i]].kind == MEMBER_ROW)
            return false;
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            escapes |= fuse_escapes(&d->s.f, p->value[o], id, n);
        seen += escapes;
    }
    return seen > 1;
}

/* What a node costs beside its price where it is without the one that it is to be with [seconds]:
 * more than any plan that has both takes. Prices above 1,000 s count as that (piece.c). */
#define UNWISHED 500.0

static double
price(void *user, const uint32_t *node, uint32_t n)
{
    Dp *d = user;
    NodeId id[FUSE_MOST_MEMBERS] = { 0 };
    uint32_t wished = 0;

    for (uint32_t i = 0; i < n; i++) {
        id[i] = d->s.node[node[i]];
        wished += node[i] == d->wish[0] || node[i] == d->wish[1];
    }
    if (is_hopeless(d, node, id, n))
        return INFINITY;
    GroupPrice p = fuse_group_price(d->pricing, id, n);
    return p.no && n > 1 ? INFINITY : p.seconds + (wished == 1 ? UNWISHED : 0);
}

static void
begin(Dp *d, const Graph *g, Arena *scratch, const Machine *m)
{
    d->s = fuse_nodes(g, scratch, &fuse_rules_views);
    d->member = NEW_ARRAY(scratch, Member, d->s.n + 1);
    d->wish[0] = d->wish[1] = NO_SLOT;
    d->pricing = fuse_pricing(&d->s.f, scratch, m);
    for (uint32_t i = 0; i < d->s.n; i++)
        d->member[i] = fuse_member(&d->s.f, d->s.node[i]);
}

typedef VEC(SearchEdge) SearchEdges;

/* What a node reads orders it, even what simplifying has dropped; along that no group runs. */
static void
add_edges(Dp *d, SearchEdges *edges, NodeId n)
{
    const Piece *p = &d->s.f.piece[n];

    for (uint32_t r = 0; r < d->s.f.reads[n].n; r++) {
        ValueId v = d->s.f.reads[n].at[r];
        NodeId def = d->s.g->value.at[v].def;
        bool read = false;
        if (!def || d->s.f.host[def] != def)
            continue;
        for (uint32_t i = 0; i < p->nest->nin; i++)
            read |= p->value[i] == v;
        VEC_PUSH(d->s.scratch, edges, ((SearchEdge){ d->s.at[def], d->s.at[n], read }));
    }
}

FusePlan
fuse_dp(const Graph *g, Arena *a, const Machine *m, const FuseWish *wish,
        FuseCertificate *certificate)
{
    Arena *scratch = arena_child(g->ctx->arena);
    SearchEdges edges = { 0 };
    double start = time_seconds();
    Dp d;

    begin(&d, g, scratch, m);
    if (wish && wish->first) {
        d.wish[0] = fuse_find(&d.s, wish->first);
        d.wish[1] = fuse_find(&d.s, wish->second);
        if (d.wish[0] == NO_SLOT || d.wish[1] == NO_SLOT || d.wish[0] == d.wish[1])
            d.wish[0] = d.wish[1] = NO_SLOT;
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
    bool apart = d.wish[0] != NO_SLOT && r.group[d.wish[0]] != r.group[d.wish[1]];
    double unwished = apart ? 2 * UNWISHED : 0;
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

/* Could the search have found this group? node: ascending. */
static bool
is_found(Dp *d, const NodeId *node, uint32_t n, const GroupPrice *price)
{
    SearchEdges edges = { 0 };
    uint32_t *root = NEW_ARRAY(d->s.scratch, uint32_t, d->s.n + 1), left = n;
    bool *inside = NEW_ARRAY(d->s.scratch, bool, d->s.n + 1);

    for (uint32_t i = 0; i < d->s.n; i++)
        root[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        inside[d->s.at[node[i]]] = true;
        add_edges(d, &edges, node[i]);
    }
    for (uint32_t e = 0; e < edges.n; e++)
        if (edges.at[e].fusable && inside[edges.at[e].from])
            left -= sets_unite(root, edges.at[e].from, edges.at[e].to);
    return left == 1 && n <= FUSE_MOST_MEMBERS && (n == 1 || !price->no);
}

double
fuse_predict(const Graph *g, const FusePlan *p, const Machine *m, bool *within)
{
    Arena *scratch = arena_child(g->ctx->arena);
    double sum = 0;
    Dp d;

    *within = true;

    begin(&d, g, scratch, m);
    uint32_t *group = NEW_ARRAY(scratch, uint32_t, d.s.n + 1), ngroup = p->ngroup;
    for (uint32_t i = 0; i < d.s.n; i++)
        group[i] = p->group[d.s.node[i]] ? p->group[d.s.node[i]] : ++ngroup;
    Groups all = fuse_members(&d.s, group, ngroup);
    for (uint32_t k = 1; k <= ngroup; k++) {
        const NodeId *node = all.node + all.first[k];
        uint32_t n = all.first[k + 1] - all.first[k];
        if (!n)
            continue;
        GroupPrice price = fuse_group_price(d.pricing, node, n);
        *within = *within && is_found(&d, node, n, &price);
        sum += price.seconds;
    }
    arena_free(scratch);
    return sum;
}
