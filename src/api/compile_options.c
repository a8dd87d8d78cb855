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
    ctx->call = NEW(ctx->c.arena, ApiCall);
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

bool
call_begin(TnContext *ctx, const TnCompileOptions *o)
{
    ApiCall *call = ctx->call;

    *call = (ApiCall){ .under = ctx->allocator, .keep = ctx->c.arena };
    call->options.size = sizeof *o;
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
    return TN_CHECK_GROWN(ctx, TnCompileOptions, &call->options, time);
}

TnStatus
call_end(TnContext *ctx, bool ok)
{
    ApiCall *call = ctx->call;
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
call_no_memory(TnContext *ctx)
{
    const ApiCall *call = ctx->call;
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
