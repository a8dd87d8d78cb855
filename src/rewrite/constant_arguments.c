/* constant_arguments: make constant arguments of a graph constants inside it.
 *
 *     %w: i8[512, 2048] = const …
 *     loop(%n, _, %h, %w) graph @body(…, %h, %r)        inside, %r is %w
 *
 * A graph that a node runs gets all that it reads as arguments, weights too. As an argument a
 * weight is an ordinary value: nothing computed from it is folded, and quantised weights would be
 * repacked in every iteration. This pass replaces an argument that is the same constant in every
 * iteration. Graphs that several nodes run stay as they are: their constants may differ.
 *
 * A loop runs its body only while its condition holds, so in the body the condition argument is
 * true. Exporters write `identity` of it for a loop that only a trip count ends.
 */
#include "rewrite/rewrite.h"

/* Graphs, and how many regions run each. */
typedef struct {
    GraphList all;
    uint32_t *runs;
} RegionUses;

static RegionUses
count_runs(const Graph *g, Arena *a)
{
    RegionUses r = { .all = graph_all(g, a) };

    r.runs = NEW_ARRAY(a, uint32_t, r.all.n + 1);
    for (uint32_t i = 0; i < r.all.n; i++)
        for (NodeId id = 1; id < r.all.at[i]->node.n; id++)
            for (uint32_t k = 0; k < r.all.at[i]->node.at[id].nregion; k++)
                for (uint32_t j = 0; j < r.all.n; j++)
                    r.runs[j] += r.all.at[j] == r.all.at[i]->node.at[id].region[k].graph;
    return r;
}

static bool
runs_once(const RegionUses *r, const Node *n)
{
    for (uint32_t k = 0; k < n->nregion; k++)
        for (uint32_t j = 0; j < r->all.n; j++)
            if (r->all.at[j] == n->region[k].graph && r->runs[j] != 1)
                return false;
    return n->nregion > 0;
}

/* Arguments from this one on are the same in every turn; the first `before` inputs of the node are
 * none. */
static void
arguments_of(const Node *n, uint32_t *first, uint32_t *before)
{
    *before = n->callee == CALL_IF ? 1 : 0;
    *first = n->callee == CALL_LOOP ? 2 + n->ncarried : *before;
}

static void
drop_argument(Graph *g, Node *n, uint32_t i)
{
    for (uint32_t k = i; k + 1 < n->in.count; k++)
        g->ref.at[n->in.first + k] = g->ref.at[n->in.first + k + 1];
    n->in.count--;
}

/* How many arguments of a node are gone. */
static uint32_t
give(Graph *g, Node *n)
{
    uint32_t first, before, count = 0;

    arguments_of(n, &first, &before);
    for (uint32_t i = n->in.count; i-- > first;) {
        const Value *v = &g->value.at[node_in(g, n, i)];
        if (!node_in(g, n, i) || !v->data || v->format)
            continue;
        for (uint32_t k = 0; k < n->nregion; k++)
            graph_input_is(n->region[k].graph, i - before, v->data);
        drop_argument(g, n, i);
        count++;
    }
    return count;
}

/* Nodes of a loop's body read true in place of its condition; the number of reads. */
static uint32_t
give_condition(Graph *body)
{
    static const uint8_t yes = 1;
    ValueId going = body->input.at[1], is_true = 0;
    uint32_t count = 0;

    for (NodeId id = 1; id < body->node.n; id++) {
        const Node *n = &body->node.at[id];
        for (uint32_t k = 0; k < n->in.count; k++)
            if (node_in(body, n, k) == going) {
                const Value *v = &body->value.at[going];
                is_true = is_true ? is_true : graph_const(body, v->name, v->type, &yes);
                body->ref.at[n->in.first + k] = is_true;
                count++;
            }
    }
    return count;
}

uint32_t
rewrite_constant_arguments(Graph *g)
{
    uint32_t count = 0;
    Arena *scratch = arena_child(g->arena);
    RegionUses r = count_runs(g, scratch);

    for (uint32_t i = r.all.n; i-- > 0;) /* callers before what they run */
        for (NodeId id = 1; id < r.all.at[i]->node.n; id++) {
            Node *n = &r.all.at[i]->node.at[id];
            if (runs_once(&r, n))
                count += give(r.all.at[i], n);
            if (n->callee == CALL_LOOP && runs_once(&r, n))
                count += give_condition(n->region[0].graph);
        }
    arena_free(scratch);
    return count;
}
