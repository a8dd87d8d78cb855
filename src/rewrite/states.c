/* states: put the dimension along which a state grows first, so that it grows in place.
 *
 *     %present[b, h, k, d] = k < p ? %past[b, h, k, d] : v(k)
 *
 * copies the complete past for every new row. With k as the first dimension, the new rows are one
 * piece of memory behind the old ones:
 *
 *     %rows[k, b, h, d] = v(k + p)                     an ordinary nest, over the new rows alone
 *     %present = join(%past, %rows)                    does nothing if %past is already at the
 *                                                      front of %present's memory
 *
 * Readers of %present see the new order through access maps. The state's input and output have
 * their dimensions in the new order, as with --io-format; a caller that passes them as separate
 * buffers still gets the model's results.
 *
 * Other states, an output that is passed back as an input, stay as they are.
 */
#include "algebra/algebra.h"
#include "rewrite/rewrite.h"

#include <string.h>

typedef struct {
    const Nest *behind; /* NULL: it is left as it is */
    ValueId *in;        /* that `behind` reads */
    uint32_t dim;
} Growth;

static uint32_t
times_output(const Graph *g, ValueId v)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->output.n; i++)
        n += g->output.at[i] == v;
    return n;
}

/* Are all sizes of the type there when the graph begins? */
static bool
known_at_entry(const Graph *g, const Map *definer, const Type *t)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (graph_bound(g, definer, t->dim[d]) != t->dim[d])
            return false;
    return true;
}

static Growth
growth_of(const Graph *g, const Map *definer, const State *s)
{
    ValueId x = g->input.at[s->input], y = g->output.at[s->output];
    const Node *n = &g->node.at[g->value.at[y].def];
    Growth w = { 0 };
    uint32_t slot = UINT32_MAX, grows;

    if (!g->value.at[y].def || n->callee != CALL_NEST || times_output(g, y) != 1 ||
        times_output(g, x) || !graph_state_grows(g, s, &grows) ||
        !known_at_entry(g, definer, g->value.at[y].type))
        return w;
    for (uint32_t i = 0; i < n->in.count; i++) {
        if (node_in(g, n, i) == x && slot != UINT32_MAX)
            return w;
        if (node_in(g, n, i) == x)
            slot = i;
    }
    if (slot == UINT32_MAX)
        return w;
    w.in = NEW_ARRAY(g->arena, ValueId, n->in.count + 1);
    for (uint32_t i = 0; i < n->in.count; i++)
        w.in[i] = node_in(g, n, i);
    w.behind = nest_appended(g->ctx, n->nest, slot, &w.dim);
    w.behind = w.behind && w.dim == grows ? nest_drop_unused(g->ctx, w.behind, w.in) : NULL;
    return w;
}

/* v, of dimensions order[0], order[1], … of `as`, as a value of type `as`. */
static ValueId
as_before(Graph *g, ValueId v, const Type *as, const uint8_t *order)
{
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    NestBuilder b = nest_begin(g->ctx, "state");
    uint32_t in = nest_in(&b, "x", g->value.at[v].type), out = nest_out(&b, "o", as);

    nest_axes_of(&b, as, axis);
    for (uint32_t d = 0; d < as->rank; d++)
        at[d] = axis[order[d]];
    nest_write(&b, out, axis, nest_load(&b, in, at));
    return graph_nest_value(g, nest_finish(&b), g->value.at[v].name, (Loc){ 0 }, NULL, &v);
}

static const uint8_t *
first_in_order(Arena *a, uint32_t dim, uint32_t rank)
{
    uint8_t *order = NEW_ARRAY(a, uint8_t, TN_MAX_RANK);

    for (uint32_t d = 0; d < rank; d++)
        order[d] = d == 0 ? (uint8_t)dim : (uint8_t)(d <= dim ? d - 1 : d);
    return order;
}

/* The node that makes the state's output, as rows and a join; *stored is the join, what is returned
 * it in the old order. */
static ValueId
grow(Graph *g, const Graph *from, const State *s, const Growth *w, const uint8_t *order,
     const ValueId *map, ValueId *stored)
{
    const Value *y = &from->value.at[from->output.at[s->output]];
    const Node *n = &from->node.at[y->def];
    const Nest *nest = order ? nest_permute(g->ctx, w->behind, w->behind->nin, order) : w->behind;
    ValueId *in = NEW_ARRAY(g->arena, ValueId, n->in.count + 1), part[2];

    nest = nest ? nest_axes_as_written(g->ctx, nest, 0) : NULL;
    if (!nest)
        return 0;
    for (uint32_t i = 0; i < nest->nin; i++)
        in[i] = map[w->in[i]];
    part[0] = g->input.at[s->input];
    part[1] =
        graph_nest_value(g, nest, sym_printf(g->ctx, "%s.rows", y->name), n->loc, n->origin, in);
    *stored = graph_join(g, y->name, n->loc, n->origin, 2, part);
    return order ? as_before(g, *stored, y->type, order) : *stored;
}

Graph *
rewrite_states(const Graph *from, const uint8_t **order)
{
    Map definer = graph_definers(from, from->arena), made = { .arena = from->arena };
    Growth *w = NEW_ARRAY(from->arena, Growth, from->state.n + 1);
    ValueId *map, *stored = NEW_ARRAY(from->arena, ValueId, from->state.n + 1);
    Graph *g = graph_rebuild(from, &map);
    uint64_t i;

    for (uint32_t k = 0; k < from->state.n; k++) {
        const State *s = &from->state.at[k];
        ValueId x = from->input.at[s->input];
        const Type *type = from->value.at[x].type;
        w[k] = growth_of(from, &definer, s);
        order[k] =
            w[k].behind && w[k].dim ? first_in_order(from->arena, w[k].dim, type->rank) : NULL;
        if (!w[k].behind)
            continue;
        map_put(&made, from->value.at[from->output.at[s->output]].def, k + 1);
        if (!order[k])
            continue;
        ValueId v = map[x];
        g->value.at[v].type = type_permuted(g->ctx, type, order[k]);
        if (!(map[x] = as_before(g, v, type, order[k])))
            return NULL;
    }
    for (NodeId n = 1; n < from->node.n; n++) {
        if (!map_get(&made, n, &i)) {
            graph_copy_node(g, from, n, map);
            continue;
        }
        const State *s = &from->state.at[i - 1];
        if (!(map[from->output.at[s->output]] =
                  grow(g, from, s, &w[i - 1], order[i - 1], map, &stored[i - 1])))
            return NULL;
    }
    for (uint32_t k = 0; k < from->state.n; k++)
        if (stored[k]) {
            ValueId y = from->output.at[from->state.at[k].output];
            map[y] = stored[k];
            graph_rename(g, stored[k], from->value.at[y].name);
        }
    graph_finish(g, from, map);
    return g;
}
