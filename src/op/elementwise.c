/* elementwise: operators whose meaning is one scalar expression, read from the table.
 *
 * Inputs are broadcast against each other; an input's dimension that is the number 1 is simply not
 * indexed. Short floats are widened, computed in f32 and rounded once, at the write.
 */
#include "op/internal.h"

#include <string.h>

/* ---- types ----------------------------------------------------------------------------------- */

static bool
broadcast_to(Ctx *c, const OpCall *call, uint32_t first, DType t, const Type **out)
{
    const Expr *dim[TN_MAX_RANK];
    uint32_t rank;

    if (!op_broadcast(c, call, first, call->nin - first, &rank, dim))
        return false;
    out[0] = type_new(c, t, rank, dim);
    return true;
}

static bool
broadcast_kind(Ctx *c, const OpCall *call, bool allowed[KIND_COUNT], const char *wanted, DType t,
               const Type **out)
{
    for (uint32_t i = 0; i < call->nin; i++) {
        if (!call->in[i])
            return op_fail(c, call, DIAG_MODEL, "input %u is absent, but it is not optional", i);
        if (!allowed[dtype_info[call->in[i]->dtype].kind])
            return op_fail(c, call, DIAG_MODEL, "input %u is %s; its elements must be %s", i,
                           type_str(c, call->in[i]), wanted);
        if (t == DT_NONE && dtype_info[call->in[i]->dtype].bits < 8)
            return op_fail(c, call, DIAG_MODEL,
                           "input %u is %s; elements of fewer than 8 bits are stored and "
                           "converted, not computed with",
                           i, type_str(c, call->in[i]));
        if (!op_same_dtype(c, call, 0, i))
            return false;
    }
    return broadcast_to(c, call, 0, t == DT_NONE ? call->in[0]->dtype : t, out);
}

bool
infer_numbers(Ctx *c, const OpCall *call, const Type **out)
{
    bool allowed[KIND_COUNT] = { [KIND_FLOAT] = true, [KIND_INT] = true, [KIND_UINT] = true };
    return broadcast_kind(c, call, allowed, "numbers", DT_NONE, out);
}

bool
infer_floats(Ctx *c, const OpCall *call, const Type **out)
{
    bool allowed[KIND_COUNT] = { [KIND_FLOAT] = true };
    return broadcast_kind(c, call, allowed, "floats", DT_NONE, out);
}

bool
infer_ints(Ctx *c, const OpCall *call, const Type **out)
{
    bool allowed[KIND_COUNT] = { [KIND_INT] = true, [KIND_UINT] = true };
    return broadcast_kind(c, call, allowed, "integers", DT_NONE, out);
}

bool
infer_bools(Ctx *c, const OpCall *call, const Type **out)
{
    bool allowed[KIND_COUNT] = { [KIND_BOOL] = true };
    return broadcast_kind(c, call, allowed, "bool", DT_BOOL, out);
}

bool
infer_compares(Ctx *c, const OpCall *call, const Type **out)
{
    bool allowed[KIND_COUNT] = { false, true, true, true, true };
    return broadcast_kind(c, call, allowed, "numbers or bool", DT_BOOL, out);
}

bool
infer_tests(Ctx *c, const OpCall *call, const Type **out)
{
    bool allowed[KIND_COUNT] = { [KIND_FLOAT] = true };
    return broadcast_kind(c, call, allowed, "floats", DT_BOOL, out);
}

bool
infer_same(Ctx *c, const OpCall *call, const Type **out)
{
    (void)c;
    out[0] = call->in[0];
    return true;
}

bool
infer_same_float(Ctx *c, const OpCall *call, const Type **out)
{
    if (!dtype_is_float(call->in[0]->dtype))
        return op_fail(c, call, DIAG_MODEL, "input 0 is %s; its elements must be floats",
                       type_str(c, call->in[0]));
    out[0] = call->in[0];
    return true;
}

bool
infer_pow(Ctx *c, const OpCall *call, const Type **out)
{
    for (uint32_t i = 0; i < 2; i++)
        if (call->in[i]->dtype == DT_BOOL)
            return op_fail(c, call, DIAG_MODEL, "input %u is %s; its elements must be numbers", i,
                           type_str(c, call->in[i]));
    return broadcast_to(c, call, 0, call->in[0]->dtype, out);
}

