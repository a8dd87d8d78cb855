/* blas: the flag that links the system's CBLAS. A program that calls it is compiled and linked as
 * an artefact is. */
#include "build/internal.h"

#include <string.h>

static const char *const usual[] = { "-lopenblas", "-lcblas", "-lblas" };

static bool
links(Arena *a, const char *cc, const char *work, const char *flag)
{
    Argv argv = { 0 };
    Process *p = process_new(a, 1);
    int why;

    p->temporary = work;
    argv_split(a, &argv, cc);
    argv_split(a, &argv, "-shared -fPIC -w -Wl,-z,defs -o");
    VEC_PUSH(a, &argv, path_join(a, work, "blas.so"));
    VEC_PUSH(a, &argv, path_join(a, work, "blas.c"));
    VEC_PUSH(a, &argv, flag);
    VEC_PUSH(a, &argv, NULL);
    if (!process_start(a, argv.at, p, &why))
        return false;
    process_wait(a, p, 1);
    return p->ok;
}

bool
build_blas(Arena *a, Diags *d, const BuildOptions *o, const char **flag)
{
    static const char source[] = "void cblas_sgemm(void), cblas_dgemm(void);\nvoid both(void) { "
                                 "cblas_sgemm(), cblas_dgemm(); }\n";
    Toolchain cc;
    Cache cache;

    *flag = NULL;
    if (!build_toolchain(a, d, o, &cc) || !cache_open(a, d, o, &cache))
        return false;
    Writer *w = writer_open(a, d, path_join(a, cache.work, "blas.c"));
    if (w)
        writer_put(w, source, strlen(source));
    bool written = w && writer_commit(w, 0644);
    for (uint32_t i = 0; written && !*flag && i < sizeof usual / sizeof *usual; i++)
        if (links(a, cc.path, cache.work, usual[i]))
            *flag = usual[i];
    cache_close(&cache);
    return written;
}
