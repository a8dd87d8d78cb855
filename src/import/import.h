/* import: ONNX to graph. Only this folder knows ONNX's spelling: operator versions, attributes that
 * became inputs, types, external data. The result has Tenon's operators. */
#ifndef TENON_IMPORT_H
#define TENON_IMPORT_H

#include "graph/graph.h"

typedef struct {
    const char *input;
    uint32_t rank;
    const int64_t *dims;
} ImportShape;

/* What a model says about itself: its metadata_props by their keys, and its other fields as
 * "onnx.graph_name", …; "onnx.optional:x" for each input or output x that may be absent, with
 * "tensor" or "sequence". */
typedef struct {
    const char *key, *value;
} Metadatum;
typedef VEC(Metadatum) Metadata;

typedef struct {
    const Binding *dim;
    uint32_t ndim; /* --dim batch=2: symbols fixed before inference */
    const ImportShape *shape;
    uint32_t nshape;                    /* --shape x=1x3x224x224 */
    int64_t max_model_bytes, max_nodes; /* named limits; 0: the defaults */
    int64_t seed;                       /* --seed; 0: none */
    const char *nests;                  /* --nests: a file with operators; NULL: none */
    /* --given: inputs that stay inputs although the model has values for them, "w,b"; NULL: none */
    const char *given;
    const char *prefix;  /* "cell": a symbol n of the inputs becomes cell_n; NULL: stays n */
    const char *library; /* --library: a library with operators; NULL: none */
    /* Is this input a state of a session? NULL: there are no states. */
    bool (*is_state)(void *user, const char *input);
    void *user;
    Metadata *metadata; /* filled; NULL: not wanted */
} ImportOptions;

/* Maps a model file. library: or may it be a compiled one? Errors: it is a folder, or of another
 * format; the message says how to export that. */
bool import_map(Ctx *c, Arena *arena, const char *path, bool library, Bytes *out);
/* The graph of a model file. Constants point into the mapped file or into `arena`. Errors: it
 * reports every unsupported node (DIAG_UNSUPPORTED, one diagnostic each) before it fails. */
Graph *import_onnx(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o);
/* Is this an ONNX file, and not Tenon's text? Looks at the first bytes. */
bool import_is_onnx(Bytes file);

/* For `tenon inspect`: facts about a file, even if it cannot be compiled. */
typedef struct {
    const char *op;
    uint32_t count;
} CensusRow;
typedef struct {
    const char *node, *op, *reason;
} Unsupported;
typedef struct {
    const char *name, *type;
} CensusValue; /* as declared: "f32[batch, 3]" */
typedef struct {
    const char *producer;
    int64_t opset;
    int64_t nodes, inner_nodes, weights_bytes; /* inner: of branches and bodies of loops */
    VEC(CensusValue) input, output;
    VEC(CensusRow) census; /* most frequent first */
    VEC(Unsupported) unsupported;
} Census;
bool import_census(Ctx *c, Arena *arena, const char *path, Bytes file, Census *out);

/* The table of operators as Markdown, one row for each of ONNX's (and ONNX Runtime's) that can be
 * imported, but those that run graphs. */
void import_operators(Text *t);

/* A TensorProto file (`input_0.pb` of ONNX's test data). */
bool import_tensor_pb(Ctx *c, Arena *arena, const char *path, Bytes file, Sym *name,
                      const Type **type, const void **data);

#endif
