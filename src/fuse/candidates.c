/* candidates: groups that may be less work as one kernel.
 *
 * What a plan stores between a product and the rows made of it (softmax), or between rows and a
 * product of them, need not exist as a whole: a tile of rows of all three fits a cache. Nor need
 * what lies between a product and a window over it (pooling behind a convolution): some rows of the
 * image fit. Products that read one value may stand side by side. All are listed against the plan
 * as it is, whether they have groups in common or not.
 */
#include "fuse/join.h"

#include <string.h>

/* Of products that read one value so many sets are listed, all there are of six. Bounds kernels
 * that are made and priced: each product more doubles them. Two, three or four read one value in
 * nets with attention or with branches. */
#define MOST_BESIDE 57

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t
list_hosts(Join *j, NodeId group)
{
    return join_nodes(j, j->f, &group, 1).hosts;
}

/* A group that is one product. */
static bool
is_product(Join *j, NodeId group)
{
    return group && list_hosts(j, group) == 1 && fuse_traits_of(j->f, j->host[0])->contraction;
}

/* A group of rows: reductions along them, and elementwise work around. */
static bool
is_rows(Join *j, NodeId group)
{
    uint32_t n = group ? list_hosts(j, group) : 0;
    bool row = false;

    for (uint32_t i = 0; i < n; i++) {
        const NestTraits *t = fuse_traits_of(j->f, j->host[i]);
        row |= t->row;
        if (!t->row && !t->elementwise)
            return false;
    }
    return row;
}

static NodeId
group_of(const Join *j, ValueId v)
{
    return j->order.group[j->g->value.at[v].def];
}

