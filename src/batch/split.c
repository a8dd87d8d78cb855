/* split: values that are read only by their outermost elements, as control counts.
 *
 * A loop over the steps of a sequence reads, in each step, one element of what was computed for all
 * of them. As one row of the whole, a step's block would depend on the number of steps, and only
 * requests with as many would share it. A split value has a row for each element instead: control
 * finds the row, and the block reads it like any other.
 *
 *     xt = gather(xw, t)          o[i, j] = xw[at(t[], steps), i, j]
 *
 * A value is split if a nest makes it, and nothing reads it but such nests, in a loop or a branch
 * that has it as an input, at integers that the host computes. The nest then disappears.
 */
#include "batch/internal.h"

/* The index, read from input slot `slot`, as it is or wrapped and checked. */
static bool
is_index(const Expr *at, const Type *of, uint32_t slot)
{
    Var v;

    if (!expr_is_var(at, &v) || v.kind != VAR_COMPUTED)
        return false;
    const Scalar *s = computed_scalar(v);
    if (s->op == S_AT && s->u.index != of->dim[0])
        return false; /* its elements are counted otherwise */
    while (s->op == S_AT || (s->op == S_CAST && dtype_is_int(s->arg[0]->dtype)))
        s = s->arg[0];
    return s->op == S_LOAD && s->u.load.slot == slot;
}

/* Is it o[i, …] = x[index, i, …]? */
static bool
is_element(const Batching *b, const Graph *g, const Node *n)
{
    uint32_t first = batch_run_of(b, g)->first;

    if (n->callee != CALL_NEST || n->in.count != 2 || n->out.count != 1 || n->nest->nwrite != 1)
        return false;
    const Nest *nest = n->nest;
    const Write *w = nest->write;
    const Scalar *s = w->value;
    const Type *x = nest->param[BATCH_ELEMENT_OF].type, *o = nest->param[w->out].type;
    ValueId index = node_in(g, n, BATCH_ELEMENT_INDEX);
    const Type *t = g->value.at[index].type;
    if (w->combiner != COMB_NONE || s->op != S_LOAD || s->u.load.outside ||
        s->u.load.slot != BATCH_ELEMENT_OF || x->dtype != o->dtype || x->rank != o->rank + 1 ||
        !is_index(s->u.load.at[0], x, BATCH_ELEMENT_INDEX) || !b->host[first + index] ||
        (t->dtype != DT_I32 && t->dtype != DT_I64) || !expr_is(type_count(b->c, t), 1))
        return false;
    for (uint32_t d = 0; d < o->rank; d++)
        if (expr_eq(b->c, NULL, x->dim[d + 1], o->dim[d]) != YES ||
            (s->u.load.at[d + 1] != w->at[d] &&
             !(expr_is(o->dim[d], 1) && expr_is(s->u.load.at[d + 1], 0))))
            return false;
    return true;
}

static void
lose(Batching *b, uint32_t v)
{
    b->changed |= b->split[v];
    b->split[v] = false;
}

/* A loop's or a branch's own inputs, behind those that control computes. */
static uint32_t
first_captured(const Node *n)
{
    return n->callee == CALL_LOOP ? 2 + n->ncarried : n->callee == CALL_IF ? 1 : n->in.count;
}

static ValueId
captured(const Node *n, const Graph *in, uint32_t k)
{
    return in->input.at[n->callee == CALL_LOOP ? k : k - 1];
}

/* Values that a block for many requests makes, and captured ones. */
static void
begin(Batching *b, const Graph *g, uint32_t first)
{
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        for (uint32_t o = 0; o < n->out.count && n->callee == CALL_NEST; o++) {
            ValueId v = node_out(g, n, o);
            b->split[first + v] = g->value.at[v].type->rank && !b->host[first + v] &&
                                  !b->shared[first + v] && !is_element(b, g, n);
        }
        for (uint32_t r = 0; r < n->nregion; r++)
            for (uint32_t k = first_captured(n); k < n->in.count; k++)
                b->split[batch_value(b, n->region[r].graph, captured(n, n->region[r].graph, k))] =
                    true;
    }
}

/* Removes what is read otherwise. */
static void
see_reads(Batching *b, const Graph *g, uint32_t first)
{
    for (uint32_t i = 0; i < g->output.n; i++)
        lose(b, first + g->output.at[i]);
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        bool element = is_element(b, g, n) && !g->value.at[node_in(g, n, BATCH_ELEMENT_OF)].def;
        for (uint32_t k = element; k < first_captured(n); k++)
            if (node_in(g, n, k))
                lose(b, first + node_in(g, n, k));
    }
}

/* A captured value is split where it is read if it is where it is made. */
static void
meet(Batching *b, const Graph *g, uint32_t first)
{
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        for (uint32_t r = 0; r < n->nregion; r++)
            for (uint32_t k = first_captured(n); k < n->in.count; k++) {
                const Graph *in = n->region[r].graph;
                uint32_t inner = batch_value(b, in, captured(n, in, k)),
                         outer = first + node_in(g, n, k);
                if (b->split[inner] != b->split[outer]) {
                    lose(b, inner);
                    lose(b, outer);
                }
            }
    }
}

void
batch_find_split(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++)
        begin(b, b->all.at[i], b->run[i].first);
    for (uint32_t i = 0; i < b->all.n; i++)
        see_reads(b, b->all.at[i], b->run[i].first);
    do {
        b->changed = false;
        for (uint32_t i = 0; i < b->all.n; i++)
            meet(b, b->all.at[i], b->run[i].first);
    } while (b->changed);
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            if (is_element(b, g, n) && b->split[b->run[i].first + node_in(g, n, BATCH_ELEMENT_OF)])
                b->element[b->run[i].first + node_out(g, n, 0)] = true;
        }
    }
}
