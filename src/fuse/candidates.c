/* candidates: list the groups of a plan that may be faster as one kernel.
 *
 * Between a matrix multiplication and rows computed from it (softmax), or between rows and a matrix
 * multiplication of them, the intermediate tensor need not exist as a whole: a tile of rows of all
 * three fits a cache. The same holds between a contraction and a window over it (pooling behind a
 * convolution). Contractions that read one value can run side by side in one kernel. All candidates
 * are listed against the plan as it is, whether they share groups or not.
 */
#include "fuse/merge_groups.h"

#include <string.h>

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t
list_stages(GroupMerge *j, NodeId group)
{
    return merge_nodes(j, j->f, &group, 1).stages;
}

/* Is the group one contraction? */
static bool
is_product(GroupMerge *j, NodeId group)
{
    return group && list_stages(j, group) == 1 && fuse_traits_of(j->f, j->stage[0])->contraction;
}

/* Is the group rows: reductions along them, and elementwise work around? */
static bool
is_rows(GroupMerge *j, NodeId group)
{
    uint32_t n = group ? list_stages(j, group) : 0;
    bool row = false;

    for (uint32_t i = 0; i < n; i++) {
        const NestTraits *t = fuse_traits_of(j->f, j->stage[i]);
        row |= t->row;
        if (!t->row && !t->elementwise)
            return false;
    }
    return row;
}

static NodeId
group_of(const GroupMerge *j, ValueId v)
{
    return j->order.group[j->g->value.at[v].def];
}

/* Are all values of these groups, except the last, read only inside them? */
static bool
is_closed(GroupMerge *j, const NodeId *group, uint32_t n)
{
    for (uint32_t k = 0; k + 1 < n; k++) {
        uint32_t stages = list_stages(j, group[k]);
        for (uint32_t i = 0; i < stages; i++) {
            const FusedCall *p = &j->f->call[j->stage[i]];
            for (uint32_t o = 0; o < p->nest->nout; o++) {
                ValueId v = p->value[p->nest->nin + o];
                if (j->f->visible[v])
                    return false;
                for (uint32_t r = 0; r < j->f->readers[v].n; r++) {
                    NodeId to = j->order.group[j->f->readers[v].at[r]];
                    bool ours = false;
                    for (uint32_t q = 0; q < n; q++)
                        ours |= group[q] == to;
                    if (!ours)
                        return false;
                }
            }
        }
    }
    return true;
}

/* ---- kinds of candidates --------------------------------------------------------------------- */

static bool
has_same_groups(const MergeCandidate *x, const MergeCandidate *y)
{
    return x->n == y->n && !memcmp(x->group, y->group, x->n * sizeof *x->group);
}

/* Adds a candidate, unless it is listed, or merging it would form a cycle. */
static void
add(GroupMerge *j, MergeCandidate t)
{
    for (uint32_t i = 0; i < t.n; i++)
        t.group[i] = j->order.group[t.member[i]];
    uint32_t *newest = &j->newest[t.group[t.n - 1]];
    for (uint32_t i = *newest; i; i = j->found.at[i - 1].next) {
        const MergeCandidate *other = &j->found.at[i - 1];
        if (!has_same_groups(&t, other))
            continue;
        if (t.depth == other->depth && t.between == other->between)
            return;
        t.instead = i;
    }
    if (!order_allows(&j->order, t.group, t.n))
        return;
    t.next = *newest;
    VEC_PUSH(j->f->arena, &j->found, t);
    *newest = j->found.n;
}

static NodeId
last_of_rows(GroupMerge *j, const NodeId *stage, uint32_t n, NodeId product)
{
    for (uint32_t k = 0; k < n; k++) {
        const FusedCall *p = &j->f->call[stage[k]];
        ValueId v = p->value[p->nest->nin];
        if (p->nest->nout == 1 && fuse_traits_of(j->f, stage[k])->elementwise &&
            j->f->readers[v].n == 1 && j->f->readers[v].at[0] == product)
            return stage[k];
    }
    return 0;
}

