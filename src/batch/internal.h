/* What the files of src/batch share: the tables of one run of batch_graph. */
#ifndef TENON_BATCH_INTERNAL_H
#define TENON_BATCH_INTERNAL_H

#include "batch/batch.h"

/* A graph that the model runs. Values of all graphs have one numbering: value v of g is
 * first + v. */
typedef struct {
    const Graph *g;
    uint32_t first;
    bool function;
    uint32_t number;
} Run;

typedef struct {
    Ctx *c;
    Arena *a, *to; /* scratch; what stays */
    GraphList all; /* callees before callers, the model last */
    Run *run;      /* [all.n] */
    Map at;        /* Graph to its number there */
    uint32_t nvalue;
    /* Facts about values, [nvalue] each. */
    bool *shared, *host;         /* see batch.h */
    bool *needed;                /* control reads it, or what control reads depends on it */
    bool *several;               /* it is no constant, or different ones in turn */
    BatchConstant *constant;     /* the only one that it is ever given */
    uint32_t *input;             /* the input of the model that it always is, from 1; 0: none */
    bool *last;                  /* it is read for results alone */
    Batch *made;                 /* what they become */
    VEC(const Graph *) function; /* of each of its functions */
    VEC(Region) region;
    Map type_at, late_at; /* Type, symbol to its number in `made` */
    const char *why;      /* requests cannot run together; NULL: they can */
    bool changed;         /* in this round of a fixed point */
} Batching;

/* ---- batch.c ---- */

Run *batch_run_of(const Batching *b, const Graph *g);
/* The number of a value among those of all graphs; of its type among all types of rows. */
uint32_t batch_value(const Batching *b, const Graph *g, ValueId v);
uint32_t batch_type_of(Batching *b, const Graph *g, ValueId v);
/* What a user calls a node. */
const char *batch_called(const Batching *b, const Node *n);
/* Requests cannot run together, for this reason; n NULL: of no node. false. */
bool batch_refuse(Batching *b, const Node *n, const char *why);

/* ---- sizes.c ---- */

/* Which symbols are late: known only as control is walked, or not the same all the time. */
void batch_find_sizes(Batching *b);
bool batch_is_late(const Batching *b, Var v);
/* e in symbols of the model's inputs and late ones alone; the second is simplified. */
const Expr *batch_outside(const Batching *b, const Expr *e);
const Expr *batch_resolved(const Batching *b, const Expr *e);

/* ---- values.c ---- */

/* All facts about values. */
void batch_find_values(Batching *b);
/* Leading inputs that control itself reads: a condition, a number of turns, sizes. */
uint32_t batch_control_inputs(const Node *n);
/* Is a value so small that it can be inline? And does the host compute it, then? */
bool batch_is_small(const Batching *b, const Graph *g, ValueId v);
bool batch_is_inline(const Batching *b, const Graph *g, ValueId v);

/* ---- groups.c ---- */

/* Of each nest of a graph, the sizes that it depends on and in which requests may differ. */
typedef struct SizeKeys SizeKeys;
const SizeKeys *batch_keys(const Batching *b, const Graph *g);
/* Nests of one segment, in order, as blocks that may run in the order of their numbers.
 * group [n]: its block, from 1; 0 at first. Returns how many there are. */
uint32_t batch_group(const Batching *b, const SizeKeys *keys, const Users *users,
                     const NodeId *node, uint32_t n, uint32_t *group);

/* ---- segment.c, control.c ---- */

/* Operands are slots, BATCH_INLINE of one, or BATCH_INPUT. */
typedef struct {
    Batching *b;
    int32_t *slot;           /* [nvalue] its operand, of all functions; -1: none yet */
    int32_t *row;            /* [nvalue] the slot of a row of what is inline … */
    uint32_t *row_made;      /* … [nvalue] made in this scope */
    uint32_t scope;          /* changes where what was made may not have been */
    int32_t nslot, ncounter; /* of the function that is written */
    bool ok;
} Code;

void batch_put(Code *k, int64_t x);
/* A slot, or two for a value that is inline, as an operand. */
int32_t batch_new_slot(Code *k, bool is_inline);
/* A value is there from now on. */
int32_t batch_fresh_slot(Code *k, const Graph *g, ValueId v, bool is_inline);
/* What is in operand `from`, of v's type, is in `to` as well, which is a slot or inline. */
void batch_move(Code *k, int32_t to, int32_t from, const Graph *g, ValueId v);
/* The operand of a value; a shared value is made first. */
int32_t batch_slot_of(Code *k, const Graph *g, ValueId v);
/* The slot of its handle: what is inline becomes a row first. */
int32_t batch_row_of(Code *k, const Graph *g, ValueId v);

/* A segment: the nests between two nodes of control, which may run in any legal order. */
typedef struct {
    const Graph *g;
    const SizeKeys *keys;
    Users users;
    bool *output;
    VEC(NodeId) host, later, last;
} Segment;

void batch_add_nest(Code *k, Segment *s, NodeId id);
void batch_end_segment(Code *k, Segment *s);
/* A routine is a block of its own. */
void batch_write_routine(Code *k, const Graph *g, NodeId id);

/* The code of all functions, the model first. false: b->why says why, else it is reported. */
bool batch_write_functions(Batching *b, const Graph *g);

#endif
