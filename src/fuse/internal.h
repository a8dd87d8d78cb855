/* fuse, inside: how nodes are inlined into each other, which may share a kernel, and what a group
 * costs. */
#ifndef TENON_FUSE_INTERNAL_H
#define TENON_FUSE_INTERNAL_H

#include "cost/cost.h"
#include "fuse/fuse.h"

/* The most instructions of one inlined expression. Storing an element and reading it again takes as
 * long as 40 instructions where memory is slow and a few where a cache holds it: beyond some
 * hundreds fusing saves little, while C compilers take a millisecond for each. */
#define FUSE_MAX_CODE 256
/* The most nodes of a group that the search makes; bounds the search: longer chains are cut. */
#define FUSE_MOST_MEMBERS 24
#define FUSE_MAX_PARTS 32 /* stages of one kernel; bounds its code: groups of more stay apart */
/* The most elements of a value between stages, for each iteration of the shared axes. Bounds the
 * scratch memory of a thread, 4 MB of f32: with more the stages are kernels of their own. */
#define FUSE_MAX_ROW (1 << 20)
/* The most work that is repeated for each broadcast of a value: storing it and loading it again are
 * as many instructions. */
#define FUSE_BROADCAST_WORK 2
/* The most work of a value computed from indices alone that is repeated anywhere. Eight operations
 * take 4 to 5 cycles (add_per_cycle), less than loading a vector from memory: 5 on Zen 3 (32
 * bytes), 18 on Cascade Lake (64 bytes). */
#define FUSE_INDEX_WORK 8

/* A node's call with others inlined into it: the nest, and the graph's value behind each
 * parameter. */
typedef struct {
    const Nest *nest;
    ValueId *value;
} FusedCall;

typedef struct {
    bool elementwise;               /* plain writes, no reduction, no scan */
    bool view;                      /* elementwise, and the value is one bare read */
    bool index_only;                /* elementwise, and reads nothing */
    bool conditional;               /* a read stands under a condition */
    bool computed;                  /* an index comes from data */
    bool reduces, contraction, row; /* row: plain reduction whose every reduced read is disjoint */
    uint32_t full;                  /* elementwise: reads that are not broadcast */
    /* of one point: additions and products 1, divisions and functions more than what may be
     * repeated */
    uint32_t work;
} NestTraits;

/* Which nodes are inlined into their readers (their hosts), where no plan says it. */
typedef struct Fusion Fusion;
/* Results for nests by their addresses, in several compositions (inlined.c). */
typedef struct {
    Arena *arena;
    Map inlined; /* by a hash: a KnownInlined */
    Map traits;  /* by the nest: a NestTraits */
} KnownNests;
KnownNests *fuse_known_nests(Arena *a);

typedef struct {
    void (*begin)(Fusion *f); /* before anything is inlined */
    /* Why `p` should not be inlined into `host`, which would become `after`; nhost: readers of p.
     * NULL if it should. */
    const char *(*refuse)(Fusion *f, NodeId p, NodeId stage, const Nest *after, uint32_t nstage);
} FuseRules;
/* inline views and values computed from indices alone, in every reader (legal.c) */
extern const FuseRules fuse_rules_views;
extern const FuseRules fuse_rules_nothing; /* inline nothing (legal.c) */
/* inline whatever can be, inside one group (legal.c) */
extern const FuseRules fuse_rules_inside;

/* The state of composing: what each node computes once others are inlined into it. */
struct Fusion {
    const Graph *g;
    Ctx *ctx;
    Arena *arena;
    /* one of the two is given: the plan's edges, or the rules, say what is inlined where */
    const FusePlan *plan;
    const FuseRules *rules;
    KnownNests *known; /* NULL: nothing is kept */
    /* the first thing that the plan wants and that is impossible, and why; NULL: nothing */
    const char *refused;
    Users users;
    bool *visible;   /* [value.n]: an output of the graph */
    FusedCall *call; /* [node.n] */
    /* [node.n]: itself; the one node that it is inlined into; 0: several */
    NodeId *stage;
    /* [value.n]: hosts that read the value, or did before simplifying */
    VEC(NodeId) * readers;
    VEC(FuseEdge) * edges; /* [value.n]: how it comes to each of those, beside readers */
    VEC(ValueId) * reads;  /* [node.n]: of hosts: the same, the other way round */
    /* (value, host that reads it) -> index in readers, plus 1 */
    Map reader_at;
    NestTraits *traits;     /* [node.n] … */
    const Nest **traits_of; /* [node.n]: … of this nest */
    NodeId *seen;           /* [node.n]: scratch */
    uint32_t *place;        /* [value.n]: scratch */
    /* [node.n]: a row reduction, or elementwise from results of one */
    bool *rowish;
    const char **why; /* [node.n] */
};

