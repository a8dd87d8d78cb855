/* control: branches, loops and calls as code that each request executes (graph/batch.h).
 *
 * Branches and loops are inlined into the function around them: values of their regions have slots
 * of that function. Late sizes are updated where control enters or leaves a region.
 */
#include "batch/internal.h"

void
batch_put(ControlCode *k, int64_t x)
{
    VEC_PUSH(k->b->to, &k->b->made->code, (int32_t)x);
}

int32_t
batch_new_slot(ControlCode *k, bool is_inline)
{
    int32_t slot = is_inline ? k->nslot + k->nslot % 2 : k->nslot;

    k->nslot = slot + (is_inline ? 2 : 1);
    return is_inline ? BATCH_INLINE(slot) : slot;
}

int32_t
batch_fresh_slot(ControlCode *k, const Graph *g, ValueId v, bool is_inline)
{
    int32_t slot = batch_new_slot(k, is_inline);

    if (v)
        k->slot[batch_value(k->b, g, v)] = slot;
    return slot;
}

static bool
is_shared(const ControlCode *k, const Graph *g, ValueId v)
{
    return k->b->shared[batch_value(k->b, g, v)];
}

/* Is it known at its uses, so that calls need not pass it? */
static bool
is_known(const ControlCode *k, const Graph *g, ValueId v)
{
    return is_shared(k, g, v) || k->b->input[batch_value(k->b, g, v)];
}

/* An operation with two operands. */
static void
put2(ControlCode *k, BatchOp op, int64_t x, int64_t y)
{
    batch_put(k, op);
    batch_put(k, x);
    batch_put(k, y);
}

void
batch_move(ControlCode *k, int32_t to, int32_t from, const Graph *g, ValueId v)
{
    bool into = to < 0, out_of = from < 0 && !BATCH_IS_INPUT(from);

    if (!into && BATCH_IS_INPUT(from)) {
        put2(k, BATCH_GIVEN, to, from - BATCH_INPUT(0));
        return;
    }
    if (into == out_of) {
        put2(k, into ? BATCH_COPY : BATCH_MOVE, to, from);
        return;
    }
    put2(k, into ? BATCH_UNBOX : BATCH_BOX, to, batch_type_of(k->b, g, v));
    batch_put(k, from);
}

/* The operand as an inline value or as a slot, as requested. */
static int32_t
given_as(ControlCode *k, bool is_inline, int32_t from, const Graph *g, ValueId v)
{
    if (!BATCH_IS_INPUT(from) && is_inline == (from < 0))
        return from;
    int32_t to = batch_new_slot(k, is_inline);
    batch_move(k, to, from, g, v);
    return to;
}

/* A jump whose target is not known yet; the offset of the target. */
static uint32_t
put_jump(ControlCode *k)
{
    batch_put(k, 0);
    return k->b->made->code.n - 1;
}

static void
land(ControlCode *k, uint32_t jump)
{
    k->b->made->code.at[jump] = (int32_t)k->b->made->code.n;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

typedef struct {
    Batching *b;
    VEC(Binding) set;
} Update;

static void
add_update(Update *u, Var symbol, const Expr *is)
{
    if (batch_is_late(u->b, symbol))
        VEC_PUSH(u->b->to, &u->set, ((Binding){ symbol, batch_resolved(u->b, is) }));
}

static void
add_fresh(Update *u, const Node *n, uint32_t fresh, const Expr *is)
{
    add_update(u, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[fresh].name) }, is);
}

/* Its number; -1: it changes nothing. */
static int32_t
end_update(Update *u)
{
    if (!u->set.n)
        return -1;
    VEC_PUSH(u->b->to, &u->b->made->update, ((BatchUpdate){ u->set.n, u->set.at }));
    return (int32_t)u->b->made->update.n - 1;
}

static void
put_update(ControlCode *k, int32_t update)
{
    if (update < 0)
        return;
    batch_put(k, BATCH_UPDATE);
    batch_put(k, update);
}

static int32_t
binding_update(ControlCode *k, const Region *r)
{
    Update u = { .b = k->b };

    for (uint32_t i = 0; i < r->nbind; i++)
        add_update(&u, r->bind[i].var, r->bind[i].to);
    return end_update(&u);
}

