#include "tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
join(Tokens *t, int left, int right)
{
    if (left < 0 || right < 0 || left >= 256 + t->n || right >= 256 + t->n)
        return "a token is made of one that is not there yet in ";
    Piece a = t->piece[left], b = t->piece[right];
    if (t->n == MOST_WORDS || a.length + b.length > MOST_TOKEN_BYTES)
        return "more tokens, or longer ones, than this program takes are in ";
    if (t->n % 256 == 0) {
        Joined *pair = realloc(t->pair, (size_t)(t->n + 256) * sizeof *pair);
        t->pair = pair ? pair : t->pair;
        Piece *piece = realloc(t->piece, (size_t)(t->n + 512) * sizeof *piece);
        t->piece = piece ? piece : t->piece;
        if (!pair || !piece)
            return "no memory for the tokens of ";
    }
    Piece *p = &t->piece[256 + t->n];
    *p = (Piece){ malloc((size_t)(a.length + b.length)), a.length + b.length };
    if (!p->at)
        return "no memory for the tokens of ";
    memcpy(p->at, a.at, (size_t)a.length);
    memcpy(p->at + a.length, b.at, (size_t)b.length);
    t->pair[t->n++] = (Joined){ left, right };
    return NULL;
}

const char *
tokens_read(Tokens *t, const char *path)
{
    FILE *f;
    const char *wrong = NULL;
    int left, right;

    *t = (Tokens){ .plain = !strcmp(path, "-") };
    if (t->plain)
        return NULL;
    char *bytes = malloc(256);
    t->piece = calloc(256, sizeof *t->piece);
    if (!bytes || !t->piece || !(f = fopen(path, "r"))) {
        free(bytes);
        return bytes && t->piece ? "cannot open " : "no memory for the tokens of ";
    }
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        t->piece[i] = (Piece){ bytes + i, 1 };
    }
    while (!wrong && fscanf(f, "%d %d", &left, &right) == 2)
        wrong = join(t, left, right);
    if (!wrong && !feof(f))
        wrong = "a line is not two numbers in ";
    fclose(f);
    return wrong;
}

static int64_t
numbers(const char *text, int64_t *out)
{
    int64_t n = 0;

    for (char *end; *text; text = end) {
        out[n++] = strtoll(text, &end, 10);
        if (end == text)
            return -1;
        end += strspn(end, " ");
    }
    return n;
}

int64_t
tokens_encode(const Tokens *t, const char *text, size_t bytes, int64_t *out)
{
    int64_t n = (int64_t)bytes;

    if (t->plain)
        return numbers(text, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i];
    for (int32_t i = 0; i < t->n; i++) { /* in the order of the file */
        int64_t to = 0;
        for (int64_t k = 0; k < n; k++, to++) {
            bool both = k + 1 < n && out[k] == t->pair[i].left && out[k + 1] == t->pair[i].right;
            out[to] = both ? 256 + i : out[k];
            k += both;
        }
        n = to;
    }
    return n;
}

const char *
tokens_text(Tokens *t, int64_t token, size_t *bytes)
{
    if (t->plain) {
        *bytes = (size_t)snprintf(t->number, sizeof t->number, "%lld ", (long long)token);
        return t->number;
    }
    *bytes = (size_t)t->piece[token].length;
    return t->piece[token].at;
}

void
tokens_free(Tokens *t)
{
    for (int32_t i = 0; i < t->n; i++)
        free(t->piece[256 + i].at);
    free(t->piece ? t->piece[0].at : NULL);
    free(t->piece);
    free(t->pair);
}
