/* fuse: which nests become one kernel.
 *
 * A FusePlan says it, whoever made it, read by read; doc/fusion.md has the rules of the greedy one.
 * fuse_apply carries out what the plan says, or says which read cannot be so, and why: what is
 * inlined or recomputed is put into its readers' accesses (nest_inline), the rest become parts of
 * one kernel that share outer axes. Graphs of nests in, graphs of kernels out: every node is in
 * exactly one group, or recomputed by all who read it.
 */
#ifndef TENON_FUSE_H
#define TENON_FUSE_H

#include "graph/graph.h"
#include "machine/machine.h"

/* How a value comes to one of its readers. */
typedef enum {
    EDGE_STORE, /* through memory: the reader is in another group */
    /* both are parts of one kernel, which keeps it for a trip of the axes that they share */
    EDGE_SCRATCH,
    /* it is computed where it is read, by this reader alone: its node is no part of a kernel */
    EDGE_INLINE,
    /* it is computed where it is read, whoever else reads it and however that gets it */
    EDGE_RECOMPUTE,
} EdgeKind;
typedef struct {
    EdgeKind kind;
    /* of EDGE_SCRATCH: so many outer axes are shared, at least; the kernel shares no more than the
     * least of its edges say. 0: as many as can be */
    uint32_t depth;
} FuseEdge;

/* Two neighbours that joining leaves apart, by the price of the best schedules of both ways
 * [seconds]. */
typedef struct {
    NodeId from, to;
    double together, apart;
    bool given_up; /* it takes less, but … */
    /* … so many others were taken that want the same; 0: with the others it would wait for
     * itself */
    uint32_t nrival;
    NodeId rival;  /* a node of one of them */
    double rivals; /* what they gain [seconds] */
} FuseTried;

typedef struct {
    /* [g->node.n]: group of each node; groups are numbered from 1 in topological order. 0: all who
     * read it recompute it */
    uint32_t *group;
    uint32_t ngroup;
    FuseEdge *edge;       /* [g->ref.n]: of each read, node->in.first + i */
    const char **why;     /* [g->node.n]: one line on the decision, for the dump */
    VEC(FuseTried) tried; /* what fuse_join asked prices for and did not take */
} FusePlan;

/* Who decides which nests become one kernel (--fuse). All plans are carried out by fuse_apply and
 * get the same schedules. */
typedef enum {
    FUSE_NONE, /* every node alone */
    FUSE_DP,   /* the cheapest partition (dp.c, search.h) */
    FUSE_MODE_COUNT,
    FUSE_GIVEN = FUSE_MODE_COUNT, /* a text says it */
} FuseMode;
extern const char *const fuse_mode_name[FUSE_MODE_COUNT + 1];

/* Why two neighbours are not in one group. */
typedef enum {
    APART_NOT, /* they are in one */
    /* the value is seen from outside, and its maker was asked to stay (--keep) */
    APART_VISIBLE,
    APART_ORDER, /* a path between them leaves the group and returns */
    /* no kernel computes both: what the second reads is not complete when it is wanted */
    APART_PAIR,
    /* what lies between them, or the code of both, outgrows its place: both numbers in `text` */
    APART_CAPACITY,
    APART_COST,     /* together they take longer: both prices in `text` */
    APART_UNPROVEN, /* sizes or places known only when it runs */
    /* together they take less, and others that want one of them gain more: both gains in `text` */
    APART_RIVAL,
    APART_USER, /* a plan or an option says so */
    APART_COUNT
} ApartReason;
extern const char *const apart_name[APART_COUNT];

/* What is known of joining: of candidates with prices so many pay, and some of these want the same
 * groups. */
typedef struct {
    uint32_t candidates, pay, taken;
    /* of those that pay: they want a group that another wants; circles that choices closed */
    uint32_t rivals, circles;
    /* values that so many products read that not all sets of them are candidates */
    uint32_t unlisted;
    /* what the taken gain; none that may be taken together gain more than bound */
    double seconds, bound;
    bool exact;
} FuseJoining;

/* What a search knows of its plan. */
typedef struct {
    FuseMode mode;
    /* of the plan by the printed cost model; least any plan can take; of the best plan that differs
     * in one merge or split. Negative: not known */
    double seconds, bound, second_best;
    bool exact;
    uint64_t states, steps, priced, composed;
    double search_seconds;
    /* of the partition's groups; candidates 0: there was nothing to join */
    FuseJoining joining;
} FuseCertificate;

/* Nodes that are to be one kernel, by names of operators or values; NULL: no wish. Only the search
 * looks for a plan that has it so. */
typedef struct {
    const char *first, *second;
} FuseWish;
/* A plan by a mode, and what is known of it. */
FusePlan fuse_plan(const Graph *g, Arena *a, const Machine *m, FuseMode mode, const FuseWish *wish,
                   FuseCertificate *known);
