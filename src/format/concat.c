/* concat: store the operands of a concatenation inside its result.
 *
 *     o[i, k, l, j] = j < 64 ? a[i, k, l, j] : b[i, k, l, j - 64]
 *
 * This kernel copies two tensors and computes nothing. If the producers of a and b write into o
 * directly, nothing is left to do: the kernel becomes a `join` along dimension 3, and a and b are
 * stored within its result (graph/within.c). The rows of a are then as far apart as those of o, for
 * all kernels that make or read a, and their schedules have other prices: axes that were contiguous
 * no longer are. So the concatenation is removed where the sum of all these prices is lower without
 * it.
 *
 * Layers that read all earlier ones concatenate a growing list: [a, b], [a, b, c], … The second is
 * rewritten as the first and c, so values nest. Later concatenations are decided first, since the
 * price of one depends on those around it.
 *
 * Not considered: operands that are constants, inputs, outputs or states of the graph, that a
 * kernel scans or reads in other dimensions, that occur twice; and concatenations along the first
 * dimension.
 */
#include "algebra/algebra.h"
#include "format/internal.h"

#include <math.h>
#include <string.h>

/* A kernel that only concatenates. */
typedef struct {
    NodeId node;
    uint32_t dim, n;
    ValueId *part;
    bool taken;
} Concat;

typedef struct {
    Graph *g;
    Ctx *ctx;
    Arena *arena;
    const FormatPrice *price;
    Users users;
    Map definer;  /* of symbols */
    bool *output; /* [value.n] */
    uint32_t *at; /* [node.n]: its Concat + 1; 0: another kernel */
    /* [value.n]: the outermost value that it is stored in, so far; 0: none */
    ValueId *whole;
    uint32_t *seen, sum; /* [node.n]: the last sum that counted it */
    VEC(Concat) concat;
} Concats;

/* ---- which kernels --------------------------------------------------------------------------- */

static void
find_concat(Concats *p, NodeId id)
{
    const Node *node = &p->g->node.at[id];
    const Kernel *k = node->kernel;
    Concat r = { .node = id };

    if (!format_may_change(p->g, id) || k->npart != 1 || k->nout != 1 || k->nin < 2 ||
        k->part->nest->nin != k->nin)
        return;
    for (uint32_t b = 0; b < k->nin + 1; b++)
        if (k->buffer.at[b].type !=
            p->g->value.at[b < k->nin ? node_in(p->g, node, b) : node_out(p->g, node, 0)].type)
            return;
    uint32_t *slot = NEW_ARRAY(p->arena, uint32_t, k->nin);
    if (!nest_is_concat(p->ctx, k->part->nest, &r.dim, slot) || !r.dim)
        return;
    r.part = NEW_ARRAY(p->arena, ValueId, k->nin);
    for (r.n = 0; r.n < k->nin; r.n++)
        r.part[r.n] = node_in(p->g, node, k->part->buffer[slot[r.n]]);
    VEC_PUSH(p->arena, &p->concat, r);
    p->at[id] = p->concat.n;
}

/* Replaces leading operands by the result of the longest earlier concatenation of just these. */
static void
shorten(Concats *p, Concat *r)
{
    const Concat *best = NULL;
    ValueId first = r->part[0];

    for (uint32_t u = p->users.first[first]; u < p->users.first[first + 1]; u++) {
        const Concat *s = p->at[p->users.node[u]] ? &p->concat.at[p->at[p->users.node[u]] - 1] : r;
        bool begins = s < r && s->dim == r->dim && s->n < r->n && (!best || s->n > best->n);
        for (uint32_t i = 0; begins && i < s->n; i++)
            begins = s->part[i] == r->part[i];
        best = begins ? s : best;
    }
    if (!best)
        return;
    ValueId *part = NEW_ARRAY(p->arena, ValueId, r->n);
    part[0] = node_out(p->g, &p->g->node.at[best->node], 0);
    memcpy(part + 1, r->part + best->n, (r->n - best->n) * sizeof *part);
    r->part = part;
    r->n = r->n - best->n + 1;
}

