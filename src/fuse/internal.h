/* What the files of fuse share. */
#ifndef TENON_FUSE_INTERNAL_H
#define TENON_FUSE_INTERNAL_H

#include "fuse/fuse.h"

#define FUSE_MAX_SCALARS 256         /* nodes of one composed expression: bounds compile time */
#define FUSE_MAX_PARTS 32            /* parts of one kernel */
#define FUSE_MAX_ROW (1 << 20)       /* elements of a local between parts, per trip, where known */

/* A nest and the graph's value behind each parameter. */
typedef struct { const Nest *nest; ValueId *value; } Piece;

/* The state of composing: what each node computes once others have vanished into it. */
typedef struct {
    const Graph *g;
    Ctx *ctx;
    Arena *arena;
    const FusePlan *plan;            /* keep to these groups; NULL: free */
    Users users;
    bool *visible;                   /* [value.n]: an output of the graph */
    Piece *piece;                    /* [node.n] */
    NodeId *host;                    /* [node.n]: itself, the one node it vanished into, or 0: into several */
    VEC(NodeId) *readers;            /* [value.n]: hosts that read the value, or did before simplifying */
    VEC(ValueId) *reads;             /* [node.n]: of hosts: the same, the other way round */
    bool *finishes;                  /* [node.n]: elementwise, an epilogue of a reduction before it */
    bool *rowish;                    /* [node.n]: a row reduction, or elementwise from its results */
    const char **why;                /* [node.n] */
} Fusion;

/* ---- prepare.c ------------------------------------------------------------------------------- */
Piece fuse_prepare(const Graph *g, Arena *a, NodeId n);      /* one-element constants become numbers */

/* ---- rules.c ----------------------------------------------------------------------------------- */
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
NestTraits fuse_traits(Ctx *c, Arena *a, const Nest *n);
/* Why `p` (with traits) should not vanish into `host`, where `after` would be the result and nhost
 * hosts take it; NULL if it should. */
const char *fuse_refuse(Fusion *f, NodeId p, NodeId host, const Nest *after, uint32_t nhost);
void fuse_mark_finishing(Fusion *f);

/* ---- compose.c ---------------------------------------------------------------------------------- */
Fusion fuse_compose(const Graph *g, Arena *a, const FusePlan *plan);
/* Depth of the parallel axes that these hosts share: see kernel.h. */
uint32_t fuse_shared(const Fusion *f, const NodeId *host, uint32_t n);

/* ---- plan.c --------------------------------------------------------------------------------------- */
/* Number groups from 1 in topological order; in: any number per group, 0 for copied nodes. */
void fuse_number(const Graph *g, Arena *a, FusePlan *p);

#endif
