/* element: single elements of constants as text: decimal, with as many digits as it takes. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- short floats ---------------------------------------------------------------------------------- */

static double
half_to_double(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
             : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h >> 15 ? -v : v;
}

/* Ties to even: rint rounds the fraction, and a carry out of it is the next exponent. */
static uint16_t
half_from_double(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    int exponent;

    v = fabs(v);
    if (isnan(v))
        return sign | 0x7e00;
    if (v >= 65520.0)
        return sign | 0x7c00;
    frexp(v, &exponent);
    exponent = v == 0 || exponent < -13 ? -13 : exponent;
    int units = (int)rint(ldexp(v, 11 - exponent));      /* of the last place at this exponent */
    return (uint16_t)(sign + units + ((exponent + 13) << 10));
}

static double
bf16_to_double(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

static uint16_t
bf16_from_double(double v)
{
    float f = (float)v;
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if (isnan(v))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- text --------------------------------------------------------------------------------------------- */

static void
store_float(DType type, double v, void *at)
{
    float f = (float)v;
    uint16_t h = type == DT_F16 ? half_from_double(v) : bf16_from_double(v);

    if (type == DT_F64)
        memcpy(at, &v, 8);
    else if (type == DT_F32)
        memcpy(at, &f, 4);
    else
        memcpy(at, &h, 2);
}

/* As few digits as read back to the same bits, but 10.0, not 1e+01; always with a point or an exponent. */
static void
print_float(Text *t, DType type, double v, const void *at)
{
    char s[40];
    uint64_t again = 0;

    if (isnan(v) || isinf(v)) {
        text_add(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    bool usual = fabs(v) >= 1 && fabs(v) < 1e6;
    for (int digits = usual ? 1 + (int)log10(fabs(v)) : 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        store_float(type, strtod(s, NULL), &again);
        if (memcmp(&again, at, dtype_info[type].bytes) == 0)
            break;
    }
    text_add(t, s);
    if (!strpbrk(s, ".e"))
        text_add(t, ".0");
}

void
element_print(Text *t, DType type, const void *at)
{
    union { float f32; double f64; uint16_t h; int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint32_t u32; uint64_t u64; } v;

    memcpy(&v, at, dtype_info[type].bytes);
    switch (type) {
    case DT_F32:  print_float(t, type, v.f32, at); return;
    case DT_F64:  print_float(t, type, v.f64, at); return;
    case DT_F16:  print_float(t, type, half_to_double(v.h), at); return;
    case DT_BF16: print_float(t, type, bf16_to_double(v.h), at); return;
    case DT_I8:   text_printf(t, "%d", v.i8); return;
    case DT_I16:  text_printf(t, "%d", v.i16); return;
    case DT_I32:  text_printf(t, "%" PRId32, v.i32); return;
    case DT_I64:  text_printf(t, "%" PRId64, v.i64); return;
    case DT_U8:   text_printf(t, "%u", v.u8); return;
    case DT_U16:  text_printf(t, "%u", v.h); return;
    case DT_U32:  text_printf(t, "%" PRIu32, v.u32); return;
    case DT_U64:  text_printf(t, "%" PRId64, v.i64); return;     /* two's complement, as parse_int reads it */
    case DT_BOOL: text_add(t, v.u8 ? "1" : "0"); return;
    case DT_NONE: case DT_COUNT: return;
    }
}

bool
element_parse(Parse *p, DType type, void *at)
{
    double number;
    int64_t n;

    if (dtype_is_float(type)) {
        if (!parse_number(p, &number))
            return false;
        store_float(type, number, at);
        return true;
    }
    if (!parse_int(p, &n))
        return false;
    bool wants_sign = dtype_info[type].kind == KIND_INT;
    int bits = dtype_info[type].bytes * 8 - wants_sign;
    if (type == DT_BOOL ? n != 0 && n != 1 : bits < 63 && (wants_sign && n < 0 ? ~n : n) >> bits)
        return parse_error(p, "%" PRId64 " does not fit %s", n, dtype_info[type].name);
    memcpy(at, &n, dtype_info[type].bytes);      /* little endian: the low bytes come first */
    return true;
}
