/* run_profile: the times of a session's kernels. */
#include "api/run_internal.h"

static bool
begin(TnSession *s, int32_t max_events)
{
    if (max_events < 0)
        return diag_usage(&s->ctx->c.diags, "tn_session_profile: %d events; give 0 for no trace",
                          max_events);
    s->profile = profile_new(s->arena, s->manifest->nkernel, (uint32_t)max_events);
    s->work = NEW_ARRAY(s->arena, TnWork, s->manifest->nkernel);
    session_profile(s->session, s->profile);
    return true;
}

TnStatus
tn_session_profile(TnSession *s, int32_t max_events)
{
    TN_ENTER(s ? s->ctx : NULL);
    return tn_leave(s->ctx, begin(s, max_events));
}

int32_t
tn_session_kernels(const TnSession *s)
{
    return s ? s->manifest->nkernel : 0;
}

/* Is there something numbered i among n, and a struct to put it into? */
static bool
check(TnSession *s, const char *what, int64_t i, int64_t n, size_t size, size_t least)
{
    Diags *d = &s->ctx->c.diags;

    if (!s->profile)
        return diag_usage(
            d, "the session has no profile: begin one with tn_session_profile, then run");
    if (i < 0 || i >= n)
        return diag_usage(d, "there is no %s %lld; they are numbered from 0 and there are %lld",
                          what, (long long)i, (long long)n);
    return tn_check_size(s->ctx, what, size, least);
}

static bool
kernel(TnSession *s, int32_t i, TnKernelProfile *out)
{
    if (!check(s, "TnKernelProfile", i, s->manifest->nkernel, out->size, sizeof *out))
        return false;
    session_work(s->session, s->work);
    const TnKernelInfo *info = &s->manifest->kernels[i];
    const TnWork *work = &s->work[i];
    const KernelTime *time = &profile_kernels(s->profile)[i];
    *out = (TnKernelProfile){
        out->size,           info->name,
        info->origin,        info->dtype,
        info->function,      time->calls,
        time->seconds,       (double)work->operations,
        (double)work->bytes, (double)work->predicted_ps * 1e-12,
    };
    return true;
}

TnStatus
tn_session_kernel(TnSession *s, int32_t i, TnKernelProfile *out)
{
    TN_ENTER(s && out ? s->ctx : NULL);
    return tn_leave(s->ctx, kernel(s, i, out));
}

int32_t
tn_session_events(const TnSession *s)
{
    uint32_t n = 0;

    if (s && s->profile)
        profile_events(s->profile, &n);
    return (int32_t)n;
}

static bool
event(TnSession *s, int32_t i, TnEvent *out)
{
    if (!check(s, "TnEvent", i, tn_session_events(s), out->size, sizeof *out))
        return false;
    uint32_t n;
    const KernelEvent *e = &profile_events(s->profile, &n)[i];
    *out = (TnEvent){ out->size, e->kernel, (int64_t)e->thread, e->begin,
                      e->end,    e->start,  e->seconds };
    return true;
}

TnStatus
tn_session_event(TnSession *s, int32_t i, TnEvent *out)
{
    TN_ENTER(s && out ? s->ctx : NULL);
    return tn_leave(s->ctx, event(s, i, out));
}
