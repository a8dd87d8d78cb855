/* batch: a model that was made for one request, as a program for many (graph/batch.h says what that
 * is).
 *
 * From a graph of nests with branches, loops and calls it makes blocks and control. One analysis
 * decides what becomes of a value (values.c), another which sizes only control tells (sizes.c):
 *
 *     shared     made of constants and sizes alone: has no axis of instances, and is computed where
 *     a block reads it
 *     host       whole numbers made of a request's own, which control asks for, and elements of an
 *                input that such numbers choose: computed as control walks
 *     row        all else: a row of a pool, computed in a block
 *
 * All sizes follow from those of a request's inputs, so requests of equal sizes share pools and
 * blocks.
 */
#ifndef TENON_BATCH_H
#define TENON_BATCH_H

#include "graph/batch.h"
#include "tenon_abi.h"

/* A graph whose one node runs g as a program for many. *why: g itself is given, since requests
 * cannot run together, and that is the reason. NULL, reported, where something is broken. */
Graph *batch_graph(const Graph *g, const char **why);

/* ---- instances.c ---- */

/* t with a dimension in front. */
const Type *batch_type(Ctx *c, const Type *t, const Expr *dim);
/* The nest for each of so many instances: the first axis, along which every parameter that is not
 * shared [nin] has its first dimension. NULL, quietly: too many axes or dimensions. */
const Nest *batch_nest(Ctx *c, const Nest *n, const Expr *instances, const bool *shared);
/* x[b, …] = pool[at(row[b]), …], of a pool of rows of type t. */
const Nest *batch_read(Ctx *c, const Type *t, const Expr *instances, const Expr *rows);
/* x[b, …] = shared[…] */
const Nest *batch_spread(Ctx *c, const Type *t, const Expr *instances);

/* ---- blocks.c ---- */

/* What a block is made of: nodes of one graph, in order, and what it reads and gives. */
typedef struct {
    const Graph *g;
    ValueId value;
} BatchConstant; /* g NULL: none is known */
typedef struct {
    const Graph *g;
    const bool *shared; /* [value] */
    /* [value] the one that a value always is: an argument is that of whoever gives it */
    const BatchConstant *constant;
    VEC(NodeId) node;
    VEC(ValueId) in, out;
    Var instances, rows;
    BlockKind kind;
} BlockParts;
/* Its graph. NULL, reported. */
Graph *batch_block(Arena *a, const BlockParts *p, const char *name);

/* ---- learn.c ---- */

typedef struct {
    int32_t n;
    const int32_t *type;
    int32_t action;
} LearntState;
typedef struct {
    int64_t nodes, bound;               /* no order takes fewer batches than these */
    int64_t depth, agenda, greedy, fsm; /* batches by each policy */
    int32_t episodes;
    uint32_t nstate;
    const LearntState *state;
} Learnt;
/* A table for these graphs, and what it is worth. The same seed gives the same table. */
void batch_learn(Arena *a, const TnBatchGraph *g, uint32_t n, uint64_t seed, Learnt *out);

#endif
