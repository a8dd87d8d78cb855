/* branch: which inputs only one branch of the model reads.
 *
 * Dimensions of several inputs with the same name are equal. Exporters join a decoder without a
 * cache and one with it under an If. Then the cache is empty in the first step, whatever its
 * dimensions are called. So a name stands for one size among inputs that are read in the same
 * branch, or outside of all branches; if a branch combines two such sizes, runs check that they are
 * equal. States count as read outside of all branches: sessions make them, and callers cannot pass
 * other sizes.
 */
#include "import/call.h"

#include <string.h>

enum { ANYWHERE = 1 }; /* otherwise the address of the attribute that holds the branch */

static void
mark(Model *m, Map *read, const char *name, uint64_t where)
{
    uint64_t before = 0;

    if (*name) {
        map_get(read, MAP_PTR(sym(m->c, name)), &before);
        map_put(read, MAP_PTR(sym(m->c, name)), before && before != where ? ANYWHERE : where);
    }
}

/* All names in g; reading the file has bounded the depth. */
static void
mark_graph(Model *m, Map *read, const OnnxGraph *g, uint64_t where)
{
    for (size_t i = 0; i < g->n_output; i++)
        mark(m, read, g->output[i]->name, where);
    for (size_t i = 0; i < g->n_node; i++) {
        const OnnxNode *n = g->node[i];
        bool branches = !strcmp(n->op_type, "If") && where == ANYWHERE;
        for (size_t k = 0; k < n->n_input; k++)
            mark(m, read, n->input[k], where);
        for (size_t k = 0; k < n->n_attribute; k++) {
            const OnnxAttribute *a = n->attribute[k];
            if (a->g)
                mark_graph(m, read, a->g, branches ? (uint64_t)(uintptr_t)a : where);
            for (size_t j = 0; j < a->n_graphs; j++)
                mark_graph(m, read, a->graphs[j], where);
        }
    }
}

void
branch_inputs(Model *m)
{
    bool any = false;

    m->branch = m->divided = (Map){ .arena = m->arena };
    for (size_t i = 0; i < m->from->n_node && !any; i++)
        any = !strcmp(m->from->node[i]->op_type, "If");
    if (!any)
        return;
    mark_graph(m, &m->branch, m->from, ANYWHERE);
    Map read = { .arena = m->arena };
    for (size_t i = 0; i < m->from->n_input; i++) {
        const OnnxValueInfo *v = m->from->input[i];
        const OnnxTensorType *t = tensor_type(v->type);
        uint64_t where = ANYWHERE, before = 0;
        if (m->is_state && m->is_state(m->user, v->name))
            map_put(&m->branch, MAP_PTR(sym(m->c, v->name)), ANYWHERE);
        map_get(&m->branch, MAP_PTR(sym(m->c, v->name)), &where);
        for (size_t d = 0; t && t->shape && d < t->shape->n_dim; d++) {
            const char *name = shared_dim_name(t->shape->dim[d]);
            if (!name)
                continue;
            if (map_get(&read, MAP_PTR(sym(m->c, name)), &before) && before != where)
                map_put(&m->divided, MAP_PTR(sym(m->c, name)), 1);
            map_put(&read, MAP_PTR(sym(m->c, name)), where);
        }
    }
}

const Expr *
branch_size(Model *m, const char *input, const Expr *dim)
{
    uint64_t where;
    Var var;

    if (!expr_is_var(dim, &var) || !map_get(&m->divided, var.id, NULL) ||
        !map_get(&m->branch, MAP_PTR(sym(m->c, input)), &where) || where == ANYWHERE)
        return dim;
    const OnnxAttribute *branch = (const OnnxAttribute *)(uintptr_t)where;
    return expr_symbol(
        m->c, arena_printf(m->arena, "%s.%s", (const char *)(uintptr_t)var.id, branch->name));
}
