/* printer: prints scalars, indices and types with the names of one text. Shared with the text of
 * kernels. */
#ifndef TENON_PRINTER_H
#define TENON_PRINTER_H

#include "nest/walk.h"
#include "text/text.h"

/* as text_name, and quoted if it is reserved */
void print_word(Text *t, const char *name);

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

#endif
