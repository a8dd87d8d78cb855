/* toolchain: finds a C compiler, and checks that it has the extensions that emitted code uses.
 *
 * A compiler is asked for its predefined macros, which identify it more reliably than any banner:
 * clang calls itself GCC 4.2 too, and `cc` may be either. GCC from 12 and Clang from 14 are known
 * to have every vector extension that emitted C needs.
 */
#include "build/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GCC_OLDEST = 12, CLANG_OLDEST = 14 };

static const char install_hint[] = "Install one (Debian, Ubuntu: apt install gcc) or name one with "
                                   "--cc or the environment variable CC";

static const char *
first_line(Arena *a, const char *s)
{
    return arena_printf(a, "%.*s", (int)strcspn(s, "\n"), s);
}

/* The value of a predefined macro, or "" */
static const char *
macro_value(Arena *a, const char *macros, const char *name)
{
    const char *define = arena_printf(a, "#define %s ", name);
    const char *at = strstr(macros, define);

    if (!at)
        return "";
    return first_line(a, at + strlen(define));
}

/* Run the compiler for its macros under `flags`, `elsewhere` with headers of the C library too: a
 * compiler for many processors has those of few. False: *why is an errno, or 0 if it ran and
 * failed. */
static bool
ask_macros(Arena *a, const char *cc, const char *flags, bool elsewhere, const char **said, int *why)
{
    Argv argv = { 0 };
    Process *p = process_new(a, 1);

    *said = "";
    *why = ENOENT;
    argv_split(a, &argv, cc);
    if (!argv.n)
        return false;
    argv_split(a, &argv, flags);
    argv_split(a, &argv, elsewhere ? "-include stdint.h -include math.h" : "");
    argv_split(a, &argv, "-dM -E -x c /dev/null");
    VEC_PUSH(a, &argv, NULL);
    if (!process_start(a, argv.at, p, why))
        return false;
    process_wait(a, p, 1);
    *said = text_str(&p->said);
    return p->ok && strstr(*said, "#define ");
}

/* From its macros: "gcc 12.2.0", and if too old or unknown, the reason. */
static const char *
compiler_version(Arena *a, const char *macros, const char **complaint)
{
    const char *clang = macro_value(a, macros, "__clang_major__"),
               *gcc = macro_value(a, macros, "__GNUC__");
    bool is_clang = *clang != 0;
    int major = atoi(is_clang ? clang : gcc), oldest = is_clang ? CLANG_OLDEST : GCC_OLDEST;
    const char *minor = macro_value(a, macros, is_clang ? "__clang_minor__" : "__GNUC_MINOR__");
    const char *patch =
        macro_value(a, macros, is_clang ? "__clang_patchlevel__" : "__GNUC_PATCHLEVEL__");

    *complaint = NULL;
    if (!major)
        *complaint = "it is neither GCC nor Clang";
    else if (major < oldest)
        *complaint = arena_printf(a, "it is %s %d.%s, older than %d", is_clang ? "Clang" : "GCC",
                                  major, minor, oldest);
    return arena_printf(a, "%s %d.%s.%s", is_clang ? "clang" : "gcc", major, minor, patch);
}

/* Identified by its name alone: its macros are clang's. */
static bool
is_zig(Arena *a, const char *cc)
{
    Argv argv = { 0 };

    argv_split(a, &argv, cc);
    const char *name = argv.n ? path_name(argv.at[0]) : "";
    return !strcmp(name, "zig") || !strncmp(name, "zig-", 4);
}

const char *
toolchain_flags(Arena *a, const Toolchain *t, const char *flags)
{
    static const char option[] = "-march=";

    if (!t->is_zig || !flags || !strstr(flags, option))
        return flags;
    char *own = arena_str(a, flags);
    for (char *s = strstr(own, option) + strlen(option); *s && *s != ' '; s++)
        if (*s == '-')
            *s = '_';
    return own;
}

/* The version, every macro, and the options in the command, which may change code without a
 * macro. */
static uint64_t
identity(Arena *a, const Toolchain *t, const char *macros)
{
    Argv command = { 0 };
    uint64_t id = hash_bytes(macros, strlen(macros), hash_bytes(t->version, strlen(t->version), 0));

    argv_split(a, &command, t->path);
    for (uint32_t i = 1; i < command.n; i++)
        id = hash_bytes(command.at[i], strlen(command.at[i]) + 1, id);
    return id;
}

/* Processor, system and sizes: objects of compilers that agree on these may be linked together.
 * Each with what it is where this is compiled: its name if it is not defined. */
#define VALUE(macro) #macro
#define NAMED(macro) { #macro, VALUE(macro) }
static const struct {
    const char *name, *own;
} machine_macros[] = {
    NAMED(__x86_64__),        NAMED(__i386__),  NAMED(__aarch64__),
    NAMED(__AARCH64EB__),     NAMED(__arm__),   NAMED(__ARMEB__),
    NAMED(__ARM_PCS_VFP),     NAMED(__riscv),   NAMED(__riscv_flen),
    NAMED(__powerpc64__),     NAMED(__s390x__), NAMED(__linux__),
    NAMED(__LITTLE_ENDIAN__), NAMED(__ELF__),   NAMED(__SIZEOF_POINTER__),
    NAMED(__SIZEOF_LONG__),
};
enum { NMACHINE_MACRO = sizeof machine_macros / sizeof *machine_macros };

