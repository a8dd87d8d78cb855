/* Reading a tokenizer.json. */
#include "bpe_int.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKEN = 1 << 22, MOST_CODE = 512 };

typedef struct {
    Bpe *b;
    const char *path;
    char *problem;
    size_t room;
    short code[MOST_CODE]; /* the byte that a character of the vocabulary stands for; -1: none */
} Reading;

static bool
wrong(Reading *r, const char *text, ...)
{
    va_list args;
    int n = snprintf(r->problem, r->room, "%.150s: ", r->path);

    va_start(args, text);
    vsnprintf(r->problem + n, r->room - (size_t)n, text, args);
    va_end(args);
    return false;
}

static bool
unsupported(Reading *r, const char *what, const char *which, const char *there_are)
{
    return wrong(r, "%s %.40s is not supported: there %s", what, which, there_are);
}

static const char *
text_of(const json_t *x, const char *name)
{
    const char *text = json_string_value(json_object_get(x, name));

    return text ? text : "";
}

static bool
is_true(const json_t *x, const char *name)
{
    return json_is_true(json_object_get(x, name));
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Bytes are written as characters that can be seen: those that are, as themselves; the others, in
 * order, from U+0100 on. */
static void
fill_codes(Reading *r)
{
    int n = 256;

    memset(r->code, -1, sizeof r->code);
    for (int b = 0; b < 256; b++) {
        bool seen = (b > 32 && b < 127) || (b > 160 && b != 173);
        r->code[seen ? b : n++] = (short)b;
    }
}

/* The bytes that a word of the vocabulary stands for, malloc's; a word that is written otherwise
 * stands for itself. */
static char *
bytes_of(const Reading *r, const char *word, int32_t *n)
{
    char *out = malloc(strlen(word) + 1);

    *n = 0;
    for (const unsigned char *c = (const unsigned char *)word; out && *c; c++) {
        int code = *c < 0x80             ? *c
                   : (*c & 0xe0) == 0xc0 ? (*c & 0x1f) << 6 | (c[1] & 0x3f)
                                         : MOST_CODE;
        if (code >= MOST_CODE || r->code[code] < 0) {
            strcpy(out, word);
            *n = (int32_t)strlen(word);
            return out;
        }
        out[(*n)++] = (char)r->code[code];
        c += *c >= 0x80;
    }
    return out;
}

static bool
put_word(Reading *r, json_int_t id, char *at, int32_t n, bool special)
{
    Bpe *b = r->b;

    if (!at || id < 0 || id >= MOST_TOKEN) {
        free(at);
        return wrong(r, at ? "token %lld is not among 0 to 4194303" : "no memory for token %lld",
                     (long long)id);
    }
    if (id >= b->n) {
        int32_t n_more = (int32_t)id + 1 + (int32_t)id / 2;
        BpeWord *more = realloc(b->word, (size_t)n_more * sizeof *more);
        if (!more) {
            free(at);
            return wrong(r, "no memory for %d tokens", n_more);
        }
        memset(more + b->n, 0, (size_t)(n_more - b->n) * sizeof *more);
        b->word = more;
        b->n = n_more;
    }
    free(b->word[id].at);
    b->word[id] = (BpeWord){ at, n, special };
    return true;
}

static size_t
power_above(size_t n)
{
    size_t room = 16;

    while (room < 2 * n)
        room *= 2;
    return room;
}

static bool
read_words(Reading *r, const json_t *vocab)
{
    Bpe *b = r->b;
    const char *word;
    const json_t *id;
    int32_t n;

    json_object_foreach((json_t *)(uintptr_t)vocab, word, id)
    {
        char *at = bytes_of(r, word, &n);
        if (!put_word(r, json_is_integer(id) ? json_integer_value(id) : -1, at, n, false))
            return false;
    }
    while (b->n && !b->word[b->n - 1].at)
        b->n--;
    if (!b->n)
        return wrong(r, "the model has no vocab");
    b->room = power_above((size_t)b->n);
    if (!(b->found = malloc(b->room * sizeof *b->found)))
        return wrong(r, "no memory for %d tokens", b->n);
    memset(b->found, -1, b->room * sizeof *b->found);
    for (int32_t i = 0; i < b->n; i++) {
        const BpeWord *w = &b->word[i];
        if (!w->at)
            continue;
        size_t at = bpe_hash(w->at, (size_t)w->n) & (b->room - 1);
        while (b->found[at] >= 0)
            at = (at + 1) & (b->room - 1);
        b->found[at] = i;
    }
    for (int i = 0; i < 256; i++)
        b->byte[i] = bpe_lookup(b, (char[]){ (char)i }, 1);
    return true;
}

/* "left right", or [left, right]. */
static bool
read_merge(Reading *r, const json_t *x, int32_t rank)
{
    Bpe *b = r->b;
    const char *left = json_string_value(json_is_array(x) ? json_array_get(x, 0) : x),
               *right = json_is_array(x) ? json_string_value(json_array_get(x, 1)) : NULL,
               *blank = left && !right ? strchr(left, ' ') : NULL;
    char *both[2] = { left ? blank ? strndup(left, (size_t)(blank - left)) : strdup(left) : NULL,
                      blank   ? strdup(blank + 1)
                      : right ? strdup(right)
                              : NULL };
    int32_t n[2] = { 0, 0 };
    char *bytes[2] = { both[0] ? bytes_of(r, both[0], &n[0]) : NULL,
                       both[1] ? bytes_of(r, both[1], &n[1]) : NULL };
    char *joined = malloc((size_t)(n[0] + n[1]) + 1);
    BpeMerge m = { -1, -1, rank, -1 };

    if (bytes[0] && bytes[1] && joined) {
        memcpy(joined, bytes[0], (size_t)n[0]);
        memcpy(joined + n[0], bytes[1], (size_t)n[1]);
        m = (BpeMerge){ bpe_lookup(b, bytes[0], (size_t)n[0]),
                        bpe_lookup(b, bytes[1], (size_t)n[1]), rank,
                        bpe_lookup(b, joined, (size_t)(n[0] + n[1])) };
    }
    free(both[0]), free(both[1]), free(bytes[0]), free(bytes[1]), free(joined);
    if (m.left < 0 || m.right < 0 || m.joined < 0)
        return wrong(r, "merge %d is not of two tokens of the vocab that make a third", rank);
    size_t at = bpe_hash_pair(m.left, m.right) & (b->merge_room - 1);
    while (b->merge[at].joined >= 0)
        at = (at + 1) & (b->merge_room - 1);
    b->merge[at] = m;
    return true;
}

static bool
read_model(Reading *r, const json_t *model)
{
    Bpe *b = r->b;
    const json_t *merges = json_object_get(model, "merges");
    size_t n = json_array_size(merges);

    if (strcmp(text_of(model, "type"), "BPE"))
        return unsupported(r, "a model of type", text_of(model, "type"), "is BPE, of bytes");
    if (is_true(model, "byte_fallback") || *text_of(model, "continuing_subword_prefix") ||
        *text_of(model, "end_of_word_suffix"))
        return wrong(r, "byte_fallback, continuing_subword_prefix and end_of_word_suffix are not "
                        "supported: there is BPE of bytes, with ByteLevel");
    b->ignore_merges = is_true(model, "ignore_merges");
    if (!read_words(r, json_object_get(model, "vocab")))
        return false;
    b->merge_room = power_above(n);
    if (!(b->merge = malloc(b->merge_room * sizeof *b->merge)))
        return wrong(r, "no memory for %zu merges", n);
    memset(b->merge, -1, b->merge_room * sizeof *b->merge);
    for (size_t i = 0; i < n; i++)
        if (!read_merge(r, json_array_get(merges, i), (int32_t)i))
            return false;
    return true;
}

static bool
read_added(Reading *r, const json_t *list)
{
    Bpe *b = r->b;
    size_t n = json_array_size(list);

    if (n && !(b->added = calloc(n, sizeof *b->added)))
        return wrong(r, "no memory for %zu added tokens", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, i);
        const char *text = text_of(x, "content");
        json_int_t id = json_integer_value(json_object_get(x, "id"));
        if (!*text || is_true(x, "single_word"))
            return wrong(r, "added token %zu is %s", i,
                         *text ? "a single_word, which is not supported" : "empty");
        if (!put_word(r, id, strdup(text), (int32_t)strlen(text), is_true(x, "special")))
            return false;
        b->added[b->nadded++] = (BpeAdded){ NULL, strlen(text), (int32_t)id, is_true(x, "lstrip"),
                                            is_true(x, "rstrip") };
        b->begins[(unsigned char)*text] = true;
    }
    while (b->n && !b->word[b->n - 1].at)
        b->n--;
    for (size_t i = 0; i < b->nadded; i++)
        b->added[i].text = b->word[b->added[i].id].at;
    return true;
}

