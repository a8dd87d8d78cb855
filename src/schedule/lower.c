/* lower: points become a loop tree. This makes no choice: the form of a loop, a hold or a copy
 * follows from the steps that made it.
 *
 * Iterators get values as their loops are entered. A peeled loop is emitted twice: complete
 * iterations first, in which the inner loop has its full length, then the rest, in which it is
 * shorter. So an inner loop is unrolled or a full vector wherever possible, and no access needs a
 * guard of its own.
 */
#include "schedule/lower.h"

static void lower_node(Env *e, const LoopNode *n, Block *b);

/* ---- loops ----------------------------------------------------------------------------------- */

/* A loop over the points of a padded split, in multiples of its padding, which indexes a register
 * accumulator declared at n; 0: none. */
static IterId
narrowed_at(Env *e, const LoopNode *n)
{
    for (uint32_t i = 0; i < n->holds.n; i++) {
        const Hold *h = &e->p->hold.at[n->holds.at[i]];
        for (uint32_t d = 0; h->space == WORD_reg && d < h->ndim; d++) {
            const Iter *it = env_iter(e, h->dim[d]),
                       *points = it->parent ? env_iter(e, it->parent) : it;
            if (!it->inner && it->parent && points->inner && points->tail == WORD_pad &&
                points->rest == it->factor && env_start(e, points->sibling))
                return h->dim[d];
        }
    }
    return 0;
}

static bool
sums(const LoopNode *n)
{
    return n->phase == PHASE_INIT || n->phase == PHASE_UPDATE || n->phase == PHASE_FLUSH ||
           n->phase == PHASE_COPY;
}

/* Lowers the children of n that use the accumulator, specialised for each number of iterations of
 * x; the rest of the children is not specialised. Returns the number of children lowered. */
static uint32_t
lower_narrowed(Env *e, const LoopNode *n, IterId x, Block *b)
{
    const Iter *points = env_iter(e, env_iter(e, x)->parent);
    int64_t step = points->rest;
    Ctx *c = e->c;
    uint32_t count = 0;

    while (count < n->body.n && sums(n->body.at[count]))
        count++;
    const Expr *left = env_let(
        e, b, "left",
        env_simplify(e, expr_sub(c, env_extent(e, points->parent), env_start(e, points->sibling))),
        NULL);
    for (int64_t trips = points->factor / step; trips > 0; trips--) {
        Tree *more = trips > 1
                         ? tree_if(b, scalar_2(c, S_LT, scalar_int(c, DT_I64, (trips - 1) * step),
                                               scalar_index(c, left)))
                         : NULL;
        EnvScope s = env_enter(e);
        env_change(e, env_iter(e, x)->parent)->extent = expr_int(c, trips * step);
        for (uint32_t k = 0; k < count && !e->p->why; k++) {
            EnvScope child = env_enter(e);
            lower_node(e, n->body.at[k], more ? &more->body : b);
            env_leave(e, child);
        }
        env_leave(e, s);
        b = more ? &more->other : b;
    }
    return count;
}

/* The body of a loop, or of the cases between its borders and at them. */
static void
lower_cases(Env *e, const LoopNode *n, uint32_t i, Block *b)
{
    EnvScope s = env_enter(e);
    Var v;

    if (i == n->border.n) {
        IterId narrowed = narrowed_at(e, n);
        for (uint32_t k = narrowed ? lower_narrowed(e, n, narrowed, b) : 0;
             k < n->body.n && !e->p->why; k++) {
            lower_node(e, n->body.at[k], b);
            env_leave(e, s);
        }
        return;
    }
    const Border *k = &n->border.at[i];
    Ctx *c = e->c;
    const Expr *extent = env_extent(e, k->x),
               *value = env_let(e, b, env_iter(e, k->x)->name, env_value(e, k->x), extent);
    const Expr *begin = expr_int(c, k->first), *end = expr_offset(c, extent, -k->last);
    if (!expr_is_var(value, &v)) {
        lower_cases(e, n, i + 1, b);
        return;
    }
    if (value != env_value(e, k->x))
        env_bind(e, k->x, value);
    const Scalar *test = scalar_2(c, S_LE, scalar_index(c, begin), scalar_index(c, value));
    if (k->last)
        test = scalar_2(c, S_AND, test,
                        scalar_2(c, S_LT, scalar_index(c, value), scalar_index(c, end)));
    Tree *between = tree_if(b, test);
    EnvScope arm = env_enter(e);
    VEC_PUSH(e->a, &e->range, ((Range){ v, begin, expr_sub(c, end, begin) }));
    lower_cases(e, n, i + 1, &between->body);
    env_leave(e, arm);
    lower_cases(e, n, i + 1, &between->other);
    env_leave(e, s);
}

