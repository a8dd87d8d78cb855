/* reindex: a parameter of a nest with other dimensions than the nest says.
 *
 * A tensor in a format is a plain tensor of other dimensions, so the parameter takes that type, and
 * every read and write the index at which the element is stored. With i and o in the order 0 2 3 1,
 *
 *     o[n, f, y, x] = sum c, r, s: i[n, c, y + r - 1, x + s - 1 | 0] * w[f, c, r, s]
 *
 * is
 *
 *     o[n, y, x, f] = sum c, r, s: i[n, y + r - 1, x + s - 1, c | 0] * w[f, c, r, s]
 *
 * which reads like any other nest: nothing beside it says how i is stored. A read of x[k, j] in the
 * format [1/16, 0, 1%16] is x[j // 16, k, j % 16]. A nest that writes a dimension in several parts
 * has an axis for each of them. If the parts do not divide the dimension, the format has padding,
 * in which a read outside of the tensor might be.
 */
#include "algebra/internal.h"

typedef struct {
    Ctx *ctx;
    uint32_t slot;
    const Format *format;
    const Type *type; /* of the parameter, as the nest says */
    bool even;        /* the parts of each dimension divide it */
    bool bare;        /* no read can be outside */
} Reindex;

static const Scalar *
reindex_load(ScalarMap *m, const Scalar *load)
{
    Reindex *r = m->user;
    const Expr *at[TN_MAX_RANK];

    if (load->u.load.slot != r->slot)
        return load;
    r->bare &= !load->u.load.outside;
    format_index(m->ctx, r->format, load->u.load.at, at);
    return scalar_load(m->ctx, load->dtype, r->slot, r->format->npart, at, load->u.load.outside);
}

static const Nest *
reindex_reads(Reindex *r, const Nest *n)
{
    NestEdit e = nest_edit(r->ctx, n, 0, 0);
    ScalarMap m = {
        .load = reindex_load, .user = r, .ctx = r->ctx, .done = { .arena = e.scratch }
    };

    nest_edit_map(&e, &m);
    e.param[r->slot].type = format_type(r->ctx, r->format, r->type);
    const Nest *to = nest_edit_done(r->ctx, &e);
    return r->even || r->bare ? to : NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
    const Reindex *r;
    NestEdit *e;
    Binding bind[NEST_MAX_AXES]; /* each axis as the nest has it, by the axes that it has then */
} Spread;

static bool
is_cut(const Format *f, uint32_t d)
{
    uint32_t parts = 0;

    for (uint32_t p = 0; p < f->npart; p++)
        parts += f->part[p].dim == d;
    return parts > 1;
}

/* The axis along which alone dimension d is written, and whose trips decide nothing else; -1:
 * none. */
static int
axis_written(const Nest *n, const Write *w, uint32_t d)
{
    uint32_t axis = axis_of(w->at[d]);

    if (axis == NO_SLOT || n->axis[axis].kind != AXIS_PARALLEL)
        return -1;
    for (uint32_t k = 0; k < n->naxis; k++)
        if (expr_axes(n->axis[k].extent) >> axis & 1)
            return -1;
    return (int)axis;
}

/* An axis for each part of dimension d, that for its outermost one in place of what it was; at
 * [npart]. */
static void
cut_axis(Spread *s, uint32_t d, uint32_t axis, const Type *to, const Expr **at)
{
    const Format *f = s->r->format;
    Ctx *c = s->r->ctx;
    const Expr *whole = expr_int(c, 0);

    for (uint32_t p = 0; p < f->npart; p++) {
        FormatPart part = f->part[p];
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
    }
    s->bind[axis].to = whole;
}

