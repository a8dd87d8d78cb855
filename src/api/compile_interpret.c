/* compile_interpret: run the imported model in the interpreter, the reference for compiled code; or
 * run what is compiled for another processor under an emulator of it. */
#include "api/compile_internal.h"
#include "run/run.h"

#include <string.h>

static Loc
at_model(const char *path)
{
    return (Loc){ .file = path };
}

static bool
take_input(TnContext *ctx, const char *path, const Value *v, const TnTensor *x, Tensor *out)
{
    const Type *t = v->type;
    DType dtype;
    int64_t bytes;

    if (!tn_tensor_data(ctx, x, &dtype, &bytes))
        return false;
    if (x->name && strcmp(x->name, v->name))
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path),
                          "input %s was given where %s belongs", x->name, v->name);
    if (dtype != t->dtype)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path),
                          "input %s is %s, the model wants %s", v->name, dtype_info[dtype].name,
                          dtype_info[t->dtype].name);
    if ((uint32_t)x->rank != t->rank)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path),
                          "input %s has rank %d, the model wants %s", v->name, x->rank,
                          type_str(&ctx->c, t));
    *out = (Tensor){ .dtype = t->dtype, .rank = t->rank, .data = x->data };
    for (uint32_t d = 0; d < t->rank; d++)
        out->dim[d] = x->dims[d];
    return true;
}

/* Results outlive the call: they go to the caller's memory, or to the context's. */
static bool
give_output(TnContext *ctx, Arena *keep, const char *path, const Value *v, const Tensor *x,
            TnTensor *out)
{
    int64_t bytes = tensor_count(x) * dtype_info[x->dtype].bytes;

    if (out->data && out->bytes < bytes)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path),
                          "output %s needs %lld bytes, memory for %lld was given", v->name,
                          (long long)bytes, (long long)out->bytes);
    out->name = arena_str(keep, v->name);
    out->dtype = dtype_info[x->dtype].name;
    out->rank = (int32_t)x->rank;
    out->dims = arena_copy(keep, x->dim, x->rank * sizeof x->dim[0]);
    out->bytes = bytes;
    if (!out->data)
        out->data = arena_alloc(keep, (size_t)bytes);
    memcpy(out->data, x->data, (size_t)bytes);
    for (int64_t i = 0; x->dtype == DT_STR && i < tensor_count(x); i++) {
        const char **s = &((const char **)out->data)[i];
        *s = arena_str(keep, *s ? *s : "");
    }
    return true;
}

/* ---- states: as in a session that has run nothing ---- */

/* Inputs and outputs that are the caller's, by their numbers. */
typedef struct {
    uint32_t nin, nout, *in, *out;
} CallerPorts;

static CallerPorts
caller_ports(const Graph *g, Arena *a)
{
    CallerPorts p = { .in = NEW_ARRAY(a, uint32_t, g->input.n + 1),
                      .out = NEW_ARRAY(a, uint32_t, g->output.n + 1) };
    bool *kept_in = NEW_ARRAY(a, bool, g->input.n + 1),
         *kept_out = NEW_ARRAY(a, bool, g->output.n + 1);

    for (uint32_t i = 0; i < g->state.n; i++)
        kept_in[g->state.at[i].input] = kept_out[g->state.at[i].output] = true;
    for (uint32_t i = 0; i < g->input.n; i++)
        if (!kept_in[i])
            p.in[p.nin++] = i;
    for (uint32_t i = 0; i < g->output.n; i++)
        if (!kept_out[i])
            p.out[p.nout++] = i;
    return p;
}

/* No rows along the dimension that grows, zeros where none does; sizes that the given inputs
 * tell. */
