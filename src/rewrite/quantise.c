/* quantise: store the numbers of one tensor in fewer bits.
 *
 * A group's scale takes its largest magnitude to the end of the range: 127 of eight bits; of four
 * bits -8, with the sign that makes it so, since the range has one more there. The scale is rounded
 * to the type it is stored in first, and the elements are divided by what is stored, so its rounding
 * adds no error.
 */
#include "rewrite/quantise.h"

#include <math.h>
#include <string.h>

/* One row after the other: the scales of a row's elements are those at `base` + step[i]. */
typedef struct {
    const Quantising *q;
    int64_t rows, row;           /* rows, elements of each */
    int64_t stride[TN_MAX_RANK]; /* of the scales; 0 where a dimension has none */
    int64_t *step;               /* [row] */
    int64_t nscale;
} Rows;

static int64_t
groups(const Quantising *q)
{
    return q->group ? (q->extent[q->dim] + q->group - 1) / q->group : 0;
}

void
quantise_stored(const Quantising *q, int64_t *extent)
{
    memcpy(extent, q->extent, q->rank * sizeof *extent);
    if (q->word)
        extent[q->dim] /= dtype_info[q->word].bits / dtype_info[q->dtype].bits;
}

void
quantise_scales(const Quantising *q, int64_t *extent)
{
    for (uint32_t d = 0; d < q->rank; d++)
        extent[d] = !q->summed[d] ? q->extent[d] : d == q->dim ? groups(q) : 0;
}

/* The place along one dimension that scales know. */
static int64_t
scale_step(const Rows *r, uint32_t d, int64_t i)
{
    return r->stride[d] * (d == r->q->dim && r->q->group ? i / r->q->group : i);
}

static Rows
rows_of(Arena *a, const Quantising *q)
{
    Rows r = { .q = q, .rows = 1, .row = q->extent[q->rank - 1], .nscale = 1 };
    int64_t extent[TN_MAX_RANK];

    quantise_scales(q, extent);
    for (uint32_t d = q->rank; d-- > 0;) {
        r.stride[d] = extent[d] ? r.nscale : 0;
        r.nscale *= extent[d] ? extent[d] : 1;
        if (d < q->rank - 1)
            r.rows *= q->extent[d];
    }
    r.step = NEW_ARRAY(a, int64_t, r.row + 1);
    for (int64_t i = 0; i < r.row; i++)
        r.step[i] = scale_step(&r, q->rank - 1, i);
    return r;
}

/* The index of a row, counted up; the scale where it begins. */
static int64_t
next_row(const Rows *r, int64_t *at)
{
    int64_t base = 0;

    for (uint32_t d = r->q->rank - 1; d-- > 0 && ++at[d] == r->q->extent[d];)
        at[d] = 0;
    for (uint32_t d = 0; d + 1 < r->q->rank; d++)
        base += scale_step(r, d, at[d]);
    return base;
}

/* The element of largest magnitude under each scale. */
static bool
find_extremes(const Rows *r, const float *w, double *extreme)
{
    int64_t at[TN_MAX_RANK] = { 0 }, base = 0;

    for (int64_t k = 0; k < r->rows; k++, base = next_row(r, at))
        for (int64_t i = 0; i < r->row; i++) {
            double x = w[k * r->row + i], *e = &extreme[base + r->step[i]];
            if (!isfinite(x))
                return false;
            if (fabs(x) > fabs(*e))
                *e = x;
        }
    return true;
}

/* Store a number that shares its word with others. */
static void
store_packed(const Quantising *q, const int64_t *at, int64_t i, int64_t value, void *stored)
{
    int bits = dtype_info[q->dtype].bits;
    int64_t place = 0, share = dtype_info[q->word].bits / bits,
            digit = q->dim == q->rank - 1 ? i : at[q->dim], extent[TN_MAX_RANK];

    quantise_stored(q, extent);
    for (uint32_t d = 0; d < q->rank; d++) {
        int64_t x = d == q->rank - 1 ? i : at[d];
        place = place * extent[d] + (d == q->dim ? x / share : x);
    }
    digit %= share;
    /* quads of elements are those of bytes, low halves before high ones */
    if (q->dots)
        digit = digit % (share / 2) * 2 + digit / (share / 2);
    number_put_bits(q->word, stored, place, (uint32_t)(value + 8) << digit * bits);
}

/* Store the nearest float, ties to even; returns it. */
static double
stored_float(const Quantising *q, float x, int64_t place, void *stored)
{
    /* finite, as find_extremes saw: the upper half, rounded by the lower */
    if (q->dtype == DT_BF16) {
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
        ((uint16_t *)stored)[place] = (uint16_t)(bits >> 16);
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    double y = round_to_dtype(q->dtype, x);
    number_store(q->dtype, stored, place, (Number){ .f = y });
    return y;
}

bool
quantise(Arena *scratch, const Quantising *q, const float *w, DType scale_type, void *stored,
         void *scale, QuantisingError *error)
{
    Rows r = rows_of(scratch, q);
    bool floats = dtype_is_float(q->dtype);
    double *step = NEW_ARRAY(scratch, double, r.nscale), most = q->dtype == DT_I4 ? -8 : 127,
           squares = 0, wrong = 0, worst = 0, largest = 0;
    int64_t at[TN_MAX_RANK] = { 0 }, base = 0, high = q->dtype == DT_I4 ? 7 : 127,
            low = q->dtype == DT_I4 ? -8 : -127;

    if (!find_extremes(&r, w, step))
        return false;
    for (int64_t k = 0; k < r.nscale; k++) {
        largest = fmax(largest, fabs(step[k]));
        if (floats)
            continue;
        step[k] =
            round_to_dtype(scale_type, q->dtype == DT_I4 ? step[k] / most : fabs(step[k]) / most);
        number_store(scale_type, scale, k, (Number){ .f = step[k] });
    }
    if (floats && !isfinite(round_to_dtype(q->dtype, largest)))
        return false;
    for (int64_t k = 0; k < r.rows; k++, base = next_row(&r, at))
        for (int64_t i = 0; i < r.row; i++) {
            double x = w[k * r.row + i], s = step[base + r.step[i]], y;
            if (floats) {
                y = stored_float(q, w[k * r.row + i], k * r.row + i, stored);
            } else {
                double n = s != 0 ? nearbyint(x / s) : 0;
                int64_t v = n<(double)low ? low : n>(double) high ? high : (int64_t)n;
                y = (double)v * s;
                if (q->word)
                    store_packed(q, at, i, v, stored);
                else
                    number_store(q->dots ? DT_U8 : q->dtype, stored, k * r.row + i,
                                 (Number){ .i = q->dots ? v + 128 : v });
            }
            squares += x * x;
            wrong += (x - y) * (x - y);
            worst = fmax(worst, fabs(x - y));
        }
    *error = (QuantisingError){ squares > 0 ? sqrt(wrong / squares) : 0,
                                largest > 0 ? worst / largest : 0 };
    return true;
}
