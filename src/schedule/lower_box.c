/* lower_box: the required region of a part computed at a loop: the box of all that its readers need
 * in an iteration.
 *
 * A reader's axes are known inside that loop, or run over parts of known length, or over their
 * whole extent; access_region gives the elements that are read then. Where a read may be outside of
 * the tensor, the box is clipped to it.
 */
#include "schedule/lower.h"

#include <string.h>

/* ---- how large a box can be ------------------------------------------------------------------ */

static IterId
outer_piece(const Env *e, IterId x, IterId after)
{
    for (IterId y = after + 1; y < e->p->iter.n; y++)
        if (env_iter(e, y)->parent == x && !env_iter(e, y)->inner)
            return y;
    return 0;
}

/* Is x the only iterator of a fused loop? Then its points are those of x. */
static bool
is_alone(const Env *e, IterId x)
{
    IterId whole = env_iter(e, x)->whole;

    return whole && env_iter(e, whole)->nfrom == 1;
}

/* An unknown index that is equal wherever it occurs. */
#define SOMEWHERE(x) ((Var){ VAR_LOOP, UINT32_MAX - 1 - (x) })

static void find_most(Env *e, const Put *put, const LoopNode *at, const Expr **first,
                      const Expr **most);
static void hull_most(Env *e, IterId box, const LoopNode *at, const Expr **lo, const Expr **width);

/* The points of x in one iteration of `at`: a first one, and the largest number. */
static void
most_points(Env *e, IterId x, const LoopNode *at, const Expr **lo, const Expr **width)
{
    const Iter *it = env_iter(e, x);

    *lo = expr_int(e->c, 0);
    *width = expr_int(e->c, 1);
    if (it->box && env_iter(e, it->box)->skip) {
        hull_most(e, it->box, at, lo, width);
        return;
    }
    if (it->box) {
        const Iter *box = env_iter(e, it->box);
        const Put *put = &e->p->put.at[box->put];
        /* all boxes of the part in the iteration */
        if (!node_inside(at, put->at)) {
            const Expr *first[TN_MAX_RANK], *most[TN_MAX_RANK];
            find_most(e, put, at, first, most);
            *lo = first[box->dim];
            *width = most[box->dim];
            return;
        }
        most_points(e, it->box, at, lo, width);
        *lo = expr_add(e->c, *lo, put->first[box->dim]);
        return;
    }
    if (iter_is_known(e->p, at, x, NULL, 0)) {
        *lo = expr_var(e->c, SOMEWHERE(it->with ? it->with : x));
        return;
    }
    if (is_alone(e, x)) {
        most_points(e, it->whole, at, lo, width);
        return;
    }
    for (IterId y = outer_piece(e, x, 0); y; y = outer_piece(e, x, y)) {
        const Expr *start, *inner;
        if (!iter_is_known(e->p, at, y, NULL, 0))
            continue;
        most_points(e, y, at, &start, width);
        most_points(e, env_iter(e, y)->sibling, at, &inner, width);
        *lo = expr_add(e->c, expr_scale(e->c, start, env_iter(e, y)->factor), inner);
        return;
    }
    *width = env_most(e, x);
}

/* ---- readers --------------------------------------------------------------------------------- */

/* lo, end: the union of all reads; in note_most: the first index and the largest number of
 * points. */
typedef struct {
    Env *e;
    const Expr **lo, **end;
    bool any, plain;
} Union;

/* Only sums of axes: then the box has no element that is not read. */
static bool
is_plain(const Access *a)
{
    if (a->conditional || a->load->u.load.outside)
        return false;
    for (uint32_t d = 0; d < a->load->u.load.rank; d++)
        for (uint32_t x = 0; x < NEST_MAX_AXES; x++) {
            const Expr *at = a->load->u.load.at[d];
            if (!(expr_axes(at) >> x & 1))
                continue;
            for (uint32_t t = 0; t < at->nterm; t++)
                for (uint32_t f = 0; f < at->term[t].nfactor; f++)
                    if (at->term[t].factor[f].atom->kind != ATOM_VAR)
                        return false;
        }
    return true;
}

