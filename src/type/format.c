/* format: the position of a tensor's elements in memory.
 *
 * A physical dimension is (index[dim] // div) % mod. The parts of one dimension tile it: sorted by
 * div, each part's div * mod is the next one's div. Rearranging walks the physical dimensions as a
 * nest of loops; each level adds its digit times div to the logical index of its dimension, and
 * only the last level, a run of equal strides, touches memory.
 */
#include "type/type.h"

#include <inttypes.h>
#include <string.h>

bool
format_same(const Format *a, const Format *b)
{
    if (!a || !b || a->npart != b->npart)
        return a == b;
    for (uint32_t p = 0; p < a->npart; p++)
        if (a->part[p].dim != b->part[p].dim || a->part[p].div != b->part[p].div ||
            a->part[p].mod != b->part[p].mod)
            return false;
    return true;
}

bool
format_is_complete(const Format *f, const Type *t)
{
    uint32_t used = 0;

    for (uint32_t p = 0; p < f->npart; p++)
        used += f->part[p].mod == 1; /* of one point: it decides nothing */
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t reached = 1; /* 0: the last part of the dimension was seen */
        while (reached) {
            uint32_t p = 0;
            while (p < f->npart &&
                   (f->part[p].dim != d || f->part[p].div != reached || f->part[p].mod == 1))
                p++;
            if (p == f->npart && expr_or(t->dim[d], INT64_MAX) <= reached)
                break;
            if (p == f->npart ||
                (f->part[p].mod && mul_overflows(reached, f->part[p].mod, &reached)))
                return false;
            reached = f->part[p].mod ? reached : 0;
            if (++used > f->npart)
                return false;
        }
    }
    return used == f->npart;
}

const Expr *
format_extent(Ctx *c, const Format *f, const Type *t, uint32_t p)
{
    if (!f)
        return t->dim[p];
    const FormatPart *part = &f->part[p];
    return part->mod ? expr_int(c, part->mod)
                     : expr_ceil_div(c, t->dim[part->dim], expr_int(c, part->div));
}

const Expr *
format_count(Ctx *c, const Format *f, const Type *t)
{
    const Expr *n = expr_int(c, 1);

    for (uint32_t p = 0; p < (f ? f->npart : t->rank); p++)
        n = expr_mul(c, n, format_extent(c, f, t, p));
    return n;
}

const Type *
format_type(Ctx *c, const Format *f, const Type *t)
{
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t p = 0; p < f->npart; p++)
        dim[p] = format_extent(c, f, t, p);
    return type_new(c, t->dtype, f->npart, dim);
}

void
format_index(Ctx *c, const Format *f, const Expr *const *at, const Expr **to)
{
    for (uint32_t p = 0; p < f->npart; p++) {
        FormatPart part = f->part[p];
        const Expr *e = expr_div(c, at[part.dim], expr_int(c, part.div));
        to[p] = part.mod ? expr_mod(c, e, expr_int(c, part.mod)) : e;
    }
}

void
format_print(Text *t, const Format *f)
{
    if (!f) {
        text_add(t, "plain");
        return;
    }
    text_add(t, "[");
    for (uint32_t p = 0; p < f->npart; p++) {
        text_printf(t, "%s%u", p ? ", " : "", f->part[p].dim);
        if (f->part[p].div != 1)
            text_printf(t, "/%" PRId64, f->part[p].div);
        if (f->part[p].mod)
            text_printf(t, "%%%" PRId64, f->part[p].mod);
    }
    text_add(t, "]");
}

/* ---- rearranging ----------------------------------------------------------------------------- */

typedef struct {
    const Format *f;
    size_t size;                 /* of an element */
    int64_t extent[TN_MAX_RANK]; /* logical */
    int64_t stride[TN_MAX_RANK]; /* logical, in elements */
    int64_t *physical;           /* [f->npart] extents */
    int64_t *inner;              /* [f->npart] elements below one step of part p */
    int64_t count;               /* elements in all */
    int64_t index[TN_MAX_RANK];  /* where the walk is */
    const uint8_t *from;
    uint8_t *to;
} FormatWalk;

#define COPY_STRIDED(T)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
    memcpy(to + i * (int64_t)sizeof(T), from + i * step, sizeof(T))

