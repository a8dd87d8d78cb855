/* plan: live ranges, and a place for every value.
 *
 * Nodes run in the graph's order. A value is live from the node that makes it to its last reader;
 * an output of the graph is in the caller's memory and a constant among the weights, so only the
 * rest needs the arena. An output that may replace a dying input joins its block; pack.c then
 * places the blocks.
 *
 * The memory of a graph that a node runs is one more block, live at that node.
 */
#include "plan/internal.h"

static const Expr *
plan_value_bytes(Ctx *c, const Value *v)
{
    const Expr *count = format_count(c, v->format, v->type);

    return expr_simplify(c, NULL, expr_scale(c, count, dtype_info[v->type->dtype].bytes));
}

/* A block live at one node: its number is recorded, since offsets are computed later. */
/* carried UINT32_MAX: the memory of the graph that the node runs */
typedef struct {
    NodeId node;
    uint32_t carried;
    uint32_t block;
} NodeBlock;

typedef struct {
    const Graph *g;
    ModelPlan *model;
    Plan *plan;
    Arena *arena;
    Map definer;     /* of symbols */
    NodeId *last;    /* by value: the last node that reads it; 0: none */
    uint32_t *block; /* by value: its block + 1; 0: none */
    ValueId *taker;  /* by value: the value written over it; 0: none */
    /* by value: the value that it is within, itself if others are within it; 0: neither */
    ValueId *whole;
    const Expr **at; /* by value: its offset within that [bytes]; NULL: none */
    /* by value: the last node that reads it or a value within it */
    NodeId *end;
    VEC(PlanBlock) blocks;
    VEC(NodeBlock) node_block;
    /* by number of a block allocated at run time: the node after which it is free again */
    VEC(NodeId) heap;
} Planner;

/* A size that data decide is planned at its bound only if that takes at most this with all open
 * sizes 1: a bound that is a constant of the model (a loop's largest trip count, 2^63 - 1) does not
 * measure the data. Every machine has this much, and a larger value is worth an allocation.
 * [bytes] */
enum { AHEAD_MOST = 1 << 20 };

static bool
size_is_1(void *user, Var v, int64_t *out)
{
    (void)user, (void)v;
    *out = 1;
    return true;
}

static const Expr *
bound_at_entry(const Planner *p, const Expr *e)
{
    const Expr *most = graph_bound(p->g, &p->definer, e);
    int64_t bytes;

    return !most || most == e || (expr_eval(most, size_is_1, NULL, &bytes) && bytes <= AHEAD_MOST)
               ? most
               : NULL;
}

static bool
dims_have_bounds(const Planner *p, const Type *t)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (!graph_bound(p->g, &p->definer, t->dim[d]))
            return false;
    return true;
}

static void
find_last_uses(Planner *p)
{
    const Graph *g = p->g;

    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            p->last[node_in(g, &g->node.at[n], i)] = n;
}

/* ---- what is not in the arena ---------------------------------------------------------------- */

static bool
same_weight(const Value *a, const Value *b)
{
    return a->data == b->data && a->type == b->type && format_same(a->format, b->format);
}

