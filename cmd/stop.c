/* stop: interrupted, the command leaves nothing behind.
 *
 * While a model is compiled there are temporary files and compilers running. SIGINT, SIGTERM and
 * SIGHUP then only leave a mark, which the compiler asks for and cleans up; afterwards the command
 * ends by that signal, as its sender expects. At any other time, and the second time, they end
 * it at once. A temporary folder is held by a lock, so that the next command can tell one that
 * SIGKILL left from one in use.
 */
#include "cmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- signals --------------------------------------------------------------------------------- */

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
enum { NSIGNAL = sizeof signals / sizeof *signals };

static volatile sig_atomic_t came;
static struct sigaction before[NSIGNAL];

static void
mark(int sent)
{
    if (came) {
        signal(sent, SIG_DFL);
        raise(sent);
    }
    came = sent;
}

/* Ignored signals (nohup) stay ignored. */
void
stop_defer(void)
{
    struct sigaction deferred = { .sa_handler = mark };

    for (int i = 0; i < NSIGNAL; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &deferred, NULL);
    }
}

void
stop_now(void)
{
    for (int i = 0; i < NSIGNAL; i++)
        sigaction(signals[i], &before[i], NULL);
    if (came)
        raise(came);
}

int32_t
stop_asked(void *progress)
{
    progress_go_on(progress);
    return came != 0;
}

/* ---- a temporary folder ---------------------------------------------------------------------- */

#define PREFIX "tenon-run-"

/* The folder of a temporary artefact of perhaps hundreds of megabytes: rather on a disk than in
 * memory. */
static const char *
temporary_folder(void)
{
    const char *given = getenv("TMPDIR");

    if (given && *given)
        return given;
    return access("/var/tmp", W_OK) ? "/tmp" : "/var/tmp";
}

static void
empty(int folder)
{
    DIR *dir = fdopendir(dup(folder));
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        unlinkat(folder, e->d_name, 0);
    if (dir)
        closedir(dir);
}

static void
remove_left(const char *parent)
{
    DIR *dir = opendir(parent);
    struct dirent *e;
    struct stat st;

    while (dir && (e = readdir(dir))) {
        if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1))
            continue;
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB)) {
            empty(fd);
            unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
        }
        if (fd >= 0)
            close(fd);
    }
    if (dir)
        closedir(dir);
}

bool
temporary_open(Temporary *t)
{
    const char *parent = temporary_folder();

    remove_left(parent);
    for (int i = 0; i < 16; i++) {
        snprintf(t->path, sizeof t->path, "%s/" PREFIX "XXXXXX", parent);
        if (!mkdtemp(t->path))
            break;
        t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (t->fd < 0)
            break;
        bool locked = !flock(t->fd, LOCK_EX | LOCK_NB) || (errno != EWOULDBLOCK && errno != EINTR);
        if (locked && !access(t->path, F_OK)) /* no other process removed it as left behind */
            return true;
        close(t->fd);
    }
    fprintf(stderr,
            "tenon: error: cannot make a temporary folder in %s: %s. Set TMPDIR to a folder that "
            "can be written\n",
            parent, strerror(errno));
    return false;
}

void
temporary_close(Temporary *t)
{
    empty(t->fd);
    rmdir(t->path);
    close(t->fd);
}
