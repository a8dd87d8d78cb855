/* winograd_error: the rounding error of a Winograd domain; see winograd.h.
 *
 * One tile of a random image, some of the outputs: summed in the domain in floats, in plain loops,
 * and directly in doubles. Schedules sum in other orders, which changes the error by a fraction of
 * itself.
 */
#include "domain/winograd.h"

#include <math.h>
#include <string.h>

/* outputs that are compared; channels of the image as well */
enum { LANES = 8 };
enum { MOST_PLACES = (WINOGRAD_MAX_TILE + 2) * (WINOGRAD_MAX_TILE + 2) };
typedef float Lanes[LANES];

/* to [rows, rows] = matrix * from [n, n] * its transpose, as floats: a square transformed along
 * both axes, in each lane. */
static void
transform(const float *matrix, uint32_t rows, uint32_t n, const Lanes *restrict from,
          Lanes *restrict to)
{
    Lanes half[MOST_PLACES];

    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < n; j++) {
            Lanes sum = { 0 };
            for (uint32_t p = 0; p < n; p++)
                for (uint32_t l = 0; l < LANES; l++)
                    sum[l] += matrix[i * n + p] * from[p * n + j][l];
            memcpy(half[i * n + j], sum, sizeof sum);
        }
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < rows; j++) {
            Lanes sum = { 0 };
            for (uint32_t p = 0; p < n; p++)
                for (uint32_t l = 0; l < LANES; l++)
                    sum[l] += matrix[j * n + p] * half[i * n + p][l];
            memcpy(to[i * rows + j], sum, sizeof sum);
        }
}

/* Numbers between -1 and 1, the same in every run. */
static float
noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(int32_t)(*state >> 32) / 2147483648.0);
}

/* A point of the filter: a number for each of its axes. */
typedef struct {
    int64_t at[NEST_MAX_AXES];
} FilterPoint;

static bool
point_axis(void *user, Var v, int64_t *out)
{
    const FilterPoint *p = user;

    *out = v.kind == VAR_AXIS ? p->at[v.id] : 0;
    return v.kind == VAR_AXIS;
}

/* [elements] the filter's stride along each axis; false: an index is no bare axis. */
static bool
filter_steps(const Winograd *k, int64_t *step)
{
    const Scalar *w = k->load;
    int64_t pitch = 1;
    Var v;

    memset(step, 0, NEST_MAX_AXES * sizeof *step);
    for (uint32_t d = w->u.load.rank; d-- > 0;) {
        if (!expr_is_var(w->u.load.at[d], &v) || v.kind != VAR_AXIS)
            return false;
        step[v.id] += pitch;
        pitch *= expr_or(k->direct->param[k->filter].type->dim[d], 0);
    }
    return true;
}

/* The filter's element there; 0 if unknown. step: of filter_steps, or NULL. */
static float
filter_at(const Winograd *k, const void *data, const int64_t *step, FilterPoint *p)
{
    const Scalar *w = k->load;
    int64_t offset = 0, index;

    for (uint32_t a = 0; a < k->direct->naxis && step; a++)
        offset += step[a] * p->at[a];
    for (uint32_t d = 0; d < w->u.load.rank && !step; d++) {
        if (!expr_eval(w->u.load.at[d], point_axis, p, &index))
            return 0;
        offset = offset * expr_or(k->direct->param[k->filter].type->dim[d], 0) + index;
    }
    if (w->dtype == DT_F32)
        return ((const float *)data)[offset];
    Number n = number_load(w->dtype, data, offset);
    return dtype_is_float(w->dtype) ? (float)n.f : (float)n.i;
}

/* Point number `which` of a set of axes, the last one fastest. */
static void
set_point(const Winograd *k, AxisSet set, int64_t which, FilterPoint *p)
{
    for (uint32_t a = k->direct->naxis; a-- > 0;)
        if (set >> a & 1) {
            int64_t extent = expr_or(k->direct->axis[a].extent, 1);
            p->at[a] = which % extent;
            which /= extent;
        }
}

