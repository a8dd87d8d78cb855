/* generate: text from a decoder whose cache is a state, by the C API.
 *
 *   tenon compile austen.onnx --state 'past_key_values.*=present.*' -o austen.so
 *   generate austen.so tokens.txt "It is a truth" [--tokens N] [--temperature T] [--seed S]
 *   [--threads N]
 *
 * decoder.h says which models will do, tokens.h what tokens.txt is: with - in its place the prompt
 * is numbers, and so is the answer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "decoder.h"
#include "sample.h"
#include "tokens.h"

enum { MOST_TOKENS = 1 << 20, WARM = 256 << 20 };

/* Say what went wrong and leave. The library itself never does. */
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

/* n tokens that follow `past` others; the scores of what comes next. */
static const float *
next(Decoder *d, const int64_t *tokens, int64_t past, int64_t n)
{
    static int64_t ones[MOST_TOKENS], places[MOST_TOKENS];
    const float *scores;

    for (int64_t k = 0; k < n; k++)
        places[k] = past + k;
    for (int64_t k = 0; k < past + n; k++)
        ones[k] = 1;
    if (!decoder_run(d, &(DecoderStep){ 1, n, tokens, places, ones }, &scores))
        refuse(decoder_problem(d), "");
    return scores + (n - 1) * d->words;
}

/* ---- how fast -------------------------------------------------------------------------------- */

/* Bytes a second that one core reads from memory. */
static double
memory_speed(void)
{
    typedef long Vec __attribute__((vector_size(16)));
    Vec *at = mmap(NULL, WARM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        a = { 0 }, b = a, c = a, e = a;
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

    if (tn_session_profile(d->session, 0) != TN_OK)
        refuse(tn_error(d->ctx), "");
    next(d, &token, past, 1);
    for (int32_t i = 0; i < tn_session_kernels(d->session); i++) {
        TnKernelProfile k = TN_INIT(TnKernelProfile);
        if (tn_session_kernel(d->session, i, &k) == TN_OK)
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
    Decoder d;
    Tokens tokens;

    if (argc < 4 || argc % 2)
        refuse("usage: generate MODEL.so TOKENS PROMPT [--tokens N] [--temperature T] [--seed S] "
               "[--threads N]",
               "");
    int64_t wanted = (int64_t)option(argc, argv, "--tokens", 200);
    Sampling how = { .temperature = option(argc, argv, "--temperature", 0.7), .top_p = 1 };
    sample_seed(&how, (uint64_t)option(argc, argv, "--seed", 1));
    if (wanted < 1 || wanted > MOST_TOKENS / 2)
        refuse("--tokens: 1 to 524288 are possible", "");
    const char *wrong = tokens_read(&tokens, argv[2]);
    if (wrong)
        refuse(wrong, argv[2]);
    size_t bytes = strlen(argv[3]);
    int64_t *text = calloc(bytes + 1, sizeof *text),
            prompt = text ? tokens_encode(&tokens, argv[3], bytes, text) : 0;
    if (prompt < 0)
        refuse("the prompt is to be numbers with blanks between: ", argv[3]);
    if (prompt == 0 || prompt + wanted >= MOST_TOKENS)
        refuse("the prompt is empty, or longer than this program takes", "");
    if (!decoder_open(&d, argv[1], (int32_t)option(argc, argv, "--threads", 1), 0) ||
        !decoder_reserve(&d, 1, 0, prompt)
        /* no memory is taken from here on */
        || !decoder_reserve(&d, 1, prompt + wanted, 1))
        refuse(decoder_problem(&d), "");

    double start = seconds();
    const float *score = next(&d, text, 0, prompt);
    double first = seconds();
    if (!tokens.plain && d.words != 256 + tokens.n) {
        fprintf(stderr,
                "generate: %s has %d tokens, the model scores %lld: they do not belong together\n",
                argv[2], 256 + tokens.n, (long long)d.words);
        return TN_USAGE;
    }
    printf("%s", tokens.plain ? "" : argv[3]);
    for (int64_t k = 0; k < wanted; k++) {
        int64_t token = sample(&how, score, d.words);
        size_t length;
        const char *piece = tokens_text(&tokens, token, &length);
        fwrite(piece, 1, length, stdout);
        fflush(stdout);
        score = next(&d, &token, prompt + k, 1);
    }
    double step = (seconds() - first) / (double)wanted,
           moved = bytes_of_step(&d, text[0], prompt + wanted);
    printf("\n\nprefill    %lld tokens, %.0f tokens/s\ndecode     %lld tokens, %.0f "
           "tokens/s\nmemory     %.3g MB a token, %.3g GB/s: %.0f %% of what one "
           "core reads from memory\n",
           (long long)prompt, (double)prompt / (first - start), (long long)wanted, 1 / step,
           1e-6 * moved, 1e-9 * moved / step, 100 * moved / step / memory_speed());
    decoder_close(&d);
    tokens_free(&tokens);
    free(text);
    return 0;
}
