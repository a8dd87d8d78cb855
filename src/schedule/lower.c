/* lower: points become a loop tree. No choice is made here: what a loop, a hold or a copy turns into follows from the
 * steps that made it.
 *
 * Iterators get values as their loops are entered. The trips of a split loop that is peeled are emitted twice: whole
 * trips first, in which the inner loop is as long as it can be, then the rest, in which it is shorter. So an inner loop
 * is unrolled or a full vector wherever it can be, and no access needs a guard of its own.
 */
#include "schedule/point.h"

#include <string.h>

typedef enum { TRIP_ANY, TRIP_WHOLE, TRIP_REST, TRIP_TILES } Trip;

typedef struct {
    const Expr *value;               /* NULL: follows from others, or not known */
    const Expr *extent;              /* NULL: follows from the step that made it */
    const Expr *start;               /* of an outer piece: the first point of this trip */
    Trip trip;                       /* of an outer piece: which kind of trip this is */
    bool counted;                    /* was to be unrolled, but runs as a loop: its value is no number */
} IterState;

typedef struct { IterId x; IterState was; } Undo;

typedef struct {
    Points *p;
    Ctx *c;
    Arena *a;
    Kernel *k;
    Low *low;                        /* [part] */
    IterState *at;                   /* [iterator] */
    VEC(Undo) undo;
    VEC(Range) range;
    const Scalar **value;            /* [part]: of its only write, where an arm of it has been chosen; else NULL */
    Phase phase;
    uint32_t lanes;
    const Expr *valid;
    bool stop;                       /* lanes beyond `valid` read what the last one reads */
    const Expr *unstopped[NEST_MAX_AXES];            /* the bindings of axes at this point, but for that */
    const Node *task;                /* the parallel loop, or the root: where a worker's memory begins */
} Env;

static void lower_node(Env *e, const Node *n, Block *b);

/* ---- scopes ------------------------------------------------------------------------------------------ */

typedef struct { uint32_t undo, range; } Scope;

static Scope
scope_begin(const Env *e)
{
    return (Scope){ e->undo.n, e->range.n };
}

static void
scope_end(Env *e, Scope s)
{
    while (e->undo.n > s.undo) {
        Undo u = e->undo.at[--e->undo.n];
        e->at[u.x] = u.was;
    }
    e->range.n = s.range;
}

static IterState *
change(Env *e, IterId x)
{
    VEC_PUSH(e->a, &e->undo, ((Undo){ x, e->at[x] }));
    return &e->at[x];
}

static const Expr *
simplify(const Env *e, const Expr *x)
{
    Ranges r = { e->range.at, e->range.n };
    return expr_simplify(e->c, &r, x);
}

static const Expr *
let(Env *e, Block *b, const char *name, const Expr *value, const Expr *extent)
{
    const Expr *v = tree_let(e->c, e->k, b, name, value);
    Var var;

    if (v != value && expr_is_var(v, &var) && extent)
        VEC_PUSH(e->a, &e->range, ((Range){ var, expr_int(e->c, 0), extent }));
    return v;
}

static const Expr *
loop(Env *e, Block **b, LoopKind kind, Sym name, const Expr *begin, const Expr *end, int64_t step)
{
    uint32_t var;

    *b = tree_loop(e->k, *b, kind, name, begin, end, step, &var);
    VEC_PUSH(e->a, &e->range, ((Range){ { VAR_LOOP, var }, begin, expr_sub(e->c, end, begin) }));
    return expr_loop(e->c, var);
}

static const Iter *
iter(const Env *e, IterId x)
{
    return &e->p->iter.at[x];
}

static bool
sums(const Env *e)
{
    return e->phase == PHASE_INIT || e->phase == PHASE_UPDATE || e->phase == PHASE_FLUSH;
}

/* ---- extents ----------------------------------------------------------------------------------------- */

static const Expr *extent_of(Env *e, IterId x);

static const Stage *
image_along(const Env *e, IterId x)
{
    for (uint32_t i = 1; i < e->p->copy.n; i++)
        if (e->p->copy.at[i].image && e->p->copy.at[i].ndim && e->p->copy.at[i].dim[0] == x)
            return e->p->copy.at[i].image;
    points_refuse(e->p, "%s runs along an image that is not made", iter(e, x)->name);
    return NULL;
}

/* Elements between neighbours along digit i of a fused iterator. */
static const Expr *
digit_step(Env *e, IterId x, uint32_t i)
{
    const Iter *it = iter(e, x);
    const Expr *step = expr_int(e->c, 1);

    if (it->pitched) {
        const Stage *s = image_along(e, x);
        return s && i < s->nslide ? s->slide[i].pitch : step;
    }
    while (++i < it->nfrom)
        step = expr_mul(e->c, step, extent_of(e, it->from[i]));
    return step;
}

static const Expr *
fused_extent(Env *e, IterId x)
{
    const Iter *it = iter(e, x);
    const Expr *all = expr_int(e->c, 1);

    for (uint32_t i = 0; i < it->nfrom; i++) {
        const Expr *extent = extent_of(e, it->from[i]);
        all = it->pitched ? expr_add(e->c, all, expr_mul(e->c, expr_offset(e->c, extent, -1), digit_step(e, x, i)))
                          : expr_mul(e->c, all, extent);
    }
    return all;
}

static const Expr *
trip_start(Env *e, IterId outer)
{
    const IterState *s = &e->at[outer];

    return s->start ? s->start : s->value ? expr_scale(e->c, s->value, iter(e, outer)->factor) : NULL;
}

static const Expr *
inner_extent(Env *e, IterId x)
{
    const Iter *it = iter(e, x);
    Ctx *c = e->c;
    bool padded = it->tail == WORD_pad || it->tail == WORD_clamp;
    Trip trip = e->at[it->sibling].trip;
    int64_t most = trip == TRIP_TILES ? it->rest : it->factor;
    const Expr *full = expr_int(c, most), *start = trip_start(e, it->sibling);

    if (trip == TRIP_WHOLE || it->tail == WORD_exact || ((padded || trip == TRIP_TILES) && sums(e)) || !start)
        return full;
    return simplify(e, expr_min(c, full, expr_sub(c, extent_of(e, it->parent), start)));
}

