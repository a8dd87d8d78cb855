/* index: operators with computed indices: gathers, scatters, one_hot.
 *
 * A negative index from a tensor counts from the end; runs check it against its dimension
 * (scalar_at). An index that is known at compile time becomes a number.
 */
#include "op/build.h"

#include <string.h>

/* The text `value`, read from input `input`, as an index into a dimension of n elements. */
static const char *
index_into(Build *b, uint32_t input, const char *value, const Expr *n)
{
    Ctx *c = b->c;
    const Known *known = &b->call->known[input];

    if (known->at && known->n == 1) {
        const Expr *v = known->at[0], *last = expr_offset(c, n, -1), *zero = expr_int(c, 0);
        if (expr_le(c, NULL, v, expr_int(c, -1)) == YES)
            v = expr_simplify(c, NULL, expr_add(c, v, n));
        if (expr_le(c, NULL, zero, v) == YES && expr_le(c, NULL, v, last) == YES)
            return build_index(b, v);
    }
    return arena_printf(c->arena, "at(%s, %s)", value, build_index(b, n));
}

/* Names of n axes from `first` on. */
static void
names_from(uint32_t first, uint32_t n, const char **name)
{
    for (uint32_t d = 0; d < n; d++)
        name[d] = build_axis_name(first + d);
}

/* ---- gather ---------------------------------------------------------------------------------- */

bool
infer_gather(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *index = call->in[1];
    const Expr *dim[2 * TN_MAX_RANK];
    uint32_t axis, rank = 0;

    if (!op_elements(c, call, 1, "i32 or i64") || !op_axis_attr(c, call, x->rank, &axis))
        return false;
    for (uint32_t d = 0; d < axis; d++)
        dim[rank++] = x->dim[d];
    for (uint32_t d = 0; d < index->rank; d++)
        dim[rank++] = index->dim[d];
    for (uint32_t d = axis + 1; d < x->rank; d++)
        dim[rank++] = x->dim[d];
    out[0] = type_new(c, x->dtype, rank, dim);
    return true;
}

bool
expand_gather(Build *b)
{
    Arena *a = b->c->arena;
    const Type *x = b->call->in[0];
    const char *at[TN_MAX_RANK], *place[TN_MAX_RANK];
    uint32_t d = build_along_axis(b, x->rank), n = b->call->in[1]->rank;

    b->moves = true;
    names_from(d, n, place);
    names_from(0, d, at);
    names_from(d + n, x->rank - d - 1, at + d + 1);
    at[d] = index_into(b, 1, arena_printf(a, "idx[%s]", list_text(a, n, place)), x->dim[d]);
    return build_text(b, NULL, "x idx -> o", NULL, "o = x[%s]", list_text(a, x->rank, at));
}

/* Along all other axes an index addresses its own position, so there must not be more indices than
 * elements. */
static bool
beside_axis(Ctx *c, const OpCall *call, uint32_t axis)
{
    const Type *x = call->in[0], *index = call->in[1];

    for (uint32_t d = 0; d < x->rank; d++)
        if (d != axis && !op_require_le(c, call, index->dim[d], x->dim[d],
                                        "axis %u of the indices and of the data", d))
            return false;
    return true;
}

bool
infer_gather_elements(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    uint32_t axis;

    out[0] = type_with_dtype(c, call->in[1], x->dtype);
    return op_elements(c, call, 1, "i32 or i64") && op_rank_is(c, call, 1, x->rank) &&
           op_axis_attr(c, call, x->rank, &axis) && beside_axis(c, call, axis);
}

bool
expand_gather_elements(Build *b)
{
    const Type *x = b->call->in[0];
    const char *at[TN_MAX_RANK];
    uint32_t d = build_along_axis(b, x->rank);

    b->moves = true;
    names_from(0, x->rank, at);
    at[d] = index_into(b, 1, "idx[$i]", x->dim[d]);
    return build_text(b, NULL, "x idx -> o", NULL, "o = x[%s]",
                      list_text(b->c->arena, x->rank, at));
}

enum { ANY_REST = UINT16_MAX }; /* the ranks do not determine it */

/* The last axis of the indices holds tuples of `width` indices. If its size is symbolic, the width
 * follows from the ranks: 1 if only one axis is left to index; otherwise the number of data axes
 * that the updates, with `rest` axes after those of the tuples, lack. */
