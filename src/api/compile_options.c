/* compile_options: what every entry point of the compiler begins with: its options, its world, and
 * the hook through which tn_tensor_read learns to read ONNX tensors.
 */
#include "api/compile_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hook -------------------------------------------------------------------------------- */

static bool
read_pb(TnContext *ctx, const char *path, TnTensor *out)
{
    Arena *a = ctx->c.arena;
    const Type *type;
    const void *data;
    Bytes file;
    Sym name;

    if (!file_map(a, &ctx->c.diags, path, &file) ||
        !import_tensor_pb(&ctx->c, a, path, file, &name, &type, &data))
        return false;
    int64_t *dims = NEW_ARRAY(a, int64_t, type->rank);
    for (uint32_t d = 0; d < type->rank; d++)
        dims[d] = expr_or(type->dim[d], 0);
    out->name = name;
    out->dtype = dtype_info[type->dtype].name;
    out->rank = type->rank;
    out->dims = dims;
    out->data = (void *)data;
    return type_static_bytes(type, &out->bytes) ||
           diag_error(&ctx->c.diags, DIAG_LIMIT, (Loc){ .file = path },
                      "the tensor's size in bytes exceeds 2^63");
}

void
tn_attach_compiler(TnContext *ctx)
{
    ctx->read_pb = read_pb;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool
copy_dims(TnContext *ctx, Arena *a, const TnCompileOptions *o, ImportOptions *out)
{
    Binding *dim = NEW_ARRAY(a, Binding, o->ndims);

    for (int32_t i = 0; i < o->ndims; i++) {
        if (!o->dims[i].symbol || o->dims[i].value < 0)
            return diag_error(
                &ctx->c.diags, DIAG_USAGE, (Loc){ 0 }, "dimension %s: %lld is not a size",
                o->dims[i].symbol ? o->dims[i].symbol : "(no name)", (long long)o->dims[i].value);
        Var v;
        expr_is_var(expr_symbol(&ctx->c, o->dims[i].symbol), &v);
        dim[i] = (Binding){ v, expr_int(&ctx->c, o->dims[i].value) };
    }
    out->dim = dim;
    out->ndim = (uint32_t)o->ndims;
    return true;
}

static bool
copy_shapes(TnContext *ctx, Arena *a, const TnCompileOptions *o, ImportOptions *out)
{
    ImportShape *shape = NEW_ARRAY(a, ImportShape, o->nshapes);

    for (int32_t i = 0; i < o->nshapes; i++) {
        const TnShape *s = &o->shapes[i];
        if (!s->input || s->rank < 0 || s->rank > TN_MAX_RANK)
            return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                              "the shape of input %s has rank %d; 0 to %d are possible",
                              s->input ? s->input : "(no name)", s->rank, TN_MAX_RANK);
        shape[i] = (ImportShape){ s->input, (uint32_t)s->rank, s->dims };
    }
    out->shape = shape;
    out->nshape = (uint32_t)o->nshapes;
    return true;
}

static bool
copy_orders(TnContext *ctx, Arena *a, const TnOrder *given, int32_t n, const DriverOrder **out,
            uint32_t *nout)
{
    DriverOrder *order = NEW_ARRAY(a, DriverOrder, n);

    for (int32_t i = 0; i < n; i++) {
        if (!given[i].value || !given[i].order)
            return diag_error(
                &ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                "an order of dimensions needs the value's name and the order, such as nhwc");
        order[i] = (DriverOrder){ sym(&ctx->c, given[i].value), given[i].order };
    }
    *out = order;
    *nout = (uint32_t)n;
    return true;
}

static bool
copy_ranges(TnContext *ctx, Arena *a, const TnCompileOptions *o, DriverOptions *out)
{
    DriverRange *range = NEW_ARRAY(a, DriverRange, o->nranges);

    for (int32_t i = 0; i < o->nranges; i++) {
        const TnRange *r = &o->ranges[i];
        if (!r->symbol || r->least < 0 || r->most < r->least)
            return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                              "dimension %s: %lld..%lld is no range of sizes",
                              r->symbol ? r->symbol : "(no name)", (long long)r->least,
                              (long long)r->most);
        range[i] = (DriverRange){ r->symbol, r->least, r->most };
    }
    out->range = range;
    out->nrange = (uint32_t)o->nranges;
    return true;
}

