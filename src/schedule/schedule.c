/* schedule: choose the template by what the nests of the kernel are. */
#include "schedule/internal.h"

bool
schedule_kernel(Ctx *c, Arena *a, Kernel *k, const Machine *m, ScheduleLevel level)
{
    k->tree = (Block){.arena = a};
    k->nloop = 0;
    if (level == SCHEDULE_PLAIN)
        return schedule_loops(c, a, k, m, false);
    return schedule_contraction(c, a, k, m) || schedule_window(c, a, k, m) || schedule_loops(c, a, k, m, true);
}
