/* compile_operators: the table of operators, for people. */
#include "api/compile_internal.h"

TnStatus
tn_operators(TnContext *ctx, const char **out)
{
    TN_ENTER(ctx);
    if (!out)
        return tn_leave(ctx, diag_usage(&ctx->c.diags, "tn_operators: out is NULL"));
    Text t = { .arena = ctx->c.arena };
    import_operators(&t);
    *out = text_str(&t);
    return tn_leave(ctx, true);
}
