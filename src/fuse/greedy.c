/* greedy: fuse what clearly pays, in two steps.
 *
 * First every node that can vanish into its readers does (compose.c): views, index arithmetic,
 * elementwise chains, epilogues, cheap prologues. Then rows are gathered: reductions over trailing
 * axes and the elementwise nests around them, as in softmax and layer normalisation, become parts
 * of one kernel that share their outer axes, so that a row stays in the nearest memory.
 *
 * Gathering may close a cycle through other groups, so each merge searches the graph of groups for
 * a path that leaves and returns. Products do not join rows here: their kernels tile all axes.
 */
#include "fuse/internal.h"

#define FEW_TRIPS 16                 /* fewer trips than this starve the threads … */
#define MUCH_WORK 65536              /* … when there are more points than this */

typedef struct {
    Fusion *f;
    NodeId *group;                   /* [node.n]: of hosts: the smallest member's id */
    NestTraits *traits;              /* [node.n]: of hosts */
    NodeId *member;                  /* [node.n]: scratch */
    bool *seen;                      /* [node.n]: scratch, by group */
} Rows;

/* ---- cycles ------------------------------------------------------------------------------------------ */

static bool
is_host(const Fusion *f, NodeId n)
{
    return f->host[n] == n;
}

/* Does a path from `group` reach a or b? `skip_ends`: at the first step, edges inside a + b do not count. */
static bool
returns(Rows *r, NodeId group, NodeId a, NodeId b, bool first)
{
    const Fusion *f = r->f;

    for (NodeId n = group; n < f->g->node.n; n++) {
        if (!is_host(f, n) || r->group[n] != group)
            continue;
        const Piece *p = &f->piece[n];
        for (uint32_t o = 0; o < p->nest->nout; o++) {
            ValueId v = p->value[p->nest->nin + o];
            for (uint32_t i = 0; i < f->readers[v].n; i++) {
                NodeId to = r->group[f->readers[v].at[i]];
                if (to == a || to == b) {
                    if (!first)
                        return true;
                    continue;
                }
                if (to == group || r->seen[to])
                    continue;
                r->seen[to] = true;
                if (returns(r, to, a, b, false))
                    return true;
            }
        }
    }
    return false;
}

static bool
closes_cycle(Rows *r, NodeId a, NodeId b)
{
    for (NodeId n = 0; n < r->f->g->node.n; n++)
        r->seen[n] = false;
    return returns(r, a, a, b, true) || returns(r, b, a, b, true);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static uint32_t
members(Rows *r, NodeId a, NodeId b)
{
    uint32_t n = 0;

    for (NodeId i = 1; i < r->f->g->node.n; i++)
        if (is_host(r->f, i) && (r->group[i] == a || r->group[i] == b))
            r->member[n++] = i;
    return n;
}

/* Trips of the outermost `depth` parallel axes. */
static const Expr *
trips_of(Ctx *c, const Nest *n, uint32_t depth)
{
    const Expr *trips = expr_int(c, 1);

    for (uint32_t k = 0; k < n->naxis; k++)
        if (n->axis[k].kind == AXIS_PARALLEL && depth-- > 0)
            trips = expr_mul(c, trips, n->axis[k].extent);
        else if (n->axis[k].kind == AXIS_PARALLEL)
            break;
    return trips;
}

/* A group that has a row reduction keeps its trips; NULL if it has none and follows the other. */
static const Expr *
trips_to_keep(Rows *r, NodeId group)
{
    uint32_t n = members(r, group, group);
    bool row = false;

    for (uint32_t i = 0; i < n; i++)
        row = row || r->traits[r->member[i]].row;
    if (!row)
        return NULL;
    return trips_of(r->f->ctx, r->f->piece[r->member[0]].nest, n > 1 ? fuse_shared(r->f, r->member, n) : NEST_MAX_AXES);
}

/* Is a trip small enough for near memory, and are there enough trips for the threads? */
static bool
suits(Rows *r, const Expr *trips, uint32_t n)
{
    Ctx *c = r->f->ctx;
    int64_t trip, work;

    for (uint32_t i = 0; i < n; i++) {
        const Nest *nest = r->f->piece[r->member[i]].nest;
        const Expr *row = expr_exact_div(c, type_count(c, nest->param[nest->nin].type), trips);
        if (row && expr_const(row, &work) && work > FUSE_MAX_ROW)
            return false;
        if (expr_const(trips, &trip) && trip < FEW_TRIPS && row && expr_const(row, &work) && trip * work > MUCH_WORK)
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
    uint32_t n = members(r, a, b);

    if ((!keep_a && !keep_b) || n > FUSE_MAX_PARTS)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!r->traits[r->member[i]].elementwise && !r->traits[r->member[i]].row)
            return false;
    uint32_t depth = fuse_shared(f, r->member, n);
    if (!depth)
        return false;
    const Expr *trips = trips_of(c, f->piece[r->member[0]].nest, depth);
    if ((keep_a && expr_eq(c, NULL, keep_a, trips) != YES) || (keep_b && expr_eq(c, NULL, keep_b, trips) != YES))
        return false;
    if (!suits(r, trips, n) || closes_cycle(r, a, b))
        return false;
    NodeId low = a < b ? a : b;
    for (uint32_t i = 0; i < n; i++) {
        r->group[r->member[i]] = low;
        f->why[r->member[i]] = "part of a kernel over shared rows";
    }
    return true;
}

static void
gather_rows(Fusion *f)
{
    uint32_t nn = f->g->node.n;
    Rows r = { f, NEW_ARRAY(f->arena, NodeId, nn), NEW_ARRAY(f->arena, NestTraits, nn), NEW_ARRAY(f->arena, NodeId, nn),
               NEW_ARRAY(f->arena, bool, nn) };
    bool changed = true;

    for (NodeId n = 1; n < nn; n++) {
        r.group[n] = n;
        if (is_host(f, n))
            r.traits[n] = fuse_traits(f->ctx, f->arena, f->piece[n].nest);
    }
    while (changed) {
        changed = false;
        for (NodeId n = 1; n < nn; n++)
            for (uint32_t i = 0; is_host(f, n) && i < f->piece[n].nest->nin; i++) {
                NodeId def = f->g->value.at[f->piece[n].value[i]].def;
                if (def && r.group[def] != r.group[n] && (r.traits[n].elementwise || r.traits[n].row) &&
                    (r.traits[def].elementwise || r.traits[def].row))
                    changed = gather(&r, r.group[def], r.group[n]) || changed;
            }
    }
    for (NodeId n = 1; n < nn; n++)
        if (f->host[n])
            f->host[n] = r.group[f->host[n]];
}

FusePlan
fuse_greedy(const Graph *g, Arena *a)
{
    FusePlan p = fuse_none(g, a);
    Arena *scratch = arena_child(g->ctx->arena);
    Fusion f = fuse_compose(g, scratch, NULL);

    gather_rows(&f);
    for (NodeId n = 1; n < g->node.n; n++) {
        p.group[n] = f.host[n];
        p.copied[n] = f.host[n] == 0;
        p.why[n] = f.why[n] ? arena_str(a, f.why[n]) : "";
    }
    fuse_number(g, a, &p);
    arena_free(scratch);
    return p;
}