static bool
begin_states(const Graph *g, Arena *a, const CallerPorts *p, Tensor *x)
{
    const Type **declared = NEW_ARRAY(a, const Type *, g->input.n + 1),
               **given = NEW_ARRAY(a, const Type *, p->nin + 1);
    const Expr *dim[TN_MAX_RANK];
    BoundSizes sizes = { 0 };
    uint32_t grows;

    for (uint32_t i = 0; i < p->nin; i++) {
        const Tensor *t = &x[p->in[i]];
        declared[i] = g->value.at[g->input.at[p->in[i]]].type;
        for (uint32_t d = 0; d < t->rank; d++)
            dim[d] = expr_int(g->ctx, t->dim[d]);
        given[i] = type_new(g->ctx, t->dtype, t->rank, dim);
    }
    type_bind(g->ctx, declared, p->nin, given, p->nin, &sizes);
    for (uint32_t i = 0; i < g->state.n; i++) {
        const State *s = &g->state.at[i];
        const Value *v = &g->value.at[g->input.at[s->input]];
        Tensor *t = &x[s->input];
        int64_t bytes;
        graph_state_grows(g, s, &grows);
        *t = (Tensor){ .dtype = v->type->dtype, .rank = v->type->rank };
        for (uint32_t d = 0; d < t->rank; d++) {
            if (d != grows &&
                !expr_const(expr_subst(g->ctx, v->type->dim[d], sizes.at, sizes.n), &t->dim[d]))
                return diag_usage(&g->ctx->diags,
                                  "state %s is %s, and no input tells its dimension %u", v->name,
                                  type_str(g->ctx, v->type), d);
        }
        if (!tensor_bytes(t->dtype, t->rank, t->dim, &bytes))
            return diag_usage(&g->ctx->diags, "state %s has more bytes than there can be", v->name);
        t->data = NEW_ARRAY(a, char, (size_t)bytes + 1);
    }
    return true;
}

static void
on_node(void *user, uint32_t done, uint32_t total)
{
    const TnCompileOptions *o = user;

    o->progress(o->user, "nodes interpreted", done, total);
}

/* How the outputs y are computed from the inputs x, states and all. */
typedef bool Computation(TnContext *ctx, const char *path, const Graph *g, Tensor *x, Tensor *y);

static bool
interpreted(TnContext *ctx, const char *path, const Graph *g, Tensor *x, Tensor *y)
{
    TnCompileOptions *o = &ctx->call->options;
    Symbols symbols = { 0 };

    (void)path;
    return ref_bind_inputs(g, x, &symbols) &&
           ref_graph(g, ctx->call->arena, &symbols, x, y, o->progress ? on_node : NULL, o);
}

static bool
emulated(TnContext *ctx, const char *path, const Graph *g, Tensor *x, Tensor *y)
{
    return driver_emulate(&ctx->c, ctx->call->arena, path, &ctx->call->options, g, x, y);
}

static bool
compute(TnContext *ctx, const char *path, Computation *how, const TnTensor *in, int32_t nin,
        TnTensor *out, int32_t nout)
{
    Arena *a = ctx->call->arena;
    TnCompileOptions *o = &ctx->call->options;
    Graph *g = path ? driver_load(&ctx->c, a, path, o) : NULL;

    if (!path)
        return diag_usage(&ctx->c.diags, "no model file was named");
    if (!g)
        return false;
    CallerPorts p = caller_ports(g, a);
    if ((nin > 0 && !in) || (nout > 0 && !out))
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "the %s are NULL",
                          nin > 0 && !in ? "inputs" : "outputs");
    if (nin != (int32_t)p.nin || nout != (int32_t)p.nout)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path),
                          "%d inputs and %d outputs were given, the model has %u and %u", nin, nout,
                          p.nin, p.nout);
    Tensor *x = NEW_ARRAY(a, Tensor, g->input.n), *y = NEW_ARRAY(a, Tensor, g->output.n);
    for (int32_t i = 0; i < nin; i++)
        if (!take_input(ctx, path, &g->value.at[g->input.at[p.in[i]]], tn_tensor_at(in, i),
                        &x[p.in[i]]))
            return false;
    for (int32_t i = 0; i < nout; i++)
        if (!TN_CHECK_SIZE(ctx, TnTensor, tn_tensor_at(out, i)))
            return false;
    if (!begin_states(g, a, &p, x) || !how(ctx, path, g, x, y))
        return false;
    for (int32_t i = 0; i < nout; i++)
        if (!give_output(ctx, ctx->call->keep, path, &g->value.at[g->output.at[p.out[i]]],
                         &y[p.out[i]], tn_tensor_at(out, i)))
            return false;
    return true;
}

TnStatus
tn_interpret(TnContext *ctx, const char *model_path, const TnCompileOptions *o, const TnTensor *in,
             int32_t nin, TnTensor *out, int32_t nout)
{
    CALL_ENTER(ctx, o);
    return call_end(ctx, compute(ctx, model_path, interpreted, in, nin, out, nout));
}

TnStatus
tn_emulate(TnContext *ctx, const char *model_path, const TnCompileOptions *o, const TnTensor *in,
           int32_t nin, TnTensor *out, int32_t nout)
{
    CALL_ENTER(ctx, o);
    return call_end(ctx, compute(ctx, model_path, emulated, in, nin, out, nout));
}
