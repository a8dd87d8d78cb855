#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

/* ---- answers --------------------------------------------------------------------------------- */

/* text is malloc's and goes with the answer. */
static Result
say(struct MHD_Connection *connection, int status, char *text, const char *header,
    const char *value)
{
    static char none[] = "{\"error\":{\"message\":\"no "
                         "memory\",\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    struct MHD_Response *r =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
             : MHD_create_response_from_buffer(strlen(none), none, MHD_RESPMEM_PERSISTENT);
    if (!r) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", "application/json");
    if (header)
        MHD_add_response_header(r, header, value);
    Result done = MHD_queue_response(connection, text ? (unsigned)status : 500, r);
    MHD_destroy_response(r);
    return done;
}

static Result
say_why(Call *c)
{
    c->http->refused++;
    return say(c->connection, c->why.status, refusal_text(&c->why),
               c->why.status == 503 ? "Retry-After"
               : c->allow           ? "Allow"
                                    : NULL,
               c->allow ? c->allow : "1");
}

static Result
say_health(Call *c)
{
    const Http *h = c->http;
    char *text;

    if (asprintf(&text,
                 "{\"status\":\"%s\",\"running\":%lld,\"queued\":%lld,\"served\":%lld,\"refused\":%"
                 "lld,\"dropped\":%lld}",
                 h->stopping ? "stopping" : "ok", (long long)batch_running(h->batch),
                 (long long)batch_queued(h->batch), h->served, h->refused, h->dropped) < 0)
        text = NULL;
    return say(c->connection, 200, text, NULL, NULL);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool
enough_room(Call *c)
{
    Http *h = c->http;
    int64_t waiting = batch_queued(h->batch), n = c->completion->n;

    if (waiting + n <= h->limits.queue + batch_free_places(h->batch))
        return true;
    return n > 1 ? refuse(&c->why, 503, NULL,
                          "%lld requests wait already, and the body has %lld prompts; at most %lld "
                          "can wait",
                          (long long)waiting, (long long)n, (long long)h->limits.queue)
                 : refuse(&c->why, 503, NULL, "%lld requests wait already; at most %lld can",
                          (long long)waiting, (long long)h->limits.queue);
}

static bool
begin_completion(Call *c)
{
    Http *h = c->http;
    json_t *body;

    if (c->received > h->limits.body)
        return refuse(&c->why, 413, NULL, "the body has %lld bytes; at most %lld are possible",
                      (long long)c->received, (long long)h->limits.body);
    if (!(body = body_read(c->body.at, c->body.n, &c->why)))
        return false;
    c->completion = completion_new(&h->completions, h->tokens, body, seconds(), &c->why);
    json_decref(body);
    if (!c->completion)
        return false;
    if (h->stopping)
        return refuse(&c->why, 503, NULL, "the server is about to stop and takes no more requests");
    if (!enough_room(c))
        return false;
    c->running = true;
    for (int64_t i = 0; i < c->completion->n; i++) {
        c->completion->request[i].user = c;
        batch_add(h->batch, &c->completion->request[i]);
    }
    return true;
}

Result
call_say_completion(Call *c)
{
    Http *h = c->http;
    Request *r = c->completion->request;

    if (c->gone)
        return MHD_NO;
    if (!c->failed)
        return say(c->connection, 200, completion_whole(&h->completions, h->tokens, c->completion),
                   NULL, NULL);
    while (r->fate != TIMEOUT && r->fate != FAILED)
        r++;
    completion_refusal(&h->completions, r, decoder_problem(h->decoder), &c->why);
    return say_why(c);
}

static const struct {
    const char *path, *method;
} doors[] = {
    { "/v1/completions", "POST" },
    { "/v1/models", "GET" },
    { "/health", "GET" },
};

enum { COMPLETIONS, MODELS, HEALTH, NDOOR = sizeof doors / sizeof *doors };

/* The door; -1: there is none, and why. */
static int
find_door(Call *c, const char *path, const char *method)
{
    for (int i = 0; i < NDOOR; i++) {
        if (strcmp(path, doors[i].path))
            continue;
        if (!strcmp(method, doors[i].method))
            return i;
        c->allow = doors[i].method;
        refuse(&c->why, 405, NULL, "%s takes %s, not %.20s", path, doors[i].method, method);
        return -1;
    }
    refuse(&c->why, 404, NULL,
           "there is no %.60s here; there are POST /v1/completions, GET /v1/models and GET /health",
           path);
    return -1;
}

Result
call_answer(Call *c, const char *path, const char *method)
{
    int door = find_door(c, path, method);

    c->arrived = true;
    c->peer->call = c;
    if (door < 0)
        return say_why(c);
    if (door == MODELS)
        return say(c->connection, 200, models_text(&c->http->completions, c->http->since), NULL,
                   NULL);
    if (door == HEALTH)
        return say_health(c);
    if (!begin_completion(c))
        return say_why(c);
    if (c->completion->stream)
        return call_begin_events(c);
    call_rest(c);
    return MHD_YES;
}
