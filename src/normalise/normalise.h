/* normalise: nests in the form that every later stage can see through.
 *
 * Values that follow from indices alone are computed where they are read (indices.c). Every nest is
 * simplified (algebra/simplify.c: digits, phases, guards). Of a product whose operand is a constant
 * read in another way than digit by digit (backwards, with a guard, at odd places), the constant is
 * laid out as the product walks it; a product that writes its columns apart (the phases of a
 * transposed convolution) writes them together, and a nest of its own moves them to their places.
 * Then nests of constants alone are computed.
 *
 * Sums of products of narrow numbers are made of pairs or quads where the machine multiplies those
 * in one step (algebra/pair.c, quad.c): each factor is a tensor of them, that of a constant computed
 * now.
 *
 * Places that data say, and weights beside them, are computed once for all channels that are read
 * there (places.c).
 *
 * A reduction to one point is made of pieces that threads may share (pieces.c).
 *
 * Needs   nests; no operators.
 * Keeps   names and types of the values that were there; order.
 */
#ifndef TENON_NORMALISE_H
#define TENON_NORMALISE_H

#include "graph/graph.h"

/* What follows from indices alone, a mask or a position, is put into the nests that read it
 * (indices.c). */
Graph *normalise_indices(const Graph *g);

/* What is computed of choices by one condition is a choice by it: (1 - (j <= i ? 1 : 0)) * -3e38
 * (indices.c). */
const Nest *normalise_choices(Ctx *c, const Nest *n);

/* What is at most this hides a score that it is added to. -1e4 is the highest that exporters write,
 * and the shortest types round it to -9984. */
#define NORMALISE_HIDES -9000.0

/* Which blocks of scores a mask shows where only data know: a table that says so, beside the scores
 * (mask.c). After normalise_indices: what indices hide needs none. */
Graph *normalise_masks(const Graph *g);

/* A padded batch computed for its tokens alone: `mask`, an input of g of [batch, length], is 1 of
 * each and 0 of padding (ragged.c). After normalise_indices. NULL: reported. */
typedef struct {
    bool packed_io; /* inputs and outputs of tokens have no padding; offsets stand
                                      * for the mask, as input "MASK.offsets" i64[batch + 1] */
    bool padded;    /* all is computed with padding, within packed_io */
    double density; /* the share of a batch that is tokens, where none is said */
} RaggedHow;
typedef struct {
    uint32_t packed, nodes; /* computed for tokens alone; of how many */
    uint32_t nwhy;          /* others that need padding by themselves … */
    const char **why;       /* … their names, and what they do */
    const Expr *tokens;
} RaggedReport;
Graph *normalise_ragged(const Graph *g, ValueId mask, const RaggedHow *how, RaggedReport *report);

/* Scans that sum over what they have made become loops of nests (turns.c): recurrent networks.
 * Before the others, so that what is inside of the loops is made plain as well. */
Graph *normalise_turns(const Graph *g);

/* Each matrix multiplication of a nest with other reductions beside it is a nest of its own
 * (sums.c). Before normalise_nests. */
Graph *normalise_sums(const Graph *g);

/* A reduction to one point as two nests: pieces that are worth so many points at least, and what is
 * made of them (its inputs are n's, and the pieces behind). False: it is none, too short, or does
 * not divide. */
bool normalise_pieces(Ctx *c, const Nest *n, int64_t worth, const Nest **made, const Nest **rest);

/* Values that a nest computes once for many points, beside where it reads (places.c): tables of
 * them, and the nest that reads those, whose inputs are n's and the tables behind. NULL, quietly:
 * there are none that pay. */
typedef struct {
    const Scalar *value;
    const Type *type;
} PlaceTable;
typedef VEC(PlaceTable) PlaceTables;
const Nest *normalise_places(Ctx *c, const Nest *n, PlaceTables *tables);
/* The nest that makes tables which vary with the same axes, of the inputs of n. */
const Nest *normalise_tables(Ctx *c, const Nest *n, const PlaceTable *table, uint32_t count);

/* Constants of four and two bits that sums read, as many in a word as fit (pack.c); of more than so
 * many bytes, less stays near anyway. After normalise_nests: what widens them stands in those sums
 * by then. */
Graph *normalise_packed(const Graph *g, int64_t near);

/* Steps of dot products in integers that a machine has, for which sums are written. */
typedef enum {
    DOT_NONE = 0,
    DOT_PAIRS = 1,
    DOT_QUADS = 2,
    DOT_FLOATS = 4 /* pairs of bf16 */
} DotSteps;

/* max_bytes: of one constant that is computed; larger ones stay for the run. worth: operations that
 * are worth a thread; 0: there is one. threads: that compute constants now. */
Graph *normalise_nests(const Graph *g, int64_t max_bytes, DotSteps dots, int64_t worth,
                       uint32_t threads);

#endif