static bool
copy_hints(TnContext *ctx, Arena *a, const TnCompileOptions *o, DriverOptions *out)
{
    DriverHint *hint = NEW_ARRAY(a, DriverHint, o->nhints);

    for (int32_t i = 0; i < o->nhints; i++) {
        const TnHint *h = &o->hints[i];
        if (!h->symbol || h->nsizes < 1 || !h->sizes)
            return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                              "dimension %s: a hint has %d sizes, 1 or more are wanted",
                              h->symbol ? h->symbol : "(no name)", h->sizes ? (int)h->nsizes : 0);
        hint[i] = (DriverHint){ h->symbol, h->sizes, (uint32_t)h->nsizes };
    }
    out->hint = hint;
    out->nhint = (uint32_t)o->nhints;
    return true;
}

static bool
copy_states(TnContext *ctx, Arena *a, const TnCompileOptions *o, DriverOptions *out)
{
    DriverState *state = NEW_ARRAY(a, DriverState, o->nstate);

    for (int32_t i = 0; i < o->nstate; i++) {
        if (!o->state[i].input || !o->state[i].output)
            return diag_error(
                &ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                "a state needs the name of an input, and that of the output that it is afterwards");
        state[i] = (DriverState){ o->state[i].input, o->state[i].output };
    }
    out->state = state;
    out->nstate = (uint32_t)o->nstate;
    return true;
}

bool
compile_options(TnContext *ctx, const ApiCall *call, const TnCompileOptions *given,
                DriverOptions *out)
{
    const TnCompileOptions *o = &call->options;

    *out = (DriverOptions){ 0 };
    if (!given)
        return true;
    if (!(o->density >= 0 && o->density <= 1))
        return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                          "density %g: a share above 0 and at most 1 is possible; 0: the default",
                          o->density);
    if (!TN_CHECK_GROWN(ctx, TnCompileOptions, given, time))
        return false;
    if (!(o->max_seconds >= 0) || o->max_memory_bytes < 0 || o->max_arena_bytes < 0 ||
        o->max_nodes < 0 || o->max_model_bytes < 0 || o->max_depth < 0 || o->weights_growth < 0 ||
        o->variants < 0)
        return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 },
                          "a limit is negative; 0 stands for its default");
    *out = (DriverOptions){
        .target = o->target,
        .emit = o->emit,
        .machine = o->machine,
        .cores = o->cores,
        .schedule = o->plain_schedule ? SCHEDULE_PLAIN : SCHEDULE_BEST,
        .choices = o->choices,
        .alternatives = o->alternatives,
        .fuse = o->fuse,
        .explain = o->explain,
        .why = o->why,
        .must_fuse = o->must_fuse,
        .keep = o->keep,
        .fuse_plan = o->fuse_plan,
        .fuse_bisect = o->fuse_bisect,
        .formats = o->formats,
        .exact = o->exact != 0,
        .keep_denormals = o->keep_denormals != 0,
        .fast_math = o->fast_math != 0,
        .weights_growth = o->weights_growth,
        .variants = o->variants,
        .weights = o->weights,
        .weights_keep = o->weights_keep,
        .quick = o->quick != 0,
        .prefix = o->prefix,
        .example = o->example != 0,
        .time = o->time != 0,
        .import = { .max_model_bytes = o->max_model_bytes,
                    .max_nodes = o->max_nodes,
                    .seed = o->seed,
                    .nests = o->nests,
                    .library = o->library,
                    .given = o->given },
        .build = { .cc = o->cc,
                   .cache_dir = o->cache_dir,
                   .cache_bytes = o->cache_bytes,
                   .jobs = o->jobs },
        .dump = o->dump,
        .dump_dir = o->dump_dir,
        .stop_after = o->stop_after,
        .page = o->page,
        .page_profile = o->page_profile,
        .max_memory_bytes = o->max_memory_bytes,
        .max_arena_bytes = o->max_arena_bytes,
        .max_trips = o->max_trips,
        .max_calls = o->max_calls,
        .progress = o->progress,
        .print = o->print,
        .user = o->user,
    };
    out->explain_formats = o->explain_formats != 0;
    out->state_rows = o->state_capacity;
    out->ragged = o->ragged;
    out->packed = o->packed != 0;
    out->many = o->many != 0;
    out->policy = o->policy;
    return copy_ranges(ctx, call->arena, o, out) && copy_hints(ctx, call->arena, o, out) &&
           copy_states(ctx, call->arena, o, out) && copy_dims(ctx, call->arena, o, &out->import) &&
           copy_shapes(ctx, call->arena, o, &out->import) &&
           copy_orders(ctx, call->arena, o->format, o->nformat, &out->format, &out->nformat) &&
           copy_orders(ctx, call->arena, o->io_format, o->nio_format, &out->io_format,
                       &out->nio_format);
}