static bool
tuple_width(Ctx *c, const OpCall *call, uint32_t batch, uint32_t rest, uint32_t *width)
{
    const Type *x = call->in[0], *index = call->in[1];
    int64_t n;

    if (!op_elements(c, call, 1, "i32 or i64") || !op_rank_at_least(c, call, 1, batch + 1))
        return false;
    const Expr *size = expr_simplify(c, NULL, index->dim[index->rank - 1]);
    if (!expr_const(size, &n)) {
        n = x->rank == batch + 1u ? 1 : (int64_t)x->rank - rest;
        if (rest == ANY_REST && x->rank != batch + 1u)
            return op_fail(
                c, call, DIAG_UNSUPPORTED,
                "the last axis of input 1, %s, says how many axes of input 0, %s, are indexed, and "
                "its size is open. Give it a number (--dim), or declare the result's shape in the "
                "model",
                type_str(c, index), type_str(c, x));
        if (!op_require_eq(
                c, call, size, expr_int(c, n),
                "the last axis of the indices and the axes that the ranks say are indexed"))
            return false;
    }
    if (n < 1 || n > (int64_t)x->rank - batch)
        return op_fail(c, call, DIAG_MODEL,
                       "input 1, %s, holds tuples of %lld indices into input 0, %s",
                       type_str(c, index), (long long)n, type_str(c, x));
    *width = (uint32_t)n;
    return true;
}

bool
infer_gather_nd(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *index = call->in[1];
    const Expr *dim[2 * TN_MAX_RANK];
    uint32_t rank = 0, width;
    int64_t batch = op_int(call, "batch_dims");

    if (batch < 0 || batch >= x->rank || batch >= index->rank)
        return op_fail(c, call, DIAG_MODEL, "attribute \"batch_dims\" is %lld for inputs %s and %s",
                       (long long)batch, type_str(c, x), type_str(c, index));
    if (!tuple_width(c, call, (uint32_t)batch, ANY_REST, &width))
        return false;
    if (!op_require_dims(c, call, (uint32_t)batch, x->dim, index->dim,
                         "the batches of both inputs"))
        return false;
    for (uint32_t d = 0; d + 1 < index->rank; d++)
        dim[rank++] = index->dim[d];
    for (uint32_t d = (uint32_t)batch + width; d < x->rank; d++)
        dim[rank++] = x->dim[d];
    out[0] = type_new(c, x->dtype, rank, dim);
    return true;
}

/* Entry k of the tuple of indices at the first axes, as an index into n elements. */
static const char *
tuple_entry(Build *b, uint32_t k, const Expr *n)
{
    Arena *a = b->c->arena;
    uint32_t before = b->call->in[1]->rank - 1;
    const char *at[TN_MAX_RANK];

    names_from(0, before, at);
    at[before] = arena_printf(a, "%u", k);
    return arena_printf(a, "at(idx[%s], %s)", list_text(a, before + 1, at), build_index(b, n));
}

/* The index of an element of x whose dimensions batch .. batch + width come from a tuple. */
static const char *
tuple_index(Build *b, uint32_t batch, uint32_t width)
{
    const Type *x = b->call->in[0];
    uint32_t end = batch + width, before = b->call->in[1]->rank - 1;
    const char *at[TN_MAX_RANK];

    names_from(0, batch, at);
    for (uint32_t k = 0; k < width; k++)
        at[batch + k] = tuple_entry(b, k, x->dim[batch + k]);
    names_from(before, x->rank - end, at + end);
    return list_text(b->c->arena, x->rank, at);
}

bool
expand_gather_nd(Build *b)
{
    uint32_t batch = (uint32_t)op_int(b->call, "batch_dims"), width;

    b->moves = true;
    return tuple_width(b->c, b->call, batch, ANY_REST, &width) &&
           build_text(b, NULL, "x idx -> o", NULL, "o = x[%s]", tuple_index(b, batch, width));
}

/* ---- scatter --------------------------------------------------------------------------------- */

static bool
scatter_combiner(Ctx *c, const OpCall *call, Combiner *k)
{
    static const struct {
        const char *name;
        Combiner combiner;
    } row[] = {
        { "none", COMB_LAST }, { "add", COMB_SUM }, { "mul", COMB_PROD },
        { "max", COMB_MAX },   { "min", COMB_MIN },
    };
    const char *wanted = op_string(c, call, "reduction");
    size_t i = 0;

    while (i + 1 < sizeof row / sizeof *row && strcmp(row[i].name, wanted))
        i++;
    *k = row[i].combiner;
    return *k == COMB_LAST || call->in[0]->dtype != DT_STR ||
           op_fail(c, call, DIAG_MODEL,
                   "input 0 is %s; attribute \"reduction\" is \"%s\", which takes numbers",
                   type_str(c, call->in[0]), wanted);
}

/* Writes the updates, over their own axes, at index `at` of the output. */
static bool
scatter(Build *b, Combiner k, const char *at)
{
    Arena *a = b->c->arena;
    const Type *u = b->call->in[2];
    const char *name[TN_MAX_RANK], *axis[TN_MAX_RANK];

    b->moves = true;
    names_from(0, u->rank, name);
    for (uint32_t d = 0; d < u->rank; d++)
        axis[d] = arena_printf(a, "%s<%s>", name[d], build_index(b, u->dim[d]));
    return build_text(b, NULL, "x idx u -> o", NULL, "%s%s%so[%s] %s= u[%s] over x",
                      u->rank ? "for " : "", list_text(a, u->rank, axis), u->rank ? ": " : "", at,
                      combiner_name[k], list_text(a, u->rank, name));
}

