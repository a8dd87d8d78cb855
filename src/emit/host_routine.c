/* host_routine: calls of library routines, and their sources.
 *
 * A call passes its arrays with their sizes; the routine's own plan tells at run time how it is
 * divided and how much scratch it needs. It has a number among the kernels, so profiles and faults
 * name it.
 */
#include "emit/host.h"

#include "routine/routine.h"

bool
host_is_routine(const Graph *g, NodeId id)
{
    return g->node.at[id].callee == CALL_OP;
}

static void
print_array(ProgramPrinter *p, ValueId v, uint32_t at)
{
    Text *t = &p->parts.body;
    const Type *type = v ? p->g->value.at[v].type : NULL;

    if (!type) {
        text_add(t, "            {0, 0, 0, 0},\n");
        return;
    }
    text_printf(t, "            {%s, '%c', %u, dim%u},    /* %%", program_place(p, v),
                routine_type(type->dtype), type->rank, at);
    text_comment(t, p->g->value.at[v].name);
    text_add(t, " */\n");
}

static void
print_dims(ProgramPrinter *p, ValueId v, uint32_t at)
{
    const Type *type = v ? p->g->value.at[v].type : NULL;
    Text *t = &p->parts.body;

    if (!type)
        return;
    text_printf(t, "        const int64_t dim%u[] = {", at);
    for (uint32_t d = 0; d < type->rank; d++)
        text_printf(t, "%s, ", host_plain(p->h, type->dim[d]));
    text_add(t, "0};\n");
}

void
host_routine(ProgramPrinter *p, NodeId id)
{
    const Node *n = &p->g->node.at[id];
    const OpInfo *info = &op_info[n->op];
    OpCall call = graph_op_call(p->g, p->h->a, id);
    const Foreign *foreign = op_foreign(p->h->c, &call);
    uint32_t first_out = foreign ? n->in.count : info->max_in,
             all = first_out + (foreign ? n->out.count : info->max_out);
    ValueId *value = NEW_ARRAY(p->h->a, ValueId, all);
    Text *t = &p->parts.body;

    program_memory(p, id);
    program_statement(p);
    for (uint32_t i = 0; i < n->in.count; i++)
        value[i] = node_in(p->g, n, i);
    for (uint32_t i = 0; i < n->out.count; i++)
        value[first_out + i] = node_out(p->g, n, i);
    text_add(t, "    {\n");
    for (uint32_t i = 0; i < all; i++)
        print_dims(p, value[i], i);
    text_add(t, "        const TnArray array[] = {\n");
    for (uint32_t i = 0; i < all; i++)
        print_array(p, value[i], i);
    text_add(t, "        };\n");
    if (foreign) {
        text_printf(t, "        code = tn_foreign(f, %u, %s, %u, array);\n", p->nrow,
                    foreign->function, all);
    } else {
        const double *attr;
        uint32_t nattr = op_numbers(&call, p->h->a, &attr);
        text_add(t, "        const double attr[] = {");
        for (uint32_t i = 0; i < nattr; i++)
            text_printf(t, "%.17g, ", attr[i]);
        text_printf(t, "0};\n        code = tn_routine(f, %u, tn_%s, tn_%s_plan, array, attr);\n",
                    p->nrow, info->name, routine_named(info->name)->plan_name);
    }
    text_add(t, "        if (code)\n            return code;\n    }\n");
    p->run_row = ++p->nrow;
}

/* A call of a function of the user's: it is declared once. */
static bool
is_foreign(Host *h, const Graph *g, NodeId id, Map *declared, Text *functions)
{
    OpCall call = graph_op_call(g, h->a, id);
    const Foreign *f = op_foreign(h->c, &call);

    if (f && !map_get(declared, MAP_PTR(f->function), NULL)) {
        map_put(declared, MAP_PTR(f->function), 1);
        text_printf(functions, "extern TnFunction %s;\n", f->function);
    }
    return f != NULL;
}

void
host_routine_sources(Host *h)
{
    uint64_t used = 0;
    Map declared = { .arena = h->a };
    Text functions = { .arena = h->a };

    for (uint32_t i = 0; i < h->p->plan->plan.n; i++) {
        const Graph *g = h->p->plan->plan.at[i]->graph;
        for (NodeId id = 1; id < g->node.n; id++)
            if (host_is_routine(g, id) && !is_foreign(h, g, id, &declared, &functions))
                used |= routine_named(op_info[g->node.at[id].op].name)->files;
    }
    if (functions.n)
        text_printf(h->t, "%s%s", text_str(&functions),
#include "prelude_foreign_text.h"
        );
    if (!used)
        return;
    text_add(h->t, routine_common());
    text_printf(h->t, "#define TN_TEXT_OF %s\n", h->texts ? "tn_text" : "0");
    text_add(h->t,
#include "prelude_routine_text.h"
    );
    for (uint32_t i = 0; i < ROUTINE_FILES; i++)
        if (used >> i & 1)
            text_add(h->t, routine_source(i));
    text_add(h->t, "\n");
}
