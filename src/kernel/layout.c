/* layout: kernels whose arguments have other orders of dimensions. */
#include "algebra/algebra.h"
#include "kernel/kernel.h"

/* The order of each buffer: what passes between parts follows the output, where that order leaves
 * the dimensions that all parts share first. */
static const uint8_t *const *
with_locals(Arena *a, const Kernel *k, const uint8_t *const *order)
{
    const uint8_t **all = NEW_ARRAY(a, const uint8_t *, k->buffer.n),
                  *out = k->nout == 1 ? order[k->nin] : NULL;
    uint32_t rank = k->buffer.at[k->nin].type->rank;
    bool follows = out != NULL;

    for (uint32_t d = 0; follows && d < k->shared; d++)
        follows = d < rank && out[d] == d;
    for (uint32_t b = 0; b < k->buffer.n; b++)
        all[b] = b < k->nin + k->nout                            ? order[b]
                 : follows && k->buffer.at[b].type->rank == rank ? out
                                                                 : NULL;
    return all;
}

/* The part with the orders of what it reads and writes; the axes that all parts share stay where
 * they are. */
static const Nest *
permute_part(Ctx *c, const Kernel *k, const Part *part, const uint8_t *const *order)
{
    const Nest *n = part->nest;
    uint32_t nparam = n->nin + n->nout;

    for (uint32_t i = 0; i < nparam && n; i++)
        if (order[part->buffer[i]])
            n = nest_permute(c, n, i, order[part->buffer[i]]);
    return n && n != part->nest ? nest_axes_as_written(c, n, k->npart > 1 ? k->shared : 0) : n;
}

Kernel *
kernel_permute(Ctx *c, Arena *a, const Kernel *k, const uint8_t *const *order)
{
    Kernel *to = arena_copy(a, k, sizeof *k);
    Part *part = arena_copy(a, k->part, k->npart * sizeof *k->part);
    const uint8_t *const *all = with_locals(a, k, order);

    to->buffer.at = arena_copy(a, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    to->buffer.cap = k->buffer.n;
    to->part = part;
    for (uint32_t p = 0; p < k->npart; p++)
        if (!(part[p].nest = permute_part(c, k, &k->part[p], all)))
            return NULL;
    for (uint32_t b = 0; b < k->buffer.n; b++)
        if (all[b])
            to->buffer.at[b].type = type_permuted(c, k->buffer.at[b].type, all[b]);
    return to;
}
