/* compose: nodes vanish into those that read them, last first.
 *
 * Going through the nodes in reverse order, each asks whether its value can be computed where it is
 * read instead of being stored: views and cheap index arithmetic in every reader, other nodes only
 * where one node (its host) is left that reads them. When a node's turn comes all of its readers
 * have vanished or stayed, so a diamond that closes in one expression (x * sigmoid(x)) has one
 * host. Expressions are shared DAGs: read at one index, x is computed once.
 *
 * All readers of a vanished node are its host, so no path can leave the group and return: this step
 * never makes a cycle. Whether it pays is for who makes a plan to say (rules.c), and what a plan
 * says is done: of each read whether the value is computed there, or why it cannot be.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "algebra/algebra.h"
#include "fuse/internal.h"

/* ---- one node into one host ------------------------------------------------------------------ */

/* One parameter for each tensor. */
static Piece
merge_same(Fusion *f, Piece p)
{
    uint32_t nin = p.nest->nin, nparam = nin + p.nest->nout, kept = 0;
    uint32_t *same = NEW_ARRAY(f->arena, uint32_t, nin);
    ValueId *value = NEW_ARRAY(f->arena, ValueId, nparam);
    bool any = false;

    for (uint32_t i = 0; i < nin; i++) {
        same[i] = i;
        for (uint32_t j = 0; j < i && same[i] == i; j++)
            if (p.value[j] == p.value[i])
                same[i] = j;
        any = any || same[i] != i;
    }
    if (!any)
        return p;
    for (uint32_t i = 0; i < nparam; i++)
        if (i >= nin || same[i] == i)
            value[kept++] = p.value[i];
    return (Piece){ nest_merge_params(f->ctx, p.nest, same), value };
}

/* Without the parameters that nothing reads any more. */
static Piece
drop_unread(Fusion *f, Piece p)
{
    uint32_t nin = p.nest->nin, nout = p.nest->nout, kept = 0;
    bool *keep = NEW_ARRAY(f->arena, bool, nin + 1);
    const Nest *n = nest_drop_unused(f->ctx, p.nest, keep);

    if (!n || n == p.nest)
        return p;
    ValueId *value = NEW_ARRAY(f->arena, ValueId, nin + nout);
    for (uint32_t i = 0; i < nin + nout; i++)
        if (i >= nin || keep[i])
            value[kept++] = p.value[i];
    return (Piece){ n, value };
}

static uint32_t
slot_of(Piece p, ValueId v)
{
    for (uint32_t i = 0; i < p.nest->nin; i++)
        if (p.value[i] == v)
            return i;
    return NO_SLOT;
}

/* Output `out` of node, computed in place of the host's input `slot`; nest NULL where that is not
 * possible. */
static Piece
inlined_at(Fusion *f, Piece host, uint32_t slot, Piece node, uint32_t out)
{
    uint32_t nin = host.nest->nin, kept = nin - 1;
    uint32_t *same = NEW_ARRAY(f->arena, uint32_t, node.nest->nin + 1);
    ValueId *value = NEW_ARRAY(f->arena, ValueId, nin + node.nest->nin + host.nest->nout);

    memcpy(value, host.value, slot * sizeof *value);
    memcpy(value + slot, host.value + slot + 1, (nin - 1 - slot) * sizeof *value);
    for (uint32_t i = 0; i < node.nest->nin; i++) {
        same[i] = slot_of(host, node.value[i]);
        if (same[i] == NO_SLOT || same[i] == slot)
            same[i] = NO_SLOT, value[kept++] = node.value[i];
    }
    memcpy(value + kept, host.value + nin, host.nest->nout * sizeof *value);
    return (Piece){ nest_inline_same(f->ctx, host.nest, slot, node.nest, out, same), value };
}

/* host with node's values computed in place; nest NULL where that is not possible. */
static Piece
with_inlined(Fusion *f, Piece host, Piece node)
{
    host = merge_same(f, host); /* one slot per tensor: concat(x, x) reads x twice */
    for (uint32_t o = 0; o < node.nest->nout; o++) {
        uint32_t slot = slot_of(host, node.value[node.nest->nin + o]);
        if (slot == NO_SLOT)
            continue;
        host = inlined_at(f, host, slot, node, o);
        if (!host.nest)
            return host;
        host = merge_same(f, host); /* the node may read one tensor twice itself */
    }
    host.nest = nest_simplify(f->ctx, host.nest);
    return host.nest ? drop_unread(f, host) : host;
}

