/* graph: runs the nodes of a graph in order, each by its definition.
 *
 * A value has an arena of its own, from the node that makes it to the last node that reads it, so
 * that large models need only the memory of their live values. Kernels run as their parts.
 */
#include "ref/internal.h"

/* ---- operators ------------------------------------------------------------------------------- */

/* value: the operator's inputs, then its outputs, allocated; NULL where absent. */
static bool
ref_op_at(Ctx *c, Arena *a, const OpCall *call, const Type *const *out_type, const Symbols *s,
          Tensor *const *value)
{
    Expansion e = { 0 };
    if (op_is_routine(call->op))
        return ref_routine(c, a, call, value);
    if (!op_expand(c, call, out_type, &e))
        return false;
    Tensor **all = NEW_ARRAY(a, Tensor *, e.type.n);
    for (uint32_t v = 0; v < e.type.n; v++) {
        all[v] = v < call->nin + call->nout ? value[v] : NULL;
        if (all[v] || v < call->nin || !e.type.at[v])
            continue;
        all[v] = NEW(a, Tensor);
        if (!tensor_of_type(c, a, e.type.at[v], s, all[v]))
            return false;
    }
    for (uint32_t i = 0; i < e.call.n; i++) {
        const Nest *n = e.call.at[i].nest;
        Tensor **param = NEW_ARRAY(a, Tensor *, n->nin + n->nout);
        for (uint32_t k = 0; k < n->nin + n->nout; k++)
            param[k] = all[e.call.at[i].value[k]];
        if (!ref_nest(c, n, s, param))
            return false;
    }
    return true;
}

bool
ref_op(Ctx *c, Arena *a, const OpCall *call, const Type *const *out_type, const Tensor *in,
       Tensor *out)
{
    const Symbols none = { 0 };
    Tensor **value = NEW_ARRAY(a, Tensor *, call->nin + call->nout);
    for (uint32_t i = 0; i < call->nin; i++)
        value[i] = call->in[i] ? (Tensor *)&in[i] : NULL;
    for (uint32_t i = 0; i < call->nout; i++) {
        value[call->nin + i] = &out[i];
        if (out_type[i] && !tensor_of_type(c, a, out_type[i], &none, &out[i]))
            return false;
    }
    Arena *scratch = arena_child(c->arena);
    bool ok = ref_op_at(c, scratch, call, out_type, &none, value);
    arena_free(scratch);
    return ok;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool
run_op_node(GraphRun *r, Arena *scratch, NodeId id, Tensor **value)
{
    const Graph *g = r->g;
    OpCall call = graph_op_call(g, scratch, id);
    const Type **out_type = NEW_ARRAY(scratch, const Type *, call.nout);
    for (uint32_t i = 0; i < call.nout; i++) {
        ValueId v = node_out(g, &g->node.at[id], i);
        out_type[i] = v ? g->value.at[v].type : NULL;
    }
    return ref_op_at(g->ctx, scratch, &call, out_type, r->symbols, value);
}

static bool
run_node(GraphRun *r, Arena *scratch, NodeId id)
{
    const Graph *g = r->g;
    Ctx *c = g->ctx;
    const Node *n = &g->node.at[id];
    Tensor **value = NEW_ARRAY(scratch, Tensor *, n->in.count + n->out.count);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(g, n, i);
        value[i] = v ? &r->value[v] : NULL;
    }
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(g, n, i);
        if (!v)
            continue;
        value[n->in.count + i] = &r->value[v];
        r->home[v] = arena_child(c->arena);
        if (n->callee > CALL_KERNEL) /* its size is known afterwards */
            continue;
        c->oom.what = g->value.at[v].name;
        if (!tensor_of_type(c, r->home[v], g->value.at[v].type, r->symbols, &r->value[v]))
            return false;
        c->oom.what = NULL;
    }
    switch (n->callee) {
    case CALL_OP: return run_op_node(r, scratch, id, value);
    case CALL_NEST: return ref_nest(c, n->nest, r->symbols, value);
    case CALL_KERNEL: return ref_kernel(c, scratch, n->kernel, r->symbols, value);
    case CALL_MATCH:
    case CALL_IF:
    case CALL_LOOP:
    case CALL_GRAPH:
    case CALL_JOIN:
    case CALL_BLOCKS: return run_control(r, scratch, id, value);
    }
    return false;
}

