/* nest: one operator's meaning as a perfect loop nest. It says what, never how.
 *
 *   nest conv(x: f32[b, c, h, w], w: f32[f, c, 3, 3]) -> (o: f32[b, f, (h - 1) // 2 + 1, (w - 1) //
 *   2 + 1]) {
 *     o[n, k, y, z] = sum q, r, s: x[n, q, 2*y + r - 1, 2*z + s - 1 | 0] * w[k, q, r, s]
 *   }
 *
 * A nest is axes, parameters and writes. Axis k is VAR_AXIS k in every nest, so equal meanings are
 * equal Scalars whatever the axes are called. Parallel and scan axes index the writes; reduction
 * axes are bound by S_REDUCE nodes inside the value. All writes share the parallel axes.
 *
 * doc/nest.md has the grammar and one example per kind of row.
 */
#ifndef TENON_NEST_H
#define TENON_NEST_H

#include "nest/scalar.h"

typedef enum {
    AXIS_PARALLEL, /* stands on the left */
    AXIS_REDUCE,   /* bound by a reduction */
    AXIS_SCAN,     /* on the left too, but walked in order: the value may read its own
                              * output at earlier points of this axis */
} AxisKind;

typedef struct {
    Sym name;
    AxisKind kind;
    /* trip count, over symbols; that of a reduction may use other axes and data (the windows of
     * MaxRoiPool) */
    const Expr *extent;
} Axis;

typedef struct {
    Sym name;
    const Type *type;
} NestParam;

typedef struct {  /* out[at…] (combiner)= value */
    uint32_t out; /* index into param: an output */
    /* [rank of out]; axes, or the digits of several (4*j + k), or computed for a scatter */
    const Expr *const *at;
    Combiner combiner; /* COMB_NONE: every point is written exactly once */
    /* with a combiner: the input whose contents stand before (same type), or NO_SLOT: the
     * combiner's identity (COMB_LAST: 0) */
    uint32_t init;
    const Scalar *value;
} Write;

#define NO_SLOT UINT32_MAX

typedef struct Nest {
    Sym name; /* for people; not part of the meaning */
    Loc loc;
    uint32_t naxis;
    const Axis *axis;
    /* inputs 0..nin-1, outputs nin..nin+nout-1 */
    uint32_t nin, nout;
    const NestParam *param;
    uint32_t nwrite;
    const Write *write;
} Nest;

/* ---- making: a builder collects, nest_finish verifies ---------------------------------------- */

typedef struct NestBuilder {
    Ctx *ctx;
    Sym name;
    VEC(NestParam) in, out;
    VEC(Axis) axis;
    VEC(Write) write; /* write.out counts outputs from 0 while building */
} NestBuilder;

NestBuilder nest_begin(Ctx *c, const char *name);
uint32_t nest_in(NestBuilder *b, const char *name, const Type *t); /* its slot */
/* its number among outputs */
uint32_t nest_out(NestBuilder *b, const char *name, const Type *t);
/* A new axis, as its Expr. */
const Expr *nest_axis(NestBuilder *b, const char *name, AxisKind kind, const Expr *extent);
/* One parallel axis per dimension of t, into axis[0..rank). */
void nest_axes_of(NestBuilder *b, const Type *t, const Expr **axis);
const Scalar *nest_load(NestBuilder *b, uint32_t slot, const Expr *const *at);
const Scalar *nest_load_or(NestBuilder *b, uint32_t slot, const Expr *const *at,
                           const Scalar *outside);
AxisSet axis_bit(const Expr *axis);
void nest_write(NestBuilder *b, uint32_t out, const Expr *const *at, const Scalar *value);
void nest_write_combine(NestBuilder *b, uint32_t out, const Expr *const *at, Combiner k,
                        uint32_t init, const Scalar *value);
const Nest *nest_finish(NestBuilder *b); /* NULL, reported as internal, if nest_verify fails */

/* Invariants, numbered in verify.c; reports the first that fails. */
bool nest_verify(Ctx *c, const Nest *n, DiagClass class);

/* ---- text: nest_parse(nest_print(n)) has the same meaning, names and text -------------------- */

void nest_print(Ctx *c, Text *t, const Nest *n, int indent);
/* n with the names that its text has, where no two things have one: schedules name loops by
 * axes. */
