/* What the files of cost share: a kernel's tree with numbers in it. */
#ifndef TENON_COST_INTERNAL_H
#define TENON_COST_INTERNAL_H

#include "cost/cost.h"

/* Bound what is kept of an access: for more digits of an iteration, or more places of an unrolled
 * one, the mean stride counts. */
enum { MOST_DIGITS = 3, MOST_PLACES = 8 };
/* A loop over a list has one NODE_IF around its body, whose tree is the list's: its arm is what
 * runs of the iterations. */
typedef enum {
    NODE_ARM,
    NODE_LOOP,
    NODE_IF,
    NODE_LET,
    NODE_LIST,
    NODE_STORE,
    NODE_AHEAD
} CostNodeKind;

/* A statement of the tree, or an arm of a test (the whole tree is an arm too), in preorder. */
typedef struct CostNode CostNode;
struct CostNode {
    CostNodeKind kind;
    const Tree *tree; /* NULL: an arm */
    CostNode *parent, *child, *next;
    /* the arm or the loop that is not unrolled whose iteration runs it; for such: itself */
    CostNode *phase;
    uint32_t id, last;   /* its number, and that of the last node in it */
    uint32_t depth;      /* enclosing loops, and itself if it is one */
    uint32_t first, end; /* accesses in it: Unfold.access[first..end) */
    uint64_t control;    /* loops that bounds, tests and lane limits below depend on */
    double exec;         /* executions in one call, on the thread with most work */
    double trips;        /* loops: iterations of one execution, on average */
    /* loops: the share of executions whose iteration count differs from the previous one's */
    double varies;
    int64_t before; /* loops: iterations of the last execution seen, while sampling */
    int64_t at;     /* loops: the representative iteration */
    /* loops over several fused indices: digits of the iteration; 0: one index … */
    uint32_t ndigit;
    /* … and iterations from one value of a digit to its next, the fastest digit first: 1, … */
    int64_t place[MOST_DIGITS];
    /* phases: instructions of one iteration, those of inner loops included */
    double uops;
    /* phases: bytes from and to each level in one call; traffic.c */
    double read[LEVEL_COUNT], write[LEVEL_COUNT];
    /* phases: bytes written to memory: the first line of each stream; non-temporal … */
    double apart, past;
    double past_apart; /* … expressed as strided lines that take as long */
    /* phases: seconds until the first lines that are read arrive */
    double wait[LEVEL_COUNT];
    uint32_t charged; /* phases: the charge that looked at it last */
};

typedef struct {
    CostNode *node;                /* the store it belongs to, as operand or as destination */
    const Scalar *load;            /* NULL: the destination */
    uint32_t buffer, lanes, bytes; /* bytes: of an element */
    bool write;
    double offset;      /* [elements] at the representative iterations */
    double lane_stride; /* [elements] */
    double valid;       /* share of active lanes */
    /* [node->depth]: elements by which an iteration of each enclosing loop moves it, on average */
    double *stride;
    /* [node->depth]: from one iteration to the next, where digits of an index jump */
    double *step;
    /* [node->depth]: by what each digit of the iteration moves it, if the loop's node has digits
     * and they determine it; NAN: they do not */
    double (*digit)[MOST_DIGITS];
    /* [node->depth]: NULL, or [trips] its offset in each iteration of an unrolled loop, relative to
     * `offset`; if uneven and few */
    double **place;
    /* [node->depth]: the loop moves it to a computed index */
    bool *random;
} MemRef;

typedef struct {
    Ctx *ctx;
    Arena *arena; /* scratch */
    const Kernel *k;
    const Machine *m;
    const CostQuery *query;
    Text *why; /* or NULL */
    CostNode *root;
    VEC(CostNode *) node; /* preorder */
    VEC(MemRef) access;   /* of memory; registers have none */
    int64_t *env;         /* [nloop]: loop and let variables */
    /* the assumed value of numbers from data; 0 unless a bound of theirs is searched */
    int64_t data;
    /* [nloop]: loops that each variable depends on, one bit in 64 */
    uint64_t *deps;
    double *valid_sum; /* [access.cap] while sampling */
    /* [buffer]: elements between neighbours of each physical dimension */
    double (*pitch)[TN_MAX_RANK];
    double *buffer_bytes; /* [buffer]: size of each */
    const Tree **list;    /* [buffer]: what fills it, if it is a list */
    /* of the parallel loop: all iterations, threads that get some, most iterations of one of them */
    double trips, shares, most;
    bool *past; /* [buffer]: written by non-temporal stores */
    /* [buffer]: prefetched from memory long before it is read */
    bool *far;
    uint32_t charges; /* of buffers to phases, so far; traffic.c */
} Unfold;

void measure_buffers(Unfold *u); /* pitch, buffer_bytes */
/* Iteration counts, executions and strides, as numbers. */
void unfold(Unfold *u);
uint64_t unfold_deps(Unfold *u, const Expr *e);
uint64_t unfold_vars(Unfold *u, const VarSet *vars);
static inline uint64_t
loop_bit(uint64_t var)
{
    return (uint64_t)1 << (var % 64);
}
int64_t unfold_eval(Unfold *u, const Expr *e, int64_t otherwise);

/* Bytes of every phase from and to each level. */
void traffic(Unfold *u);

static inline double
more(double x, double y)
{
    return x > y ? x : y;
}

/* One operation: instructions on the multiply-add units, others on vectors, divisions, square
 * roots; cycles of a call for each lane; the longest chain through it [multiply-adds]. */
typedef struct {
    double fma, alu, divide, root, lane_cycles, chain;
} OpCost;
extern const OpCost op_cost[S_OP_COUNT];

/* The straight code of a phase, once: cycles of each kind as if alone. */
typedef struct {
    double flops, l1, issue;
    /* from one iteration of its loop to the next, through this buffer: */
    double chain;
    uint32_t chain_buffer;
    double latency;     /* from its first load to its last value */
    double uops;        /* instructions */
    double work, bytes; /* operations; bytes loaded and stored */
    double code_bytes;
} Work;
Work work_of_phase(Unfold *u, CostNode *phase);

#endif