/* Contraction, rows, contraction: an attention. */
static void
add_triples(GroupMerge *j, NodeId product, NodeId group)
{
    const FusedCall *p = &j->f->call[product];

    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId rows = group_of(j, p->value[i]);
        if (!rows || rows == group || !is_rows(j, rows))
            continue;
        uint32_t stages = list_stages(j, rows);
        NodeId *stage = arena_copy(j->f->arena, j->stage, stages * sizeof *stage);
        for (uint32_t k = 0; k < stages; k++)
            for (uint32_t s = 0; s < j->f->call[stage[k]].nest->nin; s++) {
                NodeId three[] = { group_of(j, j->f->call[stage[k]].value[s]), rows, group };
                if (three[0] == rows || !is_product(j, three[0]) || !is_closed(j, three, 3))
                    continue;
                add(j,
                    (MergeCandidate){ .member = { j->g->value.at[j->f->call[stage[k]].value[s]].def,
                                                  stage[k], product },
                                      .n = 3,
                                      .last = last_of_rows(j, stage, stages, product) });
            }
    }
}

/* Contraction, rows of its result, which may be stored too: a normalisation behind it. */
static void
add_rows(GroupMerge *j, NodeId row, NodeId group)
{
    const FusedCall *p = &j->f->call[row];

    if (!fuse_traits_of(j->f, row)->row || !is_rows(j, group))
        return;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId product = group_of(j, p->value[i]);
        if (product != group && is_product(j, product))
            add(j, (MergeCandidate){ .member = { j->g->value.at[p->value[i]].def, row }, .n = 2 });
    }
}

/* The number of outer axes that contraction and window can share: those before the first axis of
 * either side that the window slides over or does not. 0: no read of v slides. */
static uint32_t
depth_under(GroupMerge *j, NodeId product, NodeId window, ValueId v)
{
    Ctx *c = j->f->ctx;
    const Nest *n = j->f->call[product].nest;
    const FusedCall *w = &j->f->call[window];
    Accesses reads = nest_accesses(c, j->f->arena, w->nest);
    AxisSet parallel = nest_axes_of_kind(w->nest, AXIS_PARALLEL), slides = 0;
    Contraction view;
    uint32_t depth = 0;

    for (uint32_t i = 0; i < reads.n; i++)
        for (uint32_t d = 0;
             w->value[reads.at[i].load->u.load.slot] == v && d < reads.at[i].load->u.load.rank;
             d++) {
            AxisSet here = expr_axes(reads.at[i].load->u.load.at[d]);
            slides |= (here & parallel) && (here & ~parallel) ? expr_axes(n->write[0].at[d]) : 0;
        }
    if (!nest_contraction(c, n, &view) || !slides || (slides & view.row && slides & view.col))
        return 0;
    AxisSet other = slides & view.row ? view.col : view.row;
    for (uint32_t x = 0; x < n->naxis; x++)
        if (n->axis[x].kind == AXIS_PARALLEL) {
            if ((other | slides) >> x & 1)
                break;
            depth++;
        }
    return depth;
}

/* Contraction, sliding window over its result: a pooling behind a convolution. */
static void
add_pooled(GroupMerge *j, NodeId window, NodeId group)
{
    const FusedCall *p = &j->f->call[window];
    const NestTraits *k = fuse_traits_of(j->f, window);

    if (!k->reduces || k->contraction || list_stages(j, group) != 1)
        return;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        if (two[0] == group || !is_product(j, two[0]))
            continue;
        uint32_t depth = depth_under(j, j->stage[0], window, p->value[i]);
        if (depth && is_closed(j, two, 2))
            add(j, (MergeCandidate){ .member = { j->g->value.at[p->value[i]].def, window },
                                     .n = 2,
                                     .between = p->value[i],
                                     .depth = depth });
    }
}

/* Is the input read once, indexed by all parallel axes and then the reduction axis, one a
 * dimension? */
static bool
reads_as_summed(GroupMerge *j, NodeId reader, uint32_t slot)
{
    const Nest *n = j->f->call[reader].nest;
    Accesses reads = nest_accesses(j->f->ctx, j->f->arena, n);
    const Scalar *found = NULL;
    uint32_t dim = 0;

    for (uint32_t i = 0; i < reads.n; i++)
        if (reads.at[i].load->u.load.slot == slot) {
            if (found)
                return false;
            found = reads.at[i].load;
        }
    for (uint32_t kind = AXIS_PARALLEL; found && kind <= AXIS_REDUCE; kind++)
        for (uint32_t x = 0; x < n->naxis; x++)
            if (n->axis[x].kind == (AxisKind)kind &&
                (dim == found->u.load.rank || found->u.load.at[dim++] != expr_axis(j->f->ctx, x)))
                return false;
    return found && dim == found->u.load.rank;
}

