/* lease: tells temporary files and folders of a living process from those of a dead one.
 *
 * A killed process cannot clean up, so the next one does. The owner of a temporary file or folder
 * holds a lock on it (flock) while it lives; one of our names without a lock is left over. The
 * system drops the locks of dead processes, so neither process numbers nor ages are guesses, and
 * processes in other containers or on other hosts that share the folder are safe. A cleaner may
 * remove the name between creation and locking: after locking, the owner checks that the name still
 * exists.
 */
#include "base/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 16 };

bool
lease_take(int fd, const char *path)
{
    struct stat mine, named;

    /* A file system without locks: nothing is ever removed. */
    if (flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR))
        return false;
    return !fstat(fd, &mine) && !lstat(path, &named) && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

/* Is `name` in `dir` ours and without an owner? Then *fd holds its lock. */
static bool
is_left(int dir, const char *name, int flags, int *fd)
{
    struct stat st;

    *fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return false;
    if (!fstat(*fd, &st) && st.st_uid == geteuid() && !flock(*fd, LOCK_EX | LOCK_NB))
        return true;
    close(*fd);
    return false;
}

/* ---- files: .tenon-PID-N.tmp, and the file beside it, that name and .so ----------------- */

static bool
is_temporary(const char *name)
{
    size_t n = strlen(name);
    return n > sizeof LEASE_FILE + 4 && !strncmp(name, LEASE_FILE, sizeof LEASE_FILE - 1) &&
           !strcmp(name + n - 4, ".tmp");
}

void
writer_sweep(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *e;
    int fd;

    while (dir && (e = readdir(dir))) {
        char beside[300];
        if (!is_temporary(e->d_name) || !is_left(dirfd(dir), e->d_name, O_RDWR, &fd))
            continue;
        snprintf(beside, sizeof beside, "%s.so", e->d_name);
        unlinkat(dirfd(dir), beside, 0);
        unlinkat(dirfd(dir), e->d_name, 0);
        close(fd);
    }
    if (dir)
        closedir(dir);
}

/* ---- folders ------------------------------------------------------------------------------- */

struct Private {
    char *path;
    int fd;
};

static void
empty(int fd)
{
    DIR *dir = fdopendir(fd); /* takes fd, and releases its lock at the end */
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    else
        close(fd);
}

void
private_close(Private *p)
{
    if (p->fd < 0)
        return;
    empty(p->fd);
    rmdir(p->path);
    p->fd = -1;
}

static void
close_at_end(void *what)
{
    private_close(what);
}

void
private_sweep(const char *parent, const char *prefix)
{
    DIR *dir = opendir(parent);
    struct dirent *e;
    int fd;

    while (dir && (e = readdir(dir))) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) ||
            !is_left(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY, &fd))
            continue;
        empty(fd);
        unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
    if (dir)
        closedir(dir);
}

Private *
private_folder(Arena *a, const char *parent, const char *prefix)
{
    Private *p = NEW(a, Private);
    const char *form = arena_printf(a, "%s/%sXXXXXX", parent, prefix);

    p->fd = -1;
    p->path = arena_str(a, form);
    arena_closer(a, close_at_end, p);
    private_sweep(parent, prefix);
    for (int i = 0; i < TRIES && p->fd < 0; i++) {
        strcpy(p->path, form);
        if (!mkdtemp(p->path))
            return NULL;
        p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (p->fd < 0) {
            rmdir(p->path);
            return NULL;
        }
        if (!lease_take(p->fd, p->path)) {
            close(p->fd);
            p->fd = -1;
        }
    }
    return p->fd < 0 ? NULL : p;
}

const char *
private_path(const Private *p)
{
    return p->path;
}
