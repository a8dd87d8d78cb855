#include "completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_LOGPROBS = 5 };

static const Fixed fixed[] = {
    { "n", "1" },
    { "best_of", "1" },
    { "echo", "false" },
    { "presence_penalty", "0" },
    { "frequency_penalty", "0" },
    { "suffix", "null" },
    { "logit_bias", "{}" },
    { NULL, NULL },
};
static const Fixed chat_fixed[] = {
    { "n", "1" },
    { "presence_penalty", "0" },
    { "frequency_penalty", "0" },
    { "logit_bias", "{}" },
    { "tools", "[]" },
    { "tool_choice", "\"none\"" },
    { "response_format", "{\"type\": \"text\"}" },
    { NULL, NULL },
};
static const char *const known[] = {
    "model", "prompt", "max_tokens",     "temperature", "top_p", "seed",
    "stop",  "stream", "stream_options", "logprobs",    "user",  NULL,
};
static const char *const chat_known[] = {
    "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p",
    "seed",  "stop",     "stream",     "stream_options",        "logprobs",    "top_logprobs",
    "user",  NULL,
};

/* ---- how to write ---------------------------------------------------------------------------- */

static bool
take_seed(const json_t *body, Sampling *how, double now, Refusal *why)
{
    const json_t *x = json_object_get(body, "seed");

    if (x && !json_is_null(x) && !json_is_integer(x))
        return refuse(why, REFUSED, "seed", "seed is to be a whole number");
    sample_seed(how, json_is_integer(x) ? (uint64_t)json_integer_value(x) : (uint64_t)(now * 1e9));
    return true;
}

static bool
take_stops(const json_t *body, Answer *a, Refusal *why)
{
    const json_t *x = json_object_get(body, "stop");
    size_t n = json_is_array(x) ? json_array_size(x) : x && !json_is_null(x) ? 1 : 0;

    if (n > MOST_STOPS)
        return refuse(why, REFUSED, "stop", "stop has %zu strings; at most %d are possible", n,
                      MOST_STOPS);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(x) ? json_array_get(x, i) : x;
        size_t length = json_string_length(s);
        if (!json_is_string(s))
            return refuse(why, REFUSED, "stop", "stop is to be a string, or strings");
        if (!length || length > MOST_STOP_BYTES)
            return refuse(why, REFUSED, "stop", "a stop string has %zu bytes; 1 to %d are possible",
                          length, MOST_STOP_BYTES);
        strcpy(a->stop[a->nstop++], json_string_value(s));
    }
    return true;
}

