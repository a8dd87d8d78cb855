/* format, inside: the values that have a choice, their candidate orders, and cost tables of
 * kernels. */
#ifndef TENON_FORMAT_INTERNAL_H
#define TENON_FORMAT_INTERNAL_H

#include "format/format.h"
#include "algebra/algebra.h"

enum {
    /* candidates of a rank beside the model's own order: those that most kernels propose */
    MAX_ORDERS = 2,
    /* variables of one table; values of a kernel with more keep their orders */
    MAX_SCOPE = 10,
    /* unexpected combinations (price.c) that are priced of one kernel: each takes milliseconds */
    MOST_PARTED = 64
};

/* An order that kernels propose, or the user gives: equal ones have one address. */
typedef struct {
    uint32_t rank;
    const uint8_t *dim;
    uint32_t votes; /* 0: no kernel proposes it */
} Proposal;

/* A value with a choice of orders. */
typedef struct {
    ValueId value;
    Sym name;
    uint32_t n;                           /* choices */
    const uint8_t *order[MAX_ORDERS + 1]; /* of each choice; NULL: the model's own */
    uint32_t last;                        /* the choice with dimension 1 innermost; 0: none */
    bool parts;                           /* a kernel of several stages makes or reads it */
    bool pinned;                          /* the user gave the order: there is one choice */
} Variable;

/* Cost of a kernel for each choice of its variables. An entry that is not known is an expectation
 * (price.c). parted: such entries priced since, at most `most`. */
typedef struct {
    uint64_t entries;
    double *cost;
    bool *known;
    uint32_t parted, most;
} CostTable;

typedef struct {
    uint32_t factor;
    uint64_t at;
} WantedPrice;

typedef struct {
    Graph *g;
    Ctx *ctx;
    Arena *arena;
    const FormatRequest *request;
    Users users;
    bool *can; /* [node.n]: a kernel whose arguments may have other orders */
    VEC(Proposal) order;
    uint32_t *var; /* [value.n]: its variable + 1; 0: no choice */
    VEC(Variable) variable;
    uint32_t nvar, *size; /* [nvar]: choices */
    /* of kernels, in their order; without variables if it has none, or too many */
    VEC(FormatFactor) factor;
    NodeId *kernel;          /* [factor.n]: its node */
    CostTable **table;       /* [factor.n]: its table */
    VEC(WantedPrice) wanted; /* entries to be priced together */
    /* fix the values of kernels with too many of them */
    VEC(FormatFactor) kept;
    Map cost; /* tables by key (price.c) */
} Formats;

/* ---- candidates.c ---- */

bool format_may_change(const Graph *g, NodeId n);
/* Why a value has no choice; NULL: it has. */
const char *format_fixed(const Formats *f, ValueId v);
/* Fills variable, var and size. False with a diagnostic. */
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
/* Cost of kernel node n under a choice; INFINITY: no schedule. Costs are whole picoseconds, so sums
 * are exact in any order. */
double format_cost(const Formats *f, NodeId n, const uint32_t *choice);
/* Fills factor, kernel, table and kept. choice [nvar]: scratch. */
void format_factors(Formats *f, uint32_t *choice);
/* Cost of a factor's kernel under a choice; priced now if it was not. */
double format_entry(const Formats *f, uint32_t factor, const uint32_t *choice);
/* Prices all kernels under a choice; false: all were. */
bool format_price_wanted(Formats *f, const uint32_t *choice);
double format_cost_of_all(const Formats *f, const uint32_t *choice);
/* ---- memory.c ---- */

/* Bytes of intermediate tensors alive while a node runs, [node.n]. */
int64_t *format_alive(const Graph *g, Arena *a);

/* ---- values.c ---- */

/* The choice of least total cost, with `nmore` further tables. */
FormatResult format_least(Formats *f, const FormatFactor *more, uint32_t nmore, uint32_t *choice);

/* ---- explain.c ---- */

/* cost of the choice, and with only the pins [picoseconds] */
typedef struct {
    const uint32_t *choice;
    double cost, plain;
} FormatFound;
void format_remark(const Formats *f, const FormatFound *found, Text *t);
void format_explain(Formats *f, const FormatFound *found, Text *t);
#endif
