/* dnnf: DNNFusion's rule, from the same nests.
 *
 * Five types, by fan-in and fan-out of what is read and not constant; an operator has the highest
 * of its reads'. Two operators after one another fuse unless the table says no; the pair has the
 * type that the table says. Blocks grow from seeds, the one-to-one operator with the smallest
 * result first: to all that read it, then to all that it reads, and on. What its authors ask a
 * profile of is fused here.
 *
 * Source: Niu et al., DNNFusion, PLDI 2021 (arXiv 2108.13342), sections 3 and 4.2.
 */
#include "fuse/internal.h"

#include <string.h>

typedef enum { ONE_ONE, REORGANIZE, SHUFFLE, ONE_MANY, MANY_MANY, TYPES } Type5;

#define NEVER TYPES
/* [first][second]: the type of both as one */
static const Type5 together[TYPES][TYPES] = {
    /*                1-1         RO          SH          1-M       M-M */
    [ONE_ONE] = { ONE_ONE, REORGANIZE, SHUFFLE, ONE_MANY, MANY_MANY },
    [REORGANIZE] = { REORGANIZE, REORGANIZE, REORGANIZE, ONE_MANY, MANY_MANY },
    [SHUFFLE] = { SHUFFLE, SHUFFLE, SHUFFLE, ONE_MANY, MANY_MANY },
    [ONE_MANY] = { ONE_MANY, ONE_MANY, ONE_MANY, ONE_MANY, NEVER },
    [MANY_MANY] = { MANY_MANY, MANY_MANY, MANY_MANY, MANY_MANY, NEVER },
};

typedef struct {
    FuseNodes s;
    FuseUnits unit; /* the operator that a node is of */
    Type5 *type;    /* [s.n]: of units, then of the blocks that they lead */
    /* [s.n]: of units: the block, by its seed, and the next unit in it; NO_SLOT: none yet */
    uint32_t *block, *next;
    bool *seen; /* [s.n] */
    VEC(uint32_t) stack, todo;
} Dnnf;

static Type5
type_of(Fusion *f, NodeId n)
{
    static const Type5 of[MAP_COUNT] = {
        [MAP_ID] = ONE_ONE,          [MAP_PART] = ONE_ONE,    [MAP_PERM] = SHUFFLE,
        [MAP_RELAYOUT] = REORGANIZE, [MAP_INJ] = SHUFFLE,     [MAP_BCAST] = ONE_MANY,
        [MAP_REPEAT] = ONE_MANY,     [MAP_GATHER] = ONE_MANY, [MAP_RED] = MANY_MANY,
        [MAP_WIN] = MANY_MANY,       [MAP_CONTR] = MANY_MANY, [MAP_SCAN] = MANY_MANY,
        [MAP_UNKNOWN] = MANY_MANY,
    };
    const Piece *p = &f->piece[n];
    Accesses reads = nest_accesses(f->ctx, f->arena, p->nest);
    Type5 type = fuse_traits_of(f, n)->elementwise ? ONE_ONE : MANY_MANY;

    for (uint32_t i = 0; i < reads.n; i++) {
        Type5 t = of[nest_mapping(f->ctx, p->nest, &reads.at[i])];
        if (!f->g->value.at[p->value[reads.at[i].load->u.load.slot]].data && t > type)
            type = t;
    }
    return type;
}

static uint32_t
home(const Dnnf *d, uint32_t node)
{
    uint32_t u = d->unit.of[node];
    return d->block[u] == NO_SLOT ? u : d->block[u];
}

/* Of all nodes in the block or the operator `of`: who reads them, or whom they read. */
static void
each_neighbour(Dnnf *d, uint32_t of, bool readers, void (*visit)(Dnnf *d, uint32_t neighbour))
{
    const Fusion *f = &d->s.f;

    for (uint32_t u = of; u != NO_SLOT; u = d->next[u])
        for (uint32_t i = d->unit.first[u]; i != NO_SLOT; i = d->unit.next[i]) {
            const Piece *p = &f->piece[d->s.node[i]];
            for (uint32_t k = 0; k < p->nest->nin + p->nest->nout; k++) {
                NodeId def = f->g->value.at[p->value[k]].def;
                if (k < p->nest->nin && !readers && def)
                    visit(d, d->s.at[def]);
                for (uint32_t r = 0; k >= p->nest->nin && readers && r < f->readers[p->value[k]].n;
                     r++)
                    visit(d, d->s.at[f->readers[p->value[k]].at[r]]);
            }
        }
}

