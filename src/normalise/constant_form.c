/* constant_form: see the header. */
#include "algebra/algebra.h"
#include "normalise/constant_form.h"
#include "normalise/normalise.h"

#include "nest/walk.h"

#include <math.h>
#include <string.h>

const Nest *
form_of_number(Ctx *c, const Value *v)
{
    const Type *t = v->type;

    if (!v->data || v->format || !expr_is(type_count(c, t), 1) || dtype_info[t->dtype].bits < 8 ||
        t->dtype == DT_STR)
        return NULL;
    Number x = number_load(t->dtype, v->data, 0);
    return nest_of_scalar(c, "number", t,
                          dtype_is_float(t->dtype) ? scalar_float(c, t->dtype, x.f)
                                                   : scalar_int(c, t->dtype, x.i));
}

/* The sizes of a constant with at least LEAST_CONSTANT elements: smaller ones are not worth the
 * search. */
enum { LEAST_CONSTANT = 8 };

static bool
sizes_of(const Value *v, int64_t *size, int64_t *count)
{
    const Type *t = v->type;

    *count = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        if (!expr_const(t->dim[d], &size[d]) || size[d] < 1 ||
            mul_overflows(*count, size[d], count))
            return false;
    return v->data && !v->format && *count >= LEAST_CONSTANT && dtype_info[t->dtype].bits >= 8 &&
           t->dtype != DT_STR;
}

/* Element i as a double; false: not exactly. */
static bool
exact_number(DType t, const void *data, int64_t i, double *out)
{
    int64_t whole = dtype_is_float(t) ? 0 : number_load(t, data, i).i;

    *out = number_get(t, data, i);
    return (whole >= 0 || t != DT_U64) && whole >= -((int64_t)1 << 53) && whole <= (int64_t)1 << 53;
}

/* ---- steady steps ---------------------------------------------------------------------------- */

/* An arithmetic progression of whole numbers along each dimension. NULL: it is none. */
static const Nest *
arithmetic_constant(Ctx *c, const Value *v)
{
    int64_t size[TN_MAX_RANK], count, step[TN_MAX_RANK], pitch = 1;
    const Type *t = v->type;

    if (!dtype_is_int(t->dtype) || !sizes_of(v, size, &count))
        return NULL;
    double number;
    if (!exact_number(t->dtype, v->data, 0, &number))
        return NULL;
    int64_t first = (int64_t)number;
    for (uint32_t d = t->rank; d-- > 0; pitch *= size[d]) {
        if (size[d] > 1 && !exact_number(t->dtype, v->data, pitch, &number))
            return NULL;
        step[d] = size[d] > 1 ? (int64_t)number - first : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t expected = first, rest = i;
        for (uint32_t d = t->rank; d-- > 0; rest /= size[d])
            expected += step[d] * (rest % size[d]);
        if (!exact_number(t->dtype, v->data, i, &number) || number != (double)expected)
            return NULL;
    }
    const Expr *value = expr_int(c, first);
    for (uint32_t d = 0; d < t->rank; d++)
        value = expr_add(c, value, expr_scale(c, expr_axis(c, d), step[d]));
    return nest_of_scalar(c, "indices", t, scalar_cast(c, t->dtype, scalar_index(c, value)));
}

/* ---- bands ----------------------------------------------------------------------------------- */

/* Two numbers, or one, of which one fills, in each row i of the last two dimensions, the range from low +
 * i*low_step to below high + i*high_step, clipped to the row: a causal mask, a window, a block. */
typedef struct {
    double inside, outside;
    int64_t low, low_step, high, high_step;
} Band;

