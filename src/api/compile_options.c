/* compile_options: what every entry point of the compiler begins with: its options, its memory, and
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
        .target = o->target, .emit = o->emit,
        .schedule = o->plain_schedule ? SCHEDULE_PLAIN : SCHEDULE_BEST,
        .no_fuse = o->no_fuse != 0, .time = o->time != 0,
        .import = { .max_model_bytes = o->max_model_bytes, .max_nodes = o->max_nodes },
        .build = { .cc = o->cc, .cache_dir = o->cache_dir, .cache_bytes = o->cache_bytes, .jobs = o->jobs },
        .dump = o->dump, .dump_dir = o->dump_dir, .stop_after = o->stop_after,
        .max_memory_bytes = o->max_memory_bytes,
        .progress = o->progress, .print = o->print, .user = o->user,
    };
    return copy_dims(ctx, a, o, &out->import) && copy_shapes(ctx, a, o, &out->import);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

enum { HEAD = 16 };              /* before each block: its size; keeps the alignment */

static void *
bounded_alloc(void *user, size_t bytes)
{
    MemoryBound *b = user;

    if (bytes > b->most - b->used) {
        b->hit = true;
        return NULL;
    }
    char *block = b->under.alloc ? b->under.alloc(b->under.user, HEAD + bytes) : malloc(HEAD + bytes);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    b->used += bytes;
    return block + HEAD;
}

static void
bounded_release(void *user, void *block)
{
    MemoryBound *b = user;
    char *start = (char *)block - HEAD;
    size_t bytes;

    memcpy(&bytes, start, sizeof bytes);
    b->used -= bytes;
    if (b->under.release)
        b->under.release(b->under.user, start);
    else
        free(start);
}

Arena *
compile_arena(TnContext *ctx, MemoryBound *b, int64_t most)
{
    *b = (MemoryBound){ .under = ctx->allocator, .most = most > 0 ? (size_t)most : 0 };
    b->bounded = (Allocator){ bounded_alloc, bounded_release, b };
    if (!b->most)
        return tn_arena(ctx);
    Arena *a = arena_new(&b->bounded, &ctx->c.oom);
    tn_keep(ctx, a);
    return a;
}

TnStatus
compile_no_memory(TnContext *ctx, const MemoryBound *b)
{
    TnStatus status = tn_no_memory(ctx);

    if (b->hit)
        ctx->error = "error: the compilation needs more memory than the limit given (--max-memory, max_memory_bytes). "
                     "Raise the limit or compile a smaller model";
    return status;
}
