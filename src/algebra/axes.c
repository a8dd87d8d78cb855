/* axes: parallel axes in another order, and a reduction backwards. */
#include "algebra/internal.h"

/* The parallel axes after the first `kept`, sorted by their keys, [naxis]. */
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
    nest_edit_bind(c, &e, bind, n->naxis);
    for (uint32_t i = 0; i < count; i++)
        e.axis[place[i]] = n->axis[sorted[i]];
    return nest_edit_done(c, &e);
}

const Nest *
nest_axes_as_written(Ctx *c, const Nest *n, uint32_t kept)
{
    uint32_t key[NEST_MAX_AXES];

    for (uint32_t k = 0; k < n->naxis; k++)
        key[k] = nest_written_dim(n, k);
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

const Nest *
nest_reverse(Ctx *c, const Nest *n, uint32_t axis)
{
    Binding back = { { VAR_AXIS, axis },
                     expr_sub(c, expr_offset(c, n->axis[axis].extent, -1), expr_axis(c, axis)) };
    NestEdit e = nest_edit(c, n, 0, 0);
    Bindings b = { &back, 1 };
    ScalarMap m = { .expr = bindings_apply, .user = &b, .ctx = c, .done = { .arena = e.scratch } };

    nest_edit_map(&e, &m);
    return nest_edit_done(c, &e);
}
