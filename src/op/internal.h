/* What the files of op share: the signatures of rules, readers of a call's parameters, and the
 * little machine that collects nests into an Expansion.
 */
#ifndef TENON_OP_INTERNAL_H
#define TENON_OP_INTERNAL_H

#include "op/op.h"
#include "text/text.h"

typedef bool InferFn(Ctx *c, const OpCall *call, const Type **out);

typedef struct {
    Ctx *c;
    const OpCall *call;
    const Type *const *out;
    Expansion *e;
    VEC(NestName) name; /* what texts of nests may use; see build_text */
    /* what $T stands for in them; DT_NONE: the compute type of input 0 */
    DType real;
} Build;
typedef bool ExpandFn(Build *b);

/* ---- reading a call (op.c) ------------------------------------------------------------------ */

static inline const char *
op_name(const OpCall *call)
{
    return op_info[call->op].name;
}
static inline bool
has_in(const OpCall *call, uint32_t i)
{
    return i < call->nin && call->in[i];
}

bool op_fail(Ctx *c, const OpCall *call, DiagClass class, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An attribute, or the default that ops.def gives it. */
int64_t op_int(const OpCall *call, const char *attr);
double op_float(const OpCall *call, const char *attr);
const char *op_string(Ctx *c, const OpCall *call, const char *attr);
bool op_string_is(const OpCall *call, const char *attr, const char *value);
/* An axis in [0, rank), negative ones counted from the back. */
bool op_axis(Ctx *c, const OpCall *call, const char *what, int64_t axis, uint32_t rank,
             uint32_t *out);
bool op_axis_attr(Ctx *c, const OpCall *call, uint32_t rank, uint32_t *out);
/* Contents of input i as Exprs; as numbers (at most TN_MAX_RANK * 2). Reports what is unknown. */
bool op_param(Ctx *c, const OpCall *call, uint32_t i, const char *what, Known *out);
bool op_param_ints(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max,
                   int64_t *out, uint32_t *n);
/* of one element */
bool op_param_int(Ctx *c, const OpCall *call, uint32_t i, const char *what, int64_t *out);
/* Contents of a constant input of floats as numbers. */
bool op_param_floats(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max,
                     double *out, uint32_t *n);
/* Axes named by input i as a set; all of them when it is absent. */
bool op_axes_input(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank, uint64_t *set);
bool op_same_dtype(Ctx *c, const OpCall *call, uint32_t a, uint32_t b);
bool op_rank_at_least(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank);
bool op_rank_is(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank);
/* Broadcast inputs first .. first + n into dim; false with an error. */
bool op_broadcast(Ctx *c, const OpCall *call, uint32_t first, uint32_t n, uint32_t *rank,
                  const Expr **dim);
DType compute_type(DType t); /* f32 for the short floats, else t itself */

/* ---- building an expansion (build.c) --------------------------------------------------------- */

/* One nest under construction; value numbers of its parameters are kept beside it. */
typedef struct {
    Build *b;
    NestBuilder nb;
    uint32_t nin, nout;
    VEC(uint32_t) in, out;
} Making;

/* One nest from its text (doc/nest.md), the part between the braces, as printf would print it.
 * `params` names the values, inputs and outputs: "x w -> o". Reads of short floats are f32, and
 * what is written is rounded to its output's type, so a text holds for every type; $T in it is the
 * type that is computed in. Extents and other index expressions have the names that build_name gave
 * them. */
bool build_text(Build *b, const char *suffix, const char *params, const uint32_t *value,
                const char *body, ...) __attribute__((format(printf, 5, 6)));
void build_name(Build *b, const char *name, const Expr *e);
/* "b", "0" or "b*step": where an input whose dimension is `own` is read along an axis of such a
 * text, of extent dim. `step` is a name for it. */
const char *build_along(Build *b, const Expr *own, const Expr *dim, const char *axis,
                        const char *step);
/* "i0, i1, i2": names of axes first .. end, for such texts. */
const char *axes_text(Arena *a, uint32_t first, uint32_t end);
/* `to`, a value of input 0's shape: its log-softmax along axis d. (norm.c) */
bool build_log_softmax(Build *b, uint32_t d, uint32_t to);
/* an intermediate */
uint32_t build_value(Build *b, DType t, uint32_t rank, const Expr *const *dim);
static inline uint32_t
build_out(const Build *b, uint32_t i)
{
    return b->call->nin + i;
}
static inline const Type *
build_type(const Build *b, uint32_t value)
{
    return b->e->type.at[value];
}

/* named after the operator, and the suffix unless NULL */
Making make_begin(Build *b, const char *suffix);
uint32_t make_in(Making *m, const char *name, uint32_t value);
uint32_t make_out(Making *m, const char *name, uint32_t value);
bool make_end(Making *m);
/* Parallel axes for every dimension of a value. */
void make_axes(Making *m, uint32_t value, const Expr **axis);
/* make_out, make_axes */
void make_out_over(Making *m, const char *name, uint32_t value, const Expr **axis);
const Expr *make_reduce(Making *m, const char *name, const Expr *extent);
/* A load in the compute type of its tensor; `or` gives what stands outside (NULL: proved
 * inside). */
const Scalar *make_load(Making *m, uint32_t slot, const Expr *const *at);
const Scalar *make_load_or(Making *m, uint32_t slot, const Expr *const *at, const Scalar *outside);
/* The value of an input of lower or equal rank at the axes of an output, by broadcasting. */
const Scalar *make_load_broadcast(Making *m, uint32_t slot, uint32_t rank, const Expr *const *axis);
/* Write value, rounded to the output's type, at bare axes. */
void make_write(Making *m, uint32_t out, const Expr *const *axis, const Scalar *value);
/* Write the only output, and end. False if there is no value, which its maker has reported. */
bool make_finish(Making *m, const Expr *const *axis, const Scalar *value);

/* Operands that one nest puts together, of operators with any number of them; more are put together
 * in several. Bounds code: an expression has something of each, and compilers, this one and that of
 * C, take more than linear time over expressions. A concatenation of 80 takes 238 instructions of
 * the 256 that fusing makes one expression (FUSE_MAX_CODE), so no other grows to it. */
enum { MOST_OPERANDS = 80 };

/* Input i as a constant Scalar if it is one element and known; NULL otherwise. */
const Scalar *build_constant(const Build *b, uint32_t i);
const Scalar *number_of(Ctx *c, DType t, const Expr *e); /* an Expr as a value of type t */

#endif
