/* tenon inspect */
#include "cmd.h"

#include <stdio.h>

/* Compiled as far as there is something to see. */
static int
write_page(TnContext *ctx, const Options *o)
{
    TnCompileOptions options;
    Progress p = progress_begin();

    int status = compile_options_of(o, &p, &options);
    options.stop_after = "plan";
    options.page = o->html;
    options.page_profile = o->profile_file;
    if (status == TN_OK) {
        TnStatus s = tn_compile(ctx, o->model, NULL, &options, NULL);
        progress_end(&p);
        status = report(ctx, s);
    }
    compile_options_free(&options);
    if (status == TN_OK && !o->json)
        printf("%s: %s, open it in a browser\n", o->model, o->html);
    return status;
}

int
cmd_inspect(TnContext *ctx, const Options *o)
{
    const char *text = "";

    if (o->profile_file && !o->html)
        return usage_error("--profile goes onto the page that --html writes: give both");
    if (o->html)
        return write_page(ctx, o);
    int status = report(ctx, tn_inspect(ctx, o->model, o->json, &text));
    if (status == TN_OK)
        fputs(text, stdout);
    return status;
}
