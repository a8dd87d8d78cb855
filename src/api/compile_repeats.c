/* compile_repeats: summarise lines that repeat with increasing numbers.
 *
 * A decoder has a pair of caches and the same kernels in each layer. A group of lines that occurs
 * three times or more and differs only in numbers is printed once, with the numbers as in a shell:
 * layers.{0..29}, n{7..65..2}.
 */
#include "api/compile_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* lines of one time; times; a longer number is taken for text */
enum { LONGEST = 64, LEAST = 3, DIGITS = 15 };

/* The number of digits of a number at s. 0: none does, or one that would not be printed the same
 * again. */
static size_t
digits_at(const char *s)
{
    size_t n = 0;

    while (isdigit((unsigned char)s[n]))
        n++;
    return n > DIGITS || (n > 1 && *s == '0') ? 0 : n;
}

/* Is `c` to `b` what `b` is to `a`? */
static bool
goes_on(const char *a, const char *b, const char *c)
{
    while (*a) {
        size_t na = digits_at(a), nb = digits_at(b), nc = digits_at(c);
        if (na && nb && nc) {
            if (strtoll(c, NULL, 10) - strtoll(b, NULL, 10) !=
                strtoll(b, NULL, 10) - strtoll(a, NULL, 10))
                return false;
            a += na, b += nb, c += nc;
        } else {
            size_t text = strcspn(a, "0123456789");
            text = text ? text : strspn(a, "0123456789");
            if (strncmp(a, b, text) || strncmp(a, c, text))
                return false;
            a += text, b += text, c += text;
        }
    }
    return !*b && !*c;
}

/* How many times the `period` lines at `line` come. */
static uint32_t
times_of(const char *const *line, uint32_t n, uint32_t period)
{
    uint32_t times = 1;

    if (n < LEAST * period)
        return 1;
    for (uint32_t i = 2 * period; i < n; i++) {
        if (!goes_on(line[i - 2 * period], line[i - period], line[i]))
            break;
        times = (i + 1) / period;
    }
    return times >= LEAST ? times : 1;
}

static void
add_together(Text *t, const char *first, const char *second, uint32_t times)
{
    while (*first) {
        size_t n = digits_at(first), m = digits_at(second);
        long long a = strtoll(first, NULL, 10), step = n && m ? strtoll(second, NULL, 10) - a : 0;
        if (step) {
            text_printf(t, "{%lld..%lld", a, a + step * (times - 1));
            text_printf(t, step == 1 ? "}" : "..%lld}", step);
        } else {
            n = n ? n : strspn(first, "0123456789");
            n = n ? n : strcspn(first, "0123456789");
            m = n;
            text_bytes(t, first, n);
        }
        first += n;
        second += m;
    }
}

uint32_t
lines_together(Arena *a, const char *const *line, uint32_t n, const char **out)
{
    uint32_t told = 0;

    for (uint32_t i = 0; i < n;) {
        uint32_t period = 1, times = 1;
        while (period <= LONGEST && (times = times_of(line + i, n - i, period)) == 1)
            period++;
        if (times == 1) {
            out[told++] = line[i++];
            continue;
        }
        for (uint32_t k = 0; k < period; k++) {
            Text t = { .arena = a };
            add_together(&t, line[i + k], line[i + period + k], times);
            out[told++] = text_str(&t);
        }
        i += times * period;
    }
    return told;
}
