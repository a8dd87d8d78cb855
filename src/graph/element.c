/* element: single elements of constants as text: decimal, with as many digits as it takes. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        number_store(type, &again, 0, (Number){ .f = strtod(s, NULL) });
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
    Number n = number_load(type, at, 0);

    if (dtype_is_float(type))
        print_float(t, type, n.f, at);
    else
        text_printf(t, "%" PRId64, n.i);             /* u64 in two's complement, as parse_int reads it */
}

bool
element_parse(Parse *p, DType type, void *at)
{
    Number n;

    if (dtype_is_float(type)) {
        if (!parse_number(p, &n.f))
            return false;
        number_store(type, at, 0, n);
        return true;
    }
    if (!parse_int(p, &n.i))
        return false;
    bool wants_sign = dtype_info[type].kind == KIND_INT;
    int bits = dtype_info[type].bytes * 8 - wants_sign;
    if (type == DT_BOOL ? n.i != 0 && n.i != 1 : bits < 63 && (wants_sign && n.i < 0 ? ~n.i : n.i) >> bits)
        return parse_error(p, "%" PRId64 " does not fit %s", n.i, dtype_info[type].name);
    number_store(type, at, 0, n);
    return true;
}