void
lower_body(Env *e, const LoopNode *n, Block *b)
{
    if (n == e->task) {
        place_scratch(e, b);
        e->scratch = b;
        e->scratch_at = b->list.n;
    }
    for (uint32_t i = 0; i < n->holds.n; i++)
        if (e->p->hold.at[n->holds.at[i]].space == WORD_reg)
            place_hold(e, b, n->holds.at[i]);
    for (uint32_t i = 0; i < n->copies.n; i++)
        if (e->p->copy.at[n->copies.at[i]].space == WORD_reg)
            place_copy(e, b, n->copies.at[i]);
    boxes_place(e, n, b);
    omits_place(e, n, b);
    prefetches_place(e, n, b);
    lower_cases(e, n, 0, b);
}

/* A row of fused axes (see lower_walk): the innermost axis, the fused index at which the row
 * begins, and the one at which the walk begins. */
typedef struct {
    IterId last;
    const Expr *row, *lo;
} FusedRow;

static void
bind_lane(Env *e, const LoopNode *n, const FusedRow *row, const Expr *at)
{
    if (row)
        env_bind(e, row->last, at);
    env_bind(e, n->iter, row ? expr_sub(e->c, expr_add(e->c, row->row, at), row->lo) : at);
}

/* One vector from `base` on, of which `extent` lanes exist. A read that is made lane by lane must
 * not go beyond the end: then the points run one by one, or, if lanes are accumulators, further
 * lanes repeat the last point. */
static void
lower_lanes(Env *e, const LoopNode *n, const FusedRow *row, Block *b, const Expr *base,
            uint32_t lanes, const Expr *extent)
{
    const Expr *lane = lanes == 1 ? expr_int(e->c, 0) : expr_var(e->c, LANE);
    const LoopNode *leaf = node_only_leaf(n);
    Low *l = &e->low[leaf->part];
    bool stays = leaf_has_tile(e, leaf) || (leaf->hold && e->p->hold.at[leaf->hold].lanes > 1);
    Block trial = { .arena = b->arena };

    e->lanes = lanes;
    VEC_PUSH(e->a, &e->range, ((Range){ LANE, expr_int(e->c, 0), expr_int(e->c, lanes) }));
    EnvScope s = env_enter(e);
    if (expr_is(extent, lanes) || lanes == 1) {
        bind_lane(e, n, row, expr_add(e->c, base, lane));
        lower_body(e, n, b);
        e->lanes = 1;
        env_leave(e, s);
        return;
    }
    for (int stop = 0; stop < 2; stop++) {
        trial.list.n = 0;
        l->by_lane = false;
        const Expr *from = env_let(e, &trial, env_iter(e, n->iter)->name, base, NULL);
        e->valid = env_let(e, &trial, "rest", extent, NULL);
        e->stop = stop;
        bind_lane(e, n, row, expr_add(e->c, from, lane));
        lower_body(e, n, &trial);
        env_leave(e, s);
        if (!l->by_lane || !stays)
            break;
    }
    e->lanes = 1;
    e->valid = NULL;
    e->stop = false;
    if (!l->by_lane || stays) {
        for (uint32_t i = 0; i < trial.list.n; i++)
            VEC_PUSH(b->arena, &b->list, trial.list.at[i]);
        return;
    }
    bind_lane(e, n, row,
              env_loop(e, &b, LOOP_SERIAL, env_iter(e, n->iter)->name, base,
                       expr_add(e->c, base, extent), 1));
    lower_body(e, n, b);
    env_leave(e, s);
}

/* Points of x after the complete iterations of n. If the axis was split by a multiple of n before,
 * the remainder is the axis's own or 0: so it is a number, if there is one. */
static const Expr *
rest_of(Env *e, IterId x, int64_t n, bool *maybe)
{
    const Iter *it = env_iter(e, x);
    const Expr *rest = env_simplify(e, expr_mod(e->c, env_extent(e, x), expr_int(e->c, n)));

    *maybe = !expr_const(rest, NULL);
    if (*maybe && it->inner && it->factor % n == 0) {
        bool deeper;
        const Expr *of_parent = rest_of(e, it->parent, n, &deeper);
        return expr_const(of_parent, NULL) ? of_parent : rest;
    }
    return rest;
}

