#include "completion.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REFUSED = 400, NO_MEMORY = 500 };

static bool
refuse(Refusal *why, int status, const char *param, const char *text, ...)
{
    va_list args;

    *why = (Refusal){ .status = status, .param = param };
    va_start(args, text);
    vsnprintf(why->message, sizeof why->message, text, args);
    va_end(args);
    return false;
}

/* ---- fields of a body ------------------------------------------------------------------------ */

/* Fields that this server knows in one meaning alone: what would ask for another is refused, not
 * ignored. */
static const struct {
    const char *name, *only;
} fixed[] = {
    { "n", "1" },
    { "best_of", "1" },
    { "echo", "false" },
    { "presence_penalty", "0" },
    { "frequency_penalty", "0" },
    { "logprobs", "null" },
    { "suffix", "null" },
    { "logit_bias", "{}" },
    { "stream_options", "null" },
};
static const char *const known[] = { "model", "prompt", "max_tokens", "temperature", "top_p",
                                     "seed",  "stop",   "stream",     "user" };

static bool
same_value(const json_t *x, const char *text)
{
    json_t *only = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(x) && json_is_number(only)
                    ? json_number_value(x) == json_number_value(only)
                    : json_equal(x, only);

    json_decref(only);
    return same;
}

static bool
check_field(const char *name, const json_t *value, Refusal *why)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i]))
            return true;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strcmp(name, fixed[i].name))
            return json_is_null(value) || same_value(value, fixed[i].only) ||
                   refuse(why, REFUSED, fixed[i].name, "%s can only be %s here", name,
                          fixed[i].only);
    return refuse(why, REFUSED, NULL, "there is no field \"%.64s\" that this server knows", name);
}

static bool
take_number(const json_t *body, const char *name, double least, double most, bool whole,
            double *out, Refusal *why)
{
    const json_t *x = json_object_get(body, name);

    if (!x || json_is_null(x))
        return true;
    if (whole ? !json_is_integer(x) : !json_is_number(x))
        return refuse(why, REFUSED, name, "%s is to be %s", name,
                      whole ? "a whole number" : "a number");
    *out = json_number_value(x);
    return (*out >= least && *out <= most) ||
           refuse(why, REFUSED, name, "%s is %.17g; %.17g to %.17g are possible", name, *out, least,
                  most);
}

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
take_tokens(const json_t *list, const CompletionLimits *l, Request *r, Refusal *why)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        int64_t token = json_integer_value(x);
        if (!json_is_integer(x))
            return refuse(why, REFUSED, "prompt",
                          "the prompt is to be a string, or whole numbers, which are tokens");
        if (token < 0 || token >= l->words)
            return refuse(why, REFUSED, "prompt",
                          "token %zu of the prompt is %lld; the model has tokens 0 to %lld", i,
                          (long long)token, (long long)l->words - 1);
        r->prompt[r->nprompt++] = token;
    }
    return true;
}

static bool
take_text(const json_t *text, const CompletionLimits *l, Tokens *t, Request *r, Refusal *why)
{
    r->nprompt = tokens_encode(t, json_string_value(text), json_string_length(text), r->prompt);
    if (r->nprompt < 0)
        return refuse(why, REFUSED, "prompt",
                      "this server has no tokens of text: the prompt is to be numbers");
    for (int64_t i = 0; i < r->nprompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= l->words)
            return refuse(why, REFUSED, "prompt",
                          "token %lld of the prompt is %lld; the model has tokens 0 to %lld",
                          (long long)i, (long long)r->prompt[i], (long long)l->words - 1);
    return true;
}

static bool
take_prompt(const json_t *body, const CompletionLimits *l, Tokens *t, Request *r, Refusal *why)
{
    const json_t *x = json_object_get(body, "prompt");

    if (json_is_array(x) && json_array_size(x) == 1 && json_is_string(json_array_get(x, 0)))
        x = json_array_get(x, 0);
    if (!json_is_string(x) && !json_is_array(x))
        return refuse(why, REFUSED, "prompt",
                      x ? "the prompt is to be a string, or whole numbers, which are tokens"
                        : "there is no prompt");
    size_t room = json_is_string(x) ? json_string_length(x) : json_array_size(x);
    if (!(r->prompt = calloc(room + 1, sizeof *r->prompt)))
        return refuse(why, NO_MEMORY, "prompt", "no memory for a prompt of %zu tokens", room);
    if (!(json_is_string(x) ? take_text(x, l, t, r, why) : take_tokens(x, l, r, why)))
        return false;
    if (!r->nprompt)
        return refuse(why, REFUSED, "prompt", "the prompt is empty; one token is needed at least");
    return r->nprompt <= l->prompt ||
           refuse(why, REFUSED, "prompt", "the prompt has %lld tokens; at most %lld are possible",
                  (long long)r->nprompt, (long long)l->prompt);
}

