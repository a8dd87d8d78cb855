/* completion: the OpenAI completions form: what a body asks for, and what is said to it, as
 * JSON. */
#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H

#include "batch.h"

typedef struct {
    const char *model;               /* its name in requests and answers */
    int64_t context, prompt, tokens; /* at most: both together, each [tokens] */
    int64_t words;
    double seconds; /* that a request may take */
} CompletionLimits;

typedef struct {
    Request request;
    char id[32];
    long long created;
    bool stream;
} Completion;

/* Why a request is refused. */
typedef struct {
    int status;        /* of HTTP */
    const char *param; /* the field, or NULL */
    char message[256];
} Refusal;

/* NULL: *why says why. The answer's deadline counts from `now`. */
Completion *completion_new(const CompletionLimits *l, Tokens *t, const char *body, size_t bytes,
                           double now, Refusal *why);
void completion_free(Completion *c);

/* All of these are malloc's; NULL: no memory. */
char *completion_whole(const CompletionLimits *l, const Completion *c);
/* The text that came since the last one, as an event; with the reason of its end, if that has come,
 * and what was used. */
char *completion_part(const CompletionLimits *l, Completion *c);
char *refusal_text(const Refusal *why);
char *models_text(const CompletionLimits *l, long long since);
/* What a request that did not end well is told. */
void completion_refusal(const CompletionLimits *l, const Completion *c, const char *problem,
                        Refusal *why);

#endif
