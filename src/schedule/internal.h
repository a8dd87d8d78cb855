/* What the files of schedule share: lowering the expressions of a nest into a loop tree. */
#ifndef TENON_SCHEDULE_INTERNAL_H
#define TENON_SCHEDULE_INTERNAL_H

#include "schedule/schedule.h"

/* A local that holds a box of its tensor: the tensor's dimensions in memory order, and the first
 * index along each. */
typedef struct {
    uint32_t rank, dim[TN_MAX_RANK];
    const Expr *lo[TN_MAX_RANK];
} LocalBox;

/* Which arguments use non-temporal stores, and whether all stores could. */
typedef enum { STREAM_NONE, STREAM_ASKED, STREAM_MADE, STREAM_TORN } Stream;

/* The state of lowering one part of a kernel: the loop expression of each axis, the values computed
 * already, and whether one axis runs over the lanes of vectors. */
typedef struct {
    Ctx *c;
    Arena *a;
    Kernel *k;
    const Machine *m;
    const Part *part;
    const Nest *n;
    const Expr *bind[NEST_MAX_AXES]; /* NULL: not bound yet */
    /* Scalar of the nest -> Scalar of the tree, already computed */
    Map value;
    Map *mapped;       /* nodes mapped by the low_value in progress */
    uint32_t lanes;    /* 1: scalar code */
    const Expr *valid; /* the number of lanes that exist; NULL: all */
    /* some read was made lane by lane since this was last cleared */
    bool by_lane;
    /* why there is no such vector; NULL: there is */
    const char *no_lanes;
    VEC(Range) range; /* of loop variables, for expr_simplify */
    /* [buffers]: the scratch of a SPACE_LOCAL, or the buffer itself */
    const uint32_t *home;
    /* [buffers]: the box that it holds; NULL: everything but the shared axes */
    LocalBox *const *box;
    Stream *stream; /* [nin + nout]; NULL: none */
} Low;

/* The variable of lanes while an expression is vectorised. */
#define LANE ((Var){ VAR_LOOP, UINT32_MAX })

Low low_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Part *part);

/* ---- axes (axes.c) --------------------------------------------------------------------------- */

const Expr *low_extent(Low *l, uint32_t axis); /* with outer axes bound */
const Expr *axes_product(Low *l, const uint32_t *axis, uint32_t n);
/* Are adjacent axes (outer, inner) one axis for every read below s, and for the write? Then outer
 * may be bound to 0 and inner to an index over the product of both extents. */
bool low_collapses(Low *l, uint32_t outer, uint32_t inner, const Scalar *const *value,
                   uint32_t nvalue, const Write *w);

/* ---- values (lower_value.c) ------------------------------------------------------------------ */

const Expr *low_expr(Low *l, const Expr *e);
bool low_uses_lane(const Expr *e); /* does it differ between lanes? */
/* The value at the bound axes; lanes 1, or l->lanes if it varies along the vector axis. Its
 * reductions must have been computed (low_reductions). */
const Scalar *low_value(Low *l, const Scalar *s);
/* The buffer in the tree of a parameter, and the index there of an index by the nest's axes, with
 * its rank. */
uint32_t low_place(Low *l, uint32_t slot, const Expr *const *at, uint32_t rank, const Expr **out,
                   uint32_t *buffer);
/* Store value at a nest's write, or at a physical index of a buffer (which may use LANE). */
void low_write(Low *l, Block *b, const Write *w, const Scalar *value);
void low_store(Low *l, Block *b, uint32_t buffer, const Expr *const *at, uint32_t rank,
               const Scalar *value);
/* Coefficient of a linear physical offset in an axis: NULL if not linear. Reads under a guard
 * count. */
const Expr *low_stride(Low *l, const Scalar *load, uint32_t axis);
/* Lanes of a vector of t; at most those of a 4-byte element. */
uint32_t low_lanes(const Low *l, DType t);

/* ---- reductions (lower_reduce.c) ------------------------------------------------------------- */

/* Statements that compute every reduction below s into registers. */
void low_reductions(Low *l, Block *b, const Scalar *const *s, uint32_t n);
const Scalar *low_combine(Ctx *c, Combiner k, const Scalar *acc, const Scalar *v);

#endif
