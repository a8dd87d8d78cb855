/* element: single elements of constants as decimal text, with enough digits to parse back to the
 * same bits. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Floats always have a point or an exponent. */
void
element_print(Text *t, DType type, const void *at)
{
    Number n = number_load(type, at, 0);
    size_t begin = t->n;

    if (type == DT_STR) {
        text_quoted(t, n.i ? (const char *)(uintptr_t)n.i : "");
        return;
    }

    if (!dtype_is_float(type)) {
        /* u64 in two's complement, as parse_int reads it */
        text_printf(t, "%" PRId64, n.i);
        return;
    }
    text_float(t, type, n.f);
    if (isfinite(n.f) && !strpbrk(t->s + begin, ".e"))
        text_add(t, ".0");
}

bool
element_parse(Parse *p, DType type, void *at)
{
    Number n;
    const char *s;

    if (type == DT_STR) {
        if (!parse_string(p, &s))
            return false;
        number_store(type, at, 0, (Number){ .i = (int64_t)(uintptr_t)s });
        return true;
    }
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
    if (type == DT_BOOL ? n.i != 0 && n.i != 1
                        : bits < 63 && (wants_sign && n.i < 0 ? ~n.i : n.i) >> bits)
        return parse_error(p, "%" PRId64 " does not fit %s", n.i, dtype_info[type].name);
    number_store(type, at, 0, n);
    return true;
}
