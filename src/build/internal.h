/* build, inside: running programs, and the folder of objects. */
#ifndef TENON_BUILD_INTERNAL_H
#define TENON_BUILD_INTERNAL_H

#include "build/build.h"

#include <sys/types.h>

/* ---- process.c: programs without a shell ----------------------------------------------------- */

/* A running program. Its standard output and error go into one pipe, whose end tells that it is
 * over: a library may not wait for "any child", which could be its host's. */
typedef struct {
    const char *temporary; /* where its temporary files go; NULL: where it likes */
    int64_t memory_bytes;  /* it gets no more, nor does any program it starts; 0: no bound */
    pid_t pid;             /* 0: not running */
    int pipe;
    Text said;  /* what it printed, up to a bound */
    bool ok;    /* once over: exit status 0 */
    int signal; /* once over: what ended it, or 0 */
} Process;

typedef VEC(const char *) Argv;

/* Room for n processes, which end with the arena at the latest. */
Process *process_new(Arena *a, uint32_t n);
/* Start argv (NULL at the end; argv[0] is looked up in PATH). False: `why` is an errno. */
bool process_start(Arena *a, const char *const *argv, Process *p, int *why);
/* Wait until one of the n is over and give its index; those with pid 0 are passed over. Jumps when
 * the arena's watch is over. */
uint32_t process_wait(Arena *a, Process *p, uint32_t n);
/* End a program, with those it started, and forget it. */
void process_kill(Process *p);
/* The words of a command line of ours: no quotes, blanks separate. */
void argv_split(Arena *a, Argv *v, const char *words);

/* ---- toolchain.c ----------------------------------------------------------------------------- */

/* The flags as this compiler spells them: to Zig's clang a processor is x86_64_v3, elsewhere
 * x86-64-v3. */
const char *toolchain_flags(Arena *a, const Toolchain *t, const char *flags);
/* The compiler, and what it is under these flags (NULL: none): its version and every macro it
 * predefines make its id, so that `-march=native` differs where the processor does. One run of it.
 * False with a diagnostic if there is none, or it refuses the flags. */
bool toolchain_find(Arena *a, Diags *d, const BuildOptions *o, const char *flags, Toolchain *out);
/* Those of the usual compilers that take the flags, are none of the first n of `known`, and make
 * objects that link with known[0]'s: put behind the n, up to `room` of them together. Gives how
 * many there are then. */
uint32_t toolchain_others(Arena *a, const char *flags, Toolchain *known, uint32_t n, uint32_t room);

/* ---- cache.c --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t a, b;
} CacheKey;
typedef struct {
    const char *dir; /* NULL: not caching */
    Private *folder;
    const char *work; /* its path */
    bool writable;
} Cache;
/* Makes a private folder inside the cache, or, where that cannot be written, in the temporary
 * folder. It goes with cache_close, and at the latest with the arena. False with a diagnostic if
 * neither works. */
bool cache_open(Arena *a, Diags *d, const BuildOptions *o, Cache *out);
void cache_close(Cache *c);
/* Is there an object for this key? Then it lies at `object` afterwards, or *object is where it
 * is. */
bool cache_fetch(Arena *a, const Cache *c, CacheKey key, const char **object);
/* Keep the object made at *object; *object may move. Failing to is not an error. */
void cache_store(Arena *a, const Cache *c, CacheKey key, const char **object);
/* Drop the least recently used objects until `bound` bytes remain. */
void cache_trim(Arena *a, const Cache *c, int64_t bound);

#endif
