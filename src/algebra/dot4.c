/* dot4: products of integers, four summands at a time.
 *
 * Processors have dot-product instructions over four unsigned and four signed bytes. A sum of
 * products is rewritten for them (padded with signed zeros to a multiple of four) if one factor
 * fits in signed bytes and the other in unsigned ones after subtracting a term that the sum does
 * not vary with, as quantised numbers do:
 *
 *     sum k < 4*n: (x[i, k] - z) * w[k, j]
 *
 * becomes
 *
 *     (sum k < n: dot4(quad(x[i, 4*k], …), quad(w[4*k, j], …))) - z * s[j]
 *     s[j] = sum k < 4*n: w[k, j]
 *
 * Signed bytes on the unsigned side are offset by 128, which z takes away again. s is computed at
 * compile time if w is constant.
 *
 * Arm's instruction has two signed sides (dot4s). Then signed bytes go in as they are, and unsigned
 * ones less 128.
 *
 * If both are unsigned bytes less a zero point, w - 128 is signed, and the difference 128 - v
 * counts times the sums of the other factor:
 *
 *     sum k: (x[i, k] - z) * (w[k, j] - v)
 *         = (sum k: (x[i, k] - z) * (w[k, j] - 128)) + (128 - v) * t[i]
 *     t[i] = sum k: x[i, k] - z
 *
 * In a window's padding x is z, so that it adds nothing. Sums of integers wrap, so regrouping them
 * changes no bit.
 */
#include "algebra/internal.h"
#include "nest/walk.h"

/* (bytes - less) * (words + more); less, more NULL: 0. whole: the first factor unchanged. */
typedef struct {
    const Scalar *bytes, *less, *words, *more, *whole;
} Sides;

static bool
fits(const Scalar *s, int64_t low, int64_t high)
{
    int64_t least, most;
    return scalar_int_range(s, &least, &most) && least >= low && most <= high;
}

static const Scalar *
plus(Ctx *c, const Scalar *x, const Scalar *y)
{
    return x ? scalar_2(c, S_ADD, x, y) : y;
}

/* What may be made of a factor: bytes as they are; those of the other sign on the first side; or
 * unsigned ones on the signed side (and with two signed sides on both). */
typedef enum { SIDES_PLAIN, SIDES_FIRST, SIDES_UNSIGNED, SIDES_COUNT } SidesKind;

/* u - less where u is a byte and less the same for all summands. */
static bool
find_sides(Ctx *c, const Scalar *u, const Scalar *w, AxisSet sum, SidesKind kind, bool both_signed,
           Sides *out)
{
    const Scalar *half = scalar_int(c, DT_I32, 128), *less = NULL, *more = NULL, *whole = u;
    /* of the first side, and of bytes of the other sign, which `shift` brings there */
    const int64_t least = both_signed ? INT8_MIN : 0, other = both_signed ? 0 : INT8_MIN;
    const Scalar *shift = scalar_int(c, DT_I32, least - other);
    bool shifts = kind == SIDES_FIRST || (both_signed && kind == SIDES_UNSIGNED);

    if (kind == SIDES_UNSIGNED && w->op == S_SUB && !(w->arg[1]->axes & sum) &&
        fits(w->arg[0], 0, UINT8_MAX)) {
        more = scalar_2(c, S_SUB, half, w->arg[1]);
        w = scalar_2(c, S_SUB, w->arg[0], half);
    } else if (kind == SIDES_UNSIGNED && fits(w, 0, UINT8_MAX)) {
        more = half;
        w = scalar_2(c, S_SUB, w, half);
    }

    if (u->op == S_SUB && !(u->arg[1]->axes & sum) && !fits(u, least, least + UINT8_MAX)) {
        less = u->arg[1];
        u = u->arg[0];
    }
    if (!fits(w, INT8_MIN, INT8_MAX) ||
        !(fits(u, least, least + UINT8_MAX) || (shifts && fits(u, other, other + UINT8_MAX))))
        return false;
    bool is_other = !fits(u, least, least + UINT8_MAX);
    *out = (Sides){ is_other ? scalar_2(c, S_ADD, u, shift) : u,
                    is_other ? plus(c, less, shift) : less, w, more, whole };
    return true;
}

