/* What bpe_read.c and bpe.c share. */
#ifndef SERVE_BPE_INT_H
#define SERVE_BPE_INT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "bpe.h"

typedef struct {
    char *at; /* NULL: there is no such token */
    int32_t n;
    bool special;
} BpeWord;

/* A pair that is joined, in a table by its hash; joined is -1 where a row is empty. */
typedef struct {
    int32_t left, right, rank, joined;
} BpeMerge;

/* A token that is cut out of a text before all else. */
typedef struct {
    const char *text;
    size_t n;
    int32_t id;
    bool left, right; /* it takes the blanks there with it */
} BpeAdded;

/* A step of the pre-tokenizer. */
typedef struct {
    pcre2_code *pattern;          /* NULL: the text stays whole */
    bool invert, removed, prefix; /* prefix: a blank goes before a text that begins with none */
} BpePart;

enum { BPE_MOST_PARTS = 8 };

struct Bpe {
    BpeWord *word; /* [n] */
    int32_t n;
    int32_t *found; /* [room]: tokens by the hash of their bytes; -1: empty */
    BpeMerge *merge;
    size_t room, merge_room; /* powers of two */
    int32_t byte[256];
    BpeAdded *added;
    size_t nadded;
    bool begins[256]; /* some added token, with this byte */
    BpePart part[BPE_MOST_PARTS];
    int nparts;
    bool nfc, ignore_merges;
    int32_t before[BPE_MOST_AROUND], after[BPE_MOST_AROUND];
    int nbefore, nafter;
};

int32_t bpe_lookup(const Bpe *b, const char *at, size_t n);
const BpeMerge *bpe_pair(const Bpe *b, int32_t left, int32_t right);
uint64_t bpe_hash(const char *at, size_t n);
uint64_t bpe_hash_pair(int32_t left, int32_t right);

#endif
