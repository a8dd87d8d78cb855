/* layout: kernels whose arguments have other layouts. */
#include "algebra/algebra.h"
#include "kernel/internal.h"

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
        uint32_t d = nest_written_dim(n, x), parts = 0;
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
