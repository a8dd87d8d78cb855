/* compose: inline nodes into their readers, last node first.
 *
 * In reverse order, each node is inlined into its readers or stays: views and cheap index
 * arithmetic go into every reader, other nodes only if a single node (the host) is left that reads
 * them. When a node's turn comes, all its readers are decided, so a diamond that closes in one
 * expression (x * sigmoid(x)) has one host. Expressions are shared DAGs: x is computed once for one
 * index.
 *
 * All readers of an inlined node are in its group, so this step never forms a cycle of groups. What
 * to inline is said by FuseRules or by a plan; a plan that asks for the impossible gets the reason
 * (Fusion.refused).
 */
#include <stdarg.h>

#include "algebra/algebra.h"
#include "fuse/internal.h"

/* ---- readers --------------------------------------------------------------------------------- */

static uint64_t
reading_key(NodeId stage, ValueId v)
{
    return (uint64_t)stage << 32 | v;
}

static bool
is_taken(FuseEdge e)
{
    return e.kind == EDGE_INLINE || e.kind == EDGE_RECOMPUTE;
}

static const char *
name_of(const Fusion *f, NodeId n)
{
    Text t = { .arena = f->arena };

    text_add(&t, "%");
    text_name(&t, f->g->value.at[node_out(f->g, &f->g->node.at[n], 0)].name);
    return text_str(&t);
}

static void __attribute__((format(printf, 2, 3)))
refuse_plan(Fusion *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!f->refused)
        f->refused = arena_vprintf(f->arena, format, args);
    va_end(args);
}

/* What a node reads in the graph stays a read of its host, even if simplifying drops it: plans
 * order groups by the graph's edges. */
static void
add_reading(Fusion *f, NodeId stage, ValueId v, FuseEdge edge)
{
    uint64_t at = 0;

    if (map_get(&f->reader_at, reading_key(stage, v), &at) && at) {
        FuseEdge *was = &f->edges[v].at[at - 1];
        if (f->plan && is_taken(*was) != is_taken(edge))
            refuse_plan(
                f,
                "%s reads %s at two places that are one nest: it is computed in both, or in none",
                name_of(f, stage), name_of(f, f->g->value.at[v].def));
        if (edge.depth && (!was->depth || edge.depth < was->depth))
            was->depth = edge.depth;
        return;
    }
    VEC_PUSH(f->arena, &f->readers[v], stage);
    VEC_PUSH(f->arena, &f->edges[v], edge);
    VEC_PUSH(f->arena, &f->reads[stage], v);
    map_put(&f->reader_at, reading_key(stage, v), f->readers[v].n);
}

static FuseEdge
edge_of(Fusion *f, ValueId v, NodeId stage)
{
    uint64_t at = 0;

    return map_get(&f->reader_at, reading_key(stage, v), &at) && at ? f->edges[v].at[at - 1]
                                                                    : (FuseEdge){ EDGE_STORE, 0 };
}

static void
remove_reader(Fusion *f, ValueId v, NodeId stage)
{
    uint64_t at = 0;

    if (!map_get(&f->reader_at, reading_key(stage, v), &at) || !at)
        return;
    NodeId last = f->readers[v].at[--f->readers[v].n];
    f->readers[v].at[at - 1] = last;
    f->edges[v].at[at - 1] = f->edges[v].at[--f->edges[v].n];
    map_put(&f->reader_at, reading_key(last, v), at);
    map_put(&f->reader_at, reading_key(stage, v), 0);
}

/* ---- vanishing ------------------------------------------------------------------------------- */

typedef struct {
    NodeId *at;
    uint32_t n;
    bool visible;
} Stages;

