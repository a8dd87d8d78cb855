/* op: the table of operators, and the functions that look up types and expansions in it. */
#include "op/build.h"
#include "op/kinds.h"

#include <string.h>

typedef bool InferFn(Ctx *c, const OpCall *call, const Type **out);
typedef bool ExpandFn(Build *b);

#define OP(name, min_in, max_in, max_out, infer, expand, attrs, meaning)                           \
    InferFn infer_##infer;                                                                         \
    ExpandFn expand_##expand;
#include "op/ops.def"
#undef OP

const OpInfo op_info[OP_COUNT] = {
    [OP_NONE] = { "none", 0, 0, 0, "", "" },
#define OP(name, min_in, max_in, max_out, infer, expand, attrs, meaning)                           \
    [OP_##name] = { #name, min_in, max_in, max_out, attrs, meaning },
#include "op/ops.def"
#undef OP
};

static const struct {
    InferFn *infer;
    ExpandFn *expand;
} rule[OP_COUNT] = {
#define OP(name, min_in, max_in, max_out, infer, expand, attrs, meaning)                           \
    [OP_##name] = { infer_##infer, expand_##expand },
#include "op/ops.def"
#undef OP
};

OpKind
op_named(const char *name, size_t n)
{
    for (uint32_t k = OP_NONE + 1; k < OP_COUNT; k++)
        if (*op_info[k].name == *name && strncmp(op_info[k].name, name, n) == 0 &&
            !op_info[k].name[n])
            return (OpKind)k;
    return OP_NONE;
}

/* Operators that accept elements of any type, also strings, and library routines. */
static bool
takes_text(OpKind op)
{
    static const OpKind others[] = { OP_identity, OP_where,           OP_shape,
                                     OP_size,     OP_center_crop_pad, OP_tensor_scatter };

    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
        if (op == others[i])
            return true;
    return (op >= OP_reshape && op <= OP_one_hot) || op_is_routine(op);
}

/* ---- infer and expand ------------------------------------------------------------------------ */

static bool
check_call(Ctx *c, const OpCall *call)
{
    const OpInfo *o = &op_info[call->op];

    if (call->op == OP_NONE || call->op >= OP_COUNT)
        return diag_error(&c->diags, DIAG_INTERNAL, call->loc, "operator number %d does not exist",
                          (int)call->op);
    if (call->nin < o->min_in || (o->max_in != 255 && call->nin > o->max_in))
        return o->min_in == o->max_in
                   ? op_fail(c, call, DIAG_MODEL, "has %u inputs, %u are needed", call->nin,
                             o->min_in)
                   : op_fail(c, call, DIAG_MODEL, "has %u inputs, from %u to %u are allowed",
                             call->nin, o->min_in, o->max_in);
    if (call->nout < 1 || (o->max_out != 255 && call->nout > o->max_out))
        return op_fail(c, call, o->max_out ? DIAG_UNSUPPORTED : DIAG_MODEL,
                       "has %u outputs, at most %u are supported", call->nout, o->max_out);
    for (uint32_t i = 0; i < o->min_in; i++)
        if (!call->in[i])
            return op_fail(c, call, DIAG_MODEL, "input %u is absent, but it is not optional", i);
    for (uint32_t i = 0; i < call->nin; i++)
        if (has_in(call, i) && call->in[i]->dtype == DT_STR && !takes_text(call->op))
            return op_fail(c, call, DIAG_MODEL, "input %u is %s; it does not take strings", i,
                           type_str(c, call->in[i]));
    for (uint32_t i = 0; i < call->attrs.n; i++) {
        if (!op_has_attr(call->op, call->attrs.at[i].name))
            return op_fail(c, call, DIAG_UNSUPPORTED, "attribute \"%s\" is unknown%s%s",
                           call->attrs.at[i].name, *o->attrs ? "; there are: " : "", o->attrs);
        if (!op_has_value(c, call, &call->attrs.at[i]))
            return false;
    }
    return true;
}

const OpSign op_sign[OP_SIGNS] = {
    { "||", OP_or, 0 },
    { "&&", OP_and, 1 },
    { "<=", OP_less_or_equal, 2 },
    { ">=", OP_greater_or_equal, 2 },
    { "<", OP_less, 2 },
    { ">", OP_greater, 2 },
    { "==", OP_equal, 2 },
    { "+", OP_add, 3 },
    { "-", OP_sub, 3 },
    { "*", OP_mul, 4 },
    { "/", OP_div, 4 },
};
const struct OpForms op_form = { OP_neg,    OP_not,   OP_cast,    OP_concat,
                                 OP_gather, OP_range, OP_squeeze, OP_reshape };

bool
op_has_one_dtype(OpKind op)
{
    return op_is_elementwise(op) || op == OP_pow || op == OP_max || op == OP_min || op == OP_sum ||
           op == OP_mean || op == OP_clip || op == OP_shift_right;
}

bool
op_is_elementwise(OpKind op)
{
    return op < OP_COUNT && rule[op].expand == expand_scalar;
}

bool
op_is_routine(OpKind op)
{
    return op < OP_COUNT && rule[op].expand == expand_routine;
}

bool
op_infer(Ctx *c, const OpCall *call, const Type **out)
{
    if (!check_call(c, call) || !rule[call->op].infer(c, call, out))
        return false;
    for (uint32_t i = 0; i < call->nout; i++) {
        if (out[i]->rank > TN_MAX_RANK)
            return op_fail(c, call, DIAG_LIMIT, "output %u has rank %u, more than %d", i,
                           out[i]->rank, TN_MAX_RANK);
        for (uint32_t d = 0; d < out[i]->rank; d++) {
            if (out[i]->dim[d]->bad)
                return op_fail(c, call, DIAG_LIMIT,
                               "axis %u of output %u overflows 63 bits or is too long", d, i);
            const Expr *none = expr_int(c, 0), *dim = out[i]->dim[d];
            Tri fits = expr_or(dim, -1) >= 0 ? YES : expr_le(c, NULL, none, dim);
            if (fits == NO)
                return op_fail(c, call, DIAG_MODEL, "axis %u of output %u would have %s elements",
                               d, i, expr_str(c, dim));
            /* a window larger than its input would not write all elements */
            if (fits == UNKNOWN &&
                !op_require_eq(c, call, dim, expr_max(c, dim, none),
                               "axis %u of output %u has 0 elements or more", d, i))
                return false;
        }
        out[i] = type_simplify(c, out[i]);
        if (!type_fits(c, out[i]))
            return op_fail(c, call, DIAG_LIMIT, "output %u would be %s, more than any memory holds",
                           i, type_str(c, out[i]));
    }
    return true;
}

bool
op_expand(Ctx *c, const OpCall *call, const Type *const *out, Expansion *e)
{
    Build b = { .c = c, .call = call, .out = out, .e = e };

    *e = (Expansion){ 0 };
    for (uint32_t i = 0; i < call->nin; i++)
        VEC_PUSH(c->arena, &e->type, call->in[i]);
    for (uint32_t i = 0; i < call->nout; i++)
        VEC_PUSH(c->arena, &e->type, out[i]);
    if (!check_call(c, call))
        return false;
    if (!out[0] && op_info[call->op].max_out != 255)
        return op_fail(c, call, DIAG_MODEL, "output 0 is absent, but it is not optional");
    return rule[call->op].expand(&b);
}
