/* print: the plan as a table for people. */
#include "plan/internal.h"

#include <inttypes.h>

static const char *
life(Arena *a, const Graph *g, const NodeId *last, ValueId v)
{
    NodeId def = g->value.at[v].def;

    return arena_printf(a, "%u-%u", def, last[v] > def ? last[v] : def);
}

static const char *
where(Ctx *c, Arena *a, const Placement *p)
{
    switch (p->place) {
    case PLACE_INPUT: return arena_printf(a, "input %u", p->index);
    case PLACE_OUTPUT:
        return arena_printf(a, p->offset ? "output %u + %s" : "output %u", p->index,
                            p->offset ? expr_str(c, p->offset) : "");
    case PLACE_WEIGHT: return arena_printf(a, "weights + %s", expr_str(c, p->offset));
    case PLACE_ARENA:
        return arena_printf(a, "arena + %s%s", expr_str(c, p->offset),
                            p->in_place ? "  in place" : "");
    case PLACE_TABLE: return arena_printf(a, "table %u", p->index);
    case PLACE_BLOCK: return arena_printf(a, "block %u", p->index);
    }
    return "";
}

static void
print_plan(Text *t, const Plan *p)
{
    const Graph *g = p->graph;
    NodeId *last = NEW_ARRAY(t->arena, NodeId, g->value.n);

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            last[node_in(g, &g->node.at[n], i)] = n;
    text_printf(t, "  %-20s %-24s %-12s %-9s %s\n", "value", "type", "bytes", "alive", "place");
    for (ValueId v = 1; v < g->value.n; v++) {
        if (!p->value[v].bytes) /* a constant without readers */
            continue;
        text_printf(t, "  %%%-19s %-24s %-12s %-9s %s\n", g->value.at[v].name,
                    type_str(g->ctx, g->value.at[v].type), expr_str(g->ctx, p->value[v].bytes),
                    life(t->arena, g, last, v), where(g->ctx, t->arena, &p->value[v]));
    }
    for (uint32_t i = 0; i < p->copy.n; i++)
        text_printf(t, "  copy %%%s to output %u\n", g->value.at[p->copy.at[i].from].name,
                    p->copy.at[i].output);
    for (NodeId n = 1; n < g->node.n; n++)
        if (g->node.at[n].nregion && g->node.at[n].callee != CALL_BLOCKS)
            text_printf(t, "  what %s runs has %s\n",
                        g->node.at[n].origin ? g->node.at[n].origin : "a node",
                        p->node[n].arena ? arena_printf(t->arena, "arena + %s",
                                                        expr_str(g->ctx, p->node[n].arena))
                                         : "a block");
}

void
plan_print(Text *t, const ModelPlan *m)
{
    for (uint32_t i = 0; i < m->plan.n; i++) {
        const Plan *p = m->plan.at[i];
        text_printf(t, "plan @%s: arena %s bytes", p->graph->name,
                    expr_str(p->graph->ctx, p->arena_bytes));
        if (i == 0)
            text_printf(t, ", weights %" PRId64 " bytes", m->weights_bytes);
        text_add(t, "\n");
        print_plan(t, p);
    }
}
