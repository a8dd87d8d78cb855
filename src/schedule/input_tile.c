/* input_tile: see input_tile.h. */
#include "schedule/input_tile.h"

/* ---- recognising ----------------------------------------------------------------------------- */

/* An argument of an atom of e that uses all of these axes; NULL: none. */
static const Expr *
argument_with(const Expr *e, AxisSet axes)
{
    for (uint32_t t = 0; t < e->nterm; t++)
        for (uint32_t f = 0; f < e->term[t].nfactor; f++) {
            const Atom *atom = e->term[t].factor[f].atom;
            for (uint32_t i = 0; atom->kind != ATOM_VAR && i < atom->narg; i++)
                if (!(axes & ~expr_axes(atom->arg[i])))
                    return atom->arg[i];
        }
    return NULL;
}

/* The part of an index that varies: k + r of (k + r - 1) // 2, of max(k + r, 6 - k - r). For a sum
 * of axes, the index itself. */
static const Expr *
position_in(Ctx *c, const Expr *index, AxisSet axes)
{
    const Expr *e = index, *coef, *rest;
    int64_t k;

    for (const Expr *in = e; in && axes; in = argument_with(e, axes))
        e = in;
    if (e != index &&
        expr_linear(c, e, (Var){ VAR_AXIS, (uint32_t)__builtin_ctzll(axes) }, &coef, &rest) &&
        expr_const(coef, &k) && k < 0)
        e = expr_scale(c, e, -1);
    return e;
}

/* One dimension of the read, or the varying part of its index, as scale * (stride * parallel +
 * sum(step * window axis)) + rest, which may vary with fixed axes. */
static bool
slide_of(Low *l, const Scalar *load, uint32_t d, AxisSet sum, AxisSet fixed, Slide *out)
{
    Ctx *c = l->c;
    AxisSet axes = expr_axes(load->u.load.at[d]);
    const Expr *e = position_in(c, load->u.load.at[d], axes & ~fixed), *coef, *rest;
    bool found = false;
    int64_t k, extent, step[NEST_MAX_AXES];

    *out =
        (Slide){ .dim = d, .span = 1, .reach = expr_int(c, 0), .inside = e != load->u.load.at[d] };
    FOR_EACH_AXIS (x, axes & ~fixed) {
        if (!expr_linear(c, e, (Var){ VAR_AXIS, x }, &coef, &rest) || !expr_const(coef, &k) ||
            k < 1)
            return false;
        e = rest;
        step[x] = k;
        out->scale = gcd64(k, out->scale);
        if (sum >> x & 1) {
            if (!expr_const(l->n->axis[x].extent, &extent) || extent < 1)
                return false;
        } else if (found) {
            return false;
        } else {
            found = true;
            out->axis = x;
            out->stride = k;
        }
    }
    out->rest = e;
    if (!found || expr_axes(e) & ~fixed || expr_uses_kind(e, VAR_COMPUTED))
        return false;
    if (!(axes & ~fixed & sum))
        out->scale = 1; /* every second point, without a window */
    out->stride /= out->scale;
    for (uint32_t x = 0; x < l->n->naxis; x++)
        if ((axes & ~fixed & sum) >> x & 1 && expr_const(l->n->axis[x].extent, &extent)) {
            out->span += step[x] / out->scale * (extent - 1);
            out->reach =
                expr_add(c, out->reach, expr_scale(c, expr_axis(c, x), step[x] / out->scale));
        }
    out->phases = out->stride < out->span ? out->stride : out->span;
    out->positions = expr_offset(c, l->n->axis[out->axis].extent, (out->span - 1) / out->stride);
    return true;
}

/* The number of padding points that the end of a row and the begin of the next one share. With
 * stride phases the ends of a row differ, so there are none. */
static int64_t
shared_padding(Low *l, const Slide *row)
{
    int64_t before, behind;

    if (row->stride != 1 || !row->lo || !row->hi || !expr_const(row->lo, &before) ||
        !expr_const(expr_sub(l->c, row->positions, row->hi), &behind))
        return 0;
    int64_t least = before < behind ? before : behind;
    return least < 0 ? 0 : least < row->span - 1 ? least : row->span - 1;
}

/* Only dimensions that slide are copied with padding: is this other dimension inside of the
 * tensor? */
static bool
index_is_inside(Low *l, const Scalar *load, uint32_t d)
{
    Ranges ranges = nest_ranges(l->c, l->a, l->n);
    const Expr *at = load->u.load.at[d], *dim = l->n->param[load->u.load.slot].type->dim[d];

    return !load->u.load.outside || (expr_le(l->c, &ranges, expr_int(l->c, 0), at) == YES &&
                                     expr_le(l->c, &ranges, expr_offset(l->c, at, 1), dim) == YES);
}

