/* c_op: casts and arithmetic as C.
 *
 * Operations that C defines at the width of the type are printed directly; others call a function
 * of the prelude.
 */
#include "emit/internal.h"

#include <math.h>
#include <string.h>

/* ---- casts ----------------------------------------------------------------------------------- */

/* Rounded to a type narrower than the one it is computed in. */
static const char *
rounded(Emit *e, DType t, uint32_t lanes, const char *s)
{
    if (dtype_info[t].bytes == 2 && dtype_is_short(t))
        return arena_printf(e->a, "tn_to_%s_%s(%s)", dtype_info[t].name, emit_shape(e, t, lanes),
                            s);
    if (dtype_is_short(t))
        return emit_widen(e, t, lanes, emit_narrow(e, t, lanes, s));
    if (dtype_info[t].bits >= 8)
        return s;
    /* shift them out and back in: signs are kept */
    int unused = 8 - dtype_info[t].bits;
    const char *type = emit_ctype(e, t, lanes, 0);
    return arena_printf(e->a, "((%s)((%s)(%s << %d) >> %d))", type, type, s, unused, unused);
}

/* A float as an integer of fewer than 8 bits: as one of 8, then clamped. */
static const char *
saturated(Emit *e, DType t, uint32_t lanes, const char *s)
{
    const char *shape = emit_shape(e, t, lanes);
    int bits = dtype_info[t].bits, low = dtype_info[t].kind == KIND_INT ? -(1 << (bits - 1)) : 0,
        high = low + (1 << bits) - 1;
    if (lanes == 1)
        return arena_printf(e->a, "tn_min_%s(tn_max_%s(%s, %d), %d)", shape, shape, s, low, high);
    return arena_printf(e->a, "tn_min_%s(tn_max_%s(%s, tn_splat_%s(%d)), tn_splat_%s(%d))", shape,
                        shape, s, shape, low, shape, high);
}

static const char *
converted(Emit *e, DType to, uint32_t lanes, const char *s)
{
    const char *type = emit_ctype(e, to, lanes, 0);
    return lanes == 1 ? arena_printf(e->a, "(%s)%s", type, s)
                      : arena_printf(e->a, "__builtin_convertvector(%s, %s)", s, type);
}

/* Integers of at most 16 bits in a vector, as numbers of 32 bits; NULL: another case. */
static const char *
lengthened(Emit *e, DType from, DType to, uint32_t lanes, const char *s)
{
    if (lanes == 1 || !dtype_is_int(from) || dtype_info[from].bits > 16 ||
        (to != DT_I32 && to != DT_U32 && to != DT_F32))
        return NULL;
    const char *text =
        arena_printf(e->a, "tn_long_%s(%s)", emit_shape(e, from, lanes), emit_without_parens(e, s));
    return to == DT_I32   ? text
           : to == DT_F32 ? converted(e, to, lanes, text)
                          : arena_printf(e->a, "(%s)%s", emit_ctype(e, to, lanes, 0), text);
}

/* The low 8 or 16 bits of 32-bit integers in a vector; NULL: another case. */
static const char *
shortened(Emit *e, DType from, DType to, uint32_t lanes, const char *s)
{
    bool narrow = to == DT_I8 || to == DT_U8 || to == DT_I16 || to == DT_U16;

    if (lanes == 1 || !narrow || (from != DT_I32 && from != DT_U32))
        return NULL;
    return from == DT_I32 ? arena_printf(e->a, "tn_short_%s(%s)", emit_shape(e, to, lanes), s)
                          : arena_printf(e->a, "tn_short_%s((%s)%s)", emit_shape(e, to, lanes),
                                         emit_ctype(e, DT_I32, lanes, 0), s);
}

