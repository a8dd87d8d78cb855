/* nest: one operator's meaning as a perfect loop nest. It says what is computed, never how.
 *
 *   nest conv(x: f32[b, c, h, w], w: f32[f, c, 3, 3]) -> (o: f32[b, f, h // 2, w // 2]) {
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
    AXIS_PARALLEL, /* indexes the writes */
    AXIS_REDUCE,   /* bound by a reduction */
    /* indexes the writes, and runs in order: the value may read its own output at earlier points of
     * this axis */
    AXIS_SCAN,
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
    /* with a combiner: the input with the initial contents (same type), or NO_SLOT: the combiner's
     * identity (COMB_LAST: 0) */
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
void nest_ins(NestBuilder *b, const Nest *n);                      /* all inputs of n, in order */
/* its number among outputs */
uint32_t nest_out(NestBuilder *b, const char *name, const Type *t);
/* A new axis, as its Expr. */
const Expr *nest_axis(NestBuilder *b, const char *name, AxisKind kind, const Expr *extent);
/* One parallel axis per dimension of t, into axis[0..rank). */
void nest_axes_of(NestBuilder *b, const Type *t, const Expr **axis);
const Scalar *nest_load(NestBuilder *b, uint32_t slot, const Expr *const *at);
const Scalar *nest_load_or(NestBuilder *b, uint32_t slot, const Expr *const *at,
                           const Scalar *outside);
void nest_write(NestBuilder *b, uint32_t out, const Expr *const *at, const Scalar *value);
const Nest *nest_finish(NestBuilder *b); /* NULL, reported as internal, if nest_verify fails */
/* A nest without inputs: `value`, over the axes of its output, at each point of a type. */
const Nest *nest_of_scalar(Ctx *c, const char *name, const Type *t, const Scalar *value);

/* Invariants, numbered in verify.c; reports the first that fails. */
bool nest_verify(Ctx *c, const Nest *n, DiagClass class);

/* ---- queries --------------------------------------------------------------------------------- */

/* Ranges of all axes, for the expr proofs. */
Ranges nest_ranges(Ctx *c, Arena *a, const Nest *n);
AxisSet nest_axes_of_kind(const Nest *n, AxisKind k);
/* Is its extent computed from other axes or from data? */
bool axis_varies(const Axis *a);
/* Item i of a reduction before the first point: the combiner's identity, and for an index that of
 * the first point. Data equal to the identity still give the first such point's index. */
const Scalar *nest_reduction_begin(Ctx *c, const Nest *n, const Scalar *reduce, uint32_t i);
/* Adds the symbols of its types, then those of its extents, indices and values. */
void nest_symbols(SymbolSet *s, const Nest *n);
void scalar_symbols(SymbolSet *s, const Scalar *value);
/* The axis that an Expr is; NO_SLOT: it is something else. Its bit; 0. */
uint32_t axis_of(const Expr *e);
AxisSet axis_bit(const Expr *e);
/* axes an Expr uses, inside computed values too */
AxisSet expr_axes(const Expr *e);

/* All reads, in the order of their ids. */
typedef struct {
    const Scalar *load;
    AxisSet reduce; /* enclosing reductions */
    bool conditional;
} Access;
typedef struct {
    Access *at;
    uint32_t n;
} Accesses;
Accesses nest_accesses(Ctx *c, Arena *a, const Nest *n);

/* A condition on sizes that keeps a nest within its tensors: two numbers are equal; otherwise
 * `why`, with {got} and {want} for them, is the message. */
typedef struct {
    const Expr *got, *want;
    const char *why;
} Demand;
typedef VEC(Demand) Demands;
/* A size `own` is `all`, or if it broadcasts 1. */
typedef struct {
    const Expr *own, *all;
    bool or_one;
} KnownSize;
typedef VEC(KnownSize) KnownSizes;
/* A hand-written nest in which no access leaves its tensor once the added demands hold: an access
 * that neither a proof nor a demand settles is checked at run time. known: what the graph requires
 * anyway. NULL, reported: an access is outside at all sizes. */
const Nest *nest_in_bounds(Ctx *c, Arena *a, const Nest *n, const KnownSizes *known,
                           Demands *demands);

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

/* Of a factor made of constants alone, given by `known`: the one read that varies with every axis
 * that any read varies with. Its other reads are scales and zero points of groups. An axis may be
 * in none: it counts the elements that share a read. NULL: there is no such read. */
const Scalar *nest_constant_read(Ctx *c, const Scalar *factor,
                                 bool (*known)(void *user, uint32_t slot), void *user);

/* Box of an input that a box of outputs needs: for each dimension of the read, lowest index and
 * width, when axis k runs over [lo[k], lo[k] + width[k]). NULL entries where computed from data. */
void access_region(Ctx *c, const Access *a, uint32_t naxis, const Expr *const *lo,
                   const Expr *const *width, const Expr **out_lo, const Expr **out_width);

/* The least and the greatest value of e in such a box. False: unknown, or computed from data of
 * which the box has several. */
bool expr_region(Ctx *c, const Expr *e, uint32_t naxis, const Expr *const *lo,
                 const Expr *const *width, const Expr **least, const Expr **most);

typedef struct {
    const Expr *points, *add, *mul, *div, *special, *bytes_read, *bytes_written;
} NestCost;
NestCost nest_cost(Ctx *c, const Nest *n); /* over the whole domain */
/* Operations if nothing is computed twice: each node once for every point of the axes that it
 * varies with. */
const Expr *nest_least_operations(Ctx *c, const Nest *n);

/* About how many instructions the values of one point have, loops counted once: the size of the
 * code. */
uint32_t nest_code(Ctx *c, const Nest *n);

/* Less than an eighth of the L2 of any processor of the machine table (512 KB) stays in it, widened
 * or not. */
enum { NEST_LEAST_WIDE = 1 << 16 };
/* Is the result, of inputs that take `stored` bytes in the artefact, better computed where it is
 * read than stored: larger, elementwise, and little work? (widen.c) */
bool nest_widens(Ctx *c, const Nest *n, int64_t stored);

/* ---- rebinding ------------------------------------------------------------------------------- */

/* Merges parameters of one tensor, given as `same[i] = j < i`. */
const Nest *nest_merge_params(Ctx *c, const Nest *n, const uint32_t *same);
/* Drops inputs without readers, and their entries of of[nin + nout], what the caller knows of the
 * parameters. */
const Nest *nest_drop_unused(Ctx *c, const Nest *n, uint32_t *of);
/* A nest with substituted symbols (binding of VAR_SYMBOL). */
const Nest *nest_bind(Ctx *c, const Nest *n, const Binding *b, uint32_t nb);
/* The same axes, reads and values, with a dimension of the outputs for every axis that indexes
 * them: o[4*j + k] to 12 elements becomes o[j, k] to 3 by 4, which is the same memory. n itself if
 * each dimension is one axis already. */
const Nest *nest_dim_per_axis(Ctx *c, const Nest *n);

#endif
