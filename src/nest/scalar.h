/* scalar: the expressions that nests and loop trees compute with.
 *
 * A Scalar is an interned, immutable DAG node with an element type (and lanes, in loop trees):
 * equality is `==`, sharing is automatic, and each node's value is rounded to its type. Indices
 * and bounds are not Scalars but Exprs; the two meet in three places:
 *   S_INDEX   an Expr read as an i64 value            i < n ? …
 *   S_LOAD    a tensor read at Exprs                  x[n, q, 2*y + r - 1 | 0]
 *   VAR_COMPUTED  an Expr variable whose value is an integer Scalar: x[idx[i], k] is a load at
 *             the Expr variable of the Scalar load idx[i]. See expr_computed.
 */
#ifndef TENON_SCALAR_H
#define TENON_SCALAR_H

#include "type/type.h"

typedef enum {
    S_NONE,
    S_CONST, /* u.bits: the value, as double bits (floats) or int64 (others) */
    S_INDEX, /* u.index */
    S_LOAD,  /* u.load */
    /* arg[0] converted to dtype (float to integer truncates, saturating) */
    S_CAST,
    /* i64: arg[0] of any integer type, u.index = n: wraps a negative value by n once, then checks 0
     * <= value < n at run time; a failed check stops the run with an error */
    S_AT,
    /* u.reduce over arg[0..narg-1], tuple of narg values; used alone when narg is 1 */
    S_REDUCE,
    S_ITEM, /* item u.item of the tuple arg[0] (a reduce with narg > 1) */
    /* loop trees only: */
    S_SPLAT, /* arg[0] in every lane */
    S_LANES, /* arg[l] is lane l */
    S_IOTA,  /* 0, 1, 2, … lanes - 1 (i64, i32 or f32) */
    /* arg[0] and arg[1] as blocks of u.block lanes: the even (odd) ones of both, in turn */
    S_EVENS,
    S_ODDS,
    S_HSUM,
    S_HMAX,
    S_HMIN,
    S_HPROD, /* all lanes of arg[0] combined, in a fixed tree */
#define SCALAR(id, text, arity, form, meaning) S_##id,
#include "nest/scalar.def"
#undef SCALAR
    S_OP_COUNT
} ScalarOp;

/* How the values of a reduction (or of several writes to one element) are combined. */
typedef enum {
    COMB_NONE,
    COMB_SUM,
    COMB_PROD,
    COMB_MAX,
    COMB_MIN,
    COMB_ANY,
    COMB_ALL,
    /* on tuples (value, index): the index of the result of max, min (so of a NaN), first on ties;
     * of no points (-inf, 0) */
    COMB_ARGMAX,
    COMB_ARGMIN,
    COMB_LAST, /* the later point wins: scatter without a reduction */
    COMB_COUNT
} Combiner;

typedef uint64_t AxisSet; /* bit k is axis k; a nest has at most 64 axes (named limit) */
#define NEST_MAX_AXES 64  /* named limit */
/* FOR_EACH_AXIS(x, set) {…} declares uint32_t x; the set is read again before each axis. */
#define FOR_EACH_AXIS(x, set)                                                                      \
    for (uint32_t x = axis_from((set), 0); x < NEST_MAX_AXES; x = axis_from((set), x + 1))
/* The first axis from `first` on; NEST_MAX_AXES: none. */
static inline uint32_t
axis_from(AxisSet set, uint32_t first)
{
    AxisSet left = first < NEST_MAX_AXES ? set >> first << first : 0;
    return left ? (uint32_t)__builtin_ctzll(left) : NEST_MAX_AXES;
}
/* The axes of a set in order, into axis[0..count). */
static inline uint32_t
axis_list(AxisSet set, uint32_t *axis)
{
    uint32_t n = 0;
    FOR_EACH_AXIS (k, set)
        axis[n++] = k;
    return n;
}

/* Distinct variables; a computed variable is listed beside those of its Scalar. */
typedef struct VarSet {
    uint32_t n;
    const Var *at;
} VarSet;

