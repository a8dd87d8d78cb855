/* run_context: contexts, messages, and the frame around every entry point.
 *
 * The messages of a call live in an arena of their own, replaced by the next call that finds it
 * used, so that a server that refuses a million requests does not grow.
 */
#include "api/internal.h"

#include <stdio.h>
#include <stdlib.h>

TnStatus
tn_context_new(const TnAllocator *allocator, TnContext **out)
{
    if (!out || (allocator &&
                 (allocator->size < sizeof *allocator || !allocator->alloc || !allocator->release)))
        return TN_USAGE;
    *out = NULL;
    Allocator mine = { 0 };
    if (allocator)
        mine = (Allocator){ allocator->alloc, allocator->release, allocator->user };

    TnContext *ctx = mine.alloc ? mine.alloc(mine.user, sizeof *ctx) : malloc(sizeof *ctx);
    if (!ctx)
        return TN_LIMIT;
    *ctx = (TnContext){ .allocator = mine, .error = "" };
    if (setjmp(ctx->c.oom.jump)) {
        tn_context_free(ctx);
        return TN_LIMIT;
    }
    ctx_init(&ctx->c, arena_new(&ctx->allocator, &ctx->c.oom));
    if (tn_attach_compiler)
        tn_attach_compiler(ctx);
    *out = ctx;
    return TN_OK;
}

void
tn_context_free(TnContext *ctx)
{
    if (!ctx)
        return;
    arena_free(ctx->messages);
    arena_free(ctx->c.arena);
    Allocator mine = ctx->allocator;
    if (mine.release)
        mine.release(mine.user, ctx);
    else
        free(ctx);
}

const char *
tn_error(const TnContext *ctx)
{
    return ctx ? ctx->error : "no context";
}

const char *
tn_version(void)
{
    return TN_VERSION;
}

const char *
tn_status_name(TnStatus s)
{
    switch (s) {
    case TN_OK: return "ok";
    case TN_USAGE: return "usage";
    case TN_MODEL: return "model";
    case TN_UNSUPPORTED: return "unsupported";
    case TN_LIMIT: return "limit";
    case TN_TOOLCHAIN: return "toolchain";
    case TN_INTERNAL: return "internal";
    }
    return "unknown";
}

void
tn_clear(TnContext *ctx)
{
    Arena *used = ctx->messages && arena_bytes(ctx->messages) ? ctx->messages : NULL;
    ctx->error = "";
    ctx->c.diags = (Diags){ .arena = used ? NULL : ctx->messages };
    if (used)
        ctx->messages = NULL;
    arena_free(used);
    if (!ctx->messages)
        ctx->c.diags.arena = ctx->messages = arena_new(&ctx->allocator, &ctx->c.oom);
    for (int i = 0; i < TN_KEPT; i++)
        ctx->kept[i] = NULL;
}

TnStatus
tn_no_memory(TnContext *ctx)
{
    Oom *oom = &ctx->c.oom;
    if (oom->why[0])
        snprintf(ctx->last, sizeof ctx->last, "error: %s", oom->why);
    else
        snprintf(ctx->last, sizeof ctx->last, "error: out of memory: %zu bytes were wanted%s%s",
                 oom->wanted, oom->what ? " for " : "", oom->what ? oom->what : "");
    oom->why[0] = '\0';
    ctx->c.oom.what = NULL;
    for (int i = TN_KEPT; i-- > 0;) {
        arena_free(ctx->kept[i]);
        ctx->kept[i] = NULL;
    }
    ctx->error = ctx->last;
    return TN_LIMIT;
}

TnStatus
tn_leave(TnContext *ctx, bool ok)
{
    Text text = { .arena = ctx->messages };
    for (uint32_t i = 0; i < ctx->c.diags.list.n; i++) {
        if (i)
            text_add(&text, "\n");
        diag_print(&text, &ctx->c.diags.list.at[i]);
    }
    ctx->error = text.n || ok ? text_str(&text)
                              : "error: a call failed without saying why; please report it";
    if (ok)
        return TN_OK;
    return ctx->c.diags.worst ? (TnStatus)ctx->c.diags.worst : TN_INTERNAL;
}

Arena *
tn_arena(TnContext *ctx)
{
    Arena *a = arena_new(&ctx->allocator, &ctx->c.oom);
    tn_keep(ctx, a);
    return a;
}

void
tn_keep(TnContext *ctx, Arena *a)
{
    for (int i = 0; i < TN_KEPT; i++) {
        if (!ctx->kept[i]) {
            ctx->kept[i] = a;
            break;
        }
    }
}

void
tn_drop(TnContext *ctx, Arena *a)
{
    for (int i = 0; i < TN_KEPT; i++)
        if (ctx->kept[i] == a)
            ctx->kept[i] = NULL;
    arena_free(a);
}

bool
tn_check_size(TnContext *ctx, const char *type, size_t size, size_t least)
{
    if (size >= least)
        return true;
    return diag_usage(&ctx->c.diags,
                      "%s.size is %zu, at least %zu is needed: begin it with TN_INIT(%s)", type,
                      size, least, type);
}
