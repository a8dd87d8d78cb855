/* tvm: TVM's rule, from the same nests.
 *
 * Every nest has a class by its access maps, operators of several nests one together. In the tree
 * of post-dominators each node hangs on the nearest one through which all its uses go; an edge has
 * the highest class met on the way. Three sweeps, of which two matter here: a product joins the
 * node it hangs on where all is elementwise between; elementwise and broadcast work joins what it
 * hangs on, up to one product; what only moves data joins in the second sweep. All nodes between
 * join as well.
 *
 * Sources: Chen et al., TVM, OSDI 2018; apache/tvm, src/relax/analysis/graph_partitioner.cc and
 * tir_op_pattern_kind.cc, whose rules these are, written anew.
 */
#include "fuse/internal.h"

#include <string.h>

#define MOST_JOINED 256 /* nodes of a group: FuseOps.max_depth */

typedef enum { ELEMENTWISE, BROADCAST, INJECTIVE, REDUCE, OUT_ELEMENTWISE, OPAQUE = 8 } Class;

typedef struct {
    const Graph *g;
    FuseNodes s;
    FuseUnits unit;           /* the operator that a node is of */
    Class *class;             /* [s.n]: of units, and of the groups that they lead */
    uint32_t *group, *size;   /* [s.n]: union-find over units; members of its leaders */
    uint32_t *parent, *depth; /* [s.n]: in the tree; NO_SLOT: a root */
    Class *edge;              /* [s.n]: of the edge to the parent */
    bool *seen;               /* [s.n] */
    VEC(uint32_t) stack;
} Tvm;

/* ---- classes --------------------------------------------------------------------------------- */

/* Do windows slide, or an index mix what is summed and what is not? */
static bool
mixes_axes(const Accesses *reads)
{
    for (uint32_t i = 0; i < reads->n; i++)
        for (uint32_t d = 0; d < reads->at[i].load->u.load.rank; d++) {
            AxisSet used = expr_axes(reads->at[i].load->u.load.at[d]);
            if (used & reads->at[i].reduce && used & ~reads->at[i].reduce)
                return true;
        }
    return false;
}

