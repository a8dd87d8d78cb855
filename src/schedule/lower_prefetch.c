/* lower_prefetch: iterations of a loop prefetch, in equal shares, what the next iteration of a loop
 * around them reads (step_copy.c).
 *
 *     kb in shown next kb_2: { …  k: { ahead x[kb_2, share k];  s += q[k] * x[kb, k] } }
 *
 * An operand that is contiguous along the loop is prefetched in the order of memory, row by row: at
 * its own points each iteration would name the same lines as the one before. Any other is
 * prefetched at its points, a line at a time.
 */
#include "schedule/lower.h"

/* Where a load reads, `more` points along an axis after the first point here. */
static const Expr *
place_of(Env *e, uint32_t part, const Scalar *load, uint32_t axis, int64_t more)
{
    Low *l = env_axes(e, part);
    const Expr *width;

    for (uint32_t x = 0; x < l->n->naxis; x++)
        if (load->axes >> x & 1) {
            points_here(e, e->p->axis[part][x], &l->bind[x], &width);
            l->bind[x] = x == axis ? expr_offset(e->c, l->bind[x], more) : l->bind[x];
        }
    l->lanes = 1;
    l->valid = NULL;
    const Scalar *read = low_value(l, load);
    return read->op == S_LOAD ? buffer_offset(e->c, &e->k->buffer.at[read->u.load.slot],
                                              read->u.load.at)
                              : NULL;
}

/* The axis of most points here, *points; NO_SLOT: all have one. */
static uint32_t
widest_axis(Env *e, uint32_t part, AxisSet axes, int64_t *points)
{
    uint32_t widest = NO_SLOT;

    *points = 1;
    FOR_EACH_AXIS (x, axes) {
        const Expr *lo, *width;
        int64_t n;
        points_here(e, e->p->axis[part][x], &lo, &width);
        if (expr_const(width, &n) && n > *points) {
            *points = n;
            widest = x;
        }
    }
    return widest;
}

static void
prefetch_load(Env *e, const Prefetch *f, const Scalar *load, Block *b)
{
    uint32_t slot = e->k->part[f->part].buffer[load->u.load.slot];
    Ctx *c = e->c;
    const Expr *step = NULL, *along = expr_int(c, 0), *rest = NULL,
               *place = place_of(e, f->part, load, NO_SLOT, 0),
               *trips = env_extent(e, f->at->iter);
    int64_t points, line = e->p->m->line_bytes / dtype_info[load->dtype].bytes;
    uint32_t axis = widest_axis(e, f->part, load->axes, &points);
    Var trip;

    if (!place)
        return;
    if (axis != NO_SLOT)
        step = expr_sub(c, place_of(e, f->part, load, axis, 1), place);
    if (f->at != f->of && expr_is_var(env_value(e, f->at->iter), &trip) &&
        !expr_linear(c, place, trip, &along, &rest))
        along = expr_int(c, 0);
    bool rows = expr_is(along, 1) && step && expr_const(trips, NULL);
    for (int64_t i = 0; i == 0 || (i < points && (rows || (step && expr_is(step, 1)))); i += line) {
        const Expr *at = expr_offset(c, place, i);
        if (rows) {
            const Expr *share = expr_offset(c, expr_scale(c, expr_var(c, trip), points), i);
            at = expr_add(c, rest,
                          step == trips ? share
                                        : expr_add(c, expr_mod(c, share, trips),
                                                   expr_mul(c, step, expr_div(c, share, trips))));
        }
        tree_ahead(b, slot, expr_subst(c, at, &f->next, 1), false);
    }
}

void
prefetches_place(Env *e, const LoopNode *n, Block *b)
{
    for (uint32_t i = 0; i < e->p->prefetch.n; i++) {
        const Prefetch *f = &e->p->prefetch.at[i];
        if (f->at != n || !f->next.to)
            continue;
        FOR_EACH_SCALAR (load, scalar_loads(e->c, f->operand))
            prefetch_load(e, f, load, b);
    }
}

void
prefetches_follow(Env *e, const LoopNode *n, Tree *loop)
{
    Var trip = { VAR_LOOP, loop ? loop->u.loop.var : 0 };
    const Expr *next = NULL;

    for (uint32_t i = 0; i < e->p->prefetch.n; i++) {
        Prefetch *f = &e->p->prefetch.at[i];
        if (f->of != n)
            continue;
        if (loop && !next && loop->u.loop.list) {
            loop->u.loop.next = e->k->nloop++;
            loop->u.loop.next_name = loop->u.loop.name;
            next = expr_loop(e->c, loop->u.loop.next);
        } else if (loop && !next) {
            next = expr_offset(e->c, expr_var(e->c, trip), 1);
        }
        f->next = (Binding){ trip, next };
    }
}
