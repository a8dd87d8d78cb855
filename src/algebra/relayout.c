/* relayout: a parameter that lies otherwise than the nest says.
 *
 * A tensor in a layout is a plain tensor of other dimensions, so the parameter takes that type, and
 * every read and write the index of where the element lies. With i and o in the order 0 2 3 1, i
 * with room of one zero around dimensions 2 and 3,
 *
 *     o[n, f, y, x] = sum c, r, s: i[n, c, y + r - 1, x + s - 1 | 0] * w[f, c, r, s]
 *
 * is
 *
 *     o[n, y, x, f] = sum c, r, s: i[n, y + r, x + s, c] * w[f, c, r, s]
 *
 * which reads like any other nest: there is nothing beside it that says how i lies. Of x[k, j] in
 * blocks, [1/16, 0, 1%16], a read is x[j // 16, k, j % 16].
 *
 * Who writes a tensor in blocks has an axis for each part of the dimension, and who writes one with
 * room runs over the room as well and puts the fill there:
 *
 *     o[n, y, x, f] = 1 <= y && y < h + 1 && … ? (sum c, r, s: i[n, y + r - 1, x + s - 1, c | 0] *
 *     …) : 0
 *
 * so nothing depends on what an operator makes of a zero: the room is filled after whatever it
 * computes. */
#include "algebra/internal.h"
#include "algebra/algebra.h"
#include "nest/walk.h"

typedef struct {
    Ctx *ctx;
    uint32_t slot;
    const Layout *layout;
    const Type *type; /* of the parameter, as the nest says */
    const Scalar *fill;
    /* room: somewhere; bare: no read can be outside, or that is no room's affair */
    bool room, bare;
} Lay;

/* 0 <= at[d] < extent, of dimensions that have room. NULL: none has. */
static const Scalar *
inside(const Lay *l, const Expr *const *at)
{
    Ctx *c = l->ctx;
    const Scalar *all = NULL;

    for (uint32_t d = 0; d < l->type->rank; d++) {
        if (!layout_has_room(c, l->layout, l->type, d))
            continue;
        const Scalar *i = scalar_index(c, at[d]);
        const Scalar *from = scalar_2(c, S_LE, scalar_index(c, expr_int(c, 0)), i),
                     *to = scalar_2(c, S_LT, i, scalar_index(c, l->type->dim[d]));
        all = all ? scalar_2(c, S_AND, all, from) : from;
        all = scalar_2(c, S_AND, all, to);
    }
    return all;
}

static const Scalar *
lay_load(ScalarMap *m, const Scalar *load)
{
    Lay *l = m->user;
    const Expr *at[TN_MAX_RANK];
    const Scalar *outside = load->u.load.outside;

    if (load->u.load.slot != l->slot)
        return load;
    l->bare &= !outside;
    layout_index(m->ctx, l->layout, load->u.load.at, at);
    const Scalar *there =
        scalar_load(m->ctx, load->dtype, l->slot, l->layout->format.npart, at, outside);
    return outside && l->room && outside != l->fill
               ? scalar_select(m->ctx, inside(l, load->u.load.at), there, outside)
               : there;
}

static Lay
lay_of(Ctx *c, const Nest *n, uint32_t slot, const Layout *layout)
{
    Lay l = { .ctx = c, .slot = slot, .layout = layout, .type = n->param[slot].type, .bare = true };

    for (uint32_t d = 0; d < l.type->rank; d++)
        l.room |= layout_has_room(c, layout, l.type, d);
    l.fill =
        l.room && l.type->dtype != DT_STR ? scalar_number(c, l.type->dtype, layout->fill) : NULL;
    return l;
}

static const Nest *
lay_reads(Lay *l, const Nest *n)
{
    NestEdit e = nest_edit(l->ctx, n, 0, 0);
    Arena *scratch = arena_child(l->ctx->arena);
    ScalarMap m = { .load = lay_load, .user = l, .ctx = l->ctx, .done = { .arena = scratch } };

    nest_edit_map(&e, &m);
    e.param[l->slot].type = layout_type(l->ctx, l->layout, l->type);
    arena_free(scratch);
    return nest_edit_done(l->ctx, &e);
}

const Nest *
nest_relayout(Ctx *c, const Nest *n, uint32_t slot, const Format *format)
{
    if (format->npart > TN_MAX_RANK)
        return NULL;
    Layout layout = { .format = *format, .rank = n->param[slot].type->rank };
    Lay l = lay_of(c, n, slot, &layout);
    const Nest *to = lay_reads(&l, n);
    return l.bare ? to : NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
    const Lay *l;
    NestEdit *e;
    /* each axis as the nest has it, by the axes that it has then */
    Binding bind[NEST_MAX_AXES];
    AxisSet roomy; /* axes that run over room too */
    Ranges ranges;
} Spread;

/* Is dimension d more than moved? */
static bool
is_cut(const Lay *l, uint32_t d)
{
    uint32_t parts = 0;

    for (uint32_t p = 0; p < l->layout->format.npart; p++)
        parts += l->layout->format.part[p].dim == d;
    return parts > 1 || layout_has_room(l->ctx, l->layout, l->type, d);
}

/* The axis along which alone dimension d is written, and whose trips decide nothing else; -1:
 * none. */
static int
axis_of(const Nest *n, const Write *w, uint32_t d)
{
    Var v;

    if (!expr_is_var(w->at[d], &v) || v.kind != VAR_AXIS || n->axis[v.id].kind != AXIS_PARALLEL)
        return -1;
    for (uint32_t k = 0; k < n->naxis; k++)
        if (expr_axes(n->axis[k].extent) >> v.id & 1)
            return -1;
    return (int)v.id;
}

