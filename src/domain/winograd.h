/* winograd: a convolution of stride 1 in a Winograd domain.
 *
 * One output of a window of 3 takes 3 multiplications; m adjacent ones take m + 2 instead of 3 * m,
 * by evaluating polynomials at m + 2 points. Along two axes that is a batched GEMM between small
 * constant contractions:
 *
 *     o[n, y, z, k] = sum q, r, s: x[n, y + r - 1, z + s - 1, q | 0] * w[k, q, r, s]
 *
 * with tiles of m x m outputs, y being m*y + i and z being m*z + j, and with three constant
 * matrices, g [m+2, 3], b [m+2, m+2] and a [m, m+2], becomes
 *
 *     "across"   f[a, s, q, k]          = sum r: g[a, r] * w[k, q, r, s]
 *     "filter"   u[a, b, q, k]          = sum s: g[b, s] * f[a, s, q, k]        once if constant
 *     "rows"     t[n, y, a, z, q]       = sum p: b[a, p] * x[n, m*y + p - 1, z, q | 0]
 *     "columns"  v[a, b, n, y, z, q]    = sum p: b[b, p] * t[n, y, a, m*z + p - 1, q | 0]
 *     "product"  p[a, b, n, y, z, k]    = sum q: v[a, b, n, y, z, q] * u[a, b, q, k]
 *     "back"     c[a, n, y, z, j, k]    = sum p: a[j, p] * p[a, p, n, y, z, k]
 *     "out"      o[n, y, i, z, j, k]    = epilogue(sum p: a[i, p] * c[p, n, y, z, j, k])
 *
 * If m does not divide the image, the step before the last makes complete tiles ("tiles"), and the
 * last one reads the image out of them.
 *
 * A window with a stride of its own width s, a pooling, stays within a tile if s divides m:
 *
 *     "window"   l[n, y, i, z, j, k]    = max r, s: o[n, y, 2*i + r, z, 2*j + s, k]
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

/* An input of a step: the nest's input i is i; then come the matrices, then the results of
 * steps. */
typedef struct {
    const Nest *nest;
    const uint32_t *from;
} WinogradNest;
typedef struct Winograd {
    uint32_t tile; /* m */
    const Nest *direct;
    uint32_t filter;    /* the input of `direct` that is w */
    const Scalar *load; /* its read there … */
    /* … the filter's axes without the window's, the summed ones, the window's */
    AxisSet own, sum;
    uint32_t window[2];
    const Type *matrix_type[MATRIX_COUNT];
    const float *matrix[MATRIX_COUNT];
    /* the last one makes the output; unneeded steps have no nest */
    uint32_t nstep;
    WinogradNest step[WINOGRAD_MAX_STEPS];
} Winograd;

/* The steps of nest n for tiles of m x m, 2, 4 or 6. False, quietly: not a contraction in f32 with
 * a window of 3 x 3 and stride 1 over two axes. The axes may have any extent, a batch too. */
bool nest_winograd(Ctx *c, const Nest *n, uint32_t m, Winograd *out);

/* The same with `window` after it, whose only input is n's output. False, quietly, also if its
 * outputs do not stay within tiles, or n's epilogue varies over the image. */
bool nest_winograd_window(Ctx *c, const Nest *n, const Nest *window, uint32_t m, Winograd *out);

/* The error of the domain: the largest error of some outputs of a random image, relative to the
 * largest output, computed in floats. w: the filter's contents. */
double winograd_error(Arena *a, const Winograd *k, const void *w);
#endif
