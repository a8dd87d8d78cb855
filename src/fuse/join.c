/* join: groups that are less work as one kernel, by the price of their best schedules.
 *
 * What a greedy plan stores between a product and the rows made of it (softmax), or between rows and a product of them,
 * need not exist as a whole: a tile of rows of all three fits a cache. Nor need what lies between a product and a window over it
 * (pooling behind a convolution): some rows of the image fit. Whether that pays, nobody here knows: the joint
 * kernel and its pieces are made, and their schedules priced by whoever asked.
 */
#include "fuse/order.h"

#include <string.h>

typedef struct {
    const Graph *g;
    FusePlan *plan;
    Fusion *f;
    Order order;                     /* the plan's groups as they are now */
    const FusePrice *price;
    NodeId *node, *host;             /* [node.n + 1]: scratch: those of a group, and its hosts */
} Join;

/* The nodes of these groups in j->node, those that stay if they are composed so in j->host; how many of either. */
typedef struct { uint32_t nodes, hosts; } Counts;

static Counts
list_nodes(Join *j, const Fusion *composed, const NodeId *group, uint32_t n)
{
    uint32_t nodes = order_nodes(&j->order, group, n, j->node);

    return (Counts){ nodes, fuse_hosts(composed, j->node, nodes, j->host) };
}

static uint32_t
list_hosts(Join *j, NodeId group)
{
    return list_nodes(j, j->f, &group, 1).hosts;
}

/* ---- candidates ---------------------------------------------------------------------------------------- */

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

/* Groups that may be one, in the order in which they feed each other: a member of each. last: of product, rows, product
 * the last of the rows, where it is elementwise work that the second product alone reads and may do itself; 0: none is. between, depth:
 * the value that lies between may share so many axes, and no more; 0: as many as it can. */
typedef struct { NodeId member[ORDER_MOST_JOINED + 1], last; uint32_t n; ValueId between; uint32_t depth; bool side_by_side; } Candidate;
typedef VEC(Candidate) Candidates;

static NodeId
last_of_rows(Join *j, const NodeId *host, uint32_t n, NodeId product)
{
    for (uint32_t k = 0; k < n; k++) {
        const Piece *p = &j->f->piece[host[k]];
        ValueId v = p->value[p->nest->nin];
        if (p->nest->nout == 1 && fuse_traits_of(j->f, host[k])->elementwise && j->f->readers[v].n == 1 && j->f->readers[v].at[0] == product)
            return host[k];
    }
    return 0;
}

/* Product, rows, product. */
static bool
find_triple(Join *j, NodeId product, NodeId group, Candidate *t)
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
                *t = (Candidate){ { j->g->value.at[j->f->piece[host[k]].value[s]].def, host[k], product }, last_of_rows(j, host, hosts, product), 3 };
                return true;
            }
    }
    return false;
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
static bool
find_pair(Join *j, NodeId product, NodeId group, Candidate *t)
{
    const Piece *p = &j->f->piece[product];

    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        if (two[0] == group || !is_window(j, two[0]) || !is_closed(j, two, 2))
            continue;
        *t = (Candidate){ .member = { j->g->value.at[p->value[i]].def, product }, .n = 2 };
        return true;
    }
    return false;
}

/* Product, rows of what it makes: of input i of a row. What the product makes may be stored as well. */
static bool
find_rows(Join *j, NodeId row, uint32_t i, Candidate *t)
{
    NodeId group = j->order.group[row], product = group_of(j, j->f->piece[row].value[i]);

    if (!group || product == group || j->f->host[row] != row || !fuse_traits_of(j->f, row)->row || !is_product(j, product) || !is_rows(j, group))
        return false;
    *t = (Candidate){ .member = { j->g->value.at[j->f->piece[row].value[i]].def, row }, .n = 2 };
    return true;
}

/* Axes in front of the first that the other side of the product has: a window slides over one side alone, and columns are not shared one
 * by one. 0: no index of the window's reads slides. */
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
        for (uint32_t d = 0; w->value[reads.at[i].load->u.load.slot] == v && d < reads.at[i].load->u.load.rank; d++) {
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
static bool
find_pooled(Join *j, NodeId window, Candidate *t)
{
    const Piece *p = &j->f->piece[window];
    NodeId group = j->order.group[window];
    const NestTraits *k = fuse_traits_of(j->f, window);

    if (!group || j->f->host[window] != window || !k->reduces || k->contraction || list_hosts(j, group) != 1)
        return false;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        if (two[0] == group || !is_product(j, two[0]))
            continue;
        uint32_t depth = depth_under(j, j->host[0], window, p->value[i]);
        if (!depth || !is_closed(j, two, 2))
            continue;
        *t = (Candidate){ .member = { j->g->value.at[p->value[i]].def, window }, .n = 2, .between = p->value[i], .depth = depth };
        return true;
    }
    return false;
}

