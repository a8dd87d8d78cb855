#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"

/* ---- answers --------------------------------------------------------------------------------- */

/* text is malloc's and goes with the answer. */
static Result
say_as(Call *c, int status, const char *kind, char *text, const char *header, const char *value)
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
    c->status = text ? status : 500;
    MHD_add_response_header(r, "Content-Type", kind);
    if (header)
        MHD_add_response_header(r, header, value);
    Result done = MHD_queue_response(c->connection, (unsigned)c->status, r);
    MHD_destroy_response(r);
    return done;
}

static Result
say(Call *c, char *text)
{
    return say_as(c, 200, "application/json", text, NULL, NULL);
}

static Result
say_why(Call *c)
{
    const char *header = c->why.status == 503   ? "Retry-After"
                         : c->why.status == 401 ? "WWW-Authenticate"
                         : c->allow             ? "Allow"
                                                : NULL;
    const char *value = c->why.status == 503 ? "1" : c->why.status == 401 ? "Bearer" : c->allow;

    c->http->metrics.refused++;
    return say_as(c, c->why.status, "application/json", refusal_text(&c->why), header, value);
}

/* ---- completions ----------------------------------------------------------------------------- */

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

static json_t *
read_body(Call *c)
{
    int64_t most = c->http->limits.body;

    if (c->received <= most)
        return body_read(c->body.at, c->body.n, &c->why);
    refuse(&c->why, 413, NULL, "the body has %lld bytes; at most %lld are possible",
           (long long)c->received, (long long)most);
    return NULL;
}

static bool
has_decoder(Call *c)
{
    return !c->http->infer ||
           refuse(&c->why, 404, NULL,
                  "this server has no language model: POST /v1/models/%.100s/infer",
                  c->http->completions.model);
}

static bool
begin_completion(Call *c, bool chat)
{
    Http *h = c->http;
    json_t *body;

    if (!has_decoder(c) || !(body = read_body(c)))
        return false;
    c->completion = completion_new(&h->completions, h->tokens, body, chat, seconds(), &c->why);
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
        return say(c, completion_whole(&h->completions, h->tokens, c->completion));
    while (r->fate != TIMEOUT && r->fate != FAILED)
        r++;
    completion_refusal(&h->completions, r, decoder_problem(h->decoder), &c->why);
    return say_why(c);
}

static Result
open_completion(Call *c, bool chat)
{
    if (!begin_completion(c, chat))
        return say_why(c);
    if (c->completion->stream)
        return call_begin_events(c);
    call_rest(c);
    return MHD_YES;
}

static Result
open_completions(Call *c)
{
    return open_completion(c, false);
}

static Result
open_chat(Call *c)
{
    return open_completion(c, true);
}

static Result
open_tokenize(Call *c)
{
    json_t *body = has_decoder(c) ? read_body(c) : NULL;
    char *text = body ? prompt_text(&c->http->completions, c->http->tokens, body, &c->why) : NULL;

    json_decref(body);
    return text || !c->why.status ? say(c, text) : say_why(c);
}

/* ---- doors ----------------------------------------------------------------------------------- */

static Result
open_models(Call *c)
{
    return say(c, models_text(&c->http->completions, c->http->since));
}

static Result
open_health(Call *c)
{
    const Http *h = c->http;
    const Metrics *m = &h->metrics;

    return say(
        c, json_as_text(json_pack(
               "{s:s, s:I, s:I, s:I, s:I, s:I}", "status", h->stopping ? "stopping" : "ok",
               "running", (json_int_t)(h->batch ? batch_running(h->batch) : 0), "queued",
               (json_int_t)(h->batch ? batch_queued(h->batch) : 0), "served", (json_int_t)m->served,
               "refused", (json_int_t)m->refused, "dropped", (json_int_t)m->dropped)));
}

/* Is the name in /v1/models/NAME the model's? */
static bool
has_model(Call *c)
{
    const char *model = c->http->completions.model, *name = c->path + strlen("/v1/models/");
    size_t n = strcspn(name, "/");

    return (n == strlen(model) && !strncmp(name, model, n)) ||
           refuse(&c->why, 404, NULL, "there is no model \"%.*s\" here, there is \"%.64s\"",
                  n > 64 ? 64 : (int)n, name, model);
}

static Result
open_model(Call *c)
{
    const Http *h = c->http;

    if (!has_model(c))
        return say_why(c);
    return say(c, h->infer ? infer_about(h->infer, h->completions.model)
                           : models_text(&h->completions, h->since));
}

static Result
open_infer(Call *c)
{
    Http *h = c->http;
    json_t *body;
    char *text;

    if (!has_model(c))
        return say_why(c);
    if (!h->infer) {
        refuse(&c->why, 404, NULL, "this model is a decoder: POST /v1/completions");
        return say_why(c);
    }
    if (!(body = read_body(c)))
        return say_why(c);
    text = infer_run(h->infer, h->completions.model, body, &c->why);
    json_decref(body);
    h->metrics.served += text != NULL;
    return text || !c->why.status ? say(c, text) : say_why(c);
}

static Result open_metrics(Call *c);

