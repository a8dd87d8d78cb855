/* compile_interpret: the model as imported, run by the interpreter: what compiled code is compared with. */
#include "api/compile_internal.h"

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

    if (!TN_CHECK_SIZE(ctx, TnTensor, x))
        return false;
    if (x->name && strcmp(x->name, v->name))
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "input %s was given where %s belongs", x->name, v->name);
    if (!x->dtype || dtype_from_name(x->dtype, strlen(x->dtype)) != t->dtype)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "input %s is %s, the model wants %s", v->name,
                          x->dtype ? x->dtype : "of no type", dtype_info[t->dtype].name);
    if (x->rank != t->rank)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "input %s has rank %d, the model wants %s", v->name, x->rank,
                          type_str(&ctx->c, t));
    *out = (Tensor){ .dtype = t->dtype, .rank = t->rank, .data = x->data };
    int64_t bytes = dtype_info[t->dtype].bytes;
    for (uint32_t d = 0; d < t->rank; d++) {
        out->dim[d] = x->dims[d];
        if (x->dims[d] < 0 || mul_overflows(bytes, x->dims[d], &bytes))
            return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "input %s: dimension %u is %lld, which is not a size",
                              v->name, d, (long long)x->dims[d]);
    }
    return x->bytes == bytes
        || diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "input %s has %lld bytes, its dimensions make %lld", v->name,
                      (long long)x->bytes, (long long)bytes);
}

/* Element i of an array whose structs may be longer than the ones this library knows. */
static TnTensor *
tensor_at(const TnTensor *x, int32_t i)
{
    return (TnTensor *)((char *)x + (size_t)i * x->size);
}

/* Results outlive the call: they go to the caller's memory, or to the context's. */
static bool
give_output(TnContext *ctx, Arena *keep, const char *path, const Value *v, const Tensor *x, TnTensor *out)
{
    int64_t bytes = tensor_count(x) * dtype_info[x->dtype].bytes;

    if (out->data && out->bytes < bytes)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "output %s needs %lld bytes, memory for %lld was given", v->name,
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

typedef struct { const DriverOptions *o; } Reporter;

static void
on_node(void *user, uint32_t done, uint32_t total)
{
    const Reporter *r = user;

    r->o->progress(r->o->user, "nodes interpreted", done, total);
}

static bool
interpret(TnContext *ctx, const Call *call, const char *path, const TnCompileOptions *options, const TnTensor *in, int32_t nin, TnTensor *out,
          int32_t nout)
{
    Arena *a = call->arena;
    DriverOptions o;

    if (!compile_options(ctx, call, options, &o))
        return false;
    Graph *g = driver_load(&ctx->c, a, path, &o);
    if (!g)
        return false;
    if (nin != (int32_t)g->input.n || nout != (int32_t)g->output.n)
        return diag_error(&ctx->c.diags, DIAG_USAGE, at_model(path), "%d inputs and %d outputs were given, the model has %u and %u",
                          nin, nout, g->input.n, g->output.n);
    Tensor *x = NEW_ARRAY(a, Tensor, nin), *y = NEW_ARRAY(a, Tensor, nout);
    for (int32_t i = 0; i < nin; i++)
        if (!take_input(ctx, path, &g->value.at[g->input.at[i]], tensor_at(in, i), &x[i]))
            return false;
    for (int32_t i = 0; i < nout; i++)
        if (!TN_CHECK_SIZE(ctx, TnTensor, tensor_at(out, i)))
            return false;
    Symbols symbols = { 0 };
    Reporter reporter = { &o };
    if (!ref_bind_inputs(g, x, &symbols) || !ref_graph(g, a, &symbols, x, y, o.progress ? on_node : NULL, &reporter))
        return false;
    for (int32_t i = 0; i < nout; i++)
        if (!give_output(ctx, call->keep, path, &g->value.at[g->output.at[i]], &y[i], tensor_at(out, i)))
            return false;
    return true;
}

static TnStatus
interpret_in(TnContext *ctx, Call *call, const char *model_path, const TnCompileOptions *o, const TnTensor *in, int32_t nin, TnTensor *out,
             int32_t nout)
{
    CALL_ENTER(ctx, call);
    call_begin(ctx, call, o);
    return call_end(ctx, call, interpret(ctx, call, model_path, o, in, nin, out, nout));
}

TnStatus
tn_interpret(TnContext *ctx, const char *model_path, const TnCompileOptions *o, const TnTensor *in, int32_t nin, TnTensor *out,
             int32_t nout)
{
    Call call = { 0 };

    return interpret_in(ctx, &call, model_path, o, in, nin, out, nout);
}
