/* plan: simple plans, their numbering, and whether a plan is legal.
 *
 *   1  a node is copied, or in a group from 1 to ngroup
 *   2  a copied node can be computed in each of its readers, and is no output of the model
 *   3  groups are in topological order: none reads a later one. Convex groups are not enough
 *      ({a1, a2}, {b1, b2} with a1 -> b1 and b2 -> a2 are convex), the order of all groups is.
 *   4  nests of one group that stay apart share at least their outermost axis
 */
#include <string.h>

#include "fuse/internal.h"

/* Visit the nodes whose values n reads, through copied nodes. seen[node.n]: zeroed once, then kept between calls. */
static void
fuse_sources(const Graph *g, const FusePlan *p, NodeId n, NodeId *seen, void (*visit)(void *user, NodeId from), void *user)
{
    NodeId *stack = NEW_ARRAY(g->ctx->arena, NodeId, g->node.n);
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
            if (p->copied[def])
                stack[depth++] = def;
            else
                visit(user, def);
        }
    }
}

/* ---- numbering ------------------------------------------------------------------------------------- */

typedef struct { uint32_t from, to; } Edge;
typedef struct { Arena *arena; const FusePlan *plan; uint32_t to; VEC(Edge) edge; } Edges;

static void
add_edge(void *user, NodeId from)
{
    Edges *e = user;

    if (e->plan->group[from] != e->to)
        VEC_PUSH(e->arena, &e->edge, ((Edge){ e->plan->group[from], e->to }));
}

void
fuse_number(const Graph *g, Arena *a, FusePlan *p)
{
    uint32_t most = 0, nn = g->node.n, next = 0;
    NodeId *seen = NEW_ARRAY(a, NodeId, nn);
    Edges edges = { .arena = a, .plan = p };

    for (NodeId n = 1; n < nn; n++)
        most = p->group[n] > most ? p->group[n] : most;
    for (NodeId n = 1; n < nn; n++)
        if (!p->copied[n]) {
            edges.to = p->group[n];
            fuse_sources(g, p, n, seen, add_edge, &edges);
        }

    uint32_t *waits = NEW_ARRAY(a, uint32_t, most + 1), *number = NEW_ARRAY(a, uint32_t, most + 1);
    for (uint32_t i = 0; i < edges.edge.n; i++)
        waits[edges.edge.at[i].to]++;
    for (bool stuck = false;; ) {                /* the earliest node whose group is ready names the next group */
        uint32_t pick = 0;
        for (NodeId n = 1; n < nn && !pick; n++)
            if (!p->copied[n] && !number[p->group[n]] && (stuck || !waits[p->group[n]]))
                pick = p->group[n];
        if (!pick && stuck)
            break;
        if (!pick) {
            stuck = true;                        /* all done, or a cycle: fuse_illegal tells */
            continue;
        }
        number[pick] = ++next;
        for (uint32_t i = 0; i < edges.edge.n; i++)
            if (edges.edge.at[i].from == pick)
                waits[edges.edge.at[i].to]--;
    }
    for (NodeId n = 1; n < nn; n++)
        p->group[n] = p->copied[n] ? 0 : number[p->group[n]];
    p->ngroup = next;
}

/* ---- plans ------------------------------------------------------------------------------------------- */

FusePlan
fuse_none(const Graph *g, Arena *a)
{
    FusePlan p = { NEW_ARRAY(a, uint32_t, g->node.n), g->node.n - 1, NEW_ARRAY(a, bool, g->node.n),
                   NEW_ARRAY(a, const char *, g->node.n) };

    for (NodeId n = 1; n < g->node.n; n++) {
        p.group[n] = n;
        p.why[n] = "every node alone";
    }
    return p;
}

FusePlan
fuse_together(const Graph *g, Arena *a, const NodeId *node, uint32_t n)
{
    FusePlan p = fuse_none(g, a);

    for (uint32_t i = 0; i < n; i++) {
        p.group[node[i]] = node[0];
        p.why[node[i]] = "as asked";
    }
    fuse_number(g, a, &p);
    return p;
}

/* ---- legality ------------------------------------------------------------------------------------------ */

typedef struct { const Graph *g; const FusePlan *plan; NodeId at; const char *text; } OrderCheck;

static const char *
label(const Graph *g, NodeId n)
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
        k->text = arena_printf(k->g->ctx->arena, "group %u reads %s of group %u, which needs group %u first", p->group[k->at],
                               label(k->g, from), p->group[from], p->group[k->at]);
}

const char *
fuse_illegal(const Graph *g, const FusePlan *p)
{
    Ctx *c = g->ctx;
    Arena *scratch = arena_child(c->arena);
    NodeId *seen = NEW_ARRAY(scratch, NodeId, g->node.n), *host = NEW_ARRAY(scratch, NodeId, g->node.n);
    OrderCheck order = { .g = g, .plan = p };
    const char *text = NULL;

    for (NodeId n = 1; n < g->node.n && !text; n++)
        if (!p->copied[n] && (p->group[n] == 0 || p->group[n] > p->ngroup))
            text = arena_printf(c->arena, "%s is in group %u of %u", label(g, n), p->group[n], p->ngroup);
    for (order.at = 1; order.at < g->node.n && !text; order.at++)
        if (!p->copied[order.at]) {
            fuse_sources(g, p, order.at, seen, check_order, &order);
            text = order.text;
        }
    if (!text) {
        Fusion f = fuse_compose(g, scratch, p);
        for (NodeId n = 1; n < g->node.n && !text; n++)
            if (p->copied[n] && f.host[n] == n)
                text = arena_printf(c->arena, "%s cannot be copied into its readers: %s", label(g, n), f.why[n]);
        for (uint32_t group = 1; group <= p->ngroup && !text; group++) {
            uint32_t nhost = 0;
            for (NodeId n = 1; n < g->node.n; n++)
                if (p->group[n] == group && f.host[n] == n)
                    host[nhost++] = n;
            if (nhost > 1 && !fuse_shared(&f, host, nhost))
                text = arena_printf(c->arena, "group %u: %s and %s share no outer axis", group, label(g, host[0]), label(g, host[1]));
        }
    }
    arena_free(scratch);
    return text;
}