static void note_most(Union *u, const Type *t, const Access *a, const Expr **lo,
                      const Expr **width);
static void join_box(Union *u, const Type *t, const Access *a, const Expr **lo, const Expr **width);

/* Joins the regions that readers read: of an iteration of `at`, or (NULL) at this point. */
static void
join_reads(Env *e, const Put *put, const LoopNode *at, Union *u)
{
    PartReads reads = points_reads(e->p, put->local);
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES], *first[TN_MAX_RANK], *points[TN_MAX_RANK];
    const Type *t = e->k->buffer.at[put->local].type;

    for (uint32_t i = 0; i < reads.n; i++) {
        uint32_t part = reads.at[i].part, naxis = e->k->part[part].nest->naxis;
        for (uint32_t x = 0; x < naxis; x++)
            if (at)
                most_points(e, e->p->axis[part][x], at, &lo[x], &width[x]);
            else
                points_here(e, e->p->axis[part][x], &lo[x], &width[x]);
        access_region(e->c, &reads.at[i].access, naxis, lo, width, first, points);
        (at ? note_most : join_box)(u, t, &reads.at[i].access, first, points);
    }
}

/* ---- largest boxes --------------------------------------------------------------------------- */

static void
note_most(Union *u, const Type *t, const Access *a, const Expr **lo, const Expr **width)
{
    Ctx *c = u->e->c;
    (void)a;

    for (uint32_t d = 0; d < t->rank; d++) {
        bool known = lo[d] && !expr_uses_kind(width[d], VAR_LOOP) && (!u->any || u->lo[d] == lo[d]);
        u->end[d] = !known ? t->dim[d] : u->any ? expr_max(c, u->end[d], width[d]) : width[d];
        u->lo[d] = known ? lo[d] : expr_int(c, 0);
    }
    u->any = true;
}

/* The largest boxes of a put in one iteration of `at`. */
static void
find_most(Env *e, const Put *put, const LoopNode *at, const Expr **first, const Expr **most)
{
    Union u = { .e = e, .lo = first, .end = most };

    join_reads(e, put, at, &u);
}

static bool
has_put(const Env *e, uint32_t part)
{
    for (uint32_t i = 1; i < e->p->put.n; i++)
        if (e->p->put.at[i].part == part)
            return true;
    return false;
}

/* A part computed at the shared loops keeps the result of one iteration, so its readers must be in
 * the same iteration. */
static bool
finds_shared(Env *e, uint32_t reader, uint32_t maker)
{
    const Nest *n = e->k->part[maker].nest;
    uint32_t shared = 0;
    const LoopNode *at = NULL;

    for (uint32_t i = 1; i < e->p->put.n; i++)
        if (e->p->put.at[i].part == reader)
            at = e->p->put.at[i].at;
    for (uint32_t x = 0; at && x < n->naxis && shared < e->k->shared; x++) {
        if (n->axis[x].kind != AXIS_PARALLEL)
            continue;
        shared++;
        if (!iter_is_known(e->p, at, e->p->axis[maker][x], NULL, 0))
            return points_refuse(e->p,
                                 "%s is put where %s is not known, and reads %s, which is computed "
                                 "for one at a time: put %s there as well",
                                 part_name(e->p, reader), env_iter(e, e->p->axis[maker][x])->name,
                                 part_name(e->p, maker), part_name(e->p, maker));
    }
    return true;
}

static bool
finds_put(Env *e, uint32_t reader, const Put *put)
{
    const LoopNode *leaf = part_leaf(e->p, reader);
    return node_inside(leaf, put->at) ||
           points_refuse(e->p, "%s reads %s, which is put inside %s alone", part_name(e->p, reader),
                         part_name(e->p, put->part), env_iter(e, put->at->iter)->name);
}

