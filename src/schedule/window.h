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

typedef struct {
    Draft *w;
    Low *l;
    uint32_t part;
    const char *name; /* of what it makes */
    const Scalar *reduce;
    InputTile image;
    uint32_t outer[NEST_MAX_AXES], nouter; /* outputs that do not slide */
    WindowSums sums;
    int64_t lanes, across, down; /* of a vector; outputs of a row, and rows; -1: unknown */
} Window;

/* False: the part is none. */
bool window_of(Draft *wr, uint32_t part, Window *out);
/* Do the sums of a tile of that many rows and vectors fit the registers? */
bool window_fits(const Window *w, int64_t rows, int64_t vectors);
/* Splits the sliding loops for that, and names them and the window's in order… */
const char *window_loops(const Window *w, Text *t, int64_t rows, int64_t vectors, bool pad);
/* … and says how they run in that order: sums in registers, the padded input tile copied in loop
 * `plane`. */
void window_runs(const Window *w, Text *t, int64_t rows, int64_t vectors, const char *plane);

#endif
