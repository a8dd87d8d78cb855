/* model: the ONNX model being read. */
#ifndef TENON_IMPORT_MODEL_H
#define TENON_IMPORT_MODEL_H

#include "import/import.h"
#include "import/proto.h"

enum { NEWEST_OPSET = 28 };

typedef struct {
    Ctx *c;
    Arena *arena;
    const char *path;
    Onnx__ModelProto *proto;
    int64_t opset; /* of the default domain */
    /* what is read now: the model's graph, or one inside it (control.c) */
    const Onnx__GraphProto *from;
    const Onnx__FunctionProto *function;             /* whose body it is; NULL: none's */
    uint32_t depth;                                  /* of graphs and functions inside each other */
    int64_t nodes_left;                              /* functions may name others many times over */
    int64_t seed;                                    /* of random operators without one; 0: none */
    const char *given;                               /* as the options have it; NULL: none */
    const char *prefix;                              /* likewise */
    bool (*is_state)(void *user, const char *input); /* as the options have it */
    void *user;
    /* why the If read last has to go on with what follows it; NULL: it has not (continuation.c) */
    const char *ranks;
    bool goes_on; /* the If that is read now does so */
    /* `from` is a branch that is read where its If stands: what follows the If follows it */
    bool in_place;
    Graph *g;              /* what it becomes; NULL while only a census is taken */
    VEC(const Nest *) own; /* of the user: operators (user_operators.c) */
    /* Sym of a name -> ValueId; 0: made by a node that was refused */
    Map value;
    Map mapped; /* Sym of a path -> Bytes of the file beside the model */
    /* Sym of an input -> where it is read; names of sizes that differ with that (branch.c) */
    Map branch, divided;
} Model;

typedef VEC(ValueId) ValueList;

/* A parsed model; its memory goes with the arena. Checks lengths and nesting before unpacking.
 * (read.c) */
Onnx__ModelProto *model_read(Ctx *c, Arena *arena, const char *path, Bytes file,
                             const ImportOptions *o);
Loc node_loc(Arena *a, const char *path, const Onnx__NodeProto *n, uint32_t index);
int64_t model_opset(const Onnx__ModelProto *m);

/* The contents of a TensorProto, plain; points into the message where it can. (tensor.c) */
bool tensor_read(Model *m, const Onnx__TensorProto *t, const char *what, Loc loc, const Type **type,
                 const void **data);
/* The same of a SparseTensorProto, as a dense tensor: 0, or no characters, where it has no
 * value. */
bool sparse_read(Model *m, const Onnx__SparseTensorProto *t, const char *what, Loc loc,
                 const Type **type, const void **data);
/* Its name, which is that of its values. */
const char *sparse_name(const Onnx__SparseTensorProto *t);
/* ONNX's name of an element type: "float", "string", "99". */
const char *onnx_type_name(Arena *a, int type);

static inline const char *
text_of(const char *s)
{
    return s ? s : "";
}

/* Give a name its value. Errors: it has one. (onnx.c) */
bool model_define(Model *m, const char *name, ValueId v, Loc loc);
/* Are the two equal? Where that is not known a run is held to it, and `why` is what it tells.
 * False: they differ. (onnx.c) */
bool model_require(Model *m, const Expr *a, const Expr *b, const char *why);
bool model_require_said(Model *m, Constraint needed);
/* Read m->from, whose inputs are defined: its initializers and nodes, into m->g; then its
 * outputs. */
bool model_body(Model *m, ValueList *output);
/* One node of m->from, or one that stands for it. */
bool model_node(Model *m, const Onnx__NodeProto *n, uint32_t index);
/* The If g->node[order[0]], m->ranks says why, and the n - 1 nodes behind it, with what depends on
 * it inside its branches. (continuation.c) */
bool rest_inside(Model *m, const uint32_t *order, size_t n);
/* NULL: it does not say its rank */
const Onnx__TensorShapeProto *declared_shape(const Onnx__ValueInfoProto *v);
/* Read the table of names as outputs of m->from: a sequence is two of them, and has its mark in
 * `mark`, [n_output]. */
bool model_outputs(Model *m, ValueList *output, uint64_t *mark);

/* The name of a dimension, where it stands for one size wherever it stands; else NULL. (onnx.c) */
const char *shared_dim_name(const Onnx__TensorShapeProto__Dimension *dim);
/* Find which branch reads each input of m->from, and the size that a dimension of one has there.
 * (branch.c) */
void branch_inputs(Model *m);
const Expr *branch_size(Model *m, const char *input, const Expr *dim);

#endif