const Nest *nest_named(Ctx *c, const Nest *n);
void scalar_print(Ctx *c, Text *t, const Nest *n, const Scalar *s); /* names from n */
/* Cursor over text; parsers advance it and report at its line and column. */
typedef struct Parse {
    Ctx *ctx;
    const char *file;
    const char *start, *s, *end;
    uint32_t line;
    const char *line_start;
} Parse;
const Nest *nest_parse(Parse *p); /* from the word `nest` to the closing brace */
/* What stands between a nest's braces, its parameters being given, inputs first. `names` stand for
 * indices: an extent, a symbol. For meanings that are the same at every type: a read of a float
 * shorter than f32 is f32, and what is written is converted to its output's type. */
typedef struct {
    const char *name;
    const Expr *index;
} NestName;
const Nest *nest_of_text(Ctx *c, const char *name, uint32_t nin, uint32_t nout,
                         const NestParam *param, uint32_t nname, const NestName *names,
                         const char *body);
/* One scalar expression over named operands: "max(x, 0)". operand[i] is what name[i] stands for;
 * numbers take the type of the other operand. For the table of operators. */
const Scalar *scalar_parse(Ctx *c, const char *text, uint32_t n, const char *const *name,
                           const Scalar *const *operand);

/* pieces of the parser that the graph's text form shares (parse.c) */
Parse parse_begin(Ctx *c, const char *file, Bytes text);
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
/* What is known of a symbol, behind the word `symbol`: seq from 1 to 2048 usually 1, 128; batch
 * counts 1. What was said to be usual before stays. */
bool parse_symbol(Parse *p);
/* The same with that word; false, and nothing is printed: no more than that it is a number from
 * 0. */
bool symbol_print(Ctx *c, Text *t, Var symbol);
const Type *parse_type(Parse *p); /* f32[batch, 3] */
bool parse_end(Parse *p);         /* only white space left? */
/* Print a name so that parse_name reads it back: bare if it is an identifier, else quoted. */
void text_name(Text *t, const char *name);
void text_quoted(Text *t, const char *text); /* as parse_string reads it */
/* The shortest decimal that reads back as v, which is a value of the type; 10, not 1e+01. */
void text_float(Text *t, DType type, double v);

/* ---- queries --------------------------------------------------------------------------------- */

/* Ranges of all axes, for the expr proofs. */
Ranges nest_ranges(Ctx *c, Arena *a, const Nest *n);
AxisSet nest_axes_of_kind(const Nest *n, AxisKind k);
/* Is its extent computed from other axes or from data? */
bool axis_varies(const Axis *a);
/* What item i of a reduction is before the first point: the combiner's identity, and beside it the
 * index of the first point. Then data equal to the identity, which are better than nothing seen
 * before, still have the first such point's index. */
const Scalar *nest_reduction_begin(Ctx *c, const Nest *n, const Scalar *reduce, uint32_t i);
/* Each variable of its types, bounds, indices and values, some of them more than once. */
void nest_vars(const Nest *n, void (*visit)(void *user, Var v), void *user);
/* axes an Expr uses, inside computed values too */
AxisSet expr_axes(const Expr *e);
static inline AxisSet
scalar_axes(Ctx *c, const Scalar *s)
{
    (void)c;
    return s->axes;
}

/* All reads, in the order of their ids. */
typedef struct {
    const Scalar *load;
    AxisSet reduce; /* reductions it stands under */
    bool conditional;
} Access;
typedef struct {
    Access *at;
    uint32_t n;
} Accesses;
Accesses nest_accesses(Ctx *c, Arena *a, const Nest *n);

/* Mapping type of one read, derived from its access map alone (doc/fusion.md, source: DNNFusion's
 * types refined so that disjoint reductions, windows and contractions differ). */
typedef enum {
    MAP_ID,
    MAP_PART,
    MAP_PERM,
    MAP_RELAYOUT,
    MAP_INJ, /* fan-in 1, fan-out 1 */
    MAP_BCAST,
    MAP_REPEAT,
    MAP_GATHER, /* fan-in 1, fan-out > 1 */
    MAP_RED,    /* fan-in > 1, fan-out 1 */
    MAP_WIN,
    MAP_CONTR,
    MAP_SCAN, /* both > 1 */
    MAP_UNKNOWN,
    MAP_COUNT
} MappingType;
extern const char *const mapping_name[MAP_COUNT];
MappingType nest_mapping(Ctx *c, const Nest *n, const Access *access);

/* The contraction view: one sum of products of two reads (each factor may be any expression over
 * the axes of one side), wherever it stands in the value. */
