/* winograd: a convolution of stride 1 in a transform domain.
 *
 * One point of the outputs of a window of 3 takes 3 multiplications; m of them side by side take m
 * + 2 instead of 3 * m, by evaluating polynomials at m + 2 points. Along two axes that is a batched
 * product between small constant contractions:
 *
 *     o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s]
 *
 * with tiles of m x m outputs, y being m*y + i and z being m*z + j, and with three constant
 * matrices, g [m+2, 3], b [m+2, m+2] and a [m, m+2], is
 *
 *     f[a, s, q, k]       = sum r: g[a, r] * w[k, q, r, s]                         the filter,
 *     computed once: "across" u[a, b, q, k]       = sum s: g[b, s] * f[a, s, q, k]
 *                                       "filter" t[n, y, a, z, q]    = sum p: b[a, p] * x[n, m*y +
 *                                       p - 1, z, q | 0]           the image, rows
 *                                       "rows"
 *     v[a, b, n, y, z, q] = sum p: b[b, p] * t[n, y, a, m*z + p - 1, q | 0]        and columns
 *               "columns" p[a, b, n, y, z, k] = sum q: v[a, b, n, y, z, q] * u[a, b, q, k]
 *                  (m+2)^2 products           "product"
 *     c[a, n, y, z, j, k] = sum p: a[j, p] * p[a, p, n, y, z, k]                   back, columns
 *               "back" o[n, y, i, z, j, k] = sum p: a[i, p] * c[p, n, y, z, j, k]
 *               and rows, and what stood around the sum
 *
 * Where m does not divide the image, the last step makes whole tiles ("tiles"), and one more reads
 * what there is of them.
 *
 * A window that reads the output in steps of its own width, a pooling, stays inside of a tile where
 * that width s divides m:
 *
 *     l[n, y, i, z, j, k] = max r, s: o[n, y, 2*i + r, z, 2*j + s, k]
 *               "window"
 *
 * Source: Lavin and Gray, arXiv 1509.09308, 2015. Rounding errors grow with the tile; an infinity
 * in the image makes its whole tile a NaN.
 */
#ifndef TENON_WINOGRAD_H
#define TENON_WINOGRAD_H

#include "nest/nest.h"

enum {
    WINOGRAD_WINDOW = 3,
    WINOGRAD_MAX_TILE = 6, /* outputs along one axis of the image */
    WINOGRAD_MAX_STEPS = 9
};

typedef enum { MATRIX_FILTER, MATRIX_IMAGE, MATRIX_BACK, MATRIX_COUNT } WinogradMatrix;
typedef enum {
    STEP_ACROSS,
    STEP_FILTER,
    STEP_ROWS,
    STEP_COLUMNS,
    STEP_PRODUCT,
    STEP_BACK,
    STEP_OUT,
    STEP_WINDOW,
    STEP_CROP
} WinogradStep;
extern const char *const winograd_step_name[WINOGRAD_MAX_STEPS];

/* Where an input of a step comes from: the nest's input i is i; behind these the matrices, then
 * what steps made. */
typedef struct {
    const Nest *nest;
    const uint32_t *from;
} WinogradNest;
typedef struct Winograd {
    uint32_t tile; /* m */
    const Nest *direct;
    uint32_t filter;    /* the input of `direct` that is w */
    const Scalar *load; /* its read there … */
    /* … the axes of it: all but the window's, summed ones, the window's */
    AxisSet own, sum;
    uint32_t window[2];
    const Type *matrix_type[MATRIX_COUNT];
    const float *matrix[MATRIX_COUNT];
    /* the last one makes the output; those that are not needed have no nest */
    uint32_t nstep;
    WinogradNest step[WINOGRAD_MAX_STEPS];
} Winograd;

/* The steps of nest n for tiles of m x m, 2, 4 or 6. False, quietly: it is no product with a window
 * of 3 x 3 that moves over two axes by one step at a time, or not of f32. The axes may be of any
 * length, a batch too. */
bool nest_winograd(Ctx *c, const Nest *n, uint32_t m, Winograd *out);

/* The same with `window` behind it, which reads what n makes as its only input. False, quietly,
 * also where its outputs do not lie inside of tiles, or where what stands around n's sum is not the
 * same for all of the image. */
bool nest_winograd_window(Ctx *c, const Nest *n, const Nest *window, uint32_t m, Winograd *out);

/* How far the domain is from the sum as it is written: the largest error of some outputs of a
 * random image, relative to the largest output, summed as floats. w: the filter's contents. */
double winograd_error(Arena *a, const Winograd *k, const void *w);
#endif
