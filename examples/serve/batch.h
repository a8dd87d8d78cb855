/* batch: sequences that begin and end at different times, in one session.
 *
 * The rows of all sequences share one clock: a run adds as many rows to each. What belongs to a
 * sequence is a matter of its mask, and its tokens are counted by themselves:
 *
 *     rows        0 1 2 3 4 5 6 7 8 9
 *     first       x x x x x x . . x x        x: shown to it; . is another's prompt being fed, or a
 *     sequence that ended
 *     second      . . . . x x x x x x
 *
 * A prompt is fed in chunks, in columns of the same runs in which the others get their next token.
 * A place whose sequence ended is taken by the next in the queue, its rows hidden. Where rows run
 * out, or most of them are hidden, where more places are wanted or most are empty,
 * tn_session_state_arrange moves what is shown to the front.
 *
 * All of it runs in one thread, and takes no memory after batch_new but the text of answers.
 */
#ifndef SERVE_BATCH_H
#define SERVE_BATCH_H

#include "answer.h"
#include "decoder.h"
#include "sample.h"
#include "scored.h"
#include "vocabulary.h"

typedef enum { RUNNING, STOPPED, LENGTH, TIMEOUT, FAILED } Fate;

/* A sequence wanted. Who asks for it owns it until batch_add, and again when its fate is told. */
typedef struct Request {
    int64_t *prompt, nprompt, most; /* tokens; how many to make at most */
    Sampling how;
    double deadline; /* of the monotonic clock */
    int64_t top;     /* likeliest tokens that are noted with each one made; -1: none are */
    Answer answer;
    Buffer scored; /* [][1 + top] Scored; who reads it may empty it */
    void *user;

    Fate fate;
    int64_t fed, made;    /* tokens of the prompt, and of the answer, so far */
    int64_t token;        /* the last one made */
    int64_t characters;   /* of the tokens whose scores were told */
    struct Request *next; /* in the queue */
} Request;

typedef struct {
    Decoder *decoder;
    Vocabulary *tokens;
    int64_t places;           /* sequences at once, at most */
    int64_t chunk;            /* tokens of a prompt in one run */
    int64_t context;          /* tokens of a sequence, prompt and answer, at most */
    int64_t end;              /* the token that ends a text; -1: none */
    void (*told)(Request *r); /* there is more of its answer, or its fate is known */
} BatchOptions;

/* What it has done since it began. */
typedef struct {
    /* runs; tokens that they computed, also in places that are empty or have no more of a prompt */
    int64_t steps, columns;
    int64_t fed, made; /* tokens of prompts, and of answers */
} BatchCount;

typedef struct Batch Batch;

Batch *batch_new(const BatchOptions *o);   /* NULL: the decoder's problem, or no memory */
int64_t batch_rows(const BatchOptions *o); /* that its session must be able to hold */
void batch_add(Batch *b, Request *r);
/* its place is free at once; its fate is not told */
void batch_remove(Batch *b, Request *r);
bool batch_busy(const Batch *b);
int64_t batch_queued(const Batch *b);
int64_t batch_running(const Batch *b);
int64_t batch_free_places(const Batch *b);
const BatchCount *batch_count(const Batch *b);
/* one run: a token for each sequence, or a chunk of its prompt */
void batch_step(Batch *b, double now);
void batch_free(Batch *b);

#endif