static const Nest *
reindex_write(const Reindex *r, const Nest *n, uint32_t write)
{
    Ctx *c = r->ctx;
    const Format *f = r->format;
    const Write *w = &n->write[write];
    const Type *to = format_type(c, f, r->type);
    int axis[TN_MAX_RANK];

    for (uint32_t d = 0; d < r->type->rank; d++)
        if ((axis[d] = is_cut(f, d) ? axis_written(n, w, d) : -2) == -1)
            return NULL;
    if (n->nwrite != 1 || w->combiner != COMB_NONE || n->naxis + f->npart > NEST_MAX_AXES)
        return NULL;
    NestEdit e = nest_edit(c, n, f->npart, 0);
    Spread s = { .r = r, .e = &e };
    const Expr *at[TN_MAX_RANK] = { NULL };

    for (uint32_t k = 0; k < n->naxis; k++)
        s.bind[k] = (Binding){ { VAR_AXIS, k }, expr_axis(c, k) };
    for (uint32_t d = 0; d < r->type->rank; d++)
        if (axis[d] >= 0)
            cut_axis(&s, d, (uint32_t)axis[d], to, at);
    Bindings all = { s.bind, e.nest.naxis };
    ScalarMap m = {
        .expr = bindings_apply, .user = &all, .ctx = c, .done = { .arena = e.scratch }
    };
    e.nest.naxis = 0; /* no bound of an axis names one that is cut */
    nest_edit_map(&e, &m);
    e.nest.naxis = all.n;
    for (uint32_t p = 0; p < f->npart; p++)
        at[p] = at[p] ? at[p] : e.write[write].at[f->part[p].dim];
    e.write[write].at = arena_copy(c->arena, at, f->npart * sizeof *at);
    e.param[r->slot].type = to;
    return nest_edit_done(c, &e);
}

/* ---- both ------------------------------------------------------------------------------------ */

const Nest *
nest_reindex(Ctx *c, const Nest *n, uint32_t slot, const Format *format)
{
    Reindex r = { c, slot, format, n->param[slot].type, true, true };

    if (format->npart > TN_MAX_RANK)
        return NULL;
    for (uint32_t p = 0; p < format->npart; p++) {
        FormatPart part = format->part[p];
        r.even &= part.mod || part.div == 1 ||
                  expr_exact_div(c, r.type->dim[part.dim], expr_int(c, part.div));
    }
    if (slot < n->nin)
        return reindex_reads(&r, n);
    for (uint32_t w = 0; r.even && w < n->nwrite; w++)
        if (n->write[w].out == slot)
            return reindex_write(&r, n, w);
    return NULL;
}

const Nest *
nest_permute(Ctx *c, const Nest *n, uint32_t slot, const uint8_t *order)
{
    FormatPart part[TN_MAX_RANK];
    uint32_t rank = n->param[slot].type->rank;

    for (uint32_t d = 0; d < rank; d++)
        part[d] = (FormatPart){ order[d], 1, 0 };
    return nest_reindex(c, n, slot, &(Format){ rank, part });
}

/* ---- a dimension for each axis --------------------------------------------------------------- */

const Nest *
nest_output_along(Ctx *c, const Nest *n, const uint32_t *axis, uint32_t rank, const Nest **move)
{
    const Write *w = &n->write[0];
    const NestParam *p = &n->param[w->out];
    const Expr *at[TN_MAX_RANK], *to[TN_MAX_RANK], *digit_of[NEST_MAX_AXES] = { NULL };

    if (n->nwrite != 1 || !write_is_plain(c, n, w) || rank > TN_MAX_RANK)
        return NULL;
    const Type *t = type_along(c, n, p->type->dtype, axis, rank);
    NestBuilder b = nest_begin(c, arena_printf(c->arena, "%s_relaid", p->name));
    uint32_t in = nest_in(&b, "x", t), out = nest_out(&b, p->name, p->type);
    nest_axes_of(&b, p->type, to);
    for (uint32_t d = 0; d < p->type->rank; d++) {
        const Expr *above = to[d];
        uint32_t digit[NEST_MAX_AXES];
        for (uint32_t i = write_digits(c, n, w, d, digit); i-- > 0;) {
            const Expr *extent = n->axis[digit[i]].extent;
            digit_of[digit[i]] = i ? expr_mod(c, above, extent) : above;
            above = expr_div(c, above, extent);
        }
    }
    for (uint32_t d = 0; d < rank; d++)
        /* an axis of one point */
        at[d] = digit_of[axis[d]] ? digit_of[axis[d]] : expr_int(c, 0);
    nest_write(&b, out, to, nest_load(&b, in, at));
    *move = nest_finish(&b);

    NestEdit e = nest_edit(c, n, 0, 0);
    for (uint32_t d = 0; d < rank; d++)
        at[d] = expr_axis(c, axis[d]);
    e.write[0].at = arena_copy(c->arena, at, rank * sizeof *at);
    e.param[w->out].type = t;
    return *move ? nest_edit_done(c, &e) : NULL;
}
