/* options: defaults that come from the environment. Nothing else under src/ reads it.
 *
 *   CC                the C compiler
 *   TENON_CACHE_DIR   the cache folder; empty: no cache
 *   XDG_CACHE_HOME, HOME   where the cache folder is otherwise
 *   TMPDIR            for temporary files when the cache folder cannot be written
 */
#include "driver/internal.h"

#include <stdlib.h>

static const char *
env(const char *name)
{
    const char *v = getenv(name);

    return v && *v ? v : NULL;
}

const char *
driver_cache_dir(Arena *a, const char *given)
{
    const char *own = given ? given : getenv("TENON_CACHE_DIR");

    if (own)
        return *own ? own : NULL;
    return build_cache_default(a, env("XDG_CACHE_HOME"), env("HOME"));
}

DriverOptions
options_resolve(Arena *a, const DriverOptions *o)
{
    DriverOptions r = *o;

    r.target = o->target ? o->target : "native";
    r.emit = o->emit ? o->emit : "so";
    r.build.cc = o->build.cc ? o->build.cc : env("CC");
    r.build.cache_dir = driver_cache_dir(a, o->build.cache_dir);
    r.build.temporary = o->build.temporary ? o->build.temporary : env("TMPDIR");
    return r;
}
