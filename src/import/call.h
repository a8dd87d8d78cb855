/* call: the node that is being converted. */
#ifndef TENON_IMPORT_CALL_H
#define TENON_IMPORT_CALL_H

#include "import/model.h"

typedef struct {
    Model *m;
    Ctx *c;       /* the model's */
    Arena *arena; /* likewise */
    const OnnxNode *proto;
    Loc loc;
    Sym origin;
    OpKind op;
    VEC(Attr) attr, aside; /* of the operator; only for the converter (ops.c) */
    ValueList in;
    /* names of the outer scope that the node's graphs read, in their order; */
    VEC(Sym) captured;
    /* names of a sequence: its two tensors, and itself */
    VEC(struct {
        Sym name;
        uint64_t mark;
    })
    captured_mark;
    uint32_t nout;
    bool done; /* the converter has set the outputs itself */
    /* for texts (compose.h): values by name; names of results in the graph; facts; sizes */
    Map name, shown, fact;
    OpSizes size;
    const char *results, *inputs; /* names of outputs, in order; of inputs that a text changes */
    bool failed;                  /* a text did: reported */
} Call;

/* A list in an attribute: of strings, i64, f32, or a tensor's type. n 0: it is absent or empty. */
typedef struct {
    DType t;
    int64_t n;
    const void *data;
} AttrList;
AttrList call_attr_list(Call *k, const char *name);
/* The attribute as in the file; NULL: absent. (attribute.c) */
const OnnxAttribute *node_attribute(const OnnxNode *n, const char *name);
/* A node's attributes (attribute.c): read as the kinds that operators expect, with a note if they
 * have another kind. Those that remain when a converter is done are the operator's. */
bool read_attributes(Call *k);
const Attr *call_attr(Call *k, const char *name);
void call_drop(Call *k, const char *name);
void set_int(Call *k, const char *name, int64_t v);
void set_string(Call *k, const char *name, const char *v);
int64_t get_int(Call *k, const char *name, int64_t otherwise);
double get_float(Call *k, const char *name, double otherwise);
const char *get_string(Call *k, const char *name, const char *otherwise);
/* The element type that an attribute has ONNX's number of; `otherwise` if it is absent. False,
 * reported: Tenon does not have it. */
bool get_dtype(Call *k, const char *name, DType otherwise, DType *t);
/* Which of the words in `choices` the attribute is, in any case; the first if it is absent. False,
 * reported: none. */
bool get_choice(Call *k, const char *name, const char *choices, uint32_t *which);
/* converts ONNX's number of an element type to its name */
bool dtype_attr(Call *k, const char *name);

/* Constants: a list of n elements, and i64[n]. */
ValueId call_list(Call *k, const char *name, DType t, uint32_t n, const void *data);
ValueId call_ints(Call *k, const char *name, uint32_t n, const int64_t *v);
ValueId call_floats(Call *k, const char *name, uint32_t n, const double *v); /* f32[n] */
void set_input(Call *k, uint32_t i, ValueId v);
const char *output_name(const Call *k, const char *otherwise); /* of output 0 */
const Type *input_type(Call *k, uint32_t i);                   /* NULL if it is absent */
bool need_input(Call *k, uint32_t i);
/* sets output 0 to v; false if v is 0 */
bool finish(Call *k, ValueId v);
/* Reports what Tenon does not have, or what is wrong with the model; false. */
#define call_refuse(k, ...) call_report(k, DIAG_UNSUPPORTED, __VA_ARGS__)
#define call_wrong(k, ...) call_report(k, DIAG_MODEL, __VA_ARGS__)
bool call_report(Call *k, DiagClass class, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An operator of Tenon at the place of k's node; attributes are copied. */
OpNode call_node(const Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin,
                 const ValueId *in);
/* Adds an operator of Tenon; 0 if refused. */
ValueId call_op(Call *k, OpKind op, uint32_t nattr, const Attr *attr, uint32_t nin,
                const ValueId *in, const char *name);
void call_bind(Call *k, uint32_t output, ValueId v);
/* Adds an operator of k's inputs, whose results are the node's. */
bool call_outputs(Call *k, OpKind op, uint32_t nattr, const Attr *attr);
ValueId call_concat(Call *k, uint32_t n, const ValueId *v); /* along axis 0 */
/* x with axis `from` moved to position `to`; -1 is the last. x itself if it has no such axes. */
ValueId call_moved(Call *k, ValueId x, int64_t from, int64_t to);
ValueId call_in(Call *k, uint32_t i); /* 0 if it is absent */
bool need_inputs(Call *k, uint32_t n);
const Type *value_type(const Call *k, ValueId v); /* NULL if v is 0 */

/* v with another element type; numbers as strings (t DT_STR), or strings as numbers. */
ValueId call_cast(Call *k, ValueId v, DType t);
ValueId call_text_cast(Call *k, ValueId v, DType t);
ValueId call_int_list(Call *k, ValueId v); /* integers of rank 0 or 1 as i64[n] */
/* v's contents as symbols, named after the node's result; most: bounds, or NULL. */
ValueId call_match(Call *k, ValueId v, const Expr *const *most);

/* Lists whose length may be symbolic. (lengths.c) The number of elements; -1: unknown, or v is
 * 0. */
int64_t list_length(const Call *k, ValueId v);
/* The list with n elements; runs check it if its length is symbolic. Errors: it cannot have that
 * many. */
ValueId list_of(Call *k, ValueId v, int64_t n, const char *what);
/* Reports why a list of such a length cannot be used, and what to do. */
bool list_refuse(Call *k, ValueId v, const char *what);
/* The rank of the node's first result as the file declares it, or as its users require it; -1:
 * unknown. */
int64_t result_rank(const Call *k);

#endif
