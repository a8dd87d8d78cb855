/* tokens: text as numbers and back.
 *
 * A file of tokens is byte-level: 0 to 255 are the bytes themselves, and each line "left right" is
 * one more, those two joined; joined is what comes first in the file. With "-" in the file's place
 * there is no text: prompts are numbers, and so are answers.
 */
#ifndef EXAMPLES_TOKENS_H
#define EXAMPLES_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_TOKEN_BYTES = 1024, MOST_WORDS = 1 << 20 };

typedef struct {
    int32_t left, right;
} Joined;
typedef struct {
    char *at;
    int32_t length;
} Piece;
typedef struct {
    bool plain;   /* numbers, no text */
    Joined *pair; /* pair i is token 256 + i */
    int32_t n;
    Piece *piece; /* [256 + n]: the bytes of each */
    char number[24];
} Tokens;

/* NULL, or what is wrong with the file. */
const char *tokens_read(Tokens *t, const char *path);
/* Tokens of `bytes` of text, at most as many as bytes (of numbers, as many as there are), into out;
 * -1: not numbers. */
int64_t tokens_encode(const Tokens *t, const char *text, size_t bytes, int64_t *out);
/* The bytes of a token, valid until the next call; of numbers, with a blank behind. */
const char *tokens_text(Tokens *t, int64_t token, size_t *bytes);
void tokens_free(Tokens *t);

#endif
