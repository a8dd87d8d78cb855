/* tenon explain */
#include "cmd.h"

#include <stdio.h>

static void
print(void *user, const char *text)
{
    progress_end(user);
    fputs(text, stdout);
}

int
cmd_explain(TnContext *ctx, const Options *o)
{
    TnCompileOptions options;
    Progress p = progress_begin();

    int status = compile_options_of(o, &p, &options);
    options.stop_after = "fuse";
    options.explain = o->json ? 2 : 1;
    options.why = o->why;
    options.print = print;
    if (status == TN_OK) {
        TnStatus s = tn_compile(ctx, o->model, NULL, &options, NULL);
        progress_end(&p);
        status = report(ctx, s);
    }
    compile_options_free(&options);
    return status;
}
