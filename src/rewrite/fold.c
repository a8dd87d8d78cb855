/* fold: compute at compile time what does not depend on the inputs.
 *
 * A node becomes a constant when all its inputs are constants, by running its meaning, or when its
 * contents follow from shapes alone: a list of dimensions that are all numbers. Known but symbolic
 * contents stay a computed value; `lower` drops it if it only served to give a shape. A node that
 * only gives a constant another shape shares its bytes, whatever their number. A node that cannot
 * be run (an index outside its tensor, say) stays as it is: it may never be reached, and if it is,
 * the run reports it. Outputs of the graph stay computed.
 *
 * A cheap node whose result takes more memory than its constants (nest_widens) stays a node:
 * weights in bf16 or of 4 bits stay as narrow as the model has them, and `normalise` puts the node
 * into its readers. It is computed only for other nodes that are folded.
 *
 * Cost    that of the interpreter on the folded nodes. Each result has at most max_bytes bytes. All
 *         together visit at most FREE_POINTS points, and POINTS_PER_BYTE for each byte of the
 *         model's constants: values derived from weights are folded, and a small model cannot ask
 *         for hours.
 */
#include "rewrite/internal.h"

#define FREE_POINTS ((int64_t)1 << 24)
#define POINTS_PER_BYTE 8

/* A value of the old graph that stays a node of constants. */
typedef struct {
    /* bytes of the constants that it is computed of; 0: it is none such */
    int64_t stored;
    void *data; /* its contents, once a folded reader has asked for them */
} WideValue;

typedef struct {
    Rebuild r;
    int64_t max_bytes, points; /* left to visit */
    WideValue *wide;           /* [from->value.n] */
} Fold;

static int64_t
points_allowed(const Graph *g)
{
    int64_t n = FREE_POINTS, bytes;

    for (ValueId v = 1; v < g->value.n; v++)
        if (g->value.at[v].data && type_static_bytes(g->value.at[v].type, &bytes) &&
            bytes < INT64_MAX / 64 - n)
            n += POINTS_PER_BYTE * bytes;
    return n;
}

/* The nests of a call, if it has any: a routine has none, and a call without a meaning is reported
 * when it is lowered. */
static bool
expand_quietly(Ctx *c, const OpCall *call, const Type *const *type, Expansion *e)
{
    uint32_t n = c->diags.list.n;
    DiagClass worst = c->diags.worst;

    if (!op_is_routine(call->op) && op_expand(c, call, type, e))
        return true;
    c->diags.list.n = n;
    c->diags.worst = worst;
    return false;
}

/* Points of all axes of all nests, or more than `most`. */
static int64_t
points_of(Ctx *c, const OpCall *call, const Type *const *type, int64_t most)
{
    Expansion e;
    int64_t total = 0;

    if (!expand_quietly(c, call, type, &e))
        return 0; /* running it says the same */
    for (uint32_t k = 0; k < e.call.n; k++) {
        const Nest *n = e.call.at[k].nest;
        int64_t points = 1, extent;
        for (uint32_t i = 0; i < n->naxis; i++)
            if (!expr_const(n->axis[i].extent, &extent) || mul_overflows(points, extent, &points) ||
                points > most)
                return INT64_MAX;
        if (add_overflows(total, points, &total) || total > most)
            return INT64_MAX;
    }
    return total;
}

/* ---- known contents -------------------------------------------------------------------------- */

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
        number_store(v->type->dtype, data, i, (Number){ .i = expr_or(v->known.at[i], 0) });
    return data;
}

/* ---- constant inputs ------------------------------------------------------------------------- */

/* What is known of the node's inputs: all are constants, or nodes of constants. *stored: bytes of
 * those. */
