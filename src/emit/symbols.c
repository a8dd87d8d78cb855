/* symbols: the dimension symbols of a graph in the order of TnArgs.sym.
 *
 * First those that stand alone in an input's dimension, in the order of the signature, since those
 * bind without arithmetic; then whatever else appears in types, constraints, kernels.
 */
#include "emit/emit.h"

typedef struct { Arena *arena; Map seen; VEC(Sym) list; } Collect;

static void
collect(void *user, Var v)
{
    Collect *k = user;
    if (v.kind != VAR_SYMBOL || map_get(&k->seen, v.id, NULL))
        return;
    map_put(&k->seen, v.id, 1);
    VEC_PUSH(k->arena, &k->list, (Sym)(uintptr_t)v.id);
}

static void
collect_type(Collect *k, const Type *t, bool bare)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (!bare || expr_is_var(t->dim[d], NULL))
            expr_vars(t->dim[d], collect, k);
}

uint32_t
emit_symbols(const Graph *g, Arena *a, const Sym **out)
{
    Collect k = {.arena = a, .seen = {.arena = a}};
    for (int bare = 1; bare >= 0; bare--)
        for (uint32_t i = 0; i < g->input.n; i++)
            collect_type(&k, g->value.at[g->input.at[i]].type, bare);
    for (ValueId v = 1; v < g->value.n; v++)
        collect_type(&k, g->value.at[v].type, false);
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        expr_vars(g->constraints.at[i].a, collect, &k);
        expr_vars(g->constraints.at[i].b, collect, &k);
    }
    for (NodeId n = 1; n < g->node.n; n++) {
        const Kernel *kernel = g->node.at[n].callee == CALL_KERNEL ? g->node.at[n].kernel : NULL;
        for (uint32_t b = 0; kernel && b < kernel->buffer.n; b++)
            collect_type(&k, kernel->buffer.at[b].type, false);
    }
    *out = k.list.at;
    return k.list.n;
}
