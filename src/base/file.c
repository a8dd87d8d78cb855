/* file: mapped inputs, and outputs that appear complete or not at all.
 *
 * A Writer fills a temporary file in the target's folder (the same file system, so that the final
 * rename is atomic) and remembers its first error, so that callers write without checking and ask
 * once, at commit. A resource is registered with the arena before it is acquired, since an
 * allocation in between may jump away.
 */
#include "base/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static Loc
at_file(const char *path)
{
    return (Loc){ .file = path };
}

/* ---- reading ---------------------------------------------------------------------------- */

static void
unmap(void *what)
{
    Bytes *b = what;
    if (b->bytes)
        munmap((void *)b->data, b->bytes);
}

bool
file_map(Arena *a, Diags *d, const char *path, Bytes *out)
{
    Bytes *mapped = NEW(a, Bytes);
    arena_closer(a, unmap, mapped);

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0)
        return diag_error(d, DIAG_USAGE, at_file(path), "cannot open: %s", strerror(errno));
    struct stat st;
    int err = fstat(fd, &st) ? errno : 0;
    if (err || !S_ISREG(st.st_mode)) {
        close(fd);
        return diag_error(d, DIAG_USAGE, at_file(path), "cannot read: %s",
                          err                   ? strerror(err)
                          : S_ISDIR(st.st_mode) ? "it is a folder, a file is needed"
                                                : "it is not a regular file");
    }
    void *p = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    err = p == MAP_FAILED ? errno : 0;
    close(fd);
    if (err)
        return diag_error(d, err == ENOMEM ? DIAG_LIMIT : DIAG_USAGE, at_file(path),
                          "cannot map %lld bytes: %s", (long long)st.st_size, strerror(err));
    if (p)
        *mapped = (Bytes){ p, (size_t)st.st_size };
    *out = p ? *mapped : (Bytes){ (const uint8_t *)"", 0 };
    return true;
}

void
file_forget(Bytes b)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)b.data + page - 1) & ~(page - 1);
    uintptr_t last = ((uintptr_t)b.data + b.bytes) & ~(page - 1);
    if (last > first)
        madvise((void *)first, last - first, MADV_DONTNEED);
}

/* ---- writing ---------------------------------------------------------------------------- */

struct Writer {
    Diags *diags;
    const char *path, *temp;
    int fd;         /* -1: closed */
    atomic_int err; /* errno of a failure */
    bool created;   /* temp exists */
    uint64_t offset;
    size_t n; /* bytes in the buffer */
    uint8_t buffer[1 << 16];
};

static void
writer_close(void *what)
{
    Writer *w = what;
    if (w->created)
        unlink(w->temp);
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->created = false;
}

static DiagClass
class_of(int err)
{
    switch (err) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return DIAG_LIMIT;
    default: return DIAG_USAGE;
    }
}

static const char *
advice_for(int err)
{
    switch (err) {
    case ENOSPC:
    case EDQUOT: return "; free some space or write to another disk";
    case EFBIG: return "; raise the file size limit (ulimit -f) or write to another file system";
    case ENOENT:
    case ENOTDIR: return "; make the folder first or write elsewhere";
    case EACCES:
    case EPERM:
    case EROFS: return "; choose a folder that may be written";
    default: return "";
    }
}

/* The file a link leads to, so that the link itself survives the rename. One that leads nowhere is
 * replaced. */
static const char *
behind_link(Arena *a, const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
        return arena_str(a, real);
    return arena_str(a, path);
}

Writer *
writer_open(Arena *a, Diags *d, const char *path)
{
    Writer *w = NEW(a, Writer);
    w->diags = d;
    w->fd = -1;
    w->path = behind_link(a, path);
    arena_closer(a, writer_close, w);

    struct stat st;
    if (stat(w->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        diag_error(d, DIAG_USAGE, at_file(path), "cannot write: it is %s; give the name of a file",
                   S_ISDIR(st.st_mode) ? "a folder" : "not a regular file");
        return NULL;
    }
    const char *folder = path_folder(a, w->path);
    char *temp = arena_alloc(a, strlen(folder) + 64);
    w->temp = temp;
    /* open subtracts the umask from 0777; commit keeps to what is left. */
    for (int i = 0; i < 10000 && w->fd < 0; i++) {
        snprintf(temp, strlen(folder) + 64, "%s/" LEASE_FILE "%ld-%d.tmp", folder, (long)getpid(),
                 i);
        w->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0777);
        if (w->fd < 0 && errno != EEXIST && errno != EINTR)
            break;
        if (w->fd >= 0 && !lease_take(w->fd, temp)) {
            close(w->fd);
            w->fd = -1;
        }
    }
    if (w->fd < 0) {
        int err = errno;
        diag_error(d, class_of(err), at_file(path), "cannot write into folder %s: %s%s", folder,
                   strerror(err), advice_for(err));
        return NULL;
    }
    w->created = true;
    return w;
}

