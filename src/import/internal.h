/* What the files of import share: the model being read, and one node on its way to the graph. */
#ifndef TENON_IMPORT_INTERNAL_H
#define TENON_IMPORT_INTERNAL_H

#include "import/import.h"
#include "onnx.pb-c.h"

enum { NEWEST_OPSET = 28 };

typedef struct {
    Ctx *c;
    Arena *arena;
    const char *path;
    Onnx__ModelProto *proto;
    int64_t opset;                   /* of the default domain */
    Graph *g;                        /* NULL while only a census is taken */
    Map value;                       /* Sym of a name -> ValueId; 0: made by a node that was refused */
    Map mapped;                      /* Sym of a path -> Bytes of the file beside the model */
} Model;

typedef struct {
    Model *m;
    const Onnx__NodeProto *proto;
    Loc loc;
    Sym origin;
    OpKind op;
    VEC(Attr) attr;
    VEC(ValueId) in;
    uint32_t nout;
    bool done;                       /* the converter has made the outputs itself */
} Call;

/* A parsed model; its memory goes with the arena. Checks lengths and nesting before unpacking. (read.c) */
Onnx__ModelProto *model_read(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o);
/* Whole, and nested no deeper than `most` messages (0: the default)? `what` is an "ONNX model", for messages. */
bool protobuf_check(Ctx *c, Loc loc, const char *what, const ProtobufCMessageDescriptor *descriptor, Bytes b, int64_t most);
Loc node_loc(Arena *a, const char *path, const Onnx__NodeProto *n, uint32_t index);
int64_t model_opset(const Onnx__ModelProto *m);

/* The contents of a TensorProto, plain; points into the message where it can. (tensor.c) */
bool tensor_read(Model *m, const Onnx__TensorProto *t, const char *what, Loc loc, const Type **type, const void **data);
/* ONNX's name of an element type: "float", "string", "99". */
const char *onnx_type_name(Arena *a, int type);

/* ONNX's operators. (ops.c) */
typedef bool Convert(Call *k);
typedef struct { const char *onnx; OpKind op; Convert *convert; } OpRow;
const OpRow *op_row(const char *onnx);
const OpRow *op_row_at(uint32_t i);      /* every row, in no order; NULL behind the last */
/* Say why there is no such operator. (names.c) */
bool refuse_operator(Call *k, const char *name);
/* Attributes of the node as Tenon's; converters of the row applied; what is unknown refused. */
bool call_convert(Call *k, const OpRow *row);

/* Operators that Tenon says by several of its own. (composed.c) */
extern const OpRow composed_rows[];      /* a row without a name at the end */

/* Helpers of converters. */
const Attr *call_attr(Call *k, const char *name);
void call_drop(Call *k, const char *name);
void set_int(Call *k, const char *name, int64_t v);
void set_string(Call *k, const char *name, const char *v);
int64_t get_int(Call *k, const char *name, int64_t otherwise);
ValueId call_ints(Call *k, const char *name, uint32_t n, const int64_t *v);      /* an i64[n] constant */
ValueId scalar_const(Call *k, const char *name, ValueId like, double v);
void set_input(Call *k, uint32_t i, ValueId v);
const char *output_name(Call *k);
const Type *input_type(Call *k, uint32_t i);     /* NULL if it is absent */
bool need_input(Call *k, uint32_t i);
bool finish(Call *k, ValueId v);                 /* v is output 0 and the node is done; false if v is 0 */
bool call_refuse(Call *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One operator of Tenon's in place; 0 when refused. */
ValueId call_op(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin, const ValueId *in, const char *name);
void call_bind(Call *k, uint32_t output, ValueId v);

#endif
