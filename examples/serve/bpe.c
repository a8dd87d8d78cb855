/* Text to tokens: added tokens are cut out, what is between them is normalized and split, and each
 * piece's bytes are joined, the pair of the lowest rank first. */
#include "bpe_int.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

uint64_t
bpe_hash(const char *at, size_t n)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)at[i]) * 1099511628211u;
    return h ^ h >> 29;
}

uint64_t
bpe_hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

    return h ^ h >> 32;
}

int32_t
bpe_lookup(const Bpe *b, const char *at, size_t n)
{
    for (size_t i = bpe_hash(at, n) & (b->room - 1);; i = (i + 1) & (b->room - 1)) {
        int32_t id = b->found[i];
        if (id < 0 || ((size_t)b->word[id].n == n && !memcmp(b->word[id].at, at, n)))
            return id;
    }
}

const BpeMerge *
bpe_pair(const Bpe *b, int32_t left, int32_t right)
{
    for (size_t i = bpe_hash_pair(left, right) & (b->merge_room - 1);;
         i = (i + 1) & (b->merge_room - 1)) {
        const BpeMerge *m = &b->merge[i];
        if (m->joined < 0)
            return NULL;
        if (m->left == left && m->right == right)
            return m;
    }
}

/* ---- joining --------------------------------------------------------------------------------- */

typedef struct {
    int32_t rank, at, left, right, joined;
} Candidate;

/* One encoding. */
typedef struct {
    const Bpe *b;
    int64_t *out, n;
    size_t room;
    int32_t *token, *next, *before; /* [room]: of the piece; -1: joined to another, or the end */
    Candidate *heap;                /* [3 * room] */
    size_t nheap;
    bool failed;
} Encoding;

static bool
sooner(const Candidate *x, const Candidate *y)
{
    return x->rank < y->rank || (x->rank == y->rank && x->at < y->at);
}

