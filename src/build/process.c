/* process: run programs without a shell.
 *
 * Each program is a process group, so that ending it ends what it started, and its temporary files
 * go to a folder that is removed with ours. Arguments are arrays, so no file name is ever parsed as
 * a command. Several programs run at once; poll on their output pipes tells which has output and,
 * at end of file, which has ended.
 */
#include "build/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SAID_MAX = 1 << 20 }; /* bytes kept of a program's output */

void
argv_split(Arena *a, Argv *v, const char *words)
{
    while (words && *words) {
        size_t n = strcspn(words, " \t");
        if (n)
            VEC_PUSH(a, v, arena_printf(a, "%.*s", (int)n, words));
        words += n;
        words += strspn(words, " \t");
    }
}

static int
spawn(const char *const *argv, char **env, const char *folder, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;

    if (posix_spawn_file_actions_init(&files))
        return ENOMEM;
    if (posix_spawnattr_init(&attr)) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    if (folder)
        posix_spawn_file_actions_addchdir_np(&files, folder);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, 1);
    posix_spawn_file_actions_adddup2(&files, output, 2);
    /* The host may block or ignore signals that compilers count on. */
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGCHLD);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    int why = posix_spawnp(pid, argv[0], &files, &attr, (char *const *)argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return why;
}

/* Our environment with another TMPDIR. */
static char **
environment(Arena *a, const char *temporary)
{
    static const char name[] = "TMPDIR=";
    size_t n = 0, k = 0;

    if (!temporary)
        return environ;
    while (environ && environ[n])
        n++;
    char **env = NEW_ARRAY(a, char *, n + 2);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], name, sizeof name - 1))
            env[k++] = environ[i];
    env[k] = arena_printf(a, "%s%s", name, temporary);
    return env;
}

/* A bound must hold before the program's first instruction, and posix_spawn sets none: a shell
 * does. It receives the arguments unparsed. */
static const char *const *
bounded(Arena *a, const char *const *argv, int64_t memory_bytes)
{
    Argv v = { 0 };

    if (!memory_bytes)
        return argv;
    VEC_PUSH(a, &v, "/bin/sh");
    VEC_PUSH(a, &v, "-c");
    VEC_PUSH(a, &v, "ulimit -d \"$0\"; exec \"$@\"");
    VEC_PUSH(a, &v, arena_printf(a, "%lld", (long long)(memory_bytes >> 10)));
    for (; *argv; argv++)
        VEC_PUSH(a, &v, *argv);
    VEC_PUSH(a, &v, NULL);
    return v.at;
}

typedef struct {
    Process *at;
    uint32_t n;
} Processes;

static void
end_all(void *what)
{
    const Processes *all = what;

    for (uint32_t i = 0; i < all->n; i++)
        process_kill(&all->at[i]);
}

Process *
process_new(Arena *a, uint32_t n)
{
    Processes *all = NEW(a, Processes);

    *all = (Processes){ NEW_ARRAY(a, Process, n), n };
    arena_closer(a, end_all, all);
    return all->at;
}

bool
process_start(Arena *a, const char *const *argv, Process *p, int *why)
{
    int ends[2];

    *p = (Process){ .temporary = p->temporary,
                    .folder = p->folder,
                    .memory_bytes = p->memory_bytes,
                    .pipe = -1,
                    .said.arena = a };
    char **env = environment(a, p->temporary);
    argv = bounded(a, argv, p->memory_bytes);
    if (pipe2(ends, O_CLOEXEC)) {
        *why = errno;
        return false;
    }
    *why = spawn(argv, env, p->folder, ends[1], &p->pid);
    close(ends[1]);
    if (*why) {
        close(ends[0]);
        p->pid = 0;
        return false;
    }
    p->pipe = ends[0];
    return true;
}

static void
reap(Process *p)
{
    int status = 0;
    pid_t got;

    close(p->pipe);
    p->pipe = -1;
    do
        got = waitpid(p->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    /* A host that ignores SIGCHLD leaves no status to read; the caller checks the output file. */
    p->ok = got < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    p->signal = got > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    p->pid = 0;
}

/* Reads the program's output; true once it is closed. */
static bool
listen_to(Process *p)
{
    char part[4096];
    ssize_t n = read(p->pipe, part, sizeof part);

    if (n < 0)
        return errno != EINTR && errno != EAGAIN;
    if (n > 0 && p->said.n < SAID_MAX)
        text_bytes(&p->said, part, (size_t)n);
    return n == 0;
}

uint32_t
process_wait(Arena *a, Process *p, uint32_t n)
{
    for (;;) {
        struct pollfd ready[n];
        for (uint32_t i = 0; i < n; i++)
            ready[i] = (struct pollfd){ .fd = p[i].pid ? p[i].pipe : -1, .events = POLLIN };
        if (poll(ready, n, arena_patience(a)) < 0)
            memset(ready, 0, sizeof ready);
        arena_look(a);
        for (uint32_t i = 0; i < n; i++)
            if (ready[i].fd >= 0 && ready[i].revents && listen_to(&p[i])) {
                reap(&p[i]);
                return i;
            }
    }
}

void
process_kill(Process *p)
{
    if (!p->pid)
        return;
    kill(-p->pid, SIGKILL);
    reap(p);
}
