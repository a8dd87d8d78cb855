/* profile: a model's kernels by time. Kernels with the same code share a row; its time is the
 * sum of their calls in a run, the median over runs.
 */
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1 << 17, MOST_RUNS = 1 << 14 };

static int
profile_of(TnContext *ctx, TnSession *s, int32_t i, TnKernelProfile *k)
{
    *k = (TnKernelProfile)TN_INIT(TnKernelProfile);
    return report(ctx, tn_session_kernel(s, i, k));
}

/* ---- runs ------------------------------------------------------------------------------------ */

int
profile_begin(TnContext *ctx, TnSession *s, ProfileReport *p)
{
    int32_t n = tn_session_kernels(s);

    *p = (ProfileReport){ .row = need(calloc((size_t)n + 1, sizeof *p->row)),
                          .row_of = need(calloc((size_t)n + 1, sizeof *p->row_of)),
                          .kernel = need(calloc((size_t)n + 1, sizeof *p->kernel)),
                          .kernels = n };
    int status = report(ctx, tn_session_profile(s, MOST_EVENTS));
    for (int32_t i = 0; i < n && status == TN_OK; i++) {
        TnKernelProfile k;
        status = profile_of(ctx, s, i, &k);
        int at = 0;
        while (at < p->n && p->row[at].function != k.function)
            at++;
        if (status == TN_OK && at == p->n)
            p->row[p->n++] = (ProfileRow){ .name = k.name,
                                           .origin = k.origin,
                                           .function = k.function,
                                           .dtype = k.dtype,
                                           .ms = need(calloc(MOST_RUNS, sizeof(double))) };
        p->row[at].kernels++;
        p->row_of[i] = at;
    }
    return status;
}