static bool
inputs_are_constant(const Fold *f, const Node *n, OpCall *call, Tensor *in, int64_t *stored)
{
    const Rebuild *r = &f->r;
    const Symbols none = { 0 };
    const void **data = NEW_ARRAY(r->scratch, const void *, n->in.count + 1);
    Known *known = NEW_ARRAY(r->scratch, Known, n->in.count + 1);
    int64_t bytes;
    *stored = 0;
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId old = node_in(r->from, n, i), v = r->map[old];
        if (!v)
            continue;
        const Value *value = &r->to->value.at[v];
        data[i] = f->wide[old].stored ? f->wide[old].data : value->data;
        known[i] = value->known;
        if ((!data[i] && !f->wide[old].stored) || !type_static_bytes(value->type, &bytes) ||
            !tensor_over(r->from->ctx, value->type, &none, data[i], &in[i]) ||
            add_overflows(*stored, f->wide[old].stored ? f->wide[old].stored : bytes, stored))
            return false;
    }
    call->data = data;
    call->known = known;
    return true;
}

/* The results may be constants: fixed sizes, none of them an output. */
static bool
result_types(const Rebuild *r, const Node *n, const Type **out, int64_t *largest)
{
    *largest = 0;
    for (uint32_t i = 0; i < n->out.count; i++) {
        ValueId v = node_out(r->from, n, i);
        int64_t bytes = 0;
        out[i] = v ? r->from->value.at[v].type : NULL;
        if (v && (r->is_output[v] || !type_static_bytes(out[i], &bytes)))
            return false;
        *largest = bytes > *largest ? bytes : *largest;
    }
    return true;
}

/* The input whose bytes, in the same order, are all there is to the result; NULL if it is
 * computed. */
static void *
same_bytes(const Rebuild *r, const OpCall *call, const Type *const *type)
{
    Ctx *c = r->from->ctx;
    Expansion e = { 0 };
    if (call->nout != 1 || !expand_quietly(c, call, type, &e) || e.call.n != 1 ||
        e.call.at[0].nest->nwrite != 1)
        return NULL;
    const Nest *n = e.call.at[0].nest;
    const Scalar *load = n->write[0].value;
    if (n->write[0].combiner != COMB_NONE || load->op != S_LOAD || load->u.load.outside)
        return NULL;
    Access read = { .load = load };
    MappingType t = nest_mapping(c, n, &read);
    return t == MAP_ID || t == MAP_RELAYOUT
               ? (void *)call->data[e.call.at[0].value[load->u.load.slot]]
               : NULL;
}

static bool
compute(Fold *f, const OpCall *call, const Type *const *type, int64_t largest, const Tensor *in,
        Tensor *out)
{
    Ctx *c = f->r.from->ctx;
    if ((out[0].data = same_bytes(&f->r, call, type)))
        return true;
    int64_t points = largest <= f->max_bytes ? points_of(c, call, type, f->points) : INT64_MAX;
    if (points > f->points || !ref_op(c, f->r.to->arena, call, type, in, out))
        return false;
    f->points -= points;
    return true;
}

/* Run without leaving a trace in the diagnostics if it cannot be. */
static bool
run_quietly(Fold *f, const OpCall *call, const Type *const *type, int64_t largest, const Tensor *in,
            Tensor *out)
{
    Diags *d = &f->r.from->ctx->diags;
    uint32_t n = d->list.n;
    DiagClass worst = d->worst;
    if (compute(f, call, type, largest, in, out))
        return true;
    d->list.n = n;
    d->worst = worst;
    return false;
}

/* ---- nodes of constants that stay ------------------------------------------------------------ */

static bool
is_wide(const Fold *f, const OpCall *call, const Type *const *type, int64_t stored)
{
    Ctx *c = f->r.from->ctx;
    Expansion e = { 0 };
    return call->nout == 1 && stored && expand_quietly(c, call, type, &e) && e.call.n == 1 &&
           nest_widens(c, e.call.at[0].nest, stored);
}

typedef struct {
    NodeId id;
    bool inputs_done;
} WideVisit;