typedef struct {
    const Scalar *reduce;         /* the S_REDUCE */
    const Scalar *a, *b;          /* factors: a is row side, b is column side */
    AxisSet batch, row, col, sum; /* batch: in a and b; row: a only; col: b only */
} Contraction;
/* The column side is the one that has the innermost axis of write 0. False: not a contraction. */
bool nest_contraction(Ctx *c, const Nest *n, Contraction *out);

/* Of a factor made of constants alone, `known` by their slots: the read that varies with all axes
 * that any read of it varies with, once. What else it reads are scales and zero points of blocks.
 * An axis may be in none: it counts the elements that share what is read. NULL: there is no such
 * read. */
const Scalar *nest_constant_read(Ctx *c, const Scalar *factor,
                                 bool (*known)(void *user, uint32_t slot), void *user);

/* Box of an input that a box of outputs needs: for each dimension of the read, lowest index and
 * width, when axis k runs over [lo[k], lo[k] + width[k]). NULL entries where computed from data. */
void access_region(Ctx *c, const Access *a, uint32_t naxis, const Expr *const *lo,
                   const Expr *const *width, const Expr **out_lo, const Expr **out_width);

/* The least and the greatest value of e in such a box. False: it is not known, or computed from
 * data of which the box has several. */
bool expr_region(Ctx *c, const Expr *e, uint32_t naxis, const Expr *const *lo,
                 const Expr *const *width, const Expr **least, const Expr **most);

typedef struct {
    const Expr *points, *add, *mul, *div, *special, *bytes_read, *bytes_written;
} NestCost;
NestCost nest_cost(Ctx *c, const Nest *n); /* over the whole domain */
/* Operations where nothing is computed twice: each node once for every point of the axes that it
 * varies with. */
const Expr *nest_least_operations(Ctx *c, const Nest *n);

/* About how many instructions the values of one point take, however often loops repeat them: how
 * long the code is. */
uint32_t nest_code(Ctx *c, const Nest *n);

/* What is less than an eighth of the second level of any processor of the machine table (512 KB)
 * stays in it, narrow or wide. */
enum { NEST_LEAST_WIDE = 1 << 16 };
/* Is the result, of inputs that take `stored` bytes as they lie in the artefact, better computed
 * where it is read than kept there: larger, elementwise, and little work? (widen.c) */
bool nest_widens(Ctx *c, const Nest *n, int64_t stored);

/* ---- rewriting: all return a new nest with the same meaning ---------------------------------- */

/* Put `producer`'s value (its output `out`, one plain write at bare axes) in place of every read of
 * `consumer`'s input `slot`. The result has consumer's other inputs first, in order, then
 * producer's inputs (inputs_map[i] gives the slot of consumer input i, or NO_SLOT for `slot`;
 * producer's inputs follow at producer_base + i). Outputs are consumer's. NULL, quietly, when it
 * cannot: scans, combining writes, a read under a guard that the producer could not evaluate. */
const Nest *nest_inline(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer,
                        uint32_t out);
/* The same, where producer's input i is the tensor that is consumer's input same[i] (not `slot`),
 * and needs no slot of its own; NO_SLOT: another one. What has a slot follows in order. */
const Nest *nest_inline_same(Ctx *c, const Nest *consumer, uint32_t slot, const Nest *producer,
                             uint32_t out, const uint32_t *same);
/* Parameters with the same tensor given as `same[i] = j < i` become one. */
const Nest *nest_merge_params(Ctx *c, const Nest *n, const uint32_t *same);
/* Without the inputs that nothing reads; keep[nin] says which stay. */
const Nest *nest_drop_unused(Ctx *c, const Nest *n, bool *keep);
/* Split axes that appear under // and % by a constant that divides them, drop axes of extent 1,
 * simplify every Expr with the axes' ranges, drop guards that are proved inside. Parallel axes are
 * split where a product shows that was hidden: a grouped or a transposed convolution's. n itself if
 * it is simple. */
const Nest *nest_simplify(Ctx *c, const Nest *n);
/* Divisors that a sum does not vary with divide the sum instead; n itself if there are none. */
const Nest *nest_factor(Ctx *c, const Nest *n);
/* Reads input `slot` as it lies in a format: the input has its physical type. NULL, quietly, where
 * a read may be outside of the tensor: what is outside is then inside of the padding. */
