/* op: the table, and what every rule needs to read a call.
 *
 * A rule reports what is wrong with a call once, at the call's place, naming the operator and both
 * facts that disagree. Equalities between dimensions that can be neither proved nor disproved are
 * recorded as constraints, which the artefact checks at entry, and are taken as true from then on:
 * a shape is never lost because the compiler could not decide.
 */
#include "op/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        if (strncmp(op_info[k].name, name, n) == 0 && !op_info[k].name[n])
            return (OpKind)k;
    return OP_NONE;
}

/* ---- attributes ------------------------------------------------------------------------------ */

const Attr *
attr_find(Attrs a, const char *name)
{
    for (uint32_t i = 0; i < a.n; i++)
        if (strcmp(a.at[i].name, name) == 0)
            return &a.at[i];
    return NULL;
}

int64_t
attr_int(Attrs a, const char *name, int64_t otherwise)
{
    const Attr *found = attr_find(a, name);
    return found && found->kind == ATTR_INT ? found->i : otherwise;
}

double
attr_float(Attrs a, const char *name, double otherwise)
{
    const Attr *found = attr_find(a, name);
    if (!found)
        return otherwise;
    return found->kind == ATTR_FLOAT ? found->f
           : found->kind == ATTR_INT ? (double)found->i
                                     : otherwise;
}

const char *
attr_string(Attrs a, const char *name, const char *otherwise)
{
    const Attr *found = attr_find(a, name);
    return found && found->kind == ATTR_STRING ? found->s : otherwise;
}

/* The text after `name=` in the operator's list of attributes; NULL if the attribute is not there
 * at all, "" if it has no default. *n is the length of the default. */
static const char *
default_of(OpKind op, const char *name, size_t *n)
{
    size_t length = strlen(name);

    for (const char *s = op_info[op].attrs; *s;) {
        size_t word = strcspn(s, " ");
        if (word >= length && memcmp(s, name, length) == 0 &&
            (word == length || s[length] == '=')) {
            *n = word == length ? 0 : word - length - 1;
            return word == length ? "" : s + length + 1;
        }
        s += word + strspn(s + word, " ");
    }
    return NULL;
}

static bool
op_has_attr(OpKind op, const char *name)
{
    size_t n;
    return default_of(op, name, &n) != NULL;
}

int64_t
op_int(const OpCall *call, const char *attr)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n);
    return attr_int(call->attrs, attr, otherwise && n ? strtoll(otherwise, NULL, 10) : 0);
}

double
op_float(const OpCall *call, const char *attr)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n);
    return attr_float(call->attrs, attr, otherwise && n ? strtod(otherwise, NULL) : 0.0);
}

bool
op_string_is(const OpCall *call, const char *attr, const char *value)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n),
               *given = attr_string(call->attrs, attr, NULL);
    if (given)
        return strcmp(given, value) == 0;
    return otherwise && strlen(value) == n && memcmp(otherwise, value, n) == 0;
}

