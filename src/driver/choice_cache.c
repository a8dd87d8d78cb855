/* choice_cache: what was chosen for a kernel is found again by the next compilation.
 *
 * A choice depends on the kernel's text, on which inputs are constants and where those lie, on the machine and on Tenon's own sources; all that
 * is the key. Kept are the cheapest program, the one after it, and their prices:
 *
 *   35 programs
 *   0.0075910799999999998 0.0075610900000000003
 *   split j by 16 -> jp jv pad
 *   …
 *   }
 *
 * A kernel with symbols is asked each time: what is known of them stands elsewhere in the model, and other sizes may want
 * other programs of the list.
 */
#include "driver/internal.h"

#include <stdlib.h>
#include <string.h>

#include "identity.h"

enum { KEPT = 2 };

static const char *
key_of(Job *j, Arena *a, Sym kernel)
{
    Text t = { .arena = a };

    text_printf(&t, "choices by %s\n%s\n", TENON_IDENTITY, kernel);
    machine_print(&t, &j->machine);
    return text_str(&t);
}

const char *
choices_text(Arena *a, const Choices *choices)
{
    Text t = { .arena = a };

    text_printf(&t, "%u programs\n", choices->n);
    for (uint32_t i = 0; i < choices->n && i < KEPT; i++)
        text_printf(&t, "%.17g %.17g\n%s}\n", choices->at[i].seconds, choices->at[i].alone, choices->at[i].program);
    return text_str(&t);
}

bool
choices_parse(Arena *a, const char *s, Choices *out)
{
    char *end;

    *out = (Choices){ .n = (uint32_t)strtoul(s, &end, 10), .at = NEW_ARRAY(a, Choice, KEPT) };
    if (end == s || !(s = strchr(end, '\n')))
        return false;
    for (uint32_t i = 0; i < out->n && i < KEPT; i++) {
        out->at[i] = (Choice){ .seconds = strtod(s, &end), .number = i };
        out->at[i].alone = strtod(end, &end);
        const char *last = *end == '\n' ? strstr(end, "\n}\n") : NULL;
        if (!last)
            return false;
        out->at[i].program = arena_printf(a, "%.*s", (int)(last - end), end + 1);
        s = last + 2;
    }
    return out->n > 0;
}

bool
choice_cache_get(Job *j, Arena *a, Sym kernel, Choices *out)
{
    const char *text;

    return build_cache_get(a, j->o->build.cache_dir, key_of(j, a, kernel), &text) && choices_parse(a, text, out);
}

void
choice_cache_put(Job *j, Arena *a, Sym kernel, const char *text)
{
    build_cache_put(a, j->o->build.cache_dir, key_of(j, a, kernel), text);
}