static bool
may_lie(const Concats *p, const Concat *r, uint32_t part)
{
    ValueId v = r->part[part];
    const Value *value = &p->g->value.at[v];

    if (!value->def || value->data || value->type->dtype == DT_STR || p->output[v] || p->whole[v] ||
        graph_is_kept(p->g, v) || !format_may_change(p->g, value->def))
        return false;
    for (uint32_t i = 0; i < part; i++)
        if (r->part[i] == v)
            return false;
    for (uint32_t d = 0; d < value->type->rank; d++)
        if (graph_bound(p->g, &p->definer, value->type->dim[d]) != value->type->dim[d])
            return false;
    for (uint32_t i = p->users.first[v]; i < p->users.first[v + 1]; i++)
        if (!format_may_change(p->g, p->users.node[i]))
            return false;
    return true;
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* The kernel of a node with the decisions so far applied; NULL: it reads or writes a value in a way
 * that does not allow it. */
static Kernel *
kernel_within(const Concats *p, Arena *a, NodeId id)
{
    const Node *node = &p->g->node.at[id];
    Kernel *k = arena_copy(a, node->kernel, sizeof *k);
    uint32_t n = k->nin + k->nout;

    k->buffer.at = arena_copy(a, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    k->buffer.cap = k->buffer.n;
    for (uint32_t b = 0; b < n; b++) {
        ValueId v = b < k->nin ? node_in(p->g, node, b) : node_out(p->g, node, b - k->nin);
        if (p->whole[v] &&
            !graph_within(p->g, v, p->whole[v], k->buffer.at[b].type, &k->buffer.at[b].within))
            return NULL;
    }
    return k;
}

static bool
is_done(const Concats *p, NodeId id)
{
    return p->at[id] && p->concat.at[p->at[id] - 1].taken;
}

/* Seconds of a kernel; INFINITY: no schedule. */
static double
seconds(const Concats *p, NodeId id)
{
    Arena *scratch = arena_child(p->arena);
    const Kernel *k = kernel_within(p, scratch, id);
    double s = k ? p->price->of(p->price->user, id, k) : -1;

    arena_free(scratch);
    return s < 0 ? INFINITY : s;
}

static double
seconds_once(Concats *p, const Concat *r, NodeId id)
{
    if (id == r->node || p->seen[id] == p->sum || is_done(p, id))
        return 0;
    p->seen[id] = p->sum;
    return seconds(p, id);
}

/* Seconds of all kernels that make or read the operands. */
static double
seconds_around(Concats *p, const Concat *r)
{
    double sum = 0;

    p->sum++;
    for (uint32_t i = 0; i < r->n; i++) {
        ValueId v = r->part[i];
        sum += seconds_once(p, r, p->g->value.at[v].def);
        for (uint32_t u = p->users.first[v]; u < p->users.first[v + 1]; u++)
            sum += seconds_once(p, r, p->users.node[u]);
    }
    return sum;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Decides one concatenation: seconds gained; 0: it stays a copy. all: take it at any price. */
static double
decide(Concats *p, Concat *r, bool all)
{
    ValueId out = node_out(p->g, &p->g->node.at[r->node], 0);
    bool may = true;

    for (uint32_t i = 0; i < r->n && may; i++)
        may = may_lie(p, r, i);
    if (!may)
        return 0;
    double before = seconds_around(p, r) + seconds(p, r->node);
    for (uint32_t i = 0; i < r->n; i++)
        p->whole[r->part[i]] = p->whole[out] ? p->whole[out] : out;
    double after = seconds_around(p, r);
    if ((r->taken = (all && isfinite(after)) || after < before))
        return before - after;
    for (uint32_t i = 0; i < r->n; i++)
        p->whole[r->part[i]] = 0;
    return 0;
}

static void
decide_all(Concats *p, bool all, double *gain)
{
    memset(p->whole, 0, p->g->value.n * sizeof *p->whole);
    for (uint32_t i = 0; i < p->concat.n; i++)
        p->concat.at[i].taken = false;
    for (uint32_t i = p->concat.n; i-- > 0;)
        gain[i] = decide(p, &p->concat.at[i], all);
}

/* ---- carrying it out ------------------------------------------------------------------------- */

static void
apply(Concats *p)
{
    for (NodeId n = 1; n < p->g->node.n; n++) {
        Node *node = &p->g->node.at[n];
        bool any = false;
        for (uint32_t i = 0; i < node->in.count + node->out.count; i++)
            any |= p->whole[i < node->in.count ? node_in(p->g, node, i)
                                               : node_out(p->g, node, i - node->in.count)] != 0;
        if (any && !is_done(p, n))
            node->kernel = kernel_within(p, p->g->arena, n);
    }
    for (uint32_t i = 0; i < p->concat.n; i++) {
        const Concat *r = &p->concat.at[i];
        Node *node = &p->g->node.at[r->node];
        if (!r->taken)
            continue;
        node->callee = CALL_JOIN;
        node->kernel = NULL;
        node->along = r->dim;
        node->in.count = r->n;
        memcpy(p->g->ref.at + node->in.first, r->part, r->n * sizeof *r->part);
    }
}

static void
remark(const Concats *p, const Concat *r, double gain, Text *t)
{
    text_add(t, "; %");
    text_name(t, p->g->value.at[node_out(p->g, &p->g->node.at[r->node], 0)].name);
    text_add(t, ": its operands are stored in their places, ");
    text_seconds(t, gain);
    text_add(t, " less\n");
}

void
format_concats(Graph *g, Arena *a, const FormatPrice *price, Text *remarks)
{
    Arena *scratch = arena_child(a);
    Concats p = { .g = g,
                  .ctx = g->ctx,
                  .arena = scratch,
                  .price = price,
                  .users = graph_users(g, scratch),
                  .definer = graph_definers(g, scratch),
                  .output = graph_outputs(g, scratch),
                  .at = NEW_ARRAY(scratch, uint32_t, g->node.n),
                  .whole = NEW_ARRAY(scratch, ValueId, g->value.n),
                  .seen = NEW_ARRAY(scratch, uint32_t, g->node.n) };

    for (NodeId n = 1; n < g->node.n; n++)
        find_concat(&p, n);
    /* each in terms of the original earlier ones */
    for (uint32_t i = p.concat.n; i-- > 0;)
        shorten(&p, &p.concat.at[i]);
    double *gain = NEW_ARRAY(scratch, double, p.concat.n + 1);
    if (p.concat.n && price->begin)
        price->begin(price->user);
    /* queries depend on later decisions: first ask as if all were taken */
    do
        decide_all(&p, true, gain);
    while (p.concat.n && price->again && price->again(price->user));
    decide_all(&p, false, gain);
    apply(&p);
    for (uint32_t i = 0; i < p.concat.n; i++)
        if (p.concat.at[i].taken)
            remark(&p, &p.concat.at[i], gain[i], remarks);
    arena_free(scratch);
}
