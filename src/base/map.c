/* map: 64-bit keys to 64-bit values, open addressing with linear probing.
 *
 * At most half of the slots are used, so probes are short; a grown map leaves its old arrays to the
 * arena. Keys are often pointers or small numbers, so they are mixed before they choose a slot.
 */
#include "base/base.h"

static uint32_t
slot_of(const Map *m, uint64_t key)
{
    uint64_t h = key;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;       /* the finaliser of splitmix64 */
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    uint32_t i = (uint32_t)(h ^ (h >> 31)) & (m->cap - 1);
    while (m->used[i] && m->key[i] != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

bool
map_get(const Map *m, uint64_t key, uint64_t *value)
{
    if (!m->n)
        return false;
    uint32_t i = slot_of(m, key);
    if (m->used[i] && value)
        *value = m->value[i];
    return m->used[i];
}

static void
grow(Map *m)
{
    Map bigger = { .arena = m->arena, .n = m->n, .cap = !m->cap ? 16 : m->cap < 1024 ? m->cap * 4 : m->cap * 2 };
    bigger.key = NEW_ARRAY(m->arena, uint64_t, bigger.cap);
    bigger.value = NEW_ARRAY(m->arena, uint64_t, bigger.cap);
    bigger.used = NEW_ARRAY(m->arena, uint8_t, bigger.cap);
    for (uint32_t i = 0; i < m->cap; i++) {
        if (!m->used[i])
            continue;
        uint32_t j = slot_of(&bigger, m->key[i]);
        bigger.key[j] = m->key[i];
        bigger.value[j] = m->value[i];
        bigger.used[j] = 1;
    }
    *m = bigger;
}

void
map_put(Map *m, uint64_t key, uint64_t value)
{
    if (m->n >= m->cap / 2)
        grow(m);
    uint32_t i = slot_of(m, key);
    m->n += !m->used[i];
    m->used[i] = 1;
    m->key[i] = key;
    m->value[i] = value;
}
