/* blocks: some nodes of a graph as a graph of their own, with an axis of instances unless the block
 * runs for one request at a time. */
#include "batch/batch.h"

typedef struct {
    const BlockParts *p;
    Ctx *c;
    const Graph *from;
    Graph *to;
    const Expr *instances, *rows;
    ValueId *map;       /* [value of from] */
    ValueId *spread;    /* the same, with an axis of instances for shared values too */
    ValueId (*pool)[2]; /* the same, for inputs: the pool, and the row numbers */
} BlockBuild;

static bool make_node(BlockBuild *m, NodeId id);

/* The rows of an input for one reader. Each reader has its own copy of the gather, so fusion can
 * inline it into all of them: rows may be matrices, and gathering those takes longer than reading
 * them through row numbers. */
static ValueId
read_rows(BlockBuild *m, ValueId v)
{
    const Value *x = &m->from->value.at[v];

    return graph_nest_value(m->to, batch_read(m->c, x->type, m->instances, m->rows), x->name,
                            (Loc){ 0 }, NULL, m->pool[v]);
}

/* A value as a node reads it; shared values are computed on demand. */
static ValueId
value_of(BlockBuild *m, ValueId v)
{
    const Value *x = &m->from->value.at[v];

    if (v && m->pool[v][1])
        return read_rows(m, v);
    if (m->map[v] || !v)
        return m->map[v];
    if (m->p->constant[v].g)
        return m->map[v] = graph_copy_value(m->to, m->p->constant[v].g, m->p->constant[v].value);
    return m->p->shared[v] && make_node(m, x->def) ? m->map[v] : 0;
}

/* With an axis of instances in any case. */
static ValueId
row_of(BlockBuild *m, ValueId v)
{
    ValueId made = value_of(m, v);

    if (!m->p->shared[v] || !made || m->p->kind != BLOCK_BATCHED)
        return made;
    if (m->spread[v])
        return m->spread[v];
    const Nest *n = batch_spread(m->c, m->from->value.at[v].type, m->instances);
    return m->spread[v] =
               graph_nest_value(m->to, n, m->from->value.at[v].name, (Loc){ 0 }, NULL, &made);
}

/* Is it the initial value of a combining write? */
static bool
is_beginning(const Nest *n, uint32_t slot)
{
    for (uint32_t w = 0; w < n->nwrite; w++)
        if (n->write[w].init == slot)
            return true;
    return false;
}

static bool
make_routine(BlockBuild *m, NodeId id)
{
    const Node *n = &m->from->node.at[id];

    for (uint32_t i = 0; i < n->in.count; i++)
        if (node_in(m->from, n, i) && !value_of(m, node_in(m->from, n, i)))
            return false;
    graph_copy_node(m->to, m->from, id, m->map);
    return true;
}

static bool
make_node(BlockBuild *m, NodeId id)
{
    const Node *n = &m->from->node.at[id];
    Arena *a = m->to->arena;

    if (n->callee == CALL_OP)
        return make_routine(m, id);
    ValueId *in = NEW_ARRAY(a, ValueId, n->in.count + 1),
            *out = NEW_ARRAY(a, ValueId, n->out.count);
    bool *shared = NEW_ARRAY(a, bool, n->in.count + 1), all = true;

    for (uint32_t i = 0; i < n->in.count; i++)
        all = (shared[i] = m->p->shared[node_in(m->from, n, i)]) && all;
    for (uint32_t i = 0; i < n->in.count; i++) {
        if (!all && is_beginning(n->nest, i))
            shared[i] = false;
        in[i] = shared[i] ? value_of(m, node_in(m->from, n, i)) : row_of(m, node_in(m->from, n, i));
        if (!in[i])
            return false;
    }
    const Nest *nest = all || m->p->kind != BLOCK_BATCHED
                           ? n->nest
                           : batch_nest(m->c, n->nest, m->instances, shared);
    if (!nest)
        return diag_error(&m->c->diags, DIAG_INTERNAL, n->loc,
                          "batch: %s has no room for an axis of instances", n->nest->name);
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(m->from, n, i);
        out[i] = m->map[v] =
            graph_value(m->to, m->from->value.at[v].name, nest->param[nest->nin + i].type);
    }
    graph_call_nest(m->to, nest, n->loc, n->origin, in, out);
    return true;
}

static void
make_input(BlockBuild *m, ValueId v)
{
    const Value *x = &m->from->value.at[v];

    if (m->p->kind != BLOCK_BATCHED) {
        m->map[v] = graph_input(m->to, x->name, x->type);
        return;
    }
    m->pool[v][0] = graph_input(m->to, x->name, batch_type(m->c, x->type, m->rows));
    m->pool[v][1] = graph_input(m->to, "row", type_new(m->c, DT_I32, 1, &m->instances));
}

Graph *
batch_block(Arena *a, const BlockParts *p, const char *name)
{
    Ctx *c = p->g->ctx;
    BlockBuild m = { .p = p,
                     .c = c,
                     .from = p->g,
                     .to = graph_new(c, a, name),
                     .instances = expr_var(c, p->instances),
                     .rows = expr_var(c, p->rows),
                     .map = NEW_ARRAY(a, ValueId, p->g->value.n),
                     .spread = NEW_ARRAY(a, ValueId, p->g->value.n),
                     .pool = (ValueId(*)[2])NEW_ARRAY(a, ValueId, 2 * p->g->value.n) };

    for (uint32_t i = 0; i < p->in.n; i++)
        make_input(&m, p->in.at[i]);
    for (uint32_t i = 0; i < p->node.n; i++)
        if (!make_node(&m, p->node.at[i]))
            return NULL;
    for (uint32_t i = 0; i < p->out.n; i++) {
        ValueId v = row_of(&m, p->out.at[i]);
        if (!v)
            return NULL;
        VEC_PUSH(a, &m.to->output, v);
    }
    return m.to;
}
