/* symbols: the dimension symbols of a model in the order of TnArgs.sym.
 *
 * First the symbols that are an input's dimension by themselves, in the order of the signature,
 * since those bind without arithmetic; then all others in types, constraints and kernels, of this
 * graph and of those it runs, whose symbols are their own. Symbols of variants' guards are
 * included.
 */
#include "emit/emit.h"

#include "graph/batch.h"

typedef struct {
    Arena *arena;
    Map seen;
    VEC(Sym) list;
} SymbolCollector;

static void
collect(void *user, Var v)
{
    SymbolCollector *k = user;
    if (v.kind != VAR_SYMBOL || map_get(&k->seen, v.id, NULL))
        return;
    map_put(&k->seen, v.id, 1);
    VEC_PUSH(k->arena, &k->list, (Sym)(uintptr_t)v.id);
}

static void
collect_type(SymbolCollector *k, const Type *t, bool bare)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (!bare || expr_is_var(t->dim[d], NULL))
            expr_vars(t->dim[d], collect, k);
}

static void
collect_buffer(SymbolCollector *k, const Buffer *b)
{
    collect_type(k, b->type, false);
    if (b->within)
        collect_type(k, b->within, false);
}

static void
collect_graph(SymbolCollector *k, const Graph *g)
{
    for (ValueId v = 1; v < g->value.n; v++)
        collect_type(k, g->value.at[v].type, false);
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        expr_vars(g->constraints.at[i].a, collect, k);
        expr_vars(g->constraints.at[i].b, collect, k);
    }
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        for (uint32_t b = 0; n->kernel && b < n->kernel->buffer.n; b++)
            collect_buffer(k, &n->kernel->buffer.at[b]);
        for (uint32_t p = 0; n->kernel && p < n->kernel->npart; p++)
            nest_vars(n->kernel->part[p].nest, collect, k);
        for (uint32_t v = 0; n->kernel && v < n->kernel->nvariant; v++)
            for (uint32_t i = 0; i < n->kernel->variant[v]->guard.n; i++)
                collect(k, (Var){ VAR_SYMBOL, MAP_PTR(n->kernel->variant[v]->guard.at[i].symbol) });
        for (uint32_t i = 0; i < n->nfresh; i++)
            collect(k, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[i].name) });
        for (uint32_t i = 0; n->batch && i < n->batch->type.n; i++)
            collect_type(k, n->batch->type.at[i], false);
        for (uint32_t r = 0; r < n->nregion; r++)
            for (uint32_t i = 0; i < n->region[r].nbind; i++)
                collect(k, n->region[r].bind[i].var);
    }
}

uint32_t
emit_symbols(const Graph *g, Arena *a, const Sym **out)
{
    SymbolCollector k = { .arena = a, .seen = { .arena = a } };
    GraphList all = graph_all(g, a);
    for (int bare = 1; bare >= 0; bare--)
        for (uint32_t i = 0; i < g->input.n; i++)
            collect_type(&k, g->value.at[g->input.at[i]].type, bare);
    for (uint32_t i = all.n; i-- > 0;)
        collect_graph(&k, all.at[i]);
    *out = k.list.at;
    return k.list.n;
}
