/* text: the text form of nests, and what the text forms of kernels, graphs and programs share.
 *
 * nest_parse(nest_print(n)) has the same semantics, names and text. Parsers advance a cursor and
 * report errors at its line and column; doc/nest.md has the grammar. kernel parses and prints its
 * own text with parser.h and printer.h.
 */
#ifndef TENON_TEXT_H
#define TENON_TEXT_H

#include "nest/nest.h"

/* ---- nests ----------------------------------------------------------------------------------- */

void nest_print(Ctx *c, Text *t, const Nest *n, int indent);
/* n with the names that its text has: all different, identifiers, and no words of the texts. */
const Nest *nest_named(Ctx *c, const Nest *n);
void scalar_print(Ctx *c, Text *t, const Nest *n, const Scalar *s); /* names from n */
/* A cursor in a text; parsers advance it and report errors at its line and column. */
typedef struct Parse {
    Ctx *ctx;
    const char *file;
    const char *start, *s, *end;
    uint32_t line;
    const char *line_start;
} Parse;
const Nest *nest_parse(Parse *p); /* from the word `nest` to the closing brace */
/* A nest as the text between its braces, with what the text may name. One text serves every type: a
 * result is converted to the type of its output. */
typedef struct {
    const char *name;
    const Expr *index;
} NestName;
typedef struct {
    const char *name, *body;
    uint32_t nin, nout;
    const NestParam *param; /* [nin + nout], inputs first */
    uint32_t nnames;
    const NestName *names; /* index expressions, such as extents */
    bool moves;            /* elements are unchanged; otherwise floats below f32 are read as f32 */
} NestSource;
const Nest *nest_of_text(Ctx *c, const NestSource *source);
/* One scalar expression over named operands: "max(x, 0)". name[i] stands for operand[i]; numbers
 * take the type of the other operand. For the table of operators. */
const Scalar *scalar_parse(Ctx *c, const char *text, uint32_t n, const char *const *name,
                           const Scalar *const *operand);

/* the parser's parts that the text form of graphs shares (parse.c) */
Parse parse_begin(Ctx *c, const char *file, Bytes text);
Loc parse_here(const Parse *p);
bool parse_error(Parse *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool parse_too_deep(Parse *p, const char *what, uint32_t most); /* "a value is" */
bool parse_accept(Parse *p, const char *token); /* skips white space and `;` comments */
bool parse_expect(Parse *p, const char *token);
bool parse_peek(Parse *p, const char *token);
Sym parse_name(Parse *p); /* identifier, or "quoted"; NULL if none */
bool parse_int(Parse *p, int64_t *v);
/* decimal, hex float, inf, nan, leading minus */
bool parse_number(Parse *p, double *v);
bool parse_string(Parse *p, const char **s);
const Expr *parse_expr(Parse *p); /* over symbols; NULL reported */
/* After the word `symbol`: properties of a symbol: seq from 1 to 2048 usually 1, 128; batch counts
 * 1. Hints from before stay. */
bool parse_symbol(Parse *p);
/* The same with that word; false, and prints nothing: only the default range from 0 is known. */
bool symbol_print(Ctx *c, Text *t, Var symbol);
const Type *parse_type(Parse *p); /* f32[batch, 3] */
/* [0/14, 1, 0%14], of that type, or of any: NULL; NULL reported */
const Format *parse_format(Parse *p, const Type *of);
bool parse_end(Parse *p); /* is only white space left? */
/* Is it a word of the texts of nests, kernels or schedules? */
bool word_is_reserved(const char *s);
/* Prints a name so that parse_name reads it back: bare if it is an identifier, else quoted. */
void text_name(Text *t, const char *name);
void text_quoted(Text *t, const char *text); /* as parse_string reads it */
/* The shortest decimal that parses back to v, a value of the type; 10, not 1e+01. */
void text_float(Text *t, DType type, double v);

#endif
