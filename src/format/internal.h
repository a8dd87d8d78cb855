/* format, inside: which values may lie otherwise, in which orders, and what each kernel then
 * takes. */
#ifndef TENON_FORMAT_INTERNAL_H
#define TENON_FORMAT_INTERNAL_H

#include "format/format.h"
#include "algebra/algebra.h"

/* candidates beside the model's own order, of a rank: those that most products propose */
enum {
    MAX_ORDERS = 2,
    /* and with blocks, and each order with room around it, and in phases */
    MAX_LAYOUTS = 3 * MAX_ORDERS + 3,
    MOST_ROOM = 16,  /* elements on one side that are a candidate */
    MOST_PHASES = 4, /* of one dimension that are a candidate */
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
    uint32_t n, orders;                    /* choices; the first so many are orders */
    const Layout *layout[MAX_LAYOUTS + 1]; /* of each choice; NULL: the model's own */
    /* the choices whose dimension 1 lies last, and in blocks; 0: none */
    uint32_t last, blocks;
    bool parts;    /* a kernel of several parts makes or reads it */
    bool pinned;   /* somebody said it: there is one choice */
    uint32_t copy; /* the variable of its copy + 1; 0: it has none */
} Variable;

/* What several kernels read may lie twice. Its variables: var, none or the layout of the copy;
 * behind it one for each reader, what that reads. */
typedef struct {
    uint32_t x, var, nreader;
    NodeId *reader;
    /* [layouts][1 + layouts]: of the copying; known: it is priced, else 0 */
    double *cost;
    bool *known;
} Copy;

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
    VEC(Copy) copy;
    /* [nvar]: choices, of the values and then of copies and their readers */
    uint32_t nvar, *size;
    VEC(uint32_t) owner, choices; /* [nvar]: the value whose layouts they are */
    /* [ref.n]: the variable + 1 of what a node reads or writes there; 0: it lies as it is */
    uint32_t *at;
    VEC(FormatFactor) link; /* what copies take, and that readers read what there is */
    /* of kernels, in their order; of no variables where it has none, or too many of them */
    VEC(FormatFactor) factor;
    NodeId *kernel;     /* [factor.n]: whose it is */
    CostTable **table;  /* [factor.n]: its numbers */
    VEC(Wanted) wanted; /* entries of tables that are to be priced together */
    /* of values that lie as they are, since a kernel has too many of them */
    VEC(FormatFactor) kept;
    /* 0 where what is alive at once is within the bound, else infinity (memory.c) */
    VEC(FormatFactor) bound;
    /* … which says more than that, since it had to be said in few entries */
    bool narrowed;
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
/* How a value is made under a choice [nvar]; NULL: as it is. */
const Layout *format_layout(const Formats *f, ValueId v, const uint32_t *choice);
/* How an argument of node n lies, of a value in its copy perhaps. */
const Layout *format_argument_layout(const Formats *f, NodeId n, uint32_t buffer,
                                     const uint32_t *choice);
/* [nin + nout] of node n under a choice. */
const Layout *const *format_layouts(const Formats *f, NodeId n, const uint32_t *choice);
/* Is a value of this type the same memory in both? Parts of one point may stand anywhere. */
bool format_same_memory(const Type *t, const Layout *a, const Layout *b);
/* Has the value several layouts? All of them differ in memory. */
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
/* Prices what kernels and copies take under a choice; false: all of it was. */
bool format_price_wanted(Formats *f, const uint32_t *choice);
double format_cost_of_all(const Formats *f, const uint32_t *choice);
/* The choice that each kernel by itself makes, in order, its inputs lying as the kernels before it
 * chose. */
void format_greedy(Formats *f, uint32_t *choice);
/* The exact choice of a chain: of what each kernel reads, the first value alone is looked at, all
 * others lying as the model says. */
void format_chain(Formats *f, uint32_t *choice);

/* ---- copies.c ---- */

/* Fills copy, size, at: from the variables of values. */
void format_copies(Formats *f);
/* Fills link: nothing is priced. */
void format_link_copies(Formats *f);
/* Prices the copies of a choice; false: all were. */
bool format_price_copies(Formats *f, const uint32_t *choice);
/* Copy "v": what its kernel says it comes from */
const char *format_origin_of_copy(const Formats *f, const Copy *c);
double format_cost_of_copy(const Formats *f, const Copy *c, const uint32_t *choice);
/* A choice of values is one of all: without copies. */
void format_follow(const Formats *f, uint32_t *choice);
/* The nodes that copy, and who reads what they make. Numbers nodes anew. */
bool format_make_copies(Formats *f, const uint32_t *choice);

/* ---- memory.c ---- */

/* Bytes of the arena's values that are alive while a node runs, [node.n]. */
int64_t *format_alive(const Graph *g, Arena *a);
/* Fills bound, as wish->max_alive says; or so that every value takes as little as it may. */
void format_bound(Formats *f);
void format_bound_least(Formats *f);
/* The most that is alive at once under a choice, and which node runs then. */
int64_t format_alive_most(Formats *f, const uint32_t *choice, NodeId *where);

/* ---- values.c ---- */

/* The least of all kernels together within the bound, and of one more table; more NULL: of no
 * other. */
FormatResult format_least(Formats *f, const FormatFactor *more, uint32_t *choice);

/* ---- explain.c ---- */

/* cost; if nothing were changed but what is pinned; without a bound */
typedef struct {
    const uint32_t *choice;
    double cost, plain, free;
} FormatFound;
void format_remark(const Formats *f, const FormatFound *found, Text *t);
void format_explain(Formats *f, const FormatFound *found, Text *t);
#endif