static void
push_home(Dnnf *d, uint32_t node)
{
    uint32_t to = home(d, node);

    if (!d->seen[to])
        VEC_PUSH(d->s.scratch, &d->stack, to);
    d->seen[to] = true;
}

/* Does a path lead from x to y past a third? */
static bool
closes_cycle(Dnnf *d, uint32_t x, uint32_t y)
{
    memset(d->seen, 0, d->s.n * sizeof *d->seen);
    d->stack.n = 0;
    d->seen[x] = true;
    each_neighbour(d, x, true, push_home);
    d->seen[y] = false;
    for (uint32_t i = 0; i < d->stack.n; i++)
        if (d->stack.at[i] != y)
            each_neighbour(d, d->stack.at[i], true, push_home);
    return d->seen[y];
}

static void
push_unit(Dnnf *d, uint32_t node)
{
    if (d->block[d->unit.of[node]] == NO_SLOT)
        VEC_PUSH(d->s.scratch, &d->todo, d->unit.of[node]);
}

/* One more operator, if the table lets it and no cycle of blocks closes. */
static bool
take(Dnnf *d, uint32_t seed, uint32_t unit, bool behind)
{
    Type5 both =
        behind ? together[d->type[seed]][d->type[unit]] : together[d->type[unit]][d->type[seed]];

    if (d->block[unit] != NO_SLOT || both == NEVER ||
        (behind ? closes_cycle(d, seed, unit) : closes_cycle(d, unit, seed)))
        return false;
    d->block[unit] = seed;
    d->next[unit] = d->next[seed];
    d->next[seed] = unit;
    d->type[seed] = both;
    return true;
}

static void
grow(Dnnf *d, uint32_t seed)
{
    d->block[seed] = seed;
    for (int behind = 1; behind >= 0; behind--) {
        d->todo.n = 0;
        each_neighbour(d, seed, behind, push_unit);
        for (uint32_t i = 0; i < d->todo.n; i++)
            /* all neighbours once more: it has brought some */
            if (take(d, seed, d->todo.at[i], behind)) {
                d->todo.n = 0;
                each_neighbour(d, seed, behind, push_unit);
                i = UINT32_MAX;
            }
    }
}

static double
bytes_of(const Dnnf *d, uint32_t unit)
{
    const Piece *p = &d->s.f.piece[d->s.node[unit]];
    return cost_usual(d->s.f.ctx, type_bytes(d->s.f.ctx, p->nest->param[p->nest->nin].type));
}

FusePlan
fuse_dnnf(const Graph *g, Arena *a)
{
    Arena *scratch = arena_child(g->ctx->arena);
    Dnnf d = { .s = fuse_nodes(g, scratch, &fuse_rules_nothing) };
    uint32_t n = d.s.n, *group = NEW_ARRAY(scratch, uint32_t, n + 1);
    Type5 *own;

    d.unit = fuse_operators(&d.s);
    d.type = NEW_ARRAY(scratch, Type5, n + 1);
    d.block = NEW_ARRAY(scratch, uint32_t, n + 1);
    d.next = NEW_ARRAY(scratch, uint32_t, n + 1);
    d.seen = NEW_ARRAY(scratch, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        Type5 t = type_of(&d.s.f, d.s.node[i]);
        uint32_t u = d.unit.of[i];
        d.type[u] = t > d.type[u] ? t : d.type[u];
        d.block[i] = d.next[i] = NO_SLOT;
    }
    own = arena_copy(scratch, d.type, (n + 1) * sizeof *own);
    for (;;) {
        uint32_t seed = NO_SLOT;
        for (uint32_t u = 0; u < n; u++)
            if (d.unit.of[u] == u && d.block[u] == NO_SLOT && own[u] == ONE_ONE &&
                (seed == NO_SLOT || bytes_of(&d, u) < bytes_of(&d, seed)))
                seed = u;
        if (seed == NO_SLOT)
            break;
        grow(&d, seed);
    }
    for (uint32_t i = 0; i < n; i++)
        group[i] = home(&d, i) + 1;
    FusePlan p = fuse_assemble(&d.s, a, group, n);
    arena_free(scratch);
    return p;
}
