/* reduce: operators that reduce along axes.
 *
 * A reduction's line in the table has three parts: the combiner, the summand for element x, and the
 * result for the sum y over n points: "sum | x * x | sqrt(y)".
 */
#include "op/build.h"
#include "op/kinds.h"

#include <string.h>

/* The set of reduced axes; keep: they stay with extent 1. */
static bool
reduced_axes(Ctx *c, const OpCall *call, uint64_t *set, bool *keep)
{
    uint32_t rank = call->in[0]->rank;

    *keep = op_int(call, "keepdims") != 0;
    if (!op_axes_input(c, call, 1, rank, set))
        return false;
    if (!*set && !op_int(call, "noop_with_empty_axes"))
        *set = (UINT64_C(1) << rank) - 1;
    return true;
}

static const Type *
without_axes(Ctx *c, const Type *x, uint64_t set, bool keep, DType t)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank = 0;

    for (uint32_t d = 0; d < x->rank; d++)
        if (!(set >> d & 1))
            dim[rank++] = x->dim[d];
        else if (keep)
            dim[rank++] = expr_int(c, 1);
    return type_new(c, t, rank, dim);
}

bool
infer_reduce(Ctx *c, const OpCall *call, const Type **out)
{
    uint64_t set;
    bool keep;

    if (!reduced_axes(c, call, &set, &keep))
        return false;
    if (call->op != OP_reduce_max && call->op != OP_reduce_min &&
        !op_elements(c, call, 0, "numbers"))
        return false;
    out[0] = without_axes(c, call->in[0], set, keep, call->in[0]->dtype);
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Words for a nest that reduces x over a set of axes: $at, the index at which it reads x, and
 * $over, its axes; false if none of them is longer than 1. */
static bool
reduction_words(Build *b, uint64_t set, bool keep)
{
    NormGroups g = build_groups(b, set, keep, false);

    build_word(b, "at", g.at);
    build_word(b, "over", g.over);
    build_name(b, "points", g.count);
    return *g.over;
}

/* One nest: combines `body` over the axes; `finish` is the result for the sum y. */
static bool
build_reduce(Build *b, uint64_t set, bool keep, const char *combiner, const char *body,
             const char *finish)
{
    Arena *a = b->c->arena;
    const char *x = letters_text(a, body, "x", (const char *[]){ "x[$at]" });
    const char *y = reduction_words(b, set, keep) ? arena_printf(a, "(%s $over: %s)", combiner, x)
                                                  : arena_printf(a, "(%s)", x);

    return build_text(b, NULL, "x -> o", NULL, "o = %s",
                      letters_text(a, finish, "yn", (const char *[]){ y, "$T(points)" }));
}

/* The three parts of the meaning in the table. */
bool
expand_reduce(Build *b)
{
    Ctx *c = b->c;
    const char *meaning = op_info[b->call->op].meaning, *body = strchr(meaning, '|') + 1,
               *finish = strchr(body, '|') + 1;
    uint64_t set;
    bool keep;

    return reduced_axes(c, b->call, &set, &keep) &&
           build_reduce(b, set, keep, sym_n(c, meaning, strcspn(meaning, " ")),
                        sym_n(c, body, (size_t)(finish - 1 - body)),
                        sym_n(c, finish, strcspn(finish, ";")));
}

/* The maximum is subtracted first, so that exp never overflows. A maximum of -inf is not
 * subtracted, since -inf - -inf is NaN. */
bool
expand_log_sum_exp(Build *b)
{
    const Type *x = b->call->in[0];
    DType t = compute_type(x->dtype);
    uint64_t set;
    bool keep;

    if (!dtype_is_float(t))
        return op_fail(b->c, b->call, DIAG_UNSUPPORTED, "input 0 is %s; only floats are supported",
                       type_str(b->c, x));
    if (!reduced_axes(b->c, b->call, &set, &keep))
        return false;
    uint32_t top = build_value_like(b, t, build_out(b, 0));
    bool any = reduction_words(b, set, keep);
    return build_text(b, "max", "x -> m", (uint32_t[]){ 0, top },
                      "m = let v = %sx[$at] in isinf(v) ? 0 : v", any ? "max $over: " : "") &&
           build_text(b, NULL, "x m -> o", (uint32_t[]){ 0, top, build_out(b, 0) },
                      "o = log(%sexp(x[$at] - m[$i])) + m[$i]", any ? "sum $over: " : "");
}

/* ---- arg_max, arg_min ------------------------------------------------------------------------ */

bool
infer_arg(Ctx *c, const OpCall *call, const Type **out)
{
    uint32_t axis;

    if (!op_axis_attr(c, call, call->in[0]->rank, &axis))
        return false;
    const Type *x = call->in[0];
    out[0] = without_axes(c, x, UINT64_C(1) << axis, op_int(call, "keepdims") != 0, DT_I64);
    const Expr *wanted = expr_min(c, expr_int(c, 1), type_count(c, out[0]));
    return op_require_le(c, call, wanted, x->dim[axis], "an element to find along axis %u", axis);
}

/* The combiner keeps the first of equal values; in reverse order, that is the last. NaN is both the
 * largest and the least. */
bool
expand_arg(Build *b)
{
    const Type *x = b->call->in[0];
    const char *at[TN_MAX_RANK], *r = op_int(b->call, "select_last_index") ? "n - 1 - r" : "r";
    uint32_t d = build_along_axis(b, x->rank);

    for (uint32_t i = 0, o = 0; i < x->rank; i++) {
        at[i] = i == d ? r : build_axis_name(o);
        o += i != d || op_int(b->call, "keepdims") != 0;
    }
    build_name(b, "n", x->dim[d]);
    return build_text(b, NULL, "x -> o", NULL, "o = (%s r<n>: (x[%s], index(%s))).1",
                      b->call->op == OP_arg_max ? "argmax" : "argmin",
                      list_text(b->c->arena, x->rank, at), r);
}

/* ---- cum_sum, cum_prod ----------------------------------------------------------------------- */

/* o[j] = o[j - 1 | 0] + x[j]; exclusive reads x[j - 1 | 0]. A reverse sum reads x from its end into
 * an intermediate, which is then reversed. */
static bool
cumulate(Build *b, uint32_t d, uint32_t to)
{
    Arena *a = b->c->arena;
    const Type *x = b->call->in[0];
    const char *before[TN_MAX_RANK], *at[TN_MAX_RANK], *from[TN_MAX_RANK], *j = build_axis_name(d);
    bool reverse = op_int(b->call, "reverse") != 0, exclusive = op_int(b->call, "exclusive") != 0,
         product = b->call->op == OP_cum_prod;
    DType t = compute_type(x->dtype);
    bool direct = !reverse && t == x->dtype;
    uint32_t sum = direct ? to : build_value_like(b, t, 0);

    for (uint32_t i = 0; i < x->rank; i++)
        before[i] = at[i] = from[i] = build_axis_name(i);
    before[d] = arena_printf(a, "%s - 1", j);
    from[d] = reverse ? arena_printf(a, "n - 1 - %s", j) : j;
    at[d] = exclusive ? before[d] : j;
    at[d] = reverse ? arena_printf(a, "n - 1 - (%s)", at[d]) : at[d];
    build_name(b, "n", x->dim[d]);
    return build_text(b, NULL, "x -> o", (uint32_t[]){ 0, sum },
                      "o = scan %s: o[%s | %d] %c x[%s%s]", j, list_text(a, x->rank, before),
                      product, product ? '*' : '+', list_text(a, x->rank, at),
                      !exclusive ? ""
                      : product  ? " | 1"
                                 : " | 0") &&
           (direct || build_text(b, "turn", "s -> o", (uint32_t[]){ sum, to }, "o = s[%s]",
                                 list_text(a, x->rank, from)));
}

/* An axis known only at run time: computes all axes, then selects one. */
bool
expand_cum_sum(Build *b)
{
    Arena *a = b->c->arena;
    const Type *x = b->call->in[0];
    uint32_t d = 0, value[TN_MAX_RANK + 2] = { 1 };
    Text params = { .arena = a }, choice = { .arena = a };
    int64_t given;

    if (b->call->known[1].at)
        return op_param_int(b->c, b->call, 1, "axis", &given) &&
               op_axis(b->c, b->call, "axis", given, x->rank, &d) &&
               cumulate(b, d, build_out(b, 0));
    if (!expr_is(type_count(b->c, b->call->in[1]), 1) || !dtype_is_int(b->call->in[1]->dtype) ||
        x->rank == 0)
        return op_fail(b->c, b->call, DIAG_MODEL, "input 1 (axis) is %s; one integer is needed",
                       type_str(b->c, b->call->in[1]));
    text_add(&params, "axis");
    build_name(b, "rank", expr_int(b->c, x->rank));
    text_add(&choice, "let d = at(axis[], rank) in ");
    for (d = 0; d < x->rank; d++) {
        value[d + 1] = build_value_like(b, x->dtype, 0);
        if (!cumulate(b, d, value[d + 1]))
            return false;
        text_printf(&params, " x%u", d);
        if (d + 1 < x->rank)
            text_printf(&choice, "index(d) == %u ? ", d);
        text_printf(&choice, "x%u[$i]%s", d, d + 1 < x->rank ? " : " : "");
    }
    text_add(&params, " -> o");
    value[x->rank + 1] = build_out(b, 0);
    return build_text(b, "choose", text_str(&params), value, "o = %s", text_str(&choice));
}

/* ---- pools over everything ------------------------------------------------------------------- */

bool
infer_global_pool(Ctx *c, const OpCall *call, const Type **out)
{
    const Type *x = call->in[0];

    if (!op_rank_at_least(c, call, 0, 3))
        return false;
    out[0] = without_axes(c, x, (UINT64_C(1) << x->rank) - 4, true, x->dtype);
    return true;
}

bool
expand_global_pool(Build *b)
{
    uint64_t spatial = (UINT64_C(1) << b->call->in[0]->rank) - 4;

    return b->call->op == OP_global_average_pool
               ? build_reduce(b, spatial, true, "sum", "x", "y / n")
               : build_reduce(b, spatial, true, "max", "x", "y");
}
