/* lower_online: a maximum that grows from block to block, and sums that are scaled as it grows
 * (step_online.c). */
#include "schedule/lower.h"

#include <float.h>

bool
online_finds(Env *e)
{
    for (uint32_t i = 1; i < e->p->online.n; i++) {
        const Online *o = &e->p->online.at[i];
        bool put = false;
        for (uint32_t k = 1; k < e->p->put.n; k++)
            put |= e->p->put.at[k].part == o->max;
        if (!put || !node_inside(part_leaf(e->p, o->weight), o->at_loop))
            return points_refuse(
                e->p, "put %s, and %s at %s: it is made with a maximum that still grows there",
                part_name(e->p, o->max), part_name(e->p, o->weight),
                env_iter(e, o->at_loop->iter)->name);
    }
    return true;
}

void
place_online(Env *e, Block *b)
{
    for (uint32_t i = 1; i < e->p->online.n; i++) {
        Online *o = &e->p->online.at[i];
        const Type *t = e->k->buffer.at[e->low[o->max].home[o->local]].type;
        const Expr *extent[TN_MAX_RANK];
        /* sums over padding are scaled too, so the factors need padding */
        int64_t behind = 0;
        for (IterId x = 1; x < e->p->iter.n; x++)
            if (env_iter(e, x)->tail == WORD_pad && env_iter(e, x)->factor > behind)
                behind = env_iter(e, x)->factor;
        for (uint32_t d = 0; d < t->rank; d++)
            extent[d] = d + 1 < t->rank ? t->dim[d] : expr_offset(e->c, t->dim[d], behind);
        o->factor = kernel_buffer(e->c, e->a, e->k, "factor",
                                  type_new(e->c, t->dtype, t->rank, extent), SPACE_SCRATCH, 1);
        tree_buffer(b, o->factor);
    }
}

static const Scalar *
lowest(Ctx *c, DType t)
{
    return scalar_number(c, t, t == DT_F64 ? -DBL_MAX : t == DT_F16 ? -65504.0 : -FLT_MAX);
}

void
online_begins(Env *e, uint32_t hold, Low *l, Block *b)
{
    const Hold *h = &e->p->hold.at[hold];

    if (h->online && h->part == e->p->online.at[h->online].max)
        low_write(l, b, &l->n->write[0], lowest(e->c, part_reduction(e->p, h->part)->dtype));
}

const Scalar *
online_scaled(Env *e, uint32_t hold, Low *l, const Scalar *held)
{
    const Hold *h = &e->p->hold.at[hold];
    const Online *o = &e->p->online.at[h->online];
    const Expr *at[TN_MAX_RANK * 2], *logical[TN_MAX_RANK];
    const LocalBox *box = h->online ? l->box[o->local] : NULL;

    if (!h->online || h->part == o->max)
        return held;
    for (uint32_t i = 0; i < o->nsum; i++)
        if (o->sum[i] == h->part)
            for (uint32_t d = 0; d < box->rank; d++)
                logical[d] = low_expr(l, o->at[i][d]);
    for (uint32_t d = 0; d < box->rank; d++)
        at[d] = expr_sub(e->c, logical[box->dim[d]], box->lo[box->dim[d]]);
    return scalar_2(e->c, S_MUL, held,
                    scalar_load(e->c, held->dtype, o->factor, box->rank, at, NULL));
}

/* held: the maximum of all blocks so far. */
void
lower_rescale(Env *e, const LoopNode *leaf, Block *b, const Scalar *held)
{
    const Online *o = &e->p->online.at[e->p->hold.at[leaf->hold].online];
    const Scalar *reduce = part_reduction(e->p, leaf->part);
    const Nest *n = e->low[leaf->part].n;
    const Write *w = &n->write[0];
    Low *l = env_low(e, leaf->part, NULL, 0, w);
    const Expr *at[TN_MAX_RANK * 2];
    uint32_t buffer, rank = low_place(l, w->out, w->at, n->param[w->out].type->rank, at, &buffer);

    map_put(&l->value, MAP_PTR(reduce), MAP_PTR(held));
    const Scalar *before =
        scalar_load(e->c, reduce->dtype, w->out, n->param[w->out].type->rank, w->at, NULL);
    const Scalar *now = scalar_2(e->c, S_MAX, reduce, lowest(e->c, reduce->dtype));
    low_store(l, b, o->factor, at, rank,
              low_value(l, scalar_1(e->c, S_EXP, scalar_2(e->c, S_SUB, before, now))));
    low_store(l, b, buffer, at, rank, low_value(l, now));
}
