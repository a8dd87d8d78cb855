/* digits: numbers as text, and back. The decimal point is "." in every locale. */
#include <locale.h>
#include <math.h>
#include <stdio.h>

/* characters of a number, at most: the longest f64 written plainly has 326 */
enum { TN_DIGITS = 512 };

TN_ROUTINE char
tn_decimal_point(void)
{
    const struct lconv *l = localeconv();
    return l && l->decimal_point && l->decimal_point[0] ? l->decimal_point[0] : '.';
}

/* The number in the text; NaN if it is none. */
TN_ROUTINE double
tn_number_in(const char *s)
{
    char copy[TN_DIGITS], *point, *end;
    size_t n = strlen(s);

    if (n >= sizeof copy)
        return (double)NAN;
    memcpy(copy, s, n + 1);
    point = strchr(copy, '.');
    if (point)
        *point = tn_decimal_point();
    double v = strtod(copy, &end);
    while (*end == ' ' || (*end >= '\t' && *end <= '\r'))
        end++;
    return end == copy || *end ? (double)NAN : v;
}

/* As an integer: exactly if the text is only digits, otherwise truncated towards zero and clamped
 * to 64 bits. */
TN_ROUTINE int64_t
tn_integer_in(const char *s)
{
    char *end;
    long long v = strtoll(s, &end, 10);

    if (end != s && !*end)
        return v;
    double d = tn_number_in(s);
    return d != d                        ? 0
           : d >= 9223372036854775808.0  ? INT64_MAX
           : d <= -9223372036854775808.0 ? INT64_MIN
                                         : (int64_t)d;
}

/* The same for 64 bits without a sign; negative numbers wrap. */
TN_ROUTINE uint64_t
tn_unsigned_in(const char *s)
{
    char *end;
    int64_t v = tn_integer_in(s);
    unsigned long long u = v == INT64_MAX ? strtoull(s, &end, 10) : 0;

    if (v != INT64_MAX)
        return (uint64_t)v;
    if (end != s && !*end)
        return u;
    double d = tn_number_in(s);
    return d >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)d;
}

TN_ROUTINE void
tn_string_number(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *out = &r->array[1];

    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        if (out->type == 'l')
            ((int64_t *)out->at)[i] = tn_integer_in(tn_string(&r->array[0], i));
        else if (out->type == 'L')
            ((uint64_t *)out->at)[i] = tn_unsigned_in(tn_string(&r->array[0], i));
        else
            ((double *)out->at)[i] = tn_number_in(tn_string(&r->array[0], i));
}

/* The fewest digits that read back as v, without an exponent if there are at most 16 digits before
 * the point or 4 zeros behind it. */
TN_ROUTINE int
tn_write_float(char *to, double v, int is_f32)
{
    int digits = 1, most = is_f32 ? 9 : 17;
    char point = tn_decimal_point();

    if (v != v)
        return snprintf(to, TN_DIGITS, "NaN");
    if (v - v != 0)
        return snprintf(to, TN_DIGITS, v < 0 ? "-INF" : "INF");
    for (; digits < most; digits++) {
        snprintf(to, TN_DIGITS, "%.*e", digits - 1, v);
        double back = strtod(to, NULL);
        if (is_f32 ? (float)back == (float)v : back == v)
            break;
    }
    snprintf(to, TN_DIGITS, "%.*e", digits - 1, v);
    int exponent = atoi(strchr(to, 'e') + 1);
    if (exponent >= -4 && exponent < 16)
        snprintf(to, TN_DIGITS, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 0, v);
    for (char *c = to; *c; c++)
        *c = *c == point ? '.' : *c;
    return (int)strlen(to);
}

TN_ROUTINE void
tn_number_string(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0];
    int64_t n = tn_count(x);

    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < n; i++) {
        char text[TN_DIGITS];
        int length = x->type == 'l'   ? snprintf(text, sizeof text, "%lld",
                                                 (long long)((const int64_t *)x->at)[i])
                     : x->type == 'L' ? snprintf(text, sizeof text, "%llu",
                                                 (unsigned long long)((const uint64_t *)x->at)[i])
                     : x->type == 'f' ? tn_write_float(text, (double)((const float *)x->at)[i], 1)
                                      : tn_write_float(text, ((const double *)x->at)[i], 0);
        char *to = tn_new_string(r, length);
        if (!to)
            return;
        memcpy(to, text, (size_t)length);
        ((TnText *)r->array[1].at)[i].s = to;
    }
}
