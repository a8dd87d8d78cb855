/* winograd: the bilinear rule along one axis, for each axis of a window; see winograd.h.
 *
 * All steps are values over one list of axes: those of the nest, whose image is cut into tiles, the
 * points of each side, and the axis p that transforms sum over. The rule replaces the reads x and w
 * by reads of their transforms, and the sum by one over p.
 */
#include "winograd/internal.h"

#include "nest/walk.h"

const char *const winograd_group_name[WINOGRAD_GROUPS] = { "filter", "image", "product", "back",
                                                           "crop" };

/* ---- recognising ----------------------------------------------------------------------------- */

/* Is dimension d of the image indexed by an output's axis plus a window's plus a number? */
static bool
find_side(const WinogradBuild *k, uint32_t d, Side *side)
{
    const Nest *n = k->n;
    const Expr *coef, *rest = k->x->u.load.at[d];
    AxisSet here = expr_axes(rest);

    *side = (Side){ .dim = d, .axis = NO_SLOT, .window = NO_SLOT };
    if (__builtin_popcountll(here) != 2)
        return false;
    FOR_EACH_AXIS (a, here) {
        if (!expr_linear(k->ctx, rest, (Var){ VAR_AXIS, a }, &coef, &rest) || !expr_is(coef, 1))
            return false;
        *(k->sum >> a & 1 ? &side->window : &side->axis) = a;
    }
    if (side->axis == NO_SLOT || side->window == NO_SLOT || !expr_const(rest, &side->first) ||
        !expr_is(n->axis[side->window].extent, WINOGRAD_WINDOW))
        return false;
    side->points = k->m;
    side->tiles = expr_ceil_div(k->ctx, n->axis[side->axis].extent, expr_int(k->ctx, k->m));
    return expr_or(n->axis[side->axis].extent, 1) > 0;
}

static bool
find_sides(WinogradBuild *k)
{
    AxisSet seen = 0, twice = 0, filter = k->w->axes, sum = k->sum;
    Side side;

    for (uint32_t d = 0; d < k->x->u.load.rank; d++) {
        AxisSet here = expr_axes(k->x->u.load.at[d]);
        twice |= seen & here;
        seen |= here;
        if (expr_uses_kind(k->x->u.load.at[d], VAR_COMPUTED))
            return false;
    }
    for (uint32_t a = 0; a < k->n->naxis; a++)
        if ((filter >> a & 1) && !expr_const(k->n->axis[a].extent, NULL))
            return false;
    if ((sum & seen & filter) != sum)
        return false;
    k->nside = 0;
    for (uint32_t d = 0; d < k->x->u.load.rank && k->nside < WINOGRAD_MAX_SIDES; d++)
        if (find_side(k, d, &side) && !((twice | filter) >> side.axis & 1) &&
            !(twice >> side.window & 1)) {
            sum &= ~axis_one(side.window);
            k->side[k->nside++] = side;
        }
    return k->nside && sum;
}

static bool
is_image(const Scalar *s)
{
    return s->op == S_LOAD && s->dtype == DT_F32 &&
           (!s->u.load.outside ||
            (s->u.load.outside->op == S_CONST && s->u.load.outside->u.bits == 0));
}

static bool
recognise(WinogradBuild *k)
{
    Contraction view;
    const Nest *n = k->n;

    if (n->nwrite != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        nest_axes_of_kind(n, AXIS_SCAN) || !nest_contraction(k->ctx, n, &view) || !view.row ||
        !view.col || view.reduce->dtype != DT_F32 || view.reduce->arg[0]->op != S_MUL)
        return false;
    k->inner = view.reduce;
    k->sum = view.reduce->u.reduce.axes;
    for (int i = 0; i < 2; i++) {
        k->x = i ? view.b : view.a;
        const Scalar *w = i ? view.a : view.b;
        /* a filter stored in low precision is widened first */
        k->w = w->op == S_CAST ? w->arg[0] : w;
        if (is_image(k->x) && w->dtype == DT_F32 && k->w->op == S_LOAD && !k->w->u.load.outside &&
            find_sides(k))
            return true;
    }
    return false;
}

