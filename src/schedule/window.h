/* window: properties of a part that sums over a small window sliding over its outputs, for the
 * writers of programs. */
#ifndef TENON_WINDOW_H
#define TENON_WINDOW_H

#include "schedule/write.h"

/* The axes that a window sums over, and their number of points. */
typedef struct {
    uint32_t axis[NEST_MAX_AXES], n;
    int64_t points;
} WindowSums;

/* The operand that slides under a sum (or maximum) of at most `most` points, written along an axis:
 * *last. NULL: none. */
const Scalar *window_read(Low *l, const Scalar *reduce, int64_t most, WindowSums *sums,
                          uint32_t *last);
/* The outputs that neither slide over the image nor are lanes, into outer[]; their number. */
uint32_t window_outer(const Nest *n, const InputTile *image, AxisSet lanes, uint32_t *outer);

#endif
