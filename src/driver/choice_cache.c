/* choice_cache: cached answers about kernels, for later compilations.
 *
 * An answer depends on the query (query.c), the machine and Tenon's own sources: all three make
 * the key.
 */
#include "driver/internal.h"

#include "identity.h"

static const char *
key_of(Job *j, Arena *a, Sym query)
{
    Text t = { .arena = a };

    text_printf(&t, "choices by %s\n%s\n", TENON_IDENTITY, query);
    machine_print(&t, &j->machine);
    return text_str(&t);
}

bool
choice_cache_get(Job *j, Arena *a, Sym query, const char **answer)
{
    return build_cache_get(a, j->set->build.cache_dir, key_of(j, a, query), answer);
}

void
choice_cache_put(Job *j, Arena *a, Sym query, const char *answer)
{
    build_cache_put(a, j->set->build.cache_dir, key_of(j, a, query), answer);
}
