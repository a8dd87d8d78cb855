/* compile: units to objects, several compilers at once, and objects to one shared library.
 *
 * Each unit is a process of its own, so as many run as there are processors. Cached units are
 * neither compiled nor linked.
 *
 * Compilers have faults, most of them in their optimisers and around vectors. So a unit on which
 * one fails is tried in other ways (`ways`), first by the same compiler, then by others; a note
 * says which unit runs slower and why. An object is cached by what made it, so a repaired compiler
 * is tried again. The first unit that nothing compiles stops the build: the first lines of the
 * first failure are the message, since emitted C that does not compile is a fault of Tenon's that
 * the user should be able to report.
 */
#include "build/internal.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_FLAGS "-shared -Wl,-z,noexecstack"
enum { SHOWN_LINES = 12, MAX_JOBS = 256 };
/* less memory for each compiler gives way to fewer compilers at once */
#define COMPILER_BYTES ((int64_t)128 << 20)

/* How a unit is compiled: with its own flags, then without an optimisation, at last without the
 * processor's flags. */
static const struct {
    const char *flag;
    bool any_processor;
} ways[] = {
    { "", false },
    { "-O1", false },
    { "-O0", false },
    { "-O0", true },
};
enum { NWAY = sizeof ways / sizeof *ways, MAX_COMPILERS = 4 };

typedef struct {
    const BuildUnit *unit;
    size_t source_bytes;
    uint32_t cc, way; /* compiled by cc[], in ways[] */
    CacheKey key;     /* of the object */
    const char *object;
    bool failed;
    Process failure; /* the first one, after its end */
} BuildItem;

typedef struct {
    Arena *arena;
    Diags *diags;
    const BuildOptions *o;
    /* the requested one, and others for units it fails on */
    Toolchain cc[MAX_COMPILERS];
    uint32_t ncc;
    bool others_known;
    Cache cache;
    BuildItem *item;
    uint32_t nitem, done;
    uint32_t njob;
    int64_t compiler_bytes; /* memory for each; 0: no bound */
    Process *job;           /* [njob] */
    uint32_t *job_item;     /* [njob] */
} BuildRun;

/* ---- what was said --------------------------------------------------------------------------- */

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

/* The first line with an error, otherwise the first; without the position, which is in a temporary
 * file. */
static const char *
complaint(Arena *a, const Process *p)
{
    static const char fatal[] = "internal compiler error:", error[] = "error:";
    const char *said = text_str(&p->said), *at = strstr(said, fatal);

    if (p->signal)
        return arena_printf(a, "killed by signal %d, %s", p->signal, strsignal(p->signal));
    if (!at && (at = strstr(said, error)))
        at += sizeof error - 1;
    at = at ? at : said;
    at += strspn(at, " \t\n");
    return *at ? arena_printf(a, "%.*s", (int)strcspn(at, "\n"), at) : "it said nothing";
}

/* The machine is out of memory: no other way of compiling helps. */
static bool
report_lack(BuildRun *b, const Process *p, const char *what)
{
    const char *said = text_str(&p->said);
    bool full = strstr(said, "No space left on device") || strstr(said, "File too large");

    if (full)
        return !diag_error(b->diags, DIAG_LIMIT, (Loc){ .file = b->cache.work },
                           "%s: the compiler ran out of disk space. Free some, or set TMPDIR and "
                           "TENON_CACHE_DIR to folders with more",
                           what);
    if (b->compiler_bytes &&
        (strstr(said, "out of memory") || strstr(said, "memory exhausted") ||
         strstr(said, "annot allocate memory") || p->signal == SIGSEGV || p->signal == SIGKILL))
        return !diag_error(
            b->diags, DIAG_LIMIT, (Loc){ 0 },
            "%s: the compiler %s needs more than the %lld MB it may use, a part of %lld MB for %u "
            "at once. "
            "Raise the limit (--max-memory, max_memory_bytes) or run fewer at once (--jobs)",
            what, b->cc[0].path, (long long)(b->compiler_bytes >> 20),
            (long long)(b->o->memory_bytes >> 20), b->njob);
    if (p->signal == SIGKILL)
        return !diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 },
                           "%s: the compiler %s was killed by signal %d (%s). "
                           "Perhaps memory ran out: try fewer with --jobs%s",
                           what, b->cc[0].path, p->signal, strsignal(p->signal),
                           first_lines(b->arena, said));
    return false;
}

