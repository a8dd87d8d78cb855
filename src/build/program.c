/* program: a program of C files, and running it. */
#include "build/internal.h"

#include <errno.h>
#include <string.h>

bool
build_run(Arena *a, Diags *d, const char *in, const char *words, const char *const *argv,
          const char *missing, const char **said)
{
    Argv all = { 0 };
    Process *p = process_new(a, 1);
    int why;

    p->folder = in;
    argv_split(a, &all, words);
    for (; *argv; argv++)
        VEC_PUSH(a, &all, *argv);
    VEC_PUSH(a, &all, NULL);
    if (!process_start(a, all.at, p, &why))
        return diag_error(d, DIAG_TOOLCHAIN, (Loc){ 0 }, "%s: %s. %s", all.at[0],
                          why == ENOENT ? "not found" : strerror(why), missing);
    process_wait(a, p, 1);
    *said = text_str(&p->said);
    if (!p->ok && p->signal)
        return diag_error(d, DIAG_TOOLCHAIN, (Loc){ 0 }, "%s: ended by signal %d (%s)%s%s",
                          all.at[0], p->signal, strsignal(p->signal), **said ? ". It said:\n" : "",
                          *said);
    return p->ok || diag_error(d, DIAG_TOOLCHAIN, (Loc){ 0 }, "%s: failed%s%s", all.at[0],
                               **said ? ". It said:\n" : "", *said);
}

bool
build_program(Arena *a, Diags *d, const BuildOptions *o, const char *flags,
              const char *const *source, uint32_t n, const char *link, const char *out_path)
{
    Toolchain cc;
    Argv argv = { 0 };
    const char *said;

    if (!toolchain_find(a, d, o, flags, &cc))
        return false;
    argv_split(a, &argv, toolchain_flags(a, &cc, flags));
    for (uint32_t i = 0; i < n; i++)
        VEC_PUSH(a, &argv, source[i]);
    VEC_PUSH(a, &argv, "-o");
    VEC_PUSH(a, &argv, out_path);
    argv_split(a, &argv, link);
    VEC_PUSH(a, &argv, NULL);
    return build_run(a, d, NULL, cc.path, argv.at, "Install it or name another with --cc", &said);
}
