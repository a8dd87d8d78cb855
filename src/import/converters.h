/* converters: what makes Tenon's operators of ONNX's nodes, by topic; the table is in ops.c. */
#ifndef TENON_IMPORT_CONVERTERS_H
#define TENON_IMPORT_CONVERTERS_H

#include "import/call.h"

/* The model's own function that a node calls, NULL if there is none; its body in place of the node.
 * (function.c) */
const Onnx__FunctionProto *function_named(const Model *m, const Onnx__NodeProto *n);
bool function_call(Call *k);

/* Operators of the user: nests of a file, NULL for none; is the node one of them? the call of it.
 * (user_operators.c) */
bool own_read(Model *m, const char *path);
bool own_named(const Model *m, const Onnx__NodeProto *n, const char *full);
bool own_call(Call *k);

/* Are the inputs that count or place something integers? (integers.c) */
bool integers_checked(Call *k, const char *full); /* full: with its domain */

/* Inputs that are one number, and lists of sizes, axes or bounds, get their length where that is
 * open and the model says it elsewhere; the run is held to it. (lengths.c) */
bool call_numbers(Call *k, const char *full); /* full: with its domain */
bool call_lengths(Call *k);                   /* attributes converted */

/* Operators that run graphs. (control.c, flex_attention.c) */
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

/* Operators of ai.onnx.ml. (ml.c, tree.c, tf_idf.c) */
extern const OpRow ml_rows_table[]; /* a row without a name at the end */
Convert convert_tree_ensemble, convert_tree_regressor, convert_tree_classifier, convert_tf_idf;

/* What training leaves in models, and a few more. (training.c) */
extern const OpRow training_rows[];
Convert convert_batch_norm_training, convert_max_pool_places, convert_gradient;

/* Attention as ONNX Runtime has it. (heads.c, cached.c) */
Convert convert_packed_attention, convert_quantised_attention, convert_multi_head,
    convert_group_query;
ValueId call_columns(Call *k, ValueId x, int64_t from, int64_t to); /* of the last axis */
/* q, k and v in texts: three parts of the columns of `rows`, of which the first two are as wide; for
 * messages `what` has these columns. */
bool call_three_parts(Call *k, const Type *rows, const char *what, int64_t wide[3]);

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

/* Strings. (strings.c) */
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
extern const OpRow composed_rows[];  /* (contrib.c) */
extern const OpRow quantised_rows[]; /* (quantised.c) */
extern const OpRow minor_rows[];     /* (rare_operators.c) */
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

bool attributes_are_known(Call *k, const OpRow *row);
/* k->op of x, as that opset has it (opsets.c) */
ValueId call_softmax(Call *k, ValueId x, int64_t opset);

/* ONNX's own operators. (opsets.c) */
Convert convert_pair, convert_compare, convert_prelu, convert_gemm, convert_constant, convert_cast,
    convert_cast_like, convert_clip, convert_axes, convert_axes_real, convert_reshape,
    convert_split, convert_slice, convert_pad, convert_tile, convert_resize, convert_softmax,
    convert_gelu, convert_mod, convert_shift, convert_batch_norm, convert_norm, convert_shrink,
    convert_det, convert_rms_norm, convert_group_norm, convert_dropout, convert_max_pool,
    convert_eye_like, convert_quantize, convert_roi_align, convert_dft, convert_window,
    convert_attention;

#endif
