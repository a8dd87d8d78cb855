/* generate: text from a decoder whose cache is a state, by the C API.
 *
 *   tenon compile austen.onnx --state 'past_key_values.*=present.*' -o austen.so
 *   generate austen.so tokens.txt "It is a truth" [--tokens N] [--temperature T] [--seed S] [--threads N]
 *
 * Any decoder will do that takes input_ids, and attention_mask and position_ids if it likes, and gives the scores of the next
 * token first. tokens.txt makes tokens of bytes: 0 to 255 are the bytes themselves, and each line "left right" is one more,
 * those two joined; joined is what comes first in the file. With - in its place the prompt is numbers, and so is the answer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tenon.h"

enum { MOST_TOKENS = 1 << 20, MOST_INPUTS = 3, WARM = 256 << 20 };

/* Say what went wrong and leave. The library itself never does. */
static void
need(TnContext *ctx, TnStatus status)
{
    if (status != TN_OK) {
        fprintf(stderr, "generate: %s\n", tn_error(ctx));
        exit(status);
    }
}

static void
refuse(const char *what, const char *which)
{
    fprintf(stderr, "generate: %s%s\n", what, which);
    exit(TN_USAGE);
}

static double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- tokens --------------------------------------------------------------------------------------------- */

typedef struct { int32_t left, right; } Joined;
typedef struct { Joined *pair; int32_t n; bool plain; } Tokens;      /* pair i is token 256 + i; plain: numbers, no text */

static Tokens
tokens_read(const char *path)
{
    Tokens t = { .plain = !strcmp(path, "-") };
    FILE *f = t.plain ? NULL : fopen(path, "r");
    int left, right;

    if (!t.plain && !f)
        refuse("cannot open ", path);
    while (f && fscanf(f, "%d %d", &left, &right) == 2) {
        if (left < 0 || right < 0 || left >= 256 + t.n || right >= 256 + t.n)
            refuse("a token is made of one that is not there yet in ", path);
        t.pair = realloc(t.pair, (size_t)(t.n + 1) * sizeof *t.pair);
        t.pair[t.n++] = (Joined){ left, right };
    }
    if (f && (!feof(f) || fclose(f)))
        refuse("a line is not two numbers in ", path);
    return t;
}

static int64_t
encode(const Tokens *t, const char *text, int64_t *out)
{
    int64_t n = 0;

    if (t->plain) {
        for (char *end; *text && n < MOST_TOKENS; text = end) {
            out[n++] = strtoll(text, &end, 10);
            if (end == text)
                refuse("the prompt is to be numbers with blanks between: ", text);
            end += strspn(end, " ");
        }
        return n;
    }
    for (; *text && n < MOST_TOKENS; text++)
        out[n++] = (unsigned char)*text;
    for (int32_t i = 0; i < t->n; i++) {             /* in the order of the file */
        int64_t to = 0;
        for (int64_t k = 0; k < n; k++, to++) {
            bool both = k + 1 < n && out[k] == t->pair[i].left && out[k + 1] == t->pair[i].right;
            out[to] = both ? 256 + i : out[k];
            k += both;
        }
        n = to;
    }
    return n;
}

static void
say(const Tokens *t, int64_t token)
{
    if (t->plain)
        printf("%lld ", (long long)token);
    else if (token < 256)
        putchar((int)token);
    else {
        say(t, t->pair[token - 256].left);
        say(t, t->pair[token - 256].right);
    }
}

/* ---- the model ------------------------------------------------------------------------------------------- */

typedef struct {
    TnContext *ctx;
    TnSession *session;
    TnTensor in[MOST_INPUTS], *out;
    int32_t nin, nout;
    int64_t *ids, *ones, *places, dims[MOST_INPUTS][2];
} Decoder;

