/* What the files of domain share: steps as values over one list of axes. */
#ifndef TENON_DOMAIN_INTERNAL_H
#define TENON_DOMAIN_INTERNAL_H

#include "winograd/winograd.h"

/* An axis of the image that a window slides along, or that a pooling strides over. */
typedef struct {
    uint32_t dim;          /* of what x reads */
    uint32_t axis;         /* of the outputs; once cut, of tiles … */
    uint32_t place;        /* … and of the outputs in a tile */
    uint32_t window;       /* the window's */
    int64_t first, points; /* of the window; outputs in a tile */
    const Expr *tiles;
} Side;

/* A nest on its way into the domain. Loads have sources as slots. */
typedef struct {
    Ctx *ctx;
    Winograd *to;
    uint32_t m, t; /* outputs and points of a tile */
    const Nest *n;
    const Scalar *inner; /* the part of its value that steps replace: a sum of x times w */
    const Scalar *x, *w;
    AxisSet sum; /* of the sum */
    uint32_t nside;
    Side side[WINOGRAD_MAX_SIDES];   /* the outermost first */
    Binding cut[WINOGRAD_MAX_SIDES]; /* their outputs: points * tile + place */
    /* n's axes, then places, from `point` on the points of each side, then p */
    Axis axis[NEST_MAX_AXES];
    uint32_t naxis, point, p;
} WinogradBuild;

/* Where to a step writes. */
typedef struct {
    uint32_t rank;
    const Expr *at[TN_MAX_RANK], *dim[TN_MAX_RANK];
} Target;

/* The matrices for tiles of to->tile outputs. (winograd_matrix.c) */
void winograd_matrices(Ctx *c, Winograd *to);
/* Adds the step target = value, at all points of n axes, and simplifies it. False: no nest,
 * reported. (winograd_step.c) */
bool winograd_step(const WinogradBuild *k, WinogradGroup group, const char *name,
                   const Scalar *value, uint32_t n, const uint32_t *axis, const Target *target);
/* The read of the last step's result. */
const Scalar *winograd_last(const WinogradBuild *k, uint32_t rank, const Expr *const *at,
                            const Scalar *outside);
/* The type of what a load reads. */
const Type *winograd_type(const Winograd *w, uint32_t source);

#endif
