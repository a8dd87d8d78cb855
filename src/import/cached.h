/* cached: attention over a cache of keys and values, as decoders have it; see cached.c. */
#ifndef TENON_CACHED_H
#define TENON_CACHED_H

#include "import/internal.h"

typedef struct {
    Call *k;
    int64_t heads, shared, size; /* heads of queries, of keys; columns of a head */
    ValueId row[3];              /* new queries, keys, values [b, s, heads * size] */
    ValueId past[2];             /* keys, values [b, shared, rows, size]; 0: none */
    ValueId lengths;             /* i64[b]: of each sequence with its new tokens */
    ValueId total;               /* i64[1]: of the longest one */
    ValueId cosine, sine;        /* rotary tables; 0: none */
    ValueId turned_by;           /* rows of the tables [b, s]; 0: the tokens' places */
    ValueId bias;                /* added to the scores; 0: none */
    bool fixed;                  /* the cache has room for all tokens and never grows */
    ValueId layout;              /* bool[1 or heads, blocks, blocks]: what is seen; 0: all */
    int64_t block;               /* tokens in a block of the layout */

    /* What cached_attend makes of them. */
    ValueId batch, tokens, length; /* i64[1]: sizes; rows of the cache afterwards */
    ValueId begin;                 /* i64[b], or i64[1] for all: places of the first new tokens */
    bool kept;                     /* the past is a state of the session */
    ValueId held;                  /* bool[b, 1, length, 1]: places before begin */
} Cached;

/* Queries, keys, values of inputs 0 to 2, or side by side in input 0: heads, shared, size, row. */
bool cached_rows(Cached *a);
/* Makes the node's three outputs. */
bool cached_attend(Cached *a);

#endif
