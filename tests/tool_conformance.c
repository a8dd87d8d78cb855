/* tool_conformance: compile and run models as requests come, many in one process.
 *
 *   tool_conformance CACHE-DIR [TARGET [quick|full|compile]]
 *
 * full compiles what users get, quick in less time, and compile does not run it: for processors
 * that are not here.
 *
 * A request is a line of fields between tabs: the model, where its artefact and outputs are to go
 * (a prefix of file names), and a file for each input. The answer is one line too: the TnStatus,
 * then what went wrong, or for every output its type, its dimensions between commas, and the file
 * with its bytes. The model "=" is that of the request before, at other sizes perhaps.
 *
 * Everything goes through the public API, so what passes here is what a user's program would
 * compute. What the interpreter computes is compared with it: DIFFERS is the status if it is
 * something else. A C compiler that fails on a unit is a failure here, whatever compiles it then.
 */
#include "tenon.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIELDS = 512, MOST_OUTPUTS = 256, DIFFERS = 8 };

typedef struct {
    const char *cache, *target, *how;
} Way;

typedef struct {
    TnContext *ctx;
    TnModel *model;
    TnSession *session;
    char *path;   /* of the model */
    char **field; /* model, prefix, inputs */
    int n;
    TnTensor in[MOST_FIELDS], out[MOST_OUTPUTS], same[MOST_OUTPUTS];
    int32_t nin, nout;
} Request;

/* What went wrong, in one line of the protocol. */
static void
answer_error(const Request *r, int status, const char *what)
{
    printf("%d\t%s", status, what);
    for (const char *s = tn_error(r->ctx); *s; s++)
        putchar(*s == '\n' || *s == '\t' ? ' ' : *s);
}

static TnStatus
make(Request *r, const Way *way)
{
    TnCompileOptions o = TN_INIT(TnCompileOptions);
    TnSessionOptions alone = TN_INIT(TnSessionOptions);
    char path[4096];

    o.quick = !strcmp(way->how, "quick");
    o.target = way->target;
    o.cache_dir = way->cache;
    o.jobs = 1;
    alone.threads = 1;
    snprintf(path, sizeof path, "%s.so", r->field[1]);
    TnStatus status = tn_compile(r->ctx, r->path, path, &o, NULL);
    if (status == TN_OK && strstr(tn_error(r->ctx), "may run slower"))
        status = TN_TOOLCHAIN;
    if (!strcmp(way->how, "compile"))
        return status;
    if (status == TN_OK)
        status = tn_load(r->ctx, path, &r->model);
    return status == TN_OK ? tn_session_new(r->ctx, r->model, &alone, &r->session) : status;
}

static TnStatus
run(Request *r)
{
    TnStatus status = TN_OK;

    r->nin = r->n - 2;
    r->nout = tn_model_outputs(r->model);
    r->nout = r->nout < MOST_OUTPUTS ? r->nout : MOST_OUTPUTS;
    for (int32_t i = 0; i < r->nin && status == TN_OK; i++) {
        r->in[i] = (TnTensor)TN_INIT(TnTensor);
        status = tn_tensor_read(r->ctx, r->field[2 + i], &r->in[i]);
        r->in[i].name = NULL;
    }
    for (int32_t i = 0; i < r->nout; i++)
        r->out[i] = r->same[i] = (TnTensor)TN_INIT(TnTensor);
    return status == TN_OK ? tn_run(r->session, r->in, r->nin, r->out, r->nout) : status;
}

/* Does the interpreter agree? Types of 16 bits and fewer are rounded after each operator, or after
 * several. */
static bool
interpreter_agrees(Request *r)
{
    TnStatus status = tn_interpret(r->ctx, r->path, NULL, r->in, r->nin, r->same, r->nout);

    if (status != TN_OK) {
        answer_error(r, DIFFERS, "the interpreter fails where compiled code does not: ");
        return false;
    }
    for (int32_t i = 0; i < r->nout; i++) {
        TnDifference d = TN_INIT(TnDifference);
        bool narrow = strchr("fb", *r->out[i].dtype) && strcmp(r->out[i].dtype, "f32") &&
                      strcmp(r->out[i].dtype, "f64");
        double loose = narrow ? 2e-2 : 1e-3;
        status = tn_tensor_compare(r->ctx, &r->out[i], &r->same[i], loose / 10, loose, &d);
        if (status != TN_OK || d.mismatches) {
            printf("%d\toutput %d: element %" PRId64 " is %g, and %g by the interpreter", DIFFERS,
                   i, d.at, d.x_at, d.y_at);
            return false;
        }
    }
    return true;
}

static void
answer_outputs(const Request *r)
{
    const TnTensor *out = r->out;
    char path[4096];

    printf("0");
    for (int32_t i = 0; i < r->nout; i++) {
        snprintf(path, sizeof path, "%s.%d", r->field[1], i);
        FILE *f = fopen(path, "wb");
        bool text = !strcmp(out[i].dtype, "str");
        for (int64_t k = 0; f && text && k < out[i].bytes / (int64_t)sizeof(char *); k++)
            fwrite(((char **)out[i].data)[k], 1, strlen(((char **)out[i].data)[k]) + 1, f);
        if (!f ||
            (!text && fwrite(out[i].data, 1, (size_t)out[i].bytes, f) != (size_t)out[i].bytes) ||
            fclose(f)) {
            fprintf(stderr, "cannot write %s\n", path);
            exit(1);
        }
        printf("\t%s\t", out[i].dtype);
        for (int32_t d = 0; d < out[i].rank; d++)
            printf("%s%" PRId64, d ? "," : "", out[i].dims[d]);
        printf("\t%s", path);
    }
}

static void
close_model(Request *r)
{
    tn_session_free(r->session);
    tn_model_free(r->model);
    tn_context_free(r->ctx);
    free(r->path);
    *r = (Request){ 0 };
}

/* Each model has a context of its own, which keeps the tensors that were read. */
static void
serve(Request *r, char **field, int n, const Way *way)
{
    TnStatus status = TN_OK;

    if (strcmp(field[0], "=")) {
        close_model(r);
        r->path = strdup(field[0]);
        if (tn_context_new(NULL, &r->ctx) != TN_OK)
            exit(1);
    }
    r->field = field;
    r->n = n;
    if (!r->session)
        status = make(r, way);
    bool runs = strcmp(way->how, "compile");
    if (status == TN_OK && runs)
        status = run(r);
    if (status != TN_OK)
        answer_error(r, (int)status, "");
    else if (!runs)
        putchar('0');
    else if (interpreter_agrees(r))
        answer_outputs(r);
    putchar('\n');
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    static Request r;
    char *line = NULL, *field[MOST_FIELDS], *rest;
    size_t size = 0;

    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: tool_conformance CACHE-DIR [TARGET [quick|full|compile]]\n");
        return 2;
    }
    const Way way = { argv[1], argc > 2 ? argv[2] : "native", argc > 3 ? argv[3] : "quick" };
    while (getline(&line, &size, stdin) > 0) {
        int n = 0;
        line[strcspn(line, "\n")] = 0;
        for (char *s = strtok_r(line, "\t", &rest); s && n < MOST_FIELDS;
             s = strtok_r(NULL, "\t", &rest))
            field[n++] = s;
        if (n < 2 || (!r.ctx && !strcmp(field[0], "=")))
            return 2;
        serve(&r, field, n, &way);
    }
    close_model(&r);
    free(line);
    return 0;
}
