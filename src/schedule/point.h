/* point: loops with names whose leaves are still nests. This is what the steps of a schedule
 * rearrange.
 *
 * In the beginning every part of a kernel is a perfect nest of loops over its axes; axes that the
 * parts share stand once, outside. A step cuts, joins, reorders or runs loops, or gives a sum or an
 * operand a buffer. No step touches what a leaf computes: a leaf says "part p at this point", and
 * where the point is follows from the loops around it.
 *
 *     i: j: k: o                      as it begins; then after   split j by 8 -> jb l,   order i jb
 *     k l,   hold o at jb -> acc reg i: jb: { l: acc begins;   k: l: acc sums;   l: o is finished }
 *
 * Iterators. A loop runs over an iterator. The first ones are axes; splitting makes two of one,
 * fusing one of several. An iterator need not have a loop: it has a value wherever its pieces have
 * (j = 8*jb + l), or the whole that it is a digit of. One iterator may be cut in different ways in
 * different subtrees (the copy of an operand goes over the same points as the sum that reads it, in
 * its own steps).
 *
 * Puts. A part that is computed inside a loop of its readers has loops over the box that they need
 * there. Its axes begin where the box does: axis = lo + the iterator that runs over the box.
 *
 * Buffers. A hold is where a part's reduction lives between its first summand and its last; a copy
 * is where an operand was put to be read from. Both are indexed by iterators, so all who look at
 * the same point agree.
 */
#ifndef TENON_POINT_H
#define TENON_POINT_H

#include "kernel/support.h"
#include "schedule/internal.h"
#include "schedule/program.h"
#include "schedule/stage.h"

typedef uint32_t IterId; /* index into Points.iter; 0 is "none" */

typedef struct {
    Sym name;
    AxisKind kind;
    /* stands for this axis, and the same one of every part where it is shared; axis is
     * NEST_MAX_AXES for what steps made */
    uint32_t part, axis;
    IterId parent, sibling; /* a piece of parent = factor * outer + inner */
    bool inner;
    int64_t factor;
    Word tail;
    int64_t rest; /* of the last, partial trip */
    IterId whole; /* a digit of this one */
    uint32_t nfrom;
    IterId *from;     /* the digits of this one, the slowest first */
    bool pitched;     /* its rows lie at the pitch of the image under the window */
    const Expr *size; /* of a dimension that is filled: as many trips; else NULL */
    /* an axis of a part that was put: what runs over its box; 0: the axis itself */
    IterId box;
    uint32_t put; /* … and that: of which put it is; 0: of none */
    uint32_t dim; /* … along which dimension of the part's value */
    /* runs over the points that rows need: of which skip it is; 0: of none */
    uint32_t skip;
    IterId with; /* is where this one is: their loops were joined; 0: none */
} Iter;

typedef enum { NODE_LOOP, NODE_WALK, NODE_LEAF } NodeKind;
typedef enum {
    PHASE_WHOLE,  /* the part, its reduction included */
    PHASE_INIT,   /* the sum begins */
    PHASE_UPDATE, /* one summand */
    /* a part of the sum is whole, and goes to the hold around it */
    PHASE_FLUSH,
    PHASE_FINISH, /* the sum is whole: what stands around it, and the store */
    PHASE_COPY,   /* an operand is copied */
    PHASE_TURN,   /* a copied tile is transposed */
    PHASE_FILL,   /* an output begins: what is added to it comes later */
    /* the maximum so far is noted, and by how much what was summed with the one before is too
     * large */
    PHASE_RESCALE,
} Phase;

/* So many of an iterator's first points and of its last ones. */
typedef struct {
    IterId x;
    int64_t first, last;
} Border;

typedef struct Node Node;
struct Node {
    NodeKind kind;
    Node *up; /* NULL at the root */
    Phase phase;
    Sym prefix;    /* loops are called prefix.name: "acc.fin"; NULL: name alone */
    IterId iter;   /* of a loop; 0 at the root, which runs once */
    Word run;      /* serial, unroll, vector, parallel */
    int64_t lanes; /* of a walk */
    /* of a loop: so many trips at its begin, and at its end, are loops of their own */
    int64_t first, last;
    uint32_t part, hold, copy; /* of a leaf; hold and copy count from 1, 0 is none */
    /* of a leaf that fills: which write, and what runs along its dimensions; 0: an axis does */
    uint32_t write;
    const IterId *dim;
    VEC(Node *) body;
    VEC(uint32_t) holds, copies; /* buffers that come alive where the body begins */
    VEC(Border) border;          /* what is done between them stands apart */
    /* parts that are computed there: where their boxes begin is known from then on */
    VEC(uint32_t) puts;
};