static const Expr *
extent_of(Env *e, IterId x)
{
    const Iter *it = iter(e, x);

    if (e->at[x].extent)
        return e->at[x].extent;
    if (it->axis < NEST_MAX_AXES)
        return low_extent(&e->low[it->part], it->axis);
    if (it->nfrom)
        return fused_extent(e, x);
    return it->inner ? inner_extent(e, x) : simplify(e, expr_ceil_div(e->c, extent_of(e, it->parent), expr_int(e->c, it->factor)));
}

/* Over all trips, in symbols: for the size of buffers. */
static const Expr *
most_of(Env *e, IterId x)
{
    const Iter *it = iter(e, x);
    int64_t all;

    if (it->axis < NEST_MAX_AXES)
        return e->low[it->part].n->axis[it->axis].extent;
    if (it->nfrom)
        return fused_extent(e, x);
    const Expr *parent = most_of(e, it->parent);
    if (!it->inner)
        return expr_ceil_div(e->c, parent, expr_int(e->c, it->factor));
    bool padded = it->tail == WORD_pad || it->tail == WORD_clamp;
    return expr_const(parent, &all) && all < it->factor && !padded ? parent : expr_int(e->c, it->factor);
}

/* ---- values ------------------------------------------------------------------------------------------ */

static const Expr *
value_of(Env *e, IterId x)
{
    const Iter *it = iter(e, x);

    if (e->at[x].value || !it->whole)
        return e->at[x].value;
    const Expr *whole = value_of(e, it->whole);
    const Iter *w = iter(e, it->whole);
    for (uint32_t i = 0; whole && i < w->nfrom; i++)
        if (w->from[i] == x) {
            const Expr *high = expr_div(e->c, whole, digit_step(e, it->whole, i));
            return simplify(e, i == 0 ? high : expr_mod(e->c, high, expr_div(e->c, digit_step(e, it->whole, i - 1), digit_step(e, it->whole, i))));
        }
    return NULL;
}

/* x is at `value`, and what it is the last missing piece of is known with it. */
static void
bind(Env *e, IterId x, const Expr *value)
{
    const Iter *it = iter(e, x);

    change(e, x)->value = value;
    if (!it->parent)
        return;
    IterId outer = it->inner ? it->sibling : x, inner = it->inner ? x : it->sibling;
    const Expr *start = trip_start(e, outer), *rest = e->at[inner].value;
    if (!start || !rest)
        return;
    const Expr *whole = expr_add(e->c, start, rest);
    bool beyond = it->tail == WORD_clamp || e->at[outer].trip == TRIP_TILES;
    if (beyond && sums(e))
        whole = simplify(e, expr_min(e->c, whole, expr_offset(e->c, extent_of(e, it->parent), -1)));
    bind(e, it->parent, whole);
}

/* ---- buffers ----------------------------------------------------------------------------------------- */

static bool
is_over(const Hold *h, IterId x)
{
    for (uint32_t i = 0; i < h->nover; i++)
        if (h->over[i] == x)
            return true;
    return false;
}

/* Two pieces of one iterator are that iterator: memory needs no finer index. */
static void
join_pieces(const Points *p, Hold *h)
{
    for (uint32_t i = 0; i < h->ndim; i++)
        for (uint32_t k = 0; k < h->ndim; k++) {
            const Iter *it = &p->iter.at[h->dim[i]];
            if (!it->parent || it->inner || it->sibling != h->dim[k] || is_over(h, h->dim[i]) || is_over(h, h->dim[k]))
                continue;
            h->dim[k] = it->parent;
            memmove(h->dim + i, h->dim + i + 1, (--h->ndim - i) * sizeof *h->dim);
            i = k = UINT32_MAX;                      /* start over: it may be a piece as well */
            break;
        }
}

/* Of the trips that sums go over here: registers are named one by one, and none for nothing. */
static const Expr *
sum_extent(Env *e, IterId x)
{
    Phase before = e->phase;

    e->phase = PHASE_UPDATE;
    const Expr *here = extent_of(e, x);
    e->phase = before;
    return expr_const(here, NULL) ? here : most_of(e, x);
}

/* A buffer over iterators. The first dimension has one element to spare in memory: a vector that begins in the last
 * row may reach beyond it. */
static uint32_t
new_buffer(Env *e, Block *b, Sym name, DType t, Word space, const IterId *dim, uint32_t ndim, uint32_t lanes, bool odd)
{
    const Expr *extent[STEP_MAX_LOOPS + 1];
    int64_t last;

    for (uint32_t d = 0; d < ndim; d++)
        extent[d] = space == WORD_reg ? sum_extent(e, dim[d]) : most_of(e, dim[d]);
    if (space == WORD_scratch && ndim > 1)
        extent[0] = expr_offset(e->c, extent[0], 1);
    else if (space == WORD_scratch && ndim == 1)
        extent[0] = expr_offset(e->c, extent[0], e->p->m->vector_bytes / dtype_info[t].bytes);
    if (odd && ndim) {
        int64_t line = e->p->m->line_bytes / dtype_info[t].bytes;
        extent[ndim - 1] = expr_const(extent[ndim - 1], &last) ? expr_int(e->c, ((last + line - 1) / line | 1) * line) : expr_offset(e->c, extent[ndim - 1], line);
    }
    uint32_t buffer = kernel_buffer(e->c, e->a, e->k, name, type_new(e->c, t, ndim, extent), space == WORD_reg ? SPACE_REGISTER : SPACE_SCRATCH, lanes);
    tree_buffer(b, buffer);
    return buffer;
}

