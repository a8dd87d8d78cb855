/* tenon compile */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
list_passes(bool json)
{
    const char *const *what;
    const char *const *name = tn_stages(&what);

    for (int i = 0; name[i]; i++) {
        if (!json) {
            printf("%2d  %-9s %s\n", i + 1, name[i], what[i]);
            continue;
        }
        printf("%s{\"name\": ", i ? ",\n " : "[");
        print_json_string(name[i]);
        printf(", \"what\": ");
        print_json_string(what[i]);
        printf("}%s", name[i + 1] ? "" : "]\n");
    }
    return TN_OK;
}

static bool
is_for_the_web(const TnCompileOptions *o)
{
    return o->emit ? !strcmp(o->emit, "wasm") : o->target && !strncmp(o->target, "wasm", 4);
}

/* models/digits.onnx -> digits.so, digits.c or the folder digits, in the current folder */
static char *
default_output(const Options *o, const TnCompileOptions *compile)
{
    const char *slash = strrchr(o->model, '/'), *name = slash ? slash + 1 : o->model;
    const char *dot = strrchr(name, '.');
    int stem = (int)(dot && dot > name ? dot - name : (long)strlen(name));
    size_t n = (size_t)stem + 4;
    char *path = need(malloc(n));

    const char *form = compile->emit ? compile->emit : "";
    bool c = !strcmp(form, "c") || !strcmp(form, "mcu");
    snprintf(path, n, "%.*s%s", stem, name, is_for_the_web(compile) ? "" : c ? ".c" : ".so");
    return path;
}

static void
print_report(const Options *o, const char *path, const TnCompileReport *r)
{
    if (!o->json) {
        printf("%s: %s; ", path, r->summary);
        print_size(r->artefact_bytes);
        printf(" in %.1f s", r->seconds);
        if (r->reused)
            printf(", from the cache");
        else if (r->cached_units)
            printf(", %lld of %lld unit%s from the cache", (long long)r->cached_units,
                   (long long)(r->cached_units + r->compiled_units),
                   r->cached_units + r->compiled_units == 1 ? "" : "s");
        putchar('\n');
        return;
    }
    printf("{\"output\": ");
    print_json_string(path);
    printf(", \"summary\": ");
    print_json_string(r->summary);
    printf(", \"seconds\": %.3f, \"artefact_bytes\": %lld, \"kernels\": %lld, "
           "\"distinct_kernels\": %lld, "
           "\"compiled_units\": %lld, \"cached_units\": %lld, \"reused\": %s}\n",
           r->seconds, (long long)r->artefact_bytes, (long long)r->kernels,
           (long long)r->distinct_kernels, (long long)r->compiled_units, (long long)r->cached_units,
           r->reused ? "true" : "false");
}

static void
print_stopped(const Options *o, double after)
{
    if (!o->json) {
        fprintf(stderr, "%s: stopped after %s, in %.1f s; nothing was written\n", o->model,
                o->compile.stop_after, after);
        return;
    }
    printf("{\"stopped_after\": ");
    print_json_string(o->compile.stop_after);
    printf(", \"seconds\": %.3f}\n", after);
}

int
cmd_compile(TnContext *ctx, const Options *o)
{
    TnCompileReport made = TN_INIT(TnCompileReport);
    Progress p = progress_begin();
    TnCompileOptions options = compile_options(o, &p);

    if (o->list_passes)
        return list_passes(o->json);
    if (options.page_profile && !strcmp(options.page_profile, "mcu")) {
        options.emit = "mcu";
        options.page_profile = NULL;
    }
    if (options.page_profile && !options.explain_formats)
        return usage_error(
            "--profile gives --explain-formats the times that were measured: give both");
    if (!options.emit && o->output && ends_with(o->output, ".c"))
        options.emit = "c"; /* no library has that name */
    char *path = o->output ? need(strdup(o->output)) : default_output(o, &options);
    stop_defer();
    TnStatus s = tn_compile(ctx, o->model, path, &options, &made);
    progress_end(&p);
    stop_now();
    int status = report(ctx, s);
    if (status == TN_OK && options.stop_after && strcmp(options.stop_after, "build"))
        print_stopped(o, made.seconds);
    else if (status == TN_OK)
        print_report(o, path, &made);
    free(path);
    return status;
}
