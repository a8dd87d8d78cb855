/* How often a test repeats what differs by chance or by target: always, but by day under the
 * address sanitizer, where a round takes six times as long and what differs is mostly what plain
 * builds see as well. */
#ifndef TEST_ROUNDS_H
#define TEST_ROUNDS_H

#include <stdlib.h>

static inline int
rounds(int all)
{
#ifdef __SANITIZE_ADDRESS__
    const char *night = getenv("TENON_NIGHTLY");
    return night && *night && *night != '0' ? all : (all + 9) / 10;
#else
    return all;
#endif
}

#endif
