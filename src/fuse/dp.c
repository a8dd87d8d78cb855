/* dp: the cheapest partition.
 *
 * Views vanish first, wherever they are read (legal.c): what is left are the nodes of a search (search.h), which asks
 * whether nodes may be a group (legal.c) and what it takes (price.c). The groups that it gives are composed once more, so that the
 * plan says of each read how its value comes there, as every plan does.
 *
 * What is outside of the search, and so of the word exact: values computed in several groups (but views), groups whose nodes are
 * not connected, what stays in a cache from one kernel to the next, and memory.
 */
#include "fuse/internal.h"
#include "fuse/search.h"

#include <math.h>

/* Nodes of one group: a row of long chains of cheap work is cut there. Groups of the models of bench/models have up to 20. */
#define MOST_MEMBERS 24
#define MOST_STATES 300000           /* some hundred megabytes, some seconds */
#define MOST_STEPS 4000000
#define BEAM 8

typedef struct {
    const Graph *g;
    Fusion f;
    Pricing *pricing;
    uint32_t n;
    NodeId *node;                    /* [n]: of the search's nodes */
    uint32_t *at;                    /* [node.n]: the other way round */
    MemberKind *kind;                /* [n] */
    Arena *scratch;
} Dp;

static bool
may(void *user, const uint32_t *node, uint32_t n)
{
    Dp *d = user;
    MemberKind kind[MOST_MEMBERS];

    for (uint32_t i = 0; i < n; i++)
        kind[i] = d->kind[node[i]];
    return fuse_may_join(kind, n);
}

/* Without rows a group is one part, so one node of it is read outside, if any: told without composing it. */
static bool
is_hopeless(const Dp *d, const uint32_t *node, const NodeId *id, uint32_t n)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < n; i++) {
        const Piece *p = &d->f.piece[id[i]];
        bool escapes = false;
        if (d->kind[node[i]] == MEMBER_ROW)
            return false;
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            escapes |= fuse_escapes(&d->f, p->value[o], id, n);
        seen += escapes;
    }
    return seen > 1;
}

static double
price(void *user, const uint32_t *node, uint32_t n)
{
    Dp *d = user;
    NodeId id[MOST_MEMBERS] = { 0 };

    for (uint32_t i = 0; i < n; i++)
        id[i] = d->node[node[i]];
    if (is_hopeless(d, node, id, n))
        return INFINITY;
    GroupPrice p = fuse_group_price(d->pricing, id, n);
    return p.no && n > 1 ? INFINITY : p.seconds;
}

static Dp
begin(const Graph *g, Arena *scratch)
{
    Dp d = { .g = g, .f = fuse_compose(g, scratch, NULL, &fuse_rules_views), .scratch = scratch, .node = NEW_ARRAY(scratch, NodeId, g->node.n),
             .at = NEW_ARRAY(scratch, uint32_t, g->node.n), .kind = NEW_ARRAY(scratch, MemberKind, g->node.n) };

    for (NodeId n = 1; n < g->node.n; n++)
        if (d.f.host[n] == n) {
            d.kind[d.n] = fuse_member_kind(&d.f, n);
            d.at[n] = d.n;
            d.node[d.n++] = n;
        }
    return d;
}

/* The nodes of each group, numbered from 1: node[first[k] .. first[k + 1]). */
static Groups
members(const Dp *d, const uint32_t *group, uint32_t ngroup)
{
    Groups all = { NEW_ARRAY(d->scratch, uint32_t, ngroup + 3), NEW_ARRAY(d->scratch, NodeId, d->n + 1) };

    for (uint32_t i = 0; i < d->n; i++)
        all.first[group[i] + 2]++;
    for (uint32_t k = 2; k < ngroup + 3; k++)
        all.first[k] += all.first[k - 1];
    for (uint32_t i = 0; i < d->n; i++)
        all.node[all.first[group[i] + 1]++] = d->node[i];
    return all;
}

typedef VEC(SearchEdge) SearchEdges;

/* What a node reads orders it, even what simplifying has dropped; along that no group runs. */
static void
add_edges(Dp *d, SearchEdges *edges, NodeId n)
{
    const Piece *p = &d->f.piece[n];

    for (uint32_t r = 0; r < d->f.reads[n].n; r++) {
        ValueId v = d->f.reads[n].at[r];
        NodeId def = d->g->value.at[v].def;
        bool read = false;
        if (!def || d->f.host[def] != def)
            continue;
        for (uint32_t i = 0; i < p->nest->nin; i++)
            read |= p->value[i] == v;
        VEC_PUSH(d->scratch, edges, ((SearchEdge){ d->at[def], d->at[n], read }));
    }
}

