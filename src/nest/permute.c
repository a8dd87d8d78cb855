/* permute: parallel axes in another order, and kernels whose arguments lie otherwise
 * (relayout.c). */
#include "nest/internal.h"
#include "nest/layout.h"
#include "nest/walk.h"

/* ---- axes ------------------------------------------------------------------------------------ */

/* The first dimension of write 0 that an axis stands in; the rank where it stands in none. */
static uint32_t
written_at(const Nest *n, uint32_t axis)
{
    const Write *w = &n->write[0];
    uint32_t rank = n->param[w->out].type->rank, d = 0;

    while (d < rank && !(expr_axes(w->at[d]) >> axis & 1))
        d++;
    return d;
}

/* The parallel axes behind the first `kept` by their keys, [naxis]. */
static const Nest *
sorted_axes(Ctx *c, const Nest *n, uint32_t kept, const uint32_t *key)
{
    uint32_t place[NEST_MAX_AXES], sorted[NEST_MAX_AXES], count = 0;
    Binding bind[NEST_MAX_AXES];
    bool same = true;

    for (uint32_t k = 0; k < n->naxis; k++) {
        if (axis_varies(&n->axis[k]))
            return n;
        if (n->axis[k].kind == AXIS_PARALLEL) {
            place[count] = k;
            uint32_t i = count++;
            for (; i > kept && key[sorted[i - 1]] > key[k]; i--)
                sorted[i] = sorted[i - 1];
            sorted[i] = k;
        }
        bind[k] = (Binding){ { VAR_AXIS, k }, expr_axis(c, k) };
    }
    for (uint32_t i = 0; i < count; i++) {
        same = same && place[i] == sorted[i];
        bind[sorted[i]].to = expr_axis(c, place[i]);
    }
    if (same)
        return n;
    NestEdit e = nest_edit(c, n, 0, 0);
    Arena *scratch = arena_child(c->arena);
    Bindings b = { bind, n->naxis };
    ScalarMap m = { .expr = bindings_apply,
                    .axes = bindings_axes,
                    .user = &b,
                    .ctx = c,
                    .done = { .arena = scratch } };
    nest_edit_map(&e, &m);
    for (uint32_t i = 0; i < count; i++)
        e.axis[place[i]] = n->axis[sorted[i]];
    arena_free(scratch);
    return nest_edit_done(c, &e);
}

const Nest *
nest_axes_as_written(Ctx *c, const Nest *n, uint32_t kept)
{
    uint32_t key[NEST_MAX_AXES];

    for (uint32_t k = 0; k < n->naxis; k++)
        key[k] = written_at(n, k);
    return sorted_axes(c, n, kept, key);
}

const Nest *
nest_axes_as_read(Ctx *c, const Nest *n, const Scalar *load)
{
    uint32_t key[NEST_MAX_AXES];

    for (uint32_t k = 0; k < n->naxis; k++) {
        key[k] = 0;
        while (!expr_is(n->axis[k].extent, 1) && key[k] < load->u.load.rank &&
               load->u.load.at[key[k]] != expr_axis(c, k))
            key[k]++;
    }
    return sorted_axes(c, n, 0, key);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Is a dimension of the part's output, along an axis that all parts share, in blocks or with
 * room? */
static bool
cuts_shared(Ctx *c, const Kernel *k, const Nest *n, const Layout *l)
{
    const Write *w = &n->write[0];
    uint32_t seen = 0;

    for (uint32_t x = 0; x < n->naxis && seen < k->shared; x++) {
        if (n->axis[x].kind == AXIS_REDUCE)
            continue;
        seen++;
        uint32_t d = written_at(n, x), parts = 0;
        for (uint32_t p = 0; p < l->format.npart; p++)
            parts += l->format.part[p].dim == d;
        if (parts > 1 || (d < l->rank && layout_has_room(c, l, n->param[w->out].type, d)))
            return true;
    }
    return false;
}

/* How each buffer lies: what passes between parts as the output does, where that is an order of its
 * dimensions in which those that all parts share stay first. */
static const Layout *const *
with_locals(Arena *a, const Kernel *k, const Layout *const *layout)
{
    const Layout **all = NEW_ARRAY(a, const Layout *, k->buffer.n),
                 *out = k->nout == 1 ? layout[k->nin] : NULL;
    bool follows = out && layout_is_order(out);

    for (uint32_t d = 0; follows && d < k->shared; d++)
        follows = d < out->rank && out->format.part[d].dim == d;
    for (uint32_t b = 0; b < k->buffer.n; b++)
        all[b] = b < k->nin + k->nout                                 ? layout[b]
                 : follows && k->buffer.at[b].type->rank == out->rank ? out
                                                                      : NULL;
    return all;
}

/* The part with what it reads and writes where that lies; the axes that all parts share stay where
 * they are. */
static const Nest *
lay_part(Ctx *c, const Kernel *k, const Part *part, const Layout *const *layout)
{
    const Nest *n = part->nest;
    uint32_t nparam = n->nin + n->nout;
    bool orders = true;

    for (uint32_t i = 0; i < nparam && n; i++) {
        const Layout *l = layout[part->buffer[i]];
        if (!l)
            continue;
        orders &= layout_is_order(l);
        if (i >= n->nin && k->npart > 1 && cuts_shared(c, k, n, l))
            return NULL;
        n = nest_lay(c, n, i, l);
    }
    if (!n || n == part->nest)
        return n;
    n = orders ? n : nest_simplify(c, n);
    return n ? nest_axes_as_written(c, n, k->npart > 1 ? k->shared : 0) : NULL;
}

Kernel *
kernel_lay(Ctx *c, Arena *a, const Kernel *k, const Layout *const *layout)
{
    Kernel *to = arena_copy(a, k, sizeof *k);
    Part *part = arena_copy(a, k->part, k->npart * sizeof *k->part);

    to->buffer.at = arena_copy(a, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    to->buffer.cap = k->buffer.n;
    to->part = part;
    const Layout *const *all = with_locals(a, k, layout);
    for (uint32_t p = 0; p < k->npart; p++)
        if (!(part[p].nest = lay_part(c, k, &k->part[p], all)))
            return NULL;
    for (uint32_t b = 0; b < k->buffer.n; b++)
        if (all[b])
            to->buffer.at[b].type = layout_type(c, all[b], k->buffer.at[b].type);
    return to;
}

Kernel *
kernel_permute(Ctx *c, Arena *a, const Kernel *k, const uint8_t *const *order)
{
    const Layout **layout = NEW_ARRAY(a, const Layout *, k->nin + k->nout);

    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        layout[b] = order[b] ? layout_of_order(a, k->buffer.at[b].type->rank, order[b]) : NULL;
    return kernel_lay(c, a, k, layout);
}
