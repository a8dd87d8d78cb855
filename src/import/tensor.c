/* tensor: contents of TensorProtos, in all forms of ONNX: raw bytes (used in place), typed lists
 * (converted), or a file beside the model (mapped, and never outside of the model's folder). Sparse
 * ones become dense. */
#include "import/converters.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    Model *m;
    Ctx *c;
    Arena *a;
    const char *path, *what;
    Loc loc;
    const OnnxTensor *t;
    DType dtype;
    int64_t count;
    int64_t bytes; /* in the file */
} TensorSource;

const char *
onnx_type_name(Arena *a, int type)
{
    static const char *const name[] = {
        "undefined",      "float",      "uint8",          "int8",       "uint16",    "int16",
        "int32",          "int64",      "string",         "bool",       "float16",   "double",
        "uint32",         "uint64",     "complex64",      "complex128", "bfloat16",  "float8e4m3fn",
        "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",      "float4e2m1",
        "float8e8m0",     "uint2",      "int2",           "float6e2m3", "float6e3m2"
    };

    return type >= 0 && type < (int)(sizeof name / sizeof *name) ? name[type]
                                                                 : arena_printf(a, "%d", type);
}

/* Reports about the tensor, "NAME: …"; false. */
static bool __attribute__((format(printf, 3, 4)))
wrong(const TensorSource *s, DiagClass class, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *text = arena_vprintf(s->a, format, args);
    va_end(args);
    return diag_error(&s->c->diags, class, s->loc, "%s: %s", s->what, text);
}

static bool
bad(TensorSource *s, const char *text, int64_t got, int64_t want)
{
    return wrong(s, DIAG_MODEL,
                 "it has %" PRId64 " %s, its type needs %" PRId64 "; export the model again", got,
                 text, want);
}

static bool
external_path(TensorSource *s, const char *location, const char **out)
{
    Ctx *c = s->c;
    const char *folder = path_folder(s->a, s->path);
    char root[PATH_MAX], real[PATH_MAX];

    if (!location || !*location)
        return wrong(s, DIAG_MODEL, "external data without a location");
    if (location[0] == '/')
        return wrong(s, DIAG_MODEL,
                     "external data at the absolute path \"%s\"; it must lie in the model's folder",
                     location);
    const char *joined = path_join(s->a, folder, location);
    if (!realpath(folder, root) || !realpath(joined, real))
        return wrong(s, DIAG_MODEL,
                     "the external data file \"%s\" is not there; put it beside the model",
                     location);
    size_t n = strlen(root);
    if (strncmp(root, real, n) || (real[n] != '/' && strcmp(root, "/")))
        return wrong(
            s, DIAG_MODEL,
            "the external data file \"%s\" leads out of the model's folder; it must lie in it",
            location);
    struct stat st;
    if (stat(real, &st) || !S_ISREG(st.st_mode))
        return wrong(s, DIAG_MODEL,
                     "the external data \"%s\" is not a file; put the file beside the model",
                     location);
    *out = sym(c, real);
    return true;
}

/* A file may hold all weights of a model: it is mapped once. */
static bool
map_external(TensorSource *s, Sym path, Bytes *out)
{
    uint64_t found;

    if (map_get(&s->m->mapped, MAP_PTR(path), &found)) {
        *out = *(Bytes *)(uintptr_t)found;
        return true;
    }
    if (!file_map(s->a, &s->c->diags, path, out))
        return false;
    map_put(&s->m->mapped, MAP_PTR(path), MAP_PTR(arena_copy(s->a, out, sizeof *out)));
    return true;
}

static bool
decimal(TensorSource *s, const char *key, const char *text, uint64_t *v)
{
    char *end;

    errno = 0;
    *v = strtoull(text, &end, 10);
    if (!errno && *text >= '0' && *text <= '9' && !*end)
        return true;
    return wrong(s, DIAG_MODEL, "the %s of its external data is \"%s\", not a number of bytes", key,
                 text);
}

