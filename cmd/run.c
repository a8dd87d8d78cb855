/* run: one run of a model. Prints its outputs, writes them, compares them with what is expected. */
#include "cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- outputs --------------------------------------------------------------------------------- */

enum { SHOWN = 6 };

static void
print_element(const TnTensor *x, int64_t i)
{
    if (!print_if_no_double(x, i))
        printf(strchr("fb", x->dtype[0]) ? "%.6g" : "%.0f", tn_tensor_number(x, i));
}

/* The first elements of an output, for a person's eye. */
static void
print_first(const TnTensor *x)
{
    int64_t n = element_count(x);

    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        putchar(' ');
        print_element(x, i);
    }
    printf("%s", n > SHOWN ? " …" : "");
}

/* The result of comparing an output with what is expected. */
typedef struct {
    bool compared, agrees;
    TnDifference d;
} Verdict;

typedef struct {
    double least, most, mean;
    int64_t nan;
} Stats;

/* Of the elements that are numbers; NaN if there are none. */
static Stats
stats_of(const TnTensor *x)
{
    Stats s = { NAN, NAN, 0, 0 };
    int64_t n = element_count(x);
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double v = tn_tensor_number(x, i);
        if (isnan(v)) {
            s.nan++;
            continue;
        }
        s.least = fmin(s.least, v);
        s.most = fmax(s.most, v);
        sum += v;
    }
    s.mean = n > s.nan ? sum / (double)(n - s.nan) : NAN;
    return s;
}

static void
print_stats(const TnTensor *x)
{
    Stats s = stats_of(x);

    printf("  min %.6g, max %.6g, mean %.6g", s.least, s.most, s.mean);
    if (s.nan)
        printf(", %lld NaN", (long long)s.nan);
    putchar('\n');
}

/* NaN is less than every number. */
static bool
is_larger(double v, double other)
{
    return v > other || (isnan(other) && !isnan(v));
}

/* "  row 0: 7 (0.98), 3 (0.01)": indices along the last axis, largest element first. */
static void
print_top(const TnTensor *x, int64_t k)
{
    enum { ROWS = 4 };
    int64_t n = x->rank ? x->dims[x->rank - 1] : 1, rows = n ? element_count(x) / n : 0;

    for (int64_t r = 0; r < rows && r < ROWS; r++) {
        bool *taken = need(calloc((size_t)n, sizeof *taken));
        printf("  row %lld:", (long long)r);
        for (int64_t i = 0; i < k && i < n; i++) {
            int64_t best = -1;
            for (int64_t j = 0; j < n; j++)
                if (!taken[j] && (best < 0 || is_larger(tn_tensor_number(x, r * n + j),
                                                        tn_tensor_number(x, r * n + best))))
                    best = j;
            taken[best] = true;
            printf("%s %lld (", i ? "," : "", (long long)best);
            print_element(x, r * n + best);
            putchar(')');
        }
        puts(rows > ROWS && r + 1 == ROWS ? " …" : "");
        free(taken);
    }
}

static void
print_outputs(const Options *o, const Tensors *t, double ms)
{
    for (int32_t i = 0; i < t->nout; i++) {
        printf("%s: ", t->out[i].name);
        print_tensor_type(&t->out[i]);
        printf(" =");
        print_first(&t->out[i]);
        putchar('\n');
        if (!strcmp(t->out[i].dtype, "str"))
            continue;
        if (o->stats)
            print_stats(&t->out[i]);
        if (o->top)
            print_top(&t->out[i], o->top);
    }
    if (o->stats)
        printf("%.3f ms\n", ms);
}

static void
print_json(const Tensors *t, const Verdict *verdict, double ms)
{
    printf("{\"ms\": %.4f, \"outputs\": [", ms);
    for (int32_t i = 0; i < t->nout; i++) {
        printf("%s{\"name\": ", i ? ", " : "");
        print_json_string(t->out[i].name);
        printf(", \"type\": \"");
        print_tensor_type(&t->out[i]);
        printf("\"");
        if (verdict[i].compared)
            print_json_difference(&verdict[i].d, verdict[i].agrees);
        printf("}");
    }
    printf("]}\n");
}

/* A folder and its parents. */
static int
make_folder(const char *path)
{
    char *copy = need(strdup(path));

    for (char *s = copy; *s; s++)
        if (*s == '/' && s > copy) {
            *s = 0;
            mkdir(copy, 0777);
            *s = '/';
        }
    int failed = mkdir(copy, 0777) && errno != EEXIST;
    free(copy);
    return failed ? usage_error("--output-dir %s: %s", path, strerror(errno)) : TN_OK;
}

static int
write_outputs(TnContext *ctx, const Options *o, const Tensors *t)
{
    char **path = need(calloc((size_t)t->nout + 1, sizeof *path));
    int status = TN_OK;

    for (int32_t i = 0; i < t->nout && status == TN_OK; i++) {
        path[i] = output_path(o->output_dir, t->out[i].name, path, i);
        status = report(ctx, tn_tensor_write_npy(ctx, path[i], &t->out[i]));
    }
    for (int32_t i = 0; i < t->nout; i++)
        free(path[i]);
    free(path);
    return status;
}

