/* tokens: which dimensions of a model's values count the tokens of a padded batch, what values are
 * at padding, and which values no output needs there.
 *
 *     mask[b, j]        1 of a token, 0 of padding; `length` columns to each sequence b
 *     h[b, j, d]        tokens along j
 *     q[b, h, i, j]     tokens along i and along j, as scores have
 *     q[b*H + h, i, j]  sequences share a dimension with heads; h[b*s + j, d], h[j*n + b, d]
 *                       with their tokens
 *
 * A dimension is a number of digits, most significant first, each of which counts sequences,
 * tokens, or something else. Three questions of each value, asked in the order of the nodes:
 *
 *  - Which digits count sequences and tokens? Axes of a nest are split at the digits of what it
 *    reads, so that each counts one thing; then those where the nest writes along axes that index
 *    such digits.
 *  - What is it at padding? The nest's value is evaluated with one axis at padding, over a small
 *    domain: a number, something so low that its exponential is 0 (`hidden`), anything. A sum along
 *    that axis whose summand is 0 there does without padding; so does a maximum of what is hidden.
 *    What is anything is taken for finite.
 *  - What is it where nothing is padding, if that follows from indices alone? Masks do: `shown` is
 *    a nest that reads nothing.
 *
 * Then, from the outputs backwards: whose padding is asked for? What mixes tokens in another way
 * than by sums that padding adds nothing to asks for all of its operands, and these for theirs.
 * Everything else may be computed for tokens alone (ragged.c).
 */
#ifndef TENON_TOKENS_H
#define TENON_TOKENS_H

#include "graph/graph.h"

/* What an element is, as far as it is known; neither: anything. */
typedef struct {
    const Scalar *number; /* this constant */
    /* at most NORMALISE_HIDES, and what is added to it does not matter */
    bool hidden;
} Pad;

/* What a digit of an index counts. */
typedef enum { DIGIT_OTHER, DIGIT_SEQUENCE, DIGIT_TOKEN, DIGIT_OTHER_TOKEN /* of scores */ } Counts;

/* Digits of one dimension follow each other, the most significant first. */
typedef struct {
    uint8_t dim;
    Counts counts;
    const Expr *extent;
} Digit;

enum { MOST_DIGITS = 2 * TN_MAX_RANK };

/* Of a value. */
typedef struct {
    uint8_t count;  /* digits that count tokens: 0, 1, or 2 as of scores */
    uint8_t ndigit; /* of all dimensions; 0 where count is 0 */
    const Digit *digit;
    Pad pad[2]; /* its elements where token i is padding, the other is none */
    /* its elements where nothing is padding, a nest without inputs; NULL: they follow from more
     * than indices */
    const Nest *shown;
    bool asked; /* a node needs its padding */
    /* it is computed for tokens alone: what makes it can be, and no output needs its padding */
    bool packed;
} Tokens;

/* How an axis of a nest runs. */
typedef enum { RUNS_ELSEWHERE, RUNS_SEQUENCES, RUNS_COLUMNS /* of the sequences of an axis */ } Run;

/* A nest beside its operands' tokens. */
typedef struct {
    Run run[NEST_MAX_AXES];
    uint8_t sequence[NEST_MAX_AXES]; /* of RUNS_COLUMNS: the axis of its sequences */
    /* NULL: every read of tokens is at axes as above, or at one place of a sequence */
    const char *why;
} Runs;

/* Where a load reads tokens: at axes, or at one place of each sequence. */
typedef struct {
    const Expr *digit[MOST_DIGITS]; /* of the index */
    bool at_place;                  /* then column is the place */
    uint32_t batch;                 /* the axis of RUNS_SEQUENCES */
    const Expr *sequence, *column;
    uint32_t axis[2]; /* of both tokens: RUNS_COLUMNS */
} TokenRead;

typedef struct {
    Ctx *c;
    Arena *a;
    const Graph *g;
    ValueId mask;
    const Expr *batch, *length; /* its dimensions */
    Tokens *of;                 /* [value.n] */
    /* [node.n] why the node needs the padding of what it reads, behind its name; NULL: it does not
     * by itself */
    const char **why;
} TokenMap;

/* ---- token_axes.c: a nest that reads value in[i] in slot i ----------------------------------- */

/* A value of this type as inputs are: [batch, length, …] or [length, batch, …]; of another type:
 * without tokens. */
Tokens tokens_by_shape(const TokenMap *m, const Type *t);

/* The nest with its axes split at the digits of what it reads, and of its output where `out` is not
 * NULL. */
const Nest *tokens_split(const TokenMap *m, const Nest *n, const ValueId *in, const Tokens *out);

/* How the axes of a split nest run, which writes what `out` tells of its output (NULL: it is
 * asked). */
Runs tokens_runs(const TokenMap *m, const Nest *nest, const ValueId *in, const Tokens *out);

/* What the output counts by the axes that write it. NULL, or why that is no form of tokens. */
const char *tokens_written(const TokenMap *m, const Nest *n, const Runs *runs, Tokens *out);

/* The digits of the index at[rank] of a value with tokens. */
void tokens_digits(const TokenMap *m, const Nest *n, const Tokens *t, const Expr *const *at,
                   const Expr **digit);
/* The index of dimension dim by digits. */
const Expr *tokens_index(Ctx *c, const Tokens *t, uint32_t dim, const Expr *const *digit);

/* How a load of a value with tokens reads them, or how it is written at `at`. False: in another
 * way. */
bool tokens_read(const TokenMap *m, const Nest *nest, const Runs *runs, const Tokens *t,
                 const Expr *const *at, TokenRead *out);

/* ---- tokens.c -------------------------------------------------------------------------------- */

/* Of all values of g, whose input `mask` is [batch, length]. */
TokenMap tokens_find(const Graph *g, Arena *a, ValueId mask);

/* What s is where two tokens are of different sequences, if the scores that slot i reads are
 * apart[i] there. */
Pad tokens_apart(const TokenMap *m, const Nest *nest, const ValueId *in, const Runs *runs,
                 const Scalar *s, const Pad *apart);

/* The nest of node n with those inputs that have a form `shown` put in: in [nin] are the others, of
 * old values. */
const Nest *tokens_shown(const TokenMap *m, const Node *n, ValueId *in);

/* What a reduction may leave out adds this: is it what the pad says? */
bool pad_is_identity(Ctx *c, const Scalar *reduce, Pad p);

#endif