/* ---- one call -------------------------------------------------------------------------------- */

enum { HEAD = 16 }; /* before each block: its size; keeps the alignment */

static void *
bounded_alloc(void *user, size_t bytes)
{
    ApiCall *call = user;

    if (bytes > call->most - call->used) {
        call->wanted = bytes;
        return NULL;
    }
    char *block = call->under.alloc ? call->under.alloc(call->under.user, HEAD + bytes)
                                    : malloc(HEAD + bytes);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    call->used += bytes;
    return block + HEAD;
}

static void
bounded_release(void *user, void *block)
{
    ApiCall *call = user;
    char *start = (char *)block - HEAD;
    size_t bytes;

    memcpy(&bytes, start, sizeof bytes);
    call->used -= bytes;
    if (call->under.release)
        call->under.release(call->under.user, start);
    else
        free(start);
}

/* Exchange the tables that hang off a context. */
static void
set_world(Ctx *c, const Ctx *from)
{
    c->arena = from->arena;
    c->syms = from->syms;
    c->exprs = from->exprs;
    c->types = from->types;
    c->scalars = from->scalars;
}

static bool
is_stopped(void *user)
{
    const TnCompileOptions *o = user;

    return o->stopped(o->user) != 0;
}

Arena *
call_begin(TnContext *ctx, ApiCall *call, const TnCompileOptions *o)
{
    *call = (ApiCall){ .under = ctx->allocator, .keep = ctx->c.arena };
    if (o)
        memcpy(&call->options, o, o->size < sizeof *o ? o->size : sizeof *o);
    if (call->options.max_memory_bytes > 0)
        call->most = (size_t)call->options.max_memory_bytes;
    if (call->options.max_seconds > 0)
        call->watch.until = time_seconds() + call->options.max_seconds;
    ctx->c.max_depth =
        call->options.max_depth < DEPTH_MOST ? (uint32_t)call->options.max_depth : DEPTH_MOST;
    ctx->c.exact = call->options.exact != 0;
    ctx->c.density = call->options.density;
    call->watch.stopped = call->options.stopped ? is_stopped : NULL;
    call->watch.user = &call->options;
    call->bounded = (Allocator){ bounded_alloc, bounded_release, call };
    call->arena = arena_new(call->most ? &call->bounded : &ctx->allocator, &ctx->c.oom);
    tn_keep(ctx, call->arena);
    arena_watch(call->arena, &call->watch);
    set_world(&call->outer, &ctx->c);
    call->inside = true;
    set_world(&ctx->c, &(Ctx){ .arena = call->arena });
    return call->arena;
}

TnStatus
call_end(TnContext *ctx, ApiCall *call, bool ok)
{
    TnStatus status = tn_leave(ctx, ok);

    arena_watch(call->arena, NULL);
    set_world(&ctx->c, &call->outer);
    tn_drop(ctx, call->arena);
    return status;
}

/* "while 12 of 30 kernels …": how far it had come, which tells how much more is needed. */
static int
print_progress(char *to, size_t n, const Watch *w)
{
    if (!w->doing)
        return snprintf(to, n, "before the first stage");
    if (!w->total)
        return snprintf(to, n, "in stage %s", w->doing);
    return snprintf(to, n, "in stage %s, %u of %u kernels done", w->doing, w->done, w->total);
}

TnStatus
call_no_memory(TnContext *ctx, ApiCall *call)
{
    const Watch *w = &call->watch;
    char where[128];

    if (call->inside)
        set_world(&ctx->c, &call->outer);
    size_t used = call->used;
    TnStatus status = tn_no_memory(ctx);
    print_progress(where, sizeof where, w);
    if (w->over == WATCH_STOPPED)
        snprintf(ctx->last, sizeof ctx->last, "error: stopped by its caller %s", where);
    else if (w->over == WATCH_TIME)
        snprintf(
            ctx->last, sizeof ctx->last,
            "error: the compilation may take %g s (--max-time, max_seconds), and that was over %s. "
            "Raise the limit or compile a smaller model",
            call->options.max_seconds, where);
    else if (call->wanted)
        snprintf(ctx->last, sizeof ctx->last,
                 "error: the compilation may use %.1f MB (--max-memory, max_memory_bytes); it had "
                 "%.1f MB and needed "
                 "%.1f MB more %s. Raise the limit or compile a smaller model",
                 (double)call->most / (1 << 20), (double)used / (1 << 20),
                 (double)call->wanted / (1 << 20), where);
    else
        return status;
    ctx->error = ctx->last;
    return status;
}
