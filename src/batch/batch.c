/* batch: what becomes of each value, and the code that control walks. */
#include "batch/batch.h"

enum { MOST_HOST_ELEMENTS = 64 };        /* of a host value; bounds what is computed for one request at a time */

/* One of the graphs that the model runs. */
typedef struct { const Graph *g; uint32_t first; bool function; uint32_t number; } Run;      /* first: the number of its value 0 among all */

typedef struct {
    Ctx *c;
    Arena *a, *to;                   /* scratch; what stays */
    GraphList all;
    Run *run;                        /* [all.n] */
    Map at;                          /* Graph to its number there */
    uint32_t nvalue;
    bool *shared, *host, *needed;    /* [nvalue] */
    BatchConstant *constant;         /* [nvalue] */
    bool *several;                   /* [nvalue] it is given different values */
    bool *last;                      /* [nvalue] it is read for results alone */
    VEC(const Type *) type;
    Map type_at;                     /* Type to its number there */
    VEC(BatchSize) size;
    VEC(Var) late;
    Map late_at;                     /* symbol to its number there */
    VEC(BatchUpdate) update;
    VEC(Constraint) check;
    VEC(BatchFunction) function;
    VEC(BatchBlock) block;
    VEC(Region) region;
    VEC(int32_t) code;
    Var instances, rows;
    const char *why;                 /* requests cannot run together; NULL: they can */
    bool changed;                    /* in this round of a fixed point */
} Batching;

static const Run *
run_of(const Batching *b, const Graph *g)
{
    uint64_t at = 0;
    map_get(&b->at, MAP_PTR(g), &at);
    return &b->run[at];
}

static uint32_t
number_of(const Batching *b, const Graph *g, ValueId v)
{
    return run_of(b, g)->first + v;
}

static const char *
called(const Batching *b, const Node *n)
{
    return n->origin ? n->origin : n->callee == CALL_OP ? op_info[n->op].name : n->nest ? n->nest->name : arena_printf(b->a, "a node of graph %s", n->nregion ? n->region[0].graph->name : "");
}

/* ---- what can be batched ----------------------------------------------------------------------------------------- */

static bool
refuse(Batching *b, const Node *n, const char *why)
{
    if (!b->why)
        b->why = n ? arena_printf(b->c->arena, "%s %s", called(b, n), why) : why;
    return false;
}

static bool
may_node(Batching *b, const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->out.count; i++) {
        const Type *t = node_out(g, n, i) ? g->value.at[node_out(g, n, i)].type : NULL;
        if (t && t->dtype == DT_STR)
            return refuse(b, n, "makes strings");
        if (t && t->rank >= TN_MAX_RANK)
            return refuse(b, n, "has no dimension left for requests");
    }
    if (n->callee == CALL_JOIN || n->callee == CALL_KERNEL || n->callee == CALL_BLOCKS)
        return refuse(b, n, "is run for one request at a time");
    if (n->callee == CALL_NEST && n->nest->naxis >= NEST_MAX_AXES)
        return refuse(b, n, "has no axis left for requests");
    return true;
}

static bool
may_all(Batching *b)
{
    const Graph *g = b->all.at[b->all.n - 1];

    if (g->state.n)
        return refuse(b, NULL, "the model keeps states from run to run");
    for (uint32_t i = 0; i < g->input.n; i++)
        if (g->value.at[g->input.at[i]].type->dtype == DT_STR || g->value.at[g->input.at[i]].type->rank >= TN_MAX_RANK)
            return refuse(b, NULL, arena_printf(b->c->arena, "input %s is %s", g->value.at[g->input.at[i]].name, type_str(b->c, g->value.at[g->input.at[i]].type)));
    for (uint32_t i = b->all.n; i-- > 0; ) {         /* callers first */
        const Graph *of = b->all.at[i];
        for (NodeId id = 1; id < of->node.n; id++)
            if (!may_node(b, of, &of->node.at[id]))
                return false;
    }
    return true;
}

/* ---- sizes ----------------------------------------------------------------------------------------------------------- */

static bool
is_late(const Batching *b, Var v)
{
    return map_get(&b->late_at, v.id, NULL);
}

static void
set_late(Batching *b, Var v)
{
    if (is_late(b, v))
        return;
    map_put(&b->late_at, v.id, b->late.n);
    VEC_PUSH(b->to, &b->late, v);
    b->changed = true;
}

typedef struct { const Batching *b; bool late; } Uses;

static void
see_late(void *user, Var v)
{
    Uses *u = user;
    u->late |= v.kind == VAR_SYMBOL && is_late(u->b, v);
}

/* By symbols of the model's inputs, and late ones. */
static const Expr *
outside(const Batching *b, const Expr *e)
{
    for (uint32_t s = 0; s < b->size.n; s++)
        e = expr_subst(b->c, e, &(Binding){ b->size.at[s].symbol, b->size.at[s].is }, 1);
    return e;
}

static const Expr *
resolved(const Batching *b, const Expr *e)
{
    return expr_simplify(b->c, NULL, outside(b, e));
}

static void
resolve(Batching *b, const Binding *bind)
{
    const Expr *is = resolved(b, bind->to);
    Uses u = { b, false };
    uint32_t k = 0;

    expr_vars(is, see_late, &u);
    while (k < b->size.n && b->size.at[k].symbol.id != bind->var.id)
        k++;
    if (u.late || (k < b->size.n && b->size.at[k].is != is))
        set_late(b, bind->var);
    else if (k == b->size.n)
        VEC_PUSH(b->to, &b->size, ((BatchSize){ bind->var, is }));
}