static int64_t
clamped(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* The range of `value` in a row; false: there are several. */
static bool
run_of(DType t, const void *data, int64_t at, int64_t n, double value, int64_t *begin, int64_t *end)
{
    int64_t i = 0;

    while (i < n && number_get(t, data, at + i) != value)
        i++;
    *begin = i;
    while (i < n && number_get(t, data, at + i) == value)
        i++;
    *end = i;
    while (i < n && number_get(t, data, at + i) != value)
        i++;
    return i == n;
}

/* Ends of ranges of the form begin + i*step, step 0 or 1, where the row's own ends do not clip
 * them. */
static bool
on_a_line(const int64_t *at, int64_t rows, int64_t n, int64_t *begin, int64_t *step)
{
    for (*step = 0; *step < 2; ++*step) {
        int64_t known = -1;
        for (int64_t i = 0; i < rows && known < 0; i++)
            known = at[i] > 0 && at[i] < n ? i : -1;
        *begin = known < 0 ? at[0] : at[known] - *step * known;
        bool all = true;
        for (int64_t i = 0; i < rows && all; i++)
            all = clamped(*begin + *step * i, n) == at[i];
        if (all)
            return true;
    }
    return false;
}

/* The two numbers that a constant holds, equal if there is one. False: it has more, as weights soon
 * do. -0.0 is another number than 0.0: a quotient tells them apart. */
static bool
two_numbers(const Value *v, int64_t count, double *x, double *y)
{
    DType t = v->type->dtype;
    double z;

    *x = *y = number_get(t, v->data, 0);
    for (int64_t i = 0; i < count; i++) {
        bool exact = exact_number(t, v->data, i, &z);
        *y = *y == *x ? z : *y;
        if (!exact || (z != *x && z != *y) || (z == 0 && signbit(z) != signbit(z == *x ? *x : *y)))
            return false;
    }
    return true;
}

static bool
is_band(Arena *a, const Value *v, Band *band)
{
    int64_t size[TN_MAX_RANK], count;
    const Type *t = v->type;
    double x, y;

    if (t->rank < 2 || !sizes_of(v, size, &count) || !two_numbers(v, count, &x, &y))
        return false;
    int64_t n = size[t->rank - 1], rows = size[t->rank - 2], planes = count / n / rows;
    *band = (Band){ .inside = x, .outside = y };
    if (x == y) /* a mask that hides nothing, or everything */
        return rows > 1 && n > 1 && (t->dtype == DT_BOOL || x == 0);
    int64_t *begin = NEW_ARRAY(a, int64_t, rows), *end = NEW_ARRAY(a, int64_t, rows);
    for (int turn = 0; turn < 2 && rows > 1 && n > 1; turn++) {
        double inside = turn ? y : x;
        bool runs = true;
        for (int64_t i = 0; i < rows * planes && runs; i++) {
            int64_t from, to;
            runs = run_of(t->dtype, v->data, i * n, n, inside, &from, &to);
            if (i < rows)
                begin[i] = from, end[i] = to;
            runs = runs && begin[i % rows] == from && end[i % rows] == to;
        }
        *band = (Band){ .inside = inside, .outside = turn ? x : y };
        if (runs && on_a_line(begin, rows, n, &band->low, &band->low_step) &&
            on_a_line(end, rows, n, &band->high, &band->high_step))
            return true;
    }
    return false;
}

static const Nest *
band_constant(Ctx *c, const Value *v)
{
    Arena *scratch = arena_child(c->arena);
    const Type *t = v->type;
    Band band;
    bool found = is_band(scratch, v, &band);

    arena_free(scratch);
    if (!found)
        return NULL;
    const Expr *i = expr_axis(c, t->rank - 2), *j = expr_axis(c, t->rank - 1);
    const Scalar *from = scalar_index(c, expr_offset(c, expr_scale(c, i, band.low_step), band.low)),
                 *to = scalar_index(
                     c, expr_offset(c, expr_scale(c, i, band.high_step), band.high - 1));
    const Scalar *is = scalar_2(c, S_AND, scalar_2(c, S_LE, from, scalar_index(c, j)),
                                scalar_2(c, S_LE, scalar_index(c, j), to));
    const Nest *n = nest_of_scalar(c, "band", t,
                                   scalar_select(c, is, scalar_number(c, t->dtype, band.inside),
                                                 scalar_number(c, t->dtype, band.outside)));
    return n ? nest_simplify(c, n) : NULL;
}

const Nest *
form_of_constant(Ctx *c, const Value *v)
{
    const Nest *n = v->data ? arithmetic_constant(c, v) : NULL;
    return n || !v->data ? n : band_constant(c, v);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* Rows in a word of bits: those of two blocks of block_mask.c. */
enum { WORD_ROWS = 32 };

/* The bits of all rows and columns, of planes that are n wide. */
static int32_t *
bits_of(Arena *a, const Value *v, int64_t count, int64_t rows, int64_t n, double hidden)
{
    int64_t words = (rows + WORD_ROWS - 1) / WORD_ROWS, planes = count / rows / n;
    int32_t *bits = NEW_ARRAY(a, int32_t, planes *words *n);

    for (int64_t i = 0; i < count; i++) {
        int64_t row = i / n % rows, word = i / n / rows * words + row / WORD_ROWS;
        uint32_t shown = number_get(v->type->dtype, v->data, i) != hidden;
        bits[word * n + i % n] |= (int32_t)(shown << row % WORD_ROWS);
    }
    return bits;
}

const Nest *
form_of_mask(Graph *g, const Value *v, ValueId *bits)
{
    int64_t size[TN_MAX_RANK], count;
    const Type *t = v->type;
    double first, second;
    Ctx *c = g->ctx;

    if (!v->data || !(dtype_is_float(t->dtype) || t->dtype == DT_BOOL) || t->rank < 2 ||
        !sizes_of(v, size, &count) || size[t->rank - 2] < WORD_ROWS ||
        !two_numbers(v, count, &first, &second) || first == second)
        return NULL;
    double hidden = fmin(first, second), other = fmax(first, second);
    if (t->dtype != DT_BOOL && hidden > NORMALISE_HIDES)
        return NULL;
    uint32_t row = t->rank - 2;
    const Expr *dim[TN_MAX_RANK], *axis[TN_MAX_RANK], *at[TN_MAX_RANK],
        *word_rows = expr_int(c, WORD_ROWS);
    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = d == row ? expr_ceil_div(c, t->dim[d], word_rows) : t->dim[d];
    const Type *words = type_new(c, DT_I32, t->rank, dim);
    *bits = graph_const(g, arena_printf(c->arena, "%s_shown", v->name), words,
                        bits_of(g->arena, v, count, size[row], size[row + 1], hidden));
    NestBuilder b = nest_begin(c, "shown");
    uint32_t x = nest_in(&b, "m", words);
    nest_axes_of(&b, t, axis);
    for (uint32_t d = 0; d < t->rank; d++)
        at[d] = d == row ? expr_div(c, axis[d], word_rows) : axis[d];
    const Scalar *place =
        scalar_cast(c, DT_I32, scalar_index(c, expr_mod(c, axis[row], word_rows)));
    const Scalar *bit = scalar_2(c, S_SHL, scalar_int(c, DT_I32, 1), place);
    const Scalar *is =
        scalar_2(c, S_NE, scalar_2(c, S_AND, nest_load(&b, x, at), bit), scalar_int(c, DT_I32, 0));
    nest_write(&b, nest_out(&b, "o", t), axis,
               t->dtype == DT_BOOL ? is
                                   : scalar_select(c, is, scalar_number(c, t->dtype, other),
                                                   scalar_number(c, t->dtype, hidden)));
    return nest_finish(&b);
}
