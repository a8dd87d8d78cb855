/* What the files of nest share and others need not see. */
#ifndef TENON_NEST_INTERNAL_H
#define TENON_NEST_INTERNAL_H

#include "nest/nest.h"

/* ---- fold.c: the arithmetic of constants ---------------------------------------------------- */

/* A value of one element type: `f` for floats, `i` for integers and bool (u64 by its bits). */
typedef union { double f; int64_t i; } Number;

double round_to_dtype(DType t, double v);            /* nearest value of a float type, ties to even */
int64_t wrap_to_dtype(DType t, int64_t v);           /* two's complement; bool: 0 or 1 */
Number number_cast(DType to, DType from, Number v);
/* x[i] of type t; the result has the operation's type. False where the operation has no meaning at t. */
bool number_op(ScalarOp op, DType t, const Number *x, Number *result);

/* The value of an S_CONST. */
static inline Number
scalar_value(const Scalar *s)
{
    Number v;
    v.i = s->u.bits;                                 /* a double's bits, or the integer itself */
    return v;
}

static inline bool
scalar_is_const(const Scalar *s)
{
    return s->op == S_CONST;
}

#endif