/* ---- readers --------------------------------------------------------------------------------- */

static uint64_t
reading_key(NodeId host, ValueId v)
{
    return (uint64_t)host << 32 | v;
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
    Text t = { .arena = f->arena };
    va_list args;
    char text[512]; /* a longer reason is cut: names may be long */

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_add(&t, text);
    if (!f->refused)
        f->refused = text_str(&t);
}

/* What a node reads in the graph stays a reading of its host, even where simplifying drops it:
 * plans order groups by the graph, and so what only such a node reads may not move behind it. */
static void
add_reading(Fusion *f, NodeId host, ValueId v, FuseEdge edge)
{
    uint64_t at = 0;

    if (map_get(&f->reader_at, reading_key(host, v), &at) && at) {
        FuseEdge *was = &f->edges[v].at[at - 1];
        if (f->plan && !f->rules && is_taken(*was) != is_taken(edge))
            refuse_plan(
                f,
                "%s reads %s at two places that are one nest: it is computed in both, or in none",
                name_of(f, host), name_of(f, f->g->value.at[v].def));
        if (edge.depth && (!was->depth || edge.depth < was->depth))
            was->depth = edge.depth;
        return;
    }
    VEC_PUSH(f->arena, &f->readers[v], host);
    VEC_PUSH(f->arena, &f->edges[v], edge);
    VEC_PUSH(f->arena, &f->reads[host], v);
    map_put(&f->reader_at, reading_key(host, v), f->readers[v].n);
}

static FuseEdge
edge_of(Fusion *f, ValueId v, NodeId host)
{
    uint64_t at = 0;

    return map_get(&f->reader_at, reading_key(host, v), &at) && at ? f->edges[v].at[at - 1]
                                                                   : (FuseEdge){ EDGE_STORE, 0 };
}

static void
remove_reader(Fusion *f, ValueId v, NodeId host)
{
    uint64_t at = 0;

    if (!map_get(&f->reader_at, reading_key(host, v), &at) || !at)
        return;
    NodeId last = f->readers[v].at[--f->readers[v].n];
    f->readers[v].at[at - 1] = last;
    f->edges[v].at[at - 1] = f->edges[v].at[--f->edges[v].n];
    map_put(&f->reader_at, reading_key(last, v), at);
    map_put(&f->reader_at, reading_key(host, v), 0);
}

/* ---- vanishing ------------------------------------------------------------------------------- */

typedef struct {
    NodeId *at;
    uint32_t n;
    bool visible;
} Hosts;

static Hosts
hosts_of(Fusion *f, NodeId n)
{
    const Nest *nest = f->piece[n].nest;
    Hosts h = { 0 };
    uint32_t most = 0;

    for (uint32_t o = 0; o < nest->nout; o++) {
        ValueId v = f->piece[n].value[nest->nin + o];
        h.visible = h.visible || f->visible[v];
        most += f->readers[v].n;
    }
    h.at = NEW_ARRAY(f->arena, NodeId, most);
    for (uint32_t o = 0; o < nest->nout; o++) {
        ValueId v = f->piece[n].value[nest->nin + o];
        for (uint32_t i = 0; i < f->readers[v].n; i++) {
            NodeId reader = f->readers[v].at[i];
            if (f->seen[reader] != n)
                h.at[h.n++] = reader;
            f->seen[reader] = n;
        }
    }
    return h;
}

/* Hosts that the plan computes n in, first; how many. Those of a group's rules: all in it. */
static uint32_t
taking_hosts(Fusion *f, NodeId n, Hosts *h)
{
    const Nest *nest = f->piece[n].nest;
    uint32_t taken = 0;

    for (uint32_t i = 0; i < h->n; i++) {
        bool takes = false;
        for (uint32_t o = 0; o < nest->nout; o++)
            takes |= is_taken(edge_of(f, f->piece[n].value[nest->nin + o], h->at[i]));
        if (!takes)
            continue;
        NodeId host = h->at[i];
        h->at[i] = h->at[taken];
        h->at[taken++] = host;
    }
    return taken;
}

static bool
is_inlined(Fusion *f, NodeId n, NodeId host)
{
    const Nest *nest = f->piece[n].nest;
    bool any = false;

    for (uint32_t o = 0; o < nest->nout; o++)
        any |= edge_of(f, f->piece[n].value[nest->nin + o], host).kind == EDGE_INLINE;
    return any;
}