/* more: other units that failed. */
static bool
report_failure(BuildRun *b, const Process *p, const char *what, const char *more)
{
    const char *said = text_str(&p->said);

    if (report_lack(b, p, what))
        return false;
    if (p->signal)
        return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 },
                          "%s: the compiler %s (%s) was killed by signal %d (%s)%s%s", what,
                          b->cc[0].path, b->cc[0].version, p->signal, strsignal(p->signal), more,
                          first_lines(b->arena, said));
    return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "%s: the compiler %s (%s) failed%s:%s",
                      what, b->cc[0].path, b->cc[0].version, more,
                      *said ? first_lines(b->arena, said) : " it said nothing");
}

/* ---- units ----------------------------------------------------------------------------------- */

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

static const char *
flags_of(BuildRun *b, const BuildItem *it)
{
    const BuildUnit *u = it->unit;
    const char *target = u->target && !ways[it->way].any_processor ? u->target : "";

    return arena_printf(b->arena, "%s %s %s", u->flags ? u->flags : "", target, ways[it->way].flag);
}

/* The key of compiler and flags. */
static void
set_key(BuildRun *b, BuildItem *it)
{
    const char *flags = flags_of(b, it), *source = it->unit->source;
    uint64_t seed = hash_bytes(flags, strlen(flags), b->cc[it->cc].id);

    it->key = (CacheKey){ hash_bytes(source, it->source_bytes, seed),
                          hash_bytes(source, it->source_bytes, ~seed * 0x9e3779b97f4a7c15ULL) };
}

static void
set_items(BuildRun *b, const BuildUnit *unit)
{
    for (uint32_t i = 0; i < b->nitem; i++) {
        b->item[i] = (BuildItem){
            .unit = &unit[i],
            .source_bytes = strlen(unit[i].source),
            .object = arena_printf(b->arena, "%s/%04u-%s.o", b->cache.work, i,
                                   file_stem(b->arena, unit[i].name)),
        };
        set_key(b, &b->item[i]);
    }
}

/* Place the unit's own object, if it has one for this machine. */
static bool
take_given(BuildRun *b, BuildItem *it)
{
    const Bytes *given = &it->unit->object;
    Writer *w = given->bytes && b->cc[0].machine == toolchain_own_machine()
                    ? writer_open(b->arena, b->diags, it->object)
                    : NULL;

    if (!w)
        return false;
    writer_put(w, given->data, given->bytes);
    it->key = (CacheKey){ hash_bytes(given->data, given->bytes, 0),
                          hash_bytes(given->data, given->bytes, 1) };
    return writer_commit(w, 0644);
}

static bool
start_unit(BuildRun *b, uint32_t job, uint32_t item)
{
    const BuildItem *it = &b->item[item];
    const Toolchain *cc = &b->cc[it->cc];
    /* Compilers write the source's name into the object, which other models take from the cache. */
    const char *source = arena_printf(b->arena, "%s/%016llx%016llx.c", b->cache.work,
                                      (unsigned long long)it->key.a, (unsigned long long)it->key.b);
    Argv argv = { 0 };
    int why;

    Writer *w = writer_open(b->arena, b->diags, source);
    if (!w)
        return false;
    writer_put(w, it->unit->source, it->source_bytes);
    if (!writer_commit(w, 0644))
        return false;
    argv_split(b->arena, &argv, cc->path);
    argv_split(b->arena, &argv, "-fPIC -c");
    argv_split(b->arena, &argv, toolchain_flags(b->arena, cc, flags_of(b, it)));
    VEC_PUSH(b->arena, &argv, "-o");
    VEC_PUSH(b->arena, &argv, it->object);
    VEC_PUSH(b->arena, &argv, source);
    VEC_PUSH(b->arena, &argv, NULL);
    if (!process_start(b->arena, argv.at, &b->job[job], &why))
        return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "cannot start the compiler %s: %s",
                          cc->path, strerror(why));
    b->job_item[job] = item;
    return true;
}

/* Does this way differ from the earlier ones, for this unit? */
static bool
is_new_way(const BuildItem *it)
{
    const char *flags = it->unit->flags ? it->unit->flags : "", *flag = ways[it->way].flag;
    size_t n = strlen(flags), m = strlen(flag);

    if (ways[it->way].any_processor)
        return it->unit->target && *it->unit->target;
    return !m || n < m || strcmp(flags + n - m, flag);
}

static bool
next_way(BuildRun *b, BuildItem *it)
{
    do
        if (++it->way == NWAY) {
            it->way = 0;
            if (!b->others_known)
                b->ncc =
                    toolchain_others(b->arena, b->o, flags_of(b, it), b->cc, b->ncc, MAX_COMPILERS);
            b->others_known = true;
            if (++it->cc == b->ncc)
                return false;
        }
    while (!is_new_way(it));
    set_key(b, it);
    return true;
}