static void
declare_hold(Env *e, Block *b, uint32_t id)
{
    Hold *h = &e->p->hold.at[id];
    const Scalar *reduce = part_reduction(e->p, h->part);

    h->ndim = 0;
    h->lanes = 1;
    h->over_lanes = false;
    for (const Node *n = h->update->up; n != h->at; n = n->up) {
        bool over = is_over(h, n->iter);
        if (!n->iter || (iter(e, n->iter)->kind == AXIS_REDUCE && !over))
            continue;
        if (n->run == WORD_vector && h->space == WORD_reg) {
            h->lanes = (uint32_t)iter(e, n->iter)->factor;
            h->over_lanes = over;
            continue;
        }
        if (h->ndim == STEP_MAX_LOOPS) {
            points_refuse(e->p, "%s: more than %d loops index it", h->name, STEP_MAX_LOOPS);
            return;
        }
        memmove(h->dim + 1, h->dim, h->ndim++ * sizeof *h->dim);
        h->dim[0] = n->iter;
    }
    if (h->space == WORD_scratch)
        join_pieces(e->p, h);
    h->buffer = new_buffer(e, b, h->name, reduce->dtype, h->space, h->dim, h->ndim, h->lanes, false);
}

static void
declare_copy(Env *e, Block *b, uint32_t id)
{
    Copy *c = &e->p->copy.at[id];

    if (c->image)
        return;                                      /* where it is filled */
    c->lanes = 1;
    for (const Node *n = c->leaf->up; n != c->at; n = n->up)
        if (n->run == WORD_vector && c->space == WORD_reg)
            c->lanes = (uint32_t)iter(e, n->iter)->factor;
    c->buffer = new_buffer(e, b, c->name, c->operand->dtype, c->space, c->dim, c->ndim, c->lanes, c->odd);
}

/* Values between parts live in the worker's memory, without the axes that all parts share. */
static void
declare_locals(Env *e, Block *b)
{
    uint32_t n = e->k->buffer.n, *home = NEW_ARRAY(e->a, uint32_t, n + 1);

    for (uint32_t i = 0; i < n; i++) {
        Buffer local = e->k->buffer.at[i];
        home[i] = i;
        if (local.space != SPACE_LOCAL)
            continue;
        uint32_t drop = e->k->shared < local.type->rank ? e->k->shared : local.type->rank;
        const Type *t = type_new(e->c, local.type->dtype, local.type->rank - drop, local.type->dim + drop);
        home[i] = kernel_buffer(e->c, e->a, e->k, local.name, t, SPACE_SCRATCH, 1);
        tree_buffer(b, home[i]);
    }
    for (uint32_t i = 0; i < e->k->npart; i++)
        e->low[i].home = home;
}

/* A worker's memory is laid out once, where its task begins. */
static void
declare_scratch(Env *e, Block *b)
{
    if (e->k->npart > 1)
        declare_locals(e, b);
    for (uint32_t i = 1; i < e->p->hold.n; i++)
        if (e->p->hold.at[i].space == WORD_scratch)
            declare_hold(e, b, i);
    for (uint32_t i = 1; i < e->p->copy.n; i++)
        if (e->p->copy.at[i].space == WORD_scratch)
            declare_copy(e, b, i);
}

/* The index of a buffer over iterators at this point. */
static bool
index_of(Env *e, Sym name, const IterId *dim, uint32_t ndim, const Hold *h, const Expr **at)
{
    for (uint32_t d = 0; d < ndim; d++) {
        at[d] = h && is_over(h, dim[d]) && e->at[dim[d]].counted ? expr_int(e->c, 0) : value_of(e, dim[d]);
        if (!at[d])
            return points_refuse(e->p, "%s is read where %s is not known", name, iter(e, dim[d])->name);
        if (h && h->space == WORD_reg && e->at[dim[d]].counted && !is_over(h, dim[d]))
            return points_refuse(e->p, "%s is in registers, but how long %s is, is not known before it runs", name, iter(e, dim[d])->name);
    }
    return true;
}

static const Scalar *
held(Env *e, uint32_t id)
{
    const Hold *h = &e->p->hold.at[id];
    const Expr *at[STEP_MAX_LOOPS];
    DType t = part_reduction(e->p, h->part)->dtype;

    return index_of(e, h->name, h->dim, h->ndim, h, at) ? scalar_load(e->c, t, h->buffer, h->ndim, at, NULL) : scalar_number(e->c, t, 0);
}

/* ---- points ------------------------------------------------------------------------------------------ */

/* Fused axes that are one axis in memory, for all that is computed here, need no digits: the innermost takes
 * the whole index and the others are 0. */
static void
bind_collapsed(Env *e, Low *l, uint32_t part, const Scalar *const *value, uint32_t nvalue, const Write *w)
{
    for (IterId x = 1; x < e->p->iter.n; x++) {
        const Iter *it = iter(e, x);
        const Expr *whole = it->nfrom > 1 && !it->pitched ? value_of(e, x) : NULL;
        bool one = whole != NULL;
        for (uint32_t i = 0; one && i < it->nfrom; i++) {
            const Iter *from = iter(e, it->from[i]);
            one = from->axis < NEST_MAX_AXES && !e->at[it->from[i]].value && e->p->axis[part][from->axis] == it->from[i];
        }
        for (uint32_t i = 0; one && i + 1 < it->nfrom; i++)
            one = low_collapses(l, iter(e, it->from[i])->axis, iter(e, it->from[i + 1])->axis, value, nvalue, w);
        for (uint32_t i = 0; one && i < it->nfrom; i++)
            l->bind[iter(e, it->from[i])->axis] = i + 1 == it->nfrom ? whole : expr_int(e->c, 0);
    }
}

