/* support: outside of which points a reduction of a kernel adds nothing.
 *
 *     s[h, i, j] = (sum d: q[h, i, d] * k[h, j, d]) + (j <= i ? 0 : -inf)
 *     m[h, i]    = max j: s[h, i, j]                            support along j: from 0 on, below i
 *     + 1 e[h, i, j] = exp(s[h, i, j] - m[h, i])
 *     o[h, i, d] = sum j: e[h, i, j] * v[h, j, d]               the same
 *
 * A comparison of indices bounds the support where the summand is the combiner's identity wherever
 * the comparison is false. What the summand reads of other parts is followed to what they compute.
 * A schedule may then leave out the other points (the step `skip`): sums have the same bits.
 *
 * A sum that stands in the arm of a choice has no support in rows where the choice takes the other:
 *
 *     o[s, i, j] = i < len[s] ? (sum k: a[s, i, k] * b[s, k, j]) : 0
 *
 * Where only data know, a table of blocks says what is seen: `seen(used[i // 16, j // 32] != 0, …)`
 * in the value of a score (normalise/mask.c). The step `omit` passes over blocks of a sum and its
 * maximum of which no row of a task sees anything.
 *
 * What is left out is taken for finite: 0 times an infinity or a NaN that a mask hides would be a
 * NaN. Where a context is exact nothing has a support.
 */
#ifndef TENON_SUPPORT_H
#define TENON_SUPPORT_H

#include "nest/kernel.h"

#define SUPPORT_MAX_BOUNDS 8 /* named limit: further ones are not used */

/* Of the points of the axis: those from `at` on, those below `at`, or all where `at` >= 0 and else
 * none. Numbers that the caller gives (lengths) are computed variables, of loads whose slots are
 * buffers of the kernel. */
typedef enum { SUPPORT_FROM, SUPPORT_BELOW, SUPPORT_IF } SupportKind;
typedef struct {
    SupportKind kind;
    const Expr *at;
} SupportBound;

/* All bounds hold. Expressions over the other axes of the part. */
typedef struct {
    uint32_t n;
    SupportBound bound[SUPPORT_MAX_BOUNDS];
} Support;

/* Of the reduction of part `part`, along its axis `axis`. False: no comparison bounds it, or some
 * row may have no point in it and its result depend on the points outside (a softmax of nothing but
 * -inf). Cost  one walk of what the summand is computed of, for each comparison there. */
bool kernel_support(Ctx *c, Arena *a, const Kernel *k, uint32_t part, uint32_t axis, Support *out);

/* Of the reduction of part `part`: the element of a table of whole numbers, which is 0 where its
 * summand adds nothing: is hidden, of a maximum, or is 0, of a sum, if the maximum that it is made
 * with is finite. By the part's axes, as a load whose slot is a buffer of the kernel. NULL: no
 * table says so. */
const Scalar *kernel_support_table(Ctx *c, Arena *a, const Kernel *k, uint32_t part, uint32_t axis);

/* The points that any row of a box has in the support: from *lo on, below *hi; both within [0,
 * extent). row_lo, row_width [naxis]: the box, by the part's axes. */
void support_hull(Ctx *c, const Support *s, const Expr *extent, uint32_t naxis,
                  const Expr *const *row_lo, const Expr *const *row_width, const Expr **lo,
                  const Expr **hi);

#endif
