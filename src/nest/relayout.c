/* relayout: a nest that reads an input as it lies in memory.
 *
 * A tensor in a memory format is a plain tensor of other dimensions, so the input takes its physical type and every
 * read the physical index: x[k, j] of a format [1/16, 0, 1%16] becomes x[j // 16, k, j % 16]. Whoever asks the nest
 * afterwards sees an access map like any other. */
#include "nest/walk.h"

typedef struct { uint32_t slot; const Format *format; bool ok; } Relayout;

static const Scalar *
physical_load(ScalarMap *m, const Scalar *load)
{
    Relayout *r = m->user;
    const Expr *at[TN_MAX_RANK];
    Ctx *c = m->ctx;

    if (load->u.load.slot != r->slot)
        return load;
    if (load->u.load.outside) {                      /* padding is inside of what lies in memory */
        r->ok = false;
        return load;
    }
    for (uint32_t p = 0; p < r->format->npart; p++) {
        FormatPart part = r->format->part[p];
        const Expr *e = expr_div(c, load->u.load.at[part.dim], expr_int(c, part.div));
        at[p] = part.mod ? expr_mod(c, e, expr_int(c, part.mod)) : e;
    }
    return scalar_load(c, load->dtype, load->u.load.slot, r->format->npart, at, NULL);
}

const Nest *
nest_relayout(Ctx *c, const Nest *n, uint32_t slot, const Format *format)
{
    const Expr *dim[TN_MAX_RANK];
    NestEdit e = nest_edit(c, n, 0, 0);
    Arena *scratch = arena_child(c->arena);
    Relayout r = { slot, format, format->npart <= TN_MAX_RANK };
    ScalarMap m = { .load = physical_load, .user = &r, .ctx = c, .done = { .arena = scratch } };

    if (r.ok) {
        for (uint32_t p = 0; p < format->npart; p++)
            dim[p] = format_extent(c, format, n->param[slot].type, p);
        e.param[slot].type = type_new(c, n->param[slot].type->dtype, format->npart, dim);
        nest_edit_map(&e, &m);
    }
    arena_free(scratch);
    return r.ok ? nest_edit_done(c, &e) : NULL;
}
