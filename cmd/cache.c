/* tenon cache */
#include "cmd.h"

#include <stdio.h>

int
cmd_cache(TnContext *ctx, const Options *o)
{
    TnCacheUse use = TN_INIT(TnCacheUse);

    int status = o->clear ? report(ctx, tn_cache_clear(ctx, o->compile.cache_dir)) : TN_OK;
    if (status == TN_OK)
        status = report(ctx, tn_cache_use(ctx, o->compile.cache_dir, &use));
    if (status != TN_OK)
        return status;
    if (o->json) {
        printf("{\"folder\": ");
        print_json_string(use.folder);
        printf(", \"bytes\": %lld, \"files\": %lld}\n", (long long)use.bytes, (long long)use.files);
    } else {
        printf("%s: %lld object%s, ", use.folder, (long long)use.files, use.files == 1 ? "" : "s");
        print_size(use.bytes);
        putchar('\n');
    }
    return TN_OK;
}
