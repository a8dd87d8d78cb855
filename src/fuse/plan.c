/* plan: simple plans, numbering of groups, and the rules for a legal plan:
 *
 *   1  a node is in a group from 1 to ngroup, or all readers recompute it and it is no output
 *   2  an inlined or recomputed node can be computed at the indices at which it is read; an inlined
 *      one has no other reader
 *   3  groups are in topological order. It is not enough that each group is convex: {a1, a2} and
 *      {b1, b2} with a1 -> b1 and b2 -> a2 are, and depend on each other
 *   4  scratch edges are inside a group, store edges between groups
 *   5  the stages of a group share at least the outermost axis, and as many as their edges say
 */
#include <string.h>

#include "base/heap.h"
#include "fuse/internal.h"

/* Scratch for visiting sources, [node.n] each, zeroed once and reused. */
typedef struct {
    NodeId *seen, *stack;
} SourceWalk;

static SourceWalk
sources_begin(const Graph *g, Arena *a)
{
    return (SourceWalk){ NEW_ARRAY(a, NodeId, g->node.n), NEW_ARRAY(a, NodeId, g->node.n) };
}

/* Visits the nodes whose values n reads, directly or through nodes that it recomputes. */
static void
fuse_sources(const Graph *g, const FusePlan *p, NodeId n, SourceWalk s,
             void (*visit)(void *user, NodeId from), void *user)
{
    NodeId *stack = s.stack, *seen = s.seen;
    uint32_t depth = 0;

    stack[depth++] = n;
    while (depth) {
        const Node *node = &g->node.at[stack[--depth]];
        for (uint32_t i = 0; i < node->in.count; i++) {
            ValueId v = node_in(g, node, i);
            NodeId def = v ? g->value.at[v].def : 0;
            if (!def || seen[def] == n)
                continue;
            seen[def] = n;
            if (p->edge[node->in.first + i].kind == EDGE_RECOMPUTE)
                stack[depth++] = def;
            else
                visit(user, def);
        }
    }
}

/* ---- numbering ------------------------------------------------------------------------------- */

typedef struct {
    uint32_t from, to;
} GroupEdge;
typedef struct {
    Arena *arena;
    const FusePlan *plan;
    uint32_t to;
    VEC(GroupEdge) edge;
} GroupEdges;

static void
add_edge(void *user, NodeId from)
{
    GroupEdges *e = user;

    if (e->plan->group[from] != e->to)
        VEC_PUSH(e->arena, &e->edge, ((GroupEdge){ e->plan->group[from], e->to }));
}

/* GroupEdges by where they begin: edge[first[from] .. first[from + 1]). */
static uint32_t *
sort_edges(Arena *a, GroupEdges *e, uint32_t ngroup)
{
    uint32_t *first = NEW_ARRAY(a, uint32_t, ngroup + 3);
    GroupEdge *sorted = NEW_ARRAY(a, GroupEdge, e->edge.n);

    /* Counting sort: counts, then sums shifted by one, which filling turns into starts. */
    for (uint32_t i = 0; i < e->edge.n; i++)
        first[e->edge.at[i].from + 2]++;
    for (uint32_t k = 2; k < ngroup + 3; k++)
        first[k] += first[k - 1];
    for (uint32_t i = 0; i < e->edge.n; i++)
        sorted[first[e->edge.at[i].from + 1]++] = e->edge.at[i];
    e->edge.at = sorted;
    return first;
}

void
fuse_number(const Graph *g, Arena *a, FusePlan *p)
{
    Arena *scratch = arena_child(a);
    uint32_t most = 0, nn = g->node.n, next = 0;
    SourceWalk sources = sources_begin(g, scratch);
    GroupEdges edges = { .arena = scratch, .plan = p };

    for (NodeId n = 1; n < nn; n++)
        most = p->group[n] > most ? p->group[n] : most;
    NodeId *earliest = NEW_ARRAY(scratch, NodeId, most + 1);
    for (NodeId n = nn; --n > 0;)
        if (p->group[n]) {
            earliest[p->group[n]] = n;
            edges.to = p->group[n];
            fuse_sources(g, p, n, sources, add_edge, &edges);
        }

    uint32_t *waits = NEW_ARRAY(scratch, uint32_t, most + 1),
             *number = NEW_ARRAY(scratch, uint32_t, most + 1);
    /* groups whose operands are ready, by their earliest nodes */
    Heap ready = { .arena = scratch };
    uint32_t *first = sort_edges(scratch, &edges, most);
    for (uint32_t i = 0; i < edges.edge.n; i++)
        waits[edges.edge.at[i].to]++;
    for (uint32_t k = 0; k <= most; k++)
        if (earliest[k] && !waits[k])
            heap_push(&ready, earliest[k]);
    while (ready.least.n) {
        uint32_t pick = p->group[heap_pop(&ready)];
        number[pick] = ++next;
        for (uint32_t i = first[pick]; i < first[pick + 1]; i++)
            if (--waits[edges.edge.at[i].to] == 0)
                heap_push(&ready, earliest[edges.edge.at[i].to]);
    }
    /* groups on a cycle, in any order: fuse_illegal reports them */
    for (NodeId n = 1; n < nn; n++)
        if (p->group[n] && !number[p->group[n]])
            number[p->group[n]] = ++next;
    for (NodeId n = 1; n < nn; n++)
        p->group[n] = p->group[n] ? number[p->group[n]] : 0;
    p->ngroup = next;
    arena_free(scratch);
}

