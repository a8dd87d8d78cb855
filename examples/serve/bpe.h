/* bpe: tokens of a tokenizer.json of Hugging Face: byte-level byte-pair encoding, as GPT-2, Llama 3,
 * Qwen and SmolLM have it.
 *
 * Read are: model BPE, with ignore_merges; normalizers NFC and none; pre_tokenizers ByteLevel,
 * Split (behavior Isolated and Removed, inverted too), Digits, and Sequences of them;
 * post_processors ByteLevel, TemplateProcessing and Sequences; added tokens. What asks for another
 * is refused by bpe_read.
 */
#ifndef SERVE_BPE_H
#define SERVE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BPE_MOST_AROUND = 8 };

typedef struct Bpe Bpe;

/* NULL: *problem says what is wrong. */
Bpe *bpe_read(const char *path, char *problem, size_t room);
int64_t bpe_words(const Bpe *b); /* one more than the largest token */
/* The token that is this text; -1: none is. */
int64_t bpe_find(const Bpe *b, const char *text);
/* Tokens of n bytes into out, which has room for n, and BPE_MOST_AROUND more; around: with those
 * that the post_processor puts around a text. -1: no memory, or a pattern takes too long. */
int64_t bpe_encode(const Bpe *b, const char *text, size_t n, bool around, int64_t *out);
/* The bytes of a token; of a special one, none. */
const char *bpe_text(const Bpe *b, int64_t token, size_t *bytes);
void bpe_free(Bpe *b);

#endif