/* Symbols in the types of results [first, first + count), from the graph's outputs: output `from +
 * i` is result i. Stacked results have an outermost dimension added. */
static void
add_results(Update *u, const Graph *g, const Node *n, const Graph *in, uint32_t first,
            uint32_t count, uint32_t from)
{
    for (uint32_t i = first; i < first + count; i++) {
        ValueId v = node_out(g, n, i);
        const Type *t = v ? g->value.at[v].type : NULL;
        const Type *inner = in->value.at[in->output.at[from + i]].type;
        uint32_t more = t ? t->rank - inner->rank : 0;
        for (uint32_t d = more; t && d < t->rank; d++) {
            uint32_t f = node_fresh(n, t->dim[d]);
            if (f != UINT32_MAX)
                add_fresh(u, n, f, inner->dim[d - more]);
        }
    }
}

static void
put_results(ControlCode *k, const Graph *g, const Node *n, const Graph *in, uint32_t first,
            uint32_t count, uint32_t from)
{
    Update u = { .b = k->b };

    add_results(&u, g, n, in, first, count, from);
    put_update(k, end_update(&u));
}

static int32_t
late_number(const ControlCode *k, Sym name)
{
    uint64_t at = 0;

    map_get(&k->b->late_at, MAP_PTR(name), &at);
    return (int32_t)at;
}

typedef struct {
    const Map *definer;
    uint64_t last;
} Last;

static void
see_definer(void *user, Var v)
{
    Last *l = user;
    uint64_t id;

    if (v.kind == VAR_SYMBOL && map_get(l->definer, v.id, &id) && id > l->last)
        l->last = id;
}

/* Constraints whose sizes are all known once node `id` has run; 0: when the graph begins. The
 * model's own of that kind are checked before the run. */
static void
put_checks(ControlCode *k, const Graph *g, const Map *definer, NodeId id)
{
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        Constraint x = g->constraints.at[i];
        Last l = { definer, 0 };
        expr_vars(x.a, see_definer, &l);
        expr_vars(x.b, see_definer, &l);
        if (l.last != id || (!id && g == k->b->function.at[0]))
            continue;
        x.a = batch_outside(k->b, x.a); /* simplification would assume that it holds */
        x.b = batch_outside(k->b, x.b);
        x.at = x.at ? batch_outside(k->b, x.at) : NULL;
        batch_put(k, BATCH_CHECK);
        batch_put(k, k->b->made->check.n);
        VEC_PUSH(k->b->to, &k->b->made->check, x);
    }
}

static void
write_match(ControlCode *k, const Graph *g, const Node *n)
{
    ValueId in = node_in(g, n, 0);
    int32_t slot = batch_slot_of(k, g, in);

    put2(k, BATCH_MATCH, slot, batch_type_of(k->b, g, in));
    batch_put(k, n->nfresh);
    for (uint32_t f = 0; f < n->nfresh; f++)
        batch_put(k, late_number(k, n->fresh[f].name));
    if (node_out(g, n, 0))
        k->slot[batch_value(k->b, g, node_out(g, n, 0))] = slot;
}

/* ---- branches -------------------------------------------------------------------------------- */

static void write_graph(ControlCode *k, const Graph *g, int32_t *out);

/* Where control will store a value; 0: nothing reads it. */
static int32_t
fresh_value(ControlCode *k, const Graph *g, ValueId v)
{
    return batch_fresh_slot(k, g, v, v && batch_is_inline(k->b, g, v));
}

/* A region's input is the argument itself. */
static void
give_slot(ControlCode *k, const Graph *g, ValueId v, const Graph *in, ValueId input)
{
    if (!is_known(k, in, input))
        k->slot[batch_value(k->b, in, input)] = batch_slot_of(k, g, v);
}

static void
write_branch(ControlCode *k, const Graph *g, const Node *n, const Graph *in, const int32_t *result)
{
    int32_t *out = NEW_ARRAY(k->b->a, int32_t, n->out.count + 1);

    for (uint32_t i = 1; i < n->in.count; i++)
        give_slot(k, g, node_in(g, n, i), in, in->input.at[i - 1]);
    put_update(k, binding_update(k, &n->region[in == n->region[1].graph]));
    write_graph(k, in, out);
    for (uint32_t i = 0; i < n->out.count && k->ok; i++)
        batch_move(k, result[i], out[i], in, in->output.at[i]);
    if (k->ok)
        put_results(k, g, n, in, 0, n->out.count, 0);
    k->scope++;
}

