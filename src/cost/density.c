/* density: what part of a sum's points a support leaves (kernel/support.h).
 *
 * Schedules cut a sum to the hull of what a tile of rows sees. Before there are tiles the hull of
 * one row, averaged over rows that are sampled evenly, says what is left. Bounds that only data
 * know leave a half, as where programs are priced, and so does a condition on rows.
 */
#include "cost/internal.h"
#include "kernel/support.h"

#include <math.h>

enum { SAMPLES = 32 }; /* rows; a triangle's share is exact to 1 in 64 */

/* A larger share is what the borders of an image leave of a window: it saves less than a loop loses
 * whose trips are not known. */
static const double WHOLE = 0.9;

/* The place of sample i along axis `axis`: axes step through their extents in different orders, so
 * that bounds of several axes are not sampled along a diagonal alone. */
static int64_t
sample(int64_t extent, uint32_t i, uint32_t axis)
{
    uint32_t at = i * (2 * axis + 1) % SAMPLES;

    return (int64_t)(((double)at + 0.5) / SAMPLES * (double)extent);
}

static double
share_of_axis(Ctx *c, Arena *a, const Nest *n, const Kernel *k, uint32_t axis)
{
    const Expr *row[NEST_MAX_AXES], *one[NEST_MAX_AXES], *lo, *hi;
    double extent = cost_expected_size(c, n->axis[axis].extent), left = 0;
    Support s;

    if (extent < 1 || !kernel_support(c, a, k, 0, axis, &s))
        return 1;
    double share = 1, bounds = 1; /* of what data know */
    for (uint32_t i = 0; i < s.n; i++)
        if (expr_uses_kind(s.bound[i].at, VAR_COMPUTED))
            *(s.bound[i].kind == SUPPORT_IF ? &share : &bounds) *= 0.5;
    if (share * bounds < 1)
        return share * fmax(bounds, 0.5);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        for (uint32_t x = 0; x < n->naxis; x++) {
            row[x] = expr_int(c, sample((int64_t)cost_expected_size(c, n->axis[x].extent), i, x));
            one[x] = expr_int(c, 1);
        }
        support_hull(c, &s, n->axis[axis].extent, n->naxis, row, one, &lo, &hi);
        double points = cost_expected_size(c, hi) - cost_expected_size(c, lo);
        left += points > 0 ? points / extent : 0;
    }
    return left / SAMPLES;
}

double
cost_density(Ctx *c, Arena *a, const Nest *n, AxisSet sum)
{
    const Kernel *k = kernel_of_nest(c, a, n);
    double share = 1;

    FOR_EACH_AXIS (x, sum)
        share *= share_of_axis(c, a, n, k, x);
    return share > WHOLE ? 1 : share;
}