bool
boxes_begin(Env *e)
{
    Kernel *k = e->k;

    if (e->p->put.n == 1)
        return true;
    for (uint32_t reader = 0; reader < k->npart; reader++)
        for (uint32_t maker = 0; maker < reader; maker++) {
            const Put *put = NULL;
            bool reads = false;
            for (uint32_t i = 1; i < e->p->put.n; i++)
                if (e->p->put.at[i].part == maker)
                    put = &e->p->put.at[i];
            for (uint32_t i = 0; i < k->part[reader].nest->nin; i++)
                for (uint32_t o = k->part[maker].nest->nin;
                     o < k->part[maker].nest->nin + k->part[maker].nest->nout; o++)
                    reads |= k->part[reader].buffer[i] == k->part[maker].buffer[o];
            if (reads && !(put ? finds_put(e, reader, put)
                               : !has_put(e, reader) || finds_shared(e, reader, maker)))
                return false;
        }
    for (uint32_t part = k->npart; part-- > 0;) /* readers before producers */
        for (uint32_t i = 1; i < e->p->put.n; i++) {
            Put *put = &e->p->put.at[i];
            if (put->part != part)
                continue;
            put->home = NEW(e->a, LocalBox);
            put->home->rank = k->buffer.at[put->local].type->rank;
            memcpy(put->home->dim, put->dim, sizeof put->dim);
            find_most(e, put, put->at, put->first, put->most);
        }
    return true;
}

/* ---- boxes at the current point -------------------------------------------------------------- */

void
points_most(Env *e, IterId x, const LoopNode *at, const Expr **width)
{
    const Expr *lo;

    most_points(e, x, at, &lo, width);
}

static void box_here(Env *e, const Put *put, Union *u);

void
box_range(Env *e, IterId x, const Expr **lo, const Expr **width)
{
    const Iter *box = env_iter(e, x);
    const Expr *begin[TN_MAX_RANK], *end[TN_MAX_RANK];
    Union u = { .e = e, .lo = begin, .end = end, .plain = true };

    if (box->skip) {
        *lo = expr_int(e->c, 0);
        *width = env_most(e, x);
        return;
    }
    box_here(e, &e->p->put.at[box->put], &u);
    *lo = env_simplify(e, begin[box->dim]);
    *width = env_simplify(e, expr_sub(e->c, end[box->dim], begin[box->dim]));
}

void
points_here(Env *e, IterId x, const Expr **lo, const Expr **width)
{
    const Iter *it = env_iter(e, x);

    *lo = env_value(e, x);
    *width = expr_int(e->c, 1);
    if (*lo)
        return;
    /* its boxes begin further in: the hull of all of them */
    if (it->box && !e->at[it->box].lo) {
        box_range(e, it->box, lo, width);
        return;
    }
    if (it->box) {
        points_here(e, it->box, lo, width);
        *lo = expr_add(e->c, e->at[it->box].lo, *lo);
        return;
    }
    if (is_alone(e, x)) {
        points_here(e, it->whole, lo, width);
        return;
    }
    for (IterId y = outer_piece(e, x, 0); y; y = outer_piece(e, x, y)) {
        const Expr *start = env_start(e, y), *inner;
        if (!start)
            continue;
        points_here(e, env_iter(e, y)->sibling, &inner, width);
        *lo = expr_add(e->c, start, inner);
        return;
    }
    *lo = expr_int(e->c, 0);
    *width = it->put ? e->p->put.at[it->put].points[it->dim] : env_extent(e, x);
}

static void
join_box(Union *u, const Type *t, const Access *a, const Expr **lo, const Expr **width)
{
    Env *e = u->e;
    Ctx *c = e->c;
    bool plain = is_plain(a);

    u->plain &= plain;
    for (uint32_t d = 0; d < t->rank; d++) {
        const Expr *begin = lo[d], *end;
        if (!begin || !width[d]) {
            begin = expr_int(c, 0);
            end = t->dim[d];
        } else {
            end = expr_add(c, begin, width[d]);
            if (!plain) {
                begin = expr_max(c, expr_int(c, 0), begin);
                end = expr_min(c, end, t->dim[d]);
            }
        }
        u->lo[d] = u->any && u->lo[d] != begin ? expr_min(c, u->lo[d], begin) : begin;
        u->end[d] = u->any && u->end[d] != end ? expr_max(c, u->end[d], end) : end;
    }
    u->any = true;
}