const char *
op_string(Ctx *c, const OpCall *call, const char *attr)
{
    size_t n;
    const char *otherwise = default_of(call->op, attr, &n);
    return attr_string(call->attrs, attr, otherwise ? sym_n(c, otherwise, n) : "");
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool
op_fail(Ctx *c, const OpCall *call, DiagClass class, const char *format, ...)
{
    Text t = { .arena = c->arena };
    va_list ap, again;

    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *s = arena_alloc(c->arena, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    text_printf(&t, "%s: %s", op_name(call), s);
    return diag_error(&c->diags, class, call->loc, "%s", text_str(&t));
}

/* ---- checks that many rules share ------------------------------------------------------------ */

const char *
constraint_text(Ctx *c, const Constraint *k)
{
    static const char *const or_one[] = { "", ", or one of them is 1" };

    if (k->said)
        return k->said;
    if (k->rule == SIZES_INTO)
        return arena_printf(c->arena, "%s == %s, or %s == 1", expr_str(c, k->a), expr_str(c, k->b),
                            expr_str(c, k->a));
    return arena_printf(c->arena, "%s == %s%s", expr_str(c, k->a), expr_str(c, k->b),
                        or_one[k->rule == SIZES_BROADCAST]);
}

static bool
is_same_rule(const Constraint *a, const Constraint *b)
{
    return a->rule == b->rule && ((a->a == b->a && a->b == b->b) ||
                                  (a->rule == SIZES_BROADCAST && a->a == b->b && a->b == b->a));
}

/* False: it is checked already. Not all that is checked can be used by proofs. */
static bool
check_when_run(Ctx *c, const OpCall *call, Constraint needed, const char *what)
{
    for (uint32_t i = 0; call->constraints && i < call->constraints->n; i++)
        if (is_same_rule(&call->constraints->at[i], &needed))
            return false;
    needed.why = call->loc.node
                     ? arena_printf(c->arena, "%s, %s: %s", op_name(call), call->loc.node, what)
                     : arena_printf(c->arena, "%s: %s", op_name(call), what);
    if (call->constraints)
        VEC_PUSH(c->arena, call->constraints, needed);
    return true;
}

bool
op_require_eq(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, const char *what)
{
    a = expr_simplify(c, NULL, a);
    b = expr_simplify(c, NULL, b);
    switch (expr_eq(c, NULL, a, b)) {
    case YES: return true;
    case NO:
        return op_fail(c, call, DIAG_MODEL, "%s differ: %s and %s", what, expr_str(c, a),
                       expr_str(c, b));
    case UNKNOWN: break;
    }
    if (check_when_run(c, call, (Constraint){ .a = a, .b = b }, what))
        expr_assume_eq(c, a, b);
    return true;
}

bool
op_require_le(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, const char *what)
{
    a = expr_simplify(c, NULL, a);
    b = expr_simplify(c, NULL, b);
    switch (expr_le(c, NULL, a, b)) {
    case YES: return true;
    case NO:
        return op_fail(c, call, DIAG_MODEL, "%s: %s is more than %s", what, expr_str(c, a),
                       expr_str(c, b));
    case UNKNOWN: break;
    }
    const Expr *least = expr_min(c, a, b);
    const char *said = arena_printf(c->arena, "%s <= %s", expr_str(c, a), expr_str(c, b));
    if (check_when_run(c, call, (Constraint){ .a = least, .b = a, .said = said }, what))
        expr_assume_eq(c, least, a);
    return true;
}

bool
op_require_multiple(Ctx *c, const OpCall *call, const Expr *n, const Expr *k, const char *what)
{
    return n == k || op_require_eq(c, call, n, expr_mul(c, k, expr_div(c, n, k)), what);
}

/* ---- broadcasting ---------------------------------------------------------------------------- */

static bool
may_be_one(Ctx *c, const Expr *n)
{
    Interval i = expr_bounds(c, NULL, n);
    return i.lo <= 1 && i.hi >= 1;
}

/* Is the symbol v 1 only where e is, and e only where v is? min(v, 512) is such an e. */
static bool
is_one_with(Ctx *c, const Expr *e, Var v)
{
    const Expr *one = expr_int(c, 1);
    Binding none = { v, expr_int(c, 0) }, single = { v, one },
            more = { v, expr_offset(c, expr_var(c, v), 2) };

    return v.kind == VAR_SYMBOL && expr_uses(e, v) &&
           expr_eq(c, NULL, expr_subst(c, e, &none, 1), one) == NO &&
           expr_eq(c, NULL, expr_subst(c, e, &single, 1), one) == YES &&
           expr_bounds(c, NULL, expr_subst(c, e, &more, 1)).lo >= 2;
}

/* Are two sizes equal wherever one of them is 1? */
static bool
are_one_together(Ctx *c, const Expr *a, const Expr *b)
{
    Var v;

    return (!may_be_one(c, a) && !may_be_one(c, b)) ||
           (expr_is_var(a, &v) && is_one_with(c, b, v)) ||
           (expr_is_var(b, &v) && is_one_with(c, a, v));
}

/* Equal, or one of them is 1. */
static bool
require_broadcast(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, const char *what)
{
    if (expr_is(a, 1) || expr_is(b, 1) || expr_eq(c, NULL, a, b) == YES)
        return true;
    if (are_one_together(c, a, b))
        return op_require_eq(c, call, a, b, what);
    bool swap = !may_be_one(c, a), one_way = swap || !may_be_one(c, b);
    check_when_run(c, call,
                   (Constraint){ .a = swap ? b : a,
                                 .b = swap ? a : b,
                                 .rule = one_way ? SIZES_INTO : SIZES_BROADCAST },
                   what);
    return true;
}

bool
op_broadcast_into(Ctx *c, const OpCall *call, const Expr *own, const Expr *dim, const char *what)
{
    own = expr_simplify(c, NULL, own);
    dim = expr_simplify(c, NULL, dim);
    if (expr_is(own, 1) || expr_eq(c, NULL, own, dim) == YES)
        return true;
    if (!may_be_one(c, own) || expr_is(dim, 1) || are_one_together(c, own, dim))
        return op_require_eq(c, call, own, dim, what);
    check_when_run(c, call, (Constraint){ .a = own, .b = dim, .rule = SIZES_INTO }, what);
    return true;
}

const Expr *
op_broadcast_at(Ctx *c, const Expr *own, const Expr *dim, const Expr *axis)
{
    own = expr_simplify(c, NULL, own);
    if (expr_bounds(c, NULL, own).hi <= 1)
        return expr_int(c, 0);
    if (!may_be_one(c, own) || expr_eq(c, NULL, own, dim) == YES)
        return axis;
    /* 0, 0, 1, 1, … */
    return expr_mul(
        c, axis,
        expr_simplify(c, NULL, expr_min(c, expr_div(c, own, expr_int(c, 2)), expr_int(c, 1))));
}

/* The sizes that a broadcast is of, or the one. */
static uint32_t
sizes_in(const Expr *const *e, uint32_t most, const Expr **part, const Expr *const **at)
{
    uint32_t n = expr_broadcast_parts(*e, most, part);

    *at = n ? part : e;
    return n ? n : 1;
}

const Expr *
op_broadcast_dim(Ctx *c, const OpCall *call, const Expr *a, const Expr *b, const char *what)
{
    /* a broadcast of more is one size here: less can be proved of it */
    enum { MOST = 16 };
    const Expr *part[2][MOST], *const *x, *const *y;

    a = expr_simplify(c, NULL, a);
    b = expr_simplify(c, NULL, b);
    if (a == b || expr_is(b, 1))
        return a;
    if (expr_is(a, 1))
        return b;
    uint32_t nx = sizes_in(&a, MOST, part[0], &x), ny = sizes_in(&b, MOST, part[1], &y);
    for (uint32_t i = 0; i < nx; i++)
        for (uint32_t k = 0; k < ny; k++)
            if (!require_broadcast(c, call, x[i], y[k], what))
                return NULL;
    a = expr_simplify(c, NULL, a); /* more may be known by now */
    b = expr_simplify(c, NULL, b);
    if (expr_eq(c, NULL, a, b) == YES)
        return expr_const(b, NULL) || (!expr_const(a, NULL) && expr_is_var(b, NULL)) ? b : a;
    return !may_be_one(c, b)   ? b
           : !may_be_one(c, a) ? a
                               : expr_simplify(c, NULL, expr_broadcast(c, a, b));
}

bool
op_broadcast(Ctx *c, const OpCall *call, uint32_t first, uint32_t n, uint32_t *rank,
             const Expr **dim)
{
    *rank = 0;
    for (uint32_t i = first; i < first + n; i++)
        if (has_in(call, i) && call->in[i]->rank > *rank)
            *rank = call->in[i]->rank;
    for (uint32_t d = 0; d < *rank; d++)
        dim[d] = expr_int(c, 1);
    for (uint32_t i = first; i < first + n; i++) {
        if (!has_in(call, i))
            continue;
        uint32_t skip = *rank - call->in[i]->rank;
        for (uint32_t d = 0; d < call->in[i]->rank; d++) {
            const char *what = arena_printf(
                c->arena, "axis %u of the broadcast shape and axis %u of input %u", skip + d, d, i);
            dim[skip + d] = op_broadcast_dim(c, call, dim[skip + d], call->in[i]->dim[d], what);
            if (!dim[skip + d])
                return false;
        }
    }
    return true;
}

bool
op_same_dtype(Ctx *c, const OpCall *call, uint32_t a, uint32_t b)
{
    if (!has_in(call, a) || !has_in(call, b) || call->in[a]->dtype == call->in[b]->dtype)
        return true;
    return op_fail(c, call, DIAG_MODEL,
                   "input %u is %s and input %u is %s; both must have one element type", a,
                   type_str(c, call->in[a]), b, type_str(c, call->in[b]));
}

bool
op_rank_at_least(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank)
{
    if (call->in[i]->rank >= rank)
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u is %s, of rank %u; rank %u or more is needed", i,
                   type_str(c, call->in[i]), call->in[i]->rank, rank);
}

bool
op_rank_is(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank)
{
    if (call->in[i]->rank == rank)
        return true;
    return op_fail(c, call, DIAG_MODEL, "input %u is %s, of rank %u; rank %u is needed", i,
                   type_str(c, call->in[i]), call->in[i]->rank, rank);
}

bool
op_axis(Ctx *c, const OpCall *call, const char *what, int64_t axis, uint32_t rank, uint32_t *out)
{
    int64_t wrapped = axis < 0 ? axis + rank : axis;
    if (wrapped < 0 || wrapped >= rank)
        return op_fail(c, call, DIAG_MODEL, "%s is %lld, outside [-%u, %u) for rank %u", what,
                       (long long)axis, rank, rank, rank);
    *out = (uint32_t)wrapped;
    return true;
}

bool
op_axis_attr(Ctx *c, const OpCall *call, uint32_t rank, uint32_t *out)
{
    return op_axis(c, call, "axis", op_int(call, "axis"), rank, out);
}

/* ---- parameters passed as inputs ------------------------------------------------------------- */

bool
op_param(Ctx *c, const OpCall *call, uint32_t i, const char *what, Known *out)
{
    *out = (Known){ 0 };
    if (!has_in(call, i))
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is absent", i, what);
    if (expr_is(type_count(c, call->in[i]), 0))
        return true;
    if (!call->known[i].at)
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "input %u (%s), %s, must be computable from constants and the shapes of the "
                       "model's inputs; "
                       "its contents depend on data",
                       i, what, type_str(c, call->in[i]));
    *out = call->known[i];
    return true;
}

