/* grain: the number of iterations of a parallel loop that are worth a thread.
 *
 * Distributing a loop costs the wake-up of a worker. If one core finishes a share of the loop in
 * that time, it is faster alone; so a share has at least the operations of that time, at the rate
 * of vector additions. Memory-bound loops take longer for these operations, so they gain more than
 * this estimate.
 */
#include "schedule/internal.h"

const Expr *
low_grain(Ctx *c, const Machine *m, const Expr *work_per_trip)
{
    int64_t worth = machine_waking_operations(m);

    return expr_max(c, expr_int(c, 1),
                    expr_div(c, expr_int(c, worth), expr_max(c, expr_int(c, 1), work_per_trip)));
}
