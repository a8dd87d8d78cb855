/* tokens: which dimensions of a model's values count the tokens of a padded batch, what values are
 * at padding, and which values no output needs there.
 *
 *     mask[b, j]      1 of a token, 0 of padding; `length` columns to each sequence b
 *     h[b, j, d]      tokens along j                     h'[b*s + j, d]    both in one dimension
 *     q[b, h, i, j]   tokens along i and along j, as scores have
 *
 * Three questions of each value, asked in the order of the nodes:
 *
 *  - Which dimensions count sequences and tokens? Those where its nest writes along axes that index
 *    such dimensions of what it reads.
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
    const Scalar *number;            /* this constant */
    /* at most NORMALISE_HIDES, and what is added to it does not matter */
    bool hidden;
} Pad;

enum { NO_DIM = 255 };

/* Of a value. */
typedef struct {
    uint8_t count;                   /* dimensions that count tokens: 0, 1, or 2 as of scores */
    /* the dimension that counts sequences; token[0] where it counts both */
    uint8_t batch;
    uint8_t token[2];
    /* its elements where token[i] is padding and the other is none */
    Pad pad[2];
    /* its elements where nothing is padding, a nest without inputs; NULL: they follow from more
     * than indices */
    const Nest *shown;
    bool asked;                      /* a node needs its padding */
    /* it is computed for tokens alone: what makes it can be, and no output needs its padding */
    bool packed;
} Tokens;

/* How an axis of a nest runs. */
typedef enum {
    RUNS_ELSEWHERE,
    RUNS_SEQUENCES,
    RUNS_COLUMNS /* of the sequences of another axis */,
    RUNS_TOKENS /* b*s + column */
} Run;

/* A nest beside its operands' tokens. */
typedef struct {
    Run run[NEST_MAX_AXES];
    uint8_t sequence[NEST_MAX_AXES]; /* of RUNS_COLUMNS: the axis of its sequences */
    /* NULL: every read of tokens is at axes as above, or at one place of a sequence */
    const char *why;
} Runs;

/* Where a load reads tokens: at axes, or at one place of each sequence. */
typedef struct {
    bool at_place;                   /* then column is the place */
    const Expr *sequence, *column;   /* NULL, NULL: an axis of RUNS_TOKENS */
    /* the axes of token[0] and token[1]: RUNS_COLUMNS or RUNS_TOKENS */
    uint32_t axis[2];
} TokenRead;

typedef struct {
    Ctx *c;
    Arena *a;
    const Graph *g;
    ValueId mask;
    const Expr *batch, *length;      /* its dimensions */
    Tokens *of;                      /* [value.n] */
    /* [node.n] why the node needs the padding of what it reads, behind its name; NULL: it does not
     * by itself */
    const char **why;
} TokenMap;

/* Of all values of g, whose input `mask` is [batch, length]. */
TokenMap tokens_find(const Graph *g, Arena *a, ValueId mask);

/* The axes of a nest that reads value in[i] in slot i and writes what `out` tells of its output
 * (NULL: it is asked). */
Runs tokens_runs(const TokenMap *m, const Nest *nest, const ValueId *in, const Tokens *out);

/* How a load of a value with tokens reads them. False: in another way. */
bool tokens_read(const TokenMap *m, const Nest *nest, const Runs *runs, const Tokens *t,
                 const Scalar *load, TokenRead *out);

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
