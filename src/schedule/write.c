/* write: what the writers of programs share. */
#include "schedule/write.h"

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
write_program(Draft *w, const Text *t)
{
    VEC_PUSH(w->a, &w->program, text_str(t));
}