/* What a turn of a loop makes longer has a size that changes with the turn. */
static void
find_changing(Batching *b, const Node *n)
{
    const Graph *body = n->region[0].graph;
    Var v;

    for (uint32_t i = 0; i < n->ncarried; i++) {
        const Type *in = body->value.at[body->input.at[2 + i]].type, *out = body->value.at[body->output.at[1 + i]].type;
        for (uint32_t d = 0; d < in->rank; d++)
            if (in->dim[d] != out->dim[d] && expr_is_var(in->dim[d], &v) && v.kind == VAR_SYMBOL)
                set_late(b, v);
    }
}

/* Symbols that are late: what nodes define, what changes from turn to turn, what a function has at several sizes, and what follows from such.
 * All others follow from the model's inputs. */
static void
find_sizes(Batching *b)
{
    do {
        b->changed = false;
        b->size.n = 0;
        for (uint32_t i = b->all.n; i-- > 0; )
            for (NodeId id = 1; id < b->all.at[i]->node.n; id++) {
                const Node *n = &b->all.at[i]->node.at[id];
                for (uint32_t f = 0; f < n->nfresh; f++)
                    set_late(b, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[f].name) });
                if (n->callee == CALL_LOOP)
                    find_changing(b, n);
                for (uint32_t r = 0; r < n->nregion; r++)
                    for (uint32_t k = 0; k < n->region[r].nbind; k++)
                        if (!is_late(b, n->region[r].bind[k].var))
                            resolve(b, &n->region[r].bind[k]);
            }
    } while (b->changed);
}

/* ---- what becomes of values ---------------------------------------------------------------------------------------- */

/* Value `to` is what value `from` was. */
typedef void Flow(Batching *b, uint32_t to, uint32_t from);

/* Arguments to inputs, outputs to results, and what a turn of a loop gives to what the next one takes. */
static void
for_each_flow(Batching *b, Flow *visit)
{
    for (uint32_t i = b->all.n; i-- > 0; ) {
        const Graph *g = b->all.at[i];
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            uint32_t from = n->callee == CALL_IF ? 1 : n->callee == CALL_LOOP ? 2 : 0, first = n->callee == CALL_LOOP ? 2 : 0, given = n->callee == CALL_LOOP;
            for (uint32_t r = 0; r < n->nregion; r++) {
                const Graph *in = n->region[r].graph;
                for (uint32_t k = from; k < n->in.count; k++)
                    visit(b, number_of(b, in, in->input.at[first + k - from]), number_of(b, g, node_in(g, n, k)));
                for (uint32_t k = 0; k < (n->callee == CALL_LOOP ? n->ncarried : n->out.count); k++)
                    if (node_out(g, n, k))
                        visit(b, number_of(b, g, node_out(g, n, k)), number_of(b, in, in->output.at[given + k]));
                for (uint32_t k = 0; n->callee == CALL_LOOP && k < 1 + n->ncarried; k++)
                    visit(b, number_of(b, in, in->input.at[1 + k]), number_of(b, in, in->output.at[k]));
                if (n->callee == CALL_LOOP && node_in(g, n, 1))
                    visit(b, number_of(b, in, in->input.at[1]), number_of(b, g, node_in(g, n, 1)));
            }
        }
    }
}

static void
meet_constant(Batching *b, uint32_t to, uint32_t from)
{
    BatchConstant *x = &b->constant[to];
    const BatchConstant *y = &b->constant[from];
    bool differ = b->several[from] || (x->g && y->g && (x->g != y->g || x->value != y->value) &&
                                       x->g->value.at[x->value].data != y->g->value.at[y->value].data);

    if (b->several[to] || (!differ && (x->g || !y->g)))
        return;
    b->changed = true;
    b->several[to] = differ;
    *x = differ ? (BatchConstant){ 0 } : *y;
}

/* A value is the constant that all who give it give: an argument that a function passes on to itself is what its first caller gave. */
static void
find_constants(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        for (ValueId v = 1; v < g->value.n; v++) {
            uint32_t x = b->run[i].first + v;
            const Value *value = &g->value.at[v];
            if (value->data)
                b->constant[x] = (BatchConstant){ g, v };
            else                     /* what nests make, and what the model is given, is no constant */
                b->several[x] = value->def ? g->node.at[value->def].callee <= CALL_KERNEL || g->node.at[value->def].callee == CALL_MATCH : i + 1 == b->all.n;
        }
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            const Graph *body = n->callee == CALL_LOOP ? n->region[0].graph : NULL;
            for (uint32_t k = 0; body && k < 2 + n->ncarried; k++)       /* its turn, whether it goes on, and what changes */
                b->several[number_of(b, body, body->input.at[k])] = true;
            for (uint32_t k = body ? n->ncarried : n->out.count; k < n->out.count; k++)
                if (node_out(g, n, k))
                    b->several[b->run[i].first + node_out(g, n, k)] = true;
        }
    }
    do {
        b->changed = false;
        for_each_flow(b, meet_constant);
    } while (b->changed);
}

static void
find_shared(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++) {
        const Graph *g = b->all.at[i];
        bool *shared = b->shared + b->run[i].first;
        for (ValueId v = 1; v < g->value.n; v++)
            shared[v] = b->constant[b->run[i].first + v].g != NULL;
        for (NodeId id = 1; id < g->node.n; id++) {
            const Node *n = &g->node.at[id];
            bool all = n->callee == CALL_NEST;
            for (uint32_t k = 0; k < n->in.count && all; k++)
                all = shared[node_in(g, n, k)];
            for (uint32_t k = 0; k < n->out.count && n->callee == CALL_NEST; k++)
                shared[node_out(g, n, k)] = all;
        }
    }
}

/* As far as the value itself tells. Inputs may be long: lists that nodes of a tree are numbers in. */
static bool
may_be_host(const Batching *b, const Graph *g, const Value *x)
{
    int64_t n;

    return !dtype_is_float(x->type->dtype) && x->type->dtype != DT_STR && (!x->def || g->node.at[x->def].callee != CALL_OP) &&
           (!x->def || (expr_const(type_count(b->c, x->type), &n) && n <= MOST_HOST_ELEMENTS));
}

