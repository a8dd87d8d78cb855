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

/* table elements in a block's test; bounds code: a task of 128 rows and a block of 128 keys have
 * 16 */
enum { MOST_ELEMENTS = 32 };

/* The disjunction of all table elements that a block covers, from index `at` on in dimensions
 * before d. NULL, refused: their number is unknown. */
static const Scalar *
any_element(Env *e, const Scalar *table, uint32_t naxis, const Expr *const *lo,
            const Expr *const *width, uint32_t d, const Expr **at, uint32_t *left)
{
    const Type *t = e->k->buffer.at[table->u.load.slot].type;
    const Expr *least, *most;
    const Scalar *any = NULL;
    int64_t more;

    if (d == table->u.load.rank)
        return (*left)-- ? scalar_load(e->c, table->dtype, table->u.load.slot, d, at, NULL) : NULL;
    if (!expr_region(e->c, table->u.load.at[d], naxis, lo, width, &least, &most) ||
        !expr_const(env_simplify(e, expr_sub(e->c, most, least)), &more))
        return NULL;
    for (int64_t i = 0; i <= more; i++) {
        at[d] = env_simplify(
            e, expr_min(e->c, expr_offset(e->c, least, i), expr_offset(e->c, t->dim[d], -1)));
        const Scalar *one = any_element(e, table, naxis, lo, width, d + 1, at, left);
        if (!one)
            return NULL;
        any = any ? scalar_2(e->c, S_OR, any, one) : one;
    }
    return any;
}

Block *
online_seen(Env *e, const LoopNode *n, Block *b)
{
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES], *here, *at[TN_MAX_RANK];
    const Online *o = NULL;
    uint32_t left = MOST_ELEMENTS;

    for (uint32_t i = 1; i < e->p->online.n && !o; i++)
        o = e->p->online.at[i].at_loop == n && e->p->online.at[i].table ? &e->p->online.at[i]
                                                                        : NULL;
    if (!o)
        return b;
    const Nest *max = e->low[o->max].n;
    for (uint32_t x = 0; x < max->naxis; x++) {
        points_here(e, e->p->axis[o->max][x], &lo[x], &here);
        points_most(e, e->p->axis[o->max][x], n, &width[x]);
    }
    const Scalar *any = any_element(e, o->table, max->naxis, lo, width, 0, at, &left);
    if (!any) {
        points_refuse(e->p,
                      "it is not known how many elements of the table a trip of %s has, or there "
                      "are more than %d",
                      env_iter(e, n->iter)->name, MOST_ELEMENTS);
        return b;
    }
    return &tree_if(b, scalar_2(e->c, S_NE, any, scalar_int(e->c, any->dtype, 0)))->body;
}
