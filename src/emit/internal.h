/* What the files of emit share: the state of one kernel being printed, and values as C text. */
#ifndef TENON_EMIT_INTERNAL_H
#define TENON_EMIT_INTERNAL_H

#include "emit/emit.h"

/* A Scalar as C: an expression that needs no parentheses around it. */
typedef struct {
    const char *s; /* NULL: could not be printed, reported */
    uint8_t mask;  /* bool of several lanes: bytes of the mask's elements; else 0 */
} CValue;

typedef struct {
    const Scalar *node;
    CValue value;
} NamedNode;

/* A serial or parallel loop being printed: loop-invariant quotients are named in front of it. */
typedef struct {
    VEC(const Atom *) atom;
    VEC(uint32_t) number;
    Text before;
    int depth;
} OpenLoop;

typedef struct Emit {
    Ctx *c;
    Arena *a;
    Text *t; /* where statements go */
    int depth;
    const Kernel *k;
    EmitHow how;
    const Tree *as_loop; /* the unrolled loop that is printed as a loop here, or NULL (c_short.c) */
    SymbolList *sizes;   /* in the order of TnArgs.sym */
    SymbolList used;     /* symbols met so far: n0, n1, … */
    VEC(const Atom *) from_sizes; /* values that follow from sizes alone: z0, z1, … */
    uint64_t lanes_used;          /* bit n: vectors of n lanes occur (n = 64 is bit 0) */
    VEC(Binding) env;             /* unrolled variables, and lets that are numbers or variables */
    VEC(Binding) lets;            /* all lets, for proofs: each in terms of loops and symbols */
    VEC(Range) ranges;            /* enclosing loops */
    VEC(OpenLoop) loops;          /* those of them that are C loops */
    /* [nloop] of loop and let variables: the number of open loops where they were declared,
     * including their own */
    uint32_t *level;
    uint32_t nquotient;   /* quotients named so far: y0, y1, … */
    VEC(NamedNode) named; /* nodes that have a C variable here */
    Map uses;             /* of the nodes of this statement */
    CValue guard;         /* lanes that are needed at all; s NULL: every lane */
    uint32_t ntemp;
    const Expr **scratch_at; /* [buffers]: byte offset in scratch, or NULL */
    const Expr *scratch_end;
    bool failed;
} Emit;

/* of loop variables and what is computed of them */
static inline const char *
emit_index_type(const Emit *e)
{
    return e->how & EMIT_INDEX_32 ? "int32_t" : "int64_t";
}

bool emit_fail(Emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emit_line(Emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define NO_VALUE ((CValue){ 0 })

static inline CValue
plain(const char *s)
{
    return (CValue){ s, 0 };
}

/* A bool: of several lanes, as a mask whose elements have that many bytes. */
static inline CValue
mask_of(const char *s, uint32_t lanes, uint32_t bytes)
{
    return (CValue){ s, lanes > 1 ? (uint8_t)bytes : 0 };
}

/* An identifier or a whole number? */
static inline bool
is_word(const char *s)
{
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              *s == '_'))
            return false;
    return true;
}

/* c_scalar.c */
/* begin a statement that evaluates s (or NULL) */
void emit_statement(Emit *e, const Scalar *s);
/* may print statements before the current one */
CValue emit_value(Emit *e, const Scalar *s);
/* make v a variable for s from here on */
CValue emit_name(Emit *e, const Scalar *s, CValue v);
/* the variable of s, if it has one here */
CValue *emit_named(Emit *e, const Scalar *s);

/* c_op.c */
CValue emit_cast(Emit *e, const Scalar *s);
/* the even, or odd, blocks of lanes of two vectors, in turn: a step of a transposition */
CValue emit_blocks(Emit *e, const Scalar *s);
CValue emit_fold(Emit *e, const Scalar *s); /* reduces all lanes to one */
CValue emit_one(Emit *e, const Scalar *s);  /* operations of one and two operands */
CValue emit_two(Emit *e, const Scalar *s);

/* c_short.c */
/* If unrolled loop n is to be printed as a loop, sets as_loop and returns the declarations of the
 * arrays that it reads instead of registers. NULL: it is written out. */
const char *emit_begin_rerolled(Emit *e, const Tree *n);
/* the array element that a register is in as_loop */
const char *emit_rerolled_sum(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at);
/* A kernel's text with long functions (exp, erf, …) as calls, if it has many of them; their
 * definitions go to `before`. */
const char *emit_calls(Text *before, const char *text);

/* c_expr.c */
const char *emit_index(Emit *e, const Expr *x);    /* an int64_t expression; may be a sum */
const char *emit_of_sizes(Emit *e, const Atom *a); /* the value of one of from_sizes */
/* the offset of an element in its buffer */
const char *emit_place(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at);
const char *emit_register(Emit *e, uint32_t buffer, uint32_t rank, const Expr *const *at);
const Scalar *emit_subst(Emit *e, const Scalar *s); /* with unrolled variables replaced */
const Expr *emit_subst_expr(Emit *e, const Expr *x);
/* a test of 0 <= at < extent */
const char *emit_test_inside(Emit *e, const Expr *at, const Expr *extent);
/* proved: 0 <= at, at + width <= extent */
bool emit_inside(Emit *e, const Expr *at, const Expr *extent, const Expr *width);
/* proved: every lane read is in the buffer */
bool emit_load_inside(Emit *e, const Scalar *s);
/* Does the runtime make this index (S_AT), so that it needs no check? */
bool emit_is_trusted(Emit *e, const Scalar *at);
/* condition under which checked indices have an element; or NULL */
const char *emit_exists(Emit *e, uint32_t rank, const Expr *const *at);
/* Does it read or check something that only a guard makes valid? */
bool emit_is_unsafe(Emit *e, const Scalar *s);

/* c_type.c: C types of elements, and conversions */
/* the f32 value of a short float, given as bits */
const char *emit_widen(Emit *e, DType t, uint32_t lanes, const char *bits);
/* the bits of a short float: an f32 value, rounded */
const char *emit_narrow(Emit *e, DType t, uint32_t lanes, const char *value);
/* f32, f32x16: f16 and bf16 compute as f32 */
const char *emit_shape(Emit *e, DType t, uint32_t lanes);
/* float, tn_f32x16; bool: int, tn_i32x16 */
const char *emit_ctype(Emit *e, DType t, uint32_t lanes, uint32_t mask);
const char *emit_memory_shape(Emit *e, DType t, uint32_t lanes); /* f32x16, u16x16, u8x16 */
/* v as a mask of that width */
const char *emit_mask(Emit *e, CValue v, uint32_t lanes, uint32_t bytes);
uint32_t emit_value_bytes(DType t); /* in registers */
const char *emit_const(Emit *e, DType t, int64_t bits);
const char *emit_without_parens(Emit *e, const char *s); /* without outer parentheses */

#endif
