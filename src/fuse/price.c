/* price: predict the time of a group from a formula over its stages.
 *
 *   call + min(all stages on one core, wake + all stages distributed over the cores)
 *
 * A stage takes sqrt(arithmetic^2 + traffic^2), as a phase of a loop tree does (cost/cost.c); a
 * contraction is two phases: its sums, and the epilogue. A value from outside is read from the
 * smallest cache that it fills at most by half, a value between stages from the one that an
 * iteration of it half fills; the constants of a model that exceeds the last cache are read from
 * memory. An inlined value is arithmetic of its reader.
 *
 * All numbers are the machine's. Equal groups are composed and priced once: a group's key is its
 * nests, the values that pass between them, and the values that are visible outside.
 */
#include "fuse/internal.h"
#include "nest/walk.h"

#include <string.h>

struct Pricing {
    Fusion *f; /* with only views inlined */
    const Machine *m;
    Arena *arena; /* of the memo; groups are composed in scratch */
    /* [node.n]: equal for equal nests; 0: not known yet */
    uint32_t *class;
    uint32_t nclass;
    Map class_at, known;      /* by hash: a Memo */
    bool far;                 /* constants are read from memory */
    uint64_t composed, spent; /* spent: weighted (fuse_spent) */
};

/* A cached result: the class of a nest, or the price of a group; 0, or not known: not found yet. */
typedef struct {
    const void *key;
    size_t bytes;
    uint32_t class;
    bool known;
    GroupPrice price;
} Memo;

Pricing *
fuse_pricing(Fusion *f, Arena *a, const Machine *m)
{
    Pricing *p = NEW(a, Pricing);
    double constants = 0;

    *p = (Pricing){ .f = f,
                    .m = m,
                    .arena = a,
                    .class = NEW_ARRAY(a, uint32_t, f->g->node.n),
                    .class_at.arena = a,
                    .known.arena = a };
    for (ValueId v = 1; v < f->g->value.n; v++)
        if (f->g->value.at[v].data)
            constants += cost_expected_size(f->ctx, type_bytes(f->ctx, f->g->value.at[v].type));
    p->far = constants > (double)machine_block_bytes(m, LEVEL_L3);
    return p;
}

/* ---- the formula ----------------------------------------------------------------------------- */

typedef struct {
    const Machine *m;
    bool all;
} Rates; /* of one core; of all */

static double
moving(Rates r, Level level, double bytes, bool write)
{
    const Bandwidth *b = r.all ? &r.m->level[level].all : &r.m->level[level].one;

    return bytes / (write ? b->write : b->read);
}

/* Seconds of a stage. home: cache of each parameter. */
static double
part_seconds(Rates r, const CostFormula *cost, const Nest *n, const Level *home, double threads)
{
    double traffic[2] = { 0, 0 }, work = cost->work / threads, inner = cost->inner / threads;

    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        traffic[cost->factor[i]] += moving(r, home[i], cost->bytes[i], i >= n->nin);
    return machine_together(inner, traffic[1], 2) + machine_together(work, traffic[0], 2);
}

static double
seconds_of(const Pricing *p, Composed *k, Arena *a)
{
    Fusion *f = &k->f;
    const Graph *g = k->graph;
    double one = 0, all = 0, trips = k->trips ? cost_expected_size(f->ctx, k->trips) : 0;
    bool *met = NEW_ARRAY(a, bool, g->value.n);

    for (uint32_t i = 0; i < k->nstage; i++) {
        const FusedCall *call = &f->call[k->stage[i]];
        const Nest *n = call->nest;
        CostFormula cost = cost_formula(f->ctx, a, n, p->m);
        Level *home = NEW_ARRAY(a, Level, n->nin + n->nout + 1);
        double parallel = trips > 0 ? trips : cost.trips, threads = fmin(p->m->cores, parallel);
        for (uint32_t s = 0; s < n->nin + n->nout; s++) {
            ValueId v = call->value[s];
            double bytes = cost_expected_size(f->ctx, type_bytes(f->ctx, g->value.at[v].type));
            bool passes =
                k->nstage > 1 && (s >= n->nin ? !f->visible[v] : g->value.at[v].def || met[v]);
            home[s] = g->value.at[v].data && p->far
                          ? LEVEL_MEMORY
                          : cost_level(p->m, passes && trips > 0 ? bytes / trips : bytes);
            met[v] = true;
        }
        one += part_seconds((Rates){ p->m, false }, &cost, n, home, 1);
        all += part_seconds((Rates){ p->m, p->m->cores > 1 && threads > 1 }, &cost, n, home,
                            threads < 1 ? 1 : threads);
    }
    return p->m->call_seconds + (p->m->cores > 1 ? fmin(one, p->m->wake_seconds + all) : one);
}

/* Does node n read a choice by index, directly or through elementwise nests? Inlined, it may limit
 * a reduction's support. */
