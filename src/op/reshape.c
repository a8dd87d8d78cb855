/* reshape: operators that keep the row-major order of elements and change only the dimensions. One
 * expansion serves all: relayout.
 *
 * Both shapes are split from the left into groups of dimensions with equal products, as short as
 * can be proved: [b, s, 768] to [b, s, 12, 64] is b | s | 768 to 12*64. In a group the output index
 * is linearised and split again, so a group with one input dimension needs no division.
 */
#include "op/build.h"

/* ---- types ----------------------------------------------------------------------------------- */

/* The dimension that -1 stands for: the number of elements over the product of the others. */
static const Expr *
missing_dim(Ctx *c, const OpCall *call, const Expr *count, const Expr *others)
{
    count = expr_simplify(c, NULL, count);
    others = expr_simplify(c, NULL, others);
    if (expr_is(others, 0))
        return expr_int(c, 0);
    const Expr *exact = expr_exact_div(c, count, others);
    if (exact)
        return exact;
    const Expr *quotient = expr_div(c, count, others);
    const char *what =
        arena_printf(c->arena, "the elements of %s and what the shape's other dimensions divide",
                     type_str(c, call->in[0]));
    return op_require_eq(c, call, count, expr_mul(c, quotient, others), "%s", what) ? quotient
                                                                                    : NULL;
}

/* A copied dimension cancels against itself, so that quotients stay exact. */
bool
infer_reshape(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK], *count = expr_int(c, 1), *others = expr_int(c, 1);
    bool copied[TN_MAX_RANK] = { false }, copy_zero = !op_int(call, "allowzero");
    int missing = -1;
    Known shape;

    if (!op_param_shape(c, call, 1, &shape))
        return false;
    for (uint32_t d = 0; d < shape.n; d++) {
        dim[d] = shape.at[d];
        if (expr_is(dim[d], -1)) {
            if (missing >= 0)
                return op_fail(c, call, DIAG_MODEL,
                               "the new shape has -1 at %d and at %u; one is allowed", missing, d);
            missing = (int)d;
            continue;
        }
        if (expr_is(dim[d], 0) && copy_zero) {
            if (d >= x->rank)
                return op_fail(c, call, DIAG_MODEL,
                               "the new shape copies axis %u, but input 0 is %s", d,
                               type_str(c, x));
            dim[d] = x->dim[d];
            copied[d] = true;
        } else if (d < x->rank && dim[d] == x->dim[d] && !expr_is(dim[d], 0)) {
            copied[d] = true;
        }
        if (expr_le(c, NULL, expr_int(c, 0), dim[d]) == NO)
            return op_fail(c, call, DIAG_MODEL, "entry %u of the new shape is %s", d,
                           expr_str(c, dim[d]));
        if (!copied[d])
            others = expr_mul(c, others, dim[d]);
    }
    for (uint32_t d = 0; d < x->rank; d++)
        if (d >= shape.n || !copied[d])
            count = expr_mul(c, count, x->dim[d]);
    if (missing >= 0) {
        dim[missing] = missing_dim(c, call, count, others);
        if (!dim[missing])
            return false;
    } else if (!op_require_eq(c, call, count, others, "elements of %s and of the new shape %s",
                              type_str(c, x), type_str(c, type_new(c, x->dtype, shape.n, dim)))) {
        return false;
    }
    out[0] = type_new(c, x->dtype, shape.n, dim);
    return true;
}

bool
infer_flatten(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[2] = { expr_int(c, 1), expr_int(c, 1) };
    int64_t axis = op_int(call, "axis");

    if (axis < -(int64_t)x->rank || axis > x->rank)
        return op_fail(c, call, DIAG_MODEL, "axis is %lld, input 0 is %s", (long long)axis,
                       type_str(c, x));
    if (axis < 0)
        axis += x->rank;
    for (uint32_t d = 0; d < x->rank; d++)
        dim[d >= axis] = expr_mul(c, dim[d >= axis], x->dim[d]);
    out[0] = type_new(c, x->dtype, 2, dim);
    return true;
}

bool
infer_squeeze(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[TN_MAX_RANK];
    uint64_t drop;
    uint32_t rank = 0;

    if (!op_axes_input(c, call, 1, x->rank, &drop))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool listed = drop >> d & 1, one = expr_is(x->dim[d], 1);
        if (listed && !op_require_eq(c, call, x->dim[d], expr_int(c, 1),
                                     "axis %u of %s, which is squeezed, and 1", d, type_str(c, x)))
            return false;
        if (!(has_in(call, 1) ? listed : one))
            dim[rank++] = x->dim[d];
    }
    out[0] = type_new(c, x->dtype, rank, dim);
    return true;
}

