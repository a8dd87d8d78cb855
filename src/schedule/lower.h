/* lower: what the files that lower points share: where iterators are, and the buffers over them. */
#ifndef TENON_LOWER_POINTS_H
#define TENON_LOWER_POINTS_H

#include "schedule/point.h"

typedef enum { TRIP_ANY, TRIP_WHOLE, TRIP_REST, TRIP_TILES } Trip;

typedef struct {
    const Expr *value;  /* NULL: follows from others, or not known */
    const Expr *extent; /* NULL: follows from the step that made it */
    const Expr *start;  /* of an outer piece: the first point of this trip */
    const Expr *lo;     /* of the points of a box: its first index */
    Trip trip;          /* of an outer piece: which kind of trip this is */
    /* was to be unrolled, but runs as a loop: its value is no number */
    bool counted;
} IterState;

typedef struct {
    IterId x;
    IterState was;
} Undo;

typedef struct {
    Points *p;
    Ctx *c;
    Arena *a;
    Kernel *k;
    Low *low;      /* [part] */
    IterState *at; /* [iterator] */
    VEC(Undo) undo;
    VEC(Range) range;
    /* [part]: of its only write, where an arm of it has been chosen; else NULL */
    const Scalar **value;
    Phase phase;
    uint32_t lanes;
    const Expr *valid;
    bool stop; /* lanes beyond `valid` read what the last one reads */
    /* the bindings of axes at this point, but for that */
    const Expr *unstopped[NEST_MAX_AXES];
    VEC(Var) padding; /* variables that run over padding while sums are made */
    /* the parallel loop, or the root: where a worker's memory begins */
    const Node *task;
} Env;

typedef struct {
    uint32_t undo, range;
} Scope;

/* ---- iterators (lower_iter.c) ---------------------------------------------------------------- */

/* What is bound, and the ranges of loop variables, from here on… */
Scope env_enter(const Env *e);
/* … are forgotten again. */
void env_leave(Env *e, Scope s);
/* The state of x, to be changed until the scope is left. */
IterState *env_change(Env *e, IterId x);
const Expr *env_simplify(const Env *e, const Expr *x);
/* A named value, in [0, extent) if extent is given. */
const Expr *env_let(Env *e, Block *b, const char *name, const Expr *value, const Expr *extent);
/* A loop; its variable. *b becomes its body. */
const Expr *env_loop(Env *e, Block **b, LoopKind kind, Sym name, const Expr *begin, const Expr *end,
                     int64_t step);
const Iter *env_iter(const Env *e, IterId x);
/* Is this where sums are made, so that padded loops run over their padding? */
bool env_sums(const Env *e);
/* Elements between neighbours along digit i of a fused iterator. */
const Expr *env_digit_step(Env *e, IterId x, uint32_t i);
/* The first point of this trip of an outer piece; NULL: not known. */
const Expr *env_start(Env *e, IterId outer);
/* Trips of x here. */
const Expr *env_extent(Env *e, IterId x);
/* Over all trips, in symbols: for the size of buffers. */
const Expr *env_most(Env *e, IterId x);
/* Where x is; NULL: not known here. */
const Expr *env_value(Env *e, IterId x);
/* x is at `value`, and what it is the last missing piece of is known with it. */
void env_bind(Env *e, IterId x, const Expr *value);
/* The points of x that one trip of the loops around goes over: from *lo on, so many at most. False:
 * all there are. */
bool env_box(Env *e, IterId x, const Expr **lo, const Expr **width);

/* ---- boxes (lower_box.c) --------------------------------------------------------------------- */

/* How large the boxes of parts that were put can be, before anything is known; and that each part
 * finds what it reads. */
bool boxes_begin(Env *e);
/* The boxes of the parts that are put at n, where its body begins. */
void boxes_place(Env *e, const Node *n, Block *b);
/* Where the boxes begin along what x runs over, and how many points of all of them there are, where
 * the loops around stand: further out than the part is put. */
void box_range(Env *e, IterId x, const Expr **lo, const Expr **width);
/* The points of an axis that one trip of the loops around goes over, exactly… */
void points_here(Env *e, IterId x, const Expr **lo, const Expr **width);
/* … and how many there are at most in a trip of loop `at`, in symbols. */
void points_most(Env *e, IterId x, const Node *at, const Expr **width);

/* ---- buffers (lower_buffer.c) ---------------------------------------------------------------- */

/* Has every trip of x a sum of its own? */
bool hold_is_over(const Hold *h, IterId x);
/* Buffers come alive in b. */
void place_hold(Env *e, Block *b, uint32_t id);
void place_copy(Env *e, Block *b, uint32_t id);
/* A worker's memory is laid out once, where its task begins. */
void place_scratch(Env *e, Block *b);
/* The index of a buffer over iterators at this point. False, refused, where it is not known. */
bool place_index(Env *e, Sym name, const IterId *dim, uint32_t ndim, const Hold *h,
                 const Expr **at);

/* ---- tiles (lower_turn.c) -------------------------------------------------------------------- */

/* Registers for a copy that is turned. */
void place_tile(Env *e, Block *b, Copy *k);
void lower_turn(Env *e, const Node *leaf, Block *b);
/* A loop over rows of a tile, fewer of which are there than it has: rows that are not there are 0
 * as it is made. False: it is none. */
bool lower_tile_rows(Env *e, const Node *n, Block *b);
/* Does the leaf make or read a tile, so that it has to be vectors? */
bool leaf_has_tile(const Env *e, const Node *leaf);

/* ---- online (lower_online.c) ----------------------------------------------------------------- */

/* Is what is made with a maximum that still grows read nowhere else than in its loop? */
bool online_finds(Env *e);
void place_online(Env *e, Block *b);
/* Where a hold begins: the maximum so far is lower than any; what was summed before, scaled. */
void online_begins(Env *e, uint32_t hold, Low *l, Block *b);
const Scalar *online_scaled(Env *e, uint32_t hold, Low *l, const Scalar *held);
void lower_rescale(Env *e, const Node *leaf, Block *b, const Scalar *held);
/* Where the body of a loop goes: where its blocks may be omitted, under a test of what its table
 * says. */
Block *online_seen(Env *e, const Node *n, Block *b);

/* ---- images (lower_image.c) ------------------------------------------------------------------ */

/* Memory for the copy, and the copy itself. */
void place_image(Env *e, Block *b, Copy *k);
void lower_image(Env *e, const Node *leaf, Block *b);

/* ---- loops (lower.c) ------------------------------------------------------------------------- */

void lower_body(Env *e, const Node *n, Block *b);

/* ---- points (lower_point.c) ------------------------------------------------------------------ */

/* The part's axes at this point, each by itself. */
Low *env_axes(Env *e, uint32_t part);
/* The part's axes at this point; what is computed here decides which of them are one axis. */
Low *env_low(Env *e, uint32_t part, const Scalar *const *value, uint32_t nvalue, const Write *w);
/* What a leaf computes, at the point where the loops around it stand. */
void lower_leaf(Env *e, const Node *leaf, Block *b);

#endif
