/* write_plain: every loop as it stands, sums held where their loops begin. */
#include "schedule/write.h"

void
write_plain(Draft *w)
{
    const Points *p = w->p;
    Text t = { .arena = w->a };

    for (uint32_t i = 0; i < p->k->npart; i++) {
        const Part *part = &p->k->part[i];
        uint32_t last = NEST_MAX_AXES;
        for (uint32_t x = 0; x < part->nest->naxis; x++)
            if (part->nest->axis[x].kind == AXIS_PARALLEL)
                last = x;
        const char *name = p->k->buffer.at[part->buffer[part->nest->write[0].out]].name;
        if (part_reduction(p, i))
            text_printf(&t, "hold %s at %s -> %s.acc reg\n", name, last == NEST_MAX_AXES ? "all" : axis_name(w, i, last), name);
    }
    write_program(w, &t);
}
