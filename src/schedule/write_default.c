/* write_default: every loop unchanged, accumulators declared where their loops begin. */
#include "schedule/write.h"

void
write_default(Draft *w)
{
    const Points *p = w->p;
    Text t = { .arena = w->a };

    for (uint32_t i = 0; i < p->k->npart; i++) {
        const LoopNode *n = part_leaf(w->p, i)->up;
        if (!part_reduction(p, i))
            continue;
        while (n->iter && p->iter.at[n->iter].kind == AXIS_REDUCE)
            n = n->up;
        text_printf(&t, "hold %s at %s -> %s.acc reg\n", part_name(p, i),
                    n->iter ? p->iter.at[n->iter].name : "all", part_name(p, i));
    }
    write_program(w, &t);
}
