/* threads: independent items of work, distributed over threads. */
#ifndef TENON_THREADS_H
#define TENON_THREADS_H

#include "base/base.h"

/* The arena's watch for another thread: only thread 0, the caller, asks whether to stop. */
Watch threads_watch(const Arena *a, uint32_t thread);
/* Call one(user, thread, i) once for each i < n, on at most `threads` threads, and at most 256;
 * thread 0 is the caller. `one` allocates nothing from this arena and does not jump. False: the
 * arena's watch ended before all items began; the next arena_look ends the computation. */
bool threads_for_each(const Arena *a, uint32_t threads, uint32_t n,
                      void (*one)(void *user, uint32_t thread, uint32_t i), void *user);

#endif