/* The box of a part's result that its readers need in the current iterations. */
static void
box_here(Env *e, const Put *put, Union *u)
{
    Phase before = e->phase;

    /* padding of sums need not be computed */
    e->phase = PHASE_COMPLETE;
    join_reads(e, put, NULL, u);
    e->phase = before;
}

/* Is it a number, or a multiple of a variable? A name would hide its divisors. */
static bool
is_named(const Expr *e)
{
    return e->nterm == 0 ||
           (e->nterm == 1 &&
            (!e->term[0].nfactor || (e->term[0].nfactor == 1 && e->term[0].factor[0].power == 1 &&
                                     e->term[0].factor[0].atom->kind == ATOM_VAR)));
}

static void
place_box(Env *e, Put *put, Block *b)
{
    const Expr *begin[TN_MAX_RANK], *end[TN_MAX_RANK];
    Union u = { .e = e, .lo = begin, .end = end, .plain = true };
    Ctx *c = e->c;

    box_here(e, put, &u);
    for (uint32_t d = 0; u.any && d < put->home->rank; d++) {
        Sym name = put->box[d] ? env_iter(e, put->box[d])->name : NULL;
        const Expr *first = env_simplify(e, u.lo[d]),
                   *points = env_simplify(e, expr_sub(c, u.end[d], u.lo[d]));
        put->home->lo[d] = first;
        put->points[d] = points;
        if (!name)
            continue;
        if (!is_named(points))
            points = env_let(e, b, "points", u.plain ? points : expr_max(c, expr_int(c, 0), points),
                             expr_offset(c, put->most[d], 1));
        env_change(e, put->box[d])->lo = first;
        e->at[put->box[d]].extent = points;
    }
}

/* ---- hulls ----------------------------------------------------------------------------------- */

/* The hull of a reduction's support for the rows in row_lo, row_width, in multiples of the step. */
static void
hull_of(Env *e, const Skip *s, const Expr *const *row_lo, const Expr *const *row_width,
        const Expr **lo, const Expr **hi)
{
    const Nest *n = e->low[s->part].n;
    const Expr *extent = n->axis[s->axis].extent;
    Ctx *c = e->c;

    support_hull(c, &s->support, extent, n->naxis, row_lo, row_width, lo, hi);
    if (s->by > 1) {
        *lo = expr_scale(c, expr_div(c, *lo, expr_int(c, s->by)), s->by);
        *hi = expr_min(c, extent, expr_scale(c, expr_ceil_div(c, *hi, expr_int(c, s->by)), s->by));
    }
}

/* The points of x, an axis that a skip shortened, in one iteration of `at`. */
static void
hull_most(Env *e, IterId box, const LoopNode *at, const Expr **lo, const Expr **width)
{
    const Skip *s = &e->p->skip.at[env_iter(e, box)->skip];
    const Expr *row_lo[NEST_MAX_AXES], *row_width[NEST_MAX_AXES], *hi;

    *lo = expr_int(e->c, 0);
    *width = env_most(e, box);
    if (!node_inside(at, s->at))
        return;
    if (at != s->at) {
        most_points(e, box, at, lo, width);
        *lo = expr_add(e->c, *lo, expr_var(e->c, SOMEWHERE(box)));
        return;
    }
    for (uint32_t x = 0; x < e->low[s->part].n->naxis; x++)
        if (x != s->axis)
            most_points(e, e->p->axis[s->part][x], at, &row_lo[x], &row_width[x]);
    row_lo[s->axis] = row_width[s->axis] = expr_int(e->c, 0);
    hull_of(e, s, row_lo, row_width, lo, &hi);
}

