/* converters: functions that convert ONNX's nodes to Tenon's operators, by topic; ops.c has the
 * table. */
#ifndef TENON_IMPORT_CONVERTERS_H
#define TENON_IMPORT_CONVERTERS_H

#include "import/call.h"

/* The model's own function that a node calls, NULL: none; and its body in place of the node.
 * (function.c) */
const OnnxFunction *function_named(const Model *m, const OnnxNode *n);
bool function_call(Call *k);

/* Operators of the user: reads nests from a file, NULL for none; is the node one of them? adds the
 * call. (user_operators.c) */
bool own_read(Model *m, const char *path);
bool own_named(const Model *m, const OnnxNode *n, const char *full);
bool own_call(Call *k);

/* A row of the table of ONNX's operators. (ops.c) */
typedef bool Convert(Call *k);
typedef struct {
    const char *onnx; /* with its domain, unless that is ONNX's */
    OpKind op;        /* OP_NONE: it becomes several */
    /* Changes the node to that operator, or sets its outputs; NULL: it is that operator. */
    Convert *convert;
    /* What its inputs are, "i12 n2" (NULL: nothing to know), by their numbers:
     *   i   integers of any width, by the schema: shapes, axes, lengths, indices, masks
     *   n   one number
     *   s   sizes, which become symbols where they come from data;  p: of at least 1;
     *       m: of at most the largest dimension of input 0 */
    const char *inputs;
    /* What becomes of attributes, "axes>1 -stash_type=1 =dtype":
     *   axes>1     input 1, since older opsets have it as an attribute
     *   -name      none of the operator's; only the converter reads it
     *   -name=1    likewise, and no other number is supported
     *   +name      an integer of 1 or more, which must be there
     *   =name      ONNX's number of an element type becomes its name */
    const char *attrs;
    /* The operator as a text over these names (compose.h), after `convert`; NULL: none. */
    const char *names, *text;
    /* It runs graphs or takes sequences, and the converter sees the node before its attributes are
     * read. */
    bool control;
} OpRow;

/* Calls `each` for the inputs that the row describes. */
typedef bool InputFn(Call *k, const OpRow *row, char what, uint32_t i);
bool row_inputs(Call *k, const OpRow *row, InputFn *each);
/* Are inputs what the row says? One number gets its length if that is symbolic; runs check it. */
bool inputs_checked(Call *k, const OpRow *row);

/* Lists of sizes, axes or bounds get their length if it is symbolic and the model gives it
 * elsewhere; runs check it. Attributes are converted already. (lengths.c) */
bool call_lengths(Call *k);

/* Operators that run graphs. (control.c, loop.c, sequence.c, flex_attention.c) */
extern const OpRow control_rows[], sequence_rows[];
/* Replaces the row of an operator that takes a sequence, or graphs, only in some nodes. */
const OpRow *sequence_row(const Call *k, const OpRow *row);
const OpRow *flex_row(const Call *k, const OpRow *row);
/* Fills k->captured. False: a name does not exist, reported; or one comes from a node that was
 * refused, *skip. */
bool control_names(Call *k, bool *skip);

/* If a node's shape, axes or bounds come from data, they become symbols, and the node becomes
 * operators over those; k->done if that is all. (sizes.c) */
bool call_sizes(Call *k, const OpRow *row);
/* Is input i present, with contents that depend on data? (sizes.c) */
bool call_is_open(const Call *k, uint32_t i);
bool convert_nonzero(Call *k); /* results whose length depends on data */
/* the indices at which bool[n] is set: i64[hits], in order (select.c) */
ValueId call_positions(Call *k, ValueId mask);
bool convert_compress(Call *k);

/* Selections by library routines. (select.c) */
bool convert_top_k(Call *k);
bool convert_non_max_suppression(Call *k);
bool convert_unique(Call *k);

/* Operators of ai.onnx.ml. (ml.c, tree.c, tf_idf.c) */
extern const OpRow ml_rows_table[]; /* ends with a row without a name */
Convert convert_tree_ensemble, convert_tree_regressor, convert_tree_classifier, convert_tf_idf;

/* Operators that training leaves in models, and a few more. (training.c) */
extern const OpRow training_rows[];
Convert convert_batch_norm_training, convert_max_pool_places, convert_gradient;

/* Attention of ONNX Runtime. (multi_head_attention.c, group_query_attention.c) */
Convert convert_packed_attention, convert_quantised_attention, convert_multi_head,
    convert_group_query;
