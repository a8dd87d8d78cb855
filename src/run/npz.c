/* npz: a zip file of .npy members, as numpy.savez writes it.
 *
 * Found from the end: the end record, the central directory, the member's own header, its bytes.
 * Offsets and lengths are untrusted, and each is checked against the file's size before use. Stored
 * members are used in the mapped file, compressed ones are unpacked. Sizes above 4 GB are in the
 * extra fields of zip64.
 */
#include <string.h>

#include "puff.h"
#include "run/internal.h"

enum { STORED = 0, DEFLATED = 8 }; /* ways to pack a member */

typedef struct {
    const uint8_t *name;
    size_t name_bytes;
    unsigned method, flags;
    uint64_t packed, size, offset;
} ZipMember;
typedef struct {
    Bytes file;
    uint64_t at, end;
} Directory; /* members are within [at, end) */

static uint64_t
number(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static bool
signature(Bytes file, uint64_t at, size_t need, const char *two)
{
    return file.bytes >= need && at <= file.bytes - need && memcmp(file.data + at, "PK", 2) == 0 &&
           memcmp(file.data + at + 2, two, 2) == 0;
}

/* The end record is last, before a comment of at most 65535 bytes. */
static bool
find_directory(Bytes file, Directory *dir)
{
    enum { END = 22, END64 = 56, LOCATOR = 20, COMMENT = 65535 };
    if (file.bytes < END)
        return false;
    uint64_t at = file.bytes - END, stop = at > COMMENT ? at - COMMENT : 0;
    while (!(signature(file, at, END, "\5\6") &&
             number(file.data + at + 20, 2) == file.bytes - at - END))
        if (at-- == stop)
            return false;
    uint64_t bytes = number(file.data + at + 12, 4), first = number(file.data + at + 16, 4);
    if ((bytes == UINT32_MAX || first == UINT32_MAX) && at >= LOCATOR &&
        signature(file, at - LOCATOR, LOCATOR, "\6\7")) {
        uint64_t end64 = number(file.data + at - LOCATOR + 8, 8);
        if (!signature(file, end64, END64, "\6\6"))
            return false;
        bytes = number(file.data + end64 + 40, 8);
        first = number(file.data + end64 + 48, 8);
    }
    if (first > at || bytes > at - first)
        return false;
    *dir = (Directory){ file, first, first + bytes };
    return true;
}

/* Sizes that did not fit the record, in this order. */
static bool
read_zip64(const uint8_t *extra, size_t n, ZipMember *m)
{
    uint64_t *field[] = { &m->size, &m->packed, &m->offset };
    while (n >= 4) {
        size_t id = number(extra, 2), bytes = number(extra + 2, 2);
        extra += 4;
        n -= 4;
        if (bytes > n)
            return false;
        if (id == 1) {
            for (size_t i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX)
                    continue;
                if (bytes < 8)
                    return false;
                *field[i] = number(extra, 8);
                extra += 8;
                bytes -= 8;
            }
            return true;
        }
        extra += bytes;
        n -= bytes;
    }
    return true;
}

/* 1: a member, 0: no more, -1: malformed. */
static int
next_member(Directory *dir, ZipMember *m)
{
    enum { RECORD = 46 };
    if (dir->at == dir->end)
        return 0;
    if (dir->end - dir->at < RECORD || !signature(dir->file, dir->at, RECORD, "\1\2"))
        return -1;
    const uint8_t *p = dir->file.data + dir->at;
    size_t name = number(p + 28, 2), extra = number(p + 30, 2), comment = number(p + 32, 2);
    if (dir->end - dir->at - RECORD < name + extra + comment)
        return -1;
    *m = (ZipMember){
        .name = p + RECORD,
        .name_bytes = name,
        .flags = (unsigned)number(p + 8, 2),
        .method = (unsigned)number(p + 10, 2),
        .packed = number(p + 20, 4),
        .size = number(p + 24, 4),
        .offset = number(p + 42, 4),
    };
    dir->at += RECORD + name + extra + comment;
    return read_zip64(p + RECORD + name, extra, m) ? 1 : -1;
}

static bool
member_bytes(Bytes file, const ZipMember *m, Bytes *out)
{
    enum { LOCAL = 30 };
    if (!signature(file, m->offset, LOCAL, "\3\4"))
        return false;
    const uint8_t *p = file.data + m->offset;
    uint64_t skip = LOCAL + number(p + 26, 2) + number(p + 28, 2), room = file.bytes - m->offset;
    if ((m->method == STORED && m->packed != m->size) || skip > room || m->packed > room - skip)
        return false;
    *out = (Bytes){ p + skip, (size_t)m->packed };
    return true;
}