/* The part's axes at this point; what is computed here decides which of them are one axis. */
static Low *
low_at(Env *e, uint32_t part, const Scalar *const *value, uint32_t nvalue, const Write *w)
{
    Low *l = &e->low[part];

    for (uint32_t x = 0; x < l->n->naxis; x++)
        l->bind[x] = e->p->axis[part][x] ? value_of(e, e->p->axis[part][x]) : NULL;
    bind_collapsed(e, l, part, value, nvalue, w);
    memcpy(e->unstopped, l->bind, sizeof e->unstopped);
    for (uint32_t x = 0; e->stop && x < l->n->naxis; x++)
        if (l->bind[x])
            l->bind[x] = expr_subst(e->c, l->bind[x], &(Binding){ LANE, expr_min(e->c, expr_var(e->c, LANE), expr_offset(e->c, e->valid, -1)) }, 1);
    l->range.at = e->range.at;
    l->range.n = e->range.n;
    l->range.cap = e->range.n;                       /* what is pushed goes to a copy */
    l->lanes = e->lanes;
    l->valid = e->valid;
    l->value = (Map){ .arena = e->a };
    return l;
}

/* Reads of the operands that were copied around this leaf go to the copies, the last one made of each; a copy reads
 * those before it. */
static void
use_copies(Env *e, Low *l, const Node *leaf)
{
    Ctx *c = e->c;
    uint32_t end = leaf->copy ? leaf->copy : e->p->copy.n;

    for (uint32_t i = 1; i < end; i++) {
        const Copy *k = &e->p->copy.at[i];
        const Expr *at[TN_MAX_RANK * 2], *position = expr_int(c, 0);
        uint32_t rank = k->ndim;
        if (k->part != leaf->part || !node_inside(leaf, k->at) || (leaf->copy && k->operand != e->p->copy.at[leaf->copy].operand))
            continue;
        if (k->image) {
            if (k->ndim)
                position = expr_sub(c, value_of(e, k->dim[0]), expr_mul(c, k->image->first, k->image->slide[0].pitch));
            for (uint32_t s = 0; !k->ndim && s < k->image->nslide; s++)
                position = expr_add(c, position, expr_mul(c, l->bind[k->image->slide[s].axis], k->image->slide[s].pitch));
            rank = stage_index(l, k->image, position, at);
            map_put(&l->value, MAP_PTR(k->operand), MAP_PTR(scalar_load(c, k->operand->dtype, k->image->buffer, rank, at, NULL)));
        } else if (index_of(e, k->name, k->dim, rank, NULL, at)) {
            map_put(&l->value, MAP_PTR(k->operand), MAP_PTR(scalar_load(c, k->operand->dtype, k->buffer, rank, at, NULL)));
        }
    }
}

/* What is left to read of a value when its copies are there. */
static const Scalar *
without_copies(Env *e, const Node *leaf, const Scalar *s)
{
    ScalarMap m = { .ctx = e->c, .done = { .arena = e->a } };
    bool any = false;

    for (uint32_t i = 1; i < e->p->copy.n; i++) {
        const Copy *k = &e->p->copy.at[i];
        if (k->part != leaf->part || !node_inside(leaf, k->at))
            continue;
        map_put(&m.done, MAP_PTR(k->operand), MAP_PTR(scalar_number(e->c, k->operand->dtype, 0)));
        any = true;
    }
    return any ? scalar_map(&m, s) : s;
}

static const Scalar *
without_reduction(Env *e, const Scalar *s, const Scalar *reduce)
{
    ScalarMap m = { .ctx = e->c, .done = { .arena = e->a } };

    if (!reduce)
        return s;
    map_put(&m.done, MAP_PTR(reduce), MAP_PTR(scalar_number(e->c, reduce->dtype, 0)));
    return scalar_map(&m, s);
}

static void
store_held(Env *e, Low *l, Block *b, uint32_t id, const Scalar *value)
{
    const Hold *h = &e->p->hold.at[id];
    const Expr *at[STEP_MAX_LOOPS];

    if (index_of(e, h->name, h->dim, h->ndim, h, at))
        low_store(l, b, h->buffer, at, h->ndim, value);
}

static void
lower_init(Env *e, const Node *leaf, Block *b)
{
    const Hold *h = &e->p->hold.at[leaf->hold];
    const Scalar *reduce = part_reduction(e->p, leaf->part);
    Low *l = low_at(e, leaf->part, NULL, 0, NULL);

    map_put(&l->value, MAP_PTR(reduce), MAP_PTR(h->outer && !h->fresh ? held(e, h->outer)
                                                                       : combiner_identity(e->c, reduce->u.reduce.combiner, reduce->dtype)));
    store_held(e, l, b, leaf->hold, low_value(l, reduce));
}

static void
lower_update(Env *e, const Node *leaf, Block *b)
{
    const Scalar *reduce = part_reduction(e->p, leaf->part), *body = reduce->arg[0], *reads = without_copies(e, leaf, body);
    Low *l = low_at(e, leaf->part, &reads, 1, NULL);

    map_put(&l->value, MAP_PTR(reduce), MAP_PTR(held(e, leaf->hold)));
    use_copies(e, l, leaf);
    store_held(e, l, b, leaf->hold, low_value(l, low_combine(e->c, reduce->u.reduce.combiner, reduce, body)));
}

/* The sums of all `over` iterators, combined in a fixed tree: by halves, then lane by lane. */
static const Scalar *
combined(Env *e, const Hold *h, Combiner k, DType t, uint32_t d, const Expr **at)
{
    const Scalar *part[64];
    int64_t n;

    while (d < h->ndim && !is_over(h, h->dim[d])) {
        at[d] = value_of(e, h->dim[d]);
        d++;
    }
    if (d == h->ndim) {
        if (!h->over_lanes)
            return scalar_load(e->c, t, h->buffer, h->ndim, at, NULL);
        return scalar_load_lanes(e->c, t, h->buffer, h->ndim, at, h->lanes, expr_int(e->c, 1), NULL);
    }
    if (!expr_const(most_of(e, h->dim[d]), &n) || n > 64) {
        points_refuse(e->p, "%s: %s has to be a number of trips, at most 64, to have a sum each", h->name, iter(e, h->dim[d])->name);
        return scalar_number(e->c, t, 0);
    }
    for (int64_t i = 0; i < n; i++) {
        at[d] = expr_int(e->c, i);
        part[i] = combined(e, h, k, t, d + 1, at);
    }
    for (int64_t half = 1; half < n; half *= 2)
        for (int64_t i = 0; i + half < n; i += 2 * half)
            part[i] = low_combine(e->c, k, part[i], part[i + half]);
    return part[0];
}

