/* compile_cache: how much the cache of objects holds, and emptying it. */
#include "api/compile_internal.h"

#include <stdio.h>

static bool
cache_folder(TnContext *ctx, const char *given, const char **dir)
{
    *dir = driver_cache_dir(ctx->messages, given);
    return *dir || diag_usage(&ctx->c.diags,
                              "there is no cache folder: neither XDG_CACHE_HOME nor HOME is set, "
                              "or TENON_CACHE_DIR is empty. "
                              "Name one with TENON_CACHE_DIR");
}

static bool
cache_use(TnContext *ctx, const char *given, TnCacheUse *out)
{
    const char *dir;
    CacheUse use;

    if (!out)
        return diag_usage(&ctx->c.diags, "tn_cache_use: out is NULL");
    if (!TN_CHECK_SIZE(ctx, TnCacheUse, out) || !cache_folder(ctx, given, &dir) ||
        !build_cache_use(&ctx->c.diags, dir, &use))
        return false;
    snprintf(out->folder, sizeof out->folder, "%s", dir);
    out->bytes = use.bytes;
    out->files = use.files;
    return true;
}

static bool
cache_clear(TnContext *ctx, const char *given)
{
    const char *dir;

    return cache_folder(ctx, given, &dir) && build_cache_clear(&ctx->c.diags, dir);
}

TnStatus
tn_cache_use(TnContext *ctx, const char *cache_dir, TnCacheUse *out)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, cache_use(ctx, cache_dir, out));
}

TnStatus
tn_cache_clear(TnContext *ctx, const char *cache_dir)
{
    TN_ENTER(ctx);
    return tn_leave(ctx, cache_clear(ctx, cache_dir));
}