/* Contraction over each group of summands, sum over the groups, which may be scaled. */
static void
add_scaled(GroupMerge *j, NodeId sum, NodeId group)
{
    const FusedCall *p = &j->f->call[sum];

    if (!fuse_traits_of(j->f, sum)->reduces || list_stages(j, group) != 1)
        return;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        uint32_t depth = p->nest->param[i].type->rank - 1u;
        if (depth && two[0] != group && is_product(j, two[0]) && is_closed(j, two, 2) &&
            reads_as_summed(j, sum, i))
            add(j, (MergeCandidate){ .member = { j->g->value.at[p->value[i]].def, sum },
                                     .n = 2,
                                     .between = p->value[i],
                                     .depth = depth });
    }
}

/* ---- products side by side ------------------------------------------------------------------- */

/* The contractions that read a value, in the order of their groups. */
static uint32_t
products_of(GroupMerge *j, ValueId v, NodeId *out)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < j->f->readers[v].n; r++) {
        NodeId to = j->f->readers[v].at[r];
        uint32_t at = n, place = j->order.at[j->order.group[to]];
        while (at > 0 && j->order.at[j->order.group[out[at - 1]]] > place)
            at--;
        if ((at > 0 && out[at - 1] == to) || !is_product(j, j->order.group[to]) ||
            j->stage[0] != to)
            continue;
        memmove(out + at + 1, out + at, (n - at) * sizeof *out);
        out[at] = to;
        n++;
    }
    return n;
}

/* [n][n]: does contraction k depend on i? Dependence is transitive, which saves path searches. */
static bool *
find_waits(GroupMerge *j, const NodeId *product, uint32_t n)
{
    bool *waits = NEW_ARRAY(j->f->arena, bool, (size_t)n *n);

    for (uint32_t i = n; i-- > 0;)
        for (uint32_t k = i + 1; k < n; k++) {
            NodeId two[] = { j->order.group[product[i]], j->order.group[product[k]] };
            bool *own = waits + (size_t)i * n, *other = waits + (size_t)k * n;
            if (own[k] || (fuse_are_independent(j->f, (NodeId[]){ product[i], product[k] }, 2) &&
                           order_allows(&j->order, two, 2)))
                continue;
            own[k] = true;
            for (uint32_t l = k + 1; l < n; l++)
                own[l] |= other[l];
        }
    return waits;
}

/* Adds disjoint sets of independent contractions that read one value, each with as many as it can
 * have. */
static void
add_beside(GroupMerge *j, ValueId v)
{
    Arena *a = j->f->arena;
    NodeId *product = NEW_ARRAY(a, NodeId, j->f->readers[v].n + 1);
    uint32_t n = products_of(j, v, product), at[ORDER_MOST_MERGED];

    if (n < 2)
        return;
    const bool *waits = find_waits(j, product, n);
    bool *gone = NEW_ARRAY(a, bool, n);
    for (uint32_t first = 0; first < n; first++) {
        MergeCandidate t = { .side_by_side = true };
        if (gone[first])
            continue;
        for (uint32_t i = first; i < n; i++) {
            bool free = !gone[i] && t.n < ORDER_MOST_MERGED;
            for (uint32_t k = 0; k < t.n && free; k++)
                free = !waits[(size_t)at[k] * n + i];
            if (!free)
                continue;
            gone[i] = true;
            at[t.n] = i;
            t.member[t.n++] = product[i];
        }
        if (t.n > 1)
            add(j, t);
    }
}

void
merge_candidates(GroupMerge *j)
{
    for (NodeId n = 1; n < j->g->node.n; n++) {
        NodeId group = j->order.group[n];
        if (!group || j->f->stage[n] != n)
            continue;
        if (fuse_traits_of(j->f, n)->contraction && list_stages(j, group) == 1)
            add_triples(j, n, group);
        add_pooled(j, n, group);
        add_scaled(j, n, group);
        add_rows(j, n, group);
    }
    for (ValueId v = 1; v < j->g->value.n; v++)
        if (!j->g->value.at[v].data)
            add_beside(j, v);
}