/* Is v read once, at all parallel axes and the summed one, each its own dimension, the last that of the sum? */
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
            if (n->axis[x].kind == (AxisKind)kind && (dim == found->u.load.rank || found->u.load.at[dim++] != expr_axis(j->f->ctx, x)))
                return false;
    return found && dim == found->u.load.rank;
}

/* Product, sums over the last axis of what it makes, for each group of its summands: they may be scaled. */
static bool
find_scaled(Join *j, NodeId sum, Candidate *t)
{
    const Piece *p = &j->f->piece[sum];
    NodeId group = j->order.group[sum];

    if (!group || j->f->host[sum] != sum || !fuse_traits_of(j->f, sum)->reduces || list_hosts(j, group) != 1)
        return false;
    for (uint32_t i = 0; i < p->nest->nin; i++) {
        NodeId two[] = { group_of(j, p->value[i]), group };
        if (two[0] == group || !is_product(j, two[0]) || !is_closed(j, two, 2) || !reads_as_summed(j, sum, i))
            continue;
        uint32_t depth = p->nest->param[i].type->rank - 1u;
        *t = (Candidate){ .member = { j->g->value.at[p->value[i]].def, sum }, .n = 2, .between = p->value[i], .depth = depth };
        return depth > 0;
    }
    return false;
}

static bool
find_candidate(Join *j, NodeId group, Candidate *t)
{
    if (!is_product(j, group))
        return false;
    NodeId product = j->host[0];
    return find_triple(j, product, group, t) || find_pair(j, product, group, t);
}

/* ---- their price --------------------------------------------------------------------------------------- */

/* How deep all readers of a value share its axes. */
static void
set_depth(const Fusion *f, ValueId v, uint32_t depth)
{
    for (uint32_t r = 0; r < f->edges[v].n; r++)
        f->edges[v].at[r].depth = depth;
}

static void
groups_of(const Join *j, const Candidate *t, NodeId *group)
{
    for (uint32_t i = 0; i < t->n; i++)
        group[i] = j->order.group[t->member[i]];
}

/* What they take as one group; negative: they are none. composed: how they are composed. */
static double
price_joined(Join *j, const Candidate *t, const Fusion *composed)
{
    NodeId group[ORDER_MOST_JOINED];
    const void *const *data;

    groups_of(j, t, group);
    if (!order_allows(&j->order, group, t->n))
        return -1;
    Counts n = list_nodes(j, composed, group, t->n);
    if (n.hosts > FUSE_MAX_PARTS)
        return -1;
    uint32_t shared = fuse_shared(composed, j->host, n.hosts);
    if (shared < t->depth || (!shared && !fuse_beside(composed, j->host, n.hosts)))
        return -1;                   /* as where a window of many channels reads a product of one */
    set_depth(composed, t->between, t->depth);
    const Kernel *joined = fuse_kernel(composed, j->node, n.nodes, &data);
    return j->price->of(j->price->user, &joined, &data, 1);
}

/* The reads of a group's nodes [n], in which `last`, if it is some node, is computed where it is read. */
static void
settle(Join *j, const Candidate *t, NodeId last, uint32_t n)
{
    const Graph *g = j->g;

    for (uint32_t k = 0; k < n; k++) {
        const Node *node = &g->node.at[j->node[k]];
        for (uint32_t i = 0; i < node->in.count; i++) {
            FuseEdge *e = &j->plan->edge[node->in.first + i];
            NodeId def = g->value.at[node_in(g, node, i)].def;
            if (!fuse_is_among(j->node, n, def) || e->kind == EDGE_INLINE || e->kind == EDGE_RECOMPUTE)
                continue;
            *e = (FuseEdge){ def == last ? EDGE_INLINE : EDGE_SCRATCH, def == t->member[0] && t->depth ? t->depth : e->depth };
        }
    }
}

/* One group of them, if they may be one and pay. inlined: the graph with the last of the rows in the product, where that can be. What it
 * does is done there for each tile of columns, on one element at a time; as a part of its own, once, in vectors. */
