/* compose: nodes vanish into those that read them, last first.
 *
 * Going through the nodes in reverse order, each asks whether its value can be computed where it is
 * read instead of being stored: views and cheap index arithmetic in every reader, other nodes only
 * where one node (its host) is left that reads them. When a node's turn comes all of its readers have
 * vanished or stayed, so a diamond that closes in one expression (x * sigmoid(x)) has one host.
 * Expressions are shared DAGs: read at one index, x is computed once.
 *
 * All readers of a vanished node are its host, so no path can leave the group and return: this step
 * never makes a cycle. Whether it pays is a matter of rules.c.
 */
#include <string.h>

#include "fuse/internal.h"

/* ---- one node into one host ---------------------------------------------------------------------- */

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

/* Output `out` of node, computed in place of the host's input `slot`; nest NULL where that is not possible. */
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
    host = merge_same(f, host);      /* one slot per tensor: concat(x, x) reads x twice */
    for (uint32_t o = 0; o < node.nest->nout; o++) {
        uint32_t slot = slot_of(host, node.value[node.nest->nin + o]);
        if (slot == NO_SLOT)
            continue;
        host = inlined_at(f, host, slot, node, o);
        if (!host.nest)
            return host;
        host = merge_same(f, host);  /* the node may read one tensor twice itself */
    }
    host.nest = nest_simplify(f->ctx, host.nest);
    return host.nest ? drop_unread(f, host) : host;
}

/* ---- readers ---------------------------------------------------------------------------------------- */

static uint64_t
reading_key(NodeId host, ValueId v)
{
    return (uint64_t)host << 32 | v;
}

/* What a node reads in the graph stays a reading of its host, even where simplifying drops it: plans order
 * groups by the graph, and so what only such a node reads may not move behind it. */
static void
add_reading(Fusion *f, NodeId host, ValueId v)
{
    uint64_t at = 0;

    if (map_get(&f->reader_at, reading_key(host, v), &at) && at)
        return;
    VEC_PUSH(f->arena, &f->readers[v], host);
    VEC_PUSH(f->arena, &f->reads[host], v);
    map_put(&f->reader_at, reading_key(host, v), f->readers[v].n);
}

static void
remove_reader(Fusion *f, ValueId v, NodeId host)
{
    uint64_t at = 0;

    if (!map_get(&f->reader_at, reading_key(host, v), &at) || !at)
        return;
    NodeId last = f->readers[v].at[--f->readers[v].n];
    f->readers[v].at[at - 1] = last;
    map_put(&f->reader_at, reading_key(last, v), at);
    map_put(&f->reader_at, reading_key(host, v), 0);
}

/* ---- vanishing ------------------------------------------------------------------------------------------ */

typedef struct { NodeId *at; uint32_t n; bool visible; } Hosts;

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

/* May n vanish as the plan has it? Without a plan everything may. */
static const char *
against_plan(const Fusion *f, NodeId n, const Hosts *h)
{
    const FusePlan *p = f->plan;

    if (!p || p->copied[n])
        return NULL;
    if (p->inlined && !p->inlined[n])
        return "the plan keeps it";
    for (uint32_t i = 0; i < h->n; i++)
        if (p->group[h->at[i]] != p->group[n])
            return "the plan stores it";
    return h->n > 1 ? "several parts read it" : NULL;
}

/* "computed where %relu1_out reads it" */
static const char *
inlined_why(Fusion *f, NodeId host, bool others)
{
    Text t = { .arena = f->arena };

    text_add(&t, "computed where %");
    text_name(&t, f->g->value.at[node_out(f->g, &f->g->node.at[host], 0)].name);
    text_printf(&t, " reads it%s", others ? ", and others" : "");
    return text_str(&t);
}

static void
try_to_vanish(Fusion *f, NodeId n)
{
    Hosts h = hosts_of(f, n);
    bool forced = f->plan && (f->plan->copied[n] || f->plan->inlined);       /* rules are for those who make plans */
    const char *no = h.visible ? "an output of the model" : !h.n ? "nothing reads it" : against_plan(f, n, &h);
    Piece *after = NEW_ARRAY(f->arena, Piece, h.n);

    for (uint32_t i = 0; i < h.n && !no; i++) {
        after[i] = with_inlined(f, f->piece[h.at[i]], f->piece[n]);
        if (after[i].nest && forced)             /* what a plan computes in a product's operand need not be done for every summand */
            after[i].nest = nest_factor(f->ctx, after[i].nest);
        if (!after[i].nest)
            no = "cannot be computed where it is read";
        else if (!(no = fuse_cannot(f, n, after[i].nest)) && !forced)
            no = fuse_refuse(f, n, h.at[i], after[i].nest, h.n);
    }
    f->why[n] = no;
    if (no)
        return;
    for (uint32_t r = 0; r < f->reads[n].n; r++)
        remove_reader(f, f->reads[n].at[r], n);
    for (uint32_t i = 0; i < h.n; i++) {
        f->piece[h.at[i]] = after[i];
        for (uint32_t r = 0; r < f->reads[n].n; r++)
            add_reading(f, h.at[i], f->reads[n].at[r]);
    }
    f->host[n] = h.n == 1 ? h.at[0] : 0;
    f->why[n] = inlined_why(f, h.at[0], h.n > 1);
}

