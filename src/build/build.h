/* build: the system's C compiler, and the cache of what it made.
 *
 * Objects are cached by the hash of compiler version, flags and source, libraries by their objects,
 * texts by what they were made from, in the user's cache folder, safe with several processes
 * (written beside, renamed), least recently used dropped above a bound.
 */
#ifndef TENON_BUILD_H
#define TENON_BUILD_H

#include "base/base.h"

typedef struct {
    /* NULL: $CC is read by driver; here "cc", "gcc", "clang" are tried */
    const char *cc;
    const char *cache_dir; /* NULL: no cache */
    const char *temporary; /* where to work when the cache cannot be written; NULL: /tmp */
    int64_t cache_bytes;   /* bound; 0: 2 GiB */
    int jobs;              /* compilers at once; 0: cpu_count() */
    /* for all of them together and for the arena that is given; 0: no bound */
    int64_t memory_bytes;
    /* a shared library to link with, found where it is now or by the loader's rules; NULL: none */
    const char *library;
    const char *link; /* a flag for the linker, behind all: "-lopenblas"; NULL: none */
    /* a unit is compiled with its flags or not at all: its speed is what it is for */
    bool as_said;
    void (*progress)(void *user, uint32_t done, uint32_t total);
    void *progress_user;
} BuildOptions;

/* target: the flags of a processor, behind the others; NULL: none. */
typedef struct {
    const char *name;
    const char *source;
    const char *flags;
    const char *target;
} BuildUnit;

/* id: what it is under the flags it was asked about, as a number; machine: what objects that are
 * linked together share. */
typedef struct {
    const char *path, *version;
    bool is_zig;
    uint64_t id, machine;
} Toolchain;
/* missing or too old: DIAG_TOOLCHAIN with what to install */
bool build_toolchain(Arena *a, Diags *d, const BuildOptions *o, Toolchain *out);
/* Compile every unit (in parallel, cached) and link them into the shared library at `out_path`
 * (a temporary file of the caller's). counts: units compiled, and taken from the cache. A unit that
 * the compiler fails on is tried again with fewer optimisations, then for the plainest processor,
 * then by another compiler of the same machine; a note says so. */
bool build_shared(Arena *a, Diags *d, const BuildOptions *o, const BuildUnit *unit, uint32_t n,
                  const char *out_path, uint32_t *compiled, uint32_t *cached);

/* The flag that links the system's CBLAS; NULL: there is none. False, reported: there is no
 * compiler to ask. */
bool build_blas(Arena *a, Diags *d, const BuildOptions *o, const char **flag);

typedef struct {
    int64_t bytes;
    uint32_t files;
} CacheUse;
bool build_cache_use(Diags *d, const char *dir, CacheUse *out);
bool build_cache_clear(Diags *d, const char *dir);
/* A text that is kept under what it was made from, both compared whole; it goes with the arena.
 * False: none is kept. */
bool build_cache_get(Arena *a, const char *dir, const char *from, const char **text);
/* Not being able to keep it is no error. */
void build_cache_put(Arena *a, const char *dir, const char *from, const char *text);
const char *build_cache_default(Arena *a, const char *xdg_cache_home, const char *home);

#endif