uint32_t
input_tile_inner(Low *l, const Scalar *load, uint32_t d, AxisSet fixed)
{
    const Expr *e = load->u.load.at[d], *coef, *rest;
    AxisSet here = expr_axes(e) & ~fixed;
    uint32_t x = here ? (uint32_t)__builtin_ctzll(here) : 0;

    if (!here || here & (here - 1) || !expr_linear(l->c, e, (Var){ VAR_AXIS, x }, &coef, &rest) ||
        !expr_is(coef, 1))
        return NO_SLOT;
    return x;
}

/* The first read below s that slides. */
static const Scalar *
sliding_read(Low *l, const Scalar *s, InputTileAxes axes, bool *sums)
{
    AxisSet points = nest_axes_of_kind(l->n, AXIS_PARALLEL) & ~axes.fixed;
    const Scalar *found = NULL;

    *sums = false;
    FOR_EACH_SCALAR (below, scalar_nodes(l->c, s)) {
        *sums |= below->op == S_REDUCE || below->op == S_AT;
        for (uint32_t d = 0; below->op == S_LOAD && d < below->u.load.rank && !found; d++) {
            AxisSet here = expr_axes(below->u.load.at[d]);
            if (here & points && here & (axes.sum | axes.wanted))
                found = below;
        }
    }
    return found;
}

const Scalar *
input_tile_operand(Low *l, const Scalar *summand, AxisSet sum)
{
    AxisSet parallel = nest_axes_of_kind(l->n, AXIS_PARALLEL);
    const Scalar *s = summand;

    while (s && s->op != S_LOAD &&
           !(s->op == S_SELECT && s->arg[0]->axes & sum && s->arg[0]->axes & parallel)) {
        const Scalar *next = NULL;
        bool sums;
        for (uint32_t i = 0; i < s->narg; i++)
            if (s->arg[i] != next &&
                sliding_read(l, s->arg[i], (InputTileAxes){ .sum = sum }, &sums)) {
                if (next)
                    return s;
                next = s->arg[i];
            }
        s = next;
    }
    return s;
}

/* ---- what is copied -------------------------------------------------------------------------- */

/* A variable of a slide's position, stride * axis + reach, with coefficient 1; false: none. */
static bool
step_of_one(Low *l, const Slide *s, AxisSet window, Var *v)
{
    const Expr *coef, *rest;

    *v = (Var){ VAR_AXIS, s->axis };
    if (s->stride == 1)
        return true;
    for (uint32_t x = 0; x < l->n->naxis; x++) {
        *v = (Var){ VAR_AXIS, x };
        if (window >> x & 1 && expr_linear(l->c, s->reach, *v, &coef, &rest) && expr_is(coef, 1))
            return true;
    }
    return false;
}

/* The operand as a function of its positions; in it, a slide's axis stands for the position. NULL:
 * it varies otherwise too. */
static const Scalar *
by_positions(Low *l, const Scalar *operand, const InputTile *s)
{
    Ctx *c = l->c;
    Binding place[MAX_SLIDE], named[MAX_SLIDE];
    AxisSet gone = s->window;

    if (l->n->naxis + s->nslide > NEST_MAX_AXES)
        return NULL;
    for (uint32_t i = 0; i < s->nslide; i++) {
        const Slide *d = &s->slide[i];
        const Expr *position =
            expr_add(c, expr_scale(c, expr_axis(c, d->axis), d->stride), d->reach);
        uint32_t stand_in = l->n->naxis + i;
        Var v;
        if (!step_of_one(l, d, s->window, &v))
            return NULL;
        place[i] = (Binding){ v, expr_sub(c, expr_axis(c, stand_in),
                                          expr_sub(c, position, expr_var(c, v))) };
        named[i] = (Binding){ { VAR_AXIS, stand_in }, expr_axis(c, d->axis) };
        gone |= (AxisSet)1 << d->axis;
    }
    const Scalar *value = scalar_subst(c, operand, place, s->nslide);
    return value->axes & gone ? NULL : scalar_subst(c, value, named, s->nslide);
}

/* A read as a function of its positions. */
static const Scalar *
read_by_positions(Low *l, const Scalar *load, const InputTile *s)
{
    const Expr *at[TN_MAX_RANK];

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        at[d] = load->u.load.at[d];
    for (uint32_t i = 0; i < s->nslide; i++)
        at[s->slide[i].dim] =
            expr_add(l->c, expr_scale(l->c, expr_axis(l->c, s->slide[i].axis), s->slide[i].scale),
                     s->slide[i].rest);
    return scalar_load(l->c, load->dtype, load->u.load.slot, load->u.load.rank, at,
                       load->u.load.outside);
}

