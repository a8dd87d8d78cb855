#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef enum MHD_Result Result;
typedef struct Call Call;

/* A connection; requests come over it one after the other. */
typedef struct Peer {
    struct Peer *next, *before;
    int socket;
    double since; /* it was made, or has been told all it asked */
    Call *call;   /* the request that has arrived, or NULL */
} Peer;

struct Call {
    Http *http;
    Peer *peer;
    struct MHD_Connection *connection;
    Buffer body;
    int64_t received; /* of it, kept or not */
    /* waits: nothing is to be said yet, and the connection sleeps */
    bool arrived, waits, gone;
    Completion *completion; /* NULL: it asks for something else, or was refused */
    bool running;           /* the batch has it */
    Refusal why;            /* where it is refused */
    const char *allow;      /* the method that was wanted, where another came */
    Buffer out;             /* events to be sent, `sent` of them are */
    size_t sent;
};

struct Http {
    HttpLimits limits;
    CompletionLimits completions;
    Tokens *tokens;
    const Decoder *decoder;
    Batch *batch;
    struct MHD_Daemon *daemon;
    Peer *peers;
    long long since, served, refused, dropped;
    bool stopping;
};

static double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

static void
rest(Call *c)
{
    MHD_suspend_connection(c->connection);
    c->waits = true;
}

static void
wake(Call *c)
{
    if (c->waits)
        MHD_resume_connection(c->connection);
    c->waits = false;
}

/* It gets no more, and what runs for it ends now. */
static void
drop(Call *c)
{
    if (c->running)
        batch_remove(c->http->batch, &c->completion->request);
    c->http->dropped += c->running;
    c->running = false;
    c->gone = true;
    /* what it did not read is not kept for it */
    setsockopt(c->peer->socket, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
               sizeof(struct linger));
    shutdown(c->peer->socket, SHUT_RDWR);
    wake(c);
}

static ssize_t
read_events(void *user, uint64_t at, char *to, size_t room)
{
    Call *c = user;
    size_t left = c->out.n - c->sent, n = left < room ? left : room;

    (void)at;
    if (c->gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!n && !c->running)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!n) {
        rest(c);
        return 0;
    }
    memcpy(to, c->out.at + c->sent, n);
    c->sent += n;
    if (c->sent == c->out.n)
        c->sent = c->out.n = 0;
    return (ssize_t)n;
}

static Result
begin_events(Call *c)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_events, c, NULL);
    int bytes = (int)c->http->limits.unread;

    if (!r)
        return MHD_NO;
    /* what the system keeps for a slow reader counts too */
    setsockopt(c->peer->socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    MHD_add_response_header(r, "Content-Type", "text/event-stream");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    Result done = MHD_queue_response(c->connection, 200, r);
    MHD_destroy_response(r);
    return done;
}

static bool
add_event(Call *c, char *data)
{
    bool ok = data && buffer_add(&c->out, "data: ", 6) && buffer_add(&c->out, data, strlen(data)) &&
              buffer_add(&c->out, "\n\n", 2);

    free(data);
    return ok;
}

static void
tell_events(Call *c)
{
    Completion *x = c->completion;
    bool ended = x->request.fate != RUNNING,
         bad = x->request.fate == TIMEOUT || x->request.fate == FAILED, ok = true;

    if (x->request.answer.text.n || (ended && !bad))
        ok = add_event(c, completion_part(&c->http->completions, x));
    if (bad) {
        completion_refusal(&c->http->completions, x, decoder_problem(c->http->decoder), &c->why);
        ok = ok && add_event(c, refusal_text(&c->why));
    }
    if (ended)
        ok = ok && buffer_add(&c->out, "data: [DONE]\n\n", 14);
    if (!ok || (int64_t)(c->out.n - c->sent) > c->http->limits.unread)
        drop(c);
    else if (c->out.n)
        wake(c);
}

