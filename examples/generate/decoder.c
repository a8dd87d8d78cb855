#include "decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const taken[DECODER_INPUTS] = { "input_ids", "attention_mask", "position_ids" };

static bool
problem(Decoder *d, const char *what, const char *which)
{
    snprintf(d->problem, sizeof d->problem, "%s%s", what, which);
    return false;
}

static bool
good(Decoder *d, TnStatus status)
{
    return status == TN_OK || problem(d, tn_error(d->ctx), "");
}

static int32_t
kind_of(const char *name)
{
    for (int32_t i = 0; i < DECODER_INPUTS; i++)
        if (!strcmp(name, taken[i]))
            return i;
    return -1;
}

/* What the model takes, in its order: each is one of three that we know. */
static bool
find_inputs(Decoder *d)
{
    if (!tn_model_states(d->model))
        return problem(d,
                       "the model keeps no cache between runs: compile it with --state "
                       "'past_key_values.*=present.*'",
                       "");
    d->nin = tn_model_inputs(d->model);
    d->nout = tn_model_outputs(d->model);
    for (int32_t i = 0; i < d->nin; i++) {
        TnValueInfo v = TN_INIT(TnValueInfo);
        if (!good(d, tn_model_input(d->model, i, &v)))
            return false;
        int32_t kind = kind_of(v.name);
        if (kind < 0 || i == DECODER_INPUTS || v.rank != 2 || strcmp(v.dtype, "i64"))
            return problem(d, "this program has nothing to give for input ", v.name);
        d->masked |= kind == 1;
        d->batch = kind == 0 ? v.dim_text[0] : d->batch;
        d->in[i] = (TnTensor){
            .size = sizeof *d->in, .name = v.name, .dtype = "i64", .rank = 2, .dims = d->dims[i]
        };
    }
    if (!d->batch)
        return problem(d, "the model takes no input_ids", "");
    d->out = calloc((size_t)d->nout, sizeof *d->out);
    if (!d->out)
        return problem(d, "no memory", "");
    for (int32_t i = 0; i < d->nout; i++)
        d->out[i].size = sizeof *d->out;
    return true;
}

bool
decoder_open(Decoder *d, const char *path, int32_t threads, int64_t rows)
{
    TnSessionOptions how = TN_INIT(TnSessionOptions);

    *d = (Decoder){ 0 };
    how.threads = threads;
    how.state_capacity = rows;
    if (tn_context_new(NULL, &d->ctx) != TN_OK)
        return problem(d, "no memory", "");
    return good(d, tn_load(d->ctx, path, &d->model)) && find_inputs(d) &&
           good(d, tn_session_new(d->ctx, d->model, &how, &d->session));
}

static void
give(Decoder *d, const DecoderStep *step, int64_t rows)
{
    for (int32_t i = 0; i < d->nin; i++) {
        int32_t kind = kind_of(d->in[i].name);
        const int64_t *data[DECODER_INPUTS] = { step->ids, step->mask, step->places };
        d->in[i].data = (void *)(uintptr_t)data[kind];
        d->dims[i][0] = step->sequences;
        d->dims[i][1] = kind == 1 ? rows + step->tokens : step->tokens;
        d->in[i].bytes = 8 * d->dims[i][0] * d->dims[i][1];
    }
}

bool
decoder_reserve(Decoder *d, int64_t sequences, int64_t rows, int64_t tokens)
{
    give(d, &(DecoderStep){ .sequences = sequences, .tokens = tokens }, rows);
    return good(d, tn_session_state_reserve(d->session, rows, d->in, d->nin));
}

bool
decoder_run(Decoder *d, const DecoderStep *step, const float **scores)
{
    give(d, step, tn_session_state_length(d->session));
    if (!good(d, tn_run(d->session, d->in, d->nin, d->out, d->nout)))
        return false;
    if (d->out->rank != 3 || strcmp(d->out->dtype, "f32"))
        return problem(d,
                       "scores [batch, tokens, words] of f32 are needed, and the model gives other "
                       "ones first: ",
                       d->out->name);
    d->words = d->out->dims[2];
    *scores = d->out->data;
    return true;
}

bool
decoder_arrange(Decoder *d, int64_t sequences, const int64_t *of, int64_t rows, const int64_t *from)
{
    TnArrangement a = { .size = sizeof a,
                        .dim = d->batch,
                        .sequences = sequences,
                        .of = of,
                        .length = rows,
                        .from = from };

    return good(d, tn_session_state_arrange(d->session, &a));
}

void
decoder_forget(Decoder *d)
{
    tn_session_state_reset(d->session);
}

const char *
decoder_problem(const Decoder *d)
{
    return d->problem;
}

void
decoder_close(Decoder *d)
{
    tn_session_free(d->session);
    tn_model_free(d->model);
    tn_context_free(d->ctx);
    free(d->out);
}
