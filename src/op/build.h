/* build: the expansion of a call as nests, each from its text. */
#ifndef TENON_OP_BUILD_H
#define TENON_OP_BUILD_H

#include "op/call.h"
#include "text/text.h"

typedef struct {
    const char *name, *text;
} BuildWord;

typedef struct {
    Ctx *c;
    const OpCall *call;
    const Type *const *out;
    Expansion *e;
    VEC(NestName) name; /* see build_name, build_word */
    VEC(BuildWord) word;
    DType real; /* the type of $T; DT_NONE: the compute type of input 0 */
    bool moves; /* reads of short floats are not widened: elements only move */
} Build;

/* ---- values ---------------------------------------------------------------------------------- */

/* Values are numbered: the call's inputs, its outputs, then intermediates. */
static inline uint32_t
build_in(const Build *b, uint32_t i)
{
    return has_in(b->call, i) ? i : NO_SLOT;
}
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
/* The attribute "axis" for a tensor of that rank; the infer rule has checked it. */
static inline uint32_t
build_along_axis(const Build *b, uint32_t rank)
{
    int64_t axis = op_int(b->call, "axis");
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}
uint32_t build_value(Build *b, DType t, uint32_t rank, const Expr *const *dim);
uint32_t build_value_like(Build *b, DType t, uint32_t value); /* of the same shape */

/* ---- nests ----------------------------------------------------------------------------------- */

/* A nest from its text (doc/nest.md), the part between the braces. It is named after the operator,
 * with the suffix unless that is NULL.
 *
 *   params  names the values, inputs then outputs: "x w bias? -> o". One with a ? may be
 *           absent (NO_SLOT, see build_in), and is omitted then.
 *   value   their numbers; NULL: the call's inputs from 0 on, then its outputs from 0 on
 *   body    printf's format, and then
 *           $T     the compute type
 *           $i     the axes of the first output, "i, j, k, l, d4, …"
 *           $word  the text of build_word
 *           x      a tensor without an index: its element at the axes of the first output, by
 *                  broadcasting; on the left, o[$i]
 *           x[]    the only element of x, whatever its rank
 *
 * Reads of short floats are f32, and a result is rounded to its output's type, so one text serves
 * all types.
 */
bool build_text(Build *b, const char *suffix, const char *params, const uint32_t *value,
                const char *body, ...) __attribute__((format(printf, 5, 6)));
/* Value `to` from elements of value `from`: the index into it at the axes of `to`. */
bool build_move(Build *b, uint32_t from, uint32_t to, const Expr *const *at);
/* Later texts may use `name` for an index expression, or $name for another text. */
void build_name(Build *b, const char *name, const Expr *e);
void build_word(Build *b, const char *name, const char *text);

/* ---- parts of texts -------------------------------------------------------------------------- */

const char *build_axis_name(uint32_t d); /* of $i */
/* Axis d of the left side, as an Expr for build_index. */
static inline const Expr *
build_axis(const Build *b, uint32_t d)
{
    return expr_axis(b->c, d);
}
/* An index expression over axes of $i: a number, an axis, or a name defined for it. */
const char *build_index(Build *b, const Expr *e);
const char *build_indices(Build *b, uint32_t n, const Expr *const *at); /* separated by commas */
/* Names separated by commas. */
const char *list_text(Arena *a, uint32_t n, const char *const *item);
/* The text with stand-alone letters replaced: letter k of `letters` by by[k]. */
const char *letters_text(Arena *a, const char *text, const char *letters, const char *const *by);
/* "i0, i1, i2": names of axes first .. end for texts that name their own axes. */
const char *axes_text(Arena *a, uint32_t first, uint32_t end);
/* "b", "0" or "b*step": the index of an input whose dimension is `own` along an axis of extent dim,
 * by broadcasting; `step` is the name to define for it. */
const char *build_along(Build *b, const Expr *own, const Expr *dim, const char *axis,
                        const char *step);
/* Input i as a number if it has one known element; otherwise NULL. */
const char *build_constant(const Build *b, uint32_t i);
const char *constant_text(Arena *a, const Scalar *k);

/* How elements of input 0 map to elements of a reduction over some of its axes, as texts: the index
 * at which the reduction for element [$i] of the result reads x, its axes, and the element of the
 * result for x[$i]. (norm.c) */
typedef struct {
    const Type *statistic;
    const char *at, *over, *of;
    const Expr *count; /* elements of x per element of the result */
} NormGroups;
/* Over the axes in `set`: the result has the other axes of x, in order, and `kept` the reduced ones
 * with size 1. Without `ones`, axes of extent 1 are not reduced over but read at 0. */
NormGroups build_groups(Build *b, uint64_t set, bool kept, bool ones);
/* Writes the log-softmax of input 0 along axis d to value `to`, of its shape. (norm.c) */
bool build_log_softmax(Build *b, uint32_t d, uint32_t to);

/* The most operands of one nest; an operator with more makes several nests. Compile time grows more
 * than linearly with the operands of an expression. A concatenation of 80 takes 238 of the 256
 * instructions of one fused expression (FUSE_MAX_CODE), so no other operator is fused into it. */
enum { MOST_OPERANDS = 80 };

#endif
