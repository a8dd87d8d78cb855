/* What the files of nest share and others need not see. */
#ifndef TENON_NEST_INTERNAL_H
#define TENON_NEST_INTERNAL_H

#include "nest/kernel.h"

/* ---- fold.c: the arithmetic of constants ---------------------------------------------------- */

/* x[i] of type t; the result has the operation's type. False where the operation has no meaning at
 * t. */
bool number_op(ScalarOp op, DType t, const Number *x, Number *result);

/* The value of an S_CONST. */
static inline Number
scalar_value(const Scalar *s)
{
    Number v;
    v.i = s->u.bits; /* a double's bits, or the integer itself */
    return v;
}

static inline bool
scalar_is_const(const Scalar *s)
{
    return s->op == S_CONST;
}

/* ---- identity.c ------------------------------------------------------------------------------ */

/* s, or what computes the same at less cost. */
const Scalar *scalar_identity(Ctx *c, const Scalar *s);

/* ---- decide.c -------------------------------------------------------------------------------- */

/* The Expr of a whole number; NULL, and *choice where one is in the way: it is none. */
const Expr *scalar_whole_number(Ctx *c, const Scalar *s, const Scalar **choice);

/* ---- scalar_table.c -------------------------------------------------------------------------- */

/* The node like `proto` with these operands: the one there is, or a new one. */
const Scalar *scalar_intern(Ctx *c, const Scalar *proto, const Scalar *const *arg);
Map *scalar_computed(Ctx *c); /* Scalar to the Expr that stands for it */

/* ---- names ---------------------------------------------------------------------------------- */

#define PARSE_MAX_RANK (2 * TN_MAX_RANK + 8) /* physical dimensions of a buffer */

void parse_skip(Parse *p); /* white space and comments */
/* of strings: moved as they are, and not computed with? */
bool scalar_moves_text(const Scalar *s);
/* as text_name, and quoted if it is reserved */
void print_word(Text *t, const char *name);

/* ---- winograd.c ------------------------------------------------------------------------------ */

typedef struct Winograd Winograd;
/* nest_winograd; tiles: the output is made in whole tiles, whatever the image is, with what stands
 * around the sum. */
bool winograd_steps(Ctx *c, const Nest *n, uint32_t m, bool tiles, Winograd *out);

/* ---- print.c: names for one text, and the values they stand in ------------------------------- */

typedef struct {
    const Expr *inferred; /* the dimension its first bare read stands at */
    bool mentioned;
    bool closed; /* its binder stands in a let that has ended */
} AxisText;

typedef struct Printer {
    Ctx *ctx;
    Arena *scratch;
    const Nest *nest; /* NULL in a loop tree */
    uint32_t nslot;
    Sym *slot; /* printed names of parameters or buffers */
    const Type *const *slot_type;
    const uint8_t *slot_lanes; /* of an element; NULL in a nest */
    Sym *axis;                 /* [nest->naxis] */
    Sym *loop;                 /* by loop variable */
    Map taken;                 /* names in use: 1 */
    Map let;                   /* Scalar to its name, 0 once out of scope */
    uint32_t nlet;
    AxisText *at;        /* [nest->naxis] */
    VEC(uint32_t) order; /* axes by first mention */
    bool declared;       /* all axes stand in a `for` line */
    bool reopened;       /* an axis is bound again after the let that had it ended */
    bool quiet;          /* inside an extent: reads there infer nothing */
    AxisSet bound;       /* reduction axes of the reductions around */
} Printer;

Sym printer_name(Printer *p, Sym wish); /* wish, with a suffix if it is taken */
void printer_free(Printer *p, Sym name);
void print_index(Printer *p, Text *t, const Expr *e);
void print_type(Printer *p, Text *t, const Type *type);
void print_axis_extent(Printer *p, Text *t, const Axis *axis); /* <n> */
/* the let in scope that stands for s, or NULL */
Sym printer_let(const Printer *p, const Scalar *s);

/* How tightly a text binds, loosest first: what a place asks for decides on parentheses. */
enum { PREC_BODY, PREC_SELECT, PREC_EQUAL, PREC_LESS, PREC_ADD, PREC_MUL, PREC_UNARY, PREC_ATOM };

void print_scalar(Printer *p, Text *t, const Scalar *s, int prec, bool typed);

/* ---- print_lets.c ---------------------------------------------------------------------------- */

/* value[n] as one body: a tuple if n > 1, preceded by lets for what is used more than once. `typed`
 * if a lone number must say its type. With `lines` >= 0, each let stands on its own line at that
 * depth. */
void print_value(Printer *p, Text *t, const Scalar *const *value, uint32_t n, bool typed,
                 int lines);

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
    AxisSet bound;  /* reduction axes of the reductions around */
    AxisSet again;  /* bound again, and not read bare since */
    bool quiet;     /* inside an extent: reads there infer nothing */
    /* j<len[i]>: points of j from there on do not count; NULL: all count */
    const Expr *limit[NEST_MAX_AXES];
} AxisTable;

