/* build: a kernel by a program. */
#include "schedule/point.h"

bool
schedule_build(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, const char **why)
{
    Points *p = points_of(c, a, k, m);
    Text t = { .arena = a };

    *why = NULL;
    if (!p) {
        *why = "a part of it combines as it writes, scans, picks or leaves gaps, which has no steps yet";
        return false;
    }
    for (uint32_t i = 0; i < program->step.n; i++)
        if (!points_step(p, &program->step.at[i])) {
            text_printf(&t, "step %u, `", i + 1);
            step_print(c, &t, &program->step.at[i]);
            text_printf(&t, "`: %s", p->why);
            *why = text_str(&t);
            return false;
        }
    if (!points_lower(p)) {
        *why = p->why;
        return false;
    }
    program_print(c, &t, program, 0);
    k->schedule = text_str(&t);
    return true;
}
