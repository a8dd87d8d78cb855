/* rebind: a nest with other parameters: merged if they are one tensor, dropped if nothing reads
 * them, or with symbols substituted. */
#include "nest/internal.h"
#include "nest/walk.h"

static const Scalar *
move_slot(ScalarMap *m, const Scalar *load)
{
    const uint32_t *to = m->user;

    return load_with(m->ctx, load, to[load->u.load.slot], load->u.load.outside);
}

/* Keep the inputs for which keep says so; to[] is where each old slot goes. */
static const Nest *
renumber_inputs(Ctx *c, const Nest *n, const bool *keep, uint32_t *to)
{
    NestEdit e = nest_edit(c, n, 0, 0);
    ScalarMap m = { .load = move_slot, .user = to, .ctx = c, .done = { .arena = e.scratch } };
    uint32_t kept = 0;

    nest_edit_map(&e, &m);
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        if (i >= n->nin || keep[i])
            e.param[kept++] = n->param[i];
    for (uint32_t i = 0; i < n->nwrite; i++) {
        e.write[i].out = to[n->write[i].out];
        if (n->write[i].init != NO_SLOT)
            e.write[i].init = to[n->write[i].init];
    }
    e.nest.nin = kept - n->nout;
    return nest_edit_done(c, &e);
}

const Nest *
nest_merge_params(Ctx *c, const Nest *n, const uint32_t *same)
{
    bool *keep = NEW_ARRAY(c->arena, bool, n->nin);
    uint32_t *to = NEW_ARRAY(c->arena, uint32_t, n->nin + n->nout), kept = 0;

    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        bool first = i >= n->nin || same[i] == i;
        to[i] = first ? kept++ : to[same[i]];
        if (i < n->nin)
            keep[i] = first;
    }
    return renumber_inputs(c, n, keep, to);
}

const Nest *
nest_drop_unused(Ctx *c, const Nest *n, uint32_t *of)
{
    Arena *scratch = arena_child(c->arena);
    Accesses reads = nest_accesses(c, scratch, n);
    bool *keep = NEW_ARRAY(scratch, bool, n->nin + 1);
    uint32_t *to = NEW_ARRAY(scratch, uint32_t, n->nin + n->nout), kept = 0;

    for (uint32_t i = 0; i < reads.n; i++)
        if (reads.at[i].load->u.load.slot < n->nin)
            keep[reads.at[i].load->u.load.slot] = true;
    for (uint32_t i = 0; i < n->nwrite; i++)
        if (n->write[i].combiner != COMB_NONE && n->write[i].init != NO_SLOT)
            keep[n->write[i].init] = true;
    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        to[i] = i >= n->nin || keep[i] ? kept++ : NO_SLOT;
        if (to[i] != NO_SLOT)
            of[to[i]] = of[i];
    }
    if (kept < n->nin + n->nout)
        n = renumber_inputs(c, n, keep, to);
    arena_free(scratch);
    return n;
}

/* ---- symbols --------------------------------------------------------------------------------- */

const Nest *
nest_bind(Ctx *c, const Nest *n, const Binding *b, uint32_t nb)
{
    NestEdit e = nest_edit(c, n, 0, 0);
    Bindings bindings = { b, nb };
    ScalarMap m = {
        .expr = bindings_apply, .user = &bindings, .ctx = c, .done = { .arena = e.scratch }
    };

    for (uint32_t i = 0; i < n->nin + n->nout; i++) {
        const Type *t = n->param[i].type;
        const Expr *dim[TN_MAX_RANK];
        for (uint32_t d = 0; d < t->rank; d++)
            dim[d] = expr_subst(c, t->dim[d], b, nb);
        e.param[i].type = type_new(c, t->dtype, t->rank, dim);
    }
    nest_edit_map(&e, &m);
    return nest_edit_done(c, &e);
}