static void
write_if(ControlCode *k, const Graph *g, const Node *n)
{
    int32_t *result = NEW_ARRAY(k->b->a, int32_t, n->out.count + 1);
    const Graph *yes = n->region[0].graph, *no = n->region[1].graph;
    ValueId condition = node_in(g, n, 0);

    for (uint32_t i = 0; i < n->in.count; i++) /* computed here, since any branch may read it */
        if (!i || !is_known(k, yes, yes->input.at[i - 1]))
            batch_slot_of(k, g, node_in(g, n, i));
    for (uint32_t i = 0; i < n->out.count; i++)
        result[i] = fresh_value(k, g, node_out(g, n, i));
    put2(k, BATCH_BRANCH, batch_slot_of(k, g, condition), batch_type_of(k->b, g, condition));
    uint32_t to_no = put_jump(k);
    write_branch(k, g, n, yes, result);
    batch_put(k, BATCH_JUMP);
    uint32_t to_end = put_jump(k);
    land(k, to_no);
    write_branch(k, g, n, no, result);
    land(k, to_end);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Is it a constant, and true? */
static bool
is_true(const Graph *g, ValueId v)
{
    return g->value.at[v].data && *(const uint8_t *)g->value.at[v].data;
}

/* A loop that is being written. Slots: of the carried values, and of the lists of stacked values.
 * going: the slot of the condition, -1: always true. */
typedef struct {
    const Graph *g, *body;
    const Node *n;
    uint32_t carried, stacked;
    int32_t *now, *list, *out; /* out: of the body's outputs */
    int32_t counter, going;
    /* begins: the first iteration is not tested; ends: an iteration may end the loop */
    bool begins, ends;
    const uint32_t *uses; /* of the body's values */
} LoopCode;

static LoopCode
new_loop(ControlCode *k, const Graph *g, const Node *n)
{
    Arena *a = k->b->a;
    const Graph *body = n->region[0].graph;
    ValueId go = node_in(g, n, 1), again = body->output.at[0];
    LoopCode l = { .g = g, .body = body, .n = n, .carried = n->ncarried, .going = -1 };

    l.stacked = n->out.count - l.carried;
    l.now = NEW_ARRAY(a, int32_t, l.carried + 1);
    l.list = NEW_ARRAY(a, int32_t, l.stacked + 1);
    l.out = NEW_ARRAY(a, int32_t, body->output.n + 1);
    l.begins = !go || is_true(g, go);
    l.ends = again != body->input.at[1] && !is_true(body, again);
    l.uses = graph_uses(body, a);
    l.counter = k->ncounter++;
    if (!l.begins || l.ends)
        l.going = batch_new_slot(k, batch_is_inline(k->b, body, again));
    return l;
}

/* Before the first iteration. */
static void
begin_loop(ControlCode *k, const LoopCode *l)
{
    const Graph *g = l->g;
    const Node *n = l->n;
    Update zero = { .b = k->b };

    for (uint32_t i = 0; i < n->in.count; i++)
        if (node_in(g, n, i) && (i != 1 || !l->begins) &&
            (i < 2 || !is_known(k, l->body, l->body->input.at[i])))
            batch_slot_of(k, g, node_in(g, n, i));
    for (uint32_t i = 0; i < l->carried; i++) {
        bool is_inline = batch_is_inline(k->b, l->body, l->body->input.at[2 + i]);
        l->now[i] = batch_new_slot(k, is_inline);
        ValueId v = node_in(g, n, 2 + i);
        batch_move(k, l->now[i], batch_slot_of(k, g, v), g, v);
    }
    for (uint32_t i = 0; i < l->stacked; i++) {
        l->list[i] = batch_new_slot(k, false);
        batch_put(k, BATCH_LIST);
        batch_put(k, l->list[i]);
    }
    for (uint32_t f = 0; f < n->nfresh; f++) /* sizes of a loop without iterations */
        add_fresh(&zero, n, f, expr_int(k->b->c, 0));
    put_update(k, end_update(&zero));
    put2(k, BATCH_BEGIN, l->counter, l->going);
    if (!l->begins)
        batch_move(k, l->going, batch_slot_of(k, g, node_in(g, n, 1)), g, node_in(g, n, 1));
    put_update(k, binding_update(k, &n->region[0]));
}

/* Tests for another iteration; returns the jump to patch. */
static uint32_t
put_iteration(ControlCode *k, const LoopCode *l)
{
    ValueId trips = node_in(l->g, l->n, 0);

    put2(k, BATCH_TURN, l->counter, trips ? batch_slot_of(k, l->g, trips) : -1);
    batch_put(k, trips ? batch_type_of(k->b, l->g, trips) : 0);
    batch_put(k, l->going);
    batch_put(k, l->going == -1 ? 0 : batch_type_of(k->b, l->body, l->body->output.at[0]));
    return put_jump(k);
}

static void
write_body(ControlCode *k, const LoopCode *l)
{
    const Graph *body = l->body;
    ValueId iteration = body->input.at[0], again = body->output.at[0];

    if (l->uses[iteration]) {
        int32_t slot = fresh_value(k, body, iteration);
        put2(k, BATCH_COUNT, slot, batch_type_of(k->b, body, iteration));
        batch_put(k, l->counter);
    }
    for (uint32_t i = 0; i < l->carried; i++)
        k->slot[batch_value(k->b, body, body->input.at[2 + i])] = l->now[i];
    for (uint32_t i = 2 + l->carried; i < l->n->in.count; i++)
        give_slot(k, l->g, node_in(l->g, l->n, i), body, body->input.at[i]);
    if (!l->ends && l->uses[again] == 1)
        k->slot[batch_value(k->b, body, again)] = 0; /* nothing reads it */
    write_graph(k, body, l->out);
}

/* Updates the sizes of carried values as this iteration left them. */
static void
put_rebind(ControlCode *k, const LoopCode *l)
{
    const Graph *body = l->body;
    Update rebind = { .b = k->b };

    for (uint32_t i = 0; i < l->carried; i++) {
        const Type *in = body->value.at[body->input.at[2 + i]].type;
        const Type *made = body->value.at[body->output.at[1 + i]].type;
        Var v;
        for (uint32_t d = 0; d < in->rank; d++)
            if (in->dim[d] != made->dim[d] && expr_is_var(in->dim[d], &v) && v.kind == VAR_SYMBOL)
                add_update(&rebind, v, made->dim[d]);
    }
    put_update(k, end_update(&rebind));
}

/* All carried values at once: one that becomes the previous value of another, which is copied
 * before, goes through a slot of its own. */
static void
carry(ControlCode *k, const LoopCode *l)
{
    const ValueId *out = l->body->output.at;
    int32_t *from = NEW_ARRAY(k->b->a, int32_t, l->carried + 1);

    for (uint32_t i = 0; i < l->carried; i++) {
        from[i] = l->out[1 + i];
        for (uint32_t j = 0; j < i; j++)
            if (from[i] == l->now[j]) {
                from[i] = batch_new_slot(k, l->now[i] < 0);
                batch_move(k, from[i], l->out[1 + i], l->body, out[1 + i]);
                break;
            }
    }
    for (uint32_t i = 0; i < l->carried; i++)
        if (from[i] != l->now[i])
            batch_move(k, l->now[i], from[i], l->body, out[1 + i]);
}

static void
end_turn(ControlCode *k, const LoopCode *l)
{
    const ValueId *out = l->body->output.at;

    if (l->ends) /* first, since it may be a carried value */
        batch_move(k, l->going, l->out[0], l->body, out[0]);
    for (uint32_t i = 0; i < l->stacked; i++) {
        ValueId v = out[1 + l->carried + i];
        int32_t row = given_as(k, false, l->out[1 + l->carried + i], l->body, v);
        put2(k, BATCH_ADD, l->list[i], row);
    }
    carry(k, l);
    put_results(k, l->g, l->n, l->body, l->carried, l->stacked, 1);
    put_rebind(k, l);
}

/* Sizes that the loop defines. */
static void
put_loop_sizes(ControlCode *k, const LoopCode *l)
{
    const Node *n = l->n;
    Update carried = { .b = k->b };

    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(l->g, n, i);
        const Type *t = v ? l->g->value.at[v].type : NULL;
        for (uint32_t d = 0; t && d < t->rank; d++) {
            uint32_t f = node_fresh(n, t->dim[d]);
            if (f != UINT32_MAX && i < l->carried)
                add_fresh(&carried, n, f, l->body->value.at[l->body->input.at[2 + i]].type->dim[d]);
            if (f != UINT32_MAX && i >= l->carried && d == 0)
                put2(k, BATCH_TURNS, late_number(k, n->fresh[f].name), l->counter);
        }
    }
    put_update(k, end_update(&carried));
}

