/* winograd: the steps of a convolution in a Winograd domain; see winograd.h. */
#include "algebra/algebra.h"
#include "domain/winograd.h"

#include "nest/walk.h"

#include <math.h>
#include <string.h>

const char *const winograd_step_name[WINOGRAD_MAX_STEPS] = { "across",  "filter",  "rows",
                                                             "columns", "product", "back",
                                                             "tiles",   "window",  "out" };

/* ---- the matrices ---------------------------------------------------------------------------- */

/* the last point is infinity */
static const double points[WINOGRAD_MAX_TILE + 1] = { 0, 1, -1, 2, -2, 0.5, -0.5 };

/* The coefficients of the product of x - points[k] for all k < n but `without`, lowest power
 * first. */
static void
polynomial(uint32_t n, uint32_t without, double *coef)
{
    memset(coef, 0, (WINOGRAD_MAX_TILE + 2) * sizeof *coef);
    coef[0] = 1;
    for (uint32_t k = 0, degree = 0; k < n; k++) {
        if (k == without)
            continue;
        degree++;
        for (uint32_t i = degree + 1; i-- > 0;)
            coef[i] = (i ? coef[i - 1] : 0) - points[k] * coef[i];
    }
}

static double
entry(WinogradMatrix which, uint32_t m, uint32_t row, uint32_t col)
{
    uint32_t n = m + WINOGRAD_WINDOW - 2; /* points without infinity */
    double coef[WINOGRAD_MAX_TILE + 2], divisor = 1;

    switch (which) {
    case MATRIX_FILTER:
        if (row == n)
            return col == WINOGRAD_WINDOW - 1;
        for (uint32_t k = 0; k < n; k++)
            divisor *= k == row ? 1 : points[row] - points[k];
        return pow(points[row], col) / divisor;
    case MATRIX_IMAGE:
        polynomial(n, row, coef); /* row n leaves none out */
        return coef[col];
    case MATRIX_BACK: return col == n ? row == m - 1 : pow(points[col], row);
    case MATRIX_COUNT: break;
    }
    return 0;
}

static void
make_matrices(Ctx *c, Winograd *k)
{
    uint32_t t = k->tile + WINOGRAD_WINDOW - 1;
    const uint32_t rows[MATRIX_COUNT] = { t, t, k->tile },
                   cols[MATRIX_COUNT] = { WINOGRAD_WINDOW, t, t };

    for (int which = 0; which < MATRIX_COUNT; which++) {
        float *at = NEW_ARRAY(c->arena, float, rows[which] * cols[which]);
        const Expr *dim[2] = { expr_int(c, rows[which]), expr_int(c, cols[which]) };
        for (uint32_t i = 0; i < rows[which]; i++)
            for (uint32_t j = 0; j < cols[which]; j++)
                at[i * cols[which] + j] = (float)entry((WinogradMatrix)which, k->tile, i, j);
        k->matrix[which] = at;
        k->matrix_type[which] = type_new(c, DT_F32, 2, dim);
    }
}

/* ---- recognising ----------------------------------------------------------------------------- */

/* One of the two axes of the image: its dimension, and the window over it. */
typedef struct {
    uint32_t dim, axis, window;
    int64_t first;
    const Expr *extent, *tiles;
} Side;

typedef struct {
    Ctx *ctx;
    const Nest *n;
    uint32_t m, t;
    const Scalar *reduce, *x, *w;
    Side side[2];     /* the outer one first */
    AxisSet sum, own; /* of the sum, of the filter: without the window's */
} Recognised;

/* Is index e an output's axis plus a window's plus a number? */
static bool
find_side(Recognised *k, const Expr *e, Side *side)
{
    const Nest *n = k->n;
    AxisSet here = expr_axes(e);
    const Expr *coef, *rest = e;

    if (__builtin_popcountll(here) != 2)
        return false;
    side->axis = side->window = NO_SLOT;
    for (uint32_t a = 0; a < n->naxis; a++) {
        if (!(here >> a & 1))
            continue;
        if (!expr_linear(k->ctx, rest, (Var){ VAR_AXIS, a }, &coef, &rest) || !expr_is(coef, 1))
            return false;
        *(k->reduce->u.reduce.axes >> a & 1 ? &side->window : &side->axis) = a;
    }
    return side->axis != NO_SLOT && side->window != NO_SLOT && expr_const(rest, &side->first) &&
           expr_is(n->axis[side->window].extent, WINOGRAD_WINDOW) &&
           expr_or(n->axis[side->axis].extent, 1) > 0;
}

