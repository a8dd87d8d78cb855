/* tenon bench: run times over many runs, on one thread count or several, of one model or of two in
 * turn.
 *
 * Two models are measured in short alternating slices, so that other load on the machine affects
 * both.
 */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARMUP = 5, LEAST_RUNS = 5, MOST_MODELS = 2 };
#define DURATION 3.0
#define SLICE 0.02

typedef struct {
    double *ms;
    int64_t n, room;
    double sum;
} RunTimes;

/* One model on one number of threads. */
typedef struct {
    Options o; /* the command's, with this model and these threads */
    TnContext *ctx;
    TnSession *session;
    Tensors tensors;
    RunTimes times;
    Speed speed;
} Subject;

static void
add_time(RunTimes *t, double ms)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 1024;
        t->ms = need(realloc(t->ms, (size_t)t->room * sizeof *t->ms));
    }
    t->ms[t->n++] = ms;
    t->sum += ms;
}

/* The smallest time that at least this share of all runs did not exceed. */
static double
quantile(const RunTimes *t, double share)
{
    int64_t i = (int64_t)(share * (double)t->n + 0.999999) - 1;

    return t->ms[i < 0 ? 0 : i >= t->n ? t->n - 1 : i];
}

static void
summarise(RunTimes *t, Speed *s)
{
    qsort(t->ms, (size_t)t->n, sizeof *t->ms, by_number);
    s->runs = t->n;
    s->min = t->ms[0];
    s->median = median(t->ms, t->n);
    s->mean = t->sum / (double)t->n;
    s->p90 = quantile(t, 0.90);
    s->p99 = quantile(t, 0.99);
    s->max = t->ms[t->n - 1];
    s->per_second = 1e3 / s->mean;
}

/* ---- running --------------------------------------------------------------------------------- */

/* In memory now, of the whole process; 0: not known. */
static int64_t
resident_bytes(void)
{
    long long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%lld %lld", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

/* States begin empty every time, so that all runs are the same. */
static TnStatus
run_once(Subject *s)
{
    TnStatus status = tn_session_state_reset(s->session);
    return status != TN_OK
               ? status
               : tn_run(s->session, s->tensors.in, s->tensors.nin, s->tensors.out, s->tensors.nout);
}

static bool
is_done(const Subject *s)
{
    double duration = s->o.duration < 0 ? DURATION : s->o.duration;

    return s->o.iterations >= 0 ? s->times.n >= s->o.iterations
                                : s->times.n >= LEAST_RUNS && s->times.sum >= 1e3 * duration;
}

/* A model's turn: a slice of time where others wait for theirs, else until it is done. */
static int
measure_slice(Subject *s, bool alone, Progress *p, ProfileReport *profile)
{
    double begin = seconds();
    TnStatus status = TN_OK;
    int looked = TN_OK;

    while (status == TN_OK && looked == TN_OK && !is_done(s) &&
           (alone || seconds() - begin < SLICE)) {
        double start = seconds();
        status = run_once(s);
        add_time(&s->times, 1e3 * (seconds() - start));
        if (profile && status == TN_OK)
            looked = profile_run(s->ctx, s->session, profile);
        if (s->o.iterations >= 0)
            progress_show(p, "runs", s->times.n, s->o.iterations);
    }
    return looked ? looked : report(s->ctx, status);
}

/* With a profile each run is looked into. */
static int
measure(Subject *s, int n, ProfileReport *profile)
{
    Progress p = progress_begin();
    int status = TN_OK;
    bool all = false;

    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < (s[k].o.warmup < 0 ? WARMUP : s[k].o.warmup) && status == TN_OK;
             i++)
            status = report(s[k].ctx, run_once(&s[k]));
    if (profile && status == TN_OK)
        status = profile_begin(s->ctx, s->session, profile);
    while (!all && status == TN_OK) {
        all = true;
        for (int k = 0; k < n && status == TN_OK; k++) {
            status = measure_slice(&s[k], n == 1, &p, profile);
            all &= is_done(&s[k]);
        }
    }
    progress_end(&p);
    return status;
}

/* ---- one model on one number of threads ------------------------------------------------------ */