bool
infer_unsqueeze(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];
    const Expr *dim[2 * TN_MAX_RANK];
    Known axes;
    uint64_t fresh;

    if (!op_param(c, call, 1, "axes", &axes))
        return false;
    if (!op_axes_input(c, call, 1, x->rank + axes.n, &fresh))
        return false;
    if ((uint32_t)__builtin_popcountll(fresh) != axes.n)
        return op_fail(c, call, DIAG_MODEL, "input 1 (axes) names an axis twice");
    for (uint32_t d = 0, from = 0; d < x->rank + axes.n; d++)
        dim[d] = fresh >> d & 1 ? expr_int(c, 1) : x->dim[from++];
    out[0] = type_new(c, x->dtype, x->rank + axes.n, dim);
    return true;
}

/* ---- expansion ------------------------------------------------------------------------------- */

/* A run of dimensions with its product so far. */
typedef struct {
    uint32_t first, end;
    const Expr *product;
} DimRun;

static void
extend(Ctx *c, const Type *t, DimRun *r)
{
    if (r->end < t->rank) {
        const Expr *d = t->dim[r->end++];
        r->product = r->product ? expr_simplify(c, NULL, expr_mul(c, r->product, d)) : d;
    }
}

/* Extends the shorter of two runs; both, if it is unknown which is shorter. */
static void
balance(Ctx *c, const Type *x, const Type *o, DimRun *in, DimRun *out)
{
    bool in_shorter = expr_exact_div(c, out->product, in->product) ||
                      expr_le(c, NULL, in->product, out->product) == YES;
    bool out_shorter = expr_exact_div(c, in->product, out->product) ||
                       expr_le(c, NULL, out->product, in->product) == YES;

    if ((in_shorter || !out_shorter) && in->end < x->rank)
        extend(c, x, in);
    else if (out->end < o->rank)
        extend(c, o, out);
    else
        extend(c, x, in);
}

/* Input indices of one group from the output's axes. */
static void
cut_group(Ctx *c, const Ranges *ranges, const Type *x, const Type *o, DimRun in, DimRun out,
          const Expr *const *axis, const Expr **at)
{
    const Expr *linear = expr_int(c, 0);
    int64_t first = -1;

    for (uint32_t d = out.first; d < out.end; d++)
        linear = expr_add(c, expr_mul(c, linear, o->dim[d]),
                          expr_is(o->dim[d], 1) ? expr_int(c, 0) : axis[d]);
    for (uint32_t d = in.first; d < in.end && first < 0; d++)
        if (!expr_is(x->dim[d], 1))
            first = d;
    const Expr *stride = expr_int(c, 1);
    for (uint32_t d = in.end; d-- > in.first;) {
        at[d] = expr_int(c, 0);
        if (expr_is(x->dim[d], 1))
            continue;
        at[d] = expr_div(c, linear, stride);
        if (d != first)
            at[d] = expr_mod(c, at[d], x->dim[d]);
        at[d] = expr_simplify(c, ranges, at[d]);
        stride = expr_mul(c, stride, x->dim[d]);
    }
}

/* The index in o of each element of x, for the same elements in the same order. */
static void
relayout_index(Ctx *c, const Type *x, const Type *o, const Expr *const *axis, const Expr **at)
{
    Range range[TN_MAX_RANK];
    Ranges ranges = { range, 0 };
    DimRun in = { 0 }, out = { 0 };

    for (uint32_t d = 0; d < o->rank; d++) {
        Var v;
        if (expr_is_var(axis[d], &v))
            range[ranges.n++] = (Range){ v, expr_int(c, 0), o->dim[d] };
    }
    while (in.end < x->rank || out.end < o->rank) {
        in = (DimRun){ in.end, in.end, NULL };
        out = (DimRun){ out.end, out.end, NULL };
        extend(c, x, &in);
        extend(c, o, &out);
        while (in.product && out.product && expr_eq(c, NULL, in.product, out.product) != YES &&
               (in.end < x->rank || out.end < o->rank))
            balance(c, x, o, &in, &out);
        /* Trailing dimensions of 1 join the group before them, where they cost nothing. */
        while (in.end < x->rank && expr_is(x->dim[in.end], 1))
            in.end++;
        while (out.end < o->rank && expr_is(o->dim[out.end], 1))
            out.end++;
        cut_group(c, &ranges, x, o, in, out, axis, at);
    }
}

bool
expand_relayout(Build *b)
{
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];

    for (uint32_t d = 0; d < b->out[0]->rank; d++)
        axis[d] = build_axis(b, d);
    relayout_index(b->c, b->call->in[0], b->out[0], axis, at);
    return build_move(b, 0, build_out(b, 0), at);
}