/* ---- what comes before and after ------------------------------------------------------------- */

static bool
add_part(Reading *r, const char *pattern, bool literal, BpePart part)
{
    int error;
    size_t at;
    PCRE2_UCHAR message[128];

    if (r->b->nparts == BPE_MOST_PARTS)
        return wrong(r, "more than %d pre_tokenizers are not supported", BPE_MOST_PARTS);
    if (pattern && !(part.pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                                  PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP),
                                                  &error, &at, NULL))) {
        pcre2_get_error_message(error, message, sizeof message);
        return wrong(r, "the pattern \"%.100s\": %s", pattern, (char *)message);
    }
    r->b->part[r->b->nparts++] = part;
    return true;
}

static bool
read_split(Reading *r, const json_t *x)
{
    const json_t *pattern = json_object_get(x, "pattern");
    const char *regex = text_of(pattern, "Regex"), *how = text_of(x, "behavior");
    bool removed = !strcmp(how, "Removed");

    if (!removed && strcmp(how, "Isolated"))
        return unsupported(r, "a Split of behavior", how, "are Isolated and Removed");
    return add_part(r, *regex ? regex : text_of(pattern, "String"), !*regex,
                    (BpePart){ .invert = is_true(x, "invert"), .removed = removed });
}

static bool
read_before(Reading *r, const json_t *x, bool *bytes)
{
    static const char words[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    const char *type = text_of(x, "type");
    const json_t *list = json_object_get(x, "pretokenizers"),
                 *regex = json_object_get(x, "use_regex");

    if (!strcmp(type, "Sequence")) {
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_before(r, json_array_get(list, i), bytes))
                return false;
        return true;
    }
    if (!strcmp(type, "Split"))
        return read_split(r, x);
    if (!strcmp(type, "Digits"))
        return add_part(r, is_true(x, "individual_digits") ? "\\p{N}" : "\\p{N}+", false,
                        (BpePart){ 0 });
    if (strcmp(type, "ByteLevel"))
        return unsupported(r, "a pre_tokenizer", *type ? type : "null",
                           "are ByteLevel, Split, Digits, and Sequences of them");
    *bytes = true;
    return add_part(r, json_is_false(regex) ? NULL : words, false,
                    (BpePart){ .prefix = is_true(x, "add_prefix_space") });
}

