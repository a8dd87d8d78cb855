/* number: the arithmetic of values, one for constants that are folded and for the interpreter. */
#ifndef TENON_NEST_NUMBER_H
#define TENON_NEST_NUMBER_H

#include "nest/scalar.h"

/* r = op(x, y, z) on arguments of type t, rounded to the result's type; for SELECT, x is the
 * condition. False where the operation has no meaning at t. */
bool number_op(ScalarOp op, DType t, Number x, Number y, Number z, Number *r);
/* acc[0..n) combined with v[0..n): n is 1 except for argmax and argmin. */
void number_combine(Combiner k, DType t, uint32_t n, Number *acc, const Number *v);

/* The value of an S_CONST. */
static inline Number
scalar_value(const Scalar *s)
{
    Number v;
    v.i = s->u.bits; /* a double's bits, or the integer itself */
    return v;
}

#endif
