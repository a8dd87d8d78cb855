/* winograd: a convolution of stride 1 in a Winograd domain.
 *
 * One output of a window of 3 takes 3 multiplications; m adjacent ones take m + 2 instead of 3 * m,
 * by evaluating polynomials at m + 2 points. With constant matrices g [m+2, 3], b [m+2, m+2] and
 * a [m, m+2], that is a rule for a sum along one axis, y being tiles of m outputs and i < m:
 *
 *     o[m*y + i] = epilogue(sum r: x[m*y + i + r - 1 | 0] * w[r])
 *
 *     filter   u[a]        = sum r: g[a, r] * w[r]                       once if constant
 *     image    v[y, a]     = sum p: b[a, p] * x[m*y + p - 1 | 0]
 *     product  t[a, y]     = v[y, a] * u[a]
 *     back     o[m*y + i]  = epilogue(sum p: a[i, p] * t[p, y])
 *
 * Summed over channels and over other windows, the product is a convolution along the remaining
 * axes of the window, so the rule applies to it again. A window of 1 x 3 takes one step of each
 * kind; a window of 3 x 3 takes two filter steps, two image steps, a batched matrix multiplication,
 * and two steps back:
 *
 *     f[a, s, q, k]        = sum r: g[a, r] * w[k, q, r, s]
 *     u[a, b, q, k]        = sum s: g[b, s] * f[a, s, q, k]
 *     h[n, y, a, z, q]     = sum p: b[a, p] * x[n, m*y + p - 1, z, q | 0]
 *     v[a, b, n, y, z, q]  = sum p: b[b, p] * h[n, y, a, m*z + p - 1, q | 0]
 *     t[a, b, n, y, z, k]  = sum q: v[a, b, n, y, z, q] * u[a, b, q, k]
 *     c[a, n, y, z, j, k]  = sum p: a[j, p] * t[a, p, n, y, z, k]
 *     o[n, y, i, z, j, k]  = epilogue(sum p: a[i, p] * c[p, n, y, z, j, k])
 *
 * If m does not divide the image, the last step back makes the sums of complete tiles, and the step
 * "crop" reads the image out of them.
 *
 * A window with a stride of its own width s, a pooling, stays within a tile if s divides m:
 *
 *     l[n, y, u, z, v, k]  = max r, s: o[n, y, 2*u + r, z, 2*v + s, k]
 *
 * Source: Lavin and Gray, arXiv 1509.09308, 2015. Rounding errors grow with the tile; an infinity
 * in the image makes its whole tile a NaN.
 */
#ifndef TENON_WINOGRAD_H
#define TENON_WINOGRAD_H

#include "nest/nest.h"

enum {
    WINOGRAD_WINDOW = 3,
    WINOGRAD_MAX_TILE = 6,  /* outputs along one axis of the image */
    WINOGRAD_MAX_SIDES = 3, /* axes of the image; further ones are summed as they are */
    WINOGRAD_MAX_STEPS = 3 * WINOGRAD_MAX_SIDES + 3,
    WINOGRAD_MAX_SOURCES = 64
};

typedef enum { MATRIX_FILTER, MATRIX_IMAGE, MATRIX_BACK, MATRIX_COUNT } WinogradMatrix;
typedef enum {
    WINOGRAD_FILTER,
    WINOGRAD_IMAGE,
    WINOGRAD_PRODUCT,
    WINOGRAD_BACK, /* the epilogue and a window after it too */
    WINOGRAD_CROP,
    WINOGRAD_GROUPS
} WinogradGroup;
extern const char *const winograd_group_name[WINOGRAD_GROUPS];

/* A step. Input i of its nest is from[i]: the direct nest's inputs, then the matrices, then the
 * results of steps. */
typedef struct {
    WinogradGroup group;
    const Nest *nest;
    const uint32_t *from;
} WinogradNest;
typedef struct Winograd {
    uint32_t tile; /* m */
    const Nest *direct;
    const Scalar *sum, *image, *load; /* its sum of products; its reads of the image and of w */
    uint32_t filter;                  /* the input that is w */
    uint32_t nside;
    AxisSet sides; /* axes of the image that the rule is applied to */
    const Type *matrix_type[MATRIX_COUNT];
    const float *matrix[MATRIX_COUNT];
    /* each after those that it reads; the last one makes the output */
    uint32_t nstep;
    WinogradNest step[WINOGRAD_MAX_STEPS];
} Winograd;

/* The steps of nest n for tiles of m outputs along each axis, 2, 4 or 6, with `window` after it,
 * whose only input is n's output; NULL: none. False, quietly: n is not a contraction in f32 with a
 * window of 3 and stride 1 over some axis; outputs of `window` do not stay within tiles, or n's
 * epilogue varies over the image. The axes may have any extent, a batch too. */
bool nest_winograd(Ctx *c, const Nest *n, const Nest *window, uint32_t m, Winograd *out);

/* The error of the domain: the largest error of some outputs of a random image, relative to the
 * largest output, computed in floats. w: the filter's contents. */
double winograd_error(Ctx *c, Arena *a, const Winograd *k, const void *w);
#endif
