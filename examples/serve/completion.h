/* completion: the OpenAI forms of completions, of texts and of chats: what a body asks for (completion.c), and what is said to
 * it, as JSON (said.c). */
#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H

#include "batch.h"
#include "body.h"
#include "chat.h"

enum { MOST_PROMPTS = 128 };

typedef struct {
    const char *model;               /* its name in requests and answers */
    int64_t context, prompt, tokens; /* at most: both together, each [tokens] */
    int64_t words;
    double seconds;   /* that a request may take */
    const Chat *chat; /* NULL: the model has no template of chats */
} CompletionLimits;

/* One body: a request for each of its prompts. */
typedef struct {
    Request *request; /* [n] */
    int64_t n, left;  /* left: those whose fate is not known */
    bool begun;       /* a stream of a chat has said who speaks */
    char id[32];
    long long created;
    bool chat; /* the form of chats */
    bool stream;
    bool tells_usage; /* as the last event of a stream */
} Completion;

/* NULL: *why says why. The answer's deadline counts from `now`. */
Completion *completion_new(const CompletionLimits *l, Vocabulary *t, const json_t *body, bool chat,
                           double now, Refusal *why);
void completion_free(Completion *c);
/* What a request that did not end well is told. */
void completion_refusal(const CompletionLimits *l, const Request *r, const char *problem,
                        Refusal *why);

/* All of these are malloc's; NULL: no memory. */
char *completion_whole(const CompletionLimits *l, Vocabulary *t, Completion *c);
/* The text of a request that came since its last one, as an event; with the reason of its end, if
 * that has come. */
char *completion_part(const CompletionLimits *l, Vocabulary *t, Completion *c, Request *r);
char *completion_usage(const CompletionLimits *l, const Completion *c);
/* What a prompt, or messages, are for the model, for who wants to see it; NULL: *why. */
char *prompt_text(const CompletionLimits *l, Vocabulary *t, const json_t *body, Refusal *why);
char *models_text(const CompletionLimits *l, long long since);

#endif