/* Are both in one kernel? NO: they are not; UNKNOWN: g has not both. */
Tri fuse_granted(const Graph *g, const FusePlan *p, const FuseWish *wish);
/* one line, without a newline */
void fuse_print_certificate(Text *t, const FuseCertificate *k);
FusePlan fuse_none(const Graph *g, Arena *a); /* every node alone: the baseline */
FusePlan fuse_copy(const Graph *g, Arena *a, const FusePlan *p);
/* What `reader` (0: everyone) reads of `maker` comes to it so. */
void fuse_set(const Graph *g, FusePlan *p, NodeId maker, NodeId reader, FuseEdge edge);
/* The cheapest partition (dp.c); what is known of it in *certificate, if given. */
FusePlan fuse_dp(const Graph *g, Arena *a, const Machine *m, const FuseWish *wish,
                 FuseCertificate *certificate);
/* What a plan takes by the formula with which fuse_dp compares groups [seconds]; within: they are
 * all groups that it looks at. */
double fuse_predict(const Graph *g, const FusePlan *p, const Machine *m, bool *within);
/* Seconds of kernels one after the other, whose arguments lie as suits them together; negative:
 * none are known. data [nin] of a kernel: the contents of inputs that are known now, NULL for
 * others. */
typedef struct {
    double (*of)(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n);
    /* all have been asked: were answers missing that are there now, so that all is to be asked
     * again? NULL: no */
    bool (*again)(void *user);
    void *user;
    /* what a kernel less saves that prices do not have [seconds] */
    double kernel;
    /* products side by side take so much less than apart, for each kernel less, at most [seconds];
     * 0: not known */
    double beside;
} FusePrice;
/* A plan in the words of its model. Groups and pairs in the order of groups; sizes and prices as
 * fuse_predict has them. */
typedef struct {
    uint32_t kernel, nests;      /* kernel: its group in the plan */
    const char *name;            /* of its operators */
    VEC(const char *) operators; /* the same one by one */
    double seconds, saved;       /* saved [bytes]: values that it keeps to itself */
} FuseGroupNote;
typedef struct {
    uint32_t from, to; /* groups */
    ValueId value;     /* that passes between them, the largest */
    const char *name;
    double bytes;
    ApartReason reason;
    const char *text;
    double together, apart; /* [seconds]; together negative: no kernel is both */
} FusePairNote;
/* an input of the graph that it reads, an output that it makes */
typedef struct {
    ValueId value;
    uint32_t kernel;
    bool in;
    double bytes;
} FusePortNote;
/* a nest before fusion, as rules on types of operators want to know it (bench/rivals.py) */
typedef struct {
    ValueId value;
    MappingType mapping;
} FuseReadNote;
typedef struct {
    NodeId node;
    /* elementwise: plain writes, no reduction, no scan; contraction: a matrix multiplication or
     * convolution; mixed: an index adds axes that are summed to others, as a window does */
    bool elementwise, reduces, contraction, mixed, visible;
    double bytes; /* of its first value */
    VEC(FuseReadNote) read;
} FuseNestNote;
typedef struct {
    FuseCertificate known;
    VEC(FuseNestNote) nest;
    /* a kernel that only moves data has no note of its own: elsewhere it is computed where it is
     * read */
    uint32_t nests, kernels, joins;
    VEC(FuseGroupNote) group;
    VEC(FusePairNote) pair;
    VEC(FusePortNote) port;
} FuseNotes;
FuseNotes fuse_explain(const Graph *g, Arena *a, const Machine *m, const FusePlan *p,
                       const FuseCertificate *known);
/* the operator that a node came from, for people */
const char *fuse_label(const Graph *g, NodeId n);
/* A plan as text, and a graph's plan read from there; false, reported: it is no plan of g, or
 * cannot be carried out (text.c). */
void fuse_print_plan(const Graph *g, Text *t, const FusePlan *p);
bool fuse_parse_plan(const Graph *g, Arena *a, Parse *p, FusePlan *out);
/* How many joins a plan has, and the plan with the first of them alone; last: the node that the
 * last of those joins with its readers (bisect.c). */
uint32_t fuse_joins(const Graph *g, const FusePlan *p);
FusePlan fuse_first_joins(const Graph *g, Arena *a, const FusePlan *p, uint32_t most, NodeId *last);
/* Why two nodes, by names of operators or values, are together or apart; NULL: g has not both. */
const char *fuse_why(const Graph *g, Arena *a, const Machine *m, const FusePlan *p,
                     const char *first, const char *second);
/* The plan, with groups joined where the joint kernel takes less time than its pieces: products
 * with the rows between them, a window with the product that reads it, a product with rows made of
 * it, products of one value. Of all candidates those that gain most together, and whatever it takes
 * one with both nodes of a wish, if there is one. */
FusePlan fuse_join(const Graph *g, Arena *a, const FusePlan *p, const FuseWish *wish,
                   const FusePrice *price, FuseJoining *told);
/* Acyclic quotient, every edge as it is said, shared axes found. NULL text if legal, else why not,
 * by the nodes' names. */
const char *fuse_illegal(const Graph *g, const FusePlan *p);
/* The plan carried out; NULL, reported as internal, if it is not legal. */
Graph *fuse_apply(const Graph *g, const FusePlan *p);
/* g with its nests fused by `fuse`, which gets graphs of nests alone: the nests between two nodes
 * that are none, where as many as can stand together do. What is in the regions of nodes is left as
 * it is. */
Graph *fuse_between(const Graph *g, Graph *(*fuse)(void *user, const Graph *nests), void *user);

#endif
