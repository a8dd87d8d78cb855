/* proto: ONNX's messages as C structs, and the parser of their file format.
 *
 * onnx.def defines both the structs and the tables of fields. A field that a file lacks is 0, NULL
 * or an empty text.
 */
#ifndef TENON_IMPORT_PROTO_H
#define TENON_IMPORT_PROTO_H

#include "base/base.h"

typedef struct {
    size_t len;
    uint8_t *data;
} OnnxBytes;

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct ProtoMessage ProtoMessage;

#define MESSAGE(T)                                                                                 \
    typedef struct Onnx##T Onnx##T;                                                                \
    extern const ProtoMessage proto_##T;
#include "import/onnx.def"

#define PROTO_C_TEXT char *
#define PROTO_C_BYTES OnnxBytes
#define PROTO_C_I32 int32_t
#define PROTO_C_I64 int64_t
#define PROTO_C_U64 uint64_t
#define PROTO_C_F32 float
#define PROTO_C_F64 double

/* clang-format off */
#define MESSAGE(T)                          struct Onnx##T {
#define ONE(T, number, kind, name)          bool has_##name; PROTO_C_##kind name;
#define SUB(T, number, type, name)          Onnx##type *name;
#define MANY(T, number, kind, name)         size_t n_##name; PROTO_C_##kind *name;
#define SUBS(T, number, type, name)         size_t n_##name; Onnx##type **name;
#define CASES(T)                            uint32_t value_case;
#define EITHER(T, number, kind, name)       PROTO_C_##kind name;
#define SUB_EITHER(T, number, type, name)   Onnx##type *name;
#define END(T)                              };
#include "import/onnx.def"
/* clang-format on */

/* type of an OnnxAttribute */
enum { ONNX_FLOAT = 1, ONNX_INT = 2, ONNX_GRAPH = 5, ONNX_INTS = 7 };
enum { ONNX_EXTERNAL = 1 };
/* value_case of an OnnxType */
enum {
    ONNX_TENSOR_TYPE = 1,
    ONNX_SEQUENCE_TYPE = 4,
    ONNX_MAP_TYPE = 5,
    ONNX_SPARSE_TENSOR_TYPE = 8,
    ONNX_OPTIONAL_TYPE = 9
};
/* value_case of an OnnxDimension */
enum { ONNX_DIM_VALUE = 1, ONNX_DIM_PARAM = 2 };

/* ---- tables of fields ------------------------------------------------------------------------ */

typedef enum {
    PROTO_TEXT,
    PROTO_BYTES,
    PROTO_I32,
    PROTO_I64,
    PROTO_U64,
    PROTO_F32,
    PROTO_F64,
    PROTO_MESSAGE
} ProtoKind;
typedef enum { PROTO_ONE, PROTO_MANY, PROTO_EITHER } ProtoRule;

typedef struct {
    uint32_t number;
    ProtoKind kind;
    ProtoRule rule;
    size_t at;                   /* offset of the value, or of the pointer to it or to its array */
    size_t mark;                 /* offset of has_NAME, n_NAME or value_case */
    const ProtoMessage *message; /* NULL: it is not a message */
} ProtoField;
enum { PROTO_MOST_FIELDS = 16 };
struct ProtoMessage {
    const char *name;
    size_t bytes; /* of its struct */
    uint32_t nfield;
    const ProtoField *field;
};

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    Loc loc;
    const char *what; /* "ONNX model", for messages */
    Bytes bytes;
    bool mapped; /* from a file: its pages are released after reading */
} ProtoSource;
/* An empty message. */
void *proto_new(Arena *a, const ProtoMessage *type);
#define ONNX_NEW(a, T) ((Onnx##T *)proto_new(a, &proto_##T))
/* Parses a message into the zeroed struct `to`. Contents are copied into the arena.
 *
 * Errors a length beyond the file or the message around it, a field of another type, messages
 *         nested deeper than the context's limit.
 */
bool proto_read(Ctx *c, Arena *a, const ProtoSource *from, const ProtoMessage *type, void *to);

#endif
