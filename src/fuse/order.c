/* order: keep a topological order of groups while groups are merged.
 *
 * Groups can be merged unless a path between two of them passes a third, which would then depend on
 * itself. As in Pearce and Kelly (ACM JEA 11, 2007), the search for such a path visits only what is
 * between them in the order, and only that range is reordered after a merge.
 */
#include "fuse/order.h"

#include <string.h>

GroupOrder
order_begin(const Fusion *f, Arena *a, const uint32_t *number)
{
    uint32_t nn = f->g->node.n;
    GroupOrder o = { .f = f,
                     .group = NEW_ARRAY(a, NodeId, nn),
                     .next = NEW_ARRAY(a, NodeId, nn),
                     .order = NEW_ARRAY(a, NodeId, nn),
                     .at = NEW_ARRAY(a, uint32_t, nn),
                     .reached = NEW_ARRAY(a, NodeId, nn),
                     .stack = NEW_ARRAY(a, NodeId, nn),
                     .seen = NEW_ARRAY(a, bool, nn) };
    NodeId *last = o.stack;

    for (NodeId n = 1; n < nn; n++) {
        uint32_t k = number[n];
        if (!k)
            continue;
        if (o.order[k])
            o.next[last[k]] = n;
        else
            o.order[k] = n;
        last[k] = n;
        o.group[n] = o.order[k];
        o.at[o.order[k]] = k;
    }
    return o;
}

/* Removes and returns the earliest node of several lists (heads [n]); 0: all are empty. */
static NodeId
take_first(const GroupOrder *o, NodeId *head, uint32_t n)
{
    NodeId first = 0;

    for (uint32_t i = 0; i < n; i++)
        first = head[i] && (!first || head[i] < first) ? head[i] : first;
    for (uint32_t i = 0; i < n; i++)
        head[i] = head[i] == first ? o->next[first] : head[i];
    return first;
}

uint32_t
order_nodes(const GroupOrder *o, const NodeId *group, uint32_t n, NodeId *node)
{
    NodeId head[ORDER_MOST_MERGED];
    uint32_t count = 0;

    memcpy(head, group, n * sizeof *head);
    while ((node[count] = take_first(o, head, n)))
        count++;
    return count;
}

/* ---- paths between groups -------------------------------------------------------------------- */

typedef struct {
    GroupOrder *o;
    const NodeId *group;
    uint32_t n, first, last, nreached, depth;
    bool returns;
} PathSearch;

static bool
is_among(const PathSearch *s, NodeId group)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->group[i] == group)
            return true;
    return false;
}

/* Visits the groups that read values of a group, up to the last of the searched ones in the
 * order. */
static void
follow(PathSearch *s, NodeId group)
{
    GroupOrder *o = s->o;
    const Fusion *f = o->f;
    bool outside = !is_among(s, group);

    for (NodeId n = group; n && !s->returns; n = o->next[n]) {
        const FusedCall *p = &f->call[n];
        for (uint32_t k = 0; k < p->nest->nout && f->stage[n] == n; k++) {
            ValueId v = p->value[p->nest->nin + k];
            for (uint32_t i = 0; i < f->readers[v].n; i++) {
                NodeId to = o->group[f->readers[v].at[i]];
                if (o->at[to] > s->last || o->seen[to])
                    continue;
                if (is_among(s, to)) {
                    s->returns |= outside;
                    continue;
                }
                o->seen[to] = true;
                o->reached[s->nreached++] = to;
                o->stack[s->depth++] = to;
            }
        }
    }
}

/* Marks the groups that depend on one of these, up to the last of them in the order. */
static PathSearch
search(GroupOrder *o, const NodeId *group, uint32_t n)
{
    PathSearch s = { .o = o, .group = group, .n = n, .first = UINT32_MAX };

    for (uint32_t i = 0; i < n; i++) {
        s.first = o->at[group[i]] < s.first ? o->at[group[i]] : s.first;
        s.last = o->at[group[i]] > s.last ? o->at[group[i]] : s.last;
    }
    for (uint32_t i = 0; i < n; i++)
        follow(&s, group[i]);
    while (s.depth && !s.returns)
        follow(&s, o->stack[--s.depth]);
    return s;
}

static void
search_end(const PathSearch *s)
{
    for (uint32_t i = 0; i < s->nreached; i++)
        s->o->seen[s->o->reached[i]] = false;
}

bool
order_allows(GroupOrder *o, const NodeId *group, uint32_t n)
{
    PathSearch s = search(o, group, n);

    search_end(&s);
    return !s.returns;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Reorders the range from the first to the last of them: independent groups, the merged group,
 * dependent groups. */
static void
reorder(const PathSearch *s, NodeId joined)
{
    GroupOrder *o = s->o;
    uint32_t at = s->first, nbehind = 0;

    for (uint32_t i = s->first; i <= s->last; i++) {
        NodeId group = o->order[i];
        if (!group || is_among(s, group))
            continue;
        if (o->seen[group])
            o->stack[nbehind++] = group;
        else
            o->order[at++] = group;
    }
    o->order[at++] = joined;
    for (uint32_t i = 0; i < nbehind; i++)
        o->order[at++] = o->stack[i];
    for (uint32_t i = s->first; i < at; i++)
        o->at[o->order[i]] = i;
    for (; at <= s->last; at++)
        o->order[at] = 0; /* slots of merged groups */
}

bool
order_merge(GroupOrder *o, const NodeId *group, uint32_t n)
{
    PathSearch s = search(o, group, n);

    if (!s.returns) {
        NodeId head[ORDER_MOST_MERGED], joined, last;
        memcpy(head, group, n * sizeof *head);
        joined = last = take_first(o, head, n);
        reorder(&s, joined);
        for (NodeId node; (node = take_first(o, head, n)); last = node) {
            o->next[last] = node;
            o->group[node] = joined;
        }
    }
    search_end(&s);
    return !s.returns;
}
