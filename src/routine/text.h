/* text: strings compared, joined, cut, in lower and upper case. They are UTF-8; other bytes pass
 * through unchanged. */

/* The element of a broadcast input for element `at` of `out`. */
TN_ROUTINE int64_t
tn_text_at(const TnArray *x, const TnArray *out, int64_t at)
{
    int64_t place = 0, stride = 1;

    for (int32_t d = out->rank; d-- > 0; at /= out->dim[d]) {
        int32_t own = d - (out->rank - x->rank);
        if (own < 0)
            break;
        if (x->dim[own] != 1)
            place += at % out->dim[d] * stride;
        stride *= x->dim[own];
    }
    return place;
}

/* One code point from s, its length in bytes to *n; 0 < *n while there is one. */
TN_ROUTINE int32_t
tn_decode(const char *text, int *n)
{
    const unsigned char *s = (const unsigned char *)text;
    int more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    int32_t c = more ? s[0] & (0x3f >> more) : s[0];

    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) { /* no UTF-8: the byte itself */
            *n = 1;
            return s[0];
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    *n = s[0] ? more + 1 : 0;
    return c;
}
TN_ROUTINE int
tn_encode(int32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 0x3f)),
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 0x3f)),
    to[2] = (char)(0x80 | (c >> 6 & 0x3f)), to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}
/* Latin, Greek and Cyrillic letters in the other case: letters in a range move by `by`; in a range
 * of pairs the first of two is the upper one. Letters whose other case takes another number of
 * bytes stay, such as the Turkish i with and without a dot. */
TN_ROUTINE int32_t
tn_letter(int32_t c, int upper)
{
    static const struct {
        int32_t first, last, by;
    } range[] = {
        { 'A', 'Z', 32 },     { 0xc0, 0xd6, 32 },   { 0xd8, 0xde, 32 },   { 0x178, 0x178, -121 },
        { 0x391, 0x3a1, 32 }, { 0x3a3, 0x3ab, 32 }, { 0x386, 0x386, 38 }, { 0x388, 0x38a, 37 },
        { 0x38c, 0x38c, 64 }, { 0x38e, 0x38f, 63 }, { 0x410, 0x42f, 32 }, { 0x400, 0x40f, 80 },
        { 0x4c0, 0x4c0, 15 },
    };
    static const int32_t pair[][2] = {
        { 0x100, 0x12f }, { 0x132, 0x137 },   { 0x139, 0x148 },   { 0x14a, 0x177 },
        { 0x179, 0x17e }, { 0x1cd, 0x1dc },   { 0x1de, 0x1ef },   { 0x1f8, 0x21f },
        { 0x222, 0x233 }, { 0x460, 0x481 },   { 0x48a, 0x4bf },   { 0x4c1, 0x4ce },
        { 0x4d0, 0x52f }, { 0x1e00, 0x1e95 }, { 0x1ea0, 0x1eff },
    };
    for (unsigned i = 0; i < sizeof range / sizeof *range; i++) {
        int32_t by = range[i].by, at = upper ? c - by : c;
        if (at >= range[i].first && at <= range[i].last)
            return upper ? at : c + by;
    }
    for (unsigned i = 0; i < sizeof pair / sizeof *pair; i++)
        if (c >= pair[i][0] && c <= pair[i][1])
            return pair[i][0] + ((c - pair[i][0]) & ~1) + !upper;
    return upper && c == 0x3c2 ? 0x3a3 : c; /* a sigma at a word's end */
}
/* s in a case; NULL: no memory. Every letter takes as many bytes in both. */
TN_ROUTINE char *
tn_in_case(const TnRoutine *r, const char *s, int upper)
{
    char *to = tn_new_string(r, (int64_t)strlen(s)), *at = to;
    int n;

    for (int32_t c; at && (c = tn_decode(s, &n), n); s += n) {
        char other[4];
        /* what is no letter, or no UTF-8, has another length */
        memcpy(at, tn_encode(tn_letter(c, upper), other) == n ? other : s, (size_t)n), at += n;
    }
    return to;
}

