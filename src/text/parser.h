/* parser: parses scopes, indices, operands and scalars at a cursor. Shared with the text of
 * kernels. */
#ifndef TENON_PARSER_H
#define TENON_PARSER_H

#include "nest/walk.h"
#include "text/text.h"

void parse_skip(Parse *p); /* white space and comments */

/* ---- parse_scope.c --------------------------------------------------------------------------- */

typedef enum { NAME_SYMBOL, NAME_AXIS, NAME_LOOP, NAME_SLOT, NAME_VALUE } NameKind;
typedef struct {
    Sym name;
    NameKind kind;
    uint32_t id; /* axis, loop, slot */
    const Scalar *value;
} NameEntry;

typedef struct AxisTable {
    VEC(Axis) list; /* extent NULL until it is written or inferred */
    AxisSet bound;  /* reduction axes of the enclosing reductions */
    AxisSet again;  /* bound again, and no bare read since */
    bool quiet;     /* inside of an extent: reads there infer nothing */
    /* j<len[i]>: points of j from there on are left out; NULL: none is */
    const Expr *limit[NEST_MAX_AXES];
} AxisTable;

typedef struct Scope {
    Parse *p;
    Parse mark; /* the operator whose operands do not fit */
    Arena *scratch;
    VEC(NameEntry) entry; /* [0] unused */
    Map find;             /* Sym to its entry, 0 once out of scope */
    bool open;            /* an unknown name in an index is a new symbol */
    uint32_t depth;
    /* type of numbers without a typed neighbour; DT_NONE: an error */
    DType hint;
    VEC(const Type *) slot_type;
    VEC(uint8_t) slot_lanes; /* of an element; empty in nests */
    AxisTable *axes;         /* NULL outside nests */
    bool widen;              /* reads floats shorter than f32 as f32 */
    bool index;              /* of an index: operands are Exprs */
} Scope;

bool scope_enter(Scope *s);                  /* one level deeper; reports an error at the limit */
bool scope_declare(Scope *s, NameEntry e);   /* reports a name that is taken */
void scope_symbols(Scope *s, const Type *t); /* declares those of a tensor's sizes */
/* Removes entries from mark on. Axes stay, so that a neighbouring reduction may bind them again,
 * unless the scope was the value of a let: outside of it, its axes cannot be told from others of
 * that name. */
void scope_leave(Scope *s, uint32_t mark, bool axes_too);
const NameEntry *scope_find(const Scope *s, Sym name);
/* The length of the word at the cursor, which does not move; 0 if there is none. */
size_t parse_word(Parse *p);
/* is ch next, after n characters and white space? */
bool parse_followed_by(Parse *p, size_t n, char ch);
DType parse_dtype(Parse *p);  /* DT_NONE reported */
bool parse_symbols(Scope *s); /* [s, t], optional: symbols that no type uses */
/* Declares its symbols. With `lanes`, f32x16[…] is a type too. */
const Type *parse_type_in(Scope *s, uint32_t *lanes);

/* ---- parse_index.c --------------------------------------------------------------------------- */

const Expr *parse_index(Scope *s);
/* <n>, optional: the axis's extent, over symbols, or a limit of its points, over other axes and
 * data. */
bool parse_axis_extent(Scope *s, Axis *axis, const Expr **limit);
/* Are all of these axes below their limits? NULL: none has one. */
const Scalar *axes_within(Ctx *c, const AxisTable *t, AxisSet axes);

typedef struct { /* name[index, …, */
    uint32_t slot, rank, lanes;
    const Type *type;
    const Expr *at[FORMAT_MAX_PARTS];
} ParsedAccess;
bool parse_access(Scope *s, ParsedAccess *to);                            /* up to the last index */
bool parse_access_end(Scope *s, const Expr **stride, const Expr **valid); /*  by 4 if < n]  */

/* ---- parse_operand.c ------------------------------------------------------------------------- */

typedef struct {
    const Expr *e;   /* within an index; the rest is unused */
    const Scalar *s; /* typed; NULL for a plain number */
    bool integer;    /* a number that is exactly i */
    double f;
    int64_t i;
    uint32_t lanes; /* of a number */
    bool tuple;
} Operand;

Operand operand_plain(double f);               /* an untyped number */
bool operand_number(Scope *s, Operand *v);     /* the number at the cursor */
bool operand_set(Operand *v, const Scalar *s); /* false if s is NULL */
/* converts a number to a constant of type t */
const Scalar *operand_settle(Scope *s, const Operand *v, DType t);
/* These operations report at s->mark operands that they do not accept. */
bool operands_agree(Scope *s, const char *what, Operand *a, uint32_t n, const Scalar **out);
bool operand_apply(Scope *s, ScalarOp op, Operand *a, uint32_t n, Operand *v);
/* a // b and a % b of indices */
bool operand_divide(Scope *s, bool remainder, Operand *a, Operand *v);
bool operand_select(Scope *s, Operand *a, Operand *v);
bool operand_seen(Scope *s, Operand *a, Operand *v);
/* Within an index: an operand, and an operation on one or two (parse_index.c). */
bool parse_index_operand(Scope *s, Operand *v);
bool index_apply(Scope *s, ScalarOp op, const Operand *a, Operand *v);

/* ---- parse_scalar.c -------------------------------------------------------------------------- */

/* A scalar of type t, which numbers get; NULL reported. A tuple only if the caller allows it. */
const Scalar *parse_value(Scope *s, DType t, bool tuple);
/* Parts of that grammar: lets and a choice, or, within an index, a sum; after the word of an
 * operation, its operands (…); a name; an operand with .0 behind it. */
bool parse_body(Scope *s, Operand *v);
bool parse_call(Scope *s, ScalarOp op, Operand *v);
bool parse_named(Scope *s, Operand *v);
bool parse_postfix(Scope *s, Operand *v);

#endif
