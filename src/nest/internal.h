/* What the files of nest share. */
#ifndef TENON_NEST_INTERNAL_H
#define TENON_NEST_INTERNAL_H

#include "nest/walk.h"

/* ---- scalar_table.c -------------------------------------------------------------------------- */

/* The node equal to `proto` with these operands: the existing one, or a new one. */
const Scalar *scalar_intern(Ctx *c, const Scalar *proto, const Scalar *const *arg);
/* What a context remembers of its Scalars. */
typedef struct {
    Map computed;     /* to the Expr variable that stands for one */
    Map nodes, loads; /* to the lists below one; nodes: also below an Expr (scalar_list.c) */
} ScalarNotes;
ScalarNotes *scalar_notes(Ctx *c);

#endif