bool
op_param_ints(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max, int64_t *out,
              uint32_t *n)
{
    Known k;

    if (!op_param(c, call, i, what, &k))
        return false;
    if (k.n > max)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) has %u elements, more than %u", i, what,
                       k.n, max);
    for (uint32_t j = 0; j < k.n; j++)
        if (!expr_const(k.at[j], &out[j]))
            return op_fail(c, call, DIAG_UNSUPPORTED,
                           "input %u (%s) must be constant, element %u is %s", i, what, j,
                           expr_str(c, k.at[j]));
    *n = k.n;
    return true;
}

bool
op_param_int(Ctx *c, const OpCall *call, uint32_t i, const char *what, int64_t *out)
{
    uint32_t n;

    if (!op_param_ints(c, call, i, what, 1, out, &n))
        return false;
    return n == 1 ||
           op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s, without elements; it has one number",
                   i, what, type_str(c, call->in[i]));
}

bool
op_param_floats(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max, double *out,
                uint32_t *n)
{
    int64_t count;
    const Type *t = has_in(call, i) ? call->in[i] : NULL;

    if (!t)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is absent", i, what);
    if (!expr_const(type_count(c, t), &count) || count > max)
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s; at most %u elements are expected",
                       i, what, type_str(c, t), max);
    *n = (uint32_t)count;
    if (count == 0)
        return true;
    const void *data = call->data[i];
    if (!data)
        return op_fail(c, call, DIAG_UNSUPPORTED, "input %u (%s), %s, must be constant", i, what,
                       type_str(c, t));
    if (!dtype_is_float(t->dtype))
        return op_fail(c, call, DIAG_MODEL, "input %u (%s) is %s; a float tensor is expected", i,
                       what, type_str(c, t));
    for (uint32_t j = 0; j < *n; j++)
        out[j] = number_load(t->dtype, data, j).f;
    return true;
}

