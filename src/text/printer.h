/* printer: prints scalars, indices and types with the names of one text. Shared with the text of
 * kernels. */
#ifndef TENON_PRINTER_H
#define TENON_PRINTER_H

#include "nest/walk.h"
#include "text/text.h"

/* as text_name, and quoted if it is reserved */
void print_word(Text *t, const char *name);

/* ---- print.c: the names of one text, and the values in scope --------------------------------- */

typedef struct {
    const Expr *inferred; /* the dimension of its first bare read */
    bool mentioned;
    bool closed; /* its binder is in a let that has ended */
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
    bool declared;       /* a `for` line declares all axes */
    bool reopened;       /* an axis is bound again after its let has ended */
    bool quiet;          /* inside of an extent: reads there infer nothing */
    AxisSet bound;       /* reduction axes of the enclosing reductions */
} Printer;

/* A name for a tensor, an axis, a loop or a let: an identifier, so that a schedule may name it, with
 * a suffix if it is taken or reserved. */
Sym printer_name(Printer *p, Sym like);
void printer_free(Printer *p, Sym name);
void print_index(Printer *p, Text *t, const Expr *e);
void print_type(Printer *p, Text *t, const Type *type);
void print_axis_extent(Printer *p, Text *t, const Axis *axis); /* <n> */
/* the let in scope for s, or NULL */
Sym printer_let(const Printer *p, const Scalar *s);

/* Precedence, loosest first: a context's precedence decides on parentheses. */
enum { PREC_BODY, PREC_SELECT, PREC_EQUAL, PREC_LESS, PREC_ADD, PREC_MUL, PREC_UNARY, PREC_ATOM };

void print_scalar(Printer *p, Text *t, const Scalar *s, int prec, bool typed);

/* ---- print_lets.c ---------------------------------------------------------------------------- */

/* value[n] as one body: a tuple if n > 1, after lets for what is used more than once. `typed`: a
 * lone number must have its type. `indent`: of the lines of the lets; negative: all on one
 * line. */
void print_value(Printer *p, Text *t, const Scalar *const *value, uint32_t n, bool typed,
                 int indent);

#endif