static bool
read_normalizer(Reading *r, const json_t *x)
{
    const char *type = text_of(x, "type");
    const json_t *list = json_object_get(x, "normalizers");

    if (!x || json_is_null(x))
        return true;
    if (!strcmp(type, "NFC"))
        return r->b->nfc = true;
    if (strcmp(type, "Sequence"))
        return unsupported(r, "a normalizer", type, "is NFC");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_normalizer(r, json_array_get(list, i)))
            return false;
    return true;
}

/* {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]} */
static bool
read_around(Reading *r, const json_t *x)
{
    Bpe *b = r->b;
    const char *type = text_of(x, "type");
    const json_t *list = json_object_get(x, "processors"), *single = json_object_get(x, "single");
    bool behind = false;

    if (!x || json_is_null(x) || !strcmp(type, "ByteLevel"))
        return true;
    if (!strcmp(type, "Sequence")) {
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_around(r, json_array_get(list, i)))
                return false;
        return true;
    }
    if (strcmp(type, "TemplateProcessing"))
        return unsupported(r, "a post_processor", type, "are ByteLevel and TemplateProcessing");
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *special = json_object_get(json_array_get(single, i), "SpecialToken");
        int64_t id = bpe_find(b, text_of(special, "id"));
        behind |= !special;
        if (!special)
            continue;
        if (id < 0 || b->nbefore + b->nafter == BPE_MOST_AROUND)
            return wrong(r, "the post_processor's %.60s is no token, or one of more than %d",
                         text_of(special, "id"), BPE_MOST_AROUND);
        if (behind)
            b->after[b->nafter++] = (int32_t)id;
        else
            b->before[b->nbefore++] = (int32_t)id;
    }
    return true;
}

Bpe *
bpe_read(const char *path, char *problem, size_t room)
{
    Reading r = { .b = calloc(1, sizeof *r.b), .path = path, .problem = problem, .room = room };
    json_error_t error;
    json_t *x = json_load_file(path, 0, &error);
    bool bytes = false, ok;

    fill_codes(&r);
    if (!x)
        wrong(&r, "line %d: %.150s", error.line, error.text);
    ok = x && r.b && read_model(&r, json_object_get(x, "model")) &&
         read_added(&r, json_object_get(x, "added_tokens")) &&
         read_normalizer(&r, json_object_get(x, "normalizer")) &&
         read_before(&r, json_object_get(x, "pre_tokenizer"), &bytes) &&
         read_around(&r, json_object_get(x, "post_processor")) &&
         (bytes || wrong(&r, "no pre_tokenizer is ByteLevel: there is BPE of bytes alone"));
    json_decref(x);
    if (ok)
        return r.b;
    bpe_free(r.b);
    return NULL;
}

void
bpe_free(Bpe *b)
{
    for (int32_t i = 0; b && i < b->n; i++)
        free(b->word[i].at);
    for (int i = 0; b && i < b->nparts; i++)
        pcre2_code_free(b->part[i].pattern);
    if (b)
        free(b->word), free(b->found), free(b->merge), free(b->added);
    free(b);
}