TN_ROUTINE int64_t
tn_string_equal_plan(const TnRoutine *r, int64_t *scratch)
{
    (void)scratch;
    return tn_count(&r->array[2]);
}
TN_ROUTINE void
tn_string_equal(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *y = &r->array[1], *out = &r->array[2];

    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        ((uint8_t *)out->at)[i] =
            !strcmp(tn_string(x, tn_text_at(x, out, i)), tn_string(y, tn_text_at(y, out, i)));
}

TN_ROUTINE void
tn_string_concat(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *y = &r->array[1], *out = &r->array[2];
    int64_t n = tn_count(out);

    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < n; i++) {
        const char *a = tn_string(x, tn_text_at(x, out, i)),
                   *b = tn_string(y, tn_text_at(y, out, i));
        size_t na = strlen(a), nb = strlen(b);
        char *to = tn_new_string(r, (int64_t)(na + nb));
        if (!to)
            return;
        memcpy(to, a, na);
        memcpy(to + na, b, nb);
        ((TnText *)out->at)[i].s = to;
    }
}

/* The next piece of *s, its length in *n; 0: none. As Python's str.split: with white space, runs of
 * it separate and none is at the ends; with a delimiter, pieces may be empty. `left` cuts are
 * allowed (below 0: any number). */
typedef struct {
    const char *rest, *by;
    int64_t left;
    int done;
} TnCut;
TN_ROUTINE int
tn_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
TN_ROUTINE const char *
tn_piece(TnCut *cut, size_t *n)
{
    const char *s = cut->rest, *end;

    if (cut->done)
        return 0;
    if (!*cut->by) {
        while (tn_is_space(*s))
            s++;
        if (!*s)
            return 0;
        for (end = s; *end && !(tn_is_space(*end) && cut->left);)
            end++;
        cut->rest = end;
    } else {
        end = cut->left ? strstr(s, cut->by) : 0;
        cut->done = !end;
        end = end ? end : s + strlen(s);
        cut->rest = cut->done ? end : end + strlen(cut->by);
    }
    cut->left -= cut->left > 0;
    *n = (size_t)(end - s);
    return s;
}
TN_ROUTINE TnCut
tn_cut(const TnRoutine *r, int64_t i)
{
    return (TnCut){ tn_string(&r->array[0], i), tn_string(&r->array[1], 0), (int64_t)r->attr[0],
                    0 };
}

TN_ROUTINE void
tn_string_pieces(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    size_t length;

    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        TnCut cut = tn_cut(r, i);
        int64_t n = 0;
        while (tn_piece(&cut, &length))
            n++;
        ((int64_t *)r->array[2].at)[i] = n;
    }
}

TN_ROUTINE void
tn_string_split(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    int64_t n = tn_count(&r->array[0]), width = r->array[3].dim[r->array[3].rank - 1];
    TnText *out = (TnText *)r->array[3].at;

    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < n; i++) {
        TnCut cut = tn_cut(r, i);
        for (int64_t k = 0; k < width; k++) {
            size_t length = 0;
            const char *s = tn_piece(&cut, &length);
            char *to = tn_new_string(r, (int64_t)length);
            if (!to)
                return;
            memcpy(to, s ? s : "", length);
            out[i * width + k].s = to;
        }
    }
}

TN_ROUTINE void
tn_string_normalize(const TnArgs *args, int64_t begin, int64_t end, void *scratch)
{
    const TnRoutine *r = (const TnRoutine *)args;
    const TnArray *x = &r->array[0], *words = &r->array[1];
    int64_t n = tn_count(x), nword = tn_count(words), kept = 0;
    TnText *out = (TnText *)r->array[2].at;
    int turn = (int)r->attr[0], sensitive = r->attr[1] != 0;

    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < n; i++) {
        const char *s = tn_string(x, i), *compared = sensitive ? s : tn_in_case(r, s, 0);
        int drop = 0;
        for (int64_t k = 0; k < nword && !drop && compared; k++) {
            const char *word = tn_string(words, k);
            word = sensitive ? word : tn_in_case(r, word, 0);
            drop = word && !strcmp(compared, word);
        }
        if (drop)
            continue;
        s = turn ? tn_in_case(r, s, turn == 2) : s;
        if (!s || r->args.fault->code)
            return;
        out[kept++].s = s;
    }
    if (!kept)
        out[kept++].s = "";
    if (r->array[3].at)
        *(int64_t *)r->array[3].at = kept;
}
