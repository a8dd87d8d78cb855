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

/* ---- names of loops -------------------------------------------------------------------------- */

void
draft_begin(Draft *w, Kernel *k, const Machine *m)
{
    w->p = points_of(w->c, w->a, k, m);
    for (IterId x = 1; x < w->p->iter.n; x++)
        w->p->iter.at[x].name = sym_printf(w->c, "%c%s", AXIS_MARK, w->p->iter.at[x].name);
}

const char *
box_name(const Draft *w, uint32_t part, uint32_t axis)
{
    return arena_printf(w->a, "%c%s.%s", AXIS_MARK, part_name(w->p, part),
                        w->p->k->part[part].nest->axis[axis].name);
}

Sym
axis_sym(const Draft *w, uint32_t part, uint32_t axis)
{
    const char *name = axis_name(w, part, axis), *mark = strchr(name, AXIS_MARK);

    return sym_printf(w->c, "%.*s%s", (int)(mark - name), name, mark + 1);
}

typedef VEC(Sym) Names;

/* Is the name among the first n? */
static bool
is_among(const Names *list, uint32_t n, Sym name)
{
    for (uint32_t i = 0; i < n; i++)
        if (list->at[i] == name)
            return true;
    return false;
}

static bool
is_axis(const Draft *w, Sym name)
{
    for (IterId x = 1; x < w->p->iter.n; x++)
        if (w->p->iter.at[x].name[0] == AXIS_MARK && !strcmp(w->p->iter.at[x].name + 1, name))
            return true;
    return false;
}

/* The loops that steps make under the name of an axis that still has a loop. */
static Names
find_clashes(const Draft *w, const char *text)
{
    Names gone = { 0 }, out = { 0 };

    for (const char *line = text, *end; *line; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        int64_t made = strncmp(line, "split ", 6) ? 1 : 2; /* names after the arrow */
        bool fuses = !strncmp(line, "fuse ", 5),
             makes = made == 2 || fuses || !strncmp(line, "online ", 7), after = false;
        /* a loop is there until its step is done, but a fused one may have the name of the first */
        uint32_t before = gone.n + fuses;
        for (const char *s = line; makes && s < end && made > 0;) {
            size_t n = strcspn(s, " \n");
            Sym name = sym_n(w->c, s + (*s == AXIS_MARK), n - (*s == AXIS_MARK));
            if (after && *s != AXIS_MARK && is_axis(w, name) &&
                !is_among(&gone, before < gone.n ? before : gone.n, name))
                VEC_PUSH(w->a, &out, name);
            else if (!after && *s == AXIS_MARK)
                VEC_PUSH(w->a, &gone, name);
            made -= after && n;
            after |= n == 2 && !strncmp(s, "->", 2);
            s += n + (s[n] == ' ');
        }
    }
    return out;
}

/* A name that no axis has. */
static const char *
fresh_name(const Draft *w, Sym name)
{
    do
        name = sym_printf(w->c, "%s_", name);
    while (is_axis(w, name));
    return name;
}

/* Adds a word of a program: without the mark of an axis, and a loop that was made under the name of
 * one, also behind the name of a copy, with another name. */
static void
add_word(const Draft *w, Text *t, const char *s, size_t n, const Names *clash)
{
    const char *mark = memchr(s, AXIS_MARK, n);

    for (uint32_t i = 0; i < clash->n && !mark; i++) {
        size_t length = strlen(clash->at[i]);
        if (n < length || memcmp(s + n - length, clash->at[i], length) ||
            (n > length && s[n - length - 1] != '.'))
            continue;
        text_bytes(t, s, n - length);
        text_add(t, fresh_name(w, clash->at[i]));
        return;
    }
    text_bytes(t, s, mark ? (size_t)(mark - s) : n);
    if (mark)
        text_bytes(t, mark + 1, n - (size_t)(mark - s) - 1);
}

void
write_program(Draft *w, const Text *t)
{
    Text out = { .arena = w->a };
    const char *s = text_str(t);
    Names clash = find_clashes(w, s);

    for (size_t n; *s; s += n) {
        n = strcspn(s, " \n");
        add_word(w, &out, s, n, &clash);
        if (s[n])
            text_bytes(&out, s + n++, 1);
    }
    VEC_PUSH(w->a, &w->program, text_str(&out));
}

/* ---- numbers of tiles ------------------------------------------------------------------------ */

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