static bool
external(TensorSource *s, const void **data)
{
    const char *location = NULL;
    Sym path;
    uint64_t offset = 0, length = (uint64_t)s->bytes;
    Bytes file;

    for (size_t i = 0; i < s->t->n_external_data; i++) {
        const OnnxStringStringEntry *e = s->t->external_data[i];
        if (!e->key || !e->value)
            continue;
        if (!strcmp(e->key, "location"))
            location = e->value;
        else if ((!strcmp(e->key, "offset") && !decimal(s, e->key, e->value, &offset)) ||
                 (!strcmp(e->key, "length") && !decimal(s, e->key, e->value, &length)))
            return false;
    }
    if (!external_path(s, location, &path) || !map_external(s, path, &file))
        return false;
    if (length != (uint64_t)s->bytes)
        return wrong(s, DIAG_MODEL,
                     "its external data has %" PRIu64 " bytes, its type needs %" PRId64
                     "; export the model again",
                     length, s->bytes);
    if (offset > file.bytes || length > file.bytes - offset)
        return wrong(s, DIAG_MODEL,
                     "its external data is %" PRIu64 " bytes at offset %" PRIu64 " (to %" PRIu64
                     ") of \"%s\", "
                     "which has %zu: the file is truncated, or another; copy or export it again",
                     length, offset, offset + length, location, file.bytes);
    *data = file.data + offset;
    if ((uintptr_t)*data % dtype_info[s->dtype].bytes)
        *data = arena_copy(s->a, *data, length);
    return true;
}

/* Elements of fewer than 8 bits are packed in files, the first in the low bits. */
static bool
is_packed(DType t)
{
    return dtype_info[t].bits < 8;
}

/* Unpacks each into a byte. */
static const void *
unpacked(TensorSource *s, const uint8_t *from)
{
    int bits = dtype_info[s->dtype].bits;
    uint8_t *out = arena_alloc(s->a, (size_t)s->count + 1);

    for (int64_t i = 0; i < s->count; i++) {
        int64_t first = i * bits, byte = first / 8;
        int field = (from[byte] | (byte + 1 < s->bytes ? from[byte + 1] << 8 : 0)) >> (first % 8) &
                    ((1 << bits) - 1);
        out[i] = dtype_is_int(s->dtype) ? (uint8_t)wrap_to_dtype(s->dtype, field) : (uint8_t)field;
    }
    return out;
}

/* Typed lists: float_data, int32_data (everything up to 32 bits, and 16-bit floats as bits),
 * int64_data, … */
static bool
typed(TensorSource *s, const void **data)
{
    const OnnxTensor *t = s->t;
    size_t have = s->dtype == DT_F32                         ? t->n_float_data
                  : s->dtype == DT_F64                       ? t->n_double_data
                  : s->dtype == DT_I64                       ? t->n_int64_data
                  : s->dtype == DT_U64 || s->dtype == DT_U32 ? t->n_uint64_data
                                                             : t->n_int32_data;

    /* 6 bits: an entry each */
    bool in_bytes = is_packed(s->dtype) && dtype_info[s->dtype].bits != 6;
    int64_t want = in_bytes ? s->bytes : s->count;
    if (have != (uint64_t)want)
        return bad(s, in_bytes ? "packed bytes" : "elements", (int64_t)have, want);
    switch (s->dtype) {
    case DT_F32: *data = t->float_data; return true;
    case DT_F64: *data = t->double_data; return true;
    case DT_I64: *data = t->int64_data; return true;
    case DT_U64: *data = t->uint64_data; return true;
    case DT_I32: *data = t->int32_data; return true;
    default: break;
    }
    uint32_t size = dtype_info[s->dtype].bytes;
    uint8_t *out = arena_alloc(s->a, (size_t)want * size + 1);
    for (int64_t i = 0; i < want; i++) {
        uint64_t v = s->dtype == DT_U32 ? t->uint64_data[i] : (uint64_t)(uint32_t)t->int32_data[i];
        if (s->dtype == DT_BOOL)
            v = v != 0;
        memcpy(out + i * size, &v, size); /* little endian: the low bytes */
    }
    *data = out;
    return true;
}