/* Is every value that these groups but the last make read by them alone? */
static bool
is_closed(Join *j, const NodeId *group, uint32_t n)
{
    for (uint32_t k = 0; k + 1 < n; k++) {
        uint32_t hosts = list_hosts(j, group[k]);
        for (uint32_t i = 0; i < hosts; i++) {
            const Piece *p = &j->f->piece[j->host[i]];
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
has_same_groups(const JoinCandidate *x, const JoinCandidate *y)
{
    return x->n == y->n && !memcmp(x->group, y->group, x->n * sizeof *x->group);
}

/* One more, unless it is there, or its groups would wait for themselves. */
static void
add(Join *j, JoinCandidate t)
{
    for (uint32_t i = 0; i < t.n; i++)
        t.group[i] = j->order.group[t.member[i]];
    uint32_t *newest = &j->newest[t.group[t.n - 1]];
    for (uint32_t i = *newest; i; i = j->found.at[i - 1].next) {
        const JoinCandidate *other = &j->found.at[i - 1];
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
last_of_rows(Join *j, const NodeId *host, uint32_t n, NodeId product)
{
    for (uint32_t k = 0; k < n; k++) {
        const Piece *p = &j->f->piece[host[k]];
        ValueId v = p->value[p->nest->nin];
        if (p->nest->nout == 1 && fuse_traits_of(j->f, host[k])->elementwise &&
            j->f->readers[v].n == 1 && j->f->readers[v].at[0] == product)
            return host[k];
    }
    return 0;
}

/* Product, rows, product. */
static void
add_triples(Join *j, NodeId product, NodeId group)
{
    const Piece *p = &j->f->piece[product];

    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId rows = group_of(j, p->value[i]);
        if (!rows || rows == group || !is_rows(j, rows))
            continue;
        uint32_t hosts = list_hosts(j, rows);
        NodeId *host = arena_copy(j->f->arena, j->host, hosts * sizeof *host);
        for (uint32_t k = 0; k < hosts; k++)
            for (uint32_t s = 0; s < j->f->piece[host[k]].nest->nin; s++) {
                NodeId three[] = { group_of(j, j->f->piece[host[k]].value[s]), rows, group };
                if (three[0] == rows || !is_product(j, three[0]) || !is_closed(j, three, 3))
                    continue;
                add(j,
                    (JoinCandidate){ .member = { j->g->value.at[j->f->piece[host[k]].value[s]].def,
                                                 host[k], product },
                                     .n = 3,
                                     .last = last_of_rows(j, host, hosts, product) });
            }
    }
}

/* A group that sums over a window which slides over its outputs, alone. */
static bool
is_window(Join *j, NodeId group)
{
    if (!group || list_hosts(j, group) != 1 || !fuse_traits_of(j->f, j->host[0])->reduces)
        return false;
    const Nest *n = j->f->piece[j->host[0]].nest;
    Accesses reads = nest_accesses(j->f->ctx, j->f->arena, n);
    for (uint32_t i = 0; i < reads.n; i++)
        if (nest_mapping(j->f->ctx, n, &reads.at[i]) == MAP_WIN)
            return true;
    return false;
}

/* Window, product. */
static void
add_windows(Join *j, NodeId product, NodeId group)
{
    const Piece *p = &j->f->piece[product];

    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        if (two[0] != group && is_window(j, two[0]) && is_closed(j, two, 2))
            add(j,
                (JoinCandidate){ .member = { j->g->value.at[p->value[i]].def, product }, .n = 2 });
    }
}

/* Product, rows of what it makes, which may be stored as well. */
static void
add_rows(Join *j, NodeId row, NodeId group)
{
    const Piece *p = &j->f->piece[row];

    if (!fuse_traits_of(j->f, row)->row || !is_rows(j, group))
        return;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId product = group_of(j, p->value[i]);
        if (product != group && is_product(j, product))
            add(j, (JoinCandidate){ .member = { j->g->value.at[p->value[i]].def, row }, .n = 2 });
    }
}

/* Axes in front of the first that the other side of the product has: a window slides over one side
 * alone, and columns are not shared one by one. 0: no index of the window's reads slides. */
static uint32_t
depth_under(Join *j, NodeId product, NodeId window, ValueId v)
{
    Ctx *c = j->f->ctx;
    const Nest *n = j->f->piece[product].nest;
    const Piece *w = &j->f->piece[window];
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

/* Product, window that slides over what it makes. */
static void
add_pooled(Join *j, NodeId window, NodeId group)
{
    const Piece *p = &j->f->piece[window];
    const NestTraits *k = fuse_traits_of(j->f, window);

    if (!k->reduces || k->contraction || list_hosts(j, group) != 1)
        return;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        if (two[0] == group || !is_product(j, two[0]))
            continue;
        uint32_t depth = depth_under(j, j->host[0], window, p->value[i]);
        if (depth && is_closed(j, two, 2))
            add(j, (JoinCandidate){ .member = { j->g->value.at[p->value[i]].def, window },
                                    .n = 2,
                                    .between = p->value[i],
                                    .depth = depth });
    }
}

/* Is v read once, at all parallel axes and the summed one, each its own dimension, the last that of
 * the sum? */
static bool
reads_as_summed(Join *j, NodeId reader, uint32_t slot)
{
    const Nest *n = j->f->piece[reader].nest;
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

/* Product, sums over the last axis of what it makes, for each group of its summands: they may be
 * scaled. */
static void
add_scaled(Join *j, NodeId sum, NodeId group)
{
    const Piece *p = &j->f->piece[sum];

    if (!fuse_traits_of(j->f, sum)->reduces || list_hosts(j, group) != 1)
        return;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        uint32_t depth = p->nest->param[i].type->rank - 1u;
        if (depth && two[0] != group && is_product(j, two[0]) && is_closed(j, two, 2) &&
            reads_as_summed(j, sum, i))
            add(j, (JoinCandidate){ .member = { j->g->value.at[p->value[i]].def, sum },
                                    .n = 2,
                                    .between = p->value[i],
                                    .depth = depth });
    }
}

/* ---- products side by side ------------------------------------------------------------------- */

typedef VEC(JoinCandidate) Sets;

/* The products that read a value, in the order of their groups. */
static uint32_t
products_of(Join *j, ValueId v, NodeId *out)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < j->f->readers[v].n; r++) {
        NodeId to = j->f->readers[v].at[r];
        uint32_t at = n, place = j->order.at[j->order.group[to]];
        while (at > 0 && j->order.at[j->order.group[out[at - 1]]] > place)
            at--;
        if ((at > 0 && out[at - 1] == to) || !is_product(j, j->order.group[to]) || j->host[0] != to)
            continue;
        memmove(out + at + 1, out + at, (n - at) * sizeof *out);
        out[at] = to;
        n++;
    }
    return n;
}

/* [n][n]: does the second of two products wait for the first? Then so does what waits for the
 * second, and need not be looked for. */
static bool *
find_waits(Join *j, const NodeId *product, uint32_t n)
{
    bool *waits = NEW_ARRAY(j->f->arena, bool, (size_t)n *n);

    for (uint32_t i = n; i-- > 0;)
        for (uint32_t k = i + 1; k < n; k++) {
            NodeId two[] = { j->order.group[product[i]], j->order.group[product[k]] };
            bool *own = waits + (size_t)i * n, *other = waits + (size_t)k * n;
            if (own[k] || (fuse_beside(j->f, (NodeId[]){ product[i], product[k] }, 2) &&
                           order_allows(&j->order, two, 2)))
                continue;
            own[k] = true;
            for (uint32_t l = k + 1; l < n; l++)
                own[l] |= other[l];
        }
    return waits;
}