/* What a part adds up: a reduction, of one item or (argmax) of two; or the last element of a
 * scan. */
typedef struct {
    Sym name;
    uint32_t part;
    Node *at, *update; /* the loop it lives in, the leaf that adds to it */
    Word space;
    uint32_t nover;
    IterId over[STEP_MAX_LOOPS];
    /* the hold that this one is a part of: begins from it and ends in it; 0: none */
    uint32_t outer;
    bool fresh; /* begins at the identity: no summand came before */
    /* what its summands share, and a summand without it: the sum is multiplied as it ends; NULL:
     * nothing */
    const Scalar *factor, *rest;
    /* goes on while others read it, or is scaled as it does; 0: none */
    uint32_t online;
    /* made when it is lowered: */
    /* place: of the second item, where the reduction picks */
    uint32_t buffer, place, ndim, lanes;
    IterId dim[STEP_MAX_LOOPS]; /* `over` iterators among them */
    /* lanes are summands, to be combined; else lanes are outputs */
    bool over_lanes;
} Hold;

typedef struct {
    Sym name;
    uint32_t part;
    const Scalar *operand; /* of the nest: what is copied */
    Node *at, *leaf;
    Word space;
    bool odd;
    /* rows dim[0] of lanes dim[1] as it is made; rows dim[1] of lanes dim[0] as it is read */
    bool turned;
    /* trips of `at` that its memory is fetched before; 0: it is not */
    int64_t ahead;
    bool far; /* … into the second cache, not the first */
    /* the copy that reads it as it is made, alone; 0: the part does */
    uint32_t into;
    uint32_t ndim;
    IterId dim[STEP_MAX_LOOPS];
    /* a padded copy of what a window reads instead; dim[0] is what runs along it */
    Stage *image;
    uint32_t buffer, lanes; /* made when it is lowered */
    uint32_t rows;          /* of a turned one: the buffer it is made in */
} Copy;

typedef struct {
    uint32_t part, local; /* the buffer of the kernel that it makes */
    Node *at;
    /* along each dimension of its value; 0: it has one point there */
    IterId box[TN_MAX_RANK];
    uint32_t dim[TN_MAX_RANK]; /* the dimensions as they lie in memory, the slowest first */
    /* made when it is lowered: */
    /* of its box along each dimension, before anything is known: where it begins, and how many
     * points it has at most */
    const Expr *first[TN_MAX_RANK], *most[TN_MAX_RANK];
    /* where loops stand: how many there are, by what the loops around say */
    const Expr *points[TN_MAX_RANK];
    LocalBox *home;
} Put;

/* A reduction that runs over the points that its rows need in a trip of a loop, and over no others
 * (step_skip.c). */
typedef struct {
    uint32_t part, axis;
    Node *at;
    IterId box; /* runs over them */
    /* they begin at a multiple of this, and end at one or with the axis */
    int64_t by;
    Support support;
} Skip;

/* A maximum and sums of what is made with it, in one loop over blocks (step_online.c). */
typedef struct {
    Node *at_loop;
    uint32_t max, weight; /* parts: the maximum, what is made with it */
    uint32_t local;       /* the buffer of the kernel that the maximum is in */
    uint32_t nsum, sum[STEP_MAX_LOOPS];
    const Expr **at[STEP_MAX_LOOPS]; /* of each sum, by its axes: where its maximum is */
    /* the element of a table, by the maximum's axes, that is 0 where a block may be omitted
     * (step_omit.c); NULL: none is */
    const Scalar *table;
    /* made when it is lowered: what sums are scaled by, a buffer like the maximum's */
    uint32_t factor;
} Online;

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
    Node *root;
    IterId (*axis)[NEST_MAX_AXES]; /* [part][axis] */
    /* shared axes, of the innermost, that stand in each part by itself */
    uint32_t apart;
    int64_t grain; /* 0: not said */
    /* [nin + nout] arguments that go past the caches; NULL: none */
    Stream *stream;
    const char *why; /* the first step that failed, and why; NULL: none did */
} Points;

