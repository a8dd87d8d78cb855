/* threads: work of many independent items, done by several threads. */
#ifndef TENON_THREADS_H
#define TENON_THREADS_H

#include "base/base.h"

/* The arena's watch for a thread of its own: only thread 0, who came, asks whether to stop. */
Watch threads_watch(const Arena *a, uint32_t thread);
/* Call one(user, thread, i) once for each i < n, on so many threads: 0 is this one; where they
 * cannot be started there are fewer. Whoever is called takes no memory of this arena, and jumps
 * nowhere. False: the arena's watch was over before all were begun. */
bool threads_each(const Arena *a, uint32_t threads, uint32_t n,
                  void (*one)(void *user, uint32_t thread, uint32_t i), void *user);

#endif