/* A multiple of `by`, at most `most`, as `by` times a named value. */
static const Expr *
name_steps(Env *e, Block *b, const char *name, const Expr *x, int64_t by, const Expr *most)
{
    Ctx *c = e->c;

    if (is_named(x))
        return x;
    const Expr *steps = env_simplify(e, expr_div(c, x, expr_int(c, by)));
    return expr_scale(
        c, env_let(e, b, name, steps, expr_offset(c, expr_div(c, most, expr_int(c, by)), 1)), by);
}

/* The rows at this point if only an outer part of their loop is known: a tile of tiles, whose loop
 * over tiles is further in. */
static void
rows_here(Env *e, IterId x, const Expr **lo, const Expr **width)
{
    const Expr *start, *pieces;

    points_here(e, x, lo, width);
    if (!expr_is(*lo, 0))
        return;
    if (is_alone(e, x)) {
        rows_here(e, env_iter(e, x)->whole, lo, width);
        return;
    }
    for (IterId y = outer_piece(e, x, 0); y; y = outer_piece(e, x, y)) {
        rows_here(e, y, &start, &pieces);
        if (expr_is(start, 0))
            continue;
        *lo = expr_scale(e->c, start, env_iter(e, y)->factor);
        *width = expr_scale(e->c, pieces, env_iter(e, y)->factor);
        return;
    }
}

/* A hull: the expressions, and the named values. */
typedef struct {
    const Expr *from, *points, *named_from, *named_points;
} Hull;

/* before [nbefore]: hulls of the same body; equal hulls share names. */
static Hull
place_hull(Env *e, const Skip *s, Block *b, const Hull *before, uint32_t nbefore)
{
    const Expr *row_lo[NEST_MAX_AXES], *row_width[NEST_MAX_AXES], *lo, *hi;
    const Expr *extent = e->low[s->part].n->axis[s->axis].extent;
    Ctx *c = e->c;

    for (uint32_t x = 0; x < e->low[s->part].n->naxis; x++)
        if (x != s->axis)
            rows_here(e, e->p->axis[s->part][x], &row_lo[x], &row_width[x]);
    row_lo[s->axis] = row_width[s->axis] = expr_int(c, 0);
    hull_of(e, s, row_lo, row_width, &lo, &hi);
    lo = env_simplify(e, lo);
    const Expr *points =
        env_simplify(e, expr_max(c, expr_int(c, 0), env_simplify(e, expr_sub(c, hi, lo))));
    Hull hull = { lo, points, NULL, NULL };
    for (uint32_t i = 0; i < nbefore && !hull.named_from; i++)
        if (before[i].from == lo && before[i].points == points)
            hull = before[i];
    if (!hull.named_from) {
        hull.named_from = name_steps(e, b, "from", lo, s->by, extent);
        hull.named_points =
            name_steps(e, b, "points", points,
                       expr_divisible(c, NULL, extent, s->by) == YES ? s->by : 1, extent);
    }
    env_change(e, s->box)->lo = hull.named_from;
    e->at[s->box].extent = hull.named_points;
    return hull;
}

void
boxes_place(Env *e, const LoopNode *n, Block *b)
{
    Hull *hull = NEW_ARRAY(e->a, Hull, e->p->skip.n);
    uint32_t nhull = 0;

    for (uint32_t part = e->k->npart; part-- > 0;) {
        for (uint32_t i = 0; i < n->puts.n; i++)
            if (e->p->put.at[n->puts.at[i]].part == part)
                place_box(e, &e->p->put.at[n->puts.at[i]], b);
        for (uint32_t i = 1; i < e->p->skip.n; i++)
            if (e->p->skip.at[i].at == n && e->p->skip.at[i].part == part)
                hull[nhull] = place_hull(e, &e->p->skip.at[i], b, hull, nhull), nhull++;
    }
}
