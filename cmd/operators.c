/* tenon operators */
#include "cmd.h"

#include <stdio.h>

int
cmd_operators(TnContext *ctx, const Options *o)
{
    const char *table = "";
    int status = report(ctx, tn_operators(ctx, &table));

    (void)o;
    fputs(table, stdout);
    return status;
}