static int64_t
count_points(const Winograd *k, AxisSet set)
{
    int64_t count = 1;

    for (uint32_t a = 0; a < k->direct->naxis; a++)
        count *= set >> a & 1 ? expr_or(k->direct->axis[a].extent, 1) : 1;
    return count;
}

/* The windows of all compared outputs in a channel; zeros if there are fewer outputs. */
static void
read_filter(const Winograd *k, const void *data, const int64_t *step, int64_t outputs,
            int64_t channel, Lanes *filter)
{
    for (int64_t f = 0; f < LANES && f < outputs; f++) {
        FilterPoint p = { { 0 } };
        set_point(k, k->own & ~k->sum, outputs > LANES ? f * (outputs / LANES) : f, &p);
        set_point(k, k->sum, channel, &p);
        for (uint32_t i = 0; i < WINOGRAD_WINDOW * WINOGRAD_WINDOW; i++) {
            p.at[k->window[0]] = i / WINOGRAD_WINDOW;
            p.at[k->window[1]] = i % WINOGRAD_WINDOW;
            filter[i][f] = filter_at(k, data, step, &p);
        }
    }
}

/* image [channels / LANES][t * t], random, and v, transformed. */
static void
make_image(const Winograd *k, int64_t channels, Lanes *image, Lanes *v)
{
    uint32_t t = k->tile + WINOGRAD_WINDOW - 1;
    uint64_t state = 1;

    for (int64_t q = 0; q < channels; q++)
        for (uint32_t i = 0; i < t * t; i++)
            image[q / LANES * t * t + i][q % LANES] = noise(&state);
    for (int64_t q = 0; q < channels; q += LANES)
        transform(k->matrix[MATRIX_IMAGE], t, t, image + q / LANES * t * t, v + q / LANES * t * t);
}

double
winograd_error(Arena *a, const Winograd *k, const void *data)
{
    uint32_t m = k->tile, t = m + WINOGRAD_WINDOW - 1;
    int64_t channels = count_points(k, k->sum), outputs = count_points(k, k->own & ~k->sum),
            blocks = (channels + LANES - 1) / LANES;
    int64_t steps[NEST_MAX_AXES], *step = filter_steps(k, steps) ? steps : NULL;
    Lanes *image = NEW_ARRAY(a, Lanes, t * t * blocks), *v = NEW_ARRAY(a, Lanes, t * t * blocks);
    Lanes product[MOST_PLACES] = { 0 }, back[MOST_PLACES],
          filter[WINOGRAD_WINDOW * WINOGRAD_WINDOW] = { 0 }, u[MOST_PLACES];
    double direct[MOST_PLACES][LANES] = { 0 }, most = 0, error = 0;

    make_image(k, channels, image, v);
    for (int64_t q = 0; q < channels; q++) {
        const Lanes *from = image + q / LANES * t * t, *in = v + q / LANES * t * t;
        uint32_t lane = (uint32_t)(q % LANES);
        read_filter(k, data, step, outputs, q, filter);
        transform(k->matrix[MATRIX_FILTER], t, WINOGRAD_WINDOW, filter, u);
        for (uint32_t i = 0; i < t * t; i++)
            for (uint32_t l = 0; l < LANES; l++)
                product[i][l] += u[i][l] * in[i][lane];
        for (uint32_t i = 0; i < m * m; i++)
            for (uint32_t r = 0; r < WINOGRAD_WINDOW * WINOGRAD_WINDOW; r++)
                for (uint32_t l = 0; l < LANES; l++)
                    direct[i][l] +=
                        (double)filter[r][l] * (double)from[(i / m + r / WINOGRAD_WINDOW) * t +
                                                            i % m + r % WINOGRAD_WINDOW][lane];
    }
    transform(k->matrix[MATRIX_BACK], m, t, product, back);
    for (uint32_t i = 0; i < m * m; i++)
        for (uint32_t l = 0; l < LANES; l++) {
            double off = fabs((double)back[i][l] - direct[i][l]);
            most = fmax(most, fabs(direct[i][l]));
            /* a NaN counts as infinitely wrong */
            error = off <= error ? error : off > error ? off : INFINITY;
        }
    return error > 0 ? isfinite(error) && isfinite(most) ? error / most : INFINITY : 0;
}
