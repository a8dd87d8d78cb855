/* winograd_window: a pooling after a convolution in a Winograd domain, as one more step of it: see
 * winograd.h.
 *
 *     l[n, y, k] = max r: o[n, s*y + r, k],  r < s
 *
 * becomes, with o made in tiles at m*t + i and s a divisor of m,
 *
 *     l[n, (m/s)*t + u, k] = max r: o[n, t, s*u + r, k]
 *
 * so the kernel that makes a tile can make the pooled values from it. Tiles that extend beyond the
 * image make outputs that do not exist; one more step reads the others.
 */
#include "algebra/algebra.h"
#include "domain/internal.h"
#include "domain/winograd.h"

#include "nest/walk.h"

/* One dimension of the window's input: its tile and the position in it; or bare, digit 0 alone. */
typedef struct {
    uint32_t ndigit, digit[2]; /* of the dimension: axes of the step that makes it */
    /* of the window: the axis that strides over it, the sum inside; NO_SLOT: none */
    uint32_t axis, sum;
    int64_t step;
    const Expr *tile, *place; /* substitutes of the axis in the new nest */
} Dim;

typedef struct {
    Ctx *ctx;
    /* the window; the step that makes tiles, a dimension for each of its axes */
    const Nest *n, *made;
    int64_t m;
    const Scalar *load;
    Dim dim[TN_MAX_RANK];
    uint32_t rank;
    NestBuilder b;
    Binding as[NEST_MAX_AXES];
} Behind;

/* ---- recognising ----------------------------------------------------------------------------- */

/* s*y + r, r < s, and s divides the tile. */
static bool
steps_over(Behind *k, const Expr *e, Dim *d)
{
    const Nest *n = k->n;
    AxisSet here = expr_axes(e);
    const Expr *coef, *rest = e;
    int64_t points = 1, one = 0;

    for (uint32_t a = 0; a < n->naxis; a++) {
        if (!(here >> a & 1))
            continue;
        bool sums = n->axis[a].kind == AXIS_REDUCE;
        if (!expr_linear(k->ctx, rest, (Var){ VAR_AXIS, a }, &coef, &rest) ||
            (sums ? d->sum : d->axis) != NO_SLOT)
            return false;
        if (sums && (!expr_is(coef, 1) || !expr_const(n->axis[a].extent, &points)))
            return false;
        if (!sums && !expr_const(coef, &one))
            return false;
        *(sums ? &d->sum : &d->axis) = a;
    }
    d->step = one;
    return expr_is(rest, 0) && d->axis != NO_SLOT && d->step > 0 && points <= d->step &&
           k->m % d->step == 0;
}

static bool
recognise(Behind *k, const Nest *tiles)
{
    const Nest *n = k->n;
    const Write *w = &tiles->write[0];
    uint32_t axis[NEST_MAX_AXES];
    AxisSet seen = 0;
    Var v;

    if (n->nwrite != 1 || n->nin != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        nest_axes_of_kind(n, AXIS_SCAN))
        return false;
    const Scalar *const *load = scalar_loads(k->ctx, n->write[0].value);
    if (!load[0] || load[1] || load[0]->u.load.outside || load[0]->dtype != DT_F32)
        return false;
    k->load = load[0];
    k->rank = k->load->u.load.rank;
    for (uint32_t d = 0; d < k->rank; d++) {
        Dim *to = &k->dim[d];
        const Expr *e = k->load->u.load.at[d];
        *to = (Dim){ .axis = NO_SLOT,
                     .sum = NO_SLOT,
                     .ndigit = write_digits(k->ctx, tiles, w, d, axis) };
        if (expr_is(e, 0) && expr_is(k->n->param[0].type->dim[d], 1) && to->ndigit < 2) {
            *to = (Dim){ .ndigit = 1, .axis = NO_SLOT, .sum = NO_SLOT, .tile = e };
            continue;
        }
        if (to->ndigit < 1 || to->ndigit > 2 || expr_axes(e) & seen)
            return false;
        seen |= expr_axes(e);
        if (to->ndigit == 2
                ? !expr_is(tiles->axis[axis[1]].extent, k->m) || !steps_over(k, e, to)
                : !expr_is_var(e, &v) || v.kind != VAR_AXIS || n->axis[v.id].kind != AXIS_PARALLEL)
            return false;
        to->digit[0] = axis[0];
        to->digit[1] = axis[to->ndigit - 1];
        to->axis = to->ndigit == 2 ? to->axis : (uint32_t)v.id;
    }
    for (uint32_t a = 0; a < n->naxis; a++)
        if (!(seen >> a & 1) &&
            (n->axis[a].kind != AXIS_PARALLEL || !expr_is(n->axis[a].extent, 1)))
            return false;
    return true;
}

/* ---- the nests ------------------------------------------------------------------------------- */

static const Scalar *
read_tile(ScalarMap *m, const Scalar *load)
{
    Behind *k = m->user;
    const Expr *at[TN_MAX_RANK];
    uint32_t rank = 0;

    (void)load;
    for (uint32_t d = 0; d < k->rank; d++) {
        const Dim *to = &k->dim[d];
        at[rank++] = to->tile;
        if (to->ndigit == 1)
            continue;
        const Expr *place = expr_scale(k->ctx, to->place, to->step);
        at[rank++] = to->sum == NO_SLOT ? place : expr_add(k->ctx, place, k->as[to->sum].to);
    }
    return nest_load(&k->b, 0, at);
}

static const Expr *
mapped(ScalarMap *m, const Expr *e)
{
    Behind *k = m->user;
    return expr_subst(m->ctx, e, k->as, k->n->naxis);
}