CValue
emit_cast(Emit *e, const Scalar *s)
{
    DType from = s->arg[0]->dtype, to = s->dtype;
    uint32_t lanes = s->lanes;
    CValue v = emit_value(e, s->arg[0]);
    if (!v.s)
        return v;
    if (to == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s != 0)", v.s), lanes, emit_value_bytes(from));
    if (from == DT_BOOL && lanes > 1) {
        const char *shape = emit_shape(e, to, lanes);
        const char *mask = emit_mask(e, v, lanes, emit_value_bytes(to));
        return plain(arena_printf(e->a, "tn_sel_%s(%s, tn_splat_%s(1), tn_splat_%s(0))", shape,
                                  mask, shape, shape));
    }
    if (dtype_is_float(from) && dtype_is_int(to)) {
        const char *whole = arena_printf(e->a, "tn_%s_from_%s(%s)", emit_shape(e, to, lanes),
                                         emit_shape(e, from, lanes), v.s);
        return plain(dtype_info[to].bits < 8 ? saturated(e, to, lanes, whole) : whole);
    }
    const char *wide = lengthened(e, from, to, lanes, v.s);
    if (wide)
        return plain(wide);
    const char *few = shortened(e, from, to, lanes, v.s);
    if (few)
        return plain(few);
    bool same = strcmp(emit_ctype(e, from, lanes, 4), emit_ctype(e, to, lanes, 4)) == 0;
    return plain(rounded(e, to, lanes, same ? v.s : converted(e, to, lanes, v.s)));
}

CValue
emit_fold(Emit *e, const Scalar *s)
{
    const Scalar *x = s->arg[0];
    CValue v = emit_value(e, x);
    if (!v.s || x->lanes == 1)
        return v;
    const char *fold = s->op == S_HSUM    ? "hsum"
                       : s->op == S_HPROD ? "hprod"
                       : s->op == S_HMAX  ? "hmax"
                                          : "hmin";
    const char *shape = emit_shape(e, x->dtype, x->lanes);
    if (x->dtype == DT_BOOL) /* true is -1: the largest truth is the smallest number */
        return plain(arena_printf(e->a, "(tn_%s_%s(%s) != 0)",
                                  s->op == S_HMAX || s->op == S_HSUM ? "hmin" : "hmax", shape,
                                  emit_mask(e, v, x->lanes, 4)));
    return plain(rounded(e, s->dtype, 1, arena_printf(e->a, "tn_%s_%s(%s)", fold, shape, v.s)));
}

CValue
emit_blocks(Emit *e, const Scalar *s)
{
    CValue x = emit_value(e, s->arg[0]), y = emit_value(e, s->arg[1]);
    Text t = { .arena = e->a };

    if (!x.s || !y.s)
        return NO_VALUE;
    if (s->dtype == DT_BOOL) {
        emit_fail(e, "lanes of truth values are moved about");
        return NO_VALUE;
    }
    text_printf(&t, "__builtin_shufflevector(%s, %s", x.s, y.s);
    for (uint32_t l = 0; l < s->lanes; l++)
        text_printf(&t, ", %u",
                    (l & ~s->u.block) + (s->op == S_ODDS ? s->u.block : 0) +
                        (l & s->u.block ? s->lanes : 0));
    text_add(&t, ")");
    return plain(text_str(&t));
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Integer arithmetic wraps: done on unsigned numbers of at least 32 bits. */
static const char *
wrapping(Emit *e, DType t, uint32_t lanes, const char *x, const char *op, const char *y)
{
    const char *type = emit_ctype(e, t, lanes, 0);
    const char *work;
    if (lanes > 1)
        work = emit_ctype(e,
                          dtype_info[t].bytes == 1   ? DT_U8
                          : dtype_info[t].bytes == 2 ? DT_U16
                          : dtype_info[t].bytes == 4 ? DT_U32
                                                     : DT_U64,
                          lanes, 0);
    else
        work = dtype_info[t].bytes == 8 ? "uint64_t" : "uint32_t";
    return arena_printf(e->a, "(%s)((%s)%s %s (%s)%s)", type, work, x, op, work, y);
}

static const char *
call(Emit *e, const char *name, DType t, uint32_t lanes, const char *x, const char *y)
{
    const char *shape = emit_shape(e, t, lanes);
    const char *text =
        y ? arena_printf(e->a, "tn_%s_%s(%s, %s)", name, shape, emit_without_parens(e, x),
                         emit_without_parens(e, y))
          : arena_printf(e->a, "tn_%s_%s(%s)", name, shape, emit_without_parens(e, x));
    return rounded(e, t, lanes, text);
}

static const Scalar *
constant_under(const Scalar *s)
{
    return s->op == S_SPLAT ? constant_under(s->arg[0]) : s->op == S_CONST ? s : NULL;
}

static bool
is_number(const Scalar *s)
{
    double v;
    if (!(s = constant_under(s)) || !dtype_is_float(s->dtype))
        return false;
    memcpy(&v, &s->u.bits, sizeof v);
    return !isnan(v);
}

static CValue
print_minmax(Emit *e, const Scalar *s, CValue x, CValue y)
{
    const char *name = s->op == S_MIN ? "min" : "max";
    if (s->dtype == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s %s %s)", x.s, s->op == S_MIN ? "&" : "|",
                                    emit_mask(e, y, s->lanes, x.mask)),
                       s->lanes, x.mask);
    if (dtype_is_float(s->dtype) && (is_number(s->arg[0]) || is_number(s->arg[1]))) {
        bool first = is_number(s->arg[0]);
        name = s->op == S_MIN ? "min_c" : "max_c";
        return plain(arena_printf(e->a, "tn_%s_%s(%s, %s)", name, emit_shape(e, s->dtype, s->lanes),
                                  first ? x.s : y.s, first ? y.s : x.s));
    }
    return plain(
        arena_printf(e->a, "tn_%s_%s(%s, %s)", name, emit_shape(e, s->dtype, s->lanes), x.s, y.s));
}

