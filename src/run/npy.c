/* npy: NumPy's array files.
 *
 * "\x93NUMPY", version, length of the header, and the header: a Python dict such as
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * then the elements. The header is untrusted: the scanner below never leaves it, and the size it
 * promises is held against the bytes that are there before anything is used.
 *
 * The elements are used where they lie in the mapped file, and copied only if they are not aligned
 * as their type wants (members of an .npz) or lie in Fortran order.
 */
#include <string.h>

#include "run/internal.h"

typedef struct {
    const char *at, *end;
    char descr[32];
    bool has_descr, has_order, has_shape, fortran;
    uint32_t rank;
    int64_t dims[TN_MAX_RANK];
    const char *wrong;               /* what was expected, at the first mistake */
} Header;

/* ---- the header's dict ------------------------------------------------------------------ */

static void
skip_space(Header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\t' || *h->at == '\n' || *h->at == '\r'))
        h->at++;
}

static bool
take(Header *h, char c)
{
    skip_space(h);
    if (h->at == h->end || *h->at != c)
        return false;
    h->at++;
    return true;
}

static bool
wrong(Header *h, const char *expected)
{
    if (!h->wrong)
        h->wrong = expected;
    return false;
}

static bool
take_word(Header *h, const char *word)
{
    size_t n = strlen(word);
    skip_space(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
        return false;
    h->at += n;
    return true;
}

/* 'text' or "text", without escapes, shorter than cap. */
static bool
take_string(Header *h, char *text, size_t cap)
{
    char quote = take(h, '\'') ? '\'' : take(h, '"') ? '"' : 0;
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
    if (h->at < h->end && *h->at == 'L')             /* written by Python 2 */
        h->at++;
    return true;
}

static bool
take_shape(Header *h)
{
    if (!take(h, '('))
        return wrong(h, "a tuple as shape");
    while (!take(h, ')')) {
        int64_t size;
        if (!take_size(h, &size))
            return false;
        if (h->rank == TN_MAX_RANK)
            return wrong(h, "at most 12 dimensions");
        h->dims[h->rank++] = size;
        if (!take(h, ',')) {
            if (!take(h, ')'))
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
    if (!take_string(h, key, sizeof key) || !take(h, ':'))
        return wrong(h, "a key and `:`");
    if (strcmp(key, "descr") == 0) {
        skip_space(h);
        if (h->at < h->end && *h->at == '[')
            return wrong(h, "a plain element type, not a record,");
        return h->has_descr = take_string(h, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0) {
        h->fortran = take_word(h, "True");
        return (h->has_order = h->fortran || take_word(h, "False")) || wrong(h, "True or False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape)
        return take_shape(h);
    return wrong(h, "the keys descr, fortran_order and shape, once each");
}

static bool
take_header(Header *h)
{
    if (!take(h, '{'))
        return wrong(h, "a dict");
    while (!take(h, '}')) {
        if (!take_entry(h))
            return false;
        if (!take(h, ',')) {
            if (!take(h, '}'))
                return wrong(h, "`,` or `}`");
            break;
        }
    }
    return (h->has_descr && h->has_order && h->has_shape) || wrong(h, "the keys descr, fortran_order and shape, once each");
}

/* ---- reading ---------------------------------------------------------------------------- */

static bool
refuse_dtype(Diags *d, Loc loc, const char *descr)
{
    const char *little = arena_printf(d->arena, "<%s", *descr ? descr + 1 : "");
    if (*descr == '>' && dtype_from_npy(little) != DT_NONE)
        return diag_error(d, DIAG_USAGE, loc, "the elements are '%s', big-endian; save x.astype('%s') instead", descr, little);
    const char *kind = strchr(descr, 'O') ? "Python objects" : strchr(descr, 'U') || strchr(descr, 'S') ? "text"
        : strchr(descr, 'c') ? "complex numbers" : strchr(descr, 'M') || strchr(descr, 'm') ? "dates" : NULL;
    return diag_error(d, DIAG_UNSUPPORTED, loc, "the elements are '%s'%s%s%s; use float, integer or bool arrays of 1 to 8 bytes",
                      descr, kind ? " (" : "", kind ? kind : "", kind ? ")" : "");
}

/* Elements from Fortran order (first index fastest) to row-major. */
static void *
from_fortran(Arena *a, const NpyArray *x, const uint8_t *from)
{
    size_t size = dtype_info[x->dtype].bytes;
    uint8_t *to = arena_alloc(a, (size_t)x->bytes), *end = to + x->bytes;
    int64_t at[TN_MAX_RANK] = {0}, stride[TN_MAX_RANK], offset = 0, step = 1;
    for (uint32_t k = 0; k < x->rank; k++) {
        stride[k] = step;
        step *= x->dims[k];
    }
    for (uint8_t *p = to; p < end; p += size) {
        memcpy(p, from + (size_t)offset * size, size);
        for (uint32_t k = x->rank; k-- > 0; ) {
            offset += stride[k];
            if (++at[k] < x->dims[k])
                break;
            offset -= stride[k] * at[k];
            at[k] = 0;
        }
    }
    return to;
}

bool
npy_parse(Arena *a, Diags *d, Loc loc, Bytes file, NpyArray *out)
{
    if (file.bytes < 10 || memcmp(file.data, "\x93NUMPY", 6) != 0)
        return diag_error(d, DIAG_USAGE, loc, "not a .npy array: it does not begin with \\x93NUMPY; write it with numpy.save");
    const uint8_t *p = file.data;
    uint8_t version = p[6];
    size_t start = version == 1 ? 10 : 12;
    if (version < 1 || version > 3 || file.bytes < start)
        return diag_error(d, DIAG_USAGE, loc, "it has .npy version %u, versions 1 to 3 are read; write it with numpy.save", version);
    size_t length = (size_t)p[8] | (size_t)p[9] << 8;
    if (version > 1)
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > file.bytes - start)
        return diag_error(d, DIAG_USAGE, loc, "truncated: the header has %zu bytes, %zu are left in the file", length, file.bytes - start);

    Header h = { .at = (const char *)p + start, .end = (const char *)p + start + length };
    if (!take_header(&h))
        return diag_error(d, DIAG_USAGE, loc, "the .npy header is malformed at byte %zu: %s expected; write it with numpy.save",
                          (size_t)(h.at - (const char *)p), h.wrong);
    DType dtype = dtype_from_npy(h.descr);
    if (dtype == DT_NONE)
        return refuse_dtype(d, loc, h.descr);

    NpyArray x = { .dtype = dtype, .rank = h.rank };
    memcpy(x.dims, h.dims, sizeof x.dims);
    size_t there = file.bytes - start - length;
    if (!tensor_bytes(dtype, x.rank, x.dims, &x.bytes) || (uint64_t)x.bytes > there)
        return diag_error(d, DIAG_USAGE, loc, "truncated: its shape %s needs %lld bytes, the file has %zu after the header",
                          dims_text(d->arena, dtype, x.rank, x.dims), (long long)x.bytes, there);
    const uint8_t *data = p + start + length;
    if (h.fortran && x.rank > 1)
        x.data = from_fortran(a, &x, data);
    else
        x.data = (uintptr_t)data % dtype_info[dtype].bytes ? arena_copy(a, data, (size_t)x.bytes) : data;
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

bool
npy_write(Arena *a, Diags *d, const char *path, const NpyArray *x)
{
    enum { PREFIX = 10, ALIGN = 64 };
    if (!*dtype_info[x->dtype].npy)
        return diag_error(d, DIAG_UNSUPPORTED, (Loc){ .file = path }, "numpy has no %s elements; write f32 instead", dtype_info[x->dtype].name);
    Text t = { .arena = a };
    text_printf(&t, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype_info[x->dtype].npy);
    for (uint32_t k = 0; k < x->rank; k++)
        text_printf(&t, x->rank == 1 ? "%lld," : k ? ", %lld" : "%lld", (long long)x->dims[k]);
    text_add(&t, "), }");
    while ((PREFIX + t.n + 1) % ALIGN)               /* so that the elements lie aligned in a mapped file */
        text_add(&t, " ");
    text_add(&t, "\n");

    uint8_t prefix[PREFIX] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)t.n, (uint8_t)(t.n >> 8) };
    writer_sweep(path_folder(a, path));
    Writer *w = writer_open(a, d, path);
    if (!w)
        return false;
    writer_put(w, prefix, sizeof prefix);
    writer_put(w, t.s, t.n);
    writer_put(w, x->data, (size_t)x->bytes);
    return writer_commit(w, 0666);
}
