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

/* The element that a load reads `more` points along an axis after the first point here, and its
 * buffer. NULL: it is no argument's, or an index is read from memory, which may not be known for
 * what is next. */
static const Expr *
place_of(Env *e, uint32_t part, const Scalar *load, uint32_t axis, int64_t more, uint32_t *buffer)
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
    if (read->op != S_LOAD || e->k->buffer.at[read->u.load.slot].space != SPACE_IN)
        return NULL;
    *buffer = read->u.load.slot;
    const Expr *place = buffer_offset(e->c, &e->k->buffer.at[*buffer], read->u.load.at);
    return expr_uses_kind(place, VAR_COMPUTED) ? NULL : place;
}

/* What an iteration reads at most along axes of several points. */
typedef struct {
    uint32_t n;
    struct {
        int64_t points;
        const Expr *step; /* [elements] */
    } along[NEST_MAX_AXES];
} Spread;

static Spread
spread_of(Env *e, const Prefetch *f, const Scalar *load, const Expr *place)
{
    Spread s = { 0 };

    FOR_EACH_AXIS (x, load->axes) {
        const Expr *width;
        int64_t points;
        uint32_t buffer;
        points_most(e, e->p->axis[f->part][x], f->at, &width);
        if (!expr_const(width, &points) || points < 2)
            continue;
        const Expr *there = place_of(e, f->part, load, x, 1, &buffer);
        if (!there || there == place)
            continue;
        s.along[s.n].points = points;
        s.along[s.n++].step = expr_sub(e->c, there, place);
    }
    return s;
}

/* prefetches of a load in one iteration; bounds code: a mask of floats has a line for each of 64
 * keys or rows */
enum { MOST_LINES = 64 };

/* All lines of the spread, from its axis i on. */
static void
prefetch_lines(Env *e, const Spread *s, uint32_t i, uint32_t slot, const Expr *at, int64_t line,
               Block *b, uint32_t *left)
{
    int64_t step;

    if (i == s->n) {
        if (*left)
            tree_ahead(b, slot, at, false);
        *left -= *left > 0;
        return;
    }
    int64_t each = expr_is(s->along[i].step, 1) ? line : 1;
    /* of a word for several rows, the first one's */
    int64_t points = expr_const(s->along[i].step, &step) && step ? s->along[i].points : 1;
    for (int64_t k = 0; k < points; k += each)
        prefetch_lines(e, s, i + 1, slot, expr_add(e->c, at, expr_scale(e->c, s->along[i].step, k)),
                       line, b, left);
}

static void
prefetch_load(Env *e, const Prefetch *f, const Scalar *load, Block *b)
{
    uint32_t slot, left = MOST_LINES;
    Ctx *c = e->c;
    const Expr *coef, *rest, *trips = env_extent(e, f->at->iter),
                             *place = place_of(e, f->part, load, NO_SLOT, 0, &slot);
    int64_t line = e->p->m->line_bytes / dtype_info[load->dtype].bytes;
    Var trip;

    if (!place)
        return;
    Spread s = spread_of(e, f, load, place);
    place = expr_subst(c, place, &f->next, 1);
    if (f->at == f->of || s.n != 1 || !expr_const(trips, NULL) ||
        !expr_is_var(env_value(e, f->at->iter), &trip) ||
        !expr_linear(c, place, trip, &coef, &rest) || !expr_is(coef, 1)) {
        prefetch_lines(e, &s, 0, slot, place, line, b, &left);
        return;
    }
    for (int64_t i = 0; i < s.along[0].points; i += line) {
        const Expr *share = expr_offset(c, expr_scale(c, expr_var(c, trip), s.along[0].points), i);
        if (s.along[0].step != trips)
            share = expr_add(c, expr_mod(c, share, trips),
                             expr_mul(c, s.along[0].step, expr_div(c, share, trips)));
        tree_ahead(b, slot, expr_add(c, rest, share), false);
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
