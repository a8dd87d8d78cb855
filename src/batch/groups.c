/* groups: splits the nests of a segment into blocks by the sizes that they depend on.
 *
 * Requests run a block together if all sizes that it depends on are equal: these symbols are its
 * key. In a decoding loop, attention depends on the length of the cache, projections do not. If
 * they were one block, projections of requests with caches of different lengths would run
 * separately, and each would read their weights again. So a heavy nest, a contraction with weights,
 * is only in blocks whose key is its own. All others are loose: a loose nest joins any neighbour
 * whose key includes its symbols, or a block without heavy nests, whose key is free.
 *
 * A class is the key of some heavy nests, or free. A block takes all nests that its class allows
 * and whose producers are in it or in earlier blocks; further blocks follow until no nest is left.
 * So blocks form no cycle. A nest is forced if only one class allows it. The next block gets the
 * class that takes the largest share of its frontier, its forced nests that wait for no other of
 * its forced nests: if that is all of them, some order with the fewest blocks continues so (the
 * rule of ED-Batch, ICML 2023, section 3, with classes as types). Finally, a loose nest moves to a
 * later block of a smaller key if no user is in a block before that.
 *
 * If heavy nests have the key of the complete segment, or there are none, the segment is one block.
 *
 * Nests of a block that have nothing to do with each other become blocks of their own: together
 * they would all wait for the deepest row that any of them reads.
 *
 * Blocks affect only what runs together, never results.
 *
 * Cost     O(blocks * classes * (nests + edges)).
 */
#include "batch/internal.h"

/* Smaller weights fit half of L1: reading them again costs less than recording another block. */
enum { LEAST_WEIGHTS = 1 << 12 }; /* elements */

/* A set of symbols, by number. Symbols from the 63rd on share a bit, so keys may have more symbols
 * than their blocks depend on. */
typedef uint64_t Key;
enum { OTHERS = 63 };
#define FREE UINT64_MAX /* allows all symbols; the keys of its blocks are those of their nests */

struct SizeKeys {
    const Batching *b;
    const Graph *g;
    Map symbol; /* symbol to its number in keys */
    uint32_t nsymbol;
    Key *node, *shared; /* [node]; of shared values: [value] */
    Key now;            /* the key to which symbols are being added */
};

static void
add_symbol(void *user, Var v)
{
    SizeKeys *s = user;
    uint64_t number;

    if (v.kind != VAR_SYMBOL)
        return;
    if (!map_get(&s->symbol, v.id, &number)) {
        number = s->nsymbol < OTHERS ? s->nsymbol++ : OTHERS;
        map_put(&s->symbol, v.id, number);
    }
    s->now |= UINT64_C(1) << number;
}

/* A symbol in terms of the model's inputs. */
static void
add_named(void *user, Sym name)
{
    SizeKeys *s = user;

    for (uint32_t i = 0; i < s->b->made->size.n; i++)
        if (s->b->made->size.at[i].var.id == MAP_PTR(name)) {
            expr_vars(s->b->made->size.at[i].to, add_symbol, s);
            return;
        }
    add_symbol(s, (Var){ VAR_SYMBOL, MAP_PTR(name) });
}

/* A block computes the shared values that it reads, so it has their keys. */
const SizeKeys *
batch_keys(const Batching *b, const Graph *g)
{
    SizeKeys *s = NEW(b->a, SizeKeys);
    const bool *shared = b->shared + batch_run_of(b, g)->first;

    *s = (SizeKeys){ .b = b, .g = g, .symbol.arena = b->a };
    s->node = NEW_ARRAY(b->a, Key, g->node.n);
    s->shared = NEW_ARRAY(b->a, Key, g->value.n);
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        if (n->callee != CALL_NEST)
            continue;
        s->now = 0;
        graph_symbols(g, id, add_named, s);
        for (uint32_t i = 0; i < n->in.count; i++)
            s->now |= s->shared[node_in(g, n, i)];
        s->node[id] = s->now;
        for (uint32_t i = 0; i < n->out.count; i++)
            if (shared[node_out(g, n, i)])
                s->shared[node_out(g, n, i)] = s->now;
    }
    return s;
}

