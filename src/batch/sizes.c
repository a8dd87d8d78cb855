/* sizes: which symbols follow from the sizes of a request's inputs, and which only control
 * determines.
 *
 * A symbol of a branch, a body or a function is resolved, expressed by symbols of the model's
 * inputs, if all callers bind it to the same such expression. Otherwise it is late: what a node
 * defines, what changes between iterations, what a function has in several sizes, and what follows
 * from such symbols. Late symbols are the least fixed point of these rules.
 */
#include "batch/internal.h"

bool
batch_is_late(const Batching *b, Var v)
{
    return map_get(&b->late_at, v.id, NULL);
}

static void
set_late(Batching *b, Var v)
{
    if (batch_is_late(b, v))
        return;
    map_put(&b->late_at, v.id, b->made->late.n);
    VEC_PUSH(b->to, &b->made->late, v);
    b->changed = true;
}

const Expr *
batch_outside(const Batching *b, const Expr *e)
{
    for (uint32_t s = 0; s < b->made->size.n; s++)
        e = expr_subst(b->c, e, &b->made->size.at[s], 1);
    return e;
}

const Expr *
batch_resolved(const Batching *b, const Expr *e)
{
    return expr_simplify(b->c, NULL, batch_outside(b, e));
}

static void
resolve(Batching *b, const Binding *bind)
{
    const Expr *is = batch_resolved(b, bind->to);
    bool late = false;
    uint32_t k = 0;

    FOR_EACH_VARIABLE (v, is)
        late |= v.kind == VAR_SYMBOL && batch_is_late(b, v);
    while (k < b->made->size.n && b->made->size.at[k].var.id != bind->var.id)
        k++;
    if (late || (k < b->made->size.n && b->made->size.at[k].to != is))
        set_late(b, bind->var);
    else if (k == b->made->size.n)
        VEC_PUSH(b->to, &b->made->size, ((Binding){ bind->var, is }));
}

/* If an iteration changes the size of a carried value, that size is late. */
static void
find_changing(Batching *b, const Node *n)
{
    const Graph *body = n->region[0].graph;
    Var v;

    for (uint32_t i = 0; i < n->ncarried; i++) {
        const Type *in = body->value.at[body->input.at[2 + i]].type;
        const Type *out = body->value.at[body->output.at[1 + i]].type;
        for (uint32_t d = 0; d < in->rank; d++)
            if (in->dim[d] != out->dim[d] && expr_is_var(in->dim[d], &v) && v.kind == VAR_SYMBOL)
                set_late(b, v);
    }
}

static void
find_of_node(Batching *b, const Node *n)
{
    for (uint32_t f = 0; f < n->nfresh; f++)
        set_late(b, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[f].name) });
    if (n->callee == CALL_LOOP)
        find_changing(b, n);
    for (uint32_t r = 0; r < n->nregion; r++)
        for (uint32_t k = 0; k < n->region[r].nbind; k++)
            if (!batch_is_late(b, n->region[r].bind[k].var))
                resolve(b, &n->region[r].bind[k]);
}

void
batch_find_sizes(Batching *b)
{
    do {
        b->changed = false;
        b->made->size.n = 0;
        for (uint32_t i = b->all.n; i-- > 0;) /* callers first */
            for (NodeId id = 1; id < b->all.at[i]->node.n; id++)
                find_of_node(b, &b->all.at[i]->node.at[id]);
    } while (b->changed);
}
