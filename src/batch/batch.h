/* batch: converts a model for one request to a program for many (defined in graph/batch.h).
 *
 * From a graph of nests with branches, loops and calls it makes blocks and control. One analysis
 * classifies values (values.c), another finds the sizes that only control determines (sizes.c):
 *
 *     shared     computed from constants and sizes alone: has no axis of instances; every block
 *                that reads it computes it
 *     host       integers computed from a request's own, which control reads, and elements of an
 *                input that such integers select: computed during control
 *     row        everything else: a row of a pool, computed in a block; or several, if only its
 *                outermost elements are read (split.c)
 *
 * All other sizes follow from those of a request's inputs, so requests of equal sizes share pools
 * and blocks.
 */
#ifndef TENON_BATCH_H
#define TENON_BATCH_H

#include "graph/batch.h"
#include "tenon_abi.h"

/* A graph whose only node runs g as a program for many requests. *why: the result is g itself,
 * since requests cannot run together, for this reason. NULL, reported: an error. */
Graph *batch_graph(const Graph *g, const char **why);

/* ---- instances.c ---- */

/* t with an outermost dimension added. */
const Type *batch_type(Ctx *c, const Type *t, const Expr *dim);
/* The nest with an axis of instances, which is the first axis and the first dimension of every
 * parameter that is not shared [nin]. NULL, quietly: too many axes or dimensions. */
const Nest *batch_nest(Ctx *c, const Nest *n, const Expr *instances, const bool *shared);
/* x[b, …] = pool[at(row[b]), …], of a pool of rows of type t. */
const Nest *batch_read(Ctx *c, const Type *t, const Expr *instances, const Expr *rows);
/* x[b, …] = shared[…] */
const Nest *batch_spread(Ctx *c, const Type *t, const Expr *instances);

/* ---- blocks.c ---- */

/* The contents of a block: nodes of one graph, in order, and the values that it reads and
 * returns. */
typedef struct {
    const Graph *g;
    ValueId value;
} BatchConstant; /* g NULL: unknown */
typedef struct {
    const Graph *g;
    const bool *shared; /* [value] */
    /* [value] the constant that a value always is; a region's input has that of its argument */
    const BatchConstant *constant;
    VEC(NodeId) node;
    VEC(ValueId) in, out;
    Var instances, rows;
    BlockKind kind;
} BlockParts;
/* The graph of a block. NULL, reported. */
Graph *batch_block(Arena *a, const BlockParts *p, const char *name);

/* ---- learn.c ---- */

typedef struct {
    int32_t n;
    const int32_t *type;
    int32_t action;
} LearntState;
typedef struct {
    int64_t nodes, bound;               /* no order needs fewer batches */
    int64_t depth, agenda, greedy, fsm; /* the number of batches by each policy */
    int32_t episodes;
    uint32_t nstate;
    const LearntState *state;
} Learnt;
/* A table for these graphs, and its quality. Deterministic for a seed. */
void batch_learn(Arena *a, const TnBatchGraph *g, uint32_t n, uint64_t seed, Learnt *out);

#endif