static Class
class_of(Fusion *f, NodeId n)
{
    const NestTraits *t = fuse_traits_of(f, n);
    const Nest *nest = f->piece[n].nest;
    Accesses reads = nest_accesses(f->ctx, f->arena, nest);
    bool same = false, broadcast = false;

    if (t->reduces)
        return t->contraction || mixes_axes(&reads) ? OUT_ELEMENTWISE : REDUCE;
    if (!t->elementwise)
        return OPAQUE;
    for (uint32_t i = 0; i < reads.n; i++)
        switch (nest_mapping(f->ctx, nest, &reads.at[i])) {
        case MAP_ID: same = true; break;
        case MAP_BCAST: broadcast = true; break;
        default: return INJECTIVE;
        }
    return same || !broadcast ? ELEMENTWISE : BROADCAST;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The nearest node through which both ways go; the classes on the way into *edge. */
static uint32_t
meet(const Tvm *t, uint32_t x, uint32_t y, Class *edge)
{
    while (x != y) {
        if (x == NO_SLOT || y == NO_SLOT)
            return NO_SLOT;
        uint32_t *deeper = t->depth[x] >= t->depth[y] ? &x : &y;
        *edge = t->edge[*deeper] > *edge ? t->edge[*deeper] : *edge;
        *deeper = t->parent[*deeper];
    }
    return x;
}

typedef void Reader(Tvm *t, uint32_t reader, bool whole, void *user);

/* Each unit beside its own that reads a value of a unit; whole: as it lies. */
static void
each_reader(Tvm *t, uint32_t unit, Reader *visit, void *user)
{
    Fusion *f = &t->s.f;

    for (uint32_t i = t->unit.first[unit]; i != NO_SLOT; i = t->unit.next[i]) {
        const Piece *p = &f->piece[t->s.node[i]];
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            for (uint32_t r = 0; r < f->readers[p->value[o]].n; r++) {
                uint32_t reader = t->s.at[f->readers[p->value[o]].at[r]];
                const Piece *q = &f->piece[t->s.node[reader]];
                if (t->unit.of[reader] != unit)
                    visit(t, t->unit.of[reader],
                          p->nest->param[o].type == q->nest->param[q->nest->nin].type, user);
            }
    }
}

static bool
is_seen(const Tvm *t, uint32_t unit)
{
    const Fusion *f = &t->s.f;

    for (uint32_t i = t->unit.first[unit]; i != NO_SLOT; i = t->unit.next[i]) {
        const Piece *p = &f->piece[t->s.node[i]];
        for (uint32_t o = p->nest->nin; o < p->nest->nin + p->nest->nout; o++)
            if (f->visible[p->value[o]])
                return true;
    }
    return false;
}

typedef struct {
    uint32_t at, n;
    Class edge;
} Hanging;

static void
hang(Tvm *t, uint32_t reader, bool whole, void *user)
{
    Hanging *h = user;
    Class edge = t->class[reader] == BROADCAST && whole ? ELEMENTWISE : t->class[reader];

    h->edge = edge > h->edge ? edge : h->edge;
    h->at = h->n++ ? meet(t, h->at, reader, &h->edge) : reader;
}

static void
make_tree(Tvm *t)
{
    for (uint32_t u = t->s.n; u-- > 0;) {
        Hanging h = { NO_SLOT, 0, ELEMENTWISE };
        t->parent[u] = NO_SLOT;
        t->edge[u] = OPAQUE;
        t->depth[u] = 1;
        if (t->unit.of[u] != u)
            continue;
        if (!is_seen(t, u))
            each_reader(t, u, hang, &h);
        if (h.at == NO_SLOT)
            continue;
        t->parent[u] = h.at;
        t->edge[u] = h.edge;
        t->depth[u] = t->depth[h.at] + 1;
    }
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

static uint32_t
leader(const Tvm *t, uint32_t u)
{
    while (t->group[u] != u)
        u = t->group[u];
    return u;
}

static void
push_reader(Tvm *t, uint32_t reader, bool whole, void *user)
{
    (void)whole, (void)user;
    if (!t->seen[reader])
        VEC_PUSH(t->s.scratch, &t->stack, reader);
    t->seen[reader] = true;
}

/* All nodes behind `from` as far as `to`, which is the first; each of class at most `between`, `to`
 * as ends[] has it. */
static bool
path_is(Tvm *t, uint32_t from, uint32_t to, Class between, const bool *ends)
{
    bool ok = ends[t->class[leader(t, to)]];

    memset(t->seen, 0, t->s.n * sizeof *t->seen);
    t->stack.n = 0;
    push_reader(t, to, false, NULL);
    each_reader(t, from, push_reader, NULL);
    for (uint32_t i = 1; i < t->stack.n && ok; i++) {
        ok = t->class[leader(t, t->stack.at[i])] <= between;
        each_reader(t, t->stack.at[i], push_reader, NULL);
    }
    return ok;
}

static void
join(Tvm *t, uint32_t u, uint32_t to)
{
    uint32_t x = leader(t, u), y = leader(t, to);

    if (x == y)
        return;
    t->group[x] = y;
    t->size[y] += t->size[x];
    t->class[y] = t->class[x] > t->class[y] ? t->class[x] : t->class[y];
}

static void
sweep(Tvm *t, int phase)
{
    static const bool broadcast[OPAQUE + 1] = { [ELEMENTWISE] = true, [BROADCAST] = true };
    static const bool injective[OPAQUE + 1] = {
        [ELEMENTWISE] = true, [BROADCAST] = true, [INJECTIVE] = true
    };
    static const bool any[OPAQUE + 1] = { [ELEMENTWISE] = true,
                                          [BROADCAST] = true,
                                          [INJECTIVE] = true,
                                          [REDUCE] = true,
                                          [OUT_ELEMENTWISE] = true };

    for (uint32_t u = 0; u < t->s.n; u++) {
        uint32_t to = t->unit.of[u] == u ? t->parent[u] : NO_SLOT;
        bool joins = false;
        if (to == NO_SLOT || t->class[u] == OPAQUE || leader(t, u) == leader(t, to) ||
            t->size[leader(t, u)] + t->size[leader(t, to)] > MOST_JOINED)
            continue;
        if (t->class[u] == OUT_ELEMENTWISE)
            joins =
                phase == 0 && t->edge[u] == ELEMENTWISE && path_is(t, u, to, BROADCAST, broadcast);
        else if (t->class[u] <= BROADCAST)
            joins = (t->edge[u] <= INJECTIVE || t->edge[u] == REDUCE) &&
                    path_is(t, u, to, INJECTIVE, any);
        else if (t->class[u] == INJECTIVE)
            joins = phase == 1 && path_is(t, u, to, INJECTIVE, injective);
        for (uint32_t i = 0; joins && i < t->stack.n; i++)
            join(t, t->stack.at[i], to);
        if (joins)
            join(t, u, to);
    }
}

static Tvm
begin(const Graph *g, Arena *scratch)
{
    Tvm t = { .g = g, .s = fuse_nodes(g, scratch, &fuse_rules_nothing) };
    uint32_t n = t.s.n;

    t.class = NEW_ARRAY(scratch, Class, n + 1);
    t.group = NEW_ARRAY(scratch, uint32_t, n + 1);
    t.size = NEW_ARRAY(scratch, uint32_t, n + 1);
    t.parent = NEW_ARRAY(scratch, uint32_t, n + 1);
    t.depth = NEW_ARRAY(scratch, uint32_t, n + 1);
    t.edge = NEW_ARRAY(scratch, Class, n + 1);
    t.seen = NEW_ARRAY(scratch, bool, n + 1);
    t.unit = fuse_operators(&t.s);
    for (uint32_t i = 0; i < n; i++) {
        Class c = class_of(&t.s.f, t.s.node[i]);
        uint32_t u = t.unit.of[i];
        /* of several nests: as what reduces and goes on is */
        if (t.size[u])
            c = c == OPAQUE || t.class[u] == OPAQUE   ? OPAQUE
                : c >= REDUCE || t.class[u] >= REDUCE ? OUT_ELEMENTWISE
                : c > t.class[u]                      ? c
                                                      : t.class[u];
        t.class[u] = c;
        t.size[u]++;
        t.group[i] = u;
    }
    return t;
}

FusePlan
fuse_tvm(const Graph *g, Arena *a)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Tvm t = begin(g, scratch);
    uint32_t *group = NEW_ARRAY(scratch, uint32_t, t.s.n + 1);

    make_tree(&t);
    for (int phase = 0; phase < 2; phase++)
        sweep(&t, phase);
    for (uint32_t i = 0; i < t.s.n; i++)
        group[i] = leader(&t, i) + 1;
    FusePlan p = fuse_assemble(&t.s, a, group, t.s.n);
    arena_free(scratch);
    return p;
}