static void
put_drop(ControlCode *k, int32_t slot)
{
    batch_put(k, BATCH_DROP);
    batch_put(k, slot);
}

static void
put_loop_results(ControlCode *k, const LoopCode *l)
{
    for (uint32_t i = 0; i < l->n->out.count; i++) {
        ValueId v = node_out(l->g, l->n, i);
        if (v && i < l->carried)
            k->slot[batch_value(k->b, l->g, v)] = l->now[i];
        if (!v || i < l->carried)
            continue;
        int32_t slot = batch_fresh_slot(k, l->g, v, false);
        put2(k, BATCH_STACK, slot, batch_type_of(k->b, l->g, v));
        batch_put(k, l->list[i - l->carried]);
        put_drop(k, l->list[i - l->carried]);
    }
}

/* Rows that the loop was the last to read: they need no memory beside those of what follows. */
static void
drop_captured(ControlCode *k, const Graph *g, NodeId id, const Users *users, const bool *output)
{
    const Node *n = &g->node.at[id];

    for (uint32_t i = 2 + n->ncarried; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        int32_t slot = k->slot[batch_value(k->b, g, v)];
        /* others have slots that may be those of other values, too */
        bool last = slot >= 0 && !output[v] && g->value.at[v].def &&
                    g->node.at[g->value.at[v].def].callee == CALL_NEST;
        for (uint32_t u = users->first[v]; u < users->first[v + 1]; u++)
            last = last && users->node[u] <= id && g->node.at[users->node[u]].callee != CALL_MATCH;
        if (last)
            put_drop(k, slot);
    }
}

