/* tenon run */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what came out ---------------------------------------------------------------------------------- */

enum { SHOWN = 6 };

/* The first numbers of an output, for a person's eye. */
static void
print_first(const TnTensor *x)
{
    int64_t n = 1;

    for (int32_t d = 0; d < x->rank; d++)
        n *= x->dims[d];
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        const char *t = x->dtype;
        printf(" ");
        if (!strcmp(t, "f32")) printf("%.6g", (double)((const float *)x->data)[i]);
        else if (!strcmp(t, "f64")) printf("%.6g", ((const double *)x->data)[i]);
        else if (!strcmp(t, "i64")) printf("%lld", (long long)((const int64_t *)x->data)[i]);
        else if (!strcmp(t, "i32")) printf("%d", ((const int32_t *)x->data)[i]);
        else if (!strcmp(t, "i8")) printf("%d", ((const int8_t *)x->data)[i]);
        else if (!strcmp(t, "u8") || !strcmp(t, "bool")) printf("%u", ((const uint8_t *)x->data)[i]);
        else { printf("(%s)", t); break; }
    }
    printf("%s", n > SHOWN ? " …" : "");
}

static void
print_outputs(const Options *o, const Tensors *t, double ms)
{
    if (!o->json) {
        for (int32_t i = 0; i < t->nout; i++) {
            printf("%s: ", t->out[i].name);
            print_tensor_type(&t->out[i]);
            printf(" =");
            print_first(&t->out[i]);
            putchar('\n');
        }
        return;
    }
    printf("{\"ms\": %.4f, \"outputs\": [", ms);
    for (int32_t i = 0; i < t->nout; i++) {
        printf("%s{\"name\": ", i ? ", " : "");
        print_json_string(t->out[i].name);
        printf(", \"type\": \"");
        print_tensor_type(&t->out[i]);
        printf("\"}");
    }
    printf("]}\n");
}

/* A folder and those it lies in. */
static int
make_folder(const char *path)
{
    char *copy = need(strdup(path));

    for (char *s = copy + 1; *s; s++)
        if (*s == '/') {
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
    int status = make_folder(o->output_dir);

    for (int32_t i = 0; i < t->nout && status == TN_OK; i++) {
        char *path = output_path(o->output_dir, t->out[i].name);
        status = report(ctx, tn_tensor_write_npy(ctx, path, &t->out[i]));
        free(path);
    }
    return status;
}

/* ---- what should have come out -------------------------------------------------------------------------- */

static int
compare_with(TnContext *ctx, const Options *o, const TnTensor *x, const char *path)
{
    TnTensor want = TN_INIT(TnTensor);
    TnDifference d;
    bool agrees;

    int status = report(ctx, tn_tensor_read(ctx, path, &want));
    if (status == TN_OK)
        status = compare_outputs(ctx, o, x, &want, &d, &agrees);
    if (status != TN_OK)
        return status;
    print_difference(o->json ? stderr : stdout, x, agrees ? "as expected" : "differs", &d, agrees);
    return agrees ? TN_OK : EXIT_DIFFERS;
}

static const TnTensor *
find_output(const Tensors *t, const char *name)
{
    for (int32_t i = 0; i < t->nout; i++)
        if (!strcmp(t->out[i].name, name))
            return &t->out[i];
    fprintf(stderr, "tenon: error: --expect %s: the model has no such output. Its outputs are", name);
    for (int32_t i = 0; i < t->nout; i++)
        fprintf(stderr, "%s %s", i ? "," : "", t->out[i].name);
    fputc('\n', stderr);
    return NULL;
}

static int
compare_all(TnContext *ctx, const Options *o, const Tensors *t)
{
    int worst = TN_OK;
    char path[4096];

    for (int k = 0; k < o->expect.n; k++) {
        const TnTensor *x = find_output(t, o->expect.at[k].name);
        int status = x ? compare_with(ctx, o, x, o->expect.at[k].value) : TN_USAGE;
        if (status > EXIT_DIFFERS)
            return status;
        worst = status > worst ? status : worst;
    }
    for (int32_t i = 0; o->data && i < t->nout; i++) {
        snprintf(path, sizeof path, "%s/output_%d.pb", o->data, i);
        if (access(path, F_OK))
            continue;
        int status = compare_with(ctx, o, &t->out[i], path);
        if (status > EXIT_DIFFERS)
            return status;
        worst = status > worst ? status : worst;
    }
    return worst;
}

/* ---- the verb ---------------------------------------------------------------------------------------------- */

static int
run(TnContext *ctx, const Options *o, TnModel *m)
{
    TnSession *session = NULL;
    Tensors t = { 0 };

    int status = session_open(ctx, o, m, &t, &session);
    if (status == TN_OK) {
        double start = seconds();
        status = report(ctx, tn_run(session, t.in, t.nin, t.out, t.nout));
        double ms = 1e3 * (seconds() - start);
        if (status == TN_OK)
            print_outputs(o, &t, ms);
    }
    if (status == TN_OK && o->output_dir)
        status = write_outputs(ctx, o, &t);
    if (status == TN_OK)
        status = compare_all(ctx, o, &t);
    tn_session_free(session);
    tensors_free(&t);
    return status;
}

int
cmd_run(TnContext *ctx, const Options *o)
{
    return model_with(ctx, o, run);
}
