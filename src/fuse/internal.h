/* What the files of fuse share. */
#ifndef TENON_FUSE_INTERNAL_H
#define TENON_FUSE_INTERNAL_H

#include "fuse/fuse.h"

/* Instructions of one composed expression. To store an element and read it again takes as long as 40 of
 * them where memory is slow and a few where a cache holds it: beyond some hundreds fusing saves little, while
 * C compilers take a millisecond for each. */
#define FUSE_MAX_CODE 256
#define FUSE_MAX_PARTS 32            /* parts of one kernel */
#define FUSE_MAX_ROW (1 << 20)       /* elements of a local between parts, per trip, where known */

/* A nest and the graph's value behind each parameter. */
typedef struct { const Nest *nest; ValueId *value; } Piece;

typedef struct {
    bool elementwise;                /* plain writes, no reduction, no scan */
    bool view;                       /* elementwise, and the value is one bare read */
    bool index_only;                 /* elementwise, and reads nothing */
    bool conditional;                /* a read stands under a condition */
    bool computed;                   /* an index comes from data */
    bool reduces, contraction, row;  /* row: plain reduction whose every reduced read is disjoint */
    uint32_t full;                   /* elementwise: reads that are not broadcast */
    uint32_t work;                   /* of one point: additions and products 1, divisions 4, functions 16 */
} NestTraits;

/* Who makes plans has rules on what vanishes where; who carries one out has none. */
typedef struct Fusion Fusion;
typedef struct {
    void (*begin)(Fusion *f);        /* once nothing has vanished yet */
    /* Why `p` should not vanish into `host`, where `after` would be the result and nhost hosts take it; NULL if it should. */
    const char *(*refuse)(Fusion *f, NodeId p, NodeId host, const Nest *after, uint32_t nhost);
} FuseRules;
extern const FuseRules fuse_rules;   /* those of the greedy plan (rules.c) */

/* The state of composing: what each node computes once others have vanished into it. */
struct Fusion {
    const Graph *g;
    Ctx *ctx;
    Arena *arena;
    const FusePlan *plan;            /* to be carried out; with rules: its groups are kept to. NULL: free */
    const FuseRules *rules;          /* NULL: the plan's edges say what vanishes where */
    const char *refused;             /* what the plan wants first that cannot be, and why; NULL: nothing */
    Users users;
    bool *visible;                   /* [value.n]: an output of the graph */
    Piece *piece;                    /* [node.n] */
    NodeId *host;                    /* [node.n]: itself, the one node it vanished into, or 0: into several */
    VEC(NodeId) *readers;            /* [value.n]: hosts that read the value, or did before simplifying */
    VEC(FuseEdge) *edges;            /* [value.n]: how it comes to each of those, beside readers */
    VEC(ValueId) *reads;             /* [node.n]: of hosts: the same, the other way round */
    Map reader_at;                   /* of a value and a host that reads it: where it stands in readers, plus 1 */
    NestTraits *traits;              /* [node.n] … */
    const Nest **traits_of;          /* [node.n]: … of this nest */
    NodeId *seen;                    /* [node.n]: scratch */
    bool *finishes;                  /* [node.n]: elementwise, an epilogue of a reduction before it */
    bool *rowish;                    /* [node.n]: a row reduction, or elementwise from its results */
    const char **why;                /* [node.n] */
};

/* ---- prepare.c ------------------------------------------------------------------------------- */
Piece fuse_prepare(const Graph *g, Arena *a, NodeId n);      /* one-element constants become numbers */

/* ---- rules.c ----------------------------------------------------------------------------------- */
NestTraits fuse_kind(Ctx *c, const Nest *n);                 /* elementwise, reduces, contraction; the rest unset */
bool fuse_is_view(Ctx *c, const Nest *n);
const NestTraits *fuse_traits_of(Fusion *f, NodeId n);       /* of its piece as it is now; kept until that changes */
/* Why p cannot vanish into a host that would be `after`, whether it pays or not; NULL if it can. */
const char *fuse_cannot(Fusion *f, NodeId p, const Nest *after);

/* ---- compose.c ---------------------------------------------------------------------------------- */
Fusion fuse_compose(const Graph *g, Arena *a, const FusePlan *plan, const FuseRules *rules);
/* Depth of the parallel axes that these hosts can share: see kernel.h. */
uint32_t fuse_shared(const Fusion *f, const NodeId *host, uint32_t n);
/* The least depth that the plan says of an edge between them; 0: it says none. */
uint32_t fuse_depth(const Fusion *f, const NodeId *host, uint32_t n);

/* ---- apply.c --------------------------------------------------------------------------------------- */
/* The kernel that a group becomes, in f's arena, and which of its inputs are constants. */
struct Groups;
const Kernel *fuse_kernel(const Fusion *f, const struct Groups *groups, uint32_t group, const bool **constant);

/* ---- plan.c --------------------------------------------------------------------------------------- */
const char *fuse_label(const Graph *g, NodeId n);
/* Edges that are neither inlined nor recomputed as the groups have them: inside of one, or between two. */
void fuse_settle(const Graph *g, FusePlan *p);
/* Number groups from 1 in topological order; in: any number per group, 0 for nodes that are recomputed everywhere. */
void fuse_number(const Graph *g, Arena *a, FusePlan *p);
/* The nodes of each group, in the graph's order: node[first[group] .. first[group + 1]). */
typedef struct Groups { uint32_t *first; NodeId *node; } Groups;
Groups fuse_groups(const Graph *g, Arena *a, const FusePlan *p);
/* Those of a group that stay, the parts of its kernel, into host; how many. */
uint32_t fuse_hosts(const Fusion *f, const Groups *groups, uint32_t group, NodeId *host);
/* The two halves of fuse_illegal: what the plan's numbers break, and what its kernels do once composed. */
const char *fuse_illegal_numbers(const Graph *g, const FusePlan *p);
const char *fuse_illegal_kernels(const Fusion *f, const Groups *groups);

#endif
