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

/* Run until there are as many runs, or seconds, as wanted; with a profile each run is looked into. */
static int
measure(TnContext *ctx, const Options *o, TnSession *s, Tensors *t, Times *times, Profile *profile)
{
    int64_t warmup = o->warmup < 0 ? WARMUP : o->warmup;
    double duration = o->duration < 0 ? DURATION : o->duration;
    Progress p = progress_begin();
    TnStatus status = TN_OK;
    int looked = TN_OK;

    for (int64_t i = 0; i < warmup && status == TN_OK; i++)
        status = tn_run(s, t->in, t->nin, t->out, t->nout);
    if (profile && status == TN_OK)
        looked = profile_begin(ctx, s, profile);
    double begin = seconds();
    while (status == TN_OK && looked == TN_OK) {
        if (o->iterations >= 0 ? times->n >= o->iterations : times->n >= LEAST_RUNS && seconds() - begin >= duration)
            break;
        double start = seconds();
        status = tn_run(s, t->in, t->nin, t->out, t->nout);
        add_time(times, 1e3 * (seconds() - start));
        if (profile && status == TN_OK)
            looked = profile_run(ctx, s, profile);
        if (o->iterations >= 0)
            progress_show(&p, "runs", times->n, o->iterations);
    }
    progress_end(&p);
    return looked ? looked : report(ctx, status);
}

/* ---- telling ------------------------------------------------------------------------------------------- */

typedef struct {
    const Options *o;
    int threads;
    int64_t runs;
    Summary summary;
    const Profile *profile;              /* NULL: none */
} Results;

static void
print_json(FILE *to, const Results *r)
{
    const Summary *s = &r->summary;

    fputs("{\n  \"model\": \"", to);
    for (const char *c = r->o->model; *c; c++)
        fprintf(to, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    fprintf(to, "\",\n  \"threads\": %d,\n  \"iterations\": %lld,\n  \"min_ms\": %.6f,\n  \"median_ms\": %.6f,\n  \"mean_ms\": %.6f,\n"
                "  \"p90_ms\": %.6f,\n  \"p99_ms\": %.6f,\n  \"max_ms\": %.6f",
            r->threads, (long long)r->runs, s->min, s->median, s->mean, s->p90, s->p99, s->max);
    if (r->profile)
        profile_json(to, r->profile);
    fputs("\n}\n", to);
}

/* A file written beside and renamed, as everything that tenon writes. `write` puts its text. */
static int
write_file(const char *option, const char *path, int (*write)(void *user, FILE *to), void *user)
{
    size_t room = strlen(path) + 8;
    char *beside = need(malloc(room));

    snprintf(beside, room, "%s.tmp", path);
    FILE *to = fopen(beside, "w");
    bool ok = to != NULL;
    int status = ok ? write(user, to) : TN_OK;
    ok = ok && !ferror(to) && !fclose(to) && status == TN_OK && !rename(beside, path);
    int why = errno;
    if (!ok)
        remove(beside);
    free(beside);
    if (ok || status != TN_OK)
        return status;
    return usage_error("--%s %s: %s", option, path, strerror(why)), why == ENOSPC || why == EFBIG ? TN_LIMIT : TN_USAGE;
}

static int
write_json(void *user, FILE *to)
{
    print_json(to, user);
    return TN_OK;
}

static int
tell(const Options *o, int threads, Times *times, const Profile *profile)
{
    Results r = { o, threads, times->n, summarise(times), profile };
    const Summary *s = &r.summary;

    if (o->json_file && !strcmp(o->json_file, "-")) {
        print_json(stdout, &r);
        return TN_OK;
    }
    printf("%lld runs, %d thread%s; milliseconds\n", (long long)times->n, threads, threads == 1 ? "" : "s");
    printf("%10s %10s %10s %10s %10s %10s\n", "min", "median", "mean", "p90", "p99", "max");
    printf("%10.4g %10.4g %10.4g %10.4g %10.4g %10.4g\n", s->min, s->median, s->mean, s->p90, s->p99, s->max);
    if (profile)
        profile_print(profile);
    return o->json_file ? write_file("json", o->json_file, write_json, &r) : TN_OK;
}

typedef struct { TnContext *ctx; TnSession *session; } Traced;

static int
write_trace(void *user, FILE *to)
{
    const Traced *t = user;

    return profile_trace(t->ctx, t->session, to);
}

/* The runs that are timed as a whole are not those that are looked into. */
static int
bench_session(TnContext *ctx, const Options *o, TnSession *s, Tensors *t)
{
    bool wanted = o->profile || o->trace;
    int threads = tn_session_threads(s);
    Times times = { 0 }, profiled = { 0 };
    Profile profile = { 0 };

    int status = measure(ctx, o, s, t, &times, NULL);
    if (status == TN_OK && wanted)
        status = measure(ctx, o, s, t, &profiled, &profile);
    if (status == TN_OK && wanted)
        status = profile_end(ctx, o, threads, &profile);
    if (status == TN_OK)
        status = tell(o, threads, &times, o->profile ? &profile : NULL);
    if (status == TN_OK && o->trace)
        status = write_file("trace", o->trace, write_trace, &(Traced){ ctx, s });
    profile_free(&profile);
    free(profiled.ms);
    free(times.ms);
    return status;
}

static int
bench(TnContext *ctx, const Options *o, TnModel *m)
{
    TnSession *session = NULL;
    Tensors t = { 0 };

    int status = session_open(ctx, o, m, &t, &session);
    if (status == TN_OK)
        status = bench_session(ctx, o, session, &t);
    tn_session_free(session);
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