/* An axis for each part of dimension d, that for its outermost one in place of what it was; at
 * [npart]. */
static void
cut_axis(Spread *s, uint32_t d, uint32_t axis, const Type *to, const Expr **at)
{
    const Lay *l = s->l;
    Ctx *c = l->ctx;
    const Expr *whole = expr_int(c, -l->layout->before[d]);

    for (uint32_t p = 0; p < l->layout->format.npart; p++) {
        FormatPart part = l->layout->format.part[p];
        if (part.dim != d)
            continue;
        uint32_t k = part.mod ? s->e->nest.naxis++ : axis;
        if (part.mod)
            s->e->axis[k] =
                (Axis){ nest_fresh_axis(c, s->e, s->e->axis[axis].name), AXIS_PARALLEL, NULL };
        s->e->axis[k].extent = to->dim[p];
        s->bind[k] = (Binding){ { VAR_AXIS, k }, expr_axis(c, k) };
        at[p] = expr_axis(c, k);
        whole = expr_add(c, whole, expr_mul(c, at[p], expr_int(c, part.div)));
        if (layout_has_room(c, l->layout, l->type, d))
            s->roomy |= axis_one(k);
    }
    s->bind[axis].to = whole;
}

static const Expr *
spread_expr(ScalarMap *m, const Expr *e)
{
    const Spread *s = m->user;
    return expr_subst(m->ctx, e, s->bind, s->ranges.n);
}

/* What is read for a point of the room may lie anywhere. */
static const Scalar *
spread_load(ScalarMap *m, const Scalar *load)
{
    const Spread *s = m->user;
    AxisSet axes = 0;

    for (uint32_t d = 0; d < load->u.load.rank; d++)
        axes |= expr_axes(load->u.load.at[d]);
    if (load->u.load.outside || !(axes & s->roomy) ||
        load_is_inside(m->ctx, &s->ranges, load, s->e->param[load->u.load.slot].type))
        return load;
    return load_with(m->ctx, load, load->u.load.slot, scalar_number(m->ctx, load->dtype, 0));
}

/* What a run checks, or text, has no value in the room. */
static void
see_check(void *user, const Scalar *s)
{
    bool *checked = user;
    *checked |= s->op == S_AT || s->dtype == DT_STR;
}

static const Nest *
lay_write(const Lay *l, const Nest *n, uint32_t write)
{
    Ctx *c = l->ctx;
    const Write *w = &n->write[write];
    const Type *to = layout_type(c, l->layout, l->type);
    int axis[TN_MAX_RANK];
    bool checked = false;

    for (uint32_t d = 0; d < l->type->rank; d++)
        if ((axis[d] = is_cut(l, d) ? axis_of(n, w, d) : -2) == -1)
            return NULL;
    if (l->room)
        scalar_visit(c, w->value, see_check, &checked);
    if (checked || n->nwrite != 1 || w->combiner != COMB_NONE ||
        n->naxis + l->layout->format.npart > NEST_MAX_AXES)
        return NULL;
    NestEdit e = nest_edit(c, n, l->layout->format.npart, 0);
    Arena *scratch = arena_child(c->arena);
    Spread s = { .l = l, .e = &e };
    ScalarMap m = {
        .expr = spread_expr, .load = spread_load, .user = &s, .ctx = c, .done = { .arena = scratch }
    };
    const Expr *at[TN_MAX_RANK] = { NULL }, *logical[TN_MAX_RANK];

    for (uint32_t k = 0; k < n->naxis; k++)
        s.bind[k] = (Binding){ { VAR_AXIS, k }, expr_axis(c, k) };
    for (uint32_t d = 0; d < l->type->rank; d++)
        if (axis[d] >= 0)
            cut_axis(&s, d, (uint32_t)axis[d], to, at);
    Nest now = e.nest;
    now.axis = e.axis;
    s.ranges = nest_ranges(c, scratch, &now);
    uint32_t before = e.nest.naxis;
    e.nest.naxis = 0; /* no bound of an axis names one that is cut */
    nest_edit_map(&e, &m);
    e.nest.naxis = before;
    for (uint32_t d = 0; d < l->type->rank; d++)
        logical[d] = e.write[write].at[d];
    for (uint32_t p = 0; p < l->layout->format.npart; p++)
        at[p] = at[p] ? at[p] : logical[l->layout->format.part[p].dim];
    if (l->room)
        e.write[write].value = scalar_select(c, inside(l, logical), e.write[write].value, l->fill);
    e.write[write].at = arena_copy(c->arena, at, l->layout->format.npart * sizeof *at);
    e.param[l->slot].type = to;
    arena_free(scratch);
    return nest_edit_done(c, &e);
}

/* ---- both ------------------------------------------------------------------------------------ */

const Nest *
nest_lay(Ctx *c, const Nest *n, uint32_t slot, const Layout *layout)
{
    Lay l = lay_of(c, n, slot, layout);

    if (l.room && !l.fill)
        return NULL;
    if (slot < n->nin)
        return lay_reads(&l, n);
    for (uint32_t w = 0; w < n->nwrite; w++)
        if (n->write[w].out == slot)
            return lay_write(&l, n, w);
    return NULL;
}

const Nest *
nest_permute(Ctx *c, const Nest *n, uint32_t slot, const uint8_t *order)
{
    Arena *scratch = arena_child(c->arena);
    const Nest *to =
        nest_lay(c, n, slot, layout_of_order(scratch, n->param[slot].type->rank, order));
    arena_free(scratch);
    return to;
}
