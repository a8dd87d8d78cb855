/* lower_value: the expressions of a nest as expressions of a loop tree.
 *
 * Two steps. low_map replaces axes by their bindings and parameters by buffers; the lane of the
 * vector axis stays as the variable LANE. vectorize then turns what depends on LANE into vectors: a
 * read whose offset is linear in LANE is one vector load, whatever the stride; another read
 * (computed from data, or under a guard that differs between lanes) is made lane by lane.
 */
#include "schedule/internal.h"

#include <assert.h>

Low
low_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Part *part)
{
    Low l = { .c = c, .a = a, .k = k, .m = m, .part = part, .n = part->nest, .lanes = 1 };
    l.value.arena = a;
    return l;
}

static Ranges
low_ranges(const Low *l)
{
    return (Ranges){ l->range.at, l->range.n };
}

uint32_t
low_lanes(const Low *l, DType t)
{
    return machine_lanes(l->m, dtype_info[t].bytes < 4 ? DT_F32 : t);
}

/* ---- indices --------------------------------------------------------------------------------- */

static const Scalar *low_map(Low *l, const Scalar *s);

const Expr *
low_expr(Low *l, const Expr *e)
{
    VEC(Binding) list = { 0 };
    Ranges ranges = low_ranges(l);

    FOR_EACH_VARIABLE (v, e) {
        const Expr *to = v.kind == VAR_AXIS ? l->bind[v.id]
                         : v.kind == VAR_COMPUTED
                             ? expr_computed(l->c, low_map(l, computed_scalar(v)))
                             : NULL;
        if (to)
            VEC_PUSH(l->a, &list, ((Binding){ v, to }));
    }
    if (list.n == 0)
        return e;
    return expr_simplify(l->c, &ranges, expr_subst(l->c, e, list.at, list.n));
}

/* The index of a nest's access in the kernel's buffer: intermediate tensors drop the shared axes
 * that they are private to, or are relative to their box. */
static uint32_t
physical_index(Low *l, uint32_t buffer, uint32_t rank, const Expr *const *at, const Expr **out)
{
    const Buffer *b = &l->k->buffer.at[buffer];

    if (b->space == SPACE_LOCAL && l->home && l->home[buffer] != buffer) {
        const LocalBox *box = l->box ? l->box[buffer] : NULL;
        for (uint32_t i = 0; box && i < rank; i++)
            out[i] = expr_sub(l->c, at[box->dim[i]], box->lo[box->dim[i]]);
        if (box)
            return rank;
        uint32_t drop = rank - l->k->buffer.at[l->home[buffer]].type->rank;
        for (uint32_t d = drop; d < rank; d++)
            out[d - drop] = at[d];
        return rank - drop;
    }
    for (uint32_t d = 0; d < rank; d++)
        out[d] = at[d];
    return rank;
}

static uint32_t
tree_buffer_of(const Low *l, uint32_t slot)
{
    uint32_t buffer = l->part->buffer[slot];
    return l->home ? l->home[buffer] : buffer;
}

uint32_t
low_place(Low *l, uint32_t slot, const Expr *const *at, uint32_t rank, const Expr **out,
          uint32_t *buffer)
{
    const Expr *logical[TN_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++)
        logical[d] = low_expr(l, at[d]);
    *buffer = tree_buffer_of(l, slot);
    return physical_index(l, l->part->buffer[slot], rank, logical, out);
}

/* Linear offset of a physical index [elements]. Digits of an index that are adjacent in memory are
 * merged. */
static const Expr *
offset_of(Low *l, uint32_t buffer, const Expr *const *at)
{
    Ranges ranges = low_ranges(l);
    return expr_simplify(l->c, &ranges, buffer_offset(l->c, &l->k->buffer.at[buffer], at));
}

const Expr *
low_stride(Low *l, const Scalar *load, uint32_t axis)
{
    const Expr *at[TN_MAX_RANK * 2], *coef, *rest;
    uint32_t slot = load->u.load.slot;

    physical_index(l, l->part->buffer[slot], load->u.load.rank, load->u.load.at, at);
    const Expr *offset = offset_of(l, tree_buffer_of(l, slot), at);
    if (!expr_linear(l->c, offset, (Var){ VAR_AXIS, axis }, &coef, &rest))
        return NULL;
    if (expr_axes(rest) >> axis & 1)
        return NULL;
    return coef;
}