/* Strings end with a zero byte: none can be inside. */
static bool
strings(TensorSource *s, const void **data)
{
    const OnnxTensor *t = s->t;

    if (t->n_string_data != (uint64_t)s->count || t->has_raw_data)
        return bad(s, "strings", (int64_t)t->n_string_data, s->count);
    const char **out = NEW_ARRAY(s->a, const char *, s->count + 1);
    for (int64_t i = 0; i < s->count; i++) {
        OnnxBytes one = t->string_data[i];
        if (one.len && memchr(one.data, 0, one.len))
            return wrong(s, DIAG_UNSUPPORTED,
                         "string %" PRId64 " has a zero byte inside, where Tenon's end", i);
        out[i] = sym_n(s->c, one.len ? (const char *)one.data : "", one.len);
    }
    *data = out;
    return true;
}

/* Dimensions, and the number of elements. */
static bool
read_dims(Ctx *c, const char *what, Loc loc, size_t n, const int64_t *size, int64_t *count,
          const Expr **dim)
{
    *count = 1;
    if (n > TN_MAX_RANK)
        return diag_error(&c->diags, DIAG_LIMIT, loc, "%s: rank %zu, the limit is %d", what, n,
                          TN_MAX_RANK);
    for (size_t d = 0; d < n; d++) {
        if (size[d] < 0)
            return diag_error(&c->diags, DIAG_MODEL, loc, "%s: dimension %zu is %" PRId64, what, d,
                              size[d]);
        if (mul_overflows(*count, size[d], count) || *count > INT64_MAX / 16)
            return diag_error(&c->diags, DIAG_MODEL, loc,
                              "%s: its dimensions multiply to more than 2^59 elements, from "
                              "dimension %zu on, which is %" PRId64,
                              what, d, size[d]);
        dim[d] = expr_int(c, size[d]);
    }
    return true;
}

bool
tensor_read(Model *m, const OnnxTensor *t, const char *what, Loc loc, const Type **type,
            const void **data)
{
    Ctx *c = m->c;
    Arena *a = m->arena;
    TensorSource s = { m,    c,   a, m->path,
                       what, loc, t, dtype_from_onnx(t->has_data_type ? t->data_type : 0),
                       1,    0 };
    const Expr *dim[TN_MAX_RANK];

    if (s.dtype == DT_NONE)
        return diag_error(&c->diags,
                          t->data_type <= 0 || t->data_type > 28 ? DIAG_MODEL : DIAG_UNSUPPORTED,
                          loc, "%s has elements of ONNX type %s, which Tenon does not have", what,
                          onnx_type_name(a, t->data_type));
    if (!read_dims(c, what, loc, t->n_dims, t->dims, &s.count, dim))
        return false;
    s.bytes = is_packed(s.dtype) ? (s.count * dtype_info[s.dtype].bits + 7) / 8
                                 : s.count * dtype_info[s.dtype].bytes;
    *type = type_new(c, s.dtype, (uint32_t)t->n_dims, dim);
    if (s.dtype == DT_STR)
        return strings(&s, data);
    if (t->has_data_location && t->data_location == ONNX_EXTERNAL) {
        if (!external(&s, data))
            return false;
    } else if (t->has_raw_data) {
        if (t->raw_data.len != (uint64_t)s.bytes)
            return bad(&s, "bytes of data", (int64_t)t->raw_data.len, s.bytes);
        *data = t->raw_data.data;
    } else if (!typed(&s, data)) {
        return false;
    }
    if (!*data) /* no elements, no memory */
        *data = arena_alloc(a, 16);
    if (is_packed(s.dtype) && s.count &&
        !(dtype_info[s.dtype].bits == 6 && *data && !t->has_raw_data && t->n_int32_data))
        *data = unpacked(&s, *data);
    return true;
}

/* ---- sparse ones ----------------------------------------------------------------------------- */