static CValue
print_bits(Emit *e, const Scalar *s, CValue x, const char *op, CValue y)
{
    if (s->dtype == DT_BOOL)
        return mask_of(arena_printf(e->a, "(%s %s %s)", x.s, op, emit_mask(e, y, s->lanes, x.mask)),
                       s->lanes, x.mask);
    const char *text = arena_printf(e->a, "(%s %s %s)", x.s, op, y.s);
    return plain(s->lanes > 1 ? text : converted(e, s->dtype, 1, text));
}

static CValue
print_compare(Emit *e, const Scalar *s, CValue x, CValue y)
{
    DType t = s->arg[0]->dtype;
    const char *op = scalar_op_info[s->op].text;
    if (t == DT_BOOL && s->lanes > 1) {
        const char *other = emit_mask(e, y, s->lanes, x.mask);
        /* true is -1, so false < true reverses */
        bool ordered = s->op != S_EQ && s->op != S_NE;
        return mask_of(
            arena_printf(e->a, "(%s %s %s)", ordered ? other : x.s, op, ordered ? x.s : other),
            s->lanes, x.mask);
    }
    return mask_of(arena_printf(e->a, "(%s %s %s)", x.s, op, y.s), s->lanes, emit_value_bytes(t));
}

/* sum + dot(x, y), a dot-product instruction of many processors. */
static const char *
print_dot_sum(Emit *e, const Scalar *sum, const Scalar *dot)
{
    CValue c = emit_value(e, sum), x = emit_value(e, dot->arg[0]), y = emit_value(e, dot->arg[1]);

    if (!c.s || !x.s || !y.s)
        return NULL;
    return arena_printf(e->a, "tn_%s_sum_%s(%s, %s, %s)", scalar_op_info[dot->op].text,
                        emit_shape(e, dot->dtype, dot->lanes), emit_without_parens(e, c.s),
                        emit_without_parens(e, x.s), emit_without_parens(e, y.s));
}

/* From the bit to which a word is shifted, if it is the same for all lanes. */
static CValue
print_four_bits(Emit *e, const Scalar *s)
{
    const Scalar *word = scalar_four_bits(s), *less = constant_under(s->arg[1]);
    bool shifted = word->op == S_SHR && word->arg[1]->op == S_SPLAT;
    CValue from = shifted ? emit_value(e, word->arg[1]->arg[0]) : plain("0"),
           x = emit_value(e, shifted ? word->arg[0] : word);

    if (!x.s || !from.s)
        return NO_VALUE;
    return plain(arena_printf(e->a, "tn_four_bits_%s(%s, %s, %s)", emit_shape(e, DT_F32, s->lanes),
                              emit_without_parens(e, x.s), emit_without_parens(e, from.s),
                              emit_const(e, DT_F32, less->u.bits)));
}

/* x + y * z of four f32, which relaxed SIMD of WebAssembly has as one instruction. */
static bool
is_madd(const Emit *e, const Scalar *s)
{
    return e->how & EMIT_MADD && s->op == S_ADD && s->dtype == DT_F32 && s->lanes == 4 &&
           (s->arg[0]->op == S_MUL || s->arg[1]->op == S_MUL);
}

static CValue
print_madd(Emit *e, const Scalar *s)
{
    int product = s->arg[1]->op == S_MUL;
    const Scalar *mul = s->arg[product];
    CValue x = emit_value(e, s->arg[!product]), y = emit_value(e, mul->arg[0]),
           z = emit_value(e, mul->arg[1]);

    if (!x.s || !y.s || !z.s)
        return NO_VALUE;
    return plain(arena_printf(e->a, "TN_MADD_4(%s, %s, %s)", emit_without_parens(e, x.s),
                              emit_without_parens(e, y.s), emit_without_parens(e, z.s)));
}