/* Why the rules keep n; NULL if it may vanish into all. */
static const char *
against_groups(const Fusion *f, NodeId n, const Hosts *h)
{
    if (h->visible || !h->n)
        return h->visible ? "an output of the model" : "nothing reads it";
    for (uint32_t i = 0; f->plan && f->plan->group[n] && i < h->n; i++)
        if (f->plan->group[h->at[i]] != f->plan->group[n])
            return "the plan stores it";
    return f->plan && f->plan->group[n] && h->n > 1 ? "several parts read it" : NULL;
}

/* "computed where %relu1_out reads it" */
static const char *
inlined_why(Fusion *f, NodeId host, bool others)
{
    return arena_printf(f->arena, "computed where %s reads it%s", name_of(f, host),
                        others ? ", and others" : "");
}

/* n computed in these hosts: after[i] is what each becomes. `stays`: others read what it stores. */
static void
vanish(Fusion *f, NodeId n, const Hosts *h, uint32_t nhost, const Piece *after, bool stays)
{
    const Nest *nest = f->piece[n].nest;
    uint32_t nread = f->reads[n].n;
    FuseEdge *edge = NEW_ARRAY(f->arena, FuseEdge, nread);

    for (uint32_t r = 0; r < nread; r++)
        edge[r] = edge_of(f, f->reads[n].at[r], n);
    for (uint32_t r = 0; r < nread && !stays; r++)
        remove_reader(f, f->reads[n].at[r], n);
    for (uint32_t i = 0; i < nhost; i++) {
        f->piece[h->at[i]] = after[i];
        for (uint32_t o = 0; o < nest->nout && stays; o++)
            remove_reader(f, f->piece[n].value[nest->nin + o], h->at[i]);
        for (uint32_t r = 0; r < nread; r++)
            add_reading(f, h->at[i], f->reads[n].at[r], edge[r]);
    }
    if (!stays)
        f->host[n] = nhost == 1 ? h->at[0] : 0;
    f->why[n] = inlined_why(f, h->at[0], nhost > 1 || stays);
}

/* By rules: into all who read it, or not at all. */
static void
vanish_by_rules(Fusion *f, NodeId n)
{
    Hosts h = hosts_of(f, n);
    const char *no = against_groups(f, n, &h);
    Piece *after = NEW_ARRAY(f->arena, Piece, h.n);

    for (uint32_t i = 0; i < h.n && !no; i++) {
        after[i] = with_inlined(f, f->piece[h.at[i]], f->piece[n]);
        if (!after[i].nest)
            no = "cannot be computed where it is read";
        else if (!(no = fuse_cannot(f, n, after[i].nest)))
            no = f->rules->refuse(f, n, h.at[i], after[i].nest, h.n);
    }
    f->why[n] = no;
    if (!no)
        vanish(f, n, &h, h.n, after, false);
}

/* As the plan says of each read. */
static void
vanish_by_plan(Fusion *f, NodeId n)
{
    Hosts h = hosts_of(f, n);
    uint32_t nhost = taking_hosts(f, n, &h);
    bool stays = h.visible || nhost < h.n;
    Piece *after = NEW_ARRAY(f->arena, Piece, h.n);

    f->why[n] = h.visible ? "an output of the model"
                : !h.n    ? "nothing reads it"
                          : "the plan keeps it";
    for (uint32_t i = 0; i < nhost; i++) {
        if (is_inlined(f, n, h.at[i]) && (stays || nhost > 1)) {
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
        after[i] = with_inlined(f, f->piece[h.at[i]], f->piece[n]);
        /* what is computed in a product's operand need not be done for every summand */
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
    if (nhost)
        vanish(f, n, &h, nhost, after, stays);
}

Fusion
fuse_compose(const Graph *g, Arena *a, const FusePlan *plan, const FuseRules *rules)
{
    uint32_t nn = g->node.n, nv = g->value.n;
    Fusion f = { .g = g,
                 .ctx = g->ctx,
                 .arena = a,
                 .plan = plan,
                 .rules = rules,
                 .users = graph_users(g, a),
                 .visible = graph_outputs(g, a),
                 .piece = NEW_ARRAY(a, Piece, nn),
                 .host = NEW_ARRAY(a, NodeId, nn),
                 .finishes = NEW_ARRAY(a, bool, nn),
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
        f.host[n] = n;
        f.piece[n] = fuse_prepare(g, a, n);
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++)
            if (node_in(g, node, i))
                add_reading(&f, n, node_in(g, node, i),
                            plan && !rules ? plan->edge[node->in.first + i]
                                           : (FuseEdge){ EDGE_STORE, 0 });
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