typedef struct Scalar Scalar;
struct Scalar {    /* interned */
    uint8_t op;    /* ScalarOp */
    uint8_t dtype; /* DType of the value (of item 0, for a tuple) */
    uint8_t lanes; /* 1 outside loop trees */
    uint8_t narg;  /* S_LANES: lanes */
    uint32_t id;   /* creation order in its context: operands come before */
    /* nodes on the longest path down, Exprs and their computed values included; limited:
     * depth_check */
    uint32_t depth;
    const VarSet *vars; /* every variable of any Expr below */
    AxisSet axes;       /* of those, the free axes: without those that reductions below bind */
    union {
        int64_t bits;
        const Expr *index;
        struct {
            uint32_t slot; /* parameter of the nest, or buffer of the kernel */
            uint32_t rank;
            const Expr *const *at; /* [rank] */
            const Scalar *outside; /* value beyond the tensor; NULL: proved inside */
            /* lanes > 1: elements between lanes [linear]; NULL when lanes is 1 */
            const Expr *lane_stride;
            /* lanes > 1: only lanes < valid are read, the rest are 0; NULL: all */
            const Expr *valid;
        } load;
        struct {
            Combiner combiner;
            AxisSet axes;
        } reduce;
        uint32_t item;
        uint32_t block; /* a power of two below the lanes */
    } u;
    const Scalar *arg[];
};

typedef struct {
    const char *text;
    uint8_t arity;
    bool infix;
} ScalarOpInfo;
extern const ScalarOpInfo scalar_op_info[S_OP_COUNT]; /* arity 0 for the structural ops */
/* Sums of products of pairs or quads: a dot-product instruction, on i32. */
static inline bool
scalar_is_dot(ScalarOp op)
{
    return op == S_DOT2 || op == S_DOT4 || op == S_DOT4S || op == S_DOT2F;
}
ScalarOp scalar_op_named(const char *name, size_t n); /* S_NONE if there is none */
extern const char *const combiner_name[COMB_COUNT];   /* "sum", "max", "argmax", … */
extern const ScalarOp combiner_op[COMB_COUNT];        /* S_NONE: it selects one of its values */
/* The identity of a combiner at a type (item 0 of a tuple). */
const Scalar *combiner_identity(Ctx *c, Combiner k, DType t);
/* argmax, argmin: does a point's value replace the best so far? A NaN does, as for max and min; an
 * equal value does not. */
const Scalar *combiner_better(Ctx *c, Combiner k, const Scalar *v, const Scalar *best);

/* ---- making (all fold constants of the same meaning as the interpreter; args may be NULL: result
 * NULL) */

const Scalar *scalar_float(Ctx *c, DType t, double v);  /* rounded to t */
const Scalar *scalar_int(Ctx *c, DType t, int64_t v);   /* wrapped to t; bool: 0 or 1 */
const Scalar *scalar_number(Ctx *c, DType t, double v); /* v in either kind of type */
const Scalar *scalar_index(Ctx *c, const Expr *e);      /* i64 */
const Scalar *scalar_load(Ctx *c, DType t, uint32_t slot, uint32_t rank, const Expr *const *at,
                          const Scalar *outside);
const Scalar *scalar_load_lanes(Ctx *c, DType t, uint32_t slot, uint32_t rank,
                                const Expr *const *at, uint32_t lanes, const Expr *lane_stride,
                                const Expr *valid);
/* a itself when already t */
const Scalar *scalar_cast(Ctx *c, DType t, const Scalar *a);
const Scalar *scalar_at(Ctx *c, const Scalar *index, const Expr *n);
/* lanes and type from arg */
const Scalar *scalar_op(Ctx *c, ScalarOp op, const Scalar *const *arg);
const Scalar *scalar_1(Ctx *c, ScalarOp op, const Scalar *x);
const Scalar *scalar_2(Ctx *c, ScalarOp op, const Scalar *x, const Scalar *y);
const Scalar *scalar_select(Ctx *c, const Scalar *cond, const Scalar *x, const Scalar *y);
const Scalar *scalar_reduce(Ctx *c, Combiner k, AxisSet axes, const Scalar *const *body,
                            uint32_t n);
const Scalar *scalar_item(Ctx *c, const Scalar *tuple, uint32_t item);
/* The number of `bits` bits at `index`, among numbers that share words of their type (u8, i32) from
 * the lowest bits on, which `word` holds: i32, unsigned. */
const Scalar *scalar_in_word(Ctx *c, const Scalar *word, const Expr *index, int bits);
/* For f32(x & 15) - number, in lanes, where x is a word of such elements: that x; otherwise
 * NULL. */
const Scalar *scalar_four_bits(const Scalar *s);
const Scalar *scalar_splat(Ctx *c, const Scalar *a, uint32_t lanes); /* a itself for lanes 1 */
const Scalar *scalar_lanes(Ctx *c, const Scalar *const *lane, uint32_t lanes);
const Scalar *scalar_iota(Ctx *c, DType t, uint32_t lanes);
/* Blocks a0 a1 a2 a3 … of a and b0 b1 … of b, `block` lanes each: a0 b0 a2 b2 …, or the odd ones,
 * a1 b1 a3 b3 … */
