/* move: operators that permute elements by a fixed map: transpose, tile, blocks, triangles. */
#include "op/build.h"

#include <string.h>

/* ---- transpose ------------------------------------------------------------------------------- */

/* Absent: the axes reversed. Negative entries count from the back. */
void
op_permutation(Attrs attrs, uint32_t rank, uint32_t *perm)
{
    const Attr *given = attr_find(attrs, "perm");

    for (uint32_t d = 0; d < rank; d++) {
        int64_t axis = given ? given->ints[d] : rank - 1 - d;
        perm[d] = (uint32_t)(axis < 0 ? axis + rank : axis);
    }
}

static bool
is_permutation(Ctx *c, const OpCall *call)
{
    const Attr *given = attr_find(call->attrs, "perm");
    uint32_t rank = call->in[0]->rank, axis;
    uint64_t seen = 0;

    if (given && (given->kind != ATTR_INTS || given->n != rank))
        return op_fail(c, call, DIAG_MODEL, "attribute \"perm\" has %u entries, input 0 is %s",
                       given->kind == ATTR_INTS ? given->n : 0, type_str(c, call->in[0]));
    for (uint32_t d = 0; given && d < rank; d++) {
        if (!op_axis(c, call, "an entry of perm", given->ints[d], rank, &axis))
            return false;
        if (seen >> axis & 1)
            return op_fail(c, call, DIAG_MODEL, "attribute \"perm\" names axis %u twice", axis);
        seen |= UINT64_C(1) << axis;
    }
    return true;
}

bool
infer_transpose(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t perm[TN_MAX_RANK];

    if (!is_permutation(c, call))
        return false;
    op_permutation(call->attrs, call->in[0]->rank, perm);
    for (uint32_t d = 0; d < call->in[0]->rank; d++)
        dim[d] = call->in[0]->dim[perm[d]];
    out[0] = type_new(c, call->in[0]->dtype, call->in[0]->rank, dim);
    return true;
}

bool
expand_transpose(Build *b)
{
    uint32_t perm[TN_MAX_RANK];
    const Expr *at[TN_MAX_RANK];

    op_permutation(b->call->attrs, b->out[0]->rank, perm);
    for (uint32_t d = 0; d < b->out[0]->rank; d++)
        at[perm[d]] = build_axis(b, d);
    return build_move(b, 0, build_out(b, 0), at);
}

/* ---- expand, tile ---------------------------------------------------------------------------- */

bool
infer_expand(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Known shape;

    if (!op_param_shape(c, call, 1, &shape))
        return false;
    uint32_t rank = shape.n > x->rank ? shape.n : x->rank;
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t skip_x = rank - x->rank, skip_s = rank - shape.n;
        const Expr *a = d < skip_x ? expr_int(c, 1) : x->dim[d - skip_x];
        const Expr *s = d < skip_s ? expr_int(c, 1) : shape.at[d - skip_s];
        dim[d] = op_broadcast_dim(c, call, a, s, "axis %u of input 0 (%s) and of the shape", d,
                                  type_str(c, x));
        if (!dim[d])
            return false;
    }
    out[0] = type_new(c, x->dtype, rank, dim);
    return true;
}

bool
expand_expand(Build *b)
{
    return build_text(b, NULL, "x -> o", NULL, "o = x");
}

bool
infer_tile(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Known repeats;

    if (!op_param_list(c, call, 1, "repeats", x->rank, &repeats))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (expr_le(c, NULL, expr_int(c, 0), repeats.at[d]) == NO)
            return op_fail(c, call, DIAG_MODEL,
                           "input 1 (repeats) is %s at %u; it may not be negative",
                           expr_str(c, repeats.at[d]), d);
        dim[d] = expr_mul(c, x->dim[d], repeats.at[d]);
    }
    out[0] = type_new(c, x->dtype, x->rank, dim);
    return true;
}

bool
expand_tile(Build *b)
{
    const Type *x = b->call->in[0];
    const Expr *at[TN_MAX_RANK];

    for (uint32_t d = 0; d < x->rank; d++) {
        at[d] = build_axis(b, d);
        if (!expr_is(b->call->known[1].at[d], 1))
            at[d] = expr_mod(b->c, at[d], x->dim[d]);
    }
    return build_move(b, 0, build_out(b, 0), at);
}

/* ---- depth and space ------------------------------------------------------------------------- */

static bool
block_size(Ctx *c, const OpCall *call, int64_t *block)
{
    *block = op_int(call, "blocksize");
    if (*block < 1 || *block > 1 << 20) /* so that its square does not overflow */
        return op_fail(c, call, DIAG_MODEL, "attribute \"blocksize\" is %lld; 1 to %d are possible",
                       (long long)*block, 1 << 20);
    return op_rank_is(c, call, 0, 4);
}

/* e / k; must be exact. */
static const Expr *
exact_part(Ctx *c, const OpCall *call, uint32_t axis, int64_t k)
{
    const Expr *e = call->in[0]->dim[axis], *by = expr_int(c, k), *exact = expr_exact_div(c, e, by);
    if (exact)
        return exact;
    const Expr *q = expr_div(c, e, by);
    const char *what = arena_printf(c->arena, "axis %u of %s and a multiple of %lld", axis,
                                    type_str(c, call->in[0]), (long long)k);
    return op_require_eq(c, call, e, expr_scale(c, q, k), "%s", what) ? q : NULL;
}

