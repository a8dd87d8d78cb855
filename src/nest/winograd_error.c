/* winograd_error: how far a transform domain is from the sum as it is written; see winograd.h.
 *
 * One tile of a random image, some of the outputs: what is summed in the domain is summed as floats, in plain loops, beside a sum
 * of products as doubles. Schedules sum in other orders, which changes an error by a part of itself.
 */
#include "nest/winograd.h"

#include <math.h>

/* to [rows, rows] = matrix * from [n, n] * its transpose, as floats: a square transformed along both axes. */
static void
transform(const float *matrix, uint32_t rows, uint32_t n, const float *from, float *to)
{
    float half[(WINOGRAD_MAX_TILE + 2) * (WINOGRAD_MAX_TILE + 2)];

    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < n; j++) {
            float sum = 0;
            for (uint32_t p = 0; p < n; p++)
                sum += matrix[i * n + p] * from[p * n + j];
            half[i * n + j] = sum;
        }
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < rows; j++) {
            float sum = 0;
            for (uint32_t p = 0; p < n; p++)
                sum += matrix[j * n + p] * half[i * n + p];
            to[i * rows + j] = sum;
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
typedef struct { int64_t at[NEST_MAX_AXES]; } FilterPoint;

static bool
point_axis(void *user, Var v, int64_t *out)
{
    const FilterPoint *p = user;

    *out = v.kind == VAR_AXIS ? p->at[v.id] : 0;
    return v.kind == VAR_AXIS;
}

/* The filter's element there; 0 where it cannot be told. */
static float
filter_at(const Winograd *k, const void *data, FilterPoint *p)
{
    const Scalar *w = k->load;
    int64_t offset = 0, index;
    Var v;

    for (uint32_t d = 0; d < w->u.load.rank; d++) {
        if (expr_is_var(w->u.load.at[d], &v) && v.kind == VAR_AXIS)      /* nearly always */
            index = p->at[v.id];
        else if (!expr_eval(w->u.load.at[d], point_axis, p, &index))
            return 0;
        offset = offset * expr_or(k->direct->param[k->filter].type->dim[d], 0) + index;
    }
    Number n = number_load(w->dtype, data, offset);
    return dtype_is_float(w->dtype) ? (float)n.f : (float)n.i;
}

/* Point number `which` of the axes of a set, the last one fastest. */
static void
set_point(const Winograd *k, AxisSet set, int64_t which, FilterPoint *p)
{
    for (uint32_t a = k->direct->naxis; a-- > 0; )
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

enum { SAMPLES = 8 };                /* outputs that are looked at */

double
winograd_error(Arena *a, const Winograd *k, const void *data)
{
    uint32_t m = k->tile, t = m + WINOGRAD_WINDOW - 1;
    int64_t channels = count_points(k, k->sum), outputs = count_points(k, k->own & ~k->sum);
    float *image = NEW_ARRAY(a, float, t * t * channels), *v = NEW_ARRAY(a, float, t * t * channels);
    double most = 0, error = 0;
    uint64_t state = 1;

    for (int64_t i = 0; i < t * t * channels; i++)
        image[i] = noise(&state);
    for (int64_t q = 0; q < channels; q++)
        transform(k->matrix[MATRIX_IMAGE], t, t, image + q * t * t, v + q * t * t);
    for (int64_t f = 0; f < SAMPLES && f < outputs; f++) {
        float product[(WINOGRAD_MAX_TILE + 2) * (WINOGRAD_MAX_TILE + 2)] = { 0 }, back[WINOGRAD_MAX_TILE * WINOGRAD_MAX_TILE];
        double direct[WINOGRAD_MAX_TILE * WINOGRAD_MAX_TILE] = { 0 };
        FilterPoint p = { { 0 } };
        set_point(k, k->own & ~k->sum, outputs > SAMPLES ? f * (outputs / SAMPLES) : f, &p);
        for (int64_t q = 0; q < channels; q++) {
            float filter[WINOGRAD_WINDOW * WINOGRAD_WINDOW], u[(WINOGRAD_MAX_TILE + 2) * (WINOGRAD_MAX_TILE + 2)];
            set_point(k, k->sum, q, &p);
            for (uint32_t i = 0; i < WINOGRAD_WINDOW * WINOGRAD_WINDOW; i++) {
                p.at[k->window[0]] = i / WINOGRAD_WINDOW;
                p.at[k->window[1]] = i % WINOGRAD_WINDOW;
                filter[i] = filter_at(k, data, &p);
            }
            transform(k->matrix[MATRIX_FILTER], t, WINOGRAD_WINDOW, filter, u);
            for (uint32_t i = 0; i < t * t; i++)
                product[i] += u[i] * v[q * t * t + i];
            for (uint32_t i = 0; i < m * m; i++)
                for (uint32_t r = 0; r < WINOGRAD_WINDOW * WINOGRAD_WINDOW; r++)
                    direct[i] += (double)filter[r] * (double)image[q * t * t + (i / m + r / WINOGRAD_WINDOW) * t + i % m + r % WINOGRAD_WINDOW];
        }
        transform(k->matrix[MATRIX_BACK], m, t, product, back);
        for (uint32_t i = 0; i < m * m; i++) {
            double off = fabs((double)back[i] - direct[i]);
            most = fmax(most, fabs(direct[i]));
            error = off <= error ? error : off > error ? off : INFINITY;       /* what is no number is far off */
        }
    }
    return error > 0 ? isfinite(error) && isfinite(most) ? error / most : INFINITY : 0;
}