/* Defines q, k and v in texts: three slices of the columns of `rows`, the first two of equal width;
 * messages call these columns `what`. */
bool call_three_parts(Call *k, const Type *rows, const char *what, int64_t wide[3]);
/* Adds consecutive parts of row_bias, if it is there, to the first n of q, k and v. */
bool add_row_bias(Call *k, uint32_t n);

Convert convert_recurrent, convert_quantised_lstm; /* (recurrent.c) */

/* Random operators. (random.c) */
extern const OpRow random_rows[];
bool convert_dropout_training(Call *k);

/* Strings. (strings.c) */
/* the strings of an attribute; NULL, reported: Tenon cannot have them */
const char *const *call_string_list(Call *k, const OnnxAttribute *a);
/* a constant, str[n]; a NULL: none. 0, reported */
ValueId call_strings(Call *k, const char *name, const OnnxAttribute *a);
ValueId call_string(Call *k, const char *name, const char *s); /* str[] */
Convert convert_string_split, convert_string_normalizer, convert_regex_full_match,
    convert_tokenizer;
Convert convert_image_decoder; /* (image_decoder.c) */
bool convert_equal(Call *k);   /* changes the operator if the inputs are strings */
ValueId regex_program(Call *k, const char *pattern); /* 0, reported (regex.c) */

/* Sequences: their marks in the table of names, and the names of their two tensors. (sequence.c) */
bool sequence_is(uint64_t entry);
/* The entry of input i in the table of names; 0: it is absent. */
uint64_t sequence_entry(const Call *k, uint32_t i);
bool sequence_has_rank(uint64_t mark);
bool sequence_same_rank(uint64_t a, uint64_t b);
bool map_input(Model *m, const OnnxValueInfo *v, bool *is); /* (map.c) */
/* the keys of an output that is a map; 0: it is not */
ValueId map_output(const Model *m, const OnnxValueInfo *v);
Sym map_part(Ctx *c, Sym name, int part); /* 0: the values, 1: their keys */
bool sequence_input(Model *m, const char *name, DType t, int64_t rank, bool optional, bool list);
Sym sequence_part(Ctx *c, Sym name, int part); /* 0: the items, 1: their sizes */
/* `name`, empty so far, gets the rank of `mark` */
bool sequence_settle(Call *k, Sym name, uint64_t mark);

const OpRow *op_row(Model *m, const char *onnx); /* NULL: none of that name */
const OpRow *op_row_at(uint32_t i);              /* all rows, in no order; NULL after the last */
/* Reports why there is no such operator. (names.c) */
bool refuse_operator(Call *k, const char *name);
/* Converts the node's attributes, applies the row's converters, refuses unknown attributes. */
bool call_convert(Call *k, const OpRow *row);

/* Operators that become several of Tenon's; each table ends with a row without a name. */
extern const OpRow map_rows[];       /* (map.c) */
extern const OpRow composed_rows[];  /* (contrib.c) */
extern const OpRow quantised_rows[]; /* (quantised.c) */
extern const OpRow minor_rows[];     /* (rare_operators.c) */
extern const OpRow packed_rows[];    /* (packed_sequences.c) */
extern const OpRow sparse_rows[];    /* (sparse_attention.c) */
Convert convert_longformer;          /* (longformer.c) */
Convert convert_embed_norm;

/* A QuantizeLinear after a product of dequantised numbers becomes the same in integers, and
 * k->done. (quantised.c) */
bool quantised_product(Call *k);

Convert convert_bilinear;

/* Carries out what a row says of attributes. (attribute.c) */
bool attributes_changed(Call *k, const OpRow *row);
bool attributes_are_known(Call *k, const OpRow *row);
/* k->op of x, by the rules of that opset (opsets.c) */
ValueId call_softmax(Call *k, ValueId x, int64_t opset);

/* ONNX's own operators. (opsets.c) */
Convert convert_pair, convert_clip, convert_compare, convert_prelu, convert_constant, convert_cast,
    convert_cast_like, convert_axes_real, convert_split, convert_pad, convert_resize,
    convert_softmax, convert_gelu, convert_mod, convert_shift, convert_batch_norm, convert_shrink,
    convert_det, convert_rms_norm, convert_group_norm, convert_dropout, convert_quantize,
    convert_roi_align, convert_dft, convert_attention;

#endif