static bool
may_gain_support(const Fusion *f, NodeId n, uint32_t depth)
{
    const FusedCall *call = &f->call[n];
    bool any = false;

    for (uint32_t i = 0; i < call->nest->nin && depth && !any; i++) {
        NodeId def = f->g->value.at[call->value[i]].def;
        const Nest *from = def ? f->call[def].nest : NULL;
        if (!from || nest_axes_of_kind(from, AXIS_REDUCE))
            continue;
        for (uint32_t w = 0; w < from->nwrite; w++)
            FOR_EACH_SCALAR (s, scalar_nodes(f->ctx, from->write[w].value))
                any |= scalar_is_compared_choice(s) &&
                       (s->arg[0]->arg[0]->op == S_INDEX || s->arg[0]->arg[1]->op == S_INDEX);
        any = any || may_gain_support(f, def, depth - 1);
    }
    return any;
}

double
fuse_least_seconds(Pricing *p, NodeId n)
{
    enum { DEEP = 3 }; /* nests between a sum and its mask; bounds the search */
    Arena *a = arena_child(p->arena);
    double least = cost_formula(p->f->ctx, a, p->f->call[n].nest, p->m).least / p->m->cores;

    if (least > 0 && may_gain_support(p->f, n, DEEP))
        least = 0;

    arena_free(a);
    return least;
}

const uint64_t *
fuse_composed(const Pricing *p)
{
    return &p->composed;
}

const uint64_t *
fuse_spent(const Pricing *p)
{
    return &p->spent;
}

/* ---- equal groups ---------------------------------------------------------------------------- */

typedef VEC(uint64_t) HashWords;

/* The result under a key, empty if it is new. */
static Memo *
memo_of(Pricing *p, Map *all, const HashWords *key)
{
    size_t bytes = key->n * sizeof *key->at;
    uint64_t hash = hash_bytes(key->at, bytes, 0), at;

    for (; map_get(all, hash, &at); hash++) {
        Memo *k = (Memo *)(uintptr_t)at;
        if (k->bytes == bytes && !memcmp(k->key, key->at, bytes))
            return k;
    }
    Memo *k = NEW(p->arena, Memo);
    *k = (Memo){ .key = arena_copy(p->arena, key->at, bytes), .bytes = bytes };
    map_put(all, hash, MAP_PTR(k));
    return k;
}

/* The key of a nest's meaning; expressions and types are interned. */
static uint32_t
class_of(Pricing *p, Arena *a, NodeId id)
{
    const Nest *n = p->f->call[id].nest;
    HashWords w = { 0 };

    if (p->class[id])
        return p->class[id];
    for (uint32_t k = 0; k < n->naxis; k++) {
        VEC_PUSH(a, &w, (uint64_t)n->axis[k].kind);
        VEC_PUSH(a, &w, MAP_PTR(n->axis[k].extent));
    }
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        VEC_PUSH(a, &w, MAP_PTR(n->param[i].type));
    for (uint32_t i = 0; i < n->nwrite; i++) {
        VEC_PUSH(a, &w, (uint64_t)n->write[i].out << 32 | n->write[i].init);
        VEC_PUSH(a, &w, MAP_PTR(n->write[i].value) ^ (uint64_t)n->write[i].combiner << 56);
        for (uint32_t d = 0; d < n->param[n->write[i].out].type->rank; d++)
            VEC_PUSH(a, &w, MAP_PTR(n->write[i].at[d]));
    }
    VEC_PUSH(a, &w, (uint64_t)n->naxis << 32 | n->nin);
    Memo *k = memo_of(p, &p->class_at, &w);
    k->class = k->class ? k->class : ++p->nclass;
    return p->class[id] = k->class;
}

/* The key of a group: classes of its nests, the values that pass between them, and which are
 * constant or visible outside. */
static HashWords
signature(Pricing *p, Arena *a, const NodeId *node, uint32_t n)
{
    const Fusion *f = p->f;
    Map number = { .arena = a };
    HashWords w = { 0 };
    uint64_t at;

    for (uint32_t i = 0; i < n; i++) {
        const FusedCall *call = &f->call[node[i]];
        VEC_PUSH(a, &w, class_of(p, a, node[i]));
        for (uint32_t k = 0; k < call->nest->nin + call->nest->nout; k++) {
            ValueId v = call->value[k];
            if (!map_get(&number, v, &at))
                map_put(&number, v, at = number.n);
            bool flag =
                k < call->nest->nin ? f->g->value.at[v].data != NULL : fuse_escapes(f, v, node, n);
            VEC_PUSH(a, &w, at << 1 | flag);
        }
    }
    return w;
}

/* A nest with this number of operands takes as long to compose as a group of small nests, which
 * MOST_COMPOSED (dp.c) counts. */
enum { USUAL_OPERANDS = 16 };

/* The weight of composing a group. */
static uint64_t
composing(const Fusion *f, const NodeId *node, uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = f->call[node[i]].nest->nin > most ? f->call[node[i]].nest->nin : most;
    return 1 + most / USUAL_OPERANDS;
}

GroupPrice
fuse_group_price(Pricing *p, const NodeId *node, uint32_t n)
{
    Arena *a = arena_child(p->arena);
    HashWords w = signature(p, a, node, n);
    Memo *k = memo_of(p, &p->known, &w);

    if (!k->known) {
        Composed group = fuse_compose_group(p->f, a, node, n);
        k->known = true;
        k->price = (GroupPrice){ seconds_of(p, &group, a), group.reason,
                                 group.no ? arena_str(p->arena, group.no) : NULL };
        p->composed++;
        p->spent += composing(p->f, node, n);
    }
    arena_free(a);
    return k->price;
}
