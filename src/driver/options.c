/* options: defaults from the environment. No other file under src/ reads it.
 *
 *   CC                the C compiler
 *   TENON_CACHE_DIR   the cache folder; empty: no cache
 *   XDG_CACHE_HOME, HOME   where the cache folder is otherwise
 *   TMPDIR            for temporary files if the cache folder cannot be written
 */
#include "driver/internal.h"

#include <stdlib.h>
#include <string.h>

/* Percent. Twice the file's size is acceptable to users who want speed; four times, which all 3x3
 * filters in the largest tiles take, is not. */
enum { WEIGHTS_GROWTH = 100 };
/* Programs of a kernel: for one row, few, many; and one more for hinted sizes. Each takes code, and
 * time to compile. */
enum { VARIANTS = 4 };

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

    r.emit = o->emit ? o->emit : "so";
    r.fuse = o->fuse ? o->fuse : "dp";
    r.weights_growth = o->weights_growth ? o->weights_growth : WEIGHTS_GROWTH;
    r.variants = o->variants ? o->variants : VARIANTS + (o->nhint > 0);
    r.formats = o->formats ? o->formats : "search";
    if (o->import.library && !strncmp(o->import.library, "blas", 4) &&
        (!o->import.library[4] || o->import.library[4] == '=')) {
        r.blas = o->import.library;
        r.import.library = NULL;
    }
    r.build.cc = o->build.cc ? o->build.cc : env("CC");
    r.build.cache_dir = driver_cache_dir(a, o->build.cache_dir);
    r.build.temporary = o->build.temporary ? o->build.temporary : env("TMPDIR");
    return r;
}

bool
driver_machine(Ctx *c, Arena *arena, const DriverOptions *o, Machine *out)
{
    enum { MOST_CORES = 4096 };
    Bytes file;

    if (o->cores < 0 || o->cores > MOST_CORES)
        return diag_error(&c->diags, DIAG_USAGE, (Loc){ 0 },
                          "--cores %lld: 1 to %d cores are possible", (long long)o->cores,
                          MOST_CORES);
    if (!o->machine) {
        if (!machine_find(c, o->target ? o->target : "native", out))
            return false;
    } else {
        if (!file_map(arena, &c->diags, o->machine, &file) ||
            !machine_parse(c, o->machine, (const char *)file.data, file.bytes, out))
            return false;
        if (o->target && strcmp(o->target, out->name))
            return diag_error(&c->diags, DIAG_USAGE, (Loc){ .file = o->machine },
                              "the file describes %s, and --target asks for %s; leave "
                              "one of them out",
                              out->name, o->target);
    }
    if (o->cores)
        out->cores = (uint32_t)o->cores;
    return true;
}
