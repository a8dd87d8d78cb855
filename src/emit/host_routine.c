/* host_routine: calls of routines, and their sources.
 *
 * A call hands over its arrays with their sizes; how it is divided and how much scratch it needs, the routine's own
 * plan says as the program runs. It has a number among the kernels, so profiles and faults name it.
 */
#include "emit/host.h"

#include "routine/routine.h"

bool
host_is_routine(const Graph *g, NodeId id)
{
    return g->node.at[id].callee == CALL_OP;
}

static void
print_array(Program *p, ValueId v, uint32_t at)
{
    Text *t = &p->parts.body;
    const Type *type = v ? p->g->value.at[v].type : NULL;

    if (!type) {
        text_add(t, "            {0, 0, 0, 0},\n");
        return;
    }
    text_printf(t, "            {%s, '%c', %u, dim%u},    /* %%", program_place(p, v), routine_type(type->dtype), type->rank, at);
    host_comment(t, p->g->value.at[v].name);
    text_add(t, " */\n");
}

static void
print_dims(Program *p, ValueId v, uint32_t at)
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
host_routine(Program *p, NodeId id)
{
    const Node *n = &p->g->node.at[id];
    const OpInfo *info = &op_info[n->op];
    uint32_t all = info->max_in + info->max_out;
    OpCall call = graph_op_call(p->g, p->h->a, id);
    const double *attr;
    uint32_t nattr = op_numbers(&call, p->h->a, &attr);
    ValueId *value = NEW_ARRAY(p->h->a, ValueId, all);
    Text *t = &p->parts.body;

    program_memory(p, id);
    program_statement(p);
    for (uint32_t i = 0; i < n->in.count; i++)
        value[i] = node_in(p->g, n, i);
    for (uint32_t i = 0; i < n->out.count; i++)
        value[info->max_in + i] = node_out(p->g, n, i);
    text_add(t, "    {\n");
    for (uint32_t i = 0; i < all; i++)
        print_dims(p, value[i], i);
    text_add(t, "        const TnArray array[] = {\n");
    for (uint32_t i = 0; i < all; i++)
        print_array(p, value[i], i);
    text_add(t, "        };\n        const double attr[] = {");
    for (uint32_t i = 0; i < nattr; i++)
        text_printf(t, "%.17g, ", attr[i]);
    text_printf(t, "0};\n        if ((code = tn_routine(f, %u, tn_%s, tn_%s_plan, array, attr)))\n            return code;\n    }\n",
                p->nrow, info->name, info->name);
    p->run_row = ++p->nrow;
}

void
host_routine_sources(Host *h)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < h->p->plan->plan.n; i++) {
        const Graph *g = h->p->plan->plan.at[i]->graph;
        for (NodeId id = 1; id < g->node.n; id++)
            if (host_is_routine(g, id))
                used |= routine_named(op_info[g->node.at[id].op].name)->files;
    }
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