static void
lose_host(Batching *b, uint32_t to, uint32_t from)
{
    if (b->host[to] && !b->host[from] && !b->shared[from]) {
        b->host[to] = false;
        b->changed = true;
    }
}

/* The most values that can be: those are left out that are made of others, until none is. */
static void
find_host(Batching *b)
{
    for (uint32_t i = 0; i < b->all.n; i++)
        for (ValueId v = 1; v < b->all.at[i]->value.n; v++)
            b->host[b->run[i].first + v] = may_be_host(b, b->all.at[i], &b->all.at[i]->value.at[v]);
    do {
        b->changed = false;
        for (uint32_t i = 0; i < b->all.n; i++) {
            const Graph *g = b->all.at[i];
            for (NodeId id = 1; id < g->node.n; id++)
                for (uint32_t o = 0; g->node.at[id].callee == CALL_NEST && o < g->node.at[id].out.count; o++)
                    for (uint32_t k = 0; k < g->node.at[id].in.count; k++)
                        lose_host(b, b->run[i].first + node_out(g, &g->node.at[id], o), b->run[i].first + node_in(g, &g->node.at[id], k));
            for (NodeId id = 1; id < g->node.n; id++)
                if (g->node.at[id].callee == CALL_MATCH && node_out(g, &g->node.at[id], 0))
                    lose_host(b, b->run[i].first + node_out(g, &g->node.at[id], 0), b->run[i].first + node_in(g, &g->node.at[id], 0));
        }
        for_each_flow(b, lose_host);
    } while (b->changed);
}

static void
need(Batching *b, uint32_t v)
{
    b->changed |= !b->needed[v];
    b->needed[v] = true;
}

static void
need_source(Batching *b, uint32_t to, uint32_t from)
{
    if (b->needed[to])
        need(b, from);
}

/* Does a nest look up a number in a list whose length differs from request to request? Control does, so that what reads the number can run
 * for all of them. */
static bool
looks_up(const Batching *b, uint32_t first, const Graph *g, const Node *n)
{
    bool open = false;

    for (uint32_t i = 0; i < n->in.count; i++)
        open |= !type_is_static(g->value.at[node_in(g, n, i)].type);
    for (uint32_t i = 0; i < n->out.count; i++)
        open = open && b->host[first + node_out(g, n, i)] && type_is_static(g->value.at[node_out(g, n, i)].type);
    return open;
}

/* What control asks for, and what that is made of. */
static void
find_needed(Batching *b)
{
    do {
        b->changed = false;
        for (uint32_t i = 0; i < b->all.n; i++) {
            const Graph *g = b->all.at[i];
            for (NodeId id = 1; id < g->node.n; id++) {
                const Node *n = &g->node.at[id];
                for (uint32_t k = 0; k < n->in.count && k < (n->callee == CALL_IF || n->callee == CALL_MATCH ? 1 : n->callee == CALL_LOOP ? 2 : 0); k++)
                    if (node_in(g, n, k))
                        need(b, b->run[i].first + node_in(g, n, k));
                if (n->callee == CALL_LOOP)
                    need(b, number_of(b, n->region[0].graph, n->region[0].graph->output.at[0]));
                if (n->callee == CALL_NEST && looks_up(b, b->run[i].first, g, n))
                    need(b, b->run[i].first + node_out(g, n, 0));
                for (uint32_t o = 0; n->callee == CALL_NEST && o < n->out.count; o++)
                    for (uint32_t k = 0; k < n->in.count; k++)
                        need_source(b, b->run[i].first + node_out(g, n, o), b->run[i].first + node_in(g, n, k));
            }
        }
        for_each_flow(b, need_source);
    } while (b->changed);
}

static void
is_read(Batching *b, uint32_t v)
{
    b->changed |= b->last[v];
    b->last[v] = false;
}

static void
read_source(Batching *b, uint32_t to, uint32_t from)
{
    if (!b->last[to])
        is_read(b, from);
}

/* What a nest reads of nests that it does not share a block with: those before another node of control. */
static void
read_other_blocks(Batching *b, const Graph *g, uint32_t first)
{
    uint32_t *segment = NEW_ARRAY(b->a, uint32_t, g->node.n), now = 0;

    for (NodeId id = 1; id < g->node.n; id++) {
        const Node *n = &g->node.at[id];
        now += n->callee != CALL_NEST;
        segment[id] = now;
        for (uint32_t k = 0; n->callee == CALL_NEST && k < n->in.count; k++) {
            NodeId def = g->value.at[node_in(g, n, k)].def;
            if (!def || g->node.at[def].callee != CALL_NEST || segment[def] != now)
                is_read(b, first + node_in(g, n, k));
        }
    }
}

/* Values that control and other blocks read, and that what is read is made of; all others are read for results alone. */
static void
find_last(Batching *b)
{
    for (uint32_t v = 0; v < b->nvalue; v++)
        b->last[v] = !b->host[v];
    for (uint32_t i = 0; i < b->all.n; i++)
        read_other_blocks(b, b->all.at[i], b->run[i].first);
    do {
        b->changed = false;
        for (uint32_t i = 0; i < b->all.n; i++) {
            const Graph *g = b->all.at[i];
            for (NodeId id = 1; id < g->node.n; id++) {
                const Node *n = &g->node.at[id];
                const Graph *body = n->callee == CALL_LOOP ? n->region[0].graph : NULL;
                uint32_t control = n->callee == CALL_IF || n->callee == CALL_MATCH ? 1 : body ? 2 : n->callee == CALL_OP ? n->in.count : 0;
                for (uint32_t k = 0; k < control; k++)
                    if (node_in(g, n, k))
                        is_read(b, b->run[i].first + node_in(g, n, k));
                for (uint32_t k = 0; body && k < 1 + n->ncarried; k++)       /* the next turn does */
                    is_read(b, number_of(b, body, body->output.at[k]));
                for (uint32_t k = n->ncarried; body && k < n->out.count; k++)
                    if (node_out(g, n, k))
                        read_source(b, b->run[i].first + node_out(g, n, k), number_of(b, body, body->output.at[1 + k]));
                for (uint32_t o = 0; n->callee == CALL_NEST && o < n->out.count; o++)
                    for (uint32_t k = 0; k < n->in.count; k++)
                        read_source(b, b->run[i].first + node_out(g, n, o), b->run[i].first + node_in(g, n, k));
            }
        }
        for_each_flow(b, read_source);
    } while (b->changed);
}

