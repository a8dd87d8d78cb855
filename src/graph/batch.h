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
 * that is always the same input of the model has no slot. What each operation has for operands is
 * in the table of batch.c. */
#define BATCH_INLINE(slot) (-2 - (slot)) /* and of itself */
#define BATCH_INPUT(number) (INT32_MIN + (number))
#define BATCH_IS_INPUT(operand) ((operand) < INT32_MIN / 2)
typedef enum {
    BATCH_BLOCK, /* block, inputs…, outputs…: run it some time */
    /* the same, run at once: made of requests' own numbers, which control asks for */
    BATCH_HOST,
    BATCH_BRANCH, /* condition, type, to: go there if it is false */
    BATCH_JUMP,   /* to */
    BATCH_MOVE,   /* to slot, from slot: a handle */
    BATCH_COPY,   /* the same of a value that is inline */
    BATCH_BOX,    /* slot, type, from: a row of what is inline */
    BATCH_UNBOX,  /* to, type, slot: inline what is in a row */
    BATCH_GIVEN,  /* slot, input: its row */
    BATCH_CALL,   /* function, n, arguments…, m, results…, update before, update after */
    BATCH_RETURN, /* the end of a function, and nowhere else */
    BATCH_BEGIN,  /* counter, slot or -1: the one is 0, the other true */
    /* counter, turns or -1, its type, whether it goes on or -1, its type, to: go there if the loop
     * is over. The type of -1 is 0. */
    BATCH_TURN,
    BATCH_COUNT,  /* slot, type, counter: the number of the turn as a row */
    BATCH_NEXT,   /* counter, to: one more, and go there */
    BATCH_UPDATE, /* update: sizes are others from here on */
    BATCH_TURNS,  /* late, counter: that size is the number of turns */
    BATCH_MATCH,  /* value, type, n, late…: these sizes are its numbers */
    BATCH_CHECK,  /* check: sizes hold what is asked of them */
    BATCH_LIST,   /* slot: an empty list */
    BATCH_ADD,    /* list slot, slot: one more */
    BATCH_STACK,  /* slot, type, list slot: its values behind each other */
} BatchOp;

/* A call copies arguments into the caller's parameters, and its results out. Each is inline, or
 * both are not. The model's parameters are its first slots: rows of its inputs. */
typedef struct {
    Sym name;
    uint32_t nparam, nresult;
    const int32_t *at;        /* [nparam + nresult] operands */
    const uint32_t *type;     /* [nparam + nresult] */
    uint32_t code;            /* where its code begins */
    uint32_t nslot, ncounter; /* places on the stack */
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

/* Late sizes that become others, all at once. After a call `to` is of the function's sizes, and
 * sets the caller's. */
typedef struct {
    uint32_t n;
    const Binding *at;
} BatchUpdate;

typedef struct Batch {
    VEC(BatchFunction) function; /* 0: the model */
    VEC(BatchBlock) block;       /* block i is region i of the node, and is run in one place */
    VEC(const Type *) type;      /* what a row may be */
    VEC(int32_t) code;
    /* symbols of branches, bodies and functions by those of the model's inputs */
    VEC(Binding) size;
    /* symbols that are known only as control is walked, or not all the time the same */
    VEC(Var) late;
    VEC(Constraint) check; /* of sizes that are known as control is walked */
    VEC(BatchUpdate) update;
    const bool *input_row; /* [inputs] blocks read it, so that it becomes a row */
    Var instances, rows;   /* of a block's run: how many, and of the largest pool */
} Batch;

/* The node's fresh symbols: instances, rows, then the late ones. */
enum { BATCH_FIRST_LATE = 2 };

/* How many integers the operation at c is. visit: each of its operands, and which kind it is (a
 * letter of the table in batch.c). */
typedef void BatchVisit(void *user, char kind, int32_t operand);
uint32_t batch_operands(const Batch *b, const int32_t *c, BatchVisit *visit, void *user);
/* What follows from the code: nslot, ncounter, input_row. */
void batch_finish(Arena *a, Batch *b);
/* What a program for many breaks of what each keeps (verify_batch.c); NULL: nothing. */
const char *batch_wrong(const Graph *g, const Node *n);

#endif