/* The whole sum, as one value. */
static const Scalar *
total(Env *e, Block *b, uint32_t id)
{
    const Hold *h = &e->p->hold.at[id];
    const Scalar *reduce = part_reduction(e->p, h->part);
    const Expr *at[STEP_MAX_LOOPS];

    if (!h->nover)
        return held(e, id);
    const Scalar *all = combined(e, h, reduce->u.reduce.combiner, reduce->dtype, 0, at);
    if (all->lanes > 1 && h->over_lanes)
        all = scalar_hreduce(e->c, reduce->u.reduce.combiner, all);
    uint32_t r = kernel_buffer(e->c, e->a, e->k, "total", type_new(e->c, reduce->dtype, 0, NULL), SPACE_REGISTER, 1);
    tree_buffer(b, r);
    tree_store(b, r, 0, NULL, all);
    return scalar_load(e->c, reduce->dtype, r, 0, NULL, NULL);
}

static void
write_values(Env *e, Low *l, Block *b, uint32_t part)
{
    const Scalar *value[NEST_MAX_AXES];

    for (uint32_t i = 0; i < l->n->nwrite; i++)
        value[i] = low_value(l, e->value[part] ? e->value[part] : l->n->write[i].value);
    if (e->stop)                                     /* what is stored lies side by side */
        memcpy(l->bind, e->unstopped, sizeof e->unstopped);
    for (uint32_t i = 0; i < l->n->nwrite; i++)
        low_write(l, b, &l->n->write[i], value[i]);
}

static void
lower_flush(Env *e, const Node *leaf, Block *b)
{
    const Scalar *reduce = part_reduction(e->p, leaf->part);
    Low *l = low_at(e, leaf->part, NULL, 0, NULL);

    map_put(&l->value, MAP_PTR(reduce), MAP_PTR(total(e, b, leaf->hold)));
    store_held(e, l, b, e->p->hold.at[leaf->hold].outer, low_value(l, reduce));
}

/* Outputs, from the sum or without one. */
static void
lower_outputs(Env *e, const Node *leaf, Block *b)
{
    const Nest *n = e->low[leaf->part].n;
    const Scalar *reduce = part_reduction(e->p, leaf->part), *reads[NEST_MAX_AXES];

    if (reduce && !leaf->hold) {
        points_refuse(e->p, "the sum of %s is not held anywhere", e->k->buffer.at[e->k->part[leaf->part].buffer[n->write[0].out]].name);
        return;
    }
    for (uint32_t i = 0; i < n->nwrite; i++)
        reads[i] = without_reduction(e, n->write[i].value, reduce);
    Low *l = low_at(e, leaf->part, reads, n->nwrite, &n->write[0]);
    if (reduce)
        map_put(&l->value, MAP_PTR(reduce), MAP_PTR(total(e, b, leaf->hold)));
    write_values(e, l, b, leaf->part);
}

/* What a padded loop's sums read beyond its end is never stored, so the copy need not have it. */
static void
lower_copy(Env *e, const Node *leaf, Block *b)
{
    Copy *k = &e->p->copy.at[leaf->copy];
    const Expr *at[STEP_MAX_LOOPS];
    Low *l = low_at(e, leaf->part, &k->operand, 1, NULL);

    if (!index_of(e, k->name, k->dim, k->ndim, NULL, at))
        return;
    use_copies(e, l, leaf);
    low_store(l, b, k->buffer, at, k->ndim, low_value(l, k->operand));
}

/* ---- images ------------------------------------------------------------------------------------------ */

/* The points of x that one trip of the loops around goes over: from *lo on, so many at most. False: all there are. */
static bool
box_of(Env *e, IterId x, const Expr **lo, const Expr **width)
{
    *lo = value_of(e, x);
    *width = expr_int(e->c, 1);
    if (*lo)
        return true;
    for (IterId y = 1; y < e->p->iter.n; y++) {
        const Iter *it = iter(e, y);
        const Expr *inner, *trips = expr_int(e->c, 1);
        if (it->parent != x || it->inner)
            continue;
        const Expr *start = trip_start(e, y);
        if (!start && !box_of(e, y, &start, &trips))
            continue;
        if (!trip_start(e, y))
            start = expr_scale(e->c, start, it->factor);
        box_of(e, it->sibling, &inner, width);
        *lo = expr_add(e->c, start, inner);
        *width = expr_add(e->c, expr_scale(e->c, expr_offset(e->c, trips, -1), it->factor), *width);
        return true;
    }
    *lo = expr_int(e->c, 0);
    *width = most_of(e, x);
    return false;
}

static void
lower_image(Env *e, const Node *leaf, Block *b)
{
    Copy *k = &e->p->copy.at[leaf->copy];
    Stage *s = k->image;
    const Slide *outer = &s->slide[0];
    Ctx *c = e->c;
    uint32_t lanes = machine_lanes(e->p->m, k->operand->dtype);
    Low *l = low_at(e, leaf->part, &k->operand, 1, NULL);
    const Expr *first = expr_int(c, 0), *rows = outer->positions;
    int64_t slack = lanes;

    if (k->ndim) {
        const Expr *lo, *width;
        box_of(e, k->dim[0], &lo, &width);
        const Expr *touched = expr_offset(c, expr_ceil_div(c, width, outer->pitch), 1 + (outer->span - 1) / outer->stride);
        first = let(e, b, "first", simplify(e, expr_div(c, lo, outer->pitch)), NULL);
        rows = expr_min(c, touched, outer->positions);
        slack += expr_or(width, 0);
    }
    l->range.at = arena_copy(e->a, e->range.at, e->range.n * sizeof *e->range.at);
    stage_declare(l, b, s, first, rows, (uint32_t)slack);
    while (lanes > 2 && lanes / 2 >= expr_or(s->slide[s->nslide - 1].positions, INT64_MAX))
        lanes /= 2;
    stage_fill(l, b, s, lanes);
}

