/* point: named loops whose leaves are still nests. The steps of a schedule rearrange them
 * (doc/schedule.md).
 *
 * At first every part (stage) of a kernel is a perfect nest of loops over its axes; the shared ones
 * are once, outside. A step splits, fuses, reorders or runs loops, or gives a sum or an operand a
 * buffer. No step touches what a leaf computes: a leaf says "part p at this point", and the point
 * follows from the loops around it.
 *
 *     i: j: k: o        after   split j by 8 -> jb l,  order i jb k l,  hold o at jb -> acc reg
 *     i: jb: { l: acc begins;  k: l: acc sums;  l: o is finished }
 *
 * Iterators. A loop runs over an iterator. The first ones are axes; splitting makes two of one,
 * fusing one of several. An iterator need not have a loop: its value follows from its parts (j =
 * 8*jb + l), or from the fused iterator of which it is a digit. One iterator may be split in
 * different ways in different subtrees (the copy of an operand visits the same points as the sum
 * that reads it, in its own steps).
 *
 * Parts computed at a loop (`put`). A part that is computed inside a loop of its readers has loops
 * over their required region. Its axes begin where the region does: axis = lo + the iterator that
 * runs over the box.
 *
 * Buffers. A hold is the accumulator of a part's reduction; a copy is an operand packed for its
 * readers. Both are indexed by iterators, so all users of the same point agree.
 */
#ifndef TENON_POINT_H
#define TENON_POINT_H

#include "kernel/support.h"
#include "schedule/internal.h"
#include "schedule/program.h"
#include "schedule/input_tile.h"

typedef uint32_t IterId; /* index into Points.iter; 0 is "none" */

typedef struct {
    Sym name;
    AxisKind kind;
    /* the axis, the same one of every part if it is shared; NEST_MAX_AXES: made by steps */
    uint32_t part, axis;
    IterId parent, sibling; /* parent = factor * outer + inner, this being one of the two */
    bool inner;
    int64_t factor;
    Word tail;
    int64_t rest; /* the last, partial iteration is in blocks of this (peel 4, pad 16); 0: none */
    IterId whole; /* the fused iterator that this is a digit of; 0: none */
    uint32_t nfrom;
    IterId *from; /* the digits of this one, outermost first */
    bool pitched; /* the pitch of the padded input tile under the window separates its digits */
    /* the extent of a dimension that is filled, or of an image's row; NULL: an axis has it */
    const Expr *size;
    /* an axis of a part computed at a loop: the iterator over its box; 0: the axis itself */
    IterId box;
    uint32_t put; /* … and for that one: the number of the put; 0: none */
    uint32_t dim; /* … the dimension of the part's value */
    /* runs over the points of a skip: its number; 0: none */
    uint32_t skip;
    IterId with; /* equal to this one: their loops were fused; 0: none */
} Iter;

/* NODE_WALK: a loop that crosses the ends of rows, and runs row by row. NODE_IMAGE: all loops of a
 * padded input tile's copy; they follow from its positions, and steps cannot name them
 * (lower_input_tile.c). */
typedef enum { NODE_LOOP, NODE_WALK, NODE_IMAGE, NODE_LEAF } LoopNodeKind;
typedef enum {
    PHASE_COMPLETE, /* the part, its reduction included */
    PHASE_INIT,     /* the sum begins */
    PHASE_UPDATE,   /* one summand */
    /* a part of the sum is complete, and is added to the enclosing hold */
    PHASE_FLUSH,
    PHASE_FINISH,    /* the sum is complete: the epilogue, and the store */
    PHASE_COPY,      /* an operand is copied */
    PHASE_TRANSPOSE, /* a packed tile is transposed */
    PHASE_FILL,      /* an output is initialised: it accumulates later */
    /* the maximum so far is stored, and the factor by which earlier sums are scaled */
    PHASE_RESCALE,
} Phase;

/* The first and the last iterations of a loop that are peeled. */
typedef struct {
    IterId x;
    int64_t first, last;
} Border;

