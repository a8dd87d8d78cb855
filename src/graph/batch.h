/* batch: a model for many requests at once (source: ACRoBat, MLSys 2024; ED-Batch, ICML 2023).
 *
 * A model for one request is cut, between its branches, loops and calls, into blocks of nests. A
 * block is a graph with an axis of instances, so that it runs for several requests at once. A value
 * of an instance is a row of a pool; there is a pool for each size in bytes:
 *
 *     block(pool: f32[rows, 256], row: i32[instances], …) -> (o: f32[instances, 256], …)
 *
 * (A block that runs for one request at a time has values instead of rows.) Outputs are new
 * consecutive rows, so nothing is scattered; inputs are gathered by row numbers. Constants have no
 * axis of instances.
 *
 * An output that is read only by its outermost elements, at integers that control knows, is split:
 * each element is a row. So the block of a loop's step reads the step's own row, and does not
 * depend on the number of steps.
 *
 * Control is code that each request executes by itself and that can pause anywhere: it records
 * which blocks to run on which rows, calls functions on its own stack, and waits where a branch
 * needs a value that is not computed yet. When all requests wait or have ended, the recorded nodes
 * run in order of depth: all nodes of one block and one depth at once.
 *
 * A node CALL_BLOCKS holds both, and is the only node of such a model. Its regions are the blocks,
 * so every pass makes kernels of them as of any graph. Its outputs are those of the program for one
 * request. A request gets the same bits in a batch as by itself.
 */
#ifndef TENON_GRAPH_BATCH_H
#define TENON_GRAPH_BATCH_H

#include "graph/graph.h"

/* Code: an operation and its operands, each an i32. A slot is 4 bytes of a function's frame on the
 * stack of a request. A slot holds the handle of a row; an inline value is stored in two slots, the
 * first of them even. What the host computes is inline if it fits; the operand tells which. A value
 * that is always the same input of the model has no slot. batch.c has the table of operands. */
#define BATCH_INLINE(slot) (-2 - (slot)) /* its own inverse */
#define BATCH_INPUT(number) (INT32_MIN + (number))
#define BATCH_IS_INPUT(operand) ((operand) < INT32_MIN / 2)
typedef enum {
    BATCH_BLOCK, /* block, inputs…, outputs…: record it */
    /* block, inputs…, outputs…: run it now, on the host; control needs its results */
    BATCH_HOST,
    BATCH_BRANCH, /* condition, type, to: jump if it is false */
    BATCH_JUMP,   /* to */
    BATCH_MOVE,   /* to slot, from slot: copy a handle */
    BATCH_VIEW,   /* to slot, its type, from slot: copy a handle; the elements are the same */
    BATCH_COPY,   /* to, from: copy an inline value */
    BATCH_BOX,    /* slot, type, from: store an inline value in a row */
    BATCH_UNBOX,  /* to, type, slot: read a row into an inline value */
    BATCH_GIVEN,  /* slot, input: the row of an input */
    BATCH_CALL,   /* function, n, arguments…, m, results…, update before, update after */
    BATCH_RETURN, /* ends a function; occurs only there */
    BATCH_BEGIN,  /* counter, slot or -1: set the counter to 0, the slot to true */
    /* counter, limit or -1, its type, condition or -1, its type, to: jump if the loop is over. The
     * type of -1 is 0. */
    BATCH_TURN,
    BATCH_COUNT,  /* slot, type, counter: the iteration number as a row */
    BATCH_NEXT,   /* counter, to: increment and jump */
    BATCH_UPDATE, /* update: change late sizes */
    BATCH_TURNS,  /* late, counter: set a late size to the number of iterations */
    BATCH_MATCH,  /* value, type, n, late…: set late sizes to its elements */
    BATCH_CHECK,  /* check: test a constraint on sizes */
    BATCH_DROP,   /* slot: nothing reads it any more */
    BATCH_LIST,   /* slot: an empty list */
    BATCH_ADD,    /* list slot, slot: append */
    BATCH_STACK,  /* slot, type, list slot: stack its values */
    /* slot, split slot, its type, index, its type: the row of that outermost element */
    BATCH_ELEMENT,
} BatchOp;

/* A call copies arguments into the callee's parameters, and its results out. An argument is inline
 * if the parameter is. The model's parameters are its first slots: rows of its inputs. */
typedef struct {
    Sym name;
    uint32_t nparam, nresult;
    const int32_t *at;        /* [nparam + nresult] operands */
    const uint32_t *type;     /* [nparam + nresult] */
    uint32_t code;            /* offset of its code */
    uint32_t nslot, ncounter; /* size of its frame */
} BatchFunction;

typedef enum {
    BLOCK_BATCHED, /* runs for many requests at once */
    /* runs on the host during control, for one request at a time, on values instead of rows */
    BLOCK_HOST,
    /* a library routine: runs with the others of its depth, but for one request at a time, on
     * values instead of rows */
    BLOCK_SINGLE,
} BlockKind;

typedef struct {
    const char *name;          /* the operators that it comes from */
    uint32_t nin, nout, nodes; /* nodes: the number of the model's nests in it */
    const uint32_t *type;      /* [nin + nout] */
    BlockKind kind;
    /* [nout] its outermost elements are rows, which only BATCH_ELEMENT reads; NULL: none is */
    const bool *split;
    /* only results of the model read its outputs, so it can run after all others */
    bool last;
} BatchBlock;

/* Late sizes that change, all at once. After a call, `to` is in the function's sizes and sets the
 * caller's. */
typedef struct {
    uint32_t n;
    const Binding *at;
} BatchUpdate;

typedef struct Batch {
    VEC(BatchFunction) function; /* 0: the model */
    VEC(BatchBlock) block;       /* block i is region i of the node; one operation runs it */
    VEC(const Type *) type;      /* types of rows */
    VEC(int32_t) code;
    /* symbols of branches, bodies and functions in terms of those of the model's inputs */
    VEC(Binding) size;
    /* symbols that are known only during control, or that change */
    VEC(Var) late;
    VEC(Constraint) check; /* constraints on late sizes */
    VEC(BatchUpdate) update;
    const bool *input_row; /* [inputs] blocks read it, so it is copied to a row */
    /* of a block's run: the number of instances, and of rows of the largest pool */
    Var instances, rows;
} Batch;

/* The node's fresh symbols: instances, rows, then the late ones. */
enum { BATCH_FIRST_LATE = 2 };

/* The number of integers of the operation at c. visit: each operand with its kind, a letter of the
 * table in batch.c. */
typedef void BatchVisit(void *user, char kind, int32_t operand);
uint32_t batch_operands(const Batch *b, const int32_t *c, BatchVisit *visit, void *user);
/* Fills what follows from the code: nslot, ncounter, input_row. */
void batch_finish(Arena *a, Batch *b);
/* The invariant that a program for many requests breaks (verify_batch.c); NULL: none. */
const char *batch_wrong(const Graph *g, const Node *n);

#endif