/* What the model takes, in its order: each is one of three that we know. */
static void
find_inputs(Decoder *d, const TnModel *m)
{
    d->nin = tn_model_inputs(m);
    d->nout = tn_model_outputs(m);
    if (!tn_model_states(m))
        refuse("the model keeps no cache between runs: compile it with --state 'past_key_values.*=present.*'", "");
    for (int32_t i = 0; i < d->nin; i++) {
        TnValueInfo v = TN_INIT(TnValueInfo);
        need(d->ctx, tn_model_input(m, i, &v));
        void *data = !strcmp(v.name, "input_ids") ? d->ids : !strcmp(v.name, "attention_mask") ? d->ones
                   : !strcmp(v.name, "position_ids") ? d->places : NULL;
        if (!data || i == MOST_INPUTS || v.rank != 2 || strcmp(v.dtype, "i64"))
            refuse("this program has nothing to give for input ", v.name);
        d->in[i] = (TnTensor){ .size = sizeof *d->in, .name = v.name, .dtype = "i64", .rank = 2, .dims = d->dims[i], .data = data };
    }
    d->out = calloc((size_t)d->nout, sizeof *d->out);
    for (int32_t i = 0; i < d->nout; i++)
        d->out[i].size = sizeof *d->out;
}

/* n tokens that follow `past` others; the scores of what comes next. */
static const float *
next(Decoder *d, const int64_t *tokens, int64_t past, int64_t n, int64_t *words, bool reserve)
{
    for (int32_t i = 0; i < d->nin; i++) {
        bool all = d->in[i].data == d->ones;         /* a mask is as long as all there is */
        d->dims[i][0] = 1;
        d->dims[i][1] = all ? past + n : n;
        d->in[i].bytes = 8 * d->dims[i][1];
    }
    if (reserve) {
        need(d->ctx, tn_session_state_reserve(d->session, past, d->in, d->nin));
        return NULL;
    }
    memcpy(d->ids, tokens, (size_t)n * sizeof *d->ids);
    for (int64_t k = 0; k < n; k++)
        d->places[k] = past + k;
    need(d->ctx, tn_run(d->session, d->in, d->nin, d->out, d->nout));
    if (d->out->rank != 3 || strcmp(d->out->dtype, "f32"))
        refuse("scores [batch, tokens, words] of f32 are needed, and the model gives other ones first: ", d->out->name);
    *words = d->out->dims[2];
    return (const float *)d->out->data + (n - 1) * *words;
}

/* ---- what comes next --------------------------------------------------------------------------------------- */

static int64_t
choose(const float *score, int64_t n, double temperature, uint64_t *seed)
{
    int64_t best = 0;
    double sum = 0;

    for (int64_t i = 1; i < n; i++)
        best = score[i] > score[best] ? i : best;
    if (temperature <= 0)
        return best;
    for (int64_t i = 0; i < n; i++)
        sum += exp((score[i] - score[best]) / temperature);
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    double left = sum * (double)(*seed >> 11) / (double)(1ull << 53);
    for (int64_t i = 0; i < n; i++)
        if ((left -= exp((score[i] - score[best]) / temperature)) < 0)
            return i;
    return best;
}

/* ---- how fast ------------------------------------------------------------------------------------------------ */

/* Bytes a second that one core reads from memory. */
static double
memory_speed(void)
{
    typedef long Vec __attribute__((vector_size(16)));
    Vec *at = mmap(NULL, WARM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), a = { 0 }, b = a, c = a, e = a;
    double best = 0;

    madvise(at, WARM, MADV_HUGEPAGE);
    memset(at, 1, WARM);
    for (int r = 0; r < 5; r++) {
        double start = seconds();
        for (size_t i = 0; i < WARM / sizeof *at; i += 4)
            a += at[i], b += at[i + 1], c += at[i + 2], e += at[i + 3];
        double speed = WARM / (seconds() - start);
        best = speed > best && (a + b + c + e)[0] ? speed : best;
    }
    munmap(at, WARM);
    return best;
}