/* The kernel's parts as perfect nests. Where a part adds to what is there, or leaves gaps, its
 * outputs are filled before; axes that are whole dimensions of them stand around both. A part with
 * several reductions, or with one in a scan, has no loops for them: they are computed where they
 * are read. */
Points *points_of(Ctx *c, Arena *a, Kernel *k, const Machine *m);
/* Apply one step. False: `why` says what it needs and what would do. */
bool points_step(Points *p, const Step *s);
/* Fill k->tree from the points. */
bool points_lower(Points *p);
/* The order of the reductions below n, a line for each leaf (sums.c). */
void points_sums(const Points *p, const Node *n, Text *t);

/* ---- for those who apply steps --------------------------------------------------------------- */

/* false */
bool points_refuse(Points *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
Node *node_new(Points *p, NodeKind kind, Node *up, Phase phase, Sym prefix);
Node *node_loop(Points *p, Node *up, IterId x, Phase phase, Sym prefix);
/* A child leaves the body it stands in. */
void node_detach(Node *up, const Node *child);
/* The loop of this name, "acc.fin.j"; "all": the root, around everything. NULL, refused, if there
 * is none. */
Node *points_loop(Points *p, Sym name);
IterId points_iter(Points *p, Sym name); /* the iterator of this name; 0, refused */
IterId iter_new(Points *p, Sym name, AxisKind kind);
/* What lives in the body of one loop lives in the other's. */
void points_live_at(Points *p, const Node *was, Node *is);
bool name_is_free(Points *p, Sym name, Sym prefix); /* or refused */
/* The leaf that adds to (or is) part `part`, and its number by the name of what it makes; NO_SLOT,
 * refused. */
Node *part_leaf(Points *p, uint32_t part);
uint32_t points_part(Points *p, Sym name);
/* Is n inside loop `around`? */
bool node_inside(const Node *n, const Node *around);
/* Its one reduction, which has loops of its own; NULL: it has none, or none that has. */
const Scalar *part_reduction(const Points *p, uint32_t part);
/* A value of which nothing follows: in place of one that is not to be looked at. A number would
 * make others be left out with it. */
const Scalar *value_unknown(Ctx *c, DType t);
/* Its items, as the values of the nest name them, and unknown values in place of those. */
const Scalar *reduction_item(Ctx *c, const Scalar *reduce, uint32_t i);
void reduction_left_out(Ctx *c, Map *values, const Scalar *reduce);
/* Of a scan that reads no more of its output than the element before: that read; NULL: it is none,
 * or reads others. */
const Scalar *part_previous(const Points *p, uint32_t part);
bool part_is_filled(const Points *p, uint32_t part); /* before it runs */
/* Is the axis a whole dimension of all that the nest writes, so that its trips write apart? */
bool axis_writes_apart(Ctx *c, const Nest *n, uint32_t axis);
Sym part_name(const Points *p, uint32_t part); /* of what it makes */
/* Is the value of x known inside loop `at`, given the iterators of a list? */
bool iter_is_known(const Points *p, const Node *at, IterId x, const IterId *dim, uint32_t ndim);
/* Do a part's boxes begin at one place along this dimension, as far as `at` is around them? */
bool box_is_steady(const Points *p, const Put *put, uint32_t dim, const Node *at);
/* Are two loops shortened to the same points, if at all? (step_skip.c) */
bool points_same_skip(const Points *p, IterId a, IterId b);
/* The reads of a buffer that a leaf makes itself; false: it makes none. */
bool leaf_reads(const Points *p, const Node *leaf, uint32_t buffer);

/* A step each, by the verb's name (step_loops.c, step_cut.c, step_hold.c, step_copy.c, step_put.c,
 * step_skip.c, step_online.c, step_omit.c, step_together.c, step_stream.c). */
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
bool step_together(Points *p, const Step *s);
bool step_stream(Points *p, const Step *s);
bool step_alone(Points *p, const Step *s);
bool step_grain(Points *p, const Step *s);

#endif