static void
lower_leaf(Env *e, const Node *leaf, Block *b)
{
    switch (leaf->phase) {
    case PHASE_INIT:
        lower_init(e, leaf, b);
        return;
    case PHASE_UPDATE:
        lower_update(e, leaf, b);
        return;
    case PHASE_FLUSH:
        lower_flush(e, leaf, b);
        return;
    case PHASE_COPY:
        if (e->p->copy.at[leaf->copy].image)
            lower_image(e, leaf, b);
        else
            lower_copy(e, leaf, b);
        return;
    case PHASE_WHOLE:
    case PHASE_FINISH:
        lower_outputs(e, leaf, b);
        return;
    }
}

/* ---- loops ------------------------------------------------------------------------------------------- */

static void
lower_body(Env *e, const Node *n, Block *b)
{
    if (n == e->task)
        declare_scratch(e, b);
    for (uint32_t i = 0; i < n->holds.n; i++)
        if (e->p->hold.at[n->holds.at[i]].space == WORD_reg)
            declare_hold(e, b, n->holds.at[i]);
    for (uint32_t i = 0; i < n->copies.n; i++)
        if (e->p->copy.at[n->copies.at[i]].space == WORD_reg)
            declare_copy(e, b, n->copies.at[i]);
    for (uint32_t i = 0; i < n->body.n && !e->p->why; i++) {
        Scope s = scope_begin(e);
        lower_node(e, n->body.at[i], b);
        scope_end(e, s);
    }
}

static const Node *
only_leaf(const Node *n)
{
    while (n->kind != NODE_LEAF && n->body.n == 1)
        n = n->body.at[0];
    return n->kind == NODE_LEAF ? n : NULL;
}

/* Rows of fused axes (see lower_walk): the innermost axis, where this row begins in the fused index, and where the
 * walk does. */
typedef struct { IterId last; const Expr *row, *lo; } Row;

static void
bind_lane(Env *e, const Node *n, const Row *row, const Expr *at)
{
    if (row)
        bind(e, row->last, at);
    bind(e, n->iter, row ? expr_sub(e->c, expr_add(e->c, row->row, at), row->lo) : at);
}

/* One vector from `base` on, of which `extent` lanes exist. A read that would be made lane by lane must not be made
 * beyond the end: then the points run one after the other, or, where lanes are accumulators, stop at the last. */
static void
lower_lanes(Env *e, const Node *n, const Row *row, Block *b, const Expr *base, uint32_t lanes, const Expr *extent)
{
    const Expr *lane = expr_var(e->c, LANE);
    const Node *leaf = only_leaf(n);
    Low *l = &e->low[leaf->part];
    Block trial = { .arena = b->arena };

    e->lanes = lanes;
    VEC_PUSH(e->a, &e->range, ((Range){ LANE, expr_int(e->c, 0), expr_int(e->c, lanes) }));
    Scope s = scope_begin(e);
    if (expr_is(extent, lanes)) {
        bind_lane(e, n, row, expr_add(e->c, base, lane));
        lower_body(e, n, b);
        e->lanes = 1;
        scope_end(e, s);
        return;
    }
    for (int stop = 0; stop < 2; stop++) {
        trial.list.n = 0;
        l->by_lane = false;
        const Expr *from = let(e, &trial, iter(e, n->iter)->name, base, NULL);
        e->valid = let(e, &trial, "rest", extent, NULL);
        e->stop = stop;
        bind_lane(e, n, row, expr_add(e->c, from, lane));
        lower_body(e, n, &trial);
        scope_end(e, s);
        if (!l->by_lane || !leaf->hold || e->p->hold.at[leaf->hold].lanes == 1)
            break;
    }
    e->lanes = 1;
    e->valid = NULL;
    e->stop = false;
    if (!l->by_lane || (leaf->hold && e->p->hold.at[leaf->hold].lanes > 1)) {
        for (uint32_t i = 0; i < trial.list.n; i++)
            VEC_PUSH(b->arena, &b->list, trial.list.at[i]);
        return;
    }
    bind_lane(e, n, row, loop(e, &b, LOOP_SERIAL, iter(e, n->iter)->name, base, expr_add(e->c, base, extent), 1));
    lower_body(e, n, b);
    scope_end(e, s);
}

/* Points of x behind the whole trips of n. Those of an axis that was cut into multiples of n before are the axis's own
 * or none: then the rest is a number, if there is one. */
static const Expr *
rest_of(Env *e, IterId x, int64_t n, bool *maybe)
{
    const Iter *it = iter(e, x);
    const Expr *rest = simplify(e, expr_mod(e->c, extent_of(e, x), expr_int(e->c, n)));

    *maybe = !expr_const(rest, NULL);
    if (*maybe && it->inner && it->factor % n == 0) {
        bool deeper;
        const Expr *of_parent = rest_of(e, it->parent, n, &deeper);
        return expr_const(of_parent, NULL) ? of_parent : rest;
    }
    return rest;
}

