/* sets: union-find over numbers. root [n]: initially root[i] = i. */
#ifndef TENON_FUSE_SETS_H
#define TENON_FUSE_SETS_H

#include <stdint.h>

static inline uint32_t
sets_root(uint32_t *root, uint32_t i)
{
    while (root[i] != i)
        i = root[i] = root[root[i]];
    return i;
}

/* Unites the two sets, named by the smaller number; true if they were apart. */
static inline bool
sets_unite(uint32_t *root, uint32_t x, uint32_t y)
{
    x = sets_root(root, x);
    y = sets_root(root, y);
    root[x > y ? x : y] = x > y ? y : x;
    return x != y;
}

#endif
