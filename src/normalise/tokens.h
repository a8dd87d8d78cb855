/* tokens: which dimensions of a model's values count the tokens of a padded batch, what values are
 * at padding, and which values no output needs there.
 *
 *     mask[b, j]            1 of a token, 0 of padding; `length` columns to each sequence b
 *     x[b, j, d]            tokens along j
 *     score[b, h, i, j]     tokens along i and along j
 *     score[b*H + h, i, j]  sequences share a dimension with H heads
 *     x[b*n + j, d]         and with their n columns; x[j*B + b, d] if columns come first
 *
 * A dimension is a number of digits, most significant first, each of which counts sequences,
 * tokens, or something else. Three properties of each value, computed in the order of the nodes:
 *
 * - Which digits count sequences and tokens? Axes of a nest are split at the digits of what it
 *   reads, so that each counts one thing; the output's digits follow from the axes that write it.
 * - What is it at padding? The nest's value is evaluated with one axis at padding, over a small
 *   domain: a number, something so low that its exponential is 0 (`hidden`), anything. A sum along
 *   that axis whose summand is 0 there needs no padding; nor does a maximum of what is hidden.
 *   Anything is assumed to be finite.
 * - What is it where nothing is padding, if that follows from indices alone? Masks do: `shown` is a
 *   nest without inputs.
 *
 * Outputs of the graph with one dimension of tokens hold 0 at padding, whatever the model computes
 * there; scores keep theirs. Then backwards: whose padding is needed? A node that mixes tokens
 * otherwise than by sums to which padding adds nothing needs the padding of all of its operands.
 * Everything else may be computed for tokens alone (ragged.c).
 */
#ifndef TENON_TOKENS_H
#define TENON_TOKENS_H

#include "graph/graph.h"

/* What an element is known to be; neither: anything. Both may hold. */
typedef struct {
    const Scalar *number; /* this constant */
    /* so negative (at most NORMALISE_HIDES) that its exponential is 0 whatever score is added to
     * it; assumed of such constants, since exporters mean them so */
    bool hidden;
} Pad;

/* What a digit of an index counts: none of these, sequences, tokens, the second tokens of scores.
 * Token k is DIGIT_TOKEN + k. */
typedef enum { DIGIT_NEITHER, DIGIT_SEQUENCE, DIGIT_TOKEN, DIGIT_TOKEN2 } Counts;

/* Digits of one dimension follow each other, the most significant first. */
typedef struct {
    uint8_t dim;
    Counts counts;
    const Expr *extent;
} TokenDigit;

enum { MOST_DIGITS = 2 * TN_MAX_RANK };

/* Of a value. */
typedef struct {
    uint8_t count;  /* digits that count tokens: 0, 1, or 2 for scores */
    uint8_t ndigit; /* of all dimensions; 0 if count is 0 */
    const TokenDigit *digit;
    Pad pad[2]; /* its elements where token i is padding and the other is not */
    /* its elements where nothing is padding, a nest without inputs; NULL: it reads data, or is too
     * large to be inlined */
    const Nest *shown;
    bool asked; /* a node needs its padding */
    /* computed for tokens alone: its node allows it, nothing needs its padding, and it is not
     * computed from indices (shown) */
    bool packed;
} Tokens;

/* What an axis of a nest runs along. */
typedef enum {
    RUNS_ELSEWHERE,
    RUNS_SEQUENCES,
    RUNS_COLUMNS /* of the sequences of an axis */
} RunKind;

/* A nest beside its operands' tokens. */
typedef struct {
    RunKind run[NEST_MAX_AXES];
    uint8_t sequence[NEST_MAX_AXES]; /* for RUNS_COLUMNS: the axis of its sequences */
    /* NULL: every read and write of tokens is at axes as above, or at one position of a sequence;
     * otherwise what is not */
    const char *why;
} Runs;

/* How a load reads tokens: at axes, or at one position of each sequence. */
typedef struct {
    const Expr *digit[MOST_DIGITS]; /* of the index */
    bool at_place;                  /* then column is the position */
    uint32_t batch;                 /* the axis of RUNS_SEQUENCES */
    const Expr *sequence,
        *column;      /* the sequence's number; the index in it (of scores: the second) */
    uint32_t axis[2]; /* of both tokens: RUNS_COLUMNS; NO_SLOT if at_place */
} TokenRead;

typedef struct {
    Ctx *c;
    Arena *a;
    const Graph *g;
    ValueId mask;
    const Expr *batch, *length; /* its dimensions */
    Tokens *of;                 /* [value.n] */
    /* [node.n] why the node itself needs the padding of its operands, as a predicate that follows
     * its name in a message; NULL: it does not */
    const char **why;
} TokenMap;

/* ---- token_axes.c: a nest that reads value in[i] in slot i ----------------------------------- */

/* A value of this type as inputs are: [batch, length, …] or [length, batch, …]; another type:
 * without tokens. */
Tokens tokens_by_shape(const TokenMap *m, const Type *t);

/* The nest with its axes split at the digits of its operands, and of its output if `out` is not
 * NULL. With NEST_MAX_AXES axes the rest stays as it is, and tokens_runs refuses it. NULL: it
 * cannot be built. */
const Nest *tokens_split(const TokenMap *m, const Nest *n, const ValueId *in, const Tokens *out);

/* How the axes of a split nest run, given its output's digits (`out`; NULL: derive them). */
Runs tokens_runs(const TokenMap *m, const Nest *nest, const ValueId *in, const Tokens *out);

/* The output's digits, from the axes that write it. NULL, or why it has no such digits. */
const char *tokens_written(const TokenMap *m, const Nest *n, const Runs *runs, Tokens *out);

/* The digits of the index at[rank] of a value with tokens. */
void tokens_digits(const TokenMap *m, const Nest *n, const Tokens *t, const Expr *const *at,
                   const Expr **digit);
/* The index of dimension dim by digits. */
const Expr *tokens_index(Ctx *c, const Tokens *t, uint32_t dim, const Expr *const *digit);

/* How the index `at` addresses a value with tokens. False: neither by axes that run as `runs` says,
 * nor at one position of each sequence. */
bool tokens_read(const TokenMap *m, const Nest *nest, const Runs *runs, const Tokens *t,
                 const Expr *const *at, TokenRead *out);

/* ---- tokens.c -------------------------------------------------------------------------------- */

/* Of all values of g, whose input `mask` is [batch, length]. */
TokenMap tokens_find(const Graph *g, Arena *a, ValueId mask);

/* What s is at two tokens of different sequences; apart[i]: what the scores that slot i reads are
 * there. */
Pad tokens_apart(const TokenMap *m, const Nest *nest, const ValueId *in, const Runs *runs,
                 const Scalar *s, const Pad *apart);

/* The nest of node n with inputs that have a `shown` form, or are one number, substituted; NULL: it
 * cannot be built. in [n->in.count]: the remaining inputs, as values of g. */
const Nest *tokens_shown(const TokenMap *m, const Node *n, ValueId *in);

/* Is what the pad says the identity of the reduction, so that it may be left out? */
bool pad_is_identity(Ctx *c, const Scalar *reduce, Pad p);

#endif
