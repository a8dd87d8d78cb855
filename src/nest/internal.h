/* What the files of nest share. */
#ifndef TENON_NEST_INTERNAL_H
#define TENON_NEST_INTERNAL_H

#include "nest/walk.h"

/* ---- decide.c -------------------------------------------------------------------------------- */

/* The Expr of a whole number; NULL, and *choice where one is in the way: it is none. */
const Expr *scalar_whole_number(Ctx *c, const Scalar *s, const Scalar **choice);

/* ---- scalar_table.c -------------------------------------------------------------------------- */

/* The node like `proto` with these operands: the one there is, or a new one. */
const Scalar *scalar_intern(Ctx *c, const Scalar *proto, const Scalar *const *arg);
Map *scalar_computed(Ctx *c); /* Scalar to the Expr that stands for it */

#endif
