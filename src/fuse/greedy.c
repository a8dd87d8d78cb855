/* greedy: fuse what clearly pays, in two steps.
 *
 * First every node that can vanish into its readers does (compose.c): views, index arithmetic,
 * elementwise chains, epilogues, cheap prologues. Then rows are gathered: reductions over trailing
 * axes and the elementwise nests around them, as in softmax and layer normalisation, become parts
 * of one kernel that share their outer axes, so that a row stays in the nearest memory.
 *
 * Gathering may close a cycle through other groups, which their order tells (order.c). Products do
 * not join rows here: their kernels tile all axes.
 */
#include "fuse/order.h"

typedef struct {
    Fusion *f;
    const Machine *m;
    Order order;              /* of hosts in groups */
    const NestTraits *traits; /* [node.n]: of hosts */
    NodeId *member;           /* [node.n]: scratch */
} Rows;

static bool
is_host(const Fusion *f, NodeId n)
{
    return f->host[n] == n;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A group that has a row reduction keeps its trips; NULL if it has none and follows the other. */
static const Expr *
trips_to_keep(Rows *r, NodeId group)
{
    uint32_t n = order_nodes(&r->order, &group, 1, r->member);
    bool row = false;

    for (uint32_t i = 0; i < n; i++)
        row = row || r->traits[r->member[i]].row;
    if (!row)
        return NULL;
    return fuse_trips(r->f->ctx, r->f->piece[r->member[0]].nest,
                      n > 1 ? fuse_shared(r->f, r->member, n) : NEST_MAX_AXES);
}

/* Is a trip small enough for near memory, and are there two trips for every core, where there is
 * work for two? */
static bool
suits(Rows *r, const Expr *trips, uint32_t n)
{
    Ctx *c = r->f->ctx;
    int64_t trip, work, few = machine_tasks(r->m), much = 2 * machine_waking_operations(r->m);

    for (uint32_t i = 0; i < n; i++) {
        const Nest *nest = r->f->piece[r->member[i]].nest;
        const Expr *row = expr_exact_div(c, type_count(c, nest->param[nest->nin].type), trips);
        if (row && expr_const(row, &work) && work > FUSE_MAX_ROW)
            return false;
        if (expr_const(trips, &trip) && trip < few && row && expr_const(row, &work) &&
            trip * work > much)
            return false;
    }
    return true;
}

static bool
gather(Rows *r, NodeId a, NodeId b)
{
    Fusion *f = r->f;
    Ctx *c = f->ctx;
    const Expr *keep_a = trips_to_keep(r, a), *keep_b = trips_to_keep(r, b);
    NodeId both[] = { a, b };
    uint32_t n = order_nodes(&r->order, both, 2, r->member);

    if ((!keep_a && !keep_b) || n > FUSE_MAX_PARTS)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!r->traits[r->member[i]].elementwise && !r->traits[r->member[i]].row)
            return false;
    uint32_t depth = fuse_shared(f, r->member, n);
    if (!depth)
        return false;
    const Expr *trips = fuse_trips(c, f->piece[r->member[0]].nest, depth);
    if ((keep_a && expr_eq(c, NULL, keep_a, trips) != YES) ||
        (keep_b && expr_eq(c, NULL, keep_b, trips) != YES))
        return false;
    if (!suits(r, trips, n) || !order_join(&r->order, both, 2))
        return false;
    for (uint32_t i = 0; i < n; i++)
        f->why[r->member[i]] = "part of a kernel over shared rows";
    return true;
}

static void
gather_rows(Fusion *f, const Machine *m)
{
    uint32_t nn = f->g->node.n;
    Arena *a = f->arena;
    uint32_t *number = NEW_ARRAY(a, uint32_t, nn);
    bool changed = true;

    /* what vanished did so into a later node: ids are an order */
    for (NodeId n = 1; n < nn; n++) {
        number[n] = n;
        if (is_host(f, n))
            fuse_traits_of(f, n);
    }
    Rows r = { .f = f,
               .m = m,
               .order = order_begin(f, a, number),
               .traits = f->traits,
               .member = NEW_ARRAY(a, NodeId, nn + 1) };
    const NodeId *group = r.order.group;
    while (changed) {
        changed = false;
        for (NodeId n = 1; n < nn; n++)
            for (uint32_t i = 0; is_host(f, n) && i < f->piece[n].nest->nin; i++) {
                NodeId def = f->g->value.at[f->piece[n].value[i]].def;
                if (def && group[def] != group[n] && (r.traits[n].elementwise || r.traits[n].row) &&
                    (r.traits[def].elementwise || r.traits[def].row))
                    changed = gather(&r, group[def], group[n]) || changed;
            }
    }
    for (NodeId n = 1; n < nn; n++)
        if (f->host[n])
            f->host[n] = group[f->host[n]];
}

FusePlan
fuse_greedy(const Graph *g, Arena *a, const Machine *m)
{
    FusePlan p = fuse_none(g, a);
    Arena *scratch = arena_child(g->ctx->arena);
    Fusion f = fuse_compose(g, scratch, NULL, &fuse_rules);

    fuse_vanish(g, &p, f.host);
    gather_rows(&f, m);
    for (NodeId n = 1; n < g->node.n; n++) {
        p.group[n] = f.host[n];
        p.why[n] = f.why[n] ? arena_str(a, f.why[n]) : "";
    }
    fuse_number(g, a, &p);
    fuse_settle(g, &p);
    arena_free(scratch);
    return p;
}
