/* reduce: operators that combine along axes.
 *
 * A reduction's line in the table has three parts: the combiner, what is combined over the element
 * x, and what becomes of the result y over n points: "sum | x * x | sqrt(y)".
 */
#include "op/internal.h"

#include <string.h>

/* Set of reduced axes; keep says whether they stay as extents of 1. */
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
    if (call->in[0]->dtype == DT_BOOL && call->op != OP_reduce_max && call->op != OP_reduce_min)
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s; its elements must be numbers",
                       type_str(c, call->in[0]));
    out[0] = without_axes(c, call->in[0], set, keep, call->in[0]->dtype);
    return true;
}

/* ---- the frame: one reduction of x over a set of axes ---------------------------------------- */

/* Index of x: output axes where kept, fresh reduction axes elsewhere. Axes of extent 1 are not
 * walked. */
static AxisSet
reduction_index(Making *m, const Type *x, uint64_t set, bool keep, const Expr *const *axis,
                const Expr **at)
{
    AxisSet bound = 0;

    for (uint32_t d = 0, o = 0; d < x->rank; d++) {
        bool reduced = set >> d & 1;
        at[d] = reduced ? expr_int(m->b->c, 0) : axis[o];
        if (reduced && !expr_is(x->dim[d], 1)) {
            at[d] = make_reduce(m, arena_printf(m->b->c->arena, "r%u", d), x->dim[d]);
            bound |= axis_bit(at[d]);
        }
        o += !reduced || keep;
    }
    return bound;
}

static const Expr *
points(Ctx *c, const Type *x, uint64_t set)
{
    const Expr *n = expr_int(c, 1);
    for (uint32_t d = 0; d < x->rank; d++)
        if (set >> d & 1)
            n = expr_mul(c, n, x->dim[d]);
    return n;
}

static Combiner
combiner_named(const char *s, size_t n)
{
    for (uint32_t k = COMB_NONE + 1; k < COMB_COUNT; k++)
        if (strlen(combiner_name[k]) == n && memcmp(combiner_name[k], s, n) == 0)
            return (Combiner)k;
    return COMB_NONE;
}

/* The three parts of a reduction's meaning. */
typedef struct {
    Combiner combiner;
    const char *body, *finish;
} ReduceText;

static ReduceText
reduce_text(Ctx *c, const char *meaning)
{
    const char *bar = strchr(meaning, '|'), *second = strchr(bar + 1, '|');
    const char *end = second + strcspn(second, ";");

    return (ReduceText){ combiner_named(meaning, strcspn(meaning, " ")),
                         sym_n(c, bar + 1, (size_t)(second - bar - 1)),
                         sym_n(c, second + 1, (size_t)(end - second - 1)) };
}

bool
expand_reduce(Build *b)
{
    static const char *const element[] = { "x" }, *const result[] = { "y", "n" };
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    ReduceText text = reduce_text(c, op_info[b->call->op].meaning);
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint64_t set;
    bool keep;
    Making m = make_begin(b, NULL);

    if (!reduced_axes(c, b->call, &set, &keep))
        return false;
    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    AxisSet bound = reduction_index(&m, x, set, keep, axis, at);
    const Scalar *v = make_load(&m, 0, at);
    v = scalar_parse(c, text.body, 1, element, &v);
    if (v && bound)
        v = scalar_reduce(c, text.combiner, bound, &v, 1);
    if (!v)
        return false;
    const Scalar *operand[] = { v, number_of(c, (DType)v->dtype, points(c, x, set)) };
    v = scalar_parse(c, text.finish, 2, result, operand);
    if (!v)
        return false;
    return make_finish(&m, axis, v);
}

/* The maximum is taken out first, so that exp never overflows; a maximum of -inf stays out, since
 * -inf - -inf is no number. */
bool
expand_log_sum_exp(Build *b)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    DType t = compute_type(x->dtype);
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint64_t set;
    bool keep;

    if (!dtype_is_float(t))
        return op_fail(c, b->call, DIAG_UNSUPPORTED, "input 0 is %s; only floats are supported",
                       type_str(c, x));
    if (!reduced_axes(c, b->call, &set, &keep))
        return false;
    uint32_t top = build_value(b, t, b->out[0]->rank, b->out[0]->dim);
    Making m = make_begin(b, "max");
    make_in(&m, "x", 0);
    make_out_over(&m, "m", top, axis);
    AxisSet bound = reduction_index(&m, x, set, keep, axis, at);
    const Scalar *v = make_load(&m, 0, at);
    if (bound)
        v = scalar_reduce(c, COMB_MAX, bound, &v, 1);
    make_write(&m, 0, axis, scalar_select(c, scalar_1(c, S_ISINF, v), scalar_number(c, t, 0), v));
    if (!make_end(&m))
        return false;

    m = make_begin(b, NULL);
    make_in(&m, "x", 0);
    make_in(&m, "m", top);
    make_out_over(&m, "o", build_out(b, 0), axis);
    bound = reduction_index(&m, x, set, keep, axis, at);
    const Scalar *most = make_load(&m, 1, axis);
    v = scalar_1(c, S_EXP, scalar_2(c, S_SUB, make_load(&m, 0, at), most));
    if (bound)
        v = scalar_reduce(c, COMB_SUM, bound, &v, 1);
    return make_finish(&m, axis, scalar_2(c, S_ADD, scalar_1(c, S_LOG, v), most));
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
    return op_require_le(c, call, wanted, x->dim[axis],
                         arena_printf(c->arena, "an element to find along axis %u", axis));
}