/* test; while it holds: body, then all carried values at once. The condition is tested only if it
 * is not known. */
static void
write_loop(ControlCode *k, const Graph *g, const Node *n)
{
    LoopCode l = new_loop(k, g, n);

    if (l.uses[l.body->input.at[1]] > (l.body->output.at[0] == l.body->input.at[1])) {
        k->ok = batch_refuse(k->b, n, "asks in its body whether it goes on");
        return;
    }
    begin_loop(k, &l);
    uint32_t top = k->b->made->code.n, to_end = put_iteration(k, &l);
    write_body(k, &l);
    if (!k->ok)
        return;
    end_turn(k, &l);
    k->scope++;
    put2(k, BATCH_NEXT, l.counter, top);
    land(k, to_end);
    put_loop_sizes(k, &l);
    put_loop_results(k, &l);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The number of a function. The first call queues it. */
static uint32_t
function_of(Batching *b, const Graph *g)
{
    RunGraph *run = batch_run_of(b, g);

    if (!run->function) {
        run->function = true;
        run->number = b->function.n;
        VEC_PUSH(b->a, &b->function, g);
    }
    return run->number;
}

static void
write_call(ControlCode *k, const Graph *g, const Node *n)
{
    const Graph *in = n->region[0].graph;
    Update after = { .b = k->b };
    VEC(int32_t) given = { 0 };

    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId input = in->input.at[i], v = node_in(g, n, i);
        if (!is_known(k, in, input))
            VEC_PUSH(k->b->a, &given,
                     given_as(k, batch_is_inline(k->b, in, input), batch_slot_of(k, g, v), g, v));
    }
    put2(k, BATCH_CALL, function_of(k->b, in), given.n);
    for (uint32_t i = 0; i < given.n; i++)
        batch_put(k, given.at[i]);
    batch_put(k, n->out.count);
    for (uint32_t i = 0; i < n->out.count; i++) {
        bool is_inline = batch_is_inline(k->b, in, in->output.at[i]);
        batch_put(k, batch_fresh_slot(k, g, node_out(g, n, i), is_inline));
    }
    batch_put(k, binding_update(k, &n->region[0]));
    add_results(&after, g, n, in, 0, n->out.count, 0);
    batch_put(k, end_update(&after));
}