bool
infer_depth_to_space(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    int64_t k;

    if (!block_size(c, call, &k))
        return false;
    const Expr *dim[4] = { x->dim[0], exact_part(c, call, 1, k * k), expr_scale(c, x->dim[2], k),
                           expr_scale(c, x->dim[3], k) };
    if (!dim[1])
        return false;
    out[0] = type_new(c, x->dtype, 4, dim);
    return true;
}

/* k % n * n + l % n is the index in a block of n*n elements. */
bool
expand_depth_to_space(Build *b)
{
    long long n = op_int(b->call, "blocksize");

    build_name(b, "channels", b->out[0]->dim[1]);
    build_word(b, "block", arena_printf(b->c->arena, "(k %% %lld * %lld + l %% %lld)", n, n, n));
    return build_text(b, NULL, "x -> o", NULL, "o = x[i, %s, k // %lld, l // %lld]",
                      op_string_is(b->call, "mode", "DCR")
                          ? "$block * channels + j"
                          : arena_printf(b->c->arena, "j * %lld + $block", n * n),
                      n, n);
}

bool
infer_space_to_depth(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    int64_t k;

    if (!block_size(c, call, &k))
        return false;
    const Expr *dim[4] = { x->dim[0], expr_scale(c, x->dim[1], k * k), exact_part(c, call, 2, k),
                           exact_part(c, call, 3, k) };
    if (!dim[2] || !dim[3])
        return false;
    out[0] = type_new(c, x->dtype, 4, dim);
    return true;
}

bool
expand_space_to_depth(Build *b)
{
    long long n = op_int(b->call, "blocksize");
    bool columns = op_string_is(b->call, "mode", "CRD"); /* blocks within channels */

    build_name(b, "channels", b->call->in[0]->dim[1]);
    build_name(b, "points", expr_int(b->c, n * n));
    return columns ? build_text(b, NULL, "x -> o", NULL,
                                "o = x[i, j // points, k * %lld + j %% points // %lld, "
                                "l * %lld + j %% points %% %lld]",
                                n, n, n, n)
                   : build_text(b, NULL, "x -> o", NULL,
                                "o = x[i, j %% channels, k * %lld + j // channels // %lld, "
                                "l * %lld + j // channels %% %lld]",
                                n, n, n, n);
}

/* ---- trilu, reverse_sequence ----------------------------------------------------------------- */

/* The upper triangle keeps elements with column - row >= k, the lower those with column - row <=
 * k. */
bool
expand_trilu(Build *b)
{
    uint32_t rank = b->out[0]->rank;
    const Type *given = has_in(b->call, 1) ? b->call->in[1] : NULL;

    b->moves = true;
    if (!op_rank_at_least(b->c, b->call, 0, 2))
        return false;
    if (given && (!dtype_is_int(given->dtype) || !expr_is(type_count(b->c, given), 1)))
        return op_fail(b->c, b->call, DIAG_MODEL, "input 1 (k) is %s; it is one integer",
                       type_str(b->c, given));
    return build_text(b, NULL, "x diagonal? -> o", NULL, "o = index(%s - %s) %s %s ? x[$i] : 0",
                      build_axis_name(rank - 1), build_axis_name(rank - 2),
                      op_int(b->call, "upper") ? ">=" : "<=", given ? "i64(diagonal[])" : "0");
}

static bool
sequence_axes(Ctx *c, const OpCall *call, uint32_t *batch, uint32_t *time)
{
    uint32_t rank = call->in[0]->rank;

    return op_axis(c, call, "batch_axis", op_int(call, "batch_axis"), rank, batch) &&
           op_axis(c, call, "time_axis", op_int(call, "time_axis"), rank, time);
}

bool
infer_reverse_sequence(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0], *length = call->in[1];
    uint32_t batch, time;

    out[0] = x;
    if (!sequence_axes(c, call, &batch, &time) || !op_rank_is(c, call, 1, 1) ||
        !op_elements(c, call, 1, "integers"))
        return false;
    return op_require_eq(c, call, length->dim[0], x->dim[batch],
                         "the number of lengths and of sequences");
}

/* A length below 0 makes the read fail: its index is out of bounds. */
bool
expand_reverse_sequence(Build *b)
{
    const char *at[TN_MAX_RANK];
    uint32_t batch, time, rank = b->out[0]->rank;

    if (!sequence_axes(b->c, b->call, &batch, &time))
        return false;
    for (uint32_t d = 0; d < rank; d++)
        at[d] = build_axis_name(d);
    at[time] = arena_printf(b->c->arena, "at(n < 0 ? index(n - steps) : index(n - 1 - %s), steps)",
                            at[time]);
    build_name(b, "steps", b->call->in[0]->dim[time]);
    return build_text(b, NULL, "x lengths -> o", NULL,
                      "o = let n = index(lengths[%s]) in or(%s < n, n < 0) ? x[%s] : x[$i]",
                      build_axis_name(batch), build_axis_name(time),
                      list_text(b->c->arena, rank, at));
}