static void
lower_peeled(Env *e, const Node *n, Block *b)
{
    IterId x = n->iter;
    const Iter *it = iter(e, x);
    Ctx *c = e->c;
    const Expr *factor = expr_int(c, it->factor), *whole = extent_of(e, it->parent);
    bool maybe;

    if (!expr_const(whole, NULL) && !e->at[it->parent].extent)
        change(e, it->parent)->extent = whole = let(e, b, "n", whole, NULL);
    const Expr *trips = simplify(e, expr_div(c, whole, factor)), *rest = rest_of(e, it->parent, it->factor, &maybe);
    bool unroll = n->run == WORD_unroll && expr_const(trips, NULL);
    if (n->run == WORD_unroll && !unroll)
        change(e, x)->counted = true;
    Scope s = scope_begin(e);
    if (!expr_is(trips, 0)) {
        Block *in = b;
        const Expr *v = expr_is(trips, 1) ? expr_int(c, 0) : loop(e, &in, unroll ? LOOP_UNROLLED : LOOP_SERIAL, it->name, expr_int(c, 0), trips, 1);
        change(e, x)->trip = TRIP_WHOLE;
        bind(e, x, v);
        lower_body(e, n, in);
        scope_end(e, s);
    }
    if (expr_is(rest, 0))
        return;
    const Expr *end = expr_scale(c, trips, it->factor);
    if (it->rest && !expr_const(rest, NULL)) {
        change(e, x)->start = loop(e, &b, LOOP_SERIAL, it->name, end, whole, it->rest);
        e->at[x].trip = TRIP_TILES;
        lower_body(e, n, b);
        scope_end(e, s);
        return;
    }
    if (maybe)
        b = &tree_if(b, scalar_2(c, S_LT, scalar_index(c, end), scalar_index(c, whole)))->body;
    change(e, x)->trip = TRIP_REST;
    bind(e, x, expr_const(trips, NULL) ? trips : let(e, b, it->name, trips, NULL));
    change(e, it->sibling)->extent = expr_const(rest, NULL) ? rest : let(e, b, "rest", simplify(e, expr_sub(c, whole, end)), factor);
    lower_body(e, n, b);
    scope_end(e, s);
}

/* Digits are named once, outside of what reads them. */
static void
bind_digits(Env *e, Block *b, IterId x)
{
    const Iter *it = iter(e, x);
    const Expr *left = e->at[x].value;

    for (uint32_t i = it->nfrom; i-- > 0;) {
        const Expr *extent = extent_of(e, it->from[i]);
        const Expr *digit = i == 0 ? left : simplify(e, expr_mod(e->c, left, extent));
        digit = let(e, b, iter(e, it->from[i])->name, digit, extent);
        left = simplify(e, expr_div(e->c, left, extent));
        bind(e, it->from[i], digit);
        if (iter(e, it->from[i])->nfrom)
            bind_digits(e, b, it->from[i]);
    }
}

static void
lower_parallel(Env *e, const Node *n, Block *b)
{
    IterId x = n->iter;

    e->k->trips = extent_of(e, x);
    bind(e, x, loop(e, &b, LOOP_PARALLEL, iter(e, x)->name, expr_int(e->c, 0), e->k->trips, 1));
    bind_digits(e, b, x);
    lower_body(e, n, b);
}

