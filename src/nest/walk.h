/* walk: the nodes of a nest with their enclosing reductions and guards; shared by the queries. */
#ifndef TENON_NEST_WALK_H
#define TENON_NEST_WALK_H

#include "nest/nest.h"
#include "nest/number.h"

typedef struct {
    const Scalar *node;
    AxisSet reduce; /* axes of the enclosing reductions, on any path */
    bool always;    /* some path to it passes no guard */
} WalkNode;
typedef VEC(WalkNode) Walk;

/* Every distinct node of a nest's values, write indices and extents; users before operands. */
Walk nest_walk(Ctx *c, Arena *a, const Nest *n);

/* Hooks of a map whose user is Bindings: `expr`, and `axes`: reductions over a bound axis run over
 * the axes of what it is bound to. */
typedef struct {
    const Binding *at;
    uint32_t n;
} Bindings;
const Expr *bindings_apply(ScalarMap *m, const Expr *e);
AxisSet bindings_axes(ScalarMap *m, AxisSet axes);

/* The write of output `out`, if it is the only one; NULL otherwise. */
const Write *nest_write_of(const Nest *n, uint32_t out);
/* Does a write index each point by distinct axes, each dimension by one or by the digits of several
 * (or by 0 in a dimension of 1), without a combiner? */
bool write_is_plain(Ctx *c, const Nest *n, const Write *w);
/* The first dimension of write 0 whose index uses an axis; its rank: none does. */
uint32_t nest_written_dim(const Nest *n, uint32_t axis);
/* The axes whose digits are the index of dimension d, outermost first: j, k for 4*j + k where k < 4
 * and the dimension is 4 times j's extent. axis: [NEST_MAX_AXES]. 0 if the index is something
 * else. */
uint32_t write_digits(Ctx *c, const Nest *n, const Write *w, uint32_t d, uint32_t *axis);
static inline AxisSet
axis_one(uint32_t axis)
{
    return (AxisSet)1 << axis;
}

/* A copy of n, whose arrays may be edited, in an arena of its own until it is done or dropped. */
typedef struct {
    Nest nest;
    Axis *axis;
    NestParam *param;
    Write *write;
    Arena *scratch;
} NestEdit;
NestEdit nest_edit(Ctx *c, const Nest *n, uint32_t more_axes, uint32_t more_params);
/* Apply m to every Expr and Scalar of the writes, and to the extents of axes. */
void nest_edit_map(NestEdit *e, ScalarMap *m);
/* Replace axes in every Expr, and in reductions over them. */
void nest_edit_bind(Ctx *c, NestEdit *e, const Binding *b, uint32_t n);
/* An axis in steps of `step`, which divides its extent; a new last axis runs within a step. */
void nest_edit_split(Ctx *c, NestEdit *e, uint32_t axis, const Expr *step);
/* A new last input of a nest with one output and one write; its slot. */
uint32_t nest_edit_input(Ctx *c, NestEdit *e, const char *name, const Type *t);
/* The finished nest, verified; NULL with an internal error if it is broken. */
const Nest *nest_edit_done(Ctx *c, NestEdit *e);
void nest_edit_drop(NestEdit *e);
/* The name itself, or with a suffix where it is taken. */
Sym nest_fresh_axis(Ctx *c, const NestEdit *e, Sym wanted);
Sym nest_fresh_param(Ctx *c, const NestEdit *e, Sym wanted);
/* The Expr of a whole number; NULL, and *choice set if a select prevents it: not a number. */
const Expr *scalar_as_expr(Ctx *c, const Scalar *s, const Scalar **choice);
/* x op y; UNKNOWN also for what is no comparison. */
Tri expr_holds(Ctx *c, const Ranges *r, ScalarOp op, const Expr *x, const Expr *y);
/* Is it a choice by a comparison? */
static inline bool
scalar_is_compared_choice(const Scalar *s)
{
    return s->op == S_SELECT && s->arg[0]->op >= S_EQ && s->arg[0]->op <= S_GE;
}
/* Is every index of a load provably inside its tensor, of type t? */
bool load_is_inside(Ctx *c, const Ranges *r, const Scalar *load, const Type *t);
/* The same load with another slot, indices or outside value. */
const Scalar *load_with(Ctx *c, const Scalar *load, uint32_t slot, const Scalar *outside);

static inline bool
scalar_is_const(const Scalar *s)
{
    return s->op == S_CONST;
}
/* of strings: moved as they are, and not computed with? */
bool scalar_moves_text(const Scalar *s);

/* For verifiers, each with a Check and a `broken` of its own, which reports. */
#define REQUIRE(check, rule, condition, ...)                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return broken((check), (rule), __VA_ARGS__);                                           \
    } while (0)

#endif