/* Does a nest reduce over an axis of weights that all requests share? */
static bool
is_heavy(const Batching *b, const Graph *g, const Node *n)
{
    const bool *shared = b->shared + batch_run_of(b, g)->first;
    Accesses all = nest_accesses(b->c, b->a, n->nest);
    int64_t elements;

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load;
        uint32_t slot = load->u.load.slot;
        if (slot < n->in.count && shared[node_in(g, n, slot)] && (load->axes & all.at[i].reduce) &&
            expr_const(type_count(b->c, n->nest->param[slot].type), &elements) &&
            elements >= LEAST_WEIGHTS)
            return true;
    }
    return false;
}

/* ---- grouping -------------------------------------------------------------------------------- */

enum { NOT_FORCED = -1 };

typedef struct {
    const Graph *g;
    const NodeId *node;
    uint32_t n;
    uint32_t *at;    /* [node of g] its index in `node` plus 1; 0: elsewhere */
    const Key *key;  /* [node of g] */
    bool *heavy;     /* [n] */
    int32_t *forced; /* [n] the only class that allows it */
    VEC(Key) class;
    uint32_t *group;        /* [n] its block, from 1; 0: none yet */
    VEC(uint32_t) class_of; /* of each block */
    bool *taken, *waits;    /* [n] scratch of `take` */
} Grouping;

static bool
may(const Grouping *x, uint32_t i, uint32_t class)
{
    Key key = x->key[x->node[i]], allowed = x->class.at[class];

    return x->heavy[i] ? key == allowed : !(key & ~allowed);
}

typedef struct {
    uint32_t taken, ready, frontier;
} BlockScore;

/* The nests that a block of this class takes, as x->taken; frontier: the number of nests forced to
 * the class that wait for no other such nest; ready: the number of these that it takes. */
static BlockScore
take(Grouping *x, uint32_t class)
{
    BlockScore t = { 0, 0, 0 };

    for (uint32_t i = 0; i < x->n; i++) {
        const Node *n = &x->g->node.at[x->node[i]];
        x->taken[i] = !x->group[i] && may(x, i, class);
        x->waits[i] = false;
        for (uint32_t k = 0; !x->group[i] && k < n->in.count; k++) {
            uint32_t p = x->at[x->g->value.at[node_in(x->g, n, k)].def];
            if (!p || x->group[p - 1])
                continue;
            x->taken[i] = x->taken[i] && x->taken[p - 1];
            x->waits[i] |= x->waits[p - 1] || x->forced[p - 1] == (int32_t)class;
        }
        bool first = !x->group[i] && x->forced[i] == (int32_t)class && !x->waits[i];
        t.taken += x->taken[i];
        t.frontier += first;
        t.ready += first && x->taken[i];
    }
    return t;
}

static bool
is_better(BlockScore a, BlockScore b)
{
    uint64_t of_a = (uint64_t)a.ready * (b.frontier ? b.frontier : 1);
    uint64_t of_b = (uint64_t)b.ready * (a.frontier ? a.frontier : 1);

    return of_a != of_b ? of_a > of_b : a.taken > b.taken;
}

/* Adds a block; the number of its nests. It is never 0: of the nests that wait for none, a heavy
 * one has its class and a loose one may be in a free block. */
static uint32_t
next_group(Grouping *x, Arena *a)
{
    uint32_t best = 0;
    BlockScore most = take(x, 0);

    for (uint32_t c = 1; c < x->class.n; c++) {
        BlockScore t = take(x, c);
        if (t.taken && (!most.taken || is_better(t, most))) {
            most = t;
            best = c;
        }
    }
    take(x, best);
    VEC_PUSH(a, &x->class_of, best);
    for (uint32_t i = 0; i < x->n; i++)
        if (x->taken[i])
            x->group[i] = x->class_of.n;
    return most.taken;
}

/* Moves loose nests to later blocks that more requests share. */
static void
move_later(Grouping *x, const Users *users)
{
    for (uint32_t i = x->n; i-- > 0;) {
        const Node *n = &x->g->node.at[x->node[i]];
        uint32_t most = UINT32_MAX, to = x->group[i];
        for (uint32_t o = 0; o < n->out.count; o++) {
            ValueId v = node_out(x->g, n, o);
            for (uint32_t u = users->first[v]; u < users->first[v + 1]; u++) {
                uint32_t user = x->at[users->node[u]];
                if (user && x->group[user - 1] < most)
                    most = x->group[user - 1];
            }
        }
        for (uint32_t g = x->group[i] + 1; most < UINT32_MAX && g <= most && !x->heavy[i]; g++) {
            Key now = x->class.at[x->class_of.at[to - 1]], key = x->class.at[x->class_of.at[g - 1]];
            if (may(x, i, x->class_of.at[g - 1]) && key != now && !(key & ~now))
                to = g;
        }
        x->group[i] = to;
    }
}