CValue
emit_two(Emit *e, const Scalar *s)
{
    if (is_madd(e, s))
        return print_madd(e, s);
    if (s->op == S_ADD && s->lanes > 1 &&
        (scalar_is_dot(s->arg[0]->op) || scalar_is_dot(s->arg[1]->op))) {
        int dot = scalar_is_dot(s->arg[1]->op);
        return plain(print_dot_sum(e, s->arg[!dot], s->arg[dot]));
    }
    if (scalar_four_bits(s))
        return print_four_bits(e, s);
    CValue x = emit_value(e, s->arg[0]), y = emit_value(e, s->arg[1]);
    DType t = s->dtype;
    uint32_t lanes = s->lanes;
    const char *name = scalar_op_info[s->op].text;
    if (!x.s || !y.s)
        return NO_VALUE;
    switch (s->op) {
    case S_ADD:
    case S_SUB:
    case S_MUL:
        if (!dtype_is_float(t))
            return plain(wrapping(e, t, lanes, x.s, name, y.s));
        return plain(rounded(e, t, lanes, arena_printf(e->a, "(%s %s %s)", x.s, name, y.s)));
    case S_DIV:
        if (!dtype_is_float(t))
            return plain(call(e, "quot", t, lanes, x.s, y.s));
        return plain(rounded(e, t, lanes, arena_printf(e->a, "(%s / %s)", x.s, y.s)));
    case S_MIN:
    case S_MAX: return print_minmax(e, s, x, y);
    case S_AND: return print_bits(e, s, x, "&", y);
    case S_OR: return print_bits(e, s, x, "|", y);
    case S_XOR: return print_bits(e, s, x, "^", y);
    case S_EQ:
    case S_NE:
    case S_LT:
    case S_LE:
    case S_GT:
    case S_GE: return print_compare(e, s, x, y);
    case S_PAIR:
        return plain(arena_printf(e->a, "tn_pair_%s(%s, %s)",
                                  emit_shape(e, s->arg[0]->dtype, lanes),
                                  emit_without_parens(e, x.s), emit_without_parens(e, y.s)));
    /* mod, rem, pow, atan2, shl, shr, dots */
    default: return plain(call(e, name, t, lanes, x.s, y.s));
    }
}

CValue
emit_one(Emit *e, const Scalar *s)
{
    CValue x = emit_value(e, s->arg[0]);
    DType t = s->arg[0]->dtype;
    uint32_t lanes = s->lanes;
    const char *name = scalar_op_info[s->op].text;
    if (!x.s)
        return x;
    switch (s->op) {
    case S_NEG:
        return plain(dtype_is_float(t)
                         ? arena_printf(e->a, "(-%s)", x.s)
                         : wrapping(e, t, lanes,
                                    lanes == 1
                                        ? "0"
                                        : arena_printf(e->a, "(%s){0}", emit_ctype(e, t, lanes, 0)),
                                    "-", x.s));
    case S_NOT:
        if (t == DT_BOOL)
            return mask_of(arena_printf(e->a, lanes == 1 ? "(!%s)" : "(~%s)", x.s), lanes, x.mask);
        return plain(lanes == 1 ? arena_printf(e->a, "(%s)~%s", dtype_info[t].ctype, x.s)
                                : arena_printf(e->a, "(~%s)", x.s));
    case S_ISNAN:
    case S_ISINF:
        if (!dtype_is_float(t))
            return mask_of(arena_printf(e->a, "(%s != %s)", x.s, x.s), lanes, emit_value_bytes(t));
        if (!is_word(x.s))
            x = emit_name(e, s->arg[0], x);
        if (s->op == S_ISNAN)
            return mask_of(arena_printf(e->a, "(%s != %s)", x.s, x.s), lanes, emit_value_bytes(t));
        return mask_of(arena_printf(e->a, "(tn_abs_%s(%s) == __builtin_inf%s())",
                                    emit_shape(e, t, lanes), x.s, t == DT_F64 ? "" : "f"),
                       lanes, emit_value_bytes(t));
    case S_FLOOR:
    case S_CEIL:
    case S_ROUND:
    case S_TRUNC: return dtype_is_float(t) ? plain(call(e, name, t, lanes, x.s, NULL)) : x;
    default: return plain(call(e, name, t, lanes, x.s, NULL));
    }
}
