/* batch: what a program for many requests is (source: ACRoBat, MLSys 2024; ED-Batch, ICML 2023).
 *
 * A model that was made for one request is cut, between its branches, loops and calls, into blocks
 * of nests. A block is a graph of its own with an axis of instances, which requests run together.
 * What belongs to an instance is a row of a pool, which has all values of so many bytes:
 *
 *     block(pool: f32[rows, 256], row: i32[instances], …) -> (o: f32[instances, 256], …)
 *
 * (a block for one request at a time has values in place of rows). Outputs are fresh rows side by
 * side, so nothing is ever scattered; inputs are read through row numbers. What is constant has no
 * axis of instances.
 *
 * Control is code for a walk that each request takes alone, and that can stop anywhere: it records
 * which blocks are to run on which rows, calls functions on a stack of its own, and waits where a
 * branch needs a value that is not computed yet. When all requests wait or have ended, what was
 * recorded runs in order of depth: all nodes of one block and one depth at once.
 *
 * A node CALL_BLOCKS carries both, and is all that the model then is: its regions are the blocks,
 * so that every stage makes kernels of them as of any graph, and what it gives is what the program
 * gives one request. So a request gets the same bits alone and among others.
 */
#ifndef TENON_GRAPH_BATCH_H
#define TENON_GRAPH_BATCH_H

#include "graph/graph.h"

/* Code: an operation and its operands, each an i32. A slot is 4 bytes of a function's values on the
 * stack of a request. A value is there as the handle of its row, or inline: its bytes in two slots,
 * from an even one on. What the host computes is inline if it fits; an operand says which. A value
 * that is always the same input of the model has no slot. */
#define BATCH_INLINE(slot) (-2 - (slot)) /* and of itself */
#define BATCH_INPUT(number) (INT32_MIN + (number))
#define BATCH_IS_INPUT(operand) ((operand) < INT32_MIN / 2)
typedef enum {
    BATCH_BLOCK, /* block, input slots…, output slots…: run it some time */
    /* the same, run at once: made of requests' own numbers, which control asks for */
    BATCH_HOST,
    BATCH_BRANCH, /* slot, type, to: go there if it is false */
    BATCH_JUMP,   /* to */
    BATCH_MOVE,   /* to slot, from slot: a handle */
    BATCH_COPY,   /* the same of a value that is inline */
    BATCH_BOX,    /* slot, type, from: a row of what is inline */
    BATCH_UNBOX,  /* to, type, slot: inline what is in a row */
    BATCH_GIVEN,  /* slot, input: its row */
    /* function, update before, update after, n, argument slots…, m, result slots… */
    BATCH_CALL,
    BATCH_RETURN, /* n, slots… */
    BATCH_BEGIN,  /* counter, slot or -1: the one is 0, the other true */
    /* counter, turns slot or -1, its type, slot that says whether it goes on or -1, its type, to:
     * go there if the loop is over */
    BATCH_TURN,
    BATCH_COUNT,  /* slot, type, counter: the number of the turn as a row */
    BATCH_NEXT,   /* counter, to: one more, and go there */
    BATCH_UPDATE, /* update: sizes are others from here on */
    BATCH_TURNS,  /* late, counter: that size is the number of turns */
    /* slot, type, bytes of a number, n, late…: these sizes are its numbers */
    BATCH_MATCH,
    BATCH_CHECK, /* check: sizes hold what is asked of them */
    BATCH_LIST,  /* slot: an empty list */
    BATCH_ADD,   /* list slot, slot: one more */
    BATCH_STACK, /* slot, type, list slot: its values behind each other */
} BatchOp;

typedef struct {
    const Graph *graph;       /* before it was cut, for its name */
    uint32_t nslot, ncounter; /* places on the stack */
    uint32_t code;            /* where its code begins */
} BatchFunction;

typedef enum {
    BLOCK_TOGETHER, /* requests run it at once */
    /* as control is walked, one request at a time, on its values themselves */
    BLOCK_HOST,
    /* a routine: with the others of its depth, but one request at a time, on its values
     * themselves */
    BLOCK_ALONE,
} BlockKind;

typedef struct {
    const char *name;          /* the operators that it came from */
    uint32_t nin, nout, nodes; /* nodes: nests of the model in it */
    const uint32_t *type;      /* [nin + nout] */
    BlockKind kind;
    /* results alone read what it makes: it can wait for all others */
    bool last;
} BatchBlock;

typedef struct {
    Var symbol;
    const Expr *is;
} BatchSize;
/* Late sizes that become others, all at once. After a call `is` is of the function's sizes, and
 * sets the caller's. */
typedef struct {
    uint32_t n;
    const BatchSize *at;
} BatchUpdate;

typedef struct Batch {
    uint32_t nfunction;
    const BatchFunction *function; /* 0: the model */
    uint32_t nblock;
    const BatchBlock *block; /* block i is region i of the node */
    uint32_t ntype;
    const Type *const *type;  /* what a row may be */
    uint32_t ninput, noutput; /* the model's: its first slots are its inputs */
    const uint32_t *input_type, *output_type;
    const bool *input_row; /* [ninput] blocks read it, so that it becomes a row */
    uint32_t ncode;
    const int32_t *code;
    /* symbols of branches, bodies and functions by those of the model's inputs */
    uint32_t nsize;
    const BatchSize *size;
    /* symbols that are known only as control is walked, or not all the time the same */
    uint32_t nlate;
    const Var *late;
    uint32_t ncheck; /* of sizes that are known as control is walked */
    const Constraint *check;
    uint32_t nupdate;
    const BatchUpdate *update;
    Var instances, rows; /* of a block's run: how many, and of the largest pool */
} Batch;

/* What is walked, an operation a line, as comments: it is made by --many, and not read back. */
void batch_print(Ctx *c, Text *t, const Batch *b, int indent);

#endif