/* ---- step one: nest to tree, lane kept as a variable ----------------------------------------- */

/* The conjunction of a test (NULL: none) and 0 <= index <= last, except for what is proved. */
static const Scalar *
and_inside(Ctx *c, const Ranges *r, const Expr *index, const Expr *last, const Scalar *test)
{
    const Expr *side[2][2] = { { expr_int(c, 0), index }, { index, last } };

    for (int k = 0; k < 2; k++)
        if (expr_le(c, r, side[k][0], side[k][1]) != YES) {
            const Scalar *more =
                scalar_2(c, S_LE, scalar_index(c, side[k][0]), scalar_index(c, side[k][1]));
            test = test ? scalar_2(c, S_AND, test, more) : more;
        }
    return test;
}

/* A read of a box that may be outside of the tensor: elements that the box does not have are not
 * read. */
static const Scalar *
load_within(Low *l, uint32_t slot, const LocalBox *box, const Expr *const *logical,
            const Scalar *load, const Scalar *outside)
{
    const Type *t = l->n->param[slot].type;
    Ranges r = low_ranges(l);
    const Expr *at[TN_MAX_RANK];
    const Scalar *within = NULL;
    Ctx *c = l->c;

    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t d = box->dim[i];
        const Expr *index = logical[d], *last = expr_offset(c, t->dim[d], -1);
        const Scalar *before = within;
        within = and_inside(c, &r, index, last, within);
        if (within != before)
            index = expr_max(c, box->lo[d], expr_min(c, index, last));
        at[i] = expr_sub(c, index, box->lo[d]);
    }
    load = scalar_load(c, load->dtype, load->u.load.slot, t->rank, at, NULL);
    return within ? scalar_op(c, S_SELECT, (const Scalar *[]){ within, load, outside }) : load;
}

static const Scalar *
map_load(Low *l, const Scalar *s)
{
    const Expr *logical[TN_MAX_RANK], *at[TN_MAX_RANK * 2];
    uint32_t slot = s->u.load.slot, buffer = tree_buffer_of(l, slot);
    const Scalar *outside = s->u.load.outside ? low_map(l, s->u.load.outside) : NULL;

    for (uint32_t d = 0; d < s->u.load.rank; d++)
        logical[d] = low_expr(l, s->u.load.at[d]);
    uint32_t rank = physical_index(l, l->part->buffer[slot], s->u.load.rank, logical, at);
    const Scalar *load = scalar_load(l->c, s->dtype, buffer, rank, at,
                                     l->box && l->box[l->part->buffer[slot]] ? NULL : outside);
    return outside && !load->u.load.outside
               ? load_within(l, slot, l->box[l->part->buffer[slot]], logical, load, outside)
               : load;
}

static const Scalar *
map_node(Low *l, const Scalar *s)
{
    const Scalar *arg[3];

    switch (s->op) {
    case S_CONST: return s;
    case S_INDEX: return scalar_index(l->c, low_expr(l, s->u.index));
    case S_LOAD: return map_load(l, s);
    case S_CAST: return scalar_cast(l->c, s->dtype, low_map(l, s->arg[0]));
    case S_SEEN: /* only steps use its property; the value is unchanged */
        return low_map(l, s->arg[1]);
    case S_AT: return scalar_at(l->c, low_map(l, s->arg[0]), low_expr(l, s->u.index));
    default:
        assert(s->op > S_HPROD && s->narg <= 3);
        for (uint32_t i = 0; i < s->narg; i++)
            arg[i] = low_map(l, s->arg[i]);
        return scalar_op(l->c, s->op, arg);
    }
}