/* Is the epilogue the same at every point of the image, and each output dimension a bare axis? */
static bool
is_uniform(const WinogradBuild *k)
{
    Ctx *c = k->ctx;
    const Write *w = &k->n->write[0];
    AxisSet image = 0, written = 0;
    uint32_t parallel = (uint32_t)__builtin_popcountll(nest_axes_of_kind(k->n, AXIS_PARALLEL));

    for (uint32_t i = 0; i < k->nside; i++)
        image |= axis_one(k->side[i].axis);
    const Scalar *rest = scalar_replace(c, w->value, k->inner, scalar_float(c, DT_F32, 0));
    bool same = !(rest->axes & image);
    for (uint32_t d = 0; d < k->n->param[w->out].type->rank; d++)
        written |= axis_bit(w->at[d]);
    return same && k->n->param[w->out].type->rank == parallel &&
           (uint32_t)__builtin_popcountll(written) == parallel;
}

/* ---- the rule -------------------------------------------------------------------------------- */

/* Lists the axes of a set: points, windows, sums, then outputs, each tile before its place. */
static uint32_t
axes_of(const WinogradBuild *k, AxisSet set, uint32_t *axis)
{
    AxisSet window = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < k->nside; i++)
        window |= axis_one(k->side[i].window);
    const AxisSet class[] = { axis_one(k->p) - axis_one(k->point), window, k->sum,
                              axis_one(k->n->naxis) - 1 };
    for (uint32_t i = 0; i < sizeof class / sizeof *class; i++)
        for (uint32_t a = 0; a < k->naxis; a++) {
            if (!(set & class[i] & axis_one(a)))
                continue;
            axis[n++] = a;
            for (uint32_t j = 0; j < k->nside; j++)
                if (k->side[j].axis == a && (set >> k->side[j].place & 1))
                    axis[n++] = k->side[j].place;
            set &= ~axis_one(a);
        }
    return n;
}

/* A target with a dimension for each axis. */
static Target
target_of(const WinogradBuild *k, uint32_t n, const uint32_t *axis)
{
    Target to = { n < TN_MAX_RANK ? n : TN_MAX_RANK, { NULL }, { NULL } };

    for (uint32_t i = 0; i < to.rank; i++) {
        to.at[i] = expr_axis(k->ctx, axis[i]);
        to.dim[i] = k->axis[axis[i]].extent;
    }
    return to;
}

/* A step that has a dimension for each axis of the set: the read of its result, or NULL: it has too
 * many. */
static const Scalar *
add_over(const WinogradBuild *k, WinogradGroup group, const char *name, const Scalar *value,
         AxisSet set)
{
    uint32_t axis[NEST_MAX_AXES], n = axes_of(k, set, axis);
    Target to = target_of(k, n, axis);

    return n == to.rank && winograd_step(k, group, name, value, n, axis, &to)
               ? winograd_last(k, n, to.at, NULL)
               : NULL;
}

/* sum p: matrix[row, p] * of. */
static const Scalar *
small_sum(const WinogradBuild *k, WinogradMatrix which, uint32_t row, uint32_t p, const Scalar *of)
{
    const Expr *at[2] = { expr_axis(k->ctx, row), expr_axis(k->ctx, p) };
    const Scalar *matrix = scalar_load(k->ctx, DT_F32, k->to->direct->nin + which, 2, at, NULL),
                 *body = scalar_2(k->ctx, S_MUL, matrix, of);

    return scalar_reduce(k->ctx, COMB_SUM, axis_one(p), &body, 1);
}