static void
note_other_way(BuildRun *b, const BuildItem *it)
{
    const Toolchain *cc = &b->cc[it->cc];
    const char *flag = ways[it->way].flag,
               *any = ways[it->way].any_processor ? ", for any processor," : "";

    diag_note(b->diags, (Loc){ 0 },
              "unit \"%s\": the compiler %s (%s) failed: %s. It was compiled%s%s%s by %s (%s) "
              "instead and may run slower; "
              "please report it",
              it->unit->name, b->cc[0].path, b->cc[0].version, complaint(b->arena, &it->failure),
              *flag ? " with " : "", flag, any, cc->path, cc->version);
}

static bool
report_unit(BuildRun *b, const BuildItem *it)
{
    Text more = { .arena = b->arena };

    if (!b->o->as_said)
        text_add(&more, ", with fewer optimisations too");
    for (uint32_t i = 1; i < b->ncc; i++)
        text_printf(&more, "%s %s (%s)", i == 1 ? ", and so did" : " and", b->cc[i].path,
                    b->cc[i].version);
    return report_failure(b, &it->failure, arena_printf(b->arena, "unit \"%s\"", it->unit->name),
                          text_str(&more));
}

/* done: the unit has an object; otherwise another way begins. */
static bool
finish_unit(BuildRun *b, uint32_t job, bool *done)
{
    BuildItem *it = &b->item[b->job_item[job]];
    const Process *p = &b->job[job];

    *done = p->ok && file_exists(it->object);
    if (*done) {
        cache_store(b->arena, &b->cache, it->key, &it->object);
    } else {
        if (report_lack(b, p, arena_printf(b->arena, "unit \"%s\"", it->unit->name)))
            return false;
        if (!it->failed)
            it->failure = *p;
        it->failed = true;
        if (b->o->as_said || !next_way(b, it))
            return report_unit(b, it);
        *done = cache_fetch(b->arena, &b->cache, it->key, &it->object);
    }
    if (*done && it->failed)
        note_other_way(b, it);
    return *done || start_unit(b, job, b->job_item[job]);
}

static void
report_progress(BuildRun *b)
{
    b->done++;
    if (b->o->progress)
        b->o->progress(b->o->progress_user, b->done, b->nitem);
}

static bool
compile_units(BuildRun *b, const uint32_t *todo, uint32_t ntodo)
{
    uint32_t next = 0;
    bool done;

    for (uint32_t finished = 0; finished < ntodo;) {
        for (uint32_t job = 0; job < b->njob && next < ntodo; job++)
            if (!b->job[job].pid && !start_unit(b, job, todo[next++]))
                return false;
        if (!finish_unit(b, process_wait(b->arena, b->job, b->njob), &done))
            return false;
        if (done) {
            finished++;
            report_progress(b);
        }
    }
    return true;
}

/* Its current place is recorded; the loader also looks in its usual places. */
static bool
link_library(BuildRun *b, Argv *argv)
{
    char *path = realpath(b->o->library, NULL), *slash = path ? strrchr(path, '/') : NULL;

    if (!slash)
        return diag_error(b->diags, DIAG_USAGE, (Loc){ .file = b->o->library },
                          "cannot open the library: %s", strerror(errno));
    VEC_PUSH(b->arena, argv, arena_str(b->arena, path));
    argv_split(b->arena, argv, "-Xlinker -rpath -Xlinker");
    *slash = 0;
    VEC_PUSH(b->arena, argv, arena_str(b->arena, path));
    free(path);
    return true;
}

static const char *
link_form(const BuildRun *b)
{
    return b->o->link_form ? b->o->link_form : LINK_FLAGS;
}

static bool
link_objects(BuildRun *b, const char *path)
{
    Argv argv = { 0 };
    Process *p = &b->job[0]; /* none runs any more, so the first is free */
    int why;

    argv_split(b->arena, &argv, b->cc[0].path);
    argv_split(b->arena, &argv, link_form(b));
    VEC_PUSH(b->arena, &argv, "-o");
    VEC_PUSH(b->arena, &argv, path);
    for (uint32_t i = 0; i < b->nitem; i++)
        VEC_PUSH(b->arena, &argv, b->item[i].object);
    if (b->o->library && !link_library(b, &argv))
        return false;
    argv_split(b->arena, &argv, b->o->link);
    VEC_PUSH(b->arena, &argv, "-lm");
    VEC_PUSH(b->arena, &argv, NULL);
    if (!process_start(b->arena, argv.at, p, &why))
        return diag_error(b->diags, DIAG_TOOLCHAIN, (Loc){ 0 }, "cannot start the compiler %s: %s",
                          b->cc[0].path, strerror(why));
    process_wait(b->arena, p, 1);
    return (p->ok && file_exists(path)) || report_failure(b, p, "linking", "");
}