/* Shared nodes are mapped once within one low_value; bindings may change between two of them. */
static const Scalar *
low_map(Low *l, const Scalar *s)
{
    uint64_t known;

    if (map_get(&l->value, MAP_PTR(s), &known) ||
        (l->mapped && map_get(l->mapped, MAP_PTR(s), &known)))
        return (const Scalar *)(uintptr_t)known;
    const Scalar *to = map_node(l, s);
    if (l->mapped)
        map_put(l->mapped, MAP_PTR(s), MAP_PTR(to));
    return to;
}

/* ---- step two: lanes ------------------------------------------------------------------------- */

typedef struct {
    Low *l;
    uint32_t lanes;
    Map done;
} Vectorizer;

bool
low_uses_lane(const Expr *e)
{
    FOR_EACH_VARIABLE (v, e)
        if (v.kind == VAR_COMPUTED ? scalar_uses(computed_scalar(v), LANE)
                                   : v.kind == LANE.kind && v.id == LANE.id)
            return true;
    return false;
}

/* Does an index depend on accumulators in lanes? It cannot be computed for a single lane. */
static bool
is_summed(Vectorizer *v, const Expr *e)
{
    FOR_EACH_SCALAR (s, expr_nodes(v->l->c, e))
        if (s->op == S_LOAD && v->l->k->buffer.at[s->u.load.slot].lanes > 1) {
            v->l->no_lanes = "are at places that each of them sums up";
            return true;
        }
    return false;
}

static const Scalar *
lane_by_lane(Vectorizer *v, const Scalar *s)
{
    const Scalar *lane[256];

    v->l->by_lane = true;
    for (uint32_t i = 0; i < v->lanes; i++)
        lane[i] = scalar_subst(v->l->c, s, &(Binding){ LANE, expr_int(v->l->c, i) }, 1);
    return scalar_lanes(v->l->c, lane, v->lanes);
}

/* The index at lane 0. False: a computed index depends on the lane. (For a tensor without elements,
 * the offset may not show it.) */
static bool
at_lane_zero(Ctx *c, uint32_t rank, const Expr *const *at, const Expr **out)
{
    bool whole = true;

    for (uint32_t d = 0; d < rank; d++) {
        out[d] = expr_subst(c, at[d], &(Binding){ LANE, expr_int(c, 0) }, 1);
        whole &= !low_uses_lane(out[d]);
    }
    return whole;
}

/* Is the buffer an intermediate tensor? Scratch of templates is padded to complete vectors,
 * intermediate tensors are not. */
static bool
is_local(const Low *l, uint32_t scratch)
{
    for (uint32_t slot = 0; l->home && slot < l->n->nin + l->n->nout; slot++)
        if (tree_buffer_of(l, slot) == scratch)
            return true;
    return false;
}

static const Scalar *vectorize_load(Vectorizer *v, const Scalar *s);

/* A read that may be outside in dimensions where all lanes have one index: it is tested once, and
 * clamped to the edge if it is outside. NULL: lanes may differ, or there is no edge. */
static const Scalar *
vectorize_guarded(Vectorizer *v, const Scalar *s)
{
    Low *l = v->l;
    const Buffer *b = &l->k->buffer.at[s->u.load.slot];
    const Expr *at[TN_MAX_RANK];
    const Scalar *within = NULL;
    Ranges r = low_ranges(l);
    Ctx *c = l->c;

    if (b->format || b->type->rank != s->u.load.rank || s->u.load.outside->op != S_CONST)
        return NULL;
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        const Expr *index = at[d] = s->u.load.at[d], *last = expr_offset(c, b->type->dim[d], -1),
                   *coef, *rest;
        if (low_uses_lane(index)) {
            const Expr *end = l->valid ? expr_offset(c, l->valid, -1) : expr_int(c, v->lanes - 1);
            if (!expr_linear(c, index, LANE, &coef, &rest) || expr_or(coef, 0) < 1 ||
                low_uses_lane(rest) || expr_le(c, &r, expr_int(c, 0), rest) != YES ||
                expr_le(c, &r, expr_add(c, rest, expr_mul(c, coef, end)), last) != YES)
                return NULL;
            continue;
        }
        if (expr_uses_kind(index, VAR_COMPUTED) || expr_le(c, &r, expr_int(c, 0), last) != YES)
            return NULL;
        const Scalar *before = within;
        within = and_inside(c, &r, index, last, within);
        if (within != before)
            at[d] = expr_max(c, expr_int(c, 0), expr_min(c, index, last));
    }
    const Scalar *load =
        vectorize_load(v, scalar_load(c, s->dtype, s->u.load.slot, s->u.load.rank, at, NULL));
    if (!within || load->lanes == 1)
        return within ? NULL : load;
    return scalar_select(c, scalar_splat(c, within, load->lanes), load,
                         scalar_splat(c, s->u.load.outside, load->lanes));
}