static AxisSet
renumbered(ScalarMap *m, AxisSet axes)
{
    Behind *k = m->user;
    AxisSet to = 0;

    for (uint32_t a = 0; a < k->n->naxis; a++)
        to |= axes >> a & 1 ? expr_axes(k->as[a].to) : 0;
    return to;
}

static const Dim *
dim_of(const Behind *k, uint32_t axis)
{
    for (uint32_t d = 0; d < k->rank; d++)
        if (k->dim[d].axis == axis)
            return &k->dim[d];
    return NULL;
}

static const Expr *
new_axis(Behind *k, const char *name, AxisKind kind, const Expr *extent)
{
    Sym fresh = sym(k->ctx, name);

    for (uint32_t i = 0, suffix = 1; i < k->b.axis.n; i++)
        if (k->b.axis.at[i].name == fresh) {
            fresh = sym_printf(k->ctx, "%s_%u", name, (unsigned)++suffix);
            i = UINT32_MAX;
        }
    return nest_axis(&k->b, fresh, kind, extent);
}

/* Splits each axis that strides over tiles into two. */
static void
make_axes(Behind *k, const Nest *tiles)
{
    Ctx *c = k->ctx;
    const Nest *n = k->n;
    int places = 0;

    for (uint32_t a = 0; a < n->naxis; a++) {
        Dim *d = (Dim *)dim_of(k, a);
        bool two = d && d->ndigit == 2;
        const Expr *e = new_axis(k, n->axis[a].name, n->axis[a].kind,
                                 two ? tiles->axis[d->digit[0]].extent : n->axis[a].extent);
        if (d)
            d->tile = e;
        if (two) {
            d->place = k->m == d->step ? expr_int(c, 0)
                                       : new_axis(k, places++ ? "v" : "u", AXIS_PARALLEL,
                                                  expr_int(c, k->m / d->step));
            e = expr_add(c, expr_scale(c, e, k->m / d->step), d->place);
        }
        k->as[a] = (Binding){ { VAR_AXIS, a }, e };
    }
}

/* The type of what all tiles make. */
static const Type *
tiles_type(const Behind *k, const Nest *tiles)
{
    const Write *w = &k->n->write[0];
    const Type *t = k->n->param[w->out].type;
    const Expr *dim[TN_MAX_RANK];
    Var v;

    for (uint32_t d = 0; d < t->rank; d++) {
        const Dim *from =
            expr_is_var(w->at[d], &v) && v.kind == VAR_AXIS ? dim_of(k, (uint32_t)v.id) : NULL;
        dim[d] = from && from->ndigit == 2
                     ? expr_scale(k->ctx, tiles->axis[from->digit[0]].extent, k->m / from->step)
                     : t->dim[d];
    }
    return type_new(k->ctx, t->dtype, t->rank, dim);
}

static const Nest *
make_window(Behind *k, const Nest *tiles, const Type *type)
{
    Ctx *c = k->ctx;
    const Write *w = &k->n->write[0];
    Arena *scratch = arena_child(c->arena);
    ScalarMap map = { .load = read_tile,
                      .expr = mapped,
                      .axes = renumbered,
                      .user = k,
                      .ctx = c,
                      .done = { .arena = scratch } };
    const Expr *at[TN_MAX_RANK];

    k->b = nest_begin(c, k->n->name);
    nest_in(&k->b, "tiles", k->made->param[k->made->nin].type);
    make_axes(k, tiles);
    for (uint32_t d = 0; d < type->rank; d++)
        at[d] = mapped(&map, w->at[d]);
    nest_write(&k->b, nest_out(&k->b, k->n->param[w->out].name, type), at,
               scalar_map(&map, w->value));
    arena_free(scratch);
    return nest_finish(&k->b);
}

/* The outputs that exist, where tiles make more. */
static const Nest *
make_crop(Ctx *c, const Nest *n, const Type *from)
{
    const Type *t = n->param[n->nin].type;
    NestBuilder b = nest_begin(c, n->name);
    const Expr *at[TN_MAX_RANK];

    nest_in(&b, "tiles", from);
    for (uint32_t d = 0; d < t->rank; d++)
        at[d] = nest_axis(&b, sym_printf(c, "d%u", d), AXIS_PARALLEL, t->dim[d]);
    uint32_t out = nest_out(&b, n->param[n->nin].name, t);
    nest_write(&b, out, at, nest_load(&b, 0, at));
    return nest_finish(&b);
}

static bool
add_step(Ctx *c, Winograd *to, WinogradStep step, const Nest *n, WinogradStep from)
{
    uint32_t *one = NEW(c->arena, uint32_t);

    *one = to->direct->nin + MATRIX_COUNT + from;
    to->step[step] = (WinogradNest){ n, one };
    to->nstep = step + 1;
    return n != NULL;
}

bool
nest_winograd_window(Ctx *c, const Nest *n, const Nest *window, uint32_t m, Winograd *out)
{
    Behind k = { .ctx = c, .n = window, .m = m };

    if (!winograd_steps(c, n, m, true, out))
        return false;
    const Nest *tiles = out->step[STEP_OUT].nest;
    if (type_eq(c, n->param[n->nin].type, window->param[0].type) != YES || !recognise(&k, tiles))
        return false;
    if (!(k.made = nest_bare(c, tiles)))
        return false;
    out->step[STEP_OUT].nest = k.made;
    const Type *made = tiles_type(&k, tiles), *type = window->param[window->nin].type;
    const Nest *step = make_window(&k, tiles, made);
    if (!step || !add_step(c, out, STEP_WINDOW, nest_simplify(c, step), STEP_OUT))
        return false;
    bool whole = true;
    for (uint32_t d = 0; d < type->rank; d++)
        whole &= made->dim[d] == type->dim[d];
    return whole || add_step(c, out, STEP_CROP, make_crop(c, window, made), STEP_WINDOW);
}
