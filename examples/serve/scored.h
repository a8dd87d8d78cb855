/* scored: tokens and how likely the model held them, as `logprobs` asks for. */
#ifndef SERVE_SCORED_H
#define SERVE_SCORED_H

#include <stdint.h>

#include "answer.h"

enum { MOST_TOP = 20 };

typedef struct {
    int64_t token;
    double logprob; /* of all words by the model's own scores; no temperature */
} Scored;

/* One more record at the end of `to`: the token, and the `top` likeliest ones, the first first.
 * score: [n]. false: no memory. */
bool scored_add(Buffer *to, int64_t token, int64_t top, const float *score, int64_t n);

#endif
