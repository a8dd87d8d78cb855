/* plan: live ranges, and a place for every value.
 *
 * Nodes run in the graph's order. A value made by a node is alive from that node to its last reader;
 * an output of the graph goes straight to the caller's memory and a constant to the weights, so only
 * the rest needs the arena. An output that may replace a dying input joins its block; pack.c then
 * places the blocks.
 */
#include "plan/internal.h"


static const Expr *
plan_value_bytes(Ctx *c, const Value *v)
{
    const Expr *count = format_count(c, v->format, v->type);

    return expr_simplify(c, NULL, expr_scale(c, count, dtype_info[v->type->dtype].bytes));
}

typedef struct {
    const Graph *g;
    Plan *plan;
    Arena *arena;
    NodeId *last;                    /* by value: the last node that reads it; 0 if none does */
    uint32_t *block;                 /* by value: its block + 1; 0 if it has none */
    ValueId *taker;                  /* by value: what is written over it; 0 if nothing is */
    VEC(PlanBlock) blocks;
} Planner;

static void
find_last_uses(Planner *p)
{
    const Graph *g = p->g;

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            p->last[node_in(g, &g->node.at[n], i)] = n;
}

/* ---- what is not in the arena -------------------------------------------------------------------- */

static void
place_weight(Planner *p, ValueId v)
{
    Placement *place = &p->plan->value[v];
    int64_t bytes;

    if (!p->g->value.at[v].data || place->bytes)
        return;
    place->place = PLACE_WEIGHT;
    place->bytes = plan_value_bytes(p->g->ctx, &p->g->value.at[v]);
    bytes = expr_or(place->bytes, 0);
    place->offset = expr_int(p->g->ctx, p->plan->weights_bytes);
    p->plan->weights_bytes += (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    VEC_PUSH(p->g->arena, &p->plan->weight, v);
}

static void
place_outside(Planner *p)
{
    const Graph *g = p->g;

    for (uint32_t i = 0; i < g->input.n; i++) {
        Placement *place = &p->plan->value[g->input.at[i]];
        *place = (Placement){ .place = PLACE_INPUT, .index = i, .bytes = plan_value_bytes(g->ctx, &g->value.at[g->input.at[i]]) };
    }
    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            place_weight(p, node_in(g, &g->node.at[n], i));
    for (uint32_t i = 0; i < g->output.n; i++) {
        ValueId v = g->output.at[i];
        Placement *place = &p->plan->value[v];
        place_weight(p, v);
        if (g->value.at[v].def && !place->bytes) {
            *place = (Placement){ .place = PLACE_OUTPUT, .index = i, .bytes = plan_value_bytes(g->ctx, &g->value.at[v]) };
            continue;
        }
        VEC_PUSH(g->arena, &p->plan->copy, ((__typeof__(*p->plan->copy.at)){ v, i }));
    }
}

/* ---- the arena ------------------------------------------------------------------------------------- */

/* An input of the node whose block the output may take over: its value, or 0. */
static ValueId
find_dying(Planner *p, NodeId n, uint32_t out)
{
    const Node *node = &p->g->node.at[n];

    for (uint32_t i = 0; i < node->in.count; i++) {
        ValueId v = node_in(p->g, node, i);
        if (p->block[v] && p->last[v] == n && plan_in_place(p->g, p->arena, node, out, v))
            return v;
    }
    return 0;
}

static void
make_blocks(Planner *p)
{
    const Graph *g = p->g;

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].out.count; i++) {
            ValueId v = node_out(g, &g->node.at[n], i);
            Placement *place = &p->plan->value[v];
            if (v == 0 || place->bytes)
                continue;
            place->place = PLACE_ARENA;
            place->bytes = plan_value_bytes(g->ctx, &g->value.at[v]);
            NodeId last = p->last[v] > n ? p->last[v] : n;
            ValueId dying = find_dying(p, n, i);
            if (dying) {
                place->in_place = true;
                p->block[v] = p->block[dying];
                p->blocks.at[p->block[v] - 1].last = last;
                p->block[dying] = 0;                  /* one taker only */
                p->taker[dying] = v;
                continue;
            }
            VEC_PUSH(p->arena, &p->blocks, ((PlanBlock){ .bytes = place->bytes, .first = n, .last = last }));
            p->block[v] = p->blocks.n;
        }
}

/* Offsets from blocks to values. A value whose block was taken over stands where its taker does, which
 * a later node makes: so the walk goes from the last node back. */
static void
spread_offsets(Planner *p)
{
    const Graph *g = p->g;

    for (NodeId n = g->node.n; n-- > 1; )
        for (uint32_t i = 0; i < g->node.at[n].out.count; i++) {
            ValueId v = node_out(g, &g->node.at[n], i);
            Placement *place = &p->plan->value[v];
            if (v == 0 || place->place != PLACE_ARENA)
                continue;
            place->offset = p->block[v] ? p->blocks.at[p->block[v] - 1].offset : p->plan->value[p->taker[v]].offset;
        }
}

Plan *
plan_memory(const Graph *g)
{
    Plan *plan = NEW(g->arena, Plan);
    Planner p = { .g = g, .plan = plan, .arena = g->arena };

    plan->value = NEW_ARRAY(g->arena, Placement, g->value.n);
    p.last = NEW_ARRAY(g->arena, NodeId, g->value.n);
    p.block = NEW_ARRAY(g->arena, uint32_t, g->value.n);
    p.taker = NEW_ARRAY(g->arena, ValueId, g->value.n);
    find_last_uses(&p);
    place_outside(&p);
    make_blocks(&p);
    plan->arena_bytes = plan_place(g->ctx, g->arena, p.blocks.at, p.blocks.n);
    spread_offsets(&p);
    return plan;
}
