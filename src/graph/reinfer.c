/* reinfer: infers types again, with everything that the model says about its sizes.
 *
 * A shape rule may require something that nodes before it could have used. A sum of scores [past +
 * seq] and a mask [total] has broadcast(past + seq, total) columns; only two nodes later it turns
 * out that they are multiplied with past + seq rows. So all rules run again until they learn
 * nothing new. Runs need not check what is proved by then.
 */
#include "graph/internal.h"

/* A bound on the work. Each round expresses at least one size by others, and there are few of
 * them. */
enum { MOST_ROUNDS = 8 };

static bool
has_open(const Graph *g)
{
    for (uint32_t i = 0; i < g->constraints.n; i++)
        if (g->constraints.at[i].rule != SIZES_EQUAL)
            return true;
    return false;
}

static bool
infer_node(Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    const Type **type = NEW_ARRAY(g->arena, const Type *, n->out.count + 1);
    OpCall call = graph_op_call(g, g->arena, id);

    call.constraints = &g->constraints;
    if (n->callee == CALL_OP && !op_infer(g->ctx, &call, type))
        return false;
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        if (v)
            g->value.at[v].type =
                n->callee == CALL_OP ? type[i] : type_simplify(g->ctx, g->value.at[v].type);
    }
    if (n->callee == CALL_OP && n->out.count && node_out(g, n, 0))
        g->value.at[node_out(g, n, 0)].known = known_of_op(g, id);
    for (uint32_t i = 0; i < n->nregion; i++)
        for (uint32_t k = 0; k < n->region[i].nbind; k++)
            n->region[i].bind[k].to = expr_simplify(g->ctx, NULL, n->region[i].bind[k].to);
    for (uint32_t i = 0; i < n->nfresh; i++)
        if (n->fresh[i].most)
            n->fresh[i].most = expr_simplify(g->ctx, NULL, n->fresh[i].most);
    return true;
}

static bool
infer_all(const GraphList *list)
{
    for (uint32_t i = list->n; i-- > 0;) /* callers before callees */
        for (NodeId id = 1; id < list->at[i]->node.n; id++)
            if (!infer_node(list->at[i], id))
                return false;
    return true;
}

static void
drop_proved(Graph *g)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < g->constraints.n; i++) {
        Constraint k = g->constraints.at[i];
        if (k.rule == SIZES_EQUAL || expr_eq(g->ctx, NULL, k.a, k.b) != YES)
            g->constraints.at[left++] = k;
    }
    g->constraints.n = left;
}

bool
graph_reinfer(Graph *all)
{
    GraphList list = graph_all(all, all->arena);
    Ctx *c = all->ctx;
    bool open = false, learnt = true;

    for (uint32_t i = 0; i < list.n; i++)
        open |= has_open(list.at[i]);
    for (int round = 0; open && learnt && round < MOST_ROUNDS; round++) {
        uint32_t before = expr_learnt(c);
        if (!infer_all(&list))
            return false;
        learnt = expr_learnt(c) != before;
    }
    for (uint32_t i = 0; open && i < list.n; i++)
        drop_proved(list.at[i]);
    return true;
}

/* ---- inputs of one size ---------------------------------------------------------------------- */

/* Is each symbol in the type of an input, or defined by a node? */
static bool
is_told(const Graph *g, const Map *definer, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_SYMBOL && !map_get(definer, v.id, NULL) && !graph_is_given(g, v))
            return false;
    return true;
}

/* Constraints over symbols that no input has any more are expressed by symbols that inputs have, or
 * follow from their types and are dropped. */
static void
require_of_inputs(Graph *g)
{
    Map definer = graph_definers(g, g->arena);
    uint32_t left = 0;

    for (uint32_t i = 0; i < g->constraints.n; i++) {
        Constraint k = g->constraints.at[i];
        bool lost = !is_told(g, &definer, k.a) || !is_told(g, &definer, k.b);
        if (lost) {
            k.a = expr_simplify(g->ctx, NULL, k.a);
            k.b = expr_simplify(g->ctx, NULL, k.b);
            k.said = NULL;
        }
        if (!lost || k.a != k.b)
            g->constraints.at[left++] = k;
    }
    g->constraints.n = left;
}

/* The dimension along which an input grows as a state, whose length a session knows. Its rank if
 * there is none, or it is no state. */
static uint32_t
growing(const Graph *g, uint32_t input)
{
    uint32_t dim;

    for (uint32_t i = 0; i < g->state.n; i++)
        if (g->state.at[i].input == input && graph_state_grows(g, &g->state.at[i], &dim))
            return dim;
    return g->value.at[g->input.at[input]].type->rank;
}

bool
graph_unify_inputs(Graph *g)
{
    const Expr *dim[TN_MAX_RANK];
    bool changed = false;

    for (uint32_t i = 0; i < g->input.n; i++) {
        Value *v = &g->value.at[g->input.at[i]];
        uint32_t grows = growing(g, i);
        for (uint32_t d = 0; d < v->type->rank; d++)
            dim[d] = d == grows ? v->type->dim[d] : expr_simplify(g->ctx, NULL, v->type->dim[d]);
        const Type *t = type_new(g->ctx, v->type->dtype, v->type->rank, dim);
        changed |= t != v->type;
        v->type = t;
    }
    GraphList list = graph_all(g, g->arena);
    if (!changed)
        return true;
    if (!infer_all(&list))
        return false;
    require_of_inputs(g);
    return true;
}