typedef struct LoopNode LoopNode;
struct LoopNode {
    LoopNodeKind kind;
    LoopNode *up; /* NULL at the root */
    Phase phase;
    Sym prefix;    /* loops are called prefix.name: "acc.fin"; NULL: name alone */
    IterId iter;   /* of a loop; 0 at the root, which runs once */
    Word run;      /* serial, unroll, vector, parallel */
    int64_t lanes; /* of a vector loop */
    /* of a loop: the iterations at its begin, and at its end, that are loops of their own */
    int64_t first, last;
    uint32_t part, hold, copy; /* of a leaf or image; hold and copy count from 1, 0 is none */
    /* of a leaf that fills: the write, and the iterators of its dimensions; 0: an axis */
    uint32_t write;
    const IterId *dim;
    VEC(LoopNode *) body;
    VEC(uint32_t) holds, copies; /* buffers declared where the body begins */
    VEC(Border) border;          /* iterations between borders are separate loops */
    /* parts that are computed here: the beginning of their boxes is known from here on */
    VEC(uint32_t) puts;
};

/* The accumulator of a part: a reduction, of one item or (argmax) two; or the last element of a
 * scan. */
typedef struct {
    Sym name;
    uint32_t part;
    LoopNode *at, *update; /* the loop that declares it, the leaf that adds to it */
    Word space;
    uint32_t nover;
    IterId over[STEP_MAX_LOOPS];
    /* the enclosing hold that this one is part of; 0: none */
    uint32_t outer;
    bool fresh; /* begins at the identity: no summand precedes */
    /* the common factor of its summands, and a summand without it: the sum is multiplied at the
     * end; NULL: none */
    const Scalar *factor, *rest;
    /* read while it grows, or scaled while it grows; 0: none */
    uint32_t online;
    /* made when it is lowered: */
    /* place: of the second item, for argmax and argmin */
    uint32_t buffer, place, ndim, lanes;
    IterId dim[STEP_MAX_LOOPS]; /* `over` iterators among them */
    /* lanes are summands, to be combined; otherwise lanes are outputs */
    bool over_lanes;
} Hold;

typedef struct {
    Sym name;
    uint32_t part;
    const Scalar *operand; /* of the nest: the operand that is copied */
    LoopNode *at, *leaf;
    Word space;
    bool odd; /* its rows are an odd number of cache lines apart */
    /* stored as rows dim[0] of lanes dim[1], read as rows dim[1] of lanes dim[0] */
    bool transposed;
    /* iterations of `at` by which its memory is prefetched; 0: not */
    int64_t ahead;
    bool far; /* … into L2, not L1 */
    /* the only reader of this copy is another copy; 0: the part reads it */
    uint32_t into;
    uint32_t ndim;
    IterId dim[STEP_MAX_LOOPS];
    /* a padded copy of what a window reads instead; dim[0] runs along it, `along` makes its rows */
    InputTile *image;
    IterId along;
    uint32_t buffer, lanes; /* made when it is lowered */
    uint32_t rows;          /* of a transposed one: the buffer it is stored in */
} Copy;

typedef struct {
    uint32_t part, local; /* the buffer of the kernel that it makes */
    LoopNode *at;
    /* along each dimension of its value; 0: it has one point there */
    IterId box[TN_MAX_RANK];
    uint32_t dim[TN_MAX_RANK]; /* the dimensions in memory order, outermost first */
    /* made when it is lowered: */
    /* of its box along each dimension, before anything is known: its beginning, and its largest
     * extent */
    const Expr *first[TN_MAX_RANK], *most[TN_MAX_RANK];
    /* the extent at the enclosing loops */
    const Expr *points[TN_MAX_RANK];
    LocalBox *home;
} Put;

/* A reduction restricted to the points that its rows need in an iteration of a loop
 * (step_skip.c). */
typedef struct {
    uint32_t part, axis;
    LoopNode *at;
    IterId box; /* the iterator over them */
    /* they begin at a multiple of this, and end at one or with the axis */
    int64_t by;
    Support support;
} Skip;

