/* symbols: the dimension symbols of a model in the order of TnArgs.sym.
 *
 * First the symbols that are an input's dimension by themselves, in the order of the signature,
 * since those bind without arithmetic; then all others in types, constraints and kernels, of this
 * graph and of those it runs, whose symbols are their own. Symbols of variants' guards are
 * included.
 */
#include "emit/emit.h"

#include "graph/batch.h"

static void
collect_graph(SymbolSet *s, const Graph *g)
{
    for (ValueId v = 1; v < g->value.n; v++)
        type_symbols(s, g->value.at[v].type);
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        expr_symbols(s, g->constraints.at[i].a);
        expr_symbols(s, g->constraints.at[i].b);
    }
    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        if (n->kernel)
            kernel_symbols(s, n->kernel);
        for (uint32_t v = 0; n->kernel && v < n->kernel->nvariant; v++)
            for (uint32_t i = 0; i < n->kernel->variant[v]->guard.n; i++)
                symbols_add(s, n->kernel->variant[v]->guard.at[i].symbol);
        for (uint32_t i = 0; i < n->nfresh; i++)
            symbols_add(s, n->fresh[i].name);
        for (uint32_t i = 0; n->batch && i < n->batch->type.n; i++)
            type_symbols(s, n->batch->type.at[i]);
        for (uint32_t r = 0; r < n->nregion; r++)
            for (uint32_t i = 0; i < n->region[r].nbind; i++)
                symbols_add(s, var_symbol(n->region[r].bind[i].var));
    }
}

uint32_t
emit_symbols(const Graph *g, Arena *a, const Sym **out)
{
    SymbolSet s = { .seen.arena = a };
    GraphList all = graph_all(g, a);
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Type *t = g->value.at[g->input.at[i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            if (expr_is_var(t->dim[d], NULL))
                expr_symbols(&s, t->dim[d]);
    }
    for (uint32_t i = 0; i < g->input.n; i++)
        type_symbols(&s, g->value.at[g->input.at[i]].type);
    for (uint32_t i = all.n; i-- > 0;)
        collect_graph(&s, all.at[i]);
    *out = s.at;
    return s.n;
}
