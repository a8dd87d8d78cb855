/* move: operators that only say where each output element comes from. */
#include "op/internal.h"

#include <string.h>

/* o[axes] = x[at]: the frame of most of these. */
typedef struct {
    Making m;
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
} Move;

static void
move_begin(Build *b, Move *v)
{
    v->m = make_begin(b, NULL);
    make_in(&v->m, "x", 0);
    make_out(&v->m, "o", build_out(b, 0));
    make_axes(&v->m, build_out(b, 0), v->axis);
}

static bool
move_end(Move *v)
{
    make_write(&v->m, 0, v->axis, make_load(&v->m, 0, v->at));
    return make_end(&v->m);
}

/* ---- transpose ------------------------------------------------------------------------------- */

/* perm[d] is the input's axis that becomes the output's axis d. */
static bool
permutation(Ctx *c, const OpCall *call, uint32_t *perm)
{
    const Attr *given = attr_find(call->attrs, "perm");
    uint32_t rank = call->in[0]->rank;
    uint64_t seen = 0;

    if (given && (given->kind != ATTR_INTS || given->n != rank))
        return op_fail(c, call, DIAG_MODEL, "attribute \"perm\" has %u entries, input 0 is %s",
                       given->kind == ATTR_INTS ? given->n : 0, type_str(c, call->in[0]));
    for (uint32_t d = 0; d < rank; d++) {
        perm[d] = rank - 1 - d;
        if (given && !op_axis(c, call, "an entry of perm", given->ints[d], rank, &perm[d]))
            return false;
        if (seen >> perm[d] & 1)
            return op_fail(c, call, DIAG_MODEL, "attribute \"perm\" names axis %u twice", perm[d]);
        seen |= UINT64_C(1) << perm[d];
    }
    return true;
}

bool
infer_transpose(Ctx *c, const OpCall *call, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t perm[TN_MAX_RANK];

    if (!permutation(c, call, perm))
        return false;
    for (uint32_t d = 0; d < call->in[0]->rank; d++)
        dim[d] = call->in[0]->dim[perm[d]];
    out[0] = type_new(c, call->in[0]->dtype, call->in[0]->rank, dim);
    return true;
}

bool
expand_transpose(Build *b)
{
    uint32_t perm[TN_MAX_RANK];
    Move v;

    if (!permutation(b->c, b->call, perm))
        return false;
    move_begin(b, &v);
    for (uint32_t d = 0; d < b->out[0]->rank; d++)
        v.at[perm[d]] = v.axis[d];
    return move_end(&v);
}

/* ---- expand, tile ---------------------------------------------------------------------------- */

bool
infer_expand(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Known shape;

    if (!op_rank_is(c, call, 1, 1) || !op_param(c, call, 1, "shape", &shape))
        return false;
    if (shape.n > TN_MAX_RANK)
        return op_fail(c, call, DIAG_LIMIT, "the new shape has %u dimensions, more than %d",
                       shape.n, TN_MAX_RANK);
    uint32_t rank = shape.n > x->rank ? shape.n : x->rank;
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t skip_x = rank - x->rank, skip_s = rank - shape.n;
        const Expr *a = d < skip_x ? expr_int(c, 1) : x->dim[d - skip_x];
        const Expr *s = d < skip_s ? expr_int(c, 1) : shape.at[d - skip_s];
        dim[d] = op_broadcast_dim(
            c, call, a, s,
            arena_printf(c->arena, "axis %u of input 0 (%s) and of the shape", d, type_str(c, x)));
        if (!dim[d])
            return false;
    }
    out[0] = type_new(c, x->dtype, rank, dim);
    return true;
}

bool
expand_expand(Build *b)
{
    Move v;

    move_begin(b, &v);
    make_write(&v.m, 0, v.axis, make_load_broadcast(&v.m, 0, b->out[0]->rank, v.axis));
    return make_end(&v.m);
}

bool
infer_tile(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    Known repeats;

    if (!op_param(c, call, 1, "repeats", &repeats))
        return false;
    if (repeats.n != x->rank)
        return op_fail(c, call, DIAG_MODEL, "input 1 (repeats) has %u elements, input 0 is %s",
                       repeats.n, type_str(c, x));
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
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    Move v;

    move_begin(b, &v);
    for (uint32_t d = 0; d < x->rank; d++)
        v.at[d] =
            expr_is(b->call->known[1].at[d], 1) ? v.axis[d] : expr_mod(c, v.axis[d], x->dim[d]);
    return move_end(&v);
}

/* ---- depth and space ------------------------------------------------------------------------- */

static bool
block_size(Ctx *c, const OpCall *call, int64_t *block)
{
    *block = op_int(call, "blocksize");
    if (*block < 1 || *block > 1 << 20) /* its square is computed with */
        return op_fail(c, call, DIAG_MODEL, "attribute \"blocksize\" is %lld; 1 to %d are possible",
                       (long long)*block, 1 << 20);
    return op_rank_is(c, call, 0, 4);
}

/* e / k, which must be exact. */
static const Expr *
exact_part(Ctx *c, const OpCall *call, uint32_t axis, int64_t k)
{
    const Expr *e = call->in[0]->dim[axis], *by = expr_int(c, k), *exact = expr_exact_div(c, e, by);
    if (exact)
        return exact;
    const Expr *q = expr_div(c, e, by);
    const char *what = arena_printf(c->arena, "axis %u of %s and a multiple of %lld", axis,
                                    type_str(c, call->in[0]), (long long)k);
    return op_require_eq(c, call, e, expr_scale(c, q, k), what) ? q : NULL;
}