static const struct {
    const char *path, *method;
    bool free; /* for who brings no key, too */
    Result (*open)(Call *c);
} doors[] = {
    { "/v1/completions", "POST", false, open_completions },
    { "/v1/models", "GET", false, open_models },
    { "/v1/chat/completions", "POST", false, open_chat },
    { "/tokenize", "POST", false, open_tokenize },
    { "/v1/models/*", "GET", false, open_model },
    { "/v1/models/*/infer", "POST", false, open_infer },
    { "/v2/models/*", "GET", false, open_model },
    { "/v2/models/*/infer", "POST", false, open_infer },
    { "/health", "GET", true, open_health },
    { "/v2/health/live", "GET", true, open_health },
    { "/v2/health/ready", "GET", true, open_health },
    { "/metrics", "GET", true, open_metrics },
};
enum { NDOOR = sizeof doors / sizeof *doors };
_Static_assert((int)NDOOR <= (int)MOST_DOORS, "each door has its counters");

static Result
open_metrics(Call *c)
{
    const char *path[NDOOR];

    for (int i = 0; i < NDOOR; i++)
        path[i] = doors[i].path;
    return say_as(c, 200, "text/plain; version=0.0.4",
                  metrics_text(&c->http->metrics, c->http->batch, path, NDOOR), NULL, NULL);
}

static void
list_doors(char *to, size_t room)
{
    size_t n = 0;

    for (int i = 0; i < NDOOR && n < room; i++)
        n += (size_t)snprintf(to + n, room - n, "%s%s %s",
                              !i               ? ""
                              : i == NDOOR - 1 ? " and "
                                               : ", ",
                              doors[i].method, doors[i].path);
}

/* Is it this path? * stands for anything but /. */
static bool
is_path(const char *path, const char *door)
{
    for (; *door; door++) {
        size_t n = *door == '*' ? strcspn(path, "/") : *path == *door;
        if (!n)
            return false;
        path += n;
    }
    return !*path;
}

/* The door; -1: there is none, and why. */
static int
find_door(Call *c)
{
    char list[512];

    for (int i = 0; i < NDOOR; i++) {
        if (!is_path(c->path, doors[i].path))
            continue;
        if (!strcmp(c->method, doors[i].method))
            return i;
        c->allow = doors[i].method;
        refuse(&c->why, 405, NULL, "%s takes %s, not %s", c->path, c->allow, c->method);
        return -1;
    }
    list_doors(list, sizeof list);
    refuse(&c->why, 404, NULL, "there is no %.60s here; there are %s", c->path, list);
    return -1;
}

/* How long it takes does not tell how much of a key is right. */
static bool
has_key(Call *c)
{
    static const char scheme[] = "Bearer ";
    const char *key = c->http->limits.key,
               *given =
                   MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, "Authorization");
    size_t n = strlen(key), length;
    unsigned char differ = 0;

    if (!n)
        return true;
    if (!given || strncmp(given, scheme, sizeof scheme - 1)) {
        refuse(&c->why, 401, NULL,
               "this server wants a key, in a header \"Authorization: Bearer KEY\"");
        c->why.code = "invalid_api_key";
        return false;
    }
    given += sizeof scheme - 1;
    length = strlen(given);
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(key[i] ^ (i < length ? given[i] : 0));
    if (!differ && length == n)
        return true;
    refuse(&c->why, 401, NULL, "the key that was given is not this server's");
    c->why.code = "invalid_api_key";
    return false;
}

Result
call_answer(Call *c)
{
    c->door = find_door(c);
    c->arrived = true;
    c->peer->call = c;
    if (c->door < 0 || (!doors[c->door].free && !has_key(c)))
        return say_why(c);
    return doors[c->door].open(c);
}

/* ---- what is known of it afterwards ---------------------------------------------------------- */

static void
say_line(const Call *c, double took)
{
    char when[32], path[sizeof c->path];
    time_t now = time(NULL);
    struct tm at;
    size_t n = strlen(c->path);

    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &at));
    for (size_t i = 0; i <= n; i++) /* one line, whatever was asked */
        path[i] = i < n && (c->path[i] <= ' ' || c->path[i] > '~') ? '?' : c->path[i];
    fprintf(stderr, "%s %s %s %s %d %.3f", when, c->peer->address, c->method, path, c->status,
            took);
    if (c->completion) {
        long long prompt = 0, made = 0;
        for (int64_t i = 0; i < c->completion->n; i++) {
            prompt += c->completion->request[i].nprompt;
            made += c->completion->request[i].made;
        }
        fprintf(stderr, " %s prompt=%lld made=%lld", c->completion->id, prompt, made);
    }
    fprintf(stderr, "%s%s%s\n", c->left ? " dropped" : "", *c->why.message ? ": " : "",
            c->why.message);
}

void
call_log(Call *c)
{
    double took = seconds() - c->began;
    Metrics *m = &c->http->metrics;

    if (c->status > 0 && c->status < MOST_STATUS)
        m->answered[c->door < 0 ? NDOOR : c->door][c->status]++;
    if (c->completion)
        times_add(&m->request, took);
    if (c->http->limits.log)
        say_line(c, took);
}
