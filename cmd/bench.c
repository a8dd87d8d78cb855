/* tenon bench: the times of one run, over many. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP = 5, LEAST_RUNS = 5 };
#define DURATION 3.0

typedef struct { double *ms; int64_t n, room; } Times;
typedef struct { double min, median, mean, p90, p99, max; } Summary;

static void
add_time(Times *t, double ms)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 1024;
        t->ms = need(realloc(t->ms, (size_t)t->room * sizeof *t->ms));
    }
    t->ms[t->n++] = ms;
}

static int
by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* The smallest time that at least this share of all runs did not exceed. */
static double
quantile(const Times *t, double share)
{
    int64_t i = (int64_t)(share * (double)t->n + 0.999999) - 1;

    return t->ms[i < 0 ? 0 : i >= t->n ? t->n - 1 : i];
}

static Summary
summarise(Times *t)
{
    double sum = 0;

    qsort(t->ms, (size_t)t->n, sizeof *t->ms, by_value);
    for (int64_t i = 0; i < t->n; i++)
        sum += t->ms[i];
    double median = t->n % 2 ? t->ms[t->n / 2] : (t->ms[t->n / 2 - 1] + t->ms[t->n / 2]) / 2;
    return (Summary){ t->ms[0], median, sum / (double)t->n, quantile(t, 0.90), quantile(t, 0.99), t->ms[t->n - 1] };
}

/* ---- running ------------------------------------------------------------------------------------------ */

static int
measure(TnContext *ctx, const Options *o, TnSession *s, Tensors *t, Times *times)
{
    int64_t warmup = o->warmup < 0 ? WARMUP : o->warmup;
    double duration = o->duration < 0 ? DURATION : o->duration;
    Progress p = progress_begin();
    TnStatus status = TN_OK;

    for (int64_t i = 0; i < warmup && status == TN_OK; i++)
        status = tn_run(s, t->in, t->nin, t->out, t->nout);
    double begin = seconds();
    while (status == TN_OK) {
        if (o->iterations >= 0 ? times->n >= o->iterations : times->n >= LEAST_RUNS && seconds() - begin >= duration)
            break;
        double start = seconds();
        status = tn_run(s, t->in, t->nin, t->out, t->nout);
        add_time(times, 1e3 * (seconds() - start));
        if (o->iterations >= 0)
            progress_show(&p, "runs", times->n, o->iterations);
    }
    progress_end(&p);
    return report(ctx, status);
}

/* ---- telling ------------------------------------------------------------------------------------------- */

static void
print_json(FILE *to, const Options *o, int threads, const Summary *s, int64_t n)
{
    fputs("{\n  \"model\": \"", to);
    for (const char *c = o->model; *c; c++)
        fprintf(to, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    fprintf(to, "\",\n  \"threads\": %d,\n  \"iterations\": %lld,\n  \"min_ms\": %.6f,\n  \"median_ms\": %.6f,\n  \"mean_ms\": %.6f,\n"
                "  \"p90_ms\": %.6f,\n  \"p99_ms\": %.6f,\n  \"max_ms\": %.6f\n}\n",
            threads, (long long)n, s->min, s->median, s->mean, s->p90, s->p99, s->max);
}

/* Written beside and renamed, as everything that tenon writes. */
static int
write_json(const Options *o, int threads, const Summary *s, int64_t n)
{
    size_t room = strlen(o->json_file) + 8;
    char *beside = need(malloc(room));

    snprintf(beside, room, "%s.tmp", o->json_file);
    FILE *to = fopen(beside, "w");
    bool ok = to != NULL;
    if (ok)
        print_json(to, o, threads, s, n);
    ok = ok && !ferror(to) && !fclose(to) && !rename(beside, o->json_file);
    int why = errno;
    if (!ok)
        remove(beside);
    free(beside);
    return ok ? TN_OK : (usage_error("--json %s: %s", o->json_file, strerror(why)), why == ENOSPC || why == EFBIG ? TN_LIMIT : TN_USAGE);
}

static int
tell(const Options *o, int threads, Times *times)
{
    Summary s = summarise(times);

    if (o->json_file && !strcmp(o->json_file, "-")) {
        print_json(stdout, o, threads, &s, times->n);
        return TN_OK;
    }
    printf("%lld runs, %d thread%s; milliseconds\n", (long long)times->n, threads, threads == 1 ? "" : "s");
    printf("%10s %10s %10s %10s %10s %10s\n", "min", "median", "mean", "p90", "p99", "max");
    printf("%10.4g %10.4g %10.4g %10.4g %10.4g %10.4g\n", s.min, s.median, s.mean, s.p90, s.p99, s.max);
    return o->json_file ? write_json(o, threads, &s, times->n) : TN_OK;
}

static int
bench(TnContext *ctx, const Options *o, TnModel *m)
{
    TnSession *session = NULL;
    Tensors t = { 0 };
    Times times = { 0 };

    int status = session_open(ctx, o, m, &t, &session);
    if (status == TN_OK)
        status = measure(ctx, o, session, &t, &times);
    if (status == TN_OK)
        status = tell(o, tn_session_threads(session), &times);
    tn_session_free(session);
    free(times.ms);
    tensors_free(&t);
    return status;
}

int
cmd_bench(TnContext *ctx, const Options *o)
{
    if (o->iterations == 0)
        return usage_error("--iterations 0: at least one run is needed");
    return model_with(ctx, o, bench);
}
