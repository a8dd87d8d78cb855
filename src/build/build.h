/* build: the system's C compiler, and the cache of what it made.
 *
 * Objects are cached by the hash of compiler version, flags and source, libraries by their objects,
 * texts by what they were made from, in the user's cache folder. Several processes may share it
 * (files are renamed into place); least recently used entries are dropped above a bound.
 */
#ifndef TENON_BUILD_H
#define TENON_BUILD_H

#include "base/base.h"

typedef struct {
    const char *cc; /* the compiler to use; NULL: the first usable one of `compilers` */
    /* NULL at the end; NULL: "cc", "gcc", "clang" */
    const char *const *compilers;
    /* for messages: whose code they make ("64-bit Arm"), and what to install; NULL: the machine
     * that compiles */
    const char *made_for, *install;
    const char *cache_dir; /* NULL: no cache */
    const char *temporary; /* the working folder if the cache cannot be written; NULL: /tmp */
    int64_t cache_bytes;   /* bound; 0: 2 GiB */
    int jobs;              /* compilers at once; 0: cpu_count() */
    /* for all of them together and for the arena that is given; 0: no bound */
    int64_t memory_bytes;
    /* a shared library to link with, found where it is now or by the loader's rules; NULL: none */
    const char *library;
    const char *link;      /* a flag for the linker, behind all: "-lopenblas"; NULL: none */
    const char *link_form; /* flags that say what is linked; NULL: a shared library */
    /* compile each unit with its own flags or not at all: it is a measurement */
    bool as_said;
    void (*progress)(void *user, uint32_t done, uint32_t total);
    void *progress_user;
} BuildOptions;

/* target: the flags of a processor, after the others; NULL: none. object: what the compiler that
 * built this library made of the unit, linked where that was for the same machine; may be empty. */
typedef struct {
    const char *name;
    const char *source;
    const char *flags;
    const char *target;
    Bytes object;
} BuildUnit;

/* id: a hash of version and predefined macros under these flags; machine: equal for objects that
 * can be linked together. */
typedef struct {
    const char *path, *version;
    bool is_zig;
    uint64_t id, machine;
} Toolchain;
/* missing or too old: DIAG_TOOLCHAIN with what to install */
bool build_toolchain(Arena *a, Diags *d, const BuildOptions *o, Toolchain *out);
/* Compile every unit (in parallel, cached) and link them into the shared library at `out_path` (a
 * temporary file of the caller's). counts: units compiled, and units found in the cache. A unit
 * that the compiler fails on is tried again with fewer optimisations, then for the plainest
 * processor, then by another compiler for the same machine; a note says so. */
bool build_shared(Arena *a, Diags *d, const BuildOptions *o, const BuildUnit *unit, uint32_t n,
                  const char *out_path, uint32_t *compiled, uint32_t *cached);

/* Compile C files and link them into a program; `flags` come before the files, `link` behind.
 * False, reported. */
bool build_program(Arena *a, Diags *d, const BuildOptions *o, const char *flags,
                   const char *const *source, uint32_t n, const char *link, const char *out_path);
/* Run a command, its words in `words` and then in argv (NULL at the end; may be empty), in the
 * folder `in`; what it prints is in *said. False, reported: it is not there (then `missing` says
 * what to do), or it fails. */
bool build_run(Arena *a, Diags *d, const char *in, const char *words, const char *const *argv,
               const char *missing, const char **said);

/* The flag that links the system's CBLAS; NULL: there is none. False, reported: there is no
 * compiler to ask. */
bool build_blas(Arena *a, Diags *d, const BuildOptions *o, const char **flag);

typedef struct {
    int64_t bytes;
    uint32_t files;
} CacheUse;
bool build_cache_use(Diags *d, const char *dir, CacheUse *out);
bool build_cache_clear(Diags *d, const char *dir);
/* A text stored under the text that it was made from, both compared in full; it lives as long as
 * the arena. False: none. */
bool build_cache_get(Arena *a, const char *dir, const char *from, const char **text);
/* Failing to store it is no error. */
void build_cache_put(Arena *a, const char *dir, const char *from, const char *text);
/* The same for a file, which is mapped; what is under the name is not compared. */
bool build_cache_file(Arena *a, const char *dir, const char *from, Bytes *out);
/* False: it is not stored, because the cache cannot be written, or the file would fill much of it. */
bool build_cache_put_file(Arena *a, const BuildOptions *o, const char *from, const char *path);
const char *build_cache_default(Arena *a, const char *xdg_cache_home, const char *home);

#endif
