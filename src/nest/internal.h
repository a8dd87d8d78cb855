/* What the files of nest share. */
#ifndef TENON_NEST_INTERNAL_H
#define TENON_NEST_INTERNAL_H

#include "nest/walk.h"

/* ---- scalar_table.c -------------------------------------------------------------------------- */

/* The node equal to `proto` with these operands: the existing one, or a new one. */
const Scalar *scalar_intern(Ctx *c, const Scalar *proto, const Scalar *const *arg);
Map *scalar_computed(Ctx *c); /* Scalar to its computed Expr variable */

#endif
