/* system: the clock, pages, and how many processors and bytes this process may really use.
 *
 * A container's limits are in no other place than the control groups: for processors the file
 * cpu.max of version 2 or the pair cpu.cfs_* of version 1, for memory memory.max or
 * memory.limit_in_bytes, in the process's group and every group above it; the smallest counts. A
 * quota of 2.5 processors gives 2 threads: with 3 the quota runs out in each period and all of them
 * wait for the next.
 */
#include "base/internal.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

double
time_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *
huge_pages(void *block, size_t bytes)
{
    enum { PAGE = 4096 };

    if (block && bytes >= HUGE_FROM) {
        size_t before = -(uintptr_t)block % PAGE;
        madvise((char *)block + before, (bytes - before) / PAGE * PAGE, MADV_HUGEPAGE);
    }
    return block;
}

/* A small file's text, 0-terminated; false if it cannot be read. */
static bool
read_small(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = 0;
    for (ssize_t got; n < cap - 1 && (got = read(fd, text + n, cap - 1 - n)) > 0;)
        n += (size_t)got;
    close(fd);
    text[n] = 0;
    return n > 0;
}

/* ---- limits of control groups ---------------------------------------------------------------- */

static int64_t
cpu_limit(const char *folder, bool v2)
{
    char path[4096 + 64], text[128];
    double quota = 0, period = 0;

    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_small(path, text, sizeof text))
        return INT64_MAX;
    if (v2) { /* "max 100000" does not scan: no quota */
        if (sscanf(text, "%lf %lf", &quota, &period) != 2)
            return INT64_MAX;
    } else {
        quota = atof(text);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        period = read_small(path, text, sizeof text) ? atof(text) : 0;
    }
    double whole = quota > 0 && period > 0 ? quota / period : 1e9;
    return whole < 1 ? 1 : whole < 1e9 ? (int64_t)whole : INT64_MAX;
}

static int64_t
memory_limit(const char *folder, bool v2)
{
    char path[4096 + 64], text[128];
    long long bytes;

    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    return read_small(path, text, sizeof text) && sscanf(text, "%lld", &bytes) == 1 && bytes > 0
               ? bytes
               : INT64_MAX;
}

typedef struct {
    const char *name;
    int64_t (*limit)(const char *folder, bool v2); /* INT64_MAX: none */
} Controller;

/* The least limit of the group `group` below the mount point and of all groups above it. */
static int64_t
limit_upward(const Controller *k, const char *mount, const char *group, bool v2)
{
    int64_t least = INT64_MAX;
    char folder[4096];
    size_t stem = strlen(mount);

    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return least;
    for (;;) {
        int64_t limit = k->limit(folder, v2);
        char *slash = strrchr(folder + stem, '/');
        least = limit < least ? limit : least;
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Does the comma-separated list of controllers have this one? */
static bool
lists(const char *list, size_t n, const char *name)
{
    for (const char *end = list + n; list < end;) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        size_t len = (size_t)((comma ? comma : end) - list);
        if (len == strlen(name) && memcmp(list, name, len) == 0)
            return true;
        list += len + 1;
    }
    return false;
}

/* Lines of /proc/self/cgroup read "0::/group" (version 2) or "4:cpu,cpuacct:/group" (version 1). */
static int64_t
cgroup_limit(const char *root, const Controller *k)
{
    int64_t least = INT64_MAX;
    char text[8192], mount[1024], path[1024];

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (strlen(root) > 512 || !read_small(path, text, sizeof text))
        return least;
    for (char *line = text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        list++;
        size_t n = (size_t)(group - list);
        group++;
        bool v2 = n == 0;
        for (int i = 0; i < (v2 ? 2 : lists(list, n, k->name) && n < 256); i++) {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%.*s", root,
                     !v2 ? "/"
                     : i ? "/unified"
                         : "",
                     (int)n, list);
            int64_t limit = limit_upward(k, mount, group, v2);
            least = limit < least ? limit : least;
        }
    }
    return least;
}

int64_t
cgroup_memory(const char *root)
{
    return cgroup_limit(root, &(Controller){ "memory", memory_limit });
}

int64_t
cgroup_cpus(const char *root)
{
    return cgroup_limit(root, &(Controller){ "cpu", cpu_limit });
}

/* ---- this process ---------------------------------------------------------------------------- */

int64_t
memory_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    int64_t size, limit = cgroup_memory("");

    if (pages <= 0 || bytes <= 0 || mul_overflows(pages, bytes, &size))
        return limit;
    return limit < size ? limit : size;
}

int
cpu_count(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int cpus = online < 1 ? 1 : online > 1 << 16 ? 1 << 16 : (int)online;
    cpu_set_t mask[16]; /* 16384 processors */
    if (sched_getaffinity(0, sizeof mask, mask) == 0) {
        int allowed = CPU_COUNT_S(sizeof mask, mask);
        if (allowed >= 1 && allowed < cpus)
            cpus = allowed;
    }
    int64_t quota = cgroup_cpus("");
    return quota < cpus ? (int)quota : cpus;
}
