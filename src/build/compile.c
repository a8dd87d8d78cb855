/* compile: units to objects, several compilers at once, and objects to one shared library.
 *
 * Each unit is a process of its own, so as many run as there are processors. What the cache has is
 * neither compiled nor linked. The first failing unit stops the build: its compiler's first lines are the message,
 * for emitted C that does not compile is a fault of Tenon's and the user should be able to report it.
 */
#include "build/internal.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_FLAGS "-shared -Wl,-z,noexecstack"
#define DEFAULT_CACHE_BYTES ((int64_t)2 << 30)
enum { SHOWN_LINES = 12, MAX_JOBS = 256 };
#define COMPILER_BYTES ((int64_t)128 << 20)      /* rather fewer compilers at once than less memory for each */

typedef struct {
    const BuildUnit *unit;
    size_t source_bytes;
    CacheKey key;
    const char *object;
} Item;

typedef struct {
    Arena *arena;
    Diags *diags;
    const BuildOptions *o;
    Toolchain cc;
    Cache cache;
    Item *item;
    uint32_t nitem, done;
    uint32_t njob;
    int64_t compiler_bytes;  /* memory for each; 0: no bound */
    Process *job;            /* [njob] */
    uint32_t *job_item;      /* [njob] */
} Build;

/* ---- what was said ------------------------------------------------------------------------------- */

static const char *
first_lines(Arena *a, const char *said)
{
    Text t = { .arena = a };
    const char *s = said;

    for (int i = 0; i < SHOWN_LINES && *s; i++) {
        size_t n = strcspn(s, "\n");
        text_add(&t, "\n    ");
        text_bytes(&t, s, n);
        s += n + (s[n] == '\n');
    }
    if (*s)
        text_add(&t, "\n    …");
    return text_str(&t);
}

static bool
report_failure(Build *b, const Process *p, const char *what)
{
    const char *said = text_str(&p->said);
    bool full = strstr(said, "No space left on device") || strstr(said, "File too large");

    if (full)
        return diag_error(b->diags, DIAG_LIMIT, (Loc){ .file = b->cache.work },
                          "%s: the compiler ran out of disk space. Free some, or set TMPDIR and TENON_CACHE_DIR to folders with more",
                          what);
    if (b->compiler_bytes && (strstr(said, "out of memory") || strstr(said, "memory exhausted") || strstr(said, "annot allocate memory")
                              || p->signal == SIGSEGV || p->signal == SIGKILL))
        return diag_error(b->diags, DIAG_LIMIT, (Loc){ 0 },
                          "%s: the compiler %s needs more than the %lld MB it may use, a part of %lld MB for %u at once. "
                          "Raise the limit (--max-memory, max_memory_bytes) or run fewer at once (--jobs)",
                          what, b->cc.path, (long long)(b->compiler_bytes >> 20), (long long)(b->o->memory_bytes >> 20), b->njob);
    if (p->signal)
        return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "%s: the compiler %s was killed by signal %d (%s)%s%s", what,
                          b->cc.path, p->signal, strsignal(p->signal),
                          p->signal == 9 ? ". Perhaps memory ran out: try fewer with --jobs" : "", first_lines(b->arena, said));
    return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "%s: the compiler %s (%s) failed:%s", what, b->cc.path, b->cc.version,
                      *said ? first_lines(b->arena, said) : " it said nothing");
}

/* ---- units ------------------------------------------------------------------------------------------ */

/* A unit's name as part of a file name. */
static const char *
file_stem(Arena *a, const char *name)
{
    char *s = arena_str(a, name);

    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-')
            *p = '_';
    if (strlen(s) > 64)
        s[64] = 0;
    return s;
}

/* id: of the compiler. What a unit's flags make of it is in their text. */
static void
key_units(Build *b, const BuildUnit *unit, uint64_t id)
{
    for (uint32_t i = 0; i < b->nitem; i++) {
        const char *flags = unit[i].flags ? unit[i].flags : "";
        size_t n = strlen(unit[i].source);
        uint64_t seed = hash_bytes(flags, strlen(flags), id);
        b->item[i] = (Item){
            .unit = &unit[i],
            .source_bytes = n,
            .key = { hash_bytes(unit[i].source, n, seed), hash_bytes(unit[i].source, n, ~seed * 0x9e3779b97f4a7c15ULL) },
            .object = arena_printf(b->arena, "%s/%04u-%s.o", b->cache.work, i, file_stem(b->arena, unit[i].name)),
        };
    }
}