/* Products of one value [n]. A set of them is told by their numbers, ascending. */
typedef struct {
    uint32_t at[ORDER_MOST_JOINED], n;
} Set;
typedef struct {
    const NodeId *product;
    const bool *waits;
    uint32_t n;
    VEC(Set) set;
} Beside;

/* A set with one more behind its last, if that waits for none of it. */
static bool
may_have(const Beside *b, Set *s, uint32_t more)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (b->waits[(size_t)s->at[i] * b->n + more])
            return false;
    if (s->n == ORDER_MOST_JOINED)
        return false;
    s->at[s->n++] = more;
    return true;
}

/* All sets that may be, those of one at first, then of more; false: there are too many. */
static bool
list_sets(Beside *b, Arena *a)
{
    for (uint32_t i = 0; i < b->n; i++)
        VEC_PUSH(a, &b->set, ((Set){ { i }, 1 }));
    for (uint32_t at = 0; at < b->set.n; at++) {
        Set s = b->set.at[at];
        for (uint32_t i = s.at[s.n - 1] + 1; i < b->n; i++) {
            Set more = s;
            if (!may_have(b, &more, i))
                continue;
            if (b->set.n == b->n + MOST_BESIDE)
                return false;
            VEC_PUSH(a, &b->set, more);
        }
    }
    return true;
}

/* As many as may be with the first that is left, and so on; of each such set also those that one is
 * missing of. */
static void
list_some_sets(Beside *b, Arena *a)
{
    bool *gone = NEW_ARRAY(a, bool, b->n);

    b->set.n = 0;
    for (uint32_t first = 0; first < b->n; first++) {
        Set all = { { first }, 1 };
        if (gone[first])
            continue;
        for (uint32_t i = first + 1; i < b->n; i++)
            gone[i] = gone[i] || may_have(b, &all, i);
        for (uint32_t missing = 0; missing <= all.n; missing++) { /* at last none is */
            Set s = { { 0 }, 0 };
            for (uint32_t i = 0; i < all.n; i++)
                if (i != missing)
                    s.at[s.n++] = all.at[i];
            VEC_PUSH(a, &b->set, s);
        }
    }
}

/* Members stand in the order of their groups. */
static bool
is_part(const JoinCandidate *t, const JoinCandidate *of)
{
    uint32_t met = 0;

    for (uint32_t i = 0; i < of->n && met < t->n; i++)
        met += of->member[i] == t->member[met];
    return met == t->n;
}

/* Products of one value that do not wait for each other. */
static void
add_beside(Join *j, ValueId v)
{
    Arena *a = j->f->arena;
    NodeId *product = NEW_ARRAY(a, NodeId, j->f->readers[v].n + 1);
    uint32_t n = products_of(j, v, product), first = j->found.n;

    if (n < 2)
        return;
    Beside b = { .product = product, .waits = find_waits(j, product, n), .n = n };
    if (!list_sets(&b, a)) {
        j->unlisted++;
        list_some_sets(&b, a);
    }
    /* the largest first: of those that gain as much the first is taken */
    for (uint32_t i = b.set.n; i-- > 0;) {
        const Set *s = &b.set.at[i];
        JoinCandidate t = { .n = s->n, .side_by_side = true };
        for (uint32_t k = 0; k < s->n; k++)
            t.member[k] = product[s->at[k]];
        for (uint32_t k = first; k < j->found.n && !t.instead; k++)
            t.instead = is_part(&t, &j->found.at[k]) ? k + 1 : 0;
        if (t.n > 1)
            add(j, t);
    }
}

void
join_candidates(Join *j)
{
    for (NodeId n = 1; n < j->g->node.n; n++) {
        NodeId group = j->order.group[n];
        if (!group || j->f->host[n] != n)
            continue;
        if (fuse_traits_of(j->f, n)->contraction && list_hosts(j, group) == 1) {
            add_triples(j, n, group);
            add_windows(j, n, group);
        }
        add_pooled(j, n, group);
        add_scaled(j, n, group);
        add_rows(j, n, group);
    }
    for (ValueId v = 1; v < j->g->value.n; v++)
        if (!j->g->value.at[v].data)
            add_beside(j, v);
}