/* ---- scalar_constants.c ---------------------------------------------------------------------- */
/* one-element constants become numbers */
FusedCall fuse_scalar_constants(const Graph *g, Arena *a, NodeId n);

/* ---- inline.c -------------------------------------------------------------------------------- */
/* only elementwise, reduces and contraction are set */
NestTraits fuse_kind(Ctx *c, const Nest *n);
bool fuse_is_view(Ctx *c, const Nest *n);
/* a view, or computed from indices with little work: inlining it costs nothing */
bool fuse_is_free(const NestTraits *t);
/* of the node's nest as it is now; cached until that changes */
const NestTraits *fuse_traits_of(Fusion *f, NodeId n);
/* Why p cannot be inlined into a host that would become `after`; NULL if it can. */
const char *fuse_cannot(Fusion *f, NodeId p, const Nest *after);

/* Why `after` computes a reduction of p more than once for a value, or is no contraction any more;
 * NULL if neither. */
const char *fuse_hides(Fusion *f, NodeId p, NodeId stage, const Nest *after);
/* Why an elementwise p cannot be computed at the indices at which the host reads it; NULL: it
 * can. */
const char *fuse_reads_badly(Fusion *f, NodeId p, NodeId stage);
/* Does the host read elements of it more than once, by a broadcast or under a reduction? */
bool fuse_repeats(Fusion *f, NodeId node, NodeId stage);
/* one of its reasons */
extern const char fuse_not_before_it_runs[];

/* ---- inlined.c ------------------------------------------------------------------------------- */
/* The stage with all values of the node inlined; nest NULL: not possible. */
FusedCall fuse_inlined(Fusion *f, FusedCall stage, FusedCall node);

/* ---- compose.c ------------------------------------------------------------------------------- */
/* known: shared by compositions of the same nests; may be NULL. */
Fusion fuse_compose(const Graph *g, Arena *a, const FusePlan *plan, const FuseRules *rules,
                    KnownNests *known);

/* ---- common_axes.c --------------------------------------------------------------------------- */
/* These hosts [n] as stages of one kernel: a dimension that one of them indexes by digits is split
 * in all of them. Parameters stay. */
const Nest *const *fuse_parts(const Fusion *f, const NodeId *stage, uint32_t n);
/* The number of outer parallel axes that they can share then (kernel.h). */
uint32_t fuse_shared(const Fusion *f, const NodeId *stage, uint32_t n);
/* Are they contractions of which none reads another's result? As a kernel they share no axis and
 * run one after the other. */
bool fuse_are_independent(const Fusion *f, const NodeId *stage, uint32_t n);
/* Iterations of a nest's outermost `depth` parallel axes. */
const Expr *fuse_trips(Ctx *c, const Nest *n, uint32_t depth);
/* The least depth that the plan gives an edge between them; 0: none is given. */
uint32_t fuse_depth(const Fusion *f, const NodeId *stage, uint32_t n);

/* ---- apply.c --------------------------------------------------------------------------------- */
/* The kernel of a group of nodes [n, ascending], in f's arena; *data: contents of its inputs, NULL
 * where not known. */
const Kernel *fuse_kernel(const Fusion *f, const NodeId *node, uint32_t n,
                          const void *const **data);

/* ---- legal.c --------------------------------------------------------------------------------- */

typedef enum {
    MEMBER_ELEMENTWISE,
    MEMBER_ROW, /* a plain reduction along trailing axes */
    MEMBER_PRODUCT,
    MEMBER_WINDOW,
    MEMBER_REDUCTION, /* another */
    MEMBER_ALONE,     /* a scan, or writes at computed indices */
} MemberKind;
typedef struct {
    MemberKind kind;
    const Expr *rows; /* MEMBER_ROW: their number; else NULL */
    uint32_t code;    /* MEMBER_ELEMENTWISE: instructions of the expression; else 0 */
} Member;
Member fuse_member(Fusion *f, NodeId n);
/* Why no group, and so no larger group, can hold these members; NULL: one may. */
const char *fuse_no_group(Ctx *c, const Member *m, uint32_t n);
bool fuse_is_among(const NodeId *node, uint32_t n, NodeId id); /* node: ascending */
/* Is a value read outside these nodes [n, ascending], or not at all? */
bool fuse_escapes(const Fusion *f, ValueId v, const NodeId *node, uint32_t n);