/* The number of a value's type. */
static uint32_t
type_of(Batching *b, const Graph *g, ValueId v)
{
    const Type *t = g->value.at[v].type;
    uint64_t at;

    if (map_get(&b->type_at, MAP_PTR(t), &at))
        return (uint32_t)at;
    map_put(&b->type_at, MAP_PTR(t), b->type.n);
    VEC_PUSH(b->to, &b->type, t);
    return b->type.n - 1;
}

/* ---- code ------------------------------------------------------------------------------------------------------------ */

typedef struct {
    Batching *b;
    int32_t *slot;                   /* [nvalue], of all functions; -1: none yet */
    int32_t nslot, ncounter;         /* of the function that is written */
    bool ok;
} Code;

static void
put(Code *k, int64_t x)
{
    VEC_PUSH(k->b->to, &k->b->code, (int32_t)x);
}

static int32_t
fresh_slot(Code *k, const Graph *g, ValueId v)
{
    int32_t slot = k->nslot++;

    if (v)
        k->slot[number_of(k->b, g, v)] = slot;
    return slot;
}

/* Sizes that become others; -1: none does. */
typedef struct { Batching *b; VEC(BatchSize) set; } Update;

static void
add_update(Update *u, Var symbol, const Expr *is)
{
    if (is_late(u->b, symbol))
        VEC_PUSH(u->b->to, &u->set, ((BatchSize){ symbol, resolved(u->b, is) }));
}

static int32_t
end_update(Update *u)
{
    if (!u->set.n)
        return -1;
    VEC_PUSH(u->b->to, &u->b->update, ((BatchUpdate){ u->set.n, u->set.at }));
    return (int32_t)u->b->update.n - 1;
}

static void
put_update(Code *k, int32_t update)
{
    if (update < 0)
        return;
    put(k, BATCH_UPDATE);
    put(k, update);
}

static int32_t
binding_update(Code *k, const Region *r)
{
    Update u = { .b = k->b };

    for (uint32_t i = 0; i < r->nbind; i++)
        add_update(&u, r->bind[i].var, r->bind[i].to);
    return end_update(&u);
}

/* Symbols in the types of results [first, first + n), by what the graph gives; stacked results have a dimension in front. */
static void
add_results(Update *u, const Graph *g, const Node *n, const Graph *in, uint32_t first, uint32_t count, uint32_t from)
{
    for (uint32_t i = first; i < first + count; i++) {
        ValueId v = node_out(g, n, i);
        const Type *t = v ? g->value.at[v].type : NULL, *inner = in->value.at[in->output.at[from + i]].type;
        uint32_t more = t ? t->rank - inner->rank : 0;
        for (uint32_t d = more; t && d < t->rank; d++) {
            uint32_t f = node_fresh(n, t->dim[d]);
            if (f != UINT32_MAX)
                add_update(u, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[f].name) }, inner->dim[d - more]);
        }
    }
}

static void
put_results(Code *k, const Graph *g, const Node *n, const Graph *in, uint32_t first, uint32_t count, uint32_t from)
{
    Update u = { .b = k->b };

    add_results(&u, g, n, in, first, count, from);
    put_update(k, end_update(&u));
}

static int32_t
late_number(const Code *k, Sym name)
{
    uint64_t at = 0;

    map_get(&k->b->late_at, MAP_PTR(name), &at);
    return (int32_t)at;
}

/* A block of these parts, and the code that has it run. */
static void
put_block(Code *k, BlockParts *p, BlockKind kind)
{
    Batching *b = k->b;
    uint32_t *type = NEW_ARRAY(b->to, uint32_t, p->in.n + p->out.n + 1);
    const char *name = p->node.n ? called(b, &p->g->node.at[p->node.at[p->node.n - 1]]) : "constants";

    p->shared = b->shared + run_of(b, p->g)->first;
    p->constant = b->constant + run_of(b, p->g)->first;
    p->instances = b->instances;
    p->kind = kind;
    p->rows = b->rows;
    Graph *g = batch_block(b->to, p, arena_printf(b->a, "block_%u", b->block.n));
    if (!g) {
        k->ok = false;
        return;
    }
    put(k, kind == BLOCK_HOST ? BATCH_HOST : BATCH_BLOCK);
    put(k, b->block.n);
    for (uint32_t i = 0; i < p->in.n; i++) {
        type[i] = type_of(b, p->g, p->in.at[i]);
        put(k, k->slot[number_of(b, p->g, p->in.at[i])]);
    }
    for (uint32_t i = 0; i < p->out.n; i++) {
        type[p->in.n + i] = type_of(b, p->g, p->out.at[i]);
        put(k, fresh_slot(k, p->g, p->out.at[i]));
    }
    VEC_PUSH(b->to, &b->block, ((BatchBlock){ name, p->in.n, p->out.n, p->node.n, type, kind, false }));
    VEC_PUSH(b->to, &b->region, ((Region){ .graph = g }));
}

