/* format, inside: which values may lie otherwise, in which orders, and what each kernel then
 * takes. */
#ifndef TENON_FORMAT_INTERNAL_H
#define TENON_FORMAT_INTERNAL_H

#include "format/format.h"

enum {
    /* candidates beside the model's own order, of a rank: those that most products propose */
    MAX_ORDERS = 2,
    /* values of one kernel that have a table; with more the kernel's lie as they are */
    MAX_SCOPE = 10,
    /* ways of one kernel to part what is expected to lie alike that are priced: each takes
     * milliseconds */
    MOST_PARTED = 64
};

typedef struct {
    uint8_t rank, dim[TN_MAX_RANK];
    uint32_t votes;
} Order;

/* A value whose order is to be found. */
typedef struct {
    ValueId value;
    Sym name;
    uint32_t n;                           /* choices */
    const uint8_t *order[MAX_ORDERS + 1]; /* of each choice; NULL: the model's own */
    uint32_t last;                        /* the choice whose dimension 1 is innermost; 0: none */
    bool parts;                           /* a kernel of several parts makes or reads it */
    bool pinned;                          /* somebody said it: there is one choice */
} Variable;

/* What a kernel takes for each choice of its variables. What is not known is not priced yet, and
 * says what is expected of it (price.c). */
/* parted: wanted since, and most of those */
typedef struct {
    uint64_t entries;
    double *cost;
    bool *known;
    uint32_t parted, most;
} CostTable;

typedef struct {
    uint32_t factor;
    uint64_t at;
} Wanted;

typedef struct {
    Graph *g;
    Ctx *ctx;
    Arena *arena;
    const FormatWish *wish;
    Users users;
    bool *can; /* [node.n]: a kernel whose arguments may lie otherwise */
    VEC(Order) order;
    uint32_t *var; /* [value.n]: its variable + 1; 0: it lies as it is */
    VEC(Variable) variable;
    uint32_t nvar, *size; /* [nvar]: choices */
    /* of kernels, in their order; of no variables where it has none, or too many of them */
    VEC(FormatFactor) factor;
    NodeId *kernel;     /* [factor.n]: whose it is */
    CostTable **table;  /* [factor.n]: its numbers */
    VEC(Wanted) wanted; /* entries of tables that are to be priced together */
    /* of values that lie as they are, since a kernel has too many of them */
    VEC(FormatFactor) kept;
    Map cost; /* tables known, by what they depend on (price.c) */
} Formats;

/* ---- candidates.c ---- */

bool format_may_change(const Graph *g, NodeId n);
/* Why a value has to lie as it does; NULL: it need not. */
const char *format_fixed(const Formats *f, ValueId v);
/* Fills variable, var and size. */
bool format_candidates(Formats *f);

/* ---- price.c ---- */

ValueId format_argument(const Formats *f, NodeId n, uint32_t buffer);
/* The order of a value under a choice [nvar]; NULL: the model's. */
const uint8_t *format_order(const Formats *f, ValueId v, const uint32_t *choice);
const uint8_t *format_argument_order(const Formats *f, NodeId n, uint32_t buffer,
                                     const uint32_t *choice);
/* [nin + nout] of node n under a choice. */
const uint8_t *const *format_orders(const Formats *f, NodeId n, const uint32_t *choice);
/* Is a value of this type the same memory in both? Dimensions of one point may stand anywhere. */
bool format_same_memory(const Type *t, const uint8_t *a, const uint8_t *b);
/* Has the value several orders? All of them differ in memory. */
bool format_has_choice(const Formats *f, ValueId v);
/* What kernel node n takes under a choice, INFINITY where it cannot be so. All costs are whole
 * picoseconds: their sums are exact, whatever the order in which they are added. */
double format_cost(const Formats *f, NodeId n, const uint32_t *choice);
/* of a kernel as it lies, [picoseconds]; NULL: INFINITY */
double format_price(const Formats *f, NodeId n, const Kernel *k);
/* Fills factor, kernel, table and kept. choice [nvar]: for its use. */
void format_factors(Formats *f, uint32_t *choice);
/* What the kernel of a factor takes under a choice; it is priced where it was not. */
double format_entry(const Formats *f, uint32_t factor, const uint32_t *choice);
/* Prices what kernels take under a choice; false: all of it was. */
bool format_price_wanted(Formats *f, const uint32_t *choice);
double format_cost_of_all(const Formats *f, const uint32_t *choice);
/* The choice that each kernel by itself makes, in order, its inputs lying as the kernels before it
 * chose. */
void format_greedy(Formats *f, uint32_t *choice);
/* ---- memory.c ---- */

/* Bytes of the arena's values that are alive while a node runs, [node.n]. */
int64_t *format_alive(const Graph *g, Arena *a);

/* ---- values.c ---- */

/* The least of all kernels together, and of so many more tables. */
FormatResult format_least(Formats *f, const FormatFactor *more, uint32_t nmore, uint32_t *choice);

/* ---- explain.c ---- */

/* cost [picoseconds] of the choice, and if nothing were changed but what is pinned */
typedef struct {
    const uint32_t *choice;
    double cost, plain;
} FormatFound;
void format_remark(const Formats *f, const FormatFound *found, Text *t);
void format_explain(Formats *f, const FormatFound *found, Text *t);
#endif