/* The axes of x's image and of the window, each in one dimension of x. */
static bool
find_sides(Recognised *k)
{
    AxisSet seen = 0, twice = 0;
    uint32_t count = 0;

    for (uint32_t d = 0; d < k->x->u.load.rank; d++) {
        const Expr *e = k->x->u.load.at[d];
        AxisSet here = expr_axes(e);
        Side side = { .dim = d };
        twice |= seen & here;
        seen |= here;
        if (expr_uses_kind(e, VAR_COMPUTED))
            return false;
        if (!find_side(k, e, &side))
            continue;
        if (count == 2)
            return false;
        side.extent = k->n->axis[side.axis].extent;
        side.tiles = expr_ceil_div(k->ctx, side.extent, expr_int(k->ctx, k->m));
        k->side[count++] = side;
    }
    AxisSet window = 0, image = 0;
    for (uint32_t i = 0; i < count; i++) {
        window |= axis_one(k->side[i].window);
        image |= axis_one(k->side[i].axis);
    }
    AxisSet filter = scalar_axes(k->ctx, k->w);
    k->sum = k->reduce->u.reduce.axes & ~window;
    k->own = filter & ~window;
    for (uint32_t a = 0; a < k->n->naxis; a++)
        if ((filter >> a & 1) && !expr_const(k->n->axis[a].extent, NULL))
            return false;
    return count == 2 && !((window | image) & twice) && k->sum &&
           (k->sum & seen & filter) == k->sum && (filter & window) == window && !(filter & image);
}

static bool
is_image(const Scalar *s)
{
    return s->op == S_LOAD && s->dtype == DT_F32 &&
           (!s->u.load.outside ||
            (s->u.load.outside->op == S_CONST && s->u.load.outside->u.bits == 0));
}