/* Where a value is: shared ones become rows. */
static int32_t
slot_of(Code *k, const Graph *g, ValueId v)
{
    uint32_t x = number_of(k->b, g, v);

    if (k->slot[x] < 0) {
        BlockParts p = { .g = g };
        VEC_PUSH(k->b->a, &p.out, v);
        put_block(k, &p, k->b->host[x] && k->b->needed[x] ? BLOCK_HOST : BLOCK_TOGETHER);
    }
    return k->slot[x];
}

/* Nests between two nodes of control, those for the host first. */
typedef struct { const Graph *g; Users users; bool *output; VEC(NodeId) host, later, last; } Segment;

static void
end_part(Code *k, const Segment *s, const NodeId *node, uint32_t n, bool host, bool last)
{
    Arena *a = k->b->a;
    const Graph *g = s->g;
    BlockParts p = { .g = g };
    bool *inside = NEW_ARRAY(a, bool, g->node.n), *seen = NEW_ARRAY(a, bool, g->value.n);
    const bool *shared = k->b->shared + run_of(k->b, g)->first;

    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++) {
        inside[node[i]] = true;
        VEC_PUSH(a, &p.node, node[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const Node *x = &g->node.at[node[i]];
        for (uint32_t j = 0; j < x->in.count; j++) {
            ValueId v = node_in(g, x, j);
            if (!shared[v] && !inside[g->value.at[v].def] && !seen[v])
                VEC_PUSH(a, &p.in, v);
            seen[v] = true;
        }
        for (uint32_t j = 0; j < x->out.count; j++) {
            ValueId v = node_out(g, x, j);
            bool outside = s->output[v];
            for (uint32_t u = s->users.first[v]; u < s->users.first[v + 1]; u++)
                outside |= !inside[s->users.node[u]];
            if (outside)
                VEC_PUSH(a, &p.out, v);
        }
    }
    put_block(k, &p, host ? BLOCK_HOST : BLOCK_TOGETHER);
    if (k->ok)
        k->b->block.at[k->b->block.n - 1].last = last;
}

static void
end_segment(Code *k, Segment *s)
{
    end_part(k, s, s->host.at, s->host.n, true, false);
    end_part(k, s, s->later.at, s->later.n, false, false);
    end_part(k, s, s->last.at, s->last.n, false, true);
    s->host.n = s->later.n = s->last.n = 0;
}

static void
write_routine(Code *k, const Graph *g, NodeId id)
{
    const Node *n = &g->node.at[id];
    const bool *shared = k->b->shared + run_of(k->b, g)->first;
    BlockParts p = { .g = g };

    VEC_PUSH(k->b->a, &p.node, id);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        bool seen = !v || shared[v];
        for (uint32_t j = 0; j < p.in.n && !seen; j++)
            seen = p.in.at[j] == v;
        if (!seen)
            VEC_PUSH(k->b->a, &p.in, v);
    }
    for (uint32_t i = 0; i < n->out.count; i++)
        if (node_out(g, n, i))
            VEC_PUSH(k->b->a, &p.out, node_out(g, n, i));
    put_block(k, &p, BLOCK_ALONE);
}

static void write_graph(Code *k, const Graph *g, int32_t *out);

static bool
is_shared(const Code *k, const Graph *g, ValueId v)
{
    return k->b->shared[number_of(k->b, g, v)];
}

/* A region's input is where the argument is. A constant is known in the region as it is. */
static void
give_slot(Code *k, const Graph *g, ValueId v, const Graph *in, ValueId input)
{
    if (!is_shared(k, in, input))
        k->slot[number_of(k->b, in, input)] = slot_of(k, g, v);
}

/* A region as a part of the function that it stands in: its inputs are where the arguments are. */
static void
write_region(Code *k, const Graph *g, const Node *n, uint32_t r, uint32_t from, uint32_t first, int32_t *out)
{
    const Graph *in = n->region[r].graph;

    for (uint32_t i = from; i < n->in.count; i++)
        give_slot(k, g, node_in(g, n, i), in, in->input.at[first + i - from]);
    put_update(k, binding_update(k, &n->region[r]));
    write_graph(k, in, out);
    if (k->ok)
        put_results(k, g, n, in, 0, n->out.count, 0);
}

static void
write_if(Code *k, const Graph *g, const Node *n)
{
    int32_t *result = NEW_ARRAY(k->b->a, int32_t, n->out.count + 1), *out = NEW_ARRAY(k->b->a, int32_t, n->out.count + 1);
    uint32_t to[2];

    for (uint32_t i = 0; i < n->in.count; i++)       /* made here, whichever branch reads it */
        if (!i || !is_shared(k, n->region[0].graph, n->region[0].graph->input.at[i - 1]))
            slot_of(k, g, node_in(g, n, i));
    for (uint32_t i = 0; i < n->out.count; i++)
        result[i] = fresh_slot(k, g, node_out(g, n, i));
    put(k, BATCH_BRANCH);
    put(k, slot_of(k, g, node_in(g, n, 0)));
    put(k, type_of(k->b, g, node_in(g, n, 0)));
    put(k, 0);
    to[0] = k->b->code.n - 1;
    for (uint32_t r = 0; r < 2; r++) {
        write_region(k, g, n, r, 1, 0, out);
        for (uint32_t i = 0; i < n->out.count; i++) {
            put(k, BATCH_MOVE);
            put(k, result[i]);
            put(k, out[i]);
        }
        if (!r) {
            put(k, BATCH_JUMP);
            put(k, 0);
            to[1] = k->b->code.n - 1;
        }
        k->b->code.at[to[r]] = (int32_t)k->b->code.n;
    }
}

static void
move_all(Code *k, const int32_t *to, const int32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        put(k, BATCH_MOVE);
        put(k, to[i]);
        put(k, from[i]);
    }
}