/* The stride between lanes if no expression shows it: a panel as narrow as its valid lanes ends
 * where they do. NULL: strides differ, or there is one lane. */
static const Expr *
step_of_lanes(Vectorizer *v, const Scalar *s)
{
    Low *l = v->l;
    Ctx *c = l->c;
    int64_t valid = v->lanes, step = 0, way;
    const Expr *at[TN_MAX_RANK], *first = NULL;

    if (s->u.load.rank > TN_MAX_RANK || (l->valid && !expr_const(l->valid, &valid)) || valid < 2 ||
        valid > v->lanes)
        return NULL;
    for (int64_t i = 0; i < valid; i++) {
        for (uint32_t d = 0; d < s->u.load.rank; d++)
            at[d] = expr_subst(c, s->u.load.at[d], &(Binding){ LANE, expr_int(c, i) }, 1);
        const Expr *place = offset_of(l, s->u.load.slot, at);
        first = i ? first : place;
        if (!expr_const(expr_sub(c, place, first), &way))
            return NULL;
        step = i == 1 ? way : step;
        if (way != i * step)
            return NULL;
    }
    return step ? expr_int(c, step) : NULL;
}

static const Scalar *
vectorize_load(Vectorizer *v, const Scalar *s)
{
    Low *l = v->l;
    const Buffer *b = &l->k->buffer.at[s->u.load.slot];
    const Expr *at[TN_MAX_RANK * 2], *stride, *rest;
    bool varies = false;

    if (b->lanes > 1)
        return scalar_load_lanes(l->c, s->dtype, s->u.load.slot, s->u.load.rank, s->u.load.at,
                                 b->lanes, expr_int(l->c, 1), NULL);
    for (uint32_t d = 0; d < s->u.load.rank; d++) {
        if (is_summed(v, s->u.load.at[d]))
            return s;
        varies |= low_uses_lane(s->u.load.at[d]);
    }
    if (!varies)
        return s;
    const Scalar *guarded = s->u.load.outside ? vectorize_guarded(v, s) : NULL;
    if (guarded)
        return guarded;
    const Expr *offset = offset_of(l, s->u.load.slot, s->u.load.at);
    if (s->u.load.outside || !at_lane_zero(l->c, s->u.load.rank, s->u.load.at, at))
        return lane_by_lane(v, s);
    bool linear = expr_linear(l->c, offset, LANE, &stride, &rest) && !low_uses_lane(rest) &&
                  !low_uses_lane(stride);
    stride = linear ? stride : step_of_lanes(v, s);
    if (!stride)
        return lane_by_lane(v, s);
    if (expr_is(stride, 0))
        return scalar_load(l->c, s->dtype, s->u.load.slot, s->u.load.rank, at, NULL);
    return scalar_load_lanes(
        l->c, s->dtype, s->u.load.slot, s->u.load.rank, at, v->lanes, stride,
        linear && b->space == SPACE_SCRATCH && !is_local(l, s->u.load.slot) ? NULL : l->valid);
}

static const Scalar *
vectorize_index(Vectorizer *v, const Scalar *s)
{
    Ctx *c = v->l->c;
    const Expr *coef, *rest;

    if (is_summed(v, s->u.index) || !low_uses_lane(s->u.index))
        return s;
    if (!expr_linear(c, s->u.index, LANE, &coef, &rest) || low_uses_lane(rest) ||
        !expr_const(coef, NULL))
        return lane_by_lane(v, s);
    const Scalar *iota =
        scalar_2(c, S_MUL, scalar_iota(c, DT_I64, v->lanes),
                 scalar_splat(c, scalar_int(c, DT_I64, expr_or(coef, 0)), v->lanes));
    return scalar_2(c, S_ADD, scalar_splat(c, scalar_index(c, rest), v->lanes), iota);
}

