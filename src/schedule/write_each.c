/* write_each: parts that share no loop, products of one input: each by the best of its own programs, whose tasks come one part after
 * the other. So such a kernel takes what its parts take, but is called once.
 */
#include "schedule/write.h"

bool
write_each(Draft *w, bool far)
{
    const Kernel *k = w->p->k;
    Text t = { .arena = w->a };

    if (!kernel_is_beside(k))
        return false;
    for (uint32_t i = 0; i < k->npart; i++) {
        Kernel part = *k;
        part.part = &k->part[i];
        part.npart = 1;
        Choices own = schedule_choices(w->c, w->a, &part, w->p->m, w->constant, far);
        if (!own.n)
            return false;
        text_printf(&t, "alone %s\n%s%s", part_name(w->p, i), own.at[0].program, i + 1 < k->npart ? "\n" : "");
    }
    write_program(w, &t);
    return true;
}
