/* tenon inspect */
#include "cmd.h"

#include <stdio.h>

/* Compiled as far as there is something to see. */
static int
write_page(TnContext *ctx, const Options *o)
{
    Progress p = progress_begin();
    TnCompileOptions options = compile_options(o, &p);

    options.stop_after = "plan";
    int status = report_after(&p, ctx, tn_compile(ctx, o->model, NULL, &options, NULL));
    if (status == TN_OK && !o->json)
        printf("%s: %s, open it in a browser\n", o->model, o->compile.page);
    return status;
}

int
cmd_inspect(TnContext *ctx, const Options *o)
{
    const char *text = "";

    if (o->compile.page_profile && !o->compile.page)
        return usage_error("--profile goes onto the page that --html writes: give both");
    if (o->compile.page)
        return write_page(ctx, o);
    int status = report(ctx, tn_inspect(ctx, o->model, o->json, &text));
    if (status == TN_OK)
        fputs(text, stdout);
    return status;
}
