/* ideals: enumerate the groups that can be taken next.
 *
 * An ideal starts as one node without uncovered predecessors and grows by a successor and all
 * uncovered predecessors of that.
 */
#include "fuse/subgraph.h"

void
subgraph_ideals(Subgraph *k, const SetWord *left, uint64_t limit)
{
    uint32_t low = bit_next(left, k->words, 0) / 64;
    uint64_t looked = 0;

    k->stamp++;
    k->work.n = 0;
    FOR_EACH_BIT (i, left, k->words) {
        const SetWord *before = k->before + (size_t)i * k->words;
        bool free = true;
        for (uint32_t w = low; w <= i / 64 && free; w++)
            free = !(before[w] & left[w]);
        if (!free)
            continue;
        uint32_t one = subgraph_set(k, &i, 1);
        k->set.at[one].stamp = k->stamp;
        VEC_PUSH(k->arena, &k->work, one);
    }
    for (uint32_t at = 0; at < k->work.n; at++) {
        uint32_t from = k->work.at[at], size = k->set.at[from].n;
        subgraph_bits(k, from, k->bits);
        for (uint32_t i = 0; i < size; i++) {
            uint32_t node = k->member.at[k->set.at[from].first + i];
            for (uint32_t e = k->first[node]; e < k->first[node + 1]; e++) {
                uint32_t to = k->succ[e], n = 0;
                if (!k->runs[e] || !bit_is(left, to) || bit_is(k->bits, to))
                    continue;
                const SetWord *before = k->before + (size_t)to * k->words;
                for (uint32_t w = 0; w < k->words; w++)
                    k->grown[w] = k->bits[w] | (before[w] & left[w]);
                bit_put(k->grown, to);
                if (bit_count(k->grown, k->words) > k->p->most)
                    continue;
                FOR_EACH_BIT (b, k->grown, k->words)
                    k->list[n++] = b;
                uint32_t set = subgraph_set(k, k->list, n);
                ++*k->steps;
                looked++;
                if (!k->set.at[set].may || k->set.at[set].stamp == k->stamp)
                    continue;
                k->set.at[set].stamp = k->stamp;
                VEC_PUSH(k->arena, &k->work, set);
                if (looked >= limit) {
                    k->over = true;
                    return;
                }
            }
        }
    }
}
