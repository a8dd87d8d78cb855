/* routine: operators whose meaning is a function in C (src/routine): the types of what they give. */
#include "op/internal.h"

bool
expand_routine(Build *b)
{
    return op_fail(b->c, b->call, DIAG_INTERNAL, "is a routine; it has no nests");
}

static const Type *
list_of(Ctx *c, DType t, const Expr *n)
{
    return type_new(c, t, 1, &n);
}

static bool
is_ordered(Ctx *c, const OpCall *call, uint32_t i)
{
    DType t = call->in[i]->dtype;

    if (dtype_info[t].bits == dtype_info[t].bytes * 8 && (!dtype_is_float(t) || dtype_info[t].bytes > 1))
        return true;
    return op_fail(c, call, DIAG_UNSUPPORTED, "input %u is %s; numbers of 16 bits or more and integers of 8 are possible", i, type_str(c, call->in[i]));
}

/* Input i is absent or one number of type t. */
static bool
is_number(Ctx *c, const OpCall *call, uint32_t i, DType t, const char *what)
{
    if (!has_in(call, i) || (call->in[i]->dtype == t && expr_is(type_count(c, call->in[i]), 1)))
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s; one %s is needed", i, what, type_str(c, call->in[i]), dtype_info[t].name);
}

bool
infer_top_k(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    uint32_t axis;
    Known k;

    if (!is_ordered(c, call, 0) || !op_rank_at_least(c, call, 0, 1) || !op_axis_attr(c, call, x->rank, &axis) || !op_param(c, call, 1, "k", &k))
        return false;
    if (k.n != 1)
        return op_fail(c, call, DIAG_MODEL, "input 1 (k) is %s; it has one number", type_str(c, call->in[1]));
    if (expr_le(c, NULL, k.at[0], x->dim[axis]) == NO)
        return op_fail(c, call, DIAG_MODEL, "k is %s, and axis %u of input 0 has %s elements", expr_str(c, k.at[0]), axis, expr_str(c, x->dim[axis]));
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d] = d == axis ? k.at[0] : x->dim[d];
    out[0] = type_new(c, x->dtype, x->rank, dim);
    if (call->nout > 1)
        out[1] = type_with_dtype(c, out[0], DT_I64);
    return true;
}

bool
infer_non_max_suppression(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *boxes = call->in[0], *scores = call->in[1];
    int64_t most = op_int(call, "most");

    if (!op_rank_is(c, call, 0, 3) || !op_rank_is(c, call, 1, 3) || !is_number(c, call, 2, DT_I64, "most boxes of a class")
        || !is_number(c, call, 3, DT_F32, "overlap") || !is_number(c, call, 4, DT_F32, "least score"))
        return false;
    if (boxes->dtype != DT_F32 || scores->dtype != DT_F32)
        return op_fail(c, call, DIAG_MODEL, "boxes are %s and scores %s; f32 is needed", type_str(c, boxes), type_str(c, scores));
    if (!op_require_eq(c, call, boxes->dim[0], scores->dim[0], "images of boxes and of scores")
        || !op_require_eq(c, call, boxes->dim[1], scores->dim[2], "numbers of boxes and of scores")
        || !op_require_eq(c, call, boxes->dim[2], expr_int(c, 4), "numbers of a box"))
        return false;
    const Expr *each = most < 0 ? boxes->dim[1] : expr_min(c, boxes->dim[1], expr_int(c, most));
    const Expr *dim[2] = { expr_mul(c, expr_mul(c, scores->dim[0], scores->dim[1]), each), expr_int(c, 3) };
    out[0] = type_new(c, DT_I64, 2, dim);
    if (call->nout > 1)
        out[1] = list_of(c, DT_I64, expr_int(c, 1));
    return true;
}

bool
infer_unique(Ctx *c, const OpCall *call, const Type **out)
{
    if (!is_ordered(c, call, 0) || !op_rank_is(c, call, 0, 2))
        return false;
    for (uint32_t i = 0; i < call->nout; i++)
        out[i] = list_of(c, DT_I64, i == 3 ? expr_int(c, 1) : call->in[0]->dim[0]);
    return true;
}