Fusion
fuse_compose(const Graph *g, Arena *a, const FusePlan *plan)
{
    uint32_t nn = g->node.n, nv = g->value.n;
    Fusion f = { .g = g, .ctx = g->ctx, .arena = a, .plan = plan, .users = graph_users(g, a),
                 .visible = NEW_ARRAY(a, bool, nv), .piece = NEW_ARRAY(a, Piece, nn), .host = NEW_ARRAY(a, NodeId, nn),
                 .finishes = NEW_ARRAY(a, bool, nn), .rowish = NEW_ARRAY(a, bool, nn), .reader_at.arena = a,
                 .traits = NEW_ARRAY(a, NestTraits, nn), .traits_of = NEW_ARRAY(a, const Nest *, nn),
                 .seen = NEW_ARRAY(a, NodeId, nn), .why = NEW_ARRAY(a, const char *, nn) };

    f.readers = arena_alloc_array(a, nv, sizeof *f.readers);
    f.reads = arena_alloc_array(a, nn, sizeof *f.reads);
    for (uint32_t i = 0; i < g->output.n; i++)
        f.visible[g->output.at[i]] = true;
    for (NodeId n = 1; n < nn; n++) {
        f.host[n] = n;
        f.piece[n] = fuse_prepare(g, a, n);
        const Node *node = &g->node.at[n];
        for (uint32_t i = 0; i < node->in.count; i++)
            if (node_in(g, node, i))
                add_reading(&f, n, node_in(g, node, i));
    }
    fuse_mark_finishing(&f);
    for (NodeId n = nn; --n > 0; )
        try_to_vanish(&f, n);
    return f;
}

/* ---- shared axes ------------------------------------------------------------------------------------------- */

/* The d-th parallel axis of a nest, if it is also the index of dimension d of every output. */
static const Expr *
outer_axis(Ctx *c, const Nest *n, uint32_t d)
{
    uint32_t seen = 0;

    for (uint32_t k = 0; k < n->naxis; k++) {
        if (n->axis[k].kind != AXIS_PARALLEL || seen++ < d)
            continue;
        const Expr *axis = expr_axis(c, k);
        if (axis_is_ragged(&n->axis[k]))
            return NULL;
        for (uint32_t w = 0; w < n->nwrite; w++)
            if (n->write[w].combiner != COMB_NONE || d >= n->param[n->write[w].out].type->rank || n->write[w].at[d] != axis)
                return NULL;
        return axis;
    }
    return NULL;
}

static const Expr *
axis_extent(const Nest *n, const Expr *axis)
{
    Var v;

    expr_is_var(axis, &v);
    return n->axis[v.id].extent;
}

/* Do all reads of values made by these hosts stand at the reader's own axis in dimension d? */
static bool
reads_are_local(const Fusion *f, const NodeId *host, uint32_t n, uint32_t reader, uint32_t d)
{
    const Piece *p = &f->piece[host[reader]];
    Accesses reads = nest_accesses(f->ctx, f->arena, p->nest);
    const Expr *axis = outer_axis(f->ctx, p->nest, d);

    for (uint32_t i = 0; i < reads.n; i++) {
        uint32_t slot = reads.at[i].load->u.load.slot;
        NodeId def = f->g->value.at[p->value[slot]].def;
        bool inside = false;
        for (uint32_t k = 0; k < n; k++)
            inside = inside || host[k] == def;
        if (slot >= p->nest->nin || !inside)
            continue;
        if (d >= reads.at[i].load->u.load.rank)
            return false;
        bool one = expr_is(p->nest->param[slot].type->dim[d], 1);        /* there is nowhere else to read */
        if (!one && reads.at[i].load->u.load.at[d] != axis)
            return false;
    }
    return true;
}

uint32_t
fuse_shared(const Fusion *f, const NodeId *host, uint32_t n)
{
    uint32_t depth = 0;
    bool reduces = false, room = false;

    for (;; depth++) {
        const Expr *extent = NULL;
        for (uint32_t i = 0; i < n; i++) {
            const Nest *nest = f->piece[host[i]].nest;
            const Expr *axis = outer_axis(f->ctx, nest, depth);
            const Expr *e = axis ? axis_extent(nest, axis) : NULL;
            if (!axis || (extent && expr_eq(f->ctx, NULL, extent, e) != YES) ||
                !reads_are_local(f, host, n, i, depth))
                goto done;
            extent = e;
        }
    }
done:
    /* Elementwise parts agree in every axis: leave the innermost one inside a trip, for vectors. */
    for (uint32_t i = 0; i < n; i++) {
        const Nest *nest = f->piece[host[i]].nest;
        reduces = reduces || nest_axes_of_kind(nest, AXIS_REDUCE);
        room = room || nest->param[nest->nin].type->rank > depth;
    }
    return n > 1 && depth && !reduces && !room ? depth - 1 : depth;
}