typedef struct Scope {
    Parse *p;
    Parse mark; /* where the operator stands whose operands do not fit */
    Arena *scratch;
    VEC(NameEntry) entry; /* [0] unused */
    Map find;             /* Sym to its entry, 0 once out of scope */
    bool open;            /* an unknown name in an index is a new symbol */
    uint32_t depth;
    /* type of numbers when nothing else says it; DT_NONE: an error */
    DType hint;
    VEC(const Type *) slot_type;
    VEC(uint8_t) slot_lanes; /* of an element; empty in nests */
    AxisTable *axes;         /* NULL outside nests */
    bool widen;              /* a read of a float shorter than f32 is f32 */
} Scope;

bool scope_enter(Scope *s);                  /* one level deeper; reports at the limit */
bool scope_declare(Scope *s, NameEntry e);   /* reports a name that is taken */
void scope_symbols(Scope *s, const Type *t); /* those of a tensor's sizes are known names */
/* Forget entries from mark on. Axes stay, so that a reduction beside may bind the same ones, unless
 * what ends is the value of a let: from outside its axes cannot be told from others of that
 * name. */
void scope_leave(Scope *s, uint32_t mark, bool axes_too);
const NameEntry *scope_find(const Scope *s, Sym name);
/* The length of the word at the cursor, which stays; 0 if there is none. */
size_t parse_word(Parse *p);
/* after n characters and white space stands ch */
bool parse_followed_by(Parse *p, size_t n, char ch);
DType parse_dtype(Parse *p); /* DT_NONE reported */
/* Declares the symbols it meets. With `lanes`, f32x16[…] is a type too. */
const Type *parse_type_in(Scope *s, uint32_t *lanes);

/* ---- parse_index.c --------------------------------------------------------------------------- */

const Expr *parse_index(Scope *s);
/* <n>, if there is one: the axis's extent, over symbols, or a limit of its points, over other axes
 * and data. */
bool parse_axis_extent(Scope *s, Axis *axis, const Expr **limit);
/* Do all of these axes lie below their limits? NULL: none of them has one. */
const Scalar *axes_within(Ctx *c, const AxisTable *t, AxisSet axes);

typedef struct { /* name[index, …, */
    uint32_t slot, rank, lanes;
    const Type *type;
    const Expr *at[PARSE_MAX_RANK];
} Place;
bool parse_place(Scope *s, Place *to);                                   /* up to the last index */
bool parse_place_end(Scope *s, const Expr **stride, const Expr **valid); /*  by 4 if < n]  */

/* ---- parse_operand.c ------------------------------------------------------------------------- */

typedef struct {
    const Scalar *s; /* typed; NULL for a plain number */
    bool integer;    /* a number that is exactly i */
    double f;
    int64_t i;
    uint32_t lanes; /* of a number */
    bool tuple;
} Operand;

Operand operand_plain(double f);               /* a number without a type */
bool operand_number(Scope *s, Operand *v);     /* the number at the cursor */
bool operand_set(Operand *v, const Scalar *s); /* false if s is NULL */
/* a number becomes a constant of type t */
const Scalar *operand_settle(Scope *s, const Operand *v, DType t);
/* The operations below report at s->mark what has no meaning for their operands. */
bool operands_agree(Scope *s, const char *what, Operand *a, uint32_t n, const Scalar **out);
bool operand_apply(Scope *s, ScalarOp op, Operand *a, uint32_t n, Operand *v);
/* a // b and a % b of indices */
bool operand_divide(Scope *s, bool remainder, Operand *a, Operand *v);
bool operand_select(Scope *s, Operand *a, Operand *v);
bool operand_seen(Scope *s, Operand *a, Operand *v);

/* ---- parse_scalar.c -------------------------------------------------------------------------- */

/* A scalar of type t (numbers take it); NULL reported. A tuple only if the caller allows it. */
const Scalar *parse_value(Scope *s, DType t, bool tuple);
/* A scalar within an index: one operand, or whole, (…). A lone number is i64; NULL reported. */
const Scalar *parse_computed(Scope *s, bool whole);

/* ---- verify.c and kernel_verify.c: each has its own Check and its own `broken`, which reports  */

#define REQUIRE(check, rule, condition, ...)                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return broken((check), (rule), __VA_ARGS__);                                           \
    } while (0)

bool kernel_check(Ctx *c, const Kernel *k, DiagClass class, Loc loc);

/* The answer that a comparison of whole numbers has at all points of the ranges; UNKNOWN: it has
 * both, or it is not known. (decide.c) */
Tri scalar_decide(Ctx *c, const Ranges *r, const Scalar *cond);

#endif