static Stages
stages_of(Fusion *f, NodeId n)
{
    const Nest *nest = f->call[n].nest;
    Stages h = { 0 };
    uint32_t most = 0;

    for (uint32_t o = 0; o < nest->nout; o++) {
        ValueId v = f->call[n].value[nest->nin + o];
        h.visible = h.visible || f->visible[v];
        most += f->readers[v].n;
    }
    h.at = NEW_ARRAY(f->arena, NodeId, most);
    for (uint32_t o = 0; o < nest->nout; o++) {
        ValueId v = f->call[n].value[nest->nin + o];
        for (uint32_t i = 0; i < f->readers[v].n; i++) {
            NodeId reader = f->readers[v].at[i];
            if (f->seen[reader] != n)
                h.at[h.n++] = reader;
            f->seen[reader] = n;
        }
    }
    return h;
}

/* Moves the hosts that the plan inlines n into to the front; their number. */
static uint32_t
taking_stages(Fusion *f, NodeId n, Stages *h)
{
    const Nest *nest = f->call[n].nest;
    uint32_t taken = 0;

    for (uint32_t i = 0; i < h->n; i++) {
        bool takes = false;
        for (uint32_t o = 0; o < nest->nout; o++)
            takes |= is_taken(edge_of(f, f->call[n].value[nest->nin + o], h->at[i]));
        if (!takes)
            continue;
        NodeId stage = h->at[i];
        h->at[i] = h->at[taken];
        h->at[taken++] = stage;
    }
    return taken;
}

static bool
is_inlined(Fusion *f, NodeId n, NodeId stage)
{
    const Nest *nest = f->call[n].nest;
    bool any = false;

    for (uint32_t o = 0; o < nest->nout; o++)
        any |= edge_of(f, f->call[n].value[nest->nin + o], stage).kind == EDGE_INLINE;
    return any;
}

/* Why a node must stay whatever the rules say; NULL: it need not. */
static const char *
must_stay(const Stages *h)
{
    return h->visible ? "an output of the model" : !h->n ? "nothing reads it" : NULL;
}

/* "computed where %relu1_out reads it" */
static const char *
inlined_why(Fusion *f, NodeId stage, bool others)
{
    return arena_printf(f->arena, "computed where %s reads it%s", name_of(f, stage),
                        others ? ", and others" : "");
}

/* Inlines n into hosts, which become after[i]. stays: n is stored too. */
static void
vanish(Fusion *f, NodeId n, const Stages *h, uint32_t nstage, const FusedCall *after, bool stays)
{
    const Nest *nest = f->call[n].nest;
    uint32_t nread = f->reads[n].n;
    FuseEdge *edge = NEW_ARRAY(f->arena, FuseEdge, nread);

    for (uint32_t r = 0; r < nread; r++)
        edge[r] = edge_of(f, f->reads[n].at[r], n);
    for (uint32_t r = 0; r < nread && !stays; r++)
        remove_reader(f, f->reads[n].at[r], n);
    for (uint32_t i = 0; i < nstage; i++) {
        f->call[h->at[i]] = after[i];
        for (uint32_t o = 0; o < nest->nout && stays; o++)
            remove_reader(f, f->call[n].value[nest->nin + o], h->at[i]);
        for (uint32_t r = 0; r < nread; r++)
            add_reading(f, h->at[i], f->reads[n].at[r], edge[r]);
    }
    if (!stays)
        f->stage[n] = nstage == 1 ? h->at[0] : 0;
    f->why[n] = inlined_why(f, h->at[0], nstage > 1 || stays);
}

/* Inlines n into all readers, or none, as the rules say. */
static void
vanish_by_rules(Fusion *f, NodeId n)
{
    Stages h = stages_of(f, n);
    const char *no = must_stay(&h);
    FusedCall *after = NEW_ARRAY(f->arena, FusedCall, h.n);

    for (uint32_t i = 0; i < h.n && !no; i++) {
        after[i] = fuse_inlined(f, f->call[h.at[i]], f->call[n]);
        if (!after[i].nest)
            no = "cannot be computed where it is read";
        else if (!(no = fuse_cannot(f, n, after[i].nest)))
            no = f->rules->refuse(f, n, h.at[i], after[i].nest, h.n);
    }
    f->why[n] = no;
    if (!no)
        vanish(f, n, &h, h.n, after, false);
}

