/* op: the only table of operators (ops.def), each with a shape rule and an expansion into nests.
 *
 * Operators are Tenon's own: ONNX's newest semantics, in one spelling (what older opsets have as
 * attributes is an input or an attribute as in the newest opset; import converts). Only import, op
 * and the rule table of rewrite look at which operator a call is.
 */
#ifndef TENON_OP_H
#define TENON_OP_H

#include "tenon_abi.h"

#include "nest/nest.h"

/* The number of an operator, an OP_ of kinds.h: a new row of ops.def is compiled by those alone that
 * name operators. */
typedef uint32_t OpKind;
enum { OP_NONE };

typedef enum { ATTR_INT, ATTR_FLOAT, ATTR_STRING, ATTR_INTS, ATTR_FLOATS, ATTR_TENSOR } AttrKind;
typedef struct {
    Sym name;
    AttrKind kind;
    int64_t i;
    double f;
    const char *s;
    uint32_t n;
    const int64_t *ints;
    const double *floats; /* INTS, FLOATS */
    const Type *type;
    const void *data; /* TENSOR: static, plain */
} Attr;
typedef struct {
    const Attr *at;
    uint32_t n;
} Attrs;

const Attr *attr_find(Attrs a, const char *name);
int64_t attr_int(Attrs a, const char *name, int64_t otherwise);
double attr_float(Attrs a, const char *name, double otherwise);
const char *attr_string(Attrs a, const char *name, const char *otherwise);

/* Contents of a small integer or bool tensor, if known, as symbolic expressions, row-major, so that
 * shapes computed in the model stay symbolic. At most OP_KNOWN_MAX elements. */
typedef struct {
    uint32_t n;
    const Expr *const *at;
} Known; /* at NULL: unknown */
#define OP_KNOWN_MAX 1024

/* A relation of two sizes that the compiler could not prove; the artefact checks it at entry.
 * Proofs use only equalities, and not those about data. */
typedef enum {
    SIZES_EQUAL,
    SIZES_BROADCAST /* or one of them is 1 */,
    SIZES_INTO /* or a is 1 */
} SizeRule;
typedef struct {
    const Expr *a, *b;
    const char *why; /* `Add "/m/Add": axis 1 of both inputs` */
    /* a shorter text of the relation; NULL: print a and b; "": the constraint is about data, and
     * `why` is the complete message */
    const char *said;
    SizeRule rule;
    /* about data: the element index for {at} in `why`; {got} and {want} are a and b; NULL: none */
    const Expr *at;
} Constraint;
static inline bool
constraint_of_data(const Constraint *k)
{
    return k->said && !*k->said;
}
/* the relation, for messages; "" if it is about data */
const char *constraint_text(Ctx *c, const Constraint *k);
typedef VEC(Constraint) Constraints;
bool constraint_add(Arena *a, Constraints *list, Constraint k); /* false: it exists already */

typedef struct {
    OpKind op; /* OP_NONE: of several, whose node is in `loc` */
    Loc loc;
    Attrs attrs;
    uint32_t nin, nout;
    const Type *const *in;   /* [nin]; NULL where an optional input is absent */
    const Known *known;      /* [nin] */
    const void *const *data; /* [nin]; contents of constants, plain, or NULL */
    /* to be appended to, in ctx->arena; expr learns the equalities too */
    Constraints *constraints;
} OpCall;

typedef struct {
    const char *name;
    uint8_t min_in, max_in, max_out; /* 255: any number */
    const char *attrs;               /* names with defaults: "alpha=0.01 axes" */
    /* elementwise: a scalar expression over x, y, z and attributes; otherwise prose */
    const char *meaning;
} OpInfo;
extern const OpInfo op_info[]; /* by OpKind */
OpKind op_named(const char *name, size_t n);

/* Types of the outputs, into out[nout]. Errors: at call->loc, with both facts that disagree. */
bool op_infer(Ctx *c, const OpCall *call, const Type **out);
/* Of a transpose with valid attributes: perm[d] is the input's axis that becomes the output's axis
 * d, in [0, rank). (move.c) */
void op_permutation(Attrs attrs, uint32_t rank, uint32_t *perm);
/* Contents of output 0 if they follow from known inputs (and shapes); at NULL otherwise. It
 * evaluates the expansion on Exprs; `shape`, `size` and similar ones read the types. */
Known op_known(Ctx *c, const OpCall *call, const Type *const *out);

/* The expansion: nests over numbered values: first the call's inputs, then its outputs, then
 * intermediates. */
typedef struct {
    const Nest *nest;
    const uint32_t *value; /* [nest->nin + nest->nout] */
} NestCall;
typedef struct {
    VEC(const Type *) type; /* by value number */
    VEC(NestCall) call;     /* in order */
} Expansion;
/* Do all inputs but conditions have one element type? */
bool op_has_one_dtype(OpKind op);
/* Operators that the text form writes as signs and brackets. `level` is the precedence of a binary
 * sign; 0 is the loosest. */