static void
add_class(Grouping *x, Arena *a, Key key)
{
    for (uint32_t c = 0; c < x->class.n; c++)
        if (x->class.at[c] == key)
            return;
    VEC_PUSH(a, &x->class, key);
}

/* The classes: each key of heavy nests, and free. false: separate blocks gain nothing. */
static bool
find_classes(Grouping *x, const Batching *b)
{
    Key all = 0;

    for (uint32_t i = 0; i < x->n; i++) {
        x->heavy[i] = is_heavy(b, x->g, &x->g->node.at[x->node[i]]);
        all |= x->key[x->node[i]];
        if (x->heavy[i])
            add_class(x, b->a, x->key[x->node[i]]);
    }
    if (!x->class.n || (x->class.n == 1 && x->class.at[0] == all))
        return false;
    add_class(x, b->a, FREE);
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t allowed = 0;
        for (uint32_t c = 0; c < x->class.n; c++)
            if (may(x, i, c)) {
                allowed++;
                x->forced[i] = (int32_t)c;
            }
        if (allowed > 1)
            x->forced[i] = NOT_FORCED;
    }
    return true;
}

/* ---- nests that have nothing in common ------------------------------------------------------- */

static uint32_t
root_of(uint32_t *to, uint32_t i)
{
    while (to[i] != i)
        i = to[i] = to[to[i]];
    return i;
}

/* Nests of a block that read or make a common value stay in one block. Constants are no reason to:
 * each block has its own. The number of blocks. */
static uint32_t
separate(Grouping *x, const Batching *b, uint32_t ngroup)
{
    const bool *shared = b->shared + batch_run_of(b, x->g)->first;
    uint32_t *to = NEW_ARRAY(b->a, uint32_t, x->n + 1), *number = NEW_ARRAY(b->a, uint32_t, x->n),
             *block = NEW_ARRAY(b->a, uint32_t, x->g->value.n),    /* that last had a value … */
                 *nest = NEW_ARRAY(b->a, uint32_t, x->g->value.n), /* … and its last nest with it */
        count = 0;

    for (uint32_t j = 1; j <= ngroup; j++)
        for (uint32_t i = 0; i < x->n; i++) {
            const Node *n = &x->g->node.at[x->node[i]];
            if (x->group[i] != j)
                continue;
            to[i] = i;
            for (uint32_t k = 0; k < n->in.count + n->out.count; k++) {
                ValueId v =
                    k < n->in.count ? node_in(x->g, n, k) : node_out(x->g, n, k - n->in.count);
                if (shared[v] && !x->g->value.at[v].def)
                    continue;
                if (block[v] == j)
                    to[root_of(to, i)] = root_of(to, nest[v]);
                block[v] = j;
                nest[v] = i;
            }
        }
    for (uint32_t j = 1; j <= ngroup; j++)
        for (uint32_t i = 0; i < x->n; i++)
            if (x->group[i] == j) {
                uint32_t *at = &number[root_of(to, i)];
                *at = *at ? *at : ++count;
            }
    for (uint32_t i = 0; i < x->n; i++)
        x->group[i] = number[root_of(to, i)];
    return count;
}

uint32_t
batch_group(const Batching *b, const SizeKeys *keys, const Users *users, const NodeId *node,
            uint32_t n, uint32_t *group)
{
    Grouping x = { .g = keys->g, .node = node, .n = n, .key = keys->node, .group = group };

    x.at = NEW_ARRAY(b->a, uint32_t, x.g->node.n);
    x.heavy = NEW_ARRAY(b->a, bool, n + 1);
    x.taken = NEW_ARRAY(b->a, bool, n + 1);
    x.waits = NEW_ARRAY(b->a, bool, n + 1);
    x.forced = NEW_ARRAY(b->a, int32_t, n + 1);
    for (uint32_t i = 0; i < n; i++)
        x.at[node[i]] = i + 1;
    if (!find_classes(&x, b)) {
        for (uint32_t i = 0; i < n; i++)
            group[i] = 1;
        return separate(&x, b, n > 0);
    }
    for (uint32_t left = n; left > 0;)
        left -= next_group(&x, b->a);
    move_later(&x, users);
    return separate(&x, b, x.class_of.n);
}