static void
write_node(ControlCode *k, const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];

    if (n->callee == CALL_OP)
        batch_write_routine(k, g, id);
    else if (n->callee == CALL_IF)
        write_if(k, g, n);
    else if (n->callee == CALL_LOOP)
        write_loop(k, g, n);
    else if (n->callee == CALL_MATCH)
        write_match(k, g, n);
    else
        write_call(k, g, n);
}

/* The code of a graph; out: [its outputs] their slots. */
static void
write_graph(ControlCode *k, const Graph *g, int32_t *out)
{
    Arena *a = k->b->a;
    Segment s = { .g = g,
                  .keys = batch_keys(k->b, g),
                  .users = graph_users(g, a),
                  .output = graph_outputs(g, a) };
    Map definer = graph_definers(g, a);

    put_checks(k, g, &definer, 0);
    for (NodeId id = 1; id < g->node.n && k->ok; id++) {
        if (g->node.at[id].callee == CALL_NEST) {
            batch_add_nest(k, &s, id);
            continue;
        }
        batch_end_segment(k, &s);
        write_node(k, g, id);
        if (g->node.at[id].callee == CALL_LOOP && k->ok)
            drop_captured(k, g, id, &s.users, s.output);
        if (g->node.at[id].nfresh && k->ok)
            put_checks(k, g, &definer, id);
    }
    if (!k->ok)
        return;
    batch_end_segment(k, &s);
    for (uint32_t i = 0; i < g->output.n && k->ok; i++)
        out[i] = batch_slot_of(k, g, g->output.at[i]);
}

static void
write_function(ControlCode *k, uint32_t number)
{
    Batching *b = k->b;
    const Graph *g = b->function.at[number];
    uint32_t most = g->input.n + g->output.n + 1;
    int32_t *at = NEW_ARRAY(b->to, int32_t, most), *out = NEW_ARRAY(b->a, int32_t, most);
    uint32_t *type = NEW_ARRAY(b->to, uint32_t, most), n = 0;
    BatchFunction f = { .name = g->name, .at = at, .type = type, .code = b->made->code.n };
    const bool model = !number; /* its inputs and outputs are rows */

    k->nslot = k->ncounter = 0;
    k->scope++;
    for (uint32_t i = 0; i < g->input.n; i++)
        if (model || !is_known(k, g, g->input.at[i])) {
            at[n] = model ? batch_new_slot(k, false) : fresh_value(k, g, g->input.at[i]);
            type[n++] = batch_type_of(b, g, g->input.at[i]);
        }
    f.nparam = n;
    f.nresult = g->output.n;
    for (uint32_t i = 0; i < g->output.n; i++)
        type[n + i] = batch_type_of(b, g, g->output.at[i]);
    write_graph(k, g, out);
    for (uint32_t i = 0; i < g->output.n && k->ok; i++) {
        bool is_inline = !model && batch_is_inline(b, g, g->output.at[i]);
        at[n + i] = given_as(k, is_inline, out[i], g, g->output.at[i]);
    }
    batch_put(k, BATCH_RETURN);
    VEC_PUSH(b->to, &b->made->function, f);
}

bool
batch_write_functions(Batching *b, const Graph *g)
{
    ControlCode k = { .b = b, .slot = NEW_ARRAY(b->a, int32_t, b->nvalue), .ok = true };

    k.row = NEW_ARRAY(b->a, int32_t, b->nvalue);
    k.row_made = NEW_ARRAY(b->a, uint32_t, b->nvalue);

    for (uint32_t i = 0; i < b->nvalue; i++)
        k.slot[i] = -1;
    function_of(b, g);
    for (uint32_t f = 0; f < b->function.n && k.ok; f++)
        write_function(&k, f);
    return k.ok;
}
