/* write_independent: parts without common loops, contractions of one input: each with the best of
 * its own programs, their tasks in one list. Such a kernel takes as long as its parts, but has
 * one call. */
#include "schedule/write.h"

#include <string.h>

/* The steps of part `name` in a program of several. */
static const char *
steps_of(Arena *a, const char *program, const char *name)
{
    const char *begin = arena_printf(a, "alone %s\n", name), *at = strstr(program, begin);

    at = at ? at + strlen(begin) : "";
    const char *end = strstr(at, "\nalone ");
    return end ? arena_printf(a, "%.*s", (int)(end - at), at) : at;
}

void
write_independent(Draft *w)
{
    const Kernel *k = w->p->k;
    Text t = { .arena = w->a };

    if (!kernel_has_independent_parts(k))
        return;
    for (uint32_t i = 0; i < k->npart; i++) {
        const char *name = part_name(w->p, i),
                   *steps = w->like ? steps_of(w->a, w->like, name) : NULL;
        Kernel part = *k;
        uint32_t best = 0;
        part.part = &k->part[i];
        part.npart = 1;
        Choices own = schedule_choices(w->c, w->a, &part, w->p->m, w->constant, w->far, steps);
        if (!own.n)
            return;
        while (steps && best + 1 < own.n && !schedule_lays_alike(own.at[best].program, steps))
            best++;
        text_printf(&t, "alone %s\n%s%s", name, own.at[best].program, i + 1 < k->npart ? "\n" : "");
    }
    write_program(w, &t);
}
