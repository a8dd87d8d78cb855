/* What the files of algebra share. */
#ifndef TENON_ALGEBRA_INTERNAL_H
#define TENON_ALGEBRA_INTERNAL_H

#include "algebra/algebra.h"
#include "nest/walk.h"

/* ---- identity.c ------------------------------------------------------------------------------ */

/* s, or a cheaper expression with the same value. */
const Scalar *scalar_identity(Ctx *c, const Scalar *s);

/* The answer that a comparison of whole numbers has at all points of the ranges; UNKNOWN: it
 * varies, or no proof. (fold_comparisons.c) */
Tri scalar_fold_comparisons(Ctx *c, const Ranges *r, const Scalar *cond);

/* n's axes as dimensions of a tensor. (outline.c) */
const Type *type_along(Ctx *c, const Nest *n, DType t, const uint32_t *axis, uint32_t rank);
/* p[axis…] = s, a nest of n's inputs; axis [rank]: all that s varies with. (outline.c) */
const Nest *nest_along(Ctx *c, const Nest *n, const Scalar *s, const uint32_t *axis, uint32_t rank,
                       const char *name);

/* ---- dot2.c ---------------------------------------------------------------------------------- */

/* The least and the greatest value of an integer; false: more than 32 bits, or unknown. */
bool scalar_int_range(const Scalar *s, int64_t *least, int64_t *most);
/* A factor at `count` adjacent points of an axis as one number of 32 bits, the first in the lowest
 * bits; the axis then counts such numbers. Points beyond `extent` are 0, or repeat the last if
 * `beyond` allows anything. */
const Scalar *scalar_pack(Ctx *c, const Scalar *factor, uint32_t axis, int64_t extent, int count,
                          bool beyond);
/* The summed axis, among those along which both factors read bare dimensions, with the fewest steps
 * of `count` points, the last of equal ones, and its extent; NO_SLOT: none is longer than 1. */
uint32_t nest_packed_axis(Ctx *c, const Nest *n, const Contraction *view, int64_t count,
                          int64_t *extent);

#endif
