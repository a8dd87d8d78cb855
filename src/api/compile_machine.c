/* compile_machine: what the processor offers, measured or as a file says. */
#include "api/compile_internal.h"

static bool
machine(TnContext *ctx, Call *call, const TnCompileOptions *o, const char *path, const char **table)
{
    Ctx *c = &ctx->c;
    Arena *a = call->arena;
    DriverOptions options;
    Machine m;

    if (!compile_options(ctx, a, o, &options))
        return false;
    /* The file is opened first: not after 20 seconds of work. */
    Writer *w = path ? writer_open(a, &c->diags, path) : NULL;
    if (path && !w)
        return false;
    if (options.machine || options.cores ? !driver_machine(c, a, &options, &m) : !driver_measure(c, a, &options, &m))
        return false;
    /* What is shown is what is written, to the last digit. */
    Text t = { .arena = call->keep }, file = { .arena = a };
    text_add(&file, "; A machine, as `tenon machine` found it. One fact a line: its name, its number. Facts that are\n"
                    "; left out are as the target's row has them. Used by: tenon compile --machine FILE\n");
    machine_print(&file, &m);
    if (!machine_parse(c, "(measured)", file.s, file.n, &m))
        return false;
    machine_table(&t, &m);
    if (table)
        *table = text_str(&t);
    if (!w)
        return true;
    writer_put(w, file.s, file.n);
    return writer_commit(w, 0644);
}

TnStatus
tn_machine(TnContext *ctx, const TnCompileOptions *o, const char *path, const char **table)
{
    Call call = { 0 };

    CALL_ENTER(ctx, &call);
    call_begin(ctx, &call, 0);
    return call_end(ctx, &call, machine(ctx, &call, o, path, table));
}