Groups
fuse_groups(const Graph *g, Arena *a, const FusePlan *p)
{
    Groups groups = { NEW_ARRAY(a, uint32_t, p->ngroup + 3), NEW_ARRAY(a, NodeId, g->node.n) };

    for (NodeId n = 1; n < g->node.n; n++)
        groups.first[p->group[n] + 2]++;
    for (uint32_t k = 2; k < p->ngroup + 3; k++)
        groups.first[k] += groups.first[k - 1];
    for (NodeId n = 1; n < g->node.n; n++)
        groups.node[groups.first[p->group[n] + 1]++] = n;
    return groups;
}

uint32_t
fuse_stages(const Fusion *f, const NodeId *node, uint32_t n, NodeId *stage)
{
    uint32_t stay = 0;

    for (uint32_t i = 0; i < n; i++)
        if (f->stage[node[i]] == node[i])
            stage[stay++] = node[i];
    return stay;
}

/* ---- plans ----------------------------------------------------------------------------------- */

const char *const fuse_mode_name[FUSE_MODE_COUNT + 1] = { "none", "dp", "given" };

FusePlan
fuse_plan(const Graph *g, Arena *a, const Machine *m, FuseMode mode, const FuseRequest *request,
          FuseCertificate *known)
{
    *known = (FuseCertificate){ .mode = mode, .seconds = -1, .bound = -1, .second_best = -1 };
    return mode == FUSE_DP ? fuse_dp(g, a, m, request, known) : fuse_none(g, a);
}

FusePlan
fuse_none(const Graph *g, Arena *a)
{
    FusePlan p = { NEW_ARRAY(a, uint32_t, g->node.n),
                   g->node.n - 1,
                   NEW_ARRAY(a, FuseEdge, g->ref.n + 1),
                   NEW_ARRAY(a, const char *, g->node.n),
                   { 0 } };

    for (NodeId n = 1; n < g->node.n; n++) {
        p.group[n] = n;
        p.why[n] = "every node alone";
    }
    return p;
}

FusePlan
fuse_copy(const Graph *g, Arena *a, const FusePlan *p)
{
    FusePlan out = *p;

    out.group = arena_copy(a, p->group, g->node.n * sizeof *p->group);
    out.edge = arena_copy(a, p->edge, (g->ref.n + 1) * sizeof *p->edge);
    out.why = arena_copy(a, p->why, g->node.n * sizeof *p->why);
    out.tried.at = arena_copy(a, p->tried.at, p->tried.n * sizeof *p->tried.at);
    out.tried.cap = p->tried.n;
    return out;
}

void
fuse_set(const Graph *g, FusePlan *p, NodeId maker, NodeId reader, FuseEdge edge)
{
    for (NodeId n = reader ? reader : 1; n < (reader ? reader + 1 : g->node.n); n++) {
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++)
            if (node_in(g, node, i) && g->value.at[node_in(g, node, i)].def == maker)
                p->edge[node->in.first + i] = edge;
    }
}

void
fuse_vanish(const Graph *g, FusePlan *p, const NodeId *stage)
{
    for (NodeId n = 1; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++) {
            NodeId maker = node_in(g, node, i) ? g->value.at[node_in(g, node, i)].def : 0;
            if (maker && stage[maker] != maker)
                p->edge[node->in.first + i] =
                    (FuseEdge){ stage[maker] ? EDGE_INLINE : EDGE_RECOMPUTE, 0 };
        }
    }
}

void
fuse_settle(const Graph *g, FusePlan *p)
{
    for (NodeId n = 1; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++) {
            FuseEdge *e = &p->edge[node->in.first + i];
            NodeId def = node_in(g, node, i) ? g->value.at[node_in(g, node, i)].def : 0;
            if (def && e->kind != EDGE_INLINE && e->kind != EDGE_RECOMPUTE)
                e->kind = p->group[def] == p->group[n] ? EDGE_SCRATCH : EDGE_STORE;
        }
    }
}

/* ---- legality -------------------------------------------------------------------------------- */

typedef struct {
    const Graph *g;
    const FusePlan *plan;
    NodeId at;
    const char *text;
} OrderCheck;

