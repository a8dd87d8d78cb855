/* dots: products of integers for products by narrow constants, what they multiply made narrow as
 * well. */
#ifndef TENON_REWRITE_DOTS_H
#define TENON_REWRITE_DOTS_H

#include "rewrite/quantise.h"
#include "rewrite/rewrite.h"

typedef struct {
    const Graph *from;
    Graph *to;
    /* a value and its dimension that is summed over -> its scales and integers, made once for all
     * products */
    Map made;
} Dots;

/* A product whose one factor reads a constant, and how that is stored for it: constants of `to`. */
typedef struct {
    const Node *node;
    Contraction k;
    const Scalar *weights, *other; /* reads: of the constant, of what it multiplies */
    const Quantising *q;
    ValueId stored, scale;
} DotProduct;

/* Can it be one? Its sum is one axis, a whole dimension of both reads, which groups divide into
 * quads. *other: the read of what is not the constant. */
bool dots_fit(Ctx *c, const Nest *n, const Contraction *k, const Scalar *weights,
              const Quantising *q, const Scalar **other);
/* How it lies: as quantise_stored says, but for bytes, whose summed dimension is two, of quads and
 * of the four in one. */
uint32_t dots_extents(const Quantising *q, int64_t *extent);
/* Its calls; false with a diagnostic. */
bool dots_call(Dots *d, const DotProduct *p, ValueId *map);

#endif