/* Is it a constant, and true? */
static bool
is_true(const Graph *g, ValueId v)
{
    return g->value.at[v].data && *(const uint8_t *)g->value.at[v].data;
}

/* The loop is over: sizes that it defines, then what it gives. */
static void
write_loop_results(Code *k, const Graph *g, const Node *n, int32_t counter, const int32_t *now, const int32_t *list)
{
    Batching *b = k->b;
    const Graph *body = n->region[0].graph;
    Update carried = { .b = b };

    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        const Type *t = v ? g->value.at[v].type : NULL;
        for (uint32_t d = 0; t && d < t->rank; d++) {
            uint32_t f = node_fresh(n, t->dim[d]);
            if (f != UINT32_MAX && i < n->ncarried)
                add_update(&carried, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[f].name) }, body->value.at[body->input.at[2 + i]].type->dim[d]);
            if (f != UINT32_MAX && i >= n->ncarried && d == 0) {
                put(k, BATCH_TURNS);
                put(k, late_number(k, n->fresh[f].name));
                put(k, counter);
            }
        }
    }
    put_update(k, end_update(&carried));
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        if (v && i < n->ncarried)
            k->slot[number_of(b, g, v)] = now[i];
        if (!v || i < n->ncarried)
            continue;
        put(k, BATCH_STACK);
        put(k, fresh_slot(k, g, v));
        put(k, type_of(b, g, v));
        put(k, list[i - n->ncarried]);
    }
}

/* turn; while it goes on: body; what is carried, all at once. Whether it goes on is asked where that is not known. */
static void
write_loop(Code *k, const Graph *g, const Node *n)
{
    Batching *b = k->b;
    const Graph *body = n->region[0].graph;
    uint32_t carried = n->ncarried, stacked = n->out.count - carried;
    int32_t *now = NEW_ARRAY(b->a, int32_t, carried + 1), *next = NEW_ARRAY(b->a, int32_t, carried + 1), *out = NEW_ARRAY(b->a, int32_t, body->output.n + 1);
    int32_t *list = NEW_ARRAY(b->a, int32_t, stacked + 1);
    ValueId turns = node_in(g, n, 0), go = node_in(g, n, 1), turn = body->input.at[0], again = body->output.at[0];
    bool begins = !go || is_true(g, go), ends = again != body->input.at[1] && !is_true(body, again);
    int32_t counter = k->ncounter++, going = !begins || ends ? k->nslot++ : -1;
    const uint32_t *uses = graph_uses(body, b->a);
    Update zero = { .b = b }, rebind = { .b = b };

    if (uses[body->input.at[1]] > (again == body->input.at[1])) {
        refuse(b, n, "asks in its body whether it goes on");
        k->ok = false;
        return;
    }
    for (uint32_t i = 0; i < n->in.count; i++)       /* made before the first turn */
        if (node_in(g, n, i) && (i != 1 || !begins) && (i < 2 || !is_shared(k, body, body->input.at[i])))
            slot_of(k, g, node_in(g, n, i));
    for (uint32_t i = 0; i < carried; i++) {
        now[i] = k->nslot++;
        next[i] = k->nslot++;
        put(k, BATCH_MOVE);
        put(k, now[i]);
        put(k, slot_of(k, g, node_in(g, n, 2 + i)));
    }
    for (uint32_t i = 0; i < stacked; i++) {
        list[i] = k->nslot++;
        put(k, BATCH_LIST);
        put(k, list[i]);
    }
    for (uint32_t f = 0; f < n->nfresh; f++)         /* of what no turn makes */
        add_update(&zero, (Var){ VAR_SYMBOL, MAP_PTR(n->fresh[f].name) }, expr_int(b->c, 0));
    put_update(k, end_update(&zero));
    put(k, BATCH_BEGIN);
    put(k, counter);
    put(k, going);
    if (!begins)
        move_all(k, &going, (int32_t[]){ slot_of(k, g, go) }, 1);
    put_update(k, binding_update(k, &n->region[0]));
    uint32_t top = b->code.n;
    put(k, BATCH_TURN);
    put(k, counter);
    put(k, turns ? slot_of(k, g, turns) : -1);
    put(k, turns ? type_of(b, g, turns) : 0);
    put(k, going);
    put(k, type_of(b, body, again));
    put(k, 0);
    uint32_t end = b->code.n - 1;
    if (uses[turn]) {
        put(k, BATCH_COUNT);
        put(k, fresh_slot(k, body, turn));
        put(k, type_of(b, body, turn));
        put(k, counter);
    }
    for (uint32_t i = 0; i < carried; i++)
        k->slot[number_of(b, body, body->input.at[2 + i])] = now[i];
    for (uint32_t i = 2 + carried; i < n->in.count; i++)
        give_slot(k, g, node_in(g, n, i), body, body->input.at[i]);
    if (!ends && uses[again] == 1)
        k->slot[number_of(b, body, again)] = 0;              /* nobody reads it */
    write_graph(k, body, out);
    if (!k->ok)
        return;
    if (ends)                        /* it may be what is carried, so it is asked before that is another */
        move_all(k, &going, out, 1);
    move_all(k, next, out + 1, carried);
    move_all(k, now, next, carried);
    for (uint32_t i = 0; i < stacked; i++) {
        put(k, BATCH_ADD);
        put(k, list[i]);
        put(k, out[1 + carried + i]);
    }
    put_results(k, g, n, body, carried, stacked, 1);
    for (uint32_t i = 0; i < carried; i++) {
        const Type *in = body->value.at[body->input.at[2 + i]].type, *made = body->value.at[body->output.at[1 + i]].type;
        Var v;
        for (uint32_t d = 0; d < in->rank; d++)
            if (in->dim[d] != made->dim[d] && expr_is_var(in->dim[d], &v) && v.kind == VAR_SYMBOL)
                add_update(&rebind, v, made->dim[d]);
    }
    put_update(k, end_update(&rebind));
    put(k, BATCH_NEXT);
    put(k, counter);
    put(k, top);
    b->code.at[end] = (int32_t)b->code.n;
    write_loop_results(k, g, n, counter, now, list);
}