static bool
take_all(const json_t *body, const CompletionLimits *l, Tokens *t, double now, Completion *c,
         Refusal *why)
{
    Request *r = &c->request;
    const json_t *model = json_object_get(body, "model"), *stream = json_object_get(body, "stream"),
                 *value;
    const char *name;
    double most = 16; /* as the form has it where nothing is said */

    json_object_foreach((json_t *)(uintptr_t)body, name,
                        value) if (!check_field(name, value, why)) return false;
    if (model && (!json_is_string(model) || strcmp(json_string_value(model), l->model)))
        return refuse(why, 404, "model", "there is no model \"%.64s\" here, there is \"%.64s\"",
                      json_is_string(model) ? json_string_value(model) : "?", l->model);
    if (stream && !json_is_boolean(stream) && !json_is_null(stream))
        return refuse(why, REFUSED, "stream", "stream is to be true or false");
    r->how = (Sampling){ .temperature = 1, .top_p = 1 };
    if (!take_number(body, "max_tokens", 1, (double)l->tokens, true, &most, why) ||
        !take_number(body, "temperature", 0, 2, false, &r->how.temperature, why) ||
        !take_number(body, "top_p", 0, 1, false, &r->how.top_p, why) ||
        !take_seed(body, &r->how, now, why) || !take_stops(body, &r->answer, why) ||
        !take_prompt(body, l, t, r, why))
        return false;
    r->most = most < (double)l->tokens ? (int64_t)most : l->tokens;
    r->deadline = now + l->seconds;
    c->stream = json_is_true(stream);
    return r->nprompt + r->most <= l->context ||
           refuse(
               why, REFUSED, "max_tokens",
               "%lld tokens of the prompt and max_tokens %lld are %lld; at most %lld are possible",
               (long long)r->nprompt, (long long)r->most, (long long)(r->nprompt + r->most),
               (long long)l->context);
}

Completion *
completion_new(const CompletionLimits *l, Tokens *t, const char *bytes, size_t n, double now,
               Refusal *why)
{
    static unsigned long long count;
    json_error_t error;
    json_t *body = json_loadb(bytes ? bytes : "", n, JSON_REJECT_DUPLICATES, &error);
    Completion *c = body ? calloc(1, sizeof *c) : NULL;
    bool ok = false;

    if (!body)
        refuse(why, REFUSED, NULL, "the body is no JSON: line %d, column %d: %.100s", error.line,
               error.column, error.text);
    else if (!json_is_object(body))
        refuse(why, REFUSED, NULL, "the body is to be a JSON object");
    else if (!c)
        refuse(why, NO_MEMORY, NULL, "no memory for one more request");
    else {
        snprintf(c->id, sizeof c->id, "cmpl-%llu", ++count);
        c->created = (long long)time(NULL);
        ok = take_all(body, l, t, now, c, why);
    }
    json_decref(body);
    if (ok)
        return c;
    completion_free(c);
    return NULL;
}

void
completion_free(Completion *c)
{
    if (!c)
        return;
    answer_free(&c->request.answer);
    free(c->request.prompt);
    free(c);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static char *
as_text(json_t *x)
{
    char *text = x ? json_dumps(x, JSON_COMPACT) : NULL;

    json_decref(x);
    return text;
}

static json_t *
usage_of(const Request *r)
{
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)r->nprompt,
                     "completion_tokens", (json_int_t)r->made, "total_tokens",
                     (json_int_t)(r->nprompt + r->made));
}

static json_t *
object_of(const CompletionLimits *l, const Completion *c)
{
    const Request *r = &c->request;
    const char *reason = r->fate == STOPPED ? "stop" : r->fate == LENGTH ? "length" : NULL;
    json_t *x = json_pack("{s:s, s:s, s:I, s:s, s:[{s:s%, s:i, s:n, s:s?}]}", "id", c->id, "object",
                          "text_completion", "created", (json_int_t)c->created, "model", l->model,
                          "choices", "text", r->answer.text.at ? r->answer.text.at : "",
                          r->answer.text.n, "index", 0, "logprobs", "finish_reason", reason);

    if (x && reason)
        json_object_set_new(x, "usage", usage_of(r));
    return x;
}

char *
completion_whole(const CompletionLimits *l, const Completion *c)
{
    return as_text(object_of(l, c));
}

char *
completion_part(const CompletionLimits *l, Completion *c)
{
    char *text = as_text(object_of(l, c));

    c->request.answer.text.n = 0;
    return text;
}

char *
refusal_text(const Refusal *why)
{
    const char *kind = why->status == 503   ? "overloaded_error"
                       : why->status >= 500 ? "server_error"
                                            : "invalid_request_error";
    /* what was cut in the middle of a character is text again */
    Answer message = { 0 };
    char *text = NULL;

    if (answer_add(&message, why->message, strlen(why->message)) && answer_end(&message))
        text = as_text(json_pack("{s:{s:s%, s:s, s:s?, s:n}}", "error", "message", message.text.at,
                                 message.text.n, "type", kind, "param", why->param, "code"));
    answer_free(&message);
    return text;
}

char *
models_text(const CompletionLimits *l, long long since)
{
    return as_text(json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:I}]}", "object", "list", "data", "id",
                             l->model, "object", "model", "created", (json_int_t)since, "owned_by",
                             "tenon", "max_model_len", (json_int_t)l->context));
}

void
completion_refusal(const CompletionLimits *l, const Completion *c, const char *problem,
                   Refusal *why)
{
    const Request *r = &c->request;

    if (r->fate == TIMEOUT)
        refuse(why, 504, NULL,
               "the request took longer than %g s; %lld of at most %lld tokens were made",
               l->seconds, (long long)r->made, (long long)r->most);
    else
        refuse(why, 500, NULL, "%.200s", problem);
}
