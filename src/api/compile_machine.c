/* compile_machine: the facts of the processor, measured or from a file. */
#include "api/compile_internal.h"

#include <string.h>

static bool
machine(TnContext *ctx, const char *path, const char **table)
{
    Ctx *c = &ctx->c;
    Arena *a = ctx->call->arena;
    const TnCompileOptions *o = &ctx->call->options;
    Machine m;

    /* The file is opened first: not after 20 seconds of work. */
    Writer *w = path ? writer_open(a, &c->diags, path) : NULL;
    if (path && !w)
        return false;
    if (o->machine || o->cores ? !driver_machine(c, a, o, &m) : !driver_measure(c, a, o, &m))
        return false;
    /* What is shown is what is written, to the last digit. */
    Text t = { .arena = ctx->call->keep }, file = { .arena = a };
    text_add(
        &file,
        "; A machine, as `tenon machine` found it. One fact a line: its name, its number. Facts "
        "that are\n"
        "; left out are as the target's row has them. Used by: tenon compile --machine FILE\n");
    machine_print(&file, &m);
    if (!machine_parse(c, "(measured)", file.s, file.n, &m))
        return false;
    machine_describe(&t, &m);
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
    CALL_ENTER(ctx, o);
    return call_end(ctx, machine(ctx, path, table));
}

static bool
roofs(TnContext *ctx, int32_t threads, TnRoof *roof, int32_t n, const char **name)
{
    const ApiCall *call = ctx->call;
    Machine m;

    if (n < 0 || (n && !roof))
        return diag_usage(&ctx->c.diags, "tn_roofs: %d roofs%s; 0 or more are possible", n,
                          roof ? "" : ", and their array is NULL");
    if (!driver_machine(&ctx->c, call->arena, &call->options, &m))
        return false;
    for (int32_t i = 0; i < n; i++) {
        TnRoof *r = (TnRoof *)((char *)roof + (size_t)i * roof->size);
        if (!TN_CHECK_SIZE(ctx, TnRoof, r))
            return false;
        DType t = r->dtype ? dtype_from_name(r->dtype, strlen(r->dtype)) : DT_F32;
        r->seconds = machine_roof_seconds(&m, t, threads < 1 ? 1 : (uint32_t)threads, r->operations,
                                          r->bytes);
    }
    if (name)
        *name = arena_printf(call->keep, "%s (%s)", m.processor, m.name);
    return true;
}

TnStatus
tn_roofs(TnContext *ctx, const TnCompileOptions *o, int32_t threads, TnRoof *roof, int32_t n,
         const char **machine_name)
{
    CALL_ENTER(ctx, o);
    return call_end(ctx, roofs(ctx, threads, roof, n, machine_name));
}

int32_t
tn_target_is_here(const char *target)
{
    Machine m;

    return !target || !machine_lookup(target, &m) || machine_runs_here(&m);
}
