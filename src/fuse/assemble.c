/* assemble: make a plan of a partition of the nodes.
 *
 * A partition says which nodes are together. What is inlined where inside a group follows from
 * composing the group (legal.c). A group that no kernel can compute is split into its parts, each
 * with what is inlined into it: a partition in a text (`group` in text.c) may ask for such a group.
 * The parts of a group depend on each other only as its nodes do, so an order of all groups stays
 * an order.
 */
#include "fuse/internal.h"

#include <string.h>

FuseNodes
fuse_nodes(const Graph *g, Arena *scratch, const FuseRules *rules)
{
    FuseNodes s = { .g = g,
                    .f = fuse_compose(g, scratch, NULL, rules, fuse_known_nests(scratch)),
                    .scratch = scratch,
                    .node = NEW_ARRAY(scratch, NodeId, g->node.n),
                    .at = NEW_ARRAY(scratch, uint32_t, g->node.n) };

    for (NodeId n = 1; n < g->node.n; n++)
        if (s.f.stage[n] == n) {
            s.at[n] = s.n;
            s.node[s.n++] = n;
        }
    return s;
}

uint32_t
fuse_find(const FuseNodes *s, const char *name)
{
    const Graph *g = s->g;

    for (uint32_t i = s->n; i-- > 0;) {
        const Node *n = &g->node.at[s->node[i]];
        const char *label = fuse_label(g, s->node[i]), *quoted = strchr(label, '"');
        size_t length = strlen(name);
        if (!strcmp(label, name) ||
            (quoted && !strncmp(quoted + 1, name, length) && quoted[1 + length] == '"'))
            return i;
        for (uint32_t o = 0; o < n->out.count; o++)
            if (!strcmp(g->value.at[node_out(g, n, o)].name, name))
                return i;
    }
    return NO_SLOT;
}

Groups
fuse_members(const FuseNodes *s, const uint32_t *group, uint32_t ngroup)
{
    Groups all = { NEW_ARRAY(s->scratch, uint32_t, ngroup + 3),
                   NEW_ARRAY(s->scratch, NodeId, s->n + 1) };

    for (uint32_t i = 0; i < s->n; i++)
        all.first[group[i] + 2]++;
    for (uint32_t k = 2; k < ngroup + 3; k++)
        all.first[k] += all.first[k - 1];
    for (uint32_t i = 0; i < s->n; i++)
        all.node[all.first[group[i] + 1]++] = s->node[i];
    return all;
}

/* For one group: the host of each node, and the number of its kernel. */
static void
place_members(const FuseNodes *s, const NodeId *node, uint32_t n, NodeId *stage, uint32_t *number,
              uint32_t *next)
{
    Composed c = fuse_compose_group(&s->f, s->scratch, node, n);
    bool one = !c.no || n == 1;

    *next += one;
    for (uint32_t i = 0; i < n; i++) {
        NodeId to = c.f.stage[c.as[i]];
        stage[node[i]] = 0;
        for (uint32_t j = 0; j < n && to; j++)
            if (c.as[j] == to)
                stage[node[i]] = node[j];
        if (stage[node[i]] == node[i])
            number[node[i]] = one ? *next : ++*next;
    }
}

/* Views inlined before there were groups get the host of their readers; 0: several hosts. */
static void
place_views(const FuseNodes *s, NodeId *stage)
{
    const Graph *g = s->g;

    for (NodeId n = g->node.n; --n > 0;) {
        const Node *view = &g->node.at[n];
        bool any = false;
        for (uint32_t o = 0; s->f.stage[n] != n && o < view->out.count; o++) {
            ValueId v = node_out(g, view, o);
            for (uint32_t r = s->f.users.first[v]; r < s->f.users.first[v + 1]; r++) {
                NodeId to = stage[s->f.users.node[r]];
                stage[n] = !any || stage[n] == to ? to : 0;
                any = true;
            }
        }
    }
}

FusePlan
fuse_assemble(const FuseNodes *s, Arena *a, const uint32_t *group, uint32_t ngroup)
{
    const Graph *g = s->g;
    FusePlan p = fuse_none(g, a);
    NodeId *stage = NEW_ARRAY(s->scratch, NodeId, g->node.n);
    uint32_t *number = NEW_ARRAY(s->scratch, uint32_t, g->node.n), next = 0;
    Groups all = fuse_members(s, group, ngroup);

    for (uint32_t k = 1; k <= ngroup; k++)
        if (all.first[k + 1] > all.first[k])
            place_members(s, all.node + all.first[k], all.first[k + 1] - all.first[k], stage,
                          number, &next);
    place_views(s, stage);
    fuse_vanish(g, &p, stage);
    for (NodeId n = 1; n < g->node.n; n++) {
        bool stays = stage[n] == n;
        p.group[n] = number[stage[n]];
        p.why[n] = stays      ? "what its kernel makes"
                   : stage[n] ? "computed where its kernel reads it"
                              : "computed wherever it is read";
    }
    fuse_number(g, a, &p);
    fuse_settle(g, &p);
    return p;
}

bool
fuse_requested(const Graph *g, const FuseRequest *request, NodeId node[2])
{
    Arena *scratch = arena_child(g->ctx->arena);
    FuseNodes s = fuse_nodes(g, scratch, &fuse_rules_views);
    uint32_t x = fuse_find(&s, request->first), y = fuse_find(&s, request->second);
    bool found = x != NO_SLOT && y != NO_SLOT;

    node[0] = found ? s.node[x] : 0;
    node[1] = found ? s.node[y] : 0;
    arena_free(scratch);
    return found;
}

Tri
fuse_granted(const Graph *g, const FusePlan *p, const FuseRequest *request)
{
    NodeId node[2];

    return !fuse_requested(g, request, node)        ? UNKNOWN
           : p->group[node[0]] == p->group[node[1]] ? YES
                                                    : NO;
}
