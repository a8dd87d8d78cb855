/* lower_point: the leaves of points as stores of a loop tree. */
#include "schedule/lower.h"

#include <string.h>

/* ---- points ---------------------------------------------------------------------------------- */

/* Item i of the accumulator. */
static const Scalar *
held_item(Env *e, uint32_t id, uint32_t i)
{
    const Hold *h = &e->p->hold.at[id];
    const Expr *at[STEP_MAX_LOOPS];
    uint32_t buffer = i ? h->place : h->buffer;
    DType t = e->k->buffer.at[buffer].type->dtype;

    return place_index(e, h->name, h->dim, h->ndim, h, at)
               ? scalar_load(e->c, t, buffer, h->ndim, at, NULL)
               : scalar_number(e->c, t, 0);
}

static const Scalar *
held(Env *e, uint32_t id)
{
    return held_item(e, id, 0);
}

static void
use_held(Env *e, Low *l, uint32_t id, const Scalar *reduce)
{
    for (uint32_t i = 0; i < reduce->narg; i++)
        map_put(&l->value, MAP_PTR(reduction_item(e->c, reduce, i)), MAP_PTR(held_item(e, id, i)));
}

/* Does a part's axis index a padded input tile that this leaf reads? */
static bool
slides_in_image(const Env *e, uint32_t part, uint32_t axis)
{
    for (uint32_t i = 1;
         i < e->p->copy.n && (e->phase == PHASE_UPDATE || e->phase == PHASE_COMPLETE); i++) {
        const Copy *k = &e->p->copy.at[i];
        for (uint32_t s = 0; k->image && k->part == part && !k->ndim && s < k->image->nslide; s++)
            if (k->image->slide[s].axis == axis)
                return true;
    }
    return false;
}

/* The axis of digit i of a fused iterator, and its first point: an axis of the part, or (the
 * slowest digit) the points of one iteration of it. NULL: it is no axis, or its value is known. */
static const Expr *
digit_axis(Env *e, uint32_t part, const Iter *it, uint32_t i, uint32_t *axis)
{
    IterId x = it->from[i];
    const Expr *first = expr_int(e->c, 0);

    if (e->at[x].value)
        return NULL;
    if (i == 0 && env_iter(e, x)->inner) {
        first = env_start(e, env_iter(e, x)->sibling);
        x = env_iter(e, x)->parent;
    }
    *axis = env_iter(e, x)->axis;
    return *axis < NEST_MAX_AXES && e->p->axis[part][*axis] == x ? first : NULL;
}

/* Fused axes that are contiguous for all accesses here need no digits: the innermost takes the
 * complete index and the others are at their first points. */
static void
bind_collapsed(Env *e, Low *l, uint32_t part, const Scalar *const *value, uint32_t nvalue,
               const Write *w)
{
    for (IterId x = 1; x < e->p->iter.n; x++) {
        const Iter *it = env_iter(e, x);
        const Expr *whole = it->nfrom > 1 && !it->pitched ? env_value(e, x) : NULL,
                   *first[STEP_MAX_LOOPS];
        uint32_t axis[STEP_MAX_LOOPS];
        bool one = whole != NULL;
        for (uint32_t i = 0; one && i < it->nfrom; i++)
            one = (first[i] = digit_axis(e, part, it, i, &axis[i])) != NULL;
        for (uint32_t i = 0; one && i + 1 < it->nfrom; i++)
            one = !slides_in_image(e, part, axis[i]) &&
                  low_collapses(l, axis[i], axis[i + 1], value, nvalue, w);
        for (uint32_t i = 0; one && i < it->nfrom; i++)
            l->bind[axis[i]] = i + 1 == it->nfrom ? whole : first[i];
    }
}

Low *
env_axes(Env *e, uint32_t part)
{
    Low *l = &e->low[part];

    l->range.at = e->range.at;
    l->range.n = e->range.n;
    l->range.cap = e->range.n; /* a push reallocates */
    l->value = (Map){ .arena = e->a };
    memset(l->bind, 0, sizeof l->bind);
    for (uint32_t x = 0; x < l->n->naxis; x++)
        l->bind[x] = e->p->axis[part][x] ? env_value(e, e->p->axis[part][x]) : NULL;
    return l;
}

