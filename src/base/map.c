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
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u; /* the finaliser of splitmix64 */
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    uint32_t i = (uint32_t)(h ^ (h >> 31)) & (m->cap - 1);
    while (m->at[i].used && m->at[i].key != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

bool
map_get(const Map *m, uint64_t key, uint64_t *value)
{
    if (!m->n)
        return false;
    const MapEntry *e = &m->at[slot_of(m, key)];
    if (e->used && value)
        *value = e->value;
    return e->used;
}

static void
grow(Map *m)
{
    Map bigger = { .arena = m->arena,
                   .n = m->n,
                   .cap = !m->cap         ? 16
                          : m->cap < 1024 ? m->cap * 4
                                          : m->cap * 2 };
    bigger.at = NEW_ARRAY(m->arena, MapEntry, bigger.cap);
    for (uint32_t i = 0; i < m->cap; i++)
        if (m->at[i].used)
            bigger.at[slot_of(&bigger, m->at[i].key)] = m->at[i];
    *m = bigger;
}

void
map_put(Map *m, uint64_t key, uint64_t value)
{
    if (m->n >= m->cap / 2)
        grow(m);
    MapEntry *e = &m->at[slot_of(m, key)];
    m->n += !e->used;
    *e = (MapEntry){ key, value, true };
}

void
map_reserve(Map *m, uint32_t count)
{
    uint32_t cap = 16;

    while (cap / 2 <= count && cap < UINT32_MAX / 4)
        cap *= 2;
    if (m->n || cap <= m->cap)
        return;
    m->cap = cap;
    m->at = NEW_ARRAY(m->arena, MapEntry, cap);
}
