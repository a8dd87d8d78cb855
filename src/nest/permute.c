/* permute: parallel axes in another order, and kernels whose arguments have another order of
 * dimensions (nest_permute). */
#include "nest/internal.h"
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
