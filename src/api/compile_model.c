/* compile_model: a model file to an artefact; the stages and the targets there are. */
#include "api/compile_internal.h"

#include <stdio.h>

static bool
compile(TnContext *ctx, const char *model_path, const char *out_path, TnCompileReport *report)
{
    const ApiCall *call = ctx->call;
    DriverReport made;

    if (!model_path)
        return diag_usage(&ctx->c.diags, "no model file was named");
    if ((report && !TN_CHECK_GROWN(ctx, TnCompileReport, report, cached_units)) ||
        !driver_compile(&ctx->c, call->arena, model_path, out_path, &call->options, &made))
        return false;
    if (!report)
        return true;
    snprintf(report->summary, sizeof report->summary, "%s", made.summary ? made.summary : "");
    report->seconds = made.seconds;
    report->artefact_bytes = made.artefact_bytes;
    report->kernels = made.kernels;
    report->distinct_kernels = made.distinct;
    report->compiled_units = made.compiled;
    report->cached_units = made.cached;
    if (TN_HAS(report, reused))
        report->reused = made.reused;
    return true;
}

TnStatus
tn_compile(TnContext *ctx, const char *model_path, const char *out_path, const TnCompileOptions *o,
           TnCompileReport *report)
{
    CALL_ENTER(ctx, o);
    return call_end(ctx, compile(ctx, model_path, out_path, report));
}

const char *const *
tn_stages(const char *const **what)
{
    if (what)
        *what = driver_stage_what;
    return driver_stage_name;
}

const char *
tn_targets(TnContext *ctx)
{
    if (!ctx || setjmp(ctx->c.oom.jump))
        return "";
    return machine_names(&ctx->c);
}