static uint32_t
function_of(Batching *b, const Graph *g)
{
    uint64_t at = 0;

    map_get(&b->at, MAP_PTR(g), &at);
    if (!b->run[at].function) {
        b->run[at].function = true;
        b->run[at].number = b->function.n;
        VEC_PUSH(b->to, &b->function, ((BatchFunction){ .graph = g }));
    }
    return b->run[at].number;
}

static void
write_call(Code *k, const Graph *g, const Node *n)
{
    const Graph *in = n->region[0].graph;

    for (uint32_t i = 0; i < n->in.count; i++)
        if (!is_shared(k, in, in->input.at[i]))
            slot_of(k, g, node_in(g, n, i));
    put(k, BATCH_CALL);
    put(k, function_of(k->b, n->region[0].graph));
    put(k, binding_update(k, &n->region[0]));
    Update after = { .b = k->b };
    add_results(&after, g, n, n->region[0].graph, 0, n->out.count, 0);
    put(k, end_update(&after));
    put(k, n->in.count);
    for (uint32_t i = 0; i < n->in.count; i++)       /* of a constant nobody asks where it is */
        put(k, is_shared(k, in, in->input.at[i]) ? 0 : slot_of(k, g, node_in(g, n, i)));
    put(k, n->out.count);
    for (uint32_t i = 0; i < n->out.count; i++)
        put(k, fresh_slot(k, g, node_out(g, n, i)));
}

typedef struct { const Map *definer; uint64_t last; } Last;

static void
see_definer(void *user, Var v)
{
    Last *l = user;
    uint64_t id;

    if (v.kind == VAR_SYMBOL && map_get(l->definer, v.id, &id) && id > l->last)
        l->last = id;
}

/* What is asked of sizes that are all known when node `id` has run; 0: when the graph begins, which for the model is before anything runs. */
static void
put_checks(Code *k, const Graph *g, const Map *definer, NodeId id)
{
    for (uint32_t i = 0; i < g->constraints.n; i++) {
        Constraint x = g->constraints.at[i];
        Last l = { definer, 0 };
        expr_vars(x.a, see_definer, &l);
        expr_vars(x.b, see_definer, &l);
        if (l.last != id || (!id && g == k->b->function.at[0].graph))
            continue;
        x.a = outside(k->b, x.a);    /* simplified, it would be taken for true */
        x.b = outside(k->b, x.b);
        x.at = x.at ? outside(k->b, x.at) : NULL;
        put(k, BATCH_CHECK);
        put(k, k->b->check.n);
        VEC_PUSH(k->b->to, &k->b->check, x);
    }
}

static void
write_match(Code *k, const Graph *g, const Node *n)
{
    int32_t slot = slot_of(k, g, node_in(g, n, 0));

    put(k, BATCH_MATCH);
    put(k, slot);
    put(k, type_of(k->b, g, node_in(g, n, 0)));
    put(k, dtype_info[g->value.at[node_in(g, n, 0)].type->dtype].bytes);
    put(k, n->nfresh);
    for (uint32_t f = 0; f < n->nfresh; f++)
        put(k, late_number(k, n->fresh[f].name));
    if (node_out(g, n, 0))
        k->slot[number_of(k->b, g, node_out(g, n, 0))] = slot;
}

static bool
is_last(const Batching *b, const Graph *g, const Node *n)
{
    bool last = true;

    for (uint32_t i = 0; i < n->out.count; i++)
        last = last && b->last[number_of(b, g, node_out(g, n, i))];
    return last;
}

/* The code of a graph; out [its outputs]: where they are. */
static void
write_graph(Code *k, const Graph *g, int32_t *out)
{
    Segment s = { .g = g, .users = graph_users(g, k->b->a), .output = graph_outputs(g, k->b->a) };
    uint32_t first = run_of(k->b, g)->first;
    Map definer = graph_definers(g, k->b->a);

    put_checks(k, g, &definer, 0);
    for (NodeId id = 1; id < g->node.n && k->ok; id++) {
        const Node *n = &g->node.at[id];
        ValueId made = n->out.count ? node_out(g, n, 0) : 0;
        if (n->callee == CALL_NEST) {
            if (k->b->shared[first + made])
                continue;            /* made where it is read */
            if (k->b->host[first + made] && k->b->needed[first + made])
                VEC_PUSH(k->b->a, &s.host, id);
            else if (is_last(k->b, g, n))
                VEC_PUSH(k->b->a, &s.last, id);
            else
                VEC_PUSH(k->b->a, &s.later, id);
            continue;
        }
        end_segment(k, &s);
        if (n->callee == CALL_OP)
            write_routine(k, g, id);
        else if (n->callee == CALL_IF)
            write_if(k, g, n);
        else if (n->callee == CALL_LOOP)
            write_loop(k, g, n);
        else if (n->callee == CALL_MATCH)
            write_match(k, g, n);
        else
            write_call(k, g, n);
        if (n->nfresh && k->ok)
            put_checks(k, g, &definer, id);
    }
    if (!k->ok)
        return;
    end_segment(k, &s);
    for (uint32_t i = 0; i < g->output.n && k->ok; i++)
        out[i] = slot_of(k, g, g->output.at[i]);
}