/* Inlines n into the readers that the plan says. */
static void
vanish_by_plan(Fusion *f, NodeId n)
{
    Stages h = stages_of(f, n);
    uint32_t nstage = taking_stages(f, n, &h);
    bool stays = h.visible || nstage < h.n;
    FusedCall *after = NEW_ARRAY(f->arena, FusedCall, h.n);

    f->why[n] = h.visible ? "an output of the model"
                : !h.n    ? "nothing reads it"
                          : "the plan keeps it";
    for (uint32_t i = 0; i < nstage; i++) {
        if (is_inlined(f, n, h.at[i]) && (stays || nstage > 1)) {
            if (h.visible)
                refuse_plan(f,
                            "%s is to be computed in %s alone, but is an output of the model: "
                            "recompute says that it is stored as well",
                            name_of(f, n), name_of(f, h.at[i]));
            else
                refuse_plan(f,
                            "%s is to be computed in %s alone, but %s reads it as well: recompute "
                            "says that each computes it",
                            name_of(f, n), name_of(f, h.at[i]), name_of(f, h.at[i ? 0 : 1]));
            return;
        }
        after[i] = fuse_inlined(f, f->call[h.at[i]], f->call[n]);
        /* work in an operand of a contraction need not be repeated for every summand */
        if (after[i].nest)
            after[i].nest = nest_factor(f->ctx, after[i].nest);
        const char *no = after[i].nest ? fuse_cannot(f, n, after[i].nest)
                                       : "it is no plain value of its axes, or is read at places "
                                         "that are no indices of it";
        if (no) {
            refuse_plan(f, "%s cannot be computed where %s reads it: %s", name_of(f, n),
                        name_of(f, h.at[i]), no);
            return;
        }
    }
    if (nstage)
        vanish(f, n, &h, nstage, after, stays);
}

Fusion
fuse_compose(const Graph *g, Arena *a, const FusePlan *plan, const FuseRules *rules,
             KnownNests *known)
{
    uint32_t nn = g->node.n, nv = g->value.n;
    Fusion f = { .g = g,
                 .ctx = g->ctx,
                 .arena = a,
                 .plan = plan,
                 .rules = rules,
                 .known = known,
                 .place = NEW_ARRAY(a, uint32_t, nv),
                 .users = graph_users(g, a),
                 .visible = graph_outputs(g, a),
                 .call = NEW_ARRAY(a, FusedCall, nn),
                 .stage = NEW_ARRAY(a, NodeId, nn),
                 .rowish = NEW_ARRAY(a, bool, nn),
                 .reader_at.arena = a,
                 .traits = NEW_ARRAY(a, NestTraits, nn),
                 .traits_of = NEW_ARRAY(a, const Nest *, nn),
                 .seen = NEW_ARRAY(a, NodeId, nn),
                 .why = NEW_ARRAY(a, const char *, nn) };

    f.readers = arena_alloc_array(a, nv, sizeof *f.readers);
    f.edges = arena_alloc_array(a, nv, sizeof *f.edges);
    f.reads = arena_alloc_array(a, nn, sizeof *f.reads);
    for (NodeId n = 1; n < nn; n++) {
        f.stage[n] = n;
        f.call[n] = fuse_scalar_constants(g, a, n);
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++)
            if (node_in(g, node, i))
                add_reading(&f, n, node_in(g, node, i),
                            plan ? plan->edge[node->in.first + i] : (FuseEdge){ EDGE_STORE, 0 });
    }
    if (rules)
        rules->begin(&f);
    for (NodeId n = nn; --n > 0;)
        if (rules)
            vanish_by_rules(&f, n);
        else
            vanish_by_plan(&f, n);
    return f;
}
