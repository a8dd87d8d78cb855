/* tenon inspect */
#include "cmd.h"

#include <stdio.h>

int
cmd_inspect(TnContext *ctx, const Options *o)
{
    const char *text = "";

    int status = report(ctx, tn_inspect(ctx, o->model, o->json, &text));
    if (status == TN_OK)
        fputs(text, stdout);
    return status;
}
