#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "call.h"

void
call_rest(Call *c)
{
    MHD_suspend_connection(c->connection);
    c->waits = true;
}

void
call_wake(Call *c)
{
    if (c->waits)
        MHD_resume_connection(c->connection);
    c->waits = false;
}

void
call_leave(Call *c)
{
    for (int64_t i = 0; c->running && i < c->completion->n; i++)
        if (c->completion->request[i].fate == RUNNING)
            batch_remove(c->http->batch, &c->completion->request[i]);
    c->http->metrics.dropped += c->running;
    c->left |= c->running;
    c->running = false;
}

void
call_drop(Call *c)
{
    call_leave(c);
    c->gone = true;
    /* what it did not read is not kept for it */
    setsockopt(c->peer->socket, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
               sizeof(struct linger));
    shutdown(c->peer->socket, SHUT_RDWR);
    call_wake(c);
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
        call_rest(c);
        return 0;
    }
    memcpy(to, c->out.at + c->sent, n);
    c->sent += n;
    if (c->sent == c->out.n)
        c->sent = c->out.n = 0;
    return (ssize_t)n;
}

Result
call_begin_events(Call *c)
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
    c->status = 200;
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
tell_events(Call *c, Request *r)
{
    Http *h = c->http;
    Completion *x = c->completion;
    bool ended = r->fate != RUNNING, bad = r->fate == TIMEOUT || r->fate == FAILED, ok = true;

    if (r->answer.text.n || (ended && !bad))
        ok = add_event(c, completion_part(&h->completions, h->tokens, x, r));
    if (bad) {
        completion_refusal(&h->completions, r, decoder_problem(h->decoder), &c->why);
        ok = ok && add_event(c, refusal_text(&c->why));
    }
    if (!c->running && x->tells_usage && !c->failed)
        ok = ok && add_event(c, completion_usage(&h->completions, x));
    if (!c->running)
        ok = ok && buffer_add(&c->out, "data: [DONE]\n\n", 14);
    if (!ok || (int64_t)(c->out.n - c->sent) > h->limits.unread)
        call_drop(c);
    else if (c->out.n)
        call_wake(c);
}

void
http_told(Request *r)
{
    Call *c = r->user;

    if (c->gone) /* by the fate of another of its prompts */
        return;
    if (r->made == 1)
        times_add(&c->http->metrics.first, seconds() - c->began);
    c->completion->left -= r->fate != RUNNING;
    c->running = c->completion->left > 0;
    c->failed |= r->fate == TIMEOUT || r->fate == FAILED;
    c->http->metrics.served += !c->running && !c->failed;
    if (c->completion->stream)
        tell_events(c, r);
    else if (!c->running)
        call_wake(c);
}
