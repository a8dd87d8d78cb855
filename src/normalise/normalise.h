/* normalise: nests in the form that every later stage can analyse.
 *
 * Values that follow from indices alone are computed where they are read (indices.c). Every nest is
 * simplified (algebra/simplify.c: digits, phases, guards). If a contraction reads a constant
 * otherwise than by plain dimensions (reversed, guarded, at odd offsets), the constant is packed as
 * the contraction walks it; a contraction that writes its columns apart (the phases of a transposed
 * convolution) writes them together, and a nest of its own moves them. Then nests of constants are
 * computed.
 *
 * Sums of products of narrow numbers use dot products over pairs or quads where the machine has the
 * instruction (algebra/dot2.c, dot4.c): each factor is a tensor of them, computed now if it is
 * constant.
 *
 * Gather indices, and weights beside them, are computed once for all channels that are read there
 * (gather_tables.c).
 *
 * A reduction to a scalar is split into chunks that threads can share (split_reduction.c).
 *
 * Needs nests; no operators. Keeps names, types and order of the values that were there.
 */
#ifndef TENON_NORMALISE_H
#define TENON_NORMALISE_H

#include "graph/graph.h"

/* Computes what follows from indices alone, a mask or a position, in the nests that read it
 * (indices.c). */
Graph *normalise_indices(const Graph *g);

/* Selects by one condition become one select: (1 - (j <= i ? 1 : 0)) * -3e38 (indices.c). */
const Nest *normalise_choices(Ctx *c, const Nest *n);

/* A number of at most this, added to a score, hides it. -1e4 is the highest that exporters write,
 * and the shortest types round it to -9984. */
#define NORMALISE_HIDES -9000.0

/* Tables of the blocks of scores that a mask shows, where only data know (block_mask.c). After
 * normalise_indices: what indices hide needs none. */
Graph *normalise_block_masks(const Graph *g);

/* A padded batch computed for its tokens alone: `mask`, an input of g of [batch, length], is 1 for
 * each token and 0 for padding (ragged.c). After normalise_indices. NULL: reported. */
typedef struct {
    /* inputs and outputs of tokens are packed; offsets replace the mask, as input "MASK.offsets"
     * i64[batch + 1] */
    bool packed_io;
    bool padded;    /* compute everything with padding, within packed_io */
    double density; /* the share of a batch that is tokens, if no hint gives sizes */
} RaggedHow;
typedef struct {
    uint32_t packed, nodes; /* nodes computed for tokens alone; all nodes */
    uint32_t nwhy;          /* nodes that need padding themselves … */
    const char **why;       /* … their names, and the reason */
    const Expr *tokens;
} RaggedReport;
Graph *normalise_ragged(const Graph *g, ValueId mask, const RaggedHow *how, RaggedReport *report);

/* Each matrix multiplication in a nest with other reductions becomes a nest of its own
 * (split_contractions.c). Before normalise_nests. */
Graph *normalise_split_contractions(const Graph *g);

/* A reduction to a scalar as two nests: chunks of at least `worth` points, and their combination
 * (its inputs are n's, then the chunks). False: no such reduction, too short, or not divisible. */
bool normalise_split_reduction(Ctx *c, const Nest *n, int64_t worth, const Nest **made,
                               const Nest **rest);

/* Values that a nest computes once for many points, next to its gathers (gather_tables.c): tables
 * of them, and the nest that reads those, whose inputs are n's, then the tables. NULL, quietly:
 * none that pay. */
typedef struct {
    const Scalar *value;
    const Type *type;
} GatherTable;
typedef VEC(GatherTable) GatherTables;
const Nest *normalise_gather_tables(Ctx *c, const Nest *n, GatherTables *tables);
/* The nest that makes tables which vary with the same axes, from the inputs of n. */
const Nest *normalise_tables(Ctx *c, const Nest *n, const GatherTable *table, uint32_t count);

/* Packs constants of four and two bits that sums read into words (pack_words.c), if they have more
 * than `near` bytes: smaller ones stay in a cache anyway. After normalise_nests, which inlines
 * their widening into the sums. */
Graph *normalise_pack_words(const Graph *g, int64_t near);

/* The dot-product instructions of a machine, for which sums are rewritten. */
typedef enum {
    DOT_NONE = 0,
    DOT_PAIRS = 1,
    DOT_QUADS = 2,
    DOT_FLOATS = 4, /* pairs of bf16 */
    DOT_SIGNED = 8  /* both sides of that of quads are signed */
} DotSteps;

/* max_bytes: of one computed constant; larger ones stay for the run. worth: operations that are
 * worth a thread; 0: there is one. threads: that compute constants now. */
Graph *normalise_nests(const Graph *g, int64_t max_bytes, DotSteps dots, int64_t worth,
                       uint32_t threads);

#endif