/* A maximum and sums that use it, in one loop over blocks (step_online.c). */
typedef struct {
    LoopNode *at_loop;
    uint32_t max, weight; /* parts: the maximum, the value computed with it */
    uint32_t local;       /* the buffer of the maximum */
    uint32_t nsum, sum[STEP_MAX_LOOPS];
    const Expr **at[STEP_MAX_LOOPS]; /* of each sum, by its axes: the index of its maximum */
    /* made when it is lowered: the factor of sums, a buffer like the maximum's */
    uint32_t factor;
} Online;

/* Iterations that are omitted where a table says that no row sees a point of their block
 * (step_omit.c). */
typedef struct {
    LoopNode *at_loop, *rows; /* the loop over blocks; the loop whose iteration's rows count */
    uint32_t part, axis;      /* that the blocks are of */
    /* the element, by the part's axes, that is 0 where a point adds nothing */
    const Scalar *table;
    /* made when it is lowered: the list of the other iterations, and their condition, over a
     * variable of the list's own */
    uint32_t list;
    const Scalar *shown;
    const Expr *end;
} Omit;

/* What an operand reads in the next iteration of loop `of` is prefetched in iterations of loop `at`
 * (step_copy.c). */
typedef struct {
    uint32_t part;
    const Scalar *operand;
    LoopNode *at, *of;
    Binding next; /* made when it is lowered: of `of`'s iteration; to NULL: there is none */
} Prefetch;

typedef struct Points {
    Ctx *c;
    Arena *a;
    Kernel *k;
    const Machine *m;
    VEC(Iter) iter;
    VEC(Hold) hold;     /* [0] unused */
    VEC(Copy) copy;     /* [0] unused */
    VEC(Put) put;       /* [0] unused */
    VEC(Online) online; /* [0] unused */
    VEC(Skip) skip;     /* [0] unused */
    VEC(Omit) omit;
    VEC(Prefetch) prefetch;
    LoopNode *root;
    IterId (*axis)[NEST_MAX_AXES]; /* [part][axis] */
    uint32_t apart; /* every part has loops of its own for that many of the innermost shared axes */
    /* [nin + nout] arguments with non-temporal stores; NULL: none */
    Stream *stream;
    const char *why; /* the first step that failed, and why; NULL: none */
} Points;

/* The kernel's parts as perfect nests. A part that accumulates, or leaves gaps, has its outputs
 * filled before; axes that are complete dimensions of them are around both. A part with several
 * reductions, or with one in a scan, has no loops for them: they are computed where they are
 * read. */
Points *points_of(Ctx *c, Arena *a, Kernel *k, const Machine *m);
/* Apply one step. False: `why` says what it needs and what to do. */
bool points_step(Points *p, const Step *s);
/* Fill k->tree from the points. */
bool points_lower(Points *p);
/* The order of the reductions below n, a line for each leaf (summation_order.c). */
void points_summation_order(const Points *p, const LoopNode *n, Text *t);

/* ---- for the files that apply steps ---------------------------------------------------------- */

