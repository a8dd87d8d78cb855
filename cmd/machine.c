/* tenon machine */
#include "cmd.h"

#include <stdio.h>

int
cmd_machine(TnContext *ctx, const Options *o)
{
    TnCompileOptions options;
    const char *table = "";
    Progress p = progress_begin();

    int status = compile_options_of(o, &p, &options);
    if (status == TN_OK) {
        stop_defer();
        TnStatus s = tn_machine(ctx, &options, o->output, &table);
        progress_end(&p);
        stop_now();
        status = report(ctx, s);
    }
    compile_options_free(&options);
    if (status == TN_OK)
        fputs(table, stdout);
    if (status == TN_OK && o->output)
        printf("\nwritten to %s\n", o->output);
    return status;
}