static bool
start_unit(Build *b, uint32_t job, uint32_t item)
{
    const Item *it = &b->item[item];
    /* Compilers write the source's name into the object, which other models will take from the cache. */
    const char *source = arena_printf(b->arena, "%s/%016llx%016llx.c", b->cache.work, (unsigned long long)it->key.a, (unsigned long long)it->key.b);
    Argv argv = { 0 };
    int why;

    Writer *w = writer_open(b->arena, b->diags, source);
    if (!w)
        return false;
    writer_put(w, it->unit->source, it->source_bytes);
    if (!writer_commit(w, 0644))
        return false;
    argv_split(b->arena, &argv, b->cc.path);
    argv_split(b->arena, &argv, "-fPIC -c");
    argv_split(b->arena, &argv, toolchain_flags(b->arena, &b->cc, it->unit->flags));
    VEC_PUSH(b->arena, &argv, "-o");
    VEC_PUSH(b->arena, &argv, it->object);
    VEC_PUSH(b->arena, &argv, source);
    VEC_PUSH(b->arena, &argv, NULL);
    if (!process_start(b->arena, argv.at, &b->job[job], &why))
        return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "cannot start the compiler %s: %s", b->cc.path, strerror(why));
    b->job_item[job] = item;
    return true;
}

static bool
finish_unit(Build *b, uint32_t job)
{
    Item *it = &b->item[b->job_item[job]];
    const Process *p = &b->job[job];

    if (!p->ok || !file_exists(it->object))
        return report_failure(b, p, arena_printf(b->arena, "unit \"%s\"", it->unit->name));
    cache_store(b->arena, &b->cache, it->key, &it->object);
    return true;
}

static void
report_progress(Build *b)
{
    b->done++;
    if (b->o->progress)
        b->o->progress(b->o->progress_user, b->done, b->nitem);
}

static bool
compile_units(Build *b, const uint32_t *todo, uint32_t ntodo)
{
    uint32_t next = 0, running = 0;

    for (uint32_t finished = 0; finished < ntodo; finished++) {
        for (uint32_t job = 0; job < b->njob && next < ntodo; job++)
            if (!b->job[job].pid) {
                if (!start_unit(b, job, todo[next++]))
                    return false;
                running++;
            }
        uint32_t job = process_wait(b->arena, b->job, b->njob);
        running--;
        if (!finish_unit(b, job))
            return false;
        report_progress(b);
    }
    return running == 0;
}

/* Where it is now is remembered; the loader also looks where it looks for all. */
static bool
link_library(Build *b, Argv *argv)
{
    char *path = realpath(b->o->library, NULL), *slash = path ? strrchr(path, '/') : NULL;

    if (!slash)
        return diag_error(b->diags, DIAG_USAGE, (Loc){ .file = b->o->library }, "cannot open the library: %s", strerror(errno));
    VEC_PUSH(b->arena, argv, arena_str(b->arena, path));
    VEC_PUSH(b->arena, argv, "-Xlinker");
    VEC_PUSH(b->arena, argv, "-rpath");
    VEC_PUSH(b->arena, argv, "-Xlinker");
    *slash = 0;
    VEC_PUSH(b->arena, argv, arena_str(b->arena, path));
    free(path);
    return true;
}

static bool
link_objects(Build *b, const char *path)
{
    Argv argv = { 0 };
    Process *p = &b->job[0];             /* none runs any more; and it ends with them */
    int why;

    argv_split(b->arena, &argv, b->cc.path);
    argv_split(b->arena, &argv, LINK_FLAGS " -o");
    VEC_PUSH(b->arena, &argv, path);
    for (uint32_t i = 0; i < b->nitem; i++)
        VEC_PUSH(b->arena, &argv, b->item[i].object);
    if (b->o->library && !link_library(b, &argv))
        return false;
    argv_split(b->arena, &argv, b->o->link);
    VEC_PUSH(b->arena, &argv, "-lm");
    VEC_PUSH(b->arena, &argv, NULL);
    if (!process_start(b->arena, argv.at, p, &why))
        return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "cannot start the compiler %s: %s", b->cc.path, strerror(why));
    process_wait(b->arena, p, 1);
    return (p->ok && file_exists(path)) || report_failure(b, p, "linking");
}