static uint64_t
machine_of(Arena *a, const char *macros)
{
    uint64_t id = 0;

    for (uint32_t i = 0; i < NMACHINE_MACRO; i++) {
        const char *value = macro_value(a, macros, machine_macros[i].name);
        id = hash_bytes(value, strlen(value) + 1, id);
    }
    return id;
}

uint64_t
toolchain_own_machine(void)
{
    uint64_t id = 0;

    for (uint32_t i = 0; i < NMACHINE_MACRO; i++) {
        const char *own = machine_macros[i].own;
        bool defined = strcmp(own, machine_macros[i].name) != 0;
        id = hash_bytes(defined ? own : "", defined ? strlen(own) + 1 : 1, id);
    }
    return id;
}

static const char *const usual[] = { "cc", "gcc", "clang", NULL };

/* Of the compilers tried, the one named with --cc is the user's wish: what it refuses is an
 * error. */
bool
toolchain_find(Arena *a, Diags *d, const BuildOptions *o, const char *flags, Toolchain *out)
{
    const char *const one[] = { o->cc, NULL }, *const *list = o->cc          ? one
                                                              : o->compilers ? o->compilers
                                                                             : usual;
    Text tried = { .arena = a };

    for (uint32_t i = 0; list[i]; i++) {
        const char *cc = list[i], *macros, *refusal = NULL, *complaint;
        int why;
        *out = (Toolchain){ .path = cc, .is_zig = is_zig(a, cc) };
        const char *own = toolchain_flags(a, out, flags);
        bool runs = ask_macros(a, cc, own, o->made_for, &macros, &why);
        if (!runs && own) { /* is it because of the flags? */
            refusal = why ? strerror(why) : first_line(a, macros);
            runs = ask_macros(a, cc, NULL, o->made_for, &macros, &why);
        }
        if (runs) {
            out->version = compiler_version(a, macros, &complaint);
            if (!complaint && refusal && o->cc)
                return diag_error(d, DIAG_TOOLCHAIN, (Loc){ 0 },
                                  "%s (%s) does not take the flags \"%s\": %s. Choose another "
                                  "--target or another --cc",
                                  cc, out->version, own, refusal);
            if (!complaint && refusal)
                complaint = arena_printf(a, "%s, which does not take \"%s\"", out->version, own);
            out->id = identity(a, out, macros);
            out->machine = machine_of(a, macros);
            if (!complaint)
                return true;
        } else {
            complaint = !why            ? o->made_for ? "it has no C library for it"
                                                      : "it does not run as a C compiler"
                        : why == ENOENT ? "not found"
                                        : strerror(why);
        }
        text_printf(&tried, "%s%s (%s)", i ? ", " : "", cc, complaint);
    }
    if (o->made_for)
        return diag_error(d, DIAG_TOOLCHAIN, (Loc){ 0 },
                          "no usable C compiler for %s: tried %s. Install one (Debian, Ubuntu: apt "
                          "install %s) or name one with --cc",
                          o->made_for, text_str(&tried), o->install);
    return diag_error(d, DIAG_TOOLCHAIN, (Loc){ 0 },
                      "no usable C compiler: tried %s. Tenon needs GCC >= %d or Clang >= %d. %s",
                      text_str(&tried), GCC_OLDEST, CLANG_OLDEST, install_hint);
}

/* One compiler under two names, as `cc` and `gcc` mostly are. A user's command is different, even
 * if it runs one of these. */
static bool
is_same(const Toolchain *known, const Toolchain *t, const char *const *list)
{
    bool by_name = false;

    for (uint32_t i = 0; list[i]; i++)
        by_name |= !strcmp(known->path, list[i]);
    return known->id == t->id && (by_name || !strcmp(known->path, t->path));
}

uint32_t
toolchain_others(Arena *a, const BuildOptions *o, const char *flags, Toolchain *known, uint32_t n,
                 uint32_t room)
{
    const char *const *list = o->compilers ? o->compilers : usual;

    for (uint32_t i = 0; list[i] && n < room; i++) {
        Diags quiet = { .arena = a };
        BuildOptions one = { .cc = list[i], .made_for = o->made_for };
        bool other = toolchain_find(a, &quiet, &one, flags, &known[n]) &&
                     known[n].machine == known[0].machine;
        for (uint32_t k = 0; k < n; k++)
            other &= !is_same(&known[k], &known[n], list);
        n += other;
    }
    return n;
}

bool
build_toolchain(Arena *a, Diags *d, const BuildOptions *o, Toolchain *out)
{
    return toolchain_find(a, d, o, NULL, out);
}