bool
infer_where(Ctx *c, const OpCall *call, const Type **out)
{
    if (call->in[0]->dtype != DT_BOOL)
        return op_fail(c, call, DIAG_MODEL, "input 0 (condition) is %s; it must be bool",
                       type_str(c, call->in[0]));
    return op_same_dtype(c, call, 1, 2) && broadcast_to(c, call, 0, call->in[1]->dtype, out);
}

bool
infer_clip(Ctx *c, const OpCall *call, const Type **out)
{
    for (uint32_t i = 1; i < call->nin; i++)
        if (has_in(call, i) && (!op_same_dtype(c, call, 0, i) ||
                                expr_eq(c, NULL, type_count(c, call->in[i]), expr_int(c, 1)) == NO))
            return op_fail(c, call, DIAG_MODEL,
                           "input %u (a bound) is %s; it must be one element of the type of %s", i,
                           type_str(c, call->in[i]), type_str(c, call->in[0]));
    out[0] = call->in[0];
    return true;
}

bool
infer_cast(Ctx *c, const OpCall *call, const Type **out)
{
    const char *to = op_string(c, call, "to");
    DType t = dtype_from_name(to, strlen(to));

    if (t == DT_NONE)
        return op_fail(c, call, DIAG_UNSUPPORTED, "attribute \"to\" names no element type: \"%s\"",
                       to);
    if ((t == DT_STR) != (call->in[0]->dtype == DT_STR))
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "%s as %s: strings and numbers are not cast to each other yet",
                       type_str(c, call->in[0]), to);
    out[0] = type_with_dtype(c, call->in[0], t);
    return true;
}

bool
infer_dropout(Ctx *c, const OpCall *call, const Type **out)
{
    int64_t training = 0;
    uint32_t n;

    if (has_in(call, 2) && !op_param_ints(c, call, 2, "training_mode", 1, &training, &n))
        return false;
    if (training)
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "training_mode is true; only inference is supported");
    out[0] = call->in[0];
    if (call->nout > 1)
        out[1] = type_with_dtype(c, call->in[0], DT_BOOL);
    return true;
}

/* ---- meanings -------------------------------------------------------------------------------- */

enum { MAX_OPERANDS = 12 };

/* Names and values that a scalar text may use: x, y, z, then the operator's numeric attributes. */
typedef struct {
    uint32_t n;
    const char *name[MAX_OPERANDS];
    const Scalar *value[MAX_OPERANDS];
} Operands;

static void
add_attributes(Build *b, Operands *o, DType t)
{
    const char *s = op_info[b->call->op].attrs;

    while (*s && o->n < MAX_OPERANDS) {
        const char *name = sym_n(b->c, s, strcspn(s, "= "));
        o->name[o->n] = name;
        o->value[o->n++] = scalar_number(b->c, t, op_float(b->call, name));
        s += strcspn(s, " ");
        s += strspn(s, " ");
    }
}

/* o[i…] = text over the inputs, broadcast. */
static bool
expand_text(Build *b, const char *text)
{
    static const char *const letter[] = { "x", "y", "z" };
    const Expr *axis[TN_MAX_RANK];
    const Type *t = b->out[0];
    Making m = make_begin(b, NULL);
    Operands o = { 0 };

    for (uint32_t i = 0; i < b->call->nin; i++)
        make_in(&m, letter[i], i);
    make_out_over(&m, "o", build_out(b, 0), axis);
    for (; o.n < b->call->nin; o.n++) {
        o.name[o.n] = letter[o.n];
        o.value[o.n] = make_load_broadcast(&m, o.n, t->rank, axis);
    }
    add_attributes(b, &o, o.value[0]->dtype);
    return make_finish(&m, axis, scalar_parse(b->c, text, o.n, o.name, o.value));
}

bool
expand_scalar(Build *b)
{
    return expand_text(b, op_info[b->call->op].meaning);
}

/* The inputs and the output of an operation of two operands, and both operands at a point. */
static void
make_two(Making *m, const Expr **axis, const Scalar **v)
{
    for (uint32_t i = 0; i < 2; i++)
        make_in(m, i ? "y" : "x", i);
    make_out_over(m, "o", build_out(m->b, 0), axis);
    for (uint32_t i = 0; i < 2; i++)
        v[i] = make_load_broadcast(m, i, m->b->out[0]->rank, axis);
}