static bool
is_constant(Ctx *c, const Scalar *s, const bool *constant)
{
    FOR_EACH_SCALAR (load, scalar_loads(c, s))
        if (!constant[load->u.load.slot])
            return false;
    return true;
}

/* Which factor becomes the unsigned one? Prefer the unsigned operand, else the non-constant one, so
 * that the correction term folds. */
static bool
find_factors(Ctx *c, const Contraction *view, const bool *constant, bool both_signed, Sides *out)
{
    const Scalar *factor[2] = { view->a, view->b };
    bool first = !is_constant(c, view->a, constant);

    for (int kind = 0; kind < SIDES_COUNT; kind++)
        for (int i = 0; i < 2; i++)
            if (find_sides(c, factor[first == i], factor[first != i], view->sum, (SidesKind)kind,
                           both_signed, out))
                return true;
    return false;
}

/* The product of a correction and of sums, a new input of the nest. NULL: there is no room for
 * their axes. */
static const Scalar *
correction(Ctx *c, const Nest *n, NestEdit *e, const Scalar *times, const Scalar *factor,
           AxisSet sum, Dot4Sums *sums)
{
    const Scalar *all = scalar_reduce(c, COMB_SUM, sum, &factor, 1);
    const Expr *at[NEST_MAX_AXES];
    uint32_t axis[NEST_MAX_AXES], rank = axis_list(all->axes, axis), slot = e->nest.nin;

    for (uint32_t d = 0; d < rank; d++)
        at[d] = expr_axis(c, axis[d]);
    const Nest *made = sums->nest[sums->n] =
        rank > TN_MAX_RANK
            ? NULL
            : nest_along(c, n, all, axis, rank, arena_printf(c->arena, "%s_sums", n->name));
    if (!made)
        return NULL;
    nest_edit_input(c, e, "sums", made->param[made->nin].type);
    sums->n++;
    return scalar_2(c, S_MUL, times, scalar_load(c, DT_I32, slot, rank, at, NULL));
}

const Nest *
nest_dot4_products(Ctx *c, const Nest *n, const bool *constant, bool both_signed, Dot4Sums *sums)
{
    Contraction view;
    Sides s;

    *sums = (Dot4Sums){ 0 };
    if (n->nwrite != 1 || n->nout != 1 || n->write[0].combiner != COMB_NONE ||
        !nest_contraction(c, n, &view) || !(view.row | view.col) || view.reduce->dtype != DT_I32 ||
        view.reduce->arg[0]->op != S_MUL)
        return n;
    int64_t extent;
    uint32_t axis = nest_packed_axis(c, n, &view, 4, &extent);
    if (axis == NO_SLOT || !find_factors(c, &view, constant, both_signed, &s))
        return n;
    const Scalar *body =
        scalar_2(c, both_signed ? S_DOT4S : S_DOT4, scalar_pack(c, s.bytes, axis, extent, 4, true),
                 scalar_pack(c, s.words, axis, extent, 4, false));
    NestEdit e = nest_edit(c, n, 0, MOST_DOT4_SUMS);
    const Scalar *dots = scalar_reduce(c, COMB_SUM, view.reduce->u.reduce.axes, &body, 1);
    if (s.less)
        dots = scalar_2(c, S_SUB, dots, correction(c, n, &e, s.less, s.words, view.sum, sums));
    if (s.more)
        dots = scalar_2(c, S_ADD, dots, correction(c, n, &e, s.more, s.whole, view.sum, sums));
    if (!dots) {
        nest_edit_drop(&e);
        *sums = (Dot4Sums){ 0 };
        return n;
    }
    e.axis[axis].extent = expr_int(c, (extent + 3) / 4);
    e.write[0].value = scalar_replace(c, n->write[0].value, view.reduce, dots);
    return nest_edit_done(c, &e);
}
