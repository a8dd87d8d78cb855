/* cached_attention: attention over a cache of keys and values, as in decoders; see
 * group_query_attention.c.
 *
 * It reads these names of the node's text (compose.h):
 *
 *     q, k, v                new queries, keys, values [b, s, heads * size]
 *     past_key, past_value   [b, shared, rows, size]; absent: none
 *     lengths, total         i64[b]: of each sequence with its new tokens; i64[1]: of the longest
 *     cosine, sine           rotary tables; absent: none
 *     turned_by              rows of the tables [b, s]; absent: the tokens' positions
 *     bias                   added to the scores; absent: none
 *     layout                 bool[1 or heads, blocks, blocks]: the mask by blocks of
 *                            $sparse_block_size tokens; absent: none
 *
 * Its results are y, present_k and present_v.
 */
#ifndef TENON_CACHED_ATTENTION_H
#define TENON_CACHED_ATTENTION_H

#include "import/converters.h"

typedef struct {
    Call *k;
    int64_t heads, shared, size; /* heads of queries, of keys; columns of a head */
    bool fixed;                  /* the cache has room for all tokens and does not grow */
    bool kept;                   /* the past is a state of the session (set by cached_attend) */
} Cached;

/* Names as for call_names, where `shared` and `size` are known sizes; fills these, and splits q
 * into q, k and v if it has all of them. */
bool cached_rows(Cached *a, const char *names);
bool cached_attend(Cached *a);

#endif