/* Sets `why`; returns false. */
bool points_refuse(Points *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
LoopNode *node_new(Points *p, LoopNodeKind kind, LoopNode *up, Phase phase, Sym prefix);
LoopNode *node_loop(Points *p, LoopNode *up, IterId x, Phase phase, Sym prefix);
/* The place of a child in the body that contains it; moves the last child to a place; removes a
 * child. */
uint32_t node_place(const LoopNode *up, const LoopNode *child);
void node_move_last(LoopNode *up, uint32_t place);
void node_detach(LoopNode *up, const LoopNode *child);
/* The one leaf below n; NULL: there are several. */
LoopNode *node_only_leaf(const LoopNode *n);
/* The loop of this name, "acc.fin.j"; "all": the root. NULL, refused: none. */
LoopNode *points_loop(Points *p, Sym name);
IterId points_iter(Points *p, Sym name); /* the iterator of this name; 0, refused */
IterId iter_new(Points *p, Sym name, AxisKind kind);
bool name_is_free(Points *p, Sym name, Sym prefix); /* or refused */
/* The leaf that adds to (or is) part `part`. */
LoopNode *part_leaf(Points *p, uint32_t part);
/* The number of the part whose result has this name; NO_SLOT, refused. */
uint32_t points_part(Points *p, Sym name);
/* Is n inside loop `around`? */
bool node_inside(const LoopNode *n, const LoopNode *around);
/* Its one reduction, which has loops of its own; NULL: none. */
const Scalar *part_reduction(const Points *p, uint32_t part);
/* An unknown value: in place of one that is not to be examined. A number would be simplified. */
const Scalar *value_unknown(Ctx *c, DType t);
/* Item i of a reduction, as the values of the nest name it. */
const Scalar *reduction_item(Ctx *c, const Scalar *reduce, uint32_t i);
/* Maps every item of a reduction to an unknown value. */
void reduction_left_out(Ctx *c, Map *values, const Scalar *reduce);
/* Of a scan that reads only the previous element of its output: that read; NULL: no such scan. */
const Scalar *part_previous(const Points *p, uint32_t part);
bool part_is_filled(const Points *p, uint32_t part); /* are its outputs, before it runs? */
/* Is the axis a complete dimension of every write, so that its iterations write separate
 * elements? */
bool axis_separates_writes(Ctx *c, const Nest *n, uint32_t axis);
Sym part_name(const Points *p, uint32_t part); /* the name of its result */
/* Is the value of x known inside loop `at`, given the iterators of a list? */
bool iter_is_known(const Points *p, const LoopNode *at, IterId x, const IterId *dim, uint32_t ndim);
/* Do a part's boxes begin at one index along this dimension, in all iterations inside `at`? */
bool box_is_steady(const Points *p, const Put *put, uint32_t dim, const LoopNode *at);
/* Are two loops restricted to the same points, if at all? (step_skip.c) */
bool points_same_skip(const Points *p, IterId a, IterId b);
/* Are all loops with omitted blocks still as the steps found them? (step_omit.c) */
bool omits_hold(Points *p);
/* Do non-temporal stores write complete lines, now that there is a tree? (step_stream.c) */
bool streams_are_lines(Points *p);
/* The reads of a buffer in all parts. */
typedef struct {
    uint32_t part;
    Access access;
} PartRead;
typedef VEC(PartRead) PartReads;
PartReads points_reads(const Points *p, uint32_t buffer);
/* A read of a buffer in a value of a part; NULL: none. */
const Scalar *value_reads(const Points *p, uint32_t part, const Scalar *value, uint32_t buffer);
/* Does the leaf itself read it? */
bool leaf_reads(const Points *p, const LoopNode *leaf, uint32_t buffer);

/* A step each, by the verb's name (step_loops.c, step_cut.c, step_hold.c, step_copy.c, step_put.c,
 * step_skip.c, step_online.c, step_omit.c, step_stream.c). */
bool step_split(Points *p, const Step *s);
bool step_fuse(Points *p, const Step *s);
bool step_order(Points *p, const Step *s);
bool step_apart(Points *p, const Step *s);
bool step_cut(Points *p, const Step *s);
bool step_case(Points *p, const Step *s);
bool step_run(Points *p, const Step *s);
bool step_hold(Points *p, const Step *s);
bool step_stage(Points *p, const Step *s);
bool step_image(Points *p, const Step *s);
bool step_walk(Points *p, const Step *s);
bool step_lay(Points *p, const Step *s);
bool step_put(Points *p, const Step *s);
bool step_skip(Points *p, const Step *s);
bool step_online(Points *p, const Step *s);
bool step_omit(Points *p, const Step *s);
bool step_prefetch(Points *p, const Step *s);
bool step_stream(Points *p, const Step *s);
bool step_alone(Points *p, const Step *s);

#endif