static void
drop(GraphRun *r, ValueId v)
{
    if (v && r->home[v] && r->uses[v] == 0) {
        arena_free(r->home[v]);
        r->home[v] = NULL;
    }
}

static void
release(GraphRun *r, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(r->g, n, i);
        if (v)
            r->uses[v]--;
        drop(r, v);
    }
    for (uint32_t i = 0; i < n->out.count; i++)
        drop(r, node_out(r->g, n, i));
}

static bool
run_nodes(GraphRun *r, void (*progress)(void *user, uint32_t done, uint32_t total), void *user)
{
    const Graph *g = r->g;
    for (NodeId id = 1; id < g->node.n; id++) {
        Arena *scratch = arena_child(g->ctx->arena);
        bool ok = run_node(r, scratch, id);
        arena_free(scratch);
        if (!ok) {
            diag_note(&g->ctx->diags, g->node.at[id].loc, "while running %s",
                      g->node.at[id].origin ? g->node.at[id].origin : "a node");
            return false;
        }
        release(r, &g->node.at[id]);
        if (progress)
            progress(user, id, g->node.n - 1);
    }
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool
set_values(GraphRun *r, Arena *a, const Tensor *input)
{
    const Graph *g = r->g;
    for (ValueId v = 1; v < g->value.n; v++) {
        if (!g->value.at[v].data)
            continue;
        int64_t bytes;
        if (!tensor_size(g->ctx, g->value.at[v].type, r->symbols, &r->value[v], &bytes))
            return false;
        r->value[v].data = (void *)g->value.at[v].data;
    }
    for (uint32_t i = 0; i < g->input.n; i++) {
        const Value *v = &g->value.at[g->input.at[i]];
        if (!tensor_check(g->ctx, r->symbols, (Loc){ 0 }, arena_printf(a, "graph %s", g->name),
                          v->name, v->type, &input[i]))
            return false;
        r->value[g->input.at[i]] = input[i];
    }
    return true;
}

static void
take_outputs(const GraphRun *r, Arena *a, Tensor *output)
{
    const Graph *g = r->g;
    for (uint32_t i = 0; i < g->output.n; i++) {
        const Tensor *t = &r->value[g->output.at[i]];
        output[i] = *t;
        output[i].data =
            arena_copy(a, t->data, (size_t)tensor_count(t) * dtype_info[t->dtype].bytes);
    }
}

bool
run_graph(const Graph *g, Arena *a, Symbols *s, uint32_t depth, const Tensor *input, Tensor *output,
          void (*progress)(void *user, uint32_t done, uint32_t total), void *user)
{
    Arena *scratch = arena_child(g->ctx->arena);
    GraphRun r = { g,
                   s,
                   NEW_ARRAY(scratch, Tensor, g->value.n),
                   NEW_ARRAY(scratch, Arena *, g->value.n),
                   graph_uses(g, scratch),
                   depth };
    bool ok = set_values(&r, scratch, input) && run_nodes(&r, progress, user);
    if (ok)
        take_outputs(&r, a, output);
    for (ValueId v = 1; v < g->value.n; v++)
        if (r.home[v])
            arena_free(r.home[v]);
    arena_free(scratch);
    return ok;
}

bool
ref_graph(const Graph *g, Arena *a, const Symbols *s, const Tensor *input, Tensor *output,
          void (*progress)(void *user, uint32_t done, uint32_t total), void *user)
{
    Symbols own = { 0 }; /* nodes add the symbols that they define */

    for (uint32_t i = 0; i < s->name.n; i++)
        symbols_set(g->ctx->arena, &own, s->name.at[i], s->value.at[i]);
    return run_graph(g, a, &own, 0, input, output, progress, user);
}
