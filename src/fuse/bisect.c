/* bisect: reduce a plan to its first N joins.
 *
 * The joins of a plan are numbered: first each node that all readers recompute, then, kernel by
 * kernel, each node but the last, and the last if a reader recomputes it. With the first N joins
 * done and all other values stored, the result is a legal plan: earlier kernels are unchanged,
 * later nodes are alone, and the kernel of join N is what is still connected of it, or, if that is
 * no kernel, what it was some joins earlier. So halving N finds the join after which a result is
 * wrong, or slow.
 */
#include "fuse/internal.h"
#include "fuse/sets.h"

typedef struct {
    const Graph *g;
    const FusePlan *plan;
    Groups groups;
    /* join [node.n]: number of a node's join, 0: none; most [ngroup + 1]: the last join of a
     * kernel */
    uint32_t *merge, *most;
    uint32_t n;
} Merges;

static void
number_merges(Merges *j, Arena *a)
{
    const Graph *g = j->g;
    /* some reader inlines it */
    bool *inside = NEW_ARRAY(a, bool, g->node.n);

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++) {
            ValueId v = node_in(g, &g->node.at[n], i);
            EdgeKind kind = j->plan->edge[g->node.at[n].in.first + i].kind;
            if (v && (kind == EDGE_INLINE || kind == EDGE_RECOMPUTE))
                inside[g->value.at[v].def] = true;
        }
    for (uint32_t k = 0; k <= j->plan->ngroup; k++) {
        for (uint32_t i = j->groups.first[k]; i < j->groups.first[k + 1]; i++) {
            NodeId n = j->groups.node[i];
            if (k == 0 || inside[n] || i + 1 < j->groups.first[k + 1])
                j->merge[n] = ++j->n;
        }
        j->most[k] = j->n;
    }
}

static Merges
merges_of(const Graph *g, Arena *a, const FusePlan *p)
{
    Merges j = { g,
                 p,
                 fuse_groups(g, a, p),
                 NEW_ARRAY(a, uint32_t, g->node.n),
                 NEW_ARRAY(a, uint32_t, p->ngroup + 1),
                 0 };

    number_merges(&j, a);
    return j;
}

uint32_t
fuse_merges(const Graph *g, const FusePlan *p)
{
    Arena *scratch = arena_child(g->ctx->arena);
    uint32_t n = merges_of(g, scratch, p).n;

    arena_free(scratch);
    return n;
}

static FusePlan
with_merges(const Merges *j, Arena *a, uint32_t most)
{
    const Graph *g = j->g;
    const FusePlan *p = j->plan;
    uint32_t *root = NEW_ARRAY(a, uint32_t, g->node.n);
    FusePlan out = *p;

    out.group = NEW_ARRAY(a, uint32_t, g->node.n);
    out.edge = arena_copy(a, p->edge, (g->ref.n + 1) * sizeof *p->edge);
    for (NodeId n = 1; n < g->node.n; n++)
        root[n] = p->group[n] && j->most[p->group[n]] <= most
                      ? j->groups.node[j->groups.first[p->group[n]]]
                      : n;
    for (NodeId n = 1; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++) {
            NodeId def = node_in(g, node, i) ? g->value.at[node_in(g, node, i)].def : 0;
            bool joined = j->merge[def] && j->merge[def] <= most;
            if (def && j->merge[def] && !joined)
                out.edge[node->in.first + i] = (FuseEdge){ EDGE_STORE, 0 };
            else if (joined && p->group[def] && p->group[def] == p->group[n])
                sets_unite(root, def, n);
        }
    }
    for (NodeId n = 1; n < g->node.n; n++)
        out.group[n] = p->group[n] || j->merge[n] > most ? sets_root(root, n) : 0;
    fuse_number(g, a, &out);
    fuse_settle(g, &out);
    return out;
}

FusePlan
fuse_first_merges(const Graph *g, Arena *a, const FusePlan *p, uint32_t most, NodeId *last)
{
    Merges j = merges_of(g, a, p);

    *last = 0;
    for (NodeId n = 1; n < g->node.n; n++)
        if (most && j.merge[n] == most)
            *last = n;
    FusePlan out = with_merges(&j, a, most);
    while (most && fuse_illegal(g, &out))
        out = with_merges(&j, a, --most);
    return out;
}