/* The contents of a wide value and of all wide ones that it is computed of: a loop, since the model
 * decides how many. */
static bool
compute_wide(Fold *f, ValueId wanted)
{
    const Graph *g = f->r.from;
    VEC(WideVisit) stack = { 0 };
    bool ok = true;

    VEC_PUSH(f->r.scratch, &stack, ((WideVisit){ g->value.at[wanted].def, false }));
    while (stack.n && ok) {
        WideVisit *at = &stack.at[stack.n - 1];
        const Node *n = &g->node.at[at->id];
        WideValue *w = &f->wide[node_out(g, n, 0)];
        if (at->inputs_done || w->data) {
            OpCall call = graph_op_call(g, f->r.scratch, at->id);
            Tensor *in = NEW_ARRAY(f->r.scratch, Tensor, n->in.count + 1), out;
            const Type *type;
            int64_t largest, stored;
            ok = w->data ||
                 (result_types(&f->r, n, &type, &largest) &&
                  inputs_are_constant(f, n, &call, in, &stored) &&
                  run_quietly(f, &call, &type, largest, in, &out) && (w->data = out.data));
            stack.n--;
            continue;
        }
        at->inputs_done = true;
        for (uint32_t i = 0; i < n->in.count; i++) {
            ValueId v = node_in(g, n, i);
            if (v && f->wide[v].stored && !f->wide[v].data)
                VEC_PUSH(f->r.scratch, &stack, ((WideVisit){ g->value.at[v].def, false }));
        }
    }
    return ok;
}

static bool
compute_wide_inputs(Fold *f, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(f->r.from, n, i);
        if (v && f->wide[v].stored && !f->wide[v].data && !compute_wide(f, v))
            return false;
    }
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool
fold_node(Fold *f, NodeId id)
{
    Rebuild *r = &f->r;
    const Graph *g = r->from;
    const Node *n = &g->node.at[id];
    uint32_t nin = n->in.count, nout = n->out.count;
    const Type **type = NEW_ARRAY(r->scratch, const Type *, nout + 1);
    Tensor *in = NEW_ARRAY(r->scratch, Tensor, nin + 1),
           *out = NEW_ARRAY(r->scratch, Tensor, nout + 1);
    int64_t largest, stored;
    if (n->callee != CALL_OP || nout == 0 || !result_types(r, n, type, &largest))
        return false;
    ValueId only = node_out(g, n, 0);
    if (nout == 1 && only && largest <= f->max_bytes &&
        (out[0].data = known_numbers(r, &g->value.at[only]))) {
        r->map[only] = graph_const(r->to, g->value.at[only].name, type[0], out[0].data);
        return true;
    }
    OpCall call = graph_op_call(g, r->scratch, id);
    if (!inputs_are_constant(f, n, &call, in, &stored))
        return false;
    if (only && is_wide(f, &call, type, stored)) {
        f->wide[only].stored = stored;
        return false;
    }
    if (!compute_wide_inputs(f, n) || !inputs_are_constant(f, n, &call, in, &stored) ||
        !run_quietly(f, &call, type, largest, in, out))
        return false;
    for (uint32_t i = 0; i < nout; i++)
        if (node_out(g, n, i))
            r->map[node_out(g, n, i)] =
                graph_const(r->to, g->value.at[node_out(g, n, i)].name, type[i], out[i].data);
    return true;
}

Graph *
rewrite_fold(const Graph *g, int64_t max_bytes)
{
    g = rewrite_dce(g); /* unread values are not worth computing */
    Fold f = { .max_bytes = max_bytes, .points = points_allowed(g) };
    rebuild_begin(&f.r, g);
    f.wide = NEW_ARRAY(f.r.scratch, WideValue, g->value.n);
    for (NodeId id = 1; id < g->node.n; id++)
        if (!fold_node(&f, id))
            graph_copy_node(f.r.to, g, id, f.r.map);
    return rebuild_end(&f.r);
}
