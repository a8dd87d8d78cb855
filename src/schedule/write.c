/* write: shared by the writers of programs. */
#include "schedule/write.h"

#include <math.h>
#include <string.h>

const char *
axis_name(const Draft *w, uint32_t part, uint32_t axis)
{
    return w->p->iter.at[w->p->axis[part][axis]].name;
}

const char *
axis_names(const Draft *w, uint32_t part, const uint32_t *axis, uint32_t n)
{
    Text t = { .arena = w->a };

    for (uint32_t i = 0; i < n; i++)
        text_printf(&t, "%s%s", i ? " " : "", axis_name(w, part, axis[i]));
    return text_str(&t);
}

void
lay_last(Text *t, const char *buffer, uint32_t rank, uint32_t last)
{
    text_printf(t, "lay %s as [", buffer);
    for (uint32_t d = 0; d < rank; d++)
        if (d != last)
            text_printf(t, "%u, ", d);
    text_printf(t, "%u]\n", last);
}

const char *
lane_name(const Draft *w, const uint32_t *gone, uint32_t n)
{
    const char *name = "l";

    for (uint32_t part = 0; part < w->p->k->npart; part++)
        for (uint32_t x = 0; x < w->p->k->part[part].nest->naxis; x++) {
            bool stays = true;
            for (uint32_t i = 0; i < n; i++)
                stays &= gone[i] != x;
            if (stays && !strcmp(axis_name(w, part, x), name)) {
                name = arena_printf(w->a, "%s_", name);
                /* the name may belong to the longer name of another axis */
                part = 0, x = UINT32_MAX;
            }
        }
    return name;
}

void
write_program(Draft *w, const Text *t)
{
    VEC_PUSH(w->a, &w->program, text_str(t));
}

/* Rounded to the nearest power of two, since the rates are measured. An addition has the latency of
 * a multiply-add on all machines of the table. */
int64_t
vectors_in_flight(const Machine *m)
{
    double wanted = m->fma_cycles * m->add_per_cycle;
    int64_t n = 1;

    while ((double)n * M_SQRT2 < wanted)
        n *= 2;
    return n;
}
