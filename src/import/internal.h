/* What the files of import share: the model being read, and one node on its way to the graph. */
#ifndef TENON_IMPORT_INTERNAL_H
#define TENON_IMPORT_INTERNAL_H

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
    /* why the If read last has to go on with what follows it; NULL: it has not (rest.c) */
    const char *ranks;
    bool goes_on; /* the If that is read now does so */
    /* `from` is a branch that is read where its If stands: what follows the If follows it */
    bool in_place;
    Graph *g;              /* what it becomes; NULL while only a census is taken */
    VEC(const Nest *) own; /* of the user: operators (own.c) */
    /* Sym of a name -> ValueId; 0: made by a node that was refused */
    Map value;
    Map mapped; /* Sym of a path -> Bytes of the file beside the model */
    /* Sym of an input -> where it is read; names of sizes that differ with that (branch.c) */
    Map branch, divided;
} Model;

typedef VEC(ValueId) ValueList;

typedef struct {
    Model *m;
    const Onnx__NodeProto *proto;
    Loc loc;
    Sym origin;
    OpKind op;
    VEC(Attr) attr;
    ValueList in;
    /* names of the outer scope that the node's graphs read, in their order; */
    VEC(Sym) captured;
    /* of a sequence, its two tensors, and here itself */
    VEC(struct {
        Sym name;
        uint64_t mark;
    })
    captured_mark;
    uint32_t nout;
    bool done; /* the converter has made the outputs itself */
} Call;

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
 * it inside its branches. (rest.c) */
bool rest_inside(Model *m, const uint32_t *order, size_t n);
/* NULL: it does not say its rank */
const Onnx__TensorShapeProto *declared_shape(const Onnx__ValueInfoProto *v);
/* Read the table of names as outputs of m->from: a sequence is two of them, and has its mark in
 * `mark`, [n_output]. */
bool model_outputs(Model *m, ValueList *output, uint64_t *mark);

/* The model's own function that a node calls, NULL if there is none; its body in place of the node.
 * (function.c) */
const Onnx__FunctionProto *function_named(const Model *m, const Onnx__NodeProto *n);
bool function_call(Call *k);

/* Operators of the user: nests of a file, NULL for none; is the node one of them? the call of it.
 * (own.c) */
bool own_read(Model *m, const char *path);
bool own_named(const Model *m, const Onnx__NodeProto *n, const char *full);
bool own_call(Call *k);

/* The name of a dimension, where it stands for one size wherever it stands; else NULL. (onnx.c) */
const char *shared_dim_name(const Onnx__TensorShapeProto__Dimension *dim);
/* Find which branch reads each input of m->from, and the size that a dimension of one has there.
 * (branch.c) */
void branch_inputs(Model *m);
const Expr *branch_size(Model *m, const char *input, const Expr *dim);

/* Are the inputs that count or place something integers? (integers.c) */
bool integers_checked(Call *k, const char *full); /* full: with its domain */

/* Inputs that are one number, and lists of sizes, axes or bounds, get their length where that is
 * open and the model says it elsewhere; the run is held to it. (lengths.c) */
bool call_numbers(Call *k, const char *full); /* full: with its domain */
bool call_lengths(Call *k);                   /* attributes converted */

/* Operators that run graphs. (control.c, flex.c) */
typedef bool Control(Call *k);
Control *flex_named(const Onnx__NodeProto *n, const char *full); /* full: with its domain */
Control *control_named(const char *onnx);                        /* NULL: not one of them */
/* Fill k->captured. False: a name is not there, reported; or one comes from a node that was
 * refused, *skip. */
bool control_names(Call *k, bool *skip);

typedef bool Convert(Call *k);
typedef struct {
    const char *onnx;
    OpKind op;
    Convert *convert;
} OpRow;

/* Where a node's shape, axes or bounds come from data: they become symbols, and the node what can
 * be said over those; k->done if that is all. (sizes.c) */
bool call_sizes(Call *k);
/* Is input i given, and do data say what it holds? (sizes.c) */
bool call_is_open(const Call *k, uint32_t i);
bool convert_nonzero(Call *k); /* results as long as data make them */
/* where bool[n] is set: i64[hits], in order (sizes.c) */
ValueId call_positions(Call *k, ValueId mask);
bool convert_compress(Call *k);

/* What routines choose. (select.c) */
bool convert_top_k(Call *k);
bool convert_non_max_suppression(Call *k);
bool convert_unique(Call *k);

/* Operators of ai.onnx.ml. (ml.c, tree.c, words.c) */
extern const OpRow ml_rows_table[]; /* a row without a name at the end */
Convert convert_tree_ensemble, convert_tree_regressor, convert_tree_classifier, convert_tf_idf;

/* What training leaves in models, and a few more. (training.c) */
extern const OpRow training_rows[];
Convert convert_batch_norm_training, convert_max_pool_places, convert_gradient;

/* Attention as ONNX Runtime has it. (heads.c, cached.c) */
Convert convert_packed_attention, convert_quantised_attention, convert_multi_head,
    convert_group_query;
ValueId call_columns(Call *k, ValueId x, int64_t from, int64_t to); /* of the last axis */

/* Recurrences, and the functions of their gates: `each` in every direction. (recurrent.c,
 * quantised_lstm.c) */
/* takes: it has one, and it is given */
typedef struct {
    const char *name;
    bool takes_alpha, takes_beta;
    double alpha, beta;
} Activation;
Convert convert_recurrent, convert_quantised_lstm;
/* Attribute "activations" as the names of ONNX, as many as there are to be. */
void call_activations(Call *k, uint32_t each, uint32_t directions);
const char *call_direction(Call *k);
/* number i of them; name NULL: there is none such */
Activation call_activation(Call *k, uint32_t i);