const Nest *nest_relayout(Ctx *c, const Nest *n, uint32_t slot, const Format *format);
/* Parameter `slot` lies with its dimensions in another order: dimension d of what is read or
 * written there is the old order[d]. */
const Nest *nest_permute(Ctx *c, const Nest *n, uint32_t slot, const uint8_t *order);
/* Parallel axes behind the first `kept` in the order in which the first write's dimensions name
 * them; n itself where they are, or an extent is computed from axes or data. */
const Nest *nest_axes_as_written(Ctx *c, const Nest *n, uint32_t kept);
/* Parallel axes in the order in which they are the dimensions of a read, others behind, and those
 * of one point in front. */
const Nest *nest_axes_as_read(Ctx *c, const Nest *n, const Scalar *load);
/* The same axes, reads and values with a dimension of the outputs for every axis that writes are
 * placed by: o[4*j + k] to 12 elements becomes o[j, k] to 3 by 4, which lie the same in memory. n
 * itself where each dimension is one axis already. */
const Nest *nest_bare(Ctx *c, const Nest *n);
/* The parameter behind `load` laid out as [axis[0], axis[1], …], which are all axes that the load
 * uses: the nest reads it there, and *move makes it of the old one. NULL where the parameter is
 * read elsewhere as well. */
const Nest *nest_relay_input(Ctx *c, const Nest *n, const Scalar *load, const uint32_t *axis,
                             uint32_t rank, const Nest **move);
/* The only output laid out as all parallel axes in the order given; *move makes the old one of
 * it. */
const Nest *nest_relay_output(Ctx *c, const Nest *n, const uint32_t *axis, uint32_t rank,
                              const Nest **move);
/* Two summands at a time: sums of i32 of products of integers of 16 bits (dot2), and of f32 of
 * products of bf16 (dot2f), as far as there is such a step; n itself where it is neither. */
const Nest *nest_pair_products(Ctx *c, const Nest *n, bool integers, bool floats);
/* The same of 8 bits, four at a time (dot4). constant[i]: input i is; constant factors are taken
 * for the signed side if they can be. What one factor lacks to be unsigned, or the other to be
 * signed, counts times the sums of the other: nests that make them of n's inputs, one for each new
 * input behind the others. */
enum { MOST_QUAD_SUMS = 2 };
typedef struct {
    uint32_t n;
    const Nest *nest[MOST_QUAD_SUMS];
} QuadSums;
const Nest *nest_quad_products(Ctx *c, const Nest *n, const bool *constant, QuadSums *sums);
/* A sum of whole numbers over a window and over what lies at each of its points, in two: *points
 * sums what lies at each point, of n's inputs; the result reads that as a last input. NULL,
 * quietly: it is none. (window_sum.c) */
const Nest *nest_window_sum(Ctx *c, const Nest *n, const Nest **points);
/* The only output is, along one dimension, input `slot` from its beginning to its end, and behind
 * it something else, as a concatenation is: that something as a nest of its own, of those inputs
 * that keep[nin] tells. *dim: that dimension. NULL, quietly, where it is something else. */
const Nest *nest_behind(Ctx *c, const Nest *n, uint32_t slot, uint32_t *dim, bool *keep);
/* The only output is all inputs side by side along dimension *dim, each once and nothing else: slot
 * [nin] in their order. */
bool nest_beside(Ctx *c, const Nest *n, uint32_t *dim, uint32_t *slot);
/* A factor of a product as a tensor of its own, in place of input *slot, of which it reads most:
 * *made computes it, of those inputs of n that keep[nin] tells. NULL, quietly, where the factor is
 * a bare read of no more, or what it reads follows from more than its own axes, or is read
 * elsewhere as well. */
const Nest *nest_outline_factor(Ctx *c, const Nest *n, const Scalar *factor, uint32_t *slot,
                                const Nest **made, bool *keep);
/* n without the sum of its only product, which is the last input instead, of the output's type:
 * keep[nin + 1] tells which inputs stay. Write 0 is at bare axes. */
const Nest *nest_outline_sum(Ctx *c, const Nest *n, const Scalar *sum, bool *keep);
/* A reduction axis walked from its end: floats are added in another order. */
const Nest *nest_reverse(Ctx *c, const Nest *n, uint32_t axis);
/* A nest with substituted symbols (binding of VAR_SYMBOL). */
const Nest *nest_bind(Ctx *c, const Nest *n, const Binding *b, uint32_t nb);

#endif
