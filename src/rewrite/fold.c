/* fold: compute now what does not depend on the inputs.
 *
 * A node becomes a constant when all its inputs are constants, by running its meaning, or when its
 * contents are known from shapes alone: a list of dimensions that are all numbers. What is known
 * but symbolic stays a computed value; `lower` drops it when it has only served to give a shape.
 * A node that cannot be run (an index outside its tensor, say) stays as it is: it may never be
 * reached, and if it is, the run reports it. Outputs of the graph stay computed.
 *
 * Cost    that of the interpreter on the folded nodes; results are at most max_bytes each.
 */
#include "rewrite/internal.h"

/* ---- known contents ------------------------------------------------------------------------------- */

static void
put_int(DType t, void *data, uint32_t i, int64_t v)
{
    switch (dtype_info[t].bytes) {
    case 1: ((uint8_t *)data)[i] = (uint8_t)v; break;
    case 2: ((uint16_t *)data)[i] = (uint16_t)v; break;
    case 4: ((uint32_t *)data)[i] = (uint32_t)v; break;
    case 8: ((int64_t *)data)[i] = v; break;
    }
}

/* The contents of v as numbers, or NULL. */
static void *
known_numbers(const Rebuild *r, const Value *v)
{
    int64_t bytes, k;
    if (!v->known.at || dtype_is_float(v->type->dtype) || !type_static_bytes(v->type, &bytes))
        return NULL;
    for (uint32_t i = 0; i < v->known.n; i++)
        if (!expr_const(v->known.at[i], &k))
            return NULL;
    if ((uint64_t)bytes != (uint64_t)v->known.n * dtype_info[v->type->dtype].bytes)
        return NULL;
    void *data = arena_alloc(r->to->arena, (size_t)bytes);
    for (uint32_t i = 0; i < v->known.n; i++)
        put_int(v->type->dtype, data, i, expr_or(v->known.at[i], 0));
    return data;
}

/* ---- constant inputs --------------------------------------------------------------------------------- */

static bool
static_tensor(const Type *t, const void *data, Tensor *out)
{
    *out = (Tensor){.dtype = t->dtype, .rank = t->rank, .data = (void *)data};
    for (uint32_t d = 0; d < t->rank; d++)
        if (!expr_const(t->dim[d], &out->dim[d]))
            return false;
    return true;
}

static bool
inputs_are_constant(const Rebuild *r, const Node *n, OpCall *call, Tensor *in)
{
    const void **data = NEW_ARRAY(r->scratch, const void *, n->in.count + 1);
    Known *known = NEW_ARRAY(r->scratch, Known, n->in.count + 1);
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = r->map[node_in(r->from, n, i)];
        if (!v)
            continue;
        data[i] = r->to->value.at[v].data;
        known[i] = r->to->value.at[v].known;
        if (!data[i] || !static_tensor(r->to->value.at[v].type, data[i], &in[i]))
            return false;
    }
    call->data = data;
    call->known = known;
    return true;
}

static bool
results_fit(const Rebuild *r, const Node *n, int64_t max_bytes, const Type **out)
{
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(r->from, n, i);
        int64_t bytes;
        out[i] = v ? r->from->value.at[v].type : NULL;
        if (v && (r->is_output[v] || !type_static_bytes(out[i], &bytes) || bytes > max_bytes))
            return false;
    }
    return true;
}

/* Run without leaving a trace in the diagnostics if it cannot be. */
static bool
run_quietly(const Rebuild *r, const OpCall *call, const Type *const *type, const Tensor *in, Tensor *out)
{
    Diags *d = &r->from->ctx->diags;
    uint32_t n = d->list.n;
    DiagClass worst = d->worst;
    if (ref_op(r->from->ctx, r->to->arena, call, type, in, out))
        return true;
    d->list.n = n;
    d->worst = worst;
    return false;
}

static bool
fold_node(Rebuild *r, NodeId id, int64_t max_bytes)
{
    const Graph *g = r->from;
    const Node *n = &g->node.at[id];
    uint32_t nin = n->in.count, nout = n->out.count;
    const Type **type = NEW_ARRAY(r->scratch, const Type *, nout + 1);
    Tensor *in = NEW_ARRAY(r->scratch, Tensor, nin + 1), *out = NEW_ARRAY(r->scratch, Tensor, nout + 1);
    if (n->callee != CALL_OP || nout == 0 || !results_fit(r, n, max_bytes, type))
        return false;
    ValueId only = node_out(g, n, 0);
    if (nout == 1 && only && (out[0].data = known_numbers(r, &g->value.at[only]))) {
        r->map[only] = graph_const(r->to, g->value.at[only].name, type[0], out[0].data);
        return true;
    }
    OpCall call = graph_op_call(g, r->scratch, id);
    if (!inputs_are_constant(r, n, &call, in) || !run_quietly(r, &call, type, in, out))
        return false;
    for (uint32_t i = 0; i < nout; i++)
        if (node_out(g, n, i))
            r->map[node_out(g, n, i)] = graph_const(r->to, g->value.at[node_out(g, n, i)].name, type[i], out[i].data);
    return true;
}

Graph *
rewrite_fold(const Graph *g, int64_t max_bytes)
{
    Rebuild r;
    rebuild_begin(&r, g);
    for (NodeId id = 1; id < g->node.n; id++)
        if (!fold_node(&r, id, max_bytes))
            graph_copy_node(r.to, g, id, r.map);
    return rebuild_end(&r);
}
