/* tenon-serve: a language model as a server of the OpenAI forms, or any model, by the C API.
 *
 *   tenon compile austen.onnx --state 'past_key_values.*=present.*' -o austen.so
 *   tenon-serve austen.so tokens.txt --port 8080
 *   curl localhost:8080/v1/completions -d '{"prompt": "It is a truth", "max_tokens": 40, "stream":
 *   true}'
 *
 * The model is one that examples/generate takes (decoder.h), with an attention_mask. Sequences of
 * many clients are decoded in one batch (batch.h), behind a queue and limits (http.h), all in one
 * thread beside those of the model.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"

static volatile int stop;

static void
note_signal(int signal)
{
    (void)signal;
    stop = 1;
}

static int
give_up(const char *what, const char *which)
{
    fprintf(stderr, "tenon-serve: %s%s\n", what, which);
    return TN_USAGE;
}

/* What is the first line of FILE where `text` is @FILE; NULL: it cannot be read. */
static const char *
line_of(const char *text, char *to, int room)
{
    FILE *f;

    if (*text != '@')
        return text;
    if (!(f = fopen(text + 1, "r")))
        return NULL;
    to = fgets(to, room, f);
    fclose(f);
    if (to)
        to[strcspn(to, "\r\n")] = 0;
    return to && *to ? to : NULL;
}

enum { WHOLE, REAL, TEXT };
typedef struct {
    const char *name, *what;
    int kind;
    double least, most;
    void *to;
} Option;

static int
usage(const Option *o, int n)
{
    printf("usage: tenon-serve MODEL.so [TOKENS] [OPTION VALUE]...\n\nWithout TOKENS, any model: "
           "tensors "
           "in and out. TOKENS is a file of pairs, a "
           "tokenizer.json, a folder that has one, or -: prompts and answers are numbers.\n\n");
    for (int i = 0; i < n; i++) {
        printf("  %-18s %s", o[i].name, o[i].what);
        if (o[i].kind == WHOLE)
            printf(" (%lld)\n", (long long)*(int64_t *)o[i].to);
        else if (o[i].kind == REAL)
            printf(" (%g)\n", *(double *)o[i].to);
        else
            printf(" (%s)\n", *(const char **)o[i].to);
    }
    return TN_OK;
}

/* One option; what is wrong with it goes to stderr. */
static bool
take(const Option *o, int n, const char *name, const char *value)
{
    char *end = "";

    for (int i = 0; i < n; i++) {
        if (strcmp(name, o[i].name))
            continue;
        double number = o[i].kind == TEXT || !value ? 0 : strtod(value, &end);
        if (value && o[i].kind == TEXT)
            *(const char **)o[i].to = value;
        else if (!value || *end || end == value || !(number >= o[i].least && number <= o[i].most) ||
                 (o[i].kind == WHOLE && number != (double)(int64_t)number)) {
            fprintf(stderr, "tenon-serve: %s is %s; %.15g to %.15g are possible\n", name,
                    value ? value : "not given", o[i].least, o[i].most);
            return false;
        } else if (o[i].kind == WHOLE)
            *(int64_t *)o[i].to = (int64_t)number;
        else
            *(double *)o[i].to = number;
        return true;
    }
    fprintf(stderr, "tenon-serve: there is no option %s; tenon-serve --help lists them\n", name);
    return false;
}

static int
run(Http *h, Batch *b, const HttpLimits *http, const char *name, const char *problem)
{
    if (!h)
        return give_up(problem, "");
    printf("tenon-serve: %s on http://%s:%d\n", name, http->address, http_port(h));
    fflush(stdout);
    http_run(h, b, &stop);
    http_free(h);
    return TN_OK;
}

/* A model that is no decoder. */
static int
serve_other(const char *path, int32_t threads, const HttpLimits *http,
            const CompletionLimits *completions)
{
    Infer infer;
    char problem[512];
    bool ok = infer_open(&infer, path, threads);
    int status = ok ? run(http_new(http, completions, NULL, NULL, &infer, problem, sizeof problem),
                          NULL, http, completions->model, problem)
                    : give_up(infer.ctx ? tn_error(infer.ctx) : "no memory", "");

    infer_close(&infer);
    return status;
}

