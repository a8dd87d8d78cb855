/* elementwise: operators whose expansion is one scalar expression, from the table.
 *
 * Inputs are broadcast against each other. Short floats are widened, computed in f32 and rounded
 * once, at the write.
 */
#include "op/build.h"

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
broadcast_kind(Ctx *c, const OpCall *call, const char *kinds, DType t, const Type **out)
{
    for (uint32_t i = 0; i < call->nin; i++) {
        if (!call->in[i])
            return op_fail(c, call, DIAG_MODEL, "input %u is absent, but it is not optional", i);
        if (!op_elements(c, call, i, kinds))
            return false;
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
    return broadcast_kind(c, call, "numbers", DT_NONE, out);
}

bool
infer_floats(Ctx *c, const OpCall *call, const Type **out)
{
    return broadcast_kind(c, call, "floats", DT_NONE, out);
}

bool
infer_ints(Ctx *c, const OpCall *call, const Type **out)
{
    return broadcast_kind(c, call, "integers", DT_NONE, out);
}

bool
infer_bools(Ctx *c, const OpCall *call, const Type **out)
{
    return broadcast_kind(c, call, "bool", DT_BOOL, out);
}

bool
infer_compares(Ctx *c, const OpCall *call, const Type **out)
{
    return broadcast_kind(c, call, "numbers or bool", DT_BOOL, out);
}

bool
infer_tests(Ctx *c, const OpCall *call, const Type **out)
{
    return broadcast_kind(c, call, "floats", DT_BOOL, out);
}

bool
infer_same(Ctx *c, const OpCall *call, const Type **out)
{
    (void)c;
    out[0] = call->in[0];
    return true;
}

bool
infer_pow(Ctx *c, const OpCall *call, const Type **out)
{
    return op_elements(c, call, 0, "numbers") && op_elements(c, call, 1, "numbers") &&
           broadcast_to(c, call, 0, call->in[0]->dtype, out);
}

bool
infer_where(Ctx *c, const OpCall *call, const Type **out)
{
    return op_elements(c, call, 0, "bool") && op_same_dtype(c, call, 1, 2) &&
           broadcast_to(c, call, 0, call->in[1]->dtype, out);
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
    DType t;

    if (!op_named_type(c, call, "to", DT_NONE, &t))
        return false;
    if ((t == DT_STR) != (call->in[0]->dtype == DT_STR))
        return op_fail(c, call, DIAG_UNSUPPORTED,
                       "%s as %s: strings and numbers are not cast to each other yet",
                       type_str(c, call->in[0]), dtype_info[t].name);
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

/* ---- expansions ------------------------------------------------------------------------------ */

/* The expression in the table, with the attributes that it names. */
bool
expand_scalar(Build *b)
{
    Text lets = { .arena = b->c->arena };

    for (const char *s = op_info[b->call->op].attrs; *s; s += strspn(s, " ")) {
        const char *name = sym_n(b->c, s, strcspn(s, "= "));
        text_printf(&lets, "let %s = $T(%.17g) in ", name, op_float(b->call, name));
        s += strcspn(s, " ");
    }
    return build_text(b, NULL, "x y? z? -> o", NULL, "o = %s%s", text_str(&lets),
                      op_info[b->call->op].meaning);
}

/* The exponent is converted to the type of the base; an integer base with a float exponent is
 * computed in f64. */
bool
expand_pow(Build *b)
{
    b->real = compute_type(b->call->in[0]->dtype);
    if (dtype_is_int(b->real) && dtype_is_float(b->call->in[1]->dtype))
        b->real = DT_F64;
    return build_text(b, NULL, "x y -> o", NULL, "o = pow($T(x), $T(y))");
}

/* A signed shift is arithmetic: a shift by the width or more is one by the width minus 1. */
bool
expand_shift_right(Build *b)
{
    DType t = b->out[0]->dtype;
    int last = dtype_info[t].bytes * 8 - 1;

    return dtype_info[t].kind == KIND_INT
               ? build_text(b, NULL, "x y -> o", NULL,
                            "o = let n = y in shr(x, or(n < 0, n > %d) ? %d : n)", last, last)
               : build_text(b, NULL, "x y -> o", NULL, "o = shr(x, y)");
}

bool
expand_clip(Build *b)
{
    const char *v = has_in(b->call, 1) ? "max(x[$i], low[])" : "x[$i]";

    return build_text(b, NULL, "x low? high? -> o", NULL,
                      has_in(b->call, 2) ? "o = min(%s, high[])" : "o = %s", v);
}

/* "x + y | x / n": folds the inputs from the left, then finishes. With many inputs, a nest
 * continues from the result of the one before. */
bool
expand_variadic(Build *b)
{
    Arena *a = b->c->arena;
    const char *pair = op_info[b->call->op].meaning, *bar = strchr(pair, '|');
    const char *step = sym_n(b->c, pair, (size_t)(bar - pair));
    uint32_t nin = b->call->nin, before = NO_SLOT, next = 0;

    for (;;) {
        bool last = nin - next <= MOST_OPERANDS;
        uint32_t value[MOST_OPERANDS + 2], n = 0;
        const char *sofar = "x0";
        Text params = { .arena = a }, lets = { .arena = a };
        if (before != NO_SLOT)
            value[n++] = before;
        while (next < nin && n < MOST_OPERANDS + (before != NO_SLOT))
            value[n++] = next++;
        for (uint32_t i = 0; i < n; i++) {
            text_printf(&params, "x%u ", i);
            if (!i)
                continue;
            const char *of[] = { sofar, arena_printf(a, "x%u", i) };
            sofar = arena_printf(a, "s%u", i);
            text_printf(&lets, "let %s = %s in ", sofar, letters_text(a, step, "xy", of));
        }
        text_add(&params, "-> o");
        value[n] = last ? build_out(b, 0)
                        : build_value_like(b, compute_type(b->out[0]->dtype), build_out(b, 0));
        const char *of[] = { sofar, arena_printf(a, "$T(%u)", nin) };
        if (!build_text(b, last ? NULL : "some", text_str(&params), value, "o = %s%s",
                        text_str(&lets), last ? letters_text(a, bar + 1, "xn", of) : sofar))
            return false;
        if (last)
            return true;
        before = value[n];
    }
}

/* Values beyond the range of a float of 8 bits or fewer become the largest value or, without
 * saturation, infinity or NaN. */
static const char *
fitted_text(Arena *a, DType t, bool saturates)
{
    FloatLayout l = dtype_layout(t);
    int exponent;

    if (saturates)
        return l.kind != FLOAT_IEEE
                   ? "v"
                   : arena_printf(a, "min(max(v, %.17g), %.17g)", -l.largest, l.largest);
    /* Halfway to the next value is too large, unless the tie rounds down, to an even fraction. */
    double fraction = __builtin_frexp(l.largest, &exponent),
           step = __builtin_ldexp(1, exponent - 1 - l.fraction);
    bool even = __builtin_fmod(__builtin_ldexp(fraction, l.fraction + 1), 2) == 0;
    return arena_printf(a, "abs(v) %s %.17g ? %s : v", even ? ">" : ">=", l.largest + step / 2,
                        l.kind == FLOAT_IEEE ? "sign(v) * inf" : "nan");
}

/* A power of two: rounded up, as a conversion does, or down, or to nearest. */
static bool
cast_to_power(Build *b)
{
    bool down = op_string_is(b->call, "round_mode", "down");

    return build_text(b, NULL, "x -> o", NULL,
                      "o = let w = f32(x[$i]) in let v = %s in let y = f32(%s(w)) in %s",
                      op_int(b->call, "saturate") ? "w" : "w > 1.7014118346046923e+38 ? nan : w",
                      dtype_info[DT_F8E8M0].name,
                      op_string_is(b->call, "round_mode", "up") ? "v"
                      : down                                    ? "v < y ? y * 0.5 : v"
                                                                : "v < 0.75 * y ? y * 0.5 : v");
}

bool
expand_cast(Build *b)
{
    DType from = b->call->in[0]->dtype, to = b->out[0]->dtype;
    bool to_short =
        from != to && dtype_is_float(from) && dtype_is_float(to) && dtype_info[to].bits <= 8;

    b->moves = true;
    if (to_short && to == DT_F8E8M0)
        return cast_to_power(b);
    if (to_short && dtype_info[from].bits > 8)
        return build_text(
            b, NULL, "x -> o", NULL, "o = let v = $T(x[$i]) in %s",
            fitted_text(b->c->arena, to, dtype_info[to].bits < 8 || op_int(b->call, "saturate")));
    /* an integer keeps its low bits */
    bool to_bits = dtype_is_float(from) && dtype_is_int(to) && dtype_info[to].bits < 8;
    return build_text(b, NULL, "x -> o", NULL, to_bits ? "o = i32(x[$i])" : "o = x[$i]");
}

bool
expand_dropout(Build *b)
{
    return (b->call->nout < 2 || !b->out[1] ||
            build_text(b, "mask", "-> o", (uint32_t[]){ build_out(b, 1) }, "o = true")) &&
           build_text(b, NULL, "x -> o", NULL, "o = x[$i]");
}
