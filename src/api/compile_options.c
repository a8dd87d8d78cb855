/* compile_options: what every entry point of the compiler begins with: its options, its world, and
 * the hook through which tn_tensor_read learns to read ONNX tensors.
 */
#include "api/compile_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- the hook ---------------------------------------------------------------------------------- */

static bool
read_pb(TnContext *ctx, const char *path, TnTensor *out)
{
    Arena *a = ctx->c.arena;
    const Type *type;
    const void *data;
    Bytes file;
    Sym name;

    if (!file_map(a, &ctx->c.diags, path, &file) || !import_tensor_pb(&ctx->c, a, path, file, &name, &type, &data))
        return false;
    int64_t *dims = NEW_ARRAY(a, int64_t, type->rank);
    for (uint32_t d = 0; d < type->rank; d++)
        dims[d] = expr_or(type->dim[d], 0);
    out->name = name;
    out->dtype = dtype_info[type->dtype].name;
    out->rank = type->rank;
    out->dims = dims;
    out->data = (void *)data;
    return type_static_bytes(type, &out->bytes)
        || diag_error(&ctx->c.diags, DIAG_LIMIT, (Loc){ .file = path }, "the tensor's size in bytes exceeds 2^63");
}

void
tn_attach_compiler(TnContext *ctx)
{
    ctx->read_pb = read_pb;
}

/* ---- options ------------------------------------------------------------------------------------- */

static bool
copy_dims(TnContext *ctx, Arena *a, const TnCompileOptions *o, ImportOptions *out)
{
    Binding *dim = NEW_ARRAY(a, Binding, o->ndims);

    for (int32_t i = 0; i < o->ndims; i++) {
        if (!o->dims[i].symbol || o->dims[i].value < 0)
            return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 }, "dimension %s: %lld is not a size",
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
            return diag_error(&ctx->c.diags, DIAG_USAGE, (Loc){ 0 }, "the shape of input %s has rank %d; 0 to %d are possible",
                              s->input ? s->input : "(no name)", s->rank, TN_MAX_RANK);
        shape[i] = (ImportShape){ s->input, (uint32_t)s->rank, s->dims };
    }
    out->shape = shape;
    out->nshape = (uint32_t)o->nshapes;
    return true;
}

bool
compile_options(TnContext *ctx, Arena *a, const TnCompileOptions *o, DriverOptions *out)
{
    *out = (DriverOptions){ 0 };
    if (!o)
        return true;
    if (!TN_CHECK_SIZE(ctx, TnCompileOptions, o))
        return false;
    *out = (DriverOptions){
        .target = o->target, .emit = o->emit, .machine = o->machine, .cores = o->cores,
        .schedule = o->plain_schedule ? SCHEDULE_PLAIN : SCHEDULE_BEST,
        .no_fuse = o->no_fuse != 0, .quick = o->quick != 0, .time = o->time != 0,
        .import = { .max_model_bytes = o->max_model_bytes, .max_nodes = o->max_nodes },
        .build = { .cc = o->cc, .cache_dir = o->cache_dir, .cache_bytes = o->cache_bytes, .jobs = o->jobs },
        .dump = o->dump, .dump_dir = o->dump_dir, .stop_after = o->stop_after,
        .max_memory_bytes = o->max_memory_bytes,
        .progress = o->progress, .print = o->print, .user = o->user,
    };
    return copy_dims(ctx, a, o, &out->import) && copy_shapes(ctx, a, o, &out->import);
}

/* ---- one call ------------------------------------------------------------------------------------- */

enum { HEAD = 16 };              /* before each block: its size; keeps the alignment */

static void *
bounded_alloc(void *user, size_t bytes)
{
    Call *call = user;

    if (bytes > call->most - call->used) {
        call->hit = true;
        return NULL;
    }
    char *block = call->under.alloc ? call->under.alloc(call->under.user, HEAD + bytes) : malloc(HEAD + bytes);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    call->used += bytes;
    return block + HEAD;
}

static void
bounded_release(void *user, void *block)
{
    Call *call = user;
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

Arena *
call_begin(TnContext *ctx, Call *call, int64_t max_memory_bytes)
{
    *call = (Call){ .under = ctx->allocator, .most = max_memory_bytes > 0 ? (size_t)max_memory_bytes : 0, .keep = ctx->c.arena };
    call->bounded = (Allocator){ bounded_alloc, bounded_release, call };
    call->arena = arena_new(call->most ? &call->bounded : &ctx->allocator, &ctx->c.oom);
    tn_keep(ctx, call->arena);
    set_world(&call->outer, &ctx->c);
    call->inside = true;
    set_world(&ctx->c, &(Ctx){ .arena = call->arena });
    return call->arena;
}

TnStatus
call_end(TnContext *ctx, Call *call, bool ok)
{
    TnStatus status = tn_leave(ctx, ok);

    set_world(&ctx->c, &call->outer);
    tn_drop(ctx, call->arena);
    return status;
}

TnStatus
call_no_memory(TnContext *ctx, Call *call)
{
    if (call->inside)
        set_world(&ctx->c, &call->outer);
    TnStatus status = tn_no_memory(ctx);
    if (call->hit)
        ctx->error = "error: the compilation needs more memory than the limit given (--max-memory, max_memory_bytes). "
                     "Raise the limit or compile a smaller model";
    return status;
}