bool
infer_scatter_elements(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    uint32_t axis;
    Combiner k;

    if (!op_elements(c, call, 1, "i32 or i64") || !op_same_dtype(c, call, 0, 2) ||
        !op_rank_is(c, call, 1, x->rank) || !op_rank_is(c, call, 2, x->rank) ||
        !op_axis_attr(c, call, x->rank, &axis) || !scatter_combiner(c, call, &k) ||
        !op_require_dims(c, call, x->rank, call->in[1]->dim, call->in[2]->dim,
                         "the indices and of the updates") ||
        !beside_axis(c, call, axis))
        return false;
    out[0] = x;
    return true;
}

bool
expand_scatter_elements(Build *b)
{
    Arena *a = b->c->arena;
    const Type *x = b->call->in[0];
    const char *at[TN_MAX_RANK];
    uint32_t d = build_along_axis(b, x->rank);
    Combiner k;

    if (!scatter_combiner(b->c, b->call, &k))
        return false;
    names_from(0, x->rank, at);
    at[d] = index_into(b, 1, arena_printf(a, "idx[%s]", list_text(a, x->rank, at)), x->dim[d]);
    return scatter(b, k, list_text(a, x->rank, at));
}

/* The number of update axes after those of the tuples. */
static uint32_t
rest_of(const OpCall *call)
{
    uint32_t tuples = call->in[1]->rank ? call->in[1]->rank - 1u : 0;

    return call->in[2]->rank > tuples ? call->in[2]->rank - tuples : 0;
}

bool
infer_scatter_nd(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *index = call->in[1], *u = call->in[2];
    uint32_t width;
    Combiner k;

    if (!tuple_width(c, call, 0, rest_of(call), &width) || !op_same_dtype(c, call, 0, 2) ||
        !scatter_combiner(c, call, &k) ||
        !op_rank_is(c, call, 2, index->rank - 1 + x->rank - width))
        return false;
    for (uint32_t d = 0; d < u->rank; d++) {
        const Expr *dim =
            d + 1 < index->rank ? index->dim[d] : x->dim[width + d - (index->rank - 1)];
        if (!op_require_eq(c, call, u->dim[d], dim,
                           "axis %u of the updates and what indices and data give", d))
            return false;
    }
    out[0] = x;
    return true;
}

bool
expand_scatter_nd(Build *b)
{
    uint32_t width;
    Combiner k;

    return tuple_width(b->c, b->call, 0, rest_of(b->call), &width) &&
           scatter_combiner(b->c, b->call, &k) && scatter(b, k, tuple_index(b, 0, width));
}

/* ---- one_hot --------------------------------------------------------------------------------- */

bool
infer_one_hot(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *index = call->in[0];
    const Expr *dim[TN_MAX_RANK + 1];
    uint32_t axis;
    Known depth;
    double given;
    uint32_t n = 1;

    if (!op_axis_attr(c, call, index->rank + 1, &axis) || !op_rank_is(c, call, 2, 1) ||
        !op_require_eq(c, call, call->in[2]->dim[0], expr_int(c, 2),
                       "the elements of input 2 and the values off and on"))
        return false;
    if (dtype_is_float(call->in[1]->dtype)) {
        if (!op_param_floats(c, call, 1, "depth", 1, &given, &n))
            return false;
    } else if (!op_param(c, call, 1, "depth", &depth)) {
        return false;
    } else {
        n = depth.n;
    }
    if (n != 1)
        return op_fail(c, call, DIAG_MODEL, "input 1 (depth) has %u elements; one is needed", n);
    if (dtype_is_float(call->in[1]->dtype) && !(given >= 0 && given < 0x1p53))
        return op_fail(c, call, DIAG_MODEL,
                       "input 1 (depth) is %g; a number of elements is needed, below 2^53", given);
    for (uint32_t d = 0, from = 0; d < index->rank + 1u; d++)
        if (d != axis)
            dim[d] = index->dim[from++];
        else
            dim[d] = dtype_is_float(call->in[1]->dtype) ? expr_int(c, (int64_t)given) : depth.at[0];
    out[0] = type_new(c, call->in[2]->dtype, index->rank + 1, dim);
    return true;
}

/* `on` where the index, counted from the end if negative, equals the position along the new
 * axis. */
bool
expand_one_hot(Build *b)
{
    const char *at[TN_MAX_RANK];
    uint32_t rank = b->call->in[0]->rank, d = build_along_axis(b, rank + 1);

    b->moves = true;
    names_from(0, d, at);
    names_from(d + 1, rank - d, at + d);
    build_name(b, "depth", b->out[0]->dim[d]);
    return build_text(b, NULL, "idx values -> o", (uint32_t[]){ 0, 2, build_out(b, 0) },
                      "o = let v = i64(idx[%s]) in let place = v < 0 ? v + depth : v in "
                      "place == %s ? values[1] : values[0]",
                      list_text(b->c->arena, rank, at), build_axis_name(d));
}
