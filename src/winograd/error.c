/* error: the rounding error of a Winograd domain; see winograd.h.
 *
 * The interpreter runs the convolution for one tile of a random image and some of the outputs: its
 * steps in floats, and the sum itself in doubles. Schedules sum in other orders, which changes the
 * error by a fraction of itself.
 */
#include "winograd/winograd.h"
#include "nest/walk.h"
#include "ref/ref.h"

#include <math.h>
#include <string.h>

enum { MOST_OUTPUTS = 8 }; /* that are compared at each point of the image */

/* Numbers between -1 and 1, the same in every run. */
static float
noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(int32_t)(*state >> 32) / 2147483648.0);
}

/* The axes of the sample: one tile along the sides; outputs of the filter, evenly spread; one point
 * of other outputs. as: their places in the direct nest. */
static void
sample_axes(Ctx *c, const Winograd *k, Axis *axis, Binding *as)
{
    AxisSet filter = k->load->axes;
    int64_t left = MOST_OUTPUTS, extent;

    for (uint32_t a = k->direct->naxis; a-- > 0;) {
        as[a] = (Binding){ { VAR_AXIS, a }, expr_axis(c, a) };
        if (axis[a].kind != AXIS_PARALLEL)
            continue;
        int64_t take = k->sides >> a & 1 ? k->tile : 1;
        if ((filter >> a & 1) && expr_const(axis[a].extent, &extent) && extent > 0) {
            take = extent < left ? extent : left;
            left /= take;
            as[a].to = expr_scale(c, as[a].to, extent / take);
        }
        axis[a].extent = expr_int(c, take);
    }
}

/* o[…] = sum …: x[…] * w[…] over the sample's axes, in type t; x is as large as the sample needs.
 * NULL: its size is unknown. */
static const Nest *
sample_nest(Ctx *c, const Winograd *k, DType t)
{
    const Nest *n = k->direct;
    NestBuilder b = nest_begin(c, "sample");
    Axis axis[NEST_MAX_AXES];
    Binding as[NEST_MAX_AXES];
    Range range[NEST_MAX_AXES];
    const Expr *at[TN_MAX_RANK], *dim[TN_MAX_RANK];
    uint32_t rank = 0;

    memcpy(axis, n->axis, n->naxis * sizeof *axis);
    sample_axes(c, k, axis, as);
    for (uint32_t a = 0; a < n->naxis; a++) {
        nest_axis(&b, axis[a].name, axis[a].kind, axis[a].extent);
        range[a] = (Range){ { VAR_AXIS, a }, expr_int(c, 0), axis[a].extent };
    }
    for (uint32_t d = 0; d < k->image->u.load.rank; d++) {
        at[d] = expr_subst(c, k->image->u.load.at[d], as, n->naxis);
        Interval i = expr_bounds(c, &(Ranges){ range, n->naxis }, at[d]);
        if (i.lo == INT64_MIN || i.hi == INT64_MAX)
            return NULL;
        at[d] = expr_offset(c, at[d], -i.lo);
        dim[d] = expr_int(c, i.hi - i.lo + 1);
    }
    nest_in(&b, "x", type_new(c, t, k->image->u.load.rank, dim));
    const Scalar *x = nest_load(&b, 0, at);
    for (uint32_t d = 0; d < k->load->u.load.rank; d++)
        at[d] = expr_subst(c, k->load->u.load.at[d], as, n->naxis);
    const Scalar *w = nest_load(&b, nest_in(&b, "w", n->param[k->load->u.load.slot].type), at);
    const Scalar *body = scalar_2(c, S_MUL, x, scalar_cast(c, t, scalar_cast(c, DT_F32, w)));
    for (uint32_t a = 0; a < n->naxis; a++)
        if (axis[a].kind == AXIS_PARALLEL && rank < TN_MAX_RANK) {
            at[rank] = expr_axis(c, a);
            dim[rank++] = axis[a].extent;
        }
    nest_write(&b, nest_out(&b, "o", type_new(c, t, rank, dim)), at,
               scalar_reduce(c, COMB_SUM, k->sum->u.reduce.axes, &body, 1));
    return nest_finish(&b);
}

static bool
run(Ctx *c, Arena *a, const Nest *n, Tensor *const *in, Tensor *out)
{
    Tensor *param[3];
    const Symbols none = { 0 };

    if (!tensor_of_type(c, a, n->param[n->nin].type, &none, out))
        return false;
    for (uint32_t i = 0; i < n->nin; i++)
        param[i] = in[i];
    param[n->nin] = out;
    return ref_nest(c, n, &none, param);
}

/* The sample in type t: by its sum, or by the steps for tiles of m. */
static bool
run_sample(Ctx *c, Arena *a, const Winograd *k, const void *filter, DType t, bool steps,
           Tensor *out)
{
    enum { GIVEN = 2 + MATRIX_COUNT };
    const Nest *n = sample_nest(c, k, t);
    Tensor source[GIVEN + WINOGRAD_MAX_STEPS];
    const Symbols none = { 0 };
    uint64_t state = 1;
    Winograd w;

    if (!n || !tensor_of_type(c, a, n->param[0].type, &none, &source[0]) ||
        !tensor_over(c, n->param[1].type, &none, filter, &source[1]))
        return false;
    for (int64_t i = 0; i < tensor_count(&source[0]); i++)
        number_store(t, source[0].data, i, (Number){ .f = noise(&state) });
    if (!steps)
        return run(c, a, n, (Tensor *[]){ &source[0], &source[1] }, out);
    if (!nest_winograd(c, n, NULL, k->tile, &w))
        return false;
    for (uint32_t i = 0; i < MATRIX_COUNT; i++)
        if (!tensor_over(c, w.matrix_type[i], &none, w.matrix[i], &source[2 + i]))
            return false;
    for (uint32_t i = 0; i < w.nstep; i++) {
        Tensor *in[2] = { NULL, NULL };
        for (uint32_t p = 0; p < w.step[i].nest->nin; p++)
            in[p] = &source[w.step[i].from[p]];
        if (!run(c, a, w.step[i].nest, in, &source[GIVEN + i]))
            return false;
    }
    *out = source[GIVEN + w.nstep - 1];
    return true;
}

/* A NaN counts as infinitely wrong. */
double
winograd_error(Ctx *c, Arena *a, const Winograd *k, const void *filter)
{
    Tensor want, got;
    double most = 0, error = 0;

    if (!run_sample(c, a, k, filter, DT_F64, false, &want) ||
        !run_sample(c, a, k, filter, DT_F32, true, &got))
        return INFINITY;
    for (int64_t i = 0; i < tensor_count(&want); i++) {
        double w = ((const double *)want.data)[i], off = fabs(((const float *)got.data)[i] - w);
        most = fmax(most, fabs(w));
        error = off <= error ? error : off > error ? off : INFINITY;
    }
    return error > 0 ? isfinite(error) && isfinite(most) ? error / most : INFINITY : 0;
}
