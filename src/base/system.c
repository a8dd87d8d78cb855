/* system: the clock, pages, and how many processors this process may really use.
 *
 * A container's quota is not in the affinity mask, so it is read from the control groups: the file
 * cpu.max of version 2 or the pair cpu.cfs_* of version 1, in the process's group and every group
 * above it; the smallest counts. A quota of 2.5 processors gives 2 threads: with 3 the quota runs
 * out in each period and all of them wait for the next.
 */
#include "base/base.h"

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

static int
min_quota(int cpus, double quota, double period)
{
    if (quota <= 0 || period <= 0)
        return cpus;
    double whole = quota / period;
    return whole < 1 ? 1 : whole < cpus ? (int)whole : cpus;
}

static int
quota_of_folder(int cpus, const char *folder, bool v2)
{
    char path[4096 + 64], text[128];
    if (v2) {
        double quota, period;
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (read_small(path, text, sizeof text) && sscanf(text, "%lf %lf", &quota, &period) == 2)
            /* "max 100000" does not scan: no quota */
            cpus = min_quota(cpus, quota, period);
        return cpus;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    double quota = read_small(path, text, sizeof text) ? atof(text) : 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    double period = read_small(path, text, sizeof text) ? atof(text) : 0;
    return min_quota(cpus, quota, period);
}

/* The group `group` below the mount point and all groups above it. */
static int
quota_upward(int cpus, const char *mount, const char *group, bool v2)
{
    char folder[4096];
    size_t stem = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return cpus;
    for (;;) {
        cpus = quota_of_folder(cpus, folder, v2);
        char *slash = strrchr(folder + stem, '/');
        if (!slash)
            return cpus;
        *slash = 0;
    }
}

/* Does the comma-separated list of controllers have "cpu"? */
static bool
has_cpu(const char *list, size_t n)
{
    for (const char *end = list + n; list < end;) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        size_t len = (size_t)((comma ? comma : end) - list);
        if (len == 3 && memcmp(list, "cpu", 3) == 0)
            return true;
        list += len + 1;
    }
    return false;
}

/* Lines of /proc/self/cgroup read "0::/group" (version 2) or "4:cpu,cpuacct:/group" (version 1). */
static int
cgroup_quota(int cpus)
{
    char text[8192], mount[512];
    if (!read_small("/proc/self/cgroup", text, sizeof text))
        return cpus;
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
        if (n == 0) {
            cpus = quota_upward(cpus, "/sys/fs/cgroup", group, true);
            cpus = quota_upward(cpus, "/sys/fs/cgroup/unified", group, true);
        } else if (has_cpu(list, n) && n < 256) {
            snprintf(mount, sizeof mount, "/sys/fs/cgroup/%.*s", (int)n, list);
            cpus = quota_upward(cpus, mount, group, false);
        }
    }
    return cpus;
}

int64_t
memory_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    int64_t size;

    return pages <= 0 || bytes <= 0 || mul_overflows(pages, bytes, &size) ? INT64_MAX : size;
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
    return cgroup_quota(cpus);
}
