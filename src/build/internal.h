/* build, inside: running programs, and the folder of objects. */
#ifndef TENON_BUILD_INTERNAL_H
#define TENON_BUILD_INTERNAL_H

#include "build/build.h"

#include <sys/types.h>

#define DEFAULT_CACHE_BYTES ((int64_t)2 << 30)

/* ---- process.c: programs without a shell ----------------------------------------------------- */

/* A running program. Its standard output and error go into one pipe, whose end means that it has
 * ended: a library may not wait for "any child", which could be its host's. */
typedef struct {
    const char *temporary; /* the folder of its temporary files; NULL: its own choice */
    const char *folder;    /* it works in; NULL: in ours */
    int64_t memory_bytes;  /* the most memory for it and any program it starts; 0: no bound */
    pid_t pid;             /* 0: not running */
    int pipe;
    Text said;  /* its output, up to a bound */
    bool ok;    /* after its end: exit status 0 */
    int signal; /* after its end: the signal that ended it, or 0 */
} Process;

typedef VEC(const char *) Argv;

/* Room for n processes, which end with the arena at the latest. */
Process *process_new(Arena *a, uint32_t n);
/* Start argv (NULL at the end; argv[0] is looked up in PATH). False: `why` is an errno. */
bool process_start(Arena *a, const char *const *argv, Process *p, int *why);
/* Wait until one of the n has ended and return its index; those with pid 0 are ignored. Jumps when
 * the arena's watch ends. */
uint32_t process_wait(Arena *a, Process *p, uint32_t n);
/* End a program and the programs it started. */
void process_kill(Process *p);
/* The words of a command line: no quotes, blanks separate. */
void argv_split(Arena *a, Argv *v, const char *words);

/* ---- toolchain.c ----------------------------------------------------------------------------- */

/* The flags in this compiler's spelling: x86_64_v3 for Zig's clang, x86-64-v3 otherwise. */
const char *toolchain_flags(Arena *a, const Toolchain *t, const char *flags);
/* The compiler, and its id under these flags (NULL: none): version and every predefined macro, so
 * that `-march=native` differs by processor. One run of it. False with a diagnostic if there is
 * none, or it refuses the flags. */
bool toolchain_find(Arena *a, Diags *d, const BuildOptions *o, const char *flags, Toolchain *out);
/* Toolchain.machine of the compiler that built this library. */
uint64_t toolchain_own_machine(void);
/* The compilers of the list that accept the flags, are none of the first n of `known`, and make objects
 * that link with known[0]'s: appended to the n, up to `room` in all. Returns their number. */
uint32_t toolchain_others(Arena *a, const BuildOptions *o, const char *flags, Toolchain *known,
                          uint32_t n, uint32_t room);

/* ---- cache.c --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t a, b;
} CacheKey;
typedef struct {
    const char *dir; /* NULL: no cache */
    Private *folder;
    const char *work; /* its path */
    bool writable;
} Cache;
/* Makes a private folder inside the cache, or in the temporary folder if that cannot be written.
 * Removed by cache_close, with the arena at the latest. False with a diagnostic if neither
 * works. */
bool cache_open(Arena *a, Diags *d, const BuildOptions *o, Cache *out);
void cache_close(Cache *c);
/* Is there an object for this key? Then it is at `object`, or *object becomes its path. */
bool cache_fetch(Arena *a, const Cache *c, CacheKey key, const char **object);
/* Store the object at *object; *object may change. Failing is no error. */
void cache_store(Arena *a, const Cache *c, CacheKey key, const char **object);
/* Drop the least recently used objects until `bound` bytes remain. */
void cache_trim(Arena *a, const Cache *c, int64_t bound);

#endif
