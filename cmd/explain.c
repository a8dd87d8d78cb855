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
    const TnCompileOptions *c = &o->compile;
    Progress p = progress_begin();
    TnCompileOptions options = compile_options(o, &p);

    if (o->requests && !o->batches)
        return usage_error("--requests is what --batches counts: give both");
    if (c->policy && !o->requests)
        return usage_error("--policy orders what --batches --requests FILE counts: give these");
    if (o->batches)
        return explain_batches(ctx, o);
    if (c->page_profile && !c->page)
        return usage_error("--profile goes onto the page that --html writes: give both");
    if (c->page && (o->plan || c->why || o->json))
        return usage_error(
            "--html writes a page with everything on it: leave out --plan, --why, --json");
    if (o->memory && (c->page || o->plan || c->why || o->json))
        return usage_error("--memory is a table alone: leave out --html, --plan, --why, --json");
    /* the page also tells the layouts, and the text how many kernels are left after them */
    options.stop_after = o->memory ? "emit" : o->plan || c->why || o->json ? "fuse" : "layout";
    options.emit = o->memory ? "mcu" : options.emit;
    options.explain = o->memory ? 4 : o->plan ? 3 : o->json ? 2 : 1;
    options.print = print;
    int status = report_after(&p, ctx, tn_compile(ctx, o->model, NULL, &options, NULL));
    if (status == TN_OK && c->page)
        printf("%s: %s, open it in a browser\n", o->model, c->page);
    return status;
}