/* The exponent is read at the type of the base; an integer base with a float exponent goes through
 * f64. */
bool
expand_pow(Build *b)
{
    Ctx *c = b->c;
    const Expr *axis[TN_MAX_RANK];
    Making m = make_begin(b, NULL);
    const Scalar *v[2];

    make_two(&m, axis, v);
    DType t = (DType)v[0]->dtype;
    if (dtype_is_int(t) && dtype_is_float((DType)v[1]->dtype))
        t = DT_F64;
    return make_finish(&m, axis,
                       scalar_2(c, S_POW, scalar_cast(c, t, v[0]), scalar_cast(c, t, v[1])));
}

/* A signed value keeps shifting in its sign: by the width or more is by one less than the width. */
bool
expand_shift_right(Build *b)
{
    Ctx *c = b->c;
    const Expr *axis[TN_MAX_RANK];
    DType t = b->out[0]->dtype;
    Making m = make_begin(b, NULL);
    const Scalar *v[2];

    make_two(&m, axis, v);
    if (dtype_info[t].kind == KIND_INT) {
        const Scalar *last = scalar_int(c, t, dtype_info[t].bytes * 8 - 1);
        const Scalar *beyond = scalar_2(c, S_OR, scalar_2(c, S_LT, v[1], scalar_int(c, t, 0)),
                                        scalar_2(c, S_GT, v[1], last));
        v[1] = scalar_select(c, beyond, last, v[1]);
    }
    return make_finish(&m, axis, scalar_2(c, S_SHR, v[0], v[1]));
}

bool
expand_clip(Build *b)
{
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    Making m = make_begin(b, NULL);

    make_in(&m, "x", 0);
    for (uint32_t i = 1; i < b->call->nin; i++)
        if (has_in(b->call, i))
            make_in(&m, i == 1 ? "low" : "high", i);
    make_out_over(&m, "o", build_out(b, 0), axis);
    for (uint32_t d = 0; d < TN_MAX_RANK; d++)
        at[d] = expr_int(b->c, 0);
    const Scalar *v = make_load(&m, 0, axis);
    uint32_t slot = 1;
    if (has_in(b->call, 1))
        v = scalar_2(b->c, S_MAX, v, make_load(&m, slot++, at));
    if (has_in(b->call, 2))
        v = scalar_2(b->c, S_MIN, v, make_load(&m, slot++, at));
    return make_finish(&m, axis, v);
}

/* What `step` makes of the first n inputs of a nest, from the left. NULL: reported. */
static const Scalar *
combined(Making *m, const Expr *const *axis, const char *step, uint32_t n)
{
    static const char *const name[] = { "x", "y" };
    uint32_t rank = m->b->out[0]->rank;
    const Scalar *operand[2] = { make_load_broadcast(m, 0, rank, axis) };

    for (uint32_t i = 1; i < n && operand[0]; i++) {
        operand[1] = make_load_broadcast(m, i, rank, axis);
        operand[0] = scalar_parse(m->b->c, step, 2, name, operand);
    }
    return operand[0];
}

/* "x + y | x / n": combine the inputs from the left, then finish. Of many inputs, a nest goes on
 * with what the one before it made. */
bool
expand_variadic(Build *b)
{
    static const char *const name[] = { "x", "y", "n" };
    Ctx *c = b->c;
    const char *pair = op_info[b->call->op].meaning, *bar = strchr(pair, '|');
    const char *step = sym_n(c, pair, (size_t)(bar - pair));
    uint32_t before = NO_SLOT, nin = b->call->nin, next = 0;
    const Expr *axis[TN_MAX_RANK];

    for (;;) {
        bool last = nin - next <= MOST_OPERANDS;
        uint32_t end = last ? nin : next + MOST_OPERANDS, n = 0;
        Making m = make_begin(b, last ? NULL : "some");
        if (before != NO_SLOT)
            make_in(&m, arena_printf(c->arena, "x%u", n++), before);
        for (; next < end; next++)
            make_in(&m, arena_printf(c->arena, "x%u", n++), next);
        before =
            last ? build_out(b, 0)
                 : build_value(b, compute_type(b->out[0]->dtype), b->out[0]->rank, b->out[0]->dim);
        make_out_over(&m, "o", before, axis);
        const Scalar *operand[3] = { combined(&m, axis, step, n) };
        if (!operand[0] || (!last && !make_finish(&m, axis, operand[0])))
            return false;
        if (!last)
            continue;
        operand[1] = operand[0];
        operand[2] = scalar_number(c, (DType)operand[0]->dtype, nin);
        return make_finish(&m, axis, scalar_parse(c, bar + 1, 3, name, operand));
    }
}

