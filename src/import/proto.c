/* proto: parses the wire format of protobuf, by the tables of onnx.def.
 *
 * A message is a sequence of fields: a varint with the field's number and the form of its value (a
 * varint, 4 or 8 bytes, or a length and that many bytes), then the value. Messages are parsed level
 * by level, without recursion: all messages of one depth, then those in them. Each is read twice,
 * first to validate it and to count elements of arrays, then to fill it. So arrays are allocated
 * with their final size, and nothing is built from a malformed message.
 *
 * If a singular message occurs twice, both are one message, as protobuf specifies: its bytes are
 * two ranges of the file.
 */
#include "import/proto.h"

#include <stddef.h>
#include <string.h>

/* ---- tables ---------------------------------------------------------------------------------- */

/* clang-format off */
#define ROW(T, number, kind, rule, name, mark, message) \
    { number, PROTO_##kind, PROTO_##rule, offsetof(Onnx##T, name), mark, message },
#define MARK(T, name)                     offsetof(Onnx##T, name)
#define MESSAGE(T)                        static const ProtoField fields_##T[] = {
#define ONE(T, number, kind, name)        ROW(T, number, kind, ONE, name, MARK(T, has_##name), NULL)
#define SUB(T, number, type, name)        ROW(T, number, MESSAGE, ONE, name, 0, &proto_##type)
#define MANY(T, number, kind, name)       ROW(T, number, kind, MANY, name, MARK(T, n_##name), NULL)
#define SUBS(T, number, type, name) \
    ROW(T, number, MESSAGE, MANY, name, MARK(T, n_##name), &proto_##type)
#define EITHER(T, number, kind, name)     ROW(T, number, kind, EITHER, name, MARK(T, value_case), NULL)
#define SUB_EITHER(T, number, type, name) \
    ROW(T, number, MESSAGE, EITHER, name, MARK(T, value_case), &proto_##type)
#define END(T)                            };
#include "import/onnx.def"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MESSAGE(T)                                                                                 \
    _Static_assert(COUNT(fields_##T) <= PROTO_MOST_FIELDS, "PROTO_MOST_FIELDS");                   \
    const ProtoMessage proto_##T = { #T "Proto", sizeof(Onnx##T), COUNT(fields_##T), fields_##T };
#include "import/onnx.def"
/* clang-format on */

static size_t
proto_bytes(ProtoKind kind)
{
    static const size_t bytes[] = {
        [PROTO_TEXT] = sizeof(char *), [PROTO_BYTES] = sizeof(OnnxBytes),
        [PROTO_I32] = sizeof(int32_t), [PROTO_I64] = sizeof(int64_t),
        [PROTO_U64] = sizeof(int64_t), [PROTO_F32] = sizeof(float),
        [PROTO_F64] = sizeof(double),  [PROTO_MESSAGE] = sizeof(void *),
    };

    return bytes[kind];
}

/* ---- the wire -------------------------------------------------------------------------------- */

typedef enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_LENGTH = 2, WIRE_4 = 5 } Wire;
enum { NUMBER_SHIFT = 3, WIRE_MASK = 7 };

static Wire
wire_of(ProtoKind kind)
{
    return kind == PROTO_F32                                                    ? WIRE_4
           : kind == PROTO_F64                                                  ? WIRE_8
           : kind == PROTO_TEXT || kind == PROTO_BYTES || kind == PROTO_MESSAGE ? WIRE_LENGTH
                                                                                : WIRE_VARINT;
}

typedef struct {
    uint32_t first, last; /* its ranges, as a list of numbers */
    const ProtoMessage *type;
    void *to; /* NULL: nested too deep, and only counted */
} MessageWork;
typedef struct {
    size_t at, end;
    uint32_t next; /* 0: none */
} ByteRange;
typedef struct {
    VEC(MessageWork) work;
    VEC(ByteRange) range;
} MessageLevel;

typedef struct {
    Ctx *c;
    Arena *a, *scratch;
    const ProtoSource *from;
    MessageLevel level[2]; /* the messages of the current depth, and those in them, alternating */
    uint32_t depth;
    size_t copied; /* bytes since pages of the file were released */
    char *room;    /* for large contents; NULL: not allocated yet */
    size_t left;   /* bytes left in it */
} ProtoReader;

typedef struct {
    uint32_t field; /* index in the message's table */
    Wire wire;
    uint64_t number; /* of a varint */
    size_t at, bytes;
} WireField;

static bool
truncated(ProtoReader *r)
{
    return diag_error(&r->c->diags, DIAG_MODEL, r->from->loc,
                      "not a readable %s: the file ends in the middle of a field, or is not ONNX; "
                      "export or copy it again",
                      r->from->what);
}

static bool
mistyped(ProtoReader *r, const ProtoMessage *type, const ProtoField *f)
{
    return diag_error(&r->c->diags, DIAG_MODEL, r->from->loc,
                      "not a readable %s: a field has another type than ONNX gives it (field %u of "
                      "a %s); export or copy it again",
                      r->from->what, f->number, type->name);
}

static bool
varint(const uint8_t *data, size_t *at, size_t end, uint64_t *v)
{
    *v = 0;
    for (uint32_t shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = data[(*at)++];
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* The next known field at *at; field is nfield at the end. */
static bool
next_item(ProtoReader *r, const ProtoMessage *type, size_t *at, size_t end, WireField *item)
{
    const uint8_t *data = r->from->bytes.data;

    for (item->field = type->nfield; *at < end;) {
        uint64_t tag, bytes = 0;
        if (!varint(data, at, end, &tag) || tag >> NUMBER_SHIFT == 0)
            return truncated(r);
        item->wire = (Wire)(tag & WIRE_MASK);
        switch (item->wire) {
        case WIRE_VARINT:
            if (!varint(data, at, end, &item->number))
                return truncated(r);
            break;
        case WIRE_8: bytes = 8; break;
        case WIRE_4: bytes = 4; break;
        case WIRE_LENGTH:
            if (!varint(data, at, end, &bytes))
                return truncated(r);
            break;
        default: return truncated(r);
        }
        if (bytes > end - *at)
            return truncated(r);
        item->at = *at;
        item->bytes = (size_t)bytes;
        *at += item->bytes;
        for (uint32_t i = 0; i < type->nfield; i++)
            if (type->field[i].number == tag >> NUMBER_SHIFT) {
                item->field = i;
                return true;
            }
    }
    return true;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* The number of elements of an item: one, or those of a packed list. */
static bool
count_of(ProtoReader *r, const ProtoMessage *type, const WireField *item, size_t *count)
{
    const ProtoField *f = &type->field[item->field];
    Wire wire = wire_of(f->kind);
    size_t at = item->at, end = at + item->bytes, size = wire == WIRE_8 ? 8 : 4;
    uint64_t v;

    *count = 1;
    if (item->wire == wire)
        return true;
    if (item->wire != WIRE_LENGTH || f->rule != PROTO_MANY)
        return mistyped(r, type, f);
    *count = wire == WIRE_VARINT ? 0 : item->bytes / size;
    if (wire != WIRE_VARINT)
        return item->bytes % size == 0 || mistyped(r, type, f);
    for (; at < end; ++*count)
        if (!varint(r->from->bytes.data, &at, end, &v))
            return truncated(r);
    return true;
}

/* ---- filling --------------------------------------------------------------------------------- */

enum { AT_ONCE = 4 << 20, PAGE = 4096, LARGE = 64 << 10, ALIGN = 16, FORGET = 16 << 20 };

/* Drops the pages of a mapped file, which would otherwise be in memory beside their copy. */
static void
give_back(ProtoReader *r)
{
    if (r->from->mapped)
        file_forget(r->from->bytes);
    r->copied = 0;
}

/* Memory for contents. Large ones share one block of the file's size, which the system backs with
 * huge pages, as far as it is written. Page faults take longer than copying, so pages are touched
 * first, with a check of the time limit in between. */
static void *
take(ProtoReader *r, size_t bytes)
{
    size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;

    if (r->copied > FORGET)
        give_back(r);
    r->copied += bytes;
    if (bytes < LARGE || whole > r->left)
        return arena_alloc(r->a, bytes);
    if (!r->room)
        r->room = arena_alloc(r->a, r->left);
    char *p = r->room;
    r->room += whole;
    r->left -= whole;
    for (size_t i = 0; bytes > AT_ONCE && i < bytes; i += PAGE) {
        p[i] = 0;
        if (i % AT_ONCE == 0)
            arena_look(r->a);
    }
    return p;
}

static void
set_pointer(void *to, const void *p)
{
    memcpy(to, &p, sizeof p);
}

/* Converts one value to its kind in memory. at: in an item, or in a packed list; it advances. */
static void
store(ProtoReader *r, ProtoKind kind, const WireField *item, size_t *at, void *to)
{
    const uint8_t *from = r->from->bytes.data + *at;
    uint64_t v = item->number;

    switch (kind) {
    case PROTO_TEXT: {
        char *text = take(r, item->bytes + 1);
        memcpy(text, from, item->bytes);
        text[item->bytes] = '\0';
        set_pointer(to, text);
        break;
    }
    case PROTO_BYTES: {
        OnnxBytes *b = to;
        b->len = item->bytes;
        b->data = take(r, item->bytes);
        memcpy(b->data, from, item->bytes);
        break;
    }
    case PROTO_F32:
    case PROTO_F64:
        memcpy(to, from, proto_bytes(kind));
        *at += proto_bytes(kind);
        break;
    default:
        if (item->wire == WIRE_LENGTH)
            varint(r->from->bytes.data, at, item->at + item->bytes, &v);
        if (kind == PROTO_I32)
            *(int32_t *)to = (int32_t)v;
        else
            *(uint64_t *)to = v;
    }
}

static void
empty_texts(const ProtoMessage *type, void *to)
{
    for (uint32_t i = 0; i < type->nfield; i++)
        if (type->field[i].kind == PROTO_TEXT && type->field[i].rule == PROTO_ONE)
            set_pointer((char *)to + type->field[i].at, "");
}

void *
proto_new(Arena *a, const ProtoMessage *type)
{
    void *to = arena_alloc(a, type->bytes);

    empty_texts(type, to);
    return to;
}

/* Queues the message in an item for the next level. known: its number if it is queued already,
 * counted from 1; 0: not yet; NULL: the field is repeated. to: the pointer to it; NULL: nested too
 * deep. */
static void
queue(ProtoReader *r, const ProtoMessage *type, const WireField *item, uint32_t *known, void *to)
{
    MessageLevel *l = &r->level[r->depth % 2];
    ByteRange range = { item->at, item->at + item->bytes, 0 };

    if (!l->range.n)
        VEC_PUSH(r->scratch, &l->range, ((ByteRange){ 0 })); /* number 0 is none */
    if (known && *known) {
        MessageWork *w = &l->work.at[*known - 1];
        l->range.at[w->last].next = l->range.n;
        w->last = l->range.n;
    } else {
        void *inside = to ? proto_new(r->a, type) : NULL;
        if (to)
            set_pointer(to, inside);
        VEC_PUSH(r->scratch, &l->work, ((MessageWork){ l->range.n, l->range.n, type, inside }));
        if (known)
            *known = l->work.n;
    }
    VEC_PUSH(r->scratch, &l->range, range);
}

/* known: the queued number of the singular message of each field. */
static void
fill(ProtoReader *r, const MessageWork *w, const WireField *item, size_t count, uint32_t *known)
{
    const ProtoField *f = &w->type->field[item->field];
    char *to = w->to;
    bool many = f->rule == PROTO_MANY;
    size_t at = item->at, *n = many && to ? (size_t *)(to + f->mark) : NULL, size;
    void *one = to ? to + f->at : NULL;

    if (n) {
        memcpy(&one, to + f->at, sizeof one);
        size = proto_bytes(f->kind);
        one = (char *)one + *n * size;
        *n += count;
    }
    if (to && f->rule == PROTO_EITHER)
        *(uint32_t *)(to + f->mark) = f->number;
    if (f->message)
        queue(r, f->message, item, many ? NULL : known, one);
    else if (to) {
        if (f->rule == PROTO_ONE)
            *(bool *)(to + f->mark) = true;
        for (size_t i = 0; i < count; i++)
            store(r, f->kind, item, &at, (char *)one + i * proto_bytes(f->kind));
    }
}

static void
make_arrays(ProtoReader *r, const MessageWork *w, const size_t *count)
{
    for (uint32_t i = 0; i < w->type->nfield && w->to; i++) {
        const ProtoField *f = &w->type->field[i];
        if (f->rule == PROTO_MANY && count[i])
            set_pointer((char *)w->to + f->at, take(r, count[i] * proto_bytes(f->kind)));
    }
}

static bool
read_message(ProtoReader *r, const MessageWork *w, const ByteRange *ranges)
{
    size_t count[PROTO_MOST_FIELDS] = { 0 }, n;
    uint32_t known[PROTO_MOST_FIELDS] = { 0 };
    WireField item = { 0 };

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = w->first; k; k = ranges[k].next)
            for (size_t at = ranges[k].at; at < ranges[k].end;) {
                if (!next_item(r, w->type, &at, ranges[k].end, &item))
                    return false;
                if (item.field == w->type->nfield)
                    break;
                if (!count_of(r, w->type, &item, &n))
                    return false;
                count[item.field] += n;
                if (pass == 1)
                    fill(r, w, &item, n, &known[item.field]);
            }
        if (pass == 0)
            make_arrays(r, w, count);
    }
    return true;
}

static bool
read_levels(ProtoReader *r, const ProtoMessage *type, void *to)
{
    uint32_t most = depth_levels(r->c);

    queue(r, type, &(WireField){ .bytes = r->from->bytes.bytes }, NULL, NULL);
    r->level[0].work.at[0].to = to;
    empty_texts(type, to);
    while (r->level[r->depth % 2].work.n) {
        MessageLevel *l = &r->level[r->depth++ % 2];
        for (uint32_t i = 0; i < l->work.n; i++) {
            if (r->depth > most)
                l->work.at[i].to = NULL;
            if (!read_message(r, &l->work.at[i], l->range.at))
                return false;
        }
        l->work.n = l->range.n = 0;
    }
    return r->depth <= most ||
           diag_error(&r->c->diags, DIAG_LIMIT, r->from->loc,
                      "the %s's messages (graphs, nodes, attributes) are nested %u levels deep, "
                      "the limit is %u; raise it with --max-depth, which may be %d",
                      r->from->what, r->depth, most, DEPTH_MOST);
}

bool
proto_read(Ctx *c, Arena *a, const ProtoSource *from, const ProtoMessage *type, void *to)
{
    ProtoReader r = {
        .c = c, .a = a, .scratch = arena_child(c->arena), .from = from, .left = from->bytes.bytes
    };
    bool ok = read_levels(&r, type, to);

    arena_free(r.scratch);
    give_back(&r);
    return ok;
}