static void
push(Encoding *e, int32_t at)
{
    int32_t right = at < 0 || e->next[at] < 0 ? -1 : e->next[at];
    const BpeMerge *m = right < 0 ? NULL : bpe_pair(e->b, e->token[at], e->token[right]);
    size_t i = e->nheap;

    if (!m)
        return;
    Candidate c = { m->rank, at, m->left, m->right, m->joined };
    for (e->nheap++; i && sooner(&c, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = c;
}

static Candidate
pop(Encoding *e)
{
    Candidate top = e->heap[0], last = e->heap[--e->nheap];
    size_t i = 0, k;

    while ((k = 2 * i + 1) < e->nheap) {
        k += k + 1 < e->nheap && sooner(&e->heap[k + 1], &e->heap[k]);
        if (!sooner(&e->heap[k], &last))
            break;
        e->heap[i] = e->heap[k];
        i = k;
    }
    e->heap[i] = last;
    return top;
}

static bool
make_room(Encoding *e, size_t n)
{
    if (n <= e->room)
        return true;
    free(e->token), free(e->next), free(e->before), free(e->heap);
    e->room = 2 * n + 64;
    e->token = malloc(e->room * sizeof *e->token);
    e->next = malloc(e->room * sizeof *e->next);
    e->before = malloc(e->room * sizeof *e->before);
    e->heap = malloc(3 * e->room * sizeof *e->heap);
    return e->token && e->next && e->before && e->heap;
}

static void
join(Encoding *e, const char *piece, size_t bytes)
{
    const Bpe *b = e->b;
    int32_t n = 0, whole = b->ignore_merges && bytes ? bpe_lookup(b, piece, bytes) : -1;

    if (whole >= 0) {
        e->out[e->n++] = whole;
        return;
    }
    if (!make_room(e, bytes)) {
        e->failed = true;
        return;
    }
    for (size_t i = 0; i < bytes; i++) /* a byte that has no token is left out */
        if (b->byte[(unsigned char)piece[i]] >= 0)
            e->token[n++] = b->byte[(unsigned char)piece[i]];
    for (int32_t i = 0; i < n; i++) {
        e->next[i] = i + 1 < n ? i + 1 : -1;
        e->before[i] = i - 1;
    }
    for (int32_t i = 0; i < n; i++)
        push(e, i);
    while (e->nheap) {
        Candidate c = pop(e);
        int32_t right = e->next[c.at];
        if (e->token[c.at] != c.left || right < 0 || e->token[right] != c.right)
            continue; /* one of them has been joined meanwhile */
        e->token[c.at] = c.joined;
        e->token[right] = -1;
        e->next[c.at] = e->next[right];
        if (e->next[right] >= 0)
            e->before[e->next[right]] = c.at;
        push(e, c.at);
        push(e, e->before[c.at]);
    }
    for (int32_t i = n ? 0 : -1; i >= 0; i = e->next[i])
        e->out[e->n++] = e->token[i];
}

/* ---- splitting ------------------------------------------------------------------------------- */

static void split(Encoding *e, int part, const char *text, size_t n);

static void
with_blank(Encoding *e, int part, const char *text, size_t n)
{
    char *longer = malloc(n + 1);

    if (!longer) {
        e->failed = true;
        return;
    }
    *longer = ' ';
    memcpy(longer + 1, text, n);
    split(e, part, longer, n + 1);
    free(longer);
}

static void
split(Encoding *e, int i, const char *text, size_t n)
{
    const BpePart *p = &e->b->part[i];
    pcre2_match_data *m;
    bool gaps = !p->removed || !p->invert, matches = !p->removed || p->invert;
    size_t at = 0;
    int found;

    if (e->failed || !n)
        return;
    if (i == e->b->nparts) {
        join(e, text, n);
        return;
    }
    if (p->prefix && *text != ' ') {
        with_blank(e, i, text, n);
        return;
    }
    if (!p->pattern) {
        split(e, i + 1, text, n);
        return;
    }
    if (!(m = pcre2_match_data_create_from_pattern(p->pattern, NULL))) {
        e->failed = true;
        return;
    }
    while (at < n && (found = pcre2_match(p->pattern, (PCRE2_SPTR)text, n, at,
                                          PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, m, NULL)) > 0) {
        const size_t *range = pcre2_get_ovector_pointer(m);
        if (gaps)
            split(e, i + 1, text + at, range[0] - at);
        if (matches)
            split(e, i + 1, text + range[0], range[1] - range[0]);
        at = range[1];
    }
    e->failed |= at < n && found < 0 && found != PCRE2_ERROR_NOMATCH;
    if (gaps)
        split(e, i + 1, text + at, n - at);
    pcre2_match_data_free(m);
}

static void
plain(Encoding *e, const char *text, size_t n)
{
    utf8proc_uint8_t *composed = NULL;

    if (!n || !e->b->nfc) {
        split(e, 0, text, n);
        return;
    }
    utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                           &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (length < 0)
        e->failed = true;
    else
        split(e, 0, (char *)composed, (size_t)length);
    free(composed);
}

/* The longest added token here; NULL: none begins here. */
static const BpeAdded *
added_at(const Bpe *b, const char *text, size_t n)
{
    const BpeAdded *best = NULL;

    for (size_t i = 0; b->begins[(unsigned char)*text] && i < b->nadded; i++) {
        const BpeAdded *a = &b->added[i];
        if (a->n <= n && !memcmp(a->text, text, a->n) && (!best || a->n > best->n))
            best = a;
    }
    return best;
}

static bool
is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int64_t
bpe_encode(const Bpe *b, const char *text, size_t n, bool around, int64_t *out)
{
    Encoding e = { .b = b, .out = out };
    size_t begin = 0;

    for (int i = 0; around && i < b->nbefore; i++)
        e.out[e.n++] = b->before[i];
    for (size_t i = 0; i < n && !e.failed;) {
        const BpeAdded *a = added_at(b, text + i, n - i);
        if (!a) {
            i++;
            continue;
        }
        size_t end = i;
        while (a->left && end > begin && is_blank(text[end - 1]))
            end--;
        plain(&e, text + begin, end - begin);
        e.out[e.n++] = a->id;
        i += a->n;
        while (a->right && i < n && is_blank(text[i]))
            i++;
        begin = i;
    }
    plain(&e, text + begin, n - begin);
    for (int i = 0; around && i < b->nafter; i++)
        e.out[e.n++] = b->after[i];
    free(e.token), free(e.next), free(e.before), free(e.heap);
    return e.failed ? -1 : e.n;
}

const char *
bpe_text(const Bpe *b, int64_t token, size_t *bytes)
{
    bool there = token >= 0 && token < b->n && b->word[token].at && !b->word[token].special;

    *bytes = there ? (size_t)b->word[token].n : 0;
    return there ? b->word[token].at : "";
}

int64_t
bpe_words(const Bpe *b)
{
    return b->n;
}

int64_t
bpe_find(const Bpe *b, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < b->nadded; i++)
        if (b->added[i].n == n && !memcmp(b->added[i].text, text, n))
            return b->added[i].id;
    return bpe_lookup(b, text, n);
}