/* A comparison of indices that are affine in the lane, as `step*lane + rest < 0` or, *negated, its
 * opposite. False: another kind. */
static bool
affine_in_lane(Vectorizer *v, const Scalar *s, int64_t *step, const Expr **rest, bool *negated)
{
    Ctx *c = v->l->c;
    const Expr *a, *b, *coef;

    if (s->op != S_LT && s->op != S_LE && s->op != S_GT && s->op != S_GE)
        return false;
    if (!(a = scalar_as_index(c, s->arg[0])) || !(b = scalar_as_index(c, s->arg[1])))
        return false;
    const Expr *below = s->op == S_LT || s->op == S_GE ? expr_sub(c, a, b)
                        : s->op == S_GT                ? expr_sub(c, b, a)
                                                       : expr_offset(c, expr_sub(c, a, b), -1);
    *negated = s->op == S_GE;
    return expr_linear(c, below, LANE, &coef, rest) && !low_uses_lane(*rest) &&
           expr_const(coef, step) && *step != 0 && *step <= 256 && *step >= -256;
}

/* A comparison of indices with the same result in all lanes, since both the lanes' begin and the
 * border are multiples of the number of lanes: the pieces of a concatenation. It is tested once.
 * NULL: lanes may differ. */
static const Scalar *
compared_once(Vectorizer *v, const Scalar *s)
{
    Ctx *c = v->l->c;
    const Expr *rest;
    int64_t step, lanes = v->lanes;
    bool negated;

    if (!affine_in_lane(v, s, &step, &rest, &negated))
        return NULL;
    if (!expr_exact_div(c, step > 0 ? rest : expr_offset(c, rest, 1),
                        expr_int(c, lanes * (step > 0 ? step : -step))))
        return NULL;
    return scalar_subst(c, s, &(Binding){ LANE, expr_int(c, 0) }, 1);
}

/* Indices of 64 bits take twice as many vectors as the values that the comparison selects. The
 * lane's side of such a comparison is small, so the other side, clamped to 32 bits, gives the same
 * result. NULL: another kind. */
static const Scalar *
compared_in_32_bits(Vectorizer *v, const Scalar *s)
{
    Ctx *c = v->l->c;
    Ranges r = low_ranges(v->l);
    const Expr *rest, *far = expr_int(c, 1 << 30);
    int64_t step;
    bool negated;

    if (v->lanes == 1 || !affine_in_lane(v, s, &step, &rest, &negated))
        return NULL;
    const Expr *bound = expr_scale(c, rest, -1);
    Interval known = expr_bounds(c, &r, bound);
    if (known.lo < -(1 << 30))
        bound = expr_max(c, bound, expr_int(c, -(1 << 30)));
    if (known.hi > 1 << 30)
        bound = expr_min(c, bound, far);
    const Scalar *lane = scalar_iota(c, DT_I32, v->lanes);
    if (step != 1)
        lane = scalar_2(c, S_MUL, lane, scalar_splat(c, scalar_int(c, DT_I32, step), v->lanes));
    return scalar_2(c, negated ? S_GE : S_LT, lane,
                    scalar_splat(c, scalar_cast(c, DT_I32, scalar_index(c, bound)), v->lanes));
}

