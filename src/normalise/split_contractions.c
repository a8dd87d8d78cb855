/* split_contractions: each matrix multiplication of a nest becomes a nest of its own.
 *
 *     o[i, j] = (sum k: a[i, k] * u[k, j]) + (sum k: b[i, k] * w[k, j])
 *
 * becomes p[i, j] = sum k: a[i, k] * u[k, j] and o[i, j] = p[i, j] + (sum k: b[i, k] * w[k, j]).
 * Later stages recognise a contraction if it is the only reduction of a nest, and fusion makes the
 * rest its epilogue.
 */
#include "algebra/algebra.h"
#include "normalise/normalise.h"

static uint32_t
count_reductions(Ctx *c, const Scalar *value)
{
    uint32_t count = 0;

    FOR_EACH_SCALAR (s, scalar_nodes(c, value))
        count += s->op == S_REDUCE;
    return count;
}

/* Is s a sum of floats that neither contains nor is within another reduction? */
static bool
is_sum_apart(Ctx *c, const Nest *n, const Scalar *s)
{
    return s->op == S_REDUCE && s->u.reduce.combiner == COMB_SUM && s->narg == 1 &&
           dtype_is_float(s->dtype) && !count_reductions(c, s->arg[0]) &&
           !(s->axes & nest_axes_of_kind(n, AXIS_REDUCE));
}

/* Is it a matrix multiplication by itself? */
static bool
multiplies(Ctx *c, const Nest *n)
{
    Contraction view;

    return n && nest_contraction(c, n, &view) && view.row && view.col;
}

/* A matrix multiplication of n that is not its only reduction: *made; *rest reads it after n's
 * inputs. */
static bool
split_off_sum(Ctx *c, const Nest *n, const Nest **made, const Nest **rest)
{
    const char *name = arena_printf(c->arena, "%s_product", n->name ? n->name : "sum");

    if (n->nwrite != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        count_reductions(c, n->write[0].value) < 2)
        return false;
    FOR_EACH_SCALAR (sum, scalar_nodes(c, n->write[0].value)) {
        uint32_t axis[NEST_MAX_AXES], rank = axis_list(sum->axes, axis);
        if (is_sum_apart(c, n, sum) &&
            (*rest = nest_outline(c, n, sum, NO_SLOT, axis, rank, name, made)) &&
            multiplies(c, *made))
            return true;
    }
    return false;
}

/* The node, after `made` was taken out; `rest` is left. */
static bool
split_node(Graph *to, const Graph *from, const Node *node, ValueId *map, const Nest *made,
           const Nest *rest)
{
    const Nest *n = node->nest;
    VEC(ValueId) value = { 0 };
    ValueId old = node_out(from, node, 0);
    bool ok = true;

    for (uint32_t i = 0; i < n->nin; i++)
        VEC_PUSH(to->arena, &value, map[node_in(from, node, i)]);
    do {
        Sym name = sym_printf(to->ctx, "%s.product", from->value.at[old].name);
        ValueId v = graph_value(to, name, made->param[made->nin].type);
        ok = graph_call_used(to, made, node->loc, node->origin, value.at, v);
        VEC_PUSH(to->arena, &value, v);
        n = rest;
    } while (ok && split_off_sum(to->ctx, n, &made, &rest));
    if (ok) {
        map[old] = graph_copy_value(to, from, old);
        ok = graph_call_used(to, n, node->loc, node->origin, value.at, map[old]);
    }
    return ok;
}

Graph *
normalise_split_contractions(const Graph *g)
{
    const Nest *made, *rest;
    ValueId *map;
    Graph *to = graph_rebuild(g, &map);
    bool ok = true;

    for (NodeId id = 1; id < g->node.n && ok; id++) {
        const Node *n = &g->node.at[id];
        if (n->callee == CALL_NEST && split_off_sum(g->ctx, n->nest, &made, &rest))
            ok = split_node(to, g, n, map, made, rest);
        else
            graph_copy_node(to, g, id, map);
    }
    if (ok)
        graph_finish(to, g, map);
    return ok ? to : NULL;
}