Low *
env_low(Env *e, uint32_t part, const Scalar *const *value, uint32_t nvalue, const Write *w)
{
    Low *l = env_axes(e, part);

    bind_collapsed(e, l, part, value, nvalue, w);
    memcpy(e->unstopped, l->bind, sizeof e->unstopped);
    for (uint32_t x = 0; e->stop && x < l->n->naxis; x++)
        if (l->bind[x])
            l->bind[x] = expr_subst(e->c, l->bind[x],
                                    &(Binding){ LANE, expr_min(e->c, expr_var(e->c, LANE),
                                                               expr_offset(e->c, e->valid, -1)) },
                                    1);
    l->lanes = e->lanes;
    l->valid = e->valid;
    return l;
}

/* Does this leaf read copy i of its operand? The part reads copies that no other copy reads; a copy
 * reads earlier ones, and those made for it; a copy made for another one reads what that would. */
static bool
reads_copy(const Points *p, const LoopNode *leaf, uint32_t i)
{
    const Copy *k = &p->copy.at[i], *own = leaf->copy ? &p->copy.at[leaf->copy] : NULL;

    if (k->part != leaf->part || !node_inside(leaf, k->at) || (own && k->operand != own->operand))
        return false;
    return k->into ? k->into == leaf->copy : !own || i < (own->into ? own->into : leaf->copy);
}

/* The index in a copy of the point that is being copied, or that is read here. False, refused: it
 * is unknown. */
static bool
copy_index(Env *e, const Copy *k, Low *l, bool making, const Expr **at, uint32_t *rank)
{
    *rank = k->image ? image_index(e, k, l, making, at) : k->transposed ? 1 : k->ndim;
    return k->image ||
           place_index(e, k->name, k->dim + (k->transposed && !making), *rank, NULL, at);
}

/* Replaces reads of copied operands by reads of the copies, the innermost one of each. */
static void
use_copies(Env *e, Low *l, const LoopNode *leaf)
{
    const Expr *at[STEP_MAX_LOOPS];
    uint32_t rank;

    for (uint32_t i = 1; i < e->p->copy.n; i++) {
        const Copy *k = &e->p->copy.at[i];
        if (reads_copy(e->p, leaf, i) && copy_index(e, k, l, false, at, &rank))
            map_put(&l->value, MAP_PTR(k->operand),
                    MAP_PTR(scalar_load(e->c, k->operand->dtype, k->buffer, rank, at, NULL)));
    }
}