void
http_told(Request *r)
{
    Call *c = r->user;

    c->running = r->fate == RUNNING;
    c->http->served += r->fate == STOPPED || r->fate == LENGTH;
    if (c->completion->stream)
        tell_events(c);
    else if (!c->running)
        wake(c);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool
refuse(Call *c, int status, const char *param, const char *message)
{
    c->why = (Refusal){ .status = status, .param = param };
    snprintf(c->why.message, sizeof c->why.message, "%s", message);
    return false;
}

static bool
begin_completion(Call *c)
{
    Http *h = c->http;
    char message[128];

    if (c->received > h->limits.body) {
        snprintf(message, sizeof message, "the body has %lld bytes; at most %lld are possible",
                 (long long)c->received, (long long)h->limits.body);
        return refuse(c, 413, NULL, message);
    }
    if (!(c->completion = completion_new(&h->completions, h->tokens, c->body.at, c->body.n,
                                         seconds(), &c->why)))
        return false;
    if (h->stopping)
        return refuse(c, 503, NULL, "the server is about to stop and takes no more requests");
    if (batch_queued(h->batch) >= h->limits.queue + batch_free_places(h->batch)) {
        snprintf(message, sizeof message, "%lld requests wait already; at most %lld can",
                 (long long)batch_queued(h->batch), (long long)h->limits.queue);
        return refuse(c, 503, NULL, message);
    }
    c->completion->request.user = c;
    c->running = true;
    batch_add(h->batch, &c->completion->request);
    return true;
}

static Result
say_completion(Call *c)
{
    Request *r = &c->completion->request;

    if (c->gone)
        return MHD_NO;
    if (r->fate == STOPPED || r->fate == LENGTH)
        return say(c->connection, 200, completion_whole(&c->http->completions, c->completion), NULL,
                   NULL);
    completion_refusal(&c->http->completions, c->completion, decoder_problem(c->http->decoder),
                       &c->why);
    return say_why(c);
}

static const struct {
    const char *path, *method;
} doors[] = {
    { "/v1/completions", "POST" },
    { "/v1/models", "GET" },
    { "/health", "GET" },
};

/* The door; -1: there is none, and why. */
static int
find_door(Call *c, const char *path, const char *method)
{
    char message[192];

    for (int i = 0; i < 3; i++) {
        if (strcmp(path, doors[i].path))
            continue;
        if (!strcmp(method, doors[i].method))
            return i;
        snprintf(message, sizeof message, "%s takes %s, not %.20s", path, doors[i].method, method);
        c->allow = doors[i].method;
        refuse(c, 405, NULL, message);
        return -1;
    }
    snprintf(
        message, sizeof message,
        "there is no %.60s here; there are POST /v1/completions, GET /v1/models and GET /health",
        path);
    refuse(c, 404, NULL, message);
    return -1;
}

/* All of a request has come. */
static Result
answer(Call *c, const char *path, const char *method)
{
    int door = find_door(c, path, method);

    c->arrived = true;
    c->peer->call = c;
    if (door < 0)
        return say_why(c);
    if (door == 1)
        return say(c->connection, 200, models_text(&c->http->completions, c->http->since), NULL,
                   NULL);
    if (door == 2)
        return say_health(c);
    if (!begin_completion(c))
        return say_why(c);
    if (c->completion->stream)
        return begin_events(c);
    rest(c);
    return MHD_YES;
}

/* The library asks at a request's head, at each part of its body, at its end, and again when it was
 * woken. */
static Result
take(void *user, struct MHD_Connection *connection, const char *path, const char *method,
     const char *version, const char *data, size_t *bytes, void **call)
{
    /* bodies so many times as large as can be are taken to their end, so that the reason can be
     * read */
    enum { SWALLOWED = 8 };
    Http *h = user;
    Call *c = *call;
    int64_t most = h->limits.body;

    (void)version;
    if (!c) {
        const char *length =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        Peer *peer =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        if (!peer || !(c = *call = calloc(1, sizeof *c)))
            return MHD_NO;
        *c = (Call){ .http = h,
                     .connection = connection,
                     .peer = peer,
                     .received = length ? strtoll(length, NULL, 10) : 0 };
        if (c->received > SWALLOWED * most)
            return answer(c, path, method);
        c->received = 0;
        return MHD_YES;
    }
    if (*bytes) {
        c->received += (int64_t)*bytes;
        if (c->received > SWALLOWED * most ||
            (c->received <= most && !buffer_add(&c->body, data, *bytes)))
            return MHD_NO;
        *bytes = 0;
        return MHD_YES;
    }
    return c->arrived ? say_completion(c) : answer(c, path, method);
}

/* It has been answered, or its connection has ended. */
static void
end_call(void *user, struct MHD_Connection *connection, void **call,
         enum MHD_RequestTerminationCode how)
{
    Call *c = *call;

    (void)user, (void)connection, (void)how;
    if (!c)
        return;
    if (c->running) {
        batch_remove(c->http->batch, &c->completion->request);
        c->http->dropped++;
    }
    c->peer->call = NULL;
    c->peer->since = seconds();
    completion_free(c->completion);
    buffer_free(&c->body);
    buffer_free(&c->out);
    free(c);
    *call = NULL;
}

static void
note_peer(void *user, struct MHD_Connection *connection, void **of,
          enum MHD_ConnectionNotificationCode how)
{
    Http *h = user;
    Peer *p = *of;

    if (how == MHD_CONNECTION_NOTIFY_STARTED) {
        if (!(p = *of = calloc(1, sizeof *p)))
            return; /* what it asks is not taken */
        *p = (Peer){
            h->peers, NULL,
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            seconds(), NULL
        };
        if (h->peers)
            h->peers->before = p;
        h->peers = p;
        return;
    }
    if (!p)
        return;
    *(p->before ? &p->before->next : &h->peers) = p->next;
    if (p->next)
        p->next->before = p->before;
    free(p);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Has it ended what it sends? The library does not look at a connection that sleeps, nor twice at
 * one that ended with its last bytes. */
static bool
has_left(const Peer *p)
{
    char byte;
    ssize_t n = recv(p->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Who takes too long to ask is shut out, and so is who left before all was asked; who asked and
 * left is dropped. */
static void
look_after(Http *h, double now)
{
    for (Peer *p = h->peers; p; p = p->next) {
        bool late = !p->call && now - p->since > h->limits.receive_seconds;
        if (p->call && p->call->running && has_left(p))
            drop(p->call);
        else if (late || (!p->call && has_left(p)))
            shutdown(p->socket, SHUT_RDWR);
    }
}

/* What there is to receive and to send. */
static void
exchange(Http *h, bool busy)
{
    enum { MOST_ROUNDS = 16, IDLE_MS = 100 };
    MHD_UNSIGNED_LONG_LONG left = 0;

    MHD_run_wait(h->daemon, busy ? 0 : IDLE_MS);
    for (int i = 0; i < MOST_ROUNDS && MHD_get_timeout(h->daemon, &left) == MHD_YES && !left; i++)
        MHD_run_wait(h->daemon, 0);
}

static bool
any_call(const Http *h)
{
    for (const Peer *p = h->peers; p; p = p->next)
        if (p->call)
            return true;
    return false;
}

void
http_run(Http *h, Batch *b, const volatile int *stop)
{
    double end = 0;

    h->batch = b;
    while (!h->stopping || (any_call(h) && seconds() < end)) {
        if (*stop && !h->stopping) {
            h->stopping = true;
            end = seconds() + h->limits.grace_seconds;
            close(MHD_quiesce_daemon(h->daemon));
        }
        exchange(h, batch_busy(b));
        look_after(h, seconds());
        batch_step(b, seconds());
    }
    for (Peer *p = h->peers; p; p = p->next)
        if (p->call)
            drop(p->call);
    exchange(h, true);
}

static void
keep_quiet(void *user, const char *text, va_list args)
{
    /* what the library says of clients that are gone */
    (void)user, (void)text, (void)args;
}

Http *
http_new(const HttpLimits *l, const CompletionLimits *c, Tokens *t, const Decoder *d, char *problem,
         size_t room)
{
    Http *h = calloc(1, sizeof *h);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)l->port) };

    if (inet_pton(AF_INET, l->address, &at.sin_addr) != 1) {
        snprintf(problem, room, "--address %s: an IPv4 address is needed, such as 127.0.0.1",
                 l->address);
        free(h);
        return NULL;
    }
    if (h) {
        *h = (Http){ .limits = *l,
                     .completions = *c,
                     .tokens = t,
                     .decoder = d,
                     .since = (long long)time(NULL) };
        h->daemon = MHD_start_daemon(
            MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, take, h,
            MHD_OPTION_EXTERNAL_LOGGER, keep_quiet, NULL, MHD_OPTION_SOCK_ADDR,
            (struct sockaddr *)&at, MHD_OPTION_CONNECTION_LIMIT, (unsigned)l->connections,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)l->receive_seconds + 1,
            MHD_OPTION_NOTIFY_COMPLETED, end_call, NULL, MHD_OPTION_NOTIFY_CONNECTION, note_peer, h,
            MHD_OPTION_END);
    }
    if (h && h->daemon)
        return h;
    snprintf(problem, room, "cannot listen on %s, port %d: %s", l->address, l->port,
             strerror(errno));
    free(h);
    return NULL;
}

int
http_port(const Http *h)
{
    return MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void
http_free(Http *h)
{
    MHD_stop_daemon(h->daemon);
    free(h);
}
