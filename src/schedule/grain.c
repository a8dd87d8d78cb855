/* grain: how many trips of a parallel loop are worth a thread.
 *
 * Handing a part of a loop to a worker costs what waking it costs. A part that one core does
 * meanwhile is done sooner alone; so a part has at least as many operations as a core does in that
 * time, at the rate of vector additions. Loops that wait for memory take longer over them, so what
 * is shared out gains more than this says.
 */
#include "schedule/internal.h"

const Expr *
low_grain(Ctx *c, const Machine *m, const Expr *work_per_trip)
{
    int64_t worth = machine_waking_operations(m);

    return expr_max(c, expr_int(c, 1),
                    expr_div(c, expr_int(c, worth), expr_max(c, expr_int(c, 1), work_per_trip)));
}