/* e >= 0 as a bound of the only position in it. False: it has none, or several. */
static bool
bound_position(Low *l, InputTile *s, const Expr *e)
{
    Ctx *c = l->c;
    Slide *of = NULL;
    const Expr *coef, *rest;
    int64_t k;

    for (uint32_t i = 0; i < s->nslide; i++)
        if (expr_axes(e) >> s->slide[i].axis & 1) {
            if (of)
                return false;
            of = &s->slide[i];
        }
    if (!of || expr_uses_kind(e, VAR_COMPUTED) ||
        !expr_linear(c, e, (Var){ VAR_AXIS, of->axis }, &coef, &rest) || !expr_const(coef, &k) ||
        k == 0)
        return false;
    if (k > 0) {
        const Expr *lo = expr_ceil_div(c, expr_scale(c, rest, -1), expr_int(c, k));
        of->lo = of->lo ? expr_max(c, of->lo, lo) : lo;
    } else {
        const Expr *hi = expr_offset(c, expr_div(c, rest, expr_int(c, -k)), 1);
        of->hi = of->hi ? expr_min(c, of->hi, hi) : hi;
    }
    return true;
}

/* A test as bounds of positions. */
static bool
bound_by_test(Low *l, InputTile *s, const Scalar *test)
{
    Ctx *c = l->c;

    while (test->op == S_AND) {
        if (!bound_by_test(l, s, test->arg[1]))
            return false;
        test = test->arg[0];
    }
    const Expr *x = test->narg == 2 ? scalar_as_index(c, test->arg[0]) : NULL,
               *y = x ? scalar_as_index(c, test->arg[1]) : NULL;
    if (!y)
        return false;
    switch (test->op) {
    case S_GE: return bound_position(l, s, expr_sub(c, x, y));
    case S_GT: return bound_position(l, s, expr_offset(c, expr_sub(c, x, y), -1));
    case S_LE: return bound_position(l, s, expr_sub(c, y, x));
    case S_LT: return bound_position(l, s, expr_offset(c, expr_sub(c, y, x), -1));
    default: return false;
    }
}

/* A read's padding as bounds of positions; dimensions without a position must be inside. */
static bool
bound_by_read(Low *l, InputTile *s, const Scalar *load)
{
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        const Expr *at = load->u.load.at[d], *dim = l->n->param[load->u.load.slot].type->dim[d];
        AxisSet here = expr_axes(at), slides = 0;
        for (uint32_t i = 0; i < s->nslide; i++)
            slides |= here & (AxisSet)1 << s->slide[i].axis;
        if (slides ? !bound_position(l, s, at) ||
                         !bound_position(l, s, expr_offset(l->c, expr_sub(l->c, dim, at), -1))
                   : !index_is_inside(l, load, d))
            return false;
    }
    return true;
}

/* The value of a read or a select beyond its border if that is a constant; otherwise NULL. */
static const Scalar *
beyond_border(const Scalar *s)
{
    const Scalar *other = s->op == S_LOAD     ? s->u.load.outside
                          : s->op == S_SELECT ? s->arg[2]
                                              : NULL;

    return other && other->op == S_CONST ? other : NULL;
}

/* v itself, or else the first node below it, with such a border; NULL: there is none. */
static const Scalar *
find_padded(Ctx *c, const Scalar *v)
{
    if (beyond_border(v))
        return v;
    FOR_EACH_SCALAR (s, scalar_nodes(c, v))
        if (beyond_border(s))
            return s;
    return NULL;
}

static const Scalar *
unpadded(Ctx *c, const Scalar *load)
{
    return scalar_load(c, load->dtype, load->u.load.slot, load->u.load.rank, load->u.load.at, NULL);
}

/* Moves padding from the value to bounds of positions, as long as the value there is a constant:
 * where a test fails, or where a read is outside of its tensor. */
static void
take_padding(Low *l, InputTile *s)
{
    for (;;) {
        const Scalar *v = s->value, *found = find_padded(l->c, v);
        InputTile with = *s;
        with.fill = found ? scalar_replace(l->c, v, found, beyond_border(found)) : NULL;
        if (!with.fill || with.fill->op != S_CONST || (s->fill && s->fill != with.fill) ||
            !(found->op == S_LOAD ? bound_by_read(l, &with, found)
                                  : bound_by_test(l, &with, found->arg[0])))
            return;
        if (found->op == S_LOAD)
            with.value = scalar_replace(l->c, v, found, unpadded(l->c, found));
        else /* the test holds, also at its other uses */
            with.value = scalar_replace(l->c, v, found->arg[0], scalar_int(l->c, DT_BOOL, 1));
        if (with.value == v)
            return;
        *s = with;
    }
}

/* The end of the positions with a value. If it is unknown, it is the end of what is read, since the
 * last phases of a stride have more points. */
const Expr *
stage_end(Low *l, const Slide *d)
{
    return d->hi ? d->hi
                 : expr_offset(l->c,
                               expr_scale(l->c, expr_offset(l->c, l->n->axis[d->axis].extent, -1),
                                          d->stride),
                               d->span);
}

