/* fuse: decide which nests become one kernel, and make those kernels.
 *
 * A FusePlan puts every node of a graph of nests into a group and says, for each read, how the
 * value gets to its reader (EdgeKind). fuse_dp finds the plan of least predicted time, fuse_merge
 * merges groups whose joint schedule is faster, a text can give a plan too. fuse_apply turns a plan
 * into a graph of kernels: it inlines what the plan inlines (nest_inline), and makes the rest of a
 * group stages of one kernel that share outer axes. doc/fusion.md explains rules and prices.
 */
#ifndef TENON_FUSE_H
#define TENON_FUSE_H

#include "graph/graph.h"
#include "machine/machine.h"

/* ---- plans ----------------------------------------------------------------------------------- */

/* How a value gets to one of its readers. */
typedef enum {
    EDGE_STORE, /* through memory: the reader is in another group */
    /* through scratch memory: both are stages of one kernel, and the value exists for one iteration
     * of the axes that they share */
    EDGE_SCRATCH,
    /* inlined: computed where it is read, and by this reader alone */
    EDGE_INLINE,
    /* inlined here; other readers may recompute it too, or read it from memory */
    EDGE_RECOMPUTE,
} EdgeKind;
typedef struct {
    EdgeKind kind;
    /* EDGE_SCRATCH: the least number of outer axes that both share; a kernel shares the minimum
     * over its edges. 0: as many as possible */
    uint32_t depth;
} FuseEdge;

/* Two neighbours that fuse_merge priced and did not merge, both ways with their best schedules
 * [seconds]. */
typedef struct {
    NodeId from, to;
    double merged, separate;
    bool given_up; /* merging is faster, but other candidates were accepted instead */
    /* accepted candidates that share a group with it; 0: none, merging would form a cycle */
    uint32_t nrival;
    NodeId rival;  /* a node of one of them */
    double rivals; /* what they gain [seconds] */
} FuseTried;

typedef struct {
    /* [g->node.n]: group of each node, numbered from 1 in topological order; 0: every reader
     * recomputes the node */
    uint32_t *group;
    uint32_t ngroup;
    FuseEdge *edge;       /* [g->ref.n]: of each read, node->in.first + i */
    const char **why;     /* [g->node.n]: one line on the decision, for the dump */
    VEC(FuseTried) tried; /* what fuse_merge priced and did not merge */
} FusePlan;

FusePlan fuse_none(const Graph *g, Arena *a); /* every node a group of its own */
FusePlan fuse_copy(const Graph *g, Arena *a, const FusePlan *p);
/* Sets the edge from `maker` to `reader`; reader 0: to all readers. */
void fuse_set(const Graph *g, FusePlan *p, NodeId maker, NodeId reader, FuseEdge edge);
/* Why the plan is illegal, naming nodes; NULL: it is legal. plan.c lists the rules. */
const char *fuse_illegal(const Graph *g, const FusePlan *p);
/* Carries out the plan; NULL, reported as internal, if it is illegal. */
Graph *fuse_apply(const Graph *g, const FusePlan *p);
/* Fuses the nests of g, whose other nodes (loops, branches, size definitions) stay: `fuse` gets one
 * graph for each run of nests between them. Regions of nodes are not entered. */
Graph *fuse_control_flow(const Graph *g, Graph *(*fuse)(void *user, const Graph *nests),
                         void *user);

/* Plans as text (text.c). Parsing reports what is no plan of g and returns false. */
void fuse_print_plan(const Graph *g, Text *t, const FusePlan *p);
bool fuse_parse_plan(const Graph *g, Arena *a, Parse *p, FusePlan *out);

/* For bisection: the number of joins of a plan, and the plan with only the first `most` of them;
 * *last: the node that the last of those joins to its readers (bisect.c). */
uint32_t fuse_merges(const Graph *g, const FusePlan *p);
FusePlan fuse_first_merges(const Graph *g, Arena *a, const FusePlan *p, uint32_t most,
                           NodeId *last);

/* ---- making plans ---------------------------------------------------------------------------- */

/* --fuse */
typedef enum {
    FUSE_NONE, /* every node a kernel of its own */
    FUSE_DP,   /* the cheapest partition (dp.c, search.h) */
    FUSE_MODE_COUNT,
    FUSE_GIVEN = FUSE_MODE_COUNT, /* a text gives the plan */
} FuseMode;
extern const char *const fuse_mode_name[FUSE_MODE_COUNT + 1];

/* What is known of the choice among joins: of the candidates that have a price, `pay` gain time,
 * and some of those share groups. */
typedef struct {
    uint32_t candidates, pay, taken;
    /* of those that pay: candidates that share a group with another; cycles that choices closed */
    uint32_t rivals, cycles;
    /* gain of the accepted, and the upper bound of any legal choice */
    double seconds, bound;
    bool exact;
} FuseMerging;

