/* cache: objects and texts by the hash of everything that made them.
 *
 *   DIR/3f/9a…c2.o            an object, or a linked library; its modification time is that of its
 *                             last use
 *   DIR/3f/9a…c2.txt          a text, after what it was made from; the same
 *   DIR/work/build-XXXXXX/    the private folder of a running build
 *
 * An object appears under its name by link(2) from a private folder of the same file system, so it
 * is complete or absent at any time. A build holds links of its own to the objects it found, so no
 * other process can remove one before the linker reads it. File systems without hard links fall
 * back to rename.
 *
 * Only names of these forms are ever counted or removed: a cache folder named by mistake loses
 * nothing.
 */
#include "build/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK "build-"
#define DEFAULT_TEMPORARY "/tmp"

static bool
is_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

static bool
is_shard_name(const char *s)
{
    return strlen(s) == 2 && is_hex(s, 2);
}

static bool
is_entry_name(const char *s)
{
    return strlen(s) >= 30 && is_hex(s, 30) && (!strcmp(s + 30, ".o") || !strcmp(s + 30, ".txt"));
}

/* Call `visit` with each entry of a folder that `wanted` accepts. */
static void
each_entry(Arena *a, const char *folder, bool (*wanted)(const char *name),
           void (*visit)(Arena *a, const char *path, void *user), void *user)
{
    DIR *dir = opendir(folder);
    struct dirent *e;

    if (!dir)
        return;
    while ((e = readdir(dir)))
        if (wanted(e->d_name))
            visit(a, path_join(a, folder, e->d_name), user);
    closedir(dir);
}

/* ---- the private folder ---------------------------------------------------------------------- */

bool
cache_open(Arena *a, Diags *d, const BuildOptions *o, Cache *out)
{
    const char *temporary = o->temporary ? o->temporary : DEFAULT_TEMPORARY;

    *out = (Cache){ .dir = o->cache_dir };
    if (out->dir) {
        const char *parent = path_join(a, out->dir, "work");
        Diags quiet = { .arena = a };
        if (folder_make(&quiet, parent))
            out->folder = private_folder(a, parent, WORK);
        out->writable = out->folder != NULL;
        if (!out->writable)
            diag_note(d, (Loc){ .file = out->dir },
                      "the cache folder cannot be written (%s): compiling without it. "
                      "Name another with TENON_CACHE_DIR, or pass --no-cache",
                      strerror(errno));
    }
    if (!out->folder)
        out->folder = private_folder(a, temporary, "tenon-" WORK);
    if (!out->folder)
        return diag_error(
            d, DIAG_LIMIT, (Loc){ .file = temporary },
            "cannot make a temporary folder: %s. Free some space, or set TMPDIR to another folder",
            strerror(errno));
    out->work = private_path(out->folder);
    return true;
}

void
cache_close(Cache *c)
{
    if (c->folder)
        private_close(c->folder);
}

/* ---- objects --------------------------------------------------------------------------------- */

static const char *
entry_path(Arena *a, const char *dir, CacheKey key, const char *ending, bool make_shard)
{
    const char *shard = arena_printf(a, "%s/%02x", dir, (unsigned)(key.a >> 56));

    if (make_shard)
        mkdir(shard, 0755);
    /* 14 + 16 digits: the two that name the shard are not repeated */
    return arena_printf(a, "%s/%014llx%016llx%s", shard,
                        (unsigned long long)(key.a & 0xffffffffffffffULL),
                        (unsigned long long)key.b, ending);
}

bool
cache_fetch(Arena *a, const Cache *c, CacheKey key, const char **object)
{
    struct stat st;

    if (!c->dir)
        return false;
    const char *path = entry_path(a, c->dir, key, ".o", false);
    if (stat(path, &st))
        return false;
    if (!st.st_size) { /* the file system lost its content, for example at a power cut */
        unlink(path);
        return false;
    }
    utimensat(AT_FDCWD, path, NULL, 0);
    if (!c->writable || link(path, *object))
        *object = path;
    return true;
}

