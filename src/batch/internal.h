/* Shared by the files of src/batch: the state of one batch_graph. */
#ifndef TENON_BATCH_INTERNAL_H
#define TENON_BATCH_INTERNAL_H

#include "batch/batch.h"

/* A graph that the model runs. Values of all graphs are numbered together: value v of g is first +
 * v. */
typedef struct {
    const Graph *g;
    uint32_t first;
    bool function;
    uint32_t number;
} RunGraph;

typedef struct {
    Ctx *c;
    Arena *a, *to; /* scratch; arena of the result */
    GraphList all; /* callees before callers, the model last */
    RunGraph *run; /* [all.n] */
    Map at;        /* Graph to its number there */
    uint32_t nvalue;
    /* Facts about values, [nvalue] each. */
    bool *shared, *host;         /* defined in batch.h */
    bool *needed;                /* control depends on it, directly or not */
    bool *several;               /* it is no constant, or not always the same one */
    BatchConstant *constant;     /* the constant that it always is */
    uint32_t *input;             /* the input of the model that it always is, from 1; 0: none */
    bool *last;                  /* only results depend on it */
    bool *split;                 /* only its outermost elements are read, as rows … */
    bool *element;               /* … and it is such an element, which control finds */
    Batch *made;                 /* the result */
    VEC(const Graph *) function; /* of each of its functions */
    VEC(Region) region;
    Map type_at, late_at; /* Type, symbol to its number in `made` */
    const char *why;      /* requests cannot run together; NULL: they can */
    bool changed;         /* a fact changed in this round of the fixed point */
} Batching;

/* ---- batch.c ---- */

RunGraph *batch_run_of(const Batching *b, const Graph *g);
/* The number of a value among those of all graphs; of its type among the types of rows. */
uint32_t batch_value(const Batching *b, const Graph *g, ValueId v);
uint32_t batch_type_of(Batching *b, const Graph *g, ValueId v);
/* The name of a node in messages. */
const char *batch_called(const Batching *b, const Node *n);
/* Records why requests cannot run together; n NULL: no node is to blame. Returns false. */
bool batch_refuse(Batching *b, const Node *n, const char *why);

/* ---- sizes.c ---- */

/* Finds the late symbols: known only during control, or not constant during a request. */
void batch_find_sizes(Batching *b);
bool batch_is_late(const Batching *b, Var v);
/* e in symbols of the model's inputs and late ones only; batch_resolved simplifies it, too. */
const Expr *batch_outside(const Batching *b, const Expr *e);
const Expr *batch_resolved(const Batching *b, const Expr *e);

/* ---- values.c ---- */

/* All facts about values. */
void batch_find_values(Batching *b);
/* Finds split values, and their elements (split.c). A nest that computes an element has two inputs:
 * the split value, and the index. */
enum { BATCH_ELEMENT_OF, BATCH_ELEMENT_INDEX };
void batch_find_split(Batching *b);
/* The number of leading inputs that control itself reads: a condition, a number of iterations,
 * sizes. */
uint32_t batch_control_inputs(const Node *n);
/* Is a value small enough to be inline? If so, does the host compute it? */
bool batch_is_small(const Batching *b, const Graph *g, ValueId v);
bool batch_is_inline(const Batching *b, const Graph *g, ValueId v);

/* ---- groups.c ---- */

/* The sizes that each nest of a graph depends on and that may differ between requests. */
typedef struct SizeKeys SizeKeys;
const SizeKeys *batch_keys(const Batching *b, const Graph *g);
/* Splits the nests of one segment, in order, into blocks that may run in the order of their
 * numbers. group [n]: a nest's block, from 1; 0 initially. The number of blocks. */
uint32_t batch_group(const Batching *b, const SizeKeys *keys, const Users *users,
                     const NodeId *node, uint32_t n, uint32_t *group);

/* ---- segment.c, control.c ---- */

/* Operands are slots, BATCH_INLINE of a slot, or BATCH_INPUT. */
typedef struct {
    Batching *b;
    int32_t *slot;           /* [nvalue] its operand, for all functions; -1: none yet */
    int32_t *row;            /* [nvalue] the slot of a row that an inline value was copied to … */
    uint32_t *row_made;      /* … [nvalue] the scope of that copy */
    uint32_t scope;          /* changes where control may arrive without having made the copies */
    int32_t nslot, ncounter; /* of the current function */
    bool ok;
} ControlCode;

void batch_put(ControlCode *k, int64_t x);
/* A new operand: a slot, or two for an inline value. */
int32_t batch_new_slot(ControlCode *k, bool is_inline);
/* A new operand for v, which is its operand from now on. */
int32_t batch_fresh_slot(ControlCode *k, const Graph *g, ValueId v, bool is_inline);
/* Copies operand `from`, of v's type, to `to`, a slot or inline. */
void batch_move(ControlCode *k, int32_t to, int32_t from, const Graph *g, ValueId v);
/* The operand of a value; computes a shared value first. */
int32_t batch_slot_of(ControlCode *k, const Graph *g, ValueId v);
/* The slot of its handle; an inline value is first copied to a row. */
int32_t batch_row_of(ControlCode *k, const Graph *g, ValueId v);

/* A segment: the nests between two nodes of control, which may be reordered. */
typedef struct {
    const Graph *g;
    const SizeKeys *keys;
    Users users;
    bool *output;
    VEC(NodeId) host, element, later, last;
} Segment;

void batch_add_nest(ControlCode *k, Segment *s, NodeId id);
void batch_end_segment(ControlCode *k, Segment *s);
/* A library routine is a block of its own. */
void batch_write_routine(ControlCode *k, const Graph *g, NodeId id);

/* Writes the code of all functions, the model first. false: b->why has the reason, or it is
 * reported. */
bool batch_write_functions(Batching *b, const Graph *g);

#endif