static int
subject_open(TnContext *ctx, const Options *o, TnModel *m, Subject *s)
{
    s->o = *o;
    s->ctx = ctx;
    int status = session_open(ctx, &s->o, m, &s->tensors, &s->session);
    if (status == TN_OK) {
        inputs_own(&s->tensors);
        double start = seconds();
        status = report(ctx, run_once(s));
        s->speed.first_ms = 1e3 * (seconds() - start);
    }
    return status;
}

static void
subject_end(Subject *s)
{
    s->speed.model = s->o.model;
    s->speed.threads = tn_session_threads(s->session);
    s->speed.arena_bytes = tn_session_arena_bytes(s->session);
    s->speed.resident_bytes = resident_bytes();
    summarise(&s->times, &s->speed);
}

static void
subject_close(Subject *s)
{
    tn_session_free(s->session);
    tensors_free(&s->tensors);
    free(s->times.ms);
}

typedef struct {
    TnContext *ctx;
    TnSession *session;
} Traced;

static int
write_trace(void *user, FILE *to)
{
    const Traced *t = user;

    return profile_trace(t->ctx, t->session, to);
}

/* Again, and looked into: the runs that are timed as a whole are not those. */
static int
look_into(Subject *s, ProfileReport *profile)
{
    free(s->times.ms);
    s->times = (RunTimes){ 0 };
    int status = measure(s, 1, profile);
    if (status == TN_OK)
        status = profile_end(s->ctx, &s->o, s->speed.threads, profile);
    if (status == TN_OK && s->o.trace)
        status = write_report("trace", s->o.trace, write_trace, &(Traced){ s->ctx, s->session });
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef struct {
    const char *path[MOST_MODELS];
    TnModel *model[MOST_MODELS];
    double load_ms[MOST_MODELS];
    int n;
} Models;

/* Every model on `threads` threads (0: all that may be used); `speed` gets a line of each. */
static int
bench_threads(TnContext *ctx, const Options *o, const Models *m, int64_t threads, Speed *speed,
              ProfileReport *profile)
{
    Subject s[MOST_MODELS] = { 0 };
    Options how = *o;
    int status = TN_OK;

    how.threads = threads;
    for (int k = 0; k < m->n && status == TN_OK; k++) {
        how.model = m->path[k];
        status = subject_open(ctx, &how, m->model[k], &s[k]);
    }
    if (status == TN_OK)
        status = measure(s, m->n, NULL);
    for (int k = 0; k < m->n && status == TN_OK; k++) {
        subject_end(&s[k]);
        s[k].speed.load_ms = m->load_ms[k];
        speed[k] = s[k].speed;
    }
    if (status == TN_OK && (o->profile || o->trace))
        status = look_into(s, profile);
    for (int k = 0; k < m->n; k++)
        subject_close(&s[k]);
    return status;
}

static int
bench(TnContext *ctx, const Options *o, const Models *m)
{
    ProfileReport profile = { 0 };
    const int64_t any = 0, *threads = o->sweep.n ? o->sweep.at : &any;
    int times = o->sweep.n ? o->sweep.n : 1, status = TN_OK;
    Speed *speed = need(calloc((size_t)(times * m->n), sizeof *speed));

    for (int i = 0; i < times && status == TN_OK; i++)
        status = bench_threads(ctx, o, m, threads[i], speed + i * m->n, &profile);
    if (status == TN_OK)
        status = speeds_tell(o, speed, times, m->n, o->profile ? &profile : NULL);
    profile_free(&profile);
    free(speed);
    return status;
}

int
cmd_bench(TnContext *ctx, const Options *o)
{
    Models m = { .path = { o->compare ? o->compare : o->model, o->model },
                 .n = o->compare ? 2 : 1 };
    Options how = *o;
    int status = TN_OK;

    if (o->decode)
        return bench_decode(ctx, o);
    if (o->iterations == 0)
        return usage_error("--iterations 0: at least one run is needed");
    if ((o->profile || o->trace) && (o->compare || o->sweep.n > 1))
        return usage_error("--%s looks into one model on one number of threads: leave out %s",
                           o->profile ? "profile" : "trace",
                           o->compare ? "--compare" : "all but one of --threads");
    for (int k = 0; k < m.n && status == TN_OK; k++) {
        how.model = m.path[k];
        status = model_open(ctx, &how, &m.model[k], &m.load_ms[k]);
    }
    if (status == TN_OK)
        status = bench(ctx, o, &m);
    for (int k = 0; k < m.n; k++)
        tn_model_free(m.model[k]);
    return status;
}
