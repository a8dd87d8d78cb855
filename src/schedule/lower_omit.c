/* lower_omit: the tests of blocks that may be omitted (step_omit.c). */
#include "schedule/lower.h"

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

/* The rows of each omit that counts those of this iteration of n. */
void
omits_place(Env *e, const LoopNode *n)
{
    const Expr *here;

    for (uint32_t i = 0; i < e->p->omit.n; i++) {
        Omit *o = &e->p->omit.at[i];
        if (o->rows != n || o->at_loop == n)
            continue;
        for (uint32_t x = 0; x < e->low[o->part].n->naxis; x++) {
            points_here(e, e->p->axis[o->part][x], &o->lo[x], &here);
            points_most(e, e->p->axis[o->part][x], n, &o->width[x]);
        }
    }
}

/* Blocks of what is computed at a loop are those of its readers if both begin at the first point. */
static bool
begins_with_readers(Env *e, const Omit *o)
{
    IterId box = env_iter(e, e->p->axis[o->part][o->axis])->box;

    return !box || expr_is(e->at[box].lo, 0) ||
           points_refuse(e->p, "what is computed of %s does not begin at its first point",
                         env_iter(e, o->at_loop->iter)->name);
}

Block *
omit_test(Env *e, const LoopNode *n, Block *b)
{
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES], *here, *at[TN_MAX_RANK];
    const Omit *o = NULL;
    uint32_t left = MOST_ELEMENTS;

    for (uint32_t i = 0; i < e->p->omit.n && !o; i++)
        o = e->p->omit.at[i].at_loop == n ? &e->p->omit.at[i] : NULL;
    if (!o || !begins_with_readers(e, o))
        return b;
    for (uint32_t x = 0; x < e->low[o->part].n->naxis; x++) {
        bool own = o->rows == n || x == o->axis;
        points_here(e, e->p->axis[o->part][x], &lo[x], &here);
        points_most(e, e->p->axis[o->part][x], n, &width[x]);
        lo[x] = own ? lo[x] : o->lo[x];
        width[x] = own ? width[x] : o->width[x];
    }
    const Scalar *any = any_element(e, o->table, e->low[o->part].n->naxis, lo, width, 0, at, &left);
    if (!any) {
        points_refuse(e->p,
                      "it is not known how many elements of the table an iteration of %s has, or "
                      "there are more than %d",
                      env_iter(e, n->iter)->name, MOST_ELEMENTS);
        return b;
    }
    return &tree_if(b, scalar_2(e->c, S_NE, any, scalar_int(e->c, any->dtype, 0)))->body;
}