static void
lower_loop(Env *e, const Node *n, Block *b)
{
    IterId x = n->iter;
    const Iter *it = iter(e, x);

    if (n->run == WORD_parallel) {
        lower_parallel(e, n, b);
    } else if (n->run == WORD_vector) {
        lower_lanes(e, n, NULL, b, expr_int(e->c, 0), (uint32_t)it->factor, extent_of(e, x));
    } else if (it->parent && !it->inner && it->tail == WORD_peel) {
        lower_peeled(e, n, b);
    } else {
        const Expr *extent = extent_of(e, x);
        bool unroll = n->run == WORD_unroll && expr_const(extent, NULL);
        if (n->run == WORD_unroll && !unroll)
            change(e, x)->counted = true;
        bind(e, x, expr_is(extent, 1) ? expr_int(e->c, 0) : loop(e, &b, unroll ? LOOP_UNROLLED : LOOP_SERIAL, it->name, expr_int(e->c, 0), extent, 1));
        if (n->phase == PHASE_WHOLE && it->nfrom)
            bind_digits(e, b, x);
        lower_body(e, n, b);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------- */

/* Vectors from left to right, the last one as long as what is left. */
static void
lower_run(Env *e, const Node *n, const Row *row, Block *b, const Expr *left, const Expr *right)
{
    Ctx *c = e->c;
    const Expr *count = simplify(e, expr_sub(c, right, left)), *lanes = expr_int(c, n->lanes);
    Scope s = scope_begin(e);

    if (!expr_const(count, NULL))
        count = let(e, b, "count", count, NULL);
    const Expr *whole = expr_scale(c, simplify(e, expr_div(c, count, lanes)), n->lanes), *rest = simplify(e, expr_mod(c, count, lanes));
    if (!expr_is(whole, 0)) {
        Block *in = b;
        const Expr *v = loop(e, &in, LOOP_SERIAL, iter(e, row->last)->name, left, expr_add(c, left, whole), n->lanes);
        lower_lanes(e, n, row, in, v, (uint32_t)n->lanes, lanes);
        scope_end(e, s);
    }
    if (expr_is(rest, 0))
        return;
    if (!expr_const(rest, NULL))
        b = &tree_if(b, scalar_2(c, S_LT, scalar_index(c, whole), scalar_index(c, count)))->body;
    lower_lanes(e, n, row, b, expr_add(c, left, whole), (uint32_t)n->lanes, expr_const(rest, NULL) ? rest : expr_sub(c, count, whole));
    scope_end(e, s);
}

/* The points [lo, lo + count) of fused axes: for each row that they touch, its part of them. Rows of an image are
 * longer than those of the output, and there may be more of them: what is beyond is no output. */
static void
lower_walk(Env *e, const Node *n, Block *b)
{
    IterId x = n->iter, run = x;
    Ctx *c = e->c;
    const Scalar *test = NULL;

    while (!iter(e, run)->nfrom)
        run = iter(e, run)->parent;
    const Iter *it = iter(e, run);
    const Expr *lo, *width, *count = extent_of(e, x);
    box_of(e, run, &lo, &width);
    if (!expr_const(count, NULL))
        count = let(e, b, "n", count, NULL);
    lo = let(e, b, "first", simplify(e, lo), NULL);
    const Expr *end = expr_add(c, lo, count);
    Row w = { it->from[it->nfrom - 1], expr_int(c, 0), lo };
    if (it->nfrom > 1) {
        const Expr *pitch = digit_step(e, run, it->nfrom - 2);
        const Expr *y = loop(e, &b, LOOP_SERIAL, iter(e, it->from[it->nfrom - 2])->name, simplify(e, expr_div(c, lo, pitch)), simplify(e, expr_ceil_div(c, end, pitch)), 1);
        w.row = expr_mul(c, y, pitch);
        for (uint32_t i = it->nfrom - 1; i-- > 0;) {
            const Expr *extent = extent_of(e, it->from[i]);
            const Expr *positions = i == 0 ? NULL : expr_div(c, digit_step(e, run, i - 1), digit_step(e, run, i));
            bind(e, it->from[i], let(e, b, iter(e, it->from[i])->name, i == 0 ? y : expr_mod(c, y, positions), positions));
            if (i == 0)
                break;
            y = expr_div(c, y, positions);
            if (!it->pitched)
                continue;
            const Scalar *within = scalar_2(c, S_LT, scalar_index(c, e->at[it->from[i]].value), scalar_index(c, extent));
            test = test ? scalar_2(c, S_AND, test, within) : within;
        }
        if (test)
            b = &tree_if(b, test)->body;
    }
    const Expr *left = let(e, b, "left", simplify(e, expr_max(c, expr_int(c, 0), expr_sub(c, lo, w.row))), NULL);
    const Expr *right = let(e, b, "right", simplify(e, expr_max(c, left, expr_min(c, extent_of(e, w.last), expr_sub(c, end, w.row)))), NULL);
    lower_run(e, n, &w, b, left, right);
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

/* A choice that is the same for all that follows (which input of a concatenation this row comes from) is made
 * before it: each arm gets loops of its own. */
static bool
lower_arms(Env *e, const Node *n, Block *b)
{
    const Node *leaf = n->phase == PHASE_WHOLE && n->run != WORD_parallel ? only_leaf(n) : NULL;

    if (!leaf || n->kind != NODE_LOOP || !n->iter || e->low[leaf->part].n->nwrite != 1 || part_reduction(e->p, leaf->part))
        return false;
    const Scalar *value = e->value[leaf->part] ? e->value[leaf->part] : e->low[leaf->part].n->write[0].value;
    if (value->op != S_SELECT)
        return false;
    AxisSet axes = scalar_axes(e->c, value->arg[0]);
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        if (axes >> x & 1 && !e->at[e->p->axis[leaf->part][x]].value)
            return false;
    Low *l = low_at(e, leaf->part, NULL, 0, NULL);
    Tree *test = tree_if(b, low_value(l, value->arg[0]));
    const Scalar *before = e->value[leaf->part];
    for (int arm = 1; arm <= 2; arm++) {
        Scope s = scope_begin(e);
        e->value[leaf->part] = value->arg[arm];
        lower_node(e, n, arm == 1 ? &test->body : &test->other);
        scope_end(e, s);
    }
    e->value[leaf->part] = before;
    return true;
}

static void
lower_node(Env *e, const Node *n, Block *b)
{
    Phase before = e->phase;

    e->phase = n->phase;
    if (lower_arms(e, n, b))
        ;
    else if (n->kind == NODE_LEAF)
        lower_leaf(e, n, b);
    else if (n->kind == NODE_WALK)
        lower_walk(e, n, b);
    else
        lower_loop(e, n, b);
    e->phase = before;
}

/* ---- the whole --------------------------------------------------------------------------------------- */

/* Scalar operations of one trip, about: points times what one costs. */
static const Expr *
work_below(Env *e, const Node *n, const Expr *points)
{
    const Expr *work = expr_int(e->c, 0);

    if (n->kind == NODE_LEAF)
        return n->phase == PHASE_INIT || n->phase == PHASE_COPY ? work : expr_scale(e->c, points, 4);
    if (n->iter && n->run != WORD_parallel) {
        const Expr *most = most_of(e, n->iter);
        if (expr_axes(most) || expr_uses_kind(most, VAR_COMPUTED))
            return work;
        points = expr_mul(e->c, points, most);
    }
    for (uint32_t i = 0; i < n->body.n; i++)
        work = expr_add(e->c, work, work_below(e, n->body.at[i], points));
    return work;
}

bool
points_lower(Points *p)
{
    Kernel *k = p->k;
    Env e = { .p = p, .c = p->c, .a = p->a, .k = k, .lanes = 1 };

    e.low = NEW_ARRAY(p->a, Low, k->npart);
    e.value = NEW_ARRAY(p->a, const Scalar *, k->npart);
    e.at = NEW_ARRAY(p->a, IterState, p->iter.n);
    for (uint32_t i = 0; i < k->npart; i++)
        e.low[i] = low_part(p->c, p->a, k, p->m, &k->part[i]);
    const Node *top = p->root->body.n == 1 ? p->root->body.at[0] : p->root;
    e.task = top->run == WORD_parallel ? top : p->root;
    k->tree = (Block){ .arena = p->a };
    k->nloop = 0;
    k->trips = k->grain = expr_int(p->c, 1);
    lower_body(&e, p->root, &k->tree);
    if (p->why)
        return false;
    if (p->grain)
        k->grain = expr_int(p->c, p->grain);
    else if (e.task == top && top != p->root)
        k->grain = low_grain(p->c, work_below(&e, top, expr_int(p->c, 1)));
    return true;
}