/* Deflate expands at most 1032 times: a larger promised size is refused. */
static bool
inflated(Arena *a, const ZipMember *m, Bytes *bytes)
{
    enum { MOST = 1032 };
    unsigned long size = (unsigned long)m->size, packed = (unsigned long)m->packed;

    if (m->packed > SIZE_MAX / MOST || m->size > m->packed * MOST)
        return false;
    uint8_t *to = arena_alloc(a, (size_t)m->size);
    if (puff(to, &size, bytes->data, &packed) != 0 || size != m->size)
        return false;
    *bytes = (Bytes){ to, (size_t)m->size };
    return true;
}

/* Is the member NAME or NAME.npy? */
static bool
is_named(const ZipMember *m, const char *name)
{
    size_t n = strlen(name);
    if (m->name_bytes < n || memcmp(m->name, name, n) != 0)
        return false;
    return m->name_bytes == n || (m->name_bytes == n + 4 && memcmp(m->name + n, ".npy", 4) == 0);
}

/* Up to 16 of them, without their ".npy"; "none". */
static const char *
member_names(Arena *a, Directory dir)
{
    Text names = { .arena = a };
    ZipMember m;
    for (int n = 0; next_member(&dir, &m) == 1; n++) {
        if (n == 16) {
            text_add(&names, ", ...");
            break;
        }
        size_t bytes = m.name_bytes;
        if (bytes > 4 && memcmp(m.name + bytes - 4, ".npy", 4) == 0)
            bytes -= 4;
        text_add(&names, n ? ", " : "");
        text_bytes(&names, (const char *)m.name, bytes < 64 ? bytes : 64);
    }
    return names.n ? text_str(&names) : "none";
}

/* The name of the only member; NULL if there are more or none. */
static const char *
only_member(Arena *a, Directory dir)
{
    ZipMember m, second;

    if (next_member(&dir, &m) != 1 || next_member(&dir, &second) != 0)
        return NULL;
    return arena_printf(a, "%.*s", (int)m.name_bytes, (const char *)m.name);
}

static bool
refuse_missing(Arena *a, Diags *d, Loc loc, Directory dir, const char *name)
{
    const char *names = member_names(a, dir);

    return diag_error(d, DIAG_USAGE, loc, "no member \"%s\"; there %s %s", name,
                      strcmp(names, "none") ? "are" : "is", names);
}

bool
npz_read(Arena *a, Diags *d, const char *path, const char *name, NpyArray *out)
{
    Loc loc = { .file = path };
    Bytes file, bytes;
    Directory dir, all;
    ZipMember m;
    if (!file_map(a, d, path, &file))
        return false;
    if (!find_directory(file, &dir))
        return diag_error(
            d, DIAG_USAGE, loc,
            "not an .npz file, or truncated: it has no zip directory; write it with numpy.savez");
    all = dir;
    if (!name && !(name = only_member(a, dir)))
        return diag_error(d, DIAG_USAGE, loc, "which member? write %s:NAME; there are %s", path,
                          member_names(a, all));
    for (int found; (found = next_member(&dir, &m)) != 0;) {
        if (found < 0)
            return diag_error(
                d, DIAG_USAGE, loc,
                "the zip directory is malformed at byte %llu; write the file with numpy.savez",
                (unsigned long long)dir.at);
        if (!is_named(&m, name))
            continue;
        if ((m.method != STORED && m.method != DEFLATED) || m.flags & 1)
            return diag_error(
                d, DIAG_UNSUPPORTED, loc,
                "member \"%s\" is %s; write the file with numpy.savez or savez_compressed", name,
                m.flags & 1 ? "encrypted" : "compressed in another way than by deflate");
        if (!member_bytes(file, &m, &bytes))
            return diag_error(d, DIAG_USAGE, loc,
                              "member \"%s\" (%llu bytes at offset %llu) does not lie inside the "
                              "file of %zu bytes; write it again",
                              name, (unsigned long long)m.size, (unsigned long long)m.offset,
                              file.bytes);
        if (m.method == DEFLATED && !inflated(a, &m, &bytes))
            return diag_error(d, DIAG_USAGE, loc,
                              "member \"%s\": its compressed bytes are damaged; write it again",
                              name);
        loc.node = arena_printf(a, "member \"%s\"", name);
        if (!npy_parse(a, d, loc, bytes, out))
            return false;
        out->name = arena_str(a, name);
        return true;
    }
    return refuse_missing(a, d, loc, all, name);
}