/* w[…] becomes u[…, a, …] = sum r: g[a, r] * w[…]. */
static bool
transform_filter(WinogradBuild *k, uint32_t s)
{
    uint32_t r = k->side[s].window, a = k->point + s;
    const Scalar *w = scalar_cast(k->ctx, DT_F32, k->w);
    AxisSet axes = (w->axes & ~axis_one(r)) | axis_one(a);

    k->w = add_over(k, WINOGRAD_FILTER, "filter", small_sum(k, MATRIX_FILTER, a, r, w), axes);
    return k->w != NULL;
}

static bool
is_point(const WinogradBuild *k, const Expr *at)
{
    return axis_of(at) >= k->point && axis_of(at) < k->p;
}

/* A new axis over dimension d of what x reads, with the name of the axis there. */
static uint32_t
image_axis(WinogradBuild *k, uint32_t d)
{
    AxisSet there = expr_axes(k->x->u.load.at[d]);

    k->axis[k->naxis] = (Axis){ there ? k->axis[__builtin_ctzll(there)].name : sym(k->ctx, "d"),
                                AXIS_PARALLEL, winograd_type(k->to, k->x->u.load.slot)->dim[d] };
    return k->naxis++;
}

/* x[…, m*y + i + r + first, …] becomes
 * v[…, y, a, …] = sum p: b[a, p] * x[…, m*y + p + first, … | 0];
 * after the last side, all points are the outermost dimensions: v[…, a, …, y, …]. */
static bool
transform_image(WinogradBuild *k, uint32_t s)
{
    Ctx *c = k->ctx;
    const Side y = k->side[s];
    const Scalar *x = k->x;
    bool last = s + 1 == k->nside;
    uint32_t order[TN_MAX_RANK + 1], axis[TN_MAX_RANK], moved[TN_MAX_RANK];
    uint32_t n = 0, a = k->point + s, naxis = k->naxis;
    const Expr *from[TN_MAX_RANK], *to[TN_MAX_RANK];

    for (int pass = 0; pass < 2; pass++) {
        if (last && pass == 1)
            order[n++] = NO_SLOT;
        for (uint32_t d = 0; d < x->u.load.rank; d++) {
            if ((last && is_point(k, x->u.load.at[d])) != (pass == 0))
                continue;
            order[n++] = d;
            if (!last && d == y.dim)
                order[n++] = NO_SLOT;
        }
    }
    if (n > TN_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = order[i];
        axis[i] = d == NO_SLOT ? a : d == y.dim ? y.axis : image_axis(k, d);
        to[i] = d == NO_SLOT || d == y.dim ? expr_axis(c, axis[i]) : x->u.load.at[d];
        if (d != NO_SLOT) {
            from[d] = expr_axis(c, axis[i]);
            moved[d] = i;
        }
    }
    for (uint32_t i = 0; i < k->nside; i++)
        k->side[i].dim = moved[k->side[i].dim];
    from[y.dim] =
        expr_offset(c, expr_add(c, expr_scale(c, from[y.dim], k->m), expr_axis(c, k->p)), y.first);
    x = scalar_load(c, DT_F32, x->u.load.slot, x->u.load.rank, from, scalar_float(c, DT_F32, 0));
    Target target = target_of(k, n, axis);
    bool ok = winograd_step(k, WINOGRAD_IMAGE, "winograd_image",
                            small_sum(k, MATRIX_IMAGE, a, k->p, x), n, axis, &target);
    k->naxis = naxis;
    k->x = winograd_last(k, n, to, k->x->u.load.outside);
    return ok;
}

/* The steps that make the products of all points, then those back; the last one's value in place of
 * the sum. */
