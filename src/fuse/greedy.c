/* greedy: fuse what clearly pays, in two steps.
 *
 * First every node that can vanish into its readers does (compose.c): views, index arithmetic,
 * elementwise chains, epilogues, cheap prologues. Then rows are gathered: reductions over trailing
 * axes and the elementwise nests around them, as in softmax and layer normalisation, become parts
 * of one kernel that share their outer axes, so that a row stays in the nearest memory.
 *
 * Gathering may close a cycle through other groups, so each merge searches the graph of groups for
 * a path that leaves and returns. Groups are kept in a topological order, as Pearce and Kelly do (ACM
 * JEA 11, 2007), so that the search sees only what lies between the two. Products do not join rows
 * here: their kernels tile all axes.
 */
#include "fuse/internal.h"

typedef struct {
    Fusion *f;
    const Machine *m;
    NodeId *group;                   /* [node.n]: of hosts: the smallest member's id */
    NodeId *next;                    /* [node.n]: of hosts: the next member, in the graph's order; 0: the last */
    const NestTraits *traits;        /* [node.n]: of hosts */
    NodeId *member;                  /* [node.n]: scratch */
    NodeId *order;                   /* groups so that none reads a later one … */
    uint32_t *at;                    /* [node.n]: … and where each stands there */
    NodeId *reached, *stack;         /* [node.n]: scratch: groups that the search has seen, and has yet to follow */
    bool *seen;                      /* [node.n]: by group: is it among them? */
} Rows;

static bool
is_host(const Fusion *f, NodeId n)
{
    return f->host[n] == n;
}

/* ---- the order of groups ----------------------------------------------------------------------------- */

typedef struct { Rows *r; NodeId from, to; uint32_t nreached, depth; bool returns; } Search;

/* Follow the values of a group to the groups that read them, as far as stand before s->to. */
static void
follow(Search *s, NodeId group)
{
    Rows *r = s->r;
    const Fusion *f = r->f;

    for (NodeId n = group; n && !s->returns; n = r->next[n]) {
        const Piece *p = &f->piece[n];
        for (uint32_t o = 0; o < p->nest->nout; o++) {
            ValueId v = p->value[p->nest->nin + o];
            for (uint32_t i = 0; i < f->readers[v].n; i++) {
                NodeId to = r->group[f->readers[v].at[i]];
                if (to == s->to)
                    s->returns = s->returns || group != s->from;
                if (to == group || r->seen[to] || r->at[to] >= r->at[s->to])
                    continue;
                r->seen[to] = true;
                r->reached[s->nreached++] = to;
                r->stack[s->depth++] = to;
            }
        }
    }
}

/* Of what was reached from `from`, which now is one with `to`: all behind it. */
static void
reorder(Search *s, NodeId merged)
{
    Rows *r = s->r;
    uint32_t first = r->at[s->from], last = r->at[s->to], at = first, nbehind = 0;

    for (uint32_t i = first + 1; i < last; i++) {
        NodeId group = r->order[i];
        if (r->seen[group])
            r->stack[nbehind++] = group;
        else
            r->order[at++] = group;
    }
    r->order[at++] = merged;
    for (uint32_t i = 0; i < nbehind; i++)
        r->order[at++] = r->stack[i];
    for (uint32_t i = first; i < at; i++)
        r->at[r->order[i]] = i;
    if (at <= last)                              /* the place of the group that is no more */
        r->order[at] = 0;
}

/* Is there a path from `a` to `b`, which reads it, that passes another group? If not, and if they are to be
 * one, the order is made right for it. */
static bool
closes_cycle(Rows *r, NodeId a, NodeId b)
{
    Search s = { .r = r, .from = a, .to = b };

    follow(&s, a);
    while (s.depth && !s.returns)
        follow(&s, r->stack[--s.depth]);
    if (!s.returns)
        reorder(&s, a < b ? a : b);
    for (uint32_t i = 0; i < s.nreached; i++)
        r->seen[r->reached[i]] = false;
    return s.returns;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* The members of both groups (or of one: a == b), in the graph's order. */
static uint32_t
members(Rows *r, NodeId a, NodeId b)
{
    NodeId x = a, y = a == b ? 0 : b;
    uint32_t n = 0;

    while (x || y) {
        NodeId *least = !y || (x && x < y) ? &x : &y;
        r->member[n++] = *least;
        *least = r->next[*least];
    }
    return n;
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
    return fuse_trips(r->f->ctx, r->f->piece[r->member[0]].nest, n > 1 ? fuse_shared(r->f, r->member, n) : NEST_MAX_AXES);
}

/* Is a trip small enough for near memory, and are there two trips for every core, where there is work for two? */
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
        if (expr_const(trips, &trip) && trip < few && row && expr_const(row, &work) && trip * work > much)
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
    const Expr *trips = fuse_trips(c, f->piece[r->member[0]].nest, depth);
    if ((keep_a && expr_eq(c, NULL, keep_a, trips) != YES) || (keep_b && expr_eq(c, NULL, keep_b, trips) != YES))
        return false;
    if (!suits(r, trips, n) || closes_cycle(r, a, b))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        r->group[r->member[i]] = r->member[0];
        r->next[r->member[i]] = i + 1 < n ? r->member[i + 1] : 0;
        f->why[r->member[i]] = "part of a kernel over shared rows";
    }
    return true;
}

static void
gather_rows(Fusion *f, const Machine *m)
{
    uint32_t nn = f->g->node.n;
    Arena *a = f->arena;
    Rows r = { .f = f, .m = m, .group = NEW_ARRAY(a, NodeId, nn), .next = NEW_ARRAY(a, NodeId, nn), .traits = f->traits,
               .member = NEW_ARRAY(a, NodeId, nn), .order = NEW_ARRAY(a, NodeId, nn), .at = NEW_ARRAY(a, uint32_t, nn),
               .reached = NEW_ARRAY(a, NodeId, nn), .stack = NEW_ARRAY(a, NodeId, nn), .seen = NEW_ARRAY(a, bool, nn) };
    bool changed = true;

    for (NodeId n = 1; n < nn; n++) {            /* what vanished did so into a later node: ids are an order */
        r.group[n] = r.order[n] = r.at[n] = n;
        if (is_host(f, n))
            fuse_traits_of(f, n);
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
