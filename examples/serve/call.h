/* call: what http.c (connections), doors.c (requests) and events.c (streams) share. */
#ifndef SERVE_CALL_H
#define SERVE_CALL_H

#include <microhttpd.h>

#include "http.h"

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
    bool running, failed;   /* the batch has some of it; did not end some of it well */
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

/* Of the monotonic clock. */
double seconds(void);
/* All of a request has come; and what follows when the library asks again. */
Result call_answer(Call *c, const char *path, const char *method);
Result call_say_completion(Call *c);
/* The connection sleeps until there is something to say. */
void call_rest(Call *c);
void call_wake(Call *c);
/* It gets no more, and what runs for it ends now. */
void call_drop(Call *c);
/* What runs for it leaves the batch. */
void call_leave(Call *c);
Result call_begin_events(Call *c);

#endif