/* Constants of equal content, type and format have one place, whichever graphs read them. */
static void
place_weight(Planner *p, ValueId v)
{
    const Value *value = &p->g->value.at[v];
    Placement *place = &p->plan->value[v];
    ModelPlan *m = p->model;

    if (!value->data || place->bytes)
        return;
    *place = (Placement){ .place = PLACE_WEIGHT, .bytes = plan_value_bytes(p->g->ctx, value) };
    if (value->type->dtype == DT_STR) {
        place->place = PLACE_TABLE;
        for (place->index = 0; place->index < m->table.n; place->index++)
            if (same_weight(m->table.at[place->index], value))
                return;
        VEC_PUSH(p->g->arena, &m->table, value);
        return;
    }
    for (uint32_t i = 0; i < m->weight.n; i++)
        if (same_weight(m->weight.at[i].value, value)) {
            place->offset = expr_int(p->g->ctx, m->weight.at[i].offset);
            return;
        }
    place->offset = expr_int(p->g->ctx, m->weights_bytes);
    VEC_PUSH(p->g->arena, &m->weight, ((PlacedWeight){ value, m->weights_bytes }));
    m->weights_bytes += (expr_or(place->bytes, 0) + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* A part of a join that is an output of the graph is made in its place there, behind the parts in
 * front of it. */
static void
place_joined(Planner *p, const Node *n)
{
    const Graph *g = p->g;
    const Placement *whole = &p->plan->value[node_out(g, n, 0)];
    const Expr *offset = expr_int(g->ctx, 0);

    for (uint32_t i = 0; i < n->in.count; i++) {
        const Value *v = &g->value.at[node_in(g, n, i)];
        Placement *place = &p->plan->value[node_in(g, n, i)];
        const Expr *bytes = plan_value_bytes(g->ctx, v);
        if (whole->place == PLACE_OUTPUT && whole->bytes && !whole->offset && v->def &&
            !place->bytes && bound_at_entry(p, bytes) == bytes)
            *place = (Placement){
                .place = PLACE_OUTPUT, .index = whole->index, .offset = offset, .bytes = bytes
            };
        offset = expr_add(g->ctx, offset, bytes);
    }
}

/* Which values are within which, and at which offset. */
static void
find_wholes(Planner *p)
{
    const Graph *g = p->g;
    Ctx *c = g->ctx;

    p->whole = graph_wholes(g, p->arena);
    p->at = NEW_ARRAY(p->arena, const Expr *, g->value.n);
    p->end = NEW_ARRAY(p->arena, NodeId, g->value.n);
    for (NodeId n = g->node.n; n-- > 1;) {
        const Node *join = &g->node.at[n];
        ValueId whole = join->along ? node_out(g, join, 0) : 0;
        for (uint32_t i = 0; whole && i < join->in.count; i++) {
            const Expr *at = expr_scale(c, graph_offset(g, join, i),
                                        dtype_info[g->value.at[whole].type->dtype].bytes);
            p->at[node_in(g, join, i)] = p->at[whole] ? expr_add(c, p->at[whole], at) : at;
        }
    }
    for (ValueId v = 1; v < g->value.n; v++)
        if (p->whole[v])
            p->whole[p->whole[v]] = p->whole[v];
}

/* Values within an output of the graph. */
static void
place_within(Planner *p, ValueId v)
{
    const Placement *whole = &p->plan->value[p->whole[v]];
    Ctx *c = p->g->ctx;

    if (p->at[v] && whole->place == PLACE_OUTPUT && whole->bytes)
        p->plan->value[v] =
            (Placement){ .place = PLACE_OUTPUT,
                         .index = whole->index,
                         .bytes = plan_value_bytes(c, &p->g->value.at[v]),
                         .offset =
                             whole->offset ? expr_add(c, whole->offset, p->at[v]) : p->at[v] };
}

static void
place_outside(Planner *p)
{
    const Graph *g = p->g;

    for (uint32_t i = 0; i < g->input.n; i++) {
        Placement *place = &p->plan->value[g->input.at[i]];
        *place = (Placement){ .place = PLACE_INPUT,
                              .index = i,
                              .bytes = plan_value_bytes(g->ctx, &g->value.at[g->input.at[i]]) };
    }
    for (NodeId n = 1; n < g->node.n; n++)
        for (uint32_t i = 0; i < g->node.at[n].in.count; i++)
            place_weight(p, node_in(g, &g->node.at[n], i));
    p->plan->made = NEW_ARRAY(g->arena, bool, g->output.n + 1);
    for (uint32_t i = 0; i < g->output.n; i++) {
        ValueId v = g->output.at[i];
        Placement *place = &p->plan->value[v];
        const Expr *bytes = plan_value_bytes(g->ctx, &g->value.at[v]);
        place_weight(p, v);
        /* the characters of strings leave the model with their addresses */
        bool text = p->g == p->model->plan.at[0]->graph && g->value.at[v].type->dtype == DT_STR;
        p->plan->made[i] =
            text || !bound_at_entry(p, bytes) || !dims_have_bounds(p, g->value.at[v].type);
        if (g->value.at[v].def && !place->bytes && !p->plan->made[i]) {
            *place = (Placement){ .place = PLACE_OUTPUT, .index = i, .bytes = bytes };
            continue;
        }
        VEC_PUSH(g->arena, &p->plan->copy, ((__typeof__(*p->plan->copy.at)){ v, i }));
    }
    for (NodeId n = 1; n < g->node.n; n++)
        if (g->node.at[n].callee == CALL_JOIN && !g->node.at[n].along)
            place_joined(p, &g->node.at[n]);
    for (ValueId v = 1; v < g->value.n; v++)
        place_within(p, v);
}

/* ---- the arena ------------------------------------------------------------------------------- */

/* An input of the node whose block the output may take over; 0: none. */
static ValueId
find_dying(Planner *p, NodeId n, uint32_t out)
{
    const Node *node = &p->g->node.at[n];

    for (uint32_t i = 0; i < node->in.count; i++) {
        ValueId v = node_in(p->g, node, i);
        if (p->block[v] && p->last[v] == n && !p->whole[v] &&
            plan_in_place(p->g, p->arena, node, out, v))
            return v;
    }
    return 0;
}

/* The number of a block that is free while nodes `n` to `last` run. */
static uint32_t
heap_block(Planner *p, NodeId n, NodeId last)
{
    for (uint32_t i = 0; i < p->heap.n; i++)
        if (p->heap.at[i] < n) {
            p->heap.at[i] = last;
            return i;
        }
    VEC_PUSH(p->arena, &p->heap, last);
    return p->heap.n - 1;
}

static void
add_block(Planner *p, const Expr *bytes, NodeId first, NodeId last)
{
    VEC_PUSH(p->arena, &p->blocks, ((PlanBlock){ .bytes = bytes, .first = first, .last = last }));
}

/* The symbols of a region whose values differ from iteration to iteration. */
static bool
changes(const Node *n, Var symbol)
{
    const Graph *body = n->region[0].graph;

    for (uint32_t i = 0; n->callee == CALL_LOOP && i < n->ncarried; i++) {
        const Type *t = body->value.at[body->input.at[2 + i]].type;
        for (uint32_t d = 0; d < t->rank; d++) {
            Var v;
            if (expr_is_var(t->dim[d], &v) && v.id == symbol.id)
                return body->value.at[body->output.at[1 + i]].type->dim[d] != t->dim[d];
        }
    }
    return false;
}

static bool
any_changes(const Node *n, const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (changes(n, v))
            return true;
    return false;
}

/* The memory of the graph that a node runs, if its size is known when this graph begins; otherwise
 * NULL. */
static const Expr *
region_bytes(Planner *p, const Node *n)
{
    Ctx *c = p->g->ctx;
    const Expr *most = expr_int(c, 0);

    for (uint32_t r = 0; r < n->nregion; r++) {
        const Plan *inner = plan_of(p->model, n->region[r].graph);
        if (!inner || !inner->arena_bytes || n->callee == CALL_GRAPH)
            return NULL;
        const Expr *bytes =
            any_changes(n, inner->arena_bytes)
                ? NULL
                : expr_subst(c, inner->arena_bytes, n->region[r].bind, n->region[r].nbind);
        bytes = bytes ? bound_at_entry(p, bytes) : NULL;
        if (!bytes)
            return NULL;
        most = expr_max(c, most, bytes);
    }
    return expr_simplify(c, NULL, most);
}

static void
add_node_blocks(Planner *p, NodeId id)
{
    const Graph *g = p->g;
    const Node *n = &g->node.at[id];
    NodeMemory *m = &p->plan->node[id];

    if (!n->nregion || n->callee == CALL_BLOCKS)
        return;
    const Expr *bytes = region_bytes(p, n);
    if (bytes) {
        add_block(p, bytes, id, id);
        VEC_PUSH(p->arena, &p->node_block, ((NodeBlock){ id, UINT32_MAX, p->blocks.n - 1 }));
    }
    m->other = NEW_ARRAY(g->arena, const Expr *, n->ncarried + 1);
    for (uint32_t i = 0; i < n->ncarried; i++) {
        ValueId v = node_out(g, n, i);
        const Expr *other = v ? bound_at_entry(p, plan_value_bytes(g->ctx, &g->value.at[v])) : NULL;
        bool changing = false;
        const Type *t = n->region[0].graph->value.at[n->region[0].graph->input.at[2 + i]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            changing |= any_changes(n, t->dim[d]);
        if (!other || changing)
            continue;
        add_block(p, other, id, id);
        VEC_PUSH(p->arena, &p->node_block, ((NodeBlock){ id, i, p->blocks.n - 1 }));
    }
}

/* The block of a value that others are within: live from the first of them that is made to the last
 * that is read. */
static uint32_t
block_of_whole(Planner *p, NodeId n, ValueId whole)
{
    const Value *v = &p->g->value.at[whole];

    if (p->block[whole])
        return p->block[whole];
    add_block(p, plan_value_bytes(p->g->ctx, v), n,
              p->end[whole] > v->def ? p->end[whole] : v->def);
    return p->block[whole] = p->blocks.n;
}

static void
make_blocks(Planner *p)
{
    const Graph *g = p->g;

    for (NodeId n = 1; n < g->node.n; n++) {
        add_node_blocks(p, n);
        for (uint32_t i = 0; i < g->node.at[n].out.count; i++) {
            ValueId v = node_out(g, &g->node.at[n], i);
            Placement *place = &p->plan->value[v];
            if (v == 0 || place->bytes)
                continue;
            place->place = PLACE_ARENA;
            place->bytes = plan_value_bytes(g->ctx, &g->value.at[v]);
            if (p->whole[v]) {
                p->block[v] = block_of_whole(p, n, p->whole[v]);
                continue;
            }
            NodeId last = p->last[v] > n ? p->last[v] : n;
            if (!bound_at_entry(p, place->bytes)) {
                place->place = PLACE_BLOCK;
                place->index = heap_block(p, n, last);
                continue;
            }
            place->bytes = bound_at_entry(p, place->bytes);
            ValueId dying = find_dying(p, n, i);
            if (dying) {
                place->in_place = true;
                p->block[v] = p->block[dying];
                p->blocks.at[p->block[v] - 1].last = last;
                p->block[dying] = 0; /* one taker only */
                p->taker[dying] = v;
                continue;
            }
            add_block(p, place->bytes, n, last);
            p->block[v] = p->blocks.n;
        }
    }
}

/* Offsets of values from those of blocks. A value whose block was taken over is where its taker is,
 * which a later node makes: so the walk goes from the last node back. */
static void
spread_offsets(Planner *p)
{
    const Graph *g = p->g;

    for (NodeId n = g->node.n; n-- > 1;)
        for (uint32_t i = 0; i < g->node.at[n].out.count; i++) {
            ValueId v = node_out(g, &g->node.at[n], i);
            Placement *place = &p->plan->value[v];
            if (v == 0 || place->place != PLACE_ARENA)
                continue;
            place->offset = p->block[v] ? p->blocks.at[p->block[v] - 1].offset
                                        : p->plan->value[p->taker[v]].offset;
            if (p->at[v])
                place->offset = expr_add(g->ctx, place->offset, p->at[v]);
        }
}

/* The source of an output's copy is live to the end, and a value as long as any within it. */
static void
keep_copied(Planner *p)
{
    for (uint32_t i = 0; i < p->plan->copy.n; i++)
        p->last[p->plan->copy.at[i].from] = p->g->node.n;
    for (ValueId v = 1; v < p->g->value.n; v++)
        if (p->whole[v] && p->end[p->whole[v]] < p->last[v])
            p->end[p->whole[v]] = p->last[v];
}

static void
plan_graph(ModelPlan *model, const Graph *g)
{
    Plan *plan = plan_of(model, g);
    Planner p = { .g = g,
                  .model = model,
                  .plan = plan,
                  .arena = g->arena,
                  .definer = graph_definers(g, g->arena) };

    plan->value = NEW_ARRAY(g->arena, Placement, g->value.n);
    plan->node = NEW_ARRAY(g->arena, NodeMemory, g->node.n);
    p.last = NEW_ARRAY(g->arena, NodeId, g->value.n);
    p.block = NEW_ARRAY(g->arena, uint32_t, g->value.n);
    p.taker = NEW_ARRAY(g->arena, ValueId, g->value.n);
    find_last_uses(&p);
    find_wholes(&p);
    place_outside(&p);
    keep_copied(&p);
    make_blocks(&p);
    plan->nblock = p.heap.n;
    plan->arena_bytes = plan_place(g->ctx, g->arena, p.blocks.at, p.blocks.n);
    spread_offsets(&p);
    for (uint32_t i = 0; i < p.node_block.n; i++) {
        NodeBlock b = p.node_block.at[i];
        NodeMemory *m = &plan->node[b.node];
        *(b.carried == UINT32_MAX ? &m->arena : &m->other[b.carried]) = p.blocks.at[b.block].offset;
    }
}

/* Callees first, so that their memory can be part of the callers'; the model's own plan is put in
 * front. */
ModelPlan *
plan_memory(const Graph *g)
{
    ModelPlan *model = NEW(g->arena, ModelPlan);
    GraphList all = graph_all(g, g->arena);

    model->by_graph.arena = g->arena;
    for (uint32_t i = all.n; i-- > 0;) {
        Plan *plan = NEW(g->arena, Plan);
        plan->graph = all.at[i];
        VEC_PUSH(g->arena, &model->plan, plan);
        map_put(&model->by_graph, MAP_PTR(all.at[i]), MAP_PTR(plan));
    }
    for (uint32_t i = 0; i < all.n; i++)
        plan_graph(model, all.at[i]);
    return model;
}