static void
try_join(Join *j, const Candidate *t, const Fusion *inlined)
{
    NodeId group[ORDER_MOST_JOINED], last = 0;
    const Kernel *piece[ORDER_MOST_JOINED];
    const void *const *data[ORDER_MOST_JOINED];

    groups_of(j, t, group);
    for (uint32_t i = 0; i < t->n; i++) {
        Counts n = list_nodes(j, j->f, &group[i], 1);
        piece[i] = fuse_kernel(j->f, j->node, n.nodes, &data[i]);
    }
    double apart = j->price->of(j->price->user, piece, data, t->n);
    if (apart < 0)
        return;
    double seconds = price_joined(j, t, j->f), within = t->last ? price_joined(j, t, inlined) : -1;
    if (within >= 0 && (seconds < 0 || within <= seconds)) {
        seconds = within;
        last = t->last;
    }
    for (uint32_t i = 0; i + 1 < t->n && seconds >= apart; i++)
        VEC_PUSH(j->g->ctx->arena, &j->plan->tried, ((FuseTried){ t->member[i], t->member[i + 1], seconds, apart }));
    if (seconds < 0 || seconds >= apart) {
        set_depth(j->f, t->between, 0);
        return;
    }
    Text why = { .arena = j->g->ctx->arena };
    text_add(&why, t->side_by_side ? "one kernel with products of the same: " : "one kernel with what feeds it: ");
    text_seconds(&why, seconds);
    text_add(&why, ", apart ");
    text_seconds(&why, apart);
    Counts n = list_nodes(j, last ? inlined : j->f, group, t->n);
    for (uint32_t i = 0; i < n.hosts; i++)
        j->plan->why[j->host[i]] = text_str(&why);
    settle(j, t, last, n.nodes);
    order_join(&j->order, group, t->n);
}

/* The products that read a value, each once. */
static uint32_t
products_of(Join *j, ValueId v, NodeId *out)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < j->f->readers[v].n; r++) {
        NodeId to = j->f->readers[v].at[r];
        bool listed = false;
        for (uint32_t i = 0; i < n; i++)
            listed |= out[i] == to;
        if (!listed && is_product(j, j->order.group[to]) && j->host[0] == to)
            out[n++] = to;
    }
    return n;
}

/* May these be one kernel, of products side by side? */
static bool
may_stand_beside(Join *j, const Candidate *t)
{
    NodeId group[ORDER_MOST_JOINED];

    if (t->n > ORDER_MOST_JOINED)
        return false;
    groups_of(j, t, group);
    return fuse_beside(j->f, j->host, list_nodes(j, j->f, group, t->n).hosts) && order_allows(&j->order, group, t->n);
}

/* Products of one value that do not wait for each other: as many as may be one kernel with the first that is left, and so on. */
static void
try_side_by_side(Join *j, ValueId v)
{
    NodeId *left = NEW_ARRAY(j->f->arena, NodeId, j->f->readers[v].n + 1);
    uint32_t n = products_of(j, v, left);

    while (n > 1) {
        Candidate t = { .member = { left[0] }, .n = 1, .side_by_side = true };
        uint32_t kept = 0;
        for (uint32_t i = 1; i < n; i++) {
            t.member[t.n++] = left[i];
            if (!may_stand_beside(j, &t))
                left[kept++] = t.member[--t.n];
        }
        n = kept;
        if (t.n > 1)
            try_join(j, &t, NULL);
    }
}

FusePlan
fuse_join(const Graph *g, Arena *to, const FusePlan *before, const FusePrice *price)
{
    Arena *a = arena_child(g->ctx->arena);
    FusePlan plan = fuse_copy(g, to, before), *p = &plan;
    Fusion f = fuse_compose(g, a, p, NULL);
    Join j = { g, p, &f, order_begin(&f, a, p->group), price, NEW_ARRAY(a, NodeId, g->node.n + 1), NEW_ARRAY(a, NodeId, g->node.n + 1) };
    Candidates found = { 0 };
    FusePlan inlined = fuse_copy(g, a, p);
    Candidate t;

    for (uint32_t group = 1; group <= p->ngroup; group++)
        if (find_candidate(&j, j.order.order[group], &t)) {
            VEC_PUSH(a, &found, t);
            inlined.group[t.last] = t.last ? p->group[t.member[t.n - 1]] : 0;
            if (t.last)
                fuse_set(g, &inlined, t.last, 0, (FuseEdge){ EDGE_INLINE, 0 });
        }
    if (found.n) {
        Fusion composed = fuse_compose(g, a, &inlined, NULL);
        for (uint32_t i = 0; i < found.n; i++) {
            if (composed.host[found.at[i].last] == found.at[i].last)
                found.at[i].last = 0;            /* it could not be done there */
            try_join(&j, &found.at[i], &composed);
        }
    }
    for (NodeId n = 1; n < g->node.n; n++) {         /* of what is left */
        if (find_pooled(&j, n, &t) || find_scaled(&j, n, &t))
            try_join(&j, &t, NULL);
        for (uint32_t i = 0; i < f.piece[n].nest->nin; i++)
            if (find_rows(&j, n, i, &t))
                try_join(&j, &t, NULL);
    }
    for (ValueId v = 1; v < g->value.n; v++)
        if (!g->value.at[v].data)
            try_side_by_side(&j, v);
    memcpy(p->group, j.order.group, g->node.n * sizeof *p->group);
    fuse_number(g, to, p);
    arena_free(a);
    return plan;
}
