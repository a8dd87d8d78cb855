/* http: the server's doors, in one thread with the model.
 *
 *   POST /v1/completions    the OpenAI form (completion.h), whole or as server-sent events
 *   POST /v1/chat/completions   the same of chats
 *   POST /tokenize          the tokens of a prompt, or of messages
 *   GET  /v1/models         the one model there is
 *   GET  /v1/models/NAME    what one takes and gives; also under /v2, as KServe has it
 *   POST /v1/models/NAME/infer  a run of a model that is no decoder (infer.h)
 *   GET  /health            how many run, wait, and were served
 *   GET  /metrics           the same and more, for Prometheus (metrics.h)
 *
 * Whatever is refused is told why as JSON, {"error": {"message", "type", "param", "code"}}. A
 * client that is gone, or that does not read what it is sent, loses its place in the batch at once.
 */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include "completion.h"
#include "infer.h"

typedef struct {
    const char *address;
    int port;               /* 0: any that is free */
    int64_t connections;    /* at once, at most */
    int64_t queue;          /* requests that wait, at most */
    int64_t body;           /* bytes of one, at most */
    int64_t unread;         /* bytes of events that a client has not taken, at most */
    double receive_seconds; /* for a request to arrive, and for a connection without one */
    double grace_seconds;   /* for requests that run, once the server is to stop */
    const char *key;        /* that requests are to bring; "": none */
    int64_t log;            /* 1: a line on standard error for each request */
} HttpLimits;

typedef struct Http Http;

/* infer: a model that is no decoder, else NULL; then there is no decoder. */
Http *http_new(const HttpLimits *h, const CompletionLimits *c, Vocabulary *t, const Decoder *d,
               Infer *infer, char *problem, size_t room);
int http_port(const Http *h);
void http_told(Request *r); /* as the batch's `told` */
/* b: NULL without a decoder. Until *stop, and what runs then has ended */
void http_run(Http *h, Batch *b, const volatile int *stop);
void http_free(Http *h);

#endif