static void
copy_run(uint8_t *to, const uint8_t *from, int64_t n, int64_t step, size_t size)
{
    if (step == (int64_t)size) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY_STRIDED(uint8_t); break;
    case 2: COPY_STRIDED(uint16_t); break;
    case 4: COPY_STRIDED(uint32_t); break;
    case 8: COPY_STRIDED(uint64_t); break;
    }
}

/* The innermost part: its points inside the tensor, then zeros. */
static void
run(FormatWalk *w, uint32_t p)
{
    const FormatPart *part = &w->f->part[p];
    int64_t n = w->physical[p], base = w->index[part->dim], inside = 0, offset = 0;

    if (base < w->extent[part->dim])
        inside = (w->extent[part->dim] - base + part->div - 1) / part->div;
    inside = inside < n ? inside : n;
    for (uint32_t d = 0; d < TN_MAX_RANK; d++)
        offset += w->index[d] * w->stride[d];
    if (inside > 0)
        copy_run(w->to, w->from + offset * (int64_t)w->size, inside,
                 w->stride[part->dim] * part->div * (int64_t)w->size, w->size);
    else
        inside = 0;
    memset(w->to + (size_t)inside * w->size, 0, (size_t)(n - inside) * w->size);
    w->to += (size_t)n * w->size;
}

/* Points first <= i < end of part p. */
static void
walk(FormatWalk *w, uint32_t p, int64_t first, int64_t end)
{
    const FormatPart *part = &w->f->part[p];

    if (p + 1 == w->f->npart) {
        run(w, p);
        return;
    }
    int64_t start = w->index[part->dim];
    for (int64_t i = first; i < end; i++) {
        w->index[part->dim] = start + i * part->div;
        if (w->index[part->dim] < w->extent[part->dim]) {
            walk(w, p + 1, 0, w->physical[p + 1]);
            continue;
        }
        /* outside of the tensor from here on */
        size_t rest = (size_t)((end - i) * w->inner[p]) * w->size;
        memset(w->to, 0, rest);
        w->to += rest;
        break;
    }
    w->index[part->dim] = start;
}

/* Everything but source and destination; room: [2 * f->npart]. False: not static. */
static bool
walk_begin(FormatWalk *w, const Format *f, const Type *t, int64_t *room)
{
    int64_t count = 1;

    *w = (FormatWalk){
        .f = f, .size = dtype_info[t->dtype].bytes, .physical = room, .inner = room + f->npart
    };
    for (uint32_t d = t->rank; d-- > 0;) {
        if (!expr_const(t->dim[d], &w->extent[d]))
            return false;
        w->stride[d] = count;
        if (mul_overflows(count, w->extent[d], &count))
            return false;
    }
    count = 1;
    for (uint32_t p = f->npart; p-- > 0;) {
        const FormatPart *part = &f->part[p];
        w->inner[p] = count;
        w->physical[p] = part->mod ? part->mod : (w->extent[part->dim] + part->div - 1) / part->div;
        if (mul_overflows(count, w->physical[p], &count))
            return false;
    }
    w->count = count;
    return true;
}

int64_t
format_slices(const Format *f, const Type *t, int64_t *bytes)
{
    int64_t room[2 * FORMAT_MAX_PARTS];
    FormatWalk w;

    if (!walk_begin(&w, f, t, room) || !w.count)
        return 0;
    bool whole = f->npart == 1; /* a run is not split */
    *bytes = (whole ? w.count : w.inner[0]) * (int64_t)w.size;
    return whole ? 1 : w.physical[0];
}

bool
format_apply_slices(const Format *f, const Type *t, const void *from, void *to, int64_t first,
                    int64_t end)
{
    int64_t room[2 * FORMAT_MAX_PARTS];
    FormatWalk w;

    if (!walk_begin(&w, f, t, room))
        return false;
    w.from = from;
    w.to = to;
    walk(&w, 0, first, end);
    return true;
}

bool
format_apply(const Format *f, const Type *t, const void *from, void *to)
{
    int64_t bytes;

    if (!type_static_bytes(t, &bytes))
        return false;
    if (!f || f->npart == 0) {
        memcpy(to, from, (size_t)bytes);
        return true;
    }
    int64_t n = format_slices(f, t, &bytes);
    return n ? format_apply_slices(f, t, from, to, 0, n) : bytes == 0;
}