static const Scalar *
vectorize(Vectorizer *v, const Scalar *s)
{
    const Scalar *arg[3], *r = s;
    bool changed = false;
    uint64_t known;
    uint32_t lanes = 1;

    if (map_get(&v->done, MAP_PTR(s), &known))
        return (const Scalar *)(uintptr_t)known;
    switch (s->op) {
    case S_CONST: break;
    case S_INDEX: r = vectorize_index(v, s); break;
    case S_LOAD: r = vectorize_load(v, s); break;
    case S_AT:
        r = !is_summed(v, expr_computed(v->l->c, s)) && scalar_uses(s, LANE) ? lane_by_lane(v, s)
                                                                             : s;
        break;
    default:
        if ((r = compared_once(v, s)) || (r = compared_in_32_bits(v, s)))
            break;
        r = s;
        for (uint32_t i = 0; i < s->narg; i++) {
            arg[i] = vectorize(v, s->arg[i]);
            changed |= arg[i] != s->arg[i];
            if (arg[i]->lanes > 1)
                lanes = arg[i]->lanes;
        }
        if (!changed)
            break;
        for (uint32_t i = 0; lanes > 1 && i < s->narg; i++)
            if (arg[i]->lanes == 1)
                arg[i] = scalar_splat(v->l->c, arg[i], lanes);
        r = s->op == S_CAST ? scalar_cast(v->l->c, s->dtype, arg[0])
                            : scalar_op(v->l->c, s->op, arg);
    }
    map_put(&v->done, MAP_PTR(s), MAP_PTR(r));
    return r;
}

const Scalar *
low_value(Low *l, const Scalar *s)
{
    Map memo = { .arena = l->a }, *outer = l->mapped;

    l->mapped = &memo;
    const Scalar *mapped = low_map(l, s);
    l->mapped = outer;
    if (l->lanes == 1)
        return mapped;
    Vectorizer v = { .l = l, .lanes = l->lanes, .done = { .arena = l->a } };
    return vectorize(&v, mapped);
}

/* ---- stores ---------------------------------------------------------------------------------- */

/* Is this a non-temporal store? Yes if it was requested, except for partial vectors, as at the end
 * of all rows, which are few. All others must be complete lines. */
static bool
goes_past(Low *l, uint32_t buffer, const Expr *const *base, const Tree *store)
{
    Stream *s = l->stream && buffer < l->k->nin + l->k->nout ? &l->stream[buffer] : NULL;
    const Scalar *value = store->u.store.value;

    if (!s || *s == STREAM_NONE || store->u.store.valid)
        return false;
    Ranges r = low_ranges(l);
    int64_t bytes = dtype_info[value->dtype].bytes;
    const Expr *place =
        expr_scale(l->c, expr_simplify(l->c, &r, offset_of(l, buffer, base)), bytes);
    bool lines = expr_is(store->u.store.lane_stride, 1) &&
                 value->lanes * bytes % l->m->line_bytes == 0 &&
                 expr_divisible(l->c, &r, place, l->m->line_bytes) == YES;
    *s = !lines ? STREAM_TORN : *s == STREAM_ASKED ? STREAM_MADE : *s;
    return lines;
}

void
low_store(Low *l, Block *b, uint32_t buffer, const Expr *const *at, uint32_t rank,
          const Scalar *value)
{
    const Expr *base[TN_MAX_RANK * 2], *stride = expr_int(l->c, 0), *rest;
    bool varies = false;

    for (uint32_t d = 0; d < rank; d++)
        varies |= low_uses_lane(at[d]);
    if (!varies && l->k->buffer.at[buffer].lanes == 1) {
        assert(value->lanes == 1);
        tree_store(b, buffer, rank, at, value);
        return;
    }
    if (value->lanes == 1)
        value = scalar_splat(l->c, value, l->lanes);
    if (l->k->buffer.at[buffer].lanes > 1) {
        tree_store_lanes(b, buffer, rank, at, value, expr_int(l->c, 1), l->valid);
        return;
    }
    bool linear = expr_linear(l->c, offset_of(l, buffer, at), LANE, &stride, &rest) &&
                  !low_uses_lane(rest) && !low_uses_lane(stride) &&
                  at_lane_zero(l->c, rank, at, base);
    if (!linear) {
        l->no_lanes = "go to places that are no fixed step apart";
        return;
    }
    Tree *store = tree_store_lanes(b, buffer, rank, base, value, stride, l->valid);
    store->u.store.stream = goes_past(l, buffer, base, store);
}

void
low_write(Low *l, Block *b, const Write *w, const Scalar *value)
{
    const Expr *at[TN_MAX_RANK * 2];
    uint32_t buffer,
        rank = low_place(l, w->out, w->at, l->n->param[w->out].type->rank, at, &buffer);

    low_store(l, b, buffer, at, rank, value);
}