/* Where each node is computed in the end: itself, one node of its group, or 0: in several. */
static NodeId *
final_hosts(Dp *d, const uint32_t *group, uint32_t ngroup)
{
    const Graph *g = d->g;
    Arena *a = d->scratch;
    NodeId *host = NEW_ARRAY(a, NodeId, g->node.n);
    Groups all = members(d, group, ngroup);

    for (uint32_t k = 1; k <= ngroup; k++) {
        uint32_t n = all.first[k + 1] - all.first[k];
        NodeId *node = all.node + all.first[k];
        Composed c = fuse_compose_group(&d->f, a, node, n);
        for (uint32_t i = 0; i < n; i++) {
            NodeId to = c.f.host[c.as[i]];
            for (uint32_t j = 0; j < n; j++)
                if (to && c.as[j] == to)
                    host[node[i]] = node[j];
        }
    }
    /* A view follows its readers, which come later. */
    for (NodeId n = g->node.n; --n > 0; ) {
        const Node *view = &g->node.at[n];
        bool first_one = true;
        if (d->f.host[n] == n)
            continue;
        for (uint32_t o = 0; o < view->out.count; o++) {
            ValueId v = node_out(g, view, o);
            for (uint32_t r = d->f.users.first[v]; r < d->f.users.first[v + 1]; r++) {
                NodeId to = host[d->f.users.node[r]];
                host[n] = first_one || host[n] == to ? to : 0;
                first_one = false;
            }
        }
    }
    return host;
}

FusePlan
fuse_dp(const Graph *g, Arena *a, const Machine *m, FuseCertificate *certificate)
{
    Arena *scratch = arena_child(g->ctx->arena);
    FusePlan p = fuse_none(g, a);
    Dp d = begin(g, scratch);
    SearchEdges edges = { 0 };
    double *least = NEW_ARRAY(scratch, double, d.n + 1), start = time_seconds();

    d.pricing = fuse_pricing(&d.f, scratch, m);
    for (uint32_t i = 0; i < d.n; i++) {
        least[i] = fuse_least_seconds(d.pricing, d.node[i]);
        add_edges(&d, &edges, d.node[i]);
    }
    SearchProblem problem = { .n = d.n, .edge = edges.at, .nedge = edges.n, .most = MOST_MEMBERS, .may = may, .price = price, .least = least,
                              .start = m->call_seconds, .user = &d, .most_states = MOST_STATES, .most_steps = MOST_STEPS, .beam = BEAM };
    SearchResult r = search_partition(&problem, scratch);
    NodeId *host = final_hosts(&d, r.group, r.ngroup);
    for (NodeId n = 1; n < g->node.n; n++) {
        NodeId to = host[n];
        while (to && host[to] != to)
            to = host[to];
        if (host[n] != n)
            fuse_set(g, &p, n, 0, (FuseEdge){ to ? EDGE_INLINE : EDGE_RECOMPUTE, 0 });
        p.group[n] = to ? r.group[d.at[to]] : 0;
        p.why[n] = host[n] == n ? "its value is stored, or kept for parts of its kernel" : to ? "computed where its group reads it" : "computed wherever it is read";
    }
    fuse_number(g, a, &p);
    fuse_settle(g, &p);
    if (certificate)
        *certificate = (FuseCertificate){ FUSE_DP, r.seconds, r.bound, -1, r.exact, r.states, r.steps, r.priced, fuse_composed(d.pricing), time_seconds() - start };
    arena_free(scratch);
    return p;
}

double
fuse_predict(const Graph *g, const FusePlan *p, const Machine *m)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Dp d = begin(g, scratch);
    uint32_t *group = NEW_ARRAY(scratch, uint32_t, d.n + 1), ngroup = p->ngroup;
    double sum = 0;

    d.pricing = fuse_pricing(&d.f, scratch, m);
    for (uint32_t i = 0; i < d.n; i++)
        group[i] = p->group[d.node[i]] ? p->group[d.node[i]] : ++ngroup;
    Groups all = members(&d, group, ngroup);
    for (uint32_t k = 1; k <= ngroup; k++)
        if (all.first[k + 1] > all.first[k])
            sum += fuse_group_price(d.pricing, all.node + all.first[k], all.first[k + 1] - all.first[k]).seconds;
    arena_free(scratch);
    return sum;
}
