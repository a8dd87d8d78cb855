/* cached: attention over a cache of keys and values, as decoders have it; see cached.c.
 *
 * The node's names in texts (compose.h) are what it reads:
 *
 *     q, k, v                new queries, keys, values [b, s, heads * size]
 *     past_key, past_value   [b, shared, rows, size]; absent: none
 *     lengths, total         i64[b]: of each sequence with its new tokens; i64[1]: of the longest
 *     cosine, sine           rotary tables; absent: none
 *     turned_by              rows of the tables [b, s]; absent: the tokens' places
 *     bias                   added to the scores; absent: none
 *     layout                 bool[1 or heads, blocks, blocks]: what is seen; absent: all
 *
 * and y, present_k and present_v are its results.
 */
#ifndef TENON_CACHED_H
#define TENON_CACHED_H

#include "import/converters.h"

typedef struct {
    Call *k;
    int64_t heads, shared, size; /* heads of queries, of keys; columns of a head */
    bool fixed;                  /* the cache has room for all tokens and never grows */
    int64_t block;               /* tokens in a block of the layout */
    bool kept;                   /* the past is a state of the session (by cached_attend) */
} Cached;

/* heads, shared, size; and q, k, v where they are beside each other in q. */
bool cached_rows(Cached *a);
bool cached_attend(Cached *a);

#endif
