/* grain: how many iterations of a parallel loop are worth a thread.
 *
 * Handing a part of a loop to a worker costs its wake-up. A part that one core finishes in that
 * time is done sooner alone; so a part has at least the operations of that time, at the rate of
 * vector additions. Memory-bound loops take longer for them, so they gain more than this says.
 */
#include "schedule/internal.h"

const Expr *
low_grain(Ctx *c, const Machine *m, const Expr *work_per_trip)
{
    int64_t worth = machine_waking_operations(m);

    return expr_max(c, expr_int(c, 1),
                    expr_div(c, expr_int(c, worth), expr_max(c, expr_int(c, 1), work_per_trip)));
}