static bool
write_functions(Batching *b, const Graph *g)
{
    Code k = { .b = b, .slot = NEW_ARRAY(b->a, int32_t, b->nvalue), .ok = true };

    for (uint32_t i = 0; i < b->nvalue; i++)
        k.slot[i] = -1;
    function_of(b, g);
    for (uint32_t f = 0; f < b->function.n && k.ok; f++) {
        const Graph *of = b->function.at[f].graph;
        int32_t *out = NEW_ARRAY(b->a, int32_t, of->output.n + 1);
        b->function.at[f].code = b->code.n;
        k.nslot = k.ncounter = 0;
        for (uint32_t i = 0; i < of->input.n; i++)
            fresh_slot(&k, of, is_shared(&k, of, of->input.at[i]) ? 0 : of->input.at[i]);
        write_graph(&k, of, out);
        put(&k, BATCH_RETURN);
        put(&k, of->output.n);
        for (uint32_t i = 0; i < of->output.n; i++)
            put(&k, out[i]);
        b->function.at[f].nslot = (uint32_t)k.nslot;
        b->function.at[f].ncounter = (uint32_t)k.ncounter;
    }
    return k.ok;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */

static void
begin(Batching *b, const Graph *g)
{
    static const int64_t usual[] = { 1, 8, 64 };
    Ctx *c = g->ctx;

    b->all = graph_all(g, b->a);
    b->run = NEW_ARRAY(b->a, Run, b->all.n);
    for (uint32_t i = 0; i < b->all.n; i++) {
        b->run[i] = (Run){ .g = b->all.at[i], .first = b->nvalue };
        map_put(&b->at, MAP_PTR(b->all.at[i]), i);
        b->nvalue += b->all.at[i]->value.n;
    }
    b->shared = NEW_ARRAY(b->a, bool, b->nvalue);
    b->host = NEW_ARRAY(b->a, bool, b->nvalue);
    b->constant = NEW_ARRAY(b->a, BatchConstant, b->nvalue);
    b->several = NEW_ARRAY(b->a, bool, b->nvalue);
    b->last = NEW_ARRAY(b->a, bool, b->nvalue);
    b->needed = NEW_ARRAY(b->a, bool, b->nvalue);
    expr_is_var(expr_fresh_symbol(c, "instances"), &b->instances);
    expr_is_var(expr_fresh_symbol(c, "rows"), &b->rows);
    expr_symbol_range(c, b->instances, (Interval){ 1, INT32_MAX });
    expr_symbol_range(c, b->rows, (Interval){ 1, INT32_MAX });
    expr_symbol_alike(c, b->instances);
    expr_symbol_expect(c, b->instances, (Usual){ 3, usual });
}

static const uint32_t *
types_of(Batching *b, const Graph *g, const ValueId *v, uint32_t n)
{
    uint32_t *type = NEW_ARRAY(b->to, uint32_t, n + 1);

    for (uint32_t i = 0; i < n; i++)
        type[i] = type_of(b, g, v[i]);
    return type;
}

/* Nothing is known of them before it ran. */
static NewSymbol *
late_symbols(Batching *b)
{
    NewSymbol *fresh = NEW_ARRAY(b->to, NewSymbol, b->late.n + 1);

    for (uint32_t i = 0; i < b->late.n; i++)
        fresh[i].name = (Sym)(uintptr_t)b->late.at[i].id;
    return fresh;
}

static Graph *
with_blocks(Batching *b, const Graph *g)
{
    ValueId *map;
    Graph *to = graph_rebuild(g, &map);
    Batch *made = NEW(to->arena, Batch);

    ValueId *in = NEW_ARRAY(to->arena, ValueId, g->input.n + 1), *out = NEW_ARRAY(to->arena, ValueId, g->output.n + 1);
    for (uint32_t i = 0; i < g->input.n; i++)
        in[i] = map[g->input.at[i]];
    for (uint32_t i = 0; i < g->output.n; i++) {     /* one that is an input, or an output before, is made for nobody */
        out[i] = graph_value(to, g->value.at[g->output.at[i]].name, g->value.at[g->output.at[i]].type);
        map[g->output.at[i]] = map[g->output.at[i]] ? map[g->output.at[i]] : out[i];
    }
    made->input_type = types_of(b, g, g->input.at, g->input.n);
    made->output_type = types_of(b, g, g->output.at, g->output.n);
    made->ninput = g->input.n;
    made->noutput = g->output.n;
    made->nfunction = b->function.n;
    made->function = b->function.at;
    made->nblock = b->block.n;
    made->block = b->block.at;
    made->ntype = b->type.n;
    made->type = b->type.at;
    made->ncode = b->code.n;
    made->code = b->code.at;
    made->nsize = b->size.n;
    made->size = b->size.at;
    made->nlate = b->late.n;
    made->late = b->late.at;
    made->ncheck = b->check.n;
    made->check = b->check.at;
    made->nupdate = b->update.n;
    made->update = b->update.at;
    made->instances = b->instances;
    made->rows = b->rows;
    Node blocks = { .callee = CALL_BLOCKS, .nfresh = b->late.n, .fresh = late_symbols(b), .nregion = b->region.n, .region = b->region.at, .batch = made };
    graph_call_region(to, &blocks, g->input.n, in, g->output.n, out);
    graph_finish(to, g, map);
    return to;
}

Graph *
batch_graph(const Graph *g, const char **why)
{
    Arena *scratch = arena_child(g->arena);
    Batching b = { .c = g->ctx, .a = scratch, .to = g->arena, .at.arena = scratch, .type_at.arena = scratch, .late_at.arena = scratch };

    *why = NULL;
    begin(&b, g);
    Graph *to = (Graph *)g;
    if (may_all(&b)) {
        find_sizes(&b);
        find_constants(&b);
        find_shared(&b);
        find_host(&b);
        find_needed(&b);
        find_last(&b);
        to = write_functions(&b, g) ? with_blocks(&b, g) : b.why ? (Graph *)g : NULL;
    }
    *why = b.why;
    arena_free(scratch);
    return to;
}
