/* price: what a group takes, by the formula of its parts.
 *
 *   call + the least of: all parts on one core; wake + all parts shared out among cores
 *
 * A part takes the root of the sum of squares of its arithmetic and of its traffic, as a phase of a
 * loop tree does (cost.c of the room cost); a product is two phases, one that makes its sums and
 * one that makes its values of them. What is read of outside comes from the smallest cache that
 * half holds the whole value; what passes between parts comes from the one that half holds a trip
 * of it; constants of a model that outgrows the last cache come from memory, and so they count
 * alike wherever they are read. A value that is made anew where it is read is arithmetic of whoever
 * reads it.
 *
 * All numbers are the machine's. Prices are asked of many groups, so equal ones are composed once:
 * a group is told by its nests, which values pass between them, and which are seen outside.
 */
#include "fuse/internal.h"
#include "nest/walk.h"

#include <string.h>

struct Pricing {
    Fusion *f; /* views composed, all else apart */
    const Machine *m;
    Arena *arena; /* of the memo; groups are composed in scratch */
    /* [node.n]: nodes of equal nests have equal numbers; 0: not asked yet */
    uint32_t *class;
    uint32_t nclass;
    Map class_at, known;      /* by hash: an Asked */
    bool far;                 /* constants come from memory */
    uint64_t composed, spent; /* spent: what that counts as */
};

/* What was asked before: the class of a nest, or the price of a group. */
typedef struct {
    const void *key;
    uint32_t bytes, class;
    GroupPrice price;
} Asked;

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
            constants += cost_usual(f->ctx, type_bytes(f->ctx, f->g->value.at[v].type));
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

/* A part's seconds. home: of each parameter. */
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
    double one = 0, all = 0, trips = k->trips ? cost_usual(f->ctx, k->trips) : 0;
    bool *met = NEW_ARRAY(a, bool, g->value.n);

    for (uint32_t i = 0; i < k->nhost; i++) {
        const Piece *piece = &f->piece[k->host[i]];
        const Nest *n = piece->nest;
        CostFormula cost = cost_formula(f->ctx, a, n, p->m);
        Level *home = NEW_ARRAY(a, Level, n->nin + n->nout + 1);
        double parallel = trips > 0 ? trips : cost.trips, threads = fmin(p->m->cores, parallel);
        for (uint32_t s = 0; s < n->nin + n->nout; s++) {
            ValueId v = piece->value[s];
            double bytes = cost_usual(f->ctx, type_bytes(f->ctx, g->value.at[v].type));
            bool passes =
                k->nhost > 1 && (s >= n->nin ? !f->visible[v] : g->value.at[v].def || met[v]);
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

static void
seek_choice_by_place(void *user, const Scalar *s)
{
    bool *any = user;

    *any |= scalar_is_compared_choice(s) &&
            (s->arg[0]->arg[0]->op == S_INDEX || s->arg[0]->arg[1]->op == S_INDEX);
}

/* Is what node n reads, or what that is made of point by point, a choice by place? Computed where
 * it is read it may give a sum of n a support. */
static bool
may_gain_support(const Fusion *f, NodeId n, uint32_t depth)
{
    const Piece *piece = &f->piece[n];
    bool any = false;

    for (uint32_t i = 0; i < piece->nest->nin && depth && !any; i++) {
        NodeId def = f->g->value.at[piece->value[i]].def;
        const Nest *from = def ? f->piece[def].nest : NULL;
        if (!from || nest_axes_of_kind(from, AXIS_REDUCE))
            continue;
        for (uint32_t w = 0; w < from->nwrite; w++)
            scalar_visit(f->ctx, from->write[w].value, seek_choice_by_place, &any);
        any = any || may_gain_support(f, def, depth - 1);
    }
    return any;
}

double
fuse_least_seconds(Pricing *p, NodeId n)
{
    enum { DEEP = 3 }; /* nests between a sum and its mask; bounds the search */
    Arena *a = arena_child(p->arena);
    double least = cost_formula(p->f->ctx, a, p->f->piece[n].nest, p->m).least / p->m->cores;

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

typedef VEC(uint64_t) Words;

/* All that a nest's meaning is made of: expressions and types are interned. */
static uint32_t
class_of(Pricing *p, Arena *a, NodeId id)
{
    const Nest *n = p->f->piece[id].nest;
    Words w = { 0 };
    uint64_t class;

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
    uint64_t hash = hash_bytes(w.at, w.n * sizeof *w.at, 1);
    for (; map_get(&p->class_at, hash, &class); hash++) {
        const Asked *k = (const Asked *)(uintptr_t)class;
        if (k->bytes == w.n * sizeof *w.at && !memcmp(k->key, w.at, k->bytes))
            return p->class[id] = k->class;
    }
    Asked *k = NEW(p->arena, Asked);
    *k = (Asked){ arena_copy(p->arena, w.at, w.n * sizeof *w.at),
                  (uint32_t)(w.n * sizeof *w.at),
                  ++p->nclass,
                  { 0 } };
    map_put(&p->class_at, hash, MAP_PTR(k));
    return p->class[id] = p->nclass;
}

/* A group by its classes, by which values pass between them, and by which are constant or
 * escape. */
static Words
signature(Pricing *p, Arena *a, const NodeId *node, uint32_t n)
{
    const Fusion *f = p->f;
    Map number = { .arena = a };
    Words w = { 0 };
    uint64_t at;

    for (uint32_t i = 0; i < n; i++) {
        const Piece *piece = &f->piece[node[i]];
        VEC_PUSH(a, &w, class_of(p, a, node[i]));
        for (uint32_t k = 0; k < piece->nest->nin + piece->nest->nout; k++) {
            ValueId v = piece->value[k];
            if (!map_get(&number, v, &at))
                map_put(&number, v, at = number.n);
            bool flag =
                k < piece->nest->nin ? f->g->value.at[v].data != NULL : fuse_escapes(f, v, node, n);
            VEC_PUSH(a, &w, at << 1 | flag);
        }
    }
    return w;
}

/* Operands of a nest that take about as long to compose as a group of nests with few: milliseconds,
 * as MOST_COMPOSED (dp.c) supposes of a group. */
enum { USUAL_OPERANDS = 16 };

/* What composing a group counts as. */
static uint64_t
composing(const Fusion *f, const NodeId *node, uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = f->piece[node[i]].nest->nin > most ? f->piece[node[i]].nest->nin : most;
    return 1 + most / USUAL_OPERANDS;
}

GroupPrice
fuse_group_price(Pricing *p, const NodeId *node, uint32_t n)
{
    Arena *a = arena_child(p->arena);
    Words w = signature(p, a, node, n);
    uint64_t hash = hash_bytes(w.at, w.n * sizeof *w.at, 0), at;

    for (; map_get(&p->known, hash, &at); hash++) {
        Asked *k = (Asked *)(uintptr_t)at;
        if (k->bytes == w.n * sizeof *w.at && !memcmp(k->key, w.at, k->bytes)) {
            arena_free(a);
            return k->price;
        }
    }
    Composed k = fuse_compose_group(p->f, a, node, n);
    Asked *known = NEW(p->arena, Asked);
    *known = (Asked){ arena_copy(p->arena, w.at, w.n * sizeof *w.at),
                      (uint32_t)(w.n * sizeof *w.at),
                      0,
                      { seconds_of(p, &k, a), k.reason, k.no ? arena_str(p->arena, k.no) : NULL } };
    map_put(&p->known, hash, MAP_PTR(known));
    p->composed++;
    p->spent += composing(p->f, node, n);
    GroupPrice price = known->price;
    arena_free(a);
    return price;
}