/* Bytes that a step reads and writes, by the kernels' own account. */
static double
bytes_of_step(Decoder *d, int64_t token, int64_t past)
{
    double bytes = 0;
    int64_t words;

    need(d->ctx, tn_session_profile(d->session, 0));
    next(d, &token, past, 1, &words, false);
    for (int32_t i = 0; i < tn_session_kernels(d->session); i++) {
        TnKernelProfile k = TN_INIT(TnKernelProfile);
        need(d->ctx, tn_session_kernel(d->session, i, &k));
        bytes += k.bytes * (double)k.calls;
    }
    return bytes;
}

static double
option(int argc, char **argv, const char *name, double otherwise)
{
    for (int i = 4; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], name))
            return atof(argv[i + 1]);
    return otherwise;
}

int
main(int argc, char **argv)
{
    Decoder d = { 0 };
    TnModel *model;
    TnSessionOptions how = TN_INIT(TnSessionOptions);

    if (argc < 4 || argc % 2)
        refuse("usage: generate MODEL.so TOKENS PROMPT [--tokens N] [--temperature T] [--seed S] [--threads N]", "");
    int64_t wanted = (int64_t)option(argc, argv, "--tokens", 200), words = 0;
    double temperature = option(argc, argv, "--temperature", 0.7);
    uint64_t seed = 0x9e3779b97f4a7c15u * ((uint64_t)option(argc, argv, "--seed", 1) + 1);
    how.threads = (int32_t)option(argc, argv, "--threads", 1);
    if (wanted < 1 || wanted > MOST_TOKENS / 2)
        refuse("--tokens: 1 to 524288 are possible", "");
    Tokens tokens = tokens_read(argv[2]);
    int64_t *text = calloc(MOST_TOKENS, sizeof *text), *buffer = calloc(3 * (size_t)MOST_TOKENS, sizeof *buffer);
    d.ids = buffer, d.ones = buffer + MOST_TOKENS, d.places = buffer + 2 * MOST_TOKENS;
    for (int64_t i = 0; i < MOST_TOKENS; i++)
        d.ones[i] = 1;
    int64_t prompt = encode(&tokens, argv[3], text);
    if (prompt < 1 || prompt + wanted > MOST_TOKENS)
        refuse("the prompt is empty, or longer than this program takes", "");

    need(NULL, tn_context_new(NULL, &d.ctx));
    need(d.ctx, tn_load(d.ctx, argv[1], &model));
    find_inputs(&d, model);
    need(d.ctx, tn_session_new(d.ctx, model, &how, &d.session));
    next(&d, text, prompt + wanted, 1, &words, true);        /* no memory is taken from here on */

    double start = seconds();
    const float *score = next(&d, text, 0, prompt, &words, false);
    double first = seconds();
    if (!tokens.plain && words != 256 + tokens.n) {
        fprintf(stderr, "generate: %s has %d tokens, the model scores %lld: they do not belong together\n", argv[2], 256 + tokens.n, (long long)words);
        return TN_USAGE;
    }
    printf("%s", tokens.plain ? "" : argv[3]);
    for (int64_t k = 0; k < wanted; k++) {
        int64_t token = choose(score, words, temperature, &seed);
        say(&tokens, token);
        fflush(stdout);
        score = next(&d, &token, prompt + k, 1, &words, false);
    }
    double end = seconds(), step = (end - first) / (double)wanted, bytes = bytes_of_step(&d, text[0], prompt + wanted);
    printf("\n\nprefill    %lld tokens, %.0f tokens/s\ndecode     %lld tokens, %.0f tokens/s\nmemory     %.3g MB a token, %.3g GB/s: %.0f %% of what one "
           "core reads from memory\n", (long long)prompt, (double)prompt / (first - start), (long long)wanted, 1 / step, 1e-6 * bytes, 1e-9 * bytes / step,
           100 * bytes / step / memory_speed());
    tn_session_free(d.session);
    tn_model_free(model);
    tn_context_free(d.ctx);
    free(d.out), free(text), free(buffer), free(tokens.pair);
    return 0;
}