/* The combiner keeps the first of equal values; walked from the end, that is the last. A NaN is the
 * largest and the least. */
bool
expand_arg(Build *b)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t d;
    Making m = make_begin(b, NULL);

    if (!op_axis_attr(c, b->call, x->rank, &d))
        return false;
    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    const Expr *r = make_reduce(&m, "r", x->dim[d]);
    for (uint32_t i = 0, o = 0; i < x->rank; i++) {
        at[i] = i == d ? r : axis[o];
        o += i != d || op_int(b->call, "keepdims") != 0;
    }
    if (op_int(b->call, "select_last_index"))
        at[d] = expr_sub(c, expr_offset(c, x->dim[d], -1), r);
    const Scalar *pair[] = { make_load(&m, 0, at), scalar_index(c, at[d]) };
    Combiner k = b->call->op == OP_arg_max ? COMB_ARGMAX : COMB_ARGMIN;
    return make_finish(&m, axis, scalar_item(c, scalar_reduce(c, k, axis_bit(r), pair, 2), 1));
}

/* ---- cum_sum, cum_prod ----------------------------------------------------------------------- */

/* o[j] = o[j - 1 | 0] + x[j]; exclusive reads x[j - 1 | 0]. A reverse sum walks x from its end into
 * an intermediate, which is then turned around. */
static bool
cumulate(Build *b, uint32_t d, uint32_t to)
{
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK], *before[TN_MAX_RANK];
    bool reverse = op_int(b->call, "reverse") != 0, exclusive = op_int(b->call, "exclusive") != 0,
         product = b->call->op == OP_cum_prod;
    DType t = compute_type(x->dtype);
    bool direct = !reverse && t == x->dtype;
    uint32_t sum = direct ? to : build_value(b, t, x->rank, x->dim);
    Making m = make_begin(b, NULL);

    make_in(&m, "x", 0);
    make_out(&m, "o", sum);
    nest_axes_of(&m.nb, x, axis);
    m.nb.axis.at[d].kind = AXIS_SCAN;
    memcpy(at, axis, sizeof at);
    memcpy(before, axis, sizeof before);
    before[d] = expr_offset(c, axis[d], -1);
    if (exclusive)
        at[d] = before[d];
    if (reverse)
        at[d] = expr_sub(c, expr_offset(c, x->dim[d], -1), at[d]);
    const Scalar *none = scalar_number(c, t, product),
                 *sofar = nest_load_or(&m.nb, 1, before, none);
    make_write(&m, 0, axis,
               scalar_2(c, product ? S_MUL : S_ADD, sofar,
                        make_load_or(&m, 0, at, exclusive ? none : NULL)));
    bool made = make_end(&m);
    if (!made || direct)
        return made;

    m = make_begin(b, "turn");
    make_in(&m, "s", sum);
    make_out_over(&m, "o", to, axis);
    memcpy(at, axis, sizeof at);
    if (reverse)
        at[d] = expr_sub(c, expr_offset(c, x->dim[d], -1), axis[d]);
    return make_finish(&m, axis, make_load(&m, 0, at));
}

/* An axis that only the run knows: along every axis, and then the one that was asked for. */
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
    const char *i = axes_text(a, 0, x->rank), *one = b->call->in[1]->rank ? "axis[0]" : "axis[]";
    build_name(b, "rank", expr_int(b->c, x->rank));
    text_printf(&choice, "let d = at(%s, rank) in ", one);
    for (d = 0; d < x->rank; d++) {
        value[d + 1] = build_value(b, x->dtype, x->rank, x->dim);
        if (!cumulate(b, d, value[d + 1]))
            return false;
        text_printf(&params, " x%u", d);
        if (d + 1 < x->rank)
            text_printf(&choice, "index(d) == %u ? ", d);
        text_printf(&choice, "x%u[%s]%s", d, i, d + 1 < x->rank ? " : " : "");
    }
    text_add(&params, " -> o");
    value[x->rank + 1] = build_out(b, 0);
    return build_text(b, "choose", text_str(&params), value, "o[%s] = %s", i, text_str(&choice));
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
    Ctx *c = b->c;
    const Type *x = b->call->in[0];
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint64_t set = (UINT64_C(1) << x->rank) - 4;
    bool mean = b->call->op == OP_global_average_pool;
    Making m = make_begin(b, NULL);

    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    AxisSet bound = reduction_index(&m, x, set, true, axis, at);
    const Scalar *v = make_load(&m, 0, at);
    if (bound)
        v = scalar_reduce(c, mean ? COMB_SUM : COMB_MAX, bound, &v, 1);
    if (mean)
        v = scalar_2(c, S_DIV, v, number_of(c, (DType)v->dtype, points(c, x, set)));
    return make_finish(&m, axis, v);
}
