/* What the files of fuse share. */
#ifndef TENON_FUSE_INTERNAL_H
#define TENON_FUSE_INTERNAL_H

#include "cost/cost.h"
#include "fuse/fuse.h"

/* Instructions of one composed expression. To store an element and read it again takes as long as
 * 40 of them where memory is slow and a few where a cache holds it: beyond some hundreds fusing
 * saves little, while C compilers take a millisecond for each. */
#define FUSE_MAX_CODE 256
/* nodes of a group that the search makes; bounds it: longer chains are cut there */
#define FUSE_MOST_MEMBERS 24
#define FUSE_MAX_PARTS 32 /* parts of one kernel; bounds its code: groups of more stay apart */
/* Elements of a local between parts, per trip, where known. Bounds the memory that each thread has
 * for it, 4 MB of f32: with more the parts are kernels of their own. */
#define FUSE_MAX_ROW (1 << 20)
/* Work of a value that is repeated for each broadcast of it: to store it and to load it again are
 * as many instructions. */
#define FUSE_BROADCAST_WORK 2
/* Work of values made from indices alone, repeated anywhere. Eight operations take 4 to 5 cycles
 * (add_per_cycle), less than a vector of them takes from memory: 5 on Zen 3 (32 bytes), 18 on
 * Cascade Lake (64 bytes). */
#define FUSE_INDEX_WORK 8

/* A nest and the graph's value behind each parameter. */
typedef struct {
    const Nest *nest;
    ValueId *value;
} Piece;

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

/* Who makes plans has rules on what vanishes where; who carries one out has none. */
typedef struct Fusion Fusion;
typedef struct {
    void (*begin)(Fusion *f); /* once nothing has vanished yet */
    /* Why `p` should not vanish into `host`, where `after` would be the result and nhost hosts take
     * it; NULL if it should. */
    const char *(*refuse)(Fusion *f, NodeId p, NodeId host, const Nest *after, uint32_t nhost);
} FuseRules;
extern const FuseRules fuse_rules; /* those of the greedy plan (rules.c) */
/* views and values of indices alone, wherever they are read (legal.c) */
extern const FuseRules fuse_rules_views;
extern const FuseRules fuse_rules_nothing; /* nothing vanishes (legal.c) */
/* whatever can be, inside of a group whose price is known otherwise (legal.c) */
extern const FuseRules fuse_rules_inside;

/* The state of composing: what each node computes once others have vanished into it. */
struct Fusion {
    const Graph *g;
    Ctx *ctx;
    Arena *arena;
    /* to be carried out; with rules: its groups are kept to. NULL: free */
    const FusePlan *plan;
    const FuseRules *rules; /* NULL: the plan's edges say what vanishes where */
    /* what the plan wants first that cannot be, and why; NULL: nothing */
    const char *refused;
    Users users;
    bool *visible; /* [value.n]: an output of the graph */
    Piece *piece;  /* [node.n] */
    /* [node.n]: itself, the one node it vanished into, or 0: into several */
    NodeId *host;
    /* [value.n]: hosts that read the value, or did before simplifying */
    VEC(NodeId) * readers;
    VEC(FuseEdge) * edges; /* [value.n]: how it comes to each of those, beside readers */
    VEC(ValueId) * reads;  /* [node.n]: of hosts: the same, the other way round */
    /* of a value and a host that reads it: where it stands in readers, plus 1 */
    Map reader_at;
    NestTraits *traits;     /* [node.n] … */
    const Nest **traits_of; /* [node.n]: … of this nest */
    NodeId *seen;           /* [node.n]: scratch */
    /* [node.n]: elementwise, an epilogue of a reduction before it */
    bool *finishes;
    /* [node.n]: a row reduction, or elementwise from its results */
    bool *rowish;
    const char **why; /* [node.n] */
};

/* ---- prepare.c ------------------------------------------------------------------------------- */
/* one-element constants become numbers */
Piece fuse_prepare(const Graph *g, Arena *a, NodeId n);

