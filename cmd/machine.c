/* tenon machine */
#include "cmd.h"

#include <stdio.h>

int
cmd_machine(TnContext *ctx, const Options *o)
{
    const char *table = "";
    Progress p = progress_begin();
    TnCompileOptions options = compile_options(o, &p);

    stop_defer();
    TnStatus s = tn_machine(ctx, &options, o->output, &table);
    progress_end(&p);
    stop_now();
    int status = report(ctx, s);
    if (status == TN_OK)
        fputs(table, stdout);
    if (status == TN_OK && o->output)
        printf("\nwritten to %s\n", o->output);
    return status;
}
