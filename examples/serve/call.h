/* call: what http.c (connections), doors.c (requests) and events.c (streams) share. */
#ifndef SERVE_CALL_H
#define SERVE_CALL_H

#include <microhttpd.h>

#include "http.h"
#include "metrics.h"

typedef enum MHD_Result Result;
typedef struct Call Call;

/* A connection; requests come over it one after the other. */
typedef struct Peer {
    struct Peer *next, *before;
    int socket;
    double since; /* it was made, or has been told all it asked */
    char address[48];
    Call *call; /* the request that has arrived, or NULL */
} Peer;

struct Call {
    Http *http;
    Peer *peer;
    struct MHD_Connection *connection;
    double began;
    char method[16], path[128];
    int door, status; /* of doors.c, -1: none; of HTTP, 0: nothing was said */
    Buffer body;
    int64_t received; /* of it, kept or not */
    /* waits: nothing is to be said yet, and the connection sleeps */
    bool arrived, waits, gone;
    bool left;              /* before all was said */
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
    Vocabulary *tokens;
    const Decoder *decoder;
    Infer *infer; /* NULL: there is a decoder */
    Batch *batch;
    struct MHD_Daemon *daemon;
    Peer *peers;
    long long since;
    Metrics metrics;
    bool stopping;
};

/* Of the monotonic clock. */
double seconds(void);
/* All of a request has come; and what follows when the library asks again. */
Result call_answer(Call *c);
/* It is over: it is counted, and logged. */
void call_log(Call *c);
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
