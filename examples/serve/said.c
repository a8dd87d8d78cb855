#include <stdio.h>
#include <string.h>

#include "completion.h"

/* ---- logprobs -------------------------------------------------------------------------------- */

/* The text of a token; bytes that are no text by themselves are written "bytes:\xe2". */
static json_t *
token_text(Vocabulary *t, int64_t token)
{
    char text[6 + 4 * MOST_TOKEN_BYTES + 1] = "bytes:";
    size_t n;
    const char *bytes = vocabulary_text(t, token, &n);
    json_t *x = json_stringn(bytes, n);

    for (size_t i = 0; !x && i < n && i < MOST_TOKEN_BYTES; i++)
        snprintf(text + 6 + 4 * i, 5, "\\x%02x", (unsigned char)bytes[i]);
    return x ? x : json_string(text);
}

static int64_t
characters(Vocabulary *t, int64_t token)
{
    size_t n;
    const char *bytes = vocabulary_text(t, token, &n);
    int64_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += (bytes[i] & 0xc0) != 0x80;
    return count;
}

/* Of the tokens that were noted since this was last asked for; NULL: null, or no memory. */
static json_t *
logprobs_of(Vocabulary *t, Request *r)
{
    const Scored *s = (const Scored *)(const void *)r->scored.at;
    size_t each = (size_t)(1 + r->top), n = r->top < 0 ? 0 : r->scored.n / sizeof *s / each;
    json_t *text = json_array(), *p = json_array(), *top = json_array(), *at = json_array();

    for (size_t i = 0; i < n; i++, s += each) {
        json_t *best = json_object();
        json_array_append_new(text, token_text(t, s->token));
        json_array_append_new(p, json_real(s->logprob));
        json_array_append_new(at, json_integer(r->characters));
        r->characters += characters(t, s->token);
        for (size_t k = 1; k < each; k++) {
            json_t *word = token_text(t, s[k].token);
            json_object_set_new(best, json_string_value(word), json_real(s[k].logprob));
            json_decref(word);
        }
        json_array_append_new(top, best);
    }
    r->scored.n = 0;
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", text, "token_logprobs", p, "top_logprobs",
                     top, "text_offset", at);
}

/* A token in the form of chats. */
static json_t *
chat_token(Vocabulary *t, const Scored *s)
{
    size_t n;
    const char *text = vocabulary_text(t, s->token, &n);
    json_t *bytes = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return json_pack("{s:o, s:f, s:o}", "token", token_text(t, s->token), "logprob", s->logprob,
                     "bytes", bytes);
}

static json_t *
chat_logprobs_of(Vocabulary *t, Request *r)
{
    const Scored *s = (const Scored *)(const void *)r->scored.at;
    size_t each = (size_t)(1 + r->top), n = r->scored.n / sizeof *s / each;
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++, s += each) {
        json_t *x = chat_token(t, s), *top = json_array();
        for (size_t k = 1; k < each; k++)
            json_array_append_new(top, chat_token(t, s + k));
        json_object_set_new(x, "top_logprobs", top);
        json_array_append_new(all, x);
    }
    r->scored.n = 0;
    return json_pack("{s:o}", "content", all);
}

/* ---- answers --------------------------------------------------------------------------------- */

static json_t *
usage_of(const Completion *c)
{
    json_int_t prompt = 0, made = 0;

    for (int64_t i = 0; i < c->n; i++) {
        prompt += c->request[i].nprompt;
        made += c->request[i].made;
    }
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens", made,
                     "total_tokens", prompt + made);
}

static json_t *
choice_of(Vocabulary *t, Completion *c, Request *r)
{
    const char *reason = r->fate == STOPPED ? "stop" : r->fate == LENGTH ? "length" : NULL;
    json_t *logprobs = r->top < 0 ? json_null()
                       : c->chat  ? chat_logprobs_of(t, r)
                                  : logprobs_of(t, r),
           *text = json_stringn(r->answer.text.at ? r->answer.text.at : "", r->answer.text.n),
           *says;

    if (!c->chat)
        return json_pack("{s:o, s:I, s:o, s:s?}", "text", text, "index",
                         (json_int_t)(r - c->request), "logprobs", logprobs, "finish_reason",
                         reason);
    says = json_pack("{s:o}", "content", text);
    if (!c->stream || !c->begun)
        json_object_set_new(says, "role", json_string("assistant"));
    c->begun = true;
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", 0, c->stream ? "delta" : "message", says,
                     "logprobs", logprobs, "finish_reason", reason);
}

static json_t *
object_of(const CompletionLimits *l, const Completion *c, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", c->id, "object",
                     !c->chat    ? "text_completion"
                     : c->stream ? "chat.completion.chunk"
                                 : "chat.completion",
                     "created", (json_int_t)c->created, "model", l->model, "choices", choices);
}

char *
completion_whole(const CompletionLimits *l, Vocabulary *t, Completion *c)
{
    json_t *choices = json_array(), *x;

    for (int64_t i = 0; i < c->n; i++)
        if (json_array_append_new(choices, choice_of(t, c, &c->request[i]))) {
            json_decref(choices);
            return NULL;
        }
    x = object_of(l, c, choices);
    json_object_set_new(x, "usage", usage_of(c));
    return json_as_text(x);
}

char *
completion_part(const CompletionLimits *l, Vocabulary *t, Completion *c, Request *r)
{
    json_t *x = object_of(l, c, json_pack("[o]", choice_of(t, c, r)));

    if (c->tells_usage)
        json_object_set_new(x, "usage", json_null());
    r->answer.text.n = 0;
    return json_as_text(x);
}

char *
completion_usage(const CompletionLimits *l, const Completion *c)
{
    json_t *x = object_of(l, c, json_array());

    json_object_set_new(x, "usage", usage_of(c));
    return json_as_text(x);
}

char *
models_text(const CompletionLimits *l, long long since)
{
    return json_as_text(json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:I}]}", "object", "list", "data",
                                  "id", l->model, "object", "model", "created", (json_int_t)since,
                                  "owned_by", "tenon", "max_model_len", (json_int_t)l->context));
}