void
writer_put_at(Writer *w, uint64_t offset, const void *data, size_t n)
{
    while (n && !w->err) {
        ssize_t put = pwrite(w->fd, data, n < 1 << 30 ? n : 1 << 30, (off_t)offset);
        if (put == 0 || (put < 0 && errno != EINTR))
            w->err = put ? errno : EIO;
        if (put > 0) {
            data = (const uint8_t *)data + put;
            offset += (uint64_t)put;
            n -= (size_t)put;
        }
    }
}

static void
flush(Writer *w)
{
    writer_put_at(w, w->offset - w->n, w->buffer, w->n);
    w->n = 0;
}

/* The page cache keeps a range of a file in pages of the size of its first use: small ones for a
 * partial write, huge ones for a read where these are requested. So unwritten ranges, which read as
 * zeros without the disk, are read first, a few pages at a time, since mapped pages count as the
 * process's memory. */
static void
read_in_huge_pages(int fd, uint64_t from, uint64_t end)
{
#ifdef MADV_POPULATE_READ
    enum { PIECE = 8 * HUGE_PAGE };

    for (uint64_t at = from / HUGE_PAGE * HUGE_PAGE; at < end; at += PIECE) {
        size_t bytes = end - at < PIECE ? (size_t)(end - at) : PIECE;
        void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)at);
        if (p == MAP_FAILED)
            return;
        madvise(huge_pages(p, bytes), bytes, MADV_POPULATE_READ);
        munmap(p, bytes);
    }
#else
    (void)fd, (void)from, (void)end;
#endif
}

uint64_t
writer_room(Writer *w, uint64_t bytes)
{
    uint64_t at = w->offset;

    flush(w);
    w->offset += bytes;
    if (!w->err && ftruncate(w->fd, (off_t)w->offset))
        w->err = errno;
    if (!w->err && bytes >= HUGE_FROM)
        read_in_huge_pages(w->fd, at, w->offset);
    return at;
}

void
writer_put(Writer *w, const void *data, size_t bytes)
{
    if (bytes > sizeof w->buffer - w->n)
        flush(w);
    if (bytes > sizeof w->buffer) {
        writer_put_at(w, w->offset, data, bytes);
    } else if (bytes) {
        memcpy(w->buffer + w->n, data, bytes);
        w->n += bytes;
    }
    w->offset += bytes;
}

void
writer_align(Writer *w, size_t alignment)
{
    static const uint8_t zeros[256];
    size_t n = (size_t)(w->offset % alignment);
    for (n = n ? alignment - n : 0; n;) {
        size_t part = n < sizeof zeros ? n : sizeof zeros;
        writer_put(w, zeros, part);
        n -= part;
    }
}

uint64_t
writer_offset(const Writer *w)
{
    return w->offset;
}

const char *
writer_path(const Writer *w)
{
    return w->temp;
}

bool
writer_commit(Writer *w, int mode)
{
    flush(w);
    struct stat st;
    if (!w->err && (fstat(w->fd, &st) || fchmod(w->fd, st.st_mode & (mode_t)mode)))
        w->err = errno;
    int lock = dup(w->fd); /* until the name is final: a sweeper removes what has no lock */
    if (close(w->fd) && !w->err && errno != EINTR) /* a quota may be noticed only now */
        w->err = errno;
    w->fd = -1;
    if (!w->err && rename(w->temp, w->path))
        w->err = errno;
    if (lock >= 0)
        close(lock);
    if (!w->err) {
        w->created = false;
        return true;
    }
    writer_close(w);
    return diag_error(w->diags, class_of(w->err), at_file(w->path), "cannot write %llu bytes: %s%s",
                      (unsigned long long)w->offset, strerror(w->err), advice_for(w->err));
}

/* ---- names ------------------------------------------------------------------------------ */

bool
file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool
folder_make(Diags *d, const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part)
        return diag_error(d, DIAG_USAGE, at_file(path),
                          "the name has %zu bytes, at most %zu can be", n, sizeof part - 1);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] && part[i] != '/')
            continue;
        char was = part[i];
        part[i] = 0;
        struct stat st;
        int err = mkdir(part, 0777) ? errno : 0;
        if (err && !(stat(part, &st) == 0 && S_ISDIR(st.st_mode))) {
            err = err == EEXIST ? ENOTDIR : err;
            return diag_error(d, class_of(err), at_file(part), "cannot make this folder: %s%s",
                              strerror(err), advice_for(err));
        }
        part[i] = was;
    }
    return true;
}

const char *
path_join(Arena *a, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return arena_printf(a, "%s%s%s", folder, n && folder[n - 1] != '/' ? "/" : "", name);
}

const char *
path_folder(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    while (slash > path && slash[-1] == '/')
        slash--;
    return slash == path ? "/" : arena_printf(a, "%.*s", (int)(slash - path), path);
}

const char *
path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
