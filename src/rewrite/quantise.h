/* quantise: the numbers of one tensor, stored in fewer bits. */
#ifndef TENON_QUANTISE_H
#define TENON_QUANTISE_H

#include "type/type.h"

typedef struct {
    DType dtype; /* BF16, F16, I8, I4 */
    uint32_t rank;
    const int64_t *extent;    /* [rank] of the tensor */
    bool summed[TN_MAX_RANK]; /* dimensions that its readers sum over: they share scales */
    /* of those, the one that groups cut, and words of 4 bits lie along */
    uint32_t dim;
    int64_t group; /* elements of a group; 0: all */
    /* I4: neighbours along `dim` share one, U8 or I32, the first in its low bits, 8 added to each;
     * NONE: a byte each */
    DType word;
    /* as integer_matmul.c wants them: I8 as U8, 128 added; of eight in a word 4*p + e at bits
     * 8*e + 4*p */
    bool dots;
} Quantising;

/* Extents of what is stored, and of its scales: 0 of those that there are none of. */
void quantise_stored(const Quantising *q, int64_t *extent);
void quantise_scales(const Quantising *q, int64_t *extent);

/* of squares, as a share of w's; the largest, as a share of w's largest */
typedef struct {
    double relative, largest;
} QuantisingError;

/* w as integers of scales (of `scale_type`, larger by the largest magnitude in each group), or as
 * shorter floats. False: an element is no number, or larger than the type holds. */
bool quantise(Arena *scratch, const Quantising *q, const float *w, DType scale_type, void *stored,
              void *scale, QuantisingError *error);

#endif