bool
infer_depth_to_space(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    int64_t k;

    if (!block_size(c, call, &k))
        return false;
    if (!op_string_is(call, "mode", "DCR") && !op_string_is(call, "mode", "CRD"))
        return op_fail(c, call, DIAG_MODEL, "attribute \"mode\" is \"%s\"; DCR and CRD exist",
                       op_string(c, call, "mode"));
    const Expr *dim[4] = { x->dim[0], exact_part(c, call, 1, k * k), expr_scale(c, x->dim[2], k),
                           expr_scale(c, x->dim[3], k) };
    if (!dim[1])
        return false;
    out[0] = type_new(c, x->dtype, 4, dim);
    return true;
}

bool
expand_depth_to_space(Build *b)
{
    Ctx *c = b->c;
    int64_t k = op_int(b->call, "blocksize");
    const Expr *by = expr_int(c, k);
    Move v;

    move_begin(b, &v);
    const Expr *y = expr_mod(c, v.axis[2], by), *x = expr_mod(c, v.axis[3], by);
    /* which of the k*k elements of a block */
    const Expr *block = expr_add(c, expr_scale(c, y, k), x);
    v.at[0] = v.axis[0];
    v.at[1] = op_string_is(b->call, "mode", "DCR")
                  ? expr_add(c, expr_mul(c, block, b->out[0]->dim[1]), v.axis[1])
                  : expr_add(c, expr_scale(c, v.axis[1], k * k), block);
    v.at[2] = expr_div(c, v.axis[2], by);
    v.at[3] = expr_div(c, v.axis[3], by);
    return move_end(&v);
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
    Ctx *c = b->c;
    int64_t k = op_int(b->call, "blocksize");
    const Expr *channels = b->call->in[0]->dim[1], *by = expr_int(c, k);
    Move v;

    move_begin(b, &v);
    bool columns = op_string_is(b->call, "mode", "CRD"); /* blocks within channels */
    const Expr *points = expr_int(c, k * k),
               *block = columns ? expr_mod(c, v.axis[1], points) : expr_div(c, v.axis[1], channels);
    v.at[0] = v.axis[0];
    v.at[1] = columns ? expr_div(c, v.axis[1], points) : expr_mod(c, v.axis[1], channels);
    v.at[2] = expr_add(c, expr_scale(c, v.axis[2], k), expr_div(c, block, by));
    v.at[3] = expr_add(c, expr_scale(c, v.axis[3], k), expr_mod(c, block, by));
    return move_end(&v);
}

/* ---- trilu, reverse_sequence ----------------------------------------------------------------- */

/* The upper triangle keeps elements with column - row >= k, the lower those with column - row <=
 * k. */
bool
expand_trilu(Build *b)
{
    Ctx *c = b->c;
    const Expr *zero[TN_MAX_RANK];
    uint32_t rank = b->out[0]->rank;
    Move v;

    if (!op_rank_at_least(c, b->call, 0, 2))
        return false;
    const Type *given = has_in(b->call, 1) ? b->call->in[1] : NULL;
    if (given && (!dtype_is_int(given->dtype) || !expr_is(type_count(c, given), 1)))
        return op_fail(c, b->call, DIAG_MODEL, "input 1 (k) is %s; it is one integer",
                       type_str(c, given));
    move_begin(b, &v);
    const Scalar *k = scalar_int(c, DT_I64, 0);
    if (given) {
        for (uint32_t d = 0; d < TN_MAX_RANK; d++)
            zero[d] = expr_int(c, 0);
        k = scalar_cast(c, DT_I64, nest_load(&v.m.nb, make_in(&v.m, "k", 1), zero));
    }
    const Scalar *x = nest_load(&v.m.nb, 0, v.axis);
    const Scalar *diagonal = scalar_index(c, expr_sub(c, v.axis[rank - 1], v.axis[rank - 2]));
    const Scalar *keep = scalar_2(c, op_int(b->call, "upper") ? S_GE : S_LE, diagonal, k);
    make_write(&v.m, 0, v.axis, scalar_select(c, keep, x, scalar_number(c, b->out[0]->dtype, 0)));
    return make_end(&v.m);
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
    if (!sequence_axes(c, call, &batch, &time) || !op_rank_is(c, call, 1, 1))
        return false;
    if (!dtype_is_int(length->dtype))
        return op_fail(c, call, DIAG_MODEL, "input 1 is %s; lengths are integers",
                       type_str(c, length));
    return op_require_eq(c, call, length->dim[0], x->dim[batch],
                         "the number of lengths and of sequences");
}

bool
expand_reverse_sequence(Build *b)
{
    Ctx *c = b->c;
    uint32_t batch, time;
    Move v;

    if (!sequence_axes(c, b->call, &batch, &time))
        return false;
    move_begin(b, &v);
    const Expr *length =
        expr_computed(c, nest_load(&v.m.nb, make_in(&v.m, "lengths", 1), &v.axis[batch]));
    memcpy(v.at, v.axis, sizeof v.at);
    const Expr *n = b->call->in[0]->dim[time],
               *from = expr_sub(c, expr_offset(c, length, -1), v.axis[time]);
    /* is read where there is nothing */
    const Scalar *wrong = scalar_2(c, S_LT, scalar_index(c, length), scalar_int(c, DT_I64, 0));
    const Scalar *inside = scalar_2(
        c, S_OR, scalar_2(c, S_LT, scalar_index(c, v.axis[time]), scalar_index(c, length)), wrong);
    v.at[time] =
        expr_computed(c, scalar_at(c,
                                   scalar_select(c, wrong, scalar_index(c, expr_sub(c, length, n)),
                                                 scalar_index(c, from)),
                                   n));
    make_write(&v.m, 0, v.axis,
               scalar_select(c, inside, make_load(&v.m, 0, v.at), make_load(&v.m, 0, v.axis)));
    return make_end(&v.m);
}