/* The element for entry e, from its flat index (index of rank 1) or its row of coordinates. False,
 * reported: it is out of bounds. */
static bool
sparse_place(Model *m, const OnnxSparseTensor *t, const char *what, Loc loc, const Type *index,
             const void *data, int64_t value, int64_t *place)
{
    bool flat = index->rank == 1;
    int64_t count = 1, at = 0;

    for (size_t d = 0; d < t->n_dims; d++)
        count *= t->dims[d];
    for (size_t d = 0; d < (flat ? 1 : t->n_dims); d++) {
        int64_t i = flat ? value : value * (int64_t)t->n_dims + (int64_t)d,
                most = flat ? count : t->dims[d];
        int64_t v =
            index->dtype == DT_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
        if (v < 0 || v >= most)
            return diag_error(&m->c->diags, DIAG_MODEL, loc,
                              "%s: index %" PRId64 " of value %" PRId64 " is outside the %" PRId64
                              " that there are",
                              what, v, value, most);
        at = at * most + v;
    }
    *place = at;
    return true;
}

const char *
sparse_name(const OnnxSparseTensor *t)
{
    return t->values ? t->values->name : "";
}

bool
sparse_read(Model *m, const OnnxSparseTensor *t, const char *what, Loc loc, const Type **type,
            const void **data)
{
    Ctx *c = m->c;
    const Type *value, *index;
    const void *values, *indices;
    const Expr *dim[TN_MAX_RANK];
    int64_t count = 1, n, rows, place = 0;

    if (!t->values || !t->indices)
        return diag_error(&c->diags, DIAG_MODEL, loc,
                          "%s is sparse and has no %s; export the model again", what,
                          t->values ? "indices" : "values");
    if (!tensor_read(m, t->values, arena_printf(m->arena, "%s: its values", what), loc, &value,
                     &values) ||
        !tensor_read(m, t->indices, arena_printf(m->arena, "%s: its indices", what), loc, &index,
                     &indices))
        return false;
    if (!read_dims(c, what, loc, t->n_dims, t->dims, &count, dim))
        return false;
    if (value->rank != 1 || (index->dtype != DT_I64 && index->dtype != DT_I32) || index->rank < 1 ||
        index->rank > 2 || (index->rank == 2 && !expr_is(index->dim[1], (int64_t)t->n_dims)))
        return diag_error(&c->diags, DIAG_MODEL, loc,
                          "%s: a sparse tensor of rank %zu with values %s and indices %s; "
                          "values[n], and i64 indices[n] or [n, %zu] are needed",
                          what, t->n_dims, type_str(c, value), type_str(c, index), t->n_dims);
    if (!expr_const(value->dim[0], &n) || !expr_const(index->dim[0], &rows) || n != rows)
        return diag_error(&c->diags, DIAG_MODEL, loc,
                          "%s: values %s and indices %s are not as many", what, type_str(c, value),
                          type_str(c, index));
    uint32_t size = dtype_info[value->dtype].bytes;
    char *whole = arena_alloc(m->arena, (size_t)count * size + 1);
    for (int64_t i = 0; i < n; i++) {
        if (!sparse_place(m, t, what, loc, index, indices, i, &place))
            return false;
        memcpy(whole + place * size, (const char *)values + i * size, size);
    }
    *type = type_new(c, value->dtype, (uint32_t)t->n_dims, dim);
    *data = whole;
    return true;
}

bool
import_tensor_pb(Ctx *c, Arena *arena, const char *path, Bytes file, Sym *name, const Type **type,
                 const void **data)
{
    Loc loc = { .file = path };

    OnnxTensor *t = NEW(arena, OnnxTensor);
    if (!proto_read(c, arena, &(ProtoSource){ loc, "TensorProto", file, true }, &proto_Tensor, t))
        return false;
    *name = sym(c, t->name ? t->name : "");
    Model m = { .c = c, .arena = arena, .path = path, .mapped = { .arena = arena } };
    return tensor_read(&m, t, "the tensor", loc, type, data);
}
