/* model: the ONNX model that is being read. */
#ifndef TENON_IMPORT_MODEL_H
#define TENON_IMPORT_MODEL_H

#include "import/import.h"
#include "import/proto.h"

enum { NEWEST_OPSET = 28 };

typedef struct {
    Ctx *c;
    Arena *arena;
    const char *path;
    OnnxModel *proto;
    int64_t opset; /* of the default domain */
    /* the current graph: the model's, or one in it (control.c) */
    const OnnxGraph *from;
    const OnnxFunction *function; /* the function whose body it is; NULL: none */
    uint32_t depth;               /* nesting of graphs and functions */
    /* a limit, since functions may call others many times */
    int64_t nodes_left;
    /* for random operators without a seed; 0: none */
    int64_t seed;
    const char *given;                               /* from the options; NULL: none */
    const char *prefix;                              /* likewise */
    bool (*is_state)(void *user, const char *input); /* as the options have it */
    void *user;
    /* why the nodes after the last If must be read in its branches; NULL: they need not
     * (continuation.c) */
    const char *ranks;
    bool goes_on; /* the current If is read so */
    /* `from` is a branch that is read in place: the nodes after the If follow it */
    bool in_place;
    Graph *g;              /* the result; NULL during a census */
    VEC(const Nest *) own; /* operators of the user (user_operators.c) */
    /* Sym of a name -> ValueId; 0: of a node that was refused */
    Map value;
    Map mapped; /* Sym of a path -> Bytes of the file beside the model */
    Map row;    /* Sym of an operator -> its row (ops.c) */
    Map ranked; /* a graph -> what is known of ranks in it (lengths.c) */
    /* Sym of an input -> the branch that reads it; names of sizes that differ between branches
     * (branch.c) */
    Map branch, divided;
} Model;

typedef VEC(ValueId) ValueList;

/* What the model says about itself, and which of its inputs and outputs may be absent. */
void metadata_read(Model *m, Metadata *to);
/* A parsed model, in memory of the arena. Checks lengths and nesting before unpacking. (read.c) */
OnnxModel *model_read(Ctx *c, Arena *arena, const char *path, Bytes file, const ImportOptions *o);
Loc node_loc(Arena *a, const char *path, const OnnxNode *n, uint32_t index);
int64_t model_opset(const OnnxModel *m);

/* The contents of a TensorProto, plain; points into the message if possible. (tensor.c) */
bool tensor_read(Model *m, const OnnxTensor *t, const char *what, Loc loc, const Type **type,
                 const void **data);
/* The same for a SparseTensorProto, as a dense tensor: 0, or empty strings, without a value. */
bool sparse_read(Model *m, const OnnxSparseTensor *t, const char *what, Loc loc, const Type **type,
                 const void **data);
/* Its name, which is the name of its values. */
const char *sparse_name(const OnnxSparseTensor *t);
/* ONNX's name of an element type: "float", "string", "99". */
const char *onnx_type_name(Arena *a, int type);

/* Reports about the file; false. (onnx.c) */
bool model_report(const Model *m, DiagClass class, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Gives a name its value. Errors: it has one already. (onnx.c) */
bool model_define(Model *m, const char *name, ValueId v, Loc loc);
/* Are a and b equal? If it is unknown, runs check it, with the message `why`. False: they differ.
 * (onnx.c) */
bool model_require(Model *m, const Expr *a, const Expr *b, const char *why);
bool model_require_said(Model *m, Constraint needed);
/* The inputs of the model's graph, as inputs of m->g; the initializers of m->from. (input.c) */
bool input_read(Model *m, const ImportOptions *o);
bool input_defaults(Model *m);
/* Reads m->from, whose inputs are defined: its initializers and nodes, into m->g; then its
 * outputs; `mark`, or NULL: those that are sequences. */
bool model_body(Model *m, ValueList *output, uint64_t *mark);
/* One node of m->from, or a synthetic one. */
bool model_node(Model *m, const OnnxNode *n, uint32_t index);
/* The If g->node[order[0]], with the reason m->ranks, and the n - 1 nodes after it: reads those
 * that depend on it in its branches. (continuation.c) */
bool model_continuation(Model *m, const uint32_t *order, size_t n);
/* NULL: it is no tensor, and its rank is not declared */
const OnnxTensorType *tensor_type(const OnnxType *t);
const OnnxShape *declared_shape(const OnnxValueInfo *v);

/* The name of a dimension if it stands for one size everywhere; otherwise NULL. (input.c) */
const char *shared_dim_name(const OnnxDimension *dim);
/* Finds the branch that reads each input of m->from, and the size that its dimensions have there.
 * (branch.c) */
void branch_inputs(Model *m);
const Expr *branch_size(Model *m, const char *input, const Expr *dim);

#endif
