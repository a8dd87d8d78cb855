/* input_tile: the padded input tile of a sliding window, copied to scratch so that every window
 * point is a shift.
 *
 * A read whose index in some dimensions is stride * y + reach + rest (y a parallel axis, reach a
 * sum over window axes) visits rows and columns at a stride, beyond the edges, again and again. In
 * the copy the elements of each stride phase are contiguous and the padding is in place:
 *
 *     x[c, 2*y + r - 1, 2*z + s - 1 | 0]
 *
 * becomes
 *
 *     stage[c, r % 2, s % 2, (y + r // 2) * pitch + z + s // 2]
 *
 * so for a fixed window point the outputs y, z in row-major order over rows of `pitch` are
 * contiguous: plain vectors, across the ends of rows. (The few positions at the end of a row that
 * are no output are computed and dropped; they are as few as possible, since the padding after a
 * row is that before the next one.)
 *
 * The copied value may be more than a tensor: what was fused into the operand (a slice, a
 * concatenation, a function) is computed once for each position. It may vary with a window's axes
 * by its positions alone. If it is a constant outside of some range of positions, by a read's
 * padding or a test, only that range is computed.
 */
#ifndef TENON_SCHEDULE_INPUT_TILE_H
#define TENON_SCHEDULE_INPUT_TILE_H

#include "schedule/internal.h"

enum { MAX_SLIDE = 4 }; /* sliding dimensions */

typedef struct {
    uint32_t dim;  /* of the read */
    uint32_t axis; /* the parallel axis that slides */
    /* index at axis 0, window point 0: minus the padding; may vary with fixed axes */
    const Expr *rest;
    /* the index is no sum of axes, and these are part of it */
    bool inside;
    /* index = scale * (stride * axis + reach) + rest: the common factor of all strides */
    int64_t scale;
    const Expr *reach; /* by the window's axes */
    /* bounds of stride * axis + reach: outside of them the value is `fill`; NULL: unbounded */
    const Expr *lo, *hi;
    int64_t stride, span; /* the window reaches 0 .. span - 1 beyond */
    int64_t phases;       /* residues of reach modulo stride that occur */
    /* positions of a phase in the copy: outputs + (span - 1) // stride */
    const Expr *positions;
    const Expr *pitch; /* elements of the copy between neighbours along it */
} Slide;

typedef struct {
    /* of the nest: the read that identifies the window */
    const Scalar *load;
    /* the copied value; the axis of a slide stands for stride * axis + reach in it */
    const Scalar *value;
    const Scalar *fill; /* the value outside; NULL: none */
    /* in the order of the read's dimensions; the last one has pitch 1 */
    Slide slide[MAX_SLIDE];
    uint32_t nslide;
    /* points of padding shared by a row and the next */
    int64_t shared;
    uint32_t outer[NEST_MAX_AXES], nouter; /* sum axes that are no window axes: one plane each */
    /* axes whose points are contiguous at each position: channels that are innermost */
    uint32_t inner[NEST_MAX_AXES], ninner;
    AxisSet window; /* sum axes in a reach */
    /* made when it is lowered: the first position of slide 0 in the copy; and while the copy is
     * made, the position and the phase of each slide, and the value there (NULL: `value`) */
    const Expr *first, *position[MAX_SLIDE], *phase[MAX_SLIDE];
    const Scalar *padding;
} InputTile;

/* The part of a summand that slides: one read, or a test of its position, or a combination of
 * several. NULL: none. */
const Scalar *input_tile_operand(Low *l, const Scalar *summand, AxisSet sum);
/* Can this operand be copied so? `sum` are the reduced axes; parallel axes slide if a window axis
 * is added to them, and those in `wanted` anyway; none that is `fixed` at the copy: a group of
 * channels, a phase of a transposed convolution. Those in `inner`, each a step of one in a
 * dimension after all that slide, are contiguous at each position. */
typedef struct {
    AxisSet sum, wanted, fixed, inner;
} InputTileAxes;
bool input_tile_recognise(Low *l, const Scalar *operand, InputTileAxes axes, InputTile *s);
/* The axis that alone indexes dimension d with stride 1, apart from fixed axes; NO_SLOT: none. */
uint32_t input_tile_inner(Low *l, const Scalar *load, uint32_t d, AxisSet fixed);
/* The end of the positions of a slide that have a value. */
const Expr *stage_end(Low *l, const Slide *d);

#endif
