/* tenon verify: compiled code against the interpreter, on the same inputs. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>

static int
interpret(TnContext *ctx, const Options *o, const Tensors *t, TnTensor *out)
{
    Progress p = progress_begin();
    TnCompileOptions options;

    int status = compile_options_to_run(o, &p, &options);
    if (status == TN_OK) {
        TnStatus s = tn_interpret(ctx, o->model, &options, t->in, t->nin, out, t->nout);
        progress_end(&p);
        status = report(ctx, s);
    }
    compile_options_free(&options);
    return status;
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

static int
compare(TnContext *ctx, const Options *o, const Tensors *t, const TnTensor *want)
{
    const char *first = NULL;

    if (o->json)
        puts("[");
    for (int32_t i = 0; i < t->nout; i++) {
        TnDifference d;
        bool agrees;
        int status = compare_outputs(ctx, o, &t->out[i], &want[i], &d, &agrees);
        if (status != TN_OK)
            return status;
        print_line(o, i + 1 == t->nout, &t->out[i], &d, agrees);
        if (!agrees && !first)
            first = t->out[i].name;
    }
    if (o->json)
        puts("]");
    if (first)
        fprintf(stderr, "tenon: the compiled model does not compute what the interpreter does; the first output that differs is %s. "
                        "Please report it with the model\n", first);
    return first ? EXIT_DIFFERS : TN_OK;
}

static int
verify(TnContext *ctx, const Options *o, TnModel *m)
{
    TnSession *session = NULL;
    Tensors t = { 0 };
    TnTensor *want = NULL;

    int status = session_open(ctx, o, m, &t, &session);
    if (status == TN_OK) {
        want = need(calloc((size_t)t.nout + 1, sizeof *want));
        for (int32_t i = 0; i < t.nout; i++)
            want[i].size = sizeof *want;
        status = report(ctx, tn_run(session, t.in, t.nin, t.out, t.nout));
    }
    if (status == TN_OK)
        status = interpret(ctx, o, &t, want);
    if (status == TN_OK)
        status = compare(ctx, o, &t, want);
    tn_session_free(session);
    free(want);
    tensors_free(&t);
    return status;
}

int
cmd_verify(TnContext *ctx, const Options *o)
{
    if (is_artefact(o->model))
        return usage_error("%s is compiled already: verify wants the model it was compiled from (.onnx or .tn)", o->model);
    return model_with(ctx, o, verify);
}