int
main(int argc, char **argv)
{
    HttpLimits http = { "127.0.0.1", 0, 256, 256, 1 << 20, 1 << 16, 10, 10, "", 1 };
    CompletionLimits completions = {
        .model = "model", .context = 1024, .prompt = 512, .tokens = 512, .seconds = 60
    };
    Decoder decoder;
    Vocabulary tokens;
    BatchOptions batch = { &decoder, &tokens, 8, 16, 0, -1, http_told };
    int64_t port = 8080, threads = 0;
    const char *template = "";
    Chat chat = { 0 };
    const Option options[] = {
        { "--address", "to listen on", TEXT, 0, 0, &http.address },
        { "--port", "to listen on; 0: any that is free", WHOLE, 0, 65535, &port },
        { "--threads", "of the model; 0: as many as there are processors", WHOLE, 0, 1024,
          &threads },
        { "--name", "of the model, in requests and answers", TEXT, 0, 0, &completions.model },
        { "--end-token", "the token that ends a text; -1: none", WHOLE, -1, MOST_WORDS,
          &batch.end },
        { "--sequences", "in one batch, at most", WHOLE, 1, 1024, &batch.places },
        { "--chunk", "tokens of a prompt fed at a time", WHOLE, 1, 4096, &batch.chunk },
        { "--context", "tokens of a prompt and its answer, at most", WHOLE, 2, 1 << 20,
          &completions.context },
        { "--prompt", "tokens of a prompt, at most", WHOLE, 1, 1 << 20, &completions.prompt },
        { "--tokens", "of an answer, at most", WHOLE, 1, 1 << 20, &completions.tokens },
        { "--seconds", "that a request may take", REAL, 0.001, 1e6, &completions.seconds },
        { "--queue", "requests that wait, at most", WHOLE, 0, 1 << 20, &http.queue },
        { "--connections", "at once, at most", WHOLE, 1, 1 << 16, &http.connections },
        { "--body", "bytes of a request, at most", WHOLE, 1, 1 << 28, &http.body },
        { "--unread", "bytes that a client has not read, at most", WHOLE, 1024, 1 << 28,
          &http.unread },
        { "--receive-seconds", "for a request to arrive", REAL, 0.1, 1e6, &http.receive_seconds },
        { "--grace-seconds", "for what runs when the server is to stop", REAL, 0, 1e6,
          &http.grace_seconds },
        { "--api-key", "that requests are to bring; @FILE: its first line; empty: none", TEXT, 0, 0,
          &http.key },
        { "--chat-template", "a file, or a tokenizer_config.json", TEXT, 0, 0, &template },
        { "--log", "1: a line on standard error for each request; 0: none", WHOLE, 0, 1,
          &http.log },
    };
    enum { NOPTION = sizeof options / sizeof *options };
    char problem[512], key[256];

    if (argc == 2 && !strcmp(argv[1], "--help"))
        return usage(options, NOPTION);
    bool decodes = argc > 2 && strncmp(argv[2], "--", 2);
    if (argc < 2)
        return give_up("usage: tenon-serve MODEL.so [TOKENS] [OPTION VALUE]...; tenon-serve --help "
                       "lists the options",
                       "");
    for (int i = decodes ? 3 : 2; i < argc; i += 2)
        if (!take(options, NOPTION, argv[i], argv[i + 1]))
            return TN_USAGE;
    const char *at = http.key;
    if (!(http.key = line_of(at, key, sizeof key)))
        return give_up("--api-key: there is no key to read in ", at + 1);
    http.port = (int)port;
    batch.context = completions.context;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, note_signal);
    signal(SIGTERM, note_signal);
    if (!decodes)
        return serve_other(argv[1], (int32_t)threads, &http, &completions);
    if (!vocabulary_read(&tokens, argv[2], problem, sizeof problem))
        return give_up(problem, "");
    const char *end = strrchr(template, '.');
    bool config = end && !strcmp(end, ".json");
    if (!(*template ? chat_read(&chat, config ? NULL : template, config ? template : NULL, problem,
                                sizeof problem)
                    : chat_read_folder(&chat, argv[2], problem, sizeof problem)))
        return give_up(problem, "");
    completions.chat = chat.template ? &chat : NULL;
    if (!decoder_open(&decoder, argv[1], (int32_t)threads, batch_rows(&batch)))
        return give_up(decoder_problem(&decoder), "");
    if (!decoder.masked)
        return give_up(
            "the model takes no attention_mask, without which sequences cannot share a batch: ",
            argv[1]);
    Batch *b = batch_new(&batch);
    if (!b)
        return give_up(*decoder_problem(&decoder) ? decoder_problem(&decoder) : "no memory for ",
                       *decoder_problem(&decoder) ? "" : argv[1]);
    completions.words = decoder.words;
    int64_t words = vocabulary_words(&tokens);
    /* a model may score more words than a tokenizer has, so that their number is round */
    if (words && (tokens.bpe ? words > decoder.words : words != decoder.words)) {
        fprintf(
            stderr,
            "tenon-serve: %s has %lld tokens, the model scores %lld: they do not belong together\n",
            argv[2], (long long)words, (long long)decoder.words);
        return TN_USAGE;
    }
    Http *h = http_new(&http, &completions, &tokens, &decoder, NULL, problem, sizeof problem);
    int status = run(h, b, &http, completions.model, problem);
    batch_free(b);
    decoder_close(&decoder);
    vocabulary_free(&tokens);
    chat_free(&chat);
    return status;
}
