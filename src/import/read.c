/* read: bytes to a parsed model.
 *
 * protobuf-c recurses into nested messages and trusts nothing but lengths, so the wire format is
 * walked first, without recursion, with the same descriptors: a message nested deeper than the
 * limit or a length that leaves its parent is refused before anything is allocated.
 */
#include "import/internal.h"

#include <inttypes.h>
#include <string.h>

enum { FORGET_BYTES = 16 << 20 };
#define DEFAULT_MODEL_BYTES ((int64_t)64 << 30)

static bool
varint(Bytes b, size_t *at, uint64_t *v)
{
    *v = 0;
    for (uint32_t shift = 0; shift < 64 && *at < b.bytes; shift += 7) {
        uint8_t byte = b.data[(*at)++];
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

typedef struct {
    const ProtobufCMessageDescriptor *descriptor;
    size_t end;
} Level;
typedef VEC(Level) Levels;

/* One field behind *at, before `end`; its message becomes a level of its own. False: it does not
 * end. */
static bool
check_field(Arena *a, Bytes b, size_t *at, Levels *open)
{
    Level level = open->at[open->n - 1];
    Bytes inside = { b.data, level.end };
    uint64_t tag, n = 0;

    if (!varint(inside, at, &tag))
        return false;
    switch (tag & 7) {
    case 0: return varint(inside, at, &n);
    case 1: n = 8; break;
    case 5: n = 4; break;
    case 2:
        if (!varint(inside, at, &n) || n > level.end - *at)
            return false;
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field(level.descriptor, (unsigned)(tag >> 3));
        if (f && f->type == PROTOBUF_C_TYPE_MESSAGE) {
            VEC_PUSH(a, open, ((Level){ f->descriptor, *at + n }));
            return true;
        }
        break;
    default: return false;
    }
    if (n > level.end - *at)
        return false;
    *at += n;
    return true;
}

bool
protobuf_check(Ctx *c, Loc loc, const char *what, const ProtobufCMessageDescriptor *descriptor,
               Bytes b)
{
    Arena *a = arena_child(c->arena);
    Levels open = { 0 };
    size_t at = 0;
    uint32_t deepest = 0, most = depth_levels(c);
    bool ok = true;

    VEC_PUSH(a, &open, ((Level){ descriptor, b.bytes }));
    while (ok && open.n) {
        deepest = open.n > deepest ? open.n : deepest;
        if (at == open.at[open.n - 1].end)
            open.n--;
        else
            ok = check_field(a, b, &at, &open);
    }
    arena_free(a);
    if (!ok)
        return diag_error(&c->diags, DIAG_MODEL, loc,
                          "not a readable %s: the file ends in the middle of a field, or is not "
                          "ONNX; export or copy it again",
                          what);
    return deepest <= most || diag_error(&c->diags, DIAG_LIMIT, loc,
                                         "the %s's messages (graphs, nodes, attributes) are nested "
                                         "%u levels deep, the limit is %u; "
                                         "raise it with --max-depth, which may be %d",
                                         what, deepest, most, DEPTH_MOST);
}

/* Contents are copied out of the mapped file from front to back: what lies behind is given back as
 * it goes, so that the model is not in memory twice. Large ones lie in one block, which the system
 * gives by large pages and only as far as it is written to. */
typedef struct {
    Arena *arena;
    Bytes file;
    size_t copied;
    char *at;
    size_t left;
} Unpacking;
enum { AT_ONCE = 4 << 20, PAGE = 4096, LARGE = 64 << 10, ALIGN = 16 }; /* [bytes] */

/* The system gives large memory page by page as it is written to, which takes longer than the
 * copying; it is written to here first, in pieces, with a look at the clock between them. */
static void *
in_pieces(Arena *a, char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PAGE) {
        p[i] = 0;
        if (i % AT_ONCE == 0)
            arena_look(a);
    }
    return p;
}

/* There is room for all that the file has as it is; what is longer in memory may find none. */
static void *
take(Unpacking *u, size_t bytes)
{
    if (bytes < LARGE || bytes > u->left)
        return arena_alloc(u->arena, bytes);
    if (!u->at)
        u->at = arena_alloc(u->arena, u->left);
    void *p = u->at;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    u->at += bytes;
    u->left -= bytes < u->left ? bytes : u->left;
    return p;
}

static void *
unpack_alloc(void *user, size_t bytes)
{
    Unpacking *u = user;
    if (u->copied > FORGET_BYTES) {
        file_forget(u->file);
        u->copied = 0;
    }
    u->copied += bytes;
    return in_pieces(u->arena, take(u, bytes), bytes > AT_ONCE ? bytes : 0);
}

static void
unpack_free(void *user, void *p)
{
    (void)user;
    (void)p; /* goes with the arena, which also counts it */
}

Onnx__ModelProto *
model_read(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o)
{
    Loc loc = { .file = path };
    int64_t most = o && o->max_model_bytes ? o->max_model_bytes : DEFAULT_MODEL_BYTES;

    if (file.bytes == 0) {
        diag_error(&c->diags, DIAG_MODEL, loc, "the file is empty");
        return NULL;
    }
    if ((uint64_t)file.bytes > (uint64_t)most) {
        diag_error(&c->diags, DIAG_LIMIT, loc,
                   "the model has %zu bytes, the limit is %" PRId64 "; raise it with --max-model",
                   file.bytes, most);
        return NULL;
    }
    if (!protobuf_check(c, loc, "ONNX model", &onnx__model_proto__descriptor, file))
        return NULL;
    Unpacking u = { .arena = arena, .file = file, .left = file.bytes };
    ProtobufCAllocator copies = { unpack_alloc, unpack_free, &u };
    Onnx__ModelProto *m = onnx__model_proto__unpack(&copies, file.bytes, file.data);
    if (!m) {
        diag_error(&c->diags, DIAG_MODEL, loc,
                   "not a readable ONNX model: a field has another type than ONNX gives it; export "
                   "or copy it again");
        return NULL;
    }
    file_forget(file);
    if (!m->graph) {
        diag_error(&c->diags, DIAG_MODEL, loc, "the model has no graph");
        return NULL;
    }
    return m;
}

int64_t
model_opset(const Onnx__ModelProto *m)
{
    int64_t v = 1;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        if (!domain || !*domain || !__builtin_strcmp(domain, "ai.onnx"))
            v = m->opset_import[i]->version;
    }
    return v;
}

Loc
node_loc(Arena *a, const char *path, const Onnx__NodeProto *n, uint32_t index)
{
    const char *name = n->name && *n->name ? n->name : n->n_output ? n->output[0] : "";
    return (Loc){ .file = path,
                  .node = arena_printf(a, "node %u %s \"%s\"", index, n->op_type ? n->op_type : "?",
                                       name) };
}

bool
import_is_onnx(Bytes file)
{
    static const char *const words[] = { "graph ", "data ", "nest " };

    /* A ModelProto begins with a field tag; Tenon's text with one of these words, white space
     * or a comment. */
    for (size_t i = 0; i < file.bytes && i < 256; i++) {
        uint8_t ch = file.data[i];
        if (ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r')
            continue;
        if (ch == ';')
            return false;
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (file.bytes - i >= strlen(words[k]) &&
                !memcmp(file.data + i, words[k], strlen(words[k])))
                return false;
        return true;
    }
    return true;
}
