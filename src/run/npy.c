/* npy: NumPy's array files.
 *
 * "\x93NUMPY", version, length of the header, and the header: a Python dict such as
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * then the elements. The header is untrusted: the scanner below never leaves it, and the size it
 * promises is checked against the file's bytes before anything is used.
 *
 * The elements are used in the mapped file, and copied only if they are not aligned for their type
 * (members of an .npz) or in Fortran order. Strings ('<U7') become addresses of UTF-8.
 */
#include <string.h>

#include "run/internal.h"

typedef struct {
    const char *at, *end;
    char descr[32];
    bool has_descr, has_order, has_shape, fortran;
    uint32_t rank;
    int64_t dims[TN_MAX_RANK];
    const char *wrong; /* what was expected, at the first mistake */
} Header;

/* ---- the header's dict ------------------------------------------------------------------ */

static void
skip_space(Header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\t' || *h->at == '\n' || *h->at == '\r'))
        h->at++;
}

static bool
take(Header *h, const char *word)
{
    size_t n = strlen(word);
    skip_space(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
        return false;
    h->at += n;
    return true;
}

static bool
wrong(Header *h, const char *expected)
{
    if (!h->wrong)
        h->wrong = expected;
    return false;
}

/* 'text' or "text", without escapes, shorter than cap. */
static bool
take_string(Header *h, char *text, size_t cap)
{
    char quote = take(h, "'") ? '\'' : take(h, "\"") ? '"' : 0;
    if (!quote)
        return wrong(h, "a string");
    const char *close = memchr(h->at, quote, (size_t)(h->end - h->at));
    if (!close || (size_t)(close - h->at) >= cap)
        return wrong(h, "a short string");
    memcpy(text, h->at, (size_t)(close - h->at));
    text[close - h->at] = 0;
    h->at = close + 1;
    return true;
}

static bool
take_size(Header *h, int64_t *size)
{
    skip_space(h);
    const char *first = h->at;
    for (*size = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
        if (mul_overflows(*size, 10, size) || add_overflows(*size, *h->at - '0', size))
            return wrong(h, "sizes below 2^63");
    if (h->at == first)
        return wrong(h, "a size");
    if (h->at < h->end && *h->at == 'L') /* written by Python 2 */
        h->at++;
    return true;
}

static bool
take_shape(Header *h)
{
    if (!take(h, "("))
        return wrong(h, "a tuple as shape");
    while (!take(h, ")")) {
        int64_t size;
        if (!take_size(h, &size))
            return false;
        if (h->rank == TN_MAX_RANK)
            return wrong(h, "at most 12 dimensions");
        h->dims[h->rank++] = size;
        if (!take(h, ",")) {
            if (!take(h, ")"))
                return wrong(h, "`,` or `)` in the shape");
            break;
        }
    }
    return h->has_shape = true;
}

static bool
take_entry(Header *h)
{
    char key[32];
    if (!take_string(h, key, sizeof key) || !take(h, ":"))
        return wrong(h, "a key and `:`");
    if (strcmp(key, "descr") == 0) {
        skip_space(h);
        if (h->at < h->end && *h->at == '[')
            return wrong(h, "a plain element type, not a record,");
        return h->has_descr = take_string(h, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0) {
        h->fortran = take(h, "True");
        return (h->has_order = h->fortran || take(h, "False")) || wrong(h, "True or False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape)
        return take_shape(h);
    return wrong(h, "the keys descr, fortran_order and shape, once each");
}

static bool
take_header(Header *h)
{
    if (!take(h, "{"))
        return wrong(h, "a dict");
    while (!take(h, "}")) {
        if (!take_entry(h))
            return false;
        if (!take(h, ",")) {
            if (!take(h, "}"))
                return wrong(h, "`,` or `}`");
            break;
        }
    }
    return (h->has_descr && h->has_order && h->has_shape) ||
           wrong(h, "the keys descr, fortran_order and shape, once each");
}

/* ---- reading ---------------------------------------------------------------------------- */

static bool
refuse_dtype(Diags *d, Loc loc, const char *descr)
{
    const char *little = arena_printf(d->arena, "<%s", *descr ? descr + 1 : "");
    if (*descr == '>' && dtype_from_npy(little) != DT_NONE)
        return diag_error(d, DIAG_USAGE, loc,
                          "the elements are '%s', big-endian; save x.astype('%s') instead", descr,
                          little);
    const char *kind = strchr(descr, 'O')                         ? "Python objects"
                       : strchr(descr, 'S')                       ? "bytes"
                       : strchr(descr, 'c')                       ? "complex numbers"
                       : strchr(descr, 'M') || strchr(descr, 'm') ? "dates"
                                                                  : NULL;
    return diag_error(
        d, DIAG_UNSUPPORTED, loc,
        "the elements are '%s'%s%s%s; use float, integer, bool or '<U' (string) arrays", descr,
        kind ? " (" : "", kind ? kind : "", kind ? ")" : "");
}

/* Elements of `size` bytes from Fortran order (first index fastest) to row-major. */
static void *
from_fortran(Arena *a, const NpyArray *x, size_t size, size_t bytes, const uint8_t *from)
{
    uint8_t *to = arena_alloc(a, bytes), *end = to + bytes;
    int64_t at[TN_MAX_RANK] = { 0 }, stride[TN_MAX_RANK], offset = 0, step = 1;
    for (uint32_t k = 0; k < x->rank; k++) {
        stride[k] = step;
        step *= x->dims[k];
    }
    for (uint8_t *p = to; p < end; p += size) {
        memcpy(p, from + (size_t)offset * size, size);
        for (uint32_t k = x->rank; k-- > 0;) {
            offset += stride[k];
            if (++at[k] < x->dims[k])
                break;
            offset -= stride[k] * at[k];
            at[k] = 0;
        }
    }
    return to;
}

/* '<U12': strings of up to 12 characters of four bytes, padded with zeros. '<U0' counts as a byte
 * each, so that no file promises more strings than it has bytes. */
static bool
text_width(const char *descr, int64_t *characters)
{
    const char *s = descr + 2;

    if (strncmp(descr, "<U", 2) || !*s || strlen(s) > 9)
        return false;
    for (*characters = 0; *s >= '0' && *s <= '9'; s++)
        *characters = *characters * 10 + (*s - '0');
    return !*s;
}

static size_t
put_utf8(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    uint32_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    to[0] = (char)((0xff00 >> (more + 1) & 0xff) | c >> 6 * more);
    for (uint32_t i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return more + 1;
}

static uint32_t
character(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A tensor of strings is one of addresses, of UTF-8. */
static bool
read_text(Arena *a, Diags *d, Loc loc, const uint8_t *data, size_t wide, NpyArray *x, NpyArray *out)
{
    int64_t n = x->bytes / (int64_t)sizeof(char *);
    const char **s = arena_alloc(a, (size_t)x->bytes + 1);

    for (int64_t i = 0; i < n; i++, data += 4 * wide) {
        size_t length = wide, bytes = 0;
        while (length && !character(data + 4 * (length - 1)))
            length--;
        char *to = arena_alloc(a, 4 * length + 1);
        for (size_t k = 0; k < length; k++) {
            uint32_t c = character(data + 4 * k);
            if (!c || c > 0x10ffff)
                return diag_error(d, DIAG_USAGE, loc,
                                  "string %lld has character %u at %zu; 1 to 0x10ffff are possible",
                                  (long long)i, c, k);
            bytes += put_utf8(c, to + bytes);
        }
        to[bytes] = 0;
        s[i] = to;
    }
    x->data = s;
    *out = *x;
    return true;
}

bool
npy_parse(Arena *a, Diags *d, Loc loc, Bytes file, NpyArray *out)
{
    if (file.bytes < 10 || memcmp(file.data, "\x93NUMPY", 6) != 0)
        return diag_error(
            d, DIAG_USAGE, loc,
            "not a .npy array: it does not begin with \\x93NUMPY; write it with numpy.save");
    const uint8_t *p = file.data;
    uint8_t version = p[6];
    size_t start = version == 1 ? 10 : 12;
    if (version < 1 || version > 3 || file.bytes < start)
        return diag_error(
            d, DIAG_USAGE, loc,
            "it has .npy version %u, versions 1 to 3 are read; write it with numpy.save", version);
    size_t length = (size_t)p[8] | (size_t)p[9] << 8;
    if (version > 1)
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > file.bytes - start)
        return diag_error(d, DIAG_USAGE, loc,
                          "truncated: the header has %zu bytes, %zu are left in the file", length,
                          file.bytes - start);

    Header h = { .at = (const char *)p + start, .end = (const char *)p + start + length };
    if (!take_header(&h))
        return diag_error(
            d, DIAG_USAGE, loc,
            "the .npy header is malformed at byte %zu: %s expected; write it with numpy.save",
            (size_t)(h.at - (const char *)p), h.wrong);
    int64_t wide;
    bool text = text_width(h.descr, &wide);
    DType dtype = text ? DT_STR : dtype_from_npy(h.descr);
    if (dtype == DT_NONE)
        return refuse_dtype(d, loc, h.descr);

    NpyArray x = { .dtype = dtype, .rank = h.rank };
    memcpy(x.dims, h.dims, sizeof x.dims);
    size_t there = file.bytes - start - length,
           size = text ? (size_t)wide * 4 + !wide : dtype_info[dtype].bytes;
    int64_t needed = 0;
    bool sized = tensor_bytes(dtype, x.rank, x.dims, &x.bytes) &&
                 !mul_overflows(x.bytes / dtype_info[dtype].bytes, (int64_t)size, &needed);
    if (!sized || (uint64_t)needed > there)
        return diag_error(
            d, DIAG_USAGE, loc,
            "truncated: its shape %s needs %lld bytes, the file has %zu after the header",
            dims_text(d->arena, dtype, x.rank, x.dims), (long long)needed, there);
    const uint8_t *data = p + start + length;
    if (h.fortran && x.rank > 1)
        data = from_fortran(a, &x, size, (size_t)needed, data);
    if (text)
        return read_text(a, d, loc, data, (size_t)wide, &x, out);
    x.data =
        (uintptr_t)data % dtype_info[dtype].bytes ? arena_copy(a, data, (size_t)x.bytes) : data;
    *out = x;
    return true;
}

bool
npy_read(Arena *a, Diags *d, const char *path, NpyArray *out)
{
    Bytes file;
    if (!file_map(a, d, path, &file) || !npy_parse(a, d, (Loc){ .file = path }, file, out))
        return false;
    out->name = arena_str(a, path);
    return true;
}

/* ---- writing ---------------------------------------------------------------------------- */

/* The next character of UTF-8; an invalid byte represents itself. */
static uint32_t
take_utf8(const char **text)
{
    const uint8_t *s = (const uint8_t *)*text;
    uint32_t more = s[0] >= 0xf0   ? 3
                    : s[0] >= 0xe0 ? 2
                    : s[0] >= 0xc0 ? 1
                                   : 0,
             c = more ? s[0] & (0x3f >> more) : s[0];

    for (uint32_t i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            *text += 1;
            return s[0];
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    *text += more + 1;
    return c;
}

/* Strings as NumPy has them: all as wide as the widest. */
static bool
write_text(Arena *a, Diags *d, const char *path, const NpyArray *x, int64_t *wide,
           const uint8_t **data, int64_t *bytes)
{
    const char *const *s = x->data;
    int64_t n = x->bytes / (int64_t)sizeof *s;

    *wide = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = 0;
        for (const char *at = s[i] ? s[i] : ""; *at; length++)
            take_utf8(&at);
        *wide = length > *wide ? length : *wide;
    }
    if (*wide > 99999999 || mul_overflows(n, 4 * *wide, bytes))
        return diag_error(d, DIAG_LIMIT, (Loc){ .file = path },
                          "%lld strings of %lld characters are more than a .npy file holds",
                          (long long)n, (long long)*wide);
    uint8_t *to = arena_alloc(a, (size_t)*bytes + 1);
    memset(to, 0, (size_t)*bytes);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *p = to + 4 * *wide * i;
        for (const char *at = s[i] ? s[i] : ""; *at; p += 4) {
            uint32_t c = take_utf8(&at);
            for (int k = 0; k < 4; k++)
                p[k] = (uint8_t)(c >> 8 * k);
        }
    }
    *data = to;
    return true;
}

bool
npy_write(Arena *a, Diags *d, const char *path, const NpyArray *x)
{
    enum { PREFIX = 10, ALIGN = 64 };
    const uint8_t *data = x->data;
    const char *descr = dtype_info[x->dtype].npy;
    int64_t bytes = x->bytes, wide;
    if (x->dtype == DT_STR) {
        if (!write_text(a, d, path, x, &wide, &data, &bytes))
            return false;
        descr = arena_printf(a, "<U%lld", (long long)wide);
    }
    if (!*descr)
        return diag_error(d, DIAG_UNSUPPORTED, (Loc){ .file = path },
                          "numpy has no %s elements; write f32 instead", dtype_info[x->dtype].name);
    Text t = { .arena = a };
    text_printf(&t, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t k = 0; k < x->rank; k++)
        text_printf(&t, x->rank == 1 ? "%lld," : k ? ", %lld" : "%lld", (long long)x->dims[k]);
    text_add(&t, "), }");
    /* so that the elements are aligned in a mapped file */
    while ((PREFIX + t.n + 1) % ALIGN)
        text_add(&t, " ");
    text_add(&t, "\n");

    uint8_t prefix[PREFIX] = { 0x93, 'N', 'U', 'M',          'P',
                               'Y',  1,   0,   (uint8_t)t.n, (uint8_t)(t.n >> 8) };
    writer_sweep(path_folder(a, path));
    Writer *w = writer_open(a, d, path);
    if (!w)
        return false;
    writer_put(w, prefix, sizeof prefix);
    writer_put(w, t.s, t.n);
    writer_put(w, data, (size_t)bytes);
    return writer_commit(w, 0666);
}