/* What is random. (random.c) */
extern const OpRow random_rows[];
bool convert_dropout_training(Call *k);

/* Strings. (text.c) */
/* as the file has it; NULL: it has none */
const Onnx__AttributeProto *proto_attr(const Call *k, const char *name);
/* a constant, str[n]; a NULL: none. 0, reported */
ValueId call_strings(Call *k, const char *name, const Onnx__AttributeProto *a);
ValueId call_string(Call *k, const char *name, const char *s); /* str[] */
Convert convert_string_split, convert_string_normalizer, convert_regex_full_match,
    convert_tokenizer;
Convert convert_image_decoder; /* (image.c) */
bool convert_equal(Call *k);   /* changes the operator where they are strings */
ValueId regex_program(Call *k, const char *pattern); /* 0, reported (regex.c) */

/* Sequences: what stands for one in the table of names, and the names of its two tensors.
 * (sequence.c) */
bool sequence_is(uint64_t entry);
bool sequence_has_rank(uint64_t mark);
bool sequence_same_rank(uint64_t a, uint64_t b);
bool map_input(Model *m, const Onnx__ValueInfoProto *v, bool *is); /* (map.c) */
/* the keys of an output that is a map; 0: it is none */
ValueId map_output(const Model *m, const Onnx__ValueInfoProto *v);
Sym map_part(Ctx *c, Sym name, int part); /* 0: the values, 1: their keys */
bool sequence_input(Model *m, const char *name, DType t, int64_t rank, bool optional, bool list);
Sym sequence_part(Ctx *c, Sym name, int part);            /* 0: the items, 1: their sizes */
Control *sequence_named(const Call *k, const char *onnx); /* NULL: none of its operators */
/* `name`, empty so far, gets the rank of `mark` */
bool sequence_settle(Call *k, Sym name, uint64_t mark);

/* ONNX's operators. (ops.c) */
const OpRow *op_row(const char *onnx);
const OpRow *op_row_at(uint32_t i); /* every row, in no order; NULL behind the last */
/* Say why there is no such operator. (names.c) */
bool refuse_operator(Call *k, const char *name);
/* Attributes of the node as Tenon's; converters of the row applied; what is unknown refused. */
bool call_convert(Call *k, const OpRow *row);

/* Operators that Tenon says by several of its own; a row without a name at the end. */
extern const OpRow map_rows[];       /* (map.c) */
extern const OpRow composed_rows[];  /* (composed.c) */
extern const OpRow quantised_rows[]; /* (quantised.c) */
extern const OpRow minor_rows[];     /* (minor.c) */
extern const OpRow packed_rows[];    /* (packed.c) */
extern const OpRow sparse_rows[];    /* (sparse.c) */
Convert convert_longformer;          /* (longformer.c) */
Convert convert_embed_norm;

/* Whole numbers, their scale and zero (0: none), and the product of two such in floats; bias may be
 * 0. (quantised.c) */
typedef struct {
    ValueId x, scale, zero;
} Scaled;
ValueId scaled_product(Call *k, Scaled a, Scaled b, ValueId bias);
/* x as u8, quantised by what it holds */
bool call_dynamically(Call *k, ValueId x, Scaled *out);
/* A QuantizeLinear: where it closes a product of dequantised numbers, the same in integers, and
 * k->done. (quantised.c) */
bool quantised_product(Call *k);

Convert convert_bilinear;

/* A node's attributes (attribute.c): read as the kinds that operators want, with a note where they
 * are of another kind; those that are left when a converter is done are ones that its operator
 * has. */
bool read_attributes(Call *k);
bool attributes_are_known(Call *k, const OpRow *row);
const Attr *call_attr(Call *k, const char *name);
void call_drop(Call *k, const char *name);
void set_int(Call *k, const char *name, int64_t v);
void set_string(Call *k, const char *name, const char *v);
int64_t get_int(Call *k, const char *name, int64_t otherwise);
/* ONNX's number of an element type becomes its name */
bool dtype_attr(Call *k, const char *name);

/* Helpers of converters. */
/* an i64[n] constant */
ValueId call_ints(Call *k, const char *name, uint32_t n, const int64_t *v);
ValueId scalar_const(Call *k, const char *name, ValueId like, double v);
void set_input(Call *k, uint32_t i, ValueId v);
const char *output_name(Call *k);
const Type *input_type(Call *k, uint32_t i); /* NULL if it is absent */
bool need_input(Call *k, uint32_t i);
/* v is output 0 and the node is done; false if v is 0 */
bool finish(Call *k, ValueId v);
bool call_refuse(Call *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One operator of Tenon's in place; 0 when refused. */
ValueId call_op(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin,
                const ValueId *in, const char *name);
void call_bind(Call *k, uint32_t output, ValueId v);
/* The same with inputs that may be absent (0); trailing ones are left off. (composed.c) */
ValueId call_some(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin,
                  const ValueId *in);
ValueId call_one(Call *k, OpKind op, ValueId x);
ValueId call_two(Call *k, OpKind op, ValueId x, ValueId y);
ValueId call_turned(Call *k, ValueId x); /* its last two axes exchanged */
/* x[n, …, c] as [n, c, …] (to 1), or back (-1) */
ValueId call_channels(Call *k, ValueId x, int to);
ValueId call_in(Call *k, uint32_t i); /* 0 if it is absent */
/* k->op of x, as that opset has it (ops.c) */
ValueId call_softmax(Call *k, ValueId x, int64_t opset);
bool need_inputs(Call *k, uint32_t n);
/* Input i, for messages `name`, has a dimension of each size; NULL: of any. */
bool need_shape(Call *k, uint32_t i, const char *name, uint32_t rank, const Expr *const *size);
const Type *value_type(Call *k, ValueId v); /* NULL of 0 */

#endif