/* The value with its copied operands replaced by unknowns. */
static const Scalar *
without_copies(Env *e, const LoopNode *leaf, const Scalar *s)
{
    ScalarMap m = { .ctx = e->c, .done = { .arena = e->a } };
    bool any = false;

    for (uint32_t i = 1; i < e->p->copy.n; i++) {
        const Copy *k = &e->p->copy.at[i];
        if (k->part != leaf->part || !node_inside(leaf, k->at))
            continue;
        map_put(&m.done, MAP_PTR(k->operand), MAP_PTR(value_unknown(e->c, k->operand->dtype)));
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
    reduction_left_out(e->c, &m.done, reduce);
    return scalar_map(&m, s);
}

static void
store_item(Env *e, Low *l, Block *b, uint32_t id, uint32_t i, const Scalar *value)
{
    const Hold *h = &e->p->hold.at[id];
    const Expr *at[STEP_MAX_LOOPS];

    if (place_index(e, h->name, h->dim, h->ndim, h, at))
        low_store(l, b, i ? h->place : h->buffer, at, h->ndim, value);
}

static void
store_held(Env *e, Low *l, Block *b, uint32_t id, const Scalar *value)
{
    store_item(e, l, b, id, 0, value);
}

/* A value of the tree in place of a value of the nest, broadcast to lanes as needed. */
static const Scalar *
in_lanes_of(Low *l, const Scalar *stands_for, const Scalar *value)
{
    map_put(&l->value, MAP_PTR(stands_for), MAP_PTR(value));
    return low_value(l, stands_for);
}

static void
lower_init(Env *e, const LoopNode *leaf, Block *b)
{
    const Hold *h = &e->p->hold.at[leaf->hold];
    const Scalar *reduce = part_reduction(e->p, leaf->part);
    bool goes_on = reduce && h->outer && !h->fresh && !h->factor;
    const Scalar *index = reduce && reduce->narg > 1
                              ? nest_reduction_begin(e->c, e->low[leaf->part].n, reduce, 1)
                              : NULL;
    Low *l = env_low(e, leaf->part, &index, index != NULL, NULL);
    const Expr *valid = l->valid;

    if (reduce && !goes_on && h->space == WORD_reg)
        /* all lanes of a register are initialised, even unused ones */
        l->valid = NULL;
    if (!reduce)
        store_held(e, l, b, leaf->hold,
                   low_value(l, part_previous(e->p, leaf->part)->u.load.outside));
    else
        store_held(e, l, b, leaf->hold,
                   goes_on
                       ? in_lanes_of(l, reduce, online_scaled(e, h->outer, l, held(e, h->outer)))
                       : combiner_identity(e->c, reduce->u.reduce.combiner, reduce->dtype));
    if (index)
        store_item(e, l, b, leaf->hold, 1, low_value(l, index));
    l->valid = valid;
    online_begins(e, leaf->hold, l, b);
}

static bool
runs_over_padding(const Env *e, const Expr *x)
{
    for (uint32_t i = 0; i < e->padding.n; i++)
        if (expr_uses(x, e->padding.at[i]))
            return true;
    return false;
}

/* Sums over padding read beyond the end: the check finds reads outside of the buffer. */
static bool
reads_beyond(const Env *e, const Scalar *s)
{
    Ranges r = { e->range.at, e->range.n };

    if (e->k->buffer.at[s->u.load.slot].space > SPACE_OUT || s->u.load.outside || s->u.load.valid)
        return false;
    const Buffer *b = &e->k->buffer.at[s->u.load.slot];
    const Type *t = buffer_type(e->c, b);
    for (uint32_t d = 0; d < t->rank; d++) {
        const Expr *last = s->u.load.at[d];
        bool lanes = s->lanes > 1 && d + 1 == t->rank;
        if (lanes)
            last = expr_add(e->c, last, expr_scale(e->c, s->u.load.lane_stride, s->lanes - 1));
        if ((lanes || runs_over_padding(e, last)) &&
            expr_le(e->c, &r, last, expr_offset(e->c, t->dim[d], -1)) != YES)
            return true;
    }
    return false;
}

static void
check_reads(Env *e, const Scalar *value)
{
    const Scalar *beyond = NULL;

    FOR_EACH_SCALAR (load, scalar_loads(e->c, value))
        beyond = reads_beyond(e, load) ? load : beyond;
    if (beyond)
        points_refuse(e->p,
                      "sums run over padding, and %s might be read beyond its end there: stage it, "
                      "lay it, or say peel",
                      e->k->buffer.at[beyond->u.load.slot].name);
}

/* The first of the best elements so far, and its index. */
static void
lower_pick(Env *e, const LoopNode *leaf, Low *l, Block *b, const Scalar *reduce)
{
    const Scalar *best = reduction_item(e->c, reduce, 0), *place = reduction_item(e->c, reduce, 1);
    const Scalar *better = combiner_better(e->c, reduce->u.reduce.combiner, reduce->arg[0], best);

    use_held(e, l, leaf->hold, reduce);
    use_copies(e, l, leaf);
    const Scalar *value = low_value(l, scalar_select(e->c, better, reduce->arg[0], best));
    if (e->padding.n)
        check_reads(e, value);
    store_item(e, l, b, leaf->hold, 1,
               low_value(l, scalar_select(e->c, better, reduce->arg[1], place)));
    store_item(e, l, b, leaf->hold, 0, value);
}

static void
lower_update(Env *e, const LoopNode *leaf, Block *b)
{
    const Hold *h = &e->p->hold.at[leaf->hold];
    const Scalar *reduce = part_reduction(e->p, leaf->part),
                 *body = h->factor ? h->rest : reduce->arg[0],
                 *reads = without_copies(e, leaf, body);
    Low *l = env_low(e, leaf->part, &reads, 1, NULL);

    if (reduce->narg > 1) {
        lower_pick(e, leaf, l, b, reduce);
        return;
    }
    use_held(e, l, leaf->hold, reduce);
    use_copies(e, l, leaf);
    const Scalar *value = low_value(l, low_combine(e->c, reduce->u.reduce.combiner, reduce, body));
    if (e->padding.n)
        check_reads(e, value);
    store_held(e, l, b, leaf->hold, value);
}

/* The sums of all `over` iterators, combined in a fixed tree: by halves, then lane by lane. */
static const Scalar *
combined(Env *e, const Hold *h, Combiner k, DType t, uint32_t d, const Expr **at)
{
    const Scalar *part[64];
    int64_t n;

    while (d < h->ndim && !hold_is_over(h, h->dim[d])) {
        at[d] = env_value(e, h->dim[d]);
        d++;
    }
    if (d == h->ndim) {
        if (!h->over_lanes)
            return scalar_load(e->c, t, h->buffer, h->ndim, at, NULL);
        return scalar_load_lanes(e->c, t, h->buffer, h->ndim, at, h->lanes, expr_int(e->c, 1),
                                 NULL);
    }
    if (!expr_const(env_most(e, h->dim[d]), &n) || n > 64) {
        points_refuse(e->p, "%s: %s has to be a number of trips, at most 64, to have a sum each",
                      h->name, env_iter(e, h->dim[d])->name);
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

/* The complete sum, as one value. */
static const Scalar *
total(Env *e, Block *b, uint32_t id)
{
    const Hold *h = &e->p->hold.at[id];
    const Scalar *reduce = part_reduction(e->p, h->part);
    const Expr *at[STEP_MAX_LOOPS];

    if (!h->nover)
        return held(e, id);
    const Scalar *all = combined(e, h, reduce->u.reduce.combiner, reduce->dtype, 0, at);
    if (h->lanes > 1 && !h->over_lanes)
        return all; /* lanes are outputs: each has a value */
    if (all->lanes > 1 && h->over_lanes)
        all = scalar_hreduce(e->c, reduce->u.reduce.combiner, all);
    uint32_t r = kernel_buffer(e->c, e->a, e->k, "total", type_new(e->c, reduce->dtype, 0, NULL),
                               SPACE_REGISTER, 1);
    tree_buffer(b, r);
    tree_store(b, r, 0, NULL, all);
    return scalar_load(e->c, reduce->dtype, r, 0, NULL, NULL);
}

static void
write_values(Env *e, Low *l, Block *b, uint32_t part)
{
    const Scalar *value[NEST_MAX_AXES];

    for (uint32_t i = 0; i < l->n->nwrite; i++)
        value[i] = e->value[part] ? e->value[part] : l->n->write[i].value;
    if (!part_reduction(e->p, part))
        low_reductions(l, b, value, l->n->nwrite);
    for (uint32_t i = 0; i < l->n->nwrite; i++) {
        const Write *w = &l->n->write[i];
        const Type *t = l->n->param[w->out].type;
        const Scalar *old = w->combiner == COMB_NONE
                                ? NULL
                                : scalar_load(e->c, t->dtype, w->out, t->rank, w->at, NULL);
        value[i] = low_value(l, old ? low_combine(e->c, w->combiner, old, value[i]) : value[i]);
    }
    if (e->stop) /* stores are contiguous */
        memcpy(l->bind, e->unstopped, sizeof e->unstopped);
    for (uint32_t i = 0; i < l->n->nwrite; i++)
        low_write(l, b, &l->n->write[i], value[i]);
}

static void
lower_flush(Env *e, const LoopNode *leaf, Block *b)
{
    const Hold *h = &e->p->hold.at[leaf->hold];
    const Scalar *reduce = part_reduction(e->p, leaf->part), *sum = reduce;
    Low *l = env_low(e, leaf->part, &h->factor, h->factor != NULL, NULL);

    /* the outer accumulator, plus the factor times this one */
    if (h->factor) {
        map_put(&l->value, MAP_PTR(reduce), MAP_PTR(held(e, h->outer)));
        map_put(&l->value, MAP_PTR(h->rest), MAP_PTR(total(e, b, leaf->hold)));
        sum = scalar_2(e->c, S_ADD, reduce, scalar_2(e->c, S_MUL, h->rest, h->factor));
    } else {
        map_put(&l->value, MAP_PTR(reduce), MAP_PTR(total(e, b, leaf->hold)));
    }
    store_held(e, l, b, h->outer, low_value(l, sum));
}

/* One element of a scan: held for the next one, and stored. */
static void
lower_step(Env *e, Low *l, const LoopNode *leaf, Block *b)
{
    const Write *w = &l->n->write[0];

    map_put(&l->value, MAP_PTR(part_previous(e->p, leaf->part)), MAP_PTR(held(e, leaf->hold)));
    low_reductions(l, b, &w->value, 1);
    store_held(e, l, b, leaf->hold, low_value(l, w->value));
    low_write(l, b, w, in_lanes_of(l, w->value, held(e, leaf->hold)));
}

/* Outputs, with or without an accumulated sum. */
static void
lower_outputs(Env *e, const LoopNode *leaf, Block *b)
{
    const Nest *n = e->low[leaf->part].n;
    const Scalar *reduce = part_reduction(e->p, leaf->part), *reads[NEST_MAX_AXES];

    if (reduce && !leaf->hold) {
        points_refuse(e->p, "the sum of %s is not held anywhere",
                      e->k->buffer.at[e->k->part[leaf->part].buffer[n->write[0].out]].name);
        return;
    }
    for (uint32_t i = 0; i < n->nwrite; i++)
        reads[i] = reduce ? without_reduction(e, n->write[i].value, reduce)
                          : without_copies(e, leaf, n->write[i].value);
    Low *l = env_low(e, leaf->part, reads, n->nwrite, &n->write[0]);
    if (!reduce)
        use_copies(e, l, leaf);
    else if (reduce->narg > 1)
        use_held(e, l, leaf->hold, reduce);
    else
        map_put(&l->value, MAP_PTR(reduce), MAP_PTR(total(e, b, leaf->hold)));
    if (!reduce && leaf->hold) {
        lower_step(e, l, leaf, b);
        return;
    }
    write_values(e, l, b, leaf->part);
}

/* Prefetches what the copy of a later iteration reads. Beyond the last iteration the address is
 * harmless. */
static void
fetch_ahead(Env *e, const Copy *k, Block *b, const Scalar *value)
{
    Binding next;

    if (!k->ahead || !expr_is_var(env_value(e, k->at->iter), &next.var))
        return;
    next.to = expr_offset(e->c, env_value(e, k->at->iter), k->ahead);
    FOR_EACH_SCALAR (load, scalar_loads(e->c, value)) {
        const Buffer *from = &e->k->buffer.at[load->u.load.slot];
        if (from->space == SPACE_REGISTER)
            continue;
        const Expr *place = buffer_offset(e->c, from, load->u.load.at),
                   *later = expr_subst(e->c, place, &next, 1);
        if (later != place)
            tree_ahead(b, load->u.load.slot, later, k->far);
    }
}

/* Padded sums may read beyond its end, but those results are not stored, so the copy need not fill
 * its padding. */
static void
lower_copy(Env *e, const LoopNode *leaf, Block *b)
{
    Copy *k = &e->p->copy.at[leaf->copy];
    const Expr *at[STEP_MAX_LOOPS];
    Low *l = env_low(e, leaf->part, &k->operand, 1, NULL);
    const Scalar *what = k->image ? image_value(e, k, l) : k->operand;
    uint32_t rank;

    if (!copy_index(e, k, l, true, at, &rank))
        return;
    use_copies(e, l, leaf);
    const Scalar *value = low_value(l, what);
    if (e->padding.n && k->space == WORD_reg)
        check_reads(e, value);
    /* lanes beyond the end are 0, or repeat the last one */
    if (k->transposed)
        l->valid = NULL;
    low_store(l, b, k->transposed ? k->rows : k->buffer, at, rank, value);
    fetch_ahead(e, k, b, value);
}

/* Initial contents of an output: those of an input, or the combiner's identity. */
static void
lower_fill(Env *e, const LoopNode *leaf, Block *b)
{
    Low *l = env_low(e, leaf->part, NULL, 0, &e->low[leaf->part].n->write[leaf->write]);
    Write w = l->n->write[leaf->write];
    const Type *t = l->n->param[w.out].type;
    const Expr **at = (const Expr **)NEW_ARRAY(e->a, const Expr *, t->rank + 1);

    for (uint32_t d = 0; d < t->rank; d++)
        at[d] = leaf->dim[d] ? env_value(e, leaf->dim[d]) : w.at[d];
    const Scalar *first = w.combiner != COMB_NONE && w.init != NO_SLOT
                              ? scalar_load(e->c, t->dtype, w.init, t->rank, at, NULL)
                          : w.combiner == COMB_LAST || w.combiner == COMB_NONE
                              ? scalar_number(e->c, t->dtype, 0)
                              : combiner_identity(e->c, w.combiner, t->dtype);
    w.at = at;
    low_write(l, b, &w, low_value(l, first));
}

static void
lower_phase(Env *e, const LoopNode *leaf, Block *b)
{
    switch (leaf->phase) {
    case PHASE_INIT: lower_init(e, leaf, b); return;
    case PHASE_UPDATE: lower_update(e, leaf, b); return;
    case PHASE_FLUSH: lower_flush(e, leaf, b); return;
    case PHASE_COPY: lower_copy(e, leaf, b); return;
    case PHASE_FILL: lower_fill(e, leaf, b); return;
    case PHASE_TRANSPOSE: lower_transpose(e, leaf, b); return;
    case PHASE_RESCALE: lower_rescale(e, leaf, b, held(e, leaf->hold)); return;
    case PHASE_COMPLETE:
    case PHASE_FINISH: lower_outputs(e, leaf, b); return;
    }
}

void
lower_leaf(Env *e, const LoopNode *leaf, Block *b)
{
    Low *l = &e->low[leaf->part];

    lower_phase(e, leaf, b);
    if (l->no_lanes)
        points_refuse(e->p, "lanes of a vector of %s %s",
                      e->k->buffer.at[l->part->buffer[l->n->write[0].out]].name, l->no_lanes);
}