static const Scalar *
sum_of_points(WinogradBuild *k)
{
    Ctx *c = k->ctx;
    AxisSet sum = k->sum, outputs = nest_axes_of_kind(k->n, AXIS_PARALLEL);

    for (uint32_t s = 0; s < k->nside; s++) {
        sum &= ~axis_one(k->side[s].window);
        outputs |= axis_one(k->point + s);
        if (!transform_filter(k, s))
            return NULL;
    }
    for (uint32_t s = 0; s < k->nside; s++)
        if (!transform_image(k, s))
            return NULL;
    const Scalar *body = scalar_2(c, S_MUL, k->x, k->w),
                 *value = scalar_reduce(c, COMB_SUM, sum, &body, 1);
    for (uint32_t s = k->nside; s-- > 0;) {
        bool product = s + 1 == k->nside;
        const Scalar *t = add_over(k, product ? WINOGRAD_PRODUCT : WINOGRAD_BACK,
                                   product ? "winograd_product" : "winograd_back", value, outputs);
        if (!t)
            return NULL;
        uint32_t a = k->point + s;
        t = scalar_subst(c, t, &(Binding){ { VAR_AXIS, a }, expr_axis(c, k->p) }, 1);
        value = small_sum(k, MATRIX_BACK, k->side[s].place, k->p, t);
        outputs = (outputs & ~axis_one(a)) | axis_one(k->side[s].place);
    }
    return value;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static WinogradBuild
domain_of(Ctx *c, Winograd *to, const Nest *n, uint32_t m)
{
    WinogradBuild k = { .ctx = c, .to = to, .m = m, .t = m + WINOGRAD_WINDOW - 1, .n = n };

    for (; k.naxis < n->naxis; k.naxis++)
        k.axis[k.naxis] = n->axis[k.naxis];
    return k;
}

static uint32_t
new_axis(WinogradBuild *k, const char *name, int64_t extent)
{
    k->axis[k->naxis] = (Axis){ sym(k->ctx, name), AXIS_PARALLEL, expr_int(k->ctx, extent) };
    return k->naxis++;
}

/* Cuts the sides' axes into tiles. */
static void
cut_sides(WinogradBuild *k, const char *const *place)
{
    Ctx *c = k->ctx;

    for (uint32_t i = 0; i < k->nside; i++) {
        Side *s = &k->side[i];
        Var axis = { VAR_AXIS, s->axis };
        s->place = new_axis(k, place[i], s->points);
        k->axis[s->axis].extent = s->tiles;
        k->cut[i] = (Binding){ axis, expr_scale(c, expr_var(c, axis), s->points) };
        if (s->points > 1)
            k->cut[i].to = expr_add(c, k->cut[i].to, expr_axis(c, s->place));
    }
}

static const Scalar *
as_cut(const WinogradBuild *k, const Scalar *s)
{
    return scalar_subst(k->ctx, s, k->cut, k->nside);
}

/* What the outputs of n are written to: as n says; in complete tiles; the same with dimensions for
 * tiles and places. */
typedef enum { AS_WRITTEN, IN_TILES, IN_PLACES } Form;

/* Adds the dimension of index `at` and extent `dim`; false: too many. */
static bool
add_dim(const WinogradBuild *k, Form form, const Expr *at, const Expr *dim, Target *to)
{
    const Side *side = NULL;

    for (uint32_t i = 0; i < k->nside && form != AS_WRITTEN; i++)
        if (at == expr_axis(k->ctx, k->side[i].axis))
            side = &k->side[i];
    if (to->rank + (form == IN_PLACES) >= TN_MAX_RANK)
        return false;
    if (side && form == IN_PLACES) {
        to->at[to->rank] = at;
        to->dim[to->rank++] = side->tiles;
        at = expr_axis(k->ctx, side->place);
        dim = expr_int(k->ctx, side->points);
    } else if (side) {
        dim = expr_scale(k->ctx, side->tiles, side->points);
    }
    to->at[to->rank] = expr_subst(k->ctx, at, k->cut, form == IN_PLACES ? 0 : k->nside);
    to->dim[to->rank++] = dim;
    return true;
}

/* The outputs of n, with `inner` in place of its inner part; alone: that, at all axes of the
 * outputs. */
static bool
add_outputs(const WinogradBuild *k, WinogradGroup group, const Scalar *inner, bool alone, Form form)
{
    Ctx *c = k->ctx;
    const Write *w = &k->n->write[0];
    const Type *type = k->n->param[w->out].type;
    AxisSet outputs = nest_axes_of_kind(k->n, AXIS_PARALLEL);
    uint32_t axis[NEST_MAX_AXES], n = axes_of(k, outputs, axis);
    Target to = { 0 };
    bool fits = inner != NULL;

    for (uint32_t d = 0; fits && d < (alone ? n : type->rank); d++)
        fits = alone ? add_dim(k, form, expr_axis(c, axis[d]), k->axis[axis[d]].extent, &to)
                     : add_dim(k, form, w->at[d], type->dim[d], &to);
    if (!fits)
        return false;
    const Scalar *value =
        alone ? inner : scalar_replace(c, as_cut(k, w->value), as_cut(k, k->inner), inner);
    for (uint32_t i = 0; i < k->nside; i++)
        outputs |= k->side[i].points > 1 ? axis_one(k->side[i].place) : 0;
    return winograd_step(k, group, alone ? "winograd_tiles" : k->n->name, value,
                         axes_of(k, outputs, axis), axis, &to);
}

/* ---- a window behind it ---------------------------------------------------------------------- */

/* How the window's axes over a dimension of the image are cut. */
static bool
find_stride(WinogradBuild *k, const Side *conv, uint32_t d)
{
    const Expr *at = k->inner->u.load.at[d], *coef, *rest;
    AxisSet over = expr_axes(at) & nest_axes_of_kind(k->n, AXIS_PARALLEL);
    int64_t step;

    if (__builtin_popcountll(over) != 1)
        return false;
    Var a = { VAR_AXIS, (uint64_t)__builtin_ctzll(over) };
    if (!expr_linear(k->ctx, at, a, &coef, &rest) || !expr_const(coef, &step) || step <= 0 ||
        k->m % step)
        return false;
    k->side[k->nside++] =
        (Side){ .dim = d, .axis = (uint32_t)a.id, .points = k->m / step, .tiles = conv->tiles };
    return true;
}

/* Does the window k read only the result of n, once, and along its sides with strides that divide a
 * tile? */
static bool
find_strides(WinogradBuild *k, const WinogradBuild *conv)
{
    const Nest *n = k->n;
    AxisSet seen = 0;

    if (n->nwrite != 1 || n->nin != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        nest_axes_of_kind(n, AXIS_SCAN) ||
        type_eq(k->ctx, conv->n->param[conv->n->nin].type, n->param[0].type) != YES)
        return false;
    Arena *scratch = arena_child(k->ctx->arena);
    Accesses reads = nest_accesses(k->ctx, scratch, n);
    k->inner = reads.n == 1 ? reads.at[0].load : NULL;
    arena_free(scratch);
    if (!k->inner || k->inner->u.load.outside || k->inner->dtype != DT_F32)
        return false;
    for (uint32_t d = 0; d < k->inner->u.load.rank; d++) {
        if (seen & expr_axes(k->inner->u.load.at[d]))
            return false;
        seen |= expr_axes(k->inner->u.load.at[d]);
        for (uint32_t i = 0; i < conv->nside; i++)
            if (conv->n->write[0].at[d] == expr_axis(k->ctx, conv->side[i].axis) &&
                !find_stride(k, &conv->side[i], d))
                return false;
    }
    return true;
}

/* The read of tiles in places that the window needs. NULL: it does not stay within a tile, or reads
 * something else than bare axes along other dimensions. */
static const Scalar *
read_places(const WinogradBuild *k)
{
    Ctx *c = k->ctx;
    const Scalar *load = as_cut(k, k->inner);
    const Expr *at[TN_MAX_RANK], *m = expr_int(c, k->m);
    Range range[NEST_MAX_AXES];
    Ranges ranges = { range, k->naxis };
    uint32_t rank = 0;

    for (uint32_t a = 0; a < k->naxis; a++)
        range[a] = (Range){ { VAR_AXIS, a }, expr_int(c, 0), k->axis[a].extent };
    for (uint32_t d = 0; d < load->u.load.rank; d++) {
        const Expr *e = load->u.load.at[d], *place = NULL;
        for (uint32_t i = 0; i < k->nside; i++)
            if (k->side[i].dim == d) {
                place = expr_simplify(c, &ranges, expr_mod(c, e, m));
                e = expr_simplify(c, &ranges, expr_div(c, e, m));
                break;
            }
        if (!expr_is(e, 0) && (axis_of(e) == NO_SLOT || k->axis[axis_of(e)].kind != AXIS_PARALLEL))
            return NULL;
        at[rank++] = e;
        if (place)
            at[rank++] = place;
    }
    return winograd_last(k, rank, at, NULL);
}

/* The window's outputs, and those that exist where tiles make more. */
static bool
add_window(const WinogradBuild *conv, const Nest *window)
{
    static const char *const place[] = { "u", "v", "w" };
    const Write *w = &window->write[0];
    WinogradBuild k = domain_of(conv->ctx, conv->to, window, conv->m), direct = k;

    if (!find_strides(&k, conv))
        return false;
    cut_sides(&k, place);
    if (!add_outputs(&k, WINOGRAD_BACK, read_places(&k), false, IN_TILES))
        return false;
    const Nest *made = k.to->step[k.to->nstep - 1].nest;
    const Type *type = window->param[1].type;
    direct.inner = w->value;
    return made->param[1].type == type ||
           add_outputs(&direct, WINOGRAD_CROP, winograd_last(&k, type->rank, w->at, NULL), false,
                       AS_WRITTEN);
}

bool
nest_winograd(Ctx *c, const Nest *n, const Nest *window, uint32_t m, Winograd *out)
{
    static const char *const place[] = { "i", "j", "l" }, *const point[] = { "a", "b", "c" };
    enum { MORE_AXES = 2 * WINOGRAD_MAX_SIDES + 1 + TN_MAX_RANK };
    bool whole = true;

    *out = (Winograd){ .tile = m, .direct = n };
    if (n->nin + MATRIX_COUNT + WINOGRAD_MAX_STEPS > WINOGRAD_MAX_SOURCES ||
        n->naxis + MORE_AXES > NEST_MAX_AXES ||
        (window && window->naxis + MORE_AXES > NEST_MAX_AXES))
        return false;
    WinogradBuild k = domain_of(c, out, n, m);
    if (!recognise(&k) || (window && !is_uniform(&k)))
        return false;
    out->sum = k.inner;
    out->image = k.x;
    out->load = k.w;
    out->filter = k.w->u.load.slot;
    out->nside = k.nside;
    for (uint32_t i = 0; i < k.nside; i++) {
        out->sides |= axis_one(k.side[i].axis);
        whole &= expr_divisible(c, NULL, n->axis[k.side[i].axis].extent, m) == YES;
    }
    winograd_matrices(c, out);
    WinogradBuild direct = k;
    direct.nside = 0;
    cut_sides(&k, place);
    k.x = as_cut(&k, k.x);
    k.w = as_cut(&k, k.w);
    k.point = k.naxis;
    for (uint32_t i = 0; i < k.nside; i++)
        new_axis(&k, point[i], k.t);
    k.p = new_axis(&k, "p", k.t);
    const Scalar *sum = sum_of_points(&k);
    if (window)
        return add_outputs(&k, WINOGRAD_BACK, sum, false, IN_PLACES) && add_window(&k, window);
    if (whole)
        return add_outputs(&k, WINOGRAD_BACK, sum, false, AS_WRITTEN);
    uint32_t axis[NEST_MAX_AXES];
    Target all =
        target_of(&direct, axes_of(&direct, nest_axes_of_kind(n, AXIS_PARALLEL), axis), axis);
    return add_outputs(&k, WINOGRAD_BACK, sum, true, IN_TILES) &&
           add_outputs(&direct, WINOGRAD_CROP, winograd_last(&direct, all.rank, all.at, NULL),
                       false, AS_WRITTEN);
}
