/* permute: a parameter whose dimensions lie in another order.
 *
 *     o[n, f, y, x] = sum c, r, s: i[n, c, y + r, x + s] * w[f, c, r, s]
 *
 * with i and o in the order 0 2 3 1 is
 *
 *     o[n, y, x, f] = sum c, r, s: i[n, y + r, x + s, c] * w[f, c, r, s]
 *
 * which reads like any other nest: there is nothing beside it that says how i lies. */
#include "nest/internal.h"
#include "nest/walk.h"

typedef struct { uint32_t slot; const uint8_t *order; } Permute;

static const Scalar *
permute_load(ScalarMap *m, const Scalar *load)
{
    const Permute *p = m->user;
    const Expr *at[TN_MAX_RANK];

    if (load->u.load.slot != p->slot)
        return load;
    for (uint32_t d = 0; d < load->u.load.rank; d++)
        at[d] = load->u.load.at[p->order[d]];
    return scalar_load(m->ctx, load->dtype, p->slot, load->u.load.rank, at, load->u.load.outside);
}

const Nest *
nest_permute(Ctx *c, const Nest *n, uint32_t slot, const uint8_t *order)
{
    NestEdit e = nest_edit(c, n, 0, 0);
    Arena *scratch = arena_child(c->arena);
    Permute p = { slot, order };
    ScalarMap m = { .load = permute_load, .user = &p, .ctx = c, .done = { .arena = scratch } };
    const Expr *at[TN_MAX_RANK];

    nest_edit_map(&e, &m);
    e.param[slot].type = type_permuted(c, n->param[slot].type, order);
    for (uint32_t w = 0; w < n->nwrite; w++) {
        uint32_t rank = n->param[slot].type->rank;
        if (n->write[w].out != slot)
            continue;
        for (uint32_t d = 0; d < rank; d++)
            at[d] = e.write[w].at[order[d]];
        e.write[w].at = arena_copy(c->arena, at, rank * sizeof *at);
    }
    arena_free(scratch);
    return nest_edit_done(c, &e);
}

/* ---- axes ------------------------------------------------------------------------------------------------ */

static AxisSet
renumbered(ScalarMap *m, AxisSet axes)
{
    const Bindings *b = m->user;
    AxisSet to = 0;
    Var v;

    for (uint32_t k = 0; k < b->n; k++)
        if (axes >> k & 1 && expr_is_var(b->at[k].to, &v))
            to |= axis_one((uint32_t)v.id);
    return to;
}

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

const Nest *
nest_axes_as_written(Ctx *c, const Nest *n, uint32_t kept)
{
    uint32_t place[NEST_MAX_AXES], sorted[NEST_MAX_AXES], count = 0;
    Binding bind[NEST_MAX_AXES];
    bool same = true;

    for (uint32_t k = 0; k < n->naxis; k++) {
        if (axis_is_ragged(&n->axis[k]))
            return n;
        if (n->axis[k].kind == AXIS_PARALLEL) {
            place[count] = k;
            uint32_t i = count++;
            for (; i > kept && written_at(n, sorted[i - 1]) > written_at(n, k); i--)
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
    ScalarMap m = { .expr = bindings_apply, .axes = renumbered, .user = &b, .ctx = c, .done = { .arena = scratch } };
    nest_edit_map(&e, &m);
    for (uint32_t i = 0; i < count; i++)
        e.axis[place[i]] = n->axis[sorted[i]];
    arena_free(scratch);
    return nest_edit_done(c, &e);
}

/* ---- kernels --------------------------------------------------------------------------------------------- */

/* The part with the arguments that it reads and writes in their orders; those of the axes that all parts share stay where they are. */
static const Nest *
permute_part(Ctx *c, const Kernel *k, const Part *part, const uint8_t *const *order)
{
    const Nest *n = part->nest;
    uint32_t nparam = n->nin + n->nout;

    for (uint32_t i = 0; i < nparam && n; i++)
        if (part->buffer[i] < k->nin + k->nout && order[part->buffer[i]])
            n = nest_permute(c, n, i, order[part->buffer[i]]);
    return n && n != part->nest ? nest_axes_as_written(c, n, k->npart > 1 ? k->shared : 0) : n;
}

Kernel *
kernel_permute(Ctx *c, Arena *a, const Kernel *k, const uint8_t *const *order)
{
    Kernel *to = arena_copy(a, k, sizeof *k);
    Part *part = arena_copy(a, k->part, k->npart * sizeof *k->part);

    to->buffer.at = arena_copy(a, k->buffer.at, k->buffer.n * sizeof *k->buffer.at);
    to->buffer.cap = k->buffer.n;
    to->part = part;
    for (uint32_t p = 0; p < k->npart; p++)
        if (!(part[p].nest = permute_part(c, k, &k->part[p], order)))
            return NULL;
    for (uint32_t b = 0; b < k->nin + k->nout; b++)
        if (order[b])
            to->buffer.at[b].type = type_permuted(c, k->buffer.at[b].type, order[b]);
    return to;
}