/* ---- rules.c --------------------------------------------------------------------------------- */
/* elementwise, reduces, contraction; the rest unset */
NestTraits fuse_kind(Ctx *c, const Nest *n);
bool fuse_is_view(Ctx *c, const Nest *n);
/* a view, or made of indices alone with little work: it costs nothing wherever it is read */
bool fuse_is_free(const NestTraits *t);
/* of its piece as it is now; kept until that changes */
const NestTraits *fuse_traits_of(Fusion *f, NodeId n);
/* Why p cannot vanish into a host that would be `after`, whether it pays or not; NULL if it can. */
const char *fuse_cannot(Fusion *f, NodeId p, const Nest *after);

/* Why p's value in a host that would be `after` is no epilogue, or hides a product; NULL if
 * neither. */
const char *fuse_hides(Fusion *f, NodeId p, NodeId host, const Nest *after);
/* Why an elementwise p cannot be computed at the places where the host reads it; NULL if it can. */
const char *fuse_reads_badly(Fusion *f, NodeId p, NodeId host);
/* Does the host read elements of it more than once, by a broadcast or inside of a reduction? */
bool fuse_repeats(Fusion *f, NodeId node, NodeId host);
/* one of its reasons, and one of the greedy rules' */
extern const char fuse_not_before_it_runs[];

/* ---- compose.c ------------------------------------------------------------------------------- */
Fusion fuse_compose(const Graph *g, Arena *a, const FusePlan *plan, const FuseRules *rules);

/* ---- shared.c -------------------------------------------------------------------------------- */
/* What these hosts are as parts of one kernel [n]: rows have a dimension for each digit by which a
 * product writes or reads them. Their parameters are those of the hosts. */
const Nest *const *fuse_parts(const Fusion *f, const NodeId *host, uint32_t n);
/* Depth of the parallel axes that they then can share: see kernel.h. */
uint32_t fuse_shared(const Fusion *f, const NodeId *host, uint32_t n);
/* Are they products of which none reads what another makes? They are a kernel that shares no axis:
 * one runs after the other. */
bool fuse_beside(const Fusion *f, const NodeId *host, uint32_t n);
/* Trips of a nest's outermost `depth` parallel axes. */
const Expr *fuse_trips(Ctx *c, const Nest *n, uint32_t depth);
/* The least depth that the plan says of an edge between them; 0: it says none. */
uint32_t fuse_depth(const Fusion *f, const NodeId *host, uint32_t n);

/* ---- apply.c --------------------------------------------------------------------------------- */
/* The kernel that a group of these nodes [n, ascending] becomes, in f's arena, and the contents of
 * its inputs, NULL where they are not known now. */
const Kernel *fuse_kernel(const Fusion *f, const NodeId *node, uint32_t n,
                          const void *const **data);

/* ---- legal.c --------------------------------------------------------------------------------- */

typedef enum {
    MEMBER_ELEMENTWISE,
    MEMBER_ROW, /* a plain reduction along trailing axes */
    MEMBER_PRODUCT,
    MEMBER_WINDOW,
    MEMBER_REDUCTION, /* another */
    MEMBER_ALONE,     /* walked in order, or writes in no order */
} MemberKind;
typedef struct {
    MemberKind kind;
    const Expr *rows; /* how many, of a row; else NULL */
    uint32_t code;    /* instructions of an elementwise one's expression; else 0 */
} Member;
Member fuse_member(Fusion *f, NodeId n);
/* Why no group that holds such members exists, which is so for all that hold more; NULL: one
 * may. */
const char *fuse_no_group(Ctx *c, const Member *m, uint32_t n);
bool fuse_is_among(const NodeId *node, uint32_t n, NodeId id); /* node: ascending */
/* Is a value read outside of these nodes [n, ascending], or by nobody at all? */
bool fuse_escapes(const Fusion *f, ValueId v, const NodeId *node, uint32_t n);

