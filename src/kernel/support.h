/* support: the points outside of which a reduction of a kernel adds nothing.
 *
 *     s[h, i, j] = (sum d: q[h, i, d] * k[h, j, d]) + (j <= i ? 0 : -inf)
 *     m[h, i]    = max j: s[h, i, j]                            support along j: 0 <= j < i + 1
 *     e[h, i, j] = exp(s[h, i, j] - m[h, i])
 *     o[h, i, d] = sum j: e[h, i, j] * v[h, j, d]               the same
 *
 * A comparison of indices bounds the support if the summand is the combiner's identity wherever the
 * comparison is false. Operands from other parts are followed to their definitions. A schedule may
 * then skip the other points (the step `skip`): sums have the same bits.
 *
 * A sum in the arm of a select has no support in rows where the select takes the other arm:
 *
 *     o[s, i, j] = i < len[s] ? (sum k: a[s, i, k] * b[s, k, j]) : 0
 *
 * If only data know, a table of blocks says what is seen: `seen(used[i // 16, j // 16] != 0, …)` in
 * the value of a score (normalise/block_mask.c). The step `omit` skips blocks of a sum and its
 * maximum that no row of a task sees.
 *
 * What is skipped is assumed to be finite: 0 times an infinity or a NaN that a mask hides would be
 * a NaN. In an exact context nothing has a support.
 */
#ifndef TENON_SUPPORT_H
#define TENON_SUPPORT_H

#include "kernel/kernel.h"

#define SUPPORT_MAX_BOUNDS 8 /* limit: further bounds are not used */

/* The points of the axis from `at` on, those below `at`, or all if `at` >= 0 and else none. Lengths
 * from arguments are computed variables, of loads whose slots are buffers of the kernel. */
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
 * -inf). Cost: one walk over the summand's operands for each comparison in it. */
bool kernel_support(Ctx *c, Arena *a, const Kernel *k, uint32_t part, uint32_t axis, Support *out);

/* Of the reduction of part `part`: the element of an integer table that is 0 where its summand adds
 * nothing (hidden, for a maximum; 0, for a sum, if its maximum is finite). By the part's axes, as a
 * load whose slot is a buffer of the kernel. NULL: no table. */
const Scalar *kernel_support_table(Ctx *c, Arena *a, const Kernel *k, uint32_t part, uint32_t axis);

/* The hull of the support over all rows of a box: *lo <= point < *hi, both within [0, extent).
 * row_lo, row_width [naxis]: the box, by the part's axes. */
void support_hull(Ctx *c, const Support *s, const Expr *extent, uint32_t naxis,
                  const Expr *const *row_lo, const Expr *const *row_width, const Expr **lo,
                  const Expr **hi);

#endif
