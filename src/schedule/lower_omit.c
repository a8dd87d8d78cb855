/* lower_omit: lists of the blocks that are not omitted (step_omit.c).
 *
 *     task: { list shown = kb < 64 if used[…];  kb in shown: s = …;  kb in shown: t max= s;  … }
 *
 * Loops over the same blocks under the same rows share a list: it is made once, without branches,
 * where each loop would mispredict its tests. And it says which block is next, for prefetches.
 */
#include "schedule/lower.h"

#include <string.h>

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

/* Blocks of what is computed at a loop are those of its readers if both begin at the first point. */
static bool
begins_with_readers(Env *e, const Omit *o)
{
    IterId box = env_iter(e, e->p->axis[o->part][o->axis])->box;

    return !box || expr_is(e->at[box].lo, 0) ||
           points_refuse(e->p, "what is computed of %s does not begin at its first point",
                         env_iter(e, o->at_loop->iter)->name);
}

/* Does some row see a point of iteration `var`? NULL, refused: the table is too large. */
static const Scalar *
shown_in(Env *e, const Omit *o, uint32_t var)
{
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES], *here, *at[TN_MAX_RANK];
    uint32_t left = MOST_ELEMENTS, naxis = e->low[o->part].n->naxis;
    EnvScope s = env_enter(e);

    VEC_PUSH(e->a, &e->range, ((Range){ { VAR_LOOP, var }, expr_int(e->c, 0), o->end }));
    env_bind_trip(e, o->at_loop->iter, expr_loop(e->c, var));
    for (uint32_t x = 0; x < naxis; x++) {
        points_here(e, e->p->axis[o->part][x], &lo[x], &here);
        points_most(e, e->p->axis[o->part][x], x == o->axis ? o->at_loop : o->rows, &width[x]);
    }
    const Scalar *any = any_element(e, o->table, naxis, lo, width, 0, at, &left);
    env_leave(e, s);
    if (any)
        return scalar_2(e->c, S_NE, any, scalar_int(e->c, any->dtype, 0));
    points_refuse(e->p,
                  "it is not known how many elements of the table an iteration of %s has, or there "
                  "are more than %d",
                  env_iter(e, o->at_loop->iter)->name, MOST_ELEMENTS);
    return NULL;
}

/* Declares memory where a worker's scratch begins: inside of serial loops there is none. */
static uint32_t
declare_list(Env *e, const Expr *end)
{
    const Expr *size = expr_offset(e->c, end, 2);
    uint32_t list = kernel_buffer(e->c, e->a, e->k, "shown", type_new(e->c, DT_I32, 1, &size),
                                  SPACE_SCRATCH, 1);
    Block *b = e->scratch;

    tree_buffer(b, list);
    Tree *last = b->list.at[b->list.n - 1];
    memmove(b->list.at + e->scratch_at + 1, b->list.at + e->scratch_at,
            (b->list.n - 1 - e->scratch_at) * sizeof *b->list.at);
    b->list.at[e->scratch_at] = last;
    return list;
}

/* Makes the list, unless an earlier one of this iteration of the rows is the same. */
static void
make_list(Env *e, Omit *o, Block *b, uint32_t var)
{
    IterId x = o->at_loop->iter;

    o->end = env_extent(e, x);
    o->shown = begins_with_readers(e, o) ? shown_in(e, o, var) : NULL;
    o->list = 0;
    for (const Omit *before = e->p->omit.at; before != o && !o->list; before++)
        if (before->rows == o->rows && before->shown == o->shown && before->end == o->end)
            o->list = before->list;
    if (o->list || !o->shown)
        return;
    o->list = declare_list(e, env_most(e, x));
    tree_list(b, o->list, var, env_iter(e, x)->name, o->end, o->shown);
}

void
omits_place(Env *e, const LoopNode *n, Block *b)
{
    uint32_t var = e->k->nloop;
    bool any = false;

    for (uint32_t i = 0; i < e->p->omit.n; i++) {
        Omit *o = &e->p->omit.at[i];
        if (o->rows != n || o->at_loop == n)
            continue;
        e->k->nloop += !any;
        any = true;
        make_list(e, o, b, var);
    }
}

uint32_t
omit_list(Env *e, const LoopNode *n, Block *b, const Expr *begin, const Expr *end)
{
    Omit *o = NULL;

    for (uint32_t i = 0; i < e->p->omit.n && !o; i++)
        o = e->p->omit.at[i].at_loop == n ? &e->p->omit.at[i] : NULL;
    if (!o)
        return 0;
    if (o->rows == n)
        make_list(e, o, b, e->k->nloop++);
    if (o->list && (!expr_is(begin, 0) || end != o->end))
        points_refuse(e->p,
                      "some blocks of %s have loops of their own: to omit them, split with `guard`",
                      env_iter(e, n->iter)->name);
    return o->list;
}
