/* vocabulary: text as tokens and back: of a file of pairs (tokens.h), of a tokenizer.json (bpe.h),
 * or none. */
#ifndef SERVE_VOCABULARY_H
#define SERVE_VOCABULARY_H

#include "bpe.h"
#include "tokens.h"

enum { MOST_ENDS = 8 };

typedef struct {
    Tokens tokens;
    Bpe *bpe;               /* NULL: tokens */
    int64_t end[MOST_ENDS]; /* tokens that end a text */
    int nend;
} Vocabulary;

/* `path` is a file of pairs, a tokenizer.json, a folder that has one, or "-". Of a folder, what its
 * tokenizer_config.json and generation_config.json say ends a text, too. */
bool vocabulary_read(Vocabulary *v, const char *path, char *problem, size_t room);
/* Tokens that `bytes` of text have at most. */
size_t vocabulary_room(size_t bytes);
/* Into out; around: with those that the tokenizer puts around a text. -1: not numbers; no memory. */
int64_t vocabulary_encode(const Vocabulary *v, const char *text, size_t bytes, bool around,
                          int64_t *out);
/* The bytes of a token, valid until the next call. */
const char *vocabulary_text(Vocabulary *v, int64_t token, size_t *bytes);
/* How many tokens there are; 0: any. */
int64_t vocabulary_words(const Vocabulary *v);
bool vocabulary_ends(const Vocabulary *v, int64_t token);
void vocabulary_free(Vocabulary *v);

#endif
