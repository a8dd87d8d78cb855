/* base, shared by its own files. */
#ifndef TENON_BASE_INTERNAL_H
#define TENON_BASE_INTERNAL_H

#include "base/base.h"

#define LEASE_FILE ".tenon-" /* temporary files begin so and end in .tmp */

/* Lock what was just made at `path`. False: another process took it for left behind; make
 * another. */
bool lease_take(int fd, const char *path);

/* The least limit of the process's control groups, of versions 1 and 2 [bytes], [processors];
 * INT64_MAX: none. root: before /proc and /sys, "" but for tests. */
int64_t cgroup_memory(const char *root);
int64_t cgroup_cpus(const char *root);

#endif
