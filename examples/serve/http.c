#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "call.h"

double
seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- requests -------------------------------------------------------------------------------- */

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
                     .began = seconds(),
                     .door = -1,
                     .received = length ? strtoll(length, NULL, 10) : 0 };
        snprintf(c->path, sizeof c->path, "%s", path);
        snprintf(c->method, sizeof c->method, "%s", method);
        if (c->received > SWALLOWED * most)
            return call_answer(c);
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
    return c->arrived ? call_say_completion(c) : call_answer(c);
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
    call_leave(c);
    call_log(c);
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
            .next = h->peers,
            .socket =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            .since = seconds(),
        };
        const struct sockaddr *from =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)from)->sin_addr, p->address,
                  sizeof p->address);
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
            call_drop(p->call);
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
        exchange(h, b && batch_busy(b));
        look_after(h, seconds());
        if (b)
            batch_step(b, seconds());
    }
    for (Peer *p = h->peers; p; p = p->next)
        if (p->call)
            call_drop(p->call);
    exchange(h, true);
}

static void
keep_quiet(void *user, const char *text, va_list args)
{
    /* what the library says of clients that are gone */
    (void)user, (void)text, (void)args;
}

Http *
http_new(const HttpLimits *l, const CompletionLimits *c, Vocabulary *t, const Decoder *d,
         Infer *infer, char *problem, size_t room)
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
                     .infer = infer,
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