typedef struct {
    Low *l;
    Ranges ranges;
} RangedMap;

/* Reads that are inside of the tensor at all copied positions need no padding. */
static const Scalar *
read_inside(ScalarMap *m, const Scalar *s)
{
    const RangedMap *in = m->user;
    bool inside = s->u.load.outside != NULL;

    for (uint32_t d = 0; d < s->u.load.rank && inside; d++)
        inside = expr_le(m->ctx, &in->ranges, expr_int(m->ctx, 0), s->u.load.at[d]) == YES &&
                 expr_le(m->ctx, &in->ranges, expr_offset(m->ctx, s->u.load.at[d], 1),
                         in->l->n->param[s->u.load.slot].type->dim[d]) == YES;
    return inside ? unpadded(m->ctx, s) : s;
}

static void
drop_padding(Low *l, InputTile *s)
{
    RangedMap in = { l, nest_ranges(l->c, l->a, l->n) };
    ScalarMap m = { .load = read_inside, .user = &in, .ctx = l->c, .done = { .arena = l->a } };
    Range *range = arena_copy(l->a, in.ranges.at, in.ranges.n * sizeof *range);

    for (uint32_t i = 0; i < in.ranges.n; i++)
        for (uint32_t x = 0; x < s->nslide; x++)
            if (range[i].var.kind == VAR_AXIS && range[i].var.id == s->slide[x].axis) {
                range[i].begin = s->slide[x].lo ? s->slide[x].lo : expr_int(l->c, 0);
                range[i].extent = expr_sub(l->c, stage_end(l, &s->slide[x]), range[i].begin);
            }
    in.ranges.at = range;
    s->value = scalar_map(&m, s->value);
}

bool
input_tile_recognise(Low *l, const Scalar *operand, InputTileAxes axes, InputTile *s)
{
    Ctx *c = l->c;
    AxisSet parallel = nest_axes_of_kind(l->n, AXIS_PARALLEL), sliding = 0, named = 0;
    bool sums = false, bare = operand->op == S_LOAD;
    const Scalar *load = bare ? operand : sliding_read(l, operand, axes, &sums);

    *s = (InputTile){ .load = load };
    if (!load || sums)
        return false;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        AxisSet here = expr_axes(load->u.load.at[d]);
        Slide slide;
        if (here & axes.inner) {
            uint32_t x = input_tile_inner(l, load, d, axes.fixed);
            if (!s->nslide || x == NO_SLOT)
                return false;
            s->inner[s->ninner++] = x;
            continue;
        }
        if (s->ninner && here)
            return false; /* inner axes come after all others */
        if (!(here & parallel & ~axes.fixed))
            continue; /* 4*group + channel: the group is fixed */
        if (!(here & axes.sum) && !(here & axes.wanted))
            continue; /* a batch or channel index: bound, not sliding */
        if (!slide_of(l, load, d, axes.sum, axes.fixed, &slide))
            return false;
        if (s->nslide == MAX_SLIDE || sliding >> slide.axis & 1)
            return false;
        sliding |= (AxisSet)1 << slide.axis;
        s->window |= here & axes.sum;
        s->slide[s->nslide++] = slide;
    }
    if (s->nslide == 0)
        return false;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        AxisSet here = expr_axes(load->u.load.at[d]);
        bool slides = false;
        for (uint32_t i = 0; i < s->nslide; i++)
            slides |= s->slide[i].dim == d;
        /* Neither a sliding axis nor a window axis may index the other dimensions. */
        if (!slides && (here & (sliding | s->window)))
            return false;
    }
    for (uint32_t i = 0; i < s->nslide; i++)
        bare &= !s->slide[i].inside;
    s->value = bare ? read_by_positions(l, load, s) : by_positions(l, operand, s);
    if (!s->value)
        return false;
    if (bare && !load->u.load.outside) /* the tensor ends there, without a test */
        bound_by_read(l, s, s->value);
    take_padding(l, s);
    drop_padding(l, s);
    for (uint32_t i = 0; i < s->ninner; i++)
        named |= (AxisSet)1 << s->inner[i];
    FOR_EACH_AXIS (x, operand->axes & axes.sum & ~s->window & ~named)
        s->outer[s->nouter++] = x;
    const Expr *pitch = expr_int(c, 1);
    for (uint32_t i = s->nslide; i-- > 0;) {
        s->slide[i].pitch = pitch;
        pitch = expr_mul(c, pitch, s->slide[i].positions);
        if (i + 1 == s->nslide && i > 0) {
            s->shared = shared_padding(l, &s->slide[i]);
            pitch = expr_offset(c, pitch, -s->shared);
        }
    }
    return true;
}
