/* c_type: how element types, vectors and constants are called in emitted C.
 *
 * In registers f16 and bf16 are floats that were rounded; a bool is an int, or a mask, an integer
 * vector with the width of what it selects among. In memory they are 16 bits and a byte.
 */
#include "emit/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
is_half(DType t)
{
    return t == DT_F16 || t == DT_BF16;
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
    return is_half(t) || t == DT_BOOL ? 4 : dtype_info[t].bytes;
}

const char *
emit_shape(Emit *e, DType t, uint32_t lanes)
{
    return with_lanes(e, "", is_half(t) ? "f32" : t == DT_BOOL ? "i32" : dtype_info[t].name, lanes);
}

const char *
emit_memory_shape(Emit *e, DType t, uint32_t lanes)
{
    return with_lanes(e, "", is_half(t) ? "u16" : t == DT_BOOL ? "u8" : dtype_info[t].name, lanes);
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
        return is_half(t) ? "float" : t == DT_BOOL ? "int" : dtype_info[t].ctype;
    if (t == DT_BOOL)
        return with_lanes(e, "tn_", mask_element(mask), lanes);
    return with_lanes(e, "tn_", is_half(t) ? "f32" : dtype_info[t].name, lanes);
}

const char *
emit_mask(Emit *e, CValue v, uint32_t lanes, uint32_t bytes)
{
    if (lanes == 1 || v.mask == bytes || !v.s)
        return v.s;
    return arena_printf(e->a, "__builtin_convertvector(%s, %s)", v.s, emit_ctype(e, DT_BOOL, lanes, bytes));
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
emit_bare(Emit *e, const char *s)
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
