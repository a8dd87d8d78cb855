/* tenon verify: compiled code against the interpreter, or against ONNX Runtime, on the same inputs.
 * Code for another processor runs under an emulator of it. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Against what: the interpreter if there is no folder. */
typedef struct {
    const char *folder;
    bool marked; /* values between are outputs */
} Judge;

static int
interpret(TnContext *ctx, const Options *o, const Tensors *t, TnTensor *out)
{
    Progress p = progress_begin();
    TnCompileOptions options = compile_options_to_run(o, &p);

    return report_after(&p, ctx,
                        tn_interpret(ctx, o->model, &options, t->in, t->nin, out, t->nout));
}

static void
print_line(const Options *o, bool last, const TnTensor *x, const TnDifference *d, bool agrees)
{
    if (!o->json) {
        print_difference(stdout, x, agrees ? "agrees" : "differs", d, agrees);
        return;
    }
    printf("  {\"output\": ");
    print_json_string(x->name);
    print_json_difference(d, agrees);
    printf("}%s\n", last ? "" : ",");
}

static void
tell_first(const Judge *j, const TnTensor *first, int32_t at)
{
    char *node = j->marked ? against_node(j->folder, at) : NULL;

    fprintf(
        stderr,
        "tenon: the compiled model does not compute what %s does; the first %s that differs is %s",
        j->folder ? "ONNX Runtime" : "the interpreter", j->marked ? "value" : "output",
        first->name);
    if (node && *node)
        fprintf(stderr, ", which %s makes", node);
    fputs(j->folder ? ". Does it agree with the interpreter (verify without --against)?\n"
                    : ". Please report it with the model\n",
          stderr);
    free(node);
}

static int
compare(TnContext *ctx, const Options *o, const Judge *j, const Tensors *t, const TnTensor *want)
{
    int32_t first = t->nout;

    if (o->json)
        puts("[");
    for (int32_t i = 0; i < t->nout; i++) {
        TnDifference d;
        bool agrees;
        int status = compare_outputs(ctx, o, &t->out[i], &want[i], &d, &agrees);
        if (status != TN_OK)
            return status;
        print_line(o, i + 1 == t->nout, &t->out[i], &d, agrees);
        if (!agrees && first == t->nout)
            first = i;
    }
    if (o->json)
        puts("]");
    if (first < t->nout)
        tell_first(j, &t->out[first], first);
    return first < t->nout ? EXIT_DIFFERS : TN_OK;
}

static int
verify_session(TnContext *ctx, const Options *o, const Judge *j, TnModel *m)
{
    TnSession *session = NULL;
    Tensors t = { 0 };
    TnTensor *want = NULL;

    int status = session_open(ctx, o, m, &t, &session);
    if (status == TN_OK) {
        want = need(calloc((size_t)t.nout + 1, sizeof *want));
        for (int32_t i = 0; i < t.nout; i++)
            want[i].size = sizeof *want;
        status = tensors_run(ctx, o, session, &t);
    }
    if (status == TN_OK)
        status = j->folder ? against_run(ctx, o, o->model, j->folder, &t, want)
                           : interpret(ctx, o, &t, want);
    if (status == TN_OK)
        status = compare(ctx, o, j, &t, want);
    tn_session_free(session);
    free(want);
    tensors_free(&t);
    return status;
}

static int
verify(TnContext *ctx, const Options *o, const Judge *j)
{
    TnModel *m = NULL;

    int status = model_open_anywhere(ctx, o, &m);
    if (status == TN_OK)
        status = verify_session(ctx, o, j, m);
    tn_model_free(m);
    return status;
}

/* With --intermediate a copy of the model is compared, in which every value between is an
 * output. */
static int
verify_against(TnContext *ctx, const Options *o)
{
    Temporary folder;
    Options how = *o;
    char marked[sizeof folder.path + 16];

    if (strcmp(o->against, "onnxruntime"))
        return usage_error(
            "--against %s is not known: onnxruntime is, and without --against the interpreter",
            o->against);
    stop_defer();
    int status = temporary_open(&folder) ? TN_OK : TN_LIMIT;
    if (status == TN_OK) {
        Judge j = { folder.path, o->intermediate };
        if (o->intermediate) {
            status = against_mark(o, folder.path);
            snprintf(marked, sizeof marked, "%s/marked.onnx", folder.path);
            how.model = marked;
        }
        if (status == TN_OK)
            status = verify(ctx, &how, &j);
        temporary_close(&folder);
    }
    stop_now();
    return status;
}

int
cmd_verify(TnContext *ctx, const Options *o)
{
    if (is_artefact(o->model))
        return usage_error(
            "%s is compiled already: verify wants the model it was compiled from (.onnx or .tn)",
            o->model);
    if (o->intermediate && !o->against)
        return usage_error(
            "--intermediate is about another runtime: give --against onnxruntime too");
    return o->against ? verify_against(ctx, o) : verify(ctx, o, &(Judge){ NULL, false });
}