/* ---- expected outputs ------------------------------------------------------------------------ */

static bool
same_type(const TnTensor *x, const TnTensor *y)
{
    return !strcmp(x->dtype, y->dtype) && x->rank == y->rank &&
           (!x->rank || !memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims));
}

static int
compare_with(TnContext *ctx, const Options *o, const TnTensor *x, const char *path, Verdict *v)
{
    TnTensor want = TN_INIT(TnTensor);

    int status = report(ctx, tn_tensor_read(ctx, path, &want));
    if (status == TN_OK && !same_type(x, &want)) {
        fflush(stdout);
        fprintf(stderr, "%s: error: holds ", path);
        fprint_tensor_type(stderr, &want);
        fprintf(stderr, ", output %s is ", x->name);
        fprint_tensor_type(stderr, x);
        fputs(": they cannot be compared\n", stderr);
        return TN_USAGE;
    }
    if (status == TN_OK)
        status = compare_outputs(ctx, o, x, &want, &v->d, &v->agrees);
    if (status != TN_OK)
        return status;
    v->compared = true;
    if (!o->json)
        print_difference(stdout, x, v->agrees ? "as expected" : "differs", &v->d, v->agrees);
    return v->agrees ? TN_OK : EXIT_DIFFERS;
}

static int
find_output(const Tensors *t, const char *name)
{
    int i = 0;

    while (i < t->nout && strcmp(t->out[i].name, name))
        i++;
    return i;
}

/* Are all outputs of --expect there? Asked before the model runs, which may take long. */
static int
check_expected(const Options *o, const Tensors *t)
{
    for (int k = 0; k < o->expect.n; k++) {
        if (find_output(t, o->expect.at[k].name) < t->nout)
            continue;
        fprintf(stderr, "tenon: error: --expect %s: the model has no such output. Its outputs are",
                o->expect.at[k].name);
        for (int32_t i = 0; i < t->nout; i++)
            fprintf(stderr, "%s %s", i ? "," : "", t->out[i].name);
        fputc('\n', stderr);
        return TN_USAGE;
    }
    return TN_OK;
}

static int
compare_all(TnContext *ctx, const Options *o, const Tensors *t, Verdict *verdict)
{
    int worst = TN_OK;
    char path[4096];

    for (int k = 0; k < o->expect.n; k++) {
        int i = find_output(t, o->expect.at[k].name);
        int status = compare_with(ctx, o, &t->out[i], o->expect.at[k].value, &verdict[i]);
        if (status > EXIT_DIFFERS)
            return status;
        worst = status > worst ? status : worst;
    }
    int compared = 0;
    for (int32_t i = 0; o->data && i < t->nout; i++) {
        snprintf(path, sizeof path, "%s/output_%d.pb", o->data, i);
        if (access(path, F_OK))
            continue;
        compared++;
        int status = compare_with(ctx, o, &t->out[i], path, &verdict[i]);
        if (status > EXIT_DIFFERS)
            return status;
        worst = status > worst ? status : worst;
    }
    if (o->data && !compared)
        note("--data %s: there is no output_0.pb in it, so nothing was compared", o->data);
    return worst;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int
tell(TnContext *ctx, const Options *o, const Tensors *t, double ms)
{
    Verdict *verdict = need(calloc((size_t)t->nout + 1, sizeof *verdict));

    if (!o->json)
        print_outputs(o, t, ms);
    int status = o->output_dir ? write_outputs(ctx, o, t) : TN_OK;
    if (status == TN_OK)
        status = compare_all(ctx, o, t, verdict);
    if (o->json && status <= EXIT_DIFFERS)
        print_json(t, verdict, ms);
    free(verdict);
    return status;
}

static int
run(TnContext *ctx, const Options *o, TnModel *m)
{
    TnSession *session = NULL;
    Tensors t = { 0 };

    int status = session_open(ctx, o, m, &t, &session);
    if (status == TN_OK)
        status = check_expected(o, &t);
    if (status == TN_OK && o->output_dir)
        status = make_folder(o->output_dir);
    if (status == TN_OK) {
        double start = seconds();
        status = tensors_run(ctx, o, session, &t);
        double ms = 1e3 * (seconds() - start);
        if (status == TN_OK)
            status = tell(ctx, o, &t, ms);
    }
    tn_session_free(session);
    tensors_free(&t);
    return status;
}

int
cmd_run(TnContext *ctx, const Options *o)
{
    if (o->compile.policy && !o->requests)
        return usage_error("--policy orders requests that run together: --many FILE");
    if (o->requests)
        return run_many(ctx, o);
    TnModel *m = NULL;
    int status = model_open_anywhere(ctx, o, &m);
    if (status == TN_OK)
        status = run(ctx, o, m);
    tn_model_free(m);
    return status;
}