/* Of the objects alone: the libraries beside them may change by the next time. */
static CacheKey
library_key(const BuildRun *b)
{
    const char *form = link_form(b);
    CacheKey key = { hash_bytes(form, strlen(form), 0), hash_bytes(form, strlen(form), 1) };

    for (uint32_t i = 0; i < b->nitem; i++) {
        key.a = hash_bytes(&b->item[i].key, sizeof b->item[i].key, key.a);
        key.b = hash_bytes(&b->item[i].key, sizeof b->item[i].key, key.b);
    }
    return key;
}

/* made: a linker ran. */
static bool
take_library(BuildRun *b, const char *out_path, bool *made)
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
    Writer *w = file_map(b->arena, b->diags, path, &library)
                    ? writer_open(b->arena, b->diags, out_path)
                    : NULL;
    if (!w)
        return false;
    writer_put(w, library.data, library.bytes);
    return writer_commit(w, 0755);
}

/* The longest sources first, so that no processor idles while the last one compiles. */
static int
longest_first(const void *x, const void *y, void *user)
{
    const BuildRun *b = user;
    uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    size_t m = b->item[i].source_bytes, n = b->item[j].source_bytes;

    return m != n ? (m < n ? 1 : -1) : (i > j) - (i < j);
}

/* The rest of the compilation's memory, in equal parts. */
static void
share_memory(BuildRun *b)
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
build_all(BuildRun *b, const BuildUnit *unit, const char *out_path, uint32_t *compiled,
          uint32_t *cached)
{
    uint32_t *todo = NEW_ARRAY(b->arena, uint32_t, b->nitem), ntodo = 0;
    /* its flags are the machine's, as of all units, without any of its own */
    const BuildUnit *last = &unit[b->nitem - 1];
    bool linked;

    if (!toolchain_find(b->arena, b->diags, b->o,
                        arena_printf(b->arena, "%s %s", last->flags ? last->flags : "",
                                     last->target ? last->target : ""),
                        &b->cc[0]) ||
        !cache_open(b->arena, b->diags, b->o, &b->cache))
        return false;
    b->ncc = 1;
    share_memory(b);
    /* allocated now, so that they end before the folder is removed if memory runs out */
    b->job = process_new(b->arena, b->njob);
    for (uint32_t i = 0; i < b->njob; i++) {
        b->job[i].temporary = b->cache.work;
        b->job[i].memory_bytes = b->compiler_bytes;
    }
    set_items(b, unit);
    *cached = 0;
    for (uint32_t i = 0; i < b->nitem; i++) {
        bool given = take_given(b, &b->item[i]);
        bool known = !given && cache_fetch(b->arena, &b->cache, b->item[i].key, &b->item[i].object);
        *cached += known;
        if (given || known)
            report_progress(b);
        else
            todo[ntodo++] = i;
    }
    *compiled = ntodo;
    qsort_r(todo, ntodo, sizeof *todo, longest_first, b);
    if (!compile_units(b, todo, ntodo) || !take_library(b, out_path, &linked))
        return false;
    if (ntodo || linked)
        cache_trim(b->arena, &b->cache,
                   b->o->cache_bytes ? b->o->cache_bytes : DEFAULT_CACHE_BYTES);
    return true;
}

bool
build_shared(Arena *a, Diags *d, const BuildOptions *o, const BuildUnit *unit, uint32_t n,
             const char *out_path, uint32_t *compiled, uint32_t *cached)
{
    int jobs = o->jobs > 0 ? o->jobs : cpu_count();
    BuildRun *b = NEW(a, BuildRun);

    *b = (BuildRun){ .arena = a, .diags = d, .o = o, .nitem = n };
    b->item = NEW_ARRAY(a, BuildItem, n);
    b->job_item = NEW_ARRAY(a, uint32_t, jobs > MAX_JOBS ? MAX_JOBS : jobs);
    b->njob = (uint32_t)(jobs > MAX_JOBS ? MAX_JOBS : jobs);
    bool ok = build_all(b, unit, out_path, compiled, cached);
    for (uint32_t i = 0; b->job && i < b->njob; i++)
        process_kill(&b->job[i]);
    cache_close(&b->cache);
    return ok;
}