/* Names digits once, before their uses. */
static void
bind_digits(Env *e, Block *b, IterId x)
{
    const Iter *it = env_iter(e, x);
    const Expr *left = e->at[x].value;

    for (uint32_t i = it->nfrom; i-- > 0;) {
        const Expr *extent = env_extent(e, it->from[i]);
        const Expr *digit = i == 0 ? left : env_simplify(e, expr_mod(e->c, left, extent));
        digit = env_let(e, b, env_iter(e, it->from[i])->name, digit, extent);
        left = env_simplify(e, expr_div(e->c, left, extent));
        env_bind(e, it->from[i], digit);
        if (env_iter(e, it->from[i])->nfrom)
            bind_digits(e, b, it->from[i]);
    }
}

/* The iterations of a serial or unrolled loop from `begin` to `end`, which are within [least,
 * most). */
static void
lower_stretch(Env *e, const LoopNode *n, Block *b, const Expr *begin, const Expr *end,
              const Expr *least, const Expr *most)
{
    IterId x = n->iter;
    const Expr *trips = env_simplify(e, expr_sub(e->c, end, begin)), *trip = begin;
    EnvScope s = env_enter(e);
    Var v;

    if (expr_is(trips, 0))
        return;
    uint32_t list = omit_list(e, n, b, begin, end);
    bool unrolled = !list && n->run == WORD_unroll && expr_const(trips, NULL);
    if (list || !expr_is(trips, 1)) {
        Block *around = b;
        trip = env_loop(e, &b, unrolled ? LOOP_UNROLLED : LOOP_SERIAL, env_iter(e, x)->name, begin,
                        end, 1);
        Tree *loop = around->list.at[around->list.n - 1];
        loop->u.loop.list = list;
        prefetches_follow(e, n, loop);
        if ((least != begin || most != end) && expr_is_var(trip, &v))
            VEC_PUSH(e->a, &e->range, ((Range){ v, least, expr_sub(e->c, most, least) }));
    } else
        prefetches_follow(e, n, NULL);
    env_bind_trip(e, x, trip);
    for (IterId y = x; y && n->phase == PHASE_COMPLETE; y = env_next_with(e, x, y))
        bind_digits(e, b, y);
    lower_body(e, n, b);
    env_leave(e, s);
}

/* All iterations: peeled ones at both ends first and last. */
static void
lower_trips(Env *e, const LoopNode *n, Block *b, const Expr *trips)
{
    Ctx *c = e->c;
    const Expr *zero = expr_int(c, 0), *most = expr_offset(c, trips, -n->last);
    const Expr *first =
        n->first ? env_simplify(e, expr_min(c, expr_int(c, n->first), trips)) : zero;
    const Expr *last = n->last ? env_simplify(e, expr_max(c, first, most)) : trips;

    lower_stretch(e, n, b, zero, first, zero, first);
    lower_stretch(e, n, b, first, last, expr_int(c, n->first), most);
    lower_stretch(e, n, b, last, trips, last, trips);
}

static void
lower_peeled(Env *e, const LoopNode *n, Block *b)
{
    IterId x = n->iter;
    const Iter *it = env_iter(e, x);
    Ctx *c = e->c;
    const Expr *factor = expr_int(c, it->factor), *whole = env_extent(e, it->parent);
    bool maybe;

    if (!expr_const(whole, NULL) && !e->at[it->parent].extent)
        env_change(e, it->parent)->extent = whole =
            env_let(e, b, "n", whole, expr_offset(c, whole, 1));
    const Expr *trips = env_simplify(e, expr_div(c, whole, factor)),
               *rest = rest_of(e, it->parent, it->factor, &maybe);
    if (n->run == WORD_unroll && !expr_const(trips, NULL))
        env_change(e, x)->counted = true;
    EnvScope s = env_enter(e);
    for (IterId y = x; y; y = env_next_with(e, x, y))
        env_change(e, y)->trip = TRIP_COMPLETE;
    lower_trips(e, n, b, trips);
    env_leave(e, s);
    if (expr_is(rest, 0))
        return;
    const Expr *end = expr_scale(c, trips, it->factor);
    if (it->rest && !expr_const(rest, NULL)) {
        const Expr *start = env_loop(e, &b, LOOP_SERIAL, it->name, end, whole, it->rest);
        for (IterId y = x; y; y = env_next_with(e, x, y)) {
            env_change(e, y)->start = start;
            e->at[y].trip = TRIP_TILES;
        }
        lower_body(e, n, b);
        env_leave(e, s);
        return;
    }
    Ranges known = { e->range.at, e->range.n };
    if (maybe && expr_le(c, &known, expr_offset(c, end, 1), whole) != YES)
        b = &tree_if(b, scalar_2(c, S_LT, scalar_index(c, end), scalar_index(c, whole)))->body;
    for (IterId y = x; y; y = env_next_with(e, x, y))
        env_change(e, y)->trip = TRIP_REMAINDER;
    env_bind_trip(e, x, expr_const(trips, NULL) ? trips : env_let(e, b, it->name, trips, NULL));
    const Expr *left =
        expr_const(rest, NULL)
            ? rest
            : env_let(e, b, "rest", env_simplify(e, expr_sub(c, whole, end)), factor);
    Var v;
    if (maybe && expr_is_var(left, &v))
        VEC_PUSH(e->a, &e->range, ((Range){ v, expr_int(c, 1), expr_int(c, it->factor - 1) }));
    for (IterId y = x; y; y = env_next_with(e, x, y))
        env_change(e, env_iter(e, y)->sibling)->extent = left;
    lower_body(e, n, b);
    env_leave(e, s);
}