typedef struct {
    const char *sign;
    OpKind op;
    int level;
} OpSign;
enum { OP_SIGNS = 11 };
extern const OpSign op_sign[OP_SIGNS];
extern const struct OpForms {
    OpKind minus, negation;         /* -x, !x */
    OpKind type, list, element;     /* f32(x), [x, y], x[1] */
    OpKind range, number, as_shape; /* of iota and demand: range, squeeze, reshape */
} op_form;
bool op_is_elementwise(OpKind op); /* is its expansion a scalar expression? */
/* Is the operator a library routine, a C function of that name in src/routine? It has no expansion
 * and stays a call until the end. */
bool op_is_routine(OpKind op);
/* A C function of the user's library, as the library declares it. (library.c) */
typedef struct {
    /* names of the operator, with or without its domain, and of the C function */
    Sym name, function;
    Sym signature; /* (x: f32[n, m]) -> (o: f32[n]) */
    TnFunction *call;
} Foreign;
typedef struct Library {
    const char *path;
    VEC(Foreign) foreign;
} Library;
bool library_open(Ctx *c, const char *path); /* sets c->library */
bool foreign_types(Ctx *c, const Foreign *f, uint32_t *nin, const Type *const **in, uint32_t *nout);
/* The function that a call of `library` runs; NULL for another operator. */
const Foreign *op_foreign(Ctx *c, const OpCall *call);
/* A nest that is a matmul, or a batch of them, that CBLAS can compute: its inputs a and b, and
 * `sum`, which may be part of a larger value. op_product_call gives the operator that computes the
 * sum, split into `parts` for threads, each of at least `worth` multiply-adds. (product.c) */
typedef struct {
    const Scalar *sum;
    uint32_t a, b, batch;
    bool transposed_a, transposed_b;
} OpProduct;
bool op_product_of(Ctx *c, const Nest *n, OpProduct *p);
OpKind op_product_call(Ctx *c, Arena *a, const OpProduct *p, int64_t parts, int64_t worth,
                       Attrs *attrs);
/* Does an artefact with this operator need a CBLAS? */
bool op_is_product(OpKind op);
/* The numeric attributes in the order of ops.def, as a routine gets them. */
uint32_t op_numbers(const OpCall *call, Arena *a, const double **out);
/* False with a diagnostic if this call has no expansion into nests (an unsupported attribute, for
 * example). */
bool op_expand(Ctx *c, const OpCall *call, const Type *const *out, Expansion *e);

/* The denominator of resize scales that come from data. Fractions down to sixteenths are exact. */
#define RESIZE_RATIO 720720

/* Binds the symbols of n declared types, the first of which are those of the inputs, to the inputs'
 * sizes, and requires these to be as `what` declares them. (library.c) */
bool op_bind_sizes(Ctx *c, const OpCall *call, const char *what, const Type *const *declared,
                   uint32_t n, BoundSizes *bind);
/* Requires a relation of sizes: true if it holds or may hold, which runs check then; false with an
 * error if it cannot. `what` and more, as for printf, name both sizes in messages. */
typedef enum {
    NEED_EQ,       /* a == b */
    NEED_LE,       /* a <= b */
    NEED_MULTIPLE, /* a is a multiple of b: "axis 2 of input 0 and heads times their size" */
    NEED_INTO      /* broadcasting one way: a is b, or 1 */
} SizeNeed;
bool op_require(Ctx *c, const OpCall *call, SizeNeed need, const Expr *a, const Expr *b,
                const char *what, ...) __attribute__((format(printf, 6, 7)));
#define op_require_eq(c, call, a, ...) op_require(c, call, NEED_EQ, a, __VA_ARGS__)
#define op_require_le(c, call, a, ...) op_require(c, call, NEED_LE, a, __VA_ARGS__)
#define op_require_multiple(c, call, a, ...) op_require(c, call, NEED_MULTIPLE, a, __VA_ARGS__)
#define op_broadcast_into(c, call, a, ...) op_require(c, call, NEED_INTO, a, __VA_ARGS__)
/* Sizes by name, Sym -> Expr; and the dimensions that they are of, Sym -> text, for messages.
 * (signature.c) */
typedef struct {
    Map of, where;
} OpSizes;
void op_size(Ctx *c, OpSizes *size, const char *name, const Expr *e);
/* Has input i, called `name`, the dimensions of a text, "n, 3*k, _]"? `#n` has to be known. `size`
 * gets sizes that have no name yet. */
bool op_has_dims(Ctx *c, const OpCall *call, uint32_t i, Sym name, const char *dims, OpSizes *size);
/* ONNX broadcasting of two dimensions: they are equal, or one of them is 1. This is proved, or
 * checked at run time. Returns the dimension known to be more than 1, otherwise a broadcast of both
 * (expr). NULL with an error. */
const Expr *op_broadcast_dim(Ctx *c, const OpCall *call, const Expr *a, const Expr *b,
                             const char *what, ...) __attribute__((format(printf, 5, 6)));
/* The index of an input whose dimension is `own` at `axis` of the broadcast dimension `dim`: if
 * `own` may be 1, with a step of 0 or 1. */
const Expr *op_broadcast_at(Ctx *c, const Expr *own, const Expr *dim, const Expr *axis);

#endif