const char *
fuse_label(const Graph *g, NodeId n)
{
    const Node *node = &g->node.at[n];

    return node->origin ? node->origin : node->callee == CALL_NEST ? node->nest->name : "?";
}

static void
check_order(void *user, NodeId from)
{
    OrderCheck *k = user;
    const FusePlan *p = k->plan;

    if (!k->text && p->group[from] > p->group[k->at])
        k->text = arena_printf(
            k->g->ctx->arena, "group %u reads %s of group %u, which needs group %u first",
            p->group[k->at], fuse_label(k->g, from), p->group[from], p->group[k->at]);
}

/* Reports an edge that contradicts the groups. */
static const char *
wrong_edge(const Graph *g, const FusePlan *p)
{
    for (NodeId n = 1; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++) {
            NodeId def = node_in(g, node, i) ? g->value.at[node_in(g, node, i)].def : 0;
            FuseEdge e = p->edge[node->in.first + i];
            if (!def || e.kind == EDGE_RECOMPUTE)
                continue;
            if (!p->group[def])
                return arena_printf(g->ctx->arena,
                                    "%s is in no group, but %s does not recompute it",
                                    fuse_label(g, def), fuse_label(g, n));
            bool merged = !p->group[n] || p->group[def] == p->group[n];
            if (e.kind != EDGE_STORE && !merged)
                return arena_printf(
                    g->ctx->arena,
                    "%s is to be %s for %s, which is in group %u, not in its group %u",
                    fuse_label(g, def), e.kind == EDGE_SCRATCH ? "kept in scratch" : "inlined",
                    fuse_label(g, n), p->group[n], p->group[def]);
            if (e.kind == EDGE_STORE && p->group[n] && merged)
                return arena_printf(
                    g->ctx->arena,
                    "%s is to be stored for %s, which is in its group %u: scratch keeps it there",
                    fuse_label(g, def), fuse_label(g, n), p->group[n]);
        }
    }
    return NULL;
}

const char *
fuse_illegal_numbers(const Graph *g, const FusePlan *p)
{
    Arena *scratch = arena_child(g->ctx->arena);
    SourceWalk sources = sources_begin(g, scratch);
    OrderCheck order = { .g = g, .plan = p };

    for (NodeId n = 1; n < g->node.n && !order.text; n++)
        if (p->group[n] > p->ngroup)
            order.text = arena_printf(g->ctx->arena, "%s is in group %u of %u", fuse_label(g, n),
                                      p->group[n], p->ngroup);
    for (order.at = 1; order.at < g->node.n && !order.text; order.at++)
        if (p->group[order.at])
            fuse_sources(g, p, order.at, sources, check_order, &order);
    if (!order.text)
        order.text = wrong_edge(g, p);
    arena_free(scratch);
    return order.text;
}

const char *
fuse_illegal_kernels(const Fusion *f, const Groups *groups)
{
    const Graph *g = f->g;
    const FusePlan *p = f->plan;
    NodeId *stage = NEW_ARRAY(f->arena, NodeId, g->node.n);

    if (f->refused)
        return arena_str(f->ctx->arena, f->refused);
    for (NodeId n = 1; n < g->node.n; n++)
        if (!p->group[n] && f->stage[n] == n)
            return arena_printf(f->ctx->arena, "%s is in no group, but %s", fuse_label(g, n),
                                f->why[n]);
    for (uint32_t group = 1; group <= p->ngroup; group++) {
        uint32_t first = groups->first[group],
                 nstage =
                     fuse_stages(f, &groups->node[first], groups->first[group + 1] - first, stage);
        uint32_t shared = nstage > 1 ? fuse_shared(f, stage, nstage) : 0,
                 depth = fuse_depth(f, stage, nstage);
        if (fuse_are_independent(f, stage, nstage))
            continue;
        if (nstage > 1 && !shared)
            return arena_printf(f->ctx->arena, "group %u: %s and %s share no outer axis", group,
                                fuse_label(g, stage[0]), fuse_label(g, stage[1]));
        if (nstage > 1 && depth > shared)
            return arena_printf(
                f->ctx->arena,
                "group %u: the value of %s is to be kept for each iteration of %u outer axes, but "
                "the stages share %u: %s reads elsewhere, or has other axes",
                group, fuse_label(g, stage[0]), depth, shared, fuse_label(g, stage[nstage - 1]));
    }
    return NULL;
}

const char *
fuse_illegal(const Graph *g, const FusePlan *p)
{
    const char *no = fuse_illegal_numbers(g, p);

    if (no)
        return no;
    Arena *scratch = arena_child(g->ctx->arena);
    Fusion f = fuse_compose(g, scratch, p, NULL, NULL);
    Groups groups = fuse_groups(g, scratch, p);
    no = fuse_illegal_kernels(&f, &groups);
    arena_free(scratch);
    return no;
}