void
cache_store(Arena *a, const Cache *c, CacheKey key, const char **object)
{
    if (!c->writable)
        return;
    const char *path = entry_path(a, c->dir, key, ".o", true);
    if (!link(*object, path) || errno == EEXIST)
        return;
    if (!rename(*object, path))
        *object = path;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *
path_from(Arena *a, const char *dir, const char *from, const char *ending, bool make_shard)
{
    return entry_path(
        a, dir, (CacheKey){ hash_bytes(from, strlen(from), 0), hash_bytes(from, strlen(from), 1) },
        ending, make_shard);
}

bool
build_cache_get(Arena *a, const char *dir, const char *from, const char **text)
{
    Diags quiet = { .arena = a };
    size_t before = strlen(from) + 1;
    Bytes file;

    if (!dir)
        return false;
    const char *path = path_from(a, dir, from, ".txt", false);
    if (access(path, R_OK) || !file_map(a, &quiet, path, &file))
        return false;
    if (file.bytes <= before || memcmp(file.data, from, before) || file.data[file.bytes - 1])
        return false;
    utimensat(AT_FDCWD, path, NULL, 0);
    *text = (const char *)file.data + before;
    return true;
}

void
build_cache_put(Arena *a, const char *dir, const char *from, const char *text)
{
    Diags quiet = { .arena = a };

    if (!dir || !folder_make(&quiet, dir))
        return;
    Writer *w = writer_open(a, &quiet, path_from(a, dir, from, ".txt", true));
    if (!w)
        return;
    writer_put(w, from, strlen(from) + 1);
    writer_put(w, text, strlen(text) + 1);
    writer_commit(w, 0644);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A larger file would drive too much else out of the cache. */
enum { MOST_SHARE = 4 };

bool
build_cache_file(Arena *a, const char *dir, const char *from, Bytes *out)
{
    Diags quiet = { .arena = a };
    const char *path = path_from(a, dir, from, ".o", false);

    if (access(path, R_OK) || !file_map(a, &quiet, path, out))
        return false;
    utimensat(AT_FDCWD, path, NULL, 0);
    return true;
}

bool
build_cache_put_file(Arena *a, const BuildOptions *o, const char *from, const char *path)
{
    int64_t bound = o->cache_bytes ? o->cache_bytes : DEFAULT_CACHE_BYTES;
    Diags quiet = { .arena = a };
    Bytes file;

    if (!folder_make(&quiet, o->cache_dir) || !file_map(a, &quiet, path, &file) ||
        file.bytes > (uint64_t)bound / MOST_SHARE)
        return false;
    Writer *w = writer_open(a, &quiet, path_from(a, o->cache_dir, from, ".o", true));
    if (!w)
        return false;
    writer_put(w, file.data, file.bytes);
    if (!writer_commit(w, 0644))
        return false;
    cache_trim(a, &(Cache){ .dir = o->cache_dir, .writable = true }, bound);
    return true;
}

/* ---- size ------------------------------------------------------------------------------------ */

typedef struct {
    const char *path;
    int64_t bytes;
    struct timespec used;
} CacheEntry;
typedef VEC(CacheEntry) Entries;

static void
list_entry(Arena *a, const char *path, void *user)
{
    Entries *all = user;
    struct stat st;

    if (!lstat(path, &st) && S_ISREG(st.st_mode))
        VEC_PUSH(a, all, ((CacheEntry){ path, (int64_t)st.st_blocks * 512, st.st_mtim }));
}

static void
list_shard(Arena *a, const char *path, void *user)
{
    each_entry(a, path, is_entry_name, list_entry, user);
}

static int
by_use(const void *x, const void *y)
{
    const CacheEntry *a = x, *b = y;

    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    return (a->used.tv_nsec > b->used.tv_nsec) - (a->used.tv_nsec < b->used.tv_nsec);
}

void
cache_trim(Arena *a, const Cache *c, int64_t bound)
{
    Entries all = { 0 };
    int64_t bytes = 0;

    if (!c->writable)
        return;
    each_entry(a, c->dir, is_shard_name, list_shard, &all);
    for (uint32_t i = 0; i < all.n; i++)
        bytes += all.at[i].bytes;
    if (bytes <= bound)
        return;
    qsort(all.at, all.n, sizeof *all.at, by_use);
    for (uint32_t i = 0; i < all.n && bytes > bound; i++)
        if (!unlink(all.at[i].path))
            bytes -= all.at[i].bytes;
}

bool
build_cache_use(Diags *d, const char *dir, CacheUse *out)
{
    Entries all = { 0 };

    *out = (CacheUse){ 0 };
    if (!file_exists(dir))
        return true;
    if (access(dir, R_OK | X_OK))
        return diag_error(d, DIAG_USAGE, (Loc){ .file = dir }, "cannot read the cache folder: %s",
                          strerror(errno));
    each_entry(d->arena, dir, is_shard_name, list_shard, &all);
    out->files = all.n;
    for (uint32_t i = 0; i < all.n; i++)
        out->bytes += all.at[i].bytes;
    return true;
}

static void
remove_empty(Arena *a, const char *path, void *user)
{
    (void)a;
    (void)user;
    rmdir(path);
}

bool
build_cache_clear(Diags *d, const char *dir)
{
    Entries all = { 0 };

    each_entry(d->arena, dir, is_shard_name, list_shard, &all);
    for (uint32_t i = 0; i < all.n; i++)
        if (unlink(all.at[i].path) && errno != ENOENT)
            return diag_error(d, DIAG_USAGE, (Loc){ .file = all.at[i].path },
                              "cannot remove a cached object: %s. Check who owns the folder",
                              strerror(errno));
    each_entry(d->arena, dir, is_shard_name, remove_empty, NULL);
    private_sweep(path_join(d->arena, dir, "work"), WORK);
    return true;
}

const char *
build_cache_default(Arena *a, const char *xdg_cache_home, const char *home)
{
    /* XDG says to ignore relative ones */
    if (xdg_cache_home && xdg_cache_home[0] == '/')
        return path_join(a, xdg_cache_home, "tenon");
    if (home && home[0] == '/')
        return path_join(a, home, ".cache/tenon");
    return NULL;
}
