/* library: C text compiled and loaded, for the tests of what emit prints. */
#ifndef TENON_TEST_LIBRARY_H
#define TENON_TEST_LIBRARY_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "emit/emit.h"

/* NULL if it does not compile; the compiler says why. `flags` come on top of emit's own. */
static inline void *
library_of(Arena *a, const char *source, const char *flags)
{
    char folder[] = "/tmp/tenon-test-XXXXXX";
    if (!mkdtemp(folder))
        return NULL;
    const char *c = arena_printf(a, "%s/k.c", folder), *so = arena_printf(a, "%s/k.so", folder);
    FILE *f = fopen(c, "w");
    if (!f || fputs(source, f) < 0 || fclose(f) != 0)
        return NULL;
    int failed =
        system(arena_printf(a, "cc %s %s -shared %s -o %s -lm", emit_c_flags(), flags, c, so));
    void *library = failed ? NULL : dlopen(so, RTLD_NOW);
    failed = system(arena_printf(a, "rm -r %s", folder));
    return failed ? NULL : library;
}

#endif
