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

    if (o->requests && !o->batches)
        return usage_error("--requests is what --batches counts: give both");
    if (o->policy && !o->requests)
        return usage_error("--policy orders what --batches --requests FILE counts: give these");
    if (o->batches)
        return explain_batches(ctx, o);
    if (o->profile_file && !o->html)
        return usage_error("--profile goes onto the page that --html writes: give both");
    if (o->html && (o->plan || o->why || o->json))
        return usage_error(
            "--html writes a page with everything on it: leave out --plan, --why, --json");
    int status = compile_options_of(o, &p, &options);
    options.stop_after = o->html ? "layout" : "fuse"; /* the page also tells how values lie */
    options.explain = o->plan ? 3 : o->json ? 2 : 1;
    options.why = o->why;
    options.page = o->html;
    options.page_profile = o->profile_file;
    options.print = print;
    if (status == TN_OK) {
        TnStatus s = tn_compile(ctx, o->model, NULL, &options, NULL);
        progress_end(&p);
        status = report(ctx, s);
    }
    compile_options_free(&options);
    if (status == TN_OK && o->html)
        printf("%s: %s, open it in a browser\n", o->model, o->html);
    return status;
}