static bool
take_stream(const json_t *body, Completion *c, Refusal *why)
{
    static const char *const options[] = { "include_usage", NULL };
    const json_t *x = json_object_get(body, "stream_options");

    if (!body_truth(body, "stream", &c->stream, why))
        return false;
    if (!x || json_is_null(x))
        return true;
    if (!json_is_object(x) || !c->stream)
        return refuse(why, REFUSED, "stream_options",
                      c->stream ? "stream_options is to be an object"
                                : "stream_options are for a stream: stream is to be true");
    return body_check(x, options, (const Fixed[]){ { NULL, NULL } }, why) &&
           body_truth(x, "include_usage", &c->tells_usage, why);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static bool
check_tokens(const Request *r, const CompletionLimits *l, Refusal *why)
{
    for (int64_t i = 0; i < r->nprompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= l->words)
            return refuse(why, REFUSED, "prompt",
                          "token %lld of the prompt is %lld; the model has tokens 0 to %lld",
                          (long long)i, (long long)r->prompt[i], (long long)l->words - 1);
    if (!r->nprompt)
        return refuse(why, REFUSED, "prompt", "the prompt is empty; one token is needed at least");
    return r->nprompt <= l->prompt ||
           refuse(why, REFUSED, "prompt", "the prompt has %lld tokens; at most %lld are possible",
                  (long long)r->nprompt, (long long)l->prompt);
}

/* around: a prompt; messages have all in their template. */
static bool
take_text(const char *text, size_t n, Vocabulary *t, bool around, Request *r, Refusal *why)
{
    const char *param = around ? "prompt" : "messages";

    if (!(r->prompt = calloc(vocabulary_room(n), sizeof *r->prompt)))
        return refuse(why, NO_MEMORY, param, "no memory for a prompt of %zu bytes", n);
    r->nprompt = vocabulary_encode(t, text, n, around, r->prompt);
    if (r->nprompt >= 0)
        return true;
    r->nprompt = 0;
    return refuse(why, REFUSED, param,
                  t->tokens.plain
                      ? "this server has no tokens of text: the prompt is to be numbers"
                      : "the tokenizer takes too long, or too much memory, for the text");
}

static bool
take_prompt(const json_t *x, const CompletionLimits *l, Vocabulary *t, Request *r, Refusal *why)
{
    static const char wanted[] = "the prompt is to be a string, or whole numbers, which are tokens";
    size_t n = json_array_size(x);

    if (json_is_string(x))
        return take_text(json_string_value(x), json_string_length(x), t, true, r, why) &&
               check_tokens(r, l, why);
    if (!json_is_array(x))
        return refuse(why, REFUSED, "prompt", wanted);
    if (!(r->prompt = calloc(n + 1, sizeof *r->prompt)))
        return refuse(why, NO_MEMORY, "prompt", "no memory for a prompt of %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        if (!json_is_integer(json_array_get(x, i)))
            return refuse(why, REFUSED, "prompt", wanted);
        r->prompt[r->nprompt++] = json_integer_value(json_array_get(x, i));
    }
    return check_tokens(r, l, why);
}

static bool
take_messages(const json_t *body, const CompletionLimits *l, Vocabulary *t, Completion *c,
              Refusal *why)
{
    size_t n;
    char *text;

    if (!l->chat)
        return refuse(why, 404, NULL,
                      "this model has no template of chats: start the server with a folder that "
                      "has tokenizer_config.json, or with --chat-template FILE");
    if (!(c->request = calloc(1, sizeof *c->request)))
        return refuse(why, NO_MEMORY, NULL, "no memory for one more request");
    c->n = 1;
    if (!(text = chat_prompt(l->chat, json_object_get(body, "messages"), &n, why)))
        return false;
    bool ok = take_text(text, n, t, false, c->request, why) && check_tokens(c->request, l, why);
    free(text);
    return ok;
}

/* One prompt, or a list of them: a list of numbers is one. */
static bool
take_prompts(const json_t *body, const CompletionLimits *l, Vocabulary *t, Completion *c,
             Refusal *why)
{
    const json_t *x = json_object_get(body, "prompt"), *first = json_array_get(x, 0);
    bool many = json_is_string(first) || json_is_array(first);
    size_t n = many ? json_array_size(x) : 1;

    if (!x)
        return refuse(why, REFUSED, "prompt", "there is no prompt");
    if (n > MOST_PROMPTS)
        return refuse(why, REFUSED, "prompt", "there are %zu prompts; at most %d are possible", n,
                      MOST_PROMPTS);
    if (!(c->request = calloc(n, sizeof *c->request)))
        return refuse(why, NO_MEMORY, NULL, "no memory for %zu more requests", n);
    for (; c->n < (int64_t)n; c->n++)
        if (!take_prompt(many ? json_array_get(x, (size_t)c->n) : x, l, t, &c->request[c->n],
                         why)) {
            c->n++;
            return false;
        }
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* logprobs: of chats true, and how many of the likeliest; else this number alone. */
static bool
take_logprobs(const json_t *body, bool chat, int64_t *top, Refusal *why)
{
    double n = chat ? 0 : -1;
    bool wanted = !chat;

    if ((chat && !body_truth(body, "logprobs", &wanted, why)) ||
        !body_number(body, chat ? "top_logprobs" : "logprobs", 0, chat ? MOST_TOP : MOST_LOGPROBS,
                     true, &n, why))
        return false;
    if (!wanted && n > 0)
        return refuse(why, REFUSED, "top_logprobs", "top_logprobs want logprobs to be true");
    *top = wanted ? (int64_t)n : -1;
    return true;
}

/* How many tokens at most: what is asked for; else, of chats, all that there is room for. */
static bool
take_most(const json_t *body, const CompletionLimits *l, const Completion *c, double *most,
          Refusal *why)
{
    *most = c->chat ? (double)(l->context - c->request->nprompt) : 16;
    *most = *most > (double)l->tokens ? (double)l->tokens : *most < 1 ? 1 : *most;
    return body_number(body, "max_tokens", 1, (double)l->tokens, true, most, why) &&
           (!c->chat ||
            body_number(body, "max_completion_tokens", 1, (double)l->tokens, true, most, why));
}

static bool
check_length(const CompletionLimits *l, const Request *r, Refusal *why)
{
    return r->nprompt + r->most <= l->context ||
           refuse(why, REFUSED, "max_tokens",
                  "%lld tokens of the prompt and max_tokens %lld are %lld; at most %lld are "
                  "possible",
                  (long long)r->nprompt, (long long)r->most, (long long)(r->nprompt + r->most),
                  (long long)l->context);
}

static bool
take_all(const json_t *body, const CompletionLimits *l, Vocabulary *t, double now, Completion *c,
         Refusal *why)
{
    const json_t *model = json_object_get(body, "model");
    Request how = { .how = { .temperature = 1, .top_p = 1 }, .deadline = now + l->seconds };
    double most;

    if (!body_check(body, c->chat ? chat_known : known, c->chat ? chat_fixed : fixed, why))
        return false;
    if (model && (!json_is_string(model) || strcmp(json_string_value(model), l->model)))
        return refuse(why, 404, "model", "there is no model \"%.64s\" here, there is \"%.64s\"",
                      json_is_string(model) ? json_string_value(model) : "?", l->model);
    if (!body_number(body, "temperature", 0, 2, false, &how.how.temperature, why) ||
        !body_number(body, "top_p", 0, 1, false, &how.how.top_p, why) ||
        !take_logprobs(body, c->chat, &how.top, why) || !take_seed(body, &how.how, now, why) ||
        !take_stops(body, &how.answer, why) || !take_stream(body, c, why) ||
        !(c->chat ? take_messages(body, l, t, c, why) : take_prompts(body, l, t, c, why)) ||
        !take_most(body, l, c, &most, why))
        return false;
    how.most = (int64_t)most;
    for (int64_t i = 0; i < c->n; i++) {
        Request *r = &c->request[i];
        how.prompt = r->prompt;
        how.nprompt = r->nprompt;
        *r = how;
        if (!check_length(l, r, why))
            return false;
    }
    return true;
}

Completion *
completion_new(const CompletionLimits *l, Vocabulary *t, const json_t *body, bool chat, double now,
               Refusal *why)
{
    static unsigned long long count;
    Completion *c = calloc(1, sizeof *c);

    if (!c) {
        refuse(why, NO_MEMORY, NULL, "no memory for one more request");
        return NULL;
    }
    c->chat = chat;
    snprintf(c->id, sizeof c->id, chat ? "chatcmpl-%llu" : "cmpl-%llu", ++count);
    c->created = (long long)time(NULL);
    if (take_all(body, l, t, now, c, why)) {
        c->left = c->n;
        return c;
    }
    completion_free(c);
    return NULL;
}

void
completion_free(Completion *c)
{
    if (!c)
        return;
    for (int64_t i = 0; i < c->n; i++) {
        answer_free(&c->request[i].answer);
        buffer_free(&c->request[i].scored);
        free(c->request[i].prompt);
    }
    free(c->request);
    free(c);
}

void
completion_refusal(const CompletionLimits *l, const Request *r, const char *problem, Refusal *why)
{
    if (r->fate == TIMEOUT)
        refuse(why, 504, NULL,
               "the request took longer than %g s; %lld of at most %lld tokens were made",
               l->seconds, (long long)r->made, (long long)r->most);
    else
        refuse(why, 500, NULL, "%.200s", problem);
}

char *
prompt_text(const CompletionLimits *l, Vocabulary *t, const json_t *body, Refusal *why)
{
    static const char *const fields[] = { "model", "prompt", "messages", NULL };
    Completion *c = calloc(1, sizeof *c);
    json_t *x = NULL;
    size_t n;
    char *text = NULL;

    if (!c ||
        !body_check(body, fields, &chat_fixed[sizeof chat_fixed / sizeof *chat_fixed - 1], why)) {
        completion_free(c);
        return NULL;
    }
    c->chat = json_object_get(body, "messages") != NULL;
    if (c->chat ? take_messages(body, l, t, c, why) : take_prompts(body, l, t, c, why)) {
        json_t *ids = json_array();
        for (int64_t i = 0; i < c->request->nprompt; i++)
            json_array_append_new(ids, json_integer(c->request->prompt[i]));
        x = json_pack("{s:I, s:I, s:o}", "count", (json_int_t)c->request->nprompt, "max_model_len",
                      (json_int_t)l->context, "tokens", ids);
        if (c->chat && (text = chat_prompt(l->chat, json_object_get(body, "messages"), &n, why)))
            json_object_set_new(x, "prompt", json_string(text));
    }
    free(text);
    completion_free(c);
    return json_as_text(x);
}