bool
op_axes_input(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank, uint64_t *set)
{
    int64_t axis[TN_MAX_RANK * 2];
    uint32_t n = 0, d = 0;

    *set = 0;
    if (has_in(call, i) && !op_param_ints(c, call, i, "axes", TN_MAX_RANK, axis, &n))
        return false;
    for (uint32_t j = 0; j < n; j++) {
        if (!op_axis(c, call, "an entry of axes", axis[j], rank, &d))
            return false;
        *set |= UINT64_C(1) << d;
    }
    return true;
}

DType
compute_type(DType t)
{
    return dtype_is_short(t) ? DT_F32 : t;
}

/* Operators that move elements of any type, strings among them, and routines. */
static bool
takes_text(OpKind op)
{
    static const OpKind moves[] = { OP_identity,
                                    OP_where,
                                    OP_reshape,
                                    OP_flatten,
                                    OP_squeeze,
                                    OP_unsqueeze,
                                    OP_transpose,
                                    OP_expand,
                                    OP_tile,
                                    OP_concat,
                                    OP_split,
                                    OP_slice,
                                    OP_reverse_sequence,
                                    OP_gather,
                                    OP_gather_elements,
                                    OP_gather_nd,
                                    OP_scatter_elements,
                                    OP_scatter_nd,
                                    OP_shape,
                                    OP_size,
                                    OP_one_hot,
                                    OP_pad,
                                    OP_trilu,
                                    OP_depth_to_space,
                                    OP_space_to_depth,
                                    OP_center_crop_pad,
                                    OP_tensor_scatter };

    for (uint32_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (op == moves[i])
            return true;
    return op_is_routine(op);
}

/* ---- the doors ------------------------------------------------------------------------------- */

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
    for (uint32_t i = 0; i < call->attrs.n; i++)
        if (!op_has_attr(call->op, call->attrs.at[i].name))
            return op_fail(c, call, DIAG_UNSUPPORTED, "attribute \"%s\" is unknown%s%s",
                           call->attrs.at[i].name, *o->attrs ? "; there are: " : "", o->attrs);
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
           op == OP_mean || op == OP_clip;
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

uint32_t
op_numbers(const OpCall *call, Arena *a, const double **out)
{
    double *v = NEW_ARRAY(a, double, strlen(op_info[call->op].attrs) + 1);
    uint32_t n = 0;

    for (const char *s = op_info[call->op].attrs; *s; n++) {
        size_t word = strcspn(s, " "), name = strcspn(s, "= ");
        v[n] = op_float(call, arena_printf(a, "%.*s", (int)name, s));
        s += word + strspn(s + word, " ");
    }
    *out = v;
    return n;
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
                return op_fail(c, call, DIAG_LIMIT, "axis %u of output %u overflows 63 bits", d, i);
            const Expr *none = expr_int(c, 0), *dim = out[i]->dim[d];
            Tri fits = expr_le(c, NULL, none, dim);
            if (fits == NO)
                return op_fail(c, call, DIAG_MODEL, "axis %u of output %u would have %s elements",
                               d, i, expr_str(c, dim));
            /* A window over less than it reaches: what comes after would read what nobody wrote. */
            if (fits == UNKNOWN &&
                !op_require_eq(
                    c, call, dim, expr_max(c, dim, none),
                    arena_printf(c->arena, "axis %u of output %u has 0 elements or more", d, i)))
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
    Build b = { c, call, out, e };

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
