/* call: reads and checks a call of an operator: attributes, parameters, sizes.
 *
 * Every function that returns bool reports an error at the call's location and returns false.
 */
#ifndef TENON_OP_CALL_H
#define TENON_OP_CALL_H

#include "op/op.h"

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

/* ---- attributes and parameters (call.c) ------------------------------------------------------ */

/* An attribute, or the default that ops.def gives it. */
int64_t op_int(const OpCall *call, const char *attr);
double op_float(const OpCall *call, const char *attr);
const char *op_string(Ctx *c, const OpCall *call, const char *attr);
bool op_string_is(const OpCall *call, const char *attr, const char *value);
bool op_has_attr(OpKind op, const char *name); /* does ops.def list it? */
/* Has the attribute one of the values that ops.def lists, if it lists any? */
bool op_has_value(Ctx *c, const OpCall *call, const Attr *a);
/* The element type that an attribute names. */
bool op_named_type(Ctx *c, const OpCall *call, const char *attr, DType otherwise, DType *t);
/* An axis in [0, rank); negative ones count from the back. */
bool op_axis(Ctx *c, const OpCall *call, const char *what, int64_t axis, uint32_t rank,
             uint32_t *out);
bool op_axis_attr(Ctx *c, const OpCall *call, uint32_t rank, uint32_t *out);
/* Contents of input i as Exprs. */
bool op_param(Ctx *c, const OpCall *call, uint32_t i, const char *what, Known *out);
/* The same of a list of n. */
bool op_param_list(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t n,
                   Known *out);
/* The same of a shape, of at most TN_MAX_RANK dimensions. */
bool op_param_shape(Ctx *c, const OpCall *call, uint32_t i, Known *out);
/* The only one, and as numbers, at most `max`. */
bool op_param_one(Ctx *c, const OpCall *call, uint32_t i, const char *what, const Expr **out);
bool op_param_ints(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max,
                   int64_t *out, uint32_t *n);
/* Of one element. */
bool op_param_int(Ctx *c, const OpCall *call, uint32_t i, const char *what, int64_t *out);
/* Contents of a constant input of floats. */
bool op_param_floats(Ctx *c, const OpCall *call, uint32_t i, const char *what, uint32_t max,
                     double *out, uint32_t *n);
/* Axes named by input i as a set; empty when it is absent. */
bool op_axes_input(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank, uint64_t *set);
/* Has input i, if it is there, elements of these kinds: "floats", "numbers or bool", "i8 or u8"? */
bool op_elements(Ctx *c, const OpCall *call, uint32_t i, const char *kinds);
bool op_need_floats(Ctx *c, const OpCall *call, uint32_t i);
bool op_same_dtype(Ctx *c, const OpCall *call, uint32_t a, uint32_t b);
bool op_rank_at_least(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank);
bool op_rank_is(Ctx *c, const OpCall *call, uint32_t i, uint32_t rank);
/* An attribute of n integers, each from `least` up to INT32_MAX; all `otherwise` if it is
 * absent. */
bool op_ints(Ctx *c, const OpCall *call, const char *attr, uint32_t n, int64_t least,
             int64_t otherwise, int64_t *out);
/* Is input i, if it is there, a vector of n elements? `what` names both numbers. */
bool op_vector(Ctx *c, const OpCall *call, uint32_t i, const Expr *n, const char *what);
/* The type that elements of type t are computed in: f32 for the short floats, else t itself. */
DType compute_type(DType t);

/* ---- signatures (signature.c) ---------------------------------------------------------------- */

/* Checks the inputs against a signature, and sets the outputs' types. `size` has the sizes that the
 * rule gives by name (op_size), and gets those that the text names. */
bool op_signature(Ctx *c, const OpCall *call, const char *text, OpSizes *size, const Type **out);
/* That of the operator's row, whose sizes follow from the inputs: a rule of ops.def. */
bool infer_signature(Ctx *c, const OpCall *call, const Type **out);

/* ---- sizes (sizes.c) ------------------------------------------------------------------------- */

/* Are n dimensions equal, one by one? Messages say "axis 1 of WHAT". */
bool op_require_dims(Ctx *c, const OpCall *call, uint32_t n, const Expr *const *a,
                     const Expr *const *b, const char *what);
/* The windows of `kernel` points, `dilation` apart, in n elements, one each `stride`; and the
 * elements that one reaches over. */
const Expr *op_window_count(Ctx *c, const Expr *n, const Expr *kernel, int64_t dilation,
                            int64_t stride);
const Expr *op_window_reach(Ctx *c, const Expr *kernel, int64_t dilation);

/* Broadcast inputs first .. first + n into dim. */
bool op_broadcast(Ctx *c, const OpCall *call, uint32_t first, uint32_t n, uint32_t *rank,
                  const Expr **dim);

#endif