/* What does not fit a float of 8 bits or fewer becomes its largest value or, without saturation,
 * infinity or NaN. */
static const Scalar *
fitted(Ctx *c, DType t, const Scalar *x, bool saturates)
{
    FloatLayout l = dtype_layout(t);
    DType f = (DType)x->dtype;
    int exponent;

    if (saturates)
        return l.kind != FLOAT_IEEE
                   ? x
                   : scalar_2(c, S_MIN, scalar_2(c, S_MAX, x, scalar_float(c, f, -l.largest)),
                              scalar_float(c, f, l.largest));
    /* Halfway to what would come next is too large, unless the tie goes down, to an even
     * fraction. */
    double fraction = __builtin_frexp(l.largest, &exponent),
           step = __builtin_ldexp(1, exponent - 1 - l.fraction);
    bool even = __builtin_fmod(__builtin_ldexp(fraction, l.fraction + 1), 2) == 0;
    const Scalar *limit = scalar_float(c, f, l.largest + step / 2), *size = scalar_1(c, S_ABS, x);
    const Scalar *beyond = l.kind == FLOAT_IEEE ? scalar_2(c, S_MUL, scalar_1(c, S_SIGN, x),
                                                           scalar_float(c, f, __builtin_inf()))
                                                : scalar_float(c, f, __builtin_nan(""));
    return scalar_select(c, scalar_2(c, even ? S_GT : S_GE, size, limit), beyond, x);
}

/* A power of two: above, as a conversion gives it, or below or nearest. */
static const Scalar *
power_of_two(Build *b, const Scalar *x)
{
    static const char *const name[] = { "x", "y" };
    Ctx *c = b->c;
    const Scalar *operand[] = { x, scalar_cast(c, DT_F32, scalar_cast(c, DT_F8E8M0, x)) };
    bool down = op_string_is(b->call, "round_mode", "down");

    if (!op_int(b->call, "saturate"))
        operand[0] = x = scalar_select(c, scalar_2(c, S_GT, x, scalar_float(c, DT_F32, 0x1p127)),
                                       scalar_float(c, DT_F32, __builtin_nan("")), x);
    if (op_string_is(b->call, "round_mode", "up"))
        return x;
    return scalar_parse(c, down ? "x < y ? y * 0.5 : x" : "x < 0.75 * y ? y * 0.5 : x", 2, name,
                        operand);
}

bool
expand_cast(Build *b)
{
    Ctx *c = b->c;
    const Expr *axis[TN_MAX_RANK];
    DType from = b->call->in[0]->dtype, to = b->out[0]->dtype;
    Making m = make_begin(b, NULL);

    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    const Scalar *x = nest_load(&m.nb, 0, axis);
    bool small =
        dtype_is_float(from) && from != to && dtype_is_float(to) && dtype_info[to].bits <= 8;
    if (small && to == DT_F8E8M0)
        x = power_of_two(b, scalar_cast(c, DT_F32, x));
    else if (small && dtype_info[from].bits > 8)
        x = fitted(c, to, scalar_cast(c, compute_type(from), x),
                   dtype_info[to].bits < 8 || op_int(b->call, "saturate"));
    else if (dtype_is_float(from) && dtype_is_int(to) && dtype_info[to].bits < 8)
        x = scalar_cast(c, DT_I32, x); /* of an integer the low bits stay */
    return make_finish(&m, axis, x);
}

bool
expand_dropout(Build *b)
{
    const Expr *axis[TN_MAX_RANK];

    if (b->call->nout > 1 && b->out[1]) {
        Making m = make_begin(b, "mask");
        make_out_over(&m, "o", build_out(b, 1), axis);
        make_write(&m, 0, axis, scalar_int(b->c, DT_BOOL, 1));
        if (!make_end(&m))
            return false;
    }
    Making m = make_begin(b, NULL);
    make_in(&m, "x", 0);
    make_out_over(&m, "o", build_out(b, 0), axis);
    return make_finish(&m, axis, make_load(&m, 0, axis));
}