/* What a search knows of its plan. Times are by the printed cost model; negative: not known. */
typedef struct {
    FuseMode mode;
    /* of the plan; lower bound of any plan; of the best plan that differs in one merge or split */
    double seconds, bound, second_best;
    bool exact;
    uint64_t states, steps, priced, composed;
    double search_seconds;
    FuseMerging merging; /* candidates 0: there was nothing to join */
} FuseCertificate;
void fuse_print_certificate(Text *t, const FuseCertificate *k); /* one line, without a newline */

/* Two nodes that the user wants in one kernel, by names of operators or values; NULL: none. */
typedef struct {
    const char *first, *second;
} FuseRequest;
/* YES: both are in one kernel; UNKNOWN: g does not have both. */
Tri fuse_granted(const Graph *g, const FusePlan *p, const FuseRequest *request);

/* The plan of a mode; only FUSE_DP considers the wish. */
FusePlan fuse_plan(const Graph *g, Arena *a, const Machine *m, FuseMode mode,
                   const FuseRequest *request, FuseCertificate *known);
/* The cheapest partition (dp.c); certificate: may be NULL. */
FusePlan fuse_dp(const Graph *g, Arena *a, const Machine *m, const FuseRequest *request,
                 FuseCertificate *certificate);

/* How fuse_merge asks for prices. */
typedef struct {
    /* Predicted time of n kernels run in turn, in the formats that suit them together [seconds];
     * negative: not known. data [nin] of a kernel: contents of inputs known now, or NULL. */
    double (*of)(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n);
    /* Called once all queries were made: true if missing prices exist now, so that all queries are
     * to be repeated. NULL: prices are never missing. */
    bool (*again)(void *user);
    void *user;
    double kernel; /* time that one kernel less saves beside its price [seconds] */
} FusePrice;
/* The plan with groups merged where the joint kernel is faster than its parts: matrix
 * multiplications with the rows between them, a contraction and rows of its result or a window over
 * it, contractions of one value side by side. Picks the legal set of candidates with the largest
 * total gain, and always one that grants the wish, if there is one. */
FusePlan fuse_merge(const Graph *g, Arena *a, const FusePlan *p, const FuseRequest *request,
                    const FusePrice *price, FuseMerging *told);

/* ---- explaining plans ------------------------------------------------------------------------ */

/* Why two neighbours are not in one group. */
typedef enum {
    SEPARATE_NOT,      /* they are in one */
    SEPARATE_VISIBLE,  /* the value is an output, or the user keeps it (--keep) */
    SEPARATE_ORDER,    /* merging would form a cycle */
    SEPARATE_PAIR,     /* no kernel computes both: the second needs all of the first */
    SEPARATE_CAPACITY, /* scratch memory or code exceeds its limit: both numbers in `text` */
    SEPARATE_COST,     /* merging is slower: both prices in `text` */
    SEPARATE_UNPROVEN, /* sizes or indices are known only at run time */
    SEPARATE_RIVAL, /* merging is faster, but a rival candidate gains more: both gains in `text` */
    SEPARATE_COUNT
} SeparateReason;
extern const char *const separate_name[SEPARATE_COUNT];

/* Groups and pairs in the order of groups; prices by the formula that fuse_dp minimises. */
typedef struct {
    uint32_t kernel, nests;      /* kernel: its group in the plan */
    const char *name;            /* its operators */
    VEC(const char *) operators; /* the same, one by one */
    double seconds, saved;       /* saved [bytes]: intermediate tensors that stay inside */
} FuseGroupNote;
typedef struct {
    uint32_t from, to; /* groups */
    ValueId value;     /* the largest that passes between them */
    const char *name;
    double bytes;
    SeparateReason reason;
    const char *text;
    double merged, separate; /* [seconds]; together negative: no kernel computes both */
} FusePairNote;
/* an input of the graph that a kernel reads, or an output that it makes */
typedef struct {
    ValueId value;
    uint32_t kernel;
    bool in;
    double bytes;
} FusePortNote;
/* a nest before fusion, for fusion rules that are scripts (bench/rivals.py) */
typedef struct {
    ValueId value;
    MappingType mapping;
} FuseReadNote;
typedef struct {
    NodeId node;
    /* elementwise: plain writes, no reduction, no scan; contraction: a matrix multiplication or
     * convolution; mixed: an index adds a reduction axis to a parallel one, as windows do */
    bool elementwise, reduces, contraction, mixed, visible;
    double bytes; /* of its first value */
    VEC(FuseReadNote) read;
} FuseNestNote;
typedef struct {
    FuseCertificate known;
    VEC(FuseNestNote) nest;
    /* a kernel that only moves data has no group note: elsewhere it would be inlined */
    uint32_t nests, kernels, merges;
    VEC(FuseGroupNote) group;
    VEC(FusePairNote) pair;
    VEC(FusePortNote) port;
} FuseNotes;
FuseNotes fuse_explain(const Graph *g, Arena *a, const Machine *m, const FusePlan *p,
                       const FuseCertificate *known);
/* Why two nodes, by names of operators or values, are together or apart; NULL: g lacks one. */
const char *fuse_why(const Graph *g, Arena *a, const Machine *m, const FusePlan *p,
                     const char *first, const char *second);
/* the operator that a node came from, for messages */
const char *fuse_label(const Graph *g, NodeId n);

#endif