/* What the run that just ended took, kernel by kernel. */
int
profile_run(TnContext *ctx, TnSession *s, ProfileReport *p)
{
    int32_t n = tn_session_kernels(s);

    if (p->runs == MOST_RUNS)
        return TN_OK;
    for (int r = 0; r < p->n; r++) {
        ProfileRow *row = &p->row[r];
        row->before = row->seconds;
        row->seconds = row->operations = row->bytes = row->predicted_ms = 0;
        row->calls = 0;
    }
    for (int32_t i = 0; i < n; i++) {
        TnKernelProfile k;
        if (profile_of(ctx, s, i, &k))
            return TN_INTERNAL;
        ProfileRow *row = &p->row[p->row_of[i]];
        row->seconds += k.seconds;
        p->kernel[i] = (ProfileKernel){ k.origin, k.seconds };
        row->calls += k.calls;
        /* of one run; loops may differ from run to run */
        double calls = (double)k.calls / (p->runs + 1);
        row->operations += calls * k.operations;
        row->bytes += calls * k.bytes;
        row->predicted_ms += calls * k.predicted_seconds * 1e3;
    }
    for (int r = 0; r < p->n; r++)
        p->row[r].ms[p->runs] = 1e3 * (p->row[r].seconds - p->row[r].before);
    p->runs++;
    return TN_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int
by_time(const void *x, const void *y)
{
    const ProfileRow *a = x, *b = y;

    return (a->median_ms < b->median_ms) - (a->median_ms > b->median_ms);
}

/* Medians, shares, and what the machine could do, from here on in order of time. */
int
profile_end(TnContext *ctx, const Options *o, int threads, ProfileReport *p)
{
    TnRoof *roof = need(calloc(2 * (size_t)p->n + 1, sizeof *roof));
    TnRoof *computing = roof + p->n; /* of the operations alone */

    for (int r = 0; r < p->n; r++) {
        ProfileRow *row = &p->row[r];
        qsort(row->ms, (size_t)p->runs, sizeof *row->ms, by_number);
        row->median_ms = p->runs ? row->ms[p->runs / 2] : 0;
        p->sum_ms += row->median_ms;
        roof[r] = (TnRoof){ .size = sizeof *roof,
                            .dtype = row->dtype,
                            .operations = row->operations,
                            .bytes = row->bytes };
        computing[r] = roof[r];
        computing[r].bytes = 0;
    }
    int status = report(ctx, tn_roofs(ctx, &o->compile, threads, roof, 2 * p->n, &p->machine));
    for (int r = 0; r < p->n && status == TN_OK; r++) {
        ProfileRow *row = &p->row[r];
        row->roof = row->median_ms > 0 ? 1e3 * roof[r].seconds / row->median_ms : 0;
        row->from_cache = row->roof > 1 && computing[r].seconds < roof[r].seconds;
    }
    free(roof);
    qsort(p->row, (size_t)p->n, sizeof *p->row, by_time);
    return status;
}

void
profile_free(ProfileReport *p)
{
    for (int r = 0; r < p->n; r++)
        free(p->row[r].ms);
    free(p->row);
    free(p->row_of);
    free(p->kernel);
}

/* ---- telling --------------------------------------------------------------------------------- */

static double
per_second(double count, double ms)
{
    return ms > 0 ? count / ms * 1e-6 : 0;
}

/* As many characters of a text as fit, a multibyte one never cut. */
static int
fit(const char *s, int room)
{
    int n = (int)strlen(s);

    if (n <= room)
        return n;
    while (room > 0 && (s[room] & 0xc0) == 0x80)
        room--;
    return room;
}

void
profile_print(const ProfileReport *p)
{
    bool cached = false;

    printf("\n%d run%s of %d different kernel%s; share of %.4g ms, roof by %s\n", p->runs,
           p->runs == 1 ? "" : "s", p->n, p->n == 1 ? "" : "s", p->sum_ms, p->machine);
    printf("%10s %7s %6s %9s %8s %6s %10s  %s\n", "ms", "share", "calls", "GFLOP/s", "GB/s", "roof",
           "predicted", "kernel, and where it comes from");
    for (int r = 0; r < p->n; r++) {
        const ProfileRow *row = &p->row[r];
        char predicted[32] = "";
        if (row->predicted_ms > 0)
            snprintf(predicted, sizeof predicted, "%.4g", row->predicted_ms);
        char roof[16];
        snprintf(roof, sizeof roof, row->from_cache ? "cache" : "%.0f %%", 100 * row->roof);
        printf("%10.4g %5.1f %% %6.4g %9.2f %8.2f %6s %10s  %s  %.*s", row->median_ms,
               p->sum_ms > 0 ? 100 * row->median_ms / p->sum_ms : 0,
               p->runs ? (double)row->calls / p->runs : 0,
               per_second(row->operations, row->median_ms), per_second(row->bytes, row->median_ms),
               roof, predicted, row->name, fit(row->origin, 60), row->origin);
        printf(row->kernels > 1 ? " and %d more\n" : "\n", row->kernels - 1);
        cached |= row->from_cache;
    }
    if (cached)
        puts("roof cache: faster than the cache, or memory, that holds all of its data: they came "
             "from a "
             "nearer one");
}

void
profile_json(FILE *to, const ProfileReport *p)
{
    fprintf(to, ",\n  \"machine\": ");
    fprint_json_string(to, p->machine);
    fprintf(to, ",\n  \"kernels\": [");
    for (int r = 0; r < p->n; r++) {
        const ProfileRow *row = &p->row[r];
        fprintf(to, "%s\n    {\"name\": ", r ? "," : "");
        fprint_json_string(to, row->name);
        fprintf(to,
                ", \"calls\": %g, \"ms\": %.6f, \"share\": %.5f, \"gflops\": %.4f, \"gbps\": %.4f, "
                "\"roof\": %.4f, \"predicted_ms\": %.6f, "
                "\"operations\": %.0f, \"bytes\": %.0f, \"origin\": ",
                p->runs ? (double)row->calls / p->runs : 0, row->median_ms,
                p->sum_ms > 0 ? row->median_ms / p->sum_ms : 0,
                per_second(row->operations, row->median_ms), per_second(row->bytes, row->median_ms),
                row->roof, row->predicted_ms, row->operations, row->bytes);
        fprint_json_string(to, row->origin);
        fputc('}', to);
    }
    fprintf(to, "%s],\n  \"each\": [", p->n ? "\n  " : "");
    for (int i = 0; i < p->kernels; i++) {
        fprintf(to, "%s\n    {\"ms\": %.6f, \"origin\": ", i ? "," : "",
                p->runs ? 1e3 * p->kernel[i].seconds / p->runs : 0);
        fprint_json_string(to, p->kernel[i].origin ? p->kernel[i].origin : "");
        fputc('}', to);
    }
    fprintf(to, "%s]", p->kernels ? "\n  " : "");
}

/* The format of Perfetto and of chrome://tracing: one complete event for every range,
 * microseconds. */
int
profile_trace(TnContext *ctx, TnSession *s, FILE *to)
{
    double zero = 0;

    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", to);
    for (int32_t i = 0, n = tn_session_events(s); i < n; i++) {
        TnEvent e = TN_INIT(TnEvent);
        TnKernelProfile k;
        int status = report(ctx, tn_session_event(s, i, &e));
        if (status != TN_OK || (status = profile_of(ctx, s, e.kernel, &k)) != TN_OK)
            return status;
        zero = i ? zero : e.start;
        fprintf(to, "%s\n{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": ", i ? "," : "");
        fprint_json_string(to, k.name);
        fprintf(to,
                ", \"pid\": 1, \"tid\": %lld, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"begin\": "
                "%lld, \"end\": %lld, \"from\": ",
                (long long)e.thread, 1e6 * (e.start - zero), 1e6 * e.seconds, (long long)e.begin,
                (long long)e.end);
        fprint_json_string(to, k.origin);
        fputs("}}", to);
    }
    fputs("\n]}\n", to);
    return TN_OK;
}