/* A group, composed as a graph of its own. */
typedef struct {
    Graph *graph;
    Fusion f;
    NodeId *as;             /* [n]: each member in that graph */
    NodeId *host;           /* [nhost]: the parts of its kernel, in that graph */
    uint32_t nhost, shared; /* shared: outer axes of several parts */
    const Expr *trips;      /* of those; NULL: one part */
    const char *no;         /* why it is no kernel, and … */
    ApartReason reason;     /* … of which kind that is */
} Composed;
/* f: with views composed, all else apart. node: ascending. */
Composed fuse_compose_group(const Fusion *f, Arena *a, const NodeId *node, uint32_t n);

/* ---- price.c --------------------------------------------------------------------------------- */

typedef struct Pricing Pricing;
/* no: as of Composed */
typedef struct {
    double seconds;
    ApartReason reason;
    const char *no;
} GroupPrice;
Pricing *fuse_pricing(Fusion *f, Arena *a, const Machine *m);
/* Cost  a hundred microseconds for what is new, one for what was asked. */
GroupPrice fuse_group_price(Pricing *p, const NodeId *node, uint32_t n);
const uint64_t *fuse_composed(const Pricing *p); /* groups that were composed so as to know */
/* as so many groups of nests with few operands */
const uint64_t *fuse_spent(const Pricing *p);
double fuse_least_seconds(Pricing *p, NodeId n); /* of whatever group it is in */

/* The nodes of each group, in the graph's order: node[first[group] .. first[group + 1]). */
typedef struct Groups {
    uint32_t *first;
    NodeId *node;
} Groups;

/* ---- assemble.c ------------------------------------------------------------------------------ */

/* What partitions are made of: the nodes that are left once rules that need no groups have been
 * applied. */
typedef struct {
    const Graph *g;
    Fusion f;
    uint32_t n;
    NodeId *node; /* [n]: of the graph, ascending */
    uint32_t *at; /* [node.n]: the other way round */
    Arena *scratch;
} FuseNodes;
FuseNodes fuse_nodes(const Graph *g, Arena *scratch, const FuseRules *rules);
/* The number of a node by its operator's label, the name in it, or its value; NO_SLOT: there is
 * none. */
uint32_t fuse_find(const FuseNodes *s, const char *name);
/* has g both nodes of a wish, and which are they? */
bool fuse_wished(const Graph *g, const FuseWish *wish, NodeId node[2]);
/* Nests of one operator, connected: of[n] the last of them; those of u: first[u], next[first[u]], …
 * NO_SLOT. */
typedef struct {
    uint32_t *of, *first, *next;
} FuseUnits;
FuseUnits fuse_operators(const FuseNodes *s);
/* group [s->n]: any numbers from 1 to ngroup; groups may not wait for each other. A group that no
 * kernel computes falls apart. */
Groups fuse_members(const FuseNodes *s, const uint32_t *group, uint32_t ngroup);
FusePlan fuse_assemble(const FuseNodes *s, Arena *a, const uint32_t *group, uint32_t ngroup);

/* ---- plan.c ---------------------------------------------------------------------------------- */
/* Edges of nodes that are not their own host: computed where their host reads them, or (host 0)
 * wherever they are read. */
void fuse_vanish(const Graph *g, FusePlan *p, const NodeId *host);
/* Edges that are neither inlined nor recomputed as the groups have them: inside of one, or between
 * two. */
void fuse_settle(const Graph *g, FusePlan *p);
/* Number groups from 1 in topological order; in: any number per group, 0 for nodes that are
 * recomputed everywhere. */
void fuse_number(const Graph *g, Arena *a, FusePlan *p);
/* The nodes of each group, in the graph's order: node[first[group] .. first[group + 1]). */
Groups fuse_groups(const Graph *g, Arena *a, const FusePlan *p);
/* Those of a group's nodes [n] that stay, the parts of its kernel, into host; how many. */
uint32_t fuse_hosts(const Fusion *f, const NodeId *node, uint32_t n, NodeId *host);
/* The two halves of fuse_illegal: what the plan's numbers break, and what its kernels do once
 * composed. */
const char *fuse_illegal_numbers(const Graph *g, const FusePlan *p);
const char *fuse_illegal_kernels(const Fusion *f, const Groups *groups);

#endif
