/* integer_matmul: turn matmuls by low-precision constants into integer matmuls
 * (integer_matmul.c). */
#ifndef TENON_REWRITE_INTEGER_MATMUL_H
#define TENON_REWRITE_INTEGER_MATMUL_H

#include "rewrite/quantise.h"
#include "rewrite/rewrite.h"

typedef struct {
    const Graph *from;
    Graph *to;
    /* (value, summed dimension) -> its scales and integers, which all matmuls share */
    Map made;
} Dots;

/* A matmul with one constant operand, and the constants of `to` that store the operand. */
typedef struct {
    const Node *node;
    Contraction k;
    const Scalar *weights, *other; /* the reads of the constant and of the other operand */
    const Quantising *q;
    ValueId stored, scale;
} DotProduct;

/* Can the matmul be one of integers? Its sum must be over one axis, a complete dimension of both
 * reads, and its groups must consist of quads. *other: the read of the other operand. */
bool dots_fit(Ctx *c, const Nest *n, const Contraction *k, const Scalar *weights,
              const Quantising *q, const Scalar **other);
/* Extents of the stored constant: those of quantise_stored, except that bytes split the summed
 * dimension in two, quads and elements of a quad. Returns the rank. */
uint32_t dots_extents(const Quantising *q, int64_t *extent);
/* Call the nests that compute the matmul. False with a diagnostic. */
bool dots_call(Dots *d, const DotProduct *p, ValueId *map);

#endif