static bool
recognise(Recognised *k)
{
    Contraction view;
    const Nest *n = k->n;

    if (n->nwrite != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        nest_axes_of_kind(n, AXIS_SCAN) || !nest_contraction(k->ctx, n, &view) || !view.row ||
        !view.col || view.reduce->dtype != DT_F32 || view.reduce->arg[0]->op != S_MUL)
        return false;
    k->reduce = view.reduce;
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

/* ---- the nests ------------------------------------------------------------------------------- */

/* A nest under construction over axes of the old one: as[axis of n] is its substitute. */
typedef struct {
    Recognised *k;
    NestBuilder b;
    Binding as[NEST_MAX_AXES];
    uint32_t nas;
    const Expr *dim[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t rank; /* of the result */
    bool fits;
} Maker;

static Maker
maker(Recognised *k, const char *name)
{
    return (Maker){ .k = k, .b = nest_begin(k->ctx, name), .fits = true };
}

/* A new axis. Schedules name loops by axes, so no two have one name. */
static const Expr *
make_axis(Maker *m, const char *name, AxisKind kind, const Expr *extent)
{
    Sym fresh = sym(m->k->ctx, name);

    for (uint32_t i = 0, suffix = 1; i < m->b.axis.n; i++)
        if (m->b.axis.at[i].name == fresh) {
            fresh = sym_printf(m->k->ctx, "%s_%u", name, (unsigned)++suffix);
            i = UINT32_MAX; /* the new name may be taken too */
        }
    return nest_axis(&m->b, fresh, kind, extent);
}

/* A parallel axis that is a dimension of the result. */
static const Expr *
make_dim(Maker *m, const char *name, const Expr *extent)
{
    if (m->rank == TN_MAX_RANK) {
        m->fits = false;
        return expr_int(m->k->ctx, 0);
    }
    m->dim[m->rank] = extent;
    return m->at[m->rank++] = make_axis(m, name, AXIS_PARALLEL, extent);
}

static void
stands_for(Maker *m, uint32_t axis, const Expr *e)
{
    m->as[m->nas++] = (Binding){ { VAR_AXIS, axis }, e };
}

static const Expr *
mapped(Maker *m, const Expr *e)
{
    return expr_subst(m->k->ctx, e, m->as, m->nas);
}

static const Expr *
points_of_tile(const Recognised *k)
{
    return expr_int(k->ctx, k->t);
}

/* o[at] = sum p<extent>: matrix[row, p] * of. */
static const Scalar *
small_sum(Maker *m, uint32_t matrix, const Expr *row, const Expr *p, const Scalar *of)
{
    const Expr *at[2] = { row, p };
    const Scalar *body = scalar_2(m->k->ctx, S_MUL, nest_load(&m->b, matrix, at), of);

    return scalar_reduce(m->k->ctx, COMB_SUM, axis_bit(p), &body, 1);
}

static const Type *
made_type(const Maker *m)
{
    return type_new(m->k->ctx, DT_F32, m->rank, m->dim);
}

static const Nest *
finish(Maker *m, uint32_t out, const Scalar *value)
{
    nest_write(&m->b, out, m->at, value);
    const Nest *n = nest_finish(&m->b);
    return n ? nest_simplify(m->k->ctx, n) : NULL;
}

/* The nest, and its two inputs. */
static bool
add_step(Ctx *c, Winograd *to, WinogradStep step, const Nest *nest, uint32_t first, uint32_t second)
{
    uint32_t *from = NEW_ARRAY(c->arena, uint32_t, 2);

    from[0] = first;
    from[1] = second;
    to->step[step] = (WinogradNest){ nest, from };
    to->nstep = step + 1;
    return nest != NULL;
}

static uint32_t
from_matrix(const Winograd *to, WinogradMatrix which)
{
    return to->direct->nin + which;
}

static uint32_t
from_step(const Winograd *to, WinogradStep step)
{
    return to->direct->nin + MATRIX_COUNT + step;
}

static const char *
axis_word(const Recognised *k, uint32_t axis)
{
    return k->n->axis[axis].name;
}

/* The axes of the filter without the window's: sums first. */
static void
filter_dims(Maker *m, bool bind)
{
    const Recognised *k = m->k;

    for (int pass = 0; pass < 2; pass++)
        for (uint32_t a = 0; a < k->n->naxis; a++)
            if ((k->own >> a & 1) && (k->sum >> a & 1) == (pass == 0)) {
                const Expr *e = make_dim(m, axis_word(k, a), k->n->axis[a].extent);
                if (bind)
                    stands_for(m, a, e);
            }
}

/* f[a, s, …] = sum r: g[a, r] * w[…]; then u[a, b, …] = sum s: g[b, s] * f[a, s, …]. */
static bool
make_filter(Recognised *k, Winograd *to)
{
    Ctx *c = k->ctx;
    const Expr *window = expr_int(c, WINOGRAD_WINDOW), *at[TN_MAX_RANK];
    Maker m = maker(k, "filter_across");
    uint32_t w = nest_in(&m.b, "w", k->n->param[k->w->u.load.slot].type),
             g = nest_in(&m.b, "g", to->matrix_type[MATRIX_FILTER]);

    const Expr *a = make_dim(&m, "a", points_of_tile(k)),
               *s = make_dim(&m, axis_word(k, k->side[1].window), window);
    filter_dims(&m, true);
    if (!m.fits)
        return false;
    const Expr *r = make_axis(&m, axis_word(k, k->side[0].window), AXIS_REDUCE, window);
    stands_for(&m, k->side[0].window, r);
    stands_for(&m, k->side[1].window, s);
    for (uint32_t d = 0; d < k->w->u.load.rank; d++)
        at[d] = mapped(&m, k->w->u.load.at[d]);
    const Type *made = made_type(&m);
    const Scalar *filter = scalar_cast(c, DT_F32, nest_load(&m.b, w, at));
    if (!add_step(c, to, STEP_ACROSS,
                  finish(&m, nest_out(&m.b, "o", made), small_sum(&m, g, a, r, filter)),
                  k->w->u.load.slot, from_matrix(to, MATRIX_FILTER)))
        return false;

    m = maker(k, "filter");
    w = nest_in(&m.b, "f", made);
    g = nest_in(&m.b, "g", to->matrix_type[MATRIX_FILTER]);
    at[0] = make_dim(&m, "a", points_of_tile(k));
    const Expr *b = make_dim(&m, "b", points_of_tile(k));
    filter_dims(&m, false);
    at[1] = make_axis(&m, axis_word(k, k->side[1].window), AXIS_REDUCE, window);
    memcpy(at + 2, m.at + 2, (m.rank - 2) * sizeof *at);
    return add_step(c, to, STEP_FILTER,
                    finish(&m, nest_out(&m.b, "o", made_type(&m)),
                           small_sum(&m, g, b, at[1], nest_load(&m.b, w, at))),
                    from_step(to, STEP_ACROSS), from_matrix(to, MATRIX_FILTER));
}

/* A name for dimension d of the image: its axis's, if it is one. */
static const char *
image_word(const Recognised *k, uint32_t d)
{
    const Expr *e = k->x->u.load.at[d];
    Var v;

    for (int i = 0; i < 2; i++)
        if (k->side[i].dim == d)
            return axis_word(k, k->side[i].axis);
    return expr_is_var(e, &v) && v.kind == VAR_AXIS ? axis_word(k, (uint32_t)v.id)
                                                    : sym_printf(k->ctx, "d%u", d);
}

/* t[…, y, a, …] = sum p: b[a, p] * x[…, m*y + p + first, … | 0], over the image's other dimensions
 * unchanged. */
static const Type *
make_rows(Recognised *k, Winograd *to)
{
    Ctx *c = k->ctx;
    const Side *y = &k->side[0];
    const Type *image = k->n->param[k->x->u.load.slot].type;
    const Expr *at[TN_MAX_RANK], *a = NULL;
    Maker m = maker(k, "winograd_rows");
    uint32_t x = nest_in(&m.b, "x", image), b = nest_in(&m.b, "b", to->matrix_type[MATRIX_IMAGE]);

    for (uint32_t d = 0; d < image->rank; d++) {
        at[d] = make_dim(&m, image_word(k, d), d == y->dim ? y->tiles : image->dim[d]);
        if (d == y->dim)
            a = make_dim(&m, "a", points_of_tile(k));
    }
    if (!m.fits)
        return NULL;
    const Expr *p = make_axis(&m, "p", AXIS_REDUCE, points_of_tile(k));
    at[y->dim] = expr_offset(c, expr_add(c, expr_scale(c, at[y->dim], k->m), p), y->first);
    const Type *made = made_type(&m);
    const Scalar *sum =
        small_sum(&m, b, a, p, nest_load_or(&m.b, x, at, scalar_float(c, DT_F32, 0)));
    return add_step(c, to, STEP_ROWS, finish(&m, nest_out(&m.b, "o", made), sum), k->x->u.load.slot,
                    from_matrix(to, MATRIX_IMAGE))
               ? made
               : NULL;
}

/* v[a, b, …, y, …, z, …] = sum p: b[b, p] * t[…, y, a, …, m*z + p + first, … | 0]. */
static const Type *
make_columns(Recognised *k, Winograd *to, const Type *rows)
{
    Ctx *c = k->ctx;
    const Side *y = &k->side[0], *z = &k->side[1];
    const Type *image = k->n->param[k->x->u.load.slot].type;
    const Expr *at[TN_MAX_RANK];
    uint32_t rank = 0;
    Maker m = maker(k, "winograd_columns");
    uint32_t t = nest_in(&m.b, "x", rows),
             matrix = nest_in(&m.b, "b", to->matrix_type[MATRIX_IMAGE]);
    const Expr *a = make_dim(&m, "a", points_of_tile(k)), *b = make_dim(&m, "b", points_of_tile(k)),
               **column = NULL;

    for (uint32_t d = 0; d < image->rank; d++) {
        if (d == z->dim)
            column = &at[rank];
        at[rank++] = make_dim(&m, image_word(k, d),
                              d == y->dim   ? y->tiles
                              : d == z->dim ? z->tiles
                                            : image->dim[d]);
        if (d == y->dim)
            at[rank++] = a;
    }
    if (!m.fits)
        return NULL;
    const Expr *p = make_axis(&m, "p", AXIS_REDUCE, points_of_tile(k));
    *column = expr_offset(c, expr_add(c, expr_scale(c, *column, k->m), p), z->first);
    const Type *made = made_type(&m);
    const Scalar *sum =
        small_sum(&m, matrix, b, p, nest_load_or(&m.b, t, at, scalar_float(c, DT_F32, 0)));
    return add_step(c, to, STEP_COLUMNS, finish(&m, nest_out(&m.b, "o", made), sum),
                    from_step(to, STEP_ROWS), from_matrix(to, MATRIX_IMAGE))
               ? made
               : NULL;
}

/* The outputs' axes, with tiles in place of the image's; j follows the tiles of each side that is
 * `inside`. */
static void
output_dims(Maker *m, const bool *inside, const Expr **j)
{
    const Recognised *k = m->k;

    for (uint32_t a = 0; a < k->n->naxis; a++) {
        const Side *side = k->side[0].axis == a   ? &k->side[0]
                           : k->side[1].axis == a ? &k->side[1]
                                                  : NULL;
        if (k->n->axis[a].kind != AXIS_PARALLEL)
            continue;
        const Expr *e = make_dim(m, axis_word(k, a), side ? side->tiles : k->n->axis[a].extent);
        stands_for(m, a, e);
        if (side && inside[side - k->side])
            j[side - k->side] = make_dim(m, side == k->side ? "i" : "j", expr_int(k->ctx, k->m));
    }
}

/* p[a, b, …] = sum q: v[a, b, …] * u[a, b, …]. */
static const Type *
make_product(Recognised *k, Winograd *to, const Type *image)
{
    Ctx *c = k->ctx;
    Maker m = maker(k, "winograd_product");
    const Nest *filter = to->step[STEP_FILTER].nest;
    uint32_t v = nest_in(&m.b, "v", image), u = nest_in(&m.b, "u", filter->param[filter->nin].type),
             rank = 2;
    const Expr *at[TN_MAX_RANK];
    const bool none[2] = { false, false };

    at[0] = make_dim(&m, "a", points_of_tile(k));
    at[1] = make_dim(&m, "b", points_of_tile(k));
    output_dims(&m, none, NULL);
    if (!m.fits)
        return NULL;
    AxisSet sum = 0;
    for (uint32_t a = 0; a < k->n->naxis; a++)
        if (k->sum >> a & 1) {
            const Expr *q = make_axis(&m, axis_word(k, a), AXIS_REDUCE, k->n->axis[a].extent);
            stands_for(&m, a, q);
            sum |= axis_bit(q);
        }
    for (uint32_t d = 0; d < k->x->u.load.rank; d++)
        at[rank++] = mapped(&m, d == k->side[0].dim   ? expr_axis(c, k->side[0].axis)
                                : d == k->side[1].dim ? expr_axis(c, k->side[1].axis)
                                                      : k->x->u.load.at[d]);
    const Scalar *factor = k->x->u.load.outside ? nest_load_or(&m.b, v, at, k->x->u.load.outside)
                                                : nest_load(&m.b, v, at);
    rank = 2;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t a = 0; a < k->n->naxis; a++)
            if ((k->own >> a & 1) && (k->sum >> a & 1) == (pass == 0))
                at[rank++] = mapped(&m, expr_axis(c, a));
    const Scalar *body = scalar_2(c, S_MUL, factor, nest_load(&m.b, u, at));
    const Type *made = made_type(&m);
    return add_step(
               c, to, STEP_PRODUCT,
               finish(&m, nest_out(&m.b, "o", made), scalar_reduce(c, COMB_SUM, sum, &body, 1)),
               from_step(to, STEP_COLUMNS), from_step(to, STEP_FILTER))
               ? made
               : NULL;
}

/* c[a, …, z, j, …] = sum p: a[j, p] * p[a, p, …, z, …]. */
static const Type *
make_back(Recognised *k, Winograd *to, const Type *product)
{
    Maker m = maker(k, "winograd_back");
    uint32_t x = nest_in(&m.b, "x", product),
             matrix = nest_in(&m.b, "a", to->matrix_type[MATRIX_BACK]), rank = 2;
    const bool columns[2] = { false, true };
    const Expr *at[TN_MAX_RANK], *j[2];

    at[0] = make_dim(&m, "a", points_of_tile(k));
    output_dims(&m, columns, j);
    if (!m.fits)
        return NULL;
    at[1] = make_axis(&m, "p", AXIS_REDUCE, points_of_tile(k));
    for (uint32_t i = 0; i < m.nas; i++)
        at[rank++] = m.as[i].to;
    const Type *made = made_type(&m);
    return add_step(k->ctx, to, STEP_BACK,
                    finish(&m, nest_out(&m.b, "o", made),
                           small_sum(&m, matrix, j[1], at[1], nest_load(&m.b, x, at))),
                    from_step(to, STEP_PRODUCT), from_matrix(to, MATRIX_BACK))
               ? made
               : NULL;
}

static const Expr *
map_expr(ScalarMap *s, const Expr *e)
{
    return mapped(s->user, e);
}

/* A nest that has the direct one's inputs and two more; `from` lists those that it still reads. */
static bool
add_reader(Ctx *c, Winograd *to, WinogradStep step, const Nest *n, uint32_t first, uint32_t second)
{
    bool *keep = NEW_ARRAY(c->arena, bool, n->nin + 1);
    uint32_t *from = NEW_ARRAY(c->arena, uint32_t, n->nin), nfrom = 0, given = to->direct->nin;

    for (uint32_t i = 0; i < n->nin; i++)
        keep[i] = true;
    const Nest *kept = nest_drop_unused(c, n, keep);
    for (uint32_t i = 0; i < n->nin; i++)
        if (keep[i])
            from[nfrom++] = i < given ? i : i == given ? first : second;
    to->step[step] = (WinogradNest){ kept, from };
    to->nstep = step + 1;
    return kept != NULL;
}

/* Dimension d of the output in complete tiles. */
static const Expr *
tiled_dim(const Recognised *k, uint32_t d)
{
    const Write *w = &k->n->write[0];

    for (int i = 0; i < 2; i++)
        if (w->at[d] == expr_axis(k->ctx, k->side[i].axis))
            return expr_scale(k->ctx, k->side[i].tiles, k->m);
    return k->n->param[w->out].type->dim[d];
}

/* o[…, m*y + i, …, m*z + j, …] = epilogue of sum p: a[i, p] * c[p, …]; or that sum alone, in
 * complete tiles. */
static const Type *
make_out(Recognised *k, Winograd *to, const Type *columns, bool whole, bool bare)
{
    Ctx *c = k->ctx;
    const Nest *n = k->n;
    const Write *w = &n->write[0];
    Arena *scratch = arena_child(c->arena);
    Maker m = maker(k, bare ? "winograd_tiles" : n->name);
    ScalarMap map = { .expr = map_expr, .user = &m, .ctx = c, .done = { .arena = scratch } };
    const bool inside[2] = { true, true };
    const Expr *at[TN_MAX_RANK], *to_at[TN_MAX_RANK], *j[2] = { NULL, NULL }, *dim[TN_MAX_RANK];
    uint32_t rank = 1, written = 0;

    for (uint32_t i = 0; i < n->nin; i++)
        nest_in(&m.b, n->param[i].name, n->param[i].type);
    uint32_t x = nest_in(&m.b, "columns", columns),
             matrix = nest_in(&m.b, "back", to->matrix_type[MATRIX_BACK]);
    output_dims(&m, inside, j);
    const Type *made = NULL;
    if (m.fits && columns->rank <= TN_MAX_RANK) {
        at[0] = make_axis(&m, "p", AXIS_REDUCE, points_of_tile(k));
        for (uint32_t i = 0; i < m.nas; i++) {
            const Side *side = k->side[0].axis == m.as[i].var.id   ? &k->side[0]
                               : k->side[1].axis == m.as[i].var.id ? &k->side[1]
                                                                   : NULL;
            at[rank++] = m.as[i].to;
            if (side == &k->side[1])
                at[rank++] = j[1];
            if (side)
                m.as[i].to = expr_add(c, expr_scale(c, m.as[i].to, k->m), j[side - k->side]);
            dim[written] = side ? expr_scale(c, side->tiles, k->m) : n->axis[m.as[i].var.id].extent;
            to_at[written++] = m.as[i].to;
        }
        const Scalar *sum = small_sum(&m, matrix, j[0], at[0], nest_load(&m.b, x, at));
        for (uint32_t d = 0; !bare && d < n->param[w->out].type->rank; d++) {
            to_at[d] = mapped(&m, w->at[d]);
            dim[d] = tiled_dim(k, d);
        }
        made = whole ? n->param[w->out].type : type_new(c, DT_F32, written, dim);
        map_put(&map.done, MAP_PTR(k->reduce), MAP_PTR(sum));
        nest_write(&m.b, nest_out(&m.b, n->param[w->out].name, made), to_at,
                   bare ? sum : scalar_map(&map, w->value));
        const Nest *out = nest_finish(&m.b);
        out = out ? nest_simplify(c, out) : NULL;
        if (!out || !add_reader(c, to, STEP_OUT, out, from_step(to, STEP_BACK),
                                from_matrix(to, MATRIX_BACK)))
            made = NULL;
    }
    arena_free(scratch);
    return made;
}

/* The old nest, reading its sum from complete tiles. */
static bool
make_crop(Recognised *k, Winograd *to, const Type *tiles)
{
    Ctx *c = k->ctx;
    const Nest *n = k->n;
    Arena *scratch = arena_child(c->arena);
    Maker m = maker(k, n->name);
    ScalarMap map = { .expr = map_expr, .user = &m, .ctx = c, .done = { .arena = scratch } };
    const Write *w = &n->write[0];
    const Expr *at[TN_MAX_RANK], *to_at[TN_MAX_RANK];
    uint32_t rank = 0;

    for (uint32_t i = 0; i < n->nin; i++)
        nest_in(&m.b, n->param[i].name, n->param[i].type);
    uint32_t x = nest_in(&m.b, "tiles", tiles);
    for (uint32_t a = 0; a < n->naxis; a++)
        if (n->axis[a].kind == AXIS_PARALLEL)
            stands_for(&m, a,
                       at[rank++] =
                           make_axis(&m, axis_word(k, a), AXIS_PARALLEL, n->axis[a].extent));
    map_put(&map.done, MAP_PTR(k->reduce), MAP_PTR(nest_load(&m.b, x, at)));
    for (uint32_t d = 0; d < n->param[w->out].type->rank; d++)
        to_at[d] = mapped(&m, w->at[d]);
    nest_write(&m.b, nest_out(&m.b, n->param[w->out].name, n->param[w->out].type), to_at,
               scalar_map(&map, w->value));
    arena_free(scratch);
    const Nest *out = nest_finish(&m.b);
    out = out ? nest_simplify(c, out) : NULL;
    return out && add_reader(c, to, STEP_CROP, out, from_step(to, STEP_OUT), 0);
}

/* Is the epilogue the same at every point of the image, and does it write there alone? */
static bool
is_uniform(const Recognised *k)
{
    Ctx *c = k->ctx;
    const Write *w = &k->n->write[0];
    Arena *scratch = arena_child(c->arena);
    ScalarMap map = { .ctx = c, .done = { .arena = scratch } };
    AxisSet image = axis_one(k->side[0].axis) | axis_one(k->side[1].axis), written = 0;
    uint32_t parallel = (uint32_t)__builtin_popcountll(nest_axes_of_kind(k->n, AXIS_PARALLEL));
    Var v;

    map_put(&map.done, MAP_PTR(k->reduce), MAP_PTR(scalar_float(c, DT_F32, 0)));
    bool same = !(scalar_axes(c, scalar_map(&map, w->value)) & image);
    for (uint32_t d = 0; d < k->n->param[w->out].type->rank; d++)
        written |= expr_is_var(w->at[d], &v) && v.kind == VAR_AXIS ? axis_one((uint32_t)v.id) : 0;
    arena_free(scratch);
    return same && k->n->param[w->out].type->rank == parallel &&
           (uint32_t)__builtin_popcountll(written) == parallel;
}

/* tiles: the output is made in complete tiles, whatever the image's size. */
bool
winograd_steps(Ctx *c, const Nest *n, uint32_t m, bool tiles, Winograd *out)
{
    Recognised k = { .ctx = c, .n = n, .m = m, .t = m + WINOGRAD_WINDOW - 1 };

    if (!recognise(&k) || (tiles && !is_uniform(&k)))
        return false;
    *out = (Winograd){ .tile = m,
                       .direct = n,
                       .filter = k.w->u.load.slot,
                       .load = k.w,
                       .own = k.own,
                       .sum = k.sum,
                       .window = { k.side[0].window, k.side[1].window } };
    make_matrices(c, out);
    bool whole = expr_divisible(c, NULL, k.side[0].extent, m) == YES &&
                 expr_divisible(c, NULL, k.side[1].extent, m) == YES;
    const Type *t = make_filter(&k, out) ? make_rows(&k, out) : NULL;
    t = t ? make_columns(&k, out, t) : NULL;
    t = t ? make_product(&k, out, t) : NULL;
    t = t ? make_back(&k, out, t) : NULL;
    t = t ? make_out(&k, out, t, whole, !whole && !tiles) : NULL;
    return t && (whole || tiles || make_crop(&k, out, t));
}

bool
nest_winograd(Ctx *c, const Nest *n, uint32_t m, Winograd *out)
{
    return winograd_steps(c, n, m, false, out);
}
