/* choice_cache: what was answered about a kernel is found again by the next compilation.
 *
 * An answer depends on the question (question.c), on the machine and on Tenon's own sources; all
 * that is the key.
 */
#include "driver/internal.h"

#include "identity.h"

static const char *
key_of(Job *j, Arena *a, Sym question)
{
    Text t = { .arena = a };

    text_printf(&t, "choices by %s\n%s\n", TENON_IDENTITY, question);
    machine_print(&t, &j->machine);
    return text_str(&t);
}

bool
choice_cache_get(Job *j, Arena *a, Sym question, const char **answer)
{
    return build_cache_get(a, j->o->build.cache_dir, key_of(j, a, question), answer);
}

void
choice_cache_put(Job *j, Arena *a, Sym question, const char *answer)
{
    build_cache_put(a, j->o->build.cache_dir, key_of(j, a, question), answer);
}
