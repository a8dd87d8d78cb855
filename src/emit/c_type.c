/* c_type: the names of element types, vectors and constants in emitted C.
 *
 * In registers short floats are rounded f32, and integers of fewer than 8 bits are of 8; a bool is
 * an int, or a mask, an integer vector with the width of what it selects. In memory they are 16
 * bits or a byte.
 */
#include "emit/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The type of t in registers. */
static DType
held_as(DType t)
{
    return dtype_is_short(t)          ? DT_F32
           : t == DT_I4 || t == DT_I2 ? DT_I8
           : t == DT_U4 || t == DT_U2 ? DT_U8
           : t == DT_STR              ? DT_U64
                                      : t;
}

static const char *
with_lanes(Emit *e, const char *prefix, const char *element, uint32_t lanes)
{
    if (lanes == 1)
        return arena_printf(e->a, "%s%s", prefix, element);
    e->lanes_used |= 1ull << (lanes & 63);
    return arena_printf(e->a, "%s%sx%u", prefix, element, lanes);
}

uint32_t
emit_value_bytes(DType t)
{
    return t == DT_BOOL ? 4 : dtype_info[held_as(t)].bytes;
}

const char *
emit_shape(Emit *e, DType t, uint32_t lanes)
{
    return with_lanes(e, "", t == DT_BOOL ? "i32" : dtype_info[held_as(t)].name, lanes);
}

const char *
emit_memory_shape(Emit *e, DType t, uint32_t lanes)
{
    return with_lanes(e, "",
                      dtype_is_short(t) ? (dtype_info[t].bytes == 2 ? "u16" : "u8")
                      : t == DT_BOOL    ? "u8"
                                        : dtype_info[held_as(t)].name,
                      lanes);
}

static const char *
mask_element(uint32_t bytes)
{
    return bytes == 1 ? "i8" : bytes == 2 ? "i16" : bytes == 4 ? "i32" : "i64";
}

const char *
emit_ctype(Emit *e, DType t, uint32_t lanes, uint32_t mask)
{
    if (lanes == 1)
        return t == DT_BOOL ? "int" : dtype_info[held_as(t)].ctype;
    if (t == DT_BOOL)
        return with_lanes(e, "tn_", mask_element(mask), lanes);
    return with_lanes(e, "tn_", dtype_info[held_as(t)].name, lanes);
}

/* The fewest digits that read back as the same value. */
static const char *
float_text(Emit *e, double v, bool single)
{
    char buffer[64];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buffer, sizeof buffer, "%.*g", digits, v);
        if (single ? strtof(buffer, NULL) == (float)v : strtod(buffer, NULL) == v)
            break;
    }
    const char *point = strpbrk(buffer, ".e") ? "" : ".0";
    const char *suffix = single ? "f" : "";
    return arena_printf(e->a, signbit(v) ? "(%s%s%s)" : "%s%s%s", buffer, point, suffix);
}

/* Converts between a short float's bits, in integers as wide as a float, and floats: by a function
 * of its own for types of 16 bits, otherwise by one with the layout as arguments, and `more`. */
static const char *
convert_short(Emit *e, const char *way, DType t, uint32_t lanes, const char *x, const char *more)
{
    FloatLayout l = dtype_layout(t);
    const char *shape = emit_shape(e, t, lanes);

    if (dtype_info[t].bytes == 2)
        return arena_printf(e->a, "tn_%s_%s_%s(%s)", way, dtype_info[t].name, shape, x);
    if (l.kind == FLOAT_EXPONENT)
        return arena_printf(e->a, "tn_%s_e8m0_%s(%s)", way, shape, x);
    return arena_printf(e->a, "tn_%s_small_%s(%s, %d, %d, %d, %d%s)", way, shape, x, l.exponent,
                        l.fraction, l.bias, l.kind, more);
}

const char *
emit_widen(Emit *e, DType t, uint32_t lanes, const char *bits)
{
    return convert_short(e, "widen", t, lanes, bits, "");
}

const char *
emit_narrow(Emit *e, DType t, uint32_t lanes, const char *value)
{
    const char *largest = float_text(e, dtype_layout(t).largest, true);

    return convert_short(e, "narrow", t, lanes, value, arena_printf(e->a, ", %s", largest));
}

const char *
emit_mask(Emit *e, CValue v, uint32_t lanes, uint32_t bytes)
{
    if (lanes == 1 || v.mask == bytes || !v.s)
        return v.s;
    return arena_printf(e->a, "__builtin_convertvector(%s, %s)", v.s,
                        emit_ctype(e, DT_BOOL, lanes, bytes));
}

const char *
emit_const(Emit *e, DType t, int64_t bits)
{
    if (dtype_is_float(t)) {
        double v;
        memcpy(&v, &bits, sizeof v);
        const char *suffix = t == DT_F64 ? "" : "f";
        if (isnan(v))
            return arena_printf(e->a, "__builtin_nan%s(\"\")", suffix);
        if (isinf(v))
            return arena_printf(e->a, v < 0 ? "(-__builtin_inf%s())" : "__builtin_inf%s()", suffix);
        return float_text(e, v, t != DT_F64);
    }
    switch (t) {
    case DT_U64: return arena_printf(e->a, "UINT64_C(%llu)", (unsigned long long)bits);
    case DT_I64:
        if (bits == INT64_MIN)
            return "INT64_MIN";
        return arena_printf(e->a, bits < 0 ? "INT64_C(-%lld)" : "INT64_C(%lld)",
                            (long long)(bits < 0 ? -bits : bits));
    case DT_U32: return arena_printf(e->a, "%lluu", (unsigned long long)(uint32_t)bits);
    case DT_I32:
        if (bits == INT32_MIN)
            return "INT32_MIN";
        return arena_printf(e->a, bits < 0 ? "(%lld)" : "%lld", (long long)bits);
    case DT_BOOL: return bits ? "1" : "0";
    default: return arena_printf(e->a, "(%s)%lld", dtype_info[t].ctype, (long long)bits);
    }
}

/* The text without parentheses around all of it, for places that have their own. */
const char *
emit_without_parens(Emit *e, const char *s)
{
    size_t n = strlen(s);
    int depth = 0;
    if (n < 2 || s[0] != '(' || s[n - 1] != ')')
        return s;
    for (size_t i = 0; i < n - 1; i++)
        if ((depth += (s[i] == '(') - (s[i] == ')')) == 0)
            return s;
    return arena_printf(e->a, "%.*s", (int)n - 2, s + 1);
}
