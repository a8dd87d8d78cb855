/* clone: give each set of constant arguments a copy of the called function.
 *
 *     %f = call @step(%x, %forward)          %f = call @step(%x, %forward)
 *     %b = call @step(%y, %backward)   ->    %b = call @step_2(%y, %backward)
 *
 * A weight that is an argument is an ordinary value: nothing computed from it is folded, and
 * requests that run together would each read their own. Where all calls from outside pass one
 * constant, an argument that a function passes on to itself is that constant too. Scalars do not
 * count as weights: they would give a copy for each loop counter.
 *
 * A copy gets copies of all graphs that the function runs, so calls among these stay among them.
 *
 * Source  ACRoBat, MLSys 2024, code duplication by parameter reuse, for functions that run nothing
 *         but operators.
 */
#include "rewrite/rewrite.h"

#include <string.h>

typedef struct {
    Graph *caller, *f;
    NodeId id;
    const Value **given;
} CloneCall; /* given [inputs] */
typedef VEC(CloneCall) Calls;

/* A constant of more than one number; NULL: the argument is something else. */
static const Value *
weight_of(const Graph *g, ValueId v)
{
    const Value *x = v ? &g->value.at[v] : NULL;
    int64_t n;

    return x && x->data && !x->format && expr_const(type_count(g->ctx, x->type), &n) && n > 1
               ? x
               : NULL;
}

static Calls
calls_of(Arena *a, const GraphList *all)
{
    Calls list = { 0 };

    for (uint32_t i = all->n; i-- > 0;) /* callers before what they call */
        for (NodeId id = 1; id < all->at[i]->node.n; id++) {
            const Node *n = &all->at[i]->node.at[id];
            if (n->callee != CALL_GRAPH)
                continue;
            CloneCall k = { .caller = all->at[i],
                            .f = n->region[0].graph,
                            .id = id,
                            .given = NEW_ARRAY(a, const Value *, n->in.count + 1) };
            for (uint32_t j = 0; j < n->in.count; j++)
                k.given[j] = weight_of(k.caller, node_in(k.caller, n, j));
            VEC_PUSH(a, &list, k);
        }
    return list;
}

static bool
is_same(const Value *x, const Value *y)
{
    int64_t bytes;

    if (!x || !y)
        return x == y;
    return x->type == y->type && (x->data == y->data || (type_static_bytes(x->type, &bytes) &&
                                                         !memcmp(x->data, y->data, (size_t)bytes)));
}

static bool
gives_same(const CloneCall *x, const CloneCall *y)
{
    for (uint32_t i = 0; i < x->f->input.n; i++)
        if (!is_same(x->given[i], y->given[i]))
            return false;
    return true;
}

/* Does f run the graph that calls it? */
static bool
is_inside(const CloneCall *k, Arena *a)
{
    GraphList all = graph_all(k->f, a);

    for (uint32_t i = 0; i < all.n; i++)
        if (all.at[i] == k->caller)
            return true;
    return false;
}

static Graph *
copy(void *user, const Graph *from)
{
    const uint32_t *number = user;
    ValueId *map;
    Graph *g = graph_rebuild(from, &map);

    for (NodeId id = 1; id < from->node.n; id++)
        graph_copy_node(g, from, id, map);
    graph_finish(g, from, map);
    g->name = sym_printf(g->ctx, "%s_%u", from->name, *number);
    return g;
}

/* Calls of one function from outside: the first of each vector of constants keeps or gets a
 * function, the others of it share that. False: there were to be more copies. */
static bool
clone_for(const Calls *list, uint32_t first, Arena *a, uint32_t most, uint32_t *made)
{
    VEC(const CloneCall *) kind = { 0 };
    VEC(Graph *) becomes = { 0 };
    const Graph *f = list->at[first].f;

    for (uint32_t i = first; i < list->n; i++) {
        const CloneCall *k = &list->at[i];
        uint32_t j = 0;
        if (k->f != f || is_inside(k, a))
            continue;
        while (j < kind.n && !gives_same(kind.at[j], k))
            j++;
        if (j == kind.n && j && *made == most)
            return false;
        if (j == kind.n) {
            uint32_t number = *made + 2;
            VEC_PUSH(a, &kind, k);
            VEC_PUSH(a, &becomes, j ? graph_map(f, copy, &number) : (Graph *)f);
            *made += j > 0;
        }
        k->caller->node.at[k->id].region[0].graph = becomes.at[j];
    }
    return true;
}

static bool
differs_from_earlier(const Calls *list, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (list->at[j].f == list->at[i].f && !gives_same(&list->at[j], &list->at[i]))
            return true;
    return false;
}

bool
rewrite_clone(Graph *g, uint32_t most)
{
    Arena *scratch = arena_child(g->arena);
    uint32_t made = 0, before;
    bool all = true;

    do { /* copies call what was called */
        GraphList graphs = graph_all(g, scratch);
        Calls list = calls_of(scratch, &graphs);
        Map done = { .arena = scratch };
        before = made;
        for (uint32_t i = 0; i < list.n && all; i++) {
            if (!differs_from_earlier(&list, i) || map_get(&done, MAP_PTR(list.at[i].f), NULL))
                continue;
            map_put(&done, MAP_PTR(list.at[i].f), 1);
            uint32_t first = 0;
            while (list.at[first].f != list.at[i].f)
                first++;
            all = clone_for(&list, first, scratch, most, &made);
        }
    } while (made > before && all);
    arena_free(scratch);
    return all;
}