/* A group, composed as its own graph. */
typedef struct {
    Graph *graph;
    Fusion f;
    NodeId *as;              /* [n]: each member in that graph */
    NodeId *stage;           /* [nhost]: the stages of its kernel, in that graph */
    uint32_t nstage, shared; /* shared: outer axes of several stages */
    const Expr *trips;       /* iterations of those; NULL: one stage */
    const char *no;          /* why it is no kernel, and … */
    SeparateReason reason;   /* … of which kind that is */
} Composed;
/* f: with only views inlined. node: ascending. */
Composed fuse_compose_group(const Fusion *f, Arena *a, const NodeId *node, uint32_t n);

/* ---- price.c --------------------------------------------------------------------------------- */

typedef struct Pricing Pricing;
/* no: as of Composed */
typedef struct {
    double seconds;
    SeparateReason reason;
    const char *no;
} GroupPrice;
Pricing *fuse_pricing(Fusion *f, Arena *a, const Machine *m);
/* Cost  a hundred microseconds for a new group, one for a known one. */
GroupPrice fuse_group_price(Pricing *p, const NodeId *node, uint32_t n);
const uint64_t *fuse_composed(const Pricing *p); /* number of groups composed for prices */
/* the same, weighted: a nest with many operands counts as several */
const uint64_t *fuse_spent(const Pricing *p);
double fuse_least_seconds(Pricing *p, NodeId n); /* lower bound in any group */

/* The nodes of each group, in the graph's order: node[first[group] .. first[group + 1]). */
typedef struct Groups {
    uint32_t *first;
    NodeId *node;
} Groups;

/* ---- assemble.c ------------------------------------------------------------------------------ */

/* The nodes that a partition divides: those that are left once rules that need no groups have
 * inlined the others. */
typedef struct {
    const Graph *g;
    Fusion f;
    uint32_t n;
    NodeId *node; /* [n]: of the graph, ascending */
    uint32_t *at; /* [node.n]: the inverse of node */
    Arena *scratch;
} FuseNodes;
FuseNodes fuse_nodes(const Graph *g, Arena *scratch, const FuseRules *rules);
/* A node by its operator's label, the name in that, or its value; NO_SLOT: there is none. */
uint32_t fuse_find(const FuseNodes *s, const char *name);
/* false: g lacks a node of the wish */
bool fuse_requested(const Graph *g, const FuseRequest *request, NodeId node[2]);
/* group [s->n]: any numbers from 1 to ngroup, without cycles among groups. A group that no kernel
 * can compute is split. */
Groups fuse_members(const FuseNodes *s, const uint32_t *group, uint32_t ngroup);
FusePlan fuse_assemble(const FuseNodes *s, Arena *a, const uint32_t *group, uint32_t ngroup);

/* ---- plan.c ---------------------------------------------------------------------------------- */
/* Sets the edges of inlined nodes: into their host, or (host 0) into every reader. */
void fuse_vanish(const Graph *g, FusePlan *p, const NodeId *stage);
/* Sets the other edges by the groups: scratch inside one, memory between two. */
void fuse_settle(const Graph *g, FusePlan *p);
/* Renumbers groups from 1 in topological order; in: any number for each group, 0 for nodes that all
 * readers recompute. */
void fuse_number(const Graph *g, Arena *a, FusePlan *p);
/* The nodes of each group, in the graph's order: node[first[group] .. first[group + 1]). */
Groups fuse_groups(const Graph *g, Arena *a, const FusePlan *p);
/* The nodes [n] of a group that are not inlined, the stages of its kernel, into host; their
 * number. */
uint32_t fuse_stages(const Fusion *f, const NodeId *node, uint32_t n, NodeId *stage);
/* The two halves of fuse_illegal: faults of the plan's numbers, and of its composed kernels. */
const char *fuse_illegal_numbers(const Graph *g, const FusePlan *p);
const char *fuse_illegal_kernels(const Fusion *f, const Groups *groups);

#endif