static void
lower_parallel(Env *e, const LoopNode *n, Block *b)
{
    IterId x = n->iter;

    e->k->trips = env_extent(e, x);
    env_bind_trip(
        e, x,
        env_loop(e, &b, LOOP_PARALLEL, env_iter(e, x)->name, expr_int(e->c, 0), e->k->trips, 1));
    for (IterId y = x; y; y = env_next_with(e, x, y))
        bind_digits(e, b, y);
    lower_body(e, n, b);
}

static void
lower_loop(Env *e, const LoopNode *n, Block *b)
{
    IterId x = n->iter;
    const Iter *it = env_iter(e, x);

    if (n->run == WORD_parallel) {
        lower_parallel(e, n, b);
    } else if (n->run == WORD_vector) {
        lower_lanes(e, n, NULL, b, expr_int(e->c, 0), (uint32_t)it->factor, env_extent(e, x));
    } else if (it->parent && !it->inner && it->tail == WORD_peel) {
        lower_peeled(e, n, b);
    } else if (n->run != WORD_unroll || !lower_tile_rows(e, n, b)) {
        const Expr *extent = env_extent(e, x);
        if (n->run == WORD_unroll && !expr_const(extent, NULL))
            env_change(e, x)->counted = true;
        lower_trips(e, n, b, extent);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Vectors from left to right; the last one may be partial. */
static void
lower_run(Env *e, const LoopNode *n, const FusedRow *row, Block *b, const Expr *left,
          const Expr *right)
{
    Ctx *c = e->c;
    const Expr *count = env_simplify(e, expr_sub(c, right, left)), *lanes = expr_int(c, n->lanes);
    EnvScope s = env_enter(e);

    if (!expr_const(count, NULL))
        count = env_let(e, b, "count", count, NULL);
    const Expr *whole = expr_scale(c, env_simplify(e, expr_div(c, count, lanes)), n->lanes),
               *rest = env_simplify(e, expr_mod(c, count, lanes));
    if (!expr_is(whole, 0)) {
        Block *in = b;
        const Expr *v = env_loop(e, &in, LOOP_SERIAL, env_iter(e, row ? row->last : n->iter)->name,
                                 left, expr_add(c, left, whole), n->lanes);
        lower_lanes(e, n, row, in, v, (uint32_t)n->lanes, lanes);
        env_leave(e, s);
    }
    if (expr_is(rest, 0))
        return;
    if (!expr_const(rest, NULL))
        b = &tree_if(b, scalar_2(c, S_LT, scalar_index(c, whole), scalar_index(c, count)))->body;
    lower_lanes(e, n, row, b, expr_add(c, left, whole), (uint32_t)n->lanes,
                expr_const(rest, NULL) ? rest : expr_sub(c, count, whole));
    env_leave(e, s);
}

void
lower_vectors(Env *e, const LoopNode *n, Block *b, const Expr *left, const Expr *right)
{
    lower_run(e, n, NULL, b, left, right);
}

/* The points [lo, lo + count) of fused axes, row by row. Rows of an image are longer than those of
 * the output, and there may be more of them: points beyond the output are skipped. */
static void
lower_walk(Env *e, const LoopNode *n, Block *b)
{
    IterId x = n->iter, run = x;
    Ctx *c = e->c;
    const Scalar *test = NULL;

    while (!env_iter(e, run)->nfrom)
        run = env_iter(e, run)->parent;
    const Iter *it = env_iter(e, run);
    const Expr *lo, *width, *count = env_extent(e, x);
    env_box(e, run, &lo, &width);
    if (!expr_const(count, NULL))
        count = env_let(e, b, "n", count, NULL);
    lo = env_let(e, b, "first", env_simplify(e, lo), NULL);
    const Expr *end = expr_add(c, lo, count);
    FusedRow w = { it->from[it->nfrom - 1], expr_int(c, 0), lo };
    if (it->nfrom > 1) {
        const Expr *pitch = env_digit_step(e, run, it->nfrom - 2);
        const Expr *y = env_loop(e, &b, LOOP_SERIAL, env_iter(e, it->from[it->nfrom - 2])->name,
                                 env_simplify(e, expr_div(c, lo, pitch)),
                                 env_simplify(e, expr_ceil_div(c, end, pitch)), 1);
        w.row = expr_mul(c, y, pitch);
        for (uint32_t i = it->nfrom - 1; i-- > 0;) {
            const Expr *extent = env_extent(e, it->from[i]);
            const Expr *positions =
                i == 0 ? NULL
                       : expr_div(c, env_digit_step(e, run, i - 1), env_digit_step(e, run, i));
            env_bind(e, it->from[i],
                     env_let(e, b, env_iter(e, it->from[i])->name,
                             i == 0 ? y : expr_mod(c, y, positions), positions));
            if (i == 0)
                break;
            y = expr_div(c, y, positions);
            if (!it->pitched)
                continue;
            const Scalar *within = scalar_2(c, S_LT, scalar_index(c, e->at[it->from[i]].value),
                                            scalar_index(c, extent));
            test = test ? scalar_2(c, S_AND, test, within) : within;
        }
        if (test)
            b = &tree_if(b, test)->body;
    }
    const Expr *left = env_let(
        e, b, "left", env_simplify(e, expr_max(c, expr_int(c, 0), expr_sub(c, lo, w.row))), NULL);
    const Expr *right = env_let(
        e, b, "right",
        env_simplify(
            e, expr_max(c, left, expr_min(c, env_extent(e, w.last), expr_sub(c, end, w.row)))),
        NULL);
    lower_run(e, n, &w, b, left, right);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Binds an axis whose points here are `width` from `lo` on to the first of them, if a comparison
 * has the same result for all: a range is below a bound if its first point is and both are
 * multiples of the range's length. False: it may not be. */
static bool
decided_at_first(Env *e, const Scalar *test, uint32_t part, uint32_t axis, const Expr **first)
{
    const Expr *lo, *width, *coef, *rest;
    int64_t points;

    if ((test->op != S_LT && test->op != S_GE) || !scalar_as_index(e->c, test->arg[0]) ||
        !scalar_as_index(e->c, test->arg[1]))
        return false;
    if (!env_box(e, e->p->axis[part][axis], &lo, &width) ||
        !expr_const(env_simplify(e, width), &points))
        return false;
    const Expr *above =
        expr_sub(e->c, scalar_as_index(e->c, test->arg[0]), scalar_as_index(e->c, test->arg[1]));
    if (!expr_linear(e->c, above, (Var){ VAR_AXIS, axis }, &coef, &rest) || !expr_is(coef, 1) ||
        expr_axes(rest))
        return false;
    *first = env_simplify(e, lo);
    return expr_divisible(e->c, NULL, expr_add(e->c, rest, *first), points) == YES;
}

/* Hoists a select whose condition is invariant (which input of a concatenation this row, or these
 * channels, come from): each arm gets loops of its own. */
static bool
lower_arms(Env *e, const LoopNode *n, Block *b)
{
    const LoopNode *leaf =
        n->phase == PHASE_COMPLETE && n->run != WORD_parallel ? node_only_leaf(n) : NULL;

    if (!leaf || leaf->hold || n->kind != NODE_LOOP || !n->iter ||
        e->low[leaf->part].n->nwrite != 1 || part_reduction(e->p, leaf->part))
        return false;
    const Scalar *value =
        e->value[leaf->part] ? e->value[leaf->part] : e->low[leaf->part].n->write[0].value;
    if (value->op != S_SELECT)
        return false;
    AxisSet axes = value->arg[0]->axes;
    const Expr *first[NEST_MAX_AXES] = { NULL };
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        if (axes >> x & 1 && !e->at[e->p->axis[leaf->part][x]].value &&
            !decided_at_first(e, value->arg[0], leaf->part, x, &first[x]))
            return false;
    Low *l = env_low(e, leaf->part, NULL, 0, NULL);
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        l->bind[x] = first[x] ? first[x] : l->bind[x];
    Tree *test = tree_if(b, low_value(l, value->arg[0]));
    const Scalar *before = e->value[leaf->part];
    for (int arm = 1; arm <= 2; arm++) {
        EnvScope s = env_enter(e);
        e->value[leaf->part] = value->arg[arm];
        lower_node(e, n, arm == 1 ? &test->body : &test->other);
        env_leave(e, s);
    }
    e->value[leaf->part] = before;
    return true;
}

static void
lower_node(Env *e, const LoopNode *n, Block *b)
{
    Phase before = e->phase;

    e->phase = n->phase;
    if (lower_arms(e, n, b))
        ;
    else if (n->kind == NODE_LEAF)
        lower_leaf(e, n, b);
    else if (n->kind == NODE_WALK)
        lower_walk(e, n, b);
    else if (n->kind == NODE_IMAGE)
        lower_input_tile(e, n, b);
    else
        lower_loop(e, n, b);
    e->phase = before;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Approximate scalar operations of a point: two loads, an operation, and a store or a loop's
 * step. */
enum { POINT_WORK = 4 };
static const Expr *
work_below(Env *e, const LoopNode *n, const Expr *points)
{
    const Expr *work = expr_int(e->c, 0);

    if (n->kind == NODE_LEAF)
        return n->phase == PHASE_INIT || n->phase == PHASE_COPY || n->phase == PHASE_TRANSPOSE ||
                       n->phase == PHASE_FILL || n->phase == PHASE_RESCALE
                   ? work
                   : expr_scale(e->c, points, POINT_WORK);
    if (n->iter && n->run != WORD_parallel) {
        const Expr *most = env_most(e, n->iter);
        if (expr_axes(most) || expr_uses_kind(most, VAR_COMPUTED))
            return work;
        points = expr_mul(e->c, points, most);
    }
    for (uint32_t i = 0; i < n->body.n; i++)
        work = expr_add(e->c, work, work_below(e, n->body.at[i], points));
    return work;
}

/* The number of iterations of the parallel loop that are worth a thread. If one core finishes a
 * share of the loop while a worker wakes up, it is faster alone; so a share has at least the
 * operations of that time, at the rate of vector additions. Memory-bound loops take longer for
 * these operations, so they gain more than this estimate. */
static const Expr *
grain_of(const Env *e, const Expr *work_per_trip)
{
    const Expr *one = expr_int(e->c, 1),
               *worth = expr_int(e->c, machine_waking_operations(e->p->m));

    return expr_max(e->c, one, expr_div(e->c, worth, expr_max(e->c, one, work_per_trip)));
}

bool
points_lower(Points *p)
{
    Kernel *k = p->k;
    Env e = { .p = p, .c = p->c, .a = p->a, .k = k, .lanes = 1 };

    e.low = NEW_ARRAY(p->a, Low, k->npart);
    e.value = NEW_ARRAY(p->a, const Scalar *, k->npart);
    e.at = NEW_ARRAY(p->a, IterState, p->iter.n);
    for (uint32_t i = 0; i < k->npart; i++) {
        e.low[i] = low_part(p->c, p->a, k, p->m, &k->part[i]);
        e.low[i].stream = p->stream;
    }
    const LoopNode *top = p->root->body.n == 1 ? p->root->body.at[0] : p->root;
    e.task = top->run == WORD_parallel ? top : p->root;
    k->tree = (Block){ .arena = p->a };
    k->trips = k->grain = expr_int(p->c, 1);
    for (uint32_t i = 0; i < k->guard.n; i++) { /* a variant relies on its guard */
        const SizeBound *g = &k->guard.at[i];
        if (g->most < INT64_MAX)
            VEC_PUSH(p->a, &e.range,
                     ((Range){ { VAR_SYMBOL, MAP_PTR(g->symbol) },
                               expr_int(p->c, g->least),
                               expr_int(p->c, g->most - g->least + 1) }));
    }
    if (!omits_hold(p) || !boxes_begin(&e) || !online_finds(&e))
        return false;
    lower_body(&e, p->root, &k->tree);
    if (p->why || !streams_are_lines(p))
        return false;
    if (e.task == top && top != p->root)
        k->grain = grain_of(&e, work_below(&e, top, expr_int(p->c, 1)));
    return true;
}