/* Of the objects alone: what they are linked with besides may be another by the next time. */
static CacheKey
library_key(const Build *b)
{
    CacheKey key = { hash_bytes(LINK_FLAGS, strlen(LINK_FLAGS), 0), hash_bytes(LINK_FLAGS, strlen(LINK_FLAGS), 1) };

    for (uint32_t i = 0; i < b->nitem; i++) {
        key.a = hash_bytes(&b->item[i].key, sizeof b->item[i].key, key.a);
        key.b = hash_bytes(&b->item[i].key, sizeof b->item[i].key, key.b);
    }
    return key;
}

/* made: a linker ran. */
static bool
take_library(Build *b, const char *out_path, bool *made)
{
    bool alone = !b->o->library && !b->o->link;
    const char *path = arena_printf(b->arena, "%s/library.so", b->cache.work);
    CacheKey key = library_key(b);
    Bytes library;

    *made = !alone || !cache_fetch(b->arena, &b->cache, key, &path);
    if (*made && !link_objects(b, path))
        return false;
    if (*made && alone)
        cache_store(b->arena, &b->cache, key, &path);
    Writer *w = file_map(b->arena, b->diags, path, &library) ? writer_open(b->arena, b->diags, out_path) : NULL;
    if (!w)
        return false;
    writer_put(w, library.data, library.bytes);
    return writer_commit(w, 0755);
}

/* The longest sources first, so that no processor idles while the last one compiles. */
static int
longest_first(const void *x, const void *y, void *user)
{
    const Build *b = user;
    uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    size_t m = b->item[i].source_bytes, n = b->item[j].source_bytes;

    return m != n ? (m < n ? 1 : -1) : (i > j) - (i < j);
}

/* What the compilation has left, in equal parts. */
static void
share_memory(Build *b)
{
    int64_t left = b->o->memory_bytes - (int64_t)arena_bytes(b->arena);

    if (!b->o->memory_bytes)
        return;
    left = left < COMPILER_BYTES / 4 ? COMPILER_BYTES / 4 : left;
    if (left / COMPILER_BYTES < b->njob)
        b->njob = left < COMPILER_BYTES ? 1 : (uint32_t)(left / COMPILER_BYTES);
    b->compiler_bytes = left / b->njob;
}

static bool
build_all(Build *b, const BuildUnit *unit, const char *out_path, uint32_t *compiled, uint32_t *cached)
{
    uint32_t *todo = NEW_ARRAY(b->arena, uint32_t, b->nitem), ntodo = 0;
    uint64_t id;
    bool linked;

    /* The last unit's flags: of a machine, as all are, and none of its own beside. */
    if (!toolchain_find(b->arena, b->diags, b->o, unit[b->nitem - 1].flags, &b->cc, &id) || !cache_open(b->arena, b->diags, b->o, &b->cache))
        return false;
    share_memory(b);
    b->job = process_new(b->arena, b->njob);     /* now, so that they end before the folder goes, should memory run out */
    for (uint32_t i = 0; i < b->njob; i++) {
        b->job[i].temporary = b->cache.work;
        b->job[i].memory_bytes = b->compiler_bytes;
    }
    key_units(b, unit, id);
    for (uint32_t i = 0; i < b->nitem; i++)
        if (cache_fetch(b->arena, &b->cache, b->item[i].key, &b->item[i].object))
            report_progress(b);
        else
            todo[ntodo++] = i;
    *cached = b->nitem - ntodo;
    *compiled = ntodo;
    qsort_r(todo, ntodo, sizeof *todo, longest_first, b);
    if (!compile_units(b, todo, ntodo) || !take_library(b, out_path, &linked))
        return false;
    if (ntodo || linked)
        cache_trim(b->arena, &b->cache, b->o->cache_bytes ? b->o->cache_bytes : DEFAULT_CACHE_BYTES);
    return true;
}

bool
build_shared(Arena *a, Diags *d, const BuildOptions *o, const BuildUnit *unit, uint32_t n, const char *out_path,
             uint32_t *compiled, uint32_t *cached)
{
    int jobs = o->jobs > 0 ? o->jobs : cpu_count();
    Build *b = NEW(a, Build);

    *b = (Build){ .arena = a, .diags = d, .o = o, .nitem = n };
    b->item = NEW_ARRAY(a, Item, n);
    b->job_item = NEW_ARRAY(a, uint32_t, jobs > MAX_JOBS ? MAX_JOBS : jobs);
    b->njob = (uint32_t)(jobs > MAX_JOBS ? MAX_JOBS : jobs);
    bool ok = build_all(b, unit, out_path, compiled, cached);
    for (uint32_t i = 0; b->job && i < b->njob; i++)
        process_kill(&b->job[i]);
    cache_close(&b->cache);
    return ok;
}
