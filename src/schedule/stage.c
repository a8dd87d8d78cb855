/* stage: see stage.h. */
#include "schedule/stage.h"

/* ---- recognising ---------------------------------------------------------------------------------- */

/* One dimension of the read as stride * parallel + sum(step * window axis) + rest, which may vary with fixed axes. */
static bool
slide_of(Low *l, const Scalar *load, uint32_t d, AxisSet sum, AxisSet fixed, Slide *out)
{
    Ctx *c = l->c;
    const Expr *e = load->u.load.at[d], *coef, *rest;
    AxisSet axes = expr_axes(e);
    bool found = false;
    int64_t k, extent;

    *out = (Slide){.dim = d, .span = 1};
    for (uint32_t x = 0; x < l->n->naxis; x++) {
        if (!((axes & ~fixed) >> x & 1))
            continue;
        if (!expr_linear(c, e, (Var){VAR_AXIS, x}, &coef, &rest) || !expr_const(coef, &k) || k < 1)
            return false;
        e = rest;
        if (sum >> x & 1) {
            if (!expr_const(l->n->axis[x].extent, &extent) || extent < 1)
                return false;
            out->span += k * (extent - 1);
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
    out->phases = out->stride < out->span ? out->stride : out->span;
    out->positions = expr_offset(c, l->n->axis[out->axis].extent, (out->span - 1) / out->stride);
    return true;
}

/* What is read behind a row's end may be what lies before the next one's begin, where both are padding: so many points
 * do the rows share. With stride phases the ends of a row differ. */
static int64_t
shared_padding(Low *l, const Scalar *load, const Slide *row)
{
    Ctx *c = l->c;
    int64_t before, behind;
    const Expr *reach = expr_add(c, row->positions, row->rest);

    if (row->stride != 1 || !expr_const(expr_scale(c, row->rest, -1), &before) ||
        !expr_const(expr_sub(c, reach, l->n->param[load->u.load.slot].type->dim[row->dim]), &behind))
        return 0;
    int64_t least = before < behind ? before : behind;
    return least < 0 ? 0 : least < row->span - 1 ? least : row->span - 1;
}

/* Only what slides is copied with its padding: the others have to be inside of the tensor. */
static bool
index_is_inside(Low *l, const Scalar *load, uint32_t d)
{
    Ranges ranges = nest_ranges(l->a, l->n);
    const Expr *at = load->u.load.at[d], *dim = l->n->param[load->u.load.slot].type->dim[d];

    return !load->u.load.outside || (expr_le(l->c, &ranges, expr_int(l->c, 0), at) == YES && expr_le(l->c, &ranges, expr_offset(l->c, at, 1), dim) == YES);
}

uint32_t
stage_inner(Low *l, const Scalar *load, uint32_t d, AxisSet fixed)
{
    const Expr *e = load->u.load.at[d], *coef, *rest;
    AxisSet here = expr_axes(e) & ~fixed;
    uint32_t x = here ? (uint32_t)__builtin_ctzll(here) : 0;

    if (!here || here & (here - 1) || !expr_linear(l->c, e, (Var){ VAR_AXIS, x }, &coef, &rest) || !expr_is(coef, 1))
        return NO_SLOT;
    return x;
}

bool
stage_recognise(Low *l, const Scalar *load, StageAxes axes, Stage *s)
{
    Ctx *c = l->c;
    AxisSet parallel = nest_axes_of_kind(l->n, AXIS_PARALLEL), sliding = 0, planes = 0;

    *s = (Stage){.load = load};
    if (load->u.load.outside && load->u.load.outside->op != S_CONST)
        return false;
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        AxisSet here = expr_axes(load->u.load.at[d]);
        Slide slide;
        if (here & axes.inner) {
            uint32_t x = stage_inner(l, load, d, axes.fixed);
            if (!s->nslide || x == NO_SLOT || !index_is_inside(l, load, d))
                return false;
            s->inner[s->ninner++] = x;
            continue;
        }
        if (s->ninner && here)
            return false;                    /* what is inner lies behind all others */
        if (!(here & parallel & ~axes.fixed))
            continue;                        /* 4*group + channel: the group is fixed */
        if (!(here & axes.sum) && !(here & axes.wanted))
            continue;                        /* a batch or channel index: bound, not sliding */
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
        if (!slides && ((here & (sliding | s->window)) || !index_is_inside(l, load, d)))
            return false;
        if (!slides)
            planes |= here & axes.sum;
    }
    for (uint32_t x = 0; x < NEST_MAX_AXES; x++)
        if ((planes & ~axes.inner) >> x & 1)
            s->outer[s->nouter++] = x;
    const Expr *pitch = expr_int(c, 1);
    for (uint32_t i = s->nslide; i-- > 0;) {
        s->slide[i].pitch = pitch;
        pitch = expr_mul(c, pitch, s->slide[i].positions);
        if (i + 1 == s->nslide && i > 0) {
            s->shared = shared_padding(l, load, &s->slide[i]);
            pitch = expr_offset(c, pitch, -s->shared);
        }
    }
    return true;
}

void
stage_declare(Low *l, Block *b, Stage *s, const Expr *room, uint32_t slack)
{
    Ctx *c = l->c;
    const Expr *dim[TN_MAX_RANK * 2];
    uint32_t rank = 0;

    s->plane = expr_offset(c, expr_mul(c, room, s->slide[0].pitch), slack + s->shared);
    for (uint32_t i = 0; i < s->nouter; i++)
        dim[rank++] = low_extent(l, s->outer[i]);
    for (uint32_t i = 0; i < s->nslide; i++)
        dim[rank++] = expr_int(c, s->slide[i].phases);
    dim[rank++] = s->plane;
    for (uint32_t i = 0; i < s->ninner; i++)
        dim[rank++] = low_extent(l, s->inner[i]);
    s->buffer = kernel_buffer(c, l->a, l->k, "stage", type_new(c, s->load->dtype, rank, dim), SPACE_SCRATCH, 1);
    tree_buffer(b, s->buffer);
}

/* ---- the copy ------------------------------------------------------------------------------------------ */

typedef struct {
    Stage *s;
    const Expr *prefix[TN_MAX_RANK * 2];     /* outer and phases */
    uint32_t nprefix;
    const Expr *row;                         /* offset of the staged row in its plane */
    const Expr *source[TN_MAX_RANK];         /* index in the tensor; the last dimension's at position 0 */
    const Expr *position;                    /* whose inner points are being copied */
    const Scalar *fill;                      /* NULL: the tensor's own elements */
    uint32_t lanes;
} Row;

static void
store_staged(Low *l, Block *b, const Row *r, const Expr *position, const Scalar *value)
{
    const Expr *at[TN_MAX_RANK * 2];

    for (uint32_t i = 0; i < r->nprefix; i++)
        at[i] = r->prefix[i];
    at[r->nprefix] = expr_add(l->c, r->row, position);
    for (uint32_t i = 0; i < r->s->ninner; i++)
        at[r->nprefix + 1 + i] = l->bind[r->s->inner[i]];
    low_store(l, b, r->s->buffer, at, r->nprefix + 1 + r->s->ninner, value);
}

/* The element of a position, or what stands outside of the tensor. */
static void
copy_element(Low *l, Block *b, const Row *r, const Expr *position)
{
    const Slide *last = &r->s->slide[r->s->nslide - 1];
    const Scalar *load = r->s->load;
    const Expr *at[TN_MAX_RANK];

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        at[d] = r->source[d];
    for (uint32_t d = load->u.load.rank - r->s->ninner; d < load->u.load.rank; d++)
        at[d] = low_expr(l, load->u.load.at[d]);
    at[last->dim] = expr_add(l->c, expr_scale(l->c, position, last->stride), at[last->dim]);
    const Scalar *read = scalar_load(l->c, load->dtype, load->u.load.slot, load->u.load.rank, at, NULL);
    store_staged(l, b, r, position, low_value(l, r->fill ? r->fill : read));
}

static void
copy_step(Low *l, Block *b, void *user)
{
    const Row *r = user;
    copy_element(l, b, r, l->bind[r->s->slide[r->s->nslide - 1].axis]);
}

static void
inner_step(Low *l, Block *b, void *user)
{
    const Row *r = user;
    copy_element(l, b, r, r->position);
}

/* The inner points of a position, in vectors along the last axis. */
static void
copy_inner(Low *l, Block *b, Row *r, const Expr *position)
{
    const Stage *s = r->s;
    const Expr *bound[NEST_MAX_AXES];
    uint32_t ranges = l->range.n, last = s->inner[s->ninner - 1];

    r->position = position;
    for (uint32_t i = 0; i < s->ninner; i++)
        bound[i] = l->bind[s->inner[i]];
    for (uint32_t i = 0; i + 1 < s->ninner; i++)
        l->bind[s->inner[i]] = low_loop(l, &b, LOOP_SERIAL, l->n->axis[s->inner[i]].name, expr_int(l->c, 0), low_extent(l, s->inner[i]), 1);
    low_vector_loop(l, b, last, l->n->axis[last].name, expr_int(l->c, 0), low_extent(l, last), r->lanes, inner_step, r);
    for (uint32_t i = 0; i < s->ninner; i++)
        l->bind[s->inner[i]] = bound[i];
    l->range.n = ranges;
}

/* Positions from..to, of elements or of what stands outside. */
static void
copy_part(Low *l, Block *b, Row *r, const Expr *from, const Expr *to, const Scalar *fill)
{
    uint32_t ranges = l->range.n;

    r->fill = fill;
    if (!fill && !r->s->ninner) {
        low_vector_loop(l, b, r->s->slide[r->s->nslide - 1].axis, "q", from, to, r->lanes, copy_step, r);
        return;
    }
    const Expr *q = low_loop(l, &b, LOOP_SERIAL, "q", from, to, 1);
    if (r->s->ninner)
        copy_inner(l, b, r, q);
    else
        copy_element(l, b, r, q);
    l->range.n = ranges;
}

static const Scalar *
both(Ctx *c, const Scalar *a, const Scalar *b)
{
    return a ? scalar_2(c, S_AND, a, b) : b;
}

enum { PHASES_WRITTEN_OUT = 4 };     /* bounds code: a step of two or three has so few, of most patches there are more */

/* The loop over a slide's phases stands inside of that over its positions, so that the tensor is read in its own order. Where each phase of a row
 * begins and ends follows from the row's length: if that is open, phases are written out, and it is computed once instead of for each row. */
static const Expr *
add_phase(Low *l, Block **b, Row *r, const Slide *slide)
{
    const Expr *zero = expr_int(l->c, 0);
    bool open = !expr_const(slide->positions, NULL) && slide->phases <= PHASES_WRITTEN_OUT && r->nprefix + 1 == r->s->nouter + r->s->nslide;

    return r->prefix[r->nprefix++] = slide->phases == 1 ? zero : low_loop(l, b, open ? LOOP_UNROLLED : LOOP_SERIAL, "phase", zero, expr_int(l->c, slide->phases), 1);
}

void
stage_fill(Low *l, Block *b, Stage *s, uint32_t lanes)
{
    Ctx *c = l->c;
    uint32_t ranges = l->range.n;
    const Slide *last = &s->slide[s->nslide - 1];
    const Type *t = l->n->param[s->load->u.load.slot].type;
    const Scalar *outside = s->load->u.load.outside, *test = NULL;
    const Expr *zero = expr_int(c, 0);
    Row r = {.s = s, .row = zero, .lanes = lanes};

    for (uint32_t i = 0; i < s->nouter; i++)
        l->bind[s->outer[i]] = r.prefix[r.nprefix++] =
            low_loop(l, &b, LOOP_SERIAL, l->n->axis[s->outer[i]].name, zero, low_extent(l, s->outer[i]), 1);
    for (uint32_t d = 0; d < s->load->u.load.rank; d++)
        r.source[d] = s->load->u.load.at[d];
    for (uint32_t i = 0; i < s->nslide; i++)
        r.source[s->slide[i].dim] = low_expr(l, s->slide[i].rest);
    for (uint32_t i = 0; i + 1 < s->nslide; i++) {
        const Slide *y = &s->slide[i];
        const Expr *begin = i == 0 ? s->first : zero;
        const Expr *end = i == 0 ? expr_min(c, expr_add(c, s->first, s->rows), y->positions) : y->positions;
        const Expr *v = low_loop(l, &b, LOOP_SERIAL, l->n->axis[y->axis].name, begin, end, 1);
        const Expr *at = expr_add(c, expr_add(c, expr_scale(c, v, y->stride), add_phase(l, &b, &r, y)), r.source[y->dim]);
        r.row = expr_add(c, r.row, expr_mul(c, expr_sub(c, v, begin), y->pitch));
        r.source[y->dim] = at;
        if (!outside && y->phases == 1)
            continue;
        test = both(c, test, scalar_2(c, S_GE, scalar_index(c, at), scalar_int(c, DT_I64, 0)));
        test = both(c, test, scalar_2(c, S_LT, scalar_index(c, at), scalar_index(c, t->dim[y->dim])));
    }
    /* Positions begin .. end of the last slide; inside the tensor while 0 <= stride*q + start < extent. */
    bool alone = s->nslide == 1;
    const Expr *begin = alone ? s->first : zero;
    const Expr *end = alone ? expr_min(c, expr_add(c, s->first, s->rows), last->positions) : last->positions;
    if (alone)
        r.row = expr_sub(c, zero, s->first);
    const Expr *start = expr_add(c, add_phase(l, &b, &r, last), r.source[last->dim]), *stride = expr_int(c, last->stride);
    r.source[last->dim] = start;
    const Expr *lo = expr_min(c, end, expr_max(c, begin, expr_ceil_div(c, expr_scale(c, start, -1), stride)));
    const Expr *hi = expr_max(c, lo, expr_min(c, end, expr_ceil_div(c, expr_sub(c, t->dim[last->dim], start), stride)));
    const Scalar *fill = outside ? outside : scalar_number(c, s->load->dtype, 0);
    if (test) {
        Tree *branch = tree_if(b, test);
        copy_part(l, &branch->other, &r, begin, end, fill);
        b = &branch->body;
    }
    Ranges known = low_ranges(l);
    lo = low_let(l, b, "lo", expr_simplify(c, &known, lo), NULL);
    hi = low_let(l, b, "hi", expr_simplify(c, &known, hi), NULL);
    copy_part(l, b, &r, begin, lo, fill);
    copy_part(l, b, &r, lo, hi, NULL);
    copy_part(l, b, &r, hi, end, fill);
    for (uint32_t i = 0; i < s->nouter; i++)
        l->bind[s->outer[i]] = NULL;
    l->range.n = ranges;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

uint32_t
stage_index(Low *l, const Stage *s, const Expr *position, const Expr **at)
{
    Ctx *c = l->c;
    uint32_t rank = 0;

    for (uint32_t i = 0; i < s->nouter; i++)
        at[rank++] = l->bind[s->outer[i]];
    for (uint32_t i = 0; i < s->nslide; i++) {
        const Slide *d = &s->slide[i];
        const Expr *own = expr_scale(c, expr_axis(c, d->axis), d->stride);
        const Expr *reach = low_expr(l, expr_sub(c, expr_sub(c, s->load->u.load.at[d->dim], d->rest), own));
        at[rank++] = expr_mod(c, reach, expr_int(c, d->stride));
        position = expr_add(c, position, expr_mul(c, d->pitch, expr_div(c, reach, expr_int(c, d->stride))));
    }
    at[rank++] = position;
    for (uint32_t i = 0; i < s->ninner; i++)
        at[rank++] = l->bind[s->inner[i]];
    return rank;
}