const Scalar *scalar_blocks(Ctx *c, bool odd, const Scalar *a, const Scalar *b, uint32_t block);
const Scalar *scalar_hreduce(Ctx *c, Combiner k, const Scalar *a);

/* The Expr variable of an integer Scalar, and the Scalar of such a variable. expr_computed of an
 * S_INDEX is its Expr, of an integer S_CONST the number. */
const Expr *expr_computed(Ctx *c, const Scalar *s);
static inline const Scalar *
computed_scalar(Var v)
{
    return (const Scalar *)(uintptr_t)v.id;
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

/* A copy with loads and Exprs replaced. Hooks may be NULL (keep). `load` gets the load with its
 * indices already rewritten and returns its replacement; `expr` rewrites an index or bound, in
 * which computed variables have been replaced by placeholders that it leaves alone: they become the
 * mapped values afterwards, and what `expr` inserts is not mapped again. */
typedef struct ScalarMap {
    const Scalar *(*load)(struct ScalarMap *m, const Scalar *load);
    const Expr *(*expr)(struct ScalarMap *m, const Expr *e);
    AxisSet (*axes)(struct ScalarMap *m, AxisSet axes); /* of reductions */
    /* last: any rebuilt node, to be replaced */
    const Scalar *(*node)(struct ScalarMap *m, const Scalar *s);
    void *user;
    Ctx *ctx;
    Map done; /* memo; set .arena before use */
} ScalarMap;
const Scalar *scalar_map(ScalarMap *m, const Scalar *s);
/* The same on an Expr: m->expr applied, and computed variables mapped through their Scalars. */
const Expr *scalar_map_expr(ScalarMap *m, const Expr *e);

/* s with a node replaced. */
const Scalar *scalar_replace(Ctx *c, const Scalar *s, const Scalar *node, const Scalar *by);

/* Substitute variables everywhere in s (indices, guards, computed values). */
const Scalar *scalar_subst(Ctx *c, const Scalar *s, const Binding *b, uint32_t n);

/* ---- looking through ------------------------------------------------------------------------- */

/* Lists of distinct nodes: s and all below it, operands first, those of computed values inside
 * Exprs too; the loads among these; the nodes of the computed values of an Expr. A list ends with
 * NULL, is made once for each s, and stays valid. Of NULL: an empty list. */
const Scalar *const *scalar_nodes(Ctx *c, const Scalar *s);
const Scalar *const *scalar_loads(Ctx *c, const Scalar *s);
const Scalar *const *expr_nodes(Ctx *c, const Expr *e);
/* FOR_EACH_SCALAR(load, scalar_loads(c, value)) {…} declares load; it may be left at any point. */
#define FOR_EACH_SCALAR(s, list)                                                                   \
    for (const Scalar *const *s##_at = (list), *s; (s = *s##_at); s##_at++)

/* FOR_EACH_OPERAND(x, s) {…}: the nodes that s is computed from, each time that it uses them: its
 * arguments, its outside value, and the values of the computed variables of each of its Exprs. */
#define FOR_EACH_OPERAND(x, s)                                                                     \
    for (const Scalar *x##_list[scalar_count_operands(s) + 1],                                     \
         **x##_at = scalar_list_operands((s), x##_list), *x;                                       \
         (x = *x##_at); x##_at++)
uint32_t scalar_count_operands(const Scalar *s); /* at least as many */
const Scalar **scalar_list_operands(const Scalar *s, const Scalar **list);
/* Is operand i an arm of a select, or an outside value, so that it may be unused? */
static inline bool
scalar_guards(const Scalar *s, uint32_t i)
{
    return s->op == S_SELECT ? i > 0 : s->op == S_LOAD && s->u.load.outside && i == 0;
}
/* Its Exprs: the indices of a load, then lane_stride and valid, which may be NULL. */
uint32_t scalar_exprs(const Scalar *s);
const Expr *scalar_expr(const Scalar *s, uint32_t i);

/* The Expr of an index or an i64 number; NULL: it is computed from data. */
const Expr *scalar_as_index(Ctx *c, const Scalar *s);
bool scalar_uses(const Scalar *s, Var v);                       /* in any Expr below */
bool scalar_holds(Ctx *c, const Scalar *s, const Scalar *node); /* is node below s, or s? */
uint32_t scalar_size(Ctx *c, const Scalar *s);                  /* distinct nodes below */

#endif
