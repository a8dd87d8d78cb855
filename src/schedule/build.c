/* build: a kernel by a program. */
#include "schedule/point.h"

/* Formats come first: the parts read their inputs as they lie, and everything after sees plain access maps. NULL, with
 * the reason, where they cannot. */
static const Part *
parts_as_they_lie(Ctx *c, Arena *a, Kernel *k, const Program *program, const char **why)
{
    for (uint32_t i = 0; i < program->step.n; i++) {
        const Step *s = &program->step.at[i];
        if (s->verb != VERB_lay)
            continue;
        for (uint32_t b = 0; b < k->nin; b++)
            if (k->buffer.at[b].name == s->subject)
                k->buffer.at[b].format = s->format;
    }
    Part *part = arena_copy(a, k->part, k->npart * sizeof *part);
    for (uint32_t i = 0; i < k->npart; i++)
        for (uint32_t slot = 0; slot < part[i].nest->nin; slot++) {
            const Buffer *b = &k->buffer.at[part[i].buffer[slot]];
            if (!b->format)
                continue;
            part[i].nest = nest_relayout(c, part[i].nest, slot, b->format);
            if (!part[i].nest) {
                *why = arena_printf(a, "%s may be read outside of its bounds, so it cannot lie in a format", b->name);
                return NULL;
            }
        }
    return part;
}

static bool
carry_out(Points *p, Arena *a, const Program *program, const char **why)
{
    Text t = { .arena = a };

    for (uint32_t i = 0; i < program->step.n; i++)
        if (!points_step(p, &program->step.at[i])) {
            text_printf(&t, "step %u, `", i + 1);
            step_print(p->c, &t, &program->step.at[i]);
            text_printf(&t, "`: %s", p->why);
            *why = text_str(&t);
            return false;
        }
    if (points_lower(p))
        return true;
    *why = p->why;
    return false;
}

bool
schedule_build(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, const char **why)
{
    const Part *meaning = k->part;
    Text t = { .arena = a };

    const Part *part = parts_as_they_lie(c, a, k, program, why);
    if (!part)
        return false;
    k->part = part;
    Points *p = points_of(c, a, k, m);
    bool ok = carry_out(p, a, program, why);
    k->part = meaning;
    program_print(c, &t, program, 0);
    k->schedule = text_str(&t);
    return ok;
}
