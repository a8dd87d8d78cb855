/* hash: xxHash64, compiled in from its header, so that nothing is linked. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base.h"

uint64_t
hash_bytes(const void *data, size_t n, uint64_t seed)
{
    return XXH64(data, n, seed);
}
