#include "vocabulary.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void
add_end(Vocabulary *v, int64_t token)
{
    if (token >= 0 && v->nend < MOST_ENDS && !vocabulary_ends(v, token))
        v->end[v->nend++] = token;
}

/* What a folder says of ends, where it says anything. */
static void
read_ends(Vocabulary *v, const char *folder)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    json_t *x = json_load_file(path, 0, NULL), *end = json_object_get(x, "eos_token_id");
    for (size_t i = 0; i < json_array_size(end); i++)
        add_end(v, json_integer_value(json_array_get(end, i)));
    if (json_is_integer(end))
        add_end(v, json_integer_value(end));
    json_decref(x);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    x = json_load_file(path, 0, NULL);
    end = json_object_get(x, "eos_token");
    end = json_is_object(end) ? json_object_get(end, "content") : end;
    if (json_is_string(end))
        add_end(v, bpe_find(v->bpe, json_string_value(end)));
    json_decref(x);
}

bool
vocabulary_read(Vocabulary *v, const char *path, char *problem, size_t room)
{
    struct stat about;
    char inside[4096];
    const char *end = strrchr(path, '.'), *wrong;
    bool folder = !stat(path, &about) && S_ISDIR(about.st_mode);

    *v = (Vocabulary){ 0 };
    if (folder || (end && !strcmp(end, ".json"))) {
        snprintf(inside, sizeof inside, "%s%s", path, folder ? "/tokenizer.json" : "");
        v->bpe = bpe_read(inside, problem, room);
        if (v->bpe && folder)
            read_ends(v, path);
        return v->bpe != NULL;
    }
    if ((wrong = tokens_read(&v->tokens, path)))
        snprintf(problem, room, "%s%s", wrong, path);
    return !wrong;
}

size_t
vocabulary_room(size_t bytes)
{
    return bytes + BPE_MOST_AROUND + 1;
}

int64_t
vocabulary_encode(const Vocabulary *v, const char *text, size_t bytes, bool around, int64_t *out)
{
    return v->bpe ? bpe_encode(v->bpe, text, bytes, around, out)
                  : tokens_encode(&v->tokens, text, bytes, out);
}

const char *
vocabulary_text(Vocabulary *v, int64_t token, size_t *bytes)
{
    return v->bpe ? bpe_text(v->bpe, token, bytes) : tokens_text(&v->tokens, token, bytes);
}

int64_t
vocabulary_words(const Vocabulary *v)
{
    return v->bpe ? bpe_words(v->bpe) : v->tokens.plain ? 0 : 256 + v->tokens.n;
}

bool
vocabulary_ends(const Vocabulary *v, int64_t token)
{
    for (int i = 0; i < v->nend; i++)
        if (v->end[i] == token)
            return true;
    return false;
}

void
vocabulary_free(Vocabulary *v)
{
    bpe_free(v->bpe);
    tokens_free(&v->tokens);
}
