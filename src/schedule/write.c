/* write: shared by the writers of programs. */
#include "schedule/write.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

Low *
draft_low(const Draft *w, uint32_t part)
{
    Low *l = NEW(w->a, Low);

    *l = low_part(w->c, w->a, w->p->k, w->p->m, &w->p->k->part[part]);
    return l;
}

AxisSet
shared_axes(const Draft *w, uint32_t part)
{
    AxisSet left = nest_axes_of_kind(w->p->k->part[part].nest, AXIS_PARALLEL), shared = 0;

    for (uint32_t i = 0; i < w->p->k->shared && left; i++, left &= left - 1)
        shared |= left & -left;
    return shared;
}

AxisSet
own_axes(const Draft *w, uint32_t part)
{
    return nest_axes_of_kind(w->p->k->part[part].nest, AXIS_PARALLEL) & ~shared_axes(w, part);
}

bool
is_pair(const Draft *w)
{
    const Kernel *k = w->p->k;

    return k->npart == 2 && k->shared &&
           k->buffer.at[k->part[0].buffer[k->part[0].nest->nin]].space == SPACE_LOCAL;
}

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

const char *
set_names(const Draft *w, uint32_t part, AxisSet axes)
{
    uint32_t axis[NEST_MAX_AXES], n = axis_list(axes, axis);

    return axis_names(w, part, axis, n);
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
write_steps(Text *t, const char *part, const char *format, ...)
{
    Text named = { .arena = t->arena };
    va_list args;

    for (;;) {
        size_t n = strcspn(format, "@");
        text_bytes(&named, format, n);
        if (!format[n])
            break;
        format += n + 1;
        for (const char *c = part; *c; c++) /* the name becomes part of a format */
            text_bytes(&named, *c == '%' ? "%%" : c, *c == '%' ? 2 : 1);
    }
    va_start(args, format);
    text_vprintf(t, text_str(&named), args);
    va_end(args);
}

void
write_lay_last(Text *t, const char *name, uint32_t rank, uint32_t last)
{
    text_printf(t, "lay %s as [", name);
    for (uint32_t d = 0; d < rank; d++)
        if (d != last)
            text_printf(t, "%u, ", d);
    text_printf(t, "%u]\n", last);
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

int64_t
tile_height(const Machine *m, int64_t vectors)
{
    return ((int64_t)m->vector_registers - vectors - 1) / vectors;
}

int64_t
even_height(int64_t rows, int64_t most)
{
    int64_t tiles = (rows + most - 1) / most;

    return tiles ? (rows + tiles - 1) / tiles : most;
}

bool
is_unit(Low *l, const Scalar *s, uint32_t axis)
{
    const Expr *stride = s->op == S_LOAD && !s->u.load.outside ? low_stride(l, s, axis) : NULL;
    return stride && expr_is(stride, 1);
}

int64_t
stride_along(Low *l, const Scalar *read, uint32_t axis)
{
    const Expr *stride = low_stride(l, read, axis);

    return stride ? expr_or(stride, INT64_MAX) : INT64_MAX;
}

bool
in_list(const uint32_t *list, uint32_t n, uint32_t axis)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == axis)
            return true;
    return false;
}
